"""Other tools' models and options on the command line."""

import numpy as np
import pytest

import loglinear
from loglinear.estimators.tagger.foreign import from_tagger
from loglinear.foreign.crfsuite import read_crfsuite, write_crfsuite

TRAIN = ("train", "-q")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.txt").write_text("the D B\ndog N I\n\nruns V O\n\n" * 4)
    (tmp_path / "train.tsv").write_text("B\tw=the\tlen:3\nI\tw=dog\nO\n\nB\tw=cats\tw=cats\nO\tw=runs\tx:-0.5\n\n" * 4)
    return tmp_path


def test_verbs_take_their_models_and_remember_the_format(run, folder):
    train = folder / "train.tsv"
    assert run(*TRAIN, train, "-o", folder / "m", "--format", "crfsuite").status == 0
    tagged = run("tag", folder / "m", train)
    assert (tagged.status, tagged.out) == (0, run("tag", folder / "m", train, "--format", "crfsuite").out)
    assert run("convert", folder / "m", "-o", folder / "m.crfsuite", "--to", "crfsuite").status == 0
    assert run("tag", folder / "m.crfsuite", train).out == tagged.out
    assert "accuracy" in run("eval", train, "--model", folder / "m.crfsuite").out
    assert "read from a model of CRFsuite" in run("inspect", folder / "m.crfsuite").out
    assert run("convert", folder / "m.crfsuite", "-o", folder / "again").status == 0
    assert run("tag", folder / "again", train).out == tagged.out
    data = (folder / "m.crfsuite").read_bytes()
    assert write_crfsuite(read_crfsuite(data)) == data == write_crfsuite(from_tagger(loglinear.load(folder / "again")))
    weights = loglinear.load(folder / "again").model_.weights
    np.testing.assert_array_equal(np.sort(weights), np.sort(loglinear.load(folder / "m").model_.weights))
    (folder / "tabs.txt").write_text("a b\tX\nc\tY\n\n")
    assert run(*TRAIN, folder / "tabs.txt", "-o", folder / "t", "--template", "words", "--separator", "tab").status == 0
    assert run("tag", folder / "t", folder / "tabs.txt").out.split("\n")[0].split("\t")[:2] == ["a b", "X"]


def test_what_does_not_fit_crfsuite_is_refused_with_the_reason(run, folder):
    assert run(*TRAIN, folder / "train.txt", "-o", folder / "m", "--template", "chunking", "--order", "2").status == 0
    told = run("convert", folder / "m", "-o", folder / "x", "--to", "crfsuite")
    assert told.status == 2 and "order 2" in told.err
    assert not (folder / "x").exists()
    assert run("convert", folder / "m", "-o", folder / "x", "--to", "wapiti").status == 2


@pytest.mark.parametrize("words", [("train", "x", "-p", "c1=1"), ("train", "x", "--c1", "1"), ("tag", "-m", "m", "x")])
def test_options_of_theirs_get_a_hint(run, words):
    told = run(*words)
    assert told.status == 2 and "docs/from-other-tools.md" in " ".join(told.err.split())
    assert "docs/from-other-tools.md" not in run("train", "x", "--what").err
