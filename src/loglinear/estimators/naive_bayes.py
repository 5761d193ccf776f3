"""Multinomial naive Bayes as an estimator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data

from loglinear.arrays import Array, Arrays, Float
from loglinear.estimators.conventions import ClassifierConventions
from loglinear.estimators.estimator import Estimator
from loglinear.estimators.options import NaiveBayesOptions
from loglinear.estimators.summary import Summary, from_counts, merged, options_of
from loglinear.generative.mixture import log_sums
from loglinear.generative.naive_bayes import LabelledCounts, NaiveBayesModel
from loglinear.model_file import Reader, column_arrays, label_header
from loglinear.options import Option, check, documented


@documented
class NaiveBayes(NaiveBayesOptions, Estimator[NaiveBayesModel], ClassifierConventions):
    """Classes of counts: bags of words, or any non-negative numbers.

        p(x, y) = p(y) prod_j theta_yj^x_j p(sum_j x_j)
        theta_yj = (lambda + sum_{i: y_i = y} x_ij) / sum_j' (lambda + sum_{i: y_i = y} x_ij')          p(y) = n_y / n

    the most probable parameters under a Dirichlet prior prod_j theta_yj^lambda (Zhang, section 9.4.1). ``X`` is a dense
    array or a sparse matrix [n, D], which stays sparse.

    PARAMETERS

    Attributes
    ----------
    classes_ : array [Y]
        The labels, sorted.
    class_log_prior_ : float64 [Y]
        log p(y).
    feature_log_prob_ : float64 [Y, D]
        log theta.
    model_ : NaiveBayesModel
        The model in numbers, also what it expects.
    n_features_in_, feature_names_in_ : the columns of the training data.
    """

    kind = "naive-bayes"
    classes_: Array
    n_features_in_: int
    feature_names_in_: Array

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.positive_only = True
        tags.classifier_tags.poor_score = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> NaiveBayes:
        """Count.

        Parameters
        ----------
        X : array or sparse matrix [n, D]
            Counts.
        y : sequence [n]
            The label of each row.
        sample_weight : array of float [n], optional
            How often each row counts.
        """
        return self.from_summaries([self.summarize(X, y, sample_weight)])

    def summarize(self, X: Any, y: Any, sample_weight: Any = None) -> Summary:
        """The counts of a part of the data, for :meth:`from_summaries`; arguments as for :meth:`fit`."""
        check(self)
        columns = copy(self)  # takes note of the part's columns, which say nothing of this estimator's
        X, y = validate_data(columns, X, y, accept_sparse="csr", dtype=np.float64)
        check_classification_targets(y)
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        labels, numbers = np.unique(y, return_inverse=True)
        counts = LabelledCounts.of(X, numbers.astype(np.int32), labels, weights)
        names = getattr(columns, "feature_names_in_", None)
        return Summary(self.kind, options_of(self), counts, columns=None if names is None else names.tolist())

    def from_summaries(self, summaries: Iterable[Summary | str | Path]) -> NaiveBayes:
        """The model of all parts together: what :meth:`fit` learns from them, to the last bit, in any order.

        Parameters
        ----------
        summaries : iterable of Summary or path
            What :meth:`summarize` made of each part, or files of these.
        """
        check(self)
        summary = merged(self, summaries)
        counts = summary.counts
        with from_counts():
            self.model_ = NaiveBayesModel.estimated(counts, float(self.smoothing))
        self.classes_, self.n_features_in_ = counts.labels, counts.symbols.shape[2]
        if summary.columns is not None:
            self.feature_names_in_ = np.array(summary.columns, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self

    @property
    def class_log_prior_(self) -> Float:
        """log p(y) [Y]."""
        return self.model_.log_prior

    @property
    def feature_log_prob_(self) -> Float:
        """log theta [Y, D]."""
        return self.model_.log_theta

    def predict_joint_log_proba(self, X: Any) -> Float:
        """log p(x, y) [n, Y], but for what does not depend on the label."""
        return self._fitted().scores(validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False))

    def predict(self, X: Any) -> Array:
        """The most probable label of each row [n]."""
        joint = self.predict_joint_log_proba(X)
        return self.classes_[np.argmax(joint, axis=1)]

    def predict_log_proba(self, X: Any) -> Float:
        """log p(y given x) [n, Y] (9.8)."""
        joint = self.predict_joint_log_proba(X)
        return joint - log_sums(joint)[:, None]

    def predict_proba(self, X: Any) -> Float:
        """p(y given x) [n, Y]."""
        return np.exp(self.predict_log_proba(X))

    def sample(self, n_samples: int = 1, seed: int = 0) -> tuple[Any, Array]:
        """Rows [n, D] as a sparse matrix, and their labels, drawn; lengths are Poisson with the training rows' mean."""
        self._fitted()
        Option("n_samples", 1, "", least=1, kind=int).check(n_samples)
        rows, labels = self.model_.sample(n_samples, np.random.default_rng(seed))
        return rows, self.classes_[labels]

    # -- files ---------------------------------------------------------------------------------------------------
    #
    # header   options, labels (kind and values), mean_length
    # arrays   log_theta [Y, D], log_prior [Y], columns (packed strings)

    def _storage(self) -> tuple[dict[str, Any], Arrays]:
        model = self._fitted()
        header = {
            "options": {"smoothing": float(self.smoothing)},
            "labels": label_header(np.array(self.classes_.tolist()), "kind"),
            "mean_length": model.mean_length,
        }
        return header, {"log_theta": model.log_theta, "log_prior": model.log_prior, **column_arrays(self)}

    def _restore(self, read: Reader, given: Mapping[str, Any]) -> None:
        self.classes_ = read.labels()
        log_theta = read.log_rows("log_theta", (len(self.classes_), None))
        log_prior, length = read.log_shares("log_prior", len(log_theta)), read.length("mean_length")
        self.model_, self.n_features_in_ = NaiveBayesModel(log_theta, log_prior, length), log_theta.shape[1]
        if (columns := read.columns(self.n_features_in_)) is not None:
            self.feature_names_in_ = np.array(columns, dtype=object)
