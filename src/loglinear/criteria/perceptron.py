"""The structured perceptron (Collins 2002): if the best labelling is not the gold one, take a step of size one.

    loss = max_y s(y) - s(y*)                       w  <-  w + f(y*) - f(y)

It stops learning from a sequence once its labelling is right by however little. The mean of the weights after each step
(``online:average``, the default) does much better than the last ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from loglinear.arrays import Float
from loglinear.criteria.criterion import register
from loglinear.criteria.online import OnlineLearner, Proposal, as_batch, differing, hinge, right_labelling

if TYPE_CHECKING:
    from loglinear.structures.gold import Gold
    from loglinear.structures.structure import Scores, Structure


@register
class Perceptron(OnlineLearner):
    """max_y s(y) - s(y*)."""

    name = "perceptron"
    summary = "structured perceptron: best score - score of the gold, by steps of size one"
    convex = True
    needs = ("score", "viterbi", "add_labelling", "restrict")

    def evaluate(self, structure: Structure, scores: Scores, gold: Gold, weights: Float) -> tuple[Float, Scores]:
        return hinge(structure, scores, scores, gold, weights)

    def propose(self, structure: Structure, scores: Scores, gold: Gold) -> Proposal:
        best, score = structure.viterbi(scores)
        right, gold_score = right_labelling(structure, scores, gold)
        return Proposal(right, *differing(as_batch(best), score - gold_score, right))

    def steps(self, losses: Float, gram: Float, weight: float) -> Float:
        return np.full(len(losses), weight)
