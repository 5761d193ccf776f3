"""Kernels on dependency trees given by their heads: cycles, crossing arcs, the nearest projective tree, and writing.

A tree of n tokens is a head for each, 0 for the root and h for token h, from 1. It is *projective* if every token
between a token and its head descends from that head: drawn above the sentence, no two arcs cross.
"""

from __future__ import annotations

import numpy as np

from loglinear.arrays import Bool, Int32, Int64, UInt8
from loglinear.data.columns.corpus import offsets_of
from loglinear.kernels import kernel


@kernel
def cycle_member(offsets: Int64, heads: Int32) -> int:
    """The first token [N] from which the heads never reach the root, in O(N); -1 if there is none."""
    state = np.zeros(heads.shape[0], np.int64)  # 0: not seen; else the walk it was met in, -1 once that reached a root
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
    """Among the tokens [n] of one tree with a crossed arc, the one with the shortest; -1 if it is projective."""
    n = heads.shape[0]
    found, shortest = -1, n + 2
    for t in range(n):
        low, high = min(t + 1, heads[t]), max(t + 1, heads[t])
        if high - low >= shortest:
            continue
        for between in range(low + 1, high):
            above = between
            while above > 0 and above != heads[t]:
                above = heads[above - 1]
            if above != heads[t]:
                found, shortest = t, high - low
                break
    return found


@kernel
def projective(offsets: Int64, heads: Int32, out: Bool) -> None:
    """Whether each tree is projective, into ``out`` [S]."""
    for s in range(offsets.shape[0] - 1):
        out[s] = _first_crossing(heads[offsets[s] : offsets[s + 1]]) < 0


@kernel
def lift(offsets: Int64, heads: Int32, out: Int32) -> None:
    """Heads [N] of projective trees: the shortest crossed arc goes to its head's head, until none is left.

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


@kernel
def _replace(buffer: UInt8, places: Int64, ids: Int64, packed: UInt8, offsets: Int64, out: UInt8) -> None:
    position = filled = 0
    for i in range(places.shape[0]):
        for b in range(position, places[i, 0]):
            out[filled] = buffer[b]
            filled += 1
        for b in range(offsets[ids[i]], offsets[ids[i] + 1]):
            out[filled] = packed[b]
            filled += 1
        position = places[i, 1]
    for b in range(position, buffer.shape[0]):
        out[filled] = buffer[b]
        filled += 1


def replaced(raw: bytes, places: Int64, ids: Int64, values: list[bytes]) -> bytes:
    """The text with ``values[ids[i]]`` instead of the bytes ``places[i, 0]`` to ``places[i, 1]``, ascending."""
    offsets = offsets_of([len(value) for value in values])
    size = len(raw) + int(np.diff(offsets)[ids].sum()) - int((places[:, 1] - places[:, 0]).sum())
    out = np.empty(size, dtype=np.uint8)
    packed = np.frombuffer(b"".join(values), dtype=np.uint8)
    _replace(np.frombuffer(raw, dtype=np.uint8), places, ids, packed, offsets, out)
    return out.tobytes()
