"""Chains with many labels: sums and passes over lists are those over all transitions, whatever the constraints."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear import Tagger
from loglinear.criteria.costs import Cost, make_cost
from loglinear.features.block import FeatureBlock
from loglinear.kernels.lanes import width_of
from loglinear.optimizers.dual.chain import DualAscent, _start
from loglinear.structures.chain import steps, wide
from loglinear.structures.chain.features import ChainFeatures, Penalties
from loglinear.structures.chain.steps import (
    blank_factors,
    constant_factor,
    go_back,
    go_forth,
    make_steps,
    set_factors,
)  # fmt: skip
from loglinear.structures.chain.structure import Chain, ChainScores
from loglinear.structures.constraints import SCHEMES, Constraints
from problems.chain import chain_objectives


def labels_of(scheme, n_types):
    return [
        "O",
        *(f"{prefix}-{kind}" for prefix in SCHEMES[scheme].prefixes if prefix != "O" for kind in range(n_types)),
    ]


@st.composite
def penalties(draw, n_labels):
    """Constraints of every kind: none, a scheme, pairs that are ruled out, the only pairs that are allowed."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scheme = draw(st.sampled_from([None, *SCHEMES]))
    labels = [f"label {y}" for y in range(n_labels)] if scheme is None else labels_of(scheme, n_labels)[:n_labels]
    n = len(labels)
    pairs = [(labels[a], labels[b]) for a, b in rng.integers(0, n, (draw(st.integers(0, 6)), 2)).tolist()]
    allowed = draw(st.sampled_from([None, 0.5]))
    only = None if allowed is None else [(a, b) for a in labels for b in labels if rng.random() < allowed]
    starts = draw(st.sampled_from([None, labels[: max(1, n // 2)]]))
    return (
        Penalties.of(Constraints(scheme, pairs, only, starts).rules(labels)),
        Constraints(scheme, pairs, only, starts),
        labels,
    )


@st.composite
def transitions(draw):
    """Transitions with weights under constraints, and numbers to be summed over."""
    n = draw(st.integers(1, 20))
    rules, _, _ = draw(penalties(n))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    codes = np.flatnonzero(rng.random(n * n) < draw(st.sampled_from([0.0, 0.2, 1.0]))).astype(np.int32)
    block = FeatureBlock(np.zeros(1, np.int64), np.zeros(0, np.int32), n)
    features = ChainFeatures(n, 1, block, None, codes, np.zeros(0, np.int32))
    weights = (rng.normal(size=len(codes)) * draw(st.sampled_from([0.5, 3.0, 15.0]))).astype(np.float32)
    values = rng.random(n) * (rng.random(n) < draw(st.sampled_from([0.1, 0.5, 1.0])))
    values **= draw(st.sampled_from([1.0, 12.0]))  # nearly all on one label
    return features, rules, weights, values.astype(np.float32), draw(st.sampled_from([0.0, 0.3]))


@settings(max_examples=300, deadline=None)
@given(transitions())
def test_sums_over_lists_are_those_over_the_matrix(problem):
    features, rules, weights, values, less = problem
    n, listed = features.n_labels, make_steps(features, rules)
    factors = blank_factors(listed)
    top = float(set_factors(weights, np.float32(less), listed, width_of(8), factors))
    matrix = np.zeros(n * n)
    matrix[features.transitions] = np.sign(weights) * np.maximum(np.abs(weights) - np.float32(less), 0.0)
    matrix = np.exp(matrix.reshape(n, n) + rules.transition - top)
    matrix[matrix < np.exp(-60.0)] = 0.0
    constant, out = constant_factor(np.float32(top)), np.zeros(n)
    if top > 59.0:
        return
    go_forth(values, constant, factors, listed, out)
    np.testing.assert_allclose(out, values @ matrix, rtol=1e-5, atol=1e-25)
    assert np.all(out >= 0.0) and np.all(out[(values @ matrix) == 0.0] == 0.0)
    other, pairs = values[::-1].copy(), np.zeros(len(listed.features), np.float32)
    go_back(other, constant, factors, listed, values, pairs, out)
    np.testing.assert_allclose(out, matrix @ other, rtol=1e-5, atol=1e-25)
    expected = (values[:, None] * other)[listed.before.others, np.repeat(np.arange(n), np.diff(listed.before.pointer))]
    np.testing.assert_allclose(pairs, expected, rtol=1e-5, atol=1e-30)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 12).flatmap(penalties))
def test_rules_are_what_the_constraints_say(found):
    rules, constraints, labels = found
    n, scheme = len(labels), constraints.scheme
    for a, before in enumerate(labels):
        for b, after in enumerate(labels):
            allowed = (before, after) not in constraints.forbidden
            allowed &= constraints.allowed is None or (before, after) in constraints.allowed
            if scheme is not None:
                parts = [(label[0], label[2:]) for label in (before, after)]
                allowed &= SCHEMES[scheme].may_follow(*parts)
            assert rules.rules.allowed(np.array([a * n + b]))[0] == allowed
            assert (rules.transition[a, b] == 0.0) == allowed
    split = rules.split(3)
    assert np.array_equal(split.transition, np.repeat(np.repeat(rules.transition, 3, 0), 3, 1))
    assert np.array_equal(split.rules.masks()[0], split.transition == 0.0)
    from_matrix = Penalties(rules.transition, rules.start, rules.stop)
    assert np.array_equal(from_matrix.rules.masks()[0], rules.rules.masks()[0])


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9).flatmap(penalties), st.integers(0, 2**32 - 1))
def test_a_labelling_is_possible_if_its_score_is(found, seed):
    rules, _, labels = found
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 5, 6))]).astype(np.int64)
    chosen = rng.integers(0, len(labels), int(offsets[-1])).astype(np.int32)
    expected = Chain(offsets).score(rules.scores(int(offsets[-1])), chosen)
    assert np.array_equal(rules.of_labelling(offsets, chosen), expected)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 7), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.3, 1.0]))
