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

where c is the weight of the sequence. Moving the mass m adds  c g m - c^2 q m^2 / 4 l2  to the dual, so that this is
the best step. Exchanges are found where the best labelling with costs (Viterbi) and the worst one that the flow
contains differ. Steps between these two are the pairwise Frank-Wolfe method without a list of labellings (Garber &
Meshi 2016), here with a step of its own for each piece. **A sweep** repeats the steps of all exchanges found so far; it
looks at no other labels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from loglinear.arrays import Float, Float32, Int8, Int32, Int64
from loglinear.kernels import loose_kernel, small_kernel
from loglinear.kernels.lanes import (
    Width,
    block_length,
    greater,
    load,
    prefetch_line,
    row_length,
    same,
    store,
    towards_zero,
)
from loglinear.structures.chain.padded import PaddedCorpus, PaddedLayout, Workspace, workspace
from loglinear.structures.rows import ONE, ZERO, PaddedWeights, set_scores

UNIT = 1 << 30  # the mass of a whole labelling
TINY_SLOPE = np.float32(1e-6)  # less than this is rounding
AHEAD = 4  # masses are fetched into the cache so many exchanges before they are needed
INFINITE = np.float32(np.inf)
BOLDNESS = 1.25  # of the steps of a sweep, as a multiple of the best ones


