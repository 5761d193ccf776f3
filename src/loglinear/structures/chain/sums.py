"""Sums over the labellings of chains in scaled probabilities: of order 1, then of order 2.

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

Sequences that fail get the status ``NEEDS_LOG_SPACE`` and are left to :mod:`loglinear.structures.chain.log_sums`; their
share has then been added to no sum. Arrays of length zero stand for absent parts, of the input and of the output.
"""

from __future__ import annotations

import math

import numpy as np

from loglinear.arrays import Float, Int64, UInt8
from loglinear.kernels import kernel
from loglinear.kernels.numbers import DONE, INFEASIBLE, MAX_SPREAD, NEEDS_LOG_SPACE, TINY, exp_below, extent

Parts = tuple[Float, Float, Float, Float, Float, Float]

LANES = 4  # labels are padded with zeros to a multiple of this: rows of a product are added four at a time


@kernel
def _forward(
    rows: Float, start: Float, stop: Float, move: Float, floor: float, factor: Float, alpha: Float, work: Float
) -> tuple[float, int]:
    """Scaled forward pass over one sequence, O(T Y^2): log Z without the transitions' maximum, and a status.

    ``rows`` [T, Y] are the emission scores; writes ``factor`` = E / c and ``alpha`` [T, W]; ``work`` [2, W] is scratch.
    """
    n_positions, n_labels = rows.shape
    width = alpha.shape[1]
    scores, powers = work[0], work[1]
    log_z = 0.0
    for t in range(n_positions):
        peak = -np.inf
        for y in range(n_labels):
            x = rows[t, y]
            if t == 0:
                x += start[y]
            if t == n_positions - 1:
                x += stop[y]
            scores[y] = x
            peak = max(peak, x)
        if peak == -np.inf:
            return -np.inf, INFEASIBLE
        potential, before, row = factor[t], alpha[max(t - 1, 0)], alpha[t]
        if exp_below(scores, peak, floor, potential, powers) > 0:
            return 0.0, NEEDS_LOG_SPACE
        if t == 0:
            for y in range(width):
                row[y] = potential[y]
        else:
            for y in range(width):
                row[y] = 0.0
            for b in range(0, width, LANES):
                a0, a1, a2, a3 = before[b], before[b + 1], before[b + 2], before[b + 3]
                m0, m1, m2, m3 = move[b], move[b + 1], move[b + 2], move[b + 3]
                for y in range(width):
                    row[y] += (a0 * m0[y] + a1 * m1[y]) + (a2 * m2[y] + a3 * m3[y])
            for y in range(width):
                row[y] *= potential[y]
        total = 0.0
        for y in range(n_labels):
            total += row[y]
        if total == 0.0:
            return -np.inf, INFEASIBLE
        log_z += peak + math.log(total)
        scale = 1.0 / total
        n_low = 0
        for y in range(width):
            value = row[y] * scale
            row[y] = value
            potential[y] *= scale
            n_low += (value > 0.0) & (value < TINY)
        if n_low > 0:
            return 0.0, NEEDS_LOG_SPACE
    return log_z, DONE


@kernel
def _backward(factor: Float, alpha: Float, moved: Float, weight: float, gain: Float, work: Float, node: Float) -> int:
    """Scaled backward pass over one sequence, O(T Y^2); returns a status.

    ``moved`` [W, W] is M transposed. Writes ``node`` [T, Y], the marginals times ``weight``, and ``gain`` [T, W], G.
    """
    n_positions, n_labels = node.shape
    width = alpha.shape[1]
    beta = work[0]
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
        for y in range(width):
            beta[y] = 0.0
        for y in range(0, width, LANES):
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
    """``sums += weight * sum_t alpha_{t-1} gain_t``, four positions at a time so that ``sums`` [Y, W] moves less."""
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


