"""Classes of whole inputs by marginal likelihood."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score

import loglinear
from loglinear import HMM, InputClassifier, Tagger, model_file
from loglinear.data import Column, Columns
from loglinear.data.corpora.generator import generate_rows
from loglinear.errors import DataError, ModelFileError, OptionError


def questions(n, seed):
    """Words, classes and tags of generated sentences without the mark at their end."""
    rows = [sentence for sentence in generate_rows(n, seed, "pos") if len(sentence) > 2]
    classes = ["question" if sentence[-1][0] == "?" else "statement" for sentence in rows]
    return [[word for word, _ in s[:-1]] for s in rows], classes, [[tag for _, tag in s[:-1]] for s in rows]


def two_languages(n, seed):
    """Two classes that make their words of the same letters, in another order; labels say consonant or vowel."""
    rng = np.random.default_rng(seed)
    X, classes, labels = [], [], []
    for _ in range(n):
        language = str(rng.choice(["even", "odd"]))
        letters, kinds = [], []
        for t in range(int(rng.integers(4, 12))):
            vowel = t % 2 == 1 if language == "even" else rng.random() < 0.5
            letters.append(str(rng.choice(list("aeiou" if vowel else "kmpst"))))
            kinds.append("V" if vowel else "C")
        X.append(letters)
        classes.append(language)
        labels.append(kinds)
    return X, classes, labels


TEMPLATE = "U0:%x[0,0]\nU1:%x[-1,0]\nB\n"
TAGGERS = {
    "hmm": Tagger(criterion="hmm"),
    "hmm-2": Tagger(criterion="hmm", order=2),
    "m-estimation": Tagger(criterion="m-estimation", template=TEMPLATE, variance=1),
}


@pytest.mark.parametrize("name", TAGGERS)
def test_questions_are_told_from_statements_without_their_mark(name):
    X, y, labels = questions(1000, 0)
    X_test, y_test, _ = questions(1000, 1)
    classifier = InputClassifier(TAGGERS[name]).fit(X, y, labels)
    predicted = classifier.predict(X_test)
    asked = np.array(y_test) == "question"
    assert classifier.score(X_test, y_test) > np.mean(~asked) + 0.015
    assert np.mean(predicted[asked] == "question") > 0.5 and np.mean(predicted[~asked] == "statement") > 0.98


def test_a_small_class_does_not_win_what_nobody_knows():
    """60 questions know far fewer words than 940 statements: if unknown words were one event, they would win all."""
    X, y, labels = questions(1000, 0)
    X_test, y_test, _ = questions(200, 1)
    classifier = InputClassifier().fit(X, y, labels)
    assert classifier.shares_[0][0] > 2 * classifier.shares_[1][0] > 2
    fair = classifier.score(X_test, y_test)
    classifier.shares_ = [[1], [1]]
    assert classifier.score(X_test, y_test) < 0.2 < 0.9 < fair


@pytest.mark.parametrize("name", TAGGERS)
def test_every_class_gives_the_same_values_a_probability_of_one(name):
    """Over all values seen and one that is new, a column's probabilities add up, whatever the class knows of them."""
    X = [["a", "b"], ["a", "c"], ["b", "a"], ["x", "y", "x"], ["x", "z"], ["z", "w", "w", "v"]]
    y, labels = ["p", "p", "p", "q", "q", "q"], [["L"] * len(x) for x in X]
    classifier = InputClassifier(TAGGERS[name], prior="uniform").fit(X, y, labels)
    everything = [[value] for value in [*sorted({v for x in X for v in x}), "new"]]
    joint = classifier.predict_joint_log_proba(everything)
    for c, tagger in enumerate(classifier.taggers_):
        alone = [[value] for value in tagger.model_.base.vocabulary.values[0]]
        assert len(alone) < len(everything)
        expected = np.logaddexp.reduce(tagger.log_prob(alone)) + np.log(0.5)
        assert np.logaddexp.reduce(joint[:, c]) == pytest.approx(expected)


