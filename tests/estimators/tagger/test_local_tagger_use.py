"""A classifier as a tagger by scikit-learn's conventions, with real data, and with what makes no sense."""

import pickle

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, LinearSVC

from loglinear import read_columns
from loglinear.errors import DataError, OptionError
from loglinear.estimators.tagger import local
from loglinear.estimators.tagger.local import LocalTagger
from problems.classifiers import CLASSIFIERS, NAMES, Forgetful, features_of


@pytest.fixture(scope="module")
def features(data):
    return [features_of(sentence) for sentence in data[0]]


@pytest.fixture(scope="module")
def new_features(more_data):
    return [features_of(sentence) for sentence in more_data[0]]


# -- scikit-learn conventions ----------------------------------------------------------------------------------------


class MakeFeatures(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return [features_of(sentence) for sentence in X]


def test_grid_search_clone_and_pipeline(data, more_data):
    pipeline = Pipeline([("features", MakeFeatures()), ("tagger", LocalTagger(LogisticRegression()))])
    grid = {"tagger__classifier__C": [1e-6, 10.0], "tagger__joined": [False, True]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(*data)
    assert search.best_params_["tagger__classifier__C"] == 10.0
    assert search.score(*more_data) > 0.8
    copy = clone(search.best_estimator_.named_steps["tagger"])
    assert copy.get_params()["classifier__C"] == 10.0
    assert not hasattr(copy, "model_")


def test_fit_leaves_the_classifier_it_was_given_alone(data):
    classifier = LogisticRegression(C=3.0)
    tagger = LocalTagger(classifier, template="words")
    before = {name: value for name, value in tagger.get_params().items() if name != "classifier"}
    tagger.fit(*data)
    assert tagger.classifier is classifier
    assert not hasattr(classifier, "coef_")
    assert tagger.classifier_.C == 3.0
    assert before == {name: value for name, value in tagger.get_params().items() if name != "classifier"}


@pytest.mark.parametrize("classifier", CLASSIFIERS[:6], ids=NAMES[:6])
def test_pickle(data, more_data, classifier):
    tagger = LocalTagger(classifier, template="chunking", joined=True, min_count=3, constraints="bio").fit(*data)
    predicted = tagger.predict_marginals(more_data[0])
    stored = pickle.dumps(tagger)
    assert pickle.loads(stored).predict_marginals(more_data[0]) == predicted
    if tagger.model_.linear:
        assert len(stored) < 2.5 * len(pickle.dumps(tagger.classifier_))


def test_sequence_weights_repeat_sequences(data, features, new_features):
    weights = np.arange(len(features)) % 3 + 1.0
    repeated = [i for i, w in enumerate(weights) for _ in range(int(w))]
    classifier = LogisticRegression(tol=1e-10, max_iter=5000)
    weighted = LocalTagger(classifier).fit(features, data[1], sample_weight=weights)
    plain = LocalTagger(classifier).fit([features[i] for i in repeated], [data[1][i] for i in repeated])
    unweighted = LocalTagger(classifier).fit(features, data[1])
    wanted = plain.log_probability(new_features, plain.predict(new_features))
    assert weighted.log_probability(new_features, plain.predict(new_features)) == pytest.approx(wanted, abs=1e-3)
    assert unweighted.log_probability(new_features, plain.predict(new_features)) != pytest.approx(wanted, abs=1e-3)


def test_labels_of_a_file_and_class_weights_by_name(tmp_path, data, more_data):
    path = tmp_path / "train.txt"
    sentences = [zip(*both, strict=True) for both in zip(*data, strict=True)]
    path.write_text("\n".join("".join(f"{w} {t} {label}\n" for (w, t), label in rows) for rows in sentences))
    tagger = LocalTagger(LinearSVC(class_weight={"O": 2.0}, random_state=0), template="chunking").fit(
        read_columns(path)
    )
    apart = LocalTagger(LinearSVC(class_weight={"O": 2.0}, random_state=0), template="chunking").fit(*data)
    assert tagger.predict(more_data[0]) == apart.predict(more_data[0])
    assert tagger.score(*more_data) > 0.9
    assert tagger.score(*more_data, metric="f1") > 0.85


# -- mistakes --------------------------------------------------------------------------------------------------------


def test_partial_labels_are_refused_with_their_place(features):
    with pytest.raises(DataError, match=r"sequence 0, position 1 .*one label for each token"):
        LocalTagger(LinearSVC()).fit([[["a"], ["b"]]], [["A", None]])
    with pytest.raises(DataError, match="no sequence"):
        LocalTagger(LinearSVC()).fit([], [])
    with pytest.raises(DataError, match="no token has a feature"):
        LocalTagger(LinearSVC()).fit([[[], []]], [["A", "B"]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"classifier": LinearRegression()}, "needs predict_proba or decision_function"),
        ({"classifier": KNeighborsClassifier}, "give an object"),
        ({"classifier": "svm"}, "give an object"),
        ({"classifier": SVC(decision_function_shape="ovo")}, "'ovr'"),
        ({"classifier": Pipeline([("svm", SVC(decision_function_shape="ovo"))])}, "'ovr'"),
        ({"classifier": Forgetful(broken=True)}, "NaN"),
        ({"classifier": GaussianNB(), "dense": False}, "takes no sparse matrices"),
        ({"dense": "yes"}, "dense="),
        ({"joined": 2}, "joined="),
        ({"min_count": 0}, "min_count=0"),
        ({"threads": 0}, "threads=0"),
        ({"min_count": 10_000, "template": "U:%x[0,0]"}, "lower min_count"),
    ],
)
def test_options_that_make_no_sense(data, options, message):
    with pytest.raises((OptionError, DataError), match=message):
        LocalTagger(**{"classifier": LinearSVC(), "template": "words"} | options).fit(*data)


