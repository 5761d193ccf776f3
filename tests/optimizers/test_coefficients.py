"""Coefficients of kernels: objectives, and where optimizers of linear models lead them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from loglinear.features.gram import Factor, make_kernel, training_gram
from loglinear.generative.m_estimation import MEstimationObjective
from loglinear.optimizers.coefficients import CoefficientObjective, Coefficients, CoefficientState
from loglinear.optimizers.dual.flat import FlatDual
from loglinear.optimizers.optimizer import make_optimizer
from problems.flat import SMOOTH, flat_objective


def kernel_problem(seed, criterion, l2=0.3, bias="free", n=24, n_labels=3, spec="rbf:gamma=0.4"):
    """Gram matrix, labels and objective of a random problem."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, 2))
    labels = (np.abs(rows).sum(axis=1) * 1.3 + 0.3 * rng.normal(size=n)).astype(np.int32).clip(0, n_labels - 1)
    matrix = training_gram(make_kernel(spec), rows)
    factor = Factor.of(matrix.copy())
    linear = flat_objective(factor.rows, labels, n_labels, criterion, l2, bias)
    return matrix, labels, CoefficientObjective(linear, factor, n_labels)


def written_out(matrix, labels, weights, criterion, l2, bias, n_labels=3):
    """The objective by its definition: losses, and a'Ka."""
    table = weights.reshape(-1, n_labels)
    a, b = table[: len(matrix)], table[len(matrix) :]
    scores = matrix @ a + (b if bias != "none" else 0.0)
    gold = scores[np.arange(len(labels)), labels]
    cost = 0.0 if criterion == "cll" else 1.0 - np.eye(n_labels)[labels]
    losses = (scores + cost).max(axis=1) if criterion == "max-margin" else np.log(np.exp(scores + cost).sum(axis=1))
    return (losses - gold).sum() + l2 * np.sum(a * (matrix @ a)) + (l2 * np.sum(b**2) if bias == "penalised" else 0.0)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 1000),
    criterion=st.sampled_from(["cll", "softmax-margin", "max-margin"]),
    bias=st.sampled_from(["free", "penalised", "none"]),
)
def test_the_objective_is_what_it_says(seed, criterion, bias):
    matrix, labels, objective = kernel_problem(seed, criterion, bias=bias)
    weights = np.random.default_rng(seed).normal(size=(len(matrix) + (bias != "none")) * 3)
    referee = written_out(matrix, labels, weights, criterion, 0.3, bias)
    assert objective.value(weights) == pytest.approx(referee, rel=1e-8)
    assert objective(weights)[0] == pytest.approx(referee, rel=1e-8)


def check_gradient(objective, weights):
    gradient = objective(weights)[1].copy()
    for i in np.random.default_rng(0).choice(len(weights), 12, replace=False):
        step = np.zeros_like(weights)
        step[i] = 1e-5
        slope = (objective(weights + step)[0] - objective(weights - step)[0]) / 2e-5
        assert gradient[i] == pytest.approx(slope, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("criterion", SMOOTH)
def test_gradients_are_those_of_finite_differences(criterion):
    objective = kernel_problem(0, criterion)[2]
    check_gradient(objective, 0.3 * np.random.default_rng(1).normal(size=25 * 3))


def test_the_gradient_of_m_estimation_is_that_of_finite_differences():
    rng = np.random.default_rng(0)
    factor = Factor.of(training_gram(make_kernel("rbf:gamma=0.5"), rng.normal(size=(15, 2))))
    n = factor.rows.shape[1]
    counts = np.zeros((15, n, 2))
    counts[np.arange(15), :, np.arange(15) % 2] = factor.rows
    linear = MEstimationObjective(csr_matrix(counts.reshape(15, -1)), rng.random(2 * n), 0.1)
    check_gradient(CoefficientObjective(linear, factor, 2), 0.2 * rng.normal(size=30))


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1000),
    criterion=st.sampled_from(["cll", "softmax-margin", "max-margin"]),
    bias=st.sampled_from(["free", "penalised", "none"]),
    l2=st.sampled_from([0.01, 0.1, 1.0]),
)
def test_the_gap_is_never_negative_and_falls_below_the_tolerance(seed, criterion, bias, l2):
    """The certified value less the gap is below the objective of any coefficients."""
    matrix, labels, objective = kernel_problem(seed, criterion, l2, bias)
    if len(np.unique(labels)) < 2:
        return
    optimizer = Coefficients(make_optimizer("dual", max_iter=100_000, tolerance=1e-5, seed=0))
    start = np.zeros((len(matrix) + (bias != "none")) * 3)
    result = optimizer.minimise(objective, start)
    assert result.converged, result.message
    value = written_out(matrix, labels, result.weights, criterion, l2, bias)
    inner = result.state.inner
    if hasattr(inner, "gap"):  # else L-BFGS has taken over
        assert -1e-9 <= inner.gap <= 1e-5 * inner.problem.size(inner.value) * (1 + 1e-9)
        lowest = inner.value - inner.gap
        assert lowest - 1e-8 <= value <= lowest + 1e-5 * inner.problem.size(inner.value) * (1 + 1e-6)
        for scale in (0.0, 0.5, 1.1):
            other = written_out(matrix, labels, scale * result.weights, criterion, l2, bias)
            assert other >= lowest - 1e-8
    assert value == pytest.approx(result.value, rel=1e-4)


