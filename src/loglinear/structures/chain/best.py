r"""Best labellings of first-order chains directly from attributes: scores and Viterbi in one kernel.

This is for models whose features are (attribute, label) pairs and label bigrams, as most are. It finds the same
labellings as :meth:`Chain.viterbi`, but needs no part scores::

    A_1(y) = s_1(y) + start(y)          A_t(y) = s_t(y) + max_b (A_{t-1}(b) + transition(b, y))          ties: least b

The weights are laid out once for a model. An attribute with at least three features has a row of W numbers, where W is
the number of labels rounded up to a multiple of eight; transitions into the padding are -inf. Any other attribute has
two pairs (label, weight); the weight of a missing pair is zero. Weights are in single precision, like those in model
files, so that more of them stay in the cache; sums are in double precision.
O(T (Y^2 + attributes Y)) for a sequence of T positions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from loglinear.arrays import Float, Float32, Int32, Int64, UInt8, UInt64
from loglinear.errors import DataError, InfeasibleError
from loglinear.features.encoding import EncodedCorpus, Incidence
from loglinear.kernels import kernel
from loglinear.kernels.numbers import longest
from loglinear.kernels.tables import Lists
from loglinear.structures.chain.features import ChainFeatures, Penalties
from loglinear.structures.chain.steps import Steps, find_step, is_sparser, make_steps

LANES = 8
PAIRS = 2
ALL_WELL, NO_SCORES = -1, -2  # statuses of the kernel; others are numbers of sequences


class Rows(NamedTuple):
    """Weights of A attributes: a row of W labels, or two pairs (label, weight).

    Parameters
    ----------
    place : int32 [A]
        Row r of an attribute is stored as r, its pairs p as -1 - p.
    rows : float32 [R + 1, W]
        The last is zero.
    pairs : float32 [P, 4]
    """

    place: Int32
    rows: Float32
    pairs: Float32


class Tables(NamedTuple):
    """Scores of label bigrams: transitions [W, W], their transpose, starts and stops [W]."""

    transition: Float
    turned: Float
    start: Float
    stop: Float


@kernel
def _lay_out(pointer: Int64, codes: Int32, state: Float, weights: Rows) -> None:
    """Copy the weights ``state`` [F] of attributes' features into rows and pairs."""
    place, rows, pairs = weights
    for a in range(place.shape[0]):
        for f in range(pointer[a], pointer[a + 1]):
            if place[a] >= 0:
                rows[place[a], codes[f]] = state[f]
            else:
                pairs[-1 - place[a], 2 * (f - pointer[a])] = codes[f]
                pairs[-1 - place[a], 2 * (f - pointer[a]) + 1] = state[f]


@kernel
def _fill_scores(first: int, lists: Lists, weights: Rows, in_rows: Int64, in_pairs: Int64, scores: Float) -> None:
    """Scores [T, W] of the positions from ``first`` on, whose attributes have the value one.

    Rows and pairs are separated without a branch. Rows are added four at a time (padded with the last row, which is
    zero), so that the processor waits for four of them at once. ``in_rows`` and ``in_pairs`` are scratch.
    """
    (pointer, ids, _), (place, rows, pairs) = lists, weights
    for t in range(scores.shape[0]):
        out = scores[t]
        n_rows, n_pairs = 0, 0
        for j in range(pointer[first + t], pointer[first + t + 1]):
            p = place[ids[j]]
            in_rows[n_rows] = p
            in_pairs[n_pairs] = -1 - p
            n_rows += 1 if p >= 0 else 0
            n_pairs += 0 if p >= 0 else 1
        while n_rows % 4:
            in_rows[n_rows] = rows.shape[0] - 1
            n_rows += 1
        for y in range(out.shape[0]):
            out[y] = 0.0
        for j in range(0, n_rows, 4):
            r0, r1, r2, r3 = rows[in_rows[j]], rows[in_rows[j + 1]], rows[in_rows[j + 2]], rows[in_rows[j + 3]]
            for y in range(out.shape[0]):
                one, two = np.float64(r0[y]) + np.float64(r1[y]), np.float64(r2[y]) + np.float64(r3[y])
                out[y] += one + two
        for j in range(n_pairs):
            pair = pairs[in_pairs[j]]
            out[int(pair[0])] += pair[1]
            out[int(pair[2])] += pair[3]