def test_costs_as_lists_are_the_table(n, seed, share):
    rng = np.random.default_rng(seed)
    table = np.where(rng.random((4, n, n)) < share, rng.random((4, n, n)), 2.0) * (1.0 - np.eye(n))
    assert np.array_equal(Cost(Cost(table).lists).table, table)


@pytest.mark.parametrize("spec", ["hamming:0.7", "recall:0.1", "precision:3", "balanced", {"B-X": {"O": 0.3}}])
def test_named_costs_never_make_the_table(spec):
    labels, counts = ["B-X", "I-X", "O"], np.array([3, 5, 9])
    cost = make_cost(spec, labels, counts)
    lists = cost.lists
    assert "table" not in vars(cost)
    assert np.array_equal(Cost(cost.table).lists.usual.shape, lists.usual.shape)
    assert np.array_equal(Cost(lists).table, cost.table) and np.all(cost.table[:, range(3), range(3)] == 0.0)


# -- pruning -----------------------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(chain_objectives(), st.integers(1, 4))
def test_a_bound_that_no_label_is_below_changes_nothing(objective, passes):
    zero = np.zeros(objective.features.n_features)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "FEWEST_LABELS", 1)
        patch.setattr(steps, "MOST_LISTED", 1.0)
        whole = DualAscent(max_iter=passes, tolerance=0.0).minimise(objective, zero).state
        pruned = DualAscent(max_iter=passes, tolerance=0.0, prune=1e-30).minimise(objective, zero).state
    assert np.array_equal(whole.weights, pruned.weights) and whole.value == pruned.value


