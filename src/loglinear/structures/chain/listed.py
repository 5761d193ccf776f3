r"""Chains with many labels, of which few transitions have a score: the operations of a chain over lists.

:class:`ListedChain` has the operations of :class:`~loglinear.structures.chain.structure.Chain` on scores whose
transitions are lists (:mod:`~loglinear.structures.chain.steps`), so that whatever goes through the narrow waist of a
chain (criteria, prediction, probabilities) takes time and memory linear in what is observed. For a position:

    a given labelling     O(log listed)
    sums, best labelling  O(Y + listed), exact; about as much in the worst case as over the matrix
    k best labellings     the best one, then at most k columns of Y labels
    n draws               the sums, then n columns of Y labels

Sums are scaled to one at each position, in double precision, and trusted under the same conditions as those of
:mod:`~loglinear.structures.chain.sums`, which says why; other sequences are done again by :class:`Chain` in log space,
over the matrix.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Float, Int32, Int64
from loglinear.errors import InfeasibleError, OptionError
from loglinear.features.encoding import EncodedCorpus
from loglinear.kernels import kernel, loose_kernel
from loglinear.kernels.numbers import MAX_SPREAD, TINY, longest
from loglinear.structures.chain.best import CANDIDATES, Lines, k_best_by_lists, lines_of, path_by_lists
from loglinear.structures.chain.features import ChainFeatures, ChainWeights, Penalties
from loglinear.structures.chain.steps import Factors, Steps, find_step, go_back, go_forth, is_sparse, make_steps
from loglinear.structures.chain.structure import Chain, ChainScores
from loglinear.structures.sequences import Sequences, SequenceScores, as_array, draw_one
from loglinear.structures.structure import best_sizes

LEAST = 1e-280  # a smaller sum of a piece's labels may lack some that have underflown


class ListedParts(NamedTuple):
    """The arrays of :class:`ListedScores`, as kernels take them."""

    emission: Float
    transition: Float
    start: Float
    stop: Float


@dataclass(frozen=True, slots=True)
class ListedScores(SequenceScores):
    """A number for each part of a batch of S sequences with N positions in all: scores, expectations or gradients.

    Parameters
    ----------
    emission : float64[N, Y]
    transition : float64[M]
        Of the listed transitions, by the previous label. Of all others, scores are 0, or -inf by their kinds.
    start, stop : float64[Y]
    steps : Steps
        The lists.
    edge, trigram, fourgram
        There are none.
    """

    emission: Float
    transition: Float
    start: Float
    stop: Float
    steps: Steps
    edge: None = None
    trigram: None = None
    fourgram: None = None
    order: ClassVar[int] = 1

    @property
    def n_labels(self) -> int:
        """Y."""
        return len(self.start)

    def parts(self) -> Mapping[str, Float]:
        return ListedParts(self.emission, self.transition, self.start, self.stop)._asdict()

    def over_matrix(self) -> ChainScores:
        """The same with all transitions [Y, Y]."""
        kinds = self.steps.kinds
        transition = np.where(self.steps.table[kinds[:, None], kinds] > 0.0, 0.0, -np.inf)
        transition.ravel()[codes_of(self.steps)] = self.transition
        return ChainScores(self.emission, transition, self.start, self.stop)


def codes_of(steps: Steps) -> Int64:
    """The listed transitions ``previous * Y + label`` [M]."""
    n = len(steps.kinds)
    previous: Int64 = np.repeat(np.arange(n), np.diff(steps.after.pointer))
    return previous * n + steps.after.others


class ListedChain(Sequences):
    """The shape of a batch of chains, and the operations on scores with listed transitions.

    They are those of :class:`~loglinear.structures.chain.structure.Chain`, with the same errors.

    Parameters
    ----------
    offsets : int64[S + 1]
    """

    def score(self, scores: ListedScores, labels: npt.ArrayLike) -> Float:
        """Scores [S] of the labelling ``labels`` int32[N]."""
        result = np.empty(self.n_sequences)
        score(self.offsets, self._parts(scores), scores.steps, self._checked_labels(labels, scores.n_labels), result)
        return result

    def add_labelling(self, parts: ListedScores, labels: npt.ArrayLike, weights: npt.ArrayLike) -> None:
        """Add to ``parts``, in place, the weight [S] of each sequence for every part of its labelling int32[N]."""
        shaped, numbers = self._parts(parts, "writable"), self._checked_labels(labels, parts.n_labels)
        add_labelling(self.offsets, numbers, self._weights(weights), parts.steps, shaped)

    # -- best labellings ---------------------------------------------------------------------------------------------

    def viterbi(self, scores: ListedScores) -> tuple[Int32, Float]:
        """Best labelling int32[N] and its scores [S]."""
        parts = self._parts(scores)
        labels, found = np.empty(self.n_positions, dtype=np.int32), np.empty(self.n_sequences)
        infeasible = viterbi(self.offsets, parts.emission, _lines(parts, scores.steps), scores.steps, labels, found)
        if infeasible >= 0:
            raise InfeasibleError(int(infeasible))
        return labels, found

    def k_best(self, scores: ListedScores, k: int) -> list[tuple[Int32, Float]]:
        """For each sequence its K <= k best labellings int32[K, T], best first, and their scores [K].

        K is less than k only if there are no more labellings. The first is that of :meth:`viterbi`.
        """
        sizes = best_sizes(np.diff(self.offsets), k, scores.n_labels, work=16.0)
        parts, steps, results = self._parts(scores), scores.steps, []
        lines = _lines(parts, steps)
        for i, (first, end) in enumerate(zip(self.offsets[:-1].tolist(), self.offsets[1:].tolist(), strict=True)):
            labels, found = np.empty((sizes[i], end - first), dtype=np.int32), np.empty(sizes[i])
            n_found = k_best_by_lists(parts.emission[first:end], lines, steps, CANDIDATES, labels, found)
            if n_found == 0:
                raise InfeasibleError(i)
            results.append((labels[:n_found], found[:n_found]))
        return results

    def best_possible(self, scores: ListedScores, values: Float) -> tuple[Int32, Float]:
        """The possible labelling (score above -inf) with the greatest sum of ``values`` [N, Y], and the sums [S]."""
        parts = scores.parts()
        if scores.steps.table.all() and not any(np.isneginf(array).any() for array in parts.values()):
            labels = np.argmax(values, axis=1).astype(np.int32)
        else:
            possible = {name: np.where(np.isneginf(array), -np.inf, 0.0) for name, array in parts.items()}
            possible["emission"] += values
            labels = self.viterbi(replace(scores, **possible))[0]  # type: ignore[arg-type]  # arrays by name
        return labels, self.sums_of(values, labels)

    # -- sums over labellings ----------------------------------------------------------------------------------------

    def log_partition(self, scores: ListedScores) -> Float:
        """log Z [S]; -inf where no labelling is possible."""
        nothing = ListedParts(np.empty((0, scores.n_labels)), np.empty(0), np.empty(0), np.empty(0))
        return self._forward_backward(scores, np.ones(self.n_sequences), nothing)

    def expectations(self, scores: ListedScores, weights: npt.ArrayLike | None = None) -> tuple[Float, ListedScores]:
        """log Z [S], and the expected parts, each sequence's multiplied by its weight [S]."""
        expected = self._blank(scores)
        log_z = self._forward_backward(scores, self._weights(weights), expected)
        if np.isneginf(log_z).any():
            raise InfeasibleError(int(np.argmax(np.isneginf(log_z))))
        return log_z, ListedScores(*expected, scores.steps)

    def cost_covariance(
        self, scores: ListedScores, cost: npt.ArrayLike, weights: npt.ArrayLike | None = None
    ) -> tuple[Float, ListedScores]:
        """E[c] [S] of the cost c(y) = sum_t cost[t, y_t], and its covariances with the parts, times the weights [S]."""
        parts, factors = self._parts(scores), self._weights(weights)
        costs, _ = self._checked_costs(cost, scores.n_labels)
        least = costs.min(axis=1, initial=0.0)
        found, mean = self._blank(scores), np.empty(self.n_sequences)
        above = costs - least[:, None]
        covariance(self.offsets, parts, scores.steps, _moves(parts, scores.steps), above, factors, mean, found)
        mean += np.add.reduceat(least, self.offsets[:-1]) if self.n_sequences else 0.0
        for i in np.flatnonzero(np.isnan(mean)).tolist():
            (chain, over_matrix), own = self._one(scores, i), slice(*self.offsets[i : i + 2].tolist())
            try:
                mean[i : i + 1], more = chain.cost_covariance(over_matrix, costs[own], factors[i : i + 1])
            except InfeasibleError:
                raise InfeasibleError(i) from None
            self._add_one(i, more, found, scores.steps)
        return mean, ListedScores(*found, scores.steps)

    def posterior_decode(self, scores: ListedScores) -> tuple[Int32, Float]:
        """The possible labelling int32[N] with the greatest sum of node marginals, and these sums [S]."""
        return self.best_possible(scores, self.expectations(scores)[1].emission)

    def sample(self, scores: ListedScores, n: int, rng: np.random.Generator) -> Int32:
        """``n`` independent draws of labellings from p, int32[n, N]; the same numbers as :meth:`Chain.sample` draws."""
        if n < 0:
            raise OptionError(f"n = {n}: the number of draws cannot be negative")
        parts, uniforms = self._parts(scores), rng.random((n, self.n_positions))
        labels, log_z = np.empty((n, self.n_positions), dtype=np.int32), np.empty(self.n_sequences)
        sample(self.offsets, parts, scores.steps, _moves(parts, scores.steps), uniforms, labels, log_z)
        for i in np.flatnonzero(~np.isfinite(log_z)).tolist():
            lo, hi = self.offsets[i : i + 2].tolist()
            chain, over_matrix = self._one(scores, i)
            try:
                labels[:, lo:hi] = chain.draws(over_matrix, np.ascontiguousarray(uniforms[:, lo:hi]))
            except InfeasibleError:
                raise InfeasibleError(i) from None
        return labels

    def _forward_backward(self, scores: ListedScores, weights: Float, expected: ListedParts) -> Float:
        """log Z [S]; fills ``expected``, unless it is empty."""
        parts, log_z = self._parts(scores), np.empty(self.n_sequences)
        forward_backward(self.offsets, parts, scores.steps, _moves(parts, scores.steps), weights, log_z, expected)
        for i in np.flatnonzero(np.isnan(log_z)).tolist():
            chain, over_matrix = self._one(scores, i)
            log_z[i] = chain.log_partition(over_matrix)[0]
            if len(expected.emission) and log_z[i] > -np.inf:
                self._add_one(i, chain.expectations(over_matrix, weights[i : i + 1])[1], expected, scores.steps)
        return log_z

    # -- pieces: each label given the one before ---------------------------------------------------------------------

    def piece_normalisers(self, scores: ListedScores, nothing: bool = False) -> tuple[Float, ListedScores]:
        """Normalisers of first pieces [S], and of the others as scores: ``emission[t - 1]`` [Y] those of position t.

        As :meth:`Chain.piece_normalisers` has them.
        """
        parts, found = self._parts(scores), scores.zeros_like()
        first, no_contexts = np.zeros(self.n_sequences), np.empty((0, scores.n_labels))
        nothing_added = ListedParts(no_contexts, np.empty(0), np.empty(0), np.empty(0))
        pieces(
            self.offsets, parts, scores.steps, _moves(parts, scores.steps), np.empty(0), no_contexts, bool(nothing),
            first, found.emission, nothing_added,
        )  # fmt: skip
        return first, found

    def add_piece_expectations(
        self,
        gradient: ListedScores,
        scores: ListedScores,
        weights: npt.ArrayLike,
        contexts: Any,
        nothing: bool = False,
    ) -> Float:
        """Weighted sums [S] of the pieces' normalisers; the sums' gradient by the scores is added to ``gradient``.

        As :meth:`Chain.add_piece_expectations`: ``contexts`` are weights [N, Y] as scores, or a labelling int32[N].
        """
        parts, shaped, factors = self._parts(scores), self._parts(gradient, "writable"), self._weights(weights)
        values = np.empty(self.n_sequences)
        if not hasattr(contexts, "emission"):
            labels = self._checked_labels(contexts, scores.n_labels)
            add_given(self.offsets, parts, scores.steps, labels, False, bool(nothing), factors, values, shaped)
            return np.multiply(values, factors, out=np.zeros_like(values), where=factors != 0.0)
        table = as_array("contexts", contexts.emission, np.float64, (self.n_positions, scores.n_labels))
        no_normalisers = np.empty((0, scores.n_labels))
        pieces(
            self.offsets, parts, scores.steps, _moves(parts, scores.steps), factors, table, bool(nothing), values,
            no_normalisers, shaped,
        )  # fmt: skip
        return values

    def add_given_neighbours(
        self,
        gradient: ListedScores,
        scores: ListedScores,
        labels: npt.ArrayLike,
        weights: npt.ArrayLike,
        any_neighbours: bool = False,
    ) -> Float:
        """- sum_t log p(label of t given all other labels) [S]; their gradient times ``weights`` [S] is added.

        With ``any_neighbours``, other neighbours count too, over the matrix: O(Y^3) a position in any form.
        """
        parts, shaped, factors = self._parts(scores), self._parts(gradient, "writable"), self._weights(weights)
        if any_neighbours:
            whole = scores.over_matrix()
            more = whole.zeros_like()
            found = Chain(self.offsets).add_given_neighbours(more, whole, labels, factors, True)
            shaped.emission[:] += more.emission
            shaped.transition[:] += more.transition.ravel()[codes_of(scores.steps)]
            shaped.start[:] += more.start
            shaped.stop[:] += more.stop
            return found
        values, numbers = np.empty(self.n_sequences), self._checked_labels(labels, scores.n_labels)
        add_given(self.offsets, parts, scores.steps, numbers, True, False, factors, values, shaped)
        return values

    def _blank(self, scores: ListedScores) -> ListedParts:
        """Arrays for a kernel's results: uninitialised those that it writes, zero those that it adds to."""
        y, shape = scores.n_labels, (self.n_positions, scores.n_labels)
        return ListedParts(np.empty(shape), np.zeros(len(scores.transition)), np.zeros(y), np.zeros(y))

    def _add_one(self, sequence: int, more: ChainScores, found: ListedParts, steps: Steps) -> None:
        """Put what was found for one sequence over the matrix to the rest."""
        found.emission[self.offsets[sequence] : self.offsets[sequence + 1]] = more.emission
        found.transition[:] += more.transition.ravel()[codes_of(steps)]
        found.start[:] += more.start
        found.stop[:] += more.stop

    def _one(self, scores: ListedScores, sequence: int) -> tuple[Chain, ChainScores]:
        """A sequence by itself, over the matrix."""
        lo, hi = self.offsets[sequence : sequence + 2].tolist()
        return Chain([0, hi - lo]), replace(scores, emission=scores.emission[lo:hi]).over_matrix()

    def _parts(self, scores: ListedScores, use: str = "readable") -> ListedParts:
        """The arrays of ``scores`` in the form that kernels take; rejects NaN and +inf."""
        n, y, m = self.n_positions, len(scores.steps.kinds), len(scores.steps.features)
        shapes = dict(zip(ListedParts._fields, ((n, y), (m,), (y,), (y,)), strict=True))
        return ListedParts(*self._checked_arrays(scores, shapes, (0,), use))


