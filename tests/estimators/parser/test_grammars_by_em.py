"""Grammars that a parser finds by EM: what the driver of EM finds, from trees, brackets or raw sentences."""

from __future__ import annotations

import numpy as np
import pytest

from loglinear import Parser, load
from loglinear.data.corpora.bundled import bundled_trees
from loglinear.data.trees.transforms import binarise
from loglinear.data.trees.tree import Tree, fold, parse_tree
from loglinear.errors import DataError, OptionError
from loglinear.generative.pcfg.counts import treebank_pcfg
from loglinear.generative.pcfg.em import InsideOutside, em, perturbed, random_pcfg

TREES = [tree for tree in bundled_trees("train", entities=False)[:40] if len(tree.leaves()) <= 12]
PLAIN = {"annotation": "none", "threads": 1}
SPANS = [[(i, j) for _, i, j in tree.spans()] for tree in TREES]
TAGS = [tree.tags() for tree in TREES]
RANDOM = "pcfg-em:start=random,phrases=4,tags=5"


def of_tags(tree: Tree) -> Tree:
    """The tree over its parts of speech instead of its words."""
    return fold(tree, lambda node, below: Tree("T", word=node.label) if node.word else Tree(node.label, below))


def objectives(parser: Parser) -> list[float]:
    return [progress.objective for progress in parser.history_]


@pytest.mark.parametrize("brackets", [True, False])
def test_em_from_the_grammar_of_trees_is_that_of_the_driver(brackets):
    spec = f"pcfg-em:restarts=2,smoothing=0.01,brackets={'yes' if brackets else 'no'}"
    parser = Parser(spec, max_iter=5, seed=3, **PLAIN).fit(TREES)
    first = treebank_pcfg([binarise(tree, horizontal=2) for tree in TREES])
    starts = [first, *(perturbed(first, np.random.default_rng([3, number])) for number in (1, 2))]
    words = [tree.leaves() for tree in TREES]
    run, ended = em(starts, InsideOutside(words, SPANS if brackets else None, smoothing=0.01), max_iter=5)
    assert (parser.model_.parameters == run.model.parameters).all()
    assert parser.objective_ == -run.objectives[-1] == -max(ended)
    assert parser.n_trees_ == len(TREES) and parser.classes_ == Parser(**PLAIN).fit(TREES).classes_
    assert {progress.phase for progress in parser.history_} == {f"start {i} of 3" for i in (1, 2, 3)}


@pytest.mark.parametrize("brackets", [None, SPANS])
def test_em_from_a_random_grammar_is_that_of_the_driver(brackets):
    parser = Parser(RANDOM, max_iter=8, tolerance=0, threads=2).fit(TAGS, brackets)
    words = [tag for tags in TAGS for tag in tags]
    start = random_pcfg(4, 5, words, np.random.default_rng([0, 0]))
    run, _ = em([start], InsideOutside(TAGS, brackets), max_iter=8, tolerance=0.0)
    assert (parser.model_.parameters == run.model.parameters).all()
    assert [-value for value in objectives(parser)] == run.objectives[1:]
    assert parser.classes_ == ["T0", "T1", "T2", "T3", "T4", "X0", "X1", "X2", "X3"]


@pytest.mark.parametrize("spec", ["pcfg-em", "pcfg-em:brackets=no,smoothing=0.1", RANDOM])
def test_the_objective_never_falls(spec):
    parser = Parser(spec, max_iter=15, tolerance=0, **PLAIN).fit(TREES)
    falls = objectives(parser)
    assert (np.diff(falls) <= 1e-9 * np.abs(falls[1:])).all()


def test_brackets_may_stand_in_trees_or_beside_the_words():
    trees = [of_tags(tree) for tree in TREES]
    told = [Parser(RANDOM, max_iter=3, threads=1).fit(*data) for data in (
        (trees,), (TAGS, trees), (TAGS, SPANS), (list(map(str, trees)),), ([" ".join(tags) for tags in TAGS], SPANS),
        ([*trees[:4], *TAGS[4:]], [None, None, SPANS[2], str(trees[3]), *SPANS[4:]]),
    )]  # fmt: skip
    for parser in told[1:]:
        assert (parser.model_.parameters == told[0].model_.parameters).all()
    raw, unbracketed = Parser(RANDOM, max_iter=3).fit(TAGS), Parser(f"{RANDOM},brackets=no", max_iter=3).fit(trees)
    assert (raw.model_.parameters == unbracketed.model_.parameters).all()
    assert raw.objective_ < told[0].objective_  # more trees count
    assert "0 with brackets" in raw.message_ and f"{len(TREES)} with brackets" in told[0].message_


def test_brackets_help_to_find_phrases():
    """Pereira and Schabes (1992): bracketed text teaches a grammar the phrases of a treebank, raw text does not."""
    trees = [of_tags(tree) for tree in TREES]
    raw, bracketed = (Parser(RANDOM, max_iter=30).fit(TAGS, y) for y in (None, SPANS))
    assert bracketed.score(trees) > raw.score(trees) + 0.15
    assert bracketed.predict(TAGS[:1])[0].leaves() == TAGS[0]
    assert bracketed.predict(TAGS[:1])[0].label == "ROOT"


