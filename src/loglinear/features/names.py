"""Attributes with names: Python features and CRFsuite attribute files."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from loglinear.arrays import Array, Bool, Int32, Int64
from loglinear.data.columns.corpus import MOST_VALUE, PYTHON, Attributes, offsets_of
from loglinear.errors import DataError
from loglinear.features.encoding import (
    PAIRS_ONLY,
    UNKNOWN,
    EncodedCorpus,
    Incidence,
    Vocabulary,
    stored_pair_features,
)


class NameEncoder:
    """Encodes corpora whose tokens carry named attributes.

    Parameters
    ----------
    pair_features : bool or "only"
        Join the attributes with label pairs as well as with labels, or with pairs alone
        (:meth:`EncodedCorpus.by_source`).
    """

    kind = "names"

    def __init__(self, pair_features: bool | str = False) -> None:
        self.pair_features = pair_features
        self.vocabulary = Vocabulary()

    def fit(self, corpus: Attributes, min_count: int = 1, n_threads: int = 1) -> EncodedCorpus:
        """Collect the attributes of a training corpus, lock, and return its encoding; always uses one thread.

        Attributes that occur fewer than ``min_count`` times, or never, are left out.
        """
        counts = np.bincount(corpus.ids, minlength=len(corpus.values))
        kept = counts >= max(1, min_count)
        self.vocabulary = Vocabulary([corpus.values[i] for i in np.flatnonzero(kept).tolist()], locked=True)
        return self._encoded(corpus, np.where(kept, np.cumsum(kept) - 1, UNKNOWN).astype(np.int32))

    def transform(self, corpus: Attributes, n_threads: int = 1) -> EncodedCorpus:
        """Encode a corpus with the attributes known from training; others are left out. Always uses one thread."""
        return self._encoded(corpus, self.vocabulary.ids(corpus.values))

    def _encoded(self, corpus: Attributes, new_ids: Int32) -> EncodedCorpus:
        state = Incidence(corpus.pointer, corpus.ids, corpus.weights).rename(new_ids)
        encoded = EncodedCorpus(corpus.offsets, state, state if self.pair_features else None)
        return encoded.by_source() if self.pair_features == PAIRS_ONLY else encoded

    @property
    def n_attributes(self) -> int:
        return len(self.vocabulary)

    def names(self) -> list[str]:
        """The names of all attributes."""
        return self.vocabulary.strings

    def matching(self, other: NameEncoder) -> Int32:
        """For each of ``other``'s attributes, the number of the same attribute here, or -1."""
        return self.vocabulary.ids(other.vocabulary.strings)

    def keeping(self, kept: Bool) -> NameEncoder:
        """An encoder of the ``kept`` attributes, renumbered in the same order."""
        encoder = NameEncoder(self.pair_features)
        encoder.vocabulary = Vocabulary([self.vocabulary[i] for i in np.flatnonzero(kept).tolist()], locked=True)
        return encoder

    def to_header(self) -> dict[str, Any]:
        return {"pair_features": self.pair_features}

    def to_arrays(self) -> dict[str, Array]:
        return {}

    @property
    def strings(self) -> list[str]:
        """The strings a model file stores besides the arrays."""
        return self.vocabulary.strings

    @classmethod
    def from_storage(cls, header: dict[str, Any], arrays: Mapping[str, Array], strings: list[str]) -> NameEncoder:
        """Rebuild from :meth:`to_header`, :meth:`to_arrays` and :attr:`strings`."""
        encoder = cls(stored_pair_features(header))
        encoder.vocabulary = Vocabulary(strings, locked=True)
        return encoder


# ----------------------------------------------------------------------------------------------------------------------
# Features made by the user's code, by python-crfsuite's rules.
#
# A token's features are
#
# - a list (tuple, set) of strings: each is an attribute with value 1;
# - a dict from names to values: a string gives the attribute ``name:string`` with value 1, a bool the attribute
#   ``name`` with value 1 or 0, a number the attribute ``name`` with that value; a list or set of strings gives the
#   attributes ``name:string``; a dict gives the attributes ``name:...`` of its entries, to any depth.


