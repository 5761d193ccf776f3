"""Kernel functions of two rows, their Gram matrix, and a factor of it (Aronszajn 1950; Schölkopf & Smola 2002).

A kernel k(x, x') is the inner product of two rows after a map z into a space that may have any number of columns. A
linear model of z(x) whose weights are a sum of training rows there needs the kernel alone (Smith, Vail & Lafferty 2007,
footnote 2):

    w = sum_i a_i z(x_i)          w . z(x) = sum_i a_i k(x_i, x)          ||w||^2 = a'Ka,   K_ij = k(x_i, x_j)

    linear     x . x'
    poly       (gamma x . x' + coef0)^degree
    rbf        exp(-gamma ||x - x'||^2)

K is positive semi-definite, so that it has a factor Phi with Phi Phi' = K: the training rows in the coordinates of an
orthonormal basis of their span. :class:`Factor` is the pivoted Cholesky one, whose basis is made of r of the rows, the
pivots; r is the rank of K up to rounding, often far below the number of rows. A linear model of the rows of Phi is the
kernel's model, with the same penalty, so that everything that trains linear models trains it.

These kernels have nothing to do with the compiled loops of :mod:`loglinear.kernels`. Letters: S and T rows, A columns,
r pivots.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from loglinear.arrays import Float, Int64
from loglinear.errors import DataError, OptionError
from loglinear.options import Registry, declared, option, options

Rows = Any  #: float64 [S, A], or a SciPy matrix in CSR
MOST_ROWS = 15_000  # of a Gram matrix: it and its factor take 3.6 GB then
NUMBERS_AT_ONCE = 4_000_000  # of a Gram matrix that is made block by block
LEAST_ROWS = 1000  # that the tolerance of the rank counts
NOT_A_KERNEL = 1e-8  # what may be left of a Gram matrix beside its factor, as a share of its greatest number
PROBES = 8  # random vectors that this is measured along

KERNELS: Registry[KernelFunction] = Registry(
    "kernel", dict.fromkeys(("linear", "poly", "rbf"), "loglinear.features.gram")
)
register = KERNELS.register


class KernelFunction(ABC):
    """A kernel of two rows; a spec (``rbf:gamma=0.5``) sets its options."""

    name: ClassVar[str]

    @abstractmethod
    def __call__(self, rows: Rows, others: Rows) -> Float:
        """k of each of the ``rows`` [S, A] with each of the ``others`` [T, A]: [S, T]."""

    def fitted(self, rows: Rows) -> Self:
        """The same kernel, with the options that depend on the training rows [S, A] worked out."""
        return self

    def to_header(self) -> dict[str, Any]:
        """Its part of a model file: name and options."""
        return {"name": self.name, **{name: getattr(self, name) for name in declared(type(self))}}

    def __str__(self) -> str:
        values = ",".join(f"{name}={value:.6g}" for name, value in list(self.to_header().items())[1:])
        return f"{self.name}:{values}" if values else self.name


@register
@options
class Linear(KernelFunction):
    """x . x': the linear model itself, by way of its rows."""

    name = "linear"

    def __call__(self, rows: Rows, others: Rows) -> Float:
        return _products(rows, others)


@options
class ScaledKernel(KernelFunction):
    """A kernel with a factor gamma, by default one over the number of columns times their variance."""

    gamma: float | None = option(
        "factor of the product or the distance; scale is 1 / (columns * variance)",
        default=None,
        above=0,
        none_word="scale",
    )

    @property
    def factor(self) -> float:
        """gamma, which must be known."""
        assert self.gamma is not None, "fitted works it out"
        return self.gamma

    def fitted(self, rows: Rows) -> Self:
        if self.gamma is not None:
            return self
        numbers = rows.shape[0] * rows.shape[1]
        values = rows.data if sp.issparse(rows) else rows
        mean = values.sum() / numbers
        spread = float((((values - mean) ** 2).sum() + (numbers - values.size) * mean**2) / numbers)
        gamma = 1.0 / (rows.shape[1] * spread) if spread > 0.0 else 1.0
        return type(self)(**{name: getattr(self, name) for name in declared(type(self))} | {"gamma": gamma})


