"""What a part of a corpus contributes to a hidden Markov model: counts that can be added part by part.

:class:`SequenceCounts` knows nothing of other parts. The first occurrence of every value in the whole corpus counts as
the unknown value, and a value that occurs once is unknown (:class:`~loglinear.generative.hmm.model.OpenVocabulary`),
which only the whole corpus can tell; a part therefore counts its own first occurrences apart,

    c(label, v)  of known v      all occurrences in all parts, less the first one in the first part that has v
    c(label, unknown)            these first ones, and those of the values that occur once

so that nothing is read twice. Labels and values get new numbers where parts are added. Where all labels are known the
sums are exact (:mod:`~loglinear.generative.exact`), and the model is that of the whole corpus to the last bit.

Where labels are hidden, :class:`SequenceCounts` are what a start of EM is made from, and :class:`ExpectedSequences` are
the E step of a part under a model.

Letters: Y labels, K states, V values of a field, E pairs of a value and a label that it occurs with, G slices.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from loglinear.arrays import Array, Arrays, Float, Int32, Int64
from loglinear.data.columns.corpus import Column, Columns
from loglinear.errors import DataError
from loglinear.generative import exact
from loglinear.generative.hmm.em import known_counts
from loglinear.generative.hmm.model import UNKNOWN, Counts, OpenVocabulary, number_of_states
from loglinear.model_file import Reader, string_arrays
from loglinear.structures.gold import Gold
from loglinear.wording import how_many

NO_WEIGHT = 1e50  # the least weight of a part in which no sequence has one


@dataclass(frozen=True)
class Pairs:
    """How often values occur with labels, for the pairs that do.

    Parameters
    ----------
    values, labels : int32 [E]
        No pair twice.
    counts : float64 [G, E]
        In slices.
    """

    values: Int32
    labels: Int32
    counts: Float

    @classmethod
    def of_table(cls, table: Float) -> Pairs:
        """The pairs of a table of slices [G, V, Y] that are not zero."""
        values, labels = np.nonzero(table.any(axis=0))
        return cls(values.astype(np.int32), labels.astype(np.int32), table[:, values, labels])

    def placed(self, values: Int32, labels: Int32) -> Pairs:
        """The same with values and labels in other places [V], [Y]."""
        return replace(self, values=values[self.values], labels=labels[self.labels])

    def plus(self, other: Pairs, n_labels: int) -> Pairs:
        """The sum."""
        keys, place = np.unique(np.concatenate([self._keys(n_labels), other._keys(n_labels)]), return_inverse=True)
        each = [np.zeros((len(own.counts), len(keys))) for own in (self, other)]
        each[0][:, place[: len(self.values)]] = self.counts
        each[1][:, place[len(self.values) :]] = other.counts
        values, labels = np.divmod(keys, n_labels)
        return Pairs(values.astype(np.int32), labels.astype(np.int32), exact.added(*each))

    def _keys(self, n_labels: int) -> Int64:
        return self.values.astype(np.int64) * n_labels + self.labels

    def added_to(self, table: Float, rows: Int32, sign: float = 1.0) -> None:
        """Add the counts to a table of slices [G, R, Y], those of value v to row ``rows[v]``."""
        for own, counts in zip(table, self.counts, strict=False):
            np.add.at(own, (rows[self.values], self.labels), sign * counts)

    # -- as data -----------------------------------------------------------------------------------------------------

    def to_arrays(self, part: str) -> Arrays:
        """Arrays of a file."""
        return {f"{part}.values": self.values, f"{part}.labels": self.labels, f"{part}.counts": self.counts}

    @classmethod
    def from_storage(cls, read: Reader, part: str, n_values: int, n_labels: int) -> Pairs:
        """What :meth:`to_arrays` described."""
        values = read.ints(f"{part}.values", (None,), n_values)
        labels = read.ints(f"{part}.labels", values.shape, n_labels)
        return cls(values, labels, exact.read_slices(read, f"{part}.counts", (len(values),)))


@dataclass(frozen=True)
class ValueCounts:
    """The values of an observed column.

    Parameters
    ----------
    values : list of str
        V values in the order of their first occurrence.
    occurrences : int64 [V]
        How often each occurs, whatever the sequences' weights.
    homes : int32 [V]
        The part that each occurs in first.
    pairs, first : Pairs
        All occurrences, and the first one of each value.
    """

    values: list[str]
    occurrences: Int64
    homes: Int32
    pairs: Pairs
    first: Pairs

    def placed(self, labels: Int32, part: int) -> ValueCounts:
        """The same with labels in other places [Y], and parts numbered from ``part``."""
        same = np.arange(len(self.values), dtype=np.int32)
        pairs, first = self.pairs.placed(same, labels), self.first.placed(same, labels)
        return replace(self, pairs=pairs, first=first, homes=self.homes + np.int32(part))

    def plus(self, other: ValueCounts, n_labels: int) -> ValueCounts:
        """The values of both; the first occurrence is that of the first of them that has the value."""
        number = {value: v for v, value in enumerate(self.values)}
        n = len(number)
        rows = np.array([number.setdefault(value, len(number)) for value in other.values], dtype=np.int32)
        occurrences = np.zeros(len(number), dtype=np.int64)
        occurrences[:n] = self.occurrences
        occurrences[rows] += other.occurrences
        is_new, labels = rows >= n, np.arange(n_labels, dtype=np.int32)
        homes = np.concatenate([self.homes, other.homes[is_new]])
        theirs, first = other.pairs.placed(rows, labels), other.first
        new = is_new[first.values]
        later = Pairs(first.values[new], first.labels[new], first.counts[:, new]).placed(rows, labels)
        return ValueCounts(
            list(number), occurrences, homes, self.pairs.plus(theirs, n_labels), self.first.plus(later, n_labels)
        )

    @property
    def known(self) -> Int64:
        """The values that occur more than once."""
        return np.flatnonzero(self.occurrences > 1)

    def emissions(self, n_labels: int) -> Float:
        """Counts [Y, R] of the known values and, last, of the unknown one, with each label."""
        known = self.known
        unknown = len(known)
        rows = np.full(len(self.values), unknown, dtype=np.int32)
        rows[known] = np.arange(unknown, dtype=np.int32)
        table = np.zeros((max(len(self.pairs.counts), len(self.first.counts)), unknown + 1, n_labels))
        self.pairs.added_to(table, rows)
        self.first.added_to(table, rows, -1.0)
        self.first.added_to(table, np.full(len(self.values), unknown, dtype=np.int32))
        counts = np.ascontiguousarray(exact.total(table).T)
        if counts.size and counts.min() < 0.0:
            raise DataError("a value occurs with a label for the first time, but never; make the summaries again")
        return counts

    @property
    def seen(self) -> Float:
        """How often each known value and, last, the unknown one occurs."""
        return np.append(self.occurrences[self.known] - 1, len(self.values)).astype(np.float64)


def is_settled(gold: Gold, offsets: Int64, weights: Float) -> bool:
    """Whether every sequence that counts has a single label at each position."""
    if gold.allowed is None:
        return True
    hidden = np.minimum.reduceat(gold.labels, offsets[:-1]) < 0
    return not (hidden & (weights > 0.0)).any()


class _Numbered(NamedTuple):
    """A column whose values are numbered by themselves, without those that do not occur.

    Attributes
    ----------
    values : list of str
        V of them.
    ids : int32 [N]
    first : int64 [V]
        The position of the first occurrence of each.
    occurrences : int64 [V]
    """

    values: list[str]
    ids: Int32
    first: Int64
    occurrences: Int64

    @classmethod
    def of(cls, column: Column) -> _Numbered:
        """Number the values of a column."""
        counted = np.bincount(column.ids, minlength=len(column.values))
        used = np.flatnonzero(counted)
        number = np.zeros(len(counted), dtype=np.int32)
        number[used] = np.arange(len(used), dtype=np.int32)
        ids, first = number[column.ids], np.zeros(len(used), dtype=np.int64)
        first[ids[::-1]] = np.arange(len(ids), dtype=np.int64)[::-1]
        return cls([column.values[i] for i in used.tolist()], ids, first, counted[used].astype(np.int64))


def digest_of_part(
    corpus: Columns, columns: Sequence[int], gold: Gold, labels: Sequence[str], weights: Float | None
) -> str:
    """What tells a part from another one: arguments as for :meth:`SequenceCounts.of`."""
    digest = hashlib.sha256(repr((corpus.n_columns, list(columns), list(labels))).encode())
    for array in (corpus.offsets, gold.labels, gold.allowed, weights):
        digest.update(b"" if array is None else np.ascontiguousarray(array).tobytes())
    for c in columns:
        own = _Numbered.of(corpus.columns[c])
        digest.update(own.ids.tobytes() + json.dumps(own.values).encode())
    return digest.hexdigest()


class _Known:
    """Counts in slices where all labels are known."""

    def __init__(self, gold: Gold, offsets: Int64, n_labels: int, order: int, times: Float) -> None:
        self._labels = np.maximum(gold.labels, 0)  # in a sequence without weight they need not be known
        self._offsets, self._n, self._order = offsets, n_labels, order
        self._times, self._tokens = exact.slices(times), exact.slices(np.repeat(times, np.diff(offsets)))

    def steps(self) -> Float:
        """[G, K + 1, Y + 1]."""
        each = (Counts.of([], [], self._labels, self._offsets, self._n, self._order, own) for own in self._times)
        return np.stack([counts.steps for counts in each])

    def pairs(self, ids: Int32, n_values: int) -> Float:
        """[G, V, Y]."""
        keys = ids.astype(np.int64) * self._n + self._labels
        each = [np.bincount(keys, own, minlength=n_values * self._n) for own in self._tokens]
        return np.stack(each).reshape(len(each), n_values, self._n).astype(np.float64)

    def first(self, places: Int64) -> Float:
        """The same of the values' first occurrences [V]."""
        table = np.zeros((len(self._tokens), len(places), self._n))
        table[:, np.arange(len(places)), self._labels[places]] = self._tokens[:, places]
        return table


