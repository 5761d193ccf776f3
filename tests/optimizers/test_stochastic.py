"""Stochastic and online learning: they get where L-BFGS gets, and steps are what their papers say."""

import numpy as np
import pycrfsuite
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import minimize

from loglinear import Tagger
from loglinear.criteria.arow import AdaptiveRegularisation
from loglinear.criteria.costs import Cost
from loglinear.criteria.mira import MarginInfusedRelaxed
from loglinear.criteria.passive_aggressive import PassiveAggressive
from loglinear.optimizers.optimizer import OPTIMIZERS, make_optimizer

NOUNS, VERBS = ("cat", "dog", "bird", "fish"), ("runs", "sees", "eats")


def sentences(n, seed=0):
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        words, labels = [], []
        for _ in range(rng.integers(1, 4)):
            words += [str(rng.choice(NOUNS)), str(rng.choice(VERBS))]
            labels += ["N", "V" if rng.random() < 0.9 else "N"]
        X.append([[f"w={w}", f"p={p}"] for w, p in zip(words, ["", *words[:-1]], strict=True)])
        y.append(labels)
    return X, y


@pytest.fixture(scope="module")
def problem():
    return Tagger().problem(*sentences(40))


def minimised(problem, spec, criterion="cll", l2=0.5, l1=0.0, max_iter=60, seed=0, cost=None):
    objective = problem.objective(problem.criterion(criterion, cost), l2, 1)
    optimizer = make_optimizer(spec, max_iter=max_iter, tolerance=0.0, seed=seed)
    start = np.zeros(problem.model.features.n_features)
    weights = np.array(optimizer.minimise(objective, start, l1=l1).weights)
    return weights, objective(weights)[0] + l1 * np.abs(weights).sum()


@pytest.mark.parametrize(
    "spec", ["sgd", "sgd:average", "sgd:step=0.05", "sgd:step=0.2,decay=1", "adagrad", "adagrad:step=0.3"]
)
@pytest.mark.parametrize("criterion", ["cll", "softmax-margin", "max-margin"])
def test_stochastic_steps_come_near_the_optimum(problem, spec, criterion):
    _, best = minimised(problem, "lbfgs", criterion, max_iter=500)
    _, found = minimised(problem, spec, criterion)
    kink = 0.01 * best if criterion == "max-margin" else 0.0  # on which L-BFGS may end early
    assert best - kink - 1e-6 <= found <= 1.05 * best


@pytest.mark.parametrize("spec", ["sgd", "adagrad"])
def test_an_l1_penalty_makes_weights_exactly_zero(spec):
    X, y = sentences(40)
    X = [[[*token, f"only={i}.{t}"] for t, token in enumerate(x)] for i, x in enumerate(X)]  # tells one token apart
    problem = Tagger().problem(X, y)
    exact, best = minimised(problem, "lbfgs", l2=0.1, l1=1.0, max_iter=500)
    weights, found = minimised(problem, spec, l2=0.1, l1=1.0)
    assert found <= 1.05 * best
    assert (exact == 0.0).mean() > 0.8 and (weights[exact == 0.0] == 0.0).mean() > 0.6


@pytest.mark.parametrize("spec", [name for name in OPTIMIZERS.all() if name not in ("lbfgs", "newton")])
def test_the_order_is_the_seeds(problem, spec):
    criterion, l2 = ("perceptron", 0.0) if spec == "online" else ("cll", 0.5)
    one, again, other = (minimised(problem, spec, criterion, l2, max_iter=2, seed=seed)[0] for seed in (1, 1, 2))
    assert np.array_equal(one, again) and not np.array_equal(one, other)


