"""Sums over the labellings of chains in scaled probabilities: of order 1, then of orders 2 and 3.

Forward-backward of first-order chains in scaled probabilities: the loop that training spends its time in.

With ``E_t(y) = exp(s_t(y) - max s_t)`` (start and stop scores belong to the first and last rows) and
``M = exp(transition - max transition)``, the forward and backward vectors are rescaled at each position
(Rabiner 1989, "A tutorial on hidden Markov models", section V.A)::

    a_t(y)      = E_t(y)  sum_y' a_{t-1}(y') M(y', y)  / c_t          so that  sum_y a_t(y) = 1
    b_{t-1}(y') = sum_y M(y', y) G_t(y)                               with     G_t = E_t b_t / c_t,  b_T = 1
    log Z       = sum_t (log c_t + max s_t) + (T - 1) max transition
    P(y_t = y)  = a_t(y) b_t(y)
    P(y', y)    = a_{t-1}(y') M(y', y) G_t(y)

The expected transition counts are ``M`` times a sum of outer products ``a_{t-1} G_t``, so ``M`` enters once per call.

Why the scaled numbers can be trusted. A sequence is accepted (status ``DONE``) only if

1. at each position, the spread of the finite scores plus that of the finite transitions is at most ``MAX_SPREAD`` = 300
   nats, so that each non-zero ``M(y', y) E_t(y)`` is at least e^-300 > 5e-131, and
2. each non-zero ``a_t(y)`` and ``b_t(y)`` is at least ``TINY`` = 1e-150.

*No underflow.* By 1 and 2 each non-zero term ``a M E`` is at least 5e-281, far above the smallest normal number 2e-308;
``c_t <= 1``, so dividing only enlarges it; the same holds for ``M E b / c``. A zero is therefore always a structural
zero (a score of -inf), ``c_t = 0`` means that no labelling exists, and since all terms are non-negative each value
carries a relative error of a few roundings per position.
*No overflow.* ``a_t b_t`` is a probability, so ``b_t(y) <= 1 / a_t(y) <= 1e150`` where ``a_t(y) > 0``, and
``G_t(y) = a_t(y) b_t(y) / (a_{t-1} M)(y) <= 2e280``. Where ``a_t(y) = 0`` no part through ``y`` has a probability, and
``b_t(y)``, which could be anything, is set to zero.

Sequences that fail get the status ``NEEDS_LOG_SPACE`` and are left to :mod:`loglinear.structures.chain.log_sums`;
nothing of them has been added to any sum. Arrays of length zero are absent parts, in the input and in the output.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from loglinear.arrays import Float, Int64, UInt8
from loglinear.kernels import kernel, small_kernel
from loglinear.kernels.numbers import DONE, INFEASIBLE, MAX_SPREAD, NEEDS_LOG_SPACE, TINY, exp_below, extent, longest


class Parts(NamedTuple):
    """A number for each part of a chain, as kernels take them: scores, expected parts or a gradient.

    Parameters
    ----------
    emission : float64 [N, Y]
    transition : float64 [Y, Y]
    start, stop : float64 [Y]
    edge : float64 [N or 0, R, Y]
        R = Y; at order 3 also Y^2, a row for each pair of labels before.
    trigram : float64 [Y or 0, Y, Y]
        At order 3 [Y + 1, Y^2, Y]: trigrams and 4-grams after the labels b and c = y'' Y + y', and in the last row the
        trigrams alone, those of third positions. An array of length 0 is an absent part, in the input and in the
        output. If the ``emission`` of the output has length 0, no expectations are computed at all.
    """

    emission: Float
    transition: Float
    start: Float
    stop: Float
    edge: Float
    trigram: Float


LANES = 4  # labels are padded with zeros to a multiple of this: rows of a product are added four at a time


@small_kernel
def padded(n: int) -> int:
    """``n`` rounded up to a multiple of LANES."""
    return (n + LANES - 1) // LANES * LANES


@small_kernel
def add_product(vector: Float, matrix: Float, out: Float) -> None:
    """``out[y] += sum_b vector[b] matrix[b, y]``, four b at a time; all dimensions are a multiple of LANES."""
    width = vector.shape[0]
    for b in range(0, width, LANES):
        v0, v1, v2, v3 = vector[b], vector[b + 1], vector[b + 2], vector[b + 3]
        m0, m1, m2, m3 = matrix[b], matrix[b + 1], matrix[b + 2], matrix[b + 3]
        for y in range(width):
            out[y] += (v0 * m0[y] + v1 * m1[y]) + (v2 * m2[y] + v3 * m3[y])


@kernel
def transition_factors(transition: Float) -> tuple[Float, Float, float, float]:
    """M [W, W] and its transpose, W = Y padded with zeros; the maximum of the finite transitions and their spread."""
    n_labels, width = transition.shape[0], padded(transition.shape[0])
    move, moved = np.zeros((width, width)), np.zeros((width, width))
    peak, spread = extent(transition.reshape(-1))
    if peak == -np.inf:
        peak = 0.0  # no transition at all is legal for sequences of length 1
    for b in range(n_labels):
        for y in range(n_labels):
            move[b, y] = math.exp(transition[b, y] - peak)
            moved[y, b] = move[b, y]
    return move, moved, peak, spread


@small_kernel
def fill_scores(t: int, first: int, last: int, parts: Parts, scores: Float) -> float:
    """Fills ``scores`` [Y or more] with s_t, including start and stop, of the sequence ``first..last``; the maximum."""
    emission, start, stop, peak = parts.emission[t], parts.start, parts.stop, -np.inf
    for y in range(emission.shape[0]):
        x = emission[y]
        if t == first:
            x += start[y]
        if t == last:
            x += stop[y]
        scores[y] = x
        peak = max(peak, x)
    return peak


@small_kernel
def scale_to_one(row: Float) -> tuple[float, int]:
    """Divides ``row`` by its sum; returns the sum and a status: INFEASIBLE if it is 0, NEEDS_LOG_SPACE if a value is
    too small."""
    total = 0.0
    for y in range(row.shape[0]):
        total += row[y]
    if total == 0.0:
        return total, INFEASIBLE
    scale, n_low = 1.0 / total, 0
    for y in range(row.shape[0]):
        value = row[y] * scale
        row[y] = value
        n_low += (value > 0.0) & (value < TINY)
    return total, NEEDS_LOG_SPACE if n_low > 0 else DONE


@kernel
def _forward(
    first: int, last: int, parts: Parts, move: Float, floor: float, factor: Float, alpha: Float, work: Float
) -> tuple[float, int]:
    """Scaled forward pass over one sequence, O(T Y^2): log Z without the transitions' maximum, and a status.

    Writes ``factor`` = E / c and ``alpha`` [T, W]; ``work`` [2, W] is scratch.
    """
    scores, powers = work[0], work[1]
    scores[:] = -np.inf
    log_z = 0.0
    for t in range(last - first + 1):
        peak = fill_scores(first + t, first, last, parts, scores)
        if peak == -np.inf:
            return -np.inf, INFEASIBLE
        potential, row = factor[t], alpha[t]
        if exp_below(scores, peak, floor, potential, powers) > 0:
            return 0.0, NEEDS_LOG_SPACE
        for y in range(row.shape[0]):
            row[y] = potential[y] if t == 0 else 0.0
        if t > 0:
            add_product(alpha[t - 1], move, row)
            for y in range(row.shape[0]):
                row[y] *= potential[y]
        total, status = scale_to_one(row)
        if status != DONE:
            return -np.inf if status == INFEASIBLE else 0.0, status
        log_z += peak + math.log(total)
        scale = 1.0 / total
        for y in range(row.shape[0]):
            potential[y] *= scale
    return log_z, DONE


@kernel
def _backward(factor: Float, alpha: Float, moved: Float, weight: float, gain: Float, beta: Float, node: Float) -> int:
    """Scaled backward pass over one sequence, O(T Y^2); returns a status.

    ``moved`` [W, W] is M transposed. Writes ``node`` [T, Y], the marginals times ``weight``, and ``gain`` [T, W], G;
    ``beta`` [W] is scratch.
    """
    n_positions, n_labels = node.shape
    width = alpha.shape[1]
    for y in range(width):
        beta[y] = 1.0 if alpha[n_positions - 1, y] > 0.0 else 0.0
    for t in range(n_positions - 1, -1, -1):
        for y in range(n_labels):
            node[t, y] = weight * (alpha[t, y] * beta[y])
        if t == 0:
            return DONE
        row, before = gain[t], alpha[t - 1]
        for y in range(width):
            row[y] = factor[t, y] * beta[y]
        for b in range(width):
            beta[b] = 0.0
        for y in range(0, width, LANES):  # :func:`add_product` written out, which is 5 % quicker here
            g0, g1, g2, g3 = row[y], row[y + 1], row[y + 2], row[y + 3]
            m0, m1, m2, m3 = moved[y], moved[y + 1], moved[y + 2], moved[y + 3]
            for b in range(width):
                beta[b] += (g0 * m0[b] + g1 * m1[b]) + (g2 * m2[b] + g3 * m3[b])
        n_low = 0
        for b in range(width):
            value = beta[b] if before[b] > 0.0 else 0.0
            beta[b] = value
            n_low += (value > 0.0) & (value < TINY)
        if n_low > 0:
            return NEEDS_LOG_SPACE
    return DONE


@kernel
def _add_outer_products(alpha: Float, gain: Float, weight: float, n_positions: int, sums: Float) -> None:
    """``sums += weight * sum_t alpha_{t-1} gain_t``, four positions at a time to load ``sums`` [Y, W] less often."""
    n_labels, width = sums.shape
    t = 1
    while t + 3 < n_positions:
        g0, g1, g2, g3 = gain[t], gain[t + 1], gain[t + 2], gain[t + 3]
        for b in range(n_labels):
            a0, a1 = weight * alpha[t - 1, b], weight * alpha[t, b]
            a2, a3 = weight * alpha[t + 1, b], weight * alpha[t + 2, b]
            for y in range(width):
                sums[b, y] += (a0 * g0[y] + a1 * g1[y]) + (a2 * g2[y] + a3 * g3[y])
        t += 4
    while t < n_positions:
        for b in range(n_labels):
            a = weight * alpha[t - 1, b]
            for y in range(width):
                sums[b, y] += a * gain[t, y]
        t += 1


@small_kernel
def add_ends(first: int, last: int, parts: Parts) -> None:
    """Adds the ``emission`` of a sequence's first and last positions to ``start`` and ``stop``."""
    for y in range(parts.start.shape[0]):
        parts.start[y] += parts.emission[first, y]
        parts.stop[y] += parts.emission[last, y]


