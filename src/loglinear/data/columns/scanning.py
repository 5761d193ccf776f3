"""Compiled loops that cut text into lines, fields and columns of numbers, and write changed text back.

A text stays one array of bytes. :func:`lines_of` finds its lines and counts their fields, :meth:`Lines.fields` finds
where the fields of chosen lines begin and end, and :class:`Factoriser` numbers the distinct ones. :func:`replaced` goes
the other way: it copies a text with some parts replaced, and :func:`spliced` with fields inserted.

Each is one pass, O(bytes). Letters: L lines, K chosen lines, F fields, I insertions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from loglinear import mapped
from loglinear.arrays import Bool, Int32, Int64, UInt8
from loglinear.data.columns.corpus import Column, Columns, Layout, offsets_of
from loglinear.data.files import check_text
from loglinear.errors import DataError, OptionError
from loglinear.kernels import kernel
from loglinear.wording import how_many

HAS_TAB, HAS_RETURN, HAS_EMPTY_FIELD = 1, 2, 4
RETURN_INSIDE = "a carriage return inside a line; end lines with LF or CRLF"
_LF, _TAB, _CR, _SPACE = 10, 9, 13, 32


@kernel
def _scan_lines(
    buffer: UInt8, start: int, separator: UInt8, trim: UInt8, single: int, n_lines: int
) -> tuple[Int64, Int64, Int32, UInt8]:
    """For each line [L]: where its first field starts, where its last ends, its number of fields, its flags."""
    starts, ends = np.empty(n_lines, np.int64), np.empty(n_lines, np.int64)
    counts, flags = np.empty(n_lines, np.int32), np.empty(n_lines, np.uint8)
    n = len(buffer)
    for line in range(n_lines):
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
    return starts, ends, counts, flags


@kernel
def _field_bounds(buffer: UInt8, starts: Int64, ends: Int64, separator: UInt8, begins: Int64, finishes: Int64) -> None:
    """Fill begin and end [F] of every field of the lines ``starts[k]:ends[k]`` [K], line after line."""
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
def _replace(
    buffer: UInt8, places: Int64, separators: UInt8, ids: Int64, values: UInt8, offsets: Int64, out: UInt8
) -> None:
    """Copy ``buffer`` to ``out`` with the bytes of each place [I, 2] replaced by a separator (if not 0) and a value."""
    source, target = 0, 0
    for item in range(len(places)):
        for position in range(source, places[item, 0]):
            out[target] = buffer[position]
            target += 1
        if separators[item]:
            out[target] = separators[item]
            target += 1
        for k in range(offsets[ids[item]], offsets[ids[item] + 1]):
            out[target] = values[k]
            target += 1
        source = places[item, 1]
    for position in range(source, len(buffer)):
        out[target] = buffer[position]
        target += 1


class Separation(NamedTuple):
    """How fields are separated: separating bytes, bytes trimmed at a line's end, and whether each separator counts."""

    separators: bytes
    trimmed: bytes
    single: bool

    def tables(self) -> tuple[UInt8, UInt8]:
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
    fields, 0 for a blank line; ``flags`` has HAS_TAB, HAS_RETURN (a carriage return inside the line) and, if each
    separator counts, HAS_EMPTY_FIELD.
    """

    raw: bytes
    buffer: UInt8
    separation: Separation
    starts: Int64
    ends: Int64
    counts: Int32
    flags: UInt8

    def begin_with(self, prefix: bytes) -> Bool:
        """Mask [L] of the lines whose first field begins with ``prefix``, which may not hold a line feed."""
        matches = self.starts + len(prefix) <= len(self.raw)
        for k, byte in enumerate(prefix):
            where = np.flatnonzero(matches)
            matches[where] = self.buffer[self.starts[where] + k] == byte
        return matches

    def fields(self, chosen: Int64) -> tuple[Int64, Int64]:
        """Begin and end [F] of all fields of the chosen lines, line after line."""
        total = int(self.counts[chosen].sum(dtype=np.int64))
        begins, finishes = np.empty(total, dtype=np.int64), np.empty(total, dtype=np.int64)
        separator, _ = self.separation.tables()
        _field_bounds(self.buffer, self.starts[chosen], self.ends[chosen], separator, begins, finishes)
        return begins, finishes

    def column(self, begins: Int64, finishes: Int64) -> Column:
        """Factorise fields of this text."""
        factoriser = Factoriser()
        ids = factoriser.ids(self.buffer, np.ascontiguousarray(begins), np.ascontiguousarray(finishes))
        return Column(ids, factoriser.strings())


def lines_of(raw: bytes, start: int, separation: Separation) -> Lines:
    """Scan a text from byte ``start`` (after a byte order mark)."""
    n_lines = raw.count(b"\n", start) + (len(raw) > start and not raw.endswith(b"\n"))
    buffer = np.frombuffer(raw, dtype=np.uint8)
    scanned = _scan_lines(buffer, start, *separation.tables(), int(separation.single), n_lines)
    return Lines(raw, buffer, separation, *scanned)


def spliced(raw: bytes, positions: Int64, separators: UInt8, ids: npt.ArrayLike, values: list[bytes]) -> bytes:
    """The text with ``values[ids[i]]``, after ``separators[i]`` unless that is 0, inserted at ``positions[i]`` [I]."""
    return replaced(raw, np.stack([positions, positions], axis=1), ids, values, separators)


def replaced(
    raw: bytes, places: Int64, ids: npt.ArrayLike, values: list[bytes], separators: UInt8 | None = None
) -> bytes:
    """The text with the bytes ``places[i, 0]`` to ``places[i, 1]`` [I, 2], ascending, replaced by ``values[ids[i]]``.

    A value is preceded by ``separators[i]`` [I] unless that is 0; without ``separators``, none is.
    """
    numbers = np.ascontiguousarray(ids, dtype=np.int64)
    separators = np.zeros(len(places), dtype=np.uint8) if separators is None else np.ascontiguousarray(separators)
    offsets = offsets_of([len(value) for value in values])
    removed = int((places[:, 1] - places[:, 0]).sum())
    size = len(raw) - removed + int(np.diff(offsets)[numbers].sum()) + int(np.count_nonzero(separators))
    out = np.empty(size, dtype=np.uint8)
    packed, buffer = (np.frombuffer(text, dtype=np.uint8) for text in (b"".join(values), raw))
    _replace(buffer, np.ascontiguousarray(places), separators, numbers, packed, offsets, out)
    return out.tobytes()


# ----------------------------------------------------------------------------------------------------------------------
# Numbering of byte strings: equal strings get equal numbers, in order of first occurrence, across blocks of text.
#
# The distinct strings are copied to an arena, so that a block of text can be freed once its fields are numbered, and
# Python makes one string per distinct value and none per token. Look-up is by open addressing over the 32-bit FNV-1a
# hash of Fowler, Noll and Vo, then an exact comparison; O(bytes) expected.


class _Strings(NamedTuple):
    """A hash table of n distinct strings.

    ``slots`` [a power of two, at most half of them taken] hold the number of a string or -1; ``hashes[k]`` is the hash
    of string k, which is ``arena[places[k]:places[k + 1]]``.
    """

    slots: Int32
    hashes: Int64
    places: Int64
    arena: UInt8
    n: int


@kernel
def _factorise(
    buffer: UInt8, begins: Int64, finishes: Int64, first: int, step: int, strings: _Strings, ids: Int32
) -> _Strings:
    """Fill ids [F] of the fields ``first``, ``first + step``, ...; returns the table with the new strings added."""
    slots, hashes, places, arena, n = strings
    size = slots.shape[0]
    for item in range(ids.shape[0]):
        field = first + item * step
        begin, length = begins[field], finishes[field] - begins[field]
        code = np.int64(2166136261)
        for k in range(length):  # 64-bit products of 32-bit numbers: no overflow, also without Numba
            code = ((code ^ np.int64(buffer[begin + k])) * np.int64(16777619)) & np.int64(0xFFFFFFFF)
        code = ((code ^ (code >> 15)) * np.int64(0x2C1B3C6D)) & np.int64(0xFFFFFFFF)
        code ^= code >> 13
        slot = code & (size - 1)
        while slots[slot] >= 0:
            number = slots[slot]
            if hashes[number] == code:
                other = places[number]
                same = places[number + 1] - other == length
                k = 0
                while same and k < length:
                    same = buffer[begin + k] == arena[other + k]
                    k += 1
                if same:
                    break
            slot = (slot + 1) & (size - 1)
        if slots[slot] < 0:
            if 2 * (n + 1) > size:
                size *= 4
                slots = np.full(size, -1, np.int32)
                hashes = np.append(hashes, np.empty(size // 2 - n, np.int64))
                places = np.append(places, np.empty(size // 2 - n, np.int64))
                for number in range(n):
                    slot = hashes[number] & (size - 1)
                    while slots[slot] >= 0:
                        slot = (slot + 1) & (size - 1)
                    slots[slot] = number
                slot = code & (size - 1)
                while slots[slot] >= 0:
                    slot = (slot + 1) & (size - 1)
            if places[n] + length > arena.shape[0]:
                arena = np.append(arena, np.empty(arena.shape[0] + length, np.uint8))
            for k in range(length):
                arena[places[n] + k] = buffer[begin + k]
            places[n + 1] = places[n] + length
            slots[slot] = n
            hashes[n] = code
            n += 1
        ids[item] = slots[slot]
    return _Strings(slots, hashes, places, arena, n)


class Factoriser:
    """The distinct strings seen so far; there is room for ``size`` of them, a power of two, before any are there."""

    def __init__(self, size: int = 512) -> None:
        self._strings = _Strings(
            slots=np.full(2 * size, -1, dtype=np.int32),
            hashes=np.empty(size, dtype=np.int64),
            places=np.zeros(size + 1, dtype=np.int64),
            arena=np.empty(8 * size, dtype=np.uint8),
            n=0,
        )

    def ids(self, buffer: UInt8, begins: Int64, finishes: Int64, first: int = 0, step: int = 1) -> Int32:
        """Numbers of the fields ``first``, ``first + step``, ... of those that begin and finish at these bytes."""
        ids = np.empty(len(range(first, len(begins), step)), dtype=np.int32)
        self._strings = _factorise(buffer, begins, finishes, first, step, self._strings, ids)
        return ids

    def strings(self) -> list[str]:
        """The distinct strings, by number."""
        places = self._strings.places[: self._strings.n + 1].tolist()
        packed = self._strings.arena[: places[-1]].tobytes()
        if packed.isascii():  # one byte per character: decode all of them at once
            text = packed.decode("ascii")
            return [text[begin:end] for begin, end in pairwise(places)]
        return [packed[begin:end].decode() for begin, end in pairwise(places)]


# ----------------------------------------------------------------------------------------------------------------------
# A column file read in blocks of whole lines, so that little of its text is in memory at a time.
#
# In each block, rows are separated from blank lines, comments and document marks, and their fields are numbered
# (:class:`Factoriser`). The bytes are then freed, unless the file is to be written back. The meaning of a line may
# depend on earlier lines: whether a sentence has begun, and how many fields a row has. The reader remembers this
# between blocks.


SEPARATIONS = {"auto": BLANKS, "tab": TAB, "space": SPACES}
_DOCSTART = b"-DOCSTART-"
_KEY_VALUE = re.compile(rb"#[ \t]+[^ \t=].*[ \t]=([ \t]|$)")


class ColumnBlocks:
    """The rows of a column file so far; parameters as for :func:`~loglinear.data.columns.column_file.read_columns`."""

    def __init__(self, name: str, separator: str, comments: str, docstart: bool, layout: bool) -> None:
        if separator not in SEPARATIONS:
            raise OptionError(f"separator is {separator!r}; choose one of {', '.join(SEPARATIONS)}")
        if comments not in ("auto", "none") and (not comments.strip() or comments[0].isspace() or "\n" in comments):
            raise OptionError(f"comments is {comments!r}; give auto, none, or what a comment begins with, such as #")
        self._name, self._separator, self._comments, self._docstart = name, separator, comments, docstart
        self._layout: _LayoutBlocks | None = _LayoutBlocks(separator) if layout else None
        self._width, self._reference = 0, 0  # number of fields in a row; the line (from 1) that determined it
        self._held: list[bytes] = []  # blocks that may hold only comments, kept until the first row shows its width
        self._held_size, self._looked_at = 0, 0
        self._n_lines = self._n_tokens = self._n_breaks = 0
        self._breaks_at_token = -1  # breaks before the last token: a token after more breaks begins a sentence
        self._in_sentence = False
        self._factorisers: list[Factoriser] = []
        self._ids: list[mapped.Growing] = []
        self._starts, self._lines = mapped.Growing(np.int64), mapped.Growing(np.int64)

    def add(self, raw: bytes) -> None:
        """Read the next block of whole lines."""
        self._held.append(raw)
        self._held_size += len(raw)
        if self._held_size >= 2 * self._looked_at:  # scanning everything again for each block would be quadratic
            self._take(final=False)

    def corpus(self) -> Columns:
        """All rows."""
        if self._held:
            self._take(final=True)
        if not self._n_tokens:
            raise DataError("the file holds no tokens", self._name)
        columns = [
            Column(ids.array(), factoriser.strings())
            for factoriser, ids in zip(self._factorisers, self._ids, strict=True)
        ]
        self._starts.append(np.array([self._n_tokens]))
        layout = None if self._layout is None else self._layout.whole()
        return Columns(self._name, self._starts.array(), self._lines.array(), columns, layout=layout)

    def _take(self, final: bool) -> None:
        raw = b"".join(self._held)
        lines = lines_of(raw, check_text(raw, self._name, self._n_lines), SEPARATIONS[self._separator])
        filled = lines.counts > 0
        marks = _document_marks(lines) if self._docstart else np.zeros(len(filled), dtype=np.bool_)
        rows = filled & ~marks
        if self._comments == "auto" and not self._width and not final:
            hashed = rows & lines.begin_with(b"#")
            if not (rows & ~hashed).any():
                self._held, self._looked_at = [raw], len(raw)
                return
        self._held, self._held_size, self._looked_at = [], 0, 0
        rows &= ~self._comment_lines(lines, rows)
        chosen = np.flatnonzero(rows)
        if len(chosen):
            self._check_rows(lines, chosen)
            self._number_fields(lines, chosen)
        breaks = self._n_breaks + np.cumsum(~filled | marks)
        if len(chosen):
            at = breaks[chosen]  # equal for two tokens if and only if there is no break between them
            self._starts.append(self._n_tokens + np.flatnonzero(np.diff(at, prepend=self._breaks_at_token)))
            self._breaks_at_token = int(at[-1])
        if len(breaks):
            self._n_breaks = int(breaks[-1])
        if self._layout is not None:
            self._layout.add(lines, rows, marks, self._n_tokens)
        self._lines.append(chosen + (self._n_lines + 1))
        self._n_tokens += len(chosen)
        self._n_lines += len(filled)

    def _comment_lines(self, lines: Lines, rows: Bool) -> Bool:
        """Mask [L] of the comment lines among the candidates ``rows``."""
        if self._comments == "none":
            return np.zeros(len(rows), dtype=np.bool_)
        if self._comments != "auto":
            return rows & lines.begin_with(self._comments.encode())
        hashed = rows & lines.begin_with(b"#")
        candidates = hashed
        if hashed.any():
            looks = np.zeros(len(rows), dtype=np.bool_)
            for number in np.flatnonzero(hashed & (lines.begin_with(b"# ") | lines.begin_with(b"#\t"))).tolist():
                looks[number] = _KEY_VALUE.match(lines.raw, lines.starts[number], lines.ends[number]) is not None
            width = self._width or lines.counts[_reference_row(rows, hashed, looks)]
            candidates = hashed & (looks | (lines.counts != width))
        # A candidate is a comment if the last token before it comes before the last break between sentences.
        order = np.arange(len(rows))
        last_token = np.maximum.accumulate(np.where(rows & ~candidates, order, -1 if self._in_sentence else -2))
        last_break = np.maximum.accumulate(np.where(~rows, order, -2))
        if len(rows):
            self._in_sentence = bool(last_token[-1] > last_break[-1])
        is_comment: Bool = candidates & (last_token <= last_break)
        return is_comment

    def _check_rows(self, lines: Lines, chosen: Int64) -> None:
        """Reject the first line that does not have as many fields as the others."""
        if not self._width:
            reference = chosen[0]
            if self._comments == "auto":
                plain = chosen[lines.buffer[lines.starts[chosen]] != ord("#")]
                reference = plain[0] if len(plain) else reference
            self._width, self._reference = int(lines.counts[reference]), self._n_lines + int(reference) + 1
            size = 512 if self._width <= 64 else 16  # thousands of columns are mostly of few values
            self._factorisers = [Factoriser(size) for _ in range(self._width)]
            self._ids = [mapped.Growing(np.int32) for _ in range(self._width)]
        wrong = HAS_RETURN | HAS_EMPTY_FIELD
        bad = (lines.counts[chosen] != self._width) | (lines.flags[chosen] & wrong > 0)
        if not bad.any():
            return
        number = chosen[np.argmax(bad)]
        flags, line = int(lines.flags[number]), self._n_lines + int(number) + 1
        if flags & HAS_RETURN:
            raise DataError(RETURN_INSIDE, self._name, line)
        if flags & HAS_EMPTY_FIELD:
            raise DataError("an empty field; put exactly one tab between fields", self._name, line)
        first = f"the first row (line {self._reference}) has {self._width}"
        tabbed = self._separator == "auto" and flags & HAS_TAB
        hint = "; if fields hold spaces, read with separator tab" if tabbed else ""
        here = how_many(lines.counts[number], "field")
        message = f"this row has {here}, {first}; every row needs the same number{hint}"
        raise DataError(message, self._name, line)

    def _number_fields(self, lines: Lines, chosen: Int64) -> None:
        begins, finishes = lines.fields(chosen)
        for c, (factoriser, ids) in enumerate(zip(self._factorisers, self._ids, strict=True)):
            ids.append(factoriser.ids(lines.buffer, begins, finishes, c, self._width))


class _LayoutBlocks:
    """All bytes of a file, and where its rows are."""

    def __init__(self, separator: str) -> None:
        self._separator = separator
        self._raw: list[bytes] = []
        self._n_bytes = 0
        self._ends: list[Int64] = []
        self._separators: list[UInt8] = []
        self._tokens: list[Int64] = []

    def add(self, lines: Lines, rows: Bool, marks: Bool, n_tokens: int) -> None:
        """Add the lines of a block that comes after ``n_tokens`` tokens."""
        extended = np.flatnonzero(rows | marks)
        tabbed = lines.flags[extended] & HAS_TAB > 0
        if self._separator != "auto":
            tabbed = np.full(len(extended), self._separator == "tab")
        self._separators.append(np.where(tabbed, ord("\t"), ord(" ")).astype(np.uint8))
        self._tokens.append(np.where(marks[extended], -1, n_tokens + np.cumsum(rows[extended]) - 1).astype(np.int64))
        self._ends.append(self._n_bytes + lines.ends[extended])
        self._raw.append(lines.raw)
        self._n_bytes += len(lines.raw)

    def whole(self) -> Layout:
        """The layout of all blocks."""
        return Layout(
            raw=b"".join(self._raw),
            ends=np.concatenate(self._ends),
            separators=np.concatenate(self._separators),
            tokens=np.concatenate(self._tokens),
            spaced=self._separator == "tab",
        )


def _document_marks(lines: Lines) -> Bool:
    marks = lines.begin_with(_DOCSTART)
    for number in np.flatnonzero(marks).tolist():
        after = int(lines.starts[number]) + len(_DOCSTART)
        marks[number] = after == lines.ends[number] or lines.raw[after] in b" \t"
    return marks


def _reference_row(rows: Bool, hashed: Bool, looks: Bool) -> int:
    """Line (from 0) that shows how many fields a row has: the first that cannot be a comment, else the first."""
    for mask in (rows & ~hashed, rows & ~looks, rows):
        if mask.any():
            return int(np.argmax(mask))
    return 0
