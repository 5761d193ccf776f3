"""``loglinear crfpp``, ``wapiti`` and ``crfsuite``: those tools' commands, with their own options."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import typer

AS_IT_IS = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": list[str]()}


def _command(module: str, words: tuple[str, ...] = ()) -> Callable[[typer.Context], None]:
    """The function that hands the arguments on to a command of :mod:`loglinear.compat`."""

    def run(context: typer.Context) -> None:
        status = import_module(f"loglinear.compat.{module}").main([*words, *context.args])
        if status:
            raise typer.Exit(status)

    run.files = {}  # type: ignore[attr-defined]  # the command compares its files itself
    return run


def _app(help: str, commands: dict[str, tuple[str, str, tuple[str, ...]]]) -> typer.Typer:
    app = typer.Typer(help=help, no_args_is_help=True)
    for name, (summary, module, words) in commands.items():
        app.command(name, help=summary, context_settings=AS_IT_IS, add_help_option=False)(_command(module, words))
    return app


crfpp = _app(
    "CRF++'s commands with CRF++'s options, as in crfpp learn -c 2 TEMPLATE TRAIN MODEL; -h shows them.",
    {
        "learn": ("Train a model: crf_learn.", "crf_learn", ()),
        "test": ("Label files with a model, also one of CRF++: crf_test.", "crf_test", ()),
    },
)
wapiti = _app(
    "Wapiti's commands with Wapiti's options, as in wapiti train -p PATTERN TRAIN MODEL; -h shows them.",
    {
        "train": ("Train a model.", "wapiti", ("train",)),
        "label": ("Label a file with a model, also one of Wapiti.", "wapiti", ("label",)),
        "dump": ("Write a model's weights as text.", "wapiti", ("dump",)),
    },
)
crfsuite = _app(
    "CRFsuite's commands with CRFsuite's options, as in crfsuite learn -m MODEL TRAIN; -h shows them.",
    {
        "learn": ("Train a model, which CRFsuite reads, too.", "crfsuite", ("learn",)),
        "tag": ("Label a file with a model, also one of CRFsuite.", "crfsuite", ("tag",)),
        "dump": ("Write a model's weights as text.", "crfsuite", ("dump",)),
    },
)
