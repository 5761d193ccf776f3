"""M-estimation over a generative base (Smith, Vail & Lafferty 2007; eq. 3 and, with the 1/n it lacks, 13).

The model is p(x, y) ~ q0(x, y) exp(w . f(x, y)) with a base distribution q0 that is easy to estimate. The loss

    (1/n) sum_i exp(-w . f(x_i, y_i))  +  w . E_q0[f]

is convex and needs no inference at all: E_q0[f] is worked out once. In score space a sequence's share is exp(-s(y*));
the linear term belongs to the weights, and is added to the objective by the problem that knows q0
(:mod:`~loglinear.generative.m_estimation`).

Where labels or sub-labels are hidden, training proceeds in rounds, as EM does: the most probable labellings that the
annotation allows are taken as the truth, and the M-estimate from them is the model of the next round. The base is a
hidden Markov model trained by EM, and is not changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from loglinear.arrays import Float
from loglinear.criteria.criterion import register
from loglinear.criteria.hmm import Counted
from loglinear.options import option, options

if TYPE_CHECKING:
    from loglinear.structures.chain.structure import Chain, ChainScores
    from loglinear.structures.gold import Gold


@register
@options
class MEstimation(Counted):
    """exp(-s(y*))."""

    name = "m-estimation"
    summary = "M-estimation: exp(-score of the gold) + expected score under a generative base"
    convex = True
    needs = ("score", "add_labelling")
    takes_partial, completes = False, True
    optimizers = ("lbfgs", "newton")
    for_hidden = ("rounds",)

    input_only: bool = option("features of the input alone too, whatever the label", default=False)
    rounds: int = option("most rounds, where labels are hidden", default=5, least=1)
    unbounded: bool = option("keep the last weights where the objective falls without end", default=False)
    expectation: float = option("factor of E_q0[f]: 1 but to show what a wrong one does", default=1.0, least=0)

    def evaluate(self, structure: Chain, scores: ChainScores, gold: Gold, weights: Float) -> tuple[Float, ChainScores]:
        gradient = scores.zeros_like()
        with np.errstate(over="ignore"):  # an infinite value is a step too far, which the optimizer takes back
            losses = weights * np.exp(-structure.score(scores, gold.labels))
        structure.add_labelling(gradient, gold.labels, -np.where(np.isfinite(losses), losses, 0.0))
        return losses, gradient
