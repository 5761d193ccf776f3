"""Dual ascent over flat labels ends at the minimum, and knows how far it is from there."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, LinearSVC

from loglinear.criteria.criterion import make_criterion
from loglinear.data.corpora.generator import generate_text_classes
from loglinear.errors import OptionError
from loglinear.optimizers.dual import flat
from loglinear.optimizers.dual.chain import DualAscent, dual_unsupported_reason
from loglinear.optimizers.dual.flat import FlatDual, FlatDualState, FlatProblem
from loglinear.optimizers.dual.general import FinishState
from loglinear.optimizers.lbfgs import LBFGS
from loglinear.optimizers.optimizer import make_optimizer
from loglinear.structures.gold import Gold
from problems.flat import SMOOTH, flat_objective, flat_objectives

ALL = (*SMOOTH, "max-margin")
EXACT = LBFGS(max_iter=5000, tolerance=0.0, gradient_tolerance=1e-8)


def value_of(objective, weights, l1=0.0):
    return objective(weights)[0] + l1 * np.abs(weights[: objective.n_penalised]).sum()


def zeros(objective):
    return np.zeros(objective.features.n_features)


@settings(max_examples=60, deadline=None)
@given(objective=flat_objectives(), l1=st.sampled_from([0.0, 0.0, 0.3]))
def test_it_ends_where_lbfgs_does(objective, l1):
    best = EXACT.minimise(objective, zeros(objective), l1=l1).value
    assume(best > 1e-2)  # else it is nothing, at weights without bounds
    found = make_optimizer("dual", max_iter=3000, tolerance=1e-6, seed=0).minimise(objective, zeros(objective), l1=l1)
    assert found.converged
    assert value_of(objective, found.weights, l1) == pytest.approx(best, rel=2e-6, abs=2e-6)
    assert found.value == pytest.approx(value_of(objective, found.weights, l1), rel=1e-9, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(objective=flat_objectives(ALL), passes=st.integers(0, 12), l1=st.sampled_from([0.0, 0.3]))
def test_the_gap_is_a_bound(objective, passes, l1):
    """Wherever it is stopped, the dual lies below the primal of any weights."""
    state = FlatDual(max_iter=passes, tolerance=0.0).minimise(objective, zeros(objective), l1=l1).state
    assume(isinstance(state, FlatDualState))  # else L-BFGS has gone on, which has none until it ends
    assert state.value == pytest.approx(value_of(objective, state.weights, l1), rel=1e-9, abs=1e-9)
    rng = np.random.default_rng(passes)
    slack = 1e-9 * (1.0 + abs(state.value))
    better = FlatDual(max_iter=300, tolerance=1e-7).minimise(objective, zeros(objective), l1=l1).weights
    for other in (zeros(objective), better, better + 0.01 * rng.normal(size=better.shape)):
        assert state.value - state.gap <= value_of(objective, other, l1) + slack


@settings(max_examples=40, deadline=None)
@given(objective=flat_objectives(("max-margin",)), l1=st.sampled_from([0.0, 0.2]))
def test_max_margin_reaches_a_gap_of_a_millionth(objective, l1):
    """With L1 it comes near, too, but takes its time."""
    tolerance = 1e-4 if l1 else 1e-6
    found = FlatDual(max_iter=20_000, tolerance=tolerance).minimise(objective, zeros(objective), l1=l1)
    assert found.converged, found.message
    assert -1e-9 <= found.state.gap <= tolerance * max(found.value, 1e-3)


@settings(max_examples=20, deadline=None)
@given(objective=flat_objectives(("max-margin",), n_rows=6))
def test_max_margin_is_the_quadratic_programme(objective):
    """Against SLSQP on  min l2 |w|^2 + sum c slack,  slack_i >= s(y) + cost(y) - s(gold)."""
    features, n = objective.features, objective.corpus.n_sequences
    rows = objective.corpus.rows.toarray() if objective.corpus.is_sparse else objective.corpus.rows
    labels, costs, d = objective.gold.labels, objective.criterion.cost.table[0], features.n_features
    table = np.zeros((n, features.n_labels, d))  # scores are linear in the weights
    for f, unit in enumerate(np.eye(d)):
        columns, bias = features.split(unit)
        table[:, :, f] = rows @ columns + bias
    margins = table - table[np.arange(n), labels][:, None]

    def programme(x):
        w, slack = x[:d], x[d:]
        gradient = np.concatenate([2 * objective.l2 * w, objective.sequence_weights])
        gradient[objective.n_penalised : d] = 0.0
        return objective.l2 * w[: objective.n_penalised] @ w[: objective.n_penalised] + (
            objective.sequence_weights @ slack
        ), gradient

    slopes = np.concatenate([-margins, np.repeat(np.eye(n)[:, None], features.n_labels, axis=1)], axis=2)
    rule = {
        "type": "ineq",
        "fun": lambda x: (x[d:, None] - margins @ x[:d] - costs[labels]).ravel(),
        "jac": lambda x: slopes.reshape(-1, d + n),
    }
    start = np.concatenate([np.zeros(d), costs[labels].max(axis=1)])
    best = minimize(
        programme, start, jac=True, method="SLSQP", constraints=[rule], options={"ftol": 1e-12, "maxiter": 500}
    )
    found = FlatDual(max_iter=5000, tolerance=1e-7).minimise(objective, zeros(objective))
    if best.success:
        assert found.value == pytest.approx(best.fun, rel=1e-4, abs=1e-5)


def two_classes(seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(60, 4))
    labels = (rows[:, 0] - rows[:, 1] + 0.8 * rng.normal(size=60) > 0.4).astype(np.int32)
    return rows, labels


@pytest.mark.parametrize("seed", range(3))
def test_two_labels_are_the_binary_svm_of_liblinear(seed):
    """w_1 - w_0 is LinearSVC's vector: |w_0|^2 + |w_1|^2 is half of its square at the minimum."""
    rows, labels = two_classes(seed)
    C, scale = 0.7, 2.0
    objective = flat_objective(rows, labels, 2, "max-margin", 1.0 / C, "penalised", scale)
    found = FlatDual(max_iter=5000, tolerance=1e-9).minimise(objective, zeros(objective))
    model = LinearSVC(loss="hinge", C=C, intercept_scaling=scale, tol=1e-9, max_iter=200_000).fit(rows, labels)
    columns, bias = objective.features.split(found.weights)
    np.testing.assert_allclose(columns[:, 1] - columns[:, 0], model.coef_[0], atol=1e-4)
    assert bias[1] - bias[0] == pytest.approx(model.intercept_[0], abs=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_a_free_bias_is_that_of_libsvm(seed):
    rows, labels = two_classes(seed)
    C = 0.7
    objective = flat_objective(rows, labels, 2, "max-margin", 1.0 / C, "free")
    found = FlatDual(max_iter=5000, tolerance=1e-7).minimise(objective, zeros(objective))
    model = SVC(kernel="linear", C=C, tol=1e-8).fit(rows, labels)
    columns, _ = objective.features.split(found.weights)
    np.testing.assert_allclose(columns[:, 1] - columns[:, 0], model.coef_[0], atol=2e-3)
    margins = np.where(labels == 1, 1.0, -1.0) * model.decision_function(rows)
    theirs = np.maximum(0.0, 1.0 - margins).sum() + (model.coef_**2).sum() / (2 * C)
    assert found.value == pytest.approx(theirs, rel=1e-5)


def test_many_labels_are_those_of_crammer_and_singer():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(80, 5))
    labels = (rows[:, :4] + 0.5 * rng.normal(size=(80, 4))).argmax(axis=1)
    objective = flat_objective(rows, labels, 4, "max-margin", 0.5, "none")
    found = FlatDual(max_iter=5000, tolerance=1e-8).minimise(objective, zeros(objective))
    model = LinearSVC(multi_class="crammer_singer", C=1.0, fit_intercept=False, tol=1e-9, max_iter=200_000)
    theirs = model.fit(rows, labels).coef_.T.ravel()
    assert found.value == pytest.approx(value_of(objective, theirs), rel=1e-6)


