"""The plan of a training: which options go together, and what follows from them.

    penalty            the factor of ||w||^2: l2, 1 / 2 variance, or the problem's default
    optimizer          the one asked for, or the first of the criterion's list that applies to the problem
    phases             first the criterion that the chosen one starts from, if any, then the chosen one

Combinations that make no sense are rejected here, before anything is trained, with a sentence that says why. Options of
a single estimator are checked where they are declared (:mod:`loglinear.estimators.options`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from loglinear.arrays import Arrays, Float
from loglinear.criteria.criterion import CRITERIA, Criterion, cost_users, missing_operations
from loglinear.errors import OptionError
from loglinear.optimizers.optimizer import OPTIMIZERS, Optimizer, make_optimizer
from loglinear.options import Registry, spec_name
from loglinear.training.problem import MAIN, Learnable, Phase

LEAST_L2 = 1e-20  # that is not 0: its inverse is still far from infinite in single precision

# -- what fits together ------------------------------------------------------------------------------------------------

CHAINS_ONLY = "it trains chains only"
ONLY = {
    "piece_normalisers": CHAINS_ONLY,
    "add_piece_expectations": CHAINS_ONLY,
    "add_given_neighbours": CHAINS_ONLY,
    "squared_distance": "it trains classifiers only",
}  #: why a criterion does not apply, by an operation that only one structure has


@dataclass(frozen=True)
class Trained:
    """What is trained, as far as criteria and optimizers need to know.

    Parameters
    ----------
    name : str
        In messages: ``tagger``.
    parts : str
        Its structures, in messages: ``chains of labels``.
    structure : type
    other_criteria : tuple of str
        Names of its own criteria, which are checked elsewhere.
    registry : Registry, optional
        Its own criteria, instead of those of all structures.
    without : tuple of str
        Names of optimizers that do not support this structure.
    limited : mapping
        Optimizers that support it by some criteria only: by name, the names of these.
    pieces : bool
        Whether criteria apply that cut a chain into pieces or need no operation of the structure.
    bases : bool
        Whether criteria of the registry with a generative base apply.
    labels : bool
        Whether choices have names that a criterion may count by.
    elsewhere : mapping
        Criteria that other estimators alone have: by name, what they train.
    """

    name: str
    parts: str
    structure: type
    other_criteria: tuple[str, ...] = ()
    registry: Registry[Any] | None = None
    without: tuple[str, ...] = ()
    limited: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    pieces: bool = False
    bases: bool = True
    labels: bool = True
    elsewhere: Mapping[str, str] = field(default_factory=dict)

    @property
    def known(self) -> Registry[Any]:
        """The criteria to choose from."""
        return CRITERIA if self.registry is None else self.registry

    def unsupported_reason(self, name: str) -> str | None:
        """Why a criterion cannot train it, or None if it can."""
        if name in self.other_criteria or (self.registry is not None and name in self.registry):
            return None
        if name not in CRITERIA:
            return f"it trains {self.elsewhere[name]}" if name in self.elsewhere else "there is no such criterion"
        criterion = CRITERIA[name]
        missing = missing_operations(criterion, self.structure)
        if not self.pieces and (not criterion.needs or not criterion.learns_weights):
            return CHAINS_ONLY
        if missing:
            return next((ONLY[name] for name in missing if name in ONLY), f"it is not available for {self.parts}")
        if self.registry is not None:
            return f"it is not available for {self.parts}"
        if criterion.counts_labels and not self.labels:
            return f"it counts labels, and {self.parts} have none"
        return CHAINS_ONLY if criterion.uses_base and not self.bases else None

    def criteria(self) -> list[str]:
        """Names of the criteria that can train it."""
        known = dict.fromkeys([*self.other_criteria, *self.known])
        return [name for name in known if self.unsupported_reason(name) is None]

    def optimizers(self, criterion: type[Any]) -> tuple[str, ...]:
        """Names of the optimizers that can train it by a criterion."""
        able = [name for name in criterion.optimizers if name not in self.without]
        return tuple(name for name in able if criterion.name in self.limited.get(name, (criterion.name,)))


def check_training(options: Any, trained: Trained) -> None:
    """Reject a criterion, cost, optimizer and penalties that do not go together; ``options`` is the estimator."""
    check_criterion(options, trained)
    check_optimizer(options, trained)


def check_criterion(options: Any, trained: Trained) -> None:
    """Reject a criterion that cannot train this, and a cost or a penalty that makes no sense with it."""
    l2_factor(options.l2, options.variance)
    name = spec_name(options.criterion)
    if why := trained.unsupported_reason(name):
        known = name in CRITERIA or name in trained.elsewhere
        reason = f"trains no {trained.name}: {why}" if known else "is not known"
        raise OptionError(f"criterion={name!r} {reason}; there are: {', '.join(trained.criteria())}")
    if name not in trained.other_criteria:
        check_cost(options, name, trained.known.spec(options.criterion).part.uses_cost)


def check_cost(options: Any, name: str, uses_cost: bool) -> None:
    """Reject a cost that a criterion does not use."""
    if options.cost is not None and not uses_cost:
        raise OptionError(f"criterion={name!r} takes no cost; those that do are {', '.join(cost_users())}")


def check_optimizer(options: Any, trained: Trained) -> None:
    """Reject an optimizer that cannot train the criterion on this, and penalties that it does not support."""
    name = spec_name(options.criterion)
    if name in trained.other_criteria:
        return
    criterion = trained.known[name]
    able = trained.optimizers(criterion)
    spec = able[0] if options.optimizer is None else options.optimizer
    optimizer = OPTIMIZERS.part(spec).name
    if optimizer not in able:
        reason = _not_able(optimizer, criterion, trained)
        raise OptionError(f"criterion={name!r} is trained by {', '.join(able)}, not by {optimizer!r}: {reason}")
    if optimizer == "dual" and options.optimizer is not None and (form := _own_form(trained.known, options.criterion)):
        raise OptionError(f"optimizer='dual': it does not do {form}; use lbfgs")
    check_penalties(options, spec, name, able)


def _own_form(known: Any, spec: str) -> str | None:
    """What the options of a criterion ask for that only the general passes do; known before there is a cost."""
    part = known.part(spec)
    if not issubclass(part, Criterion):  # those of grammars have none
        return None
    criterion = known.spec(spec).make(*([None] if part.uses_cost else []))
    return criterion.own_form


def _not_able(optimizer: str, criterion: Any, trained: Trained) -> str:
    """Why an optimizer cannot train a criterion."""
    if optimizer in criterion.optimizers:
        only = f" but by {' and '.join(trained.limited[optimizer])}" if optimizer in trained.limited else ""
        return f"that does not go over {trained.parts}{only}"
    if criterion.optimizers == ("online",):
        return "its steps are its own"
    others = ", ".join(name for name, other in CRITERIA.all().items() if optimizer in other.optimizers)
    return f"it does not say how far to step, as {others} do" if optimizer == "online" else f"that is for {others}"


def check_penalties(options: Any, spec: str, name: str, able: tuple[str, ...]) -> None:
    """Reject penalties that an optimizer does not support; ``able`` names those that can train criterion ``name``."""
    optimizer = OPTIMIZERS.part(spec)
    for penalty in ("l1", "l2", "variance"):
        value = getattr(options, penalty)
        if value and not optimizer.takes_l2:
            raise OptionError(
                f"{penalty}={value:g}: criterion={name!r} has no penalty; "
                "averaging and few passes (max_iter, or dev data) keep its weights in bounds"
            )
    if options.l1 and not optimizer.takes_l1:
        others = [other for other in able if OPTIMIZERS[other].takes_l1]
        remedy = f"use {' or '.join(others)}" if others else f"none that trains criterion={name!r} does"
        raise OptionError(f"optimizer={optimizer.name!r} takes no l1={options.l1:g}, which has kinks; {remedy}")
    made = make_optimizer(spec, max_iter=options.max_iter, tolerance=options.tolerance, seed=options.seed)
    if options.l1 and getattr(made, "average", False):
        raise OptionError(
            f"optimizer={optimizer.name!r} with average and l1={options.l1:g}: "
            "the mean of sparse weights is not sparse; give one of both"
        )


def refuse_iterating(name: str, reason: str, *, init: Any = None, dev: Any = None) -> None:
    """Reject arguments that only an iterative training uses, and say why criterion ``name`` is not one.

    A checkpoint is accepted: there is nothing to resume, so that none is written.
    """
    arguments = {"a model to start from (init)": init, "dev data (X_dev)": dev}
    unused = [what for what, value in arguments.items() if value is not None]
    if unused:
        raise OptionError(f"criterion={name!r} {reason}; it has no use for {' and '.join(unused)}")


# -- what follows from the options -------------------------------------------------------------------------------------


def l2_factor(l2: float | None, variance: float | None, default: float = 1.0) -> float:
    """The factor of ||w||^2 that ``l2`` and ``variance`` ask for."""
    if variance is None:
        if l2 is not None and 0.0 < l2 < LEAST_L2:
            raise OptionError(f"l2={l2} is too small to be told from none; give 0, or at least {LEAST_L2:g}")
        return default if l2 is None else float(l2)
    if l2 is not None:
        raise OptionError(f"l2={l2} and variance={variance} say the same thing twice (l2 = 1 / 2 variance); give one")
    if variance == 0:
        raise OptionError("variance=0 would keep every weight at zero; give a positive number")
    factor = 1.0 / (2.0 * variance)
    if math.isinf(factor):
        raise OptionError(f"variance={variance} is too small: l2 = 1 / 2 variance would be infinite")
    if factor < LEAST_L2:
        raise OptionError(f"variance={variance} is too great to be told from no penalty; give l2=0, or less")
    return factor


def first_that_applies(criterion: Criterion, applies: Callable[[str], bool]) -> str:
    """The first of a criterion's optimizers that applies."""
    for name in criterion.optimizers:
        if applies(name):
            return name
    raise AssertionError(f"{criterion.name} has no optimizer that always applies")


