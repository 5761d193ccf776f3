"""Groups of shards on a cluster: jobs for all of them, in their order, and what a training with them took."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

from loglinear.arrays import Int64
from loglinear.errors import ClusterError, LoglinearError
from loglinear.scale.cluster import worker
from loglinear.scale.cluster.engine import Cluster
from loglinear.system import size_of
from loglinear.wording import how_many

MOST_REPEATS = 10  # of a step whose workers keep losing what it needs


@dataclass
class Report:
    """How training on a cluster went.

    Parameters
    ----------
    workers, pieces, groups : int
        How many there were: of workers at the beginning, of parts of the source, of groups of shards.
    passes : int
        Over the corpus, each with a gradient.
    seconds, work : float
        What these took, and what the workers took for them together.
    exchanged : int
        Bytes that were sent for them, there and back.
    rounds : int
        Of dual ascent, or of an online learner.
    round_seconds, round_exchanged : float, int
        What these took, and the bytes that were sent for them.
    deaths, repairs : int
        Workers that were lost, and groups that others had to encode again.
    """

    workers: int
    pieces: int
    groups: int = 0
    passes: int = 0
    seconds: float = 0.0
    work: float = 0.0
    exchanged: int = 0
    rounds: int = 0
    round_seconds: float = 0.0
    round_exchanged: int = 0
    deaths: int = 0
    repairs: int = 0

    def __str__(self) -> str:
        told = [how_many(self.workers, "worker"), how_many(self.groups, "group")]
        kinds = (
            ("round", self.rounds, self.round_seconds, self.round_exchanged),
            ("pass", self.passes, self.seconds, self.exchanged),
        )
        for kind, n, seconds, exchanged in kinds:
            if n:
                told.append(f"{how_many(n, kind)} of {seconds / n:.2g} s and {size_of(exchanged / n)}")
        if self.deaths:
            told.append(f"{how_many(self.deaths, 'worker')} lost, {how_many(self.repairs, 'group')} set up again")
        return ", ".join(told)


class Groups(ABC):
    """The groups of a corpus.

    Parameters
    ----------
    cluster : Cluster
    spans : list of Span
    offsets : int64 [S + 1]
        Of the whole corpus.
    report : Report
    say : callable, optional
        Is told what training is going to take.
    """

    def __init__(
        self,
        cluster: Cluster,
        spans: list[worker.Span],
        offsets: Int64,
        report: Report,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.cluster, self.spans, self.offsets, self.report, self.say = cluster, spans, offsets, report, say
        self.losses: list[worker.Losses] | None = None
        self.digests: list[str] = []
        report.groups = len(spans)

    @abstractmethod
    def prepared(self, only: Sequence[int] | None = None) -> list[str]:
        """Have the groups (or ``only`` some) made, and their objectives: a digest of each."""

    def expected(self, g: int) -> str | None:
        """The digest of a group that has been made before."""
        return self.digests[g] if self.digests else None

    @abstractmethod
    def own_features(self, features: Any, g: int) -> tuple[Any, Int64]:
        """The features that occur in a group, and where in the weight vector they are."""

    def name_of(self, g: int) -> str:
        """What messages call a group."""
        return self.spans[g].name

    def over_groups(
        self, function: Callable[..., Any], jobs: Sequence[Any], again: Callable[[int], Any] | None = None
    ) -> Iterator[tuple[int, Any]]:
        """Number and result of a job for each group, in the order of the groups.

        ``again`` gives the job for a group whose process lost what it kept, if that is another one.
        """
        results, left, due = dict[int, Any](), list(range(len(self.spans))), 0
        for repeat in range(MOST_REPEATS):
            lost = []
            sent = [jobs[g] if repeat == 0 or again is None else again(g) for g in left]
            names, homes = [self.name_of(g) for g in left], [self.spans[g].key for g in left]
            stream = self.cluster.stream(function, sent, names=names, homes=homes)
            with closing(stream) as found:  # type: ignore[type-var]
                for n, result in found:
                    if isinstance(result, str) and result == worker.LOST:
                        lost.append(left[n])
                        continue
                    results[left[n]] = result
                    while due in results:
                        yield due, results.pop(due)
                        due += 1
            left = sorted(lost)
            if not left:
                return
            self.report.repairs += len(left)
            self.prepared(left)
        raise ClusterError(f"{self.name_of(left[0])}: workers lost this {MOST_REPEATS} times in one pass")

    def release(self) -> None:
        """Let the workers forget the groups; without workers there is nobody to wait for."""
        if not self.cluster.n_workers:
            return
        with suppress(LoglinearError):
            keys = [span.key for span in self.spans]
            self.cluster.map(worker.forget, keys, homes=keys)


FIRST_TYPICAL = 2  # the pass or round that the expectation is made from: the first one lays the corpus out


def expectation(kind: str, seconds: float, work: float, exchanged: float, n_workers: int) -> str:
    """What passes or rounds take, and whether the cluster pays."""
    told = (
        f"a {kind} takes {seconds:.2g} s and exchanges {size_of(exchanged)}; one core alone would take about "
        f"{work:.2g} s"
    )
    if n_workers > 1 and seconds >= work:
        told += ": on one machine this corpus is trained sooner"
    return told
