"""What the verbs that read tables share: which column is the label, and what the others are."""

from __future__ import annotations

from typing import Annotated

import typer

TABLE = "The table"

Label = Annotated[
    str | None, typer.Option("--label", metavar="COLUMN", help="Column of the labels.", rich_help_panel=TABLE)
]
NumberColumns = Annotated[
    list[str] | None,
    typer.Option("--number", metavar="COLUMN", help="A column of numbers; may be repeated.", rich_help_panel=TABLE),
]
CategoryColumns = Annotated[
    list[str] | None,
    typer.Option("--category", metavar="COLUMN", help="A column of names; may be repeated.", rich_help_panel=TABLE),
]
TextColumns = Annotated[
    list[str] | None,
    typer.Option("--text", metavar="COLUMN", help="A column of text; may be repeated.", rich_help_panel=TABLE),
]
Ignored = Annotated[
    list[str] | None,
    typer.Option("--ignore", metavar="COLUMN", help="A column to leave out; may be repeated.", rich_help_panel=TABLE),
]
Words = Annotated[
    str,
    typer.Option(
        help="How text is cut: words (and marks), tokens or characters, as in words:ngrams=2,lowercase=no,presence.",
        rich_help_panel=TABLE,
    ),
]
RawNumbers = Annotated[
    bool,
    typer.Option("--raw-numbers", help="Leave numbers as they are, not standardised.", rich_help_panel=TABLE),
]
TableFormat = Annotated[
    str,
    typer.Option("--format", help="Format: auto (by the file's name), csv, tsv or jsonl.", rich_help_panel=TABLE),
]


def kinds_of(
    numbers: list[str] | None, categories: list[str] | None, texts: list[str] | None, label: str | None = None
) -> dict[str, str]:
    """What the columns are that the command line names; a column named twice is refused."""
    from loglinear.errors import OptionError

    kinds: dict[str, str] = {}
    for kind, names in (("number", numbers), ("category", categories), ("text", texts)):
        for name in names or []:
            if name == label:
                raise OptionError(f"column {name!r} is the label, and cannot be a {kind} to learn from")
            if kinds.get(name, kind) != kind:
                raise OptionError(f"column {name!r} cannot be both a {kinds[name]} and a {kind}")
            kinds[name] = kind
    return kinds
