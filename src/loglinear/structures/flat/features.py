"""From weights to the scores of flat labels and back (Zhang, sections 9.1 to 9.4).

Each label has a weight for each of A columns, and a bias (9.11):

    s(y) = w_y . x + b_y z            d/dw_y = sum_i part_i(y) x_i,      d/db_y = z sum_i part_i(y)

The weight vector is the rows [A, Y] of the columns, then the biases [Y] if there are any. z is 1, or another
constant by which rows are extended. A *free* bias is not penalised: :attr:`FlatFeatures.n_penalised` is the number of
weights that are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from loglinear.arrays import Float, Int32, Int64
from loglinear.kernels import kernel
from loglinear.kernels.tables import Lists, SparseGroups, add_list_gradient, list_scores
from loglinear.structures.flat.structure import Flat, FlatScores
from loglinear.structures.structure import ListFeatures, VectorGradient

SCORES_AT_ONCE = 65_536
BIASES = ("free", "penalised", "none")


@kernel
def _scores(pointer: Int64, ids: Int32, values: Float, weights: Float, out: Float) -> None:
    """``out`` [N, Y] += the weights [A, Y] of each row's columns, times their values."""
    for i in range(out.shape[0]):
        row = out[i]
        for j in range(pointer[i], pointer[i + 1]):
            value, column = values[j], weights[ids[j]]
            for y in range(out.shape[1]):
                row[y] += value * column[y]


@kernel
def _add(pointer: Int64, ids: Int32, values: Float, parts: Float, gradient: Float) -> None:
    """``gradient`` [A, Y] += the parts [N, Y] of each row, times its columns' values."""
    for i in range(parts.shape[0]):
        row = parts[i]
        for j in range(pointer[i], pointer[i + 1]):
            value, column = values[j], gradient[ids[j]]
            for y in range(parts.shape[1]):
                column[y] += value * row[y]


@dataclass(frozen=True)
class FlatCorpus:
    """S examples as rows of numbers.

    Parameters
    ----------
    rows : float64 [S, A] or csr_matrix [S, A]
        A sparse matrix has int64 ``indptr``, int32 ``indices`` and float64 ``data``, as :meth:`of` ensures.
    """

    rows: Any

    @classmethod
    def of(cls, rows: Any) -> FlatCorpus:
        """The corpus of a matrix, converted to the types that the kernels take; copied only if necessary."""
        import scipy.sparse as sp  # taggers do without SciPy

        if not sp.issparse(rows):
            return cls(np.ascontiguousarray(rows, dtype=np.float64))
        matrix = sp.csr_matrix(rows, dtype=np.float64)
        if not matrix.has_canonical_format:
            matrix = matrix.copy() if matrix is rows else matrix
            matrix.sum_duplicates()
        if matrix.indptr.dtype == np.int64 and matrix.indices.dtype == np.int32:
            return cls(matrix)
        typed = sp.csr_matrix(matrix.shape, dtype=np.float64)
        typed.data, typed.indices = matrix.data, matrix.indices.astype(np.int32)
        typed.indptr = matrix.indptr.astype(np.int64)
        return cls(typed)

    @property
    def is_sparse(self) -> bool:
        return not isinstance(self.rows, np.ndarray)

    @property
    def n_sequences(self) -> int:
        """S."""
        return int(self.rows.shape[0])

    @property
    def n_columns(self) -> int:
        """A."""
        return int(self.rows.shape[1])

    @cached_property
    def offsets(self) -> Int64:
        """Each example is one position."""
        return np.arange(self.n_sequences + 1, dtype=np.int64)


class FlatElsewhere(FlatCorpus, ABC):
    """Examples whose rows are not in this process, which has their labels."""

    @property
    @abstractmethod
    def labels(self) -> Any:
        """The label of each example [S]."""

    @property
    @abstractmethod
    def names(self) -> list[str] | None:
        """Names of the columns, if they have any."""

    @abstractmethod
    def arrays(self) -> list[Any]:
        """What stands for all numbers."""

    @abstractmethod
    def objective(self, features: FlatFeatures, gold: Any, criterion: Any, l2: float, weights: Float | None) -> Any:
        """Losses and penalty as a function of the weights."""


