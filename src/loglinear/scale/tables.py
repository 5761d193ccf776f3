"""Labels of Arrow tables, and of Parquet and Arrow files part by part.

A file is read, labelled and written a part (a row group or record batch) at a time, so that memory depends on the size
of its parts alone. Labels are those that :meth:`Tagger.predict` gives for the whole file: where a row is a token, a
sentence may go on in the next part, and is then labelled when its end is known.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from loglinear.arrays import Float, Int32
from loglinear.data.columns.arrow_file import (
    BLOCK,
    ArrowFile,
    ArrowWriter,
    Part,
    TokenSchema,
    free_name,
    list_array,
    pyarrow,
    text_array,
)
from loglinear.data.columns.corpus import PYTHON, Columns
from loglinear.data.files import Source, atomic_output
from loglinear.errors import DataError, OptionError
from loglinear.estimators.tagger.inputs import annotation_of
from loglinear.estimators.tagger.predict import SequencePredictor, located
from loglinear.features.encoding import runs

PREDICTED, CONFIDENCE = "predicted", "confidence"


@dataclass(frozen=True)
class Labelling:
    """How labels are chosen.

    Parameters
    ----------
    decoding, cost
        As for :meth:`Tagger.predict`.
    confidence : bool
        Whether each label's probability is asked for.
    label_column : int or str, optional
        The column of the corpus with labels to keep, where ``*`` is any and ``A|B`` either; by number or name.
    """

    decoding: str = "viterbi"
    cost: Any = None
    confidence: bool = False
    label_column: int | str | None = None


def _types(sentence: str | None, how: Labelling) -> dict[str, Any]:
    """The types of new columns, of tables with a column for sentences or with a row a sentence."""
    pa = pyarrow()
    kinds = {PREDICTED: pa.string(), **({CONFIDENCE: pa.float32()} if how.confidence else {})}
    return {name: pa.list_(kind) if sentence is None else kind for name, kind in kinds.items()}


class Counts(NamedTuple):
    """How much of a file has been labelled; ``of_rows`` is None where that is not known before the end."""

    rows: int
    tokens: int
    of_rows: int | None


class TableTagger:
    """Labels Arrow tables of one schema.

    Parameters
    ----------
    tagger : SequencePredictor
    schema : TokenSchema
    how : Labelling
    """

    def __init__(self, tagger: SequencePredictor, schema: TokenSchema, how: Labelling = Labelling()) -> None:
        self._tagger, self.schema, self.how = tagger, schema, how
        self.used = set(tagger.model_.input_columns)
        self._label_column = self._labels_given(how.label_column)
        if self._label_column is not None:
            self.used.add(self._label_column)
        widest = max(self.used, default=0)
        if widest >= len(schema.names):
            raise DataError(
                f"the model looks at column {widest} (from 0), so that each token needs at least {widest + 1} columns "
                f"of text or whole numbers, but there is only {', '.join(schema.names)}",
                None if schema.file == PYTHON else schema.file,
            )

    def _labels_given(self, column: int | str | None) -> int | None:
        """The number of the column with labels to keep, which the model must not look at."""
        if column is None:
            return None
        names, file = self.schema.names, None if self.schema.file == PYTHON else self.schema.file
        number = self.schema.number(column) if isinstance(column, str) else column
        if not -len(names) <= number < len(names) or len(names) < 2:
            raise DataError(
                f"there is no column of labels among those of text or whole numbers ({', '.join(names)})", file
            )
        if number % len(names) in self.used:
            raise OptionError(
                f"--force takes labels from column {number % len(names)} (from 0) of {self.schema.file}, which the "
                "model uses as input; add a column of labels (* where one is open), or name it with --label-column"
            )
        return number % len(names)

    @property
    def used_names(self) -> list[str]:
        """The columns that are looked at."""
        return [self.schema.names[number] for number in sorted(self.used)]

    @property
    def types(self) -> dict[str, Any]:
        """The new columns and their types."""
        return _types(self.schema.sentence, self.how)

    def columns(self, table: Any, first_row: int = 0) -> dict[str, Any]:
        """The new columns of a table that is whole: labels and, if asked for, their probabilities."""
        if self.schema.sentence is not None:
            corpus = self.schema.corpus(table, first_row, self.used)
            return self._chunked([self._rows(corpus, 0, corpus.n_sentences)])
        pieces = []
        for block in self.schema.blocks(table):
            corpus = self.schema.corpus(block, first_row, self.used)
            labels, confidence = self._labels(corpus)
            flat = self._arrays(labels, confidence)
            pieces.append({name: list_array(values, corpus.given_offsets) for name, values in flat.items()})
            first_row += block.num_rows
        return self._chunked(pieces)

    def parts(self, file: ArrowFile) -> Iterator[tuple[Any, dict[str, Any]]]:
        """The tables of a file's parts, each with its new columns."""
        if self.schema.sentence is None:
            for part in file.parts():
                yield part.table, self.columns(part.table, part.first_row)
        else:
            yield from self._row_parts(file)

    def _row_parts(self, file: ArrowFile) -> Iterator[tuple[Any, dict[str, Any]]]:
        """The same where a row is a token: a part is done when the sentence that goes on after it is."""
        pa, names = pyarrow(), self.schema.columns(self.used)
        waiting, labelled = deque[Part](), list[dict[str, Any]]()
        window, first_row, done = None, 0, 0  # rows of which sentences may go on, the first of them, all before it
        for part in chain(file.parts(), [None]):
            if part is not None:
                waiting.append(part)
                own = part.table.select(names)
                window = own if window is None else pa.concat_tables([window, own])
            if window is None:
                return
            corpus = self.schema.corpus(window, first_row, self.used)
            complete = corpus.n_sentences - (part is not None)
            if complete > 0:
                labelled.append(self._rows(corpus, 0, complete))
                n_rows = int(corpus.offsets[complete])
                done, first_row, window = done + n_rows, first_row + n_rows, window.slice(n_rows)
            while waiting and waiting[0].first_row + waiting[0].table.num_rows <= done:
                ready = waiting.popleft()
                columns, size = self._chunked(labelled), ready.table.num_rows
                yield ready.table, {name: values.slice(0, size) for name, values in columns.items()}
                labelled = [{name: values.slice(size) for name, values in columns.items()}]

    def run(self, file: ArrowFile, first: int, end: int | None) -> dict[str, Any]:
        """The new columns of a run of a file's parts (by their numbers), which may be labelled apart from the others.

        Where a row is a token, the run has the sentences that begin in it: not the rest of one that began before, but
        the rest of its last one. The columns of all runs, one after the other, are those of the file.
        """
        names = self.schema.columns(self.used)
        if self.schema.sentence is not None:
            return self._chunked(list(self._row_run(file, first, end, names)))
        return self._chunked([self.columns(part.table, part.first_row) for part in file.parts(names, first, end)])

    def _row_run(self, file: ArrowFile, first: int, end: int | None, names: list[str]) -> Iterator[dict[str, Any]]:
        """The same where a row is a token, a piece at a time."""
        pa, before, begun = pyarrow(), self._name_before(file, first), first == 0
        window, first_row, stop = None, 0, None  # rows of which sentences may go on; the first row after the run
        for part in chain(file.parts(names, first), [None]):
            if part is not None:
                stop = part.first_row if part.number == end else stop
                if window is None or not window.num_rows:
                    rest = 0 if begun else self._rest(part.table, before)
                    begun = begun or rest < part.table.num_rows
                    window, first_row = part.table.slice(rest), part.first_row + rest
                else:
                    window = pa.concat_tables([window, part.table])
            if window is None or (stop is not None and first_row >= stop):
                return
            corpus = self.schema.corpus(window, first_row, self.used)
            own = corpus.n_sentences - (part is not None)
            if stop is not None:
                own = min(own, int(np.searchsorted(corpus.offsets[:-1], stop - first_row)))
            if own > 0:
                n_rows = int(corpus.offsets[own])
                yield self._rows(corpus, 0, own)
                first_row, window = first_row + n_rows, window.slice(n_rows)

    def _name_before(self, file: ArrowFile, first: int) -> str:
        """The name of the sentence that the rows before a part end with; empty if it has none."""
        for number in range(first - 1, -1, -1):
            (part,) = file.parts([str(self.schema.sentence)], number, number + 1)
            for value in reversed(part.table.column(0)):
                if name := _name(value):
                    return name
        return ""

    def _rest(self, table: Any, before: str) -> int:
        """How many rows at the beginning of a table belong to the sentence before it."""
        others = (
            row for row, value in enumerate(table.column(self.schema.sentence)) if _name(value) not in ("", before)
        )
        return next(others, table.num_rows)

    def joined(self, file: ArrowFile, runs: Iterator[Mapping[str, Any]]) -> Iterator[tuple[Any, dict[str, Any]]]:
        """The tables of a file's parts, each with its new columns, which come in runs one after the other."""
        labelled, there = list[Mapping[str, Any]](), 0
        for part in file.parts():
            size = part.table.num_rows
            while there < size:
                labelled.append(next(runs))
                there += len(labelled[-1][PREDICTED])
            columns = self._chunked(labelled)
            yield part.table, {name: values.slice(0, size) for name, values in columns.items()}
            labelled, there = [{name: values.slice(size) for name, values in columns.items()}], there - size

    def _rows(self, corpus: Columns, first: int, end: int) -> dict[str, Any]:
        """New columns of the rows of some sentences."""
        pieces = [
            self._arrays(*self._labels(corpus.select(np.arange(*run))))
            for run in runs(corpus.offsets, first, end, BLOCK)
        ]
        return self._chunked(pieces, flat=True)

    def _labels(self, corpus: Columns) -> tuple[Int32, Float | None]:
        """Label numbers of the tokens [N] and, if asked for, their probabilities."""
        how = self.how
        if not corpus.n_tokens:
            return np.zeros(0, dtype=np.int32), np.zeros(0) if how.confidence else None
        given = None if self._label_column is None else annotation_of(corpus, None, self._label_column, partial=True)
        with located(corpus):
            return self._tagger.predict_numbers(
                corpus, decoding=how.decoding, given=given, cost=how.cost, confidence=how.confidence
            )

    def _arrays(self, labels: Int32, confidence: Float | None) -> dict[str, Any]:
        arrays = {PREDICTED: text_array(labels, self._tagger.classes_)}
        if confidence is not None:
            arrays[CONFIDENCE] = pyarrow().array(confidence.astype(np.float32))
        return arrays

    def _chunked(self, pieces: Sequence[Mapping[str, Any]], flat: bool = False) -> dict[str, Any]:
        """Columns of all pieces, one after the other."""
        pa = pyarrow()

        def chunks(values: Any) -> list[Any]:
            return list(values.chunks) if isinstance(values, pa.ChunkedArray) else [values]

        return {
            name: pa.chunked_array(list(chain.from_iterable(chunks(piece[name]) for piece in pieces)), kind)
            for name, kind in self.types.items()
        }


