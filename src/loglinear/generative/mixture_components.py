"""What a mixture's components can be: multinomials with a Dirichlet prior, or Gaussians.

A mixture (:mod:`~loglinear.generative.mixture`) asks its components for densities, for their log prior, for the most
probable parameters when each row belongs to each of them to some degree (the M step), for draws, and for where to
measure distances when rows are first divided among them.

Letters: n rows, D columns, K components.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy import sparse

from loglinear.generative.gaussian_covariance import SHAPES, CovariancePrior, Shape, log_normal
from loglinear.generative.naive_bayes import (
    Rows,
    drawn_counts,
    log_dirichlet,
    log_likelihoods,
    most_probable,
    summed,
)

Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
EMPTY = 1e-10  # of all rows: what is left of a component that keeps its parameters, as there is nothing to learn from
CONSTANT = 1e-8  # of a column's greatest value: a standard deviation that is only rounding


class Components(Protocol):
    """K densities over rows, and how they are learnt."""

    @property
    def n_components(self) -> int:
        """K."""

    @property
    def n_parameters(self) -> int:
        """Free parameters of all components."""

    def log_densities(self, x: Rows) -> Float:
        """log p(x_i given theta_k) [n, K], up to what is the same for all k."""

    def log_prior(self) -> float:
        """sum_k log p(theta_k), up to a constant."""

    def maximised(self, x: Rows, shares: Float) -> Components:
        """argmax over theta of sum_ik shares_ik log p(x_i given theta_k) + log p(theta); shares are [n, K]."""

    def started(self, x: Rows, shares: Float) -> Components:
        """Where EM starts when rows are divided by ``shares`` [n, K]."""

    def points(self, x: Rows) -> Rows:
        """Rows [n, ...] among which Euclidean distances mean something."""

    def sample(self, components: Int32, rng: np.random.Generator) -> Rows:
        """A row [n, D] of each of ``components`` [n]."""


def row_sums(x: Rows) -> Float:
    """sum_j x_ij [n]."""
    return np.asarray(x.sum(axis=1), dtype=np.float64).reshape(-1)


@dataclass(frozen=True)
class MultinomialComponents:
    """p(x given theta_k) = prod_j theta_kj^x_j, theta_k with a Dirichlet prior: naive Bayes without labels.

    Parameters
    ----------
    log_theta : float64 [K, D]
    smoothing : float
        lambda of the prior prod_j theta_kj^lambda.
    mean_length : float
        Mean of sum_j x_j over the rows, weighted; for draws.
    """

    log_theta: Float
    smoothing: float
    mean_length: float

    @classmethod
    def even(cls, x: Rows, weights: Float, n_components: int, smoothing: float) -> MultinomialComponents:
        """Components that are all the same, for rows of such lengths."""
        d = x.shape[1]
        mean_length = float(weights @ row_sums(x) / weights.sum())
        return cls(np.full((n_components, d), -np.log(d)), smoothing, mean_length)

    @property
    def n_components(self) -> int:
        return len(self.log_theta)

    @property
    def n_parameters(self) -> int:
        return self.n_components * (self.log_theta.shape[1] - 1)

    def log_densities(self, x: Rows) -> Float:
        return log_likelihoods(x, self.log_theta)

    def log_prior(self) -> float:
        return log_dirichlet(self.log_theta, self.smoothing)

    def maximised(self, x: Rows, shares: Float) -> MultinomialComponents:
        return replace(self, log_theta=most_probable(summed(x, shares), self.smoothing))

    def started(self, x: Rows, shares: Float) -> MultinomialComponents:
        return self.maximised(x, shares)

    def points(self, x: Rows) -> Rows:
        """sqrt(x_ij / length_i): their distance is Hellinger's, whatever the lengths."""
        lengths = row_sums(x)
        scale = 1.0 / np.where(lengths > 0.0, lengths, 1.0)
        return (sparse.diags(scale) @ x).sqrt() if sparse.issparse(x) else np.sqrt(x * scale[:, None])

    def sample(self, components: Int32, rng: np.random.Generator) -> Rows:
        return drawn_counts(self.log_theta, components, rng.poisson(self.mean_length, size=len(components)), rng)


