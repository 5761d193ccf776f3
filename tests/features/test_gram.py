"""Kernels of two rows, and factors of their Gram matrices."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel
from sklearn.svm import SVC

from loglinear.errors import DataError, OptionError
from loglinear.features import gram as gram_module
from loglinear.features.gram import KERNELS, Factor, gram, kernel_of_header, make_kernel, training_gram

SPECS = ("linear", "poly:degree=2,coef0=1", "poly:degree=3,gamma=0.5", "rbf", "rbf:gamma=0.1")


@st.composite
def some_rows(draw):
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    rows = rng.normal(draw(st.sampled_from([0.0, 5.0])), 1.0, size=(draw(st.integers(2, 30)), draw(st.integers(1, 6))))
    rows[rng.random(rows.shape) < draw(st.sampled_from([0.0, 0.6]))] = 0.0
    if draw(st.booleans()):
        rows = np.concatenate([rows, rows[:3]])  # a matrix of less than full rank
    return rows if draw(st.booleans()) else sp.csr_matrix(rows)


@settings(max_examples=60, deadline=None)
@given(rows=some_rows(), others=st.integers(1, 5), spec=st.sampled_from(SPECS))
def test_kernels_are_those_of_scikit_learn(rows, others, spec):
    kernel = make_kernel(spec).fitted(rows)
    values = {name: value for name, value in kernel.to_header().items() if name != "name"}
    referee = {"linear": linear_kernel, "poly": polynomial_kernel, "rbf": rbf_kernel}[kernel.name]
    np.testing.assert_allclose(gram(kernel, rows, rows[:others]), referee(rows, rows[:others], **values), rtol=1e-9)


@settings(max_examples=30, deadline=None)
@given(rows=some_rows())
def test_gamma_is_scaled_as_in_scikit_learn(rows):
    y = np.arange(rows.shape[0]) % 2
    dense = rows.toarray() if sp.issparse(rows) else rows
    if dense.std() > 0.0:
        assert make_kernel("rbf").fitted(rows).gamma == pytest.approx(SVC().fit(rows, y)._gamma)
    assert make_kernel("rbf:gamma=scale").gamma is None


@settings(max_examples=60, deadline=None)
@given(rows=some_rows(), spec=st.sampled_from(SPECS))
def test_the_factor_gives_the_gram_matrix_back(rows, spec):
    kernel = make_kernel(spec).fitted(rows)
    matrix = training_gram(kernel, rows)
    if not matrix.any():
        return
    size = np.abs(matrix).max()
    factor = Factor.of(matrix.copy())
    np.testing.assert_allclose(factor.rows @ factor.rows.T, matrix, atol=1e-10 * size)
    assert factor.rows.shape == (len(matrix), len(factor.pivots))
    assert len(factor.pivots) <= np.linalg.matrix_rank(matrix, tol=1e-14 * size)
    weights = np.random.default_rng(0).normal(size=(len(factor.pivots), 2))
    coefficients = factor.coefficients(weights)
    np.testing.assert_allclose(factor.weights(coefficients), weights, atol=1e-4)
    assert not np.delete(coefficients, factor.pivots, axis=0).any()
    np.testing.assert_allclose(  # norms of functions
        np.sum(coefficients * (matrix @ coefficients)), np.sum(weights**2), rtol=1e-3
    )
    again = factor.coordinates(gram(kernel, rows, rows[factor.pivots]))
    np.testing.assert_allclose(again @ weights, factor.rows @ weights, atol=1e-4 * np.sqrt(size) * len(matrix))


def test_matrices_are_made_in_blocks(monkeypatch):
    rows = np.random.default_rng(0).normal(size=(40, 3))
    kernel = make_kernel("rbf:gamma=0.3")
    whole = gram(kernel, rows, rows)
    monkeypatch.setattr(gram_module, "NUMBERS_AT_ONCE", 100)
    np.testing.assert_allclose(gram(kernel, rows, rows), whole, rtol=1e-12)
    factor = Factor.of(whole.copy())
    np.testing.assert_allclose(factor.rows @ factor.rows.T, whole, atol=1e-12)
    assert np.array_equal(factor.rows[factor.pivots], np.tril(factor.rows[factor.pivots]))


@pytest.mark.parametrize("spec", SPECS)
def test_headers_say_which_kernel_it_is(spec):
    kernel = make_kernel(spec).fitted(np.random.default_rng(0).normal(size=(5, 2)))
    again = kernel_of_header(kernel.to_header())
    assert again.to_header() == kernel.to_header() and str(again) == str(kernel)
    with pytest.raises((KeyError, ValueError, OptionError)):
        kernel_of_header({**kernel.to_header(), "gamma": None} if kernel.name != "linear" else {"name": "other"})


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda a, b: np.full((len(a), len(b)), np.nan), "is nan for rows 0 and 0"),
        (lambda a, b: a @ b.T / 0.0 if len(a) else a, "is (inf|-inf|nan) for rows"),
        (lambda a, b: a, r"gave an array of shape \[12, 2\], not \[12, 12\]"),
        (lambda a, b: a @ b.T + np.arange(len(b)), "not symmetric"),
        (lambda a, b: -(a @ b.T), "not positive semi-definite"),
        (lambda a, b: np.tanh(a @ b.T - 1.0), "not positive semi-definite"),
        (lambda a, b: np.array([["x"] * len(b)] * len(a)), "kernel raised ValueError"),
        (lambda a, b: a.missing, "kernel raised AttributeError"),
        (lambda a, b: np.zeros((len(a), len(b))), "zero for all pairs"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_functions_that_are_not_kernels_are_refused(function, message):
    rows = np.random.default_rng(1).normal(size=(12, 2))
    with pytest.raises(DataError, match=message):
        Factor.of(training_gram(make_kernel(function), rows))


def test_numbers_that_are_too_large_are_refused():
    with pytest.raises(DataError, match=r"is inf for rows 0 and 0.*scale the columns"):
        training_gram(make_kernel("poly:degree=100,gamma=1"), np.full((3, 2), 1e10))


def test_rows_that_memory_should_not_hold_are_refused(monkeypatch):
    monkeypatch.setattr(gram_module, "MOST_ROWS", 10)
    with pytest.raises(DataError, match=r"11 rows needs a matrix of .* at most 10 rows: train on a sample"):
        training_gram(make_kernel("rbf:gamma=1"), np.zeros((11, 2)))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("rbg", "there are: linear, poly, rbf"),
        ("rbf:gamma=0", "must be greater than 0"),
        ("rbf:gamma=auto", "must be a number, or scale"),
        ("rbf:degree=2", "has no option 'degree'"),
        ("poly:degree=0", "must be at least 1"),
        ("poly:coef0=-1", "must be at least 0"),
        (3, "neither a function nor one of"),
    ],
)
def test_specs_are_checked(given, message):
    with pytest.raises(OptionError, match=message):
        make_kernel(given)


def test_these_are_all():
    assert list(KERNELS) == ["linear", "poly", "rbf"]
