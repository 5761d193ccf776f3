"""A chain cut into pieces that are normalised one by one, which local criteria use instead of forward-backward.

The piece of position t scores its label y given its *context* k, the labels before it that it depends on::

    first position            no context         start(y) + s_t(y)
    second (at order 2)       y'                 transition(y', y) + edge_t(y', y) + s_t(y)
    the others                y' or (y'', y')    ... + trigram(y'', y', y) at order 2

with stop(y) added at last positions; the pieces along a labelling sum to its score. The normaliser of a piece
depends on the context alone, so it is scored like a part of a chain that ends one position earlier::

    L_t(k) = log sum_y exp piece_t(k, y)                               log(1 + sum ...) with none of the above
    dL_t(k) / d piece_t(k, y) = exp(piece_t(k, y) - L_t(k))

Scores of labels alone are the same at every position: with A(k, y) = exp(transition + trigram - a) and
f_t(y) = exp(s_t(y) + edge_t(y', y) - p), a and p the maxima, the sums are products with a fixed matrix::

    z_t(k)                   = sum_y A(k, y) f_t(y)                    L_t(k) = p + a + log z_t(k)
    gradient of s_t(y)       = f_t(y) sum_k r_t(k) A(k, y)             r_t(k) = weight_t(k) exp(p + a - L_t(k))
    gradient of A's scores   = A(k, y) sum_t r_t(k) f_t(y)

so a position takes O(Y) exponentials (O(Y^2) with edges) and O(Y) products for each context. If the spreads of the
finite scores in A and f_t add up to at most ``MAX_SPREAD`` = 600 nats, each term that is not ruled out is at least
e^-600 > 1e-261 and r at most 1e261 times the weight: nothing underflows or overflows, and z = 0 means a context without
a possible label (L = -inf; 0 with none of the above). Other positions are done score by score.

Contexts are numbered k = y' or y'' Y + y'. Arrays of length zero are absent parts.
"""

from __future__ import annotations

import math

import numpy as np

from loglinear.arrays import Float, Int32, Int64
from loglinear.kernels import kernel
from loglinear.kernels.numbers import exp_rows, log_rows, longest
from loglinear.structures.chain.sums import LANES, Parts, padded

Contexts = tuple[Float, Float]  # nodes [N or 0, Y] and pairs [N or 0, Y^2]
Tables = tuple[Float, Float, Float, Float]  # log A and A [K, W], A transposed [W, K], maxima and spreads [2, 2]
Rows = tuple[Float, Float, Float, Float]  # log f and f [R, W], maxima and spreads [R, 2], scratch [R W]
Buffers = tuple[Float, Float, Float, Float]  # z, L and r [R, K], scratch [R K]

MAX_SPREAD = 600.0
ONE, ROW = 3, 16  # cost of a context done alone, and of its position, relative to a context done with all others


