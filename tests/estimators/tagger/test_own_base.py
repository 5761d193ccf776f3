"""M-estimation over a distribution of the user's own."""

import pickle
from itertools import pairwise, product

import numpy as np
import pytest
from sklearn.base import clone

from loglinear import Tagger
from loglinear.errors import DataError, InfeasibleError, OptionError
from loglinear.estimators.tagger.model import best_found
from loglinear.generative.base import Feature, OwnBase, named_features
from loglinear.generative.m_estimation import sentence_counts
from loglinear.structures.chain.structure import Chain, ChainScores
from loglinear.training.run import TrainingInterrupted
from problems.distributions import LABELS, OfFeatures, Plain, WithExpectations, WithScores

TEMPLATE = "U0:%x[0,0]\nU1:%x[-1,1]/%x[0,1]\nB"


def tagger_over(base, **options):
    return Tagger(**{"criterion": "m-estimation", "base": base, "template": TEMPLATE, "l2": 0.02, **options})


def unnormalised(tagger, x):
    """log q0 + w . f of every labelling of a short sequence, from the weights by name."""
    state, transition = tagger.state_weights_, tagger.transition_weights_
    totals = {}
    for y in product(tagger.classes_, repeat=len(x)):
        before = ["_B-1", *(row[1] for row in x)]
        names = [(f"U0:{row[0]}", f"U1:{b}/{row[1]}") for row, b in zip(x, before, strict=False)]
        score = sum(state.get((name, label), 0.0) for pair, label in zip(names, y, strict=True) for name in pair)
        score += sum(transition.get(pair, 0.0) for pair in pairwise(y))
        totals[y] = score + OwnBase.of(tagger.base).distribution.log_prob(x, list(y))
    return totals


@pytest.fixture(scope="module")
def trained(data):
    return {kind: tagger_over(OwnBase(kind(), samples=2_000)).fit(*data) for kind in (Plain, WithScores)}


def test_with_scores_the_model_is_that_of_the_definition(trained, more_data):
    tagger = trained[WithScores]
    for x in [x for x in more_data[0] if len(x) <= 4][:8]:
        totals = unnormalised(tagger, x)
        log_z = np.logaddexp.reduce(list(totals.values()))
        assert tagger.predict([x])[0] == list(max(totals, key=totals.get))
        marginals = tagger.predict_marginals([x])[0]
        for t in range(len(x)):
            for label in tagger.classes_:
                p = sum(np.exp(v - log_z) for y, v in totals.items() if y[t] == label)
                assert marginals[t][label] == pytest.approx(p, abs=1e-6)
        gold = max(totals, key=totals.get)
        assert tagger.log_probability([x], [list(gold)])[0] == pytest.approx(totals[gold] - log_z, abs=1e-5)


def test_without_scores_decoding_is_approximate_and_nearly_as_good(trained, data, more_data):
    exact, searched = trained[WithScores], trained[Plain]
    assert searched.state_weights_ == exact.state_weights_  # training does not ask for scores
    assert exact.score(*data) > 0.85 and searched.score(*data) > exact.score(*data) - 0.02
    for x in [x for x in more_data[0] if len(x) <= 4][:8]:
        totals = unnormalised(searched, x)
        found = tuple(searched.predict([x])[0])
        for t, label in product(range(len(x)), LABELS):  # no single change is better
            assert totals[found] >= totals[(*found[:t], label, *found[t + 1 :])] - 1e-9


def test_a_search_through_all_labellings_is_exact():
    rng = np.random.default_rng(0)
    for _ in range(20):
        scores = ChainScores(rng.normal(size=(4, 2)), rng.normal(size=(2, 2)), np.zeros(2), np.zeros(2))
        values = rng.normal(scale=2.0, size=(2,) * 4)
        totals = {
            y: Chain([0, 4]).score(scores, np.array(y, dtype=np.int32))[0] + values[y]
            for y in product((0, 1), repeat=4)
        }
        found = best_found(scores, lambda y, values=values: float(values[tuple(y)].mean()), 16)
        assert tuple(found.tolist()) == max(totals, key=totals.get)


