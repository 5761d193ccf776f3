"""Softmax-margin: conditional likelihood that asks for a margin where a mistake is costly (Gimpel & Smith 2010, eq. 6).

    loss = log Z(s + c) - s(y*)                     gradient by a part's score: E_{s+c}[part] - [part in y*]

The cost raises the scores of wrong labellings in training only, so that the right one must win by more where being
wrong is worse. It bounds conditional likelihood, max-margin and risk from above, and is as convex as the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loglinear.arrays import Float
from loglinear.criteria.criterion import CostCriterion, register, subtract_gold

if TYPE_CHECKING:
    from loglinear.structures.gold import Gold
    from loglinear.structures.structure import Scores, Structure


@register
class SoftmaxMargin(CostCriterion):
    """log Z(s + c) - s(y*)."""

    name = "softmax-margin"
    summary = "softmax-margin: log Z of scores plus cost - score of the gold"
    convex = True
    needs = ("score", "expectations", "add_labelling", "restrict")
    optimizers = ("dual", "lbfgs", "sgd", "adagrad")

    def evaluate(self, structure: Structure, scores: Scores, gold: Gold, weights: Float) -> tuple[Float, Scores]:
        log_z, gradient = structure.expectations(self.augmented(structure, scores, gold), weights)
        gold_score = subtract_gold(structure, scores, gold, weights, gradient)
        return weights * (log_z - gold_score), gradient
