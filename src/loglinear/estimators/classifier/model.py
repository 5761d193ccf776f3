"""A trained classifier: scores of labels, their probabilities, and what each column or row adds to them.

    f_y(x) = w_y . x + b_y                  p(y) = exp f_y / sum_y' exp f_y'            direct (9.11)
                                            p(y) = sigma(f_y) / sum_y' sigma(f_y')      one-versus-all

With two labels there is one score f = f_1 - f_0 (9.9), and p(1) = sigma(f). With a kernel, sums over training rows take
the place of w_y . x (:class:`KernelModel`). Letters: S rows, Y labels, A columns, R scores: 1 with two labels, else Y;
M support rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import log_expit, logsumexp

from loglinear.arrays import Array, Float, Int64
from loglinear.data.columns.corpus import offsets_of
from loglinear.errors import DataError
from loglinear.estimators.classifier.inputs import RowEncoder, Rows
from loglinear.features.gram import KernelFunction, Linear, blocks, gram
from loglinear.features.names import AttributeLists, NameEncoder
from loglinear.structures.flat.features import CandidateCorpus, CandidateFeatures

Labels = Array


@dataclass(frozen=True)
class LinearScores:
    """R linear functions of rows.

    Parameters
    ----------
    coef : float64 [R, A]
    intercept : float64 [R]
    """

    coef: Float
    intercept: Float

    def __call__(self, rows: Rows) -> Float:
        """Their values [S, R]."""
        return np.asarray(rows @ self.coef.T) + self.intercept

    def plus(self, other: LinearScores) -> LinearScores:
        """The sum of both."""
        return LinearScores(self.coef + other.coef, self.intercept + other.intercept)

    def minus(self, other: LinearScores) -> LinearScores:
        """The difference of both."""
        return LinearScores(self.coef - other.coef, self.intercept - other.intercept)


class RowModel(ABC):
    """What a classifier of rows has learnt, whatever its scores are functions of.

    Attributes
    ----------
    labels : array [Y]
        Sorted.
    encoder : RowEncoder
    one_versus_all : bool
        Whether each label was trained against all others.
    own_base : object or None
        A base of the user's own, whose scores are added.
    """

    labels: Labels
    encoder: RowEncoder
    one_versus_all: bool
    own_base: Any

    @abstractmethod
    def own_scores(self, rows: Rows, similar: Float | None = None) -> Float:
        """The scores [S, R] without those of a base of the user's own; arguments as for :meth:`decision`."""

    @abstractmethod
    def contributions(self, row: Rows) -> list[dict[str, float]]:
        """For each label, what each part of the model adds to the score of one row [1, A]."""

    def decision(self, rows: Rows, similar: Float | None = None) -> Float:
        """The scores [S, R] of ``rows`` [S, A]; ``similar`` are their kernels with support rows, if known."""
        scores = self.own_scores(rows, similar)
        if self.own_base is not None:
            own = np.asarray(self.own_base.scores(rows), dtype=np.float64)
            scores += own[:, 1:] - own[:, :1] if len(self.labels) == 2 else own
        return scores

    def best(self, rows: Rows) -> Int64:
        """The number of each row's best label [S]."""
        return best_labels(self.decision(rows))

    def log_probabilities(self, rows: Rows) -> Float:
        """log p [S, Y]."""
        return log_probabilities(self.decision(rows), self.one_versus_all)

    def _parts(self, names: list[str], parts: Float, added: Float) -> list[dict[str, float]]:
        """For each label, named ``parts`` [R, n] of its score, and what is ``added`` to all scores [R]."""
        found = []
        for y in range(len(self.labels)):
            sign, r = (y - 0.5, 0) if len(self.labels) == 2 else (1.0, y)
            own = {BIAS: float(sign * added[r])}
            found.append(own | dict(zip(names, (sign * parts[r]).tolist(), strict=True)))
        return found


@dataclass(frozen=True)
class LinearModel(RowModel):
    """What a classifier has learnt.

    Parameters
    ----------
    labels : array [Y]
        Sorted.
    encoder : RowEncoder
    scores : LinearScores
        All of the model, a linear base included.
    one_versus_all : bool
        Whether each label was trained against all others.
    base : LinearScores, optional
        The generative base's part of the scores.
    own_base : object, optional
        A base of the user's own, whose scores are added; it is not in ``scores``.
    """

    labels: Labels
    encoder: RowEncoder
    scores: LinearScores
    one_versus_all: bool = False
    base: LinearScores | None = None
    own_base: Any = None

    def own_scores(self, rows: Rows, similar: Float | None = None) -> Float:
        return self.scores(rows)

    def contributions(self, row: Rows) -> list[dict[str, float]]:
        """For each label, what each column of one row [1, A], and the bias, adds to its score."""
        dense = np.asarray(row.toarray() if hasattr(row, "toarray") else row, dtype=np.float64).ravel()
        names, present = self.encoder.names(), np.flatnonzero(dense)
        parts = dense[present] * self.scores.coef[:, present]
        return self._parts([names[i] for i in present.tolist()], parts, self.scores.intercept)


