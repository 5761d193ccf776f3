"""``loglinear classify``: train, use and judge classifiers of the rows of a table."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loglinear.cli.common import Threads, console, default, option, working
from loglinear.cli.options import (
    CategoryColumns,
    Ignored,
    Label,
    NumberColumns,
    RawNumbers,
    TableFormat,
    TextColumns,
    Words,
    kinds_of,
)

if TYPE_CHECKING:
    from loglinear.data.tables import TableFile
    from loglinear.estimators.classifier.estimator import Classifier

EXAMPLES = """
[bold]Examples[/bold]

loglinear classify train reviews.csv --label stars -o stars.model

loglinear classify run stars.model new.csv > labelled.csv

loglinear classify eval stars.model test.csv
"""
TRAIN = """
[bold]Examples[/bold]

loglinear classify train reviews.csv --label stars --text review --words words:ngrams=2 -o stars.model

loglinear classify train mail.jsonl --label spam --criterion max-margin --l2 0.1 -o spam.model

loglinear classify train mail.tsv --label spam --criterion softmax-margin --cost balanced --dev dev.tsv -o spam.model

loglinear classify train patients.csv --label ill --ignore name --multiclass one-versus-all -o ill.model

loglinear classify train mail.jsonl --label spam -o spam.model --resume   (after Ctrl-C)
"""
RUN = """
[bold]Examples[/bold]

loglinear classify run stars.model new.csv -o labelled.csv

loglinear classify run stars.model new.jsonl --probabilities > labelled.jsonl
"""
EVAL = """
[bold]Examples[/bold]

loglinear classify eval stars.model test.csv

