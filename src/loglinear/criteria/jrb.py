"""The Jensen risk bound (Gimpel & Smith 2010, eq. 7): a smooth bound on risk that needs no covariance.

    loss = log Z(s + c) - log Z(s) = log E_s[exp c]        gradient: E_{s+c}[part] - E_s[part]

By Jensen's inequality it is at least the risk E_s[c]. It is not convex, and training from weights of zero ends at a
poor optimum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loglinear.arrays import Float
from loglinear.criteria.criterion import CostCriterion, register

if TYPE_CHECKING:
    from loglinear.structures.gold import Gold
    from loglinear.structures.structure import Scores, Structure


@register
class JensenRiskBound(CostCriterion):
    """log Z(s + c) - log Z(s)."""

    name = "jrb"
    summary = "Jensen risk bound: log Z of scores plus cost - log Z"
    convex = False
    starts_from = "cll"
    needs = ("expectations",)
    optimizers = ("dual", "lbfgs", "sgd", "adagrad")

    def evaluate(self, structure: Structure, scores: Scores, gold: Gold, weights: Float) -> tuple[Float, Scores]:
        augmented, gradient = structure.expectations(self.augmented(structure, scores, gold), weights)
        log_z, expected = structure.expectations(scores, weights)
        gradient.subtract(expected)
        return weights * (augmented - log_z), gradient
