"""The run of a training: phases one after the other that can be observed, stopped early, interrupted and resumed."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from loglinear import ending
from loglinear.arrays import Array, Arrays, Float
from loglinear.errors import ModelFileError
from loglinear.optimizers.optimizer import State, l1_of_each
from loglinear.training.checkpoint import Checkpoint, Kept, fingerprint, fixed_options, reading, resume_state
from loglinear.training.dev import Dev
from loglinear.training.problem import MAIN, Phase, Problem, Stage
from loglinear.wording import how_many

PATIENCE = 20  # default for options without one
KEEPING_SECONDS, KEEPING_SHARE = 0.1, 100.0  # between two snapshots at least: seconds, and times what one takes

Snapshot = tuple[list[Float], Arrays, dict[str, Any]]  #: weights of the stages, arrays and notes of a checkpoint


class TrainingInterrupted(KeyboardInterrupt):
    """Training was stopped by Ctrl-C or a termination signal.

    The estimator holds the model learnt so far; the checkpoint, if there is one, everything needed to continue.
    """

    def __init__(self, iteration: int, checkpoint: str | None) -> None:
        self.iteration, self.checkpoint = iteration, checkpoint
        where = f"; go on from {checkpoint} with --resume (resume=True)" if checkpoint else ""
        super().__init__(f"training interrupted after iteration {iteration}{where}")


class Look:
    """The weights in the middle of training, for an observer; worked out when asked for, and only while it is called.

    Parameters
    ----------
    state : State
        Of the optimizer, which changes it later.
    objective : callable
    l1 : float
    """

    def __init__(self, state: State, objective: Any, l1: float) -> None:
        self._state, self._objective, self._l1 = state, objective, l1

    @cached_property
    def weights(self) -> Float:
        """The current model's weights [D], not to be written to; copy what you keep."""
        view = np.asarray(self._state.weights).view()
        view.flags.writeable = False
        return view

    @cached_property
    def norm(self) -> float:
        """||w||."""
        return float(np.sqrt(np.sum(self.weights**2)))

    @cached_property
    def n_active(self) -> int:
        """How many weights are not zero."""
        return int(np.count_nonzero(self.weights))

    @property
    def knows_gradient(self) -> bool:
        """Whether :attr:`gradient_norm` takes no pass over the data."""
        return hasattr(self._state, "gradient")

    @cached_property
    def gradient_norm(self) -> float:
        """The norm of the gradient, with L1 of the steepest of the one-sided derivatives.

        It takes a pass over the data, except after an iteration of L-BFGS (:attr:`knows_gradient`).
        """
        state: Any = self._state
        gradient = state.gradient if self.knows_gradient else self._objective(np.array(self.weights))[1]
        l1 = l1_of_each(self._l1, self._objective, len(gradient))
        signs = np.sign(self.weights)
        sloped = np.where(
            signs != 0.0, gradient + l1 * signs, np.sign(gradient) * np.maximum(np.abs(gradient) - l1, 0.0)
        )
        return float(np.sqrt(np.sum(sloped**2)))


@dataclass(frozen=True)
class Progress:
    """What an observer sees after each iteration.

    ``look`` is the model so far (:class:`Look`); ``history_`` does not keep it.
    """

    iteration: int
    evaluations: int
    objective: float
    seconds: float
    dev_score: float | None
    best_dev_score: float | None
    phase: str = MAIN
    look: Look | None = field(default=None, repr=False, compare=False)

    def recorded(self) -> list[Any]:
        """The fields that a checkpoint keeps, in their order."""
        return [getattr(self, each.name) for each in fields(self) if each.name != "look"]


def score_text(score: float) -> str:
    """A dev score in print: a share as a percentage, a log-likelihood as it is."""
    return f"{100 * score if 0.0 <= score <= 1.0 else score:.2f}"


def rounds_note(history: Sequence[Progress]) -> str:
    """A note for the training message: the objective at the end of each round."""
    ends = [
        progress.objective
        for progress, after in zip(history, [*history[1:], None], strict=True)
        if after is None or after.phase != progress.phase
    ]
    return f"; objective by round {', '.join(f'{value:.4f}' for value in ends)}" if ends else ""


def print_progress(progress: Progress) -> None:
    """A line for an iteration."""
    dev = "" if progress.dev_score is None else f"  dev {score_text(progress.dev_score)}"
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


