"""Passes over the sequences of a first-order chain in single precision: a gradient of all, or a dual step for each.

For each sequence: scores of its positions, forward and backward over probabilities scaled to one at each position,
expected transitions; then the gradient (:func:`evaluate`), or the step (:func:`dual_pass`). All rows have W numbers, a
multiple of eight; those from Y on stay zero (:mod:`~loglinear.optimizers.padded_layout`).

What makes it quick: loops over slices of rows, which the compiler turns into vector instructions as long as what is
written is none of what is read; several rows a loop, so that the sums are loaded and stored less often; and one call a
sequence, as a call with many arrays costs more than the work of a position.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from loglinear.kernels import loose_kernel

Float = npt.NDArray[np.float64]
Float32 = npt.NDArray[np.float32]
Int16 = npt.NDArray[np.int16]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.int8]

ZERO, HALF, ONE, TWO = np.float32(0.0), np.float32(0.5), np.float32(1.0), np.float32(2.0)
LEAST = np.float32(1e-18)  # a smaller sum of scaled probabilities may miss some that were taken for zero
NOTHING = np.float32(1e-24)  # a smaller probability is taken for zero: near 1e-38 arithmetic is slow
TINY = np.float32(1e-9)
SMALL_PRODUCT = 1e-200
LOG2_E, LN2_HIGH, LN2_LOW = np.float32(1.44269504), np.float32(0.693359375), np.float32(-2.12194440e-4)
LOWEST_EXPONENT = np.float32(-60.0)  # exp of less is taken for zero
C2, C3, C4, C5, C6, C7 = (
    np.float32(c)
    for c in (5.0000001201e-1, 1.6666665459e-1, 4.1665795894e-2, 8.3334519073e-3, 1.3981999507e-3, 1.9875691500e-4)
)


class PaddedWeights(NamedTuple):
    """Weights, or a gradient by them.

    Parameters
    ----------
    rows : float32 [R, W]
    lists : float32 [F]
    transition : float32 [W, W]
    """

    rows: Float32
    lists: Float32
    transition: Float32


class PaddedCorpus(NamedTuple):
    """Sequences, and where the weights lie that their positions look at.

    Parameters
    ----------
    offsets : int64 [S + 1]
    row_pointer, row_ids, row_values
        Position t looks at the rows ``row_ids[row_pointer[t]:row_pointer[t + 1]]``; no values if all are one.
    list_pointer, list_ids, list_labels, list_values
        The same of single features, with the label of each.
    blank : float32 [W]
        Scores without any features: 0, and so little that nothing comes of it from Y on.
    has_feature : int8 [R, W]
        Whether there is such a feature.
    transition_places : int64 [F]
        Where the transitions that have a feature lie in a flat [W, W].
    allowed : float32 [W, W]
        0 for the transitions that constraints rule out, else 1.
    start, stop : float32 [W]
        The same for first and last labels.
    gold : int32 [N]
    costs : float32 [4, Y, W]
        Of labels, by the kind of place and the gold label; empty if there are none.
    sequence_weights : float64 [S]
    """

    offsets: Int64
    row_pointer: Int64
    row_ids: Int32
    row_values: Float32
    list_pointer: Int64
    list_ids: Int32
    list_labels: Int16
    list_values: Float32
    blank: Float32
    has_feature: Mask
    transition_places: Int64
    allowed: Float32
    start: Float32
    stop: Float32
    gold: Int32
    costs: Float32
    sequence_weights: Float


class Desk(NamedTuple):
    """Room for the work on one sequence of at most T positions."""

    emission: Float32  # [T, W]
    alpha: Float32  # [T, W]
    marginals: Float32  # [T, W]
    beta: Float32  # [W]
    factors: Float32  # [W, W]
    turned: Float32  # [W, W]
    pairs: Float32  # [W, W]
    bits: Int32  # [at least T W and W W]
    powers: Float32  # the same memory


@loose_kernel
def _desk(corpus: PaddedCorpus, sequences: Int64, width: int) -> Desk:
    longest = 1
    for k in range(sequences.shape[0]):
        longest = max(longest, corpus.offsets[sequences[k] + 1] - corpus.offsets[sequences[k]])
    bits = np.empty(max(longest, width) * width, np.int32)
    return Desk(
        np.empty((longest, width), np.float32), np.empty((longest, width), np.float32),
        np.empty((longest, width), np.float32), np.empty(width, np.float32), np.empty((width, width), np.float32),
        np.empty((width, width), np.float32), np.zeros((width, width), np.float32), bits, bits.view(np.float32),
    )  # fmt: skip


@loose_kernel
def _exponentials(x: Float32, out: Float32, bits: Int32, powers: Float32) -> None:
    """``out = exp(x)`` for x [n] at most 0, not in place; ``powers`` is the memory of ``bits`` seen as float32.

    exp(r) 2^n with r at most log(2) / 2 in size: a polynomial (Cephes), and n put into a number's exponent bits.
    """
    for c in range(x.shape[0]):
        there = x[c] >= LOWEST_EXPONENT
        v = x[c] if there else ZERO
        n = np.floor(v * LOG2_E + HALF)  # not math.floor, which makes an int64
        r = v - n * LN2_HIGH - n * LN2_LOW
        polynomial = ((((C7 * r + C6) * r + C5) * r + C4) * r + C3) * r + C2
        out[c] = polynomial * (r * r) + r + ONE if there else ZERO
        bits[c] = (np.int32(n) + np.int32(127)) << np.int32(23)
    for c in range(x.shape[0]):
        out[c] *= powers[c]


@loose_kernel
def _greatest(x: Float32) -> float:
    """Greatest of ``x`` [a multiple of four]; by fours, as one running maximum would wait for itself."""
    a, b, c, d = x[0], x[1], x[2], x[3]
    for j in range(4, x.shape[0], 4):
        a = x[j] if x[j] > a else a
        b = x[j + 1] if x[j + 1] > b else b
        c = x[j + 2] if x[j + 2] > c else c
        d = x[j + 3] if x[j + 3] > d else d
    a, c = a if a > b else b, c if c > d else d
    return a if a > c else c


@loose_kernel
def _set_factors(transition: Float32, allowed: Float32, desk: Desk) -> float:
    """``desk.factors = exp(transition - greatest) * allowed`` and its transpose; returns the greatest score."""
    flat, factor, mask, shifted = transition.ravel(), desk.factors.ravel(), allowed.ravel(), desk.pairs.ravel()
    greatest = _greatest(flat)
    for c in range(flat.shape[0]):
        shifted[c] = flat[c] - greatest
    _exponentials(shifted, factor, desk.bits, desk.powers)
    for c in range(flat.shape[0]):
        factor[c] *= mask[c]
    for c in range(desk.turned.shape[0]):
        row = desk.turned[c]
        for p in range(desk.turned.shape[0]):
            row[p] = desk.factors[p, c]
    return greatest


@loose_kernel
def _set_scores(first: int, corpus: PaddedCorpus, weights: PaddedWeights, scores: Float32) -> None:
    """Scores [T, W] of a sequence's positions, which begin with ``first``."""
    rows, row_ids, lists = weights.rows, corpus.row_ids, weights.lists
    has_values = corpus.row_values.shape[0] + corpus.list_values.shape[0] > 0
    for t in range(scores.shape[0]):
        out = scores[t]
        for c in range(out.shape[0]):
            out[c] = corpus.blank[c]
        j, end = corpus.row_pointer[first + t], corpus.row_pointer[first + t + 1]
        while j + 4 <= end and not has_values:
            r0, r1, r2, r3 = rows[row_ids[j]], rows[row_ids[j + 1]], rows[row_ids[j + 2]], rows[row_ids[j + 3]]
            for c in range(out.shape[0]):
                out[c] += (r0[c] + r1[c]) + (r2[c] + r3[c])
            j += 4
        while j < end:
            row, value = rows[row_ids[j]], corpus.row_values[j] if has_values else ONE
            for c in range(out.shape[0]):
                out[c] += value * row[c]
            j += 1
        for j in range(corpus.list_pointer[first + t], corpus.list_pointer[first + t + 1]):
            value = corpus.list_values[j] if has_values else ONE
            out[corpus.list_labels[j]] += value * lists[corpus.list_ids[j]]


