"""The training loop: an optimizer run that can be watched, stopped early, interrupted and resumed."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from loglinear.arrays import Array, Float
from loglinear.errors import ModelFileError
from loglinear.optimizers.objective import AnyObjective
from loglinear.optimizers.optimizer import Optimizer, State, l1_of_each

if TYPE_CHECKING:
    from loglinear.training.checkpoint import AnyCheckpoint


class TrainingInterrupted(KeyboardInterrupt):
    """Training stopped by Ctrl-C or a termination signal after saving a checkpoint (if it had a place for one)."""

    def __init__(self, iteration: int, checkpoint: str | None) -> None:
        self.iteration, self.checkpoint = iteration, checkpoint
        where = f"; go on from {checkpoint} with --resume (resume=True)" if checkpoint else ""
        super().__init__(f"training interrupted after iteration {iteration}{where}")


@dataclass(frozen=True)
class Progress:
    """What an observer sees after each iteration."""

    iteration: int
    evaluations: int
    objective: float
    seconds: float
    dev_score: float | None
    best_dev_score: float | None
    phase: str = "main"


def print_progress(progress: Progress) -> None:
    """A line for an iteration."""
    dev = "" if progress.dev_score is None else f"  dev {100 * progress.dev_score:.2f}"
    print(
        f"iteration {progress.iteration:4d}  objective {progress.objective:.4f}{dev}  {progress.seconds:.1f} s",
        flush=True,
    )


@dataclass
class Best:
    """The best weights on the dev data so far."""

    score: float = -np.inf
    iteration: int = 0
    weights: Float | None = None


@dataclass
class TrainingOutcome:
    """Weights and how they came about."""

    weights: Float
    objective: float
    iterations: int
    evaluations: int
    converged: bool
    message: str
    seconds: float
    best: Best | None
    history: list[Progress] = field(default_factory=list)
    state: State | None = None


@contextmanager
def catching_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C or a termination signal sets; a second Ctrl-C interrupts at once."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def handle(number: int, frame: Any) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.set()
        with suppress(
            OSError, ValueError, AttributeError
        ):  # not through the stream, which may be in the middle of a write
            os.write(sys.stderr.fileno(), b"\nstopping after this iteration (Ctrl-C once more stops at once)\n")

    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@dataclass
class Training:
    """One run of an optimizer over an objective.

    Parameters
    ----------
    optimizer : Optimizer
    objective : callable
        From weights to value and gradient.
    l1 : float
        Factor of the sum of |w|.
    dev_score : callable, optional
        Score of a weight vector on the dev data, higher is better; the best weights are kept.
    patience : int
        Stop after so many iterations without a better dev score.
    checkpoint : AnyCheckpoint, optional
        Where to keep what is needed to go on; written now and then, and when a signal stops the run.
    checkpoint_seconds : float
        Time between checkpoints.
    observe : callable, optional
        Sees a :class:`Progress` after each iteration.
    phase : str
        Which part of a training in several parts this is; a checkpoint keeps it.
    keep : dict of arrays
        What that part has made of those before; a checkpoint keeps it.
    """

    optimizer: Optimizer
    objective: AnyObjective
    l1: float = 0.0
    dev_score: Callable[[Float], float] | None = None
    patience: int = 20
    checkpoint: AnyCheckpoint | None = None
    checkpoint_seconds: float = 30.0
    observe: Callable[[Progress], None] | None = None
    phase: str = "main"
    keep: dict[str, Array] = field(default_factory=dict)

    @property
    def saved_at(self) -> str | None:
        """The checkpoint's file, if it has been written."""
        return str(self.checkpoint.path) if self.checkpoint and self.checkpoint.path.exists() else None

    def run(
        self,
        start: Float,
        resume: tuple[dict[str, Array], dict[str, Any]] | None = None,
        score_start: bool = False,
    ) -> TrainingOutcome:
        """Minimise from ``start`` [D], or go on from a checkpoint's arrays and notes.

        With ``score_start`` the weights of the start, too, may prove to be the best on the dev data.
        """
        state, best, seconds_before = None, Best(), 0.0
        if resume is not None:
            state, best, seconds_before = self._restore(*resume)
        elif score_start and self.dev_score is not None:
            best = Best(self.dev_score(start), 0, start.copy())
        with catching_signals() as stop:
            watch = _Watch(self, best, stop, seconds_before)
            result = self.optimizer.minimise(self.objective, start, l1=self.l1, callback=watch, state=state)
            final = result.state
            if stop.is_set():
                if self.checkpoint:
                    self.save(final, best, watch.seconds)
                raise TrainingInterrupted(final.iteration, str(self.checkpoint.path) if self.checkpoint else None)
        if self.checkpoint and (self.checkpoint.path.exists() or self.phase != "main"):
            self.save(final, best, watch.seconds)  # kept until the caller has saved the model
        message = result.message
        if watch.out_of_patience:
            what = self.optimizer.iterations_are
            message = f"stopped after {final.iteration} {what}: no better dev score for {self.patience}"
        return TrainingOutcome(
            weights=np.array(final.weights) if best.weights is None else best.weights,
            objective=self._objective_of(final),
            iterations=final.iteration,
            evaluations=final.evaluations,
            converged=result.converged,
            message=message,
            seconds=watch.seconds,
            best=None if best.weights is None else best,
            history=watch.history,
            state=final,
        )

    def _objective_of(self, state: State) -> float:
        """The objective of the weights, which an optimizer that learns as it goes along has only met on the way."""
        if self.optimizer.exact:
            return state.value
        each = l1_of_each(self.l1, self.objective, len(state.weights))
        return self.objective(state.weights)[0] + float(np.sum(each * np.abs(state.weights)))

    def save(self, state: State, best: Best, seconds: float) -> None:
        """Write the checkpoint; a place that cannot take it is a warning, not the end."""
        assert self.checkpoint is not None
        arrays = {f"optimizer.{name}": array for name, array in state.to_arrays().items()}
        arrays |= {f"phase.{name}": array for name, array in self.keep.items()}
        if best.weights is not None:
            arrays["best.weights"] = best.weights
        notes = {
            "phase": self.phase,
            "iteration": state.iteration,
            "objective": state.value,
            "seconds": seconds,
            "best_score": None if best.weights is None else best.score,
            "best_iteration": best.iteration,
        }
        try:
            self.checkpoint.save(state.weights, arrays, notes)
        except ModelFileError as error:  # hours of training are worth more than the checkpoint
            warnings.warn(f"no checkpoint could be written: {error}", RuntimeWarning, stacklevel=2)

    def _restore(self, arrays: dict[str, Array], notes: dict[str, Any]) -> tuple[State, Best, float]:
        state = self.optimizer.restore(
            {k.removeprefix("optimizer."): a for k, a in arrays.items() if k.startswith("optimizer.")}
        )
        best = Best()
        if "best.weights" in arrays:
            best = Best(float(notes["best_score"]), int(notes["best_iteration"]), np.array(arrays["best.weights"]))
        return state, best, float(notes["seconds"])


