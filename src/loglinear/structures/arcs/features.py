"""From weights to arc scores and back: s(h, t) is the sum of the weights of the arc's features.

s(h, t) = sum_{f in F(h, t)} w_f                d/dw_f = sum over arcs that have f of d/ds(h, t)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from loglinear.arrays import Float, Int32, Int64, UInt8
from loglinear.features.arcs import ArcCorpus, arc_runs
from loglinear.kernels import kernel
from loglinear.kernels.tables import SparseGroups
from loglinear.structures.arcs.structure import ArcScores, ArcTree, NonProjectiveTree, ProjectiveTree, arc_offsets
from loglinear.structures.structure import ListFeatures, VectorGradient

ARCS_AT_ONCE = 100_000


@kernel
def _scores(pointer: Int64, ids: Int32, weights: Float, out: Float) -> None:
    """Sums of weights [A] of the arcs whose features begin at ``pointer`` [A + 1]."""
    for a in range(out.shape[0]):
        total = 0.0
        for j in range(pointer[a], pointer[a + 1]):
            total += weights[ids[j]]
        out[a] = total


@kernel
def _add(pointer: Int64, ids: Int32, parts: Float, gradient: Float) -> None:
    """Add the gradient by the arcs' scores ``parts`` [A] to that by the weights [D]."""
    for a in range(parts.shape[0]):
        part = parts[a]
        if part != 0.0:
            for j in range(pointer[a], pointer[a + 1]):
                gradient[ids[j]] += part


@kernel
def _add_touched(
    pointer: Int64,
    ids: Int32,
    parts: Float,
    n: int,
    values: Float,
    seen: UInt8,
    touched: Int64,
) -> int:
    """The same, noting the features met in ``touched``; their new number."""
    for a in range(parts.shape[0]):
        part = parts[a]
        if part != 0.0:
            for j in range(pointer[a], pointer[a + 1]):
                f = ids[j]
                values[f] += part
                if not seen[f]:
                    seen[f] = 1
                    touched[n] = f
                    n += 1
    return n


@dataclass(frozen=True)
class ArcFeatures(ListFeatures):
    """D features of arcs, for the trees of one kind.

    Parameters
    ----------
    n_features : int
        D.
    projective, single_root : bool
        Of the trees that are scored.
    """

    n_features: int
    projective: bool = True
    single_root: bool = True

    def blocks(self, offsets: Int64, first: int, end: int) -> list[tuple[int, int]]:
        """Cut sentences ``first`` to ``end`` into runs of few arcs."""
        return arc_runs(arc_offsets(offsets), first, end, ARCS_AT_ONCE)

    def tree(self, offsets: Int64) -> ArcTree:
        """The trees of sentences."""
        return (ProjectiveTree if self.projective else NonProjectiveTree)(offsets, self.single_root)

    def structure(self, corpus: ArcCorpus, first: int, end: int) -> ArcTree:
        """The trees of sentences ``first`` to ``end``."""
        return self.tree(corpus.offsets[first : end + 1] - corpus.offsets[first])

    def scores(self, laid_out: Float, corpus: ArcCorpus, first: int, end: int) -> ArcScores:
        """Arc scores of sentences ``first`` to ``end``."""
        low, high = int(corpus.arc_offsets[first]), int(corpus.arc_offsets[end])
        arcs = np.empty(high - low)
        _scores(corpus.pointer[low : high + 1], corpus.ids, laid_out, arcs)
        return ArcScores(arcs, corpus.offsets[first : end + 1] - corpus.offsets[first])

    def dense_gradient(self) -> ArcGradient:
        """A gradient of all features."""
        return ArcGradient(self.n_features)

    def sparse_gradient(self) -> SparseArcGradient:
        """A gradient of the features of one sentence."""
        return SparseArcGradient(self)

    def groups_met(self, corpus: ArcCorpus, sequence: int) -> Iterator[tuple[Int64, Int32, int]]:
        """The features that a sentence's scores depend on."""
        low, high = int(corpus.arc_offsets[sequence]), int(corpus.arc_offsets[sequence + 1])
        yield corpus.pointer[low : high + 1], corpus.ids, 0


class ArcGradient(VectorGradient):
    """Adds up a gradient [D] by the weights."""

    def add(self, corpus: ArcCorpus, first: int, end: int, parts: ArcScores) -> None:
        """Add the gradient by the arc scores of sentences ``first`` to ``end``."""
        low, high = int(corpus.arc_offsets[first]), int(corpus.arc_offsets[end])
        _add(corpus.pointer[low : high + 1], corpus.ids, parts.arcs, self.vector)


class SparseArcGradient(SparseGroups):
    """Collects the gradient of one sentence at a time; each feature is a group."""

    def __init__(self, features: ArcFeatures) -> None:
        super().__init__(features.groups)

    def add(self, corpus: ArcCorpus, sequence: int, parts: ArcScores) -> None:
        """Add the gradient by the arc scores of one sentence."""
        low, high = int(corpus.arc_offsets[sequence]), int(corpus.arc_offsets[sequence + 1])
        self._n = _add_touched(
            corpus.pointer[low : high + 1], corpus.ids, parts.arcs, self._n, self.values, self._seen, self._touched
        )
