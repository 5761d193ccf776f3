"""What runs the jobs of an experiment.

A :class:`Pool` runs *tasks* on threads of this process and passes what they find to the thread that asked: bookkeeping,
files and messages need no locks. A task does *jobs*, one after the other, by :meth:`Pool.do`. Pools differ in where a
job is done: in the task's own thread, in another process, or on a worker of a cluster. The result is the same.
"""

from __future__ import annotations

import importlib
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, ClassVar, Self

from loglinear.errors import DataError, InfeasibleError, LoglinearError

Say = Callable[[Any], None]
Task = Callable[["Emit"], None]
SECONDS_BETWEEN = 0.5  # two reports of progress from another process
POLL_SECONDS = 0.2


class OutOfMemory(LoglinearError):
    """A worker ran out of memory."""


class Stopped(Exception):
    """Raised in a task that must end, because another failed or the user interrupted."""


@dataclass(frozen=True)
class Job:
    """What has to be done, as plain data. Each kind of experiment adds its own fields.

    Parameters
    ----------
    kind : str
        Which of :attr:`MEASURES` does it.
    threads : int
        Threads that it may use.
    """

    MEASURES: ClassVar[
        dict[str, str]
    ] = {}  # from kind to "module:function", called with the job and a progress callback
    ALONE: ClassVar[bool] = False  # whether it measures its process, so that no other may run there at the same time

    kind: str
    threads: int = field(default=1, kw_only=True)

    def measure(self, say: Say = lambda progress: None) -> Any:
        """Do it in this process. Only the module of its kind is imported, so that memory is the job's own."""
        module, _, name = self.MEASURES[self.kind].partition(":")
        return getattr(importlib.import_module(module), name)(self, say)

    @property
    def reads(self) -> tuple[str, ...]:
        """The files that it reads."""
        return ()

    @property
    def writes(self) -> tuple[str, ...]:
        """The files that it writes."""
        return ()

    def at(self, places: Mapping[str, str]) -> Self:
        """The same job with these files at other places."""
        return self

    def to_dict(self) -> dict[str, Any]:
        """All fields, for JSON."""
        return asdict(self)


_warmed: set[str] = set()


def warm_up(kind: str, small_version: Callable[[], object]) -> None:
    """Run a small version of a job, so that its kernels are compiled and loaded, unless this process has done so.

    Errors are left for the job itself to raise.
    """
    if kind not in _warmed:
        _warmed.add(kind)
        with suppress(LoglinearError):
            small_version()


class Emit:
    """Passes what a task finds to the thread that asked; raises :class:`Stopped` in a task that must end.

    Parameters
    ----------
    put : callable
        Takes an item.
    stopping : list of threading.Event
        Set when the task, or one that it is part of, must end.
    """

    def __init__(self, put: Say, stopping: list[threading.Event]) -> None:
        self._put, self.stopping = put, stopping

    def __call__(self, item: Any) -> None:
        self.check()
        self._put(item)

    @property
    def is_stopping(self) -> bool:
        """Whether the task must end."""
        return any(event.is_set() for event in self.stopping)

    def check(self) -> None:
        """Raise :class:`Stopped` if the task must end."""
        if self.is_stopping:
            raise Stopped

    def mapped(self, change: Callable[[Any], Any]) -> Emit:
        """One that passes on what ``change`` makes of an item."""
        return Emit(lambda item: self._put(change(item)), self.stopping)


SILENT = Emit(lambda item: None, [])


@dataclass(frozen=True)
class _Failure:
    error: BaseException


_DONE = object()


class Pool(ABC):
    """Does at most ``n`` jobs at a time; as a context it ends its workers."""

    n: int
    n_apart = 1  # jobs that can be timed at the same time, since they do not share cores

    @property
    def places(self) -> int:
        """Jobs that are done at the same time."""
        return self.n

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @abstractmethod
    def do(self, name: str, job: Job, emit: Emit = SILENT) -> Any:
        """Do a job and return its result; ``emit`` gets its progress. What the job raises is raised here."""

    def close(self) -> None:  # noqa: B027  # threads have nothing to end
        """End the workers, whatever they are doing."""

    def stop(self) -> None:  # noqa: B027
        """Called when a stream is left early; where a job cannot be stopped otherwise, its worker is ended."""

    def threads_each(self, threads: int, n_jobs: int) -> int:
        """How many of so many threads each of some jobs that are done at the same time gets."""
        return max(1, threads // max(1, min(self.n, n_jobs)))

    def stream(self, tasks: Iterable[Task], within: Emit = SILENT) -> Generator[Any, None, None]:
        """What the tasks emit, as it comes; tasks are started in their order.

        A task's error is raised here. Then, and when the iterator is closed, the other tasks are stopped: at the next
        item they emit, or by ending their workers. Tasks that are part of another end with it (``within``).
        """
        all_tasks = list(tasks)
        waiting, stopping = iter(all_tasks), threading.Event()  # a list's iterator is safe on several threads
        items: queue.SimpleQueue[Any] = queue.SimpleQueue()
        emit = Emit(items.put, [stopping, *within.stopping])

        def work() -> None:
            try:
                while (task := next(waiting, None)) is not None and not emit.is_stopping:
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
                item = _next(items, within)
                if isinstance(item, _Failure):
                    raise item.error
                if item is _DONE:
                    running -= 1
                else:
                    yield item
            within.check()
        finally:
            stopping.set()
            if running:
                self.stop()
            for thread in threads:
                thread.join()

    def run(self, jobs: Mapping[str, Job], observe: Callable[[str, Any], None] | None = None) -> Iterator[Any]:
        """Each job's name and result when it is finished; ``observe`` is called with names and progress.

        An error of a job has its name.
        """

        def task(name: str, job: Job, emit: Emit) -> None:
            try:
                result = self.do(name, job, emit.mapped(lambda progress: (name, True, progress)))
            except LoglinearError as error:
                raise _named(error, name) from None
            emit((name, False, result))

        with closing(self.stream(partial(task, name, job) for name, job in jobs.items())) as items:
            for name, is_progress, item in items:
                if not is_progress:
                    yield name, item
                elif observe is not None:
                    observe(name, item)


def _next(items: queue.SimpleQueue[Any], within: Emit) -> Any:
    """The next item; raises :class:`Stopped` if there will be none, because the task around the stream must end."""
    if not within.stopping:
        return items.get()
    while True:
        within.check()
        with suppress(queue.Empty):
            return items.get(timeout=POLL_SECONDS)


def _named(error: LoglinearError, name: str) -> LoglinearError:
    """The error of a job, with its name."""
    kind = type(error)
    kind = DataError if issubclass(kind, InfeasibleError) else kind  # its constructor takes a number
    return kind(f"{name}: {error}")
