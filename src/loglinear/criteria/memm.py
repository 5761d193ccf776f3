"""The maximum-entropy Markov model (McCallum, Freitag & Pereira 2000; Zhang, eq. 9.18-19): each label by itself.

    loss = sum_t [ log sum_y exp s_t(y*_{t-1}, y) - s_t(y*_{t-1}, y*_t) ]

Every position is a logistic regression given the label before it. Training needs no inference; decoding runs Viterbi
over the normalised pieces, p(y) = prod_t p(y_t given y_{t-1}).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from loglinear.criteria.criterion import Criterion, Float, register
from loglinear.criteria.local import log_sum_exp, pieces, sequence_of

if TYPE_CHECKING:
    from loglinear.structures.chain import Chain, ChainScores
    from loglinear.structures.gold import Gold


@register
class MaximumEntropyMarkovModel(Criterion):
    """sum_t log p(y*_t given y*_{t-1}), negated."""

    name = "memm"
    summary = "maximum-entropy Markov model: log-likelihood of each label given the one before"
    convex = True
    needs = ()
    takes_partial = False
    local_decoding = True
    orders = (1,)

    def evaluate(self, structure: Chain, scores: ChainScores, gold: Gold, weights: Float) -> tuple[Float, ChainScores]:
        losses, gradient, sequence = np.zeros(structure.n_sequences), scores.zeros_like(), sequence_of(structure)
        for piece in pieces(structure, scores, whole_tables=False):
            rows, right = piece.rows(gold.labels), gold.labels[piece.positions]
            log_z, probability = log_sum_exp(rows)
            each = np.arange(len(right))
            np.add.at(losses, sequence[piece.positions], log_z - rows[each, right])
            probability[each, right] -= 1.0
            piece.add_rows(gradient, gold.labels, probability * weights[sequence[piece.positions], None])
        return weights * losses, gradient
