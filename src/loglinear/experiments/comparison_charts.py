"""The plots of a comparison: F1 against time, learning curves, objectives, precision and recall, reliability."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from loglinear.evaluation.labels import confusions
from loglinear.experiments.charts import COLOURS, canvas, drawing, table_chart
from loglinear.experiments.comparison_result import ComparisonResult, System
from loglinear.experiments.tuning_result import TITLES

MARKERS = "osD^vP*X<>phd"
PLACES = ((7, -3), (7, 7), (7, -13), (-7, -3), (-7, 7), (-7, -13), (7, 17), (7, -23), (-7, 17), (-7, -23))
LETTER, LINE = 5.2, 10.0  # points that a letter is wide and a line is high, about
MOST_LABELS = 16  # in a confusion table
COLUMNS = 4  # of small diagrams


def look(number: int) -> dict[str, Any]:
    """Colour, marker and line of a system; the next round of colours is dashed."""
    styles = ("-", "--", ":")
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": styles[number // len(COLOURS) % len(styles)],
        "markersize": 4,
    }


def floor_of(result: ComparisonResult) -> float:
    """What the plots of the figure begin at: a system far below the others is left out rather than the rest hidden.

    Six times as far below the best as the middle one is, but five points at least.
    """
    scores = [system.scores[result.figure] for system in result.systems]
    return max(scores) - max(6.0 * (max(scores) - float(np.median(scores))), 5.0)


def left_below(result: ComparisonResult) -> str:
    """Which systems the plots leave out, for their captions."""
    below = [system for system in result.systems if system.scores[result.figure] < floor_of(result)]
    names = ", ".join(f"{one.name} ({one.scores[result.figure]:.1f})" for one in below)
    return f" Not shown, being further below: {names}." if below else ""


def _plain_ticks(axes: Any, low: float, high: float) -> None:
    """Ticks of a log scale at 1, 2 and 5, in plain figures."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [tick for k in decades for tick in (10.0**k, 2 * 10.0**k, 5 * 10.0**k) if low <= tick <= high]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()


def time_chart(result: ComparisonResult) -> str:
    """The figure on the test data against the seconds of training, a point a criterion."""
    title = TITLES.get(result.figure, result.figure)
    with drawing(f"{title} against training time", "seconds of training, log scale", f"test {title}") as (axes, done):
        seconds = [max(system.training["seconds"], 1e-3) for system in result.systems]
        scores = [system.scores[result.figure] for system in result.systems]
        floor = floor_of(result)
        shown = [number for number, score in enumerate(scores) if score >= floor]
        axes.set_xscale("log")
        low, high = min(seconds[n] for n in shown) / 1.6, max(seconds[n] for n in shown) * 4.0
        axes.set_xlim(low, high)
        _plain_ticks(axes, low, high)
        for n in shown:
            style = look(n) | {"linestyle": "none", "markersize": 6}
            axes.plot([seconds[n]], [scores[n]], label=result.systems[n].name, **style)
        axes.margins(y=0.12)
        names = [result.systems[n].name for n in shown]
        _name_points(axes, [seconds[n] for n in shown], [scores[n] for n in shown], names)
    return done[0]


def _name_points(axes: Any, x: Sequence[float], y: Sequence[float], names: Sequence[str]) -> None:
    """Names beside points, each at the first place where it covers no other name or point."""
    axes.figure.draw_without_rendering()
    scale = 72.0 / axes.figure.dpi
    at = axes.transData.transform(np.column_stack([x, y])) * scale
    taken = [(px - 4.0, py - 4.0, px + 4.0, py + 4.0) for px, py in at]
    for name, (px, py), place in zip(names, at, zip(x, y, strict=True), strict=True):
        width = LETTER * len(name)
        boxes = []
        for dx, dy in PLACES:
            left = px + dx - (width if dx < 0 else 0.0)
            box = (left, py + dy, left + width, py + dy + LINE)
            boxes.append((sum(_overlap(box, other) for other in taken), (dx, dy), box))
        _, offset, box = min(boxes, key=lambda one: one[0])
        taken.append(box)
        axes.annotate(name, place, xytext=offset, textcoords="offset points", fontsize=8,
                      ha="right" if offset[0] < 0 else "left")  # fmt: skip


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(width, 0.0) * max(height, 0.0)


def learning_chart(result: ComparisonResult) -> str | None:
    """The figure over the number of training sentences; None if only one size was trained."""
    if not any(len(system.curve) > 1 for system in result.systems):
        return None
    title = TITLES.get(result.figure, result.figure)
    with drawing(f"{title} over training size", "training sentences, log scale", f"test {title}") as (axes, done):
        axes.set_xscale("log")
        floor = floor_of(result)
        for number, system in enumerate(result.systems):
            if system.scores[result.figure] >= floor:
                sizes, scores = zip(*system.curve, strict=True)
                axes.plot(sizes, scores, label=system.name, **look(number))
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes], minor=False)
        axes.minorticks_off()
        _legend(axes)
    return done[0]


