"""From columns of strings to attributes by templates: integer arithmetic on factorised columns.

Columns are factorised (distinct strings and one number per position). A macro's function is computed once for each
distinct string; a template combines the numbers of its macros at each position (:class:`Group`). No strings are made
per position.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from loglinear import mapped
from loglinear.arrays import Array, Bool, Int32, Int64
from loglinear.data.columns.corpus import Columns
from loglinear.errors import TemplateError
from loglinear.features.encoding import (
    PAIRS_ONLY,
    UNKNOWN,
    AttributeBlocks,
    EncodedCorpus,
    Vocabulary,
    stored_pair_features,
)
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
        Number of the first attribute; the others follow.
    keys : int32 [A, M]
        For each attribute, the numbers of its macros' values.
    before, after : int32
        Numbers of the values outside the sentence, by distance from it.
    in_state, in_edge : bool
        Whether the attributes are joined with labels, and with pairs of labels.
    """

    template: Template
    first: int
    keys: Int32
    before: Int32
    after: Int32
    in_state: bool
    in_edge: bool


class FoundAttributes(NamedTuple):
    """The attributes of a part of a corpus.

    Parameters
    ----------
    blocks : AttributeBlocks
        Which of its group each template has at each position.
    groups : list of Group
    segments : list of lists of (int, int, int)
        Where those of each group were found first: number of the run, of the template in the group, and how many.
    firsts : int64 [K]
        Number of the first attribute of each template's group.
    n_attributes : int
        Of all groups.
    """

    blocks: AttributeBlocks
    groups: list[Group]
    segments: list[list[tuple[int, int, int]]]
    firsts: Int64
    n_attributes: int


