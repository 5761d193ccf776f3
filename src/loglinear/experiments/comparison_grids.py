"""What each criterion is tuned over in a comparison, from what it declares; and the tagger that it is tuned with."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sklearn.base import clone

from loglinear.criteria.costs import OUTSIDE
from loglinear.criteria.criterion import CRITERIA, Criterion, criteria_of
from loglinear.errors import OptionError
from loglinear.estimators.tagger import Tagger
from loglinear.evaluation.schemes import has_chunks
from loglinear.options import options_of, spec_name
from loglinear.structures.chain import Chain

Grid = dict[str, list[Any]]
L2, VARIANCE, SMOOTHING = [0.01, 0.1, 1.0], [0.5, 1.5, 5.0, 15.0], [0.01, 0.1, 1.0]
PASSES, STEPS = [5, 10, 20], [0.1, 1.0]
COSTS, LEANING = ["hamming:1", "hamming:5"], ["recall:3", "precision:3"]
QUICK: dict[str, list[Any]] = {
    "l2": L2[:2],
    "variance": VARIANCE[1::2],
    "criterion:smoothing": SMOOTHING[1:],
    "max_iter": PASSES[:1],
    "criterion:C": STEPS,
    "cost": ["hamming:1", *LEANING],
}
QUICK_ITERATIONS = 60  # of criteria that are trained in batches


def named(asked: str | Sequence[str]) -> list[str]:
    """The criteria asked for: ``all``, names between commas (semicolons, if they have options with commas), a list."""
    if isinstance(asked, str):
        if asked == "all":
            return list(criteria_of(Chain))
        asked = [one.strip() for one in asked.split(";" if ";" in asked else ",") if one.strip()]
    specs = list(dict.fromkeys(asked))
    if not specs:
        raise OptionError("name the criteria to compare, or all")
    for spec in specs:
        CRITERIA.spec(spec)
    return specs


def default_grid(spec: str, labels: Collection[str], quick: bool = False) -> Grid:
    """The options that a criterion is tuned over: penalty, passes, step size, smoothing, cost, as it declares them."""
    criterion, given = CRITERIA.part(spec), CRITERIA.spec(spec).values
    grid: Grid = {}
    if not criterion.learns_weights:
        grid["criterion:smoothing"] = SMOOTHING
    elif is_online(criterion):
        grid["max_iter"] = PASSES
        if "C" in options_of(criterion):
            grid = {"max_iter": [PASSES[0], PASSES[-1]], "criterion:C": STEPS}
    elif criterion.uses_base:  # its loss is a mean, and the penalty of another size
        grid["variance"] = VARIANCE
    else:
        grid["l2"] = L2
    if criterion.uses_cost:
        grid["cost"] = COSTS + (LEANING if OUTSIDE in labels and has_chunks(labels) else [])
    if quick:
        grid = {key: [v for v in QUICK[key] if key != "cost" or v in values] for key, values in grid.items()}
    return {key: values for key, values in grid.items() if key.partition(":")[2] not in given}


def grid_with(default: Grid, own: Mapping[str, Sequence[Any]], all_keys: Collection[str]) -> Grid:
    """A default grid with the user's values: for options it has, and for those that no default grid has."""
    taken = {key: list(values) for key, values in own.items() if key in default or key not in all_keys}
    return {**default, **taken}


def is_online(criterion: type[Criterion]) -> bool:
    """Whether it is learnt sequence by sequence, by steps of its own."""
    return criterion.optimizers == ("online",)


def tagger_for(tagger: Tagger, spec: str, quick: bool = False) -> Tagger:
    """The tagger that a criterion is tuned with: as given, but for what the criterion has no use for."""
    criterion, plain = CRITERIA.part(spec), Tagger()
    changed: dict[str, Any] = {"criterion": spec}
    if quick and tagger.max_iter is None and criterion.learns_weights and not is_online(criterion):
        changed["max_iter"] = QUICK_ITERATIONS
    if not criterion.uses_cost:
        changed["cost"] = None
    if spec_name(spec) != "m-estimation":
        changed["base"] = None
    unused: tuple[str, ...] = ()
    if not criterion.learns_weights:
        unused = (
            "template", "gazetteers", "optimizer", "l1", "l2", "variance", "min_count", "states", "transitions",
            "pair_features", "hash_bits", "prune", "precision", "max_iter", "tolerance",
        )  # fmt: skip
    elif is_online(criterion):
        unused = ("l1", "l2", "variance", "optimizer")
    changed |= {name: getattr(plain, name) for name in unused}
    return clone(tagger, safe=False).set_params(**changed)
