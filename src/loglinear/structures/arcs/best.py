r"""The best projective trees of a sentence, in O(n^3): Eisner (1996), and their k best.

Half trees over tokens i..j, the head at one end, are made of others::

      inc(i, j)    =  max_k  R(i, k) + L(k + 1, j)             i <= k < j      what lies between i and j, before the arc
      iR(i, j)     =  inc(i, j) + s(i, j),   iL(i, j) = inc(i, j) + s(j, i)     with the arc i -> j, or j -> i
      R(i, j)      =  max_k  iR(i, k) + R(k, j)                i < k <= j      i is the head
      L(i, j)      =  max_k  L(i, k) + iL(k, j)                i <= k < j      j is the head

and the root takes them side by side: D(j), tokens 0..j-1, is the best of D(k) + L(k, r) + s(root, r) + R(r, j - 1).
With a single root k is 0 and j is n. Every projective tree is made in exactly one way, so that the same equations with
sums for maxima give Z (:mod:`~loglinear.structures.arcs.sums`), and lists of k for maxima the k best.

Arrays whose second index is summed over are kept by both ends: ``right[i, k]`` = R(i, k) and ``right_end[j, k]`` =
R(k, j); ``left[j, k]`` = L(k, j) and ``left_end[i, k]`` = L(i, k).
"""

from __future__ import annotations

import numpy as np

from loglinear.arrays import Float, Int32, Int64
from loglinear.kernels import kernel

RIGHT, LEFT, RIGHT_ARC, LEFT_ARC = 0, 1, 2, 3  # kinds of half trees


@kernel
def _best_tree(arcs: Float, single_root: bool, heads: Int32) -> float:
    """The best tree of one sentence with arcs [n, n + 1] into ``heads`` [n]; its score, -inf if there is none."""
    n = arcs.shape[0]
    right, right_end = np.full((n, n), -np.inf), np.full((n, n), -np.inf)
    left, left_end = np.full((n, n), -np.inf), np.full((n, n), -np.inf)
    to_right, to_left = np.full((n, n), -np.inf), np.full((n, n), -np.inf)  # iR[i, j], iL[j, i]
    splits = np.zeros((4, n, n), np.int32)
    for i in range(n):
        right[i, i] = right_end[i, i] = left[i, i] = left_end[i, i] = 0.0
    for width in range(1, n):
        for i in range(n - width):
            j = i + width
            best, at = -np.inf, i
            row, other = right[i], left[j]
            for k in range(i, j):
                value = row[k] + other[k + 1]
                if value > best:
                    best, at = value, k
            splits[RIGHT_ARC, i, j] = at
            to_left[j, i] = best + arcs[i, j + 1]
            to_right[i, j] = best + arcs[j, i + 1]
            best, at = -np.inf, i
            row, other = left_end[i], to_left[j]
            for k in range(i, j):
                value = row[k] + other[k]
                if value > best:
                    best, at = value, k
            left[j, i] = left_end[i, j] = best
            splits[LEFT, i, j] = at
            best, at = -np.inf, j
            row, other = to_right[i], right_end[j]
            for k in range(i + 1, j + 1):
                value = row[k] + other[k]
                if value > best:
                    best, at = value, k
            right[i, j] = right_end[j, i] = best
            splits[RIGHT, i, j] = at
    forest, forest_at = np.full(n + 1, -np.inf), np.zeros(n + 1, np.int32)  # D, and its last root child
    child, child_at = (
        np.full(n, -np.inf),
        np.zeros(n, np.int32),
    )  # root child r with all to its left, and where it began
    forest[0] = 0.0
    for j in range(1, n + 1):
        r = j - 1
        for k in range(1 if single_root else r + 1):
            value = forest[k] + left[r, k] + arcs[r, 0]
            if value > child[r]:
                child[r], child_at[r] = value, k
        if single_root and j < n:
            continue
        for r in range(j):
            value = child[r] + right[r, j - 1]
            if value > forest[j]:
                forest[j], forest_at[j] = value, r
    if forest[n] == -np.inf:
        return -np.inf
    stack = np.empty((4 * n + 8, 3), np.int64)
    j = n
    while j > 0:
        r = int(forest_at[j])
        heads[r] = 0
        stack[0, 0], stack[0, 1], stack[0, 2] = RIGHT, r, j - 1
        stack[1, 0], stack[1, 1], stack[1, 2] = LEFT, child_at[r], r
        size = 2
        while size:
            size -= 1
            kind, first, last = stack[size]
            if first == last:
                continue
            if kind == RIGHT:
                k = splits[RIGHT, first, last]
                stack[size, 0], stack[size, 1], stack[size, 2] = RIGHT, k, last
                stack[size + 1, 0], stack[size + 1, 1], stack[size + 1, 2] = RIGHT_ARC, first, k
            elif kind == LEFT:
                k = splits[LEFT, first, last]
                stack[size, 0], stack[size, 1], stack[size, 2] = LEFT, first, k
                stack[size + 1, 0], stack[size + 1, 1], stack[size + 1, 2] = LEFT_ARC, k, last
            else:
                if kind == RIGHT_ARC:
                    heads[last] = first + 1
                else:
                    heads[first] = last + 1
                k = splits[RIGHT_ARC, first, last]
                stack[size, 0], stack[size, 1], stack[size, 2] = RIGHT, first, k
                stack[size + 1, 0], stack[size + 1, 1], stack[size + 1, 2] = LEFT, k + 1, last
            size += 2
        j = int(child_at[r])
    return float(forest[n])


