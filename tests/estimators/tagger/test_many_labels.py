"""A tagger with many labels: the same answers as by the general path, for any number of threads, and after a stop."""

from itertools import pairwise

import numpy as np
import pytest

from loglinear import Tagger
from loglinear.criteria import costs
from loglinear.errors import DataError, OptionError
from loglinear.estimators.tagger.model import check_size
from loglinear.structures.chain import best, steps
from loglinear.structures.chain.best import WideDecoder
from loglinear.structures.chain.wide import WideLayout
from loglinear.structures.constraints import Constraints

N_LABELS = 48  # the most for which kernels of all criteria are compiled ahead


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 5, 450)
    y = [[f"label {(k + rng.integers(0, 5) * t) % N_LABELS}" for t in range(n)] for k, n in enumerate(lengths.tolist())]
    X = [
        [[f"w{(int(label[6:]) + rng.integers(0, 3)) % 40}", f"x{int(label[6:]) % 9}"] for label in labels]
        for labels in y
    ]
    return X, y


@pytest.fixture(autouse=True)
def many_enough(monkeypatch):
    """Take 40 labels for many, so that the tests are quick."""
    for module in (steps, best):
        monkeypatch.setattr(module, "FEWEST_LABELS", 40)
        monkeypatch.setattr(module, "MOST_LISTED", 0.5)


OPTIONS = [{}, {"l1": 0.2, "l2": 0.5}, {"criterion": "softmax-margin", "cost": "balanced"}, {"optimizer": "lbfgs"}]


@pytest.mark.parametrize("options", OPTIONS)
def test_training_is_that_in_double_precision(data, options):
    tagger = Tagger(tolerance=1e-7, max_iter=300, **options).fit(*data)
    problem = tagger.problem(*data)
    objective = problem.objective(problem.criterion(tagger.criterion, tagger.cost), tagger.l2 or 1.0, 1, True)
    assert isinstance(objective.layout, WideLayout)
    weights = problem.model.weights_from(tagger.model_)
    assert objective.value(weights) == pytest.approx(objective(weights)[0], rel=1e-6)
    value = objective(weights)[0]
    assert objective.use_double_precision() and value == pytest.approx(objective(weights)[0], rel=1e-5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "FEWEST_LABELS", 10**9)
        other = Tagger(tolerance=1e-7, max_iter=300, **options).fit(*data)
    assert other.objective_ == pytest.approx(tagger.objective_, rel=1e-3)


EVERY_ROAD = [
    {"criterion": "max-margin"},
    {"criterion": "jrb"},
    {"criterion": "risk"},
    {"criterion": "memm"},
    {"criterion": "pseudolikelihood"},
    {"criterion": "piecewise"},
    {"criterion": "nota"},
    {"criterion": "perceptron"},
    {"criterion": "mira:k=3"},
    {"criterion": "passive-aggressive"},
    {"optimizer": "sgd"},
    {"criterion": "softmax-margin", "optimizer": "adagrad"},
]


@pytest.mark.parametrize("options", EVERY_ROAD, ids=lambda given: "-".join(given.values()).replace(":", "-"))
def test_every_criterion_learns_the_same_over_lists(data, options, monkeypatch):
    """Too many labels for passes over all transitions: training, and labelling, over lists instead."""
    X, y = data
    smooth = options.get("criterion") in ("jrb", "risk", "piecewise", "nota")
    if smooth:
        options = {**options, "optimizer": "lbfgs"}  # whose objective is what is compared
    with monkeypatch.context() as patch:
        patch.setattr(steps, "FEWEST_LABELS", 10**9)
        plain = Tagger(max_iter=3, **options).fit(X, y)
        expected = plain.predict(X), plain.objective_
    monkeypatch.setattr(steps, "MOST_DENSE", 40)
    tagger = Tagger(max_iter=3, **options).fit(X, y)
    if options.get("criterion") == "max-margin":  # another optimizer: no fewer labels are right after its passes
        assert tagger.score(X, y) > 0.5
        return
    ties = options.get("criterion") == "mira:k=3"  # many labellings are equally bad at first; either is right
    assert tagger.objective_ == pytest.approx(expected[1], rel=0.05 if ties else 1e-3)
    found, wanted = ([label for labels in each for label in labels] for each in (tagger.predict(X), expected[0]))
    assert np.mean(np.array(found) == np.array(wanted)) > (0.9 if ties else 0.98)