def _lines(parts: ListedParts, steps: Steps) -> Lines:
    return lines_of(parts.transition, parts.start, parts.stop, steps)


class Moves(NamedTuple):
    """Transitions as factors exp(score - top): the listed ones, that of all others, and the top, at least 0.

    ``room`` is how far apart the finite scores of a position's labels may be.
    """

    factors: Factors
    constant: float
    top: float
    room: float


def _moves(parts: ListedParts, steps: Steps) -> Moves:
    top = max(float(parts.transition.max(initial=0.0)), 0.0)
    least = float(parts.transition.min(initial=0.0, where=parts.transition > -np.inf))
    listed, constant = np.exp(parts.transition - top), math.exp(-top)
    excess = listed - constant * steps.after.usual
    return Moves(Factors(listed, excess, excess[steps.before.place]), constant, top, MAX_SPREAD - (top - least))


# ----------------------------------------------------------------------------------------------------------------------
# Kernels.


@kernel
def score(offsets: Int64, parts: ListedParts, steps: Steps, labels: Int32, scores: Float) -> None:
    """Scores of the labellings ``labels`` [N] into ``scores`` [S]."""
    for i in range(offsets.shape[0] - 1):
        first, last = offsets[i], offsets[i + 1] - 1
        total = parts.start[labels[first]] + parts.stop[labels[last]]
        for t in range(first, last + 1):
            total += parts.emission[t, labels[t]]
            if t > first:
                place = find_step(labels[t - 1], labels[t], steps)
                if place >= 0:
                    total += parts.transition[place]
                elif steps.table[steps.kinds[labels[t - 1]], steps.kinds[labels[t]]] == 0.0:
                    total = -np.inf
        scores[i] = total


