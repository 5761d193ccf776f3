"""Training and test error as the penalty grows (Zhang, Figure 9.1), and which penalty to choose.

Each penalty of a grid is tried, from the greatest down, each training starting from the weights of the one before. The
training error grows with the penalty; the test error first falls, as the weights become more stable, then grows. Two
choices are of interest:

    best                   the l2 with the least test error
    one_standard_error     the greatest l2 whose test error is within a standard error of that: as good, and simpler

The test error is measured on held-out data, with the standard error of a mean over examples (of a ratio, where examples
have several labels); or by cross-validation, as the mean over the folds with its standard error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import is_regressor
from sklearn.model_selection import KFold, StratifiedKFold

from loglinear.arrays import Float, Int64
from loglinear.data import Attributes, Columns
from loglinear.data.tables import TableFile
from loglinear.errors import DataError, OptionError
from loglinear.estimators.conventions import clone
from loglinear.estimators.tagger.estimator import Tagger
from loglinear.estimators.tagger.inputs import annotation_of, corpus_of
from loglinear.experiments.chains import Chains, Finished, load_like
from loglinear.experiments.charts import Line, Mark, line_chart
from loglinear.experiments.pools import pool as pools
from loglinear.experiments.pools.pool import Pool, Say
from loglinear.experiments.pools.shared import Shared
from loglinear.experiments.pools.threads import ThreadPool
from loglinear.experiments.store import Cell, Store, digest, is_finite, key_of, setting_content
from loglinear.experiments.tables import Table
from loglinear.experiments.tuning.data import Data
from loglinear.features.templates.encoder import TemplateEncoder
from loglinear.wording import how_many

GRID = tuple(float(f"{value:.3g}") for value in np.logspace(-4, 3, 15))
LABELS, TOKENS, SQUARED = "share of wrong labels", "share of wrong tokens", "mean squared error"
Errors = tuple[Float, Float]  # of each example: mistakes, and how many there could have been


@dataclass(frozen=True)
class RegularisationPath:
    """Errors along a grid of P penalties, in ascending order of the penalty.

    Attributes
    ----------
    l2 : float64 [P]
        The penalties.
    train_error, test_error : float64 [P]
        Share of wrong labels, or mean squared error of a regression.
    standard_error : float64 [P]
        Of the test error.
    what : str
        What the error is.
    how : str
        Where the test error comes from.
    """

    l2: Float
    train_error: Float
    test_error: Float
    standard_error: Float
    what: str
    how: str

    @property
    def best(self) -> float:
        """The l2 with the least test error; of equal ones the greatest."""
        return float(self.l2[self._best])

    @property
    def one_standard_error(self) -> float:
        """The greatest l2 whose test error is at most the least one and its standard error."""
        least = self._best
        near = self.test_error <= self.test_error[least] + self.standard_error[least]
        return float(self.l2[near].max())

    @property
    def _best(self) -> int:
        return int(len(self.l2) - 1 - np.argmin(self.test_error[::-1]))

    def table(self) -> Table:
        """The path as a table; the two choices are marked."""
        table = Table(f"Regularisation path, {self.what}", ["l2", "training error", self.how, "standard error", ""])
        scale, digits = (1.0, 4) if self.what == SQUARED else (100.0, 2)
        for l2, train, test, spread in zip(
            self.l2, self.train_error, self.test_error, self.standard_error, strict=True
        ):
            marks = [word for word, value in (("best", self.best), ("1 SE", self.one_standard_error)) if value == l2]
            figures = [float(l2), float(train), float(test), float(spread)]
            shown = [f"{scale * figure:.{digits}f}" for figure in figures[1:]]
            table.add(f"{l2:g}", figures, [*shown, ", ".join(marks)])
        return table

    def chart(self) -> str:
        """The plot of Figure 9.1, as SVG."""
        scale = 1.0 if self.what == SQUARED else 100.0
        unit = "" if self.what == SQUARED else " (%)"
        lines = [
            Line("training error", self.l2, scale * self.train_error),
            Line(self.how, self.l2, scale * self.test_error, scale * self.standard_error),
        ]
        marks = [Mark("best", self.best)]
        if self.one_standard_error != self.best:
            marks.append(Mark("one standard error", self.one_standard_error))
        return line_chart("Effect of regularisation", "λ (l2)", f"{self.what}{unit}", lines, log_x=True, marks=marks)

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        names = ("l2", "train_error", "test_error", "standard_error")
        values: dict[str, Any] = {name: getattr(self, name).tolist() for name in names}
        return {**values, "best": self.best, "one_standard_error": self.one_standard_error, "error": self.what}


def regularisation_path(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    l2: Sequence[float] = GRID,
    X_test: Any = None,
    y_test: Any = None,
    folds: int | None = None,
    seed: int = 0,
    results: str | Path | None = None,
    observe: Callable[[int, int, float], None] | None = None,
    pool: Pool | None = None,
) -> RegularisationPath:
    """Errors of an estimator over a grid of L2 penalties.

    Parameters
    ----------
    estimator : Classifier, Tagger, Ridge, or any with the parameter ``l2``
        What to train; it is not changed.
    X, y
        Training data, as for its ``fit``.
    l2 : sequence of float
        The penalties, in any order.
    X_test, y_test
        Held-out data for the test error; without it the training data is cross-validated.
    folds : int, optional
        Parts for cross-validation, 5 if not given; classes are spread evenly over them.
    seed : int
        Of the parts.
    results : path, optional
        JSON file for the errors of each finished training, and at the end the path; resumed if it exists. Models to
        continue from are in a folder beside it.
    observe : callable, optional
        Called with the number of finished trainings, of all trainings, and the penalty of the last.
    pool : Pool, optional
        Where the trainings run instead of in this process, as
        :class:`~loglinear.experiments.pools.cluster.ClusterPool`. It is not closed.
    """
    grid = _checked_grid(l2)
    if "l2" not in estimator.get_params():
        raise OptionError(f"{type(estimator).__name__} has no parameter l2 to vary")
    if y is None and not isinstance(estimator, Tagger):
        raise OptionError("y is missing: give the labels of the training data")
    if (y is None) != (y_test is None) and X_test is not None:
        raise OptionError("give labels for both the training and the test data (y and y_test), or for none of them")
    if X_test is not None and folds is not None:
        raise OptionError(f"folds={folds} and X_test are two ways to measure the test error; give one")
    parts, how = [(X, y, X_test, y_test)], "test error"
    if X_test is None:
        folds = 5 if folds is None else folds
        parts = [
            (_chosen(X, inside), _chosen(y, inside), _chosen(X, outside), _chosen(y, outside))
            for inside, outside in _parts(estimator, X, y, folds, seed)
        ]
        how = f"cross-validated error ({how_many(len(parts), 'part')})"
    names = ("train", "test", "spread")
    mark = {} if results is None else _mark(estimator, X, y, X_test, y_test, folds, seed)
    store = Store(results, "path", mark, lambda key, cell: dict.fromkeys(names, is_finite))
    chains = [_steps(estimator, fold, grid) for fold in range(len(parts))]
    data = [Shared.of(part) for part in parts]
    fit = Chains(
        store, ThreadPool(1) if pool is None else pool,
        lambda step, init: _Fitting("fitting", estimator, data[step.fold], step.l2, init),
        lambda path, step: load_like(estimator, path),
    )  # fmt: skip
    finished = (event.link for event in fit.train(chains) if isinstance(event, Finished))
    for done, step in enumerate(finished, 1):
        if observe is not None:
            observe(done, len(parts) * len(grid), step.l2)
    train, test, spread = (np.array([[store.cells[s.key][name] for s in chain] for chain in chains]) for name in names)
    error = spread[0] if len(parts) == 1 else np.std(test, axis=0, ddof=1) / np.sqrt(len(parts))
    what = TOKENS if isinstance(estimator, Tagger) else SQUARED if is_regressor(estimator) else LABELS
    path = RegularisationPath(grid[::-1], train.mean(axis=0)[::-1], test.mean(axis=0)[::-1], error[::-1], what, how)
    store.finish(path.to_dict())
    return path


@dataclass(frozen=True)
class _Step:
    """The training of one penalty on one part of the data, after those of the greater penalties."""

    fold: int
    l2: float
    previous: _Step | None

    @property
    def name(self) -> str:
        return f"l2={self.l2:g}" + (f", part {self.fold + 1}" if self.fold else "")

    @property
    def key(self) -> str:
        before = [] if self.previous is None else self.previous.path
        return key_of("path", {"fold": self.fold, "l2": self.l2, "after": before})

    @property
    def path(self) -> list[float]:
        return [*([] if self.previous is None else self.previous.path), self.l2]


def _steps(estimator: Any, fold: int, grid: Float) -> list[_Step]:
    """The trainings on one part of the data; a regression has a closed form, and needs no start."""
    steps: list[_Step] = []
    for penalty in grid.tolist():
        steps.append(_Step(fold, penalty, steps[-1] if steps and not is_regressor(estimator) else None))
    return steps


@dataclass(frozen=True)
class _Fitting(pools.Job):
    """What has to be done for a step: the result is a model and its cell.

    Parameters
    ----------
    estimator : any
        The options.
    part : Shared of tuple
        X and y to train on, and X and y to test on.
    l2 : float
    init : any
        The model to start from, if there is one.
    """

    MEASURES: ClassVar[dict[str, str]] = {"fitting": "loglinear.experiments.path:fitted"}

    estimator: Any
    part: Shared[tuple[Any, Any, Any, Any]]
    l2: float
    init: Any = None


def fitted(job: _Fitting, say: Say) -> tuple[Any, Cell]:
    """The model of a step, and its errors on the training and the test data."""
    X, y, X_test, y_test = job.part.value
    model = clone(job.estimator).set_params(l2=job.l2)
    more: dict[str, Any] = {} if job.init is None else {"init": job.init}
    if "observe" in signature(model.fit).parameters and not getattr(model, "verbose", False):
        more["observe"] = lambda progress: say(None)  # so that Ctrl-C ends the training at its next iteration
    model.fit(X, y, **more) if y is not None else model.fit(X, **more)
    test, spread = _ratio(*_errors(model, X_test, y_test))
    return model, {"train": _ratio(*_errors(model, X, y))[0], "test": test, "spread": spread}


def _mark(estimator: Any, X: Any, y: Any, X_test: Any, y_test: Any, folds: int | None, seed: int) -> dict[str, Any]:
    """What a path depends on besides its penalties."""
    options = {k: v for k, v in estimator.get_params(deep=False).items() if k not in ("l2", "threads", "verbose")}
    return {
        "training data": _data_mark(X, y), "test data": None if X_test is None else _data_mark(X_test, y_test),
        "folds": folds, "seed": seed, "estimator": type(estimator).__name__, "options": setting_content(options),
    }  # fmt: skip


def _data_mark(X: Any, y: Any) -> str:
    """A fingerprint of examples and labels, whatever file they are from."""
    if isinstance(X, Columns | Attributes):
        return Data(X, y).mark()
    return digest((X.columns if isinstance(X, TableFile) else X, y))


def _errors(model: Any, X: Any, y: Any) -> Errors:
    """The errors of each example, and how many it could have had."""
    if isinstance(model, Tagger):
        return _token_errors(model, X, y)
    predicted, truth = model.predict(X), np.asarray(y)
    errors = (predicted - truth) ** 2 if is_regressor(model) else predicted != truth
    return np.asarray(errors, dtype=np.float64).reshape(len(truth), -1).mean(axis=1), np.ones(len(truth))


def _token_errors(tagger: Tagger, X: Any, y: Any) -> Errors:
    """The wrong tokens and all tokens of each sentence, counting those with one gold label."""
    corpus = corpus_of(X, as_rows=isinstance(tagger.model_.encoder, TemplateEncoder), empty=True)
    annotation = annotation_of(corpus, y)
    settled = annotation.settled
    wrong = settled & (annotation.known_only(tagger.classes_) != tagger.predict_numbers(corpus)[0])
    starts = corpus.offsets[:-1]
    return np.add.reduceat(wrong, starts, dtype=np.float64), np.add.reduceat(settled, starts, dtype=np.float64)


def _ratio(mistakes: Float, possible: Float) -> tuple[float, float]:
    """The error of some examples, and its standard error."""
    total = float(possible.sum())
    if not total:
        raise DataError("no token has a single gold label to measure the error on")
    share = float(mistakes.sum()) / total
    n = len(mistakes)
    spread = mistakes - share * possible
    return share, float(np.sqrt(np.sum(spread**2) * n / max(n - 1, 1))) / total


def _checked_grid(l2: Sequence[float]) -> Float:
    """The penalties from the greatest down."""
    grid = np.unique(np.asarray(l2, dtype=np.float64))[::-1]
    if not len(grid) or not (np.isfinite(grid) & (grid > 0)).all():
        raise OptionError(f"l2={list(l2)!r:.80}: a path needs penalties above 0")
    return grid


def _parts(estimator: Any, X: Any, y: Any, folds: int, seed: int) -> list[tuple[Int64, Int64]]:
    """Numbers of the examples inside and outside each training part."""
    n = X.n_sentences if isinstance(X, Columns | Attributes) else X.shape[0] if hasattr(X, "shape") else len(X)
    if not 2 <= folds <= n:
        raise OptionError(f"folds={folds}: between 2 and the number of examples ({n}) are possible")
    labels = None if y is None or isinstance(estimator, Tagger) or is_regressor(estimator) else np.asarray(y)
    if labels is not None and np.unique(labels, return_counts=True)[1].min() >= folds:
        return list(StratifiedKFold(folds, shuffle=True, random_state=seed).split(np.zeros(n), labels))
    return list(KFold(folds, shuffle=True, random_state=seed).split(np.zeros(n)))


def _chosen(data: Any, numbers: Int64) -> Any:
    """The examples with these numbers."""
    if data is None:
        return None
    if isinstance(data, Columns | Attributes | TableFile):
        return data.select(numbers)
    if hasattr(data, "iloc"):
        return data.iloc[numbers]
    if isinstance(data, np.ndarray) or sp.issparse(data):
        return data[numbers]
    return [data[number] for number in numbers.tolist()]
