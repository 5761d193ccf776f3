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
import secrets
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from loglinear import __version__
from loglinear.arrays import Array, Arrays, Float, Int64, UInt8
from loglinear.errors import ModelFileError, OptionError

FORMAT = "loglinear"
FORMAT_VERSION = 1

_TABLE_LIMIT = 16_000_000  # bytes of JSON that are parsed at all; long lists of strings belong into arrays
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
_FOREIGN = (
    (b"PK\x03\x04", "a zip archive"),
    (b"\x1f\x8b", "a gzip file (unpack it first)"),
    (b"lCRF", "a CRFsuite model"),
    (b"\x80\x02", "a Python pickle"),
    (b"\x80\x03", "a Python pickle"),
    (b"\x80\x04", "a Python pickle"),
    (b"\x80\x05", "a Python pickle"),
)


@dataclass(frozen=True)
class ModelFile:
    """What was read.

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
    """

    kind: str
    header: dict[str, Any]
    arrays: dict[str, Array]
    size: int


# -- writing ------------------------------------------------------------------------------------------------------


def save(path: str | os.PathLike[str], kind: str, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write a model so that ``path`` holds either the old content or all of the new, whatever happens meanwhile.

    The arguments are those of :func:`dumps`. A mapped older model stays valid for those who have it open.
    """
    table, data = _table_and_data(kind, header, arrays)
    try:
        target = Path(os.path.realpath(path))  # a link stays a link: what it points to is replaced
        if os.path.isdir(target):
            raise ModelFileError(f"cannot save {path}: it is a folder; give the name of a file")
        if not os.path.isdir(target.parent):
            raise ModelFileError(f"cannot save {path}: the folder {target.parent} does not exist; create it first")
        if os.path.exists(target) and not os.path.isfile(target):  # a device or a pipe: written to, not replaced
            with open(target, "wb") as stream:
                stream.writelines((table, *data))
        else:
            _replace(target, table, data)
    except ModelFileError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise ModelFileError(f"cannot save {path}: {reason}; choose a place with room that you may write to") from error


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
    table, data = _table_and_data(kind, header, arrays)
    return b"".join((table, *data))


def _table_and_data(
    kind: str, header: Mapping[str, Any], arrays: Mapping[str, Array]
) -> tuple[bytes, list[memoryview]]:
    """The two parts of the file: length and table, signed; and the data, views on the arrays where they are."""
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
    digits = _checksum(head, data, place_of_sum).encode("ascii")
    return head[:place_of_sum] + digits + head[place_of_sum + len(digits) :], data


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":"))


def _with_string_keys(value: Any) -> Any:
    """``value`` itself, refused if JSON would silently turn a key into a string."""
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
    """The array in the one layout the library writes correctly: contiguous, little-endian."""
    array = np.asarray(array)
    stored = array.dtype.newbyteorder("<")
    if name == "__metadata__" or stored not in _DTYPES.values():
        raise TypeError(f"array {name!r} of type {array.dtype} cannot be stored in a model file")
    return np.asarray(array, dtype=stored, order="C")


def _replace(target: Path, table: bytes, data: list[memoryview]) -> None:
    temporary = target.with_name(f".loglinear-{secrets.token_hex(8)}.tmp")
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    # not mkstemp: this way a new file gets the permissions that the user's umask says
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.writelines((table, *data))
            stream.flush()
            os.fsync(stream.fileno())
        if mode is not None:
            os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if os.name == "posix":  # the new name itself must survive a power cut, too
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


# -- reading ------------------------------------------------------------------------------------------------------


def load(source: str | os.PathLike[str] | bytes | bytearray | memoryview, kind: str | None = None) -> ModelFile:
    """Read a model file and check all of it.

    Parameters
    ----------
    source : path or bytes-like
        A path is memory-mapped: processes that load the same file share its pages. Bytes are viewed; a buffer that
        could still change is copied.
    kind : str, optional
        The kind the caller can use; another one is an error.

    Raises
    ------
    ModelFileError
        The file is missing, not a model, damaged, of another kind or newer; the message says which and what to do.
    """
    if isinstance(source, (str, os.PathLike)):
        name, view = os.fspath(source), _mapped(Path(source))
    elif isinstance(source, (bytes, bytearray, memoryview)):
        name = "the model in memory"
        kept = isinstance(source, bytes) or (isinstance(source, memoryview) and isinstance(source.obj, bytes))
        view = memoryview(source) if kept else memoryview(bytes(source))
        view = view.cast("B") if view.contiguous else memoryview(bytes(view))
    else:
        raise TypeError(f"a model is loaded from a path or from bytes, not from {type(source).__name__}")
    table, start = _table(name, view)
    metadata = _metadata(name, table)
    _check_sum(name, view, start, metadata["checksum"])
    found, header = metadata["kind"], _parsed(name, metadata["header"])
    if not isinstance(header, dict):
        _damaged(name, "its header is not a JSON object")
    if kind is not None and found != kind:
        raise ModelFileError(f"{name} holds a model of kind {found[:40]!r}, but one of kind {kind!r} is needed here")
    return ModelFile(found, header, _arrays(name, table, view, start), len(view))


def _damaged(name: str, detail: str) -> NoReturn:
    raise ModelFileError(f"{name} is damaged ({detail}): copy it again from where it was made, or train anew")


def _mapped(path: Path) -> memoryview:
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise ModelFileError(f"{path} is a folder: give the name of a model file")
        if not stat.S_ISREG(status.st_mode):
            raise ModelFileError(f"{path} is not a regular file: a model is loaded from a file")
        with open(path, "rb") as stream:
            if os.fstat(stream.fileno()).st_size == 0:
                return memoryview(b"")  # nothing cannot be mapped
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
        raise ModelFileError(f"{name} is empty, not a loglinear model: copy it again, or train anew")
    opening = bytes(view[:9])
    length = int.from_bytes(opening[:8], "little")
    if len(opening) < 9 or opening[8:] != b"{" or length > _TABLE_LIMIT:
        is_text = all(byte in b"\t\r\n" or 32 <= byte < 127 for byte in opening)
        what = "a text file" if is_text else "something else, or damaged"
        what = next((known for magic, known in _FOREIGN if opening.startswith(magic)), what)
        raise ModelFileError(f"{name} is not a loglinear model ({what}): give a file that loglinear saved")
    if length > len(view) - 8:
        _damaged(name, "it is cut short")
    table = _parsed(name, bytes(view[8 : 8 + length]))
    if not isinstance(table, dict):
        _damaged(name, "its table is not a JSON object")
    return table, 8 + length


def _parsed(name: str, text: str | bytes) -> Any:
    """Value of a JSON document; repeated keys, NaN and bottomless nesting are errors."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) < len(pairs):
            raise ValueError("a key is there twice")
        return result

    def constant(word: str) -> NoReturn:
        raise ValueError(f"{word} is not JSON")

    try:
        decoded = text if isinstance(text, str) else text.decode("utf-8")
        return json.loads(decoded, object_pairs_hook=unique, parse_constant=constant)
    except (ValueError, RecursionError):
        _damaged(name, "its header is not valid JSON")


def _metadata(name: str, table: dict[str, Any]) -> dict[str, str]:
    """What the file says about itself, after checking that this version can read it."""
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


def _arrays(name: str, table: dict[str, Any], view: memoryview, start: int) -> dict[str, Array]:
    """Views on the data; every place is checked, and together they cover the data once."""
    places = sorted((*_place(name, entry), key) for key, entry in table.items() if key != "__metadata__")
    arrays, end = {}, 0
    for first, last, key in places:
        if first != end or last > len(view) - start:
            _damaged(name, "its arrays overlap, leave gaps or reach beyond its end")
        arrays[key] = _array(name, table[key], view, start + first)
        end = last
    if end != len(view) - start:
        _damaged(name, "there is more in it than its arrays")
    return arrays


def _place(name: str, entry: Any) -> tuple[int, int]:
    """First byte of an array in the data and the one after its last, which dtype and shape must confirm."""
    if isinstance(entry, dict) and entry.keys() == {"dtype", "shape", "data_offsets"}:
        dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
        fits = isinstance(dtype, str) and dtype in _DTYPES and isinstance(shape, list) and isinstance(offsets, list)
        # type(), since True is an int too
        if fits and len(offsets) == 2 and all(type(number) is int and number >= 0 for number in shape + offsets):
            first, last = offsets
            if last - first == math.prod(shape) * _DTYPES[dtype].itemsize:
                return first, last
    _damaged(name, "type, shape and place of an array do not fit together")


def _array(name: str, entry: dict[str, Any], view: memoryview, offset: int) -> Array:
    dtype, shape = _DTYPES[entry["dtype"]], tuple(entry["shape"])
    array: Array
    try:
        # an empty array has no place of its own, and may stand at the very end of the buffer
        array = np.ndarray(shape, dtype, view, offset) if math.prod(shape) else np.empty(shape, dtype)
    except (ValueError, OverflowError, MemoryError):  # more dimensions or a longer one than NumPy can have
        _damaged(name, "an array has an impossible shape")
    if dtype == np.bool_ and array.size and int(array.view(np.uint8).max()) > 1:
        _damaged(name, "a truth value is neither 0 nor 1")
    if not array.flags.aligned:
        array = array.copy()
    array.flags.writeable = False
    return array


# -- strings as arrays --------------------------------------------------------------------------------------------


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
        raise ModelFileError("the strings of the model do not fit together: copy it again, or train anew")
    encoded, places = blob.tobytes(), pairwise(offsets.tolist())
    if encoded.isascii():  # bytes and characters count the same: one decoding for all
        text = encoded.decode("ascii")
        return [text[first:last] for first, last in places]
    try:
        return [str(encoded[first:last], "utf-8", "surrogatepass") for first, last in places]
    except UnicodeDecodeError:
        raise ModelFileError("a string of the model is not UTF-8: copy it again, or train anew") from None


# ----------------------------------------------------------------------------------------------------------------------
# Names in a model file: those of the columns that rows have, and the labels that rows can have.
#
# Columns are ``n_features_in_`` and, where the training data named them, ``feature_names_in_``. Labels are strings,
# whole numbers, numbers or truth values, all of one kind, and come back as an array of the same kind.


_KINDS: dict[str, type] = {"str": str, "int": int, "float": float, "bool": bool}


def store_columns(estimator: Any) -> Arrays:
    """The arrays that hold the columns' names; none if they have none."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return {}
    blob, offsets = pack_strings([str(name) for name in names])
    return {"columns.bytes": blob, "columns.offsets": offsets}


def restore_columns(estimator: Any, arrays: Arrays, n_columns: int) -> None:
    """Give ``estimator`` the columns of a model of ``n_columns``."""
    estimator.n_features_in_ = n_columns
    if "columns.bytes" not in arrays:
        return
    names = unpack_strings(arrays["columns.bytes"], arrays["columns.offsets"])
    if len(names) != n_columns or len(set(names)) != n_columns:
        raise ValueError("the names of the columns do not fit")
    estimator.feature_names_in_ = np.array(names, dtype=object)


def store_labels(labels: Array) -> dict[str, Any]:
    """Labels [Y] as JSON."""
    values = labels.tolist()
    for name, kind in _KINDS.items():
        if all(type(value) is kind for value in values):
            return {"kind": name, "values": values}
    raise OptionError(
        f"labels such as {values[0]!r:.40} cannot be written to a model file: use strings, whole numbers or numbers"
    )


def restore_labels(stored: Any) -> Array:
    """Labels [Y] from JSON, distinct and in ascending order."""
    kind, values = _KINDS[stored["kind"]], stored["values"]
    if not isinstance(values, list) or not values or not all(type(value) is kind for value in values):
        raise ValueError("the labels are not of one kind")
    if any(a >= b for a, b in pairwise(values)):
        raise ValueError("the labels are not in ascending order")
    return np.array(values)


def checked_floats(array: Array, shape: tuple[int, ...], what: str) -> Float:
    """A copy of an array of finite float64 of such a shape; any other is a ValueError."""
    if array.dtype != np.float64 or array.shape != shape or not np.isfinite(array).all():
        raise ValueError(f"the {what} cannot be read")
    return np.array(array)


def checked_log_shares(array: Array, n: int, what: str) -> Float:
    """A copy of log-probabilities [n] that add up to one; zero probability may be among them."""
    if array.dtype != np.float64 or array.shape != (n,) or not (array <= 1e-9).all():
        raise ValueError(f"the {what} cannot be read")
    if not abs(float(np.exp(array).sum()) - 1.0) < 1e-6:
        raise ValueError(f"the {what} do not add up to one")
    return np.array(array)


# ----------------------------------------------------------------------------------------------------------------------
# Weights as numbers of less precision: float64, float32 or float16, and a power of two that they are multiplied by.
#
#     w = 2^k s          s of the given precision, k = 0 unless the greatest weight is beyond what it holds
#
# float16 has 11 bits, so that a weight is changed by at most 1 part in 2048 (a small one by at most
# 3e-8), and reaches to 65504.


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
