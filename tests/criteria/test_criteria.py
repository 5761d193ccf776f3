"""Laws of the criteria on chains: how they bound each other, and everything about those made of a chain's pieces.

The local criteria have no other structure. Their referees are their definitions, over all labellings and contexts of
short random chains with constraints, edge scores, all orders and partial annotation, and finite differences for the
gradients; all other criteria have theirs in ``test_every_structure.py``.
"""

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from loglinear.criteria.costs import Cost
from loglinear.criteria.criterion import CRITERIA, criteria_of, make_criterion
from loglinear.errors import OptionError
from loglinear.structures.chain.structure import Chain
from problems.chain import problems
from referees.criteria import LOCAL

NAMES = sorted(criteria_of(Chain))
LOCAL_FORMS = (*LOCAL, "pseudolikelihood:nota")


def score_of(scores, first, labels):
    """Score of one labelling of the sequence that begins at ``first``, straight from the definition."""
    total = scores.start[labels[0]] + scores.stop[labels[-1]]
    for t, y in enumerate(labels):
        total += scores.emission[first + t, y]
        if t >= 1:
            total += scores.transition[labels[t - 1], y]
            if scores.edge is not None:
                row = (
                    labels[t - 1]
                    if t == 1 or not scores.has_deep_edges
                    else labels[t - 2] * scores.n_labels + labels[t - 1]
                )
                total += scores.edge[first + t, row, y]
        if t >= 2 and scores.trigram is not None:
            total += scores.trigram[labels[t - 2], labels[t - 1], y]
        if t >= 3 and scores.fourgram is not None:
            total += scores.fourgram[labels[t - 3], labels[t - 2], labels[t - 1], y]
    return total


def piece_of(scores, first, end, t, context, label):
    """Score of one piece, straight from the definition; ``t`` counts from ``first``."""
    value = scores.emission[first + t, label] + (scores.stop[label] if first + t == end - 1 else 0.0)
    if t == 0:
        return value + scores.start[label]
    value += scores.transition[context[-1], label]
    value += 0.0 if scores.edge is None else scores.edge[first + t, context[-1], label]
    value += scores.trigram[(*context[-2:], label)] if len(context) >= 2 else 0.0
    return value + (scores.fourgram[(*context, label)] if len(context) == 3 else 0.0)


def log_probability_by_pieces(scores, first, end, labels):
    """sum_t log p(label of t given its context): an MEMM's log-probability of a labelling."""
    total = 0.0
    for t, label in enumerate(labels):
        context = labels[max(0, t - scores.order) : t]
        rows = [piece_of(scores, first, end, t, context, y) for y in range(scores.n_labels)]
        if rows[label] == -np.inf:
            return -np.inf
        total += rows[label] - logsumexp(rows)
    return total


def contexts_that_count(gold, first, t, depth, n_labels):
    """Contexts of position ``first + t`` that the annotation allows or has marked."""
    for context in product(range(n_labels), repeat=depth):
        places = range(first + t - depth, first + t)
        right = all(allowed_at(gold, place, label) for place, label in zip(places, context, strict=True))
        if right or depth == 0 or gold.contexts is None:
            yield context
        else:
            table = gold.contexts[first + t - 1]
            if table[(*(0,) * (table.ndim - depth), *context)]:
                yield context


def around(labels, t, label, places, neighbours):
    """A labelling with another label at ``t`` and others at ``places``."""
    changed = list(labels)
    for place, other in zip((t, *places), (label, *neighbours), strict=True):
        changed[place] = other
    return changed


def touching(scores, first, labels, t):
    """Score of those parts of a labelling that position ``t`` (from ``first``) is in, straight from the definition."""
    last = len(labels) - 1
    total = scores.emission[first + t, labels[t]]
    total += scores.start[labels[0]] if t == 0 else 0.0
    total += scores.stop[labels[-1]] if t == last else 0.0
    for s in (t, t + 1):
        if 1 <= s <= last:
            total += scores.transition[labels[s - 1], labels[s]]
            total += 0.0 if scores.edge is None else scores.edge[first + s, labels[s - 1], labels[s]]
    for s in (t, t + 1, t + 2):
        if scores.trigram is not None and 2 <= s <= last:
            total += scores.trigram[labels[s - 2], labels[s - 1], labels[s]]
    return total


