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
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from scipy import sparse

from loglinear.arrays import Array, Arrays, Float, Int32, Int64
from loglinear.errors import DataError, OptionError
from loglinear.generative import exact
from loglinear.model_file import Reader, label_header
from loglinear.system import check_memory
from loglinear.wording import how_many

_TEXTS = "UO"  # kinds of arrays of labels that are not numbers
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
class LabelledCounts:
    """How often rows of each label have each symbol: all that a naive Bayes model is made of.

    Parameters
    ----------
    labels : array [Y]
        Distinct, ascending.
    symbols : float64 [G, Y, D]
        sum_{i: y_i = y} w_i x_ij, in slices (:mod:`~loglinear.generative.exact`).
    rows : float64 [G, Y]
        sum_{i: y_i = y} w_i, in slices.
    """

    kind: ClassVar[str] = "labelled rows"
    labels: Array
    symbols: Float
    rows: Float

    @classmethod
    def of(cls, x: Rows, numbers: Int32, labels: Array, weights: Float | None = None) -> LabelledCounts:
        """Count rows [n, D], sparse or not, by their labels' numbers [n] and weights [n], one if not given."""
        check_counts(x)
        n, n_labels = len(numbers), len(labels)
        if weights is not None:
            weights = np.asarray(weights, dtype=np.float64)
            if weights.size and weights.min() < 0.0:
                raise DataError("the weights of the rows must not be negative")
            x = sparse.diags(weights).tocsr() @ x if sparse.issparse(x) else x * weights[:, None]
        member = sparse.csr_matrix((np.ones(n), numbers, np.arange(n + 1)), shape=(n, n_labels))
        symbols = np.stack([summed(each, member) for each in _sliced(x)])
        each = exact.slices(np.ones(n) if weights is None else weights)
        return cls(labels, symbols, np.stack([np.bincount(numbers, own, minlength=n_labels) for own in each]))

    def __add__(self, other: LabelledCounts) -> LabelledCounts:
        """The counts of both parts together."""
        if self.symbols.shape[2] != other.symbols.shape[2]:
            widths = f"{self.symbols.shape[2]} columns, another one {other.symbols.shape[2]}"
            raise DataError(f"a part of the data has {widths}; all parts need the same")
        if (self.labels.dtype.kind in _TEXTS) != (other.labels.dtype.kind in _TEXTS):
            raise DataError("the labels of a part are strings, those of another one numbers; all parts need the same")
        labels = np.unique(np.concatenate([self.labels, other.labels]))
        mine, theirs = (each._placed(labels) for each in (self, other))
        symbols, rows = exact.added(mine.symbols, theirs.symbols), exact.added(mine.rows, theirs.rows)
        return LabelledCounts(labels, symbols, rows)

    def _placed(self, labels: Array) -> LabelledCounts:
        """The same over more labels."""
        if len(labels) == len(self.labels):
            return self
        place = np.searchsorted(labels, self.labels)
        g, _, d = self.symbols.shape
        symbols, rows = np.zeros((g, len(labels), d)), np.zeros((len(self.rows), len(labels)))
        symbols[:, place], rows[:, place] = self.symbols, self.rows
        return LabelledCounts(labels, symbols, rows)

    # -- as data -----------------------------------------------------------------------------------------------------

    def to_storage(self) -> tuple[dict[str, Any], Arrays]:
        """Header and arrays of a file."""
        return {"labels": label_header(self.labels)}, {"symbols": self.symbols, "rows": self.rows}

    @classmethod
    def from_storage(cls, read: Reader) -> Self:
        """What :meth:`to_storage` described."""
        labels = read.labels()
        symbols = exact.read_slices(read, "symbols", (len(labels), None))
        return cls(labels, symbols, exact.read_slices(read, "rows", (len(labels),)))


def _sliced(x: Rows) -> list[Rows]:
    """The slices of rows, sparse if these are."""
    if not sparse.issparse(x):
        return list(exact.slices(np.asarray(x, dtype=np.float64)))
    x = x.tocsr()
    return [sparse.csr_matrix((own, x.indices, x.indptr), shape=x.shape) for own in exact.slices(x.data)]


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
        return cls.estimated(LabelledCounts.of(x, y, np.arange(n_labels), weights), smoothing)

    @classmethod
    def estimated(cls, counts: LabelledCounts, smoothing: float) -> NaiveBayesModel:
        """The most probable model, given counts and ``smoothing``, lambda > 0."""
        if not 0.0 < smoothing < np.inf:
            raise OptionError(f"smoothing={smoothing!r} must be a number greater than 0")
        rows, symbols = exact.total(counts.rows), exact.total(counts.symbols)
        if not rows.sum() > 0.0:
            raise DataError("the weights of the rows must not all be zero")
        with np.errstate(divide="ignore"):  # a label without rows has probability zero
            log_prior = np.log(rows / rows.sum())
        return cls(most_probable(symbols, smoothing), log_prior, float(symbols.sum() / rows.sum()))

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
