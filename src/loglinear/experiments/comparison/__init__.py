"""Comparisons of criteria: ``run`` tunes, trains and tests them, ``result`` is what came of it, ``page`` shows it."""
