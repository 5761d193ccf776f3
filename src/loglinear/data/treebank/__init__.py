"""The bundled treebank: three files of hand-written trees, and what is derived from trees by code.

``train.mrg``, ``dev.mrg`` and ``test.mrg`` hold one tree a line. A label may carry an entity mark after ``=``:
``(NP=PER (NNP Anna) (NNP Berg))``, ``(NNP=LOC Oslo)``. The sibling modules derive columns from trees, of any
treebank with Penn labels: :mod:`.derive` (parts of speech, entities, rows), :mod:`.chunks`, :mod:`.dependencies`.
"""
