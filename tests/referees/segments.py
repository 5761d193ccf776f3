"""The referee of segments: every segmentation of a short sequence, scored one by one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from loglinear.structures.segments.scheme import SegmentScheme
from loglinear.structures.segments.structure import Segments, SegmentScores
from referees.enumeration import Enumeration, Floats, Functions, Labels

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


def labellings(structure: Segments, scores: SegmentScores) -> list[Segmented]:
    """All segmentations of one sequence."""
    return list(segmentations(structure.scheme, structure.n_positions))


def labels_of(structure: Segments, labelling: Segmented) -> Labels:
    """The token labels int32 [T]."""
    return np.array(token_labels(structure.scheme, labelling), dtype=np.int32)


def score(structure: Segments, scores: SegmentScores, labelling: Segmented) -> float:
    """Score of one segmentation of one sequence, straight from the definition."""
    total = float(scores.start[labelling[0][2]] + scores.stop[labelling[-1][2]])
    for t, label in enumerate(token_labels(structure.scheme, labelling)):
        total += scores.emission[t, label]
    for start, end, y in labelling:
        total += scores.length[end - start - 1, y]
        if scores.segment is not None:
            total += scores.segment[end - 1, end - start - 1, y]
    for (_, _, before), (_, _, after) in pairwise(labelling):
        total += scores.transition[before, after]
    return float(total)


def blank(structure: Segments, scores: SegmentScores) -> SegmentScores:
    """Parts of zero, segments always among them."""
    n, y, m = structure.n_positions, structure.scheme.n_labels, structure.scheme.n_lengths
    tokens = np.zeros((n, structure.scheme.n_token_labels))
    return SegmentScores(tokens, np.zeros((y, y)), np.zeros(y), np.zeros(y), np.zeros((m, y)), np.zeros((n, m, y)))


def add_parts(structure: Segments, parts: SegmentScores, labelling: Segmented, weight: float) -> None:
    """Add the weight to every part of a segmentation."""
    assert parts.segment is not None
    parts.start[labelling[0][2]] += weight
    parts.stop[labelling[-1][2]] += weight
    for t, label in enumerate(token_labels(structure.scheme, labelling)):
        parts.emission[t, label] += weight
    for start, end, label in labelling:
        parts.length[end - start - 1, label] += weight
        parts.segment[end - 1, end - start - 1, label] += weight
    for (_, _, before), (_, _, after) in pairwise(labelling):
        parts.transition[before, after] += weight


def example(structure: Segments, s: int) -> Segments:
    """Sequence ``s`` alone."""
    return Segments([0, structure.offsets[s + 1] - structure.offsets[s]], structure.scheme)


def scores_of(structure: Segments, scores: SegmentScores, s: int) -> SegmentScores:
    """The scores of sequence ``s``."""
    rows = slice(structure.offsets[s], structure.offsets[s + 1])
    segment = None if scores.segment is None else scores.segment[rows]
    return SegmentScores(scores.emission[rows], scores.transition, scores.start, scores.stop, scores.length, segment)


class BruteForce(Enumeration):
    """All segmentations of one sequence with their scores."""

    of = Functions(labellings, labels_of, score, blank, add_parts, example, scores_of)

    def edges(self) -> Floats:
        """P(a segment of label y' ends with token t - 1, one of label y begins with t) [T, Y, Y]."""
        edge = np.zeros((self.structure.n_positions, self.scores.n_labels, self.scores.n_labels))
        for segments, p in zip(self.labellings, self.probabilities, strict=True):
            for (_, _, before), (start, _, after) in pairwise(segments):
                edge[start, before, after] += p
        return edge

    def most_correct(self) -> float:
        """Greatest expected number of correct token labels of a possible segmentation."""
        marginals = self.expectations().emission
        possible = [labels for labels, value in zip(self.labels, self.values, strict=True) if value > -np.inf]
        return max(float(marginals[np.arange(len(labels)), labels].sum()) for labels in possible)


referees = BruteForce.of_batch