def local_loss(name, offsets, scores, gold):
    """Losses of the local criteria, straight from their definitions."""
    n, order = scores.n_labels, scores.order
    for first, end in pairwise(offsets.tolist()):
        y, total = gold.labels[first:end], 0.0
        labellings = list(product(range(n), repeat=end - first))
        fitting = [one for one in labellings if all(allowed_at(gold, first + t, label) for t, label in enumerate(one))]
        if name == "memm":
            yield -logsumexp([log_probability_by_pieces(scores, first, end, one) for one in fitting])
            continue
        if name == "nota":
            total = -logsumexp([score_of(scores, first, one) for one in fitting])
        for t in range(end - first):
            depth = min(t, order)
            contexts = list(product(range(n), repeat=depth))
            if name == "nota":
                for context in contexts_that_count(gold, first, t, depth, n):
                    total += logsumexp([0.0, *(piece_of(scores, first, end, t, context, label) for label in range(n))])
            elif name == "piecewise":
                fits = [
                    all(allowed_at(gold, first + t - depth + k, label) for k, label in enumerate((*c, label)))
                    for c in contexts
                    for label in range(n)
                ]
                values = np.array([piece_of(scores, first, end, t, c, label) for c in contexts for label in range(n)])
                total += logsumexp(values) - logsumexp(values[fits])
            elif name == "pseudolikelihood:nota":
                near = [s for s in range(max(0, t - order), min(end - first, t + order + 1)) if s != t]
                for neighbours in product(range(n), repeat=len(near)):
                    others = [around(y, t, label, near, neighbours) for label in range(n)]
                    values = [touching(scores, first, one, t) for one in others]
                    total += logsumexp([0.0, *values])
                    if all(y[s] == label for s, label in zip(near, neighbours, strict=True)):
                        total -= values[y[t]]
            else:  # pseudolikelihood
                others = [[*y[:t], label, *y[t + 1 :]] for label in range(n)]
                values = [score_of(scores, first, one) for one in others]
                total += logsumexp(values) - values[y[t]]
        yield total


def allowed_at(gold, position, label):
    return gold.labels[position] == label if gold.allowed is None else gold.allowed[position, label] > 0


def make(name, cost):
    return make_criterion(name, cost if CRITERIA.part(name).uses_cost else None)


def suits(name, gold, order=1):
    if order == 3 and name == "pseudolikelihood:nota":
        return False  # refused: too many neighbours
    return gold.allowed is None or CRITERIA.part(name).takes_partial


@pytest.mark.parametrize("name", LOCAL_FORMS)
@settings(max_examples=80)
@given(problem=problems())
def test_losses_equal_brute_force(name, problem):
    offsets, scores, gold, weights = problem.structure.offsets, problem.scores, problem.gold, problem.weights
    if not suits(name, gold, scores.order):
        return
    losses, _ = make(name, None).evaluate(Chain(offsets), scores, gold, weights)
    expected = list(local_loss(name, offsets, scores, gold))
    np.testing.assert_allclose(losses, weights * expected, rtol=1e-9, atol=1e-9)


@settings(max_examples=30)
@given(problem=problems(), scale=st.sampled_from([30.0, 400.0]))
def test_none_of_the_above_with_pseudolikelihood_for_any_scores(problem, scale):
    """Scores whose powers leave the range of floats."""
    if problem.gold.allowed is not None or problem.scores.order == 3:
        return
    offsets, scores, weights = problem.structure.offsets, problem.scores.times(scale), problem.weights
    losses, gradient = make("pseudolikelihood:nota", None).evaluate(Chain(offsets), scores, problem.gold, weights)
    expected = list(local_loss("pseudolikelihood:nota", offsets, scores, problem.gold))
    np.testing.assert_allclose(losses, weights * expected, rtol=1e-9, atol=1e-9)
    assert all(np.isfinite(array).all() for array in gradient.parts().values())


@pytest.mark.parametrize("name", LOCAL_FORMS)
@settings(max_examples=40)
@given(problem=problems())
def test_gradients_equal_finite_differences(name, problem):
    offsets, scores, gold, weights = problem.structure.offsets, problem.scores, problem.gold, problem.weights
    if not suits(name, gold, scores.order):
        return
    criterion, chain = make(name, None), Chain(offsets)
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
            assert getattr(gradient, part)[place] == pytest.approx((up - down) / (2 * step), abs=1e-5)


@pytest.mark.parametrize("name", [name for name in LOCAL_FORMS if CRITERIA.part(name).convex])
@settings(max_examples=80)
@given(problem=problems(), seed=st.integers(0, 2**32 - 1))
def test_convex_losses_lie_above_their_tangents(name, problem, seed):
    """loss(s') >= loss(s) + gradient . (s' - s): the law of (sub)gradients of convex functions."""
    offsets, scores, gold, weights = problem.structure.offsets, problem.scores, problem.gold, problem.weights
    if gold.allowed is not None or not suits(name, gold, scores.order):
        return  # with hidden labels the gold term is a difference of convex functions
    rng = np.random.default_rng(seed)
    criterion, chain = make(name, None), Chain(offsets)
    here, gradient = criterion.evaluate(chain, scores, gold, weights)
    moves = {part: rng.normal(size=array.shape) for part, array in scores.parts().items()}
    moved = replace(scores, **{part: array + moves[part] for part, array in scores.parts().items()})
    there, _ = criterion.evaluate(chain, moved, gold, weights)
    tangent = sum(float(np.sum(array * moves[part])) for part, array in gradient.parts().items())
    assert there.sum() >= here.sum() + tangent - 1e-9 * (1.0 + abs(here.sum()))


