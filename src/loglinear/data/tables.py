"""Tables with named columns and one example per row: CSV, TSV and JSON Lines.

CSV cells may be quoted, as spreadsheets write them, and may then hold commas and line ends; TSV cells are taken
literally. In JSON Lines each line is an object with the cells by name; a key that is missing or null is an empty cell.
All cells are strings here; :meth:`TableFile.numbers` converts columns to numbers.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from loglinear.arrays import Float, Int64
from loglinear.data.files import Source, check_text, json_object, read_bytes, source_name
from loglinear.errors import DataError, OptionError
from loglinear.wording import how_many

SEQUENCES = "if these are tokens in columns, loglinear train takes the file, as does classify train-sequences"

FORMATS = ("csv", "tsv", "jsonl")
LONGEST_CELL = 2**31 - 1
GREATEST = 1e100  # largest number accepted in a table: its square is still finite


@dataclass(frozen=True)
class TableFile:
    """N rows under named columns.

    Attributes
    ----------
    file : str
        File name for messages.
    columns : dict of list of str
        Name to its N cells, in the file's order.
    lines : list of int
        Line (from 1) where each row begins.
    """

    file: str
    columns: dict[str, list[str]]
    lines: list[int]

    @property
    def n_rows(self) -> int:
        """N."""
        return len(self.lines)

    def __len__(self) -> int:
        return self.n_rows

    def column(self, name: str) -> list[str]:
        """The cells of a column; an error lists the existing columns."""
        if name not in self.columns:
            no_table = "" if len(self.columns) > 1 else f"; {SEQUENCES}"
            raise DataError(f"there is no column {name!r}; there are: {', '.join(self.columns)}{no_table}", self.file)
        return self.columns[name]

    def numbers(self, names: Sequence[str], *, empty: float | None = None) -> Float:
        """Columns as numbers [N, k]; empty cells become ``empty``, or are an error if that is None."""
        out = np.empty((self.n_rows, len(names)))
        for place, name in enumerate(names):
            for row, cell in enumerate(self.column(name)):
                value = number_of(cell) if cell.strip() else empty
                if value is None:
                    content = f"is {cell!r:.60}" if cell.strip() else "is empty"
                    limit = f" (up to {GREATEST:g})" if is_like_a_number(cell) else ""
                    raise DataError(f"column {name!r} {content}, not a number{limit}", self.file, self.lines[row])
                out[row, place] = value
        return out

    def without(self, names: Sequence[str]) -> TableFile:
        """The table without some of its columns; at least one must remain."""
        for name in names:
            self.column(name)
        dropped = set(names)
        left = {name: cells for name, cells in self.columns.items() if name not in dropped}
        if not left:
            raise DataError(f"there is no column besides {', '.join(map(repr, names))}", self.file)
        return TableFile(self.file, left, self.lines)

    def select(self, rows: Sequence[int] | Int64) -> TableFile:
        """Some of the rows."""
        chosen = [int(row) for row in rows]
        columns = {name: [cells[row] for row in chosen] for name, cells in self.columns.items()}
        return TableFile(self.file, columns, [self.lines[row] for row in chosen])


def number_of(cell: str) -> float | None:
    """The number in a cell, or None; also None for nan and for numbers beyond :data:`GREATEST`."""
    return float(cell) if is_like_a_number(cell) and abs(float(cell)) <= GREATEST else None


def is_like_a_number(cell: str) -> bool:
    """Whether a cell is a number, including nan, inf and numbers that are too large, such as 1e400."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def table_format_of(source: Source) -> str:
    """Format by extension: ``.tsv`` or ``.tab``, ``.jsonl`` (also before ``.gz``), anything else CSV."""
    name = source_name(source).lower().removesuffix(".gz")
    if name.endswith((".tsv", ".tab")):
        return "tsv"
    return "jsonl" if name.endswith((".jsonl", ".ndjson")) else "csv"