def _walk(name: str, value: Any) -> Iterator[tuple[str, float]]:
    """Attributes of one dict entry; ``name`` is its full name."""
    if isinstance(value, str):
        yield f"{name}:{value}", 1.0
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _walk(f"{name}:{key}", inner)
    elif isinstance(value, bool | np.bool_ | numbers.Real):
        try:
            yield name, float(value)
        except OverflowError:
            raise DataError(f"feature {name!r} has a value of more than 1e308; scale it") from None
    elif isinstance(value, Iterable) and not isinstance(value, bytes):
        for item in value:
            if not isinstance(item, str):
                raise DataError(f"feature {name!r} is a list that holds {item!r:.60}; lists hold strings")
            yield f"{name}:{item}", 1.0
    else:
        raise DataError(
            f"feature {name!r} is {value!r:.60}; a feature is a string, a bool, a number, a dict or a list of strings"
        )


def token_attributes(features: Any, owner: str = "token") -> list[tuple[str, float]]:
    """All attributes of one token (or other ``owner``) with their values, in order.

    >>> token_attributes({"word": "Rome", "title": True, "length": 4, "near": {"1": "is"}})
    [('word:Rome', 1.0), ('title', 1.0), ('length', 4.0), ('near:1:is', 1.0)]
    """
    attributes: list[tuple[str, float]] = []
    if isinstance(features, Mapping):
        for name, value in features.items():
            if not isinstance(name, str):
                raise DataError(f"a feature's name is a string, not {name!r:.60}")
            attributes.extend(_walk(name, value))
        for name, value in attributes:
            if not math.isfinite(value):
                raise DataError(f"feature {name!r} has the value {value}; values are finite numbers")
            if abs(value) > MOST_VALUE:
                raise DataError(
                    f"feature {name!r} has the value {value:g}; values are at most {MOST_VALUE:g}: scale it"
                )
        return attributes
    if isinstance(features, str | bytes) or not isinstance(features, Iterable):
        hint = "; to train on the tokens themselves, give a template" if owner == "token" else ""
        raise DataError(f"the features of one {owner} are a dict or a list of strings, not {features!r:.60}{hint}")
    for item in features:
        if not isinstance(item, str):
            raise DataError(f"a list of features holds strings, not {item!r:.60}")
        attributes.append((item, 1.0))
    return attributes


class AttributeLists:
    """Attributes of tokens or other owners as numbers, in order of first occurrence."""

    def __init__(self) -> None:
        self._index: dict[str, int] = {}
        self._ids: list[int] = []
        self._values: list[float] = []
        self._counts: list[int] = []

    def add(self, features: Any, owner: str = "token") -> None:
        """Append the attributes of the next owner."""
        attributes = token_attributes(features, owner)
        for attribute, value in attributes:
            self._ids.append(self._index.setdefault(attribute, len(self._index)))
            self._values.append(value)
        self._counts.append(len(attributes))

    def corpus(self, offsets: Int64, name: str = PYTHON) -> Attributes:
        """The corpus of all that was added, in sequences with these ``offsets`` [S + 1]."""
        weights = np.array(self._values, dtype=np.float64)
        return Attributes(
            name=name,
            offsets=offsets,
            lines=np.zeros(int(offsets[-1]), dtype=np.int64),
            label=None,
            pointer=offsets_of(self._counts),
            ids=np.array(self._ids, dtype=np.int32),
            weights=None if (weights == 1.0).all() else weights,
            values=list(self._index),
        )


def attributes_of(sequences: Iterable[Iterable[Any]], name: str = PYTHON) -> Attributes:
    """The corpus of a user's feature sequences; errors name the sequence and the position (from 0)."""
    lists, lengths = AttributeLists(), list[int]()
    for i, sequence in enumerate(sequences):
        if isinstance(sequence, str | bytes | Mapping) or not isinstance(sequence, Iterable):
            raise DataError(f"sequence {i} (from 0) is a {type(sequence).__name__}, not a list of tokens' features")
        length = 0
        for t, features in enumerate(sequence):
            try:
                lists.add(features)
            except DataError as error:
                raise DataError(f"sequence {i}, position {t} (from 0): {error}") from None
            length += 1
        if not length:
            raise DataError(f"sequence {i} (from 0) is empty; leave empty sequences out")
        lengths.append(length)
    return lists.corpus(offsets_of(lengths), name)


def attributes_of_examples(examples: Iterable[Any], name: str = PYTHON) -> Attributes:
    """The corpus of examples of one position each; errors name the example (from 0)."""
    lists, n = AttributeLists(), 0
    for n, features in enumerate(examples, start=1):
        try:
            lists.add(features, "example")
        except DataError as error:
            raise DataError(f"example {n - 1} (from 0): {error}") from None
    return lists.corpus(np.arange(n + 1, dtype=np.int64), name)
