"""Laws of L-BFGS and OWL-QN: they find the optimum that others find, exactly zero where L1 says so, and resume."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, rosen, rosen_der
from sklearn.linear_model import Lasso, LogisticRegression

from loglinear import model_file
from loglinear.errors import DataError, ModelFileError, OptionError
from loglinear.optimizers.lbfgs import LBFGS, LBFGSState
from problems.objectives import EXACT, kkt_violation, logistic, quadratic, seeds

# -- optima -------------------------------------------------------------------------------------------------------


@given(seeds, st.integers(1, 25), st.sampled_from([1.0, 10.0, 1e3]))
@settings(deadline=None, max_examples=30)
def test_quadratics_are_solved(seed: int, size: int, condition: float) -> None:
    objective, solution = quadratic(seed, size, condition)
    result = EXACT.minimise(objective, np.zeros(size))
    assert result.converged
    np.testing.assert_allclose(result.weights, solution, atol=1e-7 * max(1.0, np.linalg.norm(solution)))


@given(seeds, st.integers(1, 20), st.sampled_from([1e-2, 1.0]))
@settings(deadline=None, max_examples=20)
def test_logistic_regression_equals_scipy(seed: int, size: int, l2: float) -> None:
    objective, _, _ = logistic(seed, 60, size, l2)
    result = EXACT.minimise(objective, np.zeros(size))
    other = minimize(objective, np.zeros(size), jac=True, method="L-BFGS-B", options={"gtol": 1e-9, "ftol": 0.0})
    assert result.value <= other.fun * (1.0 + 1e-12)
    np.testing.assert_allclose(result.weights, other.x, atol=1e-5 * max(1.0, np.linalg.norm(other.x)))


def test_ill_conditioned_problems_take_no_more_evaluations_than_scipy() -> None:
    objective, _ = quadratic(1, 50, 1e4)
    options = LBFGS(max_iter=20_000, tolerance=0.0, gradient_tolerance=1e-6)
    result = options.minimise(objective, np.zeros(50))
    other = minimize(
        objective, np.zeros(50), jac=True, method="L-BFGS-B", options={"gtol": 1e-6, "ftol": 0.0, "maxiter": 20_000}
    )
    assert result.converged
    assert result.state.evaluations < 1.5 * other.nfev
    assert result.state.evaluations < 1.15 * result.state.iteration


@pytest.mark.parametrize("size", [2, 10])
def test_rosenbrock(size: int) -> None:
    result = EXACT.minimise(lambda w: (float(rosen(w)), rosen_der(w)), np.full(size, -1.2))
    assert result.converged
    np.testing.assert_allclose(result.weights, 1.0, atol=1e-7)


def test_the_default_tolerance_stops_close_to_the_optimum() -> None:
    objective, _, _ = logistic(3, 300, 40, 0.1)
    result, exact = LBFGS().minimise(objective, np.zeros(40)), EXACT.minimise(objective, np.zeros(40))
    assert result.converged
    assert exact.value <= result.value <= exact.value * (1.0 + 1e-4)


# -- L1 -----------------------------------------------------------------------------------------------------------


@given(seeds, st.integers(1, 25), st.floats(0.01, 30.0), st.booleans(), st.booleans())
@settings(deadline=None, max_examples=40)
def test_l1_optima_satisfy_the_kkt_conditions(seed: int, size: int, l1: float, some: bool, start: bool) -> None:
    rng = np.random.default_rng(seed)
    objective, _, _ = logistic(seed, 60, size, 1e-2)
    penalties = l1 * rng.integers(0, 2, size) * rng.uniform(0.5, 2.0, size) if some else l1
    result = EXACT.minimise(objective, rng.normal(size=size) if start else np.zeros(size), l1=penalties)
    scale = max(1.0, float(np.linalg.norm(result.weights)))
    assert kkt_violation(objective, result.weights, penalties) <= 1e-6 * scale
    total = objective(result.weights)[0] + float(np.sum(penalties * np.abs(result.weights)))
    assert result.value == pytest.approx(total, rel=1e-12)


def test_l1_equals_scikit_learn() -> None:
    objective, features, signs = logistic(5, 200, 40, 0.0)
    ours = EXACT.minimise(objective, np.zeros(40), l1=8.0).weights
    other = LogisticRegression(
        C=1 / 8.0, l1_ratio=1.0, solver="liblinear", fit_intercept=False, tol=1e-8, max_iter=10_000
    )
    theirs = other.fit(features, signs).coef_[0]
    np.testing.assert_allclose(ours, theirs, atol=1e-4)
    assert 0 < np.count_nonzero(ours) < 40
    np.testing.assert_array_equal(ours == 0.0, np.abs(theirs) < 1e-6)


def test_lasso_with_an_unpenalised_intercept_equals_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(80, 30))
    target = features[:, :4] @ np.array([3.0, -2.0, 1.0, 0.5]) + 7.0 + 0.1 * rng.normal(size=80)
    design = np.column_stack([features, np.ones(80)])

    def objective(weights: np.ndarray) -> tuple[float, np.ndarray]:
        rest = design @ weights - target
        return float(rest @ rest) / 160.0, design.T @ rest / 80.0

    ours = EXACT.minimise(objective, np.zeros(31), l1=np.r_[np.full(30, 0.1), 0.0]).weights
    theirs = Lasso(alpha=0.1, tol=1e-12).fit(features, target)
    np.testing.assert_allclose(ours, [*theirs.coef_, theirs.intercept_], atol=1e-7)
    np.testing.assert_array_equal(ours[:30] == 0.0, theirs.coef_ == 0.0)


def test_a_large_penalty_makes_every_weight_exactly_zero() -> None:
    objective, _, _ = logistic(2, 50, 10, 0.0)
    largest = float(np.abs(objective(np.zeros(10))[1]).max())
    assert not EXACT.minimise(objective, np.full(10, 0.3), l1=1.01 * largest).weights.any()
    assert EXACT.minimise(objective, np.zeros(10), l1=0.99 * largest).weights.any()


def test_a_penalty_vector_of_zeros_is_no_penalty() -> None:
    objective, _, _ = logistic(2, 50, 10, 0.1)
    plain, zeros = (EXACT.minimise(objective, np.zeros(10), l1=l1) for l1 in (0.0, np.zeros(10)))
    np.testing.assert_array_equal(plain.weights, zeros.weights)


# -- stopping, resuming -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("l1", [0.0, 2.0])
@pytest.mark.parametrize("stop", [1, 2, 7, 25])
def test_resuming_gives_the_same_bits(stop: int, l1: float) -> None:
    objective, _ = quadratic(4, 1500, 1e4) if l1 == 0.0 else logistic(4, 100, 60, 1e-3)[:2]
    size = 1500 if l1 == 0.0 else 60
    options = LBFGS(memory=5, max_iter=40, tolerance=1e-12, gradient_tolerance=0.0)
    saved: list[bytes] = []

    def checkpoint(state: LBFGSState) -> None:
        if state.iteration == stop:
            saved.append(model_file.dumps("checkpoint", {}, state.to_arrays()))

    straight = options.minimise(objective, np.zeros(size), l1=l1, callback=checkpoint)
    assert straight.state.iteration > stop
    state = LBFGSState.from_arrays(model_file.load(saved[0]).arrays)
    for _ in range(2):  # the second time shows that resuming left the state alone
        resumed = options.minimise(objective, np.zeros(size), l1=l1, state=state)
        assert resumed.message == straight.message
        left, right = straight.state.to_arrays(), resumed.state.to_arrays()
        assert all(np.array_equal(left[name], right[name]) for name in left)


def test_a_resumed_run_may_remember_fewer_or_more_pairs() -> None:
    objective, solution = quadratic(4, 30, 1e2)
    state = LBFGS(memory=6, max_iter=10, tolerance=0.0).minimise(objective, np.zeros(30)).state
    for memory in (1, 3, 6, 12):
        result = LBFGS(memory=memory, tolerance=0.0, gradient_tolerance=1e-9).minimise(objective, [], state=state)
        np.testing.assert_allclose(result.weights, solution, atol=1e-7)


@pytest.mark.parametrize("name", ["weights", "s", "y", "s_y", "counts", "values"])
def test_checkpoints_that_do_not_fit_are_errors(name: str) -> None:
    objective, _ = quadratic(4, 8, 1e2)
    arrays = LBFGS(max_iter=4).minimise(objective, np.zeros(8)).state.to_arrays()
    LBFGSState.from_arrays(arrays)
    for broken in (arrays[name][:0], arrays[name][..., None], -1.0 - np.abs(arrays[name])):
        if name in ("weights", "s", "y", "values") and broken.shape == arrays[name].shape:
            continue  # any numbers are possible there
        with pytest.raises(ModelFileError):
            LBFGSState.from_arrays({**arrays, name: broken})
    with pytest.raises(ModelFileError):
        LBFGSState.from_arrays({key: array for key, array in arrays.items() if key != name})


def test_the_callback_sees_each_iteration_and_stops() -> None:
    objective, _ = quadratic(4, 30, 1e3)
    seen: list[tuple[int, float]] = []

    def callback(state: LBFGSState) -> bool:
        total = objective(state.weights)[0] + 0.1 * float(np.abs(state.weights).sum())
        assert state.value == pytest.approx(total, rel=1e-12)
        seen.append((state.iteration, state.value))
        return state.iteration == 6

    result = EXACT.minimise(objective, np.ones(30), l1=0.1, callback=callback)
    assert [iteration for iteration, _ in seen] == [1, 2, 3, 4, 5, 6]
    assert all(later < earlier for (_, earlier), (_, later) in pairwise(seen))
    assert not result.converged and "callback" in result.message and result.state.iteration == 6


def test_every_way_to_stop_says_so() -> None:
    objective, solution = quadratic(4, 30, 1e3)
    result = LBFGS(max_iter=3).minimise(objective, np.zeros(30))
    assert (result.converged, result.message) == (False, "stopped after 3 iterations (max_iter 3)")
    assert LBFGS(max_iter=0).minimise(objective, solution + 1.0).state.evaluations == 1
    result = LBFGS(tolerance=1e-3, period=4, gradient_tolerance=0.0).minimise(objective, np.zeros(30))
    assert result.message == "converged: the objective fell by less than 0.001 of itself over 4 iterations"
    assert result.state.values[-5] - result.value < 1e-3 * abs(result.value)
    result = LBFGS(tolerance=0.0).minimise(objective, np.zeros(30))
    assert result.converged and "gradient" in result.message
    for l1 in (0.0, 0.1):  # tolerances that rounding keeps out of reach
        endless = LBFGS(max_iter=10**6, tolerance=0.0, gradient_tolerance=0.0).minimise(objective, np.zeros(30), l1=l1)
        assert endless.state.iteration < 10**4 and kkt_violation(objective, endless.weights, l1) < 1e-6
        assert endless.converged or "no step lowers" in endless.message
        backward = LBFGS().minimise(lambda w: (float(w @ w), -2.0 * w), np.ones(4), l1=l1)
        assert not backward.converged and "gradient is wrong" in backward.message
        np.testing.assert_array_equal(backward.weights, 1.0)


@pytest.mark.parametrize("l1", [0.0, 0.5])
def test_starting_at_the_optimum_takes_one_evaluation(l1: float) -> None:
    objective, _ = quadratic(4, 30, 1e2)
    best = EXACT.minimise(objective, np.zeros(30), l1=l1).weights
    again = LBFGS().minimise(objective, best, l1=l1)
    assert again.converged and (again.state.iteration, again.state.evaluations) == (0, 1)
    np.testing.assert_array_equal(again.weights, best)


@pytest.mark.parametrize("l1", [0.0, 1.0])
def test_no_weights_at_all(l1: float) -> None:
    result = LBFGS().minimise(lambda w: (3.0, w), np.zeros(0), l1=l1)
    assert result.converged and result.value == 3.0 and result.weights.shape == (0,)
    state = LBFGSState.from_arrays(result.state.to_arrays())
    assert LBFGS().minimise(lambda w: (3.0, w), [], state=state, l1=l1).converged


@pytest.mark.parametrize("l1", [0.0, 0.1])
@pytest.mark.parametrize("beyond", [np.inf, np.nan, -np.inf])
def test_values_that_are_not_finite_shorten_the_step(beyond: float, l1: float) -> None:
    def objective(weights: np.ndarray) -> tuple[float, np.ndarray]:
        if weights.max() >= 1e-3:  # a first step of length 1 ends far outside
            return beyond, np.full_like(weights, np.nan)
        room = 1e-3 - weights
        return float(-np.log(room).sum() - 2e3 * weights.sum()), 1.0 / room - 2e3

    result = EXACT.minimise(objective, np.full(3, -1.0), l1=l1)
    best = 1e-3 - 1.0 / (2e3 - l1)
    np.testing.assert_allclose(result.weights, best, rtol=1e-5)


def test_a_gradient_that_is_not_finite_shortens_the_step() -> None:
    def objective(weights: np.ndarray) -> tuple[float, np.ndarray]:
        return float(weights @ weights), 2.0 * weights if abs(weights[0]) < 5.0 else np.full(1, np.nan)

    assert EXACT.minimise(objective, np.array([4.9])).weights[0] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_start_that_is_not_finite_is_an_error(value: float) -> None:
    with pytest.raises(DataError, match="starting weights"):
        LBFGS().minimise(lambda w: (value, w), np.ones(2))
    with pytest.raises(DataError, match="starting weights"):
        LBFGS().minimise(lambda w: (1.0, value * w), np.ones(2), l1=1.0)


def test_an_unbounded_objective_ends() -> None:
    result = LBFGS(max_iter=5).minimise(lambda w: (float(-w.sum()), -np.ones(2)), np.zeros(2))
    assert result.state.evaluations < 100 and -np.inf < result.value < -1.0


def test_arguments_are_left_alone_and_of_any_layout() -> None:
    objective, solution = quadratic(4, 10, 1e2)
    start = np.zeros(20, dtype=np.float32)[::2]
    start.flags.writeable = False
    penalties = np.zeros(10)
    penalties[3] = 1e3
    penalties.flags.writeable = False

    def other_layout(weights: np.ndarray) -> tuple[Any, np.ndarray]:
        value, gradient = objective(weights)
        spread = np.zeros(20)
        spread[::2] = gradient
        return np.float64(value), spread[::2]

    result = EXACT.minimise(other_layout, start, l1=penalties)
    assert result.weights[3] == 0.0 and not start.any()
    np.testing.assert_allclose(EXACT.minimise(other_layout, start).weights, solution, atol=1e-7)


@pytest.mark.parametrize(
    "options",
    [
        {"memory": 0},
        {"max_iter": -1},
        {"period": 0},
        {"max_line_search": 0},
        {"tolerance": -1.0},
        {"tolerance": float("nan")},
        {"gradient_tolerance": float("inf")},
    ],
)
def test_options_that_make_no_sense_are_errors(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(options))):
        LBFGS(**options)


@pytest.mark.parametrize("l1", [-1.0, np.nan, np.inf, np.ones(3), np.ones((2, 1)), np.array([1.0, -1.0])])
def test_penalties_that_make_no_sense_are_errors(l1: Any) -> None:
    with pytest.raises(OptionError, match="l1"):
        LBFGS().minimise(lambda w: (float(w @ w), 2.0 * w), np.ones(2), l1=l1)


def test_shapes_that_do_not_fit_are_errors() -> None:
    with pytest.raises(ValueError, match="shape"):
        LBFGS().minimise(lambda w: (1.0, np.ones(3)), np.ones(2))
    with pytest.raises(ValueError, match="vector"):
        LBFGS().minimise(lambda w: (1.0, w), np.ones((2, 2)))


# -- the kernels as plain Python, and without Numba ---------------------------------------------------------------

SMALL_RUN = """
import sys, numpy as np
from loglinear.optimizers.lbfgs import LBFGS
assert "numba" not in sys.modules
a = np.array([1.0, 10.0, 100.0])
objective = lambda w: (float(0.5 * (a * w * w).sum() - w.sum()), a * w - 1.0)
for l1 in (0.0, 0.5):
    print(LBFGS().minimise(objective, np.zeros(3), l1=l1).weights.tobytes().hex())
"""


def test_the_options_need_no_numba_and_plain_python_gives_the_same_bits() -> None:
    outputs = [
        subprocess.run(
            [sys.executable, "-c", SMALL_RUN], env=os.environ | extra, capture_output=True, text=True, check=True
        ).stdout
        for extra in ({"NUMBA_DISABLE_JIT": "0"}, {"NUMBA_DISABLE_JIT": "1"})
    ]
    assert outputs[0] == outputs[1] != ""
