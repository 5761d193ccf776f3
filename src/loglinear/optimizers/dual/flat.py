"""Stochastic dual coordinate ascent for flat labels: logistic regression, softmax-margin and multi-class SVMs.

As for chains (:mod:`~loglinear.optimizers.dual.chain`), the weights are a function of the rows' marginals alpha_i. A
row has one label, so that its step can be the best possible one, of all its marginals at once. With
q = c_i ||x_i||^2 / 2 l2, the new marginals a are

    cll, softmax-margin      log a_y + q a_y = s_y + cost_y + q alpha_y - level               by Newton steps
    max-margin               a = the projection of  alpha + (s + cost) / q  onto the simplex  (Crammer & Singer 2001)

An unpenalised bias has no place in the dual. It is penalised around a centre, which moves to the bias after each pass
(the proximal point method, Rockafellar 1976), so that the penalty vanishes in the end.

Passes end when primal and dual differ by less than the tolerance; once the gaps seen during a pass are that small, the
gap is certified in double precision. Large data is processed in single precision as long as that is accurate enough.
Two parts share a pass, for any number of threads, as for chains; each takes its own changes to be 1.25 times as large
as they are, and twice as large, which is safe for any data, where all rows have all columns or a pass has raised the
objective.

It takes about q passes where the labels are hard to separate. Where two hundred would not be enough, or were not, and
the loss is smooth, L-BFGS takes over until the same gap, with the marginals of its weights, is small enough, or a
hundredth of the tolerance makes no difference to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from loglinear.arrays import Float, Float32, Int64
from loglinear.criteria.criterion import Criterion
from loglinear.kernels import loose_kernel
from loglinear.optimizers.dual.general import (
    PARTS,
    WORSE,
    DualOptions,
    FinishState,
    certified_message,
    check_fits_data,
    check_supported,
)
from loglinear.optimizers.lbfgs import LBFGS, LBFGSState
from loglinear.optimizers.objective import FlatRows, Objective, flat_rows
from loglinear.optimizers.optimizer import Callback, Result, StoredState
from loglinear.optimizers.passes import passes
from loglinear.structures.flat.features import FlatFeatures
from loglinear.structures.gold import Gold
from loglinear.structures.structure import PartFeatures
from loglinear.system import in_threads

CRITERIA = ("cll", "softmax-margin", "max-margin")
ROUNDS, OVERLAP = 8, 1.25  # of a pass; how much both parts move the same weights, if that is enough
ROWS_A_PART = 500  # in a round; fewer rows are not split
SINGLE_FROM = 2_000_000  # numbers in the data
MOST_MISSES = 3  # certificates that fail before single precision is given up
MOST_PASSES = 200  # before L-BFGS takes over, where the loss is smooth; fewer if that many would not be enough
LOOK_BACK, LEAST_FALL = 5, 1e-12  # passes that the gap's fall is measured over; the least share to hope for
REVISITED = 0.1  # share of the gap asked for that rows between labels may have when they are left
FINER = (1.0, 0.1, 0.01)  # tolerance of L-BFGS, as shares of what is asked for, while the gap is too large


@dataclass
class FlatDualState(StoredState):
    """Everything needed to continue as if never stopped.

    Attributes
    ----------
    centre : float64 [Y]
        What a free bias is penalised around.
    table : float64 or float32 [A + 1, Y]
        The weights, before the L1 penalty moves them towards zero.
    alpha : float64 or float32 [N, Y]
        The marginals of each row that the weights are a function of.
    overlap : float
        By how much each part of a pass overestimates its own changes.
    l1, l2 : float
        The penalties; a state with other ones is a warm start.
    iteration, evaluations : int
        Passes so far.
    misses : int
        Certificates that were not good enough although the gaps seen during a pass were.
    value, gap : float
        The objective and the gap between primal and dual: accumulated during the last pass, or certified.
    gaps : list of float
        The gaps of the last passes, the newest last.
    certified : float64 [D] or None
        The weights that the value and the gap are certified for.
    problem : FlatProblem or None
        None until a stored state has been compared with the data.
    """

    counts = ("iteration", "evaluations", "misses")
    numbers = ("value", "gap", "overlap", "l1", "l2")
    recent = "gaps"
    arrays = ("centre", "table", "alpha")
    stored_as: ClassVar = {"alpha": "kept"}

    centre: Float
    table: Table
    alpha: Table
    overlap: float
    l1: float
    l2: float
    iteration: int = 0
    evaluations: int = 0
    misses: int = 0
    value: float = np.inf
    gap: float = np.inf
    gaps: list[float] = field(default_factory=list)
    certified: Float | None = None
    problem: FlatProblem | None = None

    @property
    def weights(self) -> Float:
        """The weights [D]."""
        if self.certified is not None:
            return self.certified
        assert self.problem is not None
        return self.problem.vector_of(self.problem.shrunk(self.table, self.centre))


@dataclass(frozen=True)
class FlatDual(DualOptions):
    """Passes of dual coordinate ascent over flat labels until primal and dual are nearly the same.

    It stops when the gap is below this share (``tolerance``) of the objective, or of a ten-thousandth of the objective
    at zero if that is more: there may be no loss left.

    Parameters
    ----------
    revisits : int
        How often, after each pass, the rows between labels get another step, if they are at most half of all rows. With
        the hinge the others are mostly at the end of their way already.
    """

    revisits: int = 0

    def minimise(
        self, objective: Objective, weights0: Float, *, l1: float = 0.0, callback: Callback = None, state: Any = None
    ) -> Result:
        """Lower the objective; ``weights0`` [D] and a ``state`` of other penalties say where to begin."""
        gold, l2 = objective.gold, objective.l2
        check_supported(flat_dual_unsupported_reason(objective.criterion, objective.features, gold, l2))
        check_supported("the objective has terms beside the losses of its rows" if objective.terms else None)
        if isinstance(state, FinishState):
            return self._finish(objective, state.weights, l1, callback, state.passes, state.inner)
        problem = FlatProblem(objective, l1)
        now = _start(problem, weights0) if state is None else _fitting(state, problem)
        while True:
            ends = now.iteration >= self.max_iter or (objective.criterion.smooth and self._is_too_slow(problem, now))
            if ends or (now.iteration and now.gap <= self.tolerance * problem.size(now.value)):
                best = problem.certificate(now.alpha, now.table, now.centre)
                near = best.gap <= self.tolerance * problem.size(best.value)
                if near or now.iteration >= self.max_iter:
                    now.value, now.gap, now.certified = best
                    return Result(now, near, certified_message(now, self.tolerance, near))
                if ends:
                    return self._finish(objective, best.weights, l1, callback, now.iteration, None)
                now.misses += 1
                if now.misses >= MOST_MISSES and now.table.dtype == np.float32:
                    now.alpha = now.alpha.astype(np.float64)
                    _refresh_table(now, problem)
            self._pass(problem, now)
            if callback is not None and callback(now):
                return Result(now, False, f"stopped after {passes(now.iteration)} (by the callback)")

    def _is_too_slow(self, problem: FlatProblem, now: FlatDualState) -> bool:
        """Whether the most passes allowed would not be enough."""
        if now.iteration >= MOST_PASSES:
            return True
        if len(now.gaps) <= LOOK_BACK or not 0.0 < now.gap < now.gaps[0]:
            return len(now.gaps) > LOOK_BACK and now.gap >= now.gaps[0] > 0.0
        wanted = max(self.tolerance * problem.size(now.value), LEAST_FALL * now.gap)
        fall = np.log(now.gaps[0] / now.gap) / LOOK_BACK
        return bool(np.log(now.gap / wanted) > fall * (MOST_PASSES - now.iteration))

    def _finish(
        self,
        objective: Objective,
        weights: Float,
        l1: float,
        callback: Callback,
        n_passes: int,
        state: LBFGSState | None,
    ) -> Result:
        """L-BFGS until the gap is small, or it finds no better weights."""
        problem = FlatProblem(objective, l1)
        for share in FINER:
            finer, least_gradient = replace(self, tolerance=share * self.tolerance), share * LBFGS.gradient_tolerance
            result = finer.finish(objective, weights, l1, callback, n_passes, state, least_gradient)
            gap, size = problem.gap_of(result.weights), problem.size(result.value)
            if not result.converged or gap <= self.tolerance * size:
                break
            state = result.state.inner
        if gap > self.tolerance * size:
            apart = f"{result.message}; primal and dual differ by {gap / size:.2g} of the objective"
            return replace(result, message=apart)
        return result

    def _pass(self, problem: FlatProblem, now: FlatDualState) -> None:
        """One more pass, in place."""
        n = len(problem.rows.gold)
        order = self.order(np.arange(n + 1), now.iteration)
        losses, gaps = np.zeros(n), np.zeros(n)
        if n < PARTS * ROUNDS * ROWS_A_PART:
            dual_pass(order, problem.rows, problem.rates(), now.table, now.alpha, losses, gaps)
        else:
            rates, tables = problem.rates(now.overlap), [now.table.copy() for _ in range(PARTS)]
            for chosen in np.array_split(order, ROUNDS):
                parts = np.array_split(chosen, PARTS)

                def steps(k: int) -> None:
                    dual_pass(parts[k], problem.rows, rates, tables[k], now.alpha, losses, gaps)  # noqa: B023

                in_threads(steps, range(PARTS), problem.n_threads)
                add_changes(now.table, tables[0], tables[1], now.overlap)
        _move_centre(problem, now)
        before = now.value
        now.value = float(losses.sum()) + sum(problem.penalties(now.table, problem.rates().shrink))
        now.gap = float(gaps.sum())
        now.gaps = [*now.gaps, now.gap][-LOOK_BACK - 1 :]
        if now.value > (1.0 + WORSE) * before:
            now.overlap = float(PARTS)
        self._revisit(problem, now, losses, gaps)
        now.iteration += 1
        now.evaluations += 1

    def _revisit(self, problem: FlatProblem, now: FlatDualState, losses: Float, gaps: Float) -> None:
        """More steps for the rows that are between labels, until they have little of the gap, in place."""
        n, enough = len(problem.rows.gold), REVISITED * self.tolerance * problem.size(now.value)
        for visit in range(self.revisits):
            between = np.flatnonzero((now.alpha > 0.0).sum(axis=1) > 1)
            if not 0 < len(between) <= n // 2:
                break
            order = np.random.default_rng([self.seed, now.iteration, visit]).permutation(between)
            dual_pass(order, problem.rows, problem.rates(), now.table, now.alpha, losses, gaps)
            _move_centre(problem, now)
            if gaps[between].sum() <= enough:
                break


def _move_centre(problem: FlatProblem, now: FlatDualState) -> None:
    """The centre of a free bias moves to the bias, and the bias as far again."""
    if problem.free:
        bias = now.table[-1].astype(np.float64)
        now.table[-1] = 2.0 * bias - now.centre
        now.centre = bias


def flat_dual_unsupported_reason(criterion: Criterion, features: PartFeatures, gold: Gold, l2: float) -> str | None:
    """Why dual ascent cannot be used, or None if it can."""
    if not isinstance(features, FlatFeatures):
        return "it goes over rows of numbers whose labels have weights of their own"
    if criterion.name not in CRITERIA:
        return f"it is for {', '.join(CRITERIA)}"
    if criterion.own_form:
        return f"it does not do {criterion.own_form}"
    if l2 <= 0.0:
        return f"it needs an L2 penalty, and l2 is {l2:g}"
    if gold.allowed is not None:
        return "it needs one label for each row"
    return None


def _start(problem: FlatProblem, weights0: Float) -> FlatDualState:
    single = len(problem.rows.values) >= SINGLE_FROM and not problem.has_margin
    dtype: type = np.float32 if single else np.float64
    n_labels, n_columns = problem.features.n_labels, problem.features.n_columns
    centre = problem.table_of(weights0)[-1].copy() if problem.free else np.zeros(n_labels)
    table: Table = np.zeros((n_columns + 1, n_labels), dtype=dtype)
    alpha = problem.of_weights(weights0, dtype) if weights0.any() and not problem.has_margin else problem.of_gold(dtype)
    overlap = OVERLAP if len(problem.rows.ids) else float(PARTS)
    now = FlatDualState(centre, table, alpha, overlap, problem.l1, problem.l2, problem=problem)
    if weights0.any():
        _refresh_table(now, problem)
    return now


def _refresh_table(now: FlatDualState, problem: FlatProblem) -> None:
    """Compute the weights from alpha again, with a free bias at its centre."""
    problem.balance(now.alpha)
    table = problem.sums(now.alpha)[0]
    table[-1] += now.centre
    now.table = table.astype(np.float32) if now.alpha.dtype == np.float32 else table


def _fitting(state: Any, problem: FlatProblem) -> FlatDualState:
    """A copy of a stored state if it fits the problem; with other penalties, only its marginals are used."""
    features, n = problem.features, len(problem.rows.gold)
    shapes = [(features.n_labels,), (features.n_columns + 1, features.n_labels), (n, features.n_labels)]
    fits = isinstance(state, FlatDualState) and [getattr(state, name).shape for name in state.arrays] == shapes
    check_fits_data(fits)
    own: dict[str, Any] = {name: state.copied(name) for name in state.arrays}
    own |= {"l1": problem.l1, "l2": problem.l2, "problem": problem}
    if (state.l1, state.l2) == (problem.l1, problem.l2):
        return replace(state, **own, gaps=list(state.gaps), certified=None)
    now = FlatDualState(**own, overlap=state.overlap)
    mix_with_gold(min(problem.l2 / state.l2, 1.0), problem.rows, now.alpha)
    _refresh_table(now, problem)
    return now


# ----------------------------------------------------------------------------------------------------------------------
# Dual steps over rows with flat labels, and the certificate of how close to the minimum they are.
#
# The weights are a table [A + 1, Y], the last row being the bias, whose column has the same value z in each row. A row
# of the data is ``values[pointer[i]:pointer[i + 1]]`` in the columns ``ids`` there, or in all A columns if there are no
# ids. Tables are float64, or float32 where that is accurate enough; sums are made in double precision.

Table = Float | Float32

LEAST = 1e-12  # least marginal that a step leads to
ENOUGH, MOST_STEPS = 1e-7, 50  # change of a marginal that ends the Newton steps, and the most of them


class Rates(NamedTuple):
    """The penalties and the kind of loss that determine a step.

    Parameters
    ----------
    l2 : float
        Of the columns' weights.
    bias_l2 : float
        Of the bias, around its centre.
    shrink, bias_shrink : float
        How far the L1 penalty moves the weights towards zero.
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
        out[y] = float(scores[y]) - top
    for y in range(scores.shape[0]):
        out[y] = math.exp(out[y])
        mass += out[y]
    for y in range(scores.shape[0]):
        out[y] /= mass
    return top + math.log(mass)


