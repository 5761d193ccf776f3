"""Hot loops: plain functions of arrays, compiled with Numba at their first call.

    @kernel
    def total(numbers: Float) -> float: ...

A decorated function is a :class:`Kernel`. Numba is imported when the first one is called, not before, so that whatever
needs no hot loop starts quickly; :mod:`~loglinear.kernels.compiler` has how they are compiled and cached. A kernel may
call other kernels, which are looked up by their names in its module when it is compiled. With ``NUMBA_DISABLE_JIT``,
kernels run as the plain Python that they are.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator
from types import CodeType, ModuleType
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")

PACKAGE = "loglinear"
PLAIN_PYTHON = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
_lock = threading.RLock()


class Kernel:
    """A function that is compiled when it is first called.

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

    @functools.cached_property
    def compiled(self) -> Any:
        """Numba's dispatcher."""
        with _lock:  # no thread may see it before all that it names is in place
            if self._dispatcher is None:
                from loglinear.kernels.compiler import dispatcher  # imports Numba

                self._dispatcher = dispatcher(self.py_func, self.options)
                _resolve(self.py_func)
            return self._dispatcher

    @property
    def signatures(self) -> list[Any]:
        """The argument types that it has been compiled for so far."""
        return [] if self._dispatcher is None else list(self._dispatcher.signatures)

    def __call__(self, *arguments: Any) -> Any:
        return self.compiled(*arguments)


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
    """Compile ``function`` with Numba: cached on disk, the GIL released, IEEE arithmetic kept (-inf is legal)."""
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
    """The same, but sums may be made in any order, and products added without rounding them first.

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


def _resolve(function: Any) -> None:
    """Put what Numba compiles in place of the kernels and lane functions that the code of a kernel names."""
    spaces, names = function.__globals__, list(names_in(function.__code__))
    for name in names:
        value = spaces.get(name)
        if isinstance(value, Kernel | LaneFunction):
            spaces[name] = value.compiled
        elif isinstance(value, ModuleType) and value.__name__.startswith(PACKAGE + "."):
            for member in names:
                if isinstance(vars(value).get(member), Kernel | LaneFunction):
                    setattr(value, member, vars(value)[member].compiled)


def names_in(code: CodeType) -> Iterator[str]:
    """The names of globals and attributes in a function's code, those in nested functions too."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_in(constant)
