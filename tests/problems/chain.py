"""Random batches and training problems of chains."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from loglinear.criteria.costs import Cost
from loglinear.criteria.criterion import CRITERIA, make_criterion
from loglinear.features.encoding import EncodedCorpus, Incidence
from loglinear.optimizers.objective import Objective
from loglinear.structures.chain.features import ChainFeatures, Penalties
from loglinear.structures.chain.structure import Chain, ChainScores
from loglinear.structures.gold import Gold
from problems.problem import Problem, annotated, possible_labels, seeds, without_gaps
from referees.chain import referees


def random_scores(
    rng: np.random.Generator, n: int, y: int, order: int = 1, edges: bool = False, scale: float = 2.0, gaps: float = 0.0
) -> ChainScores:
    """Normal scores times ``scale``, a share ``gaps`` of them -inf."""

    def part(*shape: int) -> np.ndarray:
        values = rng.normal(size=shape) * scale
        values[rng.random(shape) < gaps] = -np.inf
        return values

    edge = part(n, y, y) if edges else None
    nodes, trigram = (part(n, y), part(y, y), part(y), part(y)), part(y, y, y) if order > 1 else None
    return ChainScores(*nodes, edge, trigram, part(y, y, y, y) if order > 2 else None)


@st.composite
def batches(
    draw: st.DrawFn, gaps: tuple[float, ...] = (0.0, 0.1, 0.3), orders: tuple[int, ...] = (1, 2, 3), deep: bool = False
) -> tuple[Chain, ChainScores]:
    """A few short sequences, with and without -inf, forced labels, edges and trigrams; if ``deep`` edges of three."""
    y, lengths = draw(st.integers(1, 4)), draw(st.lists(st.integers(1, 5), min_size=0, max_size=3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    order, edges = draw(st.sampled_from(orders)), draw(st.booleans())
    scale = draw(st.sampled_from([0.0, 2.0, 60.0, 500.0]))
    scores = random_scores(rng, sum(lengths), y, order, edges, scale, draw(st.sampled_from(gaps)))
    if deep and edges and order == 3:
        scores = replace(scores, edge=rng.normal(size=(sum(lengths), y * y, y)) * scale)
    chain = Chain(np.cumsum([0, *lengths]))
    if draw(st.booleans()):
        allowed = np.ones((chain.n_positions, y), np.uint8)
        for t in range(0, chain.n_positions, 3):
            allowed[t] = np.arange(y) == rng.integers(y)
        scores = chain.restrict(scores, allowed)
    return chain, scores


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """All orders, with and without edges, constraints and partial labels."""
    rng, y = np.random.default_rng(draw(seeds)), draw(st.integers(1, 3))
    order, edges = draw(st.sampled_from([1, 2, 3])), draw(st.booleans())
    lengths = draw(st.lists(st.integers(1, 5 if order == 3 else 4), min_size=1, max_size=3))
    chain = Chain(np.cumsum([0, *lengths]))
    scores = random_scores(rng, chain.n_positions, y, order, edges, scale=1.0)
    if draw(st.booleans()):
        scores.transition[rng.random((y, y)) < 0.3] = -np.inf
    brute = referees(chain, scores)
    if not all(one.feasible for one in brute):
        scores = without_gaps(scores)
        brute = referees(chain, scores)
    gold = annotated(rng, possible_labels(rng, brute), y, draw(st.booleans()))
    table = rng.random((4, y, y)) * draw(st.sampled_from([1.0, 5.0])) * (1.0 - np.eye(y))
    return Problem(chain, scores, gold, rng.random(len(lengths)) + 0.1, Cost(table))


FEW_LABELS = st.integers(1, 11)


@st.composite
def chain_objectives(draw, orders=(1,), edges=False, labels=FEW_LABELS, criteria=("cll", "softmax-margin")):
    """A random problem with few attributes, so that some of them have long rows and some short lists."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_labels = draw(labels)
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=8))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    n = int(offsets[-1])
    counts = rng.integers(0, 5, n)
    pointer = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    n_attributes = 12
    ids = np.minimum(rng.zipf(1.4, int(pointer[-1])), n_attributes).astype(np.int32) - 1
    values = rng.normal(size=len(ids)) if draw(st.booleans()) else None
    state = Incidence(pointer, ids, values)
    corpus = EncodedCorpus(offsets, state, state if edges and draw(st.booleans()) else None)
    labels = rng.integers(0, n_labels, n).astype(np.int32)
    penalties = Penalties.none(n_labels)
    if draw(st.booleans()):
        ruled_out = rng.random((n_labels, n_labels)) < 0.4
        ruled_out[labels[:-1], labels[1:]] = False
        penalties = Penalties(np.where(ruled_out, -np.inf, 0.0), np.zeros(n_labels), np.zeros(n_labels))
    kinds = st.sampled_from(["observed", "all"])
    features = ChainFeatures.collect(
        corpus, n_attributes, Gold(labels), n_labels, draw(st.sampled_from(orders)), draw(kinds),
        draw(st.sampled_from(["observed", "all", "none"])),
    )  # fmt: skip
    name, cost = draw(st.sampled_from(criteria)), None
    if CRITERIA[name].uses_cost:
        cost = Cost(rng.random((4, n_labels, n_labels)) * (1 - np.eye(n_labels)))
    criterion = make_criterion(name, cost)
    weights = rng.random(len(lengths)) * 2 if draw(st.booleans()) else None
    return Objective(features, corpus, Gold(labels), criterion, penalties, draw(st.sampled_from([0.3, 1.0])), weights)