class _Hidden:
    """Counts in equal shares of the labels that a position may have, in one slice."""

    def __init__(self, gold: Gold, offsets: Int64, n_labels: int, order: int, times: Float) -> None:
        self._gold, self._offsets, self._n, self._order, self._times = gold, offsets, n_labels, order, times

    def steps(self) -> Float:
        """[1, K + 1, Y + 1]."""
        n, order = self._n, self._order
        with_any = known_counts([], [], self._offsets, self._gold, n + 1, order, self._times).steps
        by_pair = with_any[:-1].reshape(-1, n + 1, n + 2)
        before = _without(n + 2, n) if order == 2 else np.zeros(1, dtype=np.int64)
        rows = by_pair[np.ix_(before, np.arange(n), _without(n + 2, n))]
        return np.concatenate([rows.reshape(-1, n + 1), with_any[-1:, _without(n + 2, n)]])[None]

    def pairs(self, ids: Int32, n_values: int) -> Float:
        """[1, V, Y]."""
        found = known_counts([ids], [n_values], self._offsets, self._gold, self._n + 1, 1, self._times)
        return np.ascontiguousarray(found.emissions[0][:-1].T)[None]

    def first(self, places: Int64) -> Float:
        """The same of the values' first occurrences [V]."""
        allowed, v = self._gold.allowed, len(places)
        single = Gold(self._gold.labels[places], None if allowed is None else allowed[places])
        own, apart = np.repeat(self._times, np.diff(self._offsets))[places], np.arange(v + 1, dtype=np.int64)
        found = known_counts([np.arange(v, dtype=np.int32)], [v], apart, single, self._n + 1, 1, own)
        return np.ascontiguousarray(found.emissions[0][:-1].T)[None]