@dataclass(frozen=True)
class KernelModel(RowModel):
    """What a classifier with a kernel has learnt:  f_y(x) = sum_i a_iy k(x_i, x) + b_y  over support rows x_i.

    Parameters
    ----------
    labels, encoder, one_versus_all, own_base
        As for :class:`LinearModel`.
    kernel : KernelFunction
    support : float64 [M, A] or a SciPy matrix in CSR
        Training rows.
    numbers : int64 [M]
        Their numbers in the training data, ascending.
    scores : LinearScores
        The coefficients [R, M], and the intercept.
    base : LinearScores, optional
        A linear base, whose scores are added.
    """

    labels: Labels
    encoder: RowEncoder
    kernel: KernelFunction
    support: Rows
    numbers: Int64
    scores: LinearScores
    one_versus_all: bool = False
    base: LinearScores | None = None
    own_base: Any = None

    def own_scores(self, rows: Rows, similar: Float | None = None) -> Float:
        if similar is None:
            runs = blocks(rows.shape[0], self.support.shape[0])
            made = [self.scores(gram(self.kernel, rows[a:b], self.support)) for a, b in runs]
            learnt = np.concatenate(made) if made else np.zeros((0, len(self.scores.coef)))
        else:
            learnt = self.scores(similar)
        return learnt if self.base is None else learnt + self.base(rows)

    def contributions(self, row: Rows) -> list[dict[str, float]]:
        """For each label, what each support row, the bias and a linear base add to the score of one row [1, A]."""
        parts = self.scores.coef * gram(self.kernel, row, self.support)
        names = [f"row {number}" for number in self.numbers.tolist()]
        if self.base is not None:
            names, parts = [*names, BASE], np.hstack([parts, self.base(row).T])
        return self._parts(names, parts, self.scores.intercept)

    @property
    def linear(self) -> LinearScores | None:
        """The same scores as linear functions of the columns, a linear base included, if the kernel is linear."""
        if not isinstance(self.kernel, Linear):
            return None
        coef = np.asarray(self.support.T @ self.scores.coef.T).T
        learnt = LinearScores(np.ascontiguousarray(coef), self.scores.intercept)
        return learnt if self.base is None else learnt.plus(self.base)

    def pruned(self) -> KernelModel:
        """The same model without rows that do not count; one remains if none does."""
        used = np.flatnonzero(self.scores.coef.any(axis=0))
        used = used if len(used) else np.zeros(1, dtype=np.int64)
        scores = LinearScores(np.ascontiguousarray(self.scores.coef[:, used]), self.scores.intercept)
        return replace(self, support=self.support[used], numbers=self.numbers[used], scores=scores)


BIAS, BASE = "(bias)", "(base)"


def best_labels(decision: Float) -> Int64:
    """The number of each row's best label [S], of scores [S, R]."""
    return (decision[:, 0] > 0).astype(np.int64) if decision.shape[1] == 1 else decision.argmax(axis=1)


def log_probabilities(decision: Float, one_versus_all: bool) -> Float:
    """log p [S, Y] of scores [S, R]."""
    if decision.shape[1] == 1:
        return np.asarray(log_expit(decision * np.array([-1.0, 1.0])))
    logs = log_expit(decision) if one_versus_all else decision
    return np.asarray(logs - logsumexp(logs, axis=1, keepdims=True))


# ----------------------------------------------------------------------------------------------------------------------
# Maximum entropy with feature maps of a user's own (Zhang, 9.12): from functions to numbers, and a trained model.
#
#     s(y) = w . z(x, y)        for the candidates y of x        p(y) = exp s(y) / sum over candidates
#
# ``feature_map(x, y)`` gives z as names or a dict, by the rules of Python features; ``candidates(x)`` gives the labels
# that x may have: all labels if there is no such function.


KIND = "candidates"


