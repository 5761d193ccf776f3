"""Which criterion is best for my data? Each is tuned on dev data, trained once more from zero, and tested.

The last training, alone on all threads, is what seconds and passes are of. Systems are held against the best by three
tests on the same test sentences (:mod:`~loglinear.evaluation.significance`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sklearn.base import clone

from loglinear.criteria.criterion import CRITERIA
from loglinear.errors import LoglinearError, OptionError
from loglinear.estimators.tagger import Tagger
from loglinear.experiments.comparison_grids import default_grid, grid_with, named, tagger_for
from loglinear.experiments.comparison_result import ComparisonResult, System, examined
from loglinear.experiments.tuning import Tuning, rungs_of
from loglinear.experiments.tuning_cells import Cell, Cells, key_of
from loglinear.experiments.tuning_data import Data
from loglinear.experiments.tuning_grid import Candidate, candidates, rehearsed
from loglinear.experiments.tuning_metrics import METRICS, all_scores, metric_for
from loglinear.experiments.tuning_run import TuningProgress

MOST_POINTS = 200  # of a training's history that are kept
Observe = Callable[[str, TuningProgress], None]


def compare(
    X: Any,
    y: Any = None,
    X_dev: Any = None,
    y_dev: Any = None,
    X_test: Any = None,
    y_test: Any = None,
    *,
    criteria: str | Sequence[str] = "all",
    tagger: Tagger | None = None,
    grid: Mapping[str, Sequence[Any]] | None = None,
    quick: bool = False,
    sizes: Sequence[float] = (),
    metric: str = "auto",
    halving: Sequence[float] | None = None,
    jobs: int = 1,
    draws: int = 10_000,
    sample_weight: Any = None,
    label_column: int = -1,
    partial: bool = False,
    results: str | Path | None = None,
    observe: Observe | None = None,
) -> ComparisonResult:
    """Tune each criterion on dev data, test the best of each, and say which differences are chance.

    Parameters
    ----------
    X, y, X_dev, y_dev, X_test, y_test
        Training, dev and test data, as for :meth:`loglinear.Tagger.fit`.
    criteria : str or sequence of str
        ``"all"``, names between commas, or a list; a criterion may have options (``"nota:threshold=0.2"``).
    tagger : Tagger, optional
        What is the same for all: template, order, constraints, threads, seed. What a criterion has no use for is left
        out there.
    grid : mapping from option to values, optional
        Other values than those of the default grids; options that no default grid has are tuned for all criteria.
    quick : bool
        Small grids, and at most 60 iterations.
    sizes : sequence of float
        Shares of the training sentences to train the tuned settings on, for learning curves.
    metric, halving, jobs, sample_weight, label_column, partial
        As for :func:`loglinear.tune`; the metric (not a function here) is also what systems are compared by.
    draws : int
        Samples of the paired bootstrap.
    results : path, optional
        JSON file that keeps all that is finished, with the models in a folder beside it; gone on with if it is there.
    observe : callable, optional
        Called with the criterion and a :class:`~loglinear.experiments.tuning_run.TuningProgress`.
    """
    prototype = Tagger() if tagger is None else tagger
    specs = named(criteria)
    if X_dev is None or X_test is None:
        raise OptionError("a comparison needs dev data to tune on and test data to compare on")
    as_rows = prototype.template is not None or not any(CRITERIA.part(spec).learns_weights for spec in specs)
    data = Data.of(X, y, as_rows, sample_weight, label_column, partial)
    dev = Data.of(X_dev, y_dev, as_rows, None, label_column, partial)
    test = Data.of(X_test, y_test, as_rows, None, label_column, partial)
    if not isinstance(metric, str):
        raise OptionError(f"metric={metric!r:.60}: systems are compared by one of {', '.join(METRICS)}")
    dev.check_like(data, "dev data")
    test.check_like(data, "test data")
    figure = str(metric_for(metric, data.labels()))
    wrong = [share for share in sizes if not 0.0 < share <= 1.0]
    if wrong:
        raise OptionError(
            f"sizes={list(sizes)}: {wrong[0]:g} is no share of the training sentences, above 0 and up to 1"
        )
    mark = {"training data": data.mark(), "dev data": dev.mark(), "test data": test.mark(), "metric": figure,
            "seed": prototype.seed}  # fmt: skip
    cells = Cells(results, "compare", mark)
    job = _Comparison(data, dev, test, figure, rungs_of(halving), jobs, prototype, cells, observe)
    result = job.run(specs, dict(grid or {}), quick, sorted(set(sizes)), draws)
    cells.summary = {"comparison": result.to_dict()}
    cells.save()
    return result


class _Comparison:
    """A comparison on its way; arguments as for :func:`compare`, in the words of experiments."""

    def __init__(
        self, data: Data, dev: Data, test: Data, figure: str, rungs: Sequence[float], jobs: int, prototype: Tagger,
        cells: Cells, observe: Observe | None,
    ) -> None:  # fmt: skip
        self.data, self.dev, self.test, self.figure, self.rungs = data, dev, test, figure, rungs
        self.jobs, self.prototype, self.cells, self.observe = jobs, prototype, cells, observe
        self.gold = test.gold()

    def run(
        self, specs: Sequence[str], own: Mapping[str, Sequence[Any]], quick: bool, sizes: Sequence[float], draws: int
    ) -> ComparisonResult:
        """All of it."""
        labels, left_out = self.data.labels(), {}
        defaults = {spec: default_grid(spec, labels, quick) for spec in specs}
        keys = {key for grid in defaults.values() for key in grid}
        ready: dict[str, list[Candidate]] = {}
        for spec in specs:
            try:
                tagger = tagger_for(self.prototype, spec, quick)
                ready[spec] = rehearsed(candidates(tagger, grid_with(defaults[spec], own, keys)), self.data)
            except LoglinearError as error:
                left_out[spec] = str(error)
        if not ready:
            raise OptionError(f"none of the criteria can be trained on this data: {next(iter(left_out.values()))}")
        systems: list[System] = []
        for spec, chosen in ready.items():
            try:
                systems.append(self._system(spec, chosen, sizes))
            except LoglinearError as error:
                left_out[spec] = str(error)
        if not systems:
            raise OptionError(f"none of the criteria could be trained: {next(iter(left_out.values()))}")
        facts = {
            "training sentences": len(self.data),
            "training tokens": self.data.corpus.n_tokens,
            "dev sentences": len(self.dev),
            "test sentences": len(self.test),
            "test tokens": self.test.corpus.n_tokens,
            "labels": len(labels),
        }
        return ComparisonResult(systems, left_out, self.figure, facts, draws, self.prototype.seed, self.gold)

    def _system(self, spec: str, chosen: Sequence[Candidate], sizes: Sequence[float]) -> System:
        tuning = Tuning(
            self.data, self.dev, None, self.figure, self.rungs, True, self.jobs, self.prototype, self.cells,
            lambda progress: self._tell(spec, progress), keep_best=False,
        )  # fmt: skip
        tuned = tuning.run(chosen)
        best = next(one for one in chosen if one.setting is tuned.best_setting)
        cell, tagger = self._final(spec, best)
        curve = [(len(self.data.part(share, self.prototype.seed)), self._smaller(spec, best, share)) for share in sizes]
        labels, confidence = tagger.predict_numbers(self.test.corpus, confidence=True)
        assert confidence is not None
        predicted = self.test.labelled_apart(labels, tagger.classes_)
        return examined(spec, best, tuned, cell, curve, self.gold, predicted, confidence, self.figure)

    def _final(self, spec: str, best: Candidate) -> tuple[Cell, Tagger]:
        """The tuned setting trained from zero, alone on all threads."""
        key = key_of({"final": best.options()})
        cell, tagger = self.cells.get(key), self.cells.tagger(key, best.tagger)
        if cell is None or tagger is None:
            tagger, seconds = self._fit(spec, best, self.data, "the best setting from zero")
            cell = {
                "seconds": seconds,
                "passes": tagger.n_evaluations_,
                "objective": tagger.objective_,
                "features": tagger.model_.features.n_features,
                "bytes": len(tagger.to_bytes()),
                "history": _history(tagger),
                "message": tagger.message_,
            }
            self.cells.put(key, cell, tagger)
        return cell, tagger

    def _smaller(self, spec: str, best: Candidate, share: float) -> float:
        """The figure on the test data of the same setting, trained on a part of the sentences."""
        key = key_of({"size": share, "options": best.options()})
        cell = self.cells.get(key)
        if cell is None:
            if share == 1.0:
                tagger, seconds = self._final(spec, best)[1], None
            else:
                part = self.data.part(share, self.prototype.seed)
                tagger, seconds = self._fit(spec, best, part, f"the best setting on {100 * share:g} %")
            predicted = self.test.labelled_apart(tagger.predict_numbers(self.test.corpus)[0], tagger.classes_)
            scores = all_scores(self.gold, predicted)
            cell = {"score": scores[self.figure], "scores": scores, "seconds": seconds}
            self.cells.put(key, cell)
        return float(cell["score"])

    def _fit(self, spec: str, best: Candidate, data: Data, what: str) -> tuple[Tagger, float]:
        tagger = clone(best.tagger, safe=False).set_params(threads=self.prototype.threads)
        began = time.perf_counter()
        tagger.fit(
            **data.fit_arguments(),
            observe=lambda p: self._tell(spec, TuningProgress(0, 0, what, iteration=p.iteration, seconds=p.seconds)),
        )
        return tagger, time.perf_counter() - began

    def _tell(self, spec: str, progress: TuningProgress) -> None:
        if self.observe is not None:
            self.observe(spec, progress)


def _history(tagger: Tagger) -> list[list[float]]:
    """Passes so far and objective, iteration by iteration of the criterion itself, thinned out."""
    points = [[p.evaluations, p.objective] for p in tagger.history_ if p.phase == tagger.history_[-1].phase]
    step = max(1, -(-len(points) // MOST_POINTS))
    kept = points[::step]
    return kept if not points or kept[-1] == points[-1] else [*kept, points[-1]]