def _without(n: int, one: int) -> Int64:
    return np.delete(np.arange(n), one)


@dataclass(frozen=True)
class SequenceCounts:
    """The counts of a part, whatever is in the others.

    Parameters
    ----------
    order : int
    labels : list of str
        Ascending.
    settled : bool
        Whether every label is known. If not, a position counts for each label that it may have, in equal shares, and
        for none if it may have any.
    columns : list of int
        The columns that are emitted, of ``n_columns``.
    steps : float64 [G, K + 1, Y + 1]
        In slices.
    fields : list of ValueCounts
        Of each emitted column.
    parts : list of str
        The digests of the parts that these are the counts of.
    least_weight : float
        The least weight above zero of a sequence.
    """

    kind: ClassVar[str] = "sequences"
    order: int
    labels: list[str]
    settled: bool
    columns: list[int]
    n_columns: int
    steps: Float
    fields: list[ValueCounts]
    parts: list[str]
    least_weight: float

    @classmethod
    def of(
        cls, corpus: Columns, columns: Sequence[int], gold: Gold, labels: Sequence[str], order: int,
        weights: Float | None = None,
    ) -> SequenceCounts:  # fmt: skip
        """Count a part.

        Parameters
        ----------
        corpus : Columns
        columns : sequence of int
            Those to be emitted.
        gold : Gold
            What is known of the labels. Where some are hidden, it has one label more than ``labels``, the last, which
            nothing allows but what allows any.
        labels : sequence of str
        order : int
        weights : float64 [S], optional
            How often each sequence counts, once if not given.
        """
        offsets, n = corpus.offsets, len(labels)
        times = np.ones(len(offsets) - 1) if weights is None else weights
        settled = bool(labels) and is_settled(gold, offsets, times)
        count = _Known(gold, offsets, n, order, times) if settled else _Hidden(gold, offsets, n, order, times)
        fields = []
        for c in columns:
            own = _Numbered.of(corpus.columns[c])
            v = len(own.values)
            fields.append(
                ValueCounts(
                    own.values, own.occurrences, np.zeros(v, dtype=np.int32),
                    Pairs.of_table(count.pairs(own.ids, v)), Pairs.of_table(count.first(own.first)),
                )
            )  # fmt: skip
        return cls(
            order, list(labels), settled, list(columns), corpus.n_columns, count.steps(), fields,
            [digest_of_part(corpus, columns, gold, labels, weights)],
            float(times[times > 0.0].min(initial=NO_WEIGHT)),
        )  # fmt: skip

    def __add__(self, other: SequenceCounts) -> SequenceCounts:
        """The counts of this part followed by another."""
        if (self.columns, self.n_columns) != (other.columns, other.n_columns):
            mine, theirs = (f"{each.columns} of {how_many(each.n_columns, 'column')}" for each in (self, other))
            raise DataError(f"a part emits the columns {mine}, another one {theirs}; all parts need the same")
        labels = sorted({*self.labels, *other.labels})
        first, then = self._placed(labels, 0), other._placed(labels, len(self.parts))
        fields = [a.plus(b, len(labels)) for a, b in zip(first.fields, then.fields, strict=True)]
        return replace(
            first, settled=self.settled and other.settled, steps=exact.added(first.steps, then.steps), fields=fields,
            parts=[*self.parts, *other.parts], least_weight=min(self.least_weight, other.least_weight),
        )  # fmt: skip

    def _placed(self, labels: list[str], part: int) -> SequenceCounts:
        """The same over more labels, with parts numbered from ``part``."""
        number = {label: y for y, label in enumerate(labels)}
        places = np.array([number[label] for label in self.labels], dtype=np.int32)
        own, n = np.append(places, len(labels)), len(labels)
        m, g = len(self.labels), len(self.steps)
        before = own if self.order == 2 else np.zeros(1, dtype=np.int64)
        steps = np.zeros((g, number_of_states(n, self.order) + 1, n + 1))
        rows = steps[:, :-1].reshape(g, n + 1 if self.order == 2 else 1, n, n + 1)
        theirs = self.steps[:, :-1].reshape(g, m + 1 if self.order == 2 else 1, m, m + 1)
        rows[np.ix_(np.arange(g), before, places, own)] = theirs
        steps[:, -1, own] = self.steps[:, -1]
        return replace(self, labels=labels, steps=steps, fields=[each.placed(places, part) for each in self.fields])

    def over(self, labels: Sequence[str]) -> SequenceCounts:
        """The same for a model of ``labels``, those that occur among them."""
        return self._placed(list(labels), 0)

    @property
    def vocabulary(self) -> OpenVocabulary:
        """The known values of each column."""
        values = [[*(each.values[v] for v in each.known.tolist()), UNKNOWN] for each in self.fields]
        return OpenVocabulary(tuple(self.columns), values)

    @property
    def counts(self) -> Counts:
        """The counts of events, first occurrences being the unknown value."""
        n = len(self.labels)
        return Counts(self.order, n, exact.total(self.steps), [each.emissions(n) for each in self.fields])

    # -- as data -----------------------------------------------------------------------------------------------------

    def to_storage(self) -> tuple[dict[str, Any], Arrays]:
        """Header and arrays of a file."""
        header = {
            "order": self.order, "labels": self.labels, "settled": self.settled, "columns": self.columns,
            "n_columns": self.n_columns, "parts": self.parts, "least_weight": self.least_weight,
        }  # fmt: skip
        arrays: Arrays = {"steps": self.steps}
        for f, each in enumerate(self.fields):
            arrays |= {
                **string_arrays(f"{f}.strings", each.values), f"{f}.occurrences": each.occurrences,
                f"{f}.homes": each.homes, **each.pairs.to_arrays(f"{f}.pairs"), **each.first.to_arrays(f"{f}.first"),
            }  # fmt: skip
        return header, arrays

    @classmethod
    def from_storage(cls, read: Reader) -> Self:
        """What :meth:`to_storage` described."""
        order, labels, parts = read.choice("order", (1, 2)), read.names("labels", least=0), read.value("parts")
        if labels != sorted(labels) or not isinstance(parts, list) or not all(isinstance(each, str) for each in parts):
            read.fail("labels", "not ascending, or the parts are no list of digests")
        n_columns, columns, n = read.integer("n_columns", 1), read.value("columns"), len(labels)
        whole = isinstance(columns, list) and all(type(c) is int and 0 <= c < n_columns for c in columns)
        if not whole or columns != sorted(set(columns)) or not columns:
            read.fail("columns", f"not numbers of {n_columns} columns")
        steps = exact.read_slices(read, "steps", (number_of_states(n, order) + 1, n + 1))
        fields = []
        for f in range(len(columns)):
            values = read.strings(f"{f}.strings", distinct=True)
            v = len(values)
            occurrences = read.array(f"{f}.occurrences", (np.int64,), (v,)).copy()
            if v and occurrences.min() < 1:
                read.fail(f"{f}.occurrences", "a value does not occur")
            homes = read.ints(f"{f}.homes", (v,), len(parts))
            pairs = (Pairs.from_storage(read, f"{f}.{name}", v, n) for name in ("pairs", "first"))
            fields.append(ValueCounts(values, occurrences, homes, *pairs))
        least, settled = read.number("least_weight", above=0.0), read.flag("settled")
        return cls(order, labels, settled, columns, n_columns, steps, fields, parts, least)


