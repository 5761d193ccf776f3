"""A cluster of dask.distributed.

Every job is a coroutine on the client's event loop: it sends the job, waits, and fetches the result. What becomes of
it arrives in a queue that the caller's thread reads. Meanwhile that thread looks at the list of workers now and then:

    a worker has gone          its jobs are done by others; one that has lost three workers is an error that names it
    shared values were lost    with the worker that held them: they are sent again, and their jobs done again
    a worker has come          it is looked at (version, Python, NumPy); the next call gives it homes
    there is none              for as long as ``patience``: an error

Which worker does a job is decided here, and Dask keeps to it: it would move jobs to processes that have nothing of
their homes, blame all jobs that waited on a worker for its death, and try for half a minute to fetch what it held.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import logging
import pickle
import platform
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import zip_longest
from queue import Empty, SimpleQueue
from typing import Any

import distributed
from distributed.client import FutureCancelledError
from distributed.comm.addressing import get_address_host_port
from distributed.scheduler import KilledWorker

import loglinear
from loglinear.errors import ClusterError, LoglinearError, OptionError
from loglinear.scale.cluster.engine import MOST_DEATHS, PATIENCE, POLL, Cluster, More, Shared, Work, names_of, raised
from loglinear.system import temporary_folder
from loglinear.wording import how_many

LOOK_EVERY = 0.25  # seconds between two looks at the workers
TO_ANSWER = 30.0  # seconds that a scheduler or a worker has to answer a question
TO_CLOSE = 5.0
TO_CONNECT = 3.0
LARGE_JOB = 50_000  # bytes: larger ones go straight to a worker, not through the scheduler
MOST_LOSSES = 20  # of the same result
TIMEOUTS = (TimeoutError, FutureTimeout, asyncio.TimeoutError)


class Dask(Cluster):
    """Workers of a scheduler.

    Parameters
    ----------
    client : distributed.Client
    patience : float
        Seconds to wait for a worker while there is none.
    """

    _owned: ExitStack | None = None  # what closing ends

    def __init__(self, client: distributed.Client, patience: float = PATIENCE) -> None:
        self.client, self._patience = client, patience
        loop: Any = client.loop
        self.loop: asyncio.AbstractEventLoop = loop.asyncio_loop
        self.workers = dict[str, int]()  # address to threads, of workers whose versions are ours
        self._owner = dict[Hashable, str]()  # of each home
        self.deaths, self._closed = 0, False
        self._last_seen = time.monotonic()
        self._wait_for(1)
        self.direct = bool(client.direct_to_workers) or self._reaches_workers()

    @classmethod
    def local(cls, n: int, patience: float = PATIENCE) -> Dask:
        """A cluster of ``n`` processes of one thread each, in a folder of its own; closing it ends all of that."""
        import dask

        with ExitStack() as stack:
            folder = stack.enter_context(temporary_folder("loglinear-dask-"))
            # Or the cluster would give a process up for good that happens to be starting again 15 s after it had died.
            never_give_up = {"distributed.deploy.lost-worker-timeout": "1 day"}
            own_scratch = {"temporary-directory": str(folder)}  # of the scheduler, which takes no local_directory
            timeouts = {"distributed.comm.timeouts.connect": "5s"}
            stack.enter_context(dask.config.set({**never_give_up, **own_scratch, **timeouts}))
            started = distributed.LocalCluster(
                n_workers=n, threads_per_worker=1, processes=True, memory_limit=0, local_directory=str(folder),
                dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL, host="127.0.0.1",
                preload=["loglinear.scale.cluster.local_worker"],
            )  # fmt: skip
            stack.callback(_quietly, started.close, timeout=TO_CLOSE)
            client = distributed.Client(started, set_as_default=False, direct_to_workers=True, timeout=patience)
            stack.callback(_quietly, client.close, timeout=TO_CLOSE)
            made = cls(client, patience)
            made._wait_for(n)
            made._owned = stack.pop_all()
            return made
        raise AssertionError  # no context here swallows an error

    @classmethod
    def connected(cls, spec: str | distributed.Client | None, patience: float = PATIENCE) -> Dask:
        """A scheduler by its address, a client, or the current client."""
        if isinstance(spec, distributed.Client):
            return cls(_usable(spec), patience)
        if spec is None:
            try:
                return cls(_usable(distributed.default_client()), patience)
            except ValueError:
                raise OptionError(
                    "there is no current Dask client; make one, client = distributed.Client(...), or give "
                    "client=... or cluster='tcp://HOST:PORT'"
                ) from None
        if not isinstance(spec, str):
            raise OptionError(f"client={spec!r:.60} is not a distributed.Client or the address of a scheduler")
        spec = spec.rstrip("/")
        try:
            get_address_host_port(spec, strict=True)  # or closing a client of such an address would take a minute
            client = distributed.Client(spec, timeout=min(patience, TO_ANSWER), set_as_default=False)
        except (OSError, *TIMEOUTS):
            raise ClusterError(
                f"no Dask scheduler answers at {spec}; start one (dask scheduler), or check host, port and firewall"
            ) from None
        except (ValueError, RuntimeError) as error:
            raise ClusterError(f"{spec} is not the address of a Dask scheduler: {error}") from None
        with ExitStack() as stack:
            stack.callback(_quietly, client.close, timeout=TO_CLOSE)
            made = cls(client, patience)
            made._owned = stack.pop_all()
            return made
        raise AssertionError

    # -- the workers -------------------------------------------------------------------------------------------------

    @property
    def n_workers(self) -> int:
        """Processes, at the last look."""
        return len(self.workers)

    @property
    def capacity(self) -> int:
        """Threads of all of them."""
        return sum(self.workers.values())

    @property
    def dashboard(self) -> str | None:
        """Address of Dask's dashboard, if the scheduler has one."""
        link = self.client.dashboard_link
        return link if isinstance(link, str) and link else None

    def look(self) -> None:
        """Look at which workers there are; one whose versions are not ours is an error that names it."""
        if self.client.status != "running":
            raise ClusterError("the connection to the Dask scheduler is lost; start it again and go on with --resume")
        try:
            seen: Mapping[str, int] = self._ask(self.client.nthreads)
        except (OSError, *TIMEOUTS):
            raise ClusterError(
                f"the Dask scheduler has not answered for {TO_ANSWER:g} s; start it again and go on with --resume"
            ) from None
        if new := [address for address in seen if address not in self.workers]:
            self._check_versions(new)
        self.workers = dict(seen)
        if self.workers:
            self._last_seen = time.monotonic()
        elif time.monotonic() - self._last_seen > self._patience:
            raise ClusterError(
                f"the cluster has had no worker for {self._patience:g} s; start some (dask worker ADDRESS), "
                "and go on with --resume if there is a checkpoint"
            )

    def _wait_for(self, n: int) -> None:
        """Wait until there are ``n`` workers; when patience ends, one is enough."""
        until = time.monotonic() + self._patience
        self.look()
        while not self.workers or (len(self.workers) < n and time.monotonic() < until):
            time.sleep(LOOK_EVERY)
            self.look()

    def _check_versions(self, addresses: list[str]) -> None:
        """Refuse workers on which results could differ. Nothing of ours is sent: they may not have it."""
        ours = {
            "loglinear": loglinear.__version__,
            "numpy": importlib.metadata.version("numpy"),
            "Python": ".".join(platform.python_version_tuple()[:2]),
        }
        questions: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
            name: (importlib.metadata.version, (name,)) for name in ("loglinear", "numpy")
        }
        questions["Python"] = (platform.python_version_tuple, ())
        for name, (function, arguments) in questions.items():
            try:
                answers = self._ask(self.client.run, function, *arguments, workers=addresses, on_error="return")
            except (OSError, ValueError, *TIMEOUTS):
                continue  # it has gone: the next look says so
            for address, answer in answers.items():
                if isinstance(answer, OSError):
                    continue
                theirs = ".".join(answer[:2]) if isinstance(answer, tuple) else answer
                if isinstance(answer, importlib.metadata.PackageNotFoundError):
                    raise ClusterError(
                        f"the worker at {address} does not have {name}; install it there: pip install "
                        f"'loglinear[dask]=={loglinear.__version__}'"
                    )
                if isinstance(answer, BaseException) or theirs != ours[name]:
                    raise ClusterError(
                        f"the worker at {address} has {name} {theirs}, and this process {ours[name]}; they must be the "
                        "same, or results could differ"
                    )

    def _reaches_workers(self) -> bool:
        """Whether data can go to workers and back directly; otherwise they go through the scheduler."""
        try:
            self._ask(self.client.scatter, [0], direct=True, hash=False, within=TO_CONNECT)
        except (OSError, RuntimeError, *TIMEOUTS):
            return False
        return True

    def _ask(self, method: Callable[..., Any], *arguments: Any, within: float = TO_ANSWER, **named: Any) -> Any:
        """What a method of the client gives, within some seconds."""

        async def asked() -> Any:
            return await method(*arguments, **named)

        asking = asyncio.run_coroutine_threadsafe(asked(), self.loop)
        try:
            return asking.result(within)
        finally:
            asking.cancel()

    def settle(self, homes: Sequence[Hashable]) -> dict[Hashable, str]:
        """The worker of each home: the one it had, if it lives, so that none has more than its share."""
        wanted = dict.fromkeys(homes)
        self._owner = {home: owner for home, owner in self._owner.items() if owner in self.workers}
        load = Counter(owner for home, owner in self._owner.items() if home in wanted)

        def by_load(address: str) -> tuple[float, str]:
            return load[address] / self.workers[address], address

        for home in wanted:
            if home not in self._owner:
                owner = self._owner[home] = min(self.workers, key=by_load)
                load[owner] += 1
        while True:  # a worker that has come takes from those that have most
            least = min(self.workers, key=by_load)
            most = max(self.workers, key=by_load)
            if load[most] / self.workers[most] <= (load[least] + 1) / self.workers[least]:
                return {home: self._owner[home] for home in wanted}
            moved = next(home for home in reversed(wanted) if self._owner[home] == most)
            self._owner[moved] = least
            load[most] -= 1
            load[least] += 1

    # -- jobs --------------------------------------------------------------------------------------------------------

    def share(self, value: Any) -> Shared:
        """A value that goes to one worker now, and from there to those that need it."""
        return _Scattered(self, value)

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
        """See :class:`~loglinear.scale.cluster.engine.Cluster`."""
        if self._closed:
            raise ClusterError("the cluster is closed")
        self._last_seen = time.monotonic()
        self.look()
        given = () if shared is None else (shared,)
        works = [Work(job, name, given) for job, name in zip(jobs, names_of(jobs, names), strict=True)]
        yield from _Stream(self, function, works, homes, more).results()

    def close(self) -> None:
        """Disconnect; what was started for this cluster is ended, a client that was given is left as it was."""
        self._closed = True
        if self._owned is not None:
            owned, self._owned = self._owned, None
            owned.close()


