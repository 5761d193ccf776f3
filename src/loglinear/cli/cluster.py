"""``loglinear cluster``: mixtures of numbers, words, attributes or sequences, learnt from a file and used on others."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loglinear.cli import common
from loglinear.cli.options import OF_SEQUENCES, TABLE, CorpusOptions, FitOptions, Flags, TableOptions, changed
from loglinear.errors import DataError, LoglinearError, ModelFileError, OptionError
from loglinear.estimators.options import (
    BIC,
    CHOOSE_BY,
    HELD_OUT,
    HMM_COMPONENTS,
    NAIVE_BAYES,
    MixtureOptions,
    check_mixture,
    hmm_components,
)
from loglinear.options import READ, WRITTEN, WRITTEN_CHART, File, option, options, spec_name
from loglinear.wording import how_many

if TYPE_CHECKING:
    from loglinear.data.columns.corpus import Columns
    from loglinear.data.tables import TableFile
    from loglinear.estimators.mixture import Mixture
    from loglinear.experiments.components import Curve
    from loglinear.features.tables import BagOfWords


MODEL, CHARTS = "The mixture", "Charts"
HELD_OUT_SHARE = 0.2
OUTPUT = File(written=True, piped=True, beside=(".checkpoint",))  # a model, or a table of rows


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
        file=WRITTEN,
    )
    output: Path | None = option(
        "model file to write; with --predict, the table of rows (- by default)",
        default=None,
        metavar="FILE",
        flags=("-o", "--output"),
        file=OUTPUT,
    )
    predict: Path | None = option(
        "apply this model to the table, instead of training one",
        default=None,
        metavar="MODEL",
        file=READ,
    )
    rows: str | None = option(
        "write each training row's component and probability here", default=None, metavar="FILE", file=WRITTEN
    )
    plot: Path | None = option(
        "draw rows and Gaussians, in two columns or principal axes",
        default=None,
        panel=CHARTS,
        metavar="FILE.svg",
        file=WRITTEN_CHART,
    )
    plot_columns: str | None = option("the two columns of --plot", default=None, panel=CHARTS, metavar="A,B")
    plot_rounds: Path | None = option(
        "draw the log-likelihood by round of EM",
        default=None,
        panel=CHARTS,
        metavar="FILE.svg",
        file=WRITTEN_CHART,
    )
    plot_curve: Path | None = option(
        "draw what the number of components was chosen by",
        default=None,
        panel=CHARTS,
        metavar="FILE.svg",
        file=WRITTEN_CHART,
    )
    top: int = option("how many columns or words to show of each component", default=5, least=1)


def cluster_command(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="Table: .csv, .tsv or .jsonl (also .gz, or - for standard input); for hmm, a file of sequences.",
        ),
        READ,
    ],
    asked: ClusterOptions,
    model: Annotated[MixtureOptions, Flags(panel=MODEL, without=("n_components",), defaults={"components": None})],
    run: Annotated[FitOptions, Flags(help={"dev": "table of rows to judge by"})],
    table: Annotated[TableOptions, Flags(without=("label",))],
    files: Annotated[
        CorpusOptions,
        Flags(
            without=("format",),
            help={
                "weights": "file with a weight for each row or sequence, a number a line",
                "label_column": "of hmm, column of known states, from 0; negative from the last",
                "partial": "of hmm, known states may be partial: * is any, A|B is A or B",
            },
        ),
    ],
    label: Annotated[
        str | None,
        typer.Option(
            "--label",
            "--labels",
            metavar="COLUMN",
            help="Column with the names of known components, which those rows keep; empty where not known. For hmm, "
            "the key of JSON Lines or # KEY = NAME comments.",
            rich_help_panel=TABLE,
        ),
    ] = None,
) -> None:
    """Find clusters by a mixture of Gaussians (numbers), multinomials (counts, bags of words), naive Bayes models
    (columns of names and text) or hidden Markov models (sequences).

    Examples
    --------
    loglinear cluster iris.csv -k 3 --covariance full -o iris.model --plot iris.svg
    loglinear cluster iris.csv -k 1-8 --choose bic --plot-curve bic.svg -o iris.model
    loglinear cluster mails.csv --text body -k 4,8,16 --choose held-out --curve - -o topics.model
    loglinear cluster mails.csv --text body -k 8 --min-count 3 -o topics.model
    loglinear cluster new.csv --predict iris.model -o rows.csv
    loglinear cluster some-labelled.csv -k 3 --label species -o species.model     (empty cells: not known)
    loglinear cluster survey.csv -k 2-6 --components naive-bayes --category age --category town -o classes.model
    loglinear cluster sentences.txt -k 3 --components hmm:states=4 -o kinds.model
    loglinear cluster tagged.txt -k 3 --components hmm --label-column 1 -o kinds.model     (states are known)
    """
    out = common.console(run.quiet)
    if asked.predict is not None:
        trained = {
            "-k": asked.n_components, "--choose": asked.choose, "--label": label, "--number": table.numbers,
            "--text": table.texts, "--category": table.categories, "--ignore": table.ignored, "--rows": asked.rows,
            "--components": model.components, "--covariance": model.covariance, "--plot-rounds": asked.plot_rounds,
            "--held-out": asked.held_out, "--curve": asked.curve, "--plot-curve": asked.plot_curve,
            "--weights": files.weights,
        }  # fmt: skip
        if given := [name for name, value in trained.items() if value]:
            raise OptionError(f"{', '.join(given)}: with --predict the model says that; leave out")
        _predict(data, asked.predict, asked, table, files, out)
        return
    numbers = _component_numbers(asked, run)
    files.format = table.format
    seen = _source(model, table, files, label)
    if model.components is not None:
        check_mixture(_mixture_of(model, model.components, numbers[0], seen))
    if asked.plot_columns is not None and asked.plot is None:
        raise OptionError(f"--plot-columns {asked.plot_columns}: for which chart? give --plot FILE.svg with it")
    if str(asked.output) == "-":
        raise OptionError("-o -: models are written to files, not to standard output; name one, as in -o FILE")
    with common.working(out, f"reading {data}"), common.showing_warnings(out):
        found = seen.read(data)
        dev = None if run.dev is None else seen.read_dev(run.dev)
    _places(asked, seen, found.components)
    training = Clustering(model, found, seen, dev, files.sentence_weights(found.n), asked, run, out)
    training.check(numbers)
    for output in (asked.output, *(_output_of(asked, k) for k in numbers if len(numbers) > 1)):
        common.check_training(output, run)
    mixture, seconds = training.chosen(numbers) if len(numbers) > 1 else training.fitted(numbers[0])
    _finish(mixture, seconds, found, seen, asked, out)


def _predict(
    data: str, model: Path, asked: ClusterOptions, table: TableOptions, files: CorpusOptions, out: common.Screen
) -> None:
    """Write the component of each row, as a trained model sees it."""
    from loglinear.estimators.mixture import Mixture

    mixture = Mixture.load(model)
    files.format = table.format
    if mixture.family == HMM_COMPONENTS:
        seen: Source = ClusterSequences(mixture.components, files)
    elif mixture.family == NAIVE_BAYES:
        seen = ClusterTable(table, {})
    else:
        seen = ClusterMatrix(table, mixture.components, seen=ClusterRows.of_model(mixture, model))
    _places(asked, seen, mixture.components)
    with common.working(out, f"reading {data}"):
        x = seen.applied_to(data, mixture.components)
    _write_rows(mixture, x, None, str(asked.output or "-"))
    if asked.plot:
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


def _mixture_of(model: MixtureOptions, components: str, n_components: int, seen: Source) -> Mixture:
    from loglinear.estimators.mixture import Mixture

    return Mixture(**{**vars(model), "n_components": n_components, "components": components, **seen.options})


@dataclass(frozen=True)
class Found:
    """What a file holds for a mixture.

    Parameters
    ----------
    x
        What :meth:`Mixture.fit` takes: numbers [n, D], a table or a corpus.
    components : str
        What it is a mixture of.
    known : list of (str or None), optional
        The names of the rows' components, where they are known.
    """

    x: Any
    components: str
    known: list[str | None] | None

    @property
    def n(self) -> int:
        """The number of rows."""
        from loglinear.estimators.mixture import n_examples

        return n_examples(self.x)

    def only(self, rows: Any) -> Found:
        """Some of the rows (numbers), or all."""
        from loglinear.estimators.mixture import taken

        if rows is None:
            return self
        return Found(taken(self.x, rows), self.components, self.known and [self.known[i] for i in rows])


@dataclass(frozen=True)
class Clustering:
    """Mixtures of some rows, one or several of which one is chosen; ``weights`` [n] are the rows', if there are any."""

    model: MixtureOptions
    found: Found
    seen: Source
    dev: Any
    weights: Any
    asked: ClusterOptions
    run: FitOptions
    out: common.Screen

    def check(self, numbers: Sequence[int]) -> None:
        """Refuse what training would refuse, before the first of several trainings."""
        for k in numbers:
            check_mixture(self.mixture(k))
        if len(numbers) > 1 and numbers[-1] > self.found.n:
            raise OptionError(f"-k {self.asked.n_components}: there are fewer rows ({self.found.n}) than components")

    def mixture(self, n_components: int) -> Mixture:
        """A mixture to train."""
        return _mixture_of(self.model, self.found.components, n_components, self.seen)

    def fitted(self, n_components: int, rows: Any = None, output: Path | None = None) -> tuple[Mixture, float]:
        """A mixture of some ``rows`` (numbers), trained with a checkpoint beside ``output``, and its seconds."""
        from dataclasses import replace

        from loglinear.training.run import Progress

        def progress(step: Progress) -> Progress:
            several = step.phase != "main" and self.out.is_terminal  # without one, starts need no line each
            return replace(step, phase=step.phase if several else "main", objective=-step.objective)

        mixture, own = self.mixture(n_components), self.found.only(rows)
        seconds = common.fit(
            mixture, own.x, self.run, self.out, output=output or self.asked.output, progress=progress, X_dev=self.dev,
            known=own.known, sample_weight=self.weights_of(rows), **self.seen.keywords,
        )  # fmt: skip
        return mixture, seconds

    def weights_of(self, rows: Any) -> Any:
        """The weights of some rows (numbers), or of all."""
        return self.weights if self.weights is None or rows is None else self.weights[rows]

    def chosen(self, numbers: Sequence[int]) -> tuple[Mixture, float]:
        """The mixture that is best in the way asked for, of all rows, and the seconds that all of them took.

        With rows held out, the mixture of the best number of components is trained again, on all rows.
        """
        from loglinear.experiments.components import Curve, Judged, held_out_rows

        asked, rows, held = self.asked, None, None
        curve, best, total = Curve(asked.choose or BIC), None, 0.0
        if curve.way == HELD_OUT:
            share = HELD_OUT_SHARE if asked.held_out is None else asked.held_out
            rows, held = held_out_rows(self.found.n, share, self.model.seed, self.found.known)
            if numbers[-1] > len(rows):
                raise OptionError(
                    f"-k {asked.n_components}: {how_many(len(rows), 'row')} are not held out, fewer than components"
                )
        own, others = self.found.only(rows), None if held is None else self.found.only(held).x
        for k in numbers:
            mixture, seconds = self.fitted(k, rows, _output_of(asked, k))
            states, weights = self.seen.states(own.x), self.weights_of(rows)
            curve.judged.append(
                Judged.of(mixture, own.x, own.known, others, states=states, sample_weight=weights)
            )  # fmt: skip
            total += seconds
            if curve.best is curve.judged[-1]:
                best = mixture
            self.out.print(curve.judged[-1].said(curve.way))
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
            self.out.print(f"chart      {self.asked.plot_curve}")