class Flow(NamedTuple):
    """The edges that carry mass, or may get some by an exchange: ``edges[t, k]`` for k below ``counts[t]``.

    Parameters
    ----------
    edges : int32 [N, K]
        Label before times W plus label; at the first position of a sequence the label alone.
    masses : int32 [N, K]
        None is negative; those of a position add up to 2^30.
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
    gains, loses : int64 [E]
        Where the masses of these edges lie among all masses of the flow.
    pointer : int64 [C + 1]
    middle : int64 [C]
        The features of an exchange are first those of the gained piece, and from here on those of the lost one.
    places : int32 [F]
        Where their weights lie.
    values : float32 [F]
        Their values; empty if all are one.
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
    gains: Int64
    loses: Int64
    pointer: Int64
    middle: Int64
    places: Int32
    values: Float32
    cost: Float32
    square: Float32
    idle: Int32
    before: Int32
    newest: Int32


class FlatWeights(NamedTuple):
    """Weights before the L1 penalty, and how they enter steps.

    Parameters
    ----------
    flat : float32 [R * W + F + W * W]
        Rows, single features and transitions, one after the other; places are counted here.
    laid_out : PaddedWeights
        The same memory.
    exists : int8 [R * W + F + W * W]
        Whether the feature exists.
    shrink : float
        How far the L1 penalty moves weights towards zero.
    l2 : float
        Factor of ||w||^2.
    """

    flat: Float32
    laid_out: PaddedWeights
    exists: Int8
    shrink: float
    l2: float


def in_flat(flat: Any, layout: PaddedLayout) -> PaddedWeights:
    """The parts of flat weights, in the same memory."""
    w = layout.width
    rows, transitions = layout.n_rows * w, len(flat) - w * w
    return PaddedWeights(flat[:rows].reshape(-1, w), flat[rows:transitions], flat[transitions:].reshape(w, w))


@small_kernel
def _shrunk(weight: Any, less: Any) -> Any:
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


@loose_kernel
def _place_of(t: int, edge: int, flow: Flow) -> int:
    """Where the mass of an edge at position t lies among all; a new edge is added, -1 if there is no room."""
    room = flow.edges.shape[1]
    for k in range(flow.counts[t]):
        if flow.edges[t, k] == edge:
            return t * room + k
    k = flow.counts[t]
    if k == room:
        return -1
    flow.edges[t, k], flow.masses[t, k] = edge, 0
    flow.counts[t] = k + 1
    return t * room + k


@loose_kernel
def _make_steps(
    first: int,
    end: int,
    boldness: float,
    corpus: PaddedCorpus,
    weights: FlatWeights,
    flow: Flow,
    exchanges: Exchanges,
) -> None:
    """Make the best step of each exchange from ``first`` to ``end`` in turn, ``boldness`` times as far.

    Arrays are named once and walked by places: taking one out of a tuple, or a slice of it, in the loop would count
    references, which costs more than a step.
    """
    flat, less, twice_l2 = weights.flat, np.float32(weights.shrink), 2.0 * weights.l2
    masses, edge_pointer, gains, loses = flow.masses.ravel(), exchanges.edge_pointer, exchanges.gains, exchanges.loses
    pointer, middle, places, values = exchanges.pointer, exchanges.middle, exchanges.places, exchanges.values
    costs, squares, sequence, share = exchanges.cost, exchanges.square, exchanges.sequence, corpus.sequence_weights
    has_values, idle = values.shape[0] > 0, exchanges.idle
    general = has_values or weights.shrink > 0.0
    for x in range(first, end):
        soon = edge_pointer[min(x + AHEAD, end - 1)]
        prefetch_line(masses, loses[soon])
        begin, half, stop, slope = pointer[x], middle[x], pointer[x + 1], costs[x]
        if general:
            for j in range(begin, stop):
                value = values[j] if has_values else ONE
                slope += (value if j < half else -value) * _shrunk(flat[np.uint32(places[j])], less)
        else:
            for j in range(begin, half):
                slope += flat[np.uint32(places[j])]
            for j in range(half, stop):
                slope -= flat[np.uint32(places[j])]
        if abs(slope) <= TINY_SLOPE:
            continue
        most = np.int32(UNIT)  # the mass along the piece that is to lose some
        if slope > ZERO:
            for e in range(edge_pointer[x], edge_pointer[x + 1]):
                most = min(most, masses[loses[e]])
        else:
            for e in range(edge_pointer[x], edge_pointer[x + 1]):
                most = min(most, masses[gains[e]])
        weight = share[sequence[x]]
        best, norm = twice_l2 * boldness * abs(float(slope)) * UNIT, weight * float(squares[x])
        mass = most if best >= norm * most else int(best / norm)
        if mass == 0:
            continue
        if slope < ZERO:
            mass = -mass
        for e in range(edge_pointer[x], edge_pointer[x + 1]):
            masses[loses[e]] -= mass
            masses[gains[e]] += mass
        step = np.float32(-mass * weight / (twice_l2 * UNIT))
        if has_values:
            for j in range(begin, stop):
                flat[np.uint32(places[j])] += (step if j < half else -step) * values[j]
        else:
            for j in range(begin, half):
                flat[np.uint32(places[j])] += step
            for j in range(half, stop):
                flat[np.uint32(places[j])] -= step
        idle[x] = 0


@loose_kernel
def _list_features(
    edges: Int32, others: Int32, x: int, corpus: PaddedCorpus, weights: FlatWeights, exchanges: Exchanges
) -> None:
    """List the features of one piece of exchange ``x``, the last one, that the other piece does not have."""
    w, lists, i = weights.laid_out.rows.shape[1], weights.laid_out.rows.size, exchanges.sequence[x]
    has_values, n = corpus.row_values.shape[0] + corpus.list_values.shape[0] > 0, exchanges.used[2]
    transitions, places, values = weights.flat.shape[0] - w * w, exchanges.places, exchanges.values
    for e in range(exchanges.edge_pointer[x], exchanges.edge_pointer[x + 1]):
        t, label = exchanges.begin[x] + e - exchanges.edge_pointer[x], edges[e] % w
        if t > corpus.offsets[i] and weights.exists[transitions + edges[e]]:
            places[n] = transitions + edges[e]
            if has_values:
                values[n] = ONE
            n += 1
        if label == others[e] % w:
            continue
        for j in range(corpus.row_pointer[t], corpus.row_pointer[t + 1]):
            if weights.exists[corpus.row_ids[j] * w + label]:
                places[n] = corpus.row_ids[j] * w + label
                if has_values:
                    values[n] = corpus.row_values[j]
                n += 1
        for j in range(corpus.list_pointer[t], corpus.list_pointer[t + 1]):
            if corpus.list_labels[j] == label:
                places[n] = lists + corpus.list_ids[j]
                if has_values:
                    values[n] = corpus.list_values[j]
                n += 1
    exchanges.used[2] = n


@loose_kernel
def _describe(x: int, corpus: PaddedCorpus, weights: FlatWeights, sums: Float32, exchanges: Exchanges) -> None:
    """Set features, cost and q of exchange ``x``, the last one, from its edges.

    ``sums`` is scratch, 0 for each of the flat weights.
    """
    w, i, edge = weights.laid_out.rows.shape[1], exchanges.sequence[x], exchanges.edge_pointer[x]
    gained, lost, has_values = exchanges.gained, exchanges.lost, exchanges.values.shape[0] > 0
    _list_features(gained, lost, x, corpus, weights, exchanges)
    exchanges.middle[x] = exchanges.used[2]
    _list_features(lost, gained, x, corpus, weights, exchanges)
    exchanges.pointer[x + 1] = exchanges.used[2]
    cost, square, first, n = ZERO, ZERO, corpus.offsets[i], corpus.offsets[i + 1] - corpus.offsets[i]
    for e in range(edge, exchanges.edge_pointer[x + 1]):
        t = exchanges.begin[x] + e - edge
        costs = corpus.costs[_kind(t - first, n), corpus.gold[t]]
        cost += costs[gained[e] % w] - costs[lost[e] % w]
    for change in (ONE, ZERO):  # first the difference at each place, then its square: a place may occur more than once
        for j in range(exchanges.pointer[x], exchanges.used[2]):
            value = exchanges.values[j] if has_values else ONE
            value = value if j < exchanges.middle[x] else -value
            sums[exchanges.places[j]] += change * value
            square += (ONE - change) * value * sums[exchanges.places[j]]
    for j in range(exchanges.pointer[x], exchanges.used[2]):
        sums[exchanges.places[j]] = ZERO
    exchanges.cost[x], exchanges.square[x] = cost, square


@loose_kernel
def _same(x: int, begin: int, n: int, one: Int32, other: Int32, exchanges: Exchanges) -> bool:
    """Whether exchange ``x`` is that of the ``n`` edges ``one`` and ``other``."""
    edge = exchanges.edge_pointer[x]
    if exchanges.begin[x] != begin or exchanges.edge_pointer[x + 1] - edge != n:
        return False
    same_edges = True
    for u in range(n):
        same_edges &= exchanges.gained[edge + u] == one[u] and exchanges.lost[edge + u] == other[u]
    return same_edges


@loose_kernel
def _found(
    i: int,
    begin: int,
    n: int,
    gained: Int32,
    lost: Int32,
    corpus: PaddedCorpus,
    weights: FlatWeights,
    sums: Float32,
    flow: Flow,
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
    for u in range(n):
        exchanges.gained[edge + u], exchanges.lost[edge + u] = gained[u], lost[u]
        exchanges.gains[edge + u] = _place_of(begin + u, gained[u], flow)
        exchanges.loses[edge + u] = _place_of(begin + u, lost[u], flow)
        if exchanges.gains[edge + u] < 0 or exchanges.loses[edge + u] < 0:
            return -1
    exchanges.sequence[x], exchanges.begin[x], exchanges.idle[x] = i, begin, 0
    exchanges.before[x], exchanges.newest[i] = exchanges.newest[i], x
    exchanges.used[0] += 1
    exchanges.used[1] += n
    exchanges.edge_pointer[x + 1] = edge + n
    _describe(x, corpus, weights, sums, exchanges)
    return x


@loose_kernel
def describe_all(corpus: PaddedCorpus, weights: FlatWeights, exchanges: Exchanges) -> None:
    """Set what follows from the edges of the exchanges, which a checkpoint does not store."""
    sums = np.zeros(weights.flat.shape[0], np.float32)
    exchanges.used[2] = 0
    for x in range(exchanges.used[0]):
        i = exchanges.sequence[x]
        exchanges.before[x], exchanges.newest[i] = exchanges.newest[i], x
        _describe(x, corpus, weights, sums, exchanges)


@loose_kernel
def forget(most_idle: int, exchanges: Exchanges) -> None:
    """Leave out the exchanges that had no step for ``most_idle`` passes; the others have had one pass more without."""
    n, edges, features, has_values = 0, 0, 0, exchanges.values.shape[0] > 0
    for x in range(exchanges.used[0]):
        exchanges.newest[exchanges.sequence[x]] = -1
    for x in range(exchanges.used[0]):
        first_edge, last_edge = exchanges.edge_pointer[x], exchanges.edge_pointer[x + 1]
        first, last, half = exchanges.pointer[x], exchanges.pointer[x + 1], exchanges.middle[x]
        exchanges.edge_pointer[n], exchanges.pointer[n] = edges, features
        if exchanges.idle[x] >= most_idle:
            continue
        i = exchanges.sequence[x]
        exchanges.sequence[n], exchanges.begin[n], exchanges.idle[n] = i, exchanges.begin[x], exchanges.idle[x] + 1
        exchanges.cost[n], exchanges.square[n] = exchanges.cost[x], exchanges.square[x]
        exchanges.before[n], exchanges.newest[i], exchanges.middle[n] = exchanges.newest[i], n, features + half - first
        for j in range(first_edge, last_edge):
            exchanges.gained[edges], exchanges.lost[edges] = exchanges.gained[j], exchanges.lost[j]
            edges += 1
        for j in range(first, last):
            exchanges.places[features] = exchanges.places[j]
            if has_values:
                exchanges.values[features] = exchanges.values[j]
            features += 1
        n += 1
    exchanges.edge_pointer[n], exchanges.pointer[n] = edges, features
    exchanges.used[0], exchanges.used[1], exchanges.used[2] = n, edges, features


@loose_kernel
def tidy(exchanges: Exchanges, flow: Flow) -> bool:
    """Leave only edges that carry mass or take part in an exchange, in order; False if there is no room for all."""
    for t in range(flow.counts.shape[0]):
        n = 0
        for k in range(flow.counts[t]):
            if flow.masses[t, k] > 0:
                flow.edges[t, n], flow.masses[t, n] = flow.edges[t, k], flow.masses[t, k]
                n += 1
        flow.counts[t] = n
    for x in range(exchanges.used[0]):
        for e in range(exchanges.edge_pointer[x], exchanges.edge_pointer[x + 1]):
            t = exchanges.begin[x] + e - exchanges.edge_pointer[x]
            if _place_of(t, exchanges.gained[e], flow) < 0 or _place_of(t, exchanges.lost[e], flow) < 0:
                return False
    for t in range(flow.counts.shape[0]):
        for n in range(1, flow.counts[t]):
            edge, mass, k = flow.edges[t, n], flow.masses[t, n], n
            while k > 0 and flow.edges[t, k - 1] > edge:
                flow.edges[t, k], flow.masses[t, k] = flow.edges[t, k - 1], flow.masses[t, k - 1]
                k -= 1
            flow.edges[t, k], flow.masses[t, k] = edge, mass
    return True


@loose_kernel
def set_places(exchanges: Exchanges, flow: Flow) -> None:
    """Set where the masses of the exchanges' edges lie, all of which the flow lists."""
    for x in range(exchanges.used[0]):
        for e in range(exchanges.edge_pointer[x], exchanges.edge_pointer[x + 1]):
            t = exchanges.begin[x] + e - exchanges.edge_pointer[x]
            exchanges.gains[e] = _place_of(t, exchanges.gained[e], flow)
            exchanges.loses[e] = _place_of(t, exchanges.lost[e], flow)


