"""The parser from treebank to trees, to a file and back."""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from loglinear import Parser, read_treebank
from loglinear.data.corpora.bundled import bundled_trees
from loglinear.data.trees import annotation, transforms
from loglinear.data.trees.tree import Tree, is_fallback, parse_tree
from loglinear.errors import DataError, ModelFileError, OptionError
from loglinear.estimators import options as estimator_options
from loglinear.estimators.parser.model import Watch
from loglinear.evaluation import bracket_scores

DATA = Path(os.environ.get("LOGLINEAR_DATA", Path(__file__).parents[3] / ".." / "shared" / "data"))
TRAIN = bundled_trees("train", entities=False)
DEV = bundled_trees("dev", entities=False)
LONG = ["the"] * 250


@pytest.fixture(scope="module")
def parser() -> Parser:
    return Parser(threads=1).fit(TRAIN)


def test_predicted_trees_are_over_the_words_with_labels_of_the_treebank(parser: Parser) -> None:
    sentences = [tree.leaves() for tree in DEV]
    trees = parser.predict(sentences)
    assert [tree.leaves() for tree in trees] == sentences
    assert {node.label for tree in trees if not is_fallback(tree) for node in tree.nodes()} <= set(parser.classes_)
    assert parser.classes_ == sorted({node.label for tree in TRAIN for node in tree.nodes()})
    assert parser.score(DEV) == bracket_scores(DEV, trees).f1 / 100 > 0.7


@pytest.mark.parametrize(
    "options",
    [
        {"annotation": "none", "horizontal": None},
        {"vertical": 2, "horizontal": 1},
        {"vertical": 3, "factor": "right"},
        {"annotation": "rich", "factor": "left"},
    ],
)
def test_every_grammar_parses_its_own_training_sentences(options: dict[str, object]) -> None:
    some = TRAIN[:60]
    parser = Parser(threads=1, **options).fit(some)  # type: ignore[arg-type]
    report = bracket_scores(some, parser.predict([tree.leaves() for tree in some]))
    assert report.failures == 0 and report.f1 > 80


def test_notes_split_what_plain_labels_cannot_tell_apart() -> None:
    assert Parser(threads=1).fit(TRAIN).score(DEV) > Parser(annotation="none", threads=1).fit(TRAIN).score(DEV)


def test_threads_and_order_do_not_matter(parser: Parser) -> None:
    sentences = [tree.leaves() for tree in DEV[:20]]
    trees = parser.predict(sentences)
    assert clone(parser).set_params(threads=2).fit(TRAIN).predict(sentences) == trees
    assert parser.predict(sentences[::-1]) == trees[::-1]
    assert parser.predict([" ".join(words) for words in sentences]) == trees


def test_a_model_file_is_the_parser(parser: Parser, tmp_path: Path) -> None:
    sentences = [tree.leaves() for tree in DEV[:20]]
    expected = parser.parse(sentences)
    parser.save(tmp_path / "p.model")
    again = Parser.load(tmp_path / "p.model")
    assert again.parse(sentences) == expected
    assert again.get_params() == parser.get_params() | {"threads": None}
    assert (again.classes_, again.n_trees_) == (parser.classes_, parser.n_trees_)
    assert again.to_bytes() == parser.to_bytes() == (tmp_path / "p.model").read_bytes()
    assert Parser.load(parser.to_bytes()).parse(sentences) == expected
    assert pickle.loads(pickle.dumps(parser)).parse(sentences) == expected
    assert pickle.loads(pickle.dumps(Parser(vertical=3))).vertical == 3


def test_a_damaged_model_is_refused(parser: Parser) -> None:
    from loglinear import model_file

    stored = model_file.load(parser.to_bytes())
    rng = np.random.default_rng(0)
    for name, array in stored.arrays.items():
        if array.dtype.kind in "iu" and array.size:
            changed = np.array(array)
            changed.flat[rng.integers(array.size)] = 2**31 - 1 if array.dtype.kind == "i" else 255
            arrays = dict(stored.arrays) | {name: changed}
            try:
                other = Parser.load(model_file.dumps("parser", stored.header, arrays))
            except ModelFileError:
                continue
            other.predict([["the", "dog"]])  # whatever was accepted can be used
    for key in stored.header:
        header = {other: value for other, value in stored.header.items() if other != key}
        with pytest.raises(ModelFileError, match=f"'{key}' is missing"):
            Parser.load(model_file.dumps("parser", header, stored.arrays))
    with pytest.raises(ModelFileError, match="kind"):
        Parser.load(model_file.dumps("tagger", stored.header, stored.arrays))


