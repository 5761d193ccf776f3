"""The sparse gradient of a sequence is the dense one, in fewer words."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from loglinear.features.block import FeatureBlock
from loglinear.features.encoding import EncodedCorpus, Incidence
from loglinear.structures.chain.features import ChainFeatures, ChainGradient, SparseChainGradient
from loglinear.structures.chain.structure import ChainScores


@st.composite
def problems(draw):
    """Features, a corpus and part gradients of each of its sequences."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_labels, n_attributes, order = draw(st.integers(1, 3)), draw(st.integers(1, 5)), draw(st.sampled_from([1, 2, 3]))
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    has_edge, has_values = draw(st.booleans()), draw(st.booleans())

    def incidence():
        counts = rng.integers(0, 4, offsets[-1])
        pointer = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        ids = rng.integers(0, n_attributes, pointer[-1]).astype(np.int32)
        return Incidence(pointer, ids, rng.normal(size=len(ids)) if has_values else None)

    def block(n_codes):
        kept = rng.random((n_attributes, n_codes)) < 0.7
        pointer = np.concatenate([[0], np.cumsum(kept.sum(axis=1))]).astype(np.int64)
        return FeatureBlock(pointer, np.nonzero(kept)[1].astype(np.int32), n_codes)

    def some(n):
        return np.flatnonzero(rng.random(n) < 0.7).astype(np.int32)

    features = ChainFeatures(
        n_labels,
        order,
        block(n_labels),
        block(n_labels**2) if has_edge else None,
        some(n_labels**2),
        some(n_labels**3 if order > 1 else 0),
        fourgrams=some(n_labels**4 if order > 2 else 0),
    )
    corpus = EncodedCorpus(offsets, incidence(), incidence() if has_edge else None)

    def parts(length):
        return ChainScores(
            emission=rng.normal(size=(length, n_labels)) * (rng.random((length, n_labels)) < 0.5),
            transition=rng.normal(size=(n_labels, n_labels)),
            start=np.zeros(n_labels),
            stop=np.zeros(n_labels),
            edge=rng.normal(size=(length, n_labels, n_labels)) if has_edge else None,
            trigram=rng.normal(size=(n_labels,) * 3) if order > 1 else None,
            fourgram=rng.normal(size=(n_labels,) * 4) if order > 2 else None,
        )

    return features, corpus, [parts(length) for length in lengths]


def dense_gradient(features, corpus, sequence, parts):
    gradient = ChainGradient(features)
    gradient.add(corpus, sequence, sequence + 1, parts)
    return gradient.finish()


@given(problem=problems())
def test_each_sequence_has_the_dense_gradient(problem):
    features, corpus, parts = problem
    sparse = SparseChainGradient(features.as_lists())
    for i, each in enumerate(parts):
        expected = dense_gradient(features, corpus, i, each)
        sparse.add(corpus, i, each)
        np.testing.assert_allclose(sparse.values, expected, atol=1e-12)
        np.testing.assert_allclose(sparse.squared_norm(), expected @ expected, atol=1e-12)
        found, derivatives = sparse.take()
        assert len(set(found.tolist())) == len(found)
        vector = np.zeros(features.n_features)
        vector[found] = derivatives
        np.testing.assert_allclose(vector, expected, atol=1e-12)
        assert not sparse.values.any() and not len(sparse.touched)  # ready for the next


@given(problem=problems(), seed=st.integers(0, 1000))
def test_inner_products_and_combinations(problem, seed):
    features, corpus, parts = problem
    sparse, rows, dense = SparseChainGradient(features.as_lists()), [], []
    for i, each in enumerate(parts):
        sparse.add(corpus, i, each)
        rows.append(sparse.take())
        dense.append(dense_gradient(features, corpus, i, each))
    np.testing.assert_allclose(sparse.gram(rows), np.array(dense) @ np.array(dense).T, atol=1e-9)
    factors = np.random.default_rng(seed).normal(size=len(rows))
    sparse.put(rows, factors)
    np.testing.assert_allclose(sparse.values, factors @ np.array(dense), atol=1e-9)
    sparse.clear()
    assert not sparse.values.any()
