"""Encoded corpora: a folder with a corpus in numbers, to train on again and again, whatever its size.

    manifest.json    the sources with their sizes and SHA-256, the template, how much there is, the checksum of
                     ``encoding``, and one of all this
    corpus           columns or ready-made attributes, sentences and lines: what reading the sources gave
    encoding         the attributes of each position by a template, the encoder, and the checksum of ``corpus``

``corpus`` and ``encoding`` are containers as model files are (:mod:`loglinear.model_file`): nothing in them is run, all
of them is checked, and they are memory-mapped. A folder appears under its name when it is complete.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
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
from loglinear.features.stored import EncodedAttributes, EncodedColumns, Encoding, recipe_of
from loglinear.model_file import Reader, read, save, string_arrays
from loglinear.scale.parts import CORPUS, ENCODING, FILES_ENCODED, MANIFEST, is_encoded, parts_of
from loglinear.system import WriteError, locked, temporary_folder

FORMAT, VERSION = "loglinear encoded corpus", 1
OPTIONS = ("template", "min_count", "gazetteers", "pair_features", "hash_bits", "edge")  # of a tagger
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
        if is_encoded(source):
            raise DataError("this is an encoded corpus already; train takes it as it is", source)
        parts = parts_of(source)
        if parts == []:
            raise DataError("no file matches", source)
        found += [source] if parts is None else parts
    return found


def read_parts(sources: Sequence[str], read_one: Callable[[str], Columns | Attributes]) -> Columns | Attributes:
    """The corpus of one or several files, the same as if they were one.

    Each file is read by itself. Where large arrays lie in files (:mod:`loglinear.mapped`), those of the corpus do, and
    no more than one source is in memory.
    """
    paths = files_of(sources)
    if len(paths) == 1 and not mapped.is_active():
        return read_one(paths[0])
    first = read_one(paths[0])
    if len(paths) == 1 and isinstance(first, Columns) and (first.format == "columns" or first.origin is not None):
        return first  # in files already, or texts with spans, whose places are not lines
    name = paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    kind = Attributes if isinstance(first, Attributes) else Columns
    parts = _parts(first, paths[1:], read_one, kind)
    del first
    return kind.concatenated(parts, name)


def _parts(corpus: Any, rest: Sequence[str], read_one: Callable[[str], Any], kind: type) -> Iterator[Any]:
    """The corpora of several files, each of which is given up before the next one is read."""
    yield corpus
    for path in rest:
        del corpus
        corpus = read_one(path)
        if not isinstance(corpus, kind):
            raise DataError("of the files, some hold ready-made attributes and some do not", path)
        yield corpus


def check_target(folder: str | os.PathLike[str]) -> None:
    """Refuse a folder that :func:`encode` must not write: one that holds anything but an encoded corpus."""
    target = Path(folder)
    if not os.path.lexists(target):
        return
    if not is_encoded(target):
        if target.is_dir() and not any(target.iterdir()):
            return
        raise OptionError(f"{target} exists and is not an encoded corpus; name another folder")
    if others := sorted({each.name for each in target.iterdir()} - set(FILES_ENCODED)):
        raise OptionError(f"{target} holds other files as well, such as {others[0]}; name another folder")


def encode(
    corpus: Columns | Attributes,
    folder: str | os.PathLike[str],
    options: Mapping[str, Any],
    *,
    label_column: int = -1,
    sources: Sequence[str | SourceFile] = (),
    reading: Mapping[str, Any] | None = None,
    n_threads: int = 1,
) -> EncodedCorpus:
    """Encode a corpus and write both to a new folder.

    Parameters
    ----------
    corpus : Columns or Attributes
    folder : path
        Must not exist, or be empty, or one that an earlier call has written.
    options : mapping
        Those of a tagger that an encoding depends on: ``template``, ``min_count``, ``gazetteers``, ``pair_features``,
        ``hash_bits`` and ``edge``.
    label_column : int
        The column of the labels, which the template must not look at.
    sources : list of str or SourceFile
        The files that the corpus was read from, whose digests are noted. With a :class:`SourceFile`, made before the
        file was read, a file that has changed meanwhile is an error.
    reading : mapping, optional
        What else to note about how they were read.
    n_threads : int
    """
    target = Path(folder)
    check_target(target)
    noted = [each if isinstance(each, SourceFile) else SourceFile.of(each) for each in sources]
    encoder = encoder_for(
        corpus, options.get("template"), options.get("gazetteers") or (), options.get("pair_features", False),
        label_column, options.get("hash_bits"), edge=options.get("edge") or (),
    )  # fmt: skip
    min_count = options.get("min_count", 1)
    recipe = recipe_of(encoder, min_count)
    encoded = encoder.fit(corpus, min_count, n_threads)  # type: ignore[arg-type]  # the encoder is one for such corpora
    with _in(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(f".{target.name[:100]}-", target.parent) as beside:
        new = beside / "new"
        new.mkdir()
        header, arrays = _stored_corpus(corpus)
        header |= {"label_column": label_column, "reading": dict(reading or {})}
        checksum = save(new / CORPUS, CORPUS, header, arrays)
        header, arrays = encoder_to_storage(encoder)
        header = {"corpus": checksum, "made_by": recipe, "min_count": min_count, "encoder": header}
        checksum = save(new / ENCODING, ENCODING, header, {**arrays, **_stored(encoded)})
        for source in noted:
            if source.reason_to_encode_again():
                raise DataError("has changed while it was being encoded: encode it again", source.path)
        manifest = {
            "format": FORMAT, "version": VERSION, "loglinear": __version__, "encoding": checksum, "made_by": recipe,
            "sources": [asdict(source) for source in noted], "template": str(getattr(encoder, "templates", "")),
            "sentences": len(corpus), "tokens": corpus.n_tokens, "attributes": encoder.n_attributes,
        }  # fmt: skip
        text = json.dumps(manifest | {"checksum": _checksum(manifest)}, indent=1, ensure_ascii=False)
        with _in(target):
            (new / MANIFEST).write_text(text + "\n", encoding="utf-8")
            with locked(target.parent):  # of two commands that write it, one comes after the other
                check_target(target)
                if target.exists():
                    os.rename(target, beside / "old")
                os.rename(new, target)
    return encoded


def _checksum(manifest: Mapping[str, Any]) -> str:
    """The checksum of a manifest's other entries."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