def perceptron_by_hand(problem, n_passes, average):
    """Collins (2002), straight from the definition, over the same orders."""
    model, encoded, gold = problem.model, problem.encoded, problem.gold
    weights = np.zeros(model.features.n_features)
    total, steps = np.zeros_like(weights), 0
    for iteration in range(1, n_passes + 1):
        for i in np.random.default_rng([0, iteration]).permutation(encoded.n_sequences):
            predicted = model.with_weights(weights).decode(encoded)
            lo, hi = encoded.offsets[i], encoded.offsets[i + 1]
            for labels, sign in ((gold.labels, 1.0), (predicted, -1.0)):
                for t in range(lo, hi):
                    for j in range(encoded.state.pointer[t], encoded.state.pointer[t + 1]):
                        block, a = model.features.state, encoded.state.ids[j]
                        for f in range(block.pointer[a], block.pointer[a + 1]):
                            weights[f] += sign * (block.codes[f] == labels[t])
                    if t > lo:
                        code = labels[t - 1] * 2 + labels[t]
                        place = np.flatnonzero(model.features.transitions == code)
                        weights[block.n_features + place] += sign
            total += weights
            steps += 1
    return total / steps if average else weights


@pytest.mark.parametrize("average", [True, False])
def test_the_perceptron_is_collins(problem, average):
    found, _ = minimised(problem, f"online:average={'yes' if average else 'no'}", "perceptron", 0.0, max_iter=3)
    np.testing.assert_allclose(found, perceptron_by_hand(problem, 3, average), atol=1e-12)


def test_nothing_is_left_to_learn_from_data_that_can_be_told_apart():
    X, y = sentences(30)
    y = [["N" if token[0][2:] in NOUNS else "V" for token in x] for x in X]
    for criterion in ("perceptron", "mira", "passive-aggressive"):
        tagger = Tagger(criterion=criterion, optimizer="online:average=no", max_iter=100).fit(X, y)
        assert tagger.converged_ and "nothing left to learn" in tagger.message_
        assert tagger.score(X, y) == 1.0


