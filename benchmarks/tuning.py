"""What warm starts and halving save, on CoNLL-2000 (the first 2,000 training sentences, the last 900 as dev data).

    python -m benchmarks.tuning

Seconds are those of the processor, of all threads together.
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
COSTS = {"l2": [0.1, 0.3, 1.0], "cost": ["hamming:1", "hamming:3", "recall:2"]}
WAYS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "memm, four penalties, warm": ({"criterion": "memm"}, L2, {}),
    "memm, four penalties, cold": ({"criterion": "memm"}, L2, {"warm": False}),
    "cll, the same, dual (cold)": ({}, L2, {}),
    "cll, the same, lbfgs, warm": ({"optimizer": "lbfgs"}, L2, {}),
    "softmax-margin, nine settings": ({"criterion": "softmax-margin"}, COSTS, {}),
    "softmax-margin, halving 0.1, 0.3, 1": ({"criterion": "softmax-margin"}, COSTS, {"halving": (0.1, 0.3, 1.0)}),
}


def main() -> None:
    corpus = read_columns(data_folder() / "train.txt", layout=False)
    train, dev = corpus.select(np.arange(2000)), corpus.select(np.arange(len(corpus) - 900, len(corpus)))
    table = Table("grid", "passes", "seconds", "best", "F1")
    for name, (options, grid, how) in WAYS.items():
        began = time.process_time()
        found = tune(train, X_dev=dev, grid=grid, tagger=Tagger(template="chunking", **options), **how)
        passes, seconds = sum(cell.passes for cell in found.cells), time.process_time() - began
        table.add_row(name, str(passes), f"{seconds:.1f}", found.best.name, f"{found.best_score:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
