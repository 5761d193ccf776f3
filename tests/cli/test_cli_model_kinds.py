"""A model given to a verb for another kind is refused in one line that says which verb takes it; inspect takes all."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from loglinear import model_file
from loglinear.cli.common import TAKEN_BY
from loglinear.estimators.estimator import ESTIMATORS
from problems.estimators import STORED, fitted

GOLDEN = sorted((Path(__file__).parents[1] / "golden" / "models").glob("*.model"))
VERBS = {
    "tag": ("tag", "{model}", "{data}"),
    "eval": ("eval", "{data}", "--model", "{model}"),
    "prune": ("prune", "{model}", "-o", "{folder}/small.model", "--share", "0.5"),
    "update": ("update", "{model}", "{data}", "-o", "{folder}/new.model"),
    "sample": ("sample", "{model}"),
    "parse run": ("parse", "run", "{model}", "{data}"),
    "parse run, dependencies": ("parse", "run", "{model}", "{data}", "--dependencies"),
    "parse eval": ("parse", "eval", "{trees}", "--model", "{model}"),
    "classify run": ("classify", "run", "{model}", "{table}"),
    "classify eval": ("classify", "eval", "{model}", "{table}"),
    "cluster": ("cluster", "{table}", "--predict", "{model}"),
}
TAKES = {
    **dict.fromkeys(("tag", "eval"), ("tagger", "combination", "local-tagger")),
    "prune": ("tagger",),
    "update": ("tagger",),
    "sample": ("tagger", "parser"),
    **dict.fromkeys(("parse run", "parse eval"), ("parser", "dependency-parser")),
    "parse run, dependencies": ("dependency-parser",),
    **dict.fromkeys(("classify run", "classify eval"), ("classifier", "input-classifier")),
    "cluster": ("mixture",),
}


@cache
def kind_of(path: Path) -> str:
    return model_file.load(path).kind


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "data.txt").write_text("the D B-NP\ndog N I-NP\n\n")
    (tmp_path / "trees.mrg").write_text("(ROOT (S (NP (NN dog)) (VP (VB ran))))\n")
    (tmp_path / "table.csv").write_text("a,b\n1,2\n3,4\n")
    names = {"data": "data.txt", "trees": "trees.mrg", "table": "table.csv"}
    return {"folder": str(tmp_path)} | {name: str(tmp_path / file) for name, file in names.items()}


def refuse(run, verb: str, model: Path, kind: str, places: dict[str, str]) -> None:
    told = run(*(part.format(model=model, **places) for part in VERBS[verb]))
    assert (told.status, told.out) == (2, ""), told.err
    (line,) = told.err.splitlines()
    assert line.startswith(f"loglinear: {model} holds a model of kind {kind!r}, but one of kind ")
    use = f"{TAKEN_BY[kind]} takes it" if kind in TAKEN_BY else "loglinear inspect shows it"
    assert line.endswith(f" is needed here; {use}, and in Python loglinear.load opens it")


ONE_OF_EACH = (
    "tagger",
    "combination",
    "local tagger",
    "input classifier",
    "classifier of texts",
    "parser",
    "dependency parser",
    "mixture",
    "naive Bayes",
    "ridge",
    "least squares",
)


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_verbs_say_which_other_one_takes_a_model(run, name: str, places, tmp_path: Path) -> None:
    model = fitted(name)
    model.save(tmp_path / "m.model")
    for verb in VERBS:
        if model.kind not in TAKES[verb]:
            refuse(run, verb, tmp_path / "m.model", model.kind, places)


@pytest.mark.parametrize("path", {kind_of(path): path for path in GOLDEN}.values(), ids=lambda path: path.stem)
def test_verbs_say_which_other_one_takes_a_model_of_an_older_version(run, path: Path, places) -> None:
    for verb in VERBS:
        if kind_of(path) not in TAKES[verb]:
            refuse(run, verb, path, kind_of(path), places)


def test_every_kind_that_a_verb_takes_is_named() -> None:
    assert set(TAKEN_BY) == {kind for kinds in TAKES.values() for kind in kinds}
    assert set(TAKEN_BY) <= set(ESTIMATORS) == {fitted(name).kind for name in ONE_OF_EACH}


@pytest.mark.parametrize("name", STORED)
def test_inspect_takes_every_model(run, name: str, tmp_path: Path) -> None:
    fitted(name).save(tmp_path / "m.model")
    inspected(run, tmp_path / "m.model")


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_inspect_takes_every_model_of_an_older_version(run, path: Path) -> None:
    inspected(run, path)


def inspected(run, path: Path) -> None:
    shown = run("inspect", path)
    assert (shown.status, shown.err) == (0, "") and path.name in shown.out
    listed = run("inspect", path, "--json")
    assert (listed.status, listed.err) == (0, "")
    facts = json.loads(listed.out, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert facts["file"] == str(path) and facts["options"]


def test_inspect_shows_the_rules_of_a_parser(run, tmp_path: Path) -> None:
    parser = fitted("parser")
    parser.save(tmp_path / "m.model")
    facts = json.loads(run("inspect", tmp_path / "m.model", "--json").out)
    for own in facts["rules"].values():
        probabilities = [rule["probability"] for rule in own]
        assert sum(probabilities) == pytest.approx(1.0) and probabilities == sorted(probabilities, reverse=True)
    assert facts["sizes"]["binary rules"] + facts["sizes"]["unary rules"] == sum(map(len, facts["rules"].values()))
    (symbol, *_) = facts["rules"]
    one = json.loads(run("inspect", tmp_path / "m.model", "--json", "--label", symbol).out)
    assert list(one["rules"]) == [symbol]
    assert (
        "--label 'XYZ' is not one of the model's symbols" in run("inspect", tmp_path / "m.model", "--label", "XYZ").err
    )


def test_inspect_shows_the_sizes_of_a_dependency_parser(run, tmp_path: Path) -> None:
    parser = fitted("dependency parser")
    parser.save(tmp_path / "m.model")
    facts = json.loads(run("inspect", tmp_path / "m.model", "--json").out)
    assert facts["relations"] == ["det", "obj", "punct", "root", "subj"] and facts["tags"] == ["D", "N", "P", "V"]
    assert facts["sizes"]["features"] == len(parser.model_.weights) and facts["training"]["trees"] == 3


def test_inspect_refuses_a_kind_of_the_future(run, tmp_path: Path) -> None:
    model_file.save(tmp_path / "m.model", "oracle", {}, {})
    told = run("inspect", tmp_path / "m.model")
    assert told.status == 2 and "of kind 'oracle'" in told.err
