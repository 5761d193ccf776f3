"""Expected feature counts under a hidden Markov model, exactly (Smith, Vail & Lafferty 2007, section 4.1.1, eq. 12).

A feature depends on a window of positions around its own: values of fields at some offsets, the label at 0 and perhaps
the one before. Its expected count in a sequence is a product along the window, summed over the labels in it:

    E = sum over states of   inflow(k_lo) B_lo(k_lo)  step(k_lo, k_lo+1) B_lo+1(k_lo+1)  ...  B_hi(k_hi) outflow(k_hi)

``inflow`` are expected visits and ``outflow`` probabilities of stopping (two linear systems, see
:mod:`~loglinear.generative.hmm.model`), B_o(k) the probability that the state's label emits the feature's value at
offset o. A value that means "outside the sentence" fixes how far the position is from its start or end: the window then
begins with the start distribution, or ends with the stop probabilities. All attributes of a template with the same such
distances are computed together, so that an attribute costs a few small matrix products.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Float, Int32, Int64
from loglinear.errors import OptionError
from loglinear.features.templates.encoder import TemplateEncoder
from loglinear.features.templates.language import GAZETTEER
from loglinear.generative.hmm.model import Fields, HiddenMarkovModel
from loglinear.structures.chain.features import ChainFeatures

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


ATTRIBUTES_AT_ONCE = 50_000
INSIDE = -1  # distance of a window that does not extend beyond this end of the sentence


@dataclass(frozen=True)
class FieldValues:
    """The values of one field as strings.

    Parameters
    ----------
    column : int
        The column of the corpus that holds the field.
    strings : list of str
        Its V values, numbered as in the model's emissions.
    """

    column: int
    strings: list[str]


def expected_features(
    model: HiddenMarkovModel, encoder: TemplateEncoder, features: ChainFeatures, fields: Sequence[FieldValues]
) -> Float:
    """Expected count in a sequence of each feature [D]."""
    state, edge, transition, trigram, _ = features.slices
    expected = np.zeros(features.n_features)
    for template in _templates(model, encoder, fields):
        single, pair = template.counts(features.edge is not None)
        if features.input_only:
            single = np.concatenate([single, single.sum(axis=1, keepdims=True)], axis=1)
        if template.in_state:
            expected[state] += _gathered(features.state.pointer, features.state.codes, template.first, single)
        if template.in_edge and features.edge is not None:
            expected[edge] += _gathered(features.edge.pointer, features.edge.codes, template.first, pair)
    bigrams, trigrams = expected_ngrams(model)
    expected[transition] = bigrams.ravel()[features.transitions]
    expected[trigram] = trigrams.ravel()[features.trigrams]
    return expected


def expected_ngrams(model: HiddenMarkovModel) -> tuple[Float, Float]:
    """Expected counts of label bigrams [Y, Y] and trigrams [Y, Y, Y] in a sequence."""
    y, labels = model.n_labels, model.label_of
    through = model.inflow[:, None] * model.step * model.outflow[None, :]
    bigrams = np.zeros((y, y))
    np.add.at(bigrams, (labels[:, None], labels[None, :]), through)
    if model.order == 1:
        return bigrams, through[:, :, None] / np.maximum(model.outflow, 1e-300)[None, :, None] * (
            model.step * model.outflow[None, :]
        )
    trigrams = np.zeros((y, y, y))
    pairs = model.inflow.reshape(y + 1, y)[:y]
    steps = model.steps[:-1, :-1].reshape(y + 1, y, y)[:y]
    trigrams[...] = pairs[:, :, None] * steps * model.outflow.reshape(y + 1, y)[None, :y, :]
    return bigrams, trigrams


def _gathered(pointer: Int64, codes: Int32, first: int, counts: Float) -> Float:
    """The counts [A, C] of attributes from ``first`` on by feature [F]; zero for other attributes."""
    attribute = np.repeat(np.arange(len(pointer) - 1), np.diff(pointer)) - first
    own = (attribute >= 0) & (attribute < len(counts))
    out = np.zeros(len(codes))
    out[own] = counts[attribute[own], codes[own]]
    return out


@dataclass(frozen=True)
class _Template:
    """The attributes of a template, and the fields that its M macros use.

    ``keys`` [A, M] are the values' numbers in the encoder, ``rows`` [M] the offsets, ``places`` [M] the field of each
    macro and ``outcomes`` [M] the macro's result for each of the field's values; ``before`` and ``after`` are the
    numbers of the values outside the sentence, by distance.
    """

    model: HiddenMarkovModel
    first: int
    keys: Int64
    rows: list[int]
    places: list[int]
    outcomes: list[Int64]
    before: Int64
    after: Int64
    in_state: bool
    in_edge: bool

    def counts(self, pairs: bool) -> tuple[Float, Float]:
        """Expected counts of (attribute, label) [A, Y] and, with ``pairs``, (attribute, pair of labels) [A, Y^2]."""
        y, n = self.model.n_labels, len(self.keys)
        single, pair = np.zeros((n, y)), np.zeros((n, y * y) if pairs and self.in_edge else (0, y * y))
        left, right = self._distances()
        for distance in np.unique(np.stack([left, right], axis=1), axis=0):
            group = np.flatnonzero((left == distance[0]) & (right == distance[1]))
            for begin in range(0, len(group), ATTRIBUTES_AT_ONCE):
                chosen = group[begin : begin + ATTRIBUTES_AT_ONCE]
                window = _Window(self, self.keys[chosen], int(distance[0]), int(distance[1]))
                single[chosen] = window.labels()
                if len(pair):
                    pair[chosen] = window.pairs()
        return single, pair

    def _distances(self) -> tuple[Int64, Int64]:
        """Distance of each attribute's position from the sentence's first and last one; INSIDE if it may vary."""
        left, right = np.full((2, len(self.keys)), INSIDE, dtype=np.int64)
        for j, row in enumerate(self.rows):
            for m, value in enumerate(self.before.tolist()):
                left[self.keys[:, j] == value] = -(m + 1) - row
            for m, value in enumerate(self.after.tolist()):
                right[self.keys[:, j] == value] = row - m - 1
        return left, right


class _Window:
    """Attributes of a template [n, M] whose positions have the same distances from the sentence's ends."""

    def __init__(self, template: _Template, keys: Int64, left: int, right: int) -> None:
        self._model, self._left, self._right = template.model, left, right
        inside = [
            row for row in template.rows if (left == INSIDE or row >= -left) and (right == INSIDE or row <= right)
        ]
        self._lowest, self._highest = min([0, *inside]), max([0, *inside])
        self._factors = {row: self._emitted(template, keys, row) for row in set(inside)}
        self._n = len(keys)

    def _emitted(self, template: _Template, keys: Int64, row: int) -> Float:
        """Probability [n, Y] that a label emits each attribute's values at this offset."""
        factor = np.ones((len(keys), self._model.n_labels))
        here = [j for j, other in enumerate(template.rows) if other == row]
        for place in sorted({template.places[j] for j in here}):
            macros = [j for j in here if template.places[j] == place]
            wanted, offered = _codes(keys[:, macros], np.stack([template.outcomes[j] for j in macros], axis=1))
            table = np.zeros((self._model.n_labels, max(int(wanted.max(initial=0)), int(offered.max(initial=0))) + 1))
            possible = offered >= 0
            for label, row_of_table in enumerate(table):
                emission = self._model.emissions[place][label]
                row_of_table += np.bincount(offered[possible], emission[possible], minlength=table.shape[1])
            factor *= np.where(wanted >= 0, table[:, wanted], 0.0).T
        return factor

    def _at(self, row: int, values: Float) -> Float:
        """Values [n, K] times the probability of the attributes' values at an offset."""
        if row not in self._factors:
            return values
        return values * self._factors[row][:, self._model.label_of]

    def _forward(self, to: int, lowest: int) -> Float:
        """Expected visits [n, K] to each state at offset ``to``, with the attributes' values from ``lowest`` on."""
        begin = lowest if self._left == INSIDE else -self._left
        alpha = np.tile(self._model.inflow if self._left == INSIDE else self._model.start, (self._n, 1))
        alpha = self._at(begin, alpha)
        for row in range(begin + 1, to + 1):
            alpha = self._at(row, alpha @ self._model.step)
        return alpha

    def _backward(self) -> Float:
        """Probability [n, K] of the attributes' values after offset 0, and of the end, given the state there."""
        end = self._highest if self._right == INSIDE else self._right
        beta = np.tile(self._model.outflow if self._right == INSIDE else self._model.stop, (self._n, 1))
        for row in range(end, 0, -1):
            beta = self._at(row, beta) @ self._model.step.T
        return beta

    def labels(self) -> Float:
        """Expected counts with each label at offset 0 [n, Y]."""
        visits = self._forward(0, self._lowest) * self._backward()
        return visits.reshape(self._n, -1, self._model.n_labels).sum(axis=1)

    def pairs(self) -> Float:
        """Expected counts with each pair of labels at offsets -1 and 0 [n, Y^2]."""
        y, beta = self._model.n_labels, self._backward()
        if self._left == 0:
            return np.zeros((self._n, y * y))  # nothing precedes it
        if self._model.order == 2:
            visits = self._forward(0, self._lowest) * beta
            return visits.reshape(self._n, y + 1, y)[:, :y].reshape(self._n, y * y)
        before = self._forward(-1, min(self._lowest, -1))
        after = self._at(0, beta)
        return (before[:, :, None] * self._model.step * after[:, None, :]).reshape(self._n, y * y)


