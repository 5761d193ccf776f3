"""Hidden sub-labels: results for a label are sums over its sub-labels."""

from itertools import pairwise, product

import numpy as np
import pytest

from loglinear import Tagger
from loglinear.criteria.criterion import CRITERIA
from loglinear.errors import OptionError

NAMES = [name for name in CRITERIA.all() if CRITERIA.part(name).learns_from_hidden()]


def small(name="cll", **options):
    penalty = {} if CRITERIA.part(name).optimizers == ("online",) else {"l2": 0.1}
    pairs = name == "nota"  # features of single labels do not distinguish wrong contexts from right ones
    given = {"sub_labels": 2, "max_iter": 20, "pair_features": pairs, **penalty, **options}
    if not CRITERIA.part(name).learns_weights:  # no features, no weights
        return Tagger(criterion=name, sub_labels=2, **options)
    return Tagger(criterion=name, template="U:%x[0,0]\nB\n", **given)


@pytest.fixture(scope="module")
def tagger(data):
    return small(order=1, constraints="bio").fit(*data)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("order", [1, 2])
def test_every_criterion_that_takes_partial_labels_learns(data, more_data, name, order):
    tagger = small(name, order=order).fit(*data)
    assert tagger.classes_ == ["B-NP", "B-VP", "I-NP", "O"]
    assert tagger.score(*data) > (0.5 if name == "nota" else 0.85)
    again = Tagger.load(tagger.to_bytes())
    assert again.sub_labels == 2 and again.predict(more_data[0]) == tagger.predict(more_data[0])
    assert again.predict_marginals(more_data[0][:3]) == tagger.predict_marginals(more_data[0][:3])


def test_probabilities_are_sums_over_sub_labels(tagger, more_data):
    """Against enumeration of all labellings by sub-labels."""
    for x in (x[:3] for x in more_data[0][:6]):
        encoded = tagger.model_.encoder.transform(tagger._corpus([x]))
        scores = tagger.model_.part_scores(encoded, 0, 1)
        n_states, total = 2 * len(tagger.classes_), {}
        for states in product(range(n_states), repeat=len(x)):
            s = scores.start[states[0]] + scores.stop[states[-1]]
            s += sum(scores.emission[t, y] for t, y in enumerate(states))
            s += sum(scores.transition[a, b] for a, b in pairwise(states))
            labels = tuple(tagger.classes_[y // 2] for y in states)
            total[labels] = total.get(labels, 0.0) + np.exp(s)
        z = sum(total.values())
        for t, row in enumerate(tagger.predict_marginals([x])[0]):
            for label, p in row.items():
                assert p == pytest.approx(sum(v for k, v in total.items() if k[t] == label) / z)
        ranked = tagger.predict_nbest([x], len(tagger.classes_) ** len(x))[0]
        assert {tuple(labels): p for labels, p in ranked} == pytest.approx(
            {k: v / z for k, v in total.items() if v > 0}
        )
        assert [p for _, p in ranked] == sorted((p for _, p in ranked), reverse=True)
        for labels, p in ranked[:5]:
            assert tagger.log_probability([x], [labels])[0] == pytest.approx(np.log(p))
        assert tagger.predict([x], decoding="min-risk") == tagger.predict([x], decoding="posterior")


def test_known_labels_stay_and_constraints_hold(tagger, more_data):
    X, y = more_data
    given = [[label if t % 2 else None for t, label in enumerate(labels)] for labels in y]
    for known, labels in zip(given, tagger.predict(X, given=given), strict=True):
        assert all(k in (None, label) for k, label in zip(known, labels, strict=True))
    for labels in tagger.predict(X, decoding="posterior"):
        assert all(b != "I-NP" or a in ("B-NP", "I-NP") for a, b in zip(["O", *labels], labels, strict=False))


def test_sub_labels_of_a_label_come_to_differ(tagger):
    weights = tagger.state_weights_
    pairs = [(w, weights.get((a, f"{label[:-1]}1"), 0.0)) for (a, label), w in weights.items() if label.endswith("#0")]
    assert any(abs(one - other) > 0.05 for one, other in pairs)


def test_partial_labels_costs_and_two_kinds_of_start(data):
    partial = [[{"B-NP", "O"} if i % 7 == 0 else label for i, label in enumerate(labels)] for labels in data[1]]
    tagger = small("softmax-margin", cost="recall:3").fit(data[0], partial)
    assert tagger.score(*data) > 0.8
    plain = Tagger(template="U:%x[0,0]\nB\n", l2=0.1).fit(*data)
    assert small().fit(*data, init=plain).score(*data) > 0.85
    assert small().fit(*data, init=tagger).score(*data) > 0.85
    with pytest.raises(OptionError, match="has 2 sub-labels, this one 3"):
        small(sub_labels=3).fit(*data, init=tagger)


def test_the_seed_settles_the_start(data):
    one, again, other = (small(seed=seed).fit(*data).objective_ for seed in (1, 1, 2))
    assert one == again != other
