"""Threads for kernels that release the GIL."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from loglinear.errors import OptionError

A = TypeVar("A")
B = TypeVar("B")


def available_cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def thread_count(threads: int | None) -> int:
    """What a user's ``threads`` means: all cores if None."""
    if threads is None:
        return available_cores()
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise OptionError(f"threads={threads!r} must be a whole number from 1 up, or None for all cores")
    return threads


def in_threads(function: Callable[[A], B], items: Iterable[A], n_threads: int) -> list[B]:
    """``[function(x) for x in items]`` on up to ``n_threads`` threads."""
    items = list(items)
    if n_threads <= 1 or len(items) <= 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(min(n_threads, len(items))) as pool:
        return list(pool.map(function, items))
