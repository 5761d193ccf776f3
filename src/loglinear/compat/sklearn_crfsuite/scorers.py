"""Scorers for scikit-learn's ``cross_val_score``, ``GridSearchCV`` and the like; made when they are asked for."""

from __future__ import annotations

from typing import Any

_METRICS = {"flat_accuracy": "flat_accuracy_score", "sequence_accuracy": "sequence_accuracy_score"}


def __getattr__(name: str) -> Any:
    if name not in _METRICS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sklearn.metrics import make_scorer

    from loglinear.compat.sklearn_crfsuite import metrics

    globals()[name] = scorer = make_scorer(getattr(metrics, _METRICS[name]))
    return scorer
