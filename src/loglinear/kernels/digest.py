"""What machine code depends on: digests of kernels and of all that they call or name.

    digest(kernel) = H(bytecode, compiler options, digest of each global that the code names)

where the digest of a kernel, function or NamedTuple among these globals is taken in the same way, constants and arrays
count by value, and a function on lanes counts by the source of :mod:`~loglinear.kernels.vectors`. Comments, docstrings
and the place of a file on the disk do not matter. The cache of compiled kernels is keyed by it.

Bytecode differs between versions of Python. Kernels compiled ahead therefore depend on the text of the files in which
the same walk finds functions, and on the values of the same constants (:func:`sources_of`). Nothing here needs Numba.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from loglinear.kernels import PACKAGE, Kernel, LaneFunction, names_in

VECTORS = "loglinear.kernels.vectors"
FORMAT = "private callees"  # of the machine code in the cache: goes into all digests
_PLAIN = (int, float, complex, str, bytes, bool, type(None), np.generic)


class Sources(NamedTuple):
    """What the machine code of a kernel is made from: kernels by name, modules, constants by module and name."""

    kernels: dict[str, Kernel]
    modules: frozenset[str]
    constants: dict[tuple[str, str], str]


def digest_of(kernel: Any) -> str:
    """The digest of all that the machine code of a kernel depends on, but for Numba and the processor."""
    return _Walk().digest((FORMAT, kernel), "")


def sources_of(kernel: Any) -> Sources:
    """The kernels, itself among them, modules and constants that the machine code of a kernel depends on."""
    walk = _Walk()
    walk.digest(kernel, "")
    return Sources(walk.kernels, frozenset(walk.modules), walk.constants)


def constant_digest(value: Any) -> str:
    """The digest of a constant that kernels name."""
    return _Walk().digest(value, "")


class _Walk:
    """From a kernel to all that it names; a kernel that calls itself is met again while it is under way."""

    def __init__(self) -> None:
        self._under_way: set[int] = set()
        self.kernels: dict[str, Kernel] = {}
        self.modules: set[str] = set()
        self.constants: dict[tuple[str, str], str] = {}

    def digest(self, value: Any, path: str) -> str:
        """Hexadecimal digest of ``value``, which the kernel of ``path`` names."""
        return hashlib.sha256("\n".join(self._parts(value, path)).encode()).hexdigest()

    def _parts(self, value: Any, path: str) -> Iterator[str]:
        if isinstance(value, Kernel):
            self.kernels[value.name] = value
            yield repr(sorted((key, _ordered(option)) for key, option in value.options.items()))
            yield from self._parts(value.py_func, path)
        elif isinstance(value, FunctionType):
            yield from self._function(value, path)
        elif isinstance(value, LaneFunction):
            yield f"{value.py_func.__name__} {self._vectors()}"
        elif isinstance(value, tuple) and not hasattr(value, "_fields"):
            yield from (self.digest(item, path) for item in value)
        elif isinstance(value, np.ndarray):
            yield f"{value.dtype} {value.shape} {value.tobytes().hex()}"
        elif isinstance(value, _PLAIN):
            yield f"{type(value).__name__} {value!r}"
        elif isinstance(value, type) and hasattr(value, "_fields"):  # a NamedTuple
            self.modules.add(value.__module__)
            yield f"{value.__module__}.{value.__qualname__}{value._fields}"
        elif callable(value) or isinstance(value, ModuleType):  # of NumPy, say: a part of this version of Numba
            yield f"{getattr(value, '__module__', '')}.{getattr(value, '__name__', type(value).__name__)}"
        else:
            raise TypeError(f"{path} uses a {type(value).__name__}: kernels may use constants only")

    def _function(self, function: FunctionType, path: str) -> Iterator[str]:
        name = f"{function.__module__}.{function.__qualname__}"
        yield name
        if id(function) in self._under_way:
            return
        self._under_way.add(id(function))
        self.modules.add(function.__module__)
        yield from _code_parts(function.__code__, function.__doc__)
        yield from (self.digest(value, name) for value in function.__defaults__ or ())
        yield from (self.digest(cell.cell_contents, name) for cell in function.__closure__ or ())
        names = sorted(set(names_in(function.__code__)))
        spaces = function.__globals__
        for each in names:
            if each in spaces:
                yield f"{each} {self._named(spaces[each], names, (function.__module__, each), name)}"
        # operators on types of an extension leave no name in the code
        if any(isinstance(value, LaneFunction) for value in spaces.values()):
            yield self._vectors()
        self._under_way.discard(id(function))

    def _named(self, value: Any, names: list[str], place: tuple[str, str], path: str) -> str:
        through = f"{path} through {place[1]}"
        if isinstance(value, ModuleType) and value.__name__.startswith(PACKAGE + "."):
            members = (each for each in names if hasattr(value, each))  # more than is used of it, perhaps
            return " ".join(
                f"{each} {self._named(getattr(value, each), [], (value.__name__, each), through)}" for each in members
            )
        digest = self.digest(value, through)
        if isinstance(value, (tuple, np.ndarray, *_PLAIN)):
            self.constants[place] = digest
        return digest

    def _vectors(self) -> str:
        self.modules |= {VECTORS, "loglinear.kernels.lanes"}
        return hashlib.sha256(source_file(VECTORS).read_bytes()).hexdigest()


def source_file(module: str) -> Path:
    """The file of a module of the package, which need not have been imported."""
    package = Path(importlib.import_module(PACKAGE).__file__ or "").parent
    stem = package.joinpath(*module.split(".")[1:])
    return stem / "__init__.py" if stem.is_dir() else stem.with_suffix(".py")


def _code_parts(code: CodeType, docstring: str | None) -> Iterator[str]:
    """Bytecode and constants; the docstring, which is the first of these, leaves no trace in machine code."""
    yield f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {code.co_freevars} {code.co_cellvars}"
    constants = code.co_consts
    for constant in constants[1:] if docstring is not None and constants[:1] == (docstring,) else constants:
        if isinstance(constant, CodeType):
            yield from _code_parts(constant, None)
        else:
            yield f"{type(constant).__name__} {_ordered(constant)!r}"


def _ordered(value: Any) -> Any:
    return sorted(value) if isinstance(value, (set, frozenset)) else value
