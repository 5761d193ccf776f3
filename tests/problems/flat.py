"""Random batches and training problems of flat labels."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st

from loglinear.criteria.costs import Cost
from loglinear.criteria.criterion import make_criterion
from loglinear.optimizers.objective import Objective
from loglinear.structures.flat.features import BIASES, FlatCorpus, FlatFeatures
from loglinear.structures.flat.structure import Flat, FlatScores
from loglinear.structures.gold import Gold
from problems.problem import Problem, annotated, possible_labels, seeds
from referees.flat import referees

SMOOTH = ("cll", "softmax-margin")


def random_scores(rng: np.random.Generator, n: int, y: int, scale: float = 1.0, gaps: float = 0.0) -> FlatScores:
    """Normal scores times ``scale``, a share ``gaps`` of them -inf, but never that of label 0."""
    scores = rng.normal(size=(n, y)) * scale
    scores[(rng.random((n, y)) < gaps) & (np.arange(y) > 0)] = -np.inf
    return FlatScores(scores)


@st.composite
def batches(draw: st.DrawFn) -> tuple[Flat, FlatScores]:
    """A few examples, with and without labels that they cannot have."""
    rng, n, y = np.random.default_rng(draw(seeds)), draw(st.integers(1, 6)), draw(st.integers(1, 5))
    scale, gaps = draw(st.sampled_from([0.1, 3.0, 400.0])), draw(st.sampled_from([0.0, 0.3]))
    return Flat(n), random_scores(rng, n, y, scale, gaps)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """With and without labels that an example cannot have, and partial labels."""
    rng, n, y = np.random.default_rng(draw(seeds)), draw(st.integers(1, 4)), draw(st.integers(1, 5))
    flat, scores = Flat(n), random_scores(rng, n, y, gaps=draw(st.sampled_from([0.0, 0.3])))
    gold = annotated(rng, possible_labels(rng, referees(flat, scores)), y, draw(st.booleans()))
    table = rng.random((4, y, y)) * draw(st.sampled_from([1.0, 5.0])) * (1.0 - np.eye(y))
    return Problem(flat, scores, gold, rng.random(n) + 0.1, Cost(table))


def flat_objective(rows, labels, n_labels, criterion="cll", l2=0.5, bias="free", scale=1.0, table=None, **more):
    """An objective over rows; the cost is 1 for each wrong label unless there is a table [Y, Y]."""
    features = FlatFeatures(rows.shape[1], n_labels, bias, scale)
    costs = 1.0 - np.eye(n_labels) if table is None else table
    cost = None if criterion in ("cll", "perceptron", "least-squares") else Cost(np.repeat(costs[None], 4, axis=0))
    return Objective(
        features, FlatCorpus.of(rows), Gold(np.asarray(labels, dtype=np.int32)), make_criterion(criterion, cost), None,
        l2, n_penalised=features.n_penalised, **more,
    )  # fmt: skip


@st.composite
def flat_objectives(draw, criteria=SMOOTH, n_rows=None):
    """Sparse or dense, any bias, costs and weights."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, a, y = n_rows or draw(st.integers(1, 30)), draw(st.integers(1, 8)), draw(st.integers(1, 5))
    rows = rng.normal(size=(n, a)) * (rng.random((n, a)) < 0.6)
    if draw(st.booleans()):
        rows = sp.csr_matrix(rows)
    weights = rng.random(n) * 2 * (rng.random(n) < 0.9) if draw(st.booleans()) else None
    return flat_objective(
        rows, rng.integers(y, size=n), y, draw(st.sampled_from(criteria)), draw(st.sampled_from([0.1, 0.5, 3.0])),
        draw(st.sampled_from(BIASES)), draw(st.sampled_from([1.0, 2.0])),
        rng.random((y, y)) * 3 * (1 - np.eye(y)), sequence_weights=weights,
    )  # fmt: skip
