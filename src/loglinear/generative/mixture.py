"""Mixture models by EM (Zhang, Fundamental Statistical Techniques, section 9.5 and Fig. 9.6).

    p(x) = sum_k mu_k p(x given theta_k)                                                                       (9.13)

EM climbs the penalised log-likelihood of rows x_i of weight w_i

    J = sum_i w_i log sum_{k in A_i} mu_k p(x_i given theta_k) + sum_k log p(theta_k)                          (9.15)

in turns: the E step finds how much each row belongs to each component, the M step the most probable parameters then,

    q_ik = mu_k p(x_i given theta_k) / sum_{l in A_i} mu_l p(x_i given theta_l)       for k in A_i, else 0
    theta_k = argmax sum_i w_i q_ik log p(x_i given theta_k) + log p(theta_k)         mu_k = sum_i w_i q_ik / sum_i w_i

A_i are the components that row i may belong to: all of them, or the known one (semi-supervised learning). J never falls
from one step to the next, which is checked. It has many local maxima, so EM is run from several starts.

Letters: n rows, D columns, K components.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy import sparse

from loglinear.arrays import Arrays, Bool, Float, Int32, Int64
from loglinear.errors import DataError
from loglinear.generative.em import Observed
from loglinear.generative.naive_bayes import Rows, drawn_counts, log_dirichlet, log_likelihoods, most_probable, summed
from loglinear.model_file import Reader

UNKNOWN = -1  # component of a row that may belong to any
ROUNDING = 1e-8  # relative size below which a drop of the objective is rounding error


class ObjectiveFellWarning(RuntimeWarning):
    """The objective of EM fell by more than rounding, which it cannot do in exact arithmetic."""


@dataclass(frozen=True)
class Expected:
    """The result of an E step.

    Parameters
    ----------
    shares : float64 [n, K]
        q_ik, each row's adding up to 1.
    log_likelihood : float
        The first sum of J.
    objective : float
        J.
    size : float
        The sum of the sizes of J's terms, for the check against rounding.
    """

    shares: Float
    log_likelihood: float
    objective: float
    size: float


@dataclass(frozen=True)
class MixtureModel:
    """A mixture.

    Parameters
    ----------
    log_weights : float64 [K]
        log mu; -inf for an empty component.
    components : Components
        theta.
    """

    log_weights: Float
    components: Components

    @property
    def n_parameters(self) -> int:
        """Free parameters."""
        return self.components.n_parameters + len(self.log_weights) - 1

    @property
    def parameters(self) -> Float:
        """log mu and theta as a vector [P]."""
        return np.concatenate([self.log_weights, self.components.parameters])

    def with_parameters(self, parameters: Float) -> MixtureModel:
        """The same with other parameters [P]."""
        k = len(self.log_weights)
        return MixtureModel(np.array(parameters[:k]), self.components.with_parameters(parameters[k:]))

    def joint(self, x: Rows) -> Float:
        """log mu_k p(x_i given theta_k) [n, K]."""
        return self.components.log_densities(x) + self.log_weights

    def log_likelihoods(self, x: Rows) -> Float:
        """log p(x_i) [n]."""
        return log_sums(self.joint(x))

    def posterior(self, x: Rows) -> Float:
        """p(k given x_i) [n, K] (9.14)."""
        joint = self._possible(x)
        probabilities: Float = np.exp(joint - log_sums(joint)[:, None])
        return probabilities / probabilities.sum(axis=1, keepdims=True)

    def best(self, x: Rows) -> Int32:
        """The most probable component of each row [n]."""
        return self._possible(x).argmax(axis=1).astype(np.int32)

    def _possible(self, x: Rows) -> Float:
        """:meth:`joint`, with mu for rows that no component can make."""
        joint = self.joint(x)
        joint[np.isneginf(joint).all(axis=1)] = self.log_weights
        return joint

    def expected(self, x: Rows, weights: Float, known: Int32 | None = None) -> Expected:
        """The E step; ``known`` [n] are components, or -1."""
        joint = self.joint(x)
        if known is not None:
            rows = np.flatnonzero(known != UNKNOWN)
            only = joint[rows, known[rows]]
            joint[rows] = -np.inf
            joint[rows, known[rows]] = only
        totals = log_sums(joint)
        if not np.isfinite(totals).all():
            row = int(np.flatnonzero(~np.isfinite(totals))[0])
            raise DataError(
                f"row {row} (from 0) has probability zero in numbers of this size: no component is near it; "
                + self.components.remedy
            )
        shares: Float = np.exp(joint - totals[:, None])
        log_likelihood, log_prior = float(weights @ totals), self.components.log_prior()
        size = float(weights @ np.abs(totals)) + abs(log_prior) + float(weights.sum())
        return Expected(shares, log_likelihood, log_likelihood + log_prior, size)

    def maximised(self, x: Rows, weights: Float, shares: Float) -> MixtureModel:
        """The M step."""
        weighted = shares * weights[:, None]
        with np.errstate(divide="ignore"):  # a component may be empty
            log_weights = np.log(weighted.sum(axis=0) / weights.sum())
        return MixtureModel(log_weights, self.components.maximised(x, weighted))

    def counted(self, x: Rows, weights: Float, known: Int32 | None = None) -> ExpectedRows:
        """The E step of a part of the rows."""
        found = self.expected(x, weights, known)
        weighted = found.shares * weights[:, None]
        return ExpectedRows(
            self.components.counted(x, weighted), self.components.described(x, weights), weighted.sum(axis=0),
            float(weights.sum()), found.log_likelihood, found.size,
        )  # fmt: skip

    def estimated(self, found: ExpectedRows) -> tuple[MixtureModel, float]:
        """The model after the M step, of what was counted in all parts, and J of this one."""
        components = self.components.informed(found.rows)
        with np.errstate(divide="ignore"):  # a component may be empty
            log_weights = np.log(found.sizes / found.weight)
        model = MixtureModel(log_weights, components.estimated(found.components))
        return model, found.log_likelihood + components.log_prior()

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Rows, Int32]:
        """Rows [n, D] and the components they come from."""
        mu = np.exp(self.log_weights)
        drawn = rng.choice(len(mu), size=n, p=mu / mu.sum()).astype(np.int32)
        return self.components.sample(drawn, rng), drawn


@dataclass(frozen=True)
class ExpectedRows:
    """The E step of a part of the rows.

    Parameters
    ----------
    components, rows : Sums
        What was counted for each component, and of the rows as such.
    sizes : float64 [K]
        sum_i w_i q_ik.
    weight : float
        sum_i w_i.
    log_likelihood : float
        The part's terms of J.
    size : float
        The sum of the sizes of J's terms, for the check against rounding.
    """

    kind: ClassVar[str] = "expected rows"
    components: Sums
    rows: Sums
    sizes: Float
    weight: float
    log_likelihood: float
    size: float

    def __add__(self, other: ExpectedRows) -> ExpectedRows:
        return ExpectedRows(
            self.components + other.components, self.rows + other.rows, self.sizes + other.sizes,
            self.weight + other.weight, self.log_likelihood + other.log_likelihood, self.size + other.size,
        )  # fmt: skip

    # -- as data -----------------------------------------------------------------------------------------------------

    def to_storage(self) -> tuple[dict[str, Any], Arrays]:
        """Header and arrays of a file."""
        arrays: Arrays = {"sizes": self.sizes}
        for part in ("components", "rows"):
            arrays |= {f"{part}.{name}": array for name, array in getattr(self, part).to_arrays().items()}
        return {"weight": self.weight, "log_likelihood": self.log_likelihood, "size": self.size}, arrays

    @classmethod
    def from_storage(cls, read: Reader) -> ExpectedRows:
        """What :meth:`to_storage` described."""
        components, rows = (Sums.from_storage(read, f"{part}.") for part in ("components", "rows"))
        sizes = read.floats("sizes", (None,), 0.0, np.inf)
        weight, log_likelihood = read.number("weight", above=0.0), read.number("log_likelihood")
        return cls(components, rows, sizes, weight, log_likelihood, read.number("size", least=0.0))


def log_sums(joint: Float) -> Float:
    """log sum_k exp joint_ik [n]."""
    greatest = joint.max(axis=1)
    safe = np.where(np.isfinite(greatest), greatest, 0.0)
    with np.errstate(divide="ignore"):
        total: Float = np.log(np.exp(joint - safe[:, None]).sum(axis=1)) + safe
    return total


class WeightedRows(Observed[MixtureModel, Expected]):
    """The data of EM: rows x [n, D], their weights [n] and known components [n] (-1: unknown), or None.

    EM ends when a round raises J by at most the tolerance per row (of weight 1).
    """

    decimals = 2

    def __init__(self, x: Rows, weights: Float, known: Int32 | None = None) -> None:
        self.x, self.weights, self.known = x, weights, known

    def __call__(self, model: MixtureModel) -> Expected:
        return model.expected(self.x, self.weights, self.known)

    def maximised(self, model: MixtureModel, found: Expected) -> MixtureModel:
        return model.maximised(self.x, self.weights, found.shares)

    def unit(self, objective: float) -> float:
        return float(self.weights.sum())

    def compare(self, before: Expected, after: Expected, n_rounds: int) -> None:
        """Warn if J fell by more than rounding."""
        warn_of_fall(before.objective, after.objective, after.size, n_rounds)


def warn_of_fall(before: float, after: float, size: float, n_rounds: int) -> None:
    """Warn if the objective fell by more than rounding of terms that add up to ``size`` in absolute value."""
    if after - before < -ROUNDING * size:
        warnings.warn(
            f"step {n_rounds} of EM lowered the objective from {before:.10g} to {after:.10g}, which is more than "
            "rounding; bring the columns to a similar scale, or take a greater floor or smoothing",
            ObjectiveFellWarning,
            stacklevel=4,
        )


# ----------------------------------------------------------------------------------------------------------------------
# The components of a mixture: multinomials with a Dirichlet prior, products of these, or Gaussians. Hidden Markov
# models are in :mod:`loglinear.generative.hmm.components`.
#
# They have densities, a log prior, the most probable parameters when each row belongs to each of them to some degree
# (the M step), draws, and points between which distances are measured when rows are first divided among them.
#
# Letters: n rows, D columns, K components.

SCALE = "bring the columns to a similar, smaller scale"
EMPTY = 1e-10  # share of all rows below which a component keeps its parameters
CONSTANT = 1e-8  # share of a column's greatest value below which its standard deviation is rounding error


@dataclass(frozen=True)
class Centred:
    """Moments of m weighted sets of rows, each around its own mean, so that they add up without cancellation.

        S of both  =  S_a + S_b + (n_a n_b / n) (m_a - m_b)(m_a - m_b)'                          (Chan et al. 1979)

    Parameters
    ----------
    sizes : float64 [m]
        The sums of the weights.
    means : float64 [m, D]
    scatters : float64 [m, D] or [m, D, D]
        sum_i w_i (x_i - mean)(x_i - mean)', or its diagonal.
    """

    sizes: Float
    means: Float
    scatters: Float

    def __add__(self, other: Centred) -> Centred:
        sizes = self.sizes + other.sizes
        safe = np.where(sizes > 0.0, sizes, 1.0)
        apart = other.means - self.means
        means = self.means + apart * (other.sizes / safe)[:, None]
        both = self.sizes * other.sizes / safe
        if self.scatters.ndim == 2:
            between = np.square(apart) * both[:, None]
        else:
            between = apart[:, :, None] * apart[:, None, :] * both[:, None, None]
        return Centred(
            sizes, np.where((self.sizes > 0.0)[:, None], means, other.means), self.scatters + other.scatters + between
        )


@dataclass(frozen=True)
class Sums:
    """Statistics of rows that can be added part by part.

    Parameters
    ----------
    sums, greatest : dict of str to float64
        Arrays that add up, and arrays of which the greatest numbers remain.
    centred : dict of str to Centred
    """

    sums: dict[str, Float] = field(default_factory=dict)
    greatest: dict[str, Float] = field(default_factory=dict)
    centred: dict[str, Centred] = field(default_factory=dict)

    def __add__(self, other: Sums) -> Sums:
        """Those of both parts together."""
        if self._shapes != other._shapes:
            raise DataError("the counts of two parts are of different sizes; make both with the same model")
        return Sums(
            {name: own + other.sums[name] for name, own in self.sums.items()},
            {name: np.maximum(own, other.greatest[name]) for name, own in self.greatest.items()},
            {name: own + other.centred[name] for name, own in self.centred.items()},
        )

    @property
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: array.shape for name, array in self.to_arrays().items()}

    def to_arrays(self) -> Arrays:
        """Arrays of a file."""
        arrays: Arrays = {f"sums.{name}": array for name, array in self.sums.items()}
        arrays |= {f"greatest.{name}": array for name, array in self.greatest.items()}
        for name, each in self.centred.items():
            arrays |= {f"centred.{part}.{name}": getattr(each, part) for part in ("sizes", "means", "scatters")}
        return arrays

    @classmethod
    def from_storage(cls, read: Reader, prefix: str) -> Sums:
        """What :meth:`to_arrays` described, below names that begin with ``prefix``."""
        found: dict[str, Float] = {}
        for name in sorted(read.arrays):
            if name.startswith(prefix):
                found[name.removeprefix(prefix)] = read.floats(name, (None,) * read.arrays[name].ndim)

        def part(kind: str) -> dict[str, Float]:
            return {name.removeprefix(kind): array for name, array in found.items() if name.startswith(kind)}

        sizes, means, scatters = (part(f"centred.{each}.") for each in ("sizes", "means", "scatters"))
        if not sizes.keys() == means.keys() == scatters.keys():
            read.fail("centred", "moments without their sizes, means or scatters")
        centred = {name: Centred(sizes[name], means[name], scatters[name]) for name in sizes}
        for each in centred.values():
            m, d = len(each.sizes), each.means.shape[-1]
            if each.means.shape != (m, d) or each.scatters.shape not in ((m, d), (m, d, d)):
                read.fail("centred", "moments of different sizes")
        return cls(part("sums."), part("greatest."), centred)


class Components(Protocol):
    """K densities over rows, and how they are learnt."""

    remedy: ClassVar[str]  #: what to do if a row has probability zero

    @property
    def n_components(self) -> int:
        """K."""

    @property
    def n_parameters(self) -> int:
        """Free parameters of all components."""

    @property
    def parameters(self) -> Float:
        """theta as a vector."""

    def with_parameters(self, parameters: Float) -> Components:
        """The same with another theta."""

    def log_densities(self, x: Rows) -> Float:
        """log p(x_i given theta_k) [n, K], up to terms that are the same for all k."""

    def log_prior(self) -> float:
        """sum_k log p(theta_k), up to a constant."""

    def maximised(self, x: Rows, shares: Float) -> Components:
        """argmax over theta of sum_ik shares_ik log p(x_i given theta_k) + log p(theta); shares are [n, K]."""

    def counted(self, x: Rows, shares: Float) -> Sums:
        """All of the rows that :meth:`maximised` depends on."""

    def estimated(self, sums: Sums) -> Components:
        """:meth:`maximised`, from what was :meth:`counted` in all parts of the rows."""

    def described(self, x: Rows, weights: Float) -> Sums:
        """What is known of weighted rows whatever components they belong to, such as their spread."""

    def informed(self, sums: Sums) -> Components:
        """The same components beside all rows that were :meth:`described`."""

    def started(self, x: Rows, shares: Float, rng: np.random.Generator) -> Components:
        """Where EM starts when rows are divided by ``shares`` [n, K]; ``rng`` draws what these do not say."""

    def points(self, x: Rows) -> Rows:
        """Points [n, ...] of the rows between which Euclidean distances are meaningful."""

    def sample(self, components: Int32, rng: np.random.Generator) -> Rows:
        """A row [n, D] of each of ``components`` [n]."""


def row_sums(x: Rows) -> Float:
    """sum_j x_ij [n]."""
    return np.asarray(x.sum(axis=1), dtype=np.float64).reshape(-1)


def hellinger(x: Rows) -> Rows:
    """sqrt(x_ij / length_i): the distance of such points is Hellinger's, for any lengths."""
    lengths = row_sums(x)
    scale = 1.0 / np.where(lengths > 0.0, lengths, 1.0)
    return (sparse.diags(scale) @ x).sqrt() if sparse.issparse(x) else np.sqrt(x * scale[:, None])


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

    remedy: ClassVar[str] = SCALE
    log_theta: Float
    smoothing: float
    mean_length: float

    @classmethod
    def even(cls, x: Rows, weights: Float, n_components: int, smoothing: float) -> MultinomialComponents:
        """Equal components, for rows of such lengths."""
        d = x.shape[1]
        mean_length = float(weights @ row_sums(x) / weights.sum())
        return cls(np.full((n_components, d), -np.log(d)), smoothing, mean_length)

    @property
    def n_components(self) -> int:
        return len(self.log_theta)

    @property
    def n_parameters(self) -> int:
        return self.n_components * (self.log_theta.shape[1] - 1)

    @property
    def parameters(self) -> Float:
        return self.log_theta.ravel()

    def with_parameters(self, parameters: Float) -> MultinomialComponents:
        return replace(self, log_theta=np.array(parameters).reshape(self.log_theta.shape))

    def log_densities(self, x: Rows) -> Float:
        return log_likelihoods(x, self.log_theta)

    def log_prior(self) -> float:
        return log_dirichlet(self.log_theta, self.smoothing)

    def maximised(self, x: Rows, shares: Float) -> MultinomialComponents:
        return self.estimated(self.counted(x, shares))

    def counted(self, x: Rows, shares: Float) -> Sums:
        return Sums({"symbols": summed(x, shares)})

    def estimated(self, sums: Sums) -> MultinomialComponents:
        return replace(self, log_theta=most_probable(sums.sums["symbols"], self.smoothing))

    def described(self, x: Rows, weights: Float) -> Sums:
        return Sums({"weight": weights.sum(keepdims=True), "length": np.atleast_1d(weights @ row_sums(x))})

    def informed(self, sums: Sums) -> MultinomialComponents:
        return replace(self, mean_length=float(sums.sums["length"][0] / sums.sums["weight"][0]))

    def started(self, x: Rows, shares: Float, rng: np.random.Generator) -> MultinomialComponents:
        return self.maximised(x, shares)

    def points(self, x: Rows) -> Rows:
        return hellinger(x)

    def sample(self, components: Int32, rng: np.random.Generator) -> Rows:
        return drawn_counts(self.log_theta, components, rng.poisson(self.mean_length, size=len(components)), rng)