def read_table(source: Source, format: str = "auto") -> TableFile:
    """Read a table; CSV and TSV begin with a row of names.

    Parameters
    ----------
    source : path, ``-`` or open binary file
        Also compressed with gzip.
    format : {"auto", "csv", "tsv", "jsonl"}
        ``auto`` goes by the extension, see :func:`table_format_of`.

    Raises
    ------
    DataError
        With file and line: text that is not UTF-8, empty or repeated column names, rows of different lengths, an
        unclosed quote, invalid JSON, values that are lists or objects, no rows at all.
    """
    chosen = table_format_of(source) if format == "auto" else format
    if chosen not in FORMATS:
        raise OptionError(f"format is {format!r}; choose one of auto, {', '.join(FORMATS)}")
    name, raw = source_name(source), read_bytes(source)
    start = check_text(raw, name)
    table = _objects(raw[start:].decode(), name) if chosen == "jsonl" else _cells(raw, start, name, chosen)
    if not table.n_rows:
        raise DataError("the table has no rows", name)
    return table


def _cells(raw: bytes, start: int, name: str, format: str) -> TableFile:
    stream = io.BytesIO(raw)  # shares the bytes, where a StringIO would have four for each character
    stream.seek(start)
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
    if format == "csv":
        reader = csv.reader(text, strict=True)
    else:
        reader = csv.reader(text, delimiter="\t", quoting=csv.QUOTE_NONE)
    rows: list[list[str]] = []
    lines: list[int] = []
    names: list[str] = []
    begins = 1
    limit_before = csv.field_size_limit(LONGEST_CELL)
    try:
        for row in reader:
            line, begins = begins, reader.line_num + 1
            if not row or row == [""]:
                continue
            if not names:
                names = _checked_names(row, name, line)
                continue
            if len(row) != len(names):
                cells, columns_are = how_many(len(row), "cell"), how_many(len(names), "column")
                no_table = "" if len(names) > 1 else f"; {SEQUENCES}"
                raise DataError(f"{cells} under {columns_are}{no_table}", name, line)
            rows.append(row)
            lines.append(line)
    except csv.Error as error:
        raise DataError(f"no valid {format.upper()}: {error}", name, begins) from None
    finally:
        csv.field_size_limit(limit_before)
    columns = list(zip(*rows, strict=True)) or [() for _ in names]
    return TableFile(name, {key: list(cells) for key, cells in zip(names, columns, strict=True)}, lines)


def _checked_names(row: list[str], file: str, line: int) -> list[str]:
    seen = set[str]()
    for place, column in enumerate(row):
        if not column.strip():
            raise DataError(f"column {place + 1} has no name; the first row holds the names of the columns", file, line)
        if column in seen:
            raise DataError(f"two columns are called {column!r}", file, line)
        seen.add(column)
    return row


def _objects(text: str, file: str) -> TableFile:
    rows: list[dict[str, str]] = []
    lines: list[int] = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            rows.append(_object(line, file, number))
            lines.append(number)
    names = list(dict.fromkeys(key for row in rows for key in row))
    return TableFile(file, {key: [row.get(key, "") for row in rows] for key in names}, lines)


def _object(line: str, file: str, number: int) -> dict[str, str]:
    record = json_object(line, '{"label": "spam", "text": "..."}', file, number)
    for key, value in record.items():
        try:
            (key + str(value)).encode()
        except UnicodeEncodeError:
            raise DataError(f"{key!r} holds half of a character (a lone surrogate)", file, number) from None
        if isinstance(value, list | dict):
            raise DataError(f"{key!r} is a {type(value).__name__}; a cell is a string or a number", file, number)
    return {key: _cell(value) for key, value in record.items()}


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def write_table(columns: Mapping[str, Sequence[Any]], out: BinaryIO, format: str = "csv", digits: int = 6) -> None:
    """Write columns of the same length as CSV, TSV or JSON Lines; floats in CSV and TSV keep that many ``digits``."""
    rows = zip(*columns.values(), strict=True)
    if format == "jsonl":
        for row in rows:
            out.write(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False).encode() + b"\n")
        return
    text = io.StringIO()
    cells = [
        list(columns),
        *([f"{cell:.{digits}g}" if isinstance(cell, float) else cell for cell in row] for row in rows),
    ]
    if format == "csv":
        csv.writer(text, lineterminator="\n").writerows(cells)
    else:  # tabs and line ends in a cell become spaces
        text.writelines("\t".join(" ".join(str(cell).split()) for cell in row) + "\n" for row in cells)
    out.write(text.getvalue().encode())
