"""M-estimation of trees where some are hidden: expected counts, and an objective that never rises."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.data.trees.tree import parse_tree
from loglinear.errors import DataError, OptionError
from loglinear.estimators.parser.estimator import Parser
from loglinear.estimators.parser.problem import TREE_CRITERIA, Treebank
from loglinear.generative.m_estimation import MEstimationObjective
from referees.tree import BruteForce, derivations, labels_of

TREES = [
    parse_tree(text)
    for text in (
        "(ROOT (S (NP (D the) (N dog)) (VP (V saw) (NP (D a) (N cat)))))",
        "(ROOT (S (NP (N dogs)) (VP (V bark))))",
        "(ROOT (S (NP (NP (D the) (N dog)) (PP (P with) (NP (D a) (N cat)))) (VP (V barks))))",
        "(ROOT (S (NP (D the) (N man)) (VP (V saw) (NP (N cats)) (PP (P with) (NP (D the) (N saw))))))",
        "(ROOT (NP (D the) (N cat)))",
    )
]
SENTENCES = [["dogs", "saw", "cats"], ["the", "dog", "saw", "a", "man"], ["dogs", "saw", "cats", "with", "cats"]]
BRACKETS = [None, [(0, 2), (3, 5)], [(1, 5)]]
X, Y = (
    [*TREES[:2], SENTENCES[0], *TREES[2:], *SENTENCES[1:]],
    [None, None, BRACKETS[0], None, None, None, *BRACKETS[1:]],
)
PLAIN = {"annotation": "none", "threads": 1}


def training_of(spec, X=X, y=Y, **options):
    parser = Parser(spec, **{**PLAIN, **options})
    examples = parser._examples(X, y)
    binary = parser._transform().apply([each.tree for each in examples if each.tree is not None])
    criterion = TREE_CRITERIA.spec(spec).make()
    return criterion, criterion.training(Treebank(examples, binary), parser, None)


def by_enumeration(criterion, training, weights, base_counts, l2):
    """L(w), and the expected counts [S, D] with the log factors [S], tree by tree."""
    problem, hidden = training.problem, training.hidden
    features, corpus = problem.model.features, problem.corpus
    counts = criterion._tree_counts(problem).toarray()
    losses, factors = np.exp(-counts @ weights), np.zeros(len(counts))
    for number, spans in zip(hidden.numbers, hidden.spans, strict=True):
        tree, (lo, hi) = features.structure(corpus, number, number + 1), corpus.offsets[number : number + 2]
        scores, found, base = features.scores(0.0 * weights, corpus, number, number + 1), [], []
        for derivation in derivations(tree.grammar, tree.n_words):
            labels = labels_of(tree, derivation)
            value = BruteForce.of.score(tree, scores, derivation)
            if not spans[labels[:, 0] >= 0].all() or np.isneginf(value):
                continue
            whole = problem.gold.labels.copy()
            whole[lo:hi] = labels
            found.append(criterion._tree_counts(problem.with_trees(whole))[number].toarray().ravel())
            base.append(value)
        assert len(base) > 1 or number == 2
        found, prior = np.array(found), np.exp(np.array(base) - np.logaddexp.reduce(base))
        g = np.log(prior @ np.exp(found @ weights))
        posterior = prior * np.exp(found @ weights - g)
        counts[number], losses[number] = posterior @ found, np.exp(-g)
        factors[number] = posterior @ np.log(posterior / prior)
    return losses.mean() + weights @ base_counts + l2 * weights @ weights, counts, factors


@pytest.mark.parametrize("spec", ["m-estimation:places=first+last,min_count=1", "m-estimation:samples=50,learn_base"])
def test_expected_counts_and_objective_are_those_of_all_trees(spec):
    criterion, training = training_of(spec)
    problem, rng = training.problem, np.random.default_rng(0)
    first = criterion._tree_counts(problem)
    base_counts = criterion._base_counts(training, first, 1)
    weights = rng.normal(scale=0.5, size=problem.model.features.n_features)
    weights[-1] *= 0.2  # that of the base's logarithms, if it is learnt
    value, counts, factors = by_enumeration(criterion, training, weights, base_counts, 0.1)
    found = training.hidden.expected(problem, first, weights, 1)
    np.testing.assert_allclose(found.counts.toarray(), counts, atol=1e-9)
    np.testing.assert_allclose(found.log_factors, factors, atol=1e-9)
    bound = MEstimationObjective(found.counts, base_counts, 0.1, log_factors=found.log_factors)
    assert bound(weights)[0] == pytest.approx(value)
    other = weights + rng.normal(scale=0.1, size=len(weights))
    assert bound(other)[0] >= by_enumeration(criterion, training, other, base_counts, 0.1)[0] - 1e-9


@settings(max_examples=8)
@given(
    seed=st.integers(0, 2**32 - 1),
    variance=st.sampled_from([0.3, 3.0]),
    max_iter=st.sampled_from([1, 3, 30]),
    learn_base=st.booleans(),
)
def test_soft_rounds_never_raise_the_objective(seed, variance, max_iter, learn_base):
    rng = np.random.default_rng(seed)
    known = rng.random(len(TREES)) < 0.6
    known[[0, 1]] = True
    given = [tree if k else tree.leaves() for tree, k in zip(TREES, known, strict=True)] + SENTENCES
    brackets = [None] * len(TREES) + [each if rng.random() < 0.5 else None for each in BRACKETS]
    spec = f"m-estimation:em=soft,places=first+last,learn_base={'yes' if learn_base else 'no'}"
    options = {"variance": variance, "max_iter": max_iter}
    with warnings.catch_warnings():  # about sentences that few trees have no grammar for
        warnings.simplefilter("ignore")
        criterion, training = training_of(spec, given, brackets, **options)
        first, values = criterion._tree_counts(training.problem), []
        base_counts = criterion._base_counts(training, first, 1)
        for rounds in (1, 2, 4):
            parser = Parser(f"{spec},rounds={rounds}", **options, **PLAIN).fit(given, brackets)
            weights = parser.model_.weights
            found = training.hidden.expected(training.problem, first, weights, 1)
            bound = MEstimationObjective(found.counts, base_counts, 0.5 / variance, log_factors=found.log_factors)
            values.append(bound(weights)[0])
            assert parser.objective_ >= values[-1] - 1e-9
    assert np.diff(values).max() < 1e-9
    assert np.diff([progress.objective for progress in parser.history_]).max(initial=0.0) < 1e-9


@pytest.mark.parametrize("em", ["hard", "soft"])
def test_hidden_trees_are_learnt_from(em, tmp_path):
    spec = f"m-estimation:em={em},rounds=3,places=first+last"
    one, two = (Parser(spec, annotation="none", variance=1.0, threads=n).fit(X, Y) for n in (1, 2))
    assert one.to_bytes() == two.to_bytes()
    assert one.message_.startswith("5 trees, 3 sentences without, none drawn; ") and "by round" in one.message_
    again = Parser.load(one.to_bytes())
    assert again.predict(SENTENCES) == one.predict(SENTENCES)
    assert [tree.leaves() for tree in one.predict(SENTENCES)] == SENTENCES
    alone = Parser(spec, annotation="none", variance=1.0).fit(TREES)
    assert alone.message_.endswith(f"all trees are known, so rounds=3, em='{em}' have no effect")
    assert len(alone.model_.weights) <= len(one.model_.weights)


TINY = [parse_tree("(ROOT (S (A a) (B b)))"), parse_tree("(ROOT (S (A a) (B b)))")]  # a grammar of one tree


def test_hard_and_soft_are_the_same_where_one_tree_is_left():
    hard, soft = (
        Parser(f"m-estimation:em={em},places=first+last,rounds=2", variance=1.0, tolerance=1e-8, **PLAIN).fit(
            [*TINY, ["a", "b"]]
        )
        for em in ("hard", "soft")
    )
    assert hard.objective_ == pytest.approx(soft.objective_, abs=1e-9) and hard.objective_ < 1.0
    np.testing.assert_allclose(hard.model_.weights, soft.model_.weights, atol=1e-6)


def test_trees_are_completed_within_the_brackets():
    training = training_of(
        "m-estimation:places=first+last", [*TREES, SENTENCES[2], SENTENCES[2]], [None] * 5 + [[(1, 5)], [(2, 5)]]
    )[1]
    problem, weights = training.problem, np.zeros(training.problem.model.features.n_features)
    labels = training.hidden.completed(problem, weights, 1)
    for number, spans in zip(training.hidden.numbers, training.hidden.spans, strict=True):
        lo, hi = problem.corpus.offsets[number : number + 2]
        own = labels[lo:hi]
        assert (own[:, 0] >= 0).sum() == 2 * 5 - 1 and spans[own[:, 0] >= 0].all()


def test_what_cannot_be_learnt_is_refused():
    with pytest.raises(DataError, match="no tree whose grammar could be the base"):
        Parser("m-estimation", **PLAIN).fit(SENTENCES)
    with pytest.warns(UserWarning, match="a sentence that the grammar of the trees cannot parse is left out"):
        parser = Parser("m-estimation:places=first+last", **PLAIN).fit([*TINY, ["a", "b", "a"]])
    assert parser.n_trees_ == 2
    with pytest.raises(OptionError, match="em='half'"):
        Parser("m-estimation:em=half").fit(TREES)
