"""What several verbs share: options, the console, and reading a corpus as the command line asks."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer
from rich.console import Console
from rich.status import Status
from rich.text import Text

from loglinear.estimators.options import TaggerOptions
from loglinear.options import Option, declared

if TYPE_CHECKING:
    from loglinear.data import Attributes, Columns
    from loglinear.errors import ModelKindError
    from loglinear.experiments.tables import Table
    from loglinear.experiments.tuning.run import TuningProgress
    from loglinear.training.run import Progress


DATA = "The files"
OPTIONS = declared(TaggerOptions)
PLAIN_WIDTH = 160  # of tables that no terminal shows
FORMATS = "auto, columns, crfsuite, jsonl or text; auto goes by the file's name"

Format = Annotated[str, typer.Option("--format", help=f"Format of the files: {FORMATS}.", rich_help_panel=DATA)]
Separator = Annotated[
    str,
    typer.Option(
        help="What separates columns: auto (runs of spaces and tabs), tab (exactly one) or space.", rich_help_panel=DATA
    ),
]
Comments = Annotated[
    str,
    typer.Option(
        help="Lines to pass over: none, those that begin with the given text, or auto (# lines that are no rows).",
        rich_help_panel=DATA,
    ),
]
LabelColumn = Annotated[
    int, typer.Option(help="Column of the labels, from 0; negative from the last.", rich_help_panel=DATA)
]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads; all cores if not given.", show_default=False)]


def option(name: str, *flags: str, panel: str, options: Mapping[str, Option] = OPTIONS, **extra: Any) -> Any:
    """A command-line option for the estimator's option of that name: its help, default and choices."""
    declared = options[name]
    choices = (
        f" ({', '.join(map(str, declared.choices))})" if declared.choices and declared.choices != (False, True) else ""
    )
    shown = {"show_default": declared.default is not None, **extra}
    return typer.Option(
        *flags, help=declared.help[0].upper() + declared.help[1:] + choices + ".", rich_help_panel=panel, **shown
    )


def default(name: str) -> Any:
    """The default of a tagger's option."""
    return OPTIONS[name].default


def console() -> Console:
    """Where people look: standard error, so that standard output carries data only."""
    return Console(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())


def wide_console(quiet: bool = False) -> Console:
    """The same, wide enough for tables where no terminal says how wide it is."""
    out = console()
    out.quiet = quiet
    if not out.is_terminal:
        out.width = PLAIN_WIDTH
    return out


@contextmanager
def working(out: Console, what: str) -> Iterator[Callable[[str], None]]:
    """A turning wheel with a word beside it, which can change, while something takes its time; only in a terminal."""
    if out.is_terminal and not out.quiet:
        with out.status(what) as status:
            yield lambda text: status.update(text)
    else:
        yield lambda text: None


TAKEN_BY = {
    "tagger": "loglinear tag",
    "classifier": "loglinear classify run",
    "parser": "loglinear parse run",
    "dependency-parser": "loglinear parse run",
    "mixture": "loglinear cluster --predict",
}  #: the verb that uses a model, by its kind; loglinear inspect takes every kind


def other_verb(error: ModelKindError) -> str:
    """A line for a model that was given to a verb for models of another kind: which one takes it."""
    use = f"{TAKEN_BY[error.kind]} takes it" if error.kind in TAKEN_BY else "loglinear inspect shows it"
    return (
        f"{error.file} holds a model of kind {error.kind!r}, but one of kind {error.wanted!r} is needed here; {use}, "
        "and in Python loglinear.load opens it"
    )


def start_quickly() -> None:
    """Let Numba load kernels without looking for BLAS in SciPy: no kernel needs it, and importing it takes 0.2 s.

    Nor does the garbage collector look at what stays for good, which takes as long. For verbs that need neither SciPy
    nor scikit-learn, in a process that is the command line's own.
    """
    if "scipy.linalg" in sys.modules or "numba.np.arraymath" in sys.modules:
        return
    modules: dict[str, Any] = sys.modules
    modules["scipy.linalg"] = None  # an import of it fails while this stands here
    gc.disable()
    try:
        import numba.np.arraymath  # noqa: F401  # looks for BLAS when it is imported, and goes on without
        from numba.core.registry import cpu_target

        cpu_target.target_context.refresh()  # what the first kernel would have it do
        gc.freeze()
    finally:
        gc.enable()
        del modules["scipy.linalg"]


