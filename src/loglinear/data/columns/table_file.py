"""Long tables: a row for each token, under named columns, and a column that says which sentence the row is of.

::

    Sentence #,Word,POS,Tag            The sentence may be named in its first row alone or in each; a new name, or the
    Sentence: 1,Thousands,NNS,O        same after an empty cell and others, begins a new sentence.
    ,of,IN,O
    Sentence: 2,London,NNP,B-geo

Tables are CSV or TSV files (:func:`read_table_columns`), or data frames of pandas and Polars (:func:`from_frame`),
which need not be installed. The tokens become the first column and the others follow in their order; the last is the
label unless another is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, BinaryIO

import numpy as np

from loglinear.data.columns.corpus import PYTHON, Column, Columns, check_unicode
from loglinear.data.files import Source
from loglinear.data.tables import TableFile, read_table, write_table
from loglinear.errors import DataError

SENTENCE_NAMES = ("sentence #", "sentence_id", "sentence id", "sentence_idx", "sent_id", "sentence", "sent")
TOKEN_NAMES = ("word", "token", "form", "words", "tokens", "text")


def read_table_columns(
    source: Source, format: str = "csv", *, sentence: str | None = None, tokens: str | None = None
) -> Columns:
    """Read a long table from a CSV or TSV file.

    Parameters
    ----------
    source : path, ``-`` or open binary file
    format : {"csv", "tsv"}
    sentence, tokens : str, optional
        Names of the columns that say which sentence a row is of, and that hold its token. If not given, columns called
        as usual are found (``Sentence #``, ``sentence_id``, ...; ``Word``, ``token``, ...).

    Raises
    ------
    DataError
        With file and line: no such column, a row without a token, a sentence that comes back after another, and
        whatever is wrong with the file.
    """
    return replace(corpus_of_table(read_table(source, format), sentence, tokens), format=format)


def from_frame(frame: Any, *, sentence: str | None = None, tokens: str | None = None) -> Columns:
    """A corpus from a long table in a data frame of pandas or Polars; empty cells may be missing values.

    ``sentence`` and ``tokens`` name columns as in :func:`read_table_columns`.

    Examples
    --------
    >>> corpus = from_frame(frame, sentence="Sentence #", tokens="Word")  # doctest: +SKIP
    """
    names = [str(name) for name in getattr(frame, "columns", ())]
    if not names or not hasattr(frame, "__getitem__") or len(set(names)) != len(names):
        raise DataError(f"a {type(frame).__name__} is not a data frame with named columns")
    columns = {name: _cells(name, frame[own]) for name, own in zip(names, frame.columns, strict=True)}
    n_rows = len(next(iter(columns.values())))
    return corpus_of_table(TableFile(PYTHON, columns, [0] * n_rows), sentence, tokens)


def _cells(name: str, values: Iterable[Any]) -> list[str]:
    """A column's cells as strings."""
    try:
        return list(map(_cell, values))
    except ValueError:  # an array has no single truth value
        raise DataError(
            f"column {name!r} holds arrays, and these columns are text; loglinear.data.features_from_frame makes "
            "features of both"
        ) from None


def _cell(value: Any) -> str:
    """A cell as a string, empty if the value is missing; whole numbers have no decimals."""
    if value is None or value != value or type(value).__name__ in ("NAType", "NaTType"):  # NaN
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def corpus_of_table(table: TableFile, sentence: str | None = None, tokens: str | None = None) -> Columns:
    """A long table as a corpus."""
    sentence = _named(table, sentence, SENTENCE_NAMES, "the sentence of each row", "--sentence-column")
    tokens = _named(table, tokens, TOKEN_NAMES, "the token of each row", "--token-column")
    others = [name for name in table.columns if name not in (sentence, tokens)]
    offsets = _sentences(table, sentence)
    lines = np.array(table.lines, dtype=np.int64)
    corpus = Columns(table.file, offsets, lines, [], names=[tokens, *others], origin=table)
    corpus.columns = [Column.from_strings(table.columns[name]) for name in (tokens, *others)]
    for number, word in enumerate(corpus.columns[0].values):
        if not word.strip():
            position = int(np.argmax(corpus.columns[0].ids == number))
            raise corpus.error(f"column {tokens!r} is empty; a row is a token", position)
    check_unicode(corpus)
    return corpus


def _named(table: TableFile, name: str | None, usual: Sequence[str], what: str, flag: str) -> str:
    if name is not None:
        table.column(name)
        return name
    lowered = {column.strip().lower(): column for column in reversed(table.columns)}
    for each in usual:
        if each in lowered:
            return lowered[each]
    raise DataError(
        f"no column is called as usual for {what} ({', '.join(usual)}); there are {', '.join(table.columns)}; name it "
        f"with {flag}",
        table.file,
    )


def _sentences(table: TableFile, sentence: str) -> Any:
    """Offsets [S + 1]: a sentence begins at a cell that is not empty and another than the last such."""
    starts, now, seen = [0], "", set[str]()
    for row, cell in enumerate(table.columns[sentence]):
        cell = cell.strip()
        if not cell or cell == now:
            continue
        if cell in seen:
            message = f"sentence {cell!r:.40} comes back after others; sort the rows, or rename one of the two"
            if table.file == PYTHON:
                raise DataError(f"row {row} (from 0): {message}")
            raise DataError(message, table.file, table.lines[row])
        seen.add(cell)
        now = cell
        if row:
            starts.append(row)
    return np.array([*starts, table.n_rows] if table.n_rows else [0], dtype=np.int64)


def write_table_columns(
    corpus: Columns, out: BinaryIO, format: str, appended: dict[str, Sequence[Any]] | None = None
) -> None:
    """Write a corpus as a long table, with further columns [N].

    A corpus read from a table keeps its columns; of any other, sentences are numbered from 1, and its columns are
    called as it names them, or ``token``, ``column1``, ...
    """
    if isinstance(corpus.origin, TableFile) and corpus.origin.n_rows == corpus.n_tokens:
        columns: dict[str, Sequence[Any]] = dict(corpus.origin.columns)
    else:
        numbers = np.repeat(np.arange(1, corpus.n_sentences + 1), np.diff(corpus.offsets)).tolist()
        names = corpus.names or ["token", *(f"column{c}" for c in range(1, corpus.n_columns))]
        columns = {"sentence_id": numbers, **{n: c.strings() for n, c in zip(names, corpus.columns, strict=True)}}
    for name, values in (appended or {}).items():
        while name in columns:
            name += "_"
        columns[name] = values
    write_table(columns, out, format, digits=4)


def is_long_table(head: bytes, format: str) -> bool:
    """Whether the first line of a CSV or TSV file names a column of sentences and one of tokens as usual."""
    first = head.removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0].decode(errors="replace")
    cells = {cell.strip().strip('"').lower() for cell in first.rstrip("\r").split("\t" if format == "tsv" else ",")}
    return bool(cells & set(SENTENCE_NAMES)) and bool(cells & set(TOKEN_NAMES))
