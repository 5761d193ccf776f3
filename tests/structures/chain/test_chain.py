"""Laws of the chain operations, each against the enumeration of all labellings."""

from __future__ import annotations

from dataclasses import replace

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.errors import DataError, InfeasibleError, OptionError
from loglinear.structures.chain.structure import Chain, ChainScores
from problems.chain import batches, random_scores
from referees.chain import BruteForce, referees, score, scores_of

few = settings(max_examples=6 if numba.config.DISABLE_JIT else 60, deadline=None)


def raises_if_infeasible(brute: list[BruteForce], operation) -> bool:
    """Whether some sequence has no labelling; the operation must then name the first such one."""
    infeasible = [i for i, one in enumerate(brute) if not one.feasible]
    if infeasible:
        with pytest.raises(InfeasibleError) as caught:
            operation()
        assert caught.value.sequence == infeasible[0]
    return bool(infeasible)


def close(actual: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-9)


@few
@given(batches(deep=True), st.integers(0, 2**32 - 1))
def test_score_is_the_sum_of_the_parts(batch, seed):
    chain, scores = batch
    labels = np.random.default_rng(seed).integers(scores.n_labels, size=chain.n_positions).astype(np.int32)
    sequences = np.split(labels, chain.offsets[1:-1])[: chain.n_sequences]
    expected = [score(chain, scores_of(chain, scores, i), tuple(own.tolist())) for i, own in enumerate(sequences)]
    close(chain.score(scores, labels), np.array(expected))


@few
@given(batches(deep=True))
def test_log_partition_sums_all_labellings(batch):
    chain, scores = batch
    close(chain.log_partition(scores), np.array([one.log_z for one in referees(chain, scores)]))


@few
@given(batches(deep=True))
def test_viterbi_finds_the_best_score_and_a_labelling_that_has_it(batch):
    chain, scores = batch
    brute = referees(chain, scores)
    if raises_if_infeasible(brute, lambda: chain.viterbi(scores)):
        return
    labels, best = chain.viterbi(scores)
    close(best, np.array([one.values.max() for one in brute]))
    close(chain.score(scores, labels), best)


@few
@given(batches(deep=True), st.booleans())
def test_expectations_are_the_weighted_expected_parts(batch, weighted):
    chain, scores = batch
    brute = referees(chain, scores)
    if raises_if_infeasible(brute, lambda: chain.expectations(scores)):
        return
    weights = np.linspace(-1.0, 2.0, chain.n_sequences) if weighted else np.ones(chain.n_sequences)
    log_z, expected = chain.expectations(scores, weights if weighted else None)
    close(log_z, np.array([one.log_z for one in brute]))
    each = [one.expectations() for one in brute]
    for name in ("transition", "start", "stop", "trigram", "fourgram"):
        if getattr(scores, name) is None:
            assert getattr(expected, name) is None
        else:
            total = sum(w * getattr(one, name) for w, one in zip(weights, each, strict=True))
            close(getattr(expected, name), total + np.zeros_like(getattr(scores, name)))
    assert (expected.edge is None) == (scores.edge is None)
    for i, one in enumerate(each):
        rows = slice(chain.offsets[i], chain.offsets[i + 1])
        close(expected.emission[rows], weights[i] * one.emission)
        if expected.edge is not None:
            close(expected.edge[rows], weights[i] * one.edge)


@few
@given(batches())
def test_edge_marginals_are_those_of_the_enumeration_and_sum_to_the_node_marginals(batch):
    chain, scores = batch
    brute = referees(chain, scores)
    if raises_if_infeasible(brute, lambda: chain.edge_marginals(scores)):
        return
    edge, node = chain.edge_marginals(scores), chain.expectations(scores)[1].emission
    if brute:
        close(edge, np.concatenate([one.expectations().edge for one in brute]))
    close(node.sum(axis=1), np.ones(chain.n_positions))
    later = np.setdiff1d(np.arange(chain.n_positions), chain.offsets[:-1])
    close(edge[later].sum(axis=1), node[later])
    close(edge[later].sum(axis=2), node[later - 1])


