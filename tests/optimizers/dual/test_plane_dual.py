"""Dual ascent for max-margin on any structure: the optimum by enumeration, a gap that is a bound, resumption."""

import io
from itertools import pairwise
from unittest import mock

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from loglinear import Parser, Tagger, read_columns
from loglinear.criteria.costs import HeadCost
from loglinear.criteria.criterion import make_criterion
from loglinear.data.corpora.bundled import bundled_text
from loglinear.errors import InfeasibleError, ModelFileError, OptionError
from loglinear.features.arcs import ArcCorpus
from loglinear.optimizers.dual import planes
from loglinear.optimizers.dual.chain import DualAscent, dual_unsupported_reason
from loglinear.optimizers.dual.margin import MarginDual
from loglinear.optimizers.dual.planes import PlaneDual
from loglinear.optimizers.lbfgs import LBFGS
from loglinear.optimizers.objective import Objective
from loglinear.structures.arcs.features import ArcFeatures
from loglinear.structures.arcs.structure import arc_offsets
from loglinear.structures.gold import Gold
from problems.chain import chain_objectives
from problems.objectives import least_hinge, seeds
from problems.segments import segment_objectives
from problems.treebanks import random_trees
from referees.arcs import trees
from referees.structures import STRUCTURES

BY_MARGIN = ("max-margin",)


@st.composite
def arc_objectives(draw):
    """Random problems of dependency trees of all kinds, whose arcs share few features."""
    rng, lengths = np.random.default_rng(draw(seeds)), draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    projective, single_root = draw(st.booleans()), draw(st.booleans())
    offsets = np.cumsum([0, *lengths]).astype(np.int64)
    arcs, n_features = arc_offsets(offsets), 15
    pointer = np.concatenate([[0], np.cumsum(rng.integers(0, 4, arcs[-1]))]).astype(np.int64)
    ids = rng.integers(0, n_features, int(pointer[-1])).astype(np.int32)
    possible = [trees(n, projective, single_root) for n in lengths]
    heads = np.concatenate([each[rng.integers(len(each))] for each in possible]).astype(np.int32)
    return Objective(
        ArcFeatures(n_features, projective, single_root), ArcCorpus(offsets, arcs, pointer, ids), Gold(heads),
        make_criterion("max-margin", HeadCost(draw(st.sampled_from([1.0, 3.0])))), None,
        draw(st.sampled_from([0.1, 1.0])), rng.random(len(lengths)) * 2 if draw(st.booleans()) else None,
    )  # fmt: skip


class _Asked(Exception):
    """The problem that an optimizer was asked to solve."""


def asked_of(estimator, *data):
    """The objective that an estimator minimises by dual ascent."""

    def refuse(self, objective, weights0, **_):
        raise _Asked(objective)

    with mock.patch.object(DualAscent, "minimise", refuse), pytest.raises(_Asked) as caught:
        estimator.fit(*data)
    return caught.value.args[0]


@st.composite
def tree_objectives(draw):
    """Random problems of phrase trees, with and without a grammar's log-probabilities, whose weight may be learnt."""
    options = draw(st.sampled_from(["base=no", "base=yes", "learn_base=yes"]))
    seed, n = draw(st.integers(0, 500)), draw(st.integers(1, 3))
    sample = [tree for tree in random_trees(seed, 10 * n) if len(tree.leaves()) <= 4][:n]
    assume(sample)
    cost = draw(st.sampled_from([None, "hamming:3"]))
    return asked_of(Parser(f"max-margin:{options}", cost=cost, l2=draw(st.sampled_from([0.1, 1.0]))), sample)


OBJECTIVES = {
    "arcs": arc_objectives(),
    "chain": st.one_of(
        chain_objectives(orders=(1, 2), labels=st.integers(1, 3), criteria=BY_MARGIN),
        chain_objectives(orders=(1, 2), edges=True, labels=st.integers(1, 3), criteria=BY_MARGIN),
    ),
    "segments": segment_objectives(criteria=BY_MARGIN),
    "tree": tree_objectives(),
}
any_structure = st.one_of(*OBJECTIVES.values())


def zero_of(objective):
    return np.zeros(objective.features.n_features)


def minimised(objective, max_iter=1000, tolerance=1e-5, l1=0.0, **options):
    return PlaneDual(max_iter, tolerance).minimise(objective, zero_of(objective), l1=l1, **options)


def value_at(objective, weights, l1=0.0):
    return objective(weights)[0] + l1 * np.abs(weights).sum()


