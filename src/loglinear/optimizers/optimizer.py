"""The interface of an optimizer, and the registry of all of them.

An optimizer takes an objective and starting weights and improves them iteration by iteration, calling a callback after
each one. Its state holds everything it needs to continue, and a checkpoint stores it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from loglinear import mapped
from loglinear.arrays import Array, Arrays, Float
from loglinear.errors import ModelFileError
from loglinear.options import Registry, Spec

Callback = Callable[[Any], bool | None] | None  #: sees the state after each iteration; True stops


class State(Protocol):
    """Everything needed to continue as if never stopped, and what a callback may look at."""

    @property
    def iteration(self) -> int:
        """Iterations so far."""

    @property
    def evaluations(self) -> int:
        """Passes over the data so far."""

    @property
    def value(self) -> float:
        """The objective; stochastic optimizers accumulate it during the pass."""

    @property
    def weights(self) -> Float:
        """The current model's weights [D]."""

    def to_arrays(self) -> Arrays:
        """The state as named arrays, for a checkpoint."""


@contextmanager
def reading_state() -> Iterator[None]:
    """Report whatever goes wrong while a stored state is read as a damaged checkpoint."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ModelFileError(
            f"the checkpoint's optimizer state cannot be read ({error}); delete it to start again"
        ) from None


def check_parts_fit(fits: bool) -> None:
    """Reject a stored state whose parts contradict each other."""
    if not fits:
        raise ModelFileError(
            "the parts of the checkpoint's optimizer state do not fit together; delete it to start again"
        )


class StoredState:
    """A dataclass of counts, numbers and arrays that a checkpoint can store; subclasses name the fields.

    counts
        Integers, stored together as the array ``counts``.
    numbers
        Floats, stored together as the array ``values``.
    recent
        A list of floats stored behind them, or "" for none.
    arrays
        Arrays of floats, stored by name, or by the name that ``stored_as`` gives them.
    """

    counts: ClassVar[tuple[str, ...]] = ("iteration", "evaluations")
    numbers: ClassVar[tuple[str, ...]] = ("value",)
    recent: ClassVar[str] = ""
    arrays: ClassVar[tuple[str, ...]]
    stored_as: ClassVar[Mapping[str, str]] = {}

    def to_arrays(self) -> Arrays:
        """The state as named arrays, none of which the optimizer changes later."""
        numbers = [getattr(self, name) for name in self.numbers]
        numbers += getattr(self, self.recent) if self.recent else []
        return {
            "counts": np.array([getattr(self, name) for name in self.counts], dtype=np.int64),
            "values": np.array(numbers, dtype=np.float64),
            **{self.stored_as.get(name, name): self.copied(name) for name in self.arrays},
        }

    def copied(self, name: str) -> Array:
        """A copy of one of the arrays."""
        return mapped.copied(getattr(self, name))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Self:
        """Inverse of :meth:`to_arrays`."""
        with reading_state():
            fields: dict[str, Any] = dict(zip(cls.counts, map(int, arrays["counts"].tolist()), strict=True))
            numbers = [float(number) for number in arrays["values"].tolist()]
            n = len(cls.numbers)
            fields |= zip(cls.numbers, numbers[:n], strict=True)
            if cls.recent:
                fields[cls.recent] = numbers[n:]
            for name in cls.arrays:
                fields[name] = _floats(arrays[cls.stored_as.get(name, name)])
            state = cls(**fields)
            fits = min(fields[name] for name in cls.counts) >= 0 and state.fits()
        check_parts_fit(fits)
        return state

    def fits(self) -> bool:
        """Whether the parts of a stored state agree with each other."""
        return True


def _floats(array: Array) -> Array:
    """A copy of an array of finite numbers, in single precision if it is that, else in double."""
    array = np.asarray(array)
    copied = mapped.copied(array, np.float32 if array.dtype == np.float32 else np.float64)
    if not mapped.are_finite(copied):
        raise ValueError("it has numbers that are not finite")
    return copied


@dataclass(frozen=True)
class Result:
    """The final state of an optimizer, whether it converged, and why it stopped.

    The message is shown to users: ``converged: REASON`` or ``stopped after 50 passes (max_iter 50)``.
    """

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
    """A way to find good weights.

    A spec (``sgd:step=0.1``) sets its :func:`~loglinear.options.option` fields. Class attributes feed the command line,
    the error messages and the documentation:

    name, summary
        What it is called, and what it does in one line.
    takes_l1, takes_l2
        Whether it supports these penalties.
    default_iterations
        Default of ``max_iter``.
    iteration_is
        What an iteration is called in messages: ``pass``, ``iteration``.
    exact
        Whether the value reported after an iteration is the objective at its weights. If not, training evaluates the
        objective once more at the end.
    state_class
        The class of its states.

    Training sets the fields ``max_iter`` (iterations, those before a resumption included), ``tolerance`` and ``seed``.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    takes_l1: ClassVar[bool] = True
    takes_l2: ClassVar[bool] = True
    default_iterations: ClassVar[int] = 50
    iteration_is: ClassVar[str] = "pass"
    exact: ClassVar[bool] = False
    state_class: ClassVar[type[Any]]

    max_iter: int

    @abstractmethod
    def minimise(
        self, objective: Any, weights0: Float, *, l1: float = 0.0, callback: Callback = None, state: Any = None
    ) -> Result:
        """Minimise objective(w) + sum_i l1 |w_i|.

        Parameters
        ----------
        objective
            ``value, gradient = objective(weights)``: the sum of the losses of all examples, L2 penalty included, and
            its gradient [D], in memory that the next call uses again. Stochastic optimizers use its parts
            (:class:`~loglinear.optimizers.objective.Objective`).
        weights0 : float64 [D]
            Where to start; not to be changed. Ignored if there is a state.
        l1 : float
            Factor of the L1 penalty, which the objective does not have (:func:`l1_of_each` leaves out weights without
            penalty); 0 if ``takes_l1`` is False.
        callback : callable, optional
            Called with the state after each iteration. True stops; exceptions are passed on.
        state : optional
            Continue from this state of an optimizer with the same options, to the same weights as without the
            interruption, bit for bit; it may be changed.
        """

    def take_over(self, before: State, objective: Any) -> State | None:
        """A state to go on from, after another phase on the same data has ended in the state ``before``.

        None starts from its weights alone.
        """
        return None

    def restore(self, arrays: Mapping[str, Array]) -> State:
        """The state of :meth:`State.to_arrays`."""
        restored: State = self.state_class.from_arrays(arrays)
        return restored


OPTIMIZERS: Registry[Optimizer] = Registry(
    "optimizer",
    {
        "adagrad": "loglinear.optimizers.stochastic.general",
        "dual": "loglinear.optimizers.dual.chain",
        "lbfgs": "loglinear.optimizers.lbfgs",
        "newton": "loglinear.optimizers.newton",
        "online": "loglinear.optimizers.online.general",
        "sgd": "loglinear.optimizers.stochastic.general",
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
