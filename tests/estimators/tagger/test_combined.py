"""A log-linear combination scores a labelling by the weighted sum of its members' scores, and its weights are tuned."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear import HMM, Combination, LocalTagger, Tagger, load
from loglinear.criteria.criterion import make_criterion
from loglinear.errors import DataError, ModelKindError, OptionError
from loglinear.estimators.tagger.combined import CombinedFeatures, CombinedModel
from loglinear.estimators.tagger.inputs import annotation_of
from loglinear.estimators.tagger.predict import LoadedTagger
from loglinear.optimizers.objective import Objective
from loglinear.structures.chain.structure import Chain

WORDS, TAGS = "U:%x[0,0]\nB\n", "U:%x[0,1]\nU:%x[-1,1]\nB\n"
SMOOTHED = "hmm:transition_smoothing=0.1"
MEMBERS = {
    "crf": Tagger(template=WORDS, l2=0.1, max_iter=10),
    "crf of order 2": Tagger(template=TAGS, order=2, l2=0.1, max_iter=10),
    "pairs": Tagger(template=TAGS, pair_features=True, l2=0.1, max_iter=10),
    "memm": Tagger("memm", template=TAGS, l2=0.1, max_iter=10),
    "memm of order 2": Tagger("memm", template=TAGS, order=2, l2=0.1, max_iter=10),
    "bio": Tagger(template=TAGS, constraints="bio", l2=0.1, max_iter=10),
    "scaled": Tagger("nota:scaling", template=TAGS, pair_features=True, l2=0.1, max_iter=10),
    "hmm": HMM(transition_smoothing=0.1),
    "unsmoothed hmm": HMM(),
    "hmm of order 2": HMM(order=2, transition_smoothing=0.1),
    "m-estimation": Tagger("m-estimation", template=TAGS, max_iter=10),
}


@pytest.fixture(scope="module")
def members(data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: tagger.fit(*data) for name, tagger in MEMBERS.items()}


@pytest.fixture(scope="module")
def noisy(more_data):
    """Sentences some of whose labels are wrong: with the others, weights would grow without end."""
    rng, labels = np.random.default_rng(0), ["B-NP", "B-VP", "I-NP", "O"]
    X, y = more_data
    return X, [[str(rng.choice(labels)) if rng.random() < 0.2 else label for label in own] for own in y]


def combined(members, names, weights):
    return Combination([members[name] for name in names], weights=weights).fit()


def scores_of(tagger, x):
    """The score of every labelling [Y^T], by the tagger's own part scores, -inf where it rules one out."""
    model = tagger.model_
    parts = model.part_scores(model.encode(tagger._corpus([x])), 0, 1)
    labellings = itertools.product(range(len(tagger.classes_)), repeat=len(x))
    return np.array([Chain([0, len(x)]).score(parts, np.array(y, dtype=np.int32))[0] for y in labellings])


@settings(max_examples=60, deadline=None)
@given(
    names=st.lists(st.sampled_from(sorted(MEMBERS)), min_size=2, max_size=3),
    weights=st.lists(st.sampled_from([-0.5, 0.0, 0.3, 1.0, 2.5]), min_size=3, max_size=3),
    which=st.integers(0, 39),
    length=st.integers(1, 3),
)
def test_scores_are_weighted_sums_and_answers_those_of_enumeration(members, more_data, names, weights, which, length):
    """Against all labellings of a short sentence; a member of weight zero has no say, not even by what it forbids."""
    weights, x = weights[: len(names)], more_data[0][which][:length]
    if not any(weights):
        weights[0] = 1.0
    combination = combined(members, names, weights)
    total, possible = np.zeros(len(combination.classes_) ** len(x)), True
    for name, weight in zip(names, weights, strict=True):
        own = scores_of(members[name], x)
        possible &= np.isfinite(own) | (weight == 0.0)
        total += weight * np.where(np.isfinite(own), own, 0.0)
    total = np.where(possible, total, -np.inf)
    np.testing.assert_allclose(scores_of(combination, x), total, rtol=1e-9, atol=1e-9)
    p = np.exp(total - np.logaddexp.reduce(total))
    labellings = list(itertools.product(combination.classes_, repeat=len(x)))
    for labels, probability in combination.predict_nbest([x], 4)[0]:
        assert p[labellings.index(tuple(labels))] == pytest.approx(probability, abs=1e-9)
    assert p[labellings.index(tuple(combination.predict([x])[0]))] == pytest.approx(p.max())
    for t, row in enumerate(combination.predict_marginals([x])[0]):
        for label, probability in row.items():
            own = sum(q for labels, q in zip(labellings, p, strict=True) if labels[t] == label)
            assert probability == pytest.approx(own, abs=1e-9)


