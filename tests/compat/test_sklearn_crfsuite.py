"""The look-alike of sklearn-crfsuite: what its own tests, which run apart (test_originals.py), do not ask."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

from loglinear.compat.pycrfsuite import Tagger
from loglinear.compat.sklearn_crfsuite import CRF, metrics, scorers
from loglinear.compat.sklearn_crfsuite.estimator import PARAMETERS

X = [[{"w": "the"}, {"w": "cat", "n": 2.0}, {"w": "sits"}], [{"w": "a"}, {"w": "dog"}], [{"w": "the"}, {"w": "dog"}]]
Y = [["D", "N", "V"], ["D", "N"], ["D", "N"]]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Where temporary files are made; none is left."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_predictions_are_object_arrays_of_all_sequences_empty_ones_included():
    crf = CRF(c1=0.1, c2=0.1, all_possible_transitions=True).fit(X, Y)
    found = crf.predict([*X, []])
    assert found.dtype == object and found.tolist() == [*Y, []] and found.shape == (4,)
    assert crf.predict(X[1:]).shape == (2, 2) and crf.predict([]).shape == (0,)
    marginals = crf.predict_marginals([X[0], []])
    assert [round(sum(each.values()), 9) for each in marginals[0]] == [1.0] * 3 and marginals[1] == []
    assert crf.predict_marginals_single(X[0])[1] == pytest.approx(marginals[0][1])
    assert crf.predict_single(iter(X[0])) == Y[0] and crf.predict_single([]) == []
    assert crf.score(X, Y) == 1.0 and crf.classes_ == ["D", "N", "V"]
    tagger = Tagger()
    tagger.open(crf.modelfile.name)
    assert tagger.tag(X[0]) == Y[0] and crf.size_ == Path(crf.modelfile.name).stat().st_size


def test_it_is_an_estimator_of_scikit_learns(folder):
    with pytest.raises(NotFittedError):
        CRF().predict(X)
    crf = CRF("lbfgs", c1=0.1)
    assert crf.get_params()["c1"] == 0.1 and set(PARAMETERS.values()) < set(crf.get_params())
    assert clone(crf).set_params(c2=2.0).get_params() == {**crf.get_params(), "c2": 2.0}
    search = GridSearchCV(crf, {"c2": [0.1, 1.0]}, cv=2, scoring=scorers.flat_accuracy, n_jobs=1).fit(X * 4, Y * 4)
    assert search.best_score_ == 1.0 and metrics.sequence_accuracy_score(Y, search.predict(X)) == 1.0
    assert "support" in metrics.flat_classification_report(Y, Y, labels=["D", "N"])
    with pytest.raises(ValueError, match="Parameter not found: c1"):
        CRF("l2sgd", c1=0.1).fit(X, Y)
    del search, crf
    assert not list(folder.iterdir())


def test_dev_data_is_reported_on_and_nothing_else():
    with_dev = CRF(c2=0.1, max_iterations=30).fit(X, Y, X[:1], [["V", "V", "V"]])
    alone = CRF(c2=0.1, max_iterations=30).fit(X, Y)
    assert with_dev.state_features_ == alone.state_features_
    last = with_dev.training_log_.last_iteration
    assert last["scores"]["V"].ref == 3 and last["item_accuracy_float"] == pytest.approx(1 / 3)
    assert not alone.training_log_.last_iteration["scores"] and alone.training_log_.featgen_num_features > 0
    with pytest.raises(ValueError, match="both X_dev and y_dev"):
        CRF().fit(X, Y, y_dev=Y)


@pytest.mark.parametrize(
    ("xs", "ys", "kind", "says"),
    [(X, Y[:2], ValueError, "3 sequences, but labels of 2"), (X, [*Y[:2], ["D"]], ValueError, r"sequence 2 .*differ"),
     ([*X[:2], [{"w": None}, {}]], Y, TypeError, "sequence 2 .*position 0"),
     (X, [*Y[:2], [1, 2]], TypeError, "sequence 2")],
)  # fmt: skip
def test_errors_name_the_sequence(xs, ys, kind, says):
    with pytest.raises(kind, match=says):
        CRF().fit(xs, ys)
    crf = CRF().fit(X, Y)
    with pytest.raises(ValueError, match=r"sequence 1, position 0"):
        crf.predict([X[0], [{"w": None}]])


def test_the_file_goes_with_its_owner_unless_it_is_kept(folder):
    crf = CRF(max_iterations=3).fit(X, Y)
    first = crf.modelfile.name
    crf.fit(X, Y)
    assert not Path(first).exists() and len(list(folder.iterdir())) == 1
    other = pickle.loads(pickle.dumps(crf))
    assert other.modelfile.name != crf.modelfile.name and other.predict(X).tolist() == Y
    crf.modelfile.cleanup()
    assert crf.modelfile.name is None and len(list(folder.iterdir())) == 1
    del crf, other
    assert not list(folder.iterdir())
    CRF(max_iterations=3, keep_tempfiles=True).fit(X, Y)
    assert len(list(folder.iterdir())) == 1


def test_the_file_is_gone_when_a_process_ends(folder):
    code = f"import tempfile; tempfile.tempdir = {str(folder)!r}; from loglinear.compat.sklearn_crfsuite import CRF; "
    code += f"crf = CRF(max_iterations=3).fit({X!r}, {Y!r}); print(crf.modelfile.name)"
    name = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert name.startswith(str(folder)) and not list(folder.iterdir())


def old_pickle() -> bytes:
    """What version 0.3.6 of the real package would pickle: its names of modules, and fewer parameters."""
    crf = CRF(c1=0.2, max_iterations=20).fit(X, Y)
    for name in ("trainer_cls", "keep_tempfiles"):
        delattr(crf, name)
    crf._sklearn_version, crf.modelfile.fd = "0.19.1", 7
    data = pickle.dumps(crf, protocol=2)
    for ours, theirs in {
        b"loglinear.compat.sklearn_crfsuite.estimator": b"sklearn_crfsuite.estimator",
        b"loglinear.compat.sklearn_crfsuite.fileresource": b"sklearn_crfsuite._fileresource",
        b"loglinear.compat.pycrfsuite.logparser": b"pycrfsuite._logparser",
    }.items():
        data = data.replace(b"c" + ours + b"\n", b"c" + theirs + b"\n")
    assert b"loglinear" not in data and data.count(b"crfsuite") >= 3
    return data


def test_pickles_of_the_real_package_are_read_after_install(folder):
    (folder / "old.pickle").write_bytes(old_pickle())
    code = (
        "import loglinear.compat, pickle, sys; loglinear.compat.install(); "
        f"crf = pickle.load(open({str(folder / 'old.pickle')!r}, 'rb')); print(crf.predict({X!r}).tolist(), crf.c1, "
        "crf.trainer_cls, crf.training_log_.last_iteration['num'], type(crf).__module__)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.startswith(f"{Y} 0.2 None ") and told.strip().endswith("loglinear.compat.sklearn_crfsuite.estimator")


def test_verbose_prints_a_line_an_iteration_and_a_table(capsys):
    CRF(verbose=True, max_iterations=4).fit(X, Y, X, Y)
    out = capsys.readouterr().out
    assert out.count("\nIter ") >= 3 and "Acc(item/seq)=" in out and "Precision" in out and "Storing the model" in out


def test_scores_of_sequences_are_of_whole_ones():
    assert metrics.sequence_accuracy_score([["x"], ["y", "z"]], np.array([["x"], ["y", "y"]], dtype=object)) == 0.5
    with pytest.raises(ValueError, match="2 sequences"):
        metrics.sequence_accuracy_score(Y[:2], Y[:1])
