"""One pass of dual coordinate ascent over the sequences of a first-order chain, in single precision.

For each sequence: scores of its positions, forward and backward over probabilities scaled to one at each position, and
the step (:mod:`~loglinear.optimizers.dual`). All rows have W numbers, a multiple of eight; those from Y on stay zero.
Loops over slices of a row are what the compiler turns into vector instructions.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from loglinear.kernels import loose_kernel

Float = npt.NDArray[np.float64]
Float32 = npt.NDArray[np.float32]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

ZERO, ONE, HALF = np.float32(0.0), np.float32(1.0), np.float32(0.5)
LEAST = np.float32(1e-30)  # a smaller sum of scaled probabilities has underflown
LOG2_E, LN2_HIGH, LN2_LOW = np.float32(1.44269504), np.float32(0.693359375), np.float32(-2.12194440e-4)
LOWEST_EXPONENT = np.float32(-87.0)
C2, C3, C4, C5, C6, C7 = (
    np.float32(c)
    for c in (5.0000001201e-1, 1.6666665459e-1, 4.1665795894e-2, 8.3334519073e-3, 1.3981999507e-3, 1.9875691500e-4)
)
UNDERFLOW = 1


@loose_kernel
def _exponentials(x: Float32, shift: float, out: Float32, bits: Int32, powers: Float32) -> None:
    """``out = exp(x - shift)`` for x at most ``shift``; ``powers`` is the memory of ``bits`` seen as float32.

    exp(r) 2^n with r at most log(2) / 2 in size: a polynomial (Cephes), and n put into a number's exponent bits.
    """
    for c in range(x.shape[0]):
        v = max(x[c] - shift, LOWEST_EXPONENT)
        n = math.floor(v * LOG2_E + HALF)
        r = v - n * LN2_HIGH - n * LN2_LOW
        polynomial = ((((C7 * r + C6) * r + C5) * r + C4) * r + C3) * r + C2
        out[c] = polynomial * (r * r) + r + ONE
        bits[c] = (np.int32(n) + np.int32(127)) << np.int32(23)
    for c in range(x.shape[0]):
        out[c] *= powers[c]


@loose_kernel
def _transition_factors(
    transition: Float32,
    factor: Float32,
    n_labels: int,
    out: Float32,
    turned: Float32,
    bits: Int32,
    powers: Float32,
) -> float:
    """``out = exp(transition - greatest) * factor`` [W, W] and its transpose; returns the greatest score."""
    greatest = transition[0, 0]
    for p in range(n_labels):
        for c in range(n_labels):
            greatest = max(greatest, transition[p, c])
    for p in range(n_labels):
        row, allowed = out[p], factor[p]
        _exponentials(transition[p], greatest, row, bits, powers)
        for c in range(row.shape[0]):
            row[c] *= allowed[c]
    for p in range(n_labels):
        for c in range(n_labels):
            turned[c, p] = out[p, c]
    return greatest


@loose_kernel
def _add_scores(
    first: int,
    middle: int,
    end: int,
    ids: Int32,
    values: Float32,
    rows: Float32,
    list_pointer: Int64,
    list_labels: Int32,
    lists: Float32,
    out: Float32,
) -> None:
    """Add the scores of a position's rows and lists to ``out`` [W]."""
    has_values = values.shape[0] > 0
    for j in range(first, middle):
        row = rows[ids[j]]
        if has_values:
            value = values[j]
            for c in range(out.shape[0]):
                out[c] += value * row[c]
        else:
            for c in range(out.shape[0]):
                out[c] += row[c]
    for j in range(middle, end):
        value = values[j] if has_values else ONE
        for f in range(list_pointer[ids[j]], list_pointer[ids[j] + 1]):
            out[list_labels[f]] += value * lists[f]


@loose_kernel
def _add_step(
    first: int,
    middle: int,
    end: int,
    ids: Int32,
    values: Float32,
    rows: Float32,
    has_feature: Float32,
    list_pointer: Int64,
    list_labels: Int32,
    lists: Float32,
    step: Float32,
) -> None:
    """Add a position's step [W] to its rows, where they have features, and lists."""
    has_values = values.shape[0] > 0
    for j in range(first, middle):
        row, has = rows[ids[j]], has_feature[ids[j]]
        if has_values:
            value = values[j]
            for c in range(step.shape[0]):
                row[c] += value * step[c] * has[c]
        else:
            for c in range(step.shape[0]):
                row[c] += step[c] * has[c]
    for j in range(middle, end):
        value = values[j] if has_values else ONE
        for f in range(list_pointer[ids[j]], list_pointer[ids[j] + 1]):
            lists[f] += value * step[list_labels[f]]


@loose_kernel
def _forward(emission: Float32, factors: Float32, n_labels: int, alpha: Float32) -> float:
    """Forward probabilities scaled to one at each position [T, W]; the emissions are divided by the same.

    Returns the sum of the scales' logarithms, nan if one has underflown.
    """
    total = 0.0
    for t in range(emission.shape[0]):
        now, e = alpha[t], emission[t]
        if t == 0:
            for c in range(e.shape[0]):
                now[c] = e[c]
        else:
            before = alpha[t - 1]
            for c in range(e.shape[0]):
                now[c] = ZERO
            for p in range(n_labels):
                share, row = before[p], factors[p]
                for c in range(e.shape[0]):
                    now[c] += share * row[c]
            for c in range(e.shape[0]):
                now[c] *= e[c]
        scale = ZERO
        for c in range(n_labels):
            scale += now[c]
        if not scale > LEAST:
            return np.nan
        inverse = ONE / scale
        for c in range(e.shape[0]):
            now[c] *= inverse
            e[c] *= inverse
        total += math.log(scale)
    return total


