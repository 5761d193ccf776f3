"""Online learning of flat labels, compiled: a whole pass over the rows.

With one label a row, f(y) - f(y*) is the row x at y and -x at y*, so that the Gram matrix of K wrong labels is
||x||^2 (1 + [i = j]) and no features need be collected. The sum of the weights is updated when they change: a change d
at step k of N is in the weights after N - k + 1 steps,

    sum_k w_k = N w_0 + sum_k (N - k + 1) d_k

Tests hold it to the loop of :mod:`~loglinear.optimizers.online.general`, which does the same row by row in Python.
"""

from __future__ import annotations

import math

import numpy as np

from loglinear.arrays import Float, Int64
from loglinear.criteria.mira import ENOUGH, ROUNDS
from loglinear.kernels import kernel
from loglinear.optimizers.objective import FlatRows, Objective, flat_rows
from loglinear.optimizers.online.learner import MIRA, NO_STEP, PASSIVE_AGGRESSIVE, Learner, learner_of, single_step
from loglinear.structures.flat.features import FlatFeatures


@kernel
def _wrong_labels(scores: Float, costs: Float, gold: int, k: int, wrong: Int64, losses: Float) -> int:
    """The ``wrong`` ones among the k labels of greatest score plus cost, best first, and their losses; their number."""
    n = 0
    taken = np.zeros(scores.shape[0], np.bool_)
    for _ in range(min(k, scores.shape[0])):
        best = -1
        for y in range(scores.shape[0]):
            if not taken[y] and (best < 0 or scores[y] + costs[y] > scores[best] + costs[best]):
                best = y
        taken[best] = True
        if best != gold:
            wrong[n], losses[n] = best, scores[best] + costs[best] - scores[gold]
            n += 1
    return n


@kernel
def _set_steps(learner: Learner, losses: Float, square: float, weight: float, steps: Float) -> None:
    """How far to step for each of the wrong labels; ``square`` is the squared norm of the row."""
    if steps.shape[0] == 1:
        steps[0] = single_step(learner, losses[0], 2.0 * square, weight)
        return
    cap = learner.C * weight
    steps[:] = 0.0
    for _ in range(ROUNDS if square > 0.0 else 0):
        change, largest, total = 0.0, 0.0, steps.sum()
        for i in range(steps.shape[0]):
            slack = losses[i] - square * (total + steps[i])
            new = min(max(steps[i] + slack / (2.0 * square), 0.0), cap)
            change, largest = max(change, abs(new - steps[i])), max(largest, new)
            total += new - steps[i]
            steps[i] = new
        if change <= ENOUGH * largest:
            return


@kernel
def online_pass(order: Int64, rows: FlatRows, learner: Learner, table: Float, sums: Float) -> tuple[float, int]:
    """A step for each row in the ``order`` given; the losses before each step, and how many rows moved the weights.

    ``table`` [A + 1, Y] are the weights; ``sums`` gets each change times the number of steps left.
    """
    n_labels, n_rows, sparse = table.shape[1], order.shape[0], rows.ids.shape[0] > 0
    scores, free = np.empty(n_labels), np.zeros(n_labels)
    wrong, losses, steps = np.empty(n_labels, np.int64), np.empty(n_labels), np.empty(n_labels)
    total, moves, averaged = 0.0, 0, sums.shape[0] > 0
    for number in range(n_rows):
        i = order[number]
        begin, end, gold, weight = rows.pointer[i], rows.pointer[i + 1], rows.gold[i], rows.sample_weights[i]
        square, bias, left = rows.z * rows.z, table[-1], float(n_rows - number)
        for y in range(n_labels):
            scores[y] = 0.0
        for j in range(begin, end):
            value, column = rows.values[j], table[rows.ids[j] if sparse else j - begin]
            square += value * value
            for y in range(n_labels):
                scores[y] += value * column[y]
        for y in range(n_labels):
            scores[y] += rows.z * bias[y]
        costs = rows.costs[gold] if learner.kind == MIRA else free
        n = _wrong_labels(scores, costs, gold, learner.k, wrong, losses)
        if n == 0:
            continue
        if learner.kind == PASSIVE_AGGRESSIVE:
            losses[0] += math.sqrt(rows.costs[gold, wrong[0]])
        _set_steps(learner, losses[:n], square, weight, steps[:n])
        total += weight * max(0.0, losses[:n].max())
        moves += 1 if steps[:n].max() > NO_STEP else 0
        for k in range(n):
            step = steps[k]
            if step == 0.0:
                continue
            for j in range(begin, end):
                place, moved = rows.ids[j] if sparse else j - begin, step * rows.values[j]
                table[place, wrong[k]] -= moved
                table[place, gold] += moved
                if averaged:
                    sums[place, wrong[k]] -= left * moved
                    sums[place, gold] += left * moved
            bias[wrong[k]] -= step * rows.z
            bias[gold] += step * rows.z
            if averaged:
                sums[-1, wrong[k]] -= left * step * rows.z
                sums[-1, gold] += left * step * rows.z
    return total, moves


class FlatOnline:
    """Compiled passes over the rows of an objective with flat labels."""

    def __init__(self, objective: Objective, learner: Learner) -> None:
        self._learner, self._rows = learner, flat_rows(objective)
        features = objective.features
        assert isinstance(features, FlatFeatures)
        self._n_labels, self._has_bias = features.n_labels, features.bias != "none"

    @classmethod
    def of(cls, objective: Objective) -> FlatOnline | None:
        """The passes of an objective; None unless it has one flat label for each row and a supported learner."""
        learner = learner_of(objective.criterion)
        if learner is None or not isinstance(objective.features, FlatFeatures) or objective.gold.allowed is not None:
            return None
        return cls(objective, learner)

    def __call__(self, order: Int64, weights: Float, sums: Float) -> tuple[float, int]:
        """A pass that changes ``weights`` [D] and their ``sums`` [D or 0]; the losses, and how many rows moved them."""
        sums += len(order) * weights[: len(sums)]
        tables = [each.reshape(-1, self._n_labels) for each in (weights, sums)]
        if not self._has_bias:
            none = np.zeros((1, self._n_labels))
            padded = [np.concatenate([table, none]) if len(table) else table for table in tables]
            result = online_pass(order, self._rows, self._learner, *padded)
            for table, new in zip(tables, padded, strict=True):
                table[...] = new[: len(table)]
            return result
        return online_pass(order, self._rows, self._learner, *tables)
