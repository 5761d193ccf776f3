"""The benchmark: this package and python-crfsuite on the same file with the same features and the same objective.

Each measurement is a :class:`~.job.Job`, done in a separate process, so that its peak memory is its own: :mod:`.ours`
and :mod:`.peer` measure, :mod:`.plan` lists the jobs, :mod:`.tables` makes tables of them.
"""
