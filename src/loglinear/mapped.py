"""Large arrays in files, for data that memory does not hold.

An array in a file is an array: kernels and NumPy take it, and the operating system reads and writes its pages as they
are touched. So whatever walks over a corpus also walks over one that is larger than memory, in the same order and to
the same bits; the system is told to read ahead. Two things make that work:

**Where arrays are made.** Code that makes an array with a number for each position of a corpus asks for it here
(:func:`empty`, :func:`zeros`, :func:`taken`, :class:`Growing`). That is NumPy's own unless the call happens inside
:class:`Paging`, which puts what is larger than a megabyte into its folder. Such a file has no name: it is gone with
the last array that lies in it, or with the process.

**How much stays in memory.** Pages that were touched stay in a process's memory as long as nobody else wants the room,
which on a large machine is for ever. A thread of :class:`Paging` looks at the process's resident memory some hundred
times a second, and when it comes near the bound tells the system to take all pages of arrays in files. That costs no
data, whoever is reading: pages come back from the system's cache or from the disk when they are touched again.
"""

from __future__ import annotations

import math
import mmap
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Array
from loglinear.errors import OptionError
from loglinear.system import WriteError, size_of

SMALL = 1 << 20  # bytes of an array that is not worth a file
PIECE = 1 << 20  # numbers handled at a time
PERIOD = 0.005  # seconds between two looks
NEAR = 150_000_000  # bytes below the bound from which on pages are given back: more are touched before the next look
LEAST = 200_000_000  # bytes above what the process holds already that any bound has to leave

_maps: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()  # the files that arrays lie in
_changing_maps = threading.Lock()
_paging: list[Paging] = []  # the innermost is the last


class Paging:
    """Large arrays that are made in this block lie in files, and the process's resident memory stays under a bound.

    Parameters
    ----------
    folder : Path
        On a disk with room for the arrays.
    most : float
        Bytes of resident memory; on systems other than Linux nothing is given back before the system asks for it.

    Raises
    ------
    OptionError
        The process holds nearly as much already.
    """

    def __init__(self, folder: Path, most: float) -> None:
        self.folder, self.most = folder, float(most)
        held = resident()
        if held + LEAST > self.most:
            raise OptionError(
                f"{size_of(self.most)} of memory are too little: the program alone takes {size_of(held)}; allow at "
                f"least {size_of(held + LEAST)}"
            )
        self._ended = threading.Event()
        self._watch = threading.Thread(target=self._keep_below, name="loglinear-paging", daemon=True)

    def __enter__(self) -> Self:
        _paging.append(self)
        self._watch.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _paging.remove(self)
        self._ended.set()
        self._watch.join()

    def _keep_below(self) -> None:
        if not resident():
            return
        descriptor = os.open("/proc/self/statm", os.O_RDONLY)
        try:
            while not self._ended.wait(PERIOD):
                if _resident(descriptor) > self.most - NEAR:
                    release()
        finally:
            os.close(descriptor)


def check_room(n_bytes: float, what: str, remedy: str = "") -> None:
    """Refuse what will stay in memory, such as weights, if the bound leaves no room for it."""
    if not _paging or resident() + n_bytes + NEAR <= _paging[-1].most:
        return
    release()  # pages of arrays in files are in nobody's way
    held = resident()
    if held and (wanted := held + n_bytes + NEAR) > _paging[-1].most:
        raise OptionError(
            f"{size_of(_paging[-1].most)} of memory are too little: {what} take {size_of(n_bytes)}; allow at least "
            f"{size_of(wanted)}{f', or {remedy}' if remedy else ''}"
        )


def is_active() -> bool:
    """Whether large arrays lie in files."""
    return bool(_paging)


def resident() -> int:
    """Bytes of memory that the process holds; 0 where the system does not say."""
    try:
        descriptor = os.open("/proc/self/statm", os.O_RDONLY)
    except OSError:
        return 0
    try:
        return _resident(descriptor)
    finally:
        os.close(descriptor)


def _resident(descriptor: int) -> int:
    """The same from the open file, in a single call that waits for the GIL."""
    return int(os.pread(descriptor, 100, 0).split()[1]) * mmap.PAGESIZE


def peak() -> int:
    """The most that the process has held so far, in bytes; 0 where the system does not say."""
    try:
        with open("/proc/self/status", encoding="ascii") as stream:
            return next((int(line.split()[1]) << 10 for line in stream if line.startswith("VmHWM:")), 0)
    except (OSError, ValueError):
        return 0


def said() -> str:
    """How much memory the process has held, and how much was allowed, in words; empty where there is no bound."""
    held = peak()
    return f"at most {size_of(held)} of {size_of(_paging[-1].most)}" if _paging and held else ""


def release() -> None:
    """Give the pages of all arrays in files back to the system, which reads them again when they are touched."""
    if not hasattr(mmap, "MADV_DONTNEED"):
        return
    with _changing_maps:
        maps = list(_maps)
    for each in maps:
        with suppress(ValueError, OSError):  # closed meanwhile
            each.madvise(mmap.MADV_DONTNEED)


# ----------------------------------------------------------------------------------------------------------------------
# Arrays that may lie in files.