@st.composite
def duals(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    k = draw(st.integers(1, 6))
    differences = rng.normal(size=(k, draw(st.integers(1, 8))))
    return rng.normal(size=k) * 3, differences @ differences.T, draw(st.sampled_from([0.01, 0.3, 1.0, 100.0]))


def slow_dual():
    """With a Gram matrix of rank 3: the steps drift along its null space until one of them is at the bound."""
    lower = [
        [1.32679493],
        [0.45474826, 2.18664529],
        [0.3533789, -1.31761365, 2.1258423],
        [-1.23866655, -0.43791849, -0.52014234, 1.19587467],
        [0.24041275, -2.57068326, -0.10287948, 0.19672222, 7.64641487],
    ]
    gram = np.zeros((5, 5))
    for i, row in enumerate(lower):
        gram[i, : i + 1] = gram[: i + 1, i] = row
    return np.array([-1.48711763, -0.02105738, -2.57671957, 2.18693012, 2.82241533]), gram, 100.0


@given(dual=duals())
@example(dual=slow_dual())
def test_miras_steps_solve_its_dual(dual):
    losses, gram, cap = dual
    learner = MarginInfusedRelaxed(Cost(np.zeros((4, 2, 2))), k=len(losses), C=cap)
    steps = learner.steps(losses, gram, 1.0)
    assert (steps >= 0).all() and (steps <= cap).all()

    def negated(tau):
        return 0.5 * tau @ gram @ tau - losses @ tau

    best = minimize(
        negated, np.zeros_like(losses), jac=lambda tau: gram @ tau - losses, bounds=[(0, cap)] * len(losses),
        method="L-BFGS-B", options={"ftol": 1e-14, "gtol": 1e-10, "maxiter": 10_000},
    )  # fmt: skip
    assert negated(steps) <= best.fun + 1e-5 * (1.0 + abs(best.fun))


@given(loss=st.floats(0.01, 100), squared=st.floats(0.1, 100), cap=st.floats(0.01, 10), weight=st.floats(0.1, 3))
def test_passive_aggressive_steps(loss, squared, cap, weight):
    cost = Cost(np.zeros((4, 2, 2)))
    losses, gram = np.array([loss]), np.array([[squared]])
    plain, capped, soft = (
        PassiveAggressive(cost, variant=variant, C=cap).steps(losses, gram, weight)[0] for variant in range(3)
    )
    assert plain == pytest.approx(weight * loss / squared)
    assert capped == pytest.approx(min(cap * weight, loss / squared))
    # the softened step minimises 1/2 tau^2 |d|^2 + C xi^2 with xi = loss - tau |d|^2
    assert soft * squared == pytest.approx(2 * cap * weight * squared * (loss - soft * squared), rel=1e-6)
    assert PassiveAggressive(cost, variant=2, C=cap).steps(losses, gram, 0.0)[0] == 0.0


@given(loss=st.floats(0.01, 100), squared=st.floats(0.1, 100), g=st.floats(0.01, 10), weight=st.floats(0.1, 3))
def test_arows_first_step_is_the_minimum_of_its_objective(loss, squared, g, weight):
    """min over t of 1/2 t^2 |d|^2 / v + (loss - t |d|^2)^2 / 2 g, where the mean moves by t d."""
    learner = AdaptiveRegularisation(Cost(np.zeros((4, 2, 2))), variance=0.7, gamma=g)
    (step,) = learner.steps(np.array([loss]), np.array([[squared]]), weight)
    slope = step * squared / 0.7 - weight * squared * (loss - step * squared) / g
    assert slope == pytest.approx(0.0, abs=1e-9 * squared * (1 + loss * weight / g))
    assert learner.steps(np.array([loss]), np.array([[squared]]), 0.0)[0] == 0.0


@pytest.mark.parametrize(("variance", "gamma"), [(1.0, 1.0), (0.3, 2.5)])
def test_arow_is_crfsuites(variance, gamma, tmp_path):
    """One sequence leaves no order to choose, so that the weights after some passes are those of CRFsuite."""
    rng = np.random.default_rng(1)
    x = [{f"a{rng.integers(6)}": float(rng.exponential()), f"b{rng.integers(4)}": 1.0} for _ in range(40)]
    y = [f"y{t if t < 4 else rng.integers(4)}" for t in range(len(x))]  # first seen in their order, which breaks ties
    trainer = pycrfsuite.Trainer("arow", verbose=False)
    trainer.set_params({"variance": variance, "gamma": gamma, "max_iterations": 5})
    trainer.set_params({"feature.possible_states": True, "feature.possible_transitions": True})
    trainer.append(x, y)
    trainer.train(str(tmp_path / "m"))
    with pycrfsuite.Tagger().open(str(tmp_path / "m")) as theirs:
        info = theirs.info()
    tagger = Tagger(
        f"arow:variance={variance},gamma={gamma}", optimizer="online:average=no", max_iter=5, tolerance=0.0,
        states="all", transitions="all", precision="float64",
    ).fit([x], [y])  # fmt: skip
    for found, wanted in ((tagger.state_weights_, info.state_features), (tagger.transition_weights_, info.transitions)):
        names = {*found, *wanted}
        assert len(names) > 10
        assert all(found.get(name, 0.0) == pytest.approx(wanted.get(name, 0.0), abs=2e-6) for name in names)


def test_the_weight_of_a_sequence_divides_arows_g():
    X, y = sentences(1, seed=5)
    one, other = (
        Tagger(f"arow:gamma={gamma}", max_iter=1).fit(X, y, sample_weight=[weight])
        for gamma, weight in ((1.0, 2.0), (0.5, 1.0))
    )
    assert np.array_equal(one.model_.weights, other.model_.weights)


def test_mira_gives_a_sequence_its_margin():
    one = Tagger().problem(*sentences(1, seed=5))
    objective = one.objective(one.criterion("mira:C=1000000"), 0.0, 1)
    start = np.zeros(one.model.features.n_features)
    assert objective(start)[0] > 0.0
    optimizer = make_optimizer("online:average=no", max_iter=50, tolerance=0.0, seed=0)
    assert objective(optimizer.minimise(objective, start).weights)[0] == pytest.approx(0.0, abs=1e-6)
