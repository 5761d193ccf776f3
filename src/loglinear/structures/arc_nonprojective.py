"""Dependency trees whose arcs may cross: the maximum spanning tree, k best, and sums by the matrix-tree theorem.

The kernels are in :mod:`~loglinear.structures.arc_spanning`; sums that leave the range of floats, as where every tree
has an arc that is e^-700 times worse than its child's best, are made in :mod:`~loglinear.structures.arc_spanning_logs`.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.data.columns import ranges
from loglinear.errors import InfeasibleError
from loglinear.structures import arc_spanning, arc_spanning_logs
from loglinear.structures.arc_scores import STEP, ArcScores, ArcTree, Float, Int32, Int64, arc_offsets

DIFFERENCE = 1e-4  # of scores, for slopes of sums in log space


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
        left = np.flatnonzero(~np.isfinite(log_z.real)).astype(np.int64)
        if len(left):
            self._in_logs(left, arcs, weights, log_z, wanted)
        return log_z

    def _in_logs(
        self, left: Int64, arcs: npt.NDArray[Any], weights: Float, log_z: npt.NDArray[Any], expected: npt.NDArray[Any]
    ) -> None:
        """Sentences whose numbers leave the range of floats; of complex scores the slope by a difference."""
        begins = arc_offsets(self.offsets)

        def sums(scores: Float) -> tuple[Float, Float]:
            own_z, own = np.full(self.n_sequences, -np.inf), np.zeros(len(expected))
            arc_spanning_logs.sums(self.offsets, begins, left, scores, self.single_root, weights, own_z, own)
            return own_z, own

        own_z, own = sums(np.ascontiguousarray(arcs.real))
        places = ranges(begins[:-1][left], np.diff(begins)[left]) if len(expected) else np.zeros(0, dtype=np.int64)
        log_z[left], expected[places] = own_z[left], own[places]
        if np.iscomplexobj(arcs):
            direction = arcs.imag / STEP
            ahead, behind = (sums(arcs.real + sign * DIFFERENCE * direction) for sign in (1.0, -1.0))
            with np.errstate(invalid="ignore"):
                slope = STEP / (2.0 * DIFFERENCE) * (ahead[0] - behind[0])
            log_z[left] += 1j * np.nan_to_num(slope)[left]
            expected[places] += 1j * STEP / (2.0 * DIFFERENCE) * (ahead[1] - behind[1])[places]
