"""Corpora as JSON Lines, and as plain text.

JSON Lines: one sentence per line, ``{"tokens": ["a", "dog"], "labels": ["B-NP", "I-NP"]}``.

A token is a string, or a list of strings, one per column. If every record has ``labels``, they become the last column;
if any record has none, the corpus has no label column. :func:`write_jsonl` writes all other keys back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, BinaryIO, NoReturn

import numpy as np

from loglinear.data.columns.corpus import Column, Columns, check_unicode, offsets_of
from loglinear.data.files import Source, check_text, json_object, read_bytes, source_name
from loglinear.errors import DataError


def read_jsonl(source: Source, *, label_keys: Sequence[str] = ("labels",)) -> Columns:
    """Read a JSON Lines file; blank lines are skipped.

    Parameters
    ----------
    source : path, ``-`` or open binary file
        Also compressed with gzip.
    label_keys : sequence of str
        Keys that hold a label for each token; each becomes a column after the tokens' own, in this order.

    Raises
    ------
    DataError
        With file and line: invalid JSON, not an object, ``tokens`` missing or empty, a token that is not a string or a
        list of strings, rows of different lengths, another number of labels than of tokens, no sentence at all.
    """
    name, raw = source_name(source), read_bytes(source)
    start = check_text(raw, name)
    numbers: list[int] = []
    records: list[bytes] = []
    sentences: list[list[tuple[str, ...]]] = []
    labels: list[list[list[str]]] = []
    unlabelled, width = None, 0
    for number, line in enumerate(raw[start:].split(b"\n"), 1):
        if not line.strip():
            continue
        tokens, tags = _parsed(line, name, number, label_keys)
        width = width or len(tokens[0])
        if any(len(token) != width for token in tokens):
            first = f"the first row (line {numbers[0] if numbers else number}) has {width} columns"
            message = f'rows of different lengths in "tokens"; {first}, and every row needs as many'
            raise DataError(message, name, number)
        if tags is None and unlabelled is None:
            unlabelled = number
        numbers.append(number)
        records.append(line)
        sentences.append(tokens)
        labels.append(tags or [])
    if not numbers:
        raise DataError("the file holds no sentences", name)
    columns = [Column.from_strings(strings) for strings in zip(*chain.from_iterable(sentences), strict=True)]
    if unlabelled is None:
        for place in range(len(label_keys)):
            columns.append(Column.from_strings(chain.from_iterable(tags[place] for tags in labels)))
    lengths = [len(tokens) for tokens in sentences]
    lines = np.repeat(np.array(numbers, dtype=np.int64), lengths)
    corpus = Columns(name, offsets_of(lengths), lines, columns, records=records, unlabelled=unlabelled)
    check_unicode(corpus)
    return corpus


def _no_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _parsed(
    line: bytes, name: str, number: int, label_keys: Sequence[str]
) -> tuple[list[tuple[str, ...]], list[list[str]] | None]:
    """Rows of one record, and its labels under each key; None if one of the keys is missing."""
    record = json_object(line, '{"tokens": ["a", "b"]}', name, number, parse_constant=_no_constant)
    tokens = record.get("tokens")
    if not isinstance(tokens, list) or not tokens:
        fault = "is missing" if tokens is None else "must be a list that is not empty"
        raise DataError(f'"tokens" {fault}', name, number)
    rows = [(token,) if isinstance(token, str) else tuple(token) if isinstance(token, list) else () for token in tokens]
    for position, row in enumerate(rows):
        if not row or not all(isinstance(value, str) for value in row):
            message = f"token {position} (from 0) must be a string or a list of strings, not {tokens[position]!r:.60}"
            raise DataError(message, name, number)
    if any(record.get(key) is None for key in label_keys):
        return rows, None
    for key in label_keys:
        labels = record[key]
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
            raise DataError(f'"{key}" must be a list of strings', name, number)
        if len(labels) != len(rows):
            raise DataError(f"{len(rows)} tokens but {len(labels)} {key}", name, number)
    return rows, [record[key] for key in label_keys]


def write_jsonl(corpus: Columns, out: BinaryIO, extra: Mapping[str, Sequence[Any]] | None = None) -> None:
    """Write a corpus as JSON Lines, with further keys.

    A corpus read from JSON Lines keeps all keys of its records. Any other corpus is written as ``tokens`` and, unless
    it is known to have no labels or has only one column, its last column as ``labels``.

    Parameters
    ----------
    corpus : Columns
    out : binary file
    extra : mapping from key to S values
        What to add to each record, anything JSON can hold; existing keys are replaced.
    """
    extra = extra or {}
    for key, values in extra.items():
        if len(values) != corpus.n_sentences:
            raise DataError(f"{key!r} has {len(values)} entries, the corpus {corpus.n_sentences} sentences")
    records = _fresh_records(corpus) if corpus.records is None else map(json.loads, corpus.records)
    for sentence, record in enumerate(records):
        record.update((key, values[sentence]) for key, values in extra.items())
        try:
            line = json.dumps(record, ensure_ascii=False, allow_nan=False).encode()
        except UnicodeEncodeError:  # a lone surrogate in one of the other keys, legal only as an escape
            line = json.dumps(record, allow_nan=False).encode()
        out.write(line + b"\n")


def _fresh_records(corpus: Columns) -> list[dict[str, Any]]:
    labelled = corpus.unlabelled is None and corpus.n_columns > 1
    width = corpus.n_columns - labelled
    records: list[dict[str, Any]] = []
    for rows in corpus.rows():
        tokens = [row[0] if width == 1 else list(row[:width]) for row in rows]
        records.append({"tokens": tokens, "labels": [row[-1] for row in rows]} if labelled else {"tokens": tokens})
    return records


# ----------------------------------------------------------------------------------------------------------------------
# Plain text for tagging: one sentence per line, tokens separated by spaces and tabs; blank lines are skipped.


def read_text(source: Source) -> Columns:
    """Read plain text as a corpus of one column, the tokens.

    Parameters
    ----------
    source : path, ``-`` or open binary file
        Also compressed with gzip.

    Raises
    ------
    DataError
        With file and line: invalid UTF-8, a NUL byte, no token at all.
    """
    from loglinear.data.columns import scanning

    name, raw = source_name(source), read_bytes(source)
    lines = scanning.lines_of(raw, check_text(raw, name), scanning.BLANKS)
    chosen = np.flatnonzero(lines.counts)
    if len(chosen) == 0:
        raise DataError("the file holds no tokens", name)
    for line in chosen[lines.flags[chosen] & scanning.HAS_RETURN > 0][:1].tolist():
        raise DataError(scanning.RETURN_INSIDE, name, line + 1)
    lengths = lines.counts[chosen]
    column = lines.column(*lines.fields(chosen))
    return Columns(name, offsets_of(lengths), np.repeat(chosen + 1, lengths), [column], unlabelled=int(chosen[0]) + 1)
