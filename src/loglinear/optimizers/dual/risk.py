"""The steps of dual ascent for risk and the Jensen risk bound, which have no dual: SDCA without duality.

Where the gradient of  sum_i c_i loss_i(w) + l2 ||w||^2  is zero, the weights are

    w(alpha) = -(1 / 2 l2) sum_i c_i E_alpha_i[f]         with alpha_i = g_i, the gradient of loss_i by the part scores

whether the losses are convex or not. So the passes of :mod:`~loglinear.optimizers.dual.chain` are made for smooth losses
in general (Shalev-Shwartz 2016, "SDCA without duality, regularization, and individual convexity"): each step moves the
gradient that is kept for a sequence towards its gradient under the current weights, and the weights with it.

1. g_i <- the gradient of sequence i under the current weights,  Delta <- g_i - alpha_i
2. J <- sum_t,y 2 Delta^2 / (CURVATURE (spread + |alpha_i|)),  Q <- ||E_Delta[f]||^2
3. gamma <- J / (J + caution c_i Q / 2 l2)
4. alpha_i <- alpha_i + gamma Delta,  w <- w - (c_i gamma / 2 l2) E_Delta[f]

J stands for Delta' H^-1 Delta with the curvature H of the loss in score space, which the spread of
:mod:`~loglinear.structures.chain.risk` bounds up to a factor. What is stored is alpha_i plus the gold labelling: for
conditional likelihood, from whose model training starts, those are the marginals of the dual, so that its state is a
start here. The sum of c_i J / 2 says how far the passes are from a stationary point. Where losses are convex it is
about the gap; here it bounds nothing.
"""

from __future__ import annotations

import numpy as np

from loglinear.arrays import Float, Float32, Int64
from loglinear.kernels import loose_kernel
from loglinear.kernels.lanes import Width, block_length, greater, load, row_length, same, store, total
from loglinear.structures.chain.padded import (
    LEAST,
    ONE,
    TINY,
    TWO,
    ZERO,
    PaddedWeights,
    Workspace,
    add_sums_to_rows,
    add_to_alpha,
    add_to_lists,
    add_up,
    fetch_pointers,
    fetch_sequence,
    moves_of,
    set_factors,
    set_scores,
    workspace,
)
from loglinear.structures.chain.risk import RiskCorpus, RiskWork, part_gradient, risk_work

CURVATURE = np.float32(1.5)  # less takes fewer passes on some data and settles on none


@loose_kernel
def _set_change(
    first: int, n: int, gold: Float32, alpha: Float32, width: Width, work: Workspace, more: RiskWork
) -> np.float32:
    """Replace the gradient ``work.marginals`` by Delta; returns J. ``gold`` [W] is scratch of zeros."""
    w, block, kept, size = row_length(width), block_length(width), alpha.ravel(), same(ZERO, width)
    for t in range(n):
        for c in range(0, w, block):
            before = load(kept, (first + t) * w + c, width) - load(gold, t * w + c, width)
            change = load(work.marginals, t * w + c, width) - before
            curvature = CURVATURE * (load(more.spread, t * w + c, width) + greater(before, ZERO - before)) + TINY
            size = size + change * change / curvature  # type: ignore[assignment]  # NumPy types a quotient of float32 as float64
            store(work.marginals, t * w + c, change)
    return TWO * total(size)


@loose_kernel
def risk_pass(
    kind: int,
    sequences: Int64,
    corpus: RiskCorpus,
    weights: PaddedWeights,
    n_labels: int,
    width: Width,
    shrink: float,
    l2: float,
    caution: float,
    alpha: Float32,
    alpha_transitions: Float32,
    losses: Float,
    gaps: Float,
) -> None:
    """:func:`~loglinear.structures.chain.padded.dual_pass` of the criterion ``kind``; Q is computed in every step."""
    data, less, w = corpus.plain, np.float32(shrink), row_length(width)
    work, moves = workspace(data, sequences, width), moves_of(data, sequences, weights.rows.shape[0], width)
    more, places, transition = risk_work(work), data.transition_places, weights.transition.ravel()
    gold, gold_pairs = np.zeros(work.emission.shape[0], np.float32), np.zeros(w * w, np.float32)
    n_sequences = sequences.shape[0]
    for k in range(n_sequences):
        if k + 2 < n_sequences:
            fetch_pointers(sequences[k + 2], data)
            fetch_sequence(sequences[k + 1], data, alpha, width)
        i = sequences[k]
        first, n = data.offsets[i], data.offsets[i + 1] - data.offsets[i]
        weight, old = data.sequence_weights[i], alpha_transitions[i]
        set_factors(weights.transition, less, data.allowed, n_labels, width, work)
        set_scores(first, n, data, weights, less, width, work)
        loss = part_gradient(kind, first, n, n_labels, corpus, width, work, more)
        if not loss < np.inf:
            losses[i] = gaps[i] = np.nan  # alpha_i stays as it is
            continue
        for t in range(n):
            gold[t * w + data.gold[first + t]] = ONE
            if t > 0:
                gold_pairs[data.gold[first + t - 1] * w + data.gold[first + t]] += ONE
        size = _set_change(first, n, gold, alpha, width, work, more)
        used, square = add_up(first, n, data, weights, width, work, moves)
        for f in range(places.shape[0]):
            there = work.pairs[places[f]] * work.factors[places[f]] + gold_pairs[places[f]] - old[f]
            work.pairs[places[f]] = there
            square += there * there
        losses[i], gaps[i] = weight * loss, weight * 0.5 * size
        gamma = np.float32(size / (size + caution * weight / (2.0 * l2) * square + LEAST))
        factor = np.float32(-weight / (2.0 * l2)) * gamma
        for f in range(places.shape[0]):
            old[f] += gamma * work.pairs[places[f]]
            transition[places[f]] += factor * work.pairs[places[f]]
        add_to_alpha(first, n, gamma, width, work, alpha)
        add_sums_to_rows(used, factor, width, moves, weights)
        add_to_lists(first, n, data, factor, width, work, weights)
        for t in range(n):
            gold[t * w + data.gold[first + t]] = ZERO
            if t > 0:
                gold_pairs[data.gold[first + t - 1] * w + data.gold[first + t]] = ZERO
