"""Dual ascent for max-margin on chains: the optimum by enumeration, a gap that is a bound, flows, resumption."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from loglinear import Tagger
from loglinear.criteria.costs import Cost
from loglinear.criteria.criterion import make_criterion
from loglinear.errors import ModelFileError, OptionError
from loglinear.optimizers.dual import margin
from loglinear.optimizers.dual.chain import DualAscent
from loglinear.optimizers.lbfgs import LBFGS
from loglinear.optimizers.objective import Objective
from loglinear.structures.chain.flow import UNIT
from problems.chain import chain_objectives
from problems.objectives import least_hinge


@st.composite
def margin_objectives(draw, most_labels=9):
    """Random problems of max-margin: costs by kind of position, constraints, weights, values."""
    other = draw(chain_objectives(labels=st.integers(1, most_labels)))
    y, rng = other.features.n_labels, np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    table = rng.random((4, y, y)) * draw(st.sampled_from([0.0, 1.0, 5.0])) * (1.0 - np.eye(y))
    return Objective(
        other.features, other.corpus, other.gold, make_criterion("max-margin", Cost(table)), other.penalties,
        draw(st.sampled_from([0.1, 1.0])), other.sequence_weights,
    )  # fmt: skip


def zero_of(objective):
    return np.zeros(objective.features.n_features)


def value_at(objective, weights, l1=0.0):
    """The objective by the narrow waist, in double precision."""
    return objective(weights)[0] + l1 * np.abs(weights).sum()


def the_constraints(objective):
    """For each labelling of each sequence: the sequence, its features less those of the gold one, and its cost."""
    features, corpus, gold = objective.features, objective.corpus, objective.gold
    laid_out = features.lay_out(zero_of(objective), objective.penalties)
    for i, (first, end) in enumerate(pairwise(corpus.offsets.tolist())):
        chain = features.structure(corpus, i, i + 1)
        scores = features.scores(laid_out, corpus, i, i + 1)
        costs = objective.criterion.costs(chain, gold.slice(first, end))

        def features_of(labels, chain=chain, scores=scores, i=i):
            parts = chain.expectations(scores)[1]
            for part in (parts.emission, parts.transition, parts.start, parts.stop):
                part[...] = 0.0
            chain.add_labelling(parts, labels, np.ones(1))
            gradient = features.dense_gradient()
            gradient.reset()
            gradient.add(corpus, i, i + 1, parts)
            gradient.finish()
            return gradient.vector.copy()

        right = features_of(gold.labels[first:end])
        for labels in product(range(features.n_labels), repeat=end - first):
            labels = np.array(labels, dtype=np.int32)
            if chain.score(scores, labels)[0] > -np.inf:
                yield i, features_of(labels) - right, costs[np.arange(end - first), labels].sum()


@settings(max_examples=15, deadline=None)
@given(objective=margin_objectives(most_labels=3))
def test_it_ends_at_the_minimum_of_the_quadratic_programme(objective):
    """min l2 ||w||^2 + sum_i c_i x_i  with  x_i >= cost(y) + w . (f(y) - f(gold_i))  for every labelling y."""
    lengths = np.diff(objective.corpus.offsets)
    assume(sum(objective.features.n_labels**lengths) <= 120)
    of, differences, costs = zip(*the_constraints(objective), strict=True)
    solved = least_hinge(list(of), np.array(differences), np.array(costs), objective.sequence_weights, objective.l2)
    assume(solved is not None)
    found = DualAscent(max_iter=2000, tolerance=1e-6).minimise(objective, zero_of(objective))
    assert found.converged
    assert found.value == pytest.approx(solved[0], rel=3e-4, abs=1e-5)
    assert np.abs(found.weights - solved[1]).max(initial=0.0) < 0.05


@settings(max_examples=40, deadline=None)
@given(objective=margin_objectives(), passes=st.integers(0, 6), l1=st.sampled_from([0.0, 0.3]))
def test_the_gap_bounds_how_far_the_minimum_can_be(objective, passes, l1):
    """No weights are better than value - gap, after any number of passes; the value is the objective's own."""
    zero = zero_of(objective)
    found = DualAscent(max_iter=passes, tolerance=0.0).minimise(objective, zero, l1=l1)
    value, gap = found.value, found.state.gap
    assert value == pytest.approx(value_at(objective, found.weights, l1), rel=1e-6, abs=1e-6)
    assert gap >= -1e-6 * (1.0 + abs(value))
    rng = np.random.default_rng(0)
    near = DualAscent(max_iter=60, tolerance=1e-6).minimise(objective, zero, l1=l1).weights
    others = [zero, near, 0.9 * near, near + 0.01 * rng.normal(size=len(near)), rng.normal(size=len(near))]
    others.append(LBFGS(max_iter=60).minimise(objective, zero, l1=l1).weights)
    least = min(value_at(objective, other, l1) for other in others)
    assert value - gap <= least + 1e-6 * (1.0 + abs(least))