@kernel
def add_labelling(offsets: Int64, labels: Int32, weights: Float, steps: Steps, parts: ListedParts) -> None:
    """``parts`` += weight of the sequence for each part of its labelling ``labels`` [N]."""
    for i in range(offsets.shape[0] - 1):
        first, last, weight = offsets[i], offsets[i + 1] - 1, weights[i]
        parts.start[labels[first]] += weight
        parts.stop[labels[last]] += weight
        for t in range(first, last + 1):
            parts.emission[t, labels[t]] += weight
            if t > first:
                place = find_step(labels[t - 1], labels[t], steps)
                if place >= 0:
                    parts.transition[place] += weight


@kernel
def viterbi(offsets: Int64, emission: Float, lines: Lines, steps: Steps, labels: Int32, scores: Float) -> int:
    """Best labellings into ``labels`` [N], their scores into ``scores`` [S]; the first sequence without one, or -1."""
    reached = np.empty((longest(offsets), lines.start.shape[0]))
    for i in range(offsets.shape[0] - 1):
        first, end = offsets[i], offsets[i + 1]
        scores[i] = path_by_lists(emission[first:end], lines, steps, CANDIDATES, reached, labels[first:end])
        if scores[i] == -np.inf:
            return i
    return -1


@loose_kernel
def _forward(
    first: int, parts: ListedParts, steps: Steps, moves: Moves, emission: Float, forward: Float, reached: Float
) -> float:  # fmt: skip
    """Forward probabilities [T, Y] scaled to one at each position, and the factors of ``emission`` divided by the same.

    Returns log Z; -inf if no labelling is possible, nan if scaled numbers cannot be trusted.
    """
    n, n_labels, log_z = forward.shape[0], steps.kinds.shape[0], 0.0
    for t in range(n):
        scores, now, given, top, least = emission[t], forward[t], parts.emission[first + t], -np.inf, np.inf
        for y in range(n_labels):
            scores[y] = given[y]
            if t == 0:
                scores[y] += parts.start[y]
            if t == n - 1:
                scores[y] += parts.stop[y]
            top = max(top, scores[y])
            least = min(least, scores[y] if scores[y] > -np.inf else np.inf)
        if top == -np.inf:
            return -np.inf
        if top - least > moves.room:
            return np.nan
        if t > 0:
            go_forth(forward[t - 1], moves.constant, moves.factors, steps, reached)
        for y in range(n_labels):
            scores[y] = math.exp(scores[y] - top)
            now[y] = scores[y] * (reached[y] if t > 0 else 1.0)
        mass, n_low = 0.0, 0
        for y in range(n_labels):
            mass += now[y]
        if mass == 0.0:
            return -np.inf
        for y in range(n_labels):
            now[y] /= mass
            scores[y] /= mass
            n_low += (now[y] > 0.0) & (now[y] < TINY)
        if n_low > 0:
            return np.nan
        log_z += top + math.log(mass)
    return log_z + (n - 1) * moves.top


