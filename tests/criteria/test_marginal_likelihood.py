"""Laws of marginal likelihood beyond those of every criterion: improbable labels, and how it bounds likelihood."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from loglinear.criteria.brackets import Brackets
from loglinear.criteria.criterion import criteria_of, make_criterion
from loglinear.criteria.marginal_likelihood import SMALL
from loglinear.structures.chain.structure import Chain, ChainScores
from loglinear.structures.gold import Gold
from problems.problem import arrays_of, seeds
from referees.enumeration import gold_of
from referees.structures import STRUCTURES

FLOORS = [floor for floor, each in STRUCTURES.items() if "marginal-likelihood" in criteria_of(each.structure)]


def evaluate(problem, name="marginal-likelihood"):
    criterion = make_criterion(name)
    if isinstance(problem.cost, Brackets):
        criterion = criterion.for_brackets(problem.cost)
    return criterion.evaluate(problem.structure, problem.scores, problem.gold, problem.weights)


def fits_at(one, problem, s):
    """Whether each labelling has what is right at each position; of trees, at each gold bracket."""
    gold = gold_of(problem.structure, problem.gold, s)
    return one.right_brackets(gold, problem.cost) if isinstance(problem.cost, Brackets) else one.fits_at(gold)


def scaled(problem, factor):
    """The problem with all its scores times the factor."""
    arrays = arrays_of(problem.scores).items()
    return replace(problem, scores=replace(problem.scores, **{name: factor * array for name, array in arrays}))


def sums_of(floor, problem):
    """sum_t log p_t [S] of what the annotation allows at each position, by logarithms alone."""
    sums = []
    for s, one in enumerate(STRUCTURES[floor].referee.referees(problem.structure, problem.scores)):
        fits = np.asarray(fits_at(one, problem, s), dtype=float)
        sums.append(sum(logsumexp(one.values, b=column) - one.log_z for column in fits.T))
    return np.array(sums)


def test_all_structures_have_it():
    assert FLOORS == ["arcs", "chain", "flat", "segments", "tree"]


@pytest.mark.parametrize("floor", FLOORS)
@settings(max_examples=40)
@given(data=st.data(), seed=seeds)
def test_improbable_labels_have_exact_losses_and_gradients(floor, data, seed):
    """Scores so large that the right labels' probabilities lie below what marginals can tell from zero."""
    problem = scaled(data.draw(STRUCTURES[floor].problems.problems()), 40.0)
    losses, gradient = evaluate(problem)
    np.testing.assert_allclose(losses, -problem.weights * sums_of(floor, problem), rtol=1e-9, atol=1e-7)
    rng, arrays, step = np.random.default_rng(seed), arrays_of(problem.scores), 1e-4
    for part, array in arrays.items():
        for place in rng.permutation(array.size)[:6]:
            value, found = array.flat[place], []
            if not np.isfinite(value):
                assert arrays_of(gradient)[part].flat[place] == 0.0
                continue
            for moved in (value + step, value - step):
                array.flat[place] = moved
                found.append(problem.weights @ sums_of(floor, problem))
            array.flat[place] = value
            slope = -(found[0] - found[1]) / (2 * step)
            assert arrays_of(gradient)[part].flat[place] == pytest.approx(slope, abs=1e-4, rel=1e-4)


def test_an_impossible_label_beside_improbable_ones():
    """By hand: labels with log-probabilities of -800 and -30, and one that cannot be."""
    emission = np.array([[0.0, -800.0], [0.0, -30.0], [0.0, -np.inf], [0.0, 0.0]])
    scores = ChainScores(emission, np.zeros((2, 2)), np.zeros(2), np.zeros(2))
    gold = Gold(np.array([1, 1, 1, 1], dtype=np.int32))
    criterion, expected = make_criterion("marginal-likelihood"), np.array([[1, -1], [1, -1], [0, 0], [0.5, -0.5]])
    assert np.exp(-30.0) < SMALL
    losses, gradient = criterion.evaluate(Chain([0, 2, 4]), scores, gold, np.ones(2))
    assert losses == pytest.approx([830.0, np.inf])
    np.testing.assert_allclose(gradient.emission, expected, atol=1e-12)
    losses, gradient = criterion.evaluate(Chain([0, 4]), scores, gold, np.ones(1))
    assert losses == pytest.approx([np.inf])
    np.testing.assert_allclose(gradient.emission, expected, atol=1e-12)


@pytest.mark.parametrize("floor", FLOORS)
@settings(max_examples=40)
@given(data=st.data())
def test_it_is_at_most_the_number_of_positions_times_the_likelihood(floor, data):
    """p(y*) <= p(y*_t), and likewise of all labellings that the annotation allows; of trees, p(y*) <= p(bracket)."""
    problem = data.draw(STRUCTURES[floor].problems.problems())
    sizes = np.diff(problem.structure.offsets)
    if floor == "tree":  # whatever annotation allows beside the tree, its own brackets are right
        problem = replace(problem, gold=Gold(problem.gold.labels))
        own = STRUCTURES[floor].referee.referees(problem.structure, problem.scores)
        sizes = np.array([fits_at(one, problem, s).shape[1] for s, one in enumerate(own)])
    losses, likelihood = evaluate(problem)[0], evaluate(problem, "cll")[0]
    bound = sizes * likelihood
    assert (losses <= bound + 1e-9 * (1.0 + np.abs(bound))).all()


@settings(max_examples=40)
@given(data=st.data())
def test_without_transitions_it_is_the_likelihood(data):
    problem = data.draw(STRUCTURES["chain"].problems.problems())
    apart = problem.scores.zeros_like()
    apart.emission[:] = problem.scores.emission
    apart.start[:], apart.stop[:] = problem.scores.start, problem.scores.stop
    problem = replace(problem, scores=apart)
    (losses, gradient), (likelihood, expected) = evaluate(problem), evaluate(problem, "cll")
    np.testing.assert_allclose(losses, likelihood, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(gradient.emission, expected.emission, rtol=1e-9, atol=1e-9)
