"""``loglinear classify``: train, use and judge classifiers of the rows of a table."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loglinear.cli.common import (
    check_training,
    console,
    fit,
    read_template,
    save,
    say,
    show_differences,
    show_lines,
    showing_warnings,
    summarise,
    tagger_of,
    working,
    write_text,
    written,
)
from loglinear.cli.options import (
    AGAINST,
    AgainstOptions,
    CorpusOptions,
    FitOptions,
    Flags,
    Given,
    ModelFile,
    ModelOutput,
    Output,
    PrintJson,
    Quiet,
    TableOptions,
    Threads,
    add,
    flag,
    verbs,
)
from loglinear.errors import DataError, ModelKindError, OptionError
from loglinear.estimators.options import NAIVE_BAYES, ClassifierOptions, TaggerOptions
from loglinear.options import READ, WRITTEN_CHART, spec_name
from loglinear.wording import how_many

if TYPE_CHECKING:
    from loglinear.arrays import Float
    from loglinear.data import Columns
    from loglinear.estimators.classifier.estimator import Classifier
    from loglinear.estimators.tagger.hmm import InputClassifier
    from loglinear.evaluation.labels import LabelReport

Format = Annotated[str, flag(TableOptions, "format")]
OF_SEQUENCES = (
    "criterion",
    "order",
    "template",
    "min_count",
    "l2",
    "variance",
    "max_iter",
    "constraints",
    "base",
    "seed",
    "threads",
)  # options of the taggers that classify sequences
app = verbs(
    "Train, use and judge classifiers of the rows of a table (CSV, TSV, JSON Lines).",
    "loglinear classify train reviews.csv --label stars -o stars.model",
    "loglinear classify train-sequences questions.txt --label kind -o kinds.model",
    "loglinear classify run stars.model new.csv > labelled.csv",
    "loglinear classify eval stars.model test.csv",
)


@add(app, "train")
def train_command(
    train: Annotated[str, typer.Argument(metavar="TABLE", help="CSV, TSV or JSON Lines (also .gz, or -)."), READ],
    output: ModelOutput,
    model: ClassifierOptions,
    run: Annotated[FitOptions, Flags(help={"dev": "table to stop early by"})],
    rows: TableOptions,
) -> None:
    """Train a classifier on a table with a column of labels, and write a model file.

    Examples
    --------
    loglinear classify train reviews.csv --label stars --text review --words words:ngrams=2 -o stars.model
    loglinear classify train mail.jsonl --label spam --criterion max-margin --l2 0.1 -o spam.model
    loglinear classify train mail.jsonl --label spam --text body --criterion naive-bayes:smoothing=0.5 -o spam.model
    loglinear classify train mail.tsv --label spam --criterion softmax-margin --cost balanced --dev dev.tsv -o m.model
    loglinear classify train rings.csv --label ring --criterion max-margin --kernel rbf:gamma=0.5 -o rings.model
    loglinear classify train patients.csv --label ill --ignore name --multiclass one-versus-all -o ill.model
    loglinear classify train mail.jsonl --label spam -o spam.model --resume   (after Ctrl-C)
    """
    from loglinear.estimators.classifier.estimator import Classifier
    from loglinear.estimators.options import check_classifier

    if rows.label is None:
        raise OptionError("name the column of the labels: --label COLUMN")
    out = console(run.quiet)
    classifier = Classifier(**{**vars(model), "kinds": rows.kinds()})
    check_classifier(classifier)
    if run.resume and spec_name(model.criterion) == NAIVE_BAYES:
        raise OptionError(f"--resume: criterion {model.criterion!r} counts, in one go; leave it out")
    check_training(output, run)
    with working(out, f"reading {train}"):
        table = rows.read(train)
        dev = None if run.dev is None else rows.read(run.dev, whole=True)
    fit(classifier, table, run, out, output=output, metric="accuracy", X_dev=dev, label_column=rows.label)
    save(classifier, output)
    kinds = ", ".join(f"{name} ({kind})" for name, kind in (classifier.kinds_ or {}).items())
    summarise(
        classifier, out, output,
        data=f"{how_many(table.n_rows, 'row')}, {how_many(len(classifier.classes_), 'label')}; {kinds}",
        features=f"{classifier.n_features_in_:,}{_support(classifier)}",
        metric=" % right",
        following="loglinear classify eval MODEL TEST;  loglinear inspect MODEL",
    )  # fmt: skip


@add(app, "train-sequences")
def train_sequences_command(
    train: Annotated[
        str, typer.Argument(metavar="FILE", help="Column file, JSON Lines or text of sequences (also .gz, or -)."), READ
    ],
    output: ModelOutput,
    model: Annotated[TaggerOptions, Flags(only=OF_SEQUENCES, defaults={"criterion": "hmm"})],
    files: Annotated[CorpusOptions, Flags(only=("format", "separator", "comments", "weights"))],
    label: Annotated[
        str,
        typer.Option(
            help="Where the class of a sequence is: the key of JSON Lines, or # KEY = NAME comments before it."
        ),
    ] = "class",
    labelled: Annotated[
        bool, typer.Option("--labelled", help="The last column holds labels of the tokens, the states of hmm.")
    ] = False,
    prior: Annotated[
        str, typer.Option(help="Probability of a class: empirical (its share of the sequences) or uniform.")
    ] = "empirical",
    quiet: Quiet = False,
) -> None:
    """Train a generative tagger (hmm, m-estimation) for each class of sequences, to classify them by p(x given class).

    Examples
    --------
    loglinear classify train-sequences questions.txt --label kind -o kinds.model     (# kind = NAME before each)
    loglinear classify train-sequences mails.jsonl --label spam --criterion hmm:labels=3 -o spam.model
    loglinear classify train-sequences tagged.txt --labelled --order 2 --prior uniform -o kinds.model
    loglinear classify eval kinds.model test.txt
    """
    from loglinear.data.columns.notes import required_notes
    from loglinear.estimators.tagger.hmm import InputClassifier

    out = console(quiet)
    tagger = tagger_of(model)
    tagger.check_options()
    tagger.template = read_template(model.template)
    if labelled and tagger.finds_labels:
        raise OptionError(
            f"--labelled: the last column holds labels, but {model.criterion} finds its own; leave one out"
        )
    classifier = InputClassifier(tagger, prior)
    classifier.check_options()
    check_training(output, FitOptions())
    with working(out, f"reading {train}"):
        corpus = _sequences(train, files, labelled)
        classes = required_notes(corpus, label)
        weights = files.sentence_weights(len(corpus))
    began = time.perf_counter()
    with working(out, "training a model for each class"), showing_warnings(out):
        classifier.fit(corpus, classes, sample_weight=weights, labelled=labelled)
    seconds = time.perf_counter() - began
    classifier.label_key_ = label
    save(classifier, output)
    sizes = ", ".join(f"{name} ({count:,})" for name, count in sorted(Counter(classes).items()))
    show_lines(
        {
            "data": f"{how_many(len(corpus), 'sequence')}, {how_many(corpus.n_tokens, 'token')}; {sizes}",
            "training": f"{model.criterion} for each class; {seconds:.1f} s",
            **written(output, "loglinear classify eval MODEL TEST;  loglinear inspect MODEL"),
        },
        out,
    )


def _sequences(path: str, files: CorpusOptions, labelled: bool = False) -> Columns:
    """Sequences with what is noted of each."""
    from loglinear.data import Columns

    corpus = files.read(path, layout=True, label_keys=("labels",) if labelled else ())
    if not isinstance(corpus, Columns):
        raise DataError("ready-made attributes; generative taggers look at columns", corpus.name)
    return corpus


@add(app, "run")
def run_command(
    model: ModelFile,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="CSV, TSV or JSON Lines (also .gz, or -)."), READ] = "-",
    output: Output = "-",
    column: Annotated[
        str, typer.Option(help="Name of the column of predicted labels; their probabilities go to NAME_probability.")
    ] = "predicted",
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Write the probability of every label too, a column each.")
    ] = False,
    threads: Threads = None,
    format: Format = "auto",
) -> None:
    """Label the rows of a table: the same table with the predicted label and its probability.

    Of a model of sequences, the table has a row for each sequence: its number, class and probability.

    Examples
    --------
    loglinear classify run stars.model new.csv -o labelled.csv
    loglinear classify run stars.model new.jsonl --probabilities > labelled.jsonl
    """
    from loglinear.data import atomic_output
    from loglinear.data.tables import read_table, table_format_of, write_table

    classifier: Any = _loaded(model, threads)
    sequences = _is_of_sequences(classifier)
    rows: Any = _sequences(table, CorpusOptions(format=format)) if sequences else read_table(table, format)
    labels, chances = _predicted(classifier, rows)
    columns = {"sequence": list(range(1, len(rows) + 1))} if sequences else rows.columns
    added: dict[str, Any] = {column: labels}
    if chances is not None:
        added[f"{column}_probability"] = chances.max(axis=1).tolist()
        if probabilities:
            added |= {f"p({name})": chances[:, i].tolist() for i, name in enumerate(classifier.classes_)}
    elif probabilities:
        raise OptionError(f"models of {classifier.criterion} have no probabilities; leave out --probabilities")
    for name in added:
        if name in columns:
            raise OptionError(f"the table has a column {name!r} already; choose another name with --column")
    chosen = table_format_of(table) if format == "auto" else format
    if sequences:
        chosen = table_format_of(output) if output != "-" else "csv"
    with atomic_output(output) as out:
        write_table({**columns, **added}, out, chosen)


@add(app, "eval")
def eval_command(
    model: ModelFile,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="Table with labels (also .gz, or -)."), READ],
    other: AgainstOptions,
    given: Given,
    label: Annotated[str | None, flag(TableOptions, "label")] = None,
    column: Annotated[
        str, typer.Option(help="Column of the predicted labels in the table of --against.", rich_help_panel=AGAINST)
    ] = "predicted",
    json: PrintJson = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="Draw the confusion matrix."), WRITTEN_CHART
    ] = None,
    plot_regions: Annotated[
        Path | None,
        typer.Option(metavar="FILE.svg", help="Draw regions by predicted, rows by true label, in two columns."),
        WRITTEN_CHART,
    ] = None,
    plot_columns: Annotated[
        str | None, typer.Option(metavar="A,B", help="The two columns of numbers of --plot-regions.")
    ] = None,
    threads: Threads = None,
    format: Format = "auto",
) -> None:
    """Compare a model's labels with those of a table: accuracy, and the score of each label.

    Examples
    --------
    loglinear classify eval stars.model test.csv
    loglinear classify eval stars.model test.csv --json --plot confusion.svg
    loglinear classify eval stars.model test.csv --against other.model
    loglinear classify eval stars.model test.csv --against labelled-by-another.csv --column predicted
    loglinear classify eval iris.model iris.csv --plot-regions regions.svg --plot-columns petal_length,petal_width
    """
    import json as json_module

    import numpy as np

    from loglinear.data.tables import read_table
    from loglinear.evaluation.labels import accuracy_report, confusions
    from loglinear.experiments.charts import table_chart
    from loglinear.experiments.regions import Regions, chosen_columns

    other.reject_alone(given, "--column")
    if plot_columns is not None and plot_regions is None:
        raise OptionError(f"--plot-columns {plot_columns}: for which chart? give --plot-regions FILE.svg with it")
    classifier: Any = _loaded(model, threads)
    rows: Any
    if _is_of_sequences(classifier):
        from loglinear.data.columns.notes import required_notes

        if plot_regions is not None:
            raise OptionError("--plot-regions draws columns of numbers, and the model is of sequences; leave it out")
        columns, named = None, label or classifier.label_key_ or "class"
        rows = _sequences(table, CorpusOptions(format=format))
        truth = required_notes(rows, named)
    else:
        columns = None if plot_regions is None else chosen_columns(classifier.kinds_ or {}, plot_columns)
        rows, named = read_table(table, format), label or classifier.label_column_
        if named is None:
            raise OptionError(f"{model} does not say which column holds the labels; name it with --label")
        truth = rows.column(named)
    began = time.perf_counter()
    labels, chances = _predicted(classifier, rows)
    seconds = time.perf_counter() - began
    report = accuracy_report([truth], [labels])
    macro = float(np.mean([score.f1 for score in report.labels.values()]))
    unknown, losses = sorted({*truth} - {*map(str, classifier.classes_)}), _log_losses(classifier, chances, truth)
    log_loss = None if losses is None else float(np.mean(losses))
    if plot is not None:
        names, counts = confusions([truth], [labels])
        write_text(plot, table_chart("Confusion", names, names, counts, "predicted", "gold"))
    if columns is not None:
        write_text(plot_regions, Regions.of(classifier, rows, columns).chart(truth))
    if other.against is not None:
        from loglinear.evaluation.paired import paired_rows

        labels_of_other, other_losses = _second(other.against, rows, truth, column, format, threads)
        both = None if losses is None or other_losses is None else (losses, other_losses)
        tests = paired_rows(truth, labels, labels_of_other, both, draws=other.draws)
        reports = [_facts(accuracy_report([truth], [each])) for each in (labels, labels_of_other)]
        show_differences(tests, [str(model), other.against], reports, json)
        return
    if json:
        facts = _facts(report) | {"macro_f1": macro, "log_loss": log_loss, "seconds": seconds}
        say(json_module.dumps(facts, ensure_ascii=False, indent=2))
        return
    what = "sequences" if _is_of_sequences(classifier) else "rows"
    say(report.text().replace(" tokens;", f" {what};", 1), nl=False)
    say(f"macro F1: {macro:6.2f}" + ("" if log_loss is None else f"; log loss: {log_loss:.4f}"))
    if unknown:
        say(f"no log loss: the model does not know the label {unknown[0]!r}")


def _support(classifier: Classifier) -> str:
    """How many rows a model with a kernel keeps."""
    return "" if classifier.kernel is None else f"; {how_many(len(classifier.support_), 'support row')}"


def _facts(report: LabelReport) -> dict[str, Any]:
    """A report for JSON."""
    facts = report.to_dict()
    return {"rows": facts.pop("tokens"), **facts}


def _log_losses(classifier: Any, chances: Any, truth: list[str]) -> Float | None:
    """-log p of each row's label [N]; None without probabilities, or if the model does not know a label."""
    import numpy as np

    known = {str(name): i for i, name in enumerate(classifier.classes_)}
    if chances is None or not {*truth} <= {*known}:
        return None
    of_truth = chances[np.arange(len(truth)), [known[name] for name in truth]]
    return -np.log(np.maximum(of_truth, np.finfo(np.float64).tiny))


def _second(
    source: str, rows: Any, truth: list[str], column: str, format: str, threads: int | None
) -> tuple[list[str], Float | None]:
    """Labels, and log losses if there are any, of the system to compare with: a model, or a table of the same rows."""
    from loglinear.data.tables import TableFile, read_table
    from loglinear.model_file import is_model

    if is_model(source):
        classifier: Any = _loaded(Path(source), threads)
        if _is_of_sequences(classifier) == isinstance(rows, TableFile):
            raise OptionError(f"--against {source}: one of the models is of sequences, the other of tables")
        labels, chances = _predicted(classifier, rows)
        return labels, _log_losses(classifier, chances, truth)
    if not isinstance(rows, TableFile):
        raise OptionError(f"--against {source}: sequences are compared with those of another model; give a model file")
    table = read_table(source, format)
    labels = table.column(column)
    if table.n_rows != rows.n_rows:
        raise DataError(f"{how_many(table.n_rows, 'row')}, but {rows.n_rows:,} in {rows.file}", table.file)
    for name in table.columns.keys() & rows.columns.keys() - {column}:
        for row, (mine, theirs) in enumerate(zip(rows.columns[name], table.columns[name], strict=True)):
            if mine != theirs:
                place = f"{rows.file}:{rows.lines[row]}"
                raise DataError(
                    f"column {name!r} is {theirs!r:.60}, but {mine!r:.60} in {place}", table.file, table.lines[row]
                )
    return labels, None


def _is_of_sequences(classifier: Any) -> bool:
    return hasattr(classifier, "taggers_")


def _loaded(model: Path, threads: int | None) -> Classifier | InputClassifier:
    from loglinear import model_file
    from loglinear.estimators.classifier.estimator import Classifier

    read = model_file.read(model)
    if read.kind == "input-classifier":
        from loglinear.estimators.tagger.hmm import InputClassifier

        of_sequences = InputClassifier._read(read, {})
        for tagger in of_sequences.taggers_:
            tagger.threads = threads
        return of_sequences
    if read.kind != Classifier.kind:
        raise ModelKindError(read.file, read.kind[:40], Classifier.kind)
    classifier = Classifier._read(read, {})
    if classifier.kinds_ is None:
        raise OptionError(f"{model} was trained in Python, not on a table; use it from Python")
    classifier.threads = threads
    return classifier


def _predicted(classifier: Any, table: Any) -> tuple[list[str], Any]:
    """Labels, and the probabilities [N, Y] if the model has any."""
    import numpy as np

    if not hasattr(classifier, "predict_proba"):
        return [str(label) for label in classifier.predict(table)], None
    chances = classifier.predict_proba(table)
    return [str(label) for label in np.asarray(classifier.classes_)[chances.argmax(axis=1)]], chances
