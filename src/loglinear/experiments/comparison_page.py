"""A comparison as one HTML file: tables and plots inside it, no network, no script; in light and in dark."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from loglinear.experiments.comparison_charts import (
    confusion_chart,
    learning_chart,
    left_below,
    objective_chart,
    reliability_chart,
    time_chart,
    trade_off_chart,
)
from loglinear.experiments.comparison_result import ComparisonResult, System
from loglinear.experiments.comparison_tables import score_table, training_table, type_table
from loglinear.experiments.table import Table, number

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
    """A table with its title and remarks."""
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
        (objective_chart(result), "Each on its own scale; online learners as they met it on the way.", ""),
        (trade_off_chart(result), "The chosen setting with other costs, on the dev data.", ""),
        (confusion_chart(result), "Colours are shares of a row.", ""),
        (
            reliability_chart(result),
            "Of the labels given with a probability, the share that is right; on the dashed line probabilities are "
            "what they say. Bars: how many tokens have it. Scores of online and margin learners are not meant as such.",
            "whole",
        ),
    ]
    figures = []
    for number_, (chart, text, kind) in enumerate(drawn):
        if chart is not None:
            figures.append(
                f"<figure{_kind(kind)}>{inline(chart, number_)}<figcaption>{escape(text)}</figcaption></figure>"
            )
    return f"<div class=plots>{''.join(figures)}</div>"


def inline(chart: str, number: int) -> str:
    """An SVG file as part of a page: no prologue, names of its own, no white behind it."""
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
    summary = f"{escape(system.name)}: {len(system.tuned)} settings"
    return f"<details><summary>{summary}</summary>{table_html(table)}</details>"


def _machine(machine: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return f"{machine['cores']} cores of {machine['processor']}; {versions}"
