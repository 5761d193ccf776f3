"""Laws of the label scores: scikit-learn agrees; counts add up."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, precision_recall_fscore_support

from loglinear.errors import DataError
from loglinear.evaluation import accuracy_report, flat_accuracy

label = st.sampled_from(["DT", "NN", "VB", "-LRB-"])
sentences = st.lists(st.lists(st.tuples(label, label), min_size=1, max_size=6), max_size=4)


@settings(deadline=None)
@given(sentences)
def test_scikit_learn_agrees(tokens: list[list[tuple[str, str]]]) -> None:
    gold, predicted = [[g for g, _ in s] for s in tokens], [[p for _, p in s] for s in tokens]
    report = accuracy_report(gold, predicted)
    flat = [pair for sentence in tokens for pair in sentence]
    assert report.tokens == len(flat) == sum(score.gold for score in report.labels.values())
    assert report.correct == sum(score.correct for score in report.labels.values())
    if flat:
        truth, guess = zip(*flat, strict=True)
        assert report.accuracy == pytest.approx(100 * accuracy_score(truth, guess))
        names = sorted(set(truth) | set(guess))
        assert list(report.labels) == names
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            referee = precision_recall_fscore_support(truth, guess, labels=names, zero_division=0.0)
        scores = report.labels.values()
        assert [score.precision for score in scores] == pytest.approx(100 * referee[0])
        assert [score.recall for score in scores] == pytest.approx(100 * referee[1])
        assert [score.f1 for score in scores] == pytest.approx(100 * referee[2])
        assert report.text().count("\n") == 2 + len(names)


def test_unused_values_are_not_reported() -> None:
    offsets = np.array([0, 2])
    report = accuracy_report((np.array([0, 1]), ["A", "B", "C"], offsets), (np.array([0, 0]), ["B", "D"], offsets))
    assert list(report.labels) == ["A", "B"]
    assert report.to_dict()["labels"]["B"] == {
        "gold": 1,
        "found": 2,
        "correct": 1,
        "precision": 50.0,
        "recall": 100.0,
        "f1": pytest.approx(200 / 3),
    }


def test_flat_accuracy_is_a_share() -> None:
    assert flat_accuracy([0, 1, 2, 3], [0, 1, 0, 0]) == 0.5
    assert flat_accuracy([], []) == 0
    with pytest.raises(DataError, match="2 gold labels but 1"):
        flat_accuracy([0, 1], [0])
