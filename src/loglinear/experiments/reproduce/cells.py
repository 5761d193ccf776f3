"""The finished cells of a run, kept in a JSON file as they are made, so that a stopped run goes on where it was.

The file also says what it is of (paper, version, seed, machine, date, command), and at the end holds the tables and
charts made of the cells: a page of results is written from it alone.
"""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from loglinear import __version__
from loglinear.data.files import atomic_output
from loglinear.errors import DataError
from loglinear.experiments.bench.results import machine
from loglinear.experiments.reproduce.figures import Chart
from loglinear.experiments.reproduce.result_shapes import cell_shape
from loglinear.experiments.reproduce.training import Cell, Job
from loglinear.experiments.reproduce.workers import Workers
from loglinear.experiments.shapes import NUMBER, misfit
from loglinear.experiments.table import Table

SHOWN = ("precision", "recall", "f1", "accuracy", "uas", "las")
FORMAT = 2
KIND = "loglinear reproduce"


def read_results(path: Path) -> dict[str, Any]:
    """The content of a file of results.

    Raises
    ------
    DataError
        If it is something else, or of another version.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        raise DataError(f"no results of {KIND} ({error})", str(path)) from None
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise DataError(f"no results of {KIND}", str(path))
    if content.get("format") != FORMAT:
        raise DataError(f"written by another version (format {content.get('format')}); run it anew", str(path))
    if wrong := misfit(content, {"about": dict, "cells": {...: dict}}):
        raise unreadable(wrong, path)
    return content


def unreadable(what: str, path: Path | None) -> DataError:
    """The error of a file of results that has been damaged."""
    return DataError(f"results that cannot be read ({what.removeprefix('it.')}); run it anew", str(path))


@dataclass
class Cells:
    """Cells by name.

    Parameters
    ----------
    path : Path or None
        The file, read if it is there; None keeps them in memory alone.
    say : callable
        Told of each cell that is made.
    workers : Workers
        What trains.
    about : dict
        What the run is: ``paper``, ``version``, ``seed`` and ``quick``, which must be those of the file if it is there,
        and ``command``.
    """

    path: Path | None
    say: Callable[[str], None] = print
    workers: Workers = field(default_factory=lambda: Workers(1))
    about: dict[str, Any] = field(default_factory=dict)
    done: dict[str, Cell] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._content: dict[str, Any] = {}
        self._since = time.perf_counter()
        if self.path is None or not self.path.exists():
            return
        self._content = read_results(self.path)
        kept = self._content["about"]
        for what in ("paper", "version", "seed", "quick"):
            if what in self.about and self.about[what] != kept.get(what):
                raise DataError(
                    f"the results of another run ({what} {kept.get(what)}, now {self.about[what]}); name another file",
                    str(self.path),
                )
        if misfit(kept.get("clock_seconds", 0.0), NUMBER):
            raise unreadable("about.clock_seconds", self.path)
        self.done = self._content["cells"]
        self.about = {**kept, **self.about}

    @property
    def models(self) -> Path:
        """The folder of models that other cells start from."""
        if self.path is None:
            raise ValueError("cells that others start from need a file")
        folder = self.path.with_name(f"{self.path.name}.models")
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def trained(self, jobs: dict[str, Job]) -> dict[str, Cell]:
        """The cells of these trainings, those that are not there yet made by the workers, several at a time."""
        new = {name: job for name, job in jobs.items() if not self._has(name, job)}
        for number, (name, cell) in enumerate(self.workers.run(new), 1):
            self._keep(name, cell)
            self.say(f"{number} of {len(new)}: {name}: {_outcome(cell)}, {cell['seconds']:.0f} s")
        found = {name: self.done[name] for name in jobs}
        if len({len(cell["counts"]) for cell in found.values() if "failed" not in cell}) > 1:
            raise unreadable("counts of different test sentences", self.path)
        return found

    def _has(self, name: str, job: Job) -> bool:
        cell = self.done.get(name)
        if cell is None or cell.get("job") != json.loads(json.dumps(job.identity)):
            return False
        if wrong := misfit(cell, cell_shape(job.task, "failed" in cell), name):
            raise unreadable(wrong, self.path)
        return not job.keep or Path(job.keep).exists()

    def _keep(self, name: str, cell: Cell) -> None:
        now = time.perf_counter()
        self.done[name] = cell
        self.about |= {
            "version": __version__,
            "machine": machine(),
            "date": datetime.date.today().isoformat(),
            "clock_seconds": self.about.get("clock_seconds", 0.0) + now - self._since,
        }
        self._since = now
        self._content = {}  # tables and charts are made of all the cells
        self._write()

    def finish(self, tables: list[Table], charts: list[Chart]) -> None:
        """Keep what was made of the cells."""
        made = {"tables": [asdict(table) for table in tables], "charts": [asdict(chart) for chart in charts]}
        self._content = json.loads(json.dumps(made))
        self._write()

    def _write(self) -> None:
        if self.path is not None:
            content = {"kind": KIND, "format": FORMAT, "about": self.about, **self._content, "cells": self.done}
            with atomic_output(self.path) as out:
                out.write(json.dumps(content).encode())


def _outcome(cell: Cell) -> str:
    """What came of a training, in a few words: the figures it is chosen by, or those of the test sentences."""
    if "failed" in cell:
        return str(cell["failed"])
    part = "dev" if "dev" in cell else "test"
    shown = [f"{name} {cell[part][name]:.2f}" for name in SHOWN if name in cell[part]]
    return f"{', '.join(shown)} on {part}"
