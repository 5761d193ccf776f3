"""What several verbs share: options, the console, and reading a corpus as the command line asks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from loglinear.estimators.options import OPTIONS

if TYPE_CHECKING:
    from loglinear.data import Attributes, Columns

FORMATS = "auto, columns, crfsuite, jsonl or text; auto goes by the file's name"

Format = Annotated[str, typer.Option("--format", help=f"Format of the files: {FORMATS}.")]
Separator = Annotated[
    str, typer.Option(help="What separates columns: auto (runs of spaces and tabs), tab (exactly one) or space.")
]
Comments = Annotated[
    str, typer.Option(help="Lines to pass over: auto, none, or the prefix they begin with (auto: '# key = value' ...).")
]
LabelColumn = Annotated[int, typer.Option(help="Column of the labels, from 0; negative from the last.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads; all cores if not given.", show_default=False)]


def option(name: str, *flags: str, **extra: Any) -> Any:
    """A command-line option for the estimator's option of that name: its help, default and choices."""
    declared = OPTIONS[name]
    choices = (
        f" ({', '.join(map(str, declared.choices))})" if declared.choices and declared.choices != (False, True) else ""
    )
    return typer.Option(
        *flags,
        help=declared.help[0].upper() + declared.help[1:] + choices + ".",
        show_default=declared.default is not None,
        **extra,
    )


def console() -> Console:
    """Where people look: standard error, so that standard output carries data only."""
    return Console(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())


def read_corpus(
    path: str, format: str, separator: str, comments: str, docstart_is_token: bool = False
) -> Columns | Attributes:
    """Read a corpus in the format asked for.

    ``docstart_is_token`` takes ``-DOCSTART-`` lines for tokens, as conlleval does, if they are as wide as the others.
    """
    from io import BytesIO

    from loglinear.data import format_of, read, read_columns
    from loglinear.data.files import read_bytes, source_name
    from loglinear.errors import DataError

    chosen = format_of(path) if format == "auto" else format
    if chosen != "columns":
        return read(path, chosen)
    if not docstart_is_token:
        return read_columns(path, separator=separator, comments=comments)
    source = BytesIO(read_bytes(path))
    source.name = source_name(path)
    try:
        return read_columns(source, separator=separator, comments=comments, docstart=False)
    except DataError:
        source.seek(0)
        return read_columns(source, separator=separator, comments=comments)
