"""The referee of dependency trees: every assignment of heads of a short sentence that is a tree, scored one by one."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def is_tree(heads: tuple[int, ...]) -> bool:
    """Whether every token reaches the root."""
    for t in range(1, len(heads) + 1):
        now, steps = t, 0
        while now and steps <= len(heads):
            now, steps = heads[now - 1], steps + 1
        if now:
            return False
    return True


def crosses(heads: tuple[int, ...]) -> bool:
    """Whether two arcs cross, the root standing before the first token."""
    arcs = [(min(t, h), max(t, h)) for t, h in enumerate(heads, 1)]
    return any(a < c < b < d for (a, b), (c, d) in itertools.permutations(arcs, 2))


@cache
def trees(n: int, projective: bool, single_root: bool) -> list[tuple[int, ...]]:
    """All trees of n tokens."""
    found = []
    for heads in itertools.product(range(n + 1), repeat=n):
        if heads.count(0) != 1 and single_root:
            continue
        if is_tree(heads) and not (projective and crosses(heads)):
            found.append(heads)
    return found


@dataclass
class AllTrees:
    """All trees of one sentence with arcs [n, n + 1]."""

    arcs: Floats
    projective: bool
    single_root: bool

    def __post_init__(self) -> None:
        n = len(self.arcs)
        self.trees = trees(n, self.projective, self.single_root)
        self.values = np.array([sum(self.arcs[t, h] for t, h in enumerate(heads)) for heads in self.trees])
        top = self.values.max()
        self.log_z, self.probabilities = -np.inf, np.zeros(len(self.values))
        if top > -np.inf:
            weights = np.exp(self.values - top)
            self.log_z = float(top + np.log(weights.sum()))
            self.probabilities = weights / weights.sum()

    def expected(self, factors: Floats | None = None) -> Floats:
        """E[factor * arc] [n, n + 1], the factor a number for each tree."""
        factors = np.ones(len(self.trees)) if factors is None else factors
        table = np.zeros_like(self.arcs)
        for heads, probability, factor in zip(self.trees, self.probabilities, factors, strict=True):
            table[np.arange(len(heads)), heads] += probability * factor
        return table