@kernel
def viterbi(offsets: Int64, arcs: Float, single_root: bool, heads: Int32, best: Float) -> int:
    """Best trees into ``heads`` [N], their scores into ``best`` [S]; the first sentence without one, or -1."""
    a = 0
    for s in range(offsets.shape[0] - 1):
        n = offsets[s + 1] - offsets[s]
        block = arcs[a : a + n * (n + 1)].reshape(n, n + 1)
        best[s] = _best_tree(block, single_root, heads[offsets[s] : offsets[s + 1]])
        if best[s] == -np.inf:
            return s
        a += n * (n + 1)
    return -1


@kernel
def _merge(
    first: Float,
    n_first: int,
    second: Float,
    n_second: int,
    more: float,
    split: int,
    values: Float,
    back: Int32,
    found: int,
) -> int:
    """Take the best sums of two descending lists into the descending list ``values`` [k]; its new length.

    ``back`` [k, 3] says of each sum the split and both ranks.
    """
    k = values.shape[0]
    for a in range(n_first):
        if first[a] == -np.inf:
            break
        for b in range(n_second):
            if (a + 1) * (b + 1) > k or second[b] == -np.inf:
                break
            value = first[a] + second[b] + more
            if value == -np.inf or (found == k and value <= values[k - 1]):
                break
            place = found if found < k else k - 1
            while place > 0 and values[place - 1] < value:
                values[place] = values[place - 1]
                back[place] = back[place - 1]
                place -= 1
            values[place] = value
            back[place, 0], back[place, 1], back[place, 2] = split, a, b
            found = min(found + 1, k)
    return found


