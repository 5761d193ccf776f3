"""Pieces with free contexts in single precision: piecewise training, and with "none of the above".

For first-order chains without edge features, in the layout of :mod:`~loglinear.structures.chain.padded`. With
f_t(y) = exp s_t(y) and A(y', y) = exp transition(y', y), both scaled by their maxima, and 0 for what is ruled out:

    piecewise     z_t = sum_y f_t(y) sum_y' A(y', y)        mu_t(y', y) = f_t(y) A(y', y) / z_t
    nota          z_t(y') = 1 + sum_y f_t(y) A(y', y)       mu_t(y', y) = f_t(y) A(y', y) / z_t(y')

where nota has those contexts y' that count. The first piece of a sequence has no context. A sequence is one unit of
dual ascent, as in a chain: kept are the expected labels of each position, alpha_t(y) = sum_y' alpha_t(y', y), and the
expected transitions of the sequence. O(Y) for a position of piecewise training, O(Y^2) with none of the above.

**The step** is that of a chain. J is estimated from what is kept: the distance of the expected labels, in piecewise
training plus that of the expected transitions, which hold what there is to learn about y'.

**The gap** is estimated by J of labels and transitions, twice what it is in a chain, since sums over contexts tell less
than the contexts do. With none of the above Q is measured in every pass: all contexts move the same weights, and how
much positions share them changes from pass to pass.
"""

from __future__ import annotations

import math

import numpy as np

from loglinear.arrays import Float, Float32, Int32, Int64, UInt8
from loglinear.features.encoding import EncodedCorpus
from loglinear.kernels import loose_kernel
from loglinear.kernels.lanes import (
    Width,
    above,
    block_length,
    greater,
    greatest,
    load,
    row_length,
    same,
    store,
    total,
)
from loglinear.structures.chain.features import ChainFeatures, Penalties
from loglinear.structures.chain.padded import (
    SMALL_PRODUCT,
    PaddedCorpus,
    PaddedLayout,
    Workspace,
    add_pairs,
    set_emissions,
    set_factors,
    take_step,
    workspace,
)
from loglinear.structures.rows import (
    LEAST,
    LOWEST,
    NOTHING,
    ONE,
    TINY,
    TWO,
    ZERO,
    Kept,
    PaddedWeights,
    Step,
    add_up,
    moves_of,
    set_scores,
)

LARGE_PRODUCT = 1e200
ALL_CONTEXTS = np.zeros((0, 0), dtype=np.uint8)


class PieceLayout(PaddedLayout):
    """Weights and corpus for passes over pieces.

    Parameters
    ----------
    features, encoded, penalties, gold, sequence_weights
        As for a :class:`~loglinear.structures.chain.padded.PaddedLayout`.
    nothing : bool
        Whether "none of the above", of score 0, is one more outcome.
    contexts : uint8 [N, Y] or None
        With none of the above: the contexts that count beside the right ones, at their positions; None for all.
    """

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
        self.measure_every = 1 if nothing else PaddedLayout.measure_every
        self.nothing, self.contexts = nothing, ALL_CONTEXTS if contexts is None else np.array(contexts)

    def dual_pass(
        self, sequences: Int64, weights: PaddedWeights, step: Step, kept: Kept, losses: Float, gaps: Float
    ) -> None:
        """A step for each of the ``sequences``; ``losses`` and ``gaps`` [S] before it."""
        pieces = (self.corpus, weights, self.n_labels, self.lanes, self.nothing, self.contexts)
        piece_pass(sequences, *pieces, *step, *kept[:3], losses, gaps)

    def losses(self, sequences: Int64, weights: PaddedWeights) -> float:
        """Losses of the ``sequences``, each times its weight; nan if scores leave single precision."""
        pieces = (self.corpus, weights, self.n_labels, self.lanes, self.nothing, self.contexts)
        return piece_losses(sequences, *pieces)


@loose_kernel
def _pool(n: int, n_labels: int, top: np.float32, width: Width, work: Workspace) -> float:
    """``work.marginals`` of piecewise training, and ``work.pairs``, to be multiplied by the factors.

    Returns the sum of log z_t but for the emissions' maxima, nan after an underflow.
    """
    w, block, log_z = row_length(width), block_length(width), float(top) * (n - 1)
    for c in range(0, w, block):
        pooled = same(ZERO, width)
        for p in range(n_labels):
            pooled = pooled + load(work.factors, p * w + c, width)
        store(work.backward, c, pooled)
    for t in range(n):
        mass = same(ZERO, width)
        for c in range(0, w, block):
            now = load(work.emission, t * w + c, width)
            if t > 0:
                now = now * load(work.backward, c, width)
            mass = mass + now
            store(work.marginals, t * w + c, now)
        scale = total(mass)
        if not scale > LEAST:
            return np.nan
        log_z += math.log(scale)
        for c in range(0, w, block):
            store(work.marginals, t * w + c, above((ONE / scale) * load(work.marginals, t * w + c, width), NOTHING))
    for c in range(0, w, block):
        labels = same(ZERO, width)
        for t in range(1, n):
            labels = labels + load(work.marginals, t * w + c, width)
        share = labels / (load(work.backward, c, width) + NOTHING)
        for p in range(n_labels):
            store(work.pairs, p * w + c, share)
    return log_z


