"""Arc-factored dependency trees: a score for each head and child, and what all kinds of trees share.

    score(y) = sum over tokens t of s(y_t, t)               y_t in 0..n the head of token t: 0 the root, h the token h

    p(y) = exp(score(y)) / Z             (McDonald, Crammer & Pereira 2005; Smith & Smith 2007; Koo et al. 2007)

A labelling is the head of each token. The arcs of a sentence of n tokens are a block [n, n + 1], a row for each child
and a column for each head; the blocks of a batch lie one after the other. A score of -inf rules an arc out. Arcs from
a token to itself are always ruled out.

Letters: S sentences, N tokens in all, A = sum of n (n + 1) arcs, H heads (the longest n, plus 1).
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Array, Bool, Float, Int32, Int64
from loglinear.data.columns.corpus import ranges
from loglinear.errors import DataError, InfeasibleError, OptionError
from loglinear.kernels.numbers import NEEDS_LOG_SPACE
from loglinear.structures.arcs import best as arc_best
from loglinear.structures.arcs import sums
from loglinear.structures.arcs.best import Sentences
from loglinear.structures.structure import best_sizes


def arc_offsets(offsets: Int64) -> Int64:
    """Where each sentence's block of arcs begins [S + 1]."""
    lengths = np.diff(offsets)
    return np.concatenate([[0], np.cumsum(lengths * (lengths + 1))]).astype(np.int64)


def _is_head(offsets: Int64) -> Bool:
    """Which entries of a table [N, H] are possible heads of the token; these entries are the arcs, in their order."""
    lengths = np.diff(offsets)
    return np.arange(int(lengths.max(initial=0)) + 1) <= np.repeat(lengths, lengths)[:, None]


@dataclass(frozen=True, slots=True)
class ArcScores:
    """A number for each arc of a batch of S sentences: scores, expectations or gradients.

    Parameters
    ----------
    arcs : float64 [A]
        Blocks [n, n + 1], child by head.
    offsets : int64 [S + 1]
        Where the sentences' tokens begin.
    """

    arcs: Float
    offsets: Int64

    def zeros_like(self) -> ArcScores:
        """Zeros of the same shape."""
        return replace(self, arcs=np.zeros_like(self.arcs))

    def subtract(self, other: ArcScores) -> None:
        """Subtract in place."""
        np.subtract(self.arcs, other.arcs, out=self.arcs)

    def plus(self, other: ArcScores) -> ArcScores:
        """The sum, as a new array."""
        return replace(self, arcs=self.arcs + other.arcs)

    def times(self, factor: float) -> ArcScores:
        """The scores times a factor above 0, as a new array."""
        return replace(self, arcs=factor * self.arcs)

    def with_costs(self, costs: npt.ArrayLike) -> ArcScores:
        """The scores plus a cost for each head of each token [N, H]."""
        return replace(self, arcs=self.arcs + _arcs_of(self.offsets, costs, "costs"))

    def block(self, sentence: int) -> Float:
        """The arcs [n, n + 1] of one sentence, a view."""
        n = int(self.offsets[sentence + 1] - self.offsets[sentence])
        first = int(arc_offsets(self.offsets)[sentence])
        return self.arcs[first : first + n * (n + 1)].reshape(n, n + 1)


def _arcs_of(offsets: Int64, table: npt.ArrayLike, name: str) -> Float:
    """The arcs [A] of a table [N, H or more] of heads by token."""
    array, wanted = np.asarray(table, dtype=np.float64), _is_head(offsets)
    n_tokens, n_heads = wanted.shape
    if array.ndim != 2 or array.shape[0] != n_tokens or array.shape[1] < n_heads:
        raise DataError(f"{name} have the shape {array.shape}; {n_tokens} tokens need a row each of {n_heads}")
    return array[:, :n_heads][wanted]


