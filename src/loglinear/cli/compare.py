"""``loglinear compare``: find the best criterion for your data."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loglinear.cli import common
from loglinear.cli.options import FIXED, GRID, OUT, CorpusOptions, ExperimentOptions, Flags
from loglinear.errors import OptionError
from loglinear.estimators.options import RUN, TaggerOptions
from loglinear.options import READ, WRITTEN, option, options

if TYPE_CHECKING:
    from loglinear.data import Attributes, Columns
    from loglinear.experiments.comparison.result import ComparisonResult

SPLITS = ("train", "dev", "test")  # of the bundled corpus
QUICK_TASK, QUICK_TEMPLATE, QUICK_SIZES = "chunk", "chunking", "0.1,0.3,1"
COMPARED = (
    "template", "structure", "max_length", "segment_features", "order", "constraints", "gazetteers", "min_count",
    "transitions", "pair_features", "max_iter", "tolerance", "threads", "seed",
)  # fmt: skip


@options
class ComparisonOptions(ExperimentOptions):
    """What is compared, on what, and where the results go."""

    dev: str | None = option("annotated file to tune on", default=None, metavar="FILE", file=READ)
    test: str | None = option("annotated file to compare on", default=None, metavar="FILE", file=READ)
    criteria: str = option(
        "which criteria: all, or names separated by commas (by semicolons if their options contain commas)",
        default="all",
    )
    grid: list[str] | None = option(
        "values to tune over instead of the default ones; see tune",
        default=None,
        metavar="OPTION=VALUES",
        repeats=True,
        file=GRID,
    )
    quick: bool = option("small grids, at most 60 iterations", default=False)
    sizes: str = option("shares of the training sentences, for learning curves: 0.1,0.3,1", default="", panel=RUN)
    draws: int = option("samples of the paired bootstrap", default=10_000, least=1, panel=RUN)
    markdown: Path | None = option("write the tables here", default=None, panel=OUT, metavar="FILE", file=WRITTEN)
    html: Path | None = option(
        "write a page with tables and plots here", default=None, panel=OUT, metavar="FILE", file=WRITTEN
    )


def compare_command(
    model: Annotated[TaggerOptions, Flags(only=COMPARED, panel=FIXED)],
    run: ComparisonOptions,
    files: Annotated[CorpusOptions, Flags(without=("weights",))],
    train: Annotated[
        str | None,
        typer.Argument(metavar="TRAIN", help="Annotated file; with --quick the bundled corpus if left out."),
        READ,
    ] = None,
) -> None:
    """Tune each criterion on dev data, compare them on test data, and test which differences are significant.

    Examples
    --------
    loglinear compare --quick --html report.html     (about a minute, on the bundled corpus)
    loglinear compare train.txt --dev dev.txt --test test.txt --template ner --criteria cll,softmax-margin,perceptron
    loglinear compare train.txt --dev dev.txt --test test.txt --criteria all --json all.json --html all.html --jobs 2
    loglinear compare train.txt --dev dev.txt --test test.txt --criteria all --halving 0.1,0.3,1 --sizes 0.1,0.3,1
    loglinear compare train.txt --dev dev.txt --test test.txt --criteria all --json all.json --cluster local:4
    loglinear compare train.txt --dev dev.txt --test test.txt --criteria "cll;mira:k=5,C=0.1" --grid l2=0.3,1,3
    """
    from loglinear.experiments.comparison.page import score_table, training_table
    from loglinear.experiments.comparison.run import compare, named
    from loglinear.experiments.tuning.grid import read_grid

    out = common.console(run.quiet, tables=True)
    sources = [train, run.dev, run.test]
    bundled = run.quick and not any(sources)
    if not bundled and None in sources:
        raise OptionError("give TRAIN, --dev and --test; --quick alone compares on the bundled corpus")
    named(run.criteria)
    grid = read_grid(run.grid or [])
    shares = common.numbers("sizes", run.sizes or (QUICK_SIZES if bundled else ""))
    tagger = common.tagger_of(model)
    with common.working(out, f"reading {train or 'the bundled corpus'}"):
        corpora: list[Columns | Attributes] = [
            common.bundled_corpus(split, QUICK_TASK) if path is None else files.read(path)
            for split, path in zip(SPLITS, sources, strict=True)
        ]
    common.choose_template(tagger, model.template or (QUICK_TEMPLATE if bundled else None), corpora[0], files, out)
    jobs = None if run.jobs == 1 else run.jobs
    with (
        common.resumable(run.json),
        common.pool_on(run.cluster, out, jobs) as pool,
        common.TuningDisplay(out) as display,
    ):
        result = compare(
            corpora[0], None, corpora[1], None, corpora[2], criteria=run.criteria, tagger=tagger, grid=grid,
            quick=run.quick, sizes=shares, metric=run.metric, halving=common.numbers("halving", run.halving) or None,
            jobs=run.jobs, pool=pool, draws=run.draws, label_column=files.label_column, partial=files.partial,
            results=run.json, observe=display.observe_part,
        )  # fmt: skip
    with common.working(out, "writing"):
        _write(result, run.markdown, run.html)
    for table in (score_table(result), training_table(result)):
        common.show_table(table, out)
    for path in filter(None, (run.markdown, run.html, run.json)):
        out.print(f"written: {path}")


def _write(result: ComparisonResult, markdown: Path | None, html: Path | None) -> None:
    from loglinear.experiments.comparison.page import page, score_table, training_table, type_table
    from loglinear.experiments.store import machine
    from loglinear.experiments.tables import markdown as markdown_of

    command = shlex.join(["loglinear", *sys.argv[1:]])
    if markdown is not None:
        tables = [score_table(result), training_table(result), type_table(result)]
        common.write_text(markdown, markdown_of(tables, machine(), command))
    if html is not None:
        common.write_text(html, page(result, machine(), command))
