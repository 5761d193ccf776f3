"""The maximum-entropy Markov model (McCallum, Freitag & Pereira 2000; Zhang, eq. 9.18-19): each label by itself.

    loss = sum_t [ log sum_y exp s_t(y*_{t-1}, y) - s_t(y*_{t-1}, y*_t) ]

Every position is a logistic regression given the label before it (the two or three before, at order 2 or 3). Training
needs no inference; decoding runs Viterbi over the normalised pieces, p(y) = prod_t p(y_t given y_{t-1}).

Where the annotation leaves a set Y* of labellings, the loss is - log p(Y*), by inference in the chain of normalised
pieces, and no longer convex:

    loss = - log Z_Y*(s - L)        gradient: sum over contexts of P(context given Y*) dL(context) - E[part given Y*]

with L the normalisers as scores of their contexts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from loglinear.arrays import Float
from loglinear.criteria.criterion import Criterion, register, subtract_gold
from loglinear.criteria.local import excess, locally_normalised

if TYPE_CHECKING:
    from loglinear.structures.chain.structure import Chain, ChainScores
    from loglinear.structures.gold import Gold


@register
class MaximumEntropyMarkovModel(Criterion):
    """sum_t log p(y*_t given y*_{t-1}), negated."""

    name = "memm"
    summary = "maximum-entropy Markov model: log-likelihood of each label given the one before"
    convex = True
    needs = ("piece_normalisers", "add_piece_expectations", "score", "add_labelling", "expectations", "restrict")
    local_decoding = True
    seen_pairs_only = True
    optimizers = ("dual", "lbfgs", "sgd", "adagrad")

    def evaluate(self, structure: Chain, scores: ChainScores, gold: Gold, weights: Float) -> tuple[Float, ChainScores]:
        gradient = scores.zeros_like()
        if gold.allowed is None:
            normalisers = structure.add_piece_expectations(gradient, scores, weights, gold.labels)
            return excess(normalisers, weights, subtract_gold(structure, scores, gold, weights, gradient)), gradient
        local = structure.restrict(locally_normalised(structure, scores), gold.allowed)
        log_p, expected = structure.expectations(local, weights)
        contexts = replace(expected, edge=expected.edge if scores.order > 1 else None, trigram=None, fourgram=None)
        structure.add_piece_expectations(gradient, scores, weights, contexts)
        gradient.subtract(expected if scores.order == 1 else expected.with_edges_of(scores))
        return -weights * log_p, gradient
