"""Pseudolikelihood (Besag 1975; Toutanova et al. 2003): each label given all the others.

    loss = - sum_t log p(y*_t given y*_{t-1}, y*_{t+1}, x)

The score of a label at t, its neighbours fixed, is the sum of the parts that touch it. Training needs no inference;
decoding is that of the chain.

The joint form, of a model of labels and observed columns, adds - sum_t log p(each observed field given all the rest)
(:mod:`~loglinear.criteria.field_likelihood`); in score space it is the same.

With ``nota`` each label is given any labels of its neighbours, and "none of the above", of score 0, is one more answer,
the right one for all neighbours n but the gold ones n* (Sutton & McCallum, section 6; :mod:`~loglinear.criteria.nota`):

    loss = sum_t [ sum_n log(1 + sum_y exp r_t(y, n)) - r_t(y*_t, n*) ]

r_t being the score of a label and its neighbours. A chain of order 1 has Y^2 pairs of neighbours, one of order 2 Y^4
quadruples: O(Y^3) and O(Y^5) for a position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loglinear.arrays import Float
from loglinear.criteria.criterion import Criterion, register
from loglinear.options import option, options

if TYPE_CHECKING:
    from loglinear.structures.chain.structure import Chain, ChainScores
    from loglinear.structures.gold import Gold


@register
@options
class Pseudolikelihood(Criterion):
    """- sum_t log p(y*_t given its neighbours)."""

    name = "pseudolikelihood"
    summary = "pseudolikelihood: log-likelihood of each label given its neighbours"
    convex = True
    needs = ("add_given_neighbours",)
    takes_partial = False
    optimizers = ("dual", "lbfgs", "sgd", "adagrad")

    joint: bool = option("predict the observed columns too, each given the rest", default=False)

    nota: bool = option("wrong neighbours learn to answer none of the above", default=False)

    def __post_init__(self) -> None:
        self.predicts_fields = self.joint
        self.own_form = "none of the above" if self.nota else None

    def evaluate(self, structure: Chain, scores: ChainScores, gold: Gold, weights: Float) -> tuple[Float, ChainScores]:
        gradient = scores.zeros_like()
        return weights * structure.add_given_neighbours(gradient, scores, gold.labels, weights, self.nota), gradient