def test_likely_brackets_are_more_often_right(parser: Parser) -> None:
    """Not a law for every corpus, but what the decoding is for: no worse than the most probable trees here."""
    sentences = [tree.leaves() for tree in DEV]
    viterbi = Parser.load(parser.to_bytes()).set_params(beam=None).predict(sentences)
    likely = clone(parser).set_params(decoding="posterior").fit(TRAIN).predict(sentences)
    assert [tree.leaves() for tree in likely] == sentences
    assert likely != viterbi
    assert {node.label for tree in likely if not is_fallback(tree) for node in tree.nodes()} <= set(parser.classes_)
    assert bracket_scores(DEV, likely).f1 >= bracket_scores(DEV, viterbi).f1


def test_a_certain_tree_is_also_that_of_likely_brackets() -> None:
    tree = "(ROOT (SBAR (S (VP (VB go) (NP (NP (NN home)) (ADVP (RB now)))))))"
    parser = Parser(annotation="none", decoding="posterior", threads=1).fit([tree])
    assert str(parser.predict(["go home now"])[0]) == tree


@given(
    st.lists(
        st.text(min_size=1, max_size=8).filter(lambda word: not any(c.isspace() for c in word)), min_size=1, max_size=7
    )
)
@settings(max_examples=60, deadline=None)
def test_any_words_get_a_tree(parser: Parser, words: list[str]) -> None:
    for decoding in ("viterbi", "posterior"):
        (tree,) = parser.set_params(decoding=decoding).predict([words])
        parser.set_params(decoding="viterbi")
        assert len(tree.leaves()) == len(words) and parse_tree(str(tree)) == tree


def test_more_words_than_a_chart_can_hold(parser: Parser) -> None:
    (parse,) = parser.parse([["a"] * 1001])
    assert parse.failure == "no parse of more than 1,000 words" and len(parse.tree.leaves()) == 1001


# -- sentences that are hard ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [["xyzzy", "plugh", "frobozz"], ["Ran", "ran", "ran"], ["(", "[", "]", ")"], [".", ".", "."], ["a(b"], ["the"],
     ["\N{COMBINING ACUTE ACCENT}", "東京"], ["1,000", "U.S.", "e-mail"]],
)  # fmt: skip
def test_every_sentence_gets_a_tree(parser: Parser, words: list[str]) -> None:
    (parse,) = parser.parse([words])
    assert len(parse.tree.leaves()) == len(words)
    assert parse_tree(str(parse.tree)) == parse.tree
    assert is_fallback(parse.tree) == bool(parse.failure) == (parse.score == -np.inf)


def test_probabilities_of_sentences_are_shares_of_draws() -> None:
    """log_prob sums over all trees: how often a sentence is drawn; and refuses what has no density."""
    trees = [
        "(ROOT (S (NP (N a)) (VP (V b))))", "(ROOT (S (NP (N b)) (VP (V b) (NP (N a)))))",
        "(ROOT (S (NP (N b) (N a)) (VP (V b))))",
    ]  # fmt: skip
    parser = Parser(annotation="none", threads=2).fit(trees)
    drawn = Counter(" ".join(tree.leaves()) for tree in parser.sample(20_000, seed=5))
    common = [words for words, n in drawn.items() if n > 300 and "<" not in words]
    shares = np.array([drawn[words] for words in common]) / 20_000
    assert len(common) > 3
    np.testing.assert_allclose(np.exp(parser.log_prob(common)), shares, rtol=0.15)
    assert parser.log_prob(["b"]) == [-np.inf] and len(parser.log_prob([])) == 0
    assert [str(tree) for tree in parser.sample(3)] == [str(tree) for tree in parser.sample(3, seed=0)]
    for call, says in (
        (lambda: parser.log_prob([["a"] * 1001]), "1,001 words; 1,000 are the most"),
        (lambda: parser.sample(0), "n=0"),
        (lambda: parser.sample(1, seed=-1), "seed=-1"),
        (lambda: Parser("mecfg", max_iter=1).fit(trees).sample(), "criterion='mecfg': it has no p"),
        (lambda: Parser("m-estimation:samples=9", max_iter=1).fit(trees).log_prob([]), "is not normalised"),
    ):
        with pytest.raises((DataError, OptionError), match=says):
            call()


