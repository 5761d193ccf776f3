"""Model files: one file, safe to load from anywhere, versioned and checksummed.

A model is a JSON document (options, labels, template ...) and named arrays (weights, vocabulary ...). The container is
safetensors, so other tools can read the arrays and nothing in the file can run code::

    8 bytes       length n of the table, little-endian
    n bytes       table, JSON with sorted keys: for each array its dtype, shape and place in the data, and under
                  "__metadata__" (all strings)
                      format, format_version     "loglinear", "1"
                      kind                       what the model is, as "tagger"
                      loglinear_version          who wrote it
                      header                     the JSON document
                      checksum                   64 hex digits
    the rest      data, the arrays one after the other without gaps

The checksum is the SHA-256 of the whole file with its own 64 digits taken as ``0``. It catches every accident. It does
not stop an adversary, who can compute it too, so :func:`load` also checks each number in the table before using it.
The same content gives the same bytes: no date, no random order.

Each kind of model defines what its header and arrays mean, in two functions: one makes them, the other reads them back
through a :class:`Reader`, which checks each part as it is read.

References
----------
safetensors, the format: https://github.com/huggingface/safetensors
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from loglinear import __version__, mapped
from loglinear.arrays import Array, Arrays, Float, Int32, Int64, UInt8
from loglinear.documents import parsed_json
from loglinear.errors import LoglinearError, ModelFileError, ModelKindError, OptionError
from loglinear.foreign import OPENING, tool_of
from loglinear.system import MEMORY, memory, size_of, writing

FORMAT = "loglinear"
FORMAT_VERSION = 1

_TABLE_LIMIT = 16_000_000  # bytes of JSON; long lists of strings belong in arrays
_CHECKSUM_KEY = b'"checksum":"'  # cannot occur inside a JSON string, where quotes are escaped
_ZEROS = b"0" * 64
_DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
_DTYPE_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_OTHER_TOOLS = "loglinear.estimators.tagger.foreign"  # imported when a file of theirs is opened
_NO_MODELS = (
    (b"PK\x03\x04", "a zip archive"),
    (b"\x1f\x8b", "a gzip file (unpack it first)"),
    (b"\x80\x02", "a Python pickle"),
    (b"\x80\x03", "a Python pickle"),
    (b"\x80\x04", "a Python pickle"),
    (b"\x80\x05", "a Python pickle"),
)


@dataclass(frozen=True)
class ModelFile:
    """The content of a model file.

    Attributes
    ----------
    kind : str
        What the model is, as ``"tagger"``.
    header : dict
        The JSON document.
    arrays : dict of str to ndarray
        Read-only views on the file (or the bytes).
    size : int
        Bytes of the file.
    name : str
        Its name in messages: its path, or "the model in memory".
    checksum : str
        That of the content; empty for files of other tools.
    """

    kind: str
    header: dict[str, Any]
    arrays: dict[str, Array]
    size: int
    name: str
    checksum: str = ""


# -- writing ------------------------------------------------------------------------------------------------------


def save(path: str | os.PathLike[str], kind: str, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> str:
    """Write a model atomically: ``path`` holds either the old content or all of the new, whatever happens.

    The arguments are those of :func:`dumps`. An older model stays valid for processes that have it mapped. Returns the
    checksum.
    """
    table, data, checksum = _table_and_data(kind, header, arrays)
    if os.path.isdir(path):
        raise ModelFileError(f"cannot save {path}: it is a folder; give the name of a file")
    try:
        folder = os.path.dirname(os.path.realpath(path))  # of what a link points to
        missing = not os.path.isdir(folder)
    except ValueError:  # a NUL in the name
        missing = False
    if missing:
        raise ModelFileError(f"cannot save {path}: the folder {folder} does not exist; create it first")
    try:
        with writing(path) as stream:
            stream.writelines((table, *data))
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise ModelFileError(f"cannot save {path}: {reason}; choose a place with room that you may write to") from error
    return checksum


def dumps(kind: str, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> bytes:
    """Model file as bytes.

    Parameters
    ----------
    kind : str
        What the model is, as ``"tagger"``.
    header : mapping
        Anything JSON: string keys; no NaN or infinity; at most some megabytes (use :func:`pack_strings` for more).
    arrays : mapping of str to ndarray
        float64, float32, float16, int64, int32, uint8 or bool, of any shape.
    """
    table, data, _ = _table_and_data(kind, header, arrays)
    return b"".join((table, *data))


def _table_and_data(
    kind: str, header: Mapping[str, Any], arrays: Mapping[str, Array]
) -> tuple[bytes, list[memoryview], str]:
    """The two parts of the file: length and table, signed; the data, views on the arrays; and the checksum."""
    metadata = {
        "format": FORMAT,
        "format_version": str(FORMAT_VERSION),
        "kind": kind,
        "loglinear_version": __version__,
        "header": _json(_with_string_keys(header)),
        "checksum": _ZEROS.decode(),
    }
    stored = {name: _storable(name, array) for name, array in arrays.items()}
    table: dict[str, Any] = {"__metadata__": metadata}
    data, end = [], 0
    for name in sorted(stored, key=lambda name: (-stored[name].itemsize, name)):  # so that each one is aligned
        array = stored[name]
        place = [end, end + array.nbytes]
        table[name] = {"dtype": _DTYPE_NAMES[array.dtype], "shape": list(array.shape), "data_offsets": place}
        end = place[1]
        if array.nbytes:
            data.append(array.reshape(-1).view(np.uint8).data)
    text = _json(table).encode("ascii")
    text += b" " * (-len(text) % 8)  # keeps the data aligned
    if len(text) > _TABLE_LIMIT:
        raise ValueError(f"a header of {len(text)} bytes is too long: put long lists into arrays (pack_strings)")
    head = len(text).to_bytes(8, "little") + text
    place_of_sum = head.index(_CHECKSUM_KEY) + len(_CHECKSUM_KEY)
    checksum = _checksum(head, data, place_of_sum)
    return head[:place_of_sum] + checksum.encode("ascii") + head[place_of_sum + len(checksum) :], data, checksum


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":"))


def _with_string_keys(value: Any) -> Any:
    """``value`` itself; refuses keys that JSON would silently turn into strings."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"key {key!r} in a model's header: keys must be strings")
            _with_string_keys(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _with_string_keys(item)
    return value


def _storable(name: str, array: Array) -> Array:
    """The array as it is stored: contiguous, little-endian."""
    array = np.asarray(array)
    stored = array.dtype.newbyteorder("<")
    if name == "__metadata__" or stored not in _DTYPES.values():
        raise TypeError(f"array {name!r} of type {array.dtype} cannot be stored in a model file")
    return np.asarray(array, dtype=stored, order="C")


# -- reading ------------------------------------------------------------------------------------------------------


def load(
    source: str | os.PathLike[str] | bytes | bytearray | memoryview, kind: str | None = None, *, paged: bool = False
) -> ModelFile:
    """Read a model file and check all of it; one of CRFsuite, CRF++ or Wapiti comes as that of a tagger.

    Parameters
    ----------
    source : path or bytes-like
        A path is memory-mapped: processes that load the same file share its pages. Bytes are viewed; a buffer that
        could still change is copied.
    kind : str, optional
        The kind the caller can use; another one is a :class:`ModelKindError`.
    paged : bool
        Whether the file may be larger than memory (:func:`loglinear.mapped.opened`). Its arrays count as writable, for
        kernels; nobody may write to them.

    Raises
    ------
    ModelFileError
        The file is missing, not a model, damaged, of another kind or newer; the message says which and what to do.
    """
    if isinstance(source, (str, os.PathLike)):
        name, view = os.fspath(source), _mapped(Path(source), paged)
    elif isinstance(source, (bytes, bytearray, memoryview)):
        name = "the model in memory"
        kept = isinstance(source, bytes) or (isinstance(source, memoryview) and isinstance(source.obj, bytes))
        view = memoryview(source) if kept else memoryview(bytes(source))
        view = view.cast("B") if view.contiguous else memoryview(bytes(view))
    else:
        raise TypeError(f"a model is loaded from a path or from bytes, not from {type(source).__name__}")
    if tool_of(bytes(view[:OPENING])):
        content: ModelFile = import_module(_OTHER_TOOLS).stored(view, name)
    else:
        table, start = _table(name, view)
        metadata = _metadata(name, table)
        _check_sum(name, view, start, metadata["checksum"])
        header = _parsed(name, metadata["header"])
        if not isinstance(header, dict):
            _damaged(name, "its header is not a JSON object")
        arrays = _arrays(name, table, view, start, paged)
        content = ModelFile(metadata["kind"], header, arrays, len(view), name, metadata["checksum"])
    if kind is not None and content.kind != kind:
        raise ModelKindError(name, content.kind[:40], kind)
    return content


def is_model(source: str | os.PathLike[str]) -> bool:
    """Whether a path is a file that begins as model files do; damaged ones do, too. No text does."""
    try:
        if not stat.S_ISREG(os.stat(source).st_mode):
            return False
        with open(source, "rb") as stream:
            opening = stream.read(OPENING)
    except (OSError, ValueError):
        return False
    if tool_of(opening) is not None:
        return True
    return len(opening) > 8 and opening[8:9] == b"{" and int.from_bytes(opening[:8], "little") <= _TABLE_LIMIT


def _damaged(name: str, detail: str) -> NoReturn:
    raise ModelFileError(f"{name} is damaged ({detail}): copy it again from where it was made, or train again")


def _mapped(path: Path, paged: bool) -> memoryview:
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise ModelFileError(f"{path} is a folder: give the name of a model file")
        if not stat.S_ISREG(status.st_mode):
            raise ModelFileError(f"{path} is not a regular file: a model is loaded from a file")
        with open(path, "rb") as stream:
            if os.fstat(stream.fileno()).st_size == 0:
                return memoryview(b"")  # an empty file cannot be mapped
            if paged:
                return memoryview(mapped.opened(stream.fileno()))
            return memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
    except ModelFileError:
        raise
    except FileNotFoundError:
        raise ModelFileError(f"{path} does not exist: check the name, or train a model first") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name, or the file was emptied meanwhile
        reason = getattr(error, "strerror", None) or str(error)
        raise ModelFileError(f"cannot read {path}: {reason}; check the name and the permissions") from error


def _table(name: str, view: memoryview) -> tuple[dict[str, Any], int]:
    """The table and where the data start."""
    if len(view) == 0:
        raise ModelFileError(f"{name} is empty, not a loglinear model: copy it again, or train again")
    opening = bytes(view[:9])
    length = int.from_bytes(opening[:8], "little")
    if len(opening) < 9 or opening[8:] != b"{" or length > _TABLE_LIMIT:
        is_text = all(byte in b"\t\r\n" or 32 <= byte < 127 for byte in opening)
        what = "a text file" if is_text else "something else, or damaged"
        what = next((known for magic, known in _NO_MODELS if opening.startswith(magic)), what)
        raise ModelFileError(f"{name} is not a loglinear model ({what}): give a file that loglinear saved")
    if length > len(view) - 8:
        _damaged(name, "it is cut short")
    table = _parsed(name, bytes(view[8 : 8 + length]))
    if not isinstance(table, dict):
        _damaged(name, "its table is not a JSON object")
    return table, 8 + length


def _parsed(name: str, text: str | bytes) -> Any:
    """Value of a JSON document; repeated keys, NaN and too deep nesting are errors."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) < len(pairs):
            raise ValueError("a key is there twice")
        return result

    def constant(word: str) -> NoReturn:
        raise ValueError(f"{word} is not JSON")

    try:
        decoded = text if isinstance(text, str) else text.decode("utf-8")
        return parsed_json(decoded, object_pairs_hook=unique, parse_constant=constant)
    except ValueError:
        _damaged(name, "its header is not valid JSON")


def _metadata(name: str, table: dict[str, Any]) -> dict[str, str]:
    """The file's metadata; refuses a format that this version cannot read."""
    metadata = table.get("__metadata__")
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise ModelFileError(
            f"{name} is a safetensors file, but not a loglinear model, or damaged: give a file that loglinear saved"
        )
    if not all(isinstance(value, str) for value in metadata.values()):
        _damaged(name, "its metadata are not strings")
    version = metadata.get("format_version", "")
    if not re.fullmatch("[1-9][0-9]{0,5}", version, re.ASCII):
        _damaged(name, "it has no format version")
    if int(version) > FORMAT_VERSION:
        writer = metadata.get("loglinear_version", "")
        writer = writer if re.fullmatch(r"[0-9A-Za-z.+-]{1,40}", writer, re.ASCII) else "(of unknown version)"
        raise ModelFileError(
            f"{name} was written by loglinear {writer} in model format {version}, but this is loglinear {__version__}, "
            f"which reads formats up to {FORMAT_VERSION}: upgrade with 'pip install --upgrade loglinear'"
        )
    if not {"kind", "header", "checksum"} <= metadata.keys():
        _damaged(name, "its metadata are incomplete")
    return metadata


def _checksum(table: bytes | memoryview, data: Sequence[memoryview], place: int) -> str:
    """SHA-256 of table and data with the 64 bytes at ``place`` in the table taken as ``0``."""
    sha256 = hashlib.sha256(table[:place])
    sha256.update(_ZEROS)
    sha256.update(table[place + len(_ZEROS) :])
    for part in data:
        sha256.update(part)
    return sha256.hexdigest()


def _check_sum(name: str, view: memoryview, start: int, digits: str) -> None:
    table = bytes(view[:start])
    signature = _CHECKSUM_KEY + digits.encode("utf-8", "replace") + b'"'
    if re.fullmatch("[0-9a-f]{64}", digits, re.ASCII) is None or table.count(signature) != 1:
        _damaged(name, "it has no checksum")
    if _checksum(table, [view[start:]], table.index(signature) + len(_CHECKSUM_KEY)) != digits:
        _damaged(name, "its checksum does not fit its content: bytes were lost, added or changed")


def _arrays(name: str, table: dict[str, Any], view: memoryview, start: int, writable: bool) -> dict[str, Array]:
    """The arrays as views on the data, which they must cover exactly once."""
    places = sorted((*_place(name, entry), key) for key, entry in table.items() if key != "__metadata__")
    arrays, end = {}, 0
    for first, last, key in places:
        if first != end or last > len(view) - start:
            _damaged(name, "its arrays overlap, leave gaps or reach beyond its end")
        arrays[key] = _array(name, table[key], view, start + first, writable)
        end = last
    if end != len(view) - start:
        _damaged(name, "there is more in it than its arrays")
    return arrays


def _place(name: str, entry: Any) -> tuple[int, int]:
    """Where an array begins and ends in the data; its length must agree with dtype and shape."""
    if isinstance(entry, dict) and entry.keys() == {"dtype", "shape", "data_offsets"}:
        dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
        fits = isinstance(dtype, str) and dtype in _DTYPES and isinstance(shape, list) and isinstance(offsets, list)
        # type(), since True is an int too
        if fits and len(offsets) == 2 and all(type(number) is int and number >= 0 for number in shape + offsets):
            first, last = offsets
            if last - first == math.prod(shape) * _DTYPES[dtype].itemsize:
                return first, last
    _damaged(name, "type, shape and place of an array do not fit together")


def _array(name: str, entry: dict[str, Any], view: memoryview, offset: int, writable: bool) -> Array:
    dtype, shape = _DTYPES[entry["dtype"]], tuple(entry["shape"])
    array: Array
    try:
        # NumPy refuses an empty array at the very end of the buffer
        array = np.ndarray(shape, dtype, view, offset) if math.prod(shape) else np.empty(shape, dtype)
    except (ValueError, OverflowError, MemoryError):  # more dimensions or a longer one than NumPy can have
        _damaged(name, "an array has an impossible shape")
    if dtype == np.bool_ and array.size and int(array.view(np.uint8).max()) > 1:
        _damaged(name, "a truth value is neither 0 nor 1")
    if not array.flags.aligned:
        array = array.copy()
    array.flags.writeable = writable
    return array


# -- strings, labels and weights, as headers and arrays hold them -----------------------------------------------------


def pack_strings(strings: Sequence[str]) -> tuple[UInt8, Int64]:
    """Strings as two arrays: their UTF-8 one after the other, and where each begins (and the last one ends).

    Returns
    -------
    blob : uint8[B]
        All characters are possible, also NUL, line ends and lone surrogates.
    offsets : int64[n + 1]
    """
    encoded = [string.encode("utf-8", "surrogatepass") for string in strings]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded)), out=offsets[1:])
    return np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets


