"""The commands of CRF++, Wapiti and CRFsuite."""

import re

import pytest

import loglinear
from loglinear.compat import crf_learn, crf_test, crfsuite, wapiti
from loglinear.compat.commands import Arguments
from loglinear.errors import OptionError

pycrfsuite = pytest.importorskip("pycrfsuite")
COLUMNS = "the D B\ndog N I\n# # O\n\ncats N B\n-DOCSTART- X O\nruns V O\n\n" * 4
ATTRIBUTES = "B\tw=the\tlen:3\nI\tw=dog\nO\n\nB\tw=cats\tw=cats\nO\tw=runs\tx:-0.5\n\n" * 4


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.txt").write_text(COLUMNS)
    (tmp_path / "train.tsv").write_text(ATTRIBUTES)
    (tmp_path / "template").write_text("# words\nU0:%x[0,0]\nU1:%x[-1,1]/%x[0,1]\nB\n")
    (tmp_path / "pattern").write_text('u:w=%x[0,0] # the word\nU:t=%t[0,0,"^[a-z]"]\n*\nb:%x[0,1]\n')
    return tmp_path


def output(capsys) -> str:
    return capsys.readouterr().out


@pytest.mark.parametrize(("algorithm", "options"), [("CRF-L2", {"l2": 0.25}), ("CRF-L1", {"l1": 0.5, "l2": 0.0})])
def test_crf_learn_finds_crfpps_minimum_and_crf_test_labels(folder, capsys, algorithm, options):
    model = folder / "m"
    files = [str(folder / name) for name in ("template", "train.txt")]
    assert crf_learn.main(["-a", algorithm, "-c2", "--eta=1e-9", *files, str(model)]) == 0
    objective = float(re.findall(r"obj=(\S+)", output(capsys))[-1])
    corpus = loglinear.read_columns(folder / "train.txt", comments="none", docstart=False)
    own = loglinear.Tagger(template=(folder / "template").read_text(), states="all", transitions="all", tolerance=1e-9)
    assert objective == pytest.approx(own.set_params(**options).fit(corpus).objective_, rel=1e-4)
    assert crf_test.main(["-m", str(model), files[1]]) == 0
    rows = [line.split("\t") for line in output(capsys).split("\n")]
    assert ["-DOCSTART-", "X", "O", "O"] in rows and ["#", "#", "O", "O"] in rows
    assert rows.count([""]) == 8 + 1
    assert crf_test.main(["-n", "2", "-v1", "-m", str(model), files[1]]) == 0
    shown = output(capsys)
    assert re.match(r"# 0 0\.\d{6}\nthe\tD\tB\tB/[01]\.\d{6}\n", shown) and "\n# 1 0." in shown


