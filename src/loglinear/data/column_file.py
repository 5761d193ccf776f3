"""CoNLL column files: one token a line, fields between blanks, a blank line between sentences.

::

    # sent_id = 1                       a comment, when it stands before the first token of a sentence
    -DOCSTART- -X- O                    a document mark: no token; it ends a sentence
    Confidence NN B-NP
    in IN B-PP

CRLF, a byte order mark, leading and trailing blanks, several blank lines and a missing last line feed are accepted, and
kept when the file is written back with columns appended. See the CoNLL-2000 task (Tjong Kim Sang and Buchholz 2000)
for the format; its corpus has tokens ``#``, which is why a comment must look like one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import numpy.typing as npt

from loglinear.data.columns import Column, Columns, IntArray, Layout
from loglinear.data.files import Source, check_text, read_bytes, source_name
from loglinear.errors import DataError, OptionError

if TYPE_CHECKING:
    from loglinear.data.text import Lines

Mask = npt.NDArray[np.bool_]
Appended = Column | Sequence[str] | tuple[npt.NDArray[np.integer], Sequence[str]]
_DOCSTART = b"-DOCSTART-"
_KEY_VALUE = re.compile(rb"#[ \t]+[^ \t=].*[ \t]=([ \t]|$)")
_BLANK = re.compile(r"[ \t\r\n]")


def read_columns(source: Source, *, separator: str = "auto", comments: str = "auto", docstart: bool = True) -> Columns:
    """Read a column file.

    Parameters
    ----------
    source : path, ``-`` or open binary file
        Also compressed with gzip.
    separator : {"auto", "tab", "space"}
        ``auto``: runs of spaces and tabs. ``tab``: each tab, so that fields may hold spaces. ``space``: runs of spaces.
    comments : str
        ``auto``: a line before the first token of a sentence that begins with ``#`` and has another number of fields
        than the rows, or looks like ``# key = value``. ``none``: no line. Anything else: lines that begin with it.
    docstart : bool
        Whether lines with the first field ``-DOCSTART-`` are document marks (they end a sentence and are no tokens).

    Returns
    -------
    Columns
        With ``layout``, so that :func:`write_columns` keeps the file's bytes.

    Raises
    ------
    DataError
        With file and line: rows of different lengths, an empty field, invalid UTF-8, a NUL byte, no token at all.
    """
    from loglinear.data import text

    separations = {"auto": text.BLANKS, "tab": text.TAB, "space": text.SPACES}
    if separator not in separations:
        raise OptionError(f"separator is {separator!r}; choose one of {', '.join(separations)}")
    name, raw = source_name(source), read_bytes(source)
    lines = text.lines_of(raw, check_text(raw, name), separations[separator])
    filled = lines.counts > 0
    marks = _document_marks(lines) if docstart else np.zeros(len(filled), dtype=np.bool_)
    rows = filled & ~marks
    rows &= ~_comments(lines, rows, comments)
    chosen = np.flatnonzero(rows)
    if len(chosen) == 0:
        raise DataError("the file holds no tokens", name)
    width = _check_rows(lines, chosen, name, separator, auto_comments=comments == "auto")
    begins, finishes = lines.fields(chosen)
    columns = [lines.column(begins[number::width], finishes[number::width]) for number in range(width)]
    breaks = np.cumsum(~filled | marks)[chosen]  # equal for two tokens if and only if no break lies between
    offsets = np.concatenate(([0], np.flatnonzero(np.diff(breaks)) + 1, [len(chosen)])).astype(np.int64)
    return Columns(name, offsets, chosen + 1, columns, layout=_layout(lines, rows, marks, separator))


def _document_marks(lines: Lines) -> Mask:
    found = lines.begin_with(_DOCSTART)
    for number in np.flatnonzero(found).tolist():
        after = int(lines.starts[number]) + len(_DOCSTART)
        found[number] = after == lines.ends[number] or lines.raw[after] in b" \t"
    return found


def _comments(lines: Lines, rows: Mask, comments: str) -> Mask:
    """Mask [L] of the comment lines among the candidates ``rows``."""
    if comments == "none":
        return np.zeros(len(rows), dtype=np.bool_)
    if comments != "auto":
        if not comments.strip() or comments[0].isspace() or "\n" in comments:
            raise OptionError(f"comments is {comments!r}; give auto, none, or what a comment begins with, such as #")
        return rows & lines.begin_with(comments.encode())
    hashed = rows & lines.begin_with(b"#")
    if not hashed.any():
        return hashed
    looks = np.zeros(len(rows), dtype=np.bool_)
    for number in np.flatnonzero(hashed & (lines.begin_with(b"# ") | lines.begin_with(b"#\t"))).tolist():
        looks[number] = _KEY_VALUE.match(lines.raw, lines.starts[number], lines.ends[number]) is not None
    width = lines.counts[_reference_row(rows, hashed, looks)]
    candidates = hashed & (looks | (lines.counts != width))
    # A candidate is a comment if the last line that is none comes before the last break between sentences.
    order = np.arange(len(rows))
    last_token = np.maximum.accumulate(np.where(rows & ~candidates, order, -1))
    last_break = np.maximum.accumulate(np.where(~rows, order, -1))
    found: Mask = candidates & (last_token <= last_break)
    return found


def _reference_row(rows: Mask, hashed: Mask, looks: Mask) -> int:
    """Line (from 0) that says how many fields a row has: the first that cannot be a comment, else the first."""
    for mask in (rows & ~hashed, rows & ~looks, rows):
        if mask.any():
            return int(np.argmax(mask))
    return 0


def _check_rows(lines: Lines, chosen: IntArray, name: str, separator: str, *, auto_comments: bool) -> int:
    """Number of fields of the rows, after refusing the first line that is no row of that many."""
    from loglinear.data import text

    reference = chosen[0]
    if auto_comments:
        plain = chosen[lines.buffer[lines.starts[chosen]] != ord("#")]
        reference = plain[0] if len(plain) else reference
    width = int(lines.counts[reference])
    bad = (lines.counts[chosen] != width) | (lines.flags[chosen] & (text.HAS_RETURN | text.HAS_EMPTY_FIELD) > 0)
    if bad.any():
        number = chosen[np.argmax(bad)]
        flags, line = int(lines.flags[number]), int(number) + 1
        if flags & text.HAS_RETURN:
            raise DataError("a carriage return inside a line; end lines with LF or CRLF", name, line)
        if flags & text.HAS_EMPTY_FIELD:
            raise DataError("an empty field; put exactly one tab between fields", name, line)
        message = f"this row has {lines.counts[number]} fields, the first row (line {reference + 1}) has {width}"
        hint = (
            "; if fields hold spaces, read with separator tab" if separator == "auto" and flags & text.HAS_TAB else ""
        )
        raise DataError(f"{message}; every row needs the same number{hint}", name, line)
    return width


def _layout(lines: Lines, rows: Mask, marks: Mask, separator: str) -> Layout:
    from loglinear.data import text

    kept = np.flatnonzero(rows | marks)
    tabbed = (lines.flags[kept] & text.HAS_TAB > 0) if separator == "auto" else separator == "tab"
    separators = np.where(tabbed, ord("\t"), ord(" ")).astype(np.uint8)
    separators = np.broadcast_to(separators, kept.shape)
    tokens = np.where(marks[kept], -1, np.cumsum(rows[kept]) - 1).astype(np.int64)
    return Layout(lines.raw, lines.ends[kept], separators, tokens, spaced=separator == "tab")


def write_columns(corpus: Columns, out: BinaryIO, appended: Sequence[Appended] = ()) -> None:
    """Write a corpus as a column file, with columns appended to each row.

    A corpus read from a column file is written back as it was: comments, blank lines and line ends stay, appended
    columns follow each row's last field after the row's own separator (a tab if the row has one, else a space), and
    ``-DOCSTART-`` lines get an ``O`` per column. Any other corpus is written with spaces between fields, or with tabs
    if a value holds a space, and a blank line after each sentence.

    Parameters
    ----------
    corpus : Columns
        What to write.
    out : binary file
        Where to.
    appended : list of columns
        Each a :class:`Column`, a pair (ids [N], values), or N strings.
    """
    from loglinear.data import text

    columns = [_as_column(column, corpus) for column in appended]
    layout, lead = corpus.layout, True
    if layout is None:
        columns, lead = [*corpus.columns, *columns], False
        layout = _fresh_layout(corpus, columns)
    if not columns:
        out.write(layout.raw)
        return
    base = [value.encode() for value in _checked_values(columns, corpus, layout)]
    starts = np.cumsum([0] + [len(column.values) for column in columns[:-1]])
    ids = np.empty((len(layout.ends), len(columns)), dtype=np.int64)
    for number, column in enumerate(columns):
        ids[:, number] = column.ids[layout.tokens] + starts[number] if len(column) else 0
    ids[layout.tokens < 0] = len(base)
    separators = np.repeat(layout.separators, len(columns)).reshape(ids.shape)
    if not lead:
        separators[:, 0] = 0
    positions = np.repeat(layout.ends, len(columns))
    out.write(text.spliced(layout.raw, positions, separators.ravel(), ids.ravel(), [*base, b"O"]))


def _as_column(column: Appended, corpus: Columns) -> Column:
    if isinstance(column, tuple) and len(column) == 2 and isinstance(column[0], np.ndarray):
        column = Column(column[0].astype(np.int32), list(column[1]))
    elif not isinstance(column, Column):
        column = Column.from_strings(column)
    if len(column) != corpus.n_tokens:
        raise DataError(f"an appended column has {len(column)} entries, the corpus {corpus.n_tokens} tokens")
    return column


def _fresh_layout(corpus: Columns, columns: list[Column]) -> Layout:
    """Layout of rows without fields: a line feed per token, and one more after each sentence."""
    positions = np.arange(corpus.n_tokens, dtype=np.int64)
    ends = positions + np.repeat(np.arange(corpus.n_sentences), np.diff(corpus.offsets))
    spaced = any(" " in value for column in columns for value in column.values)
    separators = np.full(corpus.n_tokens, ord("\t" if spaced else " "), dtype=np.uint8)
    return Layout(b"\n" * (corpus.n_tokens + corpus.n_sentences), ends, separators, positions, spaced)


def _checked_values(columns: list[Column], corpus: Columns, layout: Layout) -> list[str]:
    """All values of the columns, after refusing one that would not be read back as one field."""
    for column in columns:
        for number, value in enumerate(column.values):
            core = value.replace(" ", "") if layout.spaced and value.strip(" ") == value else value
            if not core or _BLANK.search(core):
                found = column.ids == number
                if found.any():
                    message = f"{value!r:.60} cannot be written as a field of a column file (blank or empty)"
                    raise corpus.error(message, int(np.argmax(found)))
    return [value for column in columns for value in column.values]
