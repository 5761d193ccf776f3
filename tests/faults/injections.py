"""Faults that a command meets: called in its process before it begins."""

from __future__ import annotations

import errno
import io
import itertools
import os
import random
import resource
import shutil
import time
from typing import Any

from loglinear import system


def full_disk_at(n: int, names: list[str]) -> None:
    """The n-th of the calls that write, flush, rename or open a new file fails, and all later ones of its kind do.

    ``names`` are the kinds: ``write`` writes half of what it is given first, as a full disk does.
    """
    calls = itertools.count(1)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def is_over() -> bool:
        return next(calls) >= n

    if "write" in names:
        original = system._Writer.write

        def write(self: Any, data: Any) -> int:
            if is_over():
                whole = memoryview(data).cast("B")
                io.FileIO.write(self, whole[: len(whole) // 2])
                with system._naming(self._file):
                    raise full
            return original(self, data)

        system._Writer.write = write  # type: ignore[method-assign]
    for name in ("fsync", "replace", "rename"):
        if name in names:
            setattr(os, name, _failing(getattr(os, name), is_over, full))
    if "open" in names:
        really = os.open

        def open_(path: Any, flags: int, *more: Any, **named: Any) -> int:
            if flags & os.O_CREAT and is_over():
                raise full
            return really(path, flags, *more, **named)

        os.open = open_


def _failing(function: Any, is_over: Any, error: OSError) -> Any:
    def call(*arguments: Any, **named: Any) -> Any:
        if is_over():
            raise error
        return function(*arguments, **named)

    return call


def largest_file(n_bytes: int) -> None:
    """No file may grow beyond some bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, n_bytes))


def more_memory(n_bytes: int) -> None:
    """The process may take some bytes more than it has."""
    with open("/proc/self/statm") as stream:
        now = int(stream.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + n_bytes, now + n_bytes))


def jumping_clock(seed: int, monotonic: bool) -> None:
    """The time of day jumps by years, forwards and back, at each look; with ``monotonic`` other clocks leap ahead."""
    rng = random.Random(seed)
    time.time = lambda: rng.uniform(-1e9, 5e9)
    if monotonic:
        for name in ("monotonic", "perf_counter"):
            setattr(time, name, _leaping(getattr(time, name), rng))


def _leaping(clock: Any, rng: random.Random) -> Any:
    ahead = [0.0]

    def read() -> float:
        ahead[0] += rng.choice((0.0, 0.0, 0.0, 1e3, 1e7))
        return float(clock() + ahead[0])

    return read


def folder_goes(folder: str, after: float) -> None:
    """A folder is removed while the command runs."""
    import threading

    def remove() -> None:
        time.sleep(after)
        shutil.rmtree(folder, ignore_errors=True)

    threading.Thread(target=remove, daemon=True).start()
