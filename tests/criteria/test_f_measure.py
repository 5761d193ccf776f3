"""The F-measure of expected numbers against the enumeration of all labellings.

Finite differences of its gradient are in ``test_every_structure.py``.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.criteria.criterion import make_criterion
from problems.problem import arrays_of
from referees.enumeration import gold_of
from referees.structures import STRUCTURES

FLOORS = ("chain", "flat", "segments")


def made(problem, beta):
    return make_criterion(f"f-measure:beta={beta}").for_labels(["O", *range(1, problem.cost.n_labels)])


def is_unit(gold, t):
    """Whether position t of an annotation is a unit: yes, no, or None if that is left open."""
    allowed = [gold.labels[t]] if gold.allowed is None else np.flatnonzero(gold.allowed[t])
    answers = {bool(y != 0) for y in allowed}
    return answers.pop() if len(answers) == 1 else None


def enumerated(floor, problem, beta):
    """The loss from the numbers of units in every labelling, label 0 being the one that does not count."""
    right = found = units = 0.0
    for s, one in enumerate(STRUCTURES[floor].referee.referees(problem.structure, problem.scores)):
        gold, weight = gold_of(problem.structure, problem.gold, s), problem.weights[s]
        known = [is_unit(gold, t) for t in range(len(gold.labels))]
        units += weight * sum(unit is True for unit in known)
        fits = one.fits_at(gold)
        for p, labels, fit in zip(one.probabilities, one.labels, fits, strict=True):
            right += weight * p * sum(unit is True and ok for unit, ok in zip(known, fit, strict=True))
            found += weight * p * sum(unit is not None and y != 0 for unit, y in zip(known, labels, strict=True))
    return units * (1.0 - (1.0 + beta**2) * right / (beta**2 * units + found)) if units else 0.0


@pytest.mark.parametrize("floor", FLOORS)
@settings(max_examples=60)
@given(data=st.data(), beta=st.sampled_from([0.5, 1.0, 3.0]))
def test_losses_equal_the_enumeration_of_units(floor, data, beta):
    problem = data.draw(STRUCTURES[floor].problems.problems())
    criterion = made(problem, beta)
    losses, _ = criterion.evaluate(problem.structure, problem.scores, problem.gold, problem.weights)
    assert losses.sum() == pytest.approx(enumerated(floor, problem, beta), rel=1e-9, abs=1e-9)
    totals = criterion.totals(problem.structure, problem.scores, problem.gold, problem.weights)
    assert -1e-9 <= losses.sum() <= totals[2] + 1e-9


@pytest.mark.parametrize("floor", FLOORS)
@settings(max_examples=30)
@given(data=st.data())
def test_gradients_of_parts_of_a_corpus_are_those_of_the_whole(floor, data):
    """Given the totals of all, an example's gradient is its part of the batch's gradient."""
    problem, referee = data.draw(STRUCTURES[floor].problems.problems()), STRUCTURES[floor].referee
    structure, criterion = problem.structure, made(problem, 1.0)
    totals = criterion.totals(structure, problem.scores, problem.gold, problem.weights)
    _, whole = criterion.evaluate(structure, problem.scores, problem.gold, problem.weights)
    added = np.zeros(3)
    for s in range(structure.n_sequences):
        one, own = referee.example(structure, s), referee.scores_of(structure, problem.scores, s)
        batch = one, own, gold_of(structure, problem.gold, s), problem.weights[s : s + 1]
        added += criterion.totals(*batch)
        parts = arrays_of(criterion.gradient(totals, *batch))
        name, part = next(iter(parts.items()))  # emissions, which are by position
        rows = slice(structure.offsets[s], structure.offsets[s + 1])
        np.testing.assert_allclose(part, arrays_of(whole)[name][rows], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(added, totals, rtol=1e-12)
