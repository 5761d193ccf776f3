"""The finished cells of an experiment, in a JSON file that is whole at any moment, and models beside it.

A file says what it is of: a mark of the data, the version, how cells are judged. It is never gone on with for anything
else. A cell's key is its setting, so that a grid that has grown finds the cells that it has already.
"""

from __future__ import annotations

import hashlib
import json
import threading
from pathlib import Path
from typing import Any

from loglinear import __version__
from loglinear.data import atomic_output
from loglinear.errors import DataError, LoglinearError, OptionError
from loglinear.estimators.tagger import Tagger
from loglinear.experiments.shapes import NOTHING, NUMBER, is_finite, misfit

Cell = dict[str, Any]
FORMAT = 1


class Cells:
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
                "format": FORMAT,
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
        if format_ != FORMAT or verb != self.verb:
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
