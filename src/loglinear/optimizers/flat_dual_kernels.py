"""Dual steps over rows with flat labels, and what certifies how near to the minimum they have come.

The weights are a table [A + 1, Y], the last row being the bias, whose column has the same value z in each row. A row of
the data is ``values[pointer[i]:pointer[i + 1]]`` in the columns ``ids`` there, or in all A columns if there are no ids.
Tables are float64, or float32 where that is near enough; sums are made in double precision.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from loglinear.kernels import loose_kernel
from loglinear.optimizers.flat_rows import FlatRows

Float = npt.NDArray[np.float64]
Table = npt.NDArray[np.float64] | npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]
LEAST = 1e-12  # of the marginals that a step seeks
ENOUGH, MOST_STEPS = 1e-7, 50  # change of a marginal that ends the steps, and how many there are at most


class Rates(NamedTuple):
    """What a step is measured by.

    Parameters
    ----------
    l2 : float
        Of the columns' weights.
    bias_l2 : float
        Of the bias, around its centre.
    shrink, bias_shrink : float
        What the L1 penalty brings the weights nearer to zero by.
    has_margin : bool
        Whether the loss is the hinge, not the logarithm of a sum.
    """

    l2: float
    bias_l2: float
    shrink: float
    bias_shrink: float
    has_margin: bool


@loose_kernel
def _set_scores(i: int, rows: FlatRows, weights: Table, rates: Rates, scores: Table) -> float:
    """Scores plus costs [Y] of a row; returns its squared norm without the bias' column."""
    n_labels, sparse, square = scores.shape[0], rows.ids.shape[0] > 0, 0.0
    begin, end, bias, cost = rows.pointer[i], rows.pointer[i + 1], weights[-1], rows.costs[rows.gold[i]]
    for y in range(n_labels):
        weight = bias[y]
        scores[y] = cost[y] + rows.z * (max(weight - rates.bias_shrink, 0.0) + min(weight + rates.bias_shrink, 0.0))
    less = scores.dtype.type(rates.shrink)
    for j in range(begin, end):
        value = scores.dtype.type(rows.values[j])
        column = weights[rows.ids[j] if sparse else j - begin]
        square += float(value * value)
        if rates.shrink > 0.0:
            for y in range(n_labels):
                weight = column[y]
                scores[y] += value * (max(weight - less, weight * 0) + min(weight + less, weight * 0))
        else:
            for y in range(n_labels):
                scores[y] += value * column[y]
    return square


@loose_kernel
def _normalise(scores: Table, out: Float) -> float:
    """``out`` = the probabilities [Y] of the scores; returns log Z."""
    top, mass = float(scores[0]), 0.0
    for y in range(1, scores.shape[0]):
        top = max(top, float(scores[y]))
    for y in range(scores.shape[0]):
        out[y] = math.exp(float(scores[y]) - top)
        mass += out[y]
    for y in range(scores.shape[0]):
        out[y] /= mass
    return top + math.log(mass)


@loose_kernel
def _towards_now(scores: Table, log_z: float, kept: Table, curvature: float, marginals: Float, step: Table) -> float:
    """The change ``step`` [Y] that the dual is largest after; returns the loss less what kept has of it.

    The marginals a that are sought have  log a_y + curvature a_y = scores_y - log Z + curvature kept_y - level,  with
    the level that lets them sum to one: Newton steps on all of them and the level. ``marginals`` [Y] are those of now.
    """
    n_labels, apart = scores.shape[0], 0.0
    for y in range(n_labels):
        old = float(kept[y])
        marginals[y] = max(0.5 * (old + marginals[y]), LEAST)
        if old > 0.0:
            apart += old * (math.log(old) - (float(scores[y]) - log_z))
    for _ in range(MOST_STEPS):
        up, down, mass, largest = 0.0, 0.0, 0.0, 0.0
        for y in range(n_labels):
            here = marginals[y]
            slope = float(scores[y]) - log_z + curvature * (float(kept[y]) - here) - math.log(here)
            factor = here / (1.0 + curvature * here)
            up += slope * factor
            down += factor
            mass += here
            step[y] = slope
        level = (up + mass - 1.0) / down
        for y in range(n_labels):
            here = marginals[y]
            move = max((float(step[y]) - level) * here / (1.0 + curvature * here), -0.9 * here)
            largest = max(largest, abs(move))
            marginals[y] = max(here + move, LEAST)
        if largest < ENOUGH:
            break
    mass = 0.0
    for y in range(n_labels):
        mass += marginals[y]
    for y in range(n_labels):
        step[y] = marginals[y] / mass - float(kept[y])
    return apart


