"""Hidden Markov models: ``model`` has them, counted, ``em`` learns them from hidden labels, ``expectations`` has
expected feature counts, ``tilted`` the normaliser of a chain over them.
"""
