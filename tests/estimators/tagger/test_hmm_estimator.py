"""The hidden Markov model as an estimator: labelled, partly labelled and unlabelled data."""

import os
import pickle
import signal
from dataclasses import replace
from itertools import pairwise, permutations, product

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

from loglinear import HMM, Tagger
from loglinear.data.columns.corpus import Columns
from loglinear.errors import DataError, InfeasibleError, OptionError
from loglinear.training.run import TrainingInterrupted

ORDERS = pytest.mark.parametrize("order", [1, 2])


def hide(labels, share, seed=0):
    """A ``share`` of the labels is hidden, half of them within a set."""
    rng = np.random.default_rng(seed)

    def one(label):
        if rng.random() >= share:
            return label
        return None if rng.random() < 0.5 else {label, "O"}

    return [[one(label) for label in sequence] for sequence in labels]


def first_time_unknown(X):
    """The rows with the first occurrence of each string made unknown, as training sees them."""
    seen = set()

    def one(column, value):
        new = (column, value) not in seen
        seen.add((column, value))
        return "<unknown>" if new else value

    return [[tuple(one(c, value) for c, value in enumerate(token)) for token in x] for x in X]


def keeps_bio(sequences):
    return all(b != "I-NP" or a in ("B-NP", "I-NP") for s in sequences for a, b in pairwise(["O", *s]))


@ORDERS
def test_with_all_labels_known_it_is_counted(data, more_data, order):
    hmm = HMM(order=order, smoothing=0.5).fit(*data)
    tagger = Tagger(criterion="hmm:smoothing=0.5", order=order).fit(*data)
    assert hmm.to_bytes() == tagger.to_bytes()
    assert hmm.predict(more_data[0]) == tagger.predict(more_data[0]) and hmm.score(*more_data) > 0.9
    assert hmm.converged_ and hmm.n_iter_ == 0 and len(hmm.log_likelihoods_) == 1
    assert hmm.log_likelihoods_[0] == pytest.approx(hmm.log_prob(first_time_unknown(data[0]), data[1]).sum())
    first = [labels[0] for labels in data[1]]
    starts = hmm.hmm_.steps[-1, :-1]
    np.testing.assert_allclose(starts, [first.count(label) / len(first) for label in hmm.classes_])


@ORDERS
@pytest.mark.parametrize("constraints", [None, "bio"])
def test_hidden_labels_are_found_by_rounds_that_raise_the_objective(data, more_data, order, constraints):
    hmm = HMM(order=order, constraints=constraints, smoothing=0.1, tolerance=1e-8).fit(data[0], hide(data[1], 0.6))
    objectives = [progress.objective for progress in hmm.history_]
    assert len(objectives) == hmm.n_iter_ > 2 and hmm.objective_ == objectives[-1]
    assert all(b <= a + 1e-9 * abs(a) for a, b in pairwise(objectives))
    assert len(hmm.log_likelihoods_) == hmm.n_iter_ + 1 and hmm.log_likelihoods_[-1] > hmm.log_likelihoods_[0]
    assert hmm.score(*more_data) > (0.9 if constraints else 0.8)
    if constraints:
        assert keeps_bio(hmm.predict(more_data[0])) and keeps_bio(hmm.sample(200, seed=1)[1])
        at = hmm.classes_.index
        assert hmm.hmm_.steps[-1, at("I-NP")] == 0.0
        assert (hmm.hmm_.steps.reshape(-1, 5)[at("O") :: 4][:1, at("I-NP")] == 0.0).all()


