"""Least squares on one-versus-all targets: each label's score is to be +1 where it is right, -1 where it is not.

    loss = sum_y (s(y) - t_y)^2,    t = +1 for y*, -1 for the others           gradient: 2 (s(y) - t_y)

(Zhang, section 9.2, a regression for each label.) It is about the scores of single labels, which only a flat label has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loglinear.arrays import Float
from loglinear.criteria.criterion import Criterion, register

if TYPE_CHECKING:
    from loglinear.structures.gold import Gold
    from loglinear.structures.structure import Scores


@register
class LeastSquares(Criterion):
    """sum_y (s(y) - t_y)^2."""

    name = "least-squares"
    summary = "least squares: squared distance of each label's score from +1 or -1; flat labels only"
    convex = True
    needs = ("squared_distance",)
    takes_partial = False

    def evaluate(self, structure: Any, scores: Scores, gold: Gold, weights: Float) -> tuple[Float, Scores]:
        return structure.squared_distance(scores, gold.labels, weights)
