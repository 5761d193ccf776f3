"""Online learning in rounds: one group is one machine, what mixing does, lost groups, and the order of groups."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.criteria.costs import make_cost
from loglinear.criteria.criterion import CRITERIA, make_criterion
from loglinear.optimizers.objective import Objective
from loglinear.optimizers.online.general import Online
from problems.groups import InGroups, cut_objectives

LEARNERS = ("perceptron", "mira", "mira:k=3", "passive-aggressive", "arow")


@st.composite
def problems(draw):
    objective, cuts = draw(cut_objectives())
    spec, labels = draw(st.sampled_from(LEARNERS)), [str(y) for y in range(objective.features.n_labels)]
    criterion = make_criterion(
        spec, make_cost("hamming", labels, np.ones(len(labels))) if CRITERIA.part(spec).uses_cost else None
    )
    parts = objective.features, objective.corpus, objective.gold, criterion, objective.penalties
    return Objective(*parts, 0.0, objective.sequence_weights), cuts


def run(apart, average, state=None, rounds=3):
    options = Online(max_iter=rounds, tolerance=0.0, average=average)
    return options.minimise(apart, np.zeros(apart.n_features), state=state).state


@pytest.mark.parametrize("average", [True, False])
@settings(max_examples=20, deadline=None)
@given(drawn=problems())
def test_one_group_learns_as_one_machine_does_with_its_seed(average, drawn):
    objective, _ = drawn
    apart = InGroups(objective, [])
    seed = int(np.random.default_rng([0, 0]).integers(2**31))
    alone = Online(max_iter=3, tolerance=0.0, average=average, seed=seed)
    _, of, local = apart.parts[0]
    expected = np.zeros(objective.features.n_features)
    expected[of] = alone.minimise(local, np.zeros(local.features.n_features)).weights
    assert np.array_equal(run(apart, average).weights, expected)


@settings(max_examples=20, deadline=None)
@given(drawn=problems())
def test_shared_weights_are_means_of_the_groups_that_have_them(drawn):
    objective, cuts = drawn
    apart = InGroups(objective, cuts)
    found = run(apart, False, rounds=1).weights
    sums, among = np.zeros(len(found)), np.zeros(len(found))
    for k, (_, of, local) in enumerate(apart.parts):
        seed = int(np.random.default_rng([0, k]).integers(2**31))
        alone = Online(max_iter=1, tolerance=0.0, average=False, seed=seed)
        sums[of] += alone.minimise(local, np.zeros(local.features.n_features)).weights
        among[of] += 1
    np.testing.assert_allclose(found, sums / np.maximum(among, 1), atol=1e-12)


@pytest.mark.parametrize("average", [True, False])
@settings(max_examples=10, deadline=None)
@given(drawn=problems(), data=st.data())
def test_lost_groups_and_the_order_of_work_change_no_bit(average, drawn, data):
    objective, cuts = drawn
    lost = data.draw(st.lists(st.integers(0, len(cuts)), unique=True))
    one = run(InGroups(objective, cuts), average)
    other = run(InGroups(objective, cuts, lost, backwards=True), average)
    assert np.array_equal(one.weights, other.weights) and one.value == other.value


@settings(max_examples=10, deadline=None)
@given(drawn=problems(), average=st.booleans())
def test_a_stored_state_goes_on_as_if_never_stopped(drawn, average):
    objective, cuts = drawn
    whole = run(InGroups(objective, cuts), average, rounds=5)
    first = run(InGroups(objective, cuts), average, rounds=2)
    stored = Online().restore(first.to_arrays())
    again = run(InGroups(objective, cuts), average, stored, rounds=5)
    assert np.array_equal(again.weights, whole.weights) and again.value == whole.value