@kernel
def forward_backward(
    offsets: Int64, parts: Parts, weights: Float, log_z: Float, status: UInt8, expected: Parts
) -> None:
    """Log-partitions, and unless ``expected`` has no nodes the expected parts, of order-1 chains without edges.

    Parameters
    ----------
    offsets : int64[S + 1]
    parts, expected : emission [N, Y], transition [Y, Y], start [Y], stop [Y], edge [0, Y, Y], trigram [0, Y, Y]
        ``expected`` emissions are written, its other parts added to.
    weights, log_z : float64[S]
    status : uint8[S]
        Written: ``DONE``, ``NEEDS_LOG_SPACE`` or ``INFEASIBLE``.
    """
    emission, transition, start, stop = parts[0], parts[1], parts[2], parts[3]
    node = expected[0]
    n_labels = emission.shape[1]
    width = (n_labels + LANES - 1) // LANES * LANES
    longest = 0
    for i in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    factor, alpha, gain = np.empty((longest, width)), np.empty((longest, width)), np.empty((longest, width))
    work = np.full((2, width), -np.inf)
    move, moved, sums = np.zeros((width, width)), np.zeros((width, width)), np.zeros((n_labels, width))
    peak, spread = extent(transition.reshape(-1))
    if peak == -np.inf:
        peak = 0.0  # no transition at all is legal for sequences of length 1
    floor = math.exp(spread - MAX_SPREAD) if spread <= MAX_SPREAD else np.inf
    for b in range(n_labels):
        for y in range(n_labels):
            move[b, y] = math.exp(transition[b, y] - peak)
            moved[y, b] = move[b, y]
    for i in range(offsets.shape[0] - 1):
        first, n_positions = offsets[i], offsets[i + 1] - offsets[i]
        for y in range(n_labels, width):
            work[0, y] = -np.inf
        log_z[i], status[i] = _forward(
            emission[first : first + n_positions], start, stop, move, floor, factor, alpha, work
        )
        log_z[i] += (n_positions - 1) * peak
        if status[i] != DONE or node.shape[0] == 0:
            continue
        marginals = node[first : first + n_positions]
        status[i] = _backward(factor, alpha, moved, weights[i], gain, work, marginals)
        if status[i] != DONE:
            continue
        _add_outer_products(alpha, gain, weights[i], n_positions, sums)
        for y in range(n_labels):
            expected[2][y] += marginals[0, y]
            expected[3][y] += marginals[n_positions - 1, y]
    for b in range(n_labels):
        for y in range(n_labels):
            expected[1][b, y] += sums[b, y] * move[b, y]


@kernel
def _edges_forward(
    first: int, last: int, parts: Parts, factor: Float, alpha: Float, potentials: Float, work: Float
) -> tuple[float, int]:
    """Forward pass as :func:`_forward` where the matrix M_t = exp(transition + edge_t - max) differs at each position.

    ``potentials`` [N, Y, Y] receives the matrices, or if it is [1, Y, Y] the latest one.
    """
    emission, transition, start, stop, edge, _ = parts
    n_labels = emission.shape[1]
    kept = potentials.shape[0] > 1
    scores, powers = work[0], work[1]
    log_z = 0.0
    for t in range(first, last + 1):
        spread = 0.0
        row, potential, matrix = alpha[t - first], factor[t - first], potentials[t if kept else 0]
        if t > first:
            for b in range(n_labels):
                for y in range(n_labels):
                    scores[b * n_labels + y] = transition[b, y] + (edge[t, b, y] if edge.shape[0] > 0 else 0.0)
            peak, spread = extent(scores)
            if peak == -np.inf:
                return -np.inf, INFEASIBLE
            log_z += peak
            exp_below(scores, peak, 0.0, matrix.reshape(-1), powers)
        for y in range(n_labels):
            scores[y] = emission[t, y] + (start[y] if t == first else 0.0) + (stop[y] if t == last else 0.0)
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
def forward_backward_edges(
    offsets: Int64, parts: Parts, weights: Float, log_z: Float, status: UInt8, expected: Parts
) -> None:
    """As :func:`forward_backward`, with edges scored (or not, [0, Y, Y]) and, if anything is expected, expected."""
    node, edge_out = expected[0], expected[4]
    n_labels = node.shape[1]
    longest = 0
    for i in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    factor, alpha = np.empty((longest, n_labels)), np.empty((longest, n_labels))
    work, beta, gain = np.empty((2, n_labels * n_labels)), np.empty(n_labels), np.empty(n_labels)
    potentials = edge_out if node.shape[0] > 0 else np.empty((1, n_labels, n_labels))
    for i in range(offsets.shape[0] - 1):
        first, last = offsets[i], offsets[i + 1] - 1
        log_z[i], status[i] = _edges_forward(first, last, parts, factor, alpha, potentials, work)
        if status[i] != DONE or node.shape[0] == 0:
            continue
        for y in range(n_labels):
            beta[y] = 1.0 if alpha[last - first, y] > 0.0 else 0.0
        for t in range(last, first - 1, -1):
            for y in range(n_labels):
                node[t, y] = weights[i] * (alpha[t - first, y] * beta[y])
                gain[y] = factor[t - first, y] * beta[y]
            for b in range(n_labels):
                a = alpha[t - first - 1, b] if t > first else 0.0
                total = 0.0
                for y in range(n_labels):
                    value = edge_out[t, b, y] * gain[y] if a > 0.0 else 0.0
                    total += value
                    edge_out[t, b, y] = weights[i] * (a * value)
                beta[b] = total
                if 0.0 < total < TINY:
                    status[i] = NEEDS_LOG_SPACE
        if status[i] != DONE:
            continue
        for y in range(n_labels):
            expected[2][y] += node[first, y]
            expected[3][y] += node[last, y]
        for t in range(first + 1, last + 1):
            for b in range(n_labels):
                for y in range(n_labels):
                    expected[1][b, y] += edge_out[t, b, y]


