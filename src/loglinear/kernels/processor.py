"""The processor that kernels are compiled for: a level that many have, so that all of these round the same.

On x86 that is x86-64-v3 (AVX2 and FMA: Intel's since 2013, AMD's since 2015), where the processor has it: machine code
for it is as fast as for the processor itself, and a model trained on one machine has the same bits on another. On
arm64 it is what all of them have. Nothing here needs Numba.
"""

from __future__ import annotations

import os
import platform
import struct
import sys
from functools import cache
from pathlib import Path

X86, ARM = "x86-64-v3", "generic"
_V3 = {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"}


@cache
def level() -> str | None:
    """LLVM's name of the level that kernels are compiled for, or None: for this processor alone."""
    if os.environ.get("NUMBA_CPU_NAME") or struct.calcsize("P") != 8:
        return None
    machine = platform.machine().lower()
    if machine in ("arm64", "aarch64"):
        return ARM
    return X86 if machine in ("x86_64", "amd64") and _flags() >= _V3 else None


def platform_name() -> str:
    """The machine code's format and instructions, as in the names of wheels."""
    return f"{sys.platform}-{platform.machine().lower()}"


def _flags() -> set[str]:
    """What the first processor can do, as Linux says; empty elsewhere."""
    try:
        with Path("/proc/cpuinfo").open() as lines:  # a line at a time: there is a page for each core
            return next((set(line.split()) for line in lines if line.startswith("flags")), set())
    except OSError:
        return set()
