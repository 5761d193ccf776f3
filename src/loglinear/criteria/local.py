"""What local criteria share: a chain cut into pieces that are normalised by themselves.

The piece of a position scores its label given its *context*, the labels before it that it depends on; its normaliser is
a function of the context (:meth:`~loglinear.structures.chain.structure.Chain.piece_normalisers`). A *table* holds a
number for each context, at the context's last position: [N, Y] at order 1, [N, Y, Y] at order 2, where the context of a
first position is a single label and its row is ``table[t, 0]``, and [N, Y, Y, Y] at order 3, where a first position has
the row ``table[t, 0, 0]`` and a second one, whose contexts are two labels, the rows ``table[t, 0]``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Bool, Float
from loglinear.structures.chain.structure import ChainScores

if TYPE_CHECKING:
    from loglinear.structures.chain.structure import Chain
    from loglinear.structures.gold import Gold


def locally_normalised(structure: Chain, scores: ChainScores) -> ChainScores:
    """The chain whose score of a labelling is sum_t log p(y_t given its context), the pieces of ``scores`` normalised.

    The normalisers are subtracted from the emissions, from order 2 on also from the edges; what is ruled out remains
    so.
    """
    return less_normalisers(structure, scores, *structure.piece_normalisers(scores))


def less_normalisers(structure: Chain, scores: ChainScores, first: Float, contexts: ChainScores) -> ChainScores:
    """The scores minus the normalisers of first pieces [S] and of the others.

    Nothing is subtracted for a normaliser of -inf: no piece of that context is possible anyway.
    """
    emission = scores.emission - _without_infinite(contexts.emission)
    emission[structure.offsets[:-1]] -= _without_infinite(first)[:, None]
    less = replace(scores, emission=emission)
    return less if contexts.edge is None else less.with_edges(-_without_infinite(contexts.edge))


def _without_infinite(array: Float) -> Float:
    """The array with 0 instead of -inf."""
    return np.where(np.isneginf(array), 0.0, array)


def right_contexts(structure: Chain, gold: Gold, n_labels: int, order: int) -> Bool:
    """Table of the contexts that the annotation allows."""
    nodes = gold.mask(n_labels)
    if order == 1:
        return nodes
    before = np.roll(nodes, 1, axis=0)
    pairs = nodes[:, None, :] & before[:, :, None]
    table = pairs if order == 2 else pairs[:, None] & np.roll(nodes, 2, axis=0)[:, :, None, None]
    return _opened(structure, table, pairs, nodes, False)


def as_table(structure: Chain, contexts: ChainScores, empty: float, order: int) -> Float:
    """Table of scores of contexts; ``empty`` in those rows of first and second positions that are not a context."""
    if contexts.edge is None:
        return contexts.emission
    n, _, y = contexts.edge.shape
    table = contexts.edge.reshape(n, *(y,) * order).copy()
    return _opened(structure, table, contexts.edge[:, :y], contexts.emission, empty)


def _opened(structure: Chain, table: Any, pairs: Any, nodes: Any, empty: float) -> Any:
    """The table of contexts of the full length, with those of first and second positions, which are shorter."""
    first = structure.offsets[:-1]
    if table.ndim == 4:
        second = first[np.diff(structure.offsets) > 1] + 1
        table[second] = empty
        table[second, 0] = pairs[second]
    table[first] = empty
    table[(first, *(0,) * (table.ndim - 2))] = nodes[first]
    return table


def as_contexts(structure: Chain, table: Float) -> ChainScores:
    """Scores, or weights, of contexts from their table."""
    n, y = table.shape[0], table.shape[-1]
    parts = np.zeros((y, y)), np.zeros(y), np.zeros(y)
    if table.ndim == 2:
        return ChainScores(table, *parts)
    first, emission = structure.offsets[:-1], np.zeros((n, y))
    emission[first] = table[(first, *(0,) * (table.ndim - 2))]
    return ChainScores(emission, *parts, table.reshape(n, -1, y))


def per_context(structure: Chain, weights: Float, table: npt.NDArray[np.generic]) -> Float:
    """The weight [S] of each position's sequence times its part of ``table``."""
    each = np.repeat(weights, np.diff(structure.offsets))
    return np.multiply(each.reshape(-1, *(1,) * (table.ndim - 1)), table, dtype=np.float64)


