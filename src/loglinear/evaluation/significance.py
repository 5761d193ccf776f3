"""Is the difference between two systems chance? Three tests on the results of both on the same S sequences.

The paired bootstrap (Koehn 2004; Gimpel & Smith 2010, section 6) draws S of them with replacement, many times; p is the
share of the draws in which the system that is better on the whole is not better, ties counting half (Berg-Kirkpatrick,
Burkett & Klein 2012 discuss the choices). It is one-sided, and works for any figure made of sums over sequences.

McNemar's test (1947) looks at the sequences that one system has right and the other wrong, b and c of them. If neither
is better, each falls to either side with probability 1/2:

    exact       p = 2 P(Binomial(b + c, 1/2) <= min(b, c))
    corrected   (|b - c| - 1)^2 / (b + c)  is chi-squared with one degree of freedom

The paired t-test looks at the differences d of a number for each sequence, such as its mistakes:

    t = mean(d) / (sd(d) / sqrt(S)),  with S - 1 degrees of freedom

Both are two-sided.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Array, Float, Int64
from loglinear.errors import OptionError

DRAWS_AT_ONCE = 200


@dataclass(frozen=True)
class Comparison:
    """The figures of two systems in percent, and how certain their order is.

    Attributes
    ----------
    first, second : float
        The figure of each system.
    p : float
        Share of the draws in which the better one is not better; ties count as half.
    low, high : float
        The middle 95 % of the differences second - first.
    """

    first: float
    second: float
    p: float
    low: float
    high: float


@dataclass(frozen=True)
class Outcome:
    """A test's statistic (None if undefined) and its two-sided p."""

    statistic: float | None
    p: float


def _percent(counts: Int64 | Float, factor: float, of_gold: float, of_found: float) -> Float:
    """factor correct / (of_gold gold + of_found found) in percent; 0 where nothing is correct."""
    gold, found, correct = np.moveaxis(np.asarray(counts, dtype=np.float64), -1, 0)
    part, whole = factor * correct, of_gold * gold + of_found * found
    return 100.0 * np.divide(part, whole, out=np.zeros_like(part), where=part > 0)


def f1(counts: Int64 | Float) -> Float:
    """F1 in percent of counts (gold, found, correct) along the last axis; 0 where nothing is correct."""
    return _percent(counts, 2.0, 1.0, 1.0)


def precision(counts: Int64 | Float) -> Float:
    """Precision in percent of such counts."""
    return _percent(counts, 1.0, 0.0, 1.0)


def recall(counts: Int64 | Float) -> Float:
    """Recall in percent of such counts; the accuracy for those of :func:`~loglinear.evaluation.label_counts`."""
    return _percent(counts, 1.0, 1.0, 0.0)


FIGURES: dict[str, Callable[[Any], Float]] = {"f1": f1, "precision": precision, "recall": recall, "accuracy": recall}


def paired_bootstrap(
    first: Int64, second: Int64, draws: int = 10_000, seed: int = 0, figure: str | Callable[[Any], Float] = "f1"
) -> Comparison:
    """Compare two systems by counts [S, 3] (gold, found, correct) of the same sequences.

    Parameters
    ----------
    first, second : int64 [S, 3]
        :func:`~loglinear.evaluation.chunk_counts`, or :func:`~loglinear.evaluation.label_counts` for the accuracy.
    draws, seed
        How many samples are drawn, and the seed of the drawing.
    figure : {"f1", "precision", "recall", "accuracy"} or callable
        What is compared; a callable takes sums of counts [..., 3] and gives figures [...].
    """
    return paired_bootstraps([(first, second, figure)], draws, seed)[0]


Paired = tuple[Any, Any, str | Callable[[Any], Float]]  #: numbers [S, C] of two systems, the figure