@kernel
def _fill_weighted_scores(first: int, lists: Lists, weights: Rows, scores: Float) -> None:
    """As :func:`_fill_scores`, for attributes with values."""
    (pointer, ids, values), (place, rows, pairs) = lists, weights
    for t in range(scores.shape[0]):
        out = scores[t]
        for y in range(out.shape[0]):
            out[y] = 0.0
        for j in range(pointer[first + t], pointer[first + t + 1]):
            p, value = place[ids[j]], values[j]
            if p >= 0:
                row = rows[p]
                for y in range(out.shape[0]):
                    out[y] += value * row[y]
            else:
                pair = pairs[-1 - p]
                out[int(pair[0])] += value * pair[1]
                out[int(pair[2])] += value * pair[3]


@kernel
def _step(before: Float, transition: Float, scores: Float, now: Float, spare: Float) -> None:
    """``now`` [W] = ``scores`` + max over b of ``before`` [W] + transition [W, W], four b at a time.

    Two rows take turns: a maximum written back to where it came from compiles to slow masked stores.
    """
    row, other = now, spare
    for y in range(now.shape[0]):
        row[y] = -np.inf
    for b in range(0, now.shape[0], 4):
        v0, v1, v2, v3 = before[b], before[b + 1], before[b + 2], before[b + 3]
        r0, r1, r2, r3 = transition[b], transition[b + 1], transition[b + 2], transition[b + 3]
        for y in range(now.shape[0]):
            x0, x1, x2, x3, old = v0 + r0[y], v1 + r1[y], v2 + r2[y], v3 + r3[y], row[y]
            one = x0 if x0 > x1 else x1
            two = x2 if x2 > x3 else x3
            best = one if one > two else two
            other[y] = best if best > old else old
        row, other = other, row
    for y in range(now.shape[0]):
        now[y] = row[y] + scores[y]


@kernel
def best_path(scores: Float, tables: Tables, n_labels: int, reached: Float, spare: Float, labels: Int32) -> float:
    """The best labelling of a sequence with ``scores`` [T, W] into ``labels`` [T]; its score, -inf if there is none.

    ``reached`` [at least T, W] and ``spare`` [W] are scratch.
    """
    transition, turned, start, stop = tables
    n, width = scores.shape
    for y in range(width):
        reached[0, y] = scores[0, y] + start[y]
    for t in range(1, n):
        _step(reached[t - 1], transition, scores[t], reached[t], spare)
    for y in range(width):
        reached[n - 1, y] += stop[y]
    best = int(np.argmax(reached[n - 1]))
    score = reached[n - 1, best]
    if score == -np.inf:
        return score
    labels[n - 1] = best
    for t in range(n - 1, 0, -1):
        before, into, top = reached[t - 1], turned[best], -np.inf
        for b in range(n_labels):
            x = before[b] + into[b]
            if x > top:
                best, top = b, x
        labels[t - 1] = best
    return score


@kernel
def _best_labels(
    offsets: Int64, lists: Lists, allowed: UInt8, weights: Rows, tables: Tables, n_labels: int, labels: Int32
) -> int:
    """Best labellings into ``labels`` [n]; the number of the first sequence that has none, ALL_WELL or NO_SCORES.

    ``offsets`` [S + 1] of n positions in all, ``lists`` of these; ``allowed`` [n or 0, Y].
    """
    width, origin = tables.transition.shape[0], offsets[0]
    reached, table, spare = np.empty((longest(offsets), width)), np.empty((longest(offsets), width)), np.empty(width)
    most = longest(lists.pointer)
    in_rows, in_pairs = np.empty(most + 4, dtype=np.int64), np.empty(most + 1, dtype=np.int64)
    for i in range(offsets.shape[0] - 1):
        first, n = offsets[i] - origin, offsets[i + 1] - offsets[i]
        if lists.values.shape[0] == 0:
            _fill_scores(first, lists, weights, in_rows, in_pairs, table[:n])
        else:
            _fill_weighted_scores(first, lists, weights, table[:n])
            if not (table[:n, :n_labels] < np.inf).all():
                return NO_SCORES
        if allowed.shape[0] > 0:
            for t in range(n):
                for y in range(n_labels):
                    if not allowed[first + t, y]:
                        table[t, y] = -np.inf
        if best_path(table[:n], tables, n_labels, reached, spare, labels[first : first + n]) == -np.inf:
            return i
    return ALL_WELL


