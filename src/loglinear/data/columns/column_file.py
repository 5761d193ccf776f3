"""CoNLL column files: one token per line, fields separated by blanks, a blank line between sentences.

::

    # sent_id = 1                       a comment, if it comes before the first token of a sentence
    -DOCSTART- -X- O                    a document mark: not a token, but it ends a sentence
    Confidence NN B-NP
    in IN B-PP

CRLF, a byte order mark, leading and trailing blanks, several blank lines and a missing last line feed are accepted, and
kept when the file is written back with columns appended. The format is that of the CoNLL-2000 task (Tjong Kim Sang and
Buchholz 2000). Its corpus has ``#`` as a token, so not every line that begins with ``#`` is a comment.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from loglinear.data.columns.corpus import Column, Columns, Layout
from loglinear.data.files import Source, source_name, text_blocks
from loglinear.errors import DataError
from loglinear.wording import how_many

Appended = Column | Sequence[str] | tuple[npt.NDArray[np.integer], Sequence[str]]
BLOCK = 1 << 20  # bytes read at a time
_BLANK = re.compile(r"[ \t\r\n]")


def read_columns(
    source: Source, *, separator: str = "auto", comments: str = "auto", docstart: bool = True, layout: bool = True
) -> Columns:
    """Read a column file block by block; with ``layout=False`` only one block of its text is in memory at a time.

    Parameters
    ----------
    source : path, ``-`` or open binary file
        Also compressed with gzip.
    separator : {"auto", "tab", "space"}
        ``auto``: runs of spaces and tabs. ``tab``: each tab, so that fields may hold spaces. ``space``: runs of spaces.
    comments : str
        ``auto``: a line is a comment if it begins with ``#``, comes before the first token of a sentence, and either
        has a different number of fields than the rows or looks like ``# key = value``. ``none``: there are no comments.
        Any other value: comments are the lines that begin with it.
    docstart : bool
        Whether lines with the first field ``-DOCSTART-`` are document marks (they end a sentence and are not tokens).
    layout : bool
        Whether to keep the file's bytes, so that :func:`write_columns` can write them back with columns appended.

    Returns
    -------
    Columns

    Raises
    ------
    DataError
        With file and line: rows of different lengths, an empty field, invalid UTF-8, a NUL byte, no token at all.
    """
    from loglinear.data.columns.scanning import ColumnBlocks

    blocks = ColumnBlocks(source_name(source), separator, comments, docstart, layout)
    for block in text_blocks(source, BLOCK):
        blocks.add(block)
    return blocks.corpus()


def write_columns(corpus: Columns, out: BinaryIO, appended: Sequence[Appended] = ()) -> None:
    """Write a corpus as a column file, with columns appended to each row.

    A corpus read from a column file is written back unchanged: comments, blank lines and line ends stay, appended
    columns follow each row's last field after the row's own separator (a tab if the row has one, else a space), and
    ``-DOCSTART-`` lines get an ``O`` per column. Any other corpus is written with spaces between fields, or with tabs
    if a value holds a space, and a blank line after each sentence.

    Parameters
    ----------
    corpus : Columns
    out : binary file
    appended : list of columns
        Each a :class:`Column`, a pair (ids [N], values), or N strings.
    """
    from loglinear.data.columns import scanning

    columns = [_as_column(column, corpus) for column in appended]
    layout = corpus.layout
    if layout is None:
        columns = [*corpus.columns, *columns]
        layout = _fresh_layout(corpus, columns)
    if not columns:
        out.write(layout.raw)
        return
    values = [value.encode() for value in _checked_values(columns, corpus, layout)]
    starts = np.cumsum([0] + [len(column.values) for column in columns[:-1]])
    ids = np.empty((len(layout.ends), len(columns)), dtype=np.int64)
    for number, column in enumerate(columns):
        ids[:, number] = column.ids[layout.tokens] + starts[number] if len(column) else 0
    ids[layout.tokens < 0] = len(values)
    separators = np.repeat(layout.separators, len(columns)).reshape(ids.shape)
    if corpus.layout is None:  # nothing comes before the first column
        separators[:, 0] = 0
    positions = np.repeat(layout.ends, len(columns))
    out.write(scanning.spliced(layout.raw, positions, separators.ravel(), ids.ravel(), [*values, b"O"]))


def _as_column(column: Appended, corpus: Columns) -> Column:
    if isinstance(column, tuple) and len(column) == 2 and isinstance(column[0], np.ndarray):
        column = Column(column[0].astype(np.int32), list(column[1]))
    elif not isinstance(column, Column):
        column = Column.from_strings(column)
    if len(column) != corpus.n_tokens:
        raise DataError(
            f"an appended column has {how_many(len(column), 'entry')}, the corpus {how_many(corpus.n_tokens, 'token')}"
        )
    return column


def _fresh_layout(corpus: Columns, columns: list[Column]) -> Layout:
    """Layout of rows without fields: a line feed per token, and one more after each sentence."""
    positions = np.arange(corpus.n_tokens, dtype=np.int64)
    ends = positions + np.repeat(np.arange(corpus.n_sentences), np.diff(corpus.offsets))
    spaced = any(" " in value for column in columns for value in column.values)
    separators = np.full(corpus.n_tokens, ord("\t" if spaced else " "), dtype=np.uint8)
    return Layout(b"\n" * (corpus.n_tokens + corpus.n_sentences), ends, separators, positions, spaced)


def _checked_values(columns: list[Column], corpus: Columns, layout: Layout) -> list[str]:
    """All values of the columns; raises DataError for a value that could not be read back as one field."""
    for column in columns:
        for number, value in enumerate(column.values):
            core = value.replace(" ", "") if layout.spaced and value.strip(" ") == value else value
            if not core or _BLANK.search(core):
                for position in np.flatnonzero(column.ids == number)[:1].tolist():
                    message = f"{value!r:.60} cannot be written as a field of a column file (blank or empty)"
                    raise corpus.error(message, position)
    return [value for column in columns for value in column.values]
