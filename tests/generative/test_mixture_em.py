"""EM for mixtures: brute force for the E step, monotone objectives, order and weights of rows, draws."""

from __future__ import annotations

import math
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats

from loglinear.errors import DataError
from loglinear.generative.em import climbed
from loglinear.generative.mixture import (
    SHAPES,
    Components,
    CovariancePrior,
    GaussianComponents,
    MixtureModel,
    MultinomialComponents,
    NaiveBayesComponents,
    ObjectiveFellWarning,
    WeightedRows,
    start_model,
)
from loglinear.generative.naive_bayes import NaiveBayesModel

KINDS = ("multinomial", *SHAPES)


def rows_of(kind: str, n: int, d: int, rng: np.random.Generator) -> Any:
    if kind == "multinomial":
        return rng.poisson(rng.gamma(1.0, size=(3, d))[rng.integers(3, size=n)] * 3).astype(float)
    return rng.normal(size=(3, d))[rng.integers(3, size=n)] * 3 + rng.normal(size=(n, d)) * rng.gamma(1.0, size=d)


def components_of(kind: str, x: Any, weights: Any, k: int, smoothing: float = 0.0) -> Components:
    if kind == "multinomial":
        return MultinomialComponents.even(x, weights, k, smoothing or 1.0)
    return GaussianComponents.even(x, weights, k, kind, smoothing)


def fitted(kind: str, x: Any, weights: Any, k: int, smoothing: float = 0.0, seed: int = 0, known: Any = None) -> Any:
    even = components_of(kind, x, weights, k, smoothing)
    start = start_model(even, x, weights, known, "k-means++", np.random.default_rng(seed))
    model, state = climbed(start, WeightedRows(x, weights, known), max_iter=60)
    return SimpleNamespace(model=model, objectives=state.objectives, n_rounds=state.n_rounds)


@st.composite
def problems(draw: Any) -> tuple[str, Any, int, float, np.random.Generator]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(KINDS))
    x = rows_of(kind, draw(st.integers(1, 25)), draw(st.integers(1, 4)), rng)
    if draw(st.booleans()):
        x[:, 0] = 2.0  # a constant column
    return kind, x, draw(st.integers(1, 5)), draw(st.sampled_from([0.0, 0.5, 4.0])), rng


def density(kind: str, components: Any, k: int, row: Any) -> float:
    """p(x given theta_k), said once more."""
    if kind == "multinomial":
        return math.prod(math.exp(components.log_theta[k, j]) ** row[j] for j in range(len(row)))
    d, c = len(row), components.covariances
    matrix = {
        "known": lambda: np.eye(d) * c,
        "spherical": lambda: np.eye(d) * c[k],
        "diagonal": lambda: np.diag(c[k]),
        "tied": lambda: c,
        "full": lambda: c[k],
    }[kind]()
    return float(stats.multivariate_normal(components.means[k], matrix).pdf(row))


@pytest.mark.parametrize("kind", KINDS)
def test_the_e_step_is_bayes_rule(kind: str) -> None:
    rng = np.random.default_rng(7)
    x, k = rows_of(kind, 6, 2, rng) * (1.0 if kind == "multinomial" else 0.3), 3
    run = fitted(kind, x, np.ones(6), k, 2.0)  # with a prior, or a component would be a spike
    model, weights, known = run.model, rng.random(6) + 0.5, np.array([-1, 2, -1, 0, -1, -1], dtype=np.int32)
    found = model.expected(x, weights, known)
    total = 0.0
    for i in range(6):
        joint = [math.exp(model.log_weights[c]) * density(kind, model.components, c, x[i]) for c in range(k)]
        np.testing.assert_allclose(model.posterior(x)[i], np.array(joint) / sum(joint), rtol=1e-9)
        assert model.log_likelihoods(x)[i] == pytest.approx(math.log(sum(joint)))
        joint = [value if known[i] in (-1, c) else 0.0 for c, value in enumerate(joint)]
        np.testing.assert_allclose(found.shares[i], np.array(joint) / sum(joint), rtol=1e-9)
        total += weights[i] * math.log(sum(joint))
    assert found.log_likelihood == pytest.approx(total)
    assert found.objective == pytest.approx(total + model.components.log_prior())


@given(problems())
@settings(max_examples=120, deadline=None)
def test_the_objective_never_falls(problem: Any) -> None:
    kind, x, k, smoothing, rng = problem
    weights, known = rng.random(len(x)) + 0.1, rng.integers(-3, k, size=len(x)).astype(np.int32)
    known = np.maximum(known, -1)
    for given_components in (None, known):
        run = fitted(
            kind, x, weights, k, smoothing, known=given_components
        )  # a fall is a RuntimeWarning: an error here
        steps = np.diff(run.objectives)
        assert (steps >= -1e-9 * (1.0 + np.abs(run.objectives[1:]))).all()
        assert np.isfinite(run.objectives).all() and np.exp(run.model.log_weights).sum() == pytest.approx(1.0)


