"""``loglinear cluster``: mixtures of Gaussians or of words, learnt from a table and used on another."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loglinear.cli.common import console, option, working
from loglinear.cli.options import TABLE, Ignored, NumberColumns, TableFormat, TextColumns, Words
from loglinear.errors import DataError, LoglinearError, ModelFileError, OptionError
from loglinear.estimators.options import MixtureOptions, check_mixture
from loglinear.options import declared

if TYPE_CHECKING:
    from rich.console import Console

    from loglinear.data.tables import TableFile
    from loglinear.estimators.mixture import Mixture, MixtureProgress
    from loglinear.features.tables import BagOfWords


MODEL, CHARTS = "The mixture", "Charts"
EXAMPLES = """
[bold]Examples[/bold]

loglinear cluster iris.csv -k 3 --covariance full -o iris.model --plot iris.svg

loglinear cluster mails.csv --text body -k 8 --min-count 3 -o topics.model

loglinear cluster new.csv --predict iris.model -o rows.csv

loglinear cluster some-labelled.csv -k 3 --label species -o species.model     (empty cells: not known)
"""


MIXTURE_OPTIONS = declared(MixtureOptions)


def _option(name: str, *flags: str, **extra: Any) -> Any:
    return option(name, *flags, panel=MODEL, options=MIXTURE_OPTIONS, **extra)


def cluster_command(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="Table: .csv, .tsv or .jsonl (also .gz, or - for standard input).")
    ],
    n_components: Annotated[int | None, _option("n_components", "-k", show_default=False)] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Model file to write; with --predict, the table of rows (- by default).",
        ),
    ] = None,
    predict: Annotated[
        Path | None,
        typer.Option("--predict", metavar="MODEL", help="Use a model on the table, instead of training one."),
    ] = None,
    rows: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write each training row's component and probability here.")
    ] = None,
    format: TableFormat = "auto",
    number: NumberColumns = None,
    text: TextColumns = None,
    ignore: Ignored = None,
    words: Words = "words",
    min_count: Annotated[int, typer.Option(min=1, help="Leave out words in fewer rows.", rich_help_panel=TABLE)] = 1,
    label: Annotated[
        str | None,
        typer.Option(
            "--label",
            "--labels",
            metavar="COLUMN",
            help="Column of known components, by name; empty where not known. Such rows stay in theirs.",
            rich_help_panel=TABLE,
        ),
    ] = None,
    components: Annotated[str | None, _option("components")] = None,
    covariance: Annotated[str | None, _option("covariance")] = None,
    variance: Annotated[float | None, _option("variance")] = None,
    smoothing: Annotated[float | None, _option("smoothing")] = None,
    floor: Annotated[float | None, _option("floor")] = None,
    start: Annotated[str, _option("start")] = MIXTURE_OPTIONS["start"].default,
    restarts: Annotated[int, _option("restarts")] = MIXTURE_OPTIONS["restarts"].default,
    rounds: Annotated[int, _option("rounds")] = MIXTURE_OPTIONS["rounds"].default,
    tolerance: Annotated[float, _option("tolerance")] = MIXTURE_OPTIONS["tolerance"].default,
    seed: Annotated[int, _option("seed")] = MIXTURE_OPTIONS["seed"].default,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.svg",
            help="Draw rows and Gaussians, in two columns or principal axes.",
            rich_help_panel=CHARTS,
        ),
    ] = None,
    plot_columns: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="The two columns of --plot.", show_default=False, rich_help_panel=CHARTS),
    ] = None,
    plot_rounds: Annotated[
        Path | None,
        typer.Option(metavar="FILE.svg", help="Draw the log-likelihood by round of EM.", rich_help_panel=CHARTS),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many columns or words to show of each component.")] = 5,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
) -> None:
    """Find clusters in a table, by a mixture of Gaussians (numbers) or multinomials (counts, bags of words)."""
    from loglinear.cli.train import check_place
    from loglinear.data.tables import read_table
    from loglinear.errors import OptionError
    from loglinear.estimators.mixture import Mixture

    out = console()
    out.quiet = quiet
    if predict is not None:
        trained = {
            "-k": n_components, "--label": label, "--number": number, "--text": text, "--ignore": ignore,
            "--rows": rows, "--components": components, "--covariance": covariance, "--plot-rounds": plot_rounds,
        }  # fmt: skip
        given = [name for name, value in trained.items() if value]
        if given:
            raise OptionError(f"{', '.join(given)}: with --predict the model says that; leave it out")
        mixture = Mixture.load(predict)
        with working(out, f"reading {data}"):
            table = read_table(data, format)
            seen = ClusterRows.of_model(mixture, predict)
            x = seen.matrix(table, mixture.components == "multinomial")
        _write_rows(mixture, x, str(output or "-"))
        _draw(mixture, x, seen, plot, plot_columns, None, out)
        return
    if n_components is None:
        raise OptionError("how many components? give -k, as in -k 3 (or --predict MODEL to use a model)")
    if text and number:
        raise OptionError("--text and --number: a mixture is of words or of numbers; give one of both")
    if plot_columns is not None and plot is None:
        raise OptionError(f"--plot-columns {plot_columns}: of which chart? give --plot FILE.svg with it")
    for place in (output, plot, plot_rounds):
        if place is not None:
            check_place(place)
    with working(out, f"reading {data}"):
        table = read_table(data, format)
        left_out = [*(ignore or []), *([] if label is None else [label])]
        seen = ClusterRows.choose(table, number or [], text or [], left_out, words, min_count)
        kind = components or ("gaussian" if seen.words is None else "multinomial")
        x = seen.matrix(table, kind == "multinomial")
    if kind == "gaussian" and seen.words is not None:
        raise OptionError("--components gaussian: words are counted, so take multinomial; Gaussians are of numbers")
    mixture = Mixture(
        n_components=n_components, components=kind, covariance=covariance, variance=variance, smoothing=smoothing,
        floor=floor, start=start, restarts=restarts, rounds=rounds, tolerance=tolerance, seed=seed,
    )  # fmt: skip
    check_mixture(mixture)
    _places(plot, plot_columns, seen, kind)
    seconds = _train(mixture, x, seen, _known(table, label), out)
    _summarise(mixture, table, seen, seconds, top, out)
    if rows is not None:
        _write_rows(mixture, x, rows)
    _draw(mixture, x, seen, plot, plot_columns, plot_rounds, out)
    if output is not None:
        mixture.save(output)
        out.print(f"model      {output} ({output.stat().st_size / 1e3:,.1f} kB)")
        out.print(f"next       loglinear cluster TABLE --predict {output};  loglinear inspect {output}")


def _train(mixture: Mixture, x: Any, seen: ClusterRows, known: list[str | None] | None, out: Console) -> float:
    """Fit with a line of progress; the seconds it took."""
    import warnings

    import numpy as np

    from loglinear.cli.common import TrainingDisplay
    from loglinear.training.run import Progress

    began = time.perf_counter()
    with TrainingDisplay(out, None) as display, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")

        def observe(step: MixtureProgress) -> None:
            several = step.n_starts > 1 and out.is_terminal  # elsewhere a line now and then is enough
            phase = f"start {step.start} of {step.n_starts}" if several else "main"
            spent = time.perf_counter() - began
            display.observe(Progress(step.round, step.round, step.objective, spent, None, None, phase))

        mixture.fit(x, known=known, observe=observe)
    for warning in said:
        if issubclass(warning.category, UserWarning | RuntimeWarning):
            out.print(f"loglinear: warning: {warning.message}", markup=False)
    mixture.feature_names_in_ = np.array(seen.names, dtype=object)
    mixture.source_ = seen.to_dict()
    return time.perf_counter() - began


def _known(table: TableFile, label: str | None) -> list[str | None] | None:
    return None if label is None else [cell.strip() or None for cell in table.column(label)]


def _summarise(mixture: Mixture, table: TableFile, seen: ClusterRows, seconds: float, top: int, out: Console) -> None:
    from loglinear.cli.common import show_table
    from loglinear.cli.inspect import component_table

    of = f"words of {', '.join(seen.texts)}" if seen.words is not None else "columns"
    out.print(f"data       {table.n_rows:,} rows, {len(seen.names):,} {of}", markup=False)
    out.print(f"training   {mixture.message_}; {seconds:.1f} s", markup=False)
    shown = component_table(mixture, top)
    out.print(f"objective  {mixture.objectives_[-1]:,.3f}; log-likelihood {mixture.log_likelihoods_[-1]:,.3f}")
    show_table(shown, out)


def _write_rows(mixture: Mixture, x: Any, path: str) -> None:
    from loglinear.cli.inspect import component_labels
    from loglinear.data import atomic_output
    from loglinear.data.tables import table_format_of, write_table

    probabilities = mixture.model_.posterior(x)
    best = probabilities.argmax(axis=1)
    names = component_labels(mixture)
    columns = {
        "row": range(1, len(best) + 1),
        "component": [names[k] for k in best],
        "probability": probabilities.max(axis=1).tolist(),
    }
    with atomic_output(path) as out:
        write_table(columns, out, table_format_of(path) if path != "-" else "csv")


def _places(plot: Path | None, plot_columns: str | None, seen: ClusterRows, kind: str) -> tuple[int, int] | None:
    """The columns of --plot by number, or None; refused before training if there is nothing to draw."""
    from loglinear.errors import OptionError

    if plot is None:
        return None
    if kind != "gaussian":
        raise OptionError("--plot draws Gaussians; of words, --plot-rounds draws how EM climbed")
    if len(seen.names) < 2:
        raise OptionError("--plot needs two columns of numbers, and there is one")
    if plot_columns is None:
        return None
    parts = [part.strip() for part in plot_columns.split(",")]
    if len(parts) != 2 or any(part not in seen.names for part in parts):
        raise OptionError(f"--plot-columns {plot_columns}: give two of {', '.join(seen.names)}, apart by a comma")
    return seen.names.index(parts[0]), seen.names.index(parts[1])


def _draw(
    mixture: Mixture, x: Any, seen: ClusterRows, plot: Path | None, plot_columns: str | None, rounds: Path | None,
    out: Console,
) -> None:  # fmt: skip
    from loglinear.cli.inspect import component_labels
    from loglinear.data import atomic_output

    charts: list[tuple[Path, str]] = []
    if plot is not None or rounds is not None:
        with working(out, "drawing"):
            from loglinear.experiments.charts import climb_chart, component_chart

            if plot is not None:
                chosen = _places(plot, plot_columns, seen, mixture.components)
                charts.append((plot, component_chart(mixture, x, chosen, component_labels(mixture))))
            if rounds is not None:
                charts.append((rounds, climb_chart(mixture)))
    for path, content in charts:
        with atomic_output(path) as stream:
            stream.write(content.encode())
        out.print(f"chart      {path}", markup=False)


# ----------------------------------------------------------------------------------------------------------------------
# What a mixture sees of a table's rows: columns of numbers, or the words of a column of text.


@dataclass(frozen=True)
class ClusterRows:
    """Names of columns of numbers; or columns of text, taken together, and how they are cut into words."""

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
        """What the command line asks for; if it names no columns, all columns of numbers, or else all of text."""
        from loglinear.features.tables import BagOfWords, kind_of

        for name in (*numbers, *texts, *left_out):
            table.column(name)
            if name in left_out and name in (*numbers, *texts):
                raise OptionError(f"column {name!r} cannot be both left out (or the label) and looked at")
        if not numbers and not texts:
            kinds = {name: kind_of(cells) for name, cells in table.columns.items() if name not in left_out}
            numbers = [name for name, kind in kinds.items() if kind == "number"]
            texts = [] if numbers else [name for name, kind in kinds.items() if kind == "text"]
        if texts:
            words = BagOfWords.fit(_joined(table, texts), cut, min_count)
            if not words.vocabulary:
                raise DataError(
                    f"--min-count {min_count}: no word of {', '.join(texts)} is in so many rows", table.file
                )
            return cls((), tuple(texts), words)
        if not numbers:
            there = ", ".join(table.columns)
            raise DataError(f"no column holds numbers alone, or text; name some with --text ({there})", table.file)
        return cls(tuple(dict.fromkeys(numbers)))

    @property
    def names(self) -> list[str]:
        """Names of the matrix' columns."""
        return list(self.numbers) if self.words is None else list(self.words.vocabulary)

    def matrix(self, table: TableFile, counts: bool) -> Any:
        """Rows [n, D]: an array of numbers, or words counted in CSR; ``counts``: negative numbers are refused."""
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
        """For a model file; words are kept there as names of columns."""
        if self.words is None:
            return {"numbers": True}
        return {"texts": list(self.texts), "words": self.words.spec}

    @classmethod
    def of_model(cls, mixture: Any, path: object) -> ClusterRows:
        """As a model's training had them."""
        from loglinear.features.tables import BagOfWords

        stored, names = mixture.source_, getattr(mixture, "feature_names_in_", None)
        if names is None:
            raise OptionError(f"{path} was trained on rows without names of columns; use it from Python")
        try:
            if not isinstance(stored, Mapping) or stored.get("numbers"):
                return cls(tuple(names.tolist()))
            words = BagOfWords.from_dict({"spec": stored["words"], "vocabulary": names.tolist()})
            return cls((), tuple(str(name) for name in stored["texts"]), words)
        except (LoglinearError, KeyError, TypeError) as error:
            raise ModelFileError(f"{path}: how its rows were made cannot be read ({error}); train anew") from None


def _joined(table: TableFile, names: Sequence[str]) -> list[str]:
    """The text of each row, one column after the other."""
    return ["\n".join(cells) for cells in zip(*(table.column(name) for name in names), strict=True)]