def test_labels_see_an_order_that_values_alone_do_not():
    X, y, labels = two_languages(200, 0)
    X_test, y_test, _ = two_languages(200, 1)
    with_labels, without = (InputClassifier().fit(X, y, given).score(X_test, y_test) for given in (labels, None))
    seen = InputClassifier(Tagger(criterion="m-estimation", template="U0:%x[-1,0]/%x[0,0]\nB", variance=10)).fit(X, y)
    assert with_labels > 0.9 > 0.75 > without
    assert seen.score(X_test, y_test) > without + 0.1  # features that see two positions make up for it


@pytest.mark.parametrize("finder", [Tagger(criterion="hmm:labels=2,smoothing=0.1"), HMM(labels=2, smoothing=0.1)])
def test_labels_that_are_found_see_it_too(finder):
    X, y, labels = two_languages(200, 0)
    X_test, y_test, _ = two_languages(200, 1)
    found = InputClassifier(finder).fit(X, y)
    assert found.score(X_test, y_test) > 0.9 and [tagger.classes_ for tagger in found.taggers_] == [["0", "1"]] * 2
    corpus = InputClassifier(finder).fit(Columns.from_rows(X), y)
    np.testing.assert_array_equal(corpus.predict_proba(X_test), found.predict_proba(X_test))
    with pytest.raises(OptionError, match=r"but the data has some \(C, V\)"):
        InputClassifier(finder).fit(X, y, labels)


def test_a_hidden_markov_model_is_a_tagger():
    X, y, labels = two_languages(60, 0)
    weights = np.linspace(0.5, 2.0, len(X))
    for given in (labels, None):
        own, tagger = (
            InputClassifier(each).fit(X, y, given, sample_weight=weights)
            for each in (HMM(order=2, smoothing=0.1), Tagger(criterion="hmm:smoothing=0.1", order=2))
        )
        np.testing.assert_array_equal(own.predict_proba(X), tagger.predict_proba(X))
        assert own.predict([]).shape == (0,) and own.predict_proba([]).shape == (0, 2)
        again = pickle.loads(pickle.dumps(own))
        np.testing.assert_array_equal(again.predict_proba(X), own.predict_proba(X))
    assert clone(own).get_params()["tagger__smoothing"] == 0.1


def test_probabilities_are_those_of_bayes_rule():
    X, y, labels = two_languages(80, 0)
    classifier = InputClassifier().fit(X, y, labels)
    joint = classifier.predict_joint_log_proba(X)
    for c, name in enumerate(classifier.classes_):
        assert classifier.log_prior_[c] == pytest.approx(np.log(np.mean(np.array(y) == name)))
        own = classifier.taggers_[c].log_prob(X) + classifier.log_prior_[c]
        assert (joint[:, c] <= own + 1e-12).all()  # shared out, never more
    np.testing.assert_allclose(classifier.predict_proba(X).sum(axis=1), 1.0)
    np.testing.assert_allclose(np.diff(classifier.predict_log_proba(X)), np.diff(joint))
    assert (classifier.predict(X) == classifier.classes_[joint.argmax(axis=1)]).all()


def test_a_weight_of_two_counts_twice_in_the_prior():
    X, y, labels = two_languages(40, 0)
    weights = np.where(np.array(y) == "even", 2.0, 1.0)
    n = np.array([np.sum(np.array(y) == name) for name in ("even", "odd")]) * [2, 1]
    classifier = InputClassifier().fit(X, y, labels, sample_weight=weights)
    np.testing.assert_allclose(np.exp(classifier.log_prior_), n / n.sum())
    with pytest.raises(DataError, match="'odd' all have weight zero"):
        InputClassifier().fit(X, y, labels, sample_weight=weights - 1.0)


