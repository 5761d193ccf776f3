"""Random batches and problems of segments."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from loglinear.criteria.costs import Cost
from loglinear.structures.segments.scheme import SegmentScheme
from loglinear.structures.segments.structure import Segments, SegmentScores
from problems.problem import Problem, annotated, possible_labels, seeds, without_gaps
from referees.segments import referees, segmentations

Floats = npt.NDArray[np.float64]

LABELS = {
    "bio": ["B-X", "I-X", "O", "B-Y", "I-Y"],
    "iob1": ["O", "I-X", "B-X", "I-Y", "B-Y"],
    "bioes": ["S-X", "B-X", "I-X", "E-X", "O", "S-Y", "B-Y", "E-Y"],
    "bilou": ["O", "U-X", "B-X", "I-X", "L-X"],
}


def random_scores(
    rng: np.random.Generator, n: int, scheme: SegmentScheme, segments: bool = True, scale: float = 2.0, gaps: float = 0
) -> SegmentScores:
    """Normal scores times ``scale``, a share ``gaps`` of them -inf."""

    def part(*shape: int) -> Floats:
        values = rng.normal(size=shape) * scale
        values[rng.random(shape) < gaps] = -np.inf
        return values

    y, m = scheme.n_labels, scheme.n_lengths
    segment = part(n, m, y) if segments else None
    return SegmentScores(part(n, scheme.n_token_labels), part(y, y), part(y), part(y), part(m, y), segment)


@st.composite
def schemes(draw: st.DrawFn, longest: int = 4) -> SegmentScheme:
    """Segment labels of all schemes, with limits of their own, some token labels being left out."""
    name = draw(st.sampled_from([None, *LABELS]))
    if name is None:
        return SegmentScheme.from_labels([f"y{y}" for y in range(draw(st.integers(1, 3)))])
    labels = list(LABELS[name])
    if draw(st.booleans()):
        labels.remove(draw(st.sampled_from([label for label in labels if label not in ("O", "I-X", "B-X")])))
    scheme = SegmentScheme.from_labels(labels, name)
    return scheme.with_limits(
        draw(st.lists(st.integers(1, longest), min_size=len(scheme.limits), max_size=len(scheme.limits)))
    )


@st.composite
def batches(draw: st.DrawFn, gaps: tuple[float, ...] = (0.0, 0.1, 0.3)) -> tuple[Segments, SegmentScores]:
    """A few short sequences, with and without -inf, forced token labels and segment scores."""
    scheme, lengths = draw(schemes()), draw(st.lists(st.integers(1, 5), min_size=0, max_size=3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = draw(st.sampled_from([0.0, 2.0, 60.0, 500.0]))
    scores = random_scores(rng, sum(lengths), scheme, draw(st.booleans()), scale, draw(st.sampled_from(gaps)))
    segments = Segments(np.cumsum([0, *lengths]), scheme)
    if draw(st.booleans()):
        allowed = np.ones(scores.emission.shape, np.uint8)
        for t in range(0, segments.n_positions, 3):
            allowed[t] = rng.random(scheme.n_token_labels) < 0.5
        scores = segments.restrict(scores, allowed)
    return segments, scores


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """All schemes and limits, with and without scores of segments, constraints and partial labels."""
    scheme, rng = draw(schemes()), np.random.default_rng(draw(seeds))
    spelt = [n for n in range(1, 5) if next(segmentations(scheme, n), None) is not None]
    lengths = draw(st.lists(st.sampled_from(spelt), min_size=1, max_size=3))
    segments = Segments(np.cumsum([0, *lengths]), scheme)
    scores = random_scores(rng, segments.n_positions, scheme, draw(st.booleans()), scale=1.0)
    if draw(st.booleans()):
        scores.transition[rng.random(scores.transition.shape) < 0.3] = -np.inf
    brute = referees(segments, scores)
    if not all(one.feasible for one in brute):
        scores = without_gaps(scores)
        brute = referees(segments, scores)
    n = scheme.n_token_labels
    gold = annotated(rng, possible_labels(rng, brute), n, draw(st.booleans()))
    table = rng.random((4, n, n)) * draw(st.sampled_from([1.0, 5.0])) * (1.0 - np.eye(n))
    return Problem(segments, scores, gold, rng.random(len(lengths)) + 0.1, Cost(table))
