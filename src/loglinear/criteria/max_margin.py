"""Max-margin: the structured hinge (Taskar, Guestrin & Koller 2003; Gimpel & Smith 2010, eq. 4).

    loss = max_y (s(y) + c(y)) - s(y*)              subgradient: [part in the cost-augmented best] - [part in y*]

With cost 0 it is the structured perceptron's loss. Where the annotation leaves several labellings, y* is the best of
them under the current scores (the latent structural SVM), and the loss is no longer convex.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loglinear.arrays import Float
from loglinear.criteria.criterion import CostCriterion, register
from loglinear.criteria.online import hinge

if TYPE_CHECKING:
    from loglinear.structures.gold import Gold
    from loglinear.structures.structure import Scores, Structure


@register
class MaxMargin(CostCriterion):
    """max_y (s(y) + c(y)) - s(y*)."""

    name = "max-margin"
    summary = "max-margin (structured hinge): best score plus cost - score of the gold"
    convex = True
    smooth = False
    needs = ("score", "viterbi", "add_labelling", "restrict")
    optimizers = ("dual", "lbfgs", "sgd", "adagrad")

    def evaluate(self, structure: Structure, scores: Scores, gold: Gold, weights: Float) -> tuple[Float, Scores]:
        return hinge(structure, scores, self.augmented(structure, scores, gold), gold, weights)
