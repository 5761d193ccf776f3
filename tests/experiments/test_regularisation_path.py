"""The path: errors as they are, the choices as they are defined, warm starts that change nothing."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loglinear import Tagger
from loglinear.data import read_columns
from loglinear.data.corpora.bundled import bundled_text
from loglinear.errors import OptionError
from loglinear.experiments.path import RegularisationPath, regularisation_path

FEW = (0.01, 1.0, 100.0)


def corpus(split: str):
    return read_columns(BytesIO(bundled_text(split, "chunk").encode()))


@pytest.fixture(scope="module")
def path():
    train = corpus("train").select(range(60))
    return regularisation_path(Tagger(template="words", tolerance=1e-9), train, l2=FEW, X_test=corpus("dev"))


def test_errors_are_those_of_models_trained_alone(path):
    train, test = corpus("train").select(range(60)), corpus("dev")
    for place, l2 in enumerate(FEW):
        alone = Tagger(template="words", l2=l2, tolerance=1e-9).fit(train)
        assert path.train_error[place] == pytest.approx(1.0 - alone.score(train), abs=0.003)
        assert path.test_error[place] == pytest.approx(1.0 - alone.score(test), abs=0.003)
    assert path.l2.tolist() == list(FEW)
    assert path.train_error[0] < path.train_error[-1]


def test_the_standard_error_is_that_of_sentences_drawn_again(path):
    tagger, test = Tagger(template="words", l2=1.0).fit(corpus("train").select(range(60))), corpus("dev")
    rows, labels = test.rows(), test.labels()
    pairs = zip(tagger.predict(rows), labels, strict=True)
    wrong = np.array([sum(a != b for a, b in zip(*pair, strict=True)) for pair in pairs])
    lengths = np.array([len(sentence) for sentence in labels])
    drawn = np.random.default_rng(0).integers(len(wrong), size=(4000, len(wrong)))
    shares = wrong[drawn].sum(axis=1) / lengths[drawn].sum(axis=1)
    assert path.standard_error[1] == pytest.approx(shares.std(), rel=0.1)


def test_cross_validation_is_the_mean_over_the_parts():
    data = corpus("train").select(range(40))
    path = regularisation_path(Tagger(template="words"), data, l2=[1.0], folds=4, seed=3)
    again = regularisation_path(Tagger(template="words"), data, l2=[1.0], folds=4, seed=3)
    other = regularisation_path(Tagger(template="words"), data, l2=[1.0], folds=4, seed=4)
    assert path.test_error == again.test_error and path.test_error != other.test_error
    assert 0.0 < path.test_error[0] < 0.6 and path.standard_error[0] > 0.0


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 3)), min_size=1, max_size=6))
def test_the_choices_are_what_they_say(figures):
    errors, spreads = (np.array(values, dtype=np.float64) for values in zip(*figures, strict=True))
    l2 = 10.0 ** np.arange(len(errors))
    path = RegularisationPath(l2, errors, errors, spreads, "share of wrong labels", "test error")
    best = max(x for x, error in zip(l2, errors, strict=True) if error == errors.min())
    limit = errors.min() + spreads[l2 == best][0]
    assert path.best == best
    assert path.one_standard_error == max(x for x, error in zip(l2, errors, strict=True) if error <= limit)
    assert path.one_standard_error >= path.best


def test_the_path_is_a_table_a_chart_and_a_dict(path):
    table = path.table()
    assert [row.name for row in table.rows] == ["0.01", "1", "100"]
    assert sum("best" in row.cells[-1] for row in table.rows) == 1
    chart = path.chart()
    ElementTree.fromstring(chart)
    assert "training error" in chart and "test error" in chart
    assert path.to_dict()["best"] == path.best


def test_what_makes_no_sense_is_refused():
    data = corpus("train").select(range(6))
    tagger = Tagger(template="words")
    for message, arguments in {
        "penalties above 0": {"l2": [0.0, 1.0]},
        "a path needs": {"l2": []},
        "two ways": {"folds": 3, "X_test": data},
        "folds=1": {"folds": 1},
        "folds=7": {"folds": 7},
        "both the training and the test": {"X_test": data, "y_test": data.labels()},
    }.items():
        with pytest.raises(OptionError, match=message):
            regularisation_path(tagger, data, **{"l2": [1.0], **arguments})
    with pytest.raises(OptionError, match="has no penalty"):
        regularisation_path(Tagger(template="words", criterion="perceptron"), data, l2=[1.0], folds=2)


def test_the_observer_is_told_of_each_training():
    seen: list[tuple[int, int, float]] = []
    data = corpus("train").select(range(12))
    regularisation_path(
        Tagger(template="words"), data, l2=[1.0, 10.0], folds=2, observe=lambda *told: seen.append(told)
    )
    assert seen == [(1, 4, 10.0), (2, 4, 1.0), (3, 4, 10.0), (4, 4, 1.0)]
