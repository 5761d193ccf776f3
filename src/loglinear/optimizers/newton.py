"""Newton's method with a line search, for smooth convex objectives of few weights with a Hessian.

    w  <-  w - t H^-1 g,        t = 1, 1/2, 1/4, ... until the objective falls by a share of what the slope promises

Each iteration solves a system of D equations: O(D^3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from loglinear.arrays import Float
from loglinear.errors import OptionError
from loglinear.optimizers.optimizer import Callback, Optimizer, Result, StoredState, register
from loglinear.wording import how_many

MOST_WEIGHTS = 5000
ENOUGH = 1e-4  # share of the promised fall that a step must bring
SMALLEST_STEP = 1e-10


@dataclass
class NewtonState(StoredState):
    """Weights, and how many iterations and evaluations it took to find them."""

    arrays = ("weights",)

    iteration: int
    evaluations: int
    value: float
    weights: Float


@register
@dataclass(frozen=True)
class Newton(Optimizer):
    """Newton's method."""

    name = "newton"
    summary = "Newton's method, for models of few features"
    takes_l1 = False
    default_iterations = 100
    iteration_is = "iteration"
    exact = True
    state_class = NewtonState

    max_iter: int = 100
    tolerance: float = 1e-5
    seed: int = 0

    def minimise(
        self, objective: Any, weights0: Float, *, l1: float = 0.0, callback: Callback = None, state: Any = None
    ) -> Result:
        if len(weights0) > MOST_WEIGHTS:
            raise OptionError(
                f"optimizer='newton' is for at most {MOST_WEIGHTS:,} features, and there are {len(weights0):,}; "
                "use lbfgs"
            )
        now: NewtonState = state or NewtonState(0, 1, objective(weights0)[0], np.array(weights0))
        while True:
            value, gradient = objective(now.weights)
            direction = _solved(objective.hessian(now.weights), gradient)
            promised = float(gradient @ direction)
            if promised <= self.tolerance * 1e-5 * max(1.0, abs(value)):
                return Result(now, True, "converged: a Newton step would hardly lower the objective")
            if now.iteration >= self.max_iter:
                return Result(
                    now, False, f"stopped after {how_many(now.iteration, 'iteration')} (max_iter {self.max_iter})"
                )
            step = 1.0
            while not (lower := objective(now.weights - step * direction)[0]) <= value - ENOUGH * step * promised:
                now.evaluations += 1
                step /= 2.0
                if step < SMALLEST_STEP:
                    return Result(now, False, "stopped: no step lowers the objective any more")
            now.weights = now.weights - step * direction
            now.iteration, now.evaluations, now.value = now.iteration + 1, now.evaluations + 1, lower
            if callback is not None and callback(now):
                return Result(now, False, f"stopped after {how_many(now.iteration, 'iteration')} (by the callback)")


def _solved(hessian: Float, gradient: Float) -> Float:
    """H^-1 g, with a little added to the diagonal if H is not positive definite."""
    ridge, scale = 0.0, float(np.abs(np.diagonal(hessian)).max(initial=1.0))
    while True:
        try:
            return cho_solve(cho_factor(hessian + ridge * np.eye(len(hessian))), gradient)
        except LinAlgError:
            ridge = max(10.0 * ridge, 1e-10 * scale)
