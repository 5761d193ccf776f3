"""The outcomes of a grammar's symbols: numbered together, and counted as trees have them."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.data.trees.tree import Tree
from loglinear.structures.tree.grammar import Outcomes, TreeCoder
from loglinear.structures.tree.structure import CFGTree

words, tags, phrases = st.sampled_from(["a", "b"]), st.sampled_from(["T", "V"]), st.sampled_from(["A", "B", "S"])
binary_trees = st.recursive(
    st.builds(lambda tag, word: Tree(tag, word=word), tags, words),
    lambda inner: st.builds(lambda label, kids: Tree(label, kids), phrases, st.lists(inner, min_size=1, max_size=2)),
    max_leaves=7,
)
treebanks = st.lists(
    binary_trees.map(lambda tree: tree if tree.children else Tree("S", (tree,))), min_size=1, max_size=5
)


@settings(deadline=None)
@given(treebanks)
def test_outcomes_of_a_symbol_lie_together_and_count_what_trees_do(trees):
    coder = TreeCoder.of_trees(trees)
    outcomes, g = Outcomes(coder.grammar), coder.grammar
    assert sorted([*outcomes.of_rule, *outcomes.of_step, *outcomes.of_tag]) == list(range(outcomes.n_outcomes))
    for parents, numbers in ((g.binary[:, 0], outcomes.of_rule), (g.steps[:, 0], outcomes.of_step)):
        for parent, number in zip(parents, numbers, strict=True):
            assert outcomes.first[parent] <= number < outcomes.first[parent + 1]
    structure = CFGTree(g, [len(tree.leaves()) for tree in trees])
    labels = np.concatenate([coder.labels(tree) for tree in trees])
    edges = outcomes.edges(labels, structure.is_word)
    n_bottoms = sum(2 * len(tree.leaves()) - 1 for tree in trees)  # words and binary nodes
    assert len(edges) == n_bottoms + (labels[:, 2] >= 0).sum()
    assert (outcomes.symbol[edges.outcomes] == edges.symbols).all()
    for parent, (left, right) in ((rule[0], rule[1:]) for rule in g.binary.tolist()):
        there = edges.outcomes == outcomes.of_rule[g.number_of_binary([[parent, left, right]])[0]]
        assert there.any() and (edges.symbols[there] == parent).all()
