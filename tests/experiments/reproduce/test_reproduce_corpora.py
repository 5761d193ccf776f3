"""The papers' corpora: found by their usual names, and split so that tuning and training sentences are apart."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loglinear.data import Columns
from loglinear.errors import DataError, OptionError
from loglinear.experiments import corpora
from loglinear.experiments.reproduce.papers import files_for
from loglinear.experiments.reproduce.tasks import TASKS, UNKNOWN, noun_phrases, split_of, with_unknown_words
from loglinear.system import cache_folder

CHUNKS = "the DT B-NP\ndog NN I-NP\nran VBD B-VP\n\n"


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("LOGLINEAR_CACHE", str(tmp_path / "cache"))
    cache_folder.cache_clear()
    yield tmp_path / "cache"
    cache_folder.cache_clear()


def put(folder, text, *names):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(text)
    return folder


def test_corpora_are_found_at_any_depth_and_told_apart_by_content(tmp_path):
    data = tmp_path / "data"
    put(data / "a", "Main StreetName\n\n", "train.txt", "test.txt")
    there = put(data / "b" / "c", CHUNKS, "train.txt", "test.txt")
    put(data / ".hidden", "x", *corpora.FILES["eng"])
    put(data / "half", "x", "ned.train")
    assert corpora.find(data, ["conll2000", "eng", "ned"]) == {"conll2000": [there / "train.txt", there / "test.txt"]}


def test_links_are_followed_and_loops_end(tmp_path):
    there = put(tmp_path / "elsewhere" / "deep", CHUNKS, "train.txt", "test.txt")
    data = tmp_path / "data"
    (data / "a").mkdir(parents=True)
    (data / "a" / "up").symlink_to(data)
    (data / "itself").symlink_to(data / "itself")
    (data / "gone").symlink_to(tmp_path / "nowhere")
    assert len(list(corpora.folders_under(data))) == 2
    (data / "linked").symlink_to(there.parent)
    assert corpora.find(data, ["conll2000"])["conll2000"][0] == data / "linked" / "deep" / "train.txt"
    assert corpora.find(data / "linked" / "deep", ["conll2000"])


def test_the_nearest_folder_wins_and_the_users_before_the_cache(tmp_path, empty_cache):
    put(empty_cache / "corpora" / "conll2002", "x", *corpora.FILES["ned"])
    assert corpora.find(None, ["ned"])["ned"][0].is_relative_to(empty_cache)
    data = tmp_path / "data"
    put(data / "a" / "b", "x", *corpora.FILES["ned"])
    near = put(data / "z", "x", *corpora.FILES["ned"])
    assert corpora.find(data, ["ned"])["ned"][0].parent == near


def test_fetched_files_that_are_not_right_are_refused(tmp_path, empty_cache):
    folder = put(empty_cache / "corpora" / "conll2000", CHUNKS, *corpora.FILES["conll2000"])
    with pytest.raises(DataError, match=r"train.txt, test.txt; `loglinear data get conll2000 --again`") as caught:
        corpora.find(None, ["conll2000"])
    assert str(caught.value).startswith(f"{folder}: ")
    data = put(tmp_path / "data", CHUNKS, *corpora.FILES["conll2000"])
    assert corpora.find(data, ["conll2000"])["conll2000"][0].parent == data  # the user's own are the user's affair


def test_a_paper_takes_the_first_language_that_is_there(tmp_path):
    data = put(tmp_path / "data", "x", *corpora.FILES["esp"], *corpora.FILES["ned"])
    assert list(files_for("softmax-margin", data)) == ["esp"]
    assert list(files_for("softmax-margin", data, ["ned"])) == ["ned"]
    put(data, "x", *corpora.FILES["eng"])
    assert list(files_for("softmax-margin", data)) == ["eng"]
    put(data, CHUNKS, *corpora.FILES["conll2000"])
    put(data, "x", *corpora.FILES["craft"], *corpora.FILES["ewt"])
    assert list(files_for("piecewise", data)) == ["eng", "conll2000", "craft"]
    assert list(files_for("m-estimation", data)) == ["conll2000"]
    assert list(files_for("m-estimation", data, ["ewt"])) == ["ewt"]


def test_the_error_names_where_was_looked_and_what_is_wrong_there(tmp_path, empty_cache):
    cache = empty_cache / "corpora"
    with pytest.raises(DataError) as caught:
        files_for("m-estimation", None)
    assert str(caught.value).startswith(f"{cache}: none")
    put(cache / "conll2000", "garbage\n", "train.txt", "test.txt")
    with pytest.raises(DataError, match=r"train.txt, test.txt in the cache is not right.*--again") as caught:
        files_for("m-estimation", tmp_path)
    assert str(caught.value).startswith(f"{tmp_path} and {cache}: none")


def test_what_is_not_there_is_said_with_a_remedy(tmp_path):
    with pytest.raises(DataError, match=r"train.txt.*loglinear data get conll2000"):
        files_for("m-estimation", tmp_path)
    with pytest.raises(DataError, match=r"ned.train.*loglinear data get conll2002"):
        files_for("softmax-margin", tmp_path, ["ned"])
    with pytest.raises(DataError, match="no such folder"):
        files_for("piecewise", tmp_path / "nowhere")
    with pytest.raises(OptionError, match="is run on eng, esp, ned"):
        files_for("softmax-margin", tmp_path, ["ewt"])


def as_set(corpus):
    return {tuple(sentence) for sentence in corpus.rows()}


@pytest.mark.parametrize("task", ["noun-phrases", "entities-held", "tags"])
def test_tuning_sentences_are_no_training_sentences(task):
    train, dev, test = split_of(task, (), 0)
    words = [{tuple(row[0] for row in sentence) for sentence in part.rows()} for part in (train, dev, test)]
    assert all(words) and not words[0] & words[1] and not words[0] & words[2]
    again = split_of.__wrapped__(task, (), 0)
    assert [as_set(part) for part in again] == [as_set(part) for part in (train, dev, test)]
    assert as_set(split_of(task, (), 1)[1]) != as_set(dev)


@pytest.mark.parametrize("task", sorted(TASKS))
def test_fewer_training_sentences_are_among_the_more(task):
    some, more = (split_of(task, (), 0, n_train=n)[0] for n in (20, 50))
    assert len(some) == 20 and as_set(some) < as_set(more) < as_set(split_of(task, (), 0)[0])


def test_only_noun_phrases_are_left():
    corpus = noun_phrases(Columns.from_rows([[("the", "B-NP"), ("dog", "I-NP"), ("ran", "B-VP"), (".", "O")]]))
    assert corpus.labels() == [["B-NP", "I-NP", "O", "O"]]


sentences = st.lists(st.lists(st.sampled_from("abcde"), min_size=1, max_size=5), min_size=1, max_size=6)


@given(sentences, sentences)
def test_first_occurrences_and_what_is_new_become_unknown(train, other):
    corpora = [Columns.from_rows([[(word, "O") for word in sentence] for sentence in part]) for part in (train, other)]
    with_unknown_words(*corpora)
    seen, expected = set(), []
    for sentence in train:
        expected.append([UNKNOWN if word not in seen and not seen.add(word) else word for word in sentence])
    known = {word for sentence in expected for word in sentence}
    assert corpora[0].labels(0) == expected
    assert corpora[1].labels(0) == [[word if word in known else UNKNOWN for word in sentence] for sentence in other]


def test_the_seed_draws_the_sentences_that_are_left_out():
    assert not np.array_equal(*(split_of("noun-phrases", (), seed)[1].columns[0].ids[:50] for seed in (0, 1)))