@loose_kernel
def _smooth_step(scores: Table, log_z: float, alpha: Table, curvature: float, marginals: Float, step: Table) -> float:
    """The change ``step`` [Y] that maximises the dual; returns the loss minus its counterpart in the dual.

    The new marginals a satisfy  log a_y + curvature a_y = scores_y - log Z + curvature alpha_y - level,  with
    the level that makes them sum to one: Newton steps on all of them and the level. ``marginals`` [Y] come in as those
    under the current weights.
    """
    n_labels, apart = scores.shape[0], 0.0
    for y in range(n_labels):
        marginals[y] = max(0.5 * (float(alpha[y]) + marginals[y]), LEAST)
    for y in range(n_labels):
        old = float(alpha[y])
        if old > 0.0:
            apart += old * (math.log(old) - (float(scores[y]) - log_z))
    for _ in range(MOST_STEPS):
        up, down, mass, largest = 0.0, 0.0, 0.0, 0.0
        for y in range(n_labels):
            here = marginals[y]
            step[y] = float(scores[y]) - log_z + curvature * (float(alpha[y]) - here) - math.log(here)
        for y in range(n_labels):
            here = marginals[y]
            factor = here / (1.0 + curvature * here)
            up += float(step[y]) * factor
            down += factor
            mass += here
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
        step[y] = marginals[y] / mass - float(alpha[y])
    return apart


