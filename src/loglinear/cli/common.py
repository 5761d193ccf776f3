"""Shared by several verbs: the console, templates, texts to write, and training from data to model file."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import typer
from rich.console import Console
from rich.text import Text

from loglinear import ending
from loglinear.cli.options import CorpusOptions, FitOptions
from loglinear.errors import ModelFileError, OptionError
from loglinear.estimators.options import TaggerOptions
from loglinear.kernels import compile_quietly
from loglinear.streams import visible
from loglinear.wording import how_many

if TYPE_CHECKING:
    from rich.status import Status

    from loglinear.data import Attributes, Columns
    from loglinear.errors import ModelKindError
    from loglinear.estimators.tagger.estimator import Tagger
    from loglinear.estimators.tagger.local import LocalTagger
    from loglinear.evaluation.paired import PairedReport
    from loglinear.experiments.pools.pool import Pool
    from loglinear.experiments.tables import Table
    from loglinear.experiments.tuning.run import TuningProgress
    from loglinear.features.templates.language import TemplateSet
    from loglinear.training.run import Progress


PLAIN_WIDTH = 160  # of tables that are not shown in a terminal


class Screen(Console):
    """A console for texts of others: they are shown as they are, but for characters that would steer the terminal.

    Brackets and colons are no markup. Text objects are taken as they are: make them of :func:`visible` texts.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **settings)

    def render_str(self, text: str, **settings: Any) -> Text:
        """Rich calls this for every string, in tables too."""
        return super().render_str(visible(text), **settings)

    def on_broken_pipe(self) -> None:
        """Leave it to the command line to exit when the reader of a pipe has gone."""
        raise  # rich calls this while it handles the BrokenPipeError

    def spinner(self, text: str) -> Status:
        """A spinner that says what is done, in characters that the terminal has."""
        return self.status(Text(visible(text)), spinner="line" if self.options.ascii_only else "dots")


def say(text: str, nl: bool = True) -> None:
    """Print to standard output; in a terminal, characters that would steer it are shown."""
    typer.echo(visible(text) if sys.stdout.isatty() else text, nl=nl)


def console(quiet: bool = False, tables: bool = False) -> Screen:
    """The console for messages: standard error, so that standard output carries data only.

    With ``tables`` it is wide enough for them where there is no terminal to say how wide it is.
    """
    compile_quietly(quiet)
    out = Screen(stderr=True, soft_wrap=not sys.stderr.isatty(), quiet=quiet)
    if tables and not out.is_terminal:
        out.width = PLAIN_WIDTH
    return out


