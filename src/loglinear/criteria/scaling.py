"""Scaling pieces to each other: a factor for those after each label (Sutton & McCallum, section 3).

Pieces trained one by one are right in themselves but not to each other's measure. The piece of a position whose label
before is y' is multiplied by alpha(y'), the first piece by alpha(Y):

    s_alpha(y) = alpha(Y) piece_1(y_1) + sum_{t>=2} alpha(y_{t-1}) piece_t(y_t given its context)

which is a chain again, where emissions and stop scores have become edge scores but at first positions. What is ruled
out stays so. The Y + 1 factors are then learnt by a global criterion; by the chain rule

    d / d alpha(y') = sum over the pieces after y' of  (d / d scaled piece) piece
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from loglinear.structures.chain import ChainScores

if TYPE_CHECKING:
    from loglinear.structures.chain import Chain

Float = npt.NDArray[np.float64]


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
    )


def scaling_gradient(structure: Chain, scores: ChainScores, alpha: Float, gradient_of_scaled: ChainScores) -> Float:
    """Derivative by ``alpha`` [Y + 1] of what has ``gradient_of_scaled`` by the parts of :func:`scaled`."""
    own, given, first = _own_scores(structure, scores), gradient_of_scaled, structure.offsets[:-1]
    assert given.edge is not None, "the scaled scores have edges"
    gradient = np.empty_like(alpha)
    gradient[:-1] = np.einsum("nby,nby->b", given.edge, _counted(_pairs(structure, scores, own)))
    gradient[:-1] += np.sum(given.transition * _counted(scores.transition), axis=1)
    if scores.trigram is not None and given.trigram is not None:
        gradient[:-1] += np.sum(given.trigram * _counted(scores.trigram), axis=(0, 2))
    gradient[-1] = np.sum(given.emission[first] * _counted(own[first])) + given.start @ _counted(scores.start)
    return gradient


def _own_scores(structure: Chain, scores: ChainScores) -> Float:
    """s_t(y), with stop(y) at last positions [N, Y]."""
    own = scores.emission.copy()
    own[structure.offsets[1:] - 1] += scores.stop
    return own


def _pairs(structure: Chain, scores: ChainScores, own: Float) -> Float:
    """What becomes edge scores [N, Y, Y], zero at first positions."""
    y = scores.n_labels
    pairs = np.empty((structure.n_positions, y, y))
    pairs[...] = own[:, None, :]
    if scores.edge is not None:
        pairs += scores.edge
    pairs[structure.offsets[:-1]] = 0.0
    return pairs


def _times(factor: Float | float, array: Float) -> Float:
    """``factor * array``, -inf where ``array`` is, whatever the factor."""
    return np.where(np.isneginf(array), -np.inf, factor * _counted(array))


def _counted(array: Float) -> Float:
    """The array with 0 for what is ruled out."""
    return np.where(np.isneginf(array), 0.0, array)
