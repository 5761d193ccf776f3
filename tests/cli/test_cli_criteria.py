"""Criteria, costs and optimizers from the command line."""

import json
import re
from pathlib import Path

import pytest

from loglinear import Tagger, read_columns
from loglinear.cli.criteria import NEEDS
from loglinear.criteria.criterion import CRITERIA
from loglinear.errors import OptionError
from loglinear.generative.base import OwnBase
from loglinear.optimizers.optimizer import OPTIMIZERS


def test_criteria_lists_all_of_them_with_their_options(run):
    out = run("criteria").out
    for name in (*CRITERIA.all(), *OPTIMIZERS.all()):
        assert name in out
    assert "mira:k" in out and "nota:threshold" in out and "sgd:step" in out
    facts = json.loads(run("criteria", "--json").out)
    assert [fact["name"] for fact in facts["criteria"]] == list(CRITERIA.all())
    assert all({"minimises", "convex", "needs", "optimizers", "options"} <= set(fact) for fact in facts["criteria"])
    assert [fact["name"] for fact in facts["optimizers"]] == list(OPTIMIZERS.all())


def test_every_criterion_and_optimizer_has_a_row_in_its_table_and_words_for_what_it_needs():
    page = (Path(__file__).parents[2] / "docs/criteria.md").read_text(encoding="utf-8")
    sections = {section.partition("\n")[0]: section for section in page.split("\n## ")}
    for section, names in (("# Criteria and costs", CRITERIA), ("Optimizers", OPTIMIZERS)):
        rows = set(re.findall(r"^\| `([a-z-]+)` \|", sections[section], re.MULTILINE))
        assert set(names) <= rows, f"docs/criteria.md has no row for {', '.join(set(names) - rows)}"
    needed = {operation for criterion in CRITERIA.all().values() for operation in criterion.needs}
    assert needed <= set(NEEDS), f"NEEDS in cli/criteria.py has no words for {', '.join(needed - set(NEEDS))}"


@pytest.mark.parametrize(
    "options",
    [
        ["--criterion", "mira:k=3,C=0.5", "--cost", "recall:2", "--max-iter", "5"],
        ["--criterion", "perceptron", "--optimizer", "online:average=no"],
        ["--criterion", "nota:rate=0.5,decoding=local", "--pair-features"],
        ["--criterion", "nota", "--pair-features", "only"],
        ["--criterion", "memm", "--transitions", "observed-only"],
        ["--criterion", "nota:threshold=0.1,after=3", "--order", "2"],
        ["--criterion", "nota:scaling", "--l2", "0.1"],
        ["--criterion", "pseudolikelihood:joint"],
        ["--criterion", "pseudolikelihood:nota"],
        ["--criterion", "marginal-likelihood"],
        ["--criterion", "f-measure:beta=2,outside=O"],
        ["--criterion", "risk:anneal=4", "--cost", "recall:2"],
        ["--criterion", "risk:k=5,temperature=2"],
        ["--criterion", "softmax-margin:k=5", "--l2", "0.1"],
        ["--criterion", "softmax-margin", "--sub-labels", "2", "--cost", "balanced"],
        ["--criterion", "m-estimation", "--base", "hmm:samples=300,smoothing=0.5"],
        ["--optimizer", "sgd:step=0.1,average", "--max-iter", "4"],
        ["--optimizer", "adagrad", "--l1", "0.1", "--max-iter", "4"],
    ],
    ids=" ".join,
)
def test_models_of_all_kinds_go_the_whole_road(files, run, options):
    assert run("train", files / "train.txt", "-o", files / "m", "--template", "words", *options).status == 0
    tagged = run("tag", files / "m", files / "train.txt", "--marginals")
    assert tagged.status == 0 and tagged.out.count("\n") == (files / "train.txt").read_text().count("\n")
    assert "FB1" in run("eval", files / "train.txt", "--model", files / "m").out
    shown = run("inspect", files / "m")
    assert shown.status == 0 and options[1].partition(":")[0] in (shown.out if "--criterion" in options else options[1])
    if "--sub-labels" in options:
        assert "of 2 sub-labels" in shown.out and "B-NP#1" in shown.out
        assert "B-NP#0" in run("inspect", files / "m", "--label", "B-NP", "--json").out


