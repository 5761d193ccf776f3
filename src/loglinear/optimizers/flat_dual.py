"""Stochastic dual coordinate ascent for flat labels: logistic regression, softmax-margin and multi-class SVMs.

As for chains (:mod:`~loglinear.optimizers.dual`), each row keeps the marginals that it has a share in the weights by.
As it has one label, its step can be the best there is, of all marginals at once. With q = c ||x||^2 / 2 l2,

    cll, softmax-margin      log a_y + q a_y = s_y + cost_y + q kept_y - level                Newton steps
    max-margin               a = the projection of  kept + (s + cost) / q  onto the simplex   (Crammer & Singer 2001)

A bias that is not penalised has no place in the dual. It is penalised around a centre, which moves to where the bias is
after each pass (the proximal point method, Rockafellar 1976), so that the penalty is nothing in the end.

Passes end when primal and dual differ by less than the tolerance of the objective, which is certified in double
precision (:mod:`~loglinear.optimizers.flat_dual_problem`) once the gaps met in a pass say so. Corpora of many numbers
are gone over in single precision as long as that does. Two parts share a pass, for any number of threads, as for
chains; each takes its own moves for 1.25 times as large as they are, and for twice as large, which is safe whatever the
data, where all rows have all columns or a pass has made things worse.

About q passes are needed where the labels cannot be told apart well. Where two hundred would not do, or have not, and
the loss is smooth, L-BFGS goes on, until the same gap, by the marginals of its weights, is small enough, or a hundredth
of the tolerance makes no difference to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.criteria.criterion import Criterion
from loglinear.errors import ModelFileError, OptionError
from loglinear.optimizers.dual_finish import FinishState, finish
from loglinear.optimizers.flat_dual_kernels import Table, add_changes, dual_pass, mix_with_gold
from loglinear.optimizers.flat_dual_problem import PARTS, FlatProblem
from loglinear.optimizers.lbfgs import LBFGS, LBFGSState
from loglinear.optimizers.objective import Objective
from loglinear.optimizers.optimizer import Arrays, Optimizer, Result
from loglinear.structures.flat_features import FlatFeatures
from loglinear.structures.gold import Gold
from loglinear.structures.structure import PartFeatures
from loglinear.threads import in_threads

Float = npt.NDArray[np.float64]
CRITERIA = ("cll", "softmax-margin", "max-margin")
ROUNDS, OVERLAP = 8, 1.25  # of a pass; how much both parts move the same weights, if that does
WORSE = 0.002  # a rise by this share is more than the order of the rows makes
ROWS_A_PART = 500  # in a round; fewer rows are not split
SINGLE_FROM = 2_000_000  # numbers in the data
MOST_MISSES = 3  # certificates that fail before single precision is given up
MOST_PASSES = 200  # before L-BFGS goes on, where the loss is smooth; or fewer, if as many will not do
LOOK_BACK, LEAST_FALL = 5, 1e-12  # passes that the gap's fall is measured over; the least share to hope for
FINER = (1.0, 0.1, 0.01)  # tolerance of L-BFGS, as shares of what is asked for, while the gap is too large
UNFIT = "the checkpoint's state does not fit the data; remove it to start anew"


@dataclass
class FlatDualState:
    """Everything needed to go on as if never stopped.

    Attributes
    ----------
    iteration, evaluations : int
        Passes so far.
    misses : int
        Certificates that were not good enough although the gaps met in a pass were.
    value, gap : float
        The objective, and how far primal and dual are apart: as met in the last pass, or certified.
    overlap : float
        What each part of a pass takes its own moves for.
    l1, l2 : float
        The penalties; a state of other ones is a warm start.
    gaps : list of float
        The gaps of the last passes, the newest last.
    centre : float64 [Y]
        What a free bias is penalised around.
    table : float64 or float32 [A + 1, Y]
        The weights, before the L1 penalty brings them nearer to zero.
    kept : float64 or float32 [N, Y]
        The marginals of each row that the weights are made of.
    found : float64 [D] or None
        The weights that the value and the gap are certified for.
    problem : FlatProblem or None
        None before it is known whether a stored state fits.
    """

    iteration: int
    evaluations: int
    misses: int
    value: float
    gap: float
    overlap: float
    l1: float
    l2: float
    centre: Float
    table: Table
    kept: Table
    gaps: list[float] = field(default_factory=list)
    found: Float | None = None
    problem: FlatProblem | None = None

    @property
    def weights(self) -> Float:
        """The weights [D]."""
        if self.found is not None:
            return self.found
        assert self.problem is not None
        return self.problem.vector_of(self.problem.shrunk(self.table, self.centre))

    def to_arrays(self) -> Arrays:
        """All of it as named arrays, for a checkpoint."""
        return {
            "counts": np.array([self.iteration, self.evaluations, self.misses], dtype=np.int64),
            "values": np.array([self.value, self.gap, self.overlap, self.l1, self.l2, *self.gaps]),
            "centre": self.centre.copy(),
            "table": self.table.copy(),
            "kept": self.kept.copy(),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> FlatDualState:
        """Inverse of :meth:`to_arrays`."""
        try:
            iteration, evaluations, misses = (int(count) for count in arrays["counts"])
            value, gap, overlap, l1, l2, *gaps = arrays["values"].tolist()
            centre, table, kept = (np.array(arrays[name]) for name in ("centre", "table", "kept"))
        except (KeyError, TypeError, ValueError) as error:
            raise ModelFileError(f"the checkpoint's optimizer state cannot be read ({error}): train anew") from None
        return cls(iteration, evaluations, misses, value, gap, overlap, l1, l2, centre, table, kept, gaps)


@dataclass(frozen=True)
class FlatDual(Optimizer):
    """Passes of dual coordinate ascent over flat labels until primal and dual are nearly the same.

    Parameters
    ----------
    max_iter : int
        Most passes, the iterations of L-BFGS included.
    tolerance : float
        Stop when the gap between primal and dual is less than this share of the objective, or of a ten-thousandth of
        what that is with weights of zero, if it is less: there may be no loss left.
    seed : int
        Of the order of the rows.
    """

    name = "dual"
    summary = "stochastic dual coordinate ascent over flat labels"
    default_iterations = 1000

    max_iter: int = 1000
    tolerance: float = 1e-5
    seed: int = 0

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> FlatDualState | FinishState:
        """The state of :meth:`FlatDualState.to_arrays`, or of L-BFGS after it."""
        return FinishState.from_arrays(arrays) if "passes" in arrays else FlatDualState.from_arrays(arrays)

    def minimise(
        self,
        objective: Objective,
        weights0: Float,
        *,
        l1: float = 0.0,
        callback: Callable[[Any], bool | None] | None = None,
        state: Any = None,
    ) -> Result:
        """Lower the objective; ``weights0`` [D] and a ``state`` of other penalties say where to begin."""
        reason = why_not_flat_dual(objective.criterion, objective.features, objective.gold, objective.l2)
        if reason is None and objective.terms:
            reason = "the objective has terms beside the losses of its rows"
        if reason is not None:
            raise OptionError(f"optimizer='dual': {reason}; use lbfgs")
        if isinstance(state, FinishState):
            return self._finish(objective, state.weights, l1, callback, state.passes, state.inner)
        problem = FlatProblem(objective, l1)
        now = _start(problem, weights0) if state is None else _fitting(state, problem)
        while True:
            ends = now.iteration >= self.max_iter or (objective.criterion.smooth and self._is_too_slow(problem, now))
            if ends or (now.iteration and now.gap <= self.tolerance * problem.size(now.value)):
                best = problem.certificate(now.kept, now.table, now.centre)
                near = best.gap <= self.tolerance * problem.size(best.value)
                if near or now.iteration >= self.max_iter:
                    now.value, now.gap, now.found = best
                    return Result(now, near, self._message(now, near))
                if ends:
                    return self._finish(objective, best.weights, l1, callback, now.iteration, None)
                now.misses += 1
                if now.misses >= MOST_MISSES and now.table.dtype == np.float32:
                    _sharpen(now, problem)
            self._pass(problem, now)
            if callback is not None and callback(now):
                return Result(now, False, f"stopped after {_passes(now.iteration)} (by the callback)")

    def _is_too_slow(self, problem: FlatProblem, now: FlatDualState) -> bool:
        """Whether so many passes as may be would not do."""
        if now.iteration >= MOST_PASSES:
            return True
        if len(now.gaps) <= LOOK_BACK or not 0.0 < now.gap < now.gaps[0]:
            return len(now.gaps) > LOOK_BACK and now.gap >= now.gaps[0] > 0.0
        wanted = max(self.tolerance * problem.size(now.value), LEAST_FALL * now.gap)
        fall = np.log(now.gaps[0] / now.gap) / LOOK_BACK
        return bool(np.log(now.gap / wanted) > fall * (MOST_PASSES - now.iteration))

    def _finish(
        self,
        objective: Objective,
        weights: Float,
        l1: float,
        callback: Callable[[FinishState], bool | None] | None,
        passes: int,
        state: LBFGSState | None,
    ) -> Result:
        """L-BFGS until the gap is small, or it finds no better weights."""
        problem = FlatProblem(objective, l1)
        for share in FINER:
            limits = replace(self, tolerance=share * self.tolerance)
            least_gradient = share * LBFGS.gradient_tolerance
            result = finish(limits, objective, weights, l1, callback, passes, state, least_gradient)
            gap, size = problem.gap_of(result.weights), problem.size(result.value)
            if not result.converged or gap <= self.tolerance * size:
                break
            state = result.state.inner
        if gap > self.tolerance * size:
            apart = f"{result.message}; primal and dual differ by {gap / size:.2g} of the objective"
            return replace(result, message=apart)
        return result

    def _message(self, now: FlatDualState, near: bool) -> str:
        if near:
            passes = _passes(now.iteration)
            return f"converged after {passes}: primal and dual differ by less than {self.tolerance:g} of the objective"
        apart = f"primal and dual differ by {now.gap / (abs(now.value) or 1.0):.2g} of the objective"
        return f"stopped after {_passes(now.iteration)}, {apart}"

    def _pass(self, problem: FlatProblem, now: FlatDualState) -> None:
        """One more pass, in place."""
        n = len(problem.rows.gold)
        order = np.random.default_rng([self.seed, now.iteration]).permutation(n)
        losses, gaps = np.zeros(n), np.zeros(n)
        if n < PARTS * ROUNDS * ROWS_A_PART:
            dual_pass(order, problem.rows, problem.rates(), now.table, now.kept, losses, gaps)
        else:
            rates, tables = problem.rates(now.overlap), [now.table.copy() for _ in range(PARTS)]
            for chosen in np.array_split(order, ROUNDS):
                parts = np.array_split(chosen, PARTS)

                def steps(k: int) -> None:
                    dual_pass(parts[k], problem.rows, rates, tables[k], now.kept, losses, gaps)  # noqa: B023

                in_threads(steps, range(PARTS), problem.n_threads)
                add_changes(now.table, tables[0], tables[1], now.overlap)
        if problem.free:  # the centre moves to the bias, and the bias as far again
            bias = now.table[-1].astype(np.float64)
            now.table[-1] = 2.0 * bias - now.centre
            now.centre = bias
        before = now.value
        now.value = float(losses.sum()) + sum(problem.penalties(now.table, problem.rates().shrink))
        now.gap = float(gaps.sum())
        now.gaps = [*now.gaps, now.gap][-LOOK_BACK - 1 :]
        if now.value > (1.0 + WORSE) * before:
            now.overlap = float(PARTS)
        now.iteration += 1
        now.evaluations += 1


def why_not_flat_dual(criterion: Criterion, features: PartFeatures, gold: Gold, l2: float) -> str | None:
    """What speaks against dual ascent, or None."""
    if not isinstance(features, FlatFeatures):
        return "it goes over rows of numbers whose labels have weights of their own"
    if criterion.name not in CRITERIA:
        return f"it is for {', '.join(CRITERIA)}"
    if l2 <= 0.0:
        return f"it needs an L2 penalty, and l2 is {l2:g}"
    if gold.allowed is not None:
        return "it needs one label for each row"
    return None


def _passes(n: int) -> str:
    return f"{n} pass{'' if n == 1 else 'es'}"


def _start(problem: FlatProblem, weights0: Float) -> FlatDualState:
    single = len(problem.rows.values) >= SINGLE_FROM and not problem.has_margin
    dtype: type = np.float32 if single else np.float64
    n_labels, n_columns = problem.features.n_labels, problem.features.n_columns
    centre = problem.table_of(weights0)[-1].copy() if problem.free else np.zeros(n_labels)
    table: Table = np.zeros((n_columns + 1, n_labels), dtype=dtype)
    kept = problem.of_gold(dtype)
    overlap = OVERLAP if len(problem.rows.ids) else float(PARTS)
    now = FlatDualState(0, 0, 0, np.inf, np.inf, overlap, problem.l1, problem.l2, centre, table, kept, problem=problem)
    if weights0.any() and not problem.has_margin:
        now.kept = problem.of_weights(weights0, dtype)
    if weights0.any():
        _renew(now, problem)
    return now


def _renew(now: FlatDualState, problem: FlatProblem) -> None:
    """Make the weights of the kept marginals anew, with a free bias at its centre."""
    problem.balance(now.kept)
    table = problem.sums(now.kept)[0]
    table[-1] += now.centre
    now.table = table.astype(np.float32) if now.kept.dtype == np.float32 else table


def _sharpen(now: FlatDualState, problem: FlatProblem) -> None:
    """Go on in double precision."""
    now.kept = now.kept.astype(np.float64)
    _renew(now, problem)


def _fitting(state: Any, problem: FlatProblem) -> FlatDualState:
    """A state that was stored, if it fits the problem; if its penalties are others, the place to begin from."""
    features, n = problem.features, len(problem.rows.gold)
    if not isinstance(state, FlatDualState) or state.kept.shape != (n, features.n_labels):
        raise OptionError(UNFIT)
    if state.table.shape != (features.n_columns + 1, features.n_labels) or state.centre.shape != (features.n_labels,):
        raise OptionError(UNFIT)
    now = FlatDualState(
        state.iteration, state.evaluations, state.misses, state.value, state.gap, state.overlap, problem.l1,
        problem.l2, state.centre.copy(), state.table.copy(), state.kept.copy(), list(state.gaps), problem=problem,
    )  # fmt: skip
    if (state.l1, state.l2) != (problem.l1, problem.l2):
        mix_with_gold(min(problem.l2 / state.l2, 1.0), problem.rows, now.kept)
        _renew(now, problem)
        now.iteration = now.evaluations = now.misses = 0
        now.value, now.gap, now.gaps = np.inf, np.inf, []
    return now
