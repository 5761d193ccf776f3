r"""Best trees: projective ones in O(n^3) (Eisner 1996), the k best of these, and trees whose arcs may cross.

Half trees over tokens i..j, whose head is at one end, are built from smaller ones::

      inc(i, j)    =  max_k  R(i, k) + L(k + 1, j)             i <= k < j      what lies between i and j, before the arc
      iR(i, j)     =  inc(i, j) + s(i, j),   iL(i, j) = inc(i, j) + s(j, i)     with the arc i -> j, or j -> i
      R(i, j)      =  max_k  iR(i, k) + R(k, j)                i < k <= j      i is the head
      L(i, j)      =  max_k  L(i, k) + iL(k, j)                i <= k < j      j is the head

           R            L            inc             iR             iL
          |\            /|        |\     /|       .--->.         .<---.
          | \          / |        | \   / |       |\   /|        |\   /|
          i  j        i  j        i       j       i     j        i     j

and the root's children stand side by side: D(j), tokens 0..j-1, is the best of D(k) + L(k, r) + s(root, r) +
R(r, j - 1). With a single root k is 0 and j is n. Every projective tree is built in exactly one way, so the same
equations give Z with sums instead of maxima (:mod:`~loglinear.structures.arcs.sums`), and the k best trees with lists
of k instead of maxima.

Items are stored by either end, so that maxima and sums run along rows: ``right[i, k]`` =
R(i, k) and ``right_end[j, k]`` = R(k, j); ``left[j, k]`` = L(k, j) and ``left_end[i, k]`` = L(i, k); ``to_right[i, k]``
= iR(i, k) and ``to_left[j, k]`` = iL(k, j).

Trees that need not be projective (Chu & Liu 1965; Edmonds 1967; McDonald et al. 2005): every token takes its best head.
If this makes a cycle, the cycle is contracted to a single node, an arc into it scores what it gains over the cycle's
arc that it replaces, and the search is repeated. At the end the nodes are expanded again, the last one first. O(n^3) at
worst. For a single root, arcs from the root are made worse by more than all other arcs together can gain, so that only
one is used if possible.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from loglinear.arrays import Array, Bool, Float, Int32, Int64
from loglinear.kernels import inlined_kernel, kernel

RIGHT, LEFT, BETWEEN = 0, 1, 2  # kinds of items: R, L and inc


class Sentences(NamedTuple):
    """Where the tokens and the arcs of S sentences begin, both int64 [S + 1]."""

    tokens: Int64
    arcs: Int64


@kernel
def block(arcs: Array, sentences: Sentences, s: int) -> Array:
    """The arcs [n, n + 1] of sentence ``s`` among all [A], a view; [0, 1] if there are none."""
    n = sentences.tokens[s + 1] - sentences.tokens[s]
    if arcs.shape[0] == 0:
        return arcs.reshape(0, 1)
    return arcs[sentences.arcs[s] : sentences.arcs[s + 1]].reshape(n, n + 1)


class Back(NamedTuple):
    """Back pointers of the k best of each item: triples of a split and two ranks.

    Parameters
    ----------
    items : int32 [3, n, n, k, 3]
        By kind, first and last token.
    forest : int32 [n + 1, k, 3]
        Of D(j): its last root child, and the ranks of ``child`` and of R.
    child : int32 [n, k, 3]
        Of root child r with everything to its left: where its half tree begins, and the ranks of D and of L.
    """

    items: Int32
    forest: Int32
    child: Int32


@kernel
def _new_back(n: int, k: int) -> Back:
    zeros = np.zeros((3, n, n, k, 3), np.int32)
    return Back(zeros, np.zeros((n + 1, k, 3), np.int32), np.zeros((n, k, 3), np.int32))


@inlined_kernel
def _push(stack: Int64, size: int, kind: int, first: int, last: int, rank: int) -> None:
    stack[size, 0], stack[size, 1], stack[size, 2], stack[size, 3] = kind, first, last, rank


@kernel
def _trace(back: Back, rank: int, heads: Int32) -> None:
    """Write the heads [n] of the tree with the given rank."""
    n = heads.shape[0]
    stack = np.empty((4 * n + 8, 4), np.int64)
    j = n
    while j > 0:
        r, of_child, of_right = back.forest[j, rank]
        begin, of_forest, of_left = back.child[r, of_child]
        heads[r] = 0
        _push(stack, 0, RIGHT, r, j - 1, of_right)
        _push(stack, 1, LEFT, begin, r, of_left)
        size = 2
        while size:
            size -= 1
            kind, first, last, place = stack[size]
            if first == last:
                continue
            split, one, two = back.items[kind, first, last, place]
            if kind == RIGHT:
                heads[split] = first + 1
                _push(stack, size, RIGHT, split, last, one)
                _push(stack, size + 1, BETWEEN, first, split, two)
            elif kind == LEFT:
                heads[split] = last + 1
                _push(stack, size, LEFT, first, split, one)
                _push(stack, size + 1, BETWEEN, split, last, two)
            else:
                _push(stack, size, RIGHT, first, split, one)
                _push(stack, size + 1, LEFT, split + 1, last, two)
            size += 2
        j, rank = begin, of_forest


@inlined_kernel
def _best_sum(first: Float, second: Float) -> tuple[float, int]:
    """The greatest first[k] + second[k], and the first k that attains it."""
    best, where = -np.inf, 0
    for k in range(first.shape[0]):
        value = first[k] + second[k]
        if value > best:
            best, where = value, k
    return best, where


@kernel
def _fill_half_trees(arcs: Float, splits: Int32) -> tuple[Float, Float]:
    """``right`` and ``left`` [n, n] of a sentence with arcs [n, n + 1]; writes ``splits`` [3, n, n]."""
    n = arcs.shape[0]
    right, right_end = np.full((n, n), -np.inf), np.full((n, n), -np.inf)
    left, left_end = np.full((n, n), -np.inf), np.full((n, n), -np.inf)
    to_right, to_left = np.full((n, n), -np.inf), np.full((n, n), -np.inf)
    for i in range(n):
        right[i, i] = right_end[i, i] = left[i, i] = left_end[i, i] = 0.0
    for width in range(1, n):
        for i in range(n - width):
            j = i + width
            best, k = _best_sum(right[i, i:j], left[j, i + 1 : j + 1])
            splits[BETWEEN, i, j] = i + k
            to_left[j, i] = best + arcs[i, j + 1]
            to_right[i, j] = best + arcs[j, i + 1]
            best, k = _best_sum(left_end[i, i:j], to_left[j, i:j])
            left[j, i] = left_end[i, j] = best
            splits[LEFT, i, j] = i + k
            best, k = _best_sum(to_right[i, i + 1 : j + 1], right_end[j, i + 1 : j + 1])
            right[i, j] = right_end[j, i] = best
            splits[RIGHT, i, j] = i + 1 + k
    return right, left


@kernel
def _projective_tree(arcs: Float, single_root: bool, heads: Int32) -> float:
    """The best tree of one sentence with arcs [n, n + 1] into ``heads`` [n]; returns its score, or -inf."""
    n = arcs.shape[0]
    back = _new_back(n, 1)
    right, left = _fill_half_trees(arcs, back.items[:, :, :, 0, 0])
    forest, child = np.full(n + 1, -np.inf), np.full(n, -np.inf)  # D, and root child r with everything to its left
    forest[0] = 0.0
    for j in range(1, n + 1):
        r = j - 1
        for k in range(1 if single_root else r + 1):
            value = forest[k] + left[r, k] + arcs[r, 0]
            if value > child[r]:
                child[r], back.child[r, 0, 0] = value, k
        if single_root and j < n:
            continue
        for r in range(j):
            value = child[r] + right[r, j - 1]
            if value > forest[j]:
                forest[j], back.forest[j, 0, 0] = value, r
    if forest[n] > -np.inf:
        _trace(back, 0, heads)
    return float(forest[n])


@kernel
def _merge(first: Float, second: Float, more: float, split: int, values: Float, back: Int32) -> None:
    """Merge the best sums of two lists into the list ``values``; all [k] in descending order, padded with -inf.

    ``back`` [k, 3] gets the split and the two ranks of each sum.
    """
    k = values.shape[0]
    for a in range(k):
        if first[a] == -np.inf:
            break
        for b in range(k // (a + 1)):
            value = first[a] + second[b] + more
            if value <= values[k - 1]:
                break
            place = k - 1
            while place > 0 and values[place - 1] < value:
                values[place] = values[place - 1]
                back[place] = back[place - 1]
                place -= 1
            values[place] = value
            back[place, 0], back[place, 1], back[place, 2] = split, a, b


@kernel
def k_best(arcs: Float, single_root: bool, heads: Int32, best: Float) -> int:
    """The best k trees of a sentence with arcs [n, n + 1] into ``heads`` [k, n] and ``best`` [k]; returns how many."""
    k, n = heads.shape
    values, back = np.full((3, n, n, k), -np.inf), _new_back(n, k)  # of R, L and inc, by [i, j]
    for i in range(n):
        values[RIGHT, i, i, 0] = values[LEFT, i, i, 0] = 0.0
    right, left, between = values[RIGHT], values[LEFT], values[BETWEEN]
    for width in range(1, n):
        for i in range(n - width):
            j = i + width
            for m in range(i, j):
                _merge(right[i, m], left[m + 1, j], 0.0, m, between[i, j], back.items[BETWEEN, i, j])
            for m in range(i, j):
                _merge(left[i, m], between[m, j], arcs[m, j + 1], m, left[i, j], back.items[LEFT, i, j])
            for m in range(i + 1, j + 1):
                _merge(right[m, j], between[i, m], arcs[m, i + 1], m, right[i, j], back.items[RIGHT, i, j])
    forest, child = np.full((n + 1, k), -np.inf), np.full((n, k), -np.inf)
    forest[0, 0] = 0.0
    for j in range(1, n + 1):
        r = j - 1
        for m in range(1 if single_root else r + 1):
            _merge(forest[m], left[m, r], arcs[r, 0], m, child[r], back.child[r])
        if single_root and j < n:
            continue
        for r in range(j):
            _merge(child[r], right[r, j - 1], 0.0, r, forest[j], back.forest[j])
    found = 0
    while found < k and forest[n, found] > -np.inf:
        best[found] = forest[n, found]
        _trace(back, found, heads[found])
        found += 1
    return found


# ----------------------------------------------------------------------------------------------------------------------
# Trees whose arcs may cross. Node 0 is the root, the others are tokens; a contracted cycle is represented by its first
# node.


@kernel
def _cycle(best: Int64, active: Bool, members: Int64) -> int:
    """Write a cycle of arcs ``best[v] -> v`` between active nodes except 0 to ``members``; its length, 0 if none."""
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
def _take_best_heads(scores: Float, active: Bool, best: Int64) -> bool:
    """Write the best head of each active node to ``best``; returns whether each has one."""
    for v in range(1, best.shape[0]):
        if not active[v]:
            continue
        top, head = -np.inf, -1
        for h in range(best.shape[0]):
            if active[h] and h != v and scores[h, v] > top:
                top, head = scores[h, v], h
        if head < 0:
            return False
        best[v] = head
    return True


@kernel
def _contract(
    cycle: Int64, inside: Bool, best: Int64, active: Bool, scores: Float, entered: Int64, left_by: Int64
) -> None:
    """Contract a cycle to its first node.

    ``entered`` [v] gets the member that an arc from v would enter, ``left_by`` [v] the member with the best arc to v.
    """
    node = cycle[0]
    into, out = np.full(best.shape[0], -np.inf), np.full(best.shape[0], -np.inf)
    for v in range(best.shape[0]):
        if not active[v] or inside[v]:
            continue
        for u in cycle:
            gain = scores[v, u] - scores[best[u], u]
            if gain > into[v]:
                into[v] = gain
                entered[v] = u
            if scores[u, v] > out[v]:
                out[v] = scores[u, v]
                left_by[v] = u
    for v in range(best.shape[0]):
        scores[v, node], scores[node, v] = into[v], out[v]
    for u in cycle[1:]:
        active[u] = False


@kernel
def _spanning_tree(arcs: Float, single_root: bool, heads: Int32) -> float:
    """As :func:`_projective_tree`, among all trees."""
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
    active, best, level = np.ones(n + 1, np.bool_), np.zeros(n + 1, np.int64), 0
    members, sizes = np.empty((n, n + 1), np.int64), np.zeros(n, np.int64)  # of the cycle of each level
    inside, inner_best = np.zeros((n, n + 1), np.bool_), np.zeros((n, n + 1), np.int64)
    entered, left_by = np.zeros((n, n + 1), np.int64), np.zeros((n, n + 1), np.int64)
    while True:
        if not _take_best_heads(scores, active, best):
            return -np.inf
        sizes[level] = _cycle(best, active, members[level])
        if sizes[level] == 0:
            break
        cycle = members[level, : sizes[level]]
        for u in cycle:
            inside[level, u], inner_best[level, u] = True, best[u]
        _contract(cycle, inside[level], best, active, scores, entered[level], left_by[level])
        level += 1
    for step in range(level - 1, -1, -1):
        cycle = members[step, : sizes[step]]
        node, head = cycle[0], best[cycle[0]]
        for u in cycle:
            active[u], best[u] = True, inner_best[step, u]
        best[entered[step, head]] = head
        for v in range(1, n + 1):
            if active[v] and not inside[step, v] and best[v] == node:
                best[v] = left_by[step, v]
    total, roots = 0.0, 0
    for t in range(n):
        heads[t] = best[t + 1]
        roots += heads[t] == 0
        total += arcs[t, heads[t]]
    return -np.inf if single_root and roots > 1 else total


@kernel
def viterbi(sentences: Sentences, arcs: Float, projective: bool, single_root: bool, heads: Int32, best: Float) -> int:
    """Best trees into ``heads`` [N], their scores into ``best`` [S]; the first sentence without a tree, or -1."""
    for s in range(best.shape[0]):
        tree, own_arcs = heads[sentences.tokens[s] : sentences.tokens[s + 1]], block(arcs, sentences, s)
        if projective:
            best[s] = _projective_tree(own_arcs, single_root, tree)
        else:
            best[s] = _spanning_tree(own_arcs, single_root, tree)
        if best[s] == -np.inf:
            return s
    return -1
