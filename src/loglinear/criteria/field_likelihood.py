"""The observed half of joint pseudolikelihood (Besag 1975): each observed field given all others and all labels.

Smith, Vail & Lafferty (2007) train a joint log-linear model p(x, y) ~ exp(w . f(x, y)) of labels, words and tags by the
likelihood of every variable given the rest. :mod:`~loglinear.criteria.pseudolikelihood` is the labels' part. This is
the part of the *fields*, where a field is the value x_tc of column c at position t:

    loss = - sum_{t,c} log p(x_tc given the rest)  =  sum_{t,c} [ log sum_v exp g_tc(v) - g_tc(x_tc) ]

    g_tc(v)   sum of the weights, given the labels, of all attributes that look at (t, c), with v in its place;
              v runs over the values of column c in the corpus

Parts that do not look at a field, such as label transitions, drop out.

**An example.** The corpus contains "the/B-NP dog/I-NP barks/B-VP", the templates are U00:%x[0,0] and
U05:%x[-1,0]/%x[0,0]. Three attributes look at the field "dog". For each, the values v that have a weight are a short
*list*, found by its template, the label, and what the template sees elsewhere:

    attribute                        list of               entries                                              level
    U00 at dog                       I-NP                  dog -> w[dog, I-NP], cat -> w[cat, I-NP], ...        context
    U05 at dog, after "the"          the, I-NP             dog -> w[the/dog, I-NP], cat -> w[the/cat, I-NP]     node
    U05 at barks, before "barks"     barks, B-VP           dog -> w[dog/barks, B-VP]                            field

    g(dog) = w[dog, I-NP] + w[the/dog, I-NP] + w[dog/barks, B-VP]        g(cat) = w[cat, I-NP] + w[the/cat, I-NP]

Summing exp g(v) over all values for each field would be slow. Instead there are three levels, each a small change of
the one before:

    context   lists that depend on labels alone; all V values:  u(v), Z = sum_v exp u(v)      once for all of I-NP
    node      long lists that many fields of a context share; their values replace exp u(v)   once for all after "the"
    field     its other lists:  Z_t = Z + sum over listed v of exp(g(v)) - exp(u(v))          here v = dog alone

The gradient goes the same way back: a field adds 1 / Z_t to a *rate*, and for each listed value the difference from
rate * exp(u(v)) to a row of *changes*; the rate times exp(u), plus the changes, is the gradient of the context's lists.

A list may name *classes* of values: with %shape[0,0] in U05, one entry would cover all words of the shape of "dog".
Sums of exp(u), and rates, are then kept by class, too. Where a difference of sums would lose its digits, or exp
overflow, that field (or node) is summed over all values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Bool, Float, Int32, Int64
from loglinear.data.columns.corpus import Columns, offsets_of, ranges
from loglinear.errors import OptionError
from loglinear.features.block import FeatureBlock
from loglinear.features.encoding import EncodedCorpus
from loglinear.features.templates.encoder import TemplateEncoder
from loglinear.features.templates.gazetteer import MARKS
from loglinear.features.templates.language import GAZETTEER, Macro
from loglinear.kernels import kernel
from loglinear.structures.chain.features import ChainFeatures
from loglinear.system import in_threads

NODE_FROM = 16  # least number of entries in the lists of a node
MOST_SHARDS = 8
FIELDS_PER_SHARD = 2_000


def _numbered(rows: Int64) -> tuple[Int64, Int64]:
    """A number for each row of [n, m], the same for equal rows, and the distinct rows."""
    _, first, number = np.unique(row_codes(rows)[0], return_index=True, return_inverse=True)
    return number.reshape(-1), rows[first]


class _FieldLists:
    """The lists of each of N fields, in columns by what they depend on; -1 for none."""

    def __init__(self, column: ColumnLists) -> None:
        n = len(column.observed)
        roots, by_class, by_place = [], [], {}  # type: list[Int64], list[Int64], dict[object, list[Int64]]
        loose = []
        base = 0
        for lists in column.lists:
            numbers = np.where(lists.list_of >= 0, lists.list_of + base, -1)
            base += len(lists.pointer) - 1
            if lists.site.loose:
                loose.append(np.stack([lists.site.fields, numbers], axis=1)[numbers >= 0])
                continue
            row = np.full(n, -1, dtype=np.int64)
            row[lists.site.fields] = numbers
            if lists.site.is_root:
                roots.append(row)
            elif (lists.entries[:, 0] >= column.n_values).any():
                by_class.append(row)
            else:
                by_place.setdefault(lists.site.place, []).append(row)
        nothing = np.zeros((n, 0), dtype=np.int64)
        self.roots = np.stack(roots, axis=1) if roots else nothing  # [N, slots]
        self.by_class = np.stack(by_class, axis=1) if by_class else nothing
        self.by_place = [np.stack(rows, axis=1) for rows in by_place.values()]
        self.loose = np.concatenate([np.zeros((0, 2), dtype=np.int64), *loose])  # (field, list)

    def take_nodes(self, context: Int64, lengths: Int64) -> tuple[Int64, Int64]:
        """Take out the lists that go to nodes, in the cheaper of two ways.

        Lists whose rest looks at the same place stay together. Either the longest of each field are its node, which is
        best for pairs of words of which one is frequent, or the same places are taken for every field, which is best
        where the rest has few values.

        Parameters
        ----------
        context : int64 [N]
        lengths : int64 [L + 1]
            Number of entries of each list, and 0 for none at the end.

        Returns
        -------
        node : int64 [N]
            Number of each field's node.
        lists : int64 [., slots]
            Lists of each node.
        """
        if not self.by_place:
            return _numbered(np.zeros((len(context), 0), dtype=np.int64))
        sizes = np.stack([lengths[rows].sum(axis=1) for rows in self.by_place])  # [places, N]
        longest = (np.arange(len(sizes))[:, None] == sizes.argmax(axis=0)) & (sizes >= NODE_FROM)
        common = np.zeros_like(longest)
        cost = self._cost(common, sizes, context)
        for place in np.argsort(-sizes.sum(axis=1), kind="stable"):
            common[place] = True
            with_place = self._cost(common, sizes, context)
            common[place] = with_place < cost
            cost = min(cost, with_place)
        chosen = longest if self._cost(longest, sizes, context) < cost else common
        node_rows = self._rows(chosen)
        self.by_place = [np.where(taken[:, None], -1, rows) for rows, taken in zip(self.by_place, chosen, strict=True)]
        return _numbered(node_rows)

    def _rows(self, chosen: Bool) -> Int64:
        """Lists [N, slots] of the places ``chosen`` [places, N] for each field, -1 elsewhere."""
        masked = [np.where(taken[:, None], rows, -1) for rows, taken in zip(self.by_place, chosen, strict=True)]
        return np.concatenate(masked, axis=1)

    def _cost(self, chosen: Bool, sizes: Int64, context: Int64) -> int:
        """Number of entries to visit if the places ``chosen`` go to nodes."""
        in_node = np.where(chosen, sizes, 0).sum(axis=0)
        nodes = row_codes(np.column_stack([context, self._rows(chosen)]))[0]
        _, first = np.unique(nodes, return_index=True)
        return int(in_node[first].sum() + sizes.sum() - in_node.sum())

    def left(self, rank: Int64) -> tuple[Int64, Int64]:
        """Pairs (rank of the field, list) of the lists that are in neither a context nor a node, by rank."""
        rows = np.concatenate([self.by_class, *self.by_place], axis=1)
        field, slot = np.nonzero(rows >= 0)
        owner = rank[np.concatenate([field, self.loose[:, 0]])]
        order = np.argsort(owner, kind="stable")
        return owner[order], np.concatenate([rows[field, slot], self.loose[:, 1]])[order]


class _Fields:
    """The N fields of a column, laid out for the kernels.

    Parameters
    ----------
    column : ColumnLists
    weights : float64 [N]
    n_shards : int
        Number of parts, of about the same cost, to cut the fields into.
    """

    def __init__(self, column: ColumnLists, weights: Float, n_shards: int) -> None:
        n = len(column.observed)
        pointer = offsets_of(np.concatenate([[0][:0], *(np.diff(lists.pointer) for lists in column.lists)]))
        slots = _FieldLists(column)
        context, context_lists = _numbered(slots.roots)
        node, node_lists = slots.take_nodes(context, np.append(np.diff(pointer), 0))
        order = np.lexsort((node, context))
        rank = np.empty(n, dtype=np.int64)
        rank[order] = np.arange(n)
        owner, left = slots.left(rank)
        shared = [context_lists, node_lists]
        counts = np.concatenate([*((rows >= 0).sum(axis=1) for rows in shared), np.bincount(owner, minlength=n)])
        in_bundles = np.concatenate([*(rows[rows >= 0] for rows in shared), left])
        bundle = len(counts) - n + np.arange(n)
        self._table = np.column_stack(
            [context[order], len(context_lists) + node[order], bundle, column.observed[order]]
        ).astype(np.int32)
        self._weights = weights[order]
        self._bundles = offsets_of(counts)
        self._spans = np.stack([pointer[in_bundles], pointer[in_bundles + 1]], axis=1)
        self._entries = np.concatenate([np.zeros((0, 2), dtype=np.int32), *(lists.entries for lists in column.lists)])
        self._class_of = column.class_of.astype(np.int32)
        self._sizes = column.n_values, column.n_classes
        cost = np.cumsum(self._costs())
        cuts = np.searchsorted(cost, np.linspace(0.0, cost[-1], n_shards + 1)[1:-1])
        self._bounds = [0, *cuts.tolist(), n]

    def _costs(self) -> Float:
        """Estimated cost of each field [N]; the first of a context or node includes the cost of that."""
        ends = np.append(0, np.cumsum(self._spans[:, 1] - self._spans[:, 0]))
        entries = np.diff(ends[self._bundles])
        context, node, bundle, _ = self._table.T
        new_context = np.diff(context, prepend=-1) != 0
        new_node = new_context | (np.diff(node, prepend=-1) != 0)
        cost = 4.0 + entries[bundle] + new_context * (4.0 * self._sizes[0] + entries[context])
        return cost + new_node * (self._sizes[1] + entries[node])

    def evaluate(self, shard: int, weights: Float, gradient: Float) -> float:
        """Loss of a shard; adds to its gradient [D]."""
        return evaluate(
            self._table, self._weights, self._bounds[shard], self._bounds[shard + 1],
            self._bundles, self._spans, self._entries, self._class_of,
            *new_work(*self._sizes), weights, gradient,
        )  # fmt: skip


class FieldLikelihood:
    """- sum over positions and columns of log p(observed value given all other fields and all labels).

    Parameters
    ----------
    encoder : TemplateEncoder
        The encoder that was fitted to ``corpus``.
    corpus : Columns
        The training corpus: a field may take the values that its column has there.
    encoded : EncodedCorpus
        The same corpus as numbers: S sequences, N positions.
    features : ChainFeatures
    labels : int32 [N]
    sequence_weights : float64 [S] or None
        Weight of each sequence's loss; None for 1.
    n_threads : int
        Threads to use; the value does not depend on it.
    label_column : int or None
        Column of ``corpus`` that holds the labels; it is not predicted.

    Raises
    ------
    OptionError
        If labels are missing, or a template looks at a gazetteer with entries of several words.
    """

    def __init__(
        self,
        encoder: TemplateEncoder,
        corpus: Columns,
        encoded: EncodedCorpus,
        features: ChainFeatures,
        labels: Int32,
        sequence_weights: Float | None,
        n_threads: int,
        label_column: int | None,
    ) -> None:
        if (labels < 0).any():
            raise OptionError(
                "joint pseudolikelihood predicts fields given all labels, but some tokens have no settled label; "
                "complete the labels, leave those sequences out, or choose another criterion"
            )
        columns = set(encoder.templates.columns) if corpus.n_tokens else set()
        if label_column is not None and columns:
            columns.discard(label_column % corpus.n_columns)
        check_expressible(encoder, columns)
        self.n_features, self.n_threads = features.n_features, n_threads
        weights = np.ones(encoded.n_sequences) if sequence_weights is None else sequence_weights
        position_weights = np.repeat(np.asarray(weights, dtype=np.float64), np.diff(encoded.offsets))
        n_shards = max(1, min(MOST_SHARDS, corpus.n_tokens // FIELDS_PER_SHARD))
        self._fields: list[_Fields] = []
        if columns:
            view = View(encoder, corpus)
            sites = list(view.sites(columns))
            for column in sorted(columns):
                lists = ColumnLists(view, column, [s for s in sites if s.column == column], features, labels)
                self._fields.append(_Fields(lists, position_weights, n_shards))
        self._gradients = np.zeros((n_shards, self.n_features))

    def __call__(self, weights: Float) -> tuple[float, Float]:
        """Value and gradient at ``weights`` [D]; the gradient array is used again by the next call."""
        weights = np.require(weights, np.float64, ["C", "W"])  # kernels compile once, for writable arrays
        values = in_threads(
            lambda shard: self._evaluate_shard(shard, weights), range(len(self._gradients)), self.n_threads
        )
        gradient = self._gradients[0]
        for other in self._gradients[1:]:
            gradient += other
        return float(sum(values)), gradient

    def _evaluate_shard(self, shard: int, weights: Float) -> float:
        gradient = self._gradients[shard]
        gradient.fill(0.0)
        return float(sum(fields.evaluate(shard, weights, gradient) for fields in self._fields))


# ----------------------------------------------------------------------------------------------------------------------
# Preparation: the lists of each column's fields.
#
# A *site* is one way in which a template looks at fields: some of its macros look at the field (the *inside*), the
# others elsewhere (the *rest*). In the example above U05 has two sites:
#
#     U05 at dog     inside = macro 1, the word itself      rest = macro 0, the word before
#     U05 at barks   inside = macro 0, the word before      rest = macro 1, the word itself
#
# With the rest and the labels fixed, the features that a site can have are a list of pairs (unit, feature).
#
# A *unit* is a value of the column (0..V-1), or a class of values (V..V+K-1) that the macros inside do not distinguish:
# a macro such as %brief puts thousands of words in one class, and a list of all of them would be long. The classes of a
# column are the joint partition by all such coarse macros.


COARSE_FROM = 4.0  # macros are coarse if the mean value is in a class of more values than this
_WIDEST = 2**62


def row_codes(*tables: Int64) -> list[Int64]:
    """A number for each row of tables [., m] with entries from -1 up, equal for equal rows and in their order."""
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
    """The V values of a column, partitioned by the outcomes of some macros.

    Parameters
    ----------
    outcomes : int64 [V, m]
        The outcome of each macro for each value, in the encoder's value numbers; -1 for none.
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
        """Whether lists of all values of a class would often be long."""
        sizes = np.bincount(self.class_of[self.class_of >= 0]).astype(np.float64)
        return bool(np.sum(sizes**2) > COARSE_FROM * np.sum(sizes))

    def find(self, keys: Int64) -> Int64:
        """Class of each of the outcomes ``keys`` [A, m], or -1."""
        known, wanted = row_codes(self.kinds, keys)
        return find_sorted(known, wanted)

    def members(self, units: Int64) -> tuple[Int64, Int64]:
        """The distinct ``units`` [V] of the values of each class: pointer [Q + 1] and units."""
        pairs = np.unique(np.column_stack([self.class_of, units])[self.class_of >= 0], axis=0)
        return offsets_of(np.bincount(pairs[:, 0], minlength=len(self.kinds))), pairs[:, 1]