def _finish(
    mixture: Mixture, seconds: float, found: Found, seen: Source, asked: ClusterOptions, out: common.Screen
) -> None:
    """Write a trained mixture and show its components."""
    from loglinear.cli.inspect import component_table

    seen.describe(mixture)
    if asked.output is not None:
        common.save(mixture, asked.output)
    common.show_table(component_table(mixture, asked.top), out)
    common.summarise(
        mixture, out, asked.output,
        data=seen.size(found.x, mixture),
        seconds=seconds,
        objective=f"{mixture.objectives_[-1]:,.3f}; log-likelihood {mixture.log_likelihoods_[-1]:,.3f}",
        following="loglinear cluster FILE --predict MODEL;  loglinear inspect MODEL",
    )  # fmt: skip
    if asked.rows is not None:
        _write_rows(mixture, found.x, seen.states(found.x), asked.rows)
    if asked.plot or asked.plot_rounds:
        _draw(mixture, found.x, seen, asked, out)


def _write_rows(mixture: Mixture, x: Any, states: Any, path: str) -> None:
    from loglinear.cli.inspect import component_labels

    rows = x if mixture.inputs_ is None else mixture._in_numbers(x, states)
    probabilities = mixture.model_.posterior(rows)
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


def _places(asked: ClusterOptions, seen: Source, kind: str) -> tuple[int, int] | None:
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


