"""Laws of the tree operations, each against the enumeration of all derivations of random small grammars."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.errors import DataError, InfeasibleError, OptionError
from loglinear.structures.tree import sums
from loglinear.structures.tree.grammar import CFGGrammar, spans_of
from loglinear.structures.tree.prior import ContextPrior
from loglinear.structures.tree.structure import NO_BRACKETS, NO_PARTS, CFGScores, CFGTree
from problems.problem import seeds
from problems.tree import batches, random_scores
from referees.tree import BruteForce, referees, scores_of

few = settings(max_examples=6 if numba.config.DISABLE_JIT else 60, deadline=None)


def raises_if_infeasible(brute: list[BruteForce], operation) -> bool:
    """Whether some sentence has no tree; the operation must then name the first such one."""
    infeasible = [i for i, one in enumerate(brute) if not one.feasible]
    if infeasible:
        with pytest.raises(InfeasibleError) as caught:
            operation()
        assert caught.value.sequence == infeasible[0]
    return bool(infeasible)


def close(actual: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-9)


def times(scores: CFGScores, factor: float) -> CFGScores:
    return CFGScores(factor * scores.lexical, factor * scores.binary, factor * scores.steps, scores.row_of_span)


@few
@given(batches())
def test_log_partition_sums_all_trees(batch):
    tree, scores = batch
    close(tree.log_partition(scores), np.array([one.log_z for one in referees(tree, scores)]))


@pytest.mark.parametrize("tags", [[-430.8, 462.3], [75.6, -165.2]])
@pytest.mark.parametrize("step", [473.3, 719.9, -730.0])
def test_scores_too_far_apart_for_scaling_are_summed_all_the_same(tags, step):
    # without compilation this also shows that nothing is written beyond the end of an array
    grammar = CFGGrammar(2, 0, np.array([0, 1]), np.array([[0, 1, 1]]), np.array([[0, 1]]))
    tree = CFGTree(grammar, [1, 2])
    scores = CFGScores(np.array([tags] * 3), np.array([[528.7]]), np.array([[step]]), np.zeros(4, dtype=np.int32))
    close(tree.log_partition(scores), np.array([one.log_z for one in referees(tree, scores)]))


@few
@given(batches())
def test_viterbi_finds_the_best_tree(batch):
    tree, scores = batch
    brute = referees(tree, scores)
    if raises_if_infeasible(brute, lambda: tree.viterbi(scores)):
        labels, best = tree.best(scores)
        close(best, np.array([one.values.max(initial=-np.inf) for one in brute]))
        return
    labels, best = tree.viterbi(scores)
    close(best, np.array([one.values.max() for one in brute]))
    tree.check_labels(labels)
    close(tree.score(scores, labels), best)


@few
@given(batches(), st.sampled_from([1, 2, 3, 7, 50]))
def test_k_best_lists_the_trees_in_order(batch, k):
    tree, scores = batch
    brute = referees(tree, scores)
    if raises_if_infeasible(brute, lambda: tree.k_best(scores, k)):
        return
    for s, ((labels, best), one) in enumerate(zip(tree.k_best(scores, k), brute, strict=True)):
        close(best, one.k_best(k))
        assert len({x.tobytes() for x in labels}) == len(labels) == len(one.k_best(k))
        for x, value in zip(labels, best, strict=True):
            one.structure.check_labels(x)
            close(one.structure.score(scores_of(tree, scores, s), x), value)


@few
@given(batches(), st.integers(0, 2**32 - 1))
def test_expectations_are_those_of_all_trees(batch, seed):
    tree, scores = batch
    weights = np.random.default_rng(seed).normal(size=tree.n_sequences)
    brute = referees(tree, scores)
    if raises_if_infeasible(brute, lambda: tree.expectations(scores, weights)):
        return
    log_z, expected = tree.expectations(scores, weights)
    close(log_z, np.array([one.log_z for one in brute]))
    total = scores.zeros_like()
    for s, one in enumerate(brute):
        parts, words = one.expectations(), slice(*tree.word_offsets[s : s + 2])
        total.lexical[words] += weights[s] * parts.lexical
        total.binary[:] += weights[s] * parts.binary
        total.steps[:] += weights[s] * parts.steps
    close(expected.lexical, total.lexical)
    close(expected.binary, total.binary)
    close(expected.steps, total.steps)


@few
@given(batches(), st.booleans(), seeds)
def test_covariances_are_those_of_all_trees(batch, many, seed):
    tree, scores = batch
    rng = np.random.default_rng(seed)
    weights, costs = rng.normal(size=tree.n_sequences), random_scores(rng, tree, many, 1.0)
    brute = referees(tree, scores)
    if raises_if_infeasible(brute, lambda: tree.cost_covariance(scores, costs, weights)):
        return
    mean, covariance = tree.cost_covariance(scores, costs, weights)
    total, means = scores.zeros_like(), []
    for s, one in enumerate(brute):
        expected, parts = one.covariance(scores_of(tree, costs, s))
        means.append(expected)
        total.lexical[slice(*tree.word_offsets[s : s + 2])] += weights[s] * parts.lexical
        total.binary[:] += weights[s] * parts.binary
        total.steps[:] += weights[s] * parts.steps
    close(mean, np.array(means))
    for name in ("lexical", "binary", "steps"):
        close(getattr(covariance, name), getattr(total, name))


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_covariances_of_long_sentences_are_the_slopes_of_the_expected_cost(scale):
    """Of scores that can be scaled, and of those that cannot; the derivative by e of the expectations at s + e c."""
    rng = np.random.default_rng(3)
    grammar = CFGGrammar(3, 0, [1, 2], [[0, 0, 0], [0, 1, 2], [0, 2, 0], [1, 1, 1]], [[0, 1], [0, 2]])
    tree = CFGTree(grammar, [12 if numba.config.DISABLE_JIT else 40, 1])
    scores, costs = random_scores(rng, tree, True, scale), random_scores(rng, tree, False, 1.0)
    status = tree._scaled(tree._checked(scores), np.ones(2), NO_PARTS, NO_BRACKETS)[1]
    assert (status[0] == sums.NEEDS_LOG_SPACE) == (scale > 1.0)
    mean, covariance = tree.cost_covariance(scores, costs)
    up, down = (tree.expectations(scores.with_costs(times(costs, e)))[1] for e in (1e-5, -1e-5))
    log_up, log_down = (tree.log_partition(scores.with_costs(times(costs, e))) for e in (1e-5, -1e-5))
    np.testing.assert_allclose(mean, (log_up - log_down) / 2e-5, rtol=1e-5, atol=1e-5)
    for name in ("lexical", "binary", "steps"):
        slopes = (getattr(up, name) - getattr(down, name)) / 2e-5
        np.testing.assert_allclose(getattr(covariance, name), slopes, rtol=1e-4, atol=1e-5)


def test_a_cost_that_all_trees_share_has_no_covariance():
    """Each of n words has one tag, and each of the n - 1 rules below the root one use."""
    rng = np.random.default_rng(4)
    tree = CFGTree(CFGGrammar(2, 0, [0, 1], [[0, 0, 1], [0, 1, 1], [0, 1, 0], [1, 0, 0]]), [6])
    scores = random_scores(rng, tree, True, 1.0)
    costs = CFGScores(np.full((6, 2), 2.0), np.full((1, 4), 3.0), np.zeros((1, 0)), np.zeros(21, np.int32))
    mean, covariance = tree.cost_covariance(scores, costs)
    close(mean, np.array([6 * 2.0 + 5 * 3.0]))
    for array in (covariance.lexical, covariance.binary):
        np.testing.assert_allclose(array, 0.0, atol=1e-12)
    with pytest.raises(DataError, match="the binary costs must be finite"):
        tree.cost_covariance(scores, CFGScores(costs.lexical, np.full((1, 4), -np.inf), costs.steps, costs.row_of_span))


@few
@given(batches(scales=(1.0,)))
def test_expectations_are_the_gradient_of_log_partition(batch):
    tree, scores = batch
    if not np.isfinite(tree.log_partition(scores)).all():
        return
    _, expected = tree.expectations(scores)
    rng, eps = np.random.default_rng(0), 1e-5
    for name in ("lexical", "binary", "steps"):
        array = getattr(scores, name)
        for place in rng.permutation(array.size)[:3]:
            old, found = array.flat[place], []
            if not np.isfinite(old):
                continue
            for shift in (eps, -eps):
                array.flat[place] = old + shift
                found.append(tree.log_partition(scores).sum())
            array.flat[place] = old
            slope = (found[0] - found[1]) / (2 * eps)
            np.testing.assert_allclose(getattr(expected, name).flat[place], slope, atol=1e-6)


@few
@given(batches())
def test_labelling_scores_and_counts_its_parts(batch):
    tree, scores = batch
    brute = referees(tree, scores)
    if not all(one.feasible for one in brute):
        return
    last = [int(np.flatnonzero(one.values > -np.inf)[-1]) for one in brute]
    chosen = (one.labels[x] for one, x in zip(brute, last, strict=True))
    labels = np.concatenate([np.zeros((0, 3), np.int32), *chosen])
    tree.check_labels(labels)
    close(tree.score(scores, labels), np.array([one.values[x] for one, x in zip(brute, last, strict=True)]))
    counts, weights = scores.zeros_like(), np.arange(1.0, tree.n_sequences + 1)
    tree.add_labelling(counts, labels, weights)
    pairs = [(getattr(counts, name), getattr(scores, name)) for name in ("lexical", "binary", "steps")]
    total = sum(float((n[n != 0] * s[n != 0]).sum()) for n, s in pairs)
    np.testing.assert_allclose(total, weights @ tree.score(scores, labels), rtol=1e-9, atol=1e-7)


def test_draws_come_as_often_as_they_are_probable():
    rng = np.random.default_rng(3)
    grammar = CFGGrammar(3, 0, [1, 2], [[0, 0, 0], [0, 1, 2], [1, 2, 1], [0, 2, 0]], [[0, 1], [0, 2], [1, 2], [2, 2]])
    tree = CFGTree(grammar, [3, 4])
    scores = random_scores(rng, tree, True, 1.0)
    n = 300 if numba.config.DISABLE_JIT else 20_000
    draws = tree.sample(scores, n, rng)
    for s, one in enumerate(referees(tree, scores)):
        seen: dict[bytes, int] = {}
        for labels in draws[:, tree.offsets[s] : tree.offsets[s + 1]]:
            seen[labels.tobytes()] = seen.get(labels.tobytes(), 0) + 1
        for labels, p in zip(one.labels, one.probabilities, strict=True):
            found = seen.pop(labels.tobytes(), 0)
            assert abs(found - n * p) < 5 * np.sqrt(n * p * (1 - p)) + 1
        assert not seen


def random_prior(seed: int, tree: CFGTree) -> ContextPrior:
    rng, shape = np.random.default_rng(seed), (tree.grammar.n_preterminals + 1, tree.grammar.n_symbols)
    before, after = (rng.integers(30, size=shape) * (rng.random(shape) < 0.5) for _ in range(2))
    return ContextPrior(before.astype(np.int32), after.astype(np.int32))


def beam_values(tree: CFGTree, scores: CFGScores, beam: float, prior: ContextPrior) -> list[float]:
    """The best score of each sentence by a search with a beam, written as in the books."""
    best = []
    for s in range(tree.n_sequences):
        one, own = CFGTree(tree.grammar, [np.diff(tree.word_offsets)[s]]), scores_of(tree, scores, s)
        g, n, before, after = one.grammar, one.n_words, *prior.beside(one.word_offsets, own.lexical)
        may = own.allowed if own.allowed is not None else np.ones((one.n_positions, 1))
        may = np.broadcast_to(may != 0, (one.n_positions, g.n_symbols))
        chart: dict[tuple[int, int], dict[int, float]] = {}
        for j in range(1, n + 1):
            for i in range(j - 1, -1, -1):
                span, found = j * (j - 1) // 2 + i, dict.fromkeys(range(g.n_symbols), -np.inf)
                row = own.row_of_span[span]
                if j - i == 1:
                    found |= dict(zip(g.preterminals.tolist(), own.lexical[i].tolist(), strict=True))
                for k in range(i + 1, j):
                    for (a, left, right), value in zip(g.binary.tolist(), own.binary[row], strict=True):
                        parts = chart[i, k].get(left, -np.inf), chart[k, j].get(right, -np.inf)
                        found[a] = max(found[a], value + sum(parts))
                found = {a: value for a, value in found.items() if may[span, a] and value > -np.inf}
                above = dict(found)
                for (a, child), value in zip(g.steps.tolist(), own.steps[row], strict=True):
                    if may[span, a] and found.get(child, -np.inf) + value > above.get(a, -np.inf):
                        above[a] = found[child] + value
                looks = {a: value + before[i, a] + after[j, a] for a, value in above.items()}
                least = max(looks.values(), default=0.0) - beam if j - i < n else -np.inf
                chart[i, j] = {a: value for a, value in above.items() if looks[a] >= least}
        best.append(chart[0, n].get(g.root, -np.inf))
    return best


@few
@given(batches(), seeds, st.sampled_from([1e-9, 0.3, 2.0, 30.0, 1e9]))
def test_a_beam_keeps_what_looks_good_with_its_context(batch, seed, beam):
    tree, scores = batch
    prior = random_prior(seed, tree)
    _, found = tree.best(scores, beam=beam, prior=prior)
    close(found, np.array(beam_values(tree, scores, beam, prior)))


@few
@given(batches(), seeds, st.sampled_from([1e-9, 1.0, 10.0]))
def test_a_beam_finds_trees_that_are_at_most_the_best(batch, seed, beam):
    tree, scores = batch
    for prior in (None, random_prior(seed, tree)):
        exact_labels, exact = tree.best(scores)
        for wide in (1e9, np.inf):
            labels, found = tree.best(scores, beam=wide, prior=prior)
            assert (labels == exact_labels).all() and (found == exact).all()
        labels, found = tree.best(scores, beam=beam, prior=prior)
        assert (found <= exact).all()
        for s in np.flatnonzero(found > -np.inf):
            one, own = (
                CFGTree(tree.grammar, [np.diff(tree.word_offsets)[s]]),
                labels[tree.offsets[s] : tree.offsets[s + 1]],
            )
            one.check_labels(own)
            close(one.score(scores_of(tree, scores, s), own), found[s])


def test_a_beam_can_miss_the_best_tree_and_must_be_positive():
    grammar = CFGGrammar(3, 0, [1, 2], [[0, 0, 0], [0, 1, 2], [0, 2, 1], [1, 2, 2], [1, 1, 1]], [[0, 1], [0, 2]])
    tree = CFGTree(grammar, [6])
    scores = [random_scores(np.random.default_rng(seed), tree, False, 3.0) for seed in range(20)]
    assert any(tree.best(each, beam=1e-9)[1] < tree.best(each)[1] for each in scores)
    with pytest.raises(OptionError, match="beam"):
        tree.best(scores[0], beam=0.0)
    with pytest.raises(DataError, match="prior"):
        tree.best(scores[0], beam=1.0, prior=random_prior(0, CFGTree(CFGGrammar(1, 0, [0], [[0, 0, 0]]), [1])))


def test_stopped_before_it_began_there_are_no_trees():
    tree = CFGTree(CFGGrammar(1, 0, [0], [[0, 0, 0]]), [3, 2])
    scores = random_scores(np.random.default_rng(0), tree, False, 1.0)
    labels, best = tree.best(scores, stop=np.ones(1, dtype=np.uint8))
    assert np.isneginf(best).all() and (labels == -1).all()


@pytest.mark.parametrize("scale", [0.1, 5.0])
def test_long_sentences_do_not_underflow(scale):
    """One symbol: n words have Catalan(n - 1) trees, all of the same score."""
    n = 30 if numba.config.DISABLE_JIT else 250
    tree = CFGTree(CFGGrammar(1, 0, [0], [[0, 0, 0]]), [n])
    scores = CFGScores(
        np.full((n, 1), -20.0 * scale), np.full((1, 1), -scale), np.zeros((1, 0)), np.zeros(tree.n_positions, np.int32)
    )
    log_catalan = sum(np.log(n + k - 1) - np.log(k) for k in range(1, n)) - np.log(n)
    expected = log_catalan - 20.0 * scale * n - scale * (n - 1)
    np.testing.assert_allclose(tree.log_partition(scores), expected, rtol=1e-10)
    close(tree.expectations(scores)[1].binary, np.array([[n - 1.0]]))


def test_the_scaled_road_is_taken_and_left_where_it_should_be(monkeypatch):
    rng = np.random.default_rng(1)
    grammar = CFGGrammar(2, 0, [1], [[0, 0, 0], [0, 1, 1], [1, 1, 1]], [[0, 1]])
    tree, found = CFGTree(grammar, [4, 5]), []
    original = sums.inside_outside

    def spy(*arguments):
        original(*arguments)
        found.append(arguments[6].copy())

    monkeypatch.setattr(sums, "inside_outside", spy)
    tree.expectations(random_scores(rng, tree, False, 1.0))
    tree.expectations(random_scores(rng, tree, False, 2000.0))
    assert (found[0] == sums.DONE).all()
    assert (found[1] == sums.NEEDS_LOG_SPACE).all()


def test_costs_add_up_whatever_their_rows():
    rng = np.random.default_rng(2)
    tree = CFGTree(CFGGrammar(2, 0, [0, 1], [[0, 0, 1], [0, 1, 1], [0, 1, 0]], [[0, 1]]), [4])
    one, many = (random_scores(rng, tree, rows, 1.0) for rows in (False, True))
    labels, _ = tree.viterbi(one)
    for a, b in ((one, one), (one, many), (many, one), (many, many)):
        close(tree.score(a.with_costs(b), labels), tree.score(a, labels) + tree.score(b, labels))


def test_words_may_have_any_tag_if_they_must():
    tree = CFGTree(CFGGrammar(3, 0, [1, 2], [[0, 1, 2]]), [2])
    lexical = np.array([[-1.0, -np.inf], [-np.inf, -np.inf]])
    scores = CFGScores(lexical, np.zeros((1, 1)), np.zeros((1, 0)), np.zeros(3, np.int32))
    assert np.isneginf(tree.best(scores)[1]).all()
    loose = scores.with_any_tag(5.0)
    close(loose.lexical, np.array([[-1.0, -6.0], [-5.0, -5.0]]))
    assert tree.viterbi(loose)[1] == [-6.0]


def test_partial_brackets_hold():
    rng = np.random.default_rng(5)
    tree = CFGTree(CFGGrammar(2, 0, [0, 1], [[0, 0, 0], [0, 1, 1], [0, 1, 0], [1, 0, 1]]), [6])
    scores = random_scores(rng, tree, False, 1.0)
    firsts, ends = spans_of(6)
    crossing = ((firsts < 2) & (ends > 2) & (ends < 5)) | ((firsts > 2) & (firsts < 5) & (ends > 5))
    labels, _ = tree.viterbi(tree.restrict(scores, ~crossing))
    assert (labels[crossing] == -1).all()
    assert labels[(firsts == 2) & (ends == 5), 0] >= 0
    assert (tree.score(tree.restrict(scores, labels[:, 0] < 0), labels) == -np.inf).all()


def test_mistakes_are_named():
    grammar = CFGGrammar(2, 0, [1], [[0, 1, 1]])
    tree = CFGTree(grammar, [2])
    good = CFGScores(np.zeros((2, 1)), np.zeros((1, 1)), np.zeros((1, 0)), np.zeros(3, np.int32))
    with pytest.raises(DataError, match="lexical has the shape"):
        tree.viterbi(CFGScores(np.zeros((3, 1)), good.binary, good.steps, good.row_of_span))
    with pytest.raises(DataError, match="NaN"):
        tree.viterbi(CFGScores(np.full((2, 1), np.nan), good.binary, good.steps, good.row_of_span))
    with pytest.raises(DataError, match="row_of_span"):
        tree.viterbi(CFGScores(good.lexical, good.binary, good.steps, np.ones(3, np.int32)))
    with pytest.raises(DataError, match="allowed has the shape"):
        tree.restrict(good, np.ones(5))
    with pytest.raises(DataError, match="not a tree of the grammar"):
        tree.check_labels([[0, -1, -1], [0, -1, -1], [-1, -1, -1]])
    with pytest.raises(DataError, match="does not have"):
        tree.score(good, [[1, -1, -1], [0, -1, -1], [0, 1, -1]])
    with pytest.raises(DataError, match="without words"):
        CFGTree(grammar, [2, 0])
    with pytest.raises(DataError, match="listed twice"):
        CFGGrammar(2, 0, [1], [[0, 1, 1], [0, 1, 1]])
    with pytest.raises(DataError, match="not one of the 2 symbols"):
        CFGGrammar(2, 0, [2], [[0, 1, 1]])
    with pytest.raises(OptionError, match="at least one tree"):
        tree.k_best(good, 0)


def test_rules_are_found_by_their_symbols():
    grammar = CFGGrammar(3, 0, [1, 2], [[0, 2, 1], [0, 1, 2], [1, 1, 1]], [[0, 2], [0, 1]])
    assert grammar.number_of_binary(grammar.binary).tolist() == [0, 1, 2]
    assert grammar.number_of_binary([[2, 2, 2]]).tolist() == [-1]
    assert (np.diff(grammar.binary[:, 1]) >= 0).all()
