"""Comparing criteria: figures are those of eval, tests are those of the tests, and nothing is dropped silently."""

import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from loglinear import Tagger, compare
from loglinear.criteria.criterion import criteria_of
from loglinear.data import read_columns
from loglinear.data.corpora.bundled import bundled_text
from loglinear.errors import DataError, OptionError
from loglinear.evaluation import calibration, chunk_scores, mcnemar, paired_bootstrap, paired_t_test
from loglinear.experiments.comparison.page import inline, page, score_table, trade_off, training_table, type_table
from loglinear.experiments.comparison.run import default_grid, grid_with, named, tagger_for
from loglinear.experiments.tuning.grid import candidates
from loglinear.structures.chain.structure import Chain

MACHINE = {"versions": {"loglinear": "0"}, "cores": 2, "processor": "<none>"}


def corpus(split, task="chunk"):
    return read_columns(io.BytesIO(bundled_text(split, task).encode()))


@pytest.fixture(scope="module")
def splits():
    return corpus("train").select(np.arange(60)), corpus("dev"), corpus("test")


@pytest.fixture(scope="module")
def result(splits):
    train, dev, test = splits
    return compare(train, None, dev, None, test, criteria=["cll", "softmax-margin", "perceptron", "hmm"],
                   sizes=(0.5, 1.0), tagger=Tagger(template="words"), quick=True, draws=500)  # fmt: skip


def test_each_system_is_its_tuned_setting_trained_from_zero(result, splits):
    train, dev, test = splits
    assert {system.name for system in result.systems} == {"cll", "softmax-margin", "perceptron", "hmm"}
    for system in result.systems:
        tagger = tagger_for(Tagger(template="words"), system.name, quick=True)
        (best,) = candidates(tagger, {key: [value] for key, value in system.best.setting.items()})
        trained = best.tagger.fit(train)
        report = chunk_scores(test.labels(), trained.predict(test))
        for figure in ("f1", "precision", "recall", "accuracy"):
            assert system.scores[figure] == pytest.approx(getattr(report, figure))
        assert system.best.score == pytest.approx(chunk_scores(dev.labels(), trained.predict(dev)).f1)
        assert system.best.score == max(cell.score for cell in system.tuned)
        assert system.training["passes"] == trained.n_evaluations_
        assert system.training["bytes"] == len(trained.to_bytes())
        assert {name: score.f1 for name, score in system.types.items()} == {
            name: pytest.approx(score.f1) for name, score in report.types.items()
        }
        assert system.curve[-1] == (60, pytest.approx(system.scores["f1"])) and system.curve[0][0] == 30
        labels, confidence = trained.predict_numbers(test, confidence=True)
        right = np.array([trained.classes_[y] for y in labels]) == np.array(test.column().strings())
        found = calibration(confidence, right, 10, "mass")
        assert system.calibrations["mass"].expected_error == pytest.approx(found.expected_error)
    scores = [system.scores["f1"] for system in result.systems]
    assert scores == sorted(scores, reverse=True)


def test_the_tests_are_against_the_best_on_the_same_sentences(result):
    best = result.best
    assert set(result.against) == {system.name for system in result.systems[1:]}
    for system in result.systems[1:]:
        against = result.against[system.name]
        assert against.bootstrap == paired_bootstrap(best.counts, system.counts, 500).p
        assert against.mcnemar == mcnemar(best.right, system.right).p
        assert against.t_test == paired_t_test(best.wrong, system.wrong).p
        assert against.differs == (against.bootstrap < 0.05) and against.differs >= against.surely
    shown = score_table(result)
    assert shown.rows[0].name == best.name and "Holm" in shown.notes[0]
    starred = [row.name.endswith("*") for row in shown.rows[1:]]
    assert starred == [result.against[system.name].differs for system in result.systems[1:]]


