"""Where numbers get large, small or many, and where segments are tokens: then all is as in a chain."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from loglinear.criteria.costs import Cost
from loglinear.criteria.criterion import CRITERIA, criteria_of, make_criterion
from loglinear.structures.chain.structure import Chain, ChainScores
from loglinear.structures.gold import Gold
from loglinear.structures.segments.scheme import SegmentScheme
from loglinear.structures.segments.structure import Segments, SegmentScores
from problems.segments import LABELS, random_scores
from referees.segments import token_labels

SHARED = ("emission", "transition", "start", "stop")
seeds = st.integers(0, 2**32 - 1)


def log_partition_in_logs(scores: SegmentScores, scheme: SegmentScheme) -> float:
    """log Z of one sequence by the recursion of the definition, every sum a log-sum-exp."""
    n, y = len(scores.emission), scheme.n_labels
    transition = np.where(scheme.follows, scores.transition, -np.inf)
    enter, end = np.full((n + 1, y), -np.inf), np.full((n + 1, y), -np.inf)
    enter[0] = np.where(scheme.starts, scores.start, -np.inf)
    for e in range(1, n + 1):
        for label in range(y):
            terms = [-np.inf]
            for m in range(1, min(e, int(scheme.limits[label])) + 1):
                if (scheme.single[label] if m == 1 else min(scheme.first[label], scheme.last[label])) < 0:
                    continue
                tokens = token_labels(scheme, ((0, m, label),))
                own = sum(scores.emission[e - m + k, token] for k, token in enumerate(tokens))
                own += scores.length[m - 1, label] + (
                    0.0 if scores.segment is None else scores.segment[e - 1, m - 1, label]
                )
                terms.append(enter[e - m, label] + own)
            end[e, label] = logsumexp(terms)
        enter[e] = logsumexp(end[e][:, None] + transition, axis=0)
    return float(logsumexp(end[n] + scores.stop))


@settings(max_examples=30, deadline=None)
@given(seeds, st.sampled_from(sorted(LABELS)), st.sampled_from([0.1, 3.0, 15.0, 100.0, 1000.0]), st.booleans())
def test_long_sequences_of_any_scores_have_the_log_partition_of_log_space(seed, name, scale, gaps):
    rng, scheme = np.random.default_rng(seed), SegmentScheme.from_labels(LABELS[name], name, 6)
    n = int(rng.integers(1, 40))
    scores = random_scores(rng, n, scheme, bool(rng.integers(2)), scale, 0.1 if gaps else 0.0)
    segments = Segments([0, n], scheme)
    log_z = segments.log_partition(scores)[0]
    assert log_z == pytest.approx(log_partition_in_logs(scores, scheme), rel=1e-12, abs=1e-9)
    if log_z > -np.inf:
        expected = segments.expectations(scores)[1]
        np.testing.assert_allclose(expected.emission.sum(axis=1), 1.0, rtol=1e-9)
        assert all((part >= 0.0).all() and np.isfinite(part).all() for part in expected.parts().values())
        assert expected.transition.sum() + 1.0 == pytest.approx(expected.length.sum())


@pytest.mark.parametrize("step", [-200.0, 200.0])
def test_a_label_that_fades_away_over_many_tokens_still_counts(step):
    """Label 1 loses 200 nats a token and wins them back; nothing leads from one label to the other."""
    n, scheme = 10, SegmentScheme.from_labels(["a", "b"])
    scores = SegmentScores(
        np.array([[0.0, step if t < n // 2 else -step] for t in range(n)]),
        np.array([[0.0, -np.inf], [-np.inf, 0.0]]),
        np.zeros(2),
        np.zeros(2),
        np.zeros((1, 2)),
    )
    segments = Segments([0, n], scheme)
    log_z, expected = segments.expectations(scores)
    np.testing.assert_allclose(log_z, [np.log(2.0)], atol=1e-9)
    np.testing.assert_allclose(expected.emission, 0.5, atol=1e-9)
    np.testing.assert_allclose(expected.transition, [[4.5, 0.0], [0.0, 4.5]], atol=1e-8)
    mean, covariance = segments.cost_covariance(scores, np.tile([0.0, 1.0], (n, 1)))
    np.testing.assert_allclose(mean, [n / 2])
    np.testing.assert_allclose(covariance.emission, np.tile([-n / 4, n / 4], (n, 1)), atol=1e-8)


def test_a_faint_segment_counts_if_it_is_the_only_one_with_a_future():
    """X is e^-2000 of O, but the sequence may end with X alone."""
    scheme = SegmentScheme.from_labels(["O", "B-X", "I-X"], "bio", 3)
    emission = np.tile([0.0, -2000.0, 0.0], (5, 1))
    scores = SegmentScores(emission, np.zeros((2, 2)), np.zeros(2), np.array([-np.inf, 0.0]), np.zeros((3, 2)))
    segments = Segments([0, 5], scheme)
    log_z, expected = segments.expectations(scores)
    assert log_z[0] == pytest.approx(-2000.0 + np.log(3.0))  # the last 1, 2 or 3 tokens are its one segment
    np.testing.assert_allclose(expected.length, [[4 * 1 / 3 + 3 / 3 + 2 / 3, 1 / 3], [0, 1 / 3], [0, 1 / 3]])
    assert segments.viterbi(scores)[0].tolist() == [0, 0, 0, 0, 1]


def test_threads_may_share_a_structure_and_batches_do_not_matter():
    """The same numbers, to the last bit, from one batch or many, in any order, on any number of threads."""
    rng, scheme = np.random.default_rng(5), SegmentScheme.from_labels(LABELS["iob1"], "iob1", 5)
    lengths = rng.integers(1, 30, size=12)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    scores = random_scores(rng, int(offsets[-1]), scheme)
    whole, cost = Segments(offsets, scheme), rng.random(scores.emission.shape)

    def alone(i: int):
        first, end = offsets[i], offsets[i + 1]
        own = replace(scores, emission=scores.emission[first:end], segment=scores.segment[first:end])
        one = Segments([0, end - first], scheme)
        log_z, expected = one.expectations(own)
        mean, covariance = one.cost_covariance(own, cost[first:end])
        return log_z[0], expected.emission, mean[0], covariance.segment, one.viterbi(own)[0]

    log_z, expected = whole.expectations(scores)
    mean, covariance = whole.cost_covariance(scores, cost)
    labels = whole.viterbi(scores)[0]
    with ThreadPoolExecutor(4) as pool:
        for i, (own_z, nodes, own_mean, spans, best) in enumerate(pool.map(alone, range(len(lengths)))):
            rows = slice(offsets[i], offsets[i + 1])
            assert own_z == log_z[i] and own_mean == mean[i]
            np.testing.assert_array_equal(nodes, expected.emission[rows])
            np.testing.assert_array_equal(spans, covariance.segment[rows])
            np.testing.assert_array_equal(best, labels[rows])


# -- segments of one token are a chain -------------------------------------------------------------------------------


def chain_batch(
    seed: int, n_labels: int, scale: float, gaps: float
) -> tuple[Segments, SegmentScores, Chain, ChainScores]:
    rng = np.random.default_rng(seed)
    offsets = np.cumsum([0, *rng.integers(1, 12, size=4)])
    scheme = SegmentScheme.from_labels([f"y{y}" for y in range(n_labels)])
    scores = random_scores(rng, int(offsets[-1]), scheme, False, scale, gaps)
    if gaps:  # always a way through label 0
        for part in (scores.emission[:, 0], scores.transition[0], scores.start, scores.stop):
            part[np.isneginf(part)] = 0.0
    scores.length[...] = 0.0
    plain = ChainScores(*(getattr(scores, name) for name in SHARED))
    return Segments(offsets, scheme), scores, Chain(offsets), plain


def same(one: SegmentScores, other: ChainScores) -> None:
    for name in SHARED:
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-9, atol=1e-9, err_msg=name)


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(1, 6), st.sampled_from([0.5, 3.0, 40.0]), st.sampled_from([0.0, 0.3]))
def test_segments_of_one_token_are_a_chain_in_every_operation(seed, n_labels, scale, gaps):
    segments, scores, chain, plain = chain_batch(seed, n_labels, scale, gaps)
    rng = np.random.default_rng(seed)
    weights, cost = rng.normal(size=chain.n_sequences), rng.random(scores.emission.shape)
    labels, best = segments.viterbi(scores)
    np.testing.assert_array_equal(labels, chain.viterbi(plain)[0])
    np.testing.assert_allclose(best, chain.viterbi(plain)[1], rtol=1e-12)
    np.testing.assert_allclose(segments.log_partition(scores), chain.log_partition(plain), rtol=1e-12, atol=1e-9)
    same(segments.expectations(scores, weights)[1], chain.expectations(plain, weights)[1])
    np.testing.assert_allclose(segments.edge_marginals(scores), chain.edge_marginals(plain), atol=1e-9)
    np.testing.assert_allclose(
        segments.segment_marginals(scores)[:, 0], chain.expectations(plain)[1].emission, atol=1e-9
    )
    mean, covariance = segments.cost_covariance(scores, cost, weights)
    chain_mean, chain_covariance = chain.cost_covariance(plain, cost, weights)
    np.testing.assert_allclose(mean, chain_mean, rtol=1e-9)
    same(covariance, chain_covariance)
    for (one, values), (other, others) in zip(segments.k_best(scores, 5), chain.k_best(plain, 5), strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_allclose(values, others, rtol=1e-12)
    np.testing.assert_array_equal(segments.posterior_decode(scores)[0], chain.posterior_decode(plain)[0])
    draws = [each.sample(s, 3, np.random.default_rng(1)) for each, s in ((segments, scores), (chain, plain))]
    np.testing.assert_array_equal(*draws)
    chosen = rng.integers(n_labels, size=chain.n_positions)
    np.testing.assert_allclose(segments.score(scores, chosen), chain.score(plain, chosen), rtol=1e-12)


@pytest.mark.parametrize("name", sorted(criteria_of(Segments)))
@settings(max_examples=20, deadline=None)
@given(seed=seeds, n_labels=st.integers(1, 4), partial=st.booleans())
def test_segments_of_one_token_are_a_chain_to_every_criterion(name, seed, n_labels, partial):
    segments, scores, chain, plain = chain_batch(seed, n_labels, 1.0, 0.0)
    rng = np.random.default_rng(seed)
    gold = Gold(rng.integers(n_labels, size=chain.n_positions).astype(np.int32))
    if partial and CRITERIA[name].takes_partial:
        allowed = (rng.random(scores.emission.shape) < 0.5).astype(np.uint8)
        allowed[np.arange(chain.n_positions), gold.labels] = 1
        gold = Gold(np.where(allowed.sum(axis=1) == 1, gold.labels, -1).astype(np.int32), allowed)
    cost = Cost(rng.random((4, n_labels, n_labels)) * (1.0 - np.eye(n_labels)))
    criterion = make_criterion(name, cost if CRITERIA[name].uses_cost else None).for_labels(["O", *"ABC"][:n_labels])
    weights = rng.random(chain.n_sequences)
    losses, gradient = criterion.evaluate(segments, scores, gold, weights)
    chain_losses, chain_gradient = criterion.evaluate(chain, plain, gold, weights)
    np.testing.assert_allclose(losses, chain_losses, rtol=1e-9, atol=1e-9)
    same(gradient, chain_gradient)
