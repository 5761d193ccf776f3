"""Dual ascent for criteria of a chain's pieces, and for segments: losses, weights and what is kept, the optimum."""

import io

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from loglinear import Tagger, read_columns
from loglinear.criteria.criterion import make_criterion
from loglinear.data.corpora.bundled import bundled_text
from loglinear.optimizers.dual.chain import DualAscent, dual_unsupported_reason
from loglinear.optimizers.lbfgs import LBFGS
from loglinear.optimizers.objective import Objective
from loglinear.structures.chain.conditionals import LocalLayout
from loglinear.structures.chain.padded import PaddedLayout
from loglinear.structures.gold import Gold
from problems.chain import chain_objectives
from problems.segments import segment_objectives

CONDITIONALS = ("memm", "pseudolikelihood")
PIECES = ("piecewise", "nota", "nota:rate=0.5", "nota:threshold=0.5")


def by(spec, objective):
    """The same problem with another criterion."""
    criterion, features = make_criterion(spec), objective.features
    rng = np.random.default_rng(0)
    gold = criterion.choose(objective.gold, objective.corpus.offsets, features.n_labels, features.order, rng)
    return Objective(
        features, objective.corpus, gold, criterion, objective.penalties, objective.l2, objective.sequence_weights
    )


def quick(objective):
    """The same problem in single precision."""
    return Objective(
        objective.features, objective.corpus, objective.gold, objective.criterion, objective.penalties, objective.l2,
        objective.sequence_weights, single_precision=True,
    )  # fmt: skip


conditionals = st.builds(by, st.sampled_from(CONDITIONALS), chain_objectives(orders=(1, 2), edges=True))
pieces = st.builds(by, st.sampled_from(PIECES), chain_objectives(orders=(1, 2), edges=True))
local = conditionals | pieces
any_layout = local | segment_objectives()


def best(objective, l1=0.0):
    zero = np.zeros(objective.features.n_features)
    return LBFGS(max_iter=1000, tolerance=1e-12).minimise(objective, zero, l1=l1)


@settings(max_examples=80, deadline=None)
@given(objective=any_layout, seed=st.integers(0, 1000), scale=st.sampled_from([0.1, 1.0, 5.0]))
def test_the_value_is_that_of_double_precision(objective, seed, scale):
    weights = scale * np.random.default_rng(seed).normal(size=objective.features.n_features)
    size = max(scale, 1.0) * objective.sequence_weights.max()
    assert quick(objective).value(weights) == pytest.approx(objective(weights)[0], rel=1e-5, abs=1e-4 * size)


@settings(max_examples=30, deadline=None)
@given(objective=any_layout, seed=st.integers(0, 1000))
def test_the_layout_keeps_every_weight(objective, seed):
    weights = np.random.default_rng(seed).normal(size=objective.features.n_features).astype(np.float32)
    layout = objective.layout
    laid_out = layout.lay_out(weights.astype(np.float64))
    assert np.array_equal(layout.vector(*laid_out), weights)
    assert all(np.array_equal(*pair) for pair in zip(layout.copy(laid_out), laid_out, strict=True))


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(objective=conditionals)
def test_a_first_step_goes_down_the_gradient_of_its_position(objective):
    """One sequence of one position: from zero, the step is a share of the gradient."""
    zero = np.zeros(objective.features.n_features)
    assume(objective.corpus.n_positions == 1)
    _, gradient = objective(zero)
    after = DualAscent(max_iter=1).minimise(objective, zero).weights
    share = -(after @ gradient) * 2.0 * objective.l2 / max(gradient @ gradient, 1e-12)
    np.testing.assert_allclose(after, -share * gradient / (2.0 * objective.l2), atol=1e-5)


@settings(max_examples=40, deadline=None)
@given(objective=any_layout, l1=st.sampled_from([0.0, 0.0, 0.1, 1.0]))
def test_it_ends_where_lbfgs_does(objective, l1):
    zero = np.zeros(objective.features.n_features)
    found = DualAscent(max_iter=400, tolerance=1e-9).minimise(objective, zero, l1=l1)
    value = objective(found.weights)[0] + l1 * np.abs(found.weights).sum()
    assert value == pytest.approx(best(objective, l1).value, rel=2e-4, abs=2e-4)


