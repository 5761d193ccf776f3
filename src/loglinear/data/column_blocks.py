"""A column file read in blocks of whole lines, so that little of its text is in memory at a time.

Of each block, the rows are told from blank lines, comments and document marks, their fields are numbered
(:mod:`.factorise`), and the bytes are let go, unless the file is to be written back. What a line is may depend on those
before it: whether a sentence has begun, how many fields a row has. That is what a reader remembers between blocks.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from loglinear.data import text
from loglinear.data.columns import Column, Columns, IdArray, IntArray, Layout
from loglinear.data.factorise import Factoriser
from loglinear.data.files import check_text
from loglinear.data.text import Lines
from loglinear.errors import DataError, OptionError

Mask = npt.NDArray[np.bool_]
SEPARATIONS = {"auto": text.BLANKS, "tab": text.TAB, "space": text.SPACES}
_DOCSTART = b"-DOCSTART-"
_KEY_VALUE = re.compile(rb"#[ \t]+[^ \t=].*[ \t]=([ \t]|$)")


class ColumnBlocks:
    """The rows of a column file so far; parameters as of :func:`~loglinear.data.column_file.read_columns`."""

    def __init__(self, name: str, separator: str, comments: str, docstart: bool, layout: bool) -> None:
        if separator not in SEPARATIONS:
            raise OptionError(f"separator is {separator!r}; choose one of {', '.join(SEPARATIONS)}")
        if comments not in ("auto", "none") and (not comments.strip() or comments[0].isspace() or "\n" in comments):
            raise OptionError(f"comments is {comments!r}; give auto, none, or what a comment begins with, such as #")
        self._name, self._separator, self._comments, self._docstart = name, separator, comments, docstart
        self._layout: _LayoutBlocks | None = _LayoutBlocks(separator) if layout else None
        self._width, self._reference = 0, 0  # fields of a row; the line (from 1) that says so
        self._held: list[bytes] = []  # blocks that may be comments only, kept until a row says how many fields it has
        self._held_size, self._looked_at = 0, 0
        self._n_lines = self._n_tokens = self._n_breaks = 0
        self._breaks_at_token = -1  # breaks before the last token: a token after more of them begins a sentence
        self._in_sentence = False
        self._factorisers: list[Factoriser] = []
        self._ids: list[list[IdArray]] = []
        self._starts: list[IntArray] = []
        self._lines: list[IntArray] = []

    def add(self, raw: bytes) -> None:
        """Take the next block of whole lines."""
        self._held.append(raw)
        self._held_size += len(raw)
        if self._held_size >= 2 * self._looked_at:  # looking again at all of it each time would be quadratic
            self._take(final=False)

    def corpus(self) -> Columns:
        """All rows."""
        if self._held:
            self._take(final=True)
        if not self._n_tokens:
            raise DataError("the file holds no tokens", self._name)
        columns = []
        for factoriser, ids in zip(self._factorisers, self._ids, strict=True):
            columns.append(Column(np.concatenate(ids), factoriser.strings()))
            ids.clear()
        offsets = np.concatenate([*self._starts, [self._n_tokens]]).astype(np.int64)
        layout = None if self._layout is None else self._layout.whole()
        return Columns(self._name, offsets, np.concatenate(self._lines), columns, layout=layout)

    def _take(self, final: bool) -> None:
        raw = b"".join(self._held)
        lines = text.lines_of(raw, check_text(raw, self._name, self._n_lines), SEPARATIONS[self._separator])
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
            at = breaks[chosen]  # equal for two tokens if and only if no break lies between
            self._starts.append(self._n_tokens + np.flatnonzero(np.diff(at, prepend=self._breaks_at_token)))
            self._breaks_at_token = int(at[-1])
        if len(breaks):
            self._n_breaks = int(breaks[-1])
        if self._layout is not None:
            self._layout.add(lines, rows, marks, self._n_tokens)
        self._lines.append(chosen + (self._n_lines + 1))
        self._n_tokens += len(chosen)
        self._n_lines += len(filled)

    def _comment_lines(self, lines: Lines, rows: Mask) -> Mask:
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
        # A candidate is a comment if the last line that is none comes before the last break between sentences.
        order = np.arange(len(rows))
        last_token = np.maximum.accumulate(np.where(rows & ~candidates, order, -1 if self._in_sentence else -2))
        last_break = np.maximum.accumulate(np.where(~rows, order, -2))
        if len(rows):
            self._in_sentence = bool(last_token[-1] > last_break[-1])
        found: Mask = candidates & (last_token <= last_break)
        return found

    def _check_rows(self, lines: Lines, chosen: IntArray) -> None:
        """Refuse the first line that is no row of as many fields as the others."""
        if not self._width:
            reference = chosen[0]
            if self._comments == "auto":
                plain = chosen[lines.buffer[lines.starts[chosen]] != ord("#")]
                reference = plain[0] if len(plain) else reference
            self._width, self._reference = int(lines.counts[reference]), self._n_lines + int(reference) + 1
            self._factorisers = [Factoriser() for _ in range(self._width)]
            self._ids = [[] for _ in range(self._width)]
        wrong = text.HAS_RETURN | text.HAS_EMPTY_FIELD
        bad = (lines.counts[chosen] != self._width) | (lines.flags[chosen] & wrong > 0)
        if not bad.any():
            return
        number = chosen[np.argmax(bad)]
        flags, line = int(lines.flags[number]), self._n_lines + int(number) + 1
        if flags & text.HAS_RETURN:
            raise DataError("a carriage return inside a line; end lines with LF or CRLF", self._name, line)
        if flags & text.HAS_EMPTY_FIELD:
            raise DataError("an empty field; put exactly one tab between fields", self._name, line)
        first = f"the first row (line {self._reference}) has {self._width}"
        tabbed = self._separator == "auto" and flags & text.HAS_TAB
        hint = "; if fields hold spaces, read with separator tab" if tabbed else ""
        message = f"this row has {lines.counts[number]} fields, {first}; every row needs the same number{hint}"
        raise DataError(message, self._name, line)

    def _number_fields(self, lines: Lines, chosen: IntArray) -> None:
        begins, finishes = lines.fields(chosen)
        for c, (factoriser, ids) in enumerate(zip(self._factorisers, self._ids, strict=True)):
            ids.append(factoriser.ids(lines.buffer, begins, finishes, c, self._width))


class _LayoutBlocks:
    """How the rows lie in the file, of which all bytes are kept."""

    def __init__(self, separator: str) -> None:
        self._separator = separator
        self._raw: list[bytes] = []
        self._n_bytes = 0
        self._ends: list[IntArray] = []
        self._separators: list[npt.NDArray[np.uint8]] = []
        self._tokens: list[IntArray] = []

    def add(self, lines: Lines, rows: Mask, marks: Mask, n_tokens: int) -> None:
        """Take the lines of a block; ``n_tokens`` stand before it."""
        kept = np.flatnonzero(rows | marks)
        tabbed = lines.flags[kept] & text.HAS_TAB > 0
        if self._separator != "auto":
            tabbed = np.full(len(kept), self._separator == "tab")
        self._separators.append(np.where(tabbed, ord("\t"), ord(" ")).astype(np.uint8))
        self._tokens.append(np.where(marks[kept], -1, n_tokens + np.cumsum(rows[kept]) - 1).astype(np.int64))
        self._ends.append(self._n_bytes + lines.ends[kept])
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


def _document_marks(lines: Lines) -> Mask:
    found = lines.begin_with(_DOCSTART)
    for number in np.flatnonzero(found).tolist():
        after = int(lines.starts[number]) + len(_DOCSTART)
        found[number] = after == lines.ends[number] or lines.raw[after] in b" \t"
    return found


def _reference_row(rows: Mask, hashed: Mask, looks: Mask) -> int:
    """Line (from 0) that says how many fields a row has: the first that cannot be a comment, else the first."""
    for mask in (rows & ~hashed, rows & ~looks, rows):
        if mask.any():
            return int(np.argmax(mask))
    return 0
