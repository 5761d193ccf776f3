"""Dev data: the score of the model in training on it, for early stopping."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from loglinear.arrays import Array, Float
from loglinear.errors import OptionError
from loglinear.training.problem import DevData, Problem


@dataclass(frozen=True)
class Dev:
    """Dev data of a problem.

    Parameters
    ----------
    problem : Problem
    data : DevData
    """

    problem: Problem
    data: DevData

    @classmethod
    def of(cls, problem: Problem, X: Any, y: Any = None) -> Dev | None:
        """The user's ``X_dev`` and ``y_dev`` in numbers, or None without them."""
        if X is not None:
            return cls(problem, problem.dev_data(X, y))
        if y is not None:
            raise OptionError("y_dev is given without X_dev; give both, or none")
        return None

    def score(self, weights: Sequence[Float]) -> float:
        """The score of the model with these weights, those of each stage so far."""
        return self.data.score(self.problem.trained_model(weights))

    @property
    def arrays(self) -> list[Array | None]:
        """All numbers that the scores depend on."""
        return self.data.arrays
