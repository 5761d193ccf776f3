"""Hidden Markov models of order 1 and 2 with several emitted fields, independent of each other given the label.

    p(x, y) = prod_t [ t(y_t given the labels before)  prod_f e_f(x_tf given y_t) ]  t(stop given the last labels)

Start and stop emit nothing. A label depends on the *state* before it: at order 1 a label, at order 2 a pair of labels,
the first of which may be the start. With K states, a start distribution, a step matrix and stop probabilities, both
orders are the same first-order process, and everything computed from it is written once:

    order 1   K = Y            state y                          order 2   K = (Y + 1) Y     state (y', y) = y' Y + y,
                                                                                            y' = Y is the start

Transitions are relative frequencies (plus ``transition_smoothing``), emissions are smoothed by adding ``smoothing``
(Smith, Vail & Lafferty 2007, section 5). Letters: S sequences, N positions, Y labels, K states, V values of a field.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from loglinear import mapped
from loglinear.arrays import Array, Bool, Float, Int32, Int64
from loglinear.data.columns.corpus import PYTHON, Column, Columns
from loglinear.errors import OptionError
from loglinear.features.encoding import runs
from loglinear.structures.chain.structure import ChainScores

Fields = Sequence[Int32]


BLOCK = 1 << 19  # positions that are counted together


def _are_whole(weights: Float | None, n: int) -> bool:
    """Whether sums of up to ``n`` of the weights are exact, whatever their order: None stands for ones."""
    if weights is None:
        return True
    return float(np.abs(weights).max(initial=0.0)) * n < 2.0**53 and bool((weights == np.floor(weights)).all())


@dataclass(frozen=True)
class Counts:
    """How often each event of a hidden Markov model happens: observed or expected counts.

    Parameters
    ----------
    order, n_labels : int
    steps : float64 [K + 1, Y + 1]
        From a state (the last row: from the start) to a label (the last column: to the stop).
    emissions : list of float64 [Y, V]
        For each field, from a label to a value.
    """

    order: int
    n_labels: int
    steps: Float
    emissions: list[Float]

    @classmethod
    def of(
        cls,
        fields: Fields,
        sizes: Sequence[int],
        labels: Int32,
        offsets: Int64,
        n_labels: int,
        order: int,
        weights: Float | None = None,
    ) -> Counts:
        """Counts of a labelled corpus; field f [N] has ``sizes[f]`` values, sequence i counts ``weights[i]`` times."""
        if len(labels) <= BLOCK or not _are_whole(weights, len(labels)):
            return cls._of(fields, sizes, labels, offsets, n_labels, order, weights)
        total: Counts | None = None
        for first, end in runs(offsets, 0, len(offsets) - 1, BLOCK):  # whole numbers: the sums are exact
            lo, hi = int(offsets[first]), int(offsets[end])
            part = [values[lo:hi] for values in fields], sizes, labels[lo:hi], offsets[first : end + 1] - lo
            found = cls._of(*part, n_labels, order, None if weights is None else weights[first:end])
            total = found if total is None else total + found
        assert total is not None
        return total

    @classmethod
    def _of(
        cls,
        fields: Fields,
        sizes: Sequence[int],
        labels: Int32,
        offsets: Int64,
        n_labels: int,
        order: int,
        weights: Float | None = None,
    ) -> Counts:
        """The same, of all sequences at once."""
        states, begins, ends = states_of(labels, offsets, n_labels, order)
        n_states = number_of_states(n_labels, order)
        times = None if weights is None else np.repeat(weights, np.diff(offsets))
        before = np.where(begins, n_states, np.roll(states, 1))
        steps = _table(before, labels, n_states + 1, n_labels + 1, times)
        stops = np.full(int(ends.sum()), n_labels)
        steps += _table(states[ends], stops, n_states + 1, n_labels + 1, weights)
        emissions = [_table(labels, values, n_labels, size, times) for values, size in zip(fields, sizes, strict=True)]
        return cls(order, n_labels, steps, emissions)

    def __add__(self, other: Counts) -> Counts:
        emissions = [a + b for a, b in zip(self.emissions, other.emissions, strict=True)]
        return Counts(self.order, self.n_labels, self.steps + other.steps, emissions)


@dataclass(frozen=True)
class HiddenMarkovModel:
    """A hidden Markov model with its probabilities.

    Parameters
    ----------
    order, n_labels : int
    steps : float64 [K + 1, Y + 1]
        Probability of the next label (the last column: of stopping) after a state (the last row: at the start).
    emissions : list of float64 [Y, V]
        Of each value of a field, given the label.
    """

    order: int
    n_labels: int
    steps: Float
    emissions: list[Float] = field(repr=False)

    @classmethod
    def estimated(
        cls, counts: Counts, smoothing: float = 1.0, transition_smoothing: float = 0.0, possible: Bool | None = None
    ) -> HiddenMarkovModel:
        """The relative frequencies of counts, smoothed by adding constants to them.

        A state without counts steps like its label does at order 1, and if that has no counts either, anywhere. Only
        ``possible`` steps [K + 1, Y + 1] (:func:`possible_steps`; all if None) get a probability.
        """
        may = np.ones(counts.steps.shape) if possible is None else possible.astype(np.float64)
        steps = (counts.steps + transition_smoothing) * may
        steps[-1, -1] = 0.0  # there are no empty sequences
        if counts.order == 2:
            by_label = steps[:-1].reshape(-1, counts.n_labels, counts.n_labels + 1).sum(axis=0)
            unseen = steps[:-1].sum(axis=1) == 0.0
            steps[:-1][unseen] = (np.tile(by_label, (counts.n_labels + 1, 1)) * may[:-1])[unseen]
        for anywhere in (may, np.ones_like(may)):  # the latter for states without a possible step, never visited
            never_left = steps.sum(axis=1) == 0.0
            steps[never_left] = anywhere[never_left]
            steps[-1, -1] = 0.0
        return cls(
            counts.order,
            counts.n_labels,
            steps / steps.sum(axis=1, keepdims=True),
            [_normalised(table + smoothing) for table in counts.emissions],
        )

    @property
    def n_parameters(self) -> int:
        """Probabilities that are not zero: of the steps from states that can be reached, and of the emissions."""
        reached = np.append(self.inflow > 0, True)
        return int((self.steps[reached] > 0).sum()) + sum(int((table > 0).sum()) for table in self.emissions)

    @property
    def parameters(self) -> Float:
        """All probabilities as a vector [P]: the steps, then the emissions of each field."""
        return np.concatenate([self.steps.ravel(), *(table.ravel() for table in self.emissions)])

    def with_parameters(self, parameters: Float) -> HiddenMarkovModel:
        """The same with other probabilities [P]."""
        ends = np.cumsum([self.steps.size, *(table.size for table in self.emissions)])
        steps, *tables = np.split(np.array(parameters, dtype=np.float64), ends[:-1])
        emissions = [new.reshape(old.shape) for new, old in zip(tables, self.emissions, strict=True)]
        return HiddenMarkovModel(self.order, self.n_labels, steps.reshape(self.steps.shape), emissions)

    def __getstate__(self) -> dict[str, Any]:
        """For pickling: everything but cached properties."""
        return {name: self.__dict__[name] for name in ("order", "n_labels", "steps", "emissions")}

    # -- as a process over states --------------------------------------------------------------------------------

    @property
    def n_states(self) -> int:
        """K."""
        return len(self.steps) - 1

    @cached_property
    def label_of(self) -> Int64:
        """The label of each state [K]."""
        return np.arange(self.n_states) % self.n_labels

    @cached_property
    def start(self) -> Float:
        """Probability of each state at the first position [K]."""
        start = np.zeros(self.n_states)
        start[-self.n_labels :] = self.steps[-1, :-1]
        return start

    @property
    def stop(self) -> Float:
        """Probability of stopping after each state [K]."""
        return self.steps[:-1, -1]

    @cached_property
    def step(self) -> Float:
        """Probability of each state after each [K, K]."""
        matrix = np.zeros((self.n_states, self.n_states))
        rows = np.repeat(np.arange(self.n_states), self.n_labels)
        labels = np.tile(np.arange(self.n_labels), self.n_states)
        columns = labels if self.order == 1 else self.label_of[rows] * self.n_labels + labels
        matrix[rows, columns] = self.steps[:-1, :-1].ravel()
        return matrix

    @cached_property
    def inflow(self) -> Float:
        """Expected visits to each state [K]: the solution of  i = start + step' i."""
        visits = np.linalg.solve(np.eye(self.n_states) - self.step.T, self.start)
        if not np.isfinite(visits).all() or visits.min(initial=0.0) < -1e-9:
            raise OptionError("the hidden Markov model does not stop: some states only lead to each other")
        return np.maximum(visits, 0.0)

    @cached_property
    def outflow(self) -> Float:
        """Probability of stopping some time after each state [K]: the solution of  o = stop + step o."""
        reached = self.inflow > 0.0
        out = np.ones(self.n_states)  # for states that are never visited any number will do
        inner = np.flatnonzero(reached)
        matrix = np.eye(len(inner)) - self.step[np.ix_(inner, inner)]
        out[inner] = np.linalg.solve(matrix, self.stop[inner])
        return out

    # -- scores, likelihoods, draws ------------------------------------------------------------------------------

    @cached_property
    def log_steps(self) -> Float:
        """log of the steps [K + 1, Y + 1]."""
        with np.errstate(divide="ignore"):
            return np.log(self.steps)

    @cached_property
    def log_values(self) -> list[Float]:
        """log of each field's emissions, turned [V, Y] so that the labels of a value lie together."""
        with np.errstate(divide="ignore"):
            return [np.log(np.ascontiguousarray(table.T)) for table in self.emissions]

    def log_emissions(self, fields: Fields) -> Float:
        """log p(fields given label) of each position and label [N, Y]."""
        first, *others = (table[values] for values, table in zip(fields, self.log_values, strict=True))
        for other in others:
            first += other
        return first

    def log_p(self, counts: Counts) -> float:
        """Log-probability of all events of ``counts``: the sum of each count times its log-probability."""
        pairs = [(counts.steps, self.log_steps)]
        pairs += [(table, log.T) for table, log in zip(counts.emissions, self.log_values, strict=True)]
        return sum(float(n[n > 0.0] @ log[n > 0.0]) for n, log in pairs)

    def scores(self, fields: Fields, offsets: Int64) -> ChainScores:
        """Part scores whose sum along a labelling is log p(x, y).

        At order 2 the first step and the stop do not depend on a trigram: they are edges of the second and last
        positions (for a sequence of one position the stop is part of its emission).
        """
        y, n, steps = self.n_labels, len(fields[0]), self.log_steps
        emission, start, nothing = self.log_emissions(fields), steps[-1, :-1].copy(), np.zeros(y)
        if self.order == 1:
            return ChainScores(emission, np.ascontiguousarray(steps[:-1, :-1]), start, steps[:-1, -1].copy())
        by_pair = steps[:-1].reshape(y + 1, y, y + 1)
        first, last = offsets[:-1], offsets[1:] - 1
        alone = first == last
        emission[first[alone]] += by_pair[y, :, y]
        edge = np.zeros((n, y, y))
        edge[first[~alone] + 1] += by_pair[y, :, :y]
        edge[last[~alone]] += by_pair[:y, :, y]
        trigram = np.ascontiguousarray(by_pair[:y, :, :y])
        return ChainScores(emission, np.zeros((y, y)), start, nothing, edge, trigram)

    def sample(
        self, n: int, rng: np.random.Generator, most: int = 100_000, after: Int64 | None = None
    ) -> tuple[list[Int32], Int32, Int64]:
        """``n`` sequences: fields [N] each, labels [N] and offsets [n + 1]; steps are drawn for all of them at once.

        A sequence of more than ``most`` positions is an error: the model hardly ever stops. ``after`` [n] are the
        states that the sequences continue from, K for the start (the default); a continuation may be empty.
        """
        active, state = np.arange(n), np.full(n, self.n_states) if after is None else after.astype(np.int64)
        lengths = np.zeros(n, dtype=np.int64)
        steps: list[tuple[Int64, Int64]] = []
        cumulated = np.cumsum(self.steps, axis=1)
        while len(active):
            if len(steps) > most:
                raise OptionError(f"a sampled sequence has more than {most:,} positions: the model hardly ever stops")
            drawn = _draw(cumulated[state[active]], rng)
            active, drawn = active[drawn < self.n_labels], drawn[drawn < self.n_labels]
            lengths[active] += 1
            steps.append((active, drawn))
            before = np.where(state[active] == self.n_states, self.n_labels, state[active] % self.n_labels)
            state[active] = drawn if self.order == 1 else before * self.n_labels + drawn
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        labels = np.empty(int(offsets[-1]), dtype=np.int32)
        for t, (sequences, drawn) in enumerate(steps):
            labels[offsets[sequences] + t] = drawn
        return [self.emit(table, labels, rng) for table in self.emissions], labels, offsets

    def emit(self, table: Float, labels: Int32, rng: np.random.Generator) -> Int32:
        """A value drawn for each label [N] from its row of ``table`` [Y, V]."""
        values, uniform = np.empty(len(labels), dtype=np.int32), rng.random(len(labels))
        cumulated = np.cumsum(table, axis=1)
        for y in range(self.n_labels):
            here = labels == y
            drawn = np.searchsorted(cumulated[y] / cumulated[y, -1], uniform[here], side="right")
            values[here] = np.minimum(drawn, table.shape[1] - 1)
        return values


