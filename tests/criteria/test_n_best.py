"""Criteria at other temperatures and on n-best lists, against the enumeration of all labellings."""

import json
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.criteria.costs import LabellingCost, is_of_labellings
from loglinear.criteria.criterion import criteria_of, make_criterion
from loglinear.errors import DataError, OptionError
from problems.problem import arrays_of, seeds
from referees.enumeration import gold_of
from referees.structures import STRUCTURES

RISKY = [floor for floor, each in STRUCTURES.items() if "risk" in criteria_of(each.structure)]
OF_LABELS = [floor for floor in RISKY if floor != "tree"]  # whose labellings have a label for each position
ALL = 1 << 14  # more labellings than any of the problems has
FORMS = ["risk", "risk:temperature=0.5", "risk:k=3", "risk:k=3,temperature=4", "softmax-margin:k=3", "mira:k=3"]


def complete(problem):
    """The problem with one label for each position: the best that the annotation allows."""
    if problem.gold.allowed is None:
        return problem
    labels = problem.structure.viterbi(problem.structure.restrict(problem.scores, problem.gold.allowed))[0]
    return replace(problem, gold=replace(problem.gold, labels=labels, allowed=None))


def evaluate(spec, problem, cost=None):
    criterion = make_criterion(spec, problem.cost if cost is None else cost)
    losses, gradient = criterion.evaluate(problem.structure, problem.scores, problem.gold, problem.weights)
    return losses, arrays_of(gradient)


def equal(one, other):
    np.testing.assert_allclose(one[0], other[0], rtol=1e-9, atol=1e-9)
    for name, array in one[1].items():
        np.testing.assert_allclose(array, other[1][name], rtol=1e-8, atol=1e-8)


def odd(gold, predicted):
    """A cost that is not a sum over positions: squared errors, and one more if neighbours are both wrong."""
    wrong = [g != p for g, p in zip(gold, predicted, strict=True)]
    return sum(wrong) ** 2 + any(a and b for a, b in pairwise(wrong))


def listed(floor, problem, k, temperature=1.0):
    """For each example its k best labellings, their scores, and costs by :func:`odd`."""
    for s, one in enumerate(STRUCTURES[floor].referee.referees(problem.structure, problem.scores)):
        best = [i for i in np.argsort(-one.values, kind="stable")[:k] if one.values[i] > -np.inf]
        gold = gold_of(problem.structure, problem.gold, s).labels
        yield one.values[best], np.array([odd(gold.tolist(), one.labels[i].tolist()) for i in best]), gold, one, best


@pytest.mark.parametrize("floor", RISKY)
@settings(max_examples=30)
@given(data=st.data(), temperature=st.sampled_from([0.3, 2.0, 10.0]))
def test_risk_at_a_temperature_is_that_of_scores_divided_by_it(floor, data, temperature):
    problem = data.draw(STRUCTURES[floor].problems.problems())
    cooled = replace(problem, scores=problem.scores.times(1.0 / temperature))
    losses, gradient = evaluate("risk", cooled)
    hot = evaluate(f"risk:temperature={temperature}", problem)
    equal(hot, (losses, {name: array / temperature for name, array in gradient.items()}))


@pytest.mark.parametrize("floor", RISKY)
@pytest.mark.parametrize("spec", ["risk", "risk:temperature=2", "softmax-margin"])
@settings(max_examples=20)
@given(data=st.data())
def test_a_list_of_all_labellings_is_exact(floor, spec, data):
    problem = complete(data.draw(STRUCTURES[floor].problems.problems()))
    equal(evaluate(f"{spec}{',' if ':' in spec else ':'}k={ALL}", problem), evaluate(spec, problem))


@settings(max_examples=15)
@given(data=st.data())
def test_lists_of_phrase_trees(data):
    problem = complete(data.draw(STRUCTURES["tree"].problems.problems()))
    equal(evaluate(f"softmax-margin:k={ALL}", problem), evaluate("softmax-margin", problem))


@pytest.mark.parametrize("floor", OF_LABELS)
@pytest.mark.parametrize("k", [1, 3, ALL])
@settings(max_examples=20)
@given(data=st.data(), temperature=st.sampled_from([1.0, 3.0]))
def test_costs_of_whole_labellings_are_expected_over_the_list(floor, k, data, temperature):
    problem = complete(data.draw(STRUCTURES[floor].problems.problems()))
    cost = LabellingCost(odd, range(100))
    losses, _ = evaluate(f"risk:k={k},temperature={temperature}", problem, cost)
    softmax, _ = evaluate(f"softmax-margin:k={k}", problem, cost)
    hinge, _ = evaluate(f"mira:k={k}", problem, cost)
    for s, (values, costs, gold, one, best) in enumerate(listed(floor, problem, k)):
        weight, shares = problem.weights[s], np.exp((values - values[0]) / temperature)
        assert losses[s] == pytest.approx(weight * (shares @ costs) / shares.sum(), abs=1e-9)
        right = next(one.values[i] for i, labels in enumerate(one.labels) if np.array_equal(labels, gold))
        others = [v + c for v, c, i in zip(values, costs, best, strict=True) if not np.array_equal(one.labels[i], gold)]
        assert softmax[s] == pytest.approx(weight * (np.logaddexp.reduce([right, *others]) - right), abs=1e-8)
        assert hinge[s] == pytest.approx(weight * (max(values + costs) - right), abs=1e-9)


