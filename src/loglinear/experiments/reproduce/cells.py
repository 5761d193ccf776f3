"""The finished cells of a table, kept in a JSON file as they are made, so that a stopped run goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loglinear.data.files import atomic_output
from loglinear.errors import DataError

Cell = dict[str, Any]


@dataclass
class Cells:
    """Cells by name.

    Parameters
    ----------
    path : Path or None
        The file, read if it is there; None keeps them in memory alone.
    say : callable
        Told of each cell that is made.
    """

    path: Path | None
    say: Callable[[str], None] = print
    done: dict[str, Cell] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.path is None or not self.path.exists():
            return
        try:
            self.done = json.loads(self.path.read_text(encoding="utf-8"))
        except (ValueError, OSError) as error:
            raise DataError(f"no results of loglinear reproduce ({error})", str(self.path)) from None
        if not isinstance(self.done, dict) or not all(isinstance(cell, dict) for cell in self.done.values()):
            raise DataError("no results of loglinear reproduce", str(self.path))

    def get(self, name: str, make: Callable[[], Cell]) -> Cell:
        """The cell of that name, made if it is not there yet."""
        if name not in self.done:
            self.say(f"{name} ...")
            self.done[name] = make()
            if self.path is not None:
                with atomic_output(self.path) as out:
                    out.write(json.dumps(self.done).encode())
        return self.done[name]
