"""From columns of strings to attributes by templates: integer arithmetic on factorised columns.

A column arrives factorised (distinct strings and a number a position). A macro's function is computed once for each
distinct string; a template combines the numbers of its macros at each position (:class:`Group`). No string is
made for a position.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from loglinear.arrays import Array, Bool, Int32, Int64
from loglinear.data.columns.corpus import Columns
from loglinear.errors import TemplateError
from loglinear.features.encoding import UNKNOWN, AttributeBlocks, EncodedCorpus, Incidence, Vocabulary
from loglinear.features.templates.gazetteer import MARKS, Gazetteer
from loglinear.features.templates.index import AttributeIndex, QuickEncoder, TemplatePlan
from loglinear.features.templates.language import GAZETTEER, Macro, Template, TemplateSet
from loglinear.kernels import kernel
from loglinear.system import in_threads


@dataclass(frozen=True)
class TemplateTable:
    """The attributes that one template can make.

    Parameters
    ----------
    template : Template
    first : int
        Number of the first of them; the others follow.
    keys : int32 [A, M]
        For each, the numbers of its macros' values.
    before, after : int32
        Numbers of the values outside the sentence, by distance from it.
    in_state, in_edge : bool
        Whether they are joined with labels, and with pairs of labels.
    """

    template: Template
    first: int
    keys: Int32
    before: Int32
    after: Int32
    in_state: bool
    in_edge: bool


class TemplateEncoder:
    """Encodes corpora of token rows by templates.

    Parameters
    ----------
    templates : TemplateSet
    gazetteers : mapping of name to Gazetteer
        Those that the templates name.
    pair_features : bool
        Join the state attributes with label pairs too, as if every ``U`` were a ``*``.
    """

    kind = "template"

    def __init__(
        self, templates: TemplateSet, gazetteers: Mapping[str, Gazetteer] | None = None, pair_features: bool = False
    ) -> None:
        self.templates = templates
        self.gazetteers = dict(gazetteers or {})
        self.pair_features = pair_features
        if missing := templates.gazetteers - set(self.gazetteers):
            raise TemplateError(f"the template names the gazetteer {sorted(missing)[0]!r}, which was not given")
        self.values = Vocabulary()
        self._observing: tuple[Template, ...] = templates.observing
        self.sources: list[Macro] = list(
            {macro.source: macro for template in self._observing for macro in template.macros}.values()
        )
        source_index = {macro.source: i for i, macro in enumerate(self.sources)}
        self._macros = [
            np.array([(source_index[m.source], m.row, m.absolute) for m in template.macros], dtype=np.int32).reshape(
                -1, 3
            )
            for template in self._observing
        ]
        skeletons = list(dict.fromkeys(template.skeleton for template in self._observing))
        self._group_of = [skeletons.index(template.skeleton) for template in self._observing]
        self._template_of_group = [self._observing[self._group_of.index(g)] for g in range(len(skeletons))]
        self.reach = max((abs(m.row) for template in self._observing for m in template.macros), default=0) + 1
        self.groups: list[Group] = [Group.empty(len(template.macros)) for template in self._template_of_group]
        self._quick: tuple[QuickEncoder | None] | None = None  # None: not made yet

    # -- encoding ------------------------------------------------------------------------------------------------

    def fit(self, corpus: Columns, min_count: int = 1, n_threads: int = 1) -> EncodedCorpus:
        """Collect the attributes of a training corpus, lock, and return its encoding.

        Attributes seen fewer than ``min_count`` times are left out. The result is the same for any number of threads:
        each works on tables of its own.
        """
        self._quick = None
        blocks = self._collect(corpus, n_threads)
        firsts, renamed = self._bases()[self._group_of], None
        if min_count > 1:
            kept = blocks.counts(firsts, self.n_attributes) >= min_count
            renamed = np.where(kept, np.cumsum(kept) - 1, UNKNOWN).astype(np.int32)
            fewer = self.keeping(kept)
            self.values, self.groups = fewer.values, fewer.groups
        self.values.lock()
        return blocks.encoded(*self.scopes(), firsts, renamed)

    def _collect(self, corpus: Columns, n_threads: int) -> AttributeBlocks:
        """Fill the groups' tables with what a corpus holds; which attribute, of its group, is where."""
        sources, before, after = self._observe_values(corpus)
        self.groups = [Group.empty(len(template.macros)) for template in self._template_of_group]
        blocks = AttributeBlocks(len(self._observing), corpus.offsets)
        members = [[k for k, group in enumerate(self._group_of) if group == g] for g in range(len(self.groups))]

        def observe(g: int) -> None:
            for first, end in blocks.runs:
                block, offsets = blocks.block(first, end), corpus.offsets[first : end + 1]
                for k in members[g]:
                    self.groups[g].observe(sources, offsets, self._macros[k], before, after, block[k])

        in_threads(observe, range(len(self.groups)), n_threads)
        return blocks

    def transform(self, corpus: Columns, n_threads: int = 1) -> EncodedCorpus:
        """Encode a corpus with the attributes known from training; others are left out."""
        if (quick := self.quick) is not None:
            self.check_columns(corpus)
            return quick.transform(corpus, n_threads)
        sources, before, after = self._observe_values(corpus)
        matrix = np.empty((len(self._observing), corpus.n_tokens), dtype=np.int32)
        bases = self._bases()
        for k, group in enumerate(self._group_of):
            self.groups[group].look_up(
                sources, corpus.offsets, self._macros[k], before, after, int(bases[group]), matrix[k]
            )
        return self._encoded(corpus, matrix)

    @property
    def quick(self) -> QuickEncoder | None:
        """The index that :meth:`transform` looks attributes up in, made at the first use; None in training, and where
        a template has too many macros for it."""
        if self._quick is None and self.values.locked:
            bases = self._bases()
            plans = [
                TemplatePlan(self._macros[k], g, self.groups[g].keys[: self.groups[g].n_keys], int(bases[g]))
                for k, g in enumerate(self._group_of)
            ]
            fits = AttributeIndex.fits(plans, len(self.sources), len(self.values))
            self._quick = (QuickEncoder(self, plans) if fits else None,)
        return None if self._quick is None else self._quick[0]

    def __getstate__(self) -> dict[str, Any]:
        """For pickling: the index can be made again."""
        return {**self.__dict__, "_quick": None}

    def check_columns(self, corpus: Columns) -> None:
        """Refuse a corpus that lacks a column the templates look at."""
        if corpus.n_tokens and (widest := max(self.templates.columns, default=-1)) >= len(corpus.columns):
            raise TemplateError(
                f"the template looks at column {widest} (from 0), but {corpus.name} has {len(corpus.columns)} columns"
            )

    def _observe_values(self, corpus: Columns) -> tuple[Int32, Int32, Int32]:
        """Value numbers of each source at each position [sources, N], and those of the boundaries."""
        self.check_columns(corpus)
        sources = np.zeros((max(1, len(self.sources)), corpus.n_tokens), dtype=np.int32)
        for i, macro in enumerate(self.sources if corpus.n_tokens else ()):
            column = corpus.columns[macro.column]
            if macro.function == GAZETTEER:
                marks = self.values.ids([*MARKS, None])
                matched = self.gazetteers[macro.argument].match(
                    column.ids, column.values, corpus.offsets, macro.lowered
                )
                sources[i] = marks[matched]
                continue
            used = np.bincount(column.ids, minlength=len(column.values)) > 0
            compute = macro.compute()
            observations = [compute(v) if u else None for v, u in zip(column.values, used.tolist(), strict=True)]
            sources[i] = self.values.ids(observations)[column.ids]
        before = self.values.ids([f"_B-{k}" for k in range(1, self.reach + 1)])
        after = self.values.ids([f"_B+{k}" for k in range(1, self.reach + 1)])
        return sources, before, after

    def _encoded(self, corpus: Columns, matrix: Int32) -> EncodedCorpus:
        in_state, in_edge = self.scopes()
        state = Incidence.from_matrix(matrix, in_state)
        edge = None
        if len(in_edge):
            edge = state if np.array_equal(in_edge, in_state) else Incidence.from_matrix(matrix, in_edge)
        return EncodedCorpus(corpus.offsets, state, edge)

    def scopes(self) -> tuple[Int64, Int64]:
        """The templates whose attributes are joined with labels, and with pairs of labels."""
        scopes = [template.scope for template in self._observing]
        if self.pair_features:
            scopes = ["both" if scope == "state" else scope for scope in scopes]
        in_state = np.array([k for k, scope in enumerate(scopes) if scope != "edge"], dtype=np.int64)
        in_edge = np.array([k for k, scope in enumerate(scopes) if scope != "state"], dtype=np.int64)
        return in_state, in_edge

    # -- the attributes ------------------------------------------------------------------------------------------

    @property
    def n_attributes(self) -> int:
        return sum(group.n_keys for group in self.groups)

    def tables(self) -> list[TemplateTable]:
        """The attributes of each template that observes something, as numbers."""
        before, after = (self.values.ids([f"_B{sign}{k}" for k in range(1, self.reach + 1)]) for sign in "-+")
        bases, scopes = self._bases(), [set(chosen.tolist()) for chosen in self.scopes()]
        tables = []
        for k, (template, g) in enumerate(zip(self._observing, self._group_of, strict=True)):
            keys = self.groups[g].keys[: self.groups[g].n_keys]
            tables.append(TemplateTable(template, int(bases[g]), keys, before, after, k in scopes[0], k in scopes[1]))
        return tables

    def names(self) -> list[str]:
        """All attributes' names, as CRF++ would spell them."""
        strings = self.values.strings
        return [
            template.render(strings[v] for v in key)
            for template, group in zip(self._template_of_group, self.groups, strict=True)
            for key in group.keys[: group.n_keys].tolist()
        ]

    def matching(self, other: TemplateEncoder) -> Int32:
        """For each of ``other``'s attributes, the number of the same attribute here, or -1."""
        same_value = np.append(self.values.ids(other.values.strings), UNKNOWN).astype(np.int32)
        mine = {template.skeleton: g for g, template in enumerate(self._template_of_group)}
        bases = self._bases()
        parts = []
        for template, group in zip(other._template_of_group, other.groups, strict=True):
            g = mine.get(template.skeleton)
            if g is None:
                parts.append(np.full(group.n_keys, UNKNOWN, dtype=np.int32))
                continue
            rows = self.groups[g].rows_of(same_value[group.keys[: group.n_keys]])
            parts.append(np.where(rows >= 0, rows + bases[g], UNKNOWN).astype(np.int32))
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int32)

    def _bases(self) -> Int64:
        """Number of the first attribute of each group, and the number of attributes in all."""
        return np.concatenate([[0], np.cumsum([group.n_keys for group in self.groups])]).astype(np.int64)

    def keeping(self, kept: Bool) -> TemplateEncoder:
        """An encoder of the attributes where ``kept``, numbered anew in the same order, and of the values they use."""
        bases = self._bases()
        tuples = [g.keys[: g.n_keys][kept[bases[i] : bases[i + 1]]] for i, g in enumerate(self.groups)]
        used = np.zeros(len(self.values), dtype=bool)
        for keys in tuples:
            used[keys.ravel()] = True
        renumbered = np.where(used, np.cumsum(used) - 1, UNKNOWN).astype(np.int32)
        encoder = TemplateEncoder(self.templates, self.gazetteers, self.pair_features)
        encoder.values = Vocabulary([self.values[i] for i in np.flatnonzero(used).tolist()], locked=True)
        encoder.groups = [Group.from_keys(renumbered[keys]) for keys in tuples]
        return encoder

    # -- storage -------------------------------------------------------------------------------------------------

    def to_header(self) -> dict[str, Any]:
        return {
            "template": str(self.templates),
            "pair_features": self.pair_features,
            "gazetteers": [gazetteer.to_dict() for gazetteer in self.gazetteers.values()],
        }

    def to_arrays(self) -> dict[str, Array]:
        return {
            "group_sizes": np.array([group.n_keys for group in self.groups], dtype=np.int64),
            "keys": np.concatenate(
                [group.keys[: group.n_keys].ravel() for group in self.groups] or [np.zeros(0, np.int32)]
            ).astype(np.int32),
        }

    @property
    def strings(self) -> list[str]:
        """The strings a model file stores beside the arrays."""
        return self.values.strings

    @classmethod
    def from_storage(cls, header: dict[str, Any], arrays: Mapping[str, Array], strings: list[str]) -> TemplateEncoder:
        """Rebuild from what :meth:`to_header`, :meth:`to_arrays` and :attr:`strings` gave; checks every bound."""
        gazetteers = [Gazetteer.from_dict(stored) for stored in header["gazetteers"]]
        encoder = cls(
            TemplateSet.parse(header["template"]), {g.name: g for g in gazetteers}, bool(header["pair_features"])
        )
        encoder.values = Vocabulary(strings, locked=True)
        sizes, keys = arrays["group_sizes"], arrays["keys"]
        widths = [len(template.macros) for template in encoder._template_of_group]
        if (sizes.ndim, keys.ndim) != (1, 1) or sizes.dtype != np.int64 or keys.dtype != np.int32:
            raise ValueError("the attribute table is not of whole numbers in a row")
        if len(sizes) != len(widths) or (sizes < 0).any() or int(np.dot(sizes, widths)) != len(keys):
            raise ValueError("the attribute table does not fit the template")
        if any(size > 1 and not width for size, width in zip(sizes, widths, strict=True)):
            raise ValueError("a template without macros has more than one attribute")
        if len(keys) and (keys.min() < 0 or keys.max() >= len(strings)):
            raise ValueError("the attribute table names values that do not exist")
        ends = np.cumsum(sizes * np.array(widths, dtype=np.int64))
        encoder.groups = [
            Group.from_keys(np.array(keys[end - size * width : end]).reshape(int(size), width))
            for end, size, width in zip(ends, sizes, widths, strict=True)
        ]
        return encoder