class ArcTree(ABC):
    """The shape of a batch of dependency trees, and the operations on its arc scores; subclasses define which trees.

    All operations raise :class:`~loglinear.errors.DataError` for scores of a wrong shape, NaN or +inf. Where a sentence
    has no tree with a score above -inf, :meth:`log_partition` and :meth:`score` return -inf and the others raise
    :class:`~loglinear.errors.InfeasibleError`.

    Parameters
    ----------
    offsets : int64 [S + 1]
        Sentence i has the tokens ``offsets[i]`` to ``offsets[i + 1] - 1``; ascending from 0, none empty.
    single_root : bool
        Whether exactly one token has the root as its head, as in Universal Dependencies, or any number.
    """

    projective: bool

    def __init__(self, offsets: npt.ArrayLike, single_root: bool = True) -> None:
        self.offsets: Int64 = np.ascontiguousarray(offsets, dtype=np.int64)
        if self.offsets.ndim != 1 or not len(self.offsets) or self.offsets[0] != 0:
            raise DataError("offsets must begin with 0 and end with the number of tokens")
        lengths = np.diff(self.offsets)
        if (lengths <= 0).any():
            i = int(np.argmax(lengths <= 0))
            raise DataError(f"sentence {i} (from 0) has length {lengths[i]}; leave out sentences without tokens")
        self.single_root = single_root
        self.n_sequences = len(lengths)
        self.n_positions = int(self.offsets[-1])
        self.sentences = Sentences(self.offsets, arc_offsets(self.offsets))
        self.n_arcs = int(self.sentences.arcs[-1])

    # -- a given tree, O(N) ------------------------------------------------------------------------------------------

    def score(self, scores: ArcScores, labels: npt.ArrayLike) -> Float:
        """Scores [S] of the heads ``labels`` int32 [N]; does not check that they form trees."""
        lengths, arcs = np.diff(self.offsets), self._checked(scores)[self._places(labels)]
        totals = np.bincount(np.repeat(np.arange(self.n_sequences), lengths), arcs, self.n_sequences)
        return totals.astype(np.float64, copy=False)

    def add_labelling(self, parts: ArcScores, labels: npt.ArrayLike, weights: npt.ArrayLike) -> None:
        """Add to ``parts``, in place, the weight [S] of each sentence for every arc of its tree int32 [N]."""
        parts.arcs[self._places(labels)] += np.repeat(self._weights(weights), np.diff(self.offsets))

    def restrict(self, scores: ArcScores, allowed: npt.ArrayLike) -> ArcScores:
        """The scores, with -inf for the heads where ``allowed`` [N, H] is 0."""
        return scores.with_costs(np.where(np.asarray(allowed) > 0, 0.0, -np.inf))

    # -- best trees --------------------------------------------------------------------------------------------------

    def viterbi(self, scores: ArcScores) -> tuple[Int32, Float]:
        """The best tree int32 [N] and its scores [S]."""
        heads, best = np.empty(self.n_positions, dtype=np.int32), np.empty(self.n_sequences)
        arcs = self._checked(scores)
        infeasible = arc_best.viterbi(self.sentences, arcs, self.projective, self.single_root, heads, best)
        if infeasible >= 0:
            raise InfeasibleError(int(infeasible))
        return heads, best

    def k_best(self, scores: ArcScores, k: int) -> list[tuple[Int32, Float]]:
        """For each sentence its K <= k best trees int32 [K, n], best first, and their scores [K]."""
        longest = int(np.diff(self.offsets).max(initial=0))
        best_sizes(np.diff(self.offsets), k, longest + 1.0, "tree", work=60.0 * longest if self.projective else 0.0)
        checked, results = replace(scores, arcs=self._checked(scores)), []
        for s in range(self.n_sequences):
            heads, best = self._k_best(checked.block(s), k)
            if not len(best):
                raise InfeasibleError(s)
            results.append((heads, best))
        return results

    # -- what subclasses define --------------------------------------------------------------------------------------

    @abstractmethod
    def _k_best(self, arcs: Float, k: int) -> tuple[Int32, Float]:
        """The k best trees of one sentence with arcs [n, n + 1], and their scores."""

    @abstractmethod
    def _sums(self, arcs: Array, weights: Float, expected: Array) -> Array:
        """log Z [S]; writes the expected arcs, times the weights, to ``expected`` [A] unless that is empty.

        Scores may be complex: log Z and expected arcs are analytic in them.
        """

    # -- sums over trees ---------------------------------------------------------------------------------------------

    def log_partition(self, scores: ArcScores) -> Float:
        """log Z [S]; -inf where no tree is possible."""
        return self._sums(self._checked(scores), np.ones(self.n_sequences), np.empty(0))

    def expectations(self, scores: ArcScores, weights: npt.ArrayLike | None = None) -> tuple[Float, ArcScores]:
        """log Z [S], and the probabilities of the arcs, each sentence's multiplied by its weight [S]."""
        expected = np.zeros(self.n_arcs)
        log_z: Float = self._sums(self._checked(scores), self._weights(weights), expected)
        self._feasible(log_z)
        return log_z, ArcScores(expected, self.offsets)

    def cost_covariance(
        self, scores: ArcScores, cost: npt.ArrayLike, weights: npt.ArrayLike | None = None
    ) -> tuple[Float, ArcScores]:
        """E[c] [S] of the cost c(y) = sum_t cost[t, y_t], and its covariances with the arcs, times the weights [S].

        At the scores s + e c, the covariance of the cost with an arc is the derivative of the arc's expectation by e,
        and E[c] is the derivative of log Z. Both are computed as the imaginary part at a tiny imaginary e, which is
        exact to rounding (the complex step: Squire & Trapp 1998).
        """
        arcs = self._checked(scores)
        direction = _arcs_of(self.offsets, cost, "costs")
        expected = np.zeros(self.n_arcs, dtype=np.complex128)
        log_z = self._sums(arcs + STEP * 1j * direction, self._weights(weights), expected)
        self._feasible(log_z.real)
        return log_z.imag / STEP, ArcScores(expected.imag / STEP, self.offsets)

    def marginals(self, scores: ArcScores) -> Float:
        """Probability of each head of each token [N, H], H the longest sentence's length plus 1."""
        is_head = _is_head(self.offsets)
        table = np.zeros(is_head.shape)
        table[is_head] = self.expectations(scores)[1].arcs
        return table

    def sample(self, scores: ArcScores, n: int, rng: np.random.Generator) -> Int32:
        """``n`` independent draws of trees from p, int32 [n, N].

        Each token's head is drawn from its probabilities given the heads drawn before: a draw costs as many sums as the
        longest sentence has tokens, O(n^4).
        """
        if n < 0:
            raise OptionError(f"n = {n}: the number of draws cannot be negative")
        lengths, starts = np.diff(self.offsets), self.offsets[:-1]
        drawn = np.empty((n, self.n_positions), dtype=np.int32)
        for draw in drawn:
            left = scores
            for place in range(int(lengths.max(initial=0))):
                tokens = starts[lengths > place] + place
                cumulated = np.cumsum(self.marginals(left)[tokens], axis=1)
                targets = rng.random(len(tokens))[:, None] * cumulated[:, -1:]
                draw[tokens] = (cumulated <= targets).sum(axis=1)
                allowed = np.ones((self.n_positions, int(lengths.max()) + 1), dtype=np.uint8)
                allowed[tokens] = 0
                allowed[tokens, draw[tokens]] = 1
                left = self.restrict(left, allowed)
        return drawn

    # -- checks ------------------------------------------------------------------------------------------------------

    def _checked(self, scores: ArcScores) -> Float:
        arcs = np.ascontiguousarray(scores.arcs, dtype=np.float64)
        if arcs.shape != (self.n_arcs,):
            raise DataError(f"there are scores for {arcs.size} arcs, but {self.n_arcs} arcs")
        if not (arcs < np.inf).all():
            raise DataError("an arc's score is NaN or +inf; scores are finite or -inf")
        return arcs

    def _weights(self, weights: npt.ArrayLike | None) -> Float:
        if weights is None:
            return np.ones(self.n_sequences)
        array = np.ascontiguousarray(weights, dtype=np.float64)
        if array.shape != (self.n_sequences,):
            raise DataError(f"weights have the shape {array.shape}; {self.n_sequences} sentences need one each")
        return array

    def _places(self, labels: npt.ArrayLike) -> Int64:
        """Indices [N] of a labelling's arcs among all arcs."""
        heads, n_heads = np.asarray(labels, dtype=np.int64), np.repeat(np.diff(self.offsets) + 1, np.diff(self.offsets))
        if heads.shape != (self.n_positions,):
            raise DataError(f"heads have the shape {heads.shape}; {self.n_positions} tokens need one each")
        outside = np.flatnonzero((heads < 0) | (heads >= n_heads))
        if len(outside):
            raise DataError(f"the head of token {outside[0]} (from 0) is not in its sentence")
        return np.cumsum(n_heads) - n_heads + heads

    def _feasible(self, log_z: Float) -> None:
        if np.isneginf(log_z).any():
            raise InfeasibleError(int(np.argmax(np.isneginf(log_z))))


