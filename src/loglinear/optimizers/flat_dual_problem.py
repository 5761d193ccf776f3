"""A training problem of flat labels as dual ascent sees it: from kept marginals to weights, and how near that is.

With the marginals a_i of each row and  u = - sum_i c_i x_i (a_i - gold_i) / 2 l2,  the weights w are u, or with an L1
penalty u brought nearer to zero, and

    primal   sum_i c_i loss_i(w) + l1 |w| + l2 ||w||^2
    dual     sum_i c_i (a_i . cost_i + H(a_i)) - l2 ||w||^2             H the entropy; the hinge goes without it

The dual is at most the least primal, whatever the marginals, so the difference of both is a true bound. A bias that is
not penalised adds a condition,  sum_i c_i (a_i - gold_i) = 0;  marginals that do not quite keep it are moved a little,
so that they do (:func:`~loglinear.optimizers.flat_dual_kernels.balance`).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from loglinear.optimizers.flat_dual_kernels import (
    Rates,
    Table,
    add_excess,
    add_weights,
    balance,
    keep_now,
    losses_of,
    mix_with_gold,
    sizes,
)
from loglinear.optimizers.flat_rows import flat_rows
from loglinear.optimizers.objective import Objective
from loglinear.structures.flat_features import FlatFeatures
from loglinear.threads import in_threads

Float = npt.NDArray[np.float64]
R = TypeVar("R")
PARTS = 2
BIAS_CURVATURE = 0.05  # that of a free bias, as a share of the columns'
NEARLY_NOTHING = 1e-4  # an objective, as a share of what it is with weights of zero
MOST_BIAS_L2 = 0.01  # as a share of the rows' weights: more, and its centre follows slowly


class Certificate(NamedTuple):
    """What is known of weights.

    Parameters
    ----------
    value : float
        The objective.
    gap : float
        It is at most so far above its minimum.
    weights : float64 [D]
    """

    value: float
    gap: float
    weights: Float


class FlatProblem:
    """Rows, labels and penalties of an :class:`~loglinear.optimizers.objective.Objective` over flat labels."""

    def __init__(self, objective: Objective, l1: float) -> None:
        features, criterion = objective.features, objective.criterion
        assert isinstance(features, FlatFeatures)
        self.features, self.l1, self.l2, self.n_threads = features, l1, objective.l2, objective.n_threads
        self.rows = rows = flat_rows(objective)
        self.has_margin = criterion.name == "max-margin"
        n = len(rows.gold)
        cuts = np.linspace(0, n, PARTS + 1).astype(int).tolist() if n >= PARTS else [0, n]
        self.shards = list(pairwise(cuts))
        self.bias_l2, self.free = self.l2, features.bias == "free"
        if self.free:
            square, mass = sizes(rows.values, 0.0)[0] / max(n, 1), float(rows.sample_weights.sum())
            least = self.l2 / (BIAS_CURVATURE * square) if square > 0.0 else np.inf
            self.bias_l2 = rows.z**2 * min(least, MOST_BIAS_L2 * mass) or 1.0

        at_zero = rows.costs.max(axis=1) if self.has_margin else logsumexp(rows.costs, axis=1)
        self._least_size = NEARLY_NOTHING * float(np.sum(rows.sample_weights * at_zero[rows.gold]))

    def size(self, value: float) -> float:
        """What a gap is measured by, if this is the objective."""
        return max(abs(value), self._least_size)

    def rates(self, overlap: float = 1.0) -> Rates:
        """Those of steps that several parts take at once, each as if the others did the same."""
        shrink = self.l1 / (2.0 * self.l2)
        bias_shrink = shrink if self.features.bias == "penalised" else 0.0
        return Rates(self.l2 / overlap, self.bias_l2 / overlap, shrink, bias_shrink, self.has_margin)

    def of_gold(self, dtype: type) -> Table:
        """Marginals [N, Y] of the labels that are right, by which the weights are zero."""
        n = len(self.rows.gold)
        kept: Table = np.zeros((n, self.features.n_labels), dtype=dtype)
        kept[np.arange(n), self.rows.gold] = 1.0
        return kept

    def of_weights(self, weights: Float, dtype: type) -> Table:
        """Marginals [N, Y] by which the weights are near the given ones [D].

        They are those of the model with these weights, a share of the way from the gold ones. If it is the minimum of
        the same problem with a larger penalty, the share is the ratio of both and the weights are the same.
        """
        table, kept = self.table_of(weights), self._now(weights, dtype)
        self.balance(kept)
        made = self.shrunk(self.sums(kept)[0], np.zeros(self.features.n_labels))[:-1].ravel()
        share = float(made @ table[:-1].ravel()) / max(float(made @ made), 1e-300)
        mix_with_gold(min(max(share, 0.0), 1.0), self.rows, kept)
        return kept

    def gap_of(self, weights: Float) -> float:
        """How far the objective of the weights [D] is above its minimum, at most, by their own marginals."""
        table = self.table_of(weights)
        made, dual = self.sums(self._now(weights, np.float64))
        l2_part = self.penalties(self.shrunk(made, np.zeros(self.features.n_labels)))[0]
        return self.losses(table) + sum(self.penalties(table)) - (dual - l2_part)

    def _now(self, weights: Float, dtype: type) -> Table:
        """Marginals [N, Y] of the model with the weights [D]."""
        table, kept = self.table_of(weights), self.of_gold(dtype)
        self._in_shards(lambda first, end: keep_now(first, end, self.rows, self._plain, table, kept))
        return kept

    def table_of(self, weights: Float) -> Float:
        """The weights [D] as a table [A + 1, Y]; the last row is zero without a bias."""
        table = weights.reshape(-1, self.features.n_labels)
        if self.features.bias != "none":
            return np.ascontiguousarray(table)
        return np.concatenate([table, np.zeros((1, self.features.n_labels))])

    def vector_of(self, table: Float) -> Float:
        """The weights [D] of a table."""
        return (table if self.features.bias != "none" else table[:-1]).reshape(-1)

    def balance(self, kept: Table) -> None:
        """Move the marginals [N, Y] such that an unpenalised bias has no derivative."""
        keep, take = self._balance(kept)
        if (keep < 1.0).any():
            self._in_shards(lambda first, end: balance(first, end, keep, take, kept))

    def sums(self, kept: Table) -> tuple[Float, float]:
        """The table [A + 1, Y] before it is shrunk, its bias without a centre, and the dual without the penalty."""
        keep, take = self._balance(kept)
        tables = [np.zeros((self.features.n_columns + 1, self.features.n_labels)) for _ in self.shards]
        rates = self.rates()

        def add(k: int) -> float:
            return add_weights(*self.shards[k], self.rows, rates, keep, take, kept, tables[k])

        values = in_threads(add, range(len(self.shards)), self.n_threads)
        for table in tables[1:]:
            tables[0] += table
        tables[0][:-1] /= -2.0 * self.l2
        tables[0][-1] /= -2.0 * self.bias_l2
        return tables[0], float(sum(values))

    def shrunk(self, table: Table, centre: Float) -> Float:
        """The weights of a table as it is stored; a free bias is the centre."""
        rates = self.rates()
        found = np.array(table, dtype=np.float64)
        for part, shrink in ((found[:-1], rates.shrink), (found[-1:], rates.bias_shrink)):
            if shrink:
                part -= np.clip(part, -shrink, shrink)
        if self.free:
            found[-1] = centre
        return found

    def penalties(self, table: Table, shrink: float = 0.0) -> tuple[float, float]:
        """l2 ||w||^2 and l1 |w| of a table of weights, which ``shrink`` may still bring nearer to zero."""
        squares, total = sizes(table[:-1] if self.free else table, shrink)
        return self.l2 * squares, self.l1 * total

    def certificate(self, kept: Table, table: Table, centre: Float) -> Certificate:
        """The weights that the marginals make, with the free bias given [Y]: all in double precision.

        Where marginals had to be moved, the weights of the ``table`` as it is stored may be better, and are then taken.
        """
        made, dual = self.sums(kept)
        best = self.shrunk(made, centre)
        l2_part, l1_part = self.penalties(best)
        dual -= l2_part
        value = self.losses(best) + l2_part + l1_part
        if self.free:
            stored = self.shrunk(table, centre)
            other = self.losses(stored) + sum(self.penalties(stored))
            if other < value:
                value, best = other, stored
        return Certificate(value, value - dual, self.vector_of(best))

    def losses(self, table: Float) -> float:
        """Sum of the losses with a table of weights."""
        return float(sum(self._in_shards(lambda first, end: losses_of(first, end, self.rows, self._plain, table))))

    @property
    def _plain(self) -> Rates:
        """Rates for weights that are shrunk already."""
        return Rates(self.l2, self.bias_l2, 0.0, 0.0, self.has_margin)

    def _balance(self, kept: Table) -> tuple[Float, Float]:
        """What each label keeps and takes [Y]; see :func:`~loglinear.optimizers.flat_dual_kernels.balance`."""
        n_labels = self.features.n_labels
        if not self.free:
            return np.ones(n_labels), np.zeros(n_labels)
        expected, excess = np.zeros((len(self.shards), n_labels)), np.zeros((len(self.shards), n_labels))

        def add(k: int) -> None:
            add_excess(*self.shards[k], self.rows, kept, expected[k], excess[k])

        in_threads(add, range(len(self.shards)), self.n_threads)
        total, over = expected.sum(axis=0), excess.sum(axis=0)
        more, fewer = np.maximum(over, 0.0), np.maximum(-over, 0.0)
        keep = 1.0 - np.divide(more, total, out=np.zeros(n_labels), where=total > 0.0)
        return np.clip(keep, 0.0, 1.0), fewer / max(float(fewer.sum()), 1e-300)

    def _in_shards(self, function: Callable[[int, int], R]) -> list[R]:
        return in_threads(lambda shard: function(*shard), self.shards, self.n_threads)
