"""Expectations by drawing: against exact ones, enumeration, and the laws of smoothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_gap_expectations import enumerated, looping_model
from test_window_expectations import TEMPLATES, VALUES, corpus_of, rising_model

from loglinear.errors import OptionError
from loglinear.features.templates.encoder import TemplateEncoder
from loglinear.features.templates.gazetteer import Gazetteer
from loglinear.features.templates.language import TemplateSet
from loglinear.generative.base import DRAWS_AT_ONCE, HmmBase, Sampling, read_base
from loglinear.generative.hmm.model import OpenVocabulary
from loglinear.generative.m_estimation import MEstimationObjective, sentence_counts
from loglinear.optimizers.optimizer import make_optimizer
from loglinear.structures.chain.features import ChainFeatures
from loglinear.structures.gold import Gold


def base_of(model):
    return HmmBase("hmm", OpenVocabulary((0, 1), VALUES), model)


def features_of(lines, fields, labels, offsets, n_labels, order, gazetteers=None):
    encoder = TemplateEncoder(TemplateSet.parse("\n".join([*lines, "B"])), gazetteers)
    encoded = encoder.fit(corpus_of(fields, offsets))
    return encoder, encoded, ChainFeatures.collect(encoded, encoder.n_attributes, Gold(labels), n_labels, order)


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), order=st.sampled_from([1, 2]), chain_order=st.sampled_from([1, 2]),
    lines=st.lists(st.sampled_from(TEMPLATES), min_size=1, max_size=5, unique=True),
)  # fmt: skip
def test_sampled_and_exact_expectations_agree_within_the_sampling_error(seed, order, chain_order, lines):
    rng = np.random.default_rng(seed)
    model = looping_model(rng, 3, order)
    data = model.sample(300, rng)
    encoder, encoded, features = features_of(lines, *data, 3, chain_order)
    base, samples = base_of(model), 10_000
    exact = base.expected(encoder, features, encoded, None, 1)
    found = Sampling(samples, seed=seed).estimate(base.draw, encoder, features, n_threads=2)
    common = exact * samples >= 100  # enough draws for the error to be nearly normal
    z = (found.mean - exact)[common] / found.error[common]
    assert common.sum() > 5
    assert np.abs(z).max() < 6.5 and np.sqrt(np.mean(z**2)) < 2.5
    rare = (found.mean - exact)[~common] * samples
    assert np.abs(rare).max(initial=0.0) < 100


ABSOLUTE = ["U0:%x[@1,0]", "U1:%x[@-1,1]/%x[0,0]", "*2:%x[@2,0]"]


@pytest.mark.parametrize("order", [1, 2])
def test_what_is_not_exact_is_sampled(order):
    """Absolute rows and gazetteers, against enumeration."""
    rng = np.random.default_rng(order)
    model = rising_model(rng, 3, order)
    fields, labels, offsets, probability = enumerated(model, 3)
    lines = [*ABSOLUTE, "U3:%gazetteer[0,0,names]"]
    gazetteers = {"names": Gazetteer("names", ["a B1", "b"])}
    encoder, encoded, features = features_of(lines, fields, labels, offsets, 3, 2, gazetteers)
    expected = probability @ sentence_counts(features, encoded, labels)
    base = base_of(model)
    found = Sampling(40_000).estimate(base.draw, encoder, features)
    often = expected * 40_000 >= 50
    z = (found.mean - expected)[often] / found.error[often]
    assert often.sum() > 30 and np.abs(z).max() < 5.5 and np.sqrt(np.mean(z**2)) < 1.5
    with pytest.raises(OptionError, match=r"by sampling, as in base='hmm:samples=100000'"):
        base.expected(encoder, features, encoded, None, 1)


def test_draws_are_the_same_for_a_seed_and_any_number_of_threads():
    rng = np.random.default_rng(0)
    model = looping_model(rng, 2, 1)
    encoder, _, features = features_of(TEMPLATES, *model.sample(50, rng), 2, 1)
    n = 3 * DRAWS_AT_ONCE + 1
    one, same, other = (
        Sampling(n, seed=seed).estimate(base_of(model).draw, encoder, features, n_threads)
        for seed, n_threads in ((4, 1), (4, 3), (5, 1))
    )
    np.testing.assert_array_equal(one.mean, same.mean)
    np.testing.assert_array_equal(one.error, same.error)
    assert (one.mean != other.mean).any()


def test_the_mean_and_its_error_are_those_of_all_batches(monkeypatch):
    rng = np.random.default_rng(1)
    model = looping_model(rng, 2, 2)
    encoder, _, features = features_of(TEMPLATES, *model.sample(50, rng), 2, 2)
    counts = []

    def draw(n, generator):
        corpus, labels = base_of(model).draw(n, generator)
        counts.append(sentence_counts(features, encoder.transform(corpus), labels).toarray())
        return corpus, labels

    monkeypatch.setattr("loglinear.generative.base.DRAWS_AT_ONCE", 40)
    found = Sampling(100).estimate(draw, encoder, features)
    assert [len(each) for each in counts] == [40, 40, 20]
    everything = np.concatenate(counts)
    np.testing.assert_allclose(found.mean, everything.mean(axis=0))
    np.testing.assert_allclose(found.error, everything.std(axis=0) / 10, atol=1e-12)


def test_smoothing_mixes_in_the_training_data():
    sampling = Sampling(99, smoothing=1.0)
    drawn, observed = np.array([0.0, 2.0, 0.5]), np.array([3.0, 0.0, 0.5])
    np.testing.assert_allclose(sampling.smoothed(drawn, observed), [0.03, 1.98, 0.5])
    np.testing.assert_array_equal(Sampling(99, smoothing=0.0).smoothed(drawn, observed), drawn)


def test_a_feature_that_is_never_drawn_is_worth_a_bounded_weight_even_without_a_penalty():
    from scipy.sparse import csr_matrix

    counts, sampling = csr_matrix(np.ones((4, 1))), Sampling(999, smoothing=1.0)
    expected = sampling.smoothed(np.zeros(1), np.ones(1))
    newton = make_optimizer("newton", max_iter=100, tolerance=1e-12, seed=0)
    assert newton.minimise(MEstimationObjective(counts, expected), np.zeros(1)).weights[0] == pytest.approx(
        np.log(1000)
    )


def test_drawn_values_may_be_the_unknown_one():
    rng = np.random.default_rng(3)
    fields, labels, offsets = looping_model(rng, 2, 1).sample(80, rng)
    base, replaced = HmmBase.fit("hmm", corpus_of(fields, offsets), [1], labels, 2, 1)
    corpus, drawn = base.draw(200, rng)
    assert replaced.columns[1].values == corpus.columns[1].values == [*base.vocabulary.values[0]]
    assert "<unknown>" in set(corpus.columns[1].strings())
    assert set(corpus.columns[0].strings()) == {""}  # what it does not emit is nothing
    assert len(drawn) == corpus.n_tokens and len(corpus) == 200


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("gaussian", "is not one of hmm, locally-uniform, empirical; in Python"),
        ("hmm:draws=3", "has no option 'draws'; it has samples, smoothing"),
        ("hmm:samples=0", "samples=0 must be at least 1"),
        ("hmm:samples", "samples needs a value, as in hmm:samples=1000"),
        ("hmm:smoothing=0.5", "smoothing is about drawn sequences; say how many, as in hmm:samples=100000"),
        ("hmm:samples=10,smoothing=-1", "smoothing=-1.0 must be at least 0"),
        ("empirical:samples=10", "base 'empirical' has no option 'samples'; it has none"),
    ],
)
def test_specs_that_make_no_sense_are_refused(spec, reason):
    with pytest.raises(OptionError, match=reason):
        read_base(spec)


def test_a_spec_is_read():
    assert read_base("hmm") == ("hmm", None)
    assert read_base("locally-uniform:samples=500", seed=7) == ("locally-uniform", Sampling(500, 1.0, 7))
    assert read_base("hmm:samples=20,smoothing=0.5") == ("hmm", Sampling(20, 0.5, 0))
