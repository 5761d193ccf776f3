"""Hidden Markov models against their definition, by enumeration and by draws."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.generative.hmm.em import expected_counts
from loglinear.generative.hmm.model import Counts, HiddenMarkovModel
from loglinear.structures.chain.structure import Chain
from loglinear.structures.gold import Gold
from problems.hmm import SIZES, cut, probability, random_model


@st.composite
def problems(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_labels, order = draw(st.integers(1, 3)), draw(st.sampled_from([1, 2]))
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    fields = [rng.integers(0, size, offsets[-1]).astype(np.int32) for size in SIZES]
    return rng, random_model(rng, n_labels, order, draw(st.sampled_from([0.0, 0.3]))), fields, offsets


@settings(max_examples=60)
@given(problem=problems())
def test_the_score_of_a_labelling_is_its_log_probability(problem):
    rng, model, fields, offsets = problem
    labels = rng.integers(0, model.n_labels, offsets[-1]).astype(np.int32)
    found = Chain(offsets).score(model.scores(fields, offsets), labels)
    for i in range(len(offsets) - 1):
        expected = probability(model, labels[offsets[i] : offsets[i + 1]].tolist(), cut(fields, offsets, i))
        assert np.exp(found[i]) == pytest.approx(expected, rel=1e-9)


@settings(max_examples=60)
@given(problem=problems(), share=st.sampled_from([0.0, 0.5, 1.0]))
def test_expected_counts_equal_enumeration(problem, share):
    rng, model, fields, offsets = problem
    n = model.n_labels
    allowed = (rng.random((offsets[-1], n)) >= share).astype(np.uint8)
    allowed[np.arange(offsets[-1]), rng.integers(0, n, offsets[-1])] = 1
    total, log_p = None, []
    for i in range(len(offsets) - 1):
        here, own, weighted = cut(fields, offsets, i), offsets[i], []
        for labels in product(range(n), repeat=int(offsets[i + 1] - offsets[i])):
            if all(allowed[own + t, y] for t, y in enumerate(labels)):
                weighted.append((labels, probability(model, labels, here)))
        z = sum(p for _, p in weighted)
        if z == 0.0:
            return
        log_p.append(np.log(z))
        for labels, p in weighted:
            counts = Counts.of(
                here, SIZES, np.array(labels, dtype=np.int32), np.array([0, len(labels)]), n, model.order
            )
            scaled = Counts(model.order, n, counts.steps * p / z, [table * p / z for table in counts.emissions])
            total = scaled if total is None else total + scaled
    settled = np.where(allowed.sum(axis=1) == 1, allowed.argmax(axis=1), -1).astype(np.int32)
    found_p, found = expected_counts(model, fields, offsets, Gold(settled, allowed))
    np.testing.assert_allclose(found_p, log_p, rtol=1e-8)
    np.testing.assert_allclose(found.steps, total.steps, atol=1e-8)
    for mine, theirs in zip(found.emissions, total.emissions, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-8)


@pytest.mark.parametrize("order", [1, 2])
def test_with_all_labels_known_the_expected_counts_are_the_counts(order):
    rng = np.random.default_rng(0)
    model = random_model(rng, 3, order)
    fields, labels, offsets = model.sample(50, rng)
    counts = Counts.of(fields, SIZES, labels, offsets, 3, order)
    _, expected = expected_counts(model, fields, offsets, Gold(labels), n_threads=2)
    np.testing.assert_allclose(expected.steps, counts.steps, atol=1e-6)
    for mine, theirs in zip(expected.emissions, counts.emissions, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-6)


@pytest.mark.parametrize("order", [1, 2])
def test_draws_have_the_models_frequencies(order):
    rng = np.random.default_rng(3)
    model = random_model(rng, 3, order, zeros=0.2)
    fields, labels, offsets = model.sample(20_000, rng)
    found = HiddenMarkovModel.estimated(Counts.of(fields, SIZES, labels, offsets, 3, order), smoothing=0.0)
    visited = np.append(model.inflow > 0.05, True)
    np.testing.assert_allclose(found.steps[visited], model.steps[visited], atol=0.03)
    for mine, theirs in zip(found.emissions, model.emissions, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=0.02)
    states = np.bincount(labels, minlength=3) / 20_000
    np.testing.assert_allclose(states, model.inflow.reshape(-1, 3).sum(axis=0), rtol=0.05)
    np.testing.assert_allclose(model.outflow, 1.0)