@kernel
def _trust(reached: Float, ahead: Float) -> bool:
    """Whether backward sums [Y] can be trusted; sets those to zero that lead from a label without a probability."""
    n_low = 0
    for b in range(ahead.shape[0]):
        reached[b] = reached[b] if ahead[b] > 0.0 else 0.0
        n_low += (reached[b] > 0.0) & (reached[b] < TINY)
    return n_low == 0


@loose_kernel
def _add_ends_and_pairs(
    first: int, last: int, weight: float, steps: Steps, moves: Moves, pairs: Float, found: ListedParts
) -> None:
    """Add what a sequence has for its ends and, with its ``weight``, for transitions; clears the ``pairs`` [M]."""
    for y in range(found.start.shape[0]):
        found.start[y] += found.emission[first, y]
    for y in range(found.stop.shape[0]):
        found.stop[y] += found.emission[last, y]
    for m in range(pairs.shape[0]):
        place = steps.before.place[m]
        found.transition[place] += weight * moves.factors.listed[place] * pairs[m]
        pairs[m] = 0.0


@loose_kernel
def forward_backward(
    offsets: Int64, parts: ListedParts, steps: Steps, moves: Moves, weights: Float, log_z: Float,
    expected: ListedParts,
) -> None:  # fmt: skip
    """log Z [S], and expected parts times the weights [S], unless these are empty.

    nan where log space is needed: such sequences are left out of the expected parts.
    """
    n_labels, n_pairs = steps.kinds.shape[0], steps.features.shape[0]
    most, only_sums = longest(offsets), expected.emission.shape[0] == 0
    table, ahead, reached = np.empty((most, n_labels)), np.empty((most, n_labels)), np.empty(n_labels)
    pairs = np.zeros(0 if only_sums else n_pairs)
    for i in range(offsets.shape[0] - 1):
        first, n, weight = offsets[i], offsets[i + 1] - offsets[i], weights[i]
        log_z[i] = _forward(first, parts, steps, moves, table[:n], ahead[:n], reached)
        if only_sums or not log_z[i] > -np.inf:
            continue
        for y in range(n_labels):
            reached[y] = 1.0
        for t in range(n - 1, -1, -1):
            if not _trust(reached, ahead[t]):
                log_z[i] = np.nan
                break
            flow, now, out = table[t], ahead[t], expected.emission[first + t]
            for y in range(n_labels):
                out[y] = weight * (now[y] * reached[y])
            if t > 0:
                for y in range(n_labels):
                    flow[y] *= reached[y]
                go_back(flow, moves.constant, moves.factors, steps, ahead[t - 1], pairs, reached)
        if not log_z[i] > -np.inf:
            pairs[:] = 0.0
            continue
        _add_ends_and_pairs(first, first + n - 1, weight, steps, moves, pairs, expected)


