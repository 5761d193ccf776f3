"""Training and test error as the penalty grows (Zhang, Figure 9.1), and the penalty to choose.

Each penalty of a grid is tried, from the greatest down, each training starting from the weights of the one before. The
training error grows with the penalty; the test error first falls, as the weights become more stable, then grows. Two
choices are worth knowing:

    best                   the l2 with the least test error
    one_standard_error     the greatest l2 whose test error is within a standard error of that: as good, and simpler

The test error is that of held-out data, its standard error that of a mean over examples (of a ratio, where examples
have several labels); or by cross-validation the mean over the folds, and its standard error over them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone, is_regressor
from sklearn.model_selection import KFold, StratifiedKFold

from loglinear.arrays import Float, Int64
from loglinear.data import Attributes, Columns
from loglinear.data.tables import TableFile
from loglinear.errors import DataError, OptionError
from loglinear.estimators.tagger.estimator import Tagger
from loglinear.estimators.tagger.inputs import annotation_of, corpus_of
from loglinear.experiments.charts import Line, Mark, line_chart
from loglinear.experiments.tables import Table
from loglinear.features.templates.encoder import TemplateEncoder

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
    observe: Callable[[int, int, float], None] | None = None,
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
    observe : callable, optional
        Told how many trainings are done, of how many, and the penalty of the last.
    """
    grid = _checked_grid(l2)
    if "l2" not in estimator.get_params():
        raise OptionError(f"{type(estimator).__name__} has no parameter l2 to go along")
    if y is None and not isinstance(estimator, Tagger):
        raise OptionError("y is missing: give the labels of the training data")
    if (y is None) != (y_test is None) and X_test is not None:
        raise OptionError("give labels for both the training and the test data (y and y_test), or for none of them")
    if X_test is not None and folds is not None:
        raise OptionError(f"folds={folds} and X_test are two ways to measure the test error; give one")
    watch = _Watch(observe, len(grid) * (1 if X_test is not None else folds or 5))
    if X_test is not None:
        train, test = _along(estimator, grid, X, y, X_test, y_test, watch)
        means = [_ratio(*errors) for errors in test]
        return _path(
            estimator, grid, [_ratio(*errors)[0] for errors in train], [mean for mean, _ in means],
            [spread for _, spread in means], "test error",
        )  # fmt: skip
    parts = _parts(estimator, X, y, 5 if folds is None else folds, seed)
    trains, tests = [], []
    for inside, outside in parts:
        train, test = _along(
            estimator, grid, _chosen(X, inside), _chosen(y, inside), _chosen(X, outside), _chosen(y, outside), watch
        )
        trains.append([_ratio(*errors)[0] for errors in train])
        tests.append([_ratio(*errors)[0] for errors in test])
    spread = np.std(tests, axis=0, ddof=1) / np.sqrt(len(parts))
    how = f"cross-validated error ({len(parts)} parts)"
    return _path(estimator, grid, np.mean(trains, axis=0), np.mean(tests, axis=0), spread, how)


@dataclass
class _Watch:
    """Counts trainings."""

    observe: Callable[[int, int, float], None] | None
    total: int
    done: int = 0

    def tick(self, l2: float) -> None:
        self.done += 1
        if self.observe is not None:
            self.observe(self.done, self.total, l2)


def _path(estimator: Any, grid: Float, train: Any, test: Any, spread: Any, how: str) -> RegularisationPath:
    """The path, whose errors come in descending order of the penalty."""
    what = TOKENS if isinstance(estimator, Tagger) else SQUARED if is_regressor(estimator) else LABELS
    l2, train, test, spread = (np.asarray(values, dtype=np.float64)[::-1] for values in (grid, train, test, spread))
    return RegularisationPath(l2, train, test, spread, what, how)


def _along(
    estimator: Any, grid: Float, X: Any, y: Any, X_test: Any, y_test: Any, watch: _Watch
) -> tuple[list[Errors], list[Errors]]:
    """Errors on the training and on the test data at each penalty, from the greatest down."""
    train, test = [], []
    before = None
    for penalty in grid:
        model = clone(estimator).set_params(l2=float(penalty))
        warm: dict[str, Any] = {} if before is None or is_regressor(model) else {"init": before}
        model.fit(X, y, **warm) if y is not None else model.fit(X, **warm)
        train.append(_errors(model, X, y))
        test.append(_errors(model, X_test, y_test))
        watch.tick(float(penalty))
        before = model
    return train, test


def _errors(model: Any, X: Any, y: Any) -> Errors:
    """Mistakes of each example, and how many it could have had."""
    if isinstance(model, Tagger):
        return _token_errors(model, X, y)
    predicted = model.predict(X)
    truth = np.asarray(y)
    if is_regressor(model):
        squares = np.asarray((predicted - truth) ** 2, dtype=np.float64)
        return squares.reshape(len(truth), -1).mean(axis=1), np.ones(len(truth))
    return np.asarray(predicted != truth, dtype=np.float64), np.ones(len(truth))


def _token_errors(tagger: Tagger, X: Any, y: Any) -> Errors:
    """Wrong and all tokens of each sentence, those whose label is settled."""
    corpus = corpus_of(X, as_rows=isinstance(tagger.model_.encoder, TemplateEncoder))
    annotation = annotation_of(corpus, y)
    settled = annotation.settled
    wrong = settled & (annotation.known_only(tagger.classes_) != tagger.predict_numbers(corpus)[0])
    starts = corpus.offsets[:-1]
    return np.add.reduceat(wrong, starts, dtype=np.float64), np.add.reduceat(settled, starts, dtype=np.float64)


def _ratio(mistakes: Float, possible: Float) -> tuple[float, float]:
    """The error of some examples, and its standard error."""
    total = float(possible.sum())
    if not total:
        raise DataError("there is no settled label to measure the error on")
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
    spread = KFold(folds, shuffle=True, random_state=seed)
    if y is not None and not isinstance(estimator, Tagger) and not is_regressor(estimator):
        counts = np.unique(np.asarray(y), return_counts=True)[1]
        if counts.min() >= folds:
            return list(StratifiedKFold(folds, shuffle=True, random_state=seed).split(np.zeros(n), y))
    return list(spread.split(np.zeros(n)))


def _chosen(data: Any, numbers: Int64) -> Any:
    """Some of the examples."""
    if data is None:
        return None
    if isinstance(data, Columns | Attributes | TableFile):
        return data.select(numbers)
    if hasattr(data, "iloc"):
        return data.iloc[numbers]
    if isinstance(data, np.ndarray) or sp.issparse(data):
        return data[numbers]
    return [data[number] for number in numbers.tolist()]
