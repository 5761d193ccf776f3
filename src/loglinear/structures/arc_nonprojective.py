"""Dependency trees whose arcs may cross: the maximum spanning tree, k best, and sums by the matrix-tree theorem.

The kernels are in :mod:`~loglinear.structures.arc_spanning`. Sums are of numbers in the range of floats, each child's
best head counting as 1: a sentence whose every tree has arcs that are e^-700 times worse than the best of their child
has no sums here, and is called infeasible.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.errors import InfeasibleError
from loglinear.structures import arc_spanning
from loglinear.structures.arc_scores import ArcScores, ArcTree, Float, Int32


class NonProjectiveTree(ArcTree):
    """A batch of dependency trees with or without crossing arcs (McDonald et al. 2005; Koo et al. 2007)."""

    def viterbi(self, scores: ArcScores) -> tuple[Int32, Float]:
        heads, best = np.empty(self.n_positions, dtype=np.int32), np.empty(self.n_sequences)
        infeasible = arc_spanning.viterbi(self.offsets, self._checked(scores), self.single_root, heads, best)
        if infeasible >= 0:
            raise InfeasibleError(int(infeasible))
        return heads, best

    def k_best(self, scores: ArcScores, k: int) -> list[tuple[Int32, Float]]:
        """By splitting what is left after each tree into sets that each have a best tree of their own (Lawler 1972):

        the trees that share the heads of the first t tokens and differ in that of the next. O(k n^4) at worst.
        """
        self._check_k(k)
        arcs, first, found = self._checked(scores), 0, []
        for i, n in enumerate(np.diff(self.offsets).tolist()):
            trees = self._k_best(arcs[first : first + n * (n + 1)].reshape(n, n + 1), k)
            if not trees:
                raise InfeasibleError(i)
            found.append((np.stack([heads for _, heads in trees]), np.array([score for score, _ in trees])))
            first += n * (n + 1)
        return found

    def _k_best(self, arcs: Float, k: int) -> list[tuple[float, Int32]]:
        """The k best trees of one sentence with arcs [n, n + 1], with their scores."""
        n, offsets, count = len(arcs), np.array([0, len(arcs)], dtype=np.int64), 0
        waiting: list[tuple[float, int, Int32, int, Float]] = []

        def push(allowed: Float, fixed: int) -> None:
            nonlocal count
            heads, best = np.empty(n, dtype=np.int32), np.empty(1)
            if arc_spanning.viterbi(offsets, allowed.ravel(), self.single_root, heads, best) < 0:
                count += 1
                heapq.heappush(waiting, (-float(best[0]), count, heads, fixed, allowed))

        push(arcs, 0)
        found: list[tuple[float, Int32]] = []
        while waiting and len(found) < k:
            negative, _, heads, fixed, allowed = heapq.heappop(waiting)
            found.append((-negative, heads))
            kept = allowed.copy()
            for t in range(fixed, n):
                without = kept.copy()
                without[t, heads[t]] = -np.inf
                push(without, t)
                score = kept[t, heads[t]]
                kept[t] = -np.inf
                kept[t, heads[t]] = score
        return found

    def _sums(self, arcs: npt.NDArray[Any], weights: Float, expected: npt.NDArray[Any]) -> npt.NDArray[Any]:
        log_z = np.full(self.n_sequences, -np.inf, dtype=arcs.dtype)
        wanted = expected.astype(arcs.dtype) if not len(expected) else expected
        arc_spanning.sums(self.offsets, arcs, self.single_root, weights, log_z, wanted)
        return log_z
