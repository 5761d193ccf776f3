"""Weights of sequences through scikit-learn's cross-validation and searches, with routing and without."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from loglinear import HMM, Classifier, LocalTagger, Tagger


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


class Spy(Tagger):
    """A tagger that notes the weights it gets."""

    seen = []  # noqa: RUF012  # clones share it

    def fit(self, X, y=None, *, sample_weight=None):
        Spy.seen.append(sample_weight)
        return super().fit(X, y, sample_weight=sample_weight)


def test_weights_reach_fit_and_score(data, routing):
    X, y = data
    weights = np.random.default_rng(0).uniform(0.1, 3.0, len(X))
    tagger = Spy(template="words", max_iter=3).set_fit_request(sample_weight=True).set_score_request(sample_weight="w")
    Spy.seen.clear()
    params = {"sample_weight": weights, "w": weights}
    found = cross_validate(tagger, X, y, params=params, cv=3, return_estimator=True, return_indices=True)
    for fold, rows in enumerate(found["indices"]["train"]):
        np.testing.assert_array_equal(Spy.seen[fold], weights[rows])
        test = found["indices"]["test"][fold]
        own = found["estimator"][fold].score([X[i] for i in test], [y[i] for i in test], sample_weight=weights[test])
        assert found["test_score"][fold] == own


def test_grid_searches_and_pipelines(data, routing):
    X, y = data
    weights = np.linspace(0.5, 2.0, len(X))
    tagger = (
        Tagger(template="words", max_iter=3).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
    )
    search = GridSearchCV(make_pipeline(FunctionTransformer(), tagger), {"tagger__l2": [0.1, 1.0]}, cv=2)
    search.fit(X, y, sample_weight=weights)
    alone = Tagger(template="words", max_iter=3, l2=search.best_params_["tagger__l2"]).fit(X, y, sample_weight=weights)
    assert search.best_estimator_[-1].state_weights_ == alone.state_weights_


def test_what_was_not_asked_for_is_an_error(data, routing):
    X, y = data
    with pytest.raises(ValueError, match="sample_weight"):
        cross_validate(Tagger(template="words"), X, y, params={"sample_weight": np.ones(len(X))}, cv=2)
    with pytest.raises(TypeError, match="fit takes no 'colour'"):
        Tagger().set_fit_request(colour=True)
    with pytest.raises(ValueError, match="identifier"):
        Tagger().set_fit_request(sample_weight="not a name")


def test_requests_are_copied(routing):
    tagger = Tagger().set_fit_request(sample_weight="w")
    for copied in (clone(tagger), copy.copy(tagger), copy.deepcopy(tagger), pickle.loads(pickle.dumps(tagger))):
        assert copied.get_metadata_routing().fit.requests["sample_weight"] == "w"
    clone(tagger).set_fit_request(sample_weight=False)
    assert tagger.get_metadata_routing().fit.requests["sample_weight"] == "w"
    assert Tagger().get_metadata_routing().fit.requests["sample_weight"] is None


@pytest.mark.parametrize("estimator", [Tagger(), HMM(), Classifier(), LocalTagger(LogisticRegression())])
def test_every_estimator_says_what_it_takes(estimator, routing):
    theirs = LogisticRegression().get_metadata_routing().fit.requests
    assert set(theirs) <= set(estimator.get_metadata_routing().fit.requests)
    assert hasattr(estimator, "set_partial_fit_request") == hasattr(estimator, "partial_fit")


def test_without_routing():
    with pytest.raises(RuntimeError, match="enable_metadata_routing=True"):
        Tagger().set_fit_request(sample_weight=True)


def test_conventions_do_not_import_scikit_learn():
    code = "import sys; from loglinear import Tagger; Tagger(); print('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_probabilities_in_scikit_learns_shape(data):
    X, y = data
    tagger = Tagger(template="words", max_iter=5).fit(X, y)
    for table, marginals in zip(tagger.predict_proba(X), tagger.predict_marginals(X), strict=True):
        assert [dict(zip(tagger.classes_, row, strict=True)) for row in table.tolist()] == marginals
        np.testing.assert_allclose(table.sum(axis=1), 1.0)
    given = [[None] * len(labels) for labels in y]
    given[0][0] = y[0][0]
    assert tagger.predict_proba(X, given=given)[0][0].max() == pytest.approx(1.0)
