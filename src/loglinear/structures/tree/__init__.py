"""Trees of a context-free grammar.

``structure`` is the public interface; ``grammar`` has the rules as numbers; ``features`` maps weights to scores and
back; ``best`` finds best trees; ``sums`` and ``log_sums`` compute log-partitions and expectations; ``pieces``
normalises pieces one by one.
"""