@pytest.mark.parametrize("sparse", [False, True])
def test_logistic_regression_is_that_of_scikit_learn(sparse):
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(90, 6)) * (rng.random((90, 6)) < 0.7)
    labels = rng.integers(3, size=90)
    given_rows = sp.csr_matrix(rows) if sparse else rows
    objective = flat_objective(given_rows, labels, 3, "cll", 0.5, "free")
    found = FlatDual(tolerance=1e-9, max_iter=5000).minimise(objective, zeros(objective))
    model = LogisticRegression(C=1.0, tol=1e-10, max_iter=5000).fit(given_rows, labels)
    theirs = np.concatenate([model.coef_.T.ravel(), model.intercept_])
    assert found.value == pytest.approx(value_of(objective, theirs), rel=1e-8)
    np.testing.assert_allclose(objective.features.split(found.weights)[0], model.coef_.T, atol=1e-4)


def text(n=9000, criterion="cll", **more):
    counts, classes = generate_text_classes(n, 300, 5, 3, shortest=5, longest=12)
    return flat_objective(counts, classes, 5, criterion, 1.0, **more)


@pytest.mark.parametrize("criterion", ALL)
def test_the_weights_do_not_depend_on_threads(criterion, monkeypatch):
    monkeypatch.setattr(flat, "SINGLE_FROM", 0)
    one, two, three = (
        FlatDual(max_iter=4, tolerance=0.0).minimise(text(criterion=criterion, n_threads=n), np.zeros(1505))
        for n in (1, 2, 3)
    )
    assert one.weights.any()
    assert np.array_equal(one.weights, two.weights) and np.array_equal(one.weights, three.weights)


