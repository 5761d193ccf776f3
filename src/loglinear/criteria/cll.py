"""Conditional log-likelihood: the conditional random field (Lafferty, McCallum & Pereira 2001).

    loss = log Z(s) - s(y*)                         gradient by a part's score: E_s[part] - [part in y*]

Where the annotation leaves a set Y* of structures, s(y*) is replaced by their log-partition and the gold indicator by
its expectation under the model restricted to Y*:

    loss = log Z(s) - log Z_Y*(s)                   gradient: E_s[part] - E_s[part given Y*]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loglinear.arrays import Float
from loglinear.criteria.criterion import Criterion, register, subtract_gold

if TYPE_CHECKING:
    from loglinear.structures.gold import Gold
    from loglinear.structures.structure import Scores, Structure


@register
class ConditionalLogLikelihood(Criterion):
    """log Z(s) - s(y*)."""

    name = "cll"
    summary = "conditional log-likelihood (CRF): log Z - score of the gold"
    convex = True
    needs = ("score", "expectations", "add_labelling", "restrict")
    optimizers = ("dual", "lbfgs", "sgd", "adagrad")

    def evaluate(self, structure: Structure, scores: Scores, gold: Gold, weights: Float) -> tuple[Float, Scores]:
        log_z, gradient = structure.expectations(scores, weights)
        gold_score = subtract_gold(structure, scores, gold, weights, gradient)
        return weights * (log_z - gold_score), gradient
