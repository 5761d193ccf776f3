"""The referee of the chain operations: every one of the Y^T labellings of a short sequence, scored one by one."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loglinear.structures.chain.structure import ChainScores

Floats = npt.NDArray[np.float64]


def scores_of(scores: ChainScores, first: int, end: int) -> ChainScores:
    """The scores of the one sequence at the positions ``first`` to ``end``."""
    edge = None if scores.edge is None else scores.edge[first:end]
    return ChainScores(scores.emission[first:end], scores.transition, scores.start, scores.stop, edge, scores.trigram)


def score(scores: ChainScores, labels: tuple[int, ...]) -> float:
    """Score of one labelling of one sequence, straight from the definition."""
    total = float(scores.start[labels[0]] + scores.stop[labels[-1]])
    for t, y in enumerate(labels):
        total += scores.emission[t, y]
        if t >= 1:
            total += scores.transition[labels[t - 1], y]
            if scores.edge is not None:
                total += scores.edge[t, labels[t - 1], y]
        if t >= 2 and scores.trigram is not None:
            total += scores.trigram[labels[t - 2], labels[t - 1], y]
    return float(total)


@dataclass
class BruteForce:
    """All labellings of one sequence with their scores."""

    scores: ChainScores

    def __post_init__(self) -> None:
        n_positions, n_labels = self.scores.emission.shape
        self.labellings = list(itertools.product(range(n_labels), repeat=n_positions))
        self.values = np.array([score(self.scores, labels) for labels in self.labellings])
        top = self.values.max()
        self.feasible = bool(top > -np.inf)
        self.log_z = -np.inf
        self.probabilities = np.zeros(len(self.values))
        if self.feasible:
            weights = np.exp(self.values - top)
            self.log_z = float(top + np.log(weights.sum()))
            self.probabilities = weights / weights.sum()

    def expectations(self) -> ChainScores:
        """Expected parts, edges and trigrams always among them."""
        n_positions, n_labels = self.scores.emission.shape
        expected = ChainScores(
            np.zeros((n_positions, n_labels)),
            np.zeros((n_labels, n_labels)),
            np.zeros(n_labels),
            np.zeros(n_labels),
            np.zeros((n_positions, n_labels, n_labels)),
            np.zeros((n_labels, n_labels, n_labels)),
        )
        assert expected.edge is not None and expected.trigram is not None
        for labels, p in zip(self.labellings, self.probabilities, strict=True):
            expected.start[labels[0]] += p
            expected.stop[labels[-1]] += p
            for t, y in enumerate(labels):
                expected.emission[t, y] += p
                if t >= 1:
                    expected.transition[labels[t - 1], y] += p
                    expected.edge[t, labels[t - 1], y] += p
                if t >= 2:
                    expected.trigram[labels[t - 2], labels[t - 1], y] += p
        return expected

    def best(self, k: int) -> Floats:
        """Scores of the ``k`` best possible labellings, best first."""
        return np.sort(self.values[self.values > -np.inf])[::-1][:k]

    def most_correct(self) -> float:
        """Greatest expected number of correct labels of a possible labelling."""
        marginals = self.expectations().emission
        return max(
            sum(float(marginals[t, y]) for t, y in enumerate(labels))
            for labels, value in zip(self.labellings, self.values, strict=True)
            if value > -np.inf
        )