def test_labels_of_unlabelled_data_are_found_up_to_their_names():
    steps = {"a": ("b", "c"), "b": ("c",), "c": ("a", "b")}
    rng = np.random.default_rng(0)
    X, y = [], []
    for _ in range(150):
        labels = ["a"]
        while rng.random() > 0.2:
            labels.append(steps[labels[-1]][rng.integers(len(steps[labels[-1]]))])
        X.append([f"{label}{rng.integers(4)}" if rng.random() < 0.97 else "noise" for label in labels])
        y.append(labels)
    hmm = HMM(labels=3, smoothing=0.1, seed=1).fit(X)
    assert hmm.classes_ == ["0", "1", "2"] and "the best of 5 starts" in hmm.message_
    found = [label for labels in hmm.predict(X) for label in labels]
    gold = [label for labels in y for label in labels]
    accuracy = max(
        np.mean([dict(zip("012", names, strict=True))[f] == g for f, g in zip(found, gold, strict=True)])
        for names in permutations("abc")
    )
    assert accuracy > 0.9
    assert hmm.fit(X, [[None] * len(x) for x in X]).predict(X) == HMM(labels=3, smoothing=0.1, seed=1).fit(X).predict(X)
    one = HMM(labels=3, smoothing=0.1, restarts=0, seed=1).fit(X)
    assert one.objective_ >= hmm.objective_
    ends = [p.objective for p, q in pairwise([*hmm.history_, None]) if q is None or q.phase != p.phase]
    assert len(ends) == 5 and hmm.objective_ == min(ends)


@ORDERS
def test_log_prob_and_the_sum_over_all_labellings(data, order):
    hmm = HMM(order=order, smoothing=0.1, transition_smoothing=0.1).fit(*data)
    n = len(hmm.classes_)
    for x in (x[:3] for x in data[0][:5]):
        joint = {}
        for labels in product(range(n), repeat=len(x)):
            p, before = 1.0, None
            for t, (token, label) in enumerate(zip(x, labels, strict=True)):
                two = n if t < 2 else labels[t - 2]
                row = -1 if t == 0 else before if order == 1 else two * n + before
                p *= hmm.hmm_.steps[row, label]
                for value, strings, table in zip(token, hmm.values_, hmm.hmm_.emissions, strict=True):
                    p *= table[label, strings.index(value) if value in strings else -1]
                before = label
            two = n if len(x) < 2 else labels[-2]
            joint[labels] = p * hmm.hmm_.steps[before if order == 1 else two * n + before, -1]
        assert hmm.log_prob([x])[0] == pytest.approx(np.log(sum(joint.values())))
        best = max(joint, key=joint.get)
        named = [hmm.classes_[label] for label in best]
        assert hmm.predict([x])[0] == named
        assert hmm.log_prob([x], [named])[0] == pytest.approx(np.log(joint[best]))
        some = [None if t else named[0] for t in range(len(x))]
        expected = sum(p for labels, p in joint.items() if labels[0] == best[0])
        assert hmm.log_prob([x], [some])[0] == pytest.approx(np.log(expected))
        marginals = hmm.predict_marginals([x])[0][0]
        assert marginals[named[0]] == pytest.approx(expected / sum(joint.values()))
        assert hmm.predict_nbest([x], 1)[0][0][0] == named


def test_samples_look_like_the_data(data):
    hmm = HMM(smoothing=0.0).fit(*data)
    X, y = hmm.sample(500, seed=3)
    assert len(X) == len(y) == 500 and all(len(x) == len(labels) for x, labels in zip(X, y, strict=True))
    assert (X, y) == hmm.sample(500, seed=3) and hmm.sample(500, seed=4)[0] != X
    again = HMM(smoothing=0.0).fit(X, y)
    assert again.classes_ == hmm.classes_
    np.testing.assert_allclose(again.hmm_.steps, hmm.hmm_.steps, atol=0.08)
    assert np.isfinite(hmm.log_prob(X, y)).all()


@ORDERS
def test_it_is_saved_copied_and_pickled(data, more_data, order, tmp_path):
    hmm = HMM(order=order, smoothing=0.2, rounds=4, constraints="bio").fit(data[0], hide(data[1], 0.5))
    hmm.save(tmp_path / "hmm.model")
    again = HMM.load(tmp_path / "hmm.model")
    assert (again.smoothing, again.rounds, again.order) == (0.2, 4, order)
    tagger = Tagger.load(tmp_path / "hmm.model")
    for other in (again, tagger, pickle.loads(pickle.dumps(hmm)), HMM.load(tagger.to_bytes())):
        assert other.predict_marginals(more_data[0]) == hmm.predict_marginals(more_data[0])
    np.testing.assert_array_equal(again.hmm_.parameters, hmm.hmm_.parameters)
    copy = clone(hmm)
    assert copy.get_params() == hmm.get_params()
    with pytest.raises(NotFittedError, match="this HMM has no model yet"):
        copy.predict(more_data[0])
    Tagger(template="words").fit(*data).save(tmp_path / "other.model")
    with pytest.raises(OptionError, match="criterion is cll"):
        HMM.load(tmp_path / "other.model")


