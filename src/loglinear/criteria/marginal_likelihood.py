"""Marginal likelihood: the probability of each position's label by itself (Kakade, Teh & Roweis 2002).

    loss = - sum_t log p_t                p_t = sum of p(y_t = y) over the labels y that the annotation allows at t

where p(y_t) is the marginal of the whole structure. It rewards what decoding by marginals is after, every label right
rather than all of them at once. The gradient of p_t by a part's score is the covariance of [y_t allowed] and the part,
so that of the loss is a single covariance with a cost that depends on the model:

    gradient = Cov(c, part)               c(y) = - sum_t [y_t allowed at t] / p_t

Marginals below :data:`SMALL` may have lost their digits, and their inverses would swamp the other positions. Those
positions are computed as differences of log-partitions instead, Z_t being the sum over structures with y_t allowed:

    - log p_t = log Z - log Z_t           gradient: E[part] - E[part given that y_t is allowed]

The k-th such position of every example is done in the k-th pass over the batch.

Bounds: p(y*) <= p_t for each t, hence loss <= T cll for T positions. Where positions are independent (no transitions,
flat labels) both are the same. It is not convex, but training may start from zero: there positions are independent.

**Phrase trees** have labels at some spans only, and those to be right are the labelled brackets that evaluation counts
(:mod:`~loglinear.criteria.brackets`). The loss is a sum over the gold tree's, of which there are B <= T:

    loss = - sum over gold brackets b of  log p(b)          c(y) = - sum over gold brackets b in y of  1 / p(b)

A gold tree has each of them, so loss <= B cll. Sums over trees hold any p(b) above 0 to full precision: covariances
are made of shares, which are products, and never of differences of probabilities. Parts of speech do not count.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from loglinear.arrays import Bool, Float
from loglinear.criteria.criterion import Criterion, register
from loglinear.options import options

if TYPE_CHECKING:
    from loglinear.criteria.brackets import Brackets
    from loglinear.structures.gold import Gold
    from loglinear.structures.structure import Scores

SMALL = 1e-9


@register
@options
class MarginalLikelihood(Criterion):
    """- sum_t log p(y*_t).

    Parameters
    ----------
    brackets : Brackets or None
        Those of phrase trees; :meth:`for_brackets` sets it.
    """

    name = "marginal-likelihood"
    summary = "marginal likelihood: log-probability of each label by itself"
    convex = False
    needs = ("marginals", "cost_covariance", "log_partition", "expectations", "restrict")
    needs_of_trees = ("cost_covariance", "expectations")

    brackets: Brackets | None = field(default=None, kw_only=True)

    def for_brackets(self, brackets: Brackets) -> MarginalLikelihood:
        """The same criterion over the brackets of phrase trees."""
        return replace(self, brackets=brackets)

    def evaluate(self, structure: Any, scores: Scores, gold: Gold, weights: Float) -> tuple[Float, Scores]:
        if self.brackets is not None:
            return _of_brackets(self.brackets, structure, scores, gold, weights)
        marginals = structure.marginals(scores)
        allowed = gold.mask(marginals.shape[1])
        right = np.einsum("ny,ny->n", marginals, allowed)
        small = right < SMALL
        safe = np.where(small, 1.0, right)
        costs = allowed * np.where(small, 0.0, -1.0 / safe)[:, np.newaxis]
        _, gradient = structure.cost_covariance(scores, costs, weights)
        losses = weights * np.add.reduceat(-np.log(np.minimum(safe, 1.0)), structure.offsets[:-1])
        if small.any():
            losses += _add_improbable(structure, scores, allowed, small, weights, gradient)
        return losses, gradient


def _of_brackets(
    brackets: Brackets, structure: Any, scores: Scores, gold: Gold, weights: Float
) -> tuple[Float, Scores]:
    """Losses [S] and gradient of trees: - log p of each gold bracket."""
    own = brackets.of_gold(gold, structure.offsets)
    expected = brackets.expected(structure, scores, own, np.ones(structure.n_sequences))
    possible = own.is_gold & (expected > 0.0)
    values = np.where(possible, -1.0 / np.where(possible, expected, 1.0), 0.0)
    costs = brackets.parts(values, own.row_of_span, structure.offsets)
    _, gradient = structure.cost_covariance(scores, costs, weights)
    with np.errstate(divide="ignore"):
        surprises = np.where(own.is_gold, -np.log(np.where(own.is_gold, expected, 1.0)), 0.0)
    losses = np.zeros(structure.n_sequences)
    np.add.at(losses, own.sentence, surprises.sum(axis=1))
    return weights * losses, gradient


def _add_improbable(
    structure: Any, scores: Scores, allowed: Bool, improbable: Bool, weights: Float, gradient: Scores
) -> Float:
    """Weighted sums [S] of - log p_t over the positions ``improbable`` [N]; adds their gradient to ``gradient``."""
    log_z = structure.log_partition(scores)
    positions = np.flatnonzero(improbable)
    examples = np.searchsorted(structure.offsets, positions, side="right") - 1
    rank = np.arange(len(positions)) - np.searchsorted(examples, examples)
    losses, possible = np.zeros(len(weights)), np.zeros(len(weights))  # possible: positions with p_t > 0
    for k in range(int(rank.max()) + 1):
        at, here = positions[rank == k], examples[rank == k]
        mask = np.ones_like(allowed)
        mask[at] = allowed[at]
        log_part = structure.log_partition(structure.restrict(scores, mask))
        impossible = here[np.isneginf(log_part[here])]
        mask[at[np.isneginf(log_part[here])]] = True
        shares = np.zeros(len(weights))
        shares[here] = weights[here]
        losses[here] += weights[here] * (log_z[here] - log_part[here])
        shares[impossible] = 0.0
        possible += shares
        gradient.subtract(structure.expectations(structure.restrict(scores, mask), shares)[1])
    gradient.subtract(structure.expectations(scores, -possible)[1])
    return losses
