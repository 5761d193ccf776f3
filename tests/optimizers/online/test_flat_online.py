"""Compiled passes over flat labels give the weights of the passes in Python."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.criteria.criterion import make_criterion
from loglinear.optimizers.online import flat
from loglinear.optimizers.online.flat import FlatOnline
from loglinear.structures.gold import Gold
from problems.flat import flat_objectives
from referees.online import SPECS, assert_as_in_python, assert_goes_on


@pytest.mark.parametrize("spec", SPECS)
@settings(max_examples=25, deadline=None)
@given(objective=flat_objectives(("max-margin",)), average=st.booleans(), seed=st.integers(0, 5))
def test_a_compiled_pass_is_that_in_python(spec, objective, average, seed):
    objective.criterion = make_criterion(spec, None if spec == "perceptron" else objective.criterion.cost)
    assert FlatOnline.of(objective) is not None
    assert_as_in_python(objective, flat, average, seed)


@settings(max_examples=10, deadline=None)
@given(objective=flat_objectives(("max-margin",)))
def test_a_stored_state_goes_on_as_if_never_stopped(objective):
    objective.criterion = make_criterion("mira", objective.criterion.cost)
    assert_goes_on(objective)


@settings(max_examples=5, deadline=None)
@given(objective=flat_objectives(("max-margin",), n_rows=4))
def test_partial_labels_go_the_general_way(objective):
    objective.criterion = make_criterion("perceptron")
    y = objective.features.n_labels
    objective.gold = Gold(np.full(4, -1, dtype=np.int32), np.ones((4, y), dtype=np.uint8))
    assert FlatOnline.of(objective) is None
