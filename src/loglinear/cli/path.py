"""``loglinear path``: training and test error as the penalty grows, and which penalty to choose."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loglinear.cli import common
from loglinear.cli.options import OF_SEQUENCES, CorpusOptions, Flags, TableOptions, changed, cluster_option
from loglinear.errors import OptionError
from loglinear.estimators.options import ClassifierOptions, TaggerOptions
from loglinear.options import PIPED_CHART, READ, WRITTEN, WRITTEN_FILE, option, options

if TYPE_CHECKING:
    from loglinear.data import Attributes, Columns
    from loglinear.estimators.tagger.estimator import Tagger

BUNDLED = {"pos": "pos", "chunk": "chunking", "ner": "ner"}


OUTPUT = "Output"
TAGGER_ONLY = (
    "template", "structure", "max_length", "segment_features", "order", "transitions", "pair_features", "constraints",
)  # fmt: skip
SHARED = ("criterion", "cost", "min_count", "l1", "optimizer", "max_iter", "tolerance", "seed", "threads")
FORMAT = "format of the files; auto goes by their names"
OF_TABLES = "--number, --category, --text, --ignore, --words, --raw-numbers and --kernel"


@options
class PathOptions:
    """What the errors are measured on, and where they go."""

    test: str | None = option(
        "data for the test error; without it, cross-validation", default=None, metavar="FILE", file=READ
    )
    folds: int | None = option("parts for cross-validation (5 if not given)", default=None, least=2)
    bundled: str | None = option("use the bundled corpus instead: pos, chunk or ner", default=None, metavar="TASK")
    grid: str | None = option("the penalties; 15 from 0.0001 to 1000 if not given", default=None, metavar="L2,L2,...")
    plot: Path | None = option(
        "draw both errors over the penalty", default=None, panel=OUTPUT, metavar="FILE.svg", file=PIPED_CHART
    )
    csv: Path | None = option("the table as CSV", default=None, panel=OUTPUT, metavar="FILE", file=WRITTEN)
    json: Path | None = option(
        "the table as JSON, with each finished training (models in FILE.models); the same command continues from it",
        default=None,
        panel=OUTPUT,
        metavar="FILE",
        file=WRITTEN,
    )
    output: Path | None = option(
        "train with the chosen penalty on all of TRAIN, and write it",
        default=None,
        panel=OUTPUT,
        metavar="MODEL",
        flags=("-o", "--output"),
        file=WRITTEN_FILE,
    )
    choose: str = option(
        "which penalty the model gets: best, or 1se (the greatest within a standard error of it)",
        default="best",
        panel=OUTPUT,
    )
    cluster: str | None = cluster_option("train")


def path_command(
    run: PathOptions,
    tagger: Annotated[
        TaggerOptions,
        Flags(
            only=(*TAGGER_ONLY, *SHARED),
            help={"template": "template of a tagger, as for train"},
        ),
    ],
    classifier: Annotated[ClassifierOptions, Flags(only=("text", "raw_numbers", "kernel", *SHARED))],
    files: Annotated[CorpusOptions, Flags(without=("partial", "weights"), help={"format": FORMAT})],
    rows: TableOptions,
    train: Annotated[
        str | None,
        typer.Argument(metavar="TRAIN", help="Annotated file; with --label a table (CSV, TSV, JSON Lines)."),
        READ,
    ] = None,
) -> None:
    """Measure training and test error over a grid of L2 penalties, and choose the best.

    Examples
    --------
    loglinear path --bundled chunk --plot path.svg   (the corpus that comes with the package)
    loglinear path train.txt --test dev.txt --template chunking --plot path.svg
    loglinear path train.txt --folds 5 --grid 0.01,0.1,1,10 --csv path.csv -o best.model
    loglinear path train.txt --folds 5 --json path.json --cluster tcp://10.0.0.1:8786   (the folds on its workers)
    loglinear path reviews.csv --label stars --criterion max-margin --folds 10   (a table: a classifier)
    """
    if run.choose not in ("best", "1se"):
        raise OptionError(f"--choose {run.choose!r}: choose best or 1se")
    if (train is None) == (run.bundled is None):
        raise OptionError("give an annotated file (TRAIN), or --bundled TASK for the corpus that comes with loglinear")
    if run.bundled is not None and run.bundled not in BUNDLED:
        raise OptionError(f"--bundled {run.bundled!r}: choose one of {', '.join(BUNDLED)}")
    if run.test is not None and run.folds is not None:
        raise OptionError("--test and --folds are two ways to measure the test error; give one")
    if run.bundled is not None and (run.test is not None or run.folds is not None):
        raise OptionError("--bundled has its own data to test on; leave out --test and --folds")
    if rows.label is not None:
        if run.bundled is not None or changed(tagger, *TAGGER_ONLY):
            given = ", ".join(["--bundled"] if run.bundled is not None else changed(tagger, *TAGGER_ONLY))
            raise OptionError(f"--label is for tables; {given}: for taggers")
        if others := changed(files, *OF_SEQUENCES):
            raise OptionError(f"--label is for tables; {', '.join(others)}: for files of sequences; leave out")
        _run(*_table_problem(str(train), classifier, rows, rows.label, run), run, classifier.seed, rows.label)
        return
    if changed(rows, "numbers", "categories", "texts", "ignored") or changed(
        classifier, "text", "raw_numbers", "kernel"
    ):
        raise OptionError(f"{OF_TABLES} are for tables; name the column of the labels with --label")
    _run(*_tagger_problem(train, tagger, files, run), run, tagger.seed, None)


def _table_problem(
    train: str, model: ClassifierOptions, rows: TableOptions, label: str, run: PathOptions
) -> tuple[Any, tuple[Any, Any], tuple[Any, Any] | None]:
    """A classifier, its training data and, if there is any, its test data."""
    from loglinear.estimators.classifier.estimator import Classifier
    from loglinear.estimators.classifier.problem import split_labels

    tables = [rows.read(source) for source in (train, run.test) if source is not None]
    data, *others = (split_labels(table, None, label) for table in tables)
    return Classifier(**{**vars(model), "kinds": rows.kinds()}), data, others[0] if others else None


def _tagger_problem(
    train: str | None, model: TaggerOptions, files: CorpusOptions, run: PathOptions
) -> tuple[Tagger, tuple[Any, Any], tuple[Any, Any] | None]:
    """A tagger, its training data and, if there is any, its test data."""
    tagger = common.tagger_of(model)
    tagger.check_options()
    if train is None:
        assert run.bundled is not None
        tagger.template = model.template or BUNDLED[run.bundled]
        bundled, dev = (common.bundled_corpus(split, run.bundled) for split in ("train", "dev"))
        return tagger, (bundled, None), (dev, None)
    corpus = files.read(train)
    common.choose_template(tagger, common.read_template(model.template), corpus, files, common.console(quiet=True))
    data = _labelled(corpus, files.label_column)
    return tagger, data, None if run.test is None else _labelled(files.read(run.test), files.label_column)


def _labelled(corpus: Columns | Attributes, label_column: int) -> tuple[Any, Any]:
    """A corpus, and its labels if they are not in the last column."""
    from loglinear.data import Columns

    return corpus, corpus.labels(label_column) if isinstance(corpus, Columns) and label_column != -1 else None


def _run(
    estimator: Any,
    data: tuple[Any, Any],
    held_out: tuple[Any, Any] | None,
    asked: PathOptions,
    seed: int,
    label: str | None,
) -> None:
    from json import dumps

    from loglinear.data import atomic_output
    from loglinear.data.tables import write_table
    from loglinear.experiments.path import GRID, regularisation_path

    out = common.console()
    X_test, y_test = (None, None) if held_out is None else held_out
    penalties = GRID if asked.grid is None else common.numbers("grid", asked.grid)
    results = None if str(asked.json) == "-" else asked.json
    with (
        common.resumable(results),
        common.pool_on(asked.cluster, out) as pool,
        common.working(out, "training along the path") as show,
    ):
        path = regularisation_path(
            estimator, *data, l2=penalties, X_test=X_test, y_test=y_test, folds=asked.folds, seed=seed, results=results,
            pool=pool, observe=lambda done, total, l2: show(f"{done} of {total} trainings, l2 {l2:g}"),
        )  # fmt: skip
    common.show_table(path.table(), out)
    out.print(f"best l2 {path.best:g}; the greatest within a standard error of it {path.one_standard_error:g}")
    if path.best in (path.l2[0], path.l2[-1]) and len(path.l2) > 1:
        where = "smallest" if path.best == path.l2[0] else "greatest"
        out.print(f"the best l2 is the {where} of the grid: try values beyond it with --grid")
    if asked.plot is not None:
        common.write_text(asked.plot, path.chart())
    if asked.csv is not None:
        names = ("l2", "train_error", "test_error", "standard_error")
        with atomic_output(asked.csv) as file:
            write_table({name: getattr(path, name).tolist() for name in names}, file)
    if str(asked.json) == "-":
        common.write_text(asked.json, dumps(path.to_dict(), indent=1) + "\n")
    if asked.output is not None:
        chosen = path.best if asked.choose == "best" else path.one_standard_error
        with common.working(out, f"training with l2 {chosen:g}"):
            X, y = data
            estimator.set_params(l2=chosen).fit(X, y)
            if label is not None:
                estimator.label_column_ = label
        estimator.save(asked.output)
        out.print(f"model      {asked.output}, trained with l2 {chosen:g} on all of the training data")
