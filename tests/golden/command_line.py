"""The command line, run in this process."""

from __future__ import annotations

from typer.testing import CliRunner

from loglinear import LoglinearError
from loglinear.cli import app


def output_of(*arguments: object, width: int = 100) -> str:
    """What ``loglinear`` prints with these arguments; an error of the user's is raised, as in Python.

    Lines are as long as ``width`` says, without colour.
    """
    plain = {"COLUMNS": str(width), "NO_COLOR": "1", "TERM": "dumb"}
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env=plain)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if result.exit_code != 0:
        raise LoglinearError(f"loglinear {' '.join(map(str, arguments))} ended with status {result.exit_code}")
    return result.stdout_bytes.decode()