# -- visits and sweeps -------------------------------------------------------------------------------------------------


@loose_kernel
def _set_transitions(transition: Float32, less: np.float32, allowed: Float32, width: Width, work: Workspace) -> None:
    """``work.transition``: scores [W, W] moved towards zero by ``less``, -inf where constraints rule them out."""
    scores, mask = transition.ravel(), allowed.ravel()
    for c in range(0, scores.shape[0], block_length(width)):
        store(work.transition, c, towards_zero(load(scores, c, width), less))
    for c in range(scores.shape[0]):
        if mask[c] == ZERO:
            work.transition[c] = -INFINITE


@loose_kernel
def _add_costs(first: int, n: int, corpus: PaddedCorpus, width: Width, work: Workspace) -> float:
    """Add costs and constraints to ``work.scores``; returns the score of the gold labelling, without costs."""
    scores, costs, w, gold_score = work.scores, corpus.costs.ravel(), row_length(width), 0.0
    n_labels = corpus.costs.shape[1]
    for t in range(n):
        gold = corpus.gold[first + t]
        gold_score += scores[t * w + gold]
        if t > 0:
            gold_score += work.transition[corpus.gold[first + t - 1] * w + gold]
        cost = (_kind(t, n) * n_labels + gold) * w
        for c in range(0, w, block_length(width)):
            store(scores, t * w + c, load(scores, t * w + c, width) + load(costs, cost + c, width))
    for c in range(w):
        if corpus.start[c] == ZERO:
            scores[c] = -INFINITE
        if corpus.stop[c] == ZERO:
            scores[(n - 1) * w + c] = -INFINITE
    return gold_score