@loose_kernel
def _backward(
    emission: Float32, alpha: Float32, turned: Float32, n_labels: int, beta: Float32, flow: Float32, pairs: Float32
) -> None:
    """Marginals into ``alpha`` [T, W], and sum_t alpha(t - 1) flow(t)' into ``pairs`` [W, W].

    ``pairs`` times the transition factors are the expected transitions.
    """
    for p in range(n_labels):
        row = pairs[p]
        for c in range(row.shape[0]):
            row[c] = ZERO
    for c in range(beta.shape[0]):
        beta[c] = ONE
    for t in range(emission.shape[0] - 1, -1, -1):
        now, e = alpha[t], emission[t]
        for c in range(beta.shape[0]):
            flow[c] = e[c] * beta[c]
            now[c] *= beta[c]
        if t == 0:
            break
        before = alpha[t - 1]
        for c in range(beta.shape[0]):
            beta[c] = ZERO
        for y in range(n_labels):
            share, row = flow[y], turned[y]
            for c in range(beta.shape[0]):
                beta[c] += share * row[c]
        for p in range(n_labels):
            share, row = before[p], pairs[p]
            for c in range(row.shape[0]):
                row[c] += share * flow[c]


@loose_kernel
def dual_pass(
    sequences: Int64,
    offsets: Int64,
    pointer: Int64,
    middle: Int64,
    ids: Int32,
    values: Float32,
    rows: Float32,
    has_feature: Float32,
    list_pointer: Int64,
    list_labels: Int32,
    lists: Float32,
    transition: Float32,
    has_transition: Float32,
    transition_factor: Float32,
    start: Float32,
    stop: Float32,
    gold: Int32,
    costs: Float32,
    sequence_weights: Float,
    n_labels: int,
    step: float,
    l2: float,
    kept: Float32,
    kept_transitions: Float32,
    losses: Float,
) -> int:
    """A step for each of the ``sequences`` in turn; losses [S] as they were met. UNDERFLOW ends it early.

    ``costs`` [4, Y, W] is empty where there is none; ``kept`` [N, W] and ``kept_transitions`` [S, Y, Y] are the
    marginals less the gold that the weights are made of.
    """
    width = rows.shape[1]
    longest = 0
    for k in range(sequences.shape[0]):
        longest = max(longest, offsets[sequences[k] + 1] - offsets[sequences[k]])
    emissions, alphas = np.empty((longest, width), np.float32), np.empty((longest, width), np.float32)
    scores, beta, flow = np.empty(width, np.float32), np.empty(width, np.float32), np.empty(width, np.float32)
    bits = np.empty(width, np.int32)
    powers = bits.view(np.float32)
    factors, turned = np.zeros((width, width), np.float32), np.zeros((width, width), np.float32)
    pairs, of_gold = np.zeros((width, width), np.float32), np.zeros((width, width), np.float32)
    for k in range(sequences.shape[0]):
        i = sequences[k]
        lo, n = offsets[i], offsets[i + 1] - offsets[i]
        emission, alpha = emissions[:n], alphas[:n]
        greatest = _transition_factors(transition, transition_factor, n_labels, factors, turned, bits, powers)
        loss = float(greatest) * (n - 1)
        for t in range(n):
            for c in range(width):
                scores[c] = ZERO
            place = lo + t
            _add_scores(
                pointer[place], middle[place], pointer[place + 1], ids, values, rows, list_pointer, list_labels, lists,
                scores,
            )  # fmt: skip
            label = gold[place]
            loss -= scores[label]
            if t > 0:
                loss -= transition[gold[place - 1], label]
                of_gold[gold[place - 1], label] += ONE
            if costs.shape[0]:
                kind = 2 if 0 < t < n - 1 else 1 if t < n - 1 else 3 if t > 0 else 0
                cost = costs[kind, label]
                for c in range(width):
                    scores[c] += cost[c]
            top = scores[0]
            for c in range(1, n_labels):
                top = max(top, scores[c])
            _exponentials(scores, top, emission[t], bits, powers)
            for c in range(n_labels, width):
                emission[t, c] = ZERO
            loss += top
        for c in range(width):
            emission[0, c] *= start[c]
            emission[n - 1, c] *= stop[c]
        loss += _forward(emission, factors, n_labels, alpha)
        if not loss < np.inf:
            return UNDERFLOW
        losses[i] = loss * sequence_weights[i]
        _backward(emission, alpha, turned, n_labels, beta, flow, pairs)
        weight = sequence_weights[i]
        share = np.float32(step / max(1.0, weight))
        factor = np.float32(-weight / (2.0 * l2))
        old = kept_transitions[i]
        for p in range(n_labels):
            for c in range(n_labels):
                change = share * (factors[p, c] * pairs[p, c] - of_gold[p, c] - old[p, c])
                old[p, c] += change
                transition[p, c] += factor * change * has_transition[p, c]
                of_gold[p, c] = ZERO
        for t in range(n):
            now, before = alpha[t], kept[lo + t]
            now[gold[lo + t]] -= ONE
            for c in range(width):
                change = share * (now[c] - before[c])
                before[c] += change
                now[c] = factor * change
            place = lo + t
            _add_step(
                pointer[place], middle[place], pointer[place + 1], ids, values, rows, has_feature, list_pointer,
                list_labels, lists, now,
            )  # fmt: skip
    return 0