def the_planes(objective, referee):
    """For each labelling of each example: the example, its features less those of the gold one, and its offset."""
    features, corpus = objective.features, objective.corpus
    laid_out = features.lay_out(zero_of(objective), objective.penalties)
    for i, (first, end) in enumerate(pairwise(corpus.offsets.tolist())):
        structure, scores = features.structure(corpus, i, i + 1), features.scores(laid_out, corpus, i, i + 1)
        gold = objective.gold.slice(first, end)
        augmented = objective.criterion.augmented(structure, scores, gold)
        own = structure.score(scores, gold.labels)[0]
        for labelling in referee.labellings(structure, scores):
            labels = np.array(referee.labels_of(structure, labelling), dtype=np.int32)
            offset = structure.score(augmented, labels)[0] - own
            if offset == -np.inf:
                continue
            parts, gradient = scores.zeros_like(), features.dense_gradient()
            structure.add_labelling(parts, labels, np.ones(1))
            structure.add_labelling(parts, gold.labels, -np.ones(1))
            gradient.reset()
            gradient.add(corpus, i, i + 1, parts)
            yield i, gradient.finish().copy(), offset


@pytest.mark.parametrize("floor", OBJECTIVES)
def test_it_ends_at_the_minimum_of_the_quadratic_programme(floor):
    """min l2 ||w||^2 + sum_i c_i x_i  with  x_i >= o + w . d  for every labelling, all of them enumerated."""

    @settings(max_examples=8, deadline=None)
    @given(objective=OBJECTIVES[floor])
    def check(objective):
        assume(objective.features.n_features <= 150)
        found = list(the_planes(objective, STRUCTURES[floor].referee))
        assume(len(found) <= 150)
        of, differences, offsets = zip(*found, strict=True)
        solved = least_hinge(
            list(of), np.array(differences), np.array(offsets), objective.sequence_weights, objective.l2
        )
        assume(solved is not None)
        result = minimised(objective, tolerance=1e-7)
        assert result.converged
        assert result.value == pytest.approx(solved[0], rel=1e-4, abs=1e-5)
        assert np.abs(result.weights - solved[1]).max(initial=0.0) < 0.02

    check()


@settings(max_examples=15, deadline=None)
@given(objective=chain_objectives(labels=st.integers(1, 5), criteria=BY_MARGIN), l1=st.sampled_from([0.0, 0.3]))
def test_on_chains_it_ends_where_flows_do(objective, l1):
    found = minimised(objective, tolerance=1e-6, l1=l1)
    flows = MarginDual(1000, 1e-6).minimise(objective, zero_of(objective), l1=l1)
    assert found.converged and flows.converged
    assert found.value == pytest.approx(flows.value, rel=2e-4, abs=1e-6)


@settings(max_examples=25, deadline=None)
@given(objective=any_structure, passes=st.integers(0, 5), l1=st.sampled_from([0.0, 0.3]))
def test_the_gap_bounds_how_far_the_minimum_can_be(objective, passes, l1):
    """No weights are better than value - gap, after any number of passes; the value is the objective's own."""
    found = minimised(objective, passes, 0.0, l1)
    value, gap = found.value, found.state.gap
    assert value == pytest.approx(value_at(objective, found.weights, l1), rel=1e-12)
    assert gap >= -1e-9 * (1.0 + abs(value))
    near = minimised(objective, 30, 1e-7, l1).weights
    rng = np.random.default_rng(0)
    others = [0.0 * near, near, 0.9 * near, near + 0.01 * rng.normal(size=len(near)), rng.normal(size=len(near))]
    others.append(LBFGS(max_iter=20).minimise(objective, 0.0 * near, l1=l1).weights)
    least = min(value_at(objective, other, l1) for other in others)
    assert value - gap <= least + 1e-9 * (1.0 + abs(least))


@settings(max_examples=20, deadline=None)
@given(objective=any_structure, l1=st.sampled_from([0.0, 0.3]))
def test_every_pass_raises_the_dual_until_the_gap_is_closed(objective, l1):
    duals = []
    for passes in range(5):
        found = minimised(objective, passes, 0.0, l1)
        duals.append(found.value - found.state.gap)
    assert all(after >= before - 1e-6 * (1.0 + abs(before)) for before, after in pairwise(duals))
    done = minimised(objective, tolerance=1e-6, l1=l1)
    assert done.converged and "primal and dual differ by less than 0.0001" in done.message
    assert done.state.gap <= 1e-4 * abs(done.value) + 1e-9


