"""Softmax-margin: conditional likelihood that asks for a margin where a mistake is costly (Gimpel & Smith 2010, eq. 6).

    loss = log Z(s + c) - s(y*)                     gradient by a part's score: E_{s+c}[part] - [part in y*]

The cost raises the scores of wrong labellings in training only, so that the right one must win by more where being
wrong is worse. It bounds conditional likelihood, max-margin and risk from above, and is as convex as the first.

With ``k``, log Z is a sum over the k best labellings and y* alone, and the cost may be any function of two labellings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from loglinear.arrays import Float
from loglinear.criteria.criterion import CostCriterion, register, subtract_gold
from loglinear.criteria.n_best import n_best
from loglinear.criteria.online import right_labelling
from loglinear.options import option, options

if TYPE_CHECKING:
    from loglinear.structures.gold import Gold
    from loglinear.structures.structure import Scores, Structure


@register
@options
class SoftmaxMargin(CostCriterion):
    """log Z(s + c) - s(y*)."""

    name = "softmax-margin"
    summary = "softmax-margin: log Z of scores plus cost - score of the gold"
    convex = True
    needs = ("score", "expectations", "add_labelling", "restrict")
    optimizers = ("dual", "lbfgs", "sgd", "adagrad")

    k: int | None = option("sum over the k best labellings and the gold one only", default=None, least=1, example=50)

    def __post_init__(self) -> None:
        self.own_form = None if self.k is None else "n-best lists"

    def evaluate(self, structure: Structure, scores: Scores, gold: Gold, weights: Float) -> tuple[Float, Scores]:
        if self.k is not None:
            return self._over_list(self.k, structure, scores, gold, weights)
        log_z, gradient = structure.expectations(self.augmented(structure, scores, gold), weights)
        gold_score = subtract_gold(structure, scores, gold, weights, gradient)
        return weights * (log_z - gold_score), gradient

    def _over_list(
        self, k: int, structure: Structure, scores: Scores, gold: Gold, weights: Float
    ) -> tuple[Float, Scores]:
        right, gold_score = right_labelling(structure, scores, gold)
        found = n_best(self, structure, scores, gold, k)
        augmented = np.where(
            found.differs(structure, right), found.scores + found.costs, -np.inf
        )  # the gold one is the last term
        values = np.column_stack([augmented, gold_score])
        peak = values.max(axis=1, keepdims=True)
        shares = np.exp(values - np.where(np.isneginf(peak), 0.0, peak))
        log_sum = peak[:, 0] + np.log(shares.sum(axis=1))
        shares *= (weights / shares.sum(axis=1))[:, np.newaxis]
        gradient = scores.zeros_like()
        found.add_parts(structure, gradient, shares[:, :-1])
        structure.add_labelling(gradient, right, shares[:, -1] - weights)
        return weights * (log_sum - gold_score), gradient
