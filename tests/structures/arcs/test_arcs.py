"""Dependency trees against enumeration of all of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loglinear.data.dependency_checks import is_projective, projectivised
from loglinear.errors import DataError, InfeasibleError, OptionError
from loglinear.structures.arcs import sums
from loglinear.structures.arcs.structure import ArcScores, NonProjectiveTree, ProjectiveTree
from problems.arcs import KINDS, batches
from referees.arcs import BruteForce, crosses, referees, trees


def blocks_of(structure, arcs):
    return [ArcScores(arcs, structure.offsets).block(s) for s in range(structure.n_sequences)]


def test_the_numbers_of_trees_are_those_known():
    assert [len(trees(n, False, False)) for n in range(1, 6)] == [1, 3, 16, 125, 1296]  # (n + 1)^(n - 1)
    assert [len(trees(n, False, True)) for n in range(1, 6)] == [1, 2, 9, 64, 625]  # n^(n - 1)
    assert [len(trees(n, True, True)) for n in range(1, 6)] == [1, 2, 7, 30, 143]  # binomial(3n - 2, n - 1) / n
    assert [len(trees(n, True, False)) for n in range(1, 6)] == [1, 3, 12, 55, 273]


@pytest.mark.parametrize("projective", [True, False])
@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_without_scores_z_counts_the_trees(n, projective, single_root):
    structure = KINDS[projective]([0, n], single_root)
    scores = ArcScores(np.zeros(n * (n + 1)), structure.offsets)
    assert np.exp(structure.log_partition(scores)) == pytest.approx(len(trees(n, projective, single_root)))
    most = len(trees(n, projective, single_root)) + 1
    found, _ = structure.k_best(scores, most)[0]
    assert {tuple(heads) for heads in found.tolist()} == set(trees(n, projective, single_root))
    assert len(found) == most - 1


@given(batches())
def test_best_trees(batch):
    structure, scores = batch
    heads, best = structure.viterbi(scores)
    assert best == pytest.approx([one.best() for one in referees(structure, scores)])
    assert structure.score(scores, heads) == pytest.approx(best)
    for s, one in enumerate(referees(structure, scores)):
        assert tuple(heads[structure.offsets[s] : structure.offsets[s + 1]]) in one.labellings


@given(batches(), st.integers(1, 12))
def test_k_best_trees(batch, k):
    structure, scores = batch
    for (found, values), one in zip(structure.k_best(scores, k), referees(structure, scores), strict=True):
        assert values == pytest.approx(one.k_best(k))
        assert len({tuple(heads) for heads in found.tolist()}) == len(found)
        assert {tuple(heads) for heads in found.tolist()} <= set(one.labellings)
    assert [values[0] for _, values in structure.k_best(scores, k)] == pytest.approx(structure.viterbi(scores)[1])


@given(batches())
def test_log_partition_and_expectations(batch):
    structure, scores = batch
    weights = np.arange(1.0, structure.n_sequences + 1)
    log_z, expected = structure.expectations(scores, weights)
    brute = referees(structure, scores)
    assert log_z == pytest.approx([one.log_z for one in brute])
    assert structure.log_partition(scores) == pytest.approx(log_z)
    for s, block in enumerate(blocks_of(structure, expected.arcs)):
        assert block == pytest.approx(weights[s] * brute[s].expectations().block(0), abs=1e-8)
    table = structure.marginals(scores)
    assert table.sum(axis=1) == pytest.approx(np.ones(structure.n_positions))


@given(batches())
def test_log_space_gives_the_same(batch):
    structure, scores = batch
    brute = referees(structure, scores)
    if not isinstance(structure, ProjectiveTree):
        log_z, expected = np.full(structure.n_sequences, -np.inf), np.zeros(structure.n_arcs)
        everything = np.arange(structure.n_sequences)
        structure._in_logs(everything, scores.arcs, np.ones(len(everything)), log_z, expected)
        assert log_z == pytest.approx([one.log_z for one in brute])
        for block, one in zip(blocks_of(structure, expected), brute, strict=True):
            assert block == pytest.approx(one.expectations().block(0), abs=1e-7)
        return
    everything, n = np.arange(structure.n_sequences), structure.n_sequences
    log_z, status, expected = np.empty(n), np.empty(n, dtype=np.uint8), np.zeros(structure.n_arcs)
    arguments = (structure.sentences, everything, scores.arcs, structure.single_root, np.ones(n))
    sums.in_logs(*arguments, log_z, status, expected)
    assert log_z == pytest.approx([one.log_z for one in brute])
    for block, one in zip(blocks_of(structure, expected), brute, strict=True):
        assert block == pytest.approx(one.expectations().block(0), abs=1e-8)
    direction = np.random.default_rng(0).normal(size=structure.n_arcs)
    complex_z, complex_expected = np.empty(n, dtype=complex), np.zeros(structure.n_arcs, dtype=complex)
    arcs = scores.arcs + 1e-30j * direction
    sums.in_logs(*arguments[:2], arcs, *arguments[3:], complex_z, status, complex_expected)
    plain_z, plain = np.empty(n, dtype=complex), np.zeros(structure.n_arcs, dtype=complex)
    sums.scaled(structure.sentences, arcs, *arguments[3:], plain_z, status, plain)
    if not status.any():
        assert 1e30 * complex_z.imag == pytest.approx(1e30 * plain_z.imag, abs=1e-8)
        assert 1e30 * complex_expected.imag == pytest.approx(1e30 * plain.imag, abs=1e-8)


@given(batches())
def test_covariances_with_a_cost(batch):
    structure, scores = batch
    widest = int(np.diff(structure.offsets).max()) + 1
    cost = np.random.default_rng(1).normal(size=(structure.n_positions, widest))
    weights = np.arange(1.0, structure.n_sequences + 1)
    mean, covariance = structure.cost_covariance(scores, cost, weights)
    brute = referees(structure, scores)
    for s, block in enumerate(blocks_of(structure, covariance.arcs)):
        own_mean, own = brute[s].covariance(cost[structure.offsets[s] : structure.offsets[s + 1]])
        assert mean[s] == pytest.approx(own_mean, abs=1e-8)
        assert block == pytest.approx(weights[s] * own.block(0), abs=1e-7)


@pytest.mark.parametrize("projective", [True, False])
def test_draws_have_their_probabilities(projective):
    rng = np.random.default_rng(0)
    scores = ArcScores(rng.normal(size=2 + 12), np.array([0, 1, 4]))
    structure = KINDS[projective](scores.offsets)
    every = referees(structure, scores)[1]
    draws = structure.sample(scores, 2000, rng)
    assert (draws[:, 0] == 0).all()
    found = dict.fromkeys(every.labellings, 0)
    for tree in draws[:, 1:].tolist():
        found[tuple(tree)] += 1
    for tree, p in zip(every.labellings, every.probabilities, strict=True):
        assert abs(found[tree] / 2000 - p) < 5 * np.sqrt(p * (1 - p) / 2000)
    with pytest.raises(OptionError, match="n = -1"):
        structure.sample(scores, -1, rng)


@given(batches(impossible=False))
def test_restricting_leaves_the_trees_allowed(batch):
    structure, scores = batch
    heads = structure.viterbi(scores)[0]
    widest = int(np.diff(structure.offsets).max()) + 3  # a table may be wider than needed
    allowed = np.ones((structure.n_positions, widest), dtype=np.uint8)
    allowed[0] = 0
    allowed[0, heads[0]] = 1
    found, expected = structure.expectations(structure.restrict(scores, allowed))
    one = referees(structure, scores)[0]
    fixed = [value for tree, value in zip(one.labellings, one.values, strict=True) if tree[0] == heads[0]]
    assert found[0] == pytest.approx(np.logaddexp.reduce(fixed))
    assert expected.block(0)[0, heads[0]] == pytest.approx(1.0)


@pytest.mark.parametrize("projective", [True, False])
def test_a_sentence_without_a_tree_is_infeasible(projective):
    arcs = np.array([[-np.inf, -np.inf, 1.0], [-np.inf, 1.0, -np.inf]])  # no arc from the root
    scores = ArcScores(np.concatenate([np.zeros(2), arcs.ravel()]), np.array([0, 1, 3]))
    structure = KINDS[projective](scores.offsets)
    assert structure.log_partition(scores)[1] == -np.inf
    for operation in (structure.viterbi, structure.expectations, lambda s: structure.k_best(s, 2)):
        with pytest.raises(InfeasibleError, match="sequence 1"):
            operation(scores)


def test_long_sentences_and_great_scores_stay_in_range():
    rng = np.random.default_rng(0)
    for n, scale in ((250, 1.0), (60, 300.0), (12, 1e5)):
        scores = ArcScores(scale * rng.normal(size=n * (n + 1)), np.array([0, n]))
        for kind in KINDS.values():
            structure = kind([0, n])
            best = structure.viterbi(scores)[1][0]
            assert structure.score(scores, structure.viterbi(scores)[0])[0] == pytest.approx(best)
            log_z, expected = structure.expectations(scores)
            assert np.isfinite(log_z[0]) and log_z[0] >= best - 1e-9 * abs(best)
            assert expected.block(0).sum(axis=1) == pytest.approx(np.ones(n))


def test_sums_beyond_floats_are_made_in_logs():
    arcs = np.array([[0.0, -np.inf, 2000.0, 3.0], [0.0, 2000.0, -np.inf, -4.0], [-900.0, 1000.0, 0.0, -np.inf]])
    scores, cost = ArcScores(arcs.ravel(), np.array([0, 3])), np.arange(12.0).reshape(3, 4)
    for single_root in (True, False):
        structure = NonProjectiveTree([0, 3], single_root)
        every = BruteForce(structure, scores)
        log_z, expected = structure.expectations(scores)
        assert log_z[0] == pytest.approx(every.log_z)
        assert expected.block(0) == pytest.approx(every.expectations().block(0), abs=1e-9)
        mean, covariance = structure.cost_covariance(scores, cost)
        own_mean, own = every.covariance(cost)
        assert mean[0] == pytest.approx(own_mean, abs=1e-6)
        assert covariance.block(0) == pytest.approx(own.block(0), abs=1e-6)


@given(batches(impossible=False))
def test_projective_and_other_trees_are_ordered(batch):
    structure, scores = batch
    both = [kind(structure.offsets, structure.single_root) for kind in (ProjectiveTree, NonProjectiveTree)]
    assert (both[0].viterbi(scores)[1] <= both[1].viterbi(scores)[1] + 1e-9).all()
    assert (both[0].log_partition(scores) <= both[1].log_partition(scores) + 1e-9).all()


def test_mistakes_are_named():
    structure = ProjectiveTree([0, 2])
    scores = ArcScores(np.zeros(6), structure.offsets)
    with pytest.raises(DataError, match="5 arcs"):
        structure.viterbi(ArcScores(np.zeros(5), structure.offsets))
    with pytest.raises(DataError, match="NaN"):
        structure.viterbi(ArcScores(np.full(6, np.nan), structure.offsets))
    with pytest.raises(DataError, match="token 1"):
        structure.score(scores, [0, 3])
    with pytest.raises(OptionError, match="k = 0"):
        structure.k_best(scores, 0)
    with pytest.raises(DataError, match="length 0"):
        ProjectiveTree([0, 0])


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_projective_trees_are_told_from_others_and_made_of_them(n):
    everything = trees(n, False, True)
    offsets = np.arange(len(everything) + 1, dtype=np.int64) * n
    heads = np.array(everything, dtype=np.int32).ravel()
    assert is_projective(offsets, heads).tolist() == [not crosses(tree) for tree in everything]
    lifted = projectivised(offsets, heads)
    assert is_projective(offsets, lifted).all()
    for before, after in zip(everything, lifted.reshape(-1, n).tolist(), strict=True):
        assert tuple(after) in trees(n, True, True)
        assert crosses(before) or tuple(after) == before
