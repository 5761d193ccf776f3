"""The path of penalties on the command line."""

import csv
import json
import xml.etree.ElementTree as ElementTree

import pytest

from loglinear import Tagger


def test_the_bundled_corpus_gives_the_figure(run, tmp_path):
    plot, table, found, model = (tmp_path / name for name in ("p.svg", "p.csv", "p.json", "p.model"))
    options = ("--grid", "0.1,1,100", "--plot", plot, "--csv", table, "--json", found, "-o", model, "--choose", "1se")
    result = run("path", "--bundled", "chunk", *options)
    assert (result.status, result.out) == (0, "")
    assert "best l2" in result.err
    ElementTree.fromstring(plot.read_text(encoding="utf-8"))
    rows = list(csv.DictReader(table.open(encoding="utf-8")))
    assert [float(row["l2"]) for row in rows] == [0.1, 1.0, 100.0]
    assert float(rows[0]["train_error"]) < float(rows[2]["train_error"])
    chosen = json.loads(found.read_text(encoding="utf-8"))["one_standard_error"]
    assert Tagger.load(model).l2 == chosen


def test_files_and_cross_validation(run, files):
    result = run("path", files / "train.txt", "--folds", "3", "--grid", "1,10", "--template", "words")
    assert result.status == 0 and "cross-validated error (3 parts)" in result.err
    result = run("path", files / "train.txt", "--test", files / "train.txt", "--grid", "1,10")
    assert result.status == 0 and "test error" in result.err
    result = run(
        "path", files / "train.txt", "--folds", "3", "--grid", "1", "--label-column", "1", "--template", "words"
    )
    assert result.status == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give an annotated file"),
        (("train.txt", "--bundled", "chunk"), "give an annotated file"),
        (("--bundled", "tennis"), "--bundled 'tennis': choose one of pos, chunk, ner"),
        (("train.txt", "--grid", "1,x"), "--grid '1,x': give numbers"),
        (("train.txt", "--grid", "-1"), "penalties above 0"),
        (("train.txt", "--test", "train.txt", "--folds", "3"), "two ways"),
        (("--bundled", "pos", "--test", "train.txt"), "--bundled has its own data"),
        (("train.txt", "--label", "age", "--separator", "tab"), "--separator: for files of sequences"),
        (("train.txt", "--raw-numbers"), "are for tables"),
        (("train.txt", "--plot", "none/p.svg"), "there is no folder"),
        (("train.txt", "--choose", "worst"), "choose best or 1se"),
        (("train.txt", "--number", "age"), "are for tables"),
        (("train.txt", "--label", "age", "--order", "2"), "--label is for tables"),
        (("none.txt",), "none.txt: cannot be read"),
        (("train.txt", "--criterion", "nonsense"), "'nonsense' is not known"),
        (("train.txt", "-o", "none/m.model"), "there is no folder"),
    ],
)
def test_mistakes_are_told_in_a_line(run, files, monkeypatch, arguments, message):
    monkeypatch.chdir(files)
    result = run("path", *arguments)
    assert result.status == 2 and result.out == ""
    assert message in result.err and result.err.count("\n") == 1


def test_the_file_is_resumed_and_standard_output_has_the_table_alone(run, files, monkeypatch):
    command = ("path", files / "train.txt", "--folds", "2", "--grid", "1,10", "--template", "words")
    fit, fitted = Tagger.fit, []

    def stopped(self, *arguments, **options):
        fitted.append(self.l2)
        if len(fitted) == 3:
            raise KeyboardInterrupt
        return fit(self, *arguments, **options)

    monkeypatch.setattr(Tagger, "fit", stopped)
    first = run(*command, "--json", files / "p.json")
    assert first.status == 130 and first.err.count("\n") == 1
    assert f"what is finished is in {files / 'p.json'}; the same command continues" in first.err
    assert len(json.loads((files / "p.json").read_text())["cells"]) == 2
    assert run(*command, "--json", files / "p.json").status == 0 and fitted == [10.0, 1.0, 10.0, 10.0, 1.0]
    kept = json.loads((files / "p.json").read_text())
    printed = run(*command, "--json", "-")
    table = json.loads(printed.out)
    assert printed.status == 0 and table == {name: kept[name] for name in table} and "cells" not in table
    other = run(*command, "--json", files / "p.json", "--min-count", "2")
    assert other.status == 2 and "options differs" in other.err and other.err.count("\n") == 1
