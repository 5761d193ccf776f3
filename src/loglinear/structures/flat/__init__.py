"""One label for each row: ``structure`` has best labels, log-partitions and expectations, ``features`` goes from
weights to scores and back, for rows of numbers and for lists of candidates.
"""