@few
@given(batches(deep=True), st.integers(1, 12))
def test_k_best_is_the_top_of_the_enumeration(batch, k):
    chain, scores = batch
    brute = referees(chain, scores)
    if raises_if_infeasible(brute, lambda: chain.k_best(scores, k)):
        return
    found, viterbi = chain.k_best(scores, k), chain.viterbi(scores)[0]
    assert len(found) == len(brute)
    for i, (one, (labels, values)) in enumerate(zip(brute, found, strict=True)):
        close(values, one.k_best(k))
        assert (np.diff(values) <= 0.0).all()
        assert len({tuple(row) for row in labels.tolist()}) == len(labels)
        close(np.array([score(one.structure, one.scores, tuple(row)) for row in labels.tolist()]), values)
        np.testing.assert_array_equal(labels[0], viterbi[chain.offsets[i] : chain.offsets[i + 1]])


@few
@given(batches(deep=True))
def test_posterior_decoding_has_the_most_expected_correct_labels_of_the_possible_labellings(batch):
    chain, scores = batch
    brute = referees(chain, scores)
    if raises_if_infeasible(brute, lambda: chain.posterior_decode(scores)):
        return
    labels, correct = chain.posterior_decode(scores)
    close(correct, np.array([one.most_correct() for one in brute]))
    assert (chain.score(scores, labels) > -np.inf).all()


@few
@given(batches(gaps=(0.0,)))
def test_posterior_decoding_is_the_best_label_of_each_position_if_all_pairs_are_possible(batch):
    chain, scores = batch
    labels = chain.posterior_decode(scores)[0]
    np.testing.assert_array_equal(labels, chain.expectations(scores)[1].emission.argmax(axis=1))


@few
@given(batches(deep=True), st.integers(0, 5), st.integers(0, 2**32 - 1))
def test_draws_are_possible_labellings(batch, n, seed):
    chain, scores = batch
    brute = referees(chain, scores)
    if raises_if_infeasible(brute, lambda: chain.sample(scores, n, np.random.default_rng(seed))):
        return
    draws = chain.sample(scores, n, np.random.default_rng(seed))
    assert draws.shape == (n, chain.n_positions) and draws.dtype == np.int32
    for labels in draws:
        assert (chain.score(scores, labels) > -np.inf).all()
    np.testing.assert_array_equal(draws, chain.sample(scores, n, np.random.default_rng(seed)))


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("edges", [False, True])
def test_draws_have_the_frequencies_of_the_model(order, edges):
    n = 500 if numba.config.DISABLE_JIT else 40_000
    scores = random_scores(np.random.default_rng(3), 4, 3, order, edges, scale=0.7)
    chain = Chain([0, 4])
    brute = BruteForce(chain, scores)
    draws = chain.sample(scores, n, np.random.default_rng(4))
    numbers = np.ravel_multi_index(tuple(draws.T), (3, 3, 3, 3))
    counts, expected = np.bincount(numbers, minlength=81), n * brute.probabilities
    rare = expected < 1.0  # taken together: single counts are not nearly normal
    counts, expected = (np.append(each[~rare], each[rare].sum()) for each in (counts, expected))
    chi_square = ((counts - expected) ** 2 / np.maximum(expected, 1.0)).sum()
    assert chi_square < 80 + 5 * np.sqrt(2 * 80)


@few
@given(batches(deep=True), st.integers(0, 2**32 - 1))
def test_add_labelling_is_the_gradient_of_score(batch, seed):
    """score(y) is linear: it equals the parts of y, counted, times the scores."""
    chain, scores = batch
    scores = ChainScores(**{name: np.nan_to_num(part, neginf=-3.0) for name, part in scores.parts().items()})
    rng = np.random.default_rng(seed)
    labels, weights = rng.integers(scores.n_labels, size=chain.n_positions), rng.normal(size=chain.n_sequences)
    parts = scores.zeros_like()
    chain.add_labelling(parts, labels, weights)
    total = sum(float((part * scores.parts()[name]).sum()) for name, part in parts.parts().items())
    assert total == pytest.approx(float(weights @ chain.score(scores, labels)), rel=1e-9, abs=1e-6)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("edges", [False, True])
