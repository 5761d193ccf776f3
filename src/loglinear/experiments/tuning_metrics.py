"""What a labelling is judged by: figures by name, all in percent, or a function of the user's own."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from loglinear.errors import OptionError
from loglinear.evaluation.chunks import chunk_scores
from loglinear.evaluation.labels import Labelling, label_counts, percent
from loglinear.evaluation.schemes import has_chunks

Metric = str | Callable[[list[list[str]], list[list[str]]], float]
CHUNK_METRICS = ("f1", "precision", "recall")
METRICS = (*CHUNK_METRICS, "accuracy", "sentence-accuracy")
OWN = "own"


def all_scores(gold: Labelling, predicted: Labelling) -> dict[str, float]:
    """Every named figure that makes sense: those of chunks only where the labels are those of chunks."""
    counts = label_counts(gold, predicted)
    _, tokens, right = counts.sum(axis=0).tolist()
    scores = {}
    if has_chunks({*_values(gold), *_values(predicted)}):
        report = chunk_scores(gold, predicted)
        scores = {name: getattr(report, name) for name in CHUNK_METRICS}
    whole = int(np.count_nonzero(counts[:, 1] == counts[:, 2]))
    return {**scores, "accuracy": percent(right, tokens), "sentence-accuracy": percent(whole, len(counts))}


def metric_for(metric: Metric, labels: Collection[str]) -> Metric:
    """The metric, ``auto`` being F1 for chunks and accuracy for other labels; one that does not fit is refused."""
    if not isinstance(metric, str):
        if not callable(metric):
            raise OptionError(f"metric={metric!r:.60} is neither a name ({', '.join(METRICS)}) nor a function")
        return metric
    chunks = has_chunks(labels)
    if metric == "auto":
        return "f1" if chunks else "accuracy"
    if metric not in METRICS:
        raise OptionError(f"metric={metric!r} is not one of auto, {', '.join(METRICS)}")
    if metric in CHUNK_METRICS and not chunks:
        some = ", ".join(sorted(labels)[:4])
        raise OptionError(f"metric={metric!r} counts chunks, but the labels ({some}, ...) have none; try accuracy")
    return metric


def metric_name(metric: Metric) -> str:
    """What a metric is called in tables."""
    return metric if isinstance(metric, str) else getattr(metric, "__name__", OWN)


def judged(metric: Metric, gold: Labelling, predicted: Labelling) -> tuple[float, dict[str, float]]:
    """The metric's figure, higher being better, and all the others."""
    scores = all_scores(gold, predicted)
    if isinstance(metric, str):
        return scores.get(metric, 0.0), scores
    value = metric(_sequences(gold), _sequences(predicted))
    try:
        figure = float(value)
    except (TypeError, ValueError, OverflowError):
        figure = math.nan
    if not math.isfinite(figure):
        raise OptionError(f"the metric {metric_name(metric)} gave {value!r:.40}, not a number")
    return figure, scores


def _values(labelling: Labelling) -> Collection[str]:
    """The labels that occur."""
    if isinstance(labelling, tuple):
        ids, values, _ = labelling
        return [values[y] for y in np.unique(np.asarray(ids)).tolist()]
    return {label for sequence in labelling for label in sequence}


def _sequences(labelling: Labelling) -> list[list[str]]:
    """A labelling as lists of strings, for a function of the user's own."""
    if not isinstance(labelling, tuple):
        return [list(sequence) for sequence in labelling]
    ids, values, offsets = labelling
    names: list[Any] = [values[y] for y in np.asarray(ids).tolist()]
    bounds = np.asarray(offsets).tolist()
    return [names[bounds[s] : bounds[s + 1]] for s in range(len(bounds) - 1)]