def per_sequence(structure: Chain, values: Float) -> Float:
    """Sums [S] over the positions of each sequence of ``values`` [N]."""
    return np.add.reduceat(values, structure.offsets[:-1]) if structure.n_sequences else np.zeros(0)


def excess(values: Float, weights: Float, gold_score: Float) -> Float:
    """``values - weights * gold_score`` [S]; inf where the gold is impossible, whatever the normalisers are."""
    losses, possible = np.full(len(values), np.inf), gold_score > -np.inf
    losses[possible] = values[possible] - weights[possible] * gold_score[possible]
    return losses


# ----------------------------------------------------------------------------------------------------------------------
# Scaling pieces to each other: a factor for those after each label (Sutton & McCallum, section 3).
#
# Pieces trained one by one are each right, but not on a common scale. The piece of a position after the label y' is
# multiplied by alpha(y'), the first piece by alpha(Y):
#
#     s_alpha(y) = alpha(Y) piece_1(y_1) + sum_{t>=2} alpha(y_{t-1}) piece_t(y_t given its context)
#
# which is a chain again, with emissions and stop scores as edge scores except at first positions. What is ruled out
# remains so. The Y + 1 factors are then learnt by a global criterion; by the chain rule
#
#     d / d alpha(y') = sum over the pieces after y' of  (d / d scaled piece) piece


def scaled(structure: Chain, scores: ChainScores, alpha: Float) -> ChainScores:
    """The scores with the pieces scaled by ``alpha`` [Y + 1]; has edges [N, Y, Y]."""
    own, start, after = _own_scores(structure, scores), alpha[-1], alpha[:-1]
    first = structure.offsets[:-1]
    emission, edge = np.zeros_like(own), _times(after[:, None], _pairs(structure, scores, own))
    emission[first] = _times(start, own[first])
    return ChainScores(
        emission,
        _times(after[:, None], scores.transition),
        _times(start, scores.start),
        np.zeros_like(scores.stop),
        edge,
        None if scores.trigram is None else _times(after[:, None], scores.trigram),
        None if scores.fourgram is None else _times(after[:, None], scores.fourgram),
    )


def scaling_gradient(structure: Chain, scores: ChainScores, alpha: Float, gradient_of_scaled: ChainScores) -> Float:
    """Derivative by ``alpha`` [Y + 1] of what has ``gradient_of_scaled`` by the parts of :func:`scaled`."""
    own, d, first = _own_scores(structure, scores), gradient_of_scaled, structure.offsets[:-1]
    assert d.edge is not None, "the scaled scores have edges"
    gradient = np.empty_like(alpha)
    gradient[:-1] = np.einsum("nby,nby->b", d.edge, _without_infinite(_pairs(structure, scores, own)))
    gradient[:-1] += np.sum(d.transition * _without_infinite(scores.transition), axis=1)
    if scores.trigram is not None and d.trigram is not None:
        gradient[:-1] += np.sum(d.trigram * _without_infinite(scores.trigram), axis=(0, 2))
    if scores.fourgram is not None and d.fourgram is not None:
        gradient[:-1] += np.sum(d.fourgram * _without_infinite(scores.fourgram), axis=(0, 1, 3))
    gradient[-1] = np.sum(d.emission[first] * _without_infinite(own[first]))
    gradient[-1] += d.start @ _without_infinite(scores.start)
    return gradient


def _own_scores(structure: Chain, scores: ChainScores) -> Float:
    """s_t(y), with stop(y) at last positions [N, Y]."""
    own = scores.emission.copy()
    own[structure.offsets[1:] - 1] += scores.stop
    return own


def _pairs(structure: Chain, scores: ChainScores, own: Float) -> Float:
    """The parts that become edge scores [N, Y, Y], zero at first positions."""
    y = scores.n_labels
    pairs = np.empty((structure.n_positions, y, y))
    pairs[...] = own[:, None, :]
    if scores.edge is not None:
        pairs += scores.edge
    pairs[structure.offsets[:-1]] = 0.0
    return pairs


def _times(factor: Float | float, array: Float) -> Float:
    """``factor * array``, -inf where ``array`` is, whatever the factor."""
    return np.where(np.isneginf(array), -np.inf, factor * _without_infinite(array))
