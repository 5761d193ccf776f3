"""Dual coordinate ascent: its layout, one step by hand, what ties weights and marginals, and the optimum."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.criteria.costs import Cost
from loglinear.criteria.criterion import make_criterion
from loglinear.features.encoding import EncodedCorpus, Incidence
from loglinear.optimizers.dual import DualAscent
from loglinear.optimizers.lbfgs import LBFGS
from loglinear.optimizers.objective import Objective
from loglinear.optimizers.padded_layout import PaddedLayout
from loglinear.structures.chain_features import ChainFeatures, Penalties
from loglinear.structures.gold import Gold


@st.composite
def objectives(draw):
    """A random first-order problem with few attributes, so that some of them have long rows and some short lists."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_labels = draw(st.integers(1, 11))
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=8))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    n = int(offsets[-1])
    counts = rng.integers(0, 5, n)
    pointer = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    n_attributes = 12
    ids = np.minimum(rng.zipf(1.4, int(pointer[-1])), n_attributes).astype(np.int32) - 1
    values = rng.normal(size=len(ids)) if draw(st.booleans()) else None
    corpus = EncodedCorpus(offsets, Incidence(pointer, ids, values), None)
    labels = rng.integers(0, n_labels, n).astype(np.int32)
    penalties = Penalties.none(n_labels)
    if draw(st.booleans()):
        ruled_out = rng.random((n_labels, n_labels)) < 0.4
        ruled_out[labels[:-1], labels[1:]] = False
        penalties.transition[ruled_out] = -np.inf
    kinds = st.sampled_from(["observed", "all"])
    features = ChainFeatures.collect(
        corpus, n_attributes, Gold(labels), n_labels, 1, draw(kinds), draw(st.sampled_from(["observed", "all", "none"]))
    )
    criterion = make_criterion("cll")
    if draw(st.booleans()):
        criterion = make_criterion("softmax-margin", Cost(rng.random((4, n_labels, n_labels)) * (1 - np.eye(n_labels))))
    weights = rng.random(len(lengths)) * 2 if draw(st.booleans()) else None
    return Objective(features, corpus, Gold(labels), criterion, penalties, draw(st.sampled_from([0.3, 1.0])), weights)


@settings(max_examples=60, deadline=None)
@given(objective=objectives(), seed=st.integers(0, 1000))
def test_the_layout_keeps_every_weight_and_scores_like_the_features(objective, seed):
    features, corpus = objective.features, objective.corpus
    layout = PaddedLayout(features, corpus, objective.penalties)
    weights = np.random.default_rng(seed).normal(size=features.n_features).astype(np.float32).astype(np.float64)
    laid_out = layout.lay_out(weights)
    assert np.array_equal(layout.vector(laid_out), weights)
    expected = features.scores(features.lay_out(weights, objective.penalties), corpus, 0, corpus.n_sequences).emission
    found = np.zeros((len(layout.middle), layout.width))
    for t, (first, middle, end) in enumerate(zip(layout.pointer, layout.middle, layout.pointer[1:], strict=False)):
        for j in range(first, end):
            value = layout.values[j] if len(layout.values) else 1.0
            if j < middle:
                found[t] += value * laid_out.rows[layout.ids[j]]
            else:
                own = slice(layout.list_pointer[layout.ids[j]], layout.list_pointer[layout.ids[j] + 1])
                found[t, layout.list_labels[own]] += value * laid_out.lists[own]
    np.testing.assert_allclose(found[:, : features.n_labels], expected, atol=1e-5)
    assert not found[:, features.n_labels :].any()


@settings(max_examples=60, deadline=None)
@given(objective=objectives())
def test_the_first_step_is_down_the_gradient(objective):
    """From zero, a pass over one sequence moves the weights by share / 2 l2 along its gradient."""
    state, end = objective.corpus.state, int(objective.corpus.offsets[1])
    pointer = state.pointer[: end + 1]
    values = None if state.values is None else state.values[: pointer[-1]]
    corpus = EncodedCorpus(objective.corpus.offsets[:2], Incidence(pointer, state.ids[: pointer[-1]], values), None)
    one = Objective(
        objective.features, corpus, objective.gold.slice(0, end), objective.criterion, objective.penalties,
        objective.l2, objective.sequence_weights[:1],
    )  # fmt: skip
    value, gradient = one(np.zeros(one.features.n_features))
    after = DualAscent(max_iter=1).minimise(one, np.zeros(one.features.n_features)).state
    share = after.share / max(1.0, one.sequence_weights[0])
    np.testing.assert_allclose(after.weights, -share * gradient / (2.0 * one.l2), atol=1e-5)
    assert after.value == pytest.approx(value + one.l2 * after.weights @ after.weights, rel=1e-5, abs=1e-5)


@settings(max_examples=30, deadline=None)
@given(objective=objectives(), passes=st.integers(1, 6))
def test_the_weights_are_what_the_kept_marginals_make_of_them(objective, passes):
    features = objective.features
    state = DualAscent(max_iter=passes, tolerance=0.0).minimise(objective, np.zeros(features.n_features)).state
    weight = objective.sequence_weights
    lengths = np.diff(objective.corpus.offsets)
    emission = state.kept[:, : features.n_labels].astype(np.float64) * np.repeat(weight, lengths)[:, None]
    vector, rows = np.zeros(features.n_features), np.zeros((features.state.n_rows, features.n_labels))
    own = features.segments[0]
    features.state.add_gradient(objective.corpus.state, 0, len(emission), emission, vector[own], rows)
    features.state.gather(rows, vector[own])
    transitions = np.tensordot(weight, state.kept_transitions.astype(np.float64), 1)
    vector[features.segments[2]] = transitions.ravel()[features.transitions]
    np.testing.assert_allclose(state.weights, -vector / (2.0 * objective.l2), atol=1e-4)


@settings(max_examples=25, deadline=None)
@given(objective=objectives())
def test_it_ends_where_lbfgs_does(objective):
    zero = np.zeros(objective.features.n_features)
    best = LBFGS(max_iter=500, tolerance=1e-12).minimise(objective, zero).value
    found = DualAscent(max_iter=400, tolerance=1e-9).minimise(objective, zero)
    assert objective(found.weights)[0] == pytest.approx(best, rel=2e-4, abs=2e-4)
