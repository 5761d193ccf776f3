"""``criterion="pcfg"``: a probabilistic grammar, counted."""
