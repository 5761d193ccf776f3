"""Expected rules with the words at the edges of their spans, against drawn trees and against sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.data.trees.tree import parse_tree
from loglinear.errors import DataError
from loglinear.generative.pcfg.counts import treebank_pcfg
from loglinear.generative.pcfg.expectations import Boundaries, Expectations
from loglinear.generative.pcfg.model import draw_trees
from loglinear.structures.tree.grammar import constituents
from problems.treebanks import random_trees


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_edges_sum_to_what_they_are_edges_of(seed, cycles):
    model = treebank_pcfg(random_trees(seed, 15, cycles), smoothing=0.1)
    expected = Expectations(model)
    boundaries = Boundaries(expected)
    np.testing.assert_allclose(boundaries.first.sum(axis=1), 1.0)
    np.testing.assert_allclose(boundaries.last.sum(axis=1), 1.0)
    everything = np.arange(len(model.lexicon.terminals))
    np.testing.assert_allclose(boundaries.words("first", everything).sum(axis=1), 1.0)
    closure = np.eye(model.n_symbols)
    closure[tuple(model.closure.steps.T)] += np.exp(model.closure.log_total)
    np.testing.assert_allclose(boundaries.alone, closure[:, : model.n_tags], atol=1e-12)
    r, v = len(model.binary), len(everything)
    rules, words = np.repeat(np.arange(r), v), np.tile(everything, r)
    whole, two = boundaries.expected_at_edges(np.arange(r))
    np.testing.assert_allclose(whole, expected.binary)
    for given_words in ({"first": words}, {"last": words}):
        some, short = boundaries.expected_at_edges(rules, **given_words)
        np.testing.assert_allclose(some.reshape(r, v).sum(axis=1), whole)
        np.testing.assert_allclose(short.reshape(r, v).sum(axis=1), two, atol=1e-12)
        assert (short <= some + 1e-12).all()


def test_edges_are_expected_as_often_as_they_are_drawn():
    model = treebank_pcfg(random_trees(3, 60), lexicon=None)
    boundaries, n = Boundaries(Expectations(model)), 3000
    number, rule_number = model.coder.number, {tuple(rule): r for r, rule in enumerate(model.binary_rules.tolist())}
    terminal = {word: x for x, word in enumerate(model.lexicon.terminals)}
    seen: dict[tuple[int, int | None, int | None, bool], np.ndarray] = {}
    for draw, tree in enumerate(draw_trees(model, n, np.random.default_rng(1))):
        words = tree.leaves()
        for c in constituents(tree):
            if c.parts is not None:
                rule = rule_number[tuple(number[name] for name in (c.chain[-1], *c.parts))]
                first, last = terminal[words[c.start]], terminal[words[c.end - 1]]
                for key in ((rule, first, last), (rule, first, None), (rule, None, last)):
                    seen.setdefault((*key, c.end - c.start == 2), np.zeros(n))[draw] += 1
    frequent = [key for key, found in seen.items() if found.sum() > 30]
    assert len(frequent) > 20
    for rule, first, last, two in frequent:
        edges = ([word] if word is not None else None for word in (first, last))
        whole, short = boundaries.expected_at_edges([rule], *edges)
        value = short[0] if two else whole[0] - short[0]
        found = seen[rule, first, last, two]
        assert abs(found.mean() - value) < 5.5 * found.std() / np.sqrt(n)


def test_trees_that_do_not_end_count_for_nothing():
    model = treebank_pcfg([parse_tree("(S (S (x a)) (S (x b)))")], lexicon=None)
    changed = replace(model, binary=np.array([0.8]), unary=np.array([0.2]))
    expected = Expectations(changed)
    boundaries = Boundaries(expected)
    np.testing.assert_allclose(boundaries.first.sum(axis=1), expected.inside)
    whole, _ = boundaries.expected_at_edges([0], [0])
    assert whole[0] == pytest.approx(expected.binary[0] / 2)
    with pytest.raises(DataError, match="edge"):
        boundaries.words("middle", [0])
