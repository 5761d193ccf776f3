"""Encoded corpora: a folder with a corpus in numbers, to train on again and again, whatever its size.

    manifest.json    the sources with their sizes and SHA-256, the template, and how much there is
    corpus           columns, sentences and lines: what reading the sources gave
    encoding         the attributes of each position by a template, the encoder, and the checksum of ``corpus``

``corpus`` and ``encoding`` are containers as model files are (:mod:`loglinear.model_file`): nothing in them is run, all
of them is checked, and they are memory-mapped. A folder appears under its name when it is complete.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from loglinear import __version__, mapped
from loglinear.arrays import Arrays
from loglinear.data import Attributes, Columns
from loglinear.data.columns.corpus import Column
from loglinear.documents import parsed_json
from loglinear.errors import DataError, ModelFileError, OptionError
from loglinear.estimators.tagger.file import encoder_to_storage, read_encoder
from loglinear.estimators.tagger.inputs import encoder_for
from loglinear.features.encoding import EncodedCorpus, Incidence
from loglinear.features.stored import EncodedColumns, Encoding, recipe_of
from loglinear.model_file import Reader, read, save, string_arrays
from loglinear.scale.parts import parts_of
from loglinear.system import replace_folder, temporary_folder, writing

MANIFEST, CORPUS, ENCODING = "manifest.json", "corpus", "encoding"
FORMAT, VERSION = "loglinear encoded corpus", 1
OPTIONS = ("template", "min_count", "gazetteers", "pair_features", "hash_bits")  # of a tagger, that an encoding has
PART = 1 << 24  # bytes whose digest is worked out at a time


@dataclass(frozen=True)
class SourceFile:
    """A file that was encoded.

    Parameters
    ----------
    path : str
        As it was given.
    real_path : str
        Where it was.
    size, changed : int
        Bytes, and the time of its last change in nanoseconds.
    sha256 : str
    """

    path: str
    real_path: str
    size: int
    changed: int
    sha256: str

    @classmethod
    def of(cls, path: str) -> SourceFile:
        """A file as it is now."""
        with _naming(path):
            status = os.stat(path)
            return cls(path, os.path.realpath(path), status.st_size, status.st_mtime_ns, _digest(path))

    def reason_to_encode_again(self) -> str:
        """How the file differs from what was encoded, or an empty string; one that has gone does not."""
        with suppress(OSError):
            status = os.stat(self.real_path)
            same = (status.st_size, status.st_mtime_ns) == (self.size, self.changed)
            if not same and (status.st_size != self.size or _digest(self.real_path) != self.sha256):
                return f"{self.path} has changed since it was encoded"
        return ""


def _digest(path: str) -> str:
    sha256 = hashlib.sha256()
    with open(path, "rb") as stream:
        while part := stream.read(PART):
            sha256.update(part)
    return sha256.hexdigest()


class _naming:
    """Context in which an error of the system becomes one about a file."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, OSError):
            raise DataError(f"cannot be read: {error.strerror or error}", self._path) from None


def files_of(sources: Sequence[str]) -> list[str]:
    """The files that paths, folders and patterns name (:func:`loglinear.scale.parts.parts_of`)."""
    found: list[str] = []
    for source in sources:
        parts = parts_of(source)
        if parts == []:
            raise DataError("no file matches", source)
        found += [source] if parts is None else parts
    return found


def read_parts(sources: Sequence[str], read_one: Callable[[str], Columns | Attributes]) -> Columns | Attributes:
    """The corpus of one or several files, the same as if they were one."""
    paths = files_of(sources)
    corpora = [read_one(path) for path in paths]
    if len(corpora) == 1:
        return corpora[0]
    if not all(isinstance(corpus, Columns) for corpus in corpora):
        raise DataError("files of ready-made attributes are read one at a time; join them to one file", paths[0])
    return Columns.concatenated(corpora, f"{paths[0]} and {len(paths) - 1} more")  # type: ignore[arg-type]  # Columns


