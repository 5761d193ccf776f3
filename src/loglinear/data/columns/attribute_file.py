r"""CRFsuite attribute files: one token per line, its label and its features separated by tabs.

::

    B-NP<TAB>w[0]=the<TAB>shape=x<TAB>length:3      an attribute without a value has the value 1
    I-NP<TAB>w[0]=10\:30                            a colon inside a name is \: and a backslash \\

A blank line ends a sequence; a line ``@weight:2.5`` sets the weight of the sequence it is in; a line that begins with
``#`` and has no tab is a comment. Several tabs in a row count as one, and spaces are part of names. The format is
CRFsuite's (Okazaki 2007) with two differences: a value that is not a number is an error here (CRFsuite reads it as
zero), and a ``#`` at the start of a later field is part of a name.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from loglinear.arrays import Bool, Float, Int64
from loglinear.data.columns.corpus import MOST_VALUE, Attributes, Column, offsets_of
from loglinear.data.files import Source, check_text, read_bytes, source_name
from loglinear.errors import DataError

if TYPE_CHECKING:
    from loglinear.data.columns.scanning import Lines

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_ESCAPE = re.compile(r"\\([\\:])")
_FIELD = re.compile(r"((?:\\[\\:]|[^:])*)(?::(.*))?", re.DOTALL)
_UNWRITABLE = re.compile(r"[\t\r\n]")
_WEIGHT = "@weight:"


def read_attributes(source: Source, labels: bool = True) -> Attributes:
    """Read a CRFsuite attribute file.

    Parameters
    ----------
    source : path, ``-`` or open binary file
        Also compressed with gzip.
    labels : bool
        Whether the first field of a line is the token's label; if not, all fields are attributes.

    Raises
    ------
    DataError
        With file and line: a value that is not a finite number, a nameless attribute, a line without a label, invalid
        UTF-8, a NUL byte, no token at all.
    """
    from loglinear.data.columns import scanning

    name, raw = source_name(source), read_bytes(source)
    lines = scanning.lines_of(raw, check_text(raw, name), scanning.TABS)
    comments = lines.begin_with(b"#") & (lines.flags & scanning.HAS_TAB == 0)
    chosen = np.flatnonzero((lines.counts > 0) & ~comments)
    if len(chosen) == 0:
        raise DataError("the file holds no tokens", name)
    _check_lines(lines, chosen, name, labels)
    begins, finishes = lines.fields(chosen)
    counts = lines.counts[chosen].astype(np.int64)
    breaks = np.cumsum(lines.counts == 0)[chosen]  # equal for two lines if and only if no blank line is between them
    head, declared = None, np.zeros(len(chosen), dtype=np.bool_)
    if labels:
        first = offsets_of(counts)[:-1]
        head = lines.column(begins[first], finishes[first])
        declared = np.array([value.startswith(_WEIGHT) for value in head.values])[head.ids]
        is_attribute = ~np.repeat(declared, counts)
        is_attribute[first] = False
        begins, finishes, counts = begins[is_attribute], finishes[is_attribute], counts - 1
    tokens = ~declared
    if not tokens.any():
        raise DataError("the file holds no tokens", name)
    offsets = np.append(np.flatnonzero(np.diff(breaks[tokens], prepend=-1)), np.count_nonzero(tokens)).astype(np.int64)
    sequence_weights = None
    if head is not None and declared.any():
        groups = breaks[tokens][offsets[:-1]]
        sequence_weights = _sequence_weights(head, declared, counts, breaks, groups, chosen + 1, name)
    pointer = offsets_of(counts[tokens])
    numbers = chosen[tokens] + 1
    column, weights = _parsed(lines.column(begins, finishes), pointer, numbers, name)
    label = None if head is None else _labels(head, tokens)
    return Attributes(name, offsets, numbers, label, pointer, column.ids, weights, column.values, sequence_weights)


def _check_lines(lines: Lines, chosen: Int64, name: str, labels: bool) -> None:
    """Reject the first line with a carriage return inside or, if there should be labels, without a label."""
    from loglinear.data.columns import scanning

    returns = lines.flags[chosen] & scanning.HAS_RETURN > 0
    before = np.maximum(lines.starts[chosen] - 1, 0)
    tabbed = (lines.buffer[before] == ord("\t")) & labels  # blanks before the first field are skipped
    for first in np.flatnonzero(returns | tabbed)[:1].tolist():
        no_label = "the line begins with a tab; a label is needed before the attributes"
        raise DataError(scanning.RETURN_INSIDE if returns[first] else no_label, name, int(chosen[first]) + 1)


def _sequence_weights(
    head: Column, declared: Bool, counts: Int64, breaks: Int64, groups: Int64, numbers: Int64, name: str
) -> Float:
    """Weights [S] of the sequences ``groups`` (blank lines before each), 1 if none is declared."""
    weights = np.ones(len(groups))
    for row in np.flatnonzero(declared).tolist():
        field = head.values[head.ids[row]]
        value = _number(field[len(_WEIGHT) :])
        sequence = int(np.searchsorted(groups, breaks[row]))
        line = int(numbers[row])
        if value is None or value < 0:
            raise DataError(f"{field!r:.60}: a sequence's weight is a number that is not negative", name, line)
        if counts[row] > 0:
            raise DataError("the weight of a sequence stands on a line of its own", name, line)
        if sequence == len(groups) or groups[sequence] != breaks[row]:
            raise DataError("this weight belongs to no sequence: no token before the next blank line", name, line)
        weights[sequence] = value
    return weights


def _labels(head: Column, tokens: Bool) -> Column:
    """The label column: first fields of ``tokens``, unescaped, numbered in order of first occurrence."""
    ids = head.ids[tokens]
    used, first = np.unique(ids, return_index=True)
    values = {number: _unescaped(head.values[number]) for number in used[np.argsort(first)].tolist()}
    index = {value: number for number, value in enumerate(dict.fromkeys(values.values()))}
    renumber = np.zeros(len(head.values), dtype=np.int32)
    for number, value in values.items():
        renumber[number] = index[value]
    return Column(renumber[ids], list(index))


def _unescaped(field: str) -> str:
    return _ESCAPE.sub(r"\1", field) if "\\" in field else field


def _number(digits: str) -> float | None:
    """A finite number, or None (``float`` would also accept ``nan``, ``1_000`` and digits of other scripts)."""
    value = float(digits) if _NUMBER.fullmatch(digits) else math.inf
    return value if math.isfinite(value) else None


def _parsed(fields: Column, pointer: Int64, numbers: Int64, name: str) -> tuple[Column, Float | None]:
    """Names of the attributes and their values [M] (None if all are 1); each distinct field is parsed once."""
    index: dict[str, int] = {}
    renumber = np.empty(len(fields.values), dtype=np.int32)
    values = np.ones(len(fields.values))

    def line_of(number: int) -> int:
        pair = int(np.argmax(fields.ids == number))
        return int(numbers[np.searchsorted(pointer, pair, side="right") - 1])

    for number, field in enumerate(fields.values):
        attribute = field
        if ":" in field or "\\" in field:
            attribute, value = _split(field)
            if not attribute or value is None:
                wrong = "has no name" if not attribute else "has a value that is not a finite number"
                raise DataError(
                    f"attribute {field!r:.60} {wrong}; write a colon inside a name as \\:", name, line_of(number)
                )
            if abs(value) > MOST_VALUE:
                raise DataError(
                    f"attribute {field!r:.60}: values are at most {MOST_VALUE:g}; scale it", name, line_of(number)
                )
            values[number] = value
        renumber[number] = index.setdefault(attribute, len(index))
    ids = renumber[fields.ids] if len(index) < len(fields.values) else fields.ids
    return Column(ids, list(index)), None if (values == 1).all() else values[fields.ids]


def _split(field: str) -> tuple[str, float | None]:
    """Name and value of ``name[:value]``; the value is 1 if none is given, and None if it is not a number."""
    match = _FIELD.fullmatch(field)
    assert match is not None  # the pattern matches any string
    return _unescaped(match[1]), _number(match[2]) if match[2] else 1.0


def write_attributes(corpus: Attributes, out: BinaryIO) -> None:
    """Write a corpus in CRFsuite's format; reading it back gives the same corpus.

    Raises
    ------
    DataError
        For what the format cannot hold: a name or label that is empty or contains a tab or a line end, a token with
        neither label nor attributes, a token whose line would be blank or a comment.
    """
    from loglinear.data.columns import scanning

    fields, ids, counts = _token_fields(corpus)
    bounds = offsets_of(counts)
    first = bounds[:-1]
    visible = np.array([bool(value.strip(b" ")) for value in fields], dtype=bool)[ids]
    lost = np.diff(np.concatenate([[0], np.cumsum(visible)])[bounds]) == 0
    hashed = np.array([value.startswith(b"#") for value in fields], dtype=bool)
    lost[counts == 1] |= hashed[ids[first[counts == 1]]]
    if lost.any():
        message = "a line that would be read as a blank line or a comment; give the token an attribute"
        raise corpus.error(message, int(np.argmax(lost)))
    # Start from a text of line feeds, one per token and one per sentence; each token's fields go before its line feed.
    sentence = np.repeat(np.arange(corpus.n_sentences), np.diff(corpus.offsets))
    positions = np.repeat(np.arange(corpus.n_tokens) + sentence, counts)
    separators = np.full(len(ids), ord("\t"), dtype=np.uint8)
    separators[first] = 0
    if corpus.sequence_weights is not None:
        starts = corpus.offsets[:-1] + np.arange(corpus.n_sentences)
        where = np.searchsorted(positions, starts)
        positions, separators = np.insert(positions, where, starts), np.insert(separators, where, 0)
        ids = np.insert(ids, where, len(fields) + np.arange(corpus.n_sentences))
        fields = [*fields, *(f"{_WEIGHT}{weight!r}\n".encode() for weight in corpus.sequence_weights.tolist())]
    out.write(scanning.spliced(b"\n" * (corpus.n_tokens + corpus.n_sentences), positions, separators, ids, fields))


def _token_fields(corpus: Attributes) -> tuple[list[bytes], Int64, Int64]:
    """Distinct fields as bytes, the concatenated ids of all tokens' fields, and the number of fields per token [N]."""
    counts = np.diff(corpus.pointer)
    tokens = np.repeat(np.arange(corpus.n_tokens), counts)
    names = _escaped(Column(corpus.ids, corpus.values), tokens, corpus)
    ids: Int64 = corpus.ids.astype(np.int64)
    if corpus.weights is not None:
        distinct, inverse = np.unique(corpus.weights, return_inverse=True)
        pairs, ids = np.unique(ids * len(distinct) + inverse, return_inverse=True)
        attributes, weights = (part.tolist() for part in np.divmod(pairs, max(len(distinct), 1)))
        suffixes = ["" if value == 1 else f":{value!r}" for value in distinct.tolist()]
        names = [names[attribute] + suffixes[weight] for attribute, weight in zip(attributes, weights, strict=True)]
    fields = [field.encode() for field in names]
    if corpus.label is None:
        return fields, ids, counts
    labels = [field.encode() for field in _escaped(corpus.label, np.arange(corpus.n_tokens), corpus)]
    return labels + fields, np.insert(ids + len(labels), corpus.pointer[:-1], corpus.label.ids), counts + 1


def _escaped(column: Column, tokens: Int64, corpus: Attributes) -> list[str]:
    """Escaped values; ``tokens`` is the position in the corpus of each entry, for messages."""
    for number, value in enumerate(column.values):
        if (not value or _UNWRITABLE.search(value)) and (column.ids == number).any():
            message = f"{value!r:.60} cannot be written to a CRFsuite file (empty, or with a tab or line end)"
            raise corpus.error(message, int(tokens[np.argmax(column.ids == number)]))
    return [value.replace("\\", "\\\\").replace(":", "\\:") for value in column.values]
