"""From what a user hands to a classifier to its training problem, and to data to stop early by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from loglinear.data.table_file import GREATEST, TableFile
from loglinear.errors import DataError, OptionError
from loglinear.estimators.annotation import sequence_weights
from loglinear.estimators.candidate_model import CandidateEncoder
from loglinear.estimators.classifier_fitting import Plan
from loglinear.estimators.classifier_inputs import NUMBERS, NumberRows, made_features, new_encoder
from loglinear.estimators.classifier_options import ONE_VERSUS_ALL
from loglinear.estimators.classifier_problem import ClassifierProblem
from loglinear.structures.candidate_features import CandidateCorpus
from loglinear.structures.flat_features import FlatCorpus

Float = npt.NDArray[np.float64]


def prepared(classifier: Any, X: Any, y: Any, sample_weight: Any, n_threads: int) -> ClassifierProblem:
    """The training data in numbers."""
    if y is None:
        raise DataError("a Classifier requires y to be passed, but the target y is None")
    encoder: Any
    corpus: FlatCorpus | CandidateCorpus
    if classifier.feature_map is not None:
        examples = list(X)
        own = labels_of(y, len(examples))
        encoder, labels, corpus = CandidateEncoder.fit(
            classifier.feature_map, classifier.candidates, examples, own, classifier.min_count
        )
        left = encoder.names.n_attributes
    else:
        encoder, rows, own = _rows(classifier, X, y, n_threads)
        labels, corpus, left = np.unique(own), FlatCorpus.of(rows), encoder.n_columns
    if not left:
        raise DataError(f"no features are left to learn from (min_count={classifier.min_count})")
    problem = ClassifierProblem(labels, encoder, corpus, numbers_of(labels, own), None)
    return replace(problem, weights=_weights(classifier, problem, sample_weight))


def _rows(classifier: Any, X: Any, y: Any, n_threads: int) -> tuple[Any, Any, npt.NDArray[Any]]:
    """The encoder, rows [S, A] and labels [S]."""
    encoder = new_encoder(X, classifier)
    if encoder.kind == NUMBERS:
        if classifier.min_count > 1:
            raise OptionError(f"min_count={classifier.min_count} counts named features; these are columns of numbers")
        rows, own = validate_data(classifier, X, y, accept_sparse="csr", dtype=np.float64, order="C")
        values = rows.data if sp.issparse(rows) else rows
        if values.size and np.abs(values).max() > GREATEST:
            raise DataError(f"X holds numbers up to {np.abs(values).max():g}; scale columns to less than {GREATEST:g}")
        names = getattr(classifier, "feature_names_in_", None)
        return NumberRows(rows.shape[1], None if names is None else names.tolist()), rows, labels_of(own, rows.shape[0])
    if classifier.features is not None:
        X = made_features(classifier.features, X)
    elif not hasattr(X, "__len__"):
        X = list(X)
    own = labels_of(y, len(X))
    return encoder, encoder.fit(X, classifier.min_count, n_threads), own


def labels_of(y: Any, n_examples: int) -> npt.NDArray[Any]:
    """The labels [S] as an array, checked as scikit-learn checks them."""
    labels = column_or_1d(y, warn=True)
    for i, label in enumerate(labels.tolist() if labels.dtype == object else []):
        if label is None:
            raise DataError(f"the label of example {i} (from 0) is None; leave examples without a label out")
    check_classification_targets(labels)
    if len(labels) != n_examples:
        raise DataError(f"there are {n_examples} examples, but {len(labels)} labels")
    return np.asarray(labels)


def numbers_of(labels: npt.NDArray[Any], own: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """The number of each of ``own`` [S] in ``labels`` [Y], -1 if it is not there."""
    places = np.minimum(np.searchsorted(labels, own), len(labels) - 1)
    return np.where(labels[places] == own, places, -1).astype(np.int32)


def _weights(classifier: Any, problem: ClassifierProblem, sample_weight: Any) -> Float | None:
    """The weights [S] of the examples, those of their labels included; None if all are one."""
    n, n_labels = len(problem.gold), len(problem.labels)
    if n_labels < 2:
        raise DataError(f"y has one class alone, {problem.labels.tolist()!r:.60}; a classifier needs two")
    weights = None if sample_weight is None else sequence_weights(sample_weight, n, "example")
    if classifier.class_weight is None:
        return weights
    if isinstance(classifier.class_weight, Mapping):
        given = dict(classifier.class_weight)
        each = compute_class_weight(given, classes=problem.labels, y=problem.labels[problem.gold])
    else:  # balanced
        counts = np.bincount(problem.gold, weights, n_labels)
        each = counts.sum() / (n_labels * np.where(counts > 0, counts, np.inf))
    return sequence_weights(each[problem.gold] * (1.0 if weights is None else weights), n, "example")


@dataclass(frozen=True)
class DevExamples:
    """Data to stop early by.

    Parameters
    ----------
    plan : Plan
    data
        The examples, as the model takes them.
    gold : int32 [S]
        The numbers of their labels, -1 for one that training does not know.
    """

    plan: Plan
    data: Any
    gold: npt.NDArray[np.int32]

    @classmethod
    def of(cls, classifier: Any, plan: Plan, X: Any, y: Any) -> DevExamples | None:
        """What a user gives, in numbers; None if there is none."""
        if X is None:
            if y is not None:
                raise OptionError("y_dev is given without X_dev; give both, or none")
            return None
        if y is None:
            raise OptionError("X_dev is given without y_dev; give both, or none")
        if len(plan.parts) > 1:
            raise OptionError(f"X_dev goes with multiclass='direct': {ONE_VERSUS_ALL} trains label by label")
        data = classifier._data(plan.model([np.zeros(plan.parts[0].features.n_features)]), X)
        n = data.n_sequences if isinstance(data, CandidateCorpus) else data.shape[0]
        gold = numbers_of(plan.problem.labels, labels_of(y, n))
        if not (gold >= 0).any():
            raise DataError("none of the dev data's labels is a label of the training data")
        return cls(plan, data, gold)

    def arrays(self) -> list[npt.NDArray[Any] | None]:
        """All numbers that the scores depend on."""
        corpus = self.data if isinstance(self.data, CandidateCorpus) else FlatCorpus.of(self.data)
        return replace(self.plan.problem, corpus=corpus, gold=self.gold, weights=None).arrays()

    def score(self, weights: Float) -> float:
        """The accuracy of the model with these weights [D]."""
        return float(np.mean(self.plan.model([weights]).best(self.data) == self.gold))


def split_labels(table: Any, y: Any, label_column: str) -> tuple[TableFile, list[str]]:
    """A table without its column of labels, and they."""
    if not isinstance(table, TableFile):
        raise OptionError(f"label_column={label_column!r} is of a table (read_table); X is a {type(table).__name__}")
    if y is not None:
        raise OptionError(f"label_column={label_column!r} and y both say what the labels are; give one")
    labels = table.column(label_column)
    for row, cell in enumerate(labels):
        if not cell.strip():
            raise DataError(f"column {label_column!r}, the label, is empty", table.file, table.lines[row])
    return table.without([label_column]), labels
