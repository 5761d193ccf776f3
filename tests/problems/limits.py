"""Code in a child process with little memory and little time: what would fill the machine fails there instead."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src"
TESTS = Path(__file__).parents[1]
_START = """
import resource, sys
sys.path[:0] = {paths!r}
{imports}
with open("/proc/self/statm") as stream:
    now = int(stream.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + {megabytes} * 10**6,) * 2)
"""


def limited(code: str, *, megabytes: int = 300, seconds: float = 60.0, imports: str = "import loglinear") -> str:
    """What ``code`` prints, in a Python that has ``megabytes`` more than after its ``imports``, and so many seconds.

    Raises
    ------
    AssertionError
        With its standard error, if it ends with an error or takes too long.
    """
    start = _START.format(paths=[str(SOURCES), str(TESTS)], imports=imports, megabytes=megabytes)
    run = subprocess.run([sys.executable, "-c", start + code], capture_output=True, text=True, timeout=seconds)
    assert run.returncode == 0, run.stderr
    return run.stdout
