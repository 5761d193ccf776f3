"""Parsers of phrases: ``estimator`` is what users hold, ``problem`` has the criteria that train it, ``model`` and
``file`` are the trained one.
"""
