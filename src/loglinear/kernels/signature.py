"""Argument types of kernels as plain data, for kernels that are compiled ahead.

    "float64"            a number: Python's or NumPy's
    "float32/2C"         an array: element type, dimensions, order (C, F, or A for any), and r if it is read-only
    ["", "int64", ...]   a tuple; with "module:name" instead of "", a NamedTuple
    "none"

:func:`describe` gives the type of a value, as Numba would see it. At run time, the arguments' types become the program
with which ``runtime.c`` reads them, and the words it returns become a value again (:func:`value_of`).
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np

Description = str | list[Any]
ARRAY, TUPLE, SCALAR, NONE = range(4)  # the steps of a program, as in runtime.c
_C_ORDER, _F_ORDER, _ALIGNED, _WRITABLE = 0x1, 0x2, 0x100, 0x400  # NumPy's flags
_PYTHON: dict[str, type] = {"int64": int, "float64": float, "bool": bool}
_ARRAY_TEXT = re.compile(r"(\w+)/(\d+)([CFA])(r?)")


class UnsupportedTypeError(TypeError):
    """A value that kernels compiled ahead do not take."""


def describe(value: Any) -> Description:
    """The type of a value, as Numba would see it."""
    if value is None:
        return "none"
    if type(value) is np.ndarray:
        flags = value.flags
        if not (flags.aligned and value.dtype.isnative and value.dtype.isbuiltin == 1):
            raise UnsupportedTypeError(f"an array of {value.dtype}, not aligned or not plain")
        order = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
        return f"{value.dtype.name}/{value.ndim}{order}{'' if flags.writeable else 'r'}"
    if isinstance(value, tuple):
        kind = type(value)
        name = "" if kind is tuple else f"{kind.__module__}:{kind.__qualname__}"
        return [name, *map(describe, value)]
    for name, kind in _PYTHON.items():
        if type(value) is kind:
            return name
    if isinstance(value, np.number | np.bool_):
        return value.dtype.name
    raise UnsupportedTypeError(f"a {type(value).__name__}")


def array_parts(text: str) -> tuple[np.dtype[Any], int, str, bool] | None:
    """Element type, dimensions, order and whether it is read-only; None if the text describes no array."""
    match = _ARRAY_TEXT.fullmatch(text)
    if match is None:
        return None
    return np.dtype(match[1]), int(match[2]), match[3], match[4] == "r"


def class_of(name: str) -> type:
    """The class of a tuple."""
    if not name:
        return tuple
    module, _, qualname = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part)
    return cast(type, found)


def program(kind: Description) -> Iterator[int]:
    """The steps that read an argument of this type."""
    if isinstance(kind, list):
        yield from (TUPLE, id(class_of(kind[0])), len(kind) - 1)
        for item in kind[1:]:
            yield from program(item)
    elif kind == "none":
        yield NONE
    elif (parts := array_parts(kind)) is not None:
        dtype, ndim, order, read_only = parts
        orders = {"C": (_C_ORDER, _C_ORDER), "F": (_C_ORDER | _F_ORDER, _F_ORDER), "A": (_C_ORDER | _F_ORDER, 0)}[order]
        mask, flags = orders[0] | _ALIGNED | _WRITABLE, orders[1] | _ALIGNED | (0 if read_only else _WRITABLE)
        yield from (ARRAY, id(np.ndarray), dtype.num, ndim, mask, flags, int(order != "C"))
    else:
        native = np.dtype(kind)
        yield from (SCALAR, ord(native.char), id(_PYTHON.get(kind, native.type)), id(native.type))


def n_words(kind: Description) -> int:
    """The words that an argument of this type takes."""
    if isinstance(kind, list):
        return sum(map(n_words, kind[1:]))
    if kind == "none":
        return 0
    parts = array_parts(kind)
    return 1 if parts is None else 1 + parts[1] * (1 if parts[2] == "C" else 2)


def letters(kind: Description) -> str:
    """A letter for each word of a result: (i)nteger, (u)nsigned, (f)loat or ? for a truth value."""
    if isinstance(kind, list):
        return "".join(map(letters, kind[1:]))
    if kind == "none":
        return ""
    parts = array_parts(kind)
    if parts is not None:
        return "uu" + "i" * (2 * parts[1])  # memory, address, shape, strides
    return {"f": "f", "i": "i", "u": "u", "b": "?", "c": "ff"}[np.dtype(kind).kind]


def is_single(kind: Description) -> bool:
    """Whether a result is one number, or None: what ``runtime.c`` gives is the result itself."""
    return isinstance(kind, str) and "/" not in kind and len(letters(kind)) < 2


class _Memory:
    """Memory that a kernel has given to an array, or that of its arguments."""

    def __init__(self, address: int, owner: Any, release: Callable[[int], None], interface: dict[str, Any]) -> None:
        self._address, self._owner, self._release = address, owner, release
        self.__array_interface__ = interface

    def __del__(self) -> None:
        if self._address:
            self._release(self._address)


def value_of(kind: Description, words: Iterator[Any], owner: Any, release: Callable[[int], None]) -> Any:
    """The result of a kernel from the words of ``runtime.c``; ``owner`` keeps the arguments' memory."""
    if isinstance(kind, list):
        items = (value_of(item, words, owner, release) for item in kind[1:])
        return tuple(items) if not kind[0] else class_of(kind[0])(*items)
    if kind == "none":
        return None
    parts = array_parts(kind)
    if parts is None:
        return complex(next(words), next(words)) if np.dtype(kind).kind == "c" else next(words)
    dtype, ndim, _, read_only = parts
    memory, address = next(words), next(words)
    shape, strides = tuple(next(words) for _ in range(ndim)), tuple(next(words) for _ in range(ndim))
    interface = {"data": (address, read_only), "shape": shape, "strides": strides, "typestr": dtype.str, "version": 3}
    return np.asarray(_Memory(memory, None if memory else owner, release, interface))
