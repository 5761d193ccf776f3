"""Fast look-up of attributes in new text: a read-only index of a trained encoder's attributes.

Each source (a column and a function of it) has its own numbering of the V_s values that occur in attributes. The
numbers of a template's macros are combined to one number, its code, by mixed radix, and all attributes of the template
are in one table:

    code      =  sum_j number_j * stride_j            stride_j = V_{j+1} * V_{j+2} * ...
    direct    table[code] is the attribute or -1      where the codes are few: one macro, or tags
    hashed    slots of codes, probed linearly from a hash, next to the attribute; at most half full

A position costs a few integer operations per template, and all templates are looked up in one pass, O(positions).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from loglinear import mapped
from loglinear.arrays import Bool, Int32, Int64
from loglinear.data.columns.corpus import Columns
from loglinear.features.encoding import EncodedCorpus, Incidence, Vocabulary, concatenated, runs
from loglinear.features.templates.gazetteer import MARKS
from loglinear.features.templates.language import GAZETTEER, Macro
from loglinear.kernels import kernel
from loglinear.kernels.numbers import longest
from loglinear.kernels.tables import fill, find
from loglinear.system import in_threads

if TYPE_CHECKING:
    from loglinear.features.templates.encoder import TemplateEncoder


MOST_CODES = 2**62
DIRECT_SHARE, DIRECT_LEAST = 16, 1024  # most entries of a direct table: per attribute, and in addition


@kernel
def _add_number(codes: Int64, t: int, number: int, stride: int) -> None:
    """Add a macro's number to the code of a position; a code with an unknown value stays negative."""
    code = codes[t]
    codes[t] = code + number * stride if number >= 0 and code >= 0 else -1


@kernel
def _fill_codes(macros: Int64, sources: Int32, boundaries: Int32, first: int, end: int, codes: Int64) -> None:
    """Codes [T] of a template's macros [M, 4] at the positions of the sequence [first, end); -1 if one is unknown."""
    n = end - first
    for t in range(n):
        codes[t] = 0
    for j in range(macros.shape[0]):
        macro, source = macros[j], sources[macros[j, 0]]
        before, after = boundaries[macro[0], 0], boundaries[macro[0], 1]
        row, stride = macro[1], macro[3]
        if macro[2]:
            place = row - 1 if row > 0 else n + row
            number = before[-place - 1] if place < 0 else after[place - n] if place >= n else source[first + place]
            for t in range(n):
                _add_number(codes, t, number, stride)
            continue
        begin, stop = min(max(0, -row), n), max(min(n, n - row), 0)
        for t in range(begin):
            _add_number(codes, t, before[-row - t - 1], stride)
        inside = source[first + begin + row : first + stop + row]
        for t in range(stop - begin):
            _add_number(codes, begin + t, inside[t], stride)
        for t in range(max(begin, stop), n):
            _add_number(codes, t, after[t + row - n], stride)


class Tables(NamedTuple):
    """The templates of an index, and their attributes by code.

    Parameters
    ----------
    pointer : int64 [K + 1]
        Template k has the macros ``pointer[k]`` to ``pointer[k + 1]``.
    macros : int64 [M, 4]
        Source, row, whether that is absolute, stride.
    boundaries : int32 [sources, 2, reach]
        Numbers before and after a sequence.
    tables : int64 [K, 2]
        Where a template's table begins, and its size; 0 means a direct table.
    direct : int32
        The attribute of each code, all direct tables concatenated.
    codes, attributes : int64, int32
        All hashed tables, concatenated.
    """

    pointer: Int64
    macros: Int64
    boundaries: Int32
    tables: Int64
    direct: Int32
    codes: Int64
    attributes: Int32