def test_options_are_found_by_grid_search(data):
    grid = GridSearchCV(HMM(), {"smoothing": np.array([0.01, 1.0]), "transition_smoothing": [0.5, 1.0]}, cv=3)
    grid.fit(*data)
    assert grid.best_score_ > 0.8
    assert HMM.load(grid.best_estimator_.to_bytes()).smoothing == grid.best_params_["smoothing"]


def test_a_sequence_of_weight_zero_says_nothing(data):
    X, y = data
    wrong = [["O"] * len(labels) for labels in y]
    weights = [1.0] * len(X) + [0.0] * len(X)
    hidden = hide(y, 0.3)
    hmm = HMM(smoothing=0.1).fit(X + X, hidden + wrong, sample_weight=weights)
    plain = HMM(smoothing=0.1).fit(X + X, hidden + wrong)
    assert hmm.score(X, y) > plain.score(X, y)
    half = HMM(smoothing=0.1).fit(X + X, hidden + hidden, sample_weight=[0.5] * (2 * len(X)))
    np.testing.assert_allclose(hmm.hmm_.steps, half.hmm_.steps, atol=0.05)


def test_corpora_with_and_without_labels(data):
    rows = [[(*token, label) for token, label in zip(x, labels, strict=True)] for x, labels in zip(*data, strict=True)]
    corpus = Columns.from_rows(rows)
    assert HMM().fit(corpus).to_bytes() == HMM().fit(*data).to_bytes()
    stars = [[(*row[:2], "*" if t % 2 else row[2]) for t, row in enumerate(row_list)] for row_list in rows]
    partly = HMM().fit(Columns.from_rows(stars), partial=True)
    same = HMM().fit(data[0], [[None if t % 2 else label for t, label in enumerate(labels)] for labels in data[1]])
    assert partly.to_bytes() == same.to_bytes()
    unlabelled = HMM(labels=2, restarts=0, rounds=3).fit(corpus)
    assert len(unlabelled.values_) == 3  # every column is something observed
    words = [[token[0] for token in x] for x in data[0]]
    assert len(HMM(labels=2, restarts=0, rounds=3).fit(words).predict(words)[0]) == len(words[0])


@pytest.mark.parametrize(
    ("options", "labels", "reason"),
    [
        ({"labels": 3}, "known", "labels=3 asks for labels to be found, but the data has some"),
        ({"labels": 0}, None, "labels=0 must be at least 1"),
        ({"smoothing": -1.0}, "known", "smoothing=-1.0 must be at least 0"),
        ({"smoothing": 1e308}, "known", r"smoothing=1e\+308 must be at most 1e\+06"),
        ({"transition_smoothing": 1e300}, "known", r"transition_smoothing=1e\+300 must be at most 1e\+06"),
        ({"restarts": 1.5}, "known", "restarts=1.5 must be a whole number"),
        ({"order": 3}, "known", "order=3"),
        ({"threads": 0}, "known", "threads=0"),
    ],
    ids=str,
)
def test_options_that_make_no_sense_are_refused(data, options, labels, reason):
    with pytest.raises(OptionError, match=reason):
        HMM(**options).fit(data[0], data[1] if labels == "known" else None)


def test_where_no_label_is_known_their_number_is_asked_for(data):
    with pytest.raises(DataError, match=r"no token has a label to learn from; .* say how many .*hmm:labels=10"):
        HMM().fit(data[0], [[None] * len(x) for x in data[0]])
    words = [[token[0] for token in x] for x in data[0]]
    for unlabelled in (words, Columns.from_rows(words), replace(Columns.from_rows(data[0]), unlabelled=1)):
        for estimator in (HMM(), Tagger(criterion="hmm")):
            with pytest.raises(
                DataError, match=r"label.*; if there are none, say how many to find \(hmm:labels=10, HMM"
            ):
                estimator.fit(unlabelled)
    with pytest.raises(DataError, match=r"the label column is missing$"):  # others cannot find any
        Tagger(template="words").fit(words)