@pytest.mark.parametrize("criterion", ["cll", "max-margin"])
def test_many_rows_in_two_parts_end_at_the_minimum(criterion):
    objective = text(criterion=criterion)
    found = FlatDual(max_iter=2000, tolerance=1e-4).minimise(objective, zeros(objective))
    assert found.converged
    if criterion == "cll":
        best = LBFGS(tolerance=1e-9).minimise(objective, zeros(objective)).value
        assert best * (1 - 1e-9) <= found.value <= best * (1 + 1e-4)


def test_dense_rows_in_two_parts_do_not_run_away():
    """Each row moves all weights, and so do both parts."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(9000, 3)) + 2.0
    objective = flat_objective(rows, rng.integers(3, size=9000), 3, "cll", 0.01)
    values = []
    found = FlatDual(tolerance=1e-6).minimise(
        objective, zeros(objective), callback=lambda state: values.append(state.value)
    )
    assert found.converged and values[5] < values[0]
    assert "then L-BFGS" in found.message and found.state.passes < 20  # about q = 750 passes would be needed
    assert found.value == pytest.approx(EXACT.minimise(objective, zeros(objective)).value, rel=2e-6)


def test_single_precision_is_given_up_where_it_does_not_do(monkeypatch):
    monkeypatch.setattr(flat, "SINGLE_FROM", 0)
    objective = text(n=2000)
    rough = FlatDual(max_iter=2, tolerance=1e-12).minimise(objective, zeros(objective)).state
    assert rough.table.dtype == rough.alpha.dtype == np.float32
    found = FlatDual(max_iter=1000, tolerance=1e-6).minimise(objective, zeros(objective))
    assert found.converged
    assert found.value == pytest.approx(LBFGS(tolerance=1e-12).minimise(objective, zeros(objective)).value, rel=2e-6)


@settings(max_examples=20, deadline=None)
@given(objective=flat_objectives(ALL), passes=st.integers(1, 5), l1=st.sampled_from([0.0, 0.3]))
def test_a_stored_state_goes_on_as_if_never_stopped(objective, passes, l1):
    whole = DualAscent(max_iter=passes + 3, tolerance=0.0).minimise(objective, zeros(objective), l1=l1).state
    part = DualAscent(max_iter=passes, tolerance=0.0).minimise(objective, zeros(objective), l1=l1).state
    assume(getattr(part, "gap", 1.0) > 0.0)  # else it is at the minimum, and does not go on
    optimizer = DualAscent(max_iter=passes + 3, tolerance=0.0)
    again = optimizer.minimise(objective, zeros(objective), l1=l1, state=optimizer.restore(part.to_arrays())).state
    assert np.array_equal(again.weights, whole.weights) and again.value == whole.value
    assert getattr(again, "gap", None) == getattr(whole, "gap", None)  # L-BFGS, if it went on, keeps none


@settings(max_examples=30, deadline=None)
@given(objective=flat_objectives(ALL), factor=st.sampled_from([0.1, 0.5, 3.0]))
def test_a_state_or_weights_of_another_penalty_are_a_warm_start(objective, factor):
    """Where the penalty is smaller the first weights are those of before; the end is the same in any case."""
    before = FlatDual(max_iter=3000, tolerance=1e-6).minimise(objective, zeros(objective))
    was = objective.l2
    objective.l2 = was * factor
    cold = FlatDual(max_iter=5000, tolerance=1e-6).minimise(objective, zeros(objective))
    states = [None] if isinstance(before.state, FinishState) else [before.state, None]
    for state in states:
        if factor < 1.0 and state is not None:
            first = FlatDual(max_iter=0).minimise(objective, zeros(objective), state=state)
            near = 2.0 * np.sqrt(max(before.state.gap, 0.0) / was)  # both are within sqrt(gap / l2) of the minimum
            np.testing.assert_allclose(first.weights, before.weights, atol=max(1e-3, near))
        warm = FlatDual(max_iter=5000, tolerance=1e-6).minimise(objective, before.weights, state=state)
        gaps = [getattr(each.state, "gap", 0.0) for each in (warm, cold)]  # large if the passes were not enough
        assert warm.value == pytest.approx(cold.value, rel=3e-6, abs=max(3e-6, *gaps))
        assert state is None or np.array_equal(state.weights, before.weights)


def test_a_warm_start_saves_passes():
    objective = text(n=3000)
    before = FlatDual(tolerance=1e-5).minimise(objective, zeros(objective))
    objective.l2 *= 0.8
    passes = [
        FlatDual(tolerance=1e-3).minimise(objective, start, state=state).state.iteration
        for start, state in ((zeros(objective), None), (before.weights, None), (zeros(objective), before.state))
    ]
    assert passes[1] < passes[0] and passes[2] < passes[0]


@settings(max_examples=40, deadline=None)
@given(objective=flat_objectives(), l1=st.sampled_from([0.0, 0.3]))
def test_the_gap_of_any_weights_is_a_bound(objective, l1):
    best = FlatDual(max_iter=2000, tolerance=1e-7).minimise(objective, zeros(objective), l1=l1)
    rng = np.random.default_rng(0)
    problem = FlatProblem(objective, l1)
    for size in (0.0, 1e-3, 0.3):
        weights = best.weights + size * rng.normal(size=best.weights.shape)
        above = value_of(objective, weights, l1) - best.value
        assert problem.gap_of(weights) >= above - 1e-9 * (1.0 + best.value)


@settings(max_examples=15, deadline=None)
@given(objective=flat_objectives(), l1=st.sampled_from([0.0, 0.3]))
def test_after_too_many_passes_lbfgs_goes_on(objective, l1):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flat, "MOST_PASSES", 2)
        optimizer, seen = DualAscent(max_iter=2000, tolerance=1e-9), []
        found = optimizer.minimise(
            objective, zeros(objective), l1=l1, callback=lambda state: seen.append(state.to_arrays())
        )
        best = EXACT.minimise(objective, zeros(objective), l1=l1).value
        assume(best > 1e-2)
        assert found.value == pytest.approx(best, rel=1e-6, abs=1e-6)
        if len(seen) > 4:
            assert "2 passes of dual ascent, then L-BFGS" in found.message
            again = optimizer.minimise(objective, zeros(objective), l1=l1, state=optimizer.restore(seen[3]))
            assert np.array_equal(again.weights, found.weights)


def test_a_callback_stops_it_and_zero_rows_are_no_trouble():
    objective = flat_objective(np.zeros((5, 3)), [0, 1, 1, 2, 0], 3, "max-margin", 1.0, "none")
    found = FlatDual().minimise(objective, zeros(objective))
    assert found.converged and found.value == pytest.approx(5.0) and not found.weights.any()
    objective = flat_objective(np.eye(3), [0, 1, 2], 3)
    stopped = FlatDual().minimise(objective, zeros(objective), callback=lambda state: True)
    assert not stopped.converged and "after 1 pass (by the callback)" in stopped.message


def test_what_it_cannot_do_is_refused():
    objective = flat_objective(np.eye(3), [0, 1, 2], 3)
    gold, features = objective.gold, objective.features
    assert dual_unsupported_reason(make_criterion("cll"), features, gold, 1.0) is None
    assert "l2 is 0" in dual_unsupported_reason(make_criterion("cll"), features, gold, 0.0)
    assert "it is for cll" in dual_unsupported_reason(make_criterion("perceptron"), features, gold, 1.0)
    partial = Gold(np.array([-1, 1, 2], dtype=np.int32), np.ones((3, 3), dtype=np.uint8))
    assert "one label" in dual_unsupported_reason(make_criterion("cll"), features, partial, 1.0)
    objective.l2 = 0.0
    with pytest.raises(OptionError, match="use lbfgs"):
        DualAscent().minimise(objective, zeros(objective))
    other = flat_objective(np.eye(3)[:2], [0, 1], 3)
    state = FlatDual(max_iter=1).minimise(other, zeros(other)).state
    objective.l2 = 0.5
    with pytest.raises(OptionError, match="does not fit"):
        DualAscent().minimise(objective, zeros(objective), state=state)


def test_a_gap_that_lbfgs_leaves_is_said():
    """Columns of unlike size and little penalty: its own rule ends it, and the gap is still there."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 6)) * np.logspace(-2, 3, 6)
    objective = flat_objective(rows, rng.integers(3, size=60), 3, "cll", 1e-4)
    found = FlatDual(tolerance=1e-3, max_iter=1000).minimise(objective, zeros(objective))
    gap, size = FlatProblem(objective, 0.0).gap_of(found.weights), objective(found.weights)[0]
    assert isinstance(found.state, FinishState)
    assert ("primal and dual differ by" in found.message) == (gap > 1e-3 * size)
