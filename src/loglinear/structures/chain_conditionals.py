r"""Each position's label given other labels of a labelling: what MEMMs and pseudolikelihood are trained on.

With the labels y* of the other positions fixed, the label of position t has the scores::

    given those before      r_t(y) = s_t(y) + transition(y*_{t-1}, y) + edge_t(y*_{t-1}, y)
                                     + trigram(y*_{t-2}, y*_{t-1}, y)
    and those after                  + transition(y, y*_{t+1}) + edge_{t+1}(y, y*_{t+1})
                                     + trigram(y*_{t-1}, y, y*_{t+1}) + trigram(y, y*_{t+1}, y*_{t+2})

with start(y) and stop(y) at the ends of the sequence, and parts that reach beyond it left out. A position's value is
log sum_y exp r_t(y), log(1 + sum ...) with none of the above; less the score r_t(y*_t) of its own label, if that is
asked for, it is -log p(y*_t given the others). O(Y) a position.

Arrays of length zero stand for absent parts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from loglinear.kernels import kernel

if TYPE_CHECKING:
    from loglinear.structures.chain import Chain, ChainScores

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Offsets = npt.NDArray[np.int64]
Parts = tuple[Floats, Floats, Floats, Floats, Floats, Floats]

# exp(x) = 2^k exp(r) where x = k log 2 + r, |r| <= log(2) / 2. Adding ROUND leaves k in the low bits of the sum.
ROUND = 1.5 * 2.0**52
LOG2_HIGH = 0.6931471803691238  # the leading 32 bits of log 2, so that k * LOG2_HIGH is exact
LOG2_LOW = 1.9082149292705877e-10
INVERSE_LOG2 = 1.4426950408889634
GREATEST_EXPONENT = 700.0  # within it 2^k is a normal number


@kernel
def _exponentials(values: Floats, powers: Floats) -> None:
    """``values = exp(values)``, 0 for -inf, right to two units in the last place; ``powers`` is scratch as long.

    Written out because a loop around the library's ``exp`` does not vectorise: a Taylor polynomial of degree 13, even
    and odd powers apart. Exponents beyond +-700 are taken for +-700.
    """
    n = values.shape[0]
    for j in range(n):
        x = min(max(values[j], -GREATEST_EXPONENT), GREATEST_EXPONENT)
        rounded = x * INVERSE_LOG2 + ROUND
        powers[j] = rounded if values[j] > -np.inf else ROUND - 1023.0  # then 2^k below is 0
        k = rounded - ROUND
        r = (x - k * LOG2_HIGH) - k * LOG2_LOW
        q = r * r
        even, odd = q * (1 / 479001600.0) + 1 / 3628800.0, q * (1 / 6227020800.0) + 1 / 39916800.0
        even, odd = even * q + 1 / 40320.0, odd * q + 1 / 362880.0
        even, odd = even * q + 1 / 720.0, odd * q + 1 / 5040.0
        even, odd = even * q + 1 / 24.0, odd * q + 1 / 120.0
        even, odd = even * q + 0.5, odd * q + 1 / 6.0
        even, odd = even * q + 1.0, odd * q + 1.0
        values[j] = even + r * odd
    bits = powers.view(np.int64)
    for j in range(n):
        bits[j] = (bits[j] << 52) + (1023 << 52)  # the float 2^k
    for j in range(n):
        values[j] *= powers[j]


@kernel
def normalise_rows(table: Floats, log_sums: Floats) -> None:
    """``table`` [R, K] becomes exp(table - log sum exp of its row), the sums ``log_sums`` [R]; rows of -inf zeros."""
    n_rows, width = table.shape
    powers = np.empty(table.size)
    for j in range(n_rows):
        row, peak = table[j], -np.inf
        for k in range(width):
            peak = max(peak, row[k])
        log_sums[j] = peak
        if peak > -np.inf:
            for k in range(width):
                row[k] -= peak
    _exponentials(table.reshape(-1), powers)
    for j in range(n_rows):
        row, total = table[j], 0.0
        for k in range(width):
            total += row[k]
        if total > 0.0:
            log_sums[j] += math.log(total)
            for k in range(width):
                row[k] /= total


@kernel
def _add_scores(t: int, first: int, last: int, parts: Parts, labels: Ints, after: bool, row: Floats) -> None:
    """Adds to ``row`` [Y] the scores r_t, those of the labels after only if ``after``."""
    emission, transition, start, stop, edge, trigram = parts
    edges, paired = edge.shape[0] > 0, trigram.shape[0] > 0
    for y in range(row.shape[0]):
        row[y] += emission[t, y]
    if t == first:
        for y in range(row.shape[0]):
            row[y] += start[y]
    else:
        arcs = transition[labels[t - 1]]
        for y in range(row.shape[0]):
            row[y] += arcs[y]
        if edges:
            arcs = edge[t, labels[t - 1]]
            for y in range(row.shape[0]):
                row[y] += arcs[y]
    if t == last:
        for y in range(row.shape[0]):
            row[y] += stop[y]
    if paired and t > first + 1:
        arcs = trigram[labels[t - 2], labels[t - 1]]
        for y in range(row.shape[0]):
            row[y] += arcs[y]
    if after and t < last:
        follower = labels[t + 1]
        for y in range(row.shape[0]):
            row[y] += transition[y, follower]
            if edges:
                row[y] += edge[t + 1, y, follower]
            if paired and t > first:
                row[y] += trigram[labels[t - 1], y, follower]
            if paired and t + 1 < last:
                row[y] += trigram[y, follower, labels[t + 2]]


@kernel
def _add_gradient(t: int, first: int, last: int, row: Floats, labels: Ints, after: bool, gradient: Parts) -> None:
    """Adds a gradient ``row`` [Y] by r_t to that by the parts: :func:`_add_scores` the other way round."""
    emission, transition, start, stop, edge, trigram = gradient
    edges, paired = edge.shape[0] > 0, trigram.shape[0] > 0
    own = emission[t]
    for y in range(row.shape[0]):
        own[y] += row[y]
    if t == first:
        for y in range(row.shape[0]):
            start[y] += row[y]
    else:
        arcs = transition[labels[t - 1]]
        for y in range(row.shape[0]):
            arcs[y] += row[y]
        if edges:
            arcs = edge[t, labels[t - 1]]
            for y in range(row.shape[0]):
                arcs[y] += row[y]
    if t == last:
        for y in range(row.shape[0]):
            stop[y] += row[y]
    if paired and t > first + 1:
        arcs = trigram[labels[t - 2], labels[t - 1]]
        for y in range(row.shape[0]):
            arcs[y] += row[y]
    if after and t < last:
        follower = labels[t + 1]
        for y in range(row.shape[0]):
            transition[y, follower] += row[y]
            if edges:
                edge[t + 1, y, follower] += row[y]
            if paired and t > first:
                trigram[labels[t - 1], y, follower] += row[y]
            if paired and t + 1 < last:
                trigram[y, follower, labels[t + 2]] += row[y]


@kernel
def _fill_rows(
    first: int, last: int, parts: Parts, labels: Ints, after: bool, own: bool, nothing: bool, rows: Floats,
    peaks: Floats,
) -> float:  # fmt: skip
    """Fills ``rows`` [T, Y] with a sequence's scores less their maxima ``peaks`` [T].

    Returns the sum of the maxima, less the scores of the own labels if ``own``; it is infinite, and the rest undone,
    where a position has no possible label.
    """
    value = 0.0
    for t in range(first, last + 1):
        row = rows[t - first]
        for y in range(row.shape[0]):
            row[y] = 0.0
        _add_scores(t, first, last, parts, labels, after, row)
        peak = 0.0 if nothing else -np.inf
        for y in range(row.shape[0]):
            peak = max(peak, row[y])
        if own and row[labels[t]] == -np.inf:
            return np.inf
        if peak == -np.inf:
            return -np.inf
        value += peak - (row[labels[t]] if own else 0.0)
        for y in range(row.shape[0]):
            row[y] -= peak
        peaks[t - first] = peak
    return value


@kernel
def add_conditionals(
    offsets: Offsets, parts: Parts, labels: Ints, after: bool, own: bool, nothing: bool, weights: Floats,
    values: Floats, gradient: Parts,
) -> None:  # fmt: skip
    """Sums [S] of the positions' values into ``values``; their gradient times ``weights`` [S] is added.

    Parameters
    ----------
    offsets : int64[S + 1]
    parts, gradient : emission [N, Y], transition [Y, Y], start, stop [Y], edge [N or 0, Y, Y], trigram [Y or 0, Y, Y]
    labels : int32[N]
    after : bool
        Whether the labels after a position are given too.
    own : bool
        Whether the score of the position's own label is taken off; inf where that is impossible.
    nothing : bool
        Whether "none of the above", of score 0, is one more outcome.
    """
    n_labels, longest = parts[0].shape[1], 0
    for i in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    rows, powers, peaks = np.empty((longest, n_labels)), np.empty(longest * n_labels), np.empty(longest)
    for i in range(offsets.shape[0] - 1):
        first, last = offsets[i], offsets[i + 1] - 1
        values[i] = _fill_rows(first, last, parts, labels, after, own, nothing, rows, peaks)
        if not np.isfinite(values[i]):
            continue
        _exponentials(rows.reshape(-1)[: (last - first + 1) * n_labels], powers)
        for t in range(first, last + 1):
            row, total = rows[t - first], math.exp(-peaks[t - first]) if nothing else 0.0
            for y in range(n_labels):
                total += row[y]
            values[i] += math.log(total)
            share = weights[i] / total
            for y in range(n_labels):
                row[y] *= share
            if own:
                row[labels[t]] -= weights[i]
            _add_gradient(t, first, last, row, labels, after, gradient)


def add_given_neighbours(
    chain: Chain, gradient: ChainScores, scores: ChainScores, labels: npt.ArrayLike, weights: npt.ArrayLike
) -> Floats:
    """- sum_t log p(label of t given all other labels) [S] of the labelling ``labels`` int32[N].

    The gradient of these sums times ``weights`` [S] is added to ``gradient``, which has the parts of ``scores``.
    """
    parts, shaped = chain._checked(scores), chain._shaped(gradient, "writable")
    values, numbers = np.empty(chain.n_sequences), chain._labels(labels, scores.n_labels)
    add_conditionals(chain.offsets, parts, numbers, True, True, False, chain._weights(weights), values, shaped)
    return values
