"""Slow and simple: every labelling, tree or choice of heads of a small problem, scored one by one."""
