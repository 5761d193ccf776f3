"""Stochastic gradient descent and AdaGrad: a step after each sequence, in an order shuffled by the seed.

    sgd       w <- w - eta_t g,               eta_t = step / (1 + decay * passes)         (Robbins & Monro 1951)
    adagrad   w_f <- w_f - step / sqrt(1 + sum of its squared derivatives so far) g_f      (Duchi, Hazan & Singer 2011)

g is the gradient of one sequence's loss (for max-margin a subgradient); each step also pays that sequence's share of
the penalties, lazily (:mod:`~loglinear.optimizers.passes`). If no step size is given, it is calibrated: among
powers of two, the one that lowers the objective of a sample most in one pass over it (Bottou 2010). With ``average``
the result is the mean of the weights after each step.

Passes over first-order chains are compiled (:mod:`~loglinear.optimizers.stochastic.chain`); this is the general loop,
for all structures, criteria and partial annotation.

The objective reported after each pass is the sum of the losses before each step plus the penalties at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from loglinear.arrays import Float, Int64
from loglinear.optimizers.objective import Objective
from loglinear.optimizers.optimizer import Callback, Optimizer, Result, register
from loglinear.optimizers.passes import PassState, SequencePasses
from loglinear.optimizers.stochastic.chain import ChainPass
from loglinear.options import option

SAMPLE = 500  # sequences that the step size is calibrated on
FIRST_TRIAL, SMALLEST_TRIAL, MOST_TRIALS = 0.25, 1e-12, 12


@dataclass(frozen=True)
class Stochastic(Optimizer):
    """What both share: passes over the sequences, one step each."""

    state_class = PassState

    max_iter: int = 50
    tolerance: float = 1e-5
    seed: int = 0
    step: float | None = option("size of the first steps (calibrated on a sample if not given)", default=None, above=0)
    average: bool = option("keep the mean of the weights after each step", default=False)

    def minimise(
        self, objective: Objective, weights0: Float, *, l1: float = 0.0, callback: Callback = None, state: Any = None
    ) -> Result:
        step = self.step if state is None else state.step
        if step is None:
            step = self._calibrated(objective, weights0, l1)
        return _Run(self, objective, weights0, l1, step, state).until_done(callback)

    def adaptive(self, step: float) -> float | None:
        """AdaGrad's step; None for others."""
        return None

    def step_at(self, step: float, passes: float) -> float:
        """The size of a step after that many passes."""
        return step

    def _calibrated(self, objective: Objective, weights0: Float, l1: float) -> float:
        """The power of two that lowers the objective of a sample most in one pass over it."""
        rng = np.random.default_rng([self.seed, 0])
        n = objective.corpus.n_sequences
        sample = np.sort(rng.permutation(n)[:SAMPLE])
        trial = replace(self, average=False)

        def after_a_pass(step: float) -> float:
            run = _Run(trial, objective, weights0, l1, step, None, sample)
            with np.errstate(all="ignore"):
                run.one_pass(1)
                value = run.loss_of(run.lazy.weights)
            return value if np.isfinite(value) else np.inf

        step, best = FIRST_TRIAL, after_a_pass(FIRST_TRIAL)
        while not np.isfinite(best) and step > SMALLEST_TRIAL:
            step /= 2.0
            best = after_a_pass(step)
        for factor in (2.0, 0.5):
            for _ in range(MOST_TRIALS):
                value = after_a_pass(step * factor)
                if not value < best:
                    break
                step, best = step * factor, value
        return step


class _Run(SequencePasses):
    """One minimisation."""

    def __init__(
        self,
        options: Stochastic,
        objective: Objective,
        weights0: Float,
        l1: float,
        step: float,
        state: PassState | None,
        sequences: Int64 | None = None,
    ) -> None:
        share = 1.0 / objective.corpus.n_sequences
        penalties = {"l1": l1 * share, "l2": objective.l2 * share}
        super().__init__(
            options, objective, weights0, state, step, sequences, **penalties, adagrad=options.adaptive(step)
        )
        self.options, self.total_l1 = options, l1
        self.compiled = ChainPass.of(objective)

    def one_pass(self, iteration: int) -> tuple[float, int]:
        if self.compiled is None:
            return super().one_pass(iteration)
        order = self.order(iteration)
        n = len(order)
        steps = np.array([self.options.step_at(self.step, iteration - 1 + i / n) for i in range(n)])
        losses = self.compiled(order, steps, self.lazy, self.gradient.met)
        self.lazy.settle()
        return losses, n

    def visit(self, sequence: int, progress: float) -> tuple[float, bool]:
        self.lazy.look_at(self.corpus, sequence)
        structure, scores, gold, weight = self.prepare(sequence)
        losses, parts = self.objective.criterion.evaluate(structure, scores, gold, weight)
        self.gradient.add(self.corpus, sequence, parts)
        step = self.options.step_at(self.step, progress)
        self.lazy.descend(self.gradient, step)
        self.lazy.end_step(step)
        return float(losses[0]), True

    def penalty(self, weights: Float) -> float:
        penalised = weights[: self.objective.n_penalised]
        return self.objective.l2 * float(penalised @ penalised) + self.total_l1 * float(np.abs(penalised).sum())

    def loss_of(self, weights: Float) -> float:
        """Objective of the sequences visited, with their share of the penalties."""
        self.lay_out(weights)
        losses = 0.0
        for sequence in self.sequences.tolist():
            structure, scores, gold, weight = self.prepare(sequence)
            losses += float(self.objective.criterion.evaluate(structure, scores, gold, weight)[0][0])
        return losses + self.penalty(weights) * len(self.sequences) / self.corpus.n_sequences


@register
@dataclass(frozen=True)
class SGD(Stochastic):
    """Stochastic gradient descent with a fixed or decaying step."""

    name = "sgd"
    summary = "stochastic gradient descent, one step a sequence"

    decay: float = option("the step is divided by 1 + decay * passes; 0 keeps it fixed", default=1.0, least=0)

    def step_at(self, step: float, passes: float) -> float:
        return step / (1.0 + self.decay * passes)


@register
@dataclass(frozen=True)
class AdaGrad(Stochastic):
    """Steps that shrink with the derivatives each weight has seen."""

    name = "adagrad"
    summary = "AdaGrad: stochastic steps, smaller for weights that moved much"

    def adaptive(self, step: float) -> float | None:
        return step
