"""``loglinear cluster``: mixtures of Gaussians or of words, learnt from a table and used on another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loglinear.cli import common
from loglinear.cli.options import TABLE, FitOptions, Flags, TableOptions, changed, flag
from loglinear.errors import DataError, LoglinearError, ModelFileError, OptionError
from loglinear.estimators.options import BIC, CHOOSE_BY, HELD_OUT, ClassifierOptions, MixtureOptions, check_mixture
from loglinear.options import option, options

if TYPE_CHECKING:
    from rich.console import Console

    from loglinear.data.tables import TableFile
    from loglinear.estimators.mixture import Mixture
    from loglinear.experiments.components import Curve
    from loglinear.features.tables import BagOfWords


MODEL, CHARTS = "The mixture", "Charts"
HELD_OUT_SHARE = 0.2


@options
class ClusterOptions:
    """How many components there are, and where a mixture, its rows and its charts go."""

    n_components: str | None = option(
        "how many components; or several numbers to choose from, as in 2-10 or 2,4,8",
        default=None,
        panel=MODEL,
        metavar="K|FROM-TO",
        flags=("-k",),
    )
    choose: str | None = option(
        f"what to choose the number of components by, with several -k; {BIC} by default",
        default=None,
        choices=CHOOSE_BY,
        panel=MODEL,
    )
    held_out: float | None = option(
        f"share of the rows to hold out with --choose {HELD_OUT}; {HELD_OUT_SHARE:g} by default",
        default=None,
        above=0,
        most=0.9,
        panel=MODEL,
        metavar="SHARE",
    )
    curve: str | None = option(
        "write what was chosen from as a table: .csv, .tsv or .jsonl, - for standard output",
        default=None,
        metavar="FILE",
    )
    output: Path | None = option(
        "model file to write; with --predict, the table of rows (- by default)",
        default=None,
        metavar="FILE",
        flags=("-o", "--output"),
    )
    predict: Path | None = option(
        "apply this model to the table, instead of training one", default=None, metavar="MODEL"
    )
    rows: str | None = option("write each training row's component and probability here", default=None, metavar="FILE")
    plot: Path | None = option(
        "draw rows and Gaussians, in two columns or principal axes", default=None, panel=CHARTS, metavar="FILE.svg"
    )
    plot_columns: str | None = option("the two columns of --plot", default=None, panel=CHARTS, metavar="A,B")
    plot_rounds: Path | None = option(
        "draw the log-likelihood by round of EM", default=None, panel=CHARTS, metavar="FILE.svg"
    )
    plot_curve: Path | None = option(
        "draw what the number of components was chosen by", default=None, panel=CHARTS, metavar="FILE.svg"
    )
    top: int = option("how many columns or words to show of each component", default=5, least=1)


def cluster_command(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="Table: .csv, .tsv or .jsonl (also .gz, or - for standard input).")
    ],
    asked: ClusterOptions,
    model: Annotated[MixtureOptions, Flags(panel=MODEL, without=("n_components",), defaults={"components": None})],
    run: Annotated[FitOptions, Flags(help={"dev": "table of rows to judge by"})],
    table: Annotated[TableOptions, Flags(without=("label", "categories"))],
    words: Annotated[str, flag(ClassifierOptions, "text", panel=TABLE)] = "words",
    min_count: Annotated[
        int, typer.Option(min=1, help="Leave out words that occur in fewer rows.", rich_help_panel=TABLE)
    ] = 1,
    label: Annotated[
        str | None,
        typer.Option(
            "--label",
            "--labels",
            metavar="COLUMN",
            help="Column with the names of known components, which those rows keep; empty where not known.",
            rich_help_panel=TABLE,
        ),
    ] = None,
) -> None:
    """Find clusters in a table, by a mixture of Gaussians (numbers) or multinomials (counts, bags of words).

    Examples
    --------
    loglinear cluster iris.csv -k 3 --covariance full -o iris.model --plot iris.svg
    loglinear cluster iris.csv -k 1-8 --choose bic --plot-curve bic.svg -o iris.model
    loglinear cluster mails.csv --text body -k 4,8,16 --choose held-out --curve - -o topics.model
    loglinear cluster mails.csv --text body -k 8 --min-count 3 -o topics.model
    loglinear cluster new.csv --predict iris.model -o rows.csv
    loglinear cluster some-labelled.csv -k 3 --label species -o species.model     (empty cells: not known)
    """
    out = common.console(run.quiet)
    if asked.predict is not None:
        trained = {
            "-k": asked.n_components, "--choose": asked.choose, "--label": label, "--number": table.numbers,
            "--text": table.texts, "--ignore": table.ignored, "--rows": asked.rows, "--components": model.components,
            "--covariance": model.covariance, "--plot-rounds": asked.plot_rounds,
            "--held-out": asked.held_out, "--curve": asked.curve, "--plot-curve": asked.plot_curve,
        }  # fmt: skip
        if given := [name for name, value in trained.items() if value]:
            raise OptionError(f"{', '.join(given)}: with --predict the model says that; leave out")
        _predict(data, asked.predict, asked, table, out)
        return
    numbers = _component_numbers(asked, run)
    if table.texts and table.numbers:
        raise OptionError("--text and --number: a mixture is of words or of numbers; give only one of them")
    if asked.plot_columns is not None and asked.plot is None:
        raise OptionError(f"--plot-columns {asked.plot_columns}: for which chart? give --plot FILE.svg with it")
    for output in (asked.output, *(_output_of(asked, k) for k in numbers if len(numbers) > 1)):
        common.check_training(output, run)
    if asked.curve == asked.rows == "-":
        raise OptionError("--curve - and --rows -: standard output has room for one table; write the other to a file")
    curve = None if asked.curve in (None, "-") else Path(asked.curve)
    for place in (asked.plot, asked.plot_rounds, asked.plot_curve, curve):
        common.check_place(place)
    with common.working(out, f"reading {data}"):
        rows = table.read(data, whole=True)
        left_out = [*(table.ignored or []), *([] if label is None else [label])]
        seen = ClusterRows.choose(rows, table.numbers or [], table.texts or [], left_out, words, min_count)
        kind = model.components or ("gaussian" if seen.words is None else "multinomial")
        x = seen.matrix(rows, kind == "multinomial")
        dev = None if run.dev is None else seen.matrix(table.read(run.dev, whole=True), kind == "multinomial")
    if kind == "gaussian" and seen.words is not None:
        raise OptionError("--components gaussian is for numbers; words are counted: take --components multinomial")
    _places(asked, seen, kind)
    training = Clustering(model, kind, x, dev, _known(rows, label), asked, run, out)
    training.check(numbers)
    mixture, seconds = training.chosen(numbers) if len(numbers) > 1 else training.fitted(numbers[0])
    _finish(mixture, seconds, x, seen, asked, out)


def _predict(data: str, model: Path, asked: ClusterOptions, table: TableOptions, out: Console) -> None:
    """Write the component of each row, as a trained model sees it."""
    from loglinear.estimators.mixture import Mixture

    mixture = Mixture.load(model)
    with common.working(out, f"reading {data}"):
        seen = ClusterRows.of_model(mixture, model)
        x = seen.matrix(table.read(data, whole=True), mixture.components == "multinomial")
    _write_rows(mixture, x, str(asked.output or "-"))
    if asked.plot or asked.plot_rounds:
        _draw(mixture, x, seen, asked, out)


def _component_numbers(asked: ClusterOptions, run: FitOptions) -> list[int]:
    """The numbers of components to train; refuses options that do not go with one, or with several."""
    from loglinear.experiments.components import component_numbers

    if asked.n_components is None:
        raise OptionError("how many components? give -k, as in -k 3 (or --predict MODEL to apply a model)")
    numbers = component_numbers(asked.n_components)
    if len(numbers) == 1:
        if given := changed(asked, "choose", "held_out", "curve", "plot_curve"):
            raise OptionError(
                f"{', '.join(given)}: -k {numbers[0]} leaves nothing to choose; give several, as in -k 2-10"
            )
        return numbers
    if run.init is not None:
        raise OptionError(f"--init: a model has one number of components, but -k {asked.n_components} are several")
    if asked.held_out is not None and asked.choose != HELD_OUT:
        raise OptionError(f"--held-out {asked.held_out:g} is for --choose {HELD_OUT}; give that too, or leave it out")
    return numbers


def _output_of(asked: ClusterOptions, n_components: int) -> Path | None:
    """The file beside which one of several mixtures has its checkpoint."""
    return None if asked.output is None else asked.output.with_name(f"{asked.output.name}.k{n_components}")


@dataclass(frozen=True)
class Clustering:
    """Mixtures of some rows x [n, D], one or several of which one is chosen."""

    model: MixtureOptions
    kind: str
    x: Any
    dev: Any
    known: list[str | None] | None
    asked: ClusterOptions
    run: FitOptions
    out: Console

    def check(self, numbers: Sequence[int]) -> None:
        """Refuse what training would refuse, before the first of several trainings."""
        n = self.x.shape[0]
        for k in numbers:
            check_mixture(self.mixture(k))
        if len(numbers) > 1 and numbers[-1] > n:
            raise OptionError(f"-k {self.asked.n_components}: there are fewer rows ({n}) than components")

    def mixture(self, n_components: int) -> Mixture:
        """A mixture to train."""
        from loglinear.estimators.mixture import Mixture

        return Mixture(**{**vars(self.model), "n_components": n_components, "components": self.kind})

    def fitted(self, n_components: int, rows: Any = None, output: Path | None = None) -> tuple[Mixture, float]:
        """A mixture of some ``rows`` (numbers), trained with a checkpoint beside ``output``, and its seconds."""
        from dataclasses import replace

        from loglinear.training.run import Progress

        def progress(step: Progress) -> Progress:
            several = step.phase != "main" and self.out.is_terminal  # without one, starts need no line each
            return replace(step, phase=step.phase if several else "main", objective=-step.objective)

        mixture = self.mixture(n_components)
        x = self.x if rows is None else self.x[rows]
        seconds = common.fit(
            mixture, x, self.run, self.out, output=output or self.asked.output, progress=progress, X_dev=self.dev,
            known=self.known_of(rows),
        )  # fmt: skip
        return mixture, seconds

    def known_of(self, rows: Any) -> list[str | None] | None:
        """The known components of some rows (numbers), or of all."""
        return self.known if self.known is None or rows is None else [self.known[i] for i in rows]

    def chosen(self, numbers: Sequence[int]) -> tuple[Mixture, float]:
        """The mixture that is best in the way asked for, of all rows, and the seconds that all of them took.

        With rows held out, the mixture of the best number of components is trained again, on all rows.
        """
        from loglinear.experiments.components import Curve, Judged, held_out_rows

        asked, rows, held = self.asked, None, None
        curve, best, total = Curve(asked.choose or BIC), None, 0.0
        if curve.way == HELD_OUT:
            share = HELD_OUT_SHARE if asked.held_out is None else asked.held_out
            rows, held = held_out_rows(self.x.shape[0], share, self.model.seed, self.known)
            if numbers[-1] > len(rows):
                raise OptionError(f"-k {asked.n_components}: {len(rows)} rows are not held out, fewer than components")
        x, others = (self.x, None) if rows is None else (self.x[rows], self.x[held])
        for k in numbers:
            mixture, seconds = self.fitted(k, rows, _output_of(asked, k))
            curve.judged.append(Judged.of(mixture, x, self.known_of(rows), others))
            total += seconds
            if curve.best is curve.judged[-1]:
                best = mixture
            self.out.print(curve.judged[-1].said(curve.way), markup=False)
        self.show(curve)
        if held is not None:
            best, seconds = self.fitted(curve.best.components)
            total += seconds
        for k in numbers if asked.output is not None else ():
            common.checkpoint_of(_output_of(asked, k)).unlink(missing_ok=True)  # type: ignore[union-attr]  # there is an output
        assert best is not None
        return best, total

    def show(self, curve: Curve) -> None:
        """Print the curve, write it and draw it, where that is asked for."""
        common.show_table(curve.table(), self.out)
        if self.asked.curve is not None:
            _write_table(curve.columns(), self.asked.curve, digits=12)  # log-likelihoods are large, and alike
        if self.asked.plot_curve is not None:
            common.write_text(self.asked.plot_curve, curve.chart())
            self.out.print(f"chart      {self.asked.plot_curve}", markup=False)


def _finish(mixture: Mixture, seconds: float, x: Any, seen: ClusterRows, asked: ClusterOptions, out: Console) -> None:
    """Write a trained mixture and show its components."""
    import numpy as np

    from loglinear.cli.inspect import component_table

    mixture.feature_names_in_ = np.array(seen.names, dtype=object)
    mixture.source_ = seen.to_dict()
    if asked.output is not None:
        common.save(mixture, asked.output)
    common.show_table(component_table(mixture, asked.top), out)
    what = f"words of {', '.join(seen.texts)}" if seen.words is not None else "columns"
    common.summarise(
        mixture, out, asked.output,
        data=f"{x.shape[0]:,} rows, {len(seen.names):,} {what}",
        seconds=seconds,
        objective=f"{mixture.objectives_[-1]:,.3f}; log-likelihood {mixture.log_likelihoods_[-1]:,.3f}",
        following="loglinear cluster TABLE --predict MODEL;  loglinear inspect MODEL",
    )  # fmt: skip
    if asked.rows is not None:
        _write_rows(mixture, x, asked.rows)
    if asked.plot or asked.plot_rounds:
        _draw(mixture, x, seen, asked, out)


def _known(table: TableFile, label: str | None) -> list[str | None] | None:
    return None if label is None else [cell.strip() or None for cell in table.column(label)]


def _write_rows(mixture: Mixture, x: Any, path: str) -> None:
    from loglinear.cli.inspect import component_labels

    probabilities = mixture.model_.posterior(x)
    best = probabilities.argmax(axis=1)
    names = component_labels(mixture)
    columns = {
        "row": range(1, len(best) + 1),
        "component": [names[k] for k in best],
        "probability": probabilities.max(axis=1).tolist(),
    }
    _write_table(columns, path)


def _write_table(columns: Mapping[str, Sequence[Any]], path: str, digits: int = 6) -> None:
    """Write columns in the format of the file's name; ``-`` is standard output, as CSV."""
    from loglinear.data import atomic_output
    from loglinear.data.tables import table_format_of, write_table

    with atomic_output(path) as out:
        write_table(columns, out, table_format_of(path) if path != "-" else "csv", digits)


