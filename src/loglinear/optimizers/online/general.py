"""Online learning: each sequence in turn, in an order shuffled by the seed, moves the weights as its learner says.

The learner (:mod:`~loglinear.criteria.online`) proposes wrong labellings y_i of the sequence; with their features,

    d_i = f(y_i) - f(y*),    gram_ij = d_i . d_j,    w  <-  w - sum_i tau_i d_i,    tau = steps(losses, gram)

A learner with a step size for each weight (``confidence``) proposes one labelling; its step depends on the squares of
all differences so far, which are summed up here as AdaGrad's are.

The result is the mean of the weights after each sequence, or the last ones with ``average=no``. The weights are not
penalised: averaging, and few passes (chosen on dev data), keep them in bounds. Passes over flat labels and chains are
compiled (:mod:`~loglinear.optimizers.online.flat`, :mod:`~loglinear.optimizers.online.chain`); this is the general
loop, for all structures, partial annotation and new learners.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from loglinear.arrays import Array, Float, Int64
from loglinear.criteria.online import OnlineLearner, Proposal
from loglinear.kernels import kernel
from loglinear.optimizers.objective import Objective
from loglinear.optimizers.online.chain import ChainOnline
from loglinear.optimizers.online.flat import FlatOnline
from loglinear.optimizers.online.learner import NO_STEP
from loglinear.optimizers.optimizer import Callback, Optimizer, Result, State, register
from loglinear.optimizers.passes import PassState, SequencePasses, settle
from loglinear.optimizers.rounds import Apart, check_starts_at_zero
from loglinear.options import option
from loglinear.structures.structure import Scores, Structure


@kernel
def confident_step(
    touched: Int64, groups: Int64, difference: Float, loss: float, variance: float, g: float, weights: Float,
    squares: Float,
) -> float:  # fmt: skip
    """Move the weights of the ``touched`` groups [n] along a ``difference`` [D], each by its variance; the step's size.

    ``squares`` [D] are the sums of squared differences before, over their g; this one is added.
    """
    total = g
    for i in range(touched.shape[0]):
        for f in range(groups[touched[i]], groups[touched[i] + 1]):
            if difference[f] != 0.0:
                total += difference[f] * difference[f] / (1.0 / variance + squares[f])
    step = loss / total
    for i in range(touched.shape[0]):
        for f in range(groups[touched[i]], groups[touched[i] + 1]):
            if difference[f] != 0.0:
                weights[f] -= step * difference[f] / (1.0 / variance + squares[f])
                squares[f] += difference[f] * difference[f] / g
    return step


@register
@dataclass(frozen=True)
class Online(Optimizer):
    """Steps of a learner, sequence by sequence."""

    name = "online"
    summary = "the learner's own steps, one a sequence"
    takes_l1 = False
    takes_l2 = False
    default_iterations = 20
    state_class = PassState

    max_iter: int = 20
    tolerance: float = 1e-5
    seed: int = 0
    average: bool = option("keep the mean of the weights after each sequence", default=True)

    def minimise(
        self, objective: Objective, weights0: Float, *, l1: float = 0.0, callback: Callback = None, state: Any = None
    ) -> Result:
        if isinstance(objective, Apart):
            from loglinear.optimizers.online.rounds import learn_in_rounds

            check_starts_at_zero(weights0, "online learning")
            return learn_in_rounds(self, objective, callback=callback, state=state)
        return OnlineRun(self, objective, weights0, state).until_done(callback)

    def restore(self, arrays: Mapping[str, Array]) -> State:
        """The state of passes over one corpus, or of rounds over groups."""
        if "sent" in arrays:
            from loglinear.optimizers.online.rounds import OnlineRounds

            return OnlineRounds.from_arrays(arrays)
        return super().restore(arrays)


class OnlineRun(SequencePasses):
    """The passes of an online learner."""

    def __init__(self, options: Online, objective: Objective, weights0: Float, state: PassState | None) -> None:
        assert isinstance(objective.criterion, OnlineLearner)
        self.learner = objective.criterion
        keeps_squares = None if self.learner.confidence is None else 1.0
        super().__init__(options, objective, weights0, state, adagrad=keeps_squares)
        self.compiled = FlatOnline.of(objective) or ChainOnline.of(objective)

    def one_pass(self, iteration: int) -> tuple[float, int]:
        if self.compiled is None:
            return super().one_pass(iteration)
        return self.compiled(self.order(iteration), self.lazy.weights, self.lazy.sums)

    def visit(self, sequence: int, progress: float) -> tuple[float, bool]:
        structure, scores, gold, weight = self.prepare(sequence)
        proposal, factor = self.learner.propose(structure, scores, gold), float(weight[0])
        loss = max(0.0, float(proposal.losses.max(initial=0.0)))
        moved = len(proposal.losses) > 0 and self._move(sequence, structure, scores, proposal, factor)
        self.lazy.end_step(0.0)
        return loss * factor, moved

    def _move(self, sequence: int, structure: Structure, scores: Scores, proposal: Proposal, weight: float) -> bool:
        """Move as the learner says; whether the weights changed."""
        if self.learner.confidence is not None:
            return self._move_by_confidence(sequence, structure, scores, proposal, weight)
        differences, once, several = [], np.ones(1), len(proposal.wrong) > 1
        for labels in proposal.wrong:
            parts = scores.zeros_like()
            structure.add_labelling(parts, labels, once)
            structure.add_labelling(parts, proposal.right, -once)
            self.gradient.add(self.corpus, sequence, parts)
            if several:
                differences.append(self.gradient.take())
        gram = self.gradient.gram(differences) if several else np.array([[self.gradient.squared_norm()]])
        steps = self.learner.steps(proposal.losses, gram, weight)
        if several:
            self.gradient.put(differences, steps)
        self.lazy.descend(self.gradient, 1.0 if several else float(steps[0]))
        return bool((steps > NO_STEP).any())

    def _move_by_confidence(
        self, sequence: int, structure: Structure, scores: Scores, proposal: Proposal, weight: float
    ) -> bool:
        """Move each weight by its variance; whether they changed."""
        assert self.learner.confidence is not None and len(proposal.wrong) == 1
        parts, once = scores.zeros_like(), np.ones(1)
        structure.add_labelling(parts, proposal.wrong[0], once)
        structure.add_labelling(parts, proposal.right, -once)
        self.gradient.add(self.corpus, sequence, parts)
        step, lazy = 0.0, self.lazy
        if weight and proposal.losses[0] > 0.0:
            variance, gamma = self.learner.confidence
            touched = self.gradient.touched
            settle(touched, 0, lazy.now, lazy.state)
            step = confident_step(
                touched, lazy.state.groups, self.gradient.values, float(proposal.losses[0]), variance, gamma / weight,
                lazy.weights, lazy.squares,
            )  # fmt: skip
        self.gradient.clear()
        return step > NO_STEP
