"""Which measurements a benchmark is made of, in the order in which they are done.

A round has each side once, so that a slow moment of the machine falls on both; rounds are repeated.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from loglinear.criteria.criterion import CRITERIA, criteria_of
from loglinear.errors import OptionError
from loglinear.estimators.tagger.estimator import Tagger
from loglinear.experiments.bench.job import PROCESSES, STATES, Job
from loglinear.experiments.bench.peer import ALGORITHMS
from loglinear.experiments.corpora import Corpus, generated
from loglinear.experiments.pools.pool import OutOfMemory, Say
from loglinear.experiments.pools.processes import ProcessPool
from loglinear.experiments.store import Store
from loglinear.structures.chain.structure import Chain

Way = tuple[str, str | None]  # criterion, and optimizer: None is the criterion's first choice
GROWTH_PASSES, LISTED_PASSES = 3, 2
PEERS = {"crfsuite": "pycrfsuite", "vw": "vowpalwabbit"}  # modules of the tools whose processes are measured


def peer_is_installed() -> bool:
    """Whether python-crfsuite can be measured."""
    return importlib.util.find_spec("pycrfsuite") is not None


def processes(state: str, peer: bool) -> list[str]:
    """The processes that are measured in a state, those of installed peers if ``peer``."""
    if state != "warm":
        return ["tag few", "train"]
    others = [name for name in PEERS if peer and importlib.util.find_spec(PEERS[name]) is not None]
    return [name for name in PROCESSES if (tool := name.partition(" ")[0]) not in PEERS or tool in others]


def trained_as_processes(criteria: Iterable[str]) -> list[str]:
    """The criteria whose whole training is measured: cll and those that learn weights of the template's features."""
    return [name for name in dict.fromkeys(["cll", *criteria]) if CRITERIA[name].learns_weights]


def distinct(ways: Iterable[Way]) -> tuple[Way, ...]:
    """The ways without those whose optimizer is the default of one before."""
    kept: dict[tuple[str, str], Way] = {}
    for criterion, optimizer in ways:
        chosen = CRITERIA.part(criterion).optimizers[0] if optimizer is None else optimizer
        kept.setdefault((criterion, chosen), (criterion, optimizer))
    return tuple(kept.values())


def _fields(way: Way | None) -> dict[str, Any]:
    """A way to train, as fields of a job."""
    return {} if way is None else {"criterion": way[0], "optimizer": way[1]}


@dataclass(frozen=True)
class Settings:
    """What a benchmark measures.

    Parameters
    ----------
    threads : tuple of int
        Numbers of threads of ours.
    repeat : int
        Rounds.
    l2 : float
    ways : tuple of Way
        How ours trains.
    algorithms : tuple of str
        The peer's other algorithms, on the first corpus.
    criteria : tuple of str
        Criteria whose evaluation, and whose training as a whole process, is measured on the first corpus.
    processes : bool
        Measure whole processes, from start to exit, on the first corpus.
    sizes : tuple of int
        Tokens of the generated corpora that show how cost grows.
    max_iter, peer_iterations : int or None
        Most passes of ours and of the peer; None is each side's default stop.
    peer : bool
        Measure python-crfsuite, too.
    peer_most : int
        Most tokens of a growth corpus that the peer is measured on.
    profile : bool
    """

    threads: tuple[int, ...] = (1, 2)
    repeat: int = 3
    l2: float = 1.0
    ways: tuple[Way, ...] = (("cll", None), ("cll", "lbfgs"))
    algorithms: tuple[str, ...] = ()
    criteria: tuple[str, ...] = ()
    processes: bool = False
    sizes: tuple[int, ...] = ()
    max_iter: int | None = None
    peer_iterations: int | None = None
    peer: bool = True
    peer_most: int = 1_000_000
    profile: bool = False

    def __post_init__(self) -> None:
        for name, n in (("repeat", self.repeat), *(("threads", n) for n in self.threads)):
            if n < 1:
                raise OptionError(f"{name}={n} must be at least 1")
        if not self.threads or not self.ways:
            raise OptionError("give at least one number of threads and one way to train")
        for name in self.algorithms:
            if name not in ALGORITHMS:
                raise OptionError(f"algorithm={name!r} is not python-crfsuite's; it has {', '.join(ALGORITHMS)}")
        for name in self.criteria:
            if name not in criteria_of(Chain):
                raise OptionError(f"criterion={name!r} is not known; there are {', '.join(criteria_of(Chain))}")
        for criterion, optimizer in self.ways:
            Tagger(criterion=criterion, optimizer=optimizer).check_options()


def in_child(job: Job, observe: Say) -> dict[str, Any]:
    """Do a job in a separate process, so that its peak memory is its own; running out of memory is a result, too."""
    try:
        with ProcessPool(1) as pool:
            return dict(pool.run({job.key: job}, lambda _, text: observe(text)))[job.key]
    except OutOfMemory as error:
        return {"failed": str(error).removeprefix(f"{job.key}: ")}


