"""Attributes with names: Python features and CRFsuite attribute files."""

from __future__ import annotations

import math
import numbers
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sized
from decimal import Decimal
from itertools import accumulate, chain
from operator import getitem
from struct import Struct
from typing import Any

import numpy as np

from loglinear.arrays import Array, Bool, Float, Int32, Int64
from loglinear.data.columns.corpus import MOST_VALUE, PYTHON, Attributes, offsets_of
from loglinear.errors import DataError
from loglinear.features.dense import ARRAY, DenseRows, parted, placed, taken_out
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
    edge : tuple of str
        Names of features that are joined with label pairs as well, all their values included; without
        ``pair_features``.
    """

    kind = "names"

    def __init__(self, pair_features: bool | str = False, edge: tuple[str, ...] = ()) -> None:
        self.pair_features, self.edge = pair_features, edge
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
        known = corpus.values is self.vocabulary.strings  # as KnownAttributes reads them
        return self._encoded(corpus, None if known and not self.edge else self.vocabulary.ids(corpus.values))

    def _encoded(self, corpus: Attributes, new_ids: Int32 | None) -> EncodedCorpus:
        """The encoding, each attribute of the corpus having a new number (None: the same)."""
        state = Incidence(corpus.pointer, corpus.ids, corpus.weights)
        if new_ids is not None:
            state = state.rename(new_ids)
        if self.edge:
            assert new_ids is not None
            chosen = np.fromiter(map(self._is_edge, corpus.values), np.bool_, len(corpus.values))
            edge = Incidence(corpus.pointer, corpus.ids, corpus.weights).rename(np.where(chosen, new_ids, UNKNOWN))
            return EncodedCorpus(corpus.offsets, state, edge)
        encoded = EncodedCorpus(corpus.offsets, state, state if self.pair_features else None)
        return encoded.by_source() if self.pair_features == PAIRS_ONLY else encoded

    def _is_edge(self, attribute: str) -> bool:
        """Whether an attribute is one of the names ``edge``, or has one of them before its value (``:`` or ``=``)."""
        return attribute in self.edge or attribute.startswith(tuple(name + mark for name in self.edge for mark in ":="))

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
        encoder = NameEncoder(self.pair_features, self.edge)
        encoder.vocabulary = Vocabulary([self.vocabulary[i] for i in np.flatnonzero(kept).tolist()], locked=True)
        return encoder

    def to_header(self) -> dict[str, Any]:
        return {"pair_features": self.pair_features} | ({"edge": list(self.edge)} if self.edge else {})

    def to_arrays(self) -> dict[str, Array]:
        return {}

    @property
    def strings(self) -> list[str]:
        """The strings a model file stores besides the arrays."""
        return self.vocabulary.strings

    @classmethod
    def from_storage(cls, header: dict[str, Any], arrays: Mapping[str, Array], strings: list[str]) -> NameEncoder:
        """Rebuild from :meth:`to_header`, :meth:`to_arrays` and :attr:`strings`."""
        encoder = cls(stored_pair_features(header), stored_edge(header))
        encoder.vocabulary = Vocabulary(strings, locked=True)
        return encoder


def stored_edge(header: Mapping[str, Any]) -> tuple[str, ...]:
    """An encoder's ``edge`` from the header of a model file."""
    stored = header.get("edge", [])
    if not isinstance(stored, list) or not all(isinstance(name, str) for name in stored):
        raise ValueError("the names of features of label pairs are not a list of strings")
    return tuple(stored)


# ----------------------------------------------------------------------------------------------------------------------
# Features made by the user's code, by python-crfsuite's rules.
#
# A token's features are
#
# - a list (tuple, set, view of a dict's keys) of strings: each is an attribute with value 1;
# - a dict from names to values: a string gives the attribute ``name:string`` with value 1, a bool the attribute
#   ``name`` with value 1 or 0, a number the attribute ``name`` with that value; a list or set of strings gives the
#   attributes ``name:string``; a dict gives the attributes ``name:...`` of its entries, to any depth.
#
# Strings may also be bytes, in UTF-8. :func:`token_attributes` states these rules; :class:`AttributeReader` follows
# them with C iterators, many times faster, and leaves to it whatever is unusual.


