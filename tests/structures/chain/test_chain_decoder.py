"""Best labellings straight from attributes are those of the chain's Viterbi over part scores."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.errors import DataError, InfeasibleError
from loglinear.features.block import FeatureBlock
from loglinear.features.encoding import EncodedCorpus, Incidence
from loglinear.structures.chain.best import ChainDecoder, WideDecoder
from loglinear.structures.chain.features import ChainFeatures, Penalties
from loglinear.structures.chain.structure import Chain


@st.composite
def problems(draw):
    """Features, weights, constraints, a corpus and what is allowed, at random; weights whose sums are exact."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_labels, n_attributes = draw(st.sampled_from([1, 2, 3, 7, 8, 9, 17])), draw(st.integers(0, 12))
    counts = rng.integers(0, n_labels + 1, n_attributes)
    codes = [np.sort(rng.choice(n_labels, n, replace=False)) for n in counts]
    pointer = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    state = FeatureBlock(pointer, np.concatenate([[], *codes]).astype(np.int32), n_labels)
    bigrams = np.flatnonzero(rng.random(n_labels**2) < 0.6).astype(np.int32)
    features = ChainFeatures(n_labels, 1, state, None, bigrams, np.zeros(0, np.int32))
    weights = rng.integers(-64, 65, features.n_features) / 16  # no rounding: ties are ties on both roads
    share = draw(st.sampled_from([1.0, 0.9, 0.6]))
    ruled = [np.where(rng.random(shape) < share, 0.0, -np.inf) for shape in ((n_labels, n_labels), n_labels, n_labels)]
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    n = int(offsets[-1])
    each = rng.integers(0, 6, n) if n_attributes else np.zeros(n, dtype=int)
    ids = rng.integers(0, max(n_attributes, 1), each.sum()).astype(np.int32)
    values = draw(st.sampled_from([None, 1])) and rng.integers(-8, 9, each.sum()) / 4
    state_of = Incidence(np.concatenate([[0], np.cumsum(each)]).astype(np.int64), ids, values)
    allowed = draw(st.sampled_from([None, 0.9, 0.5]))
    mask = None if allowed is None else (rng.random((n, n_labels)) < allowed).astype(np.uint8)
    return features, weights, Penalties(*ruled), EncodedCorpus(offsets, state_of), mask


@pytest.mark.parametrize("kind", [ChainDecoder, WideDecoder, partial(WideDecoder, candidates=2)])
@settings(max_examples=150)
@given(problems(), st.data())
def test_labels_are_those_of_viterbi(kind, problem, data):
    features, weights, penalties, corpus, mask = problem
    first = data.draw(st.integers(0, corpus.n_sequences - 1))
    end = data.draw(st.integers(first + 1, corpus.n_sequences))
    decoder = kind(features, weights, penalties)
    lo, hi = corpus.offsets[first], corpus.offsets[end]
    chain = Chain(corpus.offsets[first : end + 1] - lo)
    scores = features.scores(features.lay_out(weights, penalties), corpus, first, end)
    if mask is not None:
        scores = chain.restrict(scores, mask[lo:hi])
    try:
        expected = chain.viterbi(scores)[0]
    except InfeasibleError as error:
        with pytest.raises(InfeasibleError) as refused:
            decoder.decode(corpus, first, end, mask)
        assert refused.value.sequence == error.sequence
        return
    assert decoder.decode(corpus, first, end, mask).tolist() == expected.tolist()


def test_values_that_make_no_scores_are_refused():
    state = FeatureBlock(np.array([0, 1], dtype=np.int64), np.array([0], dtype=np.int32), 2)
    features = ChainFeatures(2, 1, state, None, np.zeros(0, np.int32), np.zeros(0, np.int32))
    decoder = ChainDecoder(features, np.array([1e300]), Penalties.none(2))
    one = Incidence(np.array([0, 1], dtype=np.int64), np.array([0], dtype=np.int32), np.array([1e300]))
    with pytest.raises(DataError, match=r"NaN or \+inf"):
        decoder.decode(EncodedCorpus(np.array([0, 1], dtype=np.int64), one), 0, 1)


def test_what_needs_part_scores_is_not_suited():
    state = FeatureBlock(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32), 2)
    nothing = np.zeros(0, np.int32)
    assert ChainDecoder.suits(ChainFeatures(2, 1, state, None, nothing, nothing))
    assert not ChainDecoder.suits(ChainFeatures(2, 2, state, None, nothing, nothing))
    assert not ChainDecoder.suits(ChainFeatures(2, 1, state, state, nothing, nothing))
    assert not ChainDecoder.suits(ChainFeatures(1, 1, state, None, nothing, nothing))  # the code Y: whatever the label