def test_what_needs_sums_over_labellings_is_refused_without_scores(trained, more_data):
    searched, X = trained[Plain], more_data[0][:2]
    for ask in (
        lambda: searched.predict_marginals(X),
        lambda: searched.predict_nbest(X, 2),
        lambda: searched.predict(X, decoding="posterior"),
        lambda: searched.predict(X, decoding="min-risk"),
        lambda: searched.predict_numbers(X, confidence=True),
        lambda: searched.log_probability(X, more_data[1][:2]),
    ):
        with pytest.raises(OptionError, match=r"has no method scores\(x, labels\)"):
            ask()


def test_the_search_hardly_ever_misses_the_best(trained, more_data):
    exact, searched = (trained[kind].predict(more_data[0]) for kind in (WithScores, Plain))
    assert sum(a != b for a, b in zip(exact, searched, strict=True)) <= 2


@pytest.mark.parametrize("kind", [Plain, WithScores])
def test_constraints_given_labels_dev_data_and_weights(data, more_data, kind):
    tagger = tagger_over(OwnBase(kind(), samples=500, candidates=5), constraints="bio", max_iter=5)
    tagger.fit(*data, X_dev=more_data[0][:10], y_dev=more_data[1][:10], sample_weight=np.ones(60))
    assert tagger.dev_score_ > 0.5
    X = [x for x in data[0] if len(x) >= 3][:5]
    for labels in tagger.predict(X, given=[["O", "B-NP", *[None] * (len(x) - 2)] for x in X]):
        assert labels[:2] == ["O", "B-NP"]
    for labels in tagger.predict(data[0]):
        assert all(b != "I-NP" or a.endswith("NP") for a, b in zip(["O", *labels], labels, strict=False))
    with pytest.raises(InfeasibleError, match="sequence 1 "):
        tagger.predict(X[:2], given=[[None] * len(X[0]), ["I-NP", *[None] * (len(X[1]) - 1)]])


@pytest.mark.parametrize("order", [1, 2])
def test_expectations_of_its_own_are_used_and_asked_by_name(data, order):
    base = WithExpectations()
    problem = tagger_over(base, order=order, pair_features=True).problem(*data)
    assert problem.sampling is None
    criterion = problem.criterion("m-estimation")
    features = problem.model.features
    gradient = problem.objective(criterion, 0.0, 1)(np.zeros(features.n_features))[1]
    counts = sentence_counts(features, problem.encoded, problem.gold.labels)
    mean = np.asarray(counts.mean(axis=0)).ravel()
    np.testing.assert_allclose(gradient + mean, np.linspace(0.0, 0.1, features.n_features), atol=1e-12)
    # the names: counted by hand over the training data, features have the counts that the model gives them
    by_hand = dict.fromkeys(base.asked, 0)
    assert len(by_hand) == features.n_features and Feature(None, ("B-NP", "I-NP")) in by_hand
    for x, y in zip(*data, strict=True):
        for t, (row, label) in enumerate(zip(x, y, strict=True)):
            before = "_B-1" if t == 0 else x[t - 1][1]
            attributes = [f"U0:{row[0]}", f"U1:{before}/{row[1]}"]
            events = [(a, (label,)) for a in attributes]
            if t >= 1:
                events += [(a, (y[t - 1], label)) for a in [*attributes, None]]
            if t >= 2:
                events.append((None, (y[t - 2], y[t - 1], label)))
            for event in events:
                if event in by_hand:
                    by_hand[event] += 1
    np.testing.assert_allclose(list(by_hand.values()), mean * len(data[0]))
    assert tagger_over(OwnBase(base, samples=100)).problem(*data).sampling.samples == 100
    assert tagger_over(Plain()).problem(*data).sampling.samples == 10_000


