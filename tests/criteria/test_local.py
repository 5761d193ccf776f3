"""Laws of what the local criteria share: the chain of normalised pieces, the forms of nota, scaled pieces."""

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_criteria import local_loss, log_probability_by_pieces, piece_of, score_of

from loglinear.criteria.criterion import CRITERIA, make_criterion
from loglinear.criteria.local import as_contexts, as_table, locally_normalised, right_contexts, scaled, scaling_gradient
from loglinear.criteria.nota import NoneOfTheAbove
from loglinear.errors import OptionError
from loglinear.options import declared
from loglinear.structures.chain.structure import Chain, ChainScores
from loglinear.structures.gold import Gold
from problems.chain import problems

seeds = st.integers(0, 2**32 - 1)


def labellings(offsets, n_labels):
    for first, end in pairwise(offsets.tolist()):
        for labels in product(range(n_labels), repeat=end - first):
            yield first, end, labels


# -- the chain of normalised pieces ------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(problem=problems())
def test_a_normalised_chain_scores_the_log_probability_of_each_labelling(problem):
    offsets, scores = problem.structure.offsets, problem.scores
    local = locally_normalised(Chain(offsets), scores)
    assert local.order == scores.order
    assert scores.order > 1 or (local.edge is None) == (scores.edge is None)  # no edges where none are needed
    for first, end, labels in labellings(offsets, scores.n_labels):
        expected = log_probability_by_pieces(scores, first, end, labels)
        found = score_of(local, first, labels)
        assert found == pytest.approx(expected, abs=1e-9) or (np.isneginf(found) and np.isneginf(expected))


@settings(max_examples=60)
@given(problem=problems())
def test_normalised_pieces_need_no_partition_function(problem):
    """Z is 1, or less where constraints let a labelling run into a dead end."""
    offsets, scores = problem.structure.offsets, problem.scores
    chain = Chain(offsets)
    log_z = chain.log_partition(locally_normalised(chain, scores))
    assert (log_z <= 1e-9).all()
    if np.isfinite(scores.transition).all():
        np.testing.assert_allclose(log_z, 0.0, atol=1e-9)


@settings(max_examples=30)
@given(problem=problems(), seed=seeds)
def test_a_table_of_contexts_and_back(problem, seed):
    offsets, scores, gold = problem.structure.offsets, problem.scores, problem.gold
    chain, rng = Chain(offsets), np.random.default_rng(seed)
    table = rng.normal(size=(chain.n_positions, *(scores.n_labels,) * scores.order))
    contexts = as_contexts(chain, table)
    again = as_contexts(chain, as_table(chain, contexts, 0.0, scores.order))
    np.testing.assert_array_equal(again.emission, contexts.emission)
    right = right_contexts(chain, gold, scores.n_labels, scores.order)
    for first, end, labels in labellings(offsets, scores.n_labels):
        allowed = [gold.labels[first + t] == y if gold.allowed is None else gold.allowed[first + t, y] > 0
                   for t, y in enumerate(labels)]  # fmt: skip
        for t in range(end - first):
            context = labels[max(0, t - scores.order + 1) : t + 1]
            index = (*(0,) * (scores.order - len(context)), *context)
            assert right[(first + t, *index)] == all(allowed[max(0, t - scores.order + 1) : t + 1])


@settings(max_examples=60)
@given(problem=problems(), name=st.sampled_from(["memm", "piecewise", "nota"]))
def test_an_impossible_gold_has_an_infinite_loss_and_no_nan(problem, name):
    offsets, scores, gold, weights = problem.structure.offsets, problem.scores, problem.gold, problem.weights
    if gold.allowed is not None:
        return
    emission = scores.emission.copy()
    emission[-1] = -np.inf  # nothing is possible at the end of the last sequence
    losses, gradient = make_criterion(name).evaluate(Chain(offsets), replace(scores, emission=emission), gold, weights)
    assert losses[-1] == np.inf and np.isfinite(losses[:-1]).all()
    assert all(np.isfinite(array).all() for array in gradient.parts().values())


@pytest.mark.parametrize("name", ["memm", "piecewise", "nota", "pseudolikelihood"])
@pytest.mark.parametrize("size", [500.0, -500.0])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_extreme_scores(name, size, order):
    rng = np.random.default_rng(3)
    n, y = 6, 3

    def far(*shape):
        return size * rng.choice([-1.0, 0.0, 1.0], size=shape)

    scores = ChainScores(far(n, y), far(y, y), far(y), far(y), None, *(far(*(y,) * k) for k in range(3, order + 2)))
    offsets, gold = np.array([0, 4, 6]), Gold(rng.integers(0, y, n).astype(np.int32))
    losses, gradient = make_criterion(name).evaluate(Chain(offsets), scores, gold, np.ones(2))
    np.testing.assert_allclose(losses, list(local_loss(name, offsets, scores, gold)), rtol=1e-9, atol=1e-9)
    assert all(np.isfinite(array).all() for array in gradient.parts().values())