@kernel
def forward_backward(
    offsets: Int64, parts: Parts, weights: Float, log_z: Float, status: UInt8, expected: Parts
) -> None:
    """Log-partitions of order-1 chains without edges and, unless ``expected.emission`` is empty, their expected parts.

    Parameters
    ----------
    offsets : int64[S + 1]
    parts, expected : Parts
        Emissions and edges (if any) of ``expected`` are overwritten, its other parts added to.
    weights, log_z : float64[S]
    status : uint8[S]
        Written: ``DONE``, ``NEEDS_LOG_SPACE`` or ``INFEASIBLE``.
    """
    n_labels, shape = parts.emission.shape[1], (longest(offsets), padded(parts.emission.shape[1]))
    factor, alpha, gain = np.empty(shape), np.empty(shape), np.empty(shape)
    work, sums = np.empty((2, shape[1])), np.zeros((n_labels, shape[1]))
    move, moved, peak, spread = transition_factors(parts.transition)
    floor = math.exp(spread - MAX_SPREAD) if spread <= MAX_SPREAD else np.inf
    for i in range(offsets.shape[0] - 1):
        first, last = offsets[i], offsets[i + 1] - 1
        log_z[i], status[i] = _forward(first, last, parts, move, floor, factor, alpha, work)
        log_z[i] += (last - first) * peak
        if status[i] != DONE or expected.emission.shape[0] == 0:
            continue
        node = expected.emission[first : last + 1]
        status[i] = _backward(factor, alpha, moved, weights[i], gain, work[0], node)
        if status[i] == DONE:
            _add_outer_products(alpha, gain, weights[i], last - first + 1, sums)
            add_ends(first, last, expected)
    for b in range(n_labels):
        for y in range(n_labels):
            expected.transition[b, y] += sums[b, y] * move[b, y]


