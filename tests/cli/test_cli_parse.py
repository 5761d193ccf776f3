"""Parsing on the command line."""

import json
import os
import signal
from pathlib import Path

import pytest

from loglinear.data.trees.tree import parse_trees
from loglinear.training.run import TrainingInterrupted

DATA = Path(os.environ.get("LOGLINEAR_DATA", Path(__file__).parents[2] / ".." / "shared" / "data"))


@pytest.fixture(scope="module")
def treebank(tmp_path_factory):
    from loglinear.data.corpora.bundled import bundled_trees

    folder = tmp_path_factory.mktemp("trees")
    for split in ("train", "dev"):
        text = "".join(f"{tree}\n" for tree in bundled_trees(split, entities=False))
        (folder / f"{split}.mrg").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def parse_model(treebank):
    from loglinear import Parser, read_treebank

    path = treebank / "p.model"
    Parser().fit(read_treebank(treebank / "train.mrg")).save(path)
    return path


def test_train_says_what_it_made(treebank, parse_model, run):
    result = run("parse", "train", treebank / "train.mrg", "-o", treebank / "new.model")
    assert (result.status, result.out) == (0, "")
    for word in ("data ", "262 trees", "features ", "binary rules", "training ", "model ", "next "):
        assert word in result.err
    assert (treebank / "new.model").stat().st_size == pytest.approx(parse_model.stat().st_size, rel=0.01)
    quiet = run("parse", "train", treebank / "train.mrg", "-o", treebank / "q.model", "-q", "--vertical", "2")
    assert (quiet.status, quiet.out, quiet.err) == (0, "", "")


def test_train_says_how_many_trees_are_too_long(treebank, run):
    lengths = [len(t.leaves()) for t in parse_trees((treebank / "train.mrg").read_text(encoding="utf-8"))]
    for most in (8, 1000):
        longer = sum(length > most for length in lengths)
        result = run("parse", "train", treebank / "train.mrg", "-o", treebank / "short.model", "--max-length", most)
        assert f"data       {len(lengths) - longer} trees, " in result.err
        assert f"labels; {longer} trees longer than {most:,} left out\n" in result.err


def test_train_by_em_takes_trees_and_sentences(treebank, run):
    path, model = treebank / "some.txt", treebank / "em.model"
    lines = (treebank / "train.mrg").read_text(encoding="utf-8").splitlines()[:40]
    raw = [" ".join(tree.leaves()) for tree in parse_trees("\n".join(lines[:10]))]
    path.write_text("\n".join([*lines, *raw]), encoding="utf-8")
    options = ("--criterion", "pcfg-em", "--max-iter", "3", "--max-length", "15", "--dev", treebank / "dev.mrg")
    result = run("parse", "train", path, "-o", model, *options)
    assert result.status == 0 and not model.with_name("em.model.checkpoint").exists()
    for word in (" sentences, ", " with brackets; stopped after 3 rounds", "dev score", " longer than 15 left out"):
        assert word in result.err
    assert run("parse", "run", model, stdin="The council approved it .\n").out.startswith("(ROOT (S ")
    path.write_text("\n".join(raw), encoding="utf-8")
    refused = run("parse", "train", path, "-o", model, "--criterion", "pcfg-em")
    assert refused.status != 0 and "give some, or start=random" in refused.err
    options = ("--criterion", "pcfg-em:start=random", "--max-iter", "2", "--dev", path)
    induced = run("parse", "train", path, "-o", model, *options)
    assert induced.status == 0 and "0 with brackets" in induced.err


