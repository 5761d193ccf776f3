"""Trees through the narrow waist: criteria and optimizers of chains on trees, by finite differences and by counting."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from test_cfg_outcomes import treebanks

from loglinear.criteria.costs import BracketCost
from loglinear.criteria.criterion import make_criterion
from loglinear.features.spans import SpanAttributes
from loglinear.optimizers.lbfgs import LBFGS
from loglinear.optimizers.objective import Objective
from loglinear.optimizers.optimizer import make_optimizer
from loglinear.structures.gold import Gold
from loglinear.structures.tree.features import EncodedTrees, SpanFeatures, word_spans
from loglinear.structures.tree.grammar import ANY_ROOT, Outcomes, TreeCoder
from loglinear.structures.tree.pieces import PieceFeatures
from loglinear.structures.tree.structure import CFGTree


def cost_of(coder):
    names = list(dict.fromkeys(coder.symbols))
    rules = [names.index(coder.symbols[parent]) for parent in coder.grammar.binary[:, 0]]
    steps = [
        [names.index(coder.symbols[a]) for a in chain[:-1] if coder.symbols[a] != ANY_ROOT] for chain in coder.chains
    ]
    return BracketCost(rules, steps, coder.grammar.n_preterminals)


def encoded(trees, seed=0):
    """A treebank with random lexical scores as its base, and random weights."""
    rng, coder = np.random.default_rng(seed), TreeCoder.of_trees(trees)
    sentences = [tree.leaves() for tree in trees]
    attributes = SpanAttributes(("first", "after"), min_count=1)
    spans, outcomes = attributes.fit(sentences), Outcomes(coder.grammar)
    lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
    lexical = rng.normal(size=(lengths.sum(), coder.grammar.n_preterminals))
    corpus = EncodedTrees(lengths, spans, lambda first, end: lexical[first:end])
    gold = Gold(np.concatenate([coder.labels(tree) for tree in trees]))
    edges = outcomes.edges(gold.labels, CFGTree(coder.grammar, lengths).is_word)
    pieces = PieceFeatures.observed(
        outcomes.first, spans, attributes.n_attributes, edges, rng.normal(size=outcomes.n_outcomes)
    )
    features = SpanFeatures(outcomes, pieces)
    return coder, corpus, gold, features, 0.3 * rng.normal(size=features.n_features)


def objective_of(spec, coder, corpus, gold, features, l2=0.1, n_threads=1):
    cost = None if spec in ("cll", "perceptron") else cost_of(coder)
    return Objective(features, corpus, gold, make_criterion(spec, cost), None, l2, n_threads=n_threads)


@pytest.mark.parametrize("spec", ["cll", "softmax-margin", "jrb"])
@settings(deadline=None, max_examples=15)
@given(trees=treebanks, seed=st.integers(0, 99))
def test_gradients_by_finite_differences(spec, trees, seed):
    coder, corpus, gold, features, weights = encoded(trees, seed)
    objective = objective_of(spec, coder, corpus, gold, features)
    gradient = objective(weights)[1].copy()
    numeric = approx_fprime(weights, lambda w: objective(w)[0], 1e-6)
    np.testing.assert_allclose(gradient, numeric, atol=2e-4)


@settings(deadline=None, max_examples=20)
@given(treebanks, st.integers(0, 99))
def test_a_sentences_short_gradient_is_its_share_of_the_long_one(trees, seed):
    coder, corpus, gold, features, weights = encoded(trees, seed)
    criterion, total = make_criterion("cll"), np.zeros(features.n_features)
    sparse = features.sparse_gradient()
    for i in range(corpus.n_sequences):
        structure, scores = features.structure(corpus, i, i + 1), features.scores(weights, corpus, i, i + 1)
        lo, hi = corpus.offsets[i], corpus.offsets[i + 1]
        sparse.add(corpus, i, criterion.evaluate(structure, scores, gold.slice(lo, hi), np.ones(1))[1])
        chosen, values = sparse.take()
        total[chosen] += values
        met = [first + ids[p[0] : p[-1]] for p, ids, first in features.active_groups(corpus, i)]
        groups = np.searchsorted(features.groups, chosen, side="right") - 1
        assert set(groups.tolist()) <= set(np.concatenate(met).tolist())
    np.testing.assert_allclose(total, objective_of("cll", coder, corpus, gold, features, l2=0.0)(weights)[1], atol=1e-9)


@settings(deadline=None, max_examples=30)
@given(treebanks)
def test_the_cost_counts_brackets_that_the_gold_tree_lacks(trees):
    coder = TreeCoder.of_trees(trees)
    cost = cost_of(coder)
    for gold in trees:
        for other in trees:
            if len(gold.leaves()) != len(other.leaves()):
                continue
            structure = CFGTree(coder.grammar, [len(gold.leaves())])
            costs = cost.at(Gold(coder.labels(gold)), structure.offsets)
            right = set(gold.spans())
            wrong = sum(bracket not in right for bracket in other.spans())
            assert structure.score(costs, coder.labels(other)) == pytest.approx(wrong)


@pytest.mark.parametrize("spec", ["cll", "softmax-margin", "max-margin", "perceptron", "mira", "mira:k=3"])
def test_every_optimizer_fits_a_treebank(spec):
    from loglinear.data.trees.tree import parse_tree

    trees = [
        parse_tree(text)
        for text in (
            "(S (NP (D the) (N dog)) (VP (V saw) (NP (D a) (N cat))))",
            "(S (NP (N dog)) (VP (V barks)))",
            "(S (NP (D the) (NP (N dog) (PP (P with) (NP (D a) (N cat))))) (VP (V barks)))",
            "(S (NP (D the) (N saw)) (VP (VP (V saw) (NP (N cat))) (PP (P with) (NP (D the) (N saw)))))",
        )
    ]
    coder, corpus, gold, features, _ = encoded(trees)
    online = spec.startswith(("perceptron", "mira"))
    for name in (
        ["online:average=no"] if online else ["sgd", "adagrad"] if spec == "max-margin" else ["lbfgs", "sgd", "adagrad"]
    ):
        objective = objective_of(spec, coder, corpus, gold, features, l2=0.0 if online else 0.01)
        optimizer = make_optimizer(name, max_iter=30, tolerance=1e-6, seed=1)
        weights = optimizer.minimise(objective, np.zeros(features.n_features)).weights
        structure = features.structure(corpus, 0, len(trees))
        labels, _ = structure.viterbi(features.scores(weights, corpus, 0, len(trees)))
        assert np.array_equal(labels, gold.labels), name


def test_threads_make_no_difference():
    from loglinear.data.trees.tree import parse_tree

    trees = [parse_tree("(S (A a) (S (A b) (B a)))"), parse_tree("(S (B a) (A b))")] * 700
    coder, corpus, gold, features, weights = encoded(trees)
    found = [objective_of("cll", coder, corpus, gold, features, n_threads=n)(weights) for n in (1, 2)]
    assert found[0][0] == found[1][0] and np.array_equal(found[0][1], found[1][1])
    assert LBFGS(max_iter=2).minimise(objective_of("cll", coder, corpus, gold, features), weights).value < found[0][0]


def test_word_spans():
    assert word_spans(np.array([1, 3])).tolist() == [0, 1, 3, 6]
