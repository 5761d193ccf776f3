"""Where numbers get large, small or many: scaled and log space agree, and nothing overflows."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.errors import InfeasibleError
from loglinear.structures.chain import log_sums, structure, sums
from loglinear.structures.chain.structure import Chain, ChainScores
from loglinear.structures.chain.sums import DONE, INFEASIBLE, NEEDS_LOG_SPACE
from problems.chain import random_scores

NAMES = ("emission", "transition", "start", "stop", "edge", "trigram")


def buffers(scores: ChainScores, with_edges: bool) -> sums.Parts:
    n, y = scores.emission.shape
    cube = {1: (0, y, y), 2: (y, y, y), 3: (y + 1, y * y, y)}[scores.order]
    return sums.Parts(
        np.empty((n, y)),
        np.zeros((y, y)),
        np.zeros(y),
        np.zeros(y),
        np.empty((n if with_edges else 0, y, y)),
        np.zeros(cube),
    )


def scaled_and_log(chain: Chain, scores: ChainScores, only_done: bool = False):
    """Status of each sequence, and (log Z, expected parts) of the scaled kernel and of the log-space kernel."""
    parts, with_edges = chain._checked(scores), scores.edge is not None
    if scores.order > 1:
        kernel = sums.forward_backward_higher_order
    else:
        kernel = sums.forward_backward_edges if with_edges else sums.forward_backward
    weights, status = np.linspace(0.5, 2.0, chain.n_sequences), np.empty(chain.n_sequences, np.uint8)
    scaled = np.empty(chain.n_sequences), buffers(scores, with_edges)
    logged = np.empty(chain.n_sequences), buffers(scores, with_edges)
    kernel(chain.offsets, parts, weights, scaled[0], status, scaled[1])
    which = np.flatnonzero(status == DONE) if only_done else np.arange(chain.n_sequences)
    log_sums.forward_backward(chain.offsets, which, parts, weights, logged[0], logged[1])
    return status, scaled, logged


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 9),
    st.sampled_from([1, 2, 3]),
    st.booleans(),
    st.sampled_from([0.1, 3.0, 15.0]),
    st.booleans(),
)
def test_scaled_and_log_space_agree(seed, y, order, edges, scale, gaps):
    rng = np.random.default_rng(seed)
    chain = Chain(np.cumsum([0, *rng.integers(1, 16, size=4)]))
    scores = random_scores(rng, chain.n_positions, y, order, edges, scale)
    if gaps:  # labels that cannot follow each other, but always a way through label 0
        matrix = np.where(rng.random((y, y)) < 0.3, -np.inf, scores.transition)
        matrix[0, 0] = 0.0
        scores = replace(scores, transition=matrix)
    status, scaled, logged = scaled_and_log(chain, scores, only_done=True)
    done = status == DONE
    if scale < 10.0:
        assert done.all()
    np.testing.assert_allclose(scaled[0][done], logged[0][done], rtol=1e-12, atol=1e-10)
    rows = np.repeat(done, np.diff(chain.offsets))
    for name, one, other in zip(NAMES, scaled[1], logged[1], strict=True):
        if name == "emission" or (name == "edge" and edges):
            one, other = one[rows], other[rows]
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("edges", [False, True])
def test_the_scaled_kernels_leave_what_they_cannot_do(order, edges):
    chain, scores = Chain([0, 3, 6, 9]), random_scores(np.random.default_rng(0), 9, 3, order, edges)
    scores.emission[4, 1] = -400.0
    scores.emission[7] = -np.inf
    status, scaled, _ = scaled_and_log(chain, scores)
    assert status.tolist() == [DONE, NEEDS_LOG_SPACE, INFEASIBLE]
    assert scaled[0][2] == -np.inf
    wide = replace(scores, transition=scores.transition * 1000.0)
    assert NEEDS_LOG_SPACE in scaled_and_log(chain, wide)[0]


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("edges", [False, True])
@pytest.mark.parametrize("step", [-200.0, 200.0])
def test_a_label_that_fades_away_over_many_positions_still_counts(order, edges, step):
    """Label 1 loses 200 nats a position, no row too wide for the scaled kernels, and wins them back; or the reverse."""
    n = 10
    scores = ChainScores(
        np.array([[0.0, step if t < n // 2 else -step] for t in range(n)]),
        np.array([[0.0, -np.inf], [-np.inf, 0.0]]),
        np.zeros(2),
        np.zeros(2),
        np.zeros((n, 2, 2)) if edges else None,
        np.zeros((2, 2, 2)) if order > 1 else None,
        np.zeros((2, 2, 2, 2)) if order > 2 else None,
    )
    log_z, expected = Chain([0, n]).expectations(scores)
    np.testing.assert_allclose(log_z, [np.log(2.0)], atol=1e-9)
    np.testing.assert_allclose(expected.emission, 0.5, atol=1e-9)
    np.testing.assert_allclose(expected.transition, [[4.5, 0.0], [0.0, 4.5]], atol=1e-8)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("edges", [False, True])
def test_a_label_with_a_faint_future_is_left_to_log_space(order, edges):
    """Label 1, always reached from 0, is never left again and costs 90 nats a position: no forward value is tiny."""
    scores = ChainScores(
        np.tile([0.0, -90.0], (6, 1)),
        np.array([[0.0, 0.0], [-np.inf, 0.0]]),
        np.zeros(2),
        np.zeros(2),
        np.zeros((6, 2, 2)) if edges else None,
        np.zeros((2, 2, 2)) if order > 1 else None,
        np.zeros((2, 2, 2, 2)) if order > 2 else None,
    )
    chain = Chain([0, 6])
    assert scaled_and_log(chain, scores)[0].tolist() == [NEEDS_LOG_SPACE]
    np.testing.assert_allclose(chain.expectations(scores)[1].emission[0, 1], np.exp(-540.0), rtol=1e-9)
    np.testing.assert_allclose(chain.expectations(scores)[1].emission[1, 1], np.exp(-450.0), rtol=1e-9)


def test_labels_that_cannot_be_reached_do_not_disturb():
    """Label 1 cannot begin, yet every step it would gain more than any double can hold."""
    n = 2000
    emission = np.zeros((n, 2))
    emission[:, 1] = 250.0
    scores = ChainScores(
        emission, np.array([[0.0, -np.inf], [0.0, 0.0]]), np.array([0.0, -np.inf]), np.zeros(2), np.zeros((n, 2, 2))
    )
    for one in (scores, replace(scores, edge=None), replace(scores, trigram=np.zeros((2, 2, 2)))):
        log_z, expected = Chain([0, n]).expectations(one)
        assert log_z.tolist() == [0.0]
        np.testing.assert_array_equal(expected.emission, np.tile([1.0, 0.0], (n, 1)))
        np.testing.assert_array_equal(expected.transition, [[n - 1, 0.0], [0.0, 0.0]])


@pytest.mark.parametrize("scale", [1.0, 500.0])
@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("edges", [False, True])
def test_length_5000(order, edges, scale):
    chain, rng = Chain([0, 5000]), np.random.default_rng(1)
    scores = random_scores(rng, 5000, 4, order, edges)
    scores = ChainScores(**{name: np.clip(part, -1.0, 1.0) * scale for name, part in scores.parts().items()})
    log_z, expected = chain.expectations(scores)
    labels, best = chain.viterbi(scores)
    np.testing.assert_allclose(chain.score(scores, labels), best, rtol=1e-12)
    assert best[0] <= log_z[0] <= best[0] + 5000 * np.log(4)
    np.testing.assert_allclose(expected.emission.sum(axis=1), 1.0, rtol=1e-9)
    np.testing.assert_allclose(expected.transition.sum(), 4999.0, rtol=1e-9)
    assert all(np.isfinite(part).all() for part in expected.parts().values())
    _, _, logged = scaled_and_log(chain, scores)
    np.testing.assert_allclose(log_z, logged[0], rtol=1e-12)
    np.testing.assert_allclose(expected.emission, logged[1][0] / 0.5, atol=1e-8)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("level", [-1e6, 1e6])
def test_a_constant_added_to_all_emissions_changes_log_z_alone(order, level):
    chain, scores = Chain([0, 20]), random_scores(np.random.default_rng(2), 20, 3, order)
    log_z, expected = chain.expectations(scores)
    shifted_z, shifted = chain.expectations(replace(scores, emission=scores.emission + level))
    np.testing.assert_allclose(shifted_z - 20 * level, log_z, atol=1e-6)
    np.testing.assert_allclose(shifted.transition, expected.transition, atol=1e-7)


def test_two_hundred_labels():
    chain, rng = Chain([0, 1, 8, 20]), np.random.default_rng(5)
    scores = random_scores(rng, 20, 200)
    status, scaled, logged = scaled_and_log(chain, scores)
    assert (status == DONE).all()
    np.testing.assert_allclose(scaled[0], logged[0], rtol=1e-12)
    np.testing.assert_allclose(scaled[1][1], logged[1][1], atol=1e-10)
    labels, best = chain.viterbi(scores)
    for i, (found, values) in enumerate(chain.k_best(scores, 5)):
        assert values[0] == best[i] and len(values) == 5
        np.testing.assert_array_equal(found[0], labels[chain.offsets[i] : chain.offsets[i + 1]])
    assert chain.sample(scores, 3, rng).max() < 200


@pytest.mark.parametrize("order", [1, 2, 3])
def test_one_label_has_one_labelling(order):
    chain, scores = Chain([0, 1, 3, 7]), random_scores(np.random.default_rng(0), 7, 1, order, edges=True)
    log_z, expected = chain.expectations(scores)
    np.testing.assert_allclose(log_z, chain.score(scores, np.zeros(7, np.int32)), rtol=1e-12)
    np.testing.assert_allclose(log_z, chain.viterbi(scores)[1], rtol=1e-12)
    assert expected.emission.tolist() == [[1.0]] * 7
    assert [len(values) for _, values in chain.k_best(scores, 4)] == [1, 1, 1]


def test_a_sequence_without_transitions_works_if_it_has_one_position():
    scores = ChainScores(np.zeros((3, 2)), np.full((2, 2), -np.inf), np.zeros(2), np.zeros(2))
    for one in (scores, replace(scores, edge=np.zeros((3, 2, 2))), replace(scores, trigram=np.zeros((2, 2, 2)))):
        np.testing.assert_allclose(Chain([0, 1, 3]).log_partition(one), [np.log(2.0), -np.inf])
        with pytest.raises(InfeasibleError, match="sequence 1 "):
            Chain([0, 1, 3]).expectations(one)
        np.testing.assert_array_equal(Chain([0, 1, 2, 3]).expectations(one)[1].emission, 0.5)


def test_threads_share_a_chain():
    chain = Chain(np.arange(0, 2001, 20))
    scores = random_scores(np.random.default_rng(0), 2000, 10)
    alone = chain.expectations(scores)
    with ThreadPoolExecutor(4) as pool:
        for log_z, expected in pool.map(lambda _: chain.expectations(scores), range(16)):
            np.testing.assert_array_equal(log_z, alone[0])
            np.testing.assert_array_equal(expected.transition, alone[1].transition)


def test_each_kernel_compiles_once_whatever_arrays_come():
    chain, rng = Chain([0, 2, 5]), np.random.default_rng(0)
    for order, edges, scale in itertools.product([1, 2], [False, True], [1.0, 500.0]):
        scores = random_scores(rng, 5, 3, order, edges, scale)
        odd = replace(scores, emission=np.asfortranarray(scores.emission).astype(np.float32), start=np.zeros(3, int))
        for one in (scores, odd):
            chain.expectations(one, [1, 2])
            chain.log_partition(one)
            chain.sample(one, 2, rng)
            chain.k_best(one, 2)
            labels = chain.viterbi(one)[0]
            chain.score(one, labels.astype(np.int64))
            chain.add_labelling(scores.zeros_like(), labels.tolist(), np.ones(2, np.float32))
    modules = (sums, sums, log_sums, structure)
    counts = [len(f.signatures) for module in modules for f in vars(module).values() if hasattr(f, "signatures")]
    assert max(counts) == 1
