"""Mixture models as an estimator: clusters, densities, and classes that are known for few rows only."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Unpack

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_sample_weight, validate_data

from loglinear.arrays import Arrays, Float, Int32, Int64
from loglinear.data.columns.corpus import PYTHON, Column, Columns, offsets_of
from loglinear.data.tables import TableFile
from loglinear.errors import DataError, OptionError
from loglinear.estimators.estimator import (
    RunKeywords,
    TrainedEstimator,
    keep_outcome,
    read_notes,
    restore_notes,
    trains,
)
from loglinear.estimators.options import (
    COVARIANCE,
    FLOOR,
    HMM_COMPONENTS,
    KINDS,
    NAIVE_BAYES,
    VARIANCE,
    MixtureOptions,
    check_mixture,
    hmm_components,
)
from loglinear.estimators.summary import Summary, check_same_size, digest_of, from_counts, merged, options_of
from loglinear.estimators.tagger.file import whole_numbers
from loglinear.estimators.tagger.inputs import Annotation, annotation_of, corpus_of
from loglinear.features.tables import TableFeatures, kind_of
from loglinear.generative.em import EM, EMState
from loglinear.generative.hmm.components import HmmComponents, Sequences
from loglinear.generative.hmm.model import HiddenMarkovModel, OpenVocabulary, number_of_states
from loglinear.generative.mixture import (
    EMPTY,
    SHAPES,
    UNKNOWN,
    Components,
    CovariancePrior,
    ExpectedRows,
    GaussianComponents,
    MixtureModel,
    MultinomialComponents,
    NaiveBayesComponents,
    WeightedRows,
    start_model,
    warn_of_fall,
)
from loglinear.generative.naive_bayes import check_counts
from loglinear.model_file import GREATEST, Reader, column_arrays, string_arrays
from loglinear.options import Option, documented
from loglinear.system import thread_count
from loglinear.training.dev import Dev
from loglinear.training.problem import MAIN, Phase, Stage, Storage, example_weights
from loglinear.training.run import train
from loglinear.wording import how_many

KIND = "mixture"


@documented
class Mixture(MixtureOptions, TrainedEstimator[MixtureModel]):
    """A mixture of Gaussians, multinomials, naive Bayes models or hidden Markov models, by EM.

        p(x) = sum_k mu_k p(x given theta_k)                                                                (9.13)
        maximise  sum_i w_i log sum_k mu_k p(x_i given theta_k) + sum_k log p(theta_k)                      (9.15)

    (Zhang, section 9.5). Multinomials are naive Bayes without labels: ``X`` holds counts, dense or sparse. Gaussians
    take ``X`` dense; :mod:`~loglinear.generative.mixture` has the equations of their covariances, with
    prior and floor. Naive Bayes models (``"naive-bayes"``) are of tables: each column has a multinomial of its own,
    over its values or the words of its text; ``X`` is a table read by :mod:`loglinear.data`, a dict or data frame of
    columns, or rows of values (None: not known). Hidden Markov models (``"hmm:states=4"``) are of sequences, as for
    :class:`~loglinear.HMM`; their states are hidden or, without a number of them, known.

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
        Of multinomials and naive Bayes models, log theta.
    hmms_ : list of HiddenMarkovModel
        Of hidden Markov models: their probabilities.
    inputs_ : TableFeatures, SequenceInputs or None
        How tables and sequences become numbers: the values of each column, and the names of the states.
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
    inputs_: TableFeatures | SequenceInputs | None = None
    _over_parts = False  # whether the last rounds of EM were over parts

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.positive_only = self.family == "multinomial"
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
        states: Any = None,
        label_column: int = -1,
        partial: bool = False,
        init: Mixture | str | Path | None = None,
        **run: Unpack[RunKeywords],
    ) -> Mixture:
        """Run EM from each start and keep the best.

        Parameters
        ----------
        X : array [n, D], sparse matrix of counts, table or sequences
        y, y_dev
            Ignored, as in all clustering.
        X_dev : array [m, D], optional
            Rows to stop early by; the parameters with the greatest mean log p(x) of these are kept.
        known : sequence [n], optional
            The components of rows where they are known (semi-supervised learning), by number from 0 or by name; -1 or
            None elsewhere. Rows with a known component stay in it.
        sample_weight : array of float [n], optional
            How often each row counts.
        states : sequence of label sequences, optional
            Of hidden Markov models whose states are known: a label, None (any) or a set of labels for each token.
        label_column, partial
            The same for corpora: which column holds the states, and whether ``*`` and ``A|B`` mean any and either.
        init : Mixture or path, optional
            The only model to start from.
        KEYWORDS
        """
        check_mixture(self)
        examples = self._examples(X, reset=True)
        n = n_examples(examples)
        weights = self._weights(examples, n, sample_weight)
        numbers, names = known_components(known, n, self.n_components)
        counted = np.flatnonzero(weights > 0.0)
        if len(counted) < self.n_components:
            raise DataError(
                f"n_components={self.n_components} and n_samples={len(counted)}: there are fewer rows than components"
            )
        rows, every = self._learn_inputs(examples, counted, states, label_column, partial)
        weights, numbers = weights[counted], None if numbers is None else numbers[counted]
        data, even = WeightedRows(rows, weights, numbers), make_components(self, rows, weights)
        training = MixtureTraining(self, data, even, start_method(self, rows.shape[1]), names)
        model, outcome = train(training, self, dev=Dev.of(training, X_dev), init=self._opened(init), **run)
        state = outcome.state
        assert isinstance(state, EMState)
        self.model_, self.component_names_, self._over_parts = model, names, False
        self.objectives_, self.log_likelihoods_ = list(state.objectives), list(state.log_likelihoods)
        keep_outcome(self, outcome)
        self.n_iter_ = state.n_rounds
        self.labels_ = self.model_.best(every)
        outcome.raise_interruption()
        self._warn()
        return self

    def _warn(self) -> None:
        if not self.converged_ and self.rounds and self.dev_score_ is None:
            rounds = how_many(self.n_iter_ or 0, "round")
            warnings.warn(
                f"EM was stopped after {rounds}, before its objective had settled; give more rounds or a greater "
                "tolerance",
                ConvergenceWarning,
                stacklevel=4,
            )
        empty = np.flatnonzero(self.weights_ <= EMPTY)
        if len(empty):
            warnings.warn(
                f"no rows are left in component {', '.join(map(str, empty))}; take fewer components, more restarts or "
                "another smoothing (less where there are many values)",
                UserWarning,
                stacklevel=4,
            )

    def fit_predict(self, X: Any, y: Any = None, **options: Any) -> Int32:
        """Fit, and the component of each row [n]."""
        return self.fit(X, y, **options).labels_

    # -- parts ---------------------------------------------------------------------------------------------------

    def summarize(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, known: Any = None, states: Any = None
    ) -> Summary:
        """The E step of a part of the data under the model so far, for :meth:`from_summaries`.

        The first model is one that was fitted to a part of the data, or to a sample of it; it also says how tables and
        sequences become numbers. Arguments as for :meth:`fit`.
        """
        check_mixture(self)
        model, rows = self._fitted(), self._rows(X, states)
        n = rows.shape[0]
        weights, numbers = self._weights(X, n, sample_weight), self._known_numbers(known, n)
        counted = np.flatnonzero(weights > 0.0)
        if len(counted) < n:
            rows, weights = taken(rows, counted), weights[counted]
            numbers = None if numbers is None else numbers[counted]
        found = model.counted(rows, weights, numbers)
        return Summary(self.kind, options_of(self), found, self._digest())

    def from_summaries(self, summaries: Iterable[Summary | str | Path]) -> Mixture:
        """A round of EM over all parts: the most probable model, given what :meth:`summarize` expects in each.

            mixture.fit(sample)
            while not mixture.converged_:
                mixture.from_summaries(mixture.summarize(part) for part in parts)

        These rounds are those of ``fit(X, init=mixture)`` on all parts together, up to rounding. ``objectives_`` and
        ``log_likelihoods_`` are of the models that the rounds began with; ``converged_`` says whether the last one
        gained less than ``tolerance`` per row. There are no ``labels_``.

        Parameters
        ----------
        summaries : iterable of Summary or path
            What :meth:`summarize` made of each part with the model so far, or files of these.
        """
        check_mixture(self)
        model, digest = self._fitted(), self._digest()
        summary = merged(self, summaries)
        if summary.model != digest:
            raise OptionError("the summaries were made with another model than this one; make them again with this one")
        found: ExpectedRows = summary.counts
        with from_counts():
            after, objective = model.estimated(found)
            check_same_size(model.parameters, after.parameters)
        self.model_ = after
        if not self._over_parts:
            self.objectives_, self.log_likelihoods_, self._over_parts = [], [], True
            vars(self).pop("labels_", None)
        self.objectives_.append(objective)
        self.log_likelihoods_.append(found.log_likelihood)
        self.n_iter_, last = len(self.objectives_), self.objectives_[-2:]
        if len(last) == 2:
            warn_of_fall(last[0], last[1], found.size + abs(objective - found.log_likelihood), self.n_iter_)
        self.converged_ = len(last) == 2 and last[1] - last[0] <= self.tolerance * found.weight
        how = "converged" if self.converged_ else "not yet converged"
        self.message_ = f"{how} after {how_many(self.n_iter_, 'round')} over parts"
        self.objective_, self.seconds_, self.history_ = -objective, None, []
        self.dev_score_ = self.best_iteration_ = None
        return self

    def _digest(self) -> str:
        return digest_of(self._fitted().parameters, None if self.inputs_ is None else _described(self.inputs_))

    # -- using ---------------------------------------------------------------------------------------------------

    def predict(self, X: Any, *, states: Any = None) -> Int32:
        """The most probable component of each row [n]; ``states`` of hidden Markov models as in :meth:`fit`."""
        rows = self._rows(X, states)
        return self.model_.best(rows)

    def predict_proba(self, X: Any, *, states: Any = None) -> Float:
        """p(k given x) [n, K] (9.14); the components' weights where none of them can make the row."""
        rows = self._rows(X, states)
        return self.model_.posterior(rows)

    def score_samples(self, X: Any, *, states: Any = None) -> Float:
        """log p(x) of each row [n], or log p(x, states); of counts without the coefficient and the length's term.

        A sequence's length is part of its probability; all values that the model does not know count as one.
        """
        rows = self._rows(X, states)
        return self.model_.log_likelihoods(rows)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log p(x) of the rows."""
        return float(self.score_samples(X).mean())

    def log_likelihood(self, X: Any, known: Any = None, *, sample_weight: Any = None, states: Any = None) -> float:
        """sum_i w_i log p(x_i) or, for rows of a ``known`` component (as in :meth:`fit`), log p(x_i, k)."""
        rows = self._rows(X, states)
        n = rows.shape[0]
        weights = self._weights(X, n, sample_weight)
        if known is None:
            return float(weights @ self.model_.log_likelihoods(rows))
        return self.model_.expected(rows, weights, self._known_numbers(known, n)).log_likelihood

    def _known_numbers(self, known: Any, n: int) -> Int32 | None:
        """The components of rows [n] where they are ``known`` by number or by name, -1 elsewhere."""
        if known is None:
            return None
        named = {name: k for k, name in enumerate(self.component_names_) if name is not None}
        if strange := [value for value in known if isinstance(value, str) and value not in named]:
            raise DataError(f"known: no component is called {strange[0]!r}; named are: {', '.join(named) or 'none'}")
        given = [named[value] if isinstance(value, str) else value for value in known]
        return known_components(given, n, self.n_components)[0]

    def bic(self, X: Any, known: Any = None, *, sample_weight: Any = None, states: Any = None) -> float:
        """-2 log-likelihood + (free parameters) log n: the smaller the better; n is the sum of the weights."""
        log_p = self.log_likelihood(X, known, sample_weight=sample_weight, states=states)
        n = n_examples(X) if sample_weight is None else float(np.sum(sample_weight))
        return float(-2.0 * log_p + self.model_.n_parameters * np.log(n))

    def aic(self, X: Any, known: Any = None, *, sample_weight: Any = None, states: Any = None) -> float:
        """-2 log-likelihood + 2 (free parameters): the smaller the better."""
        log_p = self.log_likelihood(X, known, sample_weight=sample_weight, states=states)
        return -2.0 * log_p + 2.0 * self.model_.n_parameters

    def sample(self, n_samples: int = 1, seed: int = 0) -> tuple[Any, Int32]:
        """Rows and their components [n], drawn.

        Counts are sparse, their lengths Poisson. Of a table, a row is a list of its columns' values (None: not known;
        a list of words for text). Of sequences, a row is a list of tokens, strings or tuples of them.
        """
        self._fitted()
        Option("n_samples", 1, "", least=1, kind=int).check(n_samples)
        rows, components = self.model_.sample(n_samples, np.random.default_rng(seed))
        if isinstance(self.inputs_, SequenceInputs):
            return self.inputs_.tokens(rows), components
        return rows if self.inputs_ is None else cells_of(rows, self.inputs_), components

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
        """log theta [K, D] of multinomials and of naive Bayes models, whose columns are ``inputs_.names``."""
        if not isinstance(self.model_.components, MultinomialComponents | NaiveBayesComponents):
            raise AttributeError("feature_log_prob_ is there for components='multinomial' and 'naive-bayes'")
        return self.model_.components.log_theta

    @property
    def hmms_(self) -> list[HiddenMarkovModel]:
        """Hidden Markov models."""
        if not isinstance(self.model_.components, HmmComponents):
            raise AttributeError("hmms_ is there for components='hmm'")
        return list(self.model_.components.models)

    def _gaussians(self, name: str) -> GaussianComponents:
        if not isinstance(self.model_.components, GaussianComponents):
            raise AttributeError(f"{name} is there for components='gaussian'")
        return self.model_.components

    # -- from what users hand over to rows in numbers ----------------------------------------------------------------

    def _examples(self, X: Any, reset: bool = False) -> Any:
        """Checked rows: float64 numbers, a table or a corpus; with ``reset``, to fit a model."""
        if self.family == HMM_COMPONENTS:
            return corpus_of(X, as_rows=True)
        if self.family == NAIVE_BAYES:
            return table_of(X)
        counts = self.family == "multinomial"
        rows = validate_data(self, X, accept_sparse="csr" if counts else False, dtype=np.float64, reset=reset)
        if counts:
            check_counts(rows)
        return rows

    def _weights(self, X: Any, n: int, sample_weight: Any) -> Float:
        if sample_weight is None:
            return np.ones(n)
        if self.family in (HMM_COMPONENTS, NAIVE_BAYES):
            return example_weights(sample_weight, n)
        return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)

    def _learn_inputs(
        self, examples: Any, counted: Int64, states: Any, label_column: int, partial: bool
    ) -> tuple[Any, Any]:
        """Learn from the ``counted`` examples how they become numbers: these as training sees them, and all of them."""
        if self.family == HMM_COMPONENTS:
            n_states = hmm_components(self.components)["states"]
            self.inputs_, rows, every = SequenceInputs.fit(examples, counted, n_states, states, label_column, partial)
            self.n_features_in_ = rows.shape[1]
            return rows, every
        if states is not None:
            raise OptionError(f"states: components={self.components!r} have none; leave them out")
        own = examples if len(counted) == n_examples(examples) else taken(examples, counted)
        if self.family != NAIVE_BAYES:
            return own, examples
        self.inputs_ = features_of(own, self.kinds, self.text, self.min_count)
        self.n_features_in_ = len(self.inputs_.columns)
        self.feature_names_in_ = np.array([column.name for column in self.inputs_.columns], dtype=object)
        return self.inputs_.matrix(own), self.inputs_.matrix(examples)

    def _rows(self, X: Any, states: Any = None) -> Any:
        """Rows in numbers, for a fitted model."""
        self._fitted()
        return self._in_numbers(X, states)

    def _in_numbers(self, X: Any, states: Any = None) -> Any:
        examples = self._examples(X)
        if isinstance(self.inputs_, SequenceInputs):
            return self.inputs_.rows(examples, states)
        if states is not None:
            raise OptionError(f"states: components={self.components!r} have none; leave them out")
        return examples if self.inputs_ is None else self.inputs_.matrix(examples)

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
        parts, more = to_storage(theta, self.inputs_)
        return header | parts, arrays | more

    @classmethod
    def _read_options(cls, read: Reader) -> dict[str, Any]:
        options = read.options()
        if options.get("start") is None:
            options["start"] = read.floats("start", (None, None))
        else:
            read.section("options").text("start")
        return options

    def _restore(self, read: Reader, given: Mapping[str, Any]) -> None:
        k, notes = self.n_components, read_notes(read)
        restore_notes(self, notes)
        floor = FLOOR if self.floor is None else float(self.floor)
        self.model_, self.inputs_ = from_storage(read, k, floor, self.threads)
        if read.value("components") != self.family:
            read.fail("components", "the components are not of the kind that the options say")
        names = read.value("names")
        if not isinstance(names, list) or len(names) != k or not all(n is None or isinstance(n, str) for n in names):
            read.fail("names", f"not a name, or null, for each of {k} components")
        self.component_names_ = names
        self.n_features_in_ = n_columns_of(self.model_.components, self.inputs_)
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
        same = same and init.inputs_ == self.mixture.inputs_
        covariances = [getattr(each, "covariance", None) for each in (theirs, self.even)]
        if not same or theirs.n_components != self.even.n_components or covariances[0] != covariances[1]:
            raise OptionError(
                "init: a mixture of other components, of other columns or of other values in them, has no parameters "
                "in common"
            )
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
        return [
            *arrays_of(self.data.x),
            self.data.weights,
            self.data.known,
            None if isinstance(self.method, str) else self.method,
        ]

    def identity(self, options: Any) -> dict[str, Any]:
        return {
            "names": self.names,
            "inputs": None if self.mixture.inputs_ is None else _described(self.mixture.inputs_),
        }

    def dev_data(self, X: Any, y: Any) -> DevRows:
        return DevRows(self.mixture._in_numbers(X))


@dataclass(frozen=True)
class DevRows:
    """Rows to stop early by."""

    x: Any

    def score(self, model: MixtureModel) -> float:
        """Mean log p(x)."""
        return float(model.log_likelihoods(self.x).mean())

    @property
    def arrays(self) -> list[Any]:
        return arrays_of(self.x)


# ----------------------------------------------------------------------------------------------------------------------
# From options and arguments to components, centres to start from, and known components.


def arrays_of(x: Any) -> list[Any]:
    """The arrays that rows in numbers are made of."""
    if isinstance(x, Sequences):
        return x.arrays
    return [x.indptr, x.indices, x.data] if sparse.issparse(x) else [x]


def make_components(mixture: Any, x: Any, weights: Float) -> Components:
    """Identical components of the kind that the options ask for."""
    k, smoothing = mixture.n_components, 1.0 if mixture.smoothing is None else float(mixture.smoothing)
    if mixture.family == "multinomial":
        return MultinomialComponents.even(x, weights, k, smoothing)
    if mixture.family == NAIVE_BAYES:
        return NaiveBayesComponents.even(x, weights, k, smoothing, first_columns(mixture.inputs_))
    if mixture.family == HMM_COMPONENTS:
        inputs, how = mixture.inputs_, hmm_components(mixture.components)
        sizes = [len(values) for values in inputs.vocabulary.values]
        return HmmComponents.even(
            k, len(inputs.states), how["order"], sizes, smoothing, how["transition_smoothing"],
            thread_count(mixture.threads),
        )  # fmt: skip
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
        raise OptionError(
            f"start must be a name or an array of {mixture.n_components} centres of {how_many(n_columns, 'column')}"
        )
    if mixture.family == "multinomial" and centres.min() < 0:
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
        raise DataError(f"X has {how_many(n, 'row')}, but known {how_many(len(values), 'entry')}")
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
# Tables and sequences as the rows of a mixture.


def n_examples(X: Any) -> int:
    """The number of rows in what users hand over."""
    return len(X) if isinstance(X, Columns | TableFile) or not hasattr(X, "shape") else int(X.shape[0])


def taken(examples: Any, rows: Any) -> Any:
    """Some of the rows (numbers) of a matrix, a table or a corpus."""
    return examples.select(rows) if isinstance(examples, Columns | TableFile) else examples[rows]


def table_of(X: Any) -> TableFile:
    """The user's rows as a table: one read from a file, columns by name (a dict, a data frame), or rows of values."""
    if isinstance(X, TableFile):
        return X
    if hasattr(X, "columns") and hasattr(X, "__getitem__") and not isinstance(X, Mapping):
        X = {str(name): X[name].tolist() for name in X.columns}
    if isinstance(X, Mapping):
        columns = {str(name): [_cell(value) for value in cells] for name, cells in X.items()}
    else:
        if isinstance(X, str | bytes) or sparse.issparse(X) or not hasattr(X, "__iter__"):
            raise DataError(f"X is a {type(X).__name__}, not a table: give rows of values, or a dict of columns")
        rows = [list(row) if isinstance(row, Sequence | np.ndarray) and not isinstance(row, str) else None for row in X]
        if not rows or None in rows or len({len(row) for row in rows if row is not None}) != 1:
            raise DataError("X is not a table: give rows of as many values each, or a dict of columns")
        columns = {f"x{j}": [_cell(row[j]) for row in rows if row is not None] for j in range(len(rows[0] or ()))}
    lengths = {len(cells) for cells in columns.values()}
    if len(lengths) != 1 or not all(lengths):
        raise DataError("X is not a table: it needs columns, each with as many values, and at least one")
    return TableFile(PYTHON, columns, list(range(1, lengths.pop() + 1)))


