"""N-best lists: the k best labellings of each example with their scores and costs, for criteria on them alone.

A sum or a maximum over all labellings is taken over y_1, ..., y_k, the k best by score (Smith & Eisner 2006; Och 2003),
so that the cost may be any function of two labellings. A loss f(s_1, ..., s_k) of their scores has the gradient

    sum_i df/ds_i [part in y_i]

with the list held fixed: it changes where two labellings change places at its end, and the loss jumps there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from loglinear.arrays import Bool, Float, Int32
from loglinear.criteria.costs import LabellingCost
from loglinear.errors import DataError

if TYPE_CHECKING:
    from loglinear.criteria.criterion import CostCriterion
    from loglinear.structures.gold import Gold
    from loglinear.structures.structure import Scores


@dataclass(frozen=True)
class NBest:
    """K labellings of each of S examples with N positions in all; fewer where an example does not have as many.

    Parameters
    ----------
    labellings : int32 [K, N, ...]
        Best first; the first again where there are no more.
    scores : float64 [S, K]
        -inf where there are no more.
    costs : float64 [S, K]
    """

    labellings: Int32
    scores: Float
    costs: Float

    def differs(self, structure: Any, labels: Int32) -> Bool:
        """Whether each labelling [S, K] differs from ``labels`` [N, ...]."""
        apart = (self.labellings != labels).reshape(*self.labellings.shape[:2], -1).any(axis=2)
        differs: Bool = np.logical_or.reduceat(apart, structure.offsets[:-1], axis=1).T
        return differs

    def add_parts(self, structure: Any, parts: Scores, factors: Float) -> None:
        """Add to ``parts`` those of each labelling times its factor [S, K]."""
        for labels, factor in zip(self.labellings, factors.T, strict=True):
            if factor.any():
                structure.add_labelling(parts, labels, np.ascontiguousarray(factor))


def n_best(criterion: CostCriterion, structure: Any, scores: Scores, gold: Gold, k: int) -> NBest:
    """The lists of a batch; the cost is that of the criterion."""
    lists, offsets, cost = structure.k_best(scores, k), structure.offsets.tolist(), criterion.cost
    if isinstance(cost, LabellingCost) and gold.allowed is not None:
        raise DataError("a cost of whole labellings needs one label for each token, and no sub-labels")
    longest, shape = max((len(values) for _, values in lists), default=0), gold.labels.shape
    labellings = np.empty((longest, *shape), dtype=np.int32)
    best, costs = np.full((len(lists), longest), -np.inf), np.zeros((len(lists), longest))
    for s, (found, values) in enumerate(lists):
        n, here = len(values), slice(offsets[s], offsets[s + 1])
        labellings[:n, here], labellings[n:, here], best[s, :n] = found, found[0], values
        if isinstance(cost, LabellingCost):
            costs[s, :n] = cost.of(gold.labels[here], found)
    if not isinstance(cost, LabellingCost):
        costs = _factored(structure, labellings, criterion.costs(structure, gold))
    return NBest(labellings, best, costs)


def _factored(structure: Any, labellings: Int32, costs: Any) -> Float:
    """Costs [S, K] of labellings, given those of choices at positions [N, choices], or of parts as scores."""
    if not isinstance(costs, np.ndarray):
        return np.column_stack([structure.score(costs, labels) for labels in labellings])
    chosen = costs[np.arange(structure.n_positions), labellings]
    return np.add.reduceat(chosen, structure.offsets[:-1], axis=1).T
