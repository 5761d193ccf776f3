"""Runs the cases of a target from one number to another, and says on standard output how they went, in lines of JSON.

``python -m fuzzing.worker TARGET SEED FIRST END BOARD MEGABYTES [twice]``. The number of the case under way is on a
board, a small file that is mapped into memory: whoever started the worker reads it there when the worker has died. With
``twice`` the first case is done once before it is measured.
"""

from __future__ import annotations

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
from contextlib import suppress
from typing import Any

import numpy as np

from fuzzing.targets import target

BOARD = struct.Struct("<qd")  # the number of the case, and the worker's CPU seconds when it began
EVERY = 1.0  # seconds between two reports


def main(name: str, seed: int, first: int, end: int, board: str, megabytes: int, twice: bool = False) -> None:
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
    with open(board, "r+b") as stream:
        shown = mmap.mmap(stream.fileno(), BOARD.size)
    if twice:
        BOARD.pack_into(shown, 0, first, time.process_time())
        chosen.outcome(*chosen.case(seed, first))
    now = _memory("VmSize")
    resource.setrlimit(resource.RLIMIT_AS, (now + megabytes * 10**6,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.CDLL(None).prctl(4, 1)  # what the kernel tells of this process may be read and reset
    counts, slowest, peak, told = Counter[str](), (0.0, -1), (0.0, -1, 0), time.monotonic()
    out.write(json.dumps({"ready": _memory("VmRSS")}) + "\n")

    def report(coming: int, **more: Any) -> None:
        nonlocal counts, slowest, peak
        line = {
            "next": coming,
            "counts": counts,
            "slowest": slowest,
            "peak": peak,
            "resident": _memory("VmRSS"),
            **more,
        }
        out.write(json.dumps(line) + "\n")
        counts, slowest, peak = Counter(), (0.0, -1), (0.0, -1, 0)

    for number in range(first, end):
        part, content = chosen.case(seed, number)
        _forget_peak()
        before, resident = time.process_time(), _memory("VmRSS")
        BOARD.pack_into(shown, 0, number, before)
        word, fault = chosen.outcome(part, content)
        counts[word] += 1
        counts[f"{part} "] += 1
        slowest = max(slowest, (time.process_time() - before, number))
        peak = max(peak, ((_memory("VmHWM") - resident) / 1e6, number, len(content)))
        if fault:
            report(number + 1, fault=fault, number=number)
        elif time.monotonic() - told > EVERY:
            report(number + 1)
            told = time.monotonic()
    report(end)


def _memory(kind: str) -> int:
    """Bytes of this process: of address space (VmSize), in memory now (VmRSS) and at most (VmHWM)."""
    with open("/proc/self/status") as stream:
        return next(int(line.split()[1]) * 1024 for line in stream if line.startswith(kind))


def _forget_peak() -> None:
    """Make the highest memory of this process what it has now."""
    with suppress(OSError), open("/proc/self/clear_refs", "w") as stream:
        stream.write("5")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5], int(sys.argv[6]), twice=sys.argv[7:] == ["twice"])
