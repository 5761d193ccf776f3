"""What experiments have finished, kept in files: cells of tuning, cells of reproduced papers, measurements.

The finished cells of an experiment, in a JSON file that is whole at any moment, and models beside it.

A file says what it is of: a mark of the data, the version, how cells are judged. It is never gone on with for anything
else. A cell's key is its setting, so that a grid that has grown finds the cells that it has already.
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import json
import math
import os
import platform
import re
import threading
import time
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from loglinear import __version__
from loglinear.data import atomic_output
from loglinear.errors import DataError, LoglinearError, OptionError
from loglinear.estimators.tagger.estimator import Tagger
from loglinear.experiments.bench.job import PLACES
from loglinear.experiments.bench.job import Job as Measurement
from loglinear.experiments.charts import Chart
from loglinear.experiments.reproduce.tasks import DEPENDENCIES, TREES
from loglinear.experiments.tables import Table
from loglinear.experiments.workers import Workers
from loglinear.features.templates.sets import SETS
from loglinear.system import available_cores

if TYPE_CHECKING:
    from loglinear.experiments.reproduce.tasks import Job


# ----------------------------------------------------------------------------------------------------------------------
# What a file of results must look like where it is used, so that a damaged one is refused in a sentence.
#
# A shape is a type (or a tuple of types), a list of one shape for all items, a dict from key to shape (``...`` is for
# all keys), or a function that says whether a value will do. Other keys than those of a dict are not looked at.


NUMBER = (int, float)
NOTHING = type(None)


def is_finite(value: Any) -> bool:
    """A shape: numbers that a score can be."""
    return isinstance(value, NUMBER) and math.isfinite(value)


def misfit(value: Any, shape: Any, place: str = "it") -> str:
    """The place of the first value that is not of its shape, as in ``about.seed``; empty if there is none."""
    if isinstance(shape, types.FunctionType):
        return "" if shape(value) else place
    if isinstance(shape, list):
        if not isinstance(value, list):
            return place
        parts = [(each, shape[0], f"{place}[{number}]") for number, each in enumerate(value)]
    elif isinstance(shape, dict):
        if not isinstance(value, dict):
            return place
        wanted = dict.fromkeys(value, shape[...]) if ... in shape else shape
        if absent := [name for name in wanted if name not in value]:
            return f"{place}.{absent[0]}"
        parts = [(value[name], each, f"{place}.{name}") for name, each in wanted.items()]
    else:
        return "" if isinstance(value, shape) else place
    return next(filter(None, (misfit(*part) for part in parts)), "")


# ----------------------------------------------------------------------------------------------------------------------
# Cells of tuning and of comparisons, in a file that is whole at any moment.


Cell = dict[str, Any]
TUNING_FORMAT = 1


class TuningCells:
    """Cells by key, and taggers by key.

    Parameters
    ----------
    path : Path or None
        The file, gone on with if it is there; None keeps all in memory.
    verb : str
        What makes the cells (``tune``), for messages.
    mark : dict from str to JSON value
        All that the cells depend on beside their keys, by the name that a message is to give it.
    """

    def __init__(self, path: str | Path | None, verb: str, mark: dict[str, Any]) -> None:
        self.path = None if path is None else Path(path)
        self.verb, self.mark = verb, {"version": __version__, **mark}
        self.done: dict[str, Cell] = {}
        self.summary: dict[str, Any] = {}
        self._taggers: dict[str, Tagger] = {}
        self._lock = threading.RLock()
        if self.path is not None and self.path.exists():
            self.done = self._read(self.path)

    def get(self, key: str) -> Cell | None:
        """The cell of that key, None if it is not finished."""
        with self._lock:
            return self.done.get(key)

    def put(self, key: str, cell: Cell, tagger: Tagger | None = None) -> None:
        """Keep a cell, and its tagger if there is one: that first, so that no cell is without."""
        with self._lock:
            if tagger is not None:
                self._taggers[key] = tagger
                if self.path is not None:
                    self.folder.mkdir(exist_ok=True)
                    tagger.save(self.model_path(key))
            self.done[key] = cell
            self.save()

    def tagger(self, key: str, like: Tagger) -> Tagger | None:
        """The tagger kept under that key, None if there is none; ``like`` has its options."""
        with self._lock:
            if key not in self._taggers and self.path is not None and self.model_path(key).exists():
                own = None if like.base is None or isinstance(like.base, str) else like.base
                try:
                    self._taggers[key] = Tagger.load(self.model_path(key), base=own)
                except LoglinearError:  # trained again
                    return None
            return self._taggers.get(key)

    def forget(self, key: str) -> None:
        """Let the tagger of that key go; its cell stays."""
        with self._lock:
            self._taggers.pop(key, None)
            if self.path is not None:
                self.model_path(key).unlink(missing_ok=True)

    @property
    def folder(self) -> Path:
        """Where the models are."""
        assert self.path is not None
        return self.path.with_name(self.path.name + ".models")

    def model_path(self, key: str) -> Path:
        """The model file of that key."""
        return self.folder / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.model"

    def save(self) -> None:
        """Write the file, whole or not at all."""
        if self.path is None:
            return
        with self._lock:
            content = {
                "format": TUNING_FORMAT,
                "verb": self.verb,
                "mark": self.mark,
                **self.summary,
                "cells": [{"key": json.loads(key), **cell} for key, cell in self.done.items()],
            }
            text = json.dumps(content, ensure_ascii=False, indent=1)
            with atomic_output(self.path) as out:
                out.write(text.encode())

    def _read(self, path: Path) -> dict[str, Cell]:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            found, format_, verb = dict(content["mark"]), content["format"], content["verb"]
            cells = {key_of(key): cell for key, cell in map(_checked, content["cells"])}
        except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError) as error:
            raise DataError(f"no results of loglinear {self.verb} ({error}); name another file", str(path)) from None
        if format_ != TUNING_FORMAT or verb != self.verb:
            raise DataError(f"results of loglinear {verb}, format {format_}; name another file", str(path))
        if other := [name for name in {**self.mark, **found} if self.mark.get(name) != found.get(name)]:
            differs = f"{', '.join(other)} differ{'s' if len(other) == 1 else ''}"
            raise OptionError(
                f"{path} holds results of another experiment: {differs} (there {_brief(found, other)}, here "
                f"{_brief(self.mark, other)}); name another file, or remove it to start anew"
            )
        return cells


def _checked(cell: Cell) -> tuple[dict[str, Any], Cell]:
    """The key of a cell that was read, and the rest of it; raises ValueError where it is not what it should be."""
    key = cell.pop("key")
    shape = next((shape for part, shape in SHAPES.items() if part in key), SHAPES[TUNED])
    if wrong := misfit(cell, shape, "a cell"):
        raise ValueError(wrong)
    return key, cell


def _point(value: Any) -> bool:
    return not misfit(value, [NUMBER]) and len(value) == 2


TUNED = "options"
SCORED = {"score": is_finite, "scores": {...: is_finite}}
SHAPES: dict[str, Any] = {  # of cells, by what is in their keys
    "final": {
        "seconds": NUMBER, "passes": (int, NOTHING), "objective": (*NUMBER, NOTHING), "features": int, "bytes": int,
        "history": [_point],
    },
    "size": SCORED,
    TUNED: {**SCORED, "seconds": NUMBER, "passes": (int, NOTHING), "features": int, "warm": bool},
}  # fmt: skip


def key_of(setting: dict[str, Any]) -> str:
    """A setting as a key."""
    return json.dumps(setting, sort_keys=True, ensure_ascii=False)


def _brief(mark: dict[str, Any], names: list[str]) -> str:
    return ", ".join(f"{mark.get(name)}" for name in names)


# ----------------------------------------------------------------------------------------------------------------------
# The finished cells of a run, kept in a JSON file as they are made, so that a stopped run goes on where it was.
#
# The file also says what it is of (paper, version, seed, machine, date, command), and at the end holds the tables and
# charts made of the cells: a page of results is written from it alone.


SHOWN = ("precision", "recall", "f1", "accuracy", "uas", "las")
REPRODUCE_FORMAT = 2
REPRODUCE_KIND = "loglinear reproduce"


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
        raise DataError(f"no results of {REPRODUCE_KIND} ({error})", str(path)) from None
    if not isinstance(content, dict) or content.get("kind") != REPRODUCE_KIND:
        raise DataError(f"no results of {REPRODUCE_KIND}", str(path))
    if content.get("format") != REPRODUCE_FORMAT:
        raise DataError(f"written by another version (format {content.get('format')}); run it anew", str(path))
    if wrong := misfit(content, {"about": dict, "cells": {...: dict}}):
        raise unreadable(wrong, path)
    return content


def unreadable(what: str, path: Path | None) -> DataError:
    """The error of a file of results that has been damaged."""
    return DataError(f"results that cannot be read ({what.removeprefix('it.')}); run it anew", str(path))


@dataclass
class ReproduceCells:
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
            content = {
                "kind": REPRODUCE_KIND,
                "format": REPRODUCE_FORMAT,
                "about": self.about,
                **self._content,
                "cells": self.done,
            }
            with atomic_output(self.path) as out:
                out.write(json.dumps(content).encode())


def _outcome(cell: Cell) -> str:
    """What came of a training, in a few words: the figures it is chosen by, or those of the test sentences."""
    if "failed" in cell:
        return str(cell["failed"])
    part = "dev" if "dev" in cell else "test"
    shown = [f"{name} {cell[part][name]:.2f}" for name in SHOWN if name in cell[part]]
    return f"{', '.join(shown)} on {part}"


# ----------------------------------------------------------------------------------------------------------------------
# What has been measured so far, kept in a JSON file after every measurement, so that nothing is lost by Ctrl-C.


BENCH_FORMAT = 1


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    versions = {"loglinear": __version__, "python": platform.python_version()}
    for name in ("numpy", "numba", "python-crfsuite"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return {"cores": available_cores(), "processor": _processor(), "system": platform.system(), "versions": versions}


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


class Results:
    """Measurements by key.

    Parameters
    ----------
    path : Path or None
        The file that keeps them.
    resume : bool
        Begin with what the file holds.
    """

    def __init__(self, path: Path | None = None, resume: bool = False) -> None:
        self.path = path
        self.runs: dict[str, tuple[Measurement, dict[str, Any]]] = {}
        self.asked: set[str] = set()
        self.corpora: dict[str, dict[str, Any]] = {}
        self.tables: list[dict[str, Any]] = []
        if resume and path is not None and path.exists():
            self._read(path)

    def add(self, job: Measurement, result: dict[str, Any]) -> None:
        """Keep a measurement, on disk too."""
        self.runs[job.key] = (job, result)
        self.save()

    @property
    def current(self) -> list[tuple[Measurement, dict[str, Any]]]:
        """The measurements that were asked for; a file may hold others, with other settings."""
        return [run for key, run in self.runs.items() if key in self.asked]

    def of(self, kind: str, **wanted: Any) -> list[dict[str, Any]]:
        """Results of the current jobs of that kind whose fields are as wanted, those that failed left out."""
        return [
            result
            for job, result in self.current
            if job.kind == kind and "failed" not in result and all(getattr(job, n) == v for n, v in wanted.items())
        ]

    def save(self) -> None:
        """Write the file, whole or not at all."""
        if self.path is None:
            return
        runs = {}
        for key, (job, result) in self.runs.items():
            fields = {name: value for name, value in job.to_dict().items() if name not in PLACES}
            runs[key] = {"job": fields, "result": result}
        content = {
            "format": BENCH_FORMAT, "machine": machine(), "corpora": self.corpora, "tables": self.tables, "runs": runs,
        }  # fmt: skip
        with atomic_output(self.path) as out:
            out.write(json.dumps(content, indent=1).encode())

    def _read(self, path: Path) -> None:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["format"] != BENCH_FORMAT:
                raise DataError(f"written by another version (format {content['format']}); measure anew", str(path))
            for run in content["runs"].values():
                job = Measurement.from_dict({**dict.fromkeys(PLACES, ""), **run["job"]})
                self.runs[job.key] = (job, dict(run["result"]))
            self.corpora = dict(content["corpora"])
        except DataError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"no results of loglinear bench ({error}); leave out --resume", os.fspath(path)) from None


# ----------------------------------------------------------------------------------------------------------------------
# What the files of reproduced papers must look like.


def _counted(value: Any) -> bool:
    """Counts [S, 3] of at least one sentence."""
    rows = value if isinstance(value, list) else []
    return bool(rows) and all(
        isinstance(row, list) and len(row) == 3 and all(isinstance(count, int) for count in row) for row in rows
    )


def _figures(*names: str) -> dict[str, Any]:
    return dict.fromkeys(names, is_finite)


CHUNKS, LABELS = _figures("precision", "recall", "f1"), _figures("accuracy")
TRAINED = {"counts": _counted, "seconds": NUMBER, "sentences": int}
FAILED = {"failed": str, "seconds": NUMBER}
PARSED = {
    TREES: {**TRAINED, "test": {**CHUNKS, "exact": (*NUMBER, NOTHING)}, "wrong_edges": str},
    DEPENDENCIES: {**TRAINED, "test": {**_figures("uas", "las"), "exact": (*NUMBER, NOTHING)}},
}


def cell_shape(task: str, failed: bool) -> Any:
    """What the tables look at in a cell of that task."""
    if task in PARSED:
        return PARSED[task]
    if failed:
        return FAILED
    figures = LABELS if task == "tags" else CHUNKS
    return {**TRAINED, "dev": figures, "test": figures, "iterations": (int, NOTHING), "features": (int, NOTHING)}


def _line(value: Any) -> bool:
    """A line of a chart: as many y, and labels if there are any, as x."""
    if misfit(value, {"name": str, "x": list, "y": list}):
        return False
    x, y = value["x"], value["y"]
    labels = value.get("labels", x)
    if misfit(x, [(*NUMBER, str)]) or misfit(y, [is_finite]) or misfit(labels, [(*NUMBER, str)]):
        return False
    return bool(len(x) == len(y) == len(labels))


def _is_file_name(value: Any) -> bool:
    return isinstance(value, str) and value.replace("-", "").isalnum()


TABLE = {
    "title": str, "columns": [str], "notes": [str],
    "rows": [{"name": str, "figures": [(*NUMBER, NOTHING)], "cells": [str]}],
}  # fmt: skip
CHART = {
    "name": _is_file_name, "title": str, "x_label": str, "y_label": str, "note": str, "log_x": bool,
    "kind": lambda value: value in ("lines", "bars"), "lines": lambda value: bool(value) and not misfit(value, [_line]),
}  # fmt: skip
FINISHED = {
    "about": {
        "paper": str, "command": str, "seed": int, "date": str, "clock_seconds": NUMBER,
        "machine": {"versions": {...: str}, "cores": int, "processor": str, "system": str},
    },
    "tables": [TABLE], "charts": [CHART], "cells": {...: {"seconds": NUMBER}},
}  # fmt: skip


# ----------------------------------------------------------------------------------------------------------------------
# Settings as JSON keeps them, files and functions by what they hold: a key of results must change when they do.
#
# A function is known by its code, its default arguments and the variables around it, a callable object by its class's
# code and its state. What is not looked at are global variables, and what other functions it calls are made of.


Within = tuple[Any, ...]
SIMPLE = (type(None), bool, int, float, complex, str, bytes)


def setting_content(setting: Mapping[str, Any]) -> dict[str, Any]:
    """Options by name."""
    return {name: option_content(name, value) for name, value in setting.items()}


def option_content(name: str, value: Any) -> Any:
    """The value of an option."""
    if isinstance(value, list | tuple):
        return [option_content(name, one) for one in value]
    return content_of(Path(value) if isinstance(value, str) and _is_file(name, value) else value)


def _is_file(name: str, value: str) -> bool:
    """Whether the value of that option is the name of a file that is there."""
    may_be = {
        "template": value not in SETS and "\n" not in value and "%" not in value,
        "cost": value.endswith(".json"),
        "constraints": value.endswith(".json"),
        "gazetteers": True,
    }
    return may_be.get(name, False) and Path(value).is_file()


def content_of(value: Any) -> Any:
    """Any value: as it is if JSON can keep it, else its kind and a few digits that change with it."""
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Path):
        return f"{value.name} {_hash(value.read_bytes())}" if value.is_file() else str(value)
    if isinstance(value, Mapping):
        return {str(key): content_of(one) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [content_of(one) for one in value]
    return f"{_name(value)} {_hash(_described(value, ()).encode())}"


def _name(value: Any) -> str:
    """What a value is called."""
    if isinstance(value, functools.partial):
        return _name(value.func)
    if not callable(value):
        return type(value).__name__
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


def _described(value: Any, within: Within) -> str:
    """All that a value is made of, the same in every process; ``within`` are the values that it is a part of."""
    if any(value is outer for outer in within):
        return "itself"
    inner = (*within, value)

    def parts(values: Any) -> str:
        return ", ".join(_described(one, inner) for one in values)

    if isinstance(value, SIMPLE):
        return repr(value)
    if isinstance(value, np.ndarray):
        return f"array({value.dtype}, {value.shape}, {_hash(np.ascontiguousarray(value).tobytes())})"
    if isinstance(value, set | frozenset):
        return f"set({', '.join(sorted(_described(one, inner) for one in value))})"
    if isinstance(value, Mapping):
        return f"mapping({parts(value.items())})"
    if isinstance(value, Sequence):
        return f"{type(value).__name__}({parts(value)})"
    if isinstance(value, types.CodeType):
        return f"code({value.co_code!r}, {parts(value.co_consts)}, {value.co_names})"
    if isinstance(value, functools.partial):
        return f"partial({parts((value.func, value.args, value.keywords))})"
    if isinstance(value, types.MethodType):
        return f"method({parts((value.__func__, value.__self__))})"
    if isinstance(value, types.FunctionType):
        around = [_of_cell(cell) for cell in value.__closure__ or ()]
        return f"function({parts((value.__code__, value.__defaults__, value.__kwdefaults__, around))})"
    if isinstance(value, type | types.BuiltinFunctionType | types.ModuleType):
        return _name(value)
    code = [type(value).__call__] if callable(value) else []
    return f"{type(value).__qualname__}({parts([*code, *_state(value)])})"


def _of_cell(cell: Any) -> Any:
    """What a variable around a function is; None if it has no value yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _state(value: Any) -> list[Any]:
    """What an object holds."""
    if hasattr(value, "to_dict"):
        return [value.to_dict()]
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()) if hasattr(value, name)]
    held = [vars(value)] if hasattr(value, "__dict__") else []
    held += [{name: getattr(value, name) for name in slots}] if slots else []
    return held or [re.sub(r" at 0x[0-9a-f]+", "", repr(value))]