@kernel
def k_best(arcs: Float, single_root: bool, heads: Int32, best: Float) -> int:
    """The best k trees of a sentence with arcs [n, n + 1] into ``heads`` [k, n] and ``best`` [k]; how many."""
    k, n = heads.shape
    values = np.full((3, n, n, k), -np.inf)  # of RIGHT and LEFT trees and of what is between two tokens, by [i, j]
    back = np.zeros((3, n, n, k, 3), np.int32)
    counts = np.zeros((3, n, n), np.int64)
    for i in range(n):
        for kind in (RIGHT, LEFT):
            values[kind, i, i, 0] = 0.0
            counts[kind, i, i] = 1
    for width in range(1, n):
        for i in range(n - width):
            j = i + width
            for at in range(i, j):
                counts[2, i, j] = _merge(
                    values[RIGHT, i, at], counts[RIGHT, i, at], values[LEFT, at + 1, j], counts[LEFT, at + 1, j], 0.0,
                    at, values[2, i, j], back[2, i, j], counts[2, i, j],
                )  # fmt: skip
            for at in range(i, j):
                counts[LEFT, i, j] = _merge(
                    values[LEFT, i, at], counts[LEFT, i, at], values[2, at, j], counts[2, at, j], arcs[at, j + 1],
                    at, values[LEFT, i, j], back[LEFT, i, j], counts[LEFT, i, j],
                )  # fmt: skip
            for at in range(i + 1, j + 1):
                counts[RIGHT, i, j] = _merge(
                    values[RIGHT, at, j], counts[RIGHT, at, j], values[2, i, at], counts[2, i, at], arcs[at, i + 1],
                    at, values[RIGHT, i, j], back[RIGHT, i, j], counts[RIGHT, i, j],
                )  # fmt: skip
    forest, forest_back, n_forest = (
        np.full((n + 1, k), -np.inf),
        np.zeros((n + 1, k, 3), np.int32),
        np.zeros(n + 1, np.int64),
    )
    child, child_back, n_child = np.full((n, k), -np.inf), np.zeros((n, k, 3), np.int32), np.zeros(n, np.int64)
    forest[0, 0], n_forest[0] = 0.0, 1
    for j in range(1, n + 1):
        r = j - 1
        for at in range(1 if single_root else r + 1):
            n_child[r] = _merge(
                forest[at], n_forest[at], values[LEFT, at, r], counts[LEFT, at, r], arcs[r, 0],
                at, child[r], child_back[r], n_child[r],
            )  # fmt: skip
        if single_root and j < n:
            continue
        for r in range(j):
            n_forest[j] = _merge(
                child[r], n_child[r], values[RIGHT, r, j - 1], counts[RIGHT, r, j - 1], 0.0,
                r, forest[j], forest_back[j], n_forest[j],
            )  # fmt: skip
    stack = np.empty((4 * n + 8, 4), np.int64)
    for rank in range(n_forest[n]):
        best[rank] = forest[n, rank]
        j, own = n, rank
        while j > 0:
            r, of_child, of_right = forest_back[j, own]
            at, of_forest, of_left = child_back[r, of_child]
            heads[rank, r] = 0
            stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = RIGHT, r, j - 1, of_right
            stack[1, 0], stack[1, 1], stack[1, 2], stack[1, 3] = LEFT, at, r, of_left
            size = 2
            while size:
                size -= 1
                kind, i, last, place = stack[size]
                if i == last:
                    continue
                split, one, two = back[kind, i, last, place]
                if kind == RIGHT:
                    heads[rank, split] = i + 1
                    stack[size, 0], stack[size, 1], stack[size, 2], stack[size, 3] = RIGHT, split, last, one
                    stack[size + 1, 0], stack[size + 1, 1], stack[size + 1, 2], stack[size + 1, 3] = 2, i, split, two
                elif kind == LEFT:
                    heads[rank, split] = last + 1
                    stack[size, 0], stack[size, 1], stack[size, 2], stack[size, 3] = LEFT, i, split, one
                    stack[size + 1, 0], stack[size + 1, 1], stack[size + 1, 2], stack[size + 1, 3] = 2, split, last, two
                else:
                    stack[size, 0], stack[size, 1], stack[size, 2], stack[size, 3] = RIGHT, i, split, one
                    stack[size + 1, 0], stack[size + 1, 1] = LEFT, split + 1
                    stack[size + 1, 2], stack[size + 1, 3] = last, two
                size += 2
            j, own = at, of_forest
    return int(n_forest[n])
