"""Projective dependency trees: best trees, k best, log-partition, arc probabilities and covariances, each O(n^3).

The kernels are :mod:`~loglinear.structures.arc_eisner` and :mod:`~loglinear.structures.arc_sums`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.errors import InfeasibleError
from loglinear.structures import arc_eisner, arc_sums
from loglinear.structures.arc_scores import ArcScores, ArcTree, Float, Int32


class ProjectiveTree(ArcTree):
    """A batch of dependency trees without crossing arcs (Eisner 1996)."""

    def viterbi(self, scores: ArcScores) -> tuple[Int32, Float]:
        heads, best = np.empty(self.n_positions, dtype=np.int32), np.empty(self.n_sequences)
        infeasible = arc_eisner.viterbi(self.offsets, self._checked(scores), self.single_root, heads, best)
        if infeasible >= 0:
            raise InfeasibleError(int(infeasible))
        return heads, best

    def k_best(self, scores: ArcScores, k: int) -> list[tuple[Int32, Float]]:
        self._check_k(k)
        arcs, first, found = self._checked(scores), 0, []
        for i, n in enumerate(np.diff(self.offsets).tolist()):
            most = k if n > 8 else min(k, (n + 1) ** n)
            heads, best = np.empty((most, n), dtype=np.int32), np.empty(most)
            block = arcs[first : first + n * (n + 1)].reshape(n, n + 1)
            n_found = arc_eisner.k_best(block, self.single_root, heads, best)
            if n_found == 0:
                raise InfeasibleError(i)
            found.append((heads[:n_found], best[:n_found]))
            first += n * (n + 1)
        return found

    def _sums(self, arcs: npt.NDArray[Any], weights: Float, expected: npt.NDArray[Any]) -> npt.NDArray[Any]:
        log_z = np.full(self.n_sequences, -np.inf, dtype=arcs.dtype)
        status = np.zeros(self.n_sequences, dtype=np.uint8)
        wanted = expected.astype(arcs.dtype) if not len(expected) else expected
        arc_sums.scaled(self.offsets, arcs, self.single_root, weights, log_z, status, wanted)
        left = np.flatnonzero(status == arc_sums.NEEDS_LOGS).astype(np.int64)
        if len(left):
            arc_sums.in_logs(self.offsets, left, arcs, self.single_root, weights, log_z, status, wanted)
        return log_z
