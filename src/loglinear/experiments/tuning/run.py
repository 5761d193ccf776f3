"""Tuning: a cell for each combination of a grid, judged on dev data or by cross-validation.

Combinations that differ in their penalty alone are trained one after the other, from the strongest down, each from the
weights of the one before; others at the same time, on several cores. With successive halving (Jamieson & Talwalkar
2016) all are trained on a part of the sentences first, and the best third on a larger part. A cell is stored as soon as
it is finished; a run that was killed is resumed, and gives the same table.
"""

from __future__ import annotations

import csv
import io
import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from loglinear.errors import DataError, InfeasibleError, LoglinearError, OptionError
from loglinear.estimators.conventions import clone
from loglinear.estimators.tagger.estimator import Tagger
from loglinear.experiments.chains import Begun, Chains, Finished, load_like
from loglinear.experiments.pools import pool as pools
from loglinear.experiments.pools.pool import SILENT, Emit, Pool, Say
from loglinear.experiments.pools.shared import Shared
from loglinear.experiments.pools.threads import ThreadPool
from loglinear.experiments.store import (
    NOTHING,
    NUMBER,
    Cell,
    Store,
    content_of,
    is_file,
    is_finite,
    key_of,
    setting_content,
)
from loglinear.experiments.tables import Table, number
from loglinear.experiments.tuning.data import Data, Metric, judged, metric_for, metric_name
from loglinear.experiments.tuning.grid import Candidate, candidates, penalty_of, validated, warm_chains
from loglinear.system import thread_count
from loglinear.training.run import Progress
from loglinear.wording import how_many

# ----------------------------------------------------------------------------------------------------------------------
# The trainings that make the cells of a tuning, and what an observer sees of them.


@dataclass(frozen=True)
class TuningProgress:
    """The progress of a tuning: of a training that begins, after its iterations (where it tells) and at its end.

    With its ``score`` a cell is finished; ``running`` are under way.
    """

    done: int
    total: int
    name: str
    score: float | None = None
    best_name: str | None = None
    best_score: float | None = None
    iteration: int | None = None
    seconds: float = 0.0
    running: int = 0


@dataclass(frozen=True)
class Run:
    """A training that makes a cell: of one combination, on a part of the sentences, and the one it starts from."""

    candidate: Candidate
    share: float
    fold: int | None
    previous: Run | None = None

    @cached_property
    def key(self) -> str:
        """The key of its cell: share, fold, options, and the penalties trained before, on which it depends too."""
        options, after = self.candidate.options(), self._penalties()
        return key_of("tuned", {"share": self.share, "fold": self.fold, "after": after, "options": options})

    def _penalties(self) -> list[float]:
        """The penalties of the runs before this one."""
        if self.previous is None:
            return []
        penalty = penalty_of(self.previous.candidate)
        assert penalty is not None  # or nothing would start from it
        return [*self.previous._penalties(), float(self.previous.candidate.setting[penalty])]

    @property
    def name(self) -> str:
        """Setting, part and fold in a line."""
        part = "" if self.share >= 1.0 else f" on {100 * self.share:g} %"
        fold = "" if self.fold is None else f", fold {self.fold + 1}"
        return f"{self.candidate.name}{part}{fold}"


@dataclass(frozen=True)
class Training(pools.Job):
    """What has to be done for a run: the result is a trained tagger and its cell.

    Parameters
    ----------
    tagger : Tagger
        The options.
    data : Shared of Data
    held_out : Shared of Data or None
        What to judge by.
    metric : str or callable
    init : Tagger or None
        What to start from.
    name : str
        To begin messages with.
    """

    MEASURES: ClassVar[dict[str, str]] = {"training": "loglinear.experiments.tuning.run:trained"}

    tagger: Tagger
    data: Shared[Data]
    held_out: Shared[Data] | None = None
    metric: Metric = "auto"
    init: Tagger | None = None
    name: str = ""

    @property
    def reads(self) -> tuple[str, ...]:
        """The files that options name."""
        options = self.tagger.get_params(deep=False).items()
        return tuple(
            each
            for name, value in options
            for each in (value if isinstance(value, list | tuple) else [value])
            if isinstance(each, str) and is_file(name, each)
        )

    def at(self, places: Mapping[str, str]) -> Training:
        """The same with these files at other places."""
        moved = {
            name: [places.get(each, each) if isinstance(each, str) else each for each in value]
            if isinstance(value, list | tuple)
            else places[value]
            for name, value in self.tagger.get_params(deep=False).items()
            if isinstance(value, list | tuple) or (isinstance(value, str) and is_file(name, value) and value in places)
        }
        return replace(self, tagger=clone(self.tagger).set_params(**moved))


