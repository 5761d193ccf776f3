"""How hot loops are compiled: one decorator, a cache keyed by what machine code depends on, a line while compiling.

Each kernel of the package is a plain function on arrays, decorated with :func:`kernel`. Numba compiles it at its
first call for the argument types it sees and stores the machine code in :func:`cache_folder`, so that a machine
compiles it once. Import this module only from modules that hold kernels: it imports Numba.

Numba's own cache looks at a kernel's source file alone, so a kernel that calls a kernel of another file, or uses a
constant from there, would go on running the old machine code after that file has changed. Ours is keyed by a digest of
everything that goes into the machine code (:func:`digest_of`):

    digest(kernel) = H(bytecode, compiler options, digest of each global that the code names)

where the digest of a kernel, function or NamedTuple among these globals is taken in the same way, constants and arrays
count by value, and an intrinsic counts by the source of its module. Comments, docstrings and the place of a file on the
disk do not matter: a clone of the project finds the kernels that another one has compiled.

The machine code that runs must not depend on what else the cache or the process holds, or a sum made in any order would
round differently from run to run. Each kernel therefore has its own copy of the kernels it calls (:class:`_Library`).
"""

from __future__ import annotations

import hashlib
import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, ParamSpec, TypeVar

import llvmlite.binding as llvm
import numba
import numpy as np
from numba.core import event
from numba.core.caching import FunctionCache, NullCache
from numba.core.codegen import JITCodeLibrary, RuntimeLinker
from numba.core.compiler import Compiler
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic

from loglinear.system import cache_folder

P = ParamSpec("P")
R = TypeVar("R")

