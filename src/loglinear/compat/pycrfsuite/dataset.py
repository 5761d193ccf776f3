"""Sequences with labels as numbers: what a trainer is given, one sequence after the other."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from loglinear.arrays import Int32
from loglinear.compat.pycrfsuite.items import add_items, summed_items
from loglinear.data.columns.corpus import Attributes, offsets_of
from loglinear.errors import DataError
from loglinear.features.names import AttributeLists


class Dataset:
    """Labelled sequences; labels and attributes are numbered by their first occurrence, as CRFsuite does.

    Attributes
    ----------
    labels : dict of int
    """

    def __init__(self) -> None:
        self.labels: dict[str, int] = {}
        self._lists, self._corpus = AttributeLists(), None
        self._gold, self._lengths, self._groups = array("i"), array("q"), array("q")

    _corpus: Attributes | None

    def append(self, items: list[Any] | tuple[Any, ...], labels: Sequence[str], group: int) -> None:
        """Add a sequence."""
        if len(items) != len(labels):
            raise DataError(f"The numbers of items and labels differ: |x| = {len(items)}, |y| = {len(labels)}")
        if items:
            add_items(self._lists, items)
        self._corpus, number = None, self.labels.setdefault
        for name in labels:
            self._gold.append(number(name, len(self.labels)))
        self._lengths.append(len(labels))
        self._groups.append(group)

    def __getstate__(self) -> dict[str, Any]:
        """For pickling: the attributes as a corpus."""
        return {**vars(self), "_lists": None, "_corpus": self.corpus}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lists = AttributeLists()
        tokens = summed_items(self.corpus)
        if tokens:
            add_items(self._lists, tokens)

    @property
    def corpus(self) -> Attributes:
        """All sequences that are not empty."""
        if self._corpus is None:
            lengths = np.array(self._lengths, dtype=np.int64)
            self._corpus = self._lists.corpus(offsets_of(lengths[lengths > 0]))
        return self._corpus

    def part(self, holdout: int, inside: bool) -> tuple[Attributes, Int32, int]:
        """The sequences in the group ``holdout``, or all others: the corpus, the labels [N], and how many are empty."""
        lengths = np.array(self._lengths, dtype=np.int64)
        chosen = (np.array(self._groups, dtype=np.int64) == holdout) == inside
        if holdout < 0:
            chosen[:] = not inside
        filled = np.flatnonzero(chosen[lengths > 0])
        corpus = self.corpus if len(filled) == self.corpus.n_sentences else self.corpus.select(filled)
        gold = np.array(self._gold, dtype=np.int32)[np.repeat(chosen, lengths)]
        return corpus, gold, int(np.count_nonzero(chosen & (lengths == 0)))
