"""The papers' tasks: their sentences, training and scoring on them, and the comparison of results.

Taggers are trained and scored on column files split into training, tuning and test sentences:

    noun-phrases    CoNLL-2000 with all labels but those of noun phrases replaced by O; 900 training sentences are for
                    tuning (Smith, Vail & Lafferty 2007, section 5)
    noun-phrases-last  the same but for the tuning sentences, the last 973: the rest has the paper's 9,014 words
    entities        CoNLL-2002 or -2003: train, testa and testb as they are
    entities-held   train with a tenth left out for tuning, tested on testa (Sutton & McCallum 2005, section 4)
    tags            the words and tags of CoNLL-2000: 1,154 training sentences and as many others for tuning
                    (Sutton & McCallum 2005, section 4)

The sentences to leave out are drawn by the seed. Without files, the bundled corpus is used.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from loglinear.arrays import Bool, Int64
from loglinear.data import Column, Columns, read_columns
from loglinear.data.corpora.bundled import SPLITS, bundled_rows, bundled_text, bundled_trees
from loglinear.data.dependencies import Dependencies, conllu_text, parse_conllu, read_conllu
from loglinear.data.trees.cleaning import read_treebank
from loglinear.data.trees.tree import Tree
from loglinear.estimators.dependency.estimator import DependencyParser
from loglinear.estimators.parser.estimator import Parser
from loglinear.estimators.tagger.estimator import Tagger
from loglinear.estimators.tagger.model import ChainModel
from loglinear.evaluation import accuracy_report, chunk_counts, chunk_scores, label_counts
from loglinear.evaluation.attachment import attachment_counts, attachment_scores
from loglinear.evaluation.brackets import bracket_scores
from loglinear.evaluation.chunks import has_chunks
from loglinear.evaluation.significance import paired_bootstrap
from loglinear.experiments.pools import pool as pools
from loglinear.experiments.pools.pool import Pool, Say, warm_up
from loglinear.experiments.store import NOTHING, NUMBER, Cell, Store, is_finite, misfit, unreadable
from loglinear.experiments.tables import MISSING, number

Row = TypeVar("Row")
Split = tuple[Columns, Columns, Columns]
UNKNOWN = "<OOV>"
TUNING_SENTENCES = 900  # of the noun phrases
LAST_SENTENCES = 973
TAG_SENTENCES = 1154
HELD_SHARE, BUNDLED_SHARE = 10, 5  # a tenth, a fifth


def noun_phrases(corpus: Columns) -> Columns:
    """The corpus with all labels but those of noun phrases replaced by O."""
    labels, kept = corpus.columns[-1], ["B-NP", "I-NP", "O"]
    number = np.array([kept.index(value) if value in kept else 2 for value in labels.values], dtype=np.int32)
    corpus.columns[-1] = Column(number[labels.ids], kept)
    return corpus


def with_unknown_words(train: Columns, *others: Columns) -> None:
    """Replace the first occurrence of each word and tag in ``train``, and unknown ones in ``others``, in place."""
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
    """The corpus without ``n`` sentences, and those sentences."""
    order = drawn(len(train), seed)
    return train.select(np.sort(order[n:])), train.select(np.sort(order[:n]))


def _noun_phrases(files: tuple[str, ...], seed: int) -> Split:
    everything, *_, test = map(noun_phrases, _read(files, "chunk"))
    n = TUNING_SENTENCES if files else len(everything) // BUNDLED_SHARE
    return *_left_out(everything, n, seed), test


def _noun_phrases_last(files: tuple[str, ...], seed: int) -> Split:
    everything, *_, test = map(noun_phrases, _read(files, "chunk"))
    n = len(everything) - (LAST_SENTENCES if files else len(everything) // BUNDLED_SHARE)
    return everything.select(np.arange(n)), everything.select(np.arange(n, len(everything))), test


def _entities(files: tuple[str, ...], seed: int) -> Split:
    train, dev, test = _read(files, "ner")
    return train, dev, test


def _entities_held(files: tuple[str, ...], seed: int) -> Split:
    train, dev, _ = _read(files, "ner")
    return *_left_out(train, len(train) // HELD_SHARE, seed), dev


def _tags(files: tuple[str, ...], seed: int) -> Split:
    train, *_, test = _read(files, "pos")
    train, test = (Columns(each.name, each.offsets, each.lines, each.columns[:2]) for each in (train, test))
    n = TAG_SENTENCES if files else len(train) // 2
    order = drawn(len(train), seed)
    return train.select(np.sort(order[:n])), train.select(np.sort(order[n : 2 * n])), test


TASKS: dict[str, Callable[[tuple[str, ...], int], Split]] = {
    "noun-phrases": _noun_phrases,
    "noun-phrases-last": _noun_phrases_last,
    "entities": _entities,
    "entities-held": _entities_held,
    "tags": _tags,
}


@lru_cache(maxsize=2)
def split_of(task: str, files: tuple[str, ...], seed: int, unknown: bool = False, n_train: int | None = None) -> Split:
    """Training, tuning and test sentences.

    ``unknown`` replaces the first occurrence of each value by an unknown one, as hidden Markov models do themselves;
    ``n_train`` is the number of training sentences, drawn by the seed; a smaller set is part of a larger one.
    """
    train, dev, test = TASKS[task](files, seed)
    if n_train is not None:
        train = train.select(np.sort(drawn(len(train), seed + 1)[:n_train]))
    if unknown:
        with_unknown_words(train, dev, test)
    return train, dev, test


# ----------------------------------------------------------------------------------------------------------------------
# One training of a table: what is trained on what, and the result. It is done in a separate process.


WARM_UP_SENTENCES, WARM_UP_ITERATIONS = 20, 2
VARYING = ("variance", "l2", "max_iter")  # options that need no other kernels
TREES, DEPENDENCIES = "trees", "dependencies"
ONES = "ones"
HERE = "loglinear.experiments.reproduce.tasks"


def checksum(path: str) -> str:
    """A hash of a file's content."""
    now = os.stat(path)
    return _checksum(path, now.st_size, now.st_mtime_ns)


