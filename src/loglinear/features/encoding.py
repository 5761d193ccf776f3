"""The integer form of a corpus: which attributes hold at which position.

An *attribute* is an observation (``word=the``); a *feature* joins an attribute with a label or a pair of labels and
has a weight. :class:`Incidence` lists, for each of N positions, its attributes and their values:

    positions      0        1     2
    pointer   [0      , 2      , 3      , 5]
    ids       [4 , 17 | 4      | 9 , 17 ]          values: None (all one) or a number each
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any, cast

import numpy as np

from loglinear import mapped
from loglinear.arrays import Array, Bool, Float, Int32, Int64
from loglinear.data.columns.corpus import Attributes, Columns, offsets_of, ranges
from loglinear.kernels import kernel
from loglinear.kernels.tables import NO_VALUES, Lists

PAIRS_ONLY = "only"  # of an encoder's ``pair_features``: attributes are joined with label pairs alone
BLOCK = 1 << 14  # positions whose attributes are computed together


@kernel
def _renumber(
    block: Int32, wanted: Int64, firsts: Int64, renamed: Int32, filled: int, pointer: Int64, ids: Int32
) -> int:
    """Append the lists of a ``block`` [K, B] to the ``filled`` entries of ``ids``; they begin at ``pointer`` [B + 1].

    Entry e of row k becomes ``firsts[k] + e``, and then ``renamed[firsts[k] + e]`` unless ``renamed`` is empty;
    negative entries are left out.
    """
    for t in range(block.shape[1]):
        pointer[t] = filled
        for j in range(wanted.shape[0]):
            k = wanted[j]
            if block[k, t] >= 0:
                attribute = firsts[k] + block[k, t]
                if renamed.shape[0]:
                    attribute = np.int64(renamed[attribute])
                if attribute >= 0:
                    ids[filled] = attribute
                    filled += 1
    pointer[block.shape[1]] = filled
    return filled


@kernel
def _count(block: Int32, firsts: Int64, counts: Int64) -> None:
    """Add the number of occurrences of each attribute in a ``block`` [K, B] to ``counts`` [A]."""
    for k in range(block.shape[0]):
        for t in range(block.shape[1]):
            if block[k, t] >= 0:
                counts[firsts[k] + block[k, t]] += 1


class AttributeBlocks:
    """One attribute (or -1) for each of K templates and N positions, block by block, before they become an incidence.

    Attribute numbers are local to a template until all templates have been read. The blocks share their memory with the
    incidence, so that nothing is in memory twice::

        [K, B] of block 0 | [K, B] of block 1 | ...    becomes    attributes of position 0 | of position 1 | ...

    Parameters
    ----------
    n_templates : int
        K.
    offsets : int64 [S + 1]
        Offsets of the sequences; a block is a run of whole sequences.
    """

    def __init__(self, n_templates: int, offsets: Int64) -> None:
        self._offsets, self._k = offsets, n_templates
        self._entries = mapped.empty(int(offsets[-1]) * n_templates, np.int32)
        self.runs = runs(offsets, 0, len(offsets) - 1, BLOCK)

    def block(self, first: int, end: int) -> Int32:
        """The entries [K, B] of sequences ``first`` to ``end``, a view to write to."""
        lo, hi = int(self._offsets[first]), int(self._offsets[end])
        return self._entries[lo * self._k : hi * self._k].reshape(self._k, hi - lo)

    def counts(self, firsts: Int64, n_attributes: int) -> Int64:
        """How often each attribute [A] occurs, given the number of each template's first [K]."""
        counts = np.zeros(n_attributes, dtype=np.int64)
        for first, end in self.runs:
            _count(self.block(first, end), firsts, counts)
        return counts

    def incidence(self, wanted: Int64, firsts: Int64, renamed: Int32 | None = None, last: bool = False) -> Incidence:
        """The attributes of the templates ``wanted``; entry e of template k becomes ``firsts[k] + e``.

        These are then ``renamed`` [A], where -1 drops an attribute. The ``last`` incidence takes over the blocks'
        memory.
        """
        ids = self._entries if last else mapped.empty(int(self._offsets[-1]) * len(wanted), np.int32)
        pointer = mapped.zeros(int(self._offsets[-1]) + 1, np.int64)
        names = np.zeros(0, dtype=np.int32) if renamed is None else renamed
        filled = 0
        for first, end in self.runs:
            lo, hi = int(self._offsets[first]), int(self._offsets[end])
            block = self.block(first, end).copy()  # lists are never written beyond the block they come from
            filled = _renumber(block, wanted, firsts, names, filled, pointer[lo : hi + 1], ids)
        if last:
            self._entries = np.zeros(0, dtype=np.int32)
        if filled < len(ids) and ids.base is None:
            ids.resize(filled, refcheck=False)  # frees the rest without a copy; no view of it is left
        ids = ids[:filled]
        return Incidence(pointer, ids)

    def encoded(self, in_state: Int64, in_edge: Int64, firsts: Int64, renamed: Int32 | None) -> EncodedCorpus:
        """The corpus with the attributes of the templates ``in_state`` and ``in_edge``; see :meth:`incidence`."""
        alike = np.array_equal(in_edge, in_state)
        edge = self.incidence(in_edge, firsts, renamed) if len(in_edge) and not alike else None
        state = self.incidence(in_state, firsts, renamed, last=True)
        return EncodedCorpus(self._offsets, state, state if len(in_edge) and alike else edge)