def _cell(value: Any) -> str:
    return "" if value is None or value != value else str(value)


def features_of(table: TableFile, kinds: Any, text: str, min_count: int) -> TableFeatures:
    """How the columns of a training table become blocks of a matrix; numbers are names of values here."""
    given = dict(kinds or {})
    for name, kind in given.items():
        if kind not in ("category", "text"):
            raise OptionError(f"kinds: column {name!r} cannot be a {kind!r} here; there are category and text")
    chosen = {name: given.get(name) or kind_of(cells) for name, cells in table.columns.items()}
    found = TableFeatures.fit(
        table, given | {name: "category" if kind == "number" else kind for name, kind in chosen.items()}, text=text,
        min_count=min_count,
    )  # fmt: skip
    for column in found.columns:
        if not column.names:
            raise DataError(
                f"column {column.name!r} holds no value that occurs {min_count} times; leave it out", table.file
            )
    return found


def first_columns(features: TableFeatures) -> Int64:
    """The first column [A] of each attribute in the matrix of a table."""
    return offsets_of([len(column.names) for column in features.columns])[:-1]


def cells_of(rows: Any, features: TableFeatures) -> list[list[Any]]:
    """Rows of a matrix as those of a table: the value of each column (None: not known), or a list of its words."""
    found: list[list[Any]] = [[] for _ in range(rows.shape[0])]
    for column, first in zip(features.columns, first_columns(features).tolist(), strict=True):
        own = rows[:, first : first + len(column.names)].tocsr()
        for i, cells in enumerate(found):
            part = slice(own.indptr[i], own.indptr[i + 1])
            counts = zip(own.indices[part].tolist(), own.data[part].astype(int).tolist(), strict=True)
            values = [column.strings[j] for j, count in counts for _ in range(count)]
            cells.append(values if column.kind == "text" else values[0] if values else None)
    return found