@kernel
def _look_up(sources: Int32, offsets: Int64, chosen: Int64, index: Tables, pointer: Int64, ids: Int32) -> int:
    """Attributes of all positions by the templates ``chosen``, as concatenated lists; returns their total length.

    ``sources`` [sources, N]; ``offsets`` [S + 1] of the sequences to encode; ``pointer`` [n + 1].
    """
    begins, all_macros, boundaries, tables, direct, all_codes, all_attributes = index
    most = longest(offsets)
    found, wanted = np.empty((chosen.shape[0], most), dtype=np.int32), np.empty(most, dtype=np.int64)
    filled, origin = 0, offsets[0]
    for i in range(offsets.shape[0] - 1):
        first, end = offsets[i], offsets[i + 1]
        for c in range(chosen.shape[0]):
            k, out = chosen[c], found[c]
            _fill_codes(all_macros[begins[k] : begins[k + 1]], sources, boundaries, first, end, wanted)
            start, size = tables[k, 0], tables[k, 1]
            if size == 0:
                for t in range(end - first):
                    out[t] = direct[start + wanted[t]] if wanted[t] >= 0 else -1
            else:
                codes, attributes = all_codes[start : start + size], all_attributes[start : start + size]
                for t in range(end - first):
                    out[t] = attributes[find(wanted[t], codes)] if wanted[t] >= 0 else -1
        for t in range(end - first):
            pointer[first - origin + t] = filled
            for c in range(chosen.shape[0]):
                if found[c, t] >= 0:
                    ids[filled] = found[c, t]
                    filled += 1
    pointer[offsets[offsets.shape[0] - 1] - origin] = filled
    return filled


@dataclass(frozen=True)
class TemplatePlan:
    """What the index needs to know about a template: its macros [M, 3] (source, row, absolute) and its attributes.

    ``keys`` [A, M] are the numbers of the values of attributes ``base``, ``base + 1``, ...; templates of one ``group``
    (with the same text around their macros) share their attributes.
    """

    macros: Int32
    group: int
    keys: Int32
    base: int


class AttributeIndex:
    """The attributes of an encoder, for look-ups only.

    Parameters
    ----------
    templates : sequence of TemplatePlan
    n_sources : int
    boundaries : int32 [sources, 2, reach]
        Numbers of the values before and after a sequence, by distance from it; -1 if unknown.
    n_values : int
        V, the number of values.
    """

    def __init__(self, templates: Sequence[TemplatePlan], n_sources: int, boundaries: Int32, n_values: int) -> None:
        used = _values_used(templates, n_sources, n_values)
        unknown = np.full((len(used), 1), -1)
        self._numbers = np.append(np.where(used, np.cumsum(used, axis=1) - 1, -1), unknown, axis=1).astype(np.int32)
        pointer = np.cumsum([0, *(len(plan.macros) for plan in templates)]).astype(np.int64)
        all_macros, tables = np.zeros((int(pointer[-1]), 4), dtype=np.int64), np.empty((len(templates), 2), np.int64)
        sizes = used.sum(axis=1).tolist()
        direct: list[Int32] = []
        hashed: list[tuple[int, Int64, int, int]] = []
        known: dict[tuple[int, ...], int] = {}
        n_direct = n_slots = 0
        for k, plan in enumerate(templates):
            radices = [sizes[source] for source in plan.macros[:, 0].tolist()]
            strides = strides_of(radices)
            macros = all_macros[pointer[k] : pointer[k + 1]]
            macros[:, :3], macros[:, 3] = plan.macros, strides[1:]
            shared = known.setdefault((plan.group, *plan.macros[:, 0].tolist()), k)
            if shared < k:  # an earlier template has the same group and sources
                tables[k] = tables[shared]
                continue
            codes = np.zeros(len(plan.keys), dtype=np.int64)
            for j, (source, _, _, stride) in enumerate(macros.tolist()):
                codes += self._numbers[source, plan.keys[:, j]].astype(np.int64) * stride
            if strides[0] <= DIRECT_SHARE * len(codes) + DIRECT_LEAST:
                table = np.full(strides[0], -1, dtype=np.int32)
                table[codes] = np.arange(plan.base, plan.base + len(codes))
                tables[k] = n_direct, 0
                direct.append(table)
                n_direct += len(table)
            else:
                size = 1 << (2 * len(codes)).bit_length()
                tables[k] = n_slots, size
                hashed.append((plan.base, codes, n_slots, size))
                n_slots += size
        keys, attributes = np.full(n_slots, -1, dtype=np.int64), np.full(n_slots, -1, dtype=np.int32)
        for base, codes, start, size in hashed:
            fill(codes, base, keys[start : start + size], attributes[start : start + size])
        own_boundaries = self._numbers[np.arange(len(self._numbers))[:, None, None], boundaries[: len(self._numbers)]]
        direct_tables = np.concatenate([*direct, np.zeros(0, np.int32)])
        self._tables = Tables(pointer, all_macros, own_boundaries, tables, direct_tables, keys, attributes)

    @staticmethod
    def fits(templates: Sequence[TemplatePlan], n_sources: int, n_values: int) -> bool:
        """Whether every code is below 2^62; with many macros over many values it is not."""
        sizes = _values_used(templates, n_sources, n_values).sum(axis=1).tolist()
        return all(math.prod(sizes[s] for s in plan.macros[:, 0].tolist()) < MOST_CODES for plan in templates)

    def numbers_of(self, source: int) -> Int32:
        """The source's number of each value [V + 1], -1 if it has none; the last entry is for unknown values."""
        numbers: Int32 = self._numbers[source]
        return numbers

    def look_up(self, sources: Int32, offsets: Int64, chosen: Int64) -> tuple[Int64, Int32]:
        """Attributes of the positions ``offsets[0]`` to ``offsets[-1]`` as lists: pointer [n + 1] and ids.

        Parameters
        ----------
        sources : int32 [sources, N]
            Each source's numbers of the values.
        offsets : int64 [S + 1]
            Offsets of the sequences to encode.
        chosen : int64
            The templates to look up.
        """
        n = int(offsets[-1] - offsets[0])
        pointer, ids = np.empty(n + 1, dtype=np.int64), np.empty(n * len(chosen), dtype=np.int32)
        filled = _look_up(sources, offsets, chosen, self._tables, pointer, ids)
        return pointer, ids[:filled]