def test_expectations_are_the_gradient_of_the_log_partition(order, edges):
    rng = np.random.default_rng(11)
    chain, scores = Chain([0, 1, 4, 8]), random_scores(rng, 8, 3, order, edges)
    weights = np.array([0.5, 1.0, -2.0])
    gradient = chain.expectations(scores, weights)[1].parts()
    for name, part in scores.parts().items():
        for place in np.ndindex(part.shape):
            kept, values = part[place], []
            for step in (1e-5, -1e-5):
                part[place] = kept + step
                values.append(weights @ chain.log_partition(scores))
            part[place] = kept
            assert gradient[name][place] == pytest.approx((values[0] - values[1]) / 2e-5, abs=1e-8)


@few
@given(batches(orders=(2,)), st.integers(0, 2**32 - 1))
def test_4_grams_of_zero_change_nothing(batch, seed):
    chain, scores = batch
    y, cost = scores.n_labels, np.random.default_rng(seed).normal(size=scores.emission.shape)
    deeper = replace(scores, fourgram=np.zeros((y, y, y, y)))
    assert (scores.order, deeper.order) == (2, 3)
    if raises_if_infeasible(referees(chain, scores), lambda: chain.viterbi(deeper)):
        return
    for best in (chain.viterbi(deeper), chain.viterbi(scores)):  # labellings of the same score may tie
        np.testing.assert_allclose(chain.score(scores, best[0]), chain.viterbi(scores)[1], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(best[1], chain.viterbi(scores)[1], rtol=1e-9, atol=1e-12)
    for one, other in (
        (chain.expectations(deeper), chain.expectations(scores)),
        (chain.cost_covariance(deeper, cost), chain.cost_covariance(scores, cost)),
    ):
        np.testing.assert_allclose(one[0], other[0], rtol=1e-12, atol=1e-12)
        for name, part in other[1].parts().items():
            np.testing.assert_allclose(getattr(one[1], name), part, rtol=1e-9, atol=1e-12, err_msg=name)


@few
@given(batches(gaps=(0.0,), orders=(3,)))
def test_marginals_of_three_labels_sum_to_those_of_two(batch):
    chain, scores = batch
    y = scores.n_labels
    threes = chain.edge_marginals(scores, 3)
    assert threes.shape == (chain.n_positions, y * y, y)
    close(threes.reshape(-1, y, y, y).sum(axis=1), chain.edge_marginals(scores))
    deep = replace(scores, edge=np.zeros_like(threes))
    close(threes, chain.expectations(deep.with_edges(scores.edge))[1].edge)


def test_4_grams_go_with_trigrams_and_edges_of_three_labels_with_4_grams():
    chain, scores = Chain([0, 4]), random_scores(np.random.default_rng(0), 4, 2, order=3)
    with pytest.raises(DataError, match="4-grams go with trigrams"):
        chain.log_partition(replace(scores, trigram=None))
    with pytest.raises(DataError, match="edge has the shape"):
        chain.log_partition(replace(scores, fourgram=None, edge=np.zeros((4, 4, 2))))
    with pytest.raises(DataError, match=r"fourgram.*NaN"):
        chain.viterbi(replace(scores, fourgram=scores.fourgram * np.nan))
    deep = replace(scores, edge=np.zeros((4, 4, 2)))
    with pytest.raises(DataError, match="edges of three labels cannot be cut into pieces"):
        chain.piece_normalisers(deep)
    with pytest.raises(OptionError, match="order=3 has too many neighbours"):
        chain.add_given_neighbours(scores.zeros_like(), scores, [0, 0, 0, 0], [1.0], any_neighbours=True)


def test_an_empty_batch_gives_empty_answers():
    chain = Chain([0])
    for order, edges in [(1, False), (1, True), (2, False), (2, True), (3, False), (3, True)]:
        scores = random_scores(np.random.default_rng(0), 0, 3, order, edges)
        assert chain.log_partition(scores).shape == (0,)
        assert chain.viterbi(scores)[0].shape == (0,)
        assert chain.posterior_decode(scores)[1].shape == (0,)
        assert chain.k_best(scores, 2) == []
        assert chain.edge_marginals(scores).shape == (0, 3, 3)
        assert not chain.expectations(scores)[1].transition.any()


def test_scores_add_and_subtract_part_by_part():
    rng = np.random.default_rng(0)
    plain, rich = random_scores(rng, 3, 2), random_scores(rng, 3, 2, order=2, edges=True)
    total = plain.plus(rich)
    assert (plain.order, rich.order, total.order) == (1, 2, 2)
    np.testing.assert_array_equal(total.emission, plain.emission + rich.emission)
    np.testing.assert_array_equal(total.trigram, rich.trigram)
    total.subtract(rich)
    close(total.transition, plain.transition)
    assert not total.trigram.any()
    with pytest.raises(DataError, match="edge"):
        plain.subtract(rich)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: ChainScores(s.emission[:-1], s.transition, s.start, s.stop), r"emission.*\[3, 2\], not \[4, 2\]"),
        (lambda s: ChainScores(s.emission, s.transition[:1], s.start, s.stop), "transition"),
        (lambda s: ChainScores(s.emission * np.nan, s.transition, s.start, s.stop), "emission.*NaN"),
        (lambda s: ChainScores(s.emission, s.transition, s.start + np.inf, s.stop), "start.*inf"),
        (lambda s: ChainScores(s.emission.astype(str), s.transition, s.start, s.stop), "emission must be numbers"),
        (lambda s: ChainScores(np.empty((4, 0)), s.transition, s.start, s.stop), "at least one label"),
    ],
)
def test_scores_that_are_none_are_refused(change, message):
    scores = change(random_scores(np.random.default_rng(0), 4, 2))
    for operation in (Chain([0, 1, 4]).log_partition, Chain([0, 1, 4]).viterbi, Chain([0, 1, 4]).expectations):
        with pytest.raises(DataError, match=message):
            operation(scores)


