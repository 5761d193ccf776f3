"""Labelled sequences as experiments see them: parts of them, their labels, and a mark to know them again by."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from loglinear.arrays import Array, Float, Int64
from loglinear.data import Attributes, Column, Columns
from loglinear.errors import DataError, OptionError
from loglinear.estimators.tagger.inputs import Corpus, annotation_of, corpus_of
from loglinear.evaluation.chunks import chunk_scores, has_chunks
from loglinear.evaluation.labels import Labelling, label_counts, percent
from loglinear.training.problem import example_weights

REHEARSED = 20  # sentences, beside those that have all labels


@dataclass(frozen=True)
class Data:
    """A corpus, its labels if they come apart, and a weight for each sequence if there is one.

    Parameters
    ----------
    corpus : Columns or Attributes
    y : list of label sequences or None
        None if the corpus has labels itself.
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
        """What a user gives: a corpus, or sequences of rows (``as_rows``) or of features, and labels."""
        corpus = X if isinstance(X, Columns | Attributes) else corpus_of(X, as_rows)
        if not len(corpus):
            raise DataError("there is no sequence", corpus.name)
        labels = None if y is None else list(y)
        annotation_of(corpus, labels, label_column, partial)  # says what is wrong with them
        checked = None if weights is None else example_weights(weights, len(corpus))
        return cls(corpus, labels, checked, label_column, partial)

    def __len__(self) -> int:
        return len(self.corpus)

    def select(self, sentences: Int64) -> Data:
        """The sequences of these numbers."""
        return Data(
            self.corpus.select(sentences),
            None if self.y is None else [self.y[s] for s in sentences.tolist()],
            None if self.weights is None else self.weights[sentences],
            self.label_column,
            self.partial,
        )

    def fit_arguments(self) -> dict[str, Any]:
        """Arguments of :meth:`loglinear.Tagger.fit`."""
        return {
            "X": self.corpus,
            "y": self.y,
            "sample_weight": self.weights,
            "label_column": self.label_column,
            "partial": self.partial,
        }

    def labels(self) -> list[str]:
        """The labels that occur, sorted."""
        return sorted(annotation_of(self.corpus, self.y, self.label_column, self.partial).label_names())

    def gold(self) -> Labelling:
        """The labels, one for each token."""
        annotation = annotation_of(self.corpus, self.y, self.label_column, self.partial)
        settled = annotation.settled
        if not settled.all():
            message = "a score needs one gold label for each token; partial ones are for training"
            raise annotation.place(int(np.argmin(settled)), message)
        values = sorted(annotation.label_names())
        return annotation.known_only(values), values, self.corpus.offsets

    def check_like(self, training: Data, name: str) -> None:
        """Refuse sequences to score that are none of the kind of the ``training`` ones."""
        if self.label_column < 0:  # with another, columns may follow that nobody looks at
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

    def labelled_apart(self, ids: Array, values: list[str]) -> Labelling:
        """Labels of the same tokens, by number."""
        return ids, values, self.corpus.offsets

    def mark(self) -> str:
        """A fingerprint of all that a training or a score depends on."""
        digest = hashlib.sha256()
        corpus = self.corpus
        for array in (corpus.offsets, self.weights):
            digest.update(b"-" if array is None else np.ascontiguousarray(array).tobytes())
        columns = corpus.columns if isinstance(corpus, Columns) else [corpus.label] if corpus.label is not None else []
        if isinstance(corpus, Attributes):
            columns = [*columns, Column(corpus.ids, corpus.values)]
            for more in (corpus.pointer, corpus.weights, corpus.sequence_weights):
                digest.update(b"-" if more is None else np.ascontiguousarray(more).tobytes())
        for column in columns:
            digest.update(column.ids.tobytes())
            digest.update("\0".join(column.values).encode())
        labels = None if self.y is None else [[_plain(label) for label in sequence] for sequence in self.y]
        digest.update(repr((labels, self.label_column, self.partial)).encode())
        return digest.hexdigest()[:16]

    def nested(self, seed: int) -> Int64:
        """An order of the sequences whose beginnings are samples: shuffled, but all labels occur early on."""
        order = np.random.default_rng([seed, 8]).permutation(len(self))
        covering = self._covering()
        return np.concatenate([covering, order[~np.isin(order, covering)]])

    def part(self, share: float, seed: int) -> Data:
        """So large a part of the sequences; a smaller part lies within a larger one."""
        if share >= 1.0:
            return self
        n = max(1, round(share * len(self)))
        return self.select(np.sort(self.nested(seed)[:n]))

    def sample(self) -> Data:
        """A few sequences in which all labels occur, to try options on."""
        first = np.arange(min(REHEARSED, len(self)))
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
        ids = annotation_of(self.corpus, self.y, self.label_column, self.partial).ids
        first = np.unique(ids, return_index=True)[1]
        return np.unique(np.searchsorted(self.corpus.offsets, first, side="right") - 1).astype(np.int64)


def _plain(label: Any) -> Any:
    return label if label is None or isinstance(label, str) else sorted(label)


# ----------------------------------------------------------------------------------------------------------------------
# What a labelling is judged by: figures by name, all in percent, or a function of the user's own.


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