def _name(value: Any) -> str:
    """The name of a sentence, as :meth:`TokenSchema.offsets` compares them."""
    plain = value.as_py()
    return "" if plain is None else str(plain).strip()


PartsOf = Callable[[TableTagger, ArrowFile], Iterator[tuple[Any, dict[str, Any]]]]


def tag_file(
    tagger: SequencePredictor,
    source: Source,
    target: str | os.PathLike[str],
    format: str,
    naming: Mapping[str, Any] | None = None,
    how: Labelling = Labelling(),
    observe: Callable[[Counts], None] = lambda counts: None,
    parts: PartsOf = TableTagger.parts,
) -> Counts:
    """Label a Parquet or Arrow file; all its columns and parts are kept, and the new columns come last.

    Parameters
    ----------
    tagger : SequencePredictor
    source : path, ``-`` or open binary file
    target : path
        Written under another name, and renamed when it is complete.
    format : {"parquet", "arrow"}
        Of both.
    naming : mapping, optional
        Arguments of :meth:`TokenSchema.of`.
    how : Labelling
    observe : callable
        Told after each part how much is done.
    parts : callable
        What labels the parts of the file.
    """
    pa = pyarrow()
    with ArrowFile(source, format) as file:
        tables = TableTagger(tagger, TokenSchema.of(file.schema, file.name, format=format, **(naming or {})), how)
        schema = file.schema
        for name, kind in tables.types.items():
            schema = schema.append(pa.field(free_name(schema.names, name), kind))
        compression = "lz4" if os.fspath(target).lower().endswith(".feather") else None
        counts = Counts(0, 0, file.n_rows)
        with atomic_output(target) as out, ArrowWriter(out, schema, format, file, compression) as writer:
            for table, new in parts(tables, file):
                whole = [values.combine_chunks() for values in new.values()]  # bytes do not depend on how they came
                writer.write(pa.Table.from_arrays([*table.columns, *whole], schema=schema))
                n_tokens = table.num_rows if tables.schema.sentence is not None else len(whole[0].flatten())
                counts = Counts(counts.rows + table.num_rows, counts.tokens + n_tokens, file.n_rows)
                observe(counts)
    return counts