# -- the forms of nota -------------------------------------------------------------------------------------------------


def chosen(problem, seed, rate):
    offsets, scores, gold = problem.structure.offsets, problem.scores, problem.gold
    rng = np.random.default_rng(seed)
    return NoneOfTheAbove(rate=rate).choose(gold, offsets, scores.n_labels, scores.order, rng)


@settings(max_examples=80)
@given(problem=problems(), seed=seeds, rate=st.sampled_from([0.0, 0.3, 0.7]))
def test_the_contexts_that_count_are_the_chosen_and_the_right_ones(problem, seed, rate):
    offsets, scores, weights = problem.structure.offsets, problem.scores, problem.weights
    gold = chosen(problem, seed, rate)
    losses, _ = make_criterion("nota").evaluate(Chain(offsets), scores, gold, weights)
    np.testing.assert_allclose(losses, weights * list(local_loss("nota", offsets, scores, gold)), rtol=1e-9, atol=1e-9)


@settings(max_examples=30)
@given(problem=problems(), seed=seeds, rate=st.sampled_from([0.0, 0.5]))
def test_gradients_with_chosen_contexts_equal_finite_differences(problem, seed, rate):
    offsets, scores, weights = problem.structure.offsets, problem.scores, problem.weights
    gold, chain, criterion, step = chosen(problem, seed, rate), Chain(offsets), make_criterion("nota"), 1e-5
    _, gradient = criterion.evaluate(chain, scores, gold, weights)
    rng = np.random.default_rng(seed)
    moves = {name: rng.normal(size=array.shape) for name, array in scores.parts().items()}

    def at(distance):
        moved = {name: array + distance * moves[name] for name, array in scores.parts().items()}
        return criterion.evaluate(chain, ChainScores(**moved), gold, weights)[0].sum()

    slope = sum(float(np.sum(array * moves[name])) for name, array in gradient.parts().items())
    assert slope == pytest.approx((at(step) - at(-step)) / (2 * step), rel=1e-6, abs=1e-5)


@settings(max_examples=60)
@given(problem=problems(), seed=seeds)
def test_more_contexts_cost_more_and_right_ones_alone_more_than_an_memm(problem, seed):
    offsets, scores, gold, weights = problem.structure.offsets, problem.scores, problem.gold, problem.weights
    chain = Chain(offsets)

    def loss(annotation, name="nota"):
        return make_criterion(name).evaluate(chain, scores, annotation, weights)[0]

    none, some, every = (loss(chosen(problem, seed, rate)) for rate in (0.0, 0.5, 1.0))
    slack = 1e-9 * (1.0 + np.abs(every))
    assert (none <= some + slack).all() and (some <= every + slack).all()
    np.testing.assert_allclose(every, loss(gold))
    if gold.allowed is None:
        assert (none >= loss(gold, "memm") - slack).all()


@pytest.mark.parametrize("order", [1, 2, 3])
def test_sampling_keeps_the_rate_and_depends_on_the_seed_alone(order):
    offsets, gold = np.array([0, 40, 100]), Gold(np.zeros(100, dtype=np.int32))

    def draw(seed, rate=0.3):
        drawn = NoneOfTheAbove(rate=rate).choose(gold, offsets, 9, order, np.random.default_rng(seed))
        assert drawn.contexts is not None and drawn.contexts.shape == (100, *(9,) * order)
        return drawn.contexts

    np.testing.assert_array_equal(draw(1), draw(1))
    assert (draw(1) != draw(2)).any()
    assert draw(1).mean() == pytest.approx(0.3, abs=0.06)
    assert not draw(1, 0.0).any()
    assert NoneOfTheAbove().choose(gold, offsets, 9, order, np.random.default_rng(0)).contexts is None


@settings(max_examples=60)
@given(problem=problems(), threshold=st.sampled_from([0.0, 0.2, 0.5]))
def test_the_threshold_keeps_contexts_that_the_model_finds_probable(problem, threshold):
    offsets, scores, gold = problem.structure.offsets, problem.scores, problem.gold
    chain, criterion = Chain(offsets), NoneOfTheAbove(threshold=threshold, after=3)
    assert criterion.chooses_after == 3
    opening = criterion.choose(gold, offsets, scores.n_labels, scores.order, np.random.default_rng(0))
    assert opening.contexts is not None and not opening.contexts.any()
    nodes = chain.expectations(scores)[1].emission
    y, order = scores.n_labels, scores.order
    marginals = nodes if order == 1 else chain.edge_marginals(scores, order).reshape(-1, *(y,) * order)
    contexts = criterion.choose_again(opening, offsets, marginals).contexts
    assert contexts is not None and contexts.dtype == np.uint8 and contexts.shape == marginals.shape
    last = set((offsets[1:] - 1).tolist())
    for first, end in pairwise(offsets.tolist()):
        for t in range(first, end):
            if t in last:
                continue  # no piece has this context
            if order > 1 and t > first:
                expected = marginals[t] > threshold
                np.testing.assert_array_equal(contexts[t], expected)
            else:
                clear = np.abs(nodes[t] - threshold) > 1e-9
                row = contexts[(t, *(0,) * (order - 1))]
                np.testing.assert_array_equal(row[clear], (nodes[t] > threshold)[clear])


