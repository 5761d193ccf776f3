"""Where a corpus comes from, as pieces that any process can read by itself, in the order of the data.

    files, folders, globs, gzip     a file is a piece; a large plain column file is cut at blank lines
    encoded folders                 runs of sentences are pieces; the attributes are looked up again, on the workers
    s3://..., memory://...          the same through fsspec
    Dask bags                       a partition is a piece; an item is a sentence: (tokens, labels), or rows of strings
    Dask data frames                a partition is a piece; a row is a token, or a sentence with lists

A piece pickles, and reads the same wherever it is read.
"""

from __future__ import annotations

import io
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from loglinear.data import Columns
from loglinear.data.columns import format_of, read
from loglinear.data.files import line_of
from loglinear.errors import ClusterError, DataError, OptionError
from loglinear.scale.encoded import files_of, open_encoded
from loglinear.scale.parts import MANIFEST, TABLES, is_encoded

Read = Callable[[Any], Any]  # from a path or an open binary file to a corpus
SENTENCES = 40_000  # of a piece of an encoded folder
CHUNK = 1 << 23  # bytes of a plain column file that are read at a time
_BLANK_LINE = re.compile(rb"\n[ \t\r]*\n")
_LOOK_AHEAD = 1 << 16
_PACKED = b"\x1f\x8b"


class Piece(ABC):
    """A part of a corpus."""

    reading: Read

    @property
    @abstractmethod
    def name(self) -> str:
        """What messages call it: file and line, if there are any."""

    @abstractmethod
    def read(self) -> Any:
        """Its sentences as a corpus."""

    @property
    def label_column(self) -> int:
        """The column of the labels, as the reader knows it once it has read."""
        return int(getattr(getattr(self.reading, "__self__", None), "label_column", -1))

    def columns(self) -> Columns:
        """The same; ready-made features are refused."""
        corpus = self.read()
        if not isinstance(corpus, Columns):
            raise DataError("on a cluster a corpus has columns and a template; this is ready-made features", self.name)
        if corpus.dense is not None:
            raise DataError("dense features cannot go onto a cluster yet; train on one machine", self.name)
        return corpus


@dataclass(frozen=True)
class FilePiece(Piece):
    """A file, or the sentences of it that begin in a range of bytes.

    Parameters
    ----------
    path : str
        A path, or a URL that fsspec opens.
    reading : callable
    begin : int
    end : int or None
        None is the whole file.
    """

    path: str
    reading: Read
    begin: int = 0
    end: int | None = None

    @property
    def name(self) -> str:
        return self.path if self.end is None or not self.begin else f"{self.path} from byte {self.begin:,} on"

    def read(self) -> Any:
        if self.end is None:
            if not is_url(self.path):
                return self.reading(self.path)
            return self.reading(_named(self._all(), self.path))
        with opened(self.path) as file:
            first, end = _cut(file, self.begin), _cut(file, self.end)
            file.seek(first)
            content = file.read(end - first)
        if not content.strip():  # a sentence that began before goes on beyond the range
            return Columns.from_rows([])
        try:
            return self.reading(_named(content, self.path))
        except DataError as error:
            if error.line is None:
                raise
            raise DataError(error.message, error.file, error.line + self._lines_before(first)) from None

    def _all(self) -> bytes:
        with opened(self.path) as file:
            return bytes(file.read())

    def _lines_before(self, first: int) -> int:
        with opened(self.path) as file:
            return line_of(file.read(first), first) - 1

    def error_at(self, corpus: Columns, message: str, position: int) -> DataError:
        """The error of a position of what was read."""
        error = corpus.error(message, position)
        if self.end is None or error.line is None:
            return error
        with opened(self.path) as file:
            first = _cut(file, self.begin)
        return DataError(message, self.path, error.line + self._lines_before(first))


def _cut(file: Any, at: int) -> int:
    """Where the first sentence begins at or after a byte: behind a blank line; the end if there is none."""
    if at <= 0:
        return 0
    begin = at - 1
    file.seek(begin)
    seen = b""
    while block := file.read(_LOOK_AHEAD):
        seen += block
        if match := _BLANK_LINE.search(seen):
            return int(begin + match.end())
    return int(begin + len(seen))


def _named(content: bytes, name: str) -> Any:
    whole = io.BytesIO(content)
    whole.name = name
    return whole


def is_url(path: str) -> bool:
    """Whether fsspec opens it."""
    return "://" in path