@dataclass(frozen=True)
class Site:
    """A template, and those of its macros that look at a field of ``column``.

    Parameters
    ----------
    template, group, column : int
        Indices of the template, of its group of attributes, and of the column.
    inside, rest : tuple of int
        The macros that look at the field, and the others.
    positions, fields : int64 [n]
        Positions whose attribute depends on the field, and the positions of the fields; distinct unless ``loose``.
    loose : bool
        Whether many positions may look at the same field, through macros with absolute rows.
    place : tuple
        Where the rest looks, relative to the field: fields that share a list of one site share those of all sites with
        the same place.
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
        self.values: dict[int, list[str]] = {}  # the V distinct values of a column
        self.ids: dict[int, Int64] = {}  # [N] numbers of these values
        for column in sorted(encoder.templates.columns):
            used, ids = np.unique(corpus.columns[column].ids, return_inverse=True)
            self.values[column] = [corpus.columns[column].values[i] for i in used.tolist()]
            self.ids[column] = ids.astype(np.int64)
        self._outcomes: dict[tuple[int, str, str, bool, bool], Int64] = {}

    def outcomes(self, macro: Macro) -> Int64:
        """The macro's outcome for each of its column's values [V]; -1 for none, or one that has no number."""
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
        """The position that the macro looks at from each position [N]; may lie outside the sequence."""
        if not macro.absolute:
            return np.arange(self.n_tokens) + macro.row
        return self.first + macro.row - 1 if macro.row > 0 else self.end + macro.row

    def inside_sequence(self, places: Int64) -> Bool:
        return (places >= self.first) & (places < self.end)

    def seen(self, macro: Macro) -> Int64:
        """The macro's outcome at each position [N], -1 if there is none."""
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
                        continue  # this site belongs to another macro
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
        state, edge, *_ = features.slices
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
        known, wanted = row_codes(
            np.column_stack([keys[attribute][:, site.rest], block.codes[feature]]),
            np.column_stack([*around, codes[site.positions]]).astype(np.int64),
        )
        kept = np.flatnonzero(np.isin(known, wanted))
        kept = kept[np.argsort(known[kept], kind="stable")]
        distinct, first = np.unique(known[kept], return_index=True)

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
    """Reject templates whose attributes are not functions of single fields."""
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


