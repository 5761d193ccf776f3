"""The phases of a training: most criteria have one, some begin elsewhere.

    risk, jrb            first the criterion they start from, then their own
    nota:threshold=...   first without wrong contexts, then with those the model of then finds probable
    m-estimation         where labels are hidden, rounds, each from the labels that the model of then finds probable

A checkpoint keeps the phase it was written in and what that phase had made of the ones before, so that a training goes
on where it was.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.criteria.criterion import Criterion
from loglinear.criteria.m_estimation import MEstimation
from loglinear.estimators.problem import Problem
from loglinear.estimators.training import Training, TrainingInterrupted, TrainingOutcome
from loglinear.optimizers.objective import AnyObjective
from loglinear.optimizers.optimizer import Optimizer
from loglinear.structures.gold import Gold

Float = npt.NDArray[np.float64]
Arrays = dict[str, npt.NDArray[Any]]
Resumed = tuple[Arrays, dict[str, Any]]
OPENING, MAIN = "opening", "main"


@dataclass(frozen=True)
class Phase:
    """One run of an optimizer.

    Parameters
    ----------
    name : str
        What a checkpoint calls it; the last one is ``main``.
    optimizer : Optimizer
    prepare : callable
        From the weights it starts from and what a checkpoint kept (None if there is none) to the objective, and the
        arrays that a checkpoint is to keep.
    """

    name: str
    optimizer: Optimizer
    prepare: Callable[[Float, Arrays | None], tuple[AnyObjective, Arrays]]


def phases_of(
    problem: Problem,
    criterion: Criterion,
    optimizer: Optimizer,
    first: Criterion | None,
    opening: Optimizer,
    l2: float,
    n_threads: int,
) -> list[Phase]:
    """The phases that train ``criterion``; ``first`` is the criterion it starts from, if any, by ``opening``."""

    def fixed(what: Problem, by: Criterion) -> Callable[[Float, Arrays | None], tuple[AnyObjective, Arrays]]:
        return lambda start, kept: (what.objective(by, l2, n_threads, single_precision=True), {})

    if first is not None:
        return [Phase(first.name, opening, fixed(problem, first)), Phase(MAIN, optimizer, fixed(problem, criterion))]
    if isinstance(criterion, MEstimation) and problem.gold.allowed is not None:
        return _rounds(problem, criterion, optimizer, l2, n_threads)
    if criterion.chooses_after is None:
        return [Phase(MAIN, optimizer, fixed(problem, criterion))]

    def with_probable_contexts(start: Float, kept: Arrays | None) -> tuple[AnyObjective, Arrays]:
        contexts = problem.contexts_chosen(criterion, start, n_threads) if kept is None else kept["contexts"]
        again = replace(problem, gold=replace(problem.gold, contexts=np.array(contexts)))
        return again.objective(criterion, l2, n_threads), {"contexts": contexts}

    after = min(criterion.chooses_after, optimizer.max_iter)
    beginning, rest = (replace(optimizer, max_iter=n) for n in (after, optimizer.max_iter - after))  # type: ignore[type-var]  # dataclasses
    return [Phase(OPENING, beginning, fixed(problem, criterion)), Phase(MAIN, rest, with_probable_contexts)]


def _rounds(problem: Problem, criterion: MEstimation, optimizer: Optimizer, l2: float, n_threads: int) -> list[Phase]:
    """A phase for each round of completing the labels and learning from them."""

    made: dict[bytes, AnyObjective] = {}  # the last objective, by the labels it is of

    def from_completed_labels(start: Float, kept: Arrays | None) -> tuple[AnyObjective, Arrays]:
        labels = problem.completed(start, n_threads) if kept is None else np.array(kept["labels"])
        if labels.tobytes() not in made:
            made.clear()
            made[labels.tobytes()] = replace(problem, gold=Gold(labels)).objective(criterion, l2, n_threads)
        return made[labels.tobytes()], {"labels": labels}

    names = [*(f"round {i + 1}" for i in range(criterion.rounds - 1)), MAIN]
    return [Phase(name, optimizer, from_completed_labels) for name in names]


def run_phases(
    phases: list[Phase],
    training: Callable[..., Training],
    start: Float,
    resumed: Resumed | None,
    score_start: bool,
    stop: threading.Event,
) -> TrainingOutcome:
    """Run what is left of the phases, each from the weights of the one before.

    Dev data is for the last alone. A phase that would learn from the same as the one before is left out, but for the
    last. ``stop`` is set when a signal asks to stop while a phase is being prepared. ``training`` makes a
    :class:`Training` of the optimizer, the objective and what else differs between phases. Time (that of preparing them
    included), iterations and history are those of all phases.
    """
    before: list[TrainingOutcome] = []
    preparing, last_keep = 0.0, dict[str, npt.NDArray[Any]]()
    reached = 0 if resumed is None else [phase.name for phase in phases].index(resumed[1]["phase"])
    for phase in phases[reached:]:
        kept = None
        if resumed is not None:
            kept = {k.removeprefix("phase."): a for k, a in resumed[0].items() if k.startswith("phase.")}
        began = time.perf_counter()
        objective, keep = phase.prepare(start, kept)
        preparing += time.perf_counter() - began
        if keep and phase.name != MAIN and _same(keep, last_keep):
            continue
        last_keep = keep
        own = {} if phase.name == MAIN else {"dev_score": None}
        run = training(optimizer=phase.optimizer, objective=objective, phase=phase.name, keep=keep, **own)
        if stop.is_set():
            raise TrainingInterrupted(sum(each.iterations for each in before), run.saved_at)
        outcome = run.run(start, resumed, score_start=score_start or len(phases) > 1)
        start, resumed = outcome.weights, None
        before.append(outcome)
    return replace(
        outcome,
        iterations=sum(each.iterations for each in before),
        evaluations=sum(each.evaluations for each in before),
        seconds=preparing + sum(each.seconds for each in before),
        history=[progress for each in before for progress in each.history],
    )


def _same(one: Arrays, other: Arrays) -> bool:
    """Whether all arrays are equal."""
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)
