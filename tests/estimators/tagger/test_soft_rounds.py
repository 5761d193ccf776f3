"""Rounds of soft EM with the M-estimator: expected counts, an objective that never rises, and everything around it."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear import Tagger
from loglinear.generative.m_estimation import MEstimationObjective, sentence_counts
from loglinear.structures.chain.structure import Chain

TEMPLATE = "U0:%x[0,0]\nU1:%x[-1,0]\nB\n"
LABELS = ["X", "Y", "Z"]


def hidden(labels, share, rng):
    """The labels with some of them unknown, or one of two."""
    return [[None if rng.random() < share else {y, "X"} if rng.random() < share else y for y in row] for row in labels]


def tiny(seed, share=0.5, n=6):
    """Short sequences of few values, with labels of which some are hidden."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 5, n)
    y = [[LABELS[k] for k in rng.integers(0, 3, t)] for t in lengths]
    X = [[str(rng.choice(["a", "b", label])) for label in row] for row in y]
    y[0], X[0] = LABELS, ["a", "b", "Y"]  # every label is known somewhere
    return X, [y[0], *hidden(y[1:], share, rng)]


def objective_by_enumeration(problem, weights, l2, base_counts):
    """L(w), and the expected counts [S, D] with the log factors [S], labelling by labelling."""
    model, corpus, mask = problem.model, problem.encoded, problem.gold.mask(len(problem.model.states))
    losses, counts, factors = [], [], []
    for i in range(corpus.n_sequences):
        lo, hi = corpus.offsets[i : i + 2].tolist()
        scores = model.with_weights(0.0 * weights).part_scores(corpus, i, i + 1)
        found, base = [], []
        for labels in product(*(np.flatnonzero(mask[t]) for t in range(lo, hi))):
            whole = np.zeros(corpus.n_positions, dtype=np.int32)
            whole[lo:hi] = labels
            found.append(sentence_counts(model.features, corpus, whole)[i].toarray().ravel())
            base.append(Chain([0, hi - lo]).score(scores, whole[lo:hi])[0])
        found, base = np.array(found), np.array(base)
        prior = np.exp(base - np.logaddexp.reduce(base))
        tilt = found @ weights
        g = np.log(prior @ np.exp(tilt))
        posterior = prior * np.exp(tilt - g)
        losses.append(np.exp(-g))
        counts.append(posterior @ found)
        factors.append(np.sum(posterior[posterior > 0] * np.log((posterior / prior)[posterior > 0])))
    shares = np.ones(len(losses)) if problem.sequence_weights is None else problem.sequence_weights
    value = np.average(losses, weights=shares) + weights @ base_counts + l2 * weights @ weights
    return value, np.array(counts), np.array(factors)