# ----------------------------------------------------------------------------------------------------------------------
# The kernels: a field's sum over values, and its gradient, on the three levels context, node and field.
#
# Each level changes the scores of some values of the level before, and keeps the sum of their *masses*
# exp(score - highest). For the gradient there are a *rate*, the sum of weight / Z over the fields so far, and *changes*
# for values that differ from the rate times the mass. V values, K classes of values, U = V + K units. Rows of
# arrays are picked by constants, because NamedTuples of single arrays are a fifth slower.
#
#     bundles   [B + 1]   spans of each *bundle*: every context, node and field has a bundle of lists
#     spans     [., 2]    first and end of a list's entries
#     entries   [E, 2]    (unit, feature)
#     class_of  [V]       class of each value; empty if there are no classes
#     values    [6, V]    rows SCORE, MASS, CHANGE of the node; from SAVED on those of the context that the node changes
#     classes   [4, K]    rows CONTEXT_MASS, CONTEXT_RATE, NODE_MASS, NODE_RATE
#     units     [3, U]    rows EXTRA (weights collected), PART (mass, then gradient), BEFORE (see _listed_sum)
#     marks     [4, U]    rows SEEN (number of the last collection that named the unit), TOUCHED, NODE_TOUCHED, STAMP
#     state     [7]       scalars of the context and the node


