"""Dual ascent in rounds: what ties weights and marginals, the minimum, lost groups, and the order of groups."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from loglinear.optimizers.dual.chain import DualAscent
from loglinear.optimizers.dual.general import FinishState
from loglinear.optimizers.dual.rounds import DualRounds
from loglinear.optimizers.lbfgs import LBFGS
from problems.groups import InGroups, cut_objectives


def run(apart, state=None, max_iter=400, tolerance=1e-9):
    zero = np.zeros(apart.n_features)
    return DualAscent(max_iter=max_iter, tolerance=tolerance).minimise(apart, zero, state=state)


@settings(max_examples=40, deadline=None)
@given(drawn=cut_objectives())
def test_it_ends_where_lbfgs_does(drawn):
    objective, cuts = drawn
    best = LBFGS(max_iter=500, tolerance=1e-12).minimise(objective, np.zeros(objective.features.n_features)).value
    found = run(InGroups(objective, cuts))
    assert objective(found.weights)[0] == pytest.approx(best, rel=2e-4, abs=2e-4)


@settings(max_examples=40, deadline=None)
@given(drawn=cut_objectives(), rounds=st.integers(1, 6))
def test_the_weights_are_what_the_kept_marginals_make_of_them(drawn, rounds):
    """w = -(1 / 2 l2) sum_i c_i (E_alpha_i[f] - f(gold_i)), whoever has which sequence."""
    objective, cuts = drawn
    apart = InGroups(objective, cuts)
    state = run(apart, max_iter=rounds, tolerance=0.0).state
    assume(isinstance(state, DualRounds))
    expected = np.zeros(objective.features.n_features)
    for (_, of, local), member in zip(apart.parts, apart.last.members, strict=True):
        np.add.at(expected, of, -moved(local, member.kept) / (2.0 * objective.l2))
    np.testing.assert_allclose(state.weights, expected, atol=2e-4)


def moved(local, kept):
    """sum_i c_i (E_alpha_i[f] - f(gold_i)) of a group [D]."""
    features, offsets, labels = local.features, local.corpus.offsets, local.gold.labels
    lengths, gold = np.diff(offsets), np.eye(features.n_labels)[labels]
    change = kept.alpha[:, : features.n_labels].astype(np.float64) - gold
    change *= np.repeat(local.sequence_weights, lengths)[:, None]
    vector, rows = np.zeros(features.n_features), np.zeros((features.state.n_rows, features.n_labels))
    state, _, transition, *_ = features.slices
    features.state.add_gradient(local.corpus.state, 0, len(change), change, vector[state], rows)
    features.state.gather(rows, vector[state])
    for i in range(len(lengths)):
        own = labels[offsets[i] : offsets[i + 1]]
        steps = own[:-1] * features.n_labels + own[1:]
        counts = np.array([np.sum(steps == code) for code in features.transitions])
        vector[transition] += local.sequence_weights[i] * (kept.transitions[i] - counts)
    return vector


@settings(max_examples=15, deadline=None)
@given(drawn=cut_objectives(), data=st.data())
def test_lost_groups_and_the_order_of_work_change_no_bit(drawn, data):
    objective, cuts = drawn
    lost = data.draw(st.lists(st.integers(0, len(cuts)), unique=True))
    one = run(InGroups(objective, cuts), max_iter=4, tolerance=0.0).state
    other = run(InGroups(objective, cuts, lost, backwards=True), max_iter=4, tolerance=0.0).state
    assert np.array_equal(one.weights, other.weights) and one.value == other.value


@settings(max_examples=15, deadline=None)
@given(drawn=cut_objectives(), rounds=st.integers(1, 5))
def test_a_stored_state_goes_on_as_if_never_stopped(drawn, rounds):
    objective, cuts = drawn
    whole = run(InGroups(objective, cuts), max_iter=rounds + 3, tolerance=0.0).state
    first = run(InGroups(objective, cuts), max_iter=rounds, tolerance=0.0).state
    assume(not isinstance(first, FinishState))
    stored = DualAscent().restore(first.to_arrays())
    again = run(InGroups(objective, cuts), stored, max_iter=rounds + 3, tolerance=0.0).state
    assert np.array_equal(again.weights, whole.weights) and again.value == whole.value
