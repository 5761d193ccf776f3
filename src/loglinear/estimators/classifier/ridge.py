"""Least squares and ridge regression behind scikit-learn's conventions (Zhang, 9.2 and 9.3)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lstsq
from scipy.sparse.linalg import LinearOperator, lsqr
from sklearn.utils.validation import validate_data

from loglinear.arrays import Array, Arrays, Float
from loglinear.estimators.conventions import RegressorConventions
from loglinear.estimators.estimator import Estimator, read_notes
from loglinear.estimators.options import LeastSquaresOptions, RidgeOptions
from loglinear.model_file import Reader, string_arrays
from loglinear.options import check, documented
from loglinear.training.problem import example_weights
from loglinear.wording import how_many

# ----------------------------------------------------------------------------------------------------------------------
# Ridge regression (Zhang, 9.3; Hoerl & Kennard 1970), several targets at once:
#
#     min over w, b of   sum_i c_i (w . x_i + b - y_i)^2  +  l2 |w|^2
#
# With a free bias, rows and targets are taken less their (weighted) means, and b = mean y - w . mean x. With a =
# sqrt(c) (x - mean x) as rows of A [S, D] and t the targets likewise,
#
#     w = (A'A + l2 I)^-1 A't                     primal, D <= S
#     w = A' (A A' + l2 I)^-1 t                   dual, D > S: the same by the identity of Woodbury
#
# by a Cholesky factorisation in O(min(S, D)^2 max(S, D)), by the singular values where l2 is 0 (the shortest of the
# best w). For sparse rows too large for that, conjugate gradients on the normal equations in the form of LSQR (Paige &
# Saunders 1982), in which means are never taken off: A v = a' v - (mean x . v) sqrt(c).


CLOSED, GRADIENTS = "closed-form", "conjugate-gradients"
CLOSED_LIMIT = 2_000  # of min(S, D), up to which sparse rows have a closed form by default


@dataclass(frozen=True)
class RidgeSolution:
    """Weights, and how they were found.

    Parameters
    ----------
    coef : float64 [T, D]
    intercept : float64 [T]
    objective : float
        Sum over the targets.
    iterations : int
        Of conjugate gradients, the most of any target; 1 for a closed form.
    converged : bool
    message : str
    """

    coef: Float
    intercept: Float
    objective: float
    iterations: int
    converged: bool
    message: str


@dataclass(frozen=True)
class _Centred:
    """Rows [S, D] and targets [S, T] less their means, times the roots of the weights."""

    rows: Any
    mean: Float
    roots: Float
    targets: Float
    target_mean: Float

    def times(self, v: Float) -> Float:
        """A v [S, ...]."""
        return (self.roots * (self.rows @ v - self.mean @ v).T).T

    def turned_times(self, u: Float) -> Float:
        """A' u [D, ...]."""
        scaled = (self.roots * u.T).T
        return np.asarray((self.rows.T @ scaled) - np.multiply.outer(self.mean, scaled.sum(axis=0)))

    def gram(self, turned: bool) -> Float:
        """A A' [S, S], or A'A [D, D] if ``turned``."""
        weighted = self.rows.multiply(self.roots[:, np.newaxis]) if sp.issparse(self.rows) else None
        if weighted is None:
            a = self.roots[:, np.newaxis] * (self.rows - self.mean)
            return np.asarray(a.T @ a if turned else a @ a.T)
        weighted = weighted.tocsr()
        if turned:
            total = weighted.T @ self.roots
            outer = np.outer(total, self.mean)
            square = (self.roots @ self.roots) * np.outer(self.mean, self.mean)
            return np.asarray((weighted.T @ weighted).toarray() - outer - outer.T + square)
        along = weighted @ self.mean
        outer = np.outer(along, self.roots)
        square = float(self.mean @ self.mean) * np.outer(self.roots, self.roots)
        return np.asarray((weighted @ weighted.T).toarray() - outer - outer.T + square)