@loose_kernel
def covariance(
    offsets: Int64, parts: ListedParts, steps: Steps, moves: Moves, costs: Float, weights: Float,
    mean: Float, found: ListedParts,
) -> None:  # fmt: skip
    """E[c] [S] of costs [N, Y] of at least 0, and the covariances with the parts times the weights [S].

    With a, f and b forward probabilities, emission factors and backward sums, and r = E[cost so far] a, s = E[cost to
    come] b (the expectation semiring, Li & Eisner 2009), both by the same sums as a and b::

        r_t(y) = f_t(y) (sum_b r_{t-1}(b) A(b, y) + c_t(y) sum_b a_{t-1}(b) A(b, y))
        E[c and y at t] = r_t(y) b_t(y) + a_t(y) s_t(y)                                cov = that - E[c] a_t(y) b_t(y)

    nan where log space is needed: such sequences are left out.
    """
    n_labels, most = steps.kinds.shape[0], longest(offsets)
    table, ahead, reached = np.empty((most, n_labels)), np.empty((most, n_labels)), np.empty(n_labels)
    costly, to_come, flow = np.empty((most, n_labels)), np.empty(n_labels), np.empty(n_labels)
    pairs = np.zeros(steps.features.shape[0])
    for i in range(offsets.shape[0] - 1):
        first, n, weight = offsets[i], offsets[i + 1] - offsets[i], weights[i]
        mean[i] = np.nan
        if not _forward(first, parts, steps, moves, table[:n], ahead[:n], reached) > -np.inf:
            continue
        for t in range(n):
            now, own, cost = costly[t], ahead[t], costs[first + t]
            for y in range(n_labels):
                now[y] = cost[y] * own[y]
            if t > 0:
                go_forth(costly[t - 1], moves.constant, moves.factors, steps, reached)
                for y in range(n_labels):
                    now[y] += table[t, y] * reached[y]
        total = 0.0
        for y in range(n_labels):
            total += costly[n - 1, y]
        for y in range(n_labels):
            reached[y] = 1.0
            to_come[y] = 0.0
        mean[i] = total
        for t in range(n - 1, -1, -1):
            if not _trust(reached, ahead[t]):
                mean[i] = np.nan
                break
            factor, own, now, cost, out = table[t], ahead[t], costly[t], costs[first + t], found.emission[first + t]
            for y in range(n_labels):
                now[y] -= total * own[y]
                out[y] = weight * (now[y] * reached[y] + own[y] * to_come[y])
            if t > 0:
                for y in range(n_labels):
                    flow[y] = factor[y] * (to_come[y] + cost[y] * reached[y])
                    factor[y] *= reached[y]
                go_back(flow, moves.constant, moves.factors, steps, ahead[t - 1], pairs, to_come)
                before, past = costly[t - 1], ahead[t - 1]
                for y in range(n_labels):
                    flow[y] = before[y] - total * past[y]
                    to_come[y] = to_come[y] if past[y] > 0.0 else 0.0
                go_back(factor, moves.constant, moves.factors, steps, flow, pairs, reached)
        if not mean[i] >= 0.0:
            pairs[:] = 0.0
            continue
        _add_ends_and_pairs(first, first + n - 1, weight, steps, moves, pairs, found)


