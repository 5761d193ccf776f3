"""MIRA, the margin-infused relaxed algorithm (Crammer & Singer 2003; McDonald, Crammer & Pereira 2005).

The smallest change of the weights after which each of the k best labellings (by score plus cost) scores less than the
gold one by its cost, or nearly so if that would take too large a step:

    min over w' of  1/2 ||w' - w||^2 + C sum_i xi_i      with   s'(y*) - s'(y_i) >= c(y_i) - xi_i,   xi_i >= 0

Its dual has a box for each step size, 0 <= tau_i <= C, and is solved by going through the tau_i one by one (Hildreth):

    max over tau of  sum_i tau_i loss_i - 1/2 || sum_i tau_i (f(y*) - f(y_i)) ||^2,     loss_i = s(y_i) + c(y_i) - s(y*)

Where the cost is a function of whole labellings, the search does without it: the k best by score alone are looked at.

With k = 1 that is tau = min(C, loss / ||f(y*) - f(y)||^2).

Where the features of the labellings are nearly dependent, the tau_i settle slowly one by one. If the dual can gain more
after many rounds, an active-set method finishes (Nocedal & Wright 2006, section 16.7): conjugate gradients over the
tau_i inside the box until one of them reaches a bound, which it leaves again only if the dual gains by that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from loglinear.arrays import Float
from loglinear.criteria.costs import LabellingCost
from loglinear.criteria.criterion import CostCriterion, register
from loglinear.criteria.n_best import n_best
from loglinear.criteria.online import OnlineLearner, Proposal, as_batch, compare, differing, hinge, right_labelling
from loglinear.kernels import kernel
from loglinear.options import option, options

if TYPE_CHECKING:
    from loglinear.structures.gold import Gold
    from loglinear.structures.structure import Scores, Structure

ROUNDS = 1000
ENOUGH = 1e-10  # the rounds end when no step size changes by more than this share of the largest
NEAR = 1e-5  # gap to the maximum that rounds which have not settled may leave, as a share of the dual
ROUNDING = 1e-14  # of a sum, as a share of the sum of its terms' sizes


@kernel
def hildreth(losses: Float, gram: Float, cap: float, steps: Float) -> None:
    """The maximum of the dual, by coordinate ascent if that settles; ``steps`` [K] comes in as zeros."""
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
    if not _nearly_best(losses, gram, cap, steps):
        _finish(losses, gram, cap, steps)


@kernel
def _nearly_best(losses: Float, gram: Float, cap: float, steps: Float) -> bool:
    """Whether no step in the box gains much: the dual is concave, so at most what its tangent at ``steps`` gains."""
    gap, value = 0.0, 0.0
    for i in range(losses.shape[0]):
        taken = np.sum(gram[i] * steps)
        slack = losses[i] - taken
        if gram[i, i] > 0.0:
            gap += max(slack, 0.0) * (cap - steps[i]) + max(-slack, 0.0) * steps[i]
        value += steps[i] * (losses[i] - 0.5 * taken)
    return gap <= NEAR * value


@kernel
def _finish(losses: Float, gram: Float, cap: float, steps: Float) -> None:
    """The maximum of the dual from any ``steps`` [K] in the box, by the active-set method."""
    n = losses.shape[0]
    slack, direction, free = np.empty(n), np.empty(n), (steps > 0.0) & (steps < cap)
    for _ in range(ROUNDS):
        inside, outside, candidate, tolerance = 0.0, 0.0, 0, ENOUGH * np.abs(losses).max()
        for i in range(n):
            terms = gram[i] * steps
            slack[i] = losses[i] - np.sum(terms)
            tolerance = max(tolerance, ROUNDING * np.sum(np.abs(terms)))
            gain = slack[i] if steps[i] <= 0.0 else -slack[i]
            if free[i]:
                inside = max(inside, abs(slack[i]))
            elif gram[i, i] > 0.0 and gain > outside:
                outside, candidate = gain, i
        if inside <= tolerance:
            if outside <= tolerance:
                return
            free[candidate] = True
        direction[:] = 0.0
        before = np.inf
        for _ in range(n):
            square = 0.0
            for i in range(n):
                square += slack[i] * slack[i] if free[i] else 0.0
            if square <= tolerance * tolerance:
                break
            for i in range(n):
                direction[i] = slack[i] + square / before * direction[i] if free[i] else 0.0
            before = square
            blocked_by = _climb(gram, cap, square, direction, slack, steps)
            if blocked_by >= 0:
                free[blocked_by] = False
                break


@kernel
def _climb(gram: Float, cap: float, square: float, direction: Float, slack: Float, steps: Float) -> int:
    """Move the ``steps`` along a direction [K] to the maximum, or to the bound it meets; which step is there, or -1."""
    n, curvature, scale, furthest, blocked_by = steps.shape[0], 0.0, 0.0, np.inf, -1
    turn = np.empty(n)
    for i in range(n):
        turn[i] = np.sum(gram[i] * direction)
        curvature += turn[i] * direction[i]
        scale += gram[i, i] * direction[i] * direction[i]
        if direction[i] != 0.0:
            room = ((cap if direction[i] > 0.0 else 0.0) - steps[i]) / direction[i]
            if room < furthest:
                furthest, blocked_by = room, i
    length = square / curvature if curvature > ROUNDING * scale else np.inf
    if length < furthest:
        blocked_by = -1
    for i in range(n):
        steps[i] = min(max(steps[i] + min(length, furthest) * direction[i], 0.0), cap)
        slack[i] -= min(length, furthest) * turn[i]
    if blocked_by >= 0:
        steps[blocked_by] = cap if direction[blocked_by] > 0.0 else 0.0
    return blocked_by


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

    def __post_init__(self) -> None:
        self.own_form = "costs of whole labellings" if isinstance(self.cost, LabellingCost) else None

    def evaluate(self, structure: Structure, scores: Scores, gold: Gold, weights: Float) -> tuple[Float, Scores]:
        if isinstance(self.cost, LabellingCost):
            found, rows = n_best(self, structure, scores, gold, self.k), np.arange(structure.n_sequences)
            worst = np.argmax(found.scores + found.costs, axis=1)
            violator = found.labellings[np.repeat(worst, np.diff(structure.offsets)), np.arange(structure.n_positions)]
            gold_score, gradient = compare(structure, scores, gold, violator, weights)
            return weights * ((found.scores + found.costs)[rows, worst] - gold_score), gradient
        return hinge(structure, scores, self.augmented(structure, scores, gold), gold, weights)

    def propose(self, structure: Structure, scores: Scores, gold: Gold) -> Proposal:
        if isinstance(self.cost, LabellingCost):
            found = n_best(self, structure, scores, gold, self.k)
            right, gold_score = right_labelling(structure, scores, gold)
            return Proposal(right, *differing(found.labellings, (found.scores + found.costs)[0] - gold_score, right))
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