@pytest.mark.parametrize("name", sorted(MEMBERS))
@pytest.mark.parametrize("place", [0, 1])
def test_with_weights_one_and_zero_it_is_the_one(members, more_data, name, place):
    other = "hmm" if name != "hmm" else "crf"
    names, weights = ([name, other], [1.0, 0.0]) if place == 0 else ([other, name], [0.0, 1.0])
    combination, tagger = combined(members, names, weights), members[name]
    X, y = more_data
    for decoding in ("viterbi", "posterior", "min-risk"):
        assert combination.predict(X, decoding=decoding) == tagger.predict(X, decoding=decoding)
    assert combination.predict_single(X[0]) == tagger.predict_single(X[0])
    np.testing.assert_allclose(combination.log_probability(X, y), tagger.log_probability(X, y), atol=1e-9)
    assert combination.score(X, y, metric="f1") == tagger.score(X, y, metric="f1")


def test_the_scale_of_all_weights_changes_probabilities_only(members, more_data):
    one, other = (combined(members, ["crf", "hmm"], w) for w in ([1.0, 0.5], [3.0, 1.5]))
    assert one.predict(more_data[0]) == other.predict(more_data[0])
    assert (one.log_probability(*more_data) != other.log_probability(*more_data)).any()


# -- tuning ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("criterion", ["cll", "softmax-margin", "risk", "jrb"])
@pytest.mark.parametrize("names", [("crf", "hmm"), ("crf", "crf of order 2", "memm"), ("pairs", "bio")])
def test_the_gradient_is_that_of_finite_differences(members, more_data, criterion, names):
    from loglinear.criteria.costs import make_cost

    models = [members[name].model_ for name in names]
    corpus = members["crf"]._corpus(more_data[0])
    labels = models[0].labels
    gold = annotation_of(corpus, more_data[1]).gold(labels)
    cost = None if criterion == "cll" else make_cost("hamming", labels, np.ones(len(labels)))
    encoded = CombinedModel(models, np.ones(len(models))).encode(corpus)
    objective = Objective(
        CombinedFeatures(models), encoded, gold, make_criterion(criterion, cost), None, 0.3, n_threads=1
    )
    weights, step = np.linspace(0.2, 0.9, len(models)), 1e-5
    gradient = objective(weights)[1].copy()
    for k in range(len(models)):
        change = step * np.eye(len(models))[k]
        numeric = (objective(weights + change)[0] - objective(weights - change)[0]) / (2 * step)
        assert gradient[k] == pytest.approx(numeric, rel=1e-4, abs=1e-5)


def log_loss(tagger, data):
    return -tagger.log_probability(*data).sum()


