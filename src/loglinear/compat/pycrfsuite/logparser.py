"""What CRFsuite's log says: events, and the numbers of each iteration.

Programs read :attr:`TrainLogParser.last_iteration` and plot :attr:`TrainLogParser.iterations`; old pickles of
sklearn_crfsuite hold objects of both classes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

_NUMBER = r"(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?|inf|nan)"
_HEAD = re.compile(r"\*{5} (?:Iteration|Epoch) #(\d+) \*{5}\n")
_SECONDS = re.compile(rf"Seconds required: {_NUMBER}")
_TRAINED = re.compile(rf"Total seconds required for training: {_NUMBER}")
_FEATURES = re.compile(r"Number of features: (\d+)")
_NUMBERS: tuple[tuple[str, re.Pattern[str], Callable[[str], Any]], ...] = tuple(
    (key, re.compile(f"{text}: {_NUMBER}"), kind)
    for key, text, kind in (
        ("loss", "Loss", float),
        ("feature_norm", "Feature norm", float),
        ("error_norm", "Error norm", float),
        ("active_features", "Active features", int),
        ("linesearch_trials", "Line search trials", int),
        ("linesearch_step", "Line search step", float),
        ("time", "Seconds required for this iteration", float),
    )
)
_MACRO = re.compile(rf"Macro-average precision, recall, F1: \({_NUMBER}, {_NUMBER}, {_NUMBER}\)")
_ACCURACY = re.compile(r"(Item|Instance) accuracy: (\d+) / (\d+)")
_LABEL = re.compile(rf"\s{{4}}(.+): \((\d+), (\d+), (\d+)\) \({_NUMBER}, {_NUMBER}, {_NUMBER}\)")
_ABSENT = re.compile(r"\s{4}(.+): \(0, 0, 0\) \(\*{6}, \*{6}, \*{6}\)")


class LabelScore(NamedTuple):
    """How one label was predicted in the holdout data; None where it does not occur."""

    match: int
    model: int
    ref: int
    precision: float | None
    recall: float | None
    f1: float | None


class TrainLogParser:
    """Reads a log line by line.

    Attributes
    ----------
    state : str or None
    featgen_percent : int
    featgen_num_features, featgen_seconds, training_seconds, storing_seconds : numbers, None until they are known
    iterations : list of dict
        ``num``, ``loss``, ``feature_norm``, ``time``, ``scores``, ... of each iteration.
    last_iteration : dict or None
    log : list of str
        All lines.
    events : list of (str, int, int)
        Each event with the lines that it is about.
    """

    def __init__(self) -> None:
        self.state: str | None = None
        self.featgen_percent = -2
        self.featgen_num_features: int | None = None
        self.featgen_seconds: float | None = None
        self.training_seconds: float | None = None
        self.storing_seconds: float | None = None
        self.iterations: list[dict[str, Any]] = []
        self.last_iteration: dict[str, Any] | None = None
        self.log: list[str] = []
        self.events: list[tuple[str, int, int]] = []

    def feed(self, line: str) -> str | None:
        """Read the next line; the event that it ends, or None."""
        self.log.append(line)
        if self.state is None:
            self.state = "STARTING"
            self._starting(line)
            self.events.append(("start", 0, len(self.log)))
            return "start"
        event = _STATES[self.state](self, line)
        if event is not None:
            end = len(self.log) - (event in ("prepared", "optimization_end"))  # whose last line opens what follows
            self.events.append((event, self.events[-1][2], end))
        return event

    @property
    def last_log(self) -> str:
        """The lines of the last event."""
        _, start, end = self.events[-1]
        return "".join(self.log[start:end])

    def _starting(self, line: str) -> str | None:
        if line.startswith("Feature generation"):
            self.state = "FEATGEN"
        return None

    def _generating(self, line: str) -> str | None:
        if line in ".0123456789" or line == "10":
            self.featgen_percent += 2
            return "featgen_progress"
        if found := _FEATURES.match(line):
            self.featgen_num_features = int(found[1])
        elif found := _SECONDS.match(line):
            self.featgen_seconds, self.state = float(found[1]), "AFTER_FEATGEN"
            return "featgen_end"
        return None

    def _generated(self, line: str) -> str | None:
        if _HEAD.match(line):
            self.state = "ITERATION"
            self._iterating(line)
            return "prepared"
        if "terminated with error" in line:
            self.state = "AFTER_ITERATION"
            return "prepare_error"
        return None

    def _iterating(self, line: str) -> str | None:
        if found := _HEAD.match(line):
            self.last_iteration = {"num": int(found[1]), "scores": {}}
            self.iterations.append(self.last_iteration)
            return None
        now = self.last_iteration
        assert now is not None
        for key, pattern, kind in _NUMBERS:
            if found := pattern.match(line):
                now[key] = kind(found[1])
        if found := _MACRO.match(line):
            now |= zip(("avg_precision", "avg_recall", "avg_f1"), map(float, found.groups()), strict=True)
        if found := _ACCURACY.match(line):
            share = Fraction(int(found[2]), int(found[3])) if int(found[3]) else Fraction(0)
            name = f"{found[1].lower()}_accuracy"
            now |= {name: share, f"{name}_float": float(share)}
        if found := _LABEL.match(line):
            label, *numbers = found.groups()
            counts, shares = map(int, numbers[:3]), map(float, numbers[3:])
            now["scores"][label] = LabelScore(*counts, *shares)
        if found := _ABSENT.match(line):
            now["scores"][found[1]] = LabelScore(0, 0, 0, None, None, None)
        if line == "\n":
            self.state = "AFTER_ITERATION"
            return "iteration"
        return None

    def _iterated(self, line: str) -> str | None:
        if _HEAD.match(line):
            self.state = "ITERATION"
            return self._iterating(line)
        if found := _TRAINED.match(line):
            self.training_seconds = float(found[1])
        if line.startswith("Storing the model"):
            self.state = "STORING"
            return "optimization_end"
        return None

    def _storing(self, line: str) -> str | None:
        if line == "\n":
            return "end"
        if found := _SECONDS.match(line):
            self.storing_seconds = float(found[1])
        return None


_STATES: dict[str, Callable[[TrainLogParser, str], str | None]] = {
    "STARTING": TrainLogParser._starting,
    "FEATGEN": TrainLogParser._generating,
    "AFTER_FEATGEN": TrainLogParser._generated,
    "ITERATION": TrainLogParser._iterating,
    "AFTER_ITERATION": TrainLogParser._iterated,
    "STORING": TrainLogParser._storing,
}
