"""MIRA, the margin-infused relaxed algorithm (Crammer & Singer 2003; McDonald, Crammer & Pereira 2005).

The smallest change of the weights after which each of the k best labellings (by score plus cost) scores less than the
gold one by its cost, or nearly so if that would take too large a step:

    min over w' of  1/2 ||w' - w||^2 + C sum_i xi_i      with   s'(y*) - s'(y_i) >= c(y_i) - xi_i,   xi_i >= 0

Its dual has a box for each step size, 0 <= tau_i <= C, and is solved by going through the tau_i one by one (Hildreth):

    max over tau of  sum_i tau_i loss_i - 1/2 || sum_i tau_i (f(y*) - f(y_i)) ||^2,     loss_i = s(y_i) + c(y_i) - s(y*)

With k = 1 that is tau = min(C, loss / ||f(y*) - f(y)||^2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from loglinear.arrays import Float
from loglinear.criteria.criterion import CostCriterion, register
from loglinear.criteria.online import OnlineLearner, Proposal, as_batch, differing, hinge, right_labelling
from loglinear.kernels import kernel
from loglinear.options import option, options

if TYPE_CHECKING:
    from loglinear.structures.gold import Gold
    from loglinear.structures.structure import Scores, Structure

ROUNDS = 1000
ENOUGH = 1e-10  # the rounds end when no step size changes by more than this share of the largest


@kernel
def hildreth(losses: Float, gram: Float, cap: float, steps: Float) -> None:
    """Coordinate ascent on the dual; ``steps`` [K] comes in as zeros."""
    if losses.shape[0] == 1:
        steps[0] = min(max(losses[0] / gram[0, 0], 0.0), cap) if gram[0, 0] > 0.0 else 0.0
        return
    for _ in range(ROUNDS):
        change, largest = 0.0, 0.0
        for i in range(losses.shape[0]):
            if gram[i, i] <= 0.0:
                continue  # both labellings have the same features: no step separates them
            slack = losses[i]
            for j in range(losses.shape[0]):
                slack -= gram[i, j] * steps[j]
            new = min(max(steps[i] + slack / gram[i, i], 0.0), cap)
            change = max(change, abs(new - steps[i]))
            largest = max(largest, new)
            steps[i] = new
        if change <= ENOUGH * largest:
            return


@register
@options
class MarginInfusedRelaxed(OnlineLearner, CostCriterion):
    """max_y (s(y) + c(y)) - s(y*)."""

    name = "mira"
    summary = "MIRA: the smallest step that puts the gold above the k best by their cost"
    convex = True
    needs = ("score", "viterbi", "k_best", "add_labelling", "restrict")

    k: int = option("wrong labellings that each step looks at", default=1, least=1)
    C: float = option("the largest step size", default=1.0, above=0)

    def evaluate(self, structure: Structure, scores: Scores, gold: Gold, weights: Float) -> tuple[Float, Scores]:
        return hinge(structure, scores, self.augmented(structure, scores, gold), gold, weights)

    def propose(self, structure: Structure, scores: Scores, gold: Gold) -> Proposal:
        augmented = self.augmented(structure, scores, gold)
        if self.k == 1:
            best, score = structure.viterbi(augmented)
            wrong = as_batch(best)
        else:
            ((wrong, score),) = structure.k_best(augmented, self.k)
        right, gold_score = right_labelling(structure, scores, gold)
        return Proposal(right, *differing(wrong, score - gold_score, right))

    def steps(self, losses: Float, gram: Float, weight: float) -> Float:
        steps = np.zeros(len(losses))
        hildreth(losses, gram, self.C * weight, steps)
        return steps
