"""Dependency trees, scored arc by arc: ``structure`` is the door, ``features`` goes from weights to scores and back,
``best`` finds projective trees, ``sums`` has log-partitions and expectations, and the best trees that need not be
projective.
"""