def opened(path: str) -> Any:
    """A binary file; what cannot be read is an error that names it."""
    try:
        return _filesystem(path)[0].open(path, "rb") if is_url(path) else open(path, "rb")
    except (OSError, ValueError) as error:
        raise DataError(f"cannot be read: {getattr(error, 'strerror', None) or error}", path) from None


def _filesystem(path: str) -> tuple[Any, str]:
    """The file system of a URL and the path in it."""
    try:
        import fsspec
    except ImportError:
        raise OptionError(f"{path} needs fsspec, which comes with Dask: pip install 'loglinear[dask]'") from None
    try:
        found: tuple[Any, str] = fsspec.core.url_to_fs(path)
        return found
    except (ImportError, ValueError) as error:
        raise OptionError(f"{path} cannot be opened: {error}") from None


def _files(sources: Sequence[str]) -> list[str]:
    """The files that paths, folders, globs and URLs name."""
    found: list[str] = []
    for source in sources:
        if not is_url(source):
            found += files_of([source])
            continue
        system, path = _filesystem(source)
        try:
            if system.isdir(path):
                names = [each for each in system.ls(path, detail=False) if not _is_hidden(each) and system.isfile(each)]
                names = [each for each in names if each.lower().endswith(TABLES)] or names
            else:
                names = list(system.glob(path)) if any(mark in path for mark in "*?[") else [path]
        except OSError as error:
            raise DataError(f"cannot be read: {error}", source) from None
        if not names:
            raise DataError("no file matches", source)
        found += [system.unstrip_protocol(each) for each in sorted(names)]
    return found


def _is_hidden(path: str) -> bool:
    return os.path.basename(path.rstrip("/")).startswith((".", "_"))


def _size_to_cut(path: str, format: str) -> int | None:
    """Bytes of a plain column file that is worth cutting; None of any other."""
    if is_url(path) or not os.path.isfile(path) or os.path.getsize(path) <= 2 * CHUNK:
        return None
    if format not in ("auto", "columns") or (format == "auto" and format_of(path) != "columns"):
        return None
    if format == "auto" and path.lower().endswith((".csv", ".tsv", ".tab", ".json", ".spacy", ".gz")):
        return None
    with opened(path) as file:
        return None if file.read(2) == _PACKED else os.path.getsize(path)


@dataclass(frozen=True)
class EncodedPiece(Piece):
    """Sentences of a folder that ``loglinear encode`` has written.

    Parameters
    ----------
    path : str
    first, end : int
        Sentences.
    """

    path: str
    first: int
    end: int

    @property
    def name(self) -> str:
        return f"{self.path} from sentence {self.first + 1:,} on" if self.first else self.path

    def read(self) -> Any:
        corpus = _encoded(self.path, os.stat(os.path.join(self.path, MANIFEST)).st_mtime_ns)
        if not isinstance(corpus, Columns):
            return corpus
        return corpus.select(np.arange(self.first, min(self.end, corpus.n_sentences)))


@lru_cache(maxsize=4)
def _encoded(path: str, changed: int) -> Any:
    """The corpus of an encoded folder, checked once a process."""
    return open_encoded(path).corpus


def _encoded_pieces(path: str) -> list[Piece]:
    """The pieces of an encoded folder: runs of sentences of about :data:`SENTENCES`."""
    path = os.path.abspath(path)
    n = len(open_encoded(path).corpus)
    return [EncodedPiece(path, first, min(first + SENTENCES, n)) for first in range(0, n, SENTENCES)]


def pieces_of(source: Any, reading: Read | None = None, format: str = "auto", **naming: Any) -> list[Piece]:
    """The pieces of a source in order.

    Parameters
    ----------
    source : str, path, list of these, Dask bag or Dask data frame
    reading : callable, optional
        Reads a file; :func:`loglinear.data.columns.read` with ``format`` if not given.
    format : str
        Of the files.
    **naming
        Of data frames, ``tokens``, ``labels`` and ``sentence``: names of columns; of files, options of their format.
    """
    if hasattr(source, "to_delayed") and hasattr(source, "__dask_graph__"):
        return _partitions(source, naming)
    if isinstance(source, str | os.PathLike):
        source = [source]
    if not isinstance(source, Sequence) or not source or not all(isinstance(s, str | os.PathLike) for s in source):
        raise OptionError(
            "a cluster reads files, globs, URLs, encoded folders, Dask bags and Dask data frames, not a "
            f"{type(source).__name__}; what is in this process is quicker trained by Tagger"
        )
    reading = partial(read, format=format, **naming) if reading is None else reading
    pieces, named = list[Piece](), [os.fspath(each) for each in source]
    if any(map(is_encoded, named)):
        if len(named) > 1:
            raise OptionError("an encoded folder is a corpus by itself; give it alone, or the files it was made from")
        return _encoded_pieces(named[0])
    for path in _files(named):
        size = _size_to_cut(path, format)
        if size is None:
            pieces.append(FilePiece(path if is_url(path) else os.path.abspath(path), reading))
        else:
            pieces += [FilePiece(os.path.abspath(path), reading, at, at + CHUNK) for at in range(0, size, CHUNK)]
    return pieces