def test_tuned_weights_are_the_best(members, noisy):
    """The objective is convex: no other weights do better, least of all each model alone."""
    names = ["crf", "hmm", "crf of order 2"]
    taggers = [members[name] for name in names]
    tuned = Combination(taggers, l2=0.0).fit(*noisy)
    assert tuned.converged_ and tuned.objective_ == pytest.approx(log_loss(tuned, noisy))
    assert len(tuned.history_) == tuned.n_iter_ > 1 and tuned.n_left_out_ == 0
    assert all(a.objective >= b.objective for a, b in itertools.pairwise(tuned.history_))
    for k, tagger in enumerate(taggers):
        assert tuned.objective_ <= log_loss(tagger, noisy) + 1e-6
        for change in (-1e-2, 1e-2):
            weights = tuned.weights_ + change * np.eye(3)[k]
            assert log_loss(combined(members, names, weights), noisy) > tuned.objective_
    shrunk = Combination(taggers, l2=50.0).fit(*noisy)
    assert np.linalg.norm(shrunk.weights_) < np.linalg.norm(tuned.weights_)


def test_weights_are_the_same_to_the_last_bit_for_any_number_of_threads(members, data, noisy):
    X, y = (4 * (one + other) for one, other in zip(data, noisy, strict=True))
    taggers = [members["crf"], members["hmm of order 2"]]
    found = [Combination(taggers, threads=n).fit(X, y).weights_ for n in (1, 2, 3)]
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])


def test_a_sentence_of_weight_two_counts_as_two(members, noisy):
    X, y = noisy
    taggers = [members["crf"], members["hmm"]]
    doubled = Combination(taggers).fit(X + X[:5], y + y[:5])
    weighted = Combination(taggers).fit(X, y, sample_weight=[2.0] * 5 + [1.0] * (len(X) - 5))
    np.testing.assert_allclose(doubled.weights_, weighted.weights_, rtol=1e-5)


def test_risk_starts_from_cll_and_lowers_the_expected_cost(members, more_data):
    taggers = [members["crf"], members["hmm"]]
    plain, risk = Combination(taggers).fit(*more_data), Combination(taggers, criterion="risk").fit(*more_data)

    def expected_mistakes(tagger):
        rows = zip(tagger.predict_marginals(more_data[0]), more_data[1], strict=True)
        return sum(1.0 - row[label] for sentence, labels in rows for row, label in zip(sentence, labels, strict=True))

    assert expected_mistakes(risk) <= expected_mistakes(plain) + 1e-9
    assert risk.objective_ == pytest.approx(expected_mistakes(risk) + np.sum(risk.weights_**2))


def test_partial_labels_are_summed_over(members, noisy):
    X, y = ([one[:4] for one in both] for both in noisy)
    hidden = [[label if t % 2 else None for t, label in enumerate(labels)] for labels in y]
    taggers = [members["crf"], members["hmm"]]
    tuned, loss = Combination(taggers, l2=0.0).fit(X, hidden), 0.0
    for x, known in zip(X, hidden, strict=True):
        choices = [tuned.classes_ if label is None else [label] for label in known]
        each = [list(labels) for labels in itertools.product(*choices)]
        loss -= np.logaddexp.reduce(tuned.log_probability([x] * len(each), each))
    assert tuned.converged_ and tuned.objective_ == pytest.approx(loss)
    with pytest.raises(OptionError, match="needs one label for each token"):
        Combination(taggers, criterion="risk").fit(X, hidden)


# -- tuning by the error itself ----------------------------------------------------------------------------------------

SEVERAL = ["crf", "hmm", "crf of order 2"]


def by_error(members, data, names=SEVERAL, criterion="mert:k=8,restarts=3", **options):
    fit = {"sample_weight": options.pop("sample_weight")} if "sample_weight" in options else {}
    return Combination([members[name] for name in names], criterion=criterion, **options).fit(*data, **fit)


def wrong_ends(gold, predicted):
    """A cost of whole labellings: how many sentences' ends are wrong, twice as bad if the beginnings are too."""
    return float(gold[-1] != predicted[-1]) * (1 + (gold[0] != predicted[0]))


