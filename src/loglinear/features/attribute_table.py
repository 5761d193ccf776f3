"""Attributes made by templates, as tuples of numbers instead of strings.

An attribute is a template's skeleton (a *group*: templates of the same literal text) and the numbers of the values of
its macros. Each group keeps its tuples in an open-addressing hash table, so that finding the attribute of a position
costs a few integer operations and no string is made:

    keys   [A, M]   the tuples, in order of first sight
    slots  [2^k]    -1 or the row in ``keys``; probed linearly from the hash, at most half full
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loglinear.kernels import kernel

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


@kernel
def _value_at(
    source: Int32, position: int, first: int, end: int, row: int, absolute: int, before: Int32, after: Int32
) -> int:
    """The value ``row`` away from ``position`` in the sequence [first, end), or a boundary value."""
    place = position + row
    if absolute:
        place = first + row - 1 if row > 0 else end + row
    if place < first:
        return before[first - place - 1]
    if place >= end:
        return after[place - end]
    return source[place]


@kernel
def _find(keys: Int32, slots: Int32, key: Int32) -> int:
    """Slot that holds ``key`` [M], or the empty slot where it belongs."""
    code = np.int64(17)
    for j in range(key.shape[0]):
        code = ((code ^ np.int64(key[j])) * 73244475) & 0x7FFFFFFF  # below 2^58: never overflows
        code ^= code >> 15
    mask = slots.shape[0] - 1
    slot = code & mask
    while slots[slot] >= 0:
        row = slots[slot]
        same = True
        for j in range(key.shape[0]):
            if keys[row, j] != key[j]:
                same = False
                break
        if same:
            return slot
        slot = (slot + 1) & mask
    return slot


@kernel
def _fill_slots(keys: Int32, n_keys: int, slots: Int32) -> None:
    """Put rows 0..n_keys-1 of ``keys`` into ``slots``, which comes in empty (-1)."""
    for row in range(n_keys):
        slots[_find(keys, slots, keys[row])] = row


@kernel
def _observe(
    sources: Int32,
    offsets: Int64,
    macros: Int32,
    before: Int32,
    after: Int32,
    keys: Int32,
    slots: Int32,
    n_keys: int,
    out: Int32,
) -> tuple[Int32, Int32, int]:
    """Attribute of one template at every position of some sequences, new ones added to the table.

    ``sources`` [sources, N]; ``offsets`` are of the sequences that are meant, ``out`` of their positions; ``macros``
    [M, 3] are (source, row, absolute). Returns the table, grown.
    """
    n_macros = macros.shape[0]
    key = np.empty(n_macros, dtype=np.int32)
    origin = offsets[0]
    for i in range(offsets.shape[0] - 1):
        first, end = offsets[i], offsets[i + 1]
        for t in range(first, end):
            known = True
            for j in range(n_macros):
                row = macros[j, 1]
                place = t + row
                if macros[j, 2]:
                    place = first + row - 1 if row > 0 else end + row
                if place < first:
                    value = before[first - place - 1]
                elif place >= end:
                    value = after[place - end]
                else:
                    value = sources[macros[j, 0], place]
                key[j] = value
                known &= value >= 0
            if not known:
                out[t - origin] = -1
                continue
            slot = _find(keys, slots, key)
            if slots[slot] < 0:
                if 2 * (n_keys + 1) > slots.shape[0]:
                    slots = np.full(4 * slots.shape[0], -1, dtype=np.int32)
                    _fill_slots(keys, n_keys, slots)
                    slot = _find(keys, slots, key)
                if n_keys == keys.shape[0]:
                    larger = np.empty((2 * n_keys, n_macros), dtype=np.int32)
                    larger[:n_keys] = keys
                    keys = larger
                keys[n_keys] = key
                slots[slot] = n_keys
                n_keys += 1
            out[t - origin] = slots[slot]
    return keys, slots, n_keys


@kernel
def _look_up(
    sources: Int32,
    offsets: Int64,
    macros: Int32,
    before: Int32,
    after: Int32,
    keys: Int32,
    slots: Int32,
    base: int,
    out: Int32,
) -> None:
    """Attribute of one template at every position, -1 where the table does not have it; ``out`` [N]."""
    n_macros = macros.shape[0]
    key = np.empty(n_macros, dtype=np.int32)
    for i in range(offsets.shape[0] - 1):
        first, end = offsets[i], offsets[i + 1]
        for t in range(first, end):
            out[t] = -1
            known = True
            for j in range(n_macros):
                key[j] = _value_at(sources[macros[j, 0]], t, first, end, macros[j, 1], macros[j, 2], before, after)
                if key[j] < 0:
                    known = False
            if known:
                row = slots[_find(keys, slots, key)]
                if row >= 0:
                    out[t] = base + row


@dataclass
class Group:
    """The attributes of one skeleton: ``keys`` [A, M] in use up to ``n_keys``, ``slots`` the hash table, if made."""

    keys: Int32
    slots: Int32 | None
    n_keys: int = 0

    @classmethod
    def empty(cls, n_macros: int) -> Group:
        return cls(np.empty((64, n_macros), dtype=np.int32), np.full(256, -1, dtype=np.int32))

    @classmethod
    def from_keys(cls, keys: Int32) -> Group:
        """A table of the given distinct tuples [A, M]."""
        return cls(np.ascontiguousarray(keys), None, len(keys))

    def _table(self) -> Int32:
        """The hash table, made at the first use: a model that only labels needs none."""
        if self.slots is None:
            size = 4
            while size < 2 * (self.n_keys + 1):
                size *= 2
            slots = np.full(size, -1, dtype=np.int32)
            _fill_slots(self.keys, self.n_keys, slots)
            self.slots = slots
        return self.slots

    def observe(self, sources: Int32, offsets: Int64, macros: Int32, before: Int32, after: Int32, out: Int32) -> None:
        """Row of the tuple of each position of the sequences with these ``offsets`` into ``out``, growing the table.

        -1 where a value is missing.
        """
        self.keys, self.slots, self.n_keys = _observe(
            sources, offsets, macros, before, after, self.keys, self._table(), self.n_keys, out
        )

    def look_up(
        self, sources: Int32, offsets: Int64, macros: Int32, before: Int32, after: Int32, base: int, out: Int32
    ) -> None:
        """``base`` + row of each position's tuple into ``out`` [N]; -1 where the table does not have it."""
        _look_up(sources, offsets, macros, before, after, self.keys, self._table(), base, out)

    def rows_of(self, keys: Int32) -> Int32:
        """Row of each of the tuples ``keys`` [B, M] (negative entries are never found), or -1."""
        macros = np.column_stack([np.arange(keys.shape[1]), *np.zeros((2, keys.shape[1]))]).astype(np.int32)
        out = np.empty(len(keys), dtype=np.int32)
        nothing = np.zeros(0, dtype=np.int32)
        offsets = np.array([0, len(keys)], dtype=np.int64)
        sources = np.ascontiguousarray(keys.T) if keys.shape[1] else np.zeros((1, len(keys)), dtype=np.int32)
        self.look_up(sources, offsets, macros, nothing, nothing, 0, out)
        return out