def _values_used(templates: Sequence[TemplatePlan], n_sources: int, n_values: int) -> Bool:
    """Which values of each source occur in attributes [sources, V]."""
    used = np.zeros((max(1, n_sources), n_values), dtype=bool)
    for plan in templates:
        for j, source in enumerate(plan.macros[:, 0].tolist()):
            used[source, plan.keys[:, j]] = True
    return used


def strides_of(radices: list[int]) -> list[int]:
    """The product of all radices, of all but the first, and so on; the last one is 1.

    >>> strides_of([2, 3, 5])
    [30, 15, 5, 1]
    """
    strides = [1]
    for radix in reversed(radices):
        strides.append(strides[-1] * radix)
    return strides[::-1]


# ----------------------------------------------------------------------------------------------------------------------
# Encoding of new text: the same as by a locked template encoder, but with the index and with a cache of strings.
#
# The function of a source is computed once for each distinct string and the result is cached between calls, so that a
# sentence of known words costs one dictionary look-up per token and source, and one kernel.

MOST_REMEMBERED = 200_000  # cached strings per source; the cache is cleared beyond that
FEW = 100  # strings that are looked up in the cache one by one
POSITIONS_AT_ONCE = 8192


class SourceNumbers(dict[str, int]):
    """A cache of a source's number for each string, computed for new strings; raises an error for invalid text.

    Parameters
    ----------
    compute : callable
        From a string of the column to the observation, or None.
    values : Vocabulary
    numbers : int32 [V + 1]
        The source's number of each value.
    """

    def __init__(self, compute: Callable[[str], str | None], values: Vocabulary, numbers: Int32) -> None:
        super().__init__()
        self._compute, self._values, self._numbers = compute, values, numbers

    def __missing__(self, string: str) -> int:
        if not isinstance(string, str):
            raise TypeError(f"{string!r:.60} is not a string")
        string = str(string)
        string.encode()  # raises UnicodeEncodeError for lone surrogates
        observation = self._compute(string)
        number = -1 if observation is None else int(self._numbers[self._values.id(observation)])
        if len(self) >= MOST_REMEMBERED:
            self.clear()
        self[string] = number
        return number

    def of(self, strings: Sequence[str]) -> Int32:
        """The numbers of several strings; if they are few, they are looked up in the cache and added to it."""
        if len(strings) <= FEW:
            return np.fromiter(map(self.__getitem__, strings), dtype=np.int32, count=len(strings))
        "".join(strings).encode()  # raises UnicodeEncodeError for lone surrogates
        return self._numbers[self._values.ids(map(self._compute, strings))]


