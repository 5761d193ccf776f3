"""What cases need of a machine: a file, in memory where there is a place for that, and the command line."""

from __future__ import annotations

import atexit
import io
import os
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path


@cache
def folder() -> Path:
    """A folder of this process's own."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    made = Path(tempfile.mkdtemp(prefix="loglinear-fuzz-", dir=place))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def scratch(name: str, content: bytes) -> Path:
    """A file of that name and content; the next one of that name replaces it."""
    path = folder() / name
    path.write_bytes(content)
    return path


def command(*arguments: object, stdin: bytes = b"") -> tuple[int, str, str]:
    """The command line run in this process as a program would run it: status, standard output and standard error."""
    from loglinear import cli
    from loglinear.streams import standard_streams

    before = sys.argv, sys.stdin, sys.stdout, sys.stderr
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    sys.argv = ["loglinear", *map(str, arguments)]
    sys.stdin, sys.stdout, sys.stderr = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"), out, err
    status: object = 0
    try:
        with standard_streams():
            cli._run()
    except SystemExit as end:
        status = end.code
    finally:
        sys.argv, sys.stdin, sys.stdout, sys.stderr = before
    texts = (stream.buffer.getvalue().decode("utf-8", "replace") for stream in (out, err))  # type: ignore[attr-defined]
    return int(str(status or 0)), *texts
