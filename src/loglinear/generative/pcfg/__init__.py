"""Probabilistic grammars: ``model`` with chains of unary rules and draws, ``lexicon`` the words, ``counts`` estimates
grammars from a treebank, ``em`` from sentences, ``expectations`` has expected counts.
"""
