"""Which criterion is best for my data? Each is tuned on dev data, trained once more from zero, and tested.

Seconds and passes are those of the last training, alone on all threads. Systems are compared with the best by three
tests on the same test sentences (:mod:`~loglinear.evaluation.significance`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from loglinear.criteria.costs import OUTSIDE
from loglinear.criteria.criterion import CRITERIA, Criterion
from loglinear.errors import ClusterError, LoglinearError, OptionError
from loglinear.estimators.conventions import clone
from loglinear.estimators.options import tagger_training
from loglinear.estimators.tagger.estimator import Tagger
from loglinear.evaluation.chunks import has_chunks
from loglinear.experiments.chains import load_like
from loglinear.experiments.comparison.result import ComparisonResult, System
from loglinear.experiments.pools.pool import Emit, Pool
from loglinear.experiments.pools.shared import Shared
from loglinear.experiments.pools.threads import ThreadPool
from loglinear.experiments.store import NOTHING, NUMBER, Cell, Store, key_of, misfit
from loglinear.experiments.tuning.data import METRICS, Data, all_scores, metric_for
from loglinear.experiments.tuning.grid import Candidate, candidates, validated
from loglinear.experiments.tuning.run import (
    SCORED,
    SHAPES,
    TRAINED,
    Training,
    Tuning,
    TuningProgress,
    pool_of,
    rungs_of,
    shape_of,
)
from loglinear.options import options_of, spec_name
from loglinear.system import thread_count

T = TypeVar("T")
MOST_POINTS = 200  # of a training's history that are kept
Observe = Callable[[str, TuningProgress], None]


def _is_point(value: Any) -> bool:
    return not misfit(value, [NUMBER]) and len(value) == 2


COMPARED: dict[str, Any] = {
    "tuned": SHAPES["tuned"],
    "size": SCORED,
    "final": {
        **TRAINED, "objective": (*NUMBER, NOTHING), "features": int, "bytes": int,
        "history": [_is_point],
    },
}  # fmt: skip


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
    pool: Pool | None = None,
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
        What all have in common: template, order, constraints, threads, seed. Options that a criterion does not use are
        reset for it.
    grid : mapping from option to values, optional
        Other values than those of the default grids; options that no default grid has are tuned for all criteria.
    quick : bool
        Small grids, and at most 60 iterations.
    sizes : sequence of float
        Shares of the training sentences to train the tuned settings on, for learning curves.
    metric, halving, jobs, pool, sample_weight, label_column, partial
        As for :func:`loglinear.tune`; the metric (not a function here) is also what systems are compared by.
    draws : int
        Samples of the paired bootstrap.
    results : path, optional
        JSON file for everything that is finished, with the models in a folder beside it; resumed if it exists.
    observe : callable, optional
        Called with the criterion and a :class:`~loglinear.experiments.tuning.run.TuningProgress`.
    """
    prototype = Tagger() if tagger is None else tagger
    specs = named(criteria, prototype.structure)
    if X_dev is None or X_test is None:
        raise OptionError("a comparison needs dev data to tune on (X_dev) and test data to compare on (X_test)")
    as_rows = prototype.template is not None or not any(CRITERIA.part(spec).learns_weights for spec in specs)
    data = Data.of(X, y, as_rows, sample_weight, label_column, partial)
    dev, test = (Data.of(*pair, as_rows, None, label_column, partial) for pair in ((X_dev, y_dev), (X_test, y_test)))
    if not isinstance(metric, str):
        raise OptionError(f"metric={metric!r:.60}: systems are compared by one of {', '.join(METRICS)}")
    dev.check_like(data, "dev data")
    test.check_like(data, "test data")
    figure = str(metric_for(metric, data.labels()))
    if wrong := [share for share in sizes if not 0.0 < share <= 1.0]:
        raise OptionError(f"sizes={list(sizes)}: {wrong[0]:g} is not a share of the sentences; give numbers in (0, 1]")
    mark = {"training data": data.mark(), "dev data": dev.mark(), "test data": test.mark(), "metric": figure,
            "seed": prototype.seed}  # fmt: skip
    store = Store(results, "compare", mark, lambda key, cell: shape_of(key, cell, COMPARED))
    observer = observe or (lambda spec, progress: None)
    where = pool_of(jobs, pool)
    comparison = _Comparison(data, dev, test, figure, rungs_of(halving), where, prototype, store, observer)
    result = comparison.run(specs, dict(grid or {}), quick, sorted(set(sizes)), draws)
    store.finish({"comparison": result.to_dict()})
    return result


