"""The referee of segments: every segmentation of a short sequence, scored one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from loglinear.structures.segments.scheme import SegmentScheme
from loglinear.structures.segments.structure import Segments, SegmentScores

Floats = npt.NDArray[np.float64]
Segmented = tuple[tuple[int, int, int], ...]  # (start, end, label) of each segment


def segmentations(scheme: SegmentScheme, n_positions: int, start: int = 0, before: int = -1) -> Iterator[Segmented]:
    """All segmentations of the tokens ``start`` to ``n_positions`` after a segment of label ``before``."""
    if start == n_positions:
        yield ()
        return
    for y in range(scheme.n_labels):
        if not (scheme.starts[y] if before < 0 else scheme.follows[before, y]):
            continue
        for end in range(start + 1, min(start + int(scheme.limits[y]), n_positions) + 1):
            if scheme.single[y] < 0 if end == start + 1 else min(scheme.first[y], scheme.last[y]) < 0:
                continue
            for rest in segmentations(scheme, n_positions, end, y):
                yield ((start, end, y), *rest)


def token_labels(scheme: SegmentScheme, segments: Segmented) -> tuple[int, ...]:
    """The token labels of a segmentation, straight from the table of the scheme."""
    labels: list[int] = []
    for start, end, y in segments:
        if end == start + 1:
            labels.append(int(scheme.single[y]))
        else:
            labels += [scheme.first[y], *[scheme.inner[y]] * (end - start - 2), scheme.last[y]]
    return tuple(map(int, labels))


def scores_of(scores: SegmentScores, first: int, end: int) -> SegmentScores:
    """The scores of the one sequence at the positions ``first`` to ``end``."""
    segment = None if scores.segment is None else scores.segment[first:end]
    return SegmentScores(
        scores.emission[first:end], scores.transition, scores.start, scores.stop, scores.length, segment
    )


def score(scores: SegmentScores, scheme: SegmentScheme, segments: Segmented) -> float:
    """Score of one segmentation of one sequence, straight from the definition."""
    total = float(scores.start[segments[0][2]] + scores.stop[segments[-1][2]])
    for t, label in enumerate(token_labels(scheme, segments)):
        total += scores.emission[t, label]
    for start, end, y in segments:
        total += scores.length[end - start - 1, y]
        if scores.segment is not None:
            total += scores.segment[end - 1, end - start - 1, y]
    for (_, _, before), (_, _, after) in pairwise(segments):
        total += scores.transition[before, after]
    return float(total)


@dataclass
class BruteForce:
    """All segmentations of one sequence with their token labels and scores."""

    scores: SegmentScores
    scheme: SegmentScheme

    def __post_init__(self) -> None:
        self.segmentations = list(segmentations(self.scheme, len(self.scores.emission)))
        self.labellings = [token_labels(self.scheme, one) for one in self.segmentations]
        self.values = np.array([score(self.scores, self.scheme, one) for one in self.segmentations])
        top = self.values.max(initial=-np.inf)
        self.feasible = bool(top > -np.inf)
        self.log_z = -np.inf
        self.probabilities = np.zeros(len(self.values))
        if self.feasible:
            weights = np.exp(self.values - top)
            self.log_z = float(top + np.log(weights.sum()))
            self.probabilities = weights / weights.sum()

    def expectations(self) -> SegmentScores:
        """Expected parts, segments always among them."""
        n, y, m = len(self.scores.emission), self.scheme.n_labels, self.scheme.n_lengths
        expected = SegmentScores(
            np.zeros((n, self.scheme.n_token_labels)),
            np.zeros((y, y)),
            np.zeros(y),
            np.zeros(y),
            np.zeros((m, y)),
            np.zeros((n, m, y)),
        )
        assert expected.segment is not None
        for segments, labels, p in zip(self.segmentations, self.labellings, self.probabilities, strict=True):
            expected.start[segments[0][2]] += p
            expected.stop[segments[-1][2]] += p
            for t, label in enumerate(labels):
                expected.emission[t, label] += p
            for start, end, label in segments:
                expected.length[end - start - 1, label] += p
                expected.segment[end - 1, end - start - 1, label] += p
            for (_, _, before), (_, _, after) in pairwise(segments):
                expected.transition[before, after] += p
        return expected

    def edges(self) -> Floats:
        """P(a segment of label y' ends with token t - 1, one of label y begins with t) [T, Y, Y]."""
        edge = np.zeros((len(self.scores.emission), self.scheme.n_labels, self.scheme.n_labels))
        for segments, p in zip(self.segmentations, self.probabilities, strict=True):
            for (_, _, before), (start, _, after) in pairwise(segments):
                edge[start, before, after] += p
        return edge

    def best(self, k: int) -> Floats:
        """Scores of the ``k`` best possible segmentations, best first."""
        return np.sort(self.values[self.values > -np.inf])[::-1][:k]

    def most_correct(self) -> float:
        """Greatest expected number of correct token labels of a possible segmentation."""
        marginals = self.expectations().emission
        return max(
            sum(float(marginals[t, label]) for t, label in enumerate(labels))
            for labels, value in zip(self.labellings, self.values, strict=True)
            if value > -np.inf
        )


def referees(segments: Segments, scores: SegmentScores) -> list[BruteForce]:
    """The enumeration of each sequence."""
    bounds = zip(segments.offsets[:-1].tolist(), segments.offsets[1:].tolist(), strict=True)
    return [BruteForce(scores_of(scores, first, end), segments.scheme) for first, end in bounds]