@settings(max_examples=40, deadline=None)
@given(objective=any_layout, l1=st.sampled_from([0.0, 0.0, 0.3]))
def test_it_stops_near_the_minimum(objective, l1):
    zero = np.zeros(objective.features.n_features)
    found = DualAscent(max_iter=400).minimise(objective, zero, l1=l1)
    assert found.converged
    value = objective(found.weights)[0] + l1 * np.abs(found.weights).sum()
    assert value <= best(objective, l1).value * 1.005 + 1e-6


@settings(max_examples=20, deadline=None)
@given(objective=any_layout, passes=st.integers(1, 5), l1=st.sampled_from([0.0, 0.3]))
def test_a_stored_state_goes_on_as_if_never_stopped(objective, passes, l1):
    zero = np.zeros(objective.features.n_features)
    optimizer = DualAscent(max_iter=passes + 3, tolerance=0.0)
    whole = optimizer.minimise(objective, zero, l1=l1).state
    part = DualAscent(max_iter=passes, tolerance=0.0).minimise(objective, zero, l1=l1).state
    again = optimizer.minimise(objective, zero, l1=l1, state=optimizer.restore(part.to_arrays())).state
    assert np.array_equal(again.weights, whole.weights) and again.value == whole.value


@pytest.fixture(scope="module")
def chunking():
    return read_columns(io.BytesIO(bundled_text("train", "chunk").encode()))


KINDS = [
    *((name, order, False) for name in CONDITIONALS + PIECES for order in (1, 2)),
    *((name, order, True) for name in ("piecewise", "nota") for order in (1, 2)),
]


@pytest.mark.parametrize(("criterion", "order", "pair_features"), KINDS)
def test_it_is_the_default_and_finds_the_minimum(chunking, criterion, order, pair_features):
    options = {"criterion": criterion, "order": order, "pair_features": pair_features, "template": "chunking"}
    found = Tagger(**options).fit(chunking)
    left_to_lbfgs = (criterion, order, pair_features) == ("nota", 2, True)  # its scores leave single precision
    assert ("then L-BFGS" if left_to_lbfgs else "primal and dual differ") in found.message_
    exact = Tagger(optimizer="lbfgs", **options).fit(chunking)
    near = 1e-2 if "threshold" in criterion else 1e-3  # the contexts are those of two different models half-way
    assert found.objective_ == pytest.approx(exact.objective_, rel=near)


@pytest.mark.parametrize(("criterion", "order", "pair_features"), [kind for kind in KINDS if kind[1] == 1 or kind[2]])
def test_a_training_is_the_same_for_any_number_of_threads(chunking, criterion, order, pair_features, monkeypatch):
    monkeypatch.setattr(PaddedLayout, "sequences_a_part", 5)
    monkeypatch.setattr(LocalLayout, "sequences_a_part", 5)
    options = {"criterion": criterion, "order": order, "pair_features": pair_features, "template": "chunking"}
    trained = [Tagger(max_iter=4, threads=threads, **options).fit(chunking) for threads in (1, 2, 3)]
    for other in trained[1:]:
        assert np.array_equal(trained[0].model_.weights, other.model_.weights)
        assert trained[0].objective_ == other.objective_


@settings(max_examples=20, deadline=None)
@given(objective=local)
def test_what_it_does_not_support_is_left_to_lbfgs(objective):
    features, gold, criterion = objective.features, objective.gold, objective.criterion
    assert dual_unsupported_reason(criterion, features, gold, 1.0) is None
    assert "L2" in dual_unsupported_reason(criterion, features, gold, 0.0)
    partial = Gold(gold.labels, np.ones((len(gold.labels), features.n_labels), dtype=np.uint8))
    assert "one label" in dual_unsupported_reason(criterion, features, partial, 1.0)
    joint = make_criterion("pseudolikelihood:joint")
    assert "columns" in dual_unsupported_reason(joint, features, gold, 1.0)
