"""The weight gradient of one example as a short list, for learners that step after each example.

A batch gradient is a vector of all D weights; that of one example touches a few hundred. Weights that are always met
together are a *group*, and each group met is noted:

    touched [n]   the groups, each once            values [D]   the derivatives, zero in groups that are not touched
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Float, Int64, UInt8
from loglinear.kernels import kernel


@kernel
def _clear(touched: Int64, groups: Int64, values: Float, seen: UInt8) -> None:
    for i in range(touched.shape[0]):
        seen[touched[i]] = 0
        for f in range(groups[touched[i]], groups[touched[i] + 1]):
            values[f] = 0.0


@kernel
def _squared_norm(touched: Int64, groups: Int64, values: Float) -> float:
    total = 0.0
    for i in range(touched.shape[0]):
        for f in range(groups[touched[i]], groups[touched[i] + 1]):
            total += values[f] * values[f]
    return total


@kernel
def _nonzero(touched: Int64, groups: Int64, values: Float, features: Int64, derivatives: Float) -> int:
    """Features with a derivative and these; their number. With empty outputs they are only counted."""
    n = 0
    for i in range(touched.shape[0]):
        for f in range(groups[touched[i]], groups[touched[i] + 1]):
            if values[f] != 0.0:
                if features.shape[0]:
                    features[n] = f
                    derivatives[n] = values[f]
                n += 1
    return n


@kernel
def _gram(n_rows: int, pointer: Int64, features: Int64, values: Float, scratch: Float, out: Float) -> None:
    """Inner products [k, k] of sparse vectors; row i is ``features`` and ``values`` from ``pointer[i]``."""
    for i in range(n_rows):
        for j in range(pointer[i], pointer[i + 1]):
            scratch[features[j]] = values[j]
        for other in range(i, n_rows):
            total = 0.0
            for j in range(pointer[other], pointer[other + 1]):
                total += values[j] * scratch[features[j]]
            out[i, other] = total
            out[other, i] = total
        for j in range(pointer[i], pointer[i + 1]):
            scratch[features[j]] = 0.0


class SparseGroups:
    """Collects the gradient of one example at a time, in groups of features; subclasses say what an example adds.

    Parameters
    ----------
    groups : int64 [G + 1]
        Where the groups of the D features begin; the last number is D.
    """

    def __init__(self, groups: Int64) -> None:
        self.groups = groups
        self.values = np.zeros(int(groups[-1]))
        self._seen = np.zeros(len(self.groups) - 1, dtype=np.uint8)
        self._touched = np.empty(len(self.groups) - 1, dtype=np.int64)
        self._n = 0

    @property
    def touched(self) -> Int64:
        """The groups met since the last :meth:`clear`, in the order they were met."""
        return self._touched[: self._n]

    def touch(self, group: int) -> None:
        """Count a group among those met."""
        if not self._seen[group]:
            self._seen[group] = 1
            self._touched[self._n] = group
            self._n += 1

    def touch_all(self, groups: npt.NDArray[np.integer]) -> None:
        """Count many groups among those met."""
        distinct = np.unique(groups)
        new = distinct[self._seen[distinct] == 0]
        self._seen[new] = 1
        self._touched[self._n : self._n + len(new)] = new
        self._n += len(new)

    def squared_norm(self) -> float:
        """||g||^2 of what was added."""
        return _squared_norm(self.touched, self.groups, self.values)

    def clear(self) -> None:
        """Forget what was added."""
        _clear(self.touched, self.groups, self.values, self._seen)
        self._n = 0

    def take(self) -> tuple[Int64, Float]:
        """The features that have a derivative, and it; then forget them."""
        nothing = np.empty(0, dtype=np.int64), np.empty(0)
        n = _nonzero(self.touched, self.groups, self.values, *nothing)
        taken = np.empty(n, dtype=np.int64), np.empty(n)
        if n:
            _nonzero(self.touched, self.groups, self.values, *taken)
        self.clear()
        return taken

    def put(self, feature_lists: list[tuple[Int64, Float]], factors: Float) -> None:
        """Add ``factors[i]`` times what :meth:`take` gave as ``feature_lists[i]``, for each i."""
        for (features, derivatives), factor in zip(feature_lists, factors.tolist(), strict=True):
            if factor:
                self.values[features] += factor * derivatives
                self.touch_all(np.searchsorted(self.groups, features, side="right") - 1)

    def gram(self, rows: list[tuple[Int64, Float]]) -> Float:
        """Inner products [k, k] of gradients that :meth:`take` gave; there must be nothing added now."""
        pointer = np.concatenate([[0], np.cumsum([len(features) for features, _ in rows])]).astype(np.int64)
        features = np.concatenate([features for features, _ in rows])
        out = np.empty((len(rows), len(rows)))
        _gram(len(rows), pointer, features, np.concatenate([values for _, values in rows]), self.values, out)
        return out