@loose_kernel
def _set_shrunk_scores(
    first: int, corpus: PaddedCorpus, weights: PaddedWeights, shrink: float, scores: Float32
) -> None:
    """:func:`_set_scores` of weights that are the given numbers, brought nearer to zero by ``shrink``."""
    less = np.float32(shrink)
    has_values = corpus.row_values.shape[0] + corpus.list_values.shape[0] > 0
    for t in range(scores.shape[0]):
        out = scores[t]
        for c in range(out.shape[0]):
            out[c] = corpus.blank[c]
        for j in range(corpus.row_pointer[first + t], corpus.row_pointer[first + t + 1]):
            row, value = weights.rows[corpus.row_ids[j]], corpus.row_values[j] if has_values else ONE
            for c in range(out.shape[0]):
                out[c] += value * (max(row[c] - less, ZERO) + min(row[c] + less, ZERO))
        for j in range(corpus.list_pointer[first + t], corpus.list_pointer[first + t + 1]):
            weight, value = weights.lists[corpus.list_ids[j]], corpus.list_values[j] if has_values else ONE
            out[corpus.list_labels[j]] += value * (max(weight - less, ZERO) + min(weight + less, ZERO))


@loose_kernel
def _set_emissions(first: int, corpus: PaddedCorpus, transition: Float32, scores: Float32, desk: Desk) -> float:
    """Scores [T, W], spoilt, and costs as factors of at most one; returns the logarithm of what they were divided by,

    less the score of the gold labelling.
    """
    total, n, width = 0.0, scores.shape[0], scores.shape[1]
    emission, gold, costs = desk.emission[:n], corpus.gold, corpus.costs
    for t in range(n):
        row, label = scores[t], gold[first + t]
        total -= row[label]
        if t > 0:
            total -= transition[gold[first + t - 1], label]
        if costs.shape[0]:
            cost = costs[2 if 0 < t < n - 1 else 1 if t < n - 1 else 3 if t > 0 else 0, label]
            for c in range(width):
                row[c] += cost[c]
        top = _greatest(row)
        for c in range(width):
            row[c] -= top
        total += top
    _exponentials(scores.ravel(), emission.ravel(), desk.bits, desk.powers)
    head, tail = emission[0], emission[n - 1]
    for c in range(width):
        head[c] *= corpus.start[c]
    for c in range(width):
        tail[c] *= corpus.stop[c]
    return total


