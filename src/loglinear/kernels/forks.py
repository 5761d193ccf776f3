"""Forks while another thread compiles: the child has only the forking thread, and locks of others would stay locked."""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401  # has a hook of forks, as logging has: of the hooks, the last made is first
import logging  # noqa: F401
import os
import sys
import time
from typing import Any

import numpy.ma  # noqa: F401  # Numba imports it at its first array, outside its lock: a fork must not meet that

from loglinear.kernels import _lock

_held: list[Any] = []  # locks held while the process forks


def _before_fork() -> None:
    """Wait until no other thread compiles."""
    while True:
        _lock.acquire()
        numba = sys.modules.get("numba.core.compiler_lock")
        compiling = getattr(getattr(numba, "global_compiler_lock", None), "_lock", None)
        if compiling is None or compiling.acquire(timeout=0.01):
            break
        _lock.release()  # whoever compiles may need it
        time.sleep(0.01)
    _held[:] = [lock for lock in (compiling, _lock) if lock is not None]


def _after_fork() -> None:
    for lock in _held:
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