# ----------------------------------------------------------------------------------------------------------------------
# Attributes made by templates, as tuples of numbers instead of strings.
#
# An attribute is a template's skeleton (a *group*: templates of the same literal text) and the numbers of the values of
# its macros. Each group keeps its tuples in an open-addressing hash table, so that finding the attribute of a position
# costs a few integer operations and no string is made:
#
#     keys   [A, M]   the tuples, in order of first sight
#     slots  [2^k]    -1 or the row in ``keys``; probed linearly from the hash, at most half full


@kernel
def _value_at(
    source: Int32, position: int, first: int, end: int, row: int, absolute: int, before: Int32, after: Int32
) -> int:
    """The value ``row`` away from ``position`` in the sequence [first, end), or a boundary value."""
    place = position + row
    if absolute:
        place = first + row - 1 if row > 0 else end + row
    if place < first:
        return before[first - place - 1]
    if place >= end:
        return after[place - end]
    return source[place]


@kernel
def _find(keys: Int32, slots: Int32, key: Int32) -> int:
    """Slot that holds ``key`` [M], or the empty slot where it belongs."""
    code = np.int64(17)
    for j in range(key.shape[0]):
        code = ((code ^ np.int64(key[j])) * 73244475) & 0x7FFFFFFF  # below 2^58: never overflows
        code ^= code >> 15
    mask = slots.shape[0] - 1
    slot = code & mask
    while slots[slot] >= 0:
        row = slots[slot]
        same = True
        for j in range(key.shape[0]):
            if keys[row, j] != key[j]:
                same = False
                break
        if same:
            return slot
        slot = (slot + 1) & mask
    return slot