@kernel
def _edges_forward(
    first: int, last: int, parts: Parts, factor: Float, alpha: Float, potentials: Float, work: Float
) -> tuple[float, int]:
    """Forward pass as :func:`_forward` where the matrix M_t = exp(transition + edge_t - max) differs at each position.

    ``potentials`` [N, Y, Y] receives the matrices; if it is [1, Y, Y], only the latest one.
    """
    transition, edge = parts.transition, parts.edge
    n_labels = transition.shape[0]
    scores, powers = work[0], work[1]
    log_z = 0.0
    for t in range(first, last + 1):
        spread = 0.0
        row, potential = alpha[t - first], factor[t - first]
        matrix = potentials[t if potentials.shape[0] > 1 else 0]
        if t > first:
            for b in range(n_labels):
                for y in range(n_labels):
                    scores[b * n_labels + y] = transition[b, y] + (edge[t, b, y] if edge.shape[0] > 0 else 0.0)
            peak, spread = extent(scores)
            if peak == -np.inf:
                return -np.inf, INFEASIBLE
            log_z += peak
            exp_below(scores, peak, 0.0, matrix.reshape(-1), powers)
        fill_scores(t, first, last, parts, scores)
        peak, emission_spread = extent(scores[:n_labels])
        if peak == -np.inf:
            return -np.inf, INFEASIBLE
        if spread + emission_spread > MAX_SPREAD:
            return 0.0, NEEDS_LOG_SPACE
        exp_below(scores[:n_labels], peak, 0.0, potential, powers[:n_labels])
        for y in range(n_labels):
            row[y] = 1.0 if t == first else 0.0
        if t > first:
            for b in range(n_labels):
                a = alpha[t - first - 1, b]
                for y in range(n_labels):
                    row[y] += a * matrix[b, y]
        total = 0.0
        for y in range(n_labels):
            row[y] *= potential[y]
            total += row[y]
        if total == 0.0:
            return -np.inf, INFEASIBLE
        log_z += peak + math.log(total)
        for y in range(n_labels):
            row[y] /= total
            potential[y] /= total
            if 0.0 < row[y] < TINY:
                return 0.0, NEEDS_LOG_SPACE
    return log_z, DONE