class Uniform:
    """A base of one's own: any of three labels, any word of the training data, stopping half the time."""

    def log_prob(self, x, y):
        return -3.0 * len(x)

    def sample(self, n, rng):
        return [([("the", "DT")] * 2, ["B-NP", "O"]) for _ in range(n)]


def test_a_model_over_a_base_of_ones_own_is_for_python_only(files, run):
    corpus = read_columns(files / "train.txt")
    base = OwnBase(Uniform(), samples=50)
    Tagger(criterion="m-estimation", base=base, template="words", max_iter=2).fit(corpus).save(files / "m")
    for command in (
        ["tag", files / "m", files / "train.txt"],
        ["eval", files / "train.txt", "--model", files / "m"],
        ["train", files / "train.txt", "-o", files / "n", "--template", "words", "--init", files / "m"],
    ):
        result = run(*command)
        assert result.status == 2 and "can only be used from Python, with Tagger.load(path, base=...)" in result.err
        assert "Uniform" in result.err
    shown = run("inspect", files / "m")
    assert shown.status == 0 and "trained over a base that is not in the file" in shown.out and "Uniform" in shown.out


def test_a_base_that_makes_no_sense_is_refused_before_reading(run, files):
    result = run("train", files / "nowhere.txt", "-o", files / "m", "--criterion", "m-estimation", "--base", "hmm:x=1")
    assert result.status == 2 and "has no option 'x'; it has samples, smoothing" in result.err


def test_hidden_labels_from_the_command_line(files, run):
    """Partial labels, dev data, labels to be found: trained, tagged with and inspected."""
    rows = [line.split() for line in (files / "train.txt").read_text().splitlines()]
    partial = "".join(
        " ".join([*row[:2], "*" if i in (1, 7) else row[2]] if row else []) + "\n" for i, row in enumerate(rows)
    )
    (files / "partial.txt").write_text(partial * 5, encoding="utf-8")
    (files / "words.txt").write_text("".join(f"{row[0] if row else ''}\n" for row in rows) * 5, encoding="utf-8")
    model = files / "h.model"
    options = ["--criterion", "hmm:smoothing=0.1", "--partial", "--constraints", "bio"]
    result = run("train", files / "partial.txt", "-o", model, *options)
    assert result.status == 0, result.err
    assert "converged after" in result.err and "probabilities, over" in result.err
    assert not (files / "h.model.checkpoint").exists()
    out = run("tag", model, files / "train.txt").out
    assert [line.split()[-1] for line in out.splitlines()[:3]] == ["B-NP", "I-NP", "B-VP"]
    shown = run("inspect", model).out
    assert "hmm: " in shown and "values of column 1" in shown and "-> I-NP" in shown
    assert json.loads(run("inspect", model, "--json").out)["criterion"] == "hmm:smoothing=0.1"
    result = run("train", files / "partial.txt", "-o", model, *options, "--dev", files / "train.txt")
    assert result.status == 0 and "dev score" in result.err
    result = run("train", files / "words.txt", "-o", model, "--criterion", "hmm:labels=3,rounds=5")
    assert result.status == 0 and "start 2 of 5" in result.err and "the best of 5 starts" in result.err
    assert {
        line.split()[-1] for line in run("tag", model, files / "words.txt").out.split("\n\n")[0].splitlines()
    } <= set("012")
    result = run("train", files / "words.txt", "-o", model, "--criterion", "hmm")
    assert result.status == 2 and "the label column is missing" in result.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--criterion", "hmm"], "criterion='hmm'"),
        (["--criterion", "hmm:labels=2"], "criterion='hmm:labels=2'"),
        (["--criterion", "hmm", "--partial"], "criterion='hmm'"),
        (["--criterion", "m-estimation"], "criterion='m-estimation'"),
        (["--criterion", "m-estimation", "--sub-labels", "2"], "criterion='m-estimation'"),
        (["--init", "m-estimation"], "init='m-estimation'"),
    ],
    ids=str,
)
def test_a_model_of_columns_is_none_of_ready_made_features(tmp_path, run, options, said):
    path = tmp_path / "features.crfsuite"
    path.write_text("A\tw=a\nB\tw=b\n\nA\tw=a\n", encoding="utf-8")
    refused = run("train", path, "-o", tmp_path / "m", *options)
    assert refused.status == 2
    assert refused.err == f"loglinear: {path}: {said} is a model of columns, but the data is ready-made features\n"
    assert run("train", path, "-o", tmp_path / "m", "--criterion", "memm").status == 0


