"""The command line: a file for each verb."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from loglinear import ending
from loglinear.cli import common
from loglinear.cli.options import add
from loglinear.errors import LoglinearError, ModelKindError
from loglinear.streams import forget, standard_streams, visible
from loglinear.system import without_current_folder

#: The file of each verb, imported only when the verb is used, so that no verb waits for the imports of others.
VERBS = {
    "train": "train",
    "encode": "encode",
    "tag": "tag",
    "eval": "evaluate",
    "inspect": "inspect",
    "combine": "combine",
    "prune": "prune",
    "convert": "convert",
    "update": "update",
    "path": "path",
    "demo": "demo",
    "criteria": "criteria",
    "template": "template",
    "corpus": "corpus",
    "sample": "sample",
    "cluster": "cluster",
    "tune": "tune",
    "compare": "compare",
    "bench": "bench",
    "parse": "parse",
    "classify": "classify",
    "reproduce": "reproduce",
    "data": "data",
    "warm": "warm",
    "crfpp": "other_tools",
    "wapiti": "other_tools",
    "crfsuite": "other_tools",
}

#: Options of other tools, and the tools that have them.
THEIR_OPTIONS = {
    "CRFsuite": (
        "-p",
        "--set",
        "--c1",
        "--c2",
        "-m",
        "--model",
        "-a",
        "--algorithm",
        "-g",
        "-e",
        "-x",
        "-r",
        "-t",
        "-i",
    ),
    "CRF++": ("-c", "-a", "-f", "-p", "-m", "-e", "-n", "-v", "-t", "--freq", "--maxiter", "--eta", "--thread"),
    "Wapiti": (
        "-T",
        "--type",
        "-a",
        "--algo",
        "-p",
        "--pattern",
        "-m",
        "-d",
        "-t",
        "-i",
        "-1",
        "-2",
        "--rho1",
        "--rho2",
    ),
}


class _OnDemand(Mapping[str, Any]):
    """The commands by verb, each made when it is first used."""

    def __init__(self) -> None:
        self._commands: dict[str, Any] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(VERBS)

    def __len__(self) -> int:
        return len(VERBS)

    def __contains__(self, verb: object) -> bool:
        return verb in VERBS

    def __getitem__(self, verb: str) -> Any:
        if verb not in self._commands:
            module = importlib.import_module(f"loglinear.cli.{VERBS[verb]}")
            group = typer.Typer(rich_markup_mode="rich")
            if hasattr(module, verb):
                group.add_typer(getattr(module, verb), name=verb)
                group.callback()(lambda: None)
            elif hasattr(module, "app"):
                group.add_typer(module.app, name=verb)
            else:
                add(group, verb)(getattr(module, f"{verb}_command"))
            self._commands[verb] = typer.main.get_group(group).commands[verb]
        return self._commands[verb]


class _Verbs(TyperGroup):
    """The verbs; Ctrl-C and closed pipes are handled here, because Typer would exit with status 1 without a message."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = _OnDemand()

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the verbs; none is imported for that."""
        return list(self.commands)

    def make_context(self, *arguments: Any, **settings: Any) -> Any:
        with _visible_mistakes():
            return super().make_context(*arguments, **settings)

    def invoke(self, ctx: Any) -> Any:
        try:
            with _visible_mistakes():
                return super().invoke(ctx)
        except KeyboardInterrupt as interruption:
            _interrupted(interruption)
        except BrokenPipeError:
            _end_of_pipe()


@contextmanager
def _visible_mistakes() -> Iterator[None]:
    """Typer prints a wrong argument as it was given; it may be the name of a file, chosen by somebody else."""
    try:
        yield
    except Exception as error:
        mistake: Any = error
        if isinstance(getattr(error, "message", None), str) and hasattr(error, "format_message"):
            mistake.message = visible(mistake.message) + _their_option(getattr(error, "option_name", ""))
            if "unexpected extra argument" in mistake.message:
                mistake.message += _quotes(getattr(error, "ctx", None))
        raise


def _quotes(context: Any) -> str:
    """For arguments that a shell has made of a glob: how to name several files, where a verb takes them."""
    files = getattr(getattr(getattr(context, "command", None), "callback", None), "files", {})
    takes_several = any(file.parts and not file.written for file in files.values())
    return "; name several files by a folder, or by a glob in quotes: 'parts/*.parquet'" if takes_several else ""


def _their_option(name: str) -> str:
    """For an option that there is not: where to read what it is here, if another tool has it."""
    tools = [tool for tool, names in THEIR_OPTIONS.items() if name in names]
    if not tools:
        return ""
    verbs = {"CRFsuite": "crfsuite", "CRF++": "crfpp", "Wapiti": "wapiti"}
    takes = " or ".join(f"'loglinear {verbs[tool]}'" for tool in tools)
    return f". {', '.join(tools)} have it: docs/from-other-tools.md says what it is here, and {takes} takes it as it is"


app = typer.Typer(
    cls=_Verbs,
    help="Train taggers, entity recognisers, parsers and classifiers on a CPU in seconds.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
    """Run the command line; a user's mistake gives one line on standard error and exit status 2."""
    try:
        with standard_streams(), without_current_folder(), ending.watching_signals():
            _run()
    except SystemExit as end:
        if end.code == 130:  # Typer's, before a verb has begun
            sys.exit(ending.status())
        raise
    except KeyboardInterrupt as interruption:  # before the command, or after it
        _interrupted(interruption)


def _run() -> None:
    try:
        with _interrupts_kept():
            app()
    except ModelKindError as error:
        _fail(common.other_verb(error), 2)
    except LoglinearError as error:
        _fail(str(error), 2)
    except BrokenPipeError:
        _end_of_pipe()
    except KeyboardInterrupt as interruption:
        _interrupted(interruption)
    except (MemoryError, SystemError):  # Python itself raises the second where memory fails it
        remedy = "fewer --threads, shorter sentences or a smaller model: fewer labels, fewer features, a lower order"
        _fail(f"out of memory: try {remedy}", 1)
    except ImportError as error:
        _fail(_missing(error), 1)
    except OSError as error:
        if error.errno is None:  # of the library that loads LLVM
            _fail(_missing(error), 1)
        place = f"{error.filename}: " if error.filename else ""
        _fail(f"{place}{error.strerror or error}", 2)


@contextmanager
def _interrupts_kept() -> Iterator[None]:
    """Let an interrupt be one: libraries turn it into errors of their own, as Numba does while it is imported."""
    try:
        yield
    except (LoglinearError, BrokenPipeError):
        raise
    except Exception:
        if ending.is_asked():
            raise KeyboardInterrupt from None
        raise


def _missing(error: BaseException) -> str:
    """The message for a library that could not be loaded."""
    return f"a library cannot be loaded, perhaps because memory is short: {str(error).partition(chr(10))[0]}"


def _interrupted(interruption: KeyboardInterrupt) -> NoReturn:
    _fail(str(interruption) or "interrupted", ending.status())


def _end_of_pipe() -> NoReturn:
    """Exit quietly, because the reader of a pipe has, with the status of a program that SIGPIPE ends."""
    forget(sys.stdout)
    sys.exit(128 + 13)


def _fail(message: str, status: int) -> NoReturn:
    sys.stderr.write(visible(f"loglinear: {message}\n"))
    try:
        sys.stdout.flush()
    except OSError:
        forget(sys.stdout)
    sys.exit(status)
