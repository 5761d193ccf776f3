"""One label for each row.

``structure`` has best labels, log-partitions and expectations; ``features`` maps weights to scores and back, for rows
of numbers and for lists of candidates.
"""