@kernel
def _tables(transition: Float, trigram: Float) -> Tables:
    """Tables with the contexts of one label, then those of two labels if there are trigrams; both padded with zeros."""
    n_labels = transition.shape[0]
    width, n_pairs = padded(n_labels), trigram.shape[0] * n_labels
    shape = (width + padded(n_pairs), width)
    raw, matrix, turned, extents = np.full(shape, -np.inf), np.zeros(shape), np.zeros(shape[::-1]), np.zeros((2, 2))
    for deep in range(2):
        base, n_contexts = (width, n_pairs) if deep else (0, n_labels)
        peak, least = -np.inf, np.inf
        for k in range(n_contexts):
            for y in range(n_labels):
                x = transition[k % n_labels, y]
                if deep:
                    x += trigram[k // n_labels, k % n_labels, y]
                raw[base + k, y] = x
                peak = max(peak, x)
                least = min(least, x if x > -np.inf else np.inf)
        if peak > -np.inf:
            extents[deep, 0], extents[deep, 1] = peak, peak - least
        for k in range(base, base + n_contexts):
            for y in range(n_labels):
                matrix[k, y] = math.exp(raw[k, y] - extents[deep, 0])
                turned[y, k] = matrix[k, y]
    return raw, matrix, turned, extents


@kernel
def _fill_row(parts: Parts, t: int, first: int, last: int, before: int, row: Float) -> tuple[float, float]:
    """Fills ``row`` [W] with the scores that depend on y and ``before`` alone; returns maximum and spread."""
    emission, start, stop, edge = parts.emission, parts.start, parts.stop, parts.edge
    n_labels = emission.shape[1]
    own = emission[t]
    for y in range(n_labels):
        row[y] = own[y]
    if t == first:
        for y in range(n_labels):
            row[y] += start[y]
    elif edge.shape[0] > 0:
        pair = edge[t, before]
        for y in range(n_labels):
            row[y] += pair[y]
    if t == last:
        for y in range(n_labels):
            row[y] += stop[y]
    for y in range(n_labels, row.shape[0]):
        row[y] = -np.inf
    peak, least = -np.inf, np.inf
    for y in range(n_labels):
        peak = max(peak, row[y])
        least = min(least, row[y] if row[y] > -np.inf else np.inf)
    return (peak, peak - least) if peak > -np.inf else (0.0, 0.0)


@kernel
def _fill_rows(parts: Parts, t: int, end: int, first: int, last: int, before: int, rows: Rows) -> float:
    """Fills the rows of the positions ``t`` to ``end - 1`` after the label ``before``; returns the greatest spread."""
    raw, factors, extents, powers = rows
    width, greatest = raw.shape[1], 0.0
    for j in range(end - t):
        row, factor = raw[j], factors[j]
        peak, spread = _fill_row(parts, t + j, first, last, before, row)
        extents[j, 0], extents[j, 1] = peak, spread
        greatest = max(greatest, spread)
        for y in range(width):
            factor[y] = row[y] - peak
    exp_rows(factors.reshape(-1)[: (end - t) * width], powers)
    return greatest


@kernel
def _count(weights: Float, begin: int, step: int) -> int:
    """Number of non-zero ``weights`` at begin, begin + step, ..."""
    found = 0
    for k in range(begin, weights.shape[0], step):
        found += weights[k] != 0.0
    return found


@kernel
def _log_sum(row: Float, other: Float, nothing: bool) -> float:
    """log sum exp of ``row + other`` [W], and of a 0 if ``nothing``; safe for any scores."""
    top = 0.0 if nothing else -np.inf
    for y in range(row.shape[0]):
        top = max(top, row[y] + other[y])
    if top == -np.inf:
        return top
    total = math.exp(-top) if nothing else 0.0
    for y in range(row.shape[0]):
        total += math.exp(row[y] + other[y] - top)
    return top + math.log(total)


@kernel
def _scaling(peak: float, nothing: bool) -> tuple[float, float, float, float]:
    """(shift, scale, more, dead): L = shift + log(more + scale z), ``dead`` if z = 0; ``peak`` is p + a."""
    shift = max(peak, 0.0)
    if nothing:
        return shift, math.exp(peak - shift), math.exp(-shift), 0.0
    return peak, 1.0, 0.0, -np.inf


@kernel
def _fill_products(factors: Float, turned: Float, base: int, n: int, products: Float) -> None:
    """``products[j, k] = z(k)`` for ``n`` rows and all contexts, whose columns of A transposed begin at ``base``."""
    breadth = products.shape[1]
    for j in range(n):
        factor, z = factors[j], products[j]
        for k in range(breadth):
            z[k] = 0.0
        for y in range(0, factor.shape[0], LANES):
            f0, f1, f2, f3 = factor[y], factor[y + 1], factor[y + 2], factor[y + 3]
            a0, a1, a2, a3 = turned[y, base:], turned[y + 1, base:], turned[y + 2, base:], turned[y + 3, base:]
            for k in range(breadth):
                z[k] += (f0 * a0[k] + f1 * a1[k]) + (f2 * a2[k] + f3 * a3[k])


@kernel
def _add_products(factors: Float, matrix: Float, base: int, n: int, shares: Float, own: Float, sums: Float) -> None:
    """``own[j] = f sum_k r(k) A(k)`` for ``n`` rows, and ``sums[k] += sum_j r(k) f``; ``shares`` [n, K] is r."""
    width, breadth = factors.shape[1], shares.shape[1]
    for j in range(n):
        factor, share, total = factors[j], shares[j], own[j]
        for y in range(width):
            total[y] = 0.0
        for k in range(0, breadth, LANES):
            r0, r1, r2, r3 = share[k], share[k + 1], share[k + 2], share[k + 3]
            a0, a1, a2, a3 = matrix[base + k], matrix[base + k + 1], matrix[base + k + 2], matrix[base + k + 3]
            for y in range(width):
                total[y] += (r0 * a0[y] + r1 * a1[y]) + (r2 * a2[y] + r3 * a3[y])
        for y in range(width):
            total[y] *= factor[y]
    for j in range(0, n - LANES + 1, LANES):
        f0, f1, f2, f3 = factors[j], factors[j + 1], factors[j + 2], factors[j + 3]
        for k in range(breadth):
            r0, r1, r2, r3 = shares[j, k], shares[j + 1, k], shares[j + 2, k], shares[j + 3, k]
            kept = sums[base + k]
            for y in range(width):
                kept[y] += (r0 * f0[y] + r1 * f1[y]) + (r2 * f2[y] + r3 * f3[y])
    for j in range(n - n % LANES, n):
        factor = factors[j]
        for k in range(breadth):
            r0, kept = shares[j, k], sums[base + k]
            for y in range(width):
                kept[y] += r0 * factor[y]


@kernel
def _all_contexts(
    n: int, rows: Rows, tables: Tables, deep: int, nothing: bool, weights: Float, buffers: Buffers,
    found: Float, sums: Float,
) -> float:  # fmt: skip
    """All contexts of the first ``n`` rows: their normalisers are written to ``found`` [n or 0, K].

    Returns the sum of the normalisers times ``weights`` [n or 0, K]; its gradient by log f replaces log f in ``rows``,
    that by log A is added to ``sums``.
    """
    factors, extents = rows[1], rows[2]
    _, matrix, turned, table_extents = tables
    products, logs, shares, powers = buffers
    adding, n_contexts, breadth = weights.shape[0] > 0, max(weights.shape[1], found.shape[1]), products.shape[1]
    base = factors.shape[1] * deep
    _fill_products(factors, turned, base, n, products)
    for j in range(n):
        _, scale, more, _ = _scaling(extents[j, 0] + table_extents[deep, 0], nothing)
        z, value, share = products[j], logs[j], shares[j]
        for k in range(breadth):
            value[k] = more + scale * z[k] if z[k] > 0.0 else 1.0
            share[k] = scale / value[k] if z[k] > 0.0 else 0.0
    log_rows(logs.reshape(-1)[: n * breadth], powers)
    total = 0.0
    for j in range(n):
        shift, _, _, dead = _scaling(extents[j, 0] + table_extents[deep, 0], nothing)
        z, value, share = products[j], logs[j], shares[j]
        for k in range(n_contexts):
            value[k] = shift + value[k] if z[k] > 0.0 else dead
        if found.shape[0] > 0:
            row = found[j]
            for k in range(n_contexts):
                row[k] = value[k]
        if adding:
            weight = weights[j]
            for k in range(n_contexts):
                share[k] *= weight[k]
                total += weight[k] * value[k] if weight[k] != 0.0 else 0.0
    if adding:
        _add_products(factors, matrix, base, n, shares, rows[0], sums[0])
    return total


@kernel
def _some_contexts(
    rows: Rows, tables: Tables, deep: int, nothing: bool, weights: Float, begin: int, step: int, own: Float,
    found: Float, sums: Float,
) -> float:  # fmt: skip
    """The contexts k = begin, begin + step, ... of row 0 that have a weight, one by one; safe for any scores.

    ``weights`` and ``found`` are [K or 0]; the gradient by log f is added to ``own`` [W]. Gradients that
    are computed score by score, without a factor A, go to the second half of ``sums``. Otherwise as
    :func:`_all_contexts`.
    """
    row, factor = rows[0][0], rows[1][0]
    raw, matrix, _, extents = tables
    base, width = row.shape[0] * deep, row.shape[0]
    safe = rows[2][0, 1] + extents[deep, 1] <= MAX_SPREAD
    shift, scale, more, dead = _scaling(rows[2][0, 0] + extents[deep, 0], nothing)
    total = 0.0
    for k in range(begin, max(weights.shape[0], found.shape[0]), step):
        weight = weights[k] if weights.shape[0] > 0 else 1.0
        if weight == 0.0:
            continue
        arcs, log_z, share = matrix[base + k], dead, 0.0
        if safe:
            s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
            for y in range(0, width, LANES):
                s0 += arcs[y] * factor[y]
                s1 += arcs[y + 1] * factor[y + 1]
                s2 += arcs[y + 2] * factor[y + 2]
                s3 += arcs[y + 3] * factor[y + 3]
            z = (s0 + s1) + (s2 + s3)
            if z > 0.0:
                log_z, share = shift + math.log(more + scale * z), weight * scale / (more + scale * z)
        else:
            log_z = _log_sum(row, raw[base + k], nothing)
        total += weight * log_z
        if found.shape[0] > 0:
            found[k] = log_z
        if weights.shape[0] == 0 or log_z == -np.inf:
            continue
        if safe:
            kept = sums[0, base + k]
            for y in range(width):
                own[y] += share * arcs[y] * factor[y]
            for y in range(width):
                kept[y] += share * factor[y]
        else:
            kept, scores = sums[1, base + k], raw[base + k]
            for y in range(width):
                p = weight * math.exp(row[y] + scores[y] - log_z)
                own[y] += p
                kept[y] += p
    return total


@kernel
def _add_sums(sums: Float, matrix: Float, gradient: Parts) -> None:
    """Adds the gradient of transitions and trigrams: A times the first half of ``sums`` [2, K, W], plus the second."""
    transition, trigram = gradient.transition, gradient.trigram
    n_labels, width = transition.shape[0], matrix.shape[1]
    for k in range(n_labels):
        for y in range(n_labels):
            transition[k, y] += sums[0, k, y] * matrix[k, y] + sums[1, k, y]
    for k in range(trigram.shape[0] * n_labels):
        for y in range(n_labels):
            p = sums[0, width + k, y] * matrix[width + k, y] + sums[1, width + k, y]
            transition[k % n_labels, y] += p
            trigram[k // n_labels, k % n_labels, y] += p


@kernel
def _first_piece(
    first: int, last: int, parts: Parts, nothing: bool, weight: float, row: Float, nought: Float, gradient: Parts
) -> float:
    """Normaliser of a first piece; its gradient times ``weight`` is added unless that is 0."""
    _fill_row(parts, first, first, last, 0, row)
    log_z = _log_sum(row, nought, nothing)
    if weight != 0.0 and log_z > -np.inf:
        emission, start, stop = gradient.emission, gradient.start, gradient.stop
        for y in range(start.shape[0]):
            p = weight * math.exp(row[y] - log_z)
            emission[first, y] += p
            start[y] += p
            stop[y] += p if first == last else 0.0
    return log_z


@kernel
def _add_own(t: int, last: int, before: int, own: Float, gradient: Parts) -> None:
    """Adds a gradient ``own`` [W] by log f to that by the parts."""
    emission, stop, edge = gradient.emission[t], gradient.stop, gradient.edge
    for y in range(emission.shape[0]):
        emission[y] += own[y]
    if t == last:
        for y in range(emission.shape[0]):
            stop[y] += own[y]
    if edge.shape[0] > 0:
        pair = edge[t, before]
        for y in range(emission.shape[0]):
            pair[y] += own[y]


@kernel
def _room(offsets: Int64, n_labels: int, n_contexts: int) -> tuple[Rows, Buffers]:
    """Scratch for the longest sequence."""
    n, width, breadth = longest(offsets), padded(n_labels), padded(n_contexts)
    rows = np.empty((n, width)), np.empty((n, width)), np.empty((n, 2)), np.empty(n * width)
    wide = (n, breadth)
    return rows, (np.empty(wide), np.empty(wide), np.empty(wide), np.empty(n * breadth))


@kernel
def pieces(
    offsets: Int64, parts: Parts, first_weights: Float, weights: Contexts, nothing: bool,
    values: Float, found: Contexts, gradient: Parts,
) -> None:  # fmt: skip
    """Normalisers of all pieces, or their weighted sums and the sums' gradient; O(Y) for a context, O(Y^2) with edges.

    Parameters
    ----------
    offsets : int64[S + 1]
    parts, gradient : emission [N, Y], transition [Y, Y], start, stop [Y], edge [N or 0, Y, Y], trigram [Y or 0, Y, Y]
        The gradient is added to.
    first_weights : float64[S or 0]
        Of the first positions' pieces.
    weights, found : nodes [N or 0, Y], pairs [N or 0, Y^2]
        Of the other pieces, at the last position of the context; pairs from the second position on if there are
        trigrams. Either the normalisers are written to ``found`` or there are weights.
    nothing : bool
        Whether "none of the above", of score 0, is one more outcome.
    values : float64[S]
        Written: the normalisers of the first pieces, or the weighted sums.
    """
    n_labels, adding = parts.emission.shape[1], first_weights.shape[0] > 0
    edges, deepest = parts.edge.shape[0] > 0, 1 if parts.trigram.shape[0] > 0 else 0
    n_contexts = 0 if edges else n_labels ** (deepest + 1)  # that are done all at once
    tables, (rows, buffers) = _tables(parts.transition, parts.trigram), _room(offsets, n_labels, n_contexts)
    width, step = rows[0].shape[1], n_labels if edges else 1
    sums, row, own, nought = np.zeros((2, *tables[1].shape)), np.empty(width), np.empty(width), np.zeros(width)
    for i in range(offsets.shape[0] - 1):
        first, last = offsets[i], offsets[i + 1] - 1
        weight = first_weights[i] if adding else 0.0
        values[i] = _first_piece(first, last, parts, nothing, weight, row, nought, gradient)
        if adding:
            values[i] = weight * values[i] if weight != 0.0 else 0.0
        end = last + 1  # of the positions that must be done one by one
        begin = first + 1 + deepest
        run_weights, run_found = weights[deepest][begin - 1 : last], found[deepest][begin - 1 : last]
        dense = not adding or ONE * _count(run_weights.reshape(-1), 0, 1) > run_weights.size - ROW * (end - begin)
        if begin <= last and dense and not edges:
            spread = _fill_rows(parts, begin, end, first, last, 0, rows)
            if spread + tables[3][deepest, 1] <= MAX_SPREAD:
                total = _all_contexts(
                    end - begin, rows, tables, deepest, nothing, run_weights, buffers, run_found, sums
                )
                if adding:
                    values[i] += total
                    for t in range(begin, end):
                        _add_own(t, last, 0, rows[0][t - begin], gradient)
                end = begin
        for t in range(first + 1, end):
            deep = 1 if deepest and t > first + 1 else 0
            some, out = weights[deep][t - 1 : t].reshape(-1), found[deep][t - 1 : t].reshape(-1)
            for before in range(step):
                if adding and _count(some, before, step) == 0:
                    continue
                _fill_rows(parts, t, t + 1, first, last, before, rows)
                for y in range(width):
                    own[y] = 0.0
                total = _some_contexts(rows, tables, deep, nothing, some, before, step, own, out, sums)
                if adding:
                    values[i] += total
                    _add_own(t, last, before, own, gradient)
    if adding:
        _add_sums(sums, tables[1], gradient)


# ----------------------------------------------------------------------------------------------------------------------
# Each position's label given other labels of a labelling: what MEMMs and pseudolikelihood are trained on.
#
# With the labels y* of the other positions fixed, the label of position t has the scores::
#
#     given those before      r_t(y) = s_t(y) + transition(y*_{t-1}, y) + edge_t(y*_{t-1}, y)
#                                      + trigram(y*_{t-2}, y*_{t-1}, y)
#     and those after                  + transition(y, y*_{t+1}) + edge_{t+1}(y, y*_{t+1})
#                                      + trigram(y*_{t-1}, y, y*_{t+1}) + trigram(y, y*_{t+1}, y*_{t+2})
#
# with start(y) and stop(y) at the ends of the sequence, and parts that reach beyond it left out. A position's value is
# log sum_y exp r_t(y), or log(1 + sum ...) with none of the above. If the score r_t(y*_t) of its own label is
# subtracted (option ``own``), the value is -log p(y*_t given the others). O(Y) for a position.
#
# Arrays of length zero are absent parts.


@kernel
def normalise_rows(table: Float, log_sums: Float) -> None:
    """Replaces ``table`` [R, K] by exp(table - log sum exp of its row); writes the latter to ``log_sums`` [R].

    A row of -inf becomes zeros.
    """
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
    exp_rows(table.reshape(-1), powers)
    for j in range(n_rows):
        row, total = table[j], 0.0
        for k in range(width):
            total += row[k]
        if total > 0.0:
            log_sums[j] += math.log(total)
            for k in range(width):
                row[k] /= total


@kernel
def _add_scores(t: int, first: int, last: int, parts: Parts, labels: Int32, after: bool, row: Float) -> None:
    """Adds to ``row`` [Y] the scores r_t; those that depend on later labels only if ``after``."""
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
def _add_gradient(t: int, first: int, last: int, row: Float, labels: Int32, after: bool, gradient: Parts) -> None:
    """Adds a gradient ``row`` [Y] by r_t to that by the parts: the transpose of :func:`_add_scores`."""
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
def _fill_conditional_rows(
    first: int, last: int, parts: Parts, labels: Int32, after: bool, own: bool, nothing: bool, rows: Float,
    peaks: Float,
) -> float:  # fmt: skip
    """Fills ``rows`` [T, Y] with a sequence's scores less their maxima ``peaks`` [T].

    Returns the sum of the maxima, less the scores of the positions' own labels if ``own``. If a position has no
    possible label, returns an infinite value and leaves the remaining rows as they are.
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
    offsets: Int64, parts: Parts, labels: Int32, after: bool, own: bool, nothing: bool, weights: Float,
    values: Float, gradient: Parts,
) -> None:  # fmt: skip
    """Sums [S] of the positions' values into ``values``; their gradient times ``weights`` [S] is added.

    Parameters
    ----------
    offsets : int64[S + 1]
    parts, gradient : emission [N, Y], transition [Y, Y], start, stop [Y], edge [N or 0, Y, Y], trigram [Y or 0, Y, Y]
    labels : int32[N]
    after : bool
        Whether the labels after a position are given, too.
    own : bool
        Whether to subtract the score of the position's own label; the value is inf where that label is impossible.
    nothing : bool
        Whether "none of the above", of score 0, is one more outcome.
    """
    n_labels, n = parts.emission.shape[1], longest(offsets)
    rows, powers, peaks = np.empty((n, n_labels)), np.empty(n * n_labels), np.empty(n)
    for i in range(offsets.shape[0] - 1):
        first, last = offsets[i], offsets[i + 1] - 1
        values[i] = _fill_conditional_rows(first, last, parts, labels, after, own, nothing, rows, peaks)
        if not np.isfinite(values[i]):
            continue
        exp_rows(rows.reshape(-1)[: (last - first + 1) * n_labels], powers)
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


# ----------------------------------------------------------------------------------------------------------------------
# Each position's label given any neighbours, right and wrong ones, with none of the above as one more answer.
#
# With the scores r_t(y) of above, now a function of the neighbours' labels, a sequence's value is::
#
#     sum_t [ sum over neighbours log(1 + sum_y exp r_t(y)) - r_t(y*_t) ]           the neighbours in r_t(y*_t) are y*'s
#
# At order 1 the neighbours are a pair (a, b), and the sums over y are products of matrices, ``L e R`` with::
#
#     L(a, y) = exp(transition(a, y) + edge_t(a, y))    R(y, b) = exp(transition(y, b) + edge_{t+1}(y, b))
#
# each divided by its greatest entry, so that nothing underflows if their spreads add up to less than ``MAX_SPREAD``;
# O(Y^3) for a position. Where they do not, and at order 2, where up to four labels are neighbours, each row is summed
# by its logarithms: O(Y^3) and O(Y^5).


@kernel
def _fill_side(t: int, first: int, last: int, parts: Parts, raw: Float, powers: Float) -> tuple[float, float]:
    """Scores of the steps into position ``t`` as ``raw`` [Y, Y], their powers over the greatest; that, and the spread.

    Into the first position and out of the last there is one step to or from each label: row 0, and column 0.
    """
    n_labels, peak, least = raw.shape[0], -np.inf, np.inf
    raw[:], powers[:] = -np.inf, 0.0
    for a in range(n_labels if t > first else 1):
        for y in range(n_labels if t <= last else 1):
            if t == first:
                x = parts.start[y]
            elif t > last:
                x = parts.stop[a]
            else:
                x = parts.transition[a, y] + (parts.edge[t, a, y] if parts.edge.shape[0] > 0 else 0.0)
            raw[a, y] = x
            peak = max(peak, x)
            least = min(least, x if x > -np.inf else np.inf)
    if peak == -np.inf:
        return 0.0, 0.0
    for a in range(n_labels):
        for y in range(n_labels):
            powers[a, y] = math.exp(raw[a, y] - peak)
    return peak, peak - least


@kernel
def _add_side(t: int, first: int, last: int, flow: Float, gradient: Parts) -> None:
    """Adds a gradient ``flow`` [Y, Y] by the scores of :func:`_fill_side` to that by the parts."""
    n_labels = flow.shape[0]
    for a in range(n_labels if t > first else 1):
        for y in range(n_labels if t <= last else 1):
            if t == first:
                gradient.start[y] += flow[a, y]
            elif t > last:
                gradient.stop[a] += flow[a, y]
            else:
                gradient.transition[a, y] += flow[a, y]
                if gradient.edge.shape[0] > 0:
                    gradient.edge[t, a, y] += flow[a, y]


@kernel
def _pairs_by_products(
    peak: float, n_before: int, n_after: int, left: Float, own: Float, right: Float, share: float, flows: Float
) -> float:
    """Sum over pairs (a, b) of log(1 + exp(peak) sum_y L(a, y) e(y) R(y, b)).

    Fills ``flows`` [2, Y, Y] with its gradient, times ``share``, by the logarithms of L and of R.
    """
    n_labels, value = own.shape[0], 0.0
    scale, nothing = math.exp(min(peak, 0.0)), math.exp(-max(peak, 0.0))  # both sides times exp(-peak) if that is less
    sums = np.empty(n_after)
    flows[:] = 0.0
    for a in range(n_before):
        sums[:] = 0.0
        for y in range(n_labels):
            factor, row = scale * left[a, y] * own[y], right[y]
            for b in range(n_after):
                sums[b] += factor * row[b]
        for b in range(n_after):
            if sums[b] > 0.0:
                value += max(peak, 0.0) + math.log(nothing + sums[b])
                sums[b] = share / (nothing + sums[b])
        for y in range(n_labels):
            factor, row, out, total = scale * left[a, y] * own[y], right[y], flows[1, y], 0.0
            for b in range(n_after):
                part = factor * row[b] * sums[b]
                out[b] += part
                total += part
            flows[0, a, y] = total
    return value


@kernel
def _add_pairs_in_logs(
    t: int, first: int, last: int, parts: Parts, share: float, labels: Int32, row: Float, gradient: Parts
) -> float:
    """Sum over the neighbours of position ``t`` of log(1 + sum_y exp r_t(y)); adds its gradient times ``share``.

    ``labels`` [N] and ``row`` [Y] are scratch.
    """
    n_labels, order, value = row.shape[0], 2 if parts.trigram.shape[0] > 0 else 1, 0.0
    begin, end = max(first, t - order), min(last, t + order)
    for s in range(begin, end + 1):
        labels[s] = 0
    while True:
        row[:] = 0.0
        _add_scores(t, first, last, parts, labels, True, row)
        peak = max(0.0, np.max(row))
        total = math.exp(-peak)
        for y in range(n_labels):
            row[y] = math.exp(row[y] - peak)
            total += row[y]
        value += peak + math.log(total)
        for y in range(n_labels):
            row[y] *= share / total
        _add_gradient(t, first, last, row, labels, True, gradient)
        s = begin  # count up to the next neighbours
        while s <= end:
            if s != t:
                labels[s] += 1
                if labels[s] < n_labels:
                    break
                labels[s] = 0
            s += 1
        if s > end:
            return value


@kernel
def add_any_neighbours(
    offsets: Int64, parts: Parts, labels: Int32, weights: Float, values: Float, gradient: Parts
) -> None:
    """Values [S] of the sequences into ``values``; their gradient times ``weights`` [S] is added to ``gradient``.

    Parameters are as for :func:`add_conditionals`. A value is inf where the labelling is impossible.
    """
    n_labels, by_products = parts.emission.shape[1], parts.trigram.shape[0] == 0
    sides, powers, scratch = np.empty((2, n_labels, n_labels)), np.empty((2, n_labels, n_labels)), labels.copy()
    flows, own, row = np.empty((2, n_labels, n_labels)), np.empty(n_labels), np.empty(n_labels)
    for i in range(offsets.shape[0] - 1):
        first, last, weight = offsets[i], offsets[i + 1] - 1, weights[i]
        values[i] = 0.0
        peak_after, spread_after = _fill_side(first, first, last, parts, sides[0], powers[0])
        for t in range(first, last + 1):
            here, there = (t - first) % 2, (t - first + 1) % 2
            peak_before, spread_before = peak_after, spread_after
            peak_after, spread_after = _fill_side(t + 1, first, last, parts, sides[there], powers[there])
            peak, least = -np.inf, np.inf
            for y in range(n_labels):
                x = parts.emission[t, y]
                peak, least = max(peak, x), min(least, x if x > -np.inf else np.inf)
            if peak > -np.inf and by_products and spread_before + spread_after + peak - least < MAX_SPREAD:
                for y in range(n_labels):
                    own[y] = math.exp(parts.emission[t, y] - peak)
                top = peak_before + peak + peak_after
                n_before, n_after = n_labels if t > first else 1, n_labels if t < last else 1
                values[i] += _pairs_by_products(top, n_before, n_after, powers[here], own, powers[there], weight, flows)
                _add_side(t, first, last, flows[0], gradient)
                _add_side(t + 1, first, last, flows[1], gradient)
                for y in range(n_labels):
                    gradient.emission[t, y] += np.sum(flows[0, :n_before, y])
            elif peak > -np.inf:
                values[i] += _add_pairs_in_logs(t, first, last, parts, weight, scratch, row, gradient)
            row[:] = 0.0
            _add_scores(t, first, last, parts, labels, True, row)
            values[i] -= row[labels[t]]
            row[:] = 0.0
            row[labels[t]] = -weight
            _add_gradient(t, first, last, row, labels, True, gradient)
