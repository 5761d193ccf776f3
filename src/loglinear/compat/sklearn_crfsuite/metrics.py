"""scikit-learn's metrics of labels, for lists of label sequences: all labels in one list each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from loglinear.compat.sklearn_crfsuite.utils import flatten


def _of_labels(name: str) -> Callable[..., Any]:
    """The metric of scikit-learn's with that name, for label sequences."""

    def metric(y_true: Any, y_pred: Any, *arguments: Any, **keywords: Any) -> Any:
        from sklearn import metrics

        return getattr(metrics, name)(flatten(y_true), flatten(y_pred), *arguments, **keywords)

    metric.__name__ = metric.__qualname__ = f"flat_{name}"
    metric.__doc__ = f"``sklearn.metrics.{name}`` of the labels of all sequences, with its arguments."
    return metric


flat_accuracy_score = _of_labels("accuracy_score")
flat_precision_score = _of_labels("precision_score")
flat_recall_score = _of_labels("recall_score")
flat_f1_score = _of_labels("f1_score")


def flat_fbeta_score(y_true: Any, y_pred: Any, beta: float, **keywords: Any) -> Any:
    """``sklearn.metrics.fbeta_score`` of the labels of all sequences, with its arguments."""
    from sklearn import metrics

    return metrics.fbeta_score(flatten(y_true), flatten(y_pred), beta=beta, **keywords)


def flat_classification_report(y_true: Any, y_pred: Any, labels: Sequence[str] | None = None, **keywords: Any) -> Any:
    """``sklearn.metrics.classification_report`` of the labels of all sequences, with its arguments."""
    from sklearn import metrics

    return metrics.classification_report(flatten(y_true), flatten(y_pred), labels=labels, **keywords)


def sequence_accuracy_score(y_true: Sequence[Any], y_pred: Sequence[Any]) -> float:
    """The share of sequences whose labels are all right."""
    if len(y_true) != len(y_pred):
        raise ValueError(f"there are {len(y_true)} sequences of true labels, but {len(y_pred)} of predicted ones")
    if not len(y_true):
        return 0
    return sum(list(a) == list(b) for a, b in zip(y_true, y_pred, strict=True)) / len(y_true)
