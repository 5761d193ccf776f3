"""Learning in rounds (:mod:`~loglinear.optimizers.rounds`) on a cluster: one round is one exchange.

Each group is a group of shards (:mod:`~loglinear.scale.cluster.worker`), whose process keeps what it has learnt. A job
brings the shared weights at the beginning of a round and takes back the change. A process that does not have the group,
or lacks rounds, says so, and gets the whole history: it makes these rounds again and is where the lost one was.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loglinear.arrays import Int64
from loglinear.optimizers.rounds import Beginning, Collected, Group, History, RoundResult
from loglinear.scale.cluster import worker
from loglinear.scale.cluster.groups import FIRST_TYPICAL, Groups, expectation


@dataclass(frozen=True)
class Origin:
    """What a group begins from.

    Parameters
    ----------
    beginning : Beginning
    multiplicity : int64 [D]
        How many groups have each of its features.
    n_groups, number : int
    """

    beginning: Beginning
    multiplicity: Int64
    n_groups: int
    number: int


@dataclass(frozen=True)
class Follow:
    """Rounds of a group to make.

    Parameters
    ----------
    span_key, losses
        Which group, and the name of its objective.
    name : str
        Of the training.
    first : int
        Number of the first round that ``history`` has.
    history : History
        Of the group's own shared weights.
    origin : Origin or None
        Sent with the whole history.
    collect : bool
        Whether to give the group's part of the model instead of what the last round gave.
    """

    span_key: tuple[str, int]
    losses: str
    name: str
    first: int
    history: History
    origin: Origin | None = None
    collect: bool = False


def follow(job: Follow) -> tuple[float, RoundResult | Collected | None] | str:
    """Make the rounds that the group has not made: the seconds that took, and what the last one gave."""
    began = time.perf_counter()
    state = worker.state_of(job.span_key, job.losses)
    if state is None or state.objective is None:
        return worker.LOST
    if state.member is None or state.member[0] != job.name:
        if job.origin is None:
            return worker.LOST
        origin, objective = job.origin, state.objective[1]
        member = origin.beginning.group(objective, origin.multiplicity, origin.n_groups, origin.number)
        state.member = job.name, member
    group: Group = state.member[1]
    if group.n_rounds < job.first:
        state.member = None
        return worker.LOST
    found: Any = group.follow(job.history, job.first)
    if job.collect:
        found = group.collected()
    return time.perf_counter() - began, found


class ClusterGroups:
    """The groups of a corpus on a cluster.

    Parameters
    ----------
    on : Groups
    size : int
        D.
    index : list of int64
        The features that each group has.
    losses : str
        Name of the objective.
    beginning : Beginning
    """

    def __init__(self, on: Groups, size: int, index: Sequence[Int64], losses: str, beginning: Beginning) -> None:
        self._on, self._index, self._losses, self._name = on, index, losses, uuid.uuid4().hex
        n_groups = len(index)
        multiplicity = np.zeros(size, dtype=np.int64)
        for own in index:
            multiplicity[own] += 1
        self._origins = [Origin(beginning, multiplicity[own], n_groups, number) for number, own in enumerate(index)]
        self.shared: Int64 = np.flatnonzero(multiplicity > 1)
        self.among: Int64 = multiplicity[self.shared]
        own_shared = [own[origin.multiplicity > 1] for own, origin in zip(index, self._origins, strict=True)]
        self._places = [np.searchsorted(self.shared, own) for own in own_shared]

    def round(self, history: History) -> list[tuple[Int64, RoundResult]]:
        """See :class:`~loglinear.optimizers.rounds.Groups`."""
        began, work, report = time.perf_counter(), 0.0, self._on.report
        found = []
        for g, (seconds, result) in self._followed(history, collect=False):
            work += seconds
            report.round_exchanged += 2 * result.change.nbytes
            found.append((self._places[g], result))
        took = time.perf_counter() - began
        report.rounds, report.round_seconds = report.rounds + 1, report.round_seconds + took
        if report.rounds == FIRST_TYPICAL and self._on.say is not None:
            exchanged = report.round_exchanged / report.rounds
            self._on.say(expectation("round", took, work, exchanged, report.workers))
        return found

    def collect(self, history: History) -> list[tuple[Int64, Int64, Collected]]:
        """See :class:`~loglinear.optimizers.rounds.Groups`."""
        found = []
        for g, (_, part) in self._followed(history, collect=True):
            found.append((self._index[g][self._origins[g].multiplicity == 1], self._index[g], part))
        return found

    def _followed(self, history: History, collect: bool) -> Iterator[tuple[int, Any]]:
        n = len(history.shared)

        def job(g: int, whole: bool) -> Follow:
            first = 0 if whole or n == 1 else n - 1
            own = History([each[self._places[g]] for each in history.shared[first:]], history.cautions[first:])
            key, origin = self._on.spans[g].key, None if first else self._origins[g]
            return Follow(key, self._losses, self._name, first, own, origin, collect)

        jobs = [job(g, whole=False) for g in range(len(self._index))]
        yield from self._on.over_groups(follow, jobs, again=lambda g: job(g, whole=True))
