"""Charts as SVG text: one look for all plots, drawn by matplotlib, the same bytes for the same numbers."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Array, Float
from loglinear.errors import OptionError
from loglinear.streams import visible
from loglinear.wording import how_many

COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#7f7f7f",
    "#000000",
)  # distinct for the colour-blind too
FEW_PLACES = 8  # along an axis
STYLE: Any = {
    "figure.figsize": (6.4, 4.0),
    "font.size": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "svg.fonttype": "none",  # text stays text: it can be searched, and is small
    "svg.hashsalt": "loglinear",
    "text.parse_math": False,  # a dollar in a label is a dollar
}


@dataclass(frozen=True)
class Line:
    """A named line through points; ``spread`` [n] draws a band of that width on both sides, ``marker`` the points."""

    name: str
    x: npt.ArrayLike
    y: npt.ArrayLike
    spread: npt.ArrayLike | None = None
    marker: str = "o"
    dashed: bool = False


@dataclass(frozen=True)
class Mark:
    """A vertical line with a name."""

    name: str
    x: float


@contextmanager
def canvas(size: tuple[float, float] | None = None) -> Iterator[tuple[Any, list[str]]]:
    """A figure of that size in inches; afterwards the list holds it as SVG text."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    done: list[str] = []
    with rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasSVG(figure)
        yield figure, done
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": "loglinear"})
    done.append(visible(out.getvalue()))  # XML has no control characters


@contextmanager
def drawing(title: str, x_label: str, y_label: str) -> Iterator[tuple[Any, list[str]]]:
    """Axes to draw on; afterwards the list holds the chart as SVG text."""
    with canvas() as (figure, done):
        axes = figure.add_subplot()
        axes.set_title(title)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        yield axes, done


def line_chart(
    title: str,
    x_label: str,
    y_label: str,
    lines: Sequence[Line],
    *,
    log_x: bool = False,
    marks: Sequence[Mark] = (),
    points_only: bool = False,
    names_beside: bool = False,
) -> str:
    """Lines over a common axis, or with ``points_only`` named points; the names in the plot, or ``names_beside`` it."""
    with drawing(title, x_label, y_label) as (axes, done):
        if log_x:
            axes.set_xscale("log")
        for number, line in enumerate(lines):
            colour = COLOURS[number % len(COLOURS)]
            style = "none" if points_only else "--" if line.dashed else "-"
            axes.plot(line.x, line.y, color=colour, marker=line.marker, markersize=4, linestyle=style, label=line.name)
            if line.spread is not None:
                y, spread = np.asarray(line.y), np.asarray(line.spread)
                axes.fill_between(line.x, y - spread, y + spread, color=colour, alpha=0.15, linewidth=0)
        places = np.unique(np.concatenate([np.asarray(line.x, dtype=np.float64) for line in lines]))
        if log_x and len(places) <= FEW_PLACES:  # then only these have ticks
            axes.set_xticks(places, [f"{place:,g}" for place in places])
            axes.minorticks_off()
        for mark in marks:
            axes.axvline(mark.x, color="#7f7f7f", linestyle=":")
            axes.annotate(mark.name, (mark.x, 1.0), xycoords=("data", "axes fraction"), rotation=90,
                          va="top", ha="right", fontsize=8, color="#555555")  # fmt: skip
        if len(lines) > 1 or lines[0].name:
            axes.legend(**({"loc": "center left", "bbox_to_anchor": (1.0, 0.5)} if names_beside else {}))
    return done[0]