@dataclass(frozen=True)
class ExpectedSequences:
    """The E step of a part.

    Parameters
    ----------
    counts : Counts
        Expected, given what is observed and the model.
    log_likelihood : float
        Of what is observed.
    least_weight : float
        The least weight above zero of a sequence.
    """

    kind: ClassVar[str] = "expected sequences"
    counts: Counts
    log_likelihood: float
    least_weight: float

    def __add__(self, other: ExpectedSequences) -> ExpectedSequences:
        return ExpectedSequences(
            self.counts + other.counts, self.log_likelihood + other.log_likelihood,
            min(self.least_weight, other.least_weight),
        )  # fmt: skip

    # -- as data -----------------------------------------------------------------------------------------------------

    def to_storage(self) -> tuple[dict[str, Any], Arrays]:
        """Header and arrays of a file."""
        header = {
            "order": self.counts.order, "n_labels": self.counts.n_labels, "n_fields": len(self.counts.emissions),
            "log_likelihood": self.log_likelihood, "least_weight": self.least_weight,
        }  # fmt: skip
        emissions: dict[str, Array] = {f"emissions.{f}": table for f, table in enumerate(self.counts.emissions)}
        return header, {"steps": self.counts.steps, **emissions}

    @classmethod
    def from_storage(cls, read: Reader) -> Self:
        """What :meth:`to_storage` described."""
        order, n = read.choice("order", (1, 2)), read.integer("n_labels", 1)
        steps = read.floats("steps", (number_of_states(n, order) + 1, n + 1), 0.0, np.inf)
        n_fields = read.integer("n_fields", 1, len(read.arrays))
        emissions = [read.floats(f"emissions.{f}", (n, None), 0.0, np.inf) for f in range(n_fields)]
        counts = Counts(order, n, steps, emissions)
        return cls(counts, read.number("log_likelihood"), read.number("least_weight", above=0.0))
