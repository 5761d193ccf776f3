"""The interface of an optimizer, and the registry of all of them.

An optimizer takes an objective and weights to start from, and improves them iteration by iteration, telling a callback
after each. What it needs to go on is its state, which a checkpoint keeps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from loglinear.arrays import Array, Arrays, Float
from loglinear.options import Registry, Spec


class State(Protocol):
    """Everything needed to go on as if never stopped, and what a callback may look at."""

    @property
    def iteration(self) -> int:
        """Iterations so far."""

    @property
    def evaluations(self) -> int:
        """Passes over the data so far."""

    @property
    def value(self) -> float:
        """The objective, as it was met."""

    @property
    def weights(self) -> Float:
        """The weights [D] that a model of now would have."""

    def to_arrays(self) -> Arrays:
        """All of it as named arrays, for a checkpoint."""


@dataclass(frozen=True)
class Result:
    """Where an optimizer ended, whether it converged there, and why it stopped in plain words."""

    state: Any
    converged: bool
    message: str

    @property
    def weights(self) -> Float:
        """The weights found [D]."""
        return self.state.weights

    @property
    def value(self) -> float:
        """The objective there."""
        return self.state.value


class Optimizer(ABC):
    """How to get to good weights.

    What a spec may set (``sgd:step=0.1``) are its :func:`~loglinear.options.option` fields. Class attributes feed the
    command line, the error messages and the documentation:

    name, summary
        What it is called, and what it does in one line.
    takes_l1, takes_l2
        Whether it can serve these penalties.
    default_iterations
        Most iterations unless told otherwise.
    iterations_are
        What several iterations are called.
    exact
        Whether the value told after an iteration is the objective of its weights.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    takes_l1: ClassVar[bool] = True
    takes_l2: ClassVar[bool] = True
    default_iterations: ClassVar[int] = 50
    iterations_are: ClassVar[str] = "passes"
    exact: ClassVar[bool] = False

    max_iter: int

    @abstractmethod
    def minimise(
        self,
        objective: Any,
        weights0: Float,
        *,
        l1: float = 0.0,
        callback: Callable[[Any], bool | None] | None = None,
        state: Any = None,
    ) -> Result:
        """Lower ``objective`` from ``weights0`` [D]; the callback sees the state after each iteration, True stops."""

    @abstractmethod
    def restore(self, arrays: Mapping[str, Array]) -> State:
        """The state of :meth:`State.to_arrays`."""


OPTIMIZERS: Registry[Optimizer] = Registry(
    "optimizer",
    {
        "adagrad": "loglinear.optimizers.stochastic",
        "dual": "loglinear.optimizers.dual.chain",
        "lbfgs": "loglinear.optimizers.lbfgs",
        "newton": "loglinear.optimizers.newton",
        "online": "loglinear.optimizers.online.general",
        "sgd": "loglinear.optimizers.stochastic",
    },
)
register = OPTIMIZERS.register


def l1_of_each(l1: float | Float, objective: Any, n: int) -> float | Float:
    """The L1 factor of each of ``n`` weights, zero for those that the objective does not penalise."""
    penalised = getattr(objective, "n_penalised", n)
    return l1 if penalised == n or not np.any(l1) else np.where(np.arange(n) < penalised, l1, 0.0)


def make_optimizer(spec: str | Spec[Optimizer], *, max_iter: int | None, tolerance: float, seed: int) -> Optimizer:
    """An optimizer ready for use."""
    spec = OPTIMIZERS.spec(spec)
    most = spec.part.default_iterations if max_iter is None else max_iter
    return spec.make(max_iter=most, tolerance=tolerance, seed=seed)
