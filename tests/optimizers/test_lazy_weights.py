"""Penalties and averages paid late are those paid at once."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from loglinear.features.block import FeatureBlock
from loglinear.features.encoding import EncodedCorpus, Incidence
from loglinear.optimizers.passes import LazyWeights
from loglinear.structures.chain.features import ChainFeatures, SparseChainGradient
from loglinear.structures.flat.features import FlatCorpus, FlatFeatures
from loglinear.structures.flat.structure import FlatScores

N_LABELS, N_ATTRIBUTES, N_SEQUENCES = 2, 4, 5


def features_and_corpus(rng):
    nothing = np.zeros(0, dtype=np.int32)
    features = ChainFeatures(
        N_LABELS,
        1,
        FeatureBlock.everything(N_ATTRIBUTES, N_LABELS),
        None,
        np.arange(N_LABELS**2, dtype=np.int32),
        nothing,
    )
    ids = rng.integers(0, N_ATTRIBUTES, 2 * N_SEQUENCES).astype(np.int32)
    pointer = 2 * np.arange(N_SEQUENCES + 1, dtype=np.int64)
    return features.as_lists(), EncodedCorpus(np.arange(N_SEQUENCES + 1, dtype=np.int64), Incidence(pointer, ids))


class Dense:
    """The same steps on a whole vector, straight from the definition."""

    def __init__(self, weights, l1, l2, adagrad):
        self.weights, self.l1, self.l2, self.adagrad = weights.copy(), l1, l2, adagrad
        self.squares, self.sums = np.zeros_like(weights), np.zeros_like(weights)

    def step(self, gradient, size):
        if self.adagrad is not None:
            self.squares += gradient**2
            size = self.adagrad / np.sqrt(1.0 + self.squares)
        moved = self.weights - size * gradient
        threshold = np.maximum(np.abs(moved) - size * self.l1, 0.0)
        self.weights = np.sign(moved) * threshold / (1.0 + 2.0 * size * self.l2)
        self.sums += self.weights


@given(
    seed=st.integers(0, 2**32 - 1),
    l1=st.sampled_from([0.0, 0.01, 0.3]),
    l2=st.sampled_from([0.0, 0.01, 0.5, 1e30]),
    average=st.booleans(),
    adagrad=st.sampled_from([None, 0.1, 2.0]),
    n_steps=st.integers(1, 40),
)
def test_lazy_steps_are_steps(seed, l1, l2, average, adagrad, n_steps):
    rng = np.random.default_rng(seed)
    average &= l1 == 0.0
    features, corpus = features_and_corpus(rng)
    start = rng.normal(size=features.n_features) * (rng.random(features.n_features) < 0.7)
    lazy = LazyWeights(features, start, n_steps, l1, l2, average, adagrad)
    dense, gradient = Dense(start, l1, l2, adagrad), SparseChainGradient(features)
    for _ in range(2 * n_steps):
        sequence = int(rng.integers(N_SEQUENCES))
        lazy.look_at(corpus, sequence)
        attributes = corpus.state.ids[2 * sequence : 2 * sequence + 2]
        seen = np.concatenate([N_LABELS * a + np.arange(N_LABELS) for a in attributes] + [np.arange(8, 12)])
        if l1 or l2:  # else nothing is owed before it is looked at
            np.testing.assert_allclose(lazy.weights[seen], dense.weights[seen], rtol=1e-9, atol=1e-12)
        chosen = np.unique(rng.choice(seen, size=3))
        derivatives, size = rng.normal(size=len(chosen)), float(rng.random())
        gradient.put([(chosen.astype(np.int64), derivatives)], np.ones(1))
        lazy.descend(gradient, size)
        lazy.end_step(0.0 if adagrad is not None else size)
        vector = np.zeros(features.n_features)
        vector[chosen] = derivatives
        dense.step(vector, size)
    lazy.settle()
    np.testing.assert_allclose(lazy.weights, dense.weights, rtol=1e-8, atol=1e-12)
    if average:
        np.testing.assert_allclose(lazy.sums, dense.sums, rtol=1e-8, atol=1e-9)


@given(
    seed=st.integers(0, 2**32 - 1),
    l1=st.sampled_from([0.0, 0.3]),
    adagrad=st.sampled_from([None, 0.5]),
    n_steps=st.integers(1, 20),
)
def test_what_is_not_penalised_is_left_alone(seed, l1, adagrad, n_steps):
    """The biases of flat labels owe nothing but their part in the averages."""
    rng = np.random.default_rng(seed)
    features = FlatFeatures(3, 2, "free")
    corpus = FlatCorpus.of(rng.normal(size=(4, 3)))
    start, average = rng.normal(size=8), l1 == 0.0
    lazy = LazyWeights(features, start, n_steps, l1, 0.2, average, adagrad, features.n_penalised)
    free = LazyWeights(features, start, n_steps, 0.0, 0.0, average, adagrad)
    all_of_it = LazyWeights(features, start, n_steps, l1, 0.2, average, adagrad)
    gradient = features.sparse_gradient()
    for _ in range(n_steps):
        sequence, parts, size = int(rng.integers(4)), FlatScores(rng.normal(size=(1, 2))), float(rng.random())
        for weights in (lazy, free, all_of_it):
            weights.look_at(corpus, sequence)
            gradient.add(corpus, sequence, parts)
            weights.descend(gradient, size)
            weights.end_step(0.0 if adagrad is not None else size)
    for weights in (lazy, free, all_of_it):
        weights.settle()
    np.testing.assert_allclose(lazy.weights[6:], free.weights[6:], rtol=1e-12)
    np.testing.assert_allclose(lazy.weights[:6], all_of_it.weights[:6], rtol=1e-12)
    assert not np.array_equal(lazy.weights[:6], free.weights[:6])
    if average:
        np.testing.assert_allclose(lazy.sums[6:], free.sums[6:], rtol=1e-10)
        np.testing.assert_allclose(lazy.sums[:6], all_of_it.sums[:6], rtol=1e-10)
