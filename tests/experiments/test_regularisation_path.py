"""The path: errors as they are, the choices as they are defined, warm starts that change nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin

import loglinear
from loglinear import Classifier, Ridge, Tagger
from loglinear.data import read_columns
from loglinear.data.corpora.bundled import bundled_text
from loglinear.errors import DataError, OptionError
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


# -- what is kept ----------------------------------------------------------------------------------------------------


def rows(n: int = 60):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(n, 4))
    return x, np.where(x @ [1.0, -1.0, 0.5, 0.0] + generator.normal(size=n) > 0, "yes", "no")


def as_sentences(n: int = 30):
    data = corpus("train").select(range(n))
    return data, None


class Plain(ClassifierMixin, BaseEstimator):
    """An estimator that is not ours: no model file, and where it ends depends on where it began."""

    def __init__(self, l2=1.0):
        self.l2 = l2

    def fit(self, X, y, init=None):
        self.classes_ = np.unique(y)
        start = np.zeros(X.shape[1]) if init is None else init.weights_
        self.weights_ = start + (np.where(y == "yes", 1.0, -1.0) @ X - self.l2 * start) / len(X)
        return self

    def predict(self, X):
        return np.where(X @ self.weights_ > 0.05, "yes", "no")


KINDS = {
    "tagger": (Tagger(template="words", optimizer="lbfgs"), as_sentences),
    "counted weights": (Tagger(template="words", criterion="memm"), as_sentences),
    "classifier": (Classifier(optimizer="lbfgs"), rows),
    "regression": (Ridge(), lambda: (rows()[0], rows()[0] @ [1.0, 2.0, 3.0, 4.0])),
    "another's": (Plain(), rows),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stop", [1, 2, 4])
def test_stopped_it_goes_on_and_gives_the_same_path(kind, stop, tmp_path):
    estimator, data = KINDS[kind]
    results = tmp_path / "path.json"
    arguments = {"l2": [0.1, 1.0, 10.0], "folds": 2, "seed": 1}

    def stopping(done, total, l2):
        if done == stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        regularisation_path(estimator, *data(), **arguments, results=results, observe=stopping)
    before = json.loads(results.read_text())
    assert stop <= len(before["cells"]) <= stop + 1 and "l2" not in before
    seen: list[tuple[int, int, float]] = []
    found = regularisation_path(
        estimator, *data(), **arguments, results=results, observe=lambda *told: seen.append(told)
    )
    after = json.loads(results.read_text())
    assert [done for done, _, _ in seen] == [1, 2, 3, 4, 5, 6]
    assert dict(list(after["cells"].items())[: len(before["cells"])]) == before["cells"]
    whole = regularisation_path(estimator, *data(), **arguments)
    assert found.to_dict() == whole.to_dict(), "bit for bit"
    assert {name: after[name] for name in whole.to_dict()} == whole.to_dict(), "the table is in the file"
    assert not list((tmp_path / "path.json.models").glob("*")), "nothing is started from them any more"


def test_a_finished_path_is_shown_again_without_training(tmp_path, monkeypatch):
    results = tmp_path / "path.json"
    first = regularisation_path(Classifier(), *rows(), l2=[1.0, 10.0], folds=3, results=results)
    monkeypatch.setattr(Classifier, "fit", lambda *_, **__: pytest.fail("trained again"))
    again = regularisation_path(Classifier(threads=2), *rows(), l2=[1.0, 10.0], folds=3, results=results)
    assert again.to_dict() == first.to_dict()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"folds": 2}, "folds differs"),
        ({"seed": 1}, "seed differs"),
        ({"estimator": Classifier(criterion="max-margin")}, "options differs"),
        ({"X": rows(50)[0], "y": rows(50)[1]}, "training data differs"),
        ({"X": rows()[0] + 1e-9}, "training data differs"),
        ({"folds": None, "X_test": rows()[0], "y_test": rows()[1]}, "test data, folds differ"),
    ],
)
def test_a_file_of_another_path_is_refused(change, says, tmp_path):
    results = tmp_path / "path.json"
    X, y = rows()
    given = {"estimator": Classifier(), "X": X, "y": y, "l2": [1.0], "folds": 3, "results": results}
    regularisation_path(**given)
    with pytest.raises(DataError, match=rf"path\.json: .*{says}"):
        regularisation_path(**{**given, **change})
    table = {"l2": [1.0], "train_error": [0.0], "test_error": [0.1], "standard_error": [0.0], "best": 1.0}
    results.write_text(json.dumps(table))  # what version 0.1.0 wrote
    with pytest.raises(DataError, match=r"path\.json: no results of loglinear path"):
        regularisation_path(**given)
    assert json.loads(results.read_text()) == table


@pytest.mark.slow
def test_killed_midway_it_goes_on_and_gives_the_same_table(tmp_path):
    """SIGKILL, once a few trainings are finished; the next starts from the model beside the file."""
    (tmp_path / "train.txt").write_text(bundled_text("train", "chunk"))
    command = [
        sys.executable, "-m", "loglinear", "path", "train.txt", "--folds", "2", "--template", "chunking",
        "--criterion", "memm", "--grid", "0.01,0.03,0.1,0.3,1", "--threads", "1",
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(loglinear.__file__))}
    given = {"cwd": tmp_path, "env": environment, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    killed = subprocess.Popen([*command, "--json", "killed.json"], **given)
    results = tmp_path / "killed.json"
    while not results.exists() or len(json.loads(results.read_text())["cells"]) < 2:
        assert killed.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    before = json.loads(results.read_text())["cells"]
    assert 2 <= len(before) < 10
    for name in ("killed.json", "whole.json"):
        assert subprocess.run([*command, "--json", name], **given, check=False).returncode == 0
    after, whole = (json.loads((tmp_path / name).read_text()) for name in ("killed.json", "whole.json"))
    assert {key: after["cells"][key] for key in before} == before
    for name in ("l2", "train_error", "test_error", "standard_error", "best", "one_standard_error", "error", "cells"):
        assert after[name] == whole[name]
