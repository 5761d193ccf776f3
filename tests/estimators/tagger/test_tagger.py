"""What a user of :class:`loglinear.Tagger` counts on."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pycrfsuite
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline

from loglinear import Constraints, Gazetteer, Tagger
from loglinear.data.columns.corpus import Columns
from loglinear.errors import DataError, InfeasibleError, OptionError
from loglinear.features.names import token_attributes
from loglinear.structures.constraints import constraint_masks


def features_of(sentence):
    """Python features of a sentence's rows, one of them a number."""
    return [
        {"word": word, "tag": tag, "length": len(word) / 10, "before": sentence[t - 1][1] if t else True}
        for t, (word, tag) in enumerate(sentence)
    ]


@pytest.fixture(scope="module")
def features(data):
    return [features_of(sentence) for sentence in data[0]]


# -- the optimum -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("l1", "l2"), [(0.0, 1.0), (0.0, 0.1), (0.5, 0.0), (0.3, 0.2)])
@pytest.mark.parametrize("transitions", ["observed", "all"])
def test_the_optimum_is_crfsuites(data, features, l1, l2, transitions, tmp_path):
    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.set_params(
        {
            "c1": l1,
            "c2": l2,
            "epsilon": 1e-9,
            "delta": 1e-9,
            "max_iterations": 3000,
            "feature.possible_transitions": transitions == "all",
        }
    )
    for sequence, labels in zip(features, data[1], strict=True):
        trainer.append([dict(token_attributes(token)) for token in sequence], labels)
    trainer.train(str(tmp_path / "peer.crfsuite"))
    peer = trainer.logparser.last_iteration
    tagger = Tagger(l1=l1, l2=l2, transitions=transitions, tolerance=1e-9, max_iter=3000).fit(features, data[1])
    assert tagger.objective_ == pytest.approx(peer["loss"], rel=1e-4)
    if not l1:
        assert tagger.model_.features.n_features == trainer.logparser.featgen_num_features


def test_probabilities_are_crfsuites(data, features, more_data, tmp_path):
    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.set_params({"c2": 0.5, "epsilon": 1e-10, "delta": 1e-10, "max_iterations": 3000})
    for sequence, labels in zip(features, data[1], strict=True):
        trainer.append([dict(token_attributes(token)) for token in sequence], labels)
    trainer.train(str(tmp_path / "peer.crfsuite"))
    peer = pycrfsuite.Tagger()
    peer.open(str(tmp_path / "peer.crfsuite"))
    tagger = Tagger(l2=0.5, tolerance=1e-10, max_iter=3000).fit(features, data[1])
    X = [features_of(sentence) for sentence in more_data[0]]
    marginals = tagger.predict_marginals(X)
    log_probability = tagger.log_probability(X, more_data[1])
    for i, sequence in enumerate(X):
        peer.set([dict(token_attributes(token)) for token in sequence])
        assert np.exp(log_probability[i]) == pytest.approx(peer.probability(more_data[1][i]), abs=2e-3)
        for t, token in enumerate(marginals[i]):
            for label, probability in token.items():
                assert probability == pytest.approx(peer.marginal(label, t), abs=2e-3)


def test_weights_are_the_same_for_any_number_of_threads(data, monkeypatch):
    from loglinear.optimizers import objective

    monkeypatch.setattr(objective, "TOKENS_PER_SHARD", 30)
    fitted = [Tagger(template="chunking", order=2, threads=n).fit(*data) for n in (1, 2, 3)]
    assert fitted[0].to_bytes() == fitted[1].to_bytes() == fitted[2].to_bytes()


def test_variance_is_l2(data):
    by_l2 = Tagger(template="words", l2=0.25).fit(*data)
    by_variance = Tagger(template="words", variance=2.0).fit(*data)
    assert np.array_equal(by_l2.model_.weights, by_variance.model_.weights)


def test_sequence_weights_repeat_sequences(data):
    X, y = data
    weights = np.arange(len(X)) % 3 + 1.0
    repeated = [i for i, w in enumerate(weights) for _ in range(int(w))]
    weighted = Tagger(template="words", tolerance=1e-9).fit(X, y, sample_weight=weights)
    plain = Tagger(template="words", tolerance=1e-9).fit([X[i] for i in repeated], [y[i] for i in repeated])
    assert weighted.objective_ == pytest.approx(plain.objective_, rel=1e-7)


def test_l1_drives_weights_to_zero_and_the_model_keeps_the_others_only(data):
    dense = Tagger(template="chunking", l2=0.1).fit(*data)
    sparse = Tagger(template="chunking", l1=2.0, l2=0.0).fit(*data)
    assert 0 < sparse.model_.features.n_features < dense.model_.features.n_features / 4
    assert (sparse.model_.weights != 0).all()
    assert len(sparse.to_bytes()) < len(dense.to_bytes())
    used = {attribute for attribute, _ in sparse.state_weights_}
    assert used == set(sparse.model_.encoder.names())


# -- scikit-learn conventions ----------------------------------------------------------------------------------------