@dataclass(frozen=True)
class PhaseOutcome:
    """How a phase went; the best dev score and its iteration are None where there is no dev data."""

    stage: int
    objective: float
    iterations: int
    evaluations: int
    converged: bool
    message: str
    best_score: float | None = None
    best_iteration: int | None = None


@dataclass
class Outcome:
    """How a training went.

    Attributes
    ----------
    weights : list of float64 [D]
        Of each stage.
    objective, iterations, evaluations, converged, message
        Of all stages that count, taken together.
    seconds : float
        Of the whole training, including the time before an interruption.
    dev_score, best_iteration : float, int or None
        Of the weights that are best on dev data.
    history : list of Progress
    state : State or None
        Of the optimizer at the end of the first stage.
    interruption : TrainingInterrupted or None
        Set if a signal ended the training.
    """

    weights: list[Float]
    objective: float
    iterations: int
    evaluations: int
    converged: bool
    message: str
    seconds: float
    dev_score: float | None = None
    best_iteration: int | None = None
    history: list[Progress] = field(default_factory=list)
    state: State | None = None
    interruption: TrainingInterrupted | None = None

    def raise_interruption(self) -> None:
        """Raise the interruption, if there was one; called when the estimator has stored the model."""
        if self.interruption is not None:
            raise self.interruption


def train(
    problem: Problem,
    options: Any,
    *,
    dev: Dev | None = None,
    init: Any = None,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = 30.0,
    resume: bool = False,
    observe: Callable[[Progress], None] | None = None,
) -> tuple[Any, Outcome]:
    """Train a problem with the options of an estimator: the model, and how the training went.

    Parameters
    ----------
    problem : Problem
    options
        The estimator.
    dev : Dev, optional
        The result is the first stage's weights that score best on it.
    init
        The model to start from, as the problem takes it.
    checkpoint : path, optional
        Where to store a usable model and everything needed to continue.
    checkpoint_seconds : float
        Time between two checkpoints.
    resume : bool
        Continue from the checkpoint if it exists.
    observe : callable, optional
        Sees a :class:`Progress` after each iteration.
    """
    stages = problem.stages(options, init)
    place = None
    if checkpoint is not None:
        start = [stages[0].begin([])[0]] if stages else []
        arrays = [*problem.arrays(), *start, *([] if dev is None else dev.arrays)]
        mark = fingerprint({**fixed_options(options), **problem.identity(options)}, arrays)
        place = Checkpoint(Path(checkpoint), problem, options, mark)
    resumed = resume_state(place, resume)
    patience = getattr(options, "patience", PATIENCE)
    if observe is None and getattr(options, "verbose", False):
        observe = print_progress
    with catching_signals() as stop:
        run = Run(stages, dev, patience, place, checkpoint_seconds, observe, stop)
        with ending.before_forced_end(run.end_now):
            outcome = run.outcome(resumed)
        return problem.trained_model(outcome.weights), outcome


@contextmanager
def catching_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C or a termination signal sets; a second Ctrl-C interrupts at once.

    In a process that is watched (:mod:`loglinear.ending`), the iteration has a moment to end before that.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def handle(number: int, frame: Any) -> None:
        ending.note(number)
        if stop.is_set() and number == signal.SIGINT and not ending.is_watched():
            raise KeyboardInterrupt
        stop.set()
        hint = " (Ctrl-C once more stops at once)" if number == signal.SIGINT else ""
        _say(f"\nstopping after this iteration{hint}\n")

    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _say(text: str) -> None:
    """Write to standard error at once; not by print, which may be in the middle of a write."""
    with suppress(OSError, ValueError, AttributeError):
        os.write(sys.stderr.fileno(), text.encode())


class _Stopped(Exception):
    """A signal arrived: the iteration, and the weights [D] so far of the current stage."""

    def __init__(self, iteration: int, weights: Float) -> None:
        self.iteration, self.weights = iteration, weights


