"""What good scores are: training criteria in score space, one a file."""