@register
@options
class Poly(ScaledKernel):
    """(gamma x . x' + coef0)^degree: products of up to ``degree`` columns."""

    name = "poly"

    degree: int = option("the power", default=3, least=1, most=100)
    coef0: float = option("added before the power: how much lower powers count", default=0.0, least=0)

    def __call__(self, rows: Rows, others: Rows) -> Float:
        with np.errstate(over="ignore"):  # checked by gram
            return (self.factor * _products(rows, others) + self.coef0) ** self.degree


@register
@options
class Rbf(ScaledKernel):
    """exp(-gamma ||x - x'||^2): nearness; gamma is one over twice the variance of a Gaussian around each row."""

    name = "rbf"

    def __call__(self, rows: Rows, others: Rows) -> Float:
        if not (sp.issparse(rows) or sp.issparse(others)):
            centre = others.mean(axis=0)  # distances do not change, and less is lost to rounding
            rows, others = rows - centre, others - centre
        apart = _products(rows, others)
        apart *= -2.0
        apart += _squares(rows)[:, np.newaxis]
        apart += _squares(others)
        np.maximum(apart, 0.0, out=apart)
        apart *= -self.factor
        return np.exp(apart, out=apart)


@dataclass(frozen=True)
class OwnKernel(KernelFunction):
    """A function of the user's own from rows [S, A] and others [T, A] to numbers [S, T]."""

    function: Callable[[Any, Any], Any]
    name = "own"

    def __call__(self, rows: Rows, others: Rows) -> Float:
        try:
            found = self.function(rows, others)
            made = np.asarray(found.toarray() if sp.issparse(found) else found, dtype=np.float64)
        except Exception as error:
            raise DataError(f"kernel raised {type(error).__name__}: {error}") from error
        if made.shape != (rows.shape[0], others.shape[0]):
            raise DataError(
                f"kernel: {rows.shape[0]} rows and {others.shape[0]} others gave an array of shape "
                f"{list(made.shape)}, not [{rows.shape[0]}, {others.shape[0]}]"
            )
        return made

    def to_header(self) -> dict[str, Any]:
        return {"name": self.name}


def make_kernel(given: Any) -> KernelFunction:
    """The kernel that a spec names, or a user's function."""
    if callable(given):
        return OwnKernel(given)
    if not isinstance(given, str):
        names = ", ".join(KERNELS)
        raise OptionError(f"kernel={given!r:.60} is neither a function nor one of {names}, as in 'rbf:gamma=0.5'")
    return KERNELS.spec(given).make()


def kernel_of_header(header: Mapping[str, Any], function: Any = None) -> KernelFunction:
    """The kernel of a model file; ``function`` is the user's own, None to only look at the model."""
    values = dict(header)
    name = values.pop("name")
    if name == OwnKernel.name:
        return OwnKernel(function)
    part = KERNELS[name]
    for each in declared(part).values():
        if values[each.name] is None:
            raise ValueError(f"{each.name} is missing")
        each.check(values[each.name])
    return part(**values)


def _products(rows: Rows, others: Rows) -> Float:
    """Inner products [S, T]."""
    made = rows @ others.T
    return np.asarray(made.toarray() if sp.issparse(made) else made, dtype=np.float64)


def _squares(rows: Rows) -> Float:
    """Squared norms [S]."""
    if sp.issparse(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float64).ravel()
    return np.einsum("sa,sa->s", rows, rows)


# ----------------------------------------------------------------------------------------------------------------------
# Gram matrices.


