"""What surrounds the constituents of trees: counts, and what they say about the symbols of a sentence's spans."""

from __future__ import annotations

import numpy as np

from loglinear.data.corpora.bundled import bundled_trees
from loglinear.data.trees.annotation import TreeTransform
from loglinear.structures.tree.grammar import TreeCoder, constituents
from loglinear.structures.tree.prior import SMOOTHING, ContextPrior

TREES = TreeTransform("parent").apply(bundled_trees("train", entities=False)[:40])
CODER = TreeCoder.of_trees(TREES)
LENGTHS = np.array([len(tree.leaves()) for tree in TREES])
PRIOR = ContextPrior.of_labels(CODER.grammar, LENGTHS, np.concatenate([CODER.labels(tree) for tree in TREES]))


def test_the_tags_beside_each_constituent_are_counted():
    p = CODER.n_tags
    before, after = np.zeros_like(PRIOR.before), np.zeros_like(PRIOR.after)
    for tree in TREES:
        found = constituents(tree)
        tags = [p, *(CODER.number[c.chain[-1]] for c in sorted(found, key=lambda c: c.start) if c.word is not None), p]
        for c in found:
            before[tags[c.start], CODER.number[c.chain[0]]] += 1
            after[tags[c.end + 1], CODER.number[c.chain[0]]] += 1
    assert (PRIOR.before == before).all() and (PRIOR.after == after).all()
    assert before.sum() == after.sum() == 2 * LENGTHS.sum() - len(TREES)


def test_contexts_follow_the_equation():
    p, k, rng = CODER.n_tags, CODER.grammar.n_symbols, np.random.default_rng(0)
    lengths = [3, 1, 4]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    lexical = np.where(rng.random((8, p)) < 0.3, rng.normal(size=(8, p)), -np.inf)
    lexical[5] = -np.inf  # a word without a tag
    before, after = PRIOR.beside(offsets, lexical)
    assert before.shape == after.shape == (8 + 3, k)
    total = PRIOR.before.sum(axis=0)
    p_symbol = (total + 1 / (p + 1)) / (total + 1 / (p + 1)).sum()
    for s, n in enumerate(lengths):
        words = np.exp(lexical[offsets[s] : offsets[s + 1]])
        words[~words.any(axis=1)] = 1.0
        ends = np.eye(p + 1)[p]
        around = np.stack([ends, *np.pad(words, ((0, 0), (0, 1))), ends])
        for place in range(n + 1):
            for rows, counts, beside, factor in (
                (before, PRIOR.before, around[place], p_symbol),
                (after, PRIOR.after, around[place + 1], 1.0),
            ):
                share = (counts.sum(axis=1) + 1) / (counts.sum(axis=1) + 1).sum()
                given = (counts + SMOOTHING * share[:, None]) / (counts.sum(axis=0) + SMOOTHING)
                expected = np.log(beside @ given * factor)
                found = rows[offsets[s] + s + place]
                np.testing.assert_allclose(found - found[0], expected - expected[0], rtol=1e-9, atol=1e-9)


def test_probabilities_of_contexts_add_up_to_one():
    before, after = PRIOR._tables
    np.testing.assert_allclose(after.sum(axis=0), 1.0)
    np.testing.assert_allclose(before.sum(), 1.0)
    assert before.min() > 0.0 and after.min() > 0.0