def test_train_by_em_takes_raw_sentences_and_sentences_with_brackets(tmp_path, run):
    """What the files say is what ``fit`` is given; the model file is the same to the last byte."""
    from loglinear import Parser

    trees = ["(ROOT (S (N a) (V b)))", "(ROOT (S (S (N a) (V b)) (S (N a) (V c))))"]
    (tmp_path / "t.mrg").write_text("\n".join(trees), encoding="utf-8")
    (tmp_path / "raw.txt").write_text("a b a c\n\na c a c a b\n", encoding="utf-8")
    (tmp_path / "some.txt").write_text("((a b) a c) a b\n a  c \n", encoding="utf-8")
    files = ("--raw", tmp_path / "raw.txt", "--brackets", tmp_path / "some.txt")
    result = run("parse", "train", tmp_path / "t.mrg", *files, "-o", tmp_path / "em.model", "--max-iter", "3")
    assert result.status == 0 and "6 sentences, 3 with brackets; converged after 2 rounds" in result.err
    X = [*trees, "a b a c", "a c a c a b", "a b a c a b", "a c"]
    known = [None, None, None, None, [(0, 2), (0, 4)], []]
    Parser("pcfg-em", max_iter=3).fit(X, known).save(tmp_path / "python.model")
    assert (tmp_path / "em.model").read_bytes() == (tmp_path / "python.model").read_bytes()
    options = ("-o", tmp_path / "new.model", "--max-iter", "3")
    induced = run("parse", "train", *files, *options, "--criterion", "pcfg-em:start=random,phrases=2,tags=2")
    assert induced.status == 0 and "4 sentences, 1 with brackets" in induced.err
    again = run("parse", "train", "--raw", tmp_path / "raw.txt", *options, "--init", tmp_path / "em.model")
    assert again.status == 0 and "2 sentences, 0 with brackets" in again.err
    for arguments, says in (
        (("--raw", tmp_path / "raw.txt"), "there is no tree whose grammar EM could start from"),
        ((tmp_path / "t.mrg", *files, "--criterion", "cll"), "--raw and --brackets: criterion='cll' learns from trees"),
        ((), "give what to learn from: TREES or, for EM, sentences by --raw or --brackets"),
    ):
        refused = run("parse", "train", *arguments, "-o", tmp_path / "no.model")
        assert refused.status == 2 and says in refused.err and refused.err.count("\n") == 1
    for line, says in (("a b) c", "closed that was not opened"), ("(a b", "not closed"), ("a () b", "no word in")):
        (tmp_path / "bad.txt").write_text(f"a b\n{line}\n", encoding="utf-8")
        refused = run("parse", "train", "--brackets", tmp_path / "bad.txt", "-o", tmp_path / "no.model")
        assert refused.status == 2 and f"{tmp_path / 'bad.txt'}:2: " in refused.err and says in refused.err


def test_run_writes_log_probabilities(parse_model, treebank, run):
    from loglinear import Parser

    parser, sentences = Parser.load(parse_model), ["The council approved it .", "", "It approved the plan ."]
    result = run("parse", "run", parse_model, "--log-prob", stdin="\n".join(sentences) + "\n")
    first, blank, last = result.out.splitlines()
    expected = parser.log_prob([sentences[0], sentences[2]])
    assert result.status == 0 and blank == "" and f"{expected[0]:.6f} {expected[1]:.6f}" == f"{first} {last}"
    assert f"10 words, perplexity {2.718281828459045 ** (-expected.sum() / 10):,.2f} a word" in result.err
    refused = run("parse", "run", parse_model, "--log-prob", "--beam", "3", stdin="a\n")
    assert refused.status == 2 and "leave out --beam" in refused.err
    trained = run("parse", "train", treebank / "train.mrg", "-o", treebank / "me.model", "--criterion", "mecfg",
                  "--max-iter", "1", "--max-length", "6")  # fmt: skip
    assert trained.status == 0
    refused = run("parse", "run", treebank / "me.model", "--log-prob", stdin="a\n")
    assert refused.status == 2 and "criterion='mecfg': it has no p(words)" in refused.err


def test_inspect_says_whether_a_grammar_is_tight(parse_model, treebank, run):
    from loglinear import Parser
    from loglinear.generative.pcfg.expectations import Expectations

    expected = Expectations(Parser.load(parse_model).model_)
    shown = run("inspect", parse_model)
    assert "density: tight=True, spectral_radius=" in shown.out + shown.err
    found = json.loads(run("inspect", parse_model, "--json").out)["density"]
    lengths = [len(t.leaves()) for t in parse_trees((treebank / "train.mrg").read_text(encoding="utf-8"))]
    assert found["mean_words"] == pytest.approx(sum(lengths) / len(lengths), abs=1e-3)
    assert found["spectral_radius"] == pytest.approx(expected.radius, abs=1e-6)