def _draw(mixture: Mixture, x: Any, seen: Source, asked: ClusterOptions, out: common.Screen) -> None:
    from loglinear.cli.inspect import component_labels
    from loglinear.experiments.charts import climb_chart, component_chart

    with common.working(out, "drawing"):
        if asked.plot is not None:
            chosen = _places(asked, seen, mixture.components)
            common.write_text(asked.plot, component_chart(mixture, x, chosen, component_labels(mixture)))
        if asked.plot_rounds is not None:
            common.write_text(asked.plot_rounds, climb_chart(mixture))
    for path in filter(None, (asked.plot, asked.plot_rounds)):
        out.print(f"chart      {path}")


# ----------------------------------------------------------------------------------------------------------------------
# From a file to what a mixture is trained on: numbers or words in a matrix, a table of names and text, or sequences.


class Source(ABC):
    """How a file becomes what a mixture is trained on or applied to."""

    @abstractmethod
    def read(self, path: str) -> Found:
        """The rows to train on."""

    def read_dev(self, path: str) -> Any:
        """Dev rows, once the training rows are read."""
        return self.read(path).x

    def applied_to(self, path: str, components: str) -> Any:
        """Rows to apply a trained mixture to."""
        return self.read(path).x

    @property
    def options(self) -> dict[str, Any]:
        """Options of the mixture that the flags of the file say."""
        return {}

    @property
    def keywords(self) -> dict[str, Any]:
        """Keywords of its ``fit``."""
        return {}

    def states(self, x: Any) -> Any:
        """The known states of sequences, None if there are none."""
        return None

    @property
    def names(self) -> list[str]:
        """The names of a matrix' columns."""
        return []

    def describe(self, mixture: Mixture) -> None:
        """Note in a trained mixture how its columns were made; those of tables and sequences know."""
        mixture.source_ = None

    @abstractmethod
    def size(self, x: Any, mixture: Mixture) -> str:
        """The size of the training data, in words."""


