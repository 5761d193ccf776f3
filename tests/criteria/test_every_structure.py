"""Laws of every criterion over every structure that has the operations it needs, by both registries.

The referees are the enumeration of all labellings for the losses, and finite differences or tangents for the gradients.
Criteria made of the pieces of a chain have their laws in ``test_criteria.py``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

import loglinear.structures
from loglinear.criteria.brackets import Brackets
from loglinear.criteria.criterion import CRITERIA, CorpusCriterion, criteria_of, make_criterion, needed_operations
from problems.problem import Problem, arrays_of, seeds
from referees.criteria import BY_POSITION, DEFINITIONS, LOCAL, OF_CORPUS
from referees.enumeration import gold_of
from referees.structures import STRUCTURES

NOT_YET = [("tree", "passive-aggressive")]  # it looks costs up by position, and those of trees are of parts
CASES = [
    (floor, name)
    for floor, each in STRUCTURES.items()
    for name, criterion in criteria_of(each.structure).items()
    if not (floor == "arcs" and criterion.counts_labels)  # heads are not labels
]
GOLD_FREE = ("hmm", "jrb", "least-squares", "marginal-likelihood", "risk")  # finite though the gold is impossible


def over(wanted):
    """Parametrise over the structures and criteria that ``wanted(criterion)`` says yes to."""
    cases = [case for case in CASES if case[1] not in LOCAL and case not in NOT_YET]
    return pytest.mark.parametrize(("floor", "name"), [case for case in cases if wanted(CRITERIA.part(case[1]))])


def sums(criterion) -> bool:
    """Whether the loss of a batch is a sum over its examples."""
    return not issubclass(criterion, CorpusCriterion)


def problem_for(data: st.DataObject, floor: str, name: str, partial: bool = True) -> Problem:
    """A problem whose annotation the criterion takes; where it may not be partial, the best labelling instead."""
    problem = data.draw(STRUCTURES[floor].problems.problems())
    if problem.gold.allowed is None or (partial and CRITERIA.part(name).takes_partial):
        return problem
    restricted = problem.structure.restrict(problem.scores, problem.gold.allowed)
    return replace(problem, gold=replace(problem.gold, labels=problem.structure.viterbi(restricted)[0], allowed=None))


def criterion_for(name: str, problem: Problem):
    criterion = make_criterion(name, problem.cost if CRITERIA.part(name).uses_cost else None)
    if isinstance(problem.cost, Brackets):
        return criterion.for_brackets(problem.cost)
    if criterion.counts_labels:
        return criterion.for_labels(["O", *range(1, problem.cost.n_labels)])
    return criterion


def evaluate(name: str, problem: Problem, weights=None):
    """Losses [S] and the gradient's arrays by name."""
    factors = problem.weights if weights is None else weights
    losses, gradient = criterion_for(name, problem).evaluate(problem.structure, problem.scores, problem.gold, factors)
    return losses, arrays_of(gradient)


def defined(floor: str, name: str, problem: Problem) -> np.ndarray:
    """The losses [S] by the criterion's definition, without weights."""
    structure, referee = problem.structure, STRUCTURES[floor].referee
    costs, losses = problem.cost.at(problem.gold, structure.offsets), []
    for s, one in enumerate(referee.referees(structure, problem.scores)):
        if name in ("arow", "passive-aggressive"):  # of several best labellings, any may be the one whose cost counts
            assume(np.count_nonzero(one.values > one.values.max() - 1e-9) == 1)
        own_costs, fits = one.costs(one.costs_of(structure, costs, s)), one.fits(gold_of(structure, problem.gold, s))
        if name in BY_POSITION:
            own = gold_of(structure, problem.gold, s)
            fits_at = one.right_brackets(own, problem.cost) if floor == "tree" else one.fits_at(own)
            with np.errstate(divide="ignore"):
                losses.append(BY_POSITION[name](one.probabilities, fits_at))
            continue
        losses.append(DEFINITIONS[name](one.values, own_costs, fits))
    return np.array(losses)


def test_every_criterion_and_every_floor_has_a_referee():
    assert {*DEFINITIONS, *BY_POSITION, *LOCAL, *OF_CORPUS} == set(CRITERIA.all())
    floors = {path.parent.name for path in Path(loglinear.structures.__path__[0]).glob("*/structure.py")}
    assert floors == set(STRUCTURES)


def test_every_criterion_is_tested_over_some_structure_and_the_local_ones_over_chains_alone():
    assert {name for _, name in CASES} == set(CRITERIA.all())
    assert {floor for floor, name in CASES if name in (*LOCAL, "hmm")} == {"chain"}
    everywhere = {"cll", "softmax-margin", "max-margin", "jrb", "perceptron", "mira", "m-estimation"}
    assert all({(floor, name) for name in everywhere} <= set(CASES) for floor in STRUCTURES)


@over(sums)
@settings(max_examples=60)
@given(data=st.data())
def test_losses_equal_their_definition(floor, name, data):
    problem = problem_for(data, floor, name)
    losses, _ = evaluate(name, problem)
    np.testing.assert_allclose(losses, problem.weights * defined(floor, name, problem), rtol=1e-9, atol=1e-9)


@over(lambda criterion: True)
@settings(max_examples=30)
@given(data=st.data(), seed=seeds)
def test_gradients_equal_finite_differences(floor, name, data, seed):
    """Also of criteria with kinks: with scores at random there are almost surely none near by."""
    problem, rng = problem_for(data, floor, name), np.random.default_rng(seed)
    arrays, step = arrays_of(problem.scores), 1e-5
    if not CRITERIA.part(name).smooth:
        step = 1e-7
        for array in arrays.values():
            array += rng.normal(size=array.shape)
    _, gradient = evaluate(name, problem)
    assert gradient.keys() == arrays.keys()
    for part, array in arrays.items():
        for place in rng.permutation(array.size)[:25]:
            value, sums = array.flat[place], []
            if not np.isfinite(value):
                assert gradient[part].flat[place] == 0.0
                continue
            for moved in (value + step, value - step):
                array.flat[place] = moved
                sums.append(evaluate(name, problem)[0].sum())
            array.flat[place] = value
            slope = (sums[0] - sums[1]) / (2 * step)
            assert gradient[part].flat[place] == pytest.approx(slope, abs=1e-5, rel=1e-5)