@settings(max_examples=25, deadline=None)
@given(objective=margin_objectives(), l1=st.sampled_from([0.0, 0.3]))
def test_it_is_no_worse_than_lbfgs(objective, l1):
    zero = zero_of(objective)
    best = value_at(objective, LBFGS(max_iter=300, tolerance=1e-9).minimise(objective, zero, l1=l1).weights, l1)
    found = DualAscent(max_iter=1000).minimise(objective, zero, l1=l1)
    assert found.converged and "primal and dual differ by less than 0.001" in found.message
    assert value_at(objective, found.weights, l1) <= 1.001 * best + 1e-6


@settings(max_examples=25, deadline=None)
@given(objective=margin_objectives())
def test_every_pass_raises_the_dual(objective):
    duals = []
    for passes in range(6):
        found = DualAscent(max_iter=passes, tolerance=0.0).minimise(objective, zero_of(objective))
        duals.append(found.value - found.state.gap)
    assert duals[0] == pytest.approx(0.0, abs=1e-9)
    assert all(after >= before - 1e-5 * (1.0 + abs(before)) for before, after in pairwise(duals))


@settings(max_examples=25, deadline=None)
@given(objective=margin_objectives(), passes=st.integers(1, 8))
def test_mass_flows_through_the_trellis_and_makes_the_weights(objective, passes):
    """At each position there is a whole unit, what flows into a label flows out of it, and no edge is ruled out."""
    optimizer = DualAscent(max_iter=passes, tolerance=0.0)
    steps = []
    state = optimizer.minimise(objective, zero_of(objective), callback=lambda now: steps.append(now.weights)).state
    flow, width, allowed = state.flow, objective.layout.width, objective.penalties.transition
    for first, end in pairwise(objective.corpus.offsets.tolist()):
        before = None
        for t in range(first, end):
            n = flow.counts[t]
            edges, masses = flow.edges[t, :n], flow.masses[t, :n]
            assert len(set(edges.tolist())) == n and (masses >= 0).all() and masses.sum(dtype=np.int64) == UNIT
            edges, masses = edges[masses > 0], masses[masses > 0]
            into = np.zeros(width, dtype=np.int64)
            np.add.at(into, edges % width, masses)
            if t > first:
                out = np.zeros(width, dtype=np.int64)
                np.add.at(out, edges // width, masses)
                assert np.array_equal(out, before)
                assert (allowed[edges // width, edges % width] == 0.0).all()
            before = into
    np.testing.assert_allclose(steps[-1], state.weights, atol=1e-4)  # as the steps left them, and made of the flow


@settings(max_examples=15, deadline=None)
@given(objective=margin_objectives(), passes=st.integers(1, 5), l1=st.sampled_from([0.0, 0.3]))
def test_a_stored_state_goes_on_as_if_never_stopped(objective, passes, l1):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(margin, "REFRESH_EVERY", 3)
        zero, optimizer = zero_of(objective), DualAscent(max_iter=passes + 4, tolerance=0.0)
        seen = []
        whole = optimizer.minimise(objective, zero, l1=l1, callback=lambda now: seen.append(now.to_arrays()))
        part = DualAscent(max_iter=passes, tolerance=0.0).minimise(objective, zero, l1=l1)
        states = [seen[min(passes, len(seen)) - 1]]
        if not part.converged:  # else the certificate at its end says that there is nothing to go on with
            states.append(part.state.to_arrays())
        for stored in states:
            again = optimizer.minimise(objective, zero, l1=l1, state=optimizer.restore(stored))
            assert np.array_equal(again.weights, whole.weights) and again.message == whole.message
            assert (again.value, again.state.gap) == (whole.value, whole.state.gap)
            ends = again.state.to_arrays()
            assert all(np.array_equal(ends[name], array) for name, array in whole.state.to_arrays().items())


@settings(max_examples=15, deadline=None)
@given(objective=margin_objectives())
def test_any_number_of_threads_gives_the_same_weights(objective):
    found = []
    for n_threads in (1, 2, 3):
        objective.n_threads = n_threads
        found.append(DualAscent(max_iter=30, tolerance=0.0).minimise(objective, zero_of(objective)))
    assert all(np.array_equal(found[0].weights, other.weights) for other in found[1:])
    assert all(found[0].message == other.message for other in found[1:])


@settings(max_examples=10, deadline=None)
@given(objective=margin_objectives())
def test_room_grows_as_it_is_needed(objective):
    zero = zero_of(objective)
    wide = DualAscent(max_iter=1000).minimise(objective, zero)
    with pytest.MonkeyPatch.context() as patch:
        for name, least in {"POSITIONS_EACH": 100, "EDGES_EACH": 1, "FEATURES_EACH": 4, "LEAST_EDGES": 2}.items():
            patch.setattr(margin, name, least)
        narrow = DualAscent(max_iter=1000).minimise(objective, zero)
    assert narrow.converged
    assert narrow.value == pytest.approx(wide.value, rel=2e-3, abs=1e-6)


SENTENCES = [[["the", "dog"], ["runs"]], [["a"], ["dog"], ["sleeps", "well"]], [["runs"]]] * 4
LABELS = [["D", "V"], ["D", "N", "V"], ["V"]] * 4


def test_a_state_of_other_data_is_refused():
    optimizer = DualAscent(max_iter=2)
    objectives = []
    for n in (6, 9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                DualAscent, "minimise", lambda self, objective, zero, **_: objectives.append(objective) or 1 / 0
            )
            with pytest.raises(ZeroDivisionError):
                Tagger(criterion="max-margin").fit(SENTENCES[:n], LABELS[:n])
    stored = optimizer.minimise(objectives[0], zero_of(objectives[0])).state.to_arrays()
    with pytest.raises(OptionError, match="does not fit the data"):
        optimizer.minimise(objectives[1], zero_of(objectives[1]), state=optimizer.restore(stored))
    for name, damage in {"masses": lambda a: a // 2, "edges": lambda a: a[:-1], "counts": lambda a: a[:1]}.items():
        with pytest.raises(ModelFileError):
            optimizer.restore({**stored, name: damage(stored[name])})


@pytest.mark.parametrize(
    ("options", "by"),
    [({}, "primal and dual differ by less than 0.001"), ({"l1": 0.1}, "primal and dual differ by less than 0.001"),
     ({"order": 2}, "primal and dual differ by less than 0.001"),
     ({"pair_features": True, "l1": 0.1}, "primal and dual differ by less than 0.001"),
     ({"l2": 0.0, "max_iter": 5}, "iterations")],
)  # fmt: skip
def test_a_tagger_uses_it_where_it_applies(options, by):
    tagger = Tagger(criterion="max-margin", **options).fit(SENTENCES, LABELS)
    assert by in tagger.message_ or (by == "iterations" and "primal and dual" not in tagger.message_)
    assert tagger.predict(SENTENCES[:3]) == LABELS[:3]