def _source(model: MixtureOptions, table: TableOptions, files: CorpusOptions, label: str | None) -> Source:
    """The source that components and flags ask for; refuses flags that do not go with them."""
    components, cut = model.components, {"text": model.text, "min_count": model.min_count}
    family = None if components is None else spec_name(components)
    if table.texts and table.numbers:
        raise OptionError("--text and --number: a mixture is of words or of numbers; give only one of them")
    if family == HMM_COMPONENTS:
        given = changed(table, "numbers", "categories", "texts", "ignored")
        if given := given + changed(model, "text", "min_count"):
            raise OptionError(f"{', '.join(given)}: for tables, but {components} is for sequences; leave out")
        return ClusterSequences(str(components), files, label)
    if given := changed(files, *OF_SEQUENCES):
        raise OptionError(f"{', '.join(given)}: for files of sequences (--components hmm:states=4); leave out")
    if family != NAIVE_BAYES:
        if table.categories:
            raise OptionError("--category is for --components naive-bayes, which look at names; leave it out")
        return ClusterMatrix(table, components, model.text, model.min_count, label)
    if table.numbers:
        raise OptionError("--number: naive-bayes components are of names and words; name the column with --category")
    kinds = {**dict.fromkeys(table.categories or [], "category"), **dict.fromkeys(table.texts or [], "text")}
    return ClusterTable(table, cut, kinds, (*(table.ignored or ()), *(() if label is None else (label,))), label)


@dataclass(frozen=True)
class ClusterSequences(Source):
    """Sequences; ``label`` is the key under which a sequence's component is noted."""

    components: str
    files: CorpusOptions
    label: str | None = None

    def read(self, path: str) -> Found:
        from loglinear.data.columns.notes import sentence_notes

        corpus = self._corpus(path, layout=self.label is not None)
        known = None if self.label is None else sentence_notes(corpus, self.label)
        if known is not None and not any(known):
            raise DataError(
                f"--label {self.label}: no sentence has a comment # {self.label} = NAME, or key", corpus.name
            )
        return Found(corpus, self.components, known)

    def read_dev(self, path: str) -> Columns:
        return self._corpus(path)

    def applied_to(self, path: str, components: str) -> Columns:
        return self._corpus(path)

    def _corpus(self, path: str, layout: bool = False) -> Columns:
        from loglinear.data import Columns

        corpus = self.files.read(path, layout=layout)
        if not isinstance(corpus, Columns):
            raise DataError("ready-made attributes; hidden Markov models look at columns", corpus.name)
        return corpus

    @property
    def keywords(self) -> dict[str, Any]:
        return {"label_column": self.files.label_column, "partial": self.files.partial}

    def states(self, x: Any) -> Any:
        from loglinear.estimators.tagger.inputs import annotation_of

        if hmm_components(self.components)["states"] is not None:
            return None
        return annotation_of(x, None, self.files.label_column, self.files.partial)

    def size(self, x: Any, mixture: Mixture) -> str:
        states = "states found" if self.states(x) is None else "known states"
        n = len(mixture.inputs_.states)  # type: ignore[union-attr]  # of sequences
        sizes = f"{how_many(len(x), 'sequence')}, {how_many(x.n_tokens, 'token')}"
        return f"{sizes}, {n} {states} in each component"


