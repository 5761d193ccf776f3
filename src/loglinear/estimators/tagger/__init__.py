"""Taggers: ``estimator`` is what users hold, ``inputs`` reads what they hand over, ``problem`` and ``training`` train,
``model``, ``predict`` and ``file`` are the trained one; ``density``, ``hmm`` and ``local`` are other kinds of
taggers.
"""