def trained(job: Training, say: Say) -> tuple[Tagger, Cell]:
    """Train the tagger of a job and, if there is something to judge by, score it."""
    tagger, began = clone(job.tagger).set_params(threads=job.threads), time.perf_counter()

    def observe(progress: Progress) -> None:
        say({"iteration": progress.iteration, "seconds": progress.seconds})

    try:
        tagger.fit(**job.data.value.fit_arguments(), init=job.init, observe=observe)
        cell = outcome(tagger, time.perf_counter() - began)
        if job.held_out is None:
            return tagger, cell
        held_out = job.held_out.value
        try:
            predicted = held_out.predicted(tagger)
        except InfeasibleError as error:
            raise DataError(f"on the data to judge by: {error}", held_out.corpus.name) from None
        score, all_scores = judged(job.metric, held_out.gold(), predicted)
    except LoglinearError as error:
        if not job.name:
            raise
        raise OptionError(f"{job.name}: {error}") from None
    return tagger, {"score": score, "scores": all_scores, **cell, "warm": job.init is not None}


def outcome(tagger: Tagger, seconds: float) -> Cell:
    """What a cell records of a training."""
    return {
        "seconds": seconds, "passes": tagger.n_evaluations_, "objective": tagger.objective_,
        "features": tagger.model_.features.n_features, "message": tagger.message_,
    }  # fmt: skip


# ----------------------------------------------------------------------------------------------------------------------
# The tuning.


HALVING_FACTOR = 3  # successive halving keeps the best third
Observe = Callable[[TuningProgress], None]
SCORED = {"score": is_finite, "scores": {...: is_finite}}
TRAINED = {"seconds": NUMBER, "passes": (int, NOTHING)}
SHAPES: dict[str, Any] = {  # of cells, by the first word of their keys
    "tuned": {**SCORED, **TRAINED, "features": int, "warm": bool},
    "final": TRAINED,
}


def shape_of(key: str, cell: Cell, shapes: Mapping[str, Any] = SHAPES) -> Any:
    """The shape of the cell with that key."""
    return shapes.get(key.partition(" ")[0], lambda _: False)


def tune(
    X: Any,
    y: Any = None,
    X_dev: Any = None,
    y_dev: Any = None,
    *,
    grid: Mapping[str, Sequence[Any]],
    tagger: Tagger | None = None,
    folds: int | None = None,
    metric: Metric = "auto",
    halving: Sequence[float] | None = None,
    warm: bool = True,
    jobs: int = 1,
    pool: Pool | None = None,
    sample_weight: Any = None,
    label_column: int = -1,
    partial: bool = False,
    results: str | Path | None = None,
    observe: Observe | None = None,
) -> TuningResult:
    """Train a tagger for each combination of a grid's values and find the best.

    Parameters
    ----------
    X, y, X_dev, y_dev
        Training and dev data, as for :meth:`loglinear.Tagger.fit`. Without dev data, ``folds`` are needed.
    grid : mapping from option to values
        Any options of :class:`loglinear.Tagger`; those of its criterion and optimizer are written ``"criterion:C"``.
    tagger : Tagger, optional
        What is not in the grid. Its ``threads`` are shared by the trainings that go on at the same time, its ``seed``
        also settles folds and parts.
    folds : int, optional
        Cross-validation: train this many times without a part of the data, which is then scored; figures are means.
    metric : str or callable
        ``f1``, ``precision``, ``recall``, ``accuracy``, ``sentence-accuracy``, ``auto`` (F1 for chunks, else
        accuracy), or a function of gold and predicted label sequences; higher is better.
    halving : sequence of float, optional
        Shares of the training sentences, the last of them 1: after each, the best third continues.
    warm : bool
        Start from the weights of the next stronger penalty where possible.
    jobs : int
        Trainings at the same time, on threads of this process.
    pool : Pool, optional
        Where the trainings run instead, as :class:`~loglinear.experiments.pools.cluster.ClusterPool`. It is not closed.
    sample_weight, label_column, partial
        As for :meth:`loglinear.Tagger.fit`.
    results : path, optional
        JSON file for the finished cells, with a folder of models beside it; resumed if it exists.
    observe : callable, optional
        Called with a :class:`TuningProgress`, from this thread.
    """
    prototype = Tagger() if tagger is None else tagger
    chosen = candidates(prototype, grid)
    as_rows = any(each.tagger.template is not None or each.tagger._emits_columns() for each in chosen)
    data = Data.of(X, y, as_rows, sample_weight, label_column, partial)
    dev = None if X_dev is None else Data.of(X_dev, y_dev, as_rows, None, label_column, partial)
    if (dev is None) == (folds is None):
        raise OptionError("tuning needs dev data (X_dev) or a number of folds, and not both")
    if dev is not None:
        dev.check_like(data, "dev data")
    rungs = rungs_of(halving)
    metric = metric_for(metric, data.labels())
    mark = {
        "training data": data.mark(),
        "dev data": None if dev is None else dev.mark(),
        "folds": folds,
        "metric": metric if isinstance(metric, str) else content_of(metric),
        "seed": prototype.seed,
    }
    store = Store(results, "tune", mark, shape_of)
    tuning = Tuning(data, dev, folds, metric, rungs, warm, pool_of(jobs, pool), prototype, store, observe)
    result = tuning.run(validated(chosen, data))
    store.finish(result.to_dict())
    return result


