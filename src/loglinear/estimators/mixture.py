"""Mixture models as an estimator: clusters, densities, and classes of which few rows are known."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClusterMixin, DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from loglinear import model_file
from loglinear.arrays import Arrays, Float, Int32
from loglinear.errors import DataError, LoglinearError, ModelFileError, OptionError
from loglinear.estimators.options import COVARIANCE, FLOOR, KINDS, VARIANCE, MixtureOptions, check_mixture
from loglinear.generative.covariance import SHAPES, CovariancePrior
from loglinear.generative.mixture import (
    EMPTY,
    UNKNOWN,
    Climb,
    Components,
    GaussianComponents,
    MixtureModel,
    MultinomialComponents,
    climb,
    start_model,
)
from loglinear.generative.naive_bayes import check_counts
from loglinear.model_file import checked_floats, checked_log_shares, restore_columns, store_columns
from loglinear.options import Option, documented


@dataclass(frozen=True)
class MixtureProgress:
    """How far EM is: start (from 1) of how many, round of it, its objective, and the best of the starts before."""

    start: int
    n_starts: int
    round: int
    objective: float
    best: float | None


@documented
class Mixture(MixtureOptions, ClusterMixin, DensityMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A mixture of Gaussians or multinomials, by EM.

        p(x) = sum_k mu_k p(x given theta_k)                                                                (9.13)
        maximise  sum_i w_i log sum_k mu_k p(x_i given theta_k) + sum_k log p(theta_k)                      (9.15)

    (Zhang, section 9.5). Multinomials are naive Bayes without labels: ``X`` holds counts, dense or sparse. Gaussians
    take ``X`` dense; :mod:`~loglinear.generative.covariance` has the equations of their covariances, with
    prior and floor.

    PARAMETERS

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
    labels_: Int32
    log_likelihoods_: list[float]
    objectives_: list[float]
    n_iter_: int
    converged_: bool
    message_: str
    n_features_in_: int

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

    def fit_predict(self, X: Any, y: Any = None, **options: Any) -> Int32:
        """Fit, and the component of each row [n]."""
        return self.fit(X, y, **options).labels_

    # -- using ---------------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> Int32:
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

    def sample(self, n_samples: int = 1, seed: int = 0) -> tuple[Any, Int32]:
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
        model_file.save(path, KIND, *to_storage(self))

    def to_bytes(self) -> bytes:
        """The model file's content."""
        check_is_fitted(self, "model_")
        return model_file.dumps(KIND, *to_storage(self))

    @classmethod
    def load(cls, source: str | Path | bytes) -> Mixture:
        """Read a model file, or its content; nothing in it is run, and every number is checked."""
        stored = model_file.load(source, kind=KIND)
        name = "the model in memory" if isinstance(source, bytes) else str(source)
        found: Mixture = from_storage(cls, stored.header, stored.arrays, name)
        return found


# ----------------------------------------------------------------------------------------------------------------------
# What a mixture is fitted with: components as options ask for, centres that are given, components that are known.


def make_components(mixture: Any, x: Any, weights: Float) -> Components:
    """Components of the kind that the options ask for, all the same."""
    k = mixture.n_components
    if mixture.components == "multinomial":
        return MultinomialComponents.even(x, weights, k, 1.0 if mixture.smoothing is None else float(mixture.smoothing))
    return GaussianComponents.even(
        x,
        weights,
        k,
        mixture.covariance or COVARIANCE,
        float(mixture.smoothing or 0.0),
        FLOOR if mixture.floor is None else float(mixture.floor),
        VARIANCE if mixture.variance is None else float(mixture.variance),
    )


def start_method(mixture: Any, n_columns: int) -> str | Float:
    """The name of a way to start, or centres [K, D]."""
    if isinstance(mixture.start, str):
        return str(mixture.start)
    given = mixture.start.toarray() if sparse.issparse(mixture.start) else mixture.start
    try:
        centres = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        centres = np.zeros(0)
    if centres.shape != (mixture.n_components, n_columns) or not np.isfinite(centres).all():
        raise OptionError(f"start must be a name or an array of {mixture.n_components} centres of {n_columns} columns")
    if mixture.components == "multinomial" and centres.min() < 0:
        raise OptionError("start has centres with negative counts")
    return centres


def known_components(known: Any, n: int, n_components: int) -> tuple[Int32 | None, list[str | None]]:
    """Component of each row [n] (-1: unknown), or None if none is known, and the components' names.

    ``known`` has an entry a row: None, NaN or -1 where nothing is known; whole numbers are components, from 0; strings
    are names, and the components are numbered in the order of these.
    """
    names: list[str | None] = [None] * n_components
    if known is None:
        return None, names
    values = list(np.asarray(known, dtype=object))
    if len(values) != n:
        raise DataError(f"there are {n} rows in X, and {len(values)} entries in known")
    there = [value for value in values if not _is_unknown(value)]
    if not there:
        return None, names
    if all(isinstance(value, str) for value in there):
        distinct = sorted(set(there))
        if len(distinct) > n_components:
            raise OptionError(_too_many(distinct, n_components))
        names[: len(distinct)] = distinct
        numbers = {name: number for number, name in enumerate(distinct)}
        return np.array([UNKNOWN if _is_unknown(v) else numbers[v] for v in values], dtype=np.int32), names
    found = np.full(n, UNKNOWN, dtype=np.int32)
    for row, value in enumerate(values):
        if _is_unknown(value):
            continue
        whole = not isinstance(value, str | bool) and float(value) == int(value)
        if not whole or not 0 <= int(value) < n_components:
            raise DataError(
                f"known[{row}] = {value!r}: give a number from 0 to {n_components - 1}, -1 or None where nothing is "
                "known, or names for all"
            )
        found[row] = int(value)
    return found, names


