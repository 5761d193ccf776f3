"""Parsers trained by criteria of spans: each fits a small treebank, is kept in a file, and refuses nonsense."""

import os
import pickle
import signal
import warnings

import numpy as np
import pytest

from loglinear.criteria.criterion import criteria_of
from loglinear.data.trees.tree import parse_tree
from loglinear.errors import ModelFileError, OptionError
from loglinear.estimators.parser.estimator import Parser
from loglinear.estimators.parser.model import SpanProblem
from loglinear.estimators.parser.problem import (
    TREE_CRITERIA,
    Treebank,
    TreeTraining,
    base_scores,
    expected_at_edges,
    expected_counts,
    scaling_objective,
    tree_counts,
    wrong_edges,
)
from loglinear.features.spans import SpanAttributes
from loglinear.generative.base import Sampling
from loglinear.generative.pcfg.counts import treebank_pcfg
from loglinear.generative.pcfg.expectations import Expectations
from loglinear.generative.pcfg.lexicon import LexiconSmoothing
from loglinear.generative.pcfg.model import draw_trees
from loglinear.options import spec_name
from loglinear.structures.tree.best import best_chart
from loglinear.structures.tree.structure import CFGTree
from loglinear.training.run import TrainingInterrupted

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
SPECS = [
    "mecfg", "nota", "nota:wrong=all", "nota:wrong=sample,rate=0.5", "nota:rounds=2,after=2", "nota:local",
    "nota:scaling", "nota:parsed=0.6,rounds=2",
    "mecfg:base", "nota:base", "cll:learn_base", "cll", "cll:base=no", "softmax-margin", "jrb",
    "risk", "risk:base=no", "max-margin", "perceptron", "mira", "mira:k=2,C=0.1",
    "m-estimation:samples=2000,places=first+last",
]  # fmt: skip
WITHOUT_WEIGHTS = ("pcfg", "pcfg-em")
SPECS += [name for name in TREE_CRITERIA if name not in (*WITHOUT_WEIGHTS, *map(spec_name, SPECS))]


def leaves(trees):
    return [tree.leaves() for tree in trees]


@pytest.mark.parametrize("spec", SPECS)
def test_each_criterion_fits_a_treebank_and_its_file_answers_alike(spec, tmp_path):
    name, _, rest = spec.partition(":")
    parser = Parser(
        criterion=f"{name}:{','.join(filter(None, (rest, 'min_count=1')))}",
        l2=None if TREE_CRITERIA[name].optimizers == ("online",) else 0.01,
        threads=1,
    ).fit(TREES)
    found = parser.parse(leaves(TREES))
    assert [parse.tree for parse in found] == TREES
    parser.save(tmp_path / "m.model")
    again = Parser.load(tmp_path / "m.model")
    other = [["the", "dogs", "bark"], ["a", "new", "word", "barks"]]
    for sentences in (leaves(TREES), other):
        mine, theirs = parser.parse(sentences), again.parse(sentences)
        assert [p.tree for p in mine] == [p.tree for p in theirs]
        assert np.allclose([p.score for p in mine], [p.score for p in theirs])


def test_parsers_are_trained_by_every_criterion_that_trees_have_the_operations_for():
    """Those of the registry of all structures; ``SPECS`` has each, so that each is tried."""
    assert set(TREE_CRITERIA) == {*map(spec_name, SPECS), *WITHOUT_WEIGHTS}
    assert {*criteria_of(CFGTree)} - {*TREE_CRITERIA} == {"passive-aggressive"}