@loose_kernel
def _multiply(vector: Float32, matrix: Float32, out: Float32) -> None:
    """``out = vector @ matrix`` [W], the matrix flat [W W], eight rows at a time."""
    w = out.shape[0]
    for c in range(w):
        out[c] = ZERO
    for p in range(0, w, 8):
        x0, x1, x2, x3 = vector[p], vector[p + 1], vector[p + 2], vector[p + 3]
        x4, x5, x6, x7 = vector[p + 4], vector[p + 5], vector[p + 6], vector[p + 7]
        m = matrix[p * w : (p + 8) * w]
        for c in range(w):
            low = (x0 * m[c] + x1 * m[w + c]) + (x2 * m[2 * w + c] + x3 * m[3 * w + c])
            high = (x4 * m[4 * w + c] + x5 * m[5 * w + c]) + (x6 * m[6 * w + c] + x7 * m[7 * w + c])
            out[c] += low + high


@loose_kernel
def _forward(emission: Float32, factors: Float32, alpha: Float32) -> float:
    """Forward probabilities scaled to one at each position [T, W]; the emissions are divided by the same.

    Returns the sum of the scales' logarithms, nan if one has underflown.
    """
    total, product, matrix = 0.0, 1.0, factors.ravel()
    for t in range(emission.shape[0]):
        now, e = alpha[t], emission[t]
        if t == 0:
            for c in range(e.shape[0]):
                now[c] = e[c]
        else:
            _multiply(alpha[t - 1], matrix, now)
            for c in range(e.shape[0]):
                now[c] *= e[c]
        scale = ZERO
        for c in range(now.shape[0]):
            scale += now[c]
        if not scale > LEAST:
            return np.nan
        inverse = ONE / scale
        for c in range(e.shape[0]):
            scaled = now[c] * inverse
            now[c] = scaled if scaled > NOTHING else ZERO
            e[c] *= inverse
        product *= float(scale)
        if product < SMALL_PRODUCT:
            total += math.log(product)
            product = 1.0
    return total + math.log(product)