@loose_kernel
def _set_best(first: int, n: int, n_labels: int, width: Width, work: Workspace, path: Int32) -> float:
    """Set the best path by ``work.scores`` in ``path`` [N]; returns its score. ``work.forward`` is used."""
    scores, prefixes, transition, w = work.scores, work.forward, work.transition, row_length(width)
    for t in range(n):
        for c in range(0, w, block_length(width)):
            now = load(scores, t * w + c, width)
            if t > 0:
                most = same(-INFINITE, width)
                for p in range(n_labels):
                    most = greater(most, load(transition, p * w + c, width) + prefixes[(t - 1) * w + p])
                now = now + most
            store(prefixes, t * w + c, now)
    best, row = 0, (n - 1) * w
    for c in range(1, n_labels):
        if prefixes[row + c] > prefixes[row + best]:
            best = c
    path[first + n - 1], score = best, prefixes[row + best]
    for t in range(n - 1, 0, -1):
        here, row, before = path[first + t], (t - 1) * w, 0
        most = prefixes[row] + transition[here]
        for p in range(1, n_labels):
            so_far = prefixes[row + p] + transition[p * w + here]
            if so_far > most:
                most, before = so_far, p
        path[first + t - 1] = before
    return float(score)


@loose_kernel
def _set_worst(first: int, n: int, flow: Flow, width: Width, work: Workspace, back: Int32, path: Int32) -> float:
    """Set the worst path that mass flows along in ``path`` [N]; returns the score expected under the flow."""
    scores, prefixes, transition, w = work.scores, work.forward, work.transition, row_length(width)
    edges, masses, counts, room = flow.edges.ravel(), flow.masses.ravel(), flow.counts, flow.edges.shape[1]
    expected = 0.0
    for t in range(n):
        begin = (first + t) * room
        for k in range(begin, begin + counts[first + t]):
            prefixes[t * w + edges[k] % w] = INFINITE
        for k in range(begin, begin + counts[first + t]):
            if masses[k] == 0:
                continue
            before, label = edges[k] // w, edges[k] % w
            score = scores[t * w + label]
            if t > 0:
                score += transition[edges[k]]
            expected += float(score) * masses[k]
            if t > 0:
                score += prefixes[(t - 1) * w + before]
            if score < prefixes[t * w + label]:
                prefixes[t * w + label] = score
                back[t * w + label] = before
    begin, row = (first + n - 1) * room, (n - 1) * w
    worst = edges[begin] % w
    for k in range(begin, begin + counts[first + n - 1]):
        if prefixes[row + edges[k] % w] < prefixes[row + worst]:
            worst = edges[k] % w
    path[first + n - 1] = worst
    for t in range(n - 1, 0, -1):
        path[first + t - 1] = back[t * w + path[first + t]]
    return expected / UNIT