def number_of_states(n_labels: int, order: int) -> int:
    """K."""
    return n_labels if order == 1 else (n_labels + 1) * n_labels


def possible_steps(transitions: Array, starts: Array, ends: Array, order: int) -> Bool:
    """The steps [K + 1, Y + 1] that constraints allow, from masks of transitions [Y, Y], starts [Y] and ends [Y]."""
    n_labels = len(starts)
    after_label = np.column_stack([transitions, ends]).astype(bool)
    after_state = np.tile(after_label, (1 if order == 1 else n_labels + 1, 1))
    return np.vstack([after_state, np.append(starts, 0).astype(bool)])


def states_of(labels: Int32, offsets: Int64, n_labels: int, order: int) -> tuple[Int64, Bool, Bool]:
    """The state at each position [N], and whether a sequence begins, or ends, there."""
    begins, ends = np.zeros((2, len(labels)), dtype=bool)
    begins[offsets[:-1]], ends[offsets[1:] - 1] = True, True
    states = labels.astype(np.int64)
    if order == 2:
        states += n_labels * np.where(begins, n_labels, np.roll(labels, 1)).astype(np.int64)
    return states, begins, ends


def _table(rows: Array, columns: Array, height: int, width: int, weights: Float | None = None) -> Float:
    """How often each (row, column) occurs, float64 [height, width], times the weights if given."""
    flat = rows.astype(np.int64) * width + columns
    return np.bincount(flat, weights, minlength=height * width).reshape(height, width).astype(np.float64)