@dataclass(frozen=True, slots=True)
class Incidence:
    """Attributes of each position, as concatenated lists.

    Parameters
    ----------
    pointer : int64 [N + 1]
        Position t has entries ``pointer[t]`` to ``pointer[t + 1]``.
    ids : int32 [E]
        The attributes.
    values : float64 [E] or None
        Their values; None if all are one.
    """

    pointer: Int64
    ids: Int32
    values: Float | None = None

    @property
    def n_positions(self) -> int:
        return len(self.pointer) - 1

    def lists(self, first: int = 0, end: int | None = None) -> Lists:
        """Positions ``first`` to ``end`` (by default all) in the form that kernels take."""
        pointer = self.pointer[first : self.n_positions + 1 if end is None else end + 1]
        return Lists(pointer, self.ids, NO_VALUES if self.values is None else self.values)

    def observed(self, n_attributes: int, code_pointer: Int64, codes: Int32, n_codes: int) -> tuple[Int64, Int32]:
        """The codes that occur with each attribute (:func:`loglinear.features.block.observed_pairs`)."""
        from loglinear.features.block import observed_pairs  # which builds on this module

        return observed_pairs(self.pointer, self.ids, n_attributes, code_pointer, codes, n_codes)

    def at(self, positions: Int64) -> Incidence:
        """The attributes of these ``positions`` (ascending); all others have none."""
        lengths, begins = np.zeros(self.n_positions, dtype=np.int64), self.pointer[positions]
        lengths[positions] = self.pointer[positions + 1] - begins
        kept = ranges(begins, lengths[positions])
        return Incidence(offsets_of(lengths), self.ids[kept], None if self.values is None else self.values[kept])

    def rename(self, new_ids: Int32) -> Incidence:
        """Attribute a becomes ``new_ids[a]``; entries that become -1 are dropped."""
        renamed = mapped.taken(new_ids, self.ids)
        pieces = [slice(first, first + mapped.PIECE) for first in range(0, len(renamed), mapped.PIECE)]
        if all(bool((renamed[piece] >= 0).all()) for piece in pieces):
            return Incidence(self.pointer, renamed, self.values)
        if len(pieces) == 1:
            left = np.flatnonzero(renamed >= 0)
            values_left = None if self.values is None else self.values[left]
            return Incidence(np.searchsorted(left, self.pointer), renamed[left], values_left)
        ids, values = mapped.Growing(np.int32), mapped.Growing(np.float64)
        before, entries = mapped.zeros(len(renamed) + 1, np.int64), 0  # kept entries before each
        for piece in pieces:
            kept = renamed[piece] >= 0
            ids.append(renamed[piece][kept])
            if self.values is not None:
                values.append(self.values[piece][kept])
            before[piece.start + 1 : piece.start + 1 + len(kept)] = entries + np.cumsum(kept)
            entries += int(np.count_nonzero(kept))
        pointer = mapped.taken(before, self.pointer)
        return Incidence(pointer, ids.array(), None if self.values is None else values.array())