@contextmanager
def working(out: Screen, what: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner with an updatable label during slow work; nothing outside a terminal."""
    if out.is_terminal and not out.quiet:
        with out.spinner(what) as status:
            yield lambda text: status.update(Text(visible(text)))
    else:
        yield lambda text: None


TAKEN_BY = {
    "tagger": "loglinear tag",
    "combination": "loglinear tag",
    "local-tagger": "loglinear tag",
    "input-classifier": "loglinear classify run",
    "classifier": "loglinear classify run",
    "parser": "loglinear parse run",
    "dependency-parser": "loglinear parse run",
    "mixture": "loglinear cluster --predict",
}  #: the verb that uses a model, by its kind; loglinear inspect takes every kind


def other_verb(error: ModelKindError) -> str:
    """The message for a model given to a verb for models of another kind: which verb takes it."""
    use = f"{TAKEN_BY[error.kind]} takes it" if error.kind in TAKEN_BY else "loglinear inspect shows it"
    return (
        f"{error.file} holds a model of kind {error.kind!r}, but one of kind {error.wanted!r} is needed here; {use}, "
        "and in Python loglinear.load opens it"
    )


def show_table(table: Table, screen: Screen) -> None:
    """Print a table with its notes."""
    from rich.table import Table as RichTable

    shown = RichTable(title=table.title, title_justify="left", title_style="bold")
    for number, column in enumerate(table.columns):
        shown.add_column(column, justify="left" if number == 0 else "right")
    for row in table.rows:
        shown.add_row(row.name, *row.cells)
    screen.print(shown)
    for note in table.notes:
        screen.print(note, style="dim")


def show_differences(tests: PairedReport, names: Sequence[str], reports: Sequence[Any], json: bool) -> None:
    """Print two systems with the tests of their differences: a table, or JSON with the report of each as well."""
    import json as json_module

    from loglinear.experiments.tables import Table, number

    if json:
        first, second = ({"name": name, **report} for name, report in zip(names, reports, strict=True))
        facts = {"first": first, "second": second, "tests": tests.to_dict()}
        say(json_module.dumps(facts, ensure_ascii=False, indent=2))
        return
    columns = ["", "A", "B", "B - A", "95 % of draws", "bootstrap p", "McNemar p", "t-test p"]
    table = Table("Differences", columns)
    for name, each in tests.figures.items():
        digits = 4 if name == "log loss" else 2
        difference = each.second - each.first
        span = f"{each.low:+.{digits}f} to {each.high:+.{digits}f}"
        p_values = [_p_value(p) for p in (each.bootstrap, each.mcnemar, each.t_test)]
        figures = [number(each.first, digits), number(each.second, digits), f"{difference:+.{digits}f}"]
        table.add(name, [each.first, each.second, difference], [*figures, span, *p_values])
    table.notes.append(
        f"{how_many(tests.examples, 'example')}, {tests.draws:,} draws of the bootstrap, whose p is one-sided; the "
        "others are two-sided"
    )
    screen = Screen()
    if not screen.is_terminal:
        screen.width = PLAIN_WIDTH
    for letter, name in zip("AB", names, strict=True):
        screen.print(f"{letter} = {name}", soft_wrap=True)
    show_table(table, screen)


def _p_value(p: float | None) -> str:
    from loglinear.experiments.tables import number

    return "< 0.0001" if p is not None and p < 0.0001 else number(p, 4)


@contextmanager
def showing_warnings(out: Screen) -> Iterator[None]:
    """Print warnings, a line each, when the block ends."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        finally:
            for warning in caught:
                if issubclass(warning.category, UserWarning | RuntimeWarning | FutureWarning):
                    out.print(f"loglinear: warning: {warning.message}")


# -- taggers -----------------------------------------------------------------------------------------------------------


def tagger_of(model: TaggerOptions) -> Tagger:
    """The tagger that the command line asks for, without its template, which may depend on the data."""
    from loglinear.estimators.tagger.estimator import Tagger

    return Tagger(**{**vars(model), "template": None, "constraints": read_constraints(model.constraints)})


def read_constraints(name: str | None) -> str | dict[str, object] | None:
    """The name of a scheme as it is, or the content of a JSON file."""
    from loglinear.documents import parsed_json

    if name is None or not name.endswith(".json"):
        return name
    try:
        content = parsed_json(Path(name).read_text(encoding="utf-8"))
    except ValueError as error:
        raise OptionError(f"{name}: not valid JSON: {error}") from None
    if not isinstance(content, dict):
        raise OptionError(f'{name}: constraints are a JSON object, as in {{"scheme": "bio"}}')
    return content


def read_template(name: str | None) -> str | Path | TemplateSet | None:
    """The name of a set as it is, or the content of a template file; a file that names columns waits for the data."""
    from loglinear.features.templates.language import has_names
    from loglinear.features.templates.sets import SETS, load_template, template_file

    if name is None or name in SETS:
        return name
    return Path(name) if has_names(template_file(name)) else load_template(Path(name))


@contextmanager
def releasing(corpus: Any) -> Iterator[None]:
    """Let a corpus that is elsewhere be forgotten there at the end of the block."""
    try:
        yield
    finally:
        if (release := getattr(corpus, "release", None)) is not None:
            release()


def choose_template(
    tagger: Tagger | LocalTagger,
    template: str | Path | TemplateSet | None,
    corpus: Columns | Attributes,
    files: CorpusOptions,
    out: Screen,
) -> None:
    """Give a tagger its template or, if none is named, one that suits the labels; ready-made attributes need none."""
    from loglinear.data import Attributes

    tagger.template = template
    if isinstance(corpus, Attributes):
        if template is not None:
            raise OptionError("--template looks at columns, but the file holds ready-made attributes; leave it out")
    elif template is None:
        tagger.template = suggested_template(corpus, files.label_column, files.partial)
        out.print(f"template: {tagger.template} (choose with --template)")


def bundled_corpus(split: str, task: str) -> Columns:
    """A split of the corpus that comes with the package."""
    from io import BytesIO

    from loglinear.data import read_columns
    from loglinear.data.corpora.bundled import bundled_text

    return read_columns(BytesIO(bundled_text(split, task).encode()))


def suggested_template(corpus: Columns, label_column: int, partial: bool) -> str:
    """``ner`` where the labels mark spans, unless they stand in the column where it looks for tags; else ``pos``."""
    from loglinear.estimators.tagger.inputs import annotation_of
    from loglinear.structures.constraints import detect_scheme

    labels = annotation_of(corpus, None, label_column, partial).label_names()
    n_columns = len(corpus.columns)
    labels_for_tags = n_columns > 2 and label_column % n_columns == 1
    return "pos" if detect_scheme(labels) is None or labels_for_tags else "ner"


# -- texts to write ---------------------------------------------------------------------------------------------------


def write_text(path: Path | str | None, text: str) -> None:
    """Write a text file, whole or not at all; ``-`` is standard output, and nothing is written without a path."""
    from loglinear.data import atomic_output

    if path is not None:
        with atomic_output(path) as out:
            out.write(text.encode())


def numbers(flag: str, text: str) -> tuple[float, ...]:
    """Numbers separated by commas."""
    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise OptionError(f"--{flag} {text!r}: give numbers separated by commas, as in 0.1,0.3,1") from None


@contextmanager
def resumable(results: Path | None) -> Iterator[None]:
    """After Ctrl-C, say what an experiment has kept and how to continue."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(interrupted(results)) from None


@contextmanager
def pool_on(cluster: str | None, out: Screen, jobs: int | None = None, flag: str = "--jobs") -> Iterator[Pool | None]:
    """The pool of a cluster while it is needed; None without one. ``jobs`` is what ``flag`` says, if it is given."""
    if cluster is None:
        yield None
        return
    from loglinear.experiments.pools.cluster import ClusterPool

    if jobs is not None:
        raise OptionError(f"{flag} is for one machine; with --cluster as many are trained at a time as it has threads")
    with ClusterPool(cluster, say=out.print) as pool:
        yield pool


def interrupted(results: Path | None) -> str:
    """The message after Ctrl-C."""
    if results is None:
        return "interrupted: nothing was kept; with --json FILE the same command would continue"
    if not results.exists():
        return "interrupted: no training was finished; the same command starts from scratch"
    return f"interrupted: what is finished is in {results}; the same command continues"


# -- a training, from data to model file -------------------------------------------------------------------------------


def checkpoint_of(output: Path | None) -> Path | None:
    """The checkpoint file of a training whose model goes to ``output``."""
    return None if output is None else output.with_name(output.name + ".checkpoint")


def check_training(output: Path | None, run: FitOptions) -> None:
    """Reject a training that would overwrite an unfinished one."""
    checkpoint = checkpoint_of(output)
    if checkpoint is None and run.resume:
        raise OptionError("--resume continues from MODEL.checkpoint; name the model with -o")
    if checkpoint is not None and checkpoint.exists() and not run.resume:
        raise OptionError(
            f"{checkpoint} belongs to an unfinished training: continue it with --resume, or delete the file"
        )


def fit(
    estimator: Any,
    X: Any,
    run: FitOptions,
    out: Screen,
    *,
    output: Path | None,
    metric: str = "score",
    progress: Callable[[Any], Progress] = lambda step: step,
    **more: Any,
) -> float:
    """Train an estimator, showing its progress, with a checkpoint beside the ``output``; returns the seconds it took.

    ``progress`` converts what ``fit`` observes to a :class:`Progress`, ``more`` are keywords of ``fit``. :func:`save`
    deletes the checkpoint, once the model is written.
    """
    from loglinear.training.run import TrainingInterrupted

    checkpoint = checkpoint_of(output)
    if run.resume and checkpoint is not None:
        exists = checkpoint.exists()
        out.print(f"resuming from {checkpoint}" if exists else f"no checkpoint {checkpoint}: starting from scratch")
    keywords = {name: getattr(run, name) for name in ("init", "checkpoint_seconds", "resume")}
    keywords |= {"checkpoint": checkpoint, **more}
    began = time.perf_counter()
    try:
        with showing_warnings(out), TrainingDisplay(out, metric) as display:
            estimator.fit(X, observe=lambda step: display.observe(progress(step)), **_supported(estimator, keywords))
    except TrainingInterrupted as interruption:
        typer.echo(visible(f"loglinear: {interruption}"), err=True)
        raise typer.Exit(ending.status()) from None
    return time.perf_counter() - began


def _supported(estimator: Any, keywords: dict[str, Any]) -> dict[str, Any]:
    """The keywords that an estimator's ``fit`` takes; others are rejected if the command line asks for them."""
    import inspect

    known = inspect.signature(estimator.fit).parameters
    for name in ("X_dev", "init", "resume"):
        asked = keywords.get(name) is not None and keywords[name] is not False
        if asked and name not in known:
            raise OptionError(
                f"--{name.removeprefix('X_')}: {type(estimator).__name__} does not support it; leave it out"
            )
    return {name: value for name, value in keywords.items() if name in known}


def save(estimator: Any, output: Path) -> None:
    """Write the model, to a temporary folder if it cannot be written to its place, and delete the checkpoint."""
    import tempfile

    try:
        estimator.save(output)
    except ModelFileError as error:
        spare = Path(tempfile.mkdtemp(prefix="loglinear-")) / output.name
        try:
            estimator.save(spare)
        except ModelFileError:
            spare.parent.rmdir()
            raise error from None
        raise ModelFileError(f"{error}. The model is saved as {spare} instead") from None
    checkpoint_of(output).unlink(missing_ok=True)  # type: ignore[union-attr]  # there is an output


def summarise(
    estimator: Any,
    out: Screen,
    output: Path | None,
    *,
    data: str,
    features: str = "",
    objective: str = "",
    metric: str = "",
    memory: str = "",
    cluster: str = "",
    seconds: float | None = None,
    following: str,
) -> None:
    """Print what was learnt from, how training went, where the model is and what to do next.

    ``following`` are commands, with MODEL for the model file; ``metric`` says what the dev score is. ``objective`` and
    ``seconds`` are those that the estimator recorded, if they are not given.
    """
    from loglinear.training.run import score_text

    at, score = getattr(estimator, "best_iteration_", None), getattr(estimator, "dev_score_", None)
    pruned, value = getattr(estimator, "pruned_score_", None), getattr(estimator, "objective_", None)
    if not objective and value is not None:
        objective = f"{value:,.3f}" + (" at the last iteration" if at else "")
    lines = {
        "data": data,
        "features": features,
        "training": f"{estimator.message_}; {estimator.seconds_ if seconds is None else seconds:.1f} s",
        "objective": objective,
        "dev score": "" if score is None else f"{score_text(score)}{metric} at iteration {at}, whose weights are kept",
        "memory": memory,
        "cluster": cluster,
        "pruned": "" if pruned is None else f"{100 * pruned:.2f} on the dev data",
        **({} if output is None else written(output, following)),
    }
    show_lines(lines, out)


def written(output: Path, following: str) -> dict[str, str]:
    """Where a model is, and the commands that follow, for :func:`show_lines`."""
    from loglinear.experiments.tables import size

    return {
        "model": f"{output} ({size(output.stat().st_size)})",
        "next": following.replace("MODEL", str(output)),
    }


def show_lines(lines: Mapping[str, str], out: Screen) -> None:
    """Print what there is to say, a line each, under its name."""
    for what, text in lines.items():
        if text:
            out.print(f"{what:<10} {text}")


# -- the progress of a training: a live line in a terminal, a plain one every few seconds elsewhere -------------------


PLAIN_SECONDS = 5.0


class _Display:
    """A spinner in a terminal, while it is open."""

    def __init__(self, console: Screen) -> None:
        self._console = console
        self._status = console.spinner("training ...") if console.is_terminal and not console.quiet else None

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._status is not None:
            self._status.stop()


PHASES = {
    "main": "now the criterion itself",
    "opening": "first without wrong contexts",
    "observed": "first with the features observed",
    "scaling": "now the scaling of the pieces",
    "relations": "now the relations",
}


class TrainingDisplay(_Display):
    """Shows each iteration's objective, dev score and time."""

    def __init__(self, console: Screen, metric: str | None) -> None:
        super().__init__(console)
        self._metric = metric
        self._last_line = time.perf_counter()
        self._phase = "main"

    def observe(self, progress: Progress) -> None:
        """Show an iteration; before it the phase of the training, where a new one begins."""
        from loglinear.training.run import score_text

        if progress.phase != self._phase:
            self._phase = progress.phase
            other = self._phase if " " in self._phase else f"first a {self._phase} model, to start from"
            self._console.print(PHASES.get(self._phase, other))
        text = f"iteration {progress.iteration}  objective {progress.objective:,.2f}"
        if progress.dev_score is not None and progress.best_dev_score is not None:
            best = score_text(progress.best_dev_score)
            text += f"  dev {self._metric} {score_text(progress.dev_score)} (best {best})"
        text += f"  {progress.seconds:.1f} s"
        if self._status is not None:
            self._status.update(Text(visible(text)))
        elif time.perf_counter() - self._last_line >= PLAIN_SECONDS:
            self._console.print(text)
            self._last_line = time.perf_counter()


class TuningDisplay(_Display):
    """Shows each finished cell with the best so far, and in a terminal the iteration of the one in training."""

    def observe(self, progress: TuningProgress) -> None:
        """Show the progress of a tuning."""
        self._show(f"{_count(progress)}{progress.name}", progress)

    def observe_part(self, what: str, progress: TuningProgress) -> None:
        """Show the progress of one tuning of several."""
        self._show(f"{what}: {_count(progress)}{progress.name}", progress)

    def _show(self, text: str, progress: TuningProgress) -> None:
        best = "" if progress.best_score is None else f"  (best {progress.best_score:.2f}: {progress.best_name})"
        if progress.score is not None:
            line = f"{text}  {progress.score:.2f}{best}  {progress.seconds:.1f} s"
            self._console.print(line)
        elif self._status is not None:
            at = "" if progress.iteration is None else f"  iteration {progress.iteration}"
            self._status.update(Text(visible(f"{text}{at}{best}  {progress.seconds:.1f} s")))


def _count(progress: TuningProgress) -> str:
    """How many trainings are done, and how many are under way if there are several."""
    if not progress.total:
        return ""
    running = f", {progress.running} running" if progress.running > 1 else ""
    return f"{progress.done} of {progress.total}{running}  "