def test_weights_that_an_l1_penalty_makes_zero_do_not_keep_steps_short():
    """Without curvature the dual is linear: a step that presumes one took 2,177 passes here."""
    sample = [tree for tree in random_trees(13, 30) if len(tree.leaves()) <= 4][:3]
    objective = asked_of(Parser("max-margin:base=yes", l2=0.1), sample)
    found = minimised(objective, 100, 1e-8, l1=0.3)
    assert found.converged
    assert found.value == pytest.approx(1.0077769, rel=1e-6)
    assert found.value == pytest.approx(value_at(objective, found.weights, 0.3), rel=1e-12)


@settings(max_examples=12, deadline=None)
@given(objective=tree_objectives(), l1=st.sampled_from([0.1, 0.3, 1.0]))
def test_beside_an_l1_penalty_it_converges_and_the_dual_never_falls(objective, l1):
    problem, duals = planes.PlaneProblem(objective, l1), []

    def keep_dual(now):
        value, gap, _ = problem.certificate(now.planes)
        duals.append(value - gap)

    found = minimised(objective, 300, 1e-6, l1, callback=keep_dual)
    assert found.converged
    assert found.state.gap <= 1e-4 * abs(found.value) + 1e-9
    assert all(after >= before - 1e-6 * (1.0 + abs(before)) for before, after in pairwise(duals))


@settings(max_examples=20, deadline=None)
@given(objective=any_structure, passes=st.integers(1, 6))
def test_masses_are_distributions_over_different_labellings_and_make_the_weights(objective, passes):
    steps = []
    state = minimised(objective, passes, 0.0, callback=lambda now: steps.append(now.weights)).state
    kept, first = state.planes, objective.corpus.offsets
    assert (kept.masses >= 0.0).all()
    np.testing.assert_allclose(kept.masses.sum(axis=1), 1.0, atol=1e-9)
    for i, n in enumerate(kept.counts.tolist()):
        gold = objective.gold.labels[first[i] : first[i + 1]]
        own = [gold] + [kept.layer(i, i + 1, k, gold)[0] for k in range(1, n)]
        assert len({labels.tobytes() for labels in own}) == n
    if steps:
        np.testing.assert_allclose(steps[-1], state.weights, atol=1e-5)  # as visits left them, and made of the masses


@settings(max_examples=15, deadline=None)
@given(objective=any_structure, passes=st.integers(1, 4), l1=st.sampled_from([0.0, 0.3]), elsewhere=st.booleans())
def test_a_stored_state_goes_on_as_if_never_stopped(objective, passes, l1, elsewhere):
    start = 0.1 * np.random.default_rng(passes).normal(size=objective.features.n_features) * elsewhere
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planes, "REFRESH_EVERY", 3)
        patch.setattr(planes, "MOST_IDLE", 1)
        optimizer, seen = DualAscent(max_iter=passes + 3, tolerance=0.0), []
        by_planes = PlaneDual(passes + 3, 0.0)
        whole = by_planes.minimise(objective, start, l1=l1, callback=lambda now: seen.append(now.to_arrays()))
        states = [seen[min(passes, len(seen)) - 1]]
        part = PlaneDual(passes, 0.0).minimise(objective, start, l1=l1)
        if not part.converged:
            states.append(part.state.to_arrays())
        for stored in states:
            again = by_planes.minimise(objective, start, l1=l1, state=optimizer.restore(stored))
            assert np.array_equal(again.weights, whole.weights) and again.message == whole.message
            assert (again.value, again.state.gap) == (whole.value, whole.state.gap)
            ends = again.state.to_arrays()
            assert all(np.array_equal(ends[name], array) for name, array in whole.state.to_arrays().items())


@settings(max_examples=15, deadline=None)
@given(objective=any_structure)
def test_any_number_of_threads_gives_the_same_weights(objective):
    found = []
    for n_threads in (1, 2, 3):
        objective.n_threads = n_threads
        found.append(minimised(objective, 6, 0.0))
    assert all(np.array_equal(found[0].weights, other.weights) for other in found[1:])
    assert all(found[0].message == other.message for other in found[1:])


@settings(max_examples=20, deadline=None)
@given(objective=any_structure)
def test_another_model_to_start_from_changes_the_way_and_not_the_end(objective):
    cold = minimised(objective, tolerance=1e-6)
    warm = PlaneDual(1000, 1e-6).minimise(objective, cold.weights)
    assert warm.converged
    assert warm.value == pytest.approx(cold.value, rel=2e-4, abs=1e-9)


