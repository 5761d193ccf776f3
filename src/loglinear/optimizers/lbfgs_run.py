"""The steps of L-BFGS and OWL-QN: kernels on vectors [D], and the run that calls them.

The essay in ``lbfgs`` has the equations and the papers. Everything here happens between two evaluations of the
objective, so it should cost little beside one: the kernels walk through memory as few times as they can, in place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from loglinear import mapped
from loglinear.arrays import Float, Int64
from loglinear.errors import DataError, OptionError
from loglinear.kernels import kernel
from loglinear.optimizers.lbfgs import LBFGS, PAIRS, LBFGSState, Objective
from loglinear.wording import how_many

OF_WEIGHTS = 8  # vectors of a number for each weight that are in use at any time, besides the pairs
_BLOCK = 1024  # a power of two; numbers walked at a time, and partial sums of an inner product


@kernel
def fold(sums: Float) -> float:
    """Sum of ``sums`` [_BLOCK], which is overwritten: the upper half is added to the lower half until one is left."""
    half = _BLOCK // 2
    while half > 0:
        for j in range(half):
            sums[j] += sums[j + half]
        half //= 2
    return float(sums[0])


@kernel
def dot(a: Float, b: Float) -> float:
    """Inner product of two vectors [D], always summed in the same order.

    The k-th partial sum takes the numbers k, k + 1024, k + 2048 ...: independent sums, so the processor adds several
    at once without permission to reorder, and rounding errors grow with D / 1024 only. Walking over slices from zero
    (as everywhere here) lets the compiler see that no index is negative, without which it does not vectorise.
    """
    sums = np.zeros(_BLOCK)
    for start in range(0, a.size, _BLOCK):
        a_block, b_block = a[start : start + _BLOCK], b[start : start + _BLOCK]
        for j in range(a_block.size):
            sums[j] += a_block[j] * b_block[j]
    return fold(sums)


@kernel
def add_then_dot(q: Float, scale: float, x: Float, factor: float, z: Float) -> float:
    """q ← factor (q + scale x) in place, and z·q of the result, in one walk through memory; all [D]."""
    sums = np.zeros(_BLOCK)
    for start in range(0, q.size, _BLOCK):
        stop = start + _BLOCK
        q_block, x_block, z_block = q[start:stop], x[start:stop], z[start:stop]
        for j in range(q_block.size):
            moved = factor * (q_block[j] + scale * x_block[j])
            q_block[j] = moved
            sums[j] += moved * z_block[j]
    return fold(sums)


@kernel
def two_loop(s: Float, y: Float, s_y: Float, order: Int64, gamma: float, gradient: Float, q: Float) -> float:
    """Two-loop recursion: q ← −H gradient [D]; returns gradient·q.

    ``s``, ``y`` [M, D] and ``s_y`` [M] hold the pairs, ``order`` [m] their rows from the oldest to the newest, m >= 1.
    Each addition shares its walk with the next inner product, so a pair costs four reads in all.
    """
    m = order.size
    alpha = np.empty(m)
    for i in range(q.size):
        q[i] = -gradient[i]
    previous = y[order[m - 1]]
    scale = 0.0
    for k in range(m - 1, -1, -1):
        alpha[k] = add_then_dot(q, scale, previous, 1.0, s[order[k]]) / s_y[order[k]]
        scale = -alpha[k]
        previous = y[order[k]]
    product = add_then_dot(q, scale, previous, gamma, y[order[0]])
    for k in range(m):
        following = y[order[k + 1]] if k + 1 < m else gradient
        product = add_then_dot(q, alpha[k] - product / s_y[order[k]], s[order[k]], 1.0, following)
    return product


@kernel
def pseudo_gradient(weights: Float, gradient: Float, l1: Float, out: Float) -> None:
    """out ← ⋄F, the pseudo-gradient (Andrew & Gao 2007); all [D]."""
    for i in range(weights.size):  # selections, not branches: the signs are practically random
        at_zero = gradient[i] - min(max(gradient[i], -l1[i]), l1[i])
        slope = gradient[i] + (l1[i] if weights[i] > 0.0 else -l1[i])
        out[i] = at_zero if weights[i] == 0.0 else slope


@kernel
def align(direction: Float, pseudo: Float, l1: Float) -> float:
    """Zero penalised coordinates of ``direction`` that go up along ``pseudo``; returns pseudo·direction. All [D]."""
    for i in range(direction.size):
        upward = (l1[i] > 0.0) & (direction[i] * pseudo[i] >= 0.0)
        direction[i] = 0.0 if upward else direction[i]
    return dot(pseudo, direction)


@kernel
def move_in_orthant(
    weights: Float, direction: Float, step: float, pseudo: Float, l1: Float, trial: Float
) -> tuple[float, float]:
    """trial ← π(weights + step direction; ξ); returns Σ l1_i |trial_i| and pseudo·(trial − weights). All [D]."""
    penalties, changes = np.zeros(_BLOCK), np.zeros(_BLOCK)
    for start in range(0, weights.size, _BLOCK):
        stop = start + _BLOCK
        w, d, p = weights[start:stop], direction[start:stop], pseudo[start:stop]
        penalty, out = l1[start:stop], trial[start:stop]
        for j in range(w.size):
            moved = w[j] + step * d[j]
            orthant = w[j] if w[j] != 0.0 else -p[j]
            # signs, not a product: the product of two tiny numbers underflows to zero
            leaves = ((moved > 0.0) & (orthant <= 0.0)) | ((moved < 0.0) & (orthant >= 0.0))
            moved = 0.0 if (penalty[j] > 0.0) & leaves else moved
            out[j] = moved
            penalties[j] += penalty[j] * abs(moved)
            changes[j] += p[j] * (moved - w[j])
    return fold(penalties), fold(changes)


class Run:
    """One minimisation: the state and the few vectors beside it. ``l1`` is empty when nothing is penalised."""

    def __init__(
        self, options: LBFGS, objective: Objective, l1: float | Float, weights0: npt.ArrayLike, state: LBFGSState | None
    ) -> None:
        self.options, self.objective = options, objective
        size = len(weights0) if state is None else state.weights.size  # type: ignore[arg-type]  # it has one dimension
        mapped.check_room(OF_WEIGHTS * 8.0 * size, f"{size:,} weights")
        self.state = _first_state(weights0, options.memory) if state is None else _copied(state, options.memory)
        size = self.state.weights.size
        self.l1 = _penalties(l1, size)
        self.trial, self.direction = np.empty(size), np.empty(size)
        self.trial_gradient = self.state.gradient
        # the gradient, or with L1 the pseudo-gradient, at the current weights
        self.steepest = np.empty(size) if self.l1.size else self.state.gradient
        if state is None:
            self._evaluate_start()
        self._update_steepest()

    def _evaluate(self, weights: Float) -> float:
        """Smooth value at ``weights``; its gradient goes to ``trial_gradient`` (the objective's own memory)."""
        value, gradient = self.objective(weights)
        self.trial_gradient = np.require(gradient, np.float64, ["C", "W"])  # one type, so that kernels compile once
        if self.trial_gradient.shape != weights.shape:
            raise ValueError(f"gradient of shape {self.trial_gradient.shape} for weights of shape {weights.shape}")
        self.state.evaluations += 1
        return float(value)

    def _evaluate_start(self) -> None:
        state = self.state
        value = self._evaluate(state.weights)
        if self.l1.size:
            state.gradient.fill(0.0)  # a move of length zero, to sum the penalty
            value += move_in_orthant(state.weights, state.gradient, 0.0, state.gradient, self.l1, self.trial)[0]
        state.gradient[:] = self.trial_gradient
        if not (math.isfinite(value) and math.isfinite(dot(state.gradient, state.gradient))):
            raise DataError(
                f"the objective is {value} (or its gradient is not finite) at the starting weights: "
                "look for infinite or huge feature values, sequence weights or starting weights"
            )
        state.value = value
        state.values.append(value)

    def evaluate_again(self) -> None:
        """Continue from here with an objective that has become more precise."""
        self.state.values = []
        self._evaluate_start()
        self._update_steepest()

    def _update_steepest(self) -> None:
        if self.l1.size:
            pseudo_gradient(self.state.weights, self.state.gradient, self.l1, self.steepest)

    def converged(self) -> str:
        """Why the current weights are a minimum, or an empty string."""
        options, state, steepest = self.options, self.state, self.steepest
        norm = math.sqrt(dot(state.weights, state.weights))
        if math.sqrt(dot(steepest, steepest)) <= options.gradient_tolerance * max(1.0, norm):
            return f"the gradient is at most {options.gradient_tolerance:g} of the weights (or of 1)"
        if options.tolerance > 0.0 and len(state.values) > options.period:
            fall = state.values[-1 - options.period] - state.value
            if fall < options.tolerance * abs(state.value):
                return (
                    f"the objective fell by less than {options.tolerance:g} of itself over {options.period} iterations"
                )
        return ""

    @property
    def stopped(self) -> str:
        """The beginning of a message that says why the run stopped."""
        return f"stopped after {how_many(self.state.iteration, 'iteration')}"

    def iterate(self) -> bool:
        """One iteration; False when no step lowers the objective, not even along the gradient."""
        while True:
            slope = self._aim()
            value = self._search(slope)
            if value is not None:
                self._accept(value)
                return True
            if not self.state.order:
                return False
            self.state.order.clear()  # the pairs were misleading: try again with steepest descent

    def _aim(self) -> float:
        """Fill ``direction``; returns its slope, which is negative."""
        state, steepest = self.state, self.steepest
        if state.order:
            order = np.array(state.order, dtype=np.int64)
            newest = state.order[-1]
            gamma = float(state.s_y[newest] / state.y_y[newest])
            slope = two_loop(state.s, state.y, state.s_y, order, gamma, steepest, self.direction)
            if self.l1.size:
                slope = align(self.direction, steepest, self.l1)
            if -math.inf < slope < 0.0:
                return slope
            state.order.clear()
        np.negative(steepest, out=self.direction)
        return -dot(steepest, steepest)

    def _search(self, slope: float) -> float | None:
        first = 1.0 if self.state.order else 1.0 / math.sqrt(-slope)
        limit = self.options.max_line_search
        if self.l1.size:
            return armijo(self._probe_orthant, self.state.value, first, limit)
        return wolfe(self._probe_line, self.state.value, slope, first, limit)

    def _probe_line(self, step: float) -> tuple[float, float]:
        with np.errstate(over="ignore", invalid="ignore"):  # the objective says if this is too far
            np.multiply(self.direction, step, out=self.trial)
            self.trial += self.state.weights
        value = self._evaluate(self.trial)
        return value, dot(self.trial_gradient, self.direction)

    def _probe_orthant(self, step: float) -> tuple[float, float]:
        weights, direction = self.state.weights, self.direction
        penalty, change = move_in_orthant(weights, direction, step, self.steepest, self.l1, self.trial)
        return self._evaluate(self.trial) + penalty, change

    def _accept(self, value: float) -> None:
        """Make the point probed last the current one, and keep the pair if it curves upward."""
        state, memory = self.state, self.options.memory
        full = len(state.order) == memory
        row = state.order.pop(0) if full else min(set(range(memory)) - set(state.order))
        np.subtract(self.trial, state.weights, out=state.s[row])
        np.subtract(self.trial_gradient, state.gradient, out=state.y[row])
        s_y, y_y = dot(state.s[row], state.y[row]), dot(state.y[row], state.y[row])
        if np.finfo(np.float64).tiny < s_y < math.inf and np.finfo(np.float64).eps * y_y < s_y and y_y > 0.0:
            state.s_y[row], state.y_y[row] = s_y, y_y
            state.order.append(row)
        state.weights, self.trial = self.trial, state.weights
        state.gradient[:] = self.trial_gradient
        self._update_steepest()
        state.value = value
        state.values = [*state.values, value][-1 - self.options.period :]
        state.iteration += 1


def _first_state(weights0: npt.ArrayLike, memory: int) -> LBFGSState:
    weights = np.array(weights0, dtype=np.float64, order="C")
    if weights.ndim != 1:
        raise ValueError(f"weights must be a vector, not of shape {weights.shape}")
    s, y = mapped.zeros((2, memory, weights.size))
    state = LBFGSState(0, 0, 0.0, weights, np.zeros(weights.size), s, y, np.zeros(memory), np.zeros(memory), [])
    state.order.clear()
    return state


def _copied(state: LBFGSState, memory: int) -> LBFGSState:
    """A copy of ``state`` with room for ``memory`` pairs, and its newest ones in it."""
    copy = _first_state(state.weights, memory)
    copy.iteration, copy.evaluations, copy.value = state.iteration, state.evaluations, state.value
    copy.gradient[:] = state.gradient
    copy.values.extend(state.values)
    rows = state.order[-memory:]
    copy.order.extend(range(len(rows)))
    for name in PAIRS:
        mapped.taken(getattr(state, name), np.array(rows, dtype=np.int64), out=getattr(copy, name)[: len(rows)])
    return copy


def _penalties(l1: float | Float, size: int) -> Float:
    """Penalties [D], or [0] when nothing is penalised."""
    penalties = np.asarray(l1, dtype=np.float64)
    if penalties.shape not in ((), (size,)):
        raise OptionError(f"l1 must be one number or one for each of {size} weights, not of shape {penalties.shape}")
    if not np.all((penalties >= 0.0) & (penalties < math.inf)):
        raise OptionError("l1 must be numbers from 0 up")
    if not np.any(penalties > 0.0):
        return np.empty(0)
    return np.full(size, penalties) if penalties.ndim == 0 else np.require(penalties, np.float64, ["C", "W"])


# ----------------------------------------------------------------------------------------------------------------------
# Line searches: how far to go along a descent direction, on the one-dimensional function φ(t) = F(w + t d).
#
# :func:`wolfe` keeps a bracket [low, high] in which the weak Wolfe conditions must hold somewhere:
#
# 1. φ(t) not finite, or φ(t) > φ(0) + c1 t φ'(0): too far, high ← t
# 2. φ'(t) < c2 φ'(0): still falling steeply, low ← t
# 3. otherwise t is accepted; else the next t is the minimum of the cubic through both ends (a larger step while there
#    is no high), kept away from the ends.
#
# Close to the minimum φ(t) − φ(0) drowns in rounding. There, a value that is the same up to rounding is accepted if
# the slopes say that φ fell:  c2 φ'(0) <= φ'(t) <= (2 c1 − 1) φ'(0),  the approximate Wolfe conditions (Hager & Zhang
# 2005, A new conjugate gradient method with guaranteed descent and an efficient line search, SIAM J. Optimization 16).
#
# :func:`armijo` only shortens the step, for functions with kinks, where slopes at t say nothing about the bracket.
#
# The last call of ``probe`` is always at the accepted step, so that the caller has everything about that point.


ARMIJO = 1e-4  # c1
CURVATURE = 0.9  # c2
_FLAT = 1e-10  # relative difference of values that may be rounding, so that the slopes decide
_ROUNDING = 1e-14  # the same where there are no slopes
_MARGIN = 0.1  # the next step keeps this share of the bracket away from its ends

Probe = Callable[[float], tuple[float, float]]


class _Point(NamedTuple):
    step: float
    value: float
    slope: float


def wolfe(probe: Probe, value: float, slope: float, first: float, limit: int) -> float | None:
    """Value at a step that satisfies the weak Wolfe conditions.

    Parameters
    ----------
    probe : callable
        Step t to φ(t) and φ'(t).
    value, slope : float
        φ(0) and φ'(0) < 0.
    first : float
        Step tried first.
    limit : int
        Evaluations allowed. If the curvature condition still fails then, a step with enough decrease will do.

    Returns
    -------
    float or None
        φ at the step probed last; None when no step was found.
    """
    low, high = _Point(0.0, value, slope), None
    step = first
    for _ in range(limit):
        here = _Point(step, *probe(step))
        if not _falls(here, value, slope):
            high = here
            step = _inside(low, high)
        elif here.slope < CURVATURE * slope:
            step = _inside(here, high) if high else _beyond(low, here)
            low = here
        else:
            return here.value
        if not low.step < step < (high.step if high else math.inf):
            break  # the bracket has shrunk to neighbouring floats
    if not low.value < value:
        return None
    accepted, _ = probe(low.step)
    return accepted


def armijo(probe: Probe, value: float, first: float, limit: int) -> float | None:
    """Value at a step that lowers F enough: φ(t) <= φ(0) + c1 change(t), change the linear forecast.

    Parameters
    ----------
    probe : callable
        Step t to φ(t) and the change that the (pseudo-)gradient at 0 forecasts for it, which is <= 0.
    value, first, limit
        As for :func:`wolfe`.
    """
    step, slack = first, 0.0
    for evaluation in range(limit):
        reached, change = probe(step)
        if evaluation == 0 and change > -_FLAT * abs(value):  # the whole step promises no more than rounding
            slack = _ROUNDING * abs(value)
        if not math.isfinite(reached):
            step *= _MARGIN
            continue
        if reached <= value + ARMIJO * change + slack:
            return reached
        # minimum of the parabola through φ(0), the forecast slope there and φ(t)
        step *= min(max(-0.5 * change / (reached - value - change), _MARGIN), 0.5)
    return None


def _falls(here: _Point, value: float, slope: float) -> bool:
    if not (math.isfinite(here.value) and math.isfinite(here.slope)):
        return False
    if here.value <= value + ARMIJO * here.step * slope:
        return True
    flat = abs(here.value - value) <= _FLAT * abs(value)
    return flat and CURVATURE * slope <= here.slope <= (2.0 * ARMIJO - 1.0) * slope


def _inside(low: _Point, high: _Point) -> float:
    """Step between the ends: the cubic's minimum, or close to ``low`` when nothing is known about ``high``."""
    width = high.step - low.step
    if not (math.isfinite(high.value) and math.isfinite(high.slope)):
        return low.step + _MARGIN * width
    # with x = (t − low) / width the cubic is  value + a x + b x² + c x³
    a = low.slope * width
    rise = high.value - low.value - a
    bend = high.slope * width - a
    b, c = 3.0 * rise - bend, bend - 2.0 * rise
    root = b * b - 3.0 * a * c
    share = 0.5
    if root >= 0.0 and b + math.sqrt(root) > 0.0:
        share = -a / (b + math.sqrt(root))
    return low.step + min(max(share, _MARGIN), 1.0 - _MARGIN) * width


def _beyond(low: _Point, here: _Point) -> float:
    """Larger step: where the slope, extrapolated from ``low`` and ``here``, would be zero; 2 to 10 times as far."""
    change = here.slope - low.slope
    forecast = here.step - here.slope * (here.step - low.step) / change if change > 0.0 else math.inf
    return min(max(forecast, 2.0 * here.step), 10.0 * here.step)
