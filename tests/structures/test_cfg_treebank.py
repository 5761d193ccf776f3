"""Binary trees as charts, and back."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.data.trees import Tree, parse_tree
from loglinear.errors import DataError
from loglinear.structures.cfg_outcomes import Outcomes
from loglinear.structures.cfg_tree import CFGTree
from loglinear.structures.cfg_treebank import ChartTreebank

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
def test_every_tree_is_a_labelling_and_comes_back(trees):
    bank = ChartTreebank.of(trees)
    assert bank.has_top == (len({tree.label for tree in trees}) > 1)
    for tree in trees:
        labels = bank.labels(tree)
        CFGTree(bank.grammar, [len(tree.leaves())]).check_labels(labels)
        assert bank.tree(tree.leaves(), labels) == tree


@settings(deadline=None)
@given(treebanks)
def test_outcomes_of_a_symbol_lie_together_and_count_what_trees_do(trees):
    bank = ChartTreebank.of(trees)
    outcomes, g = Outcomes(bank.grammar), bank.grammar
    assert sorted([*outcomes.of_rule, *outcomes.of_step, *outcomes.of_tag]) == list(range(outcomes.n_outcomes))
    for parents, numbers in ((g.binary[:, 0], outcomes.of_rule), (g.steps[:, 0], outcomes.of_step)):
        for parent, number in zip(parents, numbers, strict=True):
            assert outcomes.first[parent] <= number < outcomes.first[parent + 1]
    structure = CFGTree(g, [len(tree.leaves()) for tree in trees])
    edges = outcomes.edges(np.concatenate([bank.labels(tree) for tree in trees]), structure.is_word)
    shares = np.exp(outcomes.frequencies(edges))
    n_symbols_of_chains = sum(len(tree.leaves()) + len(tree.leaves()) - 1 for tree in trees)  # words and binary nodes
    n_steps = int((np.concatenate([bank.labels(tree) for tree in trees])[:, 2] >= 0).sum())
    assert len(edges) == n_symbols_of_chains + n_steps
    for symbol in set(edges.symbols.tolist()):
        np.testing.assert_allclose(shares[outcomes.first[symbol] : outcomes.first[symbol + 1]].sum(), 1.0)


def test_a_chain_is_one_step():
    bank = ChartTreebank.of([parse_tree("(ROOT (S (VP (VB Go))))"), parse_tree("(ROOT (NP (VB Go)))")])
    assert sorted(bank.chains) == [("ROOT", "NP"), ("ROOT", "S", "VP")]
    assert bank.grammar.n_binary == 0 and bank.tags == ["VB"]


def test_trees_that_the_grammar_lacks_are_refused():
    bank = ChartTreebank.of([parse_tree("(S (A a) (B b))")])
    for other in ("(S (B b) (A a))", "(S (A a))", "(S (C a) (B b))"):
        with pytest.raises(DataError, match="no such symbol, rule or chain"):
            bank.labels(parse_tree(other))
    with pytest.raises(DataError, match="3 children"):
        ChartTreebank.of([parse_tree("(S (A a) (A a) (A a))")])
