"""Pseudolikelihood (Besag 1975; Toutanova et al. 2003): each label given all the others.

    loss = - sum_t log p(y*_t given y*_{t-1}, y*_{t+1}, x)

The score of a label at t, its neighbours fixed, is the sum of the parts that touch it. Training needs no inference;
decoding is that of the chain.

The joint form, of a model of labels and observed columns, adds - sum_t log p(each observed field given all the rest)
(:mod:`~loglinear.criteria.field_likelihood`); in score space it is the same.
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

    def __post_init__(self) -> None:
        self.predicts_fields = self.joint

    def evaluate(self, structure: Chain, scores: ChainScores, gold: Gold, weights: Float) -> tuple[Float, ChainScores]:
        gradient = scores.zeros_like()
        return weights * structure.add_given_neighbours(gradient, scores, gold.labels, weights), gradient