def show_table(table: Table, screen: Console) -> None:
    """A table with its remarks, in the terminal."""
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(title=Text(table.title), title_justify="left", title_style="bold")
    for number, column in enumerate(table.columns):
        shown.add_column(Text(column), justify="left" if number == 0 else "right")
    for row in table.rows:
        shown.add_row(Text(row.name), *(Text(cell) for cell in row.cells))
    screen.print(shown)
    for note in table.notes:
        screen.print(Text(note, style="dim"))


def read_corpus(
    path: str,
    format: str,
    separator: str,
    comments: str,
    docstart_is_token: bool = False,
    label_keys: tuple[str, ...] = ("labels",),
    layout: bool = True,
) -> Columns | Attributes:
    """Read a corpus in the format asked for.

    ``docstart_is_token`` takes ``-DOCSTART-`` lines for tokens, as conlleval does, if they are as wide as the others.
    ``label_keys`` are the keys of JSON Lines records that hold labels. Without ``layout`` the text of a column file is
    not kept: it takes less memory, and cannot be written back with its comments and blank lines.
    """
    from io import BytesIO

    from loglinear.data import format_of, read, read_columns, read_jsonl
    from loglinear.data.files import read_bytes, source_name
    from loglinear.errors import DataError

    chosen = format_of(path) if format == "auto" else format
    if chosen == "jsonl":
        return read_jsonl(path, label_keys=label_keys)
    if chosen != "columns":
        return read(path, chosen)
    if not docstart_is_token:
        return read_columns(path, separator=separator, comments=comments, layout=layout)
    source = BytesIO(read_bytes(path))
    source.name = source_name(path)
    try:
        return read_columns(source, separator=separator, comments=comments, docstart=False)
    except DataError:
        source.seek(0)
        return read_columns(source, separator=separator, comments=comments)


# ----------------------------------------------------------------------------------------------------------------------
# Training seen from outside: a live line in a terminal, now and then a plain one elsewhere.


PLAIN_SECONDS = 5.0


class _Display:
    """A turning wheel in a terminal, while it is open."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: Status | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal and not self._console.quiet:
            self._status = self._console.status("training ...")
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()


class TrainingDisplay(_Display):
    """Shows each iteration's objective, dev score and time."""

    def __init__(self, console: Console, metric: str | None) -> None:
        super().__init__(console)
        self._metric = metric
        self._last_line = time.perf_counter()
        self._phase = "main"

    def observe(self, progress: Progress) -> None:
        """Show one iteration, and first of all which part of the training it belongs to, if there are several."""
        if progress.phase != self._phase:
            self._phase = progress.phase
            self._console.print(
                {"main": "now the criterion itself", "opening": "first without wrong contexts"}.get(
                    progress.phase,
                    progress.phase if " " in progress.phase else f"first a {progress.phase} model, to start from",
                )
            )
        text = f"iteration {progress.iteration}  objective {progress.objective:,.2f}"
        if progress.dev_score is not None and progress.best_dev_score is not None:
            text += f"  dev {self._metric} {100 * progress.dev_score:.2f} (best {100 * progress.best_dev_score:.2f})"
        text += f"  {progress.seconds:.1f} s"
        if self._status is not None:
            self._status.update(text)
        elif time.perf_counter() - self._last_line >= PLAIN_SECONDS:
            self._console.print(text)
            self._last_line = time.perf_counter()


class TuningDisplay(_Display):
    """Shows each finished cell with the best so far, and in a terminal the iteration of the one in training."""

    def observe(self, progress: TuningProgress) -> None:
        """Show where it is."""
        self._show(f"{progress.done} of {progress.total}  {progress.name}", progress)

    def observe_part(self, what: str, progress: TuningProgress) -> None:
        """Show where one part of a larger whole is."""
        count = f"{progress.done} of {progress.total}  " if progress.total else ""
        self._show(f"{what}: {count}{progress.name}", progress)

    def _show(self, text: str, progress: TuningProgress) -> None:
        best = "" if progress.best_score is None else f"  (best {progress.best_score:.2f}: {progress.best_name})"
        if progress.score is not None:
            line = f"{text}  {progress.score:.2f}{best}  {progress.seconds:.1f} s"
            self._console.print(line, markup=False, highlight=False)
        elif self._status is not None:
            at = "" if progress.iteration is None else f"  iteration {progress.iteration}"
            self._status.update(Text(f"{text}{at}{best}  {progress.seconds:.1f} s"))
