"""Room 9, what is best: tuning and comparison."""