@loose_kernel
def _hinge_step(scores: Table, alpha: Table, curvature: float, step: Table) -> float:
    """The change ``step`` [Y] that maximises the dual of the hinge; returns the loss minus its counterpart in the dual.

    It is the projection of  alpha + scores / curvature  onto the simplex: the labels below a threshold get nothing. It
    is raised until nothing changes (Michelot 1986).
    """
    best, expected, n_labels = scores[0], 0.0, scores.shape[0]
    for y in range(n_labels):
        best = max(best, scores[y])
        expected += float(alpha[y]) * float(scores[y])
    apart = float(best) - expected
    if curvature <= 0.0:  # a row of zeros: the first of the best labels
        left = 1.0
        for y in range(n_labels):
            taken = left if scores[y] == best else 0.0
            step[y] = taken - alpha[y]
            left -= taken
        return apart
    for y in range(n_labels):
        step[y] = alpha[y] + (scores[y] - best) / curvature
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
        step[y] = max(step[y] - threshold, 0.0) - alpha[y]
    return apart


@loose_kernel
def dual_pass(
    order: Int64, rows: FlatRows, rates: Rates, weights: Table, alpha: Table, losses: Float, gaps: Float
) -> None:
    """A step for each row in the ``order`` given; losses and gaps [N] before each step.

    ``weights`` [A + 1, Y] are a function of the marginals ``alpha`` [N, Y].
    """
    n_labels, sparse = alpha.shape[1], rows.ids.shape[0] > 0
    scores, step, marginals = np.empty_like(weights[0]), np.empty_like(weights[0]), np.empty(n_labels)
    for k in range(order.shape[0]):
        i = order[k]
        begin, end, weight, gold = rows.pointer[i], rows.pointer[i + 1], rows.sample_weights[i], rows.gold[i]
        square = _set_scores(i, rows, weights, rates, scores)
        curvature = weight * (square / (2.0 * rates.l2) + rows.z * rows.z / (2.0 * rates.bias_l2))
        if rates.has_margin:
            apart = _hinge_step(scores, alpha[i], curvature, step)
            top = scores[0]
            for y in range(1, n_labels):
                top = max(top, scores[y])
            losses[i] = weight * (float(top) - float(scores[gold]))
        else:
            log_z = _normalise(scores, marginals)
            losses[i] = weight * (log_z - float(scores[gold]))
            apart = _smooth_step(scores, log_z, alpha[i], curvature, marginals, step)
        gaps[i] = weight * apart
        mine, size = alpha[i], 0.0
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
    """Add the changes of two copies of a table to it, divided by ``overlap``; the copies are equal to it afterwards."""
    flat, first, second = table.ravel(), one.ravel(), other.ravel()
    share = flat.dtype.type(1.0 / overlap)
    for k in range(flat.shape[0]):
        new = flat[k] + share * (first[k] - flat[k] + (second[k] - flat[k]))
        flat[k] = first[k] = second[k] = new


