"""A table as plain data, for the terminal, Markdown and JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from loglinear.streams import visible

MISSING = "-"


@dataclass
class Row:
    """A row: its name, its figures, and its cells as text (there may be more of them)."""

    name: str
    figures: list[float | None]
    cells: list[str]


@dataclass
class Table:
    """Rows under named columns, with a title above and notes below."""

    title: str
    columns: list[str]
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, name: str, figures: Sequence[float | None], cells: Sequence[str]) -> None:
        """One more row."""
        if len(cells) != len(self.columns) - 1:
            raise ValueError(f"{len(cells)} cells for {len(self.columns) - 1} columns")
        self.rows.append(Row(name, list(figures), list(cells)))


def number(value: float | None, digits: int) -> str:
    """A figure with that many digits after the point."""
    return MISSING if value is None else f"{value:,.{digits}f}"


def times(value: float | None) -> str:
    """A ratio."""
    return MISSING if value is None else f"{value:,.1f}" if value >= 10 else f"{value:.2f}"


def size(n_bytes: int) -> str:
    """The size of a file."""
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 1e5 else f"{n_bytes / 1e3:.1f} kB"


def markdown(tables: Sequence[Table], machine: dict[str, Any], command: str) -> str:
    """The tables as a page, with the machine and the command that made them."""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    parts = [f"{code(command)}, {machine['cores']} cores of {machine['processor']}; {versions}.\n"]
    return "\n".join([*parts, *map(table_text, tables)])


def table_text(table: Table) -> str:
    """A table in Markdown, its title above and its notes below."""
    head = f"{_line(table.columns)}|{'---|' + '---:|' * (len(table.columns) - 1)}\n"
    body = "".join(_line([row.name, *row.cells]) for row in table.rows)
    notes = "".join(f"\n{plain(note)}\n" for note in table.notes)
    return f"**{plain(table.title)}**\n\n{head}{body}{notes}"


def _line(cells: Sequence[str]) -> str:
    """A row of Markdown; bars within cells are escaped."""
    return f"| {' | '.join(plain(cell).replace('|', chr(92) + '|') for cell in cells)} |\n"


def plain(text: str) -> str:
    """A text of others on one line of Markdown: what a browser would take for tags or entities is shown as it is."""
    return re.sub(r"&(?=#?\w+;)", "&amp;", re.sub(r"<(?=[A-Za-z/!?])", "&lt;", " ".join(visible(text).split("\n"))))


def code(text: str) -> str:
    """A text in Markdown's marks of code, of which it may have some itself."""
    marks = "`" * (1 + max((len(found) for found in re.findall("`+", text)), default=0))
    return f"{marks} {text} {marks}" if len(marks) > 1 else f"`{text}`"