@pytest.mark.parametrize("name", ["max-margin", "jrb", "risk", "piecewise", "nota"])
def test_no_table_of_all_label_pairs_is_made(data, name, monkeypatch):
    monkeypatch.setattr(steps, "MOST_DENSE", 40)
    monkeypatch.setattr(costs, "FEWEST_LABELS", 40)
    problem = Tagger(criterion=name).problem(*data)
    criterion = problem.criterion(name)
    objective = problem.objective(criterion, 1.0, 1, True)
    zero = np.zeros(objective.features.n_features)
    assert objective.value(zero) == pytest.approx(objective(zero)[0])
    assert "layout" not in vars(objective) and "transition" not in vars(objective.penalties)
    assert not hasattr(criterion, "cost") or "table" not in vars(criterion.cost)


def test_dual_ascent_says_why_it_does_not_go_over_so_many_labels(data, monkeypatch):
    monkeypatch.setattr(steps, "MOST_DENSE", 40)
    with pytest.raises(OptionError, match="48 labels; use lbfgs"):
        Tagger(criterion="max-margin", optimizer="dual").fit(*data)


@pytest.mark.parametrize("size", [(47_000, 1, False), (1300, 2, False), (3000, 1, True)])
def test_more_labels_than_there_is_room_for_are_refused(size, monkeypatch):
    monkeypatch.setenv("LOGLINEAR_MEMORY", "1T")  # whatever this machine has
    with pytest.raises((OptionError, DataError), match="labels"):
        check_size(*size)
    check_size(46_000, 1, False)
    check_size(1000, 2, True)


@pytest.mark.parametrize("options", [{}, {"optimizer": "dual:prune=0.0001"}, {"optimizer": "lbfgs"}])
def test_weights_are_the_same_for_any_number_of_threads(data, options):
    trained = [Tagger(threads=n, max_iter=4, **options).fit(*data).model_.weights for n in (1, 2, 3)]
    assert all(np.array_equal(trained[0], other) for other in trained[1:])


@pytest.mark.parametrize("options", [{}, {"optimizer": "dual:prune=0.0001"}])
def test_a_checkpoint_goes_on_as_if_never_stopped(data, options, tmp_path):
    whole = Tagger(max_iter=5, tolerance=0.0, **options).fit(*data)
    place = tmp_path / "checkpoint"

    class Stop(Exception):
        pass

    def stop(progress):
        if progress.iteration == 3:
            raise Stop

    tagger = Tagger(max_iter=5, tolerance=0.0, **options)
    with pytest.raises(Stop):
        tagger.fit(*data, checkpoint=place, checkpoint_seconds=0.0, observe=stop)
    again = Tagger(max_iter=5, tolerance=0.0, **options).fit(*data, checkpoint=place, resume=True)
    assert np.array_equal(whole.model_.weights, again.model_.weights)


