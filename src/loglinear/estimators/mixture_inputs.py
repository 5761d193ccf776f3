"""What a mixture is fitted with: components as options ask for, centres that are given, components that are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from loglinear.errors import DataError, OptionError
from loglinear.estimators.mixture_options import COVARIANCE, FLOOR, VARIANCE
from loglinear.generative.mixture import UNKNOWN
from loglinear.generative.mixture_components import Components, GaussianComponents, MultinomialComponents

Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]


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