def solve(
    rows: Any,
    targets: Float,
    l2: float,
    weights: Float | None = None,
    bias: str = "free",
    scale: float = 1.0,
    solver: str = "auto",
    max_iter: int | None = None,
    tolerance: float = 1e-12,
) -> RidgeSolution:
    """The best weights of each target.

    Parameters
    ----------
    rows : float64 [S, D] or a SciPy sparse matrix
    targets : float64 [S, T]
    l2 : float
        Factor of |w|^2.
    weights : float64 [S], optional
        c; one if not given.
    bias : {"free", "penalised", "none"}
        A penalised bias is the weight of one more column, of constant value ``scale``.
    solver : {"auto", "closed-form", "conjugate-gradients"}
    max_iter : int, optional
        Of conjugate gradients, for each target.
    tolerance : float
        Residual, to its norms, at which they end.
    """
    if bias == "penalised":
        column = np.full((rows.shape[0], 1), scale)
        rows = sp.hstack([rows, column], format="csr") if sp.issparse(rows) else np.hstack([rows, column])
    problem = _centred(rows, targets, weights, bias == "free")
    if solver == "auto":
        direct = not sp.issparse(rows) or min(rows.shape) <= CLOSED_LIMIT
        solver = CLOSED if direct and not (sp.issparse(rows) and l2 == 0.0) else GRADIENTS
    if solver == CLOSED:
        coef, converged, iterations, message = _closed(problem, l2), True, 1, "in closed form"
    else:
        coef, converged, iterations = _gradients(problem, l2, max_iter, tolerance)
        steps = how_many(iterations, "step")
        message = f"{steps} of conjugate gradients" + ("" if converged else ", which did not end")
    objective = float(np.sum((problem.times(coef) - problem.targets) ** 2) + l2 * np.sum(coef**2))
    intercept = problem.target_mean - problem.mean @ coef
    if bias == "penalised":
        coef, intercept = coef[:-1], scale * coef[-1]
    return RidgeSolution(np.ascontiguousarray(coef.T), intercept, objective, iterations, converged, message)


def _centred(rows: Any, targets: Float, weights: Float | None, free_bias: bool) -> _Centred:
    shares = np.ones(rows.shape[0]) if weights is None else weights
    mean, target_mean = np.zeros(rows.shape[1]), np.zeros(targets.shape[1])
    if free_bias:
        mean = np.asarray(rows.T @ shares) / shares.sum()
        target_mean = shares @ targets / shares.sum()
    roots = np.sqrt(shares)
    return _Centred(rows, mean, roots, roots[:, np.newaxis] * (targets - target_mean), target_mean)


def _closed(problem: _Centred, l2: float) -> Float:
    """The weights [D, T]."""
    n, d = problem.rows.shape
    turned = d <= n
    if l2 > 0.0:
        gram = problem.gram(turned)
        gram[np.diag_indices_from(gram)] += l2
        try:
            factor = cho_factor(gram, lower=True, overwrite_a=True)
        except LinAlgError:
            pass  # l2 is too small for these numbers: go by singular values
        else:
            if turned:
                return np.asarray(cho_solve(factor, problem.turned_times(problem.targets)))
            return problem.turned_times(np.asarray(cho_solve(factor, problem.targets)))
    dense = problem.rows.toarray() if sp.issparse(problem.rows) else problem.rows
    a = problem.roots[:, np.newaxis] * (dense - problem.mean)
    if l2 == 0.0:
        return np.asarray(lstsq(a, problem.targets, cond=max(a.shape) * np.finfo(np.float64).eps)[0])
    stacked = np.vstack([a, np.sqrt(l2) * np.eye(d)])
    return np.asarray(lstsq(stacked, np.vstack([problem.targets, np.zeros((d, problem.targets.shape[1]))]))[0])


def ridge_coefficients(found: Float, targets: Float, l2: float, weights: Float | None) -> Float:
    """Coefficients a [T, S] with  w = sum_i a_i x_i,  of the best w, whose values at the rows are ``found`` [S, T].

    There  l2 w = sum_i c_i (y_i - f(x_i)) x_i.
    """
    shares = np.ones(len(found)) if weights is None else weights
    return np.ascontiguousarray((shares[:, np.newaxis] * (targets - found)).T / l2)


def _gradients(problem: _Centred, l2: float, max_iter: int | None, tolerance: float) -> tuple[Float, bool, int]:
    """The weights [D, T], whether all targets converged, and the most steps that one of them took."""
    operator = LinearOperator(problem.rows.shape, matvec=problem.times, rmatvec=problem.turned_times, dtype=np.float64)
    most = 10 * max(problem.rows.shape) if max_iter is None else max_iter
    found, converged, steps = [], True, 1
    for target in problem.targets.T:
        w, stopped, n = lsqr(
            operator, target, damp=float(np.sqrt(l2)), atol=tolerance, btol=tolerance, conlim=0.0, iter_lim=most
        )[:3]
        found.append(w)
        converged, steps = converged and stopped != 7, max(steps, int(n))
    return np.array(found).T.reshape(problem.rows.shape[1], -1), converged, steps


