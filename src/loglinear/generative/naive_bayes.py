"""Multinomial naive Bayes with a Dirichlet prior, by counting (Zhang, Fundamental Statistical Techniques, 9.4.1).

A row x counts how often each of D symbols occurs. Given its label the occurrences are independent,

    p(x, y) = p(y) prod_j theta_yj^x_j p(sum_j x_j)          with prior p(theta_y) prop. to prod_j theta_yj^lambda

and the length sum_j x_j does not depend on the label. The most probable parameters are counts:

    theta_yj = (lambda + sum_{i: y_i = y} x_ij) / sum_j' (lambda + sum_{i: y_i = y} x_ij')          p(y) = n_y / n

The coefficient (sum_j x_j)! / prod_j x_j! and p(sum_j x_j) are the same for all labels and are omitted from scores, so
that counts may be any non-negative real numbers. A row of weight w counts as w equal rows.

Letters: n rows, Y labels, D symbols (columns).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from loglinear.arrays import Array, Float, Int32, Int64
from loglinear.errors import DataError, OptionError
from loglinear.system import check_memory
from loglinear.wording import how_many

_MANY = 1_000_000  # occurrences that are drawn one by one
Rows: TypeAlias = Any  # float64 [n, D]: an array, or a SciPy sparse matrix in CSR


def check_counts(x: Rows) -> None:
    """Reject rows with a number that is negative, infinite or NaN."""
    values = x.data if sparse.issparse(x) else x
    if values.size and not (values.min() >= 0.0 and values.max() < np.inf):
        worst = values[~((values >= 0.0) & (values < np.inf))].flat[0]
        raise DataError(f"Negative values in data, or none: a count of {worst:g}, where a row counts something")


def summed(x: Rows, shares: Any) -> Float:
    """sum_i shares_ik x_i [K, D] of rows [n, D] and shares [n, K], each of them dense or sparse."""
    total = (x.T @ shares).T
    return np.asarray(total.toarray() if sparse.issparse(total) else total, dtype=np.float64, order="C")


def most_probable(counts: Float, smoothing: float) -> Float:
    """log theta [K, D] = log (lambda + counts_kj) / sum_j' (lambda + counts_kj')."""
    smoothed = counts + smoothing
    theta: Float = np.log(smoothed) - np.log(smoothed.sum(axis=1, keepdims=True))
    return theta


def log_dirichlet(log_theta: Float, smoothing: float) -> float:
    """log p(theta) = lambda sum_kj log theta_kj, up to a constant."""
    return smoothing * float(log_theta.sum())


def log_likelihoods(x: Rows, log_theta: Float) -> Float:
    """sum_j x_ij log theta_kj [n, K]."""
    return np.asarray(x @ log_theta.T, dtype=np.float64)


def drawn_counts(log_theta: Float, components: Int32, lengths: Int64, rng: np.random.Generator) -> Any:
    """Rows [n, D] in CSR, row i of ``lengths[i]`` occurrences from the distribution of ``components[i]``.

    All occurrences of a component are drawn at once: O(total length + K D). Rows that are long beside their columns are
    drawn as counts, column by column: O(n D).
    """
    n, d = len(components), log_theta.shape[1]
    if float(lengths.sum(dtype=np.float64)) > max(_MANY, 10.0 * n * d):
        shares = np.exp(log_theta[components])
        counts = rng.multinomial(lengths, shares / shares.sum(axis=1, keepdims=True))
        return sparse.csr_matrix(counts.astype(np.float64))
    check_memory(40.0 * float(lengths.sum(dtype=np.float64)), f"drawing {how_many(n, 'row')} of this length")
    symbols = np.empty(int(lengths.sum()), dtype=np.int64)
    owners = np.repeat(components, lengths)
    for k in np.unique(components):
        mine = np.flatnonzero(owners == k)
        theta = np.exp(log_theta[k])
        symbols[mine] = rng.choice(d, size=len(mine), p=theta / theta.sum())
    rows = np.repeat(np.arange(n), lengths)
    return sparse.coo_matrix((np.ones(len(symbols)), (rows, symbols)), shape=(n, d)).tocsr()  # adds up what is equal


@dataclass(frozen=True)
class NaiveBayesModel:
    """A multinomial naive Bayes model.

    Parameters
    ----------
    log_theta : float64 [Y, D]
        log p(symbol given label).
    log_prior : float64 [Y]
        log p(label); -inf for a label that no row has.
    mean_length : float
        Mean of sum_j x_j over the rows, weighted.
    """

    log_theta: Float
    log_prior: Float
    mean_length: float

    @classmethod
    def fit(cls, x: Rows, y: Array, n_labels: int, smoothing: float, weights: Float | None = None) -> NaiveBayesModel:
        """Count.

        Parameters
        ----------
        x : float64 [n, D]
            Non-negative numbers, an array or a SciPy sparse matrix, which stays sparse.
        y : int32 [n]
            Labels, from 0.
        n_labels : int
        smoothing : float
            lambda > 0, added to each count.
        weights : float64 [n], optional
            How often each row counts; 1 if not given.

        Raises
        ------
        DataError
            A count or a weight is negative, or nothing is left to count.
        """
        if not 0.0 < smoothing < np.inf:
            raise OptionError(f"smoothing={smoothing!r} must be a number greater than 0")
        check_counts(x)
        weights = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=np.float64)
        if not weights.sum() > 0.0 or weights.min() < 0.0:
            raise DataError("the weights of the rows must not be negative, nor all zero")
        labels = sparse.csr_matrix((weights, y, np.arange(len(y) + 1)), shape=(len(y), n_labels))
        lengths = np.asarray(x.sum(axis=1), dtype=np.float64).reshape(-1)
        with np.errstate(divide="ignore"):  # a label without rows has probability zero
            log_prior = np.log(np.bincount(y, weights, minlength=n_labels) / weights.sum())
        mean_length = float(weights @ lengths / weights.sum())
        return cls(most_probable(summed(x, labels), smoothing), log_prior, mean_length)

    def scores(self, x: Rows) -> Float:
        """log p(x, y) [n, Y], but for what does not depend on y: log p(y) + sum_j x_j log theta_yj."""
        return log_likelihoods(x, self.log_theta) + self.log_prior

    def expected(self) -> Float:
        """E[x_j 1(label = y)] [D, Y] under the model: p(y) E[length] theta_yj."""
        expectation: Float = np.exp(self.log_theta + self.log_prior[:, None]).T * self.mean_length
        return np.ascontiguousarray(expectation)

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Any, Int32]:
        """Rows [n, D] in CSR and labels [n], drawn; a row's length is Poisson with the mean of the training rows."""
        prior = np.exp(self.log_prior)
        labels = rng.choice(len(prior), size=n, p=prior / prior.sum()).astype(np.int32)
        return drawn_counts(self.log_theta, labels, rng.poisson(self.mean_length, size=n), rng), labels
