"""Risk and the Jensen risk bound of padded chains, in single precision: losses and gradients by the part scores.

With the costs c and the marginals mu of a sequence (:mod:`~loglinear.criteria.risk`, :mod:`~loglinear.criteria.jrb`):

    jrb      loss = log Z(s + c) - log Z(s)         gradient: mu_{s+c} - mu_s, by two forward-backward passes
    risk     loss = E_s[c]                          gradient: the covariance of the cost and the parts

The covariance carries a second number with each probability, as in :mod:`~loglinear.structures.chain.covariance`. With
the scaled forward probabilities a, backward sums b, emissions e and transition factors M of
:mod:`~loglinear.structures.chain.padded`:

    d_t(y)  = cost_t(y) - sum_y mu_t(y) cost_t(y)                        E[c] is the sum over t of what is subtracted
    l_t(y)  = e_t(y) (r_t(y) + d_t(y) b_t(y)),   r_{t-1} = M l_t         r is the cost after t - 1, and zero at the end
    f_t(y)  = a_t(y) d_t(y) + e_t(y) sum_y' f_{t-1}(y') M(y', y)          the cost up to t
    cov(c, 1[y_t = y])               = f_t(y) b_t(y) + a_t(y) r_t(y)
    cov(c, 1[y_{t-1} = y', y_t = y]) = M(y', y) (f_{t-1}(y') e_t(y) b_t(y) + a_{t-1}(y') l_t(y))

Each position's costs are centred before they are added up, so that sums stay about as large as the covariances. Both
take O(T Y^2), about twice as long as a gradient of the conditional likelihood.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from loglinear.arrays import Float, Float32, Int32, Int64
from loglinear.features.encoding import EncodedCorpus
from loglinear.kernels import loose_kernel
from loglinear.kernels.lanes import Lanes, Width, above, block_length, greater, load, row_length, same, store, total
from loglinear.structures.chain.features import ChainFeatures, Penalties
from loglinear.structures.chain.padded import (
    PaddedCorpus,
    PaddedLayout,
    Workspace,
    add_pairs,
    backward,
    fetch_pointers,
    fetch_sequence,
    forward,
    set_emissions,
    set_factors,
    take_step,
    workspace,
)
from loglinear.structures.rows import (
    NO_COSTS,
    NOTHING,
    ONE,
    TINY,
    TWO,
    ZERO,
    Kept,
    PaddedWeights,
    Step,
    add_gradient,
    add_up,
    moves_of,
    set_scores,
)

JRB, RISK = 0, 1
RISKS = {"jrb": JRB, "risk": RISK}  #: the numbers of the criteria in kernels
_NO_TABLE = np.zeros((0, 0), dtype=np.float32)
NO_GRADIENT = PaddedWeights(_NO_TABLE, np.zeros(0, dtype=np.float32), _NO_TABLE)


class RiskCorpus(NamedTuple):
    """Sequences with and without their costs.

    Parameters
    ----------
    costly, plain : PaddedCorpus
    most : float32
        The greatest cost.
    """

    costly: PaddedCorpus
    plain: PaddedCorpus
    most: np.float32

    @classmethod
    def of(cls, corpus: PaddedCorpus) -> RiskCorpus:
        """A corpus with costs in this form."""
        return cls(corpus, corpus._replace(costs=NO_COSTS), np.float32(corpus.costs.max(initial=0.0)))


class RiskLayout(PaddedLayout):
    """Weights and corpus for passes by risk or its bound.

    Parameters
    ----------
    features, encoded, penalties, gold, sequence_weights, costs
        As for a :class:`~loglinear.structures.chain.padded.PaddedLayout`.
    kind : int
        One of :data:`RISKS`.
    """

    revisits: ClassVar[bool] = False

    def __init__(
        self,
        features: ChainFeatures,
        encoded: EncodedCorpus,
        penalties: Penalties,
        gold: Int32,
        sequence_weights: Float,
        costs: Float,
        kind: int,
    ) -> None:
        super().__init__(features, encoded, penalties, gold, sequence_weights, costs)
        self.kind, self._risks = kind, RiskCorpus.of(self.corpus)

    @classmethod
    def after(cls, layout: PaddedLayout, costs: Float, kind: int) -> RiskLayout:
        """The layout of another criterion with these costs [4, Y, Y], for passes by this one."""
        made = cls.__new__(cls)
        made.__dict__.update(layout.__dict__)
        made.corpus = layout.corpus._replace(costs=layout._padded(costs))
        made.kind, made._risks = kind, RiskCorpus.of(made.corpus)
        return made

    def dual_pass(
        self, sequences: Int64, weights: PaddedWeights, step: Step, kept: Kept, losses: Float, gaps: Float
    ) -> None:
        """A step for each of the ``sequences``; ``losses`` and ``gaps`` [S] before it."""
        passed = (self._risks, weights, self.n_labels, self.lanes, step.shrink, step.l2, step.caution)
        risk_pass(self.kind, sequences, *passed, kept.alpha, kept.transitions, losses, gaps)

    def losses(self, sequences: Int64, weights: PaddedWeights) -> float:
        """Losses of the ``sequences``, each times its weight; nan if scores leave single precision."""
        return self.evaluate(sequences, weights, NO_GRADIENT)

    def evaluate(self, sequences: Int64, weights: PaddedWeights, gradient: PaddedWeights) -> float:
        """The same; their gradient is added."""
        return evaluate(self.kind, sequences, self._risks, weights, self.n_labels, self.lanes, gradient)


class RiskWork(NamedTuple):
    """Scratch for one sequence of at most T positions, beside that of a forward-backward pass; all [T W].

    The letters are those of the equations above.
    """

    spread: Float32  # how far each derivative may change: mu_{s+c} + mu_s, or mu_s times the greatest cost
    centred: Float32  # d
    backward: Float32  # b
    after: Float32  # r
    lift: Float32  # l
    flow: Float32  # e b
    past: Float32  # f


@loose_kernel
def risk_work(work: Workspace) -> RiskWork:
    """Scratch for sequences as long as those of ``work``."""
    n = work.emission.shape[0]
    return RiskWork(
        np.empty(n, np.float32), np.empty(n, np.float32), np.empty(n, np.float32), np.empty(n, np.float32),
        np.empty(n, np.float32), np.empty(n, np.float32), np.empty(n, np.float32),
    )  # fmt: skip


@loose_kernel
def _not_denormal(lanes: Lanes) -> Lanes:
    """Zero instead of numbers so small that arithmetic with them is slow."""
    return above(lanes, NOTHING) - above(ZERO - lanes, NOTHING)


@loose_kernel
def _carry_back(
    first: int, n: int, n_labels: int, corpus: PaddedCorpus, width: Width, work: Workspace, more: RiskWork
) -> float:
    """Fill b, d, r, l and the flow from the last position to the first; E[c]."""
    w, block, costs, expected = row_length(width), block_length(width), corpus.costs.ravel(), 0.0
    for c in range(0, w, block):
        store(more.backward, (n - 1) * w + c, same(ONE, width))
        store(more.after, (n - 1) * w + c, same(ZERO, width))
    for t in range(n - 1, -1, -1):
        row, kind = t * w, 2 if 0 < t < n - 1 else 1 if t < n - 1 else 3 if t > 0 else 0
        cost, mean, mass = (kind * n_labels + corpus.gold[first + t]) * w, same(ZERO, width), same(ZERO, width)
        for c in range(0, w, block):
            node = load(work.forward, row + c, width) * load(more.backward, row + c, width)
            mean = mean + node * load(costs, cost + c, width)
            mass = mass + node
        here = total(mean) / total(mass)
        expected += float(here)
        for c in range(0, w, block):
            now, later = load(work.emission, row + c, width), load(more.backward, row + c, width)
            centred = load(costs, cost + c, width) - here
            store(more.centred, row + c, centred)
            store(more.lift, row + c, _not_denormal(now * (load(more.after, row + c, width) + centred * later)))
            store(more.flow, row + c, above(now * later, NOTHING))
        if t == 0:
            break
        for c in range(0, w, block):
            one, two = same(ZERO, width), same(ZERO, width)
            for p in range(n_labels):
                factor = load(work.turned, p * w + c, width)
                one = one + more.flow[row + p] * factor
                two = two + more.lift[row + p] * factor
            store(more.backward, row - w + c, above(one, NOTHING))
            store(more.after, row - w + c, _not_denormal(two))
    return expected


@loose_kernel
def _carry_forward(n: int, n_labels: int, most: np.float32, width: Width, work: Workspace, more: RiskWork) -> None:
    """Fill f and the spread, and the covariances with labels into ``work.marginals``."""
    w, block = row_length(width), block_length(width)
    for t in range(n):
        row, before = t * w, (t - 1) * w
        for c in range(0, w, block):
            now, later = load(work.forward, row + c, width), load(more.backward, row + c, width)
            past = now * load(more.centred, row + c, width)
            if t > 0:
                so_far = same(ZERO, width)
                for p in range(n_labels):
                    so_far = so_far + more.past[before + p] * load(work.factors, p * w + c, width)
                past = past + load(work.emission, row + c, width) * so_far
            past = _not_denormal(past)
            store(more.past, row + c, past)
            store(more.spread, row + c, most * now * later)
            store(work.marginals, row + c, past * later + now * load(more.after, row + c, width))


@loose_kernel
def _add_covariances(n: int, n_labels: int, width: Width, work: Workspace, more: RiskWork) -> None:
    """Add the covariances with transitions, but for the factors, to ``work.pairs``."""
    w, block = row_length(width), block_length(width)
    for p in range(n_labels):
        for c in range(0, w, block):
            both = load(work.pairs, p * w + c, width)
            for t in range(1, n):
                place = (t - 1) * w + p
                both = both + more.past[place] * load(more.flow, t * w + c, width)
                both = both + work.forward[place] * load(more.lift, t * w + c, width)
            store(work.pairs, p * w + c, both)


@loose_kernel
def _log_partition(first: int, n: int, n_labels: int, corpus: PaddedCorpus, width: Width, work: Workspace) -> float:
    """Log Z but for the transitions' top score, nan if a sum has underflown; marginals, and pairs are added."""
    nothing = np.empty((0, 0), np.float32)
    top_scores, _, _ = set_emissions(first, n, corpus, nothing, width, work)
    log_z = top_scores + forward(n, n_labels, width, work)
    if log_z < np.inf:
        backward(first, n, n_labels, corpus, nothing, width, work)
        add_pairs(n, n_labels, width, work)
    return log_z


