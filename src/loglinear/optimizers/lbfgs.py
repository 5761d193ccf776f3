"""L-BFGS, and OWL-QN where weights carry an L1 penalty: batch minimisation of a sum of losses.

The problem is  min over w of  F(w) = f(w) + Σ_i l1_i |w_i|,  f smooth (losses and l2 ||w||²), given as value and
gradient. Each iteration moves along d = −H ∇f, H an estimate of the inverse Hessian that is never formed: the last M
pairs s = w' − w, y = ∇f' − ∇f define it, and the two-loop recursion multiplies by it (Nocedal 1980):

1. q ← −∇f; from the newest pair to the oldest:  α_i ← ρ_i s_i·q,  q ← q − α_i y_i        with ρ_i = 1 / s_i·y_i
2. q ← γ q,  γ = s·y / y·y of the newest pair (Liu & Nocedal 1989: the scale that lets step 1 be right)
3. from the oldest pair to the newest:  q ← q + (α_i − ρ_i y_i·q) s_i
4. the step t along d = q satisfies the weak Wolfe conditions  f(w + t d) ≤ f(w) + c1 t ∇f·d  and
   ∇f(w + t d)·d ≥ c2 ∇f·d,  so that s·y > 0 and H stays positive definite. t = 1 is tried first (1 / ||∇f|| when there
   is no pair yet) and nearly always taken, so an iteration costs one evaluation.

With L1, F has kinks where weights are zero. OWL-QN (Andrew & Gao 2007) stays in one orthant at a time:

1. the pseudo-gradient ⋄F, the steepest of the one-sided derivatives, replaces ∇f in the recursion (not in the pairs)
2. d_i ← 0 where d_i does not have the sign of −⋄_i F
3. the orthant is ξ_i = sign(w_i), or sign(−⋄_i F) where w_i = 0
4. w' = π(w + t d; ξ), which sets weights that would leave the orthant to exactly zero; t is halved or so until
   F(w') ≤ F(w) + c1 ⋄F·(w' − w)

Cost: 4 M D numbers read per iteration (M pairs, D weights) beside the evaluation. Sums are made in a fixed order in
blocks, never by BLAS, whose results change with its number of threads. This file holds what users see (options,
state, result, loop), ``lbfgs_run`` the kernels, the steps of an iteration and the choice of t.

References
----------
Nocedal (1980), Updating quasi-Newton matrices with limited storage, Mathematics of Computation 35.
Liu & Nocedal (1989), On the limited memory BFGS method for large scale optimization, Mathematical Programming 45.
Andrew & Gao (2007), Scalable training of L1-regularized log-linear models, ICML.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from loglinear import mapped
from loglinear.arrays import Array, Float
from loglinear.errors import OptionError
from loglinear.optimizers.optimizer import Callback, Optimizer, Result, StoredState, l1_of_each, register
from loglinear.options import option

Objective = Callable[[Float], tuple[float, Float]]


PAIRS = ("s", "y", "s_y", "y_y")


@dataclass
class LBFGSState(StoredState):
    """Everything needed to continue as if never stopped; D weights, M pairs at most, m <= M pairs held.

    Attributes
    ----------
    iteration, evaluations : int
        Accepted iterations and calls of the objective so far.
    value : float
        F, the L1 penalty included.
    weights, gradient : float64[D]
        The weights, and the gradient of the smooth part there.
    s, y : float64[M, D]
        Differences of weights and of gradients; only the rows named in ``order`` are filled.
    s_y, y_y : float64[M]
        Inner products of each pair.
    values : list of float
        Recent values, the newest last, as many as the stopping rules look back.
    order : list of int
        Rows of the pairs from the oldest to the newest [m]; all rows of a state that was read.
    """

    recent = "values"
    arrays = ("weights", "gradient", *PAIRS)

    iteration: int
    evaluations: int
    value: float
    weights: Float
    gradient: Float
    s: Float
    y: Float
    s_y: Float
    y_y: Float
    values: list[float]
    order: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.order = list(range(self.s_y.size))

    def copied(self, name: str) -> Array:
        """A copy of an array; of the pairs [m, D] from the oldest to the newest."""
        if name in PAIRS:
            return mapped.taken(getattr(self, name), np.array(self.order, dtype=np.int64))
        return super().copied(name)

    def fits(self) -> bool:
        m = self.s_y.size
        shapes = self.gradient.shape == self.weights.shape and self.s.shape == self.y.shape == (m, self.weights.size)
        fits = self.weights.ndim == 1 and shapes and self.s_y.shape == self.y_y.shape == (m,)
        return fits and bool(np.all(self.s_y > 0.0))


@register
@dataclass(frozen=True)
class LBFGS(Optimizer):
    """L-BFGS, or OWL-QN when there is an L1 penalty.

    Parameters
    ----------
    memory : int
        Pairs kept (M); memory use is 2 M + 4 vectors of D numbers, or 2 M + 6 with L1.
    max_iter : int
        Stop after this many iterations, those before a resumption included.
    tolerance : float
        Converged when F fell by less than this share of itself over the last ``period`` iterations; 0 switches the
        rule off.
    period : int
        Iterations the rule looks back.
    gradient_tolerance : float
        Converged when ||gradient|| <= gradient_tolerance * max(1, ||weights||) (the pseudo-gradient with L1).
        Rounding may keep a small one out of reach: the run also ends when F has not fallen for 100 iterations.
    max_line_search : int
        Evaluations one line search may take.
    seed : int
        Not used: nothing is random here.
    """

    name = "lbfgs"
    summary = "L-BFGS, or OWL-QN with an L1 penalty: batch steps on all cores"
    default_iterations = 1000
    iteration_is = "iteration"
    exact = True
    state_class = LBFGSState

    memory: int = option("pairs of steps that the curvature is estimated from", default=10, least=1, most=200)
    max_iter: int = 1000
    tolerance: float = 1e-5
    period: int = 10
    gradient_tolerance: float = 1e-5
    max_line_search: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("memory", 1), ("max_iter", 0), ("period", 1), ("max_line_search", 1)):
            if getattr(self, name) < least:
                raise OptionError(f"{name} must be at least {least}, not {getattr(self, name)}")
        for name in ("tolerance", "gradient_tolerance"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise OptionError(f"{name} must be a number from 0 up, not {getattr(self, name)}")

    def minimise(
        self,
        objective: Objective,
        weights0: npt.ArrayLike,
        *,
        l1: float | Float = 0.0,
        callback: Callback = None,
        state: LBFGSState | None = None,
    ) -> Result:
        """Minimise objective(w) + Σ l1_i |w_i|.

        Parameters
        ----------
        objective : callable
            Takes weights [D] (not to be kept or changed), gives the smooth part's value and gradient [D]; it may
            reuse the gradient's memory. A value that is not finite means "too far" and shortens the step.
        weights0 : array_like [D]
            Where to start; not changed. Ignored when ``state`` is given.
        l1 : float or float64[D]
            Penalty of all weights or of each; 0 leaves a weight unpenalised.
        callback : callable, optional
            Sees the state after each iteration (its arrays change later: copy what you keep); True stops.
        state : LBFGSState, optional
            Continue from here; it is not changed. With the same options, objective and ``l1`` the result is the same,
            bit for bit, as without the interruption.
        """
        from loglinear.optimizers.lbfgs_run import Run  # here: it needs Numba, and options alone should not

        run = Run(self, objective, l1_of_each(l1, objective, np.size(weights0)), weights0, state)
        while True:
            if reason := run.converged():
                return Result(run.state, True, f"converged: {reason}")
            if run.state.iteration >= self.max_iter:
                return Result(run.state, False, f"{run.stopped} (max_iter {self.max_iter})")
            if run.flat() or not run.iterate():
                if getattr(
                    objective, "use_double_precision", bool
                )():  # the steps have become too small for single precision
                    run.evaluate_again()
                    continue
                flat = "(it is flat up to rounding here, or its gradient is wrong)"
                return Result(run.state, False, f"{run.stopped}: no step lowers the objective any more {flat}")
            if callback is not None and callback(run.state):
                return Result(run.state, False, f"{run.stopped} (by the callback)")
