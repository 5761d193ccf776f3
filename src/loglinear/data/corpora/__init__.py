"""Corpora: the bundled treebank, generated sentences, public corpora to fetch.

``train.mrg``, ``dev.mrg`` and ``test.mrg`` hold one tree a line. A label may carry an entity mark after ``=``:
``(NP=PER (NNP Anna) (NNP Berg))``, ``(NNP=LOC Oslo)``. ``bundled`` reads them, and derives
columns from the trees of any treebank with Penn labels: parts of speech, chunks, entities, dependencies. ``generator``
makes more sentences from ``grammar.txt`` and ``lexicon.txt``, and ``download`` fetches public corpora.
"""
