"""A campaign that looks for input on which the package crashes, hangs, fills memory or fails without saying why.

``make fuzz`` runs it, or in ``tests/``, ``python -m fuzzing --help``. What can be attacked is a :class:`Target`
(:mod:`~fuzzing.targets`): model files, readers, verbs, kernels. A case is a part of its target (the name of a model, a
reader, ...) and bytes; the case of a number follows from the seed, so a campaign can be continued and repeated.
Cases run in a worker process (:mod:`~fuzzing.worker`), which :mod:`~fuzzing.campaign` watches: the worker may die,
stand still or grow, and the campaign goes on behind the case that did it. What was found is made small
(:mod:`~fuzzing.minimising`) and, once mended, kept in ``crashers/``, which a test replays.
"""
