"""Hidden Markov models: ``model`` is counted, ``em`` learns from hidden labels, ``expectations`` has expected feature
counts, ``tilted`` the normaliser of a log-linear model over one.
"""
