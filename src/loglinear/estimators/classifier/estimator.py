"""The classifier: flat labels behind scikit-learn's conventions (Zhang, sections 9.1 to 9.4)."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, Unpack

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from loglinear import model_file
from loglinear.arrays import Array, Arrays, Float, Int64
from loglinear.criteria.costs import describe
from loglinear.criteria.criterion import CRITERIA
from loglinear.errors import DataError, OptionError
from loglinear.estimators.classifier import file as classifier_file
from loglinear.estimators.classifier.inputs import NUMBERS, NumberRows, TableRows, TemplateRows, made_features
from loglinear.estimators.classifier.model import CandidateModel, KernelModel, LinearModel
from loglinear.estimators.classifier.problem import ClassifierTraining, prepared, split_labels
from loglinear.estimators.conventions import ClassifierConventions, OfferedIf
from loglinear.estimators.estimator import (
    RunKeywords,
    TrainedEstimator,
    keep_outcome,
    notes_of,
    read_notes,
    restore_notes,
    trains,
)
from loglinear.estimators.growing import Stream, advanced, continued, note_of, stream_optimizer
from loglinear.estimators.options import (
    NAIVE_BAYES,
    ONE_VERSUS_ALL,
    ClassifierOptions,
    check_classifier,
    classifier_training,
    learns_from_counts,
    own_base,
)
from loglinear.model_file import Reader, plain
from loglinear.options import documented, spec_name
from loglinear.structures.flat.features import FlatFeatures
from loglinear.system import thread_count
from loglinear.training.dev import Dev
from loglinear.training.plan import refuse_iterating

Trained = LinearModel | KernelModel | CandidateModel
LINEAR, OF_KERNELS = ("coef_",), ("dual_coef_", "support_", "support_vectors_")  # attributes that models of a kind have


@documented
class Classifier(ClassifierOptions, TrainedEstimator[Trained], ClassifierConventions):
    """Gives each example one of several labels, by linear scores, or by those of a kernel.

    The objective is the sum of the losses + l1 |w| + l2 ||w||^2. With two labels there is one weight vector, as in
    (9.10), so that ``criterion="cll"`` with ``l2=0.5 / C`` is scikit-learn's ``LogisticRegression(C=C)``, and
    ``"max-margin"`` with a penalised bias its ``LinearSVC(C=C, loss="hinge")``.

    ``X`` is an array, a data frame or a SciPy sparse matrix of numbers; a list of strings (documents, counted as
    ``text`` says); a list of dicts or of lists of names (Python features); with a ``template``, a list of examples that
    are sequences of rows (lists) or one row (a tuple of strings); a table; with ``features`` or a ``feature_map``, a
    list of anything.

    PARAMETERS

    Attributes
    ----------
    classes_ : array [Y]
        The labels, sorted.
    coef_ : float64 [R, A]
        Weights, R = 1 with two labels, else Y. With a ``feature_map``: [1, D].
    intercept_ : float64 [R]
    dual_coef_ : float64 [R, M]
        With a ``kernel``, the coefficients of M support rows; ``coef_`` exists for the linear kernel alone.
    support_ : int64 [M]
        With a ``kernel``, the numbers of the support rows in the training data.
    support_vectors_ : array or sparse matrix [M, A]
        With a ``kernel``, the support rows.
    n_features_in_ : int
    feature_names_in_ : array of str [A]
        The columns' names, if they have any.
    model_ : LinearModel, KernelModel or CandidateModel
    objective_, n_iter_, converged_, message_, seconds_, history_ : how training went.
    dev_score_, best_iteration_ : score and iteration of the weights kept, None without dev data.
    stream_ : Stream or None
        Where :meth:`partial_fit` goes on; None after :meth:`fit`.
    n_examples_ : int or None
        How many examples the model was trained on; None if that is not known.
    label_column_ : str or None
        For tables, the column of the labels.
    """

    kind = classifier_file.KIND
    functions = ("features", "feature_map", "candidates", "base", "kernel")
    in_file = ("model_", "stream_", "classes_", "intercept_", *LINEAR, *OF_KERNELS)
    classes_: Array
    coef_: Float
    intercept_: Float
    dual_coef_: Float
    support_: Int64
    support_vectors_: Any
    n_features_in_: int
    feature_names_in_: Array
    label_column_: str | None
    stream_: Stream | None = None
    n_examples_: int | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = learns_from_counts(self.criterion)
        tags.classifier_tags.poor_score = spec_name(self.criterion) == NAIVE_BAYES
        return tags

    @property
    def kinds_(self) -> dict[str, str] | None:
        """What the columns of the table are, None if the model was not trained on one."""
        encoder = self._fitted().encoder
        return encoder.features.kinds if isinstance(encoder, TableRows) else None

    # -- training ------------------------------------------------------------------------------------------------

    @trains
    def fit(
        self,
        X: Any,
        y: Any = None,
        X_dev: Any = None,
        y_dev: Any = None,
        *,
        sample_weight: Any = None,
        init: Classifier | str | Path | None = None,
        label_column: str | None = None,
        **run: Unpack[RunKeywords],
    ) -> Classifier:
        """Train.

        Parameters
        ----------
        X, y
            Examples and their labels.
        X_dev, y_dev
            Data to stop early by; the weights with the best accuracy on it are kept.
        sample_weight : array of float [S], optional
            Weight of each example's loss.
        init : Classifier or path, optional
            Start from the weights of this model where it has the same columns and labels.
        KEYWORDS
        label_column : str, optional
            For tables, instead of ``y`` and ``y_dev``: the column that holds the labels.
        """
        check_classifier(self)
        self.label_column_ = label_column
        if label_column is not None:
            X, y = split_labels(X, y, label_column)
            if X_dev is not None:
                X_dev, y_dev = split_labels(X_dev, y_dev, label_column)
        problem = prepared(self, X, y, sample_weight, thread_count(self.threads))
        training = ClassifierTraining(self, problem, problem.parts(self))
        if training.in_closed_form:
            refuse_iterating(spec_name(self.criterion), "has a closed form", init=init, dev=X_dev)
            model, outcome = training.solved()
        else:
            start = None if init is None else self._started(init)
            model, outcome = training.trained(dev=Dev.of(training, X_dev, y_dev), init=start, **run)
        self._set_model(model)
        self.stream_, self.n_examples_ = None, len(problem.gold)
        keep_outcome(self, outcome)
        outcome.raise_interruption()
        moved = self.coef_ if self.kernel is None else self.dual_coef_
        if not self.converged_ and self.max_iter != 0 and not moved.any():
            said = "training did not get anywhere, all weights are zero; columns of very large numbers are to be scaled"
            warnings.warn(f"{said} ({self.message_})", ConvergenceWarning, stacklevel=3)
        return self

    @OfferedIf(lambda estimator: check_growing(estimator))
    def partial_fit(
        self, X: Any, y: Any = None, classes: Any = None, *, sample_weight: Any = None, label_column: str | None = None
    ) -> Classifier:
        """Go on training with more data: one pass over it by steps of an online learner, of sgd or of adagrad.

        Labels, words, names and attributes of templates that are new join those that the model has, with weights of
        zero; columns of numbers and of tables stay those of the first call. ``optimizer=None`` means the online
        learner's own steps, else ``sgd``. Every call goes on where the one before ended, also after the model was saved
        and loaded; averages are those of all steps since the first call. After :meth:`fit`, the first call starts from
        the weights that it found.

        Parameters
        ----------
        X, y, sample_weight, label_column
            As for :meth:`fit`.
        classes : array of labels, optional
            Labels that the model is to have from now on, whether or not this data has them; needed where the first data
            has one label alone.
        """
        check_classifier(self)
        optimizer = check_growing(self)
        if label_column is not None:
            X, y = split_labels(X, y, label_column)
        began, n_threads = time.perf_counter(), thread_count(self.threads)
        model = self.model_ if hasattr(self, "model_") else None
        if not isinstance(model, LinearModel | None) or (model is not None and model.one_versus_all):
            raise OptionError("partial_fit: the model so far is not one of linear functions of all labels at once")
        problem = prepared(self, X, y, sample_weight, n_threads, model, classes)
        part = problem.parts(self)[0]
        assert isinstance(part.features, FlatFeatures)
        stream, start = continued(self.stream_, self, optimizer), np.zeros(part.features.n_features)
        if model is not None:
            columns = problem.encoder.places_of(model.encoder)  # type: ignore[union-attr]  # of rows, as the model's
            known = replace(part.features, n_columns=model.encoder.n_columns, n_labels=len(model.labels))
            before = replace(part, features=known)

            def placed(weights: Float) -> Float:
                return part.grown_weights(weights, model.labels, known, columns)

            start = placed(before.weights_of(model.scores, spec_name(self.criterion)))
            fits = stream is not None and len(stream.state.current) == known.n_features  # not with another bias
            stream = stream.moved(placed) if stream is not None and fits else None
        n_before = 0 if model is None else self.n_examples_
        stream = advanced(part, self, optimizer, start, stream, len(problem.gold), n_threads, n_before)
        self.label_column_, self.stream_, self.n_examples_ = label_column, stream, stream.n_examples
        training = ClassifierTraining(self, problem, [part])
        self._set_model(training.trained_model([stream.state.weights]))
        self.objective_, self.n_iter_ = float(stream.state.value), stream.calls
        self.converged_, self.message_, self.history_ = False, note_of(stream), []
        self.dev_score_ = self.best_iteration_ = None
        self.seconds_ = time.perf_counter() - began
        return self

    def _started(self, init: Classifier | str | Path) -> Trained:
        """The model that training starts from."""
        own = self.kernel if callable(self.kernel) and not isinstance(init, Classifier) else None
        model = (init if isinstance(init, Classifier) else Classifier.load(init, kernel=own))._fitted()
        for name, kind in (("feature_map", CandidateModel), ("kernel", KernelModel)):
            if isinstance(model, kind) != (getattr(self, name) is not None):
                raise OptionError(f"init: a model with a {name} and one without have no weights in common")
        return model

    def _set_model(self, model: Trained) -> None:
        """Set the model, and its parts under scikit-learn's names."""
        for name in (*LINEAR, *OF_KERNELS):
            vars(self).pop(name, None)
        self.model_, self.classes_ = model, model.labels
        if isinstance(model, CandidateModel):
            names: list[str] | None = model.encoder.names.names()
            self.n_features_in_ = len(model.weights)
            self.coef_, self.intercept_ = model.weights[np.newaxis], np.zeros(1)
        else:
            named = not isinstance(model.encoder, NumberRows) or model.encoder.columns is not None
            names = model.encoder.names() if named else None
            self.n_features_in_ = model.encoder.n_columns
            linear = model.linear if isinstance(model, KernelModel) else model.scores
            self.intercept_ = model.scores.intercept
            if linear is not None:
                self.coef_, self.intercept_ = linear.coef, linear.intercept
        if isinstance(model, KernelModel):
            self.dual_coef_, self.support_, self.support_vectors_ = model.scores.coef, model.numbers, model.support
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    # -- use -----------------------------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> Float:
        """Scores: [S] with two labels, that of the second less that of the first, else [S, Y]."""
        model, data = self._encoded(X)
        if isinstance(model, CandidateModel):
            scores = model.scores(data)
            return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores
        decision = model.decision(data)
        return decision[:, 0] if decision.shape[1] == 1 else decision

    def predict(self, X: Any) -> Array:
        """The label of each example [S], that with the best score."""
        model, data = self._encoded(X)
        return self.classes_[model.best(data)]

    def predict_log_proba(self, X: Any) -> Float:
        """Log-probabilities of the labels [S, Y]."""
        model, data = self._encoded(X)
        return model.log_probabilities(data)

    def predict_proba(self, X: Any) -> Float:
        """Probabilities of the labels [S, Y]; those of other criteria than likelihoods are not calibrated."""
        return np.exp(self.predict_log_proba(X))

    def predict_nbest(self, X: Any, k: int = 5) -> list[list[tuple[Any, float]]]:
        """For each example its ``k`` most probable labels, best first, with their probabilities."""
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
            raise OptionError(f"k={k!r} must be a whole number from 1 up")
        probabilities, labels = self.predict_proba(X), self.classes_.tolist()
        order = np.argsort(-probabilities, axis=1, kind="stable")[:, :k]
        return [
            [(labels[y], float(row[y])) for y in best if row[y] > 0.0]
            for row, best in zip(probabilities, order.tolist(), strict=True)
        ]

    def explain(self, x: Any) -> dict[Any, dict[str, float]]:
        """For each label what each feature of one example, and the bias, adds to its score, strongest first.

        With two labels the scores are half the decision function, and that with the other sign. With a kernel, what
        each support row adds.
        """
        kind = getattr(getattr(self._fitted(), "encoder", None), "kind", None)
        model, data = self._encoded(x if kind == NUMBERS and getattr(x, "ndim", 1) == 2 else [x])
        found = model.contributions(data)
        return {
            label: dict(sorted(parts.items(), key=lambda pair: -abs(pair[1])))
            for label, parts in zip(self.classes_.tolist(), found, strict=True)
        }

    def _encoded(self, X: Any) -> tuple[Any, Any]:
        """The model, and the examples as it takes them."""
        model = self._fitted()
        return model, self._data(model, X)

    def _data(self, model: Trained, X: Any) -> Any:
        """Examples as a model takes them."""
        if isinstance(model, CandidateModel):
            return model.encoder.transform(list(X), model.labels)
        if model.encoder.kind == NUMBERS:
            try:
                return validate_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64)
            except ValueError as error:
                raise DataError(str(error)) from None
        examples = X if self.features is None else made_features(self.features, X)
        return model.encoder.transform(examples, thread_count(self.threads))

    # -- files ---------------------------------------------------------------------------------------------------

    def check_options(self) -> None:
        """Refuse options that make no sense, as :meth:`fit` does first of all."""
        check_classifier(self)

    def _stored_options(self) -> dict[str, Any]:
        options = super()._stored_options()
        options["cost"] = None if self.cost is None else describe(self.cost)
        options["base"] = None if own_base(self) else self.base
        options["kernel"] = None if callable(self.kernel) else self.kernel
        if isinstance(self.class_weight, Mapping):
            options["class_weight"] = [[plain(k), float(v)] for k, v in self.class_weight.items()]
        return options

    @classmethod
    def _read_options(cls, read: Reader) -> dict[str, Any]:
        options = read.options()
        with read.building("options"):
            if isinstance(options.get("class_weight"), list):
                options["class_weight"] = {label: float(weight) for label, weight in options["class_weight"]}
        return options

    def _storage(self) -> tuple[dict[str, Any], Arrays]:
        model, by_function = self._fitted(), self.features is not None
        notes = {**notes_of(self), "label_column": self.label_column_}
        header, arrays = classifier_file.to_storage(model, self._stored_options(), notes, by_function)
        if self.stream_ is None:
            return header, arrays
        stream, more = self.stream_.to_storage()
        return {**header, "stream": stream}, {**arrays, **more}

    @classmethod
    def load(
        cls,
        source: str | Path | bytes,
        *,
        features: Callable[[Any], Any] | None = None,
        feature_map: Callable[[Any, Any], Any] | None = None,
        candidates: Callable[[Any], Iterable[Any]] | None = None,
        base: Any = None,
        kernel: Callable[[Any, Any], Any] | None = None,
    ) -> Self:
        """Read a model from a file or from its bytes. Loading runs no code of the file's.

        Functions, and a base of your own, that the model was trained with are to be given again: files do not hold
        them.
        """
        given = {"features": features, "feature_map": feature_map, "candidates": candidates, "base": base}
        return cls._read(model_file.read(source, cls.kind), {**given, "kernel": kernel})

    def _given(self) -> dict[str, Any]:
        own = {"base": own_base(self), "kernel": callable(self.kernel)}
        return {**super()._given(), **{name: getattr(self, name) if is_own else None for name, is_own in own.items()}}

    @classmethod
    def _check_given(cls, read: Reader, given: Mapping[str, Any]) -> None:
        classifier_file.check_given(read, {name: given.get(name) for name in cls.functions})

    def _restore(self, read: Reader, given: Mapping[str, Any]) -> None:
        model, notes = classifier_file.from_storage(read, given), read_notes(read)
        if not isinstance(model, CandidateModel) and isinstance(model.encoder, TemplateRows):
            self.template = model.encoder.encoder.templates
        self._set_model(model)
        restore_notes(self, notes)
        self.label_column_ = notes.get("label_column")
        rows = self.n_features_in_ + (self.bias != "none")
        self.stream_ = Stream.from_storage(read, rows * len(self.classes_))


def check_growing(classifier: Classifier) -> str:
    """Refuse options that a stream of calls cannot have; the spec of its optimizer."""
    name = spec_name(classifier.criterion)
    trained = classifier_training()
    if name not in trained.known:
        raise OptionError(f"partial_fit: criterion={name!r} is counted, on all data at once")
    criterion = CRITERIA.part(classifier.criterion)
    optimizer = stream_optimizer(classifier, criterion, trained.optimizers(criterion))
    for option, value in (("kernel", classifier.kernel), ("feature_map", classifier.feature_map)):
        if value is not None:
            raise OptionError(f"partial_fit: a model with a {option} is trained on all data at once")
    if classifier.multiclass == ONE_VERSUS_ALL:
        raise OptionError(f"partial_fit trains all labels at once; leave out multiclass={ONE_VERSUS_ALL!r}")
    return optimizer
