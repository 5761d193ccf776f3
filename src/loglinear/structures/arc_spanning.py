r"""Non-projective trees: the maximum spanning tree, and sums over all spanning trees.

**Best tree** (Chu & Liu 1965; Edmonds 1967; McDonald et al. 2005): every token takes its best head; a cycle, if one
results, becomes a single node, whose arcs from outside are worth what they gain over the cycle's own, and so on; then
the nodes are taken apart again, innermost last. O(n^3) at worst. A single root: arcs from the root lose more than all
the others together can gain, so that there is one of them if there can be.

**Sums** (matrix-tree theorem; Koo et al. 2007): Z is a determinant of the Laplacian of w(h, t) = exp s(h, t). It is
worked out by taking tokens away one by one, with nothing but sums, products and quotients of positive numbers, so that
no digits are lost (the idea of Grassmann, Taksar & Heyman 1985). Whoever had k as head gets the head of k::

    w(h, t)  <-  w(h, t) + w(h, k) w(k, t) / D_k          D_k = sum_h w(h, k) over the heads that are left
    Z = prod_k D_k

With a single root its arcs are of first order in a quantity that vanishes: they are left out of every D but the last,
which is made of nothing else. The probability of an arc is the derivative of log Z, found by going back. O(n^3).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.kernels import kernel

Numbers = npt.NDArray[Any]
Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


@kernel
def _cycle(best: Int64, active: npt.NDArray[np.bool_], members: Int64) -> int:
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
def _matrix_tree(arcs: Numbers, single_root: bool, factor: float, expected: Numbers, log_z: Numbers) -> None:
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
def sums(offsets: Int64, arcs: Numbers, single_root: bool, weights: Float, log_z: Numbers, expected: Numbers) -> None:
    """All sentences: ``log_z`` [S]; ``expected`` [A] times each weight [S], unless empty."""
    a = 0
    for s in range(offsets.shape[0] - 1):
        n = offsets[s + 1] - offsets[s]
        end = a + n * (n + 1)
        wanted = expected[a:end] if expected.shape[0] else expected[:0]
        block = wanted.reshape(n, n + 1) if expected.shape[0] else wanted.reshape(0, 1)
        _matrix_tree(arcs[a:end].reshape(n, n + 1), single_root, weights[s], block, log_z[s : s + 1])
        a = end
