"""What tuning gives: a table of cells, the best of them, and its model."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from loglinear.estimators.tagger import Tagger
from loglinear.experiments.setting_content import setting_content
from loglinear.experiments.table import Table, number

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