@loose_kernel
def find_paths(
    sequences: Int64,
    corpus: PaddedCorpus,
    weights: FlatWeights,
    n_labels: int,
    width: Width,
    flow: Flow,
    best: Int32,
    worst: Int32,
    losses: Float,
    gaps: Float,
) -> None:
    """Set the best and the worst path [N] of each of the ``sequences``, their losses and their gaps [S].

    Nothing else is changed, so that several threads can do different sequences at the same time.
    """
    work, less = workspace(corpus, sequences, width), np.float32(weights.shrink)
    back = np.empty(work.scores.shape[0], np.int32)
    _set_transitions(weights.laid_out.transition, less, corpus.allowed, width, work)
    for k in range(sequences.shape[0]):
        i = sequences[k]
        first, n, weight = corpus.offsets[i], corpus.offsets[i + 1] - corpus.offsets[i], corpus.sequence_weights[i]
        set_scores(first, n, corpus, weights.laid_out, less, width, work)
        gold_score = _add_costs(first, n, corpus, width, work)
        score = _set_best(first, n, n_labels, width, work, best)
        gap = score - _set_worst(first, n, flow, width, work, back, worst)
        losses[i], gaps[i] = weight * (score - gold_score), weight * max(gap, 0.0)


@loose_kernel
def make_exchanges(
    sequences: Int64,
    sweeps: int,
    corpus: PaddedCorpus,
    weights: FlatWeights,
    flow: Flow,
    exchanges: Exchanges,
    best: Int32,
    worst: Int32,
    sums: Float32,
    boldness: float,
) -> None:
    """Exchange what the best and the worst path [N] of the ``sequences`` differ in, then sweep over all exchanges.

    Exchanges for which there is no room are left out. ``sums`` is scratch, 0 for each of the flat weights.
    """
    w, longest = weights.laid_out.rows.shape[1], 1
    for k in range(sequences.shape[0]):
        longest = max(longest, corpus.offsets[sequences[k] + 1] - corpus.offsets[sequences[k]])
    gained, lost = np.empty(longest, np.int32), np.empty(longest, np.int32)
    for k in range(sequences.shape[0]):
        i = sequences[k]
        first, end = corpus.offsets[i], corpus.offsets[i + 1]
        if corpus.sequence_weights[i] == 0.0:
            continue
        t = first
        while t < end:
            if best[t] == worst[t]:
                t += 1
                continue
            begin = t
            while t < end and best[t] != worst[t]:
                t += 1
            n_edges = min(t + 1, end) - begin
            for u in range(n_edges):
                gained[u], lost[u] = best[begin + u], worst[begin + u]
                if begin + u > first:
                    gained[u] += best[begin + u - 1] * w
                    lost[u] += worst[begin + u - 1] * w
            x = _found(i, begin, n_edges, gained, lost, corpus, weights, sums, flow, exchanges)
            if x >= 0:
                _make_steps(x, x + 1, 1.0, corpus, weights, flow, exchanges)
    for _ in range(sweeps):
        _make_steps(0, exchanges.used[0], boldness, corpus, weights, flow, exchanges)


