"""How weights are found: optimizers over an objective."""