class MakeFeatures(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return [features_of(sentence) for sentence in X]


def test_params_and_clone():
    tagger = Tagger(template="chunking", l2=3.0, constraints="bio")
    params = clone(tagger).get_params()
    assert params == tagger.get_params()
    assert Tagger().set_params(**params).get_params() == params


def test_fit_leaves_the_options_alone(data):
    tagger = Tagger(template="chunking", constraints="bio")
    before = tagger.get_params()
    tagger.fit(*data)
    assert tagger.get_params() == before


def test_grid_search_and_cross_validation(data):
    search = GridSearchCV(Tagger(template="words", max_iter=20), {"l2": [0.01, 100.0]}, cv=3).fit(*data)
    assert search.best_params_ == {"l2": 0.01}
    assert cross_val_score(Tagger(template="words", max_iter=20), *data, cv=3).shape == (3,)


def test_pipeline(data, features):
    pipeline = Pipeline([("features", MakeFeatures()), ("tagger", Tagger())]).fit(*data)
    assert pipeline.predict(data[0]) == Tagger().fit(features, data[1]).predict(features)
    assert pipeline.score(*data) > 0.9


def test_pickling(data, more_data):
    tagger = Tagger(template="ner").fit(*data)
    tagger.predict(more_data[0])
    again = pickle.loads(pickle.dumps(tagger))
    assert again.predict(more_data[0]) == tagger.predict(more_data[0])


def test_an_unfitted_tagger_says_so(data):
    with pytest.raises(NotFittedError, match="call fit"):
        Tagger().predict(data[0])
    with pytest.raises(NotFittedError, match="call fit"):
        Tagger().to_bytes()


def test_attributes(data):
    tagger = Tagger(template="U:%x[0,0]\nB1:%x[0,1]\nB\n", order=2).fit(*data)
    assert tagger.classes_ == sorted({label for labels in data[1] for label in labels})
    assert {y for _, y in tagger.state_weights_} <= set(tagger.classes_)
    assert all(attribute.startswith("U:") for attribute, _ in tagger.state_weights_)
    assert all(attribute.startswith("B1:") for attribute, _, _ in tagger.edge_weights_)
    observed = {pair for labels in data[1] for pair in pairwise(labels)}
    assert set(tagger.transition_weights_) == observed
    assert {(a, b) for a, b, _ in tagger.trigram_weights_} <= observed
    total = sum(
        map(len, (tagger.state_weights_, tagger.edge_weights_, tagger.transition_weights_, tagger.trigram_weights_))
    )
    assert total == tagger.model_.features.n_features


def test_a_template_without_b_has_no_transitions(data):
    tagger = Tagger(template="U:%x[0,0]\n").fit(*data)
    assert tagger.transition_weights_ == {}
    marginals = tagger.predict_marginals([data[0][0]])[0]
    alone = [tagger.predict_marginals([[row]])[0][0] for row in data[0][0]]
    assert marginals == [pytest.approx(one) for one in alone]


# -- prediction ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [1, 2])
def test_nbest_marginals_and_predict_agree(data, more_data, order):
    tagger = Tagger(template="words", order=order, l2=5.0).fit(*data)
    X = more_data[0][:10]
    predicted = tagger.predict(X)
    for i, ranked in enumerate(tagger.predict_nbest(X, 4)):
        probabilities = [p for _, p in ranked]
        assert ranked[0][0] == predicted[i]
        assert probabilities == sorted(probabilities, reverse=True)
        assert len({tuple(labels) for labels, _ in ranked}) == len(ranked)
        for labels, probability in ranked:
            assert np.exp(tagger.log_probability([X[i]], [labels])[0]) == pytest.approx(probability)
    for sequence in tagger.predict_marginals(X):
        for token in sequence:
            assert sum(token.values()) == pytest.approx(1.0)
    best = [[max(token, key=token.get) for token in sequence] for sequence in tagger.predict_marginals(X)]
    assert tagger.predict(X, decoding="posterior") == best
    assert tagger.predict_single(X[0]) == predicted[0]
    assert tagger.predict_marginals_single(X[0]) == tagger.predict_marginals(X[:1])[0]


def test_rows_corpora_and_numbers_give_the_same(data, more_data):
    rows = [[(*row, label) for row, label in zip(x, y, strict=True)] for x, y in zip(*data, strict=True)]
    corpus = Columns.from_rows(rows)
    from_corpus = Tagger(template="chunking").fit(corpus)
    from_lists = Tagger(template="chunking").fit(*data)
    assert np.array_equal(from_corpus.model_.weights, from_lists.model_.weights)
    numbers, confidence = from_lists.predict_numbers(more_data[0], confidence=True)
    flat = [label for labels in from_lists.predict(more_data[0]) for label in labels]
    assert [from_lists.classes_[y] for y in numbers] == flat
    assert ((confidence > 0) & (confidence <= 1 + 1e-12)).all()
    assert from_corpus.score(corpus) == from_corpus.score(*data)
    assert from_corpus.score(*data, metric="f1") <= 1.0


def test_given_labels_are_kept(data, more_data):
    tagger = Tagger(template="chunking").fit(*data)
    X, y = more_data
    rng = np.random.default_rng(0)
    given = [[label if rng.random() < 0.3 else None for label in labels] for labels in y]
    given[0][0] = {"O", "B-VP"}
    predicted = tagger.predict(X, given=given)
    for one, known in zip(predicted, given, strict=True):
        for label, what in zip(one, known, strict=True):
            assert what is None or label == what or (isinstance(what, set) and label in what)
    everything = tagger.predict_marginals(X, given=y)
    assert all(
        token[label] == pytest.approx(1.0)
        for s, ls in zip(everything, y, strict=True)
        for token, label in zip(s, ls, strict=True)
    )
    assert all(labels == [(y[i], pytest.approx(1.0))] for i, labels in enumerate(tagger.predict_nbest(X, 3, given=y)))


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("decoding", ["viterbi", "posterior"])
def test_constraints_rule_labellings_out(data, order, decoding):
    tagger = Tagger(template="U:%x[0,0]\nB\n", constraints="bio", order=order, l2=20.0).fit(*data)
    allowed, starts, _ = constraint_masks("bio", tagger.classes_)
    number = {label: y for y, label in enumerate(tagger.classes_)}
    rng = np.random.default_rng(0)
    X = [[(f"noun{rng.integers(30)}", "N") for _ in range(8)] for _ in range(50)]
    for labels in tagger.predict(X, decoding=decoding):
        assert starts[number[labels[0]]]
        assert all(allowed[number[a], number[b]] for a, b in pairwise(labels))


def test_own_constraints_and_what_they_leave_no_room_for(data, more_data):
    never = Constraints(forbidden=[("B-VP", "B-NP")])
    y = [
        ["O" if a == "B-VP" and b == "B-NP" else b for a, b in zip(["", *labels], labels, strict=False)]
        for labels in data[1]
    ]
    tagger = Tagger(template="words", constraints=never).fit(data[0], y)
    for labels in tagger.predict(more_data[0]):
        assert ("B-VP", "B-NP") not in set(pairwise(labels))
    with pytest.raises(InfeasibleError, match="sequence 1 "):
        tagger.predict([[("a", "b")], [("a", "b"), ("c", "d")]], given=[[None], ["B-VP", "B-NP"]])


def test_no_sequences_give_no_labels(data):
    tagger = Tagger(template="chunking").fit(*data)
    assert tagger.predict([]) == tagger.predict_marginals([]) == tagger.predict_nbest([]) == []
    assert Tagger().fit([[["a"]]], [["x"]]).predict([]) == []


@pytest.mark.parametrize("order", [1, 2])
def test_one_label_and_one_token(order):
    tagger = Tagger(template="words", order=order).fit([["a"], ["b", "c"]], [["x"], ["x", "x"]])
    assert tagger.predict([["a"], ["new", "words", "here"]]) == [["x"], ["x", "x", "x"]]
    assert tagger.predict_nbest([["a"]], 3) == [[(["x"], pytest.approx(1.0))]]


def test_prediction_is_thread_safe(data, more_data):
    tagger = Tagger(template="chunking", threads=2).fit(*data)
    expected = tagger.predict(more_data[0])
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: tagger.predict(more_data[0]), range(40)))
    assert all(result == expected for result in results)


