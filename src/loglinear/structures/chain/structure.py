"""Linear chains of order 1, 2 and 3: part scores in, best labellings, log-partitions, expected parts and draws out.

A chain scores a labelling y of T positions part by part::

    score(y) = start(y_1) + sum_t s_t(y_t) + sum_{t>=2} (transition(y_{t-1}, y_t) + edge_t(y_{t-1}, y_t))
               + sum_{t>=3} trigram(y_{t-2}, y_{t-1}, y_t) + sum_{t>=4} fourgram(y_{t-3}, ..., y_t) + stop(y_T)
    p(y)     = exp(score(y)) / Z                      (Lafferty, McCallum & Pereira 2001, equation 1)

A score of -inf rules its part out: that is how label schemes, forced labels and partial annotation are expressed.

Sums over labellings use scaled probabilities (:mod:`~loglinear.structures.chain.sums`). Sequences for which these
could underflow, and all other operations, use log space (:mod:`~loglinear.structures.chain.log_sums`). The covariance
with a cost is computed in the same two ways (:mod:`~loglinear.structures.chain.covariance`). Operations keep no state,
so threads may share a chain.

A chain of order 3 is one of order 2 whose contexts are pairs of labels: its part scores are laid out so, and the sums,
searches and draws are those of order 2. Where labels are given, those before (or around) a position make its 4-grams
scores of a trigram, or of the label alone, and pieces and conditionals are those of order 2 as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Float, Int32, Int64
from loglinear.errors import DataError, InfeasibleError, OptionError
from loglinear.kernels import kernel
from loglinear.kernels.numbers import INFEASIBLE, NEEDS_LOG_SPACE
from loglinear.structures.chain import log_sums, sums
from loglinear.structures.chain.sums import Parts
from loglinear.structures.sequences import Sequences, SequenceScores
from loglinear.structures.structure import best_sizes

GREAT_SCORE = 1e6  # beyond it, a sum in log space would lose more than ten of its digits


@dataclass(frozen=True, slots=True)
class ChainScores(SequenceScores):
    """A number for each part of a batch of S sequences with N positions in all: scores, expectations or gradients.

    Parameters
    ----------
    emission : float64[N, Y]
        s_t(y).
    transition : float64[Y, Y]
        From row to column, the same at every position.
    start, stop : float64[Y]
        For the label of the first and of the last position.
    edge : float64[N, Y, Y], optional
        ``edge[t, y', y]`` belongs to the labels of t - 1 and t. Rows of first positions are ignored. At order 3 it may
        be [N, Y^2, Y]: ``edge[t, y'' Y + y', y]`` belongs to the last three labels, at second positions, where there
        are two, ``edge[t, y', y]`` to these.
    trigram : float64[Y, Y, Y], optional
        From the third position of a sequence on; with it the chain is of order 2.
    fourgram : float64[Y, Y, Y, Y], optional
        From the fourth position of a sequence on; with it the chain is of order 3, and has trigrams, too.
    """

    emission: Float
    transition: Float
    start: Float
    stop: Float
    edge: Float | None = None
    trigram: Float | None = None
    fourgram: Float | None = None

    @property
    def order(self) -> int:
        """3 if there are 4-grams, 2 if there are trigrams, else 1."""
        if self.fourgram is not None:
            return 3
        return 1 if self.trigram is None else 2

    @property
    def has_deep_edges(self) -> bool:
        """Whether edges belong to three labels."""
        return self.order == 3 and self.edge is not None and np.shape(self.edge)[1:2] != (self.n_labels,)

    def with_edges(self, edge: Float | None) -> Self:
        """The same with ``edge`` added to its edges: of two labels, or at order 3 of three."""
        if edge is None or self.edge is None:
            return replace(self, edge=self.edge if edge is None else edge)
        rows = max(edge.shape[1], self.edge.shape[1])
        mine, other = (np.tile(one, (1, rows // one.shape[1], 1)) for one in (self.edge, edge))
        return replace(self, edge=mine + other)

    def with_edges_of(self, other: ChainScores) -> Self:
        """The same with as many rows of edges as ``other`` has: those of three labels summed, or none."""
        if other.edge is None or self.edge is None:
            return replace(self, edge=None)
        shape = (len(self.edge), -1, *other.edge.shape[1:])
        return replace(self, edge=self.edge.reshape(shape).sum(axis=1))

    def dot(self, other: Self) -> float:
        """Sum of the products of all parts that both have; parts that ``other`` rules out (-inf) count as zero."""
        return super(ChainScores, self.with_edges_of(other)).dot(other)

    def plus(self, other: Self) -> Self:
        """The sum, as new arrays; a part that only one of them has is copied."""
        total = super(ChainScores, self).plus(replace(other, edge=None))
        return total if other.edge is None else total.with_edges(other.edge.copy())

    @property
    def n_labels(self) -> int:
        """Y."""
        return int(self.transition.shape[0])


class Chain(Sequences):
    """The shape of a batch of chains, and the operations on its part scores.

    The order is that of the scores. All operations raise :class:`~loglinear.errors.DataError` for scores of a wrong
    shape, NaN or +inf. Where a sequence has no labelling with a score above -inf, :meth:`log_partition` and
    :meth:`score` return -inf and the others raise :class:`~loglinear.errors.InfeasibleError`.

    Parameters
    ----------
    offsets : int64[S + 1]
        Sequence i has the positions ``offsets[i]`` to ``offsets[i + 1] - 1``; ascending from 0, none empty.
    """

    # -- a given labelling, O(N) -----------------------------------------------------------------------------------

    def score(self, scores: ChainScores, labels: npt.ArrayLike) -> Float:
        """Scores [S] of the labelling ``labels`` int32[N]."""
        parts, numbers = self._checked(_to_order_2(scores)), self._checked_labels(labels, scores.n_labels)
        result = np.empty(self.n_sequences)
        score(self.offsets, parts, numbers, result)
        for table, places in self._deep_places(scores, numbers, "readable"):
            deep = np.zeros(self.n_positions)
            deep[places[0]] = table[places[1:]]
            result += np.add.reduceat(deep, self.offsets[:-1]) if self.n_sequences else deep
        return result

    def add_labelling(self, parts: ChainScores, labels: npt.ArrayLike, weights: npt.ArrayLike) -> None:
        """Add to ``parts``, in place, the weight [S] of each sequence for every part of its labelling int32[N]."""
        shaped, factors = self._shaped(_to_order_2(parts), "writable"), self._weights(weights)
        numbers = self._checked_labels(labels, parts.n_labels)
        add_labelling(self.offsets, numbers, factors, shaped)
        each = np.repeat(factors, np.diff(self.offsets))
        for table, places in self._deep_places(parts, numbers, "writable"):
            np.add.at(table, places[1:], each[places[0]])

    # -- best labellings, O(N Y^2) at order 1, O(N Y^3) at order 2, O(N Y^4) at order 3 ------------------------------

    def viterbi(self, scores: ChainScores) -> tuple[Int32, Float]:
        """Best labelling int32[N] and its scores [S]."""
        parts = self._checked(scores)
        labels, best = np.empty(self.n_positions, dtype=np.int32), np.empty(self.n_sequences)
        infeasible = log_sums.viterbi(self.offsets, parts, labels, best)
        if infeasible >= 0:
            raise InfeasibleError(int(infeasible))
        return labels, best

    def k_best(self, scores: ChainScores, k: int) -> list[tuple[Int32, Float]]:
        """For each sequence its K <= k best labellings int32[K, T], best first, and their scores [K].

        K is less than k only if there are no more labellings. The first is that of :meth:`viterbi`. Takes k times as
        long as :meth:`viterbi`.
        """
        sizes = best_sizes(np.diff(self.offsets), k, scores.n_labels, work=24.0 * scores.n_labels**scores.order)
        parts = self._checked(scores)
        results = []
        for i, (first, end) in enumerate(zip(self.offsets[:-1].tolist(), self.offsets[1:].tolist(), strict=True)):
            most = sizes[i]
            labels, best = np.empty((most, end - first), dtype=np.int32), np.empty(most)
            n_found = log_sums.k_best(first, end - 1, parts, labels, best)
            if n_found == 0:
                raise InfeasibleError(i)
            results.append((labels[:n_found], best[:n_found]))
        return results

    # -- sums over labellings, O(N Y^2) at order 1, O(N Y^3) at order 2, O(N Y^4) at order 3 -------------------------

    def log_partition(self, scores: ChainScores) -> Float:
        """log Z [S]; -inf where no labelling is possible."""
        parts = self._checked(scores)
        return self._forward_backward(parts, np.ones(self.n_sequences), _nothing_expected(parts))

    def expectations(self, scores: ChainScores, weights: npt.ArrayLike | None = None) -> tuple[Float, ChainScores]:
        """log Z [S], and the expected parts, each sequence's multiplied by its weight [S].

        Emissions are the node marginals [N, Y]; edges, only if ``scores`` has them, the edge marginals [N, Y, Y];
        the other parts are summed over positions and sequences. This is the gradient of ``weights @ log_partition``.
        """
        return self._expectations(scores, weights, _edge_rows(scores))

    def edge_marginals(self, scores: ChainScores, n_labels: int = 2) -> Float:
        """P(y_{t-1}, y_t) [N, Y, Y], zero at first positions; at order 3 of ``n_labels`` = 3 labels, [N, Y^2, Y]."""
        edge = self._expectations(scores, None, scores.n_labels ** (n_labels - 1))[1].edge
        assert edge is not None
        return edge

    def cost_covariance(
        self, scores: ChainScores, cost: npt.ArrayLike, weights: npt.ArrayLike | None = None
    ) -> tuple[Float, ChainScores]:
        """E[c] [S] of the cost c(y) = sum_t cost[t, y_t], and its covariances with the parts, times the weights [S].

        The covariance with a part is E[c part] - E[c] E[part], in the shapes of :meth:`expectations`: the gradient of
        ``weights @ E[c]`` by the scores. About twice the time of :meth:`expectations`, more with edges or trigrams.

        Parameters
        ----------
        scores : ChainScores
        cost : float64[N, Y]
            Finite; a constant added to a position's row is added to E[c] and does not change the covariances.
        weights : float64[S], optional
            1 by default; E[c] itself is not weighted.
        """
        from loglinear.structures.chain import covariance  # here: labelling has no use for it

        parts, factors = self._checked(scores), self._weights(weights)
        costs, unit = self._checked_costs(cost, scores.n_labels)
        result = self._blank_parts(scores, _edge_rows(scores))
        mean, status = np.empty(self.n_sequences), np.full(self.n_sequences, NEEDS_LOG_SPACE, dtype=np.uint8)
        if scores.order == 1 and scores.edge is None:
            covariance.covariance(self.offsets, parts, costs, unit, factors, mean, status, result)
        left = np.flatnonzero(status == NEEDS_LOG_SPACE).astype(np.int64)
        if len(left):
            covariance.covariance_in_logs(self.offsets, left, parts, costs, unit, factors, mean, status, result)
        if (status == INFEASIBLE).any():
            raise InfeasibleError(int(np.argmax(status == INFEASIBLE)))
        return mean, _as_scores(result, scores, scores.edge is not None)

    def posterior_decode(self, scores: ChainScores) -> tuple[Int32, Float]:
        """The possible labelling int32[N] with the greatest sum of node marginals, and these sums [S].

        The sum is the expected number of correct labels. Without -inf in transitions, edges and trigrams this is the
        best label of each position.
        """
        return self.best_possible(scores, self.expectations(scores)[1].emission)

    def best_possible(self, scores: ChainScores, values: Float) -> tuple[Int32, Float]:
        """The possible labelling (score above -inf) with the greatest sum of ``values`` [N, Y], and the sums [S]."""
        if not any(np.isneginf(array).any() for array in scores.parts().values()):
            labels = np.argmax(values, axis=1).astype(np.int32)
        else:
            possible = {name: np.where(np.isneginf(array), -np.inf, 0.0) for name, array in scores.parts().items()}
            possible["emission"] += values
            labels = self.viterbi(ChainScores(**possible))[0]
        return labels, self.sums_of(values, labels)

    def sample(self, scores: ChainScores, n: int, rng: np.random.Generator) -> Int32:
        """``n`` independent draws of labellings from p, int32[n, N]; O(n N Y) more than :meth:`log_partition`."""
        if n < 0:
            raise OptionError(f"n = {n}: the number of draws cannot be negative")
        return self.draws(scores, rng.random((n, self.n_positions)))

    def draws(self, scores: ChainScores, uniforms: Float) -> Int32:
        """A draw for each row of ``uniforms`` [n, N], numbers from 0 to 1."""
        parts, labels = self._levelled(self._checked(scores))[0], np.empty(uniforms.shape, dtype=np.int32)
        infeasible = log_sums.sample(self.offsets, parts, uniforms, labels)
        if infeasible >= 0:
            raise InfeasibleError(int(infeasible))
        return labels

    # -- pieces: each label given as many before as the order says, O(N Y^2), O(N Y^3) and O(N Y^4) -------------------

    def piece_normalisers(self, scores: ChainScores, nothing: bool = False) -> tuple[Float, ChainScores]:
        """Normalisers log sum_y exp piece_t(y given its context): of first positions [S], and of the others as scores.

        Those of position t depend on its context. They are ``emission[t - 1]`` [Y] where the context is the label of
        t - 1, and ``edge[t - 1]`` [Y, Y] from the third position of an order-2 chain on, [Y^2, Y] at order 3, where at
        the third position the context of two labels has the row of its first label. All other parts are 0. With
        ``nothing``, "none of the above" is one more outcome, of score 0. The normaliser of a context without a possible
        label is -inf, or 0 with ``nothing``.
        """
        from loglinear.structures.chain import pieces  # here: labelling has no use for it

        if scores.fourgram is not None:
            first, shallow = self.piece_normalisers(_to_order_2(scores), nothing)
            seconds, y = self._from(1, 1), scores.n_labels
            rows = np.empty((self.n_positions, y * y, y))
            for x in range(y):
                rows[:, x * y : (x + 1) * y] = self.piece_normalisers(_after(scores, x), nothing)[1].edge
            rows[seconds] = 0.0
            rows[seconds, :y] = _present(shallow.edge)[seconds]
            return first, replace(shallow, edge=rows)
        parts, n, y = self._checked(scores), self.n_positions, scores.n_labels
        nodes, pairs = np.zeros((n, y)), np.zeros((n if scores.order == 2 else 0, y, y))
        first, no_weights = np.empty(self.n_sequences), (np.empty((0, y)), np.empty((0, y * y)))
        normalisers = (nodes, pairs.reshape(-1, y * y))
        no_gradient = _nothing_expected(parts)
        pieces.pieces(self.offsets, parts, np.empty(0), no_weights, bool(nothing), first, normalisers, no_gradient)
        edge = pairs if scores.order == 2 else None
        return first, ChainScores(nodes, np.zeros((y, y)), np.zeros(y), np.zeros(y), edge)

    def add_piece_expectations(
        self,
        gradient: ChainScores,
        scores: ChainScores,
        weights: npt.ArrayLike,
        contexts: ChainScores | npt.ArrayLike,
        nothing: bool = False,
    ) -> Float:
        """Weighted sums [S] of the pieces' normalisers; the sums' gradient by the scores is added to ``gradient``.

        Parameters
        ----------
        gradient, scores : ChainScores
            With the same parts.
        weights : float64[S]
            Weight of each first piece's normaliser.
        contexts : ChainScores or int32[N]
            Weight of each context, shaped like the normalisers of :meth:`piece_normalisers`; those of weight 0 cost
            nothing. Or a labelling: only its contexts are used, with the sequence's weight, O(N Y).
        nothing : bool
            Whether "none of the above" is one more outcome.
        """
        from loglinear.structures.chain import pieces  # here: labelling has no use for it

        if gradient.parts().keys() != scores.parts().keys():
            raise DataError("the gradient must have the parts that the scores have, no more and no less")
        values, y = np.empty(self.n_sequences), scores.n_labels
        if scores.fourgram is not None and isinstance(contexts, ChainScores):
            return self._add_deep_pieces(gradient, scores, weights, contexts, nothing)
        if scores.fourgram is not None and not isinstance(contexts, ChainScores):
            return self._given_labels(
                lambda flat, by_flat: self.add_piece_expectations(by_flat, flat, weights, contexts, nothing),
                gradient, scores, self._checked_labels(contexts, y), after=False,
            )  # fmt: skip
        parts, shaped, factors = self._checked(scores), self._shaped(gradient, "writable"), self._weights(weights)
        if not isinstance(contexts, ChainScores):
            labels = self._checked_labels(contexts, y)
            pieces.add_conditionals(self.offsets, parts, labels, False, False, bool(nothing), factors, values, shaped)
            return np.multiply(values, factors, out=np.zeros_like(values), where=factors != 0.0)
        nodes, _, _, _, pairs, _ = self._checked(contexts)
        if contexts.n_labels != y or (contexts.edge is not None) != (scores.order == 2):
            raise DataError(f"contexts of {y} labels have weights [N, {y}], and edges at order 2 and only there")
        context_weights = (nodes, pairs.reshape(-1, y * y))
        no_normalisers = (np.empty((0, y)), np.empty((0, y * y)))
        pieces.pieces(self.offsets, parts, factors, context_weights, bool(nothing), values, no_normalisers, shaped)
        return values

    def add_given_neighbours(
        self,
        gradient: ChainScores,
        scores: ChainScores,
        labels: npt.ArrayLike,
        weights: npt.ArrayLike,
        any_neighbours: bool = False,
    ) -> Float:
        """- sum_t log p(label of t given all other labels) [S] of the labelling ``labels`` int32[N].

        With ``any_neighbours`` other neighbours count too, for which none of the above is right (``pieces`` has the
        sum). The gradient of these sums times ``weights`` [S] is added to ``gradient``, which has the parts of
        ``scores``.
        """
        from loglinear.structures.chain import pieces  # here: labelling has no use for it

        if scores.fourgram is not None:
            if any_neighbours:
                raise OptionError("order=3 has too many neighbours to sum over them all; use order 1 or 2")
            return self._given_labels(
                lambda flat, by_flat: self.add_given_neighbours(by_flat, flat, labels, weights),
                gradient, scores, self._checked_labels(labels, scores.n_labels), after=True,
            )  # fmt: skip
        parts, shaped, factors = self._checked(scores), self._shaped(gradient, "writable"), self._weights(weights)
        values, numbers = np.empty(self.n_sequences), self._checked_labels(labels, scores.n_labels)
        if any_neighbours:
            pieces.add_any_neighbours(self.offsets, parts, numbers, factors, values, shaped)
        else:
            pieces.add_conditionals(self.offsets, parts, numbers, True, True, False, factors, values, shaped)
        return values

    # -- order 3, by operations of order 2 ----------------------------------------------------------------------------

    def _from(self, depth: int, most: int | None = None) -> Int64:
        """The positions with at least ``depth`` labels before them in their sequence, and with ``most`` at most."""
        before = np.arange(self.n_positions) - np.repeat(self.offsets[:-1], np.diff(self.offsets))
        return np.flatnonzero((before >= depth) & (before <= (self.n_positions if most is None else most)))

    def _deep_places(self, scores: ChainScores, labels: Int32, use: str) -> list[tuple[Float, tuple[Int64, ...]]]:
        """The parts of more than three labels, or of three at a position, as (array, positions and places in it)."""
        found: list[tuple[Float, tuple[Int64, ...]]] = []
        if scores.fourgram is None:
            return found
        wide, y = labels.astype(np.int64), scores.n_labels
        shapes = {"fourgram": (y,) * 4} | ({"edge": (self.n_positions, y * y, y)} if scores.has_deep_edges else {})
        tables = self._checked_arrays(scores, shapes, (0,), use)
        t = self._from(3)
        found.append((tables[0], (t, wide[t - 3], wide[t - 2], wide[t - 1], wide[t])))
        if scores.has_deep_edges:
            t, two_back = self._from(1), np.roll(wide, 2)
            two_back[self._from(1, 1)] = 0
            found.append((tables[1], (t, t, two_back[t] * y + wide[t - 1], wide[t])))
        return found

    def _given_labels(
        self, operation: Callable[[ChainScores, ChainScores], Float], gradient: ChainScores, scores: ChainScores,
        labels: Int32, after: bool,
    ) -> Float:  # fmt: skip
        """An operation of order 2 on each label given those before and, if ``after``, those after it.

        Its 4-grams are then scores of the label alone: they are added to the emissions, and so is their gradient.
        """
        assert scores.fourgram is not None and gradient.fourgram is not None
        _refuse_deep_edges(scores)
        ends, slots = self._from(3), range(4) if after else (3,)  # where in a 4-gram the label is that is asked for
        four = labels[ends[:, None] + np.arange(-3, 1)].astype(np.int64)
        given = {slot: tuple(np.delete(four, slot, axis=1).T) for slot in slots}
        emission = self._checked(scores).emission.copy()
        for slot in slots:
            emission[ends - 3 + slot] += np.moveaxis(scores.fourgram, slot, -1)[given[slot]]
        by_emission = np.zeros_like(emission)
        flat = replace(_to_order_2(scores), emission=emission)
        values = operation(flat, replace(_to_order_2(gradient), emission=by_emission))
        gradient.emission[...] += by_emission
        for slot in slots:
            np.add.at(np.moveaxis(gradient.fourgram, slot, -1), given[slot], by_emission[ends - 3 + slot])
        return values

    def _add_deep_pieces(
        self, gradient: ChainScores, scores: ChainScores, weights: npt.ArrayLike, contexts: ChainScores, nothing: bool
    ) -> Float:
        """:meth:`add_piece_expectations` at order 3: contexts of up to two labels, then those after each third one."""
        assert scores.fourgram is not None and gradient.fourgram is not None and gradient.trigram is not None
        y, n = scores.n_labels, self.n_positions
        if contexts.n_labels != y or contexts.edge is None or contexts.edge.shape != (n, y * y, y):
            raise DataError(f"contexts of {y} labels at order 3 have edges [N, {y * y}, {y}]")
        seconds = self._from(1, 1)
        pairs = np.zeros((n, y, y))
        pairs[seconds] = contexts.edge[seconds, :y]
        shallow = _to_order_2(gradient)
        values = self.add_piece_expectations(
            shallow, _to_order_2(scores), weights, replace(contexts, edge=pairs), nothing
        )
        none, deep = np.zeros(self.n_sequences), self._from(2)
        for x in range(y):
            pairs[...] = 0.0
            pairs[deep] = contexts.edge[deep, x * y : (x + 1) * y]
            after = replace(shallow, trigram=np.zeros((y, y, y)))
            only = replace(contexts, emission=np.zeros((n, y)), edge=pairs)
            values += self.add_piece_expectations(after, _after(scores, x), none, only, nothing)
            gradient.trigram[...] += _present(after.trigram)
            gradient.fourgram[x] += _present(after.trigram)
        return values

    # -- checks and conversions ---------------------------------------------------------------------------------------

    def _expectations(
        self, scores: ChainScores, weights: npt.ArrayLike | None, edge_rows: int
    ) -> tuple[Float, ChainScores]:
        parts = self._checked(scores)
        expected = self._blank_parts(scores, edge_rows)
        log_z = self._forward_backward(parts, self._weights(weights), expected)
        if np.isneginf(log_z).any():
            raise InfeasibleError(int(np.argmax(np.isneginf(log_z))))
        return log_z, _as_scores(expected, scores, edge_rows > 0)

    def _blank_parts(self, scores: ChainScores, edge_rows: int) -> Parts:
        """Arrays for a kernel's results: uninitialised those that it writes, zero those that it adds to."""
        n, y = self.n_positions, scores.n_labels
        return Parts(
            np.empty((n, y)),
            np.zeros((y, y)),
            np.zeros(y),
            np.zeros(y),
            np.empty((n if edge_rows else 0, edge_rows or y, y)),
            np.zeros({1: (0, y, y), 2: (y, y, y), 3: (y + 1, y * y, y)}[scores.order]),
        )

    def _forward_backward(self, parts: Parts, weights: Float, expected: Parts) -> Float:
        """log Z [S]; fills ``expected``. Sequences that scaled probabilities cannot handle are done in log space."""
        if len(parts.trigram):
            scaled = sums.forward_backward_higher_order
        elif len(parts.edge) or len(expected.edge):
            scaled = sums.forward_backward_edges
        else:
            scaled = sums.forward_backward
        log_z, status = np.empty(self.n_sequences), np.empty(self.n_sequences, dtype=np.uint8)
        scaled(self.offsets, parts, weights, log_z, status, expected)
        left = np.flatnonzero(status == NEEDS_LOG_SPACE).astype(np.int64)
        if len(left):
            level, height = self._levelled(parts)
            log_sums.forward_backward(self.offsets, left, level, weights, log_z, expected)
            log_z[left] += height[left]
        return log_z

    def _levelled(self, parts: Parts) -> tuple[Parts, Float]:
        """The same distribution with emissions and edges of at most 0, and what that takes off log Z [S].

        A sum in log space has as many digits as the greatest score leaves it. Scores that are not great stay as they
        are.
        """
        peaks, heights = [], np.zeros(self.n_positions + 1)
        for array in (parts.emission, parts.edge):
            peak = array.max(axis=tuple(range(1, array.ndim)))
            peak[np.isneginf(peak)] = 0.0
            peaks.append(peak)
        if len(peaks[1]):
            peaks[1][self.offsets[:-1][np.diff(self.offsets) > 0]] = 0.0  # nothing leads to a first position
        if max(np.abs(peak).max(initial=0.0) for peak in peaks) < GREAT_SCORE:
            return parts, np.zeros(self.n_sequences)
        for peak in peaks:
            if len(peak):
                heights[1:] += np.cumsum(peak)
        height = np.diff(heights[self.offsets])
        level = parts._replace(emission=parts.emission - peaks[0][:, None], edge=parts.edge - peaks[1][:, None, None])
        return level, height

    def _checked(self, scores: ChainScores) -> Parts:
        """The arrays of ``scores`` in the form that kernels take; rejects NaN and +inf."""
        return self._shaped(scores, "readable")

    def _shaped(self, scores: ChainScores, use: str) -> Parts:
        n, y = self.n_positions, int(np.shape(scores.emission)[-1]) if np.ndim(scores.emission) else 0
        if y < 1:
            raise DataError("the emission scores must be an array [N, Y] with at least one label")
        rows = y * y if scores.has_deep_edges else y
        shapes = zip(Parts._fields, ((n, y), (y, y), (y,), (y,), (n, rows, y), (y, y, y)), strict=True)
        parts = Parts(*self._checked_arrays(scores, dict(shapes), (0, y, y), use))
        if scores.fourgram is None:
            return parts
        if scores.trigram is None:
            raise DataError("4-grams go with trigrams: give both")
        (fourgram,) = self._checked_arrays(scores, {"fourgram": (y,) * 4}, (0,), use)
        joint = np.empty((y + 1, y * y, y))
        np.add(fourgram.reshape(y, y * y, y), parts.trigram.reshape(1, y * y, y), out=joint[:y])
        joint[y] = parts.trigram.reshape(y * y, y)
        return parts._replace(trigram=joint)


def _as_scores(parts: Parts, scores: ChainScores, with_edges: bool) -> ChainScores:
    """A kernel's arrays for ``scores``, None for absent parts."""
    y, order, edge = scores.n_labels, scores.order, parts.edge if with_edges else None
    if order < 3:
        return ChainScores(*parts[:4], edge, parts.trigram if order == 2 else None)
    fourgram = np.ascontiguousarray(parts.trigram[:y]).reshape((y,) * 4)
    trigram = fourgram.sum(axis=0) + parts.trigram[y].reshape((y,) * 3)
    return ChainScores(*parts[:4], edge, trigram, fourgram)


def _nothing_expected(parts: Parts) -> Parts:
    """Parts that tell a kernel to compute no expectations and no gradient."""
    n_labels = len(parts.start)
    cube = (0, n_labels, n_labels)
    square, line = np.zeros((n_labels, n_labels)), np.zeros(n_labels)
    return Parts(np.empty((0, n_labels)), square, line, line, np.empty(cube), np.empty(cube))


def _edge_rows(scores: ChainScores) -> int:
    """How many rows the edges of a position have, 0 if there are none."""
    return 0 if scores.edge is None else int(np.shape(scores.edge)[1])


def _to_order_2(scores: ChainScores) -> ChainScores:
    """The same arrays without those of order 3."""
    if scores.fourgram is None:
        return scores
    return replace(scores, fourgram=None, edge=None if scores.has_deep_edges else scores.edge)


def _after(scores: ChainScores, x: int) -> ChainScores:
    """The order-2 scores of labels with ``x`` three positions before them."""
    assert scores.fourgram is not None and scores.trigram is not None
    _refuse_deep_edges(scores)
    return replace(scores, trigram=scores.trigram + scores.fourgram[x], fourgram=None)


def _present(array: Float | None) -> Float:
    """An array that is known not to be None."""
    assert array is not None
    return array


def _refuse_deep_edges(scores: ChainScores) -> None:
    if scores.has_deep_edges:
        raise DataError("edges of three labels cannot be cut into pieces; give edges of two [N, Y, Y]")


# ----------------------------------------------------------------------------------------------------------------------
# Given labellings: their scores, and the counts of their parts.
#
# ::
#
#     score(y) = start(y_1) + sum_t s_t(y_t) + sum_{t>=2} (transition(y_{t-1}, y_t) + edge_t(y_{t-1}, y_t))
#                + sum_{t>=3} trigram(y_{t-2}, y_{t-1}, y_t) + stop(y_T)
#
# An array of length zero is an absent part.


@kernel
def score(offsets: Int64, parts: Parts, labels: Int32, scores: Float) -> None:
    """Scores of the labellings ``labels`` [N] into ``scores`` [S], O(N)."""
    emission, transition, start, stop, edge, trigram = parts
    for i in range(offsets.shape[0] - 1):
        first, last = offsets[i], offsets[i + 1] - 1
        total = start[labels[first]] + stop[labels[last]]
        for t in range(first, last + 1):
            y = labels[t]
            total += emission[t, y]
            if t > first:
                total += transition[labels[t - 1], y]
                if edge.shape[0] > 0:
                    total += edge[t, labels[t - 1], y]
            if t > first + 1 and trigram.shape[0] > 0:
                total += trigram[labels[t - 2], labels[t - 1], y]
        scores[i] = total


@kernel
def add_labelling(offsets: Int64, labels: Int32, weights: Float, parts: Parts) -> None:
    """``parts`` += weight of the sequence for each part of its labelling ``labels`` [N], O(N)."""
    emission, transition, start, stop, edge, trigram = parts
    for i in range(offsets.shape[0] - 1):
        first, last, weight = offsets[i], offsets[i + 1] - 1, weights[i]
        start[labels[first]] += weight
        stop[labels[last]] += weight
        for t in range(first, last + 1):
            y = labels[t]
            emission[t, y] += weight
            if t > first:
                transition[labels[t - 1], y] += weight
                if edge.shape[0] > 0:
                    edge[t, labels[t - 1], y] += weight
            if t > first + 1 and trigram.shape[0] > 0:
                trigram[labels[t - 2], labels[t - 1], y] += weight
