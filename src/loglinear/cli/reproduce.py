"""``loglinear reproduce``: the papers' comparisons, run again on the corpora that you have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from loglinear.cli import options as own
from loglinear.cli.common import console, show_table, wide_console, working

SMALL = "The bundled corpus is small: these figures show that it works, and are not to be held against the published."
app = typer.Typer(
    help="Run the founding papers' tables and figures again, with the published figures beside ours.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _examples(*lines: str) -> str:
    return "\n\n".join(["\n[bold]Examples[/bold]", *lines]) + "\n"


M_ESTIMATION_EXAMPLES = _examples(
    "loglinear reproduce m-estimation --quick     (a minute, on the bundled corpus)",
    "loglinear reproduce m-estimation --data corpora --json m-estimation.json     (goes on if it was stopped)",
    "loglinear reproduce m-estimation --data corpora --corpus ptbdep     (the talk's dependencies)",
)
SOFTMAX_MARGIN_EXAMPLES = _examples(
    "loglinear reproduce softmax-margin --quick",
    "loglinear reproduce softmax-margin --data corpora --json softmax-margin.json",
    "loglinear reproduce softmax-margin --data corpora --corpus ned --markdown dutch.md",
)
PIECEWISE_EXAMPLES = _examples(
    "loglinear reproduce piecewise --quick",
    "loglinear reproduce piecewise --data corpora --json piecewise.json",
    "loglinear reproduce piecewise --data corpora --corpus esp --corpus conll2000     (Table 1 alone)",
)
REPORT_EXAMPLES = _examples(
    "loglinear reproduce report m-estimation.json softmax-margin.json --output docs/results.md",
)
Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Folder that the corpora are looked for under, by their usual file names; fetched ones "
        "(`loglinear data get`) are found without.",
    ),
]
Corpus = Annotated[
    list[str] | None, typer.Option(help="Only this corpus; may be given several times. See the paper's help.")
]
Quick = Annotated[bool, typer.Option("--quick", help="A small version, on the bundled corpus: about a minute.")]
Json = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Keep each cell here; started again, it goes on.")
]
Markdown = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write the tables here too (- for standard output).")
]
Threads = Annotated[
    int | None,
    typer.Option(min=1, help="Trainings at a time, each on one thread; all cores if not given.", show_default=False),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all that is drawn: the tuning sentences, orders.")]


@app.command("m-estimation", epilog=M_ESTIMATION_EXAMPLES)
def m_estimation_command(
    data: Data = None, corpus: Corpus = None, quick: Quick = False, json: Json = None, markdown: Markdown = None,
    threads: Threads = None, seed: Seed = 0,
) -> None:  # fmt: skip
    """Smith, Vail & Lafferty (2007): Tables 1 and 2, input-only features, Figures 1-3, on conll2000.

    With --corpus ptbdep or ewt, the dependencies of its talk.
    """
    _run("m-estimation", data, corpus, quick, json, markdown, threads, seed)


@app.command("softmax-margin", epilog=SOFTMAX_MARGIN_EXAMPLES)
def softmax_margin_command(
    data: Data = None, corpus: Corpus = None, quick: Quick = False, json: Json = None, markdown: Markdown = None,
    threads: Threads = None, seed: Seed = 0,
) -> None:  # fmt: skip
    """Gimpel & Smith (2010): Table 1, entities by every criterion, on eng (CoNLL-2003) if it is there, else esp.

    With --corpus ned, Dutch.
    """
    _run("softmax-margin", data, corpus, quick, json, markdown, threads, seed)


@app.command("piecewise", epilog=PIECEWISE_EXAMPLES)
def piecewise_command(
    data: Data = None, corpus: Corpus = None, quick: Quick = False, json: Json = None, markdown: Markdown = None,
    threads: Threads = None, seed: Seed = 0,
) -> None:  # fmt: skip
    """Sutton & McCallum (2005): Table 1 on eng or esp (entities) and conll2000 (tags), Table 2 on craft and ptb.

    Table 2 is of trees. With --corpus ned, Dutch entities.
    """
    _run("piecewise", data, corpus, quick, json, markdown, threads, seed)


@app.command("report", epilog=REPORT_EXAMPLES)
def report_command(
    results: Annotated[list[Path], typer.Argument(metavar="JSON...", help="Files of finished runs, in their order.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The page, in Markdown.")],
) -> None:
    """Write a page of results from the files of finished runs, with the figures in figures/ beside it."""
    from loglinear.errors import OptionError
    from loglinear.experiments.reproduce.report import write_report

    if str(output) == "-":
        raise OptionError("the page has figures beside it; name a file with -o")
    own.check_outputs(None, {"--output": output}, results)
    out = console()
    for path in write_report(results, output):
        out.print(f"{path} is written")


def _run(
    paper: str,
    data: Path | None,
    corpus: list[str] | None,
    quick: bool,
    json: Path | None,
    markdown: Path | None,
    threads: int | None,
    seed: int,
) -> None:
    import tempfile
    from dataclasses import asdict
    from itertools import chain

    from loglinear.errors import OptionError
    from loglinear.experiments.reproduce.papers import PAPERS, files_for
    from loglinear.experiments.reproduce.tasks import Cells, cell_shape
    from loglinear.experiments.store import Store
    from loglinear.experiments.tables import markdown as page_of
    from loglinear.experiments.workers import Pool
    from loglinear.system import thread_count

    if quick and (data is not None or corpus):
        raise OptionError("--quick is for the bundled corpus; leave out --data and --corpus, or --quick")
    files = {} if quick else files_for(paper, data, corpus or ())
    own.check_outputs(json, {"--markdown": markdown}, chain(*files.values()))
    out = wide_console()
    command = f"loglinear reproduce {paper}" + (" --quick" if quick else "" if data is None else " --data DIR")
    command += "".join(f" --corpus {name}" for name in corpus or ()) + (f" --seed {seed}" if seed else "")
    command += "" if threads is None else f" --threads {threads}"
    mark = {"paper": paper, "quick": quick, "seed": seed}
    try:
        with tempfile.TemporaryDirectory() as scratch, Pool(thread_count(threads)) as pool:
            place = Path(scratch) / "cells.json" if json is None else json
            store = Store(place, "reproduce", mark, cell_shape, command=command)
            cells = Cells(store, pool, lambda text: out.print(text, markup=False))
            with working(out, f"{paper}: {pool.n} at a time ..."):
                tables, charts = PAPERS[paper].make(files, cells, seed)
            for table in tables if quick else []:
                table.notes.append(SMALL)
            store.finish({"tables": [*map(asdict, tables)], "charts": [*map(asdict, charts)]})
    except KeyboardInterrupt:
        raise KeyboardInterrupt(own.interrupted(json)) from None
    for table in tables:
        show_table(table, out)
    own.write_text(markdown, page_of(tables, store.about["machine"], command))
