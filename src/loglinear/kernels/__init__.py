"""Hot loops: plain functions of arrays, compiled ahead or, with Numba, at their first call.

    @kernel
    def total(numbers: Float) -> float: ...

A decorated function is a :class:`Kernel`. Called from Python, it runs the machine code that was compiled ahead for its
arguments (:mod:`~loglinear.kernels.ahead`). Where there is none, Numba compiles it and keeps the machine code for next
time (:mod:`~loglinear.kernels.compiler`); Numba is imported then, and not before, because that takes half a second and
128 MB. Both give the same results, to the last bit. A kernel may call other kernels, which are looked up by their names
in its module when it is compiled. With ``NUMBA_DISABLE_JIT``, kernels run as the plain Python that they are.
"""

from __future__ import annotations

import functools
import gc
import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")

PACKAGE = "loglinear"
PLAIN_PYTHON = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
_lock = threading.RLock()
_without_scipy = False
_quiet = False


class Kernel:
    """A function that is compiled, ahead or when it is first called.

    Parameters
    ----------
    function : callable
    options : dict
        Numba's, beside those that all kernels have.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.py_func, self.options = function, options
        self._dispatcher: Any = None  # while what it names is being looked up, which may be itself
        self._run: Callable[..., Any] = self._run_first

    @property
    def name(self) -> str:
        """Its module and its name there."""
        return f"{self.py_func.__module__}:{self.py_func.__qualname__}"

    @functools.cached_property
    def compiled(self) -> Any:
        """Numba's dispatcher."""
        with _lock:  # no thread may see it before all that it names is in place
            if self._dispatcher is None:
                dispatcher = _import_compiler().dispatcher
                function = _with_own_globals(self.py_func)
                self._dispatcher = dispatcher(self, function)
                _resolve(function)
            return self._dispatcher

    @property
    def signatures(self) -> list[Any]:
        """The argument types that it has been compiled for so far, at run time."""
        return [] if self._dispatcher is None else list(self._dispatcher.signatures)

    def __call__(self, *arguments: Any) -> Any:
        return self._run(*arguments)

    def _run_first(self, *arguments: Any) -> Any:
        """The first call: look for machine code that was compiled ahead."""
        from loglinear.kernels.ahead import runner_of

        with _lock:  # of several first calls one looks
            if self._run == self._run_first:
                self._run = runner_of(self) or self.compiled
        return self._run(*arguments)


class LaneFunction:
    """A function on lanes: plain Python here, an intrinsic of the compiler's in a kernel."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function

    @property
    def compiled(self) -> Any:
        """The intrinsic of the same name."""
        from loglinear.kernels import vectors

        return getattr(vectors, self.py_func.__name__)

    def __call__(self, *arguments: Any) -> Any:
        return self.py_func(*arguments)


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function``: the GIL is released, and IEEE arithmetic kept (-inf is legal)."""
    return _kernel(function)


def inlined_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """A step of other kernels, which compile to the same code, to the last bit, as if its text stood in them.

    A call that LLVM does not inline costs as much as the work on a few dozen numbers, hides which arrays are distinct,
    and rounds complex numbers differently. Sums may be reordered if the caller is a :func:`loose_kernel`.
    """
    return _kernel(function, inline="always")


def small_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """A small step of an inner loop that LLVM inlines wherever it is called; its rounding is its own."""
    return _kernel(function, forceinline=True)


def loose_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """A :func:`kernel` whose sums may be made in any order, and whose products may be added before they are rounded.

    A loop that adds up must not write to one array and read another. LLVM has such a loop test at run time whether the
    arrays are less than a few vectors apart, and if so goes from element to element: in another order, depending on
    where the arrays happen to lie in memory.
    """
    return _kernel(function, fastmath={"reassoc", "contract", "arcp", "nsz"})


def lane_function(function: Callable[P, R]) -> Callable[P, R]:
    """Declare a function of :mod:`~loglinear.kernels.lanes`."""
    return function if PLAIN_PYTHON else cast(Callable[P, R], LaneFunction(function))


def _kernel(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    return function if PLAIN_PYTHON else cast(Callable[P, R], Kernel(function, options))


def compile_without_scipy() -> None:
    """Let Numba, if it is needed, start without importing SciPy for BLAS, which no kernel needs and which takes 0.2 s.

    The garbage collector also skips what stays until the end, which saves as much again. For programs that use neither
    SciPy nor scikit-learn.
    """
    global _without_scipy
    _without_scipy = True


def compile_quietly(quiet: bool = True) -> None:
    """Do not say on standard error that kernels are being compiled: for who shows progress otherwise, or wants none."""
    global _quiet
    _quiet = quiet


def compiles_quietly() -> bool:
    """Whether nothing is said of kernels that are being compiled."""
    return _quiet


def _import_compiler() -> Any:
    """The module that compiles, which imports Numba."""
    modules: dict[str, Any] = sys.modules
    if not _without_scipy or "scipy.linalg" in modules or "numba.np.arraymath" in modules:
        return importlib.import_module("loglinear.kernels.compiler")
    modules["scipy.linalg"] = None  # makes importing it fail
    gc.disable()
    try:
        import numba.np.arraymath  # noqa: F401  # looks for BLAS when it is imported, and works without
        from numba.core.registry import cpu_target

        cpu_target.target_context.refresh()  # the first kernel would do it otherwise
        gc.freeze()
    finally:
        gc.enable()
        del modules["scipy.linalg"]
    return importlib.import_module("loglinear.kernels.compiler")


def _with_own_globals(function: Any) -> Any:
    """The same function, whose globals may be changed without its module's being changed."""
    copied = FunctionType(
        function.__code__, dict(function.__globals__), function.__name__, function.__defaults__, function.__closure__
    )
    copied.__kwdefaults__ = function.__kwdefaults__
    return functools.update_wrapper(copied, function)


def _resolve(function: Any) -> None:
    """Put what Numba compiles in place of the kernels and lane functions that the code of a kernel names."""
    spaces, names = function.__globals__, list(names_in(function.__code__))
    for name in names:
        value = spaces.get(name)
        if isinstance(value, Kernel | LaneFunction):
            spaces[name] = value.compiled
        elif isinstance(value, ModuleType) and value.__name__.startswith(PACKAGE + "."):
            spaces[name] = copied = ModuleType(value.__name__)
            vars(copied).update(vars(value))
            for member in names:
                if isinstance(vars(value).get(member), Kernel | LaneFunction):
                    setattr(copied, member, vars(value)[member].compiled)


def names_in(code: CodeType) -> Iterator[str]:
    """The names of globals and attributes in a function's code, those in nested functions too."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_in(constant)