class _Scattered(Shared):
    """A value that workers hold, and this process too: what they lose is sent again."""

    def __init__(self, cluster: Dask, value: Any) -> None:
        self.value, self._cluster = [value], cluster
        self.sending: asyncio.Task[Any] | None = None

    async def future(self) -> Any:
        """The future that jobs depend on; called on the event loop alone."""
        if self.sending is None:
            self.sending = asyncio.ensure_future(_scattered(self._cluster, self.value, None))
        return await asyncio.shield(self.sending)

    def lost(self, future: Any) -> None:
        """Forget a future that has failed, unless the value has been sent again already; on the event loop alone."""
        sending = self.sending
        if sending is not None and sending.done() and (sending.exception() is not None or sending.result() is future):
            self.sending = None

    def release(self) -> None:
        """Let the workers forget it."""
        self._cluster.loop.call_soon_threadsafe(self._forget)

    def _forget(self) -> None:
        self.sending = None


async def _scattered(cluster: Dask, value: list[Any], worker: str | None) -> Any:
    """The future of a value [1] on a worker."""
    workers = None if worker is None else [worker]
    return (await cluster.client.scatter(value, workers=workers, hash=False, direct=cluster.direct))[0]


class _Lost(Exception):
    """Something a job depended on was lost, and so is its result."""