def check_alike(tagger: SequencePredictor, files: Mapping[str, str], naming: Mapping[str, Any], how: Labelling) -> int:
    """Check that all Parquet and Arrow files can be opened and call the columns that are looked at the same.

    Parameters
    ----------
    tagger : SequencePredictor
    files : mapping of str to str
        Paths to formats.
    naming, how
        As for :func:`tag_file`.

    Returns
    -------
    n_rows : int
        Rows of all files as far as they say.
    """
    first: tuple[str, list[str], str | None] | None = None
    n_rows = 0
    for path, format in files.items():
        with ArrowFile(path, format) as file:
            tables = TableTagger(tagger, TokenSchema.of(file.schema, file.name, format=format, **naming), how)
            n_rows += file.n_rows or 0
        own = (path, tables.used_names, tables.schema.sentence)
        first = first or own
        if own[1:] != first[1:]:
            raise DataError(
                f"the columns that the model looks at are {_said(own)} here, but {_said(first)} in {first[0]}", path
            )
    return n_rows


def _said(columns: tuple[str, list[str], str | None]) -> str:
    _, names, sentence = columns
    return ", ".join(names) + ("" if sentence is None else f" (sentences: {sentence})")


# ----------------------------------------------------------------------------------------------------------------------
# Tables of other packages.