def test_it_keeps_to_the_conventions_of_scikit_learn():
    X, y, _ = two_languages(60, 0)
    classifier = InputClassifier(Tagger(criterion="hmm"))
    with pytest.raises(NotFittedError):
        classifier.predict(X)
    assert clone(classifier).get_params()["tagger__criterion"] == "hmm"
    assert len(cross_val_score(classifier, X, y, cv=3)) == 3
    search = GridSearchCV(classifier, {"tagger__criterion": ["hmm", "hmm:smoothing=0.1"]}, cv=2).fit(X, y)
    assert search.best_estimator_.classes_.tolist() == ["even", "odd"]
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict_proba(X), search.predict_proba(X))


def test_a_corpus_brings_its_own_labels():
    X, y, labels = two_languages(60, 0)
    corpus = Columns.from_rows(X)
    corpus.columns.append(Column.from_strings(label for one in labels for label in one))
    by_corpus, by_lists = InputClassifier().fit(corpus, y), InputClassifier().fit(X, y, labels)
    np.testing.assert_allclose(by_corpus.predict_proba(corpus), by_lists.predict_proba(X))
    np.testing.assert_allclose(by_corpus.predict_proba(X), by_lists.predict_proba(X))


@pytest.mark.parametrize(
    ("classifier", "change", "error", "reason"),
    [
        (InputClassifier(Tagger(template="words")), {}, OptionError, "conditional model"),
        (InputClassifier("hmm"), {}, OptionError, "is neither a Tagger nor an HMM"),
        (InputClassifier(prior="flat"), {}, OptionError, "prior='flat' is not one of empirical, uniform"),
        (InputClassifier(), {"y": ["a"]}, DataError, "X has 20 sequences, but y 1 class"),
        (InputClassifier(), {"labels": [["C"]]}, DataError, "labels for 1"),
    ],
)
def test_what_makes_no_sense_is_refused(classifier, change, error, reason):
    X, y, labels = two_languages(20, 0)
    with pytest.raises(error, match=reason):
        classifier.fit(X, **{"y": y, "labels": labels, **change})


@pytest.mark.parametrize("name", [*TAGGERS, "HMM"])
def test_files_keep_the_models_of_all_classes(name, tmp_path):
    X, y, labels = two_languages(60, 0)
    classifier = InputClassifier(TAGGERS.get(name, HMM(smoothing=0.5)), "uniform").fit(X, y, labels)
    classifier.save(tmp_path / "m.model")
    for loaded in (InputClassifier.load(tmp_path / "m.model"), loglinear.load(tmp_path / "m.model")):
        np.testing.assert_array_equal(loaded.predict_joint_log_proba(X), classifier.predict_joint_log_proba(X))
        assert loaded.to_bytes() == classifier.to_bytes() and loaded.prior == "uniform"
        assert loaded.classes_.tolist() == ["even", "odd"] and type(loaded.tagger) is type(classifier.taggers_[0])
        assert clone(loaded).fit(X, y, labels).predict(X).tolist() == classifier.predict(X).tolist()


def test_damaged_files_are_refused():
    X, y, labels = two_languages(30, 0)
    header, arrays = InputClassifier().fit(X, y, labels)._storage()
    bad = [
        ({"prior": "none"}, {}),
        ({"shares": [[1]]}, {}),
        ({"shares": [[1], [0]]}, {}),
        ({"shares": 3}, {}),
        ({"members": {"0": header["members"]["0"]}}, {}),
        ({"hmm": "yes"}, {}),
        ({"label_key": 3}, {}),
        ({}, {"log_prior": np.log([0.5, 0.6])}),
    ]
    for changed, replaced in bad:
        with pytest.raises(ModelFileError, match="does not fit together"):
            InputClassifier.load(model_file.dumps(InputClassifier.kind, {**header, **changed}, {**arrays, **replaced}))


def test_criteria_without_a_density_are_refused_before_training():
    with pytest.raises(OptionError, match="criterion='cll' is of a conditional model"):
        InputClassifier(Tagger(template="words")).fit([["a"]], ["x"])
