"""What a file says of its sentences as wholes: ``# key = value`` comments of column files, keys of JSON Lines records.

::

    # class = sport                     {"tokens": ["Confidence", "in"], "class": "sport"}
    Confidence NN B-NP
    in IN B-PP
"""

from __future__ import annotations

import json
import re

import numpy as np

from loglinear.data.columns.corpus import Columns
from loglinear.errors import DataError


def sentence_notes(corpus: Columns, key: str) -> list[str | None]:
    """What is noted of each of the S sentences under ``key``; None where nothing is, or nothing but blanks.

    A column file must have been read with its layout. A comment is about the sentence that follows it.
    """
    if corpus.records is not None:
        return [_of_record(corpus, s, json.loads(line).get(key), key) for s, line in enumerate(corpus.records)]
    found: list[str | None] = [None] * corpus.n_sentences
    if corpus.layout is None:
        return found
    first_lines, of_tokens = corpus.lines[corpus.offsets[:-1]], set(corpus.lines.tolist())
    note = re.compile(rf"#\s*{re.escape(key)}\s*=(.*)")
    for number, line in enumerate(corpus.layout.raw.decode("utf-8-sig").split("\n"), 1):
        match = note.match(line.strip())
        if match is None or number in of_tokens:
            continue
        sentence = int(np.searchsorted(first_lines, number))
        if sentence < corpus.n_sentences:
            found[sentence] = match[1].strip() or None
    return found


def required_notes(corpus: Columns, key: str) -> list[str]:
    """The same, where every sentence must have one."""
    notes = sentence_notes(corpus, key)
    for sentence, note in enumerate(notes):
        if note is None:
            how = f'a key "{key}"' if corpus.records is not None else f"a comment before it: # {key} = NAME"
            raise corpus.error(f"the {key} of this sentence is missing; give it {how}", int(corpus.offsets[sentence]))
    return [note for note in notes if note is not None]


def _of_record(corpus: Columns, sentence: int, value: object, key: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str | int) or isinstance(value, bool):
        line = int(corpus.lines[corpus.offsets[sentence]])
        raise DataError(f'"{key}" must be a string, not {value!r:.60}', corpus.name, line)
    return str(value).strip() or None
