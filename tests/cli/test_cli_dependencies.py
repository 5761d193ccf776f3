"""Dependencies on the command line: CoNLL-U goes to the dependency parser."""

import json

import pytest

from loglinear.data import read_conllu

SENTENCES = [
    "1\tthe\t_\tX\tDT\t_\t2\tdet\t_\t_\n2\tdog\t_\tNOUN\tNN\t_\t3\tnsubj\t_\t_\n3\tran\t_\tVERB\tVBD\t_\t0\troot\t_\t_\n\n",
    "# kept\n1\ta\t_\tX\tDT\t_\t2\tdet\t_\t_\n2\tcat\t_\tNOUN\tNN\t_\t3\tnsubj\t_\t_\n2.1\tx\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "3\tsaw\t_\tVERB\tVBD\t_\t0\troot\t_\t_\n4\tthe\t_\tDET\tDT\t_\t5\tdet\t_\t_\n5\tdog\t_\tNOUN\tNN\t_\t3\tobj\t_\t_\n\n",
]


@pytest.fixture
def treebank(tmp_path):
    (tmp_path / "train.conllu").write_text("".join(SENTENCES) * 6, encoding="utf-8")
    return tmp_path


@pytest.fixture
def parser(treebank, run):
    result = run("parse", "train", treebank / "train.conllu", "-o", treebank / "d.model", "--set", "max_iter=5", "-q")
    assert (result.status, result.out, result.err) == (0, "", "")
    return treebank / "d.model"


def test_the_bundled_corpus_is_conllu_too(tmp_path, run):
    for number, arguments in enumerate([("dev",), ("--generate", "5", "--seed", "1")]):
        path = tmp_path / f"{number}.conllu"
        assert run("corpus", *arguments, "--task", "conllu", "-o", path).status == 0
        corpus = read_conllu(path)
        rows = run("corpus", *arguments, "--task", "dependency").out.split("\n\n")
        assert corpus.n_sentences == len([row for row in rows if row.strip()])
        assert corpus.has_relations


def test_train_says_what_it_made(treebank, run):
    arguments = (
        "--criterion",
        "cll",
        "--dev",
        treebank / "train.conllu",
        "--set",
        "projective=no",
        "--set",
        "max-iter=3",
    )
    result = run("parse", "train", treebank / "train.conllu", "-o", treebank / "c.model", *arguments)
    assert (result.status, result.out) == (0, "")
    for word in ("12 trees, 48 tokens, 4 relations", "of arcs", "of the heads right", "model ", "next "):
        assert word in result.err


def test_train_says_what_it_left_out_and_changed(treebank, run):
    crossing = "".join(f"{t}\tw\t_\t_\t_\t_\t{head}\tdep\t_\t_\n" for t, head in enumerate([3, 4, 0, 3], 1)) + "\n"
    untagged = SENTENCES[1].replace("\tX\tDT", "\t_\t_").replace("\tDET\tDT", "\t_\t_").replace("\tNOUN\tNN", "\t_\t_")
    (treebank / "odd.conllu").write_text(crossing * 2 + untagged.replace("\tVERB\tVBD", "\t_\t_"), encoding="utf-8")
    made = ("-o", treebank / "odd.model", "--max-length", "4", "--set", "max-length=4", "--set", "max-iter=2")
    result = run("parse", "train", treebank / "odd.conllu", *made)
    assert result.status == 0
    assert "data       2 trees (1 longer than 4 left out), 8 tokens" in result.err
    assert "; crossing arcs of 2 sentences lifted" in result.err
    assert "loglinear: warning: " in result.err
    assert "odd.conllu: the sentences have no tags in upos\n" in result.err


def test_run_writes_the_file_with_trees(treebank, parser, run):
    bare = (
        "".join(SENTENCES).replace("\t2\tdet", "\t_\t_").replace("\t3\tnsubj", "\t_\t_").replace("\t3\tobj", "\t_\t_")
    )
    (treebank / "bare.conllu").write_text(bare, encoding="utf-8")
    result = run("parse", "run", parser, treebank / "bare.conllu")
    assert (result.status, result.out) == (0, "".join(SENTENCES))
    assert run("parse", "run", parser, stdin=bare).out == result.out
    run("parse", "run", parser, treebank / "bare.conllu", "-o", treebank / "out.conllu")
    assert read_conllu(treebank / "out.conllu").n_sentences == 2


