"""Chunk labels of other schemes, put into the one that conlleval's rules read.

conlleval knows the tags B, I and O, and E where it is used with I alone. A chunk of one token (``S-`` in BIOES, ``U-``
in BILOU) it would merge with a neighbour of the same type, a ``B-`` after an ``E-`` starts no chunk for it, and ``L-``
it does not know; so labels of those schemes are read as BIO first.
"""

from __future__ import annotations

import re
from collections.abc import Collection

_AS_BIO = {"S": "B", "U": "B", "E": "I", "L": "I"}
_CHUNK_LABEL = re.compile(r"O|[BIESUL](-.+)?", re.DOTALL)


def has_chunks(labels: Collection[str]) -> bool:
    """Whether the labels are those of chunks: each ``O`` or a chunk tag, with types unless all are B, I or O."""
    if not all(_CHUNK_LABEL.fullmatch(label) for label in labels):
        return False
    return set(labels) <= set("BIO") or any("-" in label for label in labels)


def as_bio(labels: list[str]) -> list[str]:
    """The labels, rewritten as BIO if they are those of BIOES or BILOU; else as they are."""
    tags = {label[:1] for label in labels}
    if not has_chunks(labels) or not (tags & set("SUL") or tags >= set("BE")):
        return labels
    return [_AS_BIO.get(label[0], label[0]) + label[1:] for label in labels]
