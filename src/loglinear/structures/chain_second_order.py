r"""Forward-backward of second-order chains in scaled probabilities.

The state of a second-order chain is the pair (y', y) of the last two labels::

    K(y'', y', y)    = exp(trigram(y'', y', y) + transition(y', y) - max)
    F_t(y', y)       = exp(s_t(y) + edge_t(y', y) - max)
    a_t(y', y)       = F_t(y', y)  sum_y'' a_{t-1}(y'', y') K(y'', y', y)  / c_t
    b_{t-1}(y'', y') = sum_y K(y'', y', y) G_t(y', y)                          with     G_t = F_t b_t / c_t,  b_T = 1
    P(y', y)         = a_t(y', y) b_t(y', y)
    P(y'', y', y)    = a_{t-1}(y'', y') K(y'', y', y) G_t(y', y)

At the first position there is no y': all states are kept in the row y' = 0. At the second there is no trigram: K is the
exponential of the transitions, and the only y'' is 0. The expected trigrams are ``K`` times a sum of outer products.
O(T Y^3) time, O(T Y^2) scratch for the longest sequence.

Scaling, the test that a sequence must pass to be done here, and the proof that it suffices are those of
:mod:`loglinear.structures.chain_first_order`, read with states for labels: F for E, K for M.
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
Tables = tuple[Floats, Floats, Floats]
Limits = tuple[float, float, float]

DONE = 0
NEEDS_LOG_SPACE = 1
INFEASIBLE = 2

MAX_SPREAD = 300.0
TINY = 1e-150


@kernel
def _fill_tables(transition: Floats, trigram: Floats, tables: Tables) -> Limits:
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
def _fill_factor(t: int, first: int, last: int, parts: Parts, room: float, factor: Floats) -> tuple[float, int]:
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
def _forward(
    first: int, last: int, parts: Parts, tables: Tables, limits: Limits, factor: Floats, alpha: Floats
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
def _backward(n_positions: int, tables: Tables, factor: Floats, alpha: Floats, gain: Floats, beta: Floats) -> int:
    """Backward pass after :func:`_forward`: fills ``gain`` = G and ``beta`` [T, Y, Y]; returns a status."""
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
    alpha: Floats,
    gain: Floats,
    beta: Floats,
    expected: Parts,
    sums: Floats,
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
def forward_backward(
    offsets: Offsets, parts: Parts, weights: Floats, log_z: Floats, status: Bytes, expected: Parts
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
        log_z[i], status[i] = _forward(first, last, parts, tables, limits, factor, alpha)
        if status[i] != DONE or kept == 0:
            continue
        status[i] = _backward(last - first + 1, tables, factor, alpha, gain, beta)
        if status[i] == DONE:
            _add_expected(first, last - first + 1, weights[i], alpha, gain, beta, expected, sums)
    if kept > 0:
        for b in range(n_labels):
            for c in range(n_labels):
                for y in range(n_labels):
                    expected[5][b, c, y] += sums[b, c, y] * tables[0][b, c, y]