def planned_optimizer(part: Learnable, options: Any, criterion: Criterion, from_zero: bool) -> tuple[Optimizer, float]:
    """The optimizer that finds the weights, and the factor of ||w||^2: 0 for an optimizer without penalties."""
    l2 = l2_factor(options.l2, options.variance, part.default_l2(criterion))
    spec = options.optimizer or part.default_optimizer(criterion, l2, from_zero)
    kind = OPTIMIZERS.part(spec)
    most = part.default_iterations(kind) if options.max_iter is None else options.max_iter
    optimizer = make_optimizer(spec, max_iter=most, tolerance=options.tolerance, seed=options.seed)
    return optimizer, l2 if kind.takes_l2 else 0.0


def phases_of(part: Learnable, options: Any, n_threads: int, from_zero: bool) -> list[Phase]:
    """The phases that find a part's weights, from zero or from a model; the last is the criterion's own."""
    criterion = part.criterion(options.criterion, options.cost)
    first = part.criterion(criterion.starts_from) if criterion.starts_from and from_zero else None
    optimizer, l2 = planned_optimizer(part, options, criterion, from_zero)

    def fixed(by: Criterion, penalty: float) -> Callable[[Float, Arrays | None], tuple[Any, Arrays]]:
        return lambda start, kept: (part.objective(by, penalty, n_threads), {})

    forms = criterion.schedule() if isinstance(criterion, Criterion) else []  # grammars have criteria of their own
    phases = part.own_phases(criterion, optimizer, l2, n_threads) or [
        *(Phase(name, optimizer, fixed(form, l2)) for name, form in forms),
        Phase(MAIN, optimizer, fixed(criterion, l2)),
    ]
    if first is not None:
        opening, opening_l2 = planned_optimizer(part, options, first, True)
        phases = [Phase(first.name, opening, fixed(first, opening_l2)), *phases]
    return [replace(phase, l1=options.l1) for phase in phases]


def unused_options_note(spec: str, registry: Registry[Any] = CRITERIA, known: str = "labels") -> str:
    """A note for the training message: options that only affect what is hidden, when all the ``known`` are known."""
    parsed = registry.spec(spec)
    moot = [f"{name}={parsed.values[name]!r}" for name in parsed.part.for_hidden if name in parsed.values]
    if not moot:
        return ""
    return f"; all {known} are known, so {', '.join(moot)} {'has' if len(moot) == 1 else 'have'} no effect"
