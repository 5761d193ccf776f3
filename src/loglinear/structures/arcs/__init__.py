"""Dependency trees, scored arc by arc.

``structure`` is the public interface; ``features`` maps weights to scores and back; ``best`` finds best trees; ``sums``
computes log-partitions and expectations.
"""