def test_train_by_em_names_the_line_of_a_sentence_that_it_leaves_out(tmp_path, run):
    (tmp_path / "some.txt").write_text("(ROOT (S (N a) (V b)))\n\na b\na b a\na a a\n", encoding="utf-8")
    arguments = ("-o", tmp_path / "em.model", "--criterion", "pcfg-em", "--max-iter", "2", "--max-length", "9")
    result = run("parse", "train", tmp_path / "some.txt", *arguments)
    assert result.status == 0 and result.err.count("warning") == 1
    assert f"left out, the first: {tmp_path / 'some.txt'}:4: 'a b a'; give more trees" in result.err
    assert "data       2 sentences" in result.err and "0 sentences longer than 9 left out" in result.err


def test_train_by_em_on_trees_of_single_words(tmp_path, run):
    (tmp_path / "single.mrg").write_text("(ROOT (NN a))\n(ROOT (UH b))\n", encoding="utf-8")
    result = run("parse", "train", tmp_path / "single.mrg", "-o", tmp_path / "x.model", "--criterion", "pcfg-em")
    assert result.status == 0 and "0 binary rules" in result.err


@pytest.mark.parametrize("criterion", ["pcfg", "pcfg-em", "cll", "mecfg"])
def test_equal_trainings_write_equal_files(treebank, run, criterion):
    paths = [treebank / f"{name}-{criterion}.model" for name in ("one", "two")]
    options = ("--criterion", criterion, "--max-length", "8")
    options += () if criterion == "pcfg" else ("--max-iter", "3")
    for path in paths:
        assert run("parse", "train", treebank / "train.mrg", "-o", path, *options).status == 0
    assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize("criterion", ["pcfg-em", "cll"])
def test_a_resumed_training_writes_the_file_of_one_that_was_never_stopped(treebank, criterion):
    from loglinear import Parser, read_treebank

    def stop_at(iteration):
        def observe(progress):
            if progress.iteration == iteration:
                os.kill(os.getpid(), signal.SIGINT)

        return observe

    trees, checkpoint = read_treebank(treebank / "train.mrg")[:30], treebank / f"{criterion}.checkpoint"
    parser = Parser(criterion, max_iter=5, max_length=8)
    straight = parser.fit(trees).to_bytes()
    with pytest.raises(TrainingInterrupted):
        parser.fit(trees, checkpoint=checkpoint, observe=stop_at(2))
    assert parser.fit(trees, checkpoint=checkpoint, resume=True).to_bytes() == straight
    assert parser.seconds_ > 0 and Parser.load(straight).seconds_ is None


def test_old_spellings_are_warned_of(treebank, run):
    old = ("--criterion", "cll:iterations=2,l2=1", "--max-length", "6")
    result = run("parse", "train", treebank / "train.mrg", "-o", treebank / "old.model", *old)
    assert result.status == 0
    assert "loglinear: warning: criterion='cll:iterations=2,l2=1' is an old spelling" in result.err


def test_run_writes_a_tree_a_line(parse_model, run):
    text = "The council approved the new bridge .\n\n( [ ] )\n   \nxyzzy plugh\n"
    result = run("parse", "run", parse_model, stdin=text)
    assert result.status == 0
    lines = result.out.split("\n")
    assert len(lines) == 6 and lines[1] == lines[3] == lines[5] == ""
    assert lines[0].startswith("(ROOT ") and "(NN council)" in lines[0]
    trees = list(parse_trees(result.out))
    assert [tree.leaves() for tree in trees][1:] == [["-LRB-", "-LSB-", "-RSB-", "-RRB-"], ["xyzzy", "plugh"]]


def test_run_writes_files_and_drawings(parse_model, treebank, run):
    (treebank / "in.txt").write_text("The council approved it .\n", encoding="utf-8")
    assert run("parse", "run", parse_model, treebank / "in.txt", "-o", treebank / "out.mrg").out == ""
    assert (treebank / "out.mrg").read_text(encoding="utf-8").startswith("(ROOT (S ")
    drawn = run("parse", "run", parse_model, treebank / "in.txt", "--draw").out
    assert "ROOT" in drawn.split("\n")[0] and "│" in drawn and "council" in drawn