def unpack_strings(blob: UInt8, offsets: Int64) -> list[str]:
    """Inverse of :func:`pack_strings`; arrays that do not fit together are a :class:`ModelFileError`."""
    fits = blob.dtype == np.uint8 and blob.ndim == 1 and offsets.dtype == np.int64 and offsets.ndim == 1
    fits = fits and offsets.size > 0 and offsets[0] == 0 and offsets[-1] == blob.size
    if not fits or bool(np.any(offsets[1:] < offsets[:-1])):
        raise ModelFileError("the bytes of the strings and the places where each begins do not fit together")
    encoded, places = blob.tobytes(), pairwise(offsets.tolist())
    if encoded.isascii():  # bytes and characters count the same: one decoding for all
        text = encoded.decode("ascii")
        return [text[first:last] for first, last in places]
    try:
        return [str(encoded[first:last], "utf-8", "surrogatepass") for first, last in places]
    except UnicodeDecodeError:
        raise ModelFileError("a string is not UTF-8") from None


def string_arrays(part: str, strings: Sequence[str]) -> Arrays:
    """The arrays ``part.bytes`` and ``part.offsets`` of strings; :meth:`Reader.strings` reads them back."""
    blob, offsets = pack_strings(strings)
    return {f"{part}.bytes": blob, f"{part}.offsets": offsets}


