"""Covariance of a cost and the parts of a chain: the gradient of an expected cost, for the risk criterion.

For a cost ``c(y) = sum_t cost_t(y_t)``, the derivative of ``E[c]`` by a part's score is ``E[c part] - E[c] E[part]``.
A single forward-backward pass that carries a second number with each probability finds all of them (the expectation
semiring: Li & Eisner 2009, "First- and second-order expectation semirings with applications to minimum-risk training
on translation forests"). With the scaled ``E``, ``M`` and ``a`` of :mod:`loglinear.structures.chain.sums`::

    p_t(y)      = sum_y' a_{t-1}(y') M(y', y)                   the label predicted from the positions before t
    P_{t-1}(y') = a_{t-1}(y') sum_y M(y', y) G_t(y)             with  G_t = P_t / p_t,  P_T = a_T
    d_t(y)      = cost_t(y) - sum_y P_t(y) cost_t(y)            E[c] is the sum over t of what is subtracted
    R_{t-1}(y') = a_{t-1}(y') sum_y M(y', y) H_t(y)             with  H_t = (P_t d_t + R_t) / p_t,  R_T = 0
    f_t(y)      = d_t(y) + sum_y' a_{t-1}(y') f_{t-1}(y') M(y', y) / p_t(y)
    cov(c, 1[y_t = y])              = P_t(y) f_t(y) + R_t(y)
    cov(c, 1[y_{t-1} = y', y_t = y]) = M(y', y) (a_{t-1}(y') f_{t-1}(y') G_t(y) + a_{t-1}(y') H_t(y))

``f_t(y)`` is the expected cost up to t and ``R_t(y) / P_t(y)`` that after t, both given y_t = y and less their means:
each position's costs are centred before they are added up, so a large cost that all labels share costs no digits.

Why these numbers can be trusted. The rule for scores is that of the scaled forward pass: a spread of ``MAX_SPREAD`` at
most, no non-zero ``a`` below ``TINY``; so a non-zero ``p_t`` is at least 5e-281, and zeros are structural. Marginals
are passed down from ``P_t`` in shares ``a M / p`` that sum to one, so no backward vector can leave the range of
doubles: only probabilities below 1e-300 underflow. ``|f|`` and ``|R / P|`` are at most T times the greatest
difference of costs, and costs are measured in a unit (a power of two, so that no digit changes) that makes the greatest
of them about one.

:func:`covariance` is for the most common chains, those of order 1 without edges, O(T Y^2). Sequences that it cannot
handle (``NEEDS_LOG_SPACE``) and all other chains go to :func:`covariance_in_logs`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from loglinear.arrays import Float, Int64, UInt8
from loglinear.kernels import kernel, small_kernel
from loglinear.kernels.numbers import DONE, INFEASIBLE, MAX_SPREAD, NEEDS_LOG_SPACE, longest
from loglinear.structures.chain.sums import (
    LANES,
    Parts,
    add_ends,
    add_product,
    fill_scores,
    padded,
    scale_to_one,
    transition_factors,
)


class Work(NamedTuple):
    """Scratch for one sequence of at most T positions, all [T, W]; the letters are those of the equations above."""

    alpha: Float  # a
    inverse: Float  # 1 / p
    node: Float  # P
    future: Float  # R
    past: Float  # d, then a f
    gain: Float  # G
    lift: Float  # H


@kernel
def _forward(first: int, last: int, parts: Parts, move: Float, room: float, work: Work, potential: Float) -> int:
    """Scaled forward pass over the sequence ``first..last``: fills ``alpha`` and ``inverse``; returns a status.

    ``room`` is the greatest spread that the emission scores may have; ``potential`` [W] is scratch, zero from Y on.
    """
    n_labels = parts.start.shape[0]
    for t in range(last - first + 1):
        peak = fill_scores(first + t, first, last, parts, potential)
        if peak == -np.inf:
            return INFEASIBLE
        n_low = 0
        for y in range(n_labels):
            x = potential[y] - peak
            n_low += (x > -np.inf) & (x < -room)
            potential[y] = math.exp(x)
        if n_low > 0:
            return NEEDS_LOG_SPACE
        row, inverse = work.alpha[t], work.inverse[t]
        for y in range(row.shape[0]):
            row[y] = 1.0 if t == 0 else 0.0
        if t > 0:
            add_product(work.alpha[t - 1], move, row)
        for y in range(row.shape[0]):
            inverse[y] = 1.0 / row[y] if row[y] > 0.0 else 0.0
            row[y] *= potential[y]
        _, status = scale_to_one(row)
        if status != DONE:
            return status
    return DONE


@kernel
def _centre(node: Float, values: Float) -> float:
    """Subtracts from ``values`` [W], W a multiple of LANES, their mean under the marginals ``node`` [W]; returns it."""
    mean = 0.0
    for _ in range(2):  # the second time corrects the rounding error of a large mean
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


@small_kernel
def _add_both_products(first: Float, second: Float, matrix: Float, out: Float, other: Float) -> None:
    """:func:`add_product` of two vectors with the same matrix, whose rows are then read once."""
    width = first.shape[0]
    for b in range(0, width, LANES):
        f0, f1, f2, f3 = first[b], first[b + 1], first[b + 2], first[b + 3]
        s0, s1, s2, s3 = second[b], second[b + 1], second[b + 2], second[b + 3]
        m0, m1, m2, m3 = matrix[b], matrix[b + 1], matrix[b + 2], matrix[b + 3]
        for y in range(width):
            out[y] += (f0 * m0[y] + f1 * m1[y]) + (f2 * m2[y] + f3 * m3[y])
            other[y] += (s0 * m0[y] + s1 * m1[y]) + (s2 * m2[y] + s3 * m3[y])


@kernel
def _backward(costs: Float, unit: float, moved: Float, work: Work) -> float:
    """Fills P, R, d, G and H; returns ``unit`` times E[c].

    ``costs`` [T, Y] are multiplied by ``unit``; ``moved`` [W, W] is M transposed.
    """
    n_positions, n_labels = costs.shape
    width = work.alpha.shape[1]
    for y in range(width):
        work.node[n_positions - 1, y], work.future[n_positions - 1, y] = work.alpha[n_positions - 1, y], 0.0
    mean = 0.0
    for t in range(n_positions - 1, -1, -1):
        p, r, d = work.node[t], work.future[t], work.past[t]
        for y in range(width):
            d[y] = costs[t, y] * unit if y < n_labels else 0.0
        mean += _centre(p, d)
        if t == 0:
            return mean
        g, h, inverse = work.gain[t], work.lift[t], work.inverse[t]
        for y in range(width):
            g[y] = p[y] * inverse[y]
            h[y] = (p[y] * d[y] + r[y]) * inverse[y]
        a, p, r = work.alpha[t - 1], work.node[t - 1], work.future[t - 1]
        for b in range(width):
            p[b], r[b] = 0.0, 0.0
        _add_both_products(g, h, moved, p, r)
        for b in range(width):
            p[b] *= a[b]
            r[b] *= a[b]
    return mean


@kernel
def _carry(move: Float, share: float, work: Work, foreseen: Float, out: Float) -> None:
    """Turns ``past`` from d into a f; fills ``out`` [T, Y], the covariances with the labels times ``share``.

    ``foreseen`` [W] is scratch.
    """
    n_positions, n_labels = out.shape
    for t in range(n_positions):
        f, a, inverse = work.past[t], work.alpha[t], work.inverse[t]
        for y in range(foreseen.shape[0]):
            foreseen[y] = 0.0
        if t > 0:
            add_product(work.past[t - 1], move, foreseen)
        for y in range(f.shape[0]):
            f[y] += foreseen[y] * inverse[y]
        for y in range(n_labels):
            out[t, y] = share * (work.node[t, y] * f[y] + work.future[t, y])
        for y in range(f.shape[0]):
            f[y] *= a[y]


@kernel
def _add_outer_products(work: Work, weight: float, n_positions: int, sums: Float) -> None:
    """``sums`` [Y, W] += weight * sum_t (past_{t-1} gain_t + alpha_{t-1} lift_t), two positions at a time."""
    n_labels, width = sums.shape
    alpha, past, gain, lift = work.alpha, work.past, work.gain, work.lift
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
    offsets: Int64, parts: Parts, cost: Float, unit: float, weights: Float, mean: Float, status: UInt8, result: Parts
) -> None:
    """Expected costs, and the covariances of cost and parts, of order-1 chains without edges.

    Parameters
    ----------
    offsets : int64[S + 1]
    parts, result : Parts
        Emissions and edges (if any) of ``result`` are overwritten, its other parts added to; infeasible sequences
        change nothing.
    cost : float64[N, Y]
    unit : float
        Power of two that scales the costs of intermediate results to about one at most.
    weights : float64[S]
        Factor of each sequence's covariances.
    mean : float64[S]
        Written: E[c].
    status : uint8[S]
        Written: ``DONE``, ``NEEDS_LOG_SPACE`` (nothing else is written for the sequence) or ``INFEASIBLE``.
    """
    n_labels, width = parts.transition.shape[0], padded(parts.transition.shape[0])
    room = np.empty((7, longest(offsets), width))
    work = Work(room[0], room[1], room[2], room[3], room[4], room[5], room[6])
    potential, foreseen, sums = np.zeros(width), np.empty(width), np.zeros((n_labels, width))
    move, moved, _, spread = transition_factors(parts.transition)
    for i in range(offsets.shape[0] - 1):
        first, end = offsets[i], offsets[i + 1]
        status[i] = _forward(first, end - 1, parts, move, MAX_SPREAD - spread, work, potential)
        if status[i] != DONE:
            continue
        mean[i] = _backward(cost[first:end], unit, moved, work) / unit
        _carry(move, weights[i] / unit, work, foreseen, result.emission[first:end])
        _add_outer_products(work, weights[i], end - first, sums)
        add_ends(first, end - 1, result)
    for b in range(n_labels):
        for y in range(n_labels):
            result.transition[b, y] += sums[b, y] * move[b, y] / unit


# ----------------------------------------------------------------------------------------------------------------------
# Covariance of a cost and the parts of a chain for any scores, and for all orders with the same loops.
#
# The quantities have the names used above, with the states ``(c, y)`` and arcs ``(b, c, y)`` of
# :mod:`loglinear.structures.chain.log_sums` instead of labels and transitions. Forward values are kept as logarithms
# less their maximum. All sums are made of the shares that arcs have in the states they lead into::
#
#     share_t(b, c, y) = a_{t-1}(b C + c) M(b, c, y) / p_t(c, y)         which sum to one over b
#     P_{t-1}(b C + c) = sum_y share_t(b, c, y) P_t(c, y)                       R_{t-1} likewise from P_t d_t + R_t
#     f_t(c, y)        = d_t(y) + sum_b share_t(b, c, y) f_{t-1}(b C + c)
#     cov(c, arc)      = share_t(b, c, y) (f_{t-1}(b C + c) P_t(c, y) + P_t(c, y) d_t(y) + R_t(c, y))
#
# Where the forward values are above ``LOG_TINY`` and the spread of the arcs is below ``MAX_SPREAD``, ``a M`` is
# computed as a product, which is at least 5e-281 if it is not zero. Elsewhere it is the exponential of the sum of the
# logarithms less the greatest such sum into the state. Either way only shares below 1e-300 underflow, and all other
# numbers are averages.
#
# P is not known yet when f is computed: f is kept relative to that of the likeliest state, and the backward pass
# subtracts its mean under P.
#
# O(T Y^2) time at order 1, O(T Y^3) at order 2, O(T Y^4) at order 3; O(T Y), O(T Y^2) and O(T Y^3) scratch for the
# longest sequence, O(T Y^2) with edges at order 1.

Tables = tuple[Float, Float, Float]
LOG_TINY = -345.0


@kernel
def _fill_table(t: int, k: int, parts: Parts, arcs: Float, powers: Float, limits: Float) -> None:
    """Scores ``arcs`` [Y, C, Y] of table ``k``, ``powers`` = exp(arcs - max), ``limits`` [2] = max and spread.

    With edges at order 1 they are those into position ``t``.
    """
    transition, edge, trigram = parts.transition, parts.edge, parts.trigram
    n_labels, n_contexts, _ = arcs.shape
    is_third = k == 1 and trigram.shape[0] > n_labels
    peak, least = -np.inf, np.inf
    for b in range(n_labels):
        for c in range(n_contexts):
            for y in range(n_labels):
                if trigram.shape[0] == 0:
                    x = transition[b, y] + (edge[t, b, y] if edge.shape[0] > 0 else 0.0)
                else:
                    x = transition[c % n_labels, y]
                    if k > 0:
                        x += trigram[n_labels if is_third else b, c, y]
                arcs[b, c, y] = x
                peak = max(peak, x)
                least = min(least, x if x > -np.inf else np.inf)
    limits[0], limits[1] = peak, peak - least if peak > -np.inf else 0.0
    for b in range(n_labels):
        for c in range(n_contexts):
            for y in range(n_labels):
                powers[b, c, y] = math.exp(arcs[b, c, y] - peak) if peak > -np.inf else 0.0


@kernel
def _table_of(t: int, first: int, parts: Parts) -> int:
    """The table that holds the arcs into ``t``.

    There is one for each position of an order-1 chain with edges, at order 2 one for second positions and one for the
    others, at order 3 one for third positions, too, and otherwise a single one.
    """
    if parts.trigram.shape[0] > 0:
        return min(t - first - 1, 2 if parts.trigram.shape[0] > parts.transition.shape[0] else 1)
    return t - first if parts.edge.shape[0] > 0 else 0


@kernel
def _weigh(k: int, tables: Tables, before: Float, factors: Float, left: Float, spare: Float) -> Float:
    """The weights [Y, C, Y] of the arcs of table ``k``: ``a M = factors(b C + c) weights(b, c, y) exp(left(c, y))``.

    ``before`` [C Y] are the logarithms of ``a``, the greatest 0. Fills ``factors`` [C Y] and ``left`` [C, Y], -inf only
    where no arc leads in. The weights are the table's powers or, where those could underflow, written to ``spare``.
    """
    arcs, powers, limits = tables[0][k], tables[1][k], tables[2][k]
    n_labels, n_contexts, _ = arcs.shape
    least = 0.0
    for p in range(before.shape[0]):
        least = min(least, before[p] if before[p] > -np.inf else 0.0)
    if least >= LOG_TINY and limits[1] <= MAX_SPREAD:
        for p in range(before.shape[0]):
            factors[p] = math.exp(before[p])
        left[:] = limits[0]
        return powers
    left[:] = -np.inf
    for b in range(n_labels):
        for c in range(n_contexts):
            a, arc, top = before[b * n_contexts + c], arcs[b, c], left[c]
            for y in range(n_labels):
                top[y] = max(top[y], a + arc[y])
    for b in range(n_labels):
        for c in range(n_contexts):
            p = b * n_contexts + c
            a, arc, top, row = before[p], arcs[b, c], left[c], spare[b, c]
            factors[p] = 1.0 if a > -np.inf else 0.0
            for y in range(n_labels):
                row[y] = math.exp(a + arc[y] - top[y]) if a + arc[y] > -np.inf else 0.0
    return spare


@kernel
def _forward_in_logs(
    first: int, last: int, parts: Parts, cost: Float, unit: float, tables: Tables, kept: Tables, scratch: Tables
) -> int:
    """Fills ``kept``, all [T, C, Y]: log a less its maximum, f up to a constant, 1 / p. Returns a status."""
    emission, _, start, stop, edge, trigram = parts
    factors, left, spare = scratch
    n_labels, n_contexts, _ = spare.shape
    for t in range(first, last + 1):
        row, f, inverse = kept[0][t - first], kept[1][t - first], kept[2][t - first]
        row[:], f[:], inverse[:] = -np.inf, 0.0, 0.0
        if t == first:
            row[0] = 0.0
        else:
            k, before = _table_of(t, first, parts), kept[1][t - first - 1].reshape(-1)
            if trigram.shape[0] == 0 and edge.shape[0] > 0:
                _fill_table(t, k, parts, tables[0][k], tables[1][k], tables[2][k])
            weights = _weigh(k, tables, kept[0][t - first - 1].reshape(-1), factors, left, spare)
            for b in range(n_labels):
                for c in range(n_contexts):
                    p = b * n_contexts + c
                    if factors[p] > 0.0:
                        a, level, arc, total, mixed = (
                            factors[p],
                            factors[p] * before[p],
                            weights[b, c],
                            inverse[c],
                            f[c],
                        )
                        for y in range(n_labels):
                            total[y] += a * arc[y]
                            mixed[y] += level * arc[y]
            for c in range(n_contexts):
                for y in range(n_labels):
                    if inverse[c, y] > 0.0:
                        row[c, y] = left[c, y] + math.log(inverse[c, y])
                        inverse[c, y] = 1.0 / inverse[c, y]
                        f[c, y] *= inverse[c, y]
        for c in range(n_contexts):
            for y in range(n_labels):
                row[c, y] += emission[t, y] + (start[y] if t == first else 0.0) + (stop[y] if t == last else 0.0)
                if t > first and trigram.shape[0] > 0 and edge.shape[0] > 0:
                    row[c, y] += edge[t, c % edge.shape[1], y]
        best = np.argmax(row)
        peak, level, base = row.reshape(-1)[best], f.reshape(-1)[best], cost[t, best % n_labels] * unit
        if peak == -np.inf:
            return INFEASIBLE
        for c in range(n_contexts):
            for y in range(n_labels):
                row[c, y] -= peak
                f[c, y] = (f[c, y] - level) + (cost[t, y] * unit - base) if row[c, y] > -np.inf else 0.0
    return DONE


@kernel
def _dot(left: Float, right: Float) -> float:
    """Sum of the products, as four independent sums: a single one would wait for each addition."""
    n = left.shape[0]
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    for j in range(0, n - 3, 4):
        s0 += left[j] * right[j]
        s1 += left[j + 1] * right[j + 1]
        s2 += left[j + 2] * right[j + 2]
        s3 += left[j + 3] * right[j + 3]
    for j in range(n - n % 4, n):
        s0 += left[j] * right[j]
    return (s0 + s1) + (s2 + s3)


@kernel
def _centre_in_logs(node: Float, values: Float) -> float:
    """Subtracts from ``values`` [C Y] their mean under the marginals ``node`` [C Y]; returns it."""
    total, mean = np.sum(node), 0.0
    for _ in range(2):  # the second time corrects the rounding error of a large mean
        part = _dot(node, values) / total
        mean += part
        for s in range(values.shape[0]):
            values[s] -= part
    return mean


@kernel
def _add_states(t: int, first: int, share: float, node: Float, f: Float, future: Float, result: Parts) -> None:
    """Adds a position's covariances with its labels and, from order 2 on, pairs of labels; all tables are [C, Y]."""
    out, transition, edge, trigram = result.emission, result.transition, result.edge, result.trigram
    for y in range(out.shape[1]):
        out[t, y] = 0.0
    if edge.shape[0] > 0 and trigram.shape[0] > 0:
        edge[t] = 0.0
    for c in range(node.shape[0]):
        for y in range(out.shape[1]):
            value = share * (node[c, y] * f[c, y] + future[c, y])
            out[t, y] += value
            if t > first and trigram.shape[0] > 0:
                transition[c % out.shape[1], y] += value
                if edge.shape[0] > 0:
                    edge[t, c % edge.shape[1], y] += value