def test_a_sentence_without_a_parse_is_flagged_in_the_output_and_on_the_console(parse_model, run):
    words = " ".join(["the"] * 200)
    result = run("parse", "run", parse_model, "--time-limit", "0.0001", stdin=f"\n{words}\n")
    assert result.status == 0 and result.out.startswith("\n(ROOT (NOPARSE (")
    said = "loglinear: <stdin>:2: no parse within 0.0001 seconds: used a fallback tree instead"
    assert said in result.err.splitlines()  # kernels may be compiled meanwhile, which is said, too


@pytest.mark.skipif(not (DATA / "hostile_trees").is_dir(), reason="no hostile_trees under LOGLINEAR_DATA")
def test_hostile_sentences(parse_model, run):
    path = DATA / "hostile_trees" / "sentences.txt"
    result = run("parse", "run", parse_model, path, "--time-limit", "30")
    assert result.status == 0
    given, answered = path.read_text(encoding="utf-8").splitlines(), result.out.splitlines()
    assert len(given) == len(answered)
    for words, tree in zip(given, answered, strict=True):
        assert len(words.split()) == (len(next(parse_trees(tree)).leaves()) if tree else 0)


KEYS = ["precision", "recall", "f1", "exact", "tags", "failures", "sentences_per_second"]


def test_eval_with_a_model(parse_model, treebank, run):
    result = run("parse", "eval", treebank / "dev.mrg", "--model", parse_model, "--json")
    report = json.loads(result.out)
    assert (result.status, list(report)) == (0, KEYS)
    assert 60 < report["f1"] <= 100 and report["sentences_per_second"] > 0
    shorter = json.loads(
        run("parse", "eval", treebank / "dev.mrg", "--model", parse_model, "--json", "--max-length", "8").out
    )
    assert shorter["f1"] != report["f1"]
    text = run("parse", "eval", treebank / "dev.mrg", "--model", parse_model).out
    assert f"F1 {report['f1']:.2f}" in text and "sentences a second" in text


def test_eval_with_predicted_trees(parse_model, treebank, run):
    gold = treebank / "dev.mrg"
    perfect = json.loads(run("parse", "eval", gold, "--pred", gold, "--json").out)
    assert perfect == dict.fromkeys(KEYS, 100.0) | {"failures": 0, "sentences_per_second": None}
    lines = gold.read_text(encoding="utf-8").split("\n")
    (treebank / "failed.mrg").write_text("\n".join(["(())", *lines[1:]]), encoding="utf-8")
    failed = json.loads(run("parse", "eval", gold, "--pred", treebank / "failed.mrg", "--json").out)
    assert failed["failures"] == 1 and failed["precision"] == 100 and failed["recall"] < 100
    sentences = "\n".join(" ".join(tree.leaves()) for tree in parse_trees(gold.read_text(encoding="utf-8")))
    (treebank / "answer.mrg").write_text(run("parse", "run", parse_model, stdin=sentences).out, encoding="utf-8")
    by_file = json.loads(run("parse", "eval", gold, "--pred", treebank / "answer.mrg", "--json").out)
    by_model = json.loads(run("parse", "eval", gold, "--model", parse_model, "--json").out)
    assert by_file | {"sentences_per_second": 0} == by_model | {"sentences_per_second": 0}


def test_eval_scores_a_label_of_the_treebank_that_looks_like_the_flag(tmp_path, run):
    trees = "(ROOT (NOPARSE (NP (DT the) (NN dog)) (VBD ran)))\n(ROOT (NOPARSE (DT the) (NN dog)))\n"
    (tmp_path / "own.mrg").write_text(trees, encoding="utf-8")
    assert run("parse", "train", tmp_path / "own.mrg", "-o", tmp_path / "own.model").status == 0
    report = json.loads(run("parse", "eval", tmp_path / "own.mrg", "--model", tmp_path / "own.model", "--json").out)
    assert (report["f1"], report["failures"]) == (100, 0)
    too_long = f"(ROOT (NOPARSE {'(DT the)' * 1001}))\n"  # more words than a chart may hold
    (tmp_path / "long.mrg").write_text(too_long, encoding="utf-8")
    failed = json.loads(run("parse", "eval", tmp_path / "long.mrg", "--model", tmp_path / "own.model", "--json").out)
    assert (failed["f1"], failed["failures"]) == (0, 1)