@pytest.mark.parametrize("type_", ["crf", "memm", "maxent"])
def test_wapiti_trains_labels_and_dumps(folder, capsys, type_):
    model, train = str(folder / "m"), str(folder / "train.txt")
    how = ["-T", type_, "-p", str(folder / "pattern"), "-1", "0.01", "-2", "0.02", "-i", "60", "--histsz", "3"]
    assert wapiti.main(["train", *how, train, model]) == 0
    told = capsys.readouterr().err
    assert "--histsz has no effect" in told and "obj=" in told
    assert wapiti.main(["label", "-m", model, "-c", "-s", "-p", train]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("# 0 ") and "Token error" in shown.err
    labels = [line.split("\t")[1] for line in shown.out.split("\n") if "\t" in line]
    assert labels == [line.split()[-1] for line in COLUMNS.split("\n") if line]
    assert wapiti.main(["label", "-l", "-m", model, train, str(folder / "out")]) == 0
    assert (folder / "out").read_text().split() == labels
    assert wapiti.main(["dump", "-p", "3", model]) == 0
    lines = [line.split("\t") for line in output(capsys).splitlines()]
    assert all(len(line) == 4 and re.fullmatch(r"-?\d+\.\d{3}", line[3]) for line in lines)
    assert any(line[0] == "*" and line[1] != "#" for line in lines) == (type_ != "maxent")


def test_crfsuite_learns_tags_and_dumps_as_crfsuite(folder, capsys, tmp_path):
    model, data = str(folder / "m.crfsuite"), str(folder / "train.tsv")
    assert crfsuite.main(["learn", "-m", model, "-p", "c2=0.5", "-g", "2", "-e", "2", data]) == 0
    log = output(capsys)
    assert "type: CRF1d\n" in log and "c2: 0.500000\n" in log and "Holdout group: 2\n" in log
    theirs = pycrfsuite.Tagger()
    theirs.open(model)
    assert crfsuite.main(["tag", "-tpir", "-m", model, data]) == 0
    shown = output(capsys)
    x = [{"w=the": 1.0, "len": 3.0}, {"w=dog": 1.0}, {}]
    y = theirs.tag(x)
    expected = [f"@probability\t{theirs.probability(y):.6f}"]
    expected += [
        f"{gold}\t{label}:{theirs.marginal(label, t):.6f}" for t, (gold, label) in enumerate(zip("BIO", y, strict=True))
    ]
    assert shown.split("\n")[:4] == expected
    assert "Item accuracy: " in shown and "Instance accuracy: " in shown
    assert crfsuite.main(["dump", model]) == 0
    theirs.dump(str(tmp_path / "dump"))
    assert output(capsys) == (tmp_path / "dump").read_text()
    assert crfsuite.main(["learn", "-p", "nothing=1", data]) == 1
    assert "-p nothing=1" in capsys.readouterr().err


def test_arguments_are_read_as_the_tools_read_them():
    given = Arguments(["-c2", "--cost=3", "-tx", "a", "--", "-b"], switches="tx")
    assert given.texts("-c", "--cost") == ["2", "3"]
    assert (given.switch("-t"), given.switch("-x"), given.switch("-q")) == (True, True, False)
    assert given.rest(at_least=2) == ["a", "-b"]
    for words, use in (
        (["-c"], lambda a: a.text("-c")),
        (["-f", "x"], lambda a: a.number("-f")),
        (["-f", "0"], lambda a: a.number("-f", least=1)),
        (["-e", "nan"], lambda a: a.real("-e")),
        (["--what"], lambda a: a.rest()),
        ([], lambda a: a.rest(at_least=1)),
    ):
        with pytest.raises(OptionError):
            use(Arguments(words))


@pytest.mark.parametrize("main", [crf_learn.main, crf_test.main, wapiti.main, crfsuite.main])
def test_mistakes_are_one_line_and_status_1(folder, capsys, main):
    assert main(["-h"]) == 0
    assert "--model" in capsys.readouterr().err or main is crf_learn.main
    mode = {wapiti.main: ["label"], crfsuite.main: ["tag"]}.get(main, [])
    assert main([*mode, "-m", "1", "missing1", "missing2", "missing3"]) == 1
    assert main([*mode, "--no-such-option"]) == 1
    assert len(capsys.readouterr().err.strip().split("\n")) == 2


def test_nothing_that_is_read_is_overwritten(folder, capsys):
    train = str(folder / "train.txt")
    assert crf_learn.main([str(folder / "template"), train, train]) == 1
    assert crfsuite.main(["learn", "-m", str(folder / "train.tsv"), str(folder / "train.tsv")]) == 1
    assert wapiti.main(["train", "-p", str(folder / "pattern"), train, train]) == 1
    assert capsys.readouterr().err.count("would be overwritten") == 3
    assert (folder / "train.txt").read_text() == COLUMNS


def test_a_model_without_a_place_is_refused_before_anything_is_trained(folder, capsys):
    nowhere = str(folder / "no" / "model")
    assert crf_learn.main([str(folder / "template"), str(folder / "train.txt"), nowhere]) == 1
    assert crfsuite.main(["learn", "-m", nowhere, str(folder / "train.tsv")]) == 1
    assert wapiti.main(["train", "-p", str(folder / "pattern"), str(folder / "train.txt"), nowhere]) == 1
    said = capsys.readouterr()
    assert said.err.count(f"{nowhere}: there is no folder") == 3 and said.err.count("\n") == 3 and not said.out
