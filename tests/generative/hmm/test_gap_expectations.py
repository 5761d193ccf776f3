"""Features with gaps: pairs of positions any distance apart against enumeration and draws, fixed gaps in templates."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_window_expectations import VALUES, all_sequences, corpus_of, rising_model

from loglinear.errors import OptionError
from loglinear.features.templates.encoder import TemplateEncoder
from loglinear.features.templates.language import TemplateSet
from loglinear.generative.hmm.expectations import (
    ANY,
    FieldValues,
    Wanted,
    expected_features,
    expected_pairs,
    label_pairs,
    pair_counts,
)
from loglinear.generative.hmm.model import Counts, HiddenMarkovModel, number_of_states
from loglinear.generative.m_estimation import MEstimationObjective, sentence_counts
from loglinear.optimizers.optimizer import make_optimizer
from loglinear.structures.chain.features import ChainFeatures
from loglinear.structures.chain.structure import Chain
from loglinear.structures.gold import Gold

GAPPED = [
    "U0:%x[-2,0]/%x[2,1]", "U1:%x[-3,1]/%x[1,0]", "U2:%x[-1,0]/%x[3,0]", "*3:%x[-2,1]/%x[2,1]", "B4:%x[-3,0]/%x[0,1]",
    "U5:%x[-4,0]/%x[4,0]", "B6:%x[1,0]/%x[3,1]", "U7:%x[2,0]", "*8:%x[-3,1]",
]  # fmt: skip


def looping_model(rng, n_labels, order):
    """A model whose sequences may be of any length."""
    k = number_of_states(n_labels, order)
    steps = rng.random((k + 1, n_labels + 1)) + 0.1
    counts = Counts(order, n_labels, steps, [rng.random((n_labels, len(v))) + 0.1 for v in VALUES])
    return HiddenMarkovModel.estimated(counts, smoothing=0.0)


def enumerated(model, n_labels):
    """All sequences of a rising model as fields, labels and offsets, and their probabilities."""
    everything = list(all_sequences(n_labels))
    offsets = np.concatenate([[0], np.cumsum([len(labels) for labels, _ in everything])]).astype(np.int64)
    labels = np.concatenate([labels for labels, _ in everything]).astype(np.int32)
    fields = [np.concatenate([f[i] for _, f in everything]).astype(np.int32) for i in range(len(VALUES))]
    probability = np.exp(Chain(offsets).score(model.scores(fields, offsets), labels))
    assert probability.sum() == pytest.approx(1.0)
    return fields, labels, offsets, probability


def random_wants(rng, n, n_labels):
    """Two ends of ``n`` features; each wants a label, a value, both or nothing."""
    ends = []
    for field in rng.integers(0, len(VALUES), 2).tolist():
        ends.append(Wanted(rng.integers(ANY, n_labels, n), rng.integers(ANY, len(VALUES[field]), n), field))
    return ends


def counted_one_by_one(fields, labels, offsets, first, second, least):
    """Counts [S, F] straight from the definition."""

    def fits(wanted, f, t):
        label, value = wanted.pairs[f]
        return label in (ANY, labels[t]) and value in (ANY, fields[wanted.field][t])

    counts = np.zeros((len(offsets) - 1, len(first.pairs)))
    for s in range(len(offsets) - 1):
        for i in range(offsets[s], offsets[s + 1]):
            for j in range(i + least, offsets[s + 1]):
                counts[s] += [fits(first, f, i) and fits(second, f, j) for f in range(len(first.pairs))]
    return counts


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), order=st.sampled_from([1, 2]), least=st.integers(1, 3))
def test_counts_are_those_of_the_definition(seed, order, least):
    rng = np.random.default_rng(seed)
    fields, labels, offsets = looping_model(rng, 3, order).sample(6, rng)
    first, second = random_wants(rng, 7, 3)
    found = pair_counts(fields, labels, offsets, first, second, least)
    np.testing.assert_array_equal(found.todense(), counted_one_by_one(fields, labels, offsets, first, second, least))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), order=st.sampled_from([1, 2]), least=st.integers(1, 3))
def test_expected_pairs_equal_enumeration(seed, order, least):
    rng = np.random.default_rng(seed)
    model = rising_model(rng, 4, order)
    fields, labels, offsets, probability = enumerated(model, 4)
    first, second = random_wants(rng, 12, 4)
    expected = probability @ pair_counts(fields, labels, offsets, first, second, least)
    np.testing.assert_allclose(expected_pairs(model, first, second, least), expected, atol=1e-10)


@pytest.mark.parametrize("order", [1, 2])
def test_expected_pairs_of_any_length_agree_with_draws(order):
    rng = np.random.default_rng(order)
    model = looping_model(rng, 3, order)
    fields, labels, offsets = model.sample(40_000, rng)
    first, second = random_wants(rng, 40, 3)
    drawn = pair_counts(fields, labels, offsets, first, second)
    mean = np.asarray(drawn.mean(axis=0)).ravel()
    error = np.sqrt((np.asarray(drawn.multiply(drawn).mean(axis=0)).ravel() - mean**2) / drawn.shape[0])
    z = (mean - expected_pairs(model, first, second)) / error
    assert np.abs(z).max() < 4.5 and 0.4 < z.std() < 1.8


def test_laws_of_label_pairs():
    """Over all distances there are E[T (T - 1) / 2] pairs; those further apart are fewer by those just so far."""
    rng = np.random.default_rng(7)
    model = looping_model(rng, 3, 1)
    lengths = np.diff(model.sample(200_000, rng)[2])
    pairs = lengths * (lengths - 1) / 2
    assert label_pairs(model).sum() == pytest.approx(pairs.mean(), abs=5 * pairs.std() / np.sqrt(len(pairs)))
    next_to = model.inflow[:, None] * model.step * model.outflow
    np.testing.assert_allclose(label_pairs(model) - label_pairs(model, 2), next_to, atol=1e-12)


def test_states_that_are_never_reached_may_hardly_ever_stop():
    steps = np.array([[0.5, 0.0, 0.5], [0.0, 1.0 - 1e-12, 1e-12], [1.0, 0.0, 0.0]])
    model = HiddenMarkovModel(1, 2, steps, [np.ones((2, 1))])
    np.testing.assert_allclose(label_pairs(model), [[2.0, 0.0], [0.0, 0.0]], atol=1e-6)  # a geometric length


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), order=st.sampled_from([1, 2]), chain_order=st.sampled_from([1, 2]),
    lines=st.lists(st.sampled_from(GAPPED), min_size=1, max_size=4, unique=True),
)  # fmt: skip
def test_templates_with_gaps_have_exact_expectations(seed, order, chain_order, lines):
    """Windows of two values up to eight apart with nothing looked at between, inside, over the start and the stop."""
    rng = np.random.default_rng(seed)
    model = rising_model(rng, 5, order)
    fields, labels, offsets, probability = enumerated(model, 5)
    encoder = TemplateEncoder(TemplateSet.parse("\n".join([*lines, "B"])))
    encoded = encoder.fit(corpus_of(fields, offsets))
    features = ChainFeatures.collect(encoded, encoder.n_attributes, Gold(labels), 5, chain_order)
    expected = probability @ sentence_counts(features, encoded, labels)
    assert expected.min() > 0.0
    found = expected_features(model, encoder, features, [FieldValues(c, v) for c, v in enumerate(VALUES)])
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_an_m_estimate_over_features_with_gaps():
    """The documented use: counts and expectations of one's own go into the objective."""
    rng = np.random.default_rng(0)
    model, other = looping_model(rng, 2, 1), looping_model(rng, 2, 1)
    fields, labels, offsets = other.sample(3_000, rng)
    a, b = (grid.ravel() for grid in np.mgrid[0:2, 0:2])
    first, second = Wanted(a), Wanted(b)
    counts = pair_counts(fields, labels, offsets, first, second)
    objective = MEstimationObjective(counts, expected_pairs(model, first, second), l2=1e-3)
    w = make_optimizer("newton", max_iter=100, tolerance=1e-9, seed=0).minimise(objective, np.zeros(4)).weights
    assert np.abs(objective(w)[1]).max() < 1e-5 and np.abs(w).max() > 1e-3


def test_what_there_is_not_is_refused():
    model = looping_model(np.random.default_rng(0), 2, 1)
    with pytest.raises(OptionError, match="label 2 of feature 1 is not one of 0 to 1"):
        expected_pairs(model, Wanted([0, 2]), Wanted([0, 1]))
    with pytest.raises(OptionError, match="value 3 of feature 0 is not one of 0 to 2"):
        expected_pairs(model, Wanted([0], [3]), Wanted([0]))
    with pytest.raises(OptionError, match="field=2: there are 2 fields"):
        expected_pairs(model, Wanted([0], [0], field=2), Wanted([0]))
    with pytest.raises(OptionError, match="1 features want something first, 2"):
        expected_pairs(model, Wanted([0]), Wanted([0, 1]))
    with pytest.raises(OptionError, match="least=0"):
        label_pairs(model, 0)
