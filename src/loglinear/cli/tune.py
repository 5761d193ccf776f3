"""``loglinear tune``: which options are best for your data."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Annotated

import typer

from loglinear.cli import options as own
from loglinear.cli.common import (
    Comments,
    Format,
    LabelColumn,
    Separator,
    default,
    option,
    show_table,
    wide_console,
    working,
)

EXAMPLES = """
[bold]Examples[/bold]

loglinear tune train.txt --dev dev.txt --template ner --grid l2=0.01,0.1,1 -o best.model

loglinear tune train.txt --dev dev.txt --criterion softmax-margin --grid l2=0.1,1 --grid cost=hamming:1,recall:3

loglinear tune train.txt --folds 5 --grid l2=0.01,0.1,1 --grid template=words,ner --csv table.csv

loglinear tune train.txt --dev dev.txt --criterion mira --grid criterion:C=0.01,0.1,1 --grid max_iter=5,10,20 --jobs 2

loglinear tune large.txt --dev dev.txt --grid l2=0.01,0.1,1 --grid order=1,2 --halving 0.1,0.3,1 --json tuning.json

loglinear tune train.txt --dev dev.txt --grid "criterion=cll;mira:k=5,C=0.1;perceptron" --metric precision
"""
FIXED, RUN, OUT = own.FIXED, own.RUN, own.OUT


def tune_command(
    train: Annotated[str, typer.Argument(metavar="TRAIN", help="Annotated file (also .gz, or - for standard input).")],
    grid: Annotated[
        list[str],
        typer.Option(
            metavar="OPTION=VALUES",
            help="An option of training and its values between commas (semicolons if a value has commas itself); may "
            "be given several times. criterion:C is an option of the criterion, optimizer:memory of the optimizer.",
        ),
    ],
    dev: Annotated[str | None, typer.Option(metavar="FILE", help="Annotated file to judge by.")] = None,
    folds: Annotated[
        int | None, typer.Option(min=2, help="Judge by cross-validation instead, with so many parts.")
    ] = None,
    metric: Annotated[
        str, typer.Option(help="f1, precision, recall, accuracy, sentence-accuracy, or auto: F1 for chunks.")
    ] = "auto",
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="MODEL", help="Keep the best model here.", rich_help_panel=OUT),
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option(
            "--json",
            metavar="FILE",
            help="Keep each cell here as it is finished (models in FILE.models); started again, it goes on.",
            rich_help_panel=OUT,
        ),
    ] = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write the table here.", rich_help_panel=OUT)
    ] = None,
    criterion: Annotated[str, option("criterion", panel=FIXED)] = default("criterion"),
    cost: Annotated[str | None, option("cost", panel=FIXED)] = default("cost"),
    template: own.Template = None,
    order: own.Order = own.ORDER,
    constraints: own.SchemeOrRules = None,
    gazetteer: own.Gazetteers = None,
    min_count: own.MinCount = own.MIN_COUNT,
    l2: Annotated[float | None, option("l2", panel=FIXED)] = default("l2"),
    optimizer: Annotated[str | None, option("optimizer", panel=FIXED)] = default("optimizer"),
    max_iter: own.MaxIter = None,
    tolerance: own.Tolerance = own.TOLERANCE,
    halving: own.Halving = "",
    warm: Annotated[
        bool,
        typer.Option("--warm/--cold", help="Start from the weights of the next stronger penalty.", rich_help_panel=RUN),
    ] = True,
    jobs: own.Jobs = 1,
    threads: own.AllThreads = None,
    seed: own.Seed = own.SEED,
    format: Format = "auto",
    separator: Separator = "auto",
    comments: Comments = "auto",
    label_column: LabelColumn = -1,
    partial: own.Partial = False,
    weights: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File with a weight for each training sentence.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
) -> None:
    """Train with each combination of a grid's values, and keep the best by dev data or cross-validation."""
    from loglinear.cli.common import TuningDisplay
    from loglinear.cli.train import read_constraints, read_weights
    from loglinear.criteria.criterion import CRITERIA
    from loglinear.errors import OptionError
    from loglinear.estimators.tagger.estimator import Tagger
    from loglinear.experiments.tuning.grid import candidates, read_grid
    from loglinear.experiments.tuning.run import tune

    out = wide_console(quiet)
    if (dev is None) == (folds is None):
        both = "" if dev is None else ", not both"
        raise OptionError(f"give --dev FILE to judge by, or --folds N for cross-validation{both}")
    if str(output) == "-":
        raise OptionError("a model is written to a file, not to standard output; name it with -o")
    chosen = read_grid(grid)
    inputs = [train, dev, template, cost, constraints, *(gazetteer or []), weights, *itertools.chain(*chosen.values())]
    own.check_outputs(json, {"--csv": csv, "--output": output}, inputs)
    tagger = Tagger(
        criterion=criterion, cost=cost, optimizer=optimizer, order=order, l2=l2, min_count=min_count,
        constraints=read_constraints(constraints), gazetteers=gazetteer or None, max_iter=max_iter,
        tolerance=tolerance, threads=threads, seed=seed,
    )  # fmt: skip
    candidates(tagger, chosen)  # what makes no sense is said before the files are read
    with working(out, f"reading {train}"):
        corpus, dev_corpus = own.read_all([train, dev], format, separator, comments)
    assert corpus is not None
    counted = not any(CRITERIA.part(spec).learns_weights for spec in chosen.get("criterion", [criterion]))
    if template is not None and "template" in chosen:
        raise OptionError("--template and --grid template=... both say which template; give one")
    if template is not None or not (counted or "template" in chosen):
        tagger = own.prepared(tagger, template, corpus, label_column, partial)
        if template is None and tagger.template is not None:
            out.print(f"template: {tagger.template} (choose with --template)")
    sentence_weights = None if weights is None else read_weights(weights, len(corpus))
    try:
        with TuningDisplay(out) as display:
            result = tune(
                corpus, None, dev_corpus, grid=chosen, tagger=tagger, folds=folds, metric=metric,
                halving=own.numbers("halving", halving) or None, warm=warm, jobs=jobs, sample_weight=sentence_weights,
                label_column=label_column, partial=partial, results=json, observe=display.observe,
            )  # fmt: skip
            if output is not None:
                result.best_model.save(output)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(own.interrupted(json)) from None
    own.write_text(csv, result.to_csv())
    show_table(result.table, out)
    out.print(f"best: {result.best.name}  ({result.metric} {result.best_score:.2f})", markup=False)
    if output is not None:
        out.print(f"model: {output}", markup=False)