def _templates(
    model: HiddenMarkovModel, encoder: TemplateEncoder, fields: Sequence[FieldValues]
) -> Iterator[_Template]:
    place_of = {field.column: place for place, field in enumerate(fields)}
    for spec in encoder.tables():
        rows, places, outcomes = [], [], []
        for macro in spec.template.macros:
            if macro.absolute or macro.function == GAZETTEER:
                what = "absolute rows" if macro.absolute else "gazetteers"
                raise OptionError(
                    f"the template line {spec.template} looks at {what}, whose expectations are not worked out "
                    "exactly; leave it out, or take expectations by sampling, as in base='hmm:samples=100000'"
                )
            if macro.column not in place_of:
                raise OptionError(f"the template looks at column {macro.column}, which the base model does not emit")
            compute, place = macro.compute(), place_of[macro.column]
            rows.append(macro.row)
            places.append(place)
            outcomes.append(encoder.values.ids([compute(v) for v in fields[place].strings]).astype(np.int64))
        yield _Template(
            model, spec.first, spec.keys.astype(np.int64), rows, places, outcomes,
            spec.before.astype(np.int64), spec.after.astype(np.int64), spec.in_state, spec.in_edge,
        )  # fmt: skip


def _codes(wanted: Int64, offered: Int64) -> tuple[Int64, Int64]:
    """One number for each row of both tables, equal for equal rows; -1 for rows with a negative entry."""
    stacked = np.concatenate([wanted, offered])
    valid = (stacked >= 0).all(axis=1)
    codes = stacked[:, 0]
    if stacked.shape[1] > 1:
        codes = np.unique(stacked, axis=0, return_inverse=True)[1].reshape(-1)
    codes = np.where(valid, codes, -1)
    return codes[: len(wanted)], codes[len(wanted) :]