def test_the_whole_of_it_goes_into_json_tables_and_one_page(result):
    kept = json.loads(json.dumps(result.to_dict()))
    assert [system["criterion"] for system in kept["systems"]] == [system.name for system in result.systems]
    assert kept["systems"][0]["against_best"] is None and kept["systems"][1]["against_best"]["bootstrap"] >= 0
    assert len(training_table(result).rows) == 4 and type_table(result).columns[2] == result.best.name
    text = page(result, MACHINE, "loglinear compare <&>")
    assert "&lt;none&gt;" in text and "loglinear compare &lt;&amp;&gt;" in text and "<script" not in text
    assert text.count("<svg") == 6 and text.count("</svg>") == 6
    ids, used = re.findall(r'\bid="([^"]+)"', text), set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
    assert len(ids) == len(set(ids)) and used <= set(ids)  # plots share no names, and miss none
    loads = [value for value in re.findall(r'(?:src|href)="([^"#]*)"', text) if not value.startswith("data:")]
    assert loads == []  # nothing comes from elsewhere

    class Balanced(HTMLParser):
        def __init__(self):
            super().__init__()
            self.open = []

        def handle_starttag(self, tag, attributes):
            if tag not in ("meta", "link", "br"):
                self.open.append(tag)

        def handle_startendtag(self, tag, attributes):
            pass

        def handle_endtag(self, tag):
            assert self.open.pop() == tag

    parser = Balanced()
    parser.feed(text)
    assert parser.open == []


def test_the_trade_off_is_over_costs_alone(result):
    system = next(system for system in result.systems if system.name == "softmax-margin")
    points = trade_off(system)
    assert [cost for cost, _, _ in points] == ["hamming:1", "recall:3", "precision:3"]
    assert (system.best.scores["precision"], system.best.scores["recall"]) in [(p, r) for _, p, r in points]
    assert trade_off(next(system for system in result.systems if system.name == "cll")) == []
    on_a_part = [replace(cell, share=0.3) if "recall:3" in cell.name else cell for cell in system.tuned]
    assert [cost for cost, _, _ in trade_off(replace(system, tuned=on_a_part))] == ["hamming:1", "precision:3"]


def test_what_cannot_be_trained_on_the_data_is_listed_with_the_reason():
    X = [[{"w": "the"}, {"w": "dog"}, {"w": "barks"}], [{"w": "a"}, {"w": "cat"}, {"w": "sleeps"}]] * 4
    y = [["D", "N", "V"], ["D", "N", "V"]] * 4
    found = compare(X, y, X, y, X, y, criteria="cll,hmm,m-estimation", quick=True, draws=50)
    assert [system.name for system in found.systems] == ["cll"] and set(found.left_out) == {"hmm", "m-estimation"}
    assert "columns" in found.left_out["hmm"] and any("hmm" in note for note in score_table(found).notes)
    assert found.figure == "accuracy" and "f1" not in found.best.scores and found.against == {}
    assert "nothing to compare" in page(found, MACHINE, "")
    with pytest.raises(OptionError, match="none of the criteria"):
        compare(X, y, X, y, X, y, criteria="hmm,m-estimation", quick=True)


def test_all_criteria_have_a_grid_that_trains(splits):
    train, dev, test = splits
    small = train.select(np.arange(15))
    grid = {"max_iter": [2], "l2": [0.1], "variance": [1.0], "cost": ["hamming:1"]}
    found = compare(small, None, dev.select([0, 1]), None, test.select([0, 1, 2]), tagger=Tagger(template="words"),
                    quick=True, grid=grid, draws=20)  # fmt: skip
    assert {system.name for system in found.systems} == set(criteria_of(Chain)) and found.left_out == {}
    assert "svg" in page(found, MACHINE, "")


