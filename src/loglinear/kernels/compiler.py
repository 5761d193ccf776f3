"""How kernels are compiled: for a level of processors, with a cache keyed by what machine code depends on.

Numba compiles a kernel at its first call for the argument types it sees, and stores the machine code in
:func:`cache_folder`, so that a machine compiles it once. This module and :mod:`~loglinear.kernels.vectors` import
Numba; :mod:`loglinear.kernels` imports them when the first kernel is called that was not compiled ahead.

Numba's own cache looks at a kernel's source file alone, so a kernel that calls a kernel of another file, or uses a
constant from there, would go on running the old machine code after that file has changed. Ours is keyed by the digest
of everything that goes into the machine code (:func:`~loglinear.kernels.digest.digest_of`): a clone of the project
finds the kernels that another one has compiled.

The machine code that runs must not depend on what else the cache or the process holds, or a sum made in any order would
round differently from run to run. Each kernel therefore has its own copy of the kernels it calls (:class:`_Library`).
Nor should it depend on the machine: kernels are compiled for a level that many processors have
(:mod:`~loglinear.kernels.processor`), by a code generator of their own, so that Numba's settings stay the user's.
"""

from __future__ import annotations

import copy
import sys
import threading
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numba
from numba.core import event
from numba.core.caching import NullCache
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen, RuntimeLinker
from numba.core.compiler import Compiler

from loglinear.kernels import Kernel, compiles_quietly, forks  # noqa: F401
from loglinear.kernels.cache import Files
from loglinear.kernels.digest import digest_of, sources_of
from loglinear.kernels.processor import level
from loglinear.system import cache_folder, cache_warning


def dispatcher(kernel: Kernel, function: Any) -> Any:
    """Numba's dispatcher for the function of a kernel, with its options beside those that all kernels have."""
    made: Any = numba.njit(nogil=True, error_model="numpy", pipeline_class=_KernelCompiler, **kernel.options)(function)
    made._cache = KernelCache(kernel)
    return made


class _Codegen(JITCPUCodegen):
    """Numba's code generator for a level of processors instead of this processor."""

    def _get_host_cpu_name(self) -> Any:
        return level()

    def _get_host_cpu_features(self) -> str:
        return ""  # those of the level


@cache
def _codegen() -> Any:
    return _Codegen("loglinear.exec") if level() else None  # type: ignore[no-untyped-call]  # numba has few types


def _for_our_level(context: Any) -> Any:
    """A target context of Numba's that generates code with :class:`_Codegen`."""
    if _codegen() is None:
        return context
    ours = copy.copy(context)
    ours._internal_codegen = _codegen()
    ours.cached_internal_func = _internal_functions.setdefault(repr(context.fastmath), {})
    return ours


_internal_functions: dict[str, dict[Any, Any]] = {}  # NumPy's functions, compiled for our level, by fastmath


class _KernelCompiler(Compiler):
    """Numba's compiler, which puts the machine code of a kernel into a library of ours."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)  # type: ignore[no-untyped-call]  # numba has few types
        self.state.targetctx = _for_our_level(self.state.targetctx)

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
    """Machine code of one kernel on disk (:mod:`~loglinear.kernels.cache`).

    Its digest is taken when the kernel is first called, by when everything it names has been defined.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._files: Files | None = None
        self._lock = threading.Lock()

    @property
    def files(self) -> Files:
        """Reads and writes the cache's files."""
        with self._lock:
            if self._files is None:
                self._files = Files(self.kernel.py_func, digest_of(self.kernel))
            return self._files

    @property
    def cache_path(self) -> str:
        """The folder of the kernel's module."""
        return str(self.files.folder)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The machine code for a signature, or None."""
        target_context.refresh()
        return self.files.load_overload(sig, _for_our_level(target_context))

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the machine code for a signature; on a full disk, go on without."""
        try:
            self.files.save_overload(sig, data)
        except OSError as error:
            reason = error.strerror or error
            line.say_once(f"cannot keep compiled kernels in {cache_folder()}: {reason}; set LOGLINEAR_CACHE")
        else:
            if warning := cache_warning():
                line.say_once(warning)

    def flush(self) -> None:
        """Forget what is kept."""
        self.files.flush()


class CompilationLine(event.Listener):
    """Says once on standard error that kernels are being compiled; rewrites the line in a terminal.

    It counts the kernels known to come: those that the kernels called so far call in their turn.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._compiled, self._known = 0, set[str]()
        self._said = set[str]()

    def on_start(self, compilation: Any) -> None:
        kernel = _kernel_of(compilation)
        if kernel is None:
            return
        with self._lock:
            self._compiled += 1
            if kernel.name not in self._known:
                called = sources_of(kernel).kernels.values()
                self._known |= {each.name for each in called if each.options.get("inline") != "always"}
            if compiles_quietly() or sys.stderr is None:
                return
            if sys.stderr.isatty():
                count = f"{self._compiled} of {max(self._compiled, len(self._known))}"
                name = kernel.py_func.__name__
                sys.stderr.write(f"\r\x1b[Kcompiling kernel {count} ({name}), once on this machine ...")
                sys.stderr.flush()
            elif self._compiled == 1:
                sys.stderr.write("compiling new kernels, once on this machine (loglinear warm: all of them) ...\n")

    def on_end(self, compilation: Any) -> None:
        if _kernel_of(compilation) is not None:
            with self._lock:
                if not compiles_quietly() and sys.stderr is not None and sys.stderr.isatty():
                    sys.stderr.write("\r\x1b[K")
                    sys.stderr.flush()

    def say_once(self, message: str) -> None:
        """Write a line on standard error, unless it has been written before."""
        with self._lock:
            if message not in self._said and not compiles_quietly() and sys.stderr is not None:
                sys.stderr.write(f"loglinear: {message}\n")
            self._said.add(message)


def _kernel_of(compilation: Any) -> Kernel | None:
    cache = compilation.data["dispatcher"]._cache
    return cache.kernel if isinstance(cache, KernelCache) else None


line = CompilationLine()
event.register("numba:compile", line)  # type: ignore[no-untyped-call]  # numba has few types
