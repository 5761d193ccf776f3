"""``loglinear reproduce``: run the papers' comparisons again on the corpora that you have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from loglinear.cli import files
from loglinear.cli.common import console, pool_on, resumable, show_table, working, write_text
from loglinear.cli.options import add, cluster_option, verbs
from loglinear.errors import OptionError
from loglinear.options import READ, READ_FOLDER, RESULTS, WRITTEN, WRITTEN_FILE, WRITTEN_FOLDER, option, options
from loglinear.system import temporary_folder

SMALL = "The bundled corpus is small: these figures show that it works, and cannot be compared with the published ones."
app = verbs("Run the founding papers' tables and figures again, with the published figures beside ours.")


@options
class RunOptions:
    """On what comparisons are run, and how."""

    data: Path | None = option(
        "folder to search for the corpora, by their usual file names; those of `loglinear data get` are found anyway",
        default=None,
        metavar="DIR",
        file=READ_FOLDER,
    )
    quick: bool = option("a small version, on the bundled corpus: about a minute a paper", default=False)
    threads: int | None = option(
        "trainings at a time, each on one thread; all cores if not given", default=None, least=1
    )
    seed: int = option("first seed of the tuning sentences, and of training", default=0, least=0)
    cluster: str | None = cluster_option("train")
    seeds: int | None = option("seeds to repeat it with; 3 by default, 1 with --quick", default=None, least=1, most=100)


@options
class PaperOptions(RunOptions):
    """On what a paper's comparisons are run, and where they are kept."""

    corpora: list[str] | None = option(
        "only this corpus; see the paper's help",
        default=None,
        flags=("--corpus",),
        repeats=True,
    )
    json: Path | None = option(
        "keep each finished training here; the same command continues from it",
        default=None,
        metavar="FILE",
        file=RESULTS,
    )
    markdown: Path | None = option(
        "write the tables here too (- for standard output)", default=None, metavar="FILE", file=WRITTEN
    )


@options
class RecipeOptions(PaperOptions):
    """The same for a paper whose own way of training takes much longer than ours."""

    recipe: bool = option("the table by the paper's own recipe instead, which takes an hour", default=False)


@options
class AllOptions(RunOptions):
    """On what all papers' comparisons are run, and where they are kept."""

    folder: Path | None = option(
        "keep each finished training in a file for each paper here; the same command continues from them",
        default=None,
        metavar="DIR",
        file=WRITTEN_FOLDER,
    )
    output: Path | None = option(
        "write the page of results here, its figures beside it",
        default=None,
        flags=("-o", "--output"),
        metavar="FILE",
        file=WRITTEN_FILE,
    )


@add(app, "all")
def all_command(asked: AllOptions) -> None:
    """All papers, on all corpora that are there: about three hours on two cores, or a few minutes with --quick.

    Examples
    --------
    loglinear reproduce all --quick
    loglinear reproduce all --data corpora --folder results --cluster tcp://10.0.0.1:8786
    loglinear reproduce all --data corpora --folder results --output results.md     (continues if it was stopped)
    """
    from loglinear.experiments.reproduce.papers import PAPERS, available

    with temporary_folder() as scratch:
        folder = scratch if asked.folder is None else asked.folder
        folder.mkdir(parents=True, exist_ok=True)
        kept = [folder / f"{paper}.json" for paper in PAPERS]
        files.check(
            [
                *(files.Named("--folder", str(path), RESULTS) for path in kept),
                *files.named("--output", WRITTEN_FILE, asked.output),
            ]
        )
        for paper, place in zip(PAPERS, kept, strict=True):
            corpora = None if asked.quick else available(paper, asked.data)
            shared = {name: getattr(asked, name) for name in ("data", "quick", "threads", "seed", "seeds", "cluster")}
            paper_options = PaperOptions(**shared, corpora=corpora, json=place, markdown=None)
            _run(paper, paper_options)
        if asked.output is not None:
            _write_page(kept, asked.output)


@add(app, "m-estimation")
def m_estimation_command(asked: PaperOptions) -> None:
    """Smith, Vail & Lafferty (2007): Tables 1 and 2, input-only features, Figures 1-3, on conll2000.

    With --corpus ptbdep or ewt, the dependencies of its talk.

    Examples
    --------
    loglinear reproduce m-estimation --quick     (a minute, on the bundled corpus)
    loglinear reproduce m-estimation --data corpora --json m-estimation.json     (continues if it was stopped)
    loglinear reproduce m-estimation --data corpora --corpus ptbdep     (the talk's dependencies)
    """
    _run("m-estimation", asked)