# ----------------------------------------------------------------------------------------------------------------------
# Dask's collections: a partition is computed where it is needed, by the worker itself.


@dataclass(frozen=True)
class PartitionPiece(Piece):
    """A partition of a Dask collection.

    Parameters
    ----------
    number : int
    delayed : Delayed
        Computes it.
    reading : callable
        From its value to a corpus.
    """

    number: int
    delayed: Any
    reading: Read

    @property
    def name(self) -> str:
        return f"partition {self.number} (from 0)"

    def read(self) -> Any:
        value = self.delayed.compute(scheduler="synchronous")
        try:
            return self.reading(value)
        except DataError as error:
            raise DataError(f"{self.name}: {error}") from None


def _partitions(collection: Any, naming: dict[str, Any]) -> list[Piece]:
    from dask.base import optimize

    if type(collection).__module__.partition(".")[2].startswith("bag"):
        if naming:
            raise OptionError(f"{sorted(naming)[0]}=...: the items of a bag have no names; leave it out")
        reading: Read = _corpus_of_bag
    elif hasattr(collection, "columns"):
        reading = partial(_corpus_of_frame, **naming)
    else:
        raise OptionError(f"a {type(collection).__name__} of Dask has neither sentences nor columns of tokens")
    delayed = collection.to_delayed()
    return [PartitionPiece(n, optimize(each)[0], reading) for n, each in enumerate(delayed)]


def _corpus_of_bag(items: Any) -> Columns:
    """A corpus of sentences: rows with the label last, or (tokens, labels)."""
    rows = list[Any]()
    for number, item in enumerate(items):
        if isinstance(item, tuple) and len(item) == 2 and not isinstance(item[0], str):
            tokens, labels = (list(each) for each in item)
            if len(tokens) != len(labels):
                raise DataError(f"sentence {number} (from 0) has {len(tokens)} tokens but {len(labels)} labels")
            item = [(*([t] if isinstance(t, str) else t), label) for t, label in zip(tokens, labels, strict=True)]
        rows.append(item)
    return Columns.from_rows(rows, empty=True)


def _corpus_of_frame(
    frame: Any, tokens: str | Sequence[str] = "tokens", labels: str = "labels", sentence: str | None = None
) -> Columns:
    """A corpus of a pandas frame: a row a token if ``sentence`` names a column, else a row a sentence."""
    names = [*([tokens] if isinstance(tokens, str) else tokens), labels]
    for name in (*names, *([] if sentence is None else [sentence])):
        if name not in frame.columns:
            raise OptionError(f"the data frame has no column {name!r}; it has {', '.join(map(str, frame.columns))}")
    columns = [frame[name].tolist() for name in names]
    if sentence is None:
        rows = []
        for number, row in enumerate(zip(*columns, strict=True)):
            lists = [list(each) for each in row]
            if len({len(each) for each in lists}) > 1:
                raise DataError(
                    f"row {number} (from 0): its lists have {' and '.join(str(len(e)) for e in lists)} entries"
                )
            rows.append(list(zip(*lists, strict=True)))
        return Columns.from_rows(rows, empty=True)
    grouped: list[list[tuple[Any, ...]]] = []
    last: Any = object()
    for key, *token in zip(frame[sentence].tolist(), *columns, strict=True):
        if key != last:
            grouped.append([])
            last = key
        grouped[-1].append(tuple(token))
    return Columns.from_rows(grouped)


def check_reachable(pieces: Sequence[Piece]) -> None:
    """Refuse a source without pieces."""
    if not pieces:
        raise ClusterError("the source has no parts")
