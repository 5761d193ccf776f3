"""The types of a corpus in memory: :class:`Column`, :class:`Columns` and :class:`Attributes`.

A column of N strings is stored factorised, as the ids of its distinct values::

    word       the  dog  saw  the  cat          values = ["the", "dog", "saw", "cat"]
    ids         0    1    2    0    3           values[ids[t]] is the string at position t

so that a corpus of millions of tokens holds one Python string per distinct value, and all later steps (templates,
encoding, evaluation) are integer arithmetic. Sentences are concatenated; sentence s is the slice
``offsets[s]:offsets[s + 1]``. Letters: S sentences, N positions (tokens) in all, M (token, attribute) pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from typing import Any, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from loglinear import mapped
from loglinear.arrays import Float, Int32, Int64, UInt8
from loglinear.errors import DataError, OptionError
from loglinear.wording import how_many

A = TypeVar("A")
PYTHON = "<python>"
MOST_VALUE = 1e15  # of an attribute: beyond it, a score has no digits left for anything else


def ranges(starts: Int64, lengths: Int64) -> Int64:
    """Concatenate ``starts[i], starts[i] + 1, ...`` of ``lengths[i]`` numbers each, without a loop."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    numbers: Int64 = np.arange(total, dtype=np.int64) + np.repeat(starts - (ends - lengths), lengths)
    return numbers


def offsets_of(lengths: npt.ArrayLike) -> Int64:
    """Offsets [S + 1] of blocks of the given lengths [S]."""
    lengths = np.asarray(lengths, dtype=np.int64)
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _sentence_numbers(sentences: npt.ArrayLike, n_sentences: int) -> Int64:
    """Sentence numbers (or a mask [S]) as int64; raises OptionError for anything else."""
    chosen = np.asarray(sentences)
    if chosen.dtype == np.bool_:
        if chosen.shape != (n_sentences,):
            raise OptionError(f"a mask of sentences needs {how_many(n_sentences, 'entry')}, not {chosen.shape}")
        chosen = np.flatnonzero(chosen)
    if chosen.size == 0:
        return np.zeros(0, dtype=np.int64)
    if chosen.ndim != 1 or not np.issubdtype(chosen.dtype, np.integer):
        raise OptionError("select wants a list of sentence numbers (from 0)")
    if chosen.min() < 0 or chosen.max() >= n_sentences:
        raise OptionError(f"sentence numbers must lie between 0 and {n_sentences - 1}")
    return chosen.astype(np.int64)


@dataclass(eq=False, slots=True)
class Column:
    """A factorised column: ``values[ids[t]]`` is the string at position t.

    Attributes
    ----------
    ids : int32 [N]
        Number of the value at each position.
    values : list of str
        The distinct values, in order of first occurrence (a column of a selection shares its parent's values).
    """

    ids: Int32
    values: list[str]

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def from_strings(cls, strings: Iterable[str]) -> Column:
        """Factorise strings; O(N) with one dictionary look-up per string."""
        strings = list(strings)
        index = {value: number for number, value in enumerate(dict.fromkeys(strings))}
        ids = np.fromiter(map(index.__getitem__, strings), dtype=np.int32, count=len(strings))
        return cls(ids, list(index))

    def strings(self) -> list[str]:
        """The N strings, one Python reference each."""
        return list(map(self.values.__getitem__, self.ids.tolist()))

    def at(self, positions: Int64) -> Column:
        """The column at some positions; ``values`` are shared."""
        return Column(self.ids[positions], self.values)


@dataclass(eq=False, slots=True)
class Layout:
    """What is needed to write a column file back with columns appended and every other byte unchanged.

    Attributes
    ----------
    raw : bytes
        The whole file, uncompressed.
    ends : int64 [R]
        Byte positions, ascending, where the last field of a token line or ``-DOCSTART-`` line ends.
    separators : uint8 [R]
        Byte that separates fields on that line.
    tokens : int64 [R]
        Position in the corpus of the line's token, -1 for a ``-DOCSTART-`` line.
    spaced : bool
        Whether a field may hold spaces.
    """

    raw: bytes
    ends: Int64
    separators: UInt8
    tokens: Int64
    spaced: bool


