"""Mixture models as an estimator: clusters, densities, and classes that are known for few rows only."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Unpack

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_sample_weight, validate_data

from loglinear.arrays import Arrays, Float, Int32
from loglinear.errors import DataError, OptionError
from loglinear.estimators.estimator import (
    RunKeywords,
    TrainedEstimator,
    keep_outcome,
    read_notes,
    restore_notes,
    trains,
)
from loglinear.estimators.options import COVARIANCE, FLOOR, KINDS, VARIANCE, MixtureOptions, check_mixture
from loglinear.generative.em import EM, EMState
from loglinear.generative.mixture import (
    EMPTY,
    SHAPES,
    UNKNOWN,
    Components,
    CovariancePrior,
    GaussianComponents,
    MixtureModel,
    MultinomialComponents,
    WeightedRows,
    start_model,
)
from loglinear.generative.naive_bayes import check_counts
from loglinear.model_file import Reader, column_arrays
from loglinear.options import Option, documented
from loglinear.training.dev import Dev
from loglinear.training.problem import MAIN, Phase, Stage, Storage
from loglinear.training.run import train

KIND = "mixture"


@documented
class Mixture(MixtureOptions, TrainedEstimator[MixtureModel]):
    """A mixture of Gaussians or multinomials, by EM.

        p(x) = sum_k mu_k p(x given theta_k)                                                                (9.13)
        maximise  sum_i w_i log sum_k mu_k p(x_i given theta_k) + sum_k log p(theta_k)                      (9.15)

    (Zhang, section 9.5). Multinomials are naive Bayes without labels: ``X`` holds counts, dense or sparse. Gaussians
    take ``X`` dense; :mod:`~loglinear.generative.mixture` has the equations of their covariances, with
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
        Log-likelihood, and the same plus the log prior, at the best start and after each of its rounds.
    n_iter_, converged_, message_ : how training went from the best start.
    objective_, seconds_, history_ : how training went, all starts together; the objective is minus that of (9.15).
    dev_score_, best_iteration_ : mean log p(x) of the dev data and round of the model kept, None without dev data.
    model_ : MixtureModel
    """

    kind = "mixture"
    estimator_type = "clusterer"
    source_: Any = None  # how the command line made the columns
    component_names_: list[str | None]
    labels_: Int32
    log_likelihoods_: list[float]
    objectives_: list[float]
    n_features_in_: int

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.positive_only = self.components == "multinomial"
        return tags

    # -- learning ------------------------------------------------------------------------------------------------

    @trains
    def fit(
        self,
        X: Any,
        y: Any = None,
        X_dev: Any = None,
        y_dev: Any = None,
        *,
        known: Any = None,
        sample_weight: Any = None,
        init: Mixture | str | Path | None = None,
        **run: Unpack[RunKeywords],
    ) -> Mixture:
        """Run EM from each start and keep the best.

        Parameters
        ----------
        X : array [n, D], or sparse matrix of counts
        y, y_dev
            Ignored, as in all clustering.
        X_dev : array [m, D], optional
            Rows to stop early by; the parameters with the greatest mean log p(x) of these are kept.
        known : sequence [n], optional
            The components of rows where they are known (semi-supervised learning), by number from 0 or by name; -1 or
            None elsewhere. Rows with a known component stay in it.
        sample_weight : array of float [n], optional
            How often each row counts.
        init : Mixture or path, optional
            The only model to start from.
        KEYWORDS
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
        data, even = WeightedRows(rows, weights, numbers), make_components(self, rows, weights)
        training = MixtureTraining(self, data, even, start_method(self, rows.shape[1]), names)
        model, outcome = train(training, self, dev=Dev.of(training, X_dev), init=self._opened(init), **run)
        state = outcome.state
        assert isinstance(state, EMState)
        self.model_, self.component_names_ = model, names
        self.objectives_, self.log_likelihoods_ = list(state.objectives), list(state.log_likelihoods)
        keep_outcome(self, outcome)
        self.n_iter_ = state.n_rounds
        self.labels_ = self.model_.joint(X).argmax(axis=1).astype(np.int32)
        outcome.raise_interruption()
        self._warn()
        return self

    def _warn(self) -> None:
        if not self.converged_ and self.rounds and self.dev_score_ is None:
            warnings.warn(
                f"EM was stopped after {self.n_iter_} rounds, before its objective had settled; give more rounds or a "
                "greater tolerance",
                ConvergenceWarning,
                stacklevel=4,
            )
        empty = np.flatnonzero(self.weights_ <= EMPTY)
        if len(empty):
            warnings.warn(
                f"no rows are left in component {', '.join(map(str, empty))}; take fewer components, more restarts or "
                "more smoothing",
                UserWarning,
                stacklevel=4,
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

    def log_likelihood(self, X: Any, known: Any = None) -> float:
        """sum_i log p(x_i) or, for rows of a ``known`` component (as in :meth:`fit`), log p(x_i, k)."""
        rows = self._rows(X)
        if known is None:
            return float(self.model_.log_likelihoods(rows).sum())
        named = {name: k for k, name in enumerate(self.component_names_) if name is not None}
        if strange := [value for value in known if isinstance(value, str) and value not in named]:
            raise DataError(f"known: no component is called {strange[0]!r}; named are: {', '.join(named) or 'none'}")
        given = [named[value] if isinstance(value, str) else value for value in known]
        numbers, _ = known_components(given, rows.shape[0], self.n_components)
        return self.model_.expected(rows, np.ones(rows.shape[0]), numbers).log_likelihood

    def bic(self, X: Any, known: Any = None) -> float:
        """-2 log-likelihood + (free parameters) log n: the smaller the better."""
        log_p, n = self.log_likelihood(X, known), np.shape(X)[0]
        return float(-2.0 * log_p + self.model_.n_parameters * np.log(n))

    def aic(self, X: Any, known: Any = None) -> float:
        """-2 log-likelihood + 2 (free parameters): the smaller the better."""
        return -2.0 * self.log_likelihood(X, known) + 2.0 * self.model_.n_parameters

    def sample(self, n_samples: int = 1, seed: int = 0) -> tuple[Any, Int32]:
        """Rows [n, D] and their components [n], drawn; counts are sparse, their lengths Poisson."""
        self._fitted()
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
        """Checked rows, float64, for a fitted model or, with ``reset``, to fit one."""
        if not reset:
            self._fitted()
        return self._checked(X, reset)

    def _checked(self, X: Any, reset: bool) -> Any:
        counts = self.components == "multinomial"
        rows = validate_data(self, X, accept_sparse="csr" if counts else False, dtype=np.float64, reset=reset)
        if counts:
            check_counts(rows)
        return rows

    # -- files ---------------------------------------------------------------------------------------------------

    def check_options(self) -> None:
        """Refuse options that make no sense, as :meth:`fit` does first of all."""
        check_mixture(self)

    def _storage(self) -> tuple[dict[str, Any], Arrays]:
        theta: Any = self._fitted().components
        training = {
            "rounds": self.n_iter_,
            "converged": self.converged_,
            "message": self.message_,
            "dev_score": self.dev_score_,
            "best_iteration": self.best_iteration_,
        }
        options = self._stored_options()
        arrays: Arrays = {
            "log_weights": self.model_.log_weights,
            "log_likelihoods": np.array(self.log_likelihoods_),
            "objectives": np.array(self.objectives_),
            **column_arrays(self),
        }
        if not isinstance(self.start, str):
            options["start"], arrays["start"] = None, np.array(self.start, dtype=np.float64)
        header = {"options": options, "names": self.component_names_, "training": training, "source": self.source_}
        if isinstance(theta, MultinomialComponents):
            header |= {"components": "multinomial", "mean_length": theta.mean_length, "smoothing": theta.smoothing}
            arrays["log_theta"] = theta.log_theta
        else:
            header |= {"components": "gaussian", "covariance": theta.covariance, "smoothing": theta.prior.smoothing}
            arrays |= {"means": theta.means, "covariances": theta.covariances, "spread": theta.prior.spread}
        return header, arrays

    @classmethod
    def _read_options(cls, read: Reader) -> dict[str, Any]:
        options = read.options()
        if options.get("start") is None:
            options["start"] = read.floats("start", (None, None))
        return options

    def _restore(self, read: Reader, given: Mapping[str, Any]) -> None:
        k, notes = self.n_components, read_notes(read)
        restore_notes(self, notes)
        self.model_ = from_storage(read, k, FLOOR if self.floor is None else float(self.floor))
        if read.value("components") != self.components:
            read.fail("components", "the components are not of the kind that the options say")
        names = read.value("names")
        if not isinstance(names, list) or len(names) != k or not all(n is None or isinstance(n, str) for n in names):
            read.fail("names", f"not a name, or null, for each of {k} components")
        self.component_names_ = names
        theta: Any = self.model_.components
        self.n_features_in_ = (theta.log_theta if isinstance(theta, MultinomialComponents) else theta.means).shape[1]
        if (columns := read.columns(self.n_features_in_)) is not None:
            self.feature_names_in_ = np.array(columns, dtype=object)
        for name in ("rounds", "converged", "message"):
            if notes.get(name) is None:
                read.fail("training", f"{name!r} is missing")
        self.n_iter_, self.converged_, self.message_ = notes["rounds"], notes["converged"], notes["message"]
        self.objectives_ = read.floats("objectives", (None,)).tolist()
        self.log_likelihoods_ = read.floats("log_likelihoods", (len(self.objectives_),)).tolist()
        self.source_ = read.value("source")


# ----------------------------------------------------------------------------------------------------------------------
# The training of a mixture: EM, whose weights are the model's parameters.


@dataclass(frozen=True)
class MixtureTraining:
    """What a mixture is trained on.

    Parameters
    ----------
    mixture : Mixture
    data : WeightedRows
    even : Components
        Identical components, of which only shape and prior matter.
    method : str or float64 [K, D]
        How starts are found, or centres to start from.
    names : list of (str or None)
        Of the components.
    """

    kind: ClassVar[str] = KIND
    mixture: Mixture
    data: WeightedRows
    even: Components
    method: str | Float
    names: list[str | None]

    @property
    def blank(self) -> MixtureModel:
        """A model of this kind, to be filled with parameters."""
        k = self.even.n_components
        return MixtureModel(np.full(k, -np.log(k)), self.even)

    def stages(self, options: Any, init: Mixture | None) -> list[Stage]:
        several = isinstance(self.method, str) and init is None
        other = None if init is None else self._started(init)

        @functools.cache
        def start(number: int) -> MixtureModel:
            rng = np.random.default_rng([options.seed, number])
            data = self.data
            return other or start_model(self.even, data.x, data.weights, data.known, self.method, rng)

        optimizer = EM(start, 1 + options.restarts if several else 1, options.rounds, options.tolerance)
        phase = Phase(MAIN, optimizer, lambda weights, kept: (self.data, {}))
        return [Stage(lambda done: (start(0).parameters, [phase]), score_start=init is not None)]

    def _started(self, init: Mixture) -> MixtureModel:
        """The model to start from, with the prior of this one."""
        init._fitted()
        theirs, blank = init.model_.components, self.blank
        same = type(theirs) is type(self.even) and theirs.parameters.shape == self.even.parameters.shape
        covariances = [getattr(each, "covariance", None) for each in (theirs, self.even)]
        if not same or theirs.n_components != self.even.n_components or covariances[0] != covariances[1]:
            raise OptionError("init: a mixture of other components, or of other columns, has no parameters in common")
        return blank.with_parameters(init.model_.parameters)

    def trained_model(self, weights: Sequence[Float]) -> MixtureModel:
        return self.blank.with_parameters(weights[0])

    def storage(self, weights: Sequence[Float], options: Any, notes: dict[str, Any]) -> Storage:
        shown = copy(options)
        shown.model_, shown.component_names_ = self.trained_model(weights), self.names
        found = self.data(shown.model_)
        shown.objectives_, shown.log_likelihoods_ = [found.objective], [found.log_likelihood]
        restore_notes(shown, notes)
        header, arrays = shown._storage()
        return {**header, "training": {**header["training"], **notes}}, arrays

    def arrays(self) -> list[Any]:
        x = self.data.x
        rows = [x.indptr, x.indices, x.data] if sparse.issparse(x) else [x]
        return [*rows, self.data.weights, self.data.known, None if isinstance(self.method, str) else self.method]

    def identity(self, options: Any) -> dict[str, Any]:
        return {"names": self.names}

    def dev_data(self, X: Any, y: Any) -> DevRows:
        return DevRows(self.mixture._checked(X, reset=False))


@dataclass(frozen=True)
class DevRows:
    """Rows to stop early by."""

    x: Any

    def score(self, model: MixtureModel) -> float:
        """Mean log p(x)."""
        return float(model.log_likelihoods(self.x).mean())

    @property
    def arrays(self) -> list[Any]:
        return [self.x.indptr, self.x.indices, self.x.data] if sparse.issparse(self.x) else [self.x]


# ----------------------------------------------------------------------------------------------------------------------
# From options and arguments to components, centres to start from, and known components.


def make_components(mixture: Any, x: Any, weights: Float) -> Components:
    """Identical components of the kind that the options ask for."""
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

    ``known`` has an entry for each row: None, NaN or -1 if its component is unknown; a whole number from 0, or a name.
    Names are numbered in sorted order.
    """
    names: list[str | None] = [None] * n_components
    if known is None:
        return None, names
    values = list(np.asarray(known, dtype=object))
    if len(values) != n:
        raise DataError(f"there are {n} rows in X, and {len(values)} entries in known")
    given = [value for value in values if not _is_unknown(value)]
    if not given:
        return None, names
    if all(isinstance(value, str) for value in given):
        distinct = sorted(set(given))
        if len(distinct) > n_components:
            raise OptionError(_too_many(distinct, n_components))
        names[: len(distinct)] = distinct
        numbers = {name: number for number, name in enumerate(distinct)}
        return np.array([UNKNOWN if _is_unknown(v) else numbers[v] for v in values], dtype=np.int32), names
    numbered = np.full(n, UNKNOWN, dtype=np.int32)
    for row, value in enumerate(values):
        if _is_unknown(value):
            continue
        whole = not isinstance(value, str | bool) and float(value) == int(value)
        if not whole or not 0 <= int(value) < n_components:
            raise DataError(
                f"known[{row}] = {value!r}: give a number from 0 to {n_components - 1}, -1 or None where nothing is "
                "known, or names for all"
            )
        numbered[row] = int(value)
    return numbered, names


def _is_unknown(value: Any) -> bool:
    return value is None or (not isinstance(value, str | bool) and (value != value or value == UNKNOWN))


def _too_many(names: Sequence[str], n_components: int) -> str:
    shown = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
    return f"n_components={n_components}: {len(names)} are known by name ({shown}); give at least as many"


# ----------------------------------------------------------------------------------------------------------------------
# How a mixture is read from a model file.
#
# header   options, components (gaussian or multinomial), names, training (rounds, converged, message), mean_length;
#          words (free notes on how columns were made, for the command line)
# arrays   log_weights [K], log_likelihoods, objectives; means [K, D], covariances, spread [D]; or log_theta [K, D];
#          columns (packed strings); start [K, D] if centres were given


def from_storage(read: Reader, k: int, floor: float) -> MixtureModel:
    """The model of a file, of ``k`` components; ``floor`` is the least share of a column's variance."""
    multinomial = read.choice("components", KINDS) == "multinomial"
    theta = _multinomials(read, k) if multinomial else _gaussians(read, k, floor)
    return MixtureModel(read.log_shares("log_weights", k), theta)


def _multinomials(read: Reader, k: int) -> MultinomialComponents:
    length, smoothing = read.number("mean_length", least=0.0), read.number("smoothing", above=0.0)
    return MultinomialComponents(read.floats("log_theta", (k, None)), smoothing, length)


def _gaussians(read: Reader, k: int, floor: float) -> GaussianComponents:
    covariance, means = read.choice("covariance", list(SHAPES)), read.floats("means", (k, None))
    shape, d = SHAPES[covariance], means.shape[1]
    covariances = read.floats("covariances", shape.array_shape(k, d))
    spread, smoothing = read.floats("spread", (d,)), read.number("smoothing", least=0.0)
    expanded = shape.expanded(covariances, k, d)
    if shape.axial:
        positive = bool((expanded > 0.0).all())
    else:
        with read.building("covariances"):
            positive = bool((np.linalg.eigvalsh(expanded) > 0.0).all())
        positive = positive and np.array_equal(expanded, np.swapaxes(expanded, 1, 2))
    if not positive:
        read.fail("covariances", "not positive definite")
    if not (spread > 0.0).all():
        read.fail("spread", "a variance is not positive")
    return GaussianComponents(means, covariances, covariance, CovariancePrior(spread, smoothing, floor))