def test_slices_of_the_annotation_keep_the_contexts():
    rng = np.random.default_rng(0)
    contexts = (rng.random((6, 2, 2)) < 0.5).astype(np.uint8)
    settled = Gold(np.zeros(6, dtype=np.int32), contexts=contexts)
    np.testing.assert_array_equal(settled.slice(2, 5).contexts, contexts[2:5])
    allowed = np.ones((6, 2), dtype=np.uint8)
    partial = Gold(np.array([0, 0, 0, -1, -1, -1], dtype=np.int32), allowed, contexts)
    for first, end, is_settled in ((0, 3, True), (2, 5, False)):
        part = partial.slice(first, end)
        assert (part.allowed is None) == is_settled
        np.testing.assert_array_equal(part.contexts, contexts[first:end])
    assert Gold(settled.labels).slice(0, 2).contexts is None


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"rate": 0.5, "threshold": 0.2}, "two ways to choose wrong contexts"),
        ({"rate": 1.5}, "at most 1"),
        ({"rate": -0.1}, "at least 0"),
        ({"threshold": 1.0}, "less than 1"),
        ({"after": 5}, "goes with a threshold"),
        ({"threshold": 0.2, "after": 0}, "at least 1"),
        ({"decoding": "greedy"}, "not one of global, local"),
        ({"local": True, "scaling": True}, "scaling calibrates pieces for decoding as a chain"),
        ({"decoding": "local", "scaling": True}, "scaling calibrates pieces for decoding as a chain"),
    ],
)
def test_options_of_nota_without_sense_are_refused_with_the_reason(options, reason):
    with pytest.raises(OptionError, match=reason):
        NoneOfTheAbove(**options)


def test_options_of_nota_reach_it_by_name():
    for local in ("local", "local=yes", "decoding=local"):
        made = make_criterion(f"nota:threshold=0.2,after=7,{local}")
        assert (made.threshold, made.after, made.chooses_after, made.local_decoding) == (0.2, 7, 7, True)
    assert make_criterion("nota:scaling").scaling and not make_criterion("nota").local_decoding
    assert make_criterion("nota:rate=0.1").chooses_after is None
    assert set(declared(CRITERIA["nota"])) == {
        "rate", "threshold", "after", "local", "scaling", "decoding",
    }  # fmt: skip


# -- scaled pieces -----------------------------------------------------------------------------------------------------


@st.composite
def scalings(draw):
    problem = draw(problems())
    rng = np.random.default_rng(draw(seeds))
    alpha = rng.normal(size=problem.scores.n_labels + 1) + 1.0
    alpha[rng.random(len(alpha)) < 0.2] = 0.0
    return problem, alpha


@settings(max_examples=60)
@given(scaling=scalings())
def test_scaled_pieces_are_multiplied_by_the_factor_of_the_label_before(scaling):
    problem, alpha = scaling
    offsets, scores = problem.structure.offsets, problem.scores
    found = scaled(Chain(offsets), scores, alpha)
    for first, end, labels in labellings(offsets, scores.n_labels):
        total = 0.0
        for t, label in enumerate(labels):
            value = piece_of(scores, first, end, t, labels[max(0, t - scores.order) : t], label)
            factor = alpha[labels[t - 1]] if t else alpha[-1]
            total += -np.inf if np.isneginf(value) else factor * value
        result = score_of(found, first, labels)
        assert result == pytest.approx(total, abs=1e-9) or (np.isneginf(result) and np.isneginf(total))


@settings(max_examples=30)
@given(problem=problems())
def test_factors_of_one_leave_the_scores_of_labellings_alone(problem):
    offsets, scores = problem.structure.offsets, problem.scores
    chain = Chain(offsets)
    log_z = chain.log_partition(scaled(chain, scores, np.ones(scores.n_labels + 1)))
    np.testing.assert_allclose(log_z, chain.log_partition(scores), rtol=1e-9, atol=1e-9)


@settings(max_examples=40)
@given(scaling=scalings())
def test_the_gradient_by_the_factors_equals_finite_differences(scaling):
    problem, alpha = scaling
    offsets, scores, gold, weights = problem.structure.offsets, problem.scores, problem.gold, problem.weights
    chain, criterion, step = Chain(offsets), make_criterion("cll"), 1e-5

    def at(factors):
        return criterion.evaluate(chain, scaled(chain, scores, factors), gold, weights)

    gradient = scaling_gradient(chain, scores, alpha, at(alpha)[1])
    assert gradient.shape == alpha.shape
    for j in range(len(alpha)):
        move = step * (np.arange(len(alpha)) == j)
        slope = (at(alpha + move)[0].sum() - at(alpha - move)[0].sum()) / (2 * step)
        assert gradient[j] == pytest.approx(slope, rel=1e-5, abs=1e-5)
