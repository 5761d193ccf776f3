"""Jobs on a cluster, each done by whichever worker is idle.

What a job needs goes along: the values that it shares with others (:mod:`~loglinear.experiments.pools.shared`) once for
all jobs, files only to workers that do not have the same file under the same path
(:mod:`loglinear.scale.cluster.sent`). The files that it writes come back with its result, and are written here: workers
and driver need no file system in common. A job whose worker dies is done again.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from loglinear.data import atomic_output
from loglinear.errors import ClusterError, DataError, LoglinearError
from loglinear.experiments.pools.pool import (
    POLL_SECONDS,
    SECONDS_BETWEEN,
    SILENT,
    Emit,
    Job,
    OutOfMemory,
    Pool,
    Stopped,
)
from loglinear.experiments.pools.shared import Shared, pickled, unpickled
from loglinear.scale.cluster import engine, sent
from loglinear.system import temporary_folder

LEAST_AT_ONCE = 32  # jobs that are given to the cluster, also while it has fewer workers: others may join


class ClusterPool(Pool):
    """Does jobs on the workers of a cluster, as many at a time as these have threads.

    Parameters
    ----------
    cluster : str, distributed.Client, Cluster or None
        As for :func:`~loglinear.scale.cluster.engine.open_cluster`. One that is opened here is closed with the pool.
    patience : float
        Seconds to wait for a worker while there is none.
    say : callable, optional
        Is told how many workers there are, and the dashboard's address.
    """

    def __init__(
        self, cluster: Any = None, *, patience: float = engine.PATIENCE, say: Callable[[str], None] | None = None
    ) -> None:
        self._owned = not isinstance(cluster, engine.Cluster)
        self._cluster = engine.open_cluster(cluster, patience=patience, say=say)
        self._lock, self._closed = threading.Lock(), False
        self._pump: threading.Thread | None = None
        self._new: list[engine.Work] = []
        self._answers: list[SimpleQueue[Any] | None] = []  # of each work, until it is there
        self._shared: dict[str, engine.Shared] = {}  # by token or digest
        self._kept: dict[str, Shared[Any]] = {}  # so that the same value has the same token
        self._failure: BaseException | None = None

    @property
    def n(self) -> int:  # type: ignore[override]  # it changes as workers come and go
        """Jobs that are given to the cluster at the same time."""
        return max(LEAST_AT_ONCE, 2 * self._cluster.capacity)

    @property
    def places(self) -> int:
        """Jobs that are done at the same time."""
        return self._cluster.capacity

    @property
    def n_apart(self) -> int:  # type: ignore[override]
        """All of them: each has a thread of a worker."""
        return self.n

    def threads_each(self, threads: int, n_jobs: int) -> int:
        """One: a cluster does as many jobs at a time as it has threads."""
        return 1

    def do(self, name: str, job: Job, emit: Emit = SILENT) -> Any:
        """Do a job on a worker."""
        import cloudpickle

        data, needed = pickled(job, cloudpickle.dumps)
        self._kept |= needed
        files = sent.digests(job.reads)
        task = _Task(data, tuple(needed), files, job.writes, job.ALONE)
        values = [self._share(token, partial(getattr, each, "value")) for token, each in needed.items()]
        answer = self._done(engine.Work(task, name, tuple(values)), emit)
        if isinstance(answer, sent.Missing):
            paths = {digest: path for path, digest in files.items() if digest in answer.digests}
            values += [self._share(digest, partial(sent.content, path, digest)) for digest, path in paths.items()]
            task = _Task(data, tuple(needed), files, job.writes, job.ALONE, tuple(paths))
            answer = self._done(engine.Work(task, name, tuple(values)), emit)
        if isinstance(answer, LoglinearError):
            raise answer
        for path, content in answer.written.items():
            with atomic_output(path) as out:
                out.write(content)
        return answer.result

    def close(self) -> None:
        """Give up what is under way, and close the cluster if it was opened here."""
        with self._lock:
            self._closed = True
        if self._pump is not None:
            self._pump.join()
        for value in self._shared.values():
            value.release()
        if self._owned:
            self._cluster.close()

    def _share(self, digest: str, value: Callable[[], Any]) -> engine.Shared:
        """The value on the cluster; the first who asks sends it."""
        with self._lock:
            if digest not in self._shared:
                self._shared[digest] = self._cluster.share(value())
            return self._shared[digest]

    def _done(self, work: engine.Work, emit: Emit) -> Any:
        """What a worker answers."""
        answer: SimpleQueue[Any] = SimpleQueue()
        with self._lock:
            self._check()
            number = len(self._answers)
            self._answers.append(answer)
            self._new.append(work)
            if self._pump is None:
                self._pump = threading.Thread(target=self._run, daemon=True)
                self._pump.start()
        while True:
            try:
                emit.check()
            except Stopped:
                self._answers[number] = None
                raise
            with suppress(Empty):
                found = answer.get(timeout=POLL_SECONDS)
                if isinstance(found, _Failed):
                    raise found.error
                return found

    def _check(self) -> None:
        if self._closed:
            raise ClusterError("the pool of the cluster is closed; do this within its `with` block")
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        """Pass jobs to the cluster, and answers to those who asked; the only thread that reads the stream."""
        try:
            with closing(self._cluster.stream(do_task, [], more=self._more)) as found:  # type: ignore[type-var]
                for number, answer in found:
                    self._pass(number, answer)
        except BaseException as error:
            with self._lock:
                self._failure = error
                for number in range(len(self._answers)):
                    self._pass(number, _Failed(error))

    def _pass(self, number: int, answer: Any) -> None:
        asked, self._answers[number] = self._answers[number], None
        if asked is not None:
            asked.put(answer)

    def _more(self) -> Iterable[engine.Work] | None:
        with self._lock:
            if self._closed:
                raise Stopped
            new, self._new = self._new, []
            return new


@dataclass(frozen=True)
class _Failed:
    """The cluster cannot go on."""

    error: BaseException


# ----------------------------------------------------------------------------------------------------------------------
# On the worker.


@dataclass(frozen=True)
class _Task:
    """A job on its way.

    Parameters
    ----------
    job : bytes
    values : tuple of str
        Tokens of the shared values that it refers to, which come with it in this order.
    reads : dict of str to str
        The files that it reads, and the digests of their contents.
    writes : tuple of str
    alone : bool
        Whether no other job may run in the process at the same time.
    contents : tuple of str
        Digests of files whose content comes after the values.
    """

    job: bytes
    values: tuple[str, ...]
    reads: dict[str, str]
    writes: tuple[str, ...]
    alone: bool
    contents: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Answer:
    """The result of a job, and the content of the files that it wrote."""

    result: Any
    written: dict[str, bytes] = field(default_factory=dict)


_alone = threading.Lock()


def do_task(task: _Task, *values: Any) -> _Answer | sent.Missing | LoglinearError:
    """Do a job; a mistake of the user's is an answer, too."""
    given = values[len(task.values) :]
    places = sent.places(task.reads, dict(zip(task.contents, given, strict=True)))
    if isinstance(places, sent.Missing):
        return places
    job: Job = unpickled(task.job, dict(zip(task.values, values, strict=False)))
    try:
        with temporary_folder() as folder:
            targets = {path: str(folder / f"{number}-{Path(path).name}") for number, path in enumerate(task.writes)}
            moved = job.at({**places, **targets})
            if not task.alone:
                result = moved.measure(_Watch())
            else:
                with _alone:
                    result = moved.measure(_Watch())
            written = {path: Path(place).read_bytes() for path, place in targets.items() if os.path.exists(place)}
            return _Answer(result, written)
    except LoglinearError as error:
        return _as_named(error, places)
    except MemoryError:
        return OutOfMemory("a worker ran out of memory; give workers more, or do fewer trainings at a time on each")


def _as_named(error: LoglinearError, places: Mapping[str, str]) -> LoglinearError:
    """The error with the driver's paths in the place of those here."""

    def named(text: Any) -> Any:
        for path, place in places.items():
            text = text.replace(place, path) if isinstance(text, str) else text
        return text

    error.args = tuple(map(named, error.args))
    if isinstance(error, DataError):
        error.message, error.file = named(error.message), named(error.file)
    return error


class _Watch:
    """Takes the progress of a job, and stops it when nobody waits for its result any more."""

    def __init__(self) -> None:
        self._looked = time.monotonic()

    def __call__(self, progress: Any) -> None:
        if time.monotonic() - self._looked >= SECONDS_BETWEEN:
            self._looked = time.monotonic()
            if not sent.is_awaited():
                raise Stopped
