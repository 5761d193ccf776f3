"""The referee of chains: every one of the Y^T labellings of a short sequence, scored one by one."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np

from loglinear.structures.chain.structure import Chain, ChainScores
from referees.enumeration import Enumeration, Functions, Labels

Labelling = tuple[int, ...]  # the label of each position


def labellings(structure: Chain, scores: ChainScores) -> list[Labelling]:
    """All labellings of one sequence."""
    return list(itertools.product(range(scores.n_labels), repeat=structure.n_positions))


def labels_of(structure: Chain, labelling: Labelling) -> Labels:
    """The labels int32 [T]."""
    return np.array(labelling, dtype=np.int32)


def score(structure: Chain, scores: ChainScores, labelling: Labelling) -> float:
    """Score of one labelling of one sequence, straight from the definition."""
    total = float(scores.start[labelling[0]] + scores.stop[labelling[-1]])
    for t, y in enumerate(labelling):
        total += scores.emission[t, y]
        if t >= 1:
            total += scores.transition[labelling[t - 1], y]
            if scores.edge is not None:
                total += scores.edge[t, edge_row(scores, labelling, t), y]
        if t >= 2 and scores.trigram is not None:
            total += scores.trigram[labelling[t - 2], labelling[t - 1], y]
        if t >= 3 and scores.fourgram is not None:
            total += scores.fourgram[labelling[t - 3], labelling[t - 2], labelling[t - 1], y]
    return float(total)


def edge_row(scores: ChainScores, labelling: Labelling, t: int) -> int:
    """The row of the edge into position ``t``: the label before or, where edges have three, the two before."""
    assert scores.edge is not None
    if scores.edge.shape[1] == scores.n_labels or t == 1:
        return labelling[t - 1]
    return labelling[t - 2] * scores.n_labels + labelling[t - 1]


def blank(structure: Chain, scores: ChainScores) -> ChainScores:
    """Parts of zero, edges and trigrams always among them, 4-grams if the scores have them."""
    n, y = scores.emission.shape
    rows = y if scores.edge is None else scores.edge.shape[1]
    fourgram = None if scores.fourgram is None else np.zeros((y, y, y, y))
    return ChainScores(
        np.zeros((n, y)), np.zeros((y, y)), np.zeros(y), np.zeros(y), np.zeros((n, rows, y)), np.zeros((y, y, y)),
        fourgram,
    )  # fmt: skip


def add_parts(structure: Chain, parts: ChainScores, labelling: Labelling, weight: float) -> None:
    """Add the weight to every part of a labelling."""
    assert parts.edge is not None and parts.trigram is not None
    parts.start[labelling[0]] += weight
    parts.stop[labelling[-1]] += weight
    for t, y in enumerate(labelling):
        parts.emission[t, y] += weight
        if t >= 1:
            parts.transition[labelling[t - 1], y] += weight
            parts.edge[t, edge_row(parts, labelling, t), y] += weight
        if t >= 2:
            parts.trigram[labelling[t - 2], labelling[t - 1], y] += weight
        if t >= 3 and parts.fourgram is not None:
            parts.fourgram[labelling[t - 3], labelling[t - 2], labelling[t - 1], y] += weight


def example(structure: Chain, s: int) -> Chain:
    """Sequence ``s`` alone."""
    return Chain([0, structure.offsets[s + 1] - structure.offsets[s]])


def scores_of(structure: Chain, scores: ChainScores, s: int) -> ChainScores:
    """The scores of sequence ``s``."""
    rows = slice(structure.offsets[s], structure.offsets[s + 1])
    edge = None if scores.edge is None else scores.edge[rows]
    return replace(scores, emission=scores.emission[rows], edge=edge)


class BruteForce(Enumeration):
    """All labellings of one sequence with their scores."""

    of = Functions(labellings, labels_of, score, blank, add_parts, example, scores_of)

    def most_correct(self) -> float:
        """Greatest expected number of correct labels of a possible labelling."""
        marginals = self.expectations().emission
        possible = [labels for labels, value in zip(self.labels, self.values, strict=True) if value > -np.inf]
        return max(float(marginals[np.arange(len(labels)), labels].sum()) for labels in possible)


referees = BruteForce.of_batch