SCORE, MASS, CHANGE, SAVED, N_VALUE_ROWS = 0, 1, 2, 3, 6
CONTEXT_MASS, CONTEXT_RATE, NODE_MASS, NODE_RATE, N_CLASS_ROWS = range(5)
EXTRA, PART, BEFORE, N_UNIT_ROWS = range(4)
SEEN, TOUCHED, NODE_TOUCHED, STAMP, N_MARK_ROWS = range(5)
HIGHEST, TOTAL, RATE, HIGHEST_OF_NODE, TOTAL_OF_NODE, RATE_OF_NODE, FRESH, N_STATE = range(8)
CONTEXT, NODE, ITSELF, OBSERVED = range(4)

CANCELLED = 1e-4  # a sum below this share of what it was subtracted from has lost too many digits
FARTHEST = 300.0  # exp of twice it, summed, is finite


def new_work(n_values: int, n_classes: int) -> tuple[Float, Float, Float, Int64, Float]:
    """``values``, ``classes``, ``units``, ``marks`` and ``state`` for :func:`evaluate`."""
    n_units = n_values + n_classes
    return (
        np.zeros((N_VALUE_ROWS, n_values)),
        np.zeros((N_CLASS_ROWS, n_classes)),
        np.zeros((N_UNIT_ROWS, n_units)),
        np.zeros((N_MARK_ROWS, n_units), dtype=np.int64),
        np.zeros(N_STATE),
    )