@given(problems())
@settings(max_examples=40, deadline=None)
def test_no_small_change_of_the_parameters_is_better_after_an_m_step(problem: Any) -> None:
    kind, x, k, smoothing, rng = problem
    weights = rng.random(len(x)) + 0.1
    shares = rng.dirichlet(np.ones(k), size=len(x))
    start = components_of(kind, x, weights, k, smoothing)
    best = MixtureModel(np.full(k, -np.log(k)), start).maximised(x, weights, shares)

    def value(components: Any) -> float:
        logs = components.log_densities(x)
        return float((weights[:, None] * shares * logs).sum()) + components.log_prior()

    greatest = value(best.components)
    for step in (1e-3, 1e-2, 0.3):
        other = perturbed(best.components, step, rng)
        assert value(other) <= greatest + 1e-9 * (1.0 + abs(greatest))


def perturbed(components: Any, step: float, rng: np.random.Generator) -> Any:
    """Other parameters nearby, within the floor."""
    from dataclasses import replace

    if isinstance(components, MultinomialComponents):
        moved = components.log_theta + step * rng.normal(size=components.log_theta.shape)
        return replace(components, log_theta=moved - np.logaddexp.reduce(moved, axis=1)[:, None])
    means = components.means + step * rng.normal(size=components.means.shape)
    shape, covariances = components.shape, components.covariances
    if shape.estimated and shape.axial:
        least = components.prior.mean.least[0] if components.covariance == "spherical" else components.prior.least
        covariances = np.maximum(covariances * np.exp(step * rng.normal(size=covariances.shape)), least)
    elif shape.estimated:
        noise = step * rng.normal(size=covariances.shape)
        covariances = covariances + noise @ np.swapaxes(noise, -1, -2)  # grows, so that it stays above the floor
    return replace(components, means=means, covariances=covariances)