# -- the certificate, in double precision ------------------------------------------------------------------------------


@loose_kernel
def add_differences(corpus: PaddedCorpus, flow: Flow, width: int, n_rows: int, sums: Float) -> float:
    """Add  sum_i c_i (E_i[f] - f(gold_i)),  expectations under the flow, to flat ``sums``; returns the expected cost.

    There are numbers for missing features as well; ignore them.
    """
    lists, transitions, cost = n_rows * width, sums.shape[0] - width * width, 0.0
    has_values = corpus.row_values.shape[0] + corpus.list_values.shape[0] > 0
    for i in range(corpus.offsets.shape[0] - 1):
        first, end, weight = corpus.offsets[i], corpus.offsets[i + 1], corpus.sequence_weights[i]
        for t in range(first, end):
            gold = corpus.gold[t]
            gold_edge = gold + (corpus.gold[t - 1] * width if t > first else 0)
            along_gold = 0
            for k in range(flow.counts[t]):
                if flow.edges[t, k] == gold_edge:
                    along_gold = flow.masses[t, k]
            if along_gold == UNIT:
                continue
            if t > first:
                sums[transitions + gold_edge] -= weight
            for k in range(-1, flow.counts[t]):  # first the gold label, which is taken away
                label, mass = gold, -weight
                if k >= 0:
                    if flow.masses[t, k] == 0:
                        continue
                    label, mass = flow.edges[t, k] % width, weight * flow.masses[t, k] / UNIT
                    cost += mass * corpus.costs[_kind(t - first, end - first), gold, label]
                    if t > first:
                        sums[transitions + flow.edges[t, k]] += mass
                for j in range(corpus.row_pointer[t], corpus.row_pointer[t + 1]):
                    value = float(corpus.row_values[j]) if has_values else 1.0
                    sums[corpus.row_ids[j] * width + label] += mass * value
                for j in range(corpus.list_pointer[t], corpus.list_pointer[t + 1]):
                    if corpus.list_labels[j] == label:
                        value = float(corpus.list_values[j]) if has_values else 1.0
                        sums[lists + corpus.list_ids[j]] += mass * value
    return cost


