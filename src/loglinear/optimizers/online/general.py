"""Online learning: each sequence in turn, in an order shuffled by the seed, moves the weights as its learner says.

The learner (:mod:`~loglinear.criteria.online`) proposes wrong labellings y_i of the sequence; here are the features:

    d_i = f(y_i) - f(y*),    gram_ij = d_i . d_j,    w  <-  w - sum_i tau_i d_i,    tau = steps(losses, gram)

The result is the mean of the weights after each sequence, or with ``average=no`` the last ones. There is no penalty on
the weights: averaging, and few passes (chosen on dev data), keep them in bounds. Passes over flat labels and chains are
compiled (:mod:`~loglinear.optimizers.online.flat`, :mod:`~loglinear.optimizers.online.chain`); here is the general way,
for all structures, partial annotation and learners to come.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from loglinear.arrays import Array, Float, Int32
from loglinear.criteria.online import OnlineLearner
from loglinear.optimizers.objective import Objective
from loglinear.optimizers.online.chain import ChainOnline
from loglinear.optimizers.online.flat import FlatOnline
from loglinear.optimizers.online.learner import NO_STEP
from loglinear.optimizers.optimizer import Optimizer, Result, register
from loglinear.optimizers.passes import LazyWeights, PassState, SequencePasses
from loglinear.options import option
from loglinear.structures.structure import Scores, Structure


@register
@dataclass(frozen=True)
class Online(Optimizer):
    """Steps of a learner, sequence by sequence."""

    name = "online"
    summary = "the learner's own steps, one a sequence"
    takes_l1 = False
    takes_l2 = False
    default_iterations = 20

    max_iter: int = 20
    tolerance: float = 1e-5
    seed: int = 0
    average: bool = option("keep the mean of the weights after each sequence", default=True)

    def restore(self, arrays: Mapping[str, Array]) -> PassState:
        return PassState.from_arrays(arrays)

    def minimise(
        self,
        objective: Objective,
        weights0: Float,
        *,
        l1: float = 0.0,
        callback: Callable[[PassState], bool | None] | None = None,
        state: PassState | None = None,
    ) -> Result:
        return _Run(self, objective, weights0, state).until_done(callback)


class _Run(SequencePasses):
    def __init__(self, options: Online, objective: Objective, weights0: Float, state: PassState | None) -> None:
        super().__init__(options, objective, weights0, state)
        assert isinstance(objective.criterion, OnlineLearner)
        self.learner, self.step = objective.criterion, 1.0
        self.lazy = LazyWeights(self.features, self.start, len(self.sequences), average=options.average)
        self.restore(state)
        self.compiled = FlatOnline.of(objective) or ChainOnline.of(objective)

    def one_pass(self, iteration: int) -> tuple[float, int]:
        if self.compiled is None:
            return super().one_pass(iteration)
        return self.compiled(self.order(iteration), self.lazy.weights, self.lazy.sums)

    def visit(self, sequence: int, progress: float) -> tuple[float, bool]:
        structure, scores, gold, weight = self.prepare(sequence)
        proposal = self.learner.propose(structure, scores, gold)
        loss = max(0.0, float(proposal.losses.max(initial=0.0)))
        moved = False
        if len(proposal.losses):
            moved = self._move(
                sequence, structure, scores, proposal.right, proposal.wrong, proposal.losses, float(weight[0])
            )
        self.lazy.end_step(0.0)
        return loss * float(weight[0]), moved

    def _move(
        self,
        sequence: int,
        structure: Structure,
        scores: Scores,
        right: Int32,
        wrong: Int32,
        losses: Float,
        weight: float,
    ) -> bool:
        """Move as the learner says; whether that is anywhere."""
        differences = []
        for labels in wrong:
            self._add_difference(sequence, structure, scores, labels, right)
            if len(wrong) > 1:
                differences.append(self.gradient.take())
        gram = self.gradient.gram(differences) if len(wrong) > 1 else np.array([[self.gradient.squared_norm()]])
        steps = self.learner.steps(losses, gram, weight)
        if len(wrong) > 1:
            self.gradient.put(differences, steps)
        self.lazy.descend(self.gradient, 1.0 if len(wrong) > 1 else float(steps[0]))
        return bool((steps > NO_STEP).any())

    def _add_difference(
        self,
        sequence: int,
        structure: Structure,
        scores: Scores,
        wrong: Int32,
        right: Int32,
    ) -> None:
        parts, once = scores.zeros_like(), np.ones(1)
        structure.add_labelling(parts, wrong, once)
        structure.add_labelling(parts, right, -once)
        self.gradient.add(self.corpus, sequence, parts)
