r"""Covariance of a cost and the parts of a chain: the gradient of an expected cost, for the risk criterion.

For a cost ``c(y) = sum_t cost_t(y_t)``, the derivative of ``E[c]`` by a part's score is ``E[c part] - E[c] E[part]``.
One forward-backward that carries a second number beside each probability finds all of them (the expectation semiring:
Li & Eisner 2009, "First- and second-order expectation semirings with applications to minimum-risk training on
translation forests"). With the scaled ``E``, ``M`` and ``a`` of :mod:`loglinear.structures.chain_first_order`::

    p_t(y)      = sum_y' a_{t-1}(y') M(y', y)                   the label foreseen by the positions before t
    P_{t-1}(y') = a_{t-1}(y') sum_y M(y', y) G_t(y)             with  G_t = P_t / p_t,  P_T = a_T
    d_t(y)      = cost_t(y) - sum_y P_t(y) cost_t(y)            E[c] is the sum over t of what is subtracted
    R_{t-1}(y') = a_{t-1}(y') sum_y M(y', y) H_t(y)             with  H_t = (P_t d_t + R_t) / p_t,  R_T = 0
    f_t(y)      = d_t(y) + sum_y' a_{t-1}(y') f_{t-1}(y') M(y', y) / p_t(y)
    cov(c, 1[y_t = y])              = P_t(y) f_t(y) + R_t(y)
    cov(c, 1[y_{t-1} = y', y_t = y]) = M(y', y) (a_{t-1}(y') f_{t-1}(y') G_t(y) + a_{t-1}(y') H_t(y))

``f_t(y)`` is the expected cost up to t and ``R_t(y) / P_t(y)`` that after t, both given y_t = y and less their means:
each position's costs are centred before they are added up, so that a large cost that all labels share loses no digits.

Why these numbers can be trusted. The rule for scores is that of the scaled forward pass: a spread of ``MAX_SPREAD`` at
most, no non-zero ``a`` below ``TINY``; so a non-zero ``p_t`` is at least 5e-281, and zeros are structural. Marginals
come down from ``P_t`` by shares ``a M / p`` that sum to one, so there is no backward vector that could leave the range
of doubles: what underflows is a probability below 1e-300. ``|f|`` and ``|R / P|`` are at most T times the greatest
difference of costs, and costs are measured in a unit (a power of two, so that no digit changes) that makes the greatest
of them about one.

Here are the chains that training mostly has, of order 1 without edges. What is left over (``NEEDS_LOG_SPACE``) and all
other chains go to :mod:`loglinear.structures.chain_covariance_log`.

O(T Y^2) time. Arrays of length zero stand for absent parts, in the input and the output.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from loglinear.kernels import kernel

Floats = npt.NDArray[np.float64]
Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]
Parts = tuple[Floats, Floats, Floats, Floats, Floats, Floats]

DONE = 0
NEEDS_LOG_SPACE = 1
INFEASIBLE = 2

MAX_SPREAD = 300.0
TINY = 1e-150
LANES = 4  # labels are padded with zeros to a multiple of this: rows of a product are added four at a time


@kernel
def _forward(
    rows: Floats, start: Floats, stop: Floats, move: Floats, room: float, alpha: Floats, inverse: Floats, work: Floats
) -> int:
    """Scaled forward pass over one sequence: fills ``alpha`` and ``inverse`` = 1 / p [T, W]; a status.

    ``rows`` [T, Y] are the emission scores, ``room`` the spread they may have; ``work`` [W] is scratch, zero from Y on.
    """
    n_positions, n_labels = rows.shape
    width = alpha.shape[1]
    for t in range(n_positions):
        peak = -np.inf
        for y in range(n_labels):
            x = rows[t, y]
            if t == 0:
                x += start[y]
            if t == n_positions - 1:
                x += stop[y]
            work[y] = x
            peak = max(peak, x)
        if peak == -np.inf:
            return INFEASIBLE
        n_low = 0
        for y in range(n_labels):
            x = work[y] - peak
            n_low += (x > -np.inf) & (x < -room)
            work[y] = math.exp(x)
        if n_low > 0:
            return NEEDS_LOG_SPACE
        before, row, shares = alpha[max(t - 1, 0)], alpha[t], inverse[t]
        for y in range(width):
            row[y] = 1.0 if t == 0 else 0.0
        if t > 0:
            for b in range(0, width, LANES):
                a0, a1, a2, a3 = before[b], before[b + 1], before[b + 2], before[b + 3]
                m0, m1, m2, m3 = move[b], move[b + 1], move[b + 2], move[b + 3]
                for y in range(width):
                    row[y] += (a0 * m0[y] + a1 * m1[y]) + (a2 * m2[y] + a3 * m3[y])
        total = 0.0
        for y in range(width):
            shares[y] = 1.0 / row[y] if row[y] > 0.0 else 0.0
            row[y] *= work[y]
        for y in range(n_labels):
            total += row[y]
        if total == 0.0:
            return INFEASIBLE
        scale, n_low = 1.0 / total, 0
        for y in range(width):
            value = row[y] * scale
            row[y] = value
            n_low += (value > 0.0) & (value < TINY)
        if n_low > 0:
            return NEEDS_LOG_SPACE
    return DONE


@kernel
def _centre(node: Floats, values: Floats) -> float:
    """The mean of ``values`` [W], W a multiple of LANES, under the marginals ``node`` [W]; subtracts it from them."""
    mean = 0.0
    for _ in range(2):  # the second time corrects what rounding has left of a mean that is large
        s0, s1, s2, s3, n0, n1, n2, n3 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for y in range(0, values.shape[0], LANES):
            s0, n0 = s0 + node[y] * values[y], n0 + node[y]
            s1, n1 = s1 + node[y + 1] * values[y + 1], n1 + node[y + 1]
            s2, n2 = s2 + node[y + 2] * values[y + 2], n2 + node[y + 2]
            s3, n3 = s3 + node[y + 3] * values[y + 3], n3 + node[y + 3]
        part = ((s0 + s1) + (s2 + s3)) / ((n0 + n1) + (n2 + n3))
        mean += part
        for y in range(values.shape[0]):
            values[y] -= part
    return mean


@kernel
def _backward(
    costs: Floats,
    unit: float,
    moved: Floats,
    alpha: Floats,
    inverse: Floats,
    node: Floats,
    future: Floats,
    past: Floats,
    gain: Floats,
    lift: Floats,
) -> float:
    """Fills P ``node``, R ``future``, d ``past``, G ``gain`` and H ``lift`` [T, W]; E[c] in units.

    ``costs`` [T, Y] are in units when multiplied by ``unit``; ``moved`` [W, W] is M transposed.
    """
    n_positions, n_labels = costs.shape
    width = alpha.shape[1]
    for y in range(width):
        node[n_positions - 1, y], future[n_positions - 1, y] = alpha[n_positions - 1, y], 0.0
    mean = 0.0
    for t in range(n_positions - 1, -1, -1):
        p, r, d = node[t], future[t], past[t]
        for y in range(n_labels):
            d[y] = costs[t, y] * unit
        for y in range(n_labels, width):
            d[y] = 0.0
        mean += _centre(p, d)
        if t == 0:
            return mean
        g, h, shares = gain[t], lift[t], inverse[t]
        for y in range(width):
            g[y] = p[y] * shares[y]
            h[y] = (p[y] * d[y] + r[y]) * shares[y]
        a, p, r = alpha[t - 1], node[t - 1], future[t - 1]
        for b in range(width):
            p[b], r[b] = 0.0, 0.0
        for y in range(0, width, LANES):
            g0, g1, g2, g3 = g[y], g[y + 1], g[y + 2], g[y + 3]
            h0, h1, h2, h3 = h[y], h[y + 1], h[y + 2], h[y + 3]
            m0, m1, m2, m3 = moved[y], moved[y + 1], moved[y + 2], moved[y + 3]
            for b in range(width):
                p[b] += (g0 * m0[b] + g1 * m1[b]) + (g2 * m2[b] + g3 * m3[b])
                r[b] += (h0 * m0[b] + h1 * m1[b]) + (h2 * m2[b] + h3 * m3[b])
        for b in range(width):
            p[b] *= a[b]
            r[b] *= a[b]
    return mean


@kernel
def _carry(
    move: Floats,
    share: float,
    alpha: Floats,
    inverse: Floats,
    node: Floats,
    future: Floats,
    past: Floats,
    work: Floats,
    out: Floats,
) -> None:
    """Turns ``past`` [T, W] from d into a f; fills ``out`` [T, Y], the covariances with the labels times ``share``.

    ``work`` [W] is scratch.
    """
    n_positions, n_labels = out.shape
    width = alpha.shape[1]
    for t in range(n_positions):
        f, before, shares = past[t], past[max(t - 1, 0)], inverse[t]
        for y in range(width):
            work[y] = 0.0
        if t > 0:
            for b in range(0, width, LANES):
                u0, u1, u2, u3 = before[b], before[b + 1], before[b + 2], before[b + 3]
                m0, m1, m2, m3 = move[b], move[b + 1], move[b + 2], move[b + 3]
                for y in range(width):
                    work[y] += (u0 * m0[y] + u1 * m1[y]) + (u2 * m2[y] + u3 * m3[y])
        for y in range(width):
            f[y] += work[y] * shares[y]
        for y in range(n_labels):
            out[t, y] = share * (node[t, y] * f[y] + future[t, y])
        for y in range(width):
            f[y] *= alpha[t, y]


@kernel
def _add_outer_products(
    alpha: Floats, past: Floats, gain: Floats, lift: Floats, weight: float, n_positions: int, sums: Floats
) -> None:
    """``sums`` [Y, W] += weight * sum_t (past_{t-1} gain_t + alpha_{t-1} lift_t), two positions at a time."""
    n_labels, width = sums.shape
    for t in range(1, n_positions, 2):
        alone = t + 1 == n_positions
        g0, h0 = gain[t], lift[t]
        g1, h1 = gain[t if alone else t + 1], lift[t if alone else t + 1]
        other = 0.0 if alone else weight
        for b in range(n_labels):
            u0, a0, u1, a1 = weight * past[t - 1, b], weight * alpha[t - 1, b], other * past[t, b], other * alpha[t, b]
            for y in range(width):
                sums[b, y] += (u0 * g0[y] + a0 * h0[y]) + (u1 * g1[y] + a1 * h1[y])


@kernel
def covariance(
    offsets: Offsets,
    parts: Parts,
    cost: Floats,
    unit: float,
    weights: Floats,
    mean: Floats,
    status: Bytes,
    result: Parts,
) -> None:
    """Expected costs, and the covariances of cost and parts, of order-1 chains without edges.

    Parameters
    ----------
    offsets : int64[S + 1]
    parts, result : emission [N, Y], transition [Y, Y], start [Y], stop [Y], edge [0, Y, Y], trigram [0, Y, Y]
        ``result`` emissions are written, its other parts added to.
    cost : float64[N, Y]
    unit : float
        Power of two that makes the costs about one at most, for intermediate results.
    weights : float64[S]
        Factor of each sequence's covariances.
    mean : float64[S]
        Written: E[c].
    status : uint8[S]
        Written: ``DONE``, ``NEEDS_LOG_SPACE`` (left out of everything else that is written) or ``INFEASIBLE``.
    """
    emission, transition, start, stop = parts[0], parts[1], parts[2], parts[3]
    n_labels = emission.shape[1]
    width = (n_labels + LANES - 1) // LANES * LANES
    longest = 0
    for i in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    scratch = np.empty((7, longest, width))
    alpha, inverse, node, future = scratch[0], scratch[1], scratch[2], scratch[3]
    past, gain, lift = scratch[4], scratch[5], scratch[6]
    spare, work, sums = np.empty(width), np.zeros(width), np.zeros((n_labels, width))
    move, moved = np.zeros((width, width)), np.zeros((width, width))
    peak, least = -np.inf, np.inf
    for b in range(n_labels):
        for y in range(n_labels):
            peak = max(peak, transition[b, y])
            least = min(least, transition[b, y] if transition[b, y] > -np.inf else np.inf)
    room = MAX_SPREAD - (peak - least) if peak > -np.inf else MAX_SPREAD
    for b in range(n_labels if peak > -np.inf else 0):
        for y in range(n_labels):
            move[b, y] = math.exp(transition[b, y] - peak)
            moved[y, b] = move[b, y]
    for i in range(offsets.shape[0] - 1):
        first, end = offsets[i], offsets[i + 1]
        status[i] = _forward(emission[first:end], start, stop, move, room, alpha, inverse, work)
        if status[i] != DONE:
            continue
        share, out = weights[i] / unit, result[0][first:end]
        mean[i] = _backward(cost[first:end], unit, moved, alpha, inverse, node, future, past, gain, lift) / unit
        _carry(move, share, alpha, inverse, node, future, past, spare, out)
        _add_outer_products(alpha, past, gain, lift, weights[i], end - first, sums)
        for y in range(n_labels):
            result[2][y] += out[0, y]
            result[3][y] += out[end - first - 1, y]
    for b in range(n_labels):
        for y in range(n_labels):
            result[1][b, y] += sums[b, y] * move[b, y] / unit
