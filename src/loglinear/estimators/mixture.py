"""Mixture models as an estimator: clusters, densities, and classes of which few rows are known."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClusterMixin, DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from loglinear import model_file
from loglinear.errors import DataError
from loglinear.estimators import mixture_file
from loglinear.estimators.mixture_inputs import known_components, make_components, start_method
from loglinear.estimators.mixture_options import check_mixture
from loglinear.generative.mixture import Climb, MixtureModel, climb
from loglinear.generative.mixture_components import EMPTY, GaussianComponents, MultinomialComponents
from loglinear.generative.mixture_starts import start_model
from loglinear.generative.naive_bayes import check_counts
from loglinear.options import Option

Float = npt.NDArray[np.float64]


@dataclass(frozen=True)
class MixtureProgress:
    """How far EM is: start (from 1) of how many, round of it, its objective, and the best of the starts before."""

    start: int
    n_starts: int
    round: int
    objective: float
    best: float | None


class Mixture(ClusterMixin, DensityMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A mixture of Gaussians or multinomials, by EM.

        p(x) = sum_k mu_k p(x given theta_k)                                                                (9.13)
        maximise  sum_i w_i log sum_k mu_k p(x_i given theta_k) + sum_k log p(theta_k)                      (9.15)

    (Zhang, section 9.5). Multinomials are naive Bayes without labels: ``X`` holds counts, dense or sparse. Gaussians
    take ``X`` dense; :mod:`~loglinear.generative.gaussian_covariance` has the equations of their covariances, with
    prior and floor.

    Parameters
    ----------
    n_components : int
        K.
    components : {"gaussian", "multinomial"}
    covariance : {"known", "spherical", "diagonal", "tied", "full"} or None
        Of Gaussians; ``known`` is ``variance`` in all directions for all components, ``tied`` one covariance for all.
        None is ``diagonal``.
    variance : float or None
        sigma^2 of ``covariance="known"``; None is 1.
    smoothing : float or None
        Of multinomials, lambda of the Dirichlet prior prod_j theta_kj^lambda; None is 1. Of Gaussians, how many rows
        the prior of each covariance is worth; None is 0.
    floor : float or None
        Of Gaussians, the least variance in any direction, as a share of the variance of all rows; None is 1e-6.
    start : {"k-means++", "random"} or array [K, D]
        How the first centres are found, or the centres. Each row begins with the nearest one.
    restarts : int
        Further starts of EM, the best of which is kept; without effect if ``start`` is an array.
    rounds : int
        Most rounds of EM from each start.
    tolerance : float
        EM ends when a round raises the objective by less than this for each row.
    seed : int
        Seed of the starts. The model depends neither on the order of rows nor on the number of threads, to rounding.

    Attributes
    ----------
    weights_ : float64 [K]
        mu, the components' shares of all rows.
    means_ : float64 [K, D]
        Of Gaussians.
    covariances_ : float64
        Of Gaussians, in the shape of ``covariance``: [], [K], [K, D], [D, D] or [K, D, D].
    feature_log_prob_ : float64 [K, D]
        Of multinomials, log theta.
    component_names_ : list of (str or None)
        The names that known rows gave.
    labels_ : int32 [n]
        The component of each training row.
    log_likelihoods_, objectives_ : list of float
        Of the best start and after each round since: the log-likelihood, and with the prior.
    n_iter_, converged_, message_ : how training went, from the best start.
    model_ : MixtureModel
    """

    model_: MixtureModel
    source_: Any = None  # how the command line made the columns
    component_names_: list[str | None]
    labels_: npt.NDArray[np.int32]
    log_likelihoods_: list[float]
    objectives_: list[float]
    n_iter_: int
    converged_: bool
    message_: str
    n_features_in_: int

    def __init__(
        self,
        n_components: int = 2,
        components: str = "gaussian",
        covariance: str | None = None,
        variance: float | None = None,
        smoothing: float | None = None,
        floor: float | None = None,
        start: Any = "k-means++",
        restarts: int = 4,
        rounds: int = 300,
        tolerance: float = 1e-6,
        seed: int = 0,
    ) -> None:
        self.n_components = n_components
        self.components = components
        self.covariance = covariance
        self.variance = variance
        self.smoothing = smoothing
        self.floor = floor
        self.start = start
        self.restarts = restarts
        self.rounds = rounds
        self.tolerance = tolerance
        self.seed = seed

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.positive_only = self.components == "multinomial"
        return tags

    # -- learning ------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        known: Any = None,
        sample_weight: Any = None,
        observe: Callable[[MixtureProgress], object] | None = None,
    ) -> Mixture:
        """Run EM from each start and keep the best.

        Parameters
        ----------
        X : array [n, D], or sparse matrix of counts
        y
            Not looked at, as in all clustering.
        known : sequence [n], optional
            What is known of the rows' components (semi-supervised learning): -1 or None where nothing is; numbers from
            0, or names. These rows stay in their component.
        sample_weight : array of float [n], optional
            How often each row counts.
        observe : callable, optional
            Called after each round with a :class:`MixtureProgress`.
        """
        check_mixture(self)
        X = self._rows(X, reset=True)
        n = X.shape[0]
        weights = np.ones(n)
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        numbers, names = known_components(known, n, self.n_components)
        counted = np.flatnonzero(weights > 0.0)
        if len(counted) < self.n_components:
            raise DataError(
                f"n_components={self.n_components} and n_samples={len(counted)}: there are fewer rows than components"
            )
        whole = len(counted) == n
        rows, weights = (X, weights) if whole else (X[counted], weights[counted])
        numbers = numbers if whole or numbers is None else numbers[counted]
        best = self._climbed(rows, weights, numbers, observe)
        self.model_, self.component_names_ = best.model, names
        self.objectives_, self.log_likelihoods_ = best.objectives, best.log_likelihoods
        self.n_iter_, self.converged_ = best.n_iter, best.converged
        self.labels_ = self.model_.joint(X).argmax(axis=1).astype(np.int32)
        self._warn()
        return self

    def _climbed(self, rows: Any, weights: Float, numbers: Any, observe: Any) -> Climb:
        """EM from all starts, the best."""
        even, method = make_components(self, rows, weights), start_method(self, rows.shape[1])
        n_starts = 1 + self.restarts if isinstance(method, str) else 1
        ends: list[float] = []
        best: Climb | None = None
        for number in range(n_starts):

            def seen(run: Climb, number: int = number) -> None:
                if observe is not None:
                    greatest = max(ends) if ends else None
                    observe(MixtureProgress(number + 1, n_starts, run.n_iter, run.objectives[-1], greatest))

            start = start_model(even, rows, weights, numbers, method, np.random.default_rng([self.seed, number]))
            run = climb(start, rows, weights, numbers, self.rounds, self.tolerance, seen)
            ends.append(run.objectives[-1])
            if best is None or ends[-1] > best.objectives[-1]:
                best = run
        assert best is not None
        how = f"{'converged' if best.converged else 'stopped'} after {best.n_iter} rounds"
        self.message_ = how
        if n_starts > 1:
            others = sorted(ends)[:-1]
            self.message_ = (
                f"the best of {n_starts} starts {how}, its penalised log-likelihood {best.objectives[-1]:,.2f} "
                f"(elsewhere {others[0]:,.2f} to {others[-1]:,.2f})"
            )
        return best

    def _warn(self) -> None:
        if not self.converged_ and self.rounds:
            warnings.warn(
                f"EM was stopped after {self.n_iter_} rounds, before its objective had settled; give more rounds or a "
                "greater tolerance",
                ConvergenceWarning,
                stacklevel=3,
            )
        empty = np.flatnonzero(self.weights_ <= EMPTY)
        if len(empty):
            warnings.warn(
                f"no rows are left in component {', '.join(map(str, empty))}; take fewer components, more restarts or "
                "more smoothing",
                UserWarning,
                stacklevel=3,
            )

    def fit_predict(self, X: Any, y: Any = None, **options: Any) -> npt.NDArray[np.int32]:
        """Fit, and the component of each row [n]."""
        return self.fit(X, y, **options).labels_

    # -- using ---------------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> npt.NDArray[np.int32]:
        """The most probable component of each row [n]."""
        rows = self._rows(X)
        return self.model_.joint(rows).argmax(axis=1).astype(np.int32)

    def predict_proba(self, X: Any) -> Float:
        """p(k given x) [n, K] (9.14)."""
        rows = self._rows(X)
        return self.model_.posterior(rows)

    def score_samples(self, X: Any) -> Float:
        """log p(x) of each row [n]; of multinomials without the coefficient and the length's term."""
        rows = self._rows(X)
        return self.model_.log_likelihoods(rows)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log p(x) of the rows."""
        return float(self.score_samples(X).mean())

    def bic(self, X: Any) -> float:
        """-2 log-likelihood + (free parameters) log n: the smaller the better."""
        found = self.score_samples(X)
        return float(-2.0 * found.sum() + self.model_.n_parameters * np.log(len(found)))

    def aic(self, X: Any) -> float:
        """-2 log-likelihood + 2 (free parameters): the smaller the better."""
        return float(-2.0 * self.score_samples(X).sum() + 2.0 * self.model_.n_parameters)

    def sample(self, n_samples: int = 1, seed: int = 0) -> tuple[Any, npt.NDArray[np.int32]]:
        """Rows [n, D] and their components [n], drawn; counts are sparse, their lengths Poisson."""
        check_is_fitted(self, "model_")
        Option("n_samples", 1, "", least=1, kind=int).check(n_samples)
        return self.model_.sample(n_samples, np.random.default_rng(seed))

    @property
    def weights_(self) -> Float:
        """mu [K]."""
        return np.exp(self.model_.log_weights)

    @property
    def means_(self) -> Float:
        """Means [K, D] of Gaussians."""
        return self._gaussians("means_").means

    @property
    def covariances_(self) -> Float:
        """Covariances of Gaussians."""
        return self._gaussians("covariances_").covariances

    @property
    def feature_log_prob_(self) -> Float:
        """log theta [K, D] of multinomials."""
        if not isinstance(self.model_.components, MultinomialComponents):
            raise AttributeError("feature_log_prob_ is there for components='multinomial'")
        return self.model_.components.log_theta

    def _gaussians(self, name: str) -> GaussianComponents:
        if not isinstance(self.model_.components, GaussianComponents):
            raise AttributeError(f"{name} is there for components='gaussian'")
        return self.model_.components

    def _rows(self, X: Any, reset: bool = False) -> Any:
        """Checked rows, float64."""
        if not reset:
            check_is_fitted(self, "model_")
        counts = self.components == "multinomial"
        rows = validate_data(self, X, accept_sparse="csr" if counts else False, dtype=np.float64, reset=reset)
        if counts:
            check_counts(rows)
        return rows

    # -- files ---------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the model to one file that holds data only; the training rows' ``labels_`` are not in it."""
        check_is_fitted(self, "model_")
        model_file.save(path, mixture_file.KIND, *mixture_file.to_storage(self))

    def to_bytes(self) -> bytes:
        """The model file's content."""
        check_is_fitted(self, "model_")
        return model_file.dumps(mixture_file.KIND, *mixture_file.to_storage(self))

    @classmethod
    def load(cls, source: str | Path | bytes) -> Mixture:
        """Read a model file, or its content; nothing in it is run, and every number is checked."""
        stored = model_file.load(source, kind=mixture_file.KIND)
        name = "the model in memory" if isinstance(source, bytes) else str(source)
        found: Mixture = mixture_file.from_storage(cls, stored.header, stored.arrays, name)
        return found