@add(app, "softmax-margin")
def softmax_margin_command(asked: RecipeOptions) -> None:
    """Gimpel & Smith (2010): Table 1, entities by every criterion, on eng (CoNLL-2003) if it is there, else esp.

    With --corpus ned, Dutch. With --recipe, by 100 passes of stochastic steps, as the paper has it; keep it in a file
    of its own.

    Examples
    --------
    loglinear reproduce softmax-margin --quick
    loglinear reproduce softmax-margin --data corpora --json softmax-margin.json
    loglinear reproduce softmax-margin --data corpora --corpus ned --markdown dutch.md
    """
    _run("softmax-margin" + ("-recipe" if asked.recipe else ""), asked)


@add(app, "piecewise")
def piecewise_command(asked: PaperOptions) -> None:
    """Sutton & McCallum (2005): Table 1 on eng or esp (entities) and conll2000 (tags), 2 on craft, ptb, gum (trees).

    With --corpus ned, Dutch entities.

    Examples
    --------
    loglinear reproduce piecewise --quick
    loglinear reproduce piecewise --data corpora --json piecewise.json
    loglinear reproduce piecewise --data corpora --corpus esp --corpus conll2000     (Table 1 alone)
    """
    _run("piecewise", asked)


@add(app, "report")
def report_command(
    results: Annotated[
        list[Path], typer.Argument(metavar="JSON...", help="Files of finished runs, in their order."), READ
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="The page, in Markdown."), WRITTEN_FILE
    ],
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the page's sections that these runs do not replace.")
    ] = False,
) -> None:
    """Write a page of results from the files of finished runs, with the figures in figures/ beside it.

    Examples
    --------
    loglinear reproduce report m-estimation.json softmax-margin.json --output docs/results.md
    loglinear reproduce report piecewise.json --output docs/results.md --keep     (the others as they were)
    """
    _write_page(results, output, keep)


def _write_page(results: list[Path], output: Path, keep: bool = False) -> None:
    from loglinear.experiments.reproduce.report import write_report

    out = console()
    for path in write_report(results, output, keep):
        out.print(f"written: {path}")


def _run(paper: str, asked: PaperOptions) -> None:
    from dataclasses import asdict
    from itertools import chain

    from loglinear.experiments.pools.processes import ProcessPool
    from loglinear.experiments.reproduce.papers import PAPERS, files_for
    from loglinear.experiments.reproduce.tasks import Cells, cell_shape
    from loglinear.experiments.store import Store
    from loglinear.experiments.tables import markdown as page_of
    from loglinear.system import thread_count

    quick, json, corpora = asked.quick, asked.json, asked.corpora or []
    if quick and (asked.data is not None or corpora):
        raise OptionError("--quick is for the bundled corpus; leave out --data and --corpus, or --quick")
    found = {} if quick else files_for(paper, asked.data, corpora)
    outputs = (("--json", RESULTS, json), ("--markdown", WRITTEN, asked.markdown))
    files.check(
        each for name, file, value in (("", READ, [*chain(*found.values())]), *outputs)
        for each in files.named(name, file, value)
    )  # fmt: skip
    out = console(tables=True)
    command = f"loglinear reproduce {paper.replace('-recipe', ' --recipe')}"
    command += " --quick" if quick else "" if asked.data is None else " --data DIR"
    n_seeds = asked.seeds or (1 if quick else 3)
    command += "".join(f" --corpus {name}" for name in corpora) + (f" --seed {asked.seed}" if asked.seed else "")
    command += "" if asked.seeds is None else f" --seeds {n_seeds}"
    command += "" if asked.threads is None else f" --threads {asked.threads}"
    mark = {"paper": paper, "quick": quick, "seed": asked.seed}
    with (
        resumable(json),
        temporary_folder() as scratch,
        pool_on(asked.cluster, out, asked.threads, "--threads") as cluster,
        cluster or ProcessPool(thread_count(asked.threads)) as pool,
    ):
        place = scratch / "cells.json" if json is None else json
        store = Store(place, "reproduce", mark, cell_shape, command=command)
        cells = Cells(store, pool, lambda text: out.print(text))
        with working(out, f"{paper}: {pool.places} at a time ..."):
            tables, charts = PAPERS[paper].make(found, cells, asked.seed, n_seeds)
        for table in tables if quick else []:
            table.notes.append(SMALL)
        store.finish({"tables": [*map(asdict, tables)], "charts": [*map(asdict, charts)]})
    for table in tables:
        show_table(table, out)
    write_text(asked.markdown, page_of(tables, store.about["machine"], command))
