"""What a cluster can do, whoever does it: run pure functions over jobs, in any order, and survive the loss of workers.

A job is a value that pickles, its function one of a module. A cluster may do a job twice, on different workers, if it
loses one; since both are pure, results do not depend on that. What a function keeps in its process between jobs is a
cache, which it must be able to make again from the job alone; a job's *home* sends it where earlier jobs of the same
home went, as long as that worker lives.

    Local         threads of this process; also the referee of the others
    Dask          dask.distributed (:mod:`loglinear.scale.cluster.dask_engine`)
"""

from __future__ import annotations

import importlib.util
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Self

from loglinear.errors import ClusterError, LoglinearError, OptionError
from loglinear.system import thread_count
from loglinear.wording import how_many

INSTALL = "pip install 'loglinear[dask]'"
PATIENCE = 60.0  # seconds to wait for a worker if there is none
POLL = 0.05  # seconds between two questions for more
MOST_DEATHS = 3  # of workers that were doing the same job
SPECS = "tcp://HOST:PORT (tls:// and ws:// too) of a Dask scheduler, or local:N for N processes on this machine"

Observe = Callable[[int, int], None]  # is told how many jobs are done, and of how many


class Shared(ABC):
    """A value that all workers may use; each gets it once."""

    @abstractmethod
    def release(self) -> None:
        """Let the workers forget it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


@dataclass(frozen=True)
class Work:
    """A job that is found while others are done.

    Parameters
    ----------
    job : any
    name : str
        What messages call it.
    shared : tuple of Shared
        What the function is called with after the job.
    """

    job: Any
    name: str
    shared: tuple[Shared, ...] = ()


More = Callable[[], Iterable[Work] | None]


class Cluster(ABC):
    """Workers that do jobs; as a context it is closed at the end.

    Attributes
    ----------
    deaths : int
        Workers lost so far while they had jobs.
    """

    deaths = 0

    @property
    @abstractmethod
    def n_workers(self) -> int:
        """Processes that do jobs now (of :class:`Local`: threads)."""

    @property
    @abstractmethod
    def capacity(self) -> int:
        """Jobs that are done at the same time."""

    @property
    def dashboard(self) -> str | None:
        """Address of a page that shows what the workers do."""
        return None

    @abstractmethod
    def share(self, value: Any) -> Shared:
        """Make a value available to the jobs of :meth:`stream`, as their second argument."""

    @abstractmethod
    def stream(
        self,
        function: Callable[..., Any],
        jobs: Sequence[Any],
        *,
        names: Sequence[str] | None = None,
        homes: Sequence[Hashable] | None = None,
        shared: Shared | None = None,
        more: More | None = None,
    ) -> Iterator[tuple[int, Any]]:
        """Number and result of each job, as they are finished.

        The first error of a job ends it all and is raised here: a :class:`LoglinearError` as it is, anything else with
        the job's name. Closing the iterator cancels what is left.

        Parameters
        ----------
        function : callable
            Of a module; called with a job, and with the shared value if there is one.
        jobs : sequence
        names : sequence of str, optional
            What messages call each job.
        homes : sequence, optional
            Jobs with the same home, also of different calls, are done by the same worker as long as it lives.
        shared : Shared, optional
            From :meth:`share`.
        more : callable, optional
            Asked now and then, and after each result, for further jobs, whose numbers go on after those of ``jobs``;
            None once there will be no more. What it raises ends it all. Goes without ``homes``.
        """

    def map(
        self,
        function: Callable[..., Any],
        jobs: Sequence[Any],
        *,
        names: Sequence[str] | None = None,
        homes: Sequence[Hashable] | None = None,
        shared: Shared | None = None,
        observe: Observe | None = None,
    ) -> list[Any]:
        """The results of all jobs in their order; ``observe`` is told after each how many are done, of how many."""
        results = dict[int, Any]()
        with closing(self.stream(function, jobs, names=names, homes=homes, shared=shared)) as found:  # type: ignore[type-var]
            for number, result in found:
                results[number] = result
                if observe is not None:
                    observe(len(results), len(jobs))
        return [results[number] for number in range(len(jobs))]

    @abstractmethod
    def close(self) -> None:
        """Cancel what is under way, and end what was started for this cluster; twice is once."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def names_of(jobs: Sequence[Any], names: Sequence[str] | None) -> list[str]:
    """What messages call each job."""
    return [f"job {number} (from 0)" for number in range(len(jobs))] if names is None else list(names)


