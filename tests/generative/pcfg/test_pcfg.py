"""Laws of PCFGs: estimates, unary closure, probabilities, unknown words, storage."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from loglinear.data.trees.tree import parse_tree
from loglinear.errors import DataError, ModelFileError, OptionError
from loglinear.features.spans import ANYTHING, word_classes
from loglinear.generative.pcfg.counts import count_trees, treebank_pcfg
from loglinear.generative.pcfg.lexicon import LexiconSmoothing
from loglinear.generative.pcfg.model import PCFG, UnaryClosure, draw_trees, radius_of
from loglinear.model_file import Reader
from problems.treebanks import random_trees

few = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 2**32 - 1)


@few
@given(seeds, st.booleans(), st.sampled_from([0.0, 0.5]), st.sampled_from([0.0, 2.0]), st.booleans())
def test_probabilities_add_up_to_one(seed, cycles, smoothing, backoff, smooth_words):
    words = LexiconSmoothing() if smooth_words else None
    model = treebank_pcfg(random_trees(seed, 20, cycles), smoothing=smoothing, backoff=backoff, lexicon=words)
    totals = np.bincount(model.binary_rules[:, 0], model.binary, minlength=model.n_symbols)
    totals += np.bincount(model.unary_rules[:, 0], model.unary, minlength=model.n_symbols)
    np.testing.assert_allclose(totals[model.n_tags :], 1.0)
    per_tag = np.bincount(model.lexicon.tags, model.lexicon.probabilities, minlength=model.n_tags)
    np.testing.assert_allclose(per_tag, 1.0)


@few
@given(seeds)
def test_estimates_are_relative_frequencies(seed):
    trees = random_trees(seed, 12)
    model, counts = treebank_pcfg(trees, lexicon=None), count_trees(trees)
    number = {(name, a < model.n_tags): a for a, name in enumerate(model.symbols)}
    of_parent: dict = {}
    for rule, n in counts.rules.items():
        of_parent[rule[0]] = of_parent.get(rule[0], 0) + n
    for rule, n in counts.rules.items():
        numbers = [number[name] for name in rule]
        rules, values = (model.binary_rules, model.binary) if len(rule) == 3 else (model.unary_rules, model.unary)
        assert values[(rules == numbers).all(axis=1)].tolist() == pytest.approx([n / of_parent[rule[0]]])


@few
@given(seeds, st.booleans())
@example(130355, True)  # the inverse has a residue of rounding where no chain leads
def test_best_and_total_chains_are_those_of_powers_of_the_matrix(seed, cycles):
    rng = np.random.default_rng(seed)
    k = 6
    matrix = np.where(rng.random((k, k)) < 0.4, rng.random((k, k)), 0.0)
    if not cycles:
        matrix = np.triu(matrix, 1)
    matrix *= 0.9 / max(matrix.sum(axis=1).max(), 0.9)
    rules = np.argwhere(matrix > 0.0)
    closure = UnaryClosure(k, rules, matrix[tuple(rules.T)])
    power, total, best = np.eye(k), np.zeros((k, k)), np.zeros((k, k))
    longest, product = np.eye(k), matrix.copy()
    for _ in range(2000):
        power = power @ matrix
        total += power
    for _ in range(k):
        longest = (longest[:, :, None] * product[None]).max(axis=1)
        best = np.maximum(best, longest)
    found_total, found_best = np.zeros((k, k)), np.zeros((k, k))
    found_total[tuple(closure.steps.T)] = np.exp(closure.log_total)
    found_best[tuple(closure.steps.T)] = np.exp(closure.best)
    np.testing.assert_allclose(found_total, total, rtol=1e-9, atol=1e-12)
    off = ~np.eye(k, dtype=bool)
    np.testing.assert_allclose(found_best[off], best[off], rtol=1e-9)
    assert closure.radius == pytest.approx(np.abs(np.linalg.eigvals(matrix)).max(), abs=1e-6)
    for (a, b), chain in zip(closure.steps.tolist(), closure.chains, strict=True):
        assert chain[0] == a and chain[-1] == b and all(matrix[x, y] > 0 for x, y in pairwise(chain))
    # expected rules: the derivative of the total's logarithm by that of a rule
    uses = rng.random(len(closure.steps))
    expected = closure.expected_rules(uses)
    for r, (a, b) in enumerate(rules.tolist()):
        values, eps = [], 1e-5  # rounding and curvature are both far below the tolerance
        for sign in (1, -1):
            moved = matrix.copy()
            moved[a, b] *= np.exp(sign * eps)
            again = np.linalg.inv(np.eye(k) - moved) - np.eye(k)
            values.append(uses @ np.log(again[tuple(closure.steps.T)]))
        assert expected[r] == pytest.approx((values[0] - values[1]) / (2 * eps), rel=1e-5, abs=1e-7)


def test_a_certain_unary_cycle_is_refused():
    with pytest.raises(DataError, match="spectral radius"):
        UnaryClosure(3, [[1, 2], [2, 1]], [1.0, 1.0])
    assert radius_of(UnaryClosure(3, [[1, 2], [2, 1]], [0.5, 0.5])._matrix) == pytest.approx(0.5)


@few
@given(seeds, st.booleans())
def test_a_sentence_is_as_probable_as_its_trees_together(seed, cycles):
    """Without cycles the trees of a sentence are finitely many: draw them all by their k best."""
    trees = random_trees(seed, 8, cycles)
    model = treebank_pcfg(trees, lexicon=None)
    for tree in trees[:4]:
        words = tree.leaves()
        if len(words) > 4:
            continue
        joint, whole = model.log_joint(tree), model.log_probability([words])[0]
        assert joint <= whole + 1e-9
        labels, best = model.structure([words]).viterbi(model.scores([words]))
        assert joint <= best[0] + 1e-9
        assert model.log_joint(model.tree(words, labels)) == pytest.approx(best[0])


def test_draws_are_as_frequent_as_their_probability():
    trees = [parse_tree(text) for text in (
        "(S (A (x a)) (B (y b)))", "(S (A (x a) (x c)) (B (y b)))", "(S (A (x a)) (B (S (A (x c)) (B (y b)))))",
    )]  # fmt: skip
    model = treebank_pcfg(trees, lexicon=None)
    n, seen = 4000, {}
    for tree in draw_trees(model, n, np.random.default_rng(0)):
        seen[str(tree)] = seen.get(str(tree), 0) + 1
    for text, found in seen.items():
        p = np.exp(model.log_joint(parse_tree(text)))
        if n * p > 10:
            assert abs(found - n * p) < 5 * np.sqrt(n * p * (1 - p)) + 1, text
    assert len(seen) > 5


@few
@given(seeds)
def test_draws_have_a_probability_and_storage_keeps_all(seed):
    model = treebank_pcfg(random_trees(seed, 15, True), smoothing=0.1)
    header, arrays = model.to_arrays()
    again = PCFG.from_storage(Reader("a file", "parser", header, arrays))
    for tree in draw_trees(model, 5, np.random.default_rng(seed)):
        value = model.log_joint(tree)
        assert np.isfinite(value) and again.log_joint(tree) == value


def test_several_roots_stand_under_one():
    trees = [parse_tree(text) for text in ("(S (A a) (D b))", "(T (A a) (B c))", "(T (T (A a) (B c)) (B c))", "(A a)")]
    model = treebank_pcfg(trees)
    for tree in trees:
        words = tree.leaves()
        assert model.tree(words, model.structure([words]).viterbi(model.scores([words]))[0]) == tree
        assert np.isfinite(model.log_joint(tree))
    assert all(tree.label in ("S", "T", "A") for tree in draw_trees(model, 20, np.random.default_rng(0)))


def test_unknown_words_are_tagged_by_their_look():
    text = "(S (NNP {}) (VP (VBD {}) (NNS {})))"
    rows = [
        ("Anna", "walked", "dogs"),
        ("Bert", "jumped", "cats"),
        ("Carl", "laughed", "hens"),
        ("Dora", "cried", "cows"),
    ]
    model = treebank_pcfg([parse_tree(text.format(*row)) for row in rows])
    assert model.best_tags(["Egon", "kicked", "sheds"]) == ["NNP", "VBD", "NNS"]
    words = ["Egon", "kicked", "sheds"]
    tree = model.tree(words, model.structure([words]).viterbi(model.scores([words]))[0])
    assert tree.tags() == ["NNP", "VBD", "NNS"]
    bare = treebank_pcfg([parse_tree(text.format(*row)) for row in rows], lexicon=None)
    assert np.isneginf(bare.log_probability([words])).all()
    assert bare.best_tags(words) == ["NNP"] * 3 or len(set(bare.best_tags(words))) == 1


@given(st.text(min_size=1), st.booleans())
def test_every_word_has_nested_classes(word, first):
    classes = word_classes(word, first)
    assert classes[-1] == ANYTHING and len(set(classes)) == len(classes)
    assert not any(name.isspace() for name in classes)


def test_mistakes_are_named():
    with pytest.raises(DataError, match="no trees"):
        treebank_pcfg([])
    with pytest.raises(OptionError, match="smoothing=-1"):
        treebank_pcfg([parse_tree("(S (A a) (B b))")], smoothing=-1)
    with pytest.raises(DataError, match="binarise"):
        treebank_pcfg([parse_tree("(S (A a) (B b) (C c))")])
    header, arrays = treebank_pcfg([parse_tree("(S (A a) (B b))")]).to_arrays()
    for name, value, message in [
        ("lexicon_tags", arrays["lexicon_tags"] + np.int32(9), "from 0 to 2 - 1"),
        ("lexicon_pointer", arrays["lexicon_pointer"][::-1], "do not cover"),
        ("lexicon_log_p", arrays["lexicon_log_p"] + 1, "between -inf and"),
        ("binary_rules", arrays["binary_rules"] + np.int32(9), "from 0 to"),
        ("binary", arrays["binary"] + 1, "between 0 and 1"),
        ("unary", arrays["unary"][None], "shape"),
    ]:
        with pytest.raises(ModelFileError, match=f"a file: .*{name}.*{message}"):
            PCFG.from_storage(Reader("a file", "parser", header, {**arrays, name: value}))
    with pytest.raises(ModelFileError, match="'binary' is missing"):
        PCFG.from_storage(Reader("a file", "parser", header, {k: v for k, v in arrays.items() if k != "binary"}))
