"""Parsers of parts of a treebank: the grammar of all trees, to the last bit; parts that do not fit."""

from __future__ import annotations

import pickle
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
    with pytest.raises(OptionError, match="pcfg is"):
        Parser(criterion="cll").summarize(trees)
    part = Parser().summarize(trees)
    with pytest.raises(OptionError, match="made with horizontal="):
        Parser(horizontal=0).from_summaries([part])
    with pytest.raises(OptionError, match=r'made with criterion="pcfg" .* criterion="pcfg:smoothing=2"'):
        Parser(criterion="pcfg:smoothing=2").from_summaries([part])
