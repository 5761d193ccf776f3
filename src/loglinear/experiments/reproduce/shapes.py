"""What a file of results must look like where it is used, so that a damaged one is refused in a sentence.

A shape is a type (or a tuple of types), a list of one shape for all items, a dict from key to shape (``...`` is for
all keys), or a function that says whether a value will do.
"""

from __future__ import annotations

import types
from typing import Any

from loglinear.experiments.reproduce.parser_training import DEPENDENCIES, TREES

NUMBER = (int, float)
NOTHING = type(None)


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


def _counted(value: Any) -> bool:
    """Counts [S, 3] of at least one sentence."""
    rows = value if isinstance(value, list) else []
    return bool(rows) and all(
        isinstance(row, list) and len(row) == 3 and all(isinstance(count, int) for count in row) for row in rows
    )


def _figures(*names: str) -> dict[str, Any]:
    return dict.fromkeys(names, NUMBER)


CHUNKS, LABELS = _figures("precision", "recall", "f1"), _figures("accuracy")
TRAINED = {"counts": _counted, "seconds": NUMBER, "sentences": int}
FAILED = {"failed": str, "seconds": NUMBER}
PARSED = {
    TREES: {**TRAINED, "test": {**CHUNKS, "exact": (*NUMBER, NOTHING)}, "wrong_edges": str},
    DEPENDENCIES: {**TRAINED, "test": {**_figures("uas", "las"), "exact": (*NUMBER, NOTHING)}},
}


def cell_shape(task: str, failed: bool) -> Any:
    """What the tables look at in a cell of that task."""
    if failed:
        return FAILED
    if task in PARSED:
        return PARSED[task]
    figures = LABELS if task == "tags" else CHUNKS
    return {**TRAINED, "dev": figures, "test": figures, "iterations": (int, NOTHING), "features": (int, NOTHING)}


def _line(value: Any) -> bool:
    """A line of a chart: as many y, and labels if there are any, as x."""
    if misfit(value, {"name": str, "x": list, "y": list}):
        return False
    x, y = value["x"], value["y"]
    labels = value.get("labels", x)
    if misfit(x, [(*NUMBER, str)]) or misfit(y, [NUMBER]) or misfit(labels, [(*NUMBER, str)]):
        return False
    return bool(len(x) == len(y) == len(labels))


def _file_name(value: Any) -> bool:
    return isinstance(value, str) and value.replace("-", "").isalnum()


TABLE = {
    "title": str, "columns": [str], "notes": [str],
    "rows": [{"name": str, "figures": [(*NUMBER, NOTHING)], "cells": [str]}],
}  # fmt: skip
CHART = {
    "name": _file_name, "title": str, "x_label": str, "y_label": str, "note": str, "log_x": bool,
    "kind": lambda value: value in ("lines", "bars"), "lines": lambda value: bool(value) and not misfit(value, [_line]),
}  # fmt: skip
FINISHED = {
    "about": {
        "paper": str, "command": str, "seed": int, "date": str, "clock_seconds": NUMBER,
        "machine": {"versions": {...: str}, "cores": int, "processor": str, "system": str},
    },
    "tables": [TABLE], "charts": [CHART], "cells": {...: {"seconds": NUMBER}},
}  # fmt: skip