@dataclass
class Benchmark:
    """The jobs of a benchmark over some corpora, and what they measured.

    Parameters
    ----------
    settings : Settings
    corpora : list of Corpus
    scratch : Path
        Folder for temporary files.
    store : Store
        Where measurements go; those that it has already are not repeated.
    measure : callable
        Does a job, and reports its progress.

    Attributes
    ----------
    jobs : dict from key to Job
        The measurements that were asked for; the store may hold others, with other settings.
    described : dict from name to dict
        Sizes of the corpora.
    """

    settings: Settings
    corpora: list[Corpus]
    scratch: Path
    store: Store
    measure: Callable[[Job, Say], dict[str, Any]] = in_child
    jobs: dict[str, Job] = field(default_factory=dict)
    described: dict[str, dict[str, Any]] = field(default_factory=dict)

    def run(self, before: Callable[[int, int, Job], None], observe: Say) -> None:
        """Do all jobs; ``before`` gets the number of the next, their total and the job, ``observe`` its progress."""
        jobs = [*self._jobs()]
        total = len(jobs) + self._growth_count()
        for number, job in enumerate(chain(jobs, self._growth()), 1):
            self.jobs[job.key] = job
            if self.store.get(job.key) is None:
                before(number, total, job)
                self.store.put(job.key, {"job": job.identity, "result": self.measure(job, observe)})

    @property
    def results(self) -> list[tuple[Job, dict[str, Any]]]:
        """The finished jobs, with what they measured."""
        return [(job, self.store.cells[key]["result"]) for key, job in self.jobs.items() if key in self.store.cells]

    def of(self, kind: str, task: str, way: Way | None = None, **wanted: Any) -> list[dict[str, Any]]:
        """Results of a task's jobs of that kind, trained that way and with the fields wanted; without failed ones."""
        wanted |= {"task": task, **_fields(way)}
        return [
            result
            for job, result in self.results
            if job.kind == kind and "failed" not in result and all(getattr(job, n) == v for n, v in wanted.items())
        ]

    def _job(self, kind: str, corpus: Corpus, way: Way | None = None, **fields: Any) -> Job:
        self.described[corpus.name] = {
            "sentences": corpus.n_sentences, "tokens": corpus.n_tokens, "labels": corpus.n_labels,
            "metric": corpus.metric,
        }  # fmt: skip
        return Job(
            kind=kind, task=corpus.name, train=str(corpus.train), test=str(corpus.test), template=corpus.template,
            metric=corpus.metric, tokens=corpus.n_tokens, scratch=str(self.scratch), l2=self.settings.l2,
            **_fields(way), **fields,
        )  # fmt: skip

    def _jobs(self) -> Iterator[Job]:
        settings = self.settings
        for number, corpus in enumerate(self.corpora):
            for way in settings.ways:
                yield self._job("passes", corpus, way, max_iter=settings.max_iter)
            if settings.peer:
                yield self._job("listed", corpus, max_iter=LISTED_PASSES)
            algorithms = ["lbfgs", *(name for name in settings.algorithms if name != "lbfgs" and number == 0)]
            for repeat in range(settings.repeat):
                yield from self._round(corpus, algorithms, repeat)
        first = self.corpora[:1]
        for corpus in first if settings.processes else ():
            yield from self._processes(corpus)
        for corpus in first if settings.criteria else ():
            yield self._job("criteria", corpus, names=settings.criteria)
            yield from self._whole_trainings(corpus)
        for corpus in first if settings.profile else ():
            for way in settings.ways:
                yield self._job("profile", corpus, way, max_iter=settings.max_iter)

    def _round(self, corpus: Corpus, algorithms: list[str], repeat: int) -> Iterator[Job]:
        settings = self.settings
        for way in settings.ways:
            for threads in settings.threads:
                yield self._job("ours", corpus, way, threads=threads, repeat=repeat, max_iter=settings.max_iter)
        for algorithm in algorithms if settings.peer else ():
            yield self._job("peer", corpus, algorithm=algorithm, repeat=repeat, max_iter=settings.peer_iterations)

    def _processes(self, corpus: Corpus) -> Iterator[Job]:
        """Whole processes, in turn; first runs once, as they compile for long where no kernels are shipped."""
        settings = self.settings
        for state in STATES:
            for repeat in range(settings.repeat if state == "warm" else 1):
                for name in processes(state, settings.peer):
                    peer = name.startswith(tuple(PEERS))
                    most = settings.peer_iterations if peer else settings.max_iter
                    threads = settings.threads if name == "train" and state == "warm" else settings.threads[-1:]
                    for n in threads:
                        yield self._job(
                            "process", corpus, process=name, state=state, repeat=repeat, threads=n, max_iter=most
                        )

    def _whole_trainings(self, corpus: Corpus) -> Iterator[Job]:
        """The training of each criterion as a whole process, and that of cll."""
        settings = self.settings
        for repeat in range(settings.repeat):
            for criterion in trained_as_processes(settings.criteria):
                yield self._job(
                    "process", corpus, (criterion, None), process="train", state="warm", repeat=repeat,
                    threads=settings.threads[-1], max_iter=settings.max_iter,
                )  # fmt: skip

    def _growth(self) -> Iterator[Job]:
        """Generated corpora from small to large, each made when it is needed and removed afterwards."""
        settings = self.settings
        for size in sorted(settings.sizes):
            corpus = generated(size, self.scratch)
            corpus = replace(corpus, name=f"growth {corpus.name}", test=corpus.train)
            for repeat in range(settings.repeat):
                for n in settings.threads:
                    yield self._job("ours", corpus, settings.ways[0], threads=n, repeat=repeat, max_iter=GROWTH_PASSES)
                if settings.peer and size <= settings.peer_most:
                    yield self._job("peer", corpus, repeat=repeat, max_iter=GROWTH_PASSES)
            corpus.train.unlink(missing_ok=True)

    def _growth_count(self) -> int:
        settings = self.settings
        sides = [len(settings.threads) + (settings.peer and size <= settings.peer_most) for size in settings.sizes]
        return settings.repeat * sum(sides)