@kernel
def sample(
    offsets: Int64, parts: ListedParts, steps: Steps, moves: Moves, uniforms: Float, labels: Int32,
    log_z: Float,
) -> None:  # fmt: skip
    """Draws into ``labels`` [n, N], one for each row of ``uniforms`` [n, N]; ``log_z`` [S] is not a number where none
    was made."""
    n_labels, most = steps.kinds.shape[0], longest(offsets)
    table, ahead, reached = np.empty((most, n_labels)), np.empty((most, n_labels)), np.empty(n_labels)
    side = steps.before
    for i in range(offsets.shape[0] - 1):
        first, n = offsets[i], offsets[i + 1] - offsets[i]
        log_z[i] = _forward(first, parts, steps, moves, table[:n], ahead[:n], reached)
        if not log_z[i] > -np.inf:
            continue
        for row in range(labels.shape[0]):
            y = draw_one(ahead[n - 1], uniforms[row, first + n - 1])
            labels[row, first + n - 1] = y
            for t in range(n - 2, -1, -1):
                j, end, kind = side.pointer[y], side.pointer[y + 1], steps.kinds[y]
                for b in range(n_labels):
                    if j < end and side.others[j] == b:
                        reached[b] = ahead[t, b] * moves.factors.listed[side.place[j]]
                        j += 1
                    else:
                        reached[b] = ahead[t, b] * moves.constant * steps.table[steps.kinds[b], kind]
                y = draw_one(reached, uniforms[row, first + t])
                labels[row, first + t] = y


# ----------------------------------------------------------------------------------------------------------------------
# Pieces: :mod:`~loglinear.structures.chain.pieces` has the equations. All contexts of a position are one sum over
# lists; a context whose sum has underflown is done by itself, and so is one that is given.


@kernel
def _own_scores(t: int, first: int, last: int, parts: ListedParts, row: Float) -> None:
    """``row`` [Y] = the scores of a position's labels that depend on no other label."""
    for y in range(row.shape[0]):
        row[y] = parts.emission[t, y]
        if t == first:
            row[y] += parts.start[y]
        if t == last:
            row[y] += parts.stop[y]


