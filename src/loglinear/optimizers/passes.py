"""Passes over a corpus, a sequence at a time in a shuffled order: what stochastic and online learning share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.errors import ModelFileError
from loglinear.optimizers.lazy_weights import LazyWeights
from loglinear.optimizers.objective import Objective
from loglinear.optimizers.optimizer import Result
from loglinear.structures.gold import Gold
from loglinear.structures.structure import PartFeatures, Scores, Structure

Float = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]
PERIOD = 10  # passes that the stopping rule looks back


@dataclass
class PassState:
    """Everything needed to go on after a pass as if never stopped.

    Attributes
    ----------
    iteration, evaluations : int
        Passes so far (the same number).
    value : float
        Losses of the last pass as they were met, with the penalties.
    moves : int
        Sequences of the last pass that moved the weights.
    current : float64 [D]
        The weights after the last step.
    sums, squares : float64 [D or 0]
        Sum of the weights after each step, and of each squared derivative; empty if not kept.
    n_steps : int
        Steps so far.
    step : float
        Size of the first step.
    values : list of float
        Recent values, the newest last.
    """

    iteration: int
    evaluations: int
    value: float
    current: Float
    sums: Float
    squares: Float
    n_steps: int
    step: float
    values: list[float] = field(default_factory=list)
    moves: int = 1

    @property
    def weights(self) -> Float:
        """The weights [D] of the model: the mean of all steps' if averaged."""
        return self.sums / self.n_steps if len(self.sums) and self.n_steps else self.current

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {
            "counts": np.array([self.iteration, self.n_steps, self.moves], dtype=np.int64),
            "values": np.array([self.value, self.step, *self.values]),
            "current": self.current.copy(),
            "sums": self.sums.copy(),
            "squares": self.squares.copy(),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> PassState:
        """Inverse of :meth:`to_arrays`."""
        try:
            iteration, n_steps, moves = (int(count) for count in arrays["counts"])
            value, step, *recent = (float(number) for number in arrays["values"])
            current, sums, squares = (np.array(arrays[k], dtype=np.float64) for k in ("current", "sums", "squares"))
        except (KeyError, TypeError, ValueError) as error:
            raise ModelFileError(f"the checkpoint's optimizer state cannot be read ({error}): train anew") from None
        if min(iteration, n_steps) < 0 or {len(sums), len(squares)} - {0, len(current)}:
            raise ModelFileError("the parts of the checkpoint's optimizer state do not fit together: train anew")
        return cls(iteration, iteration, value, current, sums, squares, n_steps, step, recent, moves)


class SequencePasses(ABC):
    """Walks a corpus pass by pass; subclasses say what a visit to a sequence does.

    Parameters
    ----------
    options
        The optimizer: ``max_iter``, ``tolerance`` and ``seed`` are looked at.
    objective : Objective
    weights0 : float64 [D]
    state : PassState, optional
    sequences : int64, optional
        The sequences to visit; all if not given.
    """

    lazy: LazyWeights
    step: float

    def __init__(
        self,
        options: Any,
        objective: Objective,
        weights0: Float,
        state: PassState | None,
        sequences: Int64 | None = None,
    ) -> None:
        self._limits = options
        self.objective, self.corpus = objective, objective.corpus
        self.features: PartFeatures = objective.features.as_lists()
        self.gradient = self.features.sparse_gradient()
        self.start = weights0 if state is None else state.current
        self.sequences = np.arange(self.corpus.n_sequences) if sequences is None else sequences

    def restore(self, state: PassState | None) -> None:
        """Take over what a state holds beside the weights; to be called when :attr:`lazy` is there."""
        self.lay_out(self.lazy.weights)
        if state is None:
            self.state = PassState(
                0, 0, np.inf, self.lazy.weights, self.lazy.sums, self.lazy.squares, 0, self.step
            )  # fmt: skip
            return
        self.lazy.sums[...], self.lazy.squares[...] = state.sums, state.squares
        self.state = PassState(
            state.iteration, state.evaluations, state.value, self.lazy.weights, self.lazy.sums, self.lazy.squares,
            state.n_steps, state.step, list(state.values), state.moves,
        )  # fmt: skip

    @abstractmethod
    def visit(self, sequence: int, progress: float) -> tuple[float, bool]:
        """Learn from one sequence, ``progress`` passes into the training; its loss before, and if the weights moved."""

    def penalty(self, weights: Float) -> float:
        """What the penalties add to the losses."""
        return 0.0

    def lay_out(self, weights: Float) -> None:
        """Score by ``weights`` from now on, which may change."""
        self._weights = weights
        self._laid_out = self.features.lay_out(weights, self.objective.penalties)

    def prepare(self, sequence: int) -> tuple[Structure, Scores, Gold, Float]:
        """The sequence's shape, part scores, annotation and weight."""
        lo, hi = int(self.corpus.offsets[sequence]), int(self.corpus.offsets[sequence + 1])
        structure = self.features.structure(self.corpus, sequence, sequence + 1)
        self._laid_out = self.features.laid_out_again(self._laid_out, self._weights, self.objective.penalties)
        scores = self.features.scores(self._laid_out, self.corpus, sequence, sequence + 1)
        weight = self.objective.sequence_weights[sequence : sequence + 1]
        return structure, scores, self.objective.gold.slice(lo, hi), weight

    def order(self, iteration: int) -> Int64:
        """The sequences in the order of a pass."""
        return np.random.default_rng([self._limits.seed, iteration]).permutation(self.sequences)

    def one_pass(self, iteration: int) -> tuple[float, int]:
        """Visit all sequences in the order of this pass; the sum of their losses, and how many moved the weights."""
        order = self.order(iteration)
        total, moves, n = 0.0, 0, len(order)
        for i, sequence in enumerate(order.tolist()):
            loss, moved = self.visit(sequence, iteration - 1 + i / n)
            total, moves = total + loss, moves + moved
        self.lazy.settle()
        return total, moves

    def until_done(self, callback: Callable[[PassState], bool | None] | None) -> Result:
        """Passes until there is nothing to learn, the objective stands still, or the callback says stop."""
        state, limits = self.state, self._limits
        while True:
            reason = self._converged(state)
            if reason:
                return Result(state, True, f"converged: {reason}")
            if state.iteration >= limits.max_iter:
                return Result(state, False, f"stopped after {_passes(state.iteration)} (max_iter {limits.max_iter})")
            losses, state.moves = self.one_pass(state.iteration + 1)
            state.iteration += 1
            state.evaluations += 1
            state.n_steps += len(self.sequences)
            state.value = losses + self.penalty(state.weights)
            state.values = [*state.values, state.value][-PERIOD - 1 :]
            if callback is not None and callback(state):
                return Result(state, False, f"stopped after {_passes(state.iteration)} (by the callback)")

    def _converged(self, state: PassState) -> str:
        if state.iteration and not state.moves:
            return f"nothing left to learn after {_passes(state.iteration)}"
        tolerance = self._limits.tolerance
        if tolerance and len(state.values) > PERIOD:
            before, now = state.values[0], state.values[-1]
            if abs(before - now) <= tolerance * abs(now):
                return f"{PERIOD} passes changed the objective by less than {tolerance:g} of itself"
        return ""


def _passes(n: int) -> str:
    return f"{n} pass" + ("" if n == 1 else "es")
