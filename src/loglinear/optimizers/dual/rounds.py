"""Dual ascent in rounds: groups of sequences that live apart, and exchange the weights that they share now and then.

The K groups of a corpus make a *round* at the same time: each takes two passes of dual ascent
(:mod:`~loglinear.optimizers.dual.chain`) over its own sequences, from the same weights, and sends back the change that
these made. A feature that occurs in one group only belongs to that group and never travels.

**Why the changes may be added.** The dual has the term  l2 ||w||^2  with  w = sum_k w_k,  w_k what the sequences of
group k contribute. For a feature f that m_f groups have, changes d_k of these contributions obey

    (sum_k d_kf)^2  <=  m_f sum_k d_kf^2                                                            (Cauchy-Schwarz)

so that a group that takes its own changes to be m_f times as large as they are works on a lower bound of the dual, and
the sum of what all groups do raises the dual by at least the sum of what each believes to gain. That is CoCoA+ (Ma et
al. 2015), whose m is K for all features; here a feature that is private to a group is learnt as fast as on one machine.
Kernels know nothing of m_f: a group's attributes have the values  sqrt(m / K),  its weights are divided by the same,
and its l2 by K, so that a change of the weight of f counts  K · m_f / K  times.

**Hand-over.** Rounds bring the objective near the minimum quickly and to the minimum slowly, the more slowly the more
groups there are. When the gap is a fifth of the objective, or after twelve rounds, L-BFGS goes on among weights scaled
by the curvature that the kept marginals give, and needs 10 to 30 evaluations more on corpora where it would need a
hundred from zero.

**Lost groups.** What a group keeps (its marginals, its own weights) follows from the shared weights that it was sent in
each round and nothing else. The state of a training is therefore the history of the shared weights: whoever takes over
a group goes through its rounds again, and ends with the same bits.

References
----------
Ma, Smith, Jaggi, Jordan, Richtarik & Takac (2015), Adding vs. averaging in distributed primal-dual optimization, ICML.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from loglinear.arrays import Bool, Float, Float32, Int64
from loglinear.features.encoding import EncodedCorpus, Incidence
from loglinear.optimizers.dual.chain import GAP, MOST_CAUTION, curvature
from loglinear.optimizers.dual.general import WORSE, DualOptions, check_fits_data
from loglinear.optimizers.objective import Objective
from loglinear.optimizers.optimizer import Callback, Result, StoredState
from loglinear.optimizers.passes import shuffled
from loglinear.structures.chain.features import ChainFeatures
from loglinear.structures.chain.padded import PaddedLayout
from loglinear.structures.rows import Kept, Step
from loglinear.wording import how_many

PASSES = 2  # of a group in a round
MOST_ROUNDS, NEAR = 12, 0.2  # before L-BFGS takes over: rounds, and the gap as a share of the objective
FAST = 0.5  # a round that leaves less than this share of the gap is worth another, however near the minimum is
STEADY_FROM = 3  # the round, counted from 0, from which on a rise of the objective says that steps are too long


class RoundResult(NamedTuple):
    """What a group has to say of a round.

    Parameters
    ----------
    change : float32 [F]
        Of the weights that it shares with other groups.
    squares : float
        ||w||^2 of its own weights.
    loss, gap : float
        Before the steps of its first pass.
    underflown : int
        Sequences that were left out because their scores leave single precision.
    """

    change: Float32
    squares: float
    loss: float
    gap: float
    underflown: int


class Collected(NamedTuple):
    """A group's part of the weights, and of the curvature along them, by the number of its features.

    Parameters
    ----------
    own : float64 [F]
        Weights of the features that it shares with no other group.
    curvature : float64 [D]
        Of all its features.
    """

    own: Float
    curvature: Float


class History(NamedTuple):
    """What has been sent to the groups.

    Parameters
    ----------
    shared : list of float32 [F]
        The shared weights at the beginning of each round.
    cautions : list of float
        Factors that made its steps smaller.
    """

    shared: list[Float32]
    cautions: list[float]


class Groups(Protocol):
    """The groups of a corpus, wherever they are; one that lacks rounds of a history makes them first.

    Attributes
    ----------
    shared : int64 [F]
        Numbers of the features that several groups have.
    """

    shared: Int64

    def round(self, history: History) -> Sequence[tuple[Int64, RoundResult]]:
        """Of each group, which of the shared features it has, and what its last round of the ``history`` gave."""

    def collect(self, history: History) -> Sequence[tuple[Int64, Int64, Collected]]:
        """Of each group, the numbers of its own features and of all its features, and its part."""


class GroupAscent:
    """A group of sequences, in the process that works on them.

    Parameters
    ----------
    objective : Objective
        Losses of its sequences, with the features that they have.
    n_groups : int
        K.
    multiplicity : int64 [A]
        How many groups have each of its attributes.
    key : list of int
        Of the order of its steps.
    """

    def __init__(self, objective: Objective, n_groups: int, multiplicity: Int64, key: Sequence[int]) -> None:
        features, corpus = objective.features, objective.corpus
        assert isinstance(features, ChainFeatures) and isinstance(corpus, EncodedCorpus)
        self.objective, self._key, self._l2 = objective, list(key), objective.l2 / n_groups
        spread = np.sqrt(multiplicity / n_groups)
        scaled = replace(corpus, state=_times(corpus.state, spread))
        self._layout = Objective(
            features, scaled, objective.gold, objective.criterion, objective.penalties, objective.l2,
            objective.sequence_weights, objective.n_threads, single_precision=True,
        ).layout  # fmt: skip
        assert isinstance(self._layout, PaddedLayout)
        state = features.slices[0]
        lengths = np.diff(features.state.pointer)
        self._spread, self._multiplicity = np.ones(features.n_features), np.full(features.n_features, float(n_groups))
        self._spread[state] = np.repeat(spread, lengths)
        self._multiplicity[state] = np.repeat(multiplicity.astype(np.float64), lengths)
        self.is_own: Bool = np.zeros(features.n_features, dtype=bool)
        self.is_own[state] = np.repeat(multiplicity == 1, lengths)
        if n_groups == 1:
            self.is_own[:] = True
        alpha, transitions = self._layout.at_gold()
        self._kept = Kept(alpha, transitions, np.zeros(corpus.n_sequences, np.float32), np.zeros(0, np.float32))
        self._weights = np.zeros(features.n_features)
        self.n_rounds = 0
        self.last: RoundResult | None = None  # of its last round

    def follow(self, history: History) -> RoundResult:
        """Make the rounds of the ``history`` that this group has not made yet; what the last one gave."""
        if self.n_rounds > len(history.shared):
            raise ValueError("the history is older than the group")
        while self.n_rounds < len(history.shared):
            self.last = self._round(history.shared[self.n_rounds], history.cautions[self.n_rounds])
            self.n_rounds += 1
        assert self.last is not None
        return self.last

    def _round(self, shared: Float32, caution: float) -> RoundResult:
        layout, corpus, n = self._layout, self.objective.corpus, self.objective.corpus.n_sequences
        self._weights[~self.is_own] = shared
        weights = layout.lay_out(self._weights / self._spread)
        before = layout.vector(*weights)
        losses, gaps, first = np.zeros(n), np.zeros(n), (0.0, 0.0, 0)
        for again in range(PASSES):
            measure = again == 0 and (caution > 1.0 or self.n_rounds < 2 or self.n_rounds % layout.measure_every == 0)
            order = shuffled(np.arange(n), corpus.offsets, [*self._key, self.n_rounds, again])
            layout.dual_pass(order, weights, Step(0.0, self._l2, caution, measure), self._kept, losses, gaps)
            if again == 0:
                first = float(np.nansum(losses)), float(np.nansum(gaps)), int(np.isnan(losses).sum())
        change = (layout.vector(*weights) - before) * self._spread / self._multiplicity
        self._weights[self.is_own] += change[self.is_own]
        own = self._weights[self.is_own]
        return RoundResult(change[~self.is_own].astype(np.float32), float(np.sum(own**2)), *first)

    def collected(self) -> Collected:
        """Its part of the weights and of the curvature, as they are now."""
        along = curvature(self.objective, self._kept.alpha, self._kept.transitions)
        return Collected(self._weights[self.is_own], along)


def _times(state: Incidence, factors: Float) -> Incidence:
    """An incidence whose values are multiplied by a factor for each attribute [A]."""
    values = factors[state.ids]
    return replace(state, values=values if state.values is None else state.values * values)


@dataclass
class RoundsState(StoredState):
    """The history of a training in rounds, from which everything else follows.

    Attributes
    ----------
    iteration, evaluations : int
        Rounds so far, and passes.
    underflown : int
        Sequences that were left out of the last round because their scores leave single precision.
    value : float
        Losses before the steps of the last round, plus the penalty after these.
    gap, gap_before : float
        Estimate of the gap between primal and dual, from the same steps, and from those of the round before.
    caution : float
        Factor that makes the next round's steps smaller.
    sent : float32 [R, F]
        The shared weights at the beginning of each round.
    cautions : float64 [R]
    shared : float64 [F]
        The shared weights now.
    """

    counts = ("iteration", "evaluations", "underflown")
    numbers = ("value", "gap", "gap_before", "caution")
    arrays: ClassVar[tuple[str, ...]] = ("sent", "cautions", "shared")

    sent: Float32
    cautions: Float
    shared: Float
    iteration: int = 0
    evaluations: int = 0
    underflown: int = 0
    value: float = np.inf
    gap: float = np.inf
    gap_before: float = np.inf
    caution: float = 1.0
    groups: Groups | None = None
    size: int = 0  # D
    _found: tuple[int, Float, Float] | None = field(default=None, repr=False)  # rounds, weights and curvature

    @property
    def history(self) -> History:
        """What has been sent so far."""
        return History(list(self.sent), self.cautions.tolist())

    @property
    def weights(self) -> Float:
        """The weights [D]; asks the groups for theirs."""
        return self._collected()[0]

    @property
    def curvature(self) -> Float:
        """Of the losses along each weight [D], by the kept marginals."""
        return self._collected()[1]

    def _collected(self) -> tuple[Float, Float]:
        if self._found is None or self._found[0] != self.iteration:
            assert self.groups is not None
            weights, along = np.zeros(self.size), np.zeros(self.size)
            if self.iteration:
                for own, mine, part in self.groups.collect(self.history):
                    weights[own] = part.own
                    along[mine] += part.curvature
                weights[self.groups.shared] = self.shared
            self._found = self.iteration, weights, along
        return self._found[1:]

    def fits(self) -> bool:
        return self.sent.shape == (self.iteration, len(self.shared)) and self.cautions.shape == (self.iteration,)

    def release(self) -> None:
        """Free what only further rounds need."""
        self._collected()
        self.sent = self.sent[:0].copy()


def minimise_in_rounds(
    options: DualOptions,
    objective: Objective,
    groups: Groups,
    size: int,
    *,
    callback: Callback = None,
    state: RoundsState | None = None,
) -> Result:
    """Minimise losses and l2 ||w||^2 by rounds over ``groups``, then L-BFGS, from weights of zero [``size``].

    Parameters
    ----------
    options : DualOptions
    objective : Objective
        The same losses and penalty, for L-BFGS.
    groups : Groups
    size : int
        D.
    callback : callable, optional
    state : RoundsState, optional
        To go on from; the groups make its rounds again, unless they have.
    """
    n = len(groups.shared)
    now = RoundsState(np.zeros((0, n), np.float32), np.zeros(0), np.zeros(n)) if state is None else state
    check_fits_data(now.shared.shape == (n,))
    now.groups, now.size = groups, size
    small = GAP * options.tolerance
    while True:
        so_far = how_many(now.iteration, "round")
        if now.iteration and now.gap <= small * abs(now.value) and not now.underflown:
            return Result(
                now, True, f"converged after {so_far}: primal and dual differ by less than {small:g} of the objective"
            )
        if now.iteration >= options.max_iter:
            return Result(now, False, f"stopped after {so_far}")
        is_near = now.gap <= NEAR * abs(now.value) and now.gap > FAST * now.gap_before
        if is_near or now.iteration >= MOST_ROUNDS or now.caution > MOST_CAUTION or now.underflown:
            scale = 1.0 / np.sqrt(2.0 * objective.l2 + np.maximum(now.curvature, 0.0))
            return options.finish(objective, now.weights, 0.0, callback, now.iteration, None, scale=scale)
        _round(objective.l2, groups, now)
        if callback is not None and callback(now):
            return Result(now, False, f"stopped after {how_many(now.iteration, 'round')} (by the callback)")


def _round(l2: float, groups: Groups, now: RoundsState) -> None:
    """One more round, in place: the groups' changes are added in their order."""
    now.sent = np.concatenate([now.sent, now.shared.astype(np.float32)[None]])
    now.cautions = np.append(now.cautions, now.caution)
    loss = gap = squares = 0.0
    now.underflown = 0
    now.shared = now.sent[-1].astype(np.float64)
    for places, found in groups.round(now.history):
        now.shared[places] += found.change
        loss, gap, squares = loss + found.loss, gap + found.gap, squares + found.squares
        now.underflown += found.underflown
    value = loss + l2 * (squares + float(np.sum(now.shared**2)))
    if value > (1.0 + WORSE) * now.value and now.iteration >= STEADY_FROM:
        now.caution *= 2.0
    now.value, now.gap, now.gap_before = value, gap, now.gap
    now.iteration += 1
    now.evaluations += PASSES