@loose_kernel
def _towards_best(scores: Table, kept: Table, curvature: float, step: Table) -> float:
    """The change ``step`` [Y] that the dual of the hinge is largest after; returns the loss less what kept has of it.

    It is the projection of  kept + scores / curvature  onto the simplex: the labels below a threshold get nothing. It
    is raised until it stands still (Michelot 1986).
    """
    best, expected, n_labels = scores[0], 0.0, scores.shape[0]
    for y in range(n_labels):
        best = max(best, scores[y])
        expected += float(kept[y]) * float(scores[y])
    apart = float(best) - expected
    if curvature <= 0.0:  # a row of zeros: the first of the best labels
        left = 1.0
        for y in range(n_labels):
            taken = left if scores[y] == best else 0.0
            step[y] = taken - kept[y]
            left -= taken
        return apart
    for y in range(n_labels):
        step[y] = kept[y] + (scores[y] - best) / curvature
    threshold, n_before = -np.inf, n_labels + 1
    while True:
        n_above, mass = 0, 0.0
        for y in range(n_labels):
            if step[y] > threshold:
                n_above += 1
                mass += float(step[y])
        if n_above == 0 or n_above >= n_before:  # more would be rounding
            break
        threshold, n_before = (mass - 1.0) / n_above, n_above
    for y in range(n_labels):
        step[y] = max(step[y] - threshold, 0.0) - kept[y]
    return apart


@loose_kernel
def dual_pass(
    order: Int64, rows: FlatRows, rates: Rates, weights: Table, kept: Table, losses: Float, gaps: Float
) -> None:
    """A step for each row in the ``order`` given; losses and gaps [N] as they were met.

    ``kept`` [N, Y] are the marginals that the ``weights`` [A + 1, Y] are made of.
    """
    n_labels, sparse = kept.shape[1], rows.ids.shape[0] > 0
    scores, step, marginals = np.empty_like(weights[0]), np.empty_like(weights[0]), np.empty(n_labels)
    for k in range(order.shape[0]):
        i = order[k]
        begin, end, weight, gold = rows.pointer[i], rows.pointer[i + 1], rows.sample_weights[i], rows.gold[i]
        square = _set_scores(i, rows, weights, rates, scores)
        curvature = weight * (square / (2.0 * rates.l2) + rows.z * rows.z / (2.0 * rates.bias_l2))
        if rates.has_margin:
            apart = _towards_best(scores, kept[i], curvature, step)
            top = scores[0]
            for y in range(1, n_labels):
                top = max(top, scores[y])
            losses[i] = weight * (float(top) - float(scores[gold]))
        else:
            log_z = _normalise(scores, marginals)
            losses[i] = weight * (log_z - float(scores[gold]))
            apart = _towards_now(scores, log_z, kept[i], curvature, marginals, step)
        gaps[i] = weight * apart
        mine, size = kept[i], 0.0
        for y in range(n_labels):
            mine[y] = max(mine[y] + step[y], mine[y] * 0)
            size = max(size, abs(float(step[y])))
        if size == 0.0 or weight == 0.0:
            continue
        bias = weights[-1]
        for y in range(n_labels):
            bias[y] -= weight * rows.z / (2.0 * rates.bias_l2) * step[y]
        factor = -weight / (2.0 * rates.l2)
        for y in range(n_labels):
            step[y] *= factor
        for j in range(begin, end):
            value, column = step.dtype.type(rows.values[j]), weights[rows.ids[j] if sparse else j - begin]
            for y in range(n_labels):
                column[y] += value * step[y]


@loose_kernel
def add_changes(table: Table, one: Table, other: Table, overlap: float) -> None:
    """Add to a table what two copies of it have changed by, over ``overlap``; the copies are the same afterwards."""
    flat, first, second = table.ravel(), one.ravel(), other.ravel()
    share = flat.dtype.type(1.0 / overlap)
    for k in range(flat.shape[0]):
        new = flat[k] + share * (first[k] - flat[k] + (second[k] - flat[k]))
        flat[k] = first[k] = second[k] = new


@loose_kernel
def sizes(table: Table, shrink: float) -> tuple[float, float]:
    """||w||^2 and |w| of the weights w that a table, brought nearer to zero by ``shrink``, holds."""
    flat, squares, total = table.ravel(), 0.0, 0.0
    for k in range(flat.shape[0]):
        size = max(abs(float(flat[k])) - shrink, 0.0)
        squares += size * size
        total += size
    return squares, total


