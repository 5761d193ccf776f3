"""Laws of the covariance of a cost and the parts of a chain, against enumeration, finite differences and each other."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_chain import few, raises_if_infeasible

from loglinear.errors import DataError, InfeasibleError
from loglinear.structures.chain import covariance, structure
from loglinear.structures.chain.covariance import DONE, INFEASIBLE, NEEDS_LOG_SPACE
from loglinear.structures.chain.structure import Chain, ChainScores
from problems.chain import batches, random_scores
from referees.chain import BruteForce, referees

compiled_only = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="too long a chain for plain Python")
seeds = st.integers(0, 2**32 - 1)
shapes = pytest.mark.parametrize(("order", "edges"), list(itertools.product([1, 2, 3], [False, True])))


def log_space(chain: Chain, scores: ChainScores, cost: np.ndarray) -> tuple[np.ndarray, ChainScores]:
    """The answer of the kernel for any scores, whatever the scores are."""
    parts, (costs, unit) = chain._checked(scores), chain._checked_costs(cost, scores.n_labels)
    result, mean = chain._blank_parts(scores, structure._edge_rows(scores)), np.empty(chain.n_sequences)
    status, ones = np.empty(chain.n_sequences, np.uint8), np.ones(chain.n_sequences)
    which = np.arange(chain.n_sequences)
    covariance.covariance_in_logs(chain.offsets, which, parts, costs, unit, ones, mean, status, result)
    assert (status == DONE).all()
    return mean, structure._as_scores(result, scores, scores.edge is not None)


def assert_same_parts(one: ChainScores, other: ChainScores, rtol: float = 0.0, atol: float = 0.0) -> None:
    assert one.parts().keys() == other.parts().keys()
    for name, part in one.parts().items():
        np.testing.assert_allclose(part, other.parts()[name], rtol=rtol, atol=atol, err_msg=name)


def assert_enumerated(chain: Chain, scores: ChainScores, cost: np.ndarray, weights: np.ndarray | None) -> None:
    """E[c] and all covariances are those of the enumeration, to nine digits of the greatest cost."""
    mean, found = chain.cost_covariance(scores, cost, weights)
    factors = np.ones(chain.n_sequences) if weights is None else weights
    rows = [slice(a, b) for a, b in itertools.pairwise(chain.offsets.tolist())]
    each = [one.covariance(cost[row]) for one, row in zip(referees(chain, scores), rows, strict=True)]
    near = {"rtol": 1e-9, "atol": 1e-9 * np.abs(cost).max(initial=0.0)}
    np.testing.assert_allclose(mean, [expected for expected, _ in each], **near)
    assert found.parts().keys() == scores.parts().keys()
    for name, part in found.parts().items():
        if name in ("emission", "edge"):
            for weight, row, (_, one) in zip(factors, rows, each, strict=True):
                np.testing.assert_allclose(part[row], weight * one.parts()[name], **near)
        else:
            total = sum((w * one.parts()[name] for w, (_, one) in zip(factors, each, strict=True)), np.zeros_like(part))
            np.testing.assert_allclose(part, total, **near)


@few
@given(batches(), seeds, st.sampled_from([1e-3, 1.0, 1e6]), st.booleans())
def test_covariance_is_that_of_the_enumeration(batch, seed, size, weighted):
    chain, scores = batch
    cost = np.random.default_rng(seed).normal(size=scores.emission.shape) * size
    if not raises_if_infeasible(referees(chain, scores), lambda: chain.cost_covariance(scores, cost)):
        assert_enumerated(chain, scores, cost, np.linspace(-1.0, 2.0, chain.n_sequences) if weighted else None)


@shapes
@few
@given(seeds, st.integers(2, 4), st.sampled_from([0.0, 0.3]), st.sampled_from([0.3, 2.0, 60.0]))
def test_covariance_is_that_of_the_enumeration_where_many_labellings_count(order, edges, seed, y, gaps, scale):
    """Long enough for every recursion to take a second step, and label 0 is always possible: no case is trivial."""
    rng = np.random.default_rng(seed)
    chain = Chain([0, 3, 4, 9])
    scores = random_scores(rng, 9, y, order, edges, scale, gaps)
    for part in scores.parts().values():
        into_zero = part[..., :1]  # a view: no -inf on the way that stays in label 0
        into_zero[np.isneginf(into_zero)] = 0.0
    assert_enumerated(chain, scores, rng.normal(size=(9, y)), np.array([1.0, -0.5, 2.0]))


@shapes
def test_covariance_is_the_gradient_of_the_expected_cost(order, edges):
    rng = np.random.default_rng(11)
    chain, scores, cost = Chain([0, 1, 4, 8]), random_scores(rng, 8, 3, order, edges), rng.normal(size=(8, 3))
    weights = np.array([0.5, 1.0, -2.0])
    gradient = chain.cost_covariance(scores, cost, weights)[1].parts()
    for name, part in scores.parts().items():
        for place in np.ndindex(part.shape):
            kept, values = part[place], []
            for step in (1e-5, -1e-5):
                part[place] = kept + step
                # not by the operation under test: E[c] is the cost times the node marginals
                marginals = chain.expectations(scores)[1].emission
                values.append(weights @ np.add.reduceat((marginals * cost).sum(axis=1), chain.offsets[:-1]))
            part[place] = kept
            assert gradient[name][place] == pytest.approx((values[0] - values[1]) / 2e-5, abs=1e-8)


@few
@given(batches(gaps=(0.0,)), seeds)
def test_expected_cost_is_the_cost_times_the_node_marginals(batch, seed):
    chain, scores = batch
    cost = np.random.default_rng(seed).normal(size=scores.emission.shape)
    rows = (chain.expectations(scores)[1].emission * cost).sum(axis=1)
    expected = [rows[a:b].sum() for a, b in itertools.pairwise(chain.offsets.tolist())]
    np.testing.assert_allclose(chain.cost_covariance(scores, cost)[0], np.array(expected), rtol=1e-10, atol=1e-10)


@few
@given(batches(gaps=(0.0,)), seeds)
def test_covariances_of_parts_that_exclude_each_other_sum_to_zero(batch, seed):
    """A position has one label, a pair of positions one pair: their indicators sum to a constant."""
    chain, scores = batch
    cost = np.random.default_rng(seed).normal(size=scores.emission.shape)
    found = chain.cost_covariance(scores, cost)[1]
    for part in (found.emission.sum(axis=1), found.transition.sum(), found.start.sum(), found.stop.sum()):
        np.testing.assert_allclose(part, 0.0, atol=1e-11)
    if found.edge is not None:
        later = np.setdiff1d(np.arange(chain.n_positions), chain.offsets[:-1])
        np.testing.assert_allclose(found.edge[later].sum(axis=1), found.emission[later], atol=1e-11)
        np.testing.assert_allclose(found.edge[later].sum(axis=2), found.emission[later - 1], atol=1e-11)
        assert not found.edge[chain.offsets[:-1]].any()
        np.testing.assert_allclose(found.edge.sum(axis=0), found.transition, atol=1e-10)
    if found.trigram is not None:
        np.testing.assert_allclose(found.trigram.sum(), 0.0, atol=1e-11)


@few
@given(batches(gaps=(0.0,)), seeds)
def test_a_constant_added_to_a_position_changes_the_expected_cost_alone(batch, seed):
    """Costs are multiples of 1/64, so that with the constants in they are still exact."""
    chain, scores = batch
    rng = np.random.default_rng(seed)
    cost = rng.integers(-64, 65, size=scores.emission.shape) / 64.0
    level = rng.integers(-(10**6), 10**6, size=chain.n_positions).astype(np.float64)
    mean, found = chain.cost_covariance(scores, cost)
    raised_mean, raised = chain.cost_covariance(scores, cost + level[:, None])
    added = [level[a:b].sum() for a, b in itertools.pairwise(chain.offsets.tolist())]
    np.testing.assert_allclose(raised_mean, mean + np.array(added), rtol=1e-14, atol=1e-9)
    assert_same_parts(raised, found, atol=1e-8)


@shapes
def test_a_million_for_every_label_costs_no_digits(order, edges):
    """A covariance without centring would lose the twelve digits that T times 10^6 and its square are apart."""
    n = 60 if numba.config.DISABLE_JIT else 2000
    rng = np.random.default_rng(3)
    chain, scores = Chain([0, n]), random_scores(rng, n, 5, order, edges, scale=1.0)
    cost = rng.integers(0, 2**10, size=(n, 5)) / 2.0**10
    mean, found = chain.cost_covariance(scores, cost)
    raised_mean, raised = chain.cost_covariance(scores, cost + 1e6)
    np.testing.assert_allclose(raised_mean - n * 1e6, mean, atol=1e-5)
    for name in ("emission", "start", "stop"):
        np.testing.assert_allclose(raised.parts()[name], found.parts()[name], atol=2e-9)
    for name in ("transition", "edge", "trigram"):
        if name in found.parts():
            np.testing.assert_allclose(raised.parts()[name], found.parts()[name], atol=1e-7)
    np.testing.assert_allclose(raised.emission.sum(axis=1), 0.0, atol=1e-9)


@few
@given(batches(gaps=(0.0,)), seeds, st.sampled_from([-1000, -300, 300, 1000]))
def test_the_unit_of_the_cost_does_not_matter(batch, seed, exponent):
    chain, scores = batch
    cost = np.random.default_rng(seed).normal(size=scores.emission.shape)
    mean, found = chain.cost_covariance(scores, cost)
    unit = 2.0**exponent
    scaled_mean, scaled = chain.cost_covariance(scores, cost * unit)
    np.testing.assert_allclose(scaled_mean / unit, mean, rtol=1e-12, atol=1e-15)
    assert_same_parts(ChainScores(**{k: v / unit for k, v in scaled.parts().items()}), found, rtol=1e-12, atol=1e-15)


@few
@given(seeds, st.integers(1, 9), st.sampled_from([0.1, 3.0, 15.0, 60.0]), st.sampled_from([0.0, 0.3]))
def test_scaled_and_log_space_agree(seed, y, scale, gaps):
    rng = np.random.default_rng(seed)
    chain = Chain(np.cumsum([0, *rng.integers(1, 16, size=4)]))
    scores = random_scores(rng, chain.n_positions, y, scale=scale)
    matrix = np.where(rng.random((y, y)) < gaps, -np.inf, scores.transition)
    matrix[0, 0] = 0.0  # always a way through label 0
    scores = replace(scores, transition=matrix)
    cost = rng.random((chain.n_positions, y))
    mean, found = chain.cost_covariance(scores, cost)
    log_mean, log_found = log_space(chain, scores, cost)
    np.testing.assert_allclose(mean, log_mean, rtol=1e-10, atol=1e-12)
    assert_same_parts(found, log_found, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_an_edge_or_trigram_of_zeros_changes_nothing(seed):
    """The order-1 chain without edges, done by the scaled kernel, is also one of every other kind."""
    rng = np.random.default_rng(seed)
    chain, y = Chain([0, 1, 3, 10, 30]), 4
    scores, cost = random_scores(rng, 30, y), rng.random((30, y))
    mean, found = chain.cost_covariance(scores, cost)
    for edge, trigram in itertools.product([None, np.zeros((30, y, y))], [None, np.zeros((y, y, y))]):
        other_mean, other = chain.cost_covariance(replace(scores, edge=edge, trigram=trigram), cost)
        np.testing.assert_allclose(other_mean, mean, rtol=1e-12)
        assert_same_parts(replace(other, edge=None, trigram=None), found, atol=1e-12)


def test_the_scaled_kernel_leaves_what_it_cannot_do():
    chain, scores = Chain([0, 3, 6, 9]), random_scores(np.random.default_rng(0), 9, 3)
    scores.emission[4, 1] = -400.0
    scores.emission[7] = -np.inf
    fading = ChainScores(
        np.tile([0.0, -200.0], (9, 1)), np.where(np.eye(2) > 0, 0.0, -np.inf), np.zeros(2), np.zeros(2)
    )
    expected = [(scores, [DONE, NEEDS_LOG_SPACE, INFEASIBLE]), (fading, [NEEDS_LOG_SPACE] * 3)]
    wide = replace(scores, transition=scores.transition * 1000.0)
    expected.append((wide, [NEEDS_LOG_SPACE, NEEDS_LOG_SPACE, NEEDS_LOG_SPACE]))
    for one, wanted in expected:
        parts, status = chain._checked(one), np.empty(3, np.uint8)
        result, cost = chain._blank_parts(one, False), np.zeros(one.emission.shape)
        covariance.covariance(chain.offsets, parts, cost, 1.0, np.ones(3), np.empty(3), status, result)
        assert status.tolist() == wanted


@shapes
@pytest.mark.parametrize("step", [-200.0, 200.0])
def test_a_label_that_fades_away_over_many_positions_still_counts(order, edges, step):
    """Two labellings of probability 1/2, all 0 and all 1; their costs 0 and n: covariances are a quarter of n."""
    n = 10
    scores = ChainScores(
        np.array([[0.0, step if t < n // 2 else -step] for t in range(n)]),
        np.where(np.eye(2) > 0, 0.0, -np.inf),
        np.zeros(2),
        np.zeros(2),
        np.zeros((n, 2, 2)) if edges else None,
        np.zeros((2, 2, 2)) if order > 1 else None,
        np.zeros((2, 2, 2, 2)) if order > 2 else None,
    )
    mean, found = Chain([0, n]).cost_covariance(scores, np.tile([0.0, 1.0], (n, 1)))
    np.testing.assert_allclose(mean, [n / 2], rtol=1e-9)
    np.testing.assert_allclose(found.emission, np.tile([-n / 4, n / 4], (n, 1)), rtol=1e-9)
    np.testing.assert_allclose(found.transition, (n - 1) * np.diag([-n / 4, n / 4]), rtol=1e-9)


@compiled_only
@shapes
@pytest.mark.parametrize("scale", [1.0, 500.0])
def test_length_2000_and_scores_of_500(order, edges, scale):
    n, rng = 2000, np.random.default_rng(1)
    scores = random_scores(rng, n, 4, order, edges)
    scores = ChainScores(**{name: np.clip(part, -1.0, 1.0) * scale for name, part in scores.parts().items()})
    cost = rng.random((n, 4))
    chain = Chain([0, n])
    mean, found = chain.cost_covariance(scores, cost)
    marginals = chain.expectations(scores)[1].emission
    np.testing.assert_allclose(mean, [(marginals * cost).sum()], rtol=1e-9)
    assert all(np.isfinite(part).all() for part in found.parts().values())
    np.testing.assert_allclose(found.emission.sum(axis=1), 0.0, atol=1e-10)
    np.testing.assert_allclose(found.transition.sum(), 0.0, atol=1e-8)
    single = np.zeros((n, 4))  # a cost of one for one label of one position: its variance is p (1 - p)
    single[1000, 2] = 1.0
    p = marginals[1000, 2]
    np.testing.assert_allclose(chain.cost_covariance(scores, single)[1].emission[1000, 2], p * (1 - p), atol=1e-10)


@compiled_only
@pytest.mark.parametrize("n_labels", [3, 200])
def test_the_covariance_of_two_labels_does_not_depend_on_which_is_the_cost(n_labels):
    rng, n = np.random.default_rng(5), 30
    chain, scores = Chain([0, n]), random_scores(rng, n, n_labels)
    (t, y), (u, z) = (7, 1), (9, 2)
    one, other = np.zeros((n, n_labels)), np.zeros((n, n_labels))
    one[t, y], other[u, z] = 1.0, 1.0
    forward, backward = chain.cost_covariance(scores, one)[1], chain.cost_covariance(scores, other)[1]
    np.testing.assert_allclose(forward.emission[u, z], backward.emission[t, y], rtol=1e-6, atol=1e-16)


def test_labels_that_cannot_be_reached_do_not_disturb():
    """Label 1 cannot begin, yet every step it would gain more than any double can hold, and it costs as much."""
    n = 300
    emission = np.zeros((n, 2))
    emission[:, 1] = 250.0
    scores = ChainScores(emission, np.array([[0.0, -np.inf], [0.0, 0.0]]), np.array([0.0, -np.inf]), np.zeros(2))
    cost = np.tile([1.0, 1e300], (n, 1))
    for order, edges in itertools.product([1, 2], [False, True]):
        edge, trigram = np.zeros((n, 2, 2)) if edges else None, np.zeros((2, 2, 2)) if order == 2 else None
        mean, found = Chain([0, n]).cost_covariance(replace(scores, edge=edge, trigram=trigram), cost)
        np.testing.assert_allclose(mean, [n], rtol=1e-9)
        assert not any(part.any() for part in found.parts().values())


@shapes
def test_one_label_one_position_and_no_sequence(order, edges):
    rng = np.random.default_rng(0)
    alone, cost = random_scores(rng, 7, 1, order, edges), rng.random((7, 1))
    mean, found = Chain([0, 1, 3, 7]).cost_covariance(alone, cost)
    np.testing.assert_allclose(mean, [cost[:1].sum(), cost[1:3].sum(), cost[3:].sum()], rtol=1e-14)
    assert_same_parts(found, alone.zeros_like(), atol=1e-15)
    short, cost = random_scores(rng, 1, 3, order, edges), rng.random((1, 3))
    mean, found = Chain([0, 1]).cost_covariance(short, cost)
    expected_mean, expected = BruteForce(Chain([0, 1]), short).covariance(cost)
    np.testing.assert_allclose(mean, [expected_mean], rtol=1e-13)
    np.testing.assert_allclose(found.emission, expected.emission, atol=1e-14)
    assert not found.transition.any()
    mean, found = Chain([0]).cost_covariance(random_scores(rng, 0, 3, order, edges), np.empty((0, 3)))
    assert mean.shape == (0,) and found.emission.shape == (0, 3) and not found.transition.any()


def test_costs_that_are_none_are_refused():
    chain, scores = Chain([0, 1, 4]), random_scores(np.random.default_rng(0), 4, 2)
    for value in (np.nan, np.inf, -np.inf):
        cost = np.zeros((4, 2))
        cost[2, 1] = value
        with pytest.raises(DataError, match="finite cost"):
            chain.cost_covariance(scores, cost)
    with pytest.raises(DataError, match=r"cost has the shape \[4, 3\], not \[4, 2\]"):
        chain.cost_covariance(scores, np.zeros((4, 3)))
    with pytest.raises(DataError, match="cost must be numbers"):
        chain.cost_covariance(scores, np.full((4, 2), "1"))
    with pytest.raises(DataError, match="weights"):
        chain.cost_covariance(scores, np.zeros((4, 2)), [1.0])
    with pytest.raises(DataError, match=r"emission.*NaN"):
        chain.cost_covariance(replace(scores, emission=scores.emission * np.nan), np.zeros((4, 2)))


@shapes
def test_a_sequence_without_labelling_is_named(order, edges):
    scores = random_scores(np.random.default_rng(0), 6, 2, order, edges)
    scores.emission[3] = -np.inf
    with pytest.raises(InfeasibleError, match="sequence 1 "):
        Chain([0, 2, 4, 6]).cost_covariance(scores, np.zeros((6, 2)))
    impossible = replace(scores, emission=np.zeros((6, 2)), transition=np.full((2, 2), -np.inf))
    with pytest.raises(InfeasibleError, match="sequence 0 "):
        Chain([0, 2, 4, 6]).cost_covariance(impossible, np.zeros((6, 2)))
    Chain(np.arange(7)).cost_covariance(impossible, np.zeros((6, 2)))


def test_threads_share_a_chain_and_inputs_stay_as_they_are():
    n = 100 if numba.config.DISABLE_JIT else 2000
    chain, rng = Chain(np.arange(0, n + 1, 20)), np.random.default_rng(0)
    scores, cost = random_scores(rng, n, 10), rng.random((n, 10))
    kept, kept_cost = scores.plus(scores.zeros_like()), cost.copy()
    alone = chain.cost_covariance(scores, cost)
    with ThreadPoolExecutor(4) as pool:
        for mean, found in pool.map(lambda _: chain.cost_covariance(scores, cost), range(8)):
            np.testing.assert_array_equal(mean, alone[0])
            assert_same_parts(found, alone[1])
    assert_same_parts(scores, kept)
    np.testing.assert_array_equal(cost, kept_cost)


@compiled_only
def test_each_kernel_compiles_once_whatever_arrays_come():
    chain, rng = Chain([0, 2, 5]), np.random.default_rng(0)
    for order, edges, scale in itertools.product([1, 2], [False, True], [1.0, 500.0]):
        scores = random_scores(rng, 5, 3, order, edges, scale)
        odd = replace(scores, emission=np.asfortranarray(scores.emission).astype(np.float32), start=np.zeros(3, int))
        for one, cost in itertools.product((scores, odd), (np.ones((5, 3)), np.ones((5, 3), bool), np.ones((3, 5)).T)):
            chain.cost_covariance(one, cost, [1, 2])
    counts = [len(f.signatures) for f in vars(covariance).values() if hasattr(f, "signatures")]
    assert counts and max(counts) <= 1  # none of those that were compiled ahead


@compiled_only
def test_the_laws_hold_without_compilation():
    laws = Path(__file__)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(laws)],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        cwd=laws.parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert " passed" in run.stdout
