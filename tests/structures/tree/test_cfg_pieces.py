"""Pieces of a grammar: losses by the definition, gradients by finite differences, any number of threads alike."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

from loglinear.features.encoding import Incidence
from loglinear.structures.tree import pieces
from loglinear.structures.tree.pieces import Edges, PieceFeatures, PieceObjective


def problem(seed):
    """Random attributes of spans, outcomes of symbols, and edges, some of which should not be there."""
    rng = np.random.default_rng(seed)
    n_spans, n_attributes, sizes = (
        int(rng.integers(1, 6)),
        int(rng.integers(1, 5)),
        rng.integers(1, 4, rng.integers(1, 4)),
    )
    first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    counts = rng.integers(0, 4, n_spans)
    ids = rng.integers(0, n_attributes, counts.sum()).astype(np.int32)
    spans = Incidence(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), ids)
    m = int(rng.integers(1, 8))
    symbols = rng.integers(0, len(sizes), m).astype(np.int32)
    outcomes = np.array([rng.integers(first[a], first[a + 1]) for a in symbols], dtype=np.int32)
    outcomes[rng.random(m) < 0.3] = -1
    edges = Edges(rng.integers(0, n_spans, m), symbols, outcomes, rng.random(m) + 0.5)
    features = PieceFeatures.observed(first, spans, n_attributes, edges, rng.normal(size=first[-1]))
    return rng, spans, edges, features


def score(features, spans, weights, span, outcome):
    """bias + offset + the weights of the span's attributes with the outcome."""
    total = weights[outcome] + features.offsets[outcome]
    for j in range(spans.pointer[span], spans.pointer[span + 1]):
        a = spans.ids[j]
        for f in range(features.block.pointer[a], features.block.pointer[a + 1]):
            if features.block.codes[f] == outcome:
                total += weights[len(features.offsets) + f]
    return total


@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from([0.0, 0.3]))
def test_losses_are_those_of_a_small_classifier_an_edge(seed, nothing, l2):
    rng, spans, edges, features = problem(seed)
    if not nothing:  # then every edge has an outcome
        edges = Edges(
            *(part[edges.outcomes >= 0] for part in (edges.spans, edges.symbols, edges.outcomes, edges.weights))
        )
    weights = rng.normal(size=features.n_features)
    objective = PieceObjective(features, spans, edges, nothing, l2)
    value, gradient = objective(weights)
    expected = l2 * weights @ weights
    for span, symbol, outcome, weight in zip(edges.spans, edges.symbols, edges.outcomes, edges.weights, strict=True):
        own = range(features.first[symbol], features.first[symbol + 1])
        mass = sum(np.exp(score(features, spans, weights, span, e)) for e in own) + nothing
        right = score(features, spans, weights, span, outcome) if outcome >= 0 else 0.0
        expected += weight * (np.log(mass) - right)
    np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-12)
    numeric = approx_fprime(weights, lambda w: objective(w)[0], 1e-6)
    np.testing.assert_allclose(gradient, numeric, atol=1e-4)


@given(st.integers(0, 2**32 - 1))
def test_scores_are_those_of_the_weights_and_may_be_log_probabilities(seed):
    rng, spans, _, features = problem(seed)
    weights = rng.normal(size=features.n_features)
    begin = int(rng.integers(0, spans.n_positions))
    plain, normalised = (features.scores(spans, begin, spans.n_positions, weights, flag) for flag in (False, True))
    for k, row in enumerate(plain):
        assert np.allclose(row, [score(features, spans, weights, begin + k, e) for e in range(len(row))])
        for symbol in range(len(features.first) - 1):
            own = slice(features.first[symbol], features.first[symbol + 1])
            np.testing.assert_allclose(np.exp(normalised[k, own]).sum(), 1.0)
            np.testing.assert_allclose(normalised[k, own] - normalised[k, own][0], row[own] - row[own][0], atol=1e-9)


@given(st.integers(0, 2**32 - 1), st.integers(2, 4))
def test_threads_make_no_difference(seed, n_threads):
    rng, spans, edges, features = problem(seed)
    many = edges
    for _ in range(11):
        many = many.and_also(many)
    weights = rng.normal(size=features.n_features)
    one, several = (PieceObjective(features, spans, many, True, 0.1, n)(weights) for n in (1, n_threads))
    assert one[0] == several[0] and np.array_equal(one[1], several[1])
    assert len(many) < 2000 or len(PieceObjective(features, spans, many, True, 0.1)._shards) > 1
    assert pieces.SHARDS > 1
