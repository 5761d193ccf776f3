"""The machine: threads for kernels that release the GIL, memory, and a folder for files that can be made again."""

from __future__ import annotations

import math
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
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
# Memory: what a request would need is compared with what there is before any of it is allocated, since systems that
# promise more than they have end a process without a word.

MEMORY = "LOGLINEAR_MEMORY"
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def _limits() -> Iterator[int]:
    """The bytes that the machine, a control group and the shell's ``ulimit -v`` leave to a process."""
    with suppress(AttributeError, ValueError, OSError):
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for place in _CGROUPS:
        with suppress(OSError, ValueError):  # ValueError: "max", no limit
            yield int(Path(place).read_text())
    with suppress(ImportError):
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_AS)
        if soft != resource.RLIM_INFINITY:
            yield soft


def memory() -> int:
    """Bytes that this process may use: ``LOGLINEAR_MEMORY`` if it is set, else what machine and control group have."""
    if given := os.environ.get(MEMORY):
        match = re.fullmatch(r"(\d{1,12})([kMGT]?)", given, re.ASCII)
        if match is None:
            raise OptionError(f"{MEMORY}={given} must be a number of bytes, such as 500M or 16G")
        return int(match[1]) * _UNITS[match[2]]
    return min(_limits(), default=2**63 - 1)


def size_of(n_bytes: float) -> str:
    """A number of bytes as text: ``3.2 GB``."""
    for unit in ("bytes", "kB", "MB", "GB", "TB", "PB"):
        if n_bytes < 1000 or unit == "PB":
            break
        n_bytes /= 1000
    return f"{n_bytes:,.0f} {unit}" if unit == "bytes" or n_bytes >= 100 else f"{n_bytes:.2g} {unit}"


def too_large(n_bytes: float) -> str:
    """What is wrong with a request for ``n_bytes``, and how to allow it; empty if there is as much memory."""
    if n_bytes < 10**8 or n_bytes <= (limit := memory()):  # so little is not worth a look at the machine
        return ""
    return (
        f"needs about {size_of(n_bytes)} of memory, but this process may use {size_of(limit)} "
        f"(what the machine has; to allow more, set {MEMORY}, as in {MEMORY}={max(1, math.ceil(n_bytes / 1e9))}G)"
    )


def check_memory(n_bytes: float, what: str, remedy: str = "") -> None:
    """Refuse, as an :class:`OptionError`, what would take more than :func:`memory`; ``what`` begins the message."""
    if wrong := too_large(n_bytes):
        raise OptionError(f"{what} {wrong}{'; ' if remedy else ''}{remedy}")


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
