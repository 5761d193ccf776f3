"""Maximum entropy with feature maps of one's own (Zhang, 9.12): s(y) = w . z(x, y) for the candidates y of x.

Each candidate of an example has features of its own, which different labels may share or not; labels that are no
candidates have a score of -inf. The weight vector is that of the D features.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from loglinear.kernels import kernel
from loglinear.structures.flat import Flat, FlatScores
from loglinear.structures.list_features import ListFeatures, VectorGradient
from loglinear.structures.sparse_groups import SparseGroups

Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
SCORES_AT_ONCE = 65_536


@kernel
def _scores(
    offsets: Int64, labels: Int32, pointer: Int64, ids: Int32, values: Float, weights: Float, first: int, out: Float
) -> None:
    """Scores of the candidates of the examples from ``first`` on into ``out`` [N, Y], which comes as -inf."""
    for i in range(out.shape[0]):
        for c in range(offsets[first + i], offsets[first + i + 1]):
            total = 0.0
            for j in range(pointer[c], pointer[c + 1]):
                total += values[j] * weights[ids[j]]
            out[i, labels[c]] = total


@kernel
def _add(
    offsets: Int64, labels: Int32, pointer: Int64, ids: Int32, values: Float, parts: Float, first: int, out: Float
) -> None:
    """Add the gradient by the scores ``parts`` [N, Y] of the examples from ``first`` on to that by the weights [D]."""
    for i in range(parts.shape[0]):
        for c in range(offsets[first + i], offsets[first + i + 1]):
            part = parts[i, labels[c]]
            if part != 0.0:
                for j in range(pointer[c], pointer[c + 1]):
                    out[ids[j]] += part * values[j]


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
        """What the kernels take."""
        return self.candidates, self.labels, self.pointer, self.ids, self.values


@dataclass(frozen=True)
class CandidateFeatures(ListFeatures):
    """Weights of D features of candidates, which are among Y labels.

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

    def blocks(self, offsets: Int64, first: int, end: int) -> list[tuple[int, int]]:
        """Cut examples ``first`` to ``end`` into runs of few scores."""
        step = max(1, SCORES_AT_ONCE // self.n_labels)
        return [(begin, min(begin + step, end)) for begin in range(first, end, step)]

    def structure(self, corpus: CandidateCorpus, first: int, end: int) -> Flat:
        """The shape of examples ``first`` to ``end``."""
        return Flat(end - first)

    def scores(self, laid_out: Float, corpus: CandidateCorpus, first: int, end: int) -> FlatScores:
        """Scores of the labels of examples ``first`` to ``end``."""
        out = np.full((end - first, self.n_labels), -np.inf)
        _scores(*corpus.parts, laid_out, first, out)
        return FlatScores(out)

    def dense_gradient(self) -> CandidateGradient:
        """A gradient of all features."""
        return CandidateGradient(self.n_features)

    def sparse_gradient(self) -> SparseCandidateGradient:
        """A gradient of the features of one example."""
        return SparseCandidateGradient(self.groups)

    def groups_met(self, corpus: CandidateCorpus, sequence: int) -> Iterator[tuple[Int64, Int32, int]]:
        """The features of an example's candidates."""
        first, end = int(corpus.candidates[sequence]), int(corpus.candidates[sequence + 1])
        yield corpus.pointer[first : end + 1], corpus.ids, 0


class CandidateGradient(VectorGradient):
    """Adds up a gradient [D] by the weights."""

    def add(self, corpus: CandidateCorpus, first: int, end: int, parts: FlatScores) -> None:
        """Add the gradient by the scores of examples ``first`` to ``end``."""
        _add(*corpus.parts, parts.labels, first, self.vector)


class SparseCandidateGradient(SparseGroups):
    """Collects the gradient of one example at a time."""

    def add(self, corpus: CandidateCorpus, sequence: int, parts: FlatScores) -> None:
        """Add the gradient by the scores of one example."""
        _add(*corpus.parts, parts.labels, sequence, self.values)
        first, end = int(corpus.candidates[sequence]), int(corpus.candidates[sequence + 1])
        self.touch_all(corpus.ids[corpus.pointer[first] : corpus.pointer[end]])