class Sentences:
    """S sentences with N tokens in all; sentence s is the positions ``offsets[s]:offsets[s + 1]``."""

    offsets: Int64

    @property
    def n_sentences(self) -> int:
        """Number of sentences S."""
        return len(self.offsets) - 1

    @property
    def n_tokens(self) -> int:
        """Number of positions N."""
        return int(self.offsets[-1])

    def __len__(self) -> int:
        return self.n_sentences

    def _selected(self, chosen: Int64) -> tuple[Int64, Int64]:
        """Offsets of a corpus of the ``chosen`` sentences, and the positions of its tokens."""
        lengths = np.diff(self.offsets)[chosen]
        return offsets_of(lengths), ranges(self.offsets[:-1][chosen], lengths)


@dataclass(eq=False)
class _Corpus(Sentences):
    """What :class:`Columns` and :class:`Attributes` share: sentences, and lines for messages.

    Attributes
    ----------
    name : str
        File name for messages, ``<stdin>`` or ``<python>``.
    offsets : int64 [S + 1]
        Sentence s is the positions ``offsets[s]:offsets[s + 1]``.
    lines : int64 [N]
        Line of each token, from 1 (in JSON Lines and plain text the sentence's line; 0 in ``<python>``).
    given : int64 [S' + 1], optional
        The offsets with the empty sequences that a user gave, which ``offsets`` leaves out; None if there were none.
    dense : dict from str to float64 [N, W], optional
        Rows of numbers that tokens have besides (:mod:`loglinear.features.dense`), NaN for those that have none.
    parts : list of (str, int), optional
        Of a corpus of several files: the name of each, and its first position.
    """

    name: str
    offsets: Int64
    lines: Int64
    given: Int64 | None = field(default=None, kw_only=True)
    dense: dict[str, Float] | None = field(default=None, kw_only=True)
    parts: list[tuple[str, int]] | None = field(default=None, kw_only=True)

    @property
    def given_offsets(self) -> Int64:
        """The offsets of the sequences as they were given, those that are empty among them."""
        return self.offsets if self.given is None else self.given

    def without_empty(self, allowed: bool = True) -> Self:
        """The corpus without its empty sequences, which nothing that walks over sequences knows; see ``given``.

        Unless they are ``allowed``, DataError names the first one.
        """
        empty = np.diff(self.offsets) == 0
        if not empty.any():
            return self
        if not allowed:
            raise DataError(f"sequence {int(np.argmax(empty))} (from 0) is empty; leave empty sequences out")
        return replace(self, offsets=np.unique(self.offsets), given=self.offsets)

    def place(self, position: int) -> tuple[int, int]:
        """The sentence that a position of the corpus is in, and the position within it (both from 0)."""
        offsets = self.given_offsets
        sentence = int(np.searchsorted(offsets, position, side="right")) - 1
        return sentence, position - int(offsets[sentence])

    def error(self, message: str, position: int) -> DataError:
        """A :class:`DataError` with the file and line of a position, or for Python data its sequence and position."""
        if self.name != PYTHON:
            name = max((first, name) for name, first in self.parts if first <= position)[1] if self.parts else self.name
            return DataError(message, name, int(self.lines[position]))
        sentence, within = self.place(position)
        return DataError(f"sequence {sentence}, position {within} (from 0): {message}")

    def _dense_at(self, positions: Int64) -> dict[str, Float] | None:
        """The dense features of some positions."""
        return None if self.dense is None else {name: rows[positions] for name, rows in self.dense.items()}

    def _split(self, tokens: list[A]) -> list[list[A]]:
        """What belongs to the N tokens, as a list per sentence."""
        return [tokens[begin:end] for begin, end in pairwise(self.given_offsets.tolist())]


