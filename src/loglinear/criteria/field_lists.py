"""Which weights speak for which values of an observed field: the preparation of :mod:`.field_likelihood`.

A *field* is a position's value in one column. A *site* is a template, seen from the fields it looks at: some of its
macros look at the field (the *inside*), the others elsewhere (the *rest*). With the rest and the labels fixed, the
site's features that can come about are a short *list* of (unit, feature):

    U05:%x[-1,0]/%x[0,0]   field = the word now     inside = macro 1   rest = the word before
    list of (rest "the", label I-NP):  dog -> w["the/dog", I-NP],  cat -> w["the/cat", I-NP], ...

A *unit* is a value of the column (0..V-1), or a class of values (V..V+K-1) that the macros inside cannot tell apart: a
macro such as %brief puts thousands of words in one class, and a list of them all would be long. The classes of a
column are the joint partition by all such coarse macros.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from loglinear.data.columns import Columns, offsets_of, ranges
from loglinear.errors import OptionError
from loglinear.features.block import FeatureBlock
from loglinear.features.gazetteer import MARKS
from loglinear.features.template import GAZETTEER, Macro
from loglinear.features.template_encoder import TemplateEncoder
from loglinear.structures.chain_features import ChainFeatures

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

COARSE_FROM = 4.0  # values alike of the mean value from which macros are coarse
_WIDEST = 2**62


def row_codes(*tables: Int64) -> list[Int64]:
    """A number for each row of tables [., m] (entries from -1 up): equal rows equal numbers, in the rows' order."""
    stacked = np.concatenate(tables)
    codes, span = np.zeros(len(stacked), dtype=np.int64), 1
    for column in stacked.T:
        width = int(column.max(initial=0)) + 2
        if span * width > _WIDEST:
            distinct, codes = np.unique(codes, return_inverse=True)
            span = len(distinct)
        codes = codes * width + (column + 1)
        span *= width
    return np.split(codes, np.cumsum([len(table) for table in tables])[:-1])


def find_sorted(codes: Int64, wanted: Int64) -> Int64:
    """Index of each of ``wanted`` in the ascending, distinct ``codes``, or -1."""
    if not len(codes):
        return np.full(len(wanted), -1, dtype=np.int64)
    place = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
    return np.where(codes[place] == wanted, place, -1)


@dataclass(frozen=True)
class Partition:
    """The V values of a column by what some macros make of them.

    Parameters
    ----------
    outcomes : int64 [V, m]
        What each macro makes of each value, in the encoder's value numbers; -1 where it makes nothing.
    """

    outcomes: Int64
    class_of: Int64 = field(init=False)  # [V], -1: no attribute
    kinds: Int64 = field(init=False)  # [Q, m] the distinct outcomes, in order

    def __post_init__(self) -> None:
        codes = row_codes(self.outcomes)[0]
        valid = (self.outcomes >= 0).all(axis=1)
        distinct, first = np.unique(codes[valid], return_index=True)
        object.__setattr__(self, "class_of", np.where(valid, find_sorted(distinct, codes), -1))
        object.__setattr__(self, "kinds", self.outcomes[valid][first])

    @cached_property
    def is_coarse(self) -> bool:
        """Whether a list of all values of a class would often be long."""
        sizes = np.bincount(self.class_of[self.class_of >= 0]).astype(np.float64)
        return bool(np.sum(sizes**2) > COARSE_FROM * np.sum(sizes))

    def find(self, keys: Int64) -> Int64:
        """Class of each of the outcomes ``keys`` [A, m], or -1."""
        own, wanted = row_codes(self.kinds, keys)
        return find_sorted(own, wanted)

    def members(self, units: Int64) -> tuple[Int64, Int64]:
        """The distinct ``units`` [V] of the values of each class: pointer [Q + 1] and units."""
        pairs = np.unique(np.column_stack([self.class_of, units])[self.class_of >= 0], axis=0)
        return offsets_of(np.bincount(pairs[:, 0], minlength=len(self.kinds))), pairs[:, 1]


@dataclass(frozen=True)
class Site:
    """A template and those of its macros that look at a field of ``column``.

    Parameters
    ----------
    template, group, column : int
        Indices of the template, of its group of attributes, and of the column.
    inside, rest : tuple of int
        The macros that look at the field, and the others.
    positions, fields : int64 [n]
        Positions whose attribute depends on the field, and the positions of the fields; distinct unless ``loose``.
    loose : bool
        Many positions may look at the same field (absolute rows).
    place : tuple
        What the rest looks at, as seen from the field: sites of the same place have their lists in common.
    """

    template: int
    group: int
    column: int
    inside: tuple[int, ...]
    rest: tuple[int, ...]
    positions: Int64
    fields: Int64
    loose: bool
    place: tuple[tuple[object, ...], ...]

    @property
    def is_root(self) -> bool:
        """Whether the list depends on the labels alone, so that few are distinct."""
        return not self.rest and not self.loose


