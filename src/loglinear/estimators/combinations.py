"""Which options of a tagger go together; a combination that makes no sense is refused with the reason."""

from __future__ import annotations

from typing import Any

from loglinear.criteria.criterion import Criterion, cost_users, criteria, criterion_class
from loglinear.errors import OptionError
from loglinear.optimizers.optimizer import Optimizer, make_optimizer, optimizer_class
from loglinear.options import spec_name, spec_options


def check_combination(tagger: Any) -> None:
    """Refuse a :class:`~loglinear.Tagger` whose criterion, optimizer and other options do not fit together."""
    criterion = criterion_class(tagger.criterion)
    values = spec_options(tagger.criterion, criterion.options, "criterion")
    criterion.check(values)
    _check_criterion(tagger, criterion)
    optimizer = optimizer_class(tagger.optimizer or criterion.optimizers[0])
    _check_optimizer(tagger, criterion, optimizer)


def _check_criterion(tagger: Any, criterion: type[Criterion]) -> None:
    name = criterion.name
    if tagger.order not in criterion.orders:
        raise OptionError(f"criterion={name!r} is for chains of order {criterion.orders[0]}, not {tagger.order}")
    if tagger.cost is not None and not criterion.uses_cost:
        raise OptionError(f"criterion={name!r} takes no cost; those that do are {', '.join(cost_users())}")
    if tagger.sub_labels > 1 and not criterion.takes_partial:
        able = ", ".join(other for other, each in criteria().items() if each.takes_partial)
        raise OptionError(
            f"sub_labels={tagger.sub_labels}: which sub-label is right is not known, and criterion={name!r} needs one "
            f"label for each token; those that do not are {able}"
        )


def _check_optimizer(tagger: Any, criterion: type[Criterion], optimizer: type[Optimizer]) -> None:
    if optimizer.name not in criterion.optimizers:
        if criterion.optimizers == ("online",):
            reason = "its steps are its own"
        else:
            learners = ", ".join(other for other, each in criteria().items() if each.optimizers == ("online",))
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
    made = make_optimizer(
        tagger.optimizer or optimizer.name, max_iter=tagger.max_iter, tolerance=tagger.tolerance, seed=tagger.seed
    )
    if tagger.l1 and getattr(made, "average", False):
        raise OptionError(
            f"optimizer={spec_name(optimizer.name)!r} with average and l1={tagger.l1:g}: "
            "the mean of sparse weights is not sparse; give one of both"
        )
