"""Each position's label given its neighbours' gold labels, in single precision: MEMMs and pseudolikelihood.

With the labels y* of the other positions fixed, a position is a logistic regression of its own. Its scores r_t(y) are
those of :mod:`~loglinear.structures.chain.pieces`: the part scores that touch it, given the labels before it (an MEMM)
or also those after it (pseudolikelihood). Which features these have is known before training, at any order and with
edge features, so that all of them are lists of weights for each position:

    state         rows and single features, as in :class:`~loglinear.structures.chain.padded.PaddedLayout`
    contexts      single features (weight, label): transition(y*_{t-1}, y), edge_t(y*_{t-1}, y), trigram(y*_{t-2}, ...)
                  and, given the labels after, transition(y, y*_{t+1}), edge_{t+1}(y, y*_{t+1}), and two trigrams

A weight may be in the lists of two labels, before one position and after another; it is stored once. Memory is linear
in the number of observed features of all positions' contexts.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from loglinear import mapped
from loglinear.arrays import Float, Float32, Int16, Int32, Int64
from loglinear.features.encoding import EncodedCorpus, Incidence, runs
from loglinear.kernels import inlined_kernel, kernel, loose_kernel
from loglinear.kernels.lanes import (
    Width,
    added,
    block_length,
    exponential,
    greater,
    greatest,
    load,
    prefetch,
    row_length,
    same,
    store,
    total,
    towards_zero,
    where_there,
)
from loglinear.kernels.tables import Lists
from loglinear.structures.chain.features import ChainFeatures, Penalties
from loglinear.structures.chain.padded import PaddedCorpus, PaddedLayout
from loglinear.structures.rows import AHEAD, LEAST, LOWEST, ONE, TINY, TWO, ZERO, Kept, PaddedWeights, Step

NO_CODES = np.zeros(0, dtype=np.int32)
BLOCK = 1 << 16  # positions whose gold labels are looked at together
NO_LISTS = Incidence(np.zeros(1, dtype=np.int64), NO_CODES).lists()


class Groups(NamedTuple):
    """The label n-grams with a weight, by what is fixed of them: key k has ``pointer[k]`` to ``pointer[k + 1]``.

    Parameters
    ----------
    pointer : int64 [K + 1]
    numbers : int32
        The weight of each, counted from the first edge weight on.
    labels : int32
        The label that is not fixed.
    """

    pointer: Int64
    numbers: Int32
    labels: Int32


class EdgeFeatures(NamedTuple):
    """Attributes joined with pairs of labels: where each attribute's features begin [A + 1], and their codes."""

    pointer: Int64
    codes: Int32


class Singles(NamedTuple):
    """The single features of each position, as in :class:`~loglinear.structures.chain.padded.PaddedCorpus`."""

    pointer: Int64
    ids: Int32
    labels: Int16
    values: Float32


