"""Linear chains.

``structure`` is the public interface; ``features`` maps weights to scores and back; ``best`` and ``log_sums`` find best
labellings; ``sums`` and ``log_sums`` compute log-partitions and expectations, ``covariance`` covariances with a cost;
``pieces`` normalises pieces one by one; ``padded`` has the training passes in single precision. For many labels of
which few transitions have a weight, ``steps`` has these as lists, ``wide`` the training passes and ``marginals``
probabilities.
"""
