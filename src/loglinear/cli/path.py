"""``loglinear path``: training and test error as the penalty grows, and the penalty to choose."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loglinear.cli.common import (
    Comments,
    LabelColumn,
    Separator,
    Threads,
    console,
    default,
    option,
    show_table,
    working,
)
from loglinear.cli.options import (
    CategoryColumns,
    Ignored,
    Label,
    NumberColumns,
    RawNumbers,
    TextColumns,
    Words,
    interrupted,
    kinds_of,
)

if TYPE_CHECKING:
    from loglinear.data import Attributes, Columns
    from loglinear.estimators.tagger.estimator import Tagger

MODEL, RUN, OUTPUT = "The model", "The run", "Output"
BUNDLED = {"pos": "pos", "chunk": "chunking", "ner": "ner"}
EXAMPLES = """
[bold]Examples[/bold]

loglinear path --bundled chunk --plot path.svg   (the corpus that comes with the package)

loglinear path train.txt --test dev.txt --template chunking --plot path.svg

loglinear path train.txt --folds 5 --grid 0.01,0.1,1,10 --csv path.csv -o best.model

loglinear path reviews.csv --label stars --criterion max-margin --folds 10   (a table: a classifier)
"""


def path_command(
    train: Annotated[
        str | None,
        typer.Argument(metavar="TRAIN", help="Annotated file; with --label a table (CSV, TSV, JSON Lines)."),
    ] = None,
    test: Annotated[
        str | None, typer.Option(metavar="FILE", help="Data for the test error; without it, cross-validation.")
    ] = None,
    folds: Annotated[
        int | None, typer.Option(min=2, help="Parts for cross-validation (5 if not given).", show_default=False)
    ] = None,
    bundled: Annotated[
        str | None, typer.Option(metavar="TASK", help="Use the bundled corpus instead: pos, chunk or ner.")
    ] = None,
    grid: Annotated[
        str | None,
        typer.Option(metavar="L2,L2,...", help="The penalties; 15 from 0.0001 to 1000 if not given."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="Draw both errors over the penalty.", rich_help_panel=OUTPUT)
    ] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="The table as CSV.", rich_help_panel=OUTPUT)] = None,
    json: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The table as JSON. Each training's errors are kept there as it is finished (models in FILE.models); "
            "started again, it goes on.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="MODEL",
            help="Train with the chosen penalty on all of TRAIN, and write it.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    choose: Annotated[
        str,
        typer.Option(
            help="Which penalty the model gets: best, or 1se (the greatest within a standard error of it).",
            rich_help_panel=OUTPUT,
        ),
    ] = "best",
    template: Annotated[
        str | None,
        typer.Option(metavar="FILE|NAME", help="Template of a tagger, as for train.", rich_help_panel=MODEL),
    ] = None,
    criterion: Annotated[str, option("criterion", panel=MODEL)] = default("criterion"),
    cost: Annotated[str | None, option("cost", panel=MODEL)] = default("cost"),
    order: Annotated[int, option("order", panel=MODEL)] = default("order"),
    constraints: Annotated[str | None, option("constraints", panel=MODEL)] = default("constraints"),
    min_count: Annotated[int, option("min_count", panel=MODEL)] = default("min_count"),
    l1: Annotated[float, option("l1", panel=MODEL)] = default("l1"),
    optimizer: Annotated[str | None, option("optimizer", panel=RUN)] = default("optimizer"),
    max_iter: Annotated[int | None, option("max_iter", panel=RUN)] = default("max_iter"),
    tolerance: Annotated[float, option("tolerance", panel=RUN)] = default("tolerance"),
    seed: Annotated[int, option("seed", panel=RUN)] = default("seed"),
    threads: Threads = None,
    label: Label = None,
    number: NumberColumns = None,
    category: CategoryColumns = None,
    text: TextColumns = None,
    ignore: Ignored = None,
    words: Words = "words",
    raw_numbers: RawNumbers = False,
    format: Annotated[str, typer.Option("--format", help="Format of the files; auto goes by their names.")] = "auto",
    separator: Separator = "auto",
    comments: Comments = "auto",
    label_column: LabelColumn = -1,
) -> None:
    """Errors over a grid of L2 penalties: what regularisation does, and how much of it is best."""
    from loglinear.cli.train import check_place
    from loglinear.errors import OptionError

    if choose not in ("best", "1se"):
        raise OptionError(f"--choose {choose!r}: choose best or 1se")
    if (train is None) == (bundled is None):
        raise OptionError("give an annotated file (TRAIN), or --bundled TASK for the corpus that comes with loglinear")
    if test is not None and folds is not None:
        raise OptionError("--test and --folds are two ways to measure the test error; give one")
    if bundled is not None and (test is not None or folds is not None):
        raise OptionError("--bundled has its own data to test on; leave out --test and --folds")
    for place in (plot, csv, json):
        if place is not None and str(place) != "-":
            check_place(place)
    if output is not None:
        check_place(output)
    shared = {
        "criterion": criterion, "cost": cost, "min_count": min_count, "l1": l1, "optimizer": optimizer,
        "max_iter": max_iter, "tolerance": tolerance, "seed": seed, "threads": threads,
    }  # fmt: skip
    if label is not None:
        if bundled is not None or template is not None or order != default("order") or constraints is not None:
            raise OptionError("--label is of a table; --bundled, --template, --order and --constraints are of taggers")
        if label_column != -1 or separator != "auto" or comments != "auto":
            raise OptionError("--label is of a table; --label-column, --separator and --comments are of column files")
        kinds = kinds_of(number, category, text, label)
        found = _table_problem(str(train), test, format, label, ignore, kinds, words, raw_numbers, shared)
    else:
        if number or category or text or ignore or raw_numbers or words != "words":
            raise OptionError(
                "--number, --category, --text, --ignore, --words and --raw-numbers are of tables; name the labels with "
                "--label"
            )
        options = {**shared, "order": order, "constraints": constraints}
        found = _tagger_problem(train, test, bundled, template, options, label_column, format, separator, comments)
    _run(*found, grid, folds, seed, plot, csv, json, output, choose, label)


def _table_problem(
    train: str,
    test: str | None,
    format: str,
    label: str,
    ignored: list[str] | None,
    kinds: dict[str, str],
    words: str,
    raw_numbers: bool,
    options: dict[str, Any],
) -> tuple[Any, tuple[Any, Any], tuple[Any, Any] | None]:
    """A classifier, its training data and, if there is any, its test data."""
    from loglinear.data.tables import read_table
    from loglinear.estimators.classifier.estimator import Classifier
    from loglinear.estimators.classifier.problem import split_labels

    classifier = Classifier(kinds=kinds or None, text=words, raw_numbers=raw_numbers, **options)
    tables = [read_table(source, format).without(ignored or []) for source in (train, test) if source is not None]
    data, *others = (split_labels(table, None, label) for table in tables)
    return classifier, data, others[0] if others else None


def _tagger_problem(
    train: str | None,
    test: str | None,
    bundled: str | None,
    template: str | None,
    options: dict[str, Any],
    label_column: int,
    format: str,
    separator: str,
    comments: str,
) -> tuple[Tagger, tuple[Any, Any], tuple[Any, Any] | None]:
    """A tagger, its training data and, if there is any, its test data."""
    from loglinear.cli.common import read_corpus
    from loglinear.cli.train import chosen_template
    from loglinear.estimators.tagger.estimator import Tagger

    tagger = Tagger(**options)
    tagger.check_options()
    if train is None:
        assert bundled is not None
        tagger.template = template or BUNDLED.get(bundled)
        return tagger, (_bundled("train", bundled), None), (_bundled("dev", bundled), None)
    corpus = read_corpus(train, format, separator, comments, layout=False)
    tagger.template = chosen_template(template, corpus, label_column)
    data = _labelled(corpus, label_column)
    if test is None:
        return tagger, data, None
    return tagger, data, _labelled(read_corpus(test, format, separator, comments, layout=False), label_column)


def _labelled(corpus: Columns | Attributes, label_column: int) -> tuple[Any, Any]:
    """A corpus, and its labels if they are not in the last column."""
    from loglinear.data import Columns

    return corpus, corpus.labels(label_column) if isinstance(corpus, Columns) and label_column != -1 else None


def _bundled(split: str, task: str) -> Columns:
    from io import BytesIO

    from loglinear.data import read_columns
    from loglinear.data.corpora.bundled import bundled_text
    from loglinear.errors import OptionError

    if task not in BUNDLED:
        raise OptionError(f"--bundled {task!r}: choose one of {', '.join(BUNDLED)}")
    return read_columns(BytesIO(bundled_text(split, task).encode()))


def _run(
    estimator: Any,
    data: tuple[Any, Any],
    held_out: tuple[Any, Any] | None,
    grid: str | None,
    folds: int | None,
    seed: int,
    plot: Path | None,
    csv: Path | None,
    json: Path | None,
    output: Path | None,
    choose: str,
    label: str | None,
) -> None:
    from json import dumps

    from loglinear.data import atomic_output
    from loglinear.data.tables import write_table
    from loglinear.experiments.path import GRID, regularisation_path

    out = console()
    X_test, y_test = (None, None) if held_out is None else held_out
    penalties = GRID if grid is None else _numbers(grid)
    results = None if str(json) == "-" else json
    try:
        with working(out, "training along the path") as said:
            path = regularisation_path(
                estimator, *data, l2=penalties, X_test=X_test, y_test=y_test, folds=folds, seed=seed, results=results,
                observe=lambda done, total, l2: said(f"{done} of {total} trainings, l2 {l2:g}"),
            )  # fmt: skip
    except KeyboardInterrupt:
        raise KeyboardInterrupt(interrupted(results)) from None
    show_table(path.table(), out)
    out.print(f"best l2 {path.best:g}; the greatest within a standard error of it {path.one_standard_error:g}")
    if path.best in (path.l2[0], path.l2[-1]) and len(path.l2) > 1:
        where = "smallest" if path.best == path.l2[0] else "greatest"
        out.print(f"the best is the {where} of the grid: there may be better ones beyond it (--grid)")
    if plot is not None:
        with atomic_output(plot) as file:
            file.write(path.chart().encode())
    if csv is not None:
        names = ("l2", "train_error", "test_error", "standard_error")
        with atomic_output(csv) as file:
            write_table({name: getattr(path, name).tolist() for name in names}, file)
    if str(json) == "-":
        with atomic_output("-") as file:
            file.write((dumps(path.to_dict(), indent=1) + "\n").encode())
    if output is not None:
        chosen = path.best if choose == "best" else path.one_standard_error
        with working(out, f"training with l2 {chosen:g}"):
            X, y = data
            estimator.set_params(l2=chosen).fit(X, y)
            if label is not None:
                estimator.label_column_ = label
        estimator.save(output)
        out.print(f"model      {output}, trained with l2 {chosen:g} on all of the training data")


def _numbers(text: str) -> list[float]:
    """Numbers between commas."""
    from loglinear.errors import OptionError

    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise OptionError(f"--grid {text!r}: give numbers with commas between them, as in 0.01,0.1,1") from None