def test_sample_weight_wants_a_classifier_that_takes_it(data):
    with pytest.raises(OptionError, match="KNeighborsClassifier takes no sample_weight"):
        LocalTagger(KNeighborsClassifier(), template="words").fit(*data, sample_weight=np.ones(len(data[0])))


def test_dense_data_too_big_says_how_big(data, more_data, monkeypatch):
    monkeypatch.setattr(local, "MOST_BYTES", 50_000)
    with pytest.raises(OptionError, match=r"columns would take .* GB .*raise min_count"):
        LocalTagger(GaussianNB(), template="words").fit(*data)
    forced = LocalTagger(MultinomialNB(), template="words", dense=True)
    with pytest.raises(OptionError, match="raise min_count"):
        forced.fit(*data)
    monkeypatch.undo()
    sparse = LocalTagger(MultinomialNB(), template="words").fit(*data)
    assert forced.fit(*data).model_.dense
    assert not sparse.model_.dense
    assert forced.predict(more_data[0]) == sparse.predict(more_data[0])


def test_before_it_is_fitted_and_of_any_kind_there_is_no_model_file(data, tmp_path):
    tagger = LocalTagger(KNeighborsClassifier(3), template="words")
    with pytest.raises(NotFittedError, match="LocalTagger"):
        tagger.predict(data[0])
    tagger.fit(*data)
    with pytest.raises(OptionError, match=r"KNeighborsClassifier is an object .* saved are linear models: .*LinearSVC"):
        tagger.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
    with pytest.raises(AttributeError, match="classifier_"):
        _ = tagger.state_weights_


def test_chunking_on_real_data(corpora):
    train = read_columns(corpora / "conll2000" / "train.txt").select(np.arange(400))
    test = read_columns(corpora / "conll2000" / "test.txt").select(np.arange(300))
    tagger = LocalTagger(LinearSVC(C=0.1, random_state=0), template="chunking", constraints="bio").fit(train)
    assert tagger.score(test, metric="f1") > 0.86