def raised(error: BaseException, name: str) -> BaseException:
    """The error to raise for a job that ended by ``error``: the user's own mistakes say where they are already."""
    if isinstance(error, LoglinearError) or not isinstance(error, Exception):
        return error
    if isinstance(error, MemoryError):
        return ClusterError(f"{name}: a worker ran out of memory; use more workers, or --hash-bits or --min-count")
    if isinstance(error, OSError):
        return ClusterError(f"{name}: {error} (on the worker)")
    error.add_note(f"in {name} of the cluster")
    return error


# ----------------------------------------------------------------------------------------------------------------------
# Threads of this process.


@dataclass(frozen=True)
class _Here(Shared):
    value: Any

    def release(self) -> None:
        """Nothing was sent anywhere."""


class Local(Cluster):
    """Threads of this process as workers.

    Parameters
    ----------
    n : int, optional
        How many; all cores if not given.
    """

    def __init__(self, n: int | None = None) -> None:
        self._n = thread_count(n)

    @property
    def n_workers(self) -> int:
        """Threads."""
        return self._n

    @property
    def capacity(self) -> int:
        """Threads."""
        return self._n

    def share(self, value: Any) -> Shared:
        """The value itself."""
        return _Here(value)

    def stream(
        self,
        function: Callable[..., Any],
        jobs: Sequence[Any],
        *,
        names: Sequence[str] | None = None,
        homes: Sequence[Hashable] | None = None,
        shared: Shared | None = None,
        more: More | None = None,
    ) -> Iterator[tuple[int, Any]]:
        """See :class:`Cluster`; homes make no difference within a process."""
        given = () if shared is None else (shared,)
        works = [Work(job, name, given) for job, name in zip(jobs, names_of(jobs, names), strict=True)]
        waiting, threads = SimpleQueue[int | None](), list[threading.Thread]()
        results, stopping = SimpleQueue[tuple[int, Any, BaseException | None]](), threading.Event()

        def work() -> None:
            while (number := waiting.get()) is not None and not stopping.is_set():
                asked = works[number]
                try:
                    values = (each.value for each in asked.shared)  # type: ignore[attr-defined]
                    results.put((number, function(asked.job, *values), None))
                except BaseException as error:  # raised below
                    results.put((number, None, error))

        for number in range(len(works)):
            waiting.put(number)
        done = 0
        try:
            while done < len(works) or more is not None:
                found = () if more is None else more()
                more = None if found is None else more
                for each in found or ():
                    works.append(each)
                    waiting.put(len(works) - 1)
                if len(threads) < min(self._n, len(works)):
                    threads.append(threading.Thread(target=work, daemon=True))
                    threads[-1].start()
                    continue
                try:
                    number, result, error = results.get(timeout=None if more is None and done < len(works) else POLL)
                except Empty:
                    continue
                if error is not None:
                    raise raised(error, works[number].name)
                done += 1
                yield number, result
        finally:
            stopping.set()
            for _ in threads:
                waiting.put(None)
            for thread in threads:
                thread.join()

    def close(self) -> None:
        """There is nothing to end."""


# ----------------------------------------------------------------------------------------------------------------------


def open_cluster(spec: Any = None, *, patience: float = PATIENCE, say: Callable[[str], None] | None = None) -> Cluster:
    """The cluster that a user means.

    Parameters
    ----------
    spec : str, distributed.Client, Cluster or None
        ``tcp://HOST:PORT`` of a scheduler; ``local:N``, which starts N processes of one thread each and ends them when
        it is closed; a client, which is left open; a cluster, which is returned; None is the current client.
    patience : float
        Seconds to wait for a scheduler, and for a worker while there is none.
    say : callable, optional
        Is told the dashboard's address, once.
    """
    if isinstance(spec, Cluster):
        return spec
    n = 0
    if isinstance(spec, str):
        local = re.fullmatch(r"local:([1-9][0-9]{0,3})", spec)
        if local is None and not re.fullmatch(r"[a-z]+://[^/\s]+(:[0-9]+)?/?", spec):
            raise OptionError(f"cluster={spec!r} is neither {SPECS}")
        n = int(local[1]) if local else 0
    if importlib.util.find_spec("distributed") is None:
        raise OptionError(f"a cluster needs Dask, which is not installed: {INSTALL}")
    from loglinear.scale.cluster.dask_engine import Dask

    cluster = Dask.local(n, patience) if n else Dask.connected(spec, patience)
    if say is not None:
        say(f"{how_many(cluster.n_workers, 'worker')}, dashboard at {cluster.dashboard or 'no address'}")
    return cluster
