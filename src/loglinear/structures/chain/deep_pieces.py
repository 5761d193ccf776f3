"""Pieces with free contexts of two labels or with edge features, in single precision: piecewise training and NOTA.

The piece of position t scores its label y after a context k, the label y' or at order 2 the labels (y'', y') before it
(:mod:`~loglinear.structures.chain.pieces`). With  g_t(y', y) = exp(s_t(y) + edge_t(y', y))  and
A(k, y) = exp(transition(y', y) + trigram(y'', y', y)),  both scaled by their maxima, and 0 for what is ruled out:

    piecewise     z_t = sum_k,y A(k, y) g_t(y', y)          mu_t(k, y) = A(k, y) g_t(y', y) / z_t
    nota          z_t(k) = 1 + sum_y A(k, y) g_t(y', y)     mu_t(k, y) = A(k, y) g_t(y', y) / z_t(k)

where nota has those contexts k that count. The first piece of a sequence has no context, the second one label at any
order. Without edge features g_t is one row, and piecewise training sums A over contexts once for a sequence.
First-order chains without edge features are in :mod:`~loglinear.structures.chain.padded_pieces`, which makes one step
for a sequence: that is quicker where no more than labels and transitions must be kept until the end of it.

**What is kept** are sums of alpha_t(k, y), because the weights depend on no more: the expected labels of each position
[N, W], its expected pairs of labels for those pairs that its edge features have, and the expected label n-grams of each
sequence [S, F]. Memory is that of a chain, but for edge features.

**The steps.** As in :mod:`~loglinear.structures.chain.conditionals` each position makes a step of its own, of labels
and pairs. J is the distance of what is kept: pairs, what is left of each label beside these, and with none of the above
its share. Label n-grams follow with one step at the end of the sequence. As these steps differ in length, what is kept
need not be the sums of one alpha on the way; at the minimum all of it agrees with mu. With none of the above in all
pairs of contexts and edge features for each of them, the first passes may go so far that scores leave single precision;
L-BFGS then takes over.

**The gap** is estimated by J of labels and n-grams, twice what it is in a chain, since sums over contexts tell less
than the contexts do.

A position takes O(Y) by piecewise training without edge features, else O(Y^2); with none of the above O(Y) for each
context.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from loglinear import mapped
from loglinear.arrays import Float, Float32, Int32, Int64, UInt8
from loglinear.features.encoding import EncodedCorpus, runs
from loglinear.kernels import inlined_kernel, kernel, loose_kernel
from loglinear.kernels.lanes import (
    Width,
    above,
    block_length,
    exponential,
    greater,
    greatest,
    load,
    row_length,
    same,
    store,
    total,
)
from loglinear.kernels.tables import Lists
from loglinear.structures.chain.conditionals import (
    BLOCK,
    NO_LISTS,
    EdgeFeatures,
    LocalLayout,
    move_labels,
    set_label_scores,
)
from loglinear.structures.chain.features import ChainFeatures, Penalties
from loglinear.structures.chain.padded import LARGE_PRODUCT, SMALL_PRODUCT, PaddedCorpus
from loglinear.structures.rows import LEAST, LOWEST, NOTHING, ONE, TINY, TWO, ZERO, Kept, PaddedWeights, Step

ALL_CONTEXTS = np.zeros((0, 0), dtype=np.uint8)


class Parts(NamedTuple):
    """What pieces have beside the scores of labels.

    Parameters
    ----------
    nothing : bool
        Whether "none of the above", of score 0, is one more outcome.
    second_order : bool
        Whether contexts are two labels, from the third position on.
    contexts : uint8 [N, K]
        With none of the above: the contexts that count beside the right ones, at their last positions; empty for all.
    first_edge, first_ngram : int
        Where their weights begin in the lists.
    n_transitions : int
        How many of the F n-grams have two labels; those of three follow.
    places : int64 [F]
        Where the n-grams lie in the tables: contexts of one label, then those of two.
    edges : Lists
        The attributes of positions that have edge features; no positions if there are none.
    features : EdgeFeatures
        The attributes' features, with places in [Y, W] as codes.
    pairs : int64 [N + 1]
        Where the pairs that are kept of each position begin.
    """

    nothing: bool
    second_order: bool
    contexts: UInt8
    first_edge: int
    first_ngram: int
    n_transitions: int
    places: Int64
    edges: Lists
    features: EdgeFeatures
    pairs: Int64


class DeepPieceLayout(LocalLayout):
    """Weights and corpus for passes over pieces.

    Parameters
    ----------
    features, encoded, penalties, gold, sequence_weights
        As for a :class:`~loglinear.structures.chain.conditionals.LocalLayout`.
    nothing : bool
        Whether "none of the above", of score 0, is one more outcome.
    contexts : uint8 [N, Y] or [N, Y, Y], or None
        With none of the above: the contexts that count beside the right ones, at their positions; None for all.
    """

    steady_from: int = 2  # the first pass goes too far, and the second back

    def __init__(
        self,
        features: ChainFeatures,
        encoded: EncodedCorpus,
        penalties: Penalties,
        gold: Int32,
        sequence_weights: Float,
        nothing: bool,
        contexts: UInt8 | None = None,
    ) -> None:
        super().__init__(features, encoded, penalties, gold, sequence_weights)
        self._features, n, y, w = features, int(encoded.offsets[-1]), features.n_labels, self.width
        codes = [features.transitions.astype(np.int64), y * y + features.trigrams.astype(np.int64)]
        places = np.concatenate([code // y * w + code % y for code in codes])
        edges, blocks = NO_LISTS, EdgeFeatures(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32))
        if features.edge is not None and encoded.edge is not None:
            edges = encoded.edge.lists()
            blocks = EdgeFeatures(features.edge.pointer, features.edge.codes // y * w + features.edge.codes % y)
        pairs = np.zeros(len(edges.pointer), dtype=np.int64)
        _count_pairs(encoded.offsets, edges, blocks, y * w, pairs)
        self._parts = Parts(
            nothing,
            features.order == 2,
            ALL_CONTEXTS if contexts is None else np.array(contexts).reshape(n, -1),
            self._n_singles,
            self._n_singles + features.slices[2].start - features.slices[1].start,
            len(codes[0]),
            places,
            edges,
            blocks,
            pairs,
        )

    def at_gold(self) -> tuple[Float32, Float32]:
        """Marginals [N, W] and label n-grams [S, F] of the gold labellings."""
        offsets = self.corpus.offsets
        counts = mapped.zeros((len(offsets) - 1, len(self._parts.places)), np.float32)
        for first, end in runs(offsets, 0, len(offsets) - 1, BLOCK):
            gold = self.corpus.gold[offsets[first] : offsets[end]].astype(np.int64)
            self._count(gold, offsets[first : end + 1] - offsets[first], counts[first:end])
        return super().at_gold()[0], counts

    def _count(self, gold: Int64, offsets: Int64, counts: Float32) -> None:
        """Count the label n-grams that have a feature in each of some sequences."""
        lengths = np.diff(offsets)
        sequence = np.repeat(np.arange(len(lengths)), lengths)
        before = np.arange(len(gold)) - np.repeat(offsets[:-1], lengths)
        codes, first = gold, 0
        for n, ngrams in enumerate((self._features.transitions, self._features.trigrams), start=1):
            codes = np.roll(codes, 1) * self.n_labels + gold
            at = np.searchsorted(ngrams, codes)
            found = (before >= n) & (at < len(ngrams))
            found[found] = ngrams[at[found]] == codes[found]
            np.add.at(counts, (sequence[found], first + at[found]), np.float32(1.0))
            first += len(ngrams)

    def pairs_at_gold(self) -> Float32:
        """The pairs that are kept of all positions, of the gold labellings."""
        kept = mapped.zeros(int(self._parts.pairs[-1]), np.float32)
        _set_gold_pairs(self.corpus.offsets, self.corpus.gold, self._parts, self.n_labels, self.width, kept)
        return kept

    def dual_pass(
        self, sequences: Int64, weights: PaddedWeights, step: Step, kept: Kept, losses: Float, gaps: Float
    ) -> None:
        """Steps for each of the ``sequences``; ``losses`` and ``gaps`` [S] before them."""
        given = (self.corpus, self._parts, weights, self.n_labels, self.lanes, step.shrink, step.l2, step.caution)
        deep_piece_pass(sequences, *given, kept.alpha, kept.transitions, kept.pairs, losses, gaps)

    def losses(self, sequences: Int64, weights: PaddedWeights) -> float:
        """Losses of the ``sequences``, each times its weight; nan if scores leave single precision."""
        return deep_piece_losses(sequences, self.corpus, self._parts, weights, self.n_labels, self.lanes)


@kernel
def _count_pairs(offsets: Int64, edges: Lists, features: EdgeFeatures, n_places: int, pairs: Int64) -> None:
    """Where the pairs of each position begin [N + 1]: one for each place that its edge features have."""
    seen = np.full(n_places, -1, np.int64)
    for i in range(offsets.shape[0] - 1 if pairs.shape[0] > 1 else 0):
        for t in range(offsets[i], offsets[i + 1]):
            n = pairs[t]
            for j in range(edges.pointer[t], edges.pointer[t + 1] if t > offsets[i] else edges.pointer[t]):
                for f in range(features.pointer[edges.ids[j]], features.pointer[edges.ids[j] + 1]):
                    n += seen[features.codes[f]] != t
                    seen[features.codes[f]] = t
            pairs[t + 1] = n


@kernel
def _set_gold_pairs(offsets: Int64, gold: Int32, parts: Parts, n_labels: int, w: int, kept: Float32) -> None:
    """Set the pairs, which come in as zeros, to those of the gold labelling; in the order of :func:`_set_edges`."""
    slots, found = np.full(n_labels * w, -1, np.int32), np.empty(n_labels * w, np.int32)
    scores, squares, none = np.zeros(n_labels * w, np.float32), np.zeros(n_labels * w, np.float32), ZERO
    lists = np.zeros(parts.first_edge + parts.features.codes.shape[0], np.float32)
    for i in range(offsets.shape[0] - 1 if parts.pairs.shape[0] > 1 else 0):
        for t in range(offsets[i] + 1, offsets[i + 1]):
            n = _set_edges(t, parts, lists, none, scores, slots, found, squares)
            right = slots[gold[t - 1] * w + gold[t]]
            if right >= 0:
                kept[parts.pairs[t] + right] = ONE
            for m in range(n):
                slots[found[m]] = -1


# ----------------------------------------------------------------------------------------------------------------------
# Passes: for each sequence the tables of its contexts; for each position the scores, the sums over contexts, a step.
#
# The steps of a position are inlined, as in :mod:`~loglinear.structures.chain.conditionals`.


class Room(NamedTuple):
    """Scratch for one sequence, with C contexts of one and two labels, and R = Y rows with edge features, else 1."""

    scores: Float32  # [W] of labels
    features: Float32  # [W] sum of the squared values of each label's features in rows
    marginals: Float32  # [W] of labels, then their change
    rest: Float32  # [2, W] what labels have beside the pairs that are kept, now and before
    factors: Float32  # [R W] g_t
    answers: Float32  # [K] 1 / z_t of each context, 0 if it does not count
    edges: Float32  # [Y W] the scores of edges, then the marginals of pairs, then their change; empty without edges
    slots: Int32  # [Y W] the number of each pair among those of the position, or -1
    found: Int32  # [Y W] these pairs' places
    squares: Float32  # [Y W] and the sums of the squared values of their features
    ngrams: Float32  # [C W] the scores of contexts and labels
    table: Float32  # [C W] A
    sums: Float32  # [C W] sum over positions of mu_t / A, then the expected n-grams
    pools: Float32  # [2 R W] A summed over contexts, for one label and for two
    shares: Float32  # [2 R W] sum over positions of g_t / z_t


@loose_kernel
def _room(parts: Parts, n_labels: int, width: Width) -> Room:
    w, edges = row_length(width), parts.pairs.shape[0] > 1
    n_contexts = n_labels + (n_labels * n_labels if parts.second_order else 0)
    n_rows, n_pairs = n_labels if edges else 1, n_labels * w if edges else 0
    row, table, pools = (
        np.zeros(w, np.float32),
        np.zeros(n_contexts * w, np.float32),
        np.zeros(2 * n_rows * w, np.float32),
    )
    return Room(
        row, row.copy(), row.copy(), np.zeros(2 * w, np.float32), np.zeros(n_rows * w, np.float32),
        np.zeros(n_contexts, np.float32), np.zeros(n_pairs, np.float32), np.full(n_pairs, -1, np.int32),
        np.empty(n_pairs, np.int32), np.zeros(n_pairs, np.float32), table, table.copy(), table.copy(),
        pools, pools.copy(),
    )  # fmt: skip


@loose_kernel
def _set_tables(
    corpus: PaddedCorpus, parts: Parts, lists: Float32, less: np.float32, n_labels: int, width: Width, room: Room
) -> tuple[np.float32, np.float32]:
    """Tables of all contexts, with weights moved towards zero by ``less``; returns the top scores of both orders.

    Sums and shares become zero.
    """
    w, block, ngrams, allowed = row_length(width), block_length(width), room.ngrams, corpus.allowed.ravel()
    n_pairs = n_labels * n_labels if parts.second_order else 0
    for c in range(0, n_labels * w, block):
        store(ngrams, c, same(ZERO, width))
    for f in range(parts.n_transitions):
        weight = lists[parts.first_ngram + f]
        ngrams[parts.places[f]] = max(weight - less, ZERO) + min(weight + less, ZERO)
    for k in range(n_pairs):
        for c in range(0, w, block):
            store(ngrams, (n_labels + k) * w + c, load(ngrams, k % n_labels * w + c, width))
    for f in range(parts.n_transitions, parts.places.shape[0]):
        weight = lists[parts.first_ngram + f]
        ngrams[parts.places[f]] += max(weight - less, ZERO) + min(weight + less, ZERO)
    tops = np.zeros(2, np.float32)
    n_rows = room.factors.shape[0] // w
    for c in range(0, 2 * n_rows * w, block):
        store(room.pools, c, same(ZERO, width))
        store(room.shares, c, same(ZERO, width))
    for deep in range(2 if n_pairs else 1):
        begin, n = (n_labels * w, n_pairs) if deep else (0, n_labels)
        most = same(LOWEST, width)
        for c in range(begin, begin + n * w, block):
            most = greater(most, load(ngrams, c, width))
        tops[deep] = greatest(most)
        for k in range(n):
            for c in range(0, w, block):
                place, pool = begin + k * w + c, (deep * n_rows + k % n_rows) * w + c
                factor = exponential(load(ngrams, place, width) - tops[deep]) * load(
                    allowed, k % n_labels * w + c, width
                )
                store(room.table, place, factor)
                store(room.sums, place, same(ZERO, width))
                store(room.pools, pool, load(room.pools, pool, width) + factor)
    return tops[0], tops[1]


@inlined_kernel
def _set_edges(
    t: int, parts: Parts, lists: Float32, less: np.float32, edges: Float32, slots: Int32, found: Int32, squares: Float32
) -> int:
    """Add the scores of edges to ``edges`` [Y W], and note which pairs have any; returns the number of these."""
    n, has_values = 0, parts.edges.values.shape[0] > 0
    for j in range(parts.edges.pointer[t], parts.edges.pointer[t + 1]):
        a, value = parts.edges.ids[j], np.float32(parts.edges.values[j]) if has_values else ONE
        for f in range(parts.features.pointer[a], parts.features.pointer[a + 1]):
            place, weight = parts.features.codes[f], lists[parts.first_edge + f]
            slot = slots[place]
            if slot < 0:
                slot = n
                slots[place], found[n], squares[n] = n, place, ZERO
                n += 1
            squares[slot] += value * value
            edges[place] += value * (max(weight - less, ZERO) + min(weight + less, ZERO))
    return n


@inlined_kernel
def _clear_edges(n: int, width: Width, room: Room) -> None:
    """Forget the ``n`` pairs of a position."""
    for m in range(n):
        room.slots[room.found[m]] = -1
    for c in range(0, room.edges.shape[0], block_length(width)):
        store(room.edges, c, same(ZERO, width))


@inlined_kernel
def _set_factors(
    t: int, first: int, last: int, corpus: PaddedCorpus, edges: bool, width: Width, room: Room
) -> np.float32:
    """``room.factors`` of a position, with or without ``edges``; returns the top score."""
    w, block, most = row_length(width), block_length(width), same(LOWEST, width)
    n_rows = room.factors.shape[0] // w if edges else 1
    for r in range(n_rows):
        for c in range(0, w, block):
            score = load(room.scores, c, width)
            if edges:
                score = score + load(room.edges, r * w + c, width)
            most = greater(most, score)
    top = greatest(most)
    for r in range(n_rows):
        for c in range(0, w, block):
            score = load(room.scores, c, width)
            if edges:
                score = score + load(room.edges, r * w + c, width)
            factor = exponential(score - top)
            if t == first:
                factor = factor * load(corpus.start, c, width)
            if t == last:
                factor = factor * load(corpus.stop, c, width)
            store(room.factors, r * w + c, factor)
    return top


@inlined_kernel
def _pool(deep: int, alone: bool, edges: bool, width: Width, room: Room) -> np.float32:
    """Marginals of a position by piecewise training; ``alone`` without contexts. Returns z_t, 0 after an underflow."""
    w, block, mass = row_length(width), block_length(width), same(ZERO, width)
    n_rows, begin = room.factors.shape[0] // w if edges else 1, deep * room.factors.shape[0]
    for r in range(n_rows):
        for c in range(0, w, block):
            factor = load(room.factors, r * w + c, width)
            if not alone:
                factor = factor * load(room.pools, begin + r * w + c, width)
            mass = mass + factor
    z = total(mass)
    if not z > LEAST:
        return ZERO
    inverse = ONE / z
    for c in range(0, w, block):
        labels = same(ZERO, width)
        for r in range(n_rows):
            place, factor = begin + r * w + c, inverse * load(room.factors, r * w + c, width)
            now = factor
            if not alone:
                store(room.shares, place, load(room.shares, place, width) + factor)
                now = factor * load(room.pools, place, width)
            if edges:
                store(room.edges, r * w + c, now)
            labels = labels + now
        store(room.marginals, c, above(labels, NOTHING))
    return z


@inlined_kernel
def _abstain(
    t: int, first: int, deep: int, peak: float, corpus: PaddedCorpus, parts: Parts, edges: bool, n_labels: int,
    width: Width, room: Room,
) -> tuple[float, int]:  # fmt: skip
    """The same with none of the above, of the contexts that count; returns the sum of log z_t(k) and their number.

    ``peak`` is the top score of the position's factors plus that of its table. The sum is nan after an underflow.
    """
    w, block, gold, alone = row_length(width), block_length(width), corpus.gold, t == first
    n_contexts = 1 if alone else n_labels * n_labels if deep else n_labels
    begin, contexts = n_labels * w if deep else 0, parts.contexts
    right = 0 if alone else gold[t - 2] * n_labels + gold[t - 1] if deep else gold[t - 1]
    shift = max(peak, 0.0)
    scale, more = np.float32(math.exp(peak - shift)), np.float32(math.exp(-shift))
    log_z, one, two, counted = 0.0, 1.0, 1.0, 0
    for k in range(n_contexts):
        room.answers[k] = ZERO
        if k != right and contexts.shape[0] > 0 and contexts[t - 1, k] == 0:
            continue
        row, arcs, mass = k % n_labels * w if edges else 0, begin + k * w, same(ZERO, width)
        for c in range(0, w, block):
            now = load(room.factors, row + c, width)
            if not alone:
                now = now * load(room.table, arcs + c, width)
            mass = mass + now
        z = total(mass)
        value = more + scale * z
        if not value > LEAST:
            if z > ZERO or _is_possible(k, alone, corpus, n_labels):
                log_z = np.nan
            continue  # a context without a possible label answers nothing
        counted += 1
        one, two = two, one * float(value)
        if two > LARGE_PRODUCT or two < SMALL_PRODUCT:
            log_z += math.log(two)
            two = 1.0
        room.answers[k] = scale / value
    for c in range(0, w, block):
        labels = same(ZERO, width)
        if edges:
            for r in range(n_labels):
                pair, factor = same(ZERO, width), load(room.factors, r * w + c, width)
                for k in range(r, n_contexts, n_labels):
                    share, arcs = room.answers[k] * factor, begin + k * w + c
                    store(room.sums, arcs, load(room.sums, arcs, width) + share)
                    pair = pair + share * load(room.table, arcs, width)
                store(room.edges, r * w + c, pair)
                labels = labels + pair
        elif alone:
            labels = room.answers[0] * load(room.factors, c, width)
        else:
            factor = load(room.factors, c, width)
            for k in range(n_contexts):
                share, arcs = room.answers[k] * factor, begin + k * w + c
                store(room.sums, arcs, load(room.sums, arcs, width) + share)
                labels = labels + share * load(room.table, arcs, width)
        store(room.marginals, c, above(labels, NOTHING))
    return log_z + counted * shift + math.log(one) + math.log(two), counted


@loose_kernel
def _is_possible(k: int, alone: bool, corpus: PaddedCorpus, n_labels: int) -> bool:
    """Whether constraints leave a label after the context ``k``."""
    possible = alone
    for y in range(n_labels):
        possible = possible or corpus.allowed[k % n_labels, y] > ZERO
    return possible


@inlined_kernel
def _normalise(
    t: int, first: int, last: int, tops: tuple[np.float32, np.float32], corpus: PaddedCorpus, parts: Parts,
    n_labels: int, width: Width, room: Room,
) -> tuple[float, int]:  # fmt: skip
    """Marginals of a position's labels and pairs; returns the log of its normalisers, or nan, and of how many.

    By piecewise training the number is that of the labels of a piece. Times log(Y + 1) it is at least the entropy.
    """
    alone, deep = t == first, 1 if parts.second_order and t > first + 1 else 0
    edges = parts.pairs.shape[0] > 1 and not alone
    top = float(_set_factors(t, first, last, corpus, edges, width, room))
    if not alone:
        top += float(tops[deep])
    if parts.nothing:
        log_z, counted = _abstain(t, first, deep, top, corpus, parts, edges, n_labels, width, room)
    else:
        z = _pool(deep, alone, edges, width, room)
        log_z, counted = top + math.log(z) if z > ZERO else np.nan, 1 if alone else 2 + deep
    return log_z, counted


@inlined_kernel
def _gold_score(
    t: int, first: int, corpus: PaddedCorpus, parts: Parts, n_labels: int, width: Width, room: Room
) -> float:
    """The score of the right piece, while the edges have their scores."""
    w, gold = row_length(width), corpus.gold
    score = float(room.scores[gold[t]])
    if t > first:
        row = gold[t - 1] * w
        if parts.second_order and t > first + 1:
            row = (n_labels + gold[t - 2] * n_labels + gold[t - 1]) * w
        score += float(room.ngrams[row + gold[t]])
        if room.edges.shape[0] > 0:
            score += float(room.edges[gold[t - 1] * w + gold[t]])
    return score


@loose_kernel
def deep_piece_losses(
    sequences: Int64, corpus: PaddedCorpus, parts: Parts, weights: PaddedWeights, n_labels: int, width: Width
) -> float:
    """Losses of the ``sequences``, each times its weight; nan after an underflow."""
    losses, room, rows, lists = 0.0, _room(parts, n_labels, width), weights.rows.ravel(), weights.lists
    edges = parts.pairs.shape[0] > 1
    tops = _set_tables(corpus, parts, lists, ZERO, n_labels, width, room)
    for k in range(sequences.shape[0]):
        i = sequences[k]
        first, last = corpus.offsets[i], corpus.offsets[i + 1] - 1
        for t in range(first, last + 1):
            n_pairs = 0
            set_label_scores(t, corpus, rows, lists, ZERO, width, room.scores, room.features)
            if edges and t > first:
                n_pairs = _set_edges(t, parts, lists, ZERO, room.edges, room.slots, room.found, room.squares)
            gold_score = _gold_score(t, first, corpus, parts, n_labels, width, room)
            log_z, _ = _normalise(t, first, last, tops, corpus, parts, n_labels, width, room)
            losses += corpus.sequence_weights[i] * (log_z - gold_score)
            if edges:
                _clear_edges(n_pairs, width, room)
    return losses


@inlined_kernel
def _set_label_change(
    t: int, counted: int, corpus: PaddedCorpus, parts: Parts, n_pairs: int, width: Width, kept: Float32, pairs: Float32,
    room: Room,
) -> tuple[float, float]:  # fmt: skip
    """Replace the marginals mu_t of labels and pairs by their changes; returns J and Q."""
    w, block, nothing = row_length(width), block_length(width), parts.nothing
    size, squares, mass, mass_before = same(ZERO, width), same(ZERO, width), same(ZERO, width), same(ZERO, width)
    distance, square = ZERO, ZERO
    if n_pairs:
        for c in range(0, w, block):
            store(room.rest, c, load(room.marginals, c, width))
            store(room.rest, w + c, load(kept, t * w + c, width))
        for m in range(n_pairs):
            place, old = room.found[m], pairs[parts.pairs[t] + m]
            now = room.edges[place]
            change = now - old
            room.edges[place] = change
            room.rest[place % w] -= now
            room.rest[w + place % w] -= old
            distance += change * change / (now + old + TINY)
            square += room.squares[m] * change * change
    for c in range(0, w, block):
        now, old = load(room.marginals, c, width), load(kept, t * w + c, width)
        change = now - old
        mass, mass_before = mass + now, mass_before + old
        squares = squares + load(room.features, c, width) * (change * change)
        store(room.marginals, c, change)
        if n_pairs:
            now, old = above(load(room.rest, c, width), ZERO), above(load(room.rest, w + c, width), ZERO)
            change = now - old
        size = size + change * change / (now + old + TINY)  # type: ignore[assignment]  # NumPy types a quotient of float32 as float64
    distance += total(size)
    if nothing:
        contexts, one, other = np.float32(counted), total(mass), total(mass_before)
        distance += (one - other) * (one - other) / (abs(contexts - one) + abs(contexts - other) + TINY)
    square += total(squares)
    has_values = corpus.row_values.shape[0] + corpus.list_values.shape[0] > 0
    for j in range(corpus.list_pointer[t], corpus.list_pointer[t + 1]):
        single = room.marginals[corpus.list_labels[j]] * (corpus.list_values[j] if has_values else ONE)
        square += single * single
    return float(TWO * distance), float(square)


@inlined_kernel
def _move_pairs(
    t: int,
    n_pairs: int,
    parts: Parts,
    gamma: np.float32,
    factor: np.float32,
    pairs: Float32,
    lists: Float32,
    room: Room,
) -> None:
    """Add ``gamma`` times the pairs' change to those that are kept, ``factor`` times it to the weights of edges."""
    has_values = parts.edges.values.shape[0] > 0
    for m in range(n_pairs):
        pairs[parts.pairs[t] + m] += gamma * room.edges[room.found[m]]
    for j in range(parts.edges.pointer[t], parts.edges.pointer[t + 1]):
        a, value = parts.edges.ids[j], np.float32(parts.edges.values[j]) if has_values else ONE
        for f in range(parts.features.pointer[a], parts.features.pointer[a + 1]):
            lists[parts.first_edge + f] += factor * value * room.edges[parts.features.codes[f]]