def test_draw(treebank, run):
    two = '(ROOT (S (NP (DT the) (NN "dog")) (VP (VBD ran))))\n(ROOT (NN <b>))\n'
    (treebank / "two.mrg").write_text(two, encoding="utf-8")
    drawn = run("parse", "draw", treebank / "two.mrg")
    assert drawn.status == 0 and "┴" in drawn.out and '"dog"' in drawn.out and "<b>" in drawn.out
    assert run("parse", "draw", treebank / "two.mrg", "--width", "5").out.startswith("ROOT\n└─ S\n")
    svg = run("parse", "draw", treebank / "two.mrg", "--tree", "2", "--svg", "-")
    assert svg.out.startswith("<svg ") and "&lt;b&gt;" in svg.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("eval", "{dev}"), "--model or --pred"),
        (("eval", "{dev}", "--pred", "{train}"), "trees, but"),
        (("eval", "{dev}", "--pred", "{dev}", "--max-length", "1"), "no sentence has at most 1"),
        (("eval", "x.conllu", "--pred", "y.conllu"), "x.conllu: cannot be read"),
        (("run", "{train}"), "not a loglinear model"),
        (("train", "{dev}", "-o", "{folder}"), "is a folder"),
        (("train", "{dev}", "-o", "{folder}/x.model", "--criterion", "magic"), "criterion='magic'"),
        (
            ("train", "{dev}", "-o", "{folder}/x.model", "--criterion", "passive-aggressive"),
            "it is not available for phrase trees; there are: ",
        ),
        (("train", "{dev}", "-o", "{folder}/x.model", "--criterion", "mecfg:places=foo"), "places='foo'"),
        (("train", "{dev}", "-o", "{folder}/x.model", "--horizontal", "some"), "--horizontal 'some'"),
        (("train", "{dev}", "-o", "{folder}/x.model", "--annotation", "rich", "--vertical", "2"), "vertical=2"),
        (("train", "missing.mrg", "-o", "{folder}/x.model"), "missing.mrg: cannot be read"),
        (("draw", "{dev}", "--svg", "-"), "choose one with --tree"),
        (("draw", "{dev}", "--tree", "5000"), "no tree 5000"),
    ],
)
def test_mistakes_are_one_line(treebank, run, arguments, says):
    places = {"dev": treebank / "dev.mrg", "train": treebank / "train.mrg", "folder": treebank}
    result = run("parse", *(argument.format(**places) for argument in arguments))
    assert result.status == 2 and result.err.count("\n") == 1 and says in result.err


def test_hostile_treebanks_are_one_line_with_the_place(treebank, run):
    (treebank / "bad.mrg").write_text("(ROOT (NN a))\n(ROOT (NN a b))\n", encoding="utf-8")
    result = run("parse", "train", treebank / "bad.mrg", "-o", treebank / "x.model")
    assert result.status == 2 and "bad.mrg:2: two words" in result.err
    (treebank / "empty.mrg").write_text("(ROOT (NP (NN a)))\n( )\n", encoding="utf-8")
    result = run("parse", "train", treebank / "empty.mrg", "-o", treebank / "x.model")
    assert (
        result.status == 0 and "warning" in result.err and "empty.mrg:2: a tree without words is left out" in result.err
    )


def test_conllu_by_another_name_is_told_how_to_be_read(treebank, run):
    (treebank / "dependencies.txt").write_text("# text = a\n1\ta\ta\tDET\tDT\t_\t0\troot\t_\t_\n\n", encoding="utf-8")
    result = run("parse", "train", treebank / "dependencies.txt", "-o", treebank / "x.model")
    assert result.status == 2 and "dependencies.txt:2: '1' stands" in result.err and "--dependencies" in result.err


