"""Passes in single precision: the same values and gradients as in double, for any number of threads."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear import Tagger, read_columns
from loglinear.data.corpora.bundled import bundled_text
from loglinear.optimizers.lbfgs import LBFGS
from loglinear.optimizers.objective import IN_SINGLE_PRECISION, Objective
from problems.chain import chain_objectives

pytestmark = pytest.mark.usefixtures("both_forms")


@pytest.fixture(scope="module")
def chunking():
    return read_columns(io.BytesIO(bundled_text("train", "chunk").encode()))


def quick(objective, n_threads=1):
    """The same objective, in single precision."""
    return Objective(
        objective.features, objective.corpus, objective.gold, objective.criterion, objective.penalties, objective.l2,
        objective.sequence_weights, n_threads, single_precision=True,
    )  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(
    objective=chain_objectives(criteria=IN_SINGLE_PRECISION),
    seed=st.integers(0, 1000),
    scale=st.sampled_from([0.1, 1.0, 5.0]),
)
def test_value_and_gradient_are_those_of_double_precision(objective, seed, scale):
    weights = scale * np.random.default_rng(seed).normal(size=objective.features.n_features)
    value, gradient = objective(weights)
    found, found_gradient = quick(objective)(weights)
    size = max(scale, 1.0) * objective.sequence_weights.max()
    assert found == pytest.approx(value, rel=1e-5, abs=1e-4 * size)
    np.testing.assert_allclose(found_gradient, gradient, rtol=1e-4, atol=1e-4 * size)
    assert quick(objective).value(weights) == pytest.approx(found, rel=1e-9)
    assert objective.value(weights) == value


# Kernels of risk are compiled ahead for up to 48 labels; of wider rows, for which they take long, one has two blocks.
WIDTHS = [8, 16, 24, 32, 40, 48, 72, *(pytest.param(width, marks=pytest.mark.slow) for width in (56, 64, 130))]


@pytest.mark.parametrize("width", WIDTHS)
@settings(max_examples=10, deadline=None)
@given(data=st.data(), seed=st.integers(0, 1000))
def test_rows_of_every_width(width, data, seed):
    objective = data.draw(chain_objectives(labels=st.integers(max(1, width - 7), width), criteria=IN_SINGLE_PRECISION))
    weights = np.random.default_rng(seed).normal(size=objective.features.n_features)
    value, gradient = objective(weights)
    found, found_gradient = quick(objective)(weights)
    size = max(objective.sequence_weights.max(), 1.0)
    assert found == pytest.approx(value, rel=1e-5, abs=1e-4 * size)
    np.testing.assert_allclose(found_gradient, gradient, rtol=1e-4, atol=1e-4 * size)


@settings(max_examples=40, deadline=None)
@given(objective=chain_objectives(criteria=IN_SINGLE_PRECISION), seed=st.integers(0, 1000))
def test_scores_far_apart_are_left_to_double_precision(objective, seed):
    weights = 300.0 * np.random.default_rng(seed).normal(size=objective.features.n_features)
    value, gradient = objective(weights)
    found, found_gradient = quick(objective)(weights)
    assert found == pytest.approx(value, rel=1e-5, abs=1e-6)
    assert quick(objective).value(weights) == pytest.approx(value, rel=1e-5, abs=1e-6)
    np.testing.assert_allclose(found_gradient, gradient, rtol=1e-4, atol=1e-2)


@settings(max_examples=30, deadline=None)
@given(objective=chain_objectives(), seed=st.integers(0, 1000))
def test_the_layout_keeps_every_weight(objective, seed):
    weights = np.random.default_rng(seed).normal(size=objective.features.n_features).astype(np.float32)
    layout = objective.layout
    assert np.array_equal(layout.vector(*layout.lay_out(weights.astype(np.float64))), weights)


@settings(max_examples=25, deadline=None)
@given(objective=chain_objectives(), l1=st.sampled_from([0.0, 0.3]))
def test_lbfgs_converges_to_the_same_value(objective, l1):
    zero = np.zeros(objective.features.n_features)
    exact = LBFGS(max_iter=500, tolerance=1e-10).minimise(objective, zero, l1=l1)
    found = LBFGS(max_iter=500, tolerance=1e-10).minimise(quick(objective), zero, l1=l1)
    value = objective(found.weights)[0] + l1 * np.abs(found.weights).sum()
    assert value == pytest.approx(exact.value, rel=1e-6, abs=1e-5)


def test_a_training_is_the_same_for_any_number_of_threads(chunking):
    for options in ({"optimizer": "lbfgs"}, {"optimizer": "dual"}, {"optimizer": "lbfgs", "l1": 0.5, "l2": 0.0}):
        trained = [
            Tagger(template="chunking", max_iter=6, tolerance=0.0, threads=threads, **options).fit(chunking)
            for threads in (1, 2, 3)
        ]
        for other in trained[1:]:
            assert np.array_equal(trained[0].model_.weights, other.model_.weights)
            assert trained[0].objective_ == other.objective_


def test_an_objective_is_sharpened_once(chunking):
    problem = Tagger(template="chunking").problem(chunking)
    objective = problem.objective(problem.criterion("cll", None), 1.0, 1, single_precision=True)
    weights = np.random.default_rng(0).normal(size=objective.features.n_features)
    rough, _ = objective(weights)
    assert objective.use_double_precision() and not objective.use_double_precision()
    exact, _ = objective(weights)
    assert rough != exact and rough == pytest.approx(exact, rel=1e-6)
    assert exact == problem.objective(problem.criterion("cll", None), 1.0, 1)(weights)[0]
    assert not problem.objective(problem.criterion("memm", None), 1.0, 1, single_precision=True).use_double_precision()
    assert not problem.objective(problem.criterion("cll", None), 1.0, 1).use_double_precision()


@pytest.mark.parametrize("length", [230, 2000])
def test_long_sequences_without_evidence_neither_overflow_nor_underflow(length):
    """With weights of zero the sum over labellings is Y to the power of the length, more than a number holds."""
    labels = [f"L{k}" for k in range(24)]
    X, y = [[["w"]] * length], [[labels[k % 24] for k in range(length)]]
    problem = Tagger(template="words").problem(X, y)
    objective = problem.objective(problem.criterion("cll"), 1.0, 1, single_precision=True)
    value, _ = objective(np.zeros(problem.model.features.n_features))
    assert value == pytest.approx(length * np.log(24), rel=1e-5)
    assert objective._quick.value(np.zeros(problem.model.features.n_features), 1) is not None