@kernel
def _collect(
    bundles: Int64, spans: Int64, entries: Int32, bundle: int, weights: Float, extra: Float, marks: Int64
) -> int:
    """Add up the weights of a bundle by unit into ``extra``; returns the number of units touched."""
    seen, touched = marks[SEEN], marks[TOUCHED]
    marks[STAMP, 0] += 1
    stamp = marks[STAMP, 0]
    count = 0
    for s in range(bundles[bundle], bundles[bundle + 1]):
        for j in range(spans[s, 0], spans[s, 1]):
            unit = entries[j, 0]
            if seen[unit] != stamp:
                seen[unit] = stamp
                extra[unit] = 0.0
                touched[count] = unit
                count += 1
            extra[unit] += weights[entries[j, 1]]
    return count


@kernel
def _spread(bundles: Int64, spans: Int64, entries: Int32, bundle: int, parts: Float, gradient: Float) -> None:
    """Add the ``parts`` [U] of units to the gradient of the features of a bundle."""
    for s in range(bundles[bundle], bundles[bundle + 1]):
        for j in range(spans[s, 0], spans[s, 1]):
            gradient[entries[j, 1]] += parts[entries[j, 0]]


@kernel
def _refresh(class_of: Int32, scores: Float, masses: Float, class_masses: Float) -> tuple[float, float]:
    """Masses of all values from their scores; returns the highest score and the sum of the masses."""
    highest = scores[0]
    for v in range(1, scores.shape[0]):
        highest = max(highest, scores[v])
    without = np.exp(-highest) if highest >= 0.0 else 0.0  # the mass of the many values without a weight
    total = 0.0
    class_masses[:] = 0.0
    for v in range(scores.shape[0]):
        masses[v] = np.exp(scores[v] - highest) if scores[v] != 0.0 else without
        total += masses[v]
        if class_masses.shape[0]:
            class_masses[class_of[v]] += masses[v]
    return highest, total


