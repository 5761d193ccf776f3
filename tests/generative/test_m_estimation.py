"""M-estimation: its objective, its consistency, and the identity it rests on."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear import Tagger
from loglinear.data.columns.corpus import Column, Columns
from loglinear.generative.base import HmmBase
from loglinear.generative.hmm.model import HiddenMarkovModel
from loglinear.generative.m_estimation import MEstimationObjective, sentence_counts
from loglinear.optimizers.objective import Objective
from loglinear.optimizers.optimizer import make_optimizer
from loglinear.structures.chain.structure import Chain

TEMPLATE = "U0:%x[0,0]\nU1:%x[-1,0]\nU2:%x[0,0]/%x[1,0]\nB\n"
VALUES = ["a", "b", "c"]


def corpus_of(fields, labels, offsets):
    columns = [Column(fields[0].astype(np.int32), VALUES), Column(labels.astype(np.int32), ["X", "Y"])]
    return Columns("<test>", offsets, np.zeros(len(labels), dtype=np.int64), columns)


def short_model():
    """A hidden Markov model over two labels and three values, of sequences that are short on the whole."""
    steps = np.array([[0.2, 0.3, 0.5], [0.25, 0.15, 0.6], [0.6, 0.4, 0.0]])
    return HiddenMarkovModel(1, 2, steps, [np.array([[0.5, 0.3, 0.2], [0.1, 0.3, 0.6]])])


def problem_of(n, seed=0, **options):
    rng = np.random.default_rng(seed)
    fields, labels, offsets = short_model().sample(n, rng)
    return Tagger(criterion="m-estimation", template=TEMPLATE, **options).problem(corpus_of(fields, labels, offsets))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), order=st.sampled_from([1, 2]), pairs=st.booleans(), weighted=st.booleans())
def test_the_sparse_objective_is_the_criterion_in_score_space_plus_the_linear_term(seed, order, pairs, weighted):
    rng = np.random.default_rng(seed)
    problem = problem_of(12, seed, order=order, pair_features=pairs)
    features, n = problem.model.features, problem.encoded.n_sequences
    weights = rng.normal(scale=0.3, size=features.n_features)
    expected = rng.random(features.n_features)
    shares = rng.random(n) + 0.1 if weighted else np.ones(n)
    objective = MEstimationObjective(
        sentence_counts(features, problem.encoded, problem.gold.labels), expected, 0.7, shares
    )
    criterion = problem.criterion("m-estimation")
    by_score = Objective(
        features, problem.encoded, problem.gold, criterion, problem.model.penalties, 0.7, shares / shares.sum()
    )
    value, gradient = objective(weights)
    other, other_gradient = by_score(weights)
    assert value == pytest.approx(other + weights @ expected)
    np.testing.assert_allclose(gradient, other_gradient + expected, atol=1e-10)
    step = 1e-6
    for f in rng.choice(features.n_features, size=min(5, features.n_features), replace=False):
        moved = weights.copy()
        moved[f] += step
        up = objective(moved)[0]
        moved[f] -= 2 * step
        assert gradient[f] == pytest.approx((up - objective(moved)[0]) / (2 * step), abs=1e-5)
    hessian = objective.hessian(weights)
    moved = weights + step * expected
    np.testing.assert_allclose((objective(moved)[1] - gradient) / step, hessian @ expected, rtol=1e-3, atol=1e-3)


def test_an_overflow_is_an_infinite_value_that_optimizers_step_back_from():
    problem = problem_of(20)
    objective = problem.objective(problem.criterion("m-estimation"), 0.1, 1)
    value, gradient = objective(np.full(problem.model.features.n_features, -1e4))
    assert value == np.inf and np.isfinite(gradient).all()
    start = np.full(problem.model.features.n_features, -3.0)
    weights = make_optimizer("lbfgs", max_iter=200, tolerance=1e-9, seed=0).minimise(objective, start).weights
    again = make_optimizer("newton", max_iter=50, tolerance=1e-9, seed=0).minimise(objective, 0.0 * start).weights
    np.testing.assert_allclose(weights, again, atol=1e-3)


def all_pairs(longest):
    """Every labelled sequence of up to ``longest`` positions over the small model's labels and values."""
    for length in range(1, longest + 1):
        for labels in product(range(2), repeat=length):
            for values in product(range(3), repeat=length):
                yield np.array(values, dtype=np.int32), np.array(labels, dtype=np.int32)


