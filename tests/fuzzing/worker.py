"""Runs the cases of a target from one number to another, and says on standard output how they went, in lines of JSON.

``python -m fuzzing.worker TARGET SEED FIRST END BOARD MEGABYTES``. The number of the case under way is on a board, a
small file that is mapped into memory: whoever started the worker reads it there when the worker has died.
"""

from __future__ import annotations

import base64
import ctypes
import json
import mmap
import os
import resource
import struct
import sys
import time
import warnings
from collections import Counter
from typing import Any

import numpy as np

from fuzzing.targets import target

BOARD = struct.Struct("<qd")  # the number of the case, and the worker's CPU seconds when it began
EVERY = 1.0  # seconds between two reports


def main(name: str, seed: int, first: int, end: int, board: str, megabytes: int) -> None:
    out = os.fdopen(os.dup(1), "w", buffering=1)
    with open(os.devnull, "wb") as sink:  # what is printed in a case is not for the campaign
        os.dup2(sink.fileno(), 1)
    if os.environ.get("FUZZ_STDERR") is None:
        with open(os.devnull, "wb") as sink:
            os.dup2(sink.fileno(), 2)
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    chosen = target(name)
    chosen.prepare()
    pages = resource.getpagesize()

    def resident() -> int:
        with open("/proc/self/statm") as stream:
            return int(stream.read().split()[1]) * pages

    with open("/proc/self/statm") as stream:
        now = int(stream.read().split()[0]) * pages
    resource.setrlimit(resource.RLIMIT_AS, (now + megabytes * 10**6,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    start = resident()
    ctypes.CDLL(None).prctl(4, 1)  # what the kernel tells of this process may be read and reset
    _forget_peak()
    with open(board, "r+b") as stream:
        shown = mmap.mmap(stream.fileno(), BOARD.size)
    counts, slowest, peak, told = Counter[str](), (0.0, -1), (0.0, -1, 0), time.monotonic()
    highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    out.write(json.dumps({"ready": start}) + "\n")

    def report(coming: int, **more: Any) -> None:
        nonlocal counts, slowest, peak
        line = {"next": coming, "counts": counts, "slowest": slowest, "peak": peak, "resident": resident(), **more}
        out.write(json.dumps(line) + "\n")
        counts, slowest, peak = Counter(), (0.0, -1), (0.0, -1, 0)

    for number in range(first, end):
        before = time.process_time()
        BOARD.pack_into(shown, 0, number, before)
        part, content = chosen.case(seed, number)
        word, fault = chosen.outcome(part, content)
        counts[word] += 1
        counts[f"{part} "] += 1
        slowest = max(slowest, (time.process_time() - before, number))
        now_highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if now_highest > highest:  # kilobytes; the peak of the process so far
            highest = now_highest
            peak = max(peak, ((highest * 1024 - start) / 1e6, number, len(content)))
        if fault:
            report(number + 1, fault=fault, part=part, content=base64.b64encode(content).decode(), number=number)
        elif time.monotonic() - told > EVERY:
            report(number + 1)
            told = time.monotonic()
    report(end)


def _forget_peak() -> None:
    """Make the highest memory of this process what it has now."""
    try:
        with open("/proc/self/clear_refs", "w") as stream:
            stream.write("5")
    except OSError:
        pass  # then preparing counts, too


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5], int(sys.argv[6]))
