r"""Minimum error rate training (Och 2003): few dense weights, by the error itself of the labellings they choose.

Each of S examples has a list of candidates with features f_c [K] and counts n_c [M], of which the error is a function:

    chosen_i(w) = argmax over its candidates c of  w . f_c            error(w) = E( sum_i n_{chosen_i(w)} )

E may be anything, 1 - F1 of three counts among others. As a function of w it is constant but for jumps, so there is no
gradient. Along a line w + g d it is known exactly, though: each candidate's score is a line in g,

    (w + g d) . f_c  =  w . f_c  +  g d . f_c

and the chosen ones are the upper envelope of the list's lines. Where it bends, another candidate is chosen and the
counts change. All examples' bends, sorted, cut the line into intervals of constant error, whose counts are cumulative
sums. The least of them is the minimum over the whole line.

1. From each start, search along every coordinate and some random directions; take the best of these lines to the
   middle of its best interval, as long as the error falls.
2. Starts are the best weights so far and random ones; the best end is the weights to try next.
3. Lists are the k best labellings by some weights. The k best by the new weights are added, and the search starts
   again, until they hold nothing new.

After 3 the best labellings by the weights are in the lists, so that the error on the lists is that of all labellings;
the weights kept are those for which that was least. The length of w changes no choice: weights are unit vectors.

The envelope is walked as Och does: from the line of the least slope, each next one is that of greater slope which is
met first. O(C h) for C candidates of which h are on it; h is small, so that sorting by slope would not be quicker.

Letters: S examples, C candidates in all, K features, M counts.

References
----------
Och 2003, Minimum error rate training in statistical machine translation (ACL).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from loglinear.arrays import Float, Int64
from loglinear.kernels import kernel
from loglinear.optimizers.optimizer import Result
from loglinear.options import option, options
from loglinear.wording import how_many

NARROW = 1e-9  # narrower intervals, as a share of where they lie, are left out
METRICS = F1, ACCURACY = "f1", "accuracy"
GAIN = 1e-12  # least decrease of the error that counts as one


@kernel
def _product(features: Float, weights: Float, products: Float) -> None:
    """features . weights [C], added up in the same order whatever else runs."""
    for c in range(features.shape[0]):
        row, total = features[c], 0.0
        for k in range(weights.shape[0]):
            total += row[k] * weights[k]
        products[c] = total


@kernel
def envelopes(offsets: Int64, height: Float, slope: Float, at: Float, before: Int64, after: Int64, first: Int64) -> int:
    """The upper envelope of each example's lines ``height + g slope``; returns how often they bend in all.

    Parameters
    ----------
    offsets : int64[S + 1]
        Example s has the candidates from ``offsets[s]`` to ``offsets[s + 1]``, at least one.
    height, slope : float64[C]
    at, before, after : [C]
        Written, for each bend: its g, and the candidates of the envelope below and above it.
    first : int64[S]
        Written: the candidates at g = -inf.
    """
    n = 0
    for s in range(offsets.shape[0] - 1):
        best = offsets[s]
        for c in range(offsets[s] + 1, offsets[s + 1]):
            if slope[c] < slope[best] or (slope[c] == slope[best] and height[c] > height[best]):
                best = c
        first[s], g = best, -np.inf
        while True:
            following, nearest = -1, np.inf
            for c in range(offsets[s], offsets[s + 1]):
                if slope[c] > slope[best]:
                    met = max((height[best] - height[c]) / (slope[c] - slope[best]), g)
                    steeper = following >= 0 and slope[c] > slope[following]
                    if met < nearest or (met == nearest and steeper):
                        following, nearest = c, met
            if following < 0:
                break
            at[n], before[n], after[n] = nearest, best, following
            best, g, n = following, nearest, n + 1
    return n


@dataclass(frozen=True)
class Lists:
    """Candidates of S examples, and what error their counts make.

    Parameters
    ----------
    offsets : int64 [S + 1]
        Where the examples' candidates begin; each has at least one.
    features : float64 [C, K]
    counts : float64 [C, M]
    error : callable
        From sums of counts [..., M] to errors [...].
    """

    offsets: Int64
    features: Float
    counts: Float
    error: Callable[[Float], Float]

    def at(self, weights: Float) -> float:
        """The error of the candidates with the greatest score, the first of equals."""
        at, _, _, first = self._bends(weights, np.zeros_like(weights))
        assert not len(at), "lines without a slope do not meet"
        return float(self.error(self.counts[first].sum(axis=0)))

    def along(self, weights: Float, direction: Float) -> tuple[Float, Float]:
        """Where the error along the line jumps, ascending [B], and the errors of the intervals between [B + 1]."""
        at, before, after, first = self._bends(weights, direction)
        order = np.argsort(at, kind="stable")
        changes = self.counts[after[order]] - self.counts[before[order]]
        start = self.counts[first].sum(axis=0)
        errors = self.error(np.cumsum(np.concatenate([start[None], changes]), axis=0))
        return at[order], errors

    def _bends(self, weights: Float, direction: Float) -> tuple[Float, Int64, Int64, Int64]:
        n, n_examples = len(self.features), len(self.offsets) - 1
        height, slope, at = np.empty(n), np.empty(n), np.empty(n)
        before, after = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        first = np.empty(n_examples, dtype=np.int64)
        _product(self.features, weights, height)
        _product(self.features, direction, slope)
        n_bends = envelopes(self.offsets, height, slope, at, before, after, first)
        return at[:n_bends], before[:n_bends], after[:n_bends], first

    def lowest(self, weights: Float, direction: Float) -> float:
        """The g of least error along the line: the middle of its interval, of the widest one of equals.

        The outermost intervals, which do not end, count as if they were one unit wide.
        """
        at, errors = self.along(weights, direction)
        if not len(at):
            return 0.0
        bounds = np.concatenate([[at[0] - 1.0], at, [at[-1] + 1.0]])
        widths, middles = np.diff(bounds), (bounds[:-1] + bounds[1:]) / 2
        errors = np.where(widths > NARROW * (1.0 + np.abs(middles)), errors, np.inf)
        lowest = np.flatnonzero(errors <= errors.min() + GAIN)
        return float(middles[lowest[np.argmax(widths[lowest])]])


@dataclass
class MERTState:
    """The search after a round: its number, lines searched so far, and the best weights [K] with their error."""

    iteration: int
    evaluations: int
    value: float
    weights: Float


@options
class MERT:
    """Minimum error rate training.

    Parameters
    ----------
    k : int
        Labellings that each round adds to a list, at most.
    metric : str or None
        What the error is one minus of; None: F1 of labels that are chunks, accuracy of others.
    restarts : int
        Random starts in each round.
    directions : int
        Random directions, beside the coordinates.
    """

    name: ClassVar[str] = "mert"

    k: int = option("labellings that each round adds to the list of a sentence", default=50, least=1)
    metric: str | None = option(
        "what is raised: f1 (the default for chunk labels) or accuracy", default=None, choices=METRICS
    )
    restarts: int = option("random starts in each round", default=10, least=0)
    directions: int = option("random directions to search along, beside each weight's own", default=4, least=0)

    def minimise(
        self,
        grown: Callable[[Float], tuple[Lists, int]],
        weights: Float,
        *,
        max_iter: int,
        seed: int,
        callback: Callable[[MERTState], object],
    ) -> Result:
        """Weights of least error, from ``weights`` [K] on.

        Parameters
        ----------
        grown : callable
            Adds the k best candidates by some weights to the lists; returns these, and how many candidates are new.
        weights : float64 [K]
            Where to start: not zero.
        max_iter : int
            Most rounds.
        seed : int
            Of starts and directions.
        callback : callable
            Called with the state after each round.
        """
        rng = np.random.default_rng(seed)
        tried = _unit(weights)
        lists, _ = grown(tried)
        state = MERTState(0, 0, lists.at(tried), tried)
        while state.iteration < max_iter:
            state.iteration += 1
            starts = [state.weights, *(_unit(rng.standard_normal(len(weights))) for _ in range(self.restarts))]
            ends = [self.descended(lists, start, rng, state) for start in starts]
            tried, _ = min(ends, key=lambda end: end[1])
            lists, n_new = grown(tried)
            error = lists.at(tried)
            if error < state.value - GAIN:
                state.value, state.weights = error, tried
            callback(state)
            if not n_new:
                return Result(state, True, "converged: the n-best lists hold nothing new")
        return Result(state, False, f"stopped after {how_many(max_iter, 'round')} (max_iter {max_iter})")

    def descended(
        self, lists: Lists, weights: Float, rng: np.random.Generator, state: MERTState
    ) -> tuple[Float, float]:
        """From ``weights`` along the best of all directions as long as the error falls: where it ends, and the error.

        Counts the lines in ``state``.
        """
        error = lists.at(weights)
        while True:
            found, least = weights, error
            for direction in self._directions(len(weights), rng):
                state.evaluations += 1
                there = weights + lists.lowest(weights, direction) * direction
                if there.any() and (own := lists.at(there := _unit(there))) < least - GAIN:
                    found, least = there, own
            if found is weights:
                return weights, error
            weights, error = found, least

    def _directions(self, n: int, rng: np.random.Generator) -> Iterator[Float]:
        yield from np.eye(n)
        for _ in range(self.directions):
            yield _unit(rng.standard_normal(n))


def _unit(vector: Float) -> Float:
    """The vector of length one."""
    return vector / np.sqrt((vector * vector).sum())