ERRORS = {
    "f1": ({}, lambda tagger, data: 1.0 - tagger.score(*data, metric="f1")),
    "accuracy": (
        {"criterion": "mert:k=8,restarts=3,metric=accuracy"},
        lambda tagger, data: 1.0 - tagger.score(*data, metric="accuracy"),
    ),
    "cost": (
        {"cost": {("B-NP", "O"): 3.0}},
        lambda tagger, data: np.mean(
            [
                sum(3.0 if (a, b) == ("B-NP", "O") else float(a != b) for a, b in zip(own, found, strict=True))
                for own, found in zip(data[1], tagger.predict(data[0]), strict=True)
            ]
        ),
    ),
    "own cost": (
        {"cost": wrong_ends},
        lambda tagger, data: np.mean(
            [wrong_ends(*pair) for pair in zip(data[1], tagger.predict(data[0]), strict=True)]
        ),
    ),
}


@pytest.mark.parametrize("what", sorted(ERRORS))
def test_mert_ends_with_the_error_it_says_which_is_at_most_that_of_cll(members, noisy, what):
    options, error = ERRORS[what]
    tuned, plain = by_error(members, noisy, **options), by_error(members, noisy, criterion="cll")
    assert tuned.objective_ == pytest.approx(error(tuned, noisy), abs=1e-12)
    assert tuned.objective_ <= error(plain, noisy) + 1e-12
    assert tuned.converged_ and tuned.message_ == "converged: the n-best lists hold nothing new"
    assert len(tuned.history_) == tuned.n_iter_ > plain.n_iter_
    rounds = [progress.objective for progress in tuned.history_[plain.n_iter_ :]]
    assert all(a >= b for a, b in itertools.pairwise(rounds)) and rounds[-1] == tuned.objective_


def test_no_weights_on_a_grid_do_better_than_those_of_mert(members, noisy):
    names = ["crf", "hmm"]
    tuned = by_error(members, noisy, names)
    for angle in np.linspace(0.0123, 0.0123 + 2 * np.pi, 60, endpoint=False):
        other = combined(members, names, [np.cos(angle), np.sin(angle)])
        assert tuned.objective_ <= 1.0 - other.score(*noisy, metric="f1") + 1e-12


def test_the_length_of_the_weights_is_that_of_the_greatest_likelihood(members, noisy):
    tuned = by_error(members, noisy, l2=0.0)
    for factor in (0.99, 1.01):
        assert log_loss(combined(members, SEVERAL, factor * tuned.weights_), noisy) > log_loss(tuned, noisy)


def test_mert_finds_the_same_weights_for_the_same_seed_and_any_number_of_threads(members, data, noisy):
    both = [4 * (one + other) for one, other in zip(data, noisy, strict=True)]
    found = [by_error(members, both, threads=n, seed=4).weights_ for n in (1, 2, 3)]
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])


def test_weights_of_sentences_weigh_their_errors(members, noisy):
    X, y = noisy
    own = [5.0] * 5 + [0.25] * (len(X) - 5)
    tuned = by_error(members, noisy, criterion="mert:k=8,metric=accuracy", sample_weight=own)
    wrong = [sum(a != b for a, b in zip(*pair, strict=True)) for pair in zip(y, tuned.predict(X), strict=True)]
    assert tuned.objective_ == pytest.approx(np.dot(own, wrong) / np.dot(own, [len(labels) for labels in y]))


def test_mert_and_its_files_and_mistakes(members, noisy, tmp_path):
    tuned = by_error(members, noisy, cost=wrong_ends, max_iter=1)
    tuned.save(tmp_path / "m.model")
    again = load(tmp_path / "m.model")
    assert again.criterion == "mert:k=8,restarts=3" and again.predict(noisy[0]) == tuned.predict(noisy[0])
    hidden = [[None, *labels[1:]] for labels in noisy[1]]
    for options, data, message in (
        ({}, (noisy[0], hidden), "needs one label for each token of the dev data"),
        ({"criterion": "mert:metric=bleu"}, noisy, "metric='bleu' is not one of f1, accuracy"),
        ({"criterion": "mert:k=0"}, noisy, "must be at least 1"),
        ({"criterion": "mert:beam=3"}, noisy, "it has k, metric, restarts, directions"),
        ({"criterion": "mert:metric=f1", "cost": "hamming"}, noisy, "a metric and a cost are two errors"),
        ({"cost": lambda gold, predicted: -1.0}, noisy, "costs are numbers between 0 and"),
    ):
        with pytest.raises(OptionError, match=message):
            by_error(members, data, **options)