@settings(max_examples=8)
@given(
    seed=st.integers(0, 2**32 - 1),
    order=st.sampled_from([1, 2]),
    pairs=st.booleans(),
    sub_labels=st.sampled_from([1, 2]),
    base=st.sampled_from(["hmm", "empirical", "locally-uniform"]),
    input_only=st.booleans(),
)
def test_expected_counts_and_objective_are_those_of_all_labellings(seed, order, pairs, sub_labels, base, input_only):
    X, y = tiny(seed, n=4)
    tagger = Tagger(
        criterion=f"m-estimation:em=soft,input_only={'yes' if input_only else 'no'}",
        template=TEMPLATE, order=order, pair_features=pairs, sub_labels=sub_labels, base=base,
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    problem = tagger.problem(X, y, sample_weight=rng.random(len(X)) + 0.1)
    base_counts = problem.base_counts(None, 1)
    weights = rng.normal(scale=0.7, size=problem.model.features.n_features)
    value, counts, factors = objective_by_enumeration(problem, weights, 0.3, base_counts)
    found = problem.expected(weights, 1)
    np.testing.assert_allclose(found.counts.toarray(), counts, atol=1e-9)
    np.testing.assert_allclose(found.log_factors, factors, atol=1e-9)
    bound = MEstimationObjective(
        found.counts, base_counts, 0.3, problem.sequence_weights, log_factors=found.log_factors
    )
    assert bound(weights)[0] == pytest.approx(value)
    for _ in range(3):  # elsewhere it is an upper bound
        other = weights + rng.normal(scale=rng.choice([0.1, 1.0]), size=len(weights))
        assert bound(other)[0] >= objective_by_enumeration(problem, other, 0.3, base_counts)[0] - 1e-9
    step, f = 1e-6, rng.integers(len(weights))
    up, down = (bound(weights + sign * step * (np.arange(len(weights)) == f))[0] for sign in (1, -1))
    assert bound(weights)[1][f] == pytest.approx((up - down) / (2 * step), abs=1e-4)


@settings(max_examples=10)
@given(
    seed=st.integers(0, 2**32 - 1),
    share=st.sampled_from([0.2, 0.6, 1.0]),
    order=st.sampled_from([1, 2]),
    sub_labels=st.sampled_from([1, 2]),
    base=st.sampled_from(["hmm", "empirical", "locally-uniform"]),
    variance=st.sampled_from([0.3, 3.0]),
    optimizer=st.sampled_from(["lbfgs", "newton"]),
    max_iter=st.sampled_from([1, 3, 50]),
)
def test_soft_rounds_never_raise_the_objective(seed, share, order, sub_labels, base, variance, optimizer, max_iter):
    X, y = tiny(seed, share)
    options = {
        "template": TEMPLATE, "order": order, "sub_labels": sub_labels, "base": base, "variance": variance,
        "optimizer": optimizer, "max_iter": max_iter,
    }  # fmt: skip
    problem = Tagger(criterion="m-estimation:em=soft", **options).problem(X, y)
    base_counts, values = problem.base_counts(None, 1), []
    for rounds in (1, 2, 4):
        tagger = Tagger(criterion=f"m-estimation:em=soft,rounds={rounds}", precision="float64", **options).fit(X, y)
        weights = problem.model.weights_from(tagger.model_)
        found = problem.expected(weights, 1)
        bound = MEstimationObjective(found.counts, base_counts, 0.5 / variance, log_factors=found.log_factors)
        values.append(bound(weights)[0])  # where it is the objective itself
        assert tagger.objective_ >= values[-1] - 1e-9  # the last round's bound
    assert np.diff(values).max() < 1e-9
    shown = [progress.objective for progress in tagger.history_]
    assert np.diff(shown).max(initial=0.0) < 1e-9


def test_hard_and_soft_are_the_same_where_the_posterior_is_settled(data):
    X, y = data
    partly = [[{"I-NP", "I-VP"} if label == "I-NP" else label for label in row] for row in y]
    options = {"template": "words", "l2": 0.1, "constraints": "bio", "precision": "float64", "tolerance": 1e-7}
    hard, soft = (
        Tagger(criterion=f"m-estimation:em={em},rounds=2", **options).fit(X, partly) for em in ("hard", "soft")
    )
    problem = hard.problem(X, partly)
    assert (problem.gold.allowed.sum(axis=1) > 1).any()  # what follows B-NP or I-NP inside a phrase can only be I-NP
    found = problem.expected(problem.model.weights_from(hard.model_), 1)
    labels = problem.completed(problem.model.weights_from(hard.model_), 1)
    assert abs(found.counts - problem.model.counts(problem.encoded, labels)).max() < 1e-9
    assert found.log_factors.max() < 1e-9
    assert soft.objective_ == pytest.approx(hard.objective_, abs=1e-6)
    np.testing.assert_allclose(soft.model_.weights, hard.model_.weights, atol=1e-2)


@pytest.mark.parametrize("sub_labels", [1, 2])
def test_threads_weights_files_and_dev_data(data, more_data, sub_labels):
    X, y = data
    partly = hidden(y, 0.3, np.random.default_rng(1))
    options = {
        "criterion": "m-estimation:em=soft,rounds=3,transition_smoothing=0.1", "template": "words", "variance": 3.0,
        "sub_labels": sub_labels, "max_iter": 20,
    }  # fmt: skip
    one, two = (Tagger(threads=n, **options).fit(X, partly, sample_weight=[1.0, 2.0] * 30) for n in (1, 2))
    assert one.to_bytes() == two.to_bytes() and one.score(*more_data) > 0.85
    again = Tagger.load(one.to_bytes())
    assert again.criterion == options["criterion"] and again.predict(more_data[0]) == one.predict(more_data[0])
    assert np.isfinite(one.log_prob(X[:5], partly[:5], normalised=False)).all()
    best = Tagger(**options).fit(X, partly, *more_data)
    assert best.dev_score_ >= one.score(*more_data) - 0.05 and {p.phase for p in best.history_} >= {"round 1", "main"}
    sparse = Tagger(l1=0.02, **options).fit(X, partly)
    assert sparse.model_.features.n_features < one.model_.features.n_features


def test_the_message_has_the_objective_of_each_round(data):
    X, partly = data[0], hidden(data[1], 0.3, np.random.default_rng(2))
    tagger = Tagger(criterion="m-estimation:em=soft,rounds=3", template="words", l2=0.1).fit(X, partly)
    shown = tagger.message_.partition("objective by round ")[2]
    ends = {progress.phase: progress.objective for progress in tagger.history_}
    assert shown == ", ".join(f"{value:.4f}" for value in ends.values())
    known = Tagger(criterion="m-estimation:em=soft", template="words", l2=0.1).fit(*data)
    assert "by round" not in known.message_ and known.message_.endswith("so em='soft' has no effect")


def test_rounds_end_when_the_objective_stays(data):
    X, partly = data[0], hidden(data[1], 0.05, np.random.default_rng(3))
    options = {"template": "words", "l2": 1.0, "tolerance": 1e-7}
    few, many = (Tagger(criterion=f"m-estimation:em=soft,rounds={n}", **options).fit(X, partly) for n in (40, 400))
    phases = {progress.phase for progress in many.history_}
    assert len(phases) < 40 and many.n_iter_ == few.n_iter_
    assert many.model_.weights.tobytes() == few.model_.weights.tobytes()