def _normalised(table: Float) -> Float:
    """Rows divided by their sums; a row of zeros becomes uniform."""
    totals = table.sum(axis=1, keepdims=True)
    return np.where(totals > 0, table / np.where(totals > 0, totals, 1.0), 1.0 / max(table.shape[1], 1))


def _draw(cumulated: Float, rng: np.random.Generator) -> Int64:
    """One draw from each row [n, m] of cumulated probabilities."""
    threshold = rng.random(len(cumulated)) * cumulated[:, -1]
    return np.minimum((cumulated <= threshold[:, None]).sum(axis=1), cumulated.shape[1] - 1)


# ----------------------------------------------------------------------------------------------------------------------
# A closed set of values for each observed column, the last of which represents all others.
#
# In training the first occurrence of every value becomes the unknown one (Smith, Vail & Lafferty 2007, section 5), so
# that its probability is that of a new value, and a value that occurs only once is unknown. Elsewhere every value that
# is not in the set becomes the unknown one.


UNKNOWN = "<unknown>"


def _first_occurrences(column: Column) -> Int64:
    """The position at which each value of a column that occurs does so first."""
    first = np.full(len(column.values), -1, dtype=np.int64)
    for begin in reversed(range(0, len(column.ids), mapped.PIECE)):
        piece = column.ids[begin : begin + mapped.PIECE]
        first[piece[::-1]] = np.arange(begin + len(piece) - 1, begin - 1, -1)  # of several, the last one stays
    return first[first >= 0]


