"""A page of results, written from files of results alone: the same bytes from the same files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from loglinear.data import atomic_output
from loglinear.errors import DataError
from loglinear.experiments.reproduce.cells import read_results
from loglinear.experiments.reproduce.figures import Chart
from loglinear.experiments.reproduce.papers import PAPERS
from loglinear.experiments.table import Row, Table, table_text

FIGURES = "figures"
HEAD = """# Results

The tables of the founding papers, run again. This page is written by `loglinear reproduce report` from the files that
`loglinear reproduce` keeps, never by hand: see [Reproducing](reproducing.md).
"""


def write_report(paths: list[Path], output: Path) -> list[Path]:
    """Write the page, and its figures in a folder beside it; give all files that were written."""
    parts, figures = [HEAD], dict[str, str]()
    for path in paths:
        content = read_results(path)
        if "tables" not in content:
            raise DataError("the run has not come to its end; start it again and it goes on", str(path))
        try:
            text, drawn = _section(content)
        except (KeyError, TypeError, IndexError) as error:
            raise DataError(f"results that cannot be read ({error!r}); run it anew", str(path)) from None
        parts.append(text)
        figures |= drawn
    written = [output]
    with atomic_output(output) as out:
        out.write("\n".join(parts).encode())
    for name, svg in sorted(figures.items()):
        place = output.parent / FIGURES / name
        place.parent.mkdir(parents=True, exist_ok=True)
        with atomic_output(place) as out:
            out.write(svg.encode())
        written.append(place)
    return written


def _section(content: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """What one run says, and its figures by file name."""
    about = content["about"]
    parts = [f"## {PAPERS[about['paper']].title}\n", _about(about, content["cells"])]
    for fields in content["tables"]:
        table = Table(**{**fields, "rows": [Row(**row) for row in fields["rows"]]})
        parts.append(table_text(table))
    figures: dict[str, str] = {}
    for fields in content["charts"]:
        chart = Chart(**fields)
        figures[f"{chart.name}.svg"] = chart.svg()
        parts.append(f"{chart.note}\n\n![{chart.title}]({FIGURES}/{chart.name}.svg)\n")
    return "\n".join(parts), figures


def _about(about: dict[str, Any], cells: dict[str, dict[str, Any]]) -> str:
    """Command, version, seed, machine, date and time."""
    where = about["machine"]
    versions = ", ".join(
        f"{name} {version}" for name, version in where["versions"].items() if name != "python-crfsuite"
    )
    spent = sum(cell.get("seconds", 0.0) for cell in cells.values()) / 60
    return (
        f"`{about['command']}`: {versions}; seed {about['seed']}; {where['cores']} cores of {where['processor']}, "
        f"{where['system']}; {about['date']}. {len(cells):,} trainings, {spent:,.1f} minutes of processor time in "
        f"training, {about['clock_seconds'] / 60:,.1f} minutes on the clock.\n"
    )