@dataclass(frozen=True)
class NaiveBayesComponents:
    """Attributes that are independent given the component, each with a multinomial of its own (a latent class model).

        p(x given theta_k) = prod_a prod_{j in a} theta_kj^x_j          sum_{j in a} theta_kj = 1

    Attribute a is the columns ``first[a] : first[a + 1]``. A row has one value of an attribute, several (words), or
    none: what is not observed is summed out. With one attribute these are :class:`MultinomialComponents`.

    Parameters
    ----------
    log_theta : float64 [K, D]
    first : int64 [A]
        The first column of each attribute.
    smoothing : float
        lambda of the prior prod_j theta_kj^lambda.
    mean_lengths : float64 [A]
        Mean of sum_{j in a} x_j over the rows, weighted; for draws.
    single : bool [A]
        Whether no row has more than one value of the attribute; for draws.
    """

    remedy: ClassVar[str] = SCALE
    log_theta: Float
    first: Int64
    smoothing: float
    mean_lengths: Float
    single: Bool

    @classmethod
    def even(cls, x: Rows, weights: Float, n_components: int, smoothing: float, first: Int64) -> NaiveBayesComponents:
        """Equal components, for rows whose attributes are so long."""
        bounds = [*first.tolist(), x.shape[1]]
        lengths = np.stack([row_sums(x[:, lo:hi]) for lo, hi in pairwise(bounds)], axis=1)
        log_theta = np.tile(-np.log(np.repeat(np.diff(bounds), np.diff(bounds))), (n_components, 1))
        return cls(log_theta, first, smoothing, weights @ lengths / weights.sum(), lengths.max(axis=0) <= 1.0)

    @property
    def n_components(self) -> int:
        return len(self.log_theta)

    @property
    def n_parameters(self) -> int:
        return self.n_components * (self.log_theta.shape[1] - len(self.first))

    @property
    def parameters(self) -> Float:
        return self.log_theta.ravel()

    def with_parameters(self, parameters: Float) -> NaiveBayesComponents:
        return replace(self, log_theta=np.array(parameters).reshape(self.log_theta.shape))

    def log_densities(self, x: Rows) -> Float:
        return log_likelihoods(x, self.log_theta)

    def log_prior(self) -> float:
        return log_dirichlet(self.log_theta, self.smoothing)

    def maximised(self, x: Rows, shares: Float) -> NaiveBayesComponents:
        return self.estimated(self.counted(x, shares))

    def counted(self, x: Rows, shares: Float) -> Sums:
        return Sums({"symbols": summed(x, shares)})

    def described(self, x: Rows, weights: Float) -> Sums:
        lengths = np.stack([row_sums(x[:, lo:hi]) for lo, hi in self._bounds], axis=1)
        return Sums(
            {"weight": weights.sum(keepdims=True), "lengths": weights @ lengths}, {"lengths": lengths.max(axis=0)}
        )

    def informed(self, sums: Sums) -> NaiveBayesComponents:
        means = sums.sums["lengths"] / sums.sums["weight"]
        return replace(self, mean_lengths=means, single=sums.greatest["lengths"] <= 1.0)

    def estimated(self, sums: Sums) -> NaiveBayesComponents:
        smoothed = sums.sums["symbols"] + self.smoothing
        totals = np.add.reduceat(smoothed, self.first, axis=1)
        log_theta = np.log(smoothed) - np.repeat(np.log(totals), self._widths, axis=1)
        return replace(self, log_theta=log_theta)

    def started(self, x: Rows, shares: Float, rng: np.random.Generator) -> NaiveBayesComponents:
        return self.maximised(x, shares)

    def points(self, x: Rows) -> Rows:
        """sqrt(x_ij / length_ia): their squared distance is the sum of Hellinger's over the attributes."""
        return sparse.hstack([hellinger(sparse.csr_matrix(x[:, lo:hi])) for lo, hi in self._bounds], format="csr")

    def sample(self, components: Int32, rng: np.random.Generator) -> Rows:
        """Rows in CSR: of single attributes one value or none, as often as in training; of others a Poisson number."""
        n, drawn = len(components), []
        for (lo, hi), mean, single in zip(self._bounds, self.mean_lengths.tolist(), self.single.tolist(), strict=True):
            lengths = (rng.random(n) < mean).astype(np.int64) if single else rng.poisson(mean, size=n)
            drawn.append(drawn_counts(self.log_theta[:, lo:hi], components, lengths, rng))
        return sparse.hstack(drawn, format="csr")

    @property
    def _bounds(self) -> list[tuple[int, int]]:
        return list(pairwise([*self.first.tolist(), self.log_theta.shape[1]]))

    @property
    def _widths(self) -> Int64:
        return np.diff(self.first, append=self.log_theta.shape[1])


