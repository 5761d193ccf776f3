"""From weights to arc scores and back: s(h, t) is the sum of the weights of the arc's features.

s(h, t) = sum_{f in F(h, t)} w_f                d/dw_f = sum over arcs that have f of d/ds(h, t)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from loglinear.arrays import Float, Int32, Int64
from loglinear.features.arcs import ArcCorpus
from loglinear.features.encoding import runs
from loglinear.kernels.tables import Lists, SparseGroups, add_list_gradient, list_scores
from loglinear.structures.arcs.structure import ArcScores, ArcTree, NonProjectiveTree, ProjectiveTree, arc_offsets
from loglinear.structures.structure import ListFeatures, VectorGradient

ARCS_AT_ONCE = 100_000


@dataclass(frozen=True)
class ArcFeatures(ListFeatures):
    """D features of arcs, for the trees of one kind.

    Parameters
    ----------
    n_features : int
        D.
    projective, single_root : bool
        The kind of trees.
    """

    n_features: int
    projective: bool = True
    single_root: bool = True

    def blocks(self, offsets: Int64, first: int, end: int) -> list[tuple[int, int]]:
        """Cut sentences ``first`` to ``end`` into runs of few arcs."""
        return runs(arc_offsets(offsets), first, end, ARCS_AT_ONCE)

    def tree(self, offsets: Int64) -> ArcTree:
        """The trees of sentences."""
        return (ProjectiveTree if self.projective else NonProjectiveTree)(offsets, self.single_root)

    def structure(self, corpus: ArcCorpus, first: int, end: int) -> ArcTree:
        """The trees of sentences ``first`` to ``end``."""
        return self.tree(corpus.offsets[first : end + 1] - corpus.offsets[first])

    def scores(self, laid_out: Float, corpus: ArcCorpus, first: int, end: int) -> ArcScores:
        """Arc scores of sentences ``first`` to ``end``."""
        lists = _lists(corpus, first, end)
        arcs = np.empty(len(lists.pointer) - 1)
        list_scores(lists, laid_out, arcs)
        return ArcScores(arcs, corpus.offsets[first : end + 1] - corpus.offsets[first])

    def dense_gradient(self) -> ArcGradient:
        """A gradient of all features."""
        return ArcGradient(self.n_features)

    def sparse_gradient(self) -> SparseArcGradient:
        """A gradient of the features of one sentence."""
        return SparseArcGradient(self)

    def active_groups(self, corpus: ArcCorpus, sequence: int) -> Iterator[tuple[Int64, Int32, int]]:
        """The features that a sentence's scores depend on."""
        lists = _lists(corpus, sequence, sequence + 1)
        yield lists.pointer, lists.ids, 0


def _lists(corpus: ArcCorpus, first: int, end: int) -> Lists:
    """The features of the arcs of sentences ``first`` to ``end``."""
    low, high = int(corpus.arc_offsets[first]), int(corpus.arc_offsets[end])
    return Lists(corpus.pointer[low : high + 1], corpus.ids)


class ArcGradient(VectorGradient):
    """Adds up a gradient [D] by the weights."""

    def add(self, corpus: ArcCorpus, first: int, end: int, parts: ArcScores) -> None:
        """Add the gradient by the arc scores of sentences ``first`` to ``end``."""
        add_list_gradient(_lists(corpus, first, end), parts.arcs, self.vector)


class SparseArcGradient(SparseGroups):
    """Collects the gradient of one sentence at a time; each feature is a group."""

    def __init__(self, features: ArcFeatures) -> None:
        super().__init__(features.groups)

    def add(self, corpus: ArcCorpus, sequence: int, parts: ArcScores) -> None:
        """Add the gradient by the arc scores of one sentence."""
        self.add_lists(_lists(corpus, sequence, sequence + 1), parts.arcs)
