"""Dual ascent in rounds (:mod:`~loglinear.optimizers.rounds`), and L-BFGS after them.

In a round each of the K groups takes two passes of dual ascent (:mod:`~loglinear.optimizers.dual.chain`) over its own
sequences.

**Why the changes may be added.** The dual has the term  l2 ||w||^2  with  w = sum_k w_k,  w_k what the sequences of
group k contribute. For a feature f that m_f groups have, changes d_k of these contributions obey

    (sum_k d_kf)^2  <=  m_f sum_k d_kf^2                                                            (Cauchy-Schwarz)

so that a group that takes its own changes to be m_f times as large as they are works on a lower bound of the dual, and
the sum of what all groups do raises the dual by at least the sum of what each believes to gain. That is CoCoA+ (Ma et
al. 2015), whose m is K for all features; here a feature that is private to a group is learnt as fast as on one machine.
Kernels know nothing of m_f: a group's attributes have the values  sqrt(m / K),  its weights are divided by the same,
and its l2 by K, so that a change of the weight of f counts  K · m_f / K  times.

**Hand-over.** Rounds bring the objective near the minimum quickly and to the minimum slowly, the more slowly the more
groups there are. When the gap is a fifth of the objective and no longer halved by each round, or after twelve rounds,
L-BFGS goes on among weights scaled by the curvature that the kept marginals give. On CoNLL-2000 in four groups six
rounds and eleven evaluations come within 0.1 % of the minimum; L-BFGS from zero takes a hundred evaluations.

References
----------
Ma, Smith, Jaggi, Jordan, Richtarik & Takac (2015), Adding vs. averaging in distributed primal-dual optimization, ICML.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from loglinear.arrays import Array, Float, Int64
from loglinear.features.encoding import EncodedCorpus, Incidence
from loglinear.optimizers.dual.chain import GAP, MOST_CAUTION, curvature
from loglinear.optimizers.dual.general import WORSE, DualOptions, check_fits_data
from loglinear.optimizers.objective import Objective
from loglinear.optimizers.optimizer import Callback, Result
from loglinear.optimizers.passes import shuffled
from loglinear.optimizers.rounds import Collected, Group, RoundResult, RoundsState
from loglinear.structures.chain.features import ChainFeatures
from loglinear.structures.chain.padded import PaddedLayout
from loglinear.structures.rows import Kept, Step
from loglinear.wording import how_many

PASSES = 2  # of a group in a round
MOST_ROUNDS, NEAR = 12, 0.2  # before L-BFGS takes over: rounds, and the gap as a share of the objective
FAST = 0.5  # a round that leaves less than this share of the gap is worth another, however near the minimum is
STEADY_FROM = 3  # the round, counted from 0, from which on a rise of the objective says that steps are too long


class GroupAscent(Group):
    """Dual ascent over a group of sequences.

    Its totals are the losses before the steps of its first pass, the gap then, ||w||^2 of its own weights, and how many
    sequences were left out because their scores leave single precision. Of each feature it gives the curvature.

    Parameters
    ----------
    objective : Objective
        Losses of its sequences, with the features that they have.
    l2 : float
        Factor of ||w||^2 of all groups together.
    n_groups : int
        K.
    multiplicity : int64 [D]
        How many groups have each of its features; the same for all of an attribute.
    key : list of int
        Of the order of its steps.
    """

    def __init__(self, objective: Objective, l2: float, n_groups: int, multiplicity: Int64, key: Sequence[int]) -> None:
        features, corpus = objective.features, objective.corpus
        assert isinstance(features, ChainFeatures) and isinstance(corpus, EncodedCorpus)
        self.objective, self._key, self._l2 = objective, list(key), l2 / n_groups
        state, begins = features.slices[0], features.state.pointer
        own = np.append(multiplicity[state], 1)  # of the last attribute, if it has no feature
        of_attributes = np.sqrt(own[begins[:-1]] / n_groups)
        scaled = replace(corpus, state=_times(corpus.state, of_attributes))
        self._layout = Objective(
            features, scaled, objective.gold, objective.criterion, objective.penalties, l2, objective.sequence_weights,
            objective.n_threads, single_precision=True,
        ).layout  # fmt: skip
        assert isinstance(self._layout, PaddedLayout)
        self._multiplicity, self._spread = multiplicity.astype(np.float64), np.sqrt(multiplicity / n_groups)
        self.is_own = multiplicity == 1
        alpha, transitions = self._layout.at_gold()
        self.kept = Kept(alpha, transitions, np.zeros(corpus.n_sequences, np.float32), np.zeros(0, np.float32))
        self._weights = np.zeros(features.n_features)

    def round(self, shared: Array, caution: float) -> RoundResult:
        layout, corpus, n = self._layout, self.objective.corpus, self.objective.corpus.n_sequences
        self._weights[~self.is_own] = shared
        weights = layout.lay_out(self._weights / self._spread)
        before = layout.vector(*weights)
        losses, gaps, totals = np.zeros(n), np.zeros(n), np.zeros(4)
        for again in range(PASSES):
            measure = again == 0 and (caution > 1.0 or self.n_rounds < 2 or self.n_rounds % layout.measure_every == 0)
            order = shuffled(np.arange(n), corpus.offsets, [*self._key, self.n_rounds, again])
            layout.dual_pass(order, weights, Step(0.0, self._l2, caution, measure), self.kept, losses, gaps)
            if again == 0:
                totals[:] = np.nansum(losses), np.nansum(gaps), 0.0, np.isnan(losses).sum()
        change = (layout.vector(*weights) - before) * self._spread / self._multiplicity
        self._weights[self.is_own] += change[self.is_own]
        totals[2] = np.sum(self._weights[self.is_own] ** 2)
        return RoundResult(change[~self.is_own].astype(np.float32), totals)

    def collected(self) -> Collected:
        along = curvature(self.objective, self.kept.alpha, self.kept.transitions)
        return Collected(self._weights[self.is_own], along)


@dataclass(frozen=True)
class Ascending:
    """How groups begin dual ascent.

    Parameters
    ----------
    seed : int
        Of the order of the steps.
    l2 : float
        Factor of ||w||^2 of all groups together.
    """

    seed: int
    l2: float

    def group(self, objective: Objective, multiplicity: Int64, n_groups: int, number: int) -> GroupAscent:
        """A group with marginals of the gold labellings, and so with weights of zero."""
        return GroupAscent(objective, self.l2, n_groups, multiplicity, [self.seed, number])


def _times(state: Incidence, factors: Float) -> Incidence:
    """An incidence whose values are multiplied by a factor for each attribute [A]."""
    values = factors[state.ids]
    return replace(state, values=values if state.values is None else state.values * values)


@dataclass
class DualRounds(RoundsState):
    """The history of dual ascent in rounds.

    Attributes
    ----------
    underflown : int
        Sequences that were left out of the last round because their scores leave single precision.
    value : float
        Losses before the steps of the last round, plus the penalty after these.
    gap, gap_before : float
        Estimate of the gap between primal and dual, from the same steps, and from those of the round before.
    caution : float
        Factor that makes the next round's steps smaller.
    """

    counts = ("iteration", "evaluations", "underflown")
    numbers = ("value", "gap", "gap_before", "caution")

    underflown: int = 0
    gap: float = np.inf
    gap_before: float = np.inf
    caution: float = 1.0

    def one_round(self, l2: float) -> None:
        """One more round, in place."""
        loss, gap, squares, underflown = self.one_more(self.caution, 1.0).tolist()
        value = loss + l2 * (squares + float(np.sum(self.shared**2)))
        if value > (1.0 + WORSE) * self.value and self.iteration > STEADY_FROM:
            self.caution *= 2.0
        self.value, self.gap, self.gap_before, self.underflown = value, gap, self.gap, int(underflown)
        self.evaluations += PASSES


def minimise_in_rounds(
    options: DualOptions, objective: Any, *, callback: Callback = None, state: DualRounds | None = None
) -> Result:
    """Minimise losses and l2 ||w||^2 by rounds over groups, then L-BFGS, from weights of zero.

    Parameters
    ----------
    options : DualOptions
    objective : Apart
        Has the groups, and is the same losses and penalty for L-BFGS.
    callback : callable, optional
    state : DualRounds, optional
        To go on from; the groups make its rounds again, unless they have.
    """
    groups = objective.groups(Ascending(options.seed, objective.l2))
    n = len(groups.shared)
    now = DualRounds(np.zeros((0, n), np.float32), np.zeros(0), np.zeros(n)) if state is None else state
    check_fits_data(now.shared.shape == (n,))
    now.groups, now.size = groups, objective.n_features
    small = GAP * options.tolerance
    while True:
        so_far = how_many(now.iteration, "round")
        if now.iteration and now.gap <= small * abs(now.value) and not now.underflown:
            apart = f"primal and dual differ by less than {small:g} of the objective"
            return Result(now, True, f"converged after {so_far}: {apart}")
        if now.iteration >= options.max_iter:
            return Result(now, False, f"stopped after {so_far}")
        is_near = now.gap <= NEAR * abs(now.value) and now.gap > FAST * now.gap_before
        if is_near or now.iteration >= MOST_ROUNDS or now.caution > MOST_CAUTION or now.underflown:
            weights, along = now.collected()
            scale = 1.0 / np.sqrt(2.0 * objective.l2 + np.maximum(along, 0.0))
            return options.finish(objective, weights, 0.0, callback, now.iteration, None, scale=scale, unit="round")
        now.one_round(objective.l2)
        if callback is not None and callback(now):
            return Result(now, False, f"stopped after {how_many(now.iteration, 'round')} (by the callback)")
