"""Compiled passes over chains give the weights of the passes in Python."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.criteria.costs import Cost
from loglinear.criteria.criterion import make_criterion
from loglinear.errors import DataError, InfeasibleError
from loglinear.optimizers.online import chain
from loglinear.optimizers.online.chain import ChainOnline
from loglinear.optimizers.online.general import Online
from loglinear.structures.gold import Gold
from problems.chain import chain_objectives
from referees.online import SPECS, assert_as_in_python, assert_goes_on

problems = chain_objectives(orders=(1, 2), edges=True)


def learns_by(objective, spec, seed=0):
    n, rng = objective.features.n_labels, np.random.default_rng(seed)
    cost = None if spec == "perceptron" else Cost(rng.random((4, n, n)) * (1 - np.eye(n)))
    objective.criterion = make_criterion(spec, cost)
    return objective


@pytest.mark.parametrize("spec", SPECS)
@settings(max_examples=40, deadline=None)
@given(objective=problems, average=st.booleans(), seed=st.integers(0, 5), at_once=st.sampled_from([1, 3, 4096]))
def test_a_compiled_pass_is_that_in_python(spec, objective, average, seed, at_once):
    learns_by(objective, spec, seed)
    assert ChainOnline.of(objective) is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chain, "AT_ONCE", at_once)
        # A step of MIRA makes labellings tie, and rounding says which is next: with values, sums are in another order.
        passes = 1 if objective.corpus.state.values is not None else 3
        assert_as_in_python(objective, chain, average, seed, passes)


@settings(max_examples=10, deadline=None)
@given(objective=problems)
def test_a_stored_state_goes_on_as_if_never_stopped(objective):
    assert_goes_on(learns_by(objective, "mira:k=2"))


@settings(max_examples=5, deadline=None)
@given(objective=problems)
def test_partial_labels_go_the_general_way(objective):
    learns_by(objective, "perceptron")
    n, y = int(objective.corpus.offsets[-1]), objective.features.n_labels
    assert ChainOnline.of(objective) is not None
    objective.gold = Gold(np.full(n, -1, dtype=np.int32), np.ones((n, y), dtype=np.uint8))
    assert ChainOnline.of(objective) is None


@settings(max_examples=10, deadline=None)
@given(objective=problems)
def test_a_sequence_without_a_labelling_is_named(objective):
    learns_by(objective, "perceptron")
    objective.penalties.start[:] = -np.inf
    with pytest.raises(InfeasibleError, match=r"sequence \d"):
        Online(max_iter=1).minimise(objective, np.zeros(objective.features.n_features))


@settings(max_examples=10, deadline=None)
@given(objective=problems.filter(lambda one: one.features.state.n_features > 0))
def test_scores_that_are_no_numbers_are_refused(objective):
    learns_by(objective, "mira")
    weights = np.full(objective.features.n_features, np.nan)
    with pytest.raises(DataError, match="NaN"):
        Online(max_iter=1).minimise(objective, weights)