# ----------------------------------------------------------------------------------------------------------------------
# Forward-backward of second-order chains in scaled probabilities.
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
# At the first position there is no y': all states are kept in the row y' = 0. At the second there is no trigram: K is
# the exponential of the transitions, and the only y'' is 0. The expected trigrams are ``K`` times a sum of outer
# products. O(T Y^3) time, O(T Y^2) scratch for the longest sequence.
#
# Scaling, the test that a sequence must pass to be done here, and the proof that it suffices are those of
# :mod:`loglinear.structures.chain.sums`, read with states for labels: F for E, K for M.

Tables = tuple[Float, Float, Float]
Limits = tuple[float, float, float]


@kernel
def _fill_tables(transition: Float, trigram: Float, tables: Tables) -> Limits:
    """Fills K [Y, Y, Y], K turned to (y', y, y'') and the opening [Y, Y]; both maxima and the greater spread."""
    n_labels = transition.shape[0]
    arcs, turned, opening = tables
    peaks, leasts = [-np.inf, -np.inf], [np.inf, np.inf]
    for b in range(n_labels):
        for c in range(n_labels):
            for y in range(n_labels):
                arcs[b, c, y] = trigram[b, c, y] + transition[c, y]
                peaks[0] = max(peaks[0], arcs[b, c, y])
                leasts[0] = min(leasts[0], arcs[b, c, y] if arcs[b, c, y] > -np.inf else np.inf)
        for y in range(n_labels):
            peaks[1] = max(peaks[1], transition[b, y])
            leasts[1] = min(leasts[1], transition[b, y] if transition[b, y] > -np.inf else np.inf)
    spread = 0.0
    for order in range(2):
        if peaks[order] == -np.inf:
            peaks[order] = 0.0  # no arc at all is legal for sequences that are short enough
        else:
            spread = max(spread, peaks[order] - leasts[order])
    for b in range(n_labels):
        for c in range(n_labels):
            for y in range(n_labels):
                arcs[b, c, y] = math.exp(arcs[b, c, y] - peaks[0])
                turned[c, y, b] = arcs[b, c, y]
        for y in range(n_labels):
            opening[b, y] = math.exp(transition[b, y] - peaks[1])
    return peaks[0], peaks[1], spread