class _Stream:
    """One call of :meth:`Dask.stream`: which job is where, and which waits."""

    def __init__(
        self, cluster: Dask, function: Callable[..., Any], works: list[Work], homes: Sequence[Hashable] | None,
        more: More | None,
    ) -> None:  # fmt: skip
        self.cluster, self.function, self.works, self.homes, self.more = cluster, function, works, homes, more
        self.ended = SimpleQueue[tuple[int, Future[Any]]]()
        self.waiting = list(range(len(works)))
        self.running = dict[int, Future[Any]]()  # in the order in which they were sent
        self.worker = dict[int, str]()  # of each running job
        self.done_there = set[int]()  # jobs that only have to be fetched
        self.deaths, self.lost_results = Counter[int](), Counter[int]()  # of each job
        self.suspects = set[int]()  # jobs that were on workers that died

    def results(self) -> Iterator[tuple[int, Any]]:
        """Number and result of each job."""
        try:
            looked = time.monotonic()
            while self.waiting or self.running or self.more is not None:
                self._ask_for_more()
                self._send()
                with suppress(Empty):
                    number, outcome = self.ended.get(timeout=LOOK_EVERY if self.more is None else POLL)
                    if self.running.get(number) is outcome:  # else it was given up, and sent again
                        self._forget(number)
                        found = self._result(number, outcome)
                        if found is not None:
                            yield number, found[0]
                if time.monotonic() - looked >= LOOK_EVERY:
                    self._mind_workers()
                    looked = time.monotonic()
        finally:
            for outcome in self.running.values():
                outcome.cancel()

    def _ask_for_more(self) -> None:
        if self.more is not None:
            found = self.more()
            if found is None:
                self.more = None
            for work in found or ():
                self.waiting.append(len(self.works))
                self.works.append(work)

    def _result(self, number: int, outcome: Future[Any]) -> tuple[Any] | None:
        """What a job gave; None if it has to be done again."""
        try:
            return (outcome.result(),)
        except (CancelledError, asyncio.CancelledError, _Lost):
            self.lost_results[number] += 1
            if self.lost_results[number] > MOST_LOSSES:
                raise ClusterError(
                    f"{self.works[number].name}: its result was lost {MOST_LOSSES} times; the network between this "
                    "process and the workers may be broken"
                ) from None
            self.waiting.append(number)
            return None
        except KilledWorker:
            raise self._too_deadly(number) from None
        except BaseException as error:
            mended = raised(error, self.works[number].name)
            raise mended from (None if isinstance(mended, LoglinearError) else error)

    def _forget(self, number: int) -> Future[Any]:
        self.done_there.discard(number)
        del self.worker[number]
        return self.running.pop(number)

    def _mind_workers(self) -> None:
        """Have the jobs of workers that have gone wait for others."""
        cluster = self.cluster
        cluster.look()
        orphans = dict[str, list[int]]()
        for number in self.running:
            if self.worker[number] not in cluster.workers:
                orphans.setdefault(self.worker[number], []).append(number)
        for numbers in orphans.values():
            cluster.deaths += 1
            # A worker does its jobs in the order in which they were sent: the first ones were under way.
            for number in [n for n in numbers if n not in self.done_there][:1]:
                self.deaths[number] += 1
                if self.deaths[number] >= MOST_DEATHS:
                    raise self._too_deadly(number)
            self.suspects.update(numbers)
            for number in numbers:
                self._forget(number).cancel()
                self.waiting.append(number)

    def _too_deadly(self, number: int) -> ClusterError:
        return ClusterError(
            f"{self.works[number].name}: {how_many(MOST_DEATHS, 'worker')} died while they did this, probably because "
            "memory ran out; give workers more memory, or make smaller parts"
        )

    def _send(self) -> None:
        """Send the waiting jobs: those with a home to its worker, others to workers that will soon be idle."""
        if not self.waiting or not self.cluster.workers:
            return
        self.waiting.sort()
        for number, worker in self._assigned():
            self.waiting.remove(number)
            self.worker[number] = worker
            doing = asyncio.run_coroutine_threadsafe(self._do(number, worker), self.cluster.loop)
            self.running[number] = doing
            doing.add_done_callback(partial(self._note, number))

    def _note(self, number: int, outcome: Future[Any]) -> None:
        self.ended.put((number, outcome))

    def _assigned(self) -> list[tuple[int, str]]:
        """Waiting jobs that can be sent now, each with its worker.

        One that was on a worker when that died is sent to an idle one, so that it is clear which job was under way if
        that dies, too.
        """
        load, sent = Counter(self.worker.values()), list[tuple[int, str]]()
        for number, address in self._placed(load):
            if number not in self.suspects or not load[address]:
                load[address] += 1
                sent.append((number, address))
        return sent

    def _placed(self, load: Mapping[str, int]) -> list[tuple[int, str]]:
        """Waiting jobs with the workers that have room for them, given how many jobs each has."""
        if self.homes is not None:
            owners = self.cluster.settle(self.homes)
            return [(number, owners[self.homes[number]]) for number in self.waiting]
        free = [
            (place / threads, address)  # each thread has one job and the next
            for address, threads in self.cluster.workers.items()
            for place in range(load[address], threads + max(1, threads // 4))
        ]
        return [(number, address) for number, (_, address) in zip(self.waiting, sorted(free), strict=False)]

    async def _do(self, number: int, worker: str) -> Any:
        """Send a job, wait for it, and fetch its result; on the event loop."""
        client, job, shared = self.cluster.client, self.works[number].job, self.works[number].shared
        future: Any = None
        given: list[Any] = []
        try:
            with _losing():
                arguments = [await _scattered(self.cluster, [job], worker) if _is_large(job) else job]
                for value in shared:
                    assert isinstance(value, _Scattered)
                    given.append(await value.future())
                arguments += given
                key = f"{self.function.__name__.strip('_')}-{uuid.uuid4().hex}"
                future = client.submit(self.function, *arguments, key=key, workers=[worker], pure=False)
                error = await future.exception()
            if future.status == "error" and not isinstance(error, FutureCancelledError):
                raise error
            if future.status == "finished":
                self.done_there.add(number)
                # Shielded: the client gathers for many at once. Skip: an empty list if it is lost meanwhile.
                with _losing():
                    if found := await _shielded(client.gather([future], errors="skip", direct=self.cluster.direct)):
                        return found[0]
            raise _Lost
        except _Lost:
            for value, there in zip_longest(shared, given):
                assert isinstance(value, _Scattered)
                value.lost(there)
            await asyncio.sleep(0.05)  # the scheduler learns of a loss a moment later
            raise
        finally:
            if future is not None and not future.done():
                await _cancelled(client, future)


@contextmanager
def _losing() -> Iterator[None]:
    """Take errors of the transport, and futures that the scheduler has given up, as losses; on the event loop."""
    try:
        yield
    except (FutureCancelledError, asyncio.CancelledError, OSError, *TIMEOUTS):
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise  # this job has been given up
        raise _Lost from None


async def _shielded(doing: Awaitable[Any]) -> Any:
    """What is awaited, which goes on if this is cancelled; if it then fails, asyncio does not report that."""
    task = asyncio.ensure_future(doing)
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    return await asyncio.shield(task)


async def _cancelled(client: Any, future: Any) -> None:
    with suppress(Exception):
        await client.cancel([future])


def _is_large(job: Any) -> bool:
    """Whether a job should not go through the scheduler."""
    buffers = list[pickle.PickleBuffer]()
    size = len(pickle.dumps(job, protocol=5, buffer_callback=buffers.append))
    return size + sum(buffer.raw().nbytes for buffer in buffers) > LARGE_JOB


def _usable(client: distributed.Client) -> distributed.Client:
    if client.asynchronous or getattr(client, "_asynchronous", False):
        raise OptionError("an asynchronous Dask client cannot be used here; make one without asynchronous=True")
    if client.status != "running":
        raise ClusterError("the Dask client is closed")
    return client


def _quietly(close: Callable[..., Any], **arguments: Any) -> None:
    """Close something that may be broken already."""
    with suppress(Exception):
        close(**arguments)