@kernel
def _edges_backward(
    first: int, last: int, weight: float, factor: Float, alpha: Float, work: Float, expected: Parts
) -> int:
    """Backward pass over a sequence: ``expected.edge`` holds its matrices M_t and gets its edges times ``weight``.

    Returns a status; ``work`` [2, Y] is scratch.
    """
    node, edge, n_labels = expected.emission, expected.edge, alpha.shape[1]
    (beta, gain), status = (work[0], work[1]), DONE
    for y in range(n_labels):
        beta[y] = 1.0 if alpha[last - first, y] > 0.0 else 0.0
    for t in range(last, first - 1, -1):
        for y in range(n_labels):
            node[t, y] = weight * (alpha[t - first, y] * beta[y])
            gain[y] = factor[t - first, y] * beta[y]
        for b in range(n_labels):
            a = alpha[t - first - 1, b] if t > first else 0.0
            total = 0.0
            for y in range(n_labels):
                value = edge[t, b, y] * gain[y] if a > 0.0 else 0.0
                total += value
                edge[t, b, y] = weight * (a * value)
            beta[b] = total
            if 0.0 < total < TINY:
                status = NEEDS_LOG_SPACE
    return status


@kernel
def forward_backward_edges(
    offsets: Int64, parts: Parts, weights: Float, log_z: Float, status: UInt8, expected: Parts
) -> None:
    """As :func:`forward_backward`, but for chains whose edges are scored, or whose expected edges are wanted."""
    n_labels, longest_one, wanted = parts.emission.shape[1], longest(offsets), expected.emission.shape[0] > 0
    factor, alpha = np.empty((longest_one, n_labels)), np.empty((longest_one, n_labels))
    work, rows = np.empty((2, n_labels * n_labels)), np.empty((2, n_labels))
    potentials = expected.edge if wanted else np.empty((1, n_labels, n_labels))
    for i in range(offsets.shape[0] - 1):
        first, last = offsets[i], offsets[i + 1] - 1
        log_z[i], status[i] = _edges_forward(first, last, parts, factor, alpha, potentials, work)
        if status[i] != DONE or not wanted:
            continue
        status[i] = _edges_backward(first, last, weights[i], factor, alpha, rows, expected)
        if status[i] != DONE:
            continue
        add_ends(first, last, expected)
        for t in range(first + 1, last + 1):
            for b in range(n_labels):
                for y in range(n_labels):
                    expected.transition[b, y] += expected.edge[t, b, y]