def _text(value: Any, what: str) -> str:
    """A string, or bytes as one."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise DataError(f"{what} {value!r:.60} is not UTF-8") from None
    return str(value)


def _walk(name: str, value: Any) -> Iterator[tuple[str, float]]:
    """Attributes of one dict entry; ``name`` is its full name."""
    if isinstance(value, bytes):
        value = _text(value, f"the value of feature {name!r}")
    if isinstance(value, str):
        yield f"{name}:{value}", 1.0
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            key = _text(key, "a feature's name") if isinstance(key, bytes) else key
            yield from _walk(f"{name}:{key}", inner)
    elif isinstance(value, bool | np.bool_ | numbers.Real | Decimal):
        try:
            yield name, float(value)
        except OverflowError:
            raise DataError(f"feature {name!r} has a value of more than 1e308; scale it") from None
    elif isinstance(value, np.ndarray) and not value.ndim:
        yield from _walk(name, value.item())
    elif isinstance(value, Iterable):
        for item in value:
            if not isinstance(item, str | bytes):
                raise DataError(f"feature {name!r} is a list that holds {item!r:.60}; lists hold strings")
            yield f"{name}:{_text(item, 'the string') if isinstance(item, bytes) else item}", 1.0
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
            if not isinstance(name, str | bytes):
                raise DataError(f"a feature's name is a string, not {name!r:.60}")
            name = _text(name, "a feature's name") if isinstance(name, bytes) else name
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
        if not isinstance(item, str | bytes):
            raise DataError(f"a list of features holds strings, not {item!r:.60}")
        attributes.append((_text(item, "the feature") if isinstance(item, bytes) else item, 1.0))
    return attributes


# ----------------------------------------------------------------------------------------------------------------------
# The same rules by C iterators.
#
# The items of many tokens are looked up in one chain of ``map`` objects, without a Python instruction for each:
#
#     items = map(getitem, tables of all names, all values)
#
# A table is a dict from the values of a name to the numbers of items; ``__missing__`` does the work that takes Python
# (names, checks, numbers of attributes) once for each distinct item. Tokens with the same names in the same order have
# one *shape*, the tuple of these names, and the tables of a token are looked up by its shape at once; where there are
# more than :data:`MOST_SHAPES`, they are looked up name by name. An item is a number as four bytes, because joining
# bytes is the quickest way to an array:
#
#     items = frombuffer(b"".join(items))
#
# ==========  =================================================================================
# 0 or more   the attribute of that number, with the value 1, as nearly all are
# UNKNOWN     nothing
# less        another value: ``attributes[-2 - item]`` and ``values_of[-2 - item]`` say which
# ==========  =================================================================================
#
# A name with more than :data:`MOST_NUMBERS` different numbers gets a *lane* instead of a table, which would be as long
# as the data: its items are :data:`LANE`, and their numbers are taken as a column afterwards. Whatever ``__missing__``
# or a lane does not know (lists, dicts, values that are no features) ends the chain with an exception, and the tokens
# are read one by one. Values that are equal are the same feature.

IN_LANE = UNKNOWN - 1
MOST_NUMBERS = 1000  # different numbers of a name before it gets a lane
MOST_ITEMS = 200_000  # items that a reader of single sentences remembers
MOST_SHAPES = 1000
CHUNK = 1 << 11  # tokens read together; more of them leave the cache
STRINGS = {str, np.str_}
PLAIN = {*STRINGS, bytes, bool, int, float}
COLLECTIONS = {list, tuple, set, frozenset, type({}.keys())}
UNREADABLE = (TypeError, ValueError, OverflowError)  # of a chain of iterators: DataError is a ValueError

Numbering = Callable[[str], int | None]  # from the name of an attribute to its number, None if unknown
Bags = tuple[Int64, Int32, Float | None]  # of T tokens: pointer [T + 1], attributes [M], values [M] or None (all 1)


_as_bytes = Struct("=i").pack
LANE, NOTHING = _as_bytes(IN_LANE), _as_bytes(UNKNOWN)


class _Lane:
    """Stands for the table of a name with many numbers: its items are one, and whatever cannot be a number fails."""

    __slots__ = ()

    @staticmethod
    def __getitem__(value: Any) -> bytes:
        if not isinstance(value, float | int | np.number | np.bool_):
            raise TypeError("a value of another kind")
        return LANE


class _Table(dict[Any, bytes]):
    """Items of one name, by value."""

    __slots__ = ("_key", "_keys", "_n_numbers", "_name", "_number")

    def __init__(self, keys: _Keys, key: Any, name: str) -> None:
        self._keys, self._key, self._name = keys, key, name
        self._number = UNKNOWN - 1  # of the attribute of that name, once there is a number
        self._n_numbers = 0

    def __missing__(self, value: Any) -> bytes:
        kind, keys = type(value), self._keys
        if kind is str or kind is np.str_ or kind is bytes:
            text = value if kind is not bytes else _text(value, "the value")
            self[value] = item = keys.item(f"{self._name}:{text}")
            return item
        if not isinstance(value, float | int | np.generic) or not isinstance(value, numbers.Real | np.bool_):
            raise TypeError("a value of another kind")
        number = float(value)
        if not abs(number) <= MOST_VALUE:
            raise DataError("a value is not a number of a size that can be used")
        if self._number < UNKNOWN:
            self._number = keys.number(self._name)
        self[value] = item = keys.valued(self._number, number)
        self._n_numbers += 1
        if self._n_numbers > MOST_NUMBERS:
            keys.make_lane(self._key, self._number)
        return item


class _Strings(dict[Any, bytes]):
    """Items of strings that are attributes themselves."""

    __slots__ = ("_keys",)

    def __init__(self, keys: _Keys) -> None:
        self._keys = keys

    def __missing__(self, name: Any) -> bytes:
        if type(name) not in STRINGS:
            raise TypeError("a feature of another kind")
        self[name] = item = self._keys.item(str(name))
        return item


class _Shapes(dict[tuple[Any, ...], tuple[Any, ...]]):
    """The tables of a token, by its names."""

    __slots__ = ("_keys", "are_many")

    def __init__(self, keys: _Keys) -> None:
        self._keys, self.are_many = keys, False

    def __missing__(self, names: tuple[Any, ...]) -> tuple[Any, ...]:
        tables = tuple(map(self._keys.__getitem__, names))
        if len(self) < MOST_SHAPES:
            self[names] = tables
        else:
            self.are_many = True
        return tables


class _Keys(dict[Any, Any]):
    """The tables of names, and what their items are. Unless ``zeros`` count, what has the value 0 is left out."""

    def __init__(self, numbering: Numbering, zeros: bool = True) -> None:
        self._find, self.zeros = numbering, zeros
        self.n_items = 0  # how many are remembered
        self.n_valued = 1  # items with another value than 1, :data:`LANE` among them
        self.attributes, self.values_of = np.zeros(1024, dtype=np.int32), np.ones(1024)
        self.strings, self.shapes = _Strings(self), _Shapes(self)
        self.lanes: dict[Any, int] = {}  # the attribute of each name with a lane
        self._lock = threading.Lock()

    def __missing__(self, key: Any) -> _Table:
        if type(key) not in STRINGS and type(key) is not bytes:
            raise TypeError("a name of another kind")
        return self.setdefault(key, _Table(self, key, _text(key, "a feature's name")))

    def number(self, name: str) -> int:
        """The number of an attribute, :data:`UNKNOWN` if it has none."""
        number = self._find(name)
        return UNKNOWN if number is None else number

    def item(self, name: str) -> bytes:
        """The item of an attribute with the value 1, to be remembered."""
        self.n_items += 1
        number = self._find(name)
        return NOTHING if number is None else _as_bytes(number)

    def valued(self, attribute: int, value: float) -> bytes:
        """A new item, to be remembered."""
        self.n_items += 1
        if attribute < 0 or not (value or self.zeros):
            return NOTHING
        if value == 1.0:
            return _as_bytes(attribute)
        with self._lock:
            n = self.n_valued
            if n == len(self.attributes):
                self.attributes = np.concatenate([self.attributes, np.zeros(n, dtype=np.int32)])
                self.values_of = np.concatenate([self.values_of, np.ones(n)])
            self.attributes[n], self.values_of[n] = attribute, value
            self.n_valued += 1
            return _as_bytes(IN_LANE - n)

    def make_lane(self, key: Any, attribute: int) -> None:
        """Let a name have a lane from now on."""
        self.lanes[key] = attribute
        self[key] = _Lane()
        self.shapes.clear()

    def tables(self, tokens: Collection[dict[Any, Any]]) -> Iterator[Any]:
        """The table of each item of tokens, in a row."""
        if self.shapes.are_many:
            return map(self.__getitem__, chain.from_iterable(tokens))
        return chain.from_iterable(map(self.shapes.__getitem__, map(tuple, tokens)))

    def meaning(self, items: Int32) -> tuple[Int32, Float | None]:
        """Attributes and values (None: all 1) of items."""
        if self.n_valued == 1 and not self.lanes:
            return items, None
        place = np.flatnonzero(items <= IN_LANE)
        if not place.size:
            return items, None
        ids, weights, which = items.copy(), np.ones(len(items)), IN_LANE - items[place]
        ids[place], weights[place] = self.attributes[which], self.values_of[which]
        return ids, weights


class AttributeReader:
    """Features of tokens as numbers of attributes and values, by :func:`token_attributes`' rules. Threads may share it.

    Parameters
    ----------
    numbering : callable
        The number of an attribute by its name; those without one (None) are left out.
    most_items : int, optional
        How many distinct items to remember from one call to the next; all by default.
    zeros : bool
        Whether features with the value 0 are attributes, too: so in training, where they are among the names.
    """

    def __init__(self, numbering: Numbering, most_items: int | None = None, zeros: bool = True) -> None:
        self._numbering, self._most_items, self._zeros = numbering, most_items, zeros
        self._keys = _Keys(numbering, zeros)

    def read(self, tokens: list[Any] | tuple[Any, ...]) -> Bags:
        """Attributes of tokens that are all dicts, or all collections of strings.

        Raises one of :data:`UNREADABLE` for tokens of which any has to be read by :meth:`read_slowly`.
        """
        kinds = set(map(type, tokens))
        if kinds == {dict}:
            return self._read_dicts(tokens)
        if not kinds <= COLLECTIONS:
            raise TypeError("tokens of other kinds")
        items = _joined(map(self._keys.strings.__getitem__, chain.from_iterable(tokens)))
        self._forget_some()
        return _known(_pointer(tokens), items, None)

    def read_mixed(self, tokens: list[Any]) -> Bags:
        """Attributes of tokens that are all dicts, some of whose values are no plain ones: lists, dicts, views.

        Raises one of :data:`UNREADABLE` as :meth:`read` does.
        """
        if set(map(type, tokens)) != {dict}:
            raise TypeError("tokens of other kinds")
        keys = self._keys
        items, ends = list[bytes](), [0]
        others, own, values = list[int](), list[int](), list[float]()  # attributes without an item: where, what
        for token in tokens:
            for key, value in token.items():
                table = keys[key]
                if type(value) in PLAIN and type(table) is _Table:
                    items.append(table[value])
                    continue
                for name, weight in token_attributes({key: value}):
                    others.append(len(items))
                    own.append(keys.number(name))
                    values.append(weight)
                    items.append(NOTHING)
            ends.append(len(items))
        ids, weights = keys.meaning(_joined(items))
        self._forget_some()
        if any(value != 1.0 for value in values):
            weights = np.ones(len(ids)) if weights is None else weights
            weights[others] = values
        ids[others] = own
        return _known(np.array(ends, dtype=np.int64), ids, weights)

    def read_slowly(self, features: Any, owner: str = "token") -> Bags:
        """Attributes of one token of any kind; raises DataError for what is none."""
        return self.read_found([token_attributes(features, owner)])

    def read_found(self, found: list[list[tuple[str, float]]]) -> Bags:
        """What :func:`token_attributes` gave for each of some tokens."""
        pairs = list(chain.from_iterable(found))
        ids = np.array([self._keys.number(name) for name, _ in pairs], dtype=np.int32)
        values = np.array([value for _, value in pairs], dtype=np.float64)
        return _known(_pointer(found), ids, None if (values == 1.0).all() else values)

    def _read_dicts(self, tokens: list[dict[Any, Any]] | tuple[dict[Any, Any], ...]) -> Bags:
        keys = self._keys
        while True:
            n_lanes = len(keys.lanes)
            look_up = getitem if n_lanes else dict.__getitem__  # which is quicker, but refuses lanes
            values = chain.from_iterable(map(dict.values, tokens))
            try:
                items = _joined(map(look_up, keys.tables(tokens), values))
            except TypeError:
                if len(keys.lanes) == n_lanes:
                    raise
            else:
                break
        self._forget_some()
        ids, weights = keys.meaning(items)
        if keys.lanes and (place := np.flatnonzero(items == IN_LANE)).size:
            assert weights is not None
            names = list(chain.from_iterable(tokens))
            column = list(chain.from_iterable(map(dict.values, tokens)))
            where = place.tolist()
            ids[place] = np.fromiter(map(keys.lanes.__getitem__, map(names.__getitem__, where)), np.int32, len(where))
            weights[place] = np.array(list(map(column.__getitem__, where)), dtype=np.float64)
            if not (np.abs(weights[place]) <= MOST_VALUE).all():
                raise DataError("a value is not a number of a size that can be used")
        return _known(_pointer(tokens), ids, weights)

    def _forget_some(self) -> None:
        """Start again with no items where there are more than should be remembered."""
        if self._most_items is not None and self._keys.n_items > self._most_items:
            self._keys = _Keys(self._numbering, self._zeros)


def _joined(items: Iterable[bytes]) -> Int32:
    """Items as an array that can be written to: kernels compiled ahead are for such arrays."""
    return np.frombuffer(bytearray().join(items), np.int32)


def _pointer(tokens: Collection[Sized]) -> Int64:
    """Where the items of each token begin [T + 1]."""
    return np.fromiter(accumulate(map(len, tokens), initial=0), np.int64, len(tokens) + 1)


def _known(pointer: Int64, ids: Int32, weights: Float | None) -> Bags:
    """Without the attributes that have no number."""
    kept = np.flatnonzero(ids >= 0)
    if len(kept) == len(ids):
        return pointer, ids, weights
    return np.searchsorted(kept, pointer), ids[kept], None if weights is None else weights[kept]


class _Names(dict[str, int]):
    """Numbers in order of first occurrence."""

    def __missing__(self, name: str) -> int:
        number = self[name] = len(self)
        return number


class KnownAttributes:
    """The attributes of a vocabulary that is complete, and a reader that remembers their items from call to call."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.strings, self.ids = vocabulary.strings, vocabulary.ids
        self.reader = AttributeReader(vocabulary.find, MOST_ITEMS, zeros=False)


