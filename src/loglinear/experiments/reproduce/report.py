"""A page of results, written from files of results alone: the same files give the same bytes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from loglinear.data import atomic_output
from loglinear.errors import DataError
from loglinear.experiments.charts import Chart
from loglinear.experiments.reproduce.papers import PAPERS
from loglinear.experiments.store import NOTHING, NUMBER, is_finite, misfit, read_results, unreadable
from loglinear.experiments.tables import Table, code, plain, table_text

FIGURES = "figures"
HEAD = """# Results

The tables of the founding papers, run again. This page is written by `loglinear reproduce report` from the files that
`loglinear reproduce` keeps, never by hand: see [Reproducing](reproducing.md).
"""


def _is_line(value: Any) -> bool:
    """Whether it is a line of a chart, with as many y, and labels if there are any, as x."""
    if misfit(value, {"name": str, "x": [(*NUMBER, str)], "y": [is_finite]}):
        return False
    labels = value.get("labels", value["x"])
    return not misfit(labels, [(*NUMBER, str)]) and len(value["x"]) == len(value["y"]) == len(labels)


TABLE = {
    "title": str, "columns": [str], "notes": [str],
    "rows": [{"name": str, "figures": [(*NUMBER, NOTHING)], "cells": [str]}],
}  # fmt: skip
CHART = {
    "name": lambda value: isinstance(value, str) and value.replace("-", "").isalnum(),  # it names a file
    "title": str, "x_label": str, "y_label": str, "note": str, "log_x": bool,
    "kind": lambda value: value in ("lines", "bars"),
    "lines": lambda value: bool(value) and not misfit(value, [_is_line]),
}  # fmt: skip
FINISHED = {
    "about": {
        "paper": lambda value: isinstance(value, str) and value in PAPERS,
        "command": str, "seed": int, "date": str, "clock_seconds": NUMBER,
        "machine": {"versions": {...: str}, "cores": int, "processor": str, "system": str},
    },
    "tables": [TABLE], "charts": [CHART], "cells": {...: {"seconds": NUMBER}},
}  # fmt: skip


def write_report(paths: list[Path], output: Path, keep: bool = False) -> list[Path]:
    """Write the page, and its figures in a folder beside it; returns all files that were written.

    Several runs of one paper, as with other seeds or corpora, have separate sections and figures: those after the first
    have their number in the heading and in the names of their figures. With ``keep``, the sections of an existing page
    stay unless one of these runs replaces them, in the papers' order.
    """
    sections = _sections(output) if keep and output.exists() else {}
    figures, runs = dict[str, str](), Counter[str]()
    for path in paths:
        content = read_results(path, "reproduce")
        if "tables" not in content:
            raise DataError("the run has not come to its end; give the same command again to continue it", str(path))
        if wrong := misfit(content, FINISHED):
            raise unreadable(wrong, path)
        paper = content["about"]["paper"]
        runs[paper] += 1
        try:
            text, drawn = _section(content, runs[paper])
        except (KeyError, TypeError, ValueError, OverflowError) as error:  # wrong fields or points
            raise unreadable(repr(error), path) from None
        sections[text.partition("\n")[0]] = text
        figures |= drawn
    written = [output]
    if keep:
        order = [f"## {paper.title}" for paper in PAPERS.values()]
        rank = {heading: order.index(heading.partition(", run ")[0]) for heading in sections}
        sections = {heading: sections[heading] for heading in sorted(sections, key=rank.__getitem__)}
    with atomic_output(output) as out:
        out.write("\n".join([HEAD, *sections.values()]).encode())
    for name, svg in sorted(figures.items()):
        place = output.parent / FIGURES / name
        place.parent.mkdir(parents=True, exist_ok=True)
        with atomic_output(place) as out:
            out.write(svg.encode())
        written.append(place)
    return written


def _sections(page: Path) -> dict[str, str]:
    """The sections of a page that :func:`write_report` has written, by heading.

    Raises
    ------
    DataError
        If it is another page.
    """
    try:
        head, *sections = page.read_text(encoding="utf-8").split("\n## ")
    except (OSError, ValueError) as error:
        raise DataError(f"cannot be read ({error}); name another file, or leave out --keep", str(page)) from None
    found = {heading: text for text in ("## " + each for each in sections) for heading in text.splitlines()[:1]}
    known = {f"## {paper.title}" for paper in PAPERS.values()}
    if head.strip() != HEAD.strip() or not {heading.partition(", run ")[0] for heading in found} <= known:
        raise DataError("no page of results; name another file, or leave out --keep", str(page))
    return found


def _section(content: dict[str, Any], run: int) -> tuple[str, dict[str, str]]:
    """The section of a run, number ``run`` of its paper, and its figures by file name."""
    about = content["about"]
    title = PAPERS[about["paper"]].title + (f", run {run}" if run > 1 else "")
    parts = [f"## {title}\n", _about(about, content["cells"])]
    for fields in content["tables"]:
        table = Table(**{**fields, "rows": []})
        for row in fields["rows"]:
            table.add(**row)
        parts.append(table_text(table))
    figures: dict[str, str] = {}
    for fields in content["charts"]:
        chart = Chart(**fields)
        name = f"{chart.name}-run-{run}.svg" if run > 1 else f"{chart.name}.svg"
        figures[name] = chart.svg()
        parts.append(f"{plain(chart.note)}\n\n![{plain(chart.title)}]({FIGURES}/{name})\n")
    return "\n".join(parts), figures


def _about(about: dict[str, Any], cells: dict[str, dict[str, Any]]) -> str:
    """Command, version, seed, machine, date and time."""
    where = about["machine"]
    versions = ", ".join(
        f"{name} {version}" for name, version in where["versions"].items() if name != "python-crfsuite"
    )
    spent = sum(cell["seconds"] for cell in cells.values()) / 60
    machine = plain(
        f"{versions}; seed {about['seed']}; {where['cores']} cores of {where['processor']}, {where['system']}"
    )
    return (
        f"{code(about['command'])}: {machine}; {plain(about['date'])}. {len(cells):,} trainings, "
        f"{spent:,.1f} minutes of processor time in training, "
        f"{about['clock_seconds'] / 60:,.1f} minutes on the clock.\n"
    )