def test_answers_are_those_of_the_general_path(data, tmp_path):
    X, y = data
    tagger = Tagger(max_iter=5).fit(X, y)
    tagger.save(tmp_path / "model")
    loaded = Tagger.load(tmp_path / "model")
    assert isinstance(loaded.model_.decoder, WideDecoder) and loaded.model_.listed is not None
    labels, marginals = loaded.predict(X), loaded.predict_marginals(X)
    given = [[None, *labels_of[1:]] for labels_of in y]
    forced, single = loaded.predict(X, given=given), [loaded.predict_single(x) for x in X[:20]]
    asked = [answers(loaded, X, y, given) for given in (None, given)]
    with pytest.MonkeyPatch.context() as patch:
        for module in (steps, best):
            patch.setattr(module, "FEWEST_LABELS", 10**9)
        plain = Tagger.load(tmp_path / "model")
        assert plain.predict(X) == labels and plain.predict(X, given=given) == forced and labels[:20] == single
        for mine, theirs in zip(marginals, plain.predict_marginals(X), strict=True):
            for here, there in zip(mine, theirs, strict=True):
                assert here == pytest.approx(there, abs=1e-9)
        assert plain.model_.listed is None
        for mine, theirs in zip(asked, [answers(plain, X, y, given) for given in (None, given)], strict=True):
            assert mine[:2] == theirs[:2]
            for here, there in zip(mine[2:], theirs[2:], strict=True):
                np.testing.assert_allclose(here, there, rtol=1e-7, atol=1e-9)


def answers(tagger, X, y, given):
    """Labels by other decodings, and all sorts of probabilities."""
    confidence = tagger.predict_numbers(X, given=given, confidence=True)[1]
    best = [p for ranked in tagger.predict_nbest(X, 4, given=given) for _, p in ranked]
    spans = [span[3] for found in tagger.predict_spans(X, given=given) for span in found]
    posterior, least_risk = (tagger.predict(X, decoding=d, given=given) for d in ("posterior", "min-risk"))
    return posterior, least_risk, confidence, best, spans, tagger.log_probability(X, y)


def test_answers_under_constraints_are_those_of_the_general_path(data):
    X, y = data
    seen = {pair for labels in y for pair in pairwise(labels)}
    names = [f"label {k}" for k in range(N_LABELS)]
    ruled_out = [(a, b) for i, a in enumerate(names) for j, b in enumerate(names) if (i + 3 * j) % 7 == 0]
    tagger = Tagger(max_iter=3, constraints=Constraints(forbidden=[p for p in ruled_out if p not in seen])).fit(X, y)
    assert tagger.model_.listed is not None
    mine = answers(tagger, X, y, None)
    with pytest.MonkeyPatch.context() as patch:
        for module in (steps, best):
            patch.setattr(module, "FEWEST_LABELS", 10**9)
        for name in ("listed", "laid_out", "decoder"):
            vars(tagger.model_).pop(name, None)
        assert tagger.model_.listed is None
        theirs = answers(tagger, X, y, None)
    assert mine[:2] == theirs[:2]
    for here, there in zip(mine[2:], theirs[2:], strict=True):
        np.testing.assert_allclose(here, there, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("spec", ["hamming:0.7", "balanced", {("a", "b"): 0.2, ("b", "c"): 3.0}])
def test_costs_of_many_labels_are_those_of_the_table(spec, monkeypatch):
    from loglinear.structures.gold import Gold

    rng, labels, offsets = np.random.default_rng(1), ["a", "b", "c", "d"], np.array([0, 1, 4, 9])
    marginals, gold = rng.random((9, 4)), Gold(rng.integers(0, 4, 9).astype(np.int32))
    allowed = Gold(gold.labels, (rng.random((9, 4)) < 0.6).astype(np.uint8) | (gold.labels[:, None] == np.arange(4)))
    few = costs.make_cost(spec, labels, np.arange(1, 5))
    expected = few.expected(marginals, offsets), few.at(gold, offsets), few.at(allowed, offsets)
    monkeypatch.setattr(costs, "FEWEST_LABELS", 1)
    many = costs.make_cost(spec, labels, np.arange(1, 5))
    found = many.expected(marginals, offsets), many.at(gold, offsets), many.at(allowed, offsets)
    assert "table" not in vars(many)
    for here, there in zip(found, expected, strict=True):
        np.testing.assert_allclose(here, there, rtol=1e-12)


def test_pruning_is_for_chains():
    from loglinear import Classifier

    with pytest.raises(OptionError, match=r"prune=.* is for chains"):
        Classifier(optimizer="dual:prune=0.1", l2=1.0).fit(np.eye(4), list("abab"))
