"""What an estimator hands to training.

A :class:`Problem` is a whole training: its stages, the model made of their weights, and what a checkpoint holds. Most
stages are planned from options by :func:`~loglinear.training.plan.phases_of`, which asks a :class:`Learnable` for its
criterion and its objective.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from loglinear.arrays import Array, Arrays, Float
from loglinear.errors import OptionError

if TYPE_CHECKING:
    from loglinear.optimizers.optimizer import Optimizer

MAIN = "main"
MOST_WEIGHT = 1e9  # of a sequence
Storage = tuple[dict[str, Any], Arrays]


@dataclass(frozen=True)
class Phase:
    """One run of an optimizer.

    Parameters
    ----------
    name : str
        What progress and checkpoints call it; ``main`` is the one whose iterations dev data judges. Of the others it
        judges the weights that the next phase starts from.
    optimizer : Optimizer
    prepare : callable
        From the starting weights and the arrays of a checkpoint (None without one) to the objective and the arrays
        that the next checkpoint stores.
    l1 : float
        Factor of the sum of |w|.
    continues : bool
        Whether it goes on from the state that the opening stage ended in, whose objective was the same.
    """

    name: str
    optimizer: Optimizer
    prepare: Callable[[Float, Arrays | None], tuple[Any, Arrays]]
    l1: float = 0.0
    continues: bool = False


@dataclass(frozen=True)
class Stage:
    """One vector of weights and the phases that find it, each starting where the one before ended.

    Parameters
    ----------
    begin : callable
        From the weights of the earlier stages to the starting weights [D] and the phases.
    score_start : bool
        Whether the starting weights are scored on dev data too, and may turn out to be the best.
    counts : bool
        Whether its objective and iterations count as the training's; its time and progress always do.
    opens : bool
        Whether it only leads to the next stage, which has the weights of the same model: its objective is not the
        training's, and dev data judges the next one. None of its phases is called ``main``.
    """

    begin: Callable[[Sequence[Float]], tuple[Float, list[Phase]]]
    score_start: bool = False
    counts: bool = True
    opens: bool = False


class Problem(Protocol):
    """What to learn, in numbers.

    Attributes
    ----------
    kind : str
        Of the model file that a checkpoint is.
    """

    kind: ClassVar[str]

    def stages(self, options: Any, init: Any) -> list[Stage]:
        """How the estimator ``options`` is trained; ``init`` is the model to start from, or None."""

    def trained_model(self, weights: Sequence[Float]) -> Any:
        """The model made of the stages' weights so far."""

    def storage(self, weights: Sequence[Float], options: Any, notes: dict[str, Any]) -> Storage:
        """Header and arrays of a file of that model; the header's ``training`` holds ``notes``."""

    def arrays(self) -> Iterable[Array | None]:
        """All arrays that the result depends on."""

    def identity(self, options: Any) -> dict[str, Any]:
        """What else the result depends on: labels, costs, a base of the user's own."""

    def dev_data(self, X: Any, y: Any) -> DevData:
        """Dev data in numbers."""


class DevData(Protocol):
    """Dev data in numbers."""

    def score(self, model: Any) -> float:
        """How good a model is on it; higher is better."""

    @property
    def arrays(self) -> list[Array | None]:
        """All arrays that the score depends on."""


class Learnable(ABC):
    """Weights that a criterion can train; :func:`~loglinear.training.plan.phases_of` plans how."""

    @abstractmethod
    def criterion(self, spec: str, cost: Any = None) -> Any:
        """The criterion that a spec names; ``cost`` is what a user gives."""

    @abstractmethod
    def objective(self, criterion: Any, l2: float, n_threads: int) -> Any:
        """Losses and L2 penalty as a function of the weights."""

    @abstractmethod
    def default_optimizer(self, criterion: Any, l2: float, from_zero: bool) -> str:
        """Spec of the default optimizer; ``from_zero`` if training starts from weights of zero."""

    def default_iterations(self, optimizer: type[Optimizer]) -> int | None:
        """Default of the most iterations; None leaves it to the optimizer."""
        return None

    def default_l2(self, criterion: Any) -> float:
        """Default factor of ||w||^2."""
        return 1.0

    def own_phases(self, criterion: Any, optimizer: Optimizer, l2: float, n_threads: int) -> list[Phase] | None:
        """The phases of a criterion that needs several; None if there is one objective."""
        return None


def example_weights(weights: Any, n_examples: int, each: str = "sequence") -> Float:
    """Check a weight for each example: none negative or above :data:`MOST_WEIGHT`, not all zero.

    ``each`` is what messages call an example.
    """
    try:
        checked = np.ascontiguousarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise OptionError(f"sample_weight must be a number for each {each}") from None
    if checked.shape != (n_examples,):
        raise OptionError(f"sample_weight has shape {checked.shape}; there are {n_examples} {each}s")
    bad = np.flatnonzero(~((checked >= 0) & (checked <= MOST_WEIGHT)))
    if len(bad):
        raise OptionError(
            f"sample_weight of {each} {bad[0]} is {checked[bad[0]]:g}; weights lie between 0 and {MOST_WEIGHT:g}"
        )
    if n_examples and not checked.any():
        raise OptionError(f"sample_weight is zero for every {each}: there is nothing to learn from")
    return checked