def test_gazetteers_travel_with_the_model(data, tmp_path):
    path = tmp_path / "things.txt"
    path.write_text("noun1\nthe noun2\n", encoding="utf-8")
    tagger = Tagger(template="ner", gazetteers=[path]).fit(*data)
    assert any("-things:" in attribute for attribute, _ in tagger.state_weights_)
    path.unlink()
    again = Tagger.load(tagger.to_bytes())
    assert again.predict(data[0]) == tagger.predict(data[0])
    with pytest.raises(OptionError, match="same name"):
        Tagger(template="ner", gazetteers=[Gazetteer("a", [("x",)]), Gazetteer("a", [("y",)])]).fit(*data)


# -- partial labels --------------------------------------------------------------------------------------------------


def test_accuracy_passes_over_what_is_not_labelled(data):
    tagger = Tagger(template="words", l2=0.01).fit(*data)
    y = [[None if t == 0 else label for t, label in enumerate(labels)] for labels in data[1]]
    plain = tagger.score(data[0], y)
    assert plain == pytest.approx(tagger.score(data[0], y, sample_weight=np.ones(len(y))))


def test_sets_of_one_label_are_labels(data):
    plain = Tagger(template="words").fit(*data)
    sets = Tagger(template="words").fit(data[0], [[{label} for label in labels] for labels in data[1]])
    assert np.array_equal(plain.model_.weights, sets.model_.weights)


def test_partial_labels_teach_and_beat_leaving_them_out(data, more_data):
    rng = np.random.default_rng(0)
    partial = [
        [label if rng.random() < 0.4 else ({label, "O"} if rng.random() < 0.5 else None) for label in labels]
        for labels in data[1]
    ]
    tagger = Tagger(template="chunking", l2=0.1).fit(data[0], partial)
    assert tagger.score(*more_data) > 0.9
    unlabelled = [[None] * len(labels) for labels in data[1]]
    with pytest.raises(DataError, match="no token has a label"):
        Tagger(template="chunking").fit(data[0], unlabelled)
