"""Training of the coefficients of a kernel's model, by optimizers of linear models.

The model is  s(y) = sum_i a_iy k(x_i, x) + b_y z.  Its weight vector is the coefficients [S, Y], then the biases [Y] if
there are any. With a factor Phi of the Gram matrix (:mod:`~loglinear.features.gram`) it is a linear model of the rows
of Phi with the weights  w = Phi'a,  and  l2 a'Ka = l2 ||w||^2,  so that an optimizer finds w:

    dual      a_i = -c_i (alpha_i - gold_i) / 2 l2, from the marginals alpha_i that dual ascent keeps: with the hinge,
              zero for all rows that are right by a margin
    others    the only a of the pivots with  Phi'a = w

The primal, the dual and the gap between them are those of the linear problem in Phi.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from loglinear.arrays import Array, Arrays, Float
from loglinear.features.gram import Factor
from loglinear.optimizers.dual.flat import FlatDual, FlatDualState, FlatProblem
from loglinear.optimizers.dual.general import DualOptions
from loglinear.optimizers.objective import AnyObjective, Objective
from loglinear.optimizers.optimizer import Callback, Optimizer, Result, State

REVISITS = 50  # of rows between labels in each pass of dual ascent
NOTHING = 1e-12  # a coefficient is zero below this share of the greatest that its row could have


@dataclass(frozen=True)
class CoefficientObjective:
    """An objective as a function of coefficients and biases [D].

    Parameters
    ----------
    linear : callable
        The objective over the rows of the factor.
    factor : Factor
    n_labels : int
        Y.
    """

    linear: AnyObjective
    factor: Factor
    n_labels: int

    def __call__(self, weights: Float) -> tuple[float, Float]:
        value, gradient = self.linear(self.to_linear(weights))
        table = gradient.reshape(-1, self.n_labels)
        n = self.factor.rows.shape[1]
        return value, np.concatenate([self.factor.rows @ table[:n], table[n:]]).ravel()

    def value(self, weights: Float) -> float:
        """The value alone."""
        linear, at = self.linear, self.to_linear(weights)
        return linear.value(at) if isinstance(linear, Objective) else linear(at)[0]

    def to_linear(self, weights: Float) -> Float:
        """The linear model's weights, of given coefficients and biases [D]."""
        table = weights.reshape(-1, self.n_labels)
        n = len(self.factor.rows)
        return np.concatenate([self.factor.weights(table[:n]), table[n:]]).ravel()

    def from_linear(self, weights: Float) -> Float:
        """Coefficients of the pivots, and biases [D], of the linear model's weights."""
        table = weights.reshape(-1, self.n_labels)
        n = self.factor.rows.shape[1]
        return np.concatenate([self.factor.coefficients(table[:n]), table[n:]]).ravel()

    def of_marginals(self, state: FlatDualState, balance: Callable[[FlatProblem, Float], None] | None = None) -> Float:
        """Coefficients and biases [D] of a state of dual ascent, its marginals adjusted by ``balance`` first."""
        problem = state.problem
        assert problem is not None
        alpha, rows = state.alpha.astype(np.float64), problem.rows
        alpha /= alpha.sum(axis=1, keepdims=True)
        if balance is not None:
            balance(problem, alpha)
        apart = problem.of_gold(np.float64) - alpha
        apart[np.abs(apart) < NOTHING] = 0.0
        coefficients = apart * (rows.sample_weights / (2.0 * problem.l2))[:, np.newaxis]
        table = problem.table_of(state.weights)
        biases = table[-1:] if problem.features.bias != "none" else table[:0]
        return np.concatenate([coefficients, biases]).ravel()


def balance_between(problem: FlatProblem, alpha: Float) -> None:
    """Adjust marginals [S, Y] so that a free bias has no derivative, by those of rows that are between labels.

    :meth:`~loglinear.optimizers.dual.flat.FlatProblem.balance` has a share of all rows, and leaves few coefficients of
    zero.
    """
    between = np.flatnonzero((alpha > NOTHING).sum(axis=1) > 1)
    weights = problem.rows.sample_weights
    excess = weights @ (alpha - problem.of_gold(np.float64))
    more, fewer, there = np.maximum(excess, 0.0), np.maximum(-excess, 0.0), weights[between] @ alpha[between]
    if problem.free and fewer.any() and (more <= there).all():
        keep = 1.0 - np.divide(more, there, out=np.zeros_like(more), where=there > 0.0)
        left = alpha[between] @ (1.0 - keep)
        alpha[between] = alpha[between] * keep + np.outer(left, fewer / fewer.sum())


@dataclass(frozen=True)
class CoefficientState:
    """The state of an optimizer of the linear model, with coefficients as its weights."""

    inner: State
    objective: CoefficientObjective
    certified: float | None = None  # most that the objective may be for the dual's coefficients to be taken

    @property
    def iteration(self) -> int:
        return self.inner.iteration

    @property
    def evaluations(self) -> int:
        return self.inner.evaluations

    @property
    def value(self) -> float:
        return self.inner.value

    @property
    def weights(self) -> Float:
        """Coefficients and biases [D]."""
        objective, state = self.objective, self.inner
        if not isinstance(state, FlatDualState):
            return objective.from_linear(state.weights)
        found = objective.of_marginals(state)
        for balance in (balance_between, FlatProblem.balance):
            if self.certified is None or objective.value(found) <= self.certified:
                break
            found = objective.of_marginals(state, balance)
        return found

    def to_arrays(self) -> Arrays:
        """The inner state, for a checkpoint."""
        return self.inner.to_arrays()


@dataclass(frozen=True)
class Coefficients(Optimizer):
    """An optimizer of coefficients, which are found by an optimizer of linear models.

    Parameters
    ----------
    inner : Optimizer
    """

    inner: Optimizer
    max_iter: int = field(init=False, default=0)  # that of the inner one counts

    name = "coefficients"
    summary = "coefficients of a kernel, by way of a factor of its Gram matrix"

    @property
    def iteration_is(self) -> str:  # type: ignore[override]  # the inner optimizer's
        return self.inner.iteration_is

    def minimise(
        self,
        objective: CoefficientObjective,
        weights0: Float,
        *,
        l1: float = 0.0,
        callback: Callback = None,
        state: Any = None,
    ) -> Result:
        assert not l1, "coefficients have no such penalty"

        def watch(now: State) -> bool | None:
            assert callback is not None
            return callback(CoefficientState(now, objective))

        inner = self.inner
        if isinstance(inner, DualOptions) and not getattr(inner, "prune", 0.0):  # which it refuses
            inner = FlatDual(inner.max_iter, inner.tolerance, inner.seed, revisits=REVISITS)
        result = inner.minimise(
            objective.linear,
            objective.to_linear(weights0),
            callback=None if callback is None else watch,
            state=state.inner if isinstance(state, CoefficientState) else state,
        )
        return replace(result, state=CoefficientState(result.state, objective, self._most(result)))

    def _most(self, result: Result) -> float | None:
        """The greatest objective whose distance from the dual is within the tolerance, if dual ascent has ended."""
        state = result.state
        if not (isinstance(state, FlatDualState) and state.certified is not None and state.problem is not None):
            return None
        allowed: float = self.inner.tolerance * state.problem.size(state.value)  # type: ignore[attr-defined]  # dual has it
        return max(state.value, state.value - state.gap + allowed)

    def restore(self, arrays: Mapping[str, Array]) -> State:
        return self.inner.restore(arrays)
