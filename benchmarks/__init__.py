"""Experiments behind the tables of the guides; speed beside python-crfsuite is `loglinear bench`."""
