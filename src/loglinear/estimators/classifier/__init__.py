"""Classifiers of rows: ``estimator`` is what users hold, ``options`` checks its options, ``inputs`` makes rows of
numbers, ``problem`` trains, ``model`` and ``file`` are the trained one; ``ridge`` is regression.
"""