def test_brackets_become_more_probable_and_what_is_for_tokens_alone_is_refused():
    cll = Parser("cll", l2=0.1, max_iter=15).fit(TREES)
    by_f = Parser("f-measure:beta=2", l2=0.1, max_iter=15).fit(TREES)
    warm = Parser("f-measure:beta=2", l2=0.1, max_iter=15).fit(TREES, init=cll)
    assert np.array_equal(by_f.model_.weights, warm.model_.weights)
    assert {entry.phase for entry in by_f.history_} == {"cll", "main"}
    assert by_f.objective_ <= warm.history_[0].objective
    marginal = Parser("marginal-likelihood", l2=0.1, max_iter=15).fit(TREES)
    assert marginal.objective_ < marginal.history_[0].objective and len(marginal.history_) > 2
    for spec in ("f-measure:outside=NP", "f-measure:chunks"):
        with pytest.raises(OptionError, match="has no option"):
            Parser(spec).check_options()


@pytest.mark.parametrize("spec", ["jrb", "risk", "risk:base=no"])
def test_risk_and_its_bound_start_from_cll(spec):
    """Training is that from a cll model, with the steps of both counted, and the cost is lower in the end."""
    parser = Parser(spec, cost="hamming:2", l2=0.1, max_iter=15).fit(TREES)
    cll = Parser(spec.replace(spec_name(spec), "cll"), l2=0.1, max_iter=15).fit(TREES)
    warm = Parser(spec, cost="hamming:2", l2=0.1, max_iter=15).fit(TREES, init=cll)
    assert np.array_equal(parser.model_.weights, warm.model_.weights)
    assert {entry.phase for entry in parser.history_} == {"cll", "main"}
    assert parser.objective_ <= warm.history_[0].objective


def test_two_threads_train_the_same_parser():
    for spec in (
        "mecfg",
        "nota",
        "nota:scaling,parsed=0.5",
        "cll",
        "risk",
        "f-measure",
        "marginal-likelihood",
        "m-estimation:samples=100",
    ):
        one, two = (Parser(criterion=spec, threads=n).fit(TREES) for n in (1, 2))
        assert np.array_equal(one.model_.weights, two.model_.weights)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("mecfg:places=first+middle", r"places='first\+middle'"),
        ("nota:delta=-1", "delta"),
        ("nota:wrong=some", "wrong"),
        ("nota:rate=0.5", "rate=0.5 goes with wrong=sample, not wrong=near"),
        ("nota:rate=0.5,wrong=all", "rate=0.5 goes with wrong=sample, not wrong=all"),
        ("nota:wrong=all,delta=2", "delta=2.0 goes with wrong=near, not wrong=all"),
        ("nota:wrong=sample,after=2", "after=2 goes with wrong=near, not wrong=sample"),
        ("nota:wrong=all,rounds=2", "rounds=2 goes with wrong=near, not wrong=all"),
        ("nota:parsed=0", "parsed"),
        ("nota:scaling,local", "leave it out, or local"),
        ("mecfg:scaling", "has no option 'scaling'"),
        ("cll:base=no,learn_base", "learn_base=True goes with base=True, not base=False"),
        ("cll:optimizer=dual", "not by 'dual': that does not go over phrase trees"),
        ("mecfg:optimizer=sgd", "'mecfg' is trained by lbfgs, not by 'sgd'"),
        ("cll:cost=2", "has no option 'cost'"),
        ("cll:k=2", "has no option 'k'"),
        ("magic", "'magic' is not known; there are: arow, cll"),
        ("memm", "'memm' trains no parser: it trains chains only; there are: "),
        ("generative", "'generative' trains no parser: it trains dependency parsers; there are: arow, cll"),
        ("passive-aggressive", "it is not available for phrase trees"),
        ("hmm:em=5", "'hmm' trains no parser: it trains chains only; there are"),
    ],
)
def test_options_that_make_no_sense_are_refused(spec, says):
    with pytest.raises(OptionError, match=says):
        Parser(criterion=spec).fit(TREES)


