"""Probabilistic grammars: ``model`` has them, with chains of unary rules and draws, ``lexicon`` their words, ``counts``
reads them off a treebank, ``em`` learns them from sentences, ``expectations`` has expected counts.
"""