class TemplateEncoder:
    """Encodes corpora of token rows by templates.

    Parameters
    ----------
    templates : TemplateSet
    gazetteers : mapping of name to Gazetteer
        The gazetteers that the templates name.
    pair_features : bool or "only"
        Join the state attributes with label pairs too, as if every ``U`` were a ``*``; or join all attributes with
        pairs alone (:meth:`EncodedCorpus.by_source`).
    """

    kind = "template"

    def __init__(
        self,
        templates: TemplateSet,
        gazetteers: Mapping[str, Gazetteer] | None = None,
        pair_features: bool | str = False,
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
        index = {macro.source: i for i, macro in enumerate(self.sources)}
        macros = [[(index[m.source], m.row, m.absolute) for m in template.macros] for template in self._observing]
        self._macros = [np.array(rows, dtype=np.int32).reshape(-1, 3) for rows in macros]
        skeletons = list(dict.fromkeys(template.skeleton for template in self._observing))
        self._group_of = [skeletons.index(template.skeleton) for template in self._observing]
        self.group_templates = [self._observing[self._group_of.index(g)] for g in range(len(skeletons))]
        self.reach = max((abs(m.row) for template in self._observing for m in template.macros), default=0) + 1
        self.groups: list[Group] = [Group.empty(len(template.macros)) for template in self.group_templates]
        self._quick: tuple[QuickEncoder | None] | None = None  # None: not built yet
        self.star_is_bigram = True  # old model files have an attribute of label pairs for a bare *

    # -- encoding ------------------------------------------------------------------------------------------------

    def fit(self, corpus: Columns, min_count: int = 1, n_threads: int = 1) -> EncodedCorpus:
        """Collect the attributes of a training corpus, lock, and return its encoding.

        Attributes that occur fewer than ``min_count`` times are left out. The result is the same for any number of
        threads: each works on its own tables.
        """
        self._quick = None
        self.groups = [Group.empty(len(template.macros)) for template in self.group_templates]
        blocks = self._located(corpus, n_threads, grow=True)
        firsts, renamed = self._bases()[self._group_of], None
        if min_count > 1:
            kept = blocks.counts(firsts, self.n_attributes) >= min_count
            renamed = np.where(kept, np.cumsum(kept) - 1, UNKNOWN).astype(np.int32)
            fewer = self.keeping(kept)
            self.values, self.groups = fewer.values, fewer.groups
        self.values.lock()
        return self.scoped(blocks.encoded(*self.scopes(), firsts, renamed))

    def _located(self, corpus: Columns, n_threads: int, grow: bool) -> AttributeBlocks:
        """Which attribute of its group each template has at each position; with ``grow``, the groups get new ones."""
        values = self._observe_values(corpus)
        blocks = AttributeBlocks(len(self._observing), corpus.offsets)
        members = [[k for k, group in enumerate(self._group_of) if group == g] for g in range(len(self.groups))]

        def locate(g: int) -> None:
            for first, end in blocks.runs:
                block, offsets = blocks.block(first, end), corpus.offsets[first : end + 1]
                for k in members[g]:
                    self.groups[g].locate(values, offsets, self._macros[k], block[k], grow)

        in_threads(locate, range(len(self.groups)), n_threads)
        return blocks

    def number_values(self, columns: Sequence[Sequence[str]]) -> None:
        """Number the values of all sources, given the distinct ones of each column, as :meth:`fit` does, and lock."""
        self.values = Vocabulary()
        for macro in self.sources:
            if macro.function == GAZETTEER:
                self.values.ids([*MARKS, None])
            else:
                compute = macro.compute()
                self.values.ids([compute(value) for value in columns[macro.column]])
        self.boundary_values()
        self.values.lock()

    def found_in(self, corpus: Columns, walked: Sequence[tuple[int, int]]) -> FoundAttributes:
        """The attributes of a part of a corpus all of whose values are known, which is walked in runs of sequences."""
        values, blocks = self._observe_values(corpus), AttributeBlocks(len(self._observing), corpus.offsets)
        blocks.runs = list(walked)
        groups = [Group.empty(len(template.macros)) for template in self.group_templates]
        segments: list[list[tuple[int, int, int]]] = [[] for _ in groups]
        for g, group in enumerate(groups):
            members = [k for k, own in enumerate(self._group_of) if own == g]
            for run, (first, end) in enumerate(blocks.runs):
                block, offsets = blocks.block(first, end), corpus.offsets[first : end + 1]
                for place, k in enumerate(members):
                    before = group.n_keys
                    group.locate(values, offsets, self._macros[k], block[k], grow=True)
                    if group.n_keys > before:
                        segments[g].append((run, place, group.n_keys - before))
        firsts = np.concatenate([[0], np.cumsum([group.n_keys for group in groups])]).astype(np.int64)
        return FoundAttributes(blocks, groups, segments, firsts[self._group_of], int(firsts[-1]))

    def knowing(self, groups: list[Group]) -> TemplateEncoder:
        """An encoder with the same values and these attributes."""
        encoder = TemplateEncoder(self.templates, self.gazetteers, self.pair_features)
        encoder.star_is_bigram, encoder.values, encoder.groups = self.star_is_bigram, self.values, groups
        return encoder

    def transform(self, corpus: Columns, n_threads: int = 1) -> EncodedCorpus:
        """Encode a corpus with the attributes known from training; others are left out."""
        if (quick := self.quick) is not None:
            self.check_columns(corpus)
            return self.scoped(quick.transform(corpus, n_threads))
        blocks = self._located(corpus, n_threads, grow=False)
        return self.scoped(blocks.encoded(*self.scopes(), self._bases()[self._group_of], None))

    def scoped(self, encoded: EncodedCorpus) -> EncodedCorpus:
        """The corpus with the attributes of :meth:`scopes`, as ``pair_features`` wants them joined."""
        return encoded.by_source() if self.pair_features == PAIRS_ONLY else encoded

    @property
    def quick(self) -> QuickEncoder | None:
        """The index in which :meth:`transform` looks attributes up, built at the first use.

        None in training, and if a template has too many macros for it.
        """
        if self._quick is None and self.values.locked:
            bases = self._bases()
            plans = [
                TemplatePlan(macros, g, self.groups[g].used, int(bases[g]))
                for macros, g in zip(self._macros, self._group_of, strict=True)
            ]
            fits = AttributeIndex.fits(plans, len(self.sources), len(self.values))
            self._quick = (QuickEncoder(self, plans) if fits else None,)
        return None if self._quick is None else self._quick[0]

    def __getstate__(self) -> dict[str, Any]:
        """For pickling: the index can be built again."""
        return {**self.__dict__, "_quick": None}

    def check_columns(self, corpus: Columns) -> None:
        """Reject a corpus that lacks a column the templates look at."""
        if corpus.n_tokens and (widest := max(self.templates.columns, default=-1)) >= len(corpus.columns):
            raise TemplateError(
                f"the template looks at column {widest} (from 0), so that each token needs at least {widest + 1} "
                f"columns, but {corpus.name} has {len(corpus.columns)}"
            )

    def _observe_values(self, corpus: Columns) -> Values:
        sources = mapped.zeros((max(1, len(self.sources)), corpus.n_tokens), np.int32)
        for i, (ids, observed) in enumerate(self.observations(corpus)):
            mapped.taken(self.values.ids(observed), ids, out=sources[i])
        before, after = np.moveaxis(self.boundary_values(), 1, 0)
        return Values(sources, np.ascontiguousarray(before), np.ascontiguousarray(after))

    def boundary_values(self) -> Int32:
        """Numbers of the values of each source before and after a sequence [sources, 2, reach], by distance from it."""
        found = np.empty((max(1, len(self.sources)), 2, self.reach), dtype=np.int32)
        found[:] = UNKNOWN if self.templates.wapiti else np.stack(list(map(self.values.ids, self.boundaries)))
        for i, macro in enumerate(self.sources if self.templates.wapiti else ()):
            compute = macro.compute()
            found[i] = [self.values.ids([s if s is None else compute(s) for s in side]) for side in self.boundaries]
        return found

    def observations(self, corpus: Columns) -> Iterator[tuple[Int32, list[str | None]]]:
        """For each source, ids [N] and the observation of each id; None where there is none."""
        self.check_columns(corpus)
        for macro in self.sources if corpus.n_tokens else ():
            column = corpus.columns[macro.column]
            if macro.function == GAZETTEER:
                gazetteer = self.gazetteers[macro.argument]
                marks = gazetteer.match(column.ids, column.values, corpus.offsets, macro.lowered)
                yield marks, [*MARKS, None]  # -1, no mark, is the last
            else:
                used = mapped.counts(column.ids, len(column.values)) > 0
                compute, values = macro.compute(), zip(column.values, used.tolist(), strict=True)
                yield column.ids, [compute(value) if is_used else None for value, is_used in values]

    @property
    def boundaries(self) -> list[list[str | None]]:
        """The values before and after a sequence, by distance from it; None if rows there give no attribute."""
        if self.templates.inside:
            return [[None] * self.reach] * 2
        if self.templates.wapiti:
            return [[f"_x{sign}{k if k < 5 else '#'}" for k in range(1, self.reach + 1)] for sign in "-+"]
        return [[f"_B{sign}{k}" for k in range(1, self.reach + 1)] for sign in "-+"]

    def scopes(self) -> tuple[Int64, Int64]:
        """The templates whose attributes are joined with labels, and with pairs of labels."""
        scopes = [
            "state" if self.star_is_bigram and _is_star(template) else template.scope for template in self._observing
        ]
        if self.pair_features == PAIRS_ONLY:  # with labels at first positions: see :meth:`scoped`
            scopes = ["both"] * len(scopes)
        elif self.pair_features:
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
        before, after = map(self.values.ids, self.boundaries)
        bases, (in_state, in_edge) = self._bases(), self.scopes()
        in_state = in_state[:0] if self.pair_features == PAIRS_ONLY else in_state
        return [
            TemplateTable(template, int(bases[g]), self.groups[g].used, before, after, k in in_state, k in in_edge)
            for k, (template, g) in enumerate(zip(self._observing, self._group_of, strict=True))
        ]

    def names(self) -> list[str]:
        """The names of all attributes, spelt as in CRF++."""
        strings = self.values.strings
        return [
            template.render(strings[v] for v in key)
            for template, group in zip(self.group_templates, self.groups, strict=True)
            for key in group.used.tolist()
        ]

    def matching(self, other: TemplateEncoder) -> Int32:
        """For each of ``other``'s attributes, the number of the same attribute here, or -1."""
        same_value = np.append(self.values.ids(other.values.strings), UNKNOWN).astype(np.int32)
        group_of = {template.skeleton: g for g, template in enumerate(self.group_templates)}
        bases = self._bases()
        parts = [np.zeros(0, dtype=np.int32)]
        for template, group in zip(other.group_templates, other.groups, strict=True):
            rows, g = np.full(group.n_keys, UNKNOWN, dtype=np.int32), group_of.get(template.skeleton)
            if g is not None:
                rows = self.groups[g].rows_of(same_value[group.used])
                rows[rows >= 0] += bases[g]
            parts.append(rows)
        return np.concatenate(parts)

    def _bases(self) -> Int64:
        """Number of the first attribute of each group, and the total number of attributes."""
        return np.concatenate([[0], np.cumsum([group.n_keys for group in self.groups])]).astype(np.int64)

    def keeping(self, kept: Bool) -> TemplateEncoder:
        """An encoder of the ``kept`` attributes, renumbered in the same order, and of the values they use."""
        bases = self._bases()
        tuples = [group.used[kept[bases[i] : bases[i + 1]]] for i, group in enumerate(self.groups)]
        used = np.zeros(len(self.values), dtype=bool)
        for keys in tuples:
            used[keys.ravel()] = True
        renumbered = np.where(used, np.cumsum(used) - 1, UNKNOWN).astype(np.int32)
        encoder = TemplateEncoder(self.templates, self.gazetteers, self.pair_features)
        encoder.star_is_bigram = self.star_is_bigram
        encoder.values = Vocabulary([self.values[i] for i in np.flatnonzero(used).tolist()], locked=True)
        encoder.groups = [Group.from_keys(renumbered[keys]) for keys in tuples]
        return encoder

    # -- storage -------------------------------------------------------------------------------------------------

    def to_header(self) -> dict[str, Any]:
        return {
            "template": str(self.templates),
            "pair_features": self.pair_features,
            "gazetteers": [gazetteer.to_dict() for gazetteer in self.gazetteers.values()],
            **({"star_is_bigram": self.star_is_bigram} if any(map(_is_star, self._observing)) else {}),
        }

    def to_arrays(self) -> dict[str, Array]:
        return {
            "group_sizes": np.array([group.n_keys for group in self.groups], dtype=np.int64),
            "keys": np.concatenate([np.zeros(0, np.int32), *(group.used.ravel() for group in self.groups)]),
        }

    @property
    def strings(self) -> list[str]:
        """The strings a model file stores besides the arrays."""
        return self.values.strings

    @classmethod
    def from_storage(cls, header: dict[str, Any], arrays: Mapping[str, Array], strings: list[str]) -> TemplateEncoder:
        """Rebuild from :meth:`to_header`, :meth:`to_arrays` and :attr:`strings`; checks every bound."""
        encoder = cls(*cls._stored(header))
        encoder.star_is_bigram = encoder.stored_star(header)
        encoder.values = Vocabulary(strings, locked=True)
        sizes, keys = arrays["group_sizes"], arrays["keys"]
        widths = [len(template.macros) for template in encoder.group_templates]
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

    def stored_star(self, header: Mapping[str, Any]) -> bool:
        """Whether a bare ``*`` is a label bigram in a model file, as it was not in old ones."""
        return bool(header.get("star_is_bigram", not any(map(_is_star, self._observing))))

    @staticmethod
    def _stored(header: dict[str, Any]) -> tuple[TemplateSet, dict[str, Gazetteer], bool | str]:
        """Templates, gazetteers and ``pair_features`` from :meth:`to_header`."""
        gazetteers = [Gazetteer.from_dict(stored) for stored in header["gazetteers"]]
        templates = TemplateSet.parse(header["template"])
        return templates, {gazetteer.name: gazetteer for gazetteer in gazetteers}, stored_pair_features(header)


def _is_star(template: Template) -> bool:
    """Whether it is a bare ``*``, or one with literal text only."""
    return template.scope == "both" and not template.macros


# ----------------------------------------------------------------------------------------------------------------------
# Attributes made by templates, as tuples of numbers instead of strings.
#
# An attribute is a template's skeleton and the numbers of the values of its macros. Templates with the same skeleton
# (the same literal text) form a *group*. Each group keeps its tuples in a hash table with open addressing, so that
# finding the attribute of a position takes a few integer operations and makes no string:
#
#     keys   [A, M]   the tuples, in order of first occurrence
#     slots  [2^k]    -1 or the row in ``keys``; probed linearly from the hash, at most half full


class Values(NamedTuple):
    """Numbers of the values of each source at each position [sources, N], and before and after it [sources, reach]."""

    sources: Int32
    before: Int32
    after: Int32


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
    """Put rows 0..n_keys-1 of ``keys`` into ``slots``, all -1 on entry."""
    for row in range(n_keys):
        slots[_find(keys, slots, keys[row])] = row


@kernel
def _locate(
    values: Values, offsets: Int64, macros: Int32, keys: Int32, slots: Int32, n_keys: int, grow: bool, out: Int32
) -> tuple[Int32, Int32, int]:
    """Row in the table of one template's attribute at every position of the sequences with these ``offsets``.

    ``macros`` [M, 3] are (source, row, absolute); ``out`` [positions] is -1 where a value is unknown or the table lacks
    the attribute. With ``grow`` it is added. Returns the table.
    """
    sources, before, after = values
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
                    value = before[macros[j, 0], first - place - 1]
                elif place >= end:
                    value = after[macros[j, 0], place - end]
                else:
                    value = sources[macros[j, 0], place]
                key[j] = value
                known &= value >= 0
            if not known:
                out[t - origin] = -1
                continue
            slot = _find(keys, slots, key)
            if grow and slots[slot] < 0:
                if 2 * (n_keys + 1) > slots.shape[0]:
                    slots = np.full(4 * slots.shape[0], -1, dtype=np.int32)
                    _fill_slots(keys, n_keys, slots)
                    slot = _find(keys, slots, key)
                if n_keys == keys.shape[0]:
                    larger = np.empty((2 * n_keys, n_macros), dtype=np.int32)
                    for k in range(n_keys):  # an array assignment would have Numba compile its error texts, too
                        for m in range(n_macros):
                            larger[k, m] = keys[k, m]
                    keys = larger
                for m in range(n_macros):
                    keys[n_keys, m] = key[m]
                slots[slot] = n_keys
                n_keys += 1
            out[t - origin] = slots[slot]
    return keys, slots, n_keys


@dataclass
class Group:
    """The attributes of one skeleton: ``keys`` [A, M], used up to ``n_keys``, and the hash table, once it is built."""

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

    @property
    def used(self) -> Int32:
        """The tuples [A, M], without the space for more."""
        return self.keys[: self.n_keys]

    def locate(self, values: Values, offsets: Int64, macros: Int32, out: Int32, grow: bool) -> None:
        """Row of the tuple at each position of the sequences with these ``offsets`` into ``out``, as :func:`_locate`.

        The hash table is built at the first use: a model that only labels needs none.
        """
        if self.slots is None:
            self.slots = np.full(1 << max(2, (2 * self.n_keys + 1).bit_length()), -1, dtype=np.int32)
            _fill_slots(self.keys, self.n_keys, self.slots)
        table = self.keys, self.slots, self.n_keys
        self.keys, self.slots, self.n_keys = _locate(values, offsets, macros, *table, grow, out)

    def rows_of(self, keys: Int32) -> Int32:
        """Row of each of the tuples ``keys`` [B, M] (negative entries are never found), or -1."""
        macros = np.zeros((keys.shape[1], 3), dtype=np.int32)
        macros[:, 0] = np.arange(keys.shape[1])
        out, nothing = np.empty(len(keys), dtype=np.int32), np.zeros((1, 0), dtype=np.int32)
        sources = np.ascontiguousarray(keys.T) if keys.shape[1] else np.zeros((1, len(keys)), dtype=np.int32)
        self.locate(Values(sources, nothing, nothing), np.array([0, len(keys)]), macros, out, grow=False)
        return out