def column_arrays(estimator: Any) -> Arrays:
    """The arrays of the names of an estimator's columns; none if they have no names."""
    names = getattr(estimator, "feature_names_in_", None)
    return {} if names is None else string_arrays("columns", [str(name) for name in names])


_LABEL_TYPES: dict[str, type | tuple[type, ...]] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "object": (str, bool, int, float),
}
_LABEL_DTYPES = {"str": np.str_, "int": np.int64, "float": np.float64, "bool": np.bool_, "object": np.object_}
_TYPE_OF_DTYPE = {"U": "str", "O": "object", "b": "bool", "i": "int", "u": "int", "f": "float"}


def label_header(labels: Array, key: str = "type") -> dict[str, Any]:
    """Labels [Y] as JSON: their type, under ``key``, and values; :meth:`Reader.labels` reads them back."""
    values = labels.tolist()
    if labels.dtype.kind not in _TYPE_OF_DTYPE or not all(isinstance(value, str | int | float) for value in values):
        raise OptionError(f"a model file cannot hold the label {values[0]!r:.60}; use strings or numbers as labels")
    return {key: _TYPE_OF_DTYPE[labels.dtype.kind], "values": values}


def plain(value: Any) -> Any:
    """The value for JSON: a NumPy number becomes a Python one."""
    return value.item() if isinstance(value, np.generic) else value