def test_sentences_whose_labels_a_model_cannot_give_are_left_out_and_counted(members, more_data):
    X, y = more_data
    strange = [["I-NP"] * len(labels) for labels in y[:2]]  # no chunk begins so, says bio
    unknown = [["B-XP", *labels[1:]] for labels in y[2:3]]
    taggers = [members["bio"], members["hmm"]]
    with pytest.warns(UserWarning, match=f"3 of the {len(X)} sentences of the dev data left out"):
        tuned = Combination(taggers).fit(X, strange + unknown + y[3:])
    assert (tuned.n_left_out_, tuned.n_sequences_, tuned.n_tokens_) == (3, len(X) - 3, sum(map(len, X[3:])))
    np.testing.assert_array_equal(tuned.weights_, Combination(taggers).fit(X[3:], y[3:]).weights_)
    with pytest.raises(DataError, match="no sentence in the dev data"):
        Combination(taggers).fit(X[:2], strange)


@pytest.mark.parametrize("criterion", ["risk:k=4", "softmax-margin:k=4"])
def test_lists_take_a_cost_of_two_labellings(members, noisy, criterion):
    taggers = [members["crf"], members["hmm"]]

    def wrong(gold, predicted):
        return sum(a != b for a, b in zip(gold, predicted, strict=True))

    by_name, own = (Combination(taggers, criterion=criterion, cost=cost).fit(*noisy) for cost in (None, wrong))
    assert own.objective_ == pytest.approx(by_name.objective_, rel=1e-5)
    np.testing.assert_allclose(own.weights_, by_name.weights_, rtol=1e-3)
    with pytest.raises(OptionError, match="give a k, as in risk:k=50"):
        Combination(taggers, criterion="risk", cost=wrong).fit(*noisy)


def test_risk_is_annealed(members, noisy):
    """There are iterations at higher temperatures, too, and they lead elsewhere."""
    taggers = [members["crf"], members["hmm"]]
    at_one = Combination(taggers, criterion="risk", max_iter=3).fit(*noisy)
    annealed = Combination(taggers, criterion="risk:anneal=4", max_iter=3).fit(*noisy)
    assert annealed.n_iter_ > at_one.n_iter_ and (annealed.weights_ != at_one.weights_).any()


# -- files and mistakes ------------------------------------------------------------------------------------------------


def test_one_file_holds_it_all(members, more_data, tmp_path):
    combination = Combination([members["crf"], members["hmm"], members["memm"]]).fit(*more_data)
    combination.save(tmp_path / "c.model")
    for again in (load(tmp_path / "c.model"), LoadedTagger.load(tmp_path / "c.model")):
        assert again.predict(more_data[0]) == combination.predict(more_data[0])
        np.testing.assert_array_equal(again.log_probability(*more_data), combination.log_probability(*more_data))
    again = Combination.load(tmp_path / "c.model")
    np.testing.assert_array_equal(again.weights_, combination.weights_)
    np.testing.assert_array_equal(again.fit(*more_data).weights_, combination.weights_)  # tuned again
    assert [tagger.criterion for tagger in again.taggers_] == ["cll", SMOOTHED, "memm"]
    with pytest.raises(AttributeError, match="ask each of its taggers_"):
        _ = again.state_weights_
    assert again.taggers_[0].state_weights_ == members["crf"].state_weights_