def empty(shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    """An array of zeros or of anything."""
    return zeros(shape, dtype) if _wants_file(shape, dtype) else np.empty(shape, dtype)


def zeros(shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.float64) -> Array:
    """An array of zeros."""
    if not _wants_file(shape, dtype):
        return np.zeros(shape, dtype)
    return _file_array(_paging[-1].folder, shape, np.dtype(dtype))


def taken(values: Array, numbers: Array, out: Array | None = None) -> Array:
    """``values[numbers]`` along the first axis, or ``out`` filled with it, without another array of that size."""
    if out is None:
        shape = (len(numbers), *values.shape[1:])
        if not _wants_file(shape, values.dtype):
            return values[numbers]
        out = zeros(shape, values.dtype)
    for piece in _pieces(out):
        out[piece] = values[numbers[piece]]
    return out


def copied(values: Array, dtype: npt.DTypeLike | None = None) -> Array:
    """A copy of an array, by default of the same type."""
    dtype = values.dtype if dtype is None else np.dtype(dtype)
    if not values.ndim or not _wants_file(values.shape, dtype):
        return np.array(values, dtype=dtype, order="C")
    out = zeros(values.shape, dtype)
    for piece in _pieces(out):
        out[piece] = values[piece]
    return out


def are_finite(numbers: Array) -> bool:
    """Whether all of them are finite numbers; looks at some at a time."""
    return all(bool(np.isfinite(numbers[piece]).all()) for piece in _pieces(numbers))


def _pieces(array: Array) -> Iterator[slice]:
    """Cut an array along its first axis into pieces of about :data:`PIECE` numbers."""
    rows = max(1, PIECE // max(1, math.prod(array.shape[1:])))
    return (slice(first, first + rows) for first in range(0, len(array), rows))


def span(n: int) -> Array:
    """0, 1, ..., n - 1 as int64 [n]."""
    if not _wants_file(n, np.int64):
        return np.arange(n, dtype=np.int64)
    numbers = zeros(n, np.int64)
    for first in range(0, n, PIECE):
        numbers[first : first + PIECE] = np.arange(first, min(first + PIECE, n))
    return numbers


def counts(numbers: Array, n: int) -> Array:
    """How often each of 0, ..., n - 1 occurs [n]; negative ``numbers`` are passed over."""
    total = np.zeros(n, dtype=np.int64)
    piece = max(PIECE, n)  # bincount makes an array of n for each piece
    for first in range(0, len(numbers), piece):
        some = numbers[first : first + piece]
        total += np.bincount(some[some >= 0] if len(some) and some.min() < 0 else some, minlength=n)
    return total


def _size(shape: int | tuple[int, ...]) -> int:
    return shape if isinstance(shape, int) else math.prod(shape)


def _wants_file(shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> bool:
    return bool(_paging) and _size(shape) * np.dtype(dtype).itemsize > SMALL


def _file_array(folder: Path, shape: int | tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    size = _size(shape) * dtype.itemsize
    with _in_folder(folder), _new_file(folder) as file:
        _reserve(file.fileno(), size)
        return _array_in(mmap.mmap(file.fileno(), size), dtype).reshape(shape)


def _array_in(mapped: mmap.mmap, dtype: np.dtype[Any]) -> Array:
    """The array [N] that a mapped file consists of."""
    _register(mapped)
    return np.frombuffer(mapped, dtype)


def _register(mapped: mmap.mmap) -> None:
    if hasattr(mmap, "MADV_SEQUENTIAL"):
        with suppress(OSError):
            mapped.madvise(mmap.MADV_SEQUENTIAL)  # passes read in the data's order: the system reads ahead
    with _changing_maps:
        _maps.add(mapped)


def _new_file(folder: Path) -> Any:
    """A file without a name."""
    import tempfile

    return tempfile.TemporaryFile(dir=folder)


@contextmanager
def _in_folder(folder: Path) -> Iterator[None]:
    """Make an error of the system's one that names the folder."""
    try:
        yield
    except OSError as error:
        raise WriteError(error.errno or 0, error.strerror or str(error), str(folder)) from error


def _reserve(descriptor: int, size: int) -> None:
    """Take ``size`` bytes of the disk: touching a page of a file for which there is no room would end the process."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:
        os.ftruncate(descriptor, size)


class Growing:
    """An array [N] that is given piece by piece.

    Parameters
    ----------
    dtype
    """

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self.dtype = np.dtype(dtype)
        self._pieces: list[Array] = []
        self._file: Any = None
        self._n = self._waiting = 0

    def __len__(self) -> int:
        return self._n

    def append(self, piece: Array) -> None:
        """Add the next numbers."""
        piece = np.ascontiguousarray(piece, dtype=self.dtype)
        self._pieces.append(piece)
        self._n += len(piece)
        self._waiting += piece.nbytes
        if _paging and self._waiting > SMALL:
            self._write()

    def _write(self) -> None:
        with _in_folder(_paging[-1].folder):
            if self._file is None:
                self._file = _new_file(_paging[-1].folder)  # closed by array()
            for piece in self._pieces:
                self._file.write(piece.data)
        self._pieces, self._waiting = [], 0

    def array(self) -> Array:
        """All numbers; nothing can be added after this."""
        if self._file is None:
            pieces, self._pieces = self._pieces, []
            return np.concatenate([np.zeros(0, self.dtype), *pieces])
        self._write()
        with self._file as file:
            file.flush()
            self._file = None
            return _array_in(mmap.mmap(file.fileno(), self._n * self.dtype.itemsize), self.dtype)


# ----------------------------------------------------------------------------------------------------------------------
# Files with a name, which have been written before.


def opened(descriptor: int) -> mmap.mmap:
    """A whole file, whose pages are given back like those of other arrays.

    Arrays that view it are writable, as kernels want theirs; nobody may write to them, since what is written would be
    gone when the page is given back.
    """
    mapped = mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY)
    _register(mapped)
    return mapped