# Weights in less precision: float64, float32 or float16 numbers, times a power of two.
#
#     w = 2^k s          s of the given precision; k = 0 unless the greatest weight is out of its range
#
# float16 has 11 bits, so that a weight changes by at most 1 part in 2048 (a small one by at most 3e-8), and a range up
# to 65504.


MOST_EXPONENT = 1023


def stored(weights: Float, precision: npt.DTypeLike) -> tuple[Array, int]:
    """The numbers s and the exponent k of finite ``weights``."""
    greatest = float(np.abs(weights).max(initial=0.0))
    limit = float(np.finfo(precision).max)
    exponent = max(0, int(np.frexp(greatest)[1]) - int(np.frexp(limit)[1]) + 1) if greatest > limit / 2.0 else 0
    return np.ldexp(weights, -exponent).astype(precision), exponent


def restored(numbers: Array, exponent: int) -> Float:
    """The weights that were :func:`stored`."""
    return np.asarray(np.ldexp(numbers.astype(np.float64), exponent))


# -- a model file, part by part ---------------------------------------------------------------------------------------

Shape = tuple[int | None, ...]  #: of an array, None where any length will do
_MISSING: Any = object()
GREATEST = 1e100  #: largest number accepted from a file: its square is still finite
LONGEST = 1e9  #: greatest mean length of the rows of a generative model
_ROOM, _ROOM_RATIO = 500_000_000, 1000  # what a model may need to be used: bytes, and times the bytes of its file


