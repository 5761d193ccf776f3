"""Labelled sequences for experiments: samples and folds of them, their labels, a fingerprint, and their scores."""

from __future__ import annotations

import hashlib
import itertools
import math
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from loglinear.arrays import Array, Float, Int64
from loglinear.data import Attributes, Column, Columns
from loglinear.errors import DataError, OptionError
from loglinear.estimators.tagger.estimator import Tagger
from loglinear.estimators.tagger.inputs import Annotation, Corpus, annotation_of, corpus_of
from loglinear.evaluation.chunks import chunk_scores, has_chunks
from loglinear.evaluation.labels import label_counts, percent
from loglinear.training.problem import example_weights

Labelled = tuple[Array, list[str], Int64]  # label numbers [N], their names, offsets [S + 1]
SAMPLE = 20  # sentences, beside those that have all labels


_parting = threading.Lock()


@dataclass(frozen=True)
class Data:
    """A corpus, its labels if they are given separately, and a weight for each sequence if there is one.

    Parameters
    ----------
    corpus : Columns or Attributes
    y : list of label sequences or None
        None if the corpus holds the labels.
    weights : float64 [S] or None
    label_column, partial
        As for :meth:`loglinear.Tagger.fit`.
    """

    corpus: Corpus
    y: list[Any] | None = None
    weights: Float | None = None
    label_column: int = -1
    partial: bool = False

    @classmethod
    def of(
        cls, X: Any, y: Any, as_rows: bool, weights: Any = None, label_column: int = -1, partial: bool = False
    ) -> Data:
        """Data as users give it: a corpus, or sequences of rows (``as_rows``) or of features, and labels."""
        corpus = X if isinstance(X, Columns | Attributes) else corpus_of(X, as_rows, empty=True)
        if not len(corpus):
            raise DataError("there is no sequence in the data", corpus.name)
        lengths = np.diff(corpus.given_offsets)
        checked, labels = None if weights is None else example_weights(weights, len(lengths)), y
        if corpus.given is not None and y is not None:
            annotation_of(corpus, labels := list(y))  # names the sequences as they were given
            labels = [own for own, length in zip(labels, lengths.tolist(), strict=True) if length]
            corpus = replace(corpus, given=None)
        checked = None if checked is None else checked[lengths > 0]
        data = cls(corpus, None if labels is None else list(labels), checked, label_column, partial)
        data.annotation  # noqa: B018  # raises if the labels are wrong
        return data

    @cached_property
    def annotation(self) -> Annotation:
        """The labels, as training sees them."""
        return annotation_of(self.corpus, self.y, self.label_column, self.partial)

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: another process finds the annotation for itself."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __len__(self) -> int:
        return len(self.corpus)

    def select(self, sentences: Int64) -> Data:
        """The sequences of these numbers."""
        y = None if self.y is None else [self.y[s] for s in sentences.tolist()]
        weights = None if self.weights is None else self.weights[sentences]
        return replace(self, corpus=self.corpus.select(sentences), y=y, weights=weights)

    def fit_arguments(self) -> dict[str, Any]:
        """Arguments of :meth:`loglinear.Tagger.fit`."""
        names = {"corpus": "X", "weights": "sample_weight"}
        return {names.get(field.name, field.name): getattr(self, field.name) for field in fields(self)}

    def labels(self) -> list[str]:
        """The labels that occur, sorted."""
        return sorted(self.annotation.label_names())

    def gold(self) -> Labelled:
        """The labels, one for each token."""
        settled, values = self.annotation.settled, self.labels()
        if not settled.all():
            message = "a score needs one gold label for each token; partial ones are for training"
            raise self.annotation.place(int(np.argmin(settled)), message)
        return self.annotation.known_only(values), values, self.corpus.offsets

    def predicted(self, tagger: Tagger) -> Labelled:
        """The labels that a tagger gives."""
        return tagger.predict_numbers(self.corpus)[0], tagger.classes_, self.corpus.offsets

    def check_like(self, training: Data, name: str) -> None:
        """Reject sequences to score that do not have the columns and labels of the ``training`` ones."""
        if self.label_column < 0:  # otherwise columns may follow the labels that training does not look at
            columns, expected = self._n_columns(), training._n_columns()
            if None not in (columns, expected) and columns != expected:
                counts = f"{columns} beside the label, the training data {expected}"
                raise DataError(f"the {name} has another number of columns: {counts}", self.corpus.name)
        if not set(self.labels()) & set(training.labels()):
            raise DataError(f"none of the {name}'s labels is a label of the training data", self.corpus.name)

    def _n_columns(self) -> int | None:
        """Columns beside the label; None for ready-made attributes."""
        if isinstance(self.corpus, Attributes):
            return None
        return len(self.corpus.columns) - (1 if self.y is None else 0)

    def mark(self) -> str:
        """A fingerprint of everything that a training or a score depends on."""
        corpus, digest = self.corpus, hashlib.sha256()
        arrays: list[Array | None] = [corpus.offsets, self.weights]
        if isinstance(corpus, Attributes):
            columns = [*filter(None, [corpus.label]), Column(corpus.ids, corpus.values)]
            arrays += [corpus.pointer, corpus.weights, corpus.sequence_weights]
        else:
            columns = corpus.columns
        for array in arrays:
            digest.update(b"-" if array is None else np.ascontiguousarray(array).tobytes())
        for column in columns:
            digest.update(column.ids.tobytes())
            digest.update("\0".join(column.values).encode())
        labels = None if self.y is None else [[_plain(label) for label in sequence] for sequence in self.y]
        digest.update(repr((labels, self.label_column, self.partial)).encode())
        return digest.hexdigest()[:16]

    def nested(self, seed: int) -> Int64:
        """An order of the sequences of which every beginning is a sample: shuffled, but all labels occur early on."""
        order = np.random.default_rng([seed, 8]).permutation(len(self))
        covering = self._covering()
        return np.concatenate([covering, order[~np.isin(order, covering)]])

    def part(self, share: float, seed: int) -> Data:
        """A share of the sequences; a smaller part lies within a larger one."""
        if share >= 1.0:
            return self
        n = max(1, round(share * len(self)))
        with _parting:  # threads that want the same part get the same object
            if (n, seed) not in self._parts:
                self._parts[n, seed] = self.select(np.sort(self.nested(seed)[:n]))
            return self._parts[n, seed]

    @cached_property
    def _parts(self) -> dict[tuple[int, int], Data]:
        """The parts made so far: the same object, so that it is sent to a process once."""
        return {}

    def sample(self) -> Data:
        """A few sequences in which all labels occur, to try options on."""
        first = np.arange(min(SAMPLE, len(self)))
        return self.select(np.union1d(first, self._covering()))

    def folds(self, k: int, seed: int) -> list[tuple[Data, Data]]:
        """Parts to train on and to score, k times."""
        if not 2 <= k <= len(self):
            raise OptionError(f"folds={k}: {len(self)} sequences can be cut into 2 to {len(self)} parts")
        held_out = np.array_split(np.random.default_rng([seed, 9]).permutation(len(self)), k)
        every = np.arange(len(self))
        return [(self.select(np.setdiff1d(every, some)), self.select(np.sort(some))) for some in held_out]

    def _covering(self) -> Int64:
        """The first sequence of each distinct annotation, in order."""
        first = np.unique(self.annotation.ids, return_index=True)[1]
        return np.unique(np.searchsorted(self.corpus.offsets, first, side="right") - 1).astype(np.int64)


