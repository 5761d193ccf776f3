"""``loglinear tune``: find the best options for your data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from loglinear.cli import common
from loglinear.cli.options import FIXED, GRID, OUT, CorpusOptions, ExperimentOptions, Flags
from loglinear.errors import OptionError
from loglinear.estimators.options import RUN, TaggerOptions
from loglinear.options import READ, WRITTEN, WRITTEN_FILE

TUNED = (
    "criterion", "cost", "template", "structure", "max_length", "segment_features", "order", "constraints",
    "gazetteers", "min_count", "transitions", "pair_features", "l2", "optimizer", "max_iter", "tolerance", "threads",
    "seed",
)  # fmt: skip


def tune_command(
    train: Annotated[
        str, typer.Argument(metavar="TRAIN", help="Annotated file (also .gz, or - for standard input)."), READ
    ],
    grid: Annotated[
        list[str],
        typer.Option(
            metavar="OPTION=VALUES",
            help="An option of training and its values, separated by commas (by semicolons if values contain commas); "
            "may be given several times. criterion:C is an option of the criterion, optimizer:memory of the optimizer.",
        ),
        GRID,
    ],
    model: Annotated[TaggerOptions, Flags(only=TUNED, panel=FIXED)],
    run: ExperimentOptions,
    files: CorpusOptions,
    dev: Annotated[str | None, typer.Option(metavar="FILE", help="Annotated file to judge by."), READ] = None,
    folds: Annotated[
        int | None, typer.Option(min=2, help="Judge by cross-validation instead, with this many parts.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="MODEL", help="Write the best model here.", rich_help_panel=OUT),
        WRITTEN_FILE,
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the table here.", rich_help_panel=OUT), WRITTEN
    ] = None,
    warm: Annotated[
        bool,
        typer.Option("--warm/--cold", help="Start from the weights of the next stronger penalty.", rich_help_panel=RUN),
    ] = True,
) -> None:
    """Train with each combination of a grid's values, and choose the best by dev data or cross-validation.

    Examples
    --------
    loglinear tune train.txt --dev dev.txt --template ner --grid l2=0.01,0.1,1 -o best.model
    loglinear tune train.txt --dev dev.txt --criterion softmax-margin --grid l2=0.1,1 --grid cost=hamming:1,recall:3
    loglinear tune train.txt --folds 5 --grid l2=0.01,0.1,1 --grid template=words,ner --csv table.csv
    loglinear tune train.txt --dev dev.txt --criterion mira --grid criterion:C=0.01,0.1,1 --grid max_iter=5,10 --jobs 2
    loglinear tune large.txt --dev dev.txt --grid l2=0.01,0.1,1 --grid order=1,2 --halving 0.1,0.3,1 --json tuning.json
    loglinear tune train.txt --dev dev.txt --grid l2=0.01,0.1,1 --json tuning.json --cluster tcp://10.0.0.1:8786
    loglinear tune train.txt --dev dev.txt --grid "criterion=cll;mira:k=5,C=0.1;perceptron" --metric precision
    """
    from loglinear.criteria.criterion import CRITERIA
    from loglinear.experiments.tuning.grid import candidates, read_grid
    from loglinear.experiments.tuning.run import tune

    out = common.console(run.quiet, tables=True)
    if (dev is None) == (folds is None):
        both = "" if dev is None else ", not both"
        raise OptionError(f"give --dev FILE to judge by, or --folds N for cross-validation{both}")
    chosen = read_grid(grid)
    tagger = common.tagger_of(model)
    candidates(tagger, chosen)  # a mistake is reported before the files are read
    with common.working(out, f"reading {train}"):
        corpus = files.read(train)
        dev_corpus = None if dev is None else files.read(dev)
    if model.template is not None and "template" in chosen:
        raise OptionError("--template and --grid template=... both say which template; give one")
    learns_weights = any(CRITERIA.part(spec).learns_weights for spec in chosen.get("criterion", [model.criterion]))
    if model.template is not None or (learns_weights and "template" not in chosen):
        common.choose_template(tagger, model.template, corpus, files, out)
    jobs = None if run.jobs == 1 else run.jobs
    with (
        common.resumable(run.json),
        common.pool_on(run.cluster, out, jobs) as pool,
        common.TuningDisplay(out) as display,
    ):
        result = tune(
            corpus, None, dev_corpus, grid=chosen, tagger=tagger, folds=folds, metric=run.metric,
            halving=common.numbers("halving", run.halving) or None, warm=warm, jobs=run.jobs, pool=pool,
            sample_weight=files.sentence_weights(len(corpus)), label_column=files.label_column, partial=files.partial,
            results=run.json, observe=display.observe,
        )  # fmt: skip
        if output is not None:
            result.best_model.save(output)
    common.write_text(csv, result.to_csv())
    common.show_table(result.table, out)
    out.print(f"best: {result.best.name}  ({result.metric} {result.best_score:.2f})")
    if output is not None:
        out.print(f"model: {output}")
