"""Covariances of Gaussian mixture components, from scatters: which shape they have, their prior, and their floor.

The M step of a component with n_k rows around its mean, whose scatter is S_k = sum_i q_ik (x_i - m_k)(x_i - m_k)', asks
for the covariance C with the greatest

    -1/2 [ n_k (log |C| + tr C^-1 S_k / n_k) ] + log p(C)        log p(C) = -nu/2 (log |C| + tr C^-1 V)

V is the diagonal matrix of the columns' variances over all rows, so the prior is worth nu rows spread as all rows are
(an inverse Wishart prior), and

    C = (S_k + nu V) / (n_k + nu)

A component that shrinks to a point would have an infinite likelihood. Covariances are therefore bounded below by a
*floor*, C >= F with F = floor V: among those, the best one has, in coordinates where F = I, the same axes and each
variance at least 1 (both terms above are sums over the axes). Where nothing shrinks so far, the floor changes nothing.

    known       sigma^2 I, given (the chapter's)             float64 []
    spherical   sigma_k^2 I                                  float64 [K]
    diagonal    a variance for each column                   float64 [K, D]
    tied        one covariance for all components            float64 [D, D]
    full        any                                          float64 [K, D, D]

Letters: n rows, D columns, K components.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from loglinear.arrays import Float


@dataclass(frozen=True)
class CovariancePrior:
    """What covariances are like before data is seen.

    Parameters
    ----------
    spread : float64 [D]
        The columns' variances over all rows, the diagonal of V.
    smoothing : float
        nu, in rows.
    floor : float
        Least variance, as a share of V.
    """

    spread: Float
    smoothing: float
    floor: float

    @property
    def least(self) -> Float:
        """The diagonal of F [D]."""
        return self.floor * self.spread

    @property
    def mean(self) -> CovariancePrior:
        """The same, with the mean of the columns' variances for each of them."""
        return CovariancePrior(np.full_like(self.spread, self.spread.mean()), self.smoothing, self.floor)


class Shape(ABC):
    """A shape of covariances. A covariance is *axial* if it is diagonal, and then given by its variances."""

    axial = True
    estimated = True

    @abstractmethod
    def from_scatters(self, scatters: Float, sizes: Float, prior: CovariancePrior, before: Float) -> Float:
        """Most probable covariances.

        Parameters
        ----------
        scatters : float64 [K, D] if axial, else [K, D, D]
            S_k, or its diagonal.
        sizes : float64 [K]
            n_k; where it is zero, the covariance of ``before`` stays.
        prior : CovariancePrior
        before : float64
            Covariances in this shape.
        """

    @abstractmethod
    def expanded(self, covariances: Float, n_components: int, n_columns: int) -> Float:
        """Variances [K, D] if axial, else covariances [K, D, D], or [1, D, D] if they are all the same."""

    @abstractmethod
    def array_shape(self, n_components: int, n_columns: int) -> tuple[int, ...]:
        """Shape of the array of covariances."""

    def n_parameters(self, n_components: int, n_columns: int) -> int:
        """Free parameters."""
        matrices = int(np.prod(self.array_shape(n_components, n_columns)[:-2]))
        return matrices * n_columns * (n_columns + 1) // 2

    def log_prior(self, covariances: Float, n_components: int, prior: CovariancePrior) -> float:
        """-nu/2 sum (log |C| + tr C^-1 V), over the covariances that are estimated."""
        if not prior.smoothing:
            return 0.0
        expanded = self.expanded(covariances, n_components, len(prior.spread))
        if self.axial:
            total = float((np.log(expanded) + prior.spread / expanded).sum())
        else:
            logs = float(np.linalg.slogdet(expanded)[1].sum())
            total = logs + float((np.linalg.inv(expanded).diagonal(axis1=1, axis2=2) * prior.spread).sum())
        return -0.5 * prior.smoothing * total


class Known(Shape):
    """sigma^2 I, the same for all components and given."""

    estimated = False

    def from_scatters(self, scatters: Float, sizes: Float, prior: CovariancePrior, before: Float) -> Float:
        return before

    def expanded(self, covariances: Float, n_components: int, n_columns: int) -> Float:
        return np.full((n_components, n_columns), float(covariances))

    def array_shape(self, n_components: int, n_columns: int) -> tuple[int, ...]:
        return ()

    def n_parameters(self, n_components: int, n_columns: int) -> int:
        return 0

    def log_prior(self, covariances: Float, n_components: int, prior: CovariancePrior) -> float:
        return 0.0


class Spherical(Shape):
    """sigma_k^2 I; V is the mean of the columns' variances, times I."""

    def from_scatters(self, scatters: Float, sizes: Float, prior: CovariancePrior, before: Float) -> Float:
        means = Diagonal().smoothed(scatters.mean(axis=1, keepdims=True), sizes, prior.mean)[:, 0]
        return np.where(sizes > 0.0, np.maximum(means, prior.mean.least[0]), before)

    def expanded(self, covariances: Float, n_components: int, n_columns: int) -> Float:
        return np.repeat(covariances[:, None], n_columns, axis=1)

    def array_shape(self, n_components: int, n_columns: int) -> tuple[int, ...]:
        return (n_components,)

    def n_parameters(self, n_components: int, n_columns: int) -> int:
        return n_components

    def log_prior(self, covariances: Float, n_components: int, prior: CovariancePrior) -> float:
        return super().log_prior(covariances, n_components, prior.mean)


