"""Every criterion whose operations segments have runs over them unchanged, and keeps its laws.

The referees are the enumeration of all segmentations for the losses and finite differences for the gradients.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from loglinear.criteria.costs import Cost
from loglinear.criteria.criterion import CRITERIA, criteria_of, make_criterion
from loglinear.structures.gold import Gold
from loglinear.structures.segments.structure import Segments
from problems.segments import batches
from referees.segments import referees

NOT_HERE = {"hmm", "pseudolikelihood"}  # they ask for no operation, but are made for chains
NAMES = sorted(set(criteria_of(Segments)) - NOT_HERE)

# What each criterion is, over scores s and costs c of all segmentations, and a mask of those the annotation allows.
BRUTE_FORCE = {
    "cll": lambda s, c, fits: logsumexp(s) - logsumexp(s[fits]),
    "softmax-margin": lambda s, c, fits: logsumexp(s + c) - logsumexp(s[fits]),
    "max-margin": lambda s, c, fits: max(s + c) - max(s[fits]),
    "jrb": lambda s, c, fits: logsumexp(s + c) - logsumexp(s),
    "risk": lambda s, c, fits: float(np.exp(s - logsumexp(s)) @ c),
    "m-estimation": lambda s, c, fits: np.exp(-s[fits]).sum(),
    "perceptron": lambda s, c, fits: max(s) - max(s[fits]),
    "mira": lambda s, c, fits: max(s + c) - max(s[fits]),
    "passive-aggressive": lambda s, c, fits: max(s) - max(s[fits]) + np.sqrt(c[np.argmax(s)]),
}


@st.composite
def problems(draw):
    """Segments, their scores, an annotation, weights and a cost; None if a sequence has no possible segmentation."""
    segments, scores = draw(batches())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    for part in scores.parts().values():  # small, and without ties
        finite = ~np.isneginf(part)
        part[finite] = np.tanh(part[finite]) + 0.1 * rng.normal(size=part.shape)[finite]
    if draw(st.booleans()):  # constraints, whatever they leave
        scores.transition[rng.random(scores.transition.shape) < 0.2] = -np.inf
    brute = referees(segments, scores)
    if not brute or not all(one.feasible for one in brute):
        return None
    chosen = [one.labellings[rng.choice(np.flatnonzero(one.values > -np.inf))] for one in brute]
    labels = np.concatenate(chosen).astype(np.int32)
    gold, n = Gold(labels), segments.scheme.n_token_labels
    if draw(st.booleans()):
        allowed = (rng.random(scores.emission.shape) < 0.5).astype(np.uint8)
        allowed[np.arange(segments.n_positions), labels] = 1
        gold = Gold(np.where(allowed.sum(axis=1) == 1, labels, -1).astype(np.int32), allowed)
    table = rng.random((4, n, n)) * (1.0 - np.eye(n))
    return segments, scores, gold, rng.random(segments.n_sequences) + 0.1, Cost(table)


def make(name, cost):
    return make_criterion(name, cost if CRITERIA[name].uses_cost else None)


def suits(name, problem):
    return problem is not None and (problem[2].allowed is None or CRITERIA[name].takes_partial)


def test_every_criterion_has_a_referee():
    assert set(BRUTE_FORCE) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=50)
@given(problem=problems())
def test_losses_equal_brute_force(name, problem):
    if not suits(name, problem):
        return
    segments, scores, gold, weights, cost = problem
    losses, _ = make(name, cost).evaluate(segments, scores, gold, weights)
    costs, expected = cost.at(gold, segments.offsets), []
    for first, one in zip(segments.offsets.tolist(), referees(segments, scores), strict=False):
        rows = [np.arange(len(labels)) + first for labels in one.labellings]
        c = np.array([costs[row, labels].sum() for row, labels in zip(rows, one.labellings, strict=True)])
        if gold.allowed is None:
            fits = [(gold.labels[row] == labels).all() for row, labels in zip(rows, one.labellings, strict=True)]
        else:
            fits = [gold.allowed[row, labels].all() for row, labels in zip(rows, one.labellings, strict=True)]
        expected.append(BRUTE_FORCE[name](one.values, c, np.array(fits)))
    np.testing.assert_allclose(losses, weights * expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", [name for name in NAMES if CRITERIA[name].smooth])
@settings(max_examples=25)
@given(problem=problems())
def test_gradients_equal_finite_differences(name, problem):
    if not suits(name, problem):
        return
    segments, scores, gold, weights, cost = problem
    criterion = make(name, cost)
    _, gradient = criterion.evaluate(segments, scores, gold, weights)
    assert gradient.parts().keys() == scores.parts().keys()
    for part, array in scores.parts().items():
        places = list(np.ndindex(array.shape))
        for place in places[:: max(1, len(places) // 25)]:
            value, losses = array[place], []
            if not np.isfinite(value):
                assert getattr(gradient, part)[place] == 0.0
                continue
            for step in (1e-5, -1e-5):
                array[place] = value + step
                losses.append(criterion.evaluate(segments, scores, gold, weights)[0].sum())
            array[place] = value
            slope = (losses[0] - losses[1]) / 2e-5
            assert getattr(gradient, part)[place] == pytest.approx(slope, abs=1e-5, rel=1e-5)


@pytest.mark.parametrize("name", [name for name in NAMES if CRITERIA[name].convex])
@settings(max_examples=40)
@given(problem=problems(), seed=st.integers(0, 2**32 - 1))
def test_convex_losses_lie_above_their_tangents(name, problem, seed):
    """loss(s') >= loss(s) + gradient . (s' - s): the law of (sub)gradients of convex functions."""
    if problem is None or problem[2].allowed is not None:
        return  # with partial labels the gold term is a difference of convex functions
    segments, scores, gold, weights, cost = problem
    rng, criterion = np.random.default_rng(seed), make(name, cost)
    here, gradient = criterion.evaluate(segments, scores, gold, weights)
    moves = {part: rng.normal(size=array.shape) for part, array in scores.parts().items()}
    moved = replace(scores, **{part: array + moves[part] for part, array in scores.parts().items()})
    there, _ = criterion.evaluate(segments, moved, gold, weights)
    tangent = sum(float(np.sum(array * moves[part])) for part, array in gradient.parts().items())
    assert there.sum() >= here.sum() + tangent - 1e-9 * (1.0 + abs(here.sum()))


@pytest.mark.parametrize("name", [name for name in NAMES if "online" in CRITERIA[name].optimizers])
@settings(max_examples=25)
@given(problem=problems())
def test_online_learners_propose_labellings_that_differ_from_the_right_one(name, problem):
    if not suits(name, problem):
        return
    segments, scores, gold, _, cost = problem
    first, end = segments.offsets[:2].tolist()
    segment = None if scores.segment is None else scores.segment[first:end]
    own = replace(scores, emission=scores.emission[first:end], segment=segment)
    one = Segments([0, end - first], segments.scheme)
    proposal = make(name, cost).propose(one, own, gold.slice(first, end))
    assert (proposal.wrong != proposal.right).any(axis=1).all()
    for wrong in proposal.wrong:
        assert one.score(own, wrong)[0] > -np.inf
