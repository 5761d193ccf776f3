"""Dual coordinate ascent: its layout, one step by hand, what ties weights and marginals, and the optimum."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from loglinear.criteria.criterion import CostCriterion, make_criterion
from loglinear.features.encoding import EncodedCorpus, Incidence
from loglinear.optimizers.dual import chain
from loglinear.optimizers.dual.chain import DualAscent
from loglinear.optimizers.lbfgs import LBFGS
from loglinear.optimizers.objective import Objective
from loglinear.structures.chain.features import ChainFeatures, Penalties
from loglinear.structures.chain.structure import Chain
from loglinear.structures.gold import Gold
from problems.chain import chain_objectives

pytestmark = pytest.mark.usefixtures("both_forms")


def the_first_sequence(objective):
    """The problem of a corpus' first sequence alone."""
    state, end = objective.corpus.state, int(objective.corpus.offsets[1])
    pointer = state.pointer[: end + 1]
    values = None if state.values is None else state.values[: pointer[-1]]
    corpus = EncodedCorpus(objective.corpus.offsets[:2], Incidence(pointer, state.ids[: pointer[-1]], values), None)
    return Objective(
        objective.features, corpus, objective.gold.slice(0, end), objective.criterion, objective.penalties,
        objective.l2, objective.sequence_weights[:1],
    )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(objective=chain_objectives())
def test_the_first_step_is_down_the_gradient(objective):
    """From zero, a pass over one sequence moves the weights by share / 2 l2 along its gradient."""
    one = the_first_sequence(objective)
    value, gradient = one(np.zeros(one.features.n_features))
    after = DualAscent(max_iter=1).minimise(one, np.zeros(one.features.n_features)).state
    along = after.weights @ gradient
    share = -along * 2.0 * one.l2 / max(gradient @ gradient, 1e-12)
    np.testing.assert_allclose(after.weights, -share * gradient / (2.0 * one.l2), atol=1e-5)
    assert -1e-6 <= share <= 1.0 + 1e-4
    assert after.value == pytest.approx(value + one.l2 * after.weights @ after.weights, rel=1e-5, abs=1e-5)


@settings(max_examples=60, deadline=None)
@given(objective=chain_objectives())
def test_the_share_of_a_step_is_that_of_the_second_order(objective):
    """share = J / (J + c Q / 2 l2), from marginals and gradient that are made in another way."""
    one = the_first_sequence(objective)
    features, weight = one.features, one.sequence_weights[0]
    ids = one.corpus.state.ids.tolist()
    assume(len(set(ids)) == len(ids) and weight > 1e-3)  # a single feature that is looked at twice is taken for two
    zero = np.zeros(features.n_features)
    scores = features.scores(features.lay_out(zero, one.penalties), one.corpus, 0, 1)
    chain = Chain(one.corpus.offsets)
    if isinstance(one.criterion, CostCriterion):
        scores = one.criterion.augmented(chain, scores, one.gold)
    now = chain.expectations(scores)[1].emission
    gold = np.eye(features.n_labels)[one.gold.labels]
    size = np.sum(2.0 * (now - gold) ** 2 / (now + gold + 1e-9))
    gradient = one(zero)[1] / weight  # of the loss alone, as the weights are zero
    share = size / (size + weight * (gradient @ gradient) / (2.0 * one.l2) + 1e-12)
    after = DualAscent(max_iter=1).minimise(one, zero).state
    np.testing.assert_allclose(after.weights, -share * weight * gradient / (2.0 * one.l2), atol=1e-4)


@pytest.mark.parametrize("width", [8, 16, 24, 32, 40, 48, 56, 64, 72, 130])
@settings(max_examples=10, deadline=None)
@given(data=st.data(), passes=st.integers(1, 6))
def test_the_weights_are_what_the_kept_marginals_make_of_them(width, data, passes):
    objective = data.draw(chain_objectives(labels=st.integers(max(1, width - 7), width)))
    features = objective.features
    state = DualAscent(max_iter=passes, tolerance=0.0).minimise(objective, np.zeros(features.n_features)).state
    assume(isinstance(state, chain.DualState))
    weight = objective.sequence_weights
    lengths = np.diff(objective.corpus.offsets)
    gold = np.eye(features.n_labels)[objective.gold.labels]
    emission = (state.alpha[:, : features.n_labels].astype(np.float64) - gold) * np.repeat(weight, lengths)[:, None]
    vector, rows = np.zeros(features.n_features), np.zeros((features.state.n_rows, features.n_labels))
    own = features.slices[0]
    features.state.add_gradient(objective.corpus.state, 0, len(emission), emission, vector[own], rows)
    features.state.gather(rows, vector[own])
    labels, offsets = objective.gold.labels, objective.corpus.offsets
    for i, (first, end) in enumerate(pairwise(offsets)):
        for f, code in enumerate(features.transitions):
            steps = np.sum(labels[first : end - 1] * features.n_labels + labels[first + 1 : end] == code)
            vector[features.slices[2]][f] += weight[i] * (state.alpha_transitions[i, f] - steps)
    np.testing.assert_allclose(state.weights, -vector / (2.0 * objective.l2), atol=1e-4)
    missing = objective.layout.zeros().rows
    assert np.array_equal(np.signbit(state.rows) & (state.rows == 0.0), np.signbit(missing))