@kernel
def _enter_node(
    count: int, class_of: Int32, values: Float, classes: Float, extra: Float, marks: Int64, state: Float
) -> None:
    """Add the collected weights of ``count`` values to the scores of the context."""
    scores, masses, changes, class_masses = values[SCORE], values[MASS], values[CHANGE], classes[NODE_MASS]
    class_masses[:] = classes[CONTEXT_MASS]
    classes[NODE_RATE] = 0.0
    highest, total, farthest = state[HIGHEST], state[TOTAL], -np.inf
    for i in range(count):
        v = marks[TOUCHED, i]
        marks[NODE_TOUCHED, i] = v
        values[SAVED, i], values[SAVED + 1, i], values[SAVED + 2, i] = scores[v], masses[v], changes[v]
        changes[v] = 0.0
        scores[v] += extra[v]
        farthest = max(farthest, scores[v] - highest)
    fresh = not farthest <= FARTHEST
    for i in range(0 if fresh else count):
        v = marks[NODE_TOUCHED, i]
        mass = np.exp(scores[v] - highest)
        total += mass - masses[v]
        if class_masses.shape[0]:
            class_masses[class_of[v]] += mass - masses[v]
        masses[v] = mass
    if count and (fresh or not total > CANCELLED * state[TOTAL]):
        fresh = True
        highest, total = _refresh(class_of, scores, masses, class_masses)
    state[HIGHEST_OF_NODE], state[TOTAL_OF_NODE], state[RATE_OF_NODE] = highest, total, 0.0
    state[FRESH] = 1.0 if fresh else 0.0