# ----------------------------------------------------------------------------------------------------------------------
# Forward-backward of chains of order 2 and 3 in scaled probabilities.
#
# The state of a second-order chain is the pair (y', y) of the last two labels::
#
#     K(y'', y', y)    = exp(trigram(y'', y', y) + transition(y', y) - max)
#     F_t(y', y)       = exp(s_t(y) + edge_t(y', y) - max)
#     a_t(y', y)       = F_t(y', y)  sum_y'' a_{t-1}(y'', y') K(y'', y', y)  / c_t
#     b_{t-1}(y'', y') = sum_y K(y'', y', y) G_t(y', y)                          with     G_t = F_t b_t / c_t,  b_T = 1
#     P(y', y)         = a_t(y', y) b_t(y', y)
#     P(y'', y', y)    = a_{t-1}(y'', y') K(y'', y', y) G_t(y', y)
#
# That of a third-order chain is a *context* c and a label, c = (y'', y') = y'' Y + y' one of C = Y^2; at order 2 c = y'
# and C = Y. The state (c, y) is entered from the states (b, c) with a label b before, whose numbers b C + c are those
# of the states of the position before, so that both orders have the same sums, with K(b, c, y) in place of the above.
#
# At the first position there is no y': its states are in the row c = 0. At the second there is no trigram: K is
# the exponential of the transitions, and the only b is 0; so it is at the third of order 3, where K is that of the
# trigrams, ``factors[Y]``. The expected trigrams are ``K`` times a sum of outer products. States that cannot be reached
# are skipped. O(T C Y^2) time, O(T C Y) scratch for the longest sequence.
#
# Scaling, the test that a sequence must pass to be done here, and the proof that it suffices are those at the top of
# this module, with states in place of labels, F in place of E, and K in place of M.


class Arcs(NamedTuple):
    """The arcs' factors: K [B, C, Y], K transposed to [C, Y, B], and those of the opening [Y, Y].

    B is Y, or Y + 1 at order 3. The opening is the second position, where there is no trigram yet. ``peak`` and
    ``opening_peak`` are the maxima of the scores, ``spread`` is the greater of the two spreads.
    """

    factors: Float
    turned: Float
    opening: Float
    peak: float
    opening_peak: float
    spread: float


@kernel
def _arc_factors(transition: Float, trigram: Float) -> Arcs:
    """The factors of a chain's arcs. Sequences that are short enough need no possible arc."""
    n_labels, (n_before, n_contexts, _) = transition.shape[0], trigram.shape
    factors, turned = np.empty_like(trigram), np.empty((n_contexts, n_labels, n_before))
    opening = np.empty_like(transition)
    for b in range(n_before):
        for c in range(n_contexts):
            for y in range(n_labels):
                factors[b, c, y] = trigram[b, c, y] + transition[c % n_labels, y]
    peak, spread = extent(factors.reshape(-1))
    opening_peak, opening_spread = extent(transition.reshape(-1))
    if peak == -np.inf:
        peak = 0.0
    if opening_peak == -np.inf:
        opening_peak = 0.0
    for b in range(n_before):
        for c in range(n_contexts):
            for y in range(n_labels):
                factors[b, c, y] = math.exp(factors[b, c, y] - peak)
                turned[c, y, b] = factors[b, c, y]
    for b in range(n_labels):
        for y in range(n_labels):
            opening[b, y] = math.exp(transition[b, y] - opening_peak)
    return Arcs(factors, turned, opening, peak, opening_peak, max(spread, opening_spread))