def of_the_middle(words, i, j):
    return [f"middle={words[(i + j) // 2]}"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"criterion": "mira", "l2": 1}, "l2=1: criterion='mira' has no penalty"),
        ({"criterion": "cll", "cost": "hamming:2"}, "'cll' takes no cost"),
        ({"criterion": "mira", "cost": "recall:2"}, "hamming:M, M for every wrong bracket"),
        ({"criterion": "cll", "l2": 1, "variance": 1}, "twice"),
        ({"criterion": "cll:l2=1", "l2": 2}, "say two things; write l2=2 alone"),
        ({"criterion": "pcfg", "max_iter": 3}, "'pcfg' is counted, and has no use for max_iter"),
        ({"criterion": "cll", "optimizer": "sgd:average", "l1": 0.1}, "mean of sparse weights"),
    ],
)
def test_combinations_that_make_no_sense_are_refused(options, says):
    with pytest.raises(OptionError, match=says):
        Parser(**options).fit(TREES)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("cll:l2=0.5,iterations=3", {"criterion": "cll", "l2": 0.5, "max_iter": 3}),
        ("cll:base=no,optimizer=sgd,iterations=2", {"criterion": "cll:base=no", "optimizer": "sgd", "max_iter": 2}),
        ("max-margin:cost=2,iterations=2", {"criterion": "max-margin", "cost": "hamming:2", "max_iter": 2}),
        ("nota:decoding=local,iterations=3", {"criterion": "nota:local=yes", "max_iter": 3}),
        ("nota:decoding=global,after=2,iterations=3", {"criterion": "nota:after=2", "max_iter": 3}),
        ("mecfg:iterations=3", {"criterion": "mecfg", "max_iter": 3}),
    ],
)
def test_old_spellings_go_on_working_with_a_warning(old, new):
    with pytest.warns(FutureWarning, match="is an old spelling") as said:
        parser = Parser(criterion=old, threads=1).fit(TREES)
    written = str(said[0].message).partition("write ")[2]
    assert len(said) == 1 and eval(f"dict({written})") == new  # what to write is what works
    new = Parser(**new, threads=1).fit(TREES)
    assert np.array_equal(parser.model_.weights, new.model_.weights)
    assert parser.model_.normalised == new.model_.normalised and parser.message_ == new.message_
    assert parser.criterion == old  # options stay as they were given
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Parser.load(parser.to_bytes()).predict(leaves(TREES)) == new.predict(leaves(TREES))


@pytest.mark.parametrize("spec", ["mecfg:min_count=1", "cll:min_count=1"])
def test_rules_may_look_at_what_a_user_likes(spec, tmp_path):
    parser = Parser(criterion=spec, max_iter=5, span_features=of_the_middle).fit(TREES)
    plain = Parser(criterion=spec, max_iter=5).fit(TREES)
    assert parser.model_.features.n_features > plain.model_.features.n_features
    parser.save(tmp_path / "own.model")
    again = Parser.load(tmp_path / "own.model", of_the_middle)
    pickled = pickle.loads(pickle.dumps(parser))
    for other in (again, pickled):
        assert [p.score for p in other.parse(leaves(TREES))] == [p.score for p in parser.parse(leaves(TREES))]
    with pytest.raises(OptionError, match="load it with the same"):
        Parser.load(tmp_path / "own.model")
    with pytest.raises(OptionError, match="load it without"):
        Parser.load(plain.to_bytes(), of_the_middle)
    for criterion, function in (("pcfg", of_the_middle), ("mecfg", "first")):
        with pytest.raises(OptionError, match="span_features"):
            Parser(criterion=criterion, span_features=function).fit(TREES)


@pytest.mark.parametrize(
    "spec", ["mecfg", "nota", "nota:after=1", "cll", "max-margin", "mira", "m-estimation:samples=50"]
)
def test_a_signal_ends_training_with_what_was_learnt(spec):
    seen = []

    def observe(progress):
        seen.append(progress)
        if len(seen) == 1:
            os.kill(os.getpid(), signal.SIGINT)

    parser = Parser(criterion=spec, threads=1)
    with pytest.raises(TrainingInterrupted, match=r"after iteration 1$"):
        parser.fit(TREES, observe=observe)
    assert parser.interrupted_ and len(seen) == 1
    assert len(parser.predict(leaves(TREES))) == len(TREES)
    assert not Parser(criterion=spec, threads=1).fit(TREES).interrupted_