def labels_of_table(
    tagger: SequencePredictor,
    table: Any,
    columns: Sequence[str] | None = None,
    sentence: str | None = None,
    names: Mapping[str, Sequence[str]] | None = None,
    how: Labelling = Labelling(),
) -> dict[str, Any]:
    """Labels of an Arrow table that is whole, and their probabilities if asked for: chunked arrays by name.

    Parameters
    ----------
    tagger : SequencePredictor
    table : pyarrow.Table
    columns : sequence of str, optional
        The columns of the model's corpus in their order, the tokens first. By default the tokens alone, in a column
        called as usual.
    sentence : str, optional
        The column that names each row's sentence, if a row is a token.
    names : mapping of str to sequence of str, optional
        What numbers in a column mean, from 0.
    how : Labelling
    """
    pa = pyarrow()
    chosen = chosen_columns(table.column_names, columns, sentence)
    if not table.num_rows:
        return {name: pa.chunked_array([], kind) for name, kind in _types(sentence, how).items()}
    table = table.select([*chosen, *([sentence] if sentence is not None else [])])
    if sentence is None:
        for place, kind in enumerate(table.schema.types):  # of a few rows, all may be empty or null
            if kind in (pa.null(), pa.list_(pa.null())):
                table = table.set_column(place, chosen[place], table.column(place).cast(pa.list_(pa.string())))
        if not (pa.types.is_list(kind := table.schema.types[0]) or pa.types.is_large_list(kind)):
            raise DataError(
                f"column {chosen[0]!r:.60} is {kind}, not lists of text; if a row is a token, name the column of the "
                "sentences: sentence=..."
            )
    schema = TokenSchema.of(table.schema, tokens=chosen[0], sentence=sentence)
    if list(schema.names) != chosen:
        wrong = next(name for name in chosen if name not in schema.names)
        wanted = "lists of text or of whole numbers" if sentence is None else "text or whole numbers"
        raise DataError(f"column {wrong!r:.60} is {table.schema.field(wrong).type}, not {wanted}")
    if names:
        schema = TokenSchema(schema.file, schema.names, schema.sentence, {**schema.label_names, **names})
    return TableTagger(tagger, schema, how).columns(table)


def chosen_columns(there: Collection[str], columns: Sequence[str] | None, sentence: str | None) -> list[str]:
    """The columns that are asked for, checked; by default one called as usual for tokens."""
    from loglinear.data.columns.table_file import TOKEN_NAMES

    if isinstance(columns, str):
        raise OptionError(f"columns={columns!r:.60} is a string; give a list of names, the tokens first")
    if columns is None:
        lowered = {str(name).lower(): name for name in there}
        usual = ("tokens", "words", *TOKEN_NAMES)
        found = next((lowered[name] for name in usual if name in lowered), None)
        if found is None:
            known = ", ".join(map(str, there))
            raise DataError(f"no column is called as usual for tokens; there are {known}; name them in columns=[...]")
        columns = [found]
    for name in (*columns, *([sentence] if sentence else [])):
        if name not in there:
            raise DataError(f"there is no column {name!r:.60}; there are {', '.join(map(str, there))}")
    if not columns:
        raise OptionError("columns=[] names no column; give the tokens' first")
    return list(columns)
