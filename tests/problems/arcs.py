"""Random batches and problems of dependency trees."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from loglinear.criteria.costs import HeadCost
from loglinear.structures.arcs.structure import ArcScores, ArcTree, NonProjectiveTree, ProjectiveTree, arc_offsets
from problems.problem import Problem, annotated, possible_labels, seeds
from referees.arcs import referees

KINDS = {True: ProjectiveTree, False: NonProjectiveTree}


def random_scores(
    rng: np.random.Generator, structure: ArcTree, scale: float = 1.0, gaps: tuple[float, ...] = ()
) -> ArcScores:
    """Normal scores times ``scale``, of each sentence a share ``gaps`` [S] -inf; all have a tree that is possible."""
    scores = ArcScores(scale * rng.normal(size=arc_offsets(structure.offsets)[-1]), structure.offsets)
    for s, share in enumerate(gaps):
        block = scores.block(s)
        block[rng.random(block.shape) < share] = -np.inf
        for _ in range(20):
            if referees(structure, scores)[s].feasible:
                break
            block[rng.integers(len(block))] = 0.0
        else:
            block[:] = 0.0
    return scores


@st.composite
def batches(draw: st.DrawFn, impossible: bool = True) -> tuple[ArcTree, ArcScores]:
    """A few short sentences, projective or not, with one root or any number, with and without ``impossible`` arcs."""
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    structure = KINDS[draw(st.booleans())](np.cumsum([0, *lengths]), draw(st.booleans()))
    rng, scale = np.random.default_rng(draw(seeds)), draw(st.sampled_from([0.0, 1.0, 5.0, 40.0]))
    gaps = tuple(0.15 * (impossible and draw(st.booleans())) for _ in lengths)
    return structure, random_scores(rng, structure, scale, gaps)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Projective or not, with one root or any number, with and without impossible arcs and partial trees."""
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    structure = KINDS[draw(st.booleans())](np.cumsum([0, *lengths]), draw(st.booleans()))
    rng, share = np.random.default_rng(draw(seeds)), draw(st.sampled_from([0.0, 0.15]))
    scores = random_scores(rng, structure, gaps=(share,) * len(lengths))
    heads = possible_labels(rng, referees(structure, scores))
    gold = annotated(rng, heads, max(lengths) + 1, draw(st.booleans()))
    return Problem(structure, scores, gold, rng.random(len(lengths)) + 0.1, HeadCost(draw(st.sampled_from([0.7, 3.0]))))