def test_time_runs_out() -> None:
    parser = Parser(threads=1, time_limit=1e-4).fit(TRAIN)
    (parse,) = parser.parse([LONG])
    assert is_fallback(parse.tree) and parse.failure == "no parse within 0.0001 seconds"
    assert parse.tree.leaves() == LONG
    begin = time.perf_counter()
    assert not is_fallback(parser.set_params(time_limit=None).predict([TRAIN[0].leaves()])[0])
    assert time.perf_counter() - begin < 60  # and no watch is left to wait for


def test_a_watch_gives_each_sentence_its_time() -> None:
    begun, set_after, n_threads = threading.Barrier(3), [], threading.active_count()

    def sentence(watch: Watch, late: float) -> None:
        begun.wait()
        time.sleep(late)
        with watch.flag() as stop:
            start = time.perf_counter()
            while not stop[0] and time.perf_counter() - start < 30:
                time.sleep(1e-3)
            set_after.append(time.perf_counter() - start)

    with Watch(0.1) as watch:
        threads = [threading.Thread(target=sentence, args=(watch, late)) for late in (0.0, 0.05)]
        for thread in threads:
            thread.start()
        begun.wait()
        for thread in threads:
            thread.join()
        with watch.flag() as stop:
            assert not stop[0]
    assert len(set_after) == 2 and min(set_after) > 0.09 and max(set_after) < 20
    assert threading.active_count() == n_threads
    with Watch(None) as watch, watch.flag() as stop:
        assert threading.active_count() == n_threads and not stop[0]


def test_no_parse_is_flagged() -> None:
    parser = Parser(annotation="none", threads=1).fit(["(ROOT (S (A a) (B b)))"])
    (parse,) = parser.parse([["b", "b", "b"]])
    assert parse.failure == "no parse" and str(parse.tree).startswith("(ROOT (NOPARSE ")
    assert parse.tree.leaves() == ["b", "b", "b"]


def test_a_label_that_looks_like_the_flag_is_scored() -> None:
    trees = ["(ROOT (NOPARSE (NP (DT the) (NN dog)) (VP (VBD ran))))", "(ROOT (NOPARSE (DT the) (NN dog)))"] * 3
    assert Parser(threads=1).fit(trees).score([parse_tree(tree) for tree in trees]) == 1.0


@pytest.mark.skipif(not (DATA / "hostile_trees").is_dir(), reason="no hostile_trees under LOGLINEAR_DATA")
@pytest.mark.parametrize("name", ["unary_chains_cycles", "flat_20ary", "single_word", "unknown_labels", "crlf_unicode"])
def test_hostile_treebanks_make_parsers(name: str) -> None:
    trees = read_treebank(DATA / "hostile_trees" / f"{name}.mrg")
    parser = Parser(threads=1).fit(trees)
    assert [tree.leaves() for tree in parser.predict([tree.leaves() for tree in trees])] == [t.leaves() for t in trees]


