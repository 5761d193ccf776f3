"""Tables of numbers that many rooms look things up in: keys, lists of features, and gradients of few features.

**Keys**: int64 numbers from 0 up, in a table with open addressing that is at most half full; -1 is an empty place.

**Lists** (CSR): row i has the features ``ids[pointer[i]]`` to ``ids[pointer[i + 1] - 1]``, each with a value or, if
``values`` is empty, with the value one::

    score(i)  =  sum over features f of i:  value * w[f]
    d/d w[f]  =  sum over rows i that have f:  value * d/d score(i)

**The gradient of one example** as a short list, for learners that step after each example. A batch gradient is a vector
of all D weights; that of one example touches a few hundred. Weights that are always met together are a *group*, and
each group met is noted::

    touched [n]   the groups, each once            values [D]   the derivatives, zero in groups that are not touched
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Float, Int32, Int64, UInt8
from loglinear.kernels import kernel

NO_VALUES = np.zeros(0, dtype=np.float64)


@kernel
def find(key: int, keys: Int64) -> int:
    """The place of ``key`` in the table ``keys`` [a power of two], or the empty place where it belongs."""
    mask, mixed = keys.shape[0] - 1, int(key)
    mixed = ((mixed ^ (mixed >> 31)) * 0x7FB5D329728EA185) & 0x7FFFFFFFFFFFFFFF  # the same number compiled or not
    place = (mixed >> 32) & mask
    while keys[place] >= 0 and keys[place] != key:
        place = (place + 1) & mask
    return place


@kernel
def fill(given: Int64, first: int, keys: Int64, numbers: Int32) -> None:
    """Put the keys ``given`` [n] into the table ``keys``, and their numbers ``first``, ``first + 1``, ... beside."""
    for i in range(given.shape[0]):
        place = find(given[i], keys)
        keys[place] = given[i]
        numbers[place] = first + i


class KeyTable(NamedTuple):
    """Distinct keys, and beside each its number.

    Parameters
    ----------
    keys : int64 [a power of two]
        -1 where there is none.
    numbers : int32 [the same]
    """

    keys: Int64
    numbers: Int32

    @classmethod
    def of(cls, keys: Int64) -> KeyTable:
        """The table of ``keys`` [n], numbered 0 to n - 1."""
        size = 1 << max(4, (2 * len(keys)).bit_length())
        table = cls(np.full(size, -1, dtype=np.int64), np.zeros(size, dtype=np.int32))
        fill(np.ascontiguousarray(keys, dtype=np.int64), 0, *table)
        return table


class Lists(NamedTuple):
    """Features of rows; ``values`` [M or 0] is empty if all are one.

    Parameters
    ----------
    pointer : int64 [n + 1]
    ids : int32 [M]
    values : float64 [M or 0]
    """

    pointer: Int64
    ids: Int32
    values: Float = NO_VALUES


@kernel
def list_scores(lists: Lists, weights: Float, out: Float) -> None:
    """Scores [n] of the rows by the weights [D] of their features."""
    pointer, ids, values = lists
    has_values = values.shape[0] > 0
    for i in range(out.shape[0]):
        total = 0.0
        for j in range(pointer[i], pointer[i + 1]):
            total += (values[j] if has_values else 1.0) * weights[ids[j]]
        out[i] = total


@kernel
def add_list_gradient(lists: Lists, parts: Float, gradient: Float) -> None:
    """Add the gradient by the rows' scores ``parts`` [n] to that by the weights [D]."""
    pointer, ids, values = lists
    has_values = values.shape[0] > 0
    for i in range(parts.shape[0]):
        part = parts[i]
        if part != 0.0:
            for j in range(pointer[i], pointer[i + 1]):
                gradient[ids[j]] += part * (values[j] if has_values else 1.0)


class Groups(NamedTuple):
    """The derivatives of one example, in G groups of D features.

    Parameters
    ----------
    begins : int64 [G + 1]
        Where the groups begin; the last number is D.
    values : float64 [D]
        The derivatives; zero in groups that are not touched.
    seen : uint8 [G]
        Whether a group has been met.
    touched : int64 [G]
        The groups met, in the order they were met, as far as ``n_touched`` [1] says.
    n_touched : int64 [1]
    """

    begins: Int64
    values: Float
    seen: UInt8
    touched: Int64
    n_touched: Int64


@kernel
def _add_touched(lists: Lists, parts: Float, groups: Groups) -> None:
    """As :func:`add_list_gradient`, where each feature is a group of its own, which is counted among those met."""
    (pointer, ids, values), (_, derivatives, seen, touched, count) = lists, groups
    n, has_values = count[0], values.shape[0] > 0
    for i in range(parts.shape[0]):
        part = parts[i]
        if part != 0.0:
            for j in range(pointer[i], pointer[i + 1]):
                f = ids[j]
                derivatives[f] += part * (values[j] if has_values else 1.0)
                if not seen[f]:
                    seen[f] = 1
                    touched[n] = f
                    n += 1
    count[0] = n