@dataclass(frozen=True)
class SequenceInputs:
    """How sequences become numbers.

    Parameters
    ----------
    vocabulary : OpenVocabulary
        The observed columns, and the known values of each.
    states : tuple of str
        The states' names; numbers if they were to be found.
    """

    vocabulary: OpenVocabulary
    states: tuple[str, ...]

    @classmethod
    def fit(
        cls, corpus: Columns, counted: Int64, n_states: int | None, states: Any, label_column: int, partial: bool
    ) -> tuple[SequenceInputs, Sequences, Sequences]:
        """Learn from the ``counted`` sequences: the inputs, these sequences in numbers, and all of them.

        A value that occurs once is unknown. The first occurrences of others are not, as they are to an HMM: they would
        set the first sequences apart from all others, and be a cluster.
        """
        columns = list(range(corpus.n_columns))
        if n_states is not None:
            if states is not None:
                raise OptionError(f"states={n_states} are to be found, but the states are given as well; give one")
            names, gold = [str(y) for y in range(n_states)], None
        else:
            hidden = "; if the states are hidden, say how many to find (hmm:states=4)"
            if states is None and corpus.name == PYTHON:
                raise DataError(f"the states of the tokens are missing{hidden}")
            annotation = annotation_of(corpus, states, label_column, partial, hidden)
            names = annotation.label_set(hidden)
            gold = annotation.gold(names)
            if states is None:
                columns.remove(label_column % corpus.n_columns)
        if not columns:
            raise DataError("there is no column but the states for the components to emit", corpus.name)
        vocabulary, _ = OpenVocabulary.fit(corpus.select(counted), columns)
        every = Sequences(vocabulary.fields(vocabulary.transform(corpus)), corpus.offsets, gold)
        return cls(vocabulary, tuple(names)), every if len(counted) == len(every) else every[counted], every

    def rows(self, corpus: Columns, states: Any = None) -> Sequences:
        """Sequences in numbers, with their states as far as they are given."""
        gold = None
        if states is not None:
            annotation = states if isinstance(states, Annotation) else Annotation.from_python(states, corpus.offsets)
            gold = annotation.gold(self.states)
        fields = self.vocabulary.fields(self.vocabulary.transform(corpus))
        return Sequences(fields, corpus.offsets, gold)

    def tokens(self, rows: Sequences) -> list[list[Any]]:
        """Sequences of tokens; a token is a string, or a tuple of several."""
        columns = [Column(ids, values) for ids, values in zip(rows.fields, self.vocabulary.values, strict=True)]
        corpus = Columns(PYTHON, rows.offsets, np.zeros(int(rows.offsets[-1]), dtype=np.int64), columns)
        sequences: list[list[Any]] = list(corpus.rows())
        return [[token[0] for token in each] for each in sequences] if len(columns) == 1 else sequences