@contextmanager
def _in(folder: Path) -> Iterator[None]:
    """Make an error of the system's one that names the folder."""
    try:
        yield
    except WriteError:
        raise
    except OSError as error:
        raise WriteError(error.errno or 0, error.strerror or str(error), str(folder)) from error


def _stored_corpus(corpus: Columns | Attributes) -> tuple[dict[str, Any], Arrays]:
    header: dict[str, Any] = {
        "name": corpus.name, "parts": None if corpus.parts is None else [list(part) for part in corpus.parts],
    }  # fmt: skip
    arrays: Arrays = {"offsets": corpus.offsets, "lines": corpus.lines}
    if isinstance(corpus, Columns):
        header |= {
            "columns": corpus.n_columns, "names": corpus.names, "unlabelled": corpus.unlabelled,
            "format": corpus.format,
        }  # fmt: skip
        named = {f"column.{number}": column for number, column in enumerate(corpus.columns)}
    else:
        named = {"attributes": Column(corpus.ids, corpus.values)}
        arrays["pointer"] = corpus.pointer
        if corpus.label is not None:
            named["label"] = corpus.label
        if corpus.weights is not None:
            arrays["weights"] = corpus.weights
        if corpus.sequence_weights is not None:
            arrays["sequence_weights"] = corpus.sequence_weights
    for name, column in named.items():
        arrays |= {name: column.ids, **string_arrays(name, column.values)}
    return header, arrays