def _places(asked: ClusterOptions, seen: ClusterRows, kind: str) -> tuple[int, int] | None:
    """The numbers of the columns of --plot, or None; raises before training if there is nothing to draw."""
    if asked.plot is None:
        return None
    if kind != "gaussian":
        raise OptionError("--plot draws Gaussians; for words, --plot-rounds draws how the log-likelihood rose")
    if len(seen.names) < 2:
        raise OptionError("--plot needs two columns of numbers, but there is only one; leave it out")
    if asked.plot_columns is None:
        return None
    parts = [part.strip() for part in asked.plot_columns.split(",")]
    if len(parts) != 2 or any(part not in seen.names for part in parts):
        raise OptionError(f"--plot-columns {asked.plot_columns}: give two of {', '.join(seen.names)}, as in A,B")
    return seen.names.index(parts[0]), seen.names.index(parts[1])


def _draw(mixture: Mixture, x: Any, seen: ClusterRows, asked: ClusterOptions, out: Console) -> None:
    from loglinear.cli.inspect import component_labels
    from loglinear.experiments.charts import climb_chart, component_chart

    with common.working(out, "drawing"):
        if asked.plot is not None:
            chosen = _places(asked, seen, mixture.components)
            common.write_text(asked.plot, component_chart(mixture, x, chosen, component_labels(mixture)))
        if asked.plot_rounds is not None:
            common.write_text(asked.plot_rounds, climb_chart(mixture))
    for path in filter(None, (asked.plot, asked.plot_rounds)):
        out.print(f"chart      {path}", markup=False)


