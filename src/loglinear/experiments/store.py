"""The store of an experiment: its finished cells in a JSON file, and models in a folder beside it.

    {"kind": "loglinear tune", "format": 2, "about": {...}, ..., "cells": {key: cell, ...}}

``about`` records the experiment the file belongs to (version, data, metric, options: its *mark*), the machine and the
date; the file is resumed for that experiment only. At the end of the experiment its summary (tables, charts, the best
setting) is added beside ``about``. The file is rewritten after each cell, so a run that is killed loses only the cells
in progress. Files that are damaged or hold something else are rejected with a message.
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import json
import math
import platform
import re
import threading
import time
import types
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from loglinear import __version__
from loglinear.data import atomic_output
from loglinear.documents import parsed_json
from loglinear.errors import DataError, LoglinearError
from loglinear.features.templates.sets import SETS
from loglinear.system import available_cores

Cell = dict[str, Any]
Shape = Any
FORMAT = 2
SHOWN = 60  # characters of a mark's value in a message


# ----------------------------------------------------------------------------------------------------------------------
# The shape that the parts of a file must have.
#
# A shape is a type (or a tuple of types), a list of one shape for all items, a dict from key to shape (``...`` is for
# all keys), or a function that tells whether a value is valid. A dict may have other keys as well.


NUMBER = (int, float)
NOTHING = type(None)


def is_finite(value: Any) -> bool:
    """A shape: finite numbers, as scores are."""
    return isinstance(value, NUMBER) and math.isfinite(value)


def misfit(value: Any, shape: Shape, place: str = "it") -> str:
    """The place of the first value that does not have its shape, as in ``about.seed``; empty if all have."""
    if isinstance(shape, types.FunctionType):
        return "" if shape(value) else place
    if isinstance(shape, list):
        if not isinstance(value, list):
            return place
        parts = [(item, shape[0], f"{place}[{number}]") for number, item in enumerate(value)]
    elif isinstance(shape, dict):
        if not isinstance(value, dict):
            return place
        wanted = dict.fromkeys(value, shape[...]) if ... in shape else shape
        if absent := [name for name in wanted if name not in value]:
            return f"{place}.{absent[0]}"
        parts = [(value[name], inner, f"{place}.{name}") for name, inner in wanted.items()]
    else:
        return "" if isinstance(value, shape) else place
    return next(filter(None, (misfit(*part) for part in parts)), "")


def read_results(path: Path, verb: str, shape: Shape = dict) -> dict[str, Any]:
    """The content of a file of results of ``loglinear VERB``.

    Raises
    ------
    DataError
        If the file holds something else, is of another version, or does not have the shape.
    """
    try:
        content = parsed_json(path.read_text(encoding="utf-8"), parse_int=_whole)
    except (ValueError, OSError) as error:
        raise DataError(f"no results of loglinear {verb} ({error}); name another file", str(path)) from None
    kind = content.get("kind") if isinstance(content, dict) else None
    if isinstance(content, dict) and content.get("format", FORMAT) != FORMAT:
        raise DataError(
            f"written by another version (format {content['format']!r:.{SHOWN}}, here {FORMAT}); name another file, or "
            "remove it to start again", str(path),
        )  # fmt: skip
    if kind != f"loglinear {verb}" or "format" not in content:
        other = f", but of {kind}" if isinstance(kind, str) and kind.startswith("loglinear ") else ""
        raise DataError(f"no results of loglinear {verb}{other}; name another file", str(path))
    if wrong := misfit(content, {"about": dict, "cells": {...: dict}}) or misfit(content, shape):
        raise unreadable(wrong, path)
    return content


def _whole(digits: str) -> int:
    """A whole number that a float can hold, too: no figure is greater."""
    if len(digits) > 300:
        raise ValueError(f"a whole number of {len(digits)} digits")
    return int(digits)


def unreadable(what: str, path: Path | None) -> DataError:
    """The error for a damaged file."""
    reason = what.removeprefix("it.")
    return DataError(f"the results cannot be read ({reason}); remove the file to start again", str(path))


# ----------------------------------------------------------------------------------------------------------------------
# The store.


class Store:
    """Finished cells by key, and models by key; several threads may use it.

    Parameters
    ----------
    path : Path or None
        The file; None keeps everything in memory.
    verb : str
        The command that makes the cells (``tune``).
    mark : dict from str to JSON value
        What all cells depend on besides their keys, under the names that messages use.
    shape : callable, optional
        From a cell's key and the cell to the shape it must have.
    resume : bool
        Continue from the file if it exists; else it is overwritten.
    command : str
        The command line, for ``about``.
    """

    def __init__(
        self, path: str | Path | None, verb: str, mark: dict[str, Any],
        shape: Callable[[str, Cell], Shape] = lambda key, cell: dict, resume: bool = True, command: str = "",
    ) -> None:  # fmt: skip
        self.path = None if path is None else Path(path)
        self.verb = verb
        self.about: dict[str, Any] = {"version": __version__, **mark, **({"command": command} if command else {})}
        self.cells: dict[str, Cell] = {}
        self._summary: dict[str, Any] = {}
        self._models: dict[str, Any] = {}
        self._since, self._lock = time.perf_counter(), threading.RLock()
        if self.path is not None and resume and self.path.exists():
            self._resume(self.path, json.loads(json.dumps({"version": __version__, **mark})), shape)

    def _resume(self, path: Path, mark: dict[str, Any], shape: Callable[[str, Cell], Shape]) -> None:
        content = read_results(path, self.verb)
        about, cells = content["about"], content["cells"]
        if other := [name for name in mark if name not in about or about[name] != mark[name]]:
            there, here = (", ".join(f"{facts.get(name)!s:.{SHOWN}}" for name in other) for facts in (about, mark))
            differs = f"{', '.join(other)} differ{'s' if len(other) == 1 else ''} (there {there}, here {here})"
            raise DataError(
                f"holds results of another experiment: {differs}; name another file, or remove it to start again",
                str(path),
            )
        wrong = misfit(about.get("clock_seconds", 0.0), NUMBER, "about.clock_seconds")
        for key, cell in cells.items():
            wrong = wrong or misfit(cell, shape(key, cell), key)
        if wrong:
            raise unreadable(wrong, path)
        self.about, self.cells = {**about, **self.about}, cells

    def get(self, key: str) -> Cell | None:
        """The cell with that key; None if it is not finished."""
        return self.cells.get(key)

    def put(self, key: str, cell: Cell, model: Any = None) -> None:
        """Store a cell, and its model if there is one: the model first, so that no cell lacks its model."""
        with self._lock:
            if model is not None:
                self._models[key] = model
                if self.path is not None and hasattr(model, "save"):
                    self.folder.mkdir(exist_ok=True)
                    model.save(self.model_path(key))
            self.cells[key] = json.loads(json.dumps(cell))  # as it is when it is read again
            now = time.perf_counter()
            spent = self.about.get("clock_seconds", 0.0) + now - self._since
            self.about |= {"machine": machine(), "date": datetime.date.today().isoformat(), "clock_seconds": spent}
            self._since, self._summary = now, {}  # the summary was made without this cell
            self._write()

    def finish(self, summary: dict[str, Any]) -> None:
        """Store the summary of the cells."""
        with self._lock:
            self._summary = summary
            self._write()

    def model(self, key: str, load: Callable[[Path], Any]) -> Any:
        """The model stored under that key; None if there is none, or it cannot be read."""
        if key not in self._models and self.path is not None and self.model_path(key).exists():
            try:
                self._models[key] = load(self.model_path(key))
            except LoglinearError:
                return None
        return self._models.get(key)

    def forget(self, key: str) -> None:
        """Delete the model of that key; its cell stays."""
        self._models.pop(key, None)
        if self.path is not None:
            self.model_path(key).unlink(missing_ok=True)

    @property
    def folder(self) -> Path:
        """The folder of the models."""
        assert self.path is not None, "models are stored beside a file"
        return self.path.with_name(f"{self.path.name}.models")

    def model_path(self, key: str) -> Path:
        """The model file of that key."""
        return self.folder / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.model"

    def _write(self) -> None:
        if self.path is not None:
            head = {"kind": f"loglinear {self.verb}", "format": FORMAT, "about": self.about}
            with atomic_output(self.path) as out:
                out.write(json.dumps({**head, **self._summary, "cells": self.cells}).encode())


@functools.cache
def machine() -> dict[str, Any]:
    """The machine and the versions, on which measured times depend."""
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


# ----------------------------------------------------------------------------------------------------------------------
# Settings as JSON, with files and functions represented by their content: the key of a result must change with it.
#
# A function is identified by its code, its default arguments and its closure, a callable object by its class's code and
# its state. Global variables, and the code of functions that it calls, are not considered.


Within = tuple[Any, ...]
SIMPLE = (type(None), bool, int, float, complex, str, bytes)


def key_of(kind: str, setting: Mapping[str, Any]) -> str:
    """The key of a cell: its kind, and a setting as :func:`setting_content` gives it."""
    return f"{kind} {json.dumps(setting, sort_keys=True, ensure_ascii=False)}"


def digest(value: Any) -> str:
    """A short hash of everything the value is made of."""
    return _hash(_described(value, ()).encode())


def setting_content(setting: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON form of options by name."""
    return {name: option_content(name, value) for name, value in setting.items()}