def _stored(encoded: EncodedCorpus) -> Arrays:
    """The arrays of an encoding; an edge incidence that is the state's is not stored twice."""
    incidences = {"state": encoded.state}
    arrays: Arrays = {}
    if encoded.edge is encoded.state:
        arrays["edge.same"] = np.ones(1, dtype=np.bool_)
    elif encoded.edge is not None:
        incidences["edge"] = encoded.edge
    for name, each in incidences.items():
        arrays |= {f"{name}.pointer": each.pointer, f"{name}.ids": each.ids}
        if each.values is not None:
            arrays[f"{name}.values"] = each.values
    return arrays


@dataclass(frozen=True)
class EncodedFolder:
    """An encoded corpus that has been opened.

    Parameters
    ----------
    corpus : EncodedColumns or EncodedAttributes
        Its arrays lie in files and must not be changed.
    options : dict
        The options of a tagger that the encoding was made with: ``Tagger(l2=0.1, **folder.options).fit(folder.corpus)``
        finds it in the folder, and a tagger with others encodes the corpus again.
    label_column : int
    reading : dict
        How the sources were read.
    """

    corpus: EncodedColumns | EncodedAttributes
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
    manifest = _manifest(path)
    for source in _sources(manifest, path):
        if reason := source.reason_to_encode_again():
            raise DataError(f"{reason}: encode it again", str(path))
    try:
        stored, encoding = (read(path / name, name, paged=True) for name in (CORPUS, ENCODING))
        if encoding.text("corpus") != stored.checksum:
            encoding.fail("corpus", "it is the encoding of another corpus")
        if encoding.checksum != manifest.get("encoding"):
            encoding.fail(MANIFEST, "it is that of another encoding")
        corpus = _columns(stored) if "columns" in stored.header else _attributes(stored)
        corpus.encoding = made = _encoding(encoding, corpus)
        reading, label_column = dict(stored.section("reading").header), stored.integer("label_column", -(2**31))
    except ModelFileError as error:
        raise DataError(f"damaged: {error}; encode it again", str(path)) from None
    return EncodedFolder(corpus, made.options, label_column, reading)


def _options(encoder: Any, min_count: int) -> dict[str, Any]:
    """The options of a tagger that has such an encoder."""
    options: dict[str, Any] = {
        "min_count": min_count,
        "pair_features": encoder.pair_features,
        "hash_bits": encoder.to_header().get("bits"),
    }
    if hasattr(encoder, "templates"):
        return {**options, "template": encoder.templates, "gazetteers": list(encoder.gazetteers.values()) or None}
    return {**options, "edge": list(encoder.edge) or None}


def _manifest(folder: Path) -> dict[str, Any]:
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
    if manifest.pop("checksum", None) != _checksum(manifest):
        raise DataError(f"{MANIFEST} is damaged (its checksum is wrong): encode it again", str(folder))
    return manifest


def _sources(manifest: Mapping[str, Any], folder: Path) -> list[SourceFile]:
    """The sources that the manifest names."""
    sources = manifest.get("sources")
    kinds = {"path": str, "real_path": str, "size": int, "changed": int, "sha256": str}
    if not isinstance(sources, list):
        sources = [None]
    for each in sources:
        if not isinstance(each, dict) or {name: type(value) for name, value in each.items()} != kinds:
            raise DataError(f"{MANIFEST} is damaged (a source is incomplete): encode it again", str(folder))
    return [SourceFile(**each) for each in sources]


def _common(stored: Reader) -> tuple[str, Any, Any, Any]:
    """What corpora of both kinds have: name, offsets, lines, parts."""
    offsets = stored.array("offsets", [np.int64], (None,))
    if len(offsets) < 2 or offsets[0] != 0 or not _ascends(offsets, strictly=True):
        stored.fail("offsets", "not distinct numbers in ascending order from 0")
    parts = stored.value("parts")
    with stored.building("parts"):
        parts = None if parts is None else [(str(name), int(first)) for name, first in parts]
    return stored.text("name"), offsets, stored.array("lines", [np.int64], (int(offsets[-1]),)), parts


