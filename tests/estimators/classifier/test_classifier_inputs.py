"""Texts, names, templates, functions and feature maps as examples; labels of all types; mistakes."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV, cross_val_score

from loglinear import Classifier, LoglinearError, Tagger, read_columns
from loglinear.errors import DataError, ModelFileError, OptionError
from loglinear.features.tables import PATTERNS

TEXTS = ["a good good film", "a bad film", "good", "bad, bad and bad", "a film, so so", "so so"]
LABELS = ["+", "-", "+", "-", "0", "0"]
WORDS = {"token_pattern": PATTERNS["words"]}


def saved_and_loaded(classifier, **functions):
    return Classifier.load(classifier.to_bytes(), **functions)


# -- what an example may be --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("words", WORDS),
        ("words:ngrams=2,lowercase=no", WORDS | {"ngram_range": (1, 2), "lowercase": False}),
        ("characters:ngrams=3,shortest=2", {"analyzer": "char_wb", "ngram_range": (2, 3)}),
        ("tokens:presence", {"tokenizer": str.split, "token_pattern": None, "binary": True}),
    ],
)
@pytest.mark.parametrize("as_what", [list, np.array, lambda x: np.array(x, dtype=object), pd.Series, tuple])
def test_texts_are_counted_as_scikit_learn_counts_them(text, options, as_what):
    rows = CountVectorizer(**options).fit(TEXTS)
    ours = Classifier(text=text).fit(as_what(TEXTS), LABELS)
    theirs = Classifier().fit(rows.transform(TEXTS), LABELS)
    assert ours.feature_names_in_.tolist() == rows.get_feature_names_out().tolist()
    np.testing.assert_array_equal(ours.coef_, theirs.coef_)
    np.testing.assert_array_equal(ours.predict_proba(as_what(TEXTS)), theirs.predict_proba(rows.transform(TEXTS)))
    np.testing.assert_array_equal(saved_and_loaded(ours).predict_proba(TEXTS), ours.predict_proba(TEXTS))


def test_rare_words_are_left_out_and_unknown_ones_passed_over():
    classifier = Classifier(min_count=2).fit(TEXTS, LABELS)
    assert classifier.feature_names_in_.tolist() == [",", "a", "bad", "film", "good", "so"]
    np.testing.assert_array_equal(
        classifier.decision_function(["good never heard"]), classifier.decision_function(["good"])
    )
    np.testing.assert_array_equal(classifier.decision_function([""])[0], classifier.intercept_)


NAMED = [{"word": "Rome", "long": False}, ["title"], {"word": "is", "length": 2.5}, {"near": {"1": "x"}}, set(), []]
COUNTRIES = ["place", "place", "other", "other", "other", "place"]


def test_names_are_python_features():
    classifier = Classifier().fit(NAMED, COUNTRIES)
    names = classifier.feature_names_in_.tolist()
    assert names == ["word:Rome", "long", "title", "word:is", "length", "near:1:x"]
    dense = np.zeros((6, 6))
    dense[0, 0] = dense[1, 2] = dense[2, 3] = dense[3, 5] = 1.0
    dense[2, 4] = 2.5
    np.testing.assert_allclose(classifier.coef_, Classifier().fit(sp.csr_matrix(dense), COUNTRIES).coef_)
    assert saved_and_loaded(classifier).predict(NAMED).tolist() == classifier.predict(NAMED).tolist()


def test_a_function_makes_the_features():
    def words(x):
        return {"first": x["text"].split()[0], "n": len(x["text"])}

    examples = [{"text": text} for text in TEXTS]
    by_function = Classifier(features=words).fit(examples, LABELS)
    by_hand = Classifier().fit([words(x) for x in examples], LABELS)
    np.testing.assert_array_equal(by_function.coef_, by_hand.coef_)
    data = by_function.to_bytes()
    with pytest.raises(OptionError, match="give it again, as in features="):
        Classifier.load(data)
    again = Classifier.load(data, features=words)
    np.testing.assert_array_equal(again.predict_proba(examples), by_function.predict_proba(examples))
    with pytest.raises(DataError, match=r"example 1 \(from 0\): features raised KeyError: 'text'"):
        by_function.predict([{"text": "a"}, {}])


def test_a_template_makes_a_bag_of_attributes():
    sentences = [[("the", "D"), ("dog", "N")], [("runs", "V")], [("the", "D"), ("the", "D"), ("cat", "N")]]
    classifier = Classifier(template="U:%x[0,0]\nU:%x[-1,1]/%x[0,1]").fit(sentences, ["np", "vp", "np"])
    expected = {"U:the", "U:dog", "U:runs", "U:cat", "U:_B-1/D", "U:D/N", "U:_B-1/V", "U:D/D"}
    assert set(classifier.feature_names_in_) == expected
    twice = classifier.explain(sentences[2])["np"]["U:the"]
    assert twice == pytest.approx(2 * classifier.explain(sentences[0])["np"]["U:the"])
    again = saved_and_loaded(classifier)
    np.testing.assert_array_equal(again.predict_proba(sentences), classifier.predict_proba(sentences))
    assert "U:%x[-1,1]/%x[0,1]" in str(again.template)


def test_one_row_is_an_example_too(tmp_path):
    frame = pd.DataFrame({"colour": ["red", "blue", "red", "green"], "shape": ["o", "x", "x", "o"]})
    labels = [1, 2, 1, 2]
    by_frame = Classifier(template="U:c=%x[0,0]\nU:s=%x[0,1]").fit(frame, labels)
    by_tuples = Classifier(template="U:c=%x[0,0]\nU:s=%x[0,1]").fit([tuple(row) for row in frame.values], labels)
    np.testing.assert_array_equal(by_frame.coef_, by_tuples.coef_)
    file = tmp_path / "rows.txt"
    file.write_text("\n\n".join(" ".join(row) for row in frame.values.tolist()) + "\n")
    by_file = Classifier(template="U:c=%x[0,0]\nU:s=%x[0,1]").fit(read_columns(file), labels)
    np.testing.assert_array_equal(by_file.coef_, by_frame.coef_)


def test_data_frames_keep_their_names():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 3)), columns=["a", "b", "c"])
    classifier = Classifier().fit(frame, frame["a"] > 0)
    assert classifier.feature_names_in_.tolist() == ["a", "b", "c"]
    again = saved_and_loaded(classifier)
    assert again.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame[["b", "a", "c"]])
    classifier.fit(frame.values, frame["a"] > 0)
    assert not hasattr(classifier, "feature_names_in_")


# -- feature maps ------------------------------------------------------------------------------------------------------


def shared(x, y):
    return [f"{x} {y}", f"vowel {y in 'ae'}"]


def test_candidates_get_all_of_the_probability():
    examples, labels = ["p", "q", "p", "r"], ["a", "b", "a", "e"]

    def candidates(x):
        return ["a", "b"] if x == "p" else ["b", "e", "d"]

    classifier = Classifier(feature_map=shared, candidates=candidates).fit(examples, labels)
    assert classifier.classes_.tolist() == ["a", "b", "d", "e"]
    p = classifier.predict_proba(["p", "r"])
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert not p[0, 2:].any() and p[1, 0] == 0.0 and (p[0, :2] > 0).all()
    assert [label for label, _ in classifier.predict_nbest(["p"])[0]] == ["a", "b"]
    assert classifier.explain("p")["d"] == {}
    with pytest.raises(OptionError, match="give it again, as in feature_map="):
        Classifier.load(classifier.to_bytes())
    again = saved_and_loaded(classifier, feature_map=shared, candidates=candidates)
    np.testing.assert_array_equal(again.predict_proba(examples), classifier.predict_proba(examples))
    with pytest.raises(DataError, match=r"example 1 \(from 0\): its label 'e' is not among its candidates"):
        Classifier(feature_map=shared, candidates=lambda x: ["a", "b"]).fit(["p", "p"], ["a", "e"])
    with pytest.raises(DataError, match="it has no candidates"):
        Classifier(feature_map=shared, candidates=lambda x: []).fit(["p", "p"], ["a", "e"])
    with pytest.raises(DataError, match="candidate 'z' is not a label of the training data"):
        saved_and_loaded(classifier, feature_map=shared, candidates=lambda x: ["z"]).predict(["p"])


def test_two_labels_of_a_feature_map():
    classifier = Classifier(feature_map=shared).fit(["p", "q"], ["a", "b"])
    assert classifier.decision_function(["p"]).shape == (1,)
    assert classifier.predict(["p", "q"]).tolist() == ["a", "b"]


# -- labels, and scikit-learn's tools ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels",
    [
        ["x", "y", "x", "y"],
        [3, -1, 3, 7],
        [True, False, True, True],
        [1.0, 2.0, 1.0, 2.0],
        [np.int8(1), np.int8(2)] * 2,
    ],
)
def test_labels_keep_their_type(labels):
    X = [[0.0], [1.0], [0.2], [2.0]]
    classifier = Classifier().fit(X, labels)
    again = saved_and_loaded(classifier)
    for each in (classifier, again):
        assert type(each.predict(X).tolist()[0]) is type(np.asarray(labels).tolist()[0])
    np.testing.assert_array_equal(again.predict(X), classifier.predict(X))


def test_it_can_be_searched_over():
    X, y = TEXTS * 4, LABELS * 4
    search = GridSearchCV(Classifier(), {"l2": [0.1, 10.0], "text": ["words", "characters:ngrams=2"]}, cv=3).fit(X, y)
    assert search.best_score_ == 1.0
    assert cross_val_score(Classifier(), X, y, cv=3).shape == (3,)


# -- mistakes ----------------------------------------------------------------------------------------------------------

NUMBERS = [[0.0, 1.0], [1.0, 0.0], [0.5, 2.0]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"criterion": "memm"}, "'memm' trains no classifier: it trains chains only; there are"),
        ({"criterion": "hmm"}, "trains no classifier: it trains chains only"),
        ({"criterion": "nonsense"}, "'nonsense' is not known; there are: naive-bayes, arow, cll"),
        ({"cost": "hamming:2"}, "takes no cost"),
        ({"base": "naive-bayes"}, "goes with criterion='m-estimation'"),
        ({"criterion": "m-estimation", "base": "hmm"}, "is not known for flat labels"),
        ({"criterion": "m-estimation:rounds=2"}, "rounds is for chains"),
        ({"criterion": "m-estimation", "base": 3}, "needs the methods"),
        ({"criterion": "perceptron", "l2": 1.0}, "has no penalty"),
        ({"criterion": "perceptron", "optimizer": "lbfgs"}, "trained by online"),
        ({"l2": 1.0, "variance": 1.0}, "say the same thing twice"),
        ({"l2": -1.0}, "l2=-1.0 must be at least 0"),
        ({"multiclass": "pairs"}, "is not one of direct, one-versus-all"),
        ({"bias": "yes"}, "is not one of free, penalised, none"),
        ({"bias_scale": 0.0}, "must be greater than 0"),
        ({"class_weight": "even"}, "is not 'balanced'"),
        ({"class_weight": {"z": 1.0}}, "not in class_weight"),
        ({"text": "lines"}, "there are: words, tokens, characters"),
        ({"text": "words:ngrams=2,shortest=3"}, "longer than the longest"),
        ({"text": "words:stem"}, "has no option 'stem'"),
        ({"features": "f"}, "features='f' is not a function"),
        ({"features": len, "feature_map": shared}, "both say what the features are"),
        ({"candidates": len}, "goes with feature_map"),
        ({"feature_map": shared, "bias": "none"}, "bias is not for a feature_map"),
        ({"feature_map": shared, "multiclass": "one-versus-all"}, "use 'direct'"),
        ({"feature_map": shared, "criterion": "m-estimation"}, "needs expected counts"),
        ({"min_count": 2}, "columns of numbers"),
        ({"criterion": "max-margin", "cost": [[0, 1], [1, 0]]}, r"has the shape \[3, 3\]"),
        ({"criterion": "risk", "cost": {("p", "q"): 2}, "multiclass": "one-versus-all"}, "over pairs of labels"),
        ({"threads": 0}, "threads=0 must be at least 1"),
    ],
)
def test_options_that_make_no_sense(options, message):
    with pytest.raises(ValueError, match=message):
        Classifier(**options).fit(NUMBERS, ["p", "q", "r"])


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (NUMBERS, ["p", "q"], "inconsistent numbers of samples"),
        (NUMBERS, ["p", "p", "p"], "one class alone"),
        (NUMBERS, None, "y is None"),
        (NUMBERS, [0.5, 1.5, 2.5], "Unknown label type"),
        (["a", "b"], ["p"], "X has 2 examples, but y 1 label"),
        (["ab", 3], ["p", "q"], r"example 1 \(from 0\) is 3, not a string"),
        (["", " "], ["p", "q"], "nothing to count"),
        (["a", "b"], ["p", None], r"the label of example 1 \(from 0\) is None"),
        ([[1e200], [1.0]], ["p", "q"], "numbers up to 1e"),
        ([["a"], [3]], ["p", "q"], r"example 1 \(from 0\): a list of features holds strings"),
        ([{"a": float("nan")}, {}], ["p", "q"], "values are finite numbers"),
        ([{"a": 1}, "b"], ["p", "q"], r"example 1 \(from 0\): the features of one example"),
        ([[], {}], ["p", "q"], "no features are left"),
        ("text", ["p"], "X is a str, not a list"),
        ([[np.nan], [1.0]], [1, 2], "NaN"),
    ],
)
def test_data_that_cannot_be_learnt_from(X, y, message):
    with pytest.raises(ValueError, match=message):
        Classifier().fit(X, y)


def test_the_wrong_kind_of_model(tmp_path):
    classifier, path = Classifier().fit(NUMBERS, [1, 2, 1]), tmp_path / "c.model"
    classifier.save(path)
    with pytest.raises(ModelFileError, match="of kind 'classifier'"):
        Tagger.load(path)
    with pytest.raises(OptionError, match="was trained without features"):
        Classifier.load(path, features=len)
    with pytest.raises(ValueError, match="features"):
        classifier.predict([[1.0]])
    with pytest.raises(LoglinearError, match="have no weights in common"):
        Classifier(feature_map=shared).fit(["p", "q"], ["a", "b"], init=classifier)


def test_costs_by_file_and_pair(tmp_path):
    file = Path(tmp_path / "cost.json")
    file.write_text(json.dumps({"1": {"2": 5.0}}))
    X, y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 3
    by_file = Classifier("softmax-margin", cost=str(file)).fit(X, y)
    by_pair = Classifier("softmax-margin", cost={(1, 2): 5.0}).fit(X, y)
    by_matrix = Classifier("softmax-margin", cost=[[0, 1, 1], [1, 0, 5], [1, 1, 0]]).fit(X, y)
    np.testing.assert_array_equal(by_file.coef_, by_pair.coef_)
    np.testing.assert_array_equal(by_file.coef_, by_matrix.coef_)
    assert not np.array_equal(by_file.coef_, Classifier("softmax-margin").fit(X, y).coef_)


def test_a_string_is_no_list_of_documents():
    with pytest.raises(DataError, match="X is the string 'good film'"):
        Classifier().fit(TEXTS, LABELS).predict("good film")


def test_training_that_gets_nowhere_says_so():
    with pytest.warns(ConvergenceWarning, match="are to be scaled"):
        Classifier("max-margin", optimizer="lbfgs").fit([[1e90], [-1e90], [2e90]], [0, 1, 0])