@loose_kernel
def _abstain(
    first: int, n: int, n_labels: int, top: np.float32, corpus: PaddedCorpus, contexts: UInt8, width: Width,
    work: Workspace,
) -> float:  # fmt: skip
    """The same with none of the above, maxima included; of the wrong ``contexts`` [N, Y], or all if they are empty."""
    w, block, log_z, product = row_length(width), block_length(width), 0.0, 1.0
    for c in range(0, w * w, block):
        store(work.pairs, c, same(ZERO, width))
    for t in range(n):
        most, row = same(LOWEST, width), t * w
        for c in range(0, w, block):
            most = greater(most, load(work.scores, row + c, width))
        peak = float(greatest(most)) + (float(top) if t > 0 else 0.0)
        shift = max(peak, 0.0)
        scale, more = np.float32(math.exp(peak - shift)), np.float32(math.exp(-shift))
        if t == 0:
            mass = same(ZERO, width)
            for c in range(0, w, block):
                mass = mass + load(work.emission, c, width)
            value = more + scale * total(mass)
            if not value > LEAST:
                return np.nan
            log_z += shift + math.log(value)
            for c in range(0, w, block):
                store(work.marginals, c, above((scale / value) * load(work.emission, c, width), NOTHING))
            continue
        before = row - w
        for c in range(0, w, block):
            one, two = same(ZERO, width), same(ZERO, width)
            for y in range(0, n_labels, 2):
                one = one + work.emission[row + y] * load(work.turned, y * w + c, width)
                two = two + work.emission[row + y + 1] * load(work.turned, (y + 1) * w + c, width)
            store(work.forward, before + c, one + two)
        for p in range(w):
            z = work.forward[before + p]
            counts = p < n_labels and (
                contexts.shape[0] == 0 or p == corpus.gold[first + t - 1] or contexts[first + t - 1, p] > 0
            )
            if not (counts and z > ZERO):  # a context without a possible label answers nothing
                work.forward[before + p] = ZERO
                continue
            value = more + scale * z
            if not value > LEAST:
                return np.nan
            product *= float(value)
            log_z += shift
            work.forward[before + p] = scale / value
            if product < SMALL_PRODUCT or product > LARGE_PRODUCT:
                log_z += math.log(product)
                product = 1.0
        for c in range(0, w, block):
            one, two = same(ZERO, width), same(ZERO, width)
            for p in range(0, n_labels, 2):
                one = one + work.forward[before + p] * load(work.factors, p * w + c, width)
                two = two + work.forward[before + p + 1] * load(work.factors, (p + 1) * w + c, width)
            store(work.marginals, row + c, above(load(work.emission, row + c, width) * (one + two), NOTHING))
    add_pairs(n, n_labels, width, work)
    return log_z + math.log(product)


@loose_kernel
def piece_losses(
    sequences: Int64, corpus: PaddedCorpus, weights: PaddedWeights, n_labels: int, width: Width, nothing: bool,
    contexts: UInt8,
) -> float:  # fmt: skip
    """Losses of the ``sequences``, each times its weight; nan after an underflow."""
    work, no_alpha, losses = workspace(corpus, sequences, width), np.empty((0, 0), np.float32), 0.0
    top = set_factors(weights.transition, ZERO, corpus.allowed, n_labels, width, work)
    for k in range(sequences.shape[0]):
        i = sequences[k]
        first, n = corpus.offsets[i], corpus.offsets[i + 1] - corpus.offsets[i]
        set_scores(first, n, corpus, weights, ZERO, width, work)
        top_scores, gold_score, _ = set_emissions(first, n, corpus, no_alpha, width, work)
        if nothing:
            log_z = _abstain(first, n, n_labels, top, corpus, contexts, width, work)
        else:
            log_z = top_scores + _pool(n, n_labels, top, width, work)
        losses += corpus.sequence_weights[i] * (log_z - gold_score)
    return losses