@kernel
def _fill_factor(t: int, first: int, last: int, parts: Parts, room: float, factor: Float) -> tuple[float, int]:
    """Fills ``factor`` [1 or Y, Y] with F_t, a row for each y' where there are edges; its maximum and a status."""
    emission, start, stop, edge = parts[0], parts[2], parts[3], parts[4]
    n_rows, n_labels = factor.shape
    peak, least = -np.inf, np.inf
    for c in range(n_rows):
        for y in range(n_labels):
            x = emission[t, y] + (start[y] if t == first else 0.0) + (stop[y] if t == last else 0.0)
            if t > first and edge.shape[0] > 0:
                x += edge[t, c, y]
            factor[c, y] = x
            peak = max(peak, x)
            least = min(least, x if x > -np.inf else np.inf)
    if peak == -np.inf:
        return -np.inf, INFEASIBLE
    if peak - least > room:
        return 0.0, NEEDS_LOG_SPACE
    for c in range(n_rows):
        for y in range(n_labels):
            factor[c, y] = math.exp(factor[c, y] - peak)
    return peak, DONE


@kernel
def _forward_second_order(
    first: int, last: int, parts: Parts, tables: Tables, limits: Limits, factor: Float, alpha: Float
) -> tuple[float, int]:
    """Forward pass over the sequence ``first..last``: log Z and a status.

    Writes ``factor`` [T, 1 or Y, Y] = F / c and ``alpha`` [T, Y, Y].
    """
    arcs, _, opening = tables
    n_labels = alpha.shape[1]
    own_row = 1 if factor.shape[1] > 1 else 0
    log_z = 0.0
    for t in range(last - first + 1):
        peak, status = _fill_factor(first + t, first, last, parts, MAX_SPREAD - limits[2], factor[t])
        if status != DONE:
            return peak, status
        for c in range(n_labels):
            for y in range(n_labels):
                if t == 0:
                    alpha[t, c, y] = 1.0 if c == 0 else 0.0
                else:
                    alpha[t, c, y] = alpha[0, 0, c] * opening[c, y] if t == 1 else 0.0
        if t > 1:
            for b in range(n_labels):
                for c in range(n_labels):
                    a, row, arc = alpha[t - 1, b, c], alpha[t, c], arcs[b, c]
                    for y in range(n_labels):
                        row[y] += a * arc[y]
        total = 0.0
        for c in range(n_labels):
            for y in range(n_labels):
                alpha[t, c, y] *= factor[t, c * own_row, y]
                total += alpha[t, c, y]
        if total == 0.0:
            return -np.inf, INFEASIBLE
        log_z += peak + math.log(total)
        if t > 0:
            log_z += limits[1] if t == 1 else limits[0]
        for c in range(factor.shape[1]):
            for y in range(n_labels):
                factor[t, c, y] /= total
        for c in range(n_labels):
            for y in range(n_labels):
                alpha[t, c, y] /= total
                if 0.0 < alpha[t, c, y] < TINY:
                    return 0.0, NEEDS_LOG_SPACE
    return log_z, DONE


@kernel
def _backward_second_order(
    n_positions: int, tables: Tables, factor: Float, alpha: Float, gain: Float, beta: Float
) -> int:
    """Backward pass after :func:`_forward_second_order`: fills ``gain`` = G, ``beta`` [T, Y, Y]; returns a status."""
    _, turned, opening = tables
    n_labels = alpha.shape[1]
    own_row = 1 if factor.shape[1] > 1 else 0
    sums = np.empty(n_labels)
    for t in range(n_positions - 1, -1, -1):
        for c in range(n_labels):
            for y in range(n_labels):
                if alpha[t, c, y] == 0.0:
                    beta[t, c, y] = 0.0
                elif t == n_positions - 1:
                    beta[t, c, y] = 1.0
                if 0.0 < beta[t, c, y] < TINY:
                    return NEEDS_LOG_SPACE
                gain[t, c, y] = factor[t, c * own_row, y] * beta[t, c, y]
        if t == 0:
            break
        for c in range(n_labels):
            for b in range(n_labels):
                sums[b] = 0.0
            for y in range(n_labels):
                g, arc = gain[t, c, y], turned[c, y]
                if t == 1:
                    sums[0] += g * opening[c, y]
                else:
                    for b in range(n_labels):
                        sums[b] += g * arc[b]
            for b in range(n_labels):
                if t > 1:
                    beta[t - 1, b, c] = sums[b]
                else:
                    beta[0, b, c] = 0.0
            if t == 1:
                beta[0, 0, c] = sums[0]
    return DONE