@kernel
def _fill_factor(t: int, first: int, last: int, parts: Parts, room: float, factor: Float) -> tuple[float, int]:
    """Fills ``factor`` [1 or R, Y] with F_t, a row for each of edges' if there are any; its maximum and a status."""
    n_rows, n_labels = factor.shape
    for c in range(n_rows):
        fill_scores(t, first, last, parts, factor[c])
        if t > first and parts.edge.shape[0] > 0:
            for y in range(n_labels):
                factor[c, y] += parts.edge[t, c, y]
    peak, spread = extent(factor.reshape(-1))
    if peak == -np.inf:
        return -np.inf, INFEASIBLE
    if spread > room:
        return 0.0, NEEDS_LOG_SPACE
    for c in range(n_rows):
        for y in range(n_labels):
            factor[c, y] = math.exp(factor[c, y] - peak)
    return peak, DONE


@kernel
def _forward_higher_order(
    first: int, last: int, parts: Parts, arcs: Arcs, factor: Float, alpha: Float
) -> tuple[float, int]:
    """Forward pass over the sequence ``first..last``: log Z and a status.

    Writes ``factor`` [T, 1 or R, Y] = F / c and ``alpha`` [T, C, Y].
    """
    n_rows, (n_before, n_contexts, n_labels) = factor.shape[1], arcs.factors.shape
    log_z = 0.0
    for t in range(last - first + 1):
        peak, status = _fill_factor(first + t, first, last, parts, MAX_SPREAD - arcs.spread, factor[t])
        if status != DONE:
            return peak, status
        for c in range(n_contexts):
            for y in range(n_labels):
                if t == 0:
                    alpha[t, c, y] = 1.0 if c == 0 else 0.0
                else:
                    alpha[t, c, y] = alpha[0, 0, c] * arcs.opening[c, y] if t == 1 and c < n_labels else 0.0
        if t > 1:
            before, is_third = alpha[t - 1].reshape(-1), t == 2 and n_before > n_labels
            for b in range(1 if is_third else n_labels):
                for c in range(n_contexts):
                    a, row, arc = before[b * n_contexts + c], alpha[t, c], arcs.factors[n_labels if is_third else b, c]
                    if a > 0.0:
                        for y in range(n_labels):
                            row[y] += a * arc[y]
        total = 0.0
        for c in range(n_contexts):
            own = factor[t, c % n_rows]
            for y in range(n_labels):
                alpha[t, c, y] *= own[y]
                total += alpha[t, c, y]
        if total == 0.0:
            return -np.inf, INFEASIBLE
        log_z += peak + math.log(total)
        if t > 0:
            log_z += arcs.opening_peak if t == 1 else arcs.peak
        for c in range(n_rows):
            for y in range(n_labels):
                factor[t, c, y] /= total
        for c in range(n_contexts):
            for y in range(n_labels):
                alpha[t, c, y] /= total
                if 0.0 < alpha[t, c, y] < TINY:
                    return 0.0, NEEDS_LOG_SPACE
    return log_z, DONE


@kernel
def _backward_higher_order(n_positions: int, arcs: Arcs, factor: Float, alpha: Float, gain: Float, beta: Float) -> int:
    """Backward pass after :func:`_forward_higher_order`: fills ``gain`` = G, ``beta`` [T, C, Y]; returns a status."""
    n_rows, (n_before, n_contexts, n_labels) = factor.shape[1], arcs.factors.shape
    sums = np.empty(n_before)
    for t in range(n_positions - 1, -1, -1):
        for c in range(n_contexts):
            own = factor[t, c % n_rows]
            for y in range(n_labels):
                if alpha[t, c, y] == 0.0:
                    beta[t, c, y] = 0.0
                elif t == n_positions - 1:
                    beta[t, c, y] = 1.0
                if 0.0 < beta[t, c, y] < TINY:
                    return NEEDS_LOG_SPACE
                gain[t, c, y] = own[y] * beta[t, c, y]
        if t == 0:
            break
        out, is_third = beta[t - 1].reshape(-1), t == 2 and n_before > n_labels
        for c in range(n_contexts):
            for b in range(n_before):
                sums[b] = 0.0
            for y in range(n_labels):
                g, arc = gain[t, c, y], arcs.turned[c, y]
                if g == 0.0:
                    continue
                if t == 1:
                    sums[0] += g * arcs.opening[c, y]
                elif is_third:
                    sums[0] += g * arc[n_labels]
                else:
                    for b in range(n_before):
                        sums[b] += g * arc[b]
            for b in range(n_labels):
                out[b * n_contexts + c] = sums[b]
    return DONE


