"""Passive-aggressive learning from the prediction (Crammer, Dekel, Keshet, Shalev-Shwartz & Singer 2006).

If the best labelling y under the scores alone is wrong, the step makes the gold one better by the root of its cost:

    loss = s(y) + sqrt(c(y)) - s(y*)          with d = f(y*) - f(y):

    variant 0     tau = loss / ||d||^2                       (corrects this sequence at any price)
    variant 1     tau = min(C, loss / ||d||^2)
    variant 2     tau = loss / (||d||^2 + 1 / 2C)

With ``margin=one`` it asks for a margin of 1 whatever the cost: loss = s(y) + 1 - s(y*).

Unlike MIRA it does not search for the labelling that violates the margin most, so the loss is not convex. The weight of
a sequence multiplies C, or tau in variant 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from loglinear.arrays import Float
from loglinear.criteria.criterion import CostCriterion, register
from loglinear.criteria.online import OnlineLearner, Proposal, as_batch, compare, differing, right_labelling
from loglinear.errors import OptionError
from loglinear.options import option, options

if TYPE_CHECKING:
    from loglinear.structures.gold import Gold
    from loglinear.structures.structure import Scores, Structure


@register
@options
class PassiveAggressive(OnlineLearner, CostCriterion):
    """s(y) + sqrt(c(y)) - s(y*) for the best y, 0 if it is y*."""

    name = "passive-aggressive"
    summary = "passive-aggressive: best score plus the root of its cost - score of the gold"
    convex = False
    needs = ("score", "viterbi", "add_labelling", "restrict")

    variant: int = option("0, 1 or 2: no cap, a capped step, a softened step", default=1, choices=(0, 1, 2))
    C: float = option("how aggressive: the largest step size of variant 1", default=1.0, above=0)

    margin: str = option("what the margin is: the root of the cost, or 1", default="cost", choices=("cost", "one"))

    def __post_init__(self) -> None:
        self.own_form = "a margin of one" if self.margin == "one" else None

    @classmethod
    def check(cls, values: Mapping[str, Any]) -> None:
        if values.get("variant") == 0 and "C" in values:
            raise OptionError(f"C={values['C']:g} caps or softens a step, and variant=0 does neither; leave one out")

    def evaluate(self, structure: Structure, scores: Scores, gold: Gold, weights: Float) -> tuple[Float, Scores]:
        best, score = structure.viterbi(scores)
        gold_score, gradient = compare(structure, scores, gold, best, weights)
        costs = self.costs(structure, gold)[np.arange(structure.n_positions), best]
        cost = np.add.reduceat(costs, structure.offsets[:-1])
        return weights * (score - gold_score + self._margin(cost)), gradient

    def _margin(self, cost: Float) -> Float:
        """The margin asked for against labellings of that ``cost`` [S]."""
        return np.where(cost > 0.0, 1.0, 0.0) if self.margin == "one" else np.sqrt(cost)

    def propose(self, structure: Structure, scores: Scores, gold: Gold) -> Proposal:
        best, score = structure.viterbi(scores)
        right, gold_score = right_labelling(structure, scores, gold)
        cost = self.costs(structure, gold)[np.arange(structure.n_positions), best].sum(keepdims=True)
        return Proposal(right, *differing(as_batch(best), score - gold_score + self._margin(cost), right))

    def steps(self, losses: Float, gram: Float, weight: float) -> Float:
        squared = np.diagonal(gram)
        if self.variant == 2:
            return losses / (squared + 1.0 / (2.0 * self.C * weight)) if weight else np.zeros_like(losses)
        steps = np.divide(losses, squared, out=np.zeros_like(losses), where=squared > 0)
        return steps * weight if self.variant == 0 else np.minimum(steps, self.C * weight)
