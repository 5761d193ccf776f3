"""The Penn Treebank sample as a grammar: the law of expected counts, and best trees at the figures to reach."""

from __future__ import annotations

import numpy as np
import pytest

from loglinear.data.trees.transforms import binarise, restore
from loglinear.data.trees.tree import read_trees
from loglinear.evaluation.brackets import bracket_scores
from loglinear.generative.pcfg.counts import count_trees, treebank_pcfg
from loglinear.generative.pcfg.expectations import Expectations


def test_expected_rule_counts_are_the_mean_counts_of_the_treebank(corpora):
    trees = [binarise(tree, 2, 2) for tree in read_trees(corpora / "ptb" / "ptb.train.mrg")]
    model, counts = treebank_pcfg(trees, lexicon=None), count_trees(trees)
    expected = Expectations(model)
    assert expected.tight and expected.radius < 1.0
    number = {(name, a < model.n_tags): a for a, name in enumerate(model.symbols)}
    for size, rules, values in ((3, model.binary_rules, expected.binary), (2, model.unary_rules, expected.unary)):
        mean = {tuple(number[x] for x in rule): n / len(trees) for rule, n in counts.rules.items() if len(rule) == size}
        np.testing.assert_allclose(values, [mean[tuple(rule)] for rule in rules.tolist()], rtol=1e-9, atol=1e-9)
    assert expected.lexical.sum() == pytest.approx(counts.n_words / len(trees), rel=1e-9)


def test_short_sentences_are_parsed_as_well_as_they_should_be(corpora):
    """At most 15 words, v2 h2: 82.1 by the prototype, with a wide interval."""
    train = read_trees(corpora / "ptb" / "ptb.train.mrg")
    gold = [tree for part in ("dev", "test") for tree in read_trees(corpora / "ptb" / f"ptb.{part}.mrg")]
    gold = [tree for tree in gold if len(tree.leaves()) <= 15]
    model = treebank_pcfg([binarise(tree, 2, 2) for tree in train])
    sentences = [tree.leaves() for tree in gold]
    tree = model.structure(sentences)
    labels, best = tree.best(model.scores(sentences))
    assert np.isfinite(best).all()
    found = [
        restore(model.tree(words, labels[tree.offsets[s] : tree.offsets[s + 1]])) for s, words in enumerate(sentences)
    ]
    assert bracket_scores(gold, found).f1 > 81.0
