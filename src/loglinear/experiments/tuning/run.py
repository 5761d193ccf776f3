"""Tuning: a cell for each combination of a grid, judged on dev data or by cross-validation.

Combinations that differ in their penalty alone are trained one after the other, from the strongest down, each from the
weights of the one before; different ones at the same time, on several cores. With successive halving (Jamieson &
Talwalkar 2016) all are trained on a part of the sentences first, and the best third goes on to a larger part. A cell is
kept as soon as it is finished; a run that was killed goes on, and gives the same table.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from loglinear.errors import DataError, InfeasibleError, LoglinearError, OptionError
from loglinear.estimators.tagger.estimator import Tagger
from loglinear.experiments.store import Cell, TuningCells, content_of, key_of, setting_content
from loglinear.experiments.tables import Table, number
from loglinear.experiments.tuning.data import Data, Metric, judged, metric_for, metric_name
from loglinear.experiments.tuning.grid import Candidate, candidates, chains, penalty_of, rehearsed
from loglinear.system import thread_count
from loglinear.training.run import Progress

# ----------------------------------------------------------------------------------------------------------------------
# The trainings that make the cells of a tuning, and what an observer sees of them.


@dataclass(frozen=True)
class TuningProgress:
    """What an observer sees: after each iteration of a training, and after each cell (then with its ``score``)."""

    done: int
    total: int
    name: str
    score: float | None = None
    best_name: str | None = None
    best_score: float | None = None
    iteration: int | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Run:
    """A training that makes a cell: of one combination, on a part of the sentences, and the one it starts from."""

    candidate: Candidate
    share: float
    fold: int | None
    previous: Run | None = None

    @property
    def key(self) -> str:
        """What the cell is kept by."""
        return key_of({**self.described, "options": self.candidate.options()})

    @property
    def described(self) -> dict[str, Any]:
        """Share, fold, and the penalties of those trained before, which it depends on too."""
        before, run = [], self.previous
        while run is not None:
            penalty = penalty_of(run.candidate)
            assert penalty is not None  # or nothing would start from it
            before.append(float(run.candidate.setting[penalty]))
            run = run.previous
        return {"share": self.share, "fold": self.fold, "after": before[::-1]}

    @property
    def name(self) -> str:
        """Setting, part and fold in a line."""
        part = "" if self.share >= 1.0 else f" on {100 * self.share:g} %"
        fold = "" if self.fold is None else f", fold {self.fold + 1}"
        return f"{self.candidate.name}{part}{fold}"


# ----------------------------------------------------------------------------------------------------------------------
# The tuning.


GOES_ON = 3  # with halving, one of so many


Observe = Callable[[TuningProgress], None]


class _Stopped(Exception):
    """A training that is to end because another failed, or the user said so."""


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
        Cross-validation: train so many times without a part of the data, which is then scored; a figure is the mean.
    metric : str or callable
        ``f1``, ``precision``, ``recall``, ``accuracy``, ``sentence-accuracy``, ``auto`` (F1 for chunks, else
        accuracy), or a function of gold and predicted label sequences; higher is better.
    halving : sequence of float, optional
        Shares of the training sentences, the last of them 1: after each, the best third goes on.
    warm : bool
        Start from the weights of the next stronger penalty where that can be done.
    jobs : int
        Trainings at the same time.
    sample_weight, label_column, partial
        As for :meth:`loglinear.Tagger.fit`.
    results : path, optional
        JSON file that each finished cell is kept in, with a folder of models beside it; gone on with if it is there.
    observe : callable, optional
        Called with a :class:`TuningProgress`, from several threads but never at the same time.
    """
    prototype = Tagger() if tagger is None else tagger
    chosen = candidates(prototype, grid)
    as_rows = any(one.tagger.template is not None or one.tagger._emits_columns() for one in chosen)
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
    cells = TuningCells(results, "tune", mark)
    job = Tuning(data, dev, folds, metric, rungs, warm, jobs, prototype, cells, observe)
    result = job.run(rehearsed(chosen, data))
    cells.summary = result.to_dict()
    cells.save()
    return result


