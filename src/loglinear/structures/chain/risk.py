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

from typing import NamedTuple

import numpy as np

from loglinear.arrays import Float32, Int64
from loglinear.kernels import loose_kernel
from loglinear.kernels.lanes import Lanes, Width, above, block_length, load, row_length, same, store, total
from loglinear.structures.chain.padded import (
    NO_COSTS,
    NOTHING,
    ONE,
    ZERO,
    PaddedCorpus,
    PaddedWeights,
    Workspace,
    add_gradient,
    add_pairs,
    backward,
    forward,
    set_emissions,
    set_factors,
    set_scores,
    workspace,
)

JRB, RISK = 0, 1
RISKS = {"jrb": JRB, "risk": RISK}  #: the numbers of the criteria in kernels


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
        expected += here
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