@settings(max_examples=25, deadline=None)
@given(objective=chain_objectives())
def test_it_ends_where_lbfgs_does(objective):
    zero = np.zeros(objective.features.n_features)
    best = LBFGS(max_iter=500, tolerance=1e-12).minimise(objective, zero).value
    found = DualAscent(max_iter=400, tolerance=1e-9).minimise(objective, zero)
    assert objective(found.weights)[0] == pytest.approx(best, rel=2e-4, abs=2e-4)


@settings(max_examples=25, deadline=None)
@given(objective=chain_objectives(), l1=st.sampled_from([0.1, 0.5, 2.0]))
def test_with_l1_it_ends_where_owlqn_does_and_as_sparse(objective, l1):
    zero = np.zeros(objective.features.n_features)
    best = LBFGS(max_iter=1000, tolerance=1e-12).minimise(objective, zero, l1=l1)
    found = DualAscent(max_iter=600, tolerance=1e-9).minimise(objective, zero, l1=l1)
    value = objective(found.weights)[0] + l1 * np.abs(found.weights).sum()
    assert value == pytest.approx(best.value, rel=2e-4, abs=2e-4)
    assert found.state.value == pytest.approx(value, rel=1e-3, abs=1e-3)
    assert np.all(np.abs(found.weights[np.abs(best.weights) < 1e-12]) < 0.05)


@settings(max_examples=25, deadline=None)
@given(objective=chain_objectives())
def test_it_stops_near_the_minimum(objective):
    """The gap is an estimate, as positions are not independent; it is right within a small factor."""
    zero = np.zeros(objective.features.n_features)
    best = LBFGS(max_iter=500, tolerance=1e-12).minimise(objective, zero).value
    found = DualAscent(max_iter=400).minimise(objective, zero)
    assert found.converged and ("differ by less than 0.002" in found.message or "L-BFGS" in found.message)
    assert objective(found.weights)[0] <= best * 1.005 + 1e-6


@settings(max_examples=10, deadline=None)
@given(objective=chain_objectives(), passes=st.integers(1, 5), l1=st.sampled_from([0.0, 0.3]))
def test_a_stored_state_goes_on_as_if_never_stopped(objective, passes, l1):
    zero = np.zeros(objective.features.n_features)
    whole = DualAscent(max_iter=passes + 3, tolerance=0.0).minimise(objective, zero, l1=l1).state
    part = DualAscent(max_iter=passes, tolerance=0.0).minimise(objective, zero, l1=l1).state
    optimizer = DualAscent(max_iter=passes + 3, tolerance=0.0)
    again = optimizer.minimise(objective, zero, l1=l1, state=optimizer.restore(part.to_arrays())).state
    assert np.array_equal(again.weights, whole.weights) and again.value == whole.value


@settings(max_examples=15, deadline=None)
@given(objective=chain_objectives(), l1=st.sampled_from([0.0, 0.3]))
def test_where_steps_do_not_fit_lbfgs_goes_on(objective, l1):
    """With no pass allowed before it, the end is that of L-BFGS, and a stored state goes on exactly."""
    zero = np.zeros(objective.features.n_features)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chain, "MOST_PASSES", 2)
        optimizer = DualAscent(max_iter=300, tolerance=1e-12)
        seen = []
        found = optimizer.minimise(objective, zero, l1=l1, callback=lambda state: seen.append(state.to_arrays()))
        best = LBFGS(max_iter=300, tolerance=1e-11).minimise(objective, zero, l1=l1)
        assert found.value == pytest.approx(best.value, rel=1e-5, abs=1e-6)
        if len(seen) > 4:
            assert "passes of dual ascent, then L-BFGS" in found.message and found.state.iteration == len(seen)
            again = optimizer.minimise(objective, zero, l1=l1, state=optimizer.restore(seen[3]))
            assert np.array_equal(again.weights, found.weights) and again.state.iteration == len(seen)


@pytest.mark.parametrize("largest", [10.0, 2_000.0, 1e5])
def test_features_of_unlike_scale_end_no_worse_than_with_lbfgs(largest):
    """One attribute of large values beside many of value one: steps of one sequence throw the weights far off."""
    rng = np.random.default_rng(0)
    offsets = np.arange(0, 401, 8).astype(np.int64)
    labels = rng.integers(0, 4, 400).astype(np.int32)
    ids = np.stack([np.zeros(400), 1 + labels * 5 + rng.integers(0, 8, 400)], axis=1).ravel().astype(np.int32)
    values = np.stack([rng.integers(0, largest, 400), np.ones(400)], axis=1).ravel().astype(np.float64)
    corpus = EncodedCorpus(offsets, Incidence(np.arange(0, 801, 2).astype(np.int64), ids, values), None)
    features = ChainFeatures.collect(corpus, 24, Gold(labels), 4, 1, "observed", "observed")
    objective = Objective(features, corpus, Gold(labels), make_criterion("cll"), Penalties.none(4), 1.0)
    zero = np.zeros(features.n_features)
    best = LBFGS().minimise(objective, zero).value
    found = DualAscent().minimise(objective, zero)
    assert objective(found.weights)[0] <= 1.005 * best
