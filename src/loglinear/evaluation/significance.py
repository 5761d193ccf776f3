"""Is the difference between two systems chance? The paired bootstrap (Koehn 2004; Gimpel & Smith 2010, section 6).

Both systems labelled the same S sequences. Draw S of them with replacement, many times; p is the share of the draws in
which the system that is better on the whole is not better (Berg-Kirkpatrick, Burkett & Klein 2012 discuss the choices).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
DRAWS_AT_ONCE = 200


@dataclass(frozen=True)
class Comparison:
    """Two systems' F1 in percent, on the whole, and how sure their order is.

    Attributes
    ----------
    first, second : float
        F1 of each system.
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


def f1(counts: Counts | Float) -> Float:
    """F1 in percent of counts (gold, found, correct) along the last axis; 0 where nothing is correct."""
    gold, found, correct = np.moveaxis(np.asarray(counts, dtype=np.float64), -1, 0)
    return 100.0 * np.divide(2.0 * correct, gold + found, out=np.zeros_like(correct), where=correct > 0)


def paired_bootstrap(first: Counts, second: Counts, draws: int = 10_000, seed: int = 0) -> Comparison:
    """Compare two systems by :func:`~loglinear.evaluation.chunk_counts` [S, 3] of the same sequences."""
    if np.shape(first) != np.shape(second) or not len(first):
        raise ValueError(f"counts of the same sequences are needed, not of {len(first)} and {len(second)}")
    rng, n = np.random.default_rng(seed), len(first)
    both = np.concatenate([first, second], axis=1).astype(np.float64)
    differences = []
    for begin in range(0, draws, DRAWS_AT_ONCE):
        size = min(DRAWS_AT_ONCE, draws - begin)
        times = rng.multinomial(n, np.full(n, 1.0 / n), size=size)  # how often each sequence is drawn [size, S]
        totals = times @ both
        differences.append(f1(totals[:, 3:]) - f1(totals[:, :3]))
    difference = np.concatenate(differences)
    whole = float(f1(second.sum(axis=0)) - f1(first.sum(axis=0)))
    against = np.mean(difference * np.sign(whole) < 0) + 0.5 * np.mean(difference == 0) if whole else 0.5
    low, high = np.quantile(difference, [0.025, 0.975])
    return Comparison(
        float(f1(first.sum(axis=0))), float(f1(second.sum(axis=0))), float(against), float(low), float(high)
    )
