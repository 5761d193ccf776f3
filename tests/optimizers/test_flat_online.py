"""Compiled passes over flat labels give the weights of the passes in Python."""

import numpy as np
import pytest
from flat_problems import flat_objectives
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.criteria.criterion import make_criterion
from loglinear.optimizers import flat_online
from loglinear.optimizers.flat_online import FlatOnline
from loglinear.optimizers.online import Online
from loglinear.structures.gold import Gold

SPECS = [
    "perceptron", "mira", "mira:k=3,C=0.2", "mira:k=9", "passive-aggressive", "passive-aggressive:variant=0",
    "passive-aggressive:variant=2,C=0.3",
]  # fmt: skip


@pytest.mark.parametrize("spec", SPECS)
@settings(max_examples=25, deadline=None)
@given(objective=flat_objectives(("max-margin",)), average=st.booleans(), seed=st.integers(0, 5))
def test_a_compiled_pass_is_that_in_python(spec, objective, average, seed):
    objective.criterion = make_criterion(spec, None if spec == "perceptron" else objective.criterion.cost)
    optimizer = Online(max_iter=3, seed=seed, average=average)
    start = np.random.default_rng(seed).normal(size=objective.features.n_features)
    assert FlatOnline.of(objective) is not None
    compiled = optimizer.minimise(objective, start).state
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flat_online, "learner_of", lambda criterion: None)
        assert FlatOnline.of(objective) is None
        plain = optimizer.minimise(objective, start).state
    np.testing.assert_allclose(compiled.weights, plain.weights, rtol=0, atol=1e-10)
    np.testing.assert_allclose(compiled.current, plain.current, rtol=0, atol=1e-10)
    assert compiled.value == pytest.approx(plain.value, abs=1e-9) and compiled.moves == plain.moves


@settings(max_examples=10, deadline=None)
@given(objective=flat_objectives(("max-margin",)))
def test_a_stored_state_goes_on_as_if_never_stopped(objective):
    zero = np.zeros(objective.features.n_features)
    objective.criterion = make_criterion("mira", objective.criterion.cost)
    whole = Online(max_iter=4, tolerance=0.0).minimise(objective, zero).state
    part = Online(max_iter=2, tolerance=0.0).minimise(objective, zero).state
    again = Online(max_iter=4, tolerance=0.0)
    state = again.minimise(objective, zero, state=again.restore(part.to_arrays())).state
    assert np.array_equal(state.weights, whole.weights) and state.value == whole.value


@settings(max_examples=5, deadline=None)
@given(objective=flat_objectives(("max-margin",), n_rows=4))
def test_partial_labels_go_the_general_way(objective):
    objective.criterion = make_criterion("perceptron")
    y = objective.features.n_labels
    objective.gold = Gold(np.full(4, -1, dtype=np.int32), np.ones((4, y), dtype=np.uint8))
    assert FlatOnline.of(objective) is None