@pytest.mark.parametrize("floor", RISKY)
@pytest.mark.parametrize("spec", FORMS)
@settings(max_examples=15)
@given(data=st.data(), seed=seeds)
def test_gradients_equal_finite_differences(floor, spec, data, seed):
    """With scores at random, no two labellings are about to change places."""
    problem, rng = complete(data.draw(STRUCTURES[floor].problems.problems())), np.random.default_rng(seed)
    arrays, step, cost = (
        arrays_of(problem.scores),
        1e-6,
        LabellingCost(odd, range(100)) if "k=" in spec and floor in OF_LABELS else None,
    )
    for array in arrays.values():
        array += rng.normal(size=array.shape)
    _, gradient = evaluate(spec, problem, cost)
    for part, array in arrays.items():
        for place in rng.permutation(array.size)[:8]:
            value, sums = array.flat[place], []
            if np.isfinite(value):
                for moved in (value + step, value - step):
                    array.flat[place] = moved
                    sums.append(evaluate(spec, problem, cost)[0].sum())
                array.flat[place] = value
                slope = (sums[0] - sums[1]) / (2 * step)
                assert gradient[part].flat[place] == pytest.approx(slope, abs=1e-4, rel=1e-4)


def test_costs_of_labellings_are_checked_and_remembered():
    asked = []

    def cost(gold, predicted):
        asked.append((gold, predicted))
        return -1.0 if "C" in predicted else float(gold != predicted)

    own, gold = LabellingCost(cost, "ABC"), np.array([0, 1], dtype=np.int32)
    lists = np.array([[0, 1], [1, 1]], dtype=np.int32)
    assert own.of(gold, lists).tolist() == [0.0, 1.0] and own.of(gold, lists).tolist() == [0.0, 1.0]
    assert asked == [(["A", "B"], ["A", "B"]), (["A", "B"], ["B", "B"])]
    with pytest.raises(OptionError, match=r"cost\(\['A', 'B'\], \['C', 'B'\]\) is -1.0; costs are numbers between 0"):
        own.of(gold, np.array([[2, 1]], dtype=np.int32))


@settings(max_examples=10)
@given(data=st.data())
def test_a_cost_of_labellings_wants_one_label_for_each_position(data):
    problem = data.draw(STRUCTURES["chain"].problems.problems())
    if problem.gold.allowed is not None:
        with pytest.raises(DataError, match="needs one label for each token"):
            evaluate("risk:k=2", problem, LabellingCost(odd, range(9)))


class Weighed:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, gold, predicted):
        return self.factor * odd(gold, predicted)


def test_functions_are_told_apart_by_what_they_do_and_hold():
    def weighed(factor):
        return lambda gold, predicted: factor * sum(a != b for a, b in zip(gold, predicted, strict=True))

    def scaled(gold, predicted, *, factor):
        return factor * odd(gold, predicted)

    functions = [odd, weighed(1.0), weighed(2.0), Weighed(1.0), Weighed(2.0), lambda gold, predicted: 0.0]
    functions += [partial(scaled, factor=1.0), partial(scaled, factor=2.0)]
    seen = [json.dumps(LabellingCost(function, "AB").identity()) for function in functions]
    assert len(set(seen)) == len(functions)
    assert all("0x" not in one for one in seen)  # no address, which would be another in the next process
    assert json.dumps(LabellingCost(weighed(2.0), "AB").identity()) == seen[2]
    functions.append(lambda gold, predicted, beta=2: beta * odd(gold, predicted))
    assert all(is_of_labellings(function) for function in functions)
    assert not is_of_labellings(lambda gold, predicted, kind="inside": 0.0)
    assert not is_of_labellings(lambda gold, predicted, kind: 0.0) and not is_of_labellings("hamming:1")


def test_temperatures_fall():
    cost = LabellingCost(odd, range(9))
    risk = make_criterion("risk:anneal=6", cost)
    assert [name for name, _ in risk.schedule()] == ["temperature 6", "temperature 3", "temperature 1.5"]
    assert [form.temperature for _, form in risk.schedule()] == [6.0, 3.0, 1.5] and risk.temperature == 1.0
    assert not make_criterion("risk:temperature=3", cost).schedule()
    with pytest.raises(OptionError, match="anneal=2 must be greater than the last temperature, 4"):
        make_criterion("risk:anneal=2,temperature=4", cost)
