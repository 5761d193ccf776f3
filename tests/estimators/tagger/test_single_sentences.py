"""One sentence at a time is labelled as many are, and refused with the same words."""

import copy
import pickle
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear import Tagger
from loglinear.errors import InfeasibleError, LoglinearError, ModelFileError
from loglinear.estimators.tagger.predict import LoadedTagger

KINDS = {
    "chunking": {"template": "chunking"},
    "functions": {"template": "U0:%suffix[0,0,2]\nU1:%X[@1,0]\nU2:%shape[-1,0]/%x[0,1]\nU3\nB"},
    "constraints": {"template": "pos", "constraints": "bio"},
    "sub-labels": {"template": "U:%x[0,0]\nB", "sub_labels": 2, "max_iter": 15},
    "order 2": {"template": "words", "order": 2},
    "pairs": {"template": "U:%x[0,1]\nB", "pair_features": True},
    "local": {"template": "U:%x[0,1]\nB", "criterion": "memm"},
}
QUICK = {"chunking", "functions", "constraints", "sub-labels"}


@pytest.fixture(scope="module")
def taggers(data):
    return {name: Tagger(l2=0.1, **{"max_iter": 30, **options}).fit(*data) for name, options in KINDS.items()}


def in_the_general_way(tagger, x, **options):
    """Labels by the road of all corpora, or the error's kind and words."""
    try:
        return [tagger.classes_[y] for y in tagger.predict_numbers([x], **options)[0]]
    except (LoglinearError, TypeError) as error:
        return type(error), str(error)


def single(tagger, x):
    try:
        return tagger.predict_single(x)
    except (LoglinearError, TypeError) as error:
        return type(error), str(error)


words = st.sampled_from(["the", "noun1", "noun7", "verb2", ",", "unseen", "été", "", "a b"])
tags = st.sampled_from(["D", "N", "V", "P", "X"])
tokens = st.tuples(words, tags)


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=25)
@given(x=st.lists(tokens, min_size=1, max_size=8))
def test_a_sentence_alone_has_the_labels_it_has_among_others(taggers, name, x):
    tagger = taggers[name]
    assert (tagger.model_.labels_of_sentence(x) is not None) == (name in QUICK)
    expected = in_the_general_way(tagger, x)
    assert tagger.predict_single(x) == tagger.predict([x])[0] == tagger.predict([x, x])[1] == expected
    assert tagger.predict_single([list(token) for token in x]) == expected
    assert tagger.predict_single(tuple(x)) == expected
    assert tagger.predict_single(np.array(x)) == expected
    assert tagger.predict_single([(*token, "é") for token in x]) == expected


odd = st.sampled_from([None, 3, "the", b"the", ("the",), ("the", "D", "x"), ("the", 4), ("\ud800", "D"), ["the", "D"],
                       ("the", ["D"]), {"the": "D"}, (), np.str_("the"), (np.str_("the"), np.str_("D")),
                       ("the", "D", "\ud800")])  # fmt: skip


@settings(max_examples=150)
@given(x=st.lists(st.one_of(tokens, odd), max_size=4) | odd)
def test_what_is_wrong_is_refused_with_the_same_words(taggers, x):
    tagger = taggers["chunking"]
    assert single(tagger, x) == in_the_general_way(tagger, x)
    assert single(tagger, x) == in_the_general_way(tagger, x)  # also the second time


def test_strings_as_tokens_and_lists_of_features(data):
    X = [[word for word, _ in x] for x in data[0]]
    tagger = Tagger(template="words", l2=0.1, max_iter=30).fit(X, data[1])
    for x in X[:10]:
        assert tagger.model_.labels_of_sentence(x) == in_the_general_way(tagger, x)
    assert single(tagger, ["a", 3]) == in_the_general_way(tagger, ["a", 3])
    X = [[[f"w={word}", f"t={tag}"] for word, tag in x] for x in data[0]]
    tagger = Tagger(l2=0.1, max_iter=30).fit(X, data[1])
    for x in (*X[:10], [["w=the", "w=the", "no"], []]):
        assert tagger.model_.labels_of_sentence(x) == in_the_general_way(tagger, x)
    for x in ([{"t=N"}], [("t=N",)], [{"t": "N"}.keys()], [frozenset(["t=N"]), ["w=the"]]):
        assert tagger.model_.labels_of_sentence(x) == in_the_general_way(tagger, x)
    for x in ([["a", 3]], ["w=the"], [], "t=N", [["a"], None], [{3: "a"}], [{"a": None}]):
        assert tagger.model_.labels_of_sentence(x) is None
        assert single(tagger, x) == in_the_general_way(tagger, x)