STEP = 1e-30  # of the complex step: its square is negligible


class ProjectiveTree(ArcTree):
    """A batch of dependency trees without crossing arcs (Eisner 1996); all operations are O(n^3)."""

    projective = True

    def _k_best(self, arcs: Float, k: int) -> tuple[Int32, Float]:
        n = len(arcs)
        most = k if n > 8 else min(k, (n + 1) ** n)
        heads, best = np.empty((most, n), dtype=np.int32), np.empty(most)
        n_found = arc_best.k_best(arcs, self.single_root, heads, best)
        return heads[:n_found], best[:n_found]

    def _sums(self, arcs: Array, weights: Float, expected: Array) -> Array:
        log_z = np.full(self.n_sequences, -np.inf, dtype=arcs.dtype)
        status, wanted = np.zeros(self.n_sequences, dtype=np.uint8), expected.astype(arcs.dtype, copy=False)
        sums.scaled(self.sentences, arcs, self.single_root, weights, log_z, status, wanted)
        left = np.flatnonzero(status == NEEDS_LOG_SPACE).astype(np.int64)
        if len(left):
            sums.in_logs(self.sentences, left, arcs, self.single_root, weights, log_z, status, wanted)
        return log_z


DIFFERENCE = 1e-4  # step of the finite differences of sums in log space


