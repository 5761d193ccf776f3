"""M-estimation over a generative base (Smith, Vail & Lafferty 2007; eq. 3 and, with the 1/n it lacks, 13).

The model is p(x, y) ~ q0(x, y) exp(w . f(x, y)) with a base distribution q0 that is easy to estimate. The loss

    (1/n) sum_i exp(-w . f(x_i, y_i))  +  w . E_q0[f]

is convex and needs no inference at all: E_q0[f] is worked out once. In score space a sequence's share is exp(-s(y*));
the linear term belongs to the weights, and is added to the objective by the problem that knows q0
(:mod:`~loglinear.generative.m_estimation`).

Where labels or sub-labels are hidden, training proceeds in rounds, as EM does (section 6 of the paper). With A_i the
labellings that the annotation of sequence i allows, each round learns from

    em=hard    the most probable labelling in A_i under the model so far, as if it were the truth
    em=soft    feature counts expected under the model so far, p_w(y given x_i, A_i)

Soft rounds have an objective that cannot rise. What is observed is (x_i, A_i); the model tilts its probability by

    exp(g_i(w)) = sum over y in A_i of  q0(y given x_i, A_i) exp(w . f(x_i, y))  =  Z_i(w) / Z_i(0)

(Z_i: the sum of q0 exp(w . f) over A_i), so that g_i takes the place of w . f_i, which it is if A_i has one labelling:

    L(w) = (1/n) sum_i exp(-g_i(w))  +  w . E_q0[f]  +  penalty

By Jensen's inequality  g_i(w) >= E_r[w . f] - KL(r || q0(. given x_i, A_i))  for any distribution r over A_i, with
equality if r is p_w(y given x_i, A_i). With r_i from the weights v that a round starts with, and F_i = E_r_i[f],

    M(w) = (1/n) sum_i c_i exp(-w . F_i)  +  w . E_q0[f]  +  penalty         log c_i = KL(r_i || q0) = v . F_i - g_i(v)

is therefore an M-estimator's convex objective, of expected counts and a factor for each sequence, with M >= L and
M(v) = L(v): a round that lowers M lowers L at least as much, whatever the penalty. Without the factors c_i, or with the
mean of E_r_i[exp(-w . f)], no function of w is known to fall: the r_i of the next round may raise either.

L leaves the base's term as it is. Of the observed alone it would be E_q0[g(w)] >= w . E_q0[f], which needs inference
over draws of the base; both are the same where nothing is hidden. The base is not changed by the rounds: a hidden
Markov model trained by EM (``hmm``, ``empirical``), or one that knows no label from another (``locally-uniform``).
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
    for_hidden = ("rounds", "em")

    input_only: bool = option("features of the input alone too, whatever the label", default=False)
    rounds: int = option("most rounds, where labels are hidden", default=5, least=1)
    unbounded: bool = option("keep the last weights even if the objective falls without end", default=False)
    expectation: float = option("factor of E_q0[f]: 1 but to show what a wrong one does", default=1.0, least=0)
    em: str = option(
        "what a round learns from where labels are hidden: the best labelling, or expected counts",
        default="hard",
        choices=("hard", "soft"),
    )

    def evaluate(self, structure: Chain, scores: ChainScores, gold: Gold, weights: Float) -> tuple[Float, ChainScores]:
        gradient = scores.zeros_like()
        with np.errstate(over="ignore"):  # an infinite value is a step too far, which the optimizer takes back
            losses = weights * np.exp(-structure.score(scores, gold.labels))
        structure.add_labelling(gradient, gold.labels, -np.where(np.isfinite(losses), losses, 0.0))
        return losses, gradient
