"""Dependency trees, scored arc by arc: ``structure`` is the door, ``features`` goes from weights to scores and back,
``best`` finds the best trees, ``sums`` has log-partitions and expectations.
"""
