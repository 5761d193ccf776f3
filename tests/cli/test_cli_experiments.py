"""``loglinear tune`` and ``loglinear compare``: from files to tables, models and a page."""

import csv
import json

import pytest

from loglinear import Tagger
from loglinear.cli.common import interrupted, suggested_template
from loglinear.data import Columns
from loglinear.data.corpora.bundled import bundled_text


@pytest.fixture
def corpora(tmp_path):
    for split, sentences in (("train", 60), ("dev", 25), ("test", 25)):
        text = "\n\n".join(bundled_text(split, "chunk").split("\n\n")[:sentences])
        (tmp_path / f"{split}.txt").write_text(text + "\n\n")
    return tmp_path


def test_tune_writes_table_and_best_model(run, corpora):
    found = run("tune", corpora / "train.txt", "--dev", corpora / "dev.txt", "--template", "words",
                "--grid", "l2=0.1,10", "--grid", "cost=hamming:1,recall:3", "--criterion", "softmax-margin",
                "-o", corpora / "best.model",
                "--json", corpora / "t.json", "--csv", corpora / "t.csv")  # fmt: skip
    assert found.status == 0, found.err
    rows = list(csv.DictReader((corpora / "t.csv").open()))
    assert len(rows) == 4 and {row["cost"] for row in rows} == {"hamming:1", "recall:3"}
    best = max(rows, key=lambda row: float(row["f1"]))
    judged = json.loads(run("eval", corpora / "dev.txt", "--model", corpora / "best.model", "--json").out)
    assert judged["f1"] == pytest.approx(float(best["f1"])) and f"best: l2={float(best['l2']):g}" in found.err
    assert "4 of 4" in found.err and "(best " in found.err
    again = run("tune", corpora / "train.txt", "--dev", corpora / "dev.txt", "--template", "words", "--grid", "l2=0.1",
                "--metric", "accuracy", "--json", corpora / "t.json")  # fmt: skip
    assert again.status == 2 and "metric differs" in again.err and again.err.count("\n") == 1


def test_tune_by_folds_with_a_template_that_suits_the_labels(run, corpora):
    found = run("tune", corpora / "train.txt", "--folds", "2", "--grid", "l2=0.1,1", "--max-iter", "5", "--csv", "-",
                "--halving", "0.5,1")  # fmt: skip
    assert found.status == 0 and "template: ner" in found.err and found.out.startswith("l2,score,f1")
    counted = run("tune", corpora / "train.txt", "--folds", "2", "--criterion", "hmm", "--grid",
                  "criterion:smoothing=0.1,1", "-q")  # fmt: skip
    assert (counted.status, counted.out, counted.err) == (0, "", "")