def table_chart(title: str, rows: Sequence[str], columns: Sequence[str], values: Array, x_label: str,
                y_label: str) -> str:  # fmt: skip
    """Numbers [R, C] as a coloured table, such as a confusion matrix; colours show the shares of a row."""
    with drawing(title, x_label, y_label) as (axes, done):
        totals = np.maximum(values.sum(axis=1, keepdims=True), 1)
        axes.imshow(values / totals, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
        axes.grid(False)
        axes.set_xticks(range(len(columns)), columns, rotation=90 if len(columns) > 6 else 0)
        axes.set_yticks(range(len(rows)), rows)
        for i, j in np.ndindex(values.shape):
            if values[i, j]:
                dark = values[i, j] / totals[i, 0] > 0.5
                axes.text(j, i, f"{values[i, j]:g}", ha="center", va="center", fontsize=7,
                          color="white" if dark else "black")  # fmt: skip
    return done[0]


# ----------------------------------------------------------------------------------------------------------------------
# Charts of mixtures: rows and components in two dimensions (Fig. 9.7), and the log-likelihood by round of EM.


MOST_ROWS = 5000  # that are drawn
DEVIATIONS = (1.0, 2.0)  # of the ellipses


def component_chart(mixture: Any, x: Float, columns: Sequence[int] | None, names: Sequence[str]) -> str:
    """Rows [n, D] in the colour of their component, and each Gaussian as ellipses of one and two deviations.

    Parameters
    ----------
    mixture : Mixture
        Of Gaussians.
    x : float64 [n, D]
    columns : two ints, or None
        The columns to see; None: the two directions in which the rows, in units of their columns' deviations, vary
        most.
    names : sequence of str
        Of the components.
    """
    if mixture.components != "gaussian" or x.shape[1] < 2:
        raise OptionError("a chart of components needs Gaussians in two or more columns")
    theta = mixture.model_.components
    axes, labels = _axes(mixture, x, columns)
    k, d = theta.means.shape
    expanded = theta.shape.expanded(theta.covariances, k, d)
    shown = x[shown_rows(len(x))]
    belongs = mixture.model_.joint(shown).argmax(axis=1)
    centre = np.zeros(d) if columns is not None else x.mean(axis=0)
    points, means = (shown - centre) @ axes, (theta.means - centre) @ axes
    with drawing(f"{how_many(k, 'component')} of {how_many(len(x), 'row')}", *labels) as (canvas, done):
        from matplotlib.patches import Ellipse

        for number in range(k):
            colour = COLOURS[number % len(COLOURS)]
            mine = points[belongs == number]
            canvas.plot(mine[:, 0], mine[:, 1], linestyle="none", marker=".", markersize=4, color=colour, alpha=0.5)
            full = np.diag(expanded[number]) if theta.shape.axial else expanded[number % len(expanded)]
            values, vectors = np.linalg.eigh(axes.T @ full @ axes)
            angle = float(np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1])))
            for deviations in DEVIATIONS:
                width, height = 2.0 * deviations * np.sqrt(values[::-1])
                canvas.add_patch(
                    Ellipse(means[number], width, height, angle=angle, fill=False, edgecolor=colour, linestyle=":",
                            linewidth=1.8)
                )  # fmt: skip
            canvas.plot(*means[number], marker="+", markersize=11, markeredgewidth=2, color=colour, linestyle="none",
                        label=f"{names[number]} ({mixture.weights_[number]:.0%})")  # fmt: skip
        if k <= 2 * len(COLOURS):
            canvas.legend()
    return done[0]


def shown_rows(n: int) -> Any:
    """Which of n rows are drawn: all, or so many at random."""
    return slice(None) if n <= MOST_ROWS else np.random.default_rng(0).choice(n, MOST_ROWS, replace=False)


def climb_chart(mixture: Any) -> str:
    """The log-likelihood, and with the prior the objective, at the start and after each round."""
    rounds = list(range(len(mixture.objectives_)))
    with_prior = mixture.objectives_ != mixture.log_likelihoods_
    lines = [Line("log-likelihood" if with_prior else "", rounds, mixture.log_likelihoods_, marker="")]
    if with_prior:
        lines.append(Line("with the prior", rounds, mixture.objectives_, marker="", dashed=True))
    return line_chart("EM, the best start", "round", "log-likelihood", lines)


def _axes(mixture: Any, x: Float, columns: Sequence[int] | None) -> tuple[Float, tuple[str, str]]:
    """Two directions [D, 2] and their names."""
    d = x.shape[1]
    known = getattr(mixture, "feature_names_in_", [f"column {j}" for j in range(d)])
    if columns is None and d == 2:
        columns = (0, 1)
    if columns is not None:
        first, second = columns
        return np.eye(d)[:, [first, second]], (str(known[first]), str(known[second]))
    unit = np.sqrt(mixture.model_.components.prior.spread)
    scaled = (x - x.mean(axis=0)) / unit
    _, _, directions = np.linalg.svd(scaled, full_matrices=False)
    turned: Float = directions[:2] * np.sign(directions[:2, np.abs(directions[:2]).argmax(axis=1)].diagonal())[:, None]
    return (turned / unit).T, ("first principal component", "second principal component")


# ----------------------------------------------------------------------------------------------------------------------
# The papers' figures as plain data, which is stored with the results and drawn from there.


MARKERS = "os^Dv*"  # to distinguish lines that overlap


@dataclass
class Chart:
    """A figure.

    Parameters
    ----------
    name : str
        Of the file.
    title, x_label, y_label : str
    lines : list of dict
        ``name``, ``x`` and ``y`` of each line; for bars, one line whose ``x`` are the bars' names.
    kind : {"lines", "bars"}
    log_x : bool
    note : str
        The text below it.
    """

    name: str
    title: str
    x_label: str
    y_label: str
    lines: list[dict[str, Any]] = field(default_factory=list)
    kind: str = "lines"
    log_x: bool = False
    note: str = ""

    def svg(self) -> str:
        """The drawing."""
        if self.kind == "lines":
            marked = zip(self.lines, cycle(MARKERS))
            lines = [Line(line["name"], line["x"], line["y"], marker=marker) for line, marker in marked]
            return line_chart(self.title, self.x_label, self.y_label, lines, log_x=self.log_x, names_beside=True)
        with drawing(self.title, self.x_label, self.y_label) as (axes, done):
            names, lengths = self.lines[0]["x"], self.lines[0]["y"]
            places = range(len(names), 0, -1)
            bars = axes.barh(places, lengths, color=COLOURS[0], height=0.6)
            axes.set_yticks(places, names)
            axes.grid(False, axis="y")
            if self.log_x:
                axes.set_xscale("log")
            axes.bar_label(bars, labels=self.lines[0]["labels"], padding=4, fontsize=9)
            axes.margins(x=0.15)
        return done[0]
