"""What the tables share: choosing on the tuning sentences, the published figure beside ours, the bootstrap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from loglinear.errors import DataError
from loglinear.evaluation.significance import paired_bootstrap
from loglinear.experiments.reproduce.training import Cell
from loglinear.experiments.table import MISSING, number

BOOTSTRAP = "p is that of the paired bootstrap by sentence (10,000 draws)."
PROCESSOR = (
    "Seconds are of processor time on one thread: reading features off the data and expectations are counted, loading "
    "compiled kernels is not."
)


def best(cells: dict[str, Cell], metric: str = "f1") -> str:
    """Name of the cell that is best on the tuning sentences; the first of equals."""
    able = {name: cell for name, cell in cells.items() if "failed" not in cell}
    if not able:
        raise DataError(f"no training came to an end: {next(iter(cells.values()))['failed']}")
    return max(able, key=lambda name: able[name]["dev"][metric])


def against(base: Cell, cell: Cell) -> str:
    """How much better a cell is than another on the test sentences, with the bootstrap's p."""
    compared = paired_bootstrap(np.array(base["counts"]), np.array(cell["counts"]))
    return f"{compared.second - compared.first:+.2f} ({compared.p:.3f})"


def beside(figures: Sequence[float], published: Sequence[float | None]) -> list[str]:
    """The published figures, then how much ours are above the last of them; nothing where there is none."""
    shown = [number(value, 2) for value in published]
    last = published[-1]
    return [" ".join(shown), f"{figures[-1] - last:+.2f}"] if last is not None else [MISSING, MISSING]


def penalty(variance: float) -> dict[str, Any]:
    """The tagger's options for a variance; none of a penalty if it is infinite."""
    return {"l2": 0.0} if np.isinf(variance) else {"variance": variance}