@dataclass(frozen=True)
class GaussianComponents:
    """p(x given theta_k) = N(x; m_k, C_k), the covariances in one of the :data:`SHAPES`.

    Parameters
    ----------
    means : float64 [K, D]
    covariances : float64
        In the shape that ``covariance`` names.
    covariance : {"known", "spherical", "diagonal", "tied", "full"}
    prior : CovariancePrior
    """

    remedy: ClassVar[str] = SCALE
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
        """Equal components with the mean and variances of all rows; ``variance`` is the known one."""
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

    @property
    def parameters(self) -> Float:
        return np.concatenate([self.means.ravel(), self.covariances.ravel()])

    def with_parameters(self, parameters: Float) -> GaussianComponents:
        means, covariances = np.split(np.array(parameters), [self.means.size])
        return replace(
            self, means=means.reshape(self.means.shape), covariances=covariances.reshape(self.covariances.shape)
        )

    def log_densities(self, x: Float) -> Float:
        return log_normal(x, self.means, self.shape.expanded(self.covariances, *self.means.shape))

    def log_prior(self) -> float:
        return self.shape.log_prior(self.covariances, self.n_components, self.prior)

    def maximised(self, x: Float, shares: Float) -> GaussianComponents:
        return self.estimated(self.counted(x, shares))

    def counted(self, x: Float, shares: Float) -> Sums:
        sizes, d = shares.sum(axis=0), x.shape[1]
        filled = sizes > 0.0
        means = np.zeros_like(self.means)
        means[filled] = (shares.T @ x)[filled] / sizes[filled, None]
        scatters = np.zeros((self.n_components, d) if self.shape.axial else (self.n_components, d, d))
        centred = np.empty_like(x)
        for k in np.flatnonzero(filled) if self.shape.estimated else ():
            np.subtract(x, means[k], out=centred)
            if self.shape.axial:
                scatters[k] = shares[:, k] @ np.square(centred, out=centred)
            else:
                scatters[k] = (centred * shares[:, k : k + 1]).T @ centred
        return Sums(centred={"components": Centred(sizes, means, scatters)})

    def estimated(self, sums: Sums) -> GaussianComponents:
        found = sums.centred["components"]
        filled = found.sizes > EMPTY * found.sizes.sum()
        means = np.where(filled[:, None], found.means, self.means)
        if not self.shape.estimated:
            return replace(self, means=means)
        sizes, scatters = np.where(filled, found.sizes, 0.0), found.scatters.copy()
        scatters[~filled] = 0.0
        covariances = self.shape.from_scatters(scatters, sizes, self.prior, self.covariances)
        return replace(self, means=means, covariances=covariances)

    def described(self, x: Float, weights: Float) -> Sums:
        mean = weights @ x / weights.sum()
        rows = Centred(weights.sum(keepdims=True), mean[None], (weights @ np.square(x - mean))[None])
        return Sums(greatest={"columns": np.abs(x).max(axis=0)}, centred={"rows": rows})

    def informed(self, sums: Sums) -> GaussianComponents:
        rows = sums.centred["rows"]
        spread = varying(rows.scatters[0] / rows.sizes[0], sums.greatest["columns"])
        return replace(self, prior=replace(self.prior, spread=spread))

    def started(self, x: Float, shares: Float, rng: np.random.Generator) -> GaussianComponents:
        """The M step with a prior worth at least D + 1 rows, so that a few rows do not make a spike."""
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
    """Variances [D] of the columns of weighted rows; a constant column gets the mean of the others, or 1."""
    shares = weights / weights.sum()
    variances = shares @ np.square(x - shares @ x)
    return varying(variances, np.abs(x[weights > 0.0]).max(axis=0))