class SinglePositions:
    """What all features of flat labels share: each example is one position with Y labels."""

    n_labels: int

    def blocks(self, offsets: Int64, first: int, end: int) -> list[tuple[int, int]]:
        """Cut examples ``first`` to ``end`` into runs of few scores."""
        step = max(1, SCORES_AT_ONCE // self.n_labels)
        return [(begin, min(begin + step, end)) for begin in range(first, end, step)]

    def structure(self, corpus: Any, first: int, end: int) -> Flat:
        """The shape of examples ``first`` to ``end``."""
        return Flat(end - first)


@dataclass(frozen=True)
class FlatFeatures(SinglePositions):
    """Weights of A columns and a bias for each of Y labels.

    Parameters
    ----------
    n_columns, n_labels : int
        A and Y.
    bias : {"free", "penalised", "none"}
    scale : float
        The constant z that the bias is multiplied by.
    """

    n_columns: int
    n_labels: int
    bias: str = "free"
    scale: float = 1.0

    @property
    def n_features(self) -> int:
        """D."""
        return (self.n_columns + (self.bias != "none")) * self.n_labels

    @property
    def n_penalised(self) -> int:
        """The number of weights that are penalised; they come first."""
        return (self.n_columns + (self.bias == "penalised")) * self.n_labels

    @cached_property
    def groups(self) -> Int64:
        """The weights of a column are a group; the biases are the last one."""
        return np.arange(0, self.n_features + 1, self.n_labels, dtype=np.int64)

    def split(self, weights: Float) -> tuple[Float, Float]:
        """The weights of the columns [A, Y], and the term that is added to all scores [Y]."""
        table = weights.reshape(-1, self.n_labels)
        if self.bias == "none":
            return table, np.zeros(self.n_labels)
        return table[:-1], self.scale * table[-1]

    def as_lists(self) -> FlatFeatures:
        """The features themselves: their layout is a view of the weight vector."""
        return self

    def lay_out(self, weights: Float, penalties: Any = None) -> Float:
        """The weights as rows [A or A + 1, Y]."""
        return weights.reshape(-1, self.n_labels)

    def refresh_layout(self, laid_out: Float, weights: Float, penalties: Any = None) -> Float:
        """The layout itself, which is a view of the weights."""
        return laid_out

    def scores(self, laid_out: Float, corpus: FlatCorpus, first: int, end: int) -> FlatScores:
        """Scores of the labels of examples ``first`` to ``end``."""
        weights, rows = laid_out[: self.n_columns], corpus.rows
        if corpus.is_sparse:
            out = np.zeros((end - first, self.n_labels))
            _scores(rows.indptr[first : end + 1], rows.indices, rows.data, weights, out)
        else:
            out = rows[first:end] @ weights
        if self.bias != "none":
            out += self.scale * laid_out[-1]
        return FlatScores(out)

    def dense_gradient(self) -> FlatGradient:
        """A gradient of all features."""
        return FlatGradient(self)

    def sparse_gradient(self) -> SparseFlatGradient:
        """A gradient of the features of one example."""
        return SparseFlatGradient(self)

    def active_groups(self, corpus: FlatCorpus, sequence: int) -> Iterator[tuple[Int64, Int32, int]]:
        """The columns that an example's scores depend on, and the biases."""
        yield *self.active_columns(corpus, sequence), 0
        if self.bias != "none":
            yield np.array([0, 1], dtype=np.int64), np.array([self.n_columns], dtype=np.int32), 0

    def active_columns(self, corpus: FlatCorpus, sequence: int) -> tuple[Int64, Int32]:
        """The non-zero columns of an example, as ``ids[pointer[0]:pointer[1]]``."""
        if corpus.is_sparse:
            return corpus.rows.indptr[sequence : sequence + 2], corpus.rows.indices
        ids = np.flatnonzero(corpus.rows[sequence]).astype(np.int32)
        return np.array([0, len(ids)], dtype=np.int64), ids


class FlatGradient(VectorGradient):
    """Adds up a gradient by the weights."""

    def __init__(self, features: FlatFeatures) -> None:
        super().__init__(features.n_features)
        self._features = features
        self._rows = self.vector.reshape(-1, features.n_labels)

    def add(self, corpus: FlatCorpus, first: int, end: int, parts: FlatScores) -> None:
        """Add the gradient by the scores of examples ``first`` to ``end``."""
        features, rows, by_scores = self._features, corpus.rows, parts.labels
        columns = self._rows[: features.n_columns]
        if corpus.is_sparse:
            _add(rows.indptr[first : end + 1], rows.indices, rows.data, by_scores, columns)
        else:
            columns += rows[first:end].T @ by_scores
        if features.bias != "none":
            self._rows[-1] += features.scale * by_scores.sum(axis=0)


class SparseFlatGradient(SparseGroups):
    """Collects the gradient of one example at a time."""

    def __init__(self, features: FlatFeatures) -> None:
        super().__init__(features.groups)
        self._features = features
        self._rows = self.values.reshape(-1, features.n_labels)

    def add(self, corpus: FlatCorpus, sequence: int, parts: FlatScores) -> None:
        """Add the gradient by the scores of one example."""
        features, by_scores = self._features, parts.labels[0]
        pointer, ids = features.active_columns(corpus, sequence)
        columns = ids[pointer[0] : pointer[1]]
        values = corpus.rows.data[pointer[0] : pointer[1]] if corpus.is_sparse else corpus.rows[sequence][columns]
        self._rows[columns] += values[:, np.newaxis] * by_scores
        self.touch_all(columns)
        if features.bias != "none":
            self._rows[-1] += features.scale * by_scores
            self.touch(features.n_columns)


# ----------------------------------------------------------------------------------------------------------------------
# Maximum entropy with arbitrary feature maps (Zhang, 9.12): s(y) = w . z(x, y) for the candidates y of x.
#
# Each candidate of an example has its own list of features, which labels may share. Labels that are not candidates have
# a score of -inf. There is one weight for each of the D features.


@dataclass(frozen=True)
class CandidateCorpus:
    """S examples, each with its candidates.

    Parameters
    ----------
    candidates : int64 [S + 1]
        Example i has the candidates ``candidates[i]`` to ``candidates[i + 1]``.
    labels : int32 [C]
        The label of each candidate; an example has a label at most once.
    pointer : int64 [C + 1]
        Candidate c has the features ``ids[pointer[c]:pointer[c + 1]]``.
    ids : int32
    values : float64
    """

    candidates: Int64
    labels: Int32
    pointer: Int64
    ids: Int32
    values: Float

    @property
    def n_sequences(self) -> int:
        """S."""
        return len(self.candidates) - 1

    @cached_property
    def offsets(self) -> Int64:
        """Each example is one position."""
        return np.arange(self.n_sequences + 1, dtype=np.int64)

    @property
    def parts(self) -> tuple[Int64, Int32, Int64, Int32, Float]:
        """All its arrays."""
        return self.candidates, self.labels, self.pointer, self.ids, self.values

    def part(self, first: int, end: int) -> tuple[Int64, Int32, Lists]:
        """For each candidate of examples ``first`` to ``end``: its example (from 0), its label and its features."""
        low, high = int(self.candidates[first]), int(self.candidates[end])
        examples = np.repeat(np.arange(end - first), np.diff(self.candidates[first : end + 1]))
        return examples, self.labels[low:high], Lists(self.pointer[low : high + 1], self.ids, self.values)


@dataclass(frozen=True)
class CandidateFeatures(SinglePositions, ListFeatures):
    """Weights of the D features of candidates for Y labels.

    Parameters
    ----------
    n_features, n_labels : int
        D and Y.
    """

    n_features: int
    n_labels: int

    @property
    def n_penalised(self) -> int:
        """All of them."""
        return self.n_features

    def scores(self, laid_out: Float, corpus: CandidateCorpus, first: int, end: int) -> FlatScores:
        """Scores of the labels of examples ``first`` to ``end``."""
        out = np.full((end - first, self.n_labels), -np.inf)
        examples, labels, lists = corpus.part(first, end)
        scores = np.empty(len(labels))
        list_scores(lists, laid_out, scores)
        out[examples, labels] = scores
        return FlatScores(out)

    def dense_gradient(self) -> CandidateGradient:
        """A gradient of all features."""
        return CandidateGradient(self.n_features)

    def sparse_gradient(self) -> SparseCandidateGradient:
        """A gradient of the features of one example."""
        return SparseCandidateGradient(self.groups)

    def active_groups(self, corpus: CandidateCorpus, sequence: int) -> Iterator[tuple[Int64, Int32, int]]:
        """The features of an example's candidates."""
        lists = corpus.part(sequence, sequence + 1)[2]
        yield lists.pointer, lists.ids, 0


class CandidateGradient(VectorGradient):
    """Adds up a gradient [D] by the weights."""

    def add(self, corpus: CandidateCorpus, first: int, end: int, parts: FlatScores) -> None:
        """Add the gradient by the scores of examples ``first`` to ``end``."""
        examples, labels, lists = corpus.part(first, end)
        add_list_gradient(lists, parts.labels[examples, labels], self.vector)


class SparseCandidateGradient(SparseGroups):
    """Collects the gradient of one example at a time."""

    def add(self, corpus: CandidateCorpus, sequence: int, parts: FlatScores) -> None:
        """Add the gradient by the scores of one example."""
        _, labels, lists = corpus.part(sequence, sequence + 1)
        add_list_gradient(lists, parts.labels[0, labels], self.values)
        self.touch_all(lists.ids[lists.pointer[0] : lists.pointer[-1]])