@dataclass(frozen=True)
class OpenVocabulary:
    """The known values of some columns of a corpus.

    Parameters
    ----------
    columns : tuple of int
        The columns.
    values : list of list of str
        For each, its values; the last one represents all others.
    """

    columns: tuple[int, ...]
    values: list[list[str]]

    @classmethod
    def fit(cls, corpus: Columns, columns: Sequence[int]) -> tuple[OpenVocabulary, Columns]:
        """The vocabulary of a training corpus, and the corpus with first occurrences made unknown."""
        values, replaced = [], list(corpus.columns)
        for c in columns:
            column = corpus.columns[c]
            known = np.flatnonzero(mapped.counts(column.ids, len(column.values)) > 1)
            number = np.full(len(column.values), len(known), dtype=np.int32)
            number[known] = np.arange(len(known), dtype=np.int32)
            ids = mapped.taken(number, column.ids)
            ids[_first_occurrences(column)] = len(known)
            values.append([*(column.values[i] for i in known.tolist()), UNKNOWN])
            replaced[c] = Column(ids, values[-1])
        return cls(tuple(columns), values), replace(corpus, columns=replaced)

    def transform(self, corpus: Columns) -> Columns:
        """The corpus with every value that is not known replaced by the unknown one."""
        if not corpus.n_tokens:  # no row says how many columns there are
            none = np.zeros(0, dtype=np.int32)
            return replace(corpus, columns=self.corpus([none] * len(self.columns), corpus.offsets).columns)
        replaced = list(corpus.columns)
        for c, values in zip(self.columns, self.values, strict=True):
            column = corpus.column(c)
            known = {value: i for i, value in enumerate(values[:-1])}
            number = np.array([known.get(value, len(known)) for value in column.values], dtype=np.int32)
            ids = mapped.taken(number, column.ids) if len(number) else column.ids
            replaced[c] = Column(ids, values)
        return replace(corpus, columns=replaced)

    def fields(self, corpus: Columns) -> list[Int32]:
        """The numbers [N] of each column's values, of a corpus that :meth:`transform` or :meth:`fit` gave."""
        return [np.ascontiguousarray(corpus.columns[c].ids) for c in self.columns]

    def corpus(self, fields: Sequence[Int32], offsets: Int64) -> Columns:
        """The corpus in which these columns hold the values numbered ``fields`` [N]; others are empty strings."""
        n = int(offsets[-1])
        columns = [Column(np.zeros(n, dtype=np.int32), [""]) for _ in range(max(self.columns) + 1)]
        for c, ids, values in zip(self.columns, fields, self.values, strict=True):
            columns[c] = Column(ids, values)
        return Columns(PYTHON, offsets, np.zeros(n, dtype=np.int64), columns)
