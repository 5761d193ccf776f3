"""The parser's beam: trees wherever the exact search has one, on any number of threads; no beam without a prior."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear import Parser, model_file
from loglinear.data.corpora.bundled import bundled_trees
from loglinear.errors import OptionError
from loglinear.estimators.parser.model import WIDER, _best
from loglinear.estimators.parser.problem import TREE_CRITERIA, CountedPcfg
from loglinear.structures.tree.prior import ContextPrior
from problems.problem import seeds
from problems.tree import batches
from referees.tree import scores_of

TRAIN = bundled_trees("train", entities=False)
SENTENCES = [tree.leaves() for tree in bundled_trees("dev", entities=False)]


@pytest.fixture(scope="module")
def parser() -> Parser:
    return Parser(threads=1).fit(TRAIN)


def parses(parser: Parser, **options: Any) -> list[Any]:
    return Parser.load(parser.to_bytes()).set_params(**{"threads": 1, **options}).parse(SENTENCES)


@settings(max_examples=60, deadline=None)
@given(batches(), seeds, st.sampled_from([1e-9, 0.5, 5.0]))
def test_there_is_a_tree_wherever_the_exact_search_has_one(batch, seed, beam):
    tree, scores = batch
    g, rng = tree.grammar, np.random.default_rng(seed)
    counts = rng.integers(9, size=(2, g.n_preterminals + 1, g.n_symbols)).astype(np.int32)
    model, exact = SimpleNamespace(grammar=g, prior=ContextPrior(*counts)), tree.best(scores)[1]
    for s in range(tree.n_sequences):
        _, found, used = _best(model, scores_of(tree, scores, s), beam, np.zeros(1, dtype=np.uint8))
        assert np.isneginf(found) == np.isneginf(exact[s])
        assert found <= exact[s] + 1e-9
        assert used in (beam, WIDER * beam, np.inf)
        if used == np.inf:
            assert found == pytest.approx(exact[s])


@pytest.mark.parametrize("beam", [1e-3, 2.0, 5.0])
def test_narrow_beams_fail_no_sentence_and_are_widened(parser: Parser, beam: float) -> None:
    exact, found = parses(parser, beam=None), parses(parser, beam=beam)
    assert all(one.beam == np.inf for one in exact)
    assert {one.beam for one in found} <= {beam, WIDER * beam, np.inf}
    assert any(one.beam > beam for one in found)
    assert [one.failure for one in found] == [one.failure for one in exact]
    assert all(one.score <= best.score for one, best in zip(found, exact, strict=True))


def test_a_beam_may_miss_the_best_tree(parser: Parser) -> None:
    exact, found = parses(parser, beam=None), parses(parser, beam=5.0)
    assert any(one.score < best.score for one, best in zip(found, exact, strict=True))


def test_the_default_beam_seldom_misses_the_best_tree(parser: Parser) -> None:
    exact, found = parses(parser, beam=None), parses(parser)
    same = sum(one.score == best.score for one, best in zip(found, exact, strict=True))
    assert same >= 0.95 * len(SENTENCES)
    assert any(one.beam < np.inf for one in found)


def test_threads_find_the_same_trees(parser: Parser) -> None:
    for beam in (3.0, 10.0):
        assert parses(parser, beam=beam, threads=2) == parses(parser, beam=beam)


def test_posterior_decoding_is_exact(parser: Parser) -> None:
    assert parses(parser, beam=1e-3, decoding="posterior") == parses(parser, beam=None, decoding="posterior")


def test_a_file_without_a_prior_is_searched_exactly(parser: Parser, tmp_path: Path) -> None:
    stored = model_file.load(parser.to_bytes())
    arrays = {name: array for name, array in stored.arrays.items() if not name.startswith("prior")}
    assert len(arrays) == len(stored.arrays) - 6
    header = {**stored.header, "options": {k: v for k, v in stored.header["options"].items() if k != "beam"}}
    old = Parser.load(model_file.dumps("parser", header, arrays))
    assert old.model_.prior is None
    assert old.parse(SENTENCES) == parses(parser, beam=None)


def small(criterion: str) -> Parser:
    counted = TREE_CRITERIA.part(criterion) is CountedPcfg
    options = {} if counted else {"max_iter": 2}
    return Parser(criterion, annotation="none", max_length=12, threads=1, **options).fit(TRAIN[:40])


@pytest.mark.parametrize(
    "criterion",
    [
        "pcfg",
        "pcfg:backoff=1",
        "mecfg",
        "nota",
        "cll",
        "cll:base=no",
        "softmax-margin",
        "jrb",
        "risk",
        "m-estimation:samples=100",
    ],
)
def test_grammars_of_probabilities_have_a_prior_and_keep_it_in_files(criterion: str) -> None:
    made = small(criterion)
    prior, again = made.model_.prior, Parser.load(made.to_bytes()).model_.prior
    assert prior is not None and prior.before.sum() == prior.after.sum() > 0
    assert (prior.before == again.before).all() and (prior.after == again.after).all()
    exact = made.set_params(beam=None).parse(SENTENCES[:20])
    for beam in (1e-3, 12.0):
        found = made.set_params(beam=beam).parse(SENTENCES[:20])
        assert [one.failure for one in found] == [one.failure for one in exact]
    assert any(one.beam < np.inf for one in found)


@pytest.mark.parametrize("criterion", ["pcfg-em", "perceptron", "mira", "max-margin"])
def test_others_are_searched_exactly(criterion: str) -> None:
    made = small(criterion).set_params(beam=1e-3)
    assert made.model_.prior is None
    assert all(one.beam == np.inf for one in made.parse(SENTENCES[:20]))


def test_every_criterion_says_whether_it_has_a_prior() -> None:
    without = {name for name in TREE_CRITERIA if not TREE_CRITERIA[name].takes_prior}
    assert without == {"pcfg-em", "perceptron", "mira", "arow", "max-margin"}


@pytest.mark.parametrize("beam", [0.0, -1.0, np.nan, np.inf, "wide"])
def test_beams_without_sense_are_refused(parser: Parser, beam: Any) -> None:
    with pytest.raises(OptionError, match="beam="):
        Parser.load(parser.to_bytes()).set_params(beam=beam).parse(SENTENCES[:1])
