"""A flat label is a chain of length one: every operation and every criterion gives what the chain gives."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear import Tagger
from loglinear.criteria.costs import make_cost
from loglinear.criteria.criterion import CRITERIA, make_criterion
from loglinear.errors import InfeasibleError, OptionError
from loglinear.optimizers.objective import Objective
from loglinear.structures.chain.structure import Chain, ChainScores
from loglinear.structures.flat.features import CandidateCorpus, CandidateFeatures, FlatCorpus, FlatFeatures
from loglinear.structures.flat.structure import Flat, FlatScores
from loglinear.structures.gold import Gold
from problems.flat import batches
from problems.problem import seeds

SPECS = ["cll", "softmax-margin", "max-margin", "risk", "jrb", "perceptron", "mira:k=2"]
few = settings(max_examples=60, deadline=None)


def as_chain(scores: np.ndarray) -> tuple[Chain, ChainScores]:
    y = scores.shape[1]
    return Chain(np.arange(len(scores) + 1)), ChainScores(scores, np.zeros((y, y)), np.zeros(y), np.zeros(y))


def close(actual: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-12)


@few
@given(batches(), seeds)
def test_operations_are_those_of_a_chain_of_length_one(batch, seed):
    scores, rng = batch[1].labels, np.random.default_rng(seed)
    n, y = scores.shape
    flat, own = Flat(n), FlatScores(scores)
    chain, parts = as_chain(scores)
    weights, costs = rng.random(n), rng.random((n, y))
    labels = np.array([rng.choice(np.flatnonzero(row > -np.inf)) for row in scores], dtype=np.int32)
    close(flat.score(own, labels), chain.score(parts, labels))
    close(flat.log_partition(own), chain.log_partition(parts))
    for mine, theirs in zip(flat.viterbi(own), chain.viterbi(parts), strict=True):
        close(mine, theirs)
    log_z, expected = flat.expectations(own, weights)
    chain_log_z, chain_expected = chain.expectations(parts, weights)
    close(log_z, chain_log_z)
    close(expected.labels, chain_expected.emission)
    mean, covariance = flat.cost_covariance(own, costs, weights)
    chain_mean, chain_covariance = chain.cost_covariance(parts, costs, weights)
    close(mean, chain_mean)
    np.testing.assert_allclose(covariance.labels, chain_covariance.emission, atol=1e-9)
    for (mine, value), (theirs, best) in zip(flat.k_best(own, 3), chain.k_best(parts, 3), strict=True):
        close(mine, theirs)
        close(value, best)


@few
@given(batches(), seeds, st.sampled_from(SPECS), st.booleans())
def test_criteria_give_what_they_give_on_chains(batch, seed, spec, partial):
    scores, rng = batch[1].labels, np.random.default_rng(seed)
    n, y = scores.shape
    labels = np.array([rng.choice(np.flatnonzero(row > -np.inf)) for row in scores], dtype=np.int32)
    gold = Gold(labels)
    if partial and y > 1:
        allowed = (rng.random((n, y)) < 0.5).astype(np.uint8)
        allowed[np.arange(n), labels] = 1
        gold = Gold(np.where(allowed.sum(axis=1) == 1, labels, -1).astype(np.int32), allowed)
    table = rng.random((y, y)) * (1 - np.eye(y))
    cost = make_cost(table, [str(i) for i in range(y)], np.ones(y)) if CRITERIA.part(spec).uses_cost else None
    criterion, weights = make_criterion(spec, cost), rng.random(n)
    chain, parts = as_chain(scores)
    losses, gradient = criterion.evaluate(Flat(n), FlatScores(scores), gold, weights)
    chain_losses, chain_gradient = criterion.evaluate(chain, parts, gold, weights)
    np.testing.assert_allclose(losses, chain_losses, atol=1e-9, rtol=1e-9)
    np.testing.assert_allclose(gradient.labels, chain_gradient.emission, atol=1e-9, rtol=1e-9)


def test_a_label_is_drawn_by_its_probability():
    scores = FlatScores(np.log(np.tile([[0.5, 0.2, 0.0, 0.3]], (20_000, 1)) + 1e-300))
    drawn = Flat(20_000).sample(scores, np.random.default_rng(0))
    shares = np.bincount(drawn, minlength=4) / 20_000
    np.testing.assert_allclose(shares, [0.5, 0.2, 0.0, 0.3], atol=0.015)  # four standard deviations


def test_an_example_without_a_candidate_is_named():
    scores = FlatScores(np.array([[0.0, 1.0], [-np.inf, -np.inf]]))
    np.testing.assert_allclose(Flat(2).log_partition(scores), [np.log(1.0 + np.e), -np.inf])
    for operation in (
        Flat(2).viterbi,
        Flat(2).expectations,
        lambda s: Flat(2).k_best(s, 1),
        lambda s: Flat(2).cost_covariance(s, np.zeros((2, 2))),
        lambda s: Flat(2).sample(s, np.random.default_rng(0)),
    ):
        with pytest.raises(InfeasibleError) as caught:
            operation(scores)
        assert caught.value.sequence == 1
    with pytest.raises(OptionError, match="k = 0"):
        Flat(2).k_best(scores, 0)


@few
@given(st.integers(0, 2**32 - 1), st.sampled_from(["free", "penalised", "none"]), st.booleans())
def test_the_objective_has_the_gradient_of_its_value(seed, bias, sparse):
    rng = np.random.default_rng(seed)
    n, a, y = 7, 4, 3
    rows = rng.normal(size=(n, a)) * (rng.random((n, a)) < 0.6)
    corpus = FlatCorpus.of(sp.csr_matrix(rows) if sparse else rows)
    features = FlatFeatures(a, y, bias, scale=2.0)
    objective = Objective(
        features, corpus, Gold(rng.integers(y, size=n).astype(np.int32)), make_criterion("cll"), None, 0.3,
        rng.random(n), n_penalised=features.n_penalised,
    )  # fmt: skip
    weights = rng.normal(size=features.n_features)
    value, gradient = objective(weights)
    columns, biases = features.split(weights)
    scores = rows @ columns + biases
    losses = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(n), objective.gold.labels]
    penalised = weights if bias != "free" else weights[:-y]
    np.testing.assert_allclose(value, objective.sequence_weights @ losses + 0.3 * penalised @ penalised)
    close_to_differences(objective, weights, gradient.copy())


def close_to_differences(objective: Objective, weights: np.ndarray, gradient: np.ndarray) -> None:
    step = 1e-6
    for i in range(len(weights)):
        there, back = weights.copy(), weights.copy()
        there[i] += step
        back[i] -= step
        slope = (objective(there)[0] - objective(back)[0]) / (2 * step)
        np.testing.assert_allclose(gradient[i], slope, atol=1e-6)


@few
@given(st.integers(0, 2**32 - 1))
def test_candidates_have_features_of_their_own(seed):
    rng = np.random.default_rng(seed)
    n, y, d = 6, 4, 5
    possible = rng.random((n, y)) < 0.6
    labels = rng.integers(y, size=n).astype(np.int32)
    possible[np.arange(n), labels] = True
    table = rng.normal(size=(n, y, d)) * (rng.random((n, y, d)) < 0.5)
    rows = sp.csr_matrix(table[possible])
    corpus = CandidateCorpus(
        np.concatenate([[0], np.cumsum(possible.sum(axis=1))]), np.nonzero(possible)[1].astype(np.int32),
        rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data,
    )  # fmt: skip
    features, weights = CandidateFeatures(d, y), rng.normal(size=d)
    scores = features.scores(weights, corpus, 1, n)
    np.testing.assert_allclose(scores.labels, np.where(possible, table @ weights, -np.inf)[1:])
    objective = Objective(features, corpus, Gold(labels), make_criterion("cll"), None, 0.1)
    _, gradient = objective(weights)
    close_to_differences(objective, weights, gradient.copy())
    sparse = features.sparse_gradient()
    _, parts = make_criterion("cll").evaluate(Flat(1), FlatScores(scores.labels[:1]), Gold(labels[1:2]), np.ones(1))
    sparse.add(corpus, 1, parts)
    shares = np.where(possible[1], parts.labels[0], 0.0)
    np.testing.assert_allclose(sparse.values, shares @ table[1], atol=1e-12)
    assert set(np.flatnonzero(sparse.values)) <= set(sparse.touched.tolist())


@few
@given(batches(), seeds)
def test_least_squares_is_the_distance_from_the_targets(batch, seed):
    scores, rng = batch[1].labels, np.random.default_rng(seed)
    n = len(scores)
    labels = np.array([rng.choice(np.flatnonzero(row > -np.inf)) for row in scores], dtype=np.int32)
    weights = rng.random(n)
    losses, gradient = make_criterion("least-squares").evaluate(Flat(n), FlatScores(scores), Gold(labels), weights)
    for i, row in enumerate(scores):
        apart = [s - (1.0 if label == labels[i] else -1.0) for label, s in enumerate(row)]
        expected = [a if np.isfinite(a) else 0.0 for a in apart]
        close(losses[i], weights[i] * np.square(expected).sum())
        close(gradient.labels[i], 2.0 * weights[i] * np.array(expected))


def test_a_tagger_does_not_take_what_flat_labels_alone_have():
    with pytest.raises(OptionError, match="'least-squares' trains no tagger: it trains classifiers only; there are: "):
        Tagger(criterion="least-squares").check_options()
