"""What estimators share: files that hold data only, and notes on how training went."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from loglinear import model_file
from loglinear.arrays import Array

if TYPE_CHECKING:
    from loglinear.training.run import TrainingOutcome


class StoredModel(ABC):
    """An estimator that can be saved; it says what its model file holds."""

    kind: ClassVar[str]

    @abstractmethod
    def _storage(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Header and arrays of the model file; an estimator that is not fitted raises an error."""

    def save(self, path: str | Path) -> None:
        """Write the model to one file that holds data only; functions of your own are not in it."""
        model_file.save(path, self.kind, *self._storage())

    def to_bytes(self) -> bytes:
        """The model file's content."""
        return model_file.dumps(self.kind, *self._storage())


def source_name(source: Any) -> str:
    """What messages call a model's file, or its bytes."""
    return "the model" if isinstance(source, bytes | bytearray | memoryview) else str(source)


# ----------------------------------------------------------------------------------------------------------------------
# How training went: what an estimator tells, and what of it a model file keeps.


UNFINISHED = "a checkpoint of an unfinished training"


def keep_outcome(estimator: Any, outcome: TrainingOutcome) -> None:
    """Let an estimator tell how its training went."""
    estimator.objective_ = outcome.objective
    estimator.n_iter_ = outcome.iterations
    estimator.converged_ = outcome.converged
    estimator.message_ = outcome.message
    estimator.seconds_ = outcome.seconds
    estimator.history_ = outcome.history
    estimator.dev_score_ = None if outcome.best is None else outcome.best.score
    estimator.best_iteration_ = None if outcome.best is None else outcome.best.iteration


def notes_of(estimator: Any) -> dict[str, Any]:
    """What a model file keeps of it."""
    return {
        "complete": True,
        "objective": estimator.objective_,
        "iterations": estimator.n_iter_,
        "converged": estimator.converged_,
        "message": estimator.message_,
        "dev_score": estimator.dev_score_,
        "best_iteration": estimator.best_iteration_,
    }


def restore_notes(estimator: Any, notes: dict[str, Any]) -> None:
    """Let an estimator tell what a model file kept, be it of a training that ended or a checkpoint."""
    estimator.objective_ = notes.get("objective")
    estimator.n_iter_ = notes.get("iterations", notes.get("iteration"))
    estimator.converged_ = notes.get("converged", False)
    estimator.message_ = notes.get("message", UNFINISHED)
    estimator.dev_score_ = notes.get("dev_score")
    estimator.best_iteration_ = notes.get("best_iteration")
    estimator.history_, estimator.seconds_ = [], None