@dataclass(frozen=True)
class GaussianComponents:
    """p(x given theta_k) = N(x; m_k, C_k), the covariances of one of the shapes of ``gaussian_covariance``.

    Parameters
    ----------
    means : float64 [K, D]
    covariances : float64
        In the shape that ``covariance`` names.
    covariance : {"known", "spherical", "diagonal", "tied", "full"}
    prior : CovariancePrior
    """

    means: Float
    covariances: Float
    covariance: str
    prior: CovariancePrior

    @classmethod
    def even(
        cls,
        x: Float,
        weights: Float,
        n_components: int,
        covariance: str,
        smoothing: float = 0.0,
        floor: float = 1e-6,
        variance: float = 1.0,
    ) -> GaussianComponents:
        """Components that all stand in the middle and are as wide as all rows; ``variance`` is the known one."""
        prior = CovariancePrior(column_variances(x, weights), smoothing, floor)
        means = np.tile(weights @ x / weights.sum(), (n_components, 1))
        d = x.shape[1]
        values = {"known": np.array(variance), "spherical": np.array(prior.spread.mean()), "diagonal": prior.spread}
        shape = SHAPES[covariance].array_shape(n_components, d)
        covariances = np.broadcast_to(values.get(covariance, np.diag(prior.spread)), shape).copy()
        return cls(means, covariances, covariance, prior)

    @property
    def shape(self) -> Shape:
        return SHAPES[self.covariance]

    @property
    def n_components(self) -> int:
        return len(self.means)

    @property
    def n_parameters(self) -> int:
        return self.means.size + self.shape.n_parameters(*self.means.shape)

    def log_densities(self, x: Float) -> Float:
        return log_normal(x, self.means, self.shape.expanded(self.covariances, *self.means.shape))

    def log_prior(self) -> float:
        return self.shape.log_prior(self.covariances, self.n_components, self.prior)

    def maximised(self, x: Float, shares: Float) -> GaussianComponents:
        sizes = shares.sum(axis=0)
        sizes[sizes <= EMPTY * sizes.sum()] = 0.0
        there = sizes > 0.0
        means = self.means.copy()
        means[there] = (shares.T @ x)[there] / sizes[there, None]
        if not self.shape.estimated:
            return replace(self, means=means)
        d = x.shape[1]
        scatters = np.zeros((self.n_components, d) if self.shape.axial else (self.n_components, d, d))
        centred = np.empty_like(x)
        for k in np.flatnonzero(there):
            np.subtract(x, means[k], out=centred)
            if self.shape.axial:
                scatters[k] = shares[:, k] @ np.square(centred, out=centred)
            else:
                scatters[k] = (centred * shares[:, k : k + 1]).T @ centred
        covariances = self.shape.from_scatters(scatters, sizes, self.prior, self.covariances)
        return replace(self, means=means, covariances=covariances)

    def started(self, x: Float, shares: Float) -> GaussianComponents:
        """As after an M step whose prior is worth D + 1 rows: few rows in a corner do not make a spike."""
        cautious = replace(self.prior, smoothing=max(self.prior.smoothing, x.shape[1] + 1.0))
        return replace(replace(self, prior=cautious).maximised(x, shares), prior=self.prior)

    def points(self, x: Float) -> Float:
        """The rows themselves, in units of each column's standard deviation if the shape can follow the columns."""
        return x if self.covariance in ("known", "spherical") else x / np.sqrt(self.prior.spread)

    def sample(self, components: Int32, rng: np.random.Generator) -> Float:
        noise = rng.standard_normal((len(components), self.means.shape[1]))
        expanded = self.shape.expanded(self.covariances, *self.means.shape)
        if self.shape.axial:
            return self.means[components] + noise * np.sqrt(expanded)[components]
        factors = np.broadcast_to(np.linalg.cholesky(expanded), (self.n_components, *expanded.shape[1:]))
        rows = self.means[components]
        for k in range(self.n_components):
            mine = components == k
            rows[mine] += noise[mine] @ factors[k].T
        return rows


def column_variances(x: Float, weights: Float) -> Float:
    """Variances [D] of the columns of weighted rows; a column that is constant gets the mean of the others, or 1."""
    shares = weights / weights.sum()
    variances = shares @ np.square(x - shares @ x)
    varies = variances > np.square(CONSTANT * np.abs(x[weights > 0.0]).max(axis=0))
    return np.where(varies, variances, variances[varies].mean() if varies.any() else 1.0)