def test_trees_and_raw_sentences_together():
    raw = [tree.leaves() for tree in TREES[:5]]
    parser = Parser("pcfg-em", max_iter=3, **PLAIN).fit([*TREES[:12], *raw])
    assert parser.n_trees_ == 17 and parser.message_.startswith("17 sentences, 12 with brackets; ")


def test_a_model_file_holds_the_grammar(tmp_path):
    parser = Parser(f"{RANDOM},min_count=2", max_iter=3).fit(TAGS)
    parser.save(tmp_path / "em.model")
    again = load(tmp_path / "em.model")
    assert again.parse(TAGS[:5]) == parser.parse(TAGS[:5])
    assert again.classes_ == parser.classes_ and again.message_ == parser.message_
    assert "<word>" in parser.model_.lexicon.terminals and not parser.parse([["NN", "neverseen"]])[0].failure


def test_dev_sentences_are_judged_by_their_probability():
    parser = Parser(RANDOM, max_iter=4).fit(TAGS, X_dev=TAGS[:6])
    n_words = sum(map(len, TAGS[:6]))
    assert parser.dev_score_ == pytest.approx(np.exp(parser.model_.log_probability(TAGS[:6]).sum() / n_words))
    treebank = Parser("pcfg-em", max_iter=4, **PLAIN).fit(TREES, X_dev=TREES[:6])
    assert treebank.dev_score_ == pytest.approx(treebank.score(TREES[:6]))


def test_what_em_does_not_reach_keeps_its_probability():
    """A chain of unary rules may be so improbable that its product is 0 as a number."""
    trees = [parse_tree(f"(A (B (C {inner})))") for inner in ("(T a)", "(D (T b))", "(D (T b))")]
    model = treebank_pcfg(trees, lexicon=None)
    unary = np.where(model.unary_rules[:, 0] == model.coder.number["D", False], model.unary, 1e-200)
    tiny = model.with_parameters(np.concatenate([model.binary, unary, model.lexicon.log_p]))
    expected = tiny.closure.expected_rules(np.zeros(len(tiny.closure.steps)))
    assert np.isinf(tiny.closure.log_total).any() and (expected == 0.0).all()


def test_sentences_that_the_start_cannot_parse_are_left_out_with_one_warning():
    trees, other = ["(ROOT (S (N a) (V b)))", "(ROOT (S (N b) (V b)))"], ["a b a", "a a a"]
    with pytest.warns(
        UserWarning, match=r"^2 sentences that .* left out, the first: sentence 1 \(from 0\): 'a b a'; "
    ) as said:
        parser = Parser("pcfg-em", max_iter=2, **PLAIN).fit([trees[0], *other, trees[1]])
    assert len(said) == 1 and "more trees" in str(said[0].message) and "start=random" in str(said[0].message)
    alone = Parser("pcfg-em", max_iter=2, **PLAIN).fit(trees)
    assert (parser.model_.parameters == alone.model_.parameters).all() and parser.n_trees_ == 2


def test_it_is_an_error_if_the_start_can_parse_no_sentence():
    start = Parser(**PLAIN).fit(["(ROOT (S (N a) (V b)))"])
    with pytest.raises(DataError, match=r"^sentence 0 \(from 0\): 'a b a': .* neither this nor another"):
        Parser("pcfg-em", max_iter=2, **PLAIN).fit(["a b a", "a a a"], init=start)


@pytest.mark.parametrize(
    ("options", "data", "says"),
    [
        ({"criterion": "pcfg-em"}, (TAGS,), "no tree whose grammar EM could start from; give some, or start=random"),
        ({"criterion": "pcfg-em:phrases=3"}, (TREES,), "phrases=3 goes with start=random, not start=treebank"),
        ({"criterion": "pcfg-em", "l2": 1.0}, (TREES,), "is found by EM, and has no use for l2"),
        ({"criterion": "pcfg-em", "optimizer": "lbfgs"}, (TREES,), "has no use for optimizer"),
        ({"criterion": RANDOM}, (TAGS, SPANS[1:]), r"X has .* sentences?, but y"),
        ({"criterion": RANDOM}, (TAGS, TREES), "y.0. is a tree of other words than X.0."),
        ({"criterion": RANDOM}, (TAGS[:1], [[1, 2]]), r"y.0. is .1, 2.; give for each sentence a tree"),
        ({"criterion": RANDOM}, (TAGS[:1], [[(3, 2)]]), "is not a bracket of a sentence"),
        ({"criterion": RANDOM}, ([[]],), "no word"),
        ({"criterion": RANDOM}, ([],), "no sentence with a word to train on"),
        ({"criterion": RANDOM, "max_length": 1}, (TAGS,), "no sentence has at most max_length=1 words"),
        ({"criterion": RANDOM}, (TAGS[:1], [[(1, 3), (0, 2)]]), r"brackets \(0, 2\) and \(1, 3\) of sentence 0 cross"),
        (
            {"criterion": "pcfg-em"},
            (["(ROOT (S (N a) (V b)))"], [[(0, 1), (1, 3)]]),
            "is not a bracket of a sentence",
        ),
    ],
)  # fmt: skip
def test_mistakes_are_named(options, data, says):
    with pytest.raises((OptionError, DataError), match=says):
        Parser(**{**PLAIN, "max_iter": 2, **options}).fit(*data)