@pytest.mark.parametrize("bias", ["free", "penalised", "none"])
def test_dual_ascent_and_lbfgs_end_at_the_same_function(bias):
    matrix, _, objective = kernel_problem(3, "cll", 0.05, bias, n=40)
    start = np.zeros((40 + (bias != "none")) * 3)
    found = [
        Coefficients(make_optimizer(name, max_iter=3000, tolerance=1e-9, seed=0)).minimise(objective, start)
        for name in ("dual", "lbfgs")
    ]
    one, other = (matrix @ each.weights.reshape(-1, 3)[:40] for each in found)
    np.testing.assert_allclose(one, other, atol=2e-3)
    assert objective.value(found[0].weights) == pytest.approx(objective.value(found[1].weights), rel=1e-7)


@pytest.mark.parametrize("seed", range(3))
def test_revisits_lead_to_the_same_minimum_in_fewer_passes(seed):
    objective = kernel_problem(seed, "max-margin", 0.01, n=60)[2].linear
    start = np.zeros(objective.features.n_features)
    slow, quick = (FlatDual(max_iter=20_000, tolerance=1e-6, revisits=n).minimise(objective, start) for n in (0, 50))
    assert slow.converged and quick.converged
    assert quick.value == pytest.approx(slow.value, rel=2e-6)
    assert quick.state.iteration < slow.state.iteration


def test_few_rows_support_a_margin_with_a_free_bias():
    matrix, labels, objective = kernel_problem(5, "max-margin", 0.02, n=80)
    optimizer = Coefficients(make_optimizer("dual", max_iter=5000, tolerance=1e-5, seed=0))
    found = optimizer.minimise(objective, np.zeros(81 * 3)).weights.reshape(-1, 3)
    scores = matrix @ found[:80] + found[80]
    margins = scores[np.arange(80), labels] - np.where(np.eye(3, dtype=bool)[labels], -np.inf, scores).max(axis=1)
    assert not found[:80][margins > 1.05].any()  # right by more than the margin
    assert found[:80][margins < 0.95].any(axis=1).all()


def test_states_are_kept_as_those_of_the_inner_optimizer():
    objective = kernel_problem(0, "cll")[2]
    optimizer = Coefficients(make_optimizer("dual", max_iter=3, tolerance=0.0, seed=0))
    seen = []
    result = optimizer.minimise(objective, np.zeros(25 * 3), callback=lambda now: seen.append(now.weights.copy()))
    assert isinstance(result.state, CoefficientState) and len(seen) == result.state.iteration
    again = optimizer.minimise(objective, np.zeros(25 * 3), state=optimizer.restore(result.state.to_arrays()))
    np.testing.assert_array_equal(again.weights, result.weights)