@loose_kernel
def _backward(emission: Float32, alpha: Float32, turned: Float32, marginals: Float32, beta: Float32) -> None:
    """Marginals [T, W]; the emissions become the flow, emission(t) beta(t), from which the expected transitions are."""
    matrix = turned.ravel()
    for c in range(beta.shape[0]):
        beta[c] = ONE
    for t in range(emission.shape[0] - 1, -1, -1):
        now, e, marginal = alpha[t], emission[t], marginals[t]
        for c in range(beta.shape[0]):
            there = beta[c] if beta[c] > NOTHING else ZERO
            both = now[c] * there
            marginal[c] = both if both > NOTHING else ZERO
            e[c] *= there
        if t > 0:
            _multiply(e, matrix, beta)


@loose_kernel
def _add_pairs(alpha: Float32, flow: Float32, n_labels: int, pairs: Float32) -> None:
    """Add sum_t alpha(t - 1) flow(t)' to ``pairs`` [W, W]; times the factors they are the expected transitions."""
    n = alpha.shape[0]
    for p in range(n_labels):
        row = pairs[p]
        t = 1
        while t + 4 <= n:
            f0, f1, f2, f3 = flow[t], flow[t + 1], flow[t + 2], flow[t + 3]
            a0, a1, a2, a3 = alpha[t - 1, p], alpha[t, p], alpha[t + 1, p], alpha[t + 2, p]
            for c in range(row.shape[0]):
                row[c] += (a0 * f0[c] + a1 * f1[c]) + (a2 * f2[c] + a3 * f3[c])
            t += 4
        while t < n:
            f0, a0 = flow[t], alpha[t - 1, p]
            for c in range(row.shape[0]):
                row[c] += a0 * f0[c]
            t += 1


@loose_kernel
def _add_gradient(first: int, corpus: PaddedCorpus, parts: Float32, gradient: PaddedWeights) -> None:
    """Add the gradient by the part scores [T, W] of a sequence to that by the weights."""
    has_values = corpus.row_values.shape[0] + corpus.list_values.shape[0] > 0
    for t in range(parts.shape[0]):
        part = parts[t]
        for j in range(corpus.row_pointer[first + t], corpus.row_pointer[first + t + 1]):
            row, value = gradient.rows[corpus.row_ids[j]], corpus.row_values[j] if has_values else ONE
            for c in range(part.shape[0]):
                row[c] += value * part[c]
        for j in range(corpus.list_pointer[first + t], corpus.list_pointer[first + t + 1]):
            value = corpus.list_values[j] if has_values else ONE
            gradient.lists[corpus.list_ids[j]] += value * part[corpus.list_labels[j]]


@loose_kernel
def evaluate(
    sequences: Int64, corpus: PaddedCorpus, weights: PaddedWeights, n_labels: int, gradient: PaddedWeights
) -> float:
    """Losses of the ``sequences``, each times its weight; their gradient is added. nan if a sum has underflown.

    What falls on missing features of a row, and on transitions without a feature, is added, too.
    """
    width = weights.rows.shape[1]
    desk = _desk(corpus, sequences, width)
    greatest = _set_factors(weights.transition, corpus.allowed, desk)
    desk.pairs[:] = ZERO
    total = 0.0
    for k in range(sequences.shape[0]):
        i = sequences[k]
        first, n = corpus.offsets[i], corpus.offsets[i + 1] - corpus.offsets[i]
        emission, alpha, marginals = desk.emission[:n], desk.alpha[:n], desk.marginals[:n]
        _set_scores(first, corpus, weights, alpha)
        loss = _set_emissions(first, corpus, weights.transition, alpha, desk)
        loss += float(greatest) * (n - 1) + _forward(emission, desk.factors, alpha)
        if not loss < np.inf:
            return np.nan
        total += loss * corpus.sequence_weights[i]
        _backward(emission, alpha, desk.turned, marginals, desk.beta)
        weight = np.float32(corpus.sequence_weights[i])
        if weight != ONE:
            flow, probability = emission.ravel(), marginals.ravel()
            for c in range(flow.shape[0]):
                flow[c] *= weight
            for c in range(flow.shape[0]):
                probability[c] *= weight
        _add_pairs(alpha, emission, n_labels, desk.pairs)
        for t in range(n):
            part, label = marginals[t], corpus.gold[first + t]
            part[label] -= weight
            if t > 0:
                gradient.transition[corpus.gold[first + t - 1], label] -= weight
        _add_gradient(first, corpus, marginals, gradient)
    for p in range(n_labels):
        for c in range(n_labels):
            gradient.transition[p, c] += desk.factors[p, c] * desk.pairs[p, c]
    return total


