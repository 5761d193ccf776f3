"""What warm starts, halving and jobs save, on CoNLL-2000 (the first 2,000 training sentences; dev data: the last 900).

    python -m benchmarks.tuning

Seconds are those of the processor, of all threads together, and those on the clock. Each way is gone once before, on a
few sentences, so that no kernels are compiled while it is timed.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.corpora import data_folder
from loglinear import Tagger, read_columns, tune

L2 = {"l2": [0.1, 0.3, 1.0, 3.0]}
TWO = {"l2": [0.1, 1.0]}
CAPS = {"criterion:C": [0.01, 0.1, 1.0], "cost": ["hamming:1", "hamming:5"]}
COSTS = {"l2": [0.1, 0.3, 1.0], "cost": ["hamming:1", "hamming:3", "recall:2"]}
WAYS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "memm, four penalties, warm": ({"criterion": "memm"}, L2, {}),
    "memm, four penalties, cold": ({"criterion": "memm"}, L2, {"warm": False}),
    "cll, the same, dual (cold)": ({}, L2, {}),
    "cll, the same, lbfgs, warm": ({"optimizer": "lbfgs"}, L2, {}),
    "softmax-margin, nine settings": ({"criterion": "softmax-margin"}, COSTS, {}),
    "softmax-margin, halving 0.1, 0.3, 1": ({"criterion": "softmax-margin"}, COSTS, {"halving": (0.1, 0.3, 1.0)}),
    "mira, three caps, two costs": ({"criterion": "mira"}, CAPS, {}),
    "mira, the same, two jobs": ({"criterion": "mira"}, CAPS, {"jobs": 2}),
    "max-margin, two penalties": ({"criterion": "max-margin", "max_iter": 50, "threads": 1}, TWO, {}),
    "max-margin, the same, two jobs": ({"criterion": "max-margin", "max_iter": 50, "threads": 2}, TWO, {"jobs": 2}),
}


def main() -> None:
    corpus = read_columns(data_folder() / "train.txt", layout=False)
    train, dev = corpus.select(np.arange(2000)), corpus.select(np.arange(len(corpus) - 900, len(corpus)))
    table = Table("grid", "passes", "seconds", "on the clock", "best", "F1")
    for name, (options, grid, how) in WAYS.items():
        tagger = Tagger(template="chunking", **options)
        few = corpus.select(np.arange(100))
        tune(few, X_dev=few, grid=grid, tagger=tagger, **how)
        began, clock = time.process_time(), time.perf_counter()
        found = tune(train, X_dev=dev, grid=grid, tagger=tagger, **how)
        seconds, clock = time.process_time() - began, time.perf_counter() - clock
        passes = sum(cell.passes for cell in found.cells)
        table.add_row(name, str(passes), f"{seconds:.1f}", f"{clock:.1f}", found.best.name, f"{found.best_score:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
