"""Rows of numbers with flat labels, as compiled passes over them take them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from loglinear.criteria.criterion import CostCriterion
from loglinear.optimizers.objective import Objective
from loglinear.structures.flat_features import FlatCorpus, FlatFeatures

Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


class FlatRows(NamedTuple):
    """N rows of A columns with their labels.

    Parameters
    ----------
    pointer : int64 [N + 1]
    ids : int32
        Empty if each row has all columns.
    values : float64
    gold : int32 [N]
    sample_weights : float64 [N]
    costs : float64 [Y, Y]
        Of each label (last) where another is right.
    z : float
        Value of the bias' column.
    """

    pointer: Int64
    ids: Int32
    values: Float
    gold: Int32
    sample_weights: Float
    costs: Float
    z: float


def flat_rows(objective: Objective) -> FlatRows:
    """Rows, labels, weights and costs of an objective over flat labels, as kernels take them."""
    features, corpus, criterion = objective.features, objective.corpus, objective.criterion
    assert isinstance(features, FlatFeatures) and isinstance(corpus, FlatCorpus)
    data, n_labels = corpus.rows, features.n_labels
    costs = np.zeros((n_labels, n_labels))
    if isinstance(criterion, CostCriterion):
        costs = np.ascontiguousarray(criterion.cost.table[0])  # a row is a sequence of one position
    if corpus.is_sparse:
        pointer, ids, values = data.indptr, data.indices, data.data
    else:
        pointer = np.arange(corpus.n_sequences + 1) * features.n_columns
        ids, values = np.zeros(0, dtype=np.int32), data.ravel()
    gold, weights = np.ascontiguousarray(objective.gold.labels), np.ascontiguousarray(objective.sequence_weights)
    z = 0.0 if features.bias == "none" else float(features.scale)
    return FlatRows(pointer, ids, values, gold, weights, costs, z)