@dataclass
class Run:
    """One training.

    Parameters
    ----------
    stages : list of Stage
    dev : Dev or None
        Scores the main phase of the first stage that does not only open.
    patience : int
        A run ends after this many iterations without a better dev score.
    checkpoint : Checkpoint or None
        Written now and then, and when a signal stops the run.
    checkpoint_seconds : float
    observe : callable or None
    stop : threading.Event
        Set when the run should end after the current iteration.
    """

    stages: list[Stage]
    dev: Dev | None
    patience: int
    checkpoint: Checkpoint | None
    checkpoint_seconds: float
    observe: Callable[[Progress], None] | None
    stop: threading.Event
    weights: list[Float] = field(default_factory=list)  # of the stages that have ended
    ended: list[PhaseOutcome] = field(default_factory=list)
    history: list[Progress] = field(default_factory=list)
    state: State | None = None
    _kept: Snapshot | None = None
    _keeping: threading.Lock = field(default_factory=threading.Lock)
    _kept_at: float = 0.0  # when the last snapshot was taken,
    _kept_for: float = 0.0  # and how long that took

    def outcome(self, kept: Kept | None) -> Outcome:
        """Run all stages, or those that a checkpoint has not finished."""
        self._began = self._saved = self._kept_at = time.perf_counter()
        if kept is not None:
            self._restore(*kept)
        interruption = None
        try:
            while len(self.weights) < len(self.stages):
                self.weights.append(self._stage(len(self.weights), kept))
                kept = None
            if self.stop.is_set():
                raise _Stopped(sum(each.iterations for each in self.ended), self.weights.pop())
        except _Stopped as stopped:
            self.weights.append(stopped.weights)
            written = None if self.checkpoint is None else self.checkpoint.written
            interruption = TrainingInterrupted(stopped.iteration, written)
        return self._summary(interruption)

    @property
    def seconds(self) -> float:
        """Time spent so far, including the time before an interruption."""
        return time.perf_counter() - self._began

    def _stage(self, number: int, kept: Kept | None) -> Float:
        """The weights that a stage finds."""
        stage = self.stages[number]
        weights, phases = stage.begin(self.weights)
        names = [phase.name for phase in phases]
        with reading(self.checkpoint):
            reached = 0 if kept is None else names.index(kept[1]["phase"])
        last_keep: Arrays = {}
        before: State | None = None
        is_first = all(earlier.opens for earlier in self.stages[:number])
        judge, best = self.dev if is_first else None, Best()
        for phase in phases[reached:]:
            with reading(None if kept is None else self.checkpoint):
                objective, keep = phase.prepare(weights, None if kept is None else _part("phase.", kept[0]))
            if keep and phase.name != MAIN and _same(keep, last_keep):
                continue  # it would learn from the same data as the phase before
            last_keep = keep
            if self.stop.is_set():
                raise _Stopped(sum(each.iterations for each in self.ended), weights)
            running = _PhaseRun(self, number, phase, objective, keep, judge, best)
            before = self.state if phase.continues else before
            weights = running.weights(weights, kept, stage.score_start or phase is not phases[0], before)
            kept, before = None, running.final
        return weights

    def _summary(self, interruption: TrainingInterrupted | None) -> Outcome:
        """The outcome of all stages that count; the last phase of each has its result."""
        counting = [each for each in self.ended if self.stages[each.stage].counts]
        last = list({each.stage: each for each in counting if not self.stages[each.stage].opens}.values())
        worst = next((each for each in last if not each.converged), last[-1] if last else None)
        return Outcome(
            weights=self.weights,
            objective=float(sum(each.objective for each in last)) if last else np.inf,
            iterations=sum(each.iterations for each in counting),
            evaluations=sum(each.evaluations for each in counting),
            converged=worst is not None and worst.converged and interruption is None,
            message="no iteration was finished" if worst is None else worst.message,
            seconds=self.seconds,
            dev_score=next((each.best_score for each in last if each.best_score is not None), None),
            best_iteration=next((each.best_iteration for each in last if each.best_iteration is not None), None),
            history=self.history,
            state=self.state,
            interruption=interruption,
        )

    # -- checkpoints -------------------------------------------------------------------------------------------------

    def save(self, running: _PhaseRun, state: State) -> None:
        """Write the checkpoint; failing to do so is a warning, not an error."""
        self.keep(running, state)
        try:
            self.write_kept()
        except ModelFileError as error:  # hours of training are worth more than the checkpoint
            warnings.warn(f"no checkpoint could be written: {error}", RuntimeWarning, stacklevel=2)
        self._saved = time.perf_counter()

    def write_kept(self) -> None:
        """Write what was kept last, on whichever thread, if it has not been written yet."""
        with self._keeping:
            if self.checkpoint is not None and self._kept is not None:
                self.checkpoint.save(*self._kept)
            self._kept = None

    def end_now(self) -> None:
        """Write the checkpoint while an iteration is under way, which is lost, and say how to continue."""
        self.write_kept()
        if self.checkpoint is not None and self.checkpoint.written:
            iteration = self.history[-1].iteration if self.history else 0
            _say(f"loglinear: {TrainingInterrupted(iteration, self.checkpoint.written)}\n")

    def keep(self, running: _PhaseRun, state: State) -> None:
        """Keep all that a checkpoint consists of: the next iteration may change it in the middle of a kernel."""
        began = time.perf_counter()
        with self._keeping:
            self._kept = None  # two would be in memory otherwise
            self._kept = self._snapshot(running, state)
        self._kept_at = time.perf_counter()
        self._kept_for = self._kept_at - began

    @property
    def is_worth_keeping(self) -> bool:
        """Whether a forced end now would lose more than keeping the state costs: at most a hundredth of the time."""
        since = time.perf_counter() - self._kept_at
        watched = self.checkpoint is not None and ending.is_watched()
        return watched and since >= max(KEEPING_SECONDS, KEEPING_SHARE * self._kept_for)

    def _snapshot(self, running: _PhaseRun, state: State) -> Snapshot:
        best = running.best
        arrays = {f"optimizer.{name}": array for name, array in state.to_arrays().items()}
        arrays |= {f"phase.{name}": array for name, array in running.keep.items()}
        arrays |= {f"done.{i}": weights for i, weights in enumerate(self.weights)}
        if best.weights is not None:
            arrays["best.weights"] = best.weights
        notes = {
            "stage": running.stage,
            "phase": running.phase.name,
            "iteration": state.iteration,
            "objective": state.value,
            "seconds": self.seconds,
            "best_score": None if best.weights is None else best.score,
            "best_iteration": best.iteration,
            "ended": [asdict(each) for each in self.ended],
            "history": [progress.recorded() for progress in self.history],
        }
        return [*self.weights, state.weights.copy()], arrays, notes

    @property
    def is_due(self) -> bool:
        """Whether it is time for a checkpoint."""
        return self.checkpoint is not None and time.perf_counter() - self._saved >= self.checkpoint_seconds

    def _restore(self, arrays: Arrays, notes: dict[str, Any]) -> None:
        with reading(self.checkpoint):
            self.weights = [np.array(arrays[f"done.{i}"]) for i in range(int(notes["stage"]))]
            self.ended = [PhaseOutcome(**each) for each in notes["ended"]]
            self.history = [Progress(*each) for each in notes["history"]]
            self._began -= float(notes["seconds"])