# ----------------------------------------------------------------------------------------------------------------------
# From the rows of a table to the matrix of a mixture: columns of numbers, or the words of columns of text.


@dataclass(frozen=True)
class ClusterRows:
    """The columns of numbers; or the columns of text, taken together, and how they are cut into words."""

    numbers: tuple[str, ...]
    texts: tuple[str, ...] = ()
    words: BagOfWords | None = None

    @classmethod
    def choose(
        cls,
        table: TableFile,
        numbers: Sequence[str],
        texts: Sequence[str],
        left_out: Sequence[str],
        cut: str,
        min_count: int,
    ) -> ClusterRows:
        """The columns that the command line names; by default all columns of numbers, or else all of text."""
        from loglinear.features.tables import BagOfWords, kind_of

        for name in (*numbers, *texts, *left_out):
            table.column(name)
            if name in left_out and name in (*numbers, *texts):
                raise OptionError(f"column {name!r} cannot be both left out (or the label) and used")
        if not numbers and not texts:
            kinds = {name: kind_of(cells) for name, cells in table.columns.items() if name not in left_out}
            numbers = [name for name, kind in kinds.items() if kind == "number"]
            texts = [] if numbers else [name for name, kind in kinds.items() if kind == "text"]
        if texts:
            words = BagOfWords.fit(_joined(table, texts), cut, min_count)
            if not words.vocabulary:
                raise DataError(
                    f"--min-count {min_count}: no word of {', '.join(texts)} occurs in that many rows; lower it",
                    table.file,
                )
            return cls((), tuple(texts), words)
        if not numbers:
            columns = ", ".join(table.columns)
            raise DataError(f"no column holds numbers only, or text; name some with --text ({columns})", table.file)
        return cls(tuple(dict.fromkeys(numbers)))

    @property
    def names(self) -> list[str]:
        """Names of the matrix' columns."""
        return list(self.numbers) if self.words is None else list(self.words.vocabulary)

    def matrix(self, table: TableFile, counts: bool) -> Any:
        """Rows [n, D]: an array of numbers, or counts of words in CSR; with ``counts`` numbers must not be negative."""
        import numpy as np

        if self.words is None:
            x = table.numbers(self.numbers)
            if counts and (x < 0.0).any():
                row, column = (int(place[0]) for place in np.nonzero(x < 0.0))
                problem = f"column {self.numbers[column]!r} is {x[row, column]:g}, and counts are not negative"
                raise DataError(
                    f"{problem}; take --components gaussian, or other columns", table.file, table.lines[row]
                )
            return x
        return self.words.matrix(_joined(table, self.texts))

    def to_dict(self) -> dict[str, Any]:
        """For a model file, which has the words as names of columns."""
        if self.words is None:
            return {"numbers": True}
        return {"texts": list(self.texts), "words": self.words.spec}

    @classmethod
    def of_model(cls, mixture: Any, path: object) -> ClusterRows:
        """The columns that a model was trained on."""
        from loglinear.features.tables import BagOfWords

        stored, names = mixture.source_, getattr(mixture, "feature_names_in_", None)
        if names is None:
            raise OptionError(f"{path} was trained on rows without names of columns; apply it from Python")
        try:
            if not isinstance(stored, Mapping) or stored.get("numbers"):
                return cls(tuple(names.tolist()))
            words = BagOfWords.from_dict({"spec": stored["words"], "vocabulary": names.tolist()})
            return cls((), tuple(str(name) for name in stored["texts"]), words)
        except (LoglinearError, KeyError, TypeError) as error:
            raise ModelFileError(f"{path}: the description of its columns is damaged ({error}); train again") from None


def _joined(table: TableFile, names: Sequence[str]) -> list[str]:
    """The text of each row, one column after the other."""
    return ["\n".join(cells) for cells in zip(*(table.column(name) for name in names), strict=True)]
