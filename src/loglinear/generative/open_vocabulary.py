"""A closed set of values for each observed column, with one that stands for all others.

In training the first occurrence of every value becomes the unknown one (Smith, Vail & Lafferty 2007, section 5): so
its probability is that of meeting something new, and what occurs only once is not known at all. Elsewhere a value that
is not known becomes the unknown one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from loglinear.data.columns import PYTHON, Column, Columns

UNKNOWN = "<unknown>"


@dataclass(frozen=True)
class OpenVocabulary:
    """The known values of some columns of a corpus.

    Parameters
    ----------
    columns : tuple of int
        The columns.
    values : list of list of str
        For each, its values; the last one stands for all others.
    """

    columns: tuple[int, ...]
    values: list[list[str]]

    @classmethod
    def fit(cls, corpus: Columns, columns: Sequence[int]) -> tuple[OpenVocabulary, Columns]:
        """The vocabulary of a training corpus, and the corpus with first occurrences made unknown."""
        values, replaced = [], list(corpus.columns)
        for c in columns:
            column = corpus.columns[c]
            counts = np.bincount(column.ids, minlength=len(column.values))
            known = np.flatnonzero(counts > 1)
            number = np.full(len(column.values), len(known), dtype=np.int32)
            number[known] = np.arange(len(known), dtype=np.int32)
            ids = number[column.ids]
            ids[np.unique(column.ids, return_index=True)[1]] = len(known)
            values.append([*(column.values[i] for i in known.tolist()), UNKNOWN])
            replaced[c] = Column(ids, values[-1])
        return cls(tuple(columns), values), replace(corpus, columns=replaced)

    def transform(self, corpus: Columns) -> Columns:
        """The corpus with all values that are not known made unknown."""
        if not corpus.n_tokens:  # no row says how many columns there are
            none = np.zeros(0, dtype=np.int32)
            return replace(corpus, columns=self.corpus([none] * len(self.columns), corpus.offsets).columns)
        replaced = list(corpus.columns)
        for c, values in zip(self.columns, self.values, strict=True):
            column = corpus.column(c)
            known = {value: i for i, value in enumerate(values[:-1])}
            number = np.array([known.get(value, len(known)) for value in column.values], dtype=np.int32)
            ids = number[column.ids] if len(number) else column.ids
            replaced[c] = Column(ids, values)
        return replace(corpus, columns=replaced)

    def fields(self, corpus: Columns) -> list[npt.NDArray[np.int32]]:
        """The numbers [N] of each column's values, of a corpus that :meth:`transform` or :meth:`fit` gave."""
        return [np.ascontiguousarray(corpus.columns[c].ids) for c in self.columns]

    def corpus(self, fields: Sequence[npt.NDArray[np.int32]], offsets: npt.NDArray[np.int64]) -> Columns:
        """The corpus in which these columns hold the values numbered ``fields`` [N]; others are empty strings."""
        n = int(offsets[-1])
        columns = [Column(np.zeros(n, dtype=np.int32), [""]) for _ in range(max(self.columns) + 1)]
        for c, ids, values in zip(self.columns, fields, self.values, strict=True):
            columns[c] = Column(ids, values)
        return Columns(PYTHON, offsets, np.zeros(n, dtype=np.int64), columns)