def is_encoded(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a folder that :func:`encode` has written."""
    return os.path.isfile(os.path.join(path, MANIFEST))


def check_target(folder: str | os.PathLike[str]) -> None:
    """Reject a folder that an encoded corpus cannot replace: one with anything else in it."""
    names = set(os.listdir(folder)) if os.path.isdir(folder) else set()
    if not names:
        return
    ours = {MANIFEST, CORPUS, ENCODING}
    if names & ours != ours:  # it may have lost some
        try:
            _sources(Path(folder))
        except DataError:
            raise OptionError(f"{folder} exists and is no encoded corpus; name another folder") from None
    if names - ours:
        raise OptionError(f"{folder} holds other files as well; name another folder")


def encode(
    corpus: Columns | Attributes,
    folder: str | os.PathLike[str],
    options: Mapping[str, Any],
    *,
    label_column: int = -1,
    sources: Sequence[str] = (),
    reading: Mapping[str, Any] | None = None,
    n_threads: int = 1,
) -> EncodedCorpus:
    """Encode a corpus and write both to a new folder.

    Parameters
    ----------
    corpus : Columns
    folder : path
        Must not exist, be empty, or be a folder that an earlier call has written, which is replaced at once.
    options : mapping
        Those of a tagger that an encoding depends on: ``template``, ``min_count``, ``gazetteers``, ``pair_features``
        and ``hash_bits``.
    label_column : int
        The column of the labels, which the template must not look at.
    sources : list of str
        The files that the corpus was read from, whose digests are noted.
    reading : mapping, optional
        What else to note about how they were read.
    n_threads : int
    """
    check_target(folder)
    target = Path(os.path.realpath(folder))
    if isinstance(corpus, Attributes):
        raise DataError("ready-made attributes are in numbers when they have been read; train on the file", corpus.name)
    encoder = encoder_for(
        corpus, options["template"], options.get("gazetteers") or (), options.get("pair_features", False), label_column,
        options.get("hash_bits"),
    )  # fmt: skip
    min_count = options.get("min_count", 1)
    recipe = recipe_of(encoder, min_count)
    encoded = encoder.fit(corpus, min_count, n_threads)  # type: ignore[arg-type]  # it is of token rows
    noted = [SourceFile.of(path) for path in sources]
    target.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(f".{target.name}-", target.parent) as place:
        new = place / target.name  # with the permissions that the umask leaves
        new.mkdir()
        header, arrays = _stored_columns(corpus)
        header |= {"label_column": label_column, "reading": dict(reading or {})}
        checksum = save(new / CORPUS, CORPUS, header, arrays)
        header, arrays = encoder_to_storage(encoder)
        header = {"corpus": checksum, "made_by": recipe, "min_count": min_count, "encoder": header}
        save(new / ENCODING, ENCODING, header, {**arrays, **_stored(encoded)})
        manifest = {
            "format": FORMAT, "version": VERSION, "loglinear": __version__, "made_by": recipe,
            "sources": [asdict(source) for source in noted], "template": str(getattr(encoder, "templates", "")),
            "sentences": len(corpus), "tokens": corpus.n_tokens, "attributes": encoder.n_attributes,
        }  # fmt: skip
        with writing(new / MANIFEST) as stream:
            stream.write((json.dumps(manifest, indent=1, ensure_ascii=False) + "\n").encode())
        replace_folder(target, new)
    return encoded


def _stored_columns(corpus: Columns) -> tuple[dict[str, Any], Arrays]:
    header = {
        "name": corpus.name, "columns": corpus.n_columns, "names": corpus.names, "unlabelled": corpus.unlabelled,
        "format": corpus.format, "parts": None if corpus.parts is None else [list(part) for part in corpus.parts],
    }  # fmt: skip
    arrays: Arrays = {"offsets": corpus.offsets, "lines": corpus.lines}
    for number, column in enumerate(corpus.columns):
        arrays |= {f"column.{number}": column.ids, **string_arrays(f"column.{number}", column.values)}
    return header, arrays


def _stored(encoded: EncodedCorpus) -> Arrays:
    """The arrays of an encoding; an edge incidence that is the state's is not stored twice."""
    arrays: Arrays = {"state.pointer": encoded.state.pointer, "state.ids": encoded.state.ids}
    if encoded.edge is encoded.state:
        arrays["edge.same"] = np.ones(1, dtype=np.bool_)
    elif encoded.edge is not None:
        arrays |= {"edge.pointer": encoded.edge.pointer, "edge.ids": encoded.edge.ids}
    return arrays


@dataclass(frozen=True)
class EncodedFolder:
    """An encoded corpus that has been opened.

    Parameters
    ----------
    corpus : EncodedColumns
        Its arrays lie in files and must not be changed.
    options : dict
        The options of a tagger that the encoding was made with: ``Tagger(l2=0.1, **folder.options).fit(folder.corpus)``
        finds it in the folder, and a tagger with others encodes the corpus anew.
    label_column : int
    reading : dict
        How the sources were read.
    """

    corpus: EncodedColumns
    options: dict[str, Any]
    label_column: int
    reading: dict[str, Any]


def open_encoded(folder: str | os.PathLike[str]) -> EncodedFolder:
    """Open a folder that :func:`encode` has written.

    Raises
    ------
    DataError
        It is damaged, or a source has changed since.
    """
    path = Path(folder)
    for source in _sources(path):
        if reason := source.reason_to_encode_again():
            raise DataError(f"{reason}: encode it again", str(path))
    try:
        columns, encoding = (read(path / name, name, paged=True) for name in (CORPUS, ENCODING))
        if encoding.text("corpus") != columns.checksum:
            encoding.fail("corpus", "it is the encoding of another corpus")
        corpus = _columns(columns)
        corpus.encoding = _encoding(encoding, corpus)
        reading, label_column = dict(columns.section("reading").header), columns.integer("label_column", -(2**31))
        min_count = encoding.integer("min_count", 1)
    except ModelFileError as error:
        raise DataError(f"damaged: {error}; encode it again", str(path)) from None
    encoder = corpus.encoding.encoder
    options = {
        "template": encoder.templates,
        "min_count": min_count,
        "gazetteers": list(encoder.gazetteers.values()) or None,
        "pair_features": encoder.pair_features,
        "hash_bits": encoder.to_header().get("bits"),
    }
    return EncodedFolder(corpus, options, label_column, reading)


def _sources(folder: Path) -> list[SourceFile]:
    """The sources that the manifest names."""
    try:
        manifest = parsed_json((folder / MANIFEST).read_bytes())
    except OSError as error:
        raise DataError(f"{MANIFEST} cannot be read: {error.strerror}", str(folder)) from None
    except ValueError as error:
        raise DataError(f"{MANIFEST} is damaged ({error}): encode it again", str(folder)) from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise DataError(f"{MANIFEST} is not that of an encoded corpus", str(folder))
    if manifest.get("version") != VERSION:
        raise DataError("it was written by another version of loglinear: encode it again", str(folder))
    sources = manifest.get("sources")
    kinds = {"path": str, "real_path": str, "size": int, "changed": int, "sha256": str}
    for each in sources if isinstance(sources, list) else [None]:
        if not isinstance(each, dict) or {name: type(value) for name, value in each.items()} != kinds:
            raise DataError(f"{MANIFEST} is damaged (a source is incomplete): encode it again", str(folder))
    return [SourceFile(**each) for each in manifest["sources"]]


def _columns(stored: Reader) -> EncodedColumns:
    offsets = stored.array("offsets", [np.int64], (None,))
    if len(offsets) < 2 or offsets[0] != 0 or not _ascends(offsets, strictly=True):
        stored.fail("offsets", "not distinct numbers in ascending order from 0")
    n = int(offsets[-1])
    columns = []
    for number in range(stored.integer("columns", 1)):
        ids, values = stored.array(f"column.{number}", [np.int32], (n,)), stored.strings(f"column.{number}")
        if not _below(ids, len(values)):
            stored.fail(f"column.{number}", "a number names a value that does not exist")
        columns.append(Column(ids, values))
    names, parts = stored.value("names"), stored.value("parts")
    if names is not None:
        names = stored.names("names")
    with stored.building("parts"):
        parts = None if parts is None else [(str(name), int(first)) for name, first in parts]
    unlabelled = None if stored.value("unlabelled") is None else stored.integer("unlabelled")
    return EncodedColumns(
        stored.text("name"), offsets, stored.array("lines", [np.int64], (n,)), columns, unlabelled=unlabelled,
        names=names, format=stored.text("format"), parts=parts,
    )  # fmt: skip


def _encoding(stored: Reader, corpus: Columns) -> Encoding:
    _, encoder = read_encoder(stored)

    def incidence(name: str) -> Incidence:
        pointer = stored.array(f"{name}.pointer", [np.int64], (corpus.n_tokens + 1,))
        ids = stored.array(f"{name}.ids", [np.int32], (None,))
        if pointer[0] != 0 or pointer[-1] != len(ids) or not _ascends(pointer):
            stored.fail(f"{name}.pointer", f"the lists do not cover the {len(ids)} entries")
        if not _below(ids, encoder.n_attributes):
            stored.fail(f"{name}.ids", "a number names an attribute that does not exist")
        return Incidence(pointer, ids)

    state = incidence("state")
    edge = state if "edge.same" in stored.arrays else incidence("edge") if "edge.ids" in stored.arrays else None
    return Encoding(stored.text("made_by"), encoder, EncodedCorpus(corpus.offsets, state, edge))


def _ascends(numbers: Any, strictly: bool = False) -> bool:
    """Whether numbers never fall, or always rise; looks at some at a time."""
    pieces = (numbers[first : first + mapped.PIECE + 1] for first in range(0, len(numbers), mapped.PIECE))
    return all(bool((np.diff(piece) >= int(strictly)).all()) for piece in pieces)


def _below(numbers: Any, n: int) -> bool:
    """Whether all numbers are from 0 to n - 1; looks at some at a time."""
    pieces = (numbers[first : first + mapped.PIECE] for first in range(0, len(numbers), mapped.PIECE))
    return all(int(piece.min()) >= 0 and int(piece.max()) < n for piece in pieces)
