"""Compiled stochastic passes over chains give the weights of the passes in Python."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.optimizers.optimizer import make_optimizer
from loglinear.optimizers.stochastic.chain import LOSSES, ChainPass
from loglinear.structures.gold import Gold
from problems.chain import chain_objectives

SPECS = ["sgd:step=0.1", "sgd:step=0.1,average", "sgd:step=0.3,decay=0", "adagrad:step=0.2", "adagrad:step=0.2,average"]
objectives = chain_objectives(criteria=tuple(LOSSES))


def trained(objective, spec, l1=0.0, max_iter=3, state=None):
    optimizer = make_optimizer(spec, max_iter=max_iter, tolerance=0.0, seed=1)
    start = np.random.default_rng(0).normal(size=objective.features.n_features)
    restored = None if state is None else optimizer.restore(state)
    return optimizer.minimise(objective, start, l1=l1, state=restored).state


@pytest.mark.parametrize("spec", SPECS)
@settings(max_examples=40, deadline=None)
@given(objective=objectives, l1=st.sampled_from([0.0, 0.2]), l2=st.sampled_from([0.0, 0.5]), at_once=st.integers(1, 9))
def test_a_compiled_pass_is_that_in_python(spec, objective, l1, l2, at_once):
    l1, objective.l2 = 0.0 if "average" in spec else l1, l2
    assert ChainPass.of(objective) is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("loglinear.optimizers.stochastic.chain.AT_ONCE", at_once)
        compiled = trained(objective, spec, l1)
        patch.setattr(ChainPass, "of", lambda objective: None)
        plain = trained(objective, spec, l1)
    np.testing.assert_allclose(compiled.weights, plain.weights, rtol=0, atol=1e-8)
    np.testing.assert_allclose(compiled.squares, plain.squares, rtol=1e-7, atol=1e-8)
    assert compiled.value == pytest.approx(plain.value, abs=1e-7)


@settings(max_examples=10, deadline=None)
@given(objective=objectives, spec=st.sampled_from(["sgd", *SPECS]))
def test_a_stored_state_goes_on_as_if_never_stopped(objective, spec):
    whole = trained(objective, spec, max_iter=4)
    part = trained(objective, spec, max_iter=2)
    again = trained(objective, spec, max_iter=4, state=part.to_arrays())
    assert np.array_equal(again.weights, whole.weights) and again.value == whole.value


@settings(max_examples=20, deadline=None)
@given(objective=chain_objectives(orders=(2,)))
def test_other_chains_go_the_general_way(objective):
    assert ChainPass.of(objective) is None


@settings(max_examples=5, deadline=None)
@given(objective=objectives)
def test_partial_labels_go_the_general_way(objective):
    n, y = int(objective.corpus.offsets[-1]), objective.features.n_labels
    objective.gold = Gold(np.full(n, -1, dtype=np.int32), np.ones((n, y), dtype=np.uint8))
    assert ChainPass.of(objective) is None