class NonProjectiveTree(ArcTree):
    """A batch of dependency trees with or without crossing arcs (McDonald et al. 2005; Koo et al. 2007)."""

    projective = False

    def _k_best(self, arcs: Float, k: int) -> tuple[Int32, Float]:
        """Splits the remaining trees after each result into sets, each with its own best tree (Lawler 1972): the trees
        that share the heads of the first t tokens and differ in the head of the next. O(k n^4) at worst."""
        n, count = len(arcs), 0
        sentence = Sentences(np.array([0, n]), np.array([0, arcs.size]))
        waiting: list[tuple[float, int, Int32, int, Float]] = []

        def push(allowed: Float, fixed: int) -> None:
            nonlocal count
            heads, best = np.empty(n, dtype=np.int32), np.empty(1)
            if arc_best.viterbi(sentence, allowed.ravel(), False, self.single_root, heads, best) < 0:
                count += 1
                heapq.heappush(waiting, (-float(best[0]), count, heads, fixed, allowed))

        push(arcs, 0)
        results: list[tuple[float, Int32]] = []
        while waiting and len(results) < k:
            negative, _, heads, fixed, allowed = heapq.heappop(waiting)
            results.append((-negative, heads))
            kept = allowed.copy()
            for t in range(fixed, n):
                without = kept.copy()
                without[t, heads[t]] = -np.inf
                push(without, t)
                score = kept[t, heads[t]]
                kept[t] = -np.inf
                kept[t, heads[t]] = score
        trees = np.array([heads for _, heads in results], dtype=np.int32).reshape(-1, n)
        return trees, np.array([score for score, _ in results])

    def _sums(self, arcs: Array, weights: Float, expected: Array) -> Array:
        log_z = np.full(self.n_sequences, -np.inf, dtype=arcs.dtype)
        wanted = expected.astype(arcs.dtype, copy=False)
        sums.spanning_sums(self.sentences, arcs, self.single_root, weights, log_z, wanted)
        left = np.flatnonzero(~np.isfinite(log_z.real)).astype(np.int64)
        if len(left):
            self._in_logs(left, arcs, weights, log_z, wanted)
        return log_z

    def _in_logs(self, left: Int64, arcs: Array, weights: Float, log_z: Array, expected: Array) -> None:
        """Do the sentences ``left``, whose sums leave the range of floats, in log space.

        This happens where every tree has an arc e^-700 times worse than its child's best. Derivatives in the direction
        of imaginary scores are computed as differences.
        """
        begins = self.sentences.arcs

        def sums_at(scores: Float) -> tuple[Float, Float]:
            real_z, real = np.full(self.n_sequences, -np.inf), np.zeros(len(expected))
            sums.spanning_sums_in_logs(self.sentences, left, scores, self.single_root, weights, real_z, real)
            return real_z, real

        real_z, real = sums_at(np.ascontiguousarray(arcs.real))
        places = ranges(begins[:-1][left], np.diff(begins)[left]) if len(expected) else np.zeros(0, dtype=np.int64)
        log_z[left], expected[places] = real_z[left], real[places]
        if np.iscomplexobj(arcs):
            direction = arcs.imag / STEP
            ahead, behind = (sums_at(arcs.real + sign * DIFFERENCE * direction) for sign in (1.0, -1.0))
            with np.errstate(invalid="ignore"):
                slope = STEP / (2.0 * DIFFERENCE) * (ahead[0] - behind[0])
            log_z[left] += 1j * np.nan_to_num(slope)[left]
            expected[places] += 1j * STEP / (2.0 * DIFFERENCE) * (ahead[1] - behind[1])[places]
