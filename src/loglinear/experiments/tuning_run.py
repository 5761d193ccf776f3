"""The trainings that make the cells of a tuning, and what an observer sees of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from loglinear.experiments.tuning_cells import key_of
from loglinear.experiments.tuning_grid import Candidate, penalty_of


@dataclass(frozen=True)
class TuningProgress:
    """What an observer sees: after each iteration of a training, and after each cell (then with its ``score``)."""

    done: int
    total: int
    name: str
    score: float | None = None
    best_name: str | None = None
    best_score: float | None = None
    iteration: int | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Run:
    """A training that makes a cell: of one combination, on a part of the sentences, and the one it starts from."""

    candidate: Candidate
    share: float
    fold: int | None
    previous: Run | None = None

    @property
    def key(self) -> str:
        """What the cell is kept by."""
        return key_of({**self.described, "options": self.candidate.options()})

    @property
    def described(self) -> dict[str, Any]:
        """Share, fold, and the penalties of those trained before, which it depends on too."""
        before, run = [], self.previous
        while run is not None:
            penalty = penalty_of(run.candidate)
            assert penalty is not None  # or nothing would start from it
            before.append(float(run.candidate.setting[penalty]))
            run = run.previous
        return {"share": self.share, "fold": self.fold, "after": before[::-1]}

    @property
    def name(self) -> str:
        """Setting, part and fold in a line."""
        part = "" if self.share >= 1.0 else f" on {100 * self.share:g} %"
        fold = "" if self.fold is None else f", fold {self.fold + 1}"
        return f"{self.candidate.name}{part}{fold}"