def option_content(name: str, value: Any) -> Any:
    """The JSON form of an option's value."""
    if isinstance(value, list | tuple):
        return [option_content(name, item) for item in value]
    return content_of(Path(value) if isinstance(value, str) and is_file(name, value) else value)


def is_file(name: str, value: str) -> bool:
    """Whether the value of that option is the name of an existing file."""
    may_be = {
        "template": value not in SETS and "\n" not in value and "%" not in value,
        "cost": value.endswith(".json"),
        "constraints": value.endswith(".json"),
        "gazetteers": True,
    }
    return may_be.get(name, False) and Path(value).is_file()


def content_of(value: Any) -> Any:
    """The JSON form of any value: itself if JSON has it, else its kind and a hash."""
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Path):
        return f"{value.name} {_hash(value.read_bytes())}" if value.is_file() else str(value)
    if isinstance(value, Mapping):
        return {str(key): content_of(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [content_of(item) for item in value]
    return f"{_name(value)} {digest(value)}"


def _name(value: Any) -> str:
    """The name of a function or class, else the value's type."""
    if isinstance(value, functools.partial):
        return _name(value.func)
    if not callable(value):
        return type(value).__name__
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


def _described(value: Any, within: Within) -> str:
    """A text of everything a value is made of, the same in every process; ``within`` are the values that contain it."""
    if any(value is outer for outer in within):
        return "itself"
    inner = (*within, value)

    def parts(values: Any) -> str:
        return ", ".join(_described(item, inner) for item in values)

    if isinstance(value, SIMPLE):
        return repr(value)
    if isinstance(value, np.ndarray):
        return f"array({value.dtype}, {value.shape}, {_hash(np.ascontiguousarray(value).tobytes())})"
    if isinstance(value, set | frozenset):
        return f"set({', '.join(sorted(_described(item, inner) for item in value))})"
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
        closure = [_cell_value(cell) for cell in value.__closure__ or ()]
        return f"function({parts((value.__code__, value.__defaults__, value.__kwdefaults__, closure))})"
    if isinstance(value, type | types.BuiltinFunctionType | types.ModuleType):
        return _name(value)
    code = [type(value).__call__] if callable(value) else []
    return f"{type(value).__qualname__}({parts([*code, *_state(value)])})"


def _cell_value(cell: Any) -> Any:
    """The value of a variable of a closure; None if it has none yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _state(value: Any) -> list[Any]:
    """The state of an object."""
    if hasattr(value, "to_dict"):
        return [value.to_dict()]
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()) if hasattr(value, name)]
    held = [vars(value)] if hasattr(value, "__dict__") else []
    held += [{name: getattr(value, name) for name in slots}] if slots else []
    return held or [re.sub(r" at 0x[0-9a-f]+", "", repr(value))]