def test_scores_of_compare_are_those_of_eval(run, corpora):
    found = run("compare", corpora / "train.txt", "--dev", corpora / "dev.txt", "--test", corpora / "test.txt",
                "--criteria", "cll,perceptron", "--template", "words", "--quick", "--json", corpora / "c.json",
                "--draws", "100", "--markdown", corpora / "c.md", "--html", corpora / "c.html")  # fmt: skip
    assert found.status == 0, found.err
    content = json.loads((corpora / "c.json").read_text())
    systems = {system["criterion"]: system for system in content["comparison"]["systems"]}
    reports = [
        json.loads(run("eval", corpora / "test.txt", "--model", model, "--json").out)
        for model in (corpora / "c.json.models").iterdir()
    ]
    assert len(reports) == 2
    for system in systems.values():
        same = [report for report in reports if report["f1"] == pytest.approx(system["f1"])]
        assert any(
            all(report[name] == pytest.approx(system[name]) for name in ("precision", "recall", "accuracy"))
            and {t: s["f1"] for t, s in report["types"].items()} == {t: s["f1"] for t, s in system["types"].items()}
            for report in same
        )
    assert "| cll" in (corpora / "c.md").read_text() and (corpora / "c.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["tune", "TRAIN", "--grid", "l2=1"], "--folds"),
        (["tune", "TRAIN", "--dev", "TRAIN", "--grid", "l2=1,x"], "'x'"),
        (["tune", "TRAIN", "--dev", "TRAIN", "--grid", "l2=1,-1"], "l2=-1"),
        (["tune", "TRAIN", "--dev", "TRAIN", "--grid", "criterion=cll,nix"], "'nix'"),
        (["tune", "TRAIN", "--dev", "TRAIN", "--grid", "l2=1", "--halving", "a"], "--halving"),
        (["tune", "TRAIN", "--dev", "TRAIN", "--grid", "l2=1", "-o", "nowhere/x.model"], "nowhere"),
        (["tune", "nowhere.txt", "--dev", "TRAIN", "--grid", "l2=1"], "nowhere.txt"),
        (["tune", "TRAIN", "--dev", "TRAIN", "--template", "ner", "--grid", "template=words"], "both say"),
        (["tune", "TRAIN", "--dev", "TRAIN", "--grid", "l2=1", "--json", "-"], "--json"),
        (["tune", "TRAIN", "--dev", "TRAIN", "--grid", "l2=1", "-o", "-"], "-o"),
        (["tune", "TRAIN", "--dev", "TRAIN", "--grid", "l2=1", "--csv", "a", "-o", "./a"], "would overwrite --"),
        (["tune", "TRAIN", "--dev", "TRAIN", "--grid", "l2=1", "--json", "a", "--csv", "a"], "would overwrite --"),
        (["tune", "TRAIN", "--dev", "TRAIN", "--grid", "l2=1", "--csv", "TRAIN"], "overwrite the input"),
        (["compare", "TRAIN", "--dev", "TRAIN", "--test", "TRAIN", "--html", "a", "--markdown", "a"], "overwrite"),
        (["compare", "TRAIN", "--dev", "TRAIN", "--test", "TRAIN", "--html", "-", "--markdown", "-"], "room for one"),
        (["tune", "TRAIN", "--folds", "2", "--grid", "l2=1", "--template", "my.tpl", "--csv", "my.tpl"], "my.tpl"),
        (["tune", "TRAIN", "--folds", "2", "--grid", "template=my.tpl,words", "--csv", "my.tpl"], "my.tpl"),
        (["compare", "TRAIN", "--dev", "TRAIN"], "--test"),
        (["compare", "TRAIN", "--dev", "TRAIN", "--test", "TRAIN", "--criteria", "nix"], "'nix'"),
        (["compare", "TRAIN", "--dev", "TRAIN", "--test", "TRAIN", "--grid", "nix=1"], "'nix'"),
        (["compare", "TRAIN", "--dev", "TRAIN", "--test", "TRAIN", "--sizes", "3"], "share"),
    ],
)
def test_mistakes_end_in_a_line(run, corpora, arguments, says, monkeypatch):
    monkeypatch.chdir(corpora)
    (corpora / "my.tpl").write_text("U:%x[0,0]\n")
    found = run(*(str(corpora / "train.txt") if argument == "TRAIN" else argument for argument in arguments))
    assert found.status == 2 and says in found.err and "Traceback" not in found.err
    assert [line for line in found.err.splitlines() if line.startswith("loglinear: ")][-1] == found.err.splitlines()[-1]
    assert (corpora / "my.tpl").read_text() == "U:%x[0,0]\n"


@pytest.mark.parametrize(
    ("columns", "label_column", "name"), [(2, -1, "ner"), (3, -1, "ner"), (3, 1, "pos"), (2, 1, "ner"), (4, 2, "ner")]
)
def test_the_suggested_template_does_not_look_at_the_labels(columns, label_column, name):
    row = ["a"] * columns
    row[label_column] = "B-X"
    corpus = Columns.from_rows([[tuple(row)]])
    assert suggested_template(corpus, label_column, False) == name
    Tagger(template=name, max_iter=1).fit(corpus, label_column=label_column)


def test_what_is_said_after_ctrl_c_is_true(tmp_path):
    assert "nothing was kept" in interrupted(None) and "from scratch" in interrupted(tmp_path / "cells.json")
    (tmp_path / "cells.json").write_text("{}")
    assert "is in" in interrupted(tmp_path / "cells.json") and "continues" in interrupted(tmp_path / "cells.json")