@loose_kernel
def sizes(table: Table, shrink: float) -> tuple[float, float]:
    """||w||^2 and |w| of the weights w of a table after moving them towards zero by ``shrink``."""
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
def set_marginals(first: int, end: int, rows: FlatRows, rates: Rates, weights: Float, alpha: Table) -> None:
    """Set ``alpha`` [N, Y] of rows ``first`` to ``end`` to their marginals under the weights."""
    scores, room = np.empty_like(weights[0]), np.empty_like(weights[0])
    for i in range(first, end):
        _set_scores(i, rows, weights, rates, scores)
        _normalise(scores, room)
        for y in range(scores.shape[0]):
            alpha[i, y] = room[y]


@loose_kernel
def mix_with_gold(share: float, rows: FlatRows, alpha: Table) -> None:
    """Move the marginals towards the gold labels: only a ``share`` of the difference remains."""
    for i in range(alpha.shape[0]):
        for y in range(alpha.shape[1]):
            alpha[i, y] *= share
        alpha[i, rows.gold[i]] += 1.0 - share


@loose_kernel
def add_excess(first: int, end: int, rows: FlatRows, alpha: Table, expected: Float, excess: Float) -> None:
    """Add the weights that the marginals of rows ``first`` to ``end`` give each label [Y].

    ``excess`` [Y] is by how much that exceeds the weights of the rows with the label.
    """
    for i in range(first, end):
        mass, weight = 0.0, rows.sample_weights[i]
        for y in range(alpha.shape[1]):
            mass += float(alpha[i, y])
        for y in range(alpha.shape[1]):
            share = weight * float(alpha[i, y]) / mass
            expected[y] += share
            excess[y] += share
        excess[rows.gold[i]] -= weight


