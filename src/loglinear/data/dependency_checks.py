"""Kernels on dependency trees given by their heads: cycles, crossing arcs, and the nearest projective tree.

A tree of n tokens has a head for each token: 0 for the root, h for token h (from 1). It is *projective* if every token
between a token and its head descends from that head: drawn above the sentence, no two arcs cross.
"""

from __future__ import annotations

import numpy as np

from loglinear.arrays import Bool, Int32, Int64
from loglinear.kernels import kernel


@kernel
def cycle_member(offsets: Int64, heads: Int32) -> int:
    """The first token [N] from which the heads never reach the root, in O(N); -1 if there is none."""
    state = np.zeros(heads.shape[0], np.int64)  # 0: not seen; else the walk that visited it, or -1 if it reached a root
    for s in range(offsets.shape[0] - 1):
        first = offsets[s]
        for t in range(first, offsets[s + 1]):
            walk, now = t - first + 1, t
            while state[now] == 0:
                state[now] = walk
                if heads[now] == 0:
                    break
                now = first + heads[now] - 1
            if state[now] == walk and heads[now] != 0:
                return t
            now = t
            while state[now] == walk:
                state[now] = -1
                if heads[now] == 0:
                    break
                now = first + heads[now] - 1
    return -1


@kernel
def _first_crossing(heads: Int32) -> int:
    """The token [n] of one tree whose arc is the shortest crossed one; -1 if the tree is projective."""
    n = heads.shape[0]
    token, shortest = -1, n + 2
    for t in range(n):
        low, high = min(t + 1, heads[t]), max(t + 1, heads[t])
        if high - low >= shortest:
            continue
        for between in range(low + 1, high):
            above = between
            while above > 0 and above != heads[t]:
                above = heads[above - 1]
            if above != heads[t]:
                token, shortest = t, high - low
                break
    return token


@kernel
def projective(offsets: Int64, heads: Int32, out: Bool) -> None:
    """Whether each tree is projective, into ``out`` [S]."""
    for s in range(offsets.shape[0] - 1):
        out[s] = _first_crossing(heads[offsets[s] : offsets[s + 1]]) < 0


@kernel
def lift(offsets: Int64, heads: Int32, out: Int32) -> None:
    """Heads [N] of projective trees: move the shortest crossed arc to its head's head until none is left.

    This is the transformation of Nivre & Nilsson (2005, section 2). A crossed arc never comes from the root of a tree
    with one root, so a tree keeps its one root.
    """
    for s in range(offsets.shape[0] - 1):
        tree = heads[offsets[s] : offsets[s + 1]].copy()
        token = _first_crossing(tree)
        while token >= 0:
            tree[token] = tree[tree[token] - 1] if tree[token] > 0 else 0
            token = _first_crossing(tree)
        out[offsets[s] : offsets[s + 1]] = tree


def is_projective(offsets: Int64, heads: Int32) -> Bool:
    """Mask [S] of the projective trees."""
    out = np.empty(len(offsets) - 1, dtype=np.bool_)
    projective(offsets, heads, out)
    return out


def projectivised(offsets: Int64, heads: Int32) -> Int32:
    """Heads [N] of the projective trees nearest to these (:func:`lift`)."""
    out = np.empty_like(heads)
    lift(offsets, heads, out)
    return out
