"""One measurement: what is to be done, its clock and its memory, and the arithmetic of the tables."""

from __future__ import annotations

import hashlib
import json
import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from loglinear.experiments.pools import pool as pools

HERE = "loglinear.experiments.bench"
PLACES = ("train", "test", "scratch")  # paths, which do not change what is measured


def threads_text(n: int) -> str:
    """A number of threads, in words."""
    return f"{n} thread{'s' if n > 1 else ''}"


@dataclass(frozen=True)
class Job(pools.Job):
    """One measurement.

    Parameters
    ----------
    kind : {"ours", "passes", "peer", "listed", "criteria", "profile", "process"}
        Whose training and tagging is timed; ``passes`` is our objective and test score after each pass, untimed;
        ``listed`` is the peer's memory if all features are made first; ``process`` is a whole process.
    task : str
        Name of the corpus.
    train, test : str
        Column files with the label in the last column.
    template : str
        Text of the template.
    metric : {"f1", "accuracy"}
    tokens : int
        Tokens of the training file.
    scratch : str
        Folder for models and tagged files.
    l2 : float
        Factor of ||w||^2, python-crfsuite's c2.
    criterion, optimizer : str, str or None
        How ours trains; None is the criterion's first choice.
    algorithm : str
        How python-crfsuite trains.
    max_iter : int or None
        Most passes; None is each side's default stop.
    repeat : int
        Which of the repetitions this is.
    names : tuple of str
        For ``criteria``, which ones.
    process, state : str
        For ``process``, which one of :data:`PROCESSES`, and in which state it finds its kernels, one of :data:`STATES`.
    """

    MEASURES: ClassVar[dict[str, str]] = {
        "ours": f"{HERE}.ours:measure_ours",
        "passes": f"{HERE}.ours:score_passes",
        "criteria": f"{HERE}.ours:measure_criteria",
        "profile": f"{HERE}.ours:profile",
        "peer": f"{HERE}.peer:measure_peer",
        "listed": f"{HERE}.peer:measure_listed",
        "process": f"{HERE}.processes:measure_process",
    }

    task: str
    train: str
    test: str
    template: str
    metric: str
    tokens: int
    scratch: str
    l2: float = 1.0
    criterion: str = "cll"
    optimizer: str | None = None
    algorithm: str = "lbfgs"
    max_iter: int | None = None
    repeat: int = 0
    names: tuple[str, ...] = ()
    process: str = ""
    state: str = ""

    @property
    def side(self) -> str:
        """Who or what is measured, in words."""
        if self.kind == "process":
            return process_text(self)
        if self.kind == "peer":
            return f"python-crfsuite {self.algorithm}"
        if self.kind == "listed":
            return "python-crfsuite, memory with features in a list"
        if self.kind == "criteria":
            return "an evaluation of each criterion"
        way = self.criterion if self.optimizer is None else f"{self.criterion} by {self.optimizer}"
        if self.kind == "profile":
            return f"profile of {way}"
        return f"{way}, scores by pass" if self.kind == "passes" else f"{way}, {threads_text(self.threads)}"

    @property
    def identity(self) -> dict[str, Any]:
        """The fields that say what is measured, without the paths of files."""
        return {name: value for name, value in self.to_dict().items() if name not in PLACES}

    @property
    def key(self) -> str:
        """A name that is the same for the same measurement."""
        mark = hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode()).hexdigest()[:12]
        return f"{self.task}: {self.side}, repeat {self.repeat} [{mark}]"


#: Whole processes, by what people call them.
PROCESSES = {
    "numpy": "import numpy",
    "import": "from loglinear import Tagger; Tagger()",
    "help": "loglinear --help",
    "tag few": "loglinear tag, 100 sentences",
    "tag": "loglinear tag, the test file",
    "train": "loglinear train",
    "crfsuite train": "a script with python-crfsuite, train",
    "crfsuite tag": "a script with python-crfsuite, tag the test file",
    "vw train": "a script with Vowpal Wabbit, train",
    "vw tag": "a script with Vowpal Wabbit, tag the test file",
}
#: What a process finds in the cache for kernels.
STATES = {"warm": "", "first": "first run", "compiling": "first run, kernels not compiled ahead"}


def process_text(job: Job) -> str:
    """A whole process, in words."""
    parts = [PROCESSES[job.process]]
    if job.process == "train":
        parts[0] += "" if job.criterion == "cll" else f" --criterion {job.criterion}"
        parts.append(threads_text(job.threads))
    return ", ".join(filter(None, [*parts, STATES[job.state]]))


# ----------------------------------------------------------------------------------------------------------------------
# What the measurements of both sides share: the clock, peak memory, and the score of a tagged file.


class Clock:
    """Wall-clock seconds of named stages."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def timing(self, name: str) -> Iterator[None]:
        """Add the time of the block to ``name``."""
        began = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began

    def total(self, *names: str) -> float:
        """Seconds of several stages."""
        return sum(self.seconds[name] for name in names)

    def report(self, job: Job, optimise: float, iterations: int) -> dict[str, Any]:
        """What is reported for either side: the stages, and the optimizer's seconds and passes."""
        return {
            **{name: spent for name, spent in self.seconds.items() if name != "fit"}, "optimise": optimise,
            "iterations": iterations, "per_pass": optimise / max(1, iterations),
            "stopped_early": job.max_iter is not None and iterations >= job.max_iter,
        }  # fmt: skip


def peak_megabytes() -> float:
    """The peak memory of this process so far, in MB (10^6 bytes).

    Linux records it for each process image (VmHWM); ``ru_maxrss`` would include that of the parent process.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6


def score_tagged(path: str | Path, metric: str) -> float:
    """Chunk F1 or accuracy, in percent, of a file whose last columns are gold and predicted labels."""
    from loglinear.data import read_columns
    from loglinear.evaluation import accuracy_report, chunk_scores

    corpus = read_columns(path)
    gold, predicted = ((corpus.column(c).ids, corpus.column(c).values, corpus.offsets) for c in (-2, -1))
    return chunk_scores(gold, predicted).f1 if metric == "f1" else accuracy_report(gold, predicted).accuracy


# ----------------------------------------------------------------------------------------------------------------------
# The arithmetic of the tables: medians, ratios, and when a training first reached a value.
#
# A history is a list of (seconds, value) after each pass. The converged objective is the least that any side ended at;
# within 0.1 % of it is at most 1.001 times it.


History = Sequence[tuple[float, float]]
WITHIN = 1e-3


def median(values: Iterable[float | None]) -> float | None:
    """The median of the values that are not None; None if all are."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def ratio(theirs: float | None, ours: float | None) -> float | None:
    """Theirs divided by ours; None if either is missing or ours is zero."""
    return None if theirs is None or not ours else theirs / ours


def first_at_most(history: History, bound: float) -> float | None:
    """Seconds until the value first was at most ``bound``; None if it never was."""
    return next((seconds for seconds, value in history if value <= bound), None)


def first_at_least(history: History, bound: float) -> float | None:
    """Seconds until the value first was at least ``bound``; None if it never was."""
    return next((seconds for seconds, value in history if value >= bound), None)


def objective_bound(ends: Iterable[float | None], within: float = WITHIN) -> float | None:
    """The objective that counts as converged, given where each side ended."""
    known = [end for end in ends if end is not None]
    return min(known) * (1.0 + within) if known else None
