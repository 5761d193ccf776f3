"""Sums that are the same for any order of their terms, and for any cut of these into parts.

Whole numbers add up exactly as they are. Other numbers are cut into three slices on fixed grids,

    x = a + b + c        a a multiple of 2^-20, b of 2^-45 below 2^-20, c of 2^-70 below 2^-45

and each slice is summed by itself. Sums of multiples of a grid are exact while they need no more than 53 bits, which
holds for a total below 2^33 (8.6e9) of up to 2^28 terms; c is the only slice that is rounded, term by term and so the
same wherever the term is. What is rounded last, a + b + c of the sums, no longer depends on how they came about
(after Demmel & Nguyen 2015, *Parallel reproducible summation*, with fixed grids in place of those fitted to the data).

Letters: G slices, 1 where all terms are whole numbers, else 3.
"""

from __future__ import annotations

import numpy as np

from loglinear.arrays import Float
from loglinear.model_file import Reader, Shape

GRIDS = (20, 45, 70)  # exponents of the slices' grids, negated


def slices(terms: Float) -> Float:
    """The slices [G, ...] of terms [...]."""
    whole = np.floor(terms)
    if np.array_equal(whole, terms):
        return np.asarray(terms, dtype=np.float64)[None]
    left, found = np.asarray(terms, dtype=np.float64), []
    for grid in GRIDS[:-1]:
        found.append(np.ldexp(np.floor(np.ldexp(left, grid)), -grid))
        left = left - found[-1]
    return np.stack([*found, np.ldexp(np.rint(np.ldexp(left, GRIDS[-1])), -GRIDS[-1])])


def added(some: Float, others: Float) -> Float:
    """The sums of slices [G, ...] that may differ in their number."""
    if len(some) == len(others):
        return some + others
    fewer, more = (some, others) if len(some) < len(others) else (others, some)
    total = more.copy()
    total[: len(fewer)] += fewer
    return total


def total(summed: Float) -> Float:
    """The numbers [...] of summed slices [G, ...], rounded once a slice."""
    numbers = summed[0]
    for more in summed[1:]:
        numbers = numbers + more
    return np.asarray(numbers)


def read_slices(read: Reader, name: str, shape: Shape) -> Float:
    """Summed slices [G, ...] of numbers of a ``shape`` that are not negative, from a file."""
    found = read.floats(name, (None, *shape), 0.0, np.inf)
    if len(found) not in (1, 1 + len(GRIDS[:-1])) or not np.isfinite(found).all():
        read.fail(name, "not one slice or three of finite numbers")
    return found