@kernel
def _fill_slots(keys: Int32, n_keys: int, slots: Int32) -> None:
    """Put rows 0..n_keys-1 of ``keys`` into ``slots``, which comes in empty (-1)."""
    for row in range(n_keys):
        slots[_find(keys, slots, keys[row])] = row


@kernel
def _observe(
    sources: Int32,
    offsets: Int64,
    macros: Int32,
    before: Int32,
    after: Int32,
    keys: Int32,
    slots: Int32,
    n_keys: int,
    out: Int32,
) -> tuple[Int32, Int32, int]:
    """Attribute of one template at every position of some sequences, new ones added to the table.

    ``sources`` [sources, N]; ``offsets`` are of the sequences that are meant, ``out`` of their positions; ``macros``
    [M, 3] are (source, row, absolute). Returns the table, grown.
    """
    n_macros = macros.shape[0]
    key = np.empty(n_macros, dtype=np.int32)
    origin = offsets[0]
    for i in range(offsets.shape[0] - 1):
        first, end = offsets[i], offsets[i + 1]
        for t in range(first, end):
            known = True
            for j in range(n_macros):
                row = macros[j, 1]
                place = t + row
                if macros[j, 2]:
                    place = first + row - 1 if row > 0 else end + row
                if place < first:
                    value = before[first - place - 1]
                elif place >= end:
                    value = after[place - end]
                else:
                    value = sources[macros[j, 0], place]
                key[j] = value
                known &= value >= 0
            if not known:
                out[t - origin] = -1
                continue
            slot = _find(keys, slots, key)
            if slots[slot] < 0:
                if 2 * (n_keys + 1) > slots.shape[0]:
                    slots = np.full(4 * slots.shape[0], -1, dtype=np.int32)
                    _fill_slots(keys, n_keys, slots)
                    slot = _find(keys, slots, key)
                if n_keys == keys.shape[0]:
                    larger = np.empty((2 * n_keys, n_macros), dtype=np.int32)
                    larger[:n_keys] = keys
                    keys = larger
                keys[n_keys] = key
                slots[slot] = n_keys
                n_keys += 1
            out[t - origin] = slots[slot]
    return keys, slots, n_keys