@dataclass(frozen=True, slots=True)
class EncodedCorpus:
    """A corpus in numbers: S sequences, N positions in all.

    Parameters
    ----------
    offsets : int64 [S + 1]
        Sequence i has positions ``offsets[i]`` to ``offsets[i + 1]``.
    state : Incidence
        Attributes joined with the label of their position; of first positions alone, see :meth:`by_source`.
    edge : Incidence or None
        Attributes joined with the pair of labels (previous, own). Those at first positions are ignored.
    dense : float64 [N, K] or None
        Dense features, joined with the label of their position (:mod:`~loglinear.features.dense`).
    fields : tuple of int32 [N]
        Numbers of the values that a generative base emits, if there is one.
    text : Columns, Attributes or None
        The corpus itself, for a user-defined base.
    """

    offsets: Int64
    state: Incidence
    edge: Incidence | None = None
    fields: tuple[Int32, ...] = ()
    text: Columns | Attributes | None = None
    dense: Float | None = None

    @property
    def n_sequences(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_positions(self) -> int:
        return int(self.offsets[-1])

    def arrays(self) -> list[Array | None]:
        """All its arrays."""
        edge = None if self.edge is None else self.edge.ids
        own = [] if self.edge is None or self.edge is self.state else [self.edge.pointer, self.edge.values]
        return [
            self.offsets,
            self.state.pointer,
            self.state.ids,
            self.state.values,
            edge,
            *own,
            *self.fields,
            self.dense,
        ]

    def by_source(self) -> EncodedCorpus:
        """The corpus with features f(y_{t-1}, y_t, x_t) alone: a source state, a label, an attribute.

        The source of a first label is a silent start. The pair (start, y) is the label y, and so the attributes of
        first positions, which have no edge, stay joined with labels; all others are joined with pairs only.
        """
        firsts = self.offsets[:-1][np.diff(self.offsets) > 0]
        return self if self.edge is None else replace(self, state=self.state.at(firsts))


class EncodedElsewhere(EncodedCorpus, ABC):
    """A corpus in numbers that are not in this process: it makes objectives that know where they are."""

    __slots__ = ()

    @abstractmethod
    def objective(
        self, features: Any, gold: Any, criterion: Any, penalties: Any, l2: float, sequence_weights: Float | None,
        single_precision: bool,
    ) -> Any:  # fmt: skip
        """Losses and L2 penalty as a function of the weights; see :class:`loglinear.optimizers.objective.Objective`."""


def stored_pair_features(header: Mapping[str, Any]) -> bool | str:
    """An encoder's ``pair_features`` from the header of a model file."""
    stored = header["pair_features"]
    return PAIRS_ONLY if stored == PAIRS_ONLY else bool(stored)


def runs(offsets: Int64, first: int, end: int, most: int) -> list[tuple[int, int]]:
    """Cut sequences ``first`` to ``end`` into runs of at most ``most`` positions, or of a single sequence."""
    runs = []
    while first < end:
        stop = int(np.searchsorted(offsets, offsets[first] + most, side="right")) - 1
        stop = min(max(stop, first + 1), end)
        runs.append((first, stop))
        first = stop
    return runs


def lists_of(chosen: Bool) -> tuple[Int64, Int32]:
    """The columns chosen in each row of a mask [n, m]: a pointer [n + 1] and the columns."""
    pointer = np.concatenate([[0], np.cumsum(chosen.sum(axis=1))]).astype(np.int64)
    return pointer, np.nonzero(chosen)[1].astype(np.int32)


def concatenated(pieces: Sequence[tuple[Int64, Int32]]) -> tuple[Int64, Int32]:
    """Join pieces of lists, each a pointer [n + 1] and ids, to one pointer and one array of ids."""
    before = np.cumsum([0, *(len(ids) for _, ids in pieces)])
    pointers = [pointer[:-1] + start for (pointer, _), start in zip(pieces, before, strict=False)]
    pointer = np.concatenate([*pointers, before[-1:]]).astype(np.int64)
    return pointer, np.concatenate([np.zeros(0, dtype=np.int32), *(ids for _, ids in pieces)])


# ----------------------------------------------------------------------------------------------------------------------
# Strings to numbers, in order of first occurrence; locked after training so that new strings are unknown.


UNKNOWN = -1


class Vocabulary:
    """A bijection between n strings and 0..n-1.

    Parameters
    ----------
    strings : sequence of str, optional
        Distinct strings; the i-th gets number i.
    locked : bool
        Whether new strings get :data:`UNKNOWN` instead of a new number.
    """

    def __init__(self, strings: Sequence[str] = (), locked: bool = False) -> None:
        self.strings: list[str] = list(strings)
        self.locked = locked
        self._ids = {string: i for i, string in enumerate(self.strings)}
        if len(self._ids) != len(self.strings):
            raise ValueError("a vocabulary's strings must be distinct")

    def lock(self) -> None:
        self.locked = True

    def id(self, string: str) -> int:
        """The string's number; a new string gets a new number, or :data:`UNKNOWN` if locked."""
        number = self._ids.get(string)
        if number is None:
            if self.locked:
                return UNKNOWN
            number = self._ids[string] = len(self.strings)
            self.strings.append(string)
        return number

    @property
    def find(self) -> Callable[[str], int | None]:
        """A quick function from a string to its number, None if it has none (yet)."""
        return self._ids.get

    def ids(self, strings: Iterable[str | None]) -> Int32:
        """Numbers of many strings; None is always :data:`UNKNOWN`."""
        if self.locked:
            get = cast("Callable[[str | None, int], int]", self._ids.get)  # None is never among the keys
            return np.fromiter(map(get, strings, repeat(UNKNOWN)), np.int32)
        return np.array([self.id(s) if s is not None else UNKNOWN for s in strings], dtype=np.int32)

    def __getitem__(self, number: int) -> str:
        return self.strings[number]

    def __len__(self) -> int:
        return len(self.strings)

    def __contains__(self, string: str) -> bool:
        return string in self._ids