def _is_unknown(value: Any) -> bool:
    return value is None or (not isinstance(value, str | bool) and (value != value or value == UNKNOWN))


def _too_many(names: Sequence[str], n_components: int) -> str:
    shown = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
    return f"n_components={n_components}: {len(names)} are known by name ({shown}); give at least as many"


# ----------------------------------------------------------------------------------------------------------------------
# What of a mixture stands in a model file, and how it is read back with every bound checked.
#
# header   options, components (gaussian or multinomial), names, training (rounds, converged, message), mean_length;
#          words (free notes on how columns were made, for the command line)
# arrays   log_weights [K], log_likelihoods, objectives; means [K, D], covariances, spread [D]; or log_theta [K, D];
#          columns (packed strings); start [K, D] if centres were given


KIND = "mixture"


def to_storage(mixture: Any) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a model file."""
    theta = mixture.model_.components
    options = {name: _plain(value) for name, value in mixture.get_params(deep=False).items()}
    arrays: Arrays = {
        "log_weights": mixture.model_.log_weights,
        "log_likelihoods": np.array(mixture.log_likelihoods_),
        "objectives": np.array(mixture.objectives_),
        **store_columns(mixture),
    }
    if not isinstance(mixture.start, str):
        options["start"] = None
        arrays["start"] = np.array(mixture.start, dtype=np.float64)
    header = {
        "options": options,
        "names": mixture.component_names_,
        "training": {"rounds": mixture.n_iter_, "converged": mixture.converged_, "message": mixture.message_},
        "source": mixture.source_,
    }
    if isinstance(theta, MultinomialComponents):
        header |= {"components": "multinomial", "mean_length": theta.mean_length, "smoothing": theta.smoothing}
        arrays["log_theta"] = theta.log_theta
    else:
        header |= {"components": "gaussian", "covariance": theta.covariance, "smoothing": theta.prior.smoothing}
        arrays |= {"means": theta.means, "covariances": theta.covariances, "spread": theta.prior.spread}
    return header, arrays


def from_storage(cls: Any, header: dict[str, Any], arrays: Arrays, name: str) -> Any:
    """The estimator; what does not fit is a ModelFileError."""
    try:
        return _checked(cls, header, arrays)
    except (LoglinearError, KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        detail = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ModelFileError(f"{name}: the model file's content does not fit together ({detail}); train anew") from None


def _checked(cls: Any, header: dict[str, Any], arrays: Arrays) -> Any:
    options = dict(header["options"])
    if options.get("start") is None:
        options["start"] = np.array(arrays["start"])
    mixture = cls(**options)
    check_mixture(mixture)
    k, kind = mixture.n_components, header["components"]
    if kind not in KINDS or kind != mixture.components:
        raise ValueError("the components cannot be read")
    theta = _multinomials(header, arrays, k) if kind == "multinomial" else _gaussians(header, arrays, mixture, k)
    mixture.model_ = MixtureModel(checked_log_shares(arrays["log_weights"], k, "shares of components"), theta)
    names = header["names"]
    if not isinstance(names, list) or len(names) != k or not all(n is None or isinstance(n, str) for n in names):
        raise ValueError("the names of the components cannot be read")
    mixture.component_names_ = names
    d = int((theta.log_theta if isinstance(theta, MultinomialComponents) else theta.means).shape[1])
    restore_columns(mixture, arrays, d)
    notes, n = header["training"], arrays["objectives"].size
    mixture.n_iter_, mixture.converged_ = int(notes["rounds"]), bool(notes["converged"])
    mixture.message_ = str(notes["message"])
    mixture.objectives_ = checked_floats(arrays["objectives"], (n,), "objectives").tolist()
    mixture.log_likelihoods_ = checked_floats(arrays["log_likelihoods"], (n,), "log-likelihoods").tolist()
    mixture.source_ = header["source"]
    return mixture


def _multinomials(header: dict[str, Any], arrays: Arrays, k: int) -> MultinomialComponents:
    log_theta = checked_floats(arrays["log_theta"], (k, int(arrays["log_theta"].shape[1])), "probabilities")
    length, smoothing = float(header["mean_length"]), float(header["smoothing"])
    if not 0.0 <= length < np.inf or not 0.0 < smoothing < np.inf:
        raise ValueError("the prior cannot be read")
    return MultinomialComponents(log_theta, smoothing, length)


def _gaussians(header: dict[str, Any], arrays: Arrays, mixture: Any, k: int) -> GaussianComponents:
    covariance, d = header["covariance"], int(arrays["means"].shape[1])
    if covariance not in SHAPES:
        raise ValueError("the shape of the covariances cannot be read")
    shape = SHAPES[covariance]
    means = checked_floats(arrays["means"], (k, d), "means")
    covariances = checked_floats(arrays["covariances"], shape.array_shape(k, d), "covariances")
    spread = checked_floats(arrays["spread"], (d,), "variances of the columns")
    expanded = shape.expanded(covariances, k, d)
    if shape.axial:
        positive = bool((expanded > 0.0).all())
    else:
        positive = bool((np.linalg.eigvalsh(expanded) > 0.0).all()) and np.array_equal(
            expanded, np.swapaxes(expanded, 1, 2)
        )
    smoothing = float(header["smoothing"])
    if not positive or not (spread > 0.0).all() or not 0.0 <= smoothing < np.inf:
        raise ValueError("the covariances are not positive")
    floor = FLOOR if mixture.floor is None else float(mixture.floor)
    return GaussianComponents(means, covariances, covariance, CovariancePrior(spread, smoothing, floor))


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    return value.item() if isinstance(value, np.generic) else value
