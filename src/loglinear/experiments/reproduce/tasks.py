"""The papers' tasks: their sentences, training and scoring on them, and how results are compared.

What the papers' taggers are trained and scored on: column files made into training, tuning and test sentences.

    noun-phrases    CoNLL-2000 with all labels but those of noun phrases made O; 900 training sentences are for tuning
                    (Smith, Vail & Lafferty 2007, section 5)
    entities        CoNLL-2002 or -2003: train, testa and testb as they are
    entities-held   the same train with a tenth left out for tuning, tested on testa (Sutton & McCallum 2005, section 4)
    entities-all    all of train, tested on testa
    tags            the words and tags of CoNLL-2000: 1,154 training sentences and as many others for tuning
                    (Sutton & McCallum 2005, section 4)

Which sentences are left out is drawn by the seed. Without files, the bundled corpus stands for them.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import lru_cache, partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from loglinear.arrays import Int64
from loglinear.data import Column, Columns, read_columns
from loglinear.data.corpora.bundled import SPLITS, bundled_rows, bundled_text, bundled_trees
from loglinear.data.dependencies import Dependencies, conllu_text, parse_conllu, read_conllu
from loglinear.data.trees.cleaning import read_treebank
from loglinear.data.trees.tree import Tree
from loglinear.errors import DataError, LoglinearError, OptionError
from loglinear.estimators.dependency.estimator import DependencyParser
from loglinear.estimators.parser.estimator import Parser
from loglinear.estimators.tagger.estimator import Tagger
from loglinear.evaluation import accuracy_report, chunk_counts, chunk_scores, label_counts
from loglinear.evaluation.attachment import attachment_counts, attachment_scores
from loglinear.evaluation.brackets import bracket_scores
from loglinear.evaluation.chunks import has_chunks
from loglinear.evaluation.significance import paired_bootstrap
from loglinear.experiments.tables import MISSING, number

Split = tuple[Columns, Columns, Columns]
UNKNOWN = "<OOV>"
TUNING_SENTENCES = 900  # of the noun phrases
TAG_SENTENCES = 1154
HELD_SHARE, BUNDLED_SHARE = 10, 5  # a tenth, a fifth


def noun_phrases(corpus: Columns) -> Columns:
    """The corpus with all labels but those of noun phrases made O."""
    labels, kept = corpus.columns[-1], ["B-NP", "I-NP", "O"]
    number = np.array([kept.index(value) if value in kept else 2 for value in labels.values], dtype=np.int32)
    corpus.columns[-1] = Column(number[labels.ids], kept)
    return corpus


def with_unknown_words(train: Columns, *others: Columns) -> None:
    """The first occurrence of each word and tag in ``train``, and unknown ones in ``others``, become one, in place."""
    for c in range(len(train.columns) - 1):
        column = train.columns[c]
        values = [*column.values, UNKNOWN]
        ids = column.ids.copy()
        ids[np.unique(ids, return_index=True)[1]] = len(values) - 1
        known = {values[i] for i in np.unique(ids)}
        train.columns[c] = Column(ids, values)
        for other in others:
            theirs = other.columns[c]
            keep = np.array([value in known for value in theirs.values])
            number = np.where(keep, np.arange(len(keep)), len(keep)).astype(np.int32)
            other.columns[c] = Column(number[theirs.ids], [*theirs.values, UNKNOWN])


def _read(files: tuple[str, ...], task: str) -> list[Columns]:
    """The files, or train, dev and test of the bundled corpus' ``task``."""
    if files:
        return [read_columns(path, layout=False) for path in files]
    texts = [bundled_text(split, task).encode() for split in ("train", "dev", "test")]
    return [read_columns(BytesIO(text)) for text in texts]


def drawn(n: int, seed: int) -> Int64:
    """Sentence numbers [n] in an order drawn by the seed."""
    return np.random.default_rng(seed).permutation(n)


def _left_out(train: Columns, n: int, seed: int) -> tuple[Columns, Columns]:
    """The corpus without ``n`` sentences, and these."""
    order = drawn(len(train), seed)
    return train.select(np.sort(order[n:])), train.select(np.sort(order[:n]))


def _noun_phrases(files: tuple[str, ...], seed: int) -> Split:
    everything, *_, test = map(noun_phrases, _read(files, "chunk"))
    n = TUNING_SENTENCES if files else len(everything) // BUNDLED_SHARE
    return *_left_out(everything, n, seed), test


def _entities(files: tuple[str, ...], seed: int) -> Split:
    train, dev, test = _read(files, "ner")
    return train, dev, test


