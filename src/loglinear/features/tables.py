"""From the columns of a table to a sparse matrix: numbers, categories and text, one column of the table at a time.

========  ==========================================================================================================
number    one column: (value - mean) / deviation of the training data, or the value itself with ``raw_numbers``; an
          empty cell counts as the mean and, if the training data has empty cells, sets a second column to 1
category  a column for each value seen, ``colour=red``; all are 0 for an empty cell or a new value
text      a column with the number of occurrences of each word, or run of words: ``text:good``
========  ==========================================================================================================

The kind of a column is given, or guessed from its cells: numbers if all cells look like numbers or are empty; text if
they have more than :data:`MANY_WORDS` words on average; otherwise categories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from loglinear.data.tables import TableFile, is_like_a_number, number_of
from loglinear.errors import DataError, OptionError
from loglinear.options import Option, spec_name, spec_options

KINDS = ("number", "category", "text")
MANY_WORDS = 3.0


@dataclass(frozen=True)
class TableColumn:
    """How a column of a table becomes columns of a matrix."""

    name: str

    @property
    def strings(self) -> tuple[str, ...]:
        """The strings that a model file stores."""
        return ()

    def to_header(self) -> dict[str, Any]:
        """What a model file stores besides the strings."""
        return {}


@dataclass(frozen=True)
class NumberColumn(TableColumn):
    """A column of numbers, as (value - mean) / deviation, and whether a cell is empty if ``has_empty``."""

    mean: float
    deviation: float
    has_empty: bool
    kind = "number"

    @classmethod
    def fit(cls, name: str, table: TableFile, raw: bool) -> NumberColumn:
        """Learn from a column of a training table; ``raw`` numbers are not scaled."""
        values = table.numbers([name], empty=np.nan)[:, 0]
        known = values[~np.isnan(values)]
        if not len(known):
            raise DataError(f"column {name!r} holds no number at all", table.file)
        mean, deviation = (0.0, 1.0) if raw else (float(known.mean()), float(known.std()) or 1.0)
        return cls(name, mean, deviation, len(known) < len(values))

    @property
    def names(self) -> list[str]:
        return [self.name, f"{self.name} is empty"] if self.has_empty else [self.name]

    def matrix(self, table: TableFile) -> sp.csr_matrix:
        """The matrix' columns for the rows of a table."""
        values = table.numbers([self.name], empty=np.nan)
        empty = np.isnan(values)
        scaled = np.where(empty, 0.0, (values - self.mean) / self.deviation)
        return sp.csr_matrix(np.hstack([scaled, empty]) if self.has_empty else scaled)

    def to_header(self) -> dict[str, Any]:
        return {"mean": self.mean, "deviation": self.deviation, "has_empty": self.has_empty}

    @classmethod
    def from_storage(cls, name: str, values: Mapping[str, Any], strings: Sequence[str]) -> NumberColumn:
        """Rebuild from a model file."""
        mean, deviation = float(values["mean"]), float(values["deviation"])
        if not (np.isfinite([mean, deviation]).all() and deviation > 0):
            raise ValueError(f"column {name!r} has no deviation")
        return cls(name, mean, deviation, bool(values["has_empty"]))


@dataclass(frozen=True)
class CategoryColumn(TableColumn):
    """A column of categories; each value becomes a column."""

    values: tuple[str, ...]
    kind = "category"

    @classmethod
    def fit(cls, name: str, table: TableFile, min_count: int) -> CategoryColumn:
        """Learn from a column of a training table; values in fewer than ``min_count`` rows are left out."""
        values, counts = np.unique(np.array(table.column(name), dtype=object), return_counts=True)
        kept = [str(value) for value, count in zip(values, counts, strict=True) if value and count >= min_count]
        return cls(name, tuple(kept))

    @property
    def names(self) -> list[str]:
        return [f"{self.name}={value}" for value in self.values]

    def matrix(self, table: TableFile) -> sp.csr_matrix:
        """The matrix' columns for the rows of a table."""
        number_of = {value: i for i, value in enumerate(self.values)}
        numbers = np.array([number_of.get(cell, -1) for cell in table.column(self.name)], dtype=np.int64)
        rows = np.flatnonzero(numbers >= 0)
        return sp.csr_matrix((np.ones(len(rows)), (rows, numbers[rows])), shape=(table.n_rows, len(self.values)))

    @property
    def strings(self) -> tuple[str, ...]:
        return self.values

    @classmethod
    def from_storage(cls, name: str, values: Mapping[str, Any], strings: Sequence[str]) -> CategoryColumn:
        """Rebuild from a model file."""
        if len(set(strings)) != len(strings):
            raise ValueError(f"column {name!r} has a value twice")
        return cls(name, tuple(strings))