def context_groups(features: ChainFeatures, gold: Int32, offsets: Int64, after: bool) -> tuple[Groups, Int64]:
    """The n-grams around a label grouped by the gold labels in them, and the keys [N, 2 or 5] of each position.

    A key of -1 is that of a part which reaches beyond the sequence, or looks at a label that is not given.
    """
    y, n = features.n_labels, len(gold)
    slices = features.slices
    bigrams, trigrams = features.transitions.astype(np.int64), features.trigrams.astype(np.int64)
    from_edges = slices[1].start
    pairs, triples = slices[2].start - from_edges, slices[3].start - from_edges
    kinds = [  # codes, number of the first, what is fixed of a code, its label, the number of keys
        (bigrams, pairs, bigrams // y, bigrams % y, y),
        (trigrams, triples, trigrams // y, trigrams % y, y * y),
    ]
    if after:
        middle, fixed = trigrams // y % y, trigrams // (y * y) * y + trigrams % y
        kinds += [
            (bigrams, pairs, bigrams % y, bigrams // y, y),
            (trigrams, triples, fixed, middle, y * y),
            (trigrams, triples, trigrams % (y * y), trigrams // (y * y), y * y),
        ]
    counts, numbers, labels, first_keys, first_key = [], [], [], list[tuple[int, int]](), 0
    for kind, (codes, first, fixed, label, n_keys) in enumerate(kinds):
        if not len(codes):
            continue
        order = np.argsort(fixed, kind="stable")
        counts.append(np.bincount(fixed, minlength=n_keys))
        numbers.append(first + order)
        labels.append(label[order])
        first_keys.append((kind, first_key))
        first_key += n_keys
    pointer = np.concatenate([[0], np.cumsum(np.concatenate([np.zeros(0, dtype=np.int64), *counts]))]).astype(np.int64)
    join = [np.concatenate([NO_CODES, *parts]).astype(np.int32) for parts in (numbers, labels)]
    table = mapped.empty((n, len(first_keys)), np.int64)
    for first_sequence, end in runs(offsets, 0, len(offsets) - 1, BLOCK):
        positions = slice(int(offsets[first_sequence]), int(offsets[end]))
        keys = _keys(gold[positions].astype(np.int64), offsets[first_sequence : end + 1], y)
        for column, (kind, first_key) in enumerate(first_keys):
            table[positions, column] = np.where(keys[kind] >= 0, keys[kind] + first_key, -1)
    return Groups(pointer, *join), table


def _keys(gold: Int64, offsets: Int64, y: int) -> list[Int64]:
    """The given labels around each position [N] of some sequences for each kind of n-gram, -1 where there are none."""
    lengths = np.diff(offsets)
    before = np.arange(len(gold)) - np.repeat(offsets[:-1] - offsets[0], lengths)
    behind = np.repeat(lengths, lengths) - 1 - before
    one_back, two_back, next_one, next_two = (np.roll(gold, shift) for shift in (1, 2, -1, -2))
    return [
        np.where(before > 0, one_back, -1),
        np.where(before > 1, two_back * y + one_back, -1),
        np.where(behind > 0, next_one, -1),
        np.where((before > 0) & (behind > 0), one_back * y + next_one, -1),
        np.where(behind > 1, next_one * y + next_two, -1),
    ]


@kernel
def _list_contexts(
    offsets: Int64, gold: Int32, n_labels: int, after: bool, keys: Int64, groups: Groups, edges: Lists,
    edge_features: EdgeFeatures, first_id: int, state: Singles, out: Singles,
) -> int:  # fmt: skip
    """Append the features of each position's contexts to its single ``state`` features; empty ids only count them."""
    filled, counting, has_values = 0, out.ids.shape[0] == 0, out.values.shape[0] > 0
    has_edges, edge_values = edges.pointer.shape[0] > 1, edges.values.shape[0] > 0
    for i in range(offsets.shape[0] - 1):
        for t in range(offsets[i], offsets[i + 1]):
            out.pointer[t] = filled
            for j in range(state.pointer[t], state.pointer[t + 1]):
                if not counting:
                    out.ids[filled], out.labels[filled] = state.ids[j], state.labels[j]
                    if has_values:
                        out.values[filled] = state.values[j] if state.values.shape[0] else ONE
                filled += 1
            for k in range(keys.shape[1]):
                if keys[t, k] < 0:
                    continue
                for j in range(groups.pointer[keys[t, k]], groups.pointer[keys[t, k] + 1]):
                    if not counting:
                        out.ids[filled], out.labels[filled] = first_id + groups.numbers[j], groups.labels[j]
                        if has_values:
                            out.values[filled] = ONE
                    filled += 1
            for side in range(2 if has_edges and after else 1 if has_edges else 0):
                at = t + side
                if at == offsets[i] or at == offsets[i + 1]:
                    continue
                known = gold[t - 1] if side == 0 else gold[t + 1]
                for j in range(edges.pointer[at], edges.pointer[at + 1]):
                    a = edges.ids[j]
                    for f in range(edge_features.pointer[a], edge_features.pointer[a + 1]):
                        one, other = edge_features.codes[f] // n_labels, edge_features.codes[f] % n_labels
                        if known != (one if side == 0 else other):
                            continue
                        if not counting:
                            out.ids[filled], out.labels[filled] = first_id + f, other if side == 0 else one
                            if has_values:
                                out.values[filled] = edges.values[j] if edge_values else 1.0
                        filled += 1
    out.pointer[offsets[-1]] = filled
    return filled


class LocalLayout:
    """Where the weights of a chain's pieces are stored: those of labels as in a padded layout, all others as lists.

    Parameters
    ----------
    features : ChainFeatures
        Of any order, with or without edge features.
    encoded : EncodedCorpus
    penalties : Penalties
    gold : int32 [N]
    sequence_weights : float64 [S]
    """

    sequences_a_part = PaddedLayout.sequences_a_part
    measure_every: int = PaddedLayout.measure_every
    steady_from: int = PaddedLayout.steady_from
    revisits: ClassVar[bool] = True
    note: str = ""

    def __init__(
        self,
        features: ChainFeatures,
        encoded: EncodedCorpus,
        penalties: Penalties,
        gold: Int32,
        sequence_weights: Float,
    ) -> None:
        alone = replace(features, order=1, edge=None, transitions=NO_CODES, trigrams=NO_CODES)
        self._states = PaddedLayout(alone, encoded, penalties, gold, sequence_weights)
        self.corpus, self.n_labels = self._states.corpus, features.n_labels
        self.lanes, self.width = self._states.lanes, self._states.width
        self._n_states, self._n_contexts = alone.n_features, features.n_features - alone.n_features
        self._n_singles = len(self._states.zeros().lists)

    def zeros(self) -> PaddedWeights:
        """Weights of zero."""
        states = self._states.zeros()
        return states._replace(lists=np.zeros(self._n_singles + self._n_contexts, dtype=np.float32))

    def copy(self, weights: PaddedWeights) -> PaddedWeights:
        """The same weights in arrays of their own."""
        states = self._states.copy(weights._replace(lists=weights.lists[: self._n_singles]))
        return states._replace(lists=weights.lists.copy())

    def lay_out(self, weights: Float) -> PaddedWeights:
        """A weight vector [D] in this layout."""
        states = self._states.lay_out(weights[: self._n_states])
        contexts = weights[self._n_states :].astype(np.float32)
        return states._replace(lists=np.concatenate([states.lists, contexts]))

    def vector(
        self, rows: npt.NDArray[np.floating], lists: npt.NDArray[np.floating], transition: npt.NDArray[np.floating]
    ) -> Float:
        """The weight vector [D] of a layout."""
        states = self._states.vector(rows, lists[: self._n_singles], transition)
        return np.concatenate([states, lists[self._n_singles :]])

    def at_gold(self) -> tuple[Float32, Float32]:
        """Marginals [N, W] of the gold labellings, and what is kept of each sequence [S, F], here nothing."""
        return self._states.at_gold()


class ConditionalLayout(LocalLayout):
    """The features of each position given its neighbours' gold labels.

    Parameters
    ----------
    features, encoded, penalties, gold, sequence_weights
        As for a :class:`LocalLayout`.
    after : bool
        Whether the labels after a position are given, too.
    """

    def __init__(
        self,
        features: ChainFeatures,
        encoded: EncodedCorpus,
        penalties: Penalties,
        gold: Int32,
        sequence_weights: Float,
        after: bool,
    ) -> None:
        super().__init__(features, encoded, penalties, gold, sequence_weights)
        self.after = after
        groups, keys = context_groups(features, gold, encoded.offsets, after)
        edges, codes = NO_LISTS, EdgeFeatures(np.zeros(1, dtype=np.int64), NO_CODES)
        if features.edge is not None and encoded.edge is not None:
            edges, codes = encoded.edge.lists(), EdgeFeatures(features.edge.pointer, features.edge.codes)
        self.corpus = self._with_contexts(keys, groups, edges, codes)

    def _with_contexts(self, keys: Int64, groups: Groups, edges: Lists, edge_features: EdgeFeatures) -> PaddedCorpus:
        """The corpus with the features of contexts among the single features of each position."""
        corpus = self._states.corpus
        state = Singles(corpus.list_pointer, corpus.list_ids, corpus.list_labels, corpus.list_values)
        has_values = len(corpus.row_values) + len(state.values) + len(edges.values) > 0

        def filled(n: int) -> tuple[int, Singles]:
            values = mapped.empty(n if has_values else 0, np.float32)
            pointer = mapped.zeros(len(state.pointer), np.int64)
            out = Singles(pointer, mapped.empty(n, np.int32), mapped.empty(n, np.int16), values)
            more = (self.n_labels, self.after, keys, groups, edges, edge_features, self._n_singles)
            return _list_contexts(corpus.offsets, corpus.gold, *more, state, out), out

        n, out = filled(0)
        if n:
            n, out = filled(n)
        row_values = corpus.row_values
        if has_values and not len(row_values):  # they must all have values then
            row_values = np.ones(len(corpus.row_ids), dtype=np.float32)
        return corpus._replace(
            row_values=row_values, list_pointer=out.pointer, list_ids=out.ids, list_labels=out.labels,
            list_values=out.values,
        )  # fmt: skip

    def dual_pass(
        self, sequences: Int64, weights: PaddedWeights, step: Step, kept: Kept, losses: Float, gaps: Float
    ) -> None:
        """A step for each position of the ``sequences``; ``losses`` and ``gaps`` [S] before the steps."""
        given = (self.corpus, weights, self.n_labels, self.lanes, self.after)
        conditional_pass(sequences, *given, step.shrink, step.l2, step.caution, kept.alpha, losses, gaps)

    def losses(self, sequences: Int64, weights: PaddedWeights) -> float:
        """Losses of the ``sequences``, each times its weight; nan if scores leave single precision."""
        return conditional_losses(sequences, self.corpus, weights, self.n_labels, self.lanes, self.after)


# ----------------------------------------------------------------------------------------------------------------------
# Passes: for each position its scores, the softmax of what constraints leave, and in dual ascent a step.
#
# The steps of a position are inlined, because a call with many arrays costs more than the work on one position.


class Room(NamedTuple):
    """Scratch for one position."""

    scores: Float32  # [W]
    marginals: Float32  # [W]
    features: Float32  # [W] sum of the squared values of each label's features in rows
    turned: Float32  # [W W] the transitions that constraints allow, transposed; empty if they allow everything


@loose_kernel
def _room(corpus: PaddedCorpus, n_labels: int, width: Width) -> Room:
    w, free = row_length(width), True
    turned = np.zeros(w * w, np.float32)
    for p in range(n_labels):
        free = free and corpus.start[p] == ONE and corpus.stop[p] == ONE
        for c in range(n_labels):
            turned[c * w + p] = corpus.allowed[p, c]
            free = free and corpus.allowed[p, c] == ONE
    room = np.zeros(w, np.float32), np.zeros(w, np.float32), np.zeros(w, np.float32)
    return Room(room[0], room[1], room[2], np.zeros(0, np.float32) if free else turned)


@inlined_kernel
def set_label_scores(
    t: int, corpus: PaddedCorpus, rows: Float32, lists: Float32, less: np.float32, width: Width, scores: Float32,
    features: Float32,
) -> None:  # fmt: skip
    """``scores`` [W] of position ``t``, with weights moved towards zero by ``less``.

    ``features`` [W] is the sum of the squared values of each label's features in rows.
    """
    ids, values, single = corpus.row_ids, corpus.row_values, corpus.list_ids
    w, block, has_values = row_length(width), block_length(width), values.shape[0] + corpus.list_values.shape[0] > 0
    begin, end = corpus.row_pointer[t], corpus.row_pointer[t + 1]
    for c in range(0, w, block):
        store(scores, c, load(corpus.blank, c, width))
    if has_values or less > ZERO:
        for j in range(corpus.list_pointer[t], corpus.list_pointer[t + 1]):
            value, weight = corpus.list_values[j] if has_values else ONE, lists[single[j]]
            scores[corpus.list_labels[j]] += value * (max(weight - less, ZERO) + min(weight + less, ZERO))
    else:
        for j in range(corpus.list_pointer[t], corpus.list_pointer[t + 1]):
            scores[corpus.list_labels[j]] += lists[single[j]]
    for c in range(0, w, block):
        score, there = same(ZERO, width), same(ZERO, width)
        if has_values or less > ZERO:
            for j in range(begin, end):
                value, row = values[j] if has_values else ONE, load(rows, ids[j] * w + c, width)
                score = score + value * towards_zero(row, less)
                there = there + where_there(row, same(value * value, width))
        else:
            for j in range(begin, end):
                prefetch(rows, ids[j + AHEAD] * w + c, width)
                row = load(rows, ids[j] * w + c, width)
                score = score + row
                there = there + where_there(row, same(ONE, width))
        store(features, c, there)
        store(scores, c, load(scores, c, width) + score)


@inlined_kernel
def _normalise(t: int, first: int, last: int, corpus: PaddedCorpus, after: bool, width: Width, room: Room) -> float:
    """``room.marginals`` of the labels that constraints allow between the gold neighbours; returns log Z or nan."""
    w, block, mass, most = row_length(width), block_length(width), same(ZERO, width), same(LOWEST, width)
    for c in range(0, w, block):
        most = greater(most, load(room.scores, c, width))
    top, allowed = greatest(most), corpus.allowed.ravel()
    for c in range(0, w, block):
        now = exponential(load(room.scores, c, width) - top)
        if room.turned.shape[0]:
            if t > first:
                now = now * load(allowed, corpus.gold[t - 1] * w + c, width)
            else:
                now = now * load(corpus.start, c, width)
            if t == last:
                now = now * load(corpus.stop, c, width)
            elif after:
                now = now * load(room.turned, corpus.gold[t + 1] * w + c, width)
        mass = mass + now
        store(room.marginals, c, now)
    scale = total(mass)
    if not scale > LEAST:
        return np.nan
    inverse = ONE / scale
    for c in range(0, w, block):
        store(room.marginals, c, inverse * load(room.marginals, c, width))
    return float(top) + math.log(scale)


@inlined_kernel
def move_labels(
    t: int, corpus: PaddedCorpus, gamma: np.float32, factor: np.float32, width: Width, change: Float32, kept: Float32,
    rows: Float32, lists: Float32,
) -> None:  # fmt: skip
    """Add ``gamma`` times a ``change`` [W] to what is ``kept`` of position ``t``, ``factor`` times it to weights."""
    w, block, ids, values = row_length(width), block_length(width), corpus.row_ids, corpus.row_values
    has_values = values.shape[0] + corpus.list_values.shape[0] > 0
    for c in range(0, w, block):
        moved = load(change, c, width)
        store(kept, t * w + c, load(kept, t * w + c, width) + gamma * moved)
        part = factor * moved
        for j in range(corpus.row_pointer[t], corpus.row_pointer[t + 1]):
            place, value = ids[j] * w + c, values[j] if has_values else ONE
            store(rows, place, added(load(rows, place, width), value * part))
    for j in range(corpus.list_pointer[t], corpus.list_pointer[t + 1]):
        value = corpus.list_values[j] if has_values else ONE
        lists[corpus.list_ids[j]] += factor * value * change[corpus.list_labels[j]]


@loose_kernel
def conditional_losses(
    sequences: Int64, corpus: PaddedCorpus, weights: PaddedWeights, n_labels: int, width: Width, after: bool
) -> float:
    """Losses of the ``sequences``, each times its weight; nan after an underflow."""
    losses, room, rows, lists = 0.0, _room(corpus, n_labels, width), weights.rows.ravel(), weights.lists
    for k in range(sequences.shape[0]):
        i = sequences[k]
        first, last = corpus.offsets[i], corpus.offsets[i + 1] - 1
        for t in range(first, last + 1):
            set_label_scores(t, corpus, rows, lists, ZERO, width, room.scores, room.features)
            log_z = _normalise(t, first, last, corpus, after, width, room)
            losses += corpus.sequence_weights[i] * (log_z - room.scores[corpus.gold[t]])
    return losses


@loose_kernel
def conditional_pass(
    sequences: Int64, corpus: PaddedCorpus, weights: PaddedWeights, n_labels: int, width: Width, after: bool,
    shrink: float, l2: float, caution: float, alpha: Float32, losses: Float, gaps: Float,
) -> None:  # fmt: skip
    """A step for each position of the ``sequences`` in turn; losses and gaps [S] before the steps, or nan.

    The weights are a function of ``alpha`` [N, W], the positions' kept marginals; scores use the weights moved towards
    zero by ``shrink``. With J the distance of alpha_t and the marginals mu_t, and Q the squared norm of the effect of
    Delta = mu_t - alpha_t on the position's features (a weight in the lists of two labels counts as two), the step is
    gamma Delta with  gamma = J / (J + caution c Q / 2 l2).
    """
    w, block, less, room = row_length(width), block_length(width), np.float32(shrink), _room(corpus, n_labels, width)
    rows, lists, kept, change = weights.rows.ravel(), weights.lists, alpha.ravel(), room.marginals
    labels, most_entropy = corpus.list_labels, math.log(n_labels)
    has_values = corpus.row_values.shape[0] + corpus.list_values.shape[0] > 0
    for k in range(sequences.shape[0]):
        i = sequences[k]
        first, last, weight = corpus.offsets[i], corpus.offsets[i + 1] - 1, corpus.sequence_weights[i]
        rate, loss, gap = weight / (2.0 * l2), 0.0, 0.0
        for t in range(first, last + 1):
            set_label_scores(t, corpus, rows, lists, less, width, room.scores, room.features)
            log_z = _normalise(t, first, last, corpus, after, width, room)
            own = log_z - float(room.scores[corpus.gold[t]])
            loss += own
            if not own < np.inf:  # alpha_t stays as it is
                continue
            expected, size, squares = same(ZERO, width), same(ZERO, width), same(ZERO, width)
            for c in range(0, w, block):
                now, before = load(room.marginals, c, width), load(kept, t * w + c, width)
                moved = now - before
                expected = expected + before * load(room.scores, c, width)
                size = size + moved * moved / (now + before + TINY)  # type: ignore[assignment]  # NumPy types a quotient of float32 as float64
                squares = squares + load(room.features, c, width) * (moved * moved)
                store(change, c, moved)
            square, distance = total(squares), TWO * total(size)
            for j in range(corpus.list_pointer[t], corpus.list_pointer[t + 1]):
                alone = change[labels[j]] * (corpus.list_values[j] if has_values else ONE)
                square += alone * alone
            # the divergence of the two is at least the second term, and about the first where they are close
            gap += max(0.5 * float(distance), log_z - float(total(expected)) - most_entropy)
            gamma = np.float32(distance / (distance + caution * rate * square + LEAST))
            factor = np.float32(-rate) * gamma
            move_labels(t, corpus, gamma, factor, width, change, kept, rows, lists)
        losses[i], gaps[i] = weight * loss, weight * gap
