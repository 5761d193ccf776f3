"""Online learners: after each sequence the weights move so that the right labelling scores better than wrong ones.

A learner *proposes* wrong labellings y_i, with the loss of each, and says how far to move along the differences:

    loss_i = s(y_i) + margin_i - s(y*)                    w  <-  w + sum_i tau_i (f(y*) - f(y_i))

It never sees a feature: the step sizes tau depend on the losses and on the inner products of the differences
(their Gram matrix), which the optimizer works out.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from loglinear.arrays import Float, Int32
from loglinear.criteria.criterion import Criterion

if TYPE_CHECKING:
    from loglinear.structures.gold import Gold
    from loglinear.structures.structure import Scores, Structure


@dataclass(frozen=True)
class Proposal:
    """The right labelling of an example of T positions, and K wrong ones.

    Parameters
    ----------
    right : int32 [T]
    wrong : int32 [K, T]
    losses : float64 [K]
        s(wrong) + margin - s(right); those above zero ask for a step.
    """

    right: Int32
    wrong: Int32
    losses: Float


class OnlineLearner(Criterion):
    """A criterion that also says how far to step."""

    smooth = False
    optimizers: ClassVar[tuple[str, ...]] = ("online",)

    @property
    def confidence(self) -> tuple[float, float] | None:
        """The variance of each weight at first, and g, of a learner whose weights each have a step size of their own:

            v_i = 1 / (1 / variance + sum d_i^2 / g)           w_i <- w_i - loss v_i d_i / (g + sum_j v_j d_j^2)

        None for all others.
        """
        return None

    @abstractmethod
    def propose(self, structure: Structure, scores: Scores, gold: Gold) -> Proposal:
        """Wrong labellings of a batch of one sequence."""

    @abstractmethod
    def steps(self, losses: Float, gram: Float, weight: float) -> Float:
        """Step sizes tau [K], given the losses [K], the Gram matrix [K, K] and the sequence's weight."""


def right_labelling(structure: Structure, scores: Scores, gold: Gold) -> tuple[Int32, Float]:
    """The gold labelling [N] and its scores [S]; the best under these scores if the annotation allows several."""
    if gold.allowed is None:
        return gold.labels, structure.score(scores, gold.labels)
    return structure.viterbi(structure.restrict(scores, gold.allowed))


def differing(wrong: Int32, losses: Float, right: Int32) -> tuple[Int32, Float]:
    """Only those labellings [K, T, ...] that differ from ``right`` [T, ...], and their losses."""
    differs = (wrong != right).reshape(len(wrong), -1).any(axis=1)
    return wrong[differs], losses[differs]


def hinge(structure: Structure, scores: Scores, augmented: Scores, gold: Gold, weights: Float) -> tuple[Float, Scores]:
    """max_y augmented(y) - s(y*), times the weights [S], and a subgradient."""
    violator, best = structure.viterbi(augmented)
    gold_score, gradient = compare(structure, scores, gold, violator, weights)
    return weights * (best - gold_score), gradient


def compare(structure: Structure, scores: Scores, gold: Gold, violator: Int32, weights: Float) -> tuple[Float, Scores]:
    """Scores [S] of the gold labellings, and the parts of ``violator`` [N] minus theirs, times the weights [S]."""
    right, gold_score = right_labelling(structure, scores, gold)
    gradient = scores.zeros_like()
    structure.add_labelling(gradient, violator, weights)
    structure.add_labelling(gradient, right, -weights)
    return gold_score, gradient


def as_batch(labels: Int32) -> Int32:
    """A labelling [T] as a batch [1, T]."""
    return labels[np.newaxis]
