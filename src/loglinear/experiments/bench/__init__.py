"""The benchmark: this package and python-crfsuite on the same file with the same features and the same objective.

Each measurement is a :class:`~.job.Job`, done in a process of its own (:mod:`.child`), so that its memory is its own.
:mod:`.plan` says which there are, :mod:`.tables` makes tables of them.
"""
