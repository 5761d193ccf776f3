"""What compiling the passes of the online learners saves, on CoNLL-2000 with the chunking templates.

    python -m benchmarks.online

Seconds of the processor for a pass: the median of three passes after the first, compiled and sentence by sentence in
Python, one after the other in the same process; both end with the same objective.
"""

from __future__ import annotations

import statistics
import time
from itertools import pairwise
from unittest import mock

from rich.console import Console
from rich.table import Table

from benchmarks.corpora import data_folder
from loglinear import Tagger, read_columns
from loglinear.data import Columns
from loglinear.optimizers.online import chain

CRITERIA = ("perceptron", "mira", "mira:k=5", "passive-aggressive")


def passes(criterion: str, corpus: Columns) -> tuple[float, float]:
    """Seconds of a pass, and the objective after four."""
    clock = [time.process_time()]
    tagger = Tagger(criterion, template="chunking", max_iter=4, tolerance=0.0)
    tagger.fit(corpus, observe=lambda progress: clock.append(time.process_time()))
    seconds = [later - earlier for earlier, later in pairwise(clock[1:])]
    return statistics.median(seconds), float(tagger.objective_)


def main() -> None:
    corpus = read_columns(data_folder() / "train.txt", layout=False)
    table = Table("criterion", "compiled (s)", "in Python (s)", "times", "objective")
    for criterion in CRITERIA:
        compiled, value = passes(criterion, corpus)
        with mock.patch.object(chain, "learner_of", lambda criterion: None):
            plain, same = passes(criterion, corpus)
        assert abs(value - same) <= 1e-6 * value
        table.add_row(criterion, f"{compiled:.2f}", f"{plain:.2f}", f"{plain / compiled:.1f}", f"{value:,.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
