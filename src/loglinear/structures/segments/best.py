"""Best segmentations, and the parts of a given one.

With span scores and boundaries as in :mod:`~loglinear.structures.segments.sums`, maxima for sums::

    end_e(y)   = max_m enter_{e-m}(y) + span(e - 1, m, y)
    enter_e(y) = max_y' end_e(y') + transition(y', y)

O(T (Y^2 + sum_y L_y)) time. The k best come from the k best of every end and entrance (Schwartz & Chow 1990, "The
N-best algorithm"), k times that. Ties go to the lower label and then to the shorter segment, from the last to the
first.
"""

from __future__ import annotations

import numpy as np

from loglinear.arrays import Float, Int32, Int64
from loglinear.kernels import kernel
from loglinear.kernels.numbers import longest
from loglinear.structures.segments.scheme import Spelling, spell
from loglinear.structures.segments.sums import Parts, span_scores


@kernel
def viterbi(offsets: Int64, parts: Parts, spelling: Spelling, labels: Int32, best: Float) -> int:
    """Token labels [N] of the best segmentations and their scores [S]; the first sequence that has none, or -1."""
    n_labels, n_lengths, most = parts.start.shape[0], spelling.pointer.shape[0] - 1, longest(offsets)
    enter, end = np.empty((most, n_labels)), np.empty(n_labels)
    length, before = np.zeros((most + 1, n_labels), dtype=np.int32), np.zeros((most, n_labels), dtype=np.int32)
    scores, pointer, cell_labels = np.empty((most, spelling.labels.shape[0])), spelling.pointer, spelling.labels
    starts, ends = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    found = np.empty(most, dtype=np.int32)
    for i in range(offsets.shape[0] - 1):
        first, n_positions = offsets[i], offsets[i + 1] - offsets[i]
        span_scores(first, n_positions, parts, spelling, scores)
        for y in range(n_labels):
            enter[0, y] = parts.start[y]
        for t in range(n_positions):
            spans = scores[t]
            for y in range(n_labels):
                end[y] = -np.inf
            for m in range(min(t + 1, n_lengths)):
                row = enter[t - m]
                for c in range(pointer[m], pointer[m + 1]):
                    y = cell_labels[c]
                    if row[y] + spans[c] > end[y]:
                        end[y] = row[y] + spans[c]
                        length[t + 1, y] = m + 1
            if t + 1 < n_positions:
                row = enter[t + 1]
                for y in range(n_labels):
                    row[y] = -np.inf
                for b in range(n_labels):
                    for y in range(n_labels):
                        x = end[b] + parts.transition[b, y]
                        if x > row[y]:
                            row[y] = x
                            before[t + 1, y] = b
        for y in range(n_labels):
            end[y] += parts.stop[y]
        y = int(np.argmax(end))
        best[i] = end[y]
        if best[i] == -np.inf:
            return i
        e, n = n_positions, most
        while e > 0:
            n -= 1
            m = length[e, y]
            starts[n], ends[n], found[n] = first + e - m, first + e, y
            e -= m
            y = int(before[e, y]) if e > 0 else y
        spell(starts[n:], ends[n:], found[n:], spelling, labels)
    return -1


@kernel
def _take_next(lists: Float, counts: Int64, added: Float, heads: Int64, n_lists: int) -> tuple[int, float]:
    """The list with the greatest next value, and it; -1 if all are used up. Row j of ``lists`` gets ``added[j]``."""
    chosen, top = -1, -np.inf
    for j in range(n_lists):
        if heads[j] < counts[j] and lists[j, heads[j]] + added[j] > top:
            chosen, top = j, lists[j, heads[j]] + added[j]
    return chosen, top