def _plain(label: Any) -> Any:
    return label if label is None or isinstance(label, str) else sorted(label)


# ----------------------------------------------------------------------------------------------------------------------
# What labels are judged by: figures by name, all in percent, or a function of the user's own.


Metric = str | Callable[[list[list[str]], list[list[str]]], float]
CHUNK_METRICS = ("f1", "precision", "recall")
METRICS = (*CHUNK_METRICS, "accuracy", "sentence-accuracy")
OWN = "own"


def all_scores(gold: Labelled, predicted: Labelled) -> dict[str, float]:
    """Every named figure that applies: those of chunks only where the labels are those of chunks."""
    counts = label_counts(gold, predicted)
    _, tokens, right = counts.sum(axis=0).tolist()
    scores = {}
    if has_chunks({values[y] for ids, values, _ in (gold, predicted) for y in np.unique(ids).tolist()}):
        report = chunk_scores(gold, predicted)
        scores = {name: getattr(report, name) for name in CHUNK_METRICS}
    whole = int(np.count_nonzero(counts[:, 1] == counts[:, 2]))
    return {**scores, "accuracy": percent(right, tokens), "sentence-accuracy": percent(whole, len(counts))}


def metric_for(metric: Metric, labels: Collection[str]) -> Metric:
    """The metric, ``auto`` being F1 for chunks and accuracy for other labels; one that does not fit is rejected."""
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
    """The name of a metric in tables."""
    return metric if isinstance(metric, str) else getattr(metric, "__name__", OWN)


def judged(metric: Metric, gold: Labelled, predicted: Labelled) -> tuple[float, dict[str, float]]:
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


def _sequences(labelled: Labelled) -> list[list[str]]:
    """Labels as lists of strings, for a function of the user's own."""
    ids, values, offsets = labelled
    names: list[str] = [values[y] for y in ids.tolist()]
    return [names[begin:end] for begin, end in itertools.pairwise(offsets.tolist())]
