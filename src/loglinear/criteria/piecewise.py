"""Piecewise training (Sutton & McCallum 2005): every piece of the chain normalised over all its labellings.

    loss = sum_t [ log sum_{y', y} exp s_t(y', y) - s_t(y*_{t-1}, y*_t) ]

An upper bound on the conditional likelihood's loss that needs no inference; at decoding the pieces are put together as
a chain. Where the annotation leaves several labels, a piece's gold is the log-sum over those it allows.

With none of the above (NOTA; Sutton & McCallum, section 6), each wrong context of a piece learns to prefer nothing:

    loss = sum_t [ -s_t(y*_{t-1}, y*_t) + sum_{y'} log(1 + sum_y exp s_t(y', y)) ]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from loglinear.criteria.criterion import Criterion, Float, register
from loglinear.criteria.local import Pieces, log_sum_exp, pieces, sequence_of

if TYPE_CHECKING:
    from loglinear.structures.chain import Chain, ChainScores
    from loglinear.structures.gold import Gold


@register
class Piecewise(Criterion):
    """sum_t log sum_{y', y} exp s_t(y', y) - s_t(gold)."""

    name = "piecewise"
    summary = "piecewise: log-likelihood of each label pair by itself"
    convex = True
    needs = ()

    def evaluate(self, structure: Chain, scores: ChainScores, gold: Gold, weights: Float) -> tuple[Float, ChainScores]:
        losses, gradient, sequence = np.zeros(structure.n_sequences), scores.zeros_like(), sequence_of(structure)
        for piece in pieces(structure, scores, whole_tables=True):
            table = piece.table()
            flat = table.reshape(len(table), -1)
            gold_mask = _allowed(piece, gold, scores.n_labels).reshape(flat.shape)
            log_z, probability = log_sum_exp(flat)
            log_gold, gold_probability = log_sum_exp(np.where(gold_mask, flat, -np.inf))
            np.add.at(losses, sequence[piece.positions], log_z - log_gold)
            change = (probability - gold_probability) * weights[sequence[piece.positions], None]
            piece.add_table(gradient, change.reshape(table.shape))
        return weights * losses, gradient


@register
class NoneOfTheAbove(Criterion):
    """sum_t -s_t(gold) + sum_{y'} log(1 + sum_y exp s_t(y', y))."""

    name = "nota"
    summary = "piecewise with none of the above: every context may also answer nothing"
    convex = True
    needs = ()
    takes_partial = False

    def evaluate(self, structure: Chain, scores: ChainScores, gold: Gold, weights: Float) -> tuple[Float, ChainScores]:
        losses, gradient, sequence = np.zeros(structure.n_sequences), scores.zeros_like(), sequence_of(structure)
        for piece in pieces(structure, scores, whole_tables=True):
            table = piece.table()
            nothing = np.zeros((*table.shape[:-1], 1))
            log_z, probability = log_sum_exp(np.concatenate([table, nothing], axis=-1))
            rows, right = piece.rows(gold.labels), gold.labels[piece.positions]
            each = np.arange(len(right))
            loss = log_z.reshape(len(table), -1).sum(axis=1) - rows[each, right]
            np.add.at(losses, sequence[piece.positions], loss)
            scale = weights[sequence[piece.positions]]
            piece.add_table(gradient, probability[..., :-1] * scale.reshape(-1, *(1,) * (table.ndim - 1)))
            indicator = np.zeros_like(rows)
            indicator[each, right] = -scale
            piece.add_rows(gradient, gold.labels, indicator)
        return weights * losses, gradient


def _allowed(piece: Pieces, gold: Gold, n_labels: int) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Which contexts and labels of each piece the annotation allows [n, Y, .., Y]."""
    if gold.allowed is not None:
        possible = gold.allowed > 0
    else:
        possible = np.zeros((len(gold.labels), n_labels), dtype=bool)
        possible[np.arange(len(gold.labels)), gold.labels] = True
    mask = possible[piece.positions]
    for back in range(1, piece.depth + 1):
        before = possible[piece.positions - back]
        mask = before.reshape(*before.shape, *(1,) * (mask.ndim - 1)) & mask[:, None]
    return mask