@kernel
def add_attributes(lists: Lists, codes: Int32, first_group: int, parts: Float, groups: Groups) -> None:
    """Features of the attributes of T positions with parts [T, C], added to the derivatives.

    Attribute a is group ``first_group + a``; ``codes`` are those of the features from the first of these groups on.
    """
    (pointer, ids, values), (begins, derivatives, seen, touched, count) = lists, groups
    n, has_values, base = count[0], values.shape[0] > 0, begins[first_group]
    for t in range(parts.shape[0]):
        part = parts[t]
        nothing = True
        for c in range(part.shape[0]):
            if part[c] != 0.0:
                nothing = False
                break
        if nothing:
            continue
        for j in range(pointer[t], pointer[t + 1]):
            value = values[j] if has_values else 1.0
            group = first_group + ids[j]
            if not seen[group]:
                seen[group] = 1
                touched[n] = group
                n += 1
            for f in range(begins[group], begins[group + 1]):
                derivatives[f] += value * part[codes[f - base]]
    count[0] = n


@kernel
def clear(groups: Groups) -> None:
    """Forget what was added."""
    begins, values, seen, touched, count = groups
    for i in range(count[0]):
        group = touched[i]
        seen[group] = 0
        for f in range(begins[group], begins[group + 1]):
            values[f] = 0.0
    count[0] = 0


@kernel
def _squared_norm(groups: Groups) -> float:
    """||g||^2 of what was added."""
    begins, values, _, touched, count = groups
    total = 0.0
    for i in range(count[0]):
        for f in range(begins[touched[i]], begins[touched[i] + 1]):
            total += values[f] * values[f]
    return total


@kernel
def _nonzero(groups: Groups, features: Int64, derivatives: Float) -> int:
    """Features with a derivative and these; their number. With empty outputs they are only counted."""
    begins, values, _, touched, count = groups
    n = 0
    for i in range(count[0]):
        for f in range(begins[touched[i]], begins[touched[i] + 1]):
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
        n = len(groups) - 1
        seen, touched, count = np.zeros(n, dtype=np.uint8), np.empty(n, dtype=np.int64), np.zeros(1, dtype=np.int64)
        self.met = Groups(groups, np.zeros(int(groups[-1])), seen, touched, count)
        self.values = self.met.values

    @property
    def touched(self) -> Int64:
        """The groups met since the last :meth:`clear`, in the order they were met."""
        return self.met.touched[: self.met.n_touched[0]]

    def touch(self, group: int) -> None:
        """Count a group among those met."""
        if not self.met.seen[group]:
            self.met.seen[group] = 1
            self.met.touched[self.met.n_touched[0]] = group
            self.met.n_touched[0] += 1

    def touch_all(self, groups: npt.NDArray[np.integer]) -> None:
        """Count many groups among those met."""
        distinct, n = np.unique(groups), int(self.met.n_touched[0])
        new = distinct[self.met.seen[distinct] == 0]
        self.met.seen[new] = 1
        self.met.touched[n : n + len(new)] = new
        self.met.n_touched[0] += len(new)

    def add_lists(self, lists: Lists, parts: Float) -> None:
        """Add the gradient by the scores ``parts`` [n] of rows whose features are groups of one."""
        _add_touched(lists, parts, self.met)

    def add_attributes(self, lists: Lists, codes: Int32, first_group: int, parts: Float) -> None:
        """Add the gradient by ``parts`` [T, C] of T positions whose attributes are groups, from ``first_group`` on."""
        add_attributes(lists, codes, first_group, parts, self.met)

    def squared_norm(self) -> float:
        """||g||^2 of what was added."""
        return _squared_norm(self.met)

    def clear(self) -> None:
        """Forget what was added."""
        clear(self.met)

    def take(self) -> tuple[Int64, Float]:
        """The features that have a derivative, and it; then forget them."""
        n = _nonzero(self.met, np.empty(0, dtype=np.int64), np.empty(0))
        taken = np.empty(n, dtype=np.int64), np.empty(n)
        if n:
            _nonzero(self.met, *taken)
        self.clear()
        return taken

    def put(self, feature_lists: list[tuple[Int64, Float]], factors: Float) -> None:
        """Add ``factors[i]`` times what :meth:`take` gave as ``feature_lists[i]``, for each i."""
        for (features, derivatives), factor in zip(feature_lists, factors.tolist(), strict=True):
            if factor:
                self.values[features] += factor * derivatives
                self.touch_all(np.searchsorted(self.met.begins, features, side="right") - 1)

    def gram(self, rows: list[tuple[Int64, Float]]) -> Float:
        """Inner products [k, k] of gradients that :meth:`take` gave; there must be nothing added now."""
        pointer = np.concatenate([[0], np.cumsum([len(features) for features, _ in rows])]).astype(np.int64)
        features = np.concatenate([features for features, _ in rows])
        out = np.empty((len(rows), len(rows)))
        _gram(len(rows), pointer, features, np.concatenate([values for _, values in rows]), self.values, out)
        return out