@loose_kernel
def losses_of(first: int, end: int, rows: FlatRows, rates: Rates, weights: Float) -> float:
    """Sum of the losses of rows ``first`` to ``end``, each times its weight."""
    scores, room, losses = np.empty_like(weights[0]), np.empty_like(weights[0]), 0.0
    for i in range(first, end):
        _set_scores(i, rows, weights, rates, scores)
        best = _normalise(scores, room)
        if rates.has_margin:
            best = scores.max()
        losses += rows.sample_weights[i] * (best - scores[rows.gold[i]])
    return losses


@loose_kernel
def keep_now(first: int, end: int, rows: FlatRows, rates: Rates, weights: Float, kept: Table) -> None:
    """``kept`` [N, Y] of rows ``first`` to ``end`` = their marginals by the weights."""
    scores, room = np.empty_like(weights[0]), np.empty_like(weights[0])
    for i in range(first, end):
        _set_scores(i, rows, weights, rates, scores)
        _normalise(scores, room)
        for y in range(scores.shape[0]):
            kept[i, y] = room[y]


@loose_kernel
def mix_with_gold(share: float, rows: FlatRows, kept: Table) -> None:
    """Bring the kept marginals nearer to the gold labels: only a ``share`` of the way is left."""
    for i in range(kept.shape[0]):
        for y in range(kept.shape[1]):
            kept[i, y] *= share
        kept[i, rows.gold[i]] += 1.0 - share


@loose_kernel
def add_excess(first: int, end: int, rows: FlatRows, kept: Table, expected: Float, excess: Float) -> None:
    """Add the weights that the kept marginals of rows ``first`` to ``end`` give each label [Y].

    ``excess`` [Y] is what that is above the weights of the rows with the label.
    """
    for i in range(first, end):
        mass, weight = 0.0, rows.sample_weights[i]
        for y in range(kept.shape[1]):
            mass += float(kept[i, y])
        for y in range(kept.shape[1]):
            share = weight * float(kept[i, y]) / mass
            expected[y] += share
            excess[y] += share
        excess[rows.gold[i]] -= weight


@loose_kernel
def balance(first: int, end: int, keep: Float, take: Float, kept: Table) -> None:
    """Leave each label [Y] its share ``keep`` of the kept marginals; what is left over is shared out by ``take`` [Y].

    With ``keep = 1 - max(excess, 0) / expected`` and ``take`` proportional to ``max(-excess, 0)`` no label has an
    excess afterwards, which is what the dual asks where a bias is not penalised.
    """
    for i in range(first, end):
        left = 0.0
        for y in range(kept.shape[1]):
            left += float(kept[i, y]) * (1.0 - keep[y])
        for y in range(kept.shape[1]):
            kept[i, y] = float(kept[i, y]) * keep[y] + left * take[y]


@loose_kernel
def add_weights(
    first: int, end: int, rows: FlatRows, rates: Rates, keep: Float, take: Float, kept: Table, sums: Float
) -> float:
    """Add  sum_i c_i x_i (a_i - gold_i)  to ``sums`` [A + 1, Y]; returns the dual without the penalty.

    The a_i are the kept marginals of rows ``first`` to ``end`` after :func:`balance`, scaled to a sum of one.
    """
    n_labels, sparse, value = kept.shape[1], rows.ids.shape[0] > 0, 0.0
    part = np.empty(n_labels)
    for i in range(first, end):
        weight, gold, cost, mass, left = rows.sample_weights[i], rows.gold[i], rows.costs[rows.gold[i]], 0.0, 0.0
        for y in range(n_labels):
            mass += float(kept[i, y])
        for y in range(n_labels):
            part[y] = float(kept[i, y]) / mass
            left += part[y] * (1.0 - keep[y])
        for y in range(n_labels):
            share = part[y] * keep[y] + left * take[y]
            value += weight * share * cost[y]
            if share > 0.0 and not rates.has_margin:
                value -= weight * share * math.log(share)
            part[y] = weight * share
        part[gold] -= weight
        begin = rows.pointer[i]
        for j in range(begin, rows.pointer[i + 1]):
            column, number = sums[rows.ids[j] if sparse else j - begin], rows.values[j]
            for y in range(n_labels):
                column[y] += number * part[y]
        bias = sums[-1]
        for y in range(n_labels):
            bias[y] += rows.z * part[y]
    return value