@kernel
def _add_steps(label: int, forth: bool, transition: Float, steps: Steps, row: Float) -> None:
    """Add to ``row`` [Y] the scores of transitions from ``label`` to each label, or (not ``forth``) to it."""
    side, kind = steps.after if forth else steps.before, steps.kinds[label]
    j, end = side.pointer[label], side.pointer[label + 1]
    if steps.table.shape[0] > 1 or steps.table[0, 0] == 0.0:
        k = j
        for y in range(row.shape[0]):
            other = steps.kinds[y]
            if k < end and side.others[k] == y:
                k += 1
            elif (steps.table[kind, other] if forth else steps.table[other, kind]) == 0.0:
                row[y] = -np.inf
    for k in range(j, end):
        row[side.others[k]] += transition[side.place[k]]


@kernel
def _add_to_steps(label: int, forth: bool, row: Float, steps: Steps, transition: Float) -> None:
    """The transpose of :func:`_add_steps`: add a gradient ``row`` [Y] to that of the listed transitions."""
    side = steps.after if forth else steps.before
    for k in range(side.pointer[label], side.pointer[label + 1]):
        transition[side.place[k]] += row[side.others[k]]


@kernel
def _add_to_own(t: int, first: int, last: int, row: Float, gradient: ListedParts) -> None:
    """The transpose of :func:`_own_scores`."""
    for y in range(row.shape[0]):
        gradient.emission[t, y] += row[y]
    if t == first:
        for y in range(row.shape[0]):
            gradient.start[y] += row[y]
    if t == last:
        for y in range(row.shape[0]):
            gradient.stop[y] += row[y]


@kernel
def _normalise(row: Float, nothing: bool) -> float:
    """Replace scores [Y] by probabilities; log of the sum of their exponentials, -inf if no label is possible."""
    peak, total = 0.0 if nothing else -np.inf, 0.0
    for y in range(row.shape[0]):
        peak = max(peak, row[y])
    if peak == -np.inf:
        row[:] = 0.0
        return -np.inf
    for y in range(row.shape[0]):
        row[y] = math.exp(row[y] - peak)
        total += row[y]
    if nothing:
        total += math.exp(-peak)
    for y in range(row.shape[0]):
        row[y] /= total
    return peak + math.log(total)


@kernel
def add_given(
    offsets: Int64, parts: ListedParts, steps: Steps, labels: Int32, after: bool, nothing: bool, weights: Float,
    values: Float, gradient: ListedParts,
) -> None:  # fmt: skip
    """Sums [S] of the log-sums of labels given the label before; their gradient times ``weights`` [S] is added.

    With ``after``, the label after is given, too, and the score of the position's own label is subtracted: the value is
    - log p(label given its neighbours), inf where that label is impossible. O(Y + lists of the neighbours) a position.
    """
    row = np.empty(parts.start.shape[0])
    for i in range(offsets.shape[0] - 1):
        first, last, total = offsets[i], offsets[i + 1] - 1, 0.0
        for t in range(first, last + 1):
            _own_scores(t, first, last, parts, row)
            if t > first:
                _add_steps(labels[t - 1], True, parts.transition, steps, row)
            if after and t < last:
                _add_steps(labels[t + 1], False, parts.transition, steps, row)
            own = row[labels[t]] if after else 0.0
            value = _normalise(row, nothing)
            if own == -np.inf or value == -np.inf:
                total = np.inf if after else -np.inf
                break
            total += value - own
            for y in range(row.shape[0]):
                row[y] *= weights[i]
            if after:
                row[labels[t]] -= weights[i]
            _add_to_own(t, first, last, row, gradient)
            if t > first:
                _add_to_steps(labels[t - 1], True, row, steps, gradient.transition)
            if after and t < last:
                _add_to_steps(labels[t + 1], False, row, steps, gradient.transition)
        values[i] = total


@loose_kernel
def _all_contexts(steps: Steps, moves: Moves, row: Float, powers: Float, sums: Float) -> float:
    """``sums`` [Y] = those of exp(scores ``row`` [Y] and transition - the number returned), over the labels after each.

    ``powers`` [Y] are the exponentials of the scores less their greatest.
    """
    top, none = -np.inf, np.zeros(0)
    for y in range(row.shape[0]):
        top = max(top, row[y])
    for y in range(row.shape[0]):
        powers[y] = math.exp(row[y] - top) if top > -np.inf else 0.0
    go_back(powers, moves.constant, moves.factors, steps, powers, none, sums)
    return top + moves.top


