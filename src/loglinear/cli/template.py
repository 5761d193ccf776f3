"""``loglinear template``: print a named template set, to read or to change."""

from __future__ import annotations

from typing import Annotated

import typer

from loglinear.cli.common import say


def template_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="chunking, pos, ner or words.")],
    columns: Annotated[int, typer.Option(min=1, help="Columns besides the label; ner uses a second one as tags.")] = 2,
) -> None:
    """Print a named template set.

    Examples
    --------
    loglinear template chunking
    loglinear template ner --columns 1 > mine.txt     (edit it, then: loglinear train ... --template mine.txt)
    """
    from loglinear.features.templates.sets import template_text

    say(template_text(name, columns), nl=False)
