"""Which options of a classifier go together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loglinear.criteria.costs import make_cost
from loglinear.criteria.criterion import CRITERIA, Criterion, cost_users, missing_operations
from loglinear.errors import OptionError
from loglinear.estimators.options import DIRECT, M_ESTIMATION, NAIVE_BAYES, ONE_VERSUS_ALL, ClassifierOptions, l2_factor
from loglinear.features.tables import check_kinds, check_text
from loglinear.options import check, declared, spec_name
from loglinear.structures.flat.structure import Flat
from loglinear.system import thread_count
from loglinear.training.plan import check_optimizer

COSTS_OF_TWO = ("hamming", "balanced")  # that mean something where a label is told from all others


def classifier_criteria() -> list[str]:
    """Names of the criteria that can train a classifier."""
    return [name for name in CRITERIA.all() if _why_not(name) is None]


def _why_not(name: str) -> str | None:
    """What speaks against a criterion of the registry, or None."""
    criterion = CRITERIA.part(name)
    if not criterion.needs or not criterion.learns_weights:
        return "it is for chains"
    missing = missing_operations(criterion, Flat)
    return f"it needs {', '.join(missing)}, which flat labels do not have" if missing else None


def check_classifier(classifier: Any) -> None:
    """Refuse a :class:`~loglinear.Classifier` whose options make no sense, or do not fit together."""
    check(classifier)
    l2_factor(classifier.l2, classifier.variance)
    thread_count(classifier.threads)
    check_text(classifier.text)
    check_kinds(classifier.kinds or {})
    name, known = spec_name(classifier.criterion), classifier_criteria()
    if name not in known:
        why = _why_not(name) if name in CRITERIA.all() else None
        reason = f"{name!r} trains no classifier: {why}" if why else f"{name!r} is not known"
        raise OptionError(f"criterion={reason}; there are: {', '.join(known)}")
    criterion = CRITERIA.part(name)
    values = dict(CRITERIA.spec(classifier.criterion).values)
    criterion.check(values)
    if classifier.cost is not None and not criterion.uses_cost:
        raise OptionError(f"criterion={name!r} takes no cost; those that do are {', '.join(cost_users())}")
    _check_weights(classifier.class_weight)
    _check_functions(classifier)
    _check_base(classifier, criterion, values)
    if classifier.multiclass == ONE_VERSUS_ALL:
        _check_one_versus_all(classifier)
    check_optimizer(classifier, criterion, classifier.optimizer or criterion.optimizers[0])


def _check_weights(class_weight: Any) -> None:
    if class_weight is not None and class_weight != "balanced" and not isinstance(class_weight, Mapping):
        raise OptionError(f"class_weight={class_weight!r:.60} is not 'balanced' or a dict from labels to numbers")


def _check_functions(classifier: Any) -> None:
    given = [name for name in ("template", "features", "feature_map") if getattr(classifier, name) is not None]
    if len(given) > 1:
        raise OptionError(f"{' and '.join(given)} both say what the features are; give one")
    for name in ("features", "feature_map", "candidates"):
        value = getattr(classifier, name)
        if value is not None and not callable(value):
            raise OptionError(f"{name}={value!r:.60} is not a function")
    if classifier.candidates is not None and classifier.feature_map is None:
        raise OptionError("candidates goes with feature_map: labels share no features without one")
    if classifier.feature_map is not None:
        for name in ("bias", "bias_scale"):
            if getattr(classifier, name) != declared(ClassifierOptions)[name].default:
                raise OptionError(f"{name} is not for a feature_map, which may give each label a feature of its own")


def _check_base(classifier: Any, criterion: type[Criterion], values: dict[str, Any]) -> None:
    base = classifier.base
    if not criterion.uses_base:
        if base is not None:
            raise OptionError(f"base={base!r:.60} goes with criterion={M_ESTIMATION!r}, not with {criterion.name!r}")
        return
    for name in values:
        if name != "smoothing":
            raise OptionError(f"criterion={classifier.criterion!r}: {name} is for chains")
    if classifier.feature_map is not None:
        raise OptionError(f"criterion={M_ESTIMATION!r} needs expected counts, which a feature_map does not have")
    if isinstance(base, str):
        if base != NAIVE_BAYES:
            raise OptionError(f"base={base!r} is not known for flat labels; there is {NAIVE_BAYES}, or your own")
    elif base is not None and not (hasattr(base, "scores") and hasattr(base, "expected")):
        raise OptionError(f"base={base!r:.60} needs the methods scores(X) and expected()")


def _check_one_versus_all(classifier: Any) -> None:
    if classifier.feature_map is not None:
        raise OptionError(f"multiclass={ONE_VERSUS_ALL!r}: a feature_map is of several labels; use {DIRECT!r}")
    if own_base(classifier):
        raise OptionError(f"multiclass={ONE_VERSUS_ALL!r}: a base of your own is one of all labels; use {DIRECT!r}")


def own_base(classifier: Any) -> bool:
    """Whether the base is the user's own."""
    return classifier.base is not None and not isinstance(classifier.base, str)


def cost_of(spec: Any, labels: list[Any], counts: Any, of_two: bool) -> Any:
    """The cost over ``labels``; ``of_two`` if each is told from the rest, which only some costs allow."""
    spec = "hamming" if spec is None else spec
    if of_two and not (isinstance(spec, str) and spec_name(spec) in COSTS_OF_TWO):
        raise OptionError(
            f"cost={spec!r:.60} is over pairs of labels, and multiclass={ONE_VERSUS_ALL!r} tells each label from all "
            f"others at once; there are {' and '.join(COSTS_OF_TWO)}"
        )
    from_file = isinstance(spec, str) and spec.endswith(".json")
    return make_cost(spec, [str(label) for label in labels] if from_file else labels, counts)
