"""Laws of every criterion in the registry: a new one is tested the day it appears.

The referee is brute force: all labellings of short random chains, with constraints, edge scores, both orders and
partial annotation; and finite differences for the gradients.
"""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from loglinear.criteria.criterion import criteria, criterion_named
from loglinear.errors import OptionError
from loglinear.structures.chain import Chain, ChainScores
from loglinear.structures.gold import Gold

NAMES = sorted(criteria())


@st.composite
def problems(draw):
    """A chain batch, its scores and an annotation that has at least one possible labelling."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_labels = draw(st.integers(1, 3))
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    n = int(offsets[-1])
    labels = rng.integers(0, n_labels, n).astype(np.int32)
    transition = rng.normal(size=(n_labels, n_labels))
    if draw(st.booleans()):  # constraints that leave the gold labelling possible
        ruled_out = rng.random((n_labels, n_labels)) < 0.3
        ruled_out[labels[:-1], labels[1:]] = False
        transition[ruled_out] = -np.inf
    scores = ChainScores(
        emission=rng.normal(size=(n, n_labels)),
        transition=transition,
        start=rng.normal(size=n_labels),
        stop=rng.normal(size=n_labels),
        edge=rng.normal(size=(n, n_labels, n_labels)) if draw(st.booleans()) else None,
        trigram=rng.normal(size=(n_labels,) * 3) if draw(st.booleans()) else None,
    )
    gold = Gold(labels)
    if draw(st.booleans()):
        allowed = (rng.random((n, n_labels)) < 0.5).astype(np.uint8)
        allowed[np.arange(n), labels] = 1
        settled = np.where(allowed.sum(axis=1) == 1, labels, -1).astype(np.int32)
        gold = Gold(settled, allowed)
    return offsets, scores, gold, rng.random(len(lengths)) + 0.1


def score_of(scores, first, labels):
    """Score of one labelling of the sequence that begins at ``first``, straight from the definition."""
    total = scores.start[labels[0]] + scores.stop[labels[-1]]
    for t, y in enumerate(labels):
        total += scores.emission[first + t, y]
        if t >= 1:
            total += scores.transition[labels[t - 1], y]
            if scores.edge is not None:
                total += scores.edge[first + t, labels[t - 1], y]
        if t >= 2 and scores.trigram is not None:
            total += scores.trigram[labels[t - 2], labels[t - 1], y]
    return total


def enumerated(offsets, scores, gold):
    """For each sequence: scores of all labellings, and which of them the annotation allows."""
    n_labels = scores.emission.shape[1]
    for first, end in pairwise(offsets):
        labellings = list(product(range(n_labels), repeat=int(end - first)))
        if gold.allowed is not None:
            fits = [all(gold.allowed[first + t, y] for t, y in enumerate(one)) for one in labellings]
        else:
            fits = [one == tuple(gold.labels[first:end]) for one in labellings]
        yield np.array([score_of(scores, first, one) for one in labellings]), np.array(fits)


BRUTE_FORCE = {"cll": lambda scores, fits: logsumexp(scores) - logsumexp(scores[fits])}


def test_every_criterion_has_a_referee():
    assert set(BRUTE_FORCE) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=80)
@given(problem=problems())
def test_losses_equal_brute_force(name, problem):
    offsets, scores, gold, weights = problem
    losses, _ = criterion_named(name).evaluate(Chain(offsets), scores, gold, weights)
    expected = [BRUTE_FORCE[name](s, fits) for s, fits in enumerated(offsets, scores, gold)]
    np.testing.assert_allclose(losses, weights * expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40)
@given(problem=problems())
def test_gradients_equal_finite_differences(name, problem):
    offsets, scores, gold, weights = problem
    criterion, chain = criterion_named(name), Chain(offsets)
    _, gradient = criterion.evaluate(chain, scores, gold, weights)
    step = 1e-5
    for part, array in scores.parts().items():
        for place in np.ndindex(array.shape):
            if not np.isfinite(array[place]):
                assert getattr(gradient, part)[place] == 0.0
                continue
            value = array[place]
            array[place] = value + step
            up = criterion.evaluate(chain, scores, gold, weights)[0].sum()
            array[place] = value - step
            down = criterion.evaluate(chain, scores, gold, weights)[0].sum()
            array[place] = value
            assert getattr(gradient, part)[place] == pytest.approx((up - down) / (2 * step), abs=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_every_criterion_declares_what_it_is_and_needs(name):
    criterion = criterion_named(name)
    assert criterion.summary and isinstance(criterion.convex, bool)
    assert criterion.needs and all(hasattr(Chain, operation) for operation in criterion.needs)


def test_an_unknown_criterion_lists_those_there_are():
    with pytest.raises(OptionError, match=r"there are: .*cll"):
        criterion_named("clll")