@loose_kernel
def _bound(
    first: int, n: int, n_labels: int, corpus: RiskCorpus, width: Width, work: Workspace, more: RiskWork
) -> float:
    """:func:`part_gradient` of the Jensen risk bound."""
    w, block = row_length(width), block_length(width)
    plain = _log_partition(first, n, n_labels, corpus.plain, width, work)  # the scores do not have the cost yet
    for c in range(0, w * w, block):
        store(work.pairs, c, ZERO - load(work.pairs, c, width))
    for c in range(0, n * w, block):
        store(more.spread, c, load(work.marginals, c, width))
    loss = _log_partition(first, n, n_labels, corpus.costly, width, work) - plain
    for c in range(0, n * w, block):
        with_cost, without = load(work.marginals, c, width), load(more.spread, c, width)
        store(more.spread, c, with_cost + without)
        store(work.marginals, c, with_cost - without)
    return loss if loss < np.inf else np.nan


@loose_kernel
def part_gradient(
    kind: int, first: int, n: int, n_labels: int, corpus: RiskCorpus, width: Width, work: Workspace, more: RiskWork
) -> float:
    """Loss of the sequence that begins at ``first``, nan if a sum has underflown; its gradient by the part scores.

    Parameters
    ----------
    kind : int
        :data:`JRB` or :data:`RISK`.
    work : Workspace
        Has the scores of the positions and the transitions' factors. Written: ``marginals``, the derivatives by the
        scores, and ``pairs``, which times the factors are the derivatives by the transitions.
    more : RiskWork
        Written: ``spread``.
    """
    for c in range(0, work.pairs.shape[0], block_length(width)):
        store(work.pairs, c, same(ZERO, width))
    if kind == JRB:
        return _bound(first, n, n_labels, corpus, width, work, more)
    set_emissions(first, n, corpus.plain, np.empty((0, 0), np.float32), width, work)
    if not forward(n, n_labels, width, work) < np.inf:
        return np.nan
    loss = _carry_back(first, n, n_labels, corpus.costly, width, work, more)
    if not loss < np.inf:
        return np.nan
    _carry_forward(n, n_labels, corpus.most, width, work, more)
    _add_covariances(n, n_labels, width, work, more)
    return loss


