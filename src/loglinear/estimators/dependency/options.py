"""The options of a dependency parser, declared once, and which of them go together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from loglinear.criteria.costs import make_head_cost
from loglinear.criteria.criterion import CRITERIA, cost_users, missing_operations
from loglinear.errors import OptionError
from loglinear.estimators.options import l2_factor
from loglinear.generative.base import SMOOTHING
from loglinear.optimizers.optimizer import OPTIMIZERS, Optimizer, make_optimizer
from loglinear.options import Option, spec_name, spec_options
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
OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        Option("criterion", "mira", "what training minimises, with its options: generative, m-estimation, cll, ..."),
        Option("cost", None, "how bad a wrong head is: hamming:M"),
        Option("projective", True, "whether arcs may not cross", choices=(False, True)),
        Option("single_root", True, "whether a tree has exactly one root", choices=(False, True)),
        Option("relations", True, "learn relations, where the data has some", choices=(False, True)),
        Option("tags", "auto", "the column of tags", choices=("auto", "xpos", "upos")),
        Option("base", None, "of generative and m-estimation, as in head-outward:words=no,samples=100000"),
        Option("optimizer", None, "how the weights are found; the criterion's by default"),
        Option("l1", 0.0, "factor of the sum of |w|", least=0, kind=float),
        Option("l2", None, "factor of the sum of w^2 (1 if neither l2 nor variance is given)", least=0, kind=float),
        Option("variance", None, "variance c of a Gaussian prior: l2 = 1 / 2c (m-estimation: 3)", least=0, kind=float),
        Option(
            "features", "observed", "features of the trees of training, or of all arcs", choices=("observed", "all")
        ),
        Option("min_count", 1, "leave out features seen fewer times in these", least=1, kind=int),
        Option("max_length", 250, "leave out longer sentences from training", least=1, most=2000, kind=int),
        Option(
            "parse_length",
            1000,
            "longest sentence that is parsed; a longer one gets a chain",
            least=1,
            most=2000,
            kind=int,
        ),
        Option("max_iter", None, "most iterations, or passes over the data (lbfgs 1000, others 10)", least=0, kind=int),
        Option("tolerance", 1e-4, "stop when an objective changes by less than this share of it", least=0, kind=float),
        Option("patience", 10, "stop after so many iterations without a better dev score", least=1, kind=int),
        Option("threads", None, "threads (all cores if not given)", least=1, kind=int),
        Option("seed", 0, "seed of all that is random", least=0, kind=int),
    )
}


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
    for name, option in OPTIONS.items():
        option.check(getattr(parser, name))
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
        if parser.features != OPTIONS["features"].default or parser.min_count != 1:
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
