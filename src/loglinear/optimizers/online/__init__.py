"""Online learning: ``general`` goes over any structure, ``chain`` and ``flat`` are compiled passes over chains and over
flat labels, ``learner`` is what they know of a criterion.
"""
