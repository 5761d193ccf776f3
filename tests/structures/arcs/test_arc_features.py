"""Weights of arcs through the criteria and optimizers of chains, unchanged."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loglinear.criteria.costs import HeadCost, make_head_cost
from loglinear.criteria.criterion import CRITERIA, CostCriterion, make_criterion
from loglinear.errors import OptionError
from loglinear.estimators.options import dependency_training
from loglinear.features.arcs import ArcCorpus
from loglinear.optimizers.objective import Objective
from loglinear.optimizers.optimizer import make_optimizer
from loglinear.structures.arcs.features import ArcFeatures
from loglinear.structures.arcs.structure import ArcScores, arc_offsets
from loglinear.structures.gold import Gold
from referees.arcs import referees, trees

N_FEATURES = 7
TRAINED = [name for name in dependency_training().criteria() if name in CRITERIA.all() and name != "m-estimation"]


@st.composite
def problems(draw):
    """Features, a corpus with random lists of them, and gold trees."""
    projective, single_root = draw(st.booleans()), draw(st.booleans())
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    begins = arc_offsets(offsets)
    counts = rng.integers(0, 4, size=begins[-1])
    pointer = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    corpus = ArcCorpus(offsets, begins, pointer, rng.integers(0, N_FEATURES, size=pointer[-1]).astype(np.int32))
    gold = [draw(st.sampled_from(trees(n, projective, single_root))) for n in lengths]
    heads = np.array([head for tree in gold for head in tree], dtype=np.int32)
    return ArcFeatures(N_FEATURES, projective, single_root), corpus, heads, rng


def criterion_of(name):
    return make_criterion(name, HeadCost(1.5) if issubclass(CRITERIA.all()[name], CostCriterion) else None)


def test_the_criteria_of_trees_are_these():
    assert {"cll", "softmax-margin", "max-margin", "risk", "jrb", "mira", "perceptron", "passive-aggressive"} <= set(
        TRAINED
    )
    assert not {"memm", "nota", "piecewise", "pseudolikelihood", "hmm"} & set(TRAINED)


@pytest.mark.parametrize("name", TRAINED)
@given(problem=problems())
def test_gradients_by_weights_are_finite_differences(name, problem):
    features, corpus, heads, rng = problem
    weights = rng.normal(size=N_FEATURES)
    sequence_weights = rng.random(corpus.n_sequences)
    objective = Objective(features, corpus, Gold(heads), criterion_of(name), None, 0.1, sequence_weights)
    value, gradient = objective(weights)
    gradient, step = gradient.copy(), 1e-6
    direction = rng.normal(size=N_FEATURES)
    ahead, behind = (objective(weights + sign * step * direction)[0] for sign in (1, -1))
    slope = (ahead - behind) / (2 * step)
    if CRITERIA.all()[name].smooth:
        assert gradient @ direction == pytest.approx(slope, rel=1e-5, abs=1e-6)
    elif abs(ahead + behind - 2 * value) < 1e-9:  # no kink between
        assert gradient @ direction == pytest.approx(slope, rel=1e-4, abs=1e-5)


@given(problems())
def test_losses_are_those_of_all_trees(problem):
    features, corpus, heads, rng = problem
    weights = rng.normal(size=N_FEATURES)
    scores = features.scores(weights, corpus, 0, corpus.n_sequences)
    found: dict[str, float] = dict.fromkeys(("cll", "softmax-margin", "max-margin", "risk", "jrb"), 0.0)
    structure = features.structure(corpus, 0, corpus.n_sequences)
    for s, every in enumerate(referees(structure, scores)):
        gold = heads[corpus.offsets[s] : corpus.offsets[s + 1]]
        costs = np.array([1.5 * (np.array(tree) != gold).sum() for tree in every.labellings])
        right = every.values[every.labellings.index(tuple(gold.tolist()))]
        augmented = np.logaddexp.reduce(every.values + costs)
        found["cll"] += every.log_z - right
        found["softmax-margin"] += augmented - right
        found["max-margin"] += (every.values + costs).max() - right
        found["risk"] += every.probabilities @ costs
        found["jrb"] += augmented - every.log_z
    for name, value in found.items():
        objective = Objective(features, corpus, Gold(heads), criterion_of(name), None)
        assert objective(weights)[0] == pytest.approx(value, abs=1e-8)


@given(problems(), st.integers(1, 3))
def test_partial_trees_are_summed_over(problem, seed):
    features, corpus, heads, rng = problem
    widest = int(np.diff(corpus.offsets).max()) + 1
    hidden = rng.random(len(heads)) < 0.5
    allowed = np.zeros((len(heads), widest), dtype=np.uint8)
    allowed[np.arange(len(heads)), heads] = 1
    allowed[hidden] = 1
    gold = Gold(np.where(hidden, -1, heads).astype(np.int32), allowed)
    weights = rng.normal(size=N_FEATURES)
    scores = features.scores(weights, corpus, 0, corpus.n_sequences)
    value = 0.0
    structure = features.structure(corpus, 0, corpus.n_sequences)
    for s, every in enumerate(referees(structure, scores)):
        low, high = corpus.offsets[s], corpus.offsets[s + 1]
        fits = [(np.array(tree) == heads[low:high])[~hidden[low:high]].all() for tree in every.labellings]
        value += every.log_z - np.logaddexp.reduce(every.values[fits])
    objective = Objective(features, corpus, gold, make_criterion("cll"), None)
    assert objective(weights)[0] == pytest.approx(value, abs=1e-8)


@pytest.mark.parametrize("spec", ["lbfgs", "sgd:step=0.5", "adagrad:step=0.3"])
def test_optimizers_find_the_same_minimum(spec):
    rng = np.random.default_rng(0)
    offsets = np.array([0, 3, 5, 9], dtype=np.int64)
    begins = arc_offsets(offsets)
    pointer = np.arange(0, 3 * begins[-1] + 1, 3, dtype=np.int64)
    corpus = ArcCorpus(offsets, begins, pointer, rng.integers(0, N_FEATURES, size=pointer[-1]).astype(np.int32))
    heads = np.array([2, 0, 2, 0, 1, 2, 0, 4, 2], dtype=np.int32)
    objective = Objective(ArcFeatures(N_FEATURES), corpus, Gold(heads), make_criterion("cll"), None, 0.5)
    best = make_optimizer("lbfgs", max_iter=200, tolerance=1e-12, seed=0).minimise(objective, np.zeros(N_FEATURES))
    found = make_optimizer(spec, max_iter=300, tolerance=0.0, seed=1).minimise(objective, np.zeros(N_FEATURES))
    assert objective(found.weights)[0] == pytest.approx(objective(best.weights)[0], rel=0.01)


@pytest.mark.parametrize("name", ["mira", "mira:k=4", "perceptron", "passive-aggressive"])
@pytest.mark.parametrize("projective", [True, False])
def test_online_learners_learn_what_can_be_learnt(name, projective):
    rng = np.random.default_rng(1)
    offsets = np.array([0, 4, 9, 11], dtype=np.int64)
    begins = arc_offsets(offsets)
    n = int(begins[-1])
    corpus = ArcCorpus(offsets, begins, np.arange(n + 1, dtype=np.int64), rng.permutation(n).astype(np.int32))
    heads = np.array([2, 0, 2, 3, 3, 3, 0, 5, 3, 0, 1], dtype=np.int32)
    cost = None if name == "perceptron" else HeadCost()
    features = ArcFeatures(n, projective)
    objective = Objective(features, corpus, Gold(heads), make_criterion(name, cost), None)
    weights = make_optimizer("online", max_iter=30, tolerance=0.0, seed=0).minimise(objective, np.zeros(n)).weights
    found = features.tree(offsets).viterbi(features.scores(weights, corpus, 0, 3))[0]
    assert found.tolist() == heads.tolist()


def test_costs():
    offsets = np.array([0, 2, 3], dtype=np.int64)
    costs = make_head_cost("hamming:2").at(Gold(np.array([2, 0, 0], dtype=np.int32)), offsets)
    assert costs.tolist() == [[2.0, 2.0, 0.0], [0.0, 2.0, 2.0], [0.0, 2.0, 2.0]]
    scores = ArcScores(np.zeros(8), offsets).with_costs(costs)
    assert scores.arcs.tolist() == [2.0, 2.0, 0.0, 0.0, 2.0, 2.0, 0.0, 2.0]
    assert make_head_cost(None) == HeadCost(1.0)
    for spec in ("recall:3", "hamming:x", "hamming:-1", "hamming:inf"):
        with pytest.raises(OptionError, match="cost="):
            make_head_cost(spec)
