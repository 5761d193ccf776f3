"""The tree whose brackets are most likely to be right, rather than the most probable one.

A grammar with notes in its labels spreads the probability of a bracket over many derivations, and the best derivation
may be a poor guide. With q(i, j, L) how often the span (i, j) is expected to have the label L, notes forgotten, take
the tree that maximises

    sum over its brackets (i, j, L) of  q(i, j, L) - t

(Goodman 1996, *Parsing algorithms and metrics*, with a price t for each bracket). Brackets that are less likely than t
lower the sum, so a span has all labels with q > t, or none; which spans go together is a matter of O(n^3):

    best(i, j) = sum over L of max(0, q(i, j, L) - t)  +  max over k of  best(i, k) + best(k, j)

For the greatest expected F1 the price is half that F1 (Lipton, Elkan and Narayanaswamy 2014). Such a tree need not be
one of the grammar.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from loglinear.kernels import kernel

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]


class BracketLabels(NamedTuple):
    """Which of L labels the brackets have that a grammar's symbols and steps make.

    Attributes
    ----------
    n_labels : int
        L.
    label_of : int32[K]
        The label of a symbol, -1 if it makes no bracket.
    step_pointer, step_labels : int64[U + 1], int32[...]
        Those of the symbols of a step above its child.
    """

    n_labels: int
    label_of: Ints
    step_pointer: Longs
    step_labels: Ints


@kernel
def best_brackets(n: int, gain: Floats, best: Floats, split: Ints) -> None:
    """Fill ``best`` float64[N] and ``split`` int32[N] of the spans of n words from the ``gain`` float64[N] of each."""
    for j in range(1, n + 1):
        for i in range(j - 1, -1, -1):
            span = j * (j - 1) // 2 + i
            most, where = 0.0, -1
            for k in range(i + 1, j):
                value = best[k * (k - 1) // 2 + i] + best[j * (j - 1) // 2 + k]
                if where < 0 or value > most:
                    most, where = value, k
            best[span] = gain[span] + most
            split[span] = where


def bracketing(n: int, gain: Floats) -> Ints:
    """The split points int32[N] of the binary tree over n words whose spans have the greatest sum of ``gain`` [N]."""
    best, split = np.empty(len(gain)), np.empty(len(gain), dtype=np.int32)
    best_brackets(n, np.ascontiguousarray(gain, dtype=np.float64), best, split)
    return split
