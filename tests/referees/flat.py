"""The referee of flat labels: every label of an example, one by one."""

from __future__ import annotations

import numpy as np

from loglinear.structures.flat.structure import Flat, FlatScores
from referees.enumeration import Enumeration, Functions, Labels


def labellings(structure: Flat, scores: FlatScores) -> list[int]:
    """All labels of one example."""
    return list(range(scores.labels.shape[1]))


def labels_of(structure: Flat, labelling: int) -> Labels:
    """The label int32 [1]."""
    return np.array([labelling], dtype=np.int32)


def score(structure: Flat, scores: FlatScores, labelling: int) -> float:
    """Score of one label."""
    return float(scores.labels[0, labelling])


def blank(structure: Flat, scores: FlatScores) -> FlatScores:
    """Parts of zero."""
    return FlatScores(np.zeros(scores.labels.shape))


def add_parts(structure: Flat, parts: FlatScores, labelling: int, weight: float) -> None:
    """Add the weight to a label."""
    parts.labels[0, labelling] += weight


def example(structure: Flat, s: int) -> Flat:
    """Example ``s`` alone."""
    return Flat(1)


def scores_of(structure: Flat, scores: FlatScores, s: int) -> FlatScores:
    """The scores of example ``s``."""
    return FlatScores(scores.labels[s : s + 1])


class BruteForce(Enumeration):
    """All labels of one example with their scores."""

    of = Functions(labellings, labels_of, score, blank, add_parts, example, scores_of)


referees = BruteForce.of_batch