class Moves(NamedTuple):
    """What a sequence's step adds to the rows that it looks at."""

    slot: Int32  # [R] the place of a row among them, -1 if it is not there
    row_ids: Int32  # which they are
    sums: Float32  # what is added to each


@loose_kernel
def _moves(corpus: PaddedCorpus, sequences: Int64, n_rows: int, width: int) -> Moves:
    most = 1
    for k in range(sequences.shape[0]):
        i = sequences[k]
        most = max(most, corpus.row_pointer[corpus.offsets[i + 1]] - corpus.row_pointer[corpus.offsets[i]])
    return Moves(np.full(n_rows, -1, np.int32), np.empty(most, np.int32), np.empty((most, width), np.float32))


@loose_kernel
def _add_up(
    first: int, corpus: PaddedCorpus, change: Float32, moves: Moves, squares: Float32
) -> tuple[int, np.float32]:
    """Add up what a change of marginals [T, W] means for each row; returns their number and the squared norm of it all.

    A list is taken to be looked at once.
    """
    used, width = 0, change.shape[1]
    has_values = corpus.row_values.shape[0] + corpus.list_values.shape[0] > 0
    for t in range(change.shape[0]):
        part = change[t]
        for j in range(corpus.row_pointer[first + t], corpus.row_pointer[first + t + 1]):
            place, value = moves.slot[corpus.row_ids[j]], corpus.row_values[j] if has_values else ONE
            if place < 0:
                moves.slot[corpus.row_ids[j]] = used
                moves.row_ids[used] = corpus.row_ids[j]
                row = moves.sums[used]
                for c in range(width):
                    row[c] = value * part[c]
                used += 1
            else:
                row = moves.sums[place]
                for c in range(width):
                    row[c] += value * part[c]
    for c in range(width):
        squares[c] = ZERO
    for place in range(used):
        row, has = moves.sums[place], corpus.has_feature[moves.row_ids[place]]
        for c in range(width):
            there = row[c] * np.float32(has[c])
            row[c] = there
            squares[c] += there * there
    square = ZERO
    for c in range(width):
        square += squares[c]
    for t in range(change.shape[0]):
        part = change[t]
        for j in range(corpus.list_pointer[first + t], corpus.list_pointer[first + t + 1]):
            there = part[corpus.list_labels[j]] * (corpus.list_values[j] if has_values else ONE)
            square += there * there
    return used, square


@loose_kernel
def _apply(
    first: int,
    corpus: PaddedCorpus,
    change: Float32,
    moves: Moves,
    used: int,
    factor: np.float32,
    weights: PaddedWeights,
) -> None:
    """Add ``factor`` times what :func:`_add_up` found to rows and lists; nothing is in ``moves`` afterwards."""
    has_values = corpus.row_values.shape[0] + corpus.list_values.shape[0] > 0
    for place in range(used):
        row, there = weights.rows[moves.row_ids[place]], moves.sums[place]
        for c in range(row.shape[0]):
            row[c] += factor * there[c]
        moves.slot[moves.row_ids[place]] = -1
    for t in range(change.shape[0]):
        part = change[t]
        for j in range(corpus.list_pointer[first + t], corpus.list_pointer[first + t + 1]):
            value = corpus.list_values[j] if has_values else ONE
            weights.lists[corpus.list_ids[j]] += factor * value * part[corpus.list_labels[j]]


