"""The referee of dependency trees: every assignment of heads of a short sentence that is a tree, scored one by one."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np

from loglinear.structures.arcs.structure import ArcScores, ArcTree, ProjectiveTree
from referees.enumeration import Enumeration, Functions, Labels

Heads = tuple[int, ...]  # the head of each token: 0 the root, h the token h


def is_tree(heads: Heads) -> bool:
    """Whether every token reaches the root."""
    for t in range(1, len(heads) + 1):
        now, steps = t, 0
        while now and steps <= len(heads):
            now, steps = heads[now - 1], steps + 1
        if now:
            return False
    return True


def crosses(heads: Heads) -> bool:
    """Whether two arcs cross, the root standing before the first token."""
    arcs = [(min(t, h), max(t, h)) for t, h in enumerate(heads, 1)]
    return any(a < c < b < d for (a, b), (c, d) in itertools.permutations(arcs, 2))


@cache
def trees(n: int, projective: bool, single_root: bool) -> list[Heads]:
    """All trees of n tokens."""
    found = []
    for heads in itertools.product(range(n + 1), repeat=n):
        if heads.count(0) != 1 and single_root:
            continue
        if is_tree(heads) and not (projective and crosses(heads)):
            found.append(heads)
    return found


def labellings(structure: ArcTree, scores: ArcScores) -> list[Heads]:
    """All trees of one sentence."""
    return trees(structure.n_positions, isinstance(structure, ProjectiveTree), structure.single_root)


def labels_of(structure: ArcTree, labelling: Heads) -> Labels:
    """The heads int32 [n]."""
    return np.array(labelling, dtype=np.int32)


def score(structure: ArcTree, scores: ArcScores, labelling: Heads) -> float:
    """Score of one tree of one sentence, straight from the definition."""
    arcs = scores.block(0)
    return float(sum(arcs[t, h] for t, h in enumerate(labelling)))


def blank(structure: ArcTree, scores: ArcScores) -> ArcScores:
    """Parts of zero."""
    return ArcScores(np.zeros(scores.arcs.shape), scores.offsets)


def add_parts(structure: ArcTree, parts: ArcScores, labelling: Heads, weight: float) -> None:
    """Add the weight to every arc of a tree."""
    parts.block(0)[np.arange(len(labelling)), labelling] += weight


def example(structure: ArcTree, s: int) -> ArcTree:
    """Sentence ``s`` alone."""
    return type(structure)([0, structure.offsets[s + 1] - structure.offsets[s]], structure.single_root)


def scores_of(structure: ArcTree, scores: ArcScores, s: int) -> ArcScores:
    """The scores of sentence ``s``."""
    arcs = scores.block(s)
    return ArcScores(arcs.ravel(), np.array([0, len(arcs)], dtype=np.int64))


class BruteForce(Enumeration):
    """All trees of one sentence with their scores."""

    of = Functions(labellings, labels_of, score, blank, add_parts, example, scores_of)


referees = BruteForce.of_batch
