r"""Best projective trees where a first child is worth another score than a later one, and stopping has a score too.

This is what a head-outward model asks for (Eisner 1996, model C; Klein & Manning 2004): a head makes its children on
each side from the nearest outward, and after each decides whether to stop::

    score(y) = sum over arcs h -> t of  first(h, t) if t is the nearest child of h on its side, else later(h, t)
               + sum over tokens h and sides d of  stop(h, d, whether h has a child on that side)

The recursions are those of :mod:`~loglinear.structures.arc_eisner`, with half trees that may still grow (R, L) told
from those that have stopped (R', L')::

    iR(i, j) = max( first(i, j) + L'(i + 1, j),   later(i, j) + max_{i < k < j} R(i, k) + L'(k + 1, j) )
    R(i, j)  = max_k iR(i, k) + R'(k, j)

and so for the other side. The root has one child. Arcs are blocks [n, n + 1], child by head, as everywhere.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from loglinear.kernels import kernel

Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

TO_LEFT, TO_RIGHT = 0, 1  # sides
RIGHT, LEFT, RIGHT_ARC, LEFT_ARC = 0, 1, 2, 3  # kinds of half trees


@kernel
def _best_tree(first: Float, later: Float, stops: Float, heads: Int32) -> float:
    """The best tree of one sentence with arcs [n, n + 1] and stops [n, 2, 2] into ``heads`` [n]; its score."""
    n = first.shape[0]
    right, right_end, left, left_end = np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n))
    shut_right, shut_left = np.zeros((n, n)), np.zeros((n, n))  # R'[i, k], L'[j, k] = L'(k, j)
    to_right, to_left = np.zeros((n, n)), np.zeros((n, n))
    splits = np.zeros((4, n, n), np.int32)
    for i in range(n):
        shut_right[i, i] = right_end[i, i] = stops[i, TO_RIGHT, 0]
        shut_left[i, i] = left_end[i, i] = stops[i, TO_LEFT, 0]
    for width in range(1, n):
        for i in range(n - width):
            j = i + width
            best, at = first[j, i + 1] + shut_left[j, i + 1], i
            for k in range(i + 1, j):
                value = right[i, k] + shut_left[j, k + 1] + later[j, i + 1]
                if value > best:
                    best, at = value, k
            to_right[i, j] = best
            splits[RIGHT_ARC, i, j] = at
            best, at = first[i, j + 1] + shut_right[i, j - 1], j - 1
            for k in range(i, j - 1):
                value = shut_right[i, k] + left[j, k + 1] + later[i, j + 1]
                if value > best:
                    best, at = value, k
            to_left[j, i] = best
            splits[LEFT_ARC, i, j] = at
            best, at = -np.inf, i
            for k in range(i, j):
                value = left_end[i, k] + to_left[j, k]
                if value > best:
                    best, at = value, k
            left[j, i] = best
            shut_left[j, i] = left_end[i, j] = best + stops[j, TO_LEFT, 1]
            splits[LEFT, i, j] = at
            best, at = -np.inf, j
            for k in range(i + 1, j + 1):
                value = to_right[i, k] + right_end[j, k]
                if value > best:
                    best, at = value, k
            right[i, j] = best
            shut_right[i, j] = right_end[j, i] = best + stops[i, TO_RIGHT, 1]
            splits[RIGHT, i, j] = at
    best, root = -np.inf, -1
    for r in range(n):
        value = first[r, 0] + shut_left[r, 0] + shut_right[r, n - 1]
        if value > best:
            best, root = value, r
    if root < 0:
        return -np.inf
    heads[root] = 0
    stack = np.empty((4 * n + 8, 3), np.int64)
    stack[0, 0], stack[0, 1], stack[0, 2] = RIGHT, root, n - 1
    stack[1, 0], stack[1, 1], stack[1, 2] = LEFT, 0, root
    size = 2
    while size:
        size -= 1
        kind, low, high = stack[size]
        if low == high:
            continue
        k = splits[kind, low, high]
        if kind == RIGHT:
            stack[size, 0], stack[size, 1], stack[size, 2] = RIGHT, k, high
            stack[size + 1, 0], stack[size + 1, 1], stack[size + 1, 2] = RIGHT_ARC, low, k
        elif kind == LEFT:
            stack[size, 0], stack[size, 1], stack[size, 2] = LEFT, low, k
            stack[size + 1, 0], stack[size + 1, 1], stack[size + 1, 2] = LEFT_ARC, k, high
        else:
            if kind == RIGHT_ARC:
                heads[high] = low + 1
            else:
                heads[low] = high + 1
            stack[size, 0], stack[size, 1], stack[size, 2] = RIGHT, low, k
            stack[size + 1, 0], stack[size + 1, 1], stack[size + 1, 2] = LEFT, k + 1, high
        size += 2
    return best


@kernel
def viterbi(offsets: Int64, first: Float, later: Float, stops: Float, heads: Int32, best: Float) -> int:
    """Best trees into ``heads`` [N], their scores into ``best`` [S]; the first sentence without one, or -1.

    ``first`` and ``later`` [A], ``stops`` [N, 2 sides, 2: without and with a child].
    """
    a = 0
    for s in range(offsets.shape[0] - 1):
        low, high = offsets[s], offsets[s + 1]
        n = high - low
        end = a + n * (n + 1)
        best[s] = _best_tree(
            first[a:end].reshape(n, n + 1), later[a:end].reshape(n, n + 1), stops[low:high], heads[low:high]
        )
        if best[s] == -np.inf:
            return s
        a = end
    return -1


@kernel
def score(offsets: Int64, first: Float, later: Float, stops: Float, heads: Int32, out: Float) -> None:
    """Scores [S] of the trees ``heads`` [N]."""
    a = 0
    for s in range(offsets.shape[0] - 1):
        low = offsets[s]
        n = offsets[s + 1] - low
        nearest = np.zeros((n + 1, 2), np.int64)  # the nearest child on each side, from 1; 0: none
        for t in range(1, n + 1):
            h = heads[low + t - 1]
            if t > h:
                if nearest[h, TO_RIGHT] == 0:
                    nearest[h, TO_RIGHT] = t
            else:
                nearest[h, TO_LEFT] = t
        total = 0.0
        for t in range(1, n + 1):
            h = heads[low + t - 1]
            place = a + (t - 1) * (n + 1) + h
            is_first = t == nearest[h, TO_RIGHT] or t == nearest[h, TO_LEFT]
            total += first[place] if is_first else later[place]
            for side in range(2):
                total += stops[low + t - 1, side, 1 if nearest[t, side] else 0]
        out[s] = total
        a += n * (n + 1)
