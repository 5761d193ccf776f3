"""Objectives whose optimum is known, and how far from one weights are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st
from scipy.optimize import minimize

from loglinear.optimizers.lbfgs import LBFGS

EXACT = LBFGS(max_iter=20_000, tolerance=0.0, gradient_tolerance=1e-9)
Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]
seeds = st.integers(0, 2**32 - 1)


def quadratic(seed: int, size: int, condition: float) -> tuple[Objective, np.ndarray]:
    """½ wᵀAw − bᵀw with the condition number of A given, and its minimum; the gradient's memory is reused."""
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.normal(size=(size, size)))
    matrix = (basis * np.logspace(0, np.log10(condition), size)) @ basis.T
    target = rng.normal(size=size)
    gradient = np.empty(size)

    def objective(weights: np.ndarray) -> tuple[float, np.ndarray]:
        np.subtract(matrix @ weights, target, out=gradient)
        return float(0.5 * weights @ matrix @ weights - target @ weights), gradient

    return objective, np.linalg.solve(matrix, target)


def logistic(seed: int, rows: int, size: int, l2: float) -> tuple[Objective, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(rows, size))
    signs = np.where(features @ rng.normal(size=size) + rng.normal(size=rows) > 0, 1.0, -1.0)

    def objective(weights: np.ndarray) -> tuple[float, np.ndarray]:
        margins = signs * (features @ weights)
        slopes = -signs * np.exp(-np.logaddexp(0.0, margins))
        value = np.logaddexp(0.0, -margins).sum() + l2 * weights @ weights
        return float(value), features.T @ slopes + 2.0 * l2 * weights

    return objective, features, signs


def kkt_violation(objective: Objective, weights: np.ndarray, l1: float | np.ndarray) -> float:
    """Largest violation of: gradient_i = −l1_i sign(w_i) where w_i ≠ 0, |gradient_i| <= l1_i where w_i = 0."""
    gradient = objective(weights)[1]
    away = np.abs(gradient + l1 * np.sign(weights))
    at_zero = np.maximum(np.abs(gradient) - l1, 0.0)
    return float(np.max(np.where(weights != 0.0, away, at_zero), initial=0.0))


def least_hinge(
    of: list[int], differences: np.ndarray, offsets: np.ndarray, weights: np.ndarray, l2: float
) -> tuple[float, np.ndarray] | None:
    """The minimum of a quadratic programme, and the w there; None if the solver fails.

    min l2 ||w||^2 + sum_i c_i x_i  with  x_i >= o + w . d  for every labelling, of example ``of[k]``.
    """
    n, d = len(weights), differences.shape[1]
    rows = np.hstack([-differences, np.eye(n)[of]])
    start = np.concatenate([np.zeros(d), [max(offsets[np.array(of) == i]) for i in range(n)]])
    solved = minimize(
        lambda x: l2 * x[:d] @ x[:d] + weights @ x[d:], start, method="SLSQP",
        jac=lambda x: np.concatenate([2.0 * l2 * x[:d], weights]),
        constraints={"type": "ineq", "fun": lambda x: rows @ x - offsets, "jac": lambda x: rows},
        options={"maxiter": 500, "ftol": 1e-10},
    )  # fmt: skip
    return (float(solved.fun), solved.x[:d]) if solved.success else None