@loose_kernel
def balance(first: int, end: int, keep: Float, take: Float, alpha: Table) -> None:
    """Each label [Y] retains the share ``keep`` of its marginals; the rest is distributed according to ``take`` [Y].

    With ``keep = 1 - max(excess, 0) / expected`` and ``take`` proportional to ``max(-excess, 0)`` no label has an
    excess afterwards, as the dual requires where a bias is not penalised.
    """
    for i in range(first, end):
        left = 0.0
        for y in range(alpha.shape[1]):
            left += float(alpha[i, y]) * (1.0 - keep[y])
        for y in range(alpha.shape[1]):
            alpha[i, y] = float(alpha[i, y]) * keep[y] + left * take[y]


@loose_kernel
def add_weights(
    first: int, end: int, rows: FlatRows, rates: Rates, keep: Float, take: Float, alpha: Table, sums: Float
) -> float:
    """Add  sum_i c_i x_i (a_i - gold_i)  to ``sums`` [A + 1, Y]; returns the dual without the penalty.

    The a_i are the marginals of rows ``first`` to ``end`` after :func:`balance`, scaled to a sum of one.
    """
    n_labels, sparse, value = alpha.shape[1], rows.ids.shape[0] > 0, 0.0
    part = np.empty(n_labels)
    for i in range(first, end):
        weight, gold, cost, mass, left = rows.sample_weights[i], rows.gold[i], rows.costs[rows.gold[i]], 0.0, 0.0
        for y in range(n_labels):
            mass += float(alpha[i, y])
        for y in range(n_labels):
            part[y] = float(alpha[i, y]) / mass
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


