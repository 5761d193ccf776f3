"""Empty sequences: accepted wherever sequences are, with an empty labelling, and nothing else changes."""

import numpy as np
import pycrfsuite
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

from loglinear import LocalTagger, Tagger
from loglinear.errors import DataError
from loglinear.evaluation import accuracy_report, chunk_scores

X = [[{"w": "a", "n": 0.5}, {"w": "b"}], [{"w": "b"}], [{"w": "a"}, {"w": "a"}, {"w": b"b"}], [{"w": "b"}, {}]] * 3
Y = [["A", "B"], ["B"], ["A", "A", "B"], ["B", "B"]] * 3
WITH_EMPTY = [[], *X[:2], [], [], *X[2:], []]
Y_EMPTY = [[], *Y[:2], [], [], *Y[2:], []]
FILLED = [i for i, x in enumerate(WITH_EMPTY) if x]


@pytest.fixture(scope="module")
def tagger():
    return Tagger().fit(X, Y)


def test_training_is_that_without_them(tagger):
    weights = np.ones(len(WITH_EMPTY))
    other = Tagger().fit(WITH_EMPTY, Y_EMPTY, WITH_EMPTY, Y_EMPTY, sample_weight=weights)
    assert Tagger().fit(WITH_EMPTY, Y_EMPTY).state_weights_ == tagger.state_weights_
    assert other.dev_score_ == 1.0
    with pytest.raises(DataError, match="no sequence to train on"):
        Tagger().fit([[], []], [[], []])
    with pytest.raises(DataError, match=r"sequence 3 \(from 0\) has 0 tokens but 1 label"):
        Tagger().fit(WITH_EMPTY, [*Y_EMPTY[:3], ["A"], *Y_EMPTY[4:]])


@pytest.mark.parametrize(
    "empty", [[], (), iter(()), pycrfsuite.ItemSequence([])], ids=["list", "tuple", "iterator", "item-sequence"]
)
def test_one_alone_has_an_empty_labelling(tagger, empty):
    assert tagger.predict_single(empty) == []


def test_what_comes_out_is_aligned(tagger):
    def spread(found, empty):
        places = iter(found)
        return [next(places) if x else empty for x in WITH_EMPTY]

    assert tagger.predict(WITH_EMPTY) == spread(tagger.predict(X), [])
    assert tagger.predict(WITH_EMPTY, decoding="posterior") == spread(tagger.predict(X, decoding="posterior"), [])
    assert tagger.predict_marginals(WITH_EMPTY) == spread(tagger.predict_marginals(X), [])
    assert tagger.predict_nbest(WITH_EMPTY, 2) == spread(tagger.predict_nbest(X, 2), [([], 1.0)])
    assert tagger.predict_spans(WITH_EMPTY) == spread(tagger.predict_spans(X), [])
    assert tagger.log_probability(WITH_EMPTY, Y_EMPTY).tolist() == spread(tagger.log_probability(X, Y), 0.0)
    assert tagger.predict(WITH_EMPTY, given=Y_EMPTY) == Y_EMPTY
    assert tagger.predict([[], []]) == [[], []]
    assert tagger.predict_marginals([[]]) == [[]]
    assert tagger.predict_spans([[]]) == [[]]
    weights = np.arange(1.0, len(WITH_EMPTY) + 1)
    assert tagger.score(WITH_EMPTY, Y_EMPTY, weights) == tagger.score(X, Y, weights[FILLED])


def test_rows_of_a_template_and_other_estimators():
    rows = [[token.get("w", b"x") for token in x] for x in WITH_EMPTY]
    rows = [[w.decode() if isinstance(w, bytes) else w for w in x] for x in rows]
    for estimator in (
        Tagger(template="U:%x[0,0]\nB"),
        Tagger(criterion="hmm"),
        LocalTagger(LogisticRegression(), template="U:%x[0,0]\nB"),
    ):
        labels = estimator.fit(rows, Y_EMPTY).predict(rows)
        assert list(map(len, labels)) == list(map(len, rows))


def test_cross_validation_and_scores():
    assert len(cross_val_score(Tagger(), WITH_EMPTY, Y_EMPTY, cv=3)) == 3
    assert chunk_scores(Y_EMPTY, Y_EMPTY).accuracy == chunk_scores(Y, Y).accuracy == 100.0
    assert accuracy_report(Y_EMPTY, Y_EMPTY).accuracy == accuracy_report(Y, Y).accuracy


def test_sequences_of_other_kinds(tagger):
    expected = tagger.predict(X)
    as_strings = [[["w:a"], ["w:b"]], [["w:b"]], [["w:a"], ["w:a"], ["w:b"]], [["w:b"], []]] * 3
    model = Tagger().fit(as_strings, Y)
    views = [[dict.fromkeys(token, 1).keys() for token in x] for x in as_strings]
    assert model.predict(views) == model.predict(as_strings)
    sequences = [pycrfsuite.ItemSequence(x) for x in X]
    assert tagger.predict(sequences) == expected
    assert tagger.predict(iter(x) for x in X) == expected
    array = np.empty(len(X), dtype=object)
    array[:] = X
    assert tagger.predict(array) == expected
    assert Tagger().fit(sequences, Y).state_weights_ == tagger.state_weights_
    with pytest.raises(DataError, match="sequence 0"):
        tagger.predict([{"w": "a"}])
