"""``loglinear compare``: which criterion is best for your data."""

from __future__ import annotations

import itertools
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loglinear.cli import options as own
from loglinear.cli.common import Comments, Format, LabelColumn, Separator, show_table, wide_console, working

if TYPE_CHECKING:
    from loglinear.data import Attributes, Columns
    from loglinear.experiments.comparison.result import ComparisonResult

EXAMPLES = """
[bold]Examples[/bold]

loglinear compare --quick --html report.html     (about a minute, on the bundled corpus)

loglinear compare train.txt --dev dev.txt --test test.txt --template ner --criteria cll,softmax-margin,perceptron

loglinear compare train.txt --dev dev.txt --test test.txt --criteria all --json all.json --html all.html --jobs 2

loglinear compare train.txt --dev dev.txt --test test.txt --criteria all --halving 0.1,0.3,1 --sizes 0.1,0.3,1

loglinear compare train.txt --dev dev.txt --test test.txt --criteria "cll;mira:k=5,C=0.1" --grid l2=0.3,1,3
"""
OUT, RUN, FIXED = own.OUT, own.RUN, own.FIXED
QUICK_TASK, QUICK_TEMPLATE, QUICK_SIZES = "chunk", "chunking", "0.1,0.3,1"


def compare_command(
    train: Annotated[
        str | None, typer.Argument(metavar="TRAIN", help="Annotated file; with --quick the bundled corpus if left out.")
    ] = None,
    dev: Annotated[str | None, typer.Option(metavar="FILE", help="Annotated file to tune on.")] = None,
    test: Annotated[str | None, typer.Option(metavar="FILE", help="Annotated file to compare on.")] = None,
    criteria: Annotated[
        str, typer.Option(help="all, or criteria between commas (semicolons, if options after them have commas).")
    ] = "all",
    grid: Annotated[
        list[str] | None,
        typer.Option(metavar="OPTION=VALUES", help="Other values to tune over than the default ones; see tune."),
    ] = None,
    metric: Annotated[
        str, typer.Option(help="f1, precision, recall, accuracy, sentence-accuracy, or auto: F1 for chunks.")
    ] = "auto",
    quick: Annotated[bool, typer.Option("--quick", help="Small grids, at most 60 iterations.")] = False,
    sizes: Annotated[
        str, typer.Option(help="Shares of the training sentences, for learning curves: 0.1,0.3,1.", rich_help_panel=RUN)
    ] = "",
    draws: Annotated[int, typer.Option(min=1, help="Samples of the paired bootstrap.", rich_help_panel=RUN)] = 10_000,
    json: Annotated[
        Path | None,
        typer.Option(
            "--json",
            metavar="FILE",
            help="Keep all that is finished here (models in FILE.models); started again, it goes on.",
            rich_help_panel=OUT,
        ),
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Write the tables here.", rich_help_panel=OUT)
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write a page with tables and plots here.", rich_help_panel=OUT),
    ] = None,
    template: own.Template = None,
    order: own.Order = own.ORDER,
    constraints: own.SchemeOrRules = None,
    gazetteer: own.Gazetteers = None,
    min_count: own.MinCount = own.MIN_COUNT,
    max_iter: own.MaxIter = None,
    tolerance: own.Tolerance = own.TOLERANCE,
    halving: own.Halving = "",
    jobs: own.Jobs = 1,
    threads: own.AllThreads = None,
    seed: own.Seed = own.SEED,
    format: Format = "auto",
    separator: Separator = "auto",
    comments: Comments = "auto",
    label_column: LabelColumn = -1,
    partial: own.Partial = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
) -> None:
    """Tune each criterion on dev data, compare them on test data, and say which differences are chance."""
    from loglinear.cli.common import TuningDisplay
    from loglinear.cli.train import read_constraints
    from loglinear.errors import OptionError
    from loglinear.estimators.tagger.estimator import Tagger
    from loglinear.experiments.comparison.run import compare, named
    from loglinear.experiments.tuning.grid import read_grid

    out = wide_console(quiet)
    bundled = quick and train is None and dev is None and test is None
    if not bundled and None in (train, dev, test):
        raise OptionError("give TRAIN, --dev and --test; --quick alone compares on the bundled corpus")
    named(criteria)
    chosen = read_grid(grid or [])
    inputs = [train, dev, test, template, constraints, *(gazetteer or []), *itertools.chain(*chosen.values())]
    own.check_outputs(json, {"--markdown": markdown, "--html": html}, inputs)
    shares = own.numbers("sizes", sizes or (QUICK_SIZES if bundled else ""))
    tagger = Tagger(
        order=order, constraints=read_constraints(constraints), gazetteers=gazetteer or None, min_count=min_count,
        max_iter=max_iter, tolerance=tolerance, threads=threads, seed=seed,
    )  # fmt: skip
    if bundled:
        corpora = _bundled()
        template = template or QUICK_TEMPLATE
    else:
        with working(out, f"reading {train}"):
            corpora = own.read_all([train, dev, test], format, separator, comments)
    assert corpora[0] is not None
    tagger = own.prepared(tagger, template, corpora[0], label_column, partial)
    if template is None and tagger.template is not None:
        out.print(f"template: {tagger.template} (choose with --template)")
    try:
        with TuningDisplay(out) as display:
            result = compare(
                corpora[0], None, corpora[1], None, corpora[2], criteria=criteria, tagger=tagger, grid=chosen,
                quick=quick, sizes=shares, metric=metric, halving=own.numbers("halving", halving) or None, jobs=jobs,
                draws=draws, label_column=label_column, partial=partial, results=json, observe=display.observe_part,
            )  # fmt: skip
    except KeyboardInterrupt:
        raise KeyboardInterrupt(own.interrupted(json)) from None
    with working(out, "writing"):
        _write(result, markdown, html)
    from loglinear.experiments.comparison.page import score_table, training_table

    for table in (score_table(result), training_table(result)):
        show_table(table, out)
    for path in filter(None, (markdown, html, json)):
        out.print(f"written: {path}", markup=False)


def _bundled() -> list[Columns | Attributes | None]:
    """The splits of the bundled corpus."""
    from io import BytesIO

    from loglinear.data import read_columns
    from loglinear.data.corpora.bundled import SPLITS, bundled_text

    return [read_columns(BytesIO(bundled_text(split, QUICK_TASK).encode())) for split in SPLITS]


def _write(result: ComparisonResult, markdown: Path | None, html: Path | None) -> None:
    from loglinear.experiments.comparison.page import page, score_table, training_table, type_table
    from loglinear.experiments.store import machine
    from loglinear.experiments.tables import markdown as markdown_of

    command = shlex.join(["loglinear", *sys.argv[1:]])
    if markdown is not None:
        tables = [score_table(result), training_table(result), type_table(result)]
        own.write_text(markdown, markdown_of(tables, machine(), command))
    if html is not None:
        own.write_text(html, page(result, machine(), command))