@dataclass(eq=False)
class Columns(_Corpus):
    """A corpus of token rows, C factorised columns over the same N positions.

    Attributes
    ----------
    columns : list of Column
        All columns of the file, the label column (if any) included.
    layout : Layout, optional
        Where the rows are in a column file, for writing it back.
    records : list of bytes, optional
        The lines of a JSON Lines file, for writing them back.
    unlabelled : int, optional
        Line of the first sentence without labels, if the format can tell (plain text, JSON Lines without ``labels``);
        None if the last column may be the labels.
    names : list of str, optional
        The columns' names, if the format has any (CoNLL-U, tables).
    format : str
        The format it was read from, for writing predictions in the same.
    origin : optional
        What the file holds besides, for writing it back: of CoNLL-U its text, of texts with spans the texts.
    """

    columns: list[Column]
    layout: Layout | None = None
    records: list[bytes] | None = None
    unlabelled: int | None = None
    names: list[str] | None = None
    format: str = "columns"
    origin: Any = None

    @property
    def n_columns(self) -> int:
        """Number of columns C."""
        return len(self.columns)

    def column(self, number: int = -1) -> Column:
        """Column by number, from 0, or negative from the last; an error names the number of columns."""
        if not -self.n_columns <= number < self.n_columns:
            raise DataError(f"there is no column {number}: each row has {self.n_columns} (numbered from 0)", self.name)
        return self.columns[number]

    def error(self, message: str, position: int) -> DataError:
        """As of every corpus; of texts with spans it names the text, which may have no line of its own."""
        located = getattr(self.origin, "error", None)
        if located is None:
            return super().error(message, position)
        error: DataError = located(message, self.place(position)[0])
        return error

    def number(self, name: str) -> int:
        """The number of a column by its name, in any case; an error lists the names."""
        names = self.names or []
        if name in names:
            return names.index(name)
        known = [each.lower() for each in names]
        if name.lower() not in known:
            there = f"; there are {', '.join(names)}" if names else ": its columns have numbers, and no names"
            raise DataError(f"there is no column {name!r:.60}{there}", self.name)
        return known.index(name.lower())

    def rows(self) -> list[list[tuple[str, ...]]]:
        """Sentences as lists of tuples of strings: a Python view, for small data."""
        if not self.columns:
            return self._split([])
        return self._split(list(zip(*(column.strings() for column in self.columns), strict=True)))

    def labels(self, column: int = -1) -> list[list[str]]:
        """One column (the last by default) as a list of strings per sentence."""
        if column == -1 and self.unlabelled is not None:
            raise DataError("this sentence has no labels", self.name, self.unlabelled)
        return self._split(self.column(column).strings())

    def select(self, sentences: npt.ArrayLike) -> Columns:
        """The corpus of the given sentences (numbers from 0, or a mask [S]); columns share ``values``."""
        chosen = _sentence_numbers(sentences, self.n_sentences)
        offsets, positions = self._selected(chosen)
        return Columns(
            name=self.name,
            offsets=offsets,
            lines=self.lines[positions],
            columns=[column.at(positions) for column in self.columns],
            records=None if self.records is None else [self.records[s] for s in chosen.tolist()],
            dense=self._dense_at(positions),
            unlabelled=self.unlabelled,
            names=self.names,
            format=self.format,
        )

    @classmethod
    def concatenated(cls, corpora: Iterable[Columns], name: str) -> Columns:
        """One corpus of several, the same as if their files had been one; columns must be as many, and named alike.

        What was kept of the files to write them back is left out. Each corpus is given up before the next one is asked
        for.
        """
        places, columns, about = _Places(), list[_GrowingColumn](), None
        for corpus in corpora:
            own = corpus.name, corpus.n_columns, corpus.names, corpus.unlabelled, corpus.format
            if about is None:
                about, columns = own, [_GrowingColumn() for _ in corpus.columns]
            _check_alike(about, own)
            places.append(corpus)
            for column, grown in zip(corpus.columns, columns, strict=True):
                grown.append(column)
            del corpus
        assert about is not None, "there is at least one corpus"
        _, _, names, unlabelled, format = about
        offsets, lines, parts = places.arrays()
        return cls(
            name, offsets, lines, [each.column() for each in columns], unlabelled=unlabelled, names=names,
            format=format, parts=parts,
        )  # fmt: skip

    @classmethod
    def from_rows(
        cls, rows: Iterable[Sequence[str | Sequence[str]]], name: str = PYTHON, empty: bool = False
    ) -> Columns:
        """A corpus from Python data.

        Parameters
        ----------
        rows : sequence of sentences
            A sentence is a sequence of tokens; a token is a string, or a sequence of strings, one per column.
        name : str
            Name for messages.
        empty : bool
            Whether a sentence may be empty (:meth:`without_empty`).

        Raises
        ------
        DataError
            Naming sequence and position (from 0): an empty sequence, a token that is neither a string nor a row of
            strings, rows of different lengths, a string that is not valid Unicode.
        """
        sentences: list[list[Any]] = [_as_tokens(sentence, number) for number, sentence in enumerate(rows)]
        offsets = offsets_of([len(sentence) for sentence in sentences])
        corpus = cls(name, offsets, np.zeros(int(offsets[-1]), dtype=np.int64), [])
        tokens = list(chain.from_iterable(sentences))
        if tokens:
            corpus.columns = [Column.from_strings(strings) for strings in _transposed(corpus, tokens)]
            check_unicode(corpus)
        return corpus.without_empty(allowed=empty)