@kernel
def _add_expected(
    first: int, last: int, weight: float, alpha: Float, gain: Float, beta: Float, expected: Parts, sums: Float
) -> None:
    """Writes a sequence's rows of ``expected``, and adds to its other parts and to the outer products [B, C, Y]."""
    node, transition, edge, (n_before, n_contexts, n_labels) = (
        expected.emission, expected.transition, expected.edge, sums.shape,
    )  # fmt: skip
    node[first : last + 1] = 0.0
    if edge.shape[0] > 0:
        edge[first : last + 1] = 0.0
    for t in range(last - first + 1):
        for c in range(n_contexts):
            for y in range(n_labels):
                pair = weight * (alpha[t, c, y] * beta[t, c, y])
                node[first + t, y] += pair
                if t > 0:
                    transition[c % n_labels, y] += pair
                    if edge.shape[0] > 0:
                        edge[first + t, c % edge.shape[1], y] += pair
    add_ends(first, last, expected)
    opening = 2
    if n_before > n_labels:
        opening = 3
        for c in range(n_contexts if last - first > 1 else 0):
            a0, g0, row = weight * alpha[1, c // n_labels, c % n_labels], gain[2, c], sums[n_labels, c]
            for y in range(n_labels):
                row[y] += a0 * g0[y]
    for t in range(opening, last - first + 1, 2):
        alone = first + t == last  # two positions at a time: half as many loads and stores of the sums
        before, here = alpha[t - 1].reshape(-1), alpha[t].reshape(-1)
        for b in range(n_labels):
            for c in range(n_contexts):
                a0, g0, row = weight * before[b * n_contexts + c], gain[t, c], sums[b, c]
                if alone:
                    for y in range(n_labels):
                        row[y] += a0 * g0[y]
                else:
                    a1, g1 = weight * here[b * n_contexts + c], gain[t + 1, c]
                    if a0 != 0.0 or a1 != 0.0:
                        for y in range(n_labels):
                            row[y] += a0 * g0[y] + a1 * g1[y]


@kernel
def forward_backward_higher_order(
    offsets: Int64, parts: Parts, weights: Float, log_z: Float, status: UInt8, expected: Parts
) -> None:
    """As :func:`forward_backward`, for chains of order 2 and 3 with or without edges."""
    n_before, n_contexts, n_labels = parts.trigram.shape
    n_rows = parts.edge.shape[1] if parts.edge.shape[0] > 0 else 1
    n, wanted = longest(offsets), expected.emission.shape[0] > 0
    factor, alpha = np.empty((n, n_rows, n_labels)), np.empty((n, n_contexts, n_labels))
    gain, beta = np.empty_like(alpha[: n if wanted else 0]), np.empty_like(alpha[: n if wanted else 0])
    arcs, sums = _arc_factors(parts.transition, parts.trigram), np.zeros(parts.trigram.shape)
    for i in range(offsets.shape[0] - 1):
        first, last = offsets[i], offsets[i + 1] - 1
        log_z[i], status[i] = _forward_higher_order(first, last, parts, arcs, factor, alpha)
        if status[i] != DONE or not wanted:
            continue
        status[i] = _backward_higher_order(last - first + 1, arcs, factor, alpha, gain, beta)
        if status[i] == DONE:
            _add_expected(first, last, weights[i], alpha, gain, beta, expected, sums)
    if wanted:
        for b in range(n_before):
            for c in range(n_contexts):
                for y in range(n_labels):
                    expected.trigram[b, c, y] += sums[b, c, y] * arcs.factors[b, c, y]