@kernel
def _add_arcs(
    t: int, first: int, share: float, weights: Float, factors: Float, f: Float, flows: Float, result: Parts
) -> None:
    """Adds a position's covariances with its arcs; ``f`` [C Y] is of the position before, ``flows`` [2, C, Y] G, H."""
    transition, edge, trigram = result.transition, result.edge, result.trigram
    n_labels, n_contexts, _ = weights.shape
    if trigram.shape[0] > 0 and t == first + 1:
        return  # no trigram yet
    is_third = trigram.shape[0] > n_labels and t == first + 2
    for b in range(n_labels):
        for c in range(n_contexts):
            p = b * n_contexts + c
            a, level, arc, g, h = factors[p], factors[p] * f[p], weights[b, c], flows[0, c], flows[1, c]
            total = transition[b] if trigram.shape[0] == 0 else trigram[n_labels if is_third else b, c]
            for y in range(n_labels):
                total[y] += share * (arc[y] * (level * g[y] + a * h[y]))
            if edge.shape[0] > 0 and trigram.shape[0] == 0:
                for y in range(n_labels):
                    edge[t, b, y] = share * (arc[y] * (level * g[y] + a * h[y]))


@kernel
def _backward_in_logs(
    first: int,
    last: int,
    parts: Parts,
    cost: Float,
    unit: float,
    share: float,
    tables: Tables,
    kept: Tables,
    scratch: Tables,
    result: Parts,
) -> float:
    """Adds a sequence's covariances times ``share``, and centres f in place; returns ``unit`` times E[c]."""
    alpha, past, inverses = kept
    factors, left, spare = scratch
    n_labels, n_contexts, _ = spare.shape
    rows, flows = np.zeros((4, n_contexts, n_labels)), np.empty((2, n_contexts, n_labels))
    node, future, node_before, future_before = rows[0], rows[1], rows[2], rows[3]
    marginals, d = np.empty(n_labels), np.empty(n_labels)
    for c in range(n_contexts):
        for y in range(n_labels):
            node[c, y] = math.exp(alpha[last - first, c, y])
    node /= np.sum(node)
    _centre_in_logs(node.reshape(-1), past[last - first].reshape(-1))
    mean = 0.0
    for t in range(last, first - 1, -1):
        _add_states(t, first, share, node, past[t - first], future, result)
        for y in range(n_labels):
            marginals[y], d[y] = np.sum(node[:, y]), cost[t, y] * unit
        mean += _centre_in_logs(marginals, d)
        if t == first:
            return mean
        inverse, f = inverses[t - first], past[t - first - 1].reshape(-1)
        for c in range(n_contexts):
            for y in range(n_labels):
                flows[0, c, y] = node[c, y] * inverse[c, y]
                flows[1, c, y] = (node[c, y] * d[y] + future[c, y]) * inverse[c, y]
        k = _table_of(t, first, parts)
        weights = _weigh(k, tables, alpha[t - first - 1].reshape(-1), factors, left, spare)
        nodes, futures = node_before.reshape(-1), future_before.reshape(-1)
        for b in range(n_labels):
            for c in range(n_contexts):
                p = b * n_contexts + c
                nodes[p] = factors[p] * _dot(weights[b, c], flows[0, c])
                futures[p] = factors[p] * _dot(weights[b, c], flows[1, c])
        _centre_in_logs(nodes, f)
        _add_arcs(t, first, share, weights, factors, f, flows, result)
        node, future, node_before, future_before = node_before, future_before, node, future
    return mean