@dataclass(frozen=True)
class CandidateEncoder:
    """Turns examples into candidates with features.

    Parameters
    ----------
    feature_map : callable
        From an example and a label to features.
    candidates : callable, optional
        From an example to its labels.
    names : NameEncoder
        The features' names.
    """

    feature_map: Callable[[Any, Any], Any]
    candidates: Callable[[Any], Iterable[Any]] | None
    names: NameEncoder

    @classmethod
    def fit(
        cls, feature_map: Any, candidates: Any, examples: list[Any], y: Labels, min_count: int
    ) -> tuple[CandidateEncoder, Labels, CandidateCorpus]:
        """The encoder, the labels [Y] (those of ``y`` [S] and of all candidates) and the training examples."""
        encoder, labels, lists = cls(feature_map, candidates, NameEncoder()), np.unique(y), None
        if candidates is not None:
            lists = [encoder._asked(i, x) for i, x in enumerate(examples)]
            for i, (own, right) in enumerate(zip(lists, y.tolist(), strict=True)):
                if right not in own:
                    raise DataError(f"example {i} (from 0): its label {right!r} is not among its candidates")
            labels = np.unique(np.array([label for own in lists for label in own], dtype=y.dtype))
        attributes, offsets, numbers = encoder._collected(examples, labels, lists)
        encoded = encoder.names.fit(attributes, min_count)
        return encoder, labels, _corpus(encoded, offsets, numbers)

    def transform(self, examples: list[Any], labels: Labels) -> CandidateCorpus:
        """Other examples; features that training did not know are left out."""
        lists = None if self.candidates is None else [self._asked(i, x) for i, x in enumerate(examples)]
        attributes, offsets, numbers = self._collected(examples, labels, lists)
        return _corpus(self.names.transform(attributes), offsets, numbers)

    def _asked(self, i: int, x: Any) -> list[Any]:
        """The candidates of an example."""
        assert self.candidates is not None
        try:
            found = list(self.candidates(x))
        except Exception as error:
            raise DataError(f"example {i} (from 0): candidates raised {type(error).__name__}: {error}") from error
        if not found or len(set(found)) != len(found):
            what = "it has a candidate twice" if found else "it has no candidates"
            raise DataError(f"example {i} (from 0): {what}")
        return found

    def _collected(self, examples: list[Any], labels: Labels, lists: list[list[Any]] | None) -> Any:
        collected, numbers, every = AttributeLists(), list[int](), labels.tolist()
        number_of = {label: number for number, label in enumerate(every)}
        for i, x in enumerate(examples):
            for label in every if lists is None else lists[i]:
                if label not in number_of:
                    raise DataError(f"example {i} (from 0): candidate {label!r} is not a label of the training data")
                numbers.append(number_of[label])
                try:
                    collected.add(self.feature_map(x, label), "candidate")
                except DataError as error:
                    raise DataError(f"example {i} (from 0), label {label!r}: {error}") from None
                except Exception as error:
                    what = f"feature_map raised {type(error).__name__}: {error}"
                    raise DataError(f"example {i} (from 0), label {label!r}: {what}") from error
        lengths = np.full(len(examples), len(every)) if lists is None else [len(own) for own in lists]
        return collected.corpus(np.arange(len(numbers) + 1, dtype=np.int64)), offsets_of(lengths), numbers


def _corpus(encoded: Any, offsets: Int64, numbers: list[int]) -> CandidateCorpus:
    state = encoded.state
    values = np.ones(len(state.ids)) if state.values is None else state.values
    return CandidateCorpus(offsets, np.array(numbers, dtype=np.int32), state.pointer, state.ids, values)


@dataclass(frozen=True)
class CandidateModel:
    """What a classifier has learnt.

    Parameters
    ----------
    labels : array [Y]
        Sorted.
    encoder : CandidateEncoder
    weights : float64 [D]
    """

    labels: Labels
    encoder: CandidateEncoder
    weights: Float

    @property
    def features(self) -> CandidateFeatures:
        """How weights become scores."""
        return CandidateFeatures(len(self.weights), len(self.labels))

    def scores(self, corpus: CandidateCorpus) -> Float:
        """Scores [S, Y], -inf for labels that are not candidates."""
        return self.features.scores(self.weights, corpus, 0, corpus.n_sequences).labels

    def best(self, corpus: CandidateCorpus) -> Int64:
        """The number of each example's best candidate [S]."""
        return self.scores(corpus).argmax(axis=1)

    def log_probabilities(self, corpus: CandidateCorpus) -> Float:
        """log p [S, Y]."""
        scores = self.scores(corpus)
        return np.asarray(scores - logsumexp(scores, axis=1, keepdims=True))

    def contributions(self, corpus: CandidateCorpus) -> list[dict[str, float]]:
        """For each candidate of the one example, what each feature adds to its score; other labels have no features."""
        found: list[dict[str, float]] = [{} for _ in self.labels]
        names = self.encoder.names.names()
        for c, label in enumerate(corpus.labels.tolist()):
            own = slice(int(corpus.pointer[c]), int(corpus.pointer[c + 1]))
            for i, value in zip(corpus.ids[own].tolist(), corpus.values[own].tolist(), strict=True):
                found[label][names[i]] = found[label].get(names[i], 0.0) + value * float(self.weights[i])
        return found
