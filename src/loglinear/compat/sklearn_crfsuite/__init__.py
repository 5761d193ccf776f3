"""What programs written for sklearn-crfsuite import: the estimator, metrics and scorers, with loglinear behind them.

See :mod:`loglinear.compat`.
"""

from loglinear.compat.sklearn_crfsuite.estimator import CRF

__all__ = ["CRF"]
