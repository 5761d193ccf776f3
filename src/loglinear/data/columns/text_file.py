"""Corpora as JSON Lines, and as plain text.

JSON Lines: one sentence per line, ``{"tokens": ["a", "dog"], "labels": ["B-NP", "I-NP"]}``.

A token is a string, or a list of strings, one per column. If every record has ``labels``, they become the last column;
if any record has none, the corpus has no label column. :func:`write_jsonl` writes all other keys back.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, BinaryIO, NoReturn

import numpy as np

from loglinear.data.columns.corpus import Column, Columns, check_unicode, offsets_of
from loglinear.data.files import AS_OBJECTS, Source, check_text, json_object, read_bytes, source_name
from loglinear.errors import DataError
from loglinear.wording import how_many


def read_jsonl(
    source: Source,
    *,
    label_keys: Sequence[str] = ("labels",),
    tokens_key: str = "tokens",
    label_names: Sequence[str] | None = None,
) -> Columns:
    """Read a JSON Lines file; blank lines are skipped.

    Parameters
    ----------
    source : path, ``-`` or open binary file
        Also compressed with gzip.
    label_keys : sequence of str
        Keys that hold a label for each token; each becomes a column after the tokens' own, in this order.
    tokens_key : str
        Key of the tokens.
    label_names : sequence of str, optional
        What labels given as numbers mean, from 0 (``features["ner_tags"].feature.names`` of Hugging Face datasets).

    Raises
    ------
    DataError
        With file and line: invalid JSON, not an object, ``tokens`` missing or empty, a token that is not a string or a
        list of strings, rows of different lengths, another number of labels than of tokens, no sentence at all.
    """
    name, raw = source_name(source), read_bytes(source, AS_OBJECTS)
    start = check_text(raw, name)
    numbers: list[int] = []
    records: list[bytes] = []
    sentences: list[list[tuple[str, ...]]] = []
    labels: list[list[list[str]]] = []
    unlabelled, width = None, 0
    for number, line in enumerate(raw[start:].split(b"\n"), 1):
        if not line.strip():
            continue
        tokens, tags = _parsed(line, name, number, label_keys, tokens_key, label_names)
        width = width or len(tokens[0])
        if any(len(token) != width for token in tokens):
            first = f"the first row (line {numbers[0] if numbers else number}) has {width} columns"
            message = f'rows of different lengths in "{tokens_key}"; {first}, and every row needs as many'
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
    corpus = Columns(name, offsets_of(lengths), lines, columns, records=records, unlabelled=unlabelled, format="jsonl")
    check_unicode(corpus)
    return corpus


def _no_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(digits: str) -> float:
    if math.isinf(number := float(digits)):
        raise ValueError(f"the number {digits:.30} is too large to be written again")
    return number


def _parsed(
    line: bytes,
    name: str,
    number: int,
    label_keys: Sequence[str],
    tokens_key: str = "tokens",
    label_names: Sequence[str] | None = None,
) -> tuple[list[tuple[str, ...]], list[list[str]] | None]:
    """Rows of one record, and its labels under each key; None if one of the keys is missing."""
    example = '{"tokens": ["a", "b"]}'
    record = json_object(line, example, name, number, parse_constant=_no_constant, parse_float=_finite)
    tokens = record.get(tokens_key)
    if not isinstance(tokens, list) or not tokens:
        fault = "is missing" if tokens is None else "must be a list that is not empty"
        if tokens is None and isinstance(record.get("text"), str):
            fault += "; if these are texts, say so: --format doccano, prodigy or spacy"
        elif tokens is None:
            fault += "; name the key of the tokens with --tokens-key"
        raise DataError(f'"{tokens_key}" {fault}', name, number)
    rows = [(token,) if isinstance(token, str) else tuple(token) if isinstance(token, list) else () for token in tokens]
    for position, row in enumerate(rows):
        if not row or not all(isinstance(value, str) for value in row):
            message = f"token {position} (from 0) must be a string or a list of strings, not {tokens[position]!r:.60}"
            raise DataError(message, name, number)
    if any(record.get(key) is None for key in label_keys):
        return rows, None
    for key in label_keys:
        labels = record[key] = _named_labels(record[key], key, label_names, name, number)
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
            raise DataError(f'"{key}" must be a list of strings', name, number)
        if len(labels) != len(rows):
            raise DataError(f"{how_many(len(rows), 'token')} but {len(labels)} {key}", name, number)
    return rows, [record[key] for key in label_keys]


def _named_labels(labels: Any, key: str, names: Sequence[str] | None, name: str, number: int) -> Any:
    """Labels given as numbers as their names; anything else as it is."""
    if not isinstance(labels, list) or not labels or not all(type(label) is int for label in labels):
        return labels
    if names is None:
        message = f'"{key}" must be a list of strings, or of numbers whose names --label-names gives, as in O,B-PER'
        raise DataError(message, name, number)
    for label in labels:
        if not 0 <= label < len(names):
            raise DataError(f'"{key}" holds {label}, but there are {len(names)} names, from 0', name, number)
    return [names[label] for label in labels]


def from_datasets(
    dataset: Any, tokens: str = "tokens", labels: str | None = "ner_tags", names: Sequence[str] | None = None
) -> Columns:
    """A corpus from a Hugging Face ``Dataset`` (one split), or anything with such columns; nothing is imported.

    Parameters
    ----------
    dataset : Dataset
        ``dataset[tokens]`` holds a list of strings for each sentence.
    tokens, labels : str
        Names of its columns; ``labels=None`` for text to be tagged.
    names : sequence of str, optional
        What labels given as numbers mean; by default what ``dataset.features`` says. -100, of tokens that do not
        count, is refused.

    Raises
    ------
    DataError
        For a column that is not there, a sentence whose tokens and labels differ in number, a label without a name.

    Examples
    --------
    >>> corpus = from_datasets({"tokens": [["Oslo", "!"]], "ner_tags": [[1, 0]]}, names=["O", "B-LOC"])
    >>> corpus.rows()
    [[('Oslo', 'B-LOC'), ('!', 'O')]]
    """
    there = getattr(dataset, "column_names", None) or list(getattr(dataset, "keys", list)())
    if isinstance(there, Mapping) or not hasattr(dataset, "__getitem__"):
        raise DataError("choose a split of the dataset, as in dataset['train']")
    for key in filter(None, (tokens, labels)):
        if key not in there:
            raise DataError(f"the dataset has no column {key!r}; there are {', '.join(map(str, there))}")
    sentences: list[list[Any]] = [list(sentence) for sentence in dataset[tokens]]
    if labels is None:
        corpus = Columns.from_rows(sentences)
        corpus.unlabelled = 0
        return corpus
    names = names if names is not None else _feature_names(dataset, labels)
    rows = []
    for number, (sentence, tags) in enumerate(zip(sentences, dataset[labels], strict=True)):
        where = f"sequence {number} (from 0)"
        tags = [int(tag) if hasattr(tag, "__index__") else tag for tag in tags]
        if len(tags) != len(sentence):
            raise DataError(f"{where}: {how_many(len(sentence), 'token')} but {len(tags)} {labels}")
        for position, tag in enumerate(tags):
            if isinstance(tag, int) and (names is None or not 0 <= tag < len(names)):
                known = "there are no names for numbers; give names=" if names is None else f"of {len(names)} names"
                raise DataError(f"{where}, position {position}: the label {tag}: {known}")
        named = [names[tag] if isinstance(tag, int) and names is not None else tag for tag in tags]
        rows.append(list(zip(sentence, named, strict=True)))
    return Columns.from_rows(rows)


def _feature_names(dataset: Any, labels: str) -> Sequence[str] | None:
    """The names of a column of numbers, as a dataset declares them."""
    declared = getattr(dataset, "features", None)
    feature = declared.get(labels) if isinstance(declared, Mapping) else None
    names: Sequence[str] | None = getattr(getattr(feature, "feature", feature), "names", None)
    return names


def write_jsonl(
    corpus: Columns,
    out: BinaryIO,
    extra: Mapping[str, Sequence[Any]] | None = None,
    *,
    tokens_key: str = "tokens",
    labels_key: str = "labels",
) -> None:
    """Write a corpus as JSON Lines, with further keys.

    A corpus read from JSON Lines keeps all keys of its records. Any other corpus is written as ``tokens`` and, unless
    it is known to have no labels or has only one column, its last column as ``labels``.

    Parameters
    ----------
    corpus : Columns
    out : binary file
    extra : mapping from key to S values
        What to add to each record, anything JSON can hold; existing keys are replaced.
    tokens_key, labels_key : str
        Keys of a corpus that was not read from JSON Lines.
    """
    extra = extra or {}
    for key, values in extra.items():
        if len(values) != corpus.n_sentences:
            raise DataError(
                f"{key!r} has {how_many(len(values), 'entry')}, the corpus {how_many(corpus.n_sentences, 'sentence')}"
            )
    records: Iterable[dict[str, Any]] = map(json.loads, corpus.records or ())
    if corpus.records is None:
        records = _fresh_records(corpus, tokens_key, labels_key)
    for sentence, record in enumerate(records):
        record.update((key, values[sentence]) for key, values in extra.items())
        try:
            line = json.dumps(record, ensure_ascii=False, allow_nan=False).encode()
        except UnicodeEncodeError:  # a lone surrogate in one of the other keys, legal only as an escape
            line = json.dumps(record, allow_nan=False).encode()
        out.write(line + b"\n")


def _fresh_records(corpus: Columns, tokens_key: str, labels_key: str) -> list[dict[str, Any]]:
    labelled = corpus.unlabelled is None and corpus.n_columns > 1
    width = corpus.n_columns - labelled
    records: list[dict[str, Any]] = []
    for rows in corpus.rows():
        tokens = [row[0] if width == 1 else list(row[:width]) for row in rows]
        labels = {labels_key: [row[-1] for row in rows]} if labelled else {}
        records.append({tokens_key: tokens} | labels)
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

    name, raw = source_name(source), read_bytes(source, AS_OBJECTS)
    lines = scanning.lines_of(raw, check_text(raw, name), scanning.BLANKS)
    chosen = np.flatnonzero(lines.counts)
    if len(chosen) == 0:
        raise DataError("the file holds no tokens", name)
    for line in chosen[lines.flags[chosen] & scanning.HAS_RETURN > 0][:1].tolist():
        raise DataError(scanning.RETURN_INSIDE, name, line + 1)
    lengths = lines.counts[chosen]
    column = lines.column(*lines.fields(chosen))
    return Columns(name, offsets_of(lengths), np.repeat(chosen + 1, lengths), [column], unlabelled=int(chosen[0]) + 1)
