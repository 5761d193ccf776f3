"""Kernels on bytes: lines and fields of a text, and insertions into a text.

A text stays one array of bytes. :func:`scan_lines` finds its lines and counts their fields, :func:`field_bounds` marks
where the fields of chosen lines begin and end (:mod:`.factorise` numbers the distinct ones). :func:`splice` is the way
back: it copies a text with fields inserted.

Each is one pass, O(bytes). Letters: L lines, K chosen lines, F fields, I insertions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from loglinear.data.columns import Column, IdArray, IntArray, offsets_of
from loglinear.data.factorise import Factoriser
from loglinear.kernels import kernel

Bytes = npt.NDArray[np.uint8]
HAS_TAB, HAS_RETURN, HAS_EMPTY_FIELD = 1, 2, 4
_LF, _TAB, _CR, _SPACE = 10, 9, 13, 32


@kernel
def _scan_lines(
    buffer: Bytes,
    start: int,
    separator: Bytes,
    trim: Bytes,
    single: int,
    starts: IntArray,
    ends: IntArray,
    counts: IdArray,
    flags: Bytes,
) -> None:
    """Fill, per line [L]: where its first field starts, where its last ends, its number of fields, its flags."""
    n = len(buffer)
    for line in range(len(starts)):
        stop = start
        while stop < n and buffer[stop] != _LF:
            stop += 1
        end = stop
        while end > start and trim[buffer[end - 1]]:
            end -= 1
        while not single and start < end and separator[buffer[start]]:
            start += 1
        count, flag, visible, in_field = 0, 0, False, False
        for position in range(start, end):
            byte = buffer[position]
            if byte == _TAB:
                flag |= HAS_TAB
            elif byte == _CR:
                flag |= HAS_RETURN
            elif byte != _SPACE:
                visible = True
            if not separator[byte]:
                if not in_field:
                    count += 1
                in_field = True
            else:
                if single and not in_field:
                    flag |= HAS_EMPTY_FIELD
                in_field = False
        starts[line] = start
        ends[line] = end
        counts[line] = count if visible else 0
        flags[line] = flag
        start = stop + 1


@kernel
def _field_bounds(
    buffer: Bytes, starts: IntArray, ends: IntArray, separator: Bytes, begins: IntArray, finishes: IntArray
) -> None:
    """Fill begin and end [F] of every field of the lines ``starts[k]:ends[k]`` [K], lines one after the other."""
    field = 0
    for line in range(len(starts)):
        in_field = False
        for position in range(starts[line], ends[line]):
            if separator[buffer[position]]:
                if in_field:
                    finishes[field] = position
                    field += 1
                in_field = False
            elif not in_field:
                begins[field] = position
                in_field = True
        if in_field:
            finishes[field] = ends[line]
            field += 1


@kernel
def _splice(
    buffer: Bytes,
    positions: IntArray,
    separators: Bytes,
    ids: IntArray,
    values: Bytes,
    offsets: IntArray,
    out: Bytes,
) -> None:
    """Copy ``buffer`` to ``out``, inserting at positions [I], ascending, a separator (if not 0) and a value each."""
    source, target = 0, 0
    for item in range(len(positions)):
        while source < positions[item]:
            out[target] = buffer[source]
            source += 1
            target += 1
        if separators[item]:
            out[target] = separators[item]
            target += 1
        for k in range(offsets[ids[item]], offsets[ids[item] + 1]):
            out[target] = values[k]
            target += 1
    while source < len(buffer):
        out[target] = buffer[source]
        source += 1
        target += 1


class Separation(NamedTuple):
    """How fields are told apart: separating bytes, bytes trimmed at a line's end, whether each separator counts."""

    separators: bytes
    trimmed: bytes
    single: bool

    def tables(self) -> tuple[Bytes, Bytes]:
        """The two sets of bytes as masks [256]."""
        separator, trim = np.zeros((2, 256), dtype=np.uint8)
        separator[list(self.separators)] = 1
        trim[list(self.trimmed)] = 1
        return separator, trim


BLANKS = Separation(b" \t", b" \t\r", single=False)
TAB = Separation(b"\t", b" \t\r", single=True)
SPACES = Separation(b" ", b" \t\r", single=False)
TABS = Separation(b"\t", b"\t\r", single=False)


@dataclass(eq=False, slots=True)
class Lines:
    """The lines of a text; all arrays [L].

    ``starts`` and ``ends`` bound a line from its first field to the end of its last; ``counts`` is the number of
    fields, 0 for a blank line; ``flags`` has HAS_TAB, HAS_RETURN (a carriage return that ends no line) and, where each
    separator counts, HAS_EMPTY_FIELD.
    """

    raw: bytes
    buffer: Bytes
    separation: Separation
    starts: IntArray
    ends: IntArray
    counts: IdArray
    flags: Bytes

    def begin_with(self, prefix: bytes) -> npt.NDArray[np.bool_]:
        """Mask [L] of the lines whose first field begins with the given bytes (no line feed among them)."""
        found = self.starts + len(prefix) <= len(self.raw)
        for k, byte in enumerate(prefix):
            where = np.flatnonzero(found)
            found[where] = self.buffer[self.starts[where] + k] == byte
        return found

    def fields(self, chosen: IntArray) -> tuple[IntArray, IntArray]:
        """Begin and end [F] of all fields of the chosen lines, line after line."""
        total = int(self.counts[chosen].sum(dtype=np.int64))
        begins, finishes = np.empty(total, dtype=np.int64), np.empty(total, dtype=np.int64)
        separator, _ = self.separation.tables()
        _field_bounds(self.buffer, self.starts[chosen], self.ends[chosen], separator, begins, finishes)
        return begins, finishes

    def column(self, begins: IntArray, finishes: IntArray) -> Column:
        """Factorise fields of this text."""
        factoriser = Factoriser()
        ids = factoriser.ids(self.buffer, np.ascontiguousarray(begins), np.ascontiguousarray(finishes))
        return Column(ids, factoriser.strings())


def lines_of(raw: bytes, start: int, separation: Separation) -> Lines:
    """Scan a text from byte ``start`` (after a byte order mark)."""
    n_lines = raw.count(b"\n", start) + (len(raw) > start and not raw.endswith(b"\n"))
    buffer = np.frombuffer(raw, dtype=np.uint8)
    starts, ends = np.empty(n_lines, dtype=np.int64), np.empty(n_lines, dtype=np.int64)
    counts, flags = np.empty(n_lines, dtype=np.int32), np.empty(n_lines, dtype=np.uint8)
    separator, trim = separation.tables()
    _scan_lines(buffer, start, separator, trim, int(separation.single), starts, ends, counts, flags)
    return Lines(raw, buffer, separation, starts, ends, counts, flags)


def spliced(raw: bytes, positions: IntArray, separators: Bytes, ids: npt.ArrayLike, values: list[bytes]) -> bytes:
    """The text with ``values[ids[i]]``, after ``separators[i]`` unless that is 0, inserted at ``positions[i]`` [I]."""
    numbers = np.ascontiguousarray(ids, dtype=np.int64)
    offsets = offsets_of([len(value) for value in values])
    size = len(raw) + int(np.diff(offsets)[numbers].sum()) + int(np.count_nonzero(separators))
    out = np.empty(size, dtype=np.uint8)
    packed = np.frombuffer(b"".join(values), dtype=np.uint8)
    buffer = np.frombuffer(raw, dtype=np.uint8)
    _splice(buffer, np.ascontiguousarray(positions), np.ascontiguousarray(separators), numbers, packed, offsets, out)
    return out.tobytes()
