"""Line searches: how far to go along a descent direction, on the one-dimensional function φ(t) = F(w + t d).

:func:`wolfe` keeps a bracket [low, high] in which the weak Wolfe conditions must hold somewhere:

1. φ(t) not finite, or φ(t) > φ(0) + c1 t φ'(0): too far, high ← t
2. φ'(t) < c2 φ'(0): still falling steeply, low ← t
3. otherwise t is accepted; else the next t is the minimum of the cubic through both ends (a larger step while there
   is no high), kept away from the ends.

Close to the minimum φ(t) − φ(0) drowns in rounding. There, a value that is the same up to rounding is accepted if
the slopes say that φ fell:  c2 φ'(0) <= φ'(t) <= (2 c1 − 1) φ'(0),  the approximate Wolfe conditions (Hager & Zhang
2005, A new conjugate gradient method with guaranteed descent and an efficient line search, SIAM J. Optimization 16).

:func:`armijo` only shortens the step, for functions with kinks, where slopes at t say nothing about the bracket.

Both call ``probe`` last at the step they accept, so the caller has everything about that point at hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

ARMIJO = 1e-4  # c1
CURVATURE = 0.9  # c2
_FLAT = 1e-10  # relative difference of values that may be rounding, where the slopes speak instead
_ROUNDING = 1e-14  # the same where nothing else speaks
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
    """Larger step: where the slope would be zero if it went on changing as from ``low`` to ``here``, 2 to 10 times."""
    change = here.slope - low.slope
    forecast = here.step - here.slope * (here.step - low.step) / change if change > 0.0 else math.inf
    return min(max(forecast, 2.0 * here.step), 10.0 * here.step)
