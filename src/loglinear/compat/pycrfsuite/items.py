"""Items as python-crfsuite takes them: what the attributes of a sequence's tokens are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain, pairwise
from typing import Any

import numpy as np

from loglinear.data.columns.corpus import PYTHON, Attributes, offsets_of
from loglinear.errors import DataError
from loglinear.features.encoding import Incidence
from loglinear.features.names import AttributeLists, KnownAttributes, attributes_of, token_attributes, tokens_of


class ItemError(DataError, TypeError):
    """An item of a kind that has no features, or a label other than a string: TypeErrors in python-crfsuite."""


class ItemSequence:
    """The attributes of a sequence, worked out once, for a :class:`Trainer` and a :class:`Tagger`.

    Parameters
    ----------
    pyseq : iterable
        The items: dicts, or lists of strings. In a dict a string gives the attribute ``key:string``, a number or a bool
        ``key`` with that value, and a dict, list or set the attributes ``key:...`` of what it holds.

    >>> ItemSequence([{"word": "Rome", "length": 4}, ["title"]]).items()
    [{'word:Rome': 1.0, 'length': 4.0}, {'title': 1.0}]
    """

    __slots__ = ("corpus",)

    def __init__(self, pyseq: Iterable[Any]) -> None:
        self.corpus = corpus_of_items(items_of(pyseq))

    def items(self) -> list[dict[str, float]]:
        """The items as dicts from attributes to values."""
        return [dict(pairs) for pairs in _pairs(self.corpus)]

    def __len__(self) -> int:
        return len(self.corpus.pointer) - 1

    def __repr__(self) -> str:
        return f"<ItemSequence of size {len(self)}>"


def _pairs(corpus: Attributes) -> list[list[tuple[str, float]]]:
    """Names and values of the attributes of each token."""
    names = [corpus.values[number] for number in corpus.ids.tolist()]
    values = [1.0] * len(names) if corpus.weights is None else corpus.weights.tolist()
    pairs = list(zip(names, values, strict=True))
    return [pairs[begin:end] for begin, end in pairwise(corpus.pointer.tolist())]


def summed_items(corpus: Attributes) -> list[dict[str, float]]:
    """The tokens as dicts; an attribute that a token has several times has the sum of its values."""
    found = []
    for pairs in _pairs(corpus):
        item = dict[str, float]()
        for name, value in pairs:
            item[name] = item.get(name, 0.0) + value
        found.append(item)
    return found


def items_of(xseq: Any) -> list[Any] | tuple[Any, ...]:
    """The items of a sequence: any iterable but text and dicts."""
    if type(xseq) is list:
        return xseq
    if isinstance(xseq, ItemSequence):
        return summed_items(xseq.corpus)
    if isinstance(xseq, str | bytes | Mapping) or not (isinstance(xseq, Iterable) or hasattr(xseq, "items")):
        raise ItemError(f"a sequence is a list of items (dicts, or lists of strings), not {xseq!r:.60}")
    return tokens_of(xseq, 0)


def add_items(lists: AttributeLists, items: list[Any] | tuple[Any, ...]) -> None:
    """Append the attributes of a sequence's items, all or none of them; errors name the position."""
    plain = list(items)
    if lists.extend(plain) or lists.extend(plain, mixed=True):
        return
    for position, item in enumerate(items):
        try:
            token_attributes(item, "item")
        except DataError as error:
            raise ItemError(f"position {position} (from 0): {error.message}") from None
    for item in items:
        lists.add(item, "item")


def corpus_of_items(items: list[Any] | tuple[Any, ...]) -> Attributes:
    """The corpus of one sequence."""
    lists = AttributeLists()
    if items:
        add_items(lists, items)
    return lists.corpus(np.array([0, len(items)] if items else [0], dtype=np.int64))


def corpus_of_sequences(sequences: Iterable[Any], known: KnownAttributes | None) -> Attributes:
    """The corpus of many sequences, some of which may be empty; errors name the sequence and the position.

    With ``known``, other attributes are left out.
    """
    given, sequences = list[Any](), list(sequences)
    if known is not None and set(map(type, sequences)) == {ItemSequence}:
        return _joined([xseq.corpus for xseq in sequences], known)
    for number, xseq in enumerate(sequences):
        try:
            given.append(items_of(xseq))
        except DataError as error:
            raise ItemError(f"sequence {number} (from 0): {error.message}") from None
    try:
        return attributes_of(given, empty=True, known=known)
    except DataError as error:
        raise ItemError(error.message) from None


def _joined(corpora: list[Attributes], known: KnownAttributes) -> Attributes:
    """One corpus of those of single sequences, with the attributes that are known."""
    lengths = [len(corpus.pointer) - 1 for corpus in corpora]
    counts = np.concatenate([np.diff(corpus.pointer) for corpus in corpora])
    firsts = offsets_of([len(corpus.values) for corpus in corpora])[:-1]
    ids = np.concatenate([corpus.ids for corpus in corpora]) + np.repeat(firsts, [len(c.ids) for c in corpora])
    weights = None
    if any(corpus.weights is not None for corpus in corpora):
        weights = np.concatenate([np.ones(len(c.ids)) if c.weights is None else c.weights for c in corpora])
    new_ids = known.ids(chain.from_iterable(corpus.values for corpus in corpora))
    state = Incidence(offsets_of(counts), ids, weights).rename(new_ids)
    return Attributes(
        name=PYTHON,
        offsets=offsets_of(lengths),
        lines=np.zeros(len(counts), dtype=np.int64),
        label=None,
        pointer=state.pointer,
        ids=state.ids,
        weights=state.values,
        values=known.strings,
    ).without_empty()


def label_text(label: Any, position: int) -> str:
    """A label as text; bytes are UTF-8."""
    if isinstance(label, str):
        return str(label)
    if isinstance(label, bytes):
        return label.decode("utf-8", "surrogateescape")
    raise ItemError(f"position {position} (from 0): a label is a string, not {label!r:.60}")