def everything(longest=4):
    """All short sequences as one corpus, with q0 of each, scaled to add up to one."""
    pairs = list(all_pairs(longest))
    offsets = np.concatenate([[0], np.cumsum([len(y) for _, y in pairs])]).astype(np.int64)
    values, labels = (np.concatenate([pair[k] for pair in pairs]) for k in range(2))
    q0 = np.exp(Chain(offsets).score(short_model().scores([values], offsets), labels))
    return values, labels, offsets, q0 / q0.sum()


@pytest.fixture(scope="module")
def finite():
    """A finite world: all sequences, q0 over them, feature counts, and true weights with the p they make."""
    values, labels, offsets, q0 = everything()
    problem = Tagger(criterion="cll", template="U0:%x[0,0]\nB\n").problem(corpus_of([values], labels, offsets))
    counts = sentence_counts(problem.model.features, problem.encoded, problem.gold.labels)
    true = np.random.default_rng(5).normal(scale=0.7, size=counts.shape[1])
    p = q0 * np.exp(counts @ true)
    return counts, q0, true, p / p.sum()


def test_the_estimate_approaches_the_truth_as_data_grows(finite):
    """Consistency: the fitted p comes ever closer to the p that the data is drawn from."""
    counts, q0, _, p = finite
    expected = counts.T @ q0
    distances = []
    for n in (100, 2_000, 40_000):
        gaps = []
        for seed in range(3):
            drawn = np.random.default_rng([n, seed]).multinomial(n, p)
            seen = np.flatnonzero(drawn)
            objective = MEstimationObjective(counts[seen], expected, 1e-4, drawn[seen].astype(np.float64))
            start = np.zeros(counts.shape[1])
            w = make_optimizer("newton", max_iter=100, tolerance=1e-9, seed=0).minimise(objective, start).weights
            fitted = q0 * np.exp(counts @ w)
            gaps.append(float(np.abs(fitted / fitted.sum() - p).sum()))
        distances.append(np.mean(gaps))
    assert distances[0] > distances[1] > distances[2] and distances[2] < 0.03


def test_the_loss_is_a_generalised_divergence_up_to_a_constant(finite):
    """Section 3: E_p*[exp(-w.f)] + E_q0[w.f] = D(q0 || p* exp(-w.f)) + a constant, D the generalised KL divergence."""
    counts, q0, _, p = finite
    rng = np.random.default_rng(0)

    def divergence(w):
        other = p * np.exp(-(counts @ w))
        return float(np.sum(q0 * np.log(q0 / other) - q0 + other))

    def loss(w):
        return float(p @ np.exp(-(counts @ w)) + (counts.T @ q0) @ w)

    differences = [loss(w) - divergence(w) for w in rng.normal(scale=0.5, size=(6, counts.shape[1]))]
    assert np.ptp(differences) < 1e-9


def test_bases_as_counted():
    labels, offsets = np.array([0, 0, 1, 1, 0], dtype=np.int32), np.array([0, 3, 5], dtype=np.int64)
    corpus = corpus_of([np.array([0, 0, 1, 0, 2])], labels, offsets)
    base, replaced = HmmBase.fit("locally-uniform", corpus, [0], labels, 2, 2)
    assert base.vocabulary.values == [["a", "<unknown>"]]  # what occurs once is not known
    assert replaced.columns[0].ids.tolist() == [1, 0, 1, 0, 1]  # and first occurrences are not, either
    np.testing.assert_allclose(base.model.emissions[0], [[3 / 7, 4 / 7]] * 2)
    np.testing.assert_allclose(base.model.steps, [[1 / 3] * 3, [0.5, 0.0, 0.5], [0.5, 0.5, 0.0]])
    assert base.prepare(corpus).columns[0].ids.tolist() == [0, 0, 1, 0, 1]


def test_the_expectations_over_training_inputs_are_those_of_posteriors():
    problem = problem_of(30, base="empirical")
    model = problem.model
    expected = model.base.expected(model.encoder, model.features, problem.encoded, None, 2)
    marginals = model.with_weights(np.zeros(model.features.n_features)).marginals(problem.encoded)
    block = model.features.state
    by_hand = np.zeros(block.n_features)
    for t in range(problem.encoded.n_positions):
        for j in range(problem.encoded.state.pointer[t], problem.encoded.state.pointer[t + 1]):
            a = problem.encoded.state.ids[j]
            for f in range(block.pointer[a], block.pointer[a + 1]):
                by_hand[f] += marginals[t, block.codes[f]]
    np.testing.assert_allclose(expected[: block.n_features], by_hand / 30, atol=1e-10)