def paired_bootstraps(figures: Sequence[Paired], draws: int = 10_000, seed: int = 0) -> list[Comparison]:
    """Compare two systems by several figures at once: :func:`paired_bootstrap` of each, by the same draws.

    A figure is worked out from sums over sequences of any C numbers, which may be a sparse matrix [S, C]; a callable
    takes these sums [..., C].
    """
    of, parts = [], list[Any]()
    for first, second, figure in figures:
        _check_paired(first, second)
        if isinstance(figure, str) and figure not in FIGURES:
            raise OptionError(f"figure={figure!r} is not one of {', '.join(FIGURES)}")
        of.append(FIGURES[figure] if isinstance(figure, str) else figure)
        parts += [first, second]
    rng, n = np.random.default_rng(seed), parts[0].shape[0]
    differences: list[list[Float]] = [[] for _ in of]
    for begin in range(0, draws, DRAWS_AT_ONCE):
        size = min(DRAWS_AT_ONCE, draws - begin)
        times = rng.multinomial(n, np.full(n, 1.0 / n), size=size).astype(
            np.float64
        )  # each is drawn so often [size, S]
        totals = [times @ part for part in parts]
        for found, figure_of, first, second in zip(differences, of, totals[::2], totals[1::2], strict=True):
            found.append(figure_of(second) - figure_of(first))
    pairs = zip(of, parts[::2], parts[1::2], differences, strict=True)
    return [_compared(of, first, second, np.concatenate(found)) for of, first, second, found in pairs]


def _compared(of: Callable[[Any], Float], first: Any, second: Any, difference: Float) -> Comparison:
    """Two systems by a figure, given its differences in the draws."""
    one, other = (float(of(np.asarray(numbers.sum(axis=0)).ravel())) for numbers in (first, second))
    against = 0.5
    if one != other:
        against = float(np.mean(difference * np.sign(other - one) < 0) + 0.5 * np.mean(difference == 0))
    low, high = np.quantile(difference, [0.025, 0.975])
    return Comparison(one, other, against, float(low), float(high))


def mcnemar(first: npt.ArrayLike, second: npt.ArrayLike, exact: bool = True) -> Outcome:
    """McNemar's test on which sequences [S] each of two systems has right.

    The statistic is the smaller of both counts if ``exact``, else the corrected chi-squared. Where the systems never
    differ, p is 1.
    """
    from scipy.stats import binom, chi2

    one, other = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    _check_paired(one, other)
    b, c = int(np.count_nonzero(one & ~other)), int(np.count_nonzero(other & ~one))
    if exact:
        return Outcome(float(min(b, c)), min(1.0, 2.0 * float(binom.cdf(min(b, c), b + c, 0.5))))
    if b + c == 0:
        return Outcome(0.0, 1.0)
    statistic = (abs(b - c) - 1) ** 2 / (b + c)
    return Outcome(statistic, float(chi2.sf(statistic, 1)))


def paired_t_test(first: npt.ArrayLike, second: npt.ArrayLike) -> Outcome:
    """The paired t-test on a number for each sequence [S] of two systems.

    The statistic is undefined where all differences are the same: p is then 1 if they are zero, and 0 if they are not.
    """
    from scipy.stats import t

    one, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    _check_paired(one, other)
    difference = one - other
    n, mean = len(difference), float(difference.mean())
    if n < 2:
        return Outcome(None, 1.0)
    if not np.ptp(difference):
        return Outcome(None, 0.0 if mean else 1.0)
    statistic = mean / (float(difference.std(ddof=1)) / math.sqrt(n))
    return Outcome(statistic, 2.0 * float(t.sf(abs(statistic), n - 1)))


def holm(p_values: npt.ArrayLike) -> Float:
    """The p values [K] of K tests made together, corrected for multiple testing.

    With p(1) <= ... <= p(K), p(k) becomes  max_{j <= k} min(1, (K - j + 1) p(j))  (Holm 1979).
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    corrected = np.empty_like(p)
    corrected[order] = np.maximum.accumulate(np.minimum(1.0, p[order] * np.arange(len(p), 0, -1)))
    return corrected


def _check_paired(first: Array, second: Array) -> None:
    if first.shape != second.shape or not first.shape[0]:
        raise ValueError(f"counts of the same sequences are needed, not of {first.shape[0]} and {second.shape[0]}")
