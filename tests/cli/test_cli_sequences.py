"""Classifiers of sequences and taggers of scikit-learn classifiers on the command line; mistakes of many verbs."""

import csv
import io
import json

import pytest

from loglinear import InputClassifier, LocalTagger

QUESTIONS = [("where is the dog", "question"), ("the cat was here", "statement")] * 8


@pytest.fixture
def sequences(tmp_path):
    text = "".join(
        f"# kind = {kind}\n" + "".join(f"{w} {len(w)}\n" for w in words.split()) + "\n" for words, kind in QUESTIONS
    )
    (tmp_path / "kinds.txt").write_text(text)
    records = [{"tokens": words.split(), "kind": kind} for words, kind in QUESTIONS]
    (tmp_path / "kinds.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return tmp_path


@pytest.mark.parametrize("file", ["kinds.txt", "kinds.jsonl"])
@pytest.mark.parametrize(
    "options",
    [[], ["--criterion", "hmm:labels=2", "--order", 2], ["--prior", "uniform", "--criterion", "hmm:smoothing=0.1"]],
)
def test_sequences_are_classified(file, options, sequences, run):
    model, data = sequences / "m.model", sequences / file
    result = run("classify", "train-sequences", data, "--label", "kind", *options, "-o", model)
    assert (result.status, result.out) == (0, "") and "question (8), statement (8)" in result.err
    facts = json.loads(run("classify", "eval", model, data, "--json").out)
    assert facts["rows"] == 16 and facts["accuracy"] == 100.0
    assert "16 sequences; correct: 16" in run("classify", "eval", model, data, "--plot", sequences / "c.svg").out
    labelled = list(csv.DictReader(io.StringIO(run("classify", "run", model, data, "--probabilities").out)))
    assert [row["predicted"] for row in labelled] == [kind for _, kind in QUESTIONS]
    assert float(labelled[0]["p(question)"]) > 0.5 and labelled[0]["sequence"] == "1"
    assert InputClassifier.load(model).label_key_ == "kind"
    shown = run("inspect", model)
    assert shown.status == 0 and "classes of sequences by p(x)" in shown.out and "question" in shown.out
    against = run("classify", "eval", model, data, "--against", model, "--draws", 50)
    assert against.status == 0, against.err


def test_labels_of_tokens_and_weights(sequences, run):
    model, weights = sequences / "m.model", sequences / "weights.txt"
    weights.write_text("1\n" * 8 + "0\n" * 8)
    how = ["--label", "kind", "--labelled", "--weights", weights, "-o", model, "-q"]
    assert run("classify", "train-sequences", sequences / "kinds.txt", *how).status == 0
    assert "5" in InputClassifier.load(model).taggers_[0].classes_
    how = ["--criterion", "m-estimation", "--template", "words", "--variance", 1, "--max-iter", 5]
    result = run("classify", "train-sequences", sequences / "kinds.txt", "--label", "kind", *how, "-o", model)
    assert result.status == 0, result.err
    assert run("classify", "eval", model, sequences / "kinds.txt").status == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--label", "sort"], "kinds.txt:2: the sort of this sentence is missing; give it a comment before it: # sort"),
        (["--label", "kind", "--criterion", "cll"], "criterion='cll' is of a conditional model, without p(x)"),
        (["--label", "kind", "--prior", "flat"], "prior='flat' is not one of empirical, uniform"),
        (["--label", "kind", "--order", 4], "order=4 is not one of 1, 2, 3"),
        (["--label", "kind", "--criterion", "hmm:labels=2", "--labelled"], "hmm:labels=2 finds its own"),
    ],
)
def test_mistakes_end_in_one_line(arguments, message, sequences, run):
    result = run("classify", "train-sequences", sequences / "kinds.txt", *arguments, "-o", sequences / "m.model")
    assert (result.status, result.out) == (2, "")
    assert result.err.count("\n") == 1 and message in result.err


# -- scikit-learn's classifiers as taggers -----------------------------------------------------------------------------


