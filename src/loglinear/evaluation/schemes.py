"""Chunk labels of other schemes, put into the one that conlleval's rules read.

conlleval knows the tags B, I, E and O. A chunk of one token (``S-`` in BIOES, ``U-`` in BILOU) it would merge with a
neighbour of the same type, and ``L-`` it does not know; so labels of those schemes are read as BIO first.
"""

from __future__ import annotations

import re
from collections.abc import Collection

_BEGIN, _INSIDE = {"S": "B", "U": "B"}, {"E": "I", "L": "I"}


def has_chunks(labels: Collection[str]) -> bool:
    """Whether the labels are those of chunks: each ``O`` or a chunk tag with or without a type, one of them B or I."""
    tags = {label.split("-", 1)[0] for label in labels}
    typed = any(re.match(r"[BIESUL]-.", label) for label in labels)
    return tags <= set("OBIESUL[].") and ("B" in tags or "I" in tags) and (typed or tags <= set("OBI"))


def as_bio(labels: list[str], all_labels: Collection[str]) -> list[str]:
    """The labels, rewritten as BIO if ``all_labels`` show that the scheme is BIOES or BILOU."""
    tags = {label.split("-", 1)[0] for label in all_labels}
    if not tags & {"S", "U", "L"} or not has_chunks(all_labels):
        return labels
    rename = _BEGIN | _INSIDE
    return [rename.get(label[:1], label[:1]) + label[1:] if label[1:2] in ("", "-") else label for label in labels]
