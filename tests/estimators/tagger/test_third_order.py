"""Taggers of order 3: the weights of label 4-grams, every criterion, model files, and what goes up to order 2."""

import itertools

import numpy as np
import pytest

from loglinear import Combination, Tagger
from loglinear.criteria.criterion import CRITERIA
from loglinear.errors import OptionError
from loglinear.estimators.options import LEAST_SQUARES
from loglinear.estimators.tagger.model import check_size

TEMPLATE = "U0:%x[0,0]\nU1:%x[-1,1]/%x[0,1]\nB"
LEARNED = [name for name, each in CRITERIA.all().items() if each.learns_weights and not each.uses_base]
LEARNERS = [*(name for name in LEARNED if name != LEAST_SQUARES), "nota:local", "nota:scaling", "nota:rate=0.3",
            "nota:threshold=0.2,after=2"]  # fmt: skip


@pytest.fixture(scope="module")
def few(data):
    """Sentences of at most five tokens."""
    return tuple([one[:5] for one in every[:16]] for every in data)


def names_of(x):
    tags = ["_B-1", *(tag for _, tag in x)]
    return [[f"U0:{word}", f"U1:{tags[t]}/{tag}"] for t, (word, tag) in enumerate(x)]


class Scores:
    """The scores of labellings as sums of the weights of their features: the definition."""

    def __init__(self, tagger):
        self.states = tagger.state_weights_
        self.ngrams = [tagger.transition_weights_, tagger.trigram_weights_, tagger.fourgram_weights_]

    def __call__(self, x, labels):
        total = 0.0
        for t, (names, label) in enumerate(zip(names_of(x), labels, strict=True)):
            total += sum(self.states.get((name, label), 0.0) for name in names)
            for back, table in enumerate(self.ngrams, start=1):
                total += table.get(tuple(labels[t - back : t + 1]), 0.0) if t >= back else 0.0
        return total


@pytest.mark.parametrize("criterion", ["cll", "risk", "perceptron", "pseudolikelihood", "piecewise", "max-margin"])
def test_probabilities_are_those_of_all_labellings(few, criterion):
    tagger = Tagger(criterion, template=TEMPLATE, order=3, max_iter=20, precision="float64").fit(*few)
    assert tagger.model_.order == 3 and tagger.fourgram_weights_
    seen = {tuple(y[t - 3 : t + 1]) for y in few[1] for t in range(3, len(y))}
    assert tagger.fourgram_weights_.keys() <= seen
    score = Scores(tagger)
    for x in few[0][:4]:
        labellings = list(itertools.product(tagger.classes_, repeat=len(x)))
        totals = np.array([score(x, labels) for labels in labellings])
        ranked = np.argsort(-totals, kind="stable")
        best = list(labellings[ranked[0]])
        expected = totals - np.logaddexp.reduce(totals)
        np.testing.assert_allclose(tagger.log_probability([x], [best]), [expected.max()], atol=1e-9)
        assert score(x, tagger.predict([x])[0]) == pytest.approx(totals.max(), abs=1e-9)
        first = [labels for labels, _ in tagger.predict_nbest([x], 3)[0]]
        np.testing.assert_allclose([score(x, labels) for labels in first], totals[ranked[: len(first)]])


@pytest.mark.parametrize("criterion", LEARNERS)
def test_every_criterion_and_every_use(data, more_data, criterion, tmp_path):
    options = {"template": TEMPLATE, "order": 3, "max_iter": 6, "constraints": "bio"}
    tagger = Tagger(criterion, **options).fit(*data)
    again = Tagger(criterion, threads=2, **options).fit(*data)
    np.testing.assert_array_equal(again.model_.weights, tagger.model_.weights)
    tagger.save(tmp_path / "m")
    loaded = Tagger.load(tmp_path / "m")
    X, y = more_data
    assert loaded.to_bytes() == tagger.to_bytes() and loaded.fourgram_weights_ == tagger.fourgram_weights_
    assert loaded.predict(X) == tagger.predict(X)
    for rows in tagger.predict_marginals(X[:5]):
        np.testing.assert_allclose([sum(row.values()) for row in rows], 1.0, atol=1e-9)
    assert tagger.predict(X[:5], decoding="posterior")
    given = [[label if t % 2 else None for t, label in enumerate(labels)] for labels in y[:5]]
    forced = tagger.predict(X[:5], given=given)
    assert all(one in (None, label) for known, new in zip(given, forced, strict=True)
               for one, label in zip(known, new, strict=True))  # fmt: skip