def test_models_come_from_files_too(members, more_data, tmp_path):
    for name in ("crf", "hmm"):
        members[name].save(tmp_path / f"{name}.model")
    paths = [str(tmp_path / "crf.model"), tmp_path / "hmm.model"]
    combination = Combination(paths).fit(*more_data)
    np.testing.assert_array_equal(
        combination.weights_, Combination([members["crf"], members["hmm"]]).fit(*more_data).weights_
    )
    combination.save(tmp_path / "both.model")
    with pytest.raises(ModelKindError):
        Combination([tmp_path / "both.model", paths[0]]).fit(*more_data)


def test_features_are_combined_as_columns_are(data, noisy):
    words = Tagger(max_iter=10).fit([[[f"w={w}"] for w, _ in x] for x in data[0]], data[1])
    tags = Tagger(max_iter=10).fit([[[f"t={t}"] for _, t in x] for x in data[0]], data[1])
    dev = [[[f"w={w}", f"t={t}"] for w, t in x] for x in noisy[0]], noisy[1]
    both = Combination([words, tags], l2=0.0).fit(*dev)
    assert both.objective_ < min(log_loss(words, dev), log_loss(tags, dev))


@pytest.mark.parametrize(
    ("taggers", "options", "message"),
    [
        (["crf"], {}, "at least 2 models, not 1"),
        ([], {}, "at least 2 models, not 0"),
        (["crf", "segments"], {}, "tagger 2: a model of segments cannot be combined"),
        (["sub-labels", "crf"], {}, "tagger 1: a model with sub-labels"),
        (["crf", "features"], {}, "tagger 1 looks at columns, tagger 2 at ready-made features"),
        (["crf", "fewer"], {}, r"different labels: B-VP \(only in the latter\); train both"),
        (["crf", "local"], {}, "tagger 2 is LocalTagger"),
        (["crf", "own base"], {}, "files do not hold the base"),
        (["crf", "hmm"], {"weights": [1.0]}, "for each of the 2 models"),
        (["crf", "hmm"], {"weights": [0.0, 0.0]}, "not all zero"),
        (["crf", "hmm"], {"weights": [np.nan, 1.0]}, "a finite number"),
        (["crf", "hmm"], {"weights": "ab"}, "a list of numbers"),
        (["crf", "hmm"], {"criterion": "max-margin"}, "tuned by cll, softmax-margin, risk, jrb, mert"),
        (["crf", "hmm"], {"cost": "hamming:2"}, "takes no cost"),
        (["crf", "hmm"], {"l2": -1.0}, "at least 0"),
    ],
)
def test_what_cannot_be_combined_says_why(members, data, more_data, taggers, options, message):
    from sklearn.linear_model import LogisticRegression

    from problems.distributions import Plain

    X, y = data
    made = {
        "segments": lambda: Tagger(template=WORDS, structure="segments", max_iter=2).fit(X, y),
        "sub-labels": lambda: Tagger(template=WORDS, sub_labels=2, max_iter=2).fit(X, y),
        "features": lambda: Tagger(max_iter=2).fit([[[w] for w, _ in x] for x in X], y),
        "fewer": lambda: Tagger(template=WORDS, max_iter=2).fit(X, [["O" if b == "B-VP" else b for b in z] for z in y]),
        "local": lambda: LocalTagger(LogisticRegression(), template=WORDS),
        "own base": lambda: Tagger("m-estimation", template=WORDS, base=Plain(), max_iter=2, seed=1).fit(X, y),
    }
    given = [members[name] if name in members else made[name]() for name in taggers]
    with pytest.raises(OptionError, match=message):
        Combination(given, **options).fit(*more_data)


def test_without_data_or_weights_there_is_nothing_to_do(members):
    with pytest.raises(OptionError, match="give dev data to tune the weights on"):
        Combination([members["crf"], members["hmm"]]).fit()