def test_a_classifier_is_trained_used_and_shown(files, run):
    model, data = files / "c.model", files / "train.txt"
    how = ["--template", "chunking", "--classifier", "LogisticRegression:C=2.5", "--constraints", "bio"]
    result = run("train", data, "-o", model, *how, "--dev", data, "--pair-features")
    assert result.status == 0 and "LogisticRegression(C=2.5, random_state=0)" in result.err
    assert "dev score  100.00 (F1)" in result.err
    assert run("eval", data, "--model", model).status == 0
    tagged = run("tag", model, data, "--marginals")
    assert tagged.status == 0 and len(tagged.out.split("\n")[0].split()) == 5
    assert run("inspect", model).status == 0
    listed = json.loads(run("inspect", model, "--json", "--label", "B-NP").out)
    assert {each["label"] for each in listed["features"]} == {"B-NP"} and listed["options"]["C"] == 2.5
    loaded = LocalTagger.load(model)
    assert loaded.joined and loaded.classifier.C == 2.5
    assert (
        run("train", data, "-o", model, *how[:2], "--classifier", "RandomForestClassifier:n_estimators=3", "-q").err
        == ""
    )
    assert "3 trees" in run("inspect", model).out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--classifier", "SVC"], "'SVC' is an object of its own kind once it is fitted"),
        (["--classifier", "LinearSVC:C=-1"], "--classifier LinearSVC:C=-1: The 'C' parameter"),
        (["--classifier", "LinearSVC", "--l2", 1, "--criterion", "mira"], "--criterion, --l2: not with --classifier"),
        (["--classifier", "LinearSVC", "--resume"], "--resume: not with --classifier"),
        (["--classifier", "LinearSVC", "--keep", 5], "--keep"),
        (["--classifier", "LinearSVC", "--pair-features", "only"], "--pair-features only: with --classifier"),
    ],
)
def test_mistakes_about_classifiers_end_in_one_line(arguments, message, files, run):
    result = run("train", files / "train.txt", "-o", files / "c.model", "--template", "words", *arguments)
    assert (result.status, result.out) == (2, "")
    assert result.err.count("\n") == 1 and message in result.err
    assert not (files / "c.model").exists()


# -- mistakes of many verbs --------------------------------------------------------------------------------------------


def test_charts_have_the_ending_of_svg(files, run):
    (files / "t.csv").write_text("a,b\n1,x\n2,y\n")
    for command in (
        ("path", files / "train.txt", "--test", files / "train.txt", "--plot", files / "p.png"),
        ("classify", "eval", files / "no.model", files / "t.csv", "--plot", files / "p.png"),
        ("classify", "eval", files / "no.model", files / "t.csv", "--plot-regions", files / "p.png"),
        ("cluster", files / "t.csv", "-k", 1, "--plot", files / "p.png"),
    ):
        result = run(*command)
        assert result.status == 2 and "p.png: charts are written as SVG; name a file that ends in .svg" in result.err
        assert not (files / "p.png").exists()


def test_a_leftover_checkpoint_hides_no_mistake(files, run):
    (files / "t.csv").write_text("a,b\n1,x\n2,y\n")
    (files / "t.mrg").write_text("(S (NP (N dog)) (VP (V ran)))\n")
    (files / "m.model.checkpoint").write_bytes(b"")
    commands = [
        ("train", files / "train.txt", "--criterion", "none"),
        ("classify", "train", files / "t.csv", "--label", "b", "--criterion", "none"),
        ("parse", "train", files / "t.mrg", "--criterion", "none"),
    ]
    for command in commands:
        result = run(*command, "-o", files / "m.model")
        assert result.status == 2 and "none" in result.err and "unfinished" not in result.err


def test_naive_bayes_has_nothing_to_resume(files, run):
    (files / "t.csv").write_text("a,b\nword word,x\nother,y\n")
    how = ["--label", "b", "--text", "a", "--criterion", "naive-bayes", "-o", files / "m.model"]
    result = run("classify", "train", files / "t.csv", *how, "--resume")
    assert result.status == 2 and "--resume: criterion 'naive-bayes' counts, in one go" in result.err
    assert run("classify", "train", files / "t.csv", *how, "-q").status == 0


@pytest.mark.parametrize(
    "tree", ["(S (NP (N dog)) (VP (V ran)))", "( (S (NP (N dog))\n  (VP (V ran))))", "(S\n (N dog))"]
)
def test_a_treebank_is_not_raw_text(tree, files, run):
    (files / "t.mrg").write_text(tree + "\n")
    how = ["--criterion", "pcfg-em:start=random,phrases=2,tags=2", "--max-iter", 2, "-o", files / "m.model", "-q"]
    result = run("parse", "train", "--raw", files / "t.mrg", *how)
    assert result.status == 2 and "begins with a tree" in result.err and result.err.count("\n") == 1
    (files / "t.txt").write_text("(the) dog ran\nthe dog ( ran )\n")
    assert run("parse", "train", "--raw", files / "t.txt", *how).status == 0
