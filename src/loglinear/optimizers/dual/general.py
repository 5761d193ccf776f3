"""What all kinds of dual ascent share: the options, passes until a gap is certified, L-BFGS, which may take over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from loglinear.arrays import Array, Arrays, Float, Int64
from loglinear.errors import OptionError
from loglinear.optimizers.lbfgs import LBFGS, LBFGSState
from loglinear.optimizers.objective import AnyObjective, Objective
from loglinear.optimizers.optimizer import Callback, Optimizer, Result, l1_of_each, reading_state
from loglinear.optimizers.passes import passes, shuffled
from loglinear.wording import how_many

PARTS = 2  # of a pass, whatever the number of threads
SCALED = 10.0  # the tolerance of L-BFGS with scaled weights, in tolerances: it does not creep, so that little is left
NEAR = 1.5  # the gap seen during a pass, as a multiple of what is small enough, that is worth a certificate
WORSE = 0.002  # a rise of the objective by this share is more than the order of the steps explains


@dataclass
class FinishState:
    """The state of L-BFGS after passes of dual ascent.

    Parameters
    ----------
    passes : int
        Of dual ascent.
    inner : LBFGSState
        Its weights are divided by the ``scale``.
    scale : float64 [D], optional
        One if not given.
    """

    passes: int
    inner: LBFGSState
    scale: Float | None = None

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
        return self.inner.weights if self.scale is None else self.inner.weights * self.scale

    @property
    def gradient(self) -> Float:
        """That of the objective without its L1 penalty [D]."""
        return self.inner.gradient if self.scale is None else self.inner.gradient / self.scale

    def to_arrays(self) -> Arrays:
        """The state as named arrays, for a checkpoint."""
        scale = {} if self.scale is None else {"scale": self.scale.copy()}
        return {"passes": np.array([self.passes], dtype=np.int64), **scale, **self.inner.to_arrays()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> FinishState:
        """Inverse of :meth:`to_arrays`."""
        with reading_state():
            scale = np.array(arrays["scale"], dtype=np.float64) if "scale" in arrays else None
            return cls(int(arrays["passes"][0]), LBFGSState.from_arrays(arrays), scale)


class ScaledObjective:
    """An objective as a function of weights divided by a ``scale`` [D], along which it is less steep or flat."""

    def __init__(self, objective: Objective, scale: Float) -> None:
        self.objective, self.scale, self.use_double_precision = objective, scale, objective.use_double_precision

    def __call__(self, weights: Float) -> tuple[float, Float]:
        value, gradient = self.objective(weights * self.scale)
        return value, gradient * self.scale


@dataclass(frozen=True)
class DualOptions(Optimizer):
    """The options of dual ascent.

    Parameters
    ----------
    max_iter : int
        Most passes, the iterations of L-BFGS included.
    tolerance : float
        How small the gap between primal and dual must be, as a share of the objective.
    seed : int
        Of the order of the steps.
    from_zero : bool
        Whether to begin at zero whatever the starting weights are: the minimum is the same. Training sets it for the
        second phase of a criterion that has two; other starting weights are refused.
    """

    name = "dual"
    summary = (
        "dual coordinate ascent: few passes, with L2: first-order chains, segments, flat labels, max-margin of all"
    )
    default_iterations = 1000

    max_iter: int = 1000
    tolerance: float = 1e-5
    seed: int = 0
    from_zero: bool = False

    def order(self, offsets: Int64, iteration: int) -> Int64:
        """The sequences with these ``offsets`` [S + 1] in the order of a pass."""
        return shuffled(np.arange(len(offsets) - 1), offsets, [self.seed, iteration])

    def finish(
        self,
        objective: Objective,
        weights: Float,
        l1: float,
        callback: Callback,
        n_passes: int,
        state: LBFGSState | None,
        gradient_tolerance: float = LBFGS.gradient_tolerance,
        scale: Float | None = None,
        unit: str = "pass",
    ) -> Result:
        """L-BFGS from the ``weights`` [D] found by passes of dual ascent (or zero, if better), or from a state.

        It searches among weights divided by ``scale`` [D], if that is given. ``unit`` is what a pass is called.
        """
        penalised = np.abs(weights[: objective.n_penalised])
        if state is None and objective(weights)[0] + l1 * float(penalised.sum()) > objective(0.0 * weights)[0]:
            weights = 0.0 * weights
        watch = None if callback is None else lambda inner: callback(FinishState(n_passes, inner, scale))
        most = self.max_iter - n_passes
        tolerance = self.tolerance if scale is None else SCALED * self.tolerance
        optimizer = LBFGS(max_iter=most, tolerance=tolerance, gradient_tolerance=gradient_tolerance)
        function: AnyObjective = objective
        penalty: float | Float = l1
        if scale is not None:
            function, weights = ScaledObjective(objective, scale), weights / scale
            penalty = l1_of_each(l1, objective, weights.size) * scale if l1 else 0.0
        result = optimizer.minimise(function, weights, l1=penalty, callback=watch, state=state)
        before = f"{how_many(n_passes, unit)} of dual ascent, then " if n_passes else ""
        message = f"{before}L-BFGS: {result.message}"
        return Result(FinishState(n_passes, result.state, scale), result.converged, message)


def check_supported(reason: str | None) -> None:
    """Reject a problem that dual ascent does not support, if there is a ``reason``."""
    if reason is not None:
        raise OptionError(f"optimizer='dual': {reason}; use lbfgs")


def check_fits_data(fits: bool) -> None:
    """Reject a stored state that belongs to other data."""
    if not fits:
        raise OptionError("the checkpoint's state does not fit the data; remove it to start again")


def certified_message(now: Any, small: float, near: bool) -> str:
    """Why passes ended, in a state whose gap is certified: it is below the ``small`` share of the objective, or not."""
    if near:
        apart = f"less than {small:g} of the objective"
        return f"converged after {passes(now.iteration)}: primal and dual differ by {apart}"
    apart = f"{now.gap / (abs(now.value) or 1.0):.2g} of the objective"
    return f"stopped after {passes(now.iteration)}, primal and dual differ by {apart}"


def until_certified(
    now: Any,
    small: float,
    most: int,
    certificate: Callable[[], Any],
    one_pass: Callable[[], None],
    callback: Callback,
    rounding: float = 0.0,
) -> Result:
    """Make passes, which change the state ``now``, until the certified gap is below the ``small`` share of the value.

    Parameters
    ----------
    now
        Has ``iteration``, ``value``, ``gap`` (those seen during a pass) and ``certified``.
    most : int
        Passes.
    certificate : callable
        Gives the value, the gap and the weights [D] that both are certified for.
    one_pass : callable
    callback : callable or None
    rounding : float
        A gap that is small enough whatever the value is.
    """
    while True:
        ends = now.iteration >= most
        if ends or (now.iteration and now.gap <= NEAR * small * abs(now.value) + rounding):
            now.value, now.gap, weights = certificate()
            near = now.gap <= small * abs(now.value) + rounding
            if near or ends:
                now.certified = weights
                return Result(now, near, certified_message(now, small, near))
        one_pass()
        if callback is not None and callback(now):
            return Result(now, False, f"stopped after {passes(now.iteration)} (by the callback)")
