"""Charts as SVG text: one look for all plots, drawn by matplotlib, the same bytes for the same numbers."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#000000")  # told apart by all
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
}


@dataclass(frozen=True)
class Line:
    """A named line through points; ``spread`` [n] draws a band of so much on both sides, ``marker`` the points."""

    name: str
    x: npt.ArrayLike
    y: npt.ArrayLike
    spread: npt.ArrayLike | None = None
    marker: str = "o"
    dashed: bool = False


@dataclass(frozen=True)
class Mark:
    """A vertical line at a place worth seeing, with its name."""

    name: str
    x: float


@contextmanager
def canvas(size: tuple[float, float] | None = None) -> Iterator[tuple[Any, list[str]]]:
    """A figure of so many inches; afterwards the list holds it as SVG text."""
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
    done.append(out.getvalue())


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
        if log_x and len(places) <= FEW_PLACES:  # then each has its number, and no others have
            axes.set_xticks(places, [f"{place:,g}" for place in places])
            axes.minorticks_off()
        for mark in marks:
            axes.axvline(mark.x, color="#7f7f7f", linestyle=":")
            axes.annotate(mark.name, (mark.x, 1.0), xycoords=("data", "axes fraction"), rotation=90,
                          va="top", ha="right", fontsize=8, color="#555555")  # fmt: skip
        if len(lines) > 1 or lines[0].name:
            axes.legend(**({"loc": "center left", "bbox_to_anchor": (1.0, 0.5)} if names_beside else {}))
    return done[0]


def table_chart(title: str, rows: Sequence[str], columns: Sequence[str], values: npt.NDArray[Any], x_label: str,
                y_label: str) -> str:  # fmt: skip
    """Numbers [R, C] as a coloured table, such as a confusion matrix; the colours are of each row's shares."""
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
