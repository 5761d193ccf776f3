"""CoNLL-U files as columns with names: a tagger learns one of them, and templates look at the others.

::

    number   0     1      2     3     4      5     6       7     8     9
    name     form  upos  xpos  lemma  feats  head  deprel  deps  misc  id

The tags follow the words, where named template sets look for tags. The columns are the same whichever is learnt, so a
template and a model fit every CoNLL-U file. Multiword tokens (``1-2``), empty nodes (``3.1``) and comments are not
tokens, and stay where they are when the file is written back with new values in a column. What a row must be is said in
:mod:`loglinear.data.dependencies`, which reads the same files for parsers; heads are not checked here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from loglinear.arrays import Int64
from loglinear.data.columns.corpus import Column, Columns
from loglinear.data.dependencies import DEPREL, FEATS, FORM, HEAD, ID, LEMMA, N_FIELDS, UPOS, XPOS, conllu_tokens
from loglinear.data.files import AS_OBJECTS, Source, read_bytes, source_name

NAMES = ("form", "upos", "xpos", "lemma", "feats", "head", "deprel", "deps", "misc", "id")
_FIELDS = (FORM, UPOS, XPOS, LEMMA, FEATS, HEAD, DEPREL, 8, 9, ID)  # of a row, in the order of NAMES
_NOTHING = "_"
_COMMENT = re.compile(rb"#\s*(sent_id|text|newdoc|newpar|global\.columns)\b")
_NUMBER = re.compile(rb"([1-9][0-9]{0,7})(?:-[0-9]+)?|[0-9]+\.[0-9]+")


@dataclass(frozen=True)
class ConlluText:
    """The text of a CoNLL-U file and where its tokens' fields are, for writing it back.

    Attributes
    ----------
    raw : bytes
    places : int64 [N, 10, 2]
        Where each column of each token begins and ends.
    """

    raw: bytes
    places: Int64


def read_conllu_columns(source: Source) -> Columns:
    """Read a CoNLL-U file as columns with the names :data:`NAMES`.

    Raises
    ------
    DataError
        With file and line: a row that does not have 10 fields, an empty field, tokens that are not numbered 1, 2, ...,
        invalid UTF-8, a NUL byte, no sentence at all.
    """
    raw, name = read_bytes(source, AS_OBJECTS), source_name(source)
    lines, rows, begins, finishes, offsets = conllu_tokens(raw, name)
    columns = [lines.column(begins[:, field], finishes[:, field]) for field in _FIELDS]
    places = np.stack([begins[:, _FIELDS], finishes[:, _FIELDS]], axis=2)
    return Columns(name, offsets, rows + 1, columns, names=list(NAMES), format="conllu", origin=ConlluText(raw, places))


def write_conllu_columns(
    corpus: Columns, out: BinaryIO, column: int, values: Column, misc: Sequence[str] | None = None
) -> None:
    """Write a corpus as CoNLL-U with ``values`` [N] in one of the columns (a number among :data:`NAMES`).

    A corpus read from CoNLL-U keeps every other byte. Of any other corpus, the first column becomes FORM and each
    sentence a block of rows. ``misc`` [N] are notes that are appended to the last field, such as ``Confidence=0.98``.
    """
    from loglinear.data.columns.scanning import replaced

    check_fields(values, corpus)
    if not isinstance(corpus.origin, ConlluText):
        corpus = _with_text(corpus)
    assert isinstance(corpus.origin, ConlluText)
    texts = [value.encode() for value in values.values]
    changed = [(column, values.ids.astype(np.int64))]
    if misc is not None:
        before = corpus.columns[NAMES.index("misc")].strings()
        notes = [_noted(old, note) for old, note in zip(before, misc, strict=True)]
        noted = Column.from_strings(notes)
        changed.append((NAMES.index("misc"), noted.ids.astype(np.int64) + len(texts)))
        texts += [value.encode() for value in noted.values]
    changed.sort(key=lambda each: _FIELDS[each[0]])  # places must ascend
    places = corpus.origin.places[:, [number for number, _ in changed]].reshape(-1, 2)
    ids = np.stack([numbers for _, numbers in changed], axis=1).ravel()
    out.write(replaced(corpus.origin.raw, places, ids, texts))


def _noted(misc: str, note: str) -> str:
    """The last field of a row with a note, which replaces one of the same name."""
    name = note.partition("=")[0] + "="
    others = [part for part in misc.split("|") if part != _NOTHING and not part.startswith(name)]
    return "|".join([*others, note])


def check_fields(column: Column, corpus: Columns) -> None:
    """Reject a value that cannot be a field of a row."""
    for number, value in enumerate(column.values):
        if not value.strip() or re.search(r"[\t\r\n]", value):
            for position in np.flatnonzero(column.ids == number)[:1].tolist():
                raise corpus.error(f"{value!r:.60} cannot be a field of CoNLL-U (blank, or with a tab)", position)


def _with_text(corpus: Columns) -> Columns:
    """The corpus as one of CoNLL-U: its words under FORM, and nothing else."""
    from io import BytesIO

    check_fields(corpus.column(0), corpus)
    rows = corpus.column(0).strings()
    parts = []
    for begin, end in zip(corpus.offsets[:-1].tolist(), corpus.offsets[1:].tolist(), strict=True):
        blank = "\t_" * (N_FIELDS - 2)
        parts += [f"{number}\t{word}{blank}\n" for number, word in enumerate(rows[begin:end], 1)]
        parts.append("\n")
    source = BytesIO("".join(parts).encode())
    source.name = corpus.name
    return read_conllu_columns(source)


def is_conllu(head: bytes) -> bool:
    """Whether the beginning of a file is CoNLL-U for certain.

    Its first rows have ten fields between tabs and numbers that count 1, 2, ...; and there is something that no other
    format has: a comment such as ``# sent_id``, a multiword token or an empty node.
    """
    rows, sure = list[list[bytes]](), False
    for line in head.removeprefix(b"\xef\xbb\xbf").split(b"\n")[:-1]:
        line = line.rstrip(b"\r")
        if line.startswith(b"#"):
            sure = sure or bool(_COMMENT.match(line))
        elif line:
            rows.append(line.split(b"\t"))
        elif rows:
            break
    expected = 1
    for row in rows:
        number = _NUMBER.fullmatch(row[0])
        if len(row) != N_FIELDS or number is None:
            return False
        if row[0].isdigit():
            if int(row[0]) != expected:
                return False
            expected += 1
        else:
            sure = True
    return sure and expected > 1
