r"""Sums over segmentations: log-partitions, expected parts, covariances with a cost, draws.

A segment of label y that ends with token t and has m tokens (t, m, y) is a *span*. Its own score is

    span(t, m, y) = sum over its tokens k of s_k(token label of k) + length(m, y) + segment_t(m, y)

and a *boundary* e is the place after e tokens. Sums over the segmentations of the first tokens run forward
(Sarawagi & Cohen 2004, equation 3, with the transitions taken out of the inner sum)::

    enter_0(y) = start(y)
    end_e(y)   = log sum_m exp(enter_{e-m}(y) + span(e - 1, m, y))          a segment of label y ends at e
    enter_e(y) = log sum_y' exp(end_e(y') + transition(y', y))              one begins there
    log Z      = log sum_y exp(end_T(y) + stop(y))

which is O(T (Y^2 + sum_y L_y)). Two families of conditional probabilities come with it::

    share(t, m, y)  = exp(enter_{e-m}(y) + span(t, m, y) - end_e(y))        the length, given that y ends with t
    back_e(y', y)   = exp(end_e(y') + transition(y', y) - enter_e(y))       the label before, given that y begins at e

All else is made of these, from the last boundary to the first, without a backward pass in the usual sense::

    P_T(y)  = exp(end_T(y) + stop(y) - log Z)                               a segment of label y ends at T
    P(t, m, y) = P_{t+1}(y) share(t, m, y)                                  the span is in the segmentation
    B_e(y)  = sum over m of P(e + m - 1, m, y)                              a segment of label y begins at e
    P_e(y') = sum_y back_e(y', y) B_e(y)                                    and one of label y' ends there

Draws follow the same way back, choosing instead of summing.

**Covariance.** For a cost that adds up over tokens, c = sum_k cost_k(token label), let d(t, m, y) be a span's cost less
the expected cost of its tokens, so that the cost of the whole has mean 0. Then with the expectation semiring (Li &
Eisner 2009)::

    F_e(y)  = sum_m share(e - 1, m, y) (D_{e-m}(y) + d(e - 1, m, y))        E[cost before e | y ends at e]
    D_e(y)  = sum_y' back_e(y', y) F_e(y')                                  E[cost before e | y begins at e],  D_0 = 0
    A_e(y)  = sum_m share(..) (R_{e+m}(y) + P_{e+m}(y) d(e + m - 1, m, y))  E[cost after e; y begins at e]
    R_e(y') = sum_y back_e(y', y) A_e(y)                                    E[cost after e; y' ends at e],     R_T = 0
    cov(c, span (t, m, y))  = share(t, m, y) (P_{t+1}(y) (D(y) + d(t, m, y)) + R_{t+1}(y))
    cov(c, y' before y at e) = back_e(y', y) (B_e(y) F_e(y') + A_e(y))

**Why the numbers can be trusted.** In the sum over lengths, all terms share the future, so a term that is e^-700 of the
greatest may be dropped for any scores: ``end_e(y)`` is kept as ``top_e(y)``, the greatest exponent, and a factor. The
sum over labels is not like that, since what is negligible now may be all that the constraints leave later. It is made
in plain numbers only if no finite ``top_e`` is more than ``MAX_SPREAD`` = 300 nats, less the spread of the
transitions, below the greatest; each term is then at least e^-300 TINY, far above what underflows, and each zero is
structural. Otherwise this one boundary is done in logarithms, with the terms' maximum taken out label by label
(``exact``). ``enter_e(y)`` is an exponent ``level`` and a factor ``scale`` of at least ``TINY``. All terms are
non-negative, so errors stay at a few roundings a token.

Loops over positions stand inside the kernels, and arrays are taken out of their tuples before them: passing a tuple of
arrays to a function counts references, which costs more than the sums of a position.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from loglinear.arrays import Float, Int32, Int64, UInt8
from loglinear.kernels import kernel
from loglinear.kernels.numbers import exp_rows, longest
from loglinear.structures.segments.scheme import Spelling, spell
from loglinear.structures.sequences import draw_one

MAX_SPREAD = 300.0
TINY = 1e-130
LANES = 4  # labels are padded with zeros to a multiple of this: rows of a product are added four at a time


class Parts(NamedTuple):
    """The arrays of :class:`~loglinear.structures.segments.structure.SegmentScores`; no ``segment`` is [0, L, Y]."""

    emission: Float
    transition: Float
    start: Float
    stop: Float
    length: Float
    segment: Float


class Moves(NamedTuple):
    """Transitions as factors: ``forth`` = exp(transition - peak) [W, W], padded with zeros, and ``back`` transposed.

    raw : float64 [Y, Y]
        The transitions themselves.
    extent : float64 [2]
        Their maximum, and how far below the greatest the exponents of labels may lie for sums in plain numbers.
    """

    raw: Float
    forth: Float
    back: Float
    extent: Float


class Lattice(NamedTuple):
    """What the forward pass leaves behind of one sequence; e = 0..T are boundaries.

    share : float64 [T, K]
        By last token and cell; comes in as the span scores. Spans that would begin before the sequence are not there.
    level, scale : float64 [T + 1, W]
        enter_e(y) is ``level + log scale``; a label that cannot begin has -inf and 0.
    alpha : float64 [T + 1, W]
        end_e(y) as a factor of the greatest; where ``exact``, end_e(y) itself, and at e = T with stop(y).
    inverse : float64 [T + 1, W]
        1 / sum_y' alpha(y') forth(y', y), 0 where that is 0.
    exact : uint8 [T + 1]
        1 where the sum over labels was made in logarithms.
    work : float64 [4, K or W]
        Scratch.
    """

    share: Float
    level: Float
    scale: Float
    alpha: Float
    inverse: Float
    exact: UInt8
    work: Float


@kernel
def make_moves(transition: Float) -> Moves:
    """The factors of transitions [Y, Y]."""
    n_labels = transition.shape[0]
    width = (n_labels + LANES - 1) // LANES * LANES
    peak, least = -np.inf, np.inf
    for b in range(n_labels):
        for y in range(n_labels):
            x = transition[b, y]
            peak = max(peak, x)
            least = min(least, x if x > -np.inf else np.inf)
    if peak == -np.inf:
        peak, least = 0.0, 0.0  # no transition at all is legal: a sequence may be one segment
    forth, back = np.zeros((width, width)), np.zeros((width, width))
    for b in range(n_labels):
        for y in range(n_labels):
            forth[b, y] = math.exp(transition[b, y] - peak)
            back[y, b] = forth[b, y]
    return Moves(transition, forth, back, np.array([peak, MAX_SPREAD - (peak - least)]))


@kernel
def make_lattice(offsets: Int64, spelling: Spelling, moves: Moves) -> Lattice:
    """Room for the longest of the sequences."""
    n, n_cells, width = longest(offsets) + 1, spelling.labels.shape[0], moves.forth.shape[0]
    return Lattice(
        np.empty((n - 1, n_cells)), np.full((n, width), -np.inf), np.zeros((n, width)), np.zeros((n, width)),
        np.zeros((n, width)), np.zeros(n, dtype=np.uint8), np.empty((4, max(width, n_cells))),
    )  # fmt: skip


@kernel
def span_scores(first: int, n_positions: int, parts: Parts, spelling: Spelling, spans: Float) -> None:
    """Scores of the spans of one sequence by last token and cell, into ``spans`` [T, K]; O(T K)."""
    emission, length, segment = parts.emission, parts.length, parts.segment
    pointer, labels = spelling.pointer, spelling.labels
    single, opening, inner, last = spelling.single, spelling.first, spelling.inner, spelling.last
    n_lengths = pointer.shape[0] - 1
    inside = np.empty(single.shape[0])  # of each label, the score of a span's tokens but the first
    for t in range(n_positions):
        row, own = spans[t], emission[first + t]
        for c in range(pointer[1]):
            y = labels[c]
            row[c] = own[single[y]] + length[0, y]
        for m in range(1, min(t + 1, n_lengths)):
            begin, added, lengths = emission[first + t - m], emission[first + t - m + 1], length[m]
            for c in range(pointer[m], pointer[m + 1]):
                y = labels[c]
                inside[y] = own[last[y]] if m == 1 else inside[y] + added[inner[y]]
                row[c] = inside[y] + begin[opening[y]] + lengths[y]
        if segment.shape[0] > 0:
            for m in range(min(t + 1, n_lengths)):
                more = segment[first + t, m]
                for c in range(pointer[m], pointer[m + 1]):
                    row[c] += more[labels[c]]


@kernel
def _begin_exactly(transition: Float, top: Float, total: Float, alpha: Float, level: Float, scale: Float) -> None:
    """The sum over labels in logarithms: ``alpha`` is end(y), ``level`` enter(y), ``scale`` 1."""
    n_labels = transition.shape[0]
    for y in range(n_labels):
        alpha[y] = top[y] + math.log(total[y]) if top[y] > -np.inf else -np.inf
    for y in range(n_labels):
        peak, value = -np.inf, 0.0
        for b in range(n_labels):
            peak = max(peak, alpha[b] + transition[b, y])
        if peak > -np.inf:
            for b in range(n_labels):
                value += math.exp(alpha[b] + transition[b, y] - peak)
            peak += math.log(value)
        level[y] = peak
        scale[y] = 1.0 if peak > -np.inf else 0.0


@kernel
def _log_total(top: Float, total: Float, stop: Float, last: Float) -> float:
    """log Z, given end_T(y) = top(y) + log total(y); ``last`` gets end_T(y) + stop(y)."""
    greatest, value = -np.inf, 0.0
    for y in range(stop.shape[0]):
        last[y] = top[y] + math.log(total[y]) + stop[y] if top[y] > -np.inf else -np.inf
        greatest = max(greatest, last[y])
    if greatest == -np.inf:
        return -np.inf
    for y in range(stop.shape[0]):
        value += math.exp(last[y] - greatest)
    return greatest + math.log(value)


@kernel
def _forward(first: int, n_positions: int, parts: Parts, spelling: Spelling, moves: Moves, lattice: Lattice) -> float:
    """Fill the lattice of the sequence whose tokens begin at ``first``; log Z, -inf if it has no segmentation."""
    start, pointer, labels = parts.start, spelling.pointer, spelling.labels
    transition, forth, peak, room = moves.raw, moves.forth, moves.extent[0], moves.extent[1]
    n_labels, width, n_lengths = transition.shape[0], forth.shape[0], pointer.shape[0] - 1
    shares, levels, scales, alphas, inverses, exact, work = lattice
    powers, top, total, spread = work[0], work[1], work[2], work[3]
    span_scores(first, n_positions, parts, spelling, shares)
    for y in range(n_labels):
        levels[0, y] = start[y]
        scales[0, y] = 1.0 if start[y] > -np.inf else 0.0
    for t in range(n_positions):
        # 1. the lengths of a segment that ends here: end(y) = top(y) + log total(y)
        most = min(t + 1, n_lengths)
        n_cells, spans = pointer[most], shares[t]
        for y in range(n_labels):
            top[y], total[y] = -np.inf, 0.0
        for m in range(most):
            level = levels[t - m]
            for c in range(pointer[m], pointer[m + 1]):
                y = labels[c]
                x = spans[c] + level[y]
                spans[c] = x
                top[y] = max(top[y], x)
        for c in range(n_cells):
            x = spans[c]
            spans[c] = x - top[labels[c]] if x > -np.inf else x
        exp_rows(spans[:n_cells], powers[:n_cells])
        for m in range(most):
            scale = scales[t - m]
            for c in range(pointer[m], pointer[m + 1]):
                y = labels[c]
                value = spans[c] * scale[y]
                spans[c] = value
                total[y] += value
        for y in range(n_labels):
            spread[y] = 1.0 / total[y] if total[y] > 0.0 else 0.0
        for c in range(n_cells):
            spans[c] *= spread[labels[c]]
        if t + 1 == n_positions:
            break
        # 2. the labels of a segment that begins after it
        alpha, level, scale, inverse = alphas[t + 1], levels[t + 1], scales[t + 1], inverses[t + 1]
        shift, least = -np.inf, np.inf
        for y in range(n_labels):
            shift = max(shift, top[y])
            least = min(least, top[y] if top[y] > -np.inf else np.inf)
        exact[t + 1] = shift > -np.inf and shift - least > room
        if exact[t + 1]:
            _begin_exactly(transition, top, total, alpha, level, scale)
            continue
        for y in range(n_labels):
            alpha[y] = math.exp(top[y] - shift) * total[y] if shift > -np.inf else 0.0
        for y in range(width):
            scale[y] = 0.0
        for b in range(0, width, LANES):
            a0, a1, a2, a3 = alpha[b], alpha[b + 1], alpha[b + 2], alpha[b + 3]
            m0, m1, m2, m3 = forth[b], forth[b + 1], forth[b + 2], forth[b + 3]
            for y in range(width):
                scale[y] += (a0 * m0[y] + a1 * m1[y]) + (a2 * m2[y] + a3 * m3[y])
        greatest = 0.0
        for y in range(n_labels):
            greatest = max(greatest, scale[y])
            inverse[y] = 1.0 / scale[y] if scale[y] > 0.0 else 0.0
        factor = 1.0 / greatest if greatest > 0.0 else 0.0
        shift += peak + (math.log(greatest) if greatest > 0.0 else 0.0)
        for y in range(n_labels):
            x = scale[y] * factor
            level[y] = shift if x > 0.0 else -np.inf
            if 0.0 < x < TINY:
                level[y] += math.log(x)
                x = 1.0
            scale[y] = x
    return _log_total(top, total, parts.stop, alphas[n_positions])


@kernel
def _exactly_before(transition: Float, alpha: Float, level: Float, begun: Float, ended: Float) -> None:
    """``ended(y') = sum_y back_e(y', y) begun(y)`` of an exact boundary."""
    n_labels = transition.shape[0]
    for b in range(n_labels):
        ended[b] = 0.0
        for y in range(n_labels):
            if begun[y] != 0.0:
                ended[b] += math.exp(alpha[b] + transition[b, y] - level[y]) * begun[y]


@kernel
def _backward(
    n_positions: int, spelling: Spelling, moves: Moves, lattice: Lattice, masses: Float, costs: Float, ended: Float,
    begun: Float,
) -> None:  # fmt: skip
    """From the last boundary to the first, whose ``ended`` is given; ``ended`` and ``begun`` are [T + 1, W].

        begun_e(y)  = sum_m share(e + m - 1, m, y) (ended_{e+m}(y) + mass_{e+m}(y) cost(e + m - 1, m, y))
        ended_e(y') = sum_y back_e(y', y) begun_e(y)

    Without ``masses`` [T + 1, W] and ``costs`` [T, K] these are the probabilities P and B, with them R and A.
    """
    pointer, labels = spelling.pointer, spelling.labels
    transition, back = moves.raw, moves.back
    shares, levels, _, alphas, inverses, exact, _ = lattice
    width, n_lengths = back.shape[0], pointer.shape[0] - 1
    gain, with_costs = np.empty(width), costs.shape[0] > 0
    for e in range(n_positions + 1):
        for y in range(width):
            begun[e, y] = 0.0
    for t in range(n_positions - 1, -1, -1):
        now, share = ended[t + 1], shares[t]
        if t + 1 < n_positions:
            alpha, after = alphas[t + 1], begun[t + 1]
            if exact[t + 1]:
                _exactly_before(transition, alpha, levels[t + 1], after, now)
            else:
                inverse = inverses[t + 1]
                for y in range(width):
                    gain[y] = after[y] * inverse[y]
                    now[y] = 0.0
                for y in range(0, width, LANES):
                    g0, g1, g2, g3 = gain[y], gain[y + 1], gain[y + 2], gain[y + 3]
                    m0, m1, m2, m3 = back[y], back[y + 1], back[y + 2], back[y + 3]
                    for b in range(width):
                        now[b] += (g0 * m0[b] + g1 * m1[b]) + (g2 * m2[b] + g3 * m3[b])
                for b in range(width):
                    now[b] *= alpha[b]
        for m in range(min(t + 1, n_lengths)):
            start = begun[t - m]
            for c in range(pointer[m], pointer[m + 1]):
                y = labels[c]
                value = now[y]
                if with_costs:
                    value += masses[t + 1, y] * costs[t, c]
                start[y] += share[c] * value


@kernel
def _end_with(n_positions: int, log_z: float, n_labels: int, alpha: Float, ended: Float) -> None:
    """P_T(y) into ``ended[T]``."""
    for y in range(n_labels):
        ended[n_positions, y] = math.exp(alpha[n_positions, y] - log_z)


@kernel
def _add_pairs(
    n_positions: int,
    weight: float,
    moves: Moves,
    lattice: Lattice,
    ended: Float,
    begun: Float,
    sums: Float,
    pairs: Float,
) -> None:
    """Add ``weight back_e(y', y) ended_e(y') begun_e(y)`` of the inner boundaries e of a sequence.

    ``ended``, ``begun`` [T + 1, W]; an empty ``ended`` is 1. ``sums`` [Y, W] gets what is still to be multiplied by
    ``forth``; what comes from exact boundaries goes to ``pairs`` [Y, Y].
    """
    transition, (_, levels, _, alphas, inverses, exact, _) = moves.raw, lattice
    n_labels, width = sums.shape
    gain, given = np.empty(width), ended.shape[0] > 0
    for e in range(1, n_positions):
        alpha, now = alphas[e], begun[e]
        if exact[e]:
            level = levels[e]
            for b in range(n_labels):
                factor = weight * (ended[e, b] if given else 1.0)
                for y in range(n_labels):
                    if now[y] != 0.0:
                        pairs[b, y] += math.exp(alpha[b] + transition[b, y] - level[y]) * (factor * now[y])
            continue
        inverse = inverses[e]
        for y in range(width):
            gain[y] = weight * now[y] * inverse[y]
        for b in range(n_labels):
            a = alpha[b] * ended[e, b] if given else alpha[b]
            row = sums[b]
            for y in range(width):
                row[y] += a * gain[y]


@kernel
def _multiply_out(sums: Float, moves: Moves, pairs: Float) -> None:
    """Add to ``pairs`` [Y, Y] what :func:`_add_pairs` left in ``sums`` [Y, W]."""
    for b in range(pairs.shape[0]):
        for y in range(pairs.shape[1]):
            pairs[b, y] += sums[b, y] * moves.forth[b, y]


@kernel
def _add_spans(first: int, n_positions: int, weight: float, spelling: Spelling, spans: Float, parts: Parts) -> None:
    """Add ``weight`` times the values ``spans`` [T, K] of a sequence's spans to tokens, lengths and segments."""
    node, length, segment = parts.emission, parts.length, parts.segment
    pointer, labels = spelling.pointer, spelling.labels
    single, opening, inner, last = spelling.single, spelling.first, spelling.inner, spelling.last
    n_lengths = pointer.shape[0] - 1
    tail = np.empty(single.shape[0])  # of each label, the sum over the lengths from m on
    for t in range(n_positions):
        row, own = spans[t], node[first + t]
        tail[:] = 0.0
        for m in range(min(t + 1, n_lengths) - 1, 0, -1):
            begin, added, lengths = node[first + t - m], node[first + t - m + 1], length[m]
            for c in range(pointer[m], pointer[m + 1]):
                y = labels[c]
                value = weight * row[c]
                lengths[y] += value
                begin[opening[y]] += value
                tail[y] += value
                if m > 1:
                    added[inner[y]] += tail[y]
                else:
                    own[last[y]] += tail[y]
        for c in range(pointer[1]):
            y = labels[c]
            value = weight * row[c]
            length[0, y] += value
            own[single[y]] += value
        if segment.shape[0] > 0:
            for m in range(min(t + 1, n_lengths)):
                out = segment[first + t, m]
                for c in range(pointer[m], pointer[m + 1]):
                    out[labels[c]] = weight * row[c]


@kernel
def _span_marginals(n_positions: int, spelling: Spelling, share: Float, ended: Float, spans: Float) -> None:
    """P(t, m, y) = P_{t+1}(y) share(t, m, y) by cell into ``spans`` [T, K], which may be ``share`` itself."""
    pointer, labels = spelling.pointer, spelling.labels
    for t in range(n_positions):
        mass, row, out = ended[t + 1], share[t], spans[t]
        for c in range(pointer[min(t + 1, pointer.shape[0] - 1)]):
            out[c] = mass[labels[c]] * row[c]


@kernel
def log_partition(offsets: Int64, parts: Parts, spelling: Spelling, log_z: Float) -> None:
    """log Z [S], -inf where no segmentation is possible; O(N (Y^2 + K))."""
    moves = make_moves(parts.transition)
    lattice = make_lattice(offsets, spelling, moves)
    for i in range(offsets.shape[0] - 1):
        log_z[i] = _forward(offsets[i], offsets[i + 1] - offsets[i], parts, spelling, moves, lattice)


@kernel
def expectations(
    offsets: Int64, parts: Parts, spelling: Spelling, weights: Float, log_z: Float, expected: Parts, edges: Float
) -> None:
    """Log-partitions and expected parts; sequences without a segmentation have log Z = -inf and add nothing.

    Parameters
    ----------
    offsets : int64 [S + 1]
    parts, expected : Parts
        Those expected come in as zeros; ``segment`` may be absent in either.
    spelling : Spelling
    weights, log_z : float64 [S]
    edges : float64 [N or 0, Y, Y]
        Receives back_e(y', y) B_e(y), by the first token of the later segment.
    """
    moves = make_moves(parts.transition)
    lattice, width = make_lattice(offsets, spelling, moves), moves.forth.shape[0]
    n_labels, most = parts.start.shape[0], lattice.share.shape[0]
    ended, begun = np.zeros((most + 1, width)), np.zeros((most + 1, width))
    sums, everywhere = np.zeros((n_labels, width)), np.zeros((0, width))
    for i in range(offsets.shape[0] - 1):
        first, n_positions, weight = offsets[i], offsets[i + 1] - offsets[i], weights[i]
        log_z[i] = _forward(first, n_positions, parts, spelling, moves, lattice)
        if log_z[i] == -np.inf:
            continue
        _end_with(n_positions, log_z[i], n_labels, lattice.alpha, ended)
        _backward(n_positions, spelling, moves, lattice, everywhere, everywhere, ended, begun)
        _span_marginals(n_positions, spelling, lattice.share, ended, lattice.share)
        _add_spans(first, n_positions, weight, spelling, lattice.share, expected)
        _add_pairs(n_positions, weight, moves, lattice, everywhere, begun, sums, expected.transition)
        if edges.shape[0] > 0:
            _set_edges(first, n_positions, moves, lattice, begun, edges)
        for y in range(n_labels):
            expected.start[y] += weight * begun[0, y]
            expected.stop[y] += weight * ended[n_positions, y]
    _multiply_out(sums, moves, expected.transition)


@kernel
def _set_edges(first: int, n_positions: int, moves: Moves, lattice: Lattice, begun: Float, edges: Float) -> None:
    """``edges[first + e]`` [Y, Y] = back_e(y', y) B_e(y) at the inner boundaries of a sequence."""
    n_labels = moves.raw.shape[0]
    for e in range(1, n_positions):
        alpha, level, inverse, out = lattice.alpha[e], lattice.level[e], lattice.inverse[e], edges[first + e]
        for b in range(n_labels):
            for y in range(n_labels):
                if begun[e, y] == 0.0:
                    out[b, y] = 0.0
                elif lattice.exact[e]:
                    out[b, y] = math.exp(alpha[b] + moves.raw[b, y] - level[y]) * begun[e, y]
                else:
                    out[b, y] = alpha[b] * moves.forth[b, y] * (begun[e, y] * inverse[y])


@kernel
def _centre(node: Float, costs: Float, unit: float, centred: Float) -> float:
    """Costs [T, token labels] in units less each token's mean under the marginals ``node``, into ``centred``.

    Returns the sum of the means.
    """
    total = 0.0
    for t in range(node.shape[0]):
        for k in range(node.shape[1]):
            centred[t, k] = costs[t, k] * unit
        for _ in range(2):  # the second time corrects what rounding has left of a mean that is large
            mean, mass = 0.0, 0.0
            for k in range(node.shape[1]):
                mean += node[t, k] * centred[t, k]
                mass += node[t, k]
            mean /= mass
            total += mean
            for k in range(node.shape[1]):
                centred[t, k] -= mean
    return total


@kernel
def _labels_after(
    exact: bool, transition: Float, forth: Float, alpha: Float, level: Float, inverse: Float, ended: Float, begun: Float
) -> None:
    """``begun(y) = sum_y' back_e(y', y) ended(y')`` of one boundary, 0 for labels that cannot begin there."""
    n_labels, width = transition.shape[0], forth.shape[0]
    for y in range(width):
        begun[y] = 0.0
    for b in range(n_labels):
        if exact:
            for y in range(n_labels):
                if level[y] > -np.inf:
                    begun[y] += math.exp(alpha[b] + transition[b, y] - level[y]) * ended[b]
        else:
            a, row = alpha[b] * ended[b], forth[b]
            for y in range(width):
                begun[y] += a * row[y]
    if not exact:
        for y in range(width):
            begun[y] *= inverse[y]


@kernel
def _costs_before(
    n_positions: int, spelling: Spelling, moves: Moves, lattice: Lattice, costs: Float, behind: Float, before: Float
) -> None:
    """F_e(y) ``behind`` and D_e(y) ``before`` [T + 1, W], from the first boundary on; ``costs`` [T, K] is d."""
    pointer, labels, transition, forth = spelling.pointer, spelling.labels, moves.raw, moves.forth
    shares, levels, _, alphas, inverses, exact, _ = lattice
    n_lengths = pointer.shape[0] - 1
    before[0] = 0.0
    for t in range(n_positions):
        now, share, cost = behind[t + 1], shares[t], costs[t]
        for y in range(now.shape[0]):
            now[y] = 0.0
        for m in range(min(t + 1, n_lengths)):
            start = before[t - m]
            for c in range(pointer[m], pointer[m + 1]):
                y = labels[c]
                now[y] += share[c] * (start[y] + cost[c])
        if t + 1 < n_positions:
            e, out = t + 1, before[t + 1]
            _labels_after(exact[e], transition, forth, alphas[e], levels[e], inverses[e], now, out)


@kernel
def _span_covariances(
    n_positions: int, spelling: Spelling, share: Float, ended: Float, before: Float, after: Float, spans: Float
) -> None:
    """cov(c, span) by cell into ``spans`` [T, K], which comes in as d."""
    pointer, labels = spelling.pointer, spelling.labels
    for t in range(n_positions):
        mass, later, row, out = ended[t + 1], after[t + 1], share[t], spans[t]
        for m in range(min(t + 1, pointer.shape[0] - 1)):
            earlier = before[t - m]
            for c in range(pointer[m], pointer[m + 1]):
                y = labels[c]
                out[c] = row[c] * (mass[y] * (earlier[y] + out[c]) + later[y])


@kernel
def covariance(
    offsets: Int64, parts: Parts, spelling: Spelling, costs: Float, unit: float, weights: Float, mean: Float,
    result: Parts,
) -> int:  # fmt: skip
    """E[c] [S] and the covariances of the cost c with the parts, times each weight [S]; O(N (Y^2 + K)).

    Parameters
    ----------
    offsets : int64 [S + 1]
    parts, result : Parts
        Those of ``result`` come in as zeros.
    costs : float64 [N, token labels]
        About 1 when multiplied by ``unit``, a power of two.
    weights, mean : float64 [S]

    Returns the number of the first sequence that has no segmentation, or -1.
    """
    n_labels, n_cells, n_lengths = parts.start.shape[0], spelling.labels.shape[0], spelling.pointer.shape[0] - 1
    moves = make_moves(parts.transition)
    lattice, width = make_lattice(offsets, spelling, moves), moves.forth.shape[0]
    most, n_tokens = lattice.share.shape[0], parts.emission.shape[1]
    ended, begun = np.zeros((most + 1, width)), np.zeros((most + 1, width))
    behind, before = np.zeros((most + 1, width)), np.zeros((most + 1, width))
    after, ahead = np.zeros((most + 1, width)), np.zeros((most + 1, width))
    spans, node, centred = np.empty((most, n_cells)), np.empty((most, n_tokens)), np.empty((most, n_tokens))
    sums, everywhere = np.zeros((n_labels, width)), np.zeros((0, width))
    no_lengths, no_segments = np.zeros((n_lengths, n_labels)), np.zeros((0, n_lengths, n_labels))
    marginals = Parts(node, parts.transition, parts.start, parts.stop, np.zeros((n_lengths, n_labels)), no_segments)
    span_costs = Parts(centred, parts.transition, parts.start, parts.stop, no_lengths, no_segments)
    for i in range(offsets.shape[0] - 1):
        first, n_positions, factor = offsets[i], offsets[i + 1] - offsets[i], weights[i] / unit
        log_z = _forward(first, n_positions, parts, spelling, moves, lattice)
        if log_z == -np.inf:
            return i
        _end_with(n_positions, log_z, n_labels, lattice.alpha, ended)
        _backward(n_positions, spelling, moves, lattice, everywhere, everywhere, ended, begun)
        node[:n_positions] = 0.0
        _span_marginals(n_positions, spelling, lattice.share, ended, spans)
        _add_spans(0, n_positions, 1.0, spelling, spans, marginals)
        mean[i] = _centre(node[:n_positions], costs[first : first + n_positions], unit, centred) / unit
        span_scores(0, n_positions, span_costs, spelling, spans)
        after[n_positions] = 0.0
        _backward(n_positions, spelling, moves, lattice, ended, spans, after, ahead)
        _costs_before(n_positions, spelling, moves, lattice, spans, behind, before)
        _span_covariances(n_positions, spelling, lattice.share, ended, before, after, spans)
        _add_spans(first, n_positions, factor, spelling, spans, result)
        _add_pairs(n_positions, factor, moves, lattice, behind, begun, sums, result.transition)
        _add_pairs(n_positions, factor, moves, lattice, everywhere, ahead, sums, result.transition)
        for y in range(n_labels):
            result.start[y] += factor * ahead[0, y]
            result.stop[y] += factor * (ended[n_positions, y] * behind[n_positions, y])
    _multiply_out(sums, moves, result.transition)
    return -1


@kernel
def sample(
    offsets: Int64, parts: Parts, spelling: Spelling, label_draws: Float, length_draws: Float, labels: Int32
) -> int:
    """Exact draws of token labels into ``labels`` [n, N].

    ``label_draws`` [n, N] and ``length_draws`` [n, N, or 0 if every segment is a token] are uniform numbers, used where
    a segment ends. Returns the number of the first sequence that has no segmentation, or -1.
    """
    n_labels, n_lengths, moves = parts.start.shape[0], spelling.pointer.shape[0] - 1, make_moves(parts.transition)
    lattice = make_lattice(offsets, spelling, moves)
    most = lattice.share.shape[0]
    choice, lengths = np.empty(n_labels), np.zeros(n_lengths)
    starts, ends = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    drawn = np.empty(most, dtype=np.int32)
    for i in range(offsets.shape[0] - 1):
        first, n_positions = offsets[i], offsets[i + 1] - offsets[i]
        log_z = _forward(first, n_positions, parts, spelling, moves, lattice)
        if log_z == -np.inf:
            return i
        for n in range(labels.shape[0]):
            e, after, k = n_positions, 0, most
            while e > 0:
                for b in range(n_labels):
                    alpha = lattice.alpha[e, b]
                    if e == n_positions:
                        choice[b] = math.exp(alpha - log_z)
                    elif lattice.exact[e]:
                        choice[b] = math.exp(alpha + moves.raw[b, after] - lattice.level[e, after])
                    else:
                        choice[b] = alpha * moves.forth[b, after]
                after = draw_one(choice, label_draws[n, first + e - 1])
                m = 1
                if n_lengths > 1:
                    lengths[:] = 0.0
                    for j in range(min(e, n_lengths)):
                        for c in range(spelling.pointer[j], spelling.pointer[j + 1]):
                            if spelling.labels[c] == after:
                                lengths[j] = lattice.share[e - 1, c]
                    m = 1 + draw_one(lengths, length_draws[n, first + e - 1])
                k -= 1
                starts[k], ends[k], drawn[k] = first + e - m, first + e, after
                e -= m
            spell(starts[k:], ends[k:], drawn[k:], spelling, labels[n])
    return -1
