"""EM as an optimizer: rounds of an E and an M step, from one start or several.

    E step   expected counts, given a model and what is observed
    M step   the most probable model, given these counts

(Dempster, Laird & Rubin 1977). Each round raises the objective, the log-likelihood of what is observed plus the log of
the prior, until EM converges to a local maximum. Several starts may end at different ones; the best is the result.

As an optimizer (:mod:`~loglinear.optimizers.optimizer`) its weights are the vector of the model's parameters, an
iteration is a round, and the value it minimises is the negated objective. The data define the steps: see
:mod:`~loglinear.generative.hmm.em`, :mod:`~loglinear.generative.mixture` and :mod:`~loglinear.generative.pcfg.em`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np

from loglinear.arrays import Array, Arrays, Float
from loglinear.optimizers.optimizer import Callback, Optimizer, Result, check_parts_fit, reading_state
from loglinear.wording import how_many

NOTHING = np.zeros(0)
COUNTERS = ("n_starts", "iteration", "evaluations", "start")
LISTS = ("log_likelihoods", "objectives", "best_log_likelihoods", "best_objectives", "ended")


class Parametrised(Protocol):
    """A model whose parameters are a vector."""

    @property
    def parameters(self) -> Float:
        """All of them [P]."""

    def with_parameters(self, parameters: Float) -> Self:
        """The same model with other parameters [P]."""


class Found(Protocol):
    """The result of an E step: the log-likelihood of what is observed, the same plus the log prior, and counts."""

    @property
    def log_likelihood(self) -> float: ...

    @property
    def objective(self) -> float: ...


M = TypeVar("M", bound=Parametrised)
E = TypeVar("E", bound=Found)


class Observed(ABC, Generic[M, E]):
    """The data of EM and its prior: from a model to expected counts, and from these to the next model."""

    decimals: ClassVar[int] = 1  # of objectives, in messages

    @abstractmethod
    def __call__(self, model: M) -> E:
        """The E step."""

    @abstractmethod
    def maximised(self, model: M, found: E) -> M:
        """The M step, after the E step of ``model``."""

    def unit(self, objective: float) -> float:
        """What a gain of the objective is compared with, to decide whether to make another round."""
        return abs(objective)

    def compare(self, before: E, after: E, n_rounds: int) -> None:  # most have nothing to check
        """Check a round, the ``n_rounds``-th of its start."""


@dataclass
class EMState:
    """Everything needed to continue after a round as if never stopped.

    Attributes
    ----------
    candidate : float64 [P]
        The parameters of the current model.
    n_starts, start : int
        The number of starts, and the current one (from 0).
    iteration, evaluations : int
        Rounds and E steps of all starts so far.
    log_likelihoods, objectives : list of float
        At the start and after each round since.
    best, best_log_likelihoods, best_objectives
        The same for the best start that has ended.
    ended : list of float
        The final objective of each start.
    given_up : bool
        Whether this start should end here.
    """

    candidate: Float
    n_starts: int = 1
    iteration: int = 0
    evaluations: int = 0
    start: int = 0
    log_likelihoods: list[float] = field(default_factory=list)
    objectives: list[float] = field(default_factory=list)
    best: Float = field(default_factory=lambda: NOTHING)
    best_log_likelihoods: list[float] = field(default_factory=list)
    best_objectives: list[float] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)
    given_up: bool = False

    @property
    def value(self) -> float:
        """The negated objective of the current model."""
        return -self.objectives[-1]

    @property
    def weights(self) -> Float:
        """The parameters [P] of the best model so far."""
        behind = bool(self.best_objectives) and self.best_objectives[-1] > self.objectives[-1]
        return self.best if behind else self.candidate

    @property
    def n_rounds(self) -> int:
        """Rounds of this start."""
        return len(self.objectives) - 1

    @property
    def began_at(self) -> int:
        """The iteration at which this start began."""
        return self.iteration - self.n_rounds

    @property
    def phase(self) -> str:
        """The current start in words, if there are several."""
        return f"start {self.start + 1} of {self.n_starts}" if self.n_starts > 1 else "main"

    def note(self, found: Found) -> None:
        """Record the E step of the current model."""
        self.evaluations += 1
        self.log_likelihoods.append(found.log_likelihood)
        self.objectives.append(found.objective)

    def end_start(self) -> None:
        """End this start; remember it if it is the best."""
        self.ended.append(self.objectives[-1])
        if not self.best_objectives or self.objectives[-1] > self.best_objectives[-1]:
            self.best, self.best_objectives = self.candidate, self.objectives
            self.best_log_likelihoods = self.log_likelihoods

    def give_up(self) -> None:
        """End this start here."""
        self.given_up = True

    def begin(self, parameters: Float) -> None:
        """Begin the next start."""
        self.start += 1
        self.given_up = False
        self.candidate, self.log_likelihoods, self.objectives = parameters, [], []

    def finish(self) -> None:
        """After all starts: make the best one's model the current one."""
        self.start = self.ended.index(max(self.ended))
        self.candidate, self.objectives = self.best, self.best_objectives
        self.log_likelihoods = self.best_log_likelihoods

    def to_arrays(self) -> Arrays:
        """The state as named arrays, for a checkpoint."""
        return {
            "counters": np.array([getattr(self, name) for name in COUNTERS], dtype=np.int64),
            "candidate": self.candidate,
            "best": self.best,
            **{name: np.array(getattr(self, name), dtype=np.float64) for name in LISTS},
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> EMState:
        """Inverse of :meth:`to_arrays`."""
        with reading_state():
            counters = dict(zip(COUNTERS, arrays["counters"].tolist(), strict=True))
            lists = {name: arrays[name].tolist() for name in LISTS}
            state = cls(np.array(arrays["candidate"]), **counters, best=np.array(arrays["best"]), **lists)
        check_parts_fit(state._is_whole())
        return state

    def _is_whole(self) -> bool:
        """Whether counters and lists tell the same story: so many starts have ended, the best of them is kept."""
        n_ended = len(self.ended)
        return (
            0 <= self.start < self.n_starts
            and n_ended in (self.start, self.n_starts)
            and len(self.objectives) == len(self.log_likelihoods) > 0
            and len(self.best_objectives) == len(self.best_log_likelihoods)
            and bool(self.best_objectives) == (n_ended > 0)
            and self.best.shape == (self.candidate.shape if n_ended else NOTHING.shape)
            and not np.isnan([*self.objectives, *self.best_objectives, *self.ended]).any()
        )


class EM(Optimizer, Generic[M]):
    """Rounds of an E and an M step.

    Parameters
    ----------
    start : callable
        ``start(i)`` is the model that the i-th start (from 0) begins with.
    n_starts : int
        The number of starts.
    max_iter : int
        The most rounds of a start.
    tolerance : float
        A start ends when a round raises the objective by at most this share of its :meth:`Observed.unit`.
    """

    name = "em"
    summary = "expectation-maximisation: expected counts, and the most probable model given these"
    takes_l1 = False
    takes_l2 = False
    default_iterations = 100
    iteration_is = "round"
    exact = True
    state_class = EMState

    def __init__(
        self, start: Callable[[int], M], n_starts: int = 1, max_iter: int = 100, tolerance: float = 1e-6
    ) -> None:
        self.start, self.n_starts, self.max_iter, self.tolerance = start, n_starts, max_iter, tolerance

    def minimise(
        self,
        objective: Observed[M, Any],
        weights0: Float,
        *,
        l1: float = 0.0,
        callback: Callback = None,
        state: Any = None,
    ) -> Result:
        """Rounds from the model with the parameters ``weights0`` [P], the first start, and from the other starts."""
        now: EMState = EMState(weights0, self.n_starts) if state is None else state
        model = self.start(now.start).with_parameters(now.candidate)
        found = objective(model)
        if state is None:
            now.note(found)
        while len(now.ended) < self.n_starts:
            if not (self._has_converged(now, objective) or now.n_rounds >= self.max_iter):
                model, before = objective.maximised(model, found), found
                found = objective(model)
                now.candidate = model.parameters
                now.iteration += 1
                now.note(found)
                objective.compare(before, found, now.n_rounds)
                if callback is not None and callback(now):
                    return Result(now, False, f"stopped after {how_many(now.iteration, 'round')}")
                if not now.given_up:
                    continue
            now.end_start()
            if len(now.ended) < self.n_starts:
                model = self.start(now.start + 1)
                found = objective(model)
                now.begin(model.parameters)
                now.note(found)
        now.finish()
        return Result(now, self._has_converged(now, objective), self._message(now, objective))

    def _has_converged(self, now: EMState, data: Observed[M, Any]) -> bool:
        last = now.objectives[-2:]
        return len(last) == 2 and last[1] - last[0] <= self.tolerance * data.unit(last[1])

    def _message(self, now: EMState, data: Observed[M, Any]) -> str:
        rounds = "converged" if self._has_converged(now, data) else "stopped"
        how = f"{rounds} after {how_many(now.n_rounds, 'round')}"
        if self.n_starts == 1:
            return how
        shown = [f"{value:,.{data.decimals}f}" for value in sorted(now.ended)[:-1]]
        span = shown[0] if len(shown) == 1 else f"{shown[0]} to {shown[-1]}"
        return (
            f"the best of {self.n_starts} starts {how}, its penalised log-likelihood "
            f"{now.objectives[-1]:,.{data.decimals}f} (elsewhere {span})"
        )


def climbed(start: M, data: Observed[M, Any], *, max_iter: int = 100, tolerance: float = 1e-6) -> tuple[M, EMState]:
    """EM from one start: the final model and state."""
    state = EM(lambda i: start, max_iter=max_iter, tolerance=tolerance).minimise(data, start.parameters).state
    return start.with_parameters(state.candidate), state
