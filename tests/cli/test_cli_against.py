"""Two systems compared on the command line: models and files of predictions, of labels, rows, trees and arcs."""

from __future__ import annotations

import json

import pytest
from test_cli_classify import as_csv, reviews
from test_cli_dependencies import SENTENCES

from problems.corpus import TRAIN


@pytest.fixture
def other(files, run):
    made = run("train", files / "train.txt", "-o", files / "o.model", "--template", "words", "--max-iter", "1", "-q")
    assert (made.status, made.err) == (0, "")
    return files / "o.model"


@pytest.fixture
def tagged(files, model, other, run):
    paths = files / "a.txt", files / "b.txt"
    for path, tagger in zip(paths, (model, other), strict=True):
        assert run("tag", tagger, files / "train.txt", "-o", path).status == 0
    return paths


def told_of(told):
    assert (told.status, told.err) == (0, "")
    return json.loads(told.out)


def test_two_models_two_files_and_one_of_each_give_the_same(files, model, other, tagged, run):
    gold, (a, b) = files / "train.txt", tagged
    found = told_of(run("eval", gold, "--model", model, "--against", other, "--json"))
    assert found["first"]["name"] == str(model) and found["second"]["name"] == str(other)
    for name, system in (("first", model), ("second", other)):
        alone = json.loads(run("eval", gold, "--model", system, "--json").out)
        assert {**alone, "name": str(system)} == found[name]
        assert found["tests"]["figures"]["chunk F1"][name] == pytest.approx(alone["f1"])
    for arguments in (
        (a, "--against", b),
        (gold, "--pred", a, "--against", other),
        (gold, "--model", model, "--against", b),
    ):
        assert told_of(run("eval", *arguments, "--json"))["tests"] == found["tests"]
    shown = run("eval", a, "--against", b, "--draws", "100")
    assert (shown.status, shown.err) == (0, "")
    for word in (f"A = {a}\nB = {b}\n", "chunk F1", "McNemar p", "100 draws"):
        assert word in shown.out
    labels = run("eval", a, "--against", b, "--metric", "labels", "--json")
    assert list(told_of(labels)["tests"]["figures"]) == ["tag accuracy", "right sentences"]


def test_json_lines_and_columns_of_choice(files, model, tagged, run):
    a, b = tagged
    for path in (a, b):
        rows = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
        turned = [" ".join([*row[:-2], *reversed(row[-2:])]) for row in rows]
        path.with_suffix(".turned").write_text("\n".join(turned) + "\n", encoding="utf-8")
    turned = [path.with_suffix(".turned") for path in tagged]
    columns = ("--gold-column", "-1", "--pred-column", "-2", "--json")
    one = told_of(run("eval", turned[0], "--against", turned[1], *columns))
    assert one["tests"] == told_of(run("eval", a, "--against", b, "--json"))["tests"]
    records = [{"tokens": ["a", "b"], "labels": ["X", "Y"], "predicted": ["X", "X"]}]
    for name, predicted in (("1.jsonl", ["X", "X"]), ("2.jsonl", ["X", "Y"])):
        (files / name).write_text(json.dumps(records[0] | {"predicted": predicted}) + "\n", encoding="utf-8")
    figures = told_of(run("eval", files / "1.jsonl", "--against", files / "2.jsonl", "--json"))["tests"]["figures"]
    assert (figures["tag accuracy"]["first"], figures["tag accuracy"]["second"]) == (50.0, 100.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: ["XX " + lines[0].split(" ", 1)[1], *lines[1:]], "c.txt:1: the token is 'XX', but "),
        (
            lambda lines: [" ".join([*lines[0].split()[:-2], "Z", "Z"]), *lines[1:]],
            "c.txt:1: the gold label is 'Z', but ",
        ),
        (lambda lines: lines[1:], "a.txt:1: sentence 1 has 3 tokens, but 2 in "),
        (lambda lines: [*lines, "x y O O", ""], "c.txt:{n}: "),
    ],
)
def test_files_of_other_sentences_are_refused(files, tagged, run, change, message):
    lines = [*tagged[1].read_text(encoding="utf-8").rstrip("\n").split("\n"), ""]
    (files / "c.txt").write_text("\n".join(change(lines)) + "\n", encoding="utf-8")
    told = run("eval", tagged[0], "--against", files / "c.txt")
    assert (told.status, told.out) == (2, "") and message.format(n=len(lines) + 1) in told.err
    assert len(told.err.splitlines()) == 1


def test_mistakes(files, model, tagged, run):
    for arguments, message in (
        ((tagged[0], "--against", model), "is a model; compare it with another one (--model)"),
        ((files / "train.txt", "--model", model, "--against", files / "none.txt"), "none.txt"),
        ((files / "train.txt", "--model", model, "--against", model, "--draws", "0"), "draws=0"),
        ((tagged[0], "--draws", "100"), "--draws goes with --against"),
    ):
        told = run("eval", *arguments)
        assert (told.status, told.out) == (2, "") and message in told.err