def varying(variances: Float, greatest: Float) -> Float:
    """Variances [D] of columns with these ``greatest`` sizes; a constant column gets the mean of the others, or 1."""
    varies = variances > np.square(CONSTANT * greatest)
    return np.where(varies, variances, variances[varies].mean() if varies.any() else 1.0)


# ----------------------------------------------------------------------------------------------------------------------
# Covariances of Gaussian mixture components, from scatters: their shapes, prior and floor.
#
# The M step of a component with n_k rows around its mean, whose scatter is S_k = sum_i q_ik (x_i - m_k)(x_i - m_k)',
# asks for the covariance C with the greatest
#
#     -1/2 [ n_k (log |C| + tr C^-1 S_k / n_k) ] + log p(C)        log p(C) = -nu/2 (log |C| + tr C^-1 V)
#
# V is the diagonal matrix of the columns' variances over all rows, so the prior is worth nu rows with the variances of
# all rows (an inverse Wishart prior), and
#
#     C = (S_k + nu V) / (n_k + nu)
#
# A component that shrinks to a point would have an infinite likelihood. Covariances are therefore bounded below by a
# *floor*, C >= F with F = floor V: among those, the best one has, in coordinates where F = I, the same axes and each
# variance at least 1 (both terms above are sums over the axes). A covariance above the floor is not changed.
#
#     known       sigma^2 I, given (the chapter's)             float64 []
#     spherical   sigma_k^2 I                                  float64 [K]
#     diagonal    a variance for each column                   float64 [K, D]
#     tied        one covariance for all components            float64 [D, D]
#     full        any                                          float64 [K, D, D]


