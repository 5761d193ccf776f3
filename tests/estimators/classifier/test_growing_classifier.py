"""Classifiers that grow: against scikit-learn's own streams, in every kind of input, and what is refused."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.linear_model import SGDClassifier
from sklearn.utils import estimator_checks

from loglinear import Classifier
from loglinear.errors import DataError, OptionError

RNG = np.random.default_rng(0)
X, y = load_iris(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
CALLS = [RNG.permutation(len(X))[:40] for _ in range(3)]


def plain_stream(calls, seed, criterion, step=0.1):
    """Steps on rows with a bias, the weights of a label 0 before it is met: last weights, and their mean."""
    labels = np.unique(np.concatenate([y[rows] for rows in calls]))
    W = np.zeros((4 + 1, len(labels)))
    total, n = np.zeros_like(W), 0
    for call, rows in enumerate(calls, start=1):
        met = np.unique(np.concatenate([y[each] for each in calls[:call]]))
        for i in rows[np.random.default_rng([seed, call]).permutation(len(rows))]:
            x, known = np.append(X[i], 1.0), np.searchsorted(labels, met)
            own = np.searchsorted(labels, y[i])
            scores = x @ W[:, known]
            if criterion == "perceptron":
                guess = known[int(np.argmax(scores))]
                W[:, own] += x
                W[:, guess] -= x
            else:
                p = np.exp(scores - scores.max())
                W[:, known] -= step * np.outer(x, p / p.sum())
                W[:, own] += step * x
            total, n = total + W, n + 1
    return labels, W, total / n


@pytest.mark.parametrize("criterion", ["perceptron", "cll"])
@pytest.mark.parametrize("grows", [False, True])
def test_a_stream_is_that_of_plain_steps(criterion, grows):
    order = np.concatenate(CALLS)
    calls = [order[y[order] < 2][:20], *CALLS[1:]] if grows else CALLS  # two labels, then three
    labels, last, mean = plain_stream(calls, 0, criterion)
    optimizer = None if criterion == "perceptron" else "sgd:step=0.1,decay=0"
    stream = Classifier(criterion, optimizer=optimizer, l2=None if optimizer is None else 0.0)
    for rows in calls:
        stream = Classifier.load(stream.partial_fit(X[rows], y[rows]).to_bytes())
    np.testing.assert_array_equal(stream.classes_, labels)
    wanted = mean if optimizer is None else last
    np.testing.assert_allclose(stream.coef_, wanted[:4].T, atol=1e-10)
    np.testing.assert_allclose(stream.intercept_, wanted[4], atol=1e-10)


def test_it_learns_as_scikit_learns_streams_do():
    ours, theirs = Classifier(), SGDClassifier(loss="log_loss", random_state=0)
    for rows in CALLS * 3:
        ours.partial_fit(X[rows], y[rows])
        theirs.partial_fit(X[rows], y[rows], classes=np.unique(y))
    assert ours.score(X, y) >= theirs.score(X, y) - 0.03


DOCUMENTS = (["red blue", "blue blue", "green red"], ["a", "b", "a"]), (["white red", "black blue"], ["c", "b"])
NAMES = ([{"x": 1.0, "w": "a"}, {"x": 2.0}], ["a", "b"]), ([{"z": 1.0, "w": "b"}, {"x": 1.0}], ["c", "a"])
ROWS = ([("a", "b"), ("c", "b")], [0, 1]), ([("d", "b"), ("a", "e")], [2, 1])


@pytest.mark.parametrize(("calls", "options"), [
    (DOCUMENTS, {}), (NAMES, {}), (ROWS, {"template": "U0:%x[0,0]\nU1:%x[0,1]\nU2:%x[0,0]/%x[0,1]"}),
    (NAMES, {"criterion": "mira"}), (DOCUMENTS, {"optimizer": "adagrad", "l1": 0.01}), (NAMES, {"bias": "none"}),
])  # fmt: skip
def test_columns_and_labels_grow(calls, options):
    (first, own), (second, more) = calls
    model = Classifier(**options).partial_fit(first, own)
    before = dict(zip(model.feature_names_in_.tolist(), model.coef_.T.tolist(), strict=True))
    again = pickle.loads(pickle.dumps(model))
    model.partial_fit(second, more)
    assert set(before) < set(model.feature_names_in_.tolist()) and len(model.classes_) == 3
    assert again.partial_fit(second, more).to_bytes() == model.to_bytes()
    loaded = Classifier.load(model.to_bytes())
    np.testing.assert_array_equal(loaded.predict(first), model.predict(first))
    assert loaded.partial_fit(first, own).to_bytes() == model.partial_fit(first, own).to_bytes()


def test_old_columns_keep_their_weights():
    (first, own), (second, more) = NAMES
    model = Classifier(l2=0.1).fit(first, own)
    scores = model.decision_function(first)
    model.set_params(optimizer="sgd:step=1e-300", l2=0.0).partial_fit(second, more)
    grown = model.decision_function(first)
    np.testing.assert_allclose(grown[:, 1] - grown[:, 0], scores, atol=1e-12)
    np.testing.assert_allclose(grown[:, 2], 0.0, atol=1e-250)


def test_sparse_rows_and_one_label_at_first():
    rows = sp.csr_matrix(X)
    model = Classifier("perceptron").partial_fit(rows[:20], y[:20], classes=[0, 1])
    assert model.classes_.tolist() == [0, 1]
    assert model.partial_fit(rows, y).classes_.tolist() == [0, 1, 2]
    with pytest.raises(DataError, match="partial_fit takes those to come as classes"):
        Classifier("perceptron").partial_fit(X[:20], y[:20])


@pytest.mark.parametrize("check", ["check_estimators_partial_fit_n_features", "check_n_features_in_after_fitting"])
def test_what_scikit_learn_asks_of_streams(check):
    getattr(estimator_checks, check)("Classifier", Classifier())


@pytest.mark.parametrize(("options", "message"), [
    ({"optimizer": "lbfgs"}, "needs all data at once"), ({"criterion": "naive-bayes"}, "all data at once"),
    ({"criterion": "m-estimation"}, "all data at once"), ({"kernel": "rbf"}, "kernel"),
    ({"multiclass": "one-versus-all"}, "all labels at once"), ({"class_weight": "balanced"}, "one call of partial_fit"),
])  # fmt: skip
def test_what_cannot_grow(options, message):
    with pytest.raises(OptionError, match=message):
        Classifier(**options).partial_fit(abs(X), y)


def test_other_data_is_refused():
    model = Classifier("perceptron").partial_fit(X, y)
    with pytest.raises(OptionError, match="trained on numbers, and X is of documents"):
        model.partial_fit(["a b"], ["c"])
    with pytest.raises(DataError, match="labels are of one kind"):
        model.partial_fit(X, y.astype(str))
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :2], y)


def test_weights_of_labels_as_text():
    by_text = Classifier(class_weight="0=2,2=0.5").fit(X, y)
    np.testing.assert_array_equal(by_text.coef_, Classifier(class_weight={0: 2.0, 2: 0.5}).fit(X, y).coef_)
    assert Classifier.load(by_text.to_bytes()).class_weight == "0=2,2=0.5"
