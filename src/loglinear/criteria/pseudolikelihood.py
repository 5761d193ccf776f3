"""Pseudolikelihood (Besag 1975; Toutanova et al. 2003): each label given all the others.

    loss = - sum_t log p(y*_t given y*_{t-1}, y*_{t+1}, x)

The score of a label at t, its neighbours fixed, is the sum of the parts that touch it. Training needs no inference;
decoding is that of the chain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from loglinear.criteria.criterion import Criterion, Float, register
from loglinear.criteria.local import log_sum_exp, sequence_of

if TYPE_CHECKING:
    from loglinear.structures.chain import Chain, ChainScores
    from loglinear.structures.gold import Gold


@register
class Pseudolikelihood(Criterion):
    """- sum_t log p(y*_t given its neighbours)."""

    name = "pseudolikelihood"
    summary = "pseudolikelihood: log-likelihood of each label given its neighbours"
    convex = True
    needs = ()
    takes_partial = False

    def evaluate(self, structure: Chain, scores: ChainScores, gold: Gold, weights: Float) -> tuple[Float, ChainScores]:
        labels, sequence = gold.labels, sequence_of(structure)
        first, last = structure.offsets[:-1], structure.offsets[1:] - 1
        within = np.arange(structure.n_positions) - first[sequence]
        left = last[sequence] - np.arange(structure.n_positions)
        rows = scores.emission.copy()
        rows[first] += scores.start
        rows[last] += scores.stop
        after, before = np.flatnonzero(within >= 1), np.flatnonzero(left >= 1)
        rows[after] += scores.transition[labels[after - 1]]
        rows[before] += scores.transition.T[labels[before + 1]]
        if scores.edge is not None:
            rows[after] += scores.edge[after, labels[after - 1]]
            rows[before] += scores.edge[before + 1, :, labels[before + 1]]
        third, middle, opening = (
            np.flatnonzero(within >= 2),
            np.flatnonzero((within >= 1) & (left >= 1)),
            np.flatnonzero(left >= 2),
        )
        if scores.trigram is not None:
            rows[third] += scores.trigram[labels[third - 2], labels[third - 1]]
            rows[middle] += scores.trigram[labels[middle - 1], :, labels[middle + 1]]
            rows[opening] += scores.trigram[:, labels[opening + 1], labels[opening + 2]].T
        log_z, change = log_sum_exp(rows)
        each = np.arange(len(labels))
        losses = np.bincount(sequence, log_z - rows[each, labels], minlength=structure.n_sequences)
        change[each, labels] -= 1.0
        change *= weights[sequence, None]

        gradient = scores.zeros_like()
        gradient.emission[...] = change
        gradient.start[...] = change[first].sum(axis=0)
        gradient.stop[...] = change[last].sum(axis=0)
        np.add.at(gradient.transition, labels[after - 1], change[after])
        np.add.at(gradient.transition.T, labels[before + 1], change[before])
        if gradient.edge is not None:
            gradient.edge[after, labels[after - 1]] += change[after]
            gradient.edge[before + 1, :, labels[before + 1]] += change[before]
        if gradient.trigram is not None:
            np.add.at(gradient.trigram, (labels[third - 2], labels[third - 1]), change[third])
            inner_last, outer_last = gradient.trigram.transpose(0, 2, 1), gradient.trigram.transpose(1, 2, 0)
            np.add.at(inner_last, (labels[middle - 1], labels[middle + 1]), change[middle])
            np.add.at(outer_last, (labels[opening + 1], labels[opening + 2]), change[opening])
        return weights * losses, gradient
