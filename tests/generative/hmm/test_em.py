"""EM against enumeration, counting and the models that data was drawn from."""

from itertools import pairwise, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.generative.em import EM, climbed
from loglinear.generative.hmm.em import (
    Expectation,
    expected_counts,
    known_counts,
    perturbed,
    random_start,
    start_from,
)
from loglinear.generative.hmm.model import Counts, HiddenMarkovModel, possible_steps
from loglinear.structures.chain.structure import Chain
from loglinear.structures.gold import Gold
from problems.hmm import SIZES, cut, probability, random_model


def some_gold(rng, labels, n_labels, share):
    """The labels, but a ``share`` of them hidden or only narrowed down to two or so."""
    allowed = (np.arange(n_labels) == labels[:, None]).astype(np.uint8)
    vague = rng.random(len(labels)) < share
    allowed[vague] |= (rng.random((int(vague.sum()), n_labels)) < 0.7).astype(np.uint8)
    settled = np.where(allowed.sum(axis=1) == 1, labels, -1).astype(np.int32)
    return Gold(settled, allowed)


@st.composite
def problems(draw):
    """A generator, data of a random model, what is known of its labels, weights and the options of EM."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_labels, order = draw(st.integers(1, 3)), draw(st.sampled_from([1, 2]))
    fields, labels, offsets = random_model(rng, n_labels, order).sample(draw(st.integers(1, 12)), rng)
    gold = some_gold(rng, labels, n_labels, draw(st.sampled_from([0.2, 0.7, 1.0])))
    weights = rng.integers(0, 4, len(offsets) - 1).astype(float) if draw(st.booleans()) else None
    if weights is not None:
        weights[0] = 1.0
    options = {
        "weights": weights,
        "smoothing": draw(st.sampled_from([0.0, 0.5, 1.0])),
        "transition_smoothing": draw(st.sampled_from([0.0, 0.1])),
    }
    return rng, n_labels, order, fields, labels, offsets, gold, options


@settings(max_examples=60)
@given(problem=problems(), from_known=st.booleans())
def test_every_round_raises_the_objective(problem, from_known):
    rng, n_labels, order, fields, _, offsets, gold, options = problem
    data = Expectation(fields, SIZES, offsets, gold, n_labels, order, **options)
    start = random_start(n_labels, order, SIZES, rng)
    if from_known:
        counts = known_counts(fields, SIZES, offsets, gold, n_labels, order, options["weights"])
        start = start_from(counts, [np.ones(size) for size in SIZES])
    objectives = climbed(start, data, max_iter=8, tolerance=0.0)[1].objectives
    assert all(b >= a - 1e-9 * abs(a) for a, b in pairwise(objectives))


@settings(max_examples=40)
@given(problem=problems())
def test_the_objective_is_the_penalised_log_likelihood_of_what_is_observed(problem):
    rng, n_labels, order, fields, _, offsets, gold, options = problem
    model = random_start(n_labels, order, SIZES, rng)
    weights = np.ones(len(offsets) - 1) if options["weights"] is None else options["weights"]
    log_likelihood = 0.0
    for i, weight in enumerate(weights):
        length, first = int(offsets[i + 1] - offsets[i]), int(offsets[i])
        if length > 6:
            return
        total = sum(
            probability(model, labels, cut(fields, offsets, i))
            for labels in product(range(n_labels), repeat=length)
            if all(gold.allowed[first + t, y] for t, y in enumerate(labels))
        )
        log_likelihood += weight * np.log(total)
    prior = options["smoothing"] * sum(np.log(table).sum() for table in model.emissions)
    prior += options["transition_smoothing"] * np.log(model.steps[model.steps > 0]).sum()
    found = Expectation(fields, SIZES, offsets, gold, n_labels, order, **options)(model)
    assert found.log_likelihood == pytest.approx(log_likelihood, rel=1e-8)
    assert found.objective == pytest.approx(log_likelihood + prior, rel=1e-8)


@settings(max_examples=40)
@given(problem=problems(), n_threads=st.sampled_from([1, 2]))
def test_a_weight_is_a_number_of_copies(problem, n_threads):
    rng, n_labels, order, fields, _, offsets, gold, _ = problem
    times = rng.integers(0, 3, len(offsets) - 1)
    times[0] = 2
    copies = np.repeat(np.arange(len(times)), times)
    positions = np.concatenate([np.arange(offsets[i], offsets[i + 1]) for i in copies])
    lengths = np.concatenate([[0], np.diff(offsets)[copies]])
    model = random_start(n_labels, order, SIZES, rng)
    weighted = Expectation(
        fields, SIZES, offsets, gold, n_labels, order, weights=times.astype(float), n_threads=n_threads
    )(model)
    repeated = Expectation(
        [f[positions] for f in fields], SIZES, np.cumsum(lengths).astype(np.int64),
        Gold(gold.labels[positions], gold.allowed[positions]), n_labels, order,
    )(model)  # fmt: skip
    assert weighted.objective == pytest.approx(repeated.objective)
    np.testing.assert_allclose(weighted.counts.steps, repeated.counts.steps, atol=1e-9)
    for mine, theirs in zip(weighted.counts.emissions, repeated.counts.emissions, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-9)


@pytest.mark.parametrize("order", [1, 2])
def test_with_all_labels_known_em_is_counting_in_one_round(order):
    rng = np.random.default_rng(1)
    fields, labels, offsets = random_model(rng, 3, order).sample(30, rng)
    counted = HiddenMarkovModel.estimated(Counts.of(fields, SIZES, labels, offsets, 3, order), 0.5, 0.1)
    allowed = (np.arange(3) == labels[:, None]).astype(np.uint8)
    start = random_start(3, order, SIZES, rng)
    data = Expectation(fields, SIZES, offsets, Gold(labels), 3, order, smoothing=0.5, transition_smoothing=0.1)
    assert data.settled
    found, state = climbed(start, data)
    np.testing.assert_allclose(found.parameters, counted.parameters)
    assert state.iteration == 2  # the second round finds nothing to raise
    # the same by the E step, which is told of one label for each position
    _, counts = expected_counts(start, fields, offsets, Gold(labels, allowed))
    np.testing.assert_allclose(HiddenMarkovModel.estimated(counts, 0.5, 0.1).parameters, counted.parameters, atol=1e-7)


def test_the_counts_are_the_same_for_any_number_of_threads():
    rng = np.random.default_rng(2)
    model = random_model(rng, 3, 1)
    fields, _, offsets = model.sample(4000, rng)
    one, two = (expected_counts(model, fields, offsets, n_threads=n)[1] for n in (1, 2))
    assert offsets[-1] > 8000  # several shards
    assert np.array_equal(one.steps, two.steps)
    assert all(np.array_equal(a, b) for a, b in zip(one.emissions, two.emissions, strict=True))


@pytest.mark.parametrize("order", [1, 2])
def test_known_counts_of_settled_labels_are_the_counts(order):
    rng = np.random.default_rng(3)
    fields, labels, offsets = random_model(rng, 3, order).sample(200, rng)
    weights = rng.random(200)
    expected = Counts.of(fields, SIZES, labels, offsets, 3, order, weights)
    found = known_counts(fields, SIZES, offsets, Gold(labels), 3, order, weights)
    np.testing.assert_allclose(found.steps, expected.steps)
    for mine, theirs in zip(found.emissions, expected.emissions, strict=True):
        np.testing.assert_allclose(mine, theirs)


@settings(max_examples=30)
@given(problem=problems())
def test_known_counts_are_shares_and_unknown_positions_count_nothing(problem):
    """Against the sum over the labels that neighbouring positions are narrowed down to."""
    _, n, order, fields, _, offsets, gold, _ = problem
    found = known_counts(fields, SIZES, offsets, gold, n, order)
    known = [row for row in gold.allowed if n == 1 or row.sum() < n]
    assert sum(table.sum() for table in found.emissions) == pytest.approx(len(SIZES) * len(known))
    share = [row / row.sum() if n == 1 or row.sum() < n else np.zeros(n) for row in gold.allowed.astype(float)]
    steps = np.zeros_like(found.steps)
    for first, end in pairwise(offsets):
        steps[-1, :n] += share[first]
        for t in range(first, end):
            for a, b in product(range(n + 1), range(n)):
                if order == 1:
                    state, p = b, share[t][b] * (a == n)
                else:
                    before = float(a == n) if t == first else (0.0 if a == n else share[t - 1][a])
                    state, p = a * n + b, before * share[t][b]
                steps[state] += p * (np.append(share[t + 1], 0.0) if t + 1 < end else np.eye(n + 1)[n])
    np.testing.assert_allclose(found.steps, steps, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("transition_smoothing", [0.0, 0.5])
def test_what_constraints_rule_out_stays_impossible(order, transition_smoothing):
    rng = np.random.default_rng(5)
    transitions, starts, ends = np.ones((3, 3)), np.array([1, 1, 0]), np.array([1, 0, 1])
    transitions[0, 2] = 0  # as I-NP after O
    possible = possible_steps(transitions, starts, ends, order)
    fields, _, offsets = random_model(rng, 3, order).sample(40, rng)
    n = int(offsets[-1])
    gold = Gold(np.full(n, -1, dtype=np.int32), np.ones((n, 3), dtype=np.uint8))
    data = Expectation(
        fields, SIZES, offsets, gold, 3, order, possible=possible, transition_smoothing=transition_smoothing
    )
    for start in (
        random_start(3, order, SIZES, rng, possible=possible),
        start_from(known_counts(fields, SIZES, offsets, gold, 3, order), [np.ones(s) for s in SIZES], possible),
    ):
        found, state = climbed(perturbed(start, rng, possible), data, max_iter=10)
        assert (found.steps[~possible] == 0.0).all() and (found.steps[possible] > 0.0).any()
        assert all(b >= a - 1e-9 * abs(a) for a, b in zip(state.objectives, state.objectives[1:], strict=False))
        labels = found.sample(300, rng)[1:]
        first, last = labels[0][labels[1][:-1]], labels[0][labels[1][1:] - 1]
        assert not (first == 2).any() and not (last == 1).any()


EASY = HiddenMarkovModel(
    1, 3, np.array([[0.1, 0.6, 0.1, 0.2], [0.1, 0.2, 0.5, 0.2], [0.6, 0.1, 0.1, 0.2], [0.5, 0.25, 0.25, 0.0]]),
    [np.array([[0.9, 0.05, 0.03, 0.02], [0.02, 0.9, 0.04, 0.04], [0.02, 0.03, 0.05, 0.9]])],
)  # fmt: skip


def test_em_from_several_starts_finds_what_is_at_least_as_likely_as_the_truth_and_its_labels():
    fields, labels, offsets = EASY.sample(400, np.random.default_rng(6))
    n = len(labels)
    hidden = Gold(np.full(n, -1, dtype=np.int32), np.ones((n, 3), dtype=np.uint8))
    data = Expectation(fields, [4], offsets, hidden, 3, 1, smoothing=0.0)
    em = EM(lambda i: random_start(3, 1, [4], np.random.default_rng(i)), n_starts=5, max_iter=200, tolerance=1e-7)
    result = em.minimise(data, random_start(3, 1, [4], np.random.default_rng(0)).parameters)
    assert -result.value >= data(EASY).objective
    assert len(result.state.ended) == 5 and -result.value == max(result.state.ended)
    assert "the best of 5 starts" in result.message
    found = EASY.with_parameters(result.weights)
    assert data(found).objective == pytest.approx(-result.value)
    predicted, _ = Chain(offsets).viterbi(found.scores(fields, offsets))
    named = max(permutations(range(3)), key=lambda names: (np.array(names)[predicted] == labels).mean())
    assert (np.array(named)[predicted] == labels).mean() > 0.9
    np.testing.assert_allclose(found.emissions[0], EASY.emissions[0][list(named)], atol=0.1)


def test_hidden_data_makes_a_model_of_few_labels_better():
    rng = np.random.default_rng(7)
    fields, labels, offsets = EASY.sample(600, rng)
    cut_at = int(offsets[8])
    some = Gold(
        np.where(np.arange(len(labels)) < cut_at, labels, -1).astype(np.int32),
        np.where((np.arange(len(labels)) < cut_at)[:, None], np.arange(3) == labels[:, None], True).astype(np.uint8),
    )
    data = Expectation(fields, [4], offsets, some, 3, 1, smoothing=0.1)
    counts = known_counts(fields, [4], offsets, some, 3, 1)
    found, state = climbed(start_from(counts, [np.bincount(fields[0], minlength=4).astype(float)]), data)
    few = HiddenMarkovModel.estimated(data.known, smoothing=0.1)
    error = [np.abs(model.emissions[0] - EASY.emissions[0]).max() for model in (found, few)]
    assert error[0] < error[1] and error[0] < 0.05
    assert state.log_likelihoods[-1] > state.log_likelihoods[0]


def test_a_run_goes_on_from_any_round_as_if_never_stopped():
    rng = np.random.default_rng(8)
    fields, _, offsets = random_model(rng, 3, 1).sample(50, rng)
    n = int(offsets[-1])
    data = Expectation(
        fields, SIZES, offsets, Gold(np.full(n, -1, dtype=np.int32), np.ones((n, 3), dtype=np.uint8)), 3, 1
    )
    em = EM(lambda i: random_start(3, 1, SIZES, np.random.default_rng(i)), n_starts=3, max_iter=6, tolerance=1e-9)
    start = random_start(3, 1, SIZES, np.random.default_rng(0)).parameters
    whole = em.minimise(data, start)
    assert whole.state.iteration == 3 * 6
    for stop in (1, 6, 7, 17, 18):
        half = em.minimise(data, start, callback=lambda now, stop=stop: now.iteration == stop).state
        again = em.minimise(data, start, state=em.restore(half.to_arrays()))
        assert np.array_equal(again.weights, whole.weights) and again.value == whole.value
        assert again.message == whole.message and again.state.iteration == 18
    over = em.minimise(data, start, state=em.restore(whole.state.to_arrays()))
    assert np.array_equal(over.weights, whole.weights) and over.state.ended == whole.state.ended


def test_what_is_not_needed_becomes_zero_and_not_ever_smaller():
    fields, _, offsets = EASY.sample(100, np.random.default_rng(9))
    n = int(offsets[-1])
    gold = Gold(np.full(n, -1, dtype=np.int32), np.ones((n, 4), dtype=np.uint8))
    data = Expectation(fields, [4], offsets, gold, 4, 1, smoothing=0.0)
    found, state = climbed(random_start(4, 1, [4], np.random.default_rng(1)), data, max_iter=500, tolerance=0.0)
    assert (found.parameters == 0.0).any() and found.parameters[found.parameters > 0.0].min() > 1e-24
    assert all(b >= a - 1e-9 * abs(a) for a, b in pairwise(state.objectives))