# ----------------------------------------------------------------------------------------------------------------------
# A training problem of flat labels for dual ascent: from marginals to weights, and how close those are to the minimum.
#
# With the marginals a_i of each row and  u = - sum_i c_i x_i (a_i - gold_i) / 2 l2,  the weights w are u, or with an L1
# penalty u moved towards zero, and
#
#     primal   sum_i c_i loss_i(w) + l1 |w| + l2 ||w||^2
#     dual     sum_i c_i (a_i . cost_i + H(a_i)) - l2 ||w||^2             H the entropy, none for the hinge
#
# For any marginals the dual is at most the least primal, so the difference of both is a true bound. An unpenalised bias
# adds the condition  sum_i c_i (a_i - gold_i) = 0;  marginals that nearly satisfy it are adjusted (:func:`balance`).

R = TypeVar("R")
BIAS_CURVATURE = 0.05  # of a free bias, as a share of the columns'
NEARLY_NOTHING = 1e-4  # share of the objective at zero below which an objective is negligible
MOST_BIAS_L2 = 0.01  # as a share of the rows' weights: with more, the centre follows slowly


class Certificate(NamedTuple):
    """Weights, and a bound on how far they are from the minimum.

    Parameters
    ----------
    value : float
        The objective.
    gap : float
        The most that it can be above its minimum.
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

        from scipy.special import logsumexp  # taggers do without SciPy

        at_zero = rows.costs.max(axis=1) if self.has_margin else logsumexp(rows.costs, axis=1)
        self._least_size = NEARLY_NOTHING * float(np.sum(rows.sample_weights * at_zero[rows.gold]))

    def size(self, value: float) -> float:
        """What a gap is compared with, given the objective."""
        return max(abs(value), self._least_size)

    def rates(self, overlap: float = 1.0) -> Rates:
        """The rates of steps that several parts make at once, each as if the others made the same ones."""
        shrink = self.l1 / (2.0 * self.l2)
        bias_shrink = shrink if self.features.bias == "penalised" else 0.0
        return Rates(self.l2 / overlap, self.bias_l2 / overlap, shrink, bias_shrink, self.has_margin)

    def of_gold(self, dtype: type) -> Table:
        """Marginals [N, Y] of the gold labels, with which the weights are zero."""
        n = len(self.rows.gold)
        alpha: Table = np.zeros((n, self.features.n_labels), dtype=dtype)
        alpha[np.arange(n), self.rows.gold] = 1.0
        return alpha

    def of_weights(self, weights: Float, dtype: type) -> Table:
        """Marginals [N, Y] with which the weights are close to the given ones [D].

        They lie between those of the gold labels and those under these weights. If the weights are the minimum of the
        same problem with a larger penalty, they are reproduced exactly, the share being the ratio of both penalties.
        """
        table, alpha = self.table_of(weights), self._marginals(weights, dtype)
        self.balance(alpha)
        made = self.shrunk(self.sums(alpha)[0], np.zeros(self.features.n_labels))[:-1].ravel()
        share = float(made @ table[:-1].ravel()) / max(float(made @ made), 1e-300)
        mix_with_gold(min(max(share, 0.0), 1.0), self.rows, alpha)
        return alpha

    def gap_of(self, weights: Float) -> float:
        """The most that the objective at the weights [D] can be above its minimum, from their own marginals."""
        table = self.table_of(weights)
        made, dual = self.sums(self._marginals(weights, np.float64))
        l2_part = self.penalties(self.shrunk(made, np.zeros(self.features.n_labels)))[0]
        return self.losses(table) + sum(self.penalties(table)) - (dual - l2_part)

    def _marginals(self, weights: Float, dtype: type) -> Table:
        """Marginals [N, Y] of the model with the weights [D]."""
        table, alpha = self.table_of(weights), self.of_gold(dtype)
        self._in_shards(lambda first, end: set_marginals(first, end, self.rows, self._plain, table, alpha))
        return alpha

    def table_of(self, weights: Float) -> Float:
        """The weights [D] as a table [A + 1, Y]; the last row is zero without a bias."""
        table = weights.reshape(-1, self.features.n_labels)
        if self.features.bias != "none":
            return np.ascontiguousarray(table)
        return np.concatenate([table, np.zeros((1, self.features.n_labels))])

    def vector_of(self, table: Float) -> Float:
        """The weights [D] of a table."""
        return (table if self.features.bias != "none" else table[:-1]).reshape(-1)

    def balance(self, alpha: Table) -> None:
        """Adjust the marginals [N, Y] so that an unpenalised bias has no derivative."""
        keep, take = self._balance(alpha)
        if (keep < 1.0).any():
            self._in_shards(lambda first, end: balance(first, end, keep, take, alpha))

    def sums(self, alpha: Table) -> tuple[Float, float]:
        """The table [A + 1, Y] before shrinking, its bias without a centre, and the dual without the penalty."""
        keep, take = self._balance(alpha)
        tables = [np.zeros((self.features.n_columns + 1, self.features.n_labels)) for _ in self.shards]
        rates = self.rates()

        def add(k: int) -> float:
            return add_weights(*self.shards[k], self.rows, rates, keep, take, alpha, tables[k])

        values = in_threads(add, range(len(self.shards)), self.n_threads)
        for table in tables[1:]:
            tables[0] += table
        tables[0][:-1] /= -2.0 * self.l2
        tables[0][-1] /= -2.0 * self.bias_l2
        return tables[0], float(sum(values))

    def shrunk(self, table: Table, centre: Float) -> Float:
        """The weights of a table before the L1 penalty; a free bias is the centre."""
        rates = self.rates()
        weights = np.array(table, dtype=np.float64)
        for part, shrink in ((weights[:-1], rates.shrink), (weights[-1:], rates.bias_shrink)):
            if shrink:
                part -= np.clip(part, -shrink, shrink)
        if self.free:
            weights[-1] = centre
        return weights

    def penalties(self, table: Table, shrink: float = 0.0) -> tuple[float, float]:
        """l2 ||w||^2 and l1 |w| of a table of weights after moving them towards zero by ``shrink``."""
        squares, total = sizes(table[:-1] if self.free else table, shrink)
        return self.l2 * squares, self.l1 * total

    def certificate(self, alpha: Table, table: Table, centre: Float) -> Certificate:
        """The weights for the marginals ``alpha``, with the free bias at its centre [Y]; all in double precision.

        Where the marginals had to be adjusted, the weights of the ``table`` may be better, and are then used.
        """
        made, dual = self.sums(alpha)
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
        """The rates for weights that are already shrunk."""
        return Rates(self.l2, self.bias_l2, 0.0, 0.0, self.has_margin)

    def _balance(self, alpha: Table) -> tuple[Float, Float]:
        """``keep`` and ``take`` [Y] of :func:`balance`."""
        n_labels = self.features.n_labels
        if not self.free:
            return np.ones(n_labels), np.zeros(n_labels)
        expected, excess = np.zeros((len(self.shards), n_labels)), np.zeros((len(self.shards), n_labels))

        def add(k: int) -> None:
            add_excess(*self.shards[k], self.rows, alpha, expected[k], excess[k])

        in_threads(add, range(len(self.shards)), self.n_threads)
        total, over = expected.sum(axis=0), excess.sum(axis=0)
        more, fewer = np.maximum(over, 0.0), np.maximum(-over, 0.0)
        keep = 1.0 - np.divide(more, total, out=np.zeros(n_labels), where=total > 0.0)
        return np.clip(keep, 0.0, 1.0), fewer / max(float(fewer.sum()), 1e-300)

    def _in_shards(self, function: Callable[[int, int], R]) -> list[R]:
        return in_threads(lambda shard: function(*shard), self.shards, self.n_threads)