def test_nothing_to_learn_from_is_refused_and_nothing_to_label_gets_no_labels(data):
    for estimator in (HMM(), HMM(labels=2), Tagger(criterion="m-estimation", template="words")):
        with pytest.raises(DataError, match="there is no sequence to train on"):
            estimator.fit([])
    options = {"criterion": "m-estimation", "template": "words", "variance": 1}
    for estimator in (HMM().fit(*data), Tagger(**options).fit(*data)):
        assert estimator.predict([]) == estimator.predict_marginals([]) == estimator.predict_nbest([]) == []
        assert estimator.score([], []) == 0.0
        for found in (estimator.log_prob([]), estimator.log_prob([], []), estimator.log_probability([], [])):
            assert found.shape == (0,)


def test_dev_data_chooses_the_round_and_counting_needs_none(data, more_data):
    hidden = hide(data[1], 0.7)
    tagger = Tagger(criterion="hmm", metric="accuracy").fit(data[0], hidden, *more_data)
    scores = [progress.dev_score for progress in tagger.history_]
    assert tagger.dev_score_ >= max(scores) and tagger.score(*more_data) == pytest.approx(tagger.dev_score_)
    with pytest.raises(OptionError, match="no use for dev data"):
        Tagger(criterion="hmm").fit(*data, *more_data)
    several = Tagger(criterion="hmm:restarts=2", metric="accuracy", patience=2).fit(data[0], hidden, *more_data)
    assert {progress.phase for progress in several.history_} == {f"start {i} of 3" for i in (1, 2, 3)}
    scores = [progress.dev_score for progress in several.history_]  # patience ends a start, and the best of all is kept
    assert several.dev_score_ >= max(scores) and several.score(*more_data) == pytest.approx(several.dev_score_)
    with pytest.raises(OptionError, match="are not those of dev data"):
        Tagger(criterion="hmm:labels=2").fit(data[0], None, *more_data)
    with pytest.raises(OptionError, match="hmm:rounds=7 says when EM ends"):
        Tagger(criterion="hmm", max_iter=7).fit(*data)


def test_options_for_hidden_labels_have_no_effect_where_all_are_known_and_the_report_says_so(data):
    counted = "counted: there are no weights to learn"
    assert HMM().fit(*data).message_ == counted
    hmm = HMM(restarts=3).fit(*data)
    assert hmm.message_ == f"{counted}; all labels are known, so restarts=3 has no effect"
    assert HMM.load(hmm.to_bytes()).message_ == hmm.message_
    tagger = Tagger(criterion="hmm:rounds=100,tolerance=0.1").fit(*data)  # also a default, if it is given
    assert tagger.message_ == f"{counted}; all labels are known, so rounds=100, tolerance=0.1 have no effect"
    options = {"template": "words", "variance": 1}
    tilted = Tagger(criterion="m-estimation:rounds=3", **options).fit(*data)
    plain = Tagger(criterion="m-estimation", **options).fit(*data)
    assert tilted.message_ == f"{plain.message_}; all labels are known, so rounds=3 has no effect"
    for estimator in (HMM(restarts=1, rounds=2), Tagger(criterion="m-estimation:rounds=2", **options)):
        assert "no effect" not in estimator.fit(data[0], hide(data[1], 0.5)).message_
    assert "no effect" not in Tagger(criterion="m-estimation:rounds=2", sub_labels=2, **options).fit(*data).message_


@pytest.mark.parametrize("option", [{"states": "all"}, {"transitions": "all"}, {"transitions": "none"}], ids=str)
def test_options_about_features_are_refused(data, option):
    with pytest.raises(OptionError, match=f"{next(iter(option))}=.*is counted, and has no features"):
        Tagger(criterion="hmm", **option).fit(*data)