def _described(inputs: TableFeatures | SequenceInputs) -> Any:
    """What tells one way to numbers from another, for a checkpoint."""
    if isinstance(inputs, SequenceInputs):
        return [list(inputs.vocabulary.columns), inputs.vocabulary.values, list(inputs.states)]
    return [inputs.to_header(), inputs.strings]


# ----------------------------------------------------------------------------------------------------------------------
# How a mixture is stored in a model file, and read back.
#
# header   options, components (the family), names, training (rounds, converged, message), source (free notes on how
#          columns were made, for the command line); smoothing, and by family
#          gaussian     covariance                                    multinomial   mean_length
#          naive-bayes  table (columns and their kinds)               hmm           order, transition_smoothing, states,
#                                                                                   columns, sizes (values of each)
# arrays   log_weights [K], log_likelihoods, objectives; start [K, D] if centres were given; columns (packed strings)
#          gaussian     means [K, D], covariances, spread [D]         multinomial   log_theta [K, D]
#          naive-bayes  log_theta [K, D], mean_lengths [A], single [A], strings (packed)
#          hmm          steps [K, states + 1, Y + 1], emissions [K, Y, sum of sizes], strings (packed)


def to_storage(theta: Any, inputs: TableFeatures | SequenceInputs | None) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of the components, and of what makes rows for them."""
    if isinstance(theta, MultinomialComponents):
        header = {"components": "multinomial", "mean_length": theta.mean_length, "smoothing": theta.smoothing}
        return header, {"log_theta": theta.log_theta}
    if isinstance(theta, GaussianComponents):
        header = {"components": "gaussian", "covariance": theta.covariance, "smoothing": theta.prior.smoothing}
        return header, {"means": theta.means, "covariances": theta.covariances, "spread": theta.prior.spread}
    if isinstance(inputs, TableFeatures):
        header = {"components": NAIVE_BAYES, "smoothing": theta.smoothing, "table": inputs.to_header()}
        arrays: Arrays = {
            "log_theta": theta.log_theta, "mean_lengths": theta.mean_lengths, "single": theta.single.astype(np.uint8),
            **string_arrays("strings", inputs.strings),
        }  # fmt: skip
        return header, arrays
    assert isinstance(theta, HmmComponents) and isinstance(inputs, SequenceInputs)
    vocabulary = inputs.vocabulary
    header = {
        "components": HMM_COMPONENTS, "smoothing": theta.smoothing, "transition_smoothing": theta.transition_smoothing,
        "order": theta.models[0].order, "states": list(inputs.states), "columns": list(vocabulary.columns),
        "sizes": theta.sizes,
    }  # fmt: skip
    arrays = {
        "steps": np.stack([model.steps for model in theta.models]),
        "emissions": np.stack([np.concatenate(model.emissions, axis=1) for model in theta.models]),
        **string_arrays("strings", [value for values in vocabulary.values for value in values]),
    }
    return header, arrays


def n_columns_of(theta: Any, inputs: TableFeatures | SequenceInputs | None) -> int:
    """How many columns of the user's data the components look at."""
    if inputs is None:
        return int((theta.log_theta if isinstance(theta, MultinomialComponents) else theta.means).shape[1])
    return len(inputs.columns if isinstance(inputs, TableFeatures) else inputs.vocabulary.columns)


