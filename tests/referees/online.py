"""What compiled passes of the online learners must do, whatever they are over."""

import numpy as np
import pytest

from loglinear.optimizers.online.general import Online

SPECS = [
    "perceptron", "mira", "mira:k=3,C=0.2", "mira:k=9", "passive-aggressive", "passive-aggressive:variant=0",
    "passive-aggressive:variant=2,C=0.3",
]  # fmt: skip


def assert_as_in_python(objective, module, average, seed, passes=3):
    """So many passes give the weights of the general loop, which is taken where ``module`` knows no learner."""
    optimizer = Online(max_iter=passes, seed=seed, average=average)
    start = np.random.default_rng(seed).normal(size=objective.features.n_features)
    compiled = optimizer.minimise(objective, start).state
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "learner_of", lambda criterion: None)
        plain = optimizer.minimise(objective, start).state
    np.testing.assert_allclose(compiled.weights, plain.weights, rtol=0, atol=1e-9)
    np.testing.assert_allclose(compiled.current, plain.current, rtol=0, atol=1e-9)
    assert compiled.value == pytest.approx(plain.value, abs=1e-8) and compiled.moves == plain.moves


def assert_goes_on(objective):
    """Two passes, stored, and two more are four."""
    zero = np.zeros(objective.features.n_features)
    whole = Online(max_iter=4, tolerance=0.0).minimise(objective, zero).state
    part = Online(max_iter=2, tolerance=0.0).minimise(objective, zero).state
    again = Online(max_iter=4, tolerance=0.0)
    state = again.minimise(objective, zero, state=again.restore(part.to_arrays())).state
    assert np.array_equal(state.weights, whole.weights) and state.value == whole.value
