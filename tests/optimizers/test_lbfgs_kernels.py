"""The kernels of L-BFGS and OWL-QN, and the searches along a line."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from loglinear.optimizers import lbfgs_run
from loglinear.optimizers.lbfgs_run import add_then_dot, dot, move_in_orthant, pseudo_gradient, two_loop
from problems.objectives import seeds

# -- kernels ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1025, 5000])
def test_inner_products_are_right_for_every_number_of_blocks(size: int) -> None:
    a, b, q = np.random.default_rng(size).normal(size=(3, size))
    assert dot(a, b) == pytest.approx(float(np.sum(a * b)), rel=1e-12, abs=1e-12)
    moved = 0.5 * (q + 3.0 * a)
    product = add_then_dot(q, 3.0, a, 0.5, b)
    np.testing.assert_array_equal(q, moved)
    assert product == pytest.approx(float(np.sum(moved * b)), rel=1e-12, abs=1e-12)


@given(seeds, st.integers(1, 6), st.integers(1, 2500))
@settings(deadline=None, max_examples=30)
def test_two_loop_multiplies_by_the_bfgs_matrix(seed: int, m: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    s, gradient = rng.normal(size=(m + 1, size)), rng.normal(size=size)
    y = s * rng.uniform(0.5, 2.0, size=size)  # the differences of a quadratic's gradient
    order = rng.permutation(m + 1)[:m]
    s_y, y_y = np.sum(s * y, axis=1), np.sum(y * y, axis=1)
    gamma = s_y[order[-1]] / y_y[order[-1]]

    def inverse_hessian(vector: np.ndarray, rows: np.ndarray) -> np.ndarray:  # the BFGS update written out
        if len(rows) == 0:
            return gamma * vector
        row = rows[-1]
        inner = vector - y[row] * (s[row] @ vector) / s_y[row]
        inner = inverse_hessian(inner, rows[:-1])
        return inner - s[row] * (y[row] @ inner) / s_y[row] + s[row] * (s[row] @ vector) / s_y[row]

    direction = np.empty(size)
    slope = two_loop(s, y, s_y, order.astype(np.int64), float(gamma), gradient, direction)
    expected = -inverse_hessian(gradient, order)
    np.testing.assert_allclose(direction, expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max())
    assert slope == pytest.approx(float(gradient @ expected), rel=1e-8)
    assert slope < 0.0


@given(seeds, st.integers(1, 1500))
@settings(deadline=None, max_examples=30)
def test_pseudo_gradient_is_the_steepest_one_sided_derivative(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=size) * rng.integers(0, 2, size)
    gradient, l1, out = rng.normal(size=size), rng.exponential(size=size) * rng.integers(0, 2, size), np.empty(size)
    pseudo_gradient(weights, gradient, l1, out)
    right = gradient + l1 * np.where(weights >= 0.0, 1.0, -1.0)
    left = gradient + l1 * np.where(weights > 0.0, 1.0, -1.0)
    np.testing.assert_array_equal(out, np.where(right < 0.0, right, np.where(left > 0.0, left, 0.0)))


@given(seeds, st.integers(1, 1500), st.floats(1e-3, 10.0))
@settings(deadline=None, max_examples=30)
def test_moves_never_leave_the_orthant(seed: int, size: int, step: float) -> None:
    rng = np.random.default_rng(seed)
    weights, pseudo, direction = rng.normal(size=(3, size))
    weights *= rng.integers(0, 2, size)
    pseudo *= rng.integers(0, 2, size)
    l1, trial = rng.exponential(size=size) * rng.integers(0, 2, size), np.empty(size)
    penalty, change = move_in_orthant(weights, direction, step, pseudo, l1, trial)
    orthant = np.where(weights != 0.0, np.sign(weights), np.sign(-pseudo))
    moved = weights + step * direction
    stays = (l1 == 0.0) | (np.sign(moved) == orthant)
    np.testing.assert_allclose(trial, np.where(stays, moved, 0.0), rtol=1e-15)
    assert penalty == pytest.approx(float(np.sum(l1 * np.abs(trial))), rel=1e-12)
    assert change == pytest.approx(float(np.sum(pseudo * (trial - weights))), rel=1e-9, abs=1e-12)


def test_orthants_are_kept_where_products_underflow() -> None:
    tiny, trial = np.full(1, 1e-200), np.empty(1)
    move_in_orthant(tiny, tiny, 1.0, tiny, np.ones(1), trial)
    assert trial[0] == 2e-200


# -- line searches ------------------------------------------------------------------------------------------------


@given(st.floats(0.1, 50.0), st.floats(0.01, 100.0), st.floats(0.0, 3.0))
@example(1.1, 1.9, 1.099609375)  # a fall that is real, but too small to count as enough
@settings(deadline=None)
def test_wolfe_steps_satisfy_both_conditions(minimum: float, first: float, wiggle: float) -> None:
    def phi(t: float) -> tuple[float, float]:
        x = t - minimum
        return x * x + wiggle * np.sin(3.0 * x), 2.0 * x + 3.0 * wiggle * np.cos(3.0 * x)

    value, slope = phi(0.0)
    if slope >= -1e-3:
        return
    steps = []

    def probe(t: float) -> tuple[float, float]:
        steps.append(t)
        return phi(t)

    reached = lbfgs_run.wolfe(probe, value, slope, first, 40)
    assert reached is not None and reached == phi(steps[-1])[0]
    assert reached <= value + lbfgs_run.ARMIJO * steps[-1] * slope + 1e-9 * abs(value)
    assert phi(steps[-1])[1] >= lbfgs_run.CURVATURE * slope


def test_line_searches_give_up_on_a_wrong_gradient() -> None:
    assert lbfgs_run.wolfe(lambda t: (1.0 + t, -1.0), 1.0, -1.0, 1.0, 20) is None
    assert lbfgs_run.armijo(lambda t: (1.0 + t, -t), 1.0, 1.0, 20) is None


def test_a_line_without_end_is_followed_only_so_far() -> None:
    reached = lbfgs_run.wolfe(lambda t: (-t, -1.0), 0.0, -1.0, 1.0, 5)
    assert reached is not None and -1e6 < reached < -1.0