@kernel
def k_best(first: int, n_positions: int, parts: Parts, spelling: Spelling, labels: Int32, scores: Float) -> int:
    """Token labels [k, T] and scores [k] of the k best segmentations of one sequence, best first; their number."""
    n_labels, n_lengths, k = parts.start.shape[0], spelling.pointer.shape[0] - 1, len(scores)
    enter, n_enter = np.empty((n_positions, n_labels, k)), np.zeros((n_positions, n_labels), dtype=np.int64)
    end, n_end = np.empty((n_labels, k)), np.zeros(n_labels, dtype=np.int64)
    from_length = np.empty((n_positions + 1, n_labels, k), dtype=np.int64)  # length * k + rank where it begins
    from_label = np.empty((n_positions, n_labels, k), dtype=np.int64)  # label * k + rank where that ends
    spans = np.empty((n_positions, spelling.labels.shape[0]))
    span_scores(first, n_positions, parts, spelling, spans)
    cell = np.full((n_lengths, n_labels), -1, dtype=np.int64)
    for m in range(n_lengths):
        for c in range(spelling.pointer[m], spelling.pointer[m + 1]):
            cell[m, spelling.labels[c]] = c
    widest = max(n_labels, n_lengths)
    lists, counts, added = np.empty((widest, k)), np.zeros(widest, dtype=np.int64), np.empty(widest)
    heads = np.zeros(widest, dtype=np.int64)
    for y in range(n_labels):
        enter[0, y, 0], n_enter[0, y] = parts.start[y], 1 if parts.start[y] > -np.inf else 0
    for t in range(n_positions):
        most = min(t + 1, n_lengths)
        for y in range(n_labels):
            heads[:] = 0
            for m in range(most):
                counts[m] = n_enter[t - m, y] if cell[m, y] >= 0 else 0
                if counts[m] > 0:
                    lists[m], added[m] = enter[t - m, y], spans[t, cell[m, y]]
            n_end[y] = 0
            while n_end[y] < k:
                m, top = _take_next(lists, counts, added, heads, most)
                if m < 0:
                    break
                end[y, n_end[y]] = top
                from_length[t + 1, y, n_end[y]] = (m + 1) * k + heads[m]
                heads[m] += 1
                n_end[y] += 1
        if t + 1 == n_positions:
            break
        for y in range(n_labels):
            heads[:] = 0
            n = 0
            while n < k:
                b, top = _take_next(end, n_end, parts.transition[:, y].copy(), heads, n_labels)
                if b < 0:
                    break
                enter[t + 1, y, n] = top
                from_label[t + 1, y, n] = b * k + heads[b]
                heads[b] += 1
                n += 1
            n_enter[t + 1, y] = n
    heads[:] = 0
    starts, ends = np.empty(n_positions, dtype=np.int64), np.empty(n_positions, dtype=np.int64)
    found = np.empty(n_positions, dtype=np.int32)
    for rank in range(k):
        y, scores[rank] = _take_next(end, n_end, parts.stop, heads, n_labels)
        if y < 0:
            return rank
        place, e, n = heads[y], n_positions, n_positions
        heads[y] += 1
        while e > 0:
            n -= 1
            m, place = from_length[e, y, place] // k, from_length[e, y, place] % k
            starts[n], ends[n], found[n] = e - m, e, y
            e -= m
            if e > 0:
                y, place = from_label[e, y, place] // k, from_label[e, y, place] % k
        spell(starts[n:], ends[n:], found[n:], spelling, labels[rank])
    return k


@kernel
def score(offsets: Int64, parts: Parts, labels: Int32, starts: Int64, ends: Int64, found: Int32, result: Float) -> None:
    """Scores [S] of segments, spelt as the token labels [N]; O(N)."""
    n = 0
    for i in range(offsets.shape[0] - 1):
        total, before = 0.0, -1
        for t in range(offsets[i], offsets[i + 1]):
            total += parts.emission[t, labels[t]]
        while n < starts.shape[0] and starts[n] < offsets[i + 1]:
            y, m = found[n], ends[n] - starts[n]
            total += parts.start[y] if before < 0 else parts.transition[before, y]
            total += parts.length[m - 1, y]
            if parts.segment.shape[0] > 0:
                total += parts.segment[ends[n] - 1, m - 1, y]
            before = y
            n += 1
        result[i] = total + parts.stop[before]


@kernel
def add_labelling(
    offsets: Int64, labels: Int32, starts: Int64, ends: Int64, found: Int32, weights: Float, parts: Parts
) -> None:
    """Add the weight [S] of each sequence to all parts of its segments, spelt as the token labels [N]; O(N)."""
    n = 0
    for i in range(offsets.shape[0] - 1):
        weight, before = weights[i], -1
        for t in range(offsets[i], offsets[i + 1]):
            parts.emission[t, labels[t]] += weight
        while n < starts.shape[0] and starts[n] < offsets[i + 1]:
            y, m = found[n], ends[n] - starts[n]
            if before < 0:
                parts.start[y] += weight
            else:
                parts.transition[before, y] += weight
            parts.length[m - 1, y] += weight
            if parts.segment.shape[0] > 0:
                parts.segment[ends[n] - 1, m - 1, y] += weight
            before = y
            n += 1
        parts.stop[before] += weight