def problem_of(trees):
    binary = Parser()._transform().apply(trees)
    return SpanProblem.of(binary, SpanAttributes(min_count=1), normalised=True)


def nota(**options):
    return TREE_CRITERIA["nota"](**options)


def test_wrong_edges_are_near_the_best_of_their_length_and_in_no_gold_tree():
    for delta in (0.5, 3.0):
        problem = problem_of(TREES)
        weights = np.random.default_rng(1).normal(size=problem.model.features.n_features)
        found = wrong_edges(problem, weights, nota(delta=delta), 0, 1)
        chosen = set(zip(found.spans.tolist(), found.symbols.tolist(), strict=True))
        right = set(zip(problem.edges.spans.tolist(), problem.edges.symbols.tolist(), strict=True))
        assert not chosen & right and (found.outcomes == -1).all()
        expected, corpus, features = set(), problem.corpus, problem.model.features
        for s, n in enumerate(corpus.lengths.tolist()):
            chart = best_chart(problem.model.grammar, n, features.local_scores(weights, corpus, s, s + 1))
            for length in range(1, n + 1):
                edges = {}
                for i in range(n - length + 1):
                    span = (i + length) * (i + length - 1) // 2 + i
                    for a in range(problem.model.coder.n_tags, problem.model.grammar.n_symbols):
                        if chart[span, a] > -np.inf:
                            edges[corpus.offsets[s] + span, a] = chart[span, a]
                best = max(edges.values(), default=0.0)
                expected |= {edge for edge, score in edges.items() if score >= best - delta}
        assert chosen == expected - right


def test_all_wrong_edges_hold_a_sample_of_them():
    problem = problem_of(TREES)
    zero = np.zeros(problem.model.features.n_features)
    everything = wrong_edges(problem, zero, nota(wrong="all"), 0, 1)
    some = wrong_edges(problem, zero, nota(wrong="sample", rate=0.5), 0, 1)
    pairs = [set(zip(e.spans.tolist(), e.symbols.tolist(), strict=True)) for e in (everything, some)]
    assert pairs[1] < pairs[0] and (some.weights == 2.0).all() and (everything.weights == 1.0).all()


def test_a_share_of_the_trees_is_parsed_for_wrong_edges_that_weigh_as_all():
    problem = problem_of(TREES)
    offsets, weights = problem.corpus.offsets, np.zeros(problem.model.features.n_features)

    def found(turn, **options):
        criterion = nota(**options)
        edges = wrong_edges(problem, weights, criterion, 3, 1, turn)
        sentences = np.searchsorted(offsets, edges.spans, side="right") - 1
        return set(zip(sentences.tolist(), edges.spans, edges.symbols, strict=True)), edges.weights

    everything, _ = found(0, wrong="all")
    chosen = []
    for turn in range(8):
        some, weight = found(turn, wrong="all", parsed=0.4)
        sentences = {s for s, _, _ in some}
        assert some == {edge for edge in everything if edge[0] in sentences} and (weight == len(TREES) / 2).all()
        assert len(sentences) <= 2
        chosen.append(frozenset(sentences))
    assert len(set(chosen)) > 1
    both = found(0, wrong="sample", rate=0.5, parsed=0.4)
    assert both[0] <= everything and (both[1] == 2 * len(TREES) / 2).all()


