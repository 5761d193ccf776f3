"""Random batches and problems of segments."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from loglinear.criteria.costs import Cost
from loglinear.criteria.criterion import CRITERIA, make_criterion
from loglinear.features.encoding import EncodedCorpus, Incidence
from loglinear.features.segments import EncodedSegments
from loglinear.optimizers.objective import Objective
from loglinear.structures.gold import Gold
from loglinear.structures.segments.features import SegmentFeatures, SegmentPenalties
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


def random_spans(rng: np.random.Generator, lengths: list[int], n_lengths: int, n_attributes: int) -> Incidence:
    """Attributes that spans have because of their first token, of their last, or for themselves, some of them twice."""
    lists: list[list[int]] = []
    for n in lengths:
        of_first, of_last = (
            [rng.integers(0, n_attributes, k).tolist() for k in rng.integers(0, 3, n)] for _ in range(2)
        )
        for t in range(n):
            for m in range(n_lengths):
                own = rng.integers(0, n_attributes, rng.integers(0, 2)).tolist()
                lists.append([*of_first[t - m], *of_last[t], *own] if m <= t else [])
    pointer = np.cumsum([0, *map(len, lists)]).astype(np.int64)
    return Incidence(pointer, np.array([a for ids in lists for a in ids], dtype=np.int32))


@st.composite
def segment_objectives(
    draw: st.DrawFn, criteria: tuple[str, ...] = ("cll", "softmax-margin"), longest: int = 4
) -> Objective:
    """A random training problem: all schemes and limits, with and without segment attributes, values, constraints."""
    scheme, rng = draw(schemes(longest)), np.random.default_rng(draw(seeds))
    spelt = [n for n in range(1, 7) if next(segmentations(scheme, n), None) is not None]
    lengths = draw(st.lists(st.sampled_from(spelt), min_size=1, max_size=8))
    offsets, n = np.cumsum([0, *lengths]).astype(np.int64), sum(lengths)
    structure = Segments(offsets, scheme)
    labels = structure.sample(random_scores(rng, n, scheme, segments=False), 1, rng)[0]
    pointer = np.concatenate([[0], np.cumsum(rng.integers(0, 4, n))]).astype(np.int64)
    ids = np.minimum(rng.zipf(1.4, int(pointer[-1])), 12).astype(np.int32) - 1
    tokens = EncodedCorpus(offsets, Incidence(pointer, ids, rng.normal(size=len(ids)) if draw(st.booleans()) else None))
    spans = random_spans(rng, lengths, scheme.n_lengths, 9) if draw(st.integers(0, 3)) else None
    corpus, gold, observed = EncodedSegments(tokens, spans, scheme.n_lengths), Gold(labels), ["observed", "all"]
    features = SegmentFeatures.collect(
        corpus, 12, 9, gold, scheme, draw(st.sampled_from(observed)),
        draw(st.sampled_from([*observed, "none"])), draw(st.sampled_from([*observed, "none"])),
    )  # fmt: skip
    penalties = SegmentPenalties.none(scheme)
    if draw(st.booleans()):
        found = structure.segments(labels)
        follows, cells = rng.random(penalties.transition.shape) < 0.6, rng.random(penalties.length.shape) < 0.8
        follows[found.labels[:-1], found.labels[1:]] = True
        cells[found.ends - found.starts - 1, found.labels] = True
        penalties.transition[~follows] = penalties.length[~cells] = -np.inf
    name, cost, y = draw(st.sampled_from(criteria)), None, scheme.n_token_labels
    if CRITERIA[name].uses_cost:
        cost = Cost(rng.random((4, y, y)) * (1 - np.eye(y)))
    weights = rng.random(len(lengths)) * 2 if draw(st.booleans()) else None
    l2 = draw(st.sampled_from([0.3, 1.0]))
    return Objective(features, corpus, gold, make_criterion(name, cost), penalties, l2, weights)