@kernel
def _look_up(
    sources: Int32,
    offsets: Int64,
    macros: Int32,
    before: Int32,
    after: Int32,
    keys: Int32,
    slots: Int32,
    base: int,
    out: Int32,
) -> None:
    """Attribute of one template at every position, -1 where the table does not have it; ``out`` [N]."""
    n_macros = macros.shape[0]
    key = np.empty(n_macros, dtype=np.int32)
    for i in range(offsets.shape[0] - 1):
        first, end = offsets[i], offsets[i + 1]
        for t in range(first, end):
            out[t] = -1
            known = True
            for j in range(n_macros):
                key[j] = _value_at(sources[macros[j, 0]], t, first, end, macros[j, 1], macros[j, 2], before, after)
                if key[j] < 0:
                    known = False
            if known:
                row = slots[_find(keys, slots, key)]
                if row >= 0:
                    out[t] = base + row


@dataclass
class Group:
    """The attributes of one skeleton: ``keys`` [A, M] in use up to ``n_keys``, ``slots`` the hash table, if made."""

    keys: Int32
    slots: Int32 | None
    n_keys: int = 0

    @classmethod
    def empty(cls, n_macros: int) -> Group:
        return cls(np.empty((64, n_macros), dtype=np.int32), np.full(256, -1, dtype=np.int32))

    @classmethod
    def from_keys(cls, keys: Int32) -> Group:
        """A table of the given distinct tuples [A, M]."""
        return cls(np.ascontiguousarray(keys), None, len(keys))

    def _table(self) -> Int32:
        """The hash table, made at the first use: a model that only labels needs none."""
        if self.slots is None:
            size = 4
            while size < 2 * (self.n_keys + 1):
                size *= 2
            slots = np.full(size, -1, dtype=np.int32)
            _fill_slots(self.keys, self.n_keys, slots)
            self.slots = slots
        return self.slots

    def observe(self, sources: Int32, offsets: Int64, macros: Int32, before: Int32, after: Int32, out: Int32) -> None:
        """Row of the tuple of each position of the sequences with these ``offsets`` into ``out``, growing the table.

        -1 where a value is missing.
        """
        self.keys, self.slots, self.n_keys = _observe(
            sources, offsets, macros, before, after, self.keys, self._table(), self.n_keys, out
        )

    def look_up(
        self, sources: Int32, offsets: Int64, macros: Int32, before: Int32, after: Int32, base: int, out: Int32
    ) -> None:
        """``base`` + row of each position's tuple into ``out`` [N]; -1 where the table does not have it."""
        _look_up(sources, offsets, macros, before, after, self.keys, self._table(), base, out)

    def rows_of(self, keys: Int32) -> Int32:
        """Row of each of the tuples ``keys`` [B, M] (negative entries are never found), or -1."""
        macros = np.column_stack([np.arange(keys.shape[1]), *np.zeros((2, keys.shape[1]))]).astype(np.int32)
        out = np.empty(len(keys), dtype=np.int32)
        nothing = np.zeros(0, dtype=np.int32)
        offsets = np.array([0, len(keys)], dtype=np.int64)
        sources = np.ascontiguousarray(keys.T) if keys.shape[1] else np.zeros((1, len(keys)), dtype=np.int32)
        self.look_up(sources, offsets, macros, nothing, nothing, 0, out)
        return out