def test_parts_of_speech_are_compared_by_accuracy():
    train, dev, test = (corpus(split, "pos").select(np.arange(25)) for split in ("train", "dev", "test"))
    found = compare(train, None, dev, None, test, criteria="cll,softmax-margin", tagger=Tagger(template="pos"),
                    quick=True, draws=100, metric="sentence-accuracy")  # fmt: skip
    assert found.figure == "sentence-accuracy"
    share = 100 * np.mean(found.best.right)
    assert found.best.scores["sentence-accuracy"] == pytest.approx(share)
    grid = default_grid("softmax-margin", ["NN", "VB"])
    assert grid["cost"] == ["hamming:1", "hamming:5"]  # leaning to recall is about chunks


def test_stopped_it_goes_on_without_training_again(splits, tmp_path, monkeypatch):
    train, dev, test = splits
    results = tmp_path / "cells.json"
    arguments = {"criteria": "cll,perceptron", "tagger": Tagger(template="words"), "quick": True, "draws": 50,
                 "sizes": (0.5,), "results": results}  # fmt: skip

    def stop(name, progress):
        if name == "perceptron":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(train, None, dev, None, test, **arguments, observe=stop)
    before = json.loads(results.read_text())["cells"]
    assert len(before) == 4  # two penalties, the best from zero, half of the sentences
    first = compare(train, None, dev, None, test, **arguments)
    after = json.loads(results.read_text())
    assert dict(list(after["cells"].items())[:4]) == before and len(after["comparison"]["systems"]) == 2
    monkeypatch.setattr("loglinear.experiments.chains.Chains._fit", lambda *_: pytest.fail("tuned again"))
    monkeypatch.setattr(
        "loglinear.experiments.comparison.run._Comparison._fit", lambda *_: pytest.fail("trained again")
    )
    again = compare(train, None, dev, None, test, **arguments)
    assert again.to_dict() == first.to_dict()
    with pytest.raises(DataError, match="test data differs"):
        compare(train, None, dev, None, test.select([0, 1]), **arguments)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"criteria": "cll,nix"}, "'nix'"),
        ({"criteria": ""}, "name the criteria"),
        ({"criteria": "mira:z=1"}, "no option 'z'"),
        ({"sizes": (0.0,)}, "not a share"),
        ({"sizes": (2.0,)}, "not a share"),
        ({"metric": "bleu"}, "'bleu'"),
        ({"metric": len}, "compared by one of"),
        ({"X_test": None}, "test data"),
    ],
)
def test_what_makes_no_sense_is_refused(change, says, splits):
    arguments = dict(zip(("X", "X_dev", "X_test"), splits, strict=True)) | {"tagger": Tagger(template="words")}
    with pytest.raises(OptionError, match=says):
        compare(**arguments | change)


def test_grids_come_from_what_criteria_declare():
    labels = ["B-X", "I-X", "O"]
    assert set(default_grid("cll", labels)) == {"l2"} and set(default_grid("hmm", labels)) == {"criterion:smoothing"}
    assert set(default_grid("mira", labels)) == {"max_iter", "criterion:C", "cost"}
    assert set(default_grid("mira:C=0.5", labels)) == {"max_iter", "cost"}  # what is given is not tuned
    assert set(default_grid("m-estimation", labels)) == {"variance"}
    assert "recall:3" in default_grid("risk", labels)["cost"]
    assert named("all") == list(criteria_of(Chain)) and named("cll; mira:k=5,C=0.1") == ["cll", "mira:k=5,C=0.1"]
    default = default_grid("cll", labels)
    assert grid_with(default, {"l2": [3.0], "max_iter": [5], "order": [1, 2]}, {"l2", "max_iter"}) == {
        "l2": [3.0], "order": [1, 2]
    }  # fmt: skip


def test_a_chart_within_a_page_keeps_its_colours():
    chart = (
        '<?xml?>\n<svg><g id="patch_1"><path d="" style="fill: #ffffff"/></g><g id="a" style="fill: #0072b2"/>'
        '<use href="#a"/></svg>'
    )
    assert inline(chart, 3) == (
        '<svg><g id="c3-patch_1"><path d="" style="fill: none"/></g><g id="c3-a" style="fill: #0072b2"/>'
        '<use href="#c3-a"/></svg>'
    )