# -- mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"criterion": "magic"}, "criterion='magic'"),
        ({"annotation": "some"}, "annotation='some'"),
        ({"annotation": "rich", "vertical": 2}, "vertical=2 goes with annotation='parent'"),
        ({"annotation": "parent", "marks": "^"}, "marks="),
        ({"vertical": 0}, "vertical=0"),
        ({"horizontal": -1}, "horizontal=-1"),
        ({"horizontal": 1.5}, "horizontal=1.5"),
        ({"horizontal": "2"}, "horizontal='2'"),
        ({"marks": 3}, "marks=3"),
        ({"marks": None}, "marks=None"),
        ({"factor": "up"}, "factor='up'"),
        ({"time_limit": 0}, "time_limit=0"),
        ({"decoding": "best"}, "decoding='best'"),
        ({"max_length": 0}, "max_length=0"),
        ({"threads": 0}, "threads=0"),
    ],
)
def test_options_without_sense_are_refused(options: dict[str, object], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        Parser(**options).fit(TRAIN[:3])  # type: ignore[arg-type]


def test_what_cannot_be_trained_on_or_parsed_is_refused(parser: Parser) -> None:
    with pytest.raises(DataError, match="no tree with a word"):
        Parser().fit([])
    with pytest.raises(DataError, match="max_length=1"):
        Parser(max_length=1).fit([parse_tree("(ROOT (S (A a) (B b)))")])
    with pytest.raises(DataError, match=r"sentence 1 \(from 0\)"):
        parser.predict([["a"], []])
    with pytest.raises(DataError, match="blanks"):
        parser.predict([["a b"]])
    with pytest.raises(NotFittedError):
        Parser().predict([["a"]])


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("(ROOT (NN a))", "is of type str; give a list of trees"),
        (parse_tree("(ROOT (NN a))"), "is of type Tree; give a list of trees"),
        (None, "give a list of trees"),
        ([1], r"tree 0 \(from 0\) is 1"),
        (["(ROOT (NN a))", ["a"]], r"tree 1 \(from 0\) is \['a'\]"),
        (["(ROOT (NN a))", "(ROOT (NN a)"], r"tree 1 \(from 0\): brackets left open"),
    ],
)
def test_what_is_no_list_of_trees_is_refused(parser: Parser, given: Any, says: str) -> None:
    for use in (Parser().fit, parser.score):
        with pytest.raises(DataError, match=says):
            use(given)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("Thedog", "'Thedog' is of type str; give a list of sentences"),
        (b"The dog", "is of type bytes; give a list of sentences"),
        (5, "is of type int; give a list of sentences"),
        (["a", b"a b"], r"sentence 1 \(from 0\) is b'a b'"),
        ([None], r"sentence 0 \(from 0\) is None"),
        ([["a", None]], r"sentence 0 \(from 0\) has None for a word"),
        ([["a"], [b"a"]], r"sentence 1 \(from 0\) has b'a' for a word"),
    ],
)
def test_what_is_no_list_of_sentences_is_refused(parser: Parser, given: Any, says: str) -> None:
    with pytest.raises(DataError, match=says):
        parser.predict(given)


def test_trees_to_score_may_be_strings(parser: Parser) -> None:
    assert parser.score([str(tree) for tree in DEV[:5]]) == parser.score(DEV[:5])


def test_options_are_named_alike() -> None:
    assert estimator_options.ANNOTATIONS == annotation.ANNOTATIONS
    assert estimator_options.FACTORS == transforms.FACTORS


def test_raw_treebank_trees_are_cleaned() -> None:
    raw = "( (S (NP-SBJ-1 (NNP Vinken)) (VP (VBZ is) (VP (VBN expected) (NP (-NONE- *-1)))) (. .)))"
    parser = Parser(threads=1).fit([raw] * 3)
    assert str(parser.predict(["Vinken is expected ."])[0]) == (
        "(ROOT (S (NP (NNP Vinken)) (VP (VBZ is) (VP (VBN expected))) (. .)))"
    )
    kept = Parser(threads=1, function_tags=True).fit([raw] * 3)
    assert "(NP-SBJ-1 (NNP" in str(kept.predict(["Vinken is expected ."])[0])


def test_notes_of_the_users_own() -> None:
    marked: list[Tree | str] = ["(ROOT-U (S^ROOT (NP^S-B (DT^NP the) (NN^NP dog)) (VP^S (VBD^VP ran))))"] * 3
    parser = Parser(marks="^-", threads=1).fit(marked)
    assert str(parser.predict(["the dog ran"])[0]) == "(ROOT (S (NP (DT the) (NN dog)) (VP (VBD ran))))"
    assert parser.score([parse_tree(str(marked[0]))]) == 1.0