def test_factors_of_labels_are_learnt_by_the_likelihood_of_trees():
    """The gradient by the factors is that of finite differences; factors of one are the model without them."""
    rng, problem = np.random.default_rng(0), problem_of(TREES)
    weights = rng.normal(size=problem.model.features.n_features)
    objective, k = scaling_objective(problem, weights, 0.7, 1), problem.model.grammar.n_symbols
    alpha = 1.0 + 0.3 * rng.normal(size=k)
    _, gradient = objective(alpha)
    for a, step in enumerate(1e-6 * np.eye(k)):
        slope = (objective(alpha + step)[0] - objective(alpha - step)[0]) / 2e-6
        np.testing.assert_allclose(gradient[a], slope, rtol=1e-5, atol=1e-6)
    one, two = (scaling_objective(problem, weights, 0.7, n)(alpha) for n in (1, 2))
    assert one[0] == two[0] and np.array_equal(one[1], two[1])
    whole = TREE_CRITERIA["cll"](base=False).objective(TreeTraining(Parser(), None, None, problem), 0.0, 1)
    np.testing.assert_allclose(objective(np.ones(k))[0], whole(weights)[0], rtol=1e-12)


def test_scaled_parsers_make_their_trees_more_likely(tmp_path):
    plain, parser = (Parser(f"nota{options}", max_iter=10).fit(TREES) for options in ("", ":scaling"))
    assert np.array_equal(plain.model_.weights, parser.model_.weights) and plain.model_.scaling is None
    assert {entry.phase for entry in parser.history_} == {"mecfg", "main", "scaling"}
    steps = [entry.objective for entry in parser.history_ if entry.phase == "scaling"]
    assert steps[-1] < steps[0]
    scores = plain.model_.scores([TREES[0].leaves()])
    model = parser.model_
    found, alpha = model.scores([TREES[0].leaves()]), model.scaling
    np.testing.assert_array_equal(found.binary, scores.binary * alpha[model.grammar.binary[:, 0]])
    np.testing.assert_array_equal(found.steps, scores.steps * alpha[model.grammar.steps[:, 0]])
    known = np.isfinite(scores.lexical)
    np.testing.assert_array_equal(found.lexical[known], (scores.lexical * alpha[: model.coder.n_tags])[known])
    assert np.array_equal(np.isfinite(found.lexical), known)


def test_counts_of_trees_are_the_gradient_of_their_scores():
    binary = Parser()._transform().apply(TREES)
    problem = SpanProblem.of(binary, SpanAttributes(min_count=1), base=treebank_pcfg(binary))
    features, corpus, rng = problem.model.features, problem.corpus, np.random.default_rng(0)
    counts = tree_counts(features, corpus.spans, problem.edges, corpus.offsets)
    structure = CFGTree(problem.model.grammar, corpus.lengths)
    weights, zero = rng.normal(size=features.n_features), np.zeros(features.n_features)
    score = [structure.score(features.scores(w, corpus, 0, len(TREES)), problem.gold.labels) for w in (weights, zero)]
    np.testing.assert_allclose(score[0] - score[1], counts @ weights)


@pytest.mark.parametrize("places", [("first", "last"), ("last", "after", "first")])
@pytest.mark.parametrize("lexicon", [None, LexiconSmoothing()])
def test_expectations_of_words_at_the_edges_are_exact(places, lexicon):
    """They are the means of many draws, within the draws' error, and those of all words add up to the outcome's."""
    more = ("(ROOT (S (NP (X (N dogs))) (VP (V bark))))", "(ROOT (S (VP (V bark))))", "(ROOT (X (NP (N cat)) (N dog)))")
    trees = [*TREES * 3, *map(parse_tree, more)]
    binary = Parser()._transform().apply(trees)
    base = treebank_pcfg(binary, lexicon=lexicon)
    problem = SpanProblem.of(binary, SpanAttributes(places, min_count=2), base=base)
    model, n = problem.model, 20_000
    features, expected = expected_at_edges(model, Expectations(base))
    exact = np.zeros(model.features.n_features)
    exact[features] = expected
    drawn = draw_trees(base, n, np.random.default_rng(1))
    structure = CFGTree(base.grammar, [len(tree.leaves()) for tree in drawn])
    labels = np.concatenate([base.coder.labels(tree) for tree in drawn])
    edges = model.features.outcomes.edges(labels, structure.is_word)
    counts = tree_counts(model.features, model.attributes.transform(leaves(drawn)), edges, structure.offsets)
    means = np.asarray(counts.mean(axis=0)).ravel()
    errors = np.sqrt(np.maximum(np.asarray(counts.power(2).mean(axis=0)).ravel() - means**2, 0.0) / n)
    assert len(features) == len(set(features)) > 30
    assert (np.abs(exact - means)[features] <= 5 * errors[features] + 1e-3).all()
    assert (expected >= 0.0).all() and (expected > 0.01).sum() > 20
    others = np.setdiff1d(np.arange(model.features.outcomes.n_outcomes, model.features.n_features), features)
    assert (len(others) > 0) == ("after" in places)


