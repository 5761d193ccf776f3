"""``loglinear reproduce``: the papers' comparisons, run again on the corpora that you have."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from loglinear.cli.common import Threads, console, show_table

PAPERS = ("piecewise", "m-estimation")
EXAMPLES = """
[bold]Examples[/bold]

loglinear reproduce piecewise --quick     (half a minute, on the bundled trees)

loglinear reproduce piecewise --data corpora --json piecewise.json

loglinear reproduce m-estimation --data corpora --corpus ptbdep --markdown table.md
"""


def reproduce_command(
    paper: Annotated[str, typer.Argument(metavar="PAPER", help=f"Which paper: {' or '.join(PAPERS)}.")],
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="Folder of the corpora, each in a folder of its own."),
    ] = None,
    corpus: Annotated[
        list[str] | None,
        typer.Option(help="Only this corpus; may be given several times."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small version, on the bundled trees.")] = False,
    json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Keep each cell here; started again, it goes on.")
    ] = None,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the tables here too.")] = None,
    threads: Threads = None,
) -> None:
    """Run a paper's comparison again: parsing (piecewise, Table 2) or dependencies (the m-estimation talk)."""
    from loglinear.data import atomic_output
    from loglinear.errors import OptionError
    from loglinear.experiments.bench.results import machine
    from loglinear.experiments.reproduce.cells import Cells
    from loglinear.experiments.table import markdown as page_of

    if paper not in PAPERS:
        raise OptionError(f"{paper!r} is not one of {', '.join(PAPERS)}")
    if (data is None) != quick:
        raise OptionError("give the corpora's folder (--data DIR), or --quick for the bundled trees, not both")
    out = console()
    cells = Cells(json, lambda text: out.print(text))
    if paper == "piecewise":
        from loglinear.experiments.reproduce import parsing

        found = parsing.tables(data, cells, threads, corpus)
    else:
        from loglinear.experiments.reproduce import dependencies

        found = dependencies.tables(data, cells, threads, corpus)
    for table in found:
        show_table(table, out)
    if markdown is not None:
        with atomic_output(markdown) as file:
            file.write(page_of(found, machine(), " ".join(["loglinear", *sys.argv[1:]])).encode())
