"""From binary trees to labellings and back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loglinear.data.trees.tree import Tree, parse_tree
from loglinear.errors import DataError
from loglinear.structures.tree.grammar import TreeCoder, constituents
from loglinear.structures.tree.structure import CFGScores, CFGTree

LABELS = st.sampled_from(["S", "NP", "VP", "x"])
TAGS = st.builds(lambda tag, word: Tree(tag, word=word), st.sampled_from(["D", "N", "NP"]), st.sampled_from("abc"))
TREES = st.recursive(TAGS, lambda part: st.builds(Tree, LABELS, st.lists(part, min_size=1, max_size=2)), max_leaves=6)


@given(st.lists(TREES, min_size=1, max_size=4))
def test_labels_come_back_as_trees(trees):
    coder = TreeCoder.of_trees(trees)
    for tree in trees:
        labels = coder.labels(tree)
        assert labels is not None
        assert coder.tree(tree.leaves(), labels) == tree
        CFGTree(coder.grammar, [len(tree.leaves())]).check_labels(labels)


@given(TREES)
def test_constituents_are_the_spans_with_all_their_labels(tree):
    found = [(name, c.start, c.end) for c in constituents(tree) for name, is_tag in c.chain if not is_tag]
    assert sorted(found) == sorted(tree.spans())
    assert [c.word for c in sorted(constituents(tree), key=lambda c: c.start) if c.word] == tree.leaves()


def test_a_tree_of_other_rules_has_no_labels():
    coder = TreeCoder.of_trees([parse_tree("(S (NP (D a) (N b)) (VP (V c)))")])
    assert coder.labels(parse_tree("(S (VP (V c)) (NP (D a) (N b)))")) is None
    assert coder.labels(parse_tree("(S (NP (D a) (N b)) (VP (X c)))")) is None
    assert coder.labels(parse_tree("(NP (D a) (N b))")) is None


def test_the_best_tree_of_one_treebank_tree_is_itself():
    tree = parse_tree("(ROOT (S (NP (D the) (N dog)) (VP (V ran))))")
    coder = TreeCoder.of_trees([tree])
    structure = CFGTree(coder.grammar, [3])
    g = coder.grammar
    scores = CFGScores(
        np.zeros((3, g.n_preterminals)), np.zeros((1, g.n_binary)), np.zeros((1, g.n_steps)), np.zeros(6, np.int32)
    )
    assert coder.tree(tree.leaves(), structure.viterbi(scores)[0]) == tree


def test_mistakes_are_named():
    with pytest.raises(DataError, match="binarise"):
        constituents(parse_tree("(S (A a) (B b) (C c))"))
    coder = TreeCoder.of_trees([parse_tree("(S (A a) (B b))")])
    with pytest.raises(DataError, match="no split point"):
        coder.tree(["a", "b"], np.full((3, 3), -1))