@loose_kernel
def evaluate(
    kind: int, sequences: Int64, corpus: RiskCorpus, weights: PaddedWeights, n_labels: int, width: Width,
    gradient: PaddedWeights,
) -> float:  # fmt: skip
    """:func:`~loglinear.structures.chain.padded.evaluate` of risk or its bound; no gradient if that is empty."""
    data, w, losses, wanted = corpus.plain, row_length(width), 0.0, gradient.transition.shape[0] > 0
    work, transitions = workspace(data, sequences, width), gradient.transition.ravel()
    more = risk_work(work)
    set_factors(weights.transition, ZERO, data.allowed, n_labels, width, work)
    for k in range(sequences.shape[0]):
        i = sequences[k]
        first, n = data.offsets[i], data.offsets[i + 1] - data.offsets[i]
        set_scores(first, n, data, weights, ZERO, width, work)
        loss = part_gradient(kind, first, n, n_labels, corpus, width, work, more)
        if not loss < np.inf:
            return np.nan
        losses += loss * data.sequence_weights[i]
        if not wanted:
            continue
        weight = np.float32(data.sequence_weights[i])
        for c in range(n_labels * w):
            transitions[c] += weight * work.factors[c] * work.pairs[c]
        if weight != ONE:
            for c in range(n * w):
                work.marginals[c] *= weight
        add_gradient(first, n, data, width, work, gradient)
    return losses