def test_absurd_numbers_are_refused(files, run):
    train = ("train", files / "train.txt", "-o", files / "m", "--criterion")
    for option in ("smoothing=1e308", "transition_smoothing=1e300"):
        refused = run(*train, f"hmm:{option}")
        assert refused.status == 2 and "must be at most 1e+06" in refused.err and refused.err.count("\n") == 1
    (files / "weights.txt").write_text("1\n1e300\n1\n", encoding="utf-8")
    refused = run(*train, "hmm", "--weights", files / "weights.txt")
    assert refused.status == 2 and "weights.txt:2: 1e300 is not a weight between 0 and 1e+09" in refused.err
    corpus = read_columns(files / "train.txt")
    for criterion in ("hmm", "cll"):
        with pytest.raises(OptionError, match=r"sequence 2 is 1e\+300; weights lie between 0 and 1e\+09"):
            tagger = Tagger(criterion=criterion, template=None if criterion == "hmm" else "words")
            tagger.fit(corpus, sample_weight=[1, 1, 1e300])


def test_features_per_source_state_from_every_verb_that_trains(files, run):
    train, model = files / "train.txt", files / "m"
    common = ("--template", "words", "--l2", "0.1")
    for words in (["--pair-features", "only", train], [train, "--pair-features=only"]):  # before and after the file
        assert run("train", *words, "-o", model, *common, "-q").status == 0
        assert Tagger.load(model).pair_features == "only"
    facts = json.loads(run("inspect", model, "--json").out)
    assert facts["features"]["state"] == 0 == len(facts["states"])
    assert len(facts["edges"]) == facts["features"]["edge"] > 0
    assert {"(start)"} < {edge["from"] for edge in facts["edges"]} <= {"(start)", *facts["label_names"]}
    assert "after (start)" in run("inspect", model, "--top", "50").out
    assert run("train", "--pair-features", train, "-o", model, *common, "-q").status == 0  # the file is no word
    assert Tagger.load(model).pair_features is True
    tuned = run("tune", train, "--grid", "l2=0.1,1", "--folds", "2", "--template", "words", "-o", model,
                "--pair-features", "only")  # fmt: skip
    assert tuned.status == 0 and Tagger.load(model).pair_features == "only"
    tuned = run("tune", train, "--grid", "pair-features=only,no", "--folds", "2", "--template", "words")
    assert tuned.status == 0 and "only" in tuned.out + tuned.err
    found = run(
        "path", train, "--folds", "2", "--grid", "1", "--template", "words", "--pair-features", "only", "-o", model
    )
    assert found.status == 0 and Tagger.load(model).pair_features == "only"
    compared = run("compare", train, "--dev", train, "--test", train, "--criteria", "cll,memm", "--quick",
                   "--template", "words", "--pair-features", "only")  # fmt: skip
    assert compared.status == 0, compared.err
    table = files / "t.csv"
    table.write_text("a,b\n1,x\n2,y\n", encoding="utf-8")
    refused = run("path", table, "--label", "b", "--pair-features", "only")
    assert refused.status == 2 and "--pair-features: for taggers" in refused.err
    wrong = run("train", train, "-o", model, "--pair-features", "only", "--criterion", "m-estimation", *common)
    assert wrong.status == 2 and "has a base model" in wrong.err
