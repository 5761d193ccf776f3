"""Laws of the operations that every structure has, against its referee, by the table of structures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from loglinear.errors import InfeasibleError
from problems.problem import arrays_of, seeds
from referees.enumeration import gold_of
from referees.structures import STRUCTURES

every = pytest.mark.parametrize("floor", STRUCTURES)
few = settings(max_examples=25)
COVARIANT = [name for name, each in STRUCTURES.items() if hasattr(each.structure, "cost_covariance")]


def referees_of(data: st.DataObject, floor: str):
    """A problem and the enumeration of each of its examples."""
    problem = data.draw(STRUCTURES[floor].problems.problems())
    return problem, STRUCTURES[floor].referee.referees(problem.structure, problem.scores)


def moved(costs, rng: np.random.Generator):
    """Costs of choices at positions [N, ...], or of parts, with a random number added to each."""
    if isinstance(costs, np.ndarray):
        return costs + rng.normal(size=costs.shape)
    arrays = arrays_of(costs).items()
    return replace(costs, **{name: array + rng.normal(size=array.shape) for name, array in arrays})


def close(found, expected) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def close_parts(found, expected) -> None:
    """The arrays that ``found`` has; referees have those that are optional too."""
    for name, array in arrays_of(found).items():
        np.testing.assert_allclose(array, arrays_of(expected)[name], rtol=1e-8, atol=1e-8, err_msg=name)


@every
@few
@given(data=st.data())
def test_scores_and_best_labellings(floor, data):
    problem, brute = referees_of(data, floor)
    labels, best = problem.structure.viterbi(problem.scores)
    close(best, [one.best() for one in brute])
    close(problem.structure.score(problem.scores, labels), best)
    for (found, values), one in zip(problem.structure.k_best(problem.scores, 4), brute, strict=True):
        close(values, one.k_best(4))
        assert len({each.tobytes() for each in found}) == len(found)
        close([one.structure.score(one.scores, each)[0] for each in found], values)
    for one in brute:
        close([one.structure.score(one.scores, each)[0] for each in one.labels], one.values)


@every
@few
@given(data=st.data())
def test_sums_over_all_labellings(floor, data):
    problem, brute = referees_of(data, floor)
    close(problem.structure.log_partition(problem.scores), [one.log_partition() for one in brute])
    for one in brute:
        log_z, expected = one.structure.expectations(one.scores)
        close(log_z, [one.log_z])
        close_parts(expected, one.expectations())


@every
@few
@given(data=st.data())
def test_restricting_leaves_the_labellings_that_the_annotation_allows(floor, data):
    problem, brute = referees_of(data, floor)
    if problem.gold.allowed is None:
        return
    restricted = problem.structure.restrict(problem.scores, problem.gold.allowed)
    others = STRUCTURES[floor].referee.referees(problem.structure, restricted)
    for s, (one, other) in enumerate(zip(brute, others, strict=True)):
        fits = one.fits(gold_of(problem.structure, problem.gold, s))
        close(other.values, np.where(fits, one.values, -np.inf))


@every
@few
@given(data=st.data())
def test_an_example_without_a_possible_labelling_is_minus_infinity_or_named(floor, data):
    problem, _ = referees_of(data, floor)
    assume(problem.gold.allowed is not None)
    structure, allowed = problem.structure, problem.gold.allowed.copy()
    last = structure.n_sequences - 1
    allowed[structure.offsets[last] :] = 0
    scores = structure.restrict(problem.scores, allowed)
    others = STRUCTURES[floor].referee.referees(structure, scores)[:last]
    close(structure.log_partition(scores), [*(one.log_partition() for one in others), -np.inf])
    labels, _ = structure.viterbi(problem.scores)
    assert structure.score(scores, labels)[last] == -np.inf
    operations = [structure.viterbi, structure.expectations, lambda scores: structure.k_best(scores, 2)]
    if floor in COVARIANT:
        costs = problem.cost.at(problem.gold, structure.offsets)
        operations.append(lambda scores: structure.cost_covariance(scores, costs))
    for operation in operations:
        with pytest.raises(InfeasibleError) as caught:
            operation(scores)
        assert caught.value.sequence == last


@pytest.mark.parametrize("floor", COVARIANT)
@few
@given(data=st.data(), seed=seeds)
def test_covariances_with_a_cost(floor, data, seed):
    problem, brute = referees_of(data, floor)
    costs = problem.cost.at(problem.gold, problem.structure.offsets)
    costs = moved(costs, np.random.default_rng(seed))
    for s, one in enumerate(brute):
        own = one.costs_of(problem.structure, costs, s)
        mean, covariance = one.structure.cost_covariance(one.scores, own)
        expected_mean, expected = one.covariance(own)
        close(mean, [expected_mean])
        close_parts(covariance, expected)
