"""Flows through the trellis of a chain: the dual variables of max-margin, and exact steps that move them.

A distribution over the labellings of a sequence matters to the weights and to the expected cost only through the
probability of each *edge*, a pair of neighbouring labels at a position. These form a flow of one unit through the
trellis, and every such flow is a distribution. A flow starts at the gold labelling; few edges ever carry any mass, so
that those are kept in short lists. Masses are whole numbers of 2^-30: moving mass from one path to another between the
same ends is exact, and what flows into a label always flows out of it.

**An exchange** is such a move: a piece of the *gained* path takes the place of a piece of the *lost* one. Its effect on
the weights is a short list of places and values, which is kept, so that a step costs no more than its features:

    g = cost and score of the gained piece - those of the lost one,    q = ||difference of their features||^2
    step = 2 l2 g / (c q),  at most the mass that flows along the lost piece; back, if g is negative

where c is the weight of the sequence. Along the exchange the dual is  c g m - c^2 q m^2 / 4 l2  above what it was before
m moves, so that this is the best step. **A visit** to a sequence finds its best labelling with costs (Viterbi) and the
worst one that its flow contains; wherever the two differ, there is an exchange. Steps between a best and a worst vertex
are the pairwise Frank-Wolfe method without a list of vertices (Garber & Meshi 2016), here with a step size of its own
for each piece. **A sweep** repeats the steps of all exchanges found so far, without scores of other labels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from loglinear.arrays import Float, Float32, Int8, Int32, Int64
from loglinear.kernels import inlined_kernel, loose_kernel, small_kernel
from loglinear.structures.chain.padded import PaddedCorpus

ONE, ZERO = np.float32(1.0), np.float32(0.0)
UNIT = 1 << 30  # the mass of a whole labelling
TINY_SLOPE = np.float32(1e-6)  # less than this is rounding
NOWHERE = np.float32(np.inf)


class Flow(NamedTuple):
    """The edges that carry mass: ``edges[t, k]`` for k below ``counts[t]``.

    Parameters
    ----------
    edges : int32 [N, K]
        Label before times W plus label; at the first position of a sequence the label alone.
    masses : int32 [N, K]
        All positive; those of a position add up to 2^30.
    counts : int32 [N]
    """

    edges: Int32
    masses: Int32
    counts: Int32


class Exchanges(NamedTuple):
    """Exchanges found so far, in arrays with room for more.

    Parameters
    ----------
    used : int64 [3]
        The number of exchanges, of their edges and of their features.
    sequence : int32 [C]
    begin : int64 [C]
        The first position whose edges differ.
    edge_pointer : int64 [C + 1]
    gained, lost : int32 [E]
        The edges of both pieces, position by position.
    pointer : int64 [C + 1]
    places : int32 [F]
        Where the weights lie whose features differ.
    values : float32 [F]
        The difference of each.
    cost, square : float32 [C]
        The difference of the costs; q.
    idle : int32 [C]
        Passes since a step was made.
    before : int32 [C]
        The previous exchange of the same sequence, -1 if it is the first.
    newest : int32 [S]
        The last exchange of each sequence, -1 if there is none.
    """

    used: Int64
    sequence: Int32
    begin: Int64
    edge_pointer: Int64
    gained: Int32
    lost: Int32
    pointer: Int64
    places: Int32
    values: Float32
    cost: Float32
    square: Float32
    idle: Int32
    before: Int32
    newest: Int32


class FlatWeights(NamedTuple):
    """Weights before the L1 penalty in one array, and how a step changes them.

    Parameters
    ----------
    flat : float32 [R * W + F + W * W]
        Rows, single features and transitions, one after the other; transitions that constraints rule out are -inf.
    exists : int8 [R * W + F + W * W]
        Whether the feature exists.
    n_rows : int
        R.
    n_labels, width : int
        Y and W.
    shrink : float
        How far the L1 penalty moves weights towards zero.
    l2 : float
        Factor of ||w||^2.
    """

    flat: Float32
    exists: Int8
    n_rows: int
    n_labels: int
    width: int
    shrink: float
    l2: float


@small_kernel
def _shrunk(weight: float, less: float) -> float:
    """A weight moved towards zero."""
    return max(weight - less, weight * 0) + min(weight + less, weight * 0)


@loose_kernel
def start_at_gold(corpus: PaddedCorpus, width: int, flow: Flow) -> None:
    """Let all mass flow along the gold labellings."""
    for i in range(corpus.offsets.shape[0] - 1):
        for t in range(corpus.offsets[i], corpus.offsets[i + 1]):
            before = corpus.gold[t - 1] if t > corpus.offsets[i] else 0
            flow.edges[t, 0] = before * width + corpus.gold[t]
            flow.masses[t, 0] = UNIT
            flow.counts[t] = 1


@loose_kernel
def _kind(t: int, n: int) -> int:
    """The kind of position t of n, as costs number them."""
    return 2 if 0 < t < n - 1 else 1 if t < n - 1 else 3 if t > 0 else 0


# -- exchanges ---------------------------------------------------------------------------------------------------------


@inlined_kernel
def _add_mass(t: int, edge: int, mass: int, room: int, edges: Int32, masses: Int32, counts: Int32) -> None:
    """Add to the mass of an edge at position t; one without mass leaves the list."""
    first, end = t * room, t * room + counts[t]
    k = first
    while k < end and edges[k] != edge:
        k += 1
    if k == end:
        edges[k] = edge
        masses[k] = mass
        counts[t] += 1
    else:
        masses[k] += mass
        if masses[k] == 0:
            edges[k], masses[k] = edges[end - 1], masses[end - 1]
            counts[t] -= 1


@loose_kernel
def _make_steps(
    first: int, end: int, corpus: PaddedCorpus, weights: FlatWeights, flow: Flow, exchanges: Exchanges
) -> None:
    """Make the best step of each exchange from ``first`` to ``end`` in turn.

    Arrays are named once and walked by places: taking one out of a tuple, or a slice of it, in the loop would count
    references, which costs more than a step.
    """
    flat, shrink, less = weights.flat, weights.shrink > 0.0, np.float32(weights.shrink)
    edges, masses, counts, room = flow.edges.ravel(), flow.masses.ravel(), flow.counts, flow.edges.shape[1]
    pointer, places, values, idle = exchanges.pointer, exchanges.places, exchanges.values, exchanges.idle
    edge_pointer, gained, lost, begins = exchanges.edge_pointer, exchanges.gained, exchanges.lost, exchanges.begin
    costs, squares, sequence, share = exchanges.cost, exchanges.square, exchanges.sequence, corpus.sequence_weights
    for x in range(first, end):
        slope = costs[x]
        if shrink:
            for j in range(pointer[x], pointer[x + 1]):
                slope += values[j] * _shrunk(flat[np.uint32(places[j])], less)
        else:
            for j in range(pointer[x], pointer[x + 1]):
                slope += values[j] * flat[np.uint32(places[j])]
        if abs(slope) <= TINY_SLOPE:
            continue
        edge, n_edges, begin = edge_pointer[x], edge_pointer[x + 1] - edge_pointer[x], begins[x]
        most = UNIT
        for u in range(n_edges):  # the mass along the piece that is to lose some, none if a list of edges is full
            wanted, there = lost[edge + u] if slope > ZERO else gained[edge + u], 0
            for k in range((begin + u) * room, (begin + u) * room + counts[begin + u]):
                if edges[k] == wanted:
                    there = masses[k]
            most = min(most, there if counts[begin + u] < room else 0)
        weight = share[sequence[x]]
        best, norm = 2.0 * weights.l2 * abs(float(slope)) * UNIT, weight * float(squares[x])
        mass = most if best >= norm * most else int(best / norm)
        if mass == 0:
            continue
        if slope < ZERO:
            mass = -mass
        for u in range(n_edges):
            _add_mass(begin + u, lost[edge + u], -mass, room, edges, masses, counts)
            _add_mass(begin + u, gained[edge + u], mass, room, edges, masses, counts)
        factor = np.float32(-mass * weight / (2.0 * weights.l2 * UNIT))
        for j in range(pointer[x], pointer[x + 1]):
            flat[np.uint32(places[j])] += factor * values[j]
        idle[x] = 0


@loose_kernel
def _has_room(begin: int, n: int, flow: Flow) -> bool:
    """Whether each of ``n`` positions has room for another edge."""
    for u in range(n):
        if flow.counts[begin + u] >= flow.edges.shape[1]:
            return False
    return True


@loose_kernel
def _note(place: int, value: np.float32, slot: Int32, exchanges: Exchanges) -> None:
    """Add ``value`` to the difference at a ``place`` of the exchange being described; ``slot`` finds it again."""
    j = slot[place]
    if j < 0:
        j = exchanges.used[2]
        exchanges.used[2] += 1
        slot[place] = j
        exchanges.places[j] = place
        exchanges.values[j] = value
    else:
        exchanges.values[j] += value


@loose_kernel
def _describe(x: int, corpus: PaddedCorpus, weights: FlatWeights, slot: Int32, exchanges: Exchanges) -> None:
    """Set features, cost and q of exchange ``x``, the last one, from its edges; ``slot`` is -1 everywhere."""
    w, n_rows, i = weights.width, weights.n_rows, exchanges.sequence[x]
    begin, edge = exchanges.begin[x], exchanges.edge_pointer[x]
    first, end = corpus.offsets[i], corpus.offsets[i + 1]
    transitions = weights.flat.shape[0] - w * w
    has_values = corpus.row_values.shape[0] + corpus.list_values.shape[0] > 0
    cost, square = ZERO, ZERO
    for u in range(exchanges.edge_pointer[x + 1] - edge):
        t, gained, lost = begin + u, exchanges.gained[edge + u], exchanges.lost[edge + u]
        if t > first:
            if weights.exists[transitions + gained]:
                _note(transitions + gained, ONE, slot, exchanges)
            if weights.exists[transitions + lost]:
                _note(transitions + lost, -ONE, slot, exchanges)
        new, old = gained % w, lost % w
        if new == old:
            continue
        if corpus.costs.shape[0] > 0:
            costs = corpus.costs[_kind(t - first, end - first), corpus.gold[t]]
            cost += costs[new] - costs[old]
        for j in range(corpus.row_pointer[t], corpus.row_pointer[t + 1]):
            row, value = corpus.row_ids[j] * w, corpus.row_values[j] if has_values else ONE
            if weights.exists[row + new]:
                _note(row + new, value, slot, exchanges)
            if weights.exists[row + old]:
                _note(row + old, -value, slot, exchanges)
        for j in range(corpus.list_pointer[t], corpus.list_pointer[t + 1]):
            label, value = corpus.list_labels[j], corpus.list_values[j] if has_values else ONE
            if label == new or label == old:
                _note(n_rows * w + corpus.list_ids[j], value if label == new else -value, slot, exchanges)
    for j in range(exchanges.pointer[x], exchanges.used[2]):
        slot[exchanges.places[j]] = -1
        square += exchanges.values[j] * exchanges.values[j]
    exchanges.pointer[x + 1] = exchanges.used[2]
    exchanges.cost[x], exchanges.square[x] = cost, square


@loose_kernel
def _same(x: int, begin: int, n: int, one: Int32, other: Int32, exchanges: Exchanges) -> bool:
    """Whether exchange ``x`` is that of the ``n`` edges ``one`` and ``other``."""
    edge = exchanges.edge_pointer[x]
    if exchanges.begin[x] != begin or exchanges.edge_pointer[x + 1] - edge != n:
        return False
    for u in range(n):
        if exchanges.gained[edge + u] != one[u] or exchanges.lost[edge + u] != other[u]:
            return False
    return True


@loose_kernel
def _found(
    i: int,
    begin: int,
    n: int,
    gained: Int32,
    lost: Int32,
    corpus: PaddedCorpus,
    weights: FlatWeights,
    slot: Int32,
    exchanges: Exchanges,
) -> int:
    """The number of the exchange of two pieces of ``n`` edges; it is added if it is new, and -1 if there is no room."""
    x = exchanges.newest[i]
    while x >= 0:
        if _same(x, begin, n, gained, lost, exchanges) or _same(x, begin, n, lost, gained, exchanges):
            return x
        x = exchanges.before[x]
    x, edge = exchanges.used[0], exchanges.used[1]
    features = 2 * n
    for t in range(begin, begin + n):
        features += 2 * (corpus.row_pointer[t + 1] - corpus.row_pointer[t])
        features += corpus.list_pointer[t + 1] - corpus.list_pointer[t]
    if (
        x == exchanges.sequence.shape[0]
        or edge + n > exchanges.gained.shape[0]
        or exchanges.used[2] + features > exchanges.places.shape[0]
    ):
        return -1
    exchanges.sequence[x], exchanges.begin[x], exchanges.idle[x] = i, begin, 0
    exchanges.before[x], exchanges.newest[i] = exchanges.newest[i], x
    for u in range(n):
        exchanges.gained[edge + u], exchanges.lost[edge + u] = gained[u], lost[u]
    exchanges.used[0] += 1
    exchanges.used[1] += n
    exchanges.edge_pointer[x + 1] = edge + n
    _describe(x, corpus, weights, slot, exchanges)
    return x


@loose_kernel
def describe_all(corpus: PaddedCorpus, weights: FlatWeights, exchanges: Exchanges) -> None:
    """Set what follows from the edges of the exchanges, which a checkpoint does not store."""
    slot = np.full(weights.flat.shape[0], -1, np.int32)
    exchanges.used[2] = 0
    for x in range(exchanges.used[0]):
        i = exchanges.sequence[x]
        exchanges.before[x], exchanges.newest[i] = exchanges.newest[i], x
        _describe(x, corpus, weights, slot, exchanges)


@loose_kernel
def forget(most_idle: int, exchanges: Exchanges) -> None:
    """Leave out the exchanges that had no step for ``most_idle`` passes; the others have had one pass more without."""
    n, edges, features = 0, 0, 0
    for x in range(exchanges.used[0]):
        exchanges.newest[exchanges.sequence[x]] = -1
    for x in range(exchanges.used[0]):
        first_edge, last_edge = exchanges.edge_pointer[x], exchanges.edge_pointer[x + 1]
        first, last = exchanges.pointer[x], exchanges.pointer[x + 1]
        exchanges.edge_pointer[n], exchanges.pointer[n] = edges, features
        if exchanges.idle[x] >= most_idle:
            continue
        i = exchanges.sequence[x]
        exchanges.sequence[n], exchanges.begin[n], exchanges.idle[n] = i, exchanges.begin[x], exchanges.idle[x] + 1
        exchanges.cost[n], exchanges.square[n] = exchanges.cost[x], exchanges.square[x]
        exchanges.before[n], exchanges.newest[i] = exchanges.newest[i], n
        for j in range(first_edge, last_edge):
            exchanges.gained[edges], exchanges.lost[edges] = exchanges.gained[j], exchanges.lost[j]
            edges += 1
        for j in range(first, last):
            exchanges.places[features], exchanges.values[features] = exchanges.places[j], exchanges.values[j]
            features += 1
        n += 1
    exchanges.edge_pointer[n], exchanges.pointer[n] = edges, features
    exchanges.used[0], exchanges.used[1], exchanges.used[2] = n, edges, features


# -- visits and sweeps -------------------------------------------------------------------------------------------------


@loose_kernel
def _set_scores(i: int, corpus: PaddedCorpus, weights: FlatWeights, scores: Float32) -> float:
    """Scores and costs [T, W] of the positions of sequence ``i``; returns the score of its gold labelling."""
    first, n, w = corpus.offsets[i], scores.shape[0], weights.width
    rows, lists = weights.flat, weights.flat[weights.n_rows * w :]
    transitions, less = weights.flat[weights.flat.shape[0] - w * w :], np.float32(weights.shrink)
    has_values, gold_score = corpus.row_values.shape[0] + corpus.list_values.shape[0] > 0, 0.0
    for t in range(n):
        out, gold = scores[t], corpus.gold[first + t]
        for c in range(w):
            out[c] = ZERO
        for j in range(corpus.row_pointer[first + t], corpus.row_pointer[first + t + 1]):
            place, value = corpus.row_ids[j] * w, corpus.row_values[j] if has_values else ONE
            row = rows[place : place + w]
            if less > ZERO:
                for c in range(w):
                    out[c] += value * _shrunk(row[c], less)
            else:
                for c in range(w):
                    out[c] += value * row[c]
        for j in range(corpus.list_pointer[first + t], corpus.list_pointer[first + t + 1]):
            value = corpus.list_values[j] if has_values else ONE
            out[corpus.list_labels[j]] += value * _shrunk(lists[corpus.list_ids[j]], less)
        gold_score += out[gold]
        if t > 0:
            gold_score += _shrunk(transitions[corpus.gold[first + t - 1] * w + gold], less)
        if corpus.costs.shape[0] > 0:
            costs = corpus.costs[_kind(t, n), gold]
            for c in range(w):
                out[c] += costs[c]
    for c in range(weights.n_labels):
        if corpus.start[c] == ZERO:
            scores[0, c] = -NOWHERE
        if corpus.stop[c] == ZERO:
            scores[n - 1, c] = -NOWHERE
    return gold_score


@loose_kernel
def _best(n_labels: int, scores: Float32, transition: Float32, prefixes: Float32, path: Int32) -> float:
    """The best path [T] by scores [T, W], and its score; ``prefixes`` [T, W] is scratch."""
    n = scores.shape[0]
    for c in range(n_labels):
        prefixes[0, c] = scores[0, c]
    for t in range(1, n):
        before, now, here = prefixes[t - 1], prefixes[t], scores[t]
        for c in range(n_labels):
            now[c] = -NOWHERE
        for p in range(n_labels):
            so_far, follow = before[p], transition[p]
            for c in range(n_labels):
                now[c] = max(now[c], so_far + follow[c])
        for c in range(n_labels):
            now[c] += here[c]
    best = 0
    for c in range(1, n_labels):
        if prefixes[n - 1, c] > prefixes[n - 1, best]:
            best = c
    path[n - 1] = best
    for t in range(n - 1, 0, -1):
        here, before = path[t], 0
        for p in range(1, n_labels):
            if prefixes[t - 1, p] + transition[p, here] > prefixes[t - 1, before] + transition[before, here]:
                before = p
        path[t - 1] = before
    return float(prefixes[n - 1, best])


@loose_kernel
def _worst(
    first: int, flow: Flow, scores: Float32, transition: Float32, prefixes: Float32, back: Int32, path: Int32
) -> float:
    """The worst path [T] that mass flows along; returns the score expected under the flow."""
    n, w, expected = scores.shape[0], scores.shape[1], 0.0
    for t in range(n):
        for k in range(flow.counts[first + t]):
            prefixes[t, flow.edges[first + t, k] % w] = NOWHERE
        for k in range(flow.counts[first + t]):
            before, label = flow.edges[first + t, k] // w, flow.edges[first + t, k] % w
            score = scores[t, label]
            if t > 0:
                score += transition[before, label]
            expected += float(score) * flow.masses[first + t, k]
            if t > 0:
                score += prefixes[t - 1, before]
            if score < prefixes[t, label]:
                prefixes[t, label] = score
                back[t, label] = before
    worst = flow.edges[first + n - 1, 0] % w
    for k in range(flow.counts[first + n - 1]):
        label = flow.edges[first + n - 1, k] % w
        if prefixes[n - 1, label] < prefixes[n - 1, worst]:
            worst = label
    path[n - 1] = worst
    for t in range(n - 1, 0, -1):
        path[t - 1] = back[t, path[t]]
    return expected / UNIT


@loose_kernel
def margin_pass(
    sequences: Int64,
    sweeps: int,
    corpus: PaddedCorpus,
    weights: FlatWeights,
    flow: Flow,
    exchanges: Exchanges,
    losses: Float,
    gaps: Float,
) -> int:
    """Visit the ``sequences`` in turn, then sweep over all exchanges.

    Losses and gaps [S] are those of the sequences when they were visited. Returns how many exchanges were left out for
    lack of room.
    """
    longest, w, left_out = 1, weights.width, 0
    for k in range(sequences.shape[0]):
        longest = max(longest, corpus.offsets[sequences[k] + 1] - corpus.offsets[sequences[k]])
    all_scores, prefixes = np.empty((longest, w), np.float32), np.empty((longest, w), np.float32)
    back, best, worst = np.empty((longest, w), np.int32), np.empty(longest, np.int32), np.empty(longest, np.int32)
    gained, lost = np.empty(longest, np.int32), np.empty(longest, np.int32)
    slot, shrunk = np.full(weights.flat.shape[0], -1, np.int32), np.empty((w, w), np.float32)
    own = weights.flat[weights.flat.shape[0] - w * w :].reshape((w, w))
    for k in range(sequences.shape[0]):
        i = sequences[k]
        first, n, weight = corpus.offsets[i], corpus.offsets[i + 1] - corpus.offsets[i], corpus.sequence_weights[i]
        if weight == 0.0:
            continue
        transition = own
        if weights.shrink > 0.0:
            transition = shrunk
            for p in range(w):
                for c in range(w):
                    shrunk[p, c] = _shrunk(own[p, c], np.float32(weights.shrink))
        scores = all_scores[:n]
        gold_score = _set_scores(i, corpus, weights, scores)
        score = _best(weights.n_labels, scores, transition, prefixes, best)
        gap = score - _worst(first, flow, scores, transition, prefixes, back, worst)
        losses[i], gaps[i] = weight * (score - gold_score), weight * max(gap, 0.0)
        t = 0
        while t < n:
            if best[t] == worst[t]:
                t += 1
                continue
            begin = t
            while t < n and best[t] != worst[t]:
                t += 1
            n_edges = min(t + 1, n) - begin
            for u in range(n_edges):
                gained[u], lost[u] = best[begin + u], worst[begin + u]
                if begin + u > 0:
                    gained[u] += best[begin + u - 1] * w
                    lost[u] += worst[begin + u - 1] * w
            x = _found(i, first + begin, n_edges, gained, lost, corpus, weights, slot, exchanges)
            if x < 0 or not _has_room(first + begin, n_edges, flow):
                left_out += 1
            if x >= 0:
                _make_steps(x, x + 1, corpus, weights, flow, exchanges)
    for _ in range(sweeps):
        _make_steps(0, exchanges.used[0], corpus, weights, flow, exchanges)
    return left_out