@settings(max_examples=60)
@given(problem=problems())
def test_the_criteria_bound_each_other(problem):
    offsets, scores, gold, weights = problem.structure.offsets, problem.scores, problem.gold, problem.weights
    chain = Chain(offsets)
    names = ["cll", "softmax-margin", "max-margin", "jrb", "risk"]
    loss = {name: make(name, problem.cost).evaluate(chain, scores, gold, weights)[0] for name in names}
    slack = 1e-9 * (1.0 + np.abs(loss["softmax-margin"]))
    assert (loss["softmax-margin"] >= loss["cll"] - slack).all()
    assert (loss["softmax-margin"] >= loss["jrb"] - slack).all()
    assert (loss["jrb"] >= loss["risk"] - slack).all()  # Jensen
    np.testing.assert_allclose(loss["cll"] + loss["jrb"], loss["softmax-margin"], rtol=1e-9, atol=1e-9)
    if gold.allowed is None:
        assert (loss["softmax-margin"] >= loss["max-margin"] - slack).all()


@settings(max_examples=80)
@given(problem=problems())
def test_the_local_criteria_bound_likelihoods(problem):
    """Products of sums have all terms of a sum of products, and more: for any scores, constraints and all orders."""
    offsets, scores, gold, weights = problem.structure.offsets, problem.scores, problem.gold, problem.weights
    chain = Chain(offsets)
    names = [name for name in ("cll", *LOCAL) if suits(name, gold)]
    loss = {name: make(name, None).evaluate(chain, scores, gold, weights)[0] for name in names}
    slack = 1e-9 * (1.0 + np.abs(loss["nota"]))
    assert (loss["nota"] >= loss["cll"] - slack).all()
    assert (loss["memm"] >= -slack).all() and (loss["cll"] >= -slack).all()
    if gold.allowed is None:
        assert (loss["piecewise"] >= loss["cll"] - slack).all()
        assert (loss["piecewise"] >= loss["memm"] - slack).all()
        assert (loss["nota"] >= loss["memm"] - slack).all()
        if scores.order < 3:
            both = make("pseudolikelihood:nota", None).evaluate(chain, scores, gold, weights)[0]
            assert (both >= loss["pseudolikelihood"] - slack).all()
        single = np.diff(offsets) == 1  # nothing to condition on: all but nota are one logistic regression
        for name in ("memm", "piecewise", "pseudolikelihood"):
            np.testing.assert_allclose(loss[name][single], loss["cll"][single], atol=1e-9)


@settings(max_examples=60)
@given(problem=problems())
def test_without_cost_softmax_margin_is_cll_and_max_margin_the_perceptron(problem):
    offsets, scores, gold, weights = problem.structure.offsets, problem.scores, problem.gold, problem.weights
    chain, nothing = Chain(offsets), Cost(np.zeros((4, scores.n_labels, scores.n_labels)))
    softmax, softmax_gradient = make("softmax-margin", nothing).evaluate(chain, scores, gold, weights)
    cll, cll_gradient = make("cll", None).evaluate(chain, scores, gold, weights)
    np.testing.assert_allclose(softmax, cll, atol=1e-12)
    for part, array in cll_gradient.parts().items():
        np.testing.assert_allclose(getattr(softmax_gradient, part), array, atol=1e-12)
    hinge, _ = make("max-margin", nothing).evaluate(chain, scores, gold, weights)
    if gold.allowed is None:
        perceptron = chain.viterbi(scores)[1] - chain.score(scores, gold.labels)
        np.testing.assert_allclose(hinge, weights * perceptron, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_every_criterion_declares_what_it_is_and_needs(name):
    criterion = CRITERIA.part(name)
    assert criterion.summary and isinstance(criterion.convex, bool)
    assert isinstance(criterion.needs, tuple) and all(hasattr(Chain, operation) for operation in criterion.needs)
    assert criterion.starts_from is None or criterion.starts_from in NAMES


def test_an_unknown_criterion_lists_those_there_are():
    with pytest.raises(OptionError, match=r"there are: .*cll"):
        CRITERIA.part("clll")


def test_costs_go_with_the_criteria_that_use_them():
    cost = Cost(np.zeros((4, 2, 2)))
    with pytest.raises(OptionError, match="takes no cost"):
        make_criterion("cll", cost)
    with pytest.raises(OptionError, match="needs a cost"):
        make_criterion("risk")