def rungs_of(halving: Sequence[float] | None) -> tuple[float, ...]:
    rungs = (1.0,) if halving is None else tuple(float(share) for share in halving)
    rising = all(0.0 < one < other for one, other in itertools.pairwise(rungs))
    if not rungs or not rising or rungs[0] <= 0.0 or rungs[-1] != 1.0:
        raise OptionError(f"halving={list(rungs)}: give rising shares that end with 1, as in 0.1, 0.3, 1")
    return rungs


class Tuning:
    """Candidates on the way to a table; arguments as for :func:`tune`, in the words of experiments."""

    def __init__(
        self, data: Data, dev: Data | None, folds: int | None, metric: Metric, rungs: Sequence[float], warm: bool,
        jobs: int, prototype: Tagger, cells: TuningCells, observe: Observe | None = None, keep_best: bool = True,
    ) -> None:  # fmt: skip
        if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
            raise OptionError(f"jobs={jobs!r} must be a whole number from 1 up")
        self.data, self.dev, self.metric, self.rungs, self.warm = data, dev, metric, tuple(rungs), warm
        self.jobs, self.cells, self.observe, self.keep_best = jobs, cells, observe, keep_best
        self.seed, self.threads = prototype.seed, thread_count(prototype.threads)
        self.parts = [(data, dev)] if dev is not None else data.folds(folds or 0, self.seed)
        self.gold = [held.gold() for _, held in self.parts if held is not None]
        self._lock, self._stop = threading.RLock(), threading.Event()
        self._total = self._done = 0
        self._figures: dict[int, list[float]] = {}
        self._best: tuple[float, Run] | None = None
        self._smaller: dict[tuple[float, int], Data] = {}

    def run(self, chosen: Sequence[Candidate]) -> TuningResult:
        """Train and score them all, and give the table and the best."""
        self._total = sum(self._places(len(chosen), rung) for rung in range(len(self.rungs)))
        left, tuned = list(chosen), {}
        for rung, share in enumerate(self.rungs):
            last, self._best, self._figures = rung + 1 == len(self.rungs), None, {}
            runs = self._chains_of_runs(left, share)
            self._in_parallel(runs, keep_best=last and self.keep_best and self.dev is not None)
            for candidate in left:
                tuned[candidate.number] = self._cell_of(candidate, runs)
            left.sort(key=lambda one: (-tuned[one.number].score, one.number))
            if not last:
                left = left[: math.ceil(len(left) / GOES_ON)]
        best = tuned[left[0].number]
        runs_of_best = {run.candidate.number: run for chain in runs for run in chain}
        return TuningResult(
            [tuned[one.number] for one in chosen], best, metric_name(self.metric),
            lambda: self._trained(runs_of_best[left[0].number]),
        )  # fmt: skip

    def _places(self, n: int, rung: int) -> int:
        for _ in range(rung):
            n = math.ceil(n / GOES_ON)
        return n * len(self.parts)

    def _chains_of_runs(self, left: Sequence[Candidate], share: float) -> list[list[Run]]:
        found = []
        for fold in range(len(self.parts)):
            for chain in chains(left, self.warm):
                runs: list[Run] = []
                for candidate in chain:
                    runs.append(Run(candidate, share, self._fold(fold), runs[-1] if runs else None))
                found.append(runs)
        return found

    def _fold(self, number: int) -> int | None:
        return None if self.dev is not None else number

    # -- trainings -----------------------------------------------------------------------------------------------

    def _in_parallel(self, runs: list[list[Run]], keep_best: bool) -> None:
        at_once = max(1, min(self.jobs, len(runs)))
        threads = max(1, self.threads // at_once)
        pool = ThreadPoolExecutor(at_once)
        futures = [pool.submit(self._do, chain, threads, keep_best) for chain in runs]
        try:
            for future in futures:
                future.result()
        except BaseException as error:
            self._stop.set()  # the others end after their iteration
            pool.shutdown(wait=True, cancel_futures=True)
            raise (_first_failure(futures) or error) from None
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _do(self, chain: list[Run], threads: int, keep_best: bool) -> None:
        for place, run in enumerate(chain, 1):
            if self._stop.is_set():
                raise _Stopped
            cell, last = self.cells.get(run.key), place == len(chain)
            if cell is None:
                try:
                    tagger, seconds = self._fit(run, threads)
                    cell = self._judge(run, tagger, seconds)
                except LoglinearError as error:
                    raise OptionError(f"{run.candidate.name}: {error}") from None
                self.cells.put(run.key, cell, tagger if keep_best or not last else None)
            self._tell(run, cell, keep_best, last)

    def _fit(self, run: Run, threads: int) -> tuple[Tagger, float]:
        init = None
        if run.previous is not None:
            init = self.cells.tagger(run.previous.key, run.previous.candidate.tagger)
            init = self._fit(run.previous, threads)[0] if init is None else init
        tagger = clone(run.candidate.tagger, safe=False).set_params(threads=threads)

        def watch(progress: Progress) -> None:
            if self._stop.is_set():
                raise _Stopped
            self._show(run, iteration=progress.iteration, seconds=progress.seconds)

        data = self._part(run.share, run.fold)
        began = time.perf_counter()
        tagger.fit(**data.fit_arguments(), init=init, observe=watch)
        return tagger, time.perf_counter() - began

    def _part(self, share: float, fold: int | None) -> Data:
        with self._lock:
            place = (share, fold or 0)
            if place not in self._smaller:
                self._smaller = {p: d for p, d in self._smaller.items() if p[0] == share}
                self._smaller[place] = self.parts[fold or 0][0].part(share, self.seed)
            return self._smaller[place]

    def _judge(self, run: Run, tagger: Tagger, seconds: float) -> Cell:
        fold = run.fold or 0
        held = self.parts[fold][1]
        assert held is not None
        try:
            predicted = held.labelled_apart(tagger.predict_numbers(held.corpus)[0], tagger.classes_)
        except InfeasibleError as error:
            raise DataError(f"on the data to judge by: {error}", held.corpus.name) from None
        score, scores = judged(self.metric, self.gold[fold], predicted)
        return {
            "score": score,
            "scores": scores,
            "seconds": seconds,
            "passes": tagger.n_evaluations_,
            "objective": tagger.objective_,
            "features": tagger.model_.features.n_features,
            "warm": run.previous is not None,
            "message": tagger.message_,
        }

    def _tell(self, run: Run, cell: Cell, keep_best: bool, last: bool) -> None:
        """A cell is finished: remember the best, let go of models that nothing needs any more."""
        with self._lock:
            self._done += 1
            figures = self._figures.setdefault(run.candidate.number, [])
            figures.append(cell["score"])
            figure, best = float(np.mean(figures)), self._best
            rank = (-figure, run.candidate.number)
            better = len(figures) == len(self.parts) and (best is None or rank < (-best[0], best[1].candidate.number))
            if better:
                self._best = (figure, run)
            if keep_best and best is not None and better and best[1] is not run.previous:
                self.cells.forget(best[1].key)
            previous = run.previous
            if previous is not None and not (keep_best and self._best is not None and self._best[1] is previous):
                self.cells.forget(previous.key)
            if last and not (keep_best and better):
                self.cells.forget(run.key)
            self._show(run, score=cell["score"], seconds=cell["seconds"])

    def _show(self, run: Run, **more: Any) -> None:
        if self.observe is None:
            return
        with self._lock:
            best = (None, None) if self._best is None else (self._best[1].candidate.name, self._best[0])
            self.observe(TuningProgress(self._done, self._total, run.name, best_name=best[0], best_score=best[1],
                                        **more))  # fmt: skip

    # -- results -------------------------------------------------------------------------------------------------

    def _cell_of(self, candidate: Candidate, runs: list[list[Run]]) -> TunedCell:
        own = [self.cells.done[run.key] for chain in runs for run in chain if run.candidate is candidate]
        share = next(run.share for chain in runs for run in chain if run.candidate is candidate)
        scores = {
            name: float(np.mean([cell["scores"][name] for cell in own]))
            for name in own[0]["scores"]
            if all(name in cell["scores"] for cell in own)
        }
        figures = [cell["score"] for cell in own]
        return TunedCell(
            setting=candidate.setting,
            name=candidate.name,
            score=float(np.mean(figures)),
            spread=float(np.std(figures, ddof=1)) if len(figures) > 1 else None,
            scores=scores,
            share=share,
            seconds=float(sum(cell["seconds"] for cell in own)),
            passes=sum(cell["passes"] or 0 for cell in own),
            features=max(cell["features"] for cell in own),
            warm=any(cell["warm"] for cell in own),
        )

    def _trained(self, run: Run) -> Tagger:
        """The model of a cell; after cross-validation, one of all the data, from zero."""
        if self.dev is not None:
            tagger = self.cells.tagger(run.key, run.candidate.tagger)
            return self._fit(run, self.threads)[0] if tagger is None else tagger
        key = key_of({"final": run.candidate.options()})
        tagger = self.cells.tagger(key, run.candidate.tagger)
        if tagger is None:
            tagger = clone(run.candidate.tagger, safe=False).fit(**self.data.fit_arguments())
            self.cells.put(key, {"seconds": tagger.seconds_, "passes": tagger.n_evaluations_}, tagger)
        return tagger


def _first_failure(futures: list[Future[None]]) -> BaseException | None:
    """What went wrong, rather than that the others were stopped for it."""
    failures = [future.exception() for future in futures if future.done() and not future.cancelled()]
    return next((error for error in failures if error is not None and not isinstance(error, _Stopped)), None)


# ----------------------------------------------------------------------------------------------------------------------
# What tuning gives: a table of cells, the best of them, and its model.


TITLES = {"f1": "F1", "precision": "P", "recall": "R", "accuracy": "acc.", "sentence-accuracy": "sent."}


@dataclass(frozen=True)
class TunedCell:
    """One combination and how it did.

    Attributes
    ----------
    setting, name
        What the grid sets, and the same in a line.
    score, spread
        Its figure, and the standard deviation over folds (None without).
    scores : dict from name to percent
        All named figures.
    share : float
        Share of the training sentences that it was last trained on.
    seconds, passes, features
        Of its training (the sum over folds).
    warm : bool
        Whether it began with the weights of a stronger penalty, which makes it quicker.
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
        own = [] if self.metric in names else [self.metric]
        spread = ["+-"] if self.best.spread is not None else []
        parted = ["trained on"] if any(cell.share < 1.0 for cell in self.cells) else []
        titles = [TITLES.get(name, name) for name in (*own, *names)]
        table = Table(f"{len(self.cells)} settings, judged by {self.metric}",
                      ["setting", *titles, *spread, *parted, "seconds", "passes", "features"])  # fmt: skip
        for cell in self.cells:
            figures: list[float | None] = [*([cell.score] if own else []), *(cell.scores.get(name) for name in names)]
            shown = [number(value, 2) for value in figures]
            shown += [number(cell.spread, 2)] if spread else []
            shown += [f"{100 * cell.share:g} %"] if parted else []
            shown += [number(cell.seconds, 2), f"{cell.passes:,}", f"{cell.features:,}"]
            table.add(f"{'* ' if cell is self.best else ''}{cell.name}", [*figures, cell.seconds], shown)
        table.notes.append("A star: the best" + (" of those trained on all sentences." if parted else "."))
        if any(cell.warm for cell in self.cells):
            table.notes.append("Settings that differ in the penalty alone began with the weights of the stronger one.")
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
