"""What both sides' measurements share: the clock, peak memory, and the score of a tagged file."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Say = Callable[[str], None]


class Clock:
    """Wall-clock seconds of named stretches."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def timing(self, name: str) -> Iterator[None]:
        """Add the time of the block to ``name``."""
        began = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began

    def total(self, *names: str) -> float:
        """Seconds of several stretches."""
        return sum(self.seconds[name] for name in names)


def peak_megabytes() -> float:
    """The most memory this process has had so far, in MB (10^6 bytes).

    Linux keeps it for each process image (VmHWM); ``ru_maxrss`` would begin with that of the process that started this
    one.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6


def score_tagged(path: str | Path, metric: str) -> float:
    """Chunk F1 or accuracy, in percent, of a file whose last columns are gold and predicted labels."""
    from loglinear.data import read_columns
    from loglinear.evaluation import accuracy_report, chunk_scores

    corpus = read_columns(path)
    gold, predicted = ((corpus.column(c).ids, corpus.column(c).values, corpus.offsets) for c in (-2, -1))
    return chunk_scores(gold, predicted).f1 if metric == "f1" else accuracy_report(gold, predicted).accuracy
