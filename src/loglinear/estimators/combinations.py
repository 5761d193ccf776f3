"""Which options of a tagger go together; a combination that makes no sense is refused with the reason."""

from __future__ import annotations

from typing import Any

from loglinear.criteria.criterion import CRITERIA, Criterion, cost_users, missing_operations
from loglinear.errors import OptionError
from loglinear.estimators.options import OPTIONS, default
from loglinear.generative.base import read_base
from loglinear.generative.own_base import OwnBase, is_own
from loglinear.optimizers.optimizer import OPTIMIZERS, make_optimizer
from loglinear.options import spec_name
from loglinear.structures.chain import Chain


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
        if (value := getattr(tagger, option)) != default(option):
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
        if value not in (None, default(option) if option in OPTIONS else None):
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