@dataclass(frozen=True)
class ClusterTable(Source):
    """A table of names and text; ``kinds`` are those of the columns that are named, by default of all but numbers."""

    table: TableOptions
    more: Mapping[str, Any]
    kinds: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    label: str | None = None

    def read(self, path: str) -> Found:
        from loglinear.features.tables import kind_of

        rows = self.table.read(path, whole=True)
        for name in (*self.kinds, *self.left_out):
            rows.column(name)
            if name in self.left_out and name in self.kinds:
                raise OptionError(f"column {name!r} cannot be both left out (or the label) and used")
        known = None if self.label is None else [cell.strip() or None for cell in rows.column(self.label)]
        chosen = [name for name in rows.columns if name in self.kinds]
        if not self.kinds:
            names = {name: kind_of(cells) for name, cells in rows.columns.items() if name not in self.left_out}
            chosen = [name for name, kind in names.items() if kind != "number"]
            if numbers := [name for name, kind in names.items() if kind == "number"]:
                warnings.warn(
                    f"columns of numbers are left out ({', '.join(numbers)}); name those whose numbers are names of "
                    "categories with --category, and the others too",
                    UserWarning,
                    stacklevel=2,
                )
            if not chosen:
                raise DataError("no column holds names or text; name some with --category or --text", rows.file)
        return Found(rows.without([name for name in rows.columns if name not in chosen]), NAIVE_BAYES, known)

    def read_dev(self, path: str) -> TableFile:
        return self.table.read(path, whole=True)

    def applied_to(self, path: str, components: str) -> TableFile:
        return self.table.read(path, whole=True)

    @property
    def options(self) -> dict[str, Any]:
        return {**self.more, "kinds": dict(self.kinds) or None}

    def size(self, x: Any, mixture: Mixture) -> str:
        kinds = mixture.inputs_.kinds  # type: ignore[union-attr]  # of a table
        return f"{how_many(len(x), 'row')}; {', '.join(f'{name} ({kind})' for name, kind in kinds.items())}"


@dataclass
class ClusterMatrix(Source):
    """A table of numbers or text as a matrix; ``seen`` are its columns, chosen when the training rows are read."""

    table: TableOptions
    components: str | None
    words: str = "words"
    min_count: int = 1
    label: str | None = None
    seen: ClusterRows | None = None

    def read(self, path: str) -> Found:
        rows, label = self.table.read(path, whole=True), self.label
        left_out = [*(self.table.ignored or []), *([] if label is None else [label])]
        numbers, texts = self.table.numbers or [], self.table.texts or []
        self.seen = seen = ClusterRows.choose(rows, numbers, texts, left_out, self.words, self.min_count)
        components = self.components or ("gaussian" if seen.words is None else "multinomial")
        if components == "gaussian" and seen.words is not None:
            raise OptionError("--components gaussian is for numbers; words are counted: take --components multinomial")
        known = None if label is None else [cell.strip() or None for cell in rows.column(label)]
        self.components = components
        return Found(seen.matrix(rows, components == "multinomial"), components, known)

    def read_dev(self, path: str) -> Any:
        return self.applied_to(path, str(self.components))

    def applied_to(self, path: str, components: str) -> Any:
        assert self.seen is not None
        return self.seen.matrix(self.table.read(path, whole=True), components == "multinomial")

    @property
    def options(self) -> dict[str, Any]:
        return {"text": "words", "min_count": 1}  # the matrix is made here

    @property
    def names(self) -> list[str]:
        return [] if self.seen is None else self.seen.names

    def describe(self, mixture: Mixture) -> None:
        import numpy as np

        assert self.seen is not None
        mixture.feature_names_in_ = np.array(self.seen.names, dtype=object)
        mixture.source_ = self.seen.to_dict()

    def size(self, x: Any, mixture: Mixture) -> str:
        assert self.seen is not None
        what = f"words of {', '.join(self.seen.texts)}" if self.seen.words is not None else "columns"
        return f"{how_many(x.shape[0], 'row')}, {len(self.names):,} {what}"


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
        except (LoglinearError, KeyError, TypeError, ValueError) as error:
            raise ModelFileError(f"{path}: the description of its columns is damaged ({error}); train again") from None


def _joined(table: TableFile, names: Sequence[str]) -> list[str]:
    """The text of each row, one column after the other."""
    return ["\n".join(cells) for cells in zip(*(table.column(name) for name in names), strict=True)]