class Diagonal(Shape):
    """A variance for each component and column."""

    @staticmethod
    def smoothed(squares: Float, sizes: Float, prior: CovariancePrior) -> Float:
        """(S_k + nu V) / (n_k + nu), of diagonals [K, D]; of an empty component without a prior, V."""
        totals = (sizes + prior.smoothing)[:, None]
        spread = prior.spread[: squares.shape[1]]
        return np.where(totals > 0.0, squares + prior.smoothing * spread, spread) / np.where(totals > 0.0, totals, 1.0)

    def from_scatters(self, scatters: Float, sizes: Float, prior: CovariancePrior, before: Float) -> Float:
        variances = np.maximum(self.smoothed(scatters, sizes, prior), prior.least)
        return np.where(sizes[:, None] > 0.0, variances, before)

    def expanded(self, covariances: Float, n_components: int, n_columns: int) -> Float:
        return covariances

    def array_shape(self, n_components: int, n_columns: int) -> tuple[int, ...]:
        return (n_components, n_columns)

    def n_parameters(self, n_components: int, n_columns: int) -> int:
        return n_components * n_columns


class Full(Shape):
    """Any covariance for each component."""

    axial = False

    def from_scatters(self, scatters: Float, sizes: Float, prior: CovariancePrior, before: Float) -> Float:
        found = before.copy()
        for k in np.flatnonzero(sizes > 0.0):
            found[k] = _bounded(_smoothed(scatters[k], sizes[k], prior), prior.least)
        return found

    def expanded(self, covariances: Float, n_components: int, n_columns: int) -> Float:
        return covariances

    def array_shape(self, n_components: int, n_columns: int) -> tuple[int, ...]:
        return (n_components, n_columns, n_columns)


class Tied(Shape):
    """One covariance for all components."""

    axial = False

    def from_scatters(self, scatters: Float, sizes: Float, prior: CovariancePrior, before: Float) -> Float:
        return _bounded(_smoothed(scatters.sum(axis=0), float(sizes.sum()), prior), prior.least)

    def expanded(self, covariances: Float, n_components: int, n_columns: int) -> Float:
        return covariances[None]

    def array_shape(self, n_components: int, n_columns: int) -> tuple[int, ...]:
        return (n_columns, n_columns)


SHAPES: dict[str, Shape] = {
    "known": Known(),
    "spherical": Spherical(),
    "diagonal": Diagonal(),
    "tied": Tied(),
    "full": Full(),
}


def _smoothed(scatter: Float, size: float, prior: CovariancePrior) -> Float:
    covariance = (scatter + prior.smoothing * np.diag(prior.spread)) / (size + prior.smoothing)
    return 0.5 * (covariance + covariance.T)


def _bounded(covariance: Float, least: Float) -> Float:
    """The covariance [D, D] itself if it is at least diag(least), else with what is too small made as large."""
    unit = np.sqrt(least)
    values, axes = np.linalg.eigh(covariance / np.outer(unit, unit))
    if values[0] >= 1.0:
        return covariance
    bounded: Float = (axes * np.maximum(values, 1.0)) @ axes.T * np.outer(unit, unit)
    return 0.5 * (bounded + bounded.T)


def log_normal(x: Float, means: Float, expanded: Float) -> Float:
    """log N(x_i; m_k, C_k) [n, K] of rows [n, D], means [K, D] and :meth:`Shape.expanded` covariances.

    O(n K D) for variances, O(n K D^2) for covariances, O(n D (D + K)) for a single one.
    """
    n_components, d = means.shape
    distances = np.empty((len(x), n_components))
    if expanded.ndim == 2:
        room = np.empty_like(x)
        for k in range(n_components):
            np.subtract(x, means[k], out=room)
            distances[:, k] = np.square(room, out=room) @ (1.0 / expanded[k])
        return -0.5 * (d * np.log(2.0 * np.pi) + np.log(expanded).sum(axis=1) + distances)
    factors = np.linalg.cholesky(expanded)
    log_determinants = 2.0 * np.log(factors.diagonal(axis1=1, axis2=2)).sum(axis=1)
    whitening = np.swapaxes(np.linalg.inv(factors), 1, 2)  # rows times it have covariance I
    if len(factors) == 1:
        centre = means.mean(axis=0)
        white, white_means = (x - centre) @ whitening[0], (means - centre) @ whitening[0]
        for k in range(n_components):
            distances[:, k] = np.square(white - white_means[k]).sum(axis=1)
    else:
        for k in range(n_components):
            distances[:, k] = np.square((x - means[k]) @ whitening[k]).sum(axis=1)
    return -0.5 * (d * np.log(2.0 * np.pi) + log_determinants + distances)
