"""How the hot loops are compiled: one decorator, a cache that is always writable, and a line while compiling.

Every kernel of the package is a plain function on arrays, decorated with :func:`kernel`. Numba compiles it at its
first call for the argument types it sees and keeps the machine code in :func:`cache_folder`, so that a machine pays
once. Import this module only from modules that hold kernels: it imports Numba.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numba
from numba.core import event

from loglinear.user_cache import cache_folder

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` with Numba: cached on disk, the GIL released, IEEE arithmetic kept (-inf is legal)."""
    return _compiled(function, False)


def loose_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """The same, but sums may be made in any order, and products added without rounding them first."""
    return _compiled(function, {"reassoc", "contract", "arcp", "nsz"})


def _compiled(function: Callable[P, R], fastmath: bool | set[str]) -> Callable[P, R]:
    settings: Any = numba.config
    folder_before = settings.CACHE_DIR
    settings.CACHE_DIR = str(cache_folder())  # read when the decorator runs, so others' kernels are not moved
    try:
        compiled: Callable[P, R] = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=fastmath)(function)
    finally:
        settings.CACHE_DIR = folder_before
    return compiled


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
