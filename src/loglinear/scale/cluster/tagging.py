"""Labels on a cluster: of many files, a task for each, or of one large Parquet or Arrow file, run of parts by run.

Workers read the inputs from the paths that the driver names, and of many files write the outputs where the driver says:
both must be on a file system that all see. That is looked at before anything is labelled. The model is read from its
path by workers that have the same file there, else it goes along, once (:mod:`~loglinear.scale.cluster.sent`); a
process loads it once. Of one file the labels come back, and the driver writes them beside the columns: its bytes are
those of ``tag`` on one machine, and no worker needs the output's folder.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from loglinear.data.columns.arrow_file import ArrowFile, TokenSchema, pyarrow
from loglinear.errors import DataError
from loglinear.estimators.tagger.predict import LoadedTagger
from loglinear.scale import models
from loglinear.scale.cluster import sent
from loglinear.scale.cluster.engine import Cluster, Shared, Work
from loglinear.scale.tables import Labelling, PartsOf, TableTagger

RUNS_A_WORKER = 8  # of one file's parts
AHEAD = 3  # runs that are under way or wait for an earlier one, a thread of a worker


@dataclass(frozen=True)
class ModelFile:
    """A model file, as its driver knows it."""

    path: str
    digest: str

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> ModelFile:
        """The file of that name."""
        return cls(os.path.abspath(path), models.digest_of(path))

    def loaded(self, content: bytes | None, threads: int = 1) -> LoadedTagger | sent.Missing:
        """The tagger, in this process; ``content`` is that of the file, if it was sent."""
        found = sent.places({self.path: self.digest}, {} if content is None else {self.digest: content})
        return found if isinstance(found, sent.Missing) else models.loaded(found[self.path], threads=threads)


Tag = Callable[[LoadedTagger, Any], Any]


@dataclass(frozen=True)
class _Task:
    """Something to do with a model: ``tag`` is called with the tagger and ``job``."""

    model: ModelFile
    tag: Tag
    job: Any
    reads: Mapping[str, int | None]  # sizes by path
    writes: str = ""


def do_task(task: _Task, content: bytes | None = None) -> Any:
    """On a worker: what ``tag`` gives, or :class:`~loglinear.scale.cluster.sent.Missing` without the model."""
    for path, size in task.reads.items():
        if (there := _size(path)) is None:
            raise DataError(f"{sent.worker_name()} does not see it; name a path that all workers have", path)
        if there != size:
            raise DataError(
                f"{sent.worker_name()} sees another file there, of {there:,} bytes and not {size:,}; name a path that "
                "is the same file for all", path,
            )  # fmt: skip
    if task.writes and not os.path.exists(task.writes):
        folder = os.path.dirname(task.writes)
        raise DataError(f"{sent.worker_name()} does not see this folder; name one that all workers have", folder)
    tagger = task.model.loaded(content)
    return tagger if isinstance(tagger, sent.Missing) else task.tag(tagger, task.job)


def _size(path: str) -> int | None:
    """The size of a file; None if there is none."""
    try:
        return os.path.getsize(path)
    except OSError:
        return None


class Jobs:
    """Jobs with a model on their way to a cluster and back.

    Parameters
    ----------
    cluster : Cluster
    model : ModelFile
    tag : callable
        Function of a module, called with the tagger and a job.
    jobs : iterable of (name, job)
    reads : callable
        From a job to the files that it reads, which workers must see.
    writes : str
        A file that workers must see, in the folder that they write to.
    ahead : int, optional
        How many jobs from the first unfinished one on may be under way or done; all if not given.
    """

    def __init__(
        self, cluster: Cluster, model: ModelFile, tag: Tag, jobs: Iterable[tuple[str, Any]],
        reads: Callable[[Any], tuple[str, ...]], writes: str = "", ahead: int | None = None,
    ) -> None:  # fmt: skip
        self._cluster, self._model, self._tag, self._reads = cluster, model, tag, reads
        self._writes, self._ahead = writes, ahead
        self._left: Iterator[tuple[int, tuple[str, Any]]] = iter(enumerate(jobs))
        self._next = next(self._left, None)
        self._unfinished: dict[int, tuple[str, Any]] = {}  # in the order of their numbers
        self._sent: list[int] = []  # the job of each work
        self._again: list[int] = []  # those that need the model's content
        self._content: Shared | None = None

    def results(self) -> Iterator[tuple[int, Any]]:
        """Number and result of each job, as they are finished."""
        with ExitStack() as self._stack:
            found = self._stack.enter_context(
                closing(self._cluster.stream(do_task, [], more=self._more))  # type: ignore[type-var]
            )
            for place, result in found:
                number = self._sent[place]
                if isinstance(result, sent.Missing):
                    self._again.append(number)
                else:
                    del self._unfinished[number]
                    yield number, result

    def _more(self) -> list[Work] | None:
        works = [self._work(number, with_model=True) for number in self._again]
        self._again.clear()
        while self._next is not None:
            number, named = self._next
            if self._ahead is not None and self._unfinished and number >= next(iter(self._unfinished)) + self._ahead:
                break
            self._unfinished[number] = named
            works.append(self._work(number))
            self._next = next(self._left, None)
        return works or (None if self._next is None and not self._unfinished else [])

    def _work(self, number: int, with_model: bool = False) -> Work:
        name, job = self._unfinished[number]
        self._sent.append(number)
        reads = {path: _size(path) for path in self._reads(job)}
        task = _Task(self._model, self._tag, job, reads, self._writes)
        if not with_model:
            return Work(task, name)
        if self._content is None:
            content = sent.content(self._model.path, self._model.digest)
            self._content = self._stack.enter_context(self._cluster.share(content))
        return Work(task, name, (self._content,))


# ----------------------------------------------------------------------------------------------------------------------
# Many files.


def tag_files(
    cluster: Cluster, model: ModelFile, tag: Tag, jobs: Mapping[str, Any], folder: str
) -> Iterator[tuple[str, Any]]:
    """Name and result of each file's job, as they are finished.

    Parameters
    ----------
    cluster : Cluster
    model : ModelFile
    tag : callable
        Labels a file and writes the output; called with the tagger and a job.
    jobs : mapping of str to any
        From the files to read.
    folder : str
        Where the outputs go. Workers that do not see it are an error.
    """
    names = list(jobs)
    os.makedirs(folder, exist_ok=True)
    mark = Path(folder) / f".loglinear-{uuid.uuid4().hex}.tmp"
    mark.touch()
    try:
        work = [(name, (name, job)) for name, job in jobs.items()]
        with closing(Jobs(cluster, model, _Named(tag), work, _named_file, str(mark)).results()) as found:  # type: ignore[type-var]
            for number, result in found:
                yield names[number], result
    finally:
        with suppress(OSError):
            mark.unlink()


@dataclass(frozen=True)
class _Named:
    """Calls ``tag`` with what belongs to a name."""

    tag: Tag

    def __call__(self, tagger: LoadedTagger, named: tuple[str, Any]) -> Any:
        return self.tag(tagger, named[1])


def _named_file(named: tuple[str, Any]) -> tuple[str, ...]:
    return (named[0],)


# ----------------------------------------------------------------------------------------------------------------------
# One large file.


@dataclass(frozen=True)
class _Run:
    """Parts of a file, by their numbers."""

    path: str
    format: str
    schema: TokenSchema
    how: Labelling
    first: int
    end: int | None


def tag_run(tagger: LoadedTagger, run: _Run) -> bytes:
    """The new columns of a run, as a compressed stream of Arrow."""
    pa = pyarrow()
    with ArrowFile(run.path, run.format) as file:
        columns = TableTagger(tagger, run.schema, run.how).run(file, run.first, run.end)
    sink, table = pa.BufferOutputStream(), pa.table(columns)
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table)
    made: bytes = sink.getvalue().to_pybytes()
    return made


def parts_on(cluster: Cluster, model: ModelFile) -> PartsOf:
    """What labels the parts of a file, for :func:`~loglinear.scale.tables.tag_file`: runs of them, on a cluster."""

    def parts(tables: TableTagger, file: ArrowFile) -> Iterator[tuple[Any, Any]]:
        yield from tables.joined(file, _in_order(cluster, model, tables, file))

    return parts


def _in_order(cluster: Cluster, model: ModelFile, tables: TableTagger, file: ArrowFile) -> Iterator[Mapping[str, Any]]:
    """The new columns of each run, one after the other; few are held at a time."""
    jobs = []
    for first, end in bounds(file.n_parts, RUNS_A_WORKER * max(1, cluster.capacity)):
        run = _Run(os.path.abspath(file.name), file.format, tables.schema, tables.how, first, end)
        jobs.append((f"{file.name}, row groups from {first + 1}", run))
    ahead = AHEAD * max(1, cluster.capacity)
    waiting, wanted = dict[int, bytes](), 0
    with closing(Jobs(cluster, model, tag_run, jobs, _run_file, ahead=ahead).results()) as found:  # type: ignore[type-var]
        for number, data in found:
            waiting[number] = data
            while wanted in waiting:
                table = pyarrow().ipc.open_stream(waiting.pop(wanted)).read_all()
                yield {name: table.column(name) for name in table.column_names}
                wanted += 1


def bounds(n_parts: int | None, n_runs: int) -> list[tuple[int, int | None]]:
    """Where runs of about the same number of parts begin and end; of a stream, whose parts nobody knows, one run."""
    if n_parts is None:
        return [(0, None)]
    n_runs = min(n_parts, n_runs)
    cuts = [number * n_parts // n_runs for number in range(n_runs + 1)] if n_runs else []
    return list(pairwise(cuts))


def _run_file(run: _Run) -> tuple[str, ...]:
    return (run.path,)