def test_without_words_beside_the_span_nothing_is_drawn(monkeypatch):
    def refuse(*arguments):
        raise AssertionError("nothing is to be drawn")

    monkeypatch.setattr("loglinear.estimators.parser.problem.draw_trees", refuse)
    parser = Parser("m-estimation:places=first+last", max_iter=3).fit(TREES)
    assert "5 trees, none drawn; " in parser.message_
    with pytest.raises(AssertionError, match="nothing is to be drawn"):
        Parser("m-estimation:places=first+after", max_iter=3).fit(TREES)


@pytest.mark.parametrize("spec", ["cll:learn_base", "risk:learn_base", "mecfg:base", "nota:base"])
def test_the_weight_of_the_base_is_learnt(spec, tmp_path):
    """The gradient is that of finite differences; a file answers alike; weights of zero are the base."""
    name = spec_name(spec)
    parser = Parser(spec, l2=0.1, max_iter=4).fit(TREES)
    weights = parser.model_.weights
    assert weights[-1] != 0.0 and parser.model_.features.pieces.base is not None
    treebank = Treebank([], Parser()._transform().apply(TREES))
    training = TREE_CRITERIA.spec(spec).make().training(treebank, Parser(spec, l2=0.1), None)
    objective = training.made.objective(training, 0.1, 1)
    point = 0.3 * np.random.default_rng(2).normal(size=len(weights))
    gradient = objective(point)[1].copy()
    for place in [len(weights) - 1, *np.flatnonzero(gradient)[:10].tolist()]:
        step = np.zeros(len(weights))
        step[place] = 1e-5
        slope = (objective(point + step)[0] - objective(point - step)[0]) / 2e-5
        np.testing.assert_allclose(gradient[place], slope, rtol=1e-5, atol=1e-6)
    again = Parser.load(parser.to_bytes())
    assert again.parse(leaves(TREES)) == parser.parse(leaves(TREES))
    model = training.problem.model
    assert np.array_equal(model.weights_from(parser.model_), weights)
    base = treebank_pcfg(treebank.binary)
    for words in leaves(TREES):
        if name in ("cll", "risk"):
            structure = CFGTree(base.grammar, [len(words)])
            assert structure.best(model.scores([words]))[1] == pytest.approx(structure.best(base.scores([words]))[1])


def test_m_estimation_learns_the_weight_of_its_base():
    """E_q0[log q0] is the mean of draws; the training trees' log q0 is that of the grammar; a file answers alike."""
    binary = Parser()._transform().apply(TREES * 3)
    base = treebank_pcfg(binary)
    problem = SpanProblem.of(binary, SpanAttributes(min_count=1), base=base, learn_base=True)
    np.testing.assert_allclose(base_scores(problem), [base.log_joint(tree) for tree in binary], rtol=1e-10)
    zeros = np.zeros(problem.model.features.n_features)
    expected = expected_counts(problem.model, base, Sampling(10, 0.0, 0), zeros, 1)[-1]
    drawn = np.array([base.log_joint(tree) for tree in draw_trees(base, 20_000, np.random.default_rng(1))])
    assert abs(expected - drawn.mean()) < 5 * drawn.std() / np.sqrt(len(drawn))
    parser = Parser("m-estimation:learn_base,places=first+last,min_count=1", l2=0.1).fit(TREES)
    assert parser.model_.weights[-1] != 0.0 and [parse.tree for parse in parser.parse(leaves(TREES))] == TREES
    assert Parser.load(parser.to_bytes()).parse(leaves(TREES)) == parser.parse(leaves(TREES))


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad"])
def test_stochastic_steps_learn_the_weight_of_the_base_too(optimizer):
    parser = Parser("cll:learn_base", optimizer=optimizer, max_iter=3).fit(TREES)
    assert parser.model_.weights[-1] != 0.0 and np.isfinite(parser.model_.weights).all()
    assert [parse.tree for parse in parser.parse(leaves(TREES))] == TREES