def test_classifiers(run, tmp_path):
    for name, n in (("train", 120), ("test", 60)):
        as_csv(reviews(n, seed=n), tmp_path / f"{name}.csv")
    for name, more in (("a", ()), ("b", ("--ignore", "review"))):
        given = ("--label", "verdict", "--ignore", "id", *more, "-o", tmp_path / f"{name}.model", "-q")
        assert run("classify", "train", tmp_path / "train.csv", *given).status == 0
    test, a, b = tmp_path / "test.csv", tmp_path / "a.model", tmp_path / "b.model"
    found = told_of(run("classify", "eval", a, test, "--against", b, "--json"))
    figures = found["tests"]["figures"]
    assert list(figures) == ["accuracy", "macro F1", "log loss"] and found["tests"]["examples"] == 60
    for name, model in (("first", a), ("second", b)):
        alone = json.loads(run("classify", "eval", model, test, "--json").out)
        assert figures["accuracy"][name] == pytest.approx(alone["accuracy"])
        assert figures["macro F1"][name] == pytest.approx(alone["macro_f1"])
        assert figures["log loss"][name] == pytest.approx(alone["log_loss"])
    labelled = tmp_path / "b.csv"
    assert run("classify", "run", b, test, "-o", labelled, "--column", "said").status == 0
    by_table = run("classify", "eval", a, test, "--against", labelled, "--column", "said", "--json")
    assert told_of(by_table)["tests"]["figures"] == {name: figures[name] for name in ("accuracy", "macro F1")}
    lines = labelled.read_text(encoding="utf-8").splitlines()
    for change, message in (
        (lines[:-1], "b.csv: 59 rows, but 60 in "),
        ([*lines[:2], lines[2].replace("that is all", "that is not"), *lines[3:]], "b.csv:3: column 'review' is "),
    ):
        labelled.write_text("\n".join(change) + "\n", encoding="utf-8")
        told = run("classify", "eval", a, test, "--against", labelled, "--column", "said")
        assert (told.status, told.out) == (2, "") and message in told.err
    assert "--column goes with --against" in run("classify", "eval", a, test, "--column", "said").err
    assert "no column 'predicted'" in run("classify", "eval", a, test, "--against", labelled).err


def test_parsers(run, tmp_path):
    from loglinear import Parser, read_treebank

    trees = "(ROOT (S (NP (D the) (N dog)) (VP (V ran))))\n(ROOT (S (NP (N cats)) (VP (V saw) (NP (N dogs)))))\n"
    gold, other = tmp_path / "gold.mrg", tmp_path / "other.mrg"
    gold.write_text(trees, encoding="utf-8")
    other.write_text(trees.splitlines()[0] + "\n(ROOT (S (N cats) (V saw) (N dogs)))\n", encoding="utf-8")
    Parser().fit(read_treebank(gold)).save(tmp_path / "p.model")
    found = told_of(run("parse", "eval", gold, "--model", tmp_path / "p.model", "--against", other, "--json"))
    alone = json.loads(run("parse", "eval", gold, "--pred", other, "--json").out)
    assert found["second"] == {**alone, "name": str(other)}
    assert found["tests"]["figures"]["bracket F1"]["second"] == pytest.approx(alone["f1"])
    turned = told_of(run("parse", "eval", gold, "--pred", other, "--against", tmp_path / "p.model", "--json"))
    for name, figure in turned["tests"]["figures"].items():
        assert figure["second"] == found["tests"]["figures"][name]["first"]
    other.write_text(trees.replace("saw", "say"), encoding="utf-8")
    for given in (("--pred", other), ("--model", tmp_path / "p.model", "--against", other)):
        told = run("parse", "eval", gold, *given)
        assert told.status == 2 and "other.mrg:2: the words of tree 2 are not those in " in told.err


def test_dependency_parsers(run, tmp_path):
    gold, other = tmp_path / "gold.conllu", tmp_path / "other.conllu"
    gold.write_text("".join(SENTENCES) * 3, encoding="utf-8")
    other.write_text(gold.read_text(encoding="utf-8").replace("\tobj\t", "\tobl\t"), encoding="utf-8")
    model = tmp_path / "d.model"
    assert run("parse", "train", gold, "-o", model, "--set", "max_iter=5", "-q").status == 0
    found = told_of(run("parse", "eval", gold, "--model", model, "--against", other, "--json"))
    alone = json.loads(run("parse", "eval", gold, "--pred", other, "--json").out)
    assert found["second"] == {**alone, "name": str(other)}
    assert found["tests"]["figures"]["LAS"]["second"] == pytest.approx(alone["las"])
    assert alone["las"] < alone["uas"]
    turned = told_of(run("parse", "eval", gold, "--pred", other, "--against", model, "--json"))
    assert turned["tests"]["figures"]["UAS"]["second"] == found["tests"]["figures"]["UAS"]["first"]
    for content, message in (
        (gold.read_text(encoding="utf-8").replace("ran", "run", 1), "other.conllu:3: the word is 'run', but 'ran' in "),
        ("".join(SENTENCES) * 2, "4 sentences, but 6 in "),
        (SENTENCES[1] + "".join(SENTENCES) * 3, "other.conllu:2: sentence 1 is not that of the gold file"),
    ):
        other.write_text(content, encoding="utf-8")
        told = run("parse", "eval", gold, "--model", model, "--against", other)
        assert (told.status, told.out) == (2, "") and message in told.err


