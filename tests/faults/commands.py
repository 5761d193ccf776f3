"""Commands in processes of their own that start at once: children of a server that has imported everything.

The moments that matter, a file being written or a checkpoint renamed, are then a large part of what a command does, and
a campaign of hundreds of kills takes minutes. What runs is :func:`loglinear.cli.main`, and the kills are real.
"""

from __future__ import annotations

import ctypes
import fcntl
import importlib
import json
import os
import pkgutil
import resource
import select
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import loglinear

TESTS = Path(__file__).parents[1]
SOURCE = Path(loglinear.__file__).parents[1]
NUMBA = ("compiler", "vectors", "cache", "build")  # modules that import it, which few commands need


@dataclass
class Ended:
    """How a command ended: its status, as subprocess gives it, the seconds it took and what it said."""

    status: int
    seconds: float
    said: str

    @property
    def is_clear(self) -> bool:
        """Whether it succeeded, or failed with a message instead of a traceback or a crash."""
        return self.status == 0 or (
            self.status in (1, 2) and "loglinear:" in self.said and "Traceback" not in self.said
        )


class Server:
    """Starts commands, one at a time, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.temporary = folder, folder / "temporary"
        self.temporary.mkdir(exist_ok=True)
        environment = {
            **os.environ, "PYTHONPATH": f"{SOURCE}:{TESTS}", "TMPDIR": str(self.temporary), "OPENBLAS_NUM_THREADS": "1",
        }  # fmt: skip
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from faults.commands import serve; serve()"],
            cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._pid = 0

    def start(self, *arguments: Any, fault: str = "", inputs: Any = (), cwd: Path | None = None) -> int:
        """Start a command; ``fault`` names a function of :mod:`faults.injections`, called with ``inputs`` before it."""
        request = {
            "arguments": [*map(str, arguments)], "fault": fault, "inputs": list(inputs), "cwd": str(cwd or self.folder)
        }  # fmt: skip
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        self._pid, self._began = int(self._process.stdout.readline()), time.perf_counter()
        return self._pid

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal to the command, which may have ended; the server waits for our word before it forgets it."""
        os.kill(self._pid, number)

    def has_ended(self, within: float) -> bool:
        """Wait for the command's end for some seconds."""
        assert self._process.stdout is not None
        return bool(select.select([self._process.stdout], [], [], within)[0])

    def end(self, within: float = 300.0) -> Ended:
        """How the command ended."""
        assert self._process.stdin is not None and self._process.stdout is not None
        if not self.has_ended(within):
            self.kill()
            raise TimeoutError(f"no end after {within} s")
        said = json.loads(self._process.stdout.readline())
        seconds = time.perf_counter() - self._began
        self._process.stdin.write("\n")  # now it may be waited for, and its number used again
        self._process.stdin.flush()
        status = int(self._process.stdout.readline())
        return Ended(os.waitstatus_to_exitcode(status), seconds, said)

    def run(self, *arguments: Any, **more: Any) -> Ended:
        """Start a command and wait for its end."""
        self.start(*arguments, **more)
        return self.end()

    def close(self) -> None:
        """End the server."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def left_behind(self) -> list[str]:
        """What lies in the temporary folder."""
        return sorted(path.name for path in self.temporary.iterdir())


def serve() -> None:
    """Be a server: a line of JSON for each command."""
    for module in pkgutil.walk_packages(loglinear.__path__, "loglinear."):
        extra = module.name.startswith("loglinear.integrations.")  # of packages that need not be there
        if not extra and module.name.rpartition(".")[2] not in (*NUMBA, "__main__", "script"):
            importlib.import_module(module.name)
    for line in sys.stdin:
        request = json.loads(line)
        reader, writer = os.pipe()  # not a file, which a command may be forbidden to write
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 1 << 20)
        pid = os.fork()
        if pid == 0:
            _be(request, writer)
        os.close(writer)
        print(pid, flush=True)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # it keeps its number until the client knows
        os.set_blocking(reader, False)
        try:
            said = os.read(reader, 1 << 20).decode(errors="replace")
        except BlockingIOError:
            said = ""  # children of its own have it open
        os.close(reader)
        print(json.dumps(said), flush=True)
        sys.stdin.readline()
        print(os.waitpid(pid, 0)[1], flush=True)


def _be(request: dict[str, Any], said: int) -> None:
    """Become the command, in a forked child."""
    status = 1
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for ours, standard in ((nothing, 0), (nothing, 1), (said, 2)):
            os.dup2(ours, standard)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
        sys.argv = ["loglinear", *request["arguments"]]
        os.chdir(request["cwd"])
        if request["fault"]:
            from faults import injections

            getattr(injections, request["fault"])(*request["inputs"])
        loglinear_main = importlib.import_module("loglinear.cli").main
        loglinear_main()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(bool(end.code))
    except BaseException:
        traceback.print_exc()
    try:
        import atexit

        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


class Changes:
    """The changes in a folder as they happen: files made, written, renamed (Linux)."""

    MASK = 0x100 | 0x2 | 0x4 | 0x8 | 0x40 | 0x80 | 0x200  # create, modify, attrib, close, moved from and to, delete

    def __init__(self, folder: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init1(os.O_NONBLOCK)
        libc.inotify_add_watch(self._descriptor, os.fsencode(folder), self.MASK)

    def wait(self, n: int, within: float, ended: Any = lambda: False) -> int:
        """Wait for ``n`` changes, some seconds, or the end of what makes them: how many there were."""
        seen, last = 0, time.perf_counter() + within
        while seen < n and time.perf_counter() < last:
            if select.select([self._descriptor], [], [], 0.02)[0]:
                data, at = os.read(self._descriptor, 1 << 16), 0
                while at < len(data):
                    at += 16 + int.from_bytes(data[at + 12 : at + 16], sys.byteorder)
                    seen += 1
            elif ended():
                break
        return seen

    def close(self) -> None:
        """Watch no longer."""
        os.close(self._descriptor)
