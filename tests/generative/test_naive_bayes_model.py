"""Naive Bayes by counting: the chapter's formulas, scikit-learn as a referee, draws with the right moments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, sparse
from sklearn.naive_bayes import MultinomialNB

from loglinear.errors import DataError, OptionError
from loglinear.generative.naive_bayes import NaiveBayesModel, log_dirichlet, log_likelihoods


@st.composite
def problems(draw: Any) -> tuple[Any, Any, Any, int, float]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d, labels = draw(st.integers(1, 12)), draw(st.integers(1, 6)), draw(st.integers(1, 4))
    x = rng.poisson(1.0, size=(n, d)) * rng.choice([1.0, 0.5, 2.25], size=(n, d))
    smoothing = draw(st.sampled_from([0.01, 0.5, 1.0, 3.0]))
    return x, rng.integers(labels, size=n).astype(np.int32), rng.random(n) + 0.1, labels, smoothing


@given(problems())
@settings(max_examples=60, deadline=None)
def test_parameters_are_those_of_the_chapter(problem: Any) -> None:
    x, y, weights, n_labels, smoothing = problem
    model = NaiveBayesModel.fit(x, y, n_labels, smoothing, weights)
    for label in range(n_labels):
        counts = smoothing + sum((weights[i] * x[i] for i in range(len(y)) if y[i] == label), np.zeros(x.shape[1]))
        np.testing.assert_allclose(np.exp(model.log_theta[label]), counts / counts.sum())
        assert np.exp(model.log_prior[label]) == pytest.approx(weights[y == label].sum() / weights.sum())
    assert model.mean_length == pytest.approx(np.average(x.sum(axis=1), weights=weights))


@given(problems())
@settings(max_examples=30, deadline=None)
def test_rows_may_be_sparse(problem: Any) -> None:
    x, y, weights, n_labels, smoothing = problem
    dense = NaiveBayesModel.fit(x, y, n_labels, smoothing, weights)
    for kind in (sparse.csr_matrix, sparse.csr_array):
        model = NaiveBayesModel.fit(kind(x), y, n_labels, smoothing, weights)
        np.testing.assert_allclose(model.log_theta, dense.log_theta)
        np.testing.assert_allclose(model.scores(kind(x)), dense.scores(x))


@given(problems())
@settings(max_examples=30, deadline=None)
def test_a_weight_of_two_is_a_row_twice(problem: Any) -> None:
    x, y, _, n_labels, smoothing = problem
    times = np.arange(len(y)) % 3 + 1
    weighted = NaiveBayesModel.fit(x, y, n_labels, smoothing, times.astype(float))
    repeated = NaiveBayesModel.fit(np.repeat(x, times, axis=0), np.repeat(y, times), n_labels, smoothing)
    np.testing.assert_allclose(weighted.log_theta, repeated.log_theta)
    np.testing.assert_allclose(weighted.log_prior, repeated.log_prior)
    assert weighted.mean_length == pytest.approx(repeated.mean_length)


def test_no_other_parameters_are_more_probable() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.poisson(2.0, size=(20, 4)).astype(float), rng.integers(2, size=20).astype(np.int32)
    model = NaiveBayesModel.fit(x, y, 2, 0.7)

    def posterior(log_theta: Any) -> float:
        table = log_theta - np.logaddexp.reduce(log_theta, axis=1)[:, None]
        return float(log_likelihoods(x, table)[np.arange(20), y].sum()) + log_dirichlet(table, 0.7)

    found = optimize.minimize(lambda free: -posterior(free.reshape(2, 4)), np.zeros(8), tol=1e-10)
    assert posterior(model.log_theta) == pytest.approx(-found.fun, abs=1e-6)


def test_scores_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    x, y, weights = rng.random((60, 9)) * 5, rng.integers(3, size=60).astype(np.int32), rng.random(60)
    other = MultinomialNB(alpha=0.3).fit(x, y, sample_weight=weights)
    ours = NaiveBayesModel.fit(x, y, 3, 0.3, weights)
    np.testing.assert_allclose(ours.scores(x), other.predict_joint_log_proba(x), rtol=1e-12)


def test_a_label_without_rows_has_probability_zero() -> None:
    model = NaiveBayesModel.fit(np.array([[1.0, 2.0], [3.0, 0.0]]), np.array([0, 2], dtype=np.int32), 3, 1.0)
    assert model.log_prior[1] == -np.inf and np.isneginf(model.scores(np.ones((1, 2)))[0, 1])
    np.testing.assert_array_equal(model.expected()[:, 1], 0.0)
    np.testing.assert_allclose(np.exp(model.log_theta[1]), 0.5)


def test_expected_counts_are_those_of_draws() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.poisson([3.0, 1.0, 0.2], size=(30, 3)).astype(float), (np.arange(30) % 3 > 0).astype(np.int32)
    model = NaiveBayesModel.fit(x, y, 2, 1.0)
    rows, labels = model.sample(200_000, rng)
    drawn = np.stack([rows[labels == label].sum(axis=0).A1 for label in range(2)], axis=1) / 200_000
    np.testing.assert_allclose(drawn, model.expected(), atol=0.03)  # standard errors are below 0.006
    assert model.expected().sum() == pytest.approx(model.mean_length)


def test_expected_counts_equal_the_mean_counts_as_smoothing_vanishes() -> None:
    rng = np.random.default_rng(3)
    x, y = np.full((12, 4), 2.0), (np.arange(12) % 2).astype(np.int32)  # lengths do not depend on the label
    x += rng.permuted(np.tile([1.0, -1.0, 0.0, 0.0], (12, 1)), axis=1)
    model = NaiveBayesModel.fit(x, y, 2, 1e-12)
    means = np.stack([x[y == label].sum(axis=0) / 12 for label in range(2)], axis=1)
    np.testing.assert_allclose(model.expected(), means, rtol=1e-9)


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_what_is_no_count_is_refused(value: float, kind: Any) -> None:
    with pytest.raises(DataError, match="a count of"):
        NaiveBayesModel.fit(kind([[1.0, value]]), np.zeros(1, dtype=np.int32), 1, 1.0)


def test_weights_and_smoothing_are_checked() -> None:
    x, y = np.ones((2, 2)), np.zeros(2, dtype=np.int32)
    for weights in ([0.0, 0.0], [-1.0, 2.0]):
        with pytest.raises(DataError, match="weights"):
            NaiveBayesModel.fit(x, y, 1, 1.0, np.array(weights))
    for smoothing in (0.0, -1.0, float("nan")):
        with pytest.raises(OptionError, match="smoothing"):
            NaiveBayesModel.fit(x, y, 1, smoothing)