@loose_kernel
def _set_change(
    first: int, n: int, n_labels: int, corpus: PaddedCorpus, nothing: bool, contexts: UInt8, alpha: Float32,
    width: Width, work: Workspace,
) -> tuple[float, float, float]:  # fmt: skip
    """Replace the marginals mu by Delta = mu - alpha; returns J, Q as if no feature was shared, and the most entropy.

    J is that of the sums over contexts, which is less than that of all contexts.
    """
    w, block, kept = row_length(width), block_length(width), alpha.ravel()
    size, apart, n_contexts, none = same(ZERO, width), same(ZERO, width), 0.0, ZERO
    for t in range(n):
        n_rows = corpus.row_pointer[first + t + 1] - corpus.row_pointer[first + t]
        looked_at = np.float32(n_rows + corpus.list_pointer[first + t + 1] - corpus.list_pointer[first + t])
        mass, mass_before = same(ZERO, width), same(ZERO, width)
        for c in range(0, w, block):
            now, old = load(work.marginals, t * w + c, width), load(kept, (first + t) * w + c, width)
            change = now - old
            size = size + change * change / (now + old + TINY)  # type: ignore[assignment]  # NumPy types a quotient of float32 as float64
            apart = apart + looked_at * change * change
            mass, mass_before = mass + now, mass_before + old
            store(work.marginals, t * w + c, change)
        if nothing:
            all_contexts = ONE
            if t > 0 and contexts.shape[0] == 0:
                all_contexts = np.float32(n_labels)
            elif t > 0:
                for p in range(n_labels):
                    if p != corpus.gold[first + t - 1] and contexts[first + t - 1, p] > 0:
                        all_contexts += ONE
            n_contexts += float(all_contexts)
            one, other = total(mass), total(mass_before)
            none += (one - other) * (one - other) / (abs(all_contexts - one) + abs(all_contexts - other) + TINY)
    outcomes = n_contexts * math.log(n_labels + 1.0) if nothing else (2 * n - 1) * math.log(n_labels)
    return float(TWO * (total(size) + none)), float(total(apart)), outcomes


@loose_kernel
def piece_pass(
    sequences: Int64, corpus: PaddedCorpus, weights: PaddedWeights, n_labels: int, width: Width, nothing: bool,
    contexts: UInt8, shrink: float, l2: float, caution: float, measure: bool, alpha: Float32,
    alpha_transitions: Float32, overlaps: Float32, losses: Float, gaps: Float,
) -> None:  # fmt: skip
    """A step for each of the ``sequences`` in turn; losses and gaps [S] before each step, nan after an underflow.

    As :func:`~loglinear.structures.chain.padded.dual_pass`, with ``nothing`` for none of the above in the gold and the
    ``contexts`` [N, Y] (all if empty).
    """
    less, places = np.float32(shrink), corpus.transition_places
    work, moves = workspace(corpus, sequences, width), moves_of(corpus, sequences, weights.rows.shape[0], width)
    pairs, factors = work.pairs, work.factors
    for k in range(sequences.shape[0]):
        i = sequences[k]
        first, n = corpus.offsets[i], corpus.offsets[i + 1] - corpus.offsets[i]
        weight, old = corpus.sequence_weights[i], alpha_transitions[i]
        top = set_factors(weights.transition, less, corpus.allowed, n_labels, width, work)
        set_scores(first, n, corpus, weights, less, width, work)
        top_scores, gold_score, expected = set_emissions(first, n, corpus, alpha, width, work)
        if nothing:
            log_z = _abstain(first, n, n_labels, top, corpus, contexts, width, work)
        else:
            log_z = top_scores + _pool(n, n_labels, top, width, work)
        if not log_z - gold_score < np.inf:
            losses[i] = gaps[i] = np.nan  # alpha_i stays as it is
            continue
        size, apart, most_entropy = _set_change(first, n, n_labels, corpus, nothing, contexts, alpha, width, work)
        used, distance = -1, size
        if measure:
            used, square = add_up(first, n, corpus, weights, width, work, moves)
            overlaps[i] = square / (apart + LEAST)
        else:
            square = overlaps[i] * apart
        for f in range(places.shape[0]):
            now = pairs[places[f]] * factors[places[f]]
            expected += work.transition[places[f]] * old[f]
            pairs[places[f]] = now - old[f]
            square += (now - old[f]) * (now - old[f])
            distance += 2.0 * (now - old[f]) * (now - old[f]) / (now + old[f] + TINY)
        losses[i] = weight * (log_z - gold_score)
        # the divergence is at least the second term, and at most about the first where the two are close
        gaps[i] = weight * max(distance, log_z - expected - most_entropy)
        if not nothing:
            size = distance
        take_step(i, size, square, used, l2, caution, corpus, weights, width, alpha, alpha_transitions, work, moves)
