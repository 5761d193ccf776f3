"""A flat label: a structure with a single part. It offers the operations of chains, in closed form.

    log Z = log sum_y exp s(y)        p(y) = exp(s(y) - log Z)        Cov(c, [y]) = p(y) (c(y) - E[c])

An example is a sequence of one position, so costs and annotation are those of chains. A label that is not among an
example's candidates has a score of -inf.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Float, Int32, Int64, UInt8
from loglinear.errors import InfeasibleError, OptionError


@dataclass(frozen=True, slots=True)
class FlatScores:
    """Part scores of N examples: one for each label.

    Parameters
    ----------
    labels : float64 [N, Y]
    """

    labels: Float

    def zeros_like(self) -> FlatScores:
        """Zeros of the same shape."""
        return FlatScores(np.zeros_like(self.labels))

    def subtract(self, other: FlatScores) -> None:
        """``self -= other``."""
        np.subtract(self.labels, other.labels, out=self.labels)

    def times(self, factor: float) -> FlatScores:
        """The scores times a factor above 0."""
        return FlatScores(factor * self.labels)

    def with_costs(self, costs: Float) -> FlatScores:
        """The scores plus costs [N, Y]."""
        return FlatScores(self.labels + costs)


class Flat:
    """The shape of N examples with Y labels each.

    Where an example has no label with a score above -inf, :meth:`log_partition` and :meth:`score` give -inf,
    :meth:`squared_distance` counts nothing, and the others raise :class:`~loglinear.errors.InfeasibleError`.
    """

    def __init__(self, n_examples: int) -> None:
        self.offsets: Int64 = np.arange(n_examples + 1, dtype=np.int64)
        self.n_sequences = self.n_positions = n_examples

    # -- given labels ------------------------------------------------------------------------------------------------

    def score(self, scores: FlatScores, labels: Int32) -> Float:
        """Scores [N] of the labels [N]."""
        return scores.labels[np.arange(self.n_sequences), labels]

    def add_labelling(self, parts: FlatScores, labels: Int32, weights: Float) -> None:
        """Add to ``parts`` the weight [N] of each example at its label."""
        parts.labels[np.arange(self.n_sequences), labels] += weights

    def restrict(self, scores: FlatScores, allowed: UInt8) -> FlatScores:
        """The scores with -inf for labels that the annotation [N, Y] rules out."""
        return FlatScores(np.where(allowed > 0, scores.labels, -np.inf))

    # -- the best labels ---------------------------------------------------------------------------------------------

    def viterbi(self, scores: FlatScores) -> tuple[Int32, Float]:
        """The best label of each example, the first of equal ones, and its score."""
        best = scores.labels.argmax(axis=1).astype(np.int32)
        return best, self._possible(self.score(scores, best))

    def k_best(self, scores: FlatScores, k: int) -> list[tuple[Int32, Float]]:
        """For each example its K <= k best labels [K, 1], best first, and their scores [K]."""
        if k < 1:
            raise OptionError(f"k = {k}: ask for at least one label")
        self._possible(scores.labels.max(axis=1, initial=-np.inf))
        order = np.argsort(-scores.labels, axis=1, kind="stable")[:, :k].astype(np.int32)
        results = []
        for row, labels in zip(scores.labels, order, strict=True):
            possible = labels[row[labels] > -np.inf]
            results.append((possible[:, np.newaxis], row[possible]))
        return results

    # -- sums over labels --------------------------------------------------------------------------------------------

    def log_partition(self, scores: FlatScores) -> Float:
        """log Z [N]; -inf where no label is possible."""
        peak = scores.labels.max(axis=1, initial=-np.inf)
        possible, log_z = peak > -np.inf, peak.copy()
        log_z[possible] = self._normalised(FlatScores(scores.labels[possible]))[0]
        return log_z

    def expectations(self, scores: FlatScores, weights: npt.ArrayLike | None = None) -> tuple[Float, FlatScores]:
        """log Z [N], and the labels' probabilities, each example's multiplied by its weight [N]."""
        log_z, probabilities = self._normalised(scores)
        if weights is not None:
            probabilities *= np.asarray(weights)[:, np.newaxis]
        return log_z, FlatScores(probabilities)

    def marginals(self, scores: FlatScores) -> Float:
        """The labels' probabilities [N, Y]."""
        return self._normalised(scores)[1]

    def cost_covariance(
        self, scores: FlatScores, cost: npt.ArrayLike, weights: npt.ArrayLike | None = None
    ) -> tuple[Float, FlatScores]:
        """E[c] [N] of a cost [N, Y], and its covariances with the labels, times the weights [N].

        They are the gradient of ``weights @ E[c]`` by the scores.
        """
        costs, (_, probabilities) = np.asarray(cost), self._normalised(scores)
        mean = np.einsum("ny,ny->n", probabilities, costs)
        covariance = probabilities * (costs - mean[:, np.newaxis])
        if weights is not None:
            covariance *= np.asarray(weights)[:, np.newaxis]
        return mean, FlatScores(covariance)

    def squared_distance(self, scores: FlatScores, labels: Int32, weights: npt.ArrayLike) -> tuple[Float, FlatScores]:
        """sum_y (s(y) - t_y)^2 [N], t being +1 for the label and -1 for others, and its gradient.

        Both are multiplied by the weights [N]. Labels that an example cannot have are ignored.
        """
        targets = np.full(scores.labels.shape, -1.0)
        targets[np.arange(self.n_sequences), labels] = 1.0
        apart = np.where(scores.labels > -np.inf, scores.labels - targets, 0.0)
        factors = np.asarray(weights)
        return factors * np.einsum("ny,ny->n", apart, apart), FlatScores(2.0 * factors[:, np.newaxis] * apart)

    def sample(self, scores: FlatScores, rng: np.random.Generator) -> Int32:
        """A label for each example [N], drawn from its distribution."""
        upto = np.cumsum(self._normalised(scores)[1], axis=1)
        drawn = (upto < rng.random((self.n_sequences, 1)) * upto[:, -1:]).sum(axis=1)
        return np.minimum(drawn, upto.shape[1] - 1).astype(np.int32)

    def _normalised(self, scores: FlatScores) -> tuple[Float, Float]:
        """log Z [N] and the probabilities [N, Y]."""
        peak = self._possible(scores.labels.max(axis=1, initial=-np.inf))
        powers = np.exp(scores.labels - peak[:, np.newaxis])
        total = powers.sum(axis=1)
        powers /= total[:, np.newaxis]
        return peak + np.log(total), powers

    @staticmethod
    def _possible(best: Float) -> Float:
        """The examples' best scores [N]; raises if an example has no possible label."""
        impossible = np.flatnonzero(best == -np.inf)
        if len(impossible):
            raise InfeasibleError(int(impossible[0]))
        return best
