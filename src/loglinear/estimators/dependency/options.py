"""Which options of a dependency parser go together, and what those left out mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from loglinear.criteria.costs import make_head_cost
from loglinear.criteria.criterion import CRITERIA, cost_users, missing_operations
from loglinear.errors import OptionError
from loglinear.estimators.options import DependencyOptions, l2_factor
from loglinear.generative.base import SMOOTHING
from loglinear.optimizers.optimizer import OPTIMIZERS, Optimizer, make_optimizer
from loglinear.options import Option, check, declared, spec_name, spec_options
from loglinear.structures.arcs.structure import ArcTree

GENERATIVE, M_ESTIMATION, BASE = "generative", "m-estimation", "head-outward"
L2, VARIANCE = 1.0, 3.0  # by default, chosen on held-out sentences of ptbdep's training data
QUICKEST = "adagrad:average"  # of the optimizers of a smooth criterion, on the same sentences
PASSES = 10  # over the data by default
BASE_OPTIONS = (
    Option("words", True, "generate and look at words too, not tags alone", choices=(False, True)),
    Option("samples", 100_000, "trees drawn for the expectations", least=1, kind=int),
    SMOOTHING,
)


@dataclass(frozen=True)
class BaseOptions:
    """What a base is asked to be."""

    words: bool = True
    samples: int = 100_000
    smoothing: float = 1.0


def read_base(spec: str | None) -> BaseOptions:
    """The base that a spec names."""
    if spec is None:
        return BaseOptions()
    if spec_name(spec) != BASE:
        raise OptionError(f"base={spec!r} is not known for trees; there is {BASE}")
    return BaseOptions(**spec_options(spec, BASE_OPTIONS, "base"))


def dependency_criteria() -> list[str]:
    """Names of the criteria that can train a parser."""
    trained = [name for name in CRITERIA.all() if name != M_ESTIMATION and _why_not(name) is None]
    return [GENERATIVE, M_ESTIMATION, *trained]


def _why_not(name: str) -> str | None:
    """What speaks against a criterion of the registry, or None."""
    criterion = CRITERIA.part(name)
    if not criterion.needs or not criterion.learns_weights or criterion.uses_base:
        return "it is for chains"
    missing = missing_operations(criterion, ArcTree)
    return f"it needs {', '.join(missing)}, which trees of arcs do not have" if missing else None


def check_dependency_parser(parser: Any) -> None:
    """Refuse a :class:`~loglinear.DependencyParser` whose options make no sense, or do not fit together."""
    check(parser)
    read_base(parser.base)
    name = spec_name(parser.criterion)
    if name in (GENERATIVE, M_ESTIMATION):
        _check_generative(parser, name)
    else:
        known = dependency_criteria()
        if name not in known:
            why = _why_not(name) if name in CRITERIA.all() else None
            reason = f"{name!r} trains no parser: {why}" if why else f"{name!r} is not known"
            raise OptionError(f"criterion={reason}; there are: {', '.join(known)}")
        criterion = CRITERIA.part(name)
        criterion.check(dict(CRITERIA.spec(parser.criterion).values))
        if parser.cost is not None and not criterion.uses_cost:
            raise OptionError(f"criterion={name!r} takes no cost; those that do are {', '.join(cost_users())}")
        if parser.base is not None:
            raise OptionError(f"base={parser.base!r} goes with {GENERATIVE} and {M_ESTIMATION}, not with {name!r}")
    make_head_cost(parser.cost)
    penalty_of(parser)


def _check_generative(parser: Any, name: str) -> None:
    options: tuple[Option, ...] = ()
    spec_options(parser.criterion, options, "criterion")
    if not (parser.projective and parser.single_root):
        raise OptionError(f"criterion={name!r}: a head-outward model makes projective trees with one root alone")
    if parser.cost is not None:
        raise OptionError(f"criterion={name!r} takes no cost; those that do are {', '.join(cost_users())}")
    if name == GENERATIVE:
        if parser.features != declared(DependencyOptions)["features"].default or parser.min_count != 1:
            raise OptionError(f"criterion={GENERATIVE!r} has no features to choose")
        for option in ("optimizer", "l2", "variance", "max_iter"):
            if getattr(parser, option) is not None:
                raise OptionError(f"criterion={GENERATIVE!r} counts, and has no use for {option}")
        if parser.l1:
            raise OptionError(f"criterion={GENERATIVE!r} counts, and has no use for l1")
    elif parser.optimizer is not None and spec_name(parser.optimizer) != "lbfgs":
        raise OptionError(f"criterion={M_ESTIMATION!r} is trained by lbfgs, not by {parser.optimizer!r}")


def optimizer_spec(parser: Any) -> str:
    """The optimizer of a parser, by name with its options."""
    name = spec_name(parser.criterion)
    possible = ("lbfgs",) if name == M_ESTIMATION else tuple(o for o in CRITERIA.part(name).optimizers if o != "dual")
    if parser.optimizer is None:
        return QUICKEST if spec_name(QUICKEST) in possible else possible[0]
    if spec_name(parser.optimizer) not in possible:
        OPTIMIZERS.part(parser.optimizer)
        raise OptionError(f"optimizer={parser.optimizer!r} does not train {name!r} of trees; {', '.join(possible)} do")
    return str(parser.optimizer)


def optimizer_of(parser: Any, spec: str) -> Optimizer:
    """An optimizer ready for use."""
    by_passes = OPTIMIZERS.part(spec).iterations_are == "passes"
    most = PASSES if parser.max_iter is None and by_passes else parser.max_iter
    return make_optimizer(spec, max_iter=most, tolerance=parser.tolerance, seed=parser.seed)


def penalty_of(parser: Any) -> float:
    """The factor of ||w||^2."""
    name = spec_name(parser.criterion)
    if name == GENERATIVE:
        return 0.0
    chosen = OPTIMIZERS.part(optimizer_spec(parser))
    optimizer_of(parser, optimizer_spec(parser))
    given = [option for option in ("l2", "variance") if getattr(parser, option) is not None]
    if not chosen.takes_l2:
        if given or parser.l1:
            what = given[0] if given else "l1"
            raise OptionError(f"{what}={getattr(parser, what)!r}: optimizer {chosen.name!r} takes no penalty")
        return 0.0
    if given:
        return l2_factor(parser.l2, parser.variance)
    return l2_factor(None, VARIANCE) if name == M_ESTIMATION else L2