@settings(max_examples=15, deadline=None)
@given(objective=segment_objectives(criteria=BY_MARGIN))
def test_what_it_does_not_support_is_left_to_others(objective):
    criterion, features, gold = objective.criterion, objective.features, objective.gold
    assert dual_unsupported_reason(criterion, features, gold, 1.0) is None
    assert "it needs an L2 penalty" in dual_unsupported_reason(criterion, features, gold, 0.0)
    allowed = np.ones((len(gold.labels), features.scheme.n_token_labels), dtype=np.uint8)
    assert "not convex" in dual_unsupported_reason(criterion, features, Gold(gold.labels, allowed), 1.0)


@settings(max_examples=10, deadline=None)
@given(objective=chain_objectives(orders=(2,), labels=st.integers(2, 3), criteria=BY_MARGIN))
def test_an_impossible_gold_labelling_is_an_error_that_says_which(objective):
    longest = int(np.argmax(np.diff(objective.corpus.offsets)))
    assume(np.diff(objective.corpus.offsets)[longest] > 1)
    objective.penalties.transition[:] = -np.inf
    with pytest.raises(InfeasibleError):
        minimised(objective, 2)


@pytest.fixture(scope="module")
def chunking():
    text = bundled_text("train", "chunk").split("\n\n")[:60]
    return read_columns(io.BytesIO(("\n\n".join(text) + "\n\n").encode()))


OPTIONS = {"structure": "segments", "template": "chunking", "criterion": "max-margin"}


@pytest.mark.parametrize(
    "options",
    [{}, {"cost": "recall:3"}, {"l1": 0.1}, {"hash_bits": 12, "cost": "hamming:2"}, {"constraints": "bio"},
     {"structure": "chain", "order": 2}, {"structure": "chain", "pair_features": True, "cost": "precision:2"}],
)  # fmt: skip
def test_it_is_the_default_and_no_worse_than_lbfgs(chunking, options):
    found = Tagger(**{**OPTIONS, **options}).fit(chunking)
    assert "primal and dual differ by less than 0.001" in found.message_
    other = Tagger(optimizer="lbfgs", max_iter=60, **{**OPTIONS, **options}).fit(chunking)
    assert found.objective_ <= other.objective_


def test_a_tagger_resumes_and_starts_from_another_model(chunking, tmp_path):
    whole = Tagger(max_iter=5, **OPTIONS).fit(chunking)
    Tagger(max_iter=3, **OPTIONS).fit(chunking, checkpoint=tmp_path / "state")
    again = Tagger(max_iter=5, **OPTIONS).fit(chunking, checkpoint=tmp_path / "state", resume=True)
    assert np.array_equal(whole.model_.weights, again.model_.weights)
    warm = Tagger(**OPTIONS).fit(chunking, init=whole)
    assert "primal and dual differ by less than 0.001" in warm.message_


def test_without_an_l2_penalty_it_is_refused_and_lbfgs_is_the_default(chunking):
    with pytest.raises(OptionError, match="optimizer='dual': it needs an L2 penalty, and l2 is 0; use lbfgs"):
        Tagger(l2=0.0, optimizer="dual", **OPTIONS).fit(chunking)
    assert "primal and dual" not in Tagger(l2=0.0, max_iter=2, **OPTIONS).fit(chunking).message_


def test_a_state_of_other_data_is_refused():
    objectives = [asked_of(Tagger("max-margin", order=2), SENTENCES[:n], LABELS[:n]) for n in (6, 9)]
    optimizer = DualAscent(max_iter=2)
    stored = optimizer.minimise(objectives[0], zero_of(objectives[0])).state.to_arrays()
    with pytest.raises(OptionError, match="does not fit the data"):
        optimizer.minimise(objectives[1], zero_of(objectives[1]), state=optimizer.restore(stored))
    damages = {"plane_masses": lambda a: a / 2, "plane_offsets": lambda a: a[:-1], "counts": lambda a: a[:1]}
    for name, damage in damages.items():
        with pytest.raises(ModelFileError):
            optimizer.restore({**stored, name: damage(stored[name])})


SENTENCES = [[["the", "dog"], ["runs"]], [["a"], ["dog"], ["sleeps", "well"]], [["runs"]]] * 4
LABELS = [["D", "V"], ["D", "N", "V"], ["V"]] * 4
