"""Probabilities of chains with many labels straight from attributes, in time and memory linear in what is observed.

They are those of :meth:`Chain.expectations` and :meth:`Chain.log_partition`, for models whose features are (attribute,
label) pairs and few label bigrams (:mod:`~loglinear.structures.chain.steps`). Probabilities are scaled to one at each
position, in double precision. Where even that underflows the caller has to use log space.
"""

from __future__ import annotations

import math

import numpy as np

from loglinear.arrays import Float, Int64, UInt8
from loglinear.errors import DataError, InfeasibleError
from loglinear.features.encoding import EncodedCorpus
from loglinear.kernels import loose_kernel
from loglinear.kernels.numbers import longest
from loglinear.kernels.tables import Lists
from loglinear.structures.chain.best import ALL_WELL, NO_SCORES, Lines, fill_from_lists, make_lines
from loglinear.structures.chain.features import ChainFeatures, Penalties
from loglinear.structures.chain.steps import Factors, Steps, go_back, go_forth, make_steps

TOO_SMALL = -3  # a status of the kernel: probabilities have underflown
LEAST = 1e-280


@loose_kernel
def _add_up(
    offsets: Int64, lists: Lists, allowed: UInt8, lines: Lines, steps: Steps, factors: Factors, constant: float,
    marginals: Float, log_z: Float,
) -> int:  # fmt: skip
    """Marginals [n, Y] and log Z [S], less log(1 / constant) for each transition; a status."""
    n_labels, origin = lines.start.shape[0], offsets[0]
    table, reached = np.empty((longest(offsets), n_labels)), np.empty(n_labels)
    no_pairs = np.zeros(0)
    for i in range(offsets.shape[0] - 1):
        first, n = offsets[i] - origin, offsets[i + 1] - offsets[i]
        fill_from_lists(first, lists, lines, table[:n])
        log_z[i] = 0.0
        for t in range(n):
            scores, forward, top = table[t], marginals[first + t], -np.inf
            for y in range(n_labels):
                if not scores[y] < np.inf:
                    return NO_SCORES
                if allowed.shape[0] > 0 and not allowed[first + t, y]:
                    scores[y] = -np.inf
                if t == 0:
                    scores[y] += lines.start[y]
                if t == n - 1:
                    scores[y] += lines.stop[y]
                top = max(top, scores[y])
            if top == -np.inf:
                return i
            if t > 0:
                go_forth(marginals[first + t - 1], constant, factors, steps, reached)
            for y in range(n_labels):
                scores[y] = math.exp(scores[y] - top)  # from now on the emission's factor
                forward[y] = scores[y] * (reached[y] if t > 0 else 1.0)
            mass = 0.0
            for y in range(n_labels):
                mass += forward[y]
            if not mass > LEAST:
                return TOO_SMALL
            for y in range(n_labels):
                forward[y] /= mass
                scores[y] /= mass
            log_z[i] += top + math.log(mass)
        for y in range(n_labels):
            reached[y] = 1.0
        for t in range(n - 1, -1, -1):
            flow, now = table[t], marginals[first + t]
            for y in range(n_labels):
                flow[y] *= reached[y]
            if t > 0:  # before the forward probabilities become marginals
                for y in range(n_labels):
                    now[y] *= reached[y]
                go_back(flow, constant, factors, steps, marginals[first + t - 1], no_pairs, reached)
            else:
                for y in range(n_labels):
                    now[y] *= reached[y]
    return ALL_WELL


class WideSums:
    """A chain's weights laid out for sums over labellings. Threads may share it.

    Parameters
    ----------
    features : ChainFeatures
        Of order 1, without edge features.
    weights : float64 [D]
    penalties : Penalties
    """

    def __init__(self, features: ChainFeatures, weights: Float, penalties: Penalties) -> None:
        self.n_labels, self._steps = features.n_labels, make_steps(features, penalties)
        self._lines = make_lines(features, weights, penalties, self._steps, np.float64)
        self._top = max(float(self._lines.transition.max(initial=0.0)), 0.0)
        self._constant = math.exp(-self._top)
        listed = np.exp(self._lines.transition - self._top)
        excess = listed - self._constant * self._steps.after.usual
        self._factors = Factors(listed, excess, excess[self._steps.before.place])
        self._all_allowed = np.zeros((0, self.n_labels), dtype=np.uint8)

    def expectations(
        self, corpus: EncodedCorpus, first: int, end: int, allowed: UInt8 | None = None
    ) -> tuple[Float, Float] | None:
        """log Z [S] and marginals [n, Y] of sequences ``first`` to ``end``; None if log space is needed.

        Only labels that are ``allowed`` [N, Y] are possible, if that is given.
        """
        lo, hi = int(corpus.offsets[first]), int(corpus.offsets[end])
        mask = self._all_allowed if allowed is None else np.ascontiguousarray(allowed[lo:hi], dtype=np.uint8)
        offsets = corpus.offsets[first : end + 1]
        marginals, log_z = np.empty((hi - lo, self.n_labels)), np.empty(end - first)
        status = _add_up(
            offsets, corpus.state.lists(lo, hi), mask, self._lines, self._steps, self._factors, self._constant,
            marginals, log_z,
        )  # fmt: skip
        if status == TOO_SMALL:
            return None
        if status == NO_SCORES:
            raise DataError("the emission scores contain NaN or +inf; only finite numbers and -inf are scores")
        if status != ALL_WELL:
            raise InfeasibleError(int(status))
        return log_z + self._top * (np.diff(offsets) - 1), marginals