@loose_kernel
def _set_expected_ngrams(parts: Parts, n_labels: int, width: Width, room: Room) -> None:
    """``room.sums`` become the expected n-grams of a sequence; those of two labels include those of three."""
    w, block = row_length(width), block_length(width)
    n_contexts, n_rows = room.table.shape[0] // w, room.factors.shape[0] // w
    for k in range(n_contexts):
        deep, before = (1, k - n_labels) if k >= n_labels else (0, k)
        for c in range(0, w, block):
            share = load(room.sums, k * w + c, width)
            if not parts.nothing:
                share = load(room.shares, (deep * n_rows + before % n_rows) * w + c, width)
            expected = load(room.table, k * w + c, width) * share
            store(room.sums, k * w + c, expected)
            if deep:
                place = before % n_labels * w + c
                store(room.sums, place, load(room.sums, place, width) + expected)


@loose_kernel
def deep_piece_pass(
    sequences: Int64, corpus: PaddedCorpus, parts: Parts, weights: PaddedWeights, n_labels: int, width: Width,
    shrink: float, l2: float, caution: float, alpha: Float32, alpha_ngrams: Float32, pairs: Float32, losses: Float,
    gaps: Float,
) -> None:  # fmt: skip
    """Steps for each of the ``sequences`` in turn; losses and gaps [S] before them, nan after an underflow.

    The weights are a function of what is kept: ``alpha`` [N, W], ``alpha_ngrams`` [S, F] and ``pairs``. Scores use the
    weights moved towards zero by ``shrink``. The steps are those of
    :func:`~loglinear.structures.chain.conditionals.conditional_pass`.
    """
    less, room, edges = np.float32(shrink), _room(parts, n_labels, width), parts.pairs.shape[0] > 1
    rows, lists, kept, places = weights.rows.ravel(), weights.lists, alpha.ravel(), parts.places
    for k in range(sequences.shape[0]):
        i = sequences[k]
        first, last, weight = corpus.offsets[i], corpus.offsets[i + 1] - 1, corpus.sequence_weights[i]
        rate, loss, above_gold, distance, most_entropy, old = weight / (2.0 * l2), 0.0, 0.0, 0.0, 0.0, alpha_ngrams[i]
        tops = _set_tables(corpus, parts, lists, less, n_labels, width, room)
        for t in range(first, last + 1):
            n_pairs = 0
            set_label_scores(t, corpus, rows, lists, less, width, room.scores, room.features)
            if edges and t > first:
                n_pairs = _set_edges(t, parts, lists, less, room.edges, room.slots, room.found, room.squares)
            gold_score = _gold_score(t, first, corpus, parts, n_labels, width, room)
            expected = 0.0
            for c in range(0, row_length(width), block_length(width)):
                expected += float(total(load(kept, t * row_length(width) + c, width) * load(room.scores, c, width)))
            for m in range(n_pairs):
                expected += float(pairs[parts.pairs[t] + m] * room.edges[room.found[m]])
            log_z, counted = _normalise(t, first, last, tops, corpus, parts, n_labels, width, room)
            loss += log_z - gold_score
            if log_z - gold_score < np.inf:  # otherwise alpha_t stays as it is
                size, square = _set_label_change(t, counted, corpus, parts, n_pairs, width, kept, pairs, room)
                above_gold += expected - gold_score
                distance += size
                most_entropy += counted * math.log(n_labels + 1.0)
                gamma = np.float32(size / (size + caution * rate * square + LEAST))
                factor = np.float32(-rate) * gamma
                move_labels(t, corpus, gamma, factor, width, room.marginals, kept, rows, lists)
                if n_pairs:
                    _move_pairs(t, n_pairs, parts, gamma, factor, pairs, lists, room)
            if edges:
                _clear_edges(n_pairs, width, room)
        losses[i] = weight * loss
        if not loss < np.inf:
            gaps[i] = np.nan
            continue
        _set_expected_ngrams(parts, n_labels, width, room)
        size, square = 0.0, 0.0
        for f in range(places.shape[0]):
            now = room.sums[places[f]]
            change = now - old[f]
            above_gold += float(old[f] * room.ngrams[places[f]])
            size += 2.0 * float(change * change / (now + old[f] + TINY))
            square += float(change * change)
        # the divergence is at least the second term, and at most about the first where the two are close
        gaps[i] = weight * max(distance + size, loss - above_gold - most_entropy)
        gamma = np.float32(size / (size + caution * rate * square + LEAST))
        for f in range(places.shape[0]):
            change = gamma * (room.sums[places[f]] - old[f])
            old[f] += change
            lists[parts.first_ngram + f] -= np.float32(rate) * change
