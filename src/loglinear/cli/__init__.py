"""The command line, one verb a file."""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from loglinear.cli import (
    bench,
    classify,
    cluster,
    common,
    compare,
    corpus,
    criteria,
    data,
    demo,
    evaluate,
    inspect,
    parse,
    path,
    prune,
    reproduce,
    sample,
    tag,
    template,
    train,
    tune,
)


class _Verbs(TyperGroup):
    """The verbs; Ctrl-C in any of them is said here, for Typer would end in silence."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interruption:
            _interrupted(interruption)


app = typer.Typer(
    cls=_Verbs,
    help="Train taggers, entity recognisers, parsers and classifiers on a CPU in seconds.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb, module in (
    ("train", train),
    ("tag", tag),
    ("eval", evaluate),
    ("inspect", inspect),
    ("prune", prune),
    ("path", path),
    ("demo", demo),
    ("criteria", criteria),
    ("template", template),
    ("corpus", corpus),
    ("sample", sample),
    ("cluster", cluster),
    ("tune", tune),
    ("compare", compare),
    ("bench", bench),
):
    app.command(verb, epilog=module.EXAMPLES)(getattr(module, f"{verb}_command"))
app.add_typer(parse.app, name="parse")
app.add_typer(classify.app, name="classify")
app.add_typer(reproduce.app, name="reproduce")
app.add_typer(data.app, name="data")


def _show_version(wanted: bool) -> None:
    if wanted:
        from loglinear import __version__

        typer.echo(f"loglinear {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Show the version."),
) -> None:
    """Train taggers, entity recognisers, parsers and classifiers on a CPU in seconds."""


def main() -> None:
    """Run the command line; a user's mistake ends in one line on standard error and status 2."""
    from loglinear.errors import LoglinearError, ModelKindError

    try:
        app()
    except ModelKindError as error:
        _fail(common.other_verb(error), 2)
    except LoglinearError as error:
        _fail(str(error), 2)
    except BrokenPipeError:  # the reader of a pipe has gone: nothing more to say to it
        _forget_output()
        sys.exit(1)
    except KeyboardInterrupt as interruption:
        _interrupted(interruption)
    except MemoryError:
        remedy = (
            "try fewer --threads, shorter sentences or a smaller model: fewer labels, fewer features, a lower order"
        )
        _fail(f"out of memory: {remedy}", 1)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        _fail(f"{place}{error.strerror or error}", 2)


def _interrupted(interruption: KeyboardInterrupt) -> NoReturn:
    _fail(str(interruption) or "interrupted", 130)


def _fail(message: str, status: int) -> NoReturn:
    sys.stderr.write(f"loglinear: {message}\n")
    try:
        sys.stdout.flush()
    except OSError:
        _forget_output()
    sys.exit(status)


def _forget_output() -> None:
    """Let what standard output could not take go nowhere, so that Python does not try again when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
