"""Sums over dependency trees: projective ones by dynamic programming, all of them by determinants.

Sums over all projective trees of a sentence: log Z and the probabilities of the arcs, in O(n^3).

The equations are Eisner's (:mod:`~loglinear.structures.arcs.best`) with sums for maxima; the probability of an arc is
the derivative of log Z by its score, found by going back over them (the outside pass; Paskin 2001).

:func:`scaled` works with exp(s(h, t) - max_h s(h, t)): each tree has one head for each t, so that this only takes a
constant off log Z. A sentence whose Z leaves the range of floats, or whose Z is so small that what was lost on the way
might matter, is left to :func:`in_logs`. Both run on real and on complex scores.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from loglinear.arrays import Array, Bool, Float, Int32, Int64, UInt8
from loglinear.kernels import kernel, loose_kernel
from loglinear.kernels.numbers import DONE, INFEASIBLE, NEEDS_LOG_SPACE, log_add, log_sum

LEAST, MOST = 1e-100, 1e250  # Z of a sentence that is done in scaled numbers
LONGEST = 200  # tokens of a sentence that is: trees may be as many as 6.75^n


@loose_kernel
def _scaled_sentence(
    arcs: Array, single_root: bool, factor: float, expected: Array, log_z: Array, status: UInt8
) -> None:
    """One sentence with arcs [n, n + 1]: ``log_z`` [1], ``expected`` [n, n + 1] unless empty, ``status`` [1]."""
    n = arcs.shape[0]
    weights = np.zeros_like(arcs)
    constant = 0.0
    for t in range(n):
        top = -np.inf
        for h in range(n + 1):
            if h != t + 1:
                top = max(top, arcs[t, h].real)
        if top == -np.inf:
            status[0] = INFEASIBLE
            return
        constant += top
        for h in range(n + 1):
            if h != t + 1 and arcs[t, h].real > -np.inf:
                weights[t, h] = np.exp(arcs[t, h] - top)
    right, right_end = np.zeros((n, n), arcs.dtype), np.zeros((n, n), arcs.dtype)
    left, left_end = np.zeros((n, n), arcs.dtype), np.zeros((n, n), arcs.dtype)
    to_right, to_left = np.zeros((n, n), arcs.dtype), np.zeros((n, n), arcs.dtype)
    nothing = np.zeros(1, arcs.dtype)[0]
    for i in range(n):
        right[i, i] = right_end[i, i] = left[i, i] = left_end[i, i] = 1.0
    for width in range(1, n):
        for i in range(n - width):
            j = i + width
            total = nothing
            row, other = right[i, i:j], left[j, i + 1 : j + 1]
            for k in range(width):
                total += row[k] * other[k]
            to_left[j, i] = total * weights[i, j + 1]
            to_right[i, j] = total * weights[j, i + 1]
            total = nothing
            row, other = left_end[i, i:j], to_left[j, i:j]
            for k in range(width):
                total += row[k] * other[k]
            left[j, i] = left_end[i, j] = total
            total = nothing
            row, other = to_right[i, i + 1 : j + 1], right_end[j, i + 1 : j + 1]
            for k in range(width):
                total += row[k] * other[k]
            right[i, j] = right_end[j, i] = total
    forest, child = np.zeros(n + 1, arcs.dtype), np.zeros(n, arcs.dtype)
    forest[0] = 1.0
    for j in range(1, n + 1):
        total = nothing
        for k in range(1 if single_root else j):
            total += forest[k] * left[j - 1, k]
        child[j - 1] = total * weights[j - 1, 0]
        if not single_root or j == n:
            total = nothing
            for r in range(j):
                total += child[r] * right[r, j - 1]
            forest[j] = total
    z = forest[n]
    if not (LEAST < z.real < MOST):
        status[0] = NEEDS_LOG_SPACE
        return
    status[0] = DONE
    log_z[0] = np.log(z) + constant
    if expected.shape[0] == 0:
        return
    d_right, d_right_end = np.zeros((n, n), arcs.dtype), np.zeros((n, n), arcs.dtype)
    d_left, d_left_end = np.zeros((n, n), arcs.dtype), np.zeros((n, n), arcs.dtype)
    d_to_right, d_to_left = np.zeros((n, n), arcs.dtype), np.zeros((n, n), arcs.dtype)
    d_forest, d_child = np.zeros(n + 1, arcs.dtype), np.zeros(n, arcs.dtype)
    d_forest[n] = factor / z
    for j in range(n, 0, -1):
        if not single_root or j == n:
            for r in range(j):
                d_child[r] += d_forest[j] * right[r, j - 1]
                d_right[r, j - 1] += d_forest[j] * child[r]
        expected[j - 1, 0] += d_child[j - 1] * child[j - 1]
        change = d_child[j - 1] * weights[j - 1, 0]
        for k in range(1 if single_root else j):
            d_forest[k] += change * left[j - 1, k]
            d_left[j - 1, k] += change * forest[k]
    for width in range(n - 1, 0, -1):
        for i in range(n - width):
            j = i + width
            change = d_left[j, i] + d_left_end[i, j]
            row, other, d_row, d_other = left_end[i, i:j], to_left[j, i:j], d_left_end[i, i:j], d_to_left[j, i:j]
            for k in range(width):
                d_row[k] += change * other[k]
                d_other[k] += change * row[k]
            change = d_right[i, j] + d_right_end[j, i]
            row, other = to_right[i, i + 1 : j + 1], right_end[j, i + 1 : j + 1]
            d_row, d_other = d_to_right[i, i + 1 : j + 1], d_right_end[j, i + 1 : j + 1]
            for k in range(width):
                d_row[k] += change * other[k]
                d_other[k] += change * row[k]
            expected[i, j + 1] += d_to_left[j, i] * to_left[j, i]
            expected[j, i + 1] += d_to_right[i, j] * to_right[i, j]
            change = d_to_left[j, i] * weights[i, j + 1] + d_to_right[i, j] * weights[j, i + 1]
            row, other = right[i, i:j], left[j, i + 1 : j + 1]
            d_row, d_other = d_right[i, i:j], d_left[j, i + 1 : j + 1]
            for k in range(width):
                d_row[k] += change * other[k]
                d_other[k] += change * row[k]


@loose_kernel
def scaled(
    offsets: Int64,
    arcs: Array,
    single_root: bool,
    weights: Float,
    log_z: Array,
    status: UInt8,
    expected: Array,
) -> None:
    """All sentences: ``log_z`` [S] and ``status`` [S]; ``expected`` [A] times each weight [S], unless empty."""
    a = 0
    for s in range(offsets.shape[0] - 1):
        n = offsets[s + 1] - offsets[s]
        end = a + n * (n + 1)
        wanted = expected[a:end] if expected.shape[0] else expected[:0]
        if n > LONGEST:
            status[s] = NEEDS_LOG_SPACE
        else:
            block = wanted.reshape(n, n + 1) if expected.shape[0] else wanted.reshape(0, 1)
            _scaled_sentence(
                arcs[a:end].reshape(n, n + 1), single_root, weights[s], block, log_z[s : s + 1], status[s : s + 1]
            )
        a = end


@kernel
def _share(first: Array, second: Array, whole: Any, d_whole: Any, d_first: Array, d_second: Array) -> None:
    """Give each term of a :func:`~loglinear.kernels.numbers.log_sum` its share of the probability ``d_whole``."""
    for k in range(first.shape[0]):
        if first[k].real > -np.inf and second[k].real > -np.inf:
            part = d_whole * np.exp(first[k] + second[k] - whole)
            d_first[k] += part
            d_second[k] += part


@kernel
def _log_sentence(arcs: Array, single_root: bool, factor: float, expected: Array, log_z: Array, status: UInt8) -> None:
    """As :func:`_scaled_sentence`; what is kept of each half tree is its log and its probability."""
    n = arcs.shape[0]
    nothing = np.zeros(1, arcs.dtype)[0]
    minus = nothing - np.inf
    right, right_end = np.full((n, n), minus), np.full((n, n), minus)
    left, left_end = np.full((n, n), minus), np.full((n, n), minus)
    to_right, to_left = np.full((n, n), minus), np.full((n, n), minus)
    between = np.full((n, n), minus)
    for i in range(n):
        right[i, i] = right_end[i, i] = left[i, i] = left_end[i, i] = 0.0
    for width in range(1, n):
        for i in range(n - width):
            j = i + width
            between[i, j] = log_sum(right[i, i:j], left[j, i + 1 : j + 1], nothing)
            if between[i, j].real > -np.inf:
                if arcs[i, j + 1].real > -np.inf:
                    to_left[j, i] = between[i, j] + arcs[i, j + 1]
                if arcs[j, i + 1].real > -np.inf:
                    to_right[i, j] = between[i, j] + arcs[j, i + 1]
            left[j, i] = left_end[i, j] = log_sum(left_end[i, i:j], to_left[j, i:j], nothing)
            right[i, j] = right_end[j, i] = log_sum(to_right[i, i + 1 : j + 1], right_end[j, i + 1 : j + 1], nothing)
    forest, child = np.full(n + 1, minus), np.full(n, minus)
    before = np.full(n, minus)
    ending = np.full((n + 1, n), minus)
    forest[0] = 0.0
    for j in range(1, n + 1):
        most = 1 if single_root else j
        before[j - 1] = log_sum(forest[:most], left[j - 1, :most], nothing)
        if before[j - 1].real > -np.inf and arcs[j - 1, 0].real > -np.inf:
            child[j - 1] = before[j - 1] + arcs[j - 1, 0]
        if not single_root or j == n:
            for r in range(j):
                ending[j, r] = right[r, j - 1]
            forest[j] = log_sum(child[:j], ending[j, :j], nothing)
    log_z[0] = forest[n]
    status[0] = DONE if forest[n].real > -np.inf else INFEASIBLE
    if status[0] == INFEASIBLE or expected.shape[0] == 0:
        return
    d_right, d_right_end = np.zeros((n, n), arcs.dtype), np.zeros((n, n), arcs.dtype)
    d_left, d_left_end = np.zeros((n, n), arcs.dtype), np.zeros((n, n), arcs.dtype)
    d_to_right, d_to_left = np.zeros((n, n), arcs.dtype), np.zeros((n, n), arcs.dtype)
    d_forest, d_child = np.zeros(n + 1, arcs.dtype), np.zeros(n, arcs.dtype)
    d_ending = np.zeros(n, arcs.dtype)
    d_forest[n] = factor
    for j in range(n, 0, -1):
        if not single_root or j == n:
            d_ending[:] = 0.0
            _share(child[:j], ending[j, :j], forest[j], d_forest[j], d_child[:j], d_ending[:j])
            for r in range(j):
                d_right[r, j - 1] += d_ending[r]
        expected[j - 1, 0] += d_child[j - 1]
        most = 1 if single_root else j
        _share(forest[:most], left[j - 1, :most], before[j - 1], d_child[j - 1], d_forest[:most], d_left[j - 1, :most])
    for width in range(n - 1, 0, -1):
        for i in range(n - width):
            j = i + width
            change = d_left[j, i] + d_left_end[i, j]
            _share(left_end[i, i:j], to_left[j, i:j], left[j, i], change, d_left_end[i, i:j], d_to_left[j, i:j])
            change = d_right[i, j] + d_right_end[j, i]
            _share(
                to_right[i, i + 1 : j + 1], right_end[j, i + 1 : j + 1], right[i, j], change,
                d_to_right[i, i + 1 : j + 1], d_right_end[j, i + 1 : j + 1],
            )  # fmt: skip
            expected[i, j + 1] += d_to_left[j, i]
            expected[j, i + 1] += d_to_right[i, j]
            change = d_to_left[j, i] + d_to_right[i, j]
            _share(
                right[i, i:j], left[j, i + 1 : j + 1], between[i, j], change, d_right[i, i:j], d_left[j, i + 1 : j + 1]
            )


@kernel
def in_logs(
    offsets: Int64,
    chosen: Int64,
    arcs: Array,
    single_root: bool,
    weights: Float,
    log_z: Array,
    status: UInt8,
    expected: Array,
) -> None:
    """The ``chosen`` sentences in log space; arguments as for :func:`scaled`."""
    for i in range(chosen.shape[0]):
        s = chosen[i]
        a = 0
        for before in range(s):
            n = offsets[before + 1] - offsets[before]
            a += n * (n + 1)
        n = offsets[s + 1] - offsets[s]
        end = a + n * (n + 1)
        wanted = expected[a:end] if expected.shape[0] else expected[:0]
        block = wanted.reshape(n, n + 1) if expected.shape[0] else wanted.reshape(0, 1)
        _log_sentence(
            arcs[a:end].reshape(n, n + 1), single_root, weights[s], block, log_z[s : s + 1], status[s : s + 1]
        )


# ----------------------------------------------------------------------------------------------------------------------
# Non-projective trees: the maximum spanning tree, and sums over all spanning trees.
#
# **Best tree** (Chu & Liu 1965; Edmonds 1967; McDonald et al. 2005): every token takes its best head; a cycle, if one
# results, becomes a single node, whose arcs from outside are worth what they gain over the cycle's own, and so on; then
# the nodes are taken apart again, innermost last. O(n^3) at worst. A single root: arcs from the root lose more than all
# the others together can gain, so that there is one of them if there can be.
#
# **Sums** (matrix-tree theorem; Koo et al. 2007): Z is a determinant of the Laplacian of w(h, t) = exp s(h, t). It is
# worked out by taking tokens away one by one, with nothing but sums, products and quotients of positive numbers, so
# that no digits are lost (the idea of Grassmann, Taksar & Heyman 1985). Whoever had k as head gets the head of k::
#
#     w(h, t)  <-  w(h, t) + w(h, k) w(k, t) / D_k          D_k = sum_h w(h, k) over the heads that are left
#     Z = prod_k D_k
#
# With a single root its arcs are of first order in a quantity that vanishes: they are left out of every D but the last,
# which is made of nothing else. The probability of an arc is the derivative of log Z, found by going back. O(n^3).


@kernel
def _cycle(best: Int64, active: Bool, members: Int64) -> int:
    """A cycle of the arcs ``best[v] -> v`` among the active nodes but 0 into ``members``; its length, 0 if none."""
    n = best.shape[0]
    walk = np.zeros(n, np.int64)
    for start in range(1, n):
        if not active[start] or walk[start]:
            continue
        now = start
        while now != 0 and walk[now] == 0:
            walk[now] = start
            now = best[now]
        if now != 0 and walk[now] == start:
            size, first = 0, now
            while size == 0 or now != first:
                members[size] = now
                size += 1
                now = best[now]
            return size
    return 0


@kernel
def _spanning_tree(arcs: Float, single_root: bool, heads: Int32) -> float:
    """The best tree of one sentence with arcs [n, n + 1] into ``heads`` [n]; its score, -inf if there is none."""
    n = arcs.shape[0]
    scores = np.full((n + 1, n + 1), -np.inf)  # from head to child
    low, high = np.inf, -np.inf
    for t in range(n):
        for h in range(n + 1):
            if h != t + 1 and arcs[t, h] > -np.inf:
                scores[h, t + 1] = arcs[t, h]
                low, high = min(low, arcs[t, h]), max(high, arcs[t, h])
    if low == np.inf:
        return -np.inf
    if single_root:
        for t in range(n):
            scores[0, t + 1] -= (n + 1) * (high - low) + 1.0
    active = np.ones(n + 1, np.bool_)
    best = np.zeros(n + 1, np.int64)
    members = np.empty((n, n + 1), np.int64)
    sizes = np.zeros(n, np.int64)
    inner_best = np.zeros((n, n + 1), np.int64)
    entered = np.zeros((n, n + 1), np.int64)  # [level, v]: the node of the cycle that an arc from v would enter
    left_by = np.zeros((n, n + 1), np.int64)  # [level, v]: the node of the cycle whose arc to v is best
    level = 0
    while True:
        for v in range(1, n + 1):
            if not active[v]:
                continue
            top, at = -np.inf, -1
            for h in range(n + 1):
                if active[h] and h != v and scores[h, v] > top:
                    top, at = scores[h, v], h
            if at < 0:
                return -np.inf
            best[v] = at
        size = _cycle(best, active, members[level])
        if size == 0:
            break
        sizes[level] = size
        cycle = members[level, :size]
        inside = np.zeros(n + 1, np.bool_)
        for c in range(size):
            inside[cycle[c]] = True
            inner_best[level, cycle[c]] = best[cycle[c]]
        node = cycle[0]
        into, out = np.full(n + 1, -np.inf), np.full(n + 1, -np.inf)
        for v in range(n + 1):
            if not active[v] or inside[v]:
                continue
            for c in range(size):
                u = cycle[c]
                gain = scores[v, u] - scores[best[u], u]
                if gain > into[v]:
                    into[v] = gain
                    entered[level, v] = u
                if scores[u, v] > out[v]:
                    out[v] = scores[u, v]
                    left_by[level, v] = u
        for v in range(n + 1):
            scores[v, node], scores[node, v] = into[v], out[v]
        for c in range(1, size):
            active[cycle[c]] = False
        level += 1
    for step in range(level - 1, -1, -1):
        cycle = members[step, : sizes[step]]
        node, head = cycle[0], best[cycle[0]]
        for c in range(1, sizes[step]):
            active[cycle[c]] = True
        inside = np.zeros(n + 1, np.bool_)
        for c in range(sizes[step]):
            inside[cycle[c]] = True
            best[cycle[c]] = inner_best[step, cycle[c]]
        best[entered[step, head]] = head
        for v in range(1, n + 1):
            if active[v] and not inside[v] and best[v] == node:
                best[v] = left_by[step, v]
    total, roots = 0.0, 0
    for t in range(n):
        heads[t] = best[t + 1]
        roots += heads[t] == 0
        total += arcs[t, heads[t]]
    if single_root and roots > 1:
        return -np.inf
    return total


@kernel
def viterbi(offsets: Int64, arcs: Float, single_root: bool, heads: Int32, best: Float) -> int:
    """Best trees into ``heads`` [N], their scores into ``best`` [S]; the first sentence without one, or -1."""
    a = 0
    for s in range(offsets.shape[0] - 1):
        n = offsets[s + 1] - offsets[s]
        block = arcs[a : a + n * (n + 1)].reshape(n, n + 1)
        best[s] = _spanning_tree(block, single_root, heads[offsets[s] : offsets[s + 1]])
        if best[s] == -np.inf:
            return s
        a += n * (n + 1)
    return -1


@kernel
def _matrix_tree(arcs: Array, single_root: bool, factor: float, expected: Array, log_z: Array) -> None:
    """One sentence with arcs [n, n + 1]: ``log_z`` [1], and ``expected`` [n, n + 1] times ``factor`` unless empty."""
    n = arcs.shape[0]
    nothing = np.zeros(1, arcs.dtype)[0]
    between, from_root = np.zeros((n, n), arcs.dtype), np.zeros(n, arcs.dtype)  # w(h, t), w(root, t)
    constant, of_roots = 0.0, -np.inf
    tops = np.zeros(n)
    for t in range(n):
        top = -np.inf if single_root else arcs[t, 0].real
        for h in range(n):
            if h != t:
                top = max(top, arcs[t, h + 1].real)
        tops[t] = top if top > -np.inf else 0.0
        constant += tops[t]
        of_roots = max(of_roots, arcs[t, 0].real - tops[t])
    if of_roots == -np.inf:
        log_z[0] = nothing - np.inf
        return
    if single_root:
        constant += of_roots
    else:
        of_roots = 0.0
    for t in range(n):
        for h in range(n):
            if h != t and arcs[t, h + 1].real > -np.inf:
                between[h, t] = np.exp(arcs[t, h + 1] - tops[t])
        if arcs[t, 0].real > -np.inf:
            from_root[t] = np.exp(arcs[t, 0] - tops[t] - of_roots)
    order, pivots = np.arange(n), np.zeros(n, arcs.dtype)
    log_all = nothing
    for place in range(n):
        chosen, largest = place, -1.0  # the token with the likeliest heads is taken away next
        for other in range(place, n):
            total = nothing if single_root else from_root[order[other]]
            for h in range(place, n):
                total += between[order[h], order[other]]
            if total.real > largest:
                chosen, largest = other, total.real
                pivots[place] = total
        k = order[chosen]
        order[chosen], order[place] = order[place], k
        if single_root and place == n - 1:
            pivots[place] = from_root[k]
        if not pivots[place].real > 0.0:
            log_z[0] = nothing - np.inf
            return
        log_all += np.log(pivots[place])
        for at in range(place + 1, n):
            t = order[at]
            ratio = between[k, t] / pivots[place]
            from_root[t] += from_root[k] * ratio
            for other in range(place + 1, n):
                if other != at:
                    between[order[other], t] += between[order[other], k] * ratio
    log_z[0] = log_all + constant
    if expected.shape[0] == 0:
        return
    d_between, d_from_root = np.zeros((n, n), arcs.dtype), np.zeros(n, arcs.dtype)
    for place in range(n - 1, -1, -1):
        k, pivot = order[place], pivots[place]
        if single_root and place == n - 1:
            d_from_root[k] = factor / pivot
            continue
        from_k = nothing  # the derivative by the root's arc to k, but for the pivot
        lost = nothing
        for at in range(place + 1, n):
            from_k += d_from_root[order[at]] * between[k, order[at]]
        lost += from_root[k] * from_k
        for other in range(place + 1, n):
            h = order[other]
            total = nothing
            for at in range(place + 1, n):
                if at != other:
                    total += d_between[h, order[at]] * between[k, order[at]]
            d_between[h, k] = total / pivot
            lost += between[h, k] * total
        d_pivot = factor / pivot - lost / (pivot * pivot)
        d_from_root[k] = from_k / pivot
        if not single_root:
            d_from_root[k] += d_pivot
        for other in range(place + 1, n):
            d_between[order[other], k] += d_pivot
        for at in range(place + 1, n):
            t = order[at]
            total = d_from_root[t] * from_root[k]
            for other in range(place + 1, n):
                if other != at:
                    total += d_between[order[other], t] * between[order[other], k]
            d_between[k, t] = total / pivot
    for t in range(n):
        if arcs[t, 0].real > -np.inf:
            expected[t, 0] = d_from_root[t] * np.exp(arcs[t, 0] - tops[t] - of_roots)
        for h in range(n):
            if h != t and arcs[t, h + 1].real > -np.inf:
                expected[t, h + 1] = d_between[h, t] * np.exp(arcs[t, h + 1] - tops[t])


@kernel
def spanning_sums(
    offsets: Int64, arcs: Array, single_root: bool, weights: Float, log_z: Array, expected: Array
) -> None:
    """All sentences: ``log_z`` [S]; ``expected`` [A] times each weight [S], unless empty."""
    a = 0
    for s in range(offsets.shape[0] - 1):
        n = offsets[s + 1] - offsets[s]
        end = a + n * (n + 1)
        wanted = expected[a:end] if expected.shape[0] else expected[:0]
        block = wanted.reshape(n, n + 1) if expected.shape[0] else wanted.reshape(0, 1)
        _matrix_tree(arcs[a:end].reshape(n, n + 1), single_root, weights[s], block, log_z[s : s + 1])
        a = end


# ----------------------------------------------------------------------------------------------------------------------
# Sums over all spanning trees in log space, for the sentences whose sums leave the range of floats.
#
# The equations are those of :func:`spanning_sums`; as they have no differences, they hold for logs::
#
#     l(h, t)  <-  log( e^l(h, t) + e^(l(h, k) + l(k, t) - d_k) )      d_k = log sum_h e^l(h, k)      log Z = sum_k d_k
#
# Going back, with G(h, t) >= 0 the derivative of log Z by w(h, t) and T_h = sum_t G(h, t) w(k, t)::
#
#   G(h, k) = (1 + T_h - mean T) / D_k,      mean T = sum_h w(h, k) T_h / D_k        (+ 0 for the root, if it is single)
#   G(k, t) = sum_h G(h, t) w(h, k) / D_k
#
# all of them kept as logs. Several times slower than plain numbers.


@kernel
def _log_excess(log_t: float, mean: float, has_pivot: bool) -> float:
    """log(1 + T - mean T), at least 0, or log T if the pivot has no share in it."""
    if not has_pivot:
        return log_t
    if log_t > 600.0:
        return log_t  # whatever else there is, is nothing beside it
    value = 1.0 + np.exp(log_t) - mean
    return np.log(value) if value > 0.0 else -np.inf


@kernel
def _matrix_tree_in_logs(arcs: Float, single_root: bool, factor: float, expected: Float, log_z: Float) -> None:
    """One sentence with arcs [n, n + 1]; head n of the tables is the root."""
    n = arcs.shape[0]
    logs = np.full((n + 1, n), -np.inf)
    for t in range(n):
        logs[n, t] = arcs[t, 0]
        for h in range(n):
            if h != t:
                logs[h, t] = arcs[t, h + 1]
    given = logs.copy()
    order, pivots = np.arange(n), np.zeros(n)
    total = 0.0
    for place in range(n):
        chosen, largest = place, -np.inf
        for other in range(place, n):
            t = order[other]
            own = -np.inf if single_root else logs[n, t]
            for at in range(place, n):
                own = log_add(own, logs[order[at], t])
            if own > largest:
                chosen, largest = other, own
        k = order[chosen]
        order[chosen], order[place] = order[place], k
        pivots[place] = logs[n, k] if single_root and place == n - 1 else largest
        if pivots[place] == -np.inf:
            log_z[0] = -np.inf
            return
        total += pivots[place]
        for at in range(place + 1, n):
            t = order[at]
            share = logs[k, t] - pivots[place]
            if share == -np.inf:
                continue
            logs[n, t] = log_add(logs[n, t], logs[n, k] + share)
            for other in range(place + 1, n):
                if other != at:
                    logs[order[other], t] = log_add(logs[order[other], t], logs[order[other], k] + share)
    log_z[0] = total
    if expected.shape[0] == 0:
        return
    back = np.full((n + 1, n), -np.inf)  # log G
    for place in range(n - 1, -1, -1):
        k, pivot = order[place], pivots[place]
        if single_root and place == n - 1:
            back[n, k] = -pivot
            continue
        log_t, mean = np.full(n + 1, -np.inf), 0.0
        for other in range(place, n):  # the root stands for k itself
            h = n if other == place else order[other]
            for at in range(place + 1, n):
                if at != other:
                    log_t[h] = log_add(float(log_t[h]), back[h, order[at]] + logs[k, order[at]])
            mean += np.exp(logs[h, k] + log_t[h] - pivot)
        for other in range(place, n):
            h = n if other == place else order[other]
            back[h, k] = _log_excess(float(log_t[h]), mean, h != n or not single_root) - pivot
        for at in range(place + 1, n):
            t = order[at]
            for other in range(place, n):
                h = n if other == place else order[other]
                if other != at:
                    back[k, t] = log_add(back[k, t], back[h, t] + logs[h, k] - pivot)
    for t in range(n):
        for h in range(n + 1):
            if given[h, t] > -np.inf:
                expected[t, 0 if h == n else h + 1] = factor * np.exp(back[h, t] + given[h, t])


@kernel
def spanning_sums_in_logs(
    offsets: Int64,
    arc_offsets: Int64,
    chosen: Int64,
    arcs: Float,
    single_root: bool,
    weights: Float,
    log_z: Float,
    expected: Float,
) -> None:
    """The ``chosen`` sentences: ``log_z`` [S]; ``expected`` [A] times each weight [S], unless empty."""
    for i in range(chosen.shape[0]):
        s = chosen[i]
        n, a, end = offsets[s + 1] - offsets[s], arc_offsets[s], arc_offsets[s + 1]
        wanted = expected[a:end] if expected.shape[0] else expected[:0]
        block = wanted.reshape(n, n + 1) if expected.shape[0] else wanted.reshape(0, 1)
        _matrix_tree_in_logs(arcs[a:end].reshape(n, n + 1), single_root, weights[s], block, log_z[s : s + 1])