class View:
    """What templates see of a corpus, in the encoder's value numbers."""

    def __init__(self, encoder: TemplateEncoder, corpus: Columns) -> None:
        self.encoder, self.n_tokens = encoder, corpus.n_tokens
        lengths = np.diff(corpus.offsets)
        self.first, self.end = (np.repeat(bounds, lengths) for bounds in (corpus.offsets[:-1], corpus.offsets[1:]))
        self.macros = [template.macros for template in encoder.templates.observing]
        skeletons = [template.skeleton for template in encoder.templates.observing]
        numbers = {skeleton: g for g, skeleton in enumerate(dict.fromkeys(skeletons))}
        self.group_of = [numbers[skeleton] for skeleton in skeletons]
        self.values: dict[int, list[str]] = {}  # the V distinct values that stand in a column
        self.ids: dict[int, Int64] = {}  # [N], of them
        for column in sorted(encoder.templates.columns):
            used, ids = np.unique(corpus.columns[column].ids, return_inverse=True)
            self.values[column] = [corpus.columns[column].values[i] for i in used.tolist()]
            self.ids[column] = ids.astype(np.int64)
        self._outcomes: dict[tuple[int, str, str, bool], Int64] = {}

    def outcomes(self, macro: Macro) -> Int64:
        """What the macro makes of each of its column's values [V]; -1: nothing, or nothing that has a number."""
        if macro.source not in self._outcomes:
            values = self.values[macro.column]
            if macro.function == GAZETTEER:
                marks = self.encoder.values.ids([*MARKS, None])
                alone = np.arange(len(values) + 1)
                matched = self.encoder.gazetteers[macro.argument].match(
                    alone[:-1].astype(np.int32), values, alone, macro.lowered
                )
                numbers = marks[matched]
            else:
                numbers = self.encoder.values.ids(map(macro.compute(), values))
            self._outcomes[macro.source] = numbers.astype(np.int64)
        return self._outcomes[macro.source]

    def places(self, macro: Macro) -> Int64:
        """The position that each position's macro looks at [N], which may lie outside the sequence."""
        if not macro.absolute:
            return np.arange(self.n_tokens) + macro.row
        return self.first + macro.row - 1 if macro.row > 0 else self.end + macro.row

    def inside_sequence(self, places: Int64) -> npt.NDArray[np.bool_]:
        return (places >= self.first) & (places < self.end)

    def seen(self, macro: Macro) -> Int64:
        """Value number that the macro gives at each position [N], -1 if none."""
        places, ids = self.places(macro), self.encoder.values.ids
        inside = self.inside_sequence(places)
        seen = np.full(self.n_tokens, -1, dtype=np.int64)
        seen[inside] = self.outcomes(macro)[self.ids[macro.column][places[inside]]]
        for bound, distance in (("_B-", self.first - places), ("_B+", places - self.end + 1)):
            out = np.flatnonzero(distance > 0)
            far, which = np.unique(distance[out], return_inverse=True)
            seen[out] = ids([f"{bound}{k}" for k in far.tolist()])[which]
        return seen

    def sites(self, columns: set[int]) -> Iterator[Site]:
        """All ways in which templates look at fields of ``columns``."""
        for k, macros in enumerate(self.macros):
            for j, macro in enumerate(macros):
                if macro.column not in columns:
                    continue
                looked_at = self.places(macro)
                for inside, positions in self._companions(k, j, looked_at):
                    if inside[0] != j or not len(positions):
                        continue  # another macro's turn
                    relative = [macros[i].row for i in inside if not macros[i].absolute]
                    rest = tuple(i for i in range(len(macros)) if i not in inside)
                    origin = relative[0] if relative else 0
                    place = [(m.absolute, m.row if m.absolute else m.row - origin, *m.source) for m in macros]
                    yield Site(
                        k, self.group_of[k], macro.column, inside, rest, positions, looked_at[positions],
                        not relative, tuple(sorted(place[i] for i in rest)),
                    )  # fmt: skip

    def _companions(self, k: int, j: int, looked_at: Int64) -> Iterator[tuple[tuple[int, ...], Int64]]:
        """Positions by the macros of template k that look where its macro j does, j included."""
        macros = self.macros[k]
        valid = self.inside_sequence(looked_at)
        alike = [i for i in range(len(macros)) if macros[i].column == macros[j].column]
        if not any(macros[i].absolute for i in alike):
            yield tuple(i for i in alike if macros[i].row == macros[j].row), np.flatnonzero(valid)
            return
        same = np.stack([self.places(macros[i]) == looked_at for i in alike], axis=1)
        codes = row_codes(same.astype(np.int64))[0]
        for code in np.unique(codes[valid]):
            positions = np.flatnonzero(valid & (codes == code))
            yield tuple(i for i, at in zip(alike, same[positions[0]], strict=True) if at), positions


