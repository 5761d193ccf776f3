"""Parquet and Arrow files: a row for each sentence, with lists of tokens and labels, or a row for each token.

::

    tokens                    ner_tags                  sentence_id  token  tag
    ["Anna", "Berg", "left"]  ["B-PER", "I-PER", "O"]             1  Anna   B-PER
    ["It", "rained"]          ["O", "O"]                          1  Berg   I-PER
                                                                  2  It     O

Arrow's arrays become factorised columns without a Python object for each token: distinct values are found by Arrow, and
only they are converted. Files are read part by part, a part being a row group of Parquet or a record batch of Arrow
(:class:`ArrowFile`), and written so (:class:`ArrowWriter`); :class:`TokenSchema` says which columns of a table hold the
tokens, the sentences and what belongs to the tokens.

The package pyarrow reads and writes them. It is an extra, imported when such a file is met.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from itertools import chain, pairwise
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from loglinear import mapped
from loglinear.arrays import Float, Int32, Int64
from loglinear.data.columns.corpus import PYTHON, Column, Columns, offsets_of
from loglinear.data.columns.table_file import SENTENCE_NAMES, TOKEN_NAMES
from loglinear.data.files import Source, read_bytes, source_name
from loglinear.documents import parsed_json
from loglinear.errors import DataError, OptionError
from loglinear.system import too_large
from loglinear.wording import how_many

FORMATS = ("parquet", "arrow")
NAMES = {"parquet": "a Parquet file", "arrow": "an Arrow file (IPC, Feather)"}
PART = {"parquet": "row group", "arrow": "record batch"}
BLOCK = 1 << 17  # tokens that are turned into a corpus at a time
INSTALL = "pip install 'loglinear[parquet]'"


def pyarrow(module: str = "pyarrow") -> Any:
    """The package pyarrow, or a module of it; without it an error that says how to install it."""
    try:
        return import_module(module)
    except ImportError:
        raise OptionError(
            f"Parquet and Arrow files need the package pyarrow, which is not installed: {INSTALL}"
        ) from None


def arrow_format_of(head: bytes) -> str | None:
    """The format of a file that begins with these bytes; None if it is neither Parquet nor Arrow."""
    if head.startswith(b"PAR1"):
        return "parquet"
    return "arrow" if head.startswith((b"ARROW1\0\0", b"FEA1", b"\xff\xff\xff\xff")) else None


# ----------------------------------------------------------------------------------------------------------------------
# Which columns are what.


@dataclass(frozen=True)
class TokenSchema:
    """What the columns of a table are: tokens, sentences, and columns of a corpus.

    Columns of text and of whole numbers, or of lists of these, are columns of the corpus; others (dates, fractions,
    structures) are not looked at.

    Attributes
    ----------
    file : str
        File name for messages.
    names : tuple of str
        The columns of the corpus, the tokens first, the others in their order.
    sentence : str or None
        The column that names each row's sentence; None if a row is a sentence.
    label_names : mapping of str to list of str
        What the numbers in a column mean, from 0.
    format : str
        Of the corpus.
    """

    file: str
    names: tuple[str, ...]
    sentence: str | None = None
    label_names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    format: str = "arrow"

    @classmethod
    def of(
        cls,
        schema: Any,
        file: str = PYTHON,
        *,
        sentence: str | None = None,
        tokens: str | None = None,
        labels: str | None = None,
        label_names: Sequence[str] | None = None,
        format: str = "arrow",
    ) -> TokenSchema:
        """Find the columns in a schema of Arrow.

        Parameters
        ----------
        schema : pyarrow.Schema
        file : str
            For messages.
        sentence, tokens : str, optional
            Names of the columns that say which sentence a row is of, and that hold tokens or lists of them. If not
            given, columns called as usual are found.
        labels : str, optional
            The column that ``label_names`` are about, by default the last of the corpus.
        label_names : sequence of str, optional
            What numbers mean, from 0; by default what Hugging Face's ``datasets`` noted in the file.
        format : str
        """
        types = dict(zip(schema.names, schema.types, strict=True))
        if len(types) < len(schema.names):
            double = next(name for name in schema.names if schema.names.count(name) > 1)
            raise DataError(f"two columns are called {double!r:.60}", _file(file))
        for name, flag in ((tokens, "--token-column"), (sentence, "--sentence-column")):
            if name is not None and name not in types:
                raise DataError(f"there is no column {name!r:.60} ({flag}); {_there_are(types)}", _file(file))
        tokens = tokens or _tokens_in(types, sentence is None, file)
        in_lists = _element(types[tokens]) is not None
        if not _is_tokens(_element(types[tokens]) if in_lists else types[tokens]):
            raise DataError(f"column {tokens!r:.60} is {types[tokens]}, not text or lists of text", _file(file))
        if in_lists and sentence is not None:
            raise DataError(
                f"column {tokens!r:.60} holds lists of tokens: a row is a sentence; leave out --sentence-column",
                _file(file),
            )
        if not in_lists:
            sentence = _sentences_in(types, tokens, sentence, file)
        kinds = {name: _element(kind) if in_lists else kind for name, kind in types.items()}
        others = [name for name, kind in kinds.items() if name not in (tokens, sentence) and _is_column(kind)]
        names = (tokens, *others)
        known = _noted_names(schema)
        if label_names is not None:
            column = names[-1] if labels is None else next((n for n in names if n.lower() == labels.lower()), labels)
            known[column] = list(label_names)
        return cls(file, names, sentence, known, format)

    def number(self, name: str) -> int:
        """The number of a column of the corpus by its name, in any case."""
        nothing = Columns(self.file, offsets_of([]), np.zeros(0, dtype=np.int64), [], names=list(self.names))
        return nothing.number(name)

    def columns(self, used: Collection[int] | None = None) -> list[str]:
        """The columns of a table that a corpus is made of, or its columns ``used`` alone."""
        names = [name for number, name in enumerate(self.names) if used is None or number in used or number == 0]
        return names if self.sentence is None else [*names, self.sentence]

    def corpus(self, table: Any, first_row: int = 0, used: Collection[int] | None = None) -> Columns:
        """A table as a corpus, without its empty sentences (:meth:`Columns.without_empty`).

        Parameters
        ----------
        table : pyarrow.Table
        first_row : int
            Rows of the file before the table, for messages.
        used : collection of int, optional
            The columns of the corpus that somebody looks at; others are left empty, and not checked.
        """
        corpus = self.rows(table, first_row, used)
        if self.sentence is not None:
            corpus.offsets = self.offsets(corpus, table.column(self.sentence))
        return corpus.without_empty()

    def rows(self, table: Any, first_row: int = 0, used: Collection[int] | None = None) -> Columns:
        """The same with each row as a sentence, also where it is a token."""
        lengths = np.ones(table.num_rows, dtype=np.int64)
        arrays = {name: _whole(table.column(name)) for name in self.columns(used) if name != self.sentence}
        if self.sentence is None:
            lengths, arrays = self._flattened(arrays, first_row)
        rows = np.arange(first_row + 1, first_row + 1 + len(lengths))
        offsets, lines = offsets_of(lengths), np.repeat(rows, lengths)
        corpus = Columns(self.file, offsets, lines, [], names=list(self.names), format=self.format)
        unused = Column(np.zeros(len(lines), dtype=np.int32), [""])
        for number, name in enumerate(self.names):
            looked_at = used is None or number in used or (number == 0 and self.sentence is not None)
            corpus.columns.append(self._column(corpus, name, arrays[name]) if looked_at else unused)
        if self.sentence is not None:
            self._check_tokens(corpus)
        return corpus

    def _flattened(self, arrays: dict[str, Any], first_row: int) -> tuple[Int64, dict[str, Any]]:
        """How many tokens each row has, and the lists one after the other; all must have as many entries."""
        lengths, tokens = None, self.names[0]
        for name, array in arrays.items():
            if array.null_count:
                row = first_row + 1 + _first_null(array)
                what = "a list of tokens" if name == tokens else f"a list with an entry for each of {tokens!r:.60}"
                raise self._error(f"column {name!r:.60} is null; every row needs {what}", row)
            own = pyarrow("pyarrow.compute").list_value_length(array).to_numpy(zero_copy_only=False).astype(np.int64)
            if lengths is None:
                lengths = own
            elif len(different := np.flatnonzero(own != lengths)):
                row = int(different[0])
                counts = f"{how_many(lengths[row], 'entry')} in {tokens!r:.60}, but {own[row]} in {name!r:.60}"
                message = f"{counts}; lists of text or of whole numbers belong to the tokens"
                raise self._error(message, first_row + 1 + row)
        assert lengths is not None
        return lengths, {name: array.flatten() for name, array in arrays.items()}

    def _column(self, corpus: Columns, name: str, array: Any) -> Column:
        array = _plain(array)
        if array.null_count:
            position = _first_null(array)
            within = f"entry {corpus.place(position)[1]} (from 0) of " if self.sentence is None else ""
            raise corpus.error(f"{within}column {name!r:.60} is null; every token needs a value", position)
        try:
            return factorised(array, self.label_names.get(name))
        except _BadValueError as error:
            raise corpus.error(f"column {name!r:.60}: {error}", error.position) from None

    def offsets(self, corpus: Columns, names_of_rows: Any) -> Int64:
        """Offsets [S + 1] of rows: a sentence begins at a name that is not empty and another than the last such.

        Parameters
        ----------
        corpus : Columns
            The rows, for messages.
        names_of_rows : pyarrow.ChunkedArray
            The column :attr:`sentence`.
        """
        try:
            names = factorised(_plain(_whole(names_of_rows)))
        except _BadValueError as error:
            raise corpus.error(f"column {self.sentence!r:.60}: {error}", error.position) from None
        stripped = [value.strip() for value in names.values]
        index = {value: number for number, value in enumerate(dict.fromkeys(filter(None, stripped)))}
        number_of = np.array([index.get(value, -1) for value in stripped] + [-1], dtype=np.int64)
        numbers, positions = number_of[names.ids], np.arange(len(names.ids))
        named = np.maximum.accumulate(np.where(numbers >= 0, positions, -1))
        filled = np.where(named >= 0, numbers[named], -1)
        starts = np.append(np.zeros(min(1, len(filled)), np.int64), np.flatnonzero(filled[1:] != filled[:-1]) + 1)
        firsts = np.unique(filled[starts], return_index=True)[1]
        if len(firsts) < len(starts):
            again = int(starts[np.setdiff1d(np.arange(len(starts)), firsts)[0]])
            name = stripped[names.ids[again]]
            raise corpus.error(f"sentence {name!r:.40} comes back after others; sort the rows, or rename one", again)
        return np.append(starts, len(filled)).astype(np.int64)

    def _check_tokens(self, corpus: Columns) -> None:
        for number, word in enumerate(corpus.columns[0].values):
            if not word.strip():
                position = int(np.argmax(corpus.columns[0].ids == number))
                raise corpus.error(f"column {self.names[0]!r:.60} is empty; a row is a token", position)

    def blocks(self, table: Any) -> Iterator[Any]:
        """A table with a row a sentence in slices of about :data:`BLOCK` tokens."""
        lengths = pyarrow("pyarrow.compute").list_value_length(table.column(self.names[0])).fill_null(0)
        offsets = offsets_of(lengths.to_numpy().astype(np.int64))
        first = 0
        while first < table.num_rows:
            end = max(first + 1, int(np.searchsorted(offsets, offsets[first] + BLOCK, side="right")) - 1)
            yield table.slice(first, end - first)
            first = end

    def _error(self, message: str, row: int) -> DataError:
        if self.file == PYTHON:
            return DataError(f"row {row - 1} (from 0): {message}")
        return DataError(message, self.file, row)


def _file(file: str) -> str | None:
    return None if file == PYTHON else file


def _there_are(names: Iterable[str]) -> str:
    return f"there are {', '.join(names)}" if names else "there are no columns"


def _tokens_in(types: Mapping[str, Any], may_be_lists: bool, file: str) -> str:
    """The column of tokens: one of lists called as usual or, if there is none, one of text."""
    listed = [name for name, kind in types.items() if may_be_lists and _is_tokens(_element(kind))]
    tokens = _usual(listed, TOKEN_NAMES) or _usual([name for name in types if _is_text(types[name])], TOKEN_NAMES)
    if tokens is None:
        raise DataError(
            f"no column of text is called as usual for tokens ({', '.join(TOKEN_NAMES)}); {_there_are(types)}; "
            "name it with --token-column",
            _file(file),
        )
    return tokens


def _sentences_in(types: Mapping[str, Any], tokens: str, sentence: str | None, file: str) -> str:
    """The column that names the sentence of each row."""
    sentence = sentence or _usual([name for name in types if name != tokens], SENTENCE_NAMES)
    if sentence is None:
        raise DataError(
            f"column {tokens!r:.60} holds a text a row, and no column is called as usual for the sentence of each row "
            f"({', '.join(SENTENCE_NAMES)}); {_there_are(types)}; name it with --sentence-column, or a column of lists "
            "of tokens with --token-column",
            _file(file),
        )
    if not _is_column(types[sentence]):
        kind = types[sentence]
        raise DataError(
            f"column {sentence!r:.60} is {kind}; a sentence is named by text or a whole number", _file(file)
        )
    return sentence


def _usual(names: Sequence[str], usual: Sequence[str]) -> str | None:
    lowered = {name.strip().lower(): name for name in reversed(names)}
    return next((lowered[each] for each in usual if each in lowered), None)


def _element(kind: Any) -> Any:
    """The type of a list's entries; None if the type is another."""
    types = pyarrow("pyarrow.types")
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return kind.value_type if is_list else None