def _as_tokens(sentence: Any, number: int) -> list[Any]:
    if isinstance(sentence, str | bytes):
        raise DataError(f"sequence {number} (from 0) is a string; give a list of tokens")
    try:
        return list(sentence)
    except TypeError:
        raise DataError(f"sequence {number} (from 0) is a {type(sentence).__name__}, not a list of tokens") from None


def _transposed(corpus: _Corpus, tokens: list[Any]) -> list[list[str]]:
    """Columns of the tokens, which must be all strings or all rows of strings."""
    kinds = set(map(type, tokens))
    if kinds == {str}:
        return [tokens]
    if not kinds & {str, np.str_} and all(issubclass(kind, Sequence | np.ndarray) for kind in kinds):
        width = len(tokens[0])
        for position, token in enumerate(tokens):
            if len(token) != width or width == 0:
                here = how_many(len(token), "column")
                message = f"the row has {here}, the first row {width}; every row needs the same number"
                raise corpus.error(message, position)
        columns: list[list[Any]] = [list(column) for column in zip(*tokens, strict=True)]
    else:
        columns = [tokens]
    for column in columns:
        if set(map(type, column)) != {str}:
            for position, value in enumerate(column):
                if not isinstance(value, str):
                    message = f"found {value!r:.60} where a string is needed; every token of a corpus is a string, or"
                    raise corpus.error(f"{message} every token is a row of strings", position)
                column[position] = str(value)  # np.str_ and other subclasses
    return columns


_About: TypeAlias = tuple[str, int, list[str] | None, int | None, str]  # name, columns, their names, unlabelled, format


def _check_alike(first: _About, other: _About) -> None:
    """Reject a part with other columns than the first, or with labels where that has none."""
    (name, n, names, unlabelled, _), (own_name, own_n, own_names, own_unlabelled, _) = first, other
    if (own_n, own_names) != (n, names):
        has = ", ".join(own_names) if own_names else how_many(own_n, "column")
        message = f"it has {has}, but {name} has {', '.join(names or []) or n}"
        raise DataError(f"{message}; all parts need the same columns", own_name)
    if (own_unlabelled is None) != (unlabelled is None):
        without, line = (name, unlabelled) if unlabelled is not None else (own_name, own_unlabelled)
        raise DataError("it has no labels, but other parts have", without, line)


class _Places:
    """Sentences and lines of several corpora, one after the other."""

    def __init__(self) -> None:
        self._offsets, self._lines = mapped.Growing(np.int64), mapped.Growing(np.int64)
        self._parts: list[tuple[str, int]] = []
        self._offsets.append(np.zeros(1, dtype=np.int64))
        self._n_tokens = 0

    def append(self, corpus: _Corpus) -> None:
        parts = [(corpus.name, 0)] if corpus.parts is None else corpus.parts
        self._parts += [(name, first + self._n_tokens) for name, first in parts]
        self._offsets.append(corpus.offsets[1:] + self._n_tokens)
        self._lines.append(corpus.lines)
        self._n_tokens += corpus.n_tokens

    def arrays(self) -> tuple[Int64, Int64, list[tuple[str, int]]]:
        """Offsets [S + 1], lines [N], and the parts."""
        return self._offsets.array(), self._lines.array(), self._parts


class _GrowingColumn:
    """A column of several corpora: values are numbered in order of first occurrence in all of them."""

    def __init__(self) -> None:
        self._ids = mapped.Growing(np.int32)
        self._numbers: dict[str, int] = {}

    def append(self, column: Column) -> None:
        new = [self._numbers.setdefault(value, len(self._numbers)) for value in column.values]
        self._ids.append(mapped.taken(np.array(new, dtype=np.int32), column.ids))

    def column(self) -> Column:
        """All of it; nothing can be added after this."""
        return Column(self._ids.array(), list(self._numbers))