@kernel
def _leave_node(
    count: int, class_of: Int32, values: Float, classes: Float, parts: Float, marks: Int64, state: Float
) -> None:
    """Write the gradient by the node's scores to ``parts``; add rate and changes to the context, and restore that."""
    scores, masses, changes, class_rates = values[SCORE], values[MASS], values[CHANGE], classes[NODE_RATE]
    fresh = state[FRESH] != 0.0
    if fresh:  # its masses are relative to another highest score: all of them are changes
        for v in range(masses.shape[0]):
            rate = state[RATE_OF_NODE]
            if class_rates.shape[0]:
                rate += class_rates[class_of[v]]
            changes[v] += masses[v] * rate
    for i in range(count):
        v = marks[NODE_TOUCHED, i]
        rate = 0.0 if fresh else state[RATE_OF_NODE]
        if class_rates.shape[0] and not fresh:
            rate += class_rates[class_of[v]]
        parts[v] = changes[v] + masses[v] * rate
        changes[v] = values[SAVED + 2, i] + parts[v] - values[SAVED + 1, i] * rate
        scores[v], masses[v] = values[SAVED, i], values[SAVED + 1, i]
    if fresh:
        _refresh(class_of, scores, masses, classes[CONTEXT_MASS])
    else:
        state[RATE] += state[RATE_OF_NODE]
        for k in range(class_rates.shape[0]):
            classes[CONTEXT_RATE, k] += class_rates[k]


@kernel
def _listed_sum(
    count: int, class_of: Int32, values: Float, classes: Float, units: Float, marks: Int64, state: Float
) -> float:
    """Sum of exp(g - highest) over all values, from the node's and the listed units; -1 if it would lose its digits.

    Writes the masses of listed units to PART. BEFORE gets, for a value, its mass without its own entry, and for a
    class, the factor of its values' masses.
    """
    scores, masses, seen, touched = values[SCORE], values[MASS], marks[SEEN], marks[TOUCHED]
    extra, parts, before = units[EXTRA], units[PART], units[BEFORE]
    n_values, stamp, highest = scores.shape[0], marks[STAMP, 0], state[HIGHEST_OF_NODE]
    total = largest = state[TOTAL_OF_NODE]
    if state[FRESH] == 0.0:
        largest = max(largest, state[TOTAL])
    for i in range(count if classes.shape[1] else 0):
        unit = touched[i]
        if unit >= n_values:
            if not abs(extra[unit]) <= FARTHEST:
                return -1.0
            before[unit] = np.exp(extra[unit])
            mass = classes[NODE_MASS, unit - n_values]
            parts[unit] = mass * before[unit]
            total += parts[unit] - mass
            largest = max(largest, parts[unit])
            if state[FRESH] == 0.0:  # NODE_MASS started as CONTEXT_MASS, which the rate multiplies
                largest = max(largest, classes[CONTEXT_MASS, unit - n_values] * before[unit])
    for i in range(count):
        v = touched[i]
        if v < n_values:
            score, mass, unit = scores[v] + extra[v] - highest, masses[v], -1
            if class_of.shape[0] and seen[n_values + class_of[v]] == stamp:
                unit = n_values + class_of[v]
                score += extra[unit]
                mass *= before[unit]
            if not score <= 2 * FARTHEST:
                return -1.0
            parts[v] = np.exp(score)
            before[v] = mass
            total += parts[v] - mass
            largest = max(largest, mass)
            if unit >= 0:
                parts[unit] += parts[v] - mass
    return total if total > CANCELLED * largest else -1.0


@kernel
def _full_sum(count: int, weight: float, class_of: Int32, values: Float, units: Float, marks: Int64) -> float:
    """Log of the sum of exp g over all values, one by one; writes ``weight`` p(v) to PART."""
    extra, parts, before, seen = units[EXTRA], units[PART], units[BEFORE], marks[SEEN]
    n_values, stamp = values.shape[1], marks[STAMP, 0]
    highest = -np.inf
    for v in range(n_values):
        score = values[SCORE, v]
        if seen[v] == stamp:
            score += extra[v]
        if class_of.shape[0] and seen[n_values + class_of[v]] == stamp:
            score += extra[n_values + class_of[v]]
        before[v] = score
        highest = max(highest, score)
    total = 0.0
    for v in range(n_values):
        parts[v] = np.exp(before[v] - highest)
        total += parts[v]
    for i in range(count):
        if marks[TOUCHED, i] >= n_values:
            parts[marks[TOUCHED, i]] = 0.0
    for v in range(n_values):
        parts[v] *= weight / total
        values[CHANGE, v] += parts[v]
        if class_of.shape[0]:
            parts[n_values + class_of[v]] += parts[v]
    return highest + np.log(total)