@dataclass
class _Comparison:
    """A comparison in progress; arguments as for :func:`compare`, checked and in numbers."""

    data: Data
    dev: Data
    test: Data
    figure: str
    rungs: Sequence[float]
    pool: Pool
    prototype: Tagger
    store: Store
    observe: Observe

    def __post_init__(self) -> None:
        self.gold = self.test.gold()
        self.training, self.judging = Shared.of(self.data), Shared.of(self.dev)  # sent once for all criteria

    def run(
        self, specs: Sequence[str], own: Mapping[str, Sequence[Any]], quick: bool, sizes: Sequence[float], draws: int
    ) -> ComparisonResult:
        """Tune, train and test each criterion; those that fail are left out, with the reason."""
        labels, left_out = self.data.labels(), dict[str, str]()
        defaults = {spec: default_grid(spec, labels, quick) for spec in specs}
        keys = {key for grid in defaults.values() for key in grid}

        def grid_of(spec: str) -> list[Candidate]:
            tagger = tagger_for(self.prototype, spec, quick)
            return validated(candidates(tagger, grid_with(defaults[spec], own, keys)), self.data)

        ready = _where_possible(specs, grid_of, left_out)
        found = self._systems(ready, sizes)
        systems = [*_where_possible(ready, lambda spec: _made(found[spec]), left_out).values()]
        facts = {
            "training sentences": len(self.data), "training tokens": self.data.corpus.n_tokens,
            "dev sentences": len(self.dev), "test sentences": len(self.test),
            "test tokens": self.test.corpus.n_tokens, "labels": len(labels),
        }  # fmt: skip
        return ComparisonResult(systems, left_out, self.figure, facts, draws, self.prototype.seed, self.gold)

    def _systems(
        self, ready: Mapping[str, Sequence[Candidate]], sizes: Sequence[float]
    ) -> dict[str, System | LoglinearError]:
        """The system of each criterion, or why there is none: as many at a time as do not disturb each other."""

        def task(spec: str, emit: Emit) -> None:
            try:
                found: System | LoglinearError = self._system(spec, ready[spec], sizes, emit)
            except ClusterError:
                raise  # it says nothing about the criterion
            except LoglinearError as error:
                found = error
            emit((spec, None, found))

        systems = dict[str, System | LoglinearError]()
        with closing(ThreadPool(self.pool.n_apart).stream(partial(task, spec) for spec in ready)) as events:
            for spec, progress, found in events:
                if progress is None:
                    systems[spec] = found
                else:
                    self.observe(spec, progress)
        return systems

    def _system(self, spec: str, chosen: Sequence[Candidate], sizes: Sequence[float], emit: Emit) -> System:
        def observe(progress: TuningProgress) -> None:
            emit((spec, progress, None))

        tuning = Tuning(
            self.data, self.dev, None, self.figure, self.rungs, True, self.pool, self.prototype, self.store,
            observe, keep_best=False, within=emit,
        )  # fmt: skip
        tuned = tuning.run(chosen)
        best = next(candidate for candidate in chosen if candidate.setting is tuned.best_setting)
        emit = emit.mapped(lambda progress: (spec, progress, None))
        cell, tagger = self._final(best, emit)
        curve = [(len(self.data.part(share, self.prototype.seed)), self._smaller(best, share, emit)) for share in sizes]
        labels, confidence = tagger.predict_numbers(self.test.corpus, confidence=True)
        assert confidence is not None
        predicted = labels, tagger.classes_, self.test.corpus.offsets
        return System.examined(spec, tuned, cell, curve, self.gold, predicted, confidence, self.figure)

    def _final(self, best: Candidate, emit: Emit) -> tuple[Cell, Tagger]:
        """The tuned setting trained from zero, alone on all threads."""
        key = key_of("final", best.options())
        cell, tagger = self.store.get(key), self.store.model(key, partial(load_like, best.tagger))
        if cell is None or tagger is None:
            tagger, trained = self._fit(best, self.training, "the best setting from zero", emit)
            cell = {**trained, "bytes": len(tagger.to_bytes()), "history": _history(tagger)}
            self.store.put(key, cell, tagger)
        return cell, tagger

    def _smaller(self, best: Candidate, share: float, emit: Emit) -> float:
        """The figure on the test data of the same setting, trained on a part of the sentences."""
        key = key_of("size", {"size": share, "options": best.options()})
        cell = self.store.get(key)
        if cell is None:
            if share == 1.0:
                tagger, seconds = self._final(best, emit)[1], None
            else:
                part = Shared.of(self.data.part(share, self.prototype.seed))
                tagger, trained = self._fit(best, part, f"the best setting on {100 * share:g} %", emit)
                seconds = trained["seconds"]
            scores = all_scores(self.gold, self.test.predicted(tagger))
            cell = {"score": scores[self.figure], "scores": scores, "seconds": seconds}
            self.store.put(key, cell)
        return float(cell["score"])

    def _fit(self, best: Candidate, data: Shared[Data], what: str, emit: Emit) -> tuple[Tagger, Cell]:
        threads = self.pool.threads_each(thread_count(self.prototype.threads), 1)
        emit(TuningProgress(0, 0, what, running=1))
        found: tuple[Tagger, Cell] = self.pool.do(
            what, Training("training", best.tagger, data, threads=threads),
            emit.mapped(lambda progress: TuningProgress(0, 0, what, running=1, **progress)),
        )  # fmt: skip
        return found


def _made(found: T | LoglinearError) -> T:
    """What was made; raises the error that there is instead."""
    if isinstance(found, LoglinearError):
        raise found
    return found


