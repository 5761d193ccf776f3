"""The machine: threads for kernels that release the GIL, and a folder for files that can be made or fetched again."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from queue import SimpleQueue
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
    """The number of threads that a user's ``threads`` asks for: all cores if None."""
    if threads is None:
        return available_cores()
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise OptionError(f"threads={threads!r} must be a whole number from 1 up, or None for all cores")
    return threads


def in_threads(function: Callable[[A], B], items: Iterable[A], n_threads: int) -> list[B]:
    """``[function(x) for x in items]`` on up to ``n_threads`` threads, of which the caller's is one.

    A caller that only waited would often leave its core idle for some milliseconds, with two threads on another one.
    An item that fails keeps later ones from being started; of several, the first one's error is raised.
    """
    items = list(items)
    n_threads = min(n_threads, len(items))
    if n_threads <= 1:
        return [function(item) for item in items]
    results, errors, waiting = dict[int, B](), dict[int, BaseException](), SimpleQueue[int | None]()
    for k in (*range(len(items)), *[None] * n_threads):
        waiting.put(k)

    def work() -> None:
        while (k := waiting.get()) is not None and not errors:
            try:
                results[k] = function(items[k])
            except BaseException as error:  # raised below
                errors[k] = error

    with ThreadPoolExecutor(n_threads - 1) as pool:
        for _ in range(n_threads - 1):
            pool.submit(work)
        work()
    if errors:
        raise errors[min(errors)]
    return [results[k] for k in range(len(items))]


# ----------------------------------------------------------------------------------------------------------------------
# The cache: compiled kernels, downloaded corpora.


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def cache_warning() -> str:
    """A warning if ``LOGLINEAR_CACHE`` is set but not usable, else an empty string."""
    wanted = os.environ.get("LOGLINEAR_CACHE")
    if not wanted or cache_folder() == Path(wanted):
        return ""
    return f"LOGLINEAR_CACHE={wanted} is not a writable folder; using {cache_folder()}"


@cache
def cache_folder() -> Path:
    """``LOGLINEAR_CACHE`` if it is set, else the user's cache folder, else a temporary one."""
    candidates = []
    if os.environ.get("LOGLINEAR_CACHE"):
        candidates.append(Path(os.environ["LOGLINEAR_CACHE"]))
    user_cache = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    with suppress(RuntimeError):  # no home folder
        candidates.append((Path(user_cache) if user_cache else Path.home() / ".cache") / "loglinear")
    candidates.append(Path(tempfile.gettempdir()) / f"loglinear-{os.getuid() if hasattr(os, 'getuid') else 'user'}")
    for candidate in candidates:
        if _is_writable(candidate):
            return candidate
    return Path(tempfile.mkdtemp(prefix="loglinear-"))
