"""A comparison as one HTML file: tables and plots inside it, no network, no script, light and dark."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from loglinear.evaluation.labels import confusions
from loglinear.experiments.charts import COLOURS, canvas, drawing, table_chart
from loglinear.experiments.comparison.result import ComparisonResult, System
from loglinear.experiments.tables import MISSING, Table, number, size
from loglinear.experiments.tuning.run import TITLES
from loglinear.wording import how_many

STYLE = """
:root { color-scheme: light dark; --text: #1b1b1b; --soft: #666; --line: #ddd; --back: #fff; --strong: #f3f6fa; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e6e6; --soft: #9a9a9a; --line: #3a3a3a; --back: #161616; --strong: #20262d; }
  figure svg { filter: invert(0.92) hue-rotate(180deg); }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back); margin: 0 auto;
  max-width: 76rem; padding: 1.5rem; }
h1 { font-size: 1.5rem; margin: 0 0 .3rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
p, li { max-width: 60rem; } .soft, caption, figcaption { color: var(--soft); font-size: .87rem; }
.wide { overflow-x: auto; margin-bottom: 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .87rem; }
caption { text-align: left; padding-bottom: .3rem; }
th, td { padding: .22rem .6rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child, td.text, th.text { text-align: left; }
thead th { border-bottom: 2px solid var(--line); } tr.best td { background: var(--strong); font-weight: 600; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(26rem, 1fr)); gap: 1.5rem; }
figure { margin: 0; } figure svg { width: 100%; height: auto; } figure.whole { grid-column: 1 / -1; max-width: 52rem; }
details { margin: .3rem 0; } summary { cursor: pointer; }
@media (max-width: 30rem) { .plots { grid-template-columns: 1fr; } }
"""
TEXT_COLUMNS = ("chosen on the dev data", "setting")


def page(result: ComparisonResult, machine: dict[str, Any], command: str) -> str:
    """The whole page."""
    facts = ", ".join(f"{value:,} {name}" for name, value in result.facts.items())
    best = result.best
    differ = sum(against.differs for against in result.against.values())
    parts = [
        "<h1>Which criterion is best here?</h1>",
        f"<p class=soft>{escape(facts)}.</p>",
        f"<p><b>{escape(best.name)}</b> ({escape(best.best.name)}) has the best {escape(result.figure)} on the test "
        f"data, {best.scores[result.figure]:.2f}. {_others(len(result.against), differ)}</p>",
        table_html(score_table(result), first_is_best=True),
        "<h2>What it costs</h2>",
        table_html(training_table(result), first_is_best=True),
        "<h2>Plots</h2>",
        _plots(result),
        "<h2>Where they differ</h2>",
        table_html(type_table(result)),
        _confusions(result),
        "<h2>All settings tried</h2>",
        *(_tried(result.figure, system) for system in result.systems),
        f"<p class=soft>{escape(command)}<br>{escape(_machine(machine))}</p>",
    ]
    body = "\n".join(parts)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<link rel="icon" href="data:,">\n'
        f"<title>loglinear compare</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _others(others: int, differ: int) -> str:
    if not others:
        return "There is nothing to compare it with."
    if others == 1:
        return "The other differs significantly from it." if differ else "The other may be as good."
    return f"Of the {others} others, {differ} differ significantly from it, {others - differ} may be as good."


def table_html(table: Table, first_is_best: bool = False) -> str:
    """A table with its title and notes."""
    kinds = ["text" if column in TEXT_COLUMNS else "" for column in table.columns]
    head = "".join(f"<th{_kind(kind)}>{escape(c)}</th>" for c, kind in zip(table.columns, kinds, strict=True))
    rows = []
    for place, row in enumerate(table.rows):
        cells = [row.name, *row.cells]
        filled = "".join(f"<td{_kind(kind)}>{escape(c)}</td>" for c, kind in zip(cells, kinds, strict=True))
        rows.append(f"<tr{' class=best' if first_is_best and place == 0 else ''}>{filled}</tr>")
    notes = "".join(f"<p class=soft>{escape(note)}</p>" for note in table.notes)
    return (
        f"<div class=wide><table><caption>{escape(table.title)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>{notes}"
    )


def _kind(kind: str) -> str:
    return f" class={kind}" if kind else ""


def _plots(result: ComparisonResult) -> str:
    below = left_below(result)
    drawn = [
        (time_chart(result), f"Trained from zero with the setting chosen on the dev data.{below}", ""),
        (learning_chart(result), f"The same settings trained on parts of the sentences.{below}", ""),
        (objective_chart(result), "Each on its own scale; for online learners, as accumulated during a pass.", ""),
        (trade_off_chart(result), "The chosen setting with other costs, on the dev data.", ""),
        (confusion_chart(result), "Colours are shares of a row.", ""),
        (
            reliability_chart(result),
            "The share of right labels among those predicted with a probability; perfectly calibrated ones lie on the "
            "dashed line. Bars: the share of tokens. Online and margin learners are not trained for probabilities.",
            "whole",
        ),
    ]
    figures = [
        f"<figure{_kind(kind)}>{inline(chart, place)}<figcaption>{escape(text)}</figcaption></figure>"
        for place, (chart, text, kind) in enumerate(drawn)
        if chart is not None
    ]
    return f"<div class=plots>{''.join(figures)}</div>"


def inline(chart: str, number: int) -> str:
    """An SVG file as part of a page: no prologue, unique ids, no white background."""
    body = chart[chart.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r'\bid="([^"]+)"', rf'id="c{number}-\1"', body)
    body = re.sub(r'href="#([^"]+)"', rf'href="#c{number}-\1"', body)
    body = re.sub(r"url\(#([^)]+)\)", rf"url(#c{number}-\1)", body)
    return re.sub(r'(<g id="c\d+-patch_1">\s*<path [^>]*style="fill: )#ffffff', r"\1none", body, count=1)


def _confusions(result: ComparisonResult) -> str:
    table = Table("The most frequent mistakes", ["criterion", *(f"{place}." for place in range(1, 6))])
    for system in result.systems:
        cells = [f"{gold} as {predicted}: {times:,}" for gold, predicted, times in system.confused]
        table.add(system.name, [], [*cells, *[""] * (5 - len(cells))])
    return table_html(table)


def _tried(figure: str, system: System) -> str:
    titles = ["setting", f"dev {figure}", "trained on", "seconds", "passes"]
    table = Table("", titles)
    for cell in sorted(system.tuned, key=lambda cell: -cell.score):
        shown = [number(cell.score, 2), f"{100 * cell.share:g} %", number(cell.seconds, 2), f"{cell.passes:,}"]
        table.add(cell.name, [cell.score], shown)
    summary = f"{escape(system.name)}: {how_many(len(system.tuned), 'setting')}"
    return f"<details><summary>{summary}</summary>{table_html(table)}</details>"


def _machine(machine: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return f"{machine['cores']} cores of {machine['processor']}; {versions}"


# ----------------------------------------------------------------------------------------------------------------------
# The tables: scores with their tests, the cost of training, and each chunk type or label.


MARKS = {(False, False): "", (True, False): " *", (True, True): " **"}


def p_value(p: float | None) -> str:
    """A p value in three digits."""
    return MISSING if p is None else "<0.001" if p < 0.0005 else f"{p:.3f}"


def mark(result: ComparisonResult, system: System) -> str:
    """Stars for a system that differs from the best."""
    against = result.against.get(system.name)
    return "" if against is None else MARKS[against.differs, against.surely]


def score_table(result: ComparisonResult) -> Table:
    """Scores on the test data, and p values against the best."""
    names = list(result.best.scores)
    table = Table(
        f"On the test data ({how_many(result.facts['test sentences'], 'sentence')}), the best first",
        ["criterion", *(TITLES[name] for name in names), "bootstrap p", "McNemar p", "t-test p", "ECE", "dev"],
    )
    for system in result.systems:
        against = result.against.get(system.name)
        figures = [system.scores.get(name) for name in names]
        tests = [None] * 3 if against is None else [against.bootstrap, against.mcnemar, against.t_test]
        error = system.calibrations["width"].expected_error
        shown = [number(value, 2) for value in figures] + [p_value(p) for p in tests]
        table.add(f"{system.name}{mark(result, system)}", [*figures, *tests, error, system.best.score],
                  [*shown, number(100 * error, 2), number(system.best.score, 2)])  # fmt: skip
    table.notes.append(
        f"A star: differs from the best by the paired bootstrap on {result.figure} ({result.draws:,} draws of "
        "sentences, p < 0.05, one-sided); two: also after Holm's correction for the number of comparisons. McNemar: "
        "exact, on sentences without a wrong label; t-test: paired, on the number of wrong labels of a sentence. "
        "ECE: expected calibration error of the predicted labels' probabilities, in percent, 10 bins of equal width."
    )
    table.notes += [f"Left out: {name}: {reason}" for name, reason in result.left_out.items()]
    return table


def training_table(result: ComparisonResult) -> Table:
    """The cost of each training, and the setting that was chosen."""
    table = Table(
        f"Training on {how_many(result.facts['training sentences'], 'sentence')} "
        f"({how_many(result.facts['training tokens'], 'token')})",
        ["criterion", "seconds", "passes", "features", "model", "settings tried", "chosen on the dev data"],
    )
    for system in result.systems:
        training = system.training
        table.add(
            system.name,
            [training["seconds"], training["passes"], training["features"], training["bytes"], len(system.tuned)],
            [number(training["seconds"], 2), f"{training['passes'] or 0:,}", f"{training['features']:,}",
             size(training["bytes"]), str(len(system.tuned)), system.best.name],
        )  # fmt: skip
    table.notes.append(
        "Seconds, from text to model, are those of training the chosen setting from zero, alone on all threads."
    )
    return table


def type_table(result: ComparisonResult) -> Table:
    """F1 of each chunk type, or label, by each criterion."""
    chunked = "f1" in result.best.scores
    table = Table(
        f"F1 of each {'chunk type' if chunked else 'label'} on the test data",
        ["type" if chunked else "label", "gold", *(system.name for system in result.systems)],
    )
    for name in sorted({name for system in result.systems for name in system.types}):
        scores = [system.types.get(name) for system in result.systems]
        gold = max(score.gold for score in scores if score is not None)
        figures: list[float | None] = [None if score is None else score.f1 for score in scores]
        table.add(name or "(none)", [gold, *figures], [f"{gold:,}", *(number(value, 2) for value in figures)])
    return table


# ----------------------------------------------------------------------------------------------------------------------
# The plots: F1 against time, learning curves, objectives, precision and recall, reliability.


MARKERS = "osD^vP*X<>phd"
PLACES = ((7, -3), (7, 7), (7, -13), (-7, -3), (-7, 7), (-7, -13), (7, 17), (7, -23), (-7, 17), (-7, -23))
LETTER, LINE = 5.2, 10.0  # approximate width of a letter and height of a line, in points
MOST_LABELS = 16  # in a confusion table
COLUMNS = 4  # of reliability diagrams


def look(number: int) -> dict[str, Any]:
    """Colour, marker and line of a system; when the colours are used up, lines are dashed."""
    styles = ("-", "--", ":")
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": styles[number // len(COLOURS) % len(styles)],
        "markersize": 4,
    }


def floor_of(result: ComparisonResult) -> float:
    """The least figure that is plotted: a system far below the others is left out, so that these can be distinguished.

    Six times as far below the best as the median is, but at least five points.
    """
    scores = [system.scores[result.figure] for system in result.systems]
    return max(scores) - max(6.0 * (max(scores) - float(np.median(scores))), 5.0)


def left_below(result: ComparisonResult) -> str:
    """Which systems the plots leave out, for their captions."""
    below = [system for system in result.systems if system.scores[result.figure] < floor_of(result)]
    names = ", ".join(f"{system.name} ({system.scores[result.figure]:.1f})" for system in below)
    return f" Not shown, because far below: {names}." if below else ""


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
    """Names beside points, each at the first place where it overlaps others least."""
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
        _, offset, box = min(boxes, key=lambda candidate: candidate[0])
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
    """Cost, precision and recall on the dev data, for the settings that differ from the chosen one in cost alone.

    Settings that halving stopped on a part of the sentences are left out.
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
    every = [(number, system, trade_off(system)) for number, system in enumerate(result.systems)]
    shown = [(number, system, points) for number, system, points in every if len(points) > 1]
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
    with canvas((2.0 * COLUMNS + 0.4, 1.9 * rows + 0.3)) as (figure, done):
        panels = list(figure.subplots(rows, COLUMNS, squeeze=False).flat)
        for axes in panels[len(result.systems) :]:
            axes.set_visible(False)
        for number, (axes, system) in enumerate(zip(panels, result.systems, strict=False)):
            bins = system.calibrations["width"]
            axes.plot([0, 1], [0, 1], color="#999999", linewidth=0.8, linestyle="--")
            axes.bar(bins.confidence, bins.count / bins.count.sum(), width=0.06, color="#bbbbbb")
            axes.plot(bins.confidence, bins.accuracy, color=COLOURS[0], marker="o", markersize=3)
            axes.set_title(f"{system.name}\nECE {100 * bins.expected_error:.1f} %", fontsize=8)
            axes.set_xlim(0, 1.03)
            axes.set_ylim(0, 1.03)
            axes.tick_params(labelsize=7)
            if number % COLUMNS == 0:
                axes.set_ylabel("share right", fontsize=8)
            if number + COLUMNS >= len(result.systems):
                axes.set_xlabel("probability", fontsize=8)
    return done[0]


def _legend(axes: Any) -> None:
    axes.figure.legend(loc="outside right upper", fontsize=8)
