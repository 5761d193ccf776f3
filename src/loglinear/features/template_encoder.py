"""From columns of strings to attributes by templates: integer arithmetic on factorised columns.

A column arrives factorised (distinct strings and a number a position). A macro's function is computed once for each
distinct string; a template combines the numbers of its macros at each position (:mod:`.attribute_table`). No string is
made for a position.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.data.columns import Columns
from loglinear.errors import TemplateError
from loglinear.features.attribute_index import AttributeIndex, TemplatePlan
from loglinear.features.attribute_table import Group
from loglinear.features.encoding import AttributeBlocks, EncodedCorpus, Incidence
from loglinear.features.gazetteer import MARKS, Gazetteer
from loglinear.features.quick_encoder import QuickEncoder
from loglinear.features.template import GAZETTEER, Macro, Template, TemplateSet
from loglinear.features.vocabulary import UNKNOWN, Vocabulary
from loglinear.threads import in_threads

Int32 = npt.NDArray[np.int32]


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

    def scopes(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
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

    def _bases(self) -> npt.NDArray[np.int64]:
        """Number of the first attribute of each group, and the number of attributes in all."""
        return np.concatenate([[0], np.cumsum([group.n_keys for group in self.groups])]).astype(np.int64)

    def keeping(self, kept: npt.NDArray[np.bool_]) -> TemplateEncoder:
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

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
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
    def from_storage(
        cls, header: dict[str, Any], arrays: Mapping[str, npt.NDArray[Any]], strings: list[str]
    ) -> TemplateEncoder:
        """Rebuild from what :meth:`to_header`, :meth:`to_arrays` and :attr:`strings` gave; checks every bound."""
        gazetteers = [Gazetteer.from_dict(stored) for stored in header["gazetteers"]]
        encoder = cls(
            TemplateSet.parse(header["template"]), {g.name: g for g in gazetteers}, bool(header["pair_features"])
        )
        encoder.values = Vocabulary(strings, locked=True)
        sizes, keys = arrays["group_sizes"], arrays["keys"]
        widths = [len(template.macros) for template in encoder._template_of_group]
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
