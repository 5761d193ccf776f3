"""What the files of reproduced papers must look like (:mod:`~loglinear.experiments.shapes`)."""

from __future__ import annotations

from typing import Any

from loglinear.experiments.reproduce.parser_training import DEPENDENCIES, TREES
from loglinear.experiments.shapes import NOTHING, NUMBER, is_finite, misfit


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
