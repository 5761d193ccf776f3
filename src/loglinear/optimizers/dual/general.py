"""L-BFGS, which goes on where dual ascent has ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from loglinear.arrays import Array, Arrays, Float
from loglinear.optimizers.lbfgs import LBFGS, LBFGSState
from loglinear.optimizers.objective import Objective
from loglinear.optimizers.optimizer import Result


@dataclass
class FinishState:
    """That of L-BFGS, which goes on where dual ascent has ended.

    Parameters
    ----------
    passes : int
        Of dual ascent.
    inner : LBFGSState
    """

    passes: int
    inner: LBFGSState

    @property
    def iteration(self) -> int:
        return self.passes + self.inner.iteration

    @property
    def evaluations(self) -> int:
        return self.passes + self.inner.evaluations

    @property
    def value(self) -> float:
        return self.inner.value

    @property
    def weights(self) -> Float:
        return self.inner.weights

    def to_arrays(self) -> Arrays:
        """All of it as named arrays, for a checkpoint."""
        return {"passes": np.array([self.passes], dtype=np.int64), **self.inner.to_arrays()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> FinishState:
        """Inverse of :meth:`to_arrays`."""
        return cls(int(arrays["passes"][0]), LBFGSState.from_arrays(arrays))


def finish(
    limits: Any,
    objective: Objective,
    weights: Float,
    l1: float,
    callback: Callable[[FinishState], bool | None] | None,
    passes: int,
    state: LBFGSState | None,
    gradient_tolerance: float = LBFGS.gradient_tolerance,
) -> Result:
    """L-BFGS from the weights [D] that so many passes have found, or from its own state.

    ``limits`` has the ``max_iter`` of passes and iterations together, and the ``tolerance``.
    """
    penalised = np.abs(weights[: objective.n_penalised])
    if state is None and objective(weights)[0] + l1 * float(penalised.sum()) > objective(0.0 * weights)[0]:
        weights = 0.0 * weights
    optimizer = LBFGS(
        max_iter=limits.max_iter - passes, tolerance=limits.tolerance, gradient_tolerance=gradient_tolerance
    )
    watch = None if callback is None else lambda inner: callback(FinishState(passes, inner))
    result = optimizer.minimise(objective, weights, l1=l1, callback=watch, state=state)
    message = f"{passes} passes of dual ascent, then L-BFGS: {result.message}"
    return Result(FinishState(passes, result.state), result.converged, message)