def from_storage(
    read: Reader, k: int, floor: float, threads: int | None = None
) -> tuple[MixtureModel, TableFeatures | SequenceInputs | None]:
    """The model of a file, of ``k`` components, and what makes rows for it; ``floor`` is that of Gaussians."""
    theta: Components
    inputs: TableFeatures | SequenceInputs | None = None
    family = read.choice("components", KINDS)
    if family == NAIVE_BAYES:
        theta, inputs = _naive_bayes(read, k)
    elif family == HMM_COMPONENTS:
        theta, inputs = _hmms(read, k, thread_count(threads))
    else:
        theta = _multinomials(read, k) if family == "multinomial" else _gaussians(read, k, floor)
    return MixtureModel(read.log_shares("log_weights", k), theta), inputs


def _naive_bayes(read: Reader, k: int) -> tuple[NaiveBayesComponents, TableFeatures]:
    with read.building("table"):
        features = TableFeatures.from_storage(read.section("table").header, read.strings("strings"))
    if any(column.kind == "number" or not column.names for column in features.columns):
        read.fail("table", "a column of numbers, or one without values")
    n, d = len(features.columns), len(features.names)
    log_theta, lengths = read.floats("log_theta", (k, d)), read.floats("mean_lengths", (n,), 0.0, GREATEST)
    first, single = first_columns(features), read.ints("single", (n,), 2).astype(bool)
    if not np.allclose(np.add.reduceat(np.exp(log_theta), first, axis=1), 1.0, atol=1e-6):
        read.fail("log_theta", "the probabilities do not add up to one")
    return NaiveBayesComponents(log_theta, first, read.number("smoothing", above=0.0), lengths, single), features