# ----------------------------------------------------------------------------------------------------------------------
# The steps of dual ascent for risk and the Jensen risk bound, which have no dual: SDCA without duality.
#
# Where the gradient of  sum_i c_i loss_i(w) + l2 ||w||^2  is zero, the weights are
#
#     w(alpha) = -(1 / 2 l2) sum_i c_i E_alpha_i[f]        with alpha_i = g_i, the gradient of loss_i by the part scores
#
# whether the losses are convex or not. So the passes of :mod:`~loglinear.optimizers.dual.chain` are made for smooth
# losses in general (Shalev-Shwartz 2016, "SDCA without duality, regularization, and individual convexity"): each step
# moves the gradient that is kept for a sequence towards its gradient under the current weights, and the weights with
# it.
#
# 1. g_i <- the gradient of sequence i under the current weights,  Delta <- g_i - alpha_i
# 2. J <- sum_t,y 2 Delta^2 / (CURVATURE (spread + |alpha_i|)),  Q <- ||E_Delta[f]||^2
# 3. gamma <- J / (J + caution c_i Q / 2 l2)
# 4. alpha_i <- alpha_i + gamma Delta,  w <- w - (c_i gamma / 2 l2) E_Delta[f]
#
# J stands for Delta' H^-1 Delta with the curvature H of the loss in score space, which the spread of
# :mod:`~loglinear.structures.chain.risk` bounds up to a factor. What is stored is alpha_i plus the gold labelling: for
# conditional likelihood, from whose model training starts, those are the marginals of the dual, so that its state is a
# start here. The sum of c_i J / 2 says how far the passes are from a stationary point. Where losses are convex it is
# about the gap; here it bounds nothing. The hardest sequences are not visited more often than others: that ends lower,
# but further from the model of conditional likelihood, which labels better (by 0.25 F1 on held-out CoNLL-2000 chunks).

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
            size = size + change * change / curvature
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
    """As :func:`~loglinear.structures.chain.padded.dual_pass`, by the criterion ``kind``; each step computes Q."""
    data, less, w = corpus.plain, np.float32(shrink), row_length(width)
    work, moves = workspace(data, sequences, width), moves_of(data, sequences, weights.rows.shape[0], width)
    more, places = risk_work(work), data.transition_places
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
        take_step(i, size, square, used, l2, caution, data, weights, width, alpha, alpha_transitions, work, moves)
        for t in range(n):
            gold[t * w + data.gold[first + t]] = ZERO
            if t > 0:
                gold_pairs[data.gold[first + t - 1] * w + data.gold[first + t]] = ZERO
