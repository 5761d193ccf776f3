"""Drawing from models on the command line."""

import pytest

from loglinear import Parser, Tagger
from loglinear.estimators.tagger import density
from problems.corpus import TRAIN


@pytest.fixture
def hmm(files, run):
    result = run("train", files / "train.txt", "-o", files / "hmm.model", "--criterion", "hmm", "-q")
    assert (result.status, result.out) == (0, "")
    return files / "hmm.model"


@pytest.fixture
def tilted(files, run):
    options = ("--criterion", "m-estimation", "--template", "words", "--l2", "0.1", "-q")
    result = run("train", files / "train.txt", "-o", files / "tilted.model", *options)
    assert (result.status, result.out) == (0, "")
    return files / "tilted.model"


def test_draws_are_a_column_file_like_that_of_training(files, hmm, run):
    drawn = run("sample", hmm, "-n", "40", "--seed", "1")
    assert drawn.status == 0 and drawn.err == ""
    assert len(drawn.out.strip().split("\n\n")) == 40
    rows = [line.split() for line in drawn.out.splitlines() if line]
    assert {len(row) for row in rows} == {3}
    assert {row[2] for row in rows} == {line.split()[2] for line in TRAIN.splitlines() if line}
    (files / "drawn.txt").write_text(drawn.out, encoding="utf-8")
    assert run("train", files / "drawn.txt", "-o", files / "again.model", "--criterion", "hmm").status == 0
    assert run("eval", files / "drawn.txt", "--model", hmm).status == 0
    assert run("sample", hmm, "-n", "40", "--seed", "1", "-o", files / "file.txt").out == ""
    assert (files / "file.txt").read_text(encoding="utf-8") == drawn.out
    assert run("sample", hmm, "-n", "40", "--seed", "2").out != drawn.out


@pytest.mark.parametrize("method", ["auto", "importance", "gibbs"])
def test_every_method_draws_as_many_as_asked_for(tilted, run, method):
    drawn = run("sample", tilted, "-n", "3", "--method", method, "--draws", "5000", "--sweeps", "2")
    assert drawn.status == 0 and len(drawn.out.strip().split("\n\n")) == 3


def test_labels_that_stood_before_the_columns_stand_there_again(files, run):
    turned = "".join(" ".join(reversed(line.split())) + "\n" for line in TRAIN.splitlines())
    (files / "turned.txt").write_text(turned, encoding="utf-8")
    options = ("--criterion", "hmm", "--label-column", "0", "-q")
    assert run("train", files / "turned.txt", "-o", files / "t.model", *options).status == 0
    rows = [line.split() for line in run("sample", files / "t.model", "-n", "20").out.splitlines() if line]
    assert {len(row) for row in rows} == {3}
    assert {row[0] for row in rows} <= {line.split()[2] for line in TRAIN.splitlines() if line}


def test_few_effective_draws_are_a_line_of_warning(tilted, run):
    drawn = run("sample", tilted, "-n", "30", "--method", "importance", "--draws", "10")
    assert drawn.status == 0 and "loglinear: warning: 10 draws from the base are worth" in drawn.err


def test_what_cannot_be_drawn_from_is_refused(model, hmm, run):
    conditional = run("sample", model)
    assert conditional.status == 2 and "it has no p(x)" in conditional.err and conditional.err.count("\n") == 1
    unknown = run("sample", hmm, "--method", "slice")
    assert unknown.status == 2 and "method='slice' is not one of auto, exact, importance, gibbs" in unknown.err
    assert run("sample", hmm, "-n", "0").status == 2


def test_more_than_memory_may_hold_is_refused_with_what_to_do(hmm, tilted, run, monkeypatch):
    for model, option in ((hmm, ("-n",)), (tilted, ("--method", "importance", "--draws"))):
        refused = run("sample", model, *option, "1000000000")
        assert refused.status == 2 and refused.err.count("\n") == 1
        said = f"{option[-1].lstrip('-')}=1000000000 is too many at a time; draw at most 10,000,000"
        assert said in refused.err and "another seed" in refused.err

    def exhausted(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr(Tagger, "sample_portions", exhausted)
    refused = run("sample", hmm, "-n", "3000000")
    assert "no memory for 3,000,000 sequences at once; draw fewer at a time (-n, --draws)" in refused.err
    assert refused.status == 2 and "order" not in refused.err


def test_portions_are_the_draws_of_one_generator(hmm, run, monkeypatch):
    whole = run("sample", hmm, "-n", "700", "--seed", "3")
    monkeypatch.setattr(density, "PORTION", 300)
    portions = list(Tagger.load(hmm).sample_portions(700, seed=3))
    assert [len(corpus.offsets) - 1 for corpus, _ in portions] == [300, 300, 100]
    drawn = run("sample", hmm, "-n", "700", "--seed", "3")
    sentences = [text.strip().split("\n\n") for text in (whole.out, drawn.out)]
    assert len(sentences[0]) == len(sentences[1]) == 700
    assert sentences[1] != sentences[0] and sentences[1][:300] != sentences[1][300:600]


def test_trees_are_drawn_from_a_grammar(tmp_path, run):
    trees = ["(ROOT (S (N a) (V b)))", "(ROOT (S (N b) (V b)))"]
    (tmp_path / "t.mrg").write_text("\n".join(trees), encoding="utf-8")
    grammar = tmp_path / "p.model"
    for criterion, model in (("pcfg", grammar), ("cll", tmp_path / "c.model")):
        options = ("--criterion", criterion, *(() if criterion == "pcfg" else ("--max-iter", "1")))
        assert run("parse", "train", tmp_path / "t.mrg", "-o", model, *options).status == 0
    drawn = run("sample", grammar, "-n", "30", "--seed", "1")
    assert drawn.status == 0 and drawn.err == ""
    assert drawn.out.splitlines() == [str(tree) for tree in Parser.load(grammar).sample(30, seed=1)]
    assert set(trees) <= set(drawn.out.splitlines())
    assert run("sample", grammar, "-n", "30", "--seed", "2").out != drawn.out
    (tmp_path / "drawn.mrg").write_text(drawn.out, encoding="utf-8")
    assert run("parse", "eval", tmp_path / "drawn.mrg", "--model", grammar).status == 0
    for arguments, says in (
        ((grammar, "--method", "gibbs", "--draws", "10"), "--draws and --method gibbs: draws from a grammar are exact"),
        ((tmp_path / "c.model",), "criterion='cll': it has no p(words)"),
    ):
        refused = run("sample", *arguments)
        assert refused.status == 2 and says in refused.err and refused.err.count("\n") == 1


def test_help_has_examples(run):
    assert "loglinear sample hmm.model -n 5" in run("sample", "--help").out
