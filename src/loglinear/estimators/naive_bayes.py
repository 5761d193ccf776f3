"""Multinomial naive Bayes as an estimator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from loglinear import model_file
from loglinear.arrays import Array, Float
from loglinear.errors import LoglinearError, ModelFileError
from loglinear.estimators.options import NaiveBayesOptions
from loglinear.generative.mixture import log_sums
from loglinear.generative.naive_bayes import NaiveBayesModel
from loglinear.model_file import (
    checked_floats,
    checked_log_shares,
    restore_columns,
    restore_labels,
    store_columns,
    store_labels,
)
from loglinear.options import Option, check, documented

KIND = "naive-bayes"


@documented
class NaiveBayes(NaiveBayesOptions, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
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

    classes_: Array
    model_: NaiveBayesModel
    n_features_in_: int

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
        check(self)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        check_classification_targets(y)
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        self.model_ = NaiveBayesModel.fit(
            X, numbers.astype(np.int32), len(self.classes_), float(self.smoothing), weights
        )
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
        check_is_fitted(self, "model_")
        return self.model_.scores(validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False))

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
        check_is_fitted(self, "model_")
        Option("n_samples", 1, "", least=1, kind=int).check(n_samples)
        rows, labels = self.model_.sample(n_samples, np.random.default_rng(seed))
        return rows, self.classes_[labels]

    # -- files ---------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the model to one file that holds data only."""
        model_file.save(path, KIND, *self._storage())

    def to_bytes(self) -> bytes:
        """The model file's content."""
        return model_file.dumps(KIND, *self._storage())

    @classmethod
    def load(cls, source: str | Path | bytes) -> NaiveBayes:
        """Read a model file, or its content; nothing in it is run, and every number is checked."""
        stored = model_file.load(source, kind=KIND)
        name = "the model in memory" if isinstance(source, bytes) else str(source)
        header, arrays = stored.header, stored.arrays
        try:
            found = cls(**header["options"])
            check(found)
            found.classes_ = restore_labels(header["labels"])
            n_labels, d = len(found.classes_), int(arrays["log_theta"].shape[1])
            log_theta = checked_floats(arrays["log_theta"], (n_labels, d), "probabilities")
            log_prior = checked_log_shares(arrays["log_prior"], n_labels, "probabilities of labels")
            length = float(header["mean_length"])
            if not 0.0 <= length < np.inf:
                raise ValueError("the mean length cannot be read")
            found.model_ = NaiveBayesModel(log_theta, log_prior, length)
            restore_columns(found, arrays, d)
        except (LoglinearError, KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            detail = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise ModelFileError(
                f"{name}: the model file's content does not fit together ({detail}); train anew"
            ) from None
        return found

    def _storage(self) -> tuple[dict[str, Any], dict[str, Array]]:
        check_is_fitted(self, "model_")
        header = {
            "options": {"smoothing": float(self.smoothing)},
            "labels": store_labels(self.classes_),
            "mean_length": self.model_.mean_length,
        }
        return header, {"log_theta": self.model_.log_theta, "log_prior": self.model_.log_prior, **store_columns(self)}