@dataclass(frozen=True)
class TextColumn(TableColumn):
    """A column of text; each word or run of words becomes a column."""

    words: BagOfWords
    kind = "text"

    @property
    def names(self) -> list[str]:
        return [f"{self.name}:{word}" for word in self.words.vocabulary]

    def matrix(self, table: TableFile) -> sp.csr_matrix:
        """The matrix' columns for the rows of a table."""
        return self.words.matrix(table.column(self.name))

    def to_header(self) -> dict[str, Any]:
        return {"text": self.words.spec}

    @property
    def strings(self) -> tuple[str, ...]:
        return self.words.vocabulary

    @classmethod
    def from_storage(cls, name: str, values: Mapping[str, Any], strings: Sequence[str]) -> TextColumn:
        """Rebuild from a model file."""
        return cls(name, BagOfWords.from_dict({"spec": values["text"], "vocabulary": strings}))


AnyColumn = NumberColumn | CategoryColumn | TextColumn


@dataclass(frozen=True)
class TableFeatures:
    """How the columns of a table become those of a matrix."""

    columns: tuple[AnyColumn, ...]

    @classmethod
    def fit(
        cls,
        table: TableFile,
        kinds: Mapping[str, str] | None = None,
        *,
        text: str = "words",
        raw_numbers: bool = False,
        min_count: int = 1,
    ) -> TableFeatures:
        """Learn from a training table without its label column.

        Parameters
        ----------
        table : TableFile
        kinds : mapping from column to {"number", "category", "text"}, optional
            Kinds of columns; those not named are guessed.
        text : str
            How text is cut into words (:class:`BagOfWords`).
        raw_numbers : bool
            Do not scale numbers.
        min_count : int
            Categories and words in fewer rows are left out.
        """
        kinds = dict(kinds or {})
        check_kinds(kinds)
        for name in kinds:
            table.column(name)
        columns: list[AnyColumn] = []
        for name in table.columns:
            kind = kinds.get(name) or kind_of(table.columns[name])
            if kind == "text":
                columns.append(TextColumn(name, BagOfWords.fit(table.columns[name], text, min_count)))
            elif kind == "number":
                columns.append(NumberColumn.fit(name, table, raw_numbers))
            else:
                columns.append(CategoryColumn.fit(name, table, min_count))
        features = cls(tuple(columns))
        if not features.names:
            raise DataError("no column is left to learn from", table.file)
        return features

    @property
    def names(self) -> list[str]:
        """Names of the matrix' columns."""
        return [name for column in self.columns for name in column.names]

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of each column of the table."""
        return {column.name: column.kind for column in self.columns}

    def matrix(self, table: TableFile) -> sp.csr_matrix:
        """The rows of a table [N, D]; columns that the training table did not have are ignored."""
        return sp.hstack([column.matrix(table) for column in self.columns], format="csr")

    def to_header(self) -> dict[str, Any]:
        """What a model file stores besides the strings."""
        columns = [{"name": c.name, "kind": c.kind, "strings": len(c.strings), **c.to_header()} for c in self.columns]
        return {"columns": columns}

    @property
    def strings(self) -> list[str]:
        """The strings of all columns, concatenated."""
        return [string for column in self.columns for string in column.strings]

    @classmethod
    def from_storage(cls, header: Mapping[str, Any], strings: Sequence[str]) -> TableFeatures:
        """Rebuild from a model file; raises ValueError if something does not fit."""
        kinds: dict[str, Any] = {"number": NumberColumn, "category": CategoryColumn, "text": TextColumn}
        columns, end = [], 0
        try:
            for stored in header["columns"]:
                begin, end = end, end + stored["strings"]
                columns.append(kinds[stored["kind"]].from_storage(str(stored["name"]), stored, strings[begin:end]))
        except (KeyError, TypeError) as error:
            raise ValueError(f"the columns cannot be read ({error})") from None
        if end != len(strings) or not columns:
            raise ValueError("the columns and their strings do not fit together")
        return cls(tuple(columns))


def check_kinds(kinds: Mapping[str, str]) -> None:
    """Reject unknown kinds of columns."""
    for name, kind in kinds.items():
        if kind not in KINDS:
            raise OptionError(f"column {name!r} cannot be a {kind!r}; there are {', '.join(KINDS)}")


def kind_of(cells: Sequence[str]) -> str:
    """Guess the kind of a column from its cells."""
    filled = [cell for cell in cells if cell.strip()]
    if any(number_of(cell) is not None for cell in filled) and all(map(is_like_a_number, filled)):
        return "number"
    return "text" if filled and np.mean([len(cell.split()) for cell in filled]) > MANY_WORDS else "category"


# ----------------------------------------------------------------------------------------------------------------------
# Text as a bag of words: how often each word, or run of words or characters, occurs in it.
#
# A spec says how text is cut:
#
# ``words:ngrams=2``                   words, marks such as ``!?``, and pairs of them next to each other
# ``tokens``                           what is between white space
# ``characters:ngrams=4,shortest=2``   runs of two to four characters inside words (with the space at their edges)
# ``words:lowercase=no``               upper and lower case are distinguished
# ``words:presence``                   1 for what occurs, however often
#
# scikit-learn's analyser cuts the text. The vocabulary is the runs of the training texts; others are ignored.


PATTERNS = {"words": r"(?u)\w+|[^\w\s]+", "tokens": r"\S+", "characters": None}
OPTIONS = (
    Option("ngrams", 1, "longest run of words, tokens or characters", least=1, most=10, kind=int),
    Option("shortest", 1, "shortest run", least=1, most=10, kind=int),
    Option("lowercase", True, "take upper case for lower case", choices=(False, True)),
    Option("presence", False, "1 for what occurs, however often", choices=(False, True)),
)


@dataclass(frozen=True)
class BagOfWords:
    """A vocabulary, and how text is cut.

    Parameters
    ----------
    spec : str
        How text is cut.
    vocabulary : tuple of str
        The D runs that count, sorted.
    """

    spec: str
    vocabulary: tuple[str, ...]

    @classmethod
    def fit(cls, texts: Sequence[str], spec: str = "words", min_count: int = 1) -> BagOfWords:
        """The vocabulary of training texts; runs that occur fewer than ``min_count`` times are left out."""
        vectoriser = _vectoriser(spec)
        try:
            counts = vectoriser.fit_transform(texts)
        except ValueError:  # scikit-learn's error for an empty vocabulary
            raise DataError(f"text={spec!r}: the texts hold nothing to count") from None
        runs = vectoriser.get_feature_names_out()
        kept = np.asarray(counts.sum(axis=0)).ravel() >= min_count
        return cls(spec, tuple(runs[kept].tolist()))

    @cached_property
    def _counter(self) -> Any:
        return _vectoriser(self.spec, self.vocabulary)

    def matrix(self, texts: Sequence[str]) -> sp.csr_matrix:
        """Counts [N, D] of the vocabulary in texts."""
        if not self.vocabulary:
            return sp.csr_matrix((len(texts), 0))
        return sp.csr_matrix(self._counter.transform(texts))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> BagOfWords:
        """Rebuild from ``spec`` and ``vocabulary`` of a model file; raises ValueError if something does not fit."""
        spec, vocabulary = str(values["spec"]), tuple(str(word) for word in values["vocabulary"])
        check_text(spec)
        if len(set(vocabulary)) != len(vocabulary):
            raise ValueError("the words are not distinct")
        return cls(spec, vocabulary)


def check_text(spec: str) -> dict[str, Any]:
    """The options of a spec; raises OptionError for an invalid one."""
    name = spec_name(spec)
    if name not in PATTERNS:
        raise OptionError(f"text={spec!r} is not known; there are: {', '.join(PATTERNS)}, as in words:ngrams=2")
    values = {option.name: option.default for option in OPTIONS} | spec_options(spec, OPTIONS, "text")
    if values["shortest"] > values["ngrams"]:
        raise OptionError(f"text={spec!r}: the shortest run is longer than the longest (ngrams={values['ngrams']})")
    return values


def _vectoriser(spec: str, vocabulary: Sequence[str] | None = None) -> Any:
    from sklearn.feature_extraction.text import CountVectorizer

    values, pattern = check_text(spec), PATTERNS[spec_name(spec)]
    return CountVectorizer(
        analyzer="char_wb" if pattern is None else "word", ngram_range=(values["shortest"], values["ngrams"]),
        lowercase=values["lowercase"], binary=values["presence"], token_pattern=pattern, vocabulary=vocabulary,
        dtype=np.float64,
    )  # fmt: skip