def _column(stored: Reader, name: str, n: int | None) -> Column:
    ids, values = stored.array(name, [np.int32], (n,)), stored.strings(name)
    if not _below(ids, len(values)):
        stored.fail(name, "a number names a value that does not exist")
    return Column(ids, values)


def _columns(stored: Reader) -> EncodedColumns:
    name, offsets, lines, parts = _common(stored)
    columns = [_column(stored, f"column.{c}", int(offsets[-1])) for c in range(stored.integer("columns", 1))]
    names = None if stored.value("names") is None else stored.names("names")
    unlabelled = None if stored.value("unlabelled") is None else stored.integer("unlabelled")
    return EncodedColumns(
        name, offsets, lines, columns, unlabelled=unlabelled, names=names, format=stored.text("format"), parts=parts
    )


def _attributes(stored: Reader) -> EncodedAttributes:
    name, offsets, lines, parts = _common(stored)
    n, attributes = int(offsets[-1]), _column(stored, "attributes", None)
    m = len(attributes)
    label = _column(stored, "label", n) if "label" in stored.arrays else None
    weights = _numbers(stored, "weights", m)
    sequence_weights = _numbers(stored, "sequence_weights", len(offsets) - 1)
    return EncodedAttributes(
        name, offsets, lines, label=label, pointer=_pointer(stored, "pointer", n, m), ids=attributes.ids,
        weights=weights, values=attributes.values, sequence_weights=sequence_weights, parts=parts,
    )  # fmt: skip


def _numbers(stored: Reader, name: str, n: int) -> Any:
    """Finite numbers [n], or None if there are none."""
    if name not in stored.arrays:
        return None
    numbers = stored.array(name, [np.float64], (n,))
    if not all(bool(np.isfinite(numbers[i : i + mapped.PIECE]).all()) for i in range(0, n, mapped.PIECE)):
        stored.fail(name, "not all numbers are finite")
    return numbers


def _pointer(stored: Reader, name: str, n: int, entries: int) -> Any:
    pointer = stored.array(name, [np.int64], (n + 1,))
    if pointer[0] != 0 or pointer[-1] != entries or not _ascends(pointer):
        stored.fail(name, f"the lists do not cover the {entries} entries")
    return pointer


def _encoding(stored: Reader, corpus: Columns | Attributes) -> Encoding:
    _, encoder = read_encoder(stored)

    def incidence(name: str) -> Incidence:
        ids = stored.array(f"{name}.ids", [np.int32], (None,))
        if not _below(ids, encoder.n_attributes):
            stored.fail(f"{name}.ids", "a number names an attribute that does not exist")
        pointer = _pointer(stored, f"{name}.pointer", corpus.n_tokens, len(ids))
        return Incidence(pointer, ids, _numbers(stored, f"{name}.values", len(ids)))

    state = incidence("state")
    edge = state if "edge.same" in stored.arrays else incidence("edge") if "edge.ids" in stored.arrays else None
    options = _options(encoder, stored.integer("min_count", 1))
    return Encoding(stored.text("made_by"), encoder, EncodedCorpus(corpus.offsets, state, edge), options)


def _ascends(numbers: Any, strictly: bool = False) -> bool:
    """Whether numbers never fall, or always rise; looks at some at a time."""
    pieces = (numbers[first : first + mapped.PIECE + 1] for first in range(0, len(numbers), mapped.PIECE))
    return all(bool((np.diff(piece) >= int(strictly)).all()) for piece in pieces)


def _below(numbers: Any, n: int) -> bool:
    """Whether all numbers are from 0 to n - 1; looks at some at a time."""
    pieces = (numbers[first : first + mapped.PIECE] for first in range(0, len(numbers), mapped.PIECE))
    return all(int(piece.min()) >= 0 and int(piece.max()) < n for piece in pieces)
