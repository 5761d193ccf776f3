"""From a training problem to weights: where training starts, in which phases it goes, and how it is watched.

A :class:`Plan` says what is to be done, for weights (:func:`plan_weights`) or for the probabilities of a hidden Markov
model by EM (:func:`plan_em`); :func:`carry_out` does it, with dev data, checkpoints and signals.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.criteria.criterion import CostCriterion, Criterion
from loglinear.criteria.hmm import HiddenMarkov
from loglinear.estimators.chain_model import ChainModel
from loglinear.estimators.checkpoint import Checkpoint, kept_before
from loglinear.estimators.dev_data import DevData
from loglinear.estimators.hmm_training import HmmInTraining, em_phase
from loglinear.estimators.phases import Phase, phases_of, run_phases
from loglinear.estimators.problem import Problem
from loglinear.estimators.starting import starting
from loglinear.estimators.training import Training, TrainingInterrupted, TrainingOutcome, catching_signals
from loglinear.generative.baum_welch import Expectation
from loglinear.optimizers.dual import why_not_dual
from loglinear.optimizers.optimizer import Optimizer

Float = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Plan:
    """What is to be trained, from where, and in which phases.

    Parameters
    ----------
    problem : Problem
    criterion : Criterion
    trained : ChainModel or HmmInTraining
        The model whose weights are sought.
    start : float64 [D]
        The weights to start from.
    phases : list of Phase
    starts_from : str or None
        Name of the criterion whose model it starts from.
    score_start : bool
        Whether the start, too, may prove to be the best on the dev data.
    """

    problem: Problem
    criterion: Criterion
    trained: ChainModel | HmmInTraining
    start: Float
    phases: list[Phase]
    starts_from: str | None = None
    score_start: bool = False

    @property
    def same_data(self) -> list[Any]:
        """All numbers that a training that goes on must share with the one that was interrupted."""
        arrays: list[Any] = [*self.problem.arrays(), self.start]
        if isinstance(self.criterion, CostCriterion):
            arrays.append(self.criterion.cost.table)
        return arrays


def plan_em(problem: Problem, criterion: HiddenMarkov, data: Expectation, seed: int, with_dev: bool) -> Plan:
    """Probabilities of a hidden Markov model by EM."""
    phase, start = em_phase(problem, criterion, data, seed, with_dev)
    return Plan(problem, criterion, HmmInTraining(problem.model), start, [phase], score_start=True)


def default_optimizer(problem: Problem, criterion: Criterion, l2: float, from_zero: bool) -> str:
    """The first of the criterion's optimizers that applies."""
    for name in criterion.optimizers:
        if name != "dual" or (from_zero and why_not_dual(criterion, problem.model.features, problem.gold, l2) is None):
            return name
    raise AssertionError(f"{criterion.name} has no optimizer that always applies")


def plan_weights(
    problem: Problem,
    criterion: Criterion,
    optimizer: Callable[[str], Optimizer],
    l2: float,
    init: ChainModel | None,
    *,
    keep: int | None,
    seed: int,
    n_threads: int,
) -> Plan:
    """Weights by ``criterion``, from the model ``init`` (with ``keep``, its features that say most alone) or zero.

    ``optimizer`` makes one, given the name of that which is the default.
    """
    problem, start = starting(problem, init, seed, keep, n_threads)
    first = problem.criterion(criterion.starts_from) if criterion.starts_from and init is None else None
    own = optimizer(default_optimizer(problem, criterion, l2, init is None and first is None))
    opening = own if first is None else optimizer(default_optimizer(problem, first, l2, True))
    phases = phases_of(problem, criterion, own, first, opening, l2, n_threads)
    name = None if first is None else first.name
    return Plan(problem, criterion, problem.model, start, phases, name, score_start=init is not None)


def carry_out(
    plan: Plan,
    training: Callable[..., Training],
    dev: DevData | None,
    checkpoint: Checkpoint | None,
    resume: bool,
    n_threads: int,
) -> tuple[ChainModel, TrainingOutcome]:
    """The model, whose weights are the outcome's, and how it came about; ``training`` makes each phase's."""
    if dev is not None:
        training = functools.partial(training, dev_score=dev.score)
    resumed = kept_before(checkpoint, resume)
    training = functools.partial(training, checkpoint=checkpoint)
    model = plan.problem.model
    with catching_signals() as stop:  # what comes between the phases' own watches
        outcome = run_phases(plan.phases, training, plan.start, resumed, plan.score_start, stop)
        if plan.criterion.scaling:
            began = time.perf_counter()
            model = replace(model, scaling=plan.problem.scaling(outcome.weights, n_threads))
            outcome = replace(outcome, seconds=outcome.seconds + time.perf_counter() - began)
        if stop.is_set():
            written = checkpoint is not None and checkpoint.path.exists()
            raise TrainingInterrupted(outcome.iterations, str(checkpoint.path) if checkpoint and written else None)
    if isinstance(plan.trained, HmmInTraining):
        model = plan.trained.with_weights(outcome.weights)
        outcome = replace(outcome, weights=model.weights)
    return model, outcome
