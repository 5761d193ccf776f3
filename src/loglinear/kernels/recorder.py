"""Which kernels are called from Python, and with which types of arguments: what is to be compiled ahead.

While calls are recorded, kernels run as plain Python: on small data that is quicker than compiling them, and those that
other kernels call are told apart from those that Python calls.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from loglinear.kernels import Kernel
from loglinear.kernels.signature import Description, UnsupportedTypeError, describe


class Calls:
    """The signatures of each kernel that was called, and the calls whose arguments cannot be described."""

    def __init__(self) -> None:
        self.signatures: dict[str, list[list[Description]]] = {}
        self.unsupported: dict[str, str] = {}
        self._seen: set[str] = set()
        self._inside = threading.local()

    def run(self, kernel: Kernel, arguments: tuple[Any, ...]) -> Any:
        """Run a kernel as plain Python; note the call unless another kernel makes it."""
        if getattr(self._inside, "kernel", False):
            return kernel.py_func(*arguments)
        self._note(kernel, arguments)
        self._inside.kernel = True
        try:
            with np.errstate(all="ignore"):
                return _boxed(kernel.py_func(*arguments))
        finally:
            self._inside.kernel = False

    def _note(self, kernel: Kernel, arguments: tuple[Any, ...]) -> None:
        try:
            signature = [describe(argument) for argument in arguments]
        except UnsupportedTypeError as error:
            self.unsupported[kernel.name] = str(error)
            return
        key = json.dumps([kernel.name, signature])
        if key not in self._seen:
            self._seen.add(key)
            self.signatures.setdefault(kernel.name, []).append(signature)


def _boxed(value: Any) -> Any:
    """A kernel's result as compiled code gives it: Python's numbers instead of NumPy's."""
    if isinstance(value, tuple):
        return type(value)(*map(_boxed, value)) if hasattr(value, "_fields") else tuple(map(_boxed, value))
    return value.item() if isinstance(value, np.generic) else value


@contextmanager
def recorded() -> Iterator[Calls]:
    """The calls of kernels in the block."""
    calls, as_it_was = Calls(), Kernel.__call__
    setattr(Kernel, "__call__", lambda kernel, *arguments: calls.run(kernel, arguments))  # noqa: B010
    try:
        yield calls
    finally:
        setattr(Kernel, "__call__", as_it_was)  # noqa: B010