@kernel
def pieces(
    offsets: Int64, parts: ListedParts, steps: Steps, moves: Moves, weights: Float,
    contexts: Float, nothing: bool, first_ones: Float, normalisers: Float, gradient: ListedParts,
) -> None:  # fmt: skip
    """Normalisers of first pieces into ``first_ones`` [S] and of the others into ``normalisers`` [N, Y]; or, with
    ``contexts`` [N, Y], the sums of all times ``weights`` [S] and ``contexts`` into the former, and their gradient."""
    n_labels, only_values = parts.start.shape[0], contexts.shape[0] == 0
    own, row, powers, sums = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels), np.empty(n_labels)
    shares, back = np.empty(n_labels), np.empty(n_labels)
    for i in range(offsets.shape[0] - 1):
        first, last = offsets[i], offsets[i + 1] - 1
        _own_scores(first, first, last, parts, row)
        value = _normalise(row, nothing)
        if only_values:
            first_ones[i] = value
        else:
            first_ones[i] = weights[i] * value if weights[i] != 0.0 else 0.0
            row *= weights[i]
            _add_to_own(first, first, last, row, gradient)
        for t in range(first + 1, last + 1):
            _own_scores(t, first, last, parts, own)
            scale = _all_contexts(steps, moves, own, powers, sums)
            for b in range(n_labels):
                weight, shares[b] = 1.0 if only_values else contexts[t - 1, b], 0.0
                if weight == 0.0:
                    continue
                if sums[b] > LEAST:
                    value = math.log(sums[b]) + scale
                    shares[b] = weight / sums[b]
                    if nothing:
                        more = max(value, 0.0) + math.log1p(math.exp(-abs(value)))
                        shares[b] *= math.exp(value - more)
                        value = more
                else:
                    row[:] = own
                    _add_steps(b, True, parts.transition, steps, row)
                    value = _normalise(row, nothing)
                    if not only_values:
                        row *= weight
                        _add_to_own(t, first, last, row, gradient)
                        _add_to_steps(b, True, row, steps, gradient.transition)
                if only_values:
                    normalisers[t - 1, b] = value
                else:
                    first_ones[i] += weight * value
            if not only_values:
                for sign in (1.0, -1.0):  # sums over lists are of numbers from 0 up
                    some = False
                    for b in range(n_labels):
                        row[b] = max(sign * shares[b], 0.0)
                        some |= row[b] > 0.0
                    if some:
                        go_forth(row, moves.constant, moves.factors, steps, back)
                        for y in range(n_labels):
                            back[y] *= sign * powers[y]
                        _add_to_own(t, first, last, back, gradient)
                for b in range(n_labels):
                    if shares[b] != 0.0:
                        for j in range(steps.after.pointer[b], steps.after.pointer[b + 1]):
                            amount = shares[b] * moves.factors.listed[j] * powers[steps.after.others[j]]
                            gradient.transition[j] += amount


# ----------------------------------------------------------------------------------------------------------------------
# Features whose scores are lists.


@dataclass(frozen=True)
class ListedFeatures(ChainFeatures):
    """The features of a chain with many labels, whose part scores are :class:`ListedScores`.

    Parameters
    ----------
    steps : Steps
        Their transitions under constraints.
    """

    steps: Steps

    @classmethod
    def of(cls, features: ChainFeatures, penalties: Penalties) -> ListedFeatures | None:
        """The same features in this form; None where sums over all transitions are quicker, or the only way."""
        if features.input_only or not is_sparse(features, penalties):
            return None
        return cls(
            features.n_labels, features.order, features.state, None, features.transitions, features.trigrams,
            make_steps(features, penalties),
        )  # fmt: skip

    @cached_property
    def transition_places(self) -> Int64:
        return np.flatnonzero(self.steps.features >= 0)

    def _ngram_tables(
        self, transition: Float, trigram: Float, fourgram: Float, penalties: Penalties
    ) -> tuple[Float, None, None]:
        listed = np.where(self.steps.allowed > 0, 0.0, -np.inf)
        listed[self.transition_places] += transition
        return listed, None, None

    def scores(self, weights: ChainWeights, corpus: EncodedCorpus, first: int, end: int) -> ListedScores:  # type: ignore[override]  # of the same use
        """Part scores of sequences ``first`` to ``end``."""
        lo, hi = int(corpus.offsets[first]), int(corpus.offsets[end])
        emission = self.state.scores(corpus.state, lo, hi, weights.state, weights.state_rows)
        return ListedScores(emission, weights.transition, weights.start, weights.stop, self.steps)

    def structure(self, corpus: EncodedCorpus, first: int, end: int) -> ListedChain:  # type: ignore[override]  # of the same use
        """The chains of sequences ``first`` to ``end``."""
        return ListedChain(corpus.offsets[first : end + 1] - corpus.offsets[first])