@kernel
def covariance_in_logs(
    offsets: Int64,
    which: Int64,
    parts: Parts,
    cost: Float,
    unit: float,
    weights: Float,
    mean: Float,
    status: UInt8,
    result: Parts,
) -> None:
    """Expected costs, and the covariances of cost and parts, of the sequences ``which``.

    Parameters
    ----------
    which : int64
        Numbers of the sequences to do.
    offsets, parts, cost, unit, weights, mean, status, result
        As for :func:`covariance`; the status is ``DONE`` or ``INFEASIBLE``.
    """
    n_labels = parts.emission.shape[1]
    paired, edges = parts.trigram.shape[0] > 0, parts.edge.shape[0] > 0
    n_contexts, longest = parts.trigram.shape[1] if paired else 1, 0
    for i in which:
        longest = max(longest, offsets[i + 1] - offsets[i])
    n_tables = (3 if parts.trigram.shape[0] > n_labels else 2) if paired else longest if edges else 1
    cube, square = (n_tables, n_labels, n_contexts, n_labels), (longest, n_contexts, n_labels)
    tables = (np.empty(cube), np.empty(cube), np.empty((n_tables, 2)))
    kept = (np.empty(square), np.empty(square), np.empty(square))
    scratch = (np.empty(n_contexts * n_labels), np.empty(square[1:]), np.empty(cube[1:]))
    for k in range(n_tables if paired or not edges else 0):
        _fill_table(offsets[0], k, parts, tables[0][k], tables[1][k], tables[2][k])
    for i in which:
        first, last = offsets[i], offsets[i + 1] - 1
        status[i] = _forward_in_logs(first, last, parts, cost, unit, tables, kept, scratch)
        if status[i] != DONE:
            continue
        share = weights[i] / unit
        mean[i] = _backward_in_logs(first, last, parts, cost, unit, share, tables, kept, scratch, result) / unit
        add_ends(first, last, result)
        if result.edge.shape[0] > 0:
            result.edge[first] = 0.0