def pool_of(jobs: int, pool: Pool | None) -> Pool:
    """The pool that is given, or else so many threads."""
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
        raise OptionError(f"jobs={jobs!r} must be a whole number from 1 up")
    if pool is not None and jobs != 1:
        raise OptionError(f"jobs={jobs} and pool=... both say where the trainings run; give one")
    return ThreadPool(jobs) if pool is None else pool


def rungs_of(halving: Sequence[float] | None) -> tuple[float, ...]:
    """The shares of the training sentences that successive halving goes through."""
    rungs = (1.0,) if halving is None else tuple(float(share) for share in halving)
    rising = all(0.0 < share < larger for share, larger in itertools.pairwise(rungs))
    if not rungs or not rising or rungs[0] <= 0.0 or rungs[-1] != 1.0:
        raise OptionError(f"halving={list(rungs)}: give rising shares that end with 1, as in 0.1, 0.3, 1")
    return rungs


class Tuning:
    """A tuning in progress; arguments as for :func:`tune`, checked and in numbers."""

    def __init__(
        self, data: Data, dev: Data | None, folds: int | None, metric: Metric, rungs: Sequence[float], warm: bool,
        pool: Pool, prototype: Tagger, store: Store, observe: Observe | None = None, keep_best: bool = True,
        within: Emit = SILENT,
    ) -> None:  # fmt: skip
        self.data, self.dev, self.metric, self.rungs, self.warm = data, dev, metric, tuple(rungs), warm
        self.pool, self.store, self.observe, self.keep_best = pool, store, observe, keep_best and dev is not None
        self.within = within
        self.seed, self.threads = prototype.seed, thread_count(prototype.threads)
        self.parts = [(data, dev)] if dev is not None else data.folds(folds or 0, self.seed)
        self.held_out = [Shared.of(held_out) for _, held_out in self.parts]
        for _, held_out in self.parts:
            held_out.gold()  # raises if there is something to score that has no label
        self._done = self._running = 0

    def run(self, chosen: Sequence[Candidate]) -> TuningResult:
        """Train and score them all, and give the table and the best."""
        counts = list(itertools.accumulate(self.rungs[1:], lambda n, _: -(-n // HALVING_FACTOR), initial=len(chosen)))
        left, tuned = list(chosen), dict[int, TunedCell]()
        for n, share in zip(counts, self.rungs, strict=True):
            left = left[:n]
            runs = self._runs(left, share)
            self._train(runs, share, sum(counts) * len(self.parts))
            tuned |= {candidate.number: self._cell_of(candidate, runs) for candidate in left}
            left.sort(key=lambda candidate: (-tuned[candidate.number].score, candidate.number))
        best = next(run for chain in runs for run in chain if run.candidate is left[0])
        cells = [tuned[candidate.number] for candidate in chosen]
        return TuningResult(cells, tuned[left[0].number], metric_name(self.metric), lambda: self._trained(best))

    def _runs(self, left: Sequence[Candidate], share: float) -> list[list[Run]]:
        """The trainings on a share of the sentences, in chains that start from each other's weights."""
        found = []
        folds: Iterable[int | None] = range(len(self.parts)) if self.dev is None else [None]
        for fold in folds:
            for chain in warm_chains(left, self.warm):
                runs: list[Run] = []
                for candidate in chain:
                    runs.append(Run(candidate, share, fold, runs[-1] if runs else None))
                found.append(runs)
        return found

    def _chains(self, share: float, threads: int) -> Chains:
        inside = [Shared.of(training.part(share, self.seed)) for training, _ in self.parts]

        def job(run: Run, init: Tagger | None) -> Training:
            fold = run.fold or 0
            return Training(
                "training", run.candidate.tagger, inside[fold], self.held_out[fold], self.metric, init,
                run.candidate.name, threads=threads,
            )  # fmt: skip

        return Chains(self.store, self.pool, job, lambda path, run: load_like(run.candidate.tagger, path))

    def _train(self, runs: list[list[Run]], share: float, total: int) -> None:
        """Train the runs of a rung that the store does not have, and keep the best model of the last rung."""
        chains = self._chains(share, self.pool.threads_each(self.threads, len(runs)))
        scores: dict[int, list[float]] = {}  # of the folds so far, by candidate
        best: tuple[float, Run] | None = None

        def is_best(run: Run, cell: Cell) -> bool:
            nonlocal best
            figures = scores.setdefault(run.candidate.number, [])
            figures.append(cell["score"])
            rank = (float(np.mean(figures)), -run.candidate.number)
            if len(figures) < len(self.parts) or (best and rank < (best[0], -best[1].candidate.number)):
                return False
            best = rank[0], run
            return self.keep_best and share == self.rungs[-1]

        for event in chains.train(runs, is_best, self.within):
            seen: dict[str, Any] = {}
            if isinstance(event, Begun):
                self._running, run = self._running + 1, event.link
            elif isinstance(event, Finished):
                self._done, run = self._done + 1, event.link
                self._running -= event.model is not None
                seen = {name: event.cell[name] for name in ("score", "seconds")}
            else:
                run, seen = event
            if self.observe is not None:
                score, name = (best[0], best[1].candidate.name) if best else (None, None)
                self.observe(
                    TuningProgress(
                        self._done,
                        total,
                        run.name,
                        best_name=name,
                        best_score=score,
                        running=min(self._running, self.pool.places),
                        **seen,
                    )
                )

    def _cell_of(self, candidate: Candidate, runs: list[list[Run]]) -> TunedCell:
        cells = [self.store.cells[run.key] for chain in runs for run in chain if run.candidate is candidate]
        names = [name for name in cells[0]["scores"] if all(name in cell["scores"] for cell in cells)]
        figures = [cell["score"] for cell in cells]
        return TunedCell(
            candidate.setting, candidate.name, float(np.mean(figures)),
            spread=float(np.std(figures, ddof=1)) if len(figures) > 1 else None,
            scores={name: float(np.mean([cell["scores"][name] for cell in cells])) for name in names},
            share=runs[0][0].share, seconds=float(sum(cell["seconds"] for cell in cells)),
            passes=sum(cell["passes"] or 0 for cell in cells), features=max(cell["features"] for cell in cells),
            warm=any(cell["warm"] for cell in cells),
        )  # fmt: skip

    def _trained(self, run: Run) -> Tagger:
        """The model of a cell; after cross-validation, one trained on all the data, from zero."""
        tagger: Tagger | None
        key = key_of("final", run.candidate.options())
        if self.dev is not None:
            tagger = self._chains(run.share, self.threads).model(run)
        else:
            tagger = self.store.model(key, partial(load_like, run.candidate.tagger))
        if tagger is None:
            threads = self.pool.threads_each(self.threads, 1)
            tagger, _ = self.pool.do(
                run.candidate.name, Training("training", run.candidate.tagger, Shared.of(self.data), threads=threads)
            )
            assert tagger is not None
            self.store.put(key, {"seconds": tagger.seconds_, "passes": tagger.n_evaluations_}, tagger)
        return tagger


# ----------------------------------------------------------------------------------------------------------------------
# The result of tuning: a table of cells, the best of them, and its model.


TITLES = {"f1": "F1", "precision": "P", "recall": "R", "accuracy": "acc.", "sentence-accuracy": "sent."}


@dataclass(frozen=True)
class TunedCell:
    """One combination and how it did.

    Attributes
    ----------
    setting, name
        What the grid sets, as options and in a line.
    score, spread
        Its figure, and the standard deviation over folds (None without).
    scores : dict from name to percent
        All named figures.
    share : float
        Share of the training sentences that it was last trained on.
    seconds, passes, features
        Of its training (the sum over folds).
    warm : bool
        Whether it started from the weights of a stronger penalty, which makes it quicker.
    """

    setting: dict[str, Any]
    name: str
    score: float
    spread: float | None
    scores: dict[str, float]
    share: float
    seconds: float
    passes: int
    features: int
    warm: bool

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        figures = {name: value for name, value in vars(self).items() if name not in ("setting", "name")}
        return {"setting": setting_content(self.setting), **figures}


class TuningResult:
    """The cells in the order of the grid, and the best.

    Attributes
    ----------
    cells : list of TunedCell
    best : TunedCell
    metric : str
        What they are judged by.
    """

    def __init__(self, cells: list[TunedCell], best: TunedCell, metric: str, train_best: Callable[[], Tagger]) -> None:
        self.cells, self.best, self.metric = cells, best, metric
        self._train_best = train_best
        self._best_model: Tagger | None = None

    @property
    def best_setting(self) -> dict[str, Any]:
        """What the grid sets in the best cell."""
        return self.best.setting

    @property
    def best_score(self) -> float:
        """Its figure."""
        return self.best.score

    @property
    def best_model(self) -> Tagger:
        """The trained tagger of the best cell; after cross-validation, one trained on all the data."""
        if self._best_model is None:
            self._best_model = self._train_best()
        return self._best_model

    @property
    def table(self) -> Table:
        """The cells as a table."""
        names = list(self.best.scores)
        function = [] if self.metric in names else [self.metric]
        spread = ["+-"] if self.best.spread is not None else []
        parted = ["trained on"] if any(cell.share < 1.0 for cell in self.cells) else []
        titles = [TITLES.get(name, name) for name in (*function, *names)]
        table = Table(f"{how_many(len(self.cells), 'setting')}, judged by {self.metric}",
                      ["setting", *titles, *spread, *parted, "seconds", "passes", "features"])  # fmt: skip
        for cell in self.cells:
            figures = [cell.score if name in function else cell.scores.get(name) for name in (*function, *names)]
            shown = [number(value, 2) for value in figures]
            shown += [number(cell.spread, 2)] if spread else []
            shown += [f"{100 * cell.share:g} %"] if parted else []
            shown += [number(cell.seconds, 2), f"{cell.passes:,}", f"{cell.features:,}"]
            table.add(f"{'* ' if cell is self.best else ''}{cell.name}", [*figures, cell.seconds], shown)
        table.notes.append("A star: the best" + (" of those trained on all sentences." if parted else "."))
        if any(cell.warm for cell in self.cells):
            table.notes.append("Settings that differ in the penalty alone start from the weights of the stronger one.")
        return table

    def to_csv(self) -> str:
        """The table with a column for each option of the grid."""
        out = io.StringIO()
        names, writer = list(self.best.scores), csv.writer(out, lineterminator="\n")
        rest = ["spread", "share", "seconds", "passes", "features", "warm"]
        writer.writerow([*self.best.setting, "score", *names, *rest, "best"])
        for cell in self.cells:
            setting = setting_content(cell.setting).values()
            figures = [cell.score, *(cell.scores.get(name) for name in names), *(getattr(cell, name) for name in rest)]
            writer.writerow([*setting, *figures, cell is self.best])
        return out.getvalue()

    def to_dict(self) -> dict[str, Any]:
        """The table for JSON."""
        return {
            "metric": self.metric,
            "best": self.best.to_dict(),
            "table": [cell.to_dict() for cell in self.cells],
        }
