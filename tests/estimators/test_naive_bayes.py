"""NaiveBayes as an estimator: scikit-learn's conventions and its MultinomialNB, files, mistakes."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import MultinomialNB
from sklearn.utils.estimator_checks import check_estimator

from loglinear import NaiveBayes, model_file
from loglinear.errors import DataError, ModelFileError, OptionError
from problems.topics import text_set


def test_scikit_learns_checks_pass() -> None:
    results = check_estimator(NaiveBayes(), on_skip=None)
    assert {result["status"] for result in results} <= {"passed", "skipped"} and len(results) > 40


def objective(log_theta: Any, log_prior: Any, x: Any, y: Any, smoothing: float) -> float:
    """log p(data) + log p(theta), what both maximise."""
    joint = np.asarray(x @ log_theta.T) + log_prior
    return float(joint[np.arange(len(y)), y].sum() + smoothing * log_theta.sum())


@pytest.mark.parametrize("name", ["digits", "wine", "breast cancer", "text"])
@pytest.mark.parametrize("smoothing", [0.1, 1.0])
def test_the_optimum_is_that_of_multinomial_nb(name: str, smoothing: float) -> None:
    loaders = {"digits": load_digits, "wine": load_wine, "breast cancer": load_breast_cancer}
    x, y = text_set() if name == "text" else loaders[name](return_X_y=True)
    ours, theirs = NaiveBayes(smoothing=smoothing).fit(x, y), MultinomialNB(alpha=smoothing).fit(x, y)
    one = objective(ours.feature_log_prob_, ours.class_log_prior_, x, y, smoothing)
    other = objective(theirs.feature_log_prob_, theirs.class_log_prior_, x, y, smoothing)
    assert one == pytest.approx(other, abs=1e-4)
    np.testing.assert_array_equal(ours.predict(x), theirs.predict(x))
    np.testing.assert_allclose(ours.predict_proba(x), theirs.predict_proba(x), atol=1e-9)


def test_sparse_rows_are_not_made_dense() -> None:
    columns = np.random.default_rng(0).integers(100_000, size=20_000)
    x = sparse.csr_matrix((np.ones(20_000), columns, np.arange(20_001)), shape=(20_000, 100_000))  # 16 GB as an array
    y = np.arange(20_000) % 2
    model = NaiveBayes().fit(x, y)
    assert model.predict(x).shape == (20_000,)


def test_labels_and_columns_keep_their_names(tmp_path: Any) -> None:
    frame = pd.DataFrame({"goal": [3, 2, 0, 0], "vote": [0, 0, 2, 4], "the": [5, 4, 6, 5]})
    for labels in (["sport", "sport", "news", "news"], [3, 3, 7, 7], [True, True, False, False], [0.5, 0.5, 1.5, 1.5]):
        try:
            model = NaiveBayes(smoothing=0.5).fit(frame, labels)
        except ValueError as error:
            assert "continuous" in str(error) and labels[0] == 0.5
            continue
        model.save(tmp_path / "m.model")
        loaded = NaiveBayes.load(tmp_path / "m.model")
        assert loaded.predict(frame).tolist() == labels == model.predict(frame).tolist()
        assert loaded.classes_.dtype.kind == model.classes_.dtype.kind
        assert loaded.feature_names_in_.tolist() == ["goal", "vote", "the"] and loaded.smoothing == 0.5
        np.testing.assert_array_equal(loaded.predict_log_proba(frame), model.predict_log_proba(frame))
        assert NaiveBayes.load(model.to_bytes()).to_bytes() == model.to_bytes()
        assert pickle.loads(pickle.dumps(model)).predict(frame).tolist() == labels


def test_draws_are_of_the_model() -> None:
    x, y = text_set()
    model = NaiveBayes().fit(x, y)
    rows, labels = model.sample(400, seed=1)
    assert sparse.issparse(rows) and rows.shape == (400, x.shape[1])
    assert (model.predict(rows) == labels).mean() > 0.9
    again, _ = model.sample(400, seed=1)
    assert (rows != again).nnz == 0


def test_it_can_be_tuned() -> None:
    x, y = load_digits(return_X_y=True)
    search = GridSearchCV(NaiveBayes(), {"smoothing": [0.01, 1.0, 1e6]}, cv=3).fit(x, y)
    assert search.best_score_ > 0.85 and search.best_params_["smoothing"] < 1e6


def test_mistakes_are_said() -> None:
    x, y = np.ones((4, 2)), [0, 0, 1, 1]
    for smoothing in (0, -1.0, "much", None):
        with pytest.raises(OptionError, match="smoothing"):
            NaiveBayes(smoothing=smoothing).fit(x, y)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="a count of -1"):
        NaiveBayes().fit(-x, y)
    with pytest.raises(OptionError, match="n_samples"):
        NaiveBayes().fit(x, y).sample(0)
    with pytest.raises(OptionError, match="a model file cannot hold the label"):
        model = NaiveBayes().fit(x, y)
        model.classes_ = np.array([b"a", b"b"])
        model.to_bytes()


def test_damaged_content_is_refused() -> None:
    model = NaiveBayes().fit(np.ones((4, 2)), ["a", "a", "b", "b"])
    header, arrays = model._storage()
    bad: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"options": {"smoothing": -1}}, {}),
        ({"options": {"other": 1}}, {}),
        ({"labels": {"kind": "str", "values": ["b", "a"]}}, {}),
        ({"labels": {"kind": "str", "values": ["a", 1]}}, {}),
        ({"labels": {"kind": "list", "values": ["a"]}}, {}),
        ({"mean_length": -1}, {}),
        ({"mean_length": "long"}, {}),
        ({}, {"log_theta": np.zeros((3, 2))}),
        ({}, {"log_theta": np.zeros(2)}),
        ({}, {"log_theta": np.full((2, 2), np.nan)}),
        ({}, {"log_prior": np.zeros(2)}),
        ({}, {"columns.bytes": np.zeros(1, dtype=np.uint8), "columns.offsets": np.array([0, 1])}),
    ]
    for changed, replaced in bad:
        with pytest.raises(ModelFileError, match="does not fit together"):
            NaiveBayes.load(model_file.dumps(NaiveBayes.kind, {**header, **changed}, {**arrays, **replaced}))
    for missing in ("options", "labels", "mean_length"):
        with pytest.raises(ModelFileError, match="is missing"):
            NaiveBayes.load(
                model_file.dumps(
                    NaiveBayes.kind, {key: value for key, value in header.items() if key != missing}, arrays
                )
            )
