"""One training of a table: what is trained on what, and what came of it. It is done in a process of its own."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from loglinear.data import Columns
from loglinear.errors import LoglinearError, OptionError
from loglinear.estimators.tagger import Tagger
from loglinear.evaluation import accuracy_report, chunk_counts, chunk_scores, label_counts
from loglinear.evaluation.schemes import has_chunks
from loglinear.experiments.reproduce.tasks import split_of

WARM_UP_SENTENCES, WARM_UP_ITERATIONS = 20, 2
Cell = dict[str, Any]


def checksum(path: str) -> str:
    """What tells a file from any other."""
    now = os.stat(path)
    return _checksum(path, now.st_size, now.st_mtime_ns)


@lru_cache(maxsize=64)
def _checksum(path: str, size: int, changed: int) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]


@dataclass(frozen=True)
class Job:
    """A training.

    Parameters
    ----------
    task : str
        One of :data:`~loglinear.experiments.reproduce.tasks.TASKS`, or of :mod:`.parser_training`.
    files : tuple of str
        The corpus; none for the bundled one.
    options : dict
        Of the :class:`~loglinear.Tagger`, or of the parser.
    seed : int
        Of the split and of training.
    unknown, n_train
        As for :func:`~loglinear.experiments.reproduce.tasks.split_of`.
    init : str
        Model file to start from.
    keep : str
        Model file to write.
    threads : int
    """

    task: str
    files: tuple[str, ...]
    options: dict[str, Any]
    seed: int = 0
    unknown: bool = False
    n_train: int | None = None
    init: str = ""
    keep: str = ""
    threads: int = 1

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {**asdict(self), "files": list(self.files)}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Job:
        """The opposite."""
        return cls(**{**fields, "files": tuple(fields["files"])})

    @property
    def identity(self) -> dict[str, Any]:
        """All that the outcome depends on, without a place of this machine."""
        fields = self.to_dict()
        for place in ("files", "init", "keep", "threads"):
            del fields[place]
        return {**fields, "data": [checksum(file) for file in self.files], "warm": bool(self.init)}


@dataclass
class Warm:
    """Which kinds of training this process has done, so that none pays for loading compiled kernels."""

    done: set[str] = field(default_factory=set)

    def up(self, job: Job, practise: Callable[[], Any]) -> None:
        """Practise, which is to do on a few sentences what the job will, unless something like it was done."""
        varying = ("variance", "l2", "max_iter")
        kind = repr([job.task, *sorted((k, v) for k, v in job.options.items() if k not in varying)])
        if kind in self.done:
            return
        self.done.add(kind)
        with suppress(LoglinearError):  # no minimum without a penalty; the kernels are loaded all the same
            practise()


def measure(job: Job, warm: Warm | None = None) -> Cell:
    """Train and score; seconds are of processor time, with encoding and expectations, without loading kernels."""
    train, dev, test = split_of(job.task, job.files, job.seed, job.unknown, job.n_train)
    if warm is not None:
        warm.up(job, lambda: _practise(job, train, test))
    tagger = Tagger(**job.options, seed=job.seed, threads=job.threads)
    began = time.process_time()
    try:
        tagger.fit(train, init=job.init or None)
    except OptionError as error:  # without a penalty there may be no minimum
        return {"job": job.identity, "failed": str(error), "seconds": time.process_time() - began}
    seconds = time.process_time() - began
    if job.keep:
        tagger.save(job.keep)
    found: Cell = {"dev": scores(tagger, dev)[0]}
    found["test"], found["counts"] = scores(tagger, test)
    return {
        "job": job.identity, **found, "seconds": seconds, "iterations": tagger.n_iter_,
        "features": tagger.n_features_trained_, "message": tagger.message_, "sentences": len(train),
    }  # fmt: skip


def _practise(job: Job, train: Columns, test: Columns) -> None:
    few = np.arange(min(WARM_UP_SENTENCES, len(train)))
    options = job.options if job.options["criterion"] == "hmm" else {**job.options, "max_iter": WARM_UP_ITERATIONS}
    tagger = Tagger(**options, seed=job.seed, threads=job.threads).fit(train.select(few))
    tagger.predict_numbers(test.select(np.arange(1)))


def scores(tagger: Tagger, corpus: Columns) -> tuple[dict[str, float], list[list[int]]]:
    """Precision, recall and F1 of chunks, or accuracy; and counts of each sentence [S, 3] for the bootstrap."""
    column = corpus.columns[-1]
    gold = (column.ids, column.values, corpus.offsets)
    predicted = (tagger.predict_numbers(corpus)[0], tagger.classes_, corpus.offsets)
    if has_chunks(column.values):
        report = chunk_scores(gold, predicted)
        figures = {"precision": report.precision, "recall": report.recall, "f1": report.f1}
        return figures, chunk_counts(gold, predicted).tolist()
    return {"accuracy": accuracy_report(gold, predicted).accuracy}, label_counts(gold, predicted).tolist()
