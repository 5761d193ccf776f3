"""The classifier beside scikit-learn, and the laws of weights, rows and feature maps."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import log_expit, logsumexp
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from loglinear import Classifier
from problems.texts import text_problem

EXACT = {"tolerance": 1e-10, "max_iter": 5000}


def scaled(load):
    X, y = load(return_X_y=True)
    return StandardScaler().fit_transform(X), y


DATA = {
    "breast cancer": lambda: scaled(load_breast_cancer),
    "wine": lambda: scaled(load_wine),
    "digits": lambda: scaled(load_digits),
    "text": lambda: text_problem(300, 400, 4),
}


@pytest.fixture(scope="module", params=DATA)
def problem(request):
    return DATA[request.param]()


def cll_objective(X, y, coef, intercept, l2):
    """Sum of the log losses + l2 ||w||^2, of one weight vector if there are two labels."""
    classes = np.unique(y)
    scores = np.asarray(X @ coef.T) + intercept
    gold = np.searchsorted(classes, y)
    if len(coef) == 1:
        losses = -log_expit(np.where(gold == 1, 1.0, -1.0) * scores[:, 0])
    else:
        losses = logsumexp(scores, axis=1) - scores[np.arange(len(y)), gold]
    return losses.sum() + l2 * np.sum(coef**2)


def hinge_objective(X, y, coef, intercept, l2, scale):
    """Sum of the hinge losses + l2 (||w||^2 + (b / scale)^2) of two labels."""
    signs = np.where(y == np.unique(y)[1], 1.0, -1.0)
    losses = np.maximum(0.0, 1.0 - signs * (np.asarray(X @ coef.T)[:, 0] + intercept[0]))
    return losses.sum() + l2 * (np.sum(coef**2) + (intercept[0] / scale) ** 2)


@pytest.mark.parametrize("C", [0.1, 1.0])
def test_cll_has_the_optimum_of_logistic_regression(problem, C):
    X, y = problem
    ours = Classifier(l2=0.5 / C).fit(X, y)
    theirs = LogisticRegression(C=C, tol=1e-8, max_iter=10_000).fit(X, y)
    best = cll_objective(X, y, theirs.coef_, theirs.intercept_, 0.5 / C)
    assert ours.objective_ == pytest.approx(cll_objective(X, y, ours.coef_, ours.intercept_, 0.5 / C), rel=1e-6)
    assert best * (1 - 1e-6) <= ours.objective_ <= best * (1 + 1e-4)
    assert ours.coef_.shape == theirs.coef_.shape and ours.intercept_.shape == theirs.intercept_.shape
    assert np.mean(ours.predict(X) == theirs.predict(X)) > 0.99
    assert ours.decision_function(X).shape == theirs.decision_function(X).shape
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=0.02)


@pytest.mark.parametrize("name", ["breast cancer", "text"])
def test_max_margin_has_the_optimum_of_the_support_vector_machine(name):
    X, y = DATA[name]()
    y = y == np.unique(y)[1]
    l2, scale = 0.5 / 0.1, 2.0
    ours = Classifier("max-margin", l2=l2, bias="penalised", bias_scale=scale).fit(X, y)
    theirs = LinearSVC(C=0.1, loss="hinge", intercept_scaling=scale, tol=1e-8, max_iter=1_000_000).fit(X, y)
    best = hinge_objective(X, y, theirs.coef_, theirs.intercept_, l2, scale)
    assert ours.objective_ == pytest.approx(hinge_objective(X, y, ours.coef_, ours.intercept_, l2, scale), rel=1e-6)
    assert best * (1 - 1e-6) <= ours.objective_ <= best * (1 + 1e-4)


def test_least_squares_is_the_ridge_classifier(problem):
    X, y = problem
    ours, theirs = Classifier("least-squares", l2=2.0).fit(X, y), RidgeClassifier(alpha=2.0, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(ours.coef_, np.atleast_2d(theirs.coef_), atol=1e-6)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-6)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


@pytest.mark.parametrize("l1", [0.0, 0.5])
def test_least_squares_by_steps_is_the_closed_form(l1):
    X, y = scaled(load_wine)
    for labels in (y, y == 1):
        by_steps = Classifier("least-squares", l1=l1, optimizer="lbfgs", **EXACT).fit(X, labels)
        weights, biases = by_steps.coef_, by_steps.intercept_
        targets = np.where(labels[:, None] == np.unique(labels), 1.0, -1.0)[:, len(weights) == 1 :]
        own = np.sum((X @ weights.T + biases - targets) ** 2) + l1 * np.abs(weights).sum() + np.sum(weights**2)
        assert by_steps.objective_ == pytest.approx(own, rel=1e-8)
        if l1 == 0.0:
            closed = Classifier("least-squares").fit(X, labels)
            np.testing.assert_allclose(weights, closed.coef_, atol=1e-4)
            assert by_steps.objective_ == pytest.approx(closed.objective_, rel=1e-8)
        else:
            assert (weights == 0.0).any()


def test_one_versus_all_is_one_versus_rest(problem):
    X, y = problem
    ours = Classifier(l2=0.5, multiclass="one-versus-all", optimizer="lbfgs", **EXACT).fit(X, y)
    theirs = OneVsRestClassifier(LogisticRegression(tol=1e-10, max_iter=10_000)).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=2e-2)
    assert np.mean(ours.predict(X) == theirs.predict(X)) > 0.999


def test_l1_is_that_of_logistic_regression():
    X, y = scaled(load_breast_cancer)
    ours = Classifier(l1=1.0, l2=0.0, bias="none", **EXACT).fit(X, y)
    theirs = LogisticRegression(l1_ratio=1, C=1.0, solver="liblinear", fit_intercept=False, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=5e-3)
    assert np.array_equal(ours.coef_ == 0.0, theirs.coef_ == 0.0)


def test_a_free_bias_takes_no_l1():
    X, y = scaled(load_breast_cancer)
    ours = Classifier(l1=1e4, l2=0.0, **EXACT).fit(X, y)
    assert not ours.coef_.any()
    assert ours.predict_proba(X)[0, 1] == pytest.approx(np.mean(y), abs=1e-4)


# -- laws --------------------------------------------------------------------------------------------------------------

CONVEX = st.sampled_from(["cll", "softmax-margin", "least-squares"])


@st.composite
def problems(draw, most_labels=4):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d, k = draw(st.integers(6, 20)), draw(st.integers(1, 5)), draw(st.integers(2, most_labels))
    y = np.concatenate([np.arange(k), rng.integers(0, k, n - k)])
    X = rng.normal(size=(n, d)) + rng.normal(size=(k, d))[y]
    X[rng.random((n, d)) < 0.3] = 0.0
    return X, y, rng


@settings(max_examples=20)
@given(problems(), CONVEX, st.sampled_from(["direct", "one-versus-all"]))
def test_weights_are_repeats(problem, criterion, multiclass):
    X, y, rng = problem
    times = np.concatenate([np.ones(4, dtype=int), rng.integers(0, 4, len(y) - 4)])
    options = {"optimizer": None if criterion == "least-squares" else "lbfgs", "multiclass": multiclass, **EXACT}
    weighted = Classifier(criterion, **options).fit(X, y, sample_weight=times)
    repeated = Classifier(criterion, **options).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-4)


@settings(max_examples=20)
@given(problems(), CONVEX, st.booleans())
def test_the_order_of_rows_does_not_matter(problem, criterion, sparse):
    X, y, rng = problem
    order = rng.permutation(len(y))
    made = sp.csr_matrix if sparse else np.asarray
    options = {"optimizer": None if criterion == "least-squares" else "lbfgs", **EXACT}
    one = Classifier(criterion, **options).fit(made(X), y)
    other = Classifier(criterion, **options).fit(made(X[order]), y[order])
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-4)


@settings(max_examples=20)
@given(problems(), st.sampled_from(["cll", "softmax-margin", "least-squares", "perceptron", "mira:k=2"]))
def test_a_feature_map_of_x_at_its_labels_place_is_the_plain_classifier(problem, criterion):
    X, y, _ = problem
    two = len(np.unique(y)) == 2
    assume(not (two and criterion == "least-squares"))  # whose one score is a label's own, not a difference
    online = criterion in ("perceptron", "mira:k=2")
    options = {} if online else {"optimizer": "lbfgs", **EXACT}
    plain = Classifier(criterion, bias="none", l2=None if online else (1.0 if two else 2.0), **options).fit(X, y)
    mapped = Classifier(
        criterion,
        feature_map=lambda x, label: {f"{label} {i}": value for i, value in enumerate(x)},
        l2=None if online else 2.0,  # two labels have one weight vector, a feature map always all of them
        **options,
    ).fit(X, y)
    np.testing.assert_allclose(plain.decision_function(X), mapped.decision_function(X), atol=1e-4)
    np.testing.assert_allclose(plain.predict_proba(X), mapped.predict_proba(X), atol=1e-4)


@settings(max_examples=20)
@given(problems())
def test_dense_and_sparse_rows_are_the_same(problem):
    X, y, _ = problem
    dense, sparse = (Classifier(optimizer="lbfgs", **EXACT).fit(rows, y) for rows in (X, sp.csr_matrix(X)))
    np.testing.assert_allclose(dense.coef_, sparse.coef_, atol=1e-5)


def test_contributions_add_up_to_the_scores():
    X, y = scaled(load_wine)
    for labels in (y, y == 0):
        classifier = Classifier().fit(X, labels)
        explained = classifier.explain(X[3])
        totals = np.array([sum(explained[label].values()) for label in classifier.classes_.tolist()])
        scores = classifier.decision_function(X[3:4])[0]
        np.testing.assert_allclose(totals if len(totals) > 2 else totals[1] - totals[0], scores, atol=1e-12)


def test_class_weights_are_sample_weights():
    X, y = scaled(load_wine)
    weights = {0: 1.0, 1: 0.25, 2: 3.0}
    by_class = Classifier(class_weight=weights, **EXACT).fit(X, y)
    by_example = Classifier(**EXACT).fit(X, y, sample_weight=[weights[label] for label in y])
    np.testing.assert_array_equal(by_class.coef_, by_example.coef_)
    balanced = LogisticRegression(C=0.5, class_weight="balanced", tol=1e-10, max_iter=10_000).fit(X, y)
    ours = Classifier(l2=1.0, class_weight="balanced", **EXACT).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), balanced.predict_proba(X), atol=1e-4)