# ----------------------------------------------------------------------------------------------------------------------
# The estimators.


class _LinearRegressor(Estimator[Float], RegressorConventions):
    """What both regressors share."""

    learnt = "coef_"
    in_file = ()
    l2: float
    coef_: Float
    intercept_: Any
    objective_: float
    n_iter_: int
    converged_: bool
    message_: str
    seconds_: float | None
    n_features_in_: int
    feature_names_in_: Array

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Find the best weights.

        Parameters
        ----------
        X : array or sparse matrix [S, A]
        y : array [S] or [S, T]
        sample_weight : array of float [S], optional
        """
        options = self.get_params(deep=False)
        check(self)
        rows, targets = validate_data(
            self, X, y, accept_sparse="csr", dtype=np.float64, multi_output=True, y_numeric=True
        )
        targets = np.asarray(targets, dtype=np.float64)
        weights = None if sample_weight is None else example_weights(sample_weight, rows.shape[0], "example")
        began = time.perf_counter()
        solution = solve(
            rows, targets.reshape(len(targets), -1), float(self.l2), weights, options["bias"],
            float(options["bias_scale"]), options["solver"], options["max_iter"], options["tolerance"],
        )  # fmt: skip
        self._keep(solution, targets.ndim == 1)
        self.seconds_ = time.perf_counter() - began
        return self

    def _keep(self, solution: RidgeSolution, one_target: bool) -> None:
        self.coef_ = solution.coef[0] if one_target else solution.coef
        self.intercept_ = float(solution.intercept[0]) if one_target else solution.intercept
        self.objective_, self.n_iter_ = solution.objective, solution.iterations
        self.converged_, self.message_ = solution.converged, solution.message

    def predict(self, X: Any) -> Float:
        """Predicted targets of the rows: [S], or [S, T] with several."""
        self._fitted()
        rows = validate_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64)
        return np.asarray(rows @ self.coef_.T) + self.intercept_

    # -- files -----------------------------------------------------------------------------------------------------
    #
    # header   options, one_target, training
    # arrays   coef [T, A], intercept [T], strings (the columns' names, packed)

    def _storage(self) -> tuple[dict[str, Any], Arrays]:
        coef = np.atleast_2d(self._fitted())
        header = {
            "options": self._stored_options(),
            "one_target": self.coef_.ndim == 1,
            "training": {
                "complete": True,
                "objective": self.objective_,
                "iterations": self.n_iter_,
                "converged": self.converged_,
                "message": self.message_,
            },
        }
        names = getattr(self, "feature_names_in_", np.zeros(0, dtype=object)).tolist()
        intercept = np.atleast_1d(np.asarray(self.intercept_, dtype=np.float64))
        return header, {"coef": coef, "intercept": intercept, **string_arrays("strings", names)}

    def _restore(self, read: Reader, given: Mapping[str, Any]) -> None:
        one_target, notes = read.flag("one_target"), read_notes(read)
        coef = read.floats("coef", (1 if one_target else None, None))
        if not coef.size:
            read.fail("coef", "there are no weights")
        intercept, names = read.floats("intercept", (len(coef),)), read.columns(coef.shape[1], "strings")
        how = (notes.get(name) for name in ("objective", "iterations", "converged", "message"))
        self._keep(RidgeSolution(coef, intercept, *how), one_target)  # type: ignore[arg-type]  # notes are checked
        self.n_features_in_, self.seconds_ = coef.shape[1], None
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)


@documented
class Ridge(RidgeOptions, _LinearRegressor):
    """Ridge regression: min sum_i c_i (w . x_i + b - y_i)^2 + l2 |w|^2, in closed form or by conjugate gradients.

    Equal to scikit-learn's ``Ridge(alpha=l2)``.

    PARAMETERS

    Attributes
    ----------
    coef_ : float64 [A] or [T, A]
    intercept_ : float or float64 [T]
    n_features_in_, feature_names_in_, objective_, n_iter_, converged_, message_, seconds_
    """

    kind = "ridge"


@documented
class LeastSquares(LeastSquaresOptions, _LinearRegressor):
    """Least squares: min sum_i c_i (w . x_i + b - y_i)^2 (9.2); of several best w the shortest.

    Attributes are those of :class:`Ridge`.

    PARAMETERS
    """

    kind = "least-squares"
    l2 = 0.0
