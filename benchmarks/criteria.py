"""What an evaluation of each criterion costs beside conditional likelihood: CoNLL-2000, one run, one thread, medians.

python -m benchmarks.criteria [--repeats 5]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.chunking import data_folder
from loglinear import Tagger, read_columns
from loglinear.criteria.criterion import criteria


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    problem = Tagger(template="chunking").problem(read_columns(data_folder() / "train.txt"))
    weights = np.random.default_rng(0).normal(scale=0.2, size=problem.model.features.n_features)
    names = [name for name, criterion in criteria().items() if not criterion.uses_base]
    objectives = {name: problem.objective(problem.criterion(name), 1.0, 1) for name in names}
    seconds: dict[str, list[float]] = {name: [] for name in objectives}
    for objective in objectives.values():  # compile
        objective(weights)
    for _ in range(arguments.repeats):  # alternated, so that a slow moment of the machine falls on all
        for name, objective in objectives.items():
            began = time.perf_counter()
            objective(weights)
            seconds[name].append(time.perf_counter() - began)
    medians = {name: float(np.median(times)) for name, times in seconds.items()}
    table = Table("criterion", "seconds an evaluation", "to cll")
    for name, median in medians.items():
        table.add_row(name, f"{median:.3f}", f"{median / medians['cll']:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
