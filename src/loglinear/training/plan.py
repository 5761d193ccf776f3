"""What a training is to do: its phases, and which options go together.

The phases of a training: most criteria have one, some begin elsewhere.

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
from typing import TYPE_CHECKING, Any

import numpy as np

from loglinear.arrays import Array, Arrays, Float
from loglinear.criteria.criterion import CRITERIA, Criterion, cost_users, missing_operations
from loglinear.criteria.m_estimation import MEstimation
from loglinear.errors import OptionError
from loglinear.generative.base import OwnBase, is_own, read_base
from loglinear.optimizers.objective import AnyObjective
from loglinear.optimizers.optimizer import OPTIMIZERS, Optimizer, make_optimizer
from loglinear.options import declared, spec_name
from loglinear.structures.chain.structure import Chain
from loglinear.structures.gold import Gold
from loglinear.training.run import Training, TrainingInterrupted, TrainingOutcome

if TYPE_CHECKING:
    from loglinear.estimators.tagger.problem import Problem


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
    preparing, last_keep = 0.0, dict[str, Array]()
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


# ----------------------------------------------------------------------------------------------------------------------
# Which options of a tagger go together; a combination that makes no sense is refused with the reason.


def check_combination(tagger: Any) -> None:
    """Refuse a :class:`~loglinear.Tagger` whose criterion, optimizer and other options do not fit together."""
    criterion = CRITERIA.part(tagger.criterion)
    values = dict(CRITERIA.spec(tagger.criterion).values)
    criterion.check(values)
    _check_criterion(tagger, criterion)
    if tagger.hash_bits is not None:
        _check_hashed(tagger, criterion, bool(values.get("joint")))
    spec = criterion.optimizers[0] if tagger.optimizer is None else tagger.optimizer
    if values.get("joint") and spec_name(spec) != "lbfgs":
        raise OptionError(
            f"criterion={tagger.criterion!r} is trained by lbfgs alone: {spec_name(spec)} goes sequence by sequence, "
            "and the likelihood of the columns does not"
        )
    check_optimizer(tagger, criterion, spec)


def without_effect(spec: str) -> str:
    """What to add to the report on data whose labels are all known: options that are given for hidden ones."""
    criterion = CRITERIA.part(spec)
    given = dict(CRITERIA.spec(spec).values)
    moot = [f"{name}={given[name]!r}" for name in criterion.for_hidden if name in given]
    if not moot:
        return ""
    return f"; all labels are known, so {', '.join(moot)} {'has' if len(moot) == 1 else 'have'} no effect"


def _check_criterion(tagger: Any, criterion: type[Criterion]) -> None:
    name = criterion.name
    if missing := missing_operations(criterion, Chain):
        raise OptionError(
            f"criterion={name!r} needs {', '.join(missing)}, which chains of labels do not have: it is for flat labels"
        )
    if tagger.cost is not None and not criterion.uses_cost:
        raise OptionError(f"criterion={name!r} takes no cost; those that do are {', '.join(cost_users())}")
    if not criterion.learns_weights:
        _check_counted(tagger, name)
    if tagger.base is not None and name != "m-estimation":
        raise OptionError(f"base={tagger.base!r:.60} goes with criterion='m-estimation', not with {name!r}")
    if is_own(tagger.base):
        OwnBase.of(tagger.base)
    elif tagger.base is not None:
        read_base(tagger.base)
    if tagger.sub_labels > 1 and not criterion.learns_from_hidden():
        able = ", ".join(other for other, each in CRITERIA.all().items() if each.learns_from_hidden())
        raise OptionError(
            f"sub_labels={tagger.sub_labels}: which sub-label is right is not known, and criterion={name!r} needs one "
            f"label for each token; those that do not are {able}"
        )


def _check_counted(tagger: Any, name: str) -> None:
    """Refuse what is about features and weights for a model that has none."""
    for option, instead in (("max_iter", "rounds"), ("tolerance", "tolerance")):
        if (value := getattr(tagger, option)) != declared(type(tagger))[option].default:
            raise OptionError(
                f"{option}={value!r}: criterion={name!r} has no weights to optimise; where labels are hidden, "
                f"{name}:{instead}={value!r} says when EM ends"
            )
    penalties, features = (
        ("l1", "l2", "variance"),
        ("min_count", "states", "transitions", "pair_features", "hash_bits", "prune", "precision"),
    )
    for option in ("optimizer", "template", "gazetteers", *penalties, *features):
        value = getattr(tagger, option)
        if value not in (None, declared(type(tagger))[option].default):
            raise OptionError(f"{option}={value!r:.40}: criterion={name!r} is counted, and has no features or weights")


def _check_hashed(tagger: Any, criterion: type[Criterion], joint: bool) -> None:
    """Refuse what needs to know which attributes there are."""
    hashed, reason = f"hash_bits={tagger.hash_bits}", None
    if tagger.min_count > 1:
        reason = f"min_count={tagger.min_count} counts attributes, which are not kept; prune=0.5 leaves out weights"
    elif criterion.uses_base:
        reason = f"criterion={tagger.criterion!r} has a base model that must know what each attribute looks at"
    elif joint:
        reason = f"criterion={tagger.criterion!r} predicts columns, and must know which attributes a value would make"
    if reason is not None:
        raise OptionError(f"{hashed}: {reason}")


def check_optimizer(tagger: Any, criterion: type[Criterion], spec: str) -> None:
    """Refuse an optimizer, and penalties, that do not fit the criterion of a tagger, or a classifier."""
    optimizer = OPTIMIZERS.part(spec)
    if optimizer.name not in criterion.optimizers:
        if criterion.optimizers == ("online",):
            reason = "its steps are its own"
        elif optimizer.name != "online":
            able = [other for other, each in CRITERIA.all().items() if optimizer.name in each.optimizers]
            reason = f"that is for {', '.join(able)}"
        else:
            learners = ", ".join(other for other, each in CRITERIA.all().items() if each.optimizers == ("online",))
            reason = f"it does not say how far to step, as {learners} do"
        raise OptionError(
            f"criterion={criterion.name!r} is trained by {', '.join(criterion.optimizers)}, "
            f"not by {optimizer.name!r}: {reason}"
        )
    penalties = {"l1": tagger.l1, "l2": tagger.l2, "variance": tagger.variance}
    for penalty, value in penalties.items():
        if value and not optimizer.takes_l2:
            raise OptionError(
                f"{penalty}={value:g}: criterion={criterion.name!r} has no penalty; "
                "averaging and few passes (max_iter, or dev data) keep its weights in bounds"
            )
    if tagger.l1 and not optimizer.takes_l1:
        raise OptionError(f"optimizer={optimizer.name!r} takes no l1={tagger.l1:g}, which has kinks; use lbfgs")
    made = make_optimizer(spec, max_iter=tagger.max_iter, tolerance=tagger.tolerance, seed=tagger.seed)
    if tagger.l1 and getattr(made, "average", False):
        raise OptionError(
            f"optimizer={optimizer.name!r} with average and l1={tagger.l1:g}: "
            "the mean of sparse weights is not sparse; give one of both"
        )