loglinear classify eval stars.model test.csv --json --plot confusion.svg
"""
MODEL, FITTING = "The model", "The run"
app = typer.Typer(
    help="Train, use and judge classifiers of the rows of a table (CSV, TSV, JSON Lines).",
    no_args_is_help=True,
    epilog=EXAMPLES,
)


@app.command("train", epilog=TRAIN)
def train_command(
    train: Annotated[str, typer.Argument(metavar="TABLE", help="CSV, TSV or JSON Lines (also .gz, or -).")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="MODEL", help="Model file to write.")],
    label: Label = None,
    dev: Annotated[str | None, typer.Option(metavar="FILE", help="Table to stop early by.")] = None,
    number: NumberColumns = None,
    category: CategoryColumns = None,
    text: TextColumns = None,
    ignore: Ignored = None,
    words: Words = "words",
    raw_numbers: RawNumbers = False,
    criterion: Annotated[str, option("criterion", panel=MODEL)] = default("criterion"),
    cost: Annotated[str | None, option("cost", panel=MODEL)] = default("cost"),
    multiclass: Annotated[
        str,
        typer.Option(help="Several labels: direct, or one-versus-all.", rich_help_panel=MODEL),
    ] = "direct",
    bias: Annotated[
        str,
        typer.Option(help="The bias: free (not penalised), penalised or none.", rich_help_panel=MODEL),
    ] = "free",
    min_count: Annotated[int, option("min_count", panel=MODEL)] = default("min_count"),
    l1: Annotated[float, option("l1", panel=MODEL)] = default("l1"),
    l2: Annotated[float | None, option("l2", panel=MODEL)] = default("l2"),
    variance: Annotated[float | None, option("variance", panel=MODEL)] = default("variance"),
    class_weight: Annotated[
        str | None,
        typer.Option(
            metavar="balanced", help="Weigh the labels inversely to how often they are.", rich_help_panel=MODEL
        ),
    ] = None,
    optimizer: Annotated[str | None, option("optimizer", panel=FITTING)] = default("optimizer"),
    max_iter: Annotated[int | None, option("max_iter", panel=FITTING)] = default("max_iter"),
    tolerance: Annotated[
        float,
        typer.Option(
            min=0.0,
            help="Stop when 10 iterations of lbfgs lower the objective by less than this share, or dual has primal and "
            "dual within it.",
            rich_help_panel=FITTING,
        ),
    ] = default("tolerance"),
    threads: Annotated[int | None, option("threads", panel=FITTING)] = default("threads"),
    seed: Annotated[int, option("seed", panel=FITTING)] = default("seed"),
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from MODEL.checkpoint if it is there.", rich_help_panel=FITTING)
    ] = False,
    format: TableFormat = "auto",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
) -> None:
    """Train a classifier on a table with a column of labels, and write a model file."""
    from loglinear.cli.train import check_place
    from loglinear.data.tables import read_table
    from loglinear.errors import OptionError
    from loglinear.estimators.classifier.estimator import Classifier
    from loglinear.estimators.options import check_classifier
    from loglinear.training.run import TrainingInterrupted

    if label is None:
        raise OptionError("name the column of the labels: --label COLUMN")
    if class_weight not in (None, "balanced"):
        raise OptionError(f"--class-weight {class_weight!r}: there is balanced")
    check_place(output)
    checkpoint = output.with_name(output.name + ".checkpoint")
    if checkpoint.exists() and not resume:
        raise OptionError(f"{checkpoint} is of a training that did not end; go on with --resume, or remove it")
    out = console()
    out.quiet = quiet
    classifier = Classifier(
        criterion=criterion, cost=cost, multiclass=multiclass, bias=bias, min_count=min_count, l1=l1, l2=l2,
        variance=variance, class_weight=class_weight, optimizer=optimizer, max_iter=max_iter, tolerance=tolerance,
        threads=threads, seed=seed, kinds=kinds_of(number, category, text, label) or None, text=words,
        raw_numbers=raw_numbers,
    )  # fmt: skip
    check_classifier(classifier)
    with working(out, f"reading {train}"):
        table = read_table(train, format).without(ignore or [])
        held_out = None if dev is None else read_table(dev, format)
    try:
        with working(out, f"training on {table.n_rows:,} rows") as said:
            classifier.fit(
                table, X_dev=held_out, checkpoint=checkpoint, resume=resume, label_column=label,
                observe=lambda now: said(f"iteration {now.iteration}  objective {now.objective:,.2f}"),
            )  # fmt: skip
    except TrainingInterrupted as interruption:
        typer.echo(f"loglinear: {interruption}", err=True)
        raise typer.Exit(130) from None
    classifier.save(output)
    checkpoint.unlink(missing_ok=True)
    kinds = ", ".join(f"{name} ({kind})" for name, kind in (classifier.kinds_ or {}).items())
    out.print(f"data       {table.n_rows:,} rows, {len(classifier.classes_)} labels; {kinds}")
    out.print(f"features   {classifier.n_features_in_:,}")
    out.print(f"training   {classifier.message_}; {classifier.seconds_:.1f} s")
    if classifier.dev_score_ is not None:
        out.print(f"dev score  {100 * classifier.dev_score_:.2f} % right at iteration {classifier.best_iteration_}")
    out.print(f"model      {output} ({output.stat().st_size / 1e6:.1f} MB)")
    out.print(f"next       loglinear classify eval {output} TEST;  loglinear inspect {output}")


@app.command("run", epilog=RUN)
def run_command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file.")],
    table: Annotated[str, typer.Argument(metavar="TABLE", help="CSV, TSV or JSON Lines (also .gz, or -).")] = "-",
    output: Annotated[str, typer.Option("-o", "--output", help="Where to write; - is standard output.")] = "-",
    column: Annotated[
        str, typer.Option(help="Name of the column of predicted labels; that of its probability ends in _probability.")
    ] = "predicted",
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="The probability of every label too, a column each.")
    ] = False,
    threads: Threads = None,
    format: TableFormat = "auto",
) -> None:
    """Label the rows of a table: the same table with the label, and how probable it is."""
    from loglinear.data import atomic_output
    from loglinear.data.tables import read_table, table_format_of, write_table
    from loglinear.errors import OptionError

    classifier = _loaded(model, threads)
    rows = read_table(table, format)
    labels, chances = _predicted(classifier, rows)
    made: dict[str, Any] = {column: labels}
    if chances is not None:
        made[f"{column}_probability"] = chances.max(axis=1).tolist()
        if probabilities:
            made |= {f"p({name})": chances[:, i].tolist() for i, name in enumerate(classifier.classes_)}
    elif probabilities:
        raise OptionError(f"models of {classifier.criterion} have no probabilities")
    for name in made:
        if name in rows.columns:
            raise OptionError(f"the table has a column {name!r} already; choose another name with --column")
    chosen = table_format_of(table) if format == "auto" else format
    with atomic_output(output) as out:
        write_table({**rows.columns, **made}, out, chosen)


@app.command("eval", epilog=EVAL)
def eval_command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file.")],
    table: Annotated[str, typer.Argument(metavar="TABLE", help="Table with labels (also .gz, or -).")],
    label: Label = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    plot: Annotated[Path | None, typer.Option(metavar="FILE.svg", help="Draw the confusion matrix.")] = None,
    threads: Threads = None,
    format: TableFormat = "auto",
) -> None:
    """Compare a model's labels with those of a table: accuracy, and the score of each label."""
    import json as json_module

    import numpy as np

    from loglinear.cli.train import check_place
    from loglinear.data import atomic_output
    from loglinear.data.tables import read_table
    from loglinear.errors import OptionError
    from loglinear.evaluation.labels import accuracy_report
    from loglinear.experiments.charts import table_chart

    if plot is not None:
        check_place(plot)
    classifier = _loaded(model, threads)
    rows = read_table(table, format)
    named = label or classifier.label_column_
    if named is None:
        raise OptionError(f"{model} does not say which column holds the labels; name it with --label")
    truth = rows.column(named)
    began = time.perf_counter()
    labels, chances = _predicted(classifier, rows)
    seconds = time.perf_counter() - began
    report = accuracy_report([truth], [labels])
    macro = float(np.mean([score.f1 for score in report.labels.values()]))
    known = {name: i for i, name in enumerate(classifier.classes_)}
    log_loss, unknown = None, sorted({*truth} - {*known})
    if chances is not None and not unknown:
        own = chances[np.arange(len(truth)), [known[name] for name in truth]]
        log_loss = float(-np.mean(np.log(np.maximum(own, np.finfo(np.float64).tiny))))
    if plot is not None:
        names = sorted({*truth, *labels})
        place = {name: i for i, name in enumerate(names)}
        counts = np.zeros((len(names), len(names)))
        np.add.at(counts, ([place[name] for name in truth], [place[name] for name in labels]), 1)
        with atomic_output(plot) as out:
            out.write(table_chart("Confusion", names, names, counts, "predicted", "gold").encode())
    if json:
        found = report.to_dict()
        found["rows"] = found.pop("tokens")
        found |= {"macro_f1": macro, "log_loss": log_loss, "seconds": seconds}
        typer.echo(json_module.dumps(found, ensure_ascii=False, indent=2))
        return
    typer.echo(report.text().replace(" tokens;", " rows;", 1), nl=False)
    typer.echo(f"macro F1: {macro:6.2f}" + ("" if log_loss is None else f"; log loss: {log_loss:.4f}"))
    if unknown:
        typer.echo(f"no log loss: the model does not know the label {unknown[0]!r}")


def _loaded(model: Path, threads: int | None) -> Classifier:
    from loglinear.errors import OptionError
    from loglinear.estimators.classifier.estimator import Classifier

    classifier = Classifier.load(model)
    if classifier.kinds_ is None:
        raise OptionError(f"{model} was trained in Python, not on a table; use it from there")
    classifier.threads = threads
    return classifier


def _predicted(classifier: Classifier, table: TableFile) -> tuple[list[str], Any]:
    """Labels, and the probabilities [N, Y] if the model has any."""
    import numpy as np

    if not hasattr(classifier, "predict_proba"):
        return [str(label) for label in classifier.predict(table)], None
    chances = classifier.predict_proba(table)
    return [str(label) for label in np.asarray(classifier.classes_)[chances.argmax(axis=1)]], chances