def _entities_held(files: tuple[str, ...], seed: int) -> Split:
    train, dev, _ = _read(files, "ner")
    return *_left_out(train, len(train) // HELD_SHARE, seed), dev


def _entities_all(files: tuple[str, ...], seed: int) -> Split:
    train, dev, _ = _read(files, "ner")
    return train, dev, dev


def _tags(files: tuple[str, ...], seed: int) -> Split:
    train, *_, test = _read(files, "pos")
    train, test = (Columns(each.name, each.offsets, each.lines, each.columns[:2]) for each in (train, test))
    n = TAG_SENTENCES if files else len(train) // 2
    order = drawn(len(train), seed)
    return train.select(np.sort(order[:n])), train.select(np.sort(order[n : 2 * n])), test


TASKS: dict[str, Callable[[tuple[str, ...], int], Split]] = {
    "noun-phrases": _noun_phrases,
    "entities": _entities,
    "entities-held": _entities_held,
    "entities-all": _entities_all,
    "tags": _tags,
}


@lru_cache(maxsize=2)
def split_of(task: str, files: tuple[str, ...], seed: int, unknown: bool = False, n_train: int | None = None) -> Split:
    """Training, tuning and test sentences.

    ``unknown`` makes the first occurrence of each value an unknown one, as the hidden Markov model does by itself;
    ``n_train`` keeps only so many training sentences, drawn by the seed, the fewer among the more.
    """
    train, dev, test = TASKS[task](files, seed)
    if n_train is not None:
        train = train.select(np.sort(drawn(len(train), seed + 1)[:n_train]))
    if unknown:
        with_unknown_words(train, dev, test)
    return train, dev, test


# ----------------------------------------------------------------------------------------------------------------------
# One training of a table: what is trained on what, and what came of it. It is done in a process of its own.


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
        One of :data:`TASKS`, or a training of parsers.
    files : tuple of str
        The corpus; none for the bundled one.
    options : dict
        Of the :class:`~loglinear.Tagger`, or of the parser.
    seed : int
        Of the split and of training.
    unknown, n_train
        As for :func:`split_of`.
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


# ----------------------------------------------------------------------------------------------------------------------
# Trainings of parsers, of constituents and of dependencies.
#
#     trees           the sentences of at most 15 words: the first file to train on, all others to test on
#     dependencies    the first file to train on, the second to test on
#
# Without files, the bundled corpus stands for them.


TREES, DEPENDENCIES = "trees", "dependencies"
LONGEST = 15


@lru_cache(maxsize=1)
def trees_of(files: tuple[str, ...]) -> tuple[list[Tree], list[Tree]]:
    """Training and test trees."""
    parts = map(read_treebank, files) if files else (bundled_trees(part, entities=False) for part in SPLITS)
    train, *others = ([tree for tree in trees if len(tree.leaves()) <= LONGEST] for trees in parts)
    return train, [tree for trees in others for tree in trees]


@lru_cache(maxsize=1)
def dependencies_of(files: tuple[str, ...]) -> tuple[Dependencies, Dependencies]:
    """Training and test sentences."""
    if files:
        train, test = map(read_conllu, files)
    else:
        texts = ["".join(map(conllu_text, bundled_rows(part, "dependency"))).encode() for part in ("train", "dev")]
        train, test = (parse_conllu(text, "bundled") for text in texts)
    return train, test


def measure_trees(job: Job, warm: Warm | None = None) -> Cell:
    """Train and score a parser of constituents; seconds as :func:`measure` has them."""
    train, test = trees_of(job.files)
    parser = Parser(**job.options, seed=job.seed, threads=job.threads)
    words = [tree.leaves() for tree in test]
    if warm is not None:
        warm.up(job, lambda: parser.fit(train[:WARM_UP_SENTENCES]).predict(words[:1]))
    began = time.process_time()
    parser.fit(train)
    seconds = time.process_time() - began
    if parser.interrupted_:
        raise LoglinearError("the training was stopped by a signal")
    report = bracket_scores(test, parser.predict(words))
    wrong = re.search(r"([\d,]+) wrong ones", parser.message_)
    return {
        "job": job.identity, "test": report.to_dict(), "counts": report.counts[:, :3].tolist(), "seconds": seconds,
        "message": parser.message_, "sentences": len(train), "wrong_edges": wrong[1] if wrong else "",
    }  # fmt: skip


def measure_dependencies(job: Job, warm: Warm | None = None) -> Cell:
    """The same of a parser of dependencies."""
    train, test = dependencies_of(job.files)
    make = partial(DependencyParser, seed=job.seed, threads=job.threads)
    if warm is not None:
        few = train.select(range(min(WARM_UP_SENTENCES, train.n_sentences)))
        least = {} if job.options["criterion"] == "generative" else {"max_iter": WARM_UP_ITERATIONS}
        warm.up(job, lambda: make(**{**job.options, **least}).fit(few).parse(few))
    parser = make(**job.options)
    began = time.process_time()
    parser.fit(train)
    seconds = time.process_time() - began
    parses = parser.parse(test)
    return {
        "job": job.identity, "test": attachment_scores(test, parses.heads, parses.relations).to_dict(),
        "counts": attachment_counts(test, parses.heads).tolist(), "seconds": seconds, "message": parser.message_,
        "sentences": train.n_sentences,
    }  # fmt: skip


# ----------------------------------------------------------------------------------------------------------------------
# What the tables share: choosing on the tuning sentences, the published figure beside ours, the bootstrap.


BOOTSTRAP = "p is that of the paired bootstrap by sentence (10,000 draws)."
PROCESSOR = (
    "Seconds are of processor time on one thread: reading features off the data and expectations are counted, loading "
    "compiled kernels is not."
)


def best(cells: dict[str, Cell], metric: str = "f1") -> str:
    """Name of the cell that is best on the tuning sentences; the first of equals."""
    able = {name: cell for name, cell in cells.items() if "failed" not in cell}
    if not able:
        raise DataError(f"no training came to an end: {next(iter(cells.values()))['failed']}")
    return max(able, key=lambda name: able[name]["dev"][metric])


def against(base: Cell, cell: Cell) -> str:
    """How much better a cell is than another on the test sentences, with the bootstrap's p."""
    compared = paired_bootstrap(np.array(base["counts"]), np.array(cell["counts"]))
    return f"{compared.second - compared.first:+.2f} ({compared.p:.3f})"


def beside(figures: Sequence[float], published: Sequence[float | None]) -> list[str]:
    """The published figures, then how much ours are above the last of them; nothing where there is none."""
    shown = [number(value, 2) for value in published]
    last = published[-1]
    return [" ".join(shown), f"{figures[-1] - last:+.2f}"] if last is not None else [MISSING, MISSING]


def penalty(variance: float) -> dict[str, Any]:
    """The tagger's options for a variance; none of a penalty if it is infinite."""
    return {"l2": 0.0} if np.isinf(variance) else {"variance": variance}