@kernel
def _field(
    count: int,
    observed: int,
    weight: float,
    class_of: Int32,
    values: Float,
    classes: Float,
    units: Float,
    marks: Int64,
    state: Float,
) -> float:
    """Loss of a field on top of its node, after its ``count`` units were collected; the gradient goes to PART."""
    changes, parts, before = values[CHANGE], units[PART], units[BEFORE]
    n_values, stamp = values.shape[1], marks[STAMP, 0]
    total = _listed_sum(count, class_of, values, classes, units, marks, state)
    if total < 0.0:
        log_sum = _full_sum(count, weight, class_of, values, units, marks)
    else:
        log_sum = np.log(total) + state[HIGHEST_OF_NODE]
        rate = weight / total
        state[RATE_OF_NODE] += rate
        for i in range(count):
            unit = marks[TOUCHED, i]
            parts[unit] *= rate
            if unit < n_values:
                changes[unit] += parts[unit] - rate * before[unit]
            else:
                classes[NODE_RATE, unit - n_values] += rate * (before[unit] - 1.0)
    score = values[SCORE, observed]
    changes[observed] -= weight
    if marks[SEEN, observed] == stamp:
        score += units[EXTRA, observed]
        parts[observed] -= weight
    if class_of.shape[0]:
        unit = n_values + class_of[observed]
        if marks[SEEN, unit] == stamp:
            score += units[EXTRA, unit]
            parts[unit] -= weight
    return weight * (log_sum - score)


@kernel
def evaluate(
    fields: Int32,
    field_weights: Float,
    first: int,
    end: int,
    bundles: Int64,
    spans: Int64,
    entries: Int32,
    class_of: Int32,
    values: Float,
    classes: Float,
    units: Float,
    marks: Int64,
    state: Float,
    weights: Float,
    gradient: Float,
) -> float:
    """Loss of the fields ``first`` to ``end``; adds their gradient to ``gradient`` [D].

    ``fields`` [N, 4] has the bundles of a field's context, its node and itself, and the observed value. It is sorted by
    context and node.
    """
    extra, parts = units[EXTRA], units[PART]
    loss = 0.0
    i = first
    while i < end:
        context = fields[i, CONTEXT]
        values[SCORE] = 0.0
        values[CHANGE] = 0.0
        classes[CONTEXT_RATE] = 0.0
        for j in range(_collect(bundles, spans, entries, context, weights, extra, marks)):
            values[SCORE, marks[TOUCHED, j]] = extra[marks[TOUCHED, j]]
        state[HIGHEST], state[TOTAL] = _refresh(class_of, values[SCORE], values[MASS], classes[CONTEXT_MASS])
        state[RATE] = 0.0
        while i < end and fields[i, CONTEXT] == context:
            node = fields[i, NODE]
            count = _collect(bundles, spans, entries, node, weights, extra, marks)
            _enter_node(count, class_of, values, classes, extra, marks, state)
            while i < end and fields[i, CONTEXT] == context and fields[i, NODE] == node:
                bundle, observed = fields[i, ITSELF], fields[i, OBSERVED]
                listed = _collect(bundles, spans, entries, bundle, weights, extra, marks)
                loss += _field(listed, observed, field_weights[i], class_of, values, classes, units, marks, state)
                _spread(bundles, spans, entries, bundle, parts, gradient)
                i += 1
            _leave_node(count, class_of, values, classes, parts, marks, state)
            if count:
                _spread(bundles, spans, entries, node, parts, gradient)
        for v in range(values.shape[1]):
            rate = state[RATE]
            if class_of.shape[0]:
                rate += classes[CONTEXT_RATE, class_of[v]]
            parts[v] = values[MASS, v] * rate + values[CHANGE, v]
        _spread(bundles, spans, entries, context, parts, gradient)
    return loss