@over(lambda criterion: criterion.convex)
@settings(max_examples=60)
@given(data=st.data(), seed=seeds)
def test_convex_losses_lie_above_their_tangents(floor, name, data, seed):
    """loss(s') >= loss(s) + gradient . (s' - s): the law of (sub)gradients of convex functions.

    With partial annotation the gold term makes it a difference of convex functions.
    """
    problem, rng = problem_for(data, floor, name, partial=False), np.random.default_rng(seed)
    here, gradient = evaluate(name, problem)
    arrays = arrays_of(problem.scores)
    moves = {part: rng.normal(size=array.shape) for part, array in arrays.items()}
    moved = replace(problem.scores, **{part: array + moves[part] for part, array in arrays.items()})
    there, _ = evaluate(name, replace(problem, scores=moved))
    tangent = sum(float(np.sum(array * moves[part])) for part, array in gradient.items())
    assert there.sum() >= here.sum() + tangent - 1e-9 * (1.0 + abs(here.sum()))


@over(sums)
@settings(max_examples=20)
@given(data=st.data())
def test_weights_scale_losses_and_gradients(floor, name, data):
    problem = problem_for(data, floor, name)
    losses, gradient = evaluate(name, problem)
    plain, _ = evaluate(name, problem, np.ones(len(losses)))
    np.testing.assert_allclose(losses, problem.weights * plain, rtol=1e-12, atol=1e-12)
    each = [evaluate(name, problem, row)[1] for row in np.diag(problem.weights)]  # one example at a time
    for part, array in gradient.items():
        np.testing.assert_allclose(array, sum(one[part] for one in each), rtol=1e-9, atol=1e-9)


@over(sums)
@settings(max_examples=25)
@given(data=st.data(), seed=seeds)
def test_a_gold_labelling_that_is_impossible_costs_an_infinity(floor, name, data, seed):
    problem, rng = problem_for(data, floor, name, partial=False), np.random.default_rng(seed)
    structure, scores = problem.structure, problem.scores
    parts = scores.zeros_like()
    structure.add_labelling(parts, problem.gold.labels, np.eye(structure.n_sequences)[0])
    places = [(part, place) for part, array in arrays_of(parts).items() for place in np.flatnonzero(array)]
    for part, place in rng.permutation(np.array(places, dtype=object)):
        array = arrays_of(scores)[part]
        value, array.flat[place] = array.flat[place], -np.inf
        if all(one.feasible for one in STRUCTURES[floor].referee.referees(structure, scores)):
            break
        array.flat[place] = value
    else:
        return  # an example has no labelling but this
    losses, gradient = evaluate(name, problem)
    assert losses[0] == np.inf or name in GOLD_FREE
    assert all(np.isfinite(array).all() for array in gradient.values())
    np.testing.assert_allclose(losses, problem.weights * defined(floor, name, problem), rtol=1e-9, atol=1e-9)


class Recorded:
    """A structure that records the operations that are looked up on it."""

    def __init__(self, structure):
        self.structure, self.called = structure, set()

    def __getattr__(self, name):
        if not name.startswith("_") and callable(getattr(type(self.structure), name, None)):
            self.called.add(name)
        return getattr(self.structure, name)


@pytest.mark.parametrize(("floor", "name"), [case for case in CASES if case not in NOT_YET])
@settings(max_examples=15)
@given(data=st.data())
def test_criteria_call_no_operation_that_they_do_not_need(floor, name, data):
    problem = problem_for(data, floor, name)
    recorded, criterion = Recorded(problem.structure), criterion_for(name, problem)
    criterion.evaluate(recorded, problem.scores, problem.gold, problem.weights)
    if problem.structure.n_sequences == 1 and hasattr(criterion, "propose"):
        criterion.propose(recorded, problem.scores, problem.gold)
    assert recorded.called <= set(needed_operations(type(criterion), type(problem.structure)))


@over(lambda criterion: "online" in criterion.optimizers)
@settings(max_examples=25)
@given(data=st.data(), spec=st.sampled_from(["", ":k=3"]))
def test_online_learners_propose_possible_labellings_that_differ_from_the_right_one(floor, name, data, spec):
    problem = problem_for(data, floor, name)
    referee, scores, gold = STRUCTURES[floor].referee, problem.scores, problem.gold
    one = referee.BruteForce(referee.example(problem.structure, 0), referee.scores_of(problem.structure, scores, 0))
    own = gold.slice(*problem.structure.offsets[:2].tolist())
    proposal = criterion_for(name + (spec if name == "mira" else ""), problem).propose(one.structure, one.scores, own)
    assert all((wrong != proposal.right).any() for wrong in proposal.wrong)
    assert len(proposal.wrong) == len(proposal.losses)
    for wrong in proposal.wrong:
        assert one.structure.score(one.scores, wrong)[0] > -np.inf


@pytest.mark.xfail(raises=TypeError, strict=True, reason="the criterion looks its cost up by position")
@pytest.mark.parametrize(("floor", "name"), NOT_YET)
@settings(max_examples=5, phases=[Phase.generate])
@given(data=st.data())
def test_what_does_not_work_yet(floor, name, data):
    evaluate(name, problem_for(data, floor, name))
