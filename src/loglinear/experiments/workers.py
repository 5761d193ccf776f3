"""Parallel work: trainings on threads of this process, and jobs in separate processes.

A :class:`Pool` runs tasks on threads, and passes their results to the thread that called it: bookkeeping, files and
messages need no locks. A :class:`Job` is done by a worker process, which reads jobs from its standard input, a line of
JSON each, and answers in lines of JSON:

    {"progress": text}, now and then          {"result": ...}          {"error": text, "class": name}

A worker exits when its input ends, even in the middle of a job, so that none survives the process that started it. It
removes its temporary files then, and ends the processes that it has started.
"""

from __future__ import annotations

import importlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, ClassVar, NoReturn, Self

import loglinear
from loglinear import ending, errors
from loglinear.errors import LoglinearError

Say = Callable[[str], None]
Emit = Callable[[Any], None]
Task = Callable[[Emit], None]
THREAD_POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
SECONDS_BETWEEN = 0.5  # two lines of progress
SECONDS_TO_END = 0.5
KILLED = (-9, 137)
START = "import sys; sys.path += sys.argv[1:]; from loglinear.experiments.workers import serve; serve()"


class OutOfMemory(LoglinearError):
    """A worker ran out of memory."""


class Stopped(Exception):
    """Raised in a task that must end, because another failed or the user interrupted."""


@dataclass(frozen=True)
class Job:
    """What a worker has to do, as plain data. Each kind of experiment adds its own fields.

    Parameters
    ----------
    kind : str
        Which of :attr:`MEASURES` does it.
    threads : int
        Threads of the process.
    """

    MEASURES: ClassVar[
        dict[str, str]
    ] = {}  # from kind to "module:function", called with the job and a progress callback

    kind: str
    threads: int = field(default=1, kw_only=True)

    def measure(self, say: Say = lambda text: None) -> dict[str, Any]:
        """Do it in this process. Only the module of its kind is imported, so that memory is the job's own."""
        module, _, name = self.MEASURES[self.kind].partition(":")
        result: dict[str, Any] = getattr(importlib.import_module(module), name)(self, say)
        return result

    def to_dict(self) -> dict[str, Any]:
        """All fields, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """The job of :meth:`to_dict`, also after JSON made lists of tuples."""
        tuples: dict[str, Any] = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
        return cls(**{**fields, **tuples})


_warmed: set[str] = set()


def warm_up(kind: str, small_version: Callable[[], object]) -> None:
    """Run a small version of a job, so that its kernels are compiled and loaded, unless this process has done so.

    Errors are left for the job itself to raise.
    """
    if kind not in _warmed:
        _warmed.add(kind)
        with suppress(LoglinearError):
            small_version()


# ----------------------------------------------------------------------------------------------------------------------
# The pool.


@dataclass(frozen=True)
class _Failure:
    error: BaseException


_DONE = object()


class Pool:
    """Runs at most ``n`` tasks or jobs at a time; as a context it ends its workers."""

    def __init__(self, n: int) -> None:
        self.n = n
        self._workers: list[_Worker] = []
        self._idle: list[_Worker] = []
        self._closed, self._lock = False, threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers, whatever they are doing."""
        with self._lock:
            self._closed = True
            for worker in self._workers:
                worker.end()
            self._workers.clear()

    def stream(self, tasks: Iterable[Task]) -> Generator[Any, None, None]:
        """What the tasks emit, as it comes; tasks are started in their order.

        A task's error is raised here. Then, and when the iterator is closed, the other tasks are stopped: at the next
        item they emit, or by ending their workers.
        """
        all_tasks = list(tasks)
        waiting, stopping = iter(all_tasks), threading.Event()  # a list's iterator is safe on several threads
        items: queue.SimpleQueue[Any] = queue.SimpleQueue()

        def emit(item: Any) -> None:
            if stopping.is_set():
                raise Stopped
            items.put(item)

        def work() -> None:
            try:
                while (task := next(waiting, None)) is not None and not stopping.is_set():
                    task(emit)
                items.put(_DONE)
            except BaseException as error:
                items.put(_Failure(error))

        threads = [threading.Thread(target=work, daemon=True) for _ in range(min(self.n, len(all_tasks)))]
        running = len(threads)
        for thread in threads:
            thread.start()
        try:
            while running:
                item = items.get()
                if isinstance(item, _Failure):
                    raise item.error
                if item is _DONE:
                    running -= 1
                else:
                    yield item
        finally:
            stopping.set()
            if running:
                self.close()
            for thread in threads:
                thread.join()

    def run(self, jobs: Mapping[str, Job], observe: Callable[[str, str], None] | None = None) -> Iterator[Any]:
        """Each job's name and result when it is finished; ``observe`` is called with names and progress."""
        with closing(self.stream(partial(self._do, name, job) for name, job in jobs.items())) as items:
            for name, text, result in items:
                if text is None:
                    yield name, result
                elif observe is not None:
                    observe(name, text)

    def _do(self, name: str, job: Job, emit: Emit) -> None:
        with self._lock:
            if self._closed:
                raise Stopped
            worker = next((worker for worker in self._idle if worker.threads == job.threads), None)
            if worker is None:
                worker = _Worker(job.threads)
                self._workers.append(worker)
            else:
                self._idle.remove(worker)
        result = worker.do(name, job, lambda text: emit((name, text, None)))
        self._idle.append(worker)
        emit((name, None, result))