PACKAGE = "loglinear"
FORMAT = "private callees"  # of the machine code in the cache: goes into all digests
KEPT_VERSIONS = 3  # of a kernel's machine code, for projects that stand side by side; older ones are deleted
_PLAIN = (int, float, complex, str, bytes, bool, type(None), np.generic)


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` with Numba: cached on disk, the GIL released, IEEE arithmetic kept (-inf is legal)."""
    return _compiled(function)


def inlined_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """A step of other kernels, which compile to the same code, to the last bit, as if its text stood in them.

    A call that LLVM does not inline costs as much as the work on a few dozen numbers, hides which arrays are distinct,
    and rounds complex numbers differently. Sums may be reordered if the caller is a :func:`loose_kernel`.
    """
    return _compiled(function, inline="always")


def small_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """A small step of an inner loop that LLVM inlines wherever it is called; its rounding is its own."""
    return _compiled(function, forceinline=True)


def loose_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """The same, but sums may be made in any order, and products added without rounding them first.

    A loop that adds up must not write to one array and read another. LLVM has such a loop test at run time whether the
    arrays are less than a few vectors apart, and if so goes from element to element: in another order, depending on
    where the arrays happen to lie in memory.
    """
    return _compiled(function, fastmath={"reassoc", "contract", "arcp", "nsz"})


def _compiled(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    compiled: Any = numba.njit(nogil=True, error_model="numpy", pipeline_class=_KernelCompiler, **options)(function)
    if isinstance(compiled, Dispatcher):  # with NUMBA_DISABLE_JIT it is the function itself
        compiled._cache = KernelCache(compiled)  # type: ignore[attr-defined]  # numba has few types
    return compiled


class _KernelCompiler(Compiler):
    """Numba's compiler, which puts the machine code of a kernel into a library of ours."""

    def compile_extra(self, func: Any) -> Any:
        library = _Library(self.state.targetctx.codegen(), func.__qualname__)  # type: ignore[no-untyped-call]
        library.enable_object_caching()  # type: ignore[no-untyped-call]  # numba has few types
        self.state.library = library
        return super().compile_extra(func)  # type: ignore[no-untyped-call]


class _Library(JITCodeLibrary):
    """The code of a kernel with its own copies of the functions it calls.

    Numba leaves the symbols of these copies weak: if the process has also compiled or loaded such a function by itself,
    calls go there, to code that was optimised without the caller and adds in another order. Here the copies are
    private. Callers get the code in the form in which the cache would give it to them.
    """

    def _optimize_final_module(self) -> None:
        super()._optimize_final_module()  # type: ignore[no-untyped-call]
        module, prefix = self._final_module, RuntimeLinker.PREFIX
        shared = module.clone()
        for function in shared.functions:
            if not function.is_declaration and function.linkage == llvm.Linkage.external:
                function.linkage = "linkonce_odr"
        self._shared_module = llvm.parse_bitcode(shared.as_bitcode())
        found_by_name = {each.name.removeprefix(prefix) for each in module.global_variables}  # by calls to oneself
        for function in module.functions:
            if function.linkage == llvm.Linkage.linkonce_odr and function.name not in found_by_name:
                function.linkage = "internal"


class KernelCache(NullCache):
    """Machine code of one kernel on disk, in a file named after the kernel and its digest.

    The digest is taken when the kernel is first called, by when everything it names has been defined.
    """

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher = dispatcher
        self._files: _Files | None = None
        self._lock = threading.Lock()

    @property
    def files(self) -> Any:
        """Numba's reader and writer of the cache's files."""
        with self._lock:
            if self._files is None:
                function = self._dispatcher.py_func
                self._files = _Files(_Place(function, digest_of(self._dispatcher)))
            return self._files

    @property
    def cache_path(self) -> str:
        """The folder of the kernel's module."""
        return str(self.files.cache_path)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The machine code for a signature, or None."""
        return self.files.load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the machine code for a signature."""
        self.files.save_overload(sig, data)
        self.files.place.forget_old_versions()

    def flush(self) -> None:
        """Forget what is kept."""
        self.files.flush()


class _Place:
    """Where one version of a kernel is kept: what Numba calls a locator."""

    def __init__(self, function: Any, digest: str) -> None:
        self.function, self._digest = function, digest
        self._folder = cache_folder() / "kernels" / function.__module__.removeprefix(PACKAGE + ".")
        self._py_file = inspect.getfile(function)  # Numba names it in warnings

    def ensure_cache_path(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return self._digest

    def get_disambiguator(self) -> str:
        return self._digest[:16]

    def forget_old_versions(self) -> None:
        """Delete all but the last few versions of the kernel."""
        version = f"py{sys.version_info[0]}{sys.version_info[1]}"
        name = f"{self.function.__module__.rpartition('.')[2]}.{self.function.__qualname__}-"
        with suppress(OSError):  # another process may be at it too
            indices = sorted(self._folder.glob(f"{name}*.{version}*.nbi"), key=lambda path: -path.stat().st_mtime)
            for index in indices[KEPT_VERSIONS:]:
                for file in self._folder.glob(f"{index.stem}.*"):
                    file.unlink(missing_ok=True)


class _Files(FunctionCache):
    """Numba's cache of a function, at a place of ours."""

    def __init__(self, place: _Place) -> None:
        class Layout(FunctionCache._impl_class):  # type: ignore[misc, valid-type]  # numba has few types
            def __init__(self, function: Any) -> None:
                self._locator, self._lineno = place, function.__code__.co_firstlineno
                module = function.__module__.rpartition(".")[2]
                abi = getattr(sys, "abiflags", "")
                self._filename_base = self.get_filename_base(f"{module}.{function.__qualname__}", abi)

        self._impl_class, self.place = Layout, place
        super().__init__(place.function)  # type: ignore[no-untyped-call]


def digest_of(function: Any) -> str:
    """The digest of all that the machine code of a kernel depends on, but for Numba and the processor."""
    return _Digests().of((FORMAT, function), "")


class _Digests:
    """Digests of kernels and what they name; a kernel that calls itself is met again while it is under way."""

    def __init__(self) -> None:
        self._under_way: set[int] = set()

    def of(self, value: Any, path: str) -> str:
        """Hexadecimal digest of ``value``, which the kernel of ``path`` names."""
        return hashlib.sha256("\n".join(self._parts(value, path)).encode()).hexdigest()

    def _parts(self, value: Any, path: str) -> Iterator[str]:
        if isinstance(value, Dispatcher):
            yield repr(sorted((key, _ordered(option)) for key, option in value.targetoptions.items()))
            yield from self._parts(value.py_func, path)
        elif isinstance(value, FunctionType):
            yield from self._function(value, path)
        elif isinstance(value, _Intrinsic):
            yield _source_of(value._defn.__module__)
        elif isinstance(value, tuple) and not hasattr(value, "_fields"):
            yield from (self.of(item, path) for item in value)
        elif isinstance(value, np.ndarray):
            yield f"{value.dtype} {value.shape} {value.tobytes().hex()}"
        elif isinstance(value, _PLAIN):
            yield f"{type(value).__name__} {value!r}"
        elif isinstance(value, type) and hasattr(value, "_fields"):  # a NamedTuple
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
        yield from _code_parts(function.__code__, function.__doc__)
        yield from (self.of(value, name) for value in function.__defaults__ or ())
        yield from (self.of(cell.cell_contents, name) for cell in function.__closure__ or ())
        names = sorted(set(_names_in(function.__code__)))
        spaces = function.__globals__
        for each in names:
            if each in spaces:
                yield f"{each} {self._named(spaces[each], names, f'{name} through {each}')}"
        # operators on types of an extension leave no name in the code
        yield from sorted({_source_of(v._defn.__module__) for v in spaces.values() if isinstance(v, _Intrinsic)})
        self._under_way.discard(id(function))

    def _named(self, value: Any, names: list[str], path: str) -> str:
        if isinstance(value, ModuleType) and value.__name__.startswith(PACKAGE + "."):
            members = (each for each in names if hasattr(value, each))  # more than is used of it, perhaps
            return " ".join(f"{each} {self.of(getattr(value, each), path)}" for each in members)
        return self.of(value, path)


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


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


def _source_of(module: str) -> str:
    file = sys.modules[module].__file__
    assert file is not None
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


class _CompilationLine(event.Listener):
    """Says once on standard error that kernels are being compiled; rewrites the line in a terminal."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._compiled = 0

    def on_start(self, compilation: Any) -> None:
        dispatcher = compilation.data["dispatcher"]
        if not dispatcher.py_func.__module__.startswith("loglinear."):
            return
        with self._lock:
            self._compiled += 1
            if sys.stderr is None:
                return
            if sys.stderr.isatty():
                name = dispatcher.py_func.__name__
                sys.stderr.write(f"\r\x1b[Kcompiling kernel {self._compiled} ({name}), once on this machine ...")
                sys.stderr.flush()
            elif self._compiled == 1:
                sys.stderr.write("compiling kernels, once on this machine ...\n")

    def on_end(self, compilation: Any) -> None:
        if compilation.data["dispatcher"].py_func.__module__.startswith("loglinear."):
            with self._lock:
                if sys.stderr is not None and sys.stderr.isatty():
                    sys.stderr.write("\r\x1b[K")
                    sys.stderr.flush()


event.register("numba:compile", _CompilationLine())  # type: ignore[no-untyped-call]  # numba has few types
