"""Risk and its Jensen bound by steps of dual ascent: what ties weights and kept gradients, and where it ends."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from loglinear import Tagger
from loglinear.criteria.criterion import make_criterion
from loglinear.optimizers.dual import chain
from loglinear.optimizers.dual.chain import DualAscent
from loglinear.optimizers.objective import Objective
from problems.chain import chain_objectives

RISKY = ("jrb", "risk")
DATA = (
    [[["the"], ["dog"], ["runs"]], [["a"], ["cat"], ["sees"], ["the"], ["bird"]], [["dogs"], ["run"]], [["run"]]] * 2,
    [["D", "N", "V"], ["D", "N", "V", "D", "N"], ["N", "V"], ["V"]] * 2,
)  #: sentences and their labels


def of_likelihood(objective):
    """The same problem by conditional likelihood."""
    return Objective(
        objective.features, objective.corpus, objective.gold, make_criterion("cll"), objective.penalties,
        objective.l2, objective.sequence_weights,
    )  # fmt: skip


def from_likelihood(objective, optimizer, l1=0.0, callback=None):
    """The result of an optimizer that goes on from dual ascent of the conditional likelihood."""
    zero = np.zeros(objective.features.n_features)
    before = DualAscent().minimise(of_likelihood(objective), zero, l1=l1)
    assume(isinstance(before.state, chain.DualState))
    state = optimizer.take_over(before.state, objective)
    return optimizer.minimise(objective, before.weights, l1=l1, state=state, callback=callback)


def weights_of_kept(objective, state):
    """-(1 / 2 l2) sum_i c_i E_alpha_i[f], from the definition."""
    features, weight = objective.features, objective.sequence_weights
    gold = np.eye(features.n_labels)[objective.gold.labels]
    each = np.repeat(weight, np.diff(objective.corpus.offsets))[:, None]
    emission = (state.alpha[:, : features.n_labels].astype(np.float64) - gold) * each
    vector, rows = np.zeros(features.n_features), np.zeros((features.state.n_rows, features.n_labels))
    own = features.slices[0]
    features.state.add_gradient(objective.corpus.state, 0, len(emission), emission, vector[own], rows)
    features.state.gather(rows, vector[own])
    for i, (first, end) in enumerate(pairwise(objective.corpus.offsets)):
        labels = objective.gold.labels[first:end]
        for f, code in enumerate(features.transitions):
            steps = np.sum(labels[:-1] * features.n_labels + labels[1:] == code)
            vector[features.slices[2]][f] += weight[i] * (state.alpha_transitions[i, f] - steps)
    return -vector / (2.0 * objective.l2)


@settings(max_examples=40, deadline=None)
@given(objective=chain_objectives(criteria=RISKY), passes=st.integers(1, 6))
def test_the_weights_are_what_the_kept_gradients_make_of_them(objective, passes):
    state = from_likelihood(objective, DualAscent(max_iter=passes, tolerance=0.0)).state
    assume(isinstance(state, chain.DualState))
    np.testing.assert_allclose(state.weights, weights_of_kept(objective, state), atol=1e-4)


@settings(max_examples=40, deadline=None)
@given(objective=chain_objectives(criteria=RISKY), l1=st.sampled_from([0.0, 0.0, 0.2]))
def test_it_ends_at_a_stationary_point_below_the_start(objective, l1):
    zero = np.zeros(objective.features.n_features)
    start = DualAscent().minimise(of_likelihood(objective), zero, l1=l1).weights
    found = from_likelihood(objective, DualAscent(max_iter=400, tolerance=1e-9), l1)
    before = objective(start)[0] + l1 * np.abs(start).sum()
    value, gradient = objective(found.weights)
    assert value + l1 * np.abs(found.weights).sum() <= before + 1e-4
    free = np.where(found.weights == 0.0, np.abs(gradient) - l1, np.abs(gradient + l1 * np.sign(found.weights)))
    assert free.max(initial=0.0) <= 0.02 * max(1.0, objective.sequence_weights.max())


@settings(max_examples=25, deadline=None)
@given(objective=chain_objectives(criteria=RISKY))
def test_the_default_stop_leaves_little_of_the_gradient(objective):
    """Not how far the minimum is: another one may lie beyond a flat stretch, and L-BFGS may find that."""
    zero = np.zeros(objective.features.n_features)
    start = DualAscent().minimise(of_likelihood(objective), zero).weights
    found = from_likelihood(objective, DualAscent())
    assert found.converged
    (before, steep), (after, left) = (
        (value, np.linalg.norm(gradient)) for value, gradient in map(objective, (start, found.weights))
    )  # one after the other: the gradient's array is used again
    assert after <= before + 1e-4
    assert left <= 0.5 * steep + 1e-3


@settings(max_examples=10, deadline=None)
@given(objective=chain_objectives(criteria=RISKY), passes=st.integers(1, 5), l1=st.sampled_from([0.0, 0.3]))
def test_a_stored_state_goes_on_as_if_never_stopped(objective, passes, l1):
    optimizer, seen = DualAscent(max_iter=passes + 3, tolerance=0.0), []
    whole = from_likelihood(objective, optimizer, l1, lambda state: seen.append(state.to_arrays()))
    assume(len(seen) >= passes)  # unless there is nothing to learn
    again = optimizer.minimise(objective, 0.0 * whole.weights, l1=l1, state=optimizer.restore(seen[passes - 1]))
    assert np.array_equal(again.weights, whole.weights) and again.state.value == whole.state.value


def test_from_weights_without_a_state_lbfgs_goes_on():
    problem = Tagger(template="words").problem(*DATA)
    objective = problem.objective(problem.criterion("risk", "hamming"), 1.0, 1)
    start = np.random.default_rng(0).normal(size=objective.features.n_features)
    found = DualAscent().minimise(objective, start)
    assert found.message.startswith("L-BFGS: ")
    assert objective(found.weights)[0] < objective(start)[0]


@pytest.mark.parametrize("criterion", RISKY)
def test_a_tagger_is_the_same_for_any_number_of_threads(criterion):
    X, y = [list(each) * 350 for each in DATA]  # enough for two parts
    options = {"criterion": criterion, "template": "words", "max_iter": 2, "tolerance": 0.0}
    one, other = (Tagger(threads=threads, **options).fit(X, y) for threads in (1, 3))
    assert np.array_equal(one.model_.weights, other.model_.weights) and one.objective_ == other.objective_


@pytest.mark.parametrize("criterion", RISKY)
def test_it_is_the_default_from_likelihood_and_lbfgs_from_another_model(criterion):
    options = {"criterion": criterion, "template": "words"}
    tagger = Tagger(**options).fit(*DATA)
    assert "passes" in tagger.message_ and [p.phase for p in tagger.history_][-1] == "main"
    slow = Tagger(optimizer="lbfgs", **options).fit(*DATA)
    assert tagger.objective_ == pytest.approx(slow.objective_, rel=0.05)
    init = Tagger(template="words").fit(*DATA)
    again = Tagger(max_iter=1, tolerance=0.0, **options).fit(*DATA, init=init)
    assert "iteration" in again.message_