def _where_possible(specs: Iterable[str], make: Callable[[str], T], left_out: dict[str, str]) -> dict[str, T]:
    """Call ``make`` for each criterion; the reasons of failures go to ``left_out``. Raises if all fail."""
    made = {}
    for spec in specs:
        try:
            made[spec] = make(spec)
        except LoglinearError as error:
            left_out[spec] = str(error)
    if not made:
        raise OptionError(f"none of the criteria can be trained on this data: {next(iter(left_out.values()))}")
    return made


def _history(tagger: Tagger) -> list[list[float]]:
    """Passes and objective after each iteration of the last phase, thinned out; the last iteration is kept."""
    points = [[p.evaluations, p.objective] for p in tagger.history_ if p.phase == tagger.history_[-1].phase]
    step = max(1, -(-len(points) // MOST_POINTS))
    return points[::step] + (points[-1:] if points and (len(points) - 1) % step else [])


# ----------------------------------------------------------------------------------------------------------------------
# The grid and the tagger that a criterion is tuned with, from what the criterion declares.


Grid = dict[str, list[Any]]
L2, VARIANCE, SMOOTHING = [0.01, 0.1, 1.0], [0.5, 1.5, 5.0, 15.0], [0.01, 0.1, 1.0]
PASSES, STEPS = [5, 10, 20], [0.1, 1.0]
COSTS, LEANING = ["hamming:1", "hamming:5"], ["recall:3", "precision:3"]
QUICK: dict[str, list[Any]] = {
    "l2": L2[:2],
    "variance": VARIANCE[1::2],
    "criterion:smoothing": SMOOTHING[1:],
    "max_iter": PASSES[:1],
    "criterion:C": STEPS,
    "cost": ["hamming:1", *LEANING],
}
QUICK_ITERATIONS = 60  # of criteria that are trained in batches


def named(asked: str | Sequence[str], structure: str = "chain") -> list[str]:
    """The criteria asked for.

    ``all`` are those that train taggers of the ``structure``; names are listed between commas (semicolons, if they have
    options with commas).
    """
    if isinstance(asked, str):
        if asked == "all":
            criteria: list[str] = tagger_training(structure).criteria()
            return criteria
        asked = [spec.strip() for spec in asked.split(";" if ";" in asked else ",") if spec.strip()]
    specs = list(dict.fromkeys(asked))
    if not specs:
        raise OptionError("name the criteria to compare, or all")
    for spec in specs:
        CRITERIA.spec(spec)
    return specs


def default_grid(spec: str, labels: Collection[str], quick: bool = False) -> Grid:
    """The options that a criterion is tuned over: penalty, passes, step size, smoothing, cost, as it declares them."""
    criterion, given = CRITERIA.part(spec), CRITERIA.spec(spec).values
    grid: Grid = {}
    if not criterion.learns_weights:
        grid["criterion:smoothing"] = SMOOTHING
    elif is_online(criterion):
        grid["max_iter"] = PASSES
        if "C" in options_of(criterion):
            grid = {"max_iter": [PASSES[0], PASSES[-1]], "criterion:C": STEPS}
    elif criterion.uses_base:  # its loss is a mean, and the penalty of another size
        grid["variance"] = VARIANCE
    else:
        grid["l2"] = L2
    if criterion.uses_cost:
        grid["cost"] = COSTS + (LEANING if OUTSIDE in labels and has_chunks(labels) else [])
    if quick:
        grid = {key: [v for v in QUICK[key] if key != "cost" or v in values] for key, values in grid.items()}
    return {key: values for key, values in grid.items() if key.partition(":")[2] not in given}


def grid_with(default: Grid, own: Mapping[str, Sequence[Any]], all_keys: Collection[str]) -> Grid:
    """A default grid with the user's values: for options it has, and for those that no default grid has."""
    taken = {key: list(values) for key, values in own.items() if key in default or key not in all_keys}
    return {**default, **taken}


def is_online(criterion: type[Criterion]) -> bool:
    """Whether it is trained online, sequence by sequence."""
    return criterion.optimizers == ("online",)


def tagger_for(tagger: Tagger, spec: str, quick: bool = False) -> Tagger:
    """The tagger that a criterion is tuned with: as given, with options that it does not use reset."""
    criterion, plain = CRITERIA.part(spec), Tagger()
    changed: dict[str, Any] = {"criterion": spec}
    if quick and tagger.max_iter is None and criterion.learns_weights and not is_online(criterion):
        changed["max_iter"] = QUICK_ITERATIONS
    if not criterion.uses_cost:
        changed["cost"] = None
    if spec_name(spec) != "m-estimation":
        changed["base"] = None
    unused: tuple[str, ...] = ()
    if not criterion.learns_weights:
        unused = (
            "template", "gazetteers", "optimizer", "l1", "l2", "variance", "min_count", "states", "transitions",
            "pair_features", "hash_bits", "prune", "precision", "max_iter", "tolerance",
        )  # fmt: skip
    elif is_online(criterion):
        unused = ("l1", "l2", "variance", "optimizer")
    changed |= {name: getattr(plain, name) for name in unused}
    return clone(tagger).set_params(**changed)
