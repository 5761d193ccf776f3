"""The observed half of joint pseudolikelihood (Besag 1975): each observed field given all others and all labels.

Smith, Vail & Lafferty (2007) train a joint log-linear model p(x, y) ~ exp(w . f(x, y)) of labels, words and tags by
the likelihood of every variable given the rest. :mod:`.pseudolikelihood` is the labels' part. This is the fields':

    loss = - sum_{t,c} log p(x_tc given the rest)  =  sum_{t,c} [ log sum_v exp g_tc(v) - g_tc(x_tc) ]

    g_tc(v)   sum of the weights, by the labels there, of all attributes that look at (t, c), with v put in its place;
              v runs over the values of column c in the corpus

Parts that do not look at a field, such as label transitions, drop out. No field is summed over all values by itself.
Weights come in lists of (value, feature), one for each template, label and values of its other macros
(:mod:`.field_lists`), and a field's g is the sum of its lists at three levels, each a small change of the one before:

    context   lists that depend on labels alone; all V values:  u(v), Z = sum_v exp u(v)      once for many fields
    node      long lists that many fields of a context have in common                         once for some fields
    field     its other lists:  Z_t = Z + sum over listed v of exp(g(v)) - exp(u(v))

The gradient takes the way back: a field adds 1 / Z_t to a rate, and what its listed values have more or less than
rate * exp(u(v)) to a row of changes; the rate times exp(u), plus the changes, is what the context's lists get.

A list may name a class of values instead (see there): exp(u) is summed by class, too, and rates are kept by class.
Where a difference of sums would lose its digits, or exp overflow, that field (or node) is summed over all values.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from loglinear.criteria.field_kernels import evaluate, new_work
from loglinear.criteria.field_lists import ColumnLists, View, check_expressible, row_codes
from loglinear.data.columns import Columns, offsets_of
from loglinear.errors import OptionError
from loglinear.features.encoding import EncodedCorpus
from loglinear.features.template_encoder import TemplateEncoder
from loglinear.structures.chain_features import ChainFeatures
from loglinear.threads import in_threads

Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

NODE_FROM = 16  # entries in the lists of a node, at least
MOST_SHARDS = 8
FIELDS_PER_SHARD = 2_000


def _numbered(rows: Int64) -> tuple[Int64, Int64]:
    """A number for each row of [n, m], equal rows having the same, and the distinct rows."""
    _, first, number = np.unique(row_codes(rows)[0], return_index=True, return_inverse=True)
    return number.reshape(-1), rows[first]


class _Slots:
    """The lists of each of N fields, in slots by what they depend on; -1 for none."""

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

        Of lists whose rest looks at the same place, either each field's longest are its node (as for pairs of words,
        of which one is frequent), or the same places are every field's (as where the rest has few values).

        Parameters
        ----------
        context : int64 [N]
        lengths : int64 [L + 1]
            Entries of each list; the last is that of no list.

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

    def _rows(self, chosen: npt.NDArray[np.bool_]) -> Int64:
        """Lists [N, slots] of the places ``chosen`` [places, N] for each field, -1 elsewhere."""
        masked = [np.where(taken[:, None], rows, -1) for rows, taken in zip(self.by_place, chosen, strict=True)]
        return np.concatenate(masked, axis=1)

    def _cost(self, chosen: npt.NDArray[np.bool_], sizes: Int64, context: Int64) -> int:
        """Entries to walk if the places ``chosen`` go to nodes."""
        in_node = np.where(chosen, sizes, 0).sum(axis=0)
        nodes = row_codes(np.column_stack([context, self._rows(chosen)]))[0]
        _, first = np.unique(nodes, return_index=True)
        return int(in_node[first].sum() + sizes.sum() - in_node.sum())

    def left(self, rank: Int64) -> tuple[Int64, Int64]:
        """(rank of the field, list) of all that is in no context and no node, by rank."""
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
        Parts of about the same cost to cut the fields into.
    """

    def __init__(self, column: ColumnLists, weights: Float, n_shards: int) -> None:
        n = len(column.observed)
        pointer = offsets_of(np.concatenate([[0][:0], *(np.diff(lists.pointer) for lists in column.lists)]))
        slots = _Slots(column)
        context, context_lists = _numbered(slots.roots)
        node, node_lists = slots.take_nodes(context, np.append(np.diff(pointer), 0))
        order = np.lexsort((node, context))
        rank = np.empty(n, dtype=np.int64)
        rank[order] = np.arange(n)
        owner, left = slots.left(rank)
        shared = [context_lists, node_lists]
        counts = np.concatenate([*((rows >= 0).sum(axis=1) for rows in shared), np.bincount(owner, minlength=n)])
        in_bundles = np.concatenate([*(rows[rows >= 0] for rows in shared), left])
        leaf = len(counts) - n + np.arange(n)
        self._table = np.column_stack(
            [context[order], len(context_lists) + node[order], leaf, column.observed[order]]
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
        """An estimate of what each field costs [N], the first of a context or node with the cost of that."""
        ends = np.append(0, np.cumsum(self._spans[:, 1] - self._spans[:, 0]))
        entries = np.diff(ends[self._bundles])
        context, node, leaf, _ = self._table.T
        new_context = np.diff(context, prepend=-1) != 0
        new_node = new_context | (np.diff(node, prepend=-1) != 0)
        cost = 4.0 + entries[leaf] + new_context * (4.0 * self._sizes[0] + entries[context])
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
        The training corpus: its columns' values are those a field may take.
    encoded : EncodedCorpus
        The same in numbers, S sequences, N positions.
    features : ChainFeatures
    labels : int32 [N]
    sequence_weights : float64 [S] or None
        Weight of each sequence's loss; None is one for all.
    n_threads : int
        Threads to use; the value does not depend on it.
    label_column : int or None
        Column of ``corpus`` that holds the labels, which is no field.

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
