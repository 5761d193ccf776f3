"""Room 4, what is good: training criteria in score space, a file each."""
