"""Expected feature counts: against enumeration of all sequences, and against draws."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.data.columns.corpus import Column, Columns
from loglinear.errors import OptionError
from loglinear.features.templates.encoder import TemplateEncoder
from loglinear.features.templates.language import TemplateSet
from loglinear.generative.hmm.expectations import FieldValues, expected_features, expected_ngrams
from loglinear.generative.hmm.model import Counts, HiddenMarkovModel, number_of_states
from loglinear.generative.m_estimation import sentence_counts
from loglinear.structures.chain.features import ChainFeatures, ChainGradient
from loglinear.structures.chain.structure import Chain, ChainScores
from loglinear.structures.gold import Gold

VALUES = [["a", "B1", "b"], ["X", "y"]]
TEMPLATES = [
    "U0:%x[0,0]", "U1:%x[-1,0]", "U2:%x[1,1]", "U3:%x[-2,0]/%x[0,1]", "U4:%x[-1,1]/%x[0,0]/%x[2,0]", "U5:%x[2,1]",
    "U6:%lower[0,0]/%x[0,0]", "U7:%brief[-1,0]/%x[1,0]", "U8:bias", "*9:%x[0,1]", "B8:%x[-1,0]/%x[0,0]", "U:%x[0,0]",
    "U:%x[1,0]", "U10:%x[-1,0]/%x[-1,1]/%Suffix[1,0,1]",
]  # fmt: skip


def corpus_of(fields, offsets):
    columns = [Column(ids.astype(np.int32), values) for ids, values in zip(fields, VALUES, strict=True)]
    return Columns("<test>", offsets, np.zeros(len(fields[0]), dtype=np.int64), columns)


def rising_model(rng, n_labels, order):
    """A model whose labels only rise, so that sequences have at most ``n_labels`` positions."""
    k = number_of_states(n_labels, order)
    steps = rng.random((k + 1, n_labels + 1)) + 0.1
    for state in range(k):
        steps[state, : state % n_labels + 1] = 0.0
    counts = Counts(order, n_labels, steps, [rng.random((n_labels, len(values))) + 0.1 for values in VALUES])
    return HiddenMarkovModel.estimated(counts, smoothing=0.0)


def all_sequences(n_labels):
    """Every rising labelling with every combination of values."""
    for mask in range(1, 2**n_labels):
        labels = [y for y in range(n_labels) if mask >> y & 1]
        for fields in product(*(product(range(len(values)), repeat=len(labels)) for values in VALUES)):
            yield labels, fields


def feature_counts(features, encoded, labels):
    """Counts of each feature [D] in each sequence [S, D]."""
    rows = []
    for i in range(encoded.n_sequences):
        lo, hi = encoded.offsets[i], encoded.offsets[i + 1]
        y = features.n_labels
        parts = ChainScores(
            np.zeros((hi - lo, y)), np.zeros((y, y)), np.zeros(y), np.zeros(y),
            np.zeros((hi - lo, y, y)) if features.edge is not None else None,
            np.zeros((y, y, y)) if features.order == 2 else None,
        )  # fmt: skip
        Chain([0, hi - lo]).add_labelling(parts, labels[lo:hi], np.ones(1))
        gradient = ChainGradient(features)
        gradient.add(encoded, i, i + 1, parts)
        rows.append(gradient.finish())
    return np.array(rows)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), order=st.sampled_from([1, 2]), chain_order=st.sampled_from([1, 2]),
    lines=st.lists(st.sampled_from(TEMPLATES), min_size=1, max_size=4, unique=True), pair_features=st.booleans(),
    input_only=st.booleans(), inside=st.sampled_from([[], ["%inside"]]),
)  # fmt: skip
def test_expectations_equal_enumeration(seed, order, chain_order, lines, pair_features, input_only, inside):
    rng, n_labels = np.random.default_rng(seed), 3
    model = rising_model(rng, n_labels, order)
    everything = list(all_sequences(n_labels))
    offsets = np.concatenate([[0], np.cumsum([len(labels) for labels, _ in everything])]).astype(np.int64)
    labels = np.concatenate([labels for labels, _ in everything]).astype(np.int32)
    fields = [np.concatenate([f[i] for _, f in everything]).astype(np.int32) for i in range(2)]
    encoder = TemplateEncoder(TemplateSet.parse("\n".join([*inside, *lines, "B"])), pair_features=pair_features)
    encoded = encoder.fit(corpus_of(fields, offsets))
    mask = rng.random(encoder.n_attributes) < 0.5 if input_only else None
    features = ChainFeatures.collect(
        encoded, encoder.n_attributes, Gold(labels), n_labels, chain_order, "all", "all", mask
    )
    probability = np.exp(Chain(offsets).score(model.scores(fields, offsets), labels))
    assert probability.sum() == pytest.approx(1.0)
    counts = feature_counts(features, encoded, labels)
    np.testing.assert_array_equal(sentence_counts(features, encoded, labels).toarray(), counts)
    expected = probability @ counts
    found = expected_features(model, encoder, features, [FieldValues(c, v) for c, v in enumerate(VALUES)])
    np.testing.assert_allclose(found, expected, atol=1e-10)


@pytest.mark.parametrize("order", [1, 2])
def test_expectations_agree_with_draws(order):
    rng = np.random.default_rng(0)
    k = number_of_states(2, order)
    counts = Counts(order, 2, rng.random((k + 1, 3)) + 0.2, [rng.random((2, len(v))) + 0.1 for v in VALUES])
    model = HiddenMarkovModel.estimated(counts, smoothing=0.0)
    fields, labels, offsets = model.sample(20_000, rng)
    encoder = TemplateEncoder(TemplateSet.parse("\n".join([*TEMPLATES, "B"])))
    encoded = encoder.fit(corpus_of(fields, offsets))
    features = ChainFeatures.collect(encoded, encoder.n_attributes, Gold(labels), 2, 2)
    found = expected_features(model, encoder, features, [FieldValues(c, v) for c, v in enumerate(VALUES)])
    each = feature_counts(features, encoded, labels)
    error = each.std(axis=0) / np.sqrt(len(each))
    assert (np.abs(each.mean(axis=0) - found) <= 5.0 * error + 1e-9).mean() > 0.999


def test_label_ngrams_of_a_model_that_always_stops():
    rng = np.random.default_rng(1)
    model = rising_model(rng, 3, 2)
    bigrams, trigrams = expected_ngrams(model)
    length = model.inflow.sum()
    assert bigrams.sum() == pytest.approx(length - 1.0)  # each sequence has one fewer than positions
    assert trigrams[0, 1, 2] == pytest.approx(trigrams.sum())  # the only rising one


def test_what_cannot_be_worked_out_is_refused():
    model = rising_model(np.random.default_rng(2), 2, 1)
    encoder = TemplateEncoder(TemplateSet.parse("U0:%x[@1,0]\nB"))
    corpus = corpus_of([np.array([0, 1]), np.array([0, 1])], np.array([0, 2]))
    encoded = encoder.fit(corpus)
    features = ChainFeatures.collect(encoded, encoder.n_attributes, Gold(np.array([0, 1], dtype=np.int32)), 2)
    with pytest.raises(OptionError, match="absolute rows"):
        expected_features(model, encoder, features, [FieldValues(c, v) for c, v in enumerate(VALUES)])
    encoder = TemplateEncoder(TemplateSet.parse("U0:%x[0,1]\nB"))
    encoder.fit(corpus)
    with pytest.raises(OptionError, match="column 1, which the base model does not emit"):
        expected_features(model, encoder, features, [FieldValues(0, VALUES[0])])