@loose_kernel
def margin_losses(
    first_sequence: int, end_sequence: int, corpus: PaddedCorpus, flat: Float, n_rows: int, n_labels: int, width: int
) -> float:
    """Losses of a run of sequences, each times its weight, by flat weights in double precision."""
    longest, total_loss = 1, 0.0
    for i in range(first_sequence, end_sequence):
        longest = max(longest, corpus.offsets[i + 1] - corpus.offsets[i])
    scores, before, now = np.empty(width), np.empty(width), np.empty(width)
    lists, transition = flat[n_rows * width :], flat[flat.shape[0] - width * width :].copy().reshape((width, width))
    has_values = corpus.row_values.shape[0] + corpus.list_values.shape[0] > 0
    for p in range(n_labels):
        for c in range(n_labels):
            if corpus.allowed[p, c] == ZERO:
                transition[p, c] = -np.inf
    for i in range(first_sequence, end_sequence):
        first, end, gold_score = corpus.offsets[i], corpus.offsets[i + 1], 0.0
        for t in range(first, end):
            gold = corpus.gold[t]
            for c in range(width):
                scores[c] = 0.0
            for j in range(corpus.row_pointer[t], corpus.row_pointer[t + 1]):
                row = corpus.row_ids[j] * width
                value = float(corpus.row_values[j]) if has_values else 1.0
                for c in range(width):
                    scores[c] += value * flat[row + c]
            for j in range(corpus.list_pointer[t], corpus.list_pointer[t + 1]):
                value = float(corpus.list_values[j]) if has_values else 1.0
                scores[corpus.list_labels[j]] += value * lists[corpus.list_ids[j]]
            gold_score += scores[gold]
            costs = corpus.costs[_kind(t - first, end - first), gold]
            for c in range(n_labels):
                now[c] = -np.inf if t > first else 0.0 if corpus.start[c] > ZERO else -np.inf
            if t > first:
                gold_score += transition[corpus.gold[t - 1], gold]
                for p in range(n_labels):
                    so_far, follow = before[p], transition[p]
                    for c in range(n_labels):
                        now[c] = max(now[c], so_far + follow[c])
            for c in range(n_labels):
                before[c] = now[c] + scores[c] + costs[c]
        best = -np.inf
        for c in range(n_labels):
            if corpus.stop[c] > ZERO:
                best = max(best, before[c])
        total_loss += corpus.sequence_weights[i] * (best - gold_score)
    return total_loss
