"""Piecewise training (Sutton & McCallum 2005): every piece of the chain normalised over all its labellings.

    loss = sum_t [ log sum_{y', y} exp s_t(y', y) - s_t(y*_{t-1}, y*_t) ]

An upper bound on the conditional likelihood's loss that needs no inference; at decoding the pieces are put together as
a chain. The sum over a piece's contexts is that of their normalisers, exp L(y'); without edges it factors further,

    sum_{y', y} exp s_t(y', y) = sum_y exp(s_t(y)) sum_{y'} exp(transition(y', y))

so that a position takes O(Y). Where the annotation leaves several labels, a piece's gold is the log-sum over those it
allows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from loglinear.arrays import Bool, Float
from loglinear.criteria.criterion import Criterion, register, subtract_gold
from loglinear.criteria.local import as_contexts, as_table, excess, per_context, per_sequence, right_contexts
from loglinear.structures.chain.pieces import normalise_rows

if TYPE_CHECKING:
    from loglinear.structures.chain.structure import Chain, ChainScores
    from loglinear.structures.gold import Gold


@register
class Piecewise(Criterion):
    """sum_t log sum_{y', y} exp s_t(y', y) - s_t(gold)."""

    name = "piecewise"
    summary = "piecewise: log-likelihood of each label pair by itself"
    convex = True
    needs = ("piece_normalisers", "add_piece_expectations", "score", "add_labelling", "restrict")
    optimizers = ("dual", "lbfgs", "sgd", "adagrad")

    def evaluate(self, structure: Chain, scores: ChainScores, gold: Gold, weights: Float) -> tuple[Float, ChainScores]:
        gradient = scores.zeros_like()
        if scores.edge is None and scores.transition.ndim == 2:
            sums = _add_pooled(structure, scores, weights, gradient)
        else:
            sums = _add_pieces(structure, scores, weights, None, gradient)
        if gold.allowed is None:
            gold_score = subtract_gold(structure, scores, gold, weights, gradient)
        else:
            right = right_contexts(structure, gold, scores.n_labels, scores.order)
            gold_score = _add_pieces(structure, structure.restrict(scores, gold.allowed), -weights, right, gradient)
        return excess(weights * sums, weights, gold_score), gradient


def _add_pieces(
    structure: Chain, scores: ChainScores, weights: Float, among: Bool | None, gradient: ChainScores
) -> Float:
    """Sums [S] of the pieces' log-sums over all contexts, or those ``among``; adds their gradient times ``weights``."""
    first, normalisers = structure.piece_normalisers(scores)
    table = as_table(structure, normalisers, -np.inf, scores.order)
    if among is not None:
        table = np.where(among, table, -np.inf)
    log_sums = np.empty(structure.n_positions)
    normalise_rows(table.reshape(structure.n_positions, -1), log_sums)
    log_sums[structure.offsets[1:] - 1] = 0.0  # no piece follows
    contexts = as_contexts(structure, per_context(structure, weights, table))
    structure.add_piece_expectations(gradient, scores, weights, contexts)
    return first + per_sequence(structure, log_sums)


def _add_pooled(structure: Chain, scores: ChainScores, weights: Float, gradient: ChainScores) -> Float:
    """:func:`_add_pieces` over all contexts of a chain without edges, whose scores are first summed over contexts."""
    pair, pooled = _pool(scores.transition)
    pools = [scores.start, pooled]
    if scores.trigram is not None:
        triple, pooled = _pool((scores.trigram + scores.transition).reshape(-1, scores.n_labels))
        pools.append(pooled)
    if scores.fourgram is not None and scores.trigram is not None:
        fours = scores.fourgram + scores.trigram + scores.transition
        four, pooled = _pool(fours.reshape(-1, scores.n_labels))
        pools.append(pooled)
    lengths, last = np.diff(structure.offsets), structure.offsets[1:] - 1
    depth = np.minimum(np.arange(structure.n_positions) - np.repeat(structure.offsets[:-1], lengths), scores.order)
    rows = scores.emission + np.stack(pools)[depth]
    rows[last] += scores.stop
    log_sums = np.empty(structure.n_positions)
    normalise_rows(rows, log_sums)
    rows = per_context(structure, weights, rows)
    gradient.emission[...] += rows
    gradient.stop[...] += rows[last].sum(axis=0)
    by_depth = [rows[depth == k].sum(axis=0) for k in range(len(pools))]
    gradient.start[...] += by_depth[0]
    gradient.transition[...] += pair * by_depth[1]
    if gradient.trigram is not None:
        triples = (triple * by_depth[2]).reshape(gradient.trigram.shape)
        gradient.trigram[...] += triples
        gradient.transition[...] += triples.sum(axis=0)
    if gradient.fourgram is not None and gradient.trigram is not None:
        fours = (four * by_depth[3]).reshape(gradient.fourgram.shape)
        gradient.fourgram[...] += fours
        gradient.trigram[...] += fours.sum(axis=0)
        gradient.transition[...] += fours.sum(axis=(0, 1))
    return per_sequence(structure, log_sums)


def _pool(scores: Float) -> tuple[Float, Float]:
    """Share of each context [K, Y] in the sum of exp ``scores`` [K, Y] over contexts, and the logarithm [Y] of that."""
    shares, log_sums = np.array(scores.T, order="C"), np.empty(scores.shape[1])
    normalise_rows(shares, log_sums)
    return shares.T, log_sums