@kernel
def _add_expected(
    first: int,
    n_positions: int,
    weight: float,
    alpha: Float,
    gain: Float,
    beta: Float,
    expected: Parts,
    sums: Float,
) -> None:
    """Writes a sequence's rows of ``expected``, adds to its other parts and to the outer products [Y, Y, Y]."""
    node, transition, start, stop, edge, _ = expected
    n_labels = node.shape[1]
    for t in range(n_positions):
        for y in range(n_labels):
            node[first + t, y] = 0.0
        for c in range(n_labels):
            for y in range(n_labels):
                pair = weight * (alpha[t, c, y] * beta[t, c, y])
                node[first + t, y] += pair
                if t > 0:
                    transition[c, y] += pair
                if edge.shape[0] > 0:
                    edge[first + t, c, y] = pair if t > 0 else 0.0
    for y in range(n_labels):
        start[y] += node[first, y]
        stop[y] += node[first + n_positions - 1, y]
    for t in range(2, n_positions, 2):
        alone = t + 1 == n_positions  # two positions at a time, so that the sums move half as often
        for b in range(n_labels):
            for c in range(n_labels):
                a0, g0, row = weight * alpha[t - 1, b, c], gain[t, c], sums[b, c]
                if alone:
                    for y in range(n_labels):
                        row[y] += a0 * g0[y]
                else:
                    a1, g1 = weight * alpha[t, b, c], gain[t + 1, c]
                    for y in range(n_labels):
                        row[y] += a0 * g0[y] + a1 * g1[y]


@kernel
def forward_backward_second_order(
    offsets: Int64, parts: Parts, weights: Float, log_z: Float, status: UInt8, expected: Parts
) -> None:
    """Log-partitions, and unless ``expected`` has no emissions the expected parts, of second-order chains.

    Parameters
    ----------
    offsets : int64[S + 1]
    parts, expected : emission [N, Y], transition [Y, Y], start [Y], stop [Y], edge [N or 0, Y, Y], trigram [Y, Y, Y]
        Of ``expected``, emissions and edges (if any) are written, the others added to.
    weights, log_z : float64[S]
    status : uint8[S]
        Written: ``DONE``, ``NEEDS_LOG_SPACE`` or ``INFEASIBLE``.
    """
    n_labels = parts[0].shape[1]
    longest = 0
    for i in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    cube, kept = (n_labels, n_labels, n_labels), longest if expected[0].shape[0] > 0 else 0
    alpha = np.empty((longest, n_labels, n_labels))
    gain, beta = np.empty((kept, n_labels, n_labels)), np.empty((kept, n_labels, n_labels))
    factor = np.empty((longest, n_labels if parts[4].shape[0] > 0 else 1, n_labels))
    tables, sums = (np.empty(cube), np.empty(cube), np.empty((n_labels, n_labels))), np.zeros(cube)
    limits = _fill_tables(parts[1], parts[5], tables)
    for i in range(offsets.shape[0] - 1):
        first, last = offsets[i], offsets[i + 1] - 1
        log_z[i], status[i] = _forward_second_order(first, last, parts, tables, limits, factor, alpha)
        if status[i] != DONE or kept == 0:
            continue
        status[i] = _backward_second_order(last - first + 1, tables, factor, alpha, gain, beta)
        if status[i] == DONE:
            _add_expected(first, last - first + 1, weights[i], alpha, gain, beta, expected, sums)
    if kept > 0:
        for b in range(n_labels):
            for c in range(n_labels):
                for y in range(n_labels):
                    expected[5][b, c, y] += sums[b, c, y] * tables[0][b, c, y]