@given(problems())
@settings(max_examples=60, deadline=None)
def test_rows_may_come_in_any_order_and_weights_are_repetitions(problem: Any) -> None:
    kind, x, k, smoothing, rng = problem
    times = rng.integers(1, 4, size=len(x))
    order = rng.permutation(int(times.sum()))
    repeated = np.repeat(x, times, axis=0)[order]
    one = fitted(kind, x, times.astype(float), k, smoothing)
    other = fitted(kind, repeated, np.ones(len(repeated)), k, smoothing)
    common = min(len(one.objectives), len(other.objectives))  # rounding may end one of them a step earlier
    np.testing.assert_allclose(one.objectives[:common], other.objectives[:common], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("method", ["k-means++", "random"])
def test_centres_are_distinct_rows(method: str) -> None:
    x = np.repeat(np.arange(5.0)[:, None], 40, axis=0)
    x = np.hstack([x, x**2])
    even = GaussianComponents.even(x, np.ones(200), 5, "spherical")
    for seed in range(20):
        start = start_model(even, x, np.ones(200), None, method, np.random.default_rng(seed))
        np.testing.assert_allclose(np.sort(start.components.means[:, 0]), np.arange(5.0), atol=1e-9)


def test_a_row_of_weight_zero_is_never_a_centre() -> None:
    x, weights = np.array([[0.0], [1.0], [1e6]]), np.array([1.0, 1.0, 0.0])
    for method in ("k-means++", "random"):
        for seed in range(10):
            even = GaussianComponents.even(x, weights, 2, "spherical")
            start = start_model(even, x, weights, None, method, np.random.default_rng(seed))
            assert np.abs(start.components.means).max() <= 1.0


def test_known_labels_of_all_rows_make_naive_bayes() -> None:
    rng = np.random.default_rng(3)
    x, y, weights = rng.poisson(2.0, size=(40, 6)).astype(float), rng.integers(3, size=40), rng.random(40)
    y = y.astype(np.int32)
    run = fitted("multinomial", x, weights, 3, 0.7, known=y)
    model = NaiveBayesModel.fit(x, y, 3, 0.7, weights)
    np.testing.assert_allclose(run.model.components.log_theta, model.log_theta)
    np.testing.assert_allclose(run.model.log_weights, model.log_prior)
    assert run.n_rounds < 60


def test_sparse_rows_give_the_same() -> None:
    rng = np.random.default_rng(4)
    x = rows_of("multinomial", 30, 5, rng)
    x[3] = 0.0  # an empty row
    for kind in (sparse.csr_matrix, sparse.csr_array):
        a, b = fitted("multinomial", x, np.ones(30), 3), fitted("multinomial", kind(x), np.ones(30), 3)
        np.testing.assert_allclose(a.objectives, b.objectives)


def test_known_rows_stay_in_their_component() -> None:
    rng = np.random.default_rng(5)
    x = np.vstack([rng.normal(size=(30, 2)) - 4, rng.normal(size=(30, 2)) + 4])
    known = np.full(60, -1, dtype=np.int32)
    known[[0, 30]] = [1, 0]  # the other way round than any start would number them
    for seed in range(5):
        run = fitted("full", x, np.ones(60), 2, seed=seed, known=known)
        np.testing.assert_array_equal(run.model.posterior(x).argmax(axis=1), np.repeat([1, 0], 30))
        assert run.model.expected(x, np.ones(60), known).shares[0].tolist() == [0.0, 1.0]


@pytest.mark.parametrize("kind", KINDS)
def test_draws_have_the_right_moments(kind: str) -> None:
    rng = np.random.default_rng(6)
    x = rows_of(kind, 60, 3, rng)
    model = fitted(kind, x, np.ones(60), 2).model
    drawn, components = model.sample(100_000, rng)
    drawn = drawn.toarray() if sparse.issparse(drawn) else drawn
    np.testing.assert_allclose(np.bincount(components) / 100_000, np.exp(model.log_weights), atol=0.01)
    theta = model.components
    for k in range(2):
        mine = drawn[components == k]
        if isinstance(theta, MultinomialComponents):
            expected = np.exp(theta.log_theta[k]) * theta.mean_length
            np.testing.assert_allclose(mine.mean(axis=0), expected, rtol=0.05)
            np.testing.assert_allclose(mine.var(axis=0), expected, rtol=0.1)  # Poisson lengths: Poisson counts
        else:
            assert isinstance(theta, GaussianComponents)
            expanded = theta.shape.expanded(theta.covariances, 2, 3)
            matrix = np.diag(expanded[k]) if theta.shape.axial else expanded[k % len(expanded)]
            scale = np.sqrt(np.diag(matrix))
            np.testing.assert_allclose((mine.mean(axis=0) - theta.means[k]) / scale, 0.0, atol=0.03)
            np.testing.assert_allclose(
                np.cov(mine.T) / np.outer(scale, scale), matrix / np.outer(scale, scale), atol=0.05
            )


def test_a_component_that_could_shrink_to_a_point_stops_at_the_floor() -> None:
    x = np.vstack([np.zeros((5, 2)), np.random.default_rng(8).normal(size=(50, 2)) + 5])
    for kind in ("spherical", "diagonal", "full"):
        run = fitted(kind, x, np.ones(55), 2)
        theta = run.model.components
        assert isinstance(theta, GaussianComponents)
        point = int(np.argmin(np.abs(theta.means).sum(axis=1)))
        least = theta.shape.expanded(theta.covariances, 2, 2)[point]
        found = np.linalg.eigvalsh(np.diag(least) if theta.shape.axial else least)
        np.testing.assert_allclose(found, 1e-6 * theta.prior.spread, rtol=0.3)
        assert np.isfinite(run.objectives).all()


def test_the_floor_leaves_wider_covariances_alone() -> None:
    scatter = np.array([[[4.0, 1.0], [1.0, 2.0]]])
    prior = CovariancePrior(np.array([1.0, 1.0]), 0.0, 1e-6)
    found = SHAPES["full"].from_scatters(scatter, np.array([2.0]), prior, scatter)
    np.testing.assert_allclose(found[0], [[2.0, 0.5], [0.5, 1.0]], rtol=1e-15)


def test_free_parameters_are_counted() -> None:
    x = np.random.default_rng(0).random((20, 4))
    expected = {"known": 12, "spherical": 15, "diagonal": 24, "tied": 22, "full": 42, "multinomial": 9}
    for kind, number in expected.items():
        run = fitted(kind, x, np.ones(20), 3)
        assert run.model.n_parameters == number + 2


def test_a_fall_is_said() -> None:
    x = np.random.default_rng(9).normal(size=(30, 2))
    even = GaussianComponents.even(x, np.ones(30), 2, "spherical")

    class Worse(GaussianComponents):
        def maximised(self, x: Any, shares: Any) -> Any:
            better = super().maximised(x, shares)
            return Worse(better.means + 3.0, better.covariances, better.covariance, better.prior)

    start = MixtureModel(np.log([0.5, 0.5]), Worse(even.means, even.covariances, even.covariance, even.prior))
    with pytest.warns(ObjectiveFellWarning, match="step 1 of EM lowered the objective"):
        climbed(start, WeightedRows(x, np.ones(30)), max_iter=1)


def test_numbers_that_cannot_be_squared_are_refused() -> None:
    x = np.array([[1e200], [-1e200], [0.0]])
    with pytest.raises(DataError, match="row 0"), np.errstate(over="ignore"):
        even = GaussianComponents.even(np.zeros((3, 1)), np.ones(3), 1, "known")
        MixtureModel(np.zeros(1), even).expected(x, np.ones(3))


# -- naive Bayes components --------------------------------------------------------------------------------------------


def blocks_of(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    """Rows of three attributes: one of three values, one of two that may be missing, and counts of four words."""
    one = np.eye(3)[rng.integers(3, size=n)]
    other = np.eye(2)[rng.integers(2, size=n)] * (rng.random(n) < 0.7)[:, None]
    return np.hstack([one, other, rng.poisson(1.0, size=(n, 4)).astype(float)]), np.array([0, 3, 5])


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_naive_bayes_components_are_products_of_multinomials(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, first = blocks_of(rng, 8)
    weights, shares = rng.random(8) + 0.1, rng.dirichlet(np.ones(2), size=8)
    for rows in (x, sparse.csr_matrix(x)):
        components = NaiveBayesComponents.even(rows, weights, 2, 0.5, first).maximised(rows, shares * weights[:, None])
        parts = [x[:, lo:hi] for lo, hi in ((0, 3), (3, 5), (5, 9))]
        alone = [
            MultinomialComponents.even(part, weights, 2, 0.5).maximised(part, shares * weights[:, None])
            for part in parts
        ]
        np.testing.assert_allclose(components.log_theta, np.hstack([part.log_theta for part in alone]))
        for i in range(8):  # attribute by attribute, value by value
            for k in range(2):
                p = math.prod(math.exp(components.log_theta[k, j]) ** x[i, j] for j in range(9))
                assert math.exp(components.log_densities(rows)[i, k]) == pytest.approx(p)
        assert components.log_prior() == pytest.approx(sum(part.log_prior() for part in alone))
        assert components.n_parameters == 2 * (2 + 1 + 3)
        np.testing.assert_allclose(
            components.mean_lengths, weights @ np.stack([p.sum(axis=1) for p in parts], 1) / weights.sum()
        )


@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
@settings(max_examples=20, deadline=None)
def test_the_objective_of_naive_bayes_components_never_falls(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    x, first = blocks_of(rng, 20)
    weights = rng.random(20) + 0.1
    start = start_model(NaiveBayesComponents.even(x, weights, k, 0.3, first), x, weights, None, "k-means++", rng)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ObjectiveFellWarning)
        _, state = climbed(start, WeightedRows(x, weights), max_iter=30, tolerance=0.0)
    assert (np.diff(state.objectives) > -1e-8 * np.abs(state.objectives[1:])).all()


def test_one_naive_bayes_component_is_counts_and_known_rows_are_classes() -> None:
    rng = np.random.default_rng(3)
    x, first = blocks_of(rng, 40)
    known = rng.integers(2, size=40).astype(np.int32)
    start = start_model(NaiveBayesComponents.even(x, np.ones(40), 2, 1.0, first), x, np.ones(40), known, "random", rng)
    model, _ = climbed(start, WeightedRows(x, np.ones(40), known))
    for k in range(2):
        for lo, hi in ((0, 3), (3, 5), (5, 9)):
            counts = x[known == k, lo:hi].sum(axis=0) + 1.0
            np.testing.assert_allclose(np.exp(model.components.log_theta[k, lo:hi]), counts / counts.sum())  # type: ignore[attr-defined]


def test_draws_of_attributes_are_single_where_training_rows_are() -> None:
    rng = np.random.default_rng(4)
    x, first = blocks_of(rng, 200)
    rows = (
        NaiveBayesComponents.even(x, np.ones(200), 2, 1.0, first).sample(np.zeros(2000, dtype=np.int32), rng).toarray()
    )
    assert set(rows[:, :3].sum(axis=1)) == {1.0} and set(rows[:, 3:5].sum(axis=1)) == {0.0, 1.0}
    assert rows[:, 3:5].sum(axis=1).mean() == pytest.approx(x[:, 3:5].sum(axis=1).mean(), abs=0.05)
    assert rows[:, 5:].sum(axis=1).mean() == pytest.approx(x[:, 5:].sum(axis=1).mean(), rel=0.1)