@settings(max_examples=30, deadline=None)
@given(chain_objectives(), st.sampled_from([1e-4, 1e-2, 0.3]))
def test_pruning_loses_little_or_nothing_is_pruned(objective, bound):
    """Losses are at most as far below those in full as the guard allows, at the same weights."""
    layout, n = objective.wide_layout(), objective.corpus.n_sequences
    rng = np.random.default_rng(0)
    found = []
    weights = layout.lay_out(2.0 * rng.normal(size=objective.features.n_features))
    for least in (0.0, bound):
        state, kept = _start(layout), np.zeros(n, dtype=np.int64)
        losses, gaps = np.zeros(n), np.zeros(n)
        for i in range(n):  # each from the same weights
            wide.dual_pass(
                np.array([i]), layout.corpus, layout.copy(weights), layout.n_labels, layout.lanes, 0.0, 1.0, 1.0, True,
                state.alpha, state.alpha_transitions, state.overlaps, losses, gaps, least, kept,
            )  # fmt: skip
        found.append((losses, kept))
    (whole, _), (pruned, kept) = found
    weight = objective.sequence_weights
    lengths = np.diff(objective.corpus.offsets)
    assert np.all((kept == -1) | ((kept >= lengths) & (kept <= lengths * layout.n_labels)))
    assert np.all(pruned <= whole + 1e-3 * (1.0 + np.abs(whole)))
    in_full = kept == -1
    np.testing.assert_allclose(pruned[in_full], whole[in_full], rtol=1e-5, atol=1e-5)
    accepted = ~in_full & np.isfinite(whole)
    assert np.all((whole - pruned)[accepted] <= (1.1e-3 * weight + 1e-4 * (1.0 + np.abs(whole)))[accepted])


@settings(max_examples=100, deadline=None)
@given(chain_objectives(labels=st.sampled_from([3, 9, 30])), st.sampled_from([1e-4, 1e-2, 0.1, 0.3]), st.data())
def test_what_pruning_loses_is_never_more_than_its_bound(objective, least, data):
    layout, rng = objective.wide_layout(), np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    size = data.draw(st.sampled_from([0.5, 2.0]))
    weights = layout.lay_out(size * rng.normal(size=objective.features.n_features))
    corpus, zero, n_labels = layout.corpus, np.float32(0.0), layout.n_labels
    for i in range(objective.corpus.n_sequences):
        first, n = corpus.offsets[i], int(corpus.offsets[i + 1] - corpus.offsets[i])
        work = wide._workspace(corpus, np.array([i]), True)
        top = set_factors(weights.transition, zero, corpus.steps, layout.lanes, work.factors)
        wide._set_scores(first, corpus, weights.lists, zero, work.forward[:n])
        wide._set_emissions(first, corpus, weights.transition, zero, layout.lanes, work.forward[:n], work.emission[:n])
        wide._prune(first, corpus.gold, np.float32(least), work.emission[:n], work.full)
        kept = work.emission[:n, :n_labels] > 0.0
        logs, lost = wide._forward(n, constant_factor(top), corpus.steps, work, work.full)
        if np.isnan(logs):
            continue
        transition = np.zeros(n_labels**2)
        transition[objective.features.transitions] = weights.transition
        matrix = transition.reshape(n_labels, n_labels) + objective.penalties.transition
        with np.errstate(divide="ignore"):
            emission = np.log(work.full[:n, :n_labels].astype(np.float64))
        chain, zeros = Chain([0, n]), np.zeros(n_labels)
        scores = ChainScores(emission, matrix, zeros, zeros)
        log_z, log_kept = chain.log_partition(scores)[0], chain.log_partition(chain.restrict(scores, kept))[0]
        really = -np.expm1(log_kept - log_z)
        assert really <= lost + 1e-5
        if not matrix.any():  # labels go on alike: nothing is lost to the bound
            assert lost == pytest.approx(really, abs=1e-4)
        assert kept.all() == (lost == 0.0) or not (work.full[:n, :n_labels] > 0.0).all()


def test_what_was_pruned_is_said():
    rng = np.random.default_rng(0)
    X = [[[f"w{k}", f"x{k % 7}"] for k in rng.integers(0, 90, 8).tolist()] for _ in range(60)]
    y = [[f"label {token[0][1:]}" for token in x] for x in X]
    tagger = Tagger(optimizer="dual:prune=0.001", l2=0.01).fit(X, y)
    assert "of the labels" in tagger.message_ and "of 60 sequences done in full" in tagger.message_
    assert tagger.score(X, y) == 1.0