def test_expectations_of_outcomes_are_exact_and_those_of_words_beside_the_span_are_drawn():
    binary = Parser()._transform().apply(TREES * 3)
    base = treebank_pcfg(binary, lexicon=None)
    problem = SpanProblem.of(binary, SpanAttributes(min_count=1), base=base)
    counts = tree_counts(problem.model.features, problem.corpus.spans, problem.edges, problem.corpus.offsets)
    observed = np.asarray(counts.mean(axis=0)).ravel()
    expected = expected_counts(problem.model, base, Sampling(4000, 0.0, 0), observed, 1)
    outcomes = problem.model.features.outcomes
    for own in (outcomes.of_rule, outcomes.of_tag):  # a treebank's PCFG expects what the treebank has
        np.testing.assert_allclose(expected[own], observed[own], atol=1e-9)
    drawn = draw_trees(base, 4000, np.random.default_rng(1))
    structure = CFGTree(base.grammar, [len(tree.leaves()) for tree in drawn])
    edges = outcomes.edges(np.concatenate([base.coder.labels(tree) for tree in drawn]), structure.is_word)
    spans = problem.model.attributes.transform(leaves(drawn))
    means = np.asarray(tree_counts(problem.model.features, spans, edges, structure.offsets).mean(axis=0)).ravel()
    np.testing.assert_allclose(expected, means, atol=0.08)


def test_weights_of_zero_are_the_base():
    binary = Parser()._transform().apply(TREES)
    base = treebank_pcfg(binary)
    problem = SpanProblem.of(binary, SpanAttributes(), base=base)
    for words in leaves(TREES):
        structure = CFGTree(base.grammar, [len(words)])
        assert structure.best(problem.model.scores([words]))[1] == pytest.approx(
            structure.best(base.scores([words]))[1]
        )


def test_a_damaged_file_is_refused(tmp_path):
    from loglinear import model_file

    Parser(criterion="mecfg").fit(TREES).save(tmp_path / "m.model")
    stored = model_file.load(tmp_path / "m.model")
    arrays = dict(stored.arrays)
    for name in ("weights", "feature_codes", "lexicon_tags", "binary_rules"):
        broken = arrays | {name: arrays[name][:-1]}
        model_file.save(tmp_path / "b.model", "parser", stored.header, broken)
        with pytest.raises(ModelFileError, match="does not fit together"):
            Parser.load(tmp_path / "b.model")


def test_max_margin_is_trained_by_its_dual_and_resumes(tmp_path):
    found = Parser("max-margin").fit(TREES)
    assert "primal and dual differ by less than 0.001" in found.message_
    assert found.objective_ <= Parser("max-margin", optimizer="lbfgs").fit(TREES).objective_
    whole = Parser("max-margin", max_iter=3, threads=2).fit(TREES)
    Parser("max-margin", max_iter=2).fit(TREES, checkpoint=tmp_path / "state")
    again = Parser("max-margin", max_iter=3).fit(TREES, checkpoint=tmp_path / "state", resume=True)
    assert np.array_equal(whole.model_.weights, again.model_.weights)
    assert "primal and dual" not in Parser("max-margin", l2=0.0, max_iter=1).fit(TREES).message_