class AttributeLists:
    """Attributes of tokens or other owners as numbers: those that are known, or all, in order of first occurrence."""

    def __init__(self, known: KnownAttributes | None = None) -> None:
        index = _Names()
        self._reader = AttributeReader(index.__getitem__) if known is None else known.reader
        self._strings: Collection[str] = index if known is None else known.strings
        self._bags: list[Bags] = []
        self._waiting: list[list[tuple[str, float]]] = []  # of owners read one by one, not yet among the bags

    def add(self, features: Any, owner: str = "token") -> None:
        """Append the attributes of the next owner."""
        self._waiting.append(token_attributes(features, owner))
        if len(self._waiting) == CHUNK:
            self._settle()

    def _settle(self) -> None:
        """Number the attributes of those that wait, before any that come later."""
        if self._waiting:
            self._bags.append(self._reader.read_found(self._waiting))
            self._waiting = []

    def extend(self, tokens: list[Any], mixed: bool = False) -> bool:
        """Append the attributes of the next owners, dicts with lists and dicts in them if ``mixed``, else plain ones.

        False if they have to be appended in another way, by ``add`` in the end.
        """
        self._settle()
        try:
            self._bags.append(self._reader.read_mixed(tokens) if mixed else self._reader.read(tokens))
        except UNREADABLE:
            return False
        return True

    def corpus(self, offsets: Int64, name: str = PYTHON) -> Attributes:
        """The corpus of all that was added, in sequences with these ``offsets`` [S + 1]."""
        self._settle()
        counts = np.concatenate([np.zeros(0, dtype=np.int64), *(np.diff(bag[0]) for bag in self._bags)])
        ids = np.concatenate([np.zeros(0, dtype=np.int32), *(bag[1] for bag in self._bags)])
        weights = None
        if any(values is not None for _, _, values in self._bags):
            weights = np.concatenate([np.ones(len(own)) if values is None else values for _, own, values in self._bags])
            weights = None if (weights == 1.0).all() else weights
        return Attributes(
            name=name,
            offsets=offsets,
            lines=np.zeros(int(offsets[-1]), dtype=np.int64),
            label=None,
            pointer=offsets_of(counts),
            ids=ids,
            weights=weights,
            values=self._strings if isinstance(self._strings, list) else list(self._strings),
        )