@dataclass(frozen=True)
class SiteLists:
    """The lists of one site.

    Parameters
    ----------
    site : Site
    pointer : int64 [L + 1]
        List l has entries ``pointer[l]`` to ``pointer[l + 1]``.
    entries : int32 [E, 2]
        (unit, feature).
    list_of : int64 [n]
        List at each of the site's positions, or -1.
    """

    site: Site
    pointer: Int64
    entries: Int32
    list_of: Int64


class ColumnLists:
    """All lists of the fields of one column.

    Parameters
    ----------
    view : View
    column : int
    sites : sequence of Site
        Those of the column.
    features : ChainFeatures
    labels : int32 [N]
    """

    def __init__(self, view: View, column: int, sites: Sequence[Site], features: ChainFeatures, labels: Int32) -> None:
        self._view = view
        self.n_values = len(view.values[column])
        self.observed = view.ids[column]
        self._partitions = [self._partition(site) for site in sites]
        coarse = [p.class_of for s, p in zip(sites, self._partitions, strict=True) if p.is_coarse and not s.is_root]
        self.class_of = np.zeros(0, dtype=np.int64)  # [V], or empty if no macro is coarse
        if coarse:
            codes = row_codes(np.stack(coarse, axis=1))[0]
            self.class_of = np.unique(codes, return_inverse=True)[1].astype(np.int64)
        positions = np.arange(len(labels))
        first = positions == view.first
        before = labels[np.where(first, positions, positions - 1)].astype(np.int64)
        pairs = np.where(first, -1, before * features.n_labels + labels)
        state, edge, _, _ = features.segments
        templates = view.encoder.templates.observing
        self.lists: list[SiteLists] = []
        for site, partition in zip(sites, self._partitions, strict=True):
            scope = templates[site.template].scope
            if scope != "edge":
                self.lists.append(self._site_lists(site, partition, features.state, state.start, labels))
            if features.edge is not None and (scope != "state" or view.encoder.pair_features):
                self.lists.append(self._site_lists(site, partition, features.edge, edge.start, pairs))

    @property
    def n_classes(self) -> int:
        return int(self.class_of.max(initial=-1)) + 1

    def _partition(self, site: Site) -> Partition:
        macros = self._view.macros[site.template]
        return Partition(np.stack([self._view.outcomes(macros[i]) for i in site.inside], axis=1))

    def _site_lists(
        self, site: Site, partition: Partition, block: FeatureBlock, offset: int, codes: npt.NDArray[np.integer]
    ) -> SiteLists:
        """Lists of a site's features in ``block``, whose weights begin at ``offset``; ``codes`` [N] of the labels."""
        groups = self._view.encoder.groups
        base = sum(group.n_keys for group in groups[: site.group])
        keys = groups[site.group].keys[: groups[site.group].n_keys].astype(np.int64)
        kind = partition.find(keys[:, site.inside])
        starts, ends = block.pointer[base : base + len(keys)], block.pointer[base + 1 : base + len(keys) + 1]
        counts = np.where(kind >= 0, ends - starts, 0)
        attribute, feature = np.repeat(np.arange(len(keys)), counts), ranges(starts, counts)

        macros = self._view.macros[site.template]
        around = [self._view.seen(macros[i])[site.positions] for i in site.rest]
        own, wanted = row_codes(
            np.column_stack([keys[attribute][:, site.rest], block.codes[feature]]),
            np.column_stack([*around, codes[site.positions]]).astype(np.int64),
        )
        kept = np.flatnonzero(np.isin(own, wanted))
        kept = kept[np.argsort(own[kept], kind="stable")]
        distinct, first = np.unique(own[kept], return_index=True)

        as_classes = partition.is_coarse and not site.is_root
        of_value = self.n_values + self.class_of if as_classes else np.arange(self.n_values)
        pointer, members = partition.members(of_value)
        kinds = kind[attribute[kept]]
        lengths = np.diff(pointer)[kinds]
        units = members[ranges(pointer[kinds], lengths)]
        entries = np.stack([units, np.repeat(offset + feature[kept], lengths)], axis=1).astype(np.int32)
        bounds = offsets_of(lengths)[np.append(first, len(kept))]
        return SiteLists(site, bounds, entries, find_sorted(distinct, wanted))


def check_expressible(encoder: TemplateEncoder, columns: set[int]) -> None:
    """Refuse templates whose attributes are no function of single fields."""
    for template in encoder.templates.observing:
        for macro in template.macros:
            if macro.function == GAZETTEER and macro.column in columns:
                entries = encoder.gazetteers[macro.argument].entries
                if any(len(entry) > 1 for entry in entries):
                    raise OptionError(
                        f"the template {template} looks at the gazetteer {macro.argument!r}, whose entries of several "
                        "words see several tokens at once, so no single token can be predicted given the rest; leave "
                        "the line out, keep only entries of one word, or put the gazetteer's marks in a column of "
                        "their own"
                    )