# -- combine -----------------------------------------------------------------------------------------------------------


def test_combine_tag_eval_and_inspect(files, model, other, run):
    gold, both = files / "train.txt", files / "both.model"
    made = run("combine", model, other, "--dev", gold, "-o", both)
    assert (made.status, made.out) == (0, "")
    for word in (str(model), str(other), "weight", "dev F1", "all", "training   converged", "next "):
        assert word in made.err
    assert run("eval", gold, "--model", both).out.startswith("processed ")
    assert told_of(run("eval", gold, "--model", both, "--against", model, "--json"))["first"]["name"] == str(both)
    facts = json.loads(run("inspect", both, "--json").out)
    assert facts["kind"] == "combination" and [each["criterion"] for each in facts["members"]] == ["cll", "cll"]
    assert "combination, 2 models, order 1" in run("inspect", both).out
    quiet = run("combine", model, other, "--weights", "1,0", "-o", both, "-q")
    assert (quiet.status, quiet.out, quiet.err) == (0, "", "")
    for more in ((), ("--marginals",), ("--nbest", "3"), ("--force",)):
        assert run("tag", both, gold, *more).out == run("tag", model, gold, *more).out
    shown = run("combine", model, other, "--weights", "1,0", "-o", both)
    assert "the weights were given" in shown.err and "dev F1" not in shown.err


def test_combine_by_error(files, model, other, run):
    gold, both = files / "train.txt", files / "both.model"
    made = run("combine", model, other, "--dev", gold, "--criterion", "mert:k=5,restarts=2", "--seed", "3", "-o", both)
    assert (made.status, made.out) == (0, "")
    assert "converged: the n-best lists hold nothing new" in made.err
    assert "dev F1" in made.err and "dev accuracy" not in made.err and ", 1 - F1\n" in made.err
    assert run("eval", gold, "--model", both).out.startswith("processed ")


def test_combine_shows_the_metric_that_it_tuned(files, model, other, run):
    given = ("combine", model, other, "--dev", files / "train.txt", "-o", files / "both.model", "--criterion")
    made = run(*given, "mert:k=5,restarts=0,metric=accuracy")
    assert "dev accuracy" in made.err and "dev F1" in made.err and ", 1 - accuracy\n" in made.err
    assert ", the mean cost of a sentence\n" in run(*given, "mert:k=5,restarts=0", "--cost", "recall:2").err


def test_combine_says_which_sentences_it_cannot_use(files, model, other, run):
    (files / "dev.txt").write_text(TRAIN + "\nthe D B-XX\n\n", encoding="utf-8")
    made = run("combine", model, other, "--dev", files / "dev.txt", "-o", files / "both.model")
    assert made.status == 0 and "of the dev data left out: not every model can give their labels" in made.err
    without = run("combine", model, other, "--dev", files / "train.txt", "-o", files / "both.model")
    used = next(line for line in without.err.splitlines() if line.startswith("data "))
    assert f"{used}; 1 sentence left out" in made.err  # and not counted among those tuned on


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["m.model", "--dev", "train.txt"], "at least 2 models, not 1"),
        (["m.model", "o.model"], "give dev data to tune the weights on (--dev)"),
        (["m.model", "o.model", "--dev", "train.txt", "--weights", "1,1"], "--weights says what --dev would find"),
        (["m.model", "o.model", "--weights", "1,1", "--l2", "3"], "--weights says what --l2 would find"),
        (["m.model", "o.model", "--weights", "1,x"], "give numbers separated by commas"),
        (["m.model", "o.model", "--weights", "1"], "for each of the 2 models"),
        (["m.model", "o.model", "--dev", "train.txt", "--criterion", "nota"], "tuned by cll"),
        (["m.model", "o.model", "--dev", "train.txt", "--criterion", "mert:k=x"], "k='x' must be a whole number"),
        (["m.model", "o.model", "--weights", "1,1", "--seed", "3"], "--weights says what --seed would find"),
        (["m.model", "train.txt", "--dev", "train.txt"], "train.txt is not a loglinear model"),
    ],
)
def test_combine_refuses_what_makes_no_sense(files, model, other, run, monkeypatch, arguments, message):
    monkeypatch.chdir(files)
    told = run("combine", *arguments, "-o", "both.model")
    assert (told.status, told.out) == (2, "") and message in told.err.splitlines()[-1]
    assert not (files / "both.model").exists()
    assert "would overwrite the input" in run("combine", model, other, "--weights", "1,1", "-o", model).err