class QuickEncoder:
    """The attributes of a locked :class:`TemplateEncoder`, ready for look-up. Threads may share it."""

    def __init__(self, encoder: TemplateEncoder, plans: Sequence[TemplatePlan]) -> None:
        values = encoder.values
        boundaries = encoder.boundary_values()
        self._sources, self._gazetteers = encoder.sources, encoder.gazetteers
        self._index = AttributeIndex(plans, len(self._sources), boundaries, len(values))
        self._in_state, self._in_edge = encoder.scopes()
        self._numbers = [
            None if macro.function == GAZETTEER else SourceNumbers(macro.compute(), values, self._index.numbers_of(i))
            for i, macro in enumerate(self._sources)
        ]
        self._marks = [self._index.numbers_of(i)[values.ids([*MARKS, None])] for i in range(len(self._sources))]
        self._column_of = [macro.column for macro in self._sources]
        self.columns = set(self._column_of)
        self.n_columns = max(encoder.templates.columns, default=-1) + 1
        self.takes_sentences = GAZETTEER not in {macro.function for macro in self._sources} and not len(self._in_edge)

    def transform(self, corpus: Columns, n_threads: int = 1) -> EncodedCorpus:
        """Encode a corpus, which must have the columns that the templates look at."""
        sources = mapped.empty((len(self._sources), corpus.n_tokens), np.int32)
        for i, macro in enumerate(self._sources if corpus.n_tokens else ()):
            sources[i] = self._observed(i, macro, corpus)
        state = self._incidence(sources, corpus.offsets, self._in_state, n_threads)
        edge = None
        if len(self._in_edge):
            same = np.array_equal(self._in_edge, self._in_state)
            edge = state if same else self._incidence(sources, corpus.offsets, self._in_edge, n_threads)
        return EncodedCorpus(corpus.offsets, state, edge)

    def sentence(self, columns: Sequence[Sequence[str]], offsets: Int64) -> tuple[Int64, Int32]:
        """Attributes joined with labels of one sentence, given by its columns (``offsets`` [0, T]), as lists.

        Only if ``takes_sentences``. Raises TypeError for anything but strings, ValueError for invalid Unicode.
        """
        rows = [
            list(map(numbers.__getitem__, columns[column]))
            for numbers, column in zip(self._numbers, self._column_of, strict=True)
            if numbers is not None
        ]
        return self._index.look_up(np.array(rows, dtype=np.int32), offsets, self._in_state)

    def _observed(self, i: int, macro: Macro, corpus: Columns) -> Int32:
        """The source's numbers of all positions [N]."""
        column, numbers = corpus.columns[macro.column], self._numbers[i]
        if numbers is None:
            matched = self._gazetteers[macro.argument].match(column.ids, column.values, corpus.offsets, macro.lowered)
            marks: Int32 = self._marks[i][matched]
            return marks
        used = np.bincount(column.ids, minlength=len(column.values)) > 0
        if used.all():
            return numbers.of(column.values)[column.ids]
        number_of = np.full(len(used), -1, dtype=np.int32)
        number_of[used] = numbers.of(list(compress(column.values, used.tolist())))
        return number_of[column.ids]

    def _incidence(self, sources: Int32, offsets: Int64, chosen: Int64, n_threads: int) -> Incidence:
        def look_up(run: tuple[int, int]) -> tuple[Int64, Int32]:
            return self._index.look_up(sources, offsets[run[0] : run[1] + 1], chosen)

        pieces = in_threads(look_up, runs(offsets, 0, len(offsets) - 1, POSITIONS_AT_ONCE), n_threads)
        return Incidence(*concatenated(pieces))
