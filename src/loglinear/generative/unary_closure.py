"""Chains of unary rules as single steps: the best chain for an argmax, all chains together for sums.

With U [K, K] the probabilities of the unary rules A -> B,

    best(A, B)  = max over chains A -> ... -> B of the product of their probabilities
    total(A, B) = sum over chains                = (I - U)^-1 - I,     which is finite if U's spectral radius is below 1

(Stolcke 1995, section 4.5). Where a step is used e(A, B) times on average, the rule C -> D in it is used

    U(C, D)  sum over A, B of  N(A, C) e(A, B) / total(A, B) N(D, B)        times, N = (I - U)^-1.

Only the m symbols that have unary rules take part, so all matrices are [m, m] or [m, K].
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components, dijkstra

from loglinear.errors import DataError

Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
CERTAIN = 1e-9  # a spectral radius nearer to 1 than this is 1


def radius_of(matrix: csr_matrix) -> float:
    """Spectral radius of a non-negative square matrix: the greatest of its strongly connected parts."""
    n, part = connected_components(matrix, directed=True, connection="strong")
    sizes = np.bincount(part, minlength=n)
    greatest = float(matrix.diagonal()[sizes[part] == 1].max(initial=0.0))
    order = np.argsort(part, kind="stable")
    ends = np.cumsum(sizes)
    for c in np.flatnonzero(sizes > 1):
        members = order[ends[c] - sizes[c] : ends[c]]
        greatest = max(greatest, _radius_of_part(matrix[members][:, members]))
    return greatest


def _radius_of_part(matrix: csr_matrix) -> float:
    """The same for one strongly connected part: eigenvalues if it is small, else powers of I + A on a vector."""
    if matrix.shape[0] <= 300:
        return float(np.abs(np.linalg.eigvals(matrix.toarray())).max())
    vector, radius = np.full(matrix.shape[0], 1.0 / matrix.shape[0]), 0.0
    for _ in range(20_000):
        image = vector + matrix @ vector  # I + A has no second eigenvalue of the same size
        ratios = image / vector
        vector = image / image.sum()
        radius = float(ratios.max()) - 1.0
        if ratios.max() - ratios.min() < 1e-12:
            break
    return radius


class UnaryClosure:
    """The steps that a grammar's unary rules make possible.

    Parameters
    ----------
    n_symbols : int
        K.
    rules : int [M, 2]
        Parent and child of each unary rule.
    probabilities : float64 [M]

    Attributes
    ----------
    steps : int32 [U, 2]
        Parent and child, sorted by child as a grammar wants them.
    radius : float
        Spectral radius of the unary rules' matrix.
    """

    def __init__(self, n_symbols: int, rules: npt.ArrayLike, probabilities: npt.ArrayLike) -> None:
        self.n_symbols = n_symbols
        self.rules = np.asarray(rules, dtype=np.int32).reshape(-1, 2)
        self.probabilities = np.asarray(probabilities, dtype=np.float64).reshape(-1)
        kept = self.probabilities > 0.0
        graph = (self.probabilities[kept], (self.rules[kept, 0], self.rules[kept, 1]))
        self._matrix = csr_matrix(graph, shape=(n_symbols, n_symbols))
        self._movers = np.unique(self.rules[kept, 0]).astype(np.int64)
        inner = self._matrix[self._movers][:, self._movers]
        self.radius = radius_of(inner) if len(self._movers) else 0.0
        if self.radius >= 1.0 - CERTAIN:
            raise DataError(
                f"the unary rules lead back to where they began with certainty (spectral radius {self.radius:.6g}): "
                "remove unary cycles from the trees"
            )
        m = len(self._movers)
        self._within = np.linalg.inv(np.eye(m) - inner.toarray()) if m else np.zeros((0, 0))  # N [m, m]
        self._total = self._within @ self._matrix[self._movers].toarray() if m else np.zeros((0, n_symbols))
        self._find_chains()

    def _find_chains(self) -> None:
        """Steps, and the best chain of each, by shortest paths over -log p."""
        m, k = len(self._movers), self.n_symbols
        self.chains: list[tuple[int, ...]] = []
        self.steps = np.zeros((0, 2), dtype=np.int32)
        self.best = np.zeros(0)
        self._rows = np.zeros(0, dtype=np.int64)
        if not m:
            return
        lengths = self._matrix.copy()
        lengths.data = np.maximum(-np.log(lengths.data), 1e-15)  # an edge of no length would be no edge
        found = dijkstra(lengths, indices=self._movers, return_predecessors=True)
        distances, before = found
        distances[np.arange(m), self._movers] = np.inf
        rows, children = np.nonzero(np.isfinite(distances) | (self._total > 0.0))
        order = np.lexsort((rows, children))
        self._rows = rows[order].astype(np.int64)
        self.steps = np.stack([self._movers[rows[order]], children[order]], axis=1).astype(np.int32)
        values = []
        row_of = np.full(k, -1)
        row_of[self._movers] = np.arange(m)
        for row, (parent, child) in zip(self._rows.tolist(), self.steps.tolist(), strict=True):
            chain = self._path(before[row], parent, child) if parent != child else self._cycle(before, row_of, parent)
            self.chains.append(chain)
            value = sum(float(np.log(self._matrix[a, b])) for a, b in pairwise(chain))
            values.append(value if parent != child else -np.inf)
        self.best = np.array(values)

    @staticmethod
    def _path(before: Int32, parent: int, child: int) -> tuple[int, ...]:
        chain = [child]
        while chain[-1] != parent:
            chain.append(int(before[chain[-1]]))
        return tuple(reversed(chain))

    def _cycle(self, before: Int32, row_of: Int64, a: int) -> tuple[int, ...]:
        """The shortest way from a symbol back to itself that begins with one of its rules."""
        ways = []
        for b in self._matrix[a].indices.tolist():
            if b == a:
                return (a, a)
            if row_of[b] >= 0 and before[row_of[b], a] >= 0:
                ways.append((a, *self._path(before[row_of[b]], b, a)))
        return min(ways, key=len)

    @cached_property
    def log_total(self) -> Float:
        """log total(A, B) of each step [U]."""
        return np.log(self._total[self._rows, self.steps[:, 1]])

    def expected_rules(self, expected_steps: npt.ArrayLike) -> Float:
        """Expected uses [M] of the unary rules, where steps are used ``expected_steps`` [U] times."""
        m, k = len(self._movers), self.n_symbols
        if not m:
            return np.zeros(len(self.rules))
        shares = np.zeros((m, k))
        shares[self._rows, self.steps[:, 1]] = np.asarray(expected_steps) / np.exp(self.log_total)
        # N [K, K] is the identity but for the rows of movers: N(D, B) = within and total beside it
        to_child = shares.copy()  # D = B, whichever symbol
        to_child[:, self._movers] = 0.0
        reach = self._total.copy()
        reach[np.arange(m), self._movers] += 1.0  # N(D, :) of the movers D
        through = np.zeros((m, k))
        through[:, self._movers] = shares @ reach.T
        sums = self._within.T @ (through + to_child)  # [C, D]
        row_of = np.full(k, -1)
        row_of[self._movers] = np.arange(m)
        known = row_of[self.rules[:, 0]] >= 0
        counts = np.zeros(len(self.rules))
        counts[known] = self.probabilities[known] * sums[row_of[self.rules[known, 0]], self.rules[known, 1]]
        return counts
