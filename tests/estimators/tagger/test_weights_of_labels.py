"""Weights of labels, and features that are frequent enough: their equations, by hand and by finite differences."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear import Tagger
from loglinear.errors import OptionError


def data_of(seed, n=6):
    rng = np.random.default_rng(seed)
    X = [[{f"a{rng.integers(5)}": float(rng.normal()), "b": True} for _ in range(rng.integers(1, 6))] for _ in range(n)]
    return X, [[str(rng.choice(["A", "B", "C"], p=[0.7, 0.2, 0.1])) for _ in x] for x in X]


def by_hand(y, class_weight, sample_weight):
    """The equation of the guide."""
    if class_weight == "balanced":
        counts = Counter()
        for labels, weight in zip(y, sample_weight, strict=True):
            for label in labels:
                counts[label] += weight
        total = sum(counts.values())
        class_weight = {label: total / (len(counts) * n) for label, n in counts.items()}
    return [
        weight * np.mean([class_weight.get(label, 1.0) for label in labels])
        for labels, weight in zip(y, sample_weight, strict=True)
    ]


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), balanced=st.booleans())
def test_the_weight_of_a_sequence_is_the_mean_of_its_labels(seed, balanced):
    X, y = data_of(seed)
    own = np.random.default_rng(seed).uniform(0.5, 2.0, len(X))
    known = set(itertools.chain(*y))
    class_weight = (
        "balanced" if balanced else {label: w for label, w in {"A": 0.25, "C": 4.0}.items() if label in known}
    )
    if not class_weight:
        class_weight = "balanced"
    problem = Tagger(class_weight=class_weight).problem(X, y, sample_weight=own)
    np.testing.assert_allclose(problem.sequence_weights, by_hand(y, class_weight, own), rtol=1e-12)


@pytest.mark.parametrize("criterion", ["cll", "softmax-margin", "risk", "memm", "pseudolikelihood"])
@pytest.mark.parametrize("class_weight", ["balanced", "A=0.5,C=3"])
def test_the_gradient_is_that_of_the_weighted_losses(criterion, class_weight):
    X, y = data_of(4)
    tagger = Tagger(criterion, class_weight=class_weight)
    problem, plain = tagger.problem(X, y), Tagger(criterion).problem(X, y)
    given_weights = {"A": 0.5, "C": 3.0} if "=" in class_weight else class_weight
    own = by_hand(y, given_weights, np.ones(len(X)))
    loss = problem.objective(problem.criterion(criterion), 0.1, 1)
    w = np.random.default_rng(0).normal(size=problem.model.features.n_features)
    value, gradient = loss(w)
    gradient = gradient.copy()
    parts = [Tagger(criterion).problem(X, y, sample_weight=np.eye(len(X))[i]) for i in range(len(X))]
    each = [part.objective(plain.criterion(criterion), 0.0, 1)(w)[0] for part in parts]
    assert value == pytest.approx(np.dot(own, each) + 0.1 * w @ w, rel=1e-10)
    for i in range(0, len(w), 3):
        step = np.zeros_like(w)
        step[i] = 1e-6
        assert gradient[i] == pytest.approx((loss(w + step)[0] - loss(w - step)[0]) / 2e-6, abs=1e-5)


def test_partial_labels_weigh_as_their_mean():
    X = [[{"a": 1.0}, {"b": 1.0}], [{"a": 1.0}]]
    y = [["A", {"A", "B"}], [None]]
    problem = Tagger(class_weight={"A": 2.0, "B": 4.0}).problem(X, y)
    np.testing.assert_allclose(problem.sequence_weights, [2.5, 3.0])


def test_a_weight_is_kept_in_the_file_and_moves_training(data):
    X, y = data
    rare = min(set(itertools.chain(*y)), key=lambda label: sum(label in labels for labels in y))
    tagger = Tagger(template="words", class_weight={rare: 50.0}).fit(X, y)
    again = Tagger.load(tagger.to_bytes())
    assert again.class_weight == {rare: 50.0}
    plain = Tagger(template="words").fit(X, y)
    assert sum(map(sum, [[m[rare] for m in each] for each in tagger.predict_marginals(X)])) > sum(
        map(sum, [[m[rare] for m in each] for each in plain.predict_marginals(X)])
    )


@pytest.mark.parametrize(("given_weight", "message"), [
    ("often", "is not LABEL=WEIGHT"), ({"Z": 2.0}, "'Z' is not a label"), ({"A": -1.0}, "not a number from 0 up"),
    ({"A": "x"}, "not a number"), ("A=1,A=2", "names 'A' twice"), ({}, "names no label"), (3, "is not 'balanced'"),
    ({"A": float("inf")}, "not a number"), ({"A": 0.0, "B": 0.0, "C": 0.0}, "nothing to learn from"),
])  # fmt: skip
def test_weights_that_make_no_sense(given_weight, message):
    with pytest.raises(OptionError, match=message):
        Tagger(class_weight=given_weight).fit(*data_of(4))


# -- frequent features ------------------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 1000), least=st.sampled_from([1.0, 1.5, 2.0, 3.0]), states=st.sampled_from(["observed", "all"])
)
def test_features_that_are_frequent_enough(seed, least, states):
    X, y = data_of(seed, 10)
    X = [[{name: abs(value) for name, value in token.items()} for token in x] for x in X]
    counts = Counter()
    for x, labels in zip(X, y, strict=True):
        for token, label in zip(x, labels, strict=True):
            for name, value in token.items():
                counts[name, label] += value
        counts.update(itertools.pairwise(labels))
    wanted = {key for key, n in counts.items() if n >= least}
    model = Tagger(min_freq=least, states=states).problem(X, y).model
    assert set(model.named("state")) | set(model.named("transition")) == wanted


def test_frequent_features_of_crfsuite(tmp_path):
    """CRFsuite counts features the same way."""
    pycrfsuite = pytest.importorskip("pycrfsuite")
    X, y = data_of(7, 12)
    trainer = pycrfsuite.Trainer("lbfgs", {"feature.minfreq": 2.0, "c2": 0.5, "max_iterations": 200}, verbose=False)
    for x, labels in zip(X, y, strict=True):
        trainer.append([{k: float(v) for k, v in token.items()} for token in x], labels)
    trainer.train(str(tmp_path / "frequent.crfsuite"))
    opened = pycrfsuite.Tagger()
    opened.open(str(tmp_path / "frequent.crfsuite"))
    info = opened.info()
    model = Tagger(min_freq=2.0).problem(X, y).model
    assert set(model.named("state")) == set(info.state_features)
    assert set(model.named("transition")) == set(info.transitions)


def test_frequency_needs_known_labels_and_leaves_something():
    with pytest.raises(OptionError, match="leaves no feature"):
        Tagger(min_freq=1e6).fit(*data_of(2))
    with pytest.raises(OptionError, match="every token needs one label"):
        Tagger(min_freq=2).fit([[{"a": 1}, {"b": 1}]] * 2, [["A", None], ["B", "A"]])
    with pytest.raises(OptionError, match="min_freq"):
        Tagger("hmm", min_freq=2).fit([[("a",), ("b",)]], [["A", "B"]])
