"""Jobs in separate processes of this machine, each of which has its memory and its clock for itself.

A worker reads jobs from its standard input and answers on its standard output, both in pickles, one after the other:

    ("value", token, value)                          ("progress", what), now and then
    ("job", bytes)                                   ("result", what)    ("error", a LoglinearError)

It exits when its input ends, even in the middle of a job, so that none survives the process that started it. It removes
its temporary files then, and ends the processes that it has started.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, NoReturn

import loglinear
from loglinear import ending
from loglinear.errors import LoglinearError
from loglinear.experiments.pools.pool import SECONDS_BETWEEN, SILENT, Emit, Job, OutOfMemory, Pool, Say, Stopped
from loglinear.experiments.pools.shared import pickled, unpickled

THREAD_POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
SECONDS_TO_END = 0.5
KILLED = (-9, 137)
START = "import sys; sys.path += sys.argv[1:]; from loglinear.experiments.pools.processes import serve; serve()"


class ProcessPool(Pool):
    """Does at most ``n`` jobs at a time, each in a process that does nothing else meanwhile."""

    def __init__(self, n: int) -> None:
        self.n = n
        self._workers: list[_Worker] = []
        self._idle: list[_Worker] = []
        self._closed, self._lock = False, threading.Lock()

    def close(self) -> None:
        """End the workers, whatever they are doing."""
        with self._lock:
            self._closed = True
            for worker in self._workers:
                worker.end()
            self._workers.clear()

    def stop(self) -> None:
        """End the workers: there is no other way to stop what they do."""
        self.close()

    def do(self, name: str, job: Job, emit: Emit = SILENT) -> Any:
        """Do a job in a process that has as many threads as it asks for."""
        with self._lock:
            if self._closed:
                raise Stopped
            worker = next((worker for worker in self._idle if worker.threads == job.threads), None)
            if worker is None:
                worker = _Worker(job.threads)
                self._workers.append(worker)
            else:
                self._idle.remove(worker)
        result = worker.do(job, emit)
        self._idle.append(worker)
        return result


class _Worker:
    """A process that does jobs, one after the other.

    It is isolated from the current folder, the environment and the site (``-I -S``) and has this process's module path:
    a file ``queue.py`` in the current folder does not hide Python's.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._has: set[str] = set()  # tokens of the shared values it has been sent
        package, here = str(Path(loglinear.__file__).resolve().parents[1]), os.path.realpath(os.getcwd())
        path = [package, *(place for place in sys.path if place and os.path.realpath(place) != here)]
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the worker
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", START, *path],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr,
            env={**os.environ, **dict.fromkeys(THREAD_POOLS, str(threads))},
            start_new_session=True,  # Ctrl-C is for this process, which then ends the worker
        )  # fmt: skip

    def do(self, job: Job, say: Say) -> Any:
        """Do a job; what it raises is raised here."""
        assert self._process.stdin is not None and self._process.stdout is not None
        data, needed = pickled(job)
        with suppress(BrokenPipeError):  # it has exited: there will be no answer
            for token in needed.keys() - self._has:
                pickle.dump(("value", token, needed[token].value), self._process.stdin, protocol=5)
            pickle.dump(("job", data), self._process.stdin)
            self._process.stdin.flush()
            self._has |= needed.keys()
        with suppress(EOFError, pickle.UnpicklingError):  # it has exited, perhaps in the middle of an answer
            while True:
                what, *content = pickle.load(self._process.stdout)
                if what == "result":
                    return content[0]
                if what == "error":
                    raise content[0]
                say(content[0])
        status = self._process.wait()
        if status in KILLED:
            raise OutOfMemory("killed by the system, probably because memory ran out")
        self._stderr.seek(0)
        text = self._stderr.read().decode(errors="replace").strip().splitlines()
        reason = text[-1] if text else "no error message"
        raise LoglinearError(f"the worker process ended with status {status}: {reason}")

    def end(self) -> None:
        """End the process, by force if it does not end soon, and those that it has started."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        with suppress(BrokenPipeError):  # closing flushes a job that it will never read
            process.stdin.close()
        try:
            process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            _kill_group(process.pid)
            process.wait()
        process.stdout.close()
        self._stderr.close()


def _kill_group(leader: int) -> None:
    """Kill the processes of a session, of which a worker is the first."""
    with suppress(OSError):  # there is none any more
        os.killpg(leader, signal.SIGKILL)


def serve() -> None:
    """Work as a worker process: do the jobs of standard input."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keep stray prints out of the replies
    requests: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
    last = 0.0

    def listen() -> None:
        stdin = os.fdopen(os.dup(0), "rb")  # sys.stdin must not be in use when the interpreter ends
        with suppress(EOFError, pickle.UnpicklingError):
            while True:
                requests.put(pickle.load(stdin))
        ending.force_end(0)  # the parent has exited or closed the pipe

    def reply(*content: Any) -> None:
        replies.write(pickle.dumps(content, protocol=5))
        replies.flush()

    def say(progress: Any) -> None:
        nonlocal last
        if time.perf_counter() - last >= SECONDS_BETWEEN:
            last = time.perf_counter()
            reply("progress", progress)

    threading.Thread(target=listen, daemon=True).start()
    with ending.before_forced_end(partial(_kill_group, os.getpid())):  # the last of what is done: it is in the group
        _answer(requests, reply, say)


def _answer(requests: queue.SimpleQueue[tuple[Any, ...]], reply: Callable[..., None], say: Say) -> NoReturn:
    held: dict[str, Any] = {}
    while True:
        what, *content = requests.get()
        if what == "value":
            token, value = content
            held[token] = value
            continue
        job: Job = unpickled(content[0], held)
        try:
            reply("result", job.measure(say))
        except LoglinearError as error:
            reply("error", error)
        except MemoryError:
            reply("error", OutOfMemory("out of memory"))