def _hmms(read: Reader, k: int, n_threads: int) -> tuple[HmmComponents, SequenceInputs]:
    states, strings = read.names("states"), read.strings("strings")
    columns, sizes = whole_numbers(read, "columns"), whole_numbers(read, "sizes", least=1)
    if len(columns) != len(sizes) or len(strings) != sum(sizes):
        read.fail("sizes", "the values do not fit the columns")
    order, y = read.choice("order", (1, 2)), len(states)
    steps = read.floats("steps", (k, number_of_states(y, order) + 1, y + 1), 0.0, 1.0)
    emissions = read.floats("emissions", (k, y, len(strings)), 0.0, 1.0)
    ends = np.cumsum(sizes)
    tables = [np.split(each, ends[:-1], axis=1) for each in emissions]
    whole = [np.allclose(table.sum(axis=1), 1.0, atol=1e-6) for each in tables for table in each]
    if not np.allclose(steps.sum(axis=2), 1.0, atol=1e-6) or not all(whole):
        read.fail("steps", "the probabilities do not add up to one")
    models = tuple(
        HiddenMarkovModel(order, y, own, [np.ascontiguousarray(table) for table in each])
        for own, each in zip(steps, tables, strict=True)
    )
    smoothing = read.number("smoothing", least=0.0), read.number("transition_smoothing", least=0.0)
    values = [strings[end - size : end] for end, size in zip(ends.tolist(), sizes, strict=True)]
    inputs = SequenceInputs(OpenVocabulary(tuple(columns), values), tuple(states))
    return HmmComponents(models, *smoothing, n_threads), inputs


def _multinomials(read: Reader, k: int) -> MultinomialComponents:
    length, smoothing = read.length("mean_length"), read.number("smoothing", above=0.0)
    return MultinomialComponents(read.log_rows("log_theta", (k, None)), smoothing, length)


def _gaussians(read: Reader, k: int, floor: float) -> GaussianComponents:
    covariance, means = read.choice("covariance", list(SHAPES)), read.floats("means", (k, None))
    shape, d = SHAPES[covariance], means.shape[1]
    covariances = read.floats("covariances", shape.array_shape(k, d))
    spread, smoothing = read.floats("spread", (d,)), read.number("smoothing", least=0.0)
    expanded = shape.expanded(covariances, k, d)
    if shape.axial:
        positive = bool((expanded > 1.0 / GREATEST).all())
    else:
        with read.building("covariances"):
            positive = bool((np.linalg.eigvalsh(expanded) > 1.0 / GREATEST).all())
        positive = positive and np.array_equal(expanded, np.swapaxes(expanded, 1, 2))
    if not positive:
        read.fail("covariances", "not positive definite")
    if not (spread > 0.0).all():
        read.fail("spread", "a variance is not positive")
    return GaussianComponents(means, covariances, covariance, CovariancePrior(spread, smoothing, floor))
