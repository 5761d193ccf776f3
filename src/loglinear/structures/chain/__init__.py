"""Linear chains: ``structure`` is the door, ``features`` goes from weights to scores and back, ``best`` and
``log_sums`` find best labellings, ``sums`` and ``log_sums`` log-partitions and expectations, ``covariance``
covariances with a cost, ``pieces`` normalises pieces one by one, ``padded`` is single precision.
"""