def attributes_of(
    sequences: Iterable[Iterable[Any]], name: str = PYTHON, empty: bool = False, known: KnownAttributes | None = None
) -> Attributes:
    """The corpus of a user's feature sequences; errors name the sequence and the position (from 0).

    With ``empty``, sequences may be empty (:meth:`Attributes.without_empty`). With ``known``, other attributes are left
    out.
    """
    reading, waiting, n_waiting = _Reading(known), list[Any](), 0
    for i, sequence in enumerate(sequences):
        try:
            tokens, matrix = (sequence, None) if type(sequence) is list else parted(sequence)
        except DataError as error:
            raise placed(error, i) from None
        tokens = tokens_of(tokens, i)
        if matrix is not None:
            first = reading.n_tokens + n_waiting
            reading.add_dense(ARRAY, slice(first, first + len(matrix)), matrix, i)
        waiting.append(tokens)
        n_waiting += len(tokens)
        if n_waiting >= CHUNK:
            reading.add(waiting)
            waiting, n_waiting = [], 0
    reading.add(waiting)
    corpus = reading.lists.corpus(offsets_of(reading.lengths), name)
    corpus.dense = reading.dense.matrices(reading.n_tokens)
    return corpus.without_empty(allowed=empty)


def tokens_of(sequence: Any, i: int) -> list[Any] | tuple[Any, ...]:
    """The tokens of a user's ``i``-th sequence: a list, any other collection, or what gives one by ``items()``."""
    if type(sequence) is list or type(sequence) is tuple:
        return sequence
    if not isinstance(sequence, str | bytes | Mapping):
        if callable(items := getattr(sequence, "items", None)):  # python-crfsuite's ItemSequence, and others like it
            sequence = items()
        if isinstance(sequence, Iterable):
            return list(sequence)
    raise DataError(f"sequence {i} (from 0) is a {type(sequence).__name__}, not a list of tokens' features")