def test_a_sentence_that_is_too_long_is_named(treebank, run):
    made = ("-o", treebank / "s.model", "--set", "parse-length=3", "-q", "--set", "max_iter=2")
    assert run("parse", "train", treebank / "train.conllu", *made).status == 0
    result = run("parse", "run", treebank / "s.model", treebank / "train.conllu")
    assert result.status == 0
    assert "5\tdog\t_\tNOUN\tNN\t_\t4\t" in result.out
    assert "1\ta\t_\tX\tDT\t_\t0\troot\t" in result.out
    judged = ("parse", "eval", treebank / "train.conllu", "--model", treebank / "s.model")
    assert "  failures 6\n" in run(*judged).out
    assert json.loads(run(*judged, "--json").out)["failures"] == 6
    assert json.loads(run(*judged, "--max-length", "3", "--json").out)["failures"] == 0
    assert "train.conllu:6: 5 tokens are too many (parse_length=3)" in result.err


def test_a_sentence_too_long_to_learn_from_is_parsed(treebank, run):
    made = ("-o", treebank / "s.model", "--max-length", "3", "-q", "--set", "max_iter=2")
    assert run("parse", "train", treebank / "train.conllu", *made).status == 0
    result = run("parse", "run", treebank / "s.model", treebank / "train.conllu")
    assert (result.status, result.err) == (0, "")


def test_eval_of_a_model_and_of_predictions(treebank, parser, run):
    gold = treebank / "train.conllu"
    found = json.loads(run("parse", "eval", gold, "--model", parser, "--json").out)
    assert found["uas"] == found["las"] == found["exact"] == 100.0
    assert found["sentences_per_second"] > 0
    assert "UAS 100.00  LAS 100.00" in run("parse", "eval", gold, "--pred", gold).out
    short = json.loads(run("parse", "eval", gold, "--pred", gold, "--max-length", "3", "--json").out)
    assert (short["sentences"], short["failures"], short["sentences_per_second"]) == (6, None, None)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("train", "{gold}", "-o", "{folder}/x.model", "--set", "nonsense=1"), "--set 'nonsense=1'"),
        (("train", "{gold}", "-o", "{folder}/x.model", "--set", "projective"), "give NAME=VALUE"),
        (("train", "{gold}", "-o", "{folder}/x.model", "--criterion", "memm"), "'memm' trains no dependency parser"),
        (("train", "{gold}", "-o", "{folder}/x.model", "--dev", "{folder}/no.conllu"), "cannot be read"),
        (
            ("train", "{gold}", "-o", "{folder}/x.model", "--criterion", "pcfg"),
            "it trains phrase parsers (on trees in brackets); there are",
        ),
        (
            ("train", "{gold}", "-o", "{folder}/x.model", "--annotation", "foo", "--vertical", "2", "--function-tags"),
            "--annotation and --vertical and --function-tags make no sense for dependencies",
        ),
        (("train", "{gold}", "-o", "{folder}/x.model", "--horizontal", "2"), "--horizontal makes no sense"),
        (("train", "{gold}", "-o", "{folder}/x.model", "--factor", "left"), "--factor makes no sense"),
        (("train", "{gold}", "-o", "{folder}/x.model", "--marks", "^"), "--marks makes no sense"),
        (
            ("train", "{gold}", "-o", "{folder}/x.model", "--set", "criterion=generative", "--criterion", "cll"),
            "--set 'criterion=generative': criterion is also given as 'cll'",
        ),
        (
            ("train", "{gold}", "-o", "{folder}/x.model", "--set", "tags=upos", "--set", "tags=xpos"),
            "--set 'tags=xpos': tags is also given as 'upos'",
        ),
        (("run", "{folder}/no.model", "{gold}", "--draw", "--decoding", "posterior"), "--draw and --decoding make no"),
        (("run", "{folder}/no.model", "{gold}", "--time-limit", "3"), "--time-limit makes no sense"),
        (("eval", "{gold}", "--pred", "{gold}", "--marks", "^", "--particles-apart"), "--marks and --particles-apart"),
        (("train", "{broken}", "-o", "{folder}/x.model"), "broken.conllu:1: "),
        (("eval", "{gold}", "--pred", "{one}"), "sentences are not those"),
        (("eval", "{gold}", "--pred", "{gold}", "--max-length", "1"), "no sentence has at most 1"),
    ],
)
def test_mistakes_are_one_line(treebank, run, arguments, says):
    (treebank / "broken.conllu").write_text("1\ta\n", encoding="utf-8")
    (treebank / "one.conllu").write_text(SENTENCES[0], encoding="utf-8")
    places = {
        name: treebank / f"{file}.conllu" for name, file in (("gold", "train"), ("broken", "broken"), ("one", "one"))
    }
    result = run("parse", *(argument.format(folder=treebank, **places) for argument in arguments))
    assert result.status == 2
    assert result.err.startswith("loglinear: ")
    assert says in result.err
