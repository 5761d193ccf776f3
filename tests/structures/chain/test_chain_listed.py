"""Every operation over lists of transitions gives what the chain gives over the matrix."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_chain_decoder import problems

from loglinear.criteria.costs import Cost
from loglinear.criteria.criterion import CRITERIA, criteria_of, make_criterion
from loglinear.errors import DataError, InfeasibleError, OptionError
from loglinear.structures.chain.listed import ListedChain, ListedFeatures, ListedScores, codes_of
from loglinear.structures.chain.steps import make_steps
from loglinear.structures.chain.structure import Chain
from loglinear.structures.gold import Gold


@st.composite
def chains(draw):
    """A batch over lists, and the same over the matrix; scores of any size, and what is ruled out."""
    features, weights, penalties, corpus, mask = draw(problems())
    weights = weights * draw(st.sampled_from([1.0, 0.3, 60.0]))
    listed = ListedFeatures(
        features.n_labels, 1, features.state, None, features.transitions, features.trigrams,
        make_steps(features, penalties),
    )  # fmt: skip
    here, there = (
        each.scores(each.lay_out(weights, penalties), corpus, 0, corpus.n_sequences) for each in (listed, features)
    )
    mine, theirs = ListedChain(corpus.offsets), Chain(corpus.offsets)
    if mask is not None:
        here, there = mine.restrict(here, mask), theirs.restrict(there, mask)
    return mine, here, theirs, there


DIGITS = {
    "rtol": 1e-5,
    "atol": 1e-6,
}  # a sum keeps seven digits where the constant and its corrections cancel (steps.py)


def same_parts(mine: ListedScores, theirs, **tolerance):
    for name in ("emission", "start", "stop"):
        np.testing.assert_allclose(getattr(mine, name), getattr(theirs, name), **tolerance)
    np.testing.assert_allclose(mine.transition, theirs.transition.ravel()[codes_of(mine.steps)], **tolerance)


def both(mine, theirs):
    """What both give, or None if both refuse the same sequence."""
    try:
        expected = theirs()
    except InfeasibleError as error:
        with pytest.raises(InfeasibleError) as refused:
            mine()
        assert refused.value.sequence == error.sequence
        return None
    return mine(), expected


@settings(max_examples=100, deadline=None)
@given(chains(), st.integers(0, 2**32 - 1))
def test_a_labelling_scores_and_counts_the_same(found, seed):
    mine, here, theirs, there = found
    rng = np.random.default_rng(seed)
    assert np.array_equal(here.over_matrix().transition, there.transition)
    labels, weights = rng.integers(0, here.n_labels, mine.n_positions), rng.normal(size=mine.n_sequences)
    np.testing.assert_allclose(mine.score(here, labels), theirs.score(there, labels), rtol=1e-12, atol=1e-12)
    parts, others = here.zeros_like(), there.zeros_like()
    mine.add_labelling(parts, labels, weights)
    theirs.add_labelling(others, labels, weights)
    same_parts(parts, others)


@settings(max_examples=200, deadline=None)
@given(chains(), st.integers(1, 12))
def test_best_labellings_are_the_same(found, k):
    mine, here, theirs, there = found
    answers = both(lambda: mine.viterbi(here), lambda: theirs.viterbi(there))
    if answers is None:
        with pytest.raises(InfeasibleError):
            mine.k_best(here, k)
        return
    (labels, scores), (_, expected_scores) = answers
    np.testing.assert_allclose(theirs.score(there, labels), expected_scores, rtol=1e-12, atol=1e-12)  # there are ties
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-12, atol=1e-12)
    ranked = mine.k_best(here, k)
    for i, ((rows, values), (others, other_values)) in enumerate(zip(ranked, theirs.k_best(there, k), strict=True)):
        assert rows.shape == others.shape and len(np.unique(rows, axis=0)) == len(rows)
        np.testing.assert_allclose(values, other_values, rtol=1e-12, atol=1e-12)
        assert np.all(np.diff(values) <= 0.0)
        lo, hi = mine.offsets[i : i + 2]
        alone = replace(here, emission=here.emission[lo:hi])
        scored = [ListedChain([0, hi - lo]).score(alone, row)[0] for row in rows]
        np.testing.assert_allclose(values, scored, rtol=1e-12, atol=1e-12)


@settings(max_examples=200, deadline=None)
@given(chains(), st.integers(0, 2**32 - 1))
def test_sums_and_expected_parts_are_the_same(found, seed):
    mine, here, theirs, there = found
    np.testing.assert_allclose(mine.log_partition(here), theirs.log_partition(there), **DIGITS)
    weights = np.random.default_rng(seed).normal(size=mine.n_sequences)
    answers = both(lambda: mine.expectations(here, weights), lambda: theirs.expectations(there, weights))
    if answers is not None:
        (log_z, parts), (other_log_z, others) = answers
        np.testing.assert_allclose(log_z, other_log_z, **DIGITS)
        same_parts(parts, others, **DIGITS)


@settings(max_examples=150, deadline=None)
@given(chains(), st.integers(0, 2**32 - 1))
def test_draws_and_posterior_labellings_are_the_same(found, seed):
    mine, here, theirs, there = found
    answers = both(lambda: mine.posterior_decode(here)[1], lambda: theirs.posterior_decode(there)[1])
    if answers is None:
        with pytest.raises(InfeasibleError):
            mine.sample(here, 1, np.random.default_rng(seed))
        return
    np.testing.assert_allclose(*answers, **DIGITS)
    values = np.random.default_rng(seed).random(here.emission.shape)  # no ties
    assert np.array_equal(mine.best_possible(here, values)[0], theirs.best_possible(there, values)[0])
    drawn = [chain.sample(scores, 5, np.random.default_rng(seed)) for chain, scores in ((mine, here), (theirs, there))]
    assert np.array_equal(*drawn)  # the same uniform numbers; rounding decides in one of 10^9


@settings(max_examples=150, deadline=None)
@given(chains(), st.integers(0, 2**32 - 1), st.booleans())
def test_pieces_are_the_same(found, seed, nothing):
    mine, here, theirs, there = found
    rng = np.random.default_rng(seed)
    (first, table), (other_first, others) = (
        mine.piece_normalisers(here, nothing),
        theirs.piece_normalisers(there, nothing),
    )
    np.testing.assert_allclose(first, other_first, **DIGITS)
    last = mine.offsets[1:] - 1  # no piece follows
    table.emission[last] = others.emission[last] = 0.0
    np.testing.assert_allclose(table.emission, others.emission, **DIGITS)
    weights = rng.random(mine.n_sequences)
    counted = rng.normal(size=here.emission.shape) * (rng.random(here.emission.shape) < 0.7)
    counted[np.isneginf(others.emission)] = 0.0  # of a context without a possible label
    weights[np.isneginf(first)] = 0.0
    for contexts in (counted, rng.integers(0, here.n_labels, mine.n_positions).astype(np.int32)):
        gradients = here.zeros_like(), there.zeros_like()
        forms = [replace(each, emission=contexts) for each in gradients] if contexts.ndim == 2 else [contexts] * 2
        sums = (
            chain.add_piece_expectations(gradient, scores, weights, form, nothing)
            for chain, gradient, scores, form in zip((mine, theirs), gradients, (here, there), forms, strict=True)
        )
        values, expected = sums
        np.testing.assert_allclose(values, expected, **DIGITS)
        if np.isfinite(expected).all():  # a labelling with an impossible context leaves part of a gradient
            same_parts(*gradients, **DIGITS)


@settings(max_examples=150, deadline=None)
@given(chains(), st.integers(0, 2**32 - 1))
def test_covariances_with_a_cost_are_the_same(found, seed):
    mine, here, theirs, there = found
    rng = np.random.default_rng(seed)
    costs, weights = rng.normal(size=here.emission.shape), rng.normal(size=mine.n_sequences)
    answers = both(
        lambda: mine.cost_covariance(here, costs, weights), lambda: theirs.cost_covariance(there, costs, weights)
    )
    if answers is not None:
        (mean, parts), (other_mean, others) = answers
        np.testing.assert_allclose(mean, other_mean, **DIGITS)
        same_parts(parts, others, **DIGITS)


@pytest.mark.parametrize("name", sorted(criteria_of(ListedChain)))
@settings(max_examples=40, deadline=None)
@given(chains(), st.integers(0, 2**32 - 1), st.booleans())
def test_every_criterion_has_the_same_losses_and_gradients(name, found, seed, partial):
    mine, here, theirs, there = found
    rng, cls = np.random.default_rng(seed), CRITERIA[name]
    cost = (
        Cost(rng.random((4, here.n_labels, here.n_labels)) * (1.0 - np.eye(here.n_labels))) if cls.uses_cost else None
    )
    if not cls.learns_weights or cls.uses_base:
        return
    names, weights = ["O", *range(1, here.n_labels)], rng.random(mine.n_sequences)
    criterion = make_criterion(name, cost).for_labels(names)
    labels = rng.integers(0, here.n_labels, mine.n_positions).astype(np.int32)
    mask = (rng.random(here.emission.shape) < 0.5) | (labels[:, None] == np.arange(here.n_labels))
    gold = Gold(labels, mask.astype(np.uint8)) if partial and cls.takes_partial else Gold(labels)
    answers = both(
        lambda: criterion.evaluate(mine, here, gold, weights), lambda: criterion.evaluate(theirs, there, gold, weights)
    )
    if answers is None:
        return
    (losses, gradient), (expected, others) = answers
    np.testing.assert_allclose(losses, expected, rtol=1e-6, atol=1e-6)
    if np.isfinite(expected).all():
        same_parts(gradient, others, rtol=1e-5, atol=1e-6)


def test_where_probabilities_underflow_log_space_is_used():
    """Two labels that exclude each other, both much better where the other one must be."""
    features, penalties = one_way()
    listed = ListedFeatures(
        2, 1, features.state, None, features.transitions, features.trigrams, make_steps(features, penalties)
    )
    scores = listed.scores(listed.lay_out(np.array([900.0, -900.0]), penalties), nothing_seen(3), 0, 1)
    emission = np.array([[0.0, 1000.0], [1000.0, 0.0], [0.0, 1000.0]])
    scores = replace(scores, emission=emission)
    mine, theirs = ListedChain([0, 3]), Chain([0, 3])
    there = scores.over_matrix()
    np.testing.assert_allclose(mine.log_partition(scores), theirs.log_partition(there), rtol=1e-12)
    same_parts(mine.expectations(scores)[1], theirs.expectations(there)[1], rtol=1e-9, atol=1e-300)
    drawn = [chain.sample(s, 3, np.random.default_rng(0)) for chain, s in ((mine, scores), (theirs, there))]
    assert np.array_equal(*drawn)


def one_way():
    from loglinear.features.block import FeatureBlock
    from loglinear.structures.chain.features import ChainFeatures, Penalties

    block = FeatureBlock(np.zeros(1, np.int64), np.zeros(0, np.int32), 2)
    features = ChainFeatures(2, 1, block, None, np.array([0, 3], np.int32), np.zeros(0, np.int32))
    return features, Penalties(np.array([[0.0, -np.inf], [-np.inf, 0.0]]), np.zeros(2), np.zeros(2))


def nothing_seen(n):
    from loglinear.features.encoding import EncodedCorpus, Incidence

    return EncodedCorpus(np.array([0, n]), Incidence(np.zeros(n + 1, np.int64), np.zeros(0, np.int32), None))


def test_faulty_arguments_are_refused():
    features, penalties = one_way()
    steps = make_steps(features, penalties)
    scores = ListedScores(np.zeros((3, 2)), np.zeros(len(steps.features)), np.zeros(2), np.zeros(2), steps)
    chain = ListedChain([0, 3])
    with pytest.raises(OptionError):
        chain.k_best(scores, 0)
    with pytest.raises(OptionError):
        chain.sample(scores, -1, np.random.default_rng(0))
    with pytest.raises(DataError):
        chain.restrict(scores, np.ones((3, 3)))
    with pytest.raises(DataError):
        chain.viterbi(replace(scores, emission=np.full((3, 2), np.nan)))
    with pytest.raises(DataError):
        chain.log_partition(replace(scores, transition=np.zeros(1)))