def padded_width(n_labels: int) -> int:
    """The number of labels rounded up to a multiple of :data:`LANES`."""
    return -(-n_labels // LANES) * LANES


def padded_tables(transition: Float, start: Float, stop: Float) -> Tables:
    """Scores of label bigrams [Y, Y], starts and stops [Y] in rows of W; nothing leads into the padding."""
    y, w = len(start), padded_width(len(start))
    table, starts, stops = np.full((w, w), -np.inf), np.full(w, -np.inf), np.zeros(w)
    table[:y, :y], starts[:y], stops[:y] = transition, start, stop
    return Tables(table, np.ascontiguousarray(table.T), starts, stops)


class Decoder(ABC):
    """A first-order chain's weights laid out for finding best labellings. Threads may share it.

    Parameters
    ----------
    features : ChainFeatures
        Of order 1, without edge features.
    """

    def __init__(self, features: ChainFeatures) -> None:
        assert self.suits(features)
        self.n_labels = features.n_labels
        self._all_allowed = np.zeros((0, self.n_labels), dtype=np.uint8)

    @staticmethod
    def suits(features: ChainFeatures) -> bool:
        """Whether this module can decode a chain with these features."""
        return features.is_plain and not features.input_only

    @abstractmethod
    def _find(self, offsets: Int64, lists: Lists, allowed: UInt8, labels: Int32) -> int:
        """Best labellings into ``labels`` [n]; the number of the first sequence without one, ALL_WELL or NO_SCORES."""

    def decode(self, corpus: EncodedCorpus, first: int, end: int, allowed: UInt8 | None = None) -> Int32:
        """Best labels of the positions of sequences ``first`` to ``end``, among those that are ``allowed`` [N, Y]."""
        lo, hi = int(corpus.offsets[first]), int(corpus.offsets[end])
        mask = None if allowed is None else np.ascontiguousarray(allowed[lo:hi], dtype=np.uint8)
        return self._best(corpus.offsets[first : end + 1], corpus.state.lists(lo, hi), mask)

    def best(self, offsets: Int64, state: Incidence, allowed: UInt8 | None = None) -> Int32:
        """Best labels of the positions ``offsets[0]`` to ``offsets[-1]``, whose attributes are ``state``."""
        return self._best(offsets, state.lists(), allowed)

    def _best(self, offsets: Int64, lists: Lists, allowed: UInt8 | None) -> Int32:
        labels = np.empty(len(lists.pointer) - 1, dtype=np.int32)
        status = self._find(offsets, lists, self._all_allowed if allowed is None else allowed, labels)
        if status == NO_SCORES:
            raise DataError("the emission scores contain NaN or +inf; only finite numbers and -inf are scores")
        if status != ALL_WELL:
            raise InfeasibleError(int(status))
        return labels


class ChainDecoder(Decoder):
    """Weights in rows of all labels, and transitions as a matrix.

    Parameters
    ----------
    features : ChainFeatures
    weights : float64 [D]
    penalties : Penalties
    """

    def __init__(self, features: ChainFeatures, weights: Float, penalties: Penalties) -> None:
        super().__init__(features)
        block, y = features.state, features.n_labels
        state, _, transition, *_ = (weights[part] for part in features.slices)
        w = padded_width(y)
        counts = np.diff(block.pointer)
        dense = counts > PAIRS
        place = np.where(dense, np.cumsum(dense) - 1, -np.cumsum(~dense, dtype=np.int64)).astype(np.int32)
        n_rows = int(dense.sum())
        rows = np.zeros((n_rows + 1, w), dtype=np.float32)  # the last stays zero
        self._weights = Rows(place, rows, np.zeros((len(counts) - n_rows, 2 * PAIRS), dtype=np.float32))
        _lay_out(block.pointer, block.codes, state, self._weights)
        matrix = np.zeros(y * y)
        matrix[features.transitions] = transition
        self._tables = padded_tables(matrix.reshape(y, y) + penalties.transition, penalties.start, penalties.stop)

    def _find(self, offsets: Int64, lists: Lists, allowed: UInt8, labels: Int32) -> int:
        return _best_labels(offsets, lists, allowed, self._weights, self._tables, self.n_labels, labels)


# ----------------------------------------------------------------------------------------------------------------------
# Many labels, of which most transitions have no weight (:mod:`~loglinear.structures.chain.steps`).
#
# The best label b before y is the best of those listed for y, or the best of all others, which is nearly always one of
# the C = 64 best labels at t - 1. So a step first finds these candidates, and notes for each y which of them are listed
# for it; a label whose score cannot reach the least candidate's, whatever its transition, need not be looked at. Only
# if all candidates are listed for y, and what was found so far is below them, is the whole of column y gone through.
# About O(Y + transitions listed for the candidates) for a position, exact, with the same sums as :func:`_step`.

CANDIDATES = 64  # at most as many as a number has bits
FEWEST_LABELS, MOST_LISTED = 500, 0.03  # from where on this is quicker: labels, and the share of transitions listed


class Lines(NamedTuple):
    """Weights of attributes and transitions as lists.

    Parameters
    ----------
    pointer : int64 [A + 1]
        Features of attribute a are ``pointer[a]`` to ``pointer[a + 1]``.
    codes : int32 [F]
    state : float32 [F]
    transition : float64 [M]
        Scores of the listed transitions, by the previous label; -inf if ruled out.
    most : float64 [Y]
        The greatest of each label's, -inf if it has none.
    start, stop : float64 [Y]
    """

    pointer: Int64
    codes: Int32
    state: Float32
    transition: Float
    most: Float
    start: Float
    stop: Float


@kernel
def fill_from_lists(first: int, lists: Lists, lines: Lines, scores: Float) -> None:
    """Scores [T, Y] of the positions from ``first`` on."""
    pointer, ids, values = lists
    for t in range(scores.shape[0]):
        out = scores[t]
        for y in range(out.shape[0]):
            out[y] = 0.0
        for j in range(pointer[first + t], pointer[first + t + 1]):
            value = values[j] if values.shape[0] else 1.0
            for f in range(lines.pointer[ids[j]], lines.pointer[ids[j] + 1]):
                out[lines.codes[f]] += value * lines.state[f]


@kernel
def _set_candidates(before: Float, kind: int, steps: Steps, candidates: Int32) -> int:
    """The labels with the greatest scores ``before`` [Y], best first, that may usually stand before labels of a kind.

    Returns how many there are, at most C.
    """
    found, most = 0, candidates.shape[0]
    for b in range(before.shape[0]):
        value = before[b]
        if value == -np.inf or steps.table[steps.kinds[b], kind] == 0.0:
            continue
        if found == most and not value > before[candidates[found - 1]]:
            continue
        k = found if found < most else found - 1
        found = min(found + 1, most)
        while k > 0 and before[candidates[k - 1]] < value:
            candidates[k] = candidates[k - 1]
            k -= 1
        candidates[k] = b
    return found


@kernel
def _through_column(before: Float, label: int, steps: Steps, transition: Float) -> tuple[int, float]:
    """The best label before ``label``, the least of equal ones, and its score with the transition; O(Y)."""
    side, kind = steps.before, steps.kinds[label]
    j, end = side.pointer[label], side.pointer[label + 1]
    best, top = 0, -np.inf
    for b in range(before.shape[0]):
        if j < end and side.others[j] == b:
            x = before[b] + transition[side.place[j]]
            j += 1
        elif steps.table[steps.kinds[b], kind] > 0.0:
            x = before[b]
        else:
            continue
        if x > top:
            best, top = b, x
    return best, top


@kernel
def _step_by_lists(before: Float, steps: Steps, lines: Lines, candidates: Int32, listed: UInt64, now: Float) -> None:
    """``now`` [Y] = max over b of ``before`` [Y] + transition; ``candidates`` [K, C] and ``listed`` [Y] are scratch."""
    side, n_labels, n_kinds = steps.after, before.shape[0], steps.table.shape[0]
    counts, least, lowest = np.zeros(n_kinds, dtype=np.int64), np.full(n_kinds, -np.inf), np.inf
    for y in range(n_labels):
        now[y] = -np.inf
        listed[y] = 0
    for kind in range(n_kinds):
        counts[kind] = _set_candidates(before, kind, steps, candidates[kind])
        if counts[kind] == candidates.shape[1]:
            least[kind] = before[candidates[kind, -1]]
        lowest = min(lowest, least[kind])
        for k in range(counts[kind]):
            b, bit = candidates[kind, k], np.uint64(1) << np.uint64(k)
            for j in range(side.pointer[b], side.pointer[b + 1]):
                if steps.kinds[side.others[j]] == kind:
                    listed[side.others[j]] |= bit
    for b in range(n_labels):
        if before[b] + lines.most[b] > lowest:
            for j in range(side.pointer[b], side.pointer[b + 1]):
                x = before[b] + lines.transition[j]
                if x > now[side.others[j]]:
                    now[side.others[j]] = x
    for y in range(n_labels):
        kind, k = steps.kinds[y], 0
        while k < counts[kind] and (listed[y] >> np.uint64(k)) & np.uint64(1):
            k += 1
        if k < counts[kind]:
            now[y] = max(now[y], before[candidates[kind, k]])
        elif now[y] < least[kind]:
            now[y] = _through_column(before, y, steps, lines.transition)[1]


@kernel
def path_by_lists(scores: Float, lines: Lines, steps: Steps, n_candidates: int, reached: Float, labels: Int32) -> float:
    """The best labelling of a sequence with ``scores`` [T, Y] into ``labels`` [T]; its score, -inf if there is none.

    ``reached`` [at least T, Y] afterwards has the score of the best labelling up to each label.
    """
    n, n_labels = scores.shape
    candidates = np.zeros((steps.table.shape[0], n_candidates), dtype=np.int32)
    listed = np.zeros(n_labels, dtype=np.uint64)
    for t in range(n):
        now, last = reached[t], t == n - 1
        if t > 0:
            _step_by_lists(reached[t - 1], steps, lines, candidates, listed, now)
            for y in range(n_labels):
                now[y] += scores[t, y] + lines.stop[y] if last else scores[t, y]
        else:
            for y in range(n_labels):
                now[y] = (scores[t, y] + lines.stop[y] if last else scores[t, y]) + lines.start[y]
    best = int(np.argmax(reached[n - 1]))
    score = reached[n - 1, best]
    if score == -np.inf:
        return score
    labels[n - 1] = best
    for t in range(n - 1, 0, -1):
        best = _through_column(reached[t - 1], best, steps, lines.transition)[0]
        labels[t - 1] = best
    return score


@kernel
def _best_labels_by_lists(
    offsets: Int64, lists: Lists, allowed: UInt8, lines: Lines, steps: Steps, n_candidates: int, labels: Int32
) -> int:
    """As :func:`_best_labels`."""
    n_labels, origin = lines.start.shape[0], offsets[0]
    reached, table = np.empty((longest(offsets), n_labels)), np.empty((longest(offsets), n_labels))
    for i in range(offsets.shape[0] - 1):
        first, n = offsets[i] - origin, offsets[i + 1] - offsets[i]
        fill_from_lists(first, lists, lines, table[:n])
        for t in range(n):
            scores = table[t]
            for y in range(n_labels):
                if not scores[y] < np.inf:
                    return NO_SCORES
                if allowed.shape[0] > 0 and not allowed[first + t, y]:
                    scores[y] = -np.inf
        if path_by_lists(table[:n], lines, steps, n_candidates, reached, labels[first : first + n]) == -np.inf:
            return i
    return ALL_WELL


# The k best labellings, best first, by a search from the end. ``reached`` says how well the best beginning of a
# labelling that comes to a label scores. An *ending* from a position on is worth its own score and that of the best
# beginning before it: exactly what the best labelling with this ending scores, so that the best ending of all is the
# one to make longer. Of the endings that wait, no more matter than labellings are still to be found. At most k T of
# them are made longer, each by a look at Y labels.


class Endings(NamedTuple):
    """Endings that wait, best first: what they are worth, their first position and label there, and the rest [k];
    and those that were made longer: first label and the rest [k T]."""

    worth: Float
    position: Int64
    label: Int32
    rest: Int64
    done_label: Int32
    done_rest: Int64


@kernel
def _insert(worth: float, position: int, label: int, rest: int, room: int, n: int, endings: Endings) -> int:
    """Add an ending to the ``n`` that wait, at most ``room``; of equal ones, the longer is first. Returns how many."""
    k = n if n < room else n - 1
    if n == room:
        last = room - 1
        if worth < endings.worth[last] or (worth == endings.worth[last] and position >= endings.position[last]):
            return n
    while k > 0 and (
        worth > endings.worth[k - 1] or (worth == endings.worth[k - 1] and position < endings.position[k - 1])
    ):
        endings.worth[k], endings.position[k] = endings.worth[k - 1], endings.position[k - 1]
        endings.label[k], endings.rest[k] = endings.label[k - 1], endings.rest[k - 1]
        k -= 1
    endings.worth[k], endings.position[k], endings.label[k], endings.rest[k] = worth, position, label, rest
    return min(n + 1, room)


@kernel
def _longer(
    worth: float, position: int, label: int, rest: int, before: Float, lines: Lines, steps: Steps, room: int, n: int,
    endings: Endings,
) -> int:  # fmt: skip
    """Add the endings that begin one position before this one; how many wait then."""
    side, kind, top = steps.before, steps.kinds[label], _through_column(before, label, steps, lines.transition)[1]
    j, end = side.pointer[label], side.pointer[label + 1]
    for b in range(before.shape[0]):
        if j < end and side.others[j] == b:
            x = before[b] + lines.transition[side.place[j]]
            j += 1
        elif steps.table[steps.kinds[b], kind] > 0.0:
            x = before[b]
        else:
            continue
        if x > -np.inf:
            n = _insert(worth - (top - x), position - 1, b, rest, room, n, endings)
    return n


@kernel
def k_best_by_lists(scores: Float, lines: Lines, steps: Steps, n_candidates: int, labels: Int32, totals: Float) -> int:
    """The k best labellings of a sequence with ``scores`` [T, Y] into ``labels`` [k, T], ``totals`` [k]; how many."""
    n, n_labels = scores.shape
    k, reached = totals.shape[0], np.empty((n, n_labels))
    if path_by_lists(scores, lines, steps, n_candidates, reached, labels[0]) == -np.inf:
        return 0
    endings = Endings(
        np.empty(k), np.empty(k, np.int64), np.empty(k, np.int32), np.empty(k, np.int64), np.empty(k * n, np.int32),
        np.empty(k * n, np.int64),
    )  # fmt: skip
    waiting, done, found = 0, 0, 0
    for y in range(n_labels):
        if reached[n - 1, y] > -np.inf:
            waiting = _insert(reached[n - 1, y], n - 1, y, -1, k, waiting, endings)
    while found < k and waiting > 0:
        worth, t, y, rest = endings.worth[0], endings.position[0], endings.label[0], endings.rest[0]
        waiting -= 1
        for i in range(waiting):
            endings.worth[i], endings.position[i] = endings.worth[i + 1], endings.position[i + 1]
            endings.label[i], endings.rest[i] = endings.label[i + 1], endings.rest[i + 1]
        if t > 0:
            endings.done_label[done], endings.done_rest[done] = y, rest
            waiting = _longer(worth, t, y, done, reached[t - 1], lines, steps, k - found, waiting, endings)
            done += 1
            continue
        labels[found, 0] = y
        for i in range(1, n):
            labels[found, i], rest = endings.done_label[rest], endings.done_rest[rest]
        totals[found] = _total(scores, lines, steps, labels[found])
        found += 1
        waiting = min(waiting, k - found)
    _sort(labels[:found], totals[:found])
    return found


@kernel
def _total(scores: Float, lines: Lines, steps: Steps, labels: Int32) -> float:
    """The score of a labelling [T], added up as :func:`path_by_lists` does."""
    n, total = labels.shape[0], 0.0
    for t in range(n):
        y = labels[t]
        here = scores[t, y] + lines.stop[y] if t == n - 1 else scores[t, y]
        if t == 0:
            total = here + lines.start[y]
        else:
            place = find_step(labels[t - 1], y, steps)
            total = (total + lines.transition[place] if place >= 0 else total) + here
    return total


@kernel
def _sort(labels: Int32, totals: Float) -> None:
    """Put labellings [k, T] in the order of their totals [k], the greatest first; rounding may have left another."""
    for i in range(1, totals.shape[0]):
        j = i
        while j > 0 and totals[j] > totals[j - 1]:
            totals[j], totals[j - 1] = totals[j - 1], totals[j]
            for t in range(labels.shape[1]):
                labels[j, t], labels[j - 1, t] = labels[j - 1, t], labels[j, t]
            j -= 1


def make_lines(features: ChainFeatures, weights: Float, penalties: Penalties, steps: Steps) -> Lines:
    """Weights [D] as lists, those of attributes in single precision."""
    state, _, own, *_ = (weights[part] for part in features.slices)
    transition = np.where(steps.features >= 0, np.append(own, 0.0)[steps.features], 0.0)
    transition[steps.allowed == 0] = -np.inf
    block = features.state
    lines = lines_of(transition, penalties.start, penalties.stop, steps)
    return lines._replace(pointer=block.pointer, codes=block.codes, state=state.astype(np.float32))


def lines_of(transition: Float, start: Float, stop: Float, steps: Steps) -> Lines:
    """Scores of listed transitions [M], and of first and last labels [Y], without attributes."""
    most, size = np.full(len(start), -np.inf), np.diff(steps.after.pointer)
    np.maximum.at(most, np.repeat(np.arange(len(start)), size), transition)
    none = np.zeros(0, dtype=np.int32)
    return Lines(np.zeros(1, dtype=np.int64), none, np.zeros(0, dtype=np.float32), transition, most, start, stop)


class WideDecoder(Decoder):
    """Weights as lists, for many labels of which most transitions have no weight.

    Parameters
    ----------
    features : ChainFeatures
    weights : float64 [D]
    penalties : Penalties
    candidates : int
        C.
    """

    def __init__(
        self, features: ChainFeatures, weights: Float, penalties: Penalties, candidates: int = CANDIDATES
    ) -> None:
        super().__init__(features)
        self._candidates, self._steps = candidates, make_steps(features, penalties)
        self._lines = make_lines(features, weights, penalties, self._steps)

    def _find(self, offsets: Int64, lists: Lists, allowed: UInt8, labels: Int32) -> int:
        return _best_labels_by_lists(offsets, lists, allowed, self._lines, self._steps, self._candidates, labels)


def decoder_for(features: ChainFeatures, weights: Float, penalties: Penalties) -> Decoder:
    """The decoder that is quicker for these features."""
    kind = WideDecoder if is_sparser(features, penalties, FEWEST_LABELS, MOST_LISTED) else ChainDecoder
    return kind(features, weights, penalties)
