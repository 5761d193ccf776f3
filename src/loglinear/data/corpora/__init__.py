"""Corpora: the bundled treebank, generated sentences, and public corpora to download.

``train.mrg``, ``dev.mrg`` and ``test.mrg`` hold one tree per line. A label may have an entity mark after ``=``:
``(NP=PER (NNP Anna) (NNP Berg))``, ``(NNP=LOC Oslo)``. ``bundled`` reads them, and derives columns (parts of speech,
chunks, entities, dependencies) from the trees of any treebank with Penn labels. ``generator`` makes more sentences from
``grammar.txt`` and ``lexicon.txt``, and ``download`` fetches public corpora.
"""
