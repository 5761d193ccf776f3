"""Features with gaps of any length: pairs of positions i < j of a sequence, exactly (Smith et al. 2007, section 4.1.1).

A feature wants a label, a value of a field, or both, at i, and again at j, whatever stands between. Its expected count
sums over all paths between, of every length. With ``step`` the matrix of a hidden Markov model's process over states,

    E = sum over states k, l of   inflow(k) B_i(k)  [step^d + step^(d+1) + ...](k, l)  B_j(l) outflow(l)
      = sum over labels a, b of   B_i(a)  M(a, b)  B_j(b)                with   step^d + ... = (I - step)^-1 step^d

where B(a) is the probability that label a is the wanted one and emits the wanted value, and d the least distance. As
emissions depend on labels alone, M [Y, Y] holds all of it for both orders: one linear system, then a product a feature.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from loglinear.errors import OptionError
from loglinear.generative.hmm import Fields, Float, HiddenMarkovModel, Int32, Int64

ANY = -1
FEATURES_AT_ONCE = 50_000


@dataclass(frozen=True)
class Wanted:
    """What each of F features wants at one of its two positions.

    Parameters
    ----------
    labels : int [F]
        Numbers of labels; ``ANY`` (-1) wants none in particular.
    values : int [F], optional
        Numbers of values of the field; ``ANY`` wants none in particular, as does None for all features.
    field : int
        Which field the values are of.
    """

    labels: npt.ArrayLike
    values: npt.ArrayLike | None = None
    field: int = 0

    @cached_property
    def pairs(self) -> Int64:
        """Label and value of each feature [F, 2]."""
        labels = np.atleast_1d(np.asarray(self.labels, dtype=np.int64))
        values = np.full(len(labels), ANY) if self.values is None else np.asarray(self.values, dtype=np.int64)
        return np.stack(np.broadcast_arrays(labels, values), axis=1)

    def check(self, n_labels: int, sizes: list[int]) -> None:
        """Refuse labels, values and fields that there are not."""
        if not 0 <= self.field < len(sizes):
            raise OptionError(f"field={self.field}: there are {len(sizes)} fields, numbered from 0")
        for name, column, n in (("label", 0, n_labels), ("value", 1, sizes[self.field])):
            wrong = np.flatnonzero((self.pairs[:, column] < ANY) | (self.pairs[:, column] >= n))
            if len(wrong):
                number = self.pairs[wrong[0], column]
                raise OptionError(f"{name} {number} of feature {wrong[0]} is not one of 0 to {n - 1}, nor -1 for any")

    def probabilities(self, model: HiddenMarkovModel, chosen: slice) -> Float:
        """Probability [F, Y] that a label is what some of the features want and emits it."""
        labels, values = self.pairs[chosen].T
        fits = (labels[:, None] == np.arange(model.n_labels)) | (labels[:, None] == ANY)
        emitted = np.where(values == ANY, 1.0, model.emissions[self.field][:, values]).T
        return fits * emitted


def label_pairs(model: HiddenMarkovModel, least: int = 1) -> Float:
    """M [Y, Y]: expected number of pairs of positions i, j with j - i >= ``least``, by their labels."""
    if least < 1:
        raise OptionError(f"least={least}: the second position is at least 1 after the first")
    reached = np.flatnonzero(model.inflow > 0.0)  # a state that is never visited may lead nowhere
    step = model.step[np.ix_(reached, reached)]
    between = np.linalg.solve(np.eye(len(reached)) - step, np.linalg.matrix_power(step, least))
    visits = model.inflow[reached, None] * between * model.outflow[None, reached]
    pairs, labels = np.zeros((model.n_labels, model.n_labels)), model.label_of[reached]
    np.add.at(pairs, (labels[:, None], labels[None, :]), visits)
    return np.maximum(pairs, 0.0)


def expected_pairs(model: HiddenMarkovModel, first: Wanted, second: Wanted, least: int = 1) -> Float:
    """Expected count in a sequence of each feature [F]: ``first`` at i, ``second`` at j >= i + ``least``."""
    for wanted in (first, second):
        wanted.check(model.n_labels, [table.shape[1] for table in model.emissions])
    n, pairs = _same_number(first, second), label_pairs(model, least)
    expected = np.empty(n)
    for begin in range(0, n, FEATURES_AT_ONCE):
        chosen = slice(begin, begin + FEATURES_AT_ONCE)
        before, after = (wanted.probabilities(model, chosen) for wanted in (first, second))
        expected[chosen] = ((before @ pairs) * after).sum(axis=1)
    return expected


def pair_counts(
    fields: Fields, labels: Int32, offsets: Int64, first: Wanted, second: Wanted, least: int = 1
) -> csr_matrix:
    """How often each feature occurs in each of S labelled sequences, a sparse matrix [S, F].

    ``fields`` and ``labels`` are [N]. A feature costs what its occurrences do.
    """
    n = _same_number(first, second)
    before, after = (_Places(wanted, fields, labels) for wanted in (first, second))
    sequence_of = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    rows, columns, values = [], [], []
    for feature in range(n):
        ones, others = before.of(feature), after.of(feature)
        sequences = sequence_of[others]
        up_to = np.searchsorted(ones, others - least, side="right")
        counts = np.maximum(up_to - np.searchsorted(ones, offsets[sequences]), 0)
        found = counts > 0
        rows.append(sequences[found])
        columns.append(np.full(int(found.sum()), feature))
        values.append(counts[found])
    joined = [np.concatenate(each) if each else np.zeros(0, dtype=np.int64) for each in (values, rows, columns)]
    matrix = csr_matrix((joined[0].astype(np.float64), (joined[1], joined[2])), shape=(len(offsets) - 1, n))
    matrix.sum_duplicates()
    return matrix


class _Places:
    """Where in a corpus what is wanted stands: positions sorted once by label, value, or both."""

    def __init__(self, wanted: Wanted, fields: Fields, labels: Int32) -> None:
        values = fields[wanted.field].astype(np.int64)
        width = max(int(values.max(initial=0)), int(wanted.pairs[:, 1].max(initial=0))) + 1
        self._wanted, self._width, self._everywhere = wanted, width, np.arange(len(labels))
        keys = {"label": labels.astype(np.int64), "value": values, "both": labels.astype(np.int64) * width + values}
        self._sorted = {
            name: (order, key[order]) for name, key in keys.items() for order in [np.argsort(key, kind="stable")]
        }

    def of(self, feature: int) -> Int64:
        """Positions, ascending, that have what a feature wants."""
        label, value = self._wanted.pairs[feature].tolist()
        if label == ANY and value == ANY:
            return self._everywhere
        if ANY in (label, value):
            name, key = ("value", value) if label == ANY else ("label", label)
        else:
            name, key = "both", label * self._width + value
        order, keys = self._sorted[name]
        return order[np.searchsorted(keys, key) : np.searchsorted(keys, key, side="right")]


def _same_number(first: Wanted, second: Wanted) -> int:
    if len(first.pairs) != len(second.pairs):
        raise OptionError(f"{len(first.pairs)} features want something first, {len(second.pairs)} something second")
    return len(first.pairs)
