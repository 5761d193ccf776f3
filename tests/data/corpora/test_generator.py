"""Laws of the generator."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from itertools import islice, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.data.corpora.bundled import TASKS, task_rows
from loglinear.data.corpora.generator import (
    OPEN_CLASSES,
    _grow,
    _Sampler,
    closed_classes,
    generate_rows,
    generate_trees,
    grammar,
    heights,
    plural,
    verb_forms,
)
from loglinear.data.trees.heads import ENTITY_TYPES
from loglinear.errors import OptionError


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**63), st.integers(0, 15), st.integers(0, 15))
def test_the_first_sentences_do_not_depend_on_how_many_follow(seed: int, n: int, more: int) -> None:
    assert list(generate_rows(n, seed)) == list(generate_rows(n + more, seed))[:n]
    assert list(generate_trees(n, seed)) == list(islice(generate_trees(None, seed), n))


def test_the_same_seed_gives_the_same_text_in_another_process() -> None:
    code = "from loglinear.data.corpora.generator import generate_trees; print(*generate_trees(20, 11), sep='\\n')"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert other.splitlines() == [str(tree) for tree in generate_trees(20, 11)]


def test_seeds_differ() -> None:
    texts = {str(list(generate_rows(5, seed))) for seed in range(20)}
    assert len(texts) == 20


@pytest.mark.parametrize("task", TASKS)
def test_rows_are_what_is_derived_from_the_trees(task: str) -> None:
    derived = map(task_rows(task), generate_trees(1500, seed=4))
    assert list(generate_rows(1500, 4, task)) == list(derived)


@pytest.mark.parametrize("task", ["chunk", "ner"])
def test_every_fragment_of_the_grammar_gives_the_derived_columns(task: str) -> None:
    missing = {id(fragment) for fragments in grammar().values() for fragment in fragments}
    sampler = _Sampler(4, task)
    for _ in range(40_000):  # the rarest fragment comes in about 10,000 sentences
        fragments, words, tails = sampler.sentence()
        used = set(map(id, fragments))
        if used & missing:
            missing -= used
            following = iter(fragments)
            tree = _grow(next(following).tree, following, iter(words))
            assert task_rows(task)(tree) == [(word, *tail) for word, tail in zip(words, tails, strict=True)]
            if not missing:
                break
    assert not missing


def test_sentences_end_and_have_the_promised_length() -> None:
    lengths = [len(rows) for rows in generate_rows(4000, seed=9, task="pos")]
    assert 10 <= sum(lengths) / len(lengths) <= 25
    assert min(lengths) >= 3 and max(lengths) < 200
    assert heights().keys() == grammar().keys()


def test_sentences_begin_with_a_capital_and_articles_agree() -> None:
    for rows in generate_rows(2000, seed=2, task="pos"):
        words = [row[0] for row in rows]
        first = words[1] if words[0] == "``" else words[0]
        assert not first[0].islower()
        for article, following in pairwise(words):
            if article.lower() == "a":
                assert following[0] not in "aeio" or following.startswith(("one", "eu")), following
            if article.lower() == "an":
                assert following[0].lower() in "aeiouh", following


def test_verbs_agree_with_simple_subjects() -> None:
    singular, plural_subjects = {"he", "she", "it"}, {"they", "we"}
    for rows in generate_rows(3000, seed=6, task="pos"):
        for (word, tag), (_, following) in pairwise(rows):
            if tag == "PRP" and rows[0][1] not in {"VBD", "VBP", "WRB"}:
                assert not (word in plural_subjects and following == "VBZ"), rows
                assert not (word in singular - {"it"} and following == "VBP"), rows


def test_lexicon_is_large_and_vocabulary_grows() -> None:
    words = {word for words in closed_classes().values() for word in words}
    assert len(words) >= 1500
    sizes = []
    seen: set[str] = set()
    for count, rows in enumerate(generate_rows(8000, seed=1, task="pos"), 1):
        seen.update(row[0] for row in rows)
        if count in {1000, 2000, 4000, 8000}:
            sizes.append(len(seen))
    growth = [later / earlier for earlier, later in pairwise(sizes)]
    assert all(1.1 < factor < 1.9 for factor in growth), sizes  # still growing, ever more slowly than the text


def test_frequencies_fall_like_zipf() -> None:
    counts = Counter(row[0] for rows in generate_rows(8000, seed=1, task="pos") for row in rows)
    ordered = [count for _, count in counts.most_common()]
    assert ordered[0] > 20 * ordered[100] > 100 * ordered[1000]
    assert sum(count == 1 for count in ordered) > len(ordered) / 6


def test_all_entity_types_occur() -> None:
    kinds = {row[2][2:] for rows in generate_rows(500, seed=0, task="ner") for row in rows} - {""}
    assert kinds == set(ENTITY_TYPES)


def test_every_word_class_of_the_grammar_is_in_the_lexicon_and_used() -> None:
    named = {
        item.word_class for rules in grammar().values() for rule in rules for item in rule.items if item.word_class
    }
    assert named <= closed_classes().keys() | OPEN_CLASSES.keys()
    assert set(OPEN_CLASSES) <= named


@pytest.mark.parametrize(
    ("entry", "forms"),
    [
        ("walk", "walks walk walked walked walk walked walking"),
        ("carry", "carries carry carried carried carry carried carrying"),
        ("stop*", "stops stop stopped stopped stop stopped stopping"),
        ("agree", "agrees agree agreed agreed agree agreed agreeing"),
        ("take/took/taken", "takes take took took take taken taking"),
        ("run*/ran/run", "runs run ran ran run run running"),
        ("go/went/gone", "goes go went went go gone going"),
        ("play", "plays play played played play played playing"),
    ],
)
def test_verbs_are_inflected_by_rule(entry: str, forms: str) -> None:
    assert " ".join(verb_forms(entry).values()) == forms


def test_plurals_are_formed_by_rule() -> None:
    assert [
        plural(noun) for noun in ("dog", "box", "city", "day", "church")
    ] == "dogs boxes cities days churches".split()  # noqa: SIM905


def test_bad_arguments_are_errors() -> None:
    with pytest.raises(OptionError, match="negative"):
        next(generate_rows(-1, 0))
    with pytest.raises(OptionError, match="no task"):
        next(generate_rows(1, 0, "parsing"))