@loose_kernel
def _change_of_marginals(first: int, gold: Int32, kept: Float32, marginals: Float32, squares: Float32) -> np.float32:
    """Marginals [T, W] become the difference to those that are kept; returns its size by chi-square."""
    for c in range(squares.shape[0]):
        squares[c] = ZERO
    for t in range(marginals.shape[0]):
        now, before, label = marginals[t], kept[first + t], gold[first + t]
        before[label] += ONE
        for c in range(squares.shape[0]):
            change = now[c] - before[c]
            squares[c] += TWO * change * change / (now[c] + before[c] + TINY)
            now[c] = change
        before[label] -= ONE
    size = ZERO
    for c in range(squares.shape[0]):
        size += squares[c]
    return size


@loose_kernel
def dual_pass(
    sequences: Int64,
    corpus: PaddedCorpus,
    weights: PaddedWeights,
    n_labels: int,
    shrink: float,
    l2: float,
    caution: float,
    kept: Float32,
    kept_transitions: Float32,
    losses: Float,
    gaps: Float,
) -> None:
    """A step for each of the ``sequences`` in turn; losses and gaps [S] as they were met, nan where one has underflown.

    ``kept`` [N, W] and ``kept_transitions`` [S, F] are the marginals less the gold that the weights are made of; the
    weights that scores are made of are nearer to zero by ``shrink``.
    """
    width = weights.rows.shape[1]
    desk, moves = _desk(corpus, sequences, width), _moves(corpus, sequences, weights.rows.shape[0], width)
    squares, shrunk = np.empty(width, np.float32), np.zeros((width, width), np.float32)
    less, places = np.float32(shrink), corpus.transition_places
    flat, flat_shrunk = weights.transition.ravel(), shrunk.ravel()
    pairs, factors = desk.pairs.ravel(), desk.factors.ravel()
    for k in range(sequences.shape[0]):
        i = sequences[k]
        first, n = corpus.offsets[i], corpus.offsets[i + 1] - corpus.offsets[i]
        emission, alpha, change = desk.emission[:n], desk.alpha[:n], desk.marginals[:n]
        for c in range(flat.shape[0]):
            flat_shrunk[c] = max(flat[c] - less, ZERO) + min(flat[c] + less, ZERO)
        greatest = _set_factors(shrunk, corpus.allowed, desk)
        if shrink > 0.0:
            _set_shrunk_scores(first, corpus, weights, shrink, alpha)
        else:
            _set_scores(first, corpus, weights, alpha)
        loss = _set_emissions(first, corpus, shrunk, alpha, desk)
        loss += float(greatest) * (n - 1) + _forward(emission, desk.factors, alpha)
        if not loss < np.inf:
            losses[i] = gaps[i] = np.nan  # it keeps its marginals this time
            continue
        _backward(emission, alpha, desk.turned, change, desk.beta)
        for c in range(pairs.shape[0]):
            pairs[c] = ZERO
        _add_pairs(alpha, emission, n_labels, desk.pairs)
        for c in range(pairs.shape[0]):
            pairs[c] *= factors[c]
        for t in range(1, n):
            desk.pairs[corpus.gold[first + t - 1], corpus.gold[first + t]] -= ONE
        size = _change_of_marginals(first, corpus.gold, kept, change, squares)
        used, square = _add_up(first, corpus, change, moves, squares)
        old = kept_transitions[i]
        for f in range(places.shape[0]):
            there = pairs[places[f]] - old[f]
            pairs[places[f]] = there
            square += there * there
        weight = corpus.sequence_weights[i]
        losses[i], gaps[i] = weight * loss, weight * 0.5 * size
        share = np.float32(size / (size + caution * weight / (2.0 * l2) * square + LEAST))
        factor = np.float32(-weight / (2.0 * l2)) * share
        for f in range(places.shape[0]):
            old[f] += share * pairs[places[f]]
            flat[places[f]] += factor * pairs[places[f]]
        for t in range(n):
            part, before = change[t], kept[first + t]
            for c in range(width):
                before[c] += share * part[c]
        _apply(first, corpus, change, moves, used, factor, weights)
