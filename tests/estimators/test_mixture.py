"""Mixture as an estimator: scikit-learn's conventions, its GaussianMixture from the same start, files, mistakes."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import _yield_clustering_checks, check_estimator

from loglinear import Mixture, model_file
from loglinear.errors import DataError, ModelFileError, OptionError
from problems.topics import text_set

TAGS = "the check asks every estimator that has predict_proba for its classifier_tags"


@pytest.mark.parametrize(
    ("mixture", "expected"),
    [
        (Mixture(restarts=0), {}),
        (Mixture(covariance="full", restarts=0), {}),
        (
            Mixture(components="multinomial", restarts=0),
            {"check_estimator_sparse_array": TAGS, "check_estimator_sparse_matrix": TAGS},
        ),
    ],
    ids=["default", "full", "multinomial"],
)
def test_scikit_learns_checks_pass(mixture: Mixture, expected: dict[str, str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        results = check_estimator(mixture, expected_failed_checks=expected, on_skip=None)
        if mixture.components == "gaussian":  # the others' data may not be negative
            for check in _yield_clustering_checks(mixture):  # run for subclasses of ClusterMixin alone
                check("Mixture", mixture)
    assert {result["status"] for result in results} <= {"passed", "skipped", "xfail"} and len(results) > 40
    assert {result["check_name"] for result in results if result["status"] == "xfail"} == set(expected)


def rows_of(name: str) -> Any:
    if name == "iris":
        return load_iris()["data"]
    x = {"wine": load_wine, "breast cancer": load_breast_cancer, "digits": load_digits}[name]()["data"]
    if name == "wine":
        return StandardScaler().fit_transform(x)
    # the first axes: some pixels of digits are always white, and columns of breast cancer nearly the same
    return PCA(6, random_state=0).fit_transform(x[:700] if name == "digits" else StandardScaler().fit_transform(x))


@pytest.mark.parametrize("name", ["iris", "wine", "breast cancer", "digits"])
@pytest.mark.parametrize("covariance", ["spherical", "diagonal", "tied", "full"])
def test_the_optimum_is_that_of_gaussian_mixture_from_the_same_start(name: str, covariance: str) -> None:
    x, k = rows_of(name), 3
    options: dict[str, Any] = {"n_components": k, "covariance": covariance, "restarts": 0, "tolerance": 1e-10}
    start = Mixture(**options, rounds=0).fit(x)
    ours = Mixture(**options, rounds=3000).fit(x)
    precisions = (
        1.0 / start.covariances_ if covariance in ("spherical", "diagonal") else np.linalg.inv(start.covariances_)
    )
    theirs = GaussianMixture(
        k, covariance_type={"diagonal": "diag"}.get(covariance, covariance), weights_init=start.weights_,
        means_init=start.means_, precisions_init=precisions, tol=1e-10, max_iter=3000, reg_covar=0.0,
    ).fit(x)  # fmt: skip
    assert ours.converged_ and theirs.converged_
    assert ours.score(x) == pytest.approx(theirs.score(x), abs=1e-4)
    assert ours.bic(x) == pytest.approx(theirs.bic(x), abs=1e-4 * 2 * len(x))
    assert ours.aic(x) == pytest.approx(theirs.aic(x), abs=1e-4 * 2 * len(x))
    np.testing.assert_allclose(ours.weights_, theirs.weights_, atol=1e-3)


def test_scikit_learns_own_regularisation_makes_no_difference_that_counts() -> None:
    x = rows_of("iris")
    ours = Mixture(3, covariance="full", restarts=0, tolerance=1e-9, rounds=2000).fit(x)
    theirs = GaussianMixture(
        3,
        weights_init=ours.weights_,
        means_init=ours.means_,
        precisions_init=np.linalg.inv(ours.covariances_),
        tol=1e-9,
    ).fit(x)
    assert ours.score(x) == pytest.approx(theirs.score(x), abs=1e-4)


def test_the_chapters_mixture_is_found_with_known_variance() -> None:
    rng = np.random.default_rng(0)
    means = np.array([[-2.0, 0.0], [2.0, 1.0]])
    x = means[rng.integers(2, size=4000)] + rng.normal(size=(4000, 2))
    mixture = Mixture(2, covariance="known", variance=1.0).fit(x)
    found = mixture.means_[np.argsort(mixture.means_[:, 0])]
    np.testing.assert_allclose(found, means, atol=0.1)
    np.testing.assert_allclose(mixture.weights_, 0.5, atol=0.03)
    assert mixture.covariances_ == 1.0 and mixture.model_.n_parameters == 5


def test_topics_are_found_in_text() -> None:
    x, y = text_set()
    mixture = Mixture(3, components="multinomial").fit(x)
    assert adjusted_rand_score(y, mixture.labels_) > 0.8
    dense = Mixture(3, components="multinomial").fit(x.toarray())
    np.testing.assert_allclose(dense.objectives_, mixture.objectives_)
    with pytest.raises(AttributeError, match="gaussian"):
        _ = mixture.means_


def test_a_few_known_rows_help_and_give_names() -> None:
    x, y = load_digits(return_X_y=True)
    chosen = (y == 3) | (y == 8) | (y == 9)
    x, y = x[chosen], y[chosen]
    names = np.array(["three", "eight", "nine"])[np.searchsorted([3, 8, 9], y)]
    known: list[str | None] = [None] * len(y)
    for name in ("three", "eight", "nine"):
        for row in np.flatnonzero(names == name)[:5]:
            known[row] = name
    mixture = Mixture(3, components="multinomial").fit(x, known=known)
    assert mixture.component_names_ == ["eight", "nine", "three"]
    assert (np.array(mixture.component_names_)[mixture.predict(x)] == names).mean() > 0.8
    numbers = [-1 if name is None else mixture.component_names_.index(name) for name in known]
    for same in (
        numbers,
        np.array(numbers),
        pd.Series(numbers),
        [float("nan") if n < 0 else float(n) for n in numbers],
    ):
        np.testing.assert_array_equal(Mixture(3, components="multinomial").fit(x, known=same).labels_, mixture.labels_)
    assert Mixture(3).fit(x, known=[-1] * len(x)).objectives_ == Mixture(3).fit(x).objectives_


def test_y_is_not_looked_at() -> None:
    x, y = load_iris(return_X_y=True)
    np.testing.assert_array_equal(Mixture(3).fit_predict(x, y), Mixture(3).fit_predict(x))


def test_more_starts_are_never_worse() -> None:
    x = load_wine()["data"]
    ends = [Mixture(4, covariance="full", smoothing=5, restarts=n).fit(x).objectives_[-1] for n in (0, 2, 6)]
    assert ends == sorted(ends)


def test_each_round_can_be_watched() -> None:
    seen: list[Any] = []
    mixture = Mixture(2, restarts=2).fit(load_iris()["data"], observe=seen.append)
    assert {progress.phase for progress in seen} == {f"start {i} of 3" for i in (1, 2, 3)}
    assert seen == mixture.history_ and mixture.seconds_ >= seen[-1].seconds
    assert min(progress.objective for progress in seen) == pytest.approx(-mixture.objectives_[-1])
    assert "the best of 3 starts converged" in mixture.message_
    assert len(mixture.objectives_) == len(mixture.log_likelihoods_) == mixture.n_iter_ + 1


def test_the_prior_keeps_covariances_wide() -> None:
    x = np.random.default_rng(0).normal(size=(12, 8))
    tight, wide = (Mixture(3, covariance="full", smoothing=s).fit(x) for s in (0.1, 20.0))
    assert np.linalg.eigvalsh(wide.covariances_).min() > 20 * np.linalg.eigvalsh(tight.covariances_).min()
    assert wide.log_likelihoods_[-1] != wide.objectives_[-1]


def test_rows_of_weight_zero_are_not_there() -> None:
    x = load_iris()["data"]
    weights = (np.arange(150) % 3 > 0).astype(float)
    some, few = Mixture(3).fit(x, sample_weight=weights), Mixture(3).fit(x[weights > 0])
    assert some.objectives_ == few.objectives_ and len(some.labels_) == 150


def test_what_can_go_wrong_in_em_is_a_warning() -> None:
    x = load_iris()["data"]
    with pytest.warns(ConvergenceWarning, match="stopped after 2 rounds"):
        Mixture(3, rounds=2).fit(x)
    with pytest.warns(UserWarning, match="no rows are left in component"):
        Mixture(3, covariance="known", variance=1e-4).fit(np.repeat([[0.0], [1.0]], 5, axis=0))


@pytest.mark.parametrize("covariance", ["known", "spherical", "diagonal", "tied", "full", None])
def test_files_keep_the_model(covariance: str | None, tmp_path: Any) -> None:
    if covariance is None:
        x, _ = text_set(60, 30)
        mixture = Mixture(3, components="multinomial", smoothing=0.3, restarts=1).fit(x)
    else:
        x = pd.DataFrame(load_iris()["data"][:, :3], columns=["a", "b", "ç"])
        centres = x.to_numpy()[[0, 60, 120]]
        known = ["first"] * 3 + [None] * 147
        mixture = Mixture(3, covariance=covariance, start=centres).fit(x, known=known)
    mixture.save(tmp_path / "m.model")
    loaded = Mixture.load(tmp_path / "m.model")
    for method in ("predict", "predict_proba", "score_samples"):
        np.testing.assert_array_equal(getattr(loaded, method)(x), getattr(mixture, method)(x))
    assert loaded.to_bytes() == mixture.to_bytes()
    assert loaded.component_names_ == mixture.component_names_ and loaded.message_ == mixture.message_
    assert loaded.log_likelihoods_ == mixture.log_likelihoods_ and loaded.bic(x) == mixture.bic(x)
    assert repr(loaded.get_params()) == repr(mixture.get_params())
    assert getattr(loaded, "feature_names_in_", None) is None or loaded.feature_names_in_.tolist() == ["a", "b", "ç"]
    again = clone(loaded).fit(x)
    assert again.n_components == 3
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(mixture)).predict(x), mixture.predict(x))


def test_draws_come_from_the_components() -> None:
    mixture = Mixture(3, covariance="full").fit(load_iris()["data"])
    rows, components = mixture.sample(500, seed=3)
    assert rows.shape == (500, 4) and (mixture.predict(rows) == components).mean() > 0.9
    counts, _ = Mixture(2, components="multinomial").fit(text_set(50, 20)[0]).sample(7)
    assert sparse.issparse(counts) and counts.shape == (7, 20)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 0}, "n_components=0"),
        ({"n_components": 2.5}, "n_components=2.5"),
        ({"components": "poisson"}, "components='poisson' is not one of gaussian, multinomial"),
        ({"covariance": "diag"}, "covariance='diag' is not one of known, spherical"),
        ({"components": "multinomial", "covariance": "full"}, "covariance='full' is for components='gaussian'"),
        ({"components": "multinomial", "smoothing": 0}, "smoothing=0"),
        ({"covariance": "known", "smoothing": 1.0}, "no variance is learnt"),
        ({"variance": 2.0}, "variance=2.0 is for covariance='known'"),
        ({"floor": 0.0}, "floor=0.0"),
        ({"start": "kmeans"}, "start='kmeans' is not one of k-means"),
        ({"start": [[1.0]]}, "an array of 2 centres of 4 columns"),
        ({"start": "random", "restarts": -1}, "restarts=-1"),
        ({"rounds": 1.5}, "rounds=1.5"),
        ({"tolerance": float("nan")}, "tolerance"),
        ({"seed": -1}, "seed=-1"),
    ],
)
def test_mistakes_in_options_are_said(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Mixture(**options).fit(load_iris()["data"])


def test_mistakes_in_data_are_said() -> None:
    x = load_iris()["data"]
    with pytest.raises(DataError, match="fewer rows than components"):
        Mixture(4).fit(x[:3])
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        Mixture().fit(sparse.csr_matrix(x))
    with pytest.raises(DataError, match="X has 150 rows, but known 2 entries"):
        Mixture().fit(x, known=[0, 1])
    for wrong in (2, 0.5, True, "a"):
        with pytest.raises(DataError, match=r"known\[1\]"):
            Mixture().fit(x, known=[0, wrong, *[-1] * 148])
    with pytest.raises(OptionError, match=r"3 are known by name \(a, b, c\)"):
        Mixture().fit(x, known=["a", "b", "c", *[None] * 147])
    with pytest.raises(DataError, match="a count of -2"):
        Mixture(components="multinomial").fit(x).predict(np.full((1, 4), -2.0))


def test_damaged_content_is_refused() -> None:
    gaussian = Mixture(2, covariance="full").fit(load_iris()["data"])._storage()
    multinomial = Mixture(2, components="multinomial").fit(text_set(30, 10)[0])._storage()
    skewed = np.stack([np.eye(4), np.eye(4)])
    skewed[0, 0, 1] = 0.5
    bad: list[tuple[tuple[Any, Any], dict[str, Any], dict[str, Any]]] = [
        (gaussian, {"components": "multinomial"}, {}),
        (gaussian, {"components": ["gaussian"]}, {}),
        (gaussian, {"covariance": "round"}, {}),
        (gaussian, {"smoothing": -1.0}, {}),
        (gaussian, {"names": [None]}, {}),
        (gaussian, {"names": [None, 3]}, {}),
        (gaussian, {"training": {}}, {}),
        (gaussian, {"options": {**gaussian[0]["options"], "start": None}}, {}),
        (gaussian, {"options": {**gaussian[0]["options"], "n_components": 3}}, {}),
        (gaussian, {}, {"log_weights": np.log([0.5, 0.6])}),
        (gaussian, {}, {"means": np.zeros((2, 3))}),
        (gaussian, {}, {"means": np.zeros(2)}),
        (gaussian, {}, {"covariances": -skewed}),
        (gaussian, {}, {"covariances": skewed}),
        (gaussian, {}, {"covariances": np.zeros((2, 4, 4), dtype=np.float32)}),
        (gaussian, {}, {"spread": np.zeros(4)}),
        (gaussian, {}, {"objectives": np.array([np.nan])}),
        (multinomial, {"mean_length": float(-1)}, {}),
        (multinomial, {"smoothing": 0.0}, {}),
        (multinomial, {}, {"log_theta": np.zeros((3, 10))}),
    ]
    for (header, arrays), changed, replaced in bad:
        with pytest.raises(ModelFileError, match="does not fit together"):
            Mixture.load(model_file.dumps(Mixture.kind, {**header, **changed}, {**arrays, **replaced}))
    for name in ("names", "options", "training", "covariance"):
        header = {key: value for key, value in gaussian[0].items() if key != name}
        with pytest.raises(ModelFileError, match="is missing"):
            Mixture.load(model_file.dumps(Mixture.kind, header, gaussian[1]))
    with pytest.raises(ModelFileError, match="kind"):
        Mixture.load(model_file.dumps("tagger", *gaussian))


def test_the_log_likelihood_with_known_rows_is_that_of_training():
    rng = np.random.default_rng(5)
    x = np.concatenate([rng.normal(size=(20, 2)), rng.normal(size=(20, 2)) + 4])
    known = [None] * 40
    known[0], known[39] = "low", "high"
    mixture = Mixture(3).fit(x, known=known)
    assert mixture.log_likelihood(x, known) == pytest.approx(mixture.log_likelihoods_[-1])
    assert mixture.log_likelihood(x) > mixture.log_likelihood(x, known)
    joint = mixture.model_.joint(x[39:])[0, mixture.component_names_.index("high")]
    assert mixture.log_likelihood(x[39:], ["high"]) == pytest.approx(joint)  # by name, though it is the only one here
    assert mixture.bic(x, known) - mixture.bic(x) == pytest.approx(mixture.aic(x, known) - mixture.aic(x))
    with pytest.raises(DataError, match="no component is called 'middle'; named are: high, low"):
        mixture.log_likelihood(x[:1], ["middle"])