class _Reading:
    """What has been read of a user's sequences."""

    def __init__(self, known: KnownAttributes | None = None) -> None:
        self.lists, self.lengths, self.dense = AttributeLists(known), list[int](), DenseRows()
        self.n_tokens = 0
        self._mixed = False  # whether the last tokens were, and the next ones may be
        self._arrays: set[Any] = set()  # names of features that are arrays

    def add(self, sequences: list[Any]) -> None:
        """Append the tokens of sequences, together if they are plain or mixed."""
        tokens = list(chain.from_iterable(sequences))
        if self._arrays or not self._extend(tokens):
            for sequence in sequences:
                self._add_sequence(sequence)
            return
        self.lengths += map(len, sequences)
        self.n_tokens += len(tokens)

    def _extend(self, tokens: Any) -> bool:
        """Append tokens in the quickest way that works; False if none but that of each by itself does."""
        if not self._mixed and self.lists.extend(tokens):
            return True
        self._mixed = self.lists.extend(tokens, mixed=True)
        return self._mixed

    def _add_sequence(self, tokens: Any) -> None:
        i = len(self.lengths)
        if self._arrays:
            tokens = self._without_arrays(tokens, i)
        if not self._extend(tokens):
            left = self._without_arrays(tokens, i)
            for t, features in enumerate(left):
                try:
                    self.lists.add(features)
                except DataError as error:
                    raise DataError(f"sequence {i}, position {t} (from 0): {error}") from None
        self.lengths.append(len(tokens))
        self.n_tokens += len(tokens)

    def _without_arrays(self, tokens: Any, i: int) -> list[Any]:
        try:
            left, found = taken_out(tokens, self._arrays)
        except DataError as error:
            raise placed(error, i) from None
        for name, (positions, rows) in found.items():
            self.add_dense(name, np.array(positions) + self.n_tokens, rows, i)
        return left

    def add_dense(self, name: str, positions: Any, rows: Float, i: int) -> None:
        """Append dense features of the ``i``-th sequence."""
        try:
            self.dense.add(name, positions, rows)
        except DataError as error:
            raise placed(error, i) from None


def attributes_of_examples(examples: Iterable[Any], name: str = PYTHON) -> Attributes:
    """The corpus of examples of one position each; errors name the example (from 0)."""
    lists, given = AttributeLists(), list(examples)
    for first in range(0, len(given), CHUNK):
        chunk = given[first : first + CHUNK]
        if not (lists.extend(chunk) or lists.extend(chunk, mixed=True)):
            for n, features in enumerate(chunk, start=first):
                try:
                    lists.add(features, "example")
                except DataError as error:
                    raise DataError(f"example {n} (from 0): {error}") from None
    return lists.corpus(np.arange(len(given) + 1, dtype=np.int64), name)
