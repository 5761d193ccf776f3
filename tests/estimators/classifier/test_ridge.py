"""Ridge regression and least squares beside scikit-learn, in every form; files and mistakes."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression
from sklearn.linear_model import Ridge as TheirRidge

from loglinear import LeastSquares, Ridge, model_file
from loglinear.errors import ModelFileError, OptionError

SOLVERS = ["closed-form", "conjugate-gradients"]


@st.composite
def problems(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(2, 30)), draw(st.integers(1, 40))
    X = rng.normal(size=(n, d)) + rng.normal(size=d)
    X[rng.random((n, d)) < 0.4] = 0.0
    targets = rng.normal(size=n if draw(st.booleans()) else (n, 3)) + 2.0
    weights = rng.integers(0, 4, n).astype(float) if draw(st.booleans()) else None
    if weights is not None:
        weights[:2] = 1.0
    return X, targets, weights


@settings(max_examples=60)
@given(problems(), st.sampled_from(SOLVERS), st.booleans(), st.booleans(), st.floats(0.01, 100.0))
def test_it_is_scikit_learns(problem, solver, sparse, free, l2):
    X, y, weights = problem
    theirs = TheirRidge(alpha=l2, fit_intercept=free, solver="cholesky").fit(X, y, sample_weight=weights)
    ours = Ridge(l2, bias="free" if free else "none", solver=solver)
    ours.fit(sp.csr_matrix(X) if sparse else X, y, sample_weight=weights)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-8)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-8)
    assert np.shape(ours.intercept_) == (() if y.ndim == 1 else (3,))
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-8)
    times = np.ones(len(X)) if weights is None else weights
    residual = np.sum(times @ (ours.predict(X) - y) ** 2)
    assert ours.objective_ == pytest.approx(residual + l2 * np.sum(ours.coef_**2), rel=1e-8, abs=1e-10)


@settings(max_examples=40)
@given(problems(), st.sampled_from(SOLVERS), st.booleans())
def test_a_penalised_bias_is_one_more_column(problem, solver, sparse):
    X, y, weights = problem
    longer = np.hstack([X, np.full((len(X), 1), 3.0)])
    column = Ridge(0.7, bias="none", solver=solver).fit(longer, y, sample_weight=weights)
    bias = Ridge(0.7, bias="penalised", bias_scale=3.0, solver=solver)
    bias.fit(sp.csr_matrix(X) if sparse else X, y, sample_weight=weights)
    np.testing.assert_allclose(bias.coef_, column.coef_[..., :-1], atol=1e-8)
    np.testing.assert_allclose(bias.intercept_, 3.0 * column.coef_[..., -1], atol=1e-8)


@settings(max_examples=40)
@given(problems(), st.booleans())
def test_without_a_penalty_it_is_the_shortest_of_the_best(problem, sparse):
    X, y, weights = problem
    theirs = LinearRegression().fit(X, y, sample_weight=weights)
    ours = LeastSquares().fit(sp.csr_matrix(X) if sparse else X, y, sample_weight=weights)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-5)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    zero = Ridge(0.0).fit(sp.csr_matrix(X) if sparse else X, y, sample_weight=weights)
    np.testing.assert_array_equal(zero.coef_, ours.coef_)


def test_wide_sparse_rows_go_by_conjugate_gradients():
    X = sp.random(2500, 3000, density=0.002, random_state=0, format="csr")
    y = X @ np.random.default_rng(0).normal(size=3000) + 1.0
    ours = Ridge(1.0).fit(X, y)
    assert "conjugate gradients" in ours.message_ and ours.converged_
    theirs = TheirRidge(1.0, solver="sparse_cg", tol=1e-12).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-8)
    short = Ridge(1.0, max_iter=2).fit(X, y)
    assert not short.converged_ and short.n_iter_ == 2


def test_on_the_bundled_data():
    X, y = load_diabetes(return_X_y=True)
    ours, theirs = Ridge(0.1).fit(X, y), TheirRidge(0.1).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-8)


@pytest.mark.parametrize("kind", [Ridge, LeastSquares])
@pytest.mark.parametrize("several", [False, True])
def test_files(kind, several, tmp_path):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 3)), columns=["a", "b", "c"])
    y = frame[["a", "b"]].values if several else frame["a"].values
    model = kind(bias="penalised").fit(frame, y)
    model.save(tmp_path / "model")
    again = kind.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    assert again.get_params() == model.get_params() and again.feature_names_in_.tolist() == ["a", "b", "c"]
    assert (again.objective_, again.message_) == (model.objective_, model.message_)
    other = LeastSquares if kind is Ridge else Ridge
    with pytest.raises(ModelFileError, match="of kind"):
        other.load(tmp_path / "model")


@pytest.mark.parametrize(
    "change",
    [
        lambda header, arrays: header.update(one_target=True),
        lambda header, arrays: header["options"].update(l2=-1),
        lambda header, arrays: header.pop("options"),
        lambda header, arrays: arrays.update(coef=np.zeros(3)),
        lambda header, arrays: arrays.update(coef=np.full((2, 3), np.inf)),
    ],
)
def test_a_strangers_file_is_refused(change):
    stored = model_file.load(Ridge().fit(np.eye(3), np.eye(3)[:, :2]).to_bytes())
    header, arrays = stored.header, dict(stored.arrays)
    change(header, arrays)
    with pytest.raises(ModelFileError, match="does not fit together"):
        Ridge.load(model_file.dumps("ridge", header, arrays))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"l2": -1.0}, "l2=-1.0 must be at least 0"),
        ({"bias": "some"}, "is not one of free, penalised, none"),
        ({"solver": "magic"}, "is not one of auto, closed-form, conjugate-gradients"),
        ({"max_iter": 0}, "must be at least 1"),
    ],
)
def test_options_that_make_no_sense(options, message):
    with pytest.raises(OptionError, match=message):
        Ridge(**options).fit([[1.0], [2.0]], [1.0, 2.0])
