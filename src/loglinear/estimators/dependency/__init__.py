"""Dependency parsers: ``estimator`` is what users hold, ``options`` checks its options, ``problem`` is its training
data in numbers, ``model`` and ``file`` are the trained one.
"""