def test_bundled_trees_can_be_trained_on(treebank, run):
    assert run("corpus", "dev", "--task", "trees").out == (treebank / "dev.mrg").read_text(encoding="utf-8")
    made = run("corpus", "--generate", "5", "--task", "trees").out
    assert len(list(parse_trees(made))) == 5


@pytest.mark.parametrize("verb", ["train", "run", "eval", "draw"])
def test_help_has_examples(run, verb):
    assert f"loglinear parse {verb}" in run("parse", verb, "--help").out


def test_help_speaks_of_parsers_and_of_what_can_be_typed(run):
    assert "entity recognisers, parsers and classifiers" in run("--help").out
    said = run("parse", "train", "--help").out
    assert "remembers, or all" in said and "if None" not in said


def test_out_of_memory_is_one_line_for_every_verb(parse_model, treebank, run, monkeypatch):
    from loglinear import Parser

    def exhausted(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr(Parser, "parse", exhausted)
    result = run("parse", "eval", treebank / "dev.mrg", "--model", parse_model)
    assert result.status == 1 and result.err.startswith("loglinear: out of memory: try fewer --threads, shorter")
    assert "--order" not in result.err and result.err.count("\n") == 1


def test_the_beam_is_an_option_of_parsing(treebank, parse_model, run):
    exact = run("parse", "eval", treebank / "dev.mrg", "--model", parse_model, "--beam", "exact")
    narrow = run("parse", "eval", treebank / "dev.mrg", "--model", parse_model, "--beam", "3")
    assert exact.status == narrow.status == 0
    assert "searched again" not in exact.out and "53, 0 without a parse" in exact.out
    assert " sentences had no tree within 3, and were searched again\n" in narrow.out
    assert "53, 0 without a parse" in narrow.out
    words = "The council approved the new bridge .\n"
    found = [run("parse", "run", parse_model, "--beam", beam, stdin=words) for beam in ("exact", "10", "0.01")]
    assert [each.status for each in found] == [0, 0, 0] and len({each.out for each in found}) == 1
    for wrong in ("0", "-1", "wide", "inf"):
        refused = run("parse", "run", parse_model, "--beam", wrong, stdin=words)
        assert refused.status != 0 and "--beam" in refused.err
    assert run("parse", "train", treebank / "dev.mrg", "-o", treebank / "x.model", "--beam", "3").status != 0


@pytest.mark.parametrize("em", ["hard", "soft"])
def test_train_by_m_estimation_takes_sentences_and_brackets(tmp_path, run, em):
    (tmp_path / "some.mrg").write_text("(S (NP (D the) (N dog)) (VP (V barks)))\n(S (NP (N dogs)) (VP (V bark)))\n" * 2)
    (tmp_path / "raw.txt").write_text("the dog barks\n")
    (tmp_path / "marked.txt").write_text("(the dogs) bark\n")
    arguments = ["parse", "train", tmp_path / "some.mrg", "-o", tmp_path / "m.model", "--annotation", "none"]
    arguments += ["--raw", tmp_path / "raw.txt", "--brackets", tmp_path / "marked.txt", "--variance", "1"]
    result = run(*arguments, "--criterion", f"m-estimation:em={em},places=first+last,rounds=2")
    assert result.status == 0, result.err
    assert "4 trees, 2 sentences without, none drawn" in result.err and "objective by round" in result.err
    assert "(NP (D the) (N dog))" in run("parse", "run", tmp_path / "m.model", stdin="the dog barks\n").out
    wrong = run(*arguments, "--criterion", "cll")
    assert wrong.status == 2 and "m-estimation learn from sentences, too" in wrong.err


@pytest.mark.parametrize("line", ["ROOT (S (N a) (V b)))", "a plain sentence ."])
def test_a_damaged_tree_is_no_sentence_to_learn_from(tmp_path, run, line):
    (tmp_path / "t.mrg").write_text(f"(ROOT (S (N a) (V b)))\n{line}\n", encoding="utf-8")
    result = run("parse", "train", tmp_path / "t.mrg", "-o", tmp_path / "m.model", "--criterion", "m-estimation")
    assert result.status == 2 and "t.mrg:2" in result.err and not (tmp_path / "m.model").exists()
