"""Encoding of text to be labelled: what a locked template encoder does, by an index and with strings remembered.

The function of a source is computed once for each distinct string and the result kept from call to call, so that a
sentence whose words were met before costs one dictionary look-up a token and source, and one kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from loglinear.data.columns import Column, Columns
from loglinear.features.attribute_index import AttributeIndex, TemplatePlan
from loglinear.features.encoding import EncodedCorpus, Incidence, runs
from loglinear.features.gazetteer import MARKS
from loglinear.features.template import GAZETTEER, Macro
from loglinear.features.vocabulary import Vocabulary
from loglinear.threads import in_threads

if TYPE_CHECKING:
    from loglinear.features.template_encoder import TemplateEncoder

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
MOST_REMEMBERED = 200_000  # strings of a source; then it begins anew
FEW = 100  # strings
POSITIONS_AT_ONCE = 8192


class SourceNumbers(dict[str, int]):
    """A source's number of each string met so far; a new one is worked out by ``compute``, and refused if no text.

    Parameters
    ----------
    compute : callable
        From a string of the column to the observation, or None.
    values : Vocabulary
    numbers : int32 [V + 1]
        The source's own number of each value.
    """

    def __init__(self, compute: Callable[[str], str | None], values: Vocabulary, numbers: Int32) -> None:
        super().__init__()
        self._compute, self._values, self._numbers = compute, values, numbers

    def __missing__(self, string: str) -> int:
        if not isinstance(string, str):
            raise TypeError(f"{string!r:.60} is no string")
        string = str(string)
        string.encode()  # lone surrogates are refused with a UnicodeEncodeError
        observation = self._compute(string)
        number = -1 if observation is None else int(self._numbers[self._values.id(observation)])
        if len(self) >= MOST_REMEMBERED:
            self.clear()
        self[string] = number
        return number

    def of(self, strings: Sequence[str]) -> Int32:
        """The numbers of many strings at once; few are looked up among those met so far, which are remembered."""
        if len(strings) <= FEW:
            return np.fromiter(map(self.__getitem__, strings), dtype=np.int32, count=len(strings))
        "".join(strings).encode()  # as above
        return self._numbers[self._values.ids(map(self._compute, strings))]


class QuickEncoder:
    """The attributes of a locked :class:`TemplateEncoder`, ready to be looked up. Threads may share it."""

    def __init__(self, encoder: TemplateEncoder, plans: Sequence[TemplatePlan]) -> None:
        values = encoder.values
        boundaries = np.stack([values.ids([f"_B{s}{k}" for k in range(1, encoder.reach + 1)]) for s in "-+"])
        self._sources, self._gazetteers = encoder.sources, encoder.gazetteers
        self._index = AttributeIndex(plans, len(self._sources), boundaries, len(values))
        self._in_state, self._in_edge = encoder.scopes()
        self._numbers = [
            None if macro.function == GAZETTEER else SourceNumbers(macro.compute(), values, self._index.numbers_of(i))
            for i, macro in enumerate(self._sources)
        ]
        self._marks = [self._index.numbers_of(i)[values.ids([*MARKS, None])] for i in range(len(self._sources))]
        self._column_of = [macro.column for macro in self._sources]
        self.columns = set(self._column_of)
        self.n_columns = max(encoder.templates.columns, default=-1) + 1
        self.takes_sentences = GAZETTEER not in {macro.function for macro in self._sources} and not len(self._in_edge)

    def transform(self, corpus: Columns, n_threads: int = 1) -> EncodedCorpus:
        """The corpus in numbers; its columns must be those that the templates look at."""
        sources = np.empty((len(self._sources), corpus.n_tokens), dtype=np.int32)
        for i, macro in enumerate(self._sources if corpus.n_tokens else ()):
            sources[i] = self._observed(i, macro, corpus)
        state = self._incidence(sources, corpus.offsets, self._in_state, n_threads)
        edge = None
        if len(self._in_edge):
            same = np.array_equal(self._in_edge, self._in_state)
            edge = state if same else self._incidence(sources, corpus.offsets, self._in_edge, n_threads)
        return EncodedCorpus(corpus.offsets, state, edge)

    def sentence(self, columns: Sequence[Sequence[str]], offsets: Int64) -> tuple[Int64, Int32]:
        """Attributes joined with labels of one sentence, given by its columns (``offsets`` [0, T]), as lists.

        For encoders that ``takes_sentences``. What is no string raises TypeError, no valid Unicode ValueError.
        """
        rows = [
            list(map(numbers.__getitem__, columns[column]))
            for numbers, column in zip(self._numbers, self._column_of, strict=True)
            if numbers is not None
        ]
        return self._index.look_up(np.array(rows, dtype=np.int32), offsets, self._in_state)

    def _observed(self, i: int, macro: Macro, corpus: Columns) -> Int32:
        """The source's numbers of all positions [N]."""
        column, numbers = corpus.columns[macro.column], self._numbers[i]
        if numbers is None:
            matched = self._gazetteers[macro.argument].match(column.ids, column.values, corpus.offsets, macro.lowered)
            marks: Int32 = self._marks[i][matched]
            return marks
        return _numbers_of_values(column, numbers)[column.ids]

    def _incidence(self, sources: Int32, offsets: Int64, chosen: Int64, n_threads: int) -> Incidence:
        def look_up(run: tuple[int, int]) -> tuple[Int64, Int32]:
            return self._index.look_up(sources, offsets[run[0] : run[1] + 1], chosen)

        pieces = in_threads(look_up, runs(offsets, 0, len(offsets) - 1, POSITIONS_AT_ONCE), n_threads)
        before = np.cumsum([0, *(len(ids) for _, ids in pieces)])
        pointers = [pointer[:-1] + start for (pointer, _), start in zip(pieces, before, strict=False)]
        return Incidence(
            np.concatenate([*pointers, before[-1:]]).astype(np.int64),
            np.concatenate([np.zeros(0, dtype=np.int32), *(ids for _, ids in pieces)]),
        )


def _numbers_of_values(column: Column, numbers: SourceNumbers) -> Int32:
    """The source's number of each of a column's distinct values; those that occur nowhere have -1."""
    used = np.bincount(column.ids, minlength=len(column.values)) > 0
    if used.all():
        return numbers.of(column.values)
    found = np.full(len(used), -1, dtype=np.int32)
    chosen = np.flatnonzero(used)
    found[chosen] = numbers.of([column.values[number] for number in chosen.tolist()])
    return found