@lru_cache(maxsize=64)
def _checksum(path: str, size: int, changed: int) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]


@dataclass(frozen=True)
class Job(pools.Job):
    """A training.

    Parameters
    ----------
    kind : str
        One of :data:`TASKS`, ``trees`` or ``dependencies``.
    files : tuple of str
        The corpus; none for the bundled one.
    options : dict
        Of the :class:`~loglinear.Tagger`, or of the parser.
    seed : int
        Of the split and of training.
    unknown, n_train
        As for :func:`split_of`.
    init : str
        Model file to start from; ``ones`` starts with weights of one.
    keep : str
        Model file to write.
    also : tuple of {"local", "global"}
        Other decodings of the same weights to score: by normalised pieces, and as a chain without factors.
    """

    MEASURES: ClassVar[dict[str, str]] = {
        **dict.fromkeys(TASKS, f"{HERE}:measure_tagger"),
        TREES: f"{HERE}:measure_trees",
        DEPENDENCIES: f"{HERE}:measure_dependencies",
    }

    ALONE: ClassVar[bool] = True

    files: tuple[str, ...]
    options: dict[str, Any]
    seed: int = 0
    unknown: bool = False
    n_train: int | None = None
    init: str = ""
    keep: str = ""
    also: tuple[str, ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """The corpus, and the model to start from."""
        return (*self.files, *([self.init] if self.init not in ("", ONES) else []))

    @property
    def writes(self) -> tuple[str, ...]:
        """The model to keep."""
        return (self.keep,) if self.keep else ()

    def at(self, places: Mapping[str, str]) -> Job:
        """The same training with files at other places."""
        files = tuple(places.get(file, file) for file in self.files)
        return replace(self, files=files, init=places.get(self.init, self.init), keep=places.get(self.keep, self.keep))

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that the result depends on, without the paths of files."""
        fields = self.to_dict()
        for place in ("files", "init", "keep", "threads", *([] if self.also else ["also"])):
            del fields[place]
        warm = self.init if self.init == ONES else bool(self.init)
        return {**fields, "data": [checksum(file) for file in self.files], "warm": warm}


def _fitted(
    job: Job, make: Callable[..., Any], train: Any, few: Any, use: Callable[[Any], object], shorter: bool = True,
    **start: Any,
) -> tuple[Any, Cell]:  # fmt: skip
    """A model with the job's options, and its cell so far.

    Seconds are of processor time, including encoding and expectations, but not the loading of kernels: before, a model
    is trained on ``few`` sentences, if possible in a few iterations, and ``use`` is called with it.
    """
    options = {**job.options, "seed": job.seed, "threads": job.threads}
    least = {"max_iter": WARM_UP_ITERATIONS} if shorter else {}
    similar = sorted((name, value) for name, value in job.options.items() if name not in VARYING)
    warm_up(f"{job.kind} {similar}", lambda: use(make(**{**options, **least}).fit(few)))
    model, cell = make(**options), {"job": job.identity}
    began = time.process_time()
    model.fit(train, **start)
    return model, {**cell, "seconds": time.process_time() - began, "message": model.message_, "sentences": len(train)}


def measure_tagger(job: Job, say: Say) -> Cell:
    """Train and score a tagger."""
    train, dev, test = split_of(job.kind, job.files, job.seed, job.unknown, job.n_train)
    few, one = train.select(np.arange(min(WARM_UP_SENTENCES, len(train)))), test.select(np.arange(1))
    iterates = job.options["criterion"] != "hmm"
    init = ones(job, train) if job.init == ONES else job.init or None
    tagger, cell = _fitted(job, Tagger, train, few, lambda tagger: tagger.predict_numbers(one), iterates, init=init)
    if job.keep:
        tagger.save(job.keep)
    cell |= scored(tagger, dev, test)
    if job.also:
        cell["also"] = {how: scored(decoded(tagger, how), dev, test) for how in job.also}
    return {**cell, "iterations": tagger.n_iter_, "features": tagger.n_features_trained_}


def scored(tagger: Tagger, dev: Columns, test: Columns) -> Cell:
    """Figures on the tuning and test sentences, and the counts of each of the latter."""
    figures, counts = scores(tagger, test)
    return {"dev": scores(tagger, dev)[0], "test": figures, "counts": counts}


def decoded(tagger: Tagger, how: str) -> Tagger:
    """The tagger with another decoding of the same weights."""
    other, model = copy(tagger), tagger.model_
    assert isinstance(model, ChainModel)
    other.model_ = replace(model, local=how == "local", scaling=None)
    return other


def ones(job: Job, train: Columns) -> Tagger:
    """A tagger with the job's features, all of whose weights are one."""
    options = {name: value for name, value in job.options.items() if name not in ("cost", "optimizer")}
    tagger = Tagger(**{**options, "criterion": "cll", "max_iter": 1, "l2": 1.0}).fit(train)
    tagger.model_ = tagger.model_.with_weights(np.ones_like(tagger.model_.weights))
    return tagger


def scores(tagger: Tagger, corpus: Columns) -> tuple[dict[str, float], list[list[int]]]:
    """Precision, recall and F1 of chunks, or accuracy; and the counts of each sentence [S, 3] for the bootstrap."""
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
# Without files, the bundled corpus is used.


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


def measure_trees(job: Job, say: Say) -> Cell:
    """Train and score a parser of constituents."""
    train, test = trees_of(job.files)
    words = [tree.leaves() for tree in test]
    few = train[:WARM_UP_SENTENCES]
    parser, cell = _fitted(job, Parser, train, few, lambda parser: parser.predict(words[:1]), shorter=False)
    parser.set_params(beam=None)  # what is compared are models, not searches
    report = bracket_scores(test, parser.predict(words))
    wrong = re.search(r"([\d,]+) wrong ones", parser.message_)
    return {
        **cell, "test": report.to_dict(), "counts": report.counts[:, :3].tolist(),
        "wrong_edges": wrong[1] if wrong else "",
    }  # fmt: skip


def measure_dependencies(job: Job, say: Say) -> Cell:
    """Train and score a parser of dependencies."""
    train, test = dependencies_of(job.files)
    few = train.select(range(min(WARM_UP_SENTENCES, train.n_sentences)))
    iterates = job.options["criterion"] != "generative"
    parser, cell = _fitted(job, DependencyParser, train, few, lambda parser: parser.parse(few), iterates)
    parses = parser.parse(test)
    report = attachment_scores(test, parses.heads, parses.relations)
    return {**cell, "test": report.to_dict(), "counts": attachment_counts(test, parses.heads).tolist()}


# ----------------------------------------------------------------------------------------------------------------------
# The cells of a paper, and the parts of them that its tables use.


PRF = ("precision", "recall", "f1")
TRAINED = {
    "counts": lambda rows: bool(rows) and not misfit(rows, [[int]]) and all(len(row) == 3 for row in rows),
    "seconds": NUMBER,
    "sentences": int,
    "job": dict,
}
EXACT = {"exact": (*NUMBER, NOTHING)}


def figures_of(kind: str | None) -> tuple[str, ...]:
    """What taggers of a kind are scored by."""
    return ("accuracy",) if kind == "tags" else PRF


def cell_shape(key: str, cell: Cell) -> Any:
    """The shape of a cell: the parts that the tables use."""
    kind = cell["job"].get("kind") if isinstance(cell.get("job"), dict) else None
    if kind == TREES:
        return {**TRAINED, "test": {**dict.fromkeys(PRF, is_finite), **EXACT}, "wrong_edges": str}
    if kind == DEPENDENCIES:
        las = (*NUMBER, NOTHING)  # there is none where trees have no relations
        return {**TRAINED, "test": {"uas": is_finite, "las": las, **EXACT}}
    figures = dict.fromkeys(figures_of(kind), is_finite)
    shape = {**TRAINED, "dev": figures, "test": figures, "iterations": (int, NOTHING), "features": (int, NOTHING)}
    also = cell["job"].get("also") if isinstance(cell.get("job"), dict) else None
    if isinstance(also, list | tuple):
        scored = {"dev": figures, "test": figures, "counts": TRAINED["counts"]}
        shape["also"] = {str(how): scored for how in also}
    return shape


@dataclass
class Cells:
    """Makes cells by training, several at a time, or takes them from the store.

    Parameters
    ----------
    store : Store
    pool : Pool
        The workers that train.
    say : callable
        Called with a line for each cell that is made.
    """

    store: Store
    pool: Pool
    say: Say = print

    def trained(self, jobs: Mapping[str, Job]) -> dict[str, Cell]:
        """The cells of these trainings by name; those that the store does not have are made."""
        new = {name: job for name, job in jobs.items() if not self._has(name, job)}
        for place, (name, cell) in enumerate(self.pool.run(new), 1):
            self.store.put(name, cell)
            self.say(f"{place} of {len(new)}: {name}: {_outcome(cell)}, {cell['seconds']:.0f} s")
        found = {name: self.store.cells[name] for name in jobs}
        if len({len(cell["counts"]) for cell in found.values()}) > 1:
            raise unreadable("counts of different test sentences", self.store.path)
        return found

    def by_row(self, rows: Mapping[Row, Mapping[str, Job]]) -> dict[Row, dict[str, Cell]]:
        """The cells of each row of a table, by name."""
        made = self.trained({name: job for jobs in rows.values() for name, job in jobs.items()})
        return {row: {name: made[name] for name in jobs} for row, jobs in rows.items()}

    def single(self, rows: Mapping[Row, Mapping[str, Job]]) -> dict[Row, Cell]:
        """The cell of each row, where each has one training."""
        return {row: next(iter(cells.values())) for row, cells in self.by_row(rows).items()}

    def _has(self, name: str, job: Job) -> bool:
        cell = self.store.get(name)
        if cell is None or cell["job"] != json.loads(json.dumps(job.identity)):
            return False
        return not job.keep or Path(job.keep).exists()


def _outcome(cell: Cell) -> str:
    """The result of a training in a few words: the figures it is chosen by, or those of the test sentences."""
    part = "dev" if "dev" in cell else "test"
    known = [name for name in (*PRF, "accuracy", "uas", "las") if cell[part].get(name) is not None]
    shown = [f"{name} {cell[part][name]:.2f}" for name in known]
    return f"{', '.join(shown)} on {part}"


# ----------------------------------------------------------------------------------------------------------------------
# What the tables share: their systems, choosing on the tuning sentences, the published figures, the bootstrap.


@dataclass(frozen=True)
class System:
    """A row of a paper's table.

    Parameters
    ----------
    options : dict
        Of the tagger or parser.
    published : any
        The paper's figures.
    hours : str
        The paper's time.
    like : str
        The row that it is compared with, or whose penalty or weights it takes.
    seed : int
        Added to the run's.
    decoding : str
        Its weights are those of the row ``like``, decoded in this way.
    """

    options: dict[str, Any]
    published: Any = None
    hours: str = ""
    like: str = ""
    seed: int = 0
    decoding: str = ""


@dataclass(frozen=True)
class Run:
    """A paper's comparison on one corpus.

    Parameters
    ----------
    corpus : str
        Its name, ``bundled`` for the bundled one.
    files : tuple of str
        None for the bundled corpus, which gets a small version of the comparison.
    cells : Cells
    seed : int
        The first seed.
    n_seeds : int
        How many seeds; they follow each other.
    """

    corpus: str
    files: tuple[str, ...]
    cells: Cells
    seed: int = 0
    n_seeds: int = 1

    @property
    def seeds(self) -> range:
        return range(self.seed, self.seed + self.n_seeds)

    def name(self, text: str, seed: int) -> str:
        """The name of a cell; those of the first seed do not say so."""
        return f"{self.corpus} {text}" + (f", seed {seed}" if seed != self.seed else "")

    def job(self, kind: str, options: dict[str, Any], **more: Any) -> Job:
        """A training on this corpus."""
        return Job(kind, self.files, options, **{"seed": self.seed, **more})

    def trained(self, kind: str, systems: Mapping[str, System], what: str = "") -> dict[str, Cell]:
        """The cell of each system; the last of them, which are slow, are trained first."""
        jobs = {
            name: {f"{self.corpus} {what}{name}": self.job(kind, system.options, seed=self.seed + system.seed)}
            for name, system in reversed([*systems.items()])
        }
        made = self.cells.single(jobs)
        return {name: made[name] for name in systems}


BOOTSTRAP = "p is that of the paired bootstrap by sentence (10,000 draws)."
SEEDS = (
    "Figures are means over {n} seeds, ± half the 95 % interval of the mean by Student's t; p is of the counts of all "
    "seeds, added up sentence by sentence."
)
PROCESSOR = (
    "Seconds are of processor time on one thread, including feature extraction and expectations, but not the loading "
    "of compiled kernels."
)


def best(cells: Mapping[str, Cell], metric: str = "f1") -> str:
    """Name of the cell that is best on the tuning sentences; the first of equals."""
    return max(cells, key=lambda name: cells[name]["dev"][metric])


def pooled(cells: Sequence[Cell]) -> Cell:
    """A row's cells of several seeds as one: mean figures and seconds, and counts added up by sentence.

    ``spread`` has half the 95 % interval of each test figure's mean (Student's t); zero if there is but one cell.
    """
    from scipy.stats import t

    n, names = len(cells), figures_of(cells[0]["job"].get("kind"))
    mean = {part: {name: float(np.mean([c[part][name] for c in cells])) for name in names} for part in ("dev", "test")}
    width = float(t.ppf(0.975, n - 1)) / math.sqrt(n) if n > 1 else 0.0
    spread = {
        name: width * float(np.std([cell["test"][name] for cell in cells], ddof=1)) if n > 1 else 0.0
        for name in mean["test"]
    }
    return {
        **cells[0], **mean, "spread": spread, "cells": list(cells),
        "counts": np.sum([cell["counts"] for cell in cells], axis=0).tolist(),
        "seconds": float(np.mean([cell["seconds"] for cell in cells])),
    }  # fmt: skip


def each_once(values: Sequence[str]) -> str:
    """The settings of a row's seeds: one if they agree, else all in their order."""
    return values[0] if len(set(values)) == 1 else ", ".join(values)


def seeds_note(run: Run) -> list[str]:
    """What the figures are, if there are several seeds."""
    return [SEEDS.format(n=run.n_seeds)] if run.n_seeds > 1 else []


def wholly_right(cell: Cell) -> Bool:
    """Which test sentences [S] have nothing but right chunks or labels; those of the first seed."""
    gold, found, correct = np.array(cell.get("cells", [cell])[0]["counts"]).T
    return (gold == correct) & (found == correct)


def compared(
    cell: Cell, base: Cell | None, published: Sequence[float | None] | None = None, names: Sequence[str] = PRF
) -> tuple[list[float], list[str]]:
    """A row's figures on the test sentences, and its cells: these, those ``published``, the difference from ``base``.

    Nothing is said about published figures if None are given.
    """
    figures = [cell["test"][name] for name in names]
    shown = [number(figure, 2) for figure in figures]
    if len(cell.get("cells", ())) > 1:
        shown[-1] += f" ± {cell['spread'][names[-1]]:.2f}"
    return figures, [*shown, *(beside(figures, published) if published else []), against(base, cell)]


def against(base: Cell | None, cell: Cell) -> str:
    """How much better a cell is than ``base`` on the test sentences, with the bootstrap's p; empty for ``base``."""
    if base is None or base is cell:
        return ""
    test = paired_bootstrap(np.array(base["counts"]), np.array(cell["counts"]))
    return f"{test.second - test.first:+.2f} ({test.p:.3f})"


def standard_error(base: Cell, cell: Cell) -> float:
    """Of the difference of two cells' F1, by the bootstrap: its middle 95 % are 3.92 of them wide."""
    test = paired_bootstrap(np.array(base["counts"]), np.array(cell["counts"]))
    return (test.high - test.low) / 3.92


def beside(figures: Sequence[float], published: Sequence[float | None]) -> list[str]:
    """The published figures, then how much ours are above the last of them; dashes if that is missing."""
    last = published[-1]
    if last is None:
        return [MISSING, MISSING]
    return [" ".join(number(value, 2) for value in published), f"{figures[-1] - last:+.2f}"]
