"""Room 5, how to get there: optimizers over an objective."""