@dataclass(frozen=True)
class CovariancePrior:
    """The prior and the floor of covariances.

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
        """The same with the mean of the columns' variances in place of each."""
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
            n_k; where it is zero, the covariance of ``before`` is kept.
        prior : CovariancePrior
        before : float64
            Covariances in this shape.
        """

    @abstractmethod
    def expanded(self, covariances: Float, n_components: int, n_columns: int) -> Float:
        """Variances [K, D] if axial, else covariances [K, D, D], or [1, D, D] if they are equal."""

    @abstractmethod
    def array_shape(self, n_components: int, n_columns: int) -> tuple[int, ...]:
        """Shape of the array of covariances."""

    def n_parameters(self, n_components: int, n_columns: int) -> int:
        """Free parameters."""
        matrices = int(np.prod(self.array_shape(n_components, n_columns)[:-2]))
        return matrices * n_columns * (n_columns + 1) // 2

    def log_prior(self, covariances: Float, n_components: int, prior: CovariancePrior) -> float:
        """-nu/2 sum (log |C| + tr C^-1 V) over the estimated covariances."""
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
        """(S_k + nu V) / (n_k + nu) of diagonals [K, D]; V for an empty component without a prior."""
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
        covariances = before.copy()
        for k in np.flatnonzero(sizes > 0.0):
            covariances[k] = _bounded(_smoothed(scatters[k], sizes[k], prior), prior.least)
        return covariances

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
    """The covariance [D, D], with variances below diag(least) raised to that."""
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


# ----------------------------------------------------------------------------------------------------------------------
# Where EM for mixtures starts: centres among the rows, and each row assigned to the nearest one.
#
# Centres are rows drawn one after the other with a probability proportional to their squared distance from the nearest
# centre so far (k-means++, Arthur & Vassilvitskii 2007; of a few candidates the one that leaves the least distance is
# taken), or proportional to their weight alone (``random``). A component with known rows has their mean as its centre.
# As in Fig. 9.6 all components then have the same weight.
#
# The draw depends neither on the order of the rows nor on whether a row occurs twice or has weight two: the rows are
# sorted by a projection, and a number between 0 and 1 points into their cumulated weights.
#
# Letters: n rows, D columns, K components.

SPREAD = "k-means++"


def squared_distances(points: Rows, centres: Float) -> Float:
    """|x_i - c_k|^2 [n, K], without a copy of sparse rows."""
    if not sparse.issparse(points):
        return np.stack([np.square(points - centre).sum(axis=1) for centre in centres], axis=1)
    squares = np.asarray(points.multiply(points).sum(axis=1)).reshape(-1, 1)
    return np.maximum(squares - 2.0 * np.asarray(points @ centres.T) + np.square(centres).sum(axis=1), 0.0)


def start_model(
    components: Components, x: Rows, weights: Float, known: Int32 | None, method: str | Float, rng: np.random.Generator
) -> MixtureModel:
    """The mixture that EM starts from.

    Parameters
    ----------
    components : Components
        K of them, with any parameters.
    x, weights, known
        Rows [n, D], their weights [n] and known components [n] (-1: unknown), or None.
    method : {"k-means++", "random"} or float64 [K, D]
        How centres are chosen, or rows that are the centres.
    rng : numpy.random.Generator
    """
    points, k = components.points(x), components.n_components
    if isinstance(method, str):
        centres = _drawn_centres(points, weights, known, k, method == SPREAD, rng)
    else:
        centres = components.points(method)
    nearest = squared_distances(points, centres).argmin(axis=1)
    if known is not None:
        nearest = np.where(known == UNKNOWN, nearest, known)
    shares = np.zeros((x.shape[0], k))
    shares[np.arange(len(shares)), nearest] = weights
    return MixtureModel(np.full(k, -np.log(k)), components.started(x, shares, rng))


def _drawn_centres(
    points: Rows, weights: Float, known: Int32 | None, k: int, spread: bool, rng: np.random.Generator
) -> Float:
    """Centres [K, ...]."""
    centres = np.zeros((k, points.shape[1]))
    free = np.ones(k, dtype=bool)
    if known is not None:
        member = (known[:, None] == np.arange(k)) * weights[:, None]
        sizes = member.sum(axis=0)
        free = sizes == 0.0
        centres[~free] = summed(points, member)[~free] / sizes[~free, None]
    order = np.argsort(np.asarray(points @ np.random.default_rng(0).standard_normal(points.shape[1])), kind="stable")
    nearest = squared_distances(points, centres[~free]).min(axis=1) if not free.all() else np.full(len(weights), np.inf)
    for component in np.flatnonzero(free):
        spread_now = spread and np.isfinite(nearest[0])
        chances = weights * nearest if spread_now else weights * (nearest > 0.0)
        if not chances.sum() > 0.0:  # every row is a centre already
            chances = weights
        cumulated = np.cumsum(chances[order])
        places = rng.random(2 + int(np.log(k)) if spread_now else 1) * cumulated[-1]
        rows = order[np.minimum(np.searchsorted(cumulated, places, side="right"), len(order) - 1)]
        candidates = np.asarray(points[rows].todense() if sparse.issparse(points) else points[rows])
        left = np.minimum(squared_distances(points, candidates), nearest[:, None])
        best = int(np.argmin(weights @ left))
        centres[component], nearest = candidates[best], left[:, best]
    return centres