def objective_chart(result: ComparisonResult) -> str | None:
    """How far each objective is above its lowest, as a share of where it began."""
    shown = [(number, system) for number, system in enumerate(result.systems) if len(system.training["history"]) > 2]
    if not shown:
        return None
    with drawing("Objective against passes", "passes over the training data, log scale",
                 "above its lowest, as a share of the first") as (axes, done):  # fmt: skip
        axes.set_xscale("log")
        axes.set_yscale("log")
        for number, system in shown:
            passes, values = np.array(system.training["history"], dtype=np.float64).T
            excess = values - values.min()
            if not np.isfinite(excess).all() or excess[0] <= 0.0:
                continue
            share = np.where(excess > 0, excess, np.nan) / excess[0]
            axes.plot(passes, share, label=system.name, **(look(number) | {"marker": ""}))
        axes.set_ylim(1e-5, 2.0)
        _legend(axes)
    return done[0]


def trade_off(system: System) -> list[tuple[str, float, float]]:
    """Cost, precision and recall on the dev data, of the settings that differ from the chosen one in cost alone.

    Those that halving ended on a part of the sentences are left out.
    """

    def rest(setting: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in setting.items() if key != "cost"}

    if "cost" not in system.best.setting or "precision" not in system.best.scores:
        return []
    best = system.best
    same = [cell for cell in system.tuned if cell.share == best.share and rest(cell.setting) == rest(best.setting)]
    return [(str(cell.setting["cost"]), cell.scores["precision"], cell.scores["recall"]) for cell in same]


def trade_off_chart(result: ComparisonResult) -> str | None:
    """Precision against recall on the dev data over the costs that were tried; None if no criterion had several."""
    shown = [(number, system, trade_off(system)) for number, system in enumerate(result.systems)]
    shown = [one for one in shown if len(one[2]) > 1]
    if not shown:
        return None
    costs = list(dict.fromkeys(cost for _, _, points in shown for cost, _, _ in points))
    with drawing("Precision and recall over costs", "dev recall", "dev precision") as (axes, done):
        for number, system, points in shown:
            points = sorted(points, key=lambda point: point[2])
            style = look(number) | {"marker": ""}
            recalls, precisions = [point[2] for point in points], [point[1] for point in points]
            axes.plot(recalls, precisions, label=system.name, **style)
            for cost, precision, recall in points:
                axes.plot([recall], [precision], color=style["color"], marker=MARKERS[costs.index(cost) % len(MARKERS)],
                          markersize=6, linestyle="none")  # fmt: skip
        for number, cost in enumerate(costs):
            axes.plot([], [], color="#7f7f7f", marker=MARKERS[number % len(MARKERS)], linestyle="none", label=cost)
        _legend(axes)
    return done[0]


def confusion_chart(result: ComparisonResult) -> str:
    """Gold against predicted labels of the best system; of many labels, those that are confused most."""
    labels, table = confusions(result.gold, result.best.predicted)
    title = f"Labels given by {result.best.name}"
    if len(labels) > MOST_LABELS:
        mistakes = table - np.diag(np.diag(table))
        most = np.argsort(-(mistakes.sum(axis=0) + mistakes.sum(axis=1)), kind="stable")[:MOST_LABELS]
        keep = np.sort(most)
        title += f": {MOST_LABELS} of {len(labels)} labels"
        labels, table = [labels[y] for y in keep.tolist()], table[np.ix_(keep, keep)]
    return table_chart(title, labels, labels, table, "predicted", "gold")


def reliability_chart(result: ComparisonResult) -> str:
    """For each system, the share of right labels over their probability; bars are the share of the tokens."""
    rows = math.ceil(len(result.systems) / COLUMNS)
    with _panels(rows) as (panels, done):
        for number, (axes, system) in enumerate(zip(panels, result.systems, strict=False)):
            found = system.calibrations["width"]
            axes.plot([0, 1], [0, 1], color="#999999", linewidth=0.8, linestyle="--")
            axes.bar(found.confidence, found.count / found.count.sum(), width=0.06, color="#bbbbbb")
            axes.plot(found.confidence, found.accuracy, color=COLOURS[0], marker="o", markersize=3)
            axes.set_title(f"{system.name}\nECE {100 * found.expected_error:.1f} %", fontsize=8)
            axes.set_xlim(0, 1.03)
            axes.set_ylim(0, 1.03)
            axes.tick_params(labelsize=7)
            if number % COLUMNS == 0:
                axes.set_ylabel("share right", fontsize=8)
            if number + COLUMNS >= len(result.systems):
                axes.set_xlabel("probability", fontsize=8)
    return done[0]


@contextmanager
def _panels(rows: int) -> Iterator[tuple[list[Any], list[str]]]:
    """Small axes in rows; afterwards the list holds the chart as SVG text. Those that stay empty are not shown."""
    with canvas((2.0 * COLUMNS + 0.4, 1.9 * rows + 0.3)) as (figure, done):
        panels = list(figure.subplots(rows, COLUMNS, squeeze=False).flat)
        yield panels, done
        for axes in panels:
            if not axes.has_data():
                axes.set_visible(False)


def _legend(axes: Any) -> None:
    axes.figure.legend(loc="outside right upper", fontsize=8)