class _GrowingNumbers:
    """Numbers [M] of several corpora, one each where a corpus has none; None if no corpus has any."""

    def __init__(self) -> None:
        self._n, self._numbers = 0, mapped.Growing(np.float64)

    def append(self, numbers: Float | None, n: int) -> None:
        if numbers is not None:
            self._fill()
            self._numbers.append(numbers)
        self._n += n

    def _fill(self) -> None:
        for first in range(len(self._numbers), self._n, mapped.PIECE):
            self._numbers.append(np.ones(min(mapped.PIECE, self._n - first)))

    def array(self) -> Float | None:
        """All of them; nothing can be added after this."""
        if not len(self._numbers):
            return None
        self._fill()
        return self._numbers.array()


def check_unicode(corpus: Columns) -> None:
    """Reject lone surrogates, which no file can hold; O(distinct values)."""
    for column in corpus.columns:
        for number, value in enumerate(column.values):
            if not value.isascii():
                try:
                    value.encode()
                except UnicodeEncodeError:
                    position = int(np.argmax(column.ids == number))
                    raise corpus.error(f"{value!r:.60} is not valid Unicode text", position) from None


@dataclass(eq=False)
class Attributes(_Corpus):
    """A corpus with ready-made features: each token has a bag of weighted attributes, stored as CSR over M pairs.

    Attributes
    ----------
    label : Column, optional
        The label of each token, None if the file has none.
    pointer : int64 [N + 1]
        Attributes of token t are ``ids[pointer[t]:pointer[t + 1]]``.
    ids : int32 [M]
        Number of the attribute.
    weights : float64 [M], optional
        Value of the attribute at the token; None if all are 1.
    values : list of str
        Attribute names, in order of first occurrence.
    sequence_weights : float64 [S], optional
        Weight of each sequence, as the file declares it; None if all are 1.
    """

    label: Column | None
    pointer: Int64
    ids: Int32
    weights: Float | None
    values: list[str]
    sequence_weights: Float | None = None

    def labels(self, column: int = -1) -> list[list[str]]:
        """The labels as a list of strings per sentence; there is one column of them, the last."""
        if column != -1:
            raise DataError(f"there is no column {column}: a file of attributes has labels, and no columns", self.name)
        if self.label is None:
            raise DataError("the corpus was read without labels", self.name)
        return self._split(self.label.strings())

    def select(self, sentences: npt.ArrayLike) -> Attributes:
        """The corpus of the given sentences (numbers from 0, or a mask [S]); ``values`` are shared."""
        chosen = _sentence_numbers(sentences, self.n_sentences)
        offsets, positions = self._selected(chosen)
        counts = np.diff(self.pointer)[positions]
        pairs = ranges(self.pointer[positions], counts)
        return Attributes(
            name=self.name,
            offsets=offsets,
            lines=self.lines[positions],
            label=None if self.label is None else self.label.at(positions),
            pointer=offsets_of(counts),
            ids=self.ids[pairs],
            weights=None if self.weights is None else self.weights[pairs],
            values=self.values,
            sequence_weights=None if self.sequence_weights is None else self.sequence_weights[chosen],
            dense=self._dense_at(positions),
        )

    @classmethod
    def concatenated(cls, corpora: Iterable[Attributes], name: str) -> Attributes:
        """One corpus of several, the same as if their files had been one.

        Each corpus is given up before the next one is asked for.
        """
        places, attributes, label, labelled = _Places(), _GrowingColumn(), _GrowingColumn(), None
        weights, sequence_weights = _GrowingNumbers(), _GrowingNumbers()
        pointer, n_entries = mapped.Growing(np.int64), 0
        pointer.append(np.zeros(1, dtype=np.int64))
        for corpus in corpora:
            if labelled not in (None, corpus.label is not None):
                raise DataError("some parts have labels, and some have none", corpus.name)
            labelled = corpus.label is not None
            places.append(corpus)
            attributes.append(Column(corpus.ids, corpus.values))
            if corpus.label is not None:
                label.append(corpus.label)
            weights.append(corpus.weights, len(corpus.ids))
            sequence_weights.append(corpus.sequence_weights, len(corpus))
            pointer.append(corpus.pointer[1:] + n_entries)
            n_entries += len(corpus.ids)
            del corpus
        offsets, lines, parts = places.arrays()
        found = attributes.column()
        return cls(
            name, offsets, lines, label=label.column() if labelled else None, pointer=pointer.array(), ids=found.ids,
            weights=weights.array(), values=found.values, sequence_weights=sequence_weights.array(), parts=parts,
        )  # fmt: skip