@pytest.mark.parametrize("criterion", [name for name in LEARNED if CRITERIA.part(name).learns_from_hidden()])
def test_hidden_labels(data, criterion):
    X, y = data
    partial = [[None if t % 4 == 2 else label for t, label in enumerate(labels)] for labels in y]
    if CRITERIA.part(criterion).takes_partial:
        assert Tagger(criterion, template=TEMPLATE, order=3, max_iter=4).fit(X, partial).fourgram_weights_
    tagger = Tagger(criterion, template=TEMPLATE, order=3, sub_labels=2, max_iter=3).fit(X[:10], y[:10])
    assert any("#1" in label for labels in tagger.fourgram_weights_ for label in labels)


def test_the_minimum_is_no_higher_than_that_of_order_2(data):
    objectives = [Tagger(template=TEMPLATE, order=order, tolerance=1e-8).fit(*data).objective_ for order in (1, 2, 3)]
    assert objectives[0] > objectives[1] > objectives[2]


def test_a_start_from_another_order_and_the_other_way_round(data):
    second = Tagger(template=TEMPLATE, order=2).fit(*data)
    third = Tagger(template=TEMPLATE, order=3, max_iter=0).fit(*data, init=second)
    assert third.trigram_weights_ == second.trigram_weights_ and not third.fourgram_weights_
    trained = Tagger(template=TEMPLATE, order=3).fit(*data)
    same = Tagger(template=TEMPLATE, order=3, max_iter=0).fit(*data, init=trained)
    assert same.fourgram_weights_ == trained.fourgram_weights_
    back = Tagger(template=TEMPLATE, order=2, max_iter=0).fit(*data, init=trained)
    assert back.trigram_weights_ == trained.trigram_weights_ and not back.fourgram_weights_


def test_pruning_and_transitions(data):
    tagger = Tagger(template=TEMPLATE, order=3).fit(*data)
    smaller = tagger.pruned(keep=20)
    assert sum(smaller.model_.feature_counts.values()) == 20
    n = len(tagger.classes_)
    every = Tagger(template=TEMPLATE, order=3, transitions="all").problem(*data).model.features
    assert (len(every.transitions), len(every.trigrams), len(every.fourgrams)) == (n**2, n**3, n**4)
    none = Tagger(template=TEMPLATE, order=3, transitions="none").problem(*data).model.features
    assert not len(none.fourgrams)
    only = Tagger(template=TEMPLATE, order=3, transitions="observed-only", max_iter=3).fit(*data)
    assert only.fourgram_weights_


@pytest.mark.parametrize("pair_features", [True, "only"])
@pytest.mark.parametrize("criterion", ["cll", "memm", "nota", "risk"])
def test_pair_features(data, more_data, pair_features, criterion):
    options = {"template": TEMPLATE, "order": 3, "pair_features": pair_features, "max_iter": 4}
    tagger = Tagger(criterion, **options).fit(*data)
    assert tagger.edge_weights_ and tagger.fourgram_weights_
    assert len(tagger.predict(more_data[0])) == len(more_data[0])


def test_a_combination_of_orders(data, more_data):
    criteria = [("cll", 1, False), ("cll", 3, True), ("memm", 3, False), ("memm", 2, True)]
    members = [
        Tagger(criterion, template=TEMPLATE, order=order, pair_features=pairs, max_iter=4).fit(*data)
        for criterion, order, pairs in criteria
    ]
    combination = Combination(members).fit(*more_data)
    assert combination.model_.order == 3
    assert combination.score(*more_data) > 0.5


def test_an_interrupted_training_goes_on_bit_for_bit(data, tmp_path):
    options = {"template": TEMPLATE, "order": 3, "l2": 0.01, "tolerance": 0.0}
    Tagger(max_iter=4, **options).fit(*data, checkpoint=tmp_path / "c")
    resumed = Tagger(max_iter=9, **options).fit(*data, checkpoint=tmp_path / "c", resume=True)
    assert resumed.to_bytes() == Tagger(max_iter=9, **options).fit(*data).to_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"criterion": "hmm", "template": None}, "hidden Markov model, and these are of order 1 or 2"),
        ({"criterion": "m-estimation"}, "hidden Markov model, and these are of order 1 or 2"),
        ({"criterion": "pseudolikelihood:nota"}, "sums over all neighbours"),
        ({"structure": "segments"}, "order=3 goes with structure='chain'"),
        ({"order": 4}, "order=4 is not one of 1, 2, 3"),
        ({"optimizer": "dual"}, "dual"),
        ({"criterion": "memm", "optimizer": "dual"}, "it goes over chains of order 1 and 2"),
        ({"template": "U0:%x[0,0]\n"}, "order=3"),
    ],
)
def test_what_it_does_not_go_with_is_refused(data, options, message):
    with pytest.raises(OptionError, match=message):
        Tagger(**{"template": TEMPLATE, "order": 3, **options}).fit(*data)


def test_labels_too_many_for_a_table_of_4_grams_are_refused():
    check_size(107, 3, False)
    with pytest.raises(OptionError, match=r"order=3 needs a score for every four of 500 labels \(500 GB\)"):
        check_size(500, 3, False)
