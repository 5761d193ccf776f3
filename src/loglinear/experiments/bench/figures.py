"""The arithmetic of the tables: medians, ratios, and when a training first was as good as asked.

A history is a list of (seconds, value) after each pass. The converged objective is the least that any side ended at;
within 0.1 % of it is at most 1.001 times it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

History = Sequence[tuple[float, float]]
WITHIN = 1e-3


def median(values: Iterable[float | None]) -> float | None:
    """The median of the values that are there; None if none is."""
    there = [value for value in values if value is not None]
    return statistics.median(there) if there else None


def ratio(theirs: float | None, ours: float | None) -> float | None:
    """How many times less ours is; None if one is missing or ours is zero."""
    return None if theirs is None or not ours else theirs / ours


def first_at_most(history: History, bound: float) -> float | None:
    """Seconds until the value first was at most ``bound``; None if it never was."""
    return next((seconds for seconds, value in history if value <= bound), None)


def first_at_least(history: History, bound: float) -> float | None:
    """Seconds until the value first was at least ``bound``; None if it never was."""
    return next((seconds for seconds, value in history if value >= bound), None)


def objective_bound(ends: Iterable[float | None], within: float = WITHIN) -> float | None:
    """The objective that counts as converged, given where each side ended."""
    there = [end for end in ends if end is not None]
    return min(there) * (1.0 + within) if there else None
