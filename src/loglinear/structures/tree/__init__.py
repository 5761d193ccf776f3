"""Trees of a context-free grammar: ``structure`` is the door, ``grammar`` has the rules in numbers, ``features`` goes
from weights to scores and back, ``best`` finds trees, ``sums`` and ``log_sums`` log-partitions and expectations,
``pieces`` normalises pieces one by one.
"""
