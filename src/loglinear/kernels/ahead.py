"""Kernels compiled ahead: machine code in a shared library, which needs neither Numba nor LLVM to run.

``python -m loglinear.kernels.build`` makes the library and an index of what is in it, from the same sources and by the
same compiler as at run time (:mod:`~loglinear.kernels.build`); both come with the package, or lie in the user's cache,
where ``loglinear warm`` puts them. A kernel's entry is used only if

- the index and the library are whole (each has a digest) and of this format, platform and level of processors,
- the files that the kernel and all that it calls stand in have the same text as when it was compiled, and the
  constants that these name have the same values (:func:`~loglinear.kernels.digest.sources_of`).

Otherwise Numba compiles it. The bytecode of Python plays no part, so one library serves all versions of Python.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from loglinear.kernels import PACKAGE, Kernel
from loglinear.kernels.digest import constant_digest, source_file
from loglinear.kernels.processor import level, platform_name
from loglinear.kernels.signature import Description, is_single, letters, program, value_of
from loglinear.system import cache_folder, read_private, why_not_private

FORMAT = 1  # of index and library
INDEX = "index.json"
SHIPPED = Path(__file__).parent.parent / "compiled"
#: Set to 0, kernels compiled ahead are left alone, and Numba compiles all.
SWITCH = "LOGLINEAR_COMPILED"
OFF = ("0", "no", "off", "false")


_kept: list[Any] = []  # what functions point to, which may outlive the library that made them


class _Entry(ctypes.Structure):
    """``kernel`` of runtime.c."""

    _fields_ = (
        ("entry", ctypes.c_void_p),
        ("program", ctypes.POINTER(ctypes.c_int64)),
        ("n_arguments", ctypes.c_int64),
        ("results", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
    )


class DamagedLibraryError(Exception):
    """A library, or its index, that must not be used."""


class Library:
    """A shared library of kernels, and what its index says of them."""

    def __init__(self, folder: Path) -> None:
        read = Path.read_bytes if folder == SHIPPED else read_private
        self._index = read_index(read(folder / INDEX))
        wanted = (FORMAT, platform_name(), level())
        if tuple(self._index[key] for key in ("format", "platform", "level")) != wanted:
            raise DamagedLibraryError("made for another version or another kind of machine")
        self._path = folder / self._index["library"]
        if hashlib.sha256(read(self._path)).hexdigest() != self._index["digest"]:
            raise DamagedLibraryError("the library has changed since it was built")
        self._code: Any = None

    def functions(self, kernel: Kernel) -> Iterator[Callable[..., Any]]:
        """The machine code of a kernel, one function for each signature."""
        for entry in self._index["kernels"].get(kernel.name, ()):
            if self._is_current(entry):
                yield self._function(kernel, entry)

    def signatures(self, kernel: Kernel) -> list[list[Description]]:
        """The types of arguments that a kernel has machine code for."""
        return [entry["arguments"] for entry in self._index["kernels"].get(kernel.name, ()) if self._is_current(entry)]

    def _is_current(self, entry: dict[str, Any]) -> bool:
        sources, constants = self._index["sources"], entry["constants"]
        texts = all(sources[module] and module_digest(module) == sources[module] for module in entry["modules"])
        return texts and all(_digest_of_constant(place) == digest for place, digest in constants.items())

    def _function(self, kernel: Kernel, entry: dict[str, Any]) -> Callable[..., Any]:
        code = self._loaded()
        arguments: list[Description] = entry["arguments"]
        result: Description = entry["result"]
        steps = [step for argument in arguments for step in program(argument)]
        made = _Entry(
            ctypes.cast(getattr(code, entry["symbol"]), ctypes.c_void_p).value,
            (ctypes.c_int64 * len(steps))(*steps),
            len(arguments),
            letters(result).encode(),
            f"the kernel {kernel.name} failed".encode(),
        )
        _kept.append(made)
        function: Callable[..., Any] = code.loglinear_function(ctypes.byref(made))
        if is_single(result):
            return function
        release = code.loglinear_release

        def run(*arguments: Any) -> Any:
            words = function(*arguments)
            if words is NotImplemented:
                return words
            return value_of(result, iter(words), arguments, release)

        return run

    def _loaded(self) -> Any:
        if self._code is None:
            code = ctypes.PyDLL(str(self._path))
            code.loglinear_function.restype = ctypes.py_object
            code.loglinear_release.argtypes = (ctypes.c_void_p,)
            code.loglinear_release.restype = None
            code.loglinear_fields.argtypes = (ctypes.py_object, ctypes.POINTER(ctypes.c_int64))
            code.loglinear_fields.restype = None
            _check_fields(code)
            self._code = code
        return self._code


def _check_fields(code: Any) -> None:
    """Arrays must lie in memory as runtime.c believes: Python and NumPy are not those of the build."""
    array, fields = np.arange(6, dtype=np.int32)[1:6:2], (ctypes.c_int64 * 8)()
    code.loglinear_fields(array, fields)
    order = ord(array.dtype.byteorder)
    wanted = [array.ctypes.data, 1, 3, 8, array.flags.num, array.dtype.num, order, id(np.ndarray)]
    if list(fields)[4] & 0x7FF != wanted[4] & 0x7FF or [*fields][:4] + [*fields][5:] != wanted[:4] + wanted[5:]:
        raise DamagedLibraryError("arrays lie otherwise in memory here")


def runner_of(kernel: Kernel) -> Callable[..., Any] | None:
    """What runs a kernel by machine code that was compiled ahead, where there is such code for its arguments.

    Another library is looked into only when the one before has no code for a call: finding the user's takes longer.
    """
    found, lock = _found(kernel), threading.Lock()
    functions = next(found, [])
    if not functions:
        return None

    def run(*arguments: Any) -> Any:
        n = len(functions)
        for function in functions:
            result = function(*arguments)
            if result is not NotImplemented:
                return result
        with lock:  # the first thread that comes here finds the rest
            functions.extend(function for others in found for function in others)
        return run(*arguments) if len(functions) > n else kernel.compiled(*arguments)

    return run


def _found(kernel: Kernel) -> Iterator[list[Callable[..., Any]]]:
    """The machine code of a kernel, from each library that has some."""
    for library in libraries():
        with suppress(DamagedLibraryError, OSError, AttributeError):  # it cannot be loaded, or has no such symbol
            functions = list(library.functions(kernel))
            if functions:
                yield functions


def libraries() -> Iterator[Library]:
    """Those that can be used: the package's, then the user's."""
    if os.environ.get(SWITCH, "").lower() in OFF or level() is None or "t" in getattr(sys, "abiflags", ""):
        return  # objects lie otherwise in memory in Python without the GIL
    shipped = opened(SHIPPED)
    if shipped is not None:
        yield shipped
    users = opened(user_folder())  # looks for a cache folder, which takes longer
    if users is not None:
        yield users


def user_folder() -> Path:
    """Where ``loglinear warm`` puts what it compiles."""
    return cache_folder() / "compiled"


@cache
def opened(folder: Path) -> Library | None:
    """The library of a folder, if it can be used."""
    try:
        if folder != SHIPPED and (not folder.exists() or why_not_private(folder)):
            return None  # perhaps someone else's machine code
        return Library(folder)
    except (OSError, ValueError, KeyError, DamagedLibraryError):
        return None


def read_index(content: bytes) -> dict[str, Any]:
    """The index: a line with the digest of what follows, and what follows."""
    digest, _, text = content.partition(b"\n")
    if hashlib.sha256(text).hexdigest().encode() != digest:
        raise DamagedLibraryError("the index is damaged")
    return dict(json.loads(text))


def sha256(file: Path) -> str:
    """The digest of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


@cache
def module_digest(module: str) -> str:
    """The digest of a module's text; empty if there is none."""
    try:
        return sha256(source_file(module))
    except OSError:
        return ""


def _digest_of_constant(place: str) -> str:
    module, _, name = place.partition(":")
    found = sys.modules.get(module)
    return constant_digest(getattr(found, name)) if module.startswith(PACKAGE) and hasattr(found, name) else ""
