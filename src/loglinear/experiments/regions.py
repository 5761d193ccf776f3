"""Decision regions of a classifier in two columns (Zhang, Fundamental Statistical Techniques, Fig. 9.2 and 9.3).

The plane of two columns is cut into a grid; each of its points is a row of a table, to which the classifier gives a
label. Columns of the model that are not drawn have the same, typical cell everywhere: the median of numbers, the most
frequent name, no text. The boundary of a label y is where log p(y) = max over y' != y of log p(y').

Letters: G points along each side, Y labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from loglinear.arrays import Float
from loglinear.data.tables import TableFile
from loglinear.errors import DataError, OptionError
from loglinear.experiments.charts import COLOURS, drawing, shown_rows

if TYPE_CHECKING:
    from loglinear.estimators.classifier.estimator import Classifier

SIDE = 200  # points along each side of the grid
MARGIN = 0.06  # beyond the outermost rows, as a share of their spread


def chosen_columns(kinds: dict[str, str], asked: str | None) -> tuple[str, str]:
    """The two columns to draw: those asked for, as ``A,B``, or the model's only two columns of numbers."""
    numbers = [name for name, kind in kinds.items() if kind == "number"]
    if asked is None:
        if len(numbers) != 2:
            known = ", ".join(numbers) or "none"
            choose = "; choose two with --plot-columns A,B" if len(numbers) > 2 else ""
            raise OptionError(
                f"regions are drawn in two columns of numbers, and the model has {len(numbers)} ({known}){choose}"
            )
        return numbers[0], numbers[1]
    parts = [part.strip() for part in asked.split(",")]
    if len(parts) != 2 or len(set(parts)) != 2 or any(part not in numbers for part in parts):
        known = ", ".join(numbers) or "(the model has none)"
        raise OptionError(f"--plot-columns {asked}: give two of the model's columns of numbers, {known}, as in A,B")
    return parts[0], parts[1]


@dataclass(frozen=True)
class Regions:
    """What a classifier says in the plane of two columns.

    Parameters
    ----------
    columns : two str
    labels : list of str [Y]
    x, y : float64 [G]
        The places of the grid along both columns.
    log_p : float64 [G, G, Y]
        Log-probabilities of the labels; the first axis goes along ``y``.
    points : float64 [n, 2]
        Rows, NaN where a cell is empty.
    fixed : list of str
        Columns of the model that are not drawn.
    """

    columns: tuple[str, str]
    labels: list[str]
    x: Float
    y: Float
    log_p: Float
    points: Float
    fixed: list[str]

    @classmethod
    def of(cls, classifier: Classifier, table: TableFile, columns: tuple[str, str], side: int = SIDE) -> Regions:
        """The regions around the rows of a table."""
        kinds = classifier.kinds_ or {}
        points = table.numbers(columns, empty=np.nan)
        for column, values in zip(columns, points.T, strict=True):
            if np.isnan(values).all():
                raise DataError(f"column {column!r} has no number to draw", table.file)
        x, y = (_places(values[~np.isnan(values)], side) for values in points.T)
        across, up = np.meshgrid(x, y)
        drawn = zip(columns, (across, up), strict=True)
        cells = {name: [repr(value) for value in values.ravel().tolist()] for name, values in drawn}
        fixed = [name for name in kinds if name not in columns]
        cells |= {name: [_typical(table, name, kinds[name])] * across.size for name in fixed}
        grid = TableFile("the grid", cells, list(range(1, across.size + 1)))
        log_p = classifier.predict_log_proba(grid).reshape(side, side, -1)
        return cls(columns, [str(label) for label in classifier.classes_], x, y, log_p, points, fixed)

    @property
    def best(self) -> Any:
        """The number of the best label [G, G]."""
        return self.log_p.argmax(axis=2)

    def chart(self, truth: Sequence[str]) -> str:
        """The regions by predicted label, their boundaries, and the rows by true label, as SVG."""
        from matplotlib.colors import ListedColormap

        n = len(self.labels)
        colours = [COLOURS[k % len(COLOURS)] for k in range(n)]
        others = [name for name in dict.fromkeys(truth) if name not in self.labels]
        typical = f"; typical {', '.join(self.fixed)}" if self.fixed else ""
        with drawing(f"{n} labels{typical:.80}", *self.columns) as (axes, done):
            extent = (self.x[0], self.x[-1], self.y[0], self.y[-1])
            axes.imshow(self.best, origin="lower", extent=extent, aspect="auto", interpolation="nearest", alpha=0.25,
                        cmap=ListedColormap(colours), vmin=-0.5, vmax=n - 0.5)  # fmt: skip
            axes.grid(False)
            for k in range(n) if n > 2 else (1,):
                lead = self.log_p[..., k] - np.delete(self.log_p, k, axis=2).max(axis=2)
                if lead.min() < 0.0 < lead.max():
                    axes.contour(self.x, self.y, lead, levels=[0.0], colors="#333333", linewidths=1.0)
            rows = shown_rows(len(self.points))
            of_rows, names = self.points[rows], np.array(truth, dtype=object)[rows]
            for name in [*self.labels, *others]:
                known = name in self.labels
                mine = of_rows[names == name]
                colour = colours[self.labels.index(name)] if known else "#7f7f7f"
                edge = {"markeredgecolor": "white" if known else colour, "markeredgewidth": 0.6}
                axes.plot(mine[:, 0], mine[:, 1], linestyle="none", marker="o" if known else "x", markersize=4,
                          color=colour, label=name, **edge)  # fmt: skip
            axes.set_xlim(*extent[:2])
            axes.set_ylim(*extent[2:])
            if n + len(others) <= 2 * len(COLOURS):
                axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        return done[0]


def _places(values: Float, side: int) -> Float:
    """Evenly spaced places [G] from a little before the least to a little after the greatest value."""
    least, greatest = float(values.min()), float(values.max())
    beyond = MARGIN * (greatest - least) or 1.0
    return np.linspace(least - beyond, greatest + beyond, side)


def _typical(table: TableFile, name: str, kind: str) -> str:
    """The cell of a column that is not drawn."""
    if kind == "text":
        return ""
    if kind == "category":
        return Counter(table.column(name)).most_common(1)[0][0]
    values = table.numbers([name], empty=np.nan)
    return "" if np.isnan(values).all() else repr(float(np.nanmedian(values)))
