"""Parsers of parts of a treebank: the grammar of all trees, to the last bit; parts that do not fit."""

from __future__ import annotations

import pickle
import warnings
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from loglinear import Parser, Summary
from loglinear.data.trees.tree import Tree
from loglinear.errors import OptionError
from loglinear.estimators.conventions import clone
from problems.treebanks import english_like, random_trees


def wrapped(trees: list[Tree], roots: list[str], rng: np.random.Generator) -> list[Tree]:
    """The same trees below one of several roots."""
    return [Tree(str(rng.choice(roots)), [tree]) for tree in trees]


def cuts(rng: np.random.Generator, n: int) -> list[slice]:
    ends = [0, *sorted(rng.choice(np.arange(1, n), size=rng.integers(1, min(5, n - 1) + 1), replace=False)), n]
    return [slice(int(a), int(b)) for a, b in pairwise(ends)]


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("options", [{}, {"annotation": "parent", "horizontal": 1, "criterion": "pcfg:smoothing=0.5"},
                                     {"criterion": "pcfg:backoff=2", "annotation": "rich"}])  # fmt: skip
def test_the_grammar_of_parts_is_that_of_all_trees(seed: int, options: dict[str, Any]) -> None:
    """Also where roots, labels and words occur in some parts only, in any order of the parts, and through files."""
    rng = np.random.default_rng(seed)
    roots = [["ROOT"], ["TOP", "FRAG"], ["ROOT", "S", "X"]][seed % 3]
    trees = wrapped(random_trees(seed, int(rng.integers(5, 40))), roots, rng)
    where, parser = cuts(rng, len(trees)), Parser(**options)
    where = [where[i] for i in rng.permutation(len(where))]
    parts = [parser.summarize(trees[s]) for s in where]
    parts = [Summary.load(each.to_bytes()) if rng.random() < 0.5 else each for each in parts]
    together = clone(parser).from_summaries(pickle.loads(pickle.dumps(parts)))
    whole = clone(parser).fit([tree for s in where for tree in trees[s]])
    assert together.to_bytes() == whole.to_bytes()
    assert together.message_ == whole.message_ and together.n_words_ == whole.n_words_


@pytest.mark.parametrize("seed", range(4))
def test_rare_notes_are_rare_in_all_parts_together(seed: int) -> None:
    rng = np.random.default_rng(seed)
    trees = [Tree("ROOT", [english_like(rng)]) for _ in range(120)]
    together = Parser().from_summaries([Parser().summarize(trees[s]) for s in cuts(rng, len(trees))])
    assert together.to_bytes() == Parser().fit(trees).to_bytes()


def test_parts_are_added_two_by_two_as_all_at_once() -> None:
    trees = random_trees(7, 30)
    a, b, c = (Parser().summarize(trees[s]) for s in (slice(0, 9), slice(9, 10), slice(10, 30)))
    models = [Parser().from_summaries(some) for some in ([a, b, c], [a + b, c], [a + (b + c)])]
    assert len({model.to_bytes() for model in models}) == 1


def test_other_criteria_and_options_are_refused() -> None:
    trees = random_trees(1, 5)
    assert not hasattr(Parser(criterion="mecfg"), "summarize")
    with pytest.raises(OptionError, match="pcfg and pcfg-em are"):
        Parser(criterion="cll").summarize(trees)
    part = Parser().summarize(trees)
    with pytest.raises(OptionError, match="made with horizontal="):
        Parser(horizontal=0).from_summaries([part])
    with pytest.raises(OptionError, match=r'made with criterion="pcfg" .* criterion="pcfg:smoothing=2"'):
        Parser(criterion="pcfg:smoothing=2").from_summaries([part])


# -- EM ----------------------------------------------------------------------------------------------------------------


def sentences(rng: np.random.Generator, seed: int) -> tuple[list[Any], list[Any]]:
    """Trees, sentences in brackets and sentences, mixed."""
    X: list[Any] = list(random_trees(seed, int(rng.integers(8, 30))))
    y: list[Any] = [None] * len(X)
    for i, tree in enumerate(X):
        if rng.random() < 0.5:
            X[i] = tree.leaves()
            y[i] = [(first, end) for _, first, end in tree.spans()] if rng.random() < 0.5 else None
    return X, y


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("spec", ["smoothing=0.2", "start=random,phrases=2,tags=2,smoothing=0.1", "brackets=false"])
def test_em_over_parts_is_em_on_all_sentences(seed: int, spec: str) -> None:
    """The same start, grammar and objectives, which never fall."""
    rng = np.random.default_rng([seed, len(spec)])
    X, y = sentences(rng, seed)
    X[0], y[0] = random_trees(seed, 1)[0], None
    rounds, where = 4, cuts(rng, len(X))
    parser = Parser(criterion=f"pcfg-em:{spec}", annotation="none", max_iter=rounds, tolerance=0.0)
    whole, objectives = clone(parser), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of sentences without a tree
        whole.fit(X, y)
    for i in range(rounds + 2):
        parser = pickle.loads(pickle.dumps(parser))  # as a worker gets it
        parts = [parser.summarize(X[s], y[s]) for s in where]
        parser.from_summaries([Summary.load(each.to_bytes()) if rng.random() < 0.5 else each for each in parts])
        if i == rounds:
            found = parser.model_.parameters
        if i:
            objectives.append(-parser.objective_)
    assert parser.classes_ == whole.classes_ and parser.n_trees_ == whole.n_trees_
    if whole.n_iter_ == rounds:
        assert objectives[-1] == pytest.approx(-whole.objective_, rel=1e-9)
        np.testing.assert_allclose(np.exp(found), np.exp(whole.model_.parameters), rtol=1e-6, atol=1e-9)
    assert all(b >= a - 1e-9 * abs(a) for a, b in pairwise(objectives))


def test_em_over_parts_may_start_from_a_grammar_and_says_when_it_has_converged() -> None:
    trees = random_trees(4, 12)
    init, X = Parser(annotation="none").fit(trees), [tree.leaves() for tree in trees]
    parser = Parser(criterion="pcfg-em", annotation="none", max_iter=1000)
    parser.from_summaries([parser.summarize(X)], init=init)
    assert parser.message_.startswith("the start of EM")
    with pytest.raises(OptionError, match="init: it is for the first"):
        parser.from_summaries([parser.summarize(X)], init=init)
    while not parser.converged_:
        parser.from_summaries([parser.summarize(X[:5]), parser.summarize(X[5:])])
    whole = Parser(criterion="pcfg-em", annotation="none", max_iter=1000).fit(X, init=init)
    assert parser.objective_ == pytest.approx(whole.objective_, rel=1e-9)
    before = parser.summarize(X)
    parser.from_summaries([before])
    with pytest.raises(OptionError, match="another model"):
        parser.from_summaries([before])
