"""AROW, adaptive regularisation of weights (Crammer, Kulesza & Dredze 2009), for structures as CRFsuite has it.

The weights are a Gaussian with mean w and diagonal variances v, at first 0 and ``variance``. If the best labelling y
under the mean is wrong, both move (their equation 5), with d = f(y*) - f(y):

    loss = s(y) + c(y) - s(y*)                min over w', v' of  KL(new, old) + 1/2g loss'^2 + 1/2g sum_i v'_i d_i^2

    w_i  <-  w_i + loss v_i d_i / (g + sum_j v_j d_j^2)                1 / v_i  <-  1 / v_i + d_i^2 / g

so that a weight moves less, the more it has been seen. The variances are a function of sums of squares alone, v_i =
1 / (1 / variance + sum d_i^2 / g), which is what a checkpoint keeps. The weight of an example divides g. The
loss is not convex, as the search does without the cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from loglinear.arrays import Float
from loglinear.criteria.criterion import CostCriterion, register
from loglinear.criteria.online import OnlineLearner, Proposal, as_batch, compare, differing, right_labelling
from loglinear.options import option, options

if TYPE_CHECKING:
    from loglinear.structures.gold import Gold
    from loglinear.structures.structure import Scores, Structure


@register
@options
class AdaptiveRegularisation(OnlineLearner, CostCriterion):
    """s(y) + c(y) - s(y*) for the best y, 0 if it is y*."""

    name = "arow"
    summary = "AROW: best score plus its cost - score of the gold; weights seen often move less"
    convex = False
    needs = ("score", "viterbi", "add_labelling", "restrict")

    variance: float = option("of each weight at first: how far the first steps go", default=1.0, above=0)
    gamma: float = option("how much is left of a loss: the greater, the smaller the steps", default=1.0, above=0)

    @property
    def confidence(self) -> tuple[float, float]:
        return self.variance, self.gamma

    def evaluate(self, structure: Structure, scores: Scores, gold: Gold, weights: Float) -> tuple[Float, Scores]:
        best, _ = structure.viterbi(scores)
        gold_score, gradient = compare(structure, scores, gold, best, weights)
        return weights * (structure.score(self.augmented(structure, scores, gold), best) - gold_score), gradient

    def propose(self, structure: Structure, scores: Scores, gold: Gold) -> Proposal:
        best, _ = structure.viterbi(scores)
        right, gold_score = right_labelling(structure, scores, gold)
        loss = structure.score(self.augmented(structure, scores, gold), best) - gold_score
        return Proposal(right, *differing(as_batch(best), loss, right))

    def steps(self, losses: Float, gram: Float, weight: float) -> Float:
        """The first step of all, when every weight has the variance it starts with."""
        if not weight:
            return np.zeros_like(losses)
        return losses * self.variance / (self.gamma / weight + self.variance * np.diagonal(gram))
