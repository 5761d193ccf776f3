"""Mixture models by EM (Zhang, Fundamental Statistical Techniques, section 9.5 and Fig. 9.6).

    p(x) = sum_k mu_k p(x given theta_k)                                                                       (9.13)

EM climbs the penalised log-likelihood of rows x_i of weight w_i

    J = sum_i w_i log sum_{k in A_i} mu_k p(x_i given theta_k) + sum_k log p(theta_k)                          (9.15)

by turns: the E step finds how much each row belongs to each component, the M step what is then most probable,

    q_ik = mu_k p(x_i given theta_k) / sum_{l in A_i} mu_l p(x_i given theta_l)       for k in A_i, else 0
    theta_k = argmax sum_i w_i q_ik log p(x_i given theta_k) + log p(theta_k)         mu_k = sum_i w_i q_ik / sum_i w_i

A_i are the components that row i may belong to: all of them, or the one that is known (semi-supervised learning). J
never falls from one step to the next; that is checked at each. It has many tops, so EM is run from several starts.

Letters: n rows, D columns, K components.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from loglinear.errors import DataError
from loglinear.generative.mixture_components import Components
from loglinear.generative.naive_bayes import Rows

Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
UNKNOWN = -1  # component of a row that may belong to any
ROUNDING = 1e-8  # of the sum of all terms' sizes: a fall that is no fall


class ObjectiveFellWarning(RuntimeWarning):
    """The objective of EM fell by more than rounding, which it cannot do in exact arithmetic."""


@dataclass(frozen=True)
class Expected:
    """What an E step finds.

    Parameters
    ----------
    shares : float64 [n, K]
        q_ik, each row's adding up to 1.
    log_likelihood : float
        The first sum of J.
    objective : float
        J.
    size : float
        The sum of the sizes of J's terms, to judge rounding by.
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
        log mu; -inf for a component that has become empty.
    components : Components
        theta.
    """

    log_weights: Float
    components: Components

    @property
    def n_parameters(self) -> int:
        """Free parameters."""
        return self.components.n_parameters + len(self.log_weights) - 1

    def joint(self, x: Rows) -> Float:
        """log mu_k p(x_i given theta_k) [n, K]."""
        return self.components.log_densities(x) + self.log_weights

    def log_likelihoods(self, x: Rows) -> Float:
        """log p(x_i) [n]."""
        return log_sums(self.joint(x))

    def posterior(self, x: Rows) -> Float:
        """p(k given x_i) [n, K] (9.14)."""
        joint = self.joint(x)
        probabilities: Float = np.exp(joint - log_sums(joint)[:, None])
        return probabilities / probabilities.sum(axis=1, keepdims=True)

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
                "bring the columns to a similar, smaller scale"
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

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Rows, Int32]:
        """Rows [n, D] and the components they come from."""
        mu = np.exp(self.log_weights)
        drawn = rng.choice(len(mu), size=n, p=mu / mu.sum()).astype(np.int32)
        return self.components.sample(drawn, rng), drawn


def log_sums(joint: Float) -> Float:
    """log sum_k exp joint_ik [n]."""
    greatest = joint.max(axis=1)
    safe = np.where(np.isfinite(greatest), greatest, 0.0)
    with np.errstate(divide="ignore"):
        total: Float = np.log(np.exp(joint - safe[:, None]).sum(axis=1)) + safe
    return total


@dataclass
class Climb:
    """EM from one start.

    Attributes
    ----------
    model : MixtureModel
        After the last step.
    objectives, log_likelihoods : list of float
        J and its first sum, of the start and after each step.
    converged : bool
        Whether it ended because a step raised J by hardly anything.
    """

    model: MixtureModel
    objectives: list[float] = field(default_factory=list)
    log_likelihoods: list[float] = field(default_factory=list)
    converged: bool = False

    @property
    def n_iter(self) -> int:
        """Steps."""
        return len(self.objectives) - 1


def climb(
    start: MixtureModel,
    x: Rows,
    weights: Float,
    known: Int32 | None = None,
    max_iter: int = 300,
    tolerance: float = 1e-6,
    observe: Callable[[Climb], object] | None = None,
) -> Climb:
    """EM from one start.

    Parameters
    ----------
    start : MixtureModel
    x, weights, known
        Rows [n, D], their weights [n] and known components [n] (-1: unknown).
    max_iter : int
        Most steps.
    tolerance : float
        It ends when a step raises J by at most so much for each row (of weight 1).
    observe : callable, optional
        Called after each step with how it goes so far.

    Warns
    -----
    ObjectiveFellWarning
        J fell by more than rounding.
    """
    run = Climb(start)
    found = start.expected(x, weights, known)
    _note(run, found)
    total = float(weights.sum())
    while run.n_iter < max_iter and not run.converged:
        run.model = run.model.maximised(x, weights, found.shares)
        found = run.model.expected(x, weights, known)
        _note(run, found)
        gain = run.objectives[-1] - run.objectives[-2]
        run.converged = gain <= tolerance * total
        if gain < -ROUNDING * found.size:
            warnings.warn(
                f"step {run.n_iter} of EM lowered the objective from {run.objectives[-2]:.10g} to "
                f"{run.objectives[-1]:.10g}, which is more than rounding; bring the columns to a similar scale, or "
                "take a greater floor or smoothing",
                ObjectiveFellWarning,
                stacklevel=3,
            )
        if observe is not None:
            observe(run)
    return run


def _note(run: Climb, found: Expected) -> None:
    run.objectives.append(found.objective)
    run.log_likelihoods.append(found.log_likelihood)