def blocks(n_rows: int, n_others: int) -> list[tuple[int, int]]:
    """Runs of rows whose kernels with others are worked out at once."""
    step = max(1, NUMBERS_AT_ONCE // max(n_others, 1))
    return [(first, min(first + step, n_rows)) for first in range(0, n_rows, step)]


def gram(kernel: KernelFunction, rows: Rows, others: Rows) -> Float:
    """k of each of the ``rows`` with each of the ``others`` [S, T], block by block, checked to be finite."""
    out = np.empty((rows.shape[0], others.shape[0]))
    for first, end in blocks(*out.shape):
        out[first:end] = kernel(rows[first:end], others)
        if not np.isfinite(out[first:end]).all():
            i, j = np.argwhere(~np.isfinite(out[first:end]))[0].tolist()
            raise DataError(
                f"kernel {kernel} is {out[first + i, j]} for rows {first + i} and {j} (from 0); scale the columns, or "
                "choose another kernel"
            )
    return out


def training_gram(kernel: KernelFunction, rows: Rows) -> Float:
    """The Gram matrix [S, S] of training rows; refuses more than memory should hold, and one that is not symmetric."""
    n = rows.shape[0]
    if n > MOST_ROWS:
        raise DataError(
            f"kernel {kernel} on {n:,} rows needs a matrix of {n * n * 8 / 1e9:,.1f} GB; kernels are for at most "
            f"{MOST_ROWS:,} rows: train on a sample of them, or without a kernel on columns of your own making"
        )
    made = gram(kernel, rows, rows)
    greatest = _greatest(made)
    for first, end in blocks(n, n):
        apart = np.abs(made[first:end] - made[:, first:end].T)
        if apart.max(initial=0.0) > NOT_A_KERNEL * greatest:
            i, j = np.unravel_index(int(apart.argmax()), apart.shape)
            one, other = made[first + i, j], made[j, first + i]
            raise DataError(
                f"kernel is not symmetric: {one:g} for rows {first + i} and {j} (from 0), but {other:g} the other way "
                "round"
            )
    return made


def _greatest(matrix: Float) -> float:
    """The greatest size of a number, without a second matrix."""
    return float(max(matrix.max(initial=0.0), -matrix.min(initial=0.0)))


@dataclass(frozen=True)
class Factor:
    """A matrix Phi with Phi Phi' = K.

    Parameters
    ----------
    rows : float64 [S, r]
        Phi; those of the pivots are lower triangular.
    pivots : int64 [r]
        Numbers of the rows that the basis is made of.
    """

    rows: Float
    pivots: Int64

    @classmethod
    def of(cls, matrix: Float) -> Factor:
        """The factor of a Gram matrix [S, S], which is overwritten."""
        n, diagonal = len(matrix), matrix.diagonal().copy()
        greatest = _greatest(matrix)
        if greatest == 0.0:
            raise DataError("kernel is zero for all pairs of rows: there is nothing to learn from")
        probes = np.random.default_rng(0).choice([-1.0, 1.0], size=(n, PROBES))
        seen = matrix @ probes
        tolerance = max(n, LEAST_ROWS) * np.finfo(np.float64).eps * greatest
        lower, places, rank, _ = dpstrf(matrix.T, tol=tolerance, lower=1, overwrite_a=1)
        rows = np.zeros((n, rank))
        for first, end in blocks(n, rank):
            rows[places[first:end] - 1] = np.tril(lower[first:end, :rank], first)
        left = max(
            float(np.abs(diagonal - np.einsum("sr,sr->s", rows, rows)).max()),
            float(np.abs(seen - rows @ (rows.T @ probes)).max()) / np.sqrt(n),
        )
        if not left <= NOT_A_KERNEL * greatest:
            raise DataError(
                "kernel is not positive semi-definite on the training rows (some sums of them would have a negative "
                "squared length), so that the objective has no minimum; choose another kernel or other options of it, "
                "and work it out in double precision"
            )
        return cls(rows, (places[:rank] - 1).astype(np.int64))

    @cached_property
    def _triangle(self) -> Float:
        """The pivots' rows [r, r], lower triangular."""
        return self.rows[self.pivots]

    def coordinates(self, similar: Float) -> Float:
        """Coordinates [T, r] of rows whose kernels with the pivots [T, r] are given, as far as they lie in the span."""
        return np.ascontiguousarray(solve_triangular(self._triangle, similar.T, lower=True).T)

    def weights(self, coefficients: Float) -> Float:
        """Weights [r, Y] of the coordinates that are the sums of rows with these ``coefficients`` [S, Y]."""
        return np.asarray(self.rows.T @ coefficients)

    def coefficients(self, weights: Float) -> Float:
        """Coefficients [S, Y], of the pivots alone, whose sum of rows has these ``weights`` [r, Y]."""
        found = np.zeros((len(self.rows), weights.shape[1]))
        found[self.pivots] = solve_triangular(self._triangle, weights, lower=True, trans="T")
        return found