class _Watch:
    """What happens after each iteration: score the dev data, keep the best, tell, save, and say when to stop."""

    def __init__(self, training: Training, best: Best, stop: threading.Event, seconds_before: float) -> None:
        self._training, self._best, self._stop = training, best, stop
        self._began = time.perf_counter() - seconds_before
        self._saved = time.perf_counter()
        self.history: list[Progress] = []
        self.out_of_patience = False

    @property
    def seconds(self) -> float:
        """Time spent so far, that before an interruption included."""
        return time.perf_counter() - self._began

    def __call__(self, now: State) -> bool:
        training, best, score = self._training, self._best, None
        if training.dev_score is not None:
            score = training.dev_score(now.weights)
            if score > best.score:
                best.score, best.iteration, best.weights = score, now.iteration, now.weights.copy()
            self.out_of_patience = now.iteration - best.iteration >= training.patience
        best_score = None if score is None else best.score
        phase = getattr(now, "phase", training.phase)  # an optimizer may have parts of its own
        progress = Progress(now.iteration, now.evaluations, now.value, self.seconds, score, best_score, phase)
        self.history.append(progress)
        if training.observe is not None:
            training.observe(progress)
        if training.checkpoint and time.perf_counter() - self._saved >= training.checkpoint_seconds:
            training.save(now, best, progress.seconds)
            self._saved = time.perf_counter()
        return self._stop.is_set() or self.out_of_patience
