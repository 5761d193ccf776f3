"""The road a user walks: train, tag, eval, inspect; and what happens when something is wrong on the way."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from loglinear import Classifier, DependencyParser, Tagger
from loglinear.cli.common import TrainingDisplay
from problems.corpus import TRAIN

# -- the road --------------------------------------------------------------------------------------------------------


def test_train_says_what_it_did(files, run):
    result = run(
        "train", files / "train.txt", "-o", files / "m.model", "--dev", files / "train.txt", "--constraints", "bio"
    )
    assert result.status == 0 and result.out == ""
    for part in (
        "template: ner",
        "3 sentences, 12 tokens, 4 labels",
        "objective",
        "dev score  100.00",
        "m.model",
        "next",
    ):
        assert part in result.err


def test_tag_appends_a_column_and_eval_reads_it(files, model, run):
    tagged = run("tag", model, files / "train.txt")
    assert tagged.status == 0
    expected = "".join(f"{line} {line.split()[-1]}\n" if line else "\n" for line in TRAIN.splitlines())
    assert tagged.out == expected
    scored = run("eval", "-", stdin=tagged.out)
    assert scored.out.splitlines()[:2] == [
        "processed 12 tokens with 7 phrases; found: 7 phrases; correct: 7.",
        "accuracy: 100.00%; precision: 100.00%; recall: 100.00%; FB1: 100.00",
    ]
    assert run("eval", files / "train.txt", "--model", model).out == scored.out
    (files / "tagged.txt").write_text(tagged.out, encoding="utf-8")
    assert run("eval", files / "train.txt", "--pred", files / "tagged.txt").out == scored.out
    report = json.loads(run("eval", files / "tagged.txt", "--json").out)
    assert report["f1"] == 100.0 and report["types"]["NP"]["recall"] == 100.0


def test_tag_without_labels_from_standard_input(model, run):
    assert run("tag", model, stdin="the D\ndog N\n").out == "the D B-NP\ndog N I-NP\n"
    assert run("tag", model, "-", stdin="the\tD\r\ndog\tN\r\n").out == "the\tD\tB-NP\r\ndog\tN\tI-NP\r\n"


def test_tag_keeps_comments_and_document_marks(model, run):
    text = "# a comment of five words\n-DOCSTART- -X-\n\nthe D\ndog N\n"
    expected = "# a comment of five words\n-DOCSTART- -X- O\n\nthe D B-NP\ndog N I-NP\n"
    assert run("tag", model, stdin=text).out == expected


def test_document_marks_count_as_conlleval_counts_them(run):
    text = "-DOCSTART- -X- O O\n\nthe D B-NP B-NP\n"
    assert run("eval", "-", stdin=text).out.startswith("processed 2 tokens with 1 phrases")
    assert run("eval", "-", stdin="-DOCSTART-\n\nthe D B-NP B-NP\n").out.startswith("processed 1 tokens")


def test_marginals_are_one_more_column(model, run):
    rows = [line.split() for line in run("tag", model, "--marginals", stdin="the D\ndog N\n").out.splitlines()]
    assert [row[2] for row in rows] == ["B-NP", "I-NP"]
    assert all(0.5 < float(row[3]) <= 1.0 for row in rows)
    tagged = run("tag", model, "--marginals", stdin=TRAIN).out
    assert "FB1: 100.00" in run("eval", "-", "--gold-column", "-3", "--pred-column", "-2", stdin=tagged).out


def test_nbest_lists_labellings_with_their_probability(model, run):
    blocks = run("tag", model, "--nbest", "2", stdin="the D\ndog N\n").out.strip().split("\n\n")
    assert len(blocks) == 2
    assert blocks[0].startswith("# sentence = 1, rank = 1, probability = 0.") and blocks[0].endswith("dog N I-NP")


def test_nbest_refuses_labels_that_are_no_fields(files, run):
    (files / "t.jsonl").write_text('{"tokens": ["a"], "labels": ["A B"]}\n', encoding="utf-8")
    assert run("train", files / "t.jsonl", "-o", files / "j.model", "--template", "words", "-q").status == 0
    result = run("tag", files / "j.model", "--nbest", "2", stdin="a\n")
    assert result.status == 2 and "cannot be written as a field" in result.err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_is_an_error(files, model, unbuffered):
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [sys.executable, "-m", "loglinear", "tag", model, files / "train.txt"],
            stdout=full, stderr=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": unbuffered}, text=True,
        )  # fmt: skip
    assert result.returncode == 2 and "No space left" in result.stderr and "Traceback" not in result.stderr


def test_force_keeps_given_labels(model, run):
    out = run("tag", model, "--force", stdin="the D *\ndog N B-VP|O\n").out
    assert [line.split()[-1] for line in out.splitlines()][1] in ("B-VP", "O")
    wrong = run("tag", model, "--force", stdin="the D *\ndog N B-XX\n")
    assert wrong.status == 2 and "<stdin>:2: label 'B-XX'" in wrong.err and wrong.out == ""


@pytest.mark.parametrize("decoding", ["viterbi", "posterior", "min-risk"])
def test_decodings(model, run, decoding):
    assert run("tag", model, "--decoding", decoding, stdin="the D\ndog N\n").out == "the D B-NP\ndog N I-NP\n"


def test_compressed_files_and_outputs(files, run):
    with gzip.open(files / "train.gz", "wt", encoding="utf-8") as file:
        file.write(TRAIN)
    assert run("train", files / "train.gz", "-o", files / "z.model", "--template", "chunking").status == 0
    assert run("tag", files / "z.model", files / "train.gz", "-o", files / "out.gz").status == 0
    assert gzip.decompress((files / "out.gz").read_bytes()).startswith(b"the D B-NP B-NP\n")


def test_json_lines(files, run):
    lines = ['{"tokens": ["the", "dog"], "labels": ["B-NP", "I-NP"], "id": 7}', '{"tokens": ["go"], "labels": ["O"]}']
    (files / "t.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert run("train", files / "t.jsonl", "-o", files / "j.model", "--template", "words", "-q").status == 0
    records = [
        json.loads(line) for line in run("tag", files / "j.model", files / "t.jsonl", "--marginals").out.splitlines()
    ]
    assert records[0]["predicted"] == ["B-NP", "I-NP"] and records[0]["id"] == 7 and len(records[0]["confidence"]) == 2
    best = [
        json.loads(line) for line in run("tag", files / "j.model", files / "t.jsonl", "--nbest", "2").out.splitlines()
    ]
    assert best[1]["nbest"][0]["labels"] == ["O"]
    assert "FB1: 100.00" in run("eval", files / "t.jsonl", "--model", files / "j.model").out


def test_json_lines_predictions_are_scored_against_the_labels(files, run):
    records = ['{"tokens": ["a", "b"], "labels": ["B-X", "O"], "predicted": ["B-X", "B-X"]}']
    (files / "p.jsonl").write_text(records[0] + "\n", encoding="utf-8")
    (files / "g.jsonl").write_text('{"tokens": ["a", "b"], "labels": ["B-X", "O"]}\n', encoding="utf-8")
    scores = [
        json.loads(run("eval", files / "g.jsonl", "--pred", files / "p.jsonl", "--json").out),
        json.loads(run("eval", files / "p.jsonl", "--json").out),
    ]
    assert all(score["precision"] == 50.0 and score["recall"] == 100.0 for score in scores)
    assert run("eval", files / "g.jsonl").status == 2


def test_chunks_of_one_token_are_chunks(run):
    out = run("eval", "-", stdin="a S-X S-X\nb S-X S-X\nc O O\n").out
    assert out.startswith("processed 3 tokens with 2 phrases; found: 2 phrases; correct: 2.")


def test_crfsuite_attribute_files(files, run):
    text = "B\tw=a\tlen:0.5\nI\tw=b\n\nB\tw=a\nO\tw=c\\:d:2\n\n"
    (files / "t.crfsuite").write_text(text, encoding="utf-8")
    assert run("train", files / "t.crfsuite", "-o", files / "c.model", "-q").status == 0
    assert run("tag", files / "c.model", files / "t.crfsuite").out == "B B\nI I\n\nB B\nO O\n\n"
    assert "w=c:d" in run("inspect", files / "c.model").out
    assert run("train", files / "t.crfsuite", "-o", files / "c.model", "--template", "ner").status == 2


def test_plain_text(model, files, run):
    assert run("train", files / "train.txt", "-o", files / "w.model", "--template", "words", "-q").status == 0
    out = run("tag", files / "w.model", "--format", "text", stdin="the dog\n\nAnna barks\n").out
    assert out == "the B-NP\ndog I-NP\n\nAnna B-NP\nbarks B-VP\n\n"
    narrow = run("tag", model, "--format", "text", stdin="the dog\n")
    assert narrow.status == 2 and "each token needs at least 2 columns, but <stdin> has 1" in narrow.err


def test_other_label_columns(files, run):
    (files / "first.txt").write_text("B-NP the\nI-NP dog\n\nO go\n", encoding="utf-8")
    options = ("--label-column", "0", "--template")
    wrong = run("train", files / "first.txt", "-o", files / "f.model", *options, "words")
    assert wrong.status == 2 and "holds the labels to be learnt" in wrong.err
    (files / "t.txt").write_text("U:%x[0,1]\nB\n", encoding="utf-8")
    assert run("train", files / "first.txt", "-o", files / "f.model", *options, files / "t.txt", "-q").status == 0
    assert run("tag", files / "f.model", files / "first.txt").out == "B-NP the B-NP\nI-NP dog I-NP\n\nO go O\n"


def test_partial_labels_weights_and_gazetteers(files, run):
    (files / "partial.txt").write_text(
        TRAIN.replace("barks V B-VP", "barks V *").replace("dog N I-NP", "dog N I-NP|O"), "utf-8"
    )
    (files / "weights.txt").write_text("1\n2\n0.5\n", encoding="utf-8")
    (files / "animals.txt").write_text("dog\ncat\n", encoding="utf-8")
    result = run(
        "train", files / "partial.txt", "-o", files / "p.model", "--partial", "--weights", files / "weights.txt",
        "--gazetteer", files / "animals.txt", "--template", "ner",
    )  # fmt: skip
    assert result.status == 0, result.err
    assert "4 labels" in result.err
    assert "animals" in run("inspect", files / "p.model", "--json").out
    (files / "weights.txt").write_text("1\ntwo\n", encoding="utf-8")
    wrong = run("train", files / "partial.txt", "-o", files / "p.model", "--weights", files / "weights.txt")
    assert wrong.status == 2 and "weights.txt:2: 'two' is not a number" in wrong.err


@pytest.mark.parametrize("em", ["hard", "soft"])
def test_hidden_labels_in_rounds(files, run, em):
    lines = TRAIN.splitlines()
    partly = [line.rpartition(" ")[0] + " *" if line and i % 5 == 1 else line for i, line in enumerate(lines)]
    (files / "partial.txt").write_text("\n".join(partly) + "\n")
    arguments = ("train", files / "partial.txt", "-o", files / "p.model", "--partial", "--template", "chunking")
    result = run(*arguments, "--criterion", f"m-estimation:em={em},rounds=2", "--variance", "1")
    assert result.status == 0 and "objective by round" in result.err
    assert run("tag", files / "p.model", files / "train.txt").status == 0
    wrong = run(*arguments, "--criterion", "m-estimation:em=firm")
    assert wrong.status == 2 and "em='firm'" in wrong.err and "hard, soft" in wrong.err


def test_partial_dev_labels_are_passed_over(files, run):
    (files / "dev.txt").write_text(TRAIN.replace("barks V B-VP", "barks V *"), encoding="utf-8")
    options = ("--template", "chunking", "--l2", "0.01", "--partial", "--dev", files / "dev.txt")
    result = run("train", files / "train.txt", "-o", files / "p.model", *options)
    assert result.status == 0 and "dev score  100.00" in result.err


def test_inspect(model, run):
    text = run("inspect", model, "--top", "50").out
    for part in ("4 labels", "attributes", "B-NP", "U12:D", "-> I-NP"):
        assert part in text
    facts = json.loads(run("inspect", model, "--json").out)
    assert facts["labels"] == 4 and facts["features"]["transition"] == len(facts["transitions"])
    assert len(facts["states"]) == facts["features"]["state"]
    assert "U00:%x[-2,0]" in facts["template"]
    only = json.loads(run("inspect", model, "--json", "--label", "O").out)
    assert {state["label"] for state in only["states"]} == {"O"}
    assert run("inspect", model, "--label", "X").status == 2


def test_warm_start_and_resume(files, model, run):
    options = ("train", files / "train.txt", "--template", "chunking", "-o")
    assert run(*options, files / "warm.model", "--init", model).status == 0
    anew = run(*options, files / "anew.model", "--resume")
    assert anew.status == 0 and "starting from scratch" in anew.err
    assert not (files / "anew.model.checkpoint").exists()


def test_template_and_corpus_print(run):
    assert run("template", "chunking").out.count("%x[") == 31
    assert run("template", "nonsense").status == 2
    bundled = run("corpus", "dev", "--task", "ner").out
    assert len(bundled.splitlines()[0].split()) == 3
    generated = run("corpus", "--generate", "3", "--seed", "5", "--task", "pos").out
    assert generated == run("corpus", "--generate", "3", "--seed", "5", "--task", "pos").out
    assert generated.count("\n\n") == 3
    assert run("corpus", "nonsense").status == 2
    assert run("corpus", "--task", "nonsense").status == 2


def test_demo(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    result = run("demo")
    assert result.status == 0
    assert "FB1" in result.out and "Try next" in result.err and (tmp_path / "demo" / "chunk.model").exists()


# -- wrong turns -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "no tokens"),
        (b"the D B-NP\ndog N\n", ":2: "),
        (b"the D B-NP\n\xff N O\n", ":2: invalid UTF-8"),
        (b"the D B-NP\nd\0g N O\n", ":2: a NUL byte"),
        (b"the\ndog\n", "only one column"),
    ],
)
def test_bad_files_are_named_with_their_line(files, run, content, says):
    (files / "bad.txt").write_bytes(content)
    result = run("train", files / "bad.txt", "-o", files / "bad.model", "--template", "words")
    assert result.status == 2
    assert "bad.txt" in result.err and says in result.err and "Traceback" not in result.err
    assert not (files / "bad.model").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["train", "absent.txt", "-o", "m"], "absent.txt: "),
        (["train", "train.txt", "-o", "no/such/folder/m"], "no folder"),
        (["train", "train.txt", "-o", "m", "--template", "absent"], "no such template file; the named sets are"),
        (["train", "train.txt", "-o", "m", "--criterion", "crf"], "criterion='crf' is not known"),
        (["train", "train.txt", "-o", "m", "--order", "4"], "order=4"),
        (["train", "train.txt", "-o", "m", "--l2", "1", "--variance", "2"], "twice"),
        (
            ["train", "train.txt", "-o", "m", "--constraints", "bilou"],
            "train.txt:3: the label here breaks the constraints",
        ),
        (["train", "train.txt", "-o", "m", "--label-column", "7"], "no column 7"),
        (["train", "train.txt", "-o", "m", "--dev", "train.txt", "--dev-split", "0.5"], "give one"),
        (["train", "train.txt", "-o", "m", "--dev-split", "0.01"], "leaves no sentence"),
        (["train", "train.txt", "-o", "m", "--init", "train.txt"], "not a loglinear model"),
        (["train", "train.txt", "-o", "m", "--gazetteer", "absent.txt"], "absent.txt"),
        (["train", "train.txt", "-o", "m", "--format", "xml"], "xml"),
        (["train", "train.txt", "-o", "-"], "not to standard output"),
        (["train", "train.txt", "-o", "m", "--metric", "f1"], "need dev data"),
        (["train", "train.txt", "-o", "m", "--patience", "3"], "need dev data"),
        (["train", "train.txt", "-o", "m", "--dev-split", "0"], "leaves no sentence"),
        (["train", "train.txt", "-o", "m", "--dev", "pos.txt"], "none of the dev data's labels"),
        (["train", "train.txt", "-o", "m", "--template", "u.txt", "--order", "2"], "has no B line"),
        (["train", "train.txt", "-o", "m", "--template", "u.txt", "--transitions", "all"], "has no B line"),
        (["train", "train.txt", "-o", "m", "--template", "u.txt", "--gazetteer", "train.txt"], "does not look at the"),
        (["train", "train.txt", "-o", "m", "--format", "crfsuite"], "no token has a feature"),
        (["train", "train.txt", "-o", "m", "--weights", "latin1.txt"], "latin1.txt: the weights are not valid UTF-8"),
        (["tag", "m.model", "train.txt", "--label-column", "1"], "goes with --force"),
        (["eval", "train.txt", "--model", "m.model", "--pred-column", "0"], "not with --model"),
        (["corpus", "train", "--generate", "3"], "give one"),
        (["corpus", "--seed", "3"], "goes with --generate"),
        (["tag", "absent.model", "train.txt"], "absent.model does not exist"),
        (["tag", "train.txt", "train.txt"], "not a loglinear model"),
        (["tag", "m.model", "train.txt", "--nbest", "2", "--marginals"], "leave out --marginals and --decoding"),
        (["tag", "m.model", "train.txt", "--decoding", "best"], "viterbi, posterior, min-risk"),
        (["tag", "m.model", "train.txt", "-o", "no/such/folder/x"], "no/such/folder/x"),
        (["eval", "train.txt", "--pred", "other.txt"], "sentence 1 has 3 tokens, but 1"),
        (["eval", "train.txt", "--pred", "m.model"], "m.model"),
        (["eval", "train.txt", "--metric", "bleu"], "auto, chunks, labels"),
        (["eval", "train.txt", "--gold-column", "9"], "no column 9"),
    ],
)
def test_mistakes_get_one_line_and_status_2(files, model, run, monkeypatch, arguments, says):
    monkeypatch.chdir(files)
    (files / "other.txt").write_text("the D B-NP\n\ndog N O\n", encoding="utf-8")
    (files / "pos.txt").write_text("the D DET\ndog N NOUN\n", encoding="utf-8")
    (files / "latin1.txt").write_bytes(b"1\n\xe9\n")
    (files / "u.txt").write_text("U:%x[0,0]\n", encoding="utf-8")
    result = run(*arguments)
    assert result.status == 2
    assert says in result.err.replace("\n", " ") and "Traceback" not in result.err
    assert len(result.err.strip().splitlines()) <= 2
    assert not (files / "m").exists()


def test_a_forced_label_that_cannot_be_is_named_with_its_line(files, run):
    options = ("--template", "chunking", "--constraints", "bio", "-q")
    assert run("train", files / "train.txt", "-o", files / "b.model", *options).status == 0
    result = run("tag", files / "b.model", "--force", stdin="the D B-NP\n\ndog N I-NP\n")
    assert result.status == 2 and "<stdin>:3: the model's constraints and the labels given leave no" in result.err
    result = run("tag", files / "b.model", "--force", stdin="the D\n")
    assert result.status == 2 and "--force takes labels from column 1" in result.err


TREES = "1\tthe\t_\tX\tDT\t_\t2\tdet\t_\t_\n2\tdog\t_\tX\tNN\t_\t3\tsubj\t_\t_\n3\tran\t_\tX\tVB\t_\t0\troot\t_\t_\n\n"
TABLE = "kind,size,text\n" + "good,1,nice food\nbad,2,cold food\ngood,3,nice and cold\n" * 200
TRAININGS = {
    "train": ("big.txt", TRAIN * 300, ["train", "--order", "2", "--l2", "1e-6"]),
    "classify": ("big.csv", TABLE, ["classify", "train", "--label", "kind", "--optimizer", "sgd:step=0.001"]),
    "parse": (
        "big.conllu",
        TREES * 300,
        ["parse", "train", "--criterion", "cll", "--l2", "1e-6"],
    ),
}
WEIGHTS = {
    "train": lambda path: Tagger.load(path).model_.weights,
    "classify": lambda path: Classifier.load(path).coef_,
    "parse": lambda path: DependencyParser.load(path).model_.weights,
}


@pytest.mark.parametrize("verb", TRAININGS)
def test_an_unfinished_training_is_not_overwritten(files, run, verb):
    name, text, command = TRAININGS[verb]
    (files / name).write_text(text, encoding="utf-8")
    (files / "m.model.checkpoint").write_text("something")
    result = run(*command, files / name, "-o", files / "m.model")
    assert result.status == 2 and "continue it with --resume" in result.err
    assert (files / "m.model.checkpoint").read_text() == "something"


@pytest.mark.parametrize("verb", TRAININGS)
def test_an_interrupted_training_says_how_to_go_on(files, verb):
    name, text, command = TRAININGS[verb]
    (files / name).write_text(text, encoding="utf-8")
    endless = ("--optimizer", "sgd") if verb == "train" else ()  # L-BFGS is at its minimum in a moment
    arguments = (*command, files / name, "-o", files / "i.model", "--tolerance", "0", *endless)
    process = subprocess.Popen(
        [sys.executable, "-m", "loglinear", *map(str, arguments), "--checkpoint-seconds", "0", "--max-iter", "100000"],
        stderr=subprocess.PIPE,
        text=True,
    )
    checkpoint = files / "i.model.checkpoint"
    for _ in range(6000):
        if checkpoint.exists() or process.poll() is not None:
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=60)[1]
    assert process.returncode == 130, err
    assert "training interrupted after iteration" in err and "--resume" in err and "Traceback" not in err
    assert checkpoint.exists() and not (files / "i.model").exists()


@pytest.mark.parametrize("verb", TRAININGS)
def test_a_resumed_training_ends_with_the_weights_of_one_that_was_not_interrupted(files, run, verb, monkeypatch):
    name, text, command = TRAININGS[verb]
    (files / name).write_text(text, encoding="utf-8")
    arguments = (*command, files / name, "--max-iter", "12", "--tolerance", "0")
    assert run(*arguments, "-o", files / "whole.model").status == 0
    with monkeypatch.context() as patched:
        stop = lambda display, progress: progress.iteration == 4 and signal.raise_signal(signal.SIGINT)  # noqa: E731
        patched.setattr(TrainingDisplay, "observe", stop)
        stopped = run(*arguments, "-o", files / "again.model")
    assert stopped.status == 130 and "after iteration 4" in stopped.err
    resumed = run(*arguments, "-o", files / "again.model", "--resume")
    assert resumed.status == 0 and f"resuming from {files / 'again.model.checkpoint'}" in resumed.err
    assert not (files / "again.model.checkpoint").exists()
    whole, again = (WEIGHTS[verb](files / f"{model}.model") for model in ("whole", "again"))
    assert np.array_equal(whole, again)


@pytest.mark.parametrize("verb", ["classify"])
def test_a_model_to_start_from_is_taken_by_other_verbs_too(files, run, verb):
    name, text, command = TRAININGS[verb]
    (files / name).write_text(text, encoding="utf-8")
    assert run(*command, files / name, "-o", files / "first.model").status == 0
    started = run(*command, files / name, "-o", files / "second.model", "--init", files / "first.model")
    assert started.status == 0 and "next " in started.err


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        (("template", "ner"), "loglinear.features.templates.sets.template_text"),
        (("data", "list"), "loglinear.data.corpora.download.corpora_cache"),
    ],
)
@pytest.mark.parametrize("message", ["", "training interrupted"])
def test_ctrl_c_is_said_whatever_the_verb(run, monkeypatch, arguments, where, message):
    def interrupt(*_):
        raise KeyboardInterrupt(*filter(None, [message]))

    monkeypatch.setattr(where, interrupt)
    result = run(*arguments)
    assert (result.status, result.err) == (130, f"loglinear: {message or 'interrupted'}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect", "{model}", "--top", "1"),
        ("inspect", "{model}", "--json"),
        ("criteria",),
        ("tune", "{train}", "--dev", "{train}", "--template", "words", "--grid", "l2=0.1,1"),
        ("tag", "{model}", "{train}"),
    ],
)
def test_a_closed_pipe_ends_every_verb_quietly(files, model, arguments):
    named = [argument.format(model=model, train=files / "train.txt") for argument in arguments]
    reader, writer = os.pipe()
    os.close(reader)  # like head, once it has read enough
    streams = {"stdout": writer, "stderr": writer if arguments[0] == "tune" else subprocess.PIPE}
    result = subprocess.run([sys.executable, "-m", "loglinear", *named], **streams, text=True, timeout=120)
    os.close(writer)
    messages_alone = arguments[0] == "tune"  # which are lost, and the work is done
    assert result.returncode == (0 if messages_alone else 141) and not result.stderr


def test_old_spellings_are_warned_of(files, run):
    result = run("train", files / "train.txt", "-o", files / "old.model", "--criterion", "nota:decoding=local")
    assert result.status == 0 and "loglinear: warning: criterion='nota:decoding=local' is an old spelling" in result.err


@pytest.mark.parametrize("content", ["", "nothing", "half"])
def test_a_damaged_checkpoint_can_be_deleted(files, model, run, content):
    checkpoint = files / "d.model.checkpoint"
    checkpoint.write_bytes(model.read_bytes()[:900] if content == "half" else content.encode())
    result = run("train", files / "train.txt", "-o", files / "d.model", "--resume")
    assert result.status == 2 and result.err.endswith(f"; delete {checkpoint} to start again\n")
    assert "train again" not in result.err


def test_a_closed_pipe_is_no_error(files, model):
    command = f"{sys.executable} -m loglinear tag {model} {files / 'big.txt'} | head -n 1"
    (files / "big.txt").write_text(TRAIN * 5000, encoding="utf-8")
    result = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=120)
    assert result.stdout == "the D B-NP B-NP\n"
    assert "Traceback" not in result.stderr and "Exception" not in result.stderr


@pytest.mark.parametrize(
    "code",
    [
        "import loglinear",
        "import loglinear.cli",
        "from loglinear.cli import app; app(['--help'], standalone_mode=False)",
        "from loglinear.cli import app; app(['train', '--help'], standalone_mode=False)",
    ],
)
def test_starting_up_imports_neither_numba_nor_scikit_learn(code):
    check = "import sys; print({'numba', 'sklearn', 'scipy'} & set(sys.modules), file=sys.stderr)"
    result = subprocess.run([sys.executable, "-c", f"{code}\n{check}"], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert result.stderr.strip().splitlines()[-1] == "set()"


@pytest.mark.parametrize("verb", ["train", "tag", "eval", "inspect", "demo", "criteria", "template", "corpus"])
def test_every_verb_has_help_with_examples(run, verb):
    result = run(verb, "--help")
    assert result.status == 0 and "Examples" in result.out and f"loglinear {verb}" in result.out


def test_prune_writes_a_smaller_model_and_says_what_is_lost(run, files):
    run("train", files / "train.txt", "-o", files / "m", "--max-iter", 20)
    pruned = run("prune", files / "m", "-o", files / "small", "--share", 0.5, "--test", files / "train.txt")
    assert pruned.status == 0 and "labels differ" in pruned.err
    assert (files / "small").stat().st_size < (files / "m").stat().st_size
    lean = run("prune", files / "m", "-o", files / "lean", "--precision", "float16")
    assert "before" in lean.err and (files / "lean").stat().st_size < (files / "m").stat().st_size
    nothing = run("prune", files / "m", "-o", files / "x")
    assert nothing.status == 2 and "--share" in nothing.err
    trained = run(
        "train", files / "train.txt", "-o", files / "p", "--max-iter", 20, "--prune", 0.5, "--precision", "float16",
        "--dev", files / "train.txt",
    )  # fmt: skip
    assert trained.status == 0 and "pruned " in trained.err and " of " in trained.err


def test_a_table_given_as_sequences_and_the_reverse_name_the_other_verb(files, run):
    (files / "t.csv").write_text("a,b,label\n1,x,yes\n2,y,no\n", encoding="utf-8")
    (files / "t.jsonl").write_text('{"a": 1, "label": "x"}\n', encoding="utf-8")
    for table in ("t.csv", "t.jsonl"):
        told = run("train", files / table, "-o", files / "m.model")
        assert told.status == 2 and "loglinear classify takes it" in told.err
    told = run("classify", "train", files / "train.txt", "--label", "label", "-o", files / "m.model")
    assert told.status == 2 and "loglinear train takes the file" in told.err
    assert run("train", files / "train.txt", "-o", files / "m.model", "--max-iter", 3).status == 0
    (files / "words.csv").write_text("the\n,\n\n", encoding="utf-8")  # no table: a word and a comma
    assert "loglinear classify" not in run("tag", files / "m.model", files / "words.csv").err


def test_a_criterion_beside_a_classifier_is_refused_even_if_it_is_the_default(files, run):
    given = ("train", files / "train.txt", "-o", files / "m.model", "--classifier", "LinearSVC", "--criterion", "cll")
    told = run(*given)
    assert told.status == 2 and "--criterion: not with --classifier" in told.err


def test_counts_of_one_are_in_the_singular(files, run):
    (files / "one.txt").write_text("the D B-NP\n\n", encoding="utf-8")
    told = run("train", files / "one.txt", "-o", files / "m.model", "--template", "words")
    assert told.status == 0 and "1 sentence, 1 token, 1 label\n" in told.err
