"""Laws of expected counts under a PCFG."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.data.trees.tree import Tree, parse_tree
from loglinear.errors import DataError
from loglinear.generative.pcfg.counts import count_trees, treebank_pcfg
from loglinear.generative.pcfg.expectations import Expectations
from loglinear.generative.pcfg.model import draw_trees
from problems.treebanks import random_trees

few = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 2**32 - 1)


@few
@given(seeds, st.booleans())
def test_a_treebank_grammar_expects_the_mean_counts_of_its_treebank(seed, cycles):
    trees = random_trees(seed, 15, cycles)
    model, counts = treebank_pcfg(trees, lexicon=None), count_trees(trees)
    expected = Expectations(model)
    assert expected.tight and expected.ends == 1.0
    number = {(name, a < model.n_tags): a for a, name in enumerate(model.symbols)}
    for rule, n in counts.rules.items():
        numbers = [number[name] for name in rule]
        rules, values = (model.binary_rules, expected.binary) if len(rule) == 3 else (model.unary_rules, expected.unary)
        np.testing.assert_allclose(values[(rules == numbers).all(axis=1)], n / len(trees), rtol=1e-9)
    of_word: dict[tuple[int, str], int] = {}
    for tag, word, _ in counts.words.elements():
        of_word[number[tag], word] = of_word.get((number[tag], word), 0) + 1
    names = np.repeat(np.arange(len(model.lexicon.terminals)), np.diff(model.lexicon.pointer))
    for x, tag, value in zip(names.tolist(), model.lexicon.tags.tolist(), expected.lexical.tolist(), strict=True):
        assert value == pytest.approx(of_word[tag, model.lexicon.terminals[x]] / len(trees), rel=1e-9)
    assert expected.length == pytest.approx(np.mean([len(tree.leaves()) for tree in trees]))


def occurrences(tree: Tree, fragment: tuple) -> int:
    """How often a fragment occurs in a tree, node by node."""

    def fits(node: Tree, piece: tuple) -> bool:
        if node.label != piece[0]:
            return False
        if len(piece) == 1:
            return True
        if isinstance(piece[1], str):
            return node.word == piece[1]
        return len(node.children) == len(piece) - 1 and all(map(fits, node.children, piece[1:]))

    return sum(fits(node, fragment) for node in tree.nodes())


FRAGMENTS = [
    ("S",), ("x",), ("x", "x1"), ("S", ("B",)), ("S", ("S",), ("A",)), ("S", ("x", "x0"), ("B", ("S",), ("x",))),
    ("B", ("A", ("B",), ("y",)), ("S",)),
]  # fmt: skip


def test_fragments_are_expected_as_often_as_they_are_drawn():
    model = treebank_pcfg(random_trees(1, 60), lexicon=None)
    expected, n = Expectations(model), 4000
    draws = draw_trees(model, n, np.random.default_rng(0))
    seen_any = 0
    for fragment in FRAGMENTS:
        found = np.array([occurrences(tree, fragment) for tree in draws])
        value = expected.fragment(fragment)
        assert abs(found.mean() - value) < 5 * found.std() / np.sqrt(n) + 1e-9, fragment
        seen_any += found.sum() > 0
    assert seen_any > 4
    assert expected.fragment(("S", ("x", "nowhere"), ("B",))) == 0.0
    assert expected.fragment(("nothing",)) == 0.0


def test_a_fragment_of_one_rule_is_the_rule():
    model = treebank_pcfg(random_trees(2, 30), lexicon=None)
    expected = Expectations(model)
    for r, (a, b, c) in enumerate(model.binary_rules.tolist()):
        names = [model.symbols[s] for s in (a, b, c)]
        if "A" in names:  # both a tag and a phrase
            continue
        assert expected.fragment((names[0], (names[1],), (names[2],))) == pytest.approx(expected.binary[r])


def test_a_grammar_that_may_not_end_is_solved_by_iteration():
    """S -> S S with probability p: trees end with probability min(1, (1 - p) / p)."""
    model = treebank_pcfg([parse_tree("(S (S (x a)) (S (x a)))")], lexicon=None)
    for p in (0.3, 0.7, 0.9):
        changed = replace(model, binary=np.array([p]), unary=np.array([1.0 - p]))
        expected = Expectations(changed)
        assert expected.tight == (p <= 0.5)
        assert expected.radius == pytest.approx(2 * p)
        assert expected.ends == pytest.approx(min(1.0, (1 - p) / p), abs=1e-9)
        # given that they end, trees are those of the grammar with p and 1 - p exchanged
        q = min(p, 1.0 - p)
        assert expected.binary[0] / expected.ends == pytest.approx(q / (1 - 2 * q), rel=1e-6)


def test_infinite_expectations_are_named():
    model = treebank_pcfg([parse_tree("(S (S (x a)) (S (x a)))")], lexicon=None)
    expected = Expectations(replace(model, binary=np.array([0.5]), unary=np.array([0.5])))
    with pytest.raises(DataError, match="infinitely large"):
        _ = expected.outside
    with pytest.raises(DataError, match="fragment"):
        expected.fragment(())