class _PhaseRun:
    """The run of a phase and its callback: scores dev data, tracks the best weights, reports, saves, may stop.

    ``dev`` judges the weights that each phase starts from, and the iterations of the main one. ``best`` is what it has
    found in the phases before.
    """

    def __init__(
        self, run: Run, stage: int, phase: Phase, objective: Any, keep: Arrays, dev: Dev | None, best: Best
    ) -> None:
        self.run, self.stage, self.phase, self.objective, self.keep = run, stage, phase, objective, keep
        self.dev, self.best, self.is_main = dev, best, phase.name == MAIN
        self.out_of_patience = False
        self.resumed = False  # from a checkpoint
        self.went_on = False  # whether an iteration has ended, so that a later failure is not the checkpoint's
        self.final: State | None = None

    def weights(self, start: Float, kept: Kept | None, score_start: bool, before: State | None) -> Float:
        """Minimise from ``start`` [D], or continue from a checkpoint: the final weights, or the best on dev data.

        ``before`` is the state that the phase before ended in, if there was one, or the one to continue from.
        """
        run, phase, state = self.run, self.phase, None
        counted = run.ended[-1] if phase.continues else None
        if kept is not None:
            self.resumed = True
            arrays, notes = kept
            with reading(run.checkpoint):
                state = phase.optimizer.restore(_part("optimizer.", arrays))
                if "best.weights" in arrays:
                    self.best.score, self.best.iteration = float(notes["best_score"]), int(notes["best_iteration"])
                    self.best.weights = np.array(arrays["best.weights"])
                if self.best.weights is not None and self.best.weights.shape != start.shape:
                    raise ModelFileError(f"{self.best.weights.shape} weights, not {start.shape}")
        elif score_start and self.dev is not None:
            self._judge(start, 0)
        if state is None and before is not None:
            state = before if phase.continues else phase.optimizer.take_over(before, self.objective)
        with reading(
            None if kept is None else run.checkpoint, lambda: self.went_on
        ):  # a state may fail when it is used
            result = phase.optimizer.minimise(self.objective, start, l1=phase.l1, callback=self, state=state)
            self._check_first(result.state)
        final = self.final = result.state
        best, message = self.best if self.is_main else Best(), result.message
        weights = np.array(final.weights) if best.weights is None else best.weights
        if self.out_of_patience:
            after = how_many(final.iteration, phase.optimizer.iteration_is)
            message = f"stopped after {after}: no better dev score for {run.patience}"
        endless = getattr(self.objective, "falls_without_end", None)
        converged = result.converged
        if endless is not None and endless(final.value):
            after = how_many(final.iteration, phase.optimizer.iteration_is)
            converged, message = (
                False,
                f"stopped after {after}: the objective falls without end; the last weights are kept",
            )
        if self.stage == 0:
            run.state = final
        stopped = run.stop.is_set()
        if run.checkpoint and (stopped or run.checkpoint.path.exists() or phase.name != MAIN):
            run.save(self, final)  # it stays until the caller has saved the model
        if phase.name == MAIN and hasattr(final, "release"):  # a later phase may take over
            final.release()  # the memory that only the optimizer needs
        run.ended.append(
            PhaseOutcome(
                self.stage,
                final.value if stopped else self._objective_of(final),
                final.iteration - (0 if counted is None else counted.iterations),
                final.evaluations - (0 if counted is None else counted.evaluations),
                converged,
                message,
                None if best.weights is None else best.score,
                None if best.weights is None else best.iteration,
            )
        )
        if stopped:
            raise _Stopped(final.iteration, weights)
        return weights

    def _judge(self, weights: Float, iteration: int) -> float:
        """The dev score of weights [D], which may turn out to be the best."""
        assert self.dev is not None
        score = self.dev.score([*self.run.weights, weights])
        if score > self.best.score:
            self.best.score, self.best.iteration, self.best.weights = score, iteration, weights.copy()
        return score

    def __call__(self, now: State) -> bool:
        """After an iteration; whether to stop. Where there are several starts, patience ends one of them."""
        run, best, score = self.run, self.best, None
        self._check_first(now)
        self.went_on = True
        if self.dev is not None and self.is_main:
            score = self._judge(getattr(now, "candidate", now.weights), now.iteration)  # of several starts, the current
            since = max(best.iteration, getattr(now, "began_at", 0))
            self.out_of_patience = now.iteration - since >= run.patience
        best_score = None if score is None else best.score
        phase = getattr(now, "phase", self.phase.name)  # an optimizer may have its own parts
        progress = Progress(now.iteration, now.evaluations, now.value, run.seconds, score, best_score, phase)
        run.history.append(progress)
        if run.observe is not None:
            run.observe(replace(progress, look=Look(now, self.objective, self.phase.l1)))
        if run.is_due:
            run.save(self, now)
        elif run.is_worth_keeping:
            run.keep(self, now)
        if self.out_of_patience and hasattr(now, "give_up"):
            now.give_up()
            return run.stop.is_set()
        return run.stop.is_set() or self.out_of_patience

    def _check_first(self, state: State) -> None:
        """Reject the state of a checkpoint from which the first iteration leads nowhere."""
        if self.resumed and not self.went_on and not np.isfinite(state.value):
            raise ModelFileError("its objective is not a number")

    def _objective_of(self, state: State) -> float:
        """The objective at the final weights; optimizers that only track it during a pass need another evaluation."""
        if self.phase.optimizer.exact:
            return state.value
        l1 = l1_of_each(self.phase.l1, self.objective, len(state.weights))
        objective, weights = self.objective, state.weights
        value = objective.value(weights) if hasattr(objective, "value") else objective(weights)[0]
        return float(value + float(np.sum(l1 * np.abs(weights))))


def _part(prefix: str, arrays: Arrays) -> dict[str, Array]:
    """The arrays whose names begin with a prefix, named without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _same(one: Arrays, other: Arrays) -> bool:
    """Whether all arrays are equal."""
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)