def read(
    source: str | os.PathLike[str] | bytes | bytearray | memoryview, kind: str | None = None, *, paged: bool = False
) -> Reader:
    """Open a model file to be read part by part; arguments and errors as for :func:`load`."""
    return Reader.of(load(source, kind, paged=paged))


@dataclass(frozen=True)
class Reader:
    """A model file, or a section of one, each part of which is checked when it is read.

    A file with a correct checksum may still come from a stranger: no code in it is run, and every number is checked
    before use. A part that is missing, or is not what was asked for, is a :class:`ModelFileError` that names the file
    and the part. Arrays are writable copies of a fixed type: Numba would compile every kernel again for others.

    Parameters
    ----------
    file : str
        The file's name in messages.
    kind : str
        What the model is, as ``"tagger"``.
    header : dict
        The JSON document, or the object in it that is this section.
    arrays : mapping of str to ndarray
        Those of the section, without its prefix.
    place : str
        The section, as in ``"base."``; empty for the whole file.
    size : int
        Bytes of the file.
    checksum : str
        That of the file's content.
    """

    file: str
    kind: str
    header: Mapping[str, Any]
    arrays: Mapping[str, Array]
    place: str = ""
    size: int = 0
    checksum: str = ""

    @classmethod
    def of(cls, stored: ModelFile) -> Reader:
        """The reader of a whole file."""
        return cls(
            stored.name, stored.kind, stored.header, stored.arrays, size=stored.size, checksum=stored.checksum
        )  # fmt: skip

    # -- errors ----------------------------------------------------------------------------------------------------

    def fail(self, part: str, detail: str) -> NoReturn:
        """Raise the error about a part of the file."""
        self._fail(f"{self.place}{part}: {detail}")

    def _fail(self, detail: str) -> NoReturn:
        problem = f"the content of the model file does not fit together ({detail})"
        raise ModelFileError(f"{self.file}: {problem}; copy it again, or train again") from None

    @contextmanager
    def building(self, part: str) -> Iterator[None]:
        """Context for building an object from values of the file: whatever the code rejects is an error in ``part``."""
        try:
            yield
        except ModelFileError:
            raise
        except KeyError as error:
            self.fail(part, f"{error.args[0]!r:.80} is missing" if error.args else "an entry is missing")
        except (
            LoglinearError,
            ArithmeticError,
            AttributeError,
            IndexError,
            MemoryError,
            TypeError,
            ValueError,
        ) as error:
            self.fail(part, str(error) or type(error).__name__)

    def room(self, part: str, n_bytes: float) -> None:
        """Refuse a part of which the use would take ``n_bytes``, if that is out of proportion to the file.

        A file of some kilobytes can name sizes whose product fills any machine. What a model needs may be 1000 times
        its file, and 500 MB in any case; ``LOGLINEAR_MEMORY`` allows more, or less.
        """
        allowed = memory() if os.environ.get(MEMORY) else max(_ROOM, _ROOM_RATIO * self.size)
        if n_bytes > allowed:
            self._fail(
                f"{self.place}{part}: using it would take about {size_of(n_bytes)} of memory, for a file of "
                f"{size_of(self.size)}; if you trust the file, set {MEMORY}, as in {MEMORY}={n_bytes / 1e9:.0f}G"
            )

    # -- the header --------------------------------------------------------------------------------------------------

    def value(self, key: str, default: Any = _MISSING) -> Any:
        """The JSON value under ``key``, unchecked; without a ``default`` it must exist."""
        if key in self.header:
            return self.header[key]
        if default is _MISSING:
            self._fail(f"{self.place + key!r} is missing")
        return default

    def section(self, key: str, prefix: str | None = None) -> Reader:
        """The JSON object under ``key``, with the arrays whose names begin with ``prefix`` (``"key."`` by default)."""
        found = self.value(key)
        if not isinstance(found, dict):
            self.fail(key, f"{found!r:.40} is not a JSON object")
        start = f"{key}." if prefix is None else prefix
        arrays = {name.removeprefix(start): each for name, each in self.arrays.items() if name.startswith(start)}
        return Reader(self.file, self.kind, found, arrays, f"{self.place}{key}.", self.size)

    def has(self, key: str) -> bool:
        """Whether something other than None is stored under ``key``."""
        return self.header.get(key) is not None

    def flag(self, key: str, default: Any = _MISSING) -> bool:
        """True or False."""
        found = self.value(key, default)
        if not isinstance(found, bool):
            self.fail(key, f"{found!r:.40} is neither true nor false")
        return found

    def integer(self, key: str, least: int = 0, most: int = 2**53, default: Any = _MISSING) -> int:
        """A whole number from ``least`` to ``most``."""
        found = self.value(key, default)
        if type(found) is not int or not least <= found <= most:  # type(), since True is an int too
            self.fail(key, f"{found!r:.40} is not a whole number from {least} to {most}")
        return found

    def number(self, key: str, least: float = -math.inf, above: float = -math.inf) -> float:
        """A number up to :data:`GREATEST` that is at least ``least`` and greater than ``above``."""
        found = self.value(key)
        if isinstance(found, bool) or not isinstance(found, int | float):
            self.fail(key, f"{found!r:.40} is not a number")
        if not (least <= found and above < found and abs(found) <= GREATEST):
            bound = f" of at least {least:g}" if least > above else f" greater than {above:g}" if above > least else ""
            self.fail(key, f"{found!r:.40} is not a finite number{bound}")
        return float(found)

    def length(self, key: str) -> float:
        """A mean length of rows: at most :data:`LONGEST`, so that lengths can be drawn."""
        if (found := self.number(key, least=0.0)) > LONGEST:
            self.fail(key, f"{found:g} is more than {LONGEST:g}")
        return found

    def text(self, key: str) -> str:
        """A string."""
        found = self.value(key)
        if not isinstance(found, str):
            self.fail(key, f"{found!r:.40} is not a string")
        return found

    def choice(self, key: str, choices: Collection[Any], default: Any = _MISSING) -> Any:
        """One of ``choices``."""
        found = self.value(key, default)
        if not any(found == each and type(found) is type(each) for each in choices):
            self.fail(key, f"{found!r:.40} is not one of {', '.join(map(str, choices))}")
        return found

    def names(self, key: str, least: int = 1) -> list[str]:
        """A list of ``least`` or more distinct strings."""
        found = self.value(key)
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            self.fail(key, "not a list of strings")
        if len(found) < least:
            self.fail(key, f"fewer strings than {least}")
        if len(set(found)) != len(found):
            self.fail(key, "a string is there twice")
        return found

    def labels(self, least: int = 1, key: str = "labels") -> Array:
        """Labels [Y] as :func:`label_header` wrote them: distinct, ascending, and as many as ``least``."""
        own = self.section(key)
        type_ = own.choice("kind" if "kind" in own.header else "type", list(_LABEL_TYPES))
        values = own.value("values")
        wanted = _LABEL_TYPES[type_]
        whole = isinstance(values, list) and len(values) >= least
        if not whole or not all(isinstance(v, wanted) and (type_ != "int" or type(v) is int) for v in values):
            own.fail("values", f"not a list of {least} or more labels of the type {type_}")
        with own.building("values"):
            labels: Array = np.array(values, dtype=_LABEL_DTYPES[type_])
            if labels.tolist() != values or not np.array_equal(np.unique(labels), labels):
                own.fail("values", "the labels are not distinct and sorted")
        return labels

    def options(self) -> dict[str, Any]:
        """The options of the estimator, by name; the estimator checks their values."""
        return dict(self.section("options").header)

    # -- the arrays --------------------------------------------------------------------------------------------------

    def array(self, name: str, types: Sequence[npt.DTypeLike], shape: Shape) -> Array:
        """The array of that name as it is in the file, of one of ``types`` and of a ``shape``."""
        if name not in self.arrays:
            self._fail(f"the array {self.place + name!r} is missing")
        found = self.arrays[name]
        if found.dtype not in [np.dtype(each) for each in types]:
            self.fail(name, f"an array of {found.dtype}, not of {' or '.join(np.dtype(each).name for each in types)}")
        if found.ndim != len(shape) or any(want not in (None, n) for n, want in zip(found.shape, shape, strict=True)):
            wanted = ", ".join("any" if n is None else str(n) for n in shape)
            self.fail(name, f"an array of shape {list(found.shape)}, not [{wanted}]")
        return found

    def floats(self, name: str, shape: Shape, low: float | None = None, high: float | None = None) -> Float:
        """Numbers as float64: up to :data:`GREATEST`, or from ``low`` to ``high``, each of which may be infinite."""
        found = self.array(name, (np.float64, np.float32, np.float16), shape).astype(np.float64)
        if low is None and high is None:
            if not np.isfinite(found).all():
                self.fail(name, "not all numbers are finite")
            if not (np.abs(found) <= GREATEST).all():
                self.fail(name, f"not all numbers lie between -{GREATEST:g} and {GREATEST:g}")
            return found
        least, most = -math.inf if low is None else low, math.inf if high is None else high
        if not ((found >= least) & (found <= most)).all():  # false for NaN too
            self.fail(name, f"not all numbers lie between {least:g} and {most:g}")
        return found

    def log_shares(self, name: str, n: int) -> Float:
        """Log-probabilities [n] that add up to one; zero probability may be among them."""
        found = self.floats(name, (n,), high=1e-9)
        if not abs(float(np.exp(found).sum()) - 1.0) < 1e-6:
            self.fail(name, "the probabilities do not add up to one")
        return found

    def log_rows(self, name: str, shape: Shape) -> Float:
        """Finite log-probabilities [n, D]; those of a row add up to one."""
        found = self.floats(name, shape, low=-GREATEST, high=1e-9)
        if not np.allclose(np.exp(found).sum(axis=1), 1.0, atol=1e-6):
            self.fail(name, "the probabilities do not add up to one")
        return found

    def ints(self, name: str, shape: Shape, below: int | None = None) -> Int32:
        """Whole numbers from 0, all less than ``below``, as int32; the file may hold them as bytes."""
        found = self.array(name, (np.uint8, np.int32), shape).astype(np.int32)
        if found.size and (found.min() < 0 or (below is not None and found.max() >= below)):
            self.fail(name, f"not all numbers are from 0 to {'2^31' if below is None else below} - 1")
        return found

    def ascending(self, name: str, below: int | None = None) -> Int64:
        """Distinct numbers from 0 in ascending order, all less than ``below``, as int64."""
        found = self.array(name, (np.int64,), (None,)).copy()
        if len(found) and (found[0] < 0 or (np.diff(found) <= 0).any()):
            self.fail(name, "not distinct numbers in ascending order")
        if len(found) and below is not None and found[-1] >= below:
            self.fail(name, f"not all numbers are from 0 to {below} - 1")
        return found

    def lists(self, first: str, entries: str, rows: int, below: int) -> tuple[Int64, Int32]:
        """As many lists as ``rows`` of numbers less than ``below``: list i is ``entries[pointer[i] : pointer[i + 1]]``.

        Parameters
        ----------
        first : str
            The array of the lengths [rows] of the lists, or of the pointer itself [rows + 1].
        entries : str
            The array of all numbers [n].

        Returns
        -------
        pointer : int64 [rows + 1]
        entries : int32 [n]
        """
        found = self.ints(entries, (None,), below)
        given = self.array(first, (np.uint8, np.int32, np.int64), (None,))
        pointer = np.array(given, dtype=np.int64)
        if len(given) == rows:
            if (pointer < 0).any() or (pointer > len(found)).any():
                self.fail(first, f"not all lengths are from 0 to {len(found)}")
            pointer = np.concatenate([[0], np.cumsum(pointer)]).astype(np.int64)
        if len(pointer) != rows + 1:
            self.fail(first, f"{len(given)} numbers for {rows} lists")
        if pointer[0] != 0 or pointer[-1] != len(found) or (np.diff(pointer) < 0).any():
            self.fail(first, f"the lists do not cover the {len(found)} entries of {self.place}{entries}")
        return pointer, found

    def strings(self, part: str, distinct: bool = False) -> list[str]:
        """The strings of :func:`string_arrays`."""
        blob = self.array(f"{part}.bytes", (np.uint8,), (None,))
        offsets = self.array(f"{part}.offsets", (np.int64,), (None,))
        try:
            found = unpack_strings(blob, offsets)
        except ModelFileError as error:
            self.fail(part, str(error))
        if distinct and len(set(found)) != len(found):
            self.fail(part, "a string is there twice")
        return found

    def columns(self, n_columns: int, part: str = "columns") -> list[str] | None:
        """The names of ``n_columns`` columns, None if they have none (:func:`column_arrays`)."""
        names = self.strings(part) if f"{part}.bytes" in self.arrays else []
        if names and len(names) != n_columns:
            self.fail(part, f"{len(names)} names for {n_columns} columns")
        return names or None