class _Worker:
    """A process that does jobs, one after the other.

    It is isolated from the current folder, the environment and the site (``-I -S``) and has this process's module path:
    a file ``queue.py`` in the current folder does not hide Python's.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        package, here = str(Path(loglinear.__file__).resolve().parents[1]), os.path.realpath(os.getcwd())
        path = [package, *(place for place in sys.path if place and os.path.realpath(place) != here)]
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the worker
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", START, *path],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, text=True, encoding="utf-8",
            env={**os.environ, **dict.fromkeys(THREAD_POOLS, str(threads))},
            start_new_session=True,  # Ctrl-C is for this process, which then ends the worker
        )  # fmt: skip

    def do(self, name: str, job: Job, say: Say) -> dict[str, Any]:
        """Do a job; what it raises is raised here."""
        assert self._process.stdin is not None and self._process.stdout is not None
        place = f"{type(job).__module__}:{type(job).__qualname__}"
        with suppress(BrokenPipeError):  # it has exited: there will be no answer
            self._process.stdin.write(json.dumps({"class": place, "fields": job.to_dict()}) + "\n")
            self._process.stdin.flush()
        for line in self._process.stdout:
            reply: dict[str, Any] = json.loads(line)
            if "result" in reply:
                result: dict[str, Any] = reply["result"]
                return result
            if "error" in reply:
                raise _error(reply["class"])(f"{name}: {reply['error']}")
            say(reply["progress"])
        status = self._process.wait()
        if status in KILLED:
            raise OutOfMemory(f"{name}: killed by the system, probably because memory ran out")
        self._stderr.seek(0)
        text = self._stderr.read().decode(errors="replace").strip().splitlines()
        reason = text[-1] if text else "no error message"
        raise LoglinearError(f"{name}: the worker process ended with status {status}: {reason}")

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


def _error(name: str) -> type[LoglinearError]:
    """The class of an error that a worker reports by name."""
    if name == OutOfMemory.__name__:
        return OutOfMemory
    kind: type[LoglinearError] = getattr(errors, name, LoglinearError)
    return errors.DataError if kind is errors.InfeasibleError else kind  # its constructor takes a number


def serve() -> None:
    """Work as a worker process: do the jobs of standard input."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # keep stray prints out of the replies
    requests: queue.SimpleQueue[str] = queue.SimpleQueue()
    last = 0.0

    def listen() -> None:
        for line in sys.stdin:
            requests.put(line)
        ending.force_end(0)  # the parent has exited or closed the pipe

    def reply(**content: Any) -> None:
        replies.write(json.dumps(content) + "\n")
        replies.flush()

    def say(text: str) -> None:
        nonlocal last
        if time.perf_counter() - last >= SECONDS_BETWEEN:
            last = time.perf_counter()
            reply(progress=text)

    threading.Thread(target=listen, daemon=True).start()
    with ending.before_forced_end(partial(_kill_group, os.getpid())):  # the last of what is done: it is in the group
        _answer(requests, reply, say)


def _answer(requests: queue.SimpleQueue[str], reply: Callable[..., None], say: Say) -> NoReturn:
    while True:
        request = json.loads(requests.get())
        module, _, name = request["class"].partition(":")
        job: Job = getattr(importlib.import_module(module), name).from_dict(request["fields"])
        try:
            reply(result=job.measure(say))
        except LoglinearError as error:
            reply(**{"error": str(error), "class": type(error).__name__})
        except MemoryError:
            reply(**{"error": "out of memory", "class": OutOfMemory.__name__})