# ----------------------------------------------------------------------------------------------------------------------
# Features with gaps of any length: pairs of positions i < j of a sequence, exactly (Smith et al. 2007, section 4.1.1).
#
# A feature specifies a label, a value of a field, or both, at i and at j, and nothing in between. Its expected count
# sums over all paths between, of every length. With ``step`` the matrix of a hidden Markov model's process over
# states,
#
#     E = sum over states k, l of   inflow(k) B_i(k)  [step^d + step^(d+1) + ...](k, l)  B_j(l) outflow(l)
#       = sum over labels a, b of   B_i(a)  M(a, b)  B_j(b)                with   step^d + ... = (I - step)^-1 step^d
#
# where B(a) is the probability that label a is the specified one and emits the specified value, and d the least
# distance. As emissions depend on labels alone, M [Y, Y] is enough for both orders: one linear system, then a product
# for each feature.


ANY = -1
FEATURES_AT_ONCE = 50_000


@dataclass(frozen=True)
class Wanted:
    """What each of F features specifies at one of its two positions.

    Parameters
    ----------
    labels : int [F]
        Numbers of labels; ``ANY`` (-1) allows all.
    values : int [F], optional
        Numbers of values of the field; ``ANY`` allows all, as does None for all features.
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
        """Reject unknown labels, values and fields."""
        if not 0 <= self.field < len(sizes):
            raise OptionError(f"field={self.field}: there are {len(sizes)} fields, numbered from 0")
        for name, column, n in (("label", 0, n_labels), ("value", 1, sizes[self.field])):
            wrong = np.flatnonzero((self.pairs[:, column] < ANY) | (self.pairs[:, column] >= n))
            if len(wrong):
                number = self.pairs[wrong[0], column]
                raise OptionError(f"{name} {number} of feature {wrong[0]} is not one of 0 to {n - 1}, nor -1 for any")

    def probabilities(self, model: HiddenMarkovModel, chosen: slice) -> Float:
        """Probability [F, Y] that a label fits each of the chosen features and emits its value."""
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

    ``fields`` and ``labels`` are [N]. The cost of a feature is linear in its occurrences.
    """
    from scipy.sparse import csr_matrix

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
    """Positions of a corpus by what features specify: sorted once by label, value, and both."""

    def __init__(self, wanted: Wanted, fields: Fields, labels: Int32) -> None:
        values = fields[wanted.field].astype(np.int64)
        width = max(int(values.max(initial=0)), int(wanted.pairs[:, 1].max(initial=0))) + 1
        self._wanted, self._width, self._everywhere = wanted, width, np.arange(len(labels))
        keys = {"label": labels.astype(np.int64), "value": values, "both": labels.astype(np.int64) * width + values}
        self._sorted = {
            name: (order, key[order]) for name, key in keys.items() for order in [np.argsort(key, kind="stable")]
        }

    def of(self, feature: int) -> Int64:
        """The positions that fit a feature, ascending."""
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