def test_sampled_expectations_of_an_own_base_are_the_mean_of_its_draws(data):
    problem = tagger_over(OwnBase(Plain(), samples=400, smoothing=0.0), seed=3).problem(*data)
    objective = problem.objective(problem.criterion("m-estimation"), 0.0, 2)
    counts = sentence_counts(problem.model.features, problem.encoded, problem.gold.labels)
    expected = objective(np.zeros(counts.shape[1]))[1] + np.asarray(counts.mean(axis=0)).ravel()
    drawn = Plain().sample(400, np.random.default_rng([3, 3, 0]))
    names = named_features(problem.model.features, problem.model.encoder.names(), problem.model.labels)
    for j in (0, 3, 7):
        attribute, (label,) = names[j]
        hits = sum(
            f"U0:{row[0]}" == attribute and y == label for x, labels in drawn for row, y in zip(x, labels, strict=True)
        )
        assert attribute.startswith("U0") and expected[j] == pytest.approx(hits / 400)


def test_order_two_with_scores_of_trigrams(data):
    class Trigrams(WithScores):
        def log_prob(self, x, y):
            return super().log_prob(x, y) - sum(a == c for a, c in zip(y, y[2:], strict=False))

        def scores(self, x, labels):
            cube = np.zeros((len(labels),) * 3)
            cube[np.arange(len(labels)), :, np.arange(len(labels))] = -1.0
            return {**super().scores(x, labels), "trigram": cube}

    tagger = tagger_over(OwnBase(Trigrams(), samples=500), order=2).fit(*data)
    assert tagger.score(*data) > 0.85
    again = tagger_over(OwnBase(Trigrams(), samples=500)).fit(*data)  # the base may look further than the features
    assert again.predict_nbest(data[0][:1], 2)[0][0][1] >= again.predict_nbest(data[0][:1], 2)[0][1][1]


def test_files_hold_no_base_and_loading_wants_it(trained, data, more_data, tmp_path):
    for kind, tagger in trained.items():
        path = tmp_path / "own.model"
        tagger.save(path)
        with pytest.raises(OptionError, match=r"base \(problems\.distributions\.\w+\).*only be used from Python"):
            Tagger.load(path)
        again = Tagger.load(path, base=kind())
        assert again.predict(more_data[0]) == tagger.predict(more_data[0])
        assert again.model_.base.candidates == tagger.model_.base.candidates
        assert isinstance(again.base, kind)
        again.fit(*data, init=tagger)
        assert Tagger.load(path, base=OwnBase(kind(), candidates=3)).model_.base.candidates == 3
    plain = Tagger(criterion="m-estimation", template="words").fit(*data)
    with pytest.raises(OptionError, match="was not trained over a base of one's own"):
        Tagger.load(plain.to_bytes(), base=Plain())


def test_clone_pickle_and_parameters(trained, more_data):
    tagger = trained[WithScores]
    copy = clone(tagger)
    assert copy.get_params()["base"].samples == 2_000 and not hasattr(copy, "model_")
    assert clone(tagger_over(Plain(stop=0.3))).base.stop == 0.3
    fitted = type("Fitted", (Plain,), {"get_params": lambda self, deep=True: {}})()
    fitted.counts_ = 3
    assert clone(tagger_over(OwnBase(fitted))).base.distribution.counts_ == 3
    assert not hasattr(clone(tagger_over(fitted)).base, "counts_")  # scikit-learn takes it for an estimator
    again = pickle.loads(pickle.dumps(tagger))
    assert again.predict(more_data[0]) == tagger.predict(more_data[0])
    assert tagger_over(Plain()).set_params(base=None).base is None


def test_a_checkpoint_knows_its_base(data, tmp_path):
    path = tmp_path / "own.checkpoint"

    def stop(progress):
        if progress.iteration == 3:
            import os
            import signal

            os.kill(os.getpid(), signal.SIGINT)

    def tagger(base):
        return tagger_over(OwnBase(base, samples=300), tolerance=0.0, max_iter=8)

    with pytest.raises(TrainingInterrupted):
        tagger(Plain()).fit(*data, checkpoint=path, observe=stop)
    with pytest.raises(OptionError, match="other data or options"):
        tagger(Plain(stop=0.3)).fit(*data, checkpoint=path, resume=True)
    resumed = tagger(Plain()).fit(*data, checkpoint=path, resume=True)
    assert resumed.state_weights_ == tagger(Plain()).fit(*data).state_weights_


