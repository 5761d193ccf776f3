"""Features of one kind of part: which (attribute, code) pairs have a weight, their scores and gradients.

A part's *code* is its label (state features) or ``previous * Y + label`` (edge features). With A attributes and C
codes, the features of attribute a are ``codes[pointer[a]:pointer[a + 1]]``, and their weights are at the same places
of the weight vector, so the optimizer sees no padding:

    score(t, c)     =  sum over attributes a of t with (a, c) a feature:  value * w[a, c]
    d/d w[a, c]     =  sum over positions t that have a:                  value * d/d score(t, c)

During a pass, attributes with at least ``DENSE_FROM`` features, and with one for at least one code in ``SPARSEST``, are
stored as dense rows of all C codes, with zeros for missing pairs: adding a row is one vector operation, while a short
list is faster to walk. On CoNLL-2000 this makes scoring three times faster than lists alone; with thousands of codes,
rows of nearly nothing but zeros would take gigabytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from loglinear.arrays import Bool, Float, Int32, Int64, UInt8
from loglinear.data.columns.corpus import offsets_of
from loglinear.features.encoding import Incidence
from loglinear.kernels import kernel
from loglinear.kernels.tables import Lists
from loglinear.system import check_memory

DENSE_FROM, SPARSEST = 3, 32


class Features(NamedTuple):
    """Features ``pointer[a]`` to ``pointer[a + 1]`` of attribute a, their codes [F], and its dense row or -1 [A]."""

    pointer: Int64
    codes: Int32
    row_of: Int32


@kernel
def _scores(lists: Lists, features: Features, rows: Float, weights: Float, out: Float) -> None:
    """Part scores ``out`` [n, C] of n positions, by the ``weights`` [F] and the dense ``rows`` [R, C]."""
    (pointer, ids, values), (begins, codes, row_of) = lists, features
    n_codes, has_values = out.shape[1], values.shape[0] > 0
    for t in range(out.shape[0]):
        scores = out[t]  # indexing slices, not out[t, c], lets the compiler use vector instructions
        for c in range(n_codes):
            scores[c] = 0.0
        for j in range(pointer[t], pointer[t + 1]):
            a = ids[j]
            value = values[j] if has_values else 1.0
            if row_of[a] >= 0:
                row = rows[row_of[a]]
                for c in range(n_codes):
                    scores[c] += value * row[c]
            else:
                for f in range(begins[a], begins[a + 1]):
                    scores[codes[f]] += value * weights[f]


@kernel
def _add_gradient(lists: Lists, features: Features, rows: Float, gradient: Float, parts: Float) -> None:
    """Transpose of :func:`_scores`: add the gradient by part scores ``parts`` [n, C] to ``rows`` and ``gradient``."""
    (pointer, ids, values), (begins, codes, row_of) = lists, features
    n_codes, has_values = parts.shape[1], values.shape[0] > 0
    for t in range(parts.shape[0]):
        part = parts[t]
        for j in range(pointer[t], pointer[t + 1]):
            a = ids[j]
            value = values[j] if has_values else 1.0
            if row_of[a] >= 0:
                row = rows[row_of[a]]
                for c in range(n_codes):
                    row[c] += value * part[c]
            else:
                for f in range(begins[a], begins[a + 1]):
                    gradient[f] += value * part[codes[f]]


@kernel
def _scatter_rows(features: Features, weights: Float, rows: Float) -> None:
    """Copy weights [F] to the dense rows [R, C]."""
    begins, codes, row_of = features
    for a in range(row_of.shape[0]):
        if row_of[a] >= 0:
            for f in range(begins[a], begins[a + 1]):
                rows[row_of[a], codes[f]] = weights[f]


@kernel
def _gather_rows(features: Features, rows: Float, weights: Float) -> None:
    """Copy dense rows [R, C] back to the vector [F], without the missing pairs."""
    begins, codes, row_of = features
    for a in range(row_of.shape[0]):
        if row_of[a] >= 0:
            for f in range(begins[a], begins[a + 1]):
                weights[f] = rows[row_of[a], codes[f]]


@dataclass(frozen=True)
class FeatureBlock:
    """The (attribute, code) pairs that have a weight.

    Parameters
    ----------
    pointer : int64 [A + 1]
        Features of attribute a are ``pointer[a]`` to ``pointer[a + 1]``.
    codes : int32 [F]
        The code of each feature, ascending within an attribute.
    n_codes : int
        C.
    dense_from : int, optional
        Number of features from which an attribute is stored as a dense row.
    """

    pointer: Int64
    codes: Int32
    n_codes: int
    dense_from: int | None = None
    features: Features = field(init=False, repr=False)
    n_rows: int = field(init=False)

    def __post_init__(self) -> None:
        least = max(DENSE_FROM, self.n_codes // SPARSEST) if self.dense_from is None else self.dense_from
        dense = np.diff(self.pointer) >= least
        row_of = np.where(dense, np.cumsum(dense) - 1, -1).astype(np.int32)
        object.__setattr__(self, "features", Features(self.pointer, self.codes, row_of))
        object.__setattr__(self, "n_rows", int(dense.sum()))

    @classmethod
    def observed(
        cls, incidence: Incidence, n_attributes: int, code_pointer: Int64, position_codes: Int32, n_codes: int
    ) -> FeatureBlock:
        """The pairs that occur together; codes of position t: ``position_codes[code_pointer[t]:code_pointer[t+1]]``."""
        return cls(*incidence.observed(n_attributes, code_pointer, position_codes, n_codes), n_codes)

    @classmethod
    def everything(cls, n_attributes: int, n_codes: int) -> FeatureBlock:
        """All pairs."""
        size = 40.0 * n_attributes * n_codes  # code, weight, gradient and what an optimizer keeps
        check_memory(size, f"a weight for all pairs of {n_attributes:,} attributes and {n_codes:,} labels", "use fewer")
        pointer = np.arange(n_attributes + 1, dtype=np.int64) * n_codes
        return cls(pointer, np.tile(np.arange(n_codes, dtype=np.int32), n_attributes), n_codes)

    def with_code(self, code: int, having: Bool) -> FeatureBlock:
        """The block with one more code, greater than all others, for the attributes ``having`` it (a mask [A])."""
        codes = np.insert(self.codes, self.pointer[1:][having], code)
        return FeatureBlock(self.pointer + offsets_of(having), codes.astype(np.int32), code + 1)

    def plus(self, other: FeatureBlock) -> FeatureBlock:
        """The pairs of both; ``other`` has the same attributes, and no code that this one does not."""
        owner = np.repeat(np.arange(len(other.pointer) - 1), np.diff(other.pointer))
        keys = np.union1d(self.keys, owner * self.n_codes + other.codes)
        counts = np.bincount(keys // self.n_codes, minlength=len(self.pointer) - 1)
        return FeatureBlock(offsets_of(counts), (keys % self.n_codes).astype(np.int32), self.n_codes)

    def as_lists(self) -> FeatureBlock:
        """The same features without dense rows, for weights that change from one sequence to the next."""
        return FeatureBlock(self.pointer, self.codes, self.n_codes, dense_from=self.n_codes + 1)

    @property
    def n_features(self) -> int:
        return len(self.codes)

    @property
    def keys(self) -> Int64:
        """``attribute * C + code`` of each feature [F], ascending."""
        return np.repeat(np.arange(len(self.pointer) - 1), np.diff(self.pointer)) * self.n_codes + self.codes

    def rows(self, weights: Float) -> Float:
        """The weights [F] of the dense attributes as rows [R, C]."""
        rows = np.zeros((self.n_rows, self.n_codes), dtype=np.float64)
        _scatter_rows(self.features, weights, rows)
        return rows

    def scores(self, incidence: Incidence, first: int, end: int, weights: Float, rows: Float) -> Float:
        """Part scores [end - first, C] of positions ``first`` to ``end``; ``rows`` is :meth:`rows` of ``weights``."""
        out = np.empty((end - first, self.n_codes), dtype=np.float64)
        _scores(incidence.lists(first, end), self.features, rows, weights, out)
        return out

    def add_gradient(
        self, incidence: Incidence, first: int, end: int, parts: Float, gradient: Float, rows: Float
    ) -> None:
        """Add the gradient by part scores ``parts`` [end - first, C] to ``gradient`` [F] and ``rows`` [R, C]."""
        _add_gradient(incidence.lists(first, end), self.features, rows, gradient, parts)

    def gather(self, rows: Float, gradient: Float) -> None:
        """Move what :meth:`add_gradient` added to ``rows`` to its place in ``gradient``."""
        _gather_rows(self.features, rows, gradient)


def find_keys(keys: NDArray[np.integer], wanted: Int64) -> Int64:
    """The place of each of ``wanted`` in ``keys``, which ascend; -1 where it is not among them."""
    if not len(keys):
        return np.full(len(wanted), -1)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, place, -1)


# ----------------------------------------------------------------------------------------------------------------------
# Which (attribute, code) pairs occur together in a corpus: one bit each, set in one pass over the positions.
#
#     marks  uint8 [A, ceil(C / 8)]     bit c of row a: attribute a occurs at a position with code c
#
# With a chunker's labels an attribute takes three bytes, so that the pass stays in the cache. If there are many codes
# (pairs of labels), the attributes are split into ranges whose marks fit into :data:`MOST_BYTES`, with one pass each.


MOST_BYTES = 1 << 28


@kernel
def _mark(pointer: Int64, ids: Int32, code_pointer: Int64, codes: Int32, first: int, marks: UInt8) -> None:
    """Set the bits of the attributes ``first``, ``first + 1``, ... that have rows in ``marks``."""
    n = marks.shape[0]
    for t in range(pointer.shape[0] - 1):
        for k in range(code_pointer[t], code_pointer[t + 1]):
            byte, bit = codes[k] >> 3, np.uint8(1 << (codes[k] & 7))
            for j in range(pointer[t], pointer[t + 1]):
                row = ids[j] - first
                if 0 <= row < n:
                    marks[row, byte] |= bit


@kernel
def _list_marked(marks: UInt8, pointer: Int64, out: Int32) -> int:
    """Write the codes of each row of ``marks``, ascending, to ``out``, or only count them if ``out`` is empty.

    ``pointer`` [rows] is where each row's codes begin. Returns the number of codes.
    """
    filled = 0
    for row in range(marks.shape[0]):
        pointer[row] = filled
        for byte in range(marks.shape[1]):
            left = np.int64(marks[row, byte])
            code = 8 * byte
            while left:
                if left & 1:
                    if out.shape[0]:
                        out[filled] = code
                    filled += 1
                left >>= 1
                code += 1
    return filled


def observed_pairs(
    pointer: Int64, ids: Int32, n_attributes: int, code_pointer: Int64, position_codes: Int32, n_codes: int
) -> tuple[Int64, Int32]:
    """Distinct codes of each attribute, ascending: where each attribute's begin [A + 1], and the codes.

    Position t has the attributes ``ids[pointer[t]:pointer[t + 1]]`` and the codes
    ``position_codes[code_pointer[t]:code_pointer[t + 1]]``.
    """
    width = -(-n_codes // 8)
    at_once = max(1, min(n_attributes, MOST_BYTES // max(width, 1)))
    starts = np.zeros(n_attributes + 1, dtype=np.int64)
    parts = [np.zeros(0, dtype=np.int32)]
    filled = 0
    for first in range(0, n_attributes, at_once):
        end = min(first + at_once, n_attributes)
        marks = np.zeros((end - first, width), dtype=np.uint8)
        _mark(pointer, ids, code_pointer, position_codes, first, marks)
        n = _list_marked(marks, starts[first:end], np.zeros(0, dtype=np.int32))
        codes = np.empty(n, dtype=np.int32)
        if n:
            _list_marked(marks, starts[first:end], codes)
        starts[first:end] += filled
        filled += n
        parts.append(codes)
    starts[n_attributes] = filled
    return starts, parts[1] if len(parts) == 2 else np.concatenate(parts)