@pytest.mark.parametrize("offsets", [[], [1, 2], [0, 2, 2], [0, 3, 1], [[0, 1]], [0.5, 1.0]])
def test_offsets_that_are_none_are_refused(offsets):
    with pytest.raises(DataError):
        Chain(offsets)


def test_labels_weights_and_masks_that_do_not_fit_are_refused():
    chain, scores = Chain([0, 1, 4]), random_scores(np.random.default_rng(0), 4, 2)
    for labels, message in [([0, 1, 2, 0], "label 2 at position 2"), ([0, -1, 0, 0], "label -1"), ([0], "shape")]:
        with pytest.raises(DataError, match=message):
            chain.score(scores, labels)
    with pytest.raises(DataError, match="weights"):
        chain.expectations(scores, [1.0])
    with pytest.raises(DataError, match="finite"):
        chain.expectations(scores, [1.0, np.nan])
    with pytest.raises(DataError, match="allowed"):
        chain.restrict(scores, np.ones((4, 3)))
    with pytest.raises(OptionError, match="k = 0"):
        chain.k_best(scores, 0)
    with pytest.raises(OptionError, match="negative"):
        chain.sample(scores, -1, np.random.default_rng(0))
    frozen = scores.zeros_like()
    frozen.emission.flags.writeable = False
    with pytest.raises(DataError, match=r"emission.*writable"):
        chain.add_labelling(frozen, [0, 0, 0, 0], [1.0, 1.0])


def test_any_kind_of_number_array_is_taken_and_none_is_changed():
    scores = random_scores(np.random.default_rng(0), 4, 2)
    chain, before = Chain(np.array([0, 1, 4], dtype=np.int32)), scores.plus(scores.zeros_like())
    odd = ChainScores(np.asfortranarray(scores.emission), scores.transition, scores.start, scores.stop)
    odd.start.flags.writeable = False
    close(chain.log_partition(odd), chain.log_partition(before))
    chain.expectations(odd)
    chain.restrict(odd, np.zeros((4, 2)))
    for name, part in before.parts().items():
        np.testing.assert_array_equal(odd.parts()[name], part)