@ORDERS
def test_em_that_was_interrupted_goes_on_as_if_it_was_not(data, order, tmp_path):
    X, hidden = data[0], hide(data[1], 0.6)
    options = {"criterion": "hmm:restarts=1,rounds=5,tolerance=0", "order": order}
    whole = Tagger(**options).fit(X, hidden)
    assert {progress.phase for progress in whole.history_} == {"start 1 of 2", "start 2 of 2"}

    def interrupt(after):
        def observe(progress):
            if progress.iteration == after:
                os.kill(os.getpid(), signal.SIGINT)

        return observe

    for after in (2, 7):
        with pytest.raises(TrainingInterrupted, match=f"interrupted after iteration {after}; go on from"):
            Tagger(**options).fit(X, hidden, checkpoint=tmp_path / "c", resume=True, observe=interrupt(after))
        assert Tagger.load(tmp_path / "c").predict(X)  # a usable model
    resumed = Tagger(**options).fit(X, hidden, checkpoint=tmp_path / "c", resume=True)
    assert resumed.to_bytes() == whole.to_bytes()
    with pytest.raises(OptionError, match="other data or options"):
        Tagger(**options).fit(X[::-1], hidden[::-1], checkpoint=tmp_path / "c", resume=True)


@ORDERS
def test_the_model_is_the_same_for_any_number_of_threads_and_of_a_seed(data, order):
    hidden = hide(data[1], 0.8)
    one, two, other = (
        HMM(order=order, restarts=1, rounds=5, threads=threads, seed=seed).fit(data[0], hidden)
        for threads, seed in ((1, 0), (2, 0), (2, 1))
    )
    assert one.to_bytes() == two.to_bytes()
    assert one.history_[-1].objective != other.history_[-1].objective


def test_rules_of_ones_own_make_a_model_that_only_moves_on():
    rules = {"forbidden": [["1", "0"], ["2", "0"], ["2", "1"]], "starts": ["0"]}
    X = [["a", "a", "b", "c"], ["a", "b", "b", "c"], ["a", "b", "c", "c"]] * 10
    hmm = HMM(labels=3, constraints=rules, smoothing=0.01).fit(X)
    assert all(labels == sorted(labels) and labels[0] == "0" for labels in hmm.predict(X))
    assert all(labels == sorted(labels) for labels in hmm.sample(100, seed=0)[1])


def test_what_no_labelling_fits_is_told_with_the_remedy():
    X, y = [["a", "b"], ["a", "b"]], [["A", "B"], ["A", "B"]]
    with pytest.raises(InfeasibleError, match=r"sequence 1 .*hmm:transition_smoothing"):
        HMM().fit(X, y).predict([["a", "b"], ["a"]])
    assert HMM(transition_smoothing=0.1).fit(X, y).predict([["a"]]) == [["A"]]


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({"smoothing": 0.0, "transition_smoothing": 0.1}, "smoothing=0.1"),
        ({"smoothing": 0.0, "transition_smoothing": 0.1, "constraints": "bio"}, "smoothing=0.1"),
        ({"smoothing": 0.1}, "transition_smoothing=0.1"),
        ({"smoothing": 0.0}, "smoothing=0.1,transition_smoothing=0.1"),
    ],
    ids=str,
)
@ORDERS
def test_the_remedy_is_what_was_not_given(options, remedy, order):
    X, y = [[("a", "1"), ("b", "2")]] * 3, [["B-X", "I-X"]] * 3
    with pytest.raises(InfeasibleError) as said:  # no label emits a and 2, and no sequence is as short
        HMM(order=order, **options).fit(X, y).predict([[("a", "2")]])
    assert str(said.value).endswith(f"unless smoothed (hmm:{remedy}, m-estimation:{remedy})")


def test_where_constraints_alone_are_in_the_way_no_smoothing_is_named():
    X, y = [["a", "b"], ["a", "b"]], [["B-X", "I-X"], ["B-X", "O"]]
    hmm = HMM(transition_smoothing=0.1, constraints="bio").fit(X, y)
    with pytest.raises(InfeasibleError) as said:
        hmm.predict([["a", "b"]], given=[["O", "I-X"]])
    assert "smooth" not in str(said.value)


def test_a_line_for_each_round(data, capsys):
    hmm = HMM(verbose=True, rounds=3).fit(data[0], hide(data[1], 0.5))
    assert len(capsys.readouterr().out.splitlines()) == hmm.n_iter_ > 0
