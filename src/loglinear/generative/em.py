"""EM as an optimizer: rounds of Baum-Welch from one start or several, that can be watched, stopped and resumed.

To a training (:mod:`~loglinear.optimizers.optimizer`) the weights are the model's probabilities in a row, an iteration
is a round, and the value that falls is the objective of :mod:`~loglinear.generative.baum_welch` with its sign turned.
EM climbs to the nearest top, so several starts may end at different ones; that with the greatest objective is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.generative.baum_welch import Expectation, Expected
from loglinear.generative.hmm import Float, HiddenMarkovModel
from loglinear.optimizers.optimizer import Optimizer, Result

NOTHING = np.zeros(0)


@dataclass
class EMState:
    """Everything needed to go on after a round as if never stopped.

    Attributes
    ----------
    parameters : float64 [P]
        Of the model of now.
    iteration, evaluations : int
        Rounds and E steps of all starts so far.
    value : float
        The objective of the model of now, its sign turned.
    start, n_starts : int
        Which start (from 0) this round belongs to, of how many.
    log_likelihoods, objectives : list of float
        Of the start and after each round since.
    best, best_log_likelihoods, best_objectives
        The same of the best of the starts that have ended.
    ended : list of float
        The objective that each start has ended with.
    """

    parameters: Float
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
    value: float = np.inf

    @property
    def weights(self) -> Float:
        """The probabilities [P] of the best model so far."""
        behind = bool(self.best_objectives) and self.best_objectives[-1] > self.objectives[-1]
        return self.best if behind else self.parameters

    @property
    def phase(self) -> str:
        """Which start this is, for people, where there are several."""
        return f"start {self.start + 1} of {self.n_starts}" if self.n_starts > 1 else "main"

    def note(self, found: Expected) -> None:
        """Keep what an E step found of the model of now."""
        self.evaluations += 1
        self.log_likelihoods.append(found.log_likelihood)
        self.objectives.append(found.objective)
        self.value = -found.objective

    def end_start(self) -> None:
        """This start has ended; keep it if it is the best."""
        if len(self.ended) > self.start:
            return  # a training that was over before
        self.ended.append(self.objectives[-1])
        if self.ended[-1] == max(self.ended):
            self.best, self.best_objectives = self.parameters, self.objectives
            self.best_log_likelihoods = self.log_likelihoods

    def begin(self, model: HiddenMarkovModel) -> None:
        """Go on with the next start."""
        self.start += 1
        self.parameters, self.log_likelihoods, self.objectives = model.parameters, [], []

    def finish(self) -> None:
        """All starts have ended: the best one's model is that of now."""
        self.parameters, self.objectives = self.best, self.best_objectives
        self.log_likelihoods = self.best_log_likelihoods
        self.value = -self.objectives[-1]

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {
            "counters": np.array([self.n_starts, self.iteration, self.evaluations, self.start], dtype=np.int64),
            "parameters": self.parameters,
            "log_likelihoods": np.array(self.log_likelihoods),
            "objectives": np.array(self.objectives),
            "best": self.best,
            "best_log_likelihoods": np.array(self.best_log_likelihoods),
            "best_objectives": np.array(self.best_objectives),
            "ended": np.array(self.ended),
        }


class EM(Optimizer):
    """Rounds of an E and an M step.

    Parameters
    ----------
    start : callable
        ``start(i)`` is the model that the i-th start begins with.
    n_starts : int
        How many starts there are.
    max_iter : int
        Most rounds of a start.
    tolerance : float
        A start ends when a round raises the objective by less than this share of it.
    """

    name = "em"
    summary = "Baum-Welch: expected counts, and their relative frequencies"
    takes_l1 = False
    takes_l2 = False
    default_iterations = 100
    iterations_are = "rounds"
    exact = True

    def __init__(
        self,
        start: Callable[[int], HiddenMarkovModel],
        n_starts: int = 1,
        max_iter: int = 100,
        tolerance: float = 1e-6,
    ) -> None:
        self._start, self.n_starts, self.max_iter, self.tolerance = start, n_starts, max_iter, tolerance

    def minimise(
        self,
        objective: Expectation,
        weights0: Float,
        *,
        l1: float = 0.0,
        callback: Callable[[EMState], bool | None] | None = None,
        state: EMState | None = None,
    ) -> Result:
        """Rounds from the model ``weights0`` [P], which is ``start(0)``, and from the other starts."""
        model = self._start(0).with_parameters(weights0)
        if state is None:
            now = EMState(model.parameters, self.n_starts)
            found = objective(model)
            now.note(found)
        else:
            now, model = state, model.with_parameters(state.parameters)
            found = objective(model)
        while True:
            if not self._has_ended(now):
                model = objective.maximised(found.counts)
                found = objective(model)
                now.parameters = model.parameters
                now.iteration += 1
                now.note(found)
                if callback is not None and callback(now):
                    return Result(now, False, f"stopped after {now.iteration} rounds")
                continue
            now.end_start()
            if now.start + 1 >= self.n_starts:
                now.finish()
                return Result(now, self._has_converged(now), self._message(now))
            model = self._start(now.start + 1)
            found = objective(model)
            now.begin(model)
            now.note(found)

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> EMState:
        n_starts, iteration, evaluations, start = arrays["counters"].tolist()
        lists = ("log_likelihoods", "objectives", "best_log_likelihoods", "best_objectives", "ended")
        return EMState(
            np.array(arrays["parameters"]), n_starts, iteration, evaluations, start, best=np.array(arrays["best"]),
            value=-float(arrays["objectives"][-1]), **{name: arrays[name].tolist() for name in lists},
        )  # fmt: skip

    def _has_converged(self, now: EMState) -> bool:
        last = now.objectives[-2:]
        return len(last) == 2 and last[1] - last[0] <= self.tolerance * abs(last[1])

    def _has_ended(self, now: EMState) -> bool:
        return self._has_converged(now) or len(now.objectives) > self.max_iter

    def _message(self, now: EMState) -> str:
        rounds = len(now.objectives) - 1
        how = f"converged after {rounds} rounds" if self._has_converged(now) else f"stopped after {rounds} rounds"
        if self.n_starts == 1:
            return how
        others = sorted(now.ended)[:-1]
        span = f"{others[0]:,.1f}" if len(others) == 1 else f"{others[0]:,.1f} to {others[-1]:,.1f}"
        return (
            f"the best of {self.n_starts} starts {how}, its penalised log-likelihood {now.objectives[-1]:,.1f} "
            f"(elsewhere {span})"
        )


def baum_welch(
    start: HiddenMarkovModel, data: Expectation, *, max_iter: int = 100, tolerance: float = 1e-6
) -> tuple[HiddenMarkovModel, EMState]:
    """EM from one start: the model it ends with, and how it went."""
    state = EM(lambda i: start, max_iter=max_iter, tolerance=tolerance).minimise(data, start.parameters).state
    return start.with_parameters(state.parameters), state
