"""The online learners for compiled passes: which one, its options, and how far it steps."""

from __future__ import annotations

from typing import NamedTuple

from loglinear.criteria.criterion import Criterion
from loglinear.criteria.mira import MarginInfusedRelaxed
from loglinear.criteria.passive_aggressive import PassiveAggressive
from loglinear.criteria.perceptron import Perceptron
from loglinear.kernels import kernel

NO_STEP = 1e-12
PERCEPTRON, MIRA, PASSIVE_AGGRESSIVE = 0, 1, 2


class Learner(NamedTuple):
    """Which learner, and its options."""

    kind: int
    k: int = 1
    C: float = 1.0
    variant: int = 1


def learner_of(criterion: Criterion) -> Learner | None:
    """A criterion's learner for compiled passes, or None if they do not support it."""
    if criterion.own_form:
        return None
    if type(criterion) is Perceptron:
        return Learner(PERCEPTRON)
    if type(criterion) is MarginInfusedRelaxed:
        return Learner(MIRA, criterion.k, float(criterion.C))
    if type(criterion) is PassiveAggressive:
        return Learner(PASSIVE_AGGRESSIVE, 1, float(criterion.C), criterion.variant)
    return None


@kernel
def single_step(learner: Learner, loss: float, squared: float, weight: float) -> float:
    """How far to step for one wrong labelling; ``squared`` is the squared norm of its difference from the right one."""
    cap = learner.C * weight
    if learner.kind == PERCEPTRON:
        return weight
    if learner.kind == PASSIVE_AGGRESSIVE and learner.variant == 2:
        return loss / (squared + 1.0 / (2.0 * cap)) if weight > 0.0 else 0.0
    step = loss / squared if squared > 0.0 else 0.0
    if learner.kind == PASSIVE_AGGRESSIVE and learner.variant == 0:
        return step * weight
    return min(max(step, 0.0), cap)