def test_a_base_over_ready_made_features():
    rng = np.random.default_rng(0)
    X, y = map(list, zip(*OfFeatures().sample(40, rng), strict=True))
    y = [["A" if rng.random() < 0.7 else label for label in labels] for labels in y]  # more of A than the base expects
    tagger = tagger_over(OwnBase(OfFeatures(), samples=2_000), template=None).fit(X, y)
    weights = tagger.state_weights_
    assert weights["down", "A"] > 0.5 > weights["up", "B"]
    assert tagger.predict([[{"up": 1.0}], [["up"]]]) == [["A"], ["A"]]
    again = Tagger.load(tagger.to_bytes(), base=OfFeatures())
    assert again.predict(X) == tagger.predict(X)


def broken(**methods):
    return type("Broken", (Plain,), {name: staticmethod(method) for name, method in methods.items()})()


@pytest.mark.parametrize(
    ("base", "error", "reason"),
    [
        (3, OptionError, "base=3 has no method log_prob"),
        (Plain, OptionError, "is a class; give an object of it"),
        (broken(log_prob=lambda x, y: "much"), DataError, "log_prob returned 'much'; expected a finite number"),
        (broken(log_prob=lambda x, y: np.nan), DataError, "log_prob returned nan"),
        (broken(log_prob=lambda x, y: -np.inf), DataError, "training sequence 0 .* is -inf: a base gives"),
        (broken(sample=lambda n, rng: [([("a", "N")], ["O"])]), DataError, r"sample\(2000, rng\) must give 2000 pairs"),
        (broken(sample=lambda n, rng: [1] * n), DataError, r"must give pairs \(x, y\), not \[1\]"),
        (broken(sample=lambda n, rng: [([("a", "N")], ["X"])] * n), DataError, "drew the label 'X', which"),
        (broken(sample=lambda n, rng: [([], [])] * n), DataError, r"sample: sequence 0 \(from 0\) is empty"),
        (broken(sample=lambda n, rng: [(["a"], ["O"])] * n), DataError, "rows have 1 column, those of the training"),
        (broken(expectations=lambda features: np.ones(3)), DataError, r"array of shape \[3\]; it should be"),
        (broken(expectations=lambda features: np.full(len(features), -0.5)), DataError,
         r"gives -0.5 for Feature\(attribute='U.*cannot be negative"),
        (broken(scores=lambda x, labels: {"emission": np.zeros((2, 2))}), DataError, r"emission of shape \[2, 2\]"),
        (broken(scores=lambda x, labels: [1]), DataError, "scores must give a dict of"),
        (broken(scores=lambda x, labels: {}), DataError, "add up to 0 along its labels, but log_prob says"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)  # fmt: skip
def test_mistakes_in_a_base_are_named(data, base, error, reason):
    with pytest.raises(error, match=reason):
        tagger_over(base).fit(*data)


def test_expectations_may_be_negative_where_values_may():
    class Expecting(OfFeatures):
        def expectations(self, features):
            return [self.of(feature.attribute) for feature in features]

    X, y = [[{"up": -0.5, "on": 1.0}, {"down": 2.0, "on": 1.0}], [{"up": 1.0, "on": 1.0}]], [["A", "B"], ["A"]]

    def fit(**negative):
        base = Expecting()
        base.of = lambda attribute: negative.get(str(attribute), 0.3)
        return tagger_over(base, template=None, l2=0.5).fit(X, y)

    assert fit(up=-0.1, down=-0.1, on=-1e-15).state_weights_ != fit().state_weights_
    with pytest.raises(DataError, match=r"gives -0.1 for Feature\(attribute='on', labels=\('A',\)\)"):
        fit(up=-0.1, on=-0.1)
    with pytest.raises(DataError, match=r"gives -0.1 for Feature\(attribute=None, labels=\('A', 'B'\)\)"):
        fit(**{"None": -0.1})


def test_options_of_an_own_base_are_checked(data):
    with pytest.raises(OptionError, match="samples=0 must be at least 1"):
        OwnBase(Plain(), samples=0)
    with pytest.raises(OptionError, match="goes with criterion='m-estimation'"):
        Tagger(base=Plain(), template="words").fit(*data)