def _is_text(kind: Any) -> bool:
    if kind is None:
        return False
    types = pyarrow("pyarrow.types")
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_tokens(kind: Any) -> bool:
    """Whether values of a type are tokens; a table without any may not know the type."""
    return _is_text(kind) or (kind is not None and bool(pyarrow("pyarrow.types").is_null(kind)))


def _is_column(kind: Any) -> bool:
    """Whether values of a type are a column of a corpus: text or whole numbers."""
    return kind is not None and (_is_text(kind) or bool(pyarrow("pyarrow.types").is_integer(kind)))


def _noted_names(schema: Any) -> dict[str, Sequence[str]]:
    """The names of numbers, by column, as Hugging Face's ``datasets`` notes them in the files that it writes."""
    try:
        features = parsed_json((schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
    except (ValueError, KeyError, TypeError):
        return {}
    found: dict[str, Sequence[str]] = {}
    for name, each in features.items() if isinstance(features, dict) else ():
        inner = each.get("feature", each) if isinstance(each, dict) else None
        names = inner.get("names") if isinstance(inner, dict) else None
        if isinstance(names, list) and all(isinstance(value, str) for value in names):
            found[name] = names
    return found


# ----------------------------------------------------------------------------------------------------------------------
# From arrays to columns and back.


class _BadValueError(ValueError):
    """A value that cannot be one of a column, and where it first is."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


def _whole(array: Any) -> Any:
    """A chunked array in one piece."""
    if array.num_chunks == 1:
        return array.chunk(0)
    return array.combine_chunks() if array.num_chunks else pyarrow().array([], array.type)


def _plain(array: Any) -> Any:
    """An array of text or whole numbers in the form in which its values can be numbered."""
    pa, types = pyarrow(), pyarrow("pyarrow.types")
    if types.is_dictionary(array.type):  # its values may be in any order, repeated or null
        array = array.dictionary_decode()
    return array.cast(pa.large_string()) if types.is_string_view(array.type) or types.is_null(array.type) else array


def _first_null(array: Any) -> int:
    return int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))


def factorised(array: Any, names: Sequence[str] | None = None) -> Column:
    """An array of text or of whole numbers as a column; nulls have the number -1.

    ``names`` are what whole numbers mean, from 0; without them they are written in digits.
    """
    encoded = array.dictionary_encode()
    ids = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    try:
        values = encoded.dictionary.to_pylist()
    except UnicodeDecodeError:
        raise _bad_text(encoded.dictionary, ids) from None
    if pyarrow("pyarrow.types").is_integer(array.type):
        for number, value in enumerate(values):
            if names is not None and not 0 <= value < len(names):
                message = f"{value} has no name: there are {how_many(len(names), 'name')}, from 0"
                raise _BadValueError(message, int(np.argmax(ids == number)))
        values = [str(value) if names is None else names[value] for value in values]
        if len(set(values)) < len(values):
            numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
            ids, values = np.array([numbers[value] for value in values], dtype=np.int32)[ids], list(numbers)
    return Column(ids, values)


def _bad_text(dictionary: Any, ids: Int32) -> _BadValueError:
    """Which of the values is not UTF-8."""
    for number in range(len(dictionary)):
        try:
            dictionary[number].as_py()
        except UnicodeDecodeError as error:
            reason = f"invalid UTF-8 (byte 0x{error.object[error.start]:02x})"
            return _BadValueError(reason, int(np.argmax(ids == number)))
    raise AssertionError("all values are text")


def text_array(ids: Int32, values: Sequence[str]) -> Any:
    """Text [N] by the numbers of its values."""
    pa = pyarrow()
    return pa.DictionaryArray.from_arrays(pa.array(ids), pa.array(values, pa.string())).cast(pa.string())


def list_array(values: Any, offsets: Int64) -> Any:
    """Values [N] of the tokens as a list for each sentence."""
    pa = pyarrow()
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values)


def appended(table: Any, columns: Mapping[str, Any]) -> Any:
    """A table with further columns; where a name is taken, the new column's ends in underscores."""
    for name, values in columns.items():
        table = table.append_column(free_name(table.column_names, name), values)
    return table


def free_name(taken: Collection[str], name: str) -> str:
    """The name, with as many underscores as it takes to be a new one."""
    while name in taken:
        name += "_"
    return name


# ----------------------------------------------------------------------------------------------------------------------
# Files, part by part.


class Part(NamedTuple):
    """A row group or record batch: its number (from 0), the rows before it, and its table."""

    number: int
    first_row: int
    table: Any


class ArrowFile:
    """A Parquet or Arrow file, open for reading; a context manager.

    Parameters
    ----------
    source : path, ``-`` or open binary file
        A file that is named is memory-mapped. What comes through a pipe or is compressed as a whole is read at once.
    format : {"parquet", "arrow"}

    Attributes
    ----------
    schema : pyarrow.Schema
    n_parts, n_rows : int or None
        Row groups or record batches, and rows; None where only the end of the file tells.
    """

    def __init__(self, source: Source, format: str) -> None:
        pa = pyarrow()
        self.name, self.format = source_name(source), format
        self._reader: Any = None
        named = isinstance(source, str | os.PathLike) and os.path.isfile(source)
        self.is_stream, self._was_read = False, False
        self.n_parts: int | None = None
        self.n_rows: int | None = None
        with self._reading(f"not {NAMES[format]}"):
            if named and not _is_packed(source):
                path = os.fspath(source)  # type: ignore[arg-type]  # a path
                opened = pa.OSFile if mapped.is_active() else pa.memory_map  # pages of a map would count as memory
                self._stream = opened(path) if os.path.getsize(path) else pa.BufferReader(b"")
            else:
                self._stream = pa.BufferReader(read_bytes(source))
            if not self._stream.size():
                raise DataError(f"the file is empty, not {NAMES[format]}", self.name)
            if format == "parquet":
                self._open_parquet()
            else:
                self._open_arrow()
            _ = self.schema.names  # raises UnicodeDecodeError for those that are not text

    def _open_parquet(self) -> None:
        reader = pyarrow("pyarrow.parquet").ParquetFile(self._stream, page_checksum_verification=True)
        self._reader, self.schema = reader, reader.schema_arrow
        self.n_parts, self.n_rows = reader.num_row_groups, reader.metadata.num_rows

    def _open_arrow(self) -> None:
        pa = pyarrow()
        opening = self._stream.read(8)
        self._stream.seek(0)
        if opening.startswith(b"FEA1"):
            raise DataError("Feather files of version 1 are not read; write it again as version 2", self.name)
        if opening.startswith(b"ARROW1"):
            self._reader = pa.ipc.open_file(self._stream)
            self.n_parts = self._reader.num_record_batches
        else:
            self._reader = pa.ipc.open_stream(self._stream)
        self.is_stream, self.schema = self.n_parts is None, self._reader.schema

    @property
    def codec(self) -> str:
        """How a Parquet file is compressed, known once a part has been read: damaged notes would end the process."""
        if self.format != "parquet" or not self._was_read or not len(self.schema):
            return "snappy"
        codec: str = self._reader.metadata.row_group(0).column(0).compression.lower()
        return {"uncompressed": "none"}.get(codec, codec)

    def n_rows_of(self, number: int) -> int:
        """Rows of a part, by its number; not for streams."""
        with self._reading(f"{PART[self.format]} {number + 1} is damaged"):
            if self.format == "parquet":
                n_rows: int = self._reader.metadata.row_group(number).num_rows
            else:
                n_rows = self._reader.get_batch(number).num_rows
        return n_rows

    def parts(self, columns: Sequence[str] | None = None, first: int = 0, end: int | None = None) -> Iterator[Part]:
        """The parts in their order, all columns or those named; a run of parts begins and ends at these numbers."""
        number, first_row = first, sum(map(self.n_rows_of, range(first)))
        end = self.n_parts if end is None else end
        while end is None or number < end:
            with self._reading(f"{PART[self.format]} {number + 1} (after row {first_row:,}) is damaged"):
                try:
                    table = self._part(number, columns)
                except StopIteration:
                    return
            self._was_read = self._was_read or columns is None
            yield Part(number, first_row, table)
            number, first_row = number + 1, first_row + table.num_rows

    def _part(self, number: int, columns: Sequence[str] | None) -> Any:
        if self.format == "parquet":
            size = self._reader.metadata.row_group(number).total_byte_size
            if wrong := too_large(size):
                raise DataError(f"reading row group {number + 1} {wrong}", self.name)
            return self._reader.read_row_group(number, columns=columns, use_threads=False)
        batch = self._reader.read_next_batch() if self.n_parts is None else self._reader.get_batch(number)
        batch.validate(full=True)  # nothing else checks offsets and text of such files
        table = pyarrow().Table.from_batches([batch])
        return table if columns is None else table.select(columns)

    @contextmanager
    def _reading(self, what: str) -> Iterator[None]:
        try:
            yield
        except (DataError, OptionError):
            raise
        except (pyarrow().lib.ArrowException, OSError, ValueError, OverflowError) as error:
            reason = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
            raise DataError(f"{what}: {reason}", self.name) from None

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _is_packed(path: Any) -> bool:
    with open(path, "rb") as stream:
        return stream.read(2) == b"\x1f\x8b"


class ArrowWriter:
    """Writes tables as a Parquet or Arrow file, each as a part of it; a context manager.

    Parameters
    ----------
    out : binary file
    schema : pyarrow.Schema
    format : {"parquet", "arrow"}
    like : ArrowFile, optional
        One whose compression (Parquet), and whether it is a stream (Arrow), is kept.
    compression : str, optional
        Of Arrow files.
    """

    def __init__(
        self, out: BinaryIO, schema: Any, format: str, like: ArrowFile | None = None, compression: str | None = None
    ) -> None:
        self._sink, self._schema, self._format = pyarrow().PythonFile(_Sink(out), mode="w"), schema, format
        self._like, self._compression = like, compression
        self._opened: Any = None

    @property
    def _writer(self) -> Any:
        """Opened when the first table is there: only then is the compression of the other file known."""
        if self._opened is None:
            pa = pyarrow()
            if self._format == "parquet":
                codec = self._like.codec if self._like is not None else "snappy"
                settings: dict[str, Any] = {"compression": codec, "write_page_checksum": True}
                self._opened = pyarrow("pyarrow.parquet").ParquetWriter(self._sink, self._schema, **settings)
            else:
                make = pa.ipc.new_stream if self._like is not None and self._like.is_stream else pa.ipc.new_file
                options = pa.ipc.IpcWriteOptions(compression=self._compression)
                self._opened = make(self._sink, self._schema, options=options)
        return self._opened

    def write(self, table: Any) -> None:
        """Append a table as one row group or record batch."""
        if self._format == "parquet":
            self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        else:
            for batch in table.combine_chunks().to_batches() or [_empty_batch(table.schema)]:
                self._writer.write_batch(batch)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        if kind is None:
            self._writer.close()
            return
        with suppress(Exception):  # what is written so far is thrown away
            if self._opened is not None:
                self._opened.close()


def _empty_batch(schema: Any) -> Any:
    pa = pyarrow()
    return pa.RecordBatch.from_arrays([pa.array([], kind) for kind in schema.types], schema=schema)


class _Sink:
    """An open binary file that may only have ``write``, with all that Arrow asks of one."""

    closed = False

    def __init__(self, out: BinaryIO) -> None:
        self._out, self._count = out, 0

    def write(self, data: Any) -> int:
        self._out.write(data)
        self._count += len(data)
        return len(data)

    def tell(self) -> int:
        return self._count

    def flush(self) -> None:
        """Whoever opened the file flushes it."""

    def close(self) -> None:
        """Whoever opened the file closes it."""

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


# ----------------------------------------------------------------------------------------------------------------------
# Whole files as corpora, and corpora as files.


def read_arrow_columns(
    source: Source,
    format: str = "parquet",
    *,
    sentence: str | None = None,
    tokens: str | None = None,
    labels: str | None = None,
    label_names: Sequence[str] | None = None,
) -> Columns:
    """Read a Parquet or Arrow file as a corpus.

    Columns of text and of whole numbers (or of lists of these, if a row is a sentence) become the columns, the tokens
    first and the others in their order. Sentences without tokens are left out.

    Parameters
    ----------
    source : path, ``-`` or open binary file
    format : {"parquet", "arrow"}
        ``arrow`` is IPC, file or stream, and Feather.
    sentence, tokens : str, optional
        Names of the columns that say which sentence a row is of, and that hold its token, or the tokens of a sentence
        as a list. If not given, columns called as usual are found (``tokens``, ``word``, ...; ``sentence_id``, ...).
    labels : str, optional
        The column that ``label_names`` are about, by default the last.
    label_names : sequence of str, optional
        What labels given as numbers mean, from 0; by default what Hugging Face's ``datasets`` noted in the file.

    Raises
    ------
    DataError
        With the file and, after a colon, the row (from 1): no such column, nulls, lists of different lengths, invalid
        UTF-8, a sentence that comes back after another, no sentence at all; or with the row group that is damaged.
    OptionError
        If pyarrow is not installed.

    Examples
    --------
    >>> corpus = read_arrow_columns("train.parquet", tokens="tokens")  # doctest: +SKIP
    """
    with ArrowFile(source, format) as file:
        schema = TokenSchema.of(
            file.schema, file.name, sentence=sentence, tokens=tokens, labels=labels, label_names=label_names,
            format=format,
        )  # fmt: skip
        whole = _Pieces(schema)
        for part in file.parts(schema.columns()):
            whole.add(part)
    return whole.corpus()


class _Pieces:
    """A corpus that grows part by part."""

    def __init__(self, schema: TokenSchema) -> None:
        self._schema = schema
        self._index: list[dict[str, int]] = [{} for _ in schema.names]
        self._ids = [mapped.Growing(np.int32) for _ in schema.names]
        self._lengths, self._lines, self._names = list[Int64](), mapped.Growing(np.int64), list[Any]()

    def add(self, part: Part) -> None:
        """Append a part; sentences of rows are found in the end, as one may go on in the next part."""
        in_lists = self._schema.sentence is None
        first = part.first_row
        for table in self._schema.blocks(part.table) if in_lists else [part.table]:
            corpus = self._schema.rows(table, first)
            self._lengths.append(np.diff(corpus.offsets))
            self._lines.append(corpus.lines)
            for index, ids, column in zip(self._index, self._ids, corpus.columns, strict=True):
                number = [index.setdefault(value, len(index)) for value in column.values]
                ids.append(np.array(number, dtype=np.int32)[column.ids])
            first += table.num_rows
        if not in_lists:
            self._names.append(part.table.column(self._schema.sentence))

    def corpus(self) -> Columns:
        """All parts together."""
        schema, lines = self._schema, self._lines.array()
        if not len(lines):
            raise DataError("the file holds no sentences", schema.file)
        offsets = offsets_of(np.concatenate(self._lengths))
        columns = [Column(ids.array(), list(index)) for ids, index in zip(self._ids, self._index, strict=True)]
        corpus = Columns(schema.file, offsets, lines, columns, names=list(schema.names), format=schema.format)
        if schema.sentence is not None:
            chunks = chain.from_iterable(names.chunks for names in self._names)
            corpus.offsets = schema.offsets(corpus, pyarrow().chunked_array(chunks))
        if corpus.n_columns == 1:
            corpus.unlabelled = int(lines[0])
        corpus.offsets = np.unique(corpus.offsets)
        return corpus


def write_arrow_columns(
    corpus: Columns, out: BinaryIO, format: str = "parquet", further: Mapping[str, Column | Float] | None = None
) -> None:
    """Write a corpus as a Parquet or Arrow file, a row a sentence, with further columns [N].

    Parameters
    ----------
    corpus : Columns
        Its columns are called as it names them, or ``tokens``, ``column1``, ...
    out : binary file
    format : {"parquet", "arrow"}
    further : mapping of name to Column or float array
    """
    pa = pyarrow()
    names = corpus.names or ["tokens", *(f"column{c}" for c in range(1, corpus.n_columns))]
    offsets = corpus.given_offsets
    columns = {name: _lists(column, offsets) for name, column in zip(names, corpus.columns, strict=True)}
    table = appended(pa.table(columns), {name: _lists(values, offsets) for name, values in (further or {}).items()})
    with ArrowWriter(out, table.schema, format) as writer:
        for first, end in pairwise([*range(0, max(1, table.num_rows), BLOCK), table.num_rows]):
            writer.write(table.slice(first, end - first))


def _lists(values: Column | npt.NDArray[Any], offsets: Int64) -> Any:
    flat = text_array(values.ids, values.values) if isinstance(values, Column) else pyarrow().array(values)
    return list_array(flat, offsets)
