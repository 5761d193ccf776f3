"""Tables of pandas and Polars as corpora: a row a token, a column that says which rows belong together.

::

    sentence  word    tag     length  emb
    1         Rome    B-LOC   4       [0.3, ...]       word: text       length: a number       emb: rows of numbers
    1         fell    O       4       [0.1, ...]
    2         ...

Neither package is imported here: a table is anything with named columns that give NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from loglinear.arrays import Array, Bool, Float, Int32, Int64
from loglinear.data.columns.corpus import MOST_VALUE, PYTHON, Attributes, Column, Columns, check_unicode, offsets_of
from loglinear.errors import DataError, OptionError


def features_from_frame(
    frame: Any, group: str, label: str | None = None, columns: Sequence[str] | None = None
) -> Attributes | Columns:
    """The corpus of a pandas or Polars table.

    Text becomes the attributes ``column:value``, true and false the attribute ``column`` with the value 1 or 0, numbers
    and rows of numbers dense features. Missing cells give none.

    Parameters
    ----------
    frame : DataFrame
        A row a token.
    group : str
        The column whose equal values make a sequence; one that is missing is that of the row before. Sequences are in
        order of first occurrence.
    label : str, optional
        The column of labels.
    columns : list of str, optional
        Columns of text to keep as such, in this order, for a model with a template; other text is left out then.

    Raises
    ------
    DataError
        Naming column and row (from 0).
    """
    names = list(frame.columns)
    for name in [group, *(columns or ()), *(() if label is None else (label,))]:
        if name not in names:
            raise OptionError(f"the table has no column {name!r}; it has {', '.join(map(repr, names))}")
    if twice := {str(name) for name in names if list(map(str, names)).count(str(name)) > 1}:
        raise DataError(f"the table has more than one column {min(twice)!r}; give each a name of its own")
    order, offsets = _sequences(_values(frame, group), group)
    texts: dict[str, Column] = {}
    flags: dict[str, tuple[Bool, Float]] = {}
    dense: dict[str, Float] = {}
    for name in names:
        if name in (group, label):
            continue
        found, called = _read_column(name, _values(frame, name)), str(name)
        if isinstance(found, Column):
            texts[called] = found.at(order)
        elif isinstance(found, tuple):
            flags[called] = (found[0][order], found[1][order])
        else:
            dense[called] = found[order]
    labels = None if label is None else _labels(label, _values(frame, label)).at(order)
    lines = np.zeros(len(order), dtype=np.int64)
    if columns is not None:
        return _columns(list(map(str, columns)), texts, labels, offsets, lines, dense)
    pointer, ids, weights, values = _attributes(len(order), texts, flags)
    return Attributes(
        PYTHON, offsets, lines, label=labels, pointer=pointer, ids=ids, weights=weights, values=values,
        dense=dense or None,
    )  # fmt: skip


def _values(frame: Any, name: Any) -> Array:
    values: Array = frame[name].to_numpy()
    return values


def _is_missing(value: Any) -> bool:
    return (
        value is None or (isinstance(value, float) and value != value) or type(value).__name__ in ("NAType", "NaTType")
    )


def _sequences(values: Array, name: str) -> tuple[Int64, Int64]:
    """The rows sequence by sequence, and the offsets of these [S + 1]."""
    number: dict[Any, int] = {}
    sequence = np.empty(len(values), dtype=np.int64)
    last = -1
    for row, value in enumerate(values.tolist()):
        if not _is_missing(value):
            try:
                last = number.setdefault(value, len(number))
            except TypeError:
                raise DataError(f"column {name!r}, row {row} (from 0): {value!r:.40} cannot name a sequence") from None
        elif last < 0:
            raise DataError(f"column {name!r}, row {row} (from 0): the first row belongs to no sequence")
        sequence[row] = last
    return np.argsort(sequence, kind="stable"), offsets_of(np.bincount(sequence, minlength=len(number)))


def _labels(name: str, values: Array) -> Column:
    for row, value in enumerate(values.tolist()):
        if not isinstance(value, str):
            raise DataError(f"column {name!r}, row {row} (from 0): a label is text, not {value!r:.40}")
    return Column.from_strings(values.tolist())


def _read_column(name: str, values: Array) -> Column | tuple[Bool, Float] | Float:
    """A column of text (-1 where it is missing), of flags (present [N], values [N]) or of numbers [N, W]."""
    if values.dtype.kind in "fiu":
        return _checked(name, values.reshape(len(values), values[:1].size or 1).astype(np.float64))
    if values.dtype.kind == "b":
        return np.ones(len(values), dtype=np.bool_), values.astype(np.float64)
    given = values.tolist() if values.ndim == 1 else list(values)
    present = np.array([not _is_missing(value) for value in given], dtype=np.bool_)
    known = [value for value in given if not _is_missing(value)]
    if all(isinstance(value, str) for value in known):
        column = Column.from_strings([value if isinstance(value, str) else "" for value in given])
        return Column(np.where(present, column.ids, -1).astype(np.int32), column.values)
    if all(isinstance(value, bool | np.bool_) for value in known):
        return present, np.array([bool(value) and there for value, there in zip(given, present, strict=True)], float)
    rows = [(row, value) for row, value in enumerate(given) if present[row]]
    width = np.size(rows[0][1])
    matrix = np.full((len(given), width), np.nan)
    for row, value in rows:
        try:
            matrix[row] = np.asarray(value, dtype=np.float64).reshape(width)
        except (TypeError, ValueError):
            what = f"{value!r:.40} is neither text, true or false, a number nor {width} numbers as in the first row"
            raise DataError(f"column {name!r}, row {row} (from 0): {what}") from None
    return _checked(name, matrix)


def _checked(name: str, matrix: Float) -> Float:
    with np.errstate(invalid="ignore"):
        wrong = np.argwhere(np.abs(matrix) > MOST_VALUE)
    some = np.isnan(matrix).sum(axis=1)
    if (half := np.flatnonzero((some > 0) & (some < matrix.shape[1]))).size:
        raise DataError(f"column {name!r}, row {half[0]} (from 0): a number is missing")
    if len(wrong):
        message = f"{matrix[tuple(wrong[0])]:g} is too large; numbers are at most {MOST_VALUE:g}"
        raise DataError(f"column {name!r}, row {wrong[0][0]} (from 0): {message}")
    return matrix


def _attributes(
    n: int, texts: dict[str, Column], flags: dict[str, tuple[Bool, Float]]
) -> tuple[Int64, Int32, Float | None, list[str]]:
    """Attributes of N tokens, those of a token in the order of the columns: pointer, numbers, values and names."""
    names, numbers, values = list[str](), list[Int64](), list[Float]()
    for name, column in texts.items():
        numbers.append(np.where(column.ids >= 0, column.ids + np.int64(len(names)), -1))
        values.append(np.ones(n))
        names += [f"{name}:{value}" for value in column.values]
    for name, (present, value) in flags.items():
        numbers.append(np.where(present, np.int64(len(names)), -1))
        values.append(value)
        names.append(name)
    if not numbers:
        return np.zeros(n + 1, dtype=np.int64), np.zeros(0, dtype=np.int32), None, []
    table, weights = np.stack(numbers, axis=1), np.stack(values, axis=1)
    kept, index = table >= 0, dict[str, int]()
    same = np.array([index.setdefault(name, len(index)) for name in names], dtype=np.int64)
    table, names = same[table], list(index)  # a flag may be called as a text and its column are
    chosen = weights[kept]
    return offsets_of(kept.sum(axis=1)), table[kept].astype(np.int32), None if (chosen == 1.0).all() else chosen, names


def _columns(
    names: Sequence[str], texts: dict[str, Column], labels: Column | None, offsets: Int64, lines: Int64,
    dense: dict[str, Float],
) -> Columns:  # fmt: skip
    kept: list[Column] = []
    for name in names:
        if name not in texts:
            raise DataError(f"column {name!r} does not hold text, which templates look at")
        if (texts[name].ids < 0).any():
            raise DataError(f"column {name!r}: a text is missing; templates look at all rows")
        kept.append(texts[name])
    if labels is not None:
        kept.append(labels)
    corpus = Columns(PYTHON, offsets, lines, kept, dense=dense or None)
    check_unicode(corpus)
    return corpus
