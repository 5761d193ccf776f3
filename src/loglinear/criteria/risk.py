"""Risk: the expected cost under the model, exactly (Gimpel & Smith 2010, eq. 5; Smith & Eisner 2006).

    loss = E_s[c]                                   gradient: E_s[c part] - E_s[c] E_s[part]

The gradient is the covariance of the cost and the parts, by one forward-backward that carries the cost along. Risk is
the quantity of interest, but not convex, so training starts from a conditional-likelihood model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loglinear.arrays import Float
from loglinear.criteria.criterion import CostCriterion, register

if TYPE_CHECKING:
    from loglinear.structures.gold import Gold
    from loglinear.structures.structure import Scores


@register
class Risk(CostCriterion):
    """E_s[c]."""

    name = "risk"
    summary = "risk: expected cost under the model"
    convex = False
    starts_from = "cll"
    needs = ("cost_covariance",)
    optimizers = ("dual", "lbfgs", "sgd", "adagrad")

    def evaluate(self, structure: Any, scores: Scores, gold: Gold, weights: Float) -> tuple[Float, Scores]:
        expected_cost, gradient = structure.cost_covariance(scores, self.costs(structure, gold), weights)
        return weights * expected_cost, gradient
