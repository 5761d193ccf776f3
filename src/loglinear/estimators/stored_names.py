"""Names in a model file: those of the columns that rows have, and the labels that rows can have.

Columns are ``n_features_in_`` and, where the training data named them, ``feature_names_in_``. Labels are strings, whole
numbers, numbers or truth values, all of one kind, and come back as an array of the same kind.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.errors import OptionError
from loglinear.model_file import pack_strings, unpack_strings

Arrays = dict[str, npt.NDArray[Any]]
_KINDS: dict[str, type] = {"str": str, "int": int, "float": float, "bool": bool}


def store_columns(estimator: Any) -> Arrays:
    """The arrays that hold the columns' names; none if they have none."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return {}
    blob, offsets = pack_strings([str(name) for name in names])
    return {"columns.bytes": blob, "columns.offsets": offsets}


def restore_columns(estimator: Any, arrays: Arrays, n_columns: int) -> None:
    """Give ``estimator`` the columns of a model of ``n_columns``."""
    estimator.n_features_in_ = n_columns
    if "columns.bytes" not in arrays:
        return
    names = unpack_strings(arrays["columns.bytes"], arrays["columns.offsets"])
    if len(names) != n_columns or len(set(names)) != n_columns:
        raise ValueError("the names of the columns do not fit")
    estimator.feature_names_in_ = np.array(names, dtype=object)


def store_labels(labels: npt.NDArray[Any]) -> dict[str, Any]:
    """Labels [Y] as JSON."""
    values = labels.tolist()
    for name, kind in _KINDS.items():
        if all(type(value) is kind for value in values):
            return {"kind": name, "values": values}
    raise OptionError(
        f"labels such as {values[0]!r:.40} cannot be written to a model file: use strings, whole numbers or numbers"
    )


def restore_labels(stored: Any) -> npt.NDArray[Any]:
    """Labels [Y] from JSON, distinct and in ascending order."""
    kind, values = _KINDS[stored["kind"]], stored["values"]
    if not isinstance(values, list) or not values or not all(type(value) is kind for value in values):
        raise ValueError("the labels are not of one kind")
    if any(a >= b for a, b in pairwise(values)):
        raise ValueError("the labels are not in ascending order")
    return np.array(values)


def checked_floats(array: npt.NDArray[Any], shape: tuple[int, ...], what: str) -> npt.NDArray[np.float64]:
    """A copy of an array of finite float64 of such a shape; any other is a ValueError."""
    if array.dtype != np.float64 or array.shape != shape or not np.isfinite(array).all():
        raise ValueError(f"the {what} cannot be read")
    return np.array(array)


def checked_log_shares(array: npt.NDArray[Any], n: int, what: str) -> npt.NDArray[np.float64]:
    """A copy of log-probabilities [n] that add up to one; zero probability may be among them."""
    if array.dtype != np.float64 or array.shape != (n,) or not (array <= 1e-9).all():
        raise ValueError(f"the {what} cannot be read")
    if not abs(float(np.exp(array).sum()) - 1.0) < 1e-6:
        raise ValueError(f"the {what} do not add up to one")
    return np.array(array)
