"""Online learning in rounds (:mod:`~loglinear.optimizers.rounds`): iterative parameter mixing.

In a round each group makes one pass over its own sequences, as one machine would (:mod:`~loglinear.optimizers.online.
general`), from the same weights. Then the weight of a feature becomes the mean of what the groups that have it made of
it (McDonald, Hall & Mann 2010, who mix all weights of all groups; a feature that a group does not have is one that it
does not know, and has no say here). The model is the mean over all groups' steps of the weights, as on one machine, or
with ``average=no`` the weights after the last round.

References
----------
McDonald, Hall & Mann (2010), Distributed training strategies for the structured perceptron, NAACL.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from loglinear.arrays import Array, Bool, Float, Int64
from loglinear.optimizers.dual.general import check_fits_data
from loglinear.optimizers.objective import Objective
from loglinear.optimizers.online.general import Online, OnlineRun
from loglinear.optimizers.optimizer import Callback, Result
from loglinear.optimizers.passes import PERIOD
from loglinear.optimizers.rounds import Collected, Group, RoundResult, RoundsState
from loglinear.wording import how_many


class GroupLearning(Group):
    """Online learning from a group of sequences.

    Its totals are the losses before each step, how many sequences moved the weights, and the number of steps. Of each
    feature it gives the model's weight: the mean over its steps, if that is asked for.

    Parameters
    ----------
    options : Online
    objective : Objective
        Its sequences, with the features that they have.
    is_own : bool [D]
        Which of its features it shares with no other group.
    number : int
        Of the group, for the order of its steps.
    """

    def __init__(self, options: Online, objective: Objective, is_own: Bool, number: int) -> None:
        seed = int(np.random.default_rng([options.seed, number]).integers(2**31))
        self.is_own = is_own
        self._run = OnlineRun(replace(options, seed=seed), objective, np.zeros(objective.features.n_features), None)

    def round(self, shared: Array, caution: float) -> RoundResult:
        run = self._run
        weights, steps = run.lazy.weights, len(run.sequences)
        weights[~self.is_own] = shared
        run.lay_out(weights)
        losses, moves = run.one_pass(self.n_rounds + 1)
        run.state.n_steps += steps
        return RoundResult(weights[~self.is_own] - shared, np.array([losses, moves, steps], dtype=np.float64))

    def collected(self) -> Collected:
        weights = self._run.state.weights
        return Collected(weights[self.is_own], weights)


@dataclass(frozen=True)
class Learning:
    """How groups begin online learning, by these ``options``."""

    options: Online

    def group(self, objective: Objective, multiplicity: Int64, n_groups: int, number: int) -> GroupLearning:
        """A group with weights of zero."""
        return GroupLearning(self.options, objective, multiplicity == 1, number)


@dataclass
class OnlineRounds(RoundsState):
    """The history of online learning in rounds.

    Attributes
    ----------
    moves : int
        Sequences of the last round that moved the weights.
    values : list of float
        Recent values, the newest last.
    averaged : bool
        Whether the model is the mean over all steps.
    """

    counts = ("iteration", "evaluations", "moves")
    numbers = ("value",)
    recent = "values"

    moves: int = 1
    values: list[float] = field(default_factory=list)
    averaged: bool = True

    @property
    def weights(self) -> Float:
        """The weights [D]; asks the groups for theirs."""
        weights, sums = self.collected()
        if self.averaged and self.groups is not None and self.iteration:
            weights = weights.copy()
            weights[self.groups.shared] = sums[self.groups.shared] / self.groups.among
        return weights


def learn_in_rounds(
    options: Online, objective: Any, *, callback: Callback = None, state: OnlineRounds | None = None
) -> Result:
    """Make rounds until nothing is left to learn, the losses settle, or the callback says stop.

    Parameters
    ----------
    options : Online
    objective : Apart
        Has the groups.
    callback : callable, optional
    state : OnlineRounds, optional
        To go on from; the groups make its rounds again, unless they have.
    """
    groups = objective.groups(Learning(options))
    n = len(groups.shared)
    now = OnlineRounds(np.zeros((0, n)), np.zeros(0), np.zeros(n)) if state is None else state
    check_fits_data(now.shared.shape == (n,))
    now.groups, now.size, now.averaged = groups, objective.n_features, options.average
    while True:
        so_far = how_many(now.iteration, "round")
        if now.iteration and not now.moves:
            return Result(now, True, f"converged: nothing left to learn after {so_far}")
        if options.tolerance and len(now.values) > PERIOD:
            before, after = now.values[0], now.values[-1]
            if abs(before - after) <= options.tolerance * abs(after):
                settled = f"{PERIOD} rounds changed the objective by less than {options.tolerance:g} of itself"
                return Result(now, True, f"converged: {settled}")
        if now.iteration >= options.max_iter:
            return Result(now, False, f"stopped after {so_far} (max_iter {options.max_iter})")
        _one_round(now)
        if callback is not None and callback(now):
            return Result(now, False, f"stopped after {how_many(now.iteration, 'round')} (by the callback)")


def _one_round(now: OnlineRounds) -> None:
    """One more round, in place: shared weights become the mean of what the groups that have them made of them."""
    assert now.groups is not None
    loss, moves, _ = now.one_more(1.0, 1.0 / now.groups.among).tolist()
    now.value, now.moves = loss, int(moves)
    now.values = [*now.values, loss][-PERIOD - 1 :]
    now.evaluations += 1