scalars = st.one_of(words, st.booleans(), st.integers(-3, 3), st.floats(-2, 2), st.lists(words, max_size=2))
features = st.dictionaries(st.sampled_from(["w", "t", "n", "new"]), scalars | st.just(float("nan")), max_size=4)


@pytest.fixture(scope="module")
def feature_tagger(data):
    X = [
        [{"w": word, "t": tag, "n": len(word) / 4, "first": t == 0} for t, (word, tag) in enumerate(x)] for x in data[0]
    ]
    return Tagger(l2=0.1, max_iter=30).fit(X, data[1])


@settings(max_examples=60)
@given(x=st.lists(features | st.lists(words, max_size=2), min_size=1, max_size=5))
def test_dicts_of_features(feature_tagger, x):
    assert single(feature_tagger, x) == in_the_general_way(feature_tagger, x)
    if isinstance(single(feature_tagger, x), list):
        assert feature_tagger.model_.labels_of_sentence(x) is not None


def test_what_constraints_leave_no_labelling_for():
    tagger = Tagger(template="words", constraints={"starts": ["O"], "ends": ["B-NP"]})
    tagger.fit([["a", "d"], ["b", "c"]], [["O", "B-NP"]] * 2)
    assert tagger.predict_single(["a", "b", "c"])[-1] == "B-NP"
    with pytest.raises(InfeasibleError) as refused:
        tagger.predict_single(["a"])
    assert in_the_general_way(tagger, ["a"]) == (InfeasibleError, str(refused.value))


def test_a_tagger_that_was_used_can_be_copied_and_pickled(taggers, data):
    tagger = taggers["chunking"]
    expected = [tagger.predict_single(x) for x in data[0][:5]]
    for again in (copy.deepcopy(tagger), pickle.loads(pickle.dumps(tagger)), Tagger.load(tagger.to_bytes())):
        assert [again.predict_single(x) for x in data[0][:5]] == expected
    fewer = copy.deepcopy(tagger)
    fewer.fit(data[0][:3], data[1][:3])
    assert fewer.predict_single(data[0][0]) == in_the_general_way(fewer, data[0][0])


def test_threads_may_share_a_tagger(taggers, data):
    tagger = Tagger.load(taggers["chunking"].to_bytes())
    expected, found = taggers["chunking"].predict(data[0]), {}

    def work(number):
        found[number] = [tagger.predict_single(x) for x in data[0]]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found[number] == expected for number in range(4))


@pytest.mark.parametrize("name", KINDS)
def test_a_loaded_tagger_answers_as_the_tagger_does(taggers, name, data, tmp_path):
    path = tmp_path / "m.model"
    taggers[name].save(path)
    loaded = LoadedTagger.load(path, threads=2)
    assert loaded.predict(data[0]) == taggers[name].predict(data[0])
    assert loaded.predict_nbest(data[0][:4], 2) == taggers[name].predict_nbest(data[0][:4], 2)
    for one, other in zip(
        loaded.predict_numbers(data[0], confidence=True), taggers[name].predict_numbers(data[0], confidence=True),
        strict=True,
    ):  # fmt: skip
        assert np.array_equal(one, other)


def test_a_loaded_tagger_refuses_what_the_tagger_refuses(tmp_path):
    path = tmp_path / "no.model"
    path.write_bytes(b"not a model")
    with pytest.raises(ModelFileError) as ours:
        LoadedTagger.load(path)
    with pytest.raises(ModelFileError) as theirs:
        Tagger.load(path)
    assert str(ours.value) == str(theirs.value)
