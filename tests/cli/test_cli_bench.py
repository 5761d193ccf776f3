"""``loglinear bench`` on a file of a few sentences."""

import json

import pytest

import loglinear.experiments.bench.plan as plan

TINY = (
    "--threads",
    "1",
    "--repeat",
    "1",
    "--ways",
    "cll/lbfgs",
    "--max-iter",
    "3",
    "--peer-iterations",
    "3",
    "--no-processes",
)


def test_own_file_json_markdown_and_resume(files, run):
    pytest.importorskip("pycrfsuite")
    data = (files / "train.txt", "--test", files / "train.txt", "--template", "chunking")
    out = ("--json", files / "b.json", "--markdown", files / "b.md")
    result = run("bench", *data, *TINY, *out)
    assert result.status == 0 and result.out == "", result.err
    for part in ("4 of 4  train: python-crfsuite lbfgs", "12 tokens, 4 labels", "file to model", "after 3 iterations"):
        assert part in result.err
    kept = json.loads((files / "b.json").read_text(encoding="utf-8"))
    assert len(kept["cells"]) == 4 and kept["tables"][0]["rows"][0]["name"] == "read and encode (s)"
    page = (files / "b.md").read_text(encoding="utf-8")
    assert page.startswith("`loglinear bench ") and "| read and encode (s) |" in page
    again = run("bench", *data, *TINY, *out, "--resume")
    assert again.status == 0 and " of 4" not in again.err and "file to model" in again.err
    assert list(json.loads((files / "b.json").read_text(encoding="utf-8"))["cells"]) == list(kept["cells"])


def test_without_python_crfsuite(files, run, monkeypatch):
    monkeypatch.setattr(plan, "peer_is_installed", lambda: False)
    result = run("bench", files / "train.txt", "--test", files / "train.txt", *TINY)
    assert result.status == 0 and "pip install python-crfsuite" in result.err
    assert "python-crfsuite lbfgs" not in result.err


def test_interrupted_it_keeps_what_it_has(files, run, monkeypatch):
    def stopped(self, before, observe):
        raise KeyboardInterrupt

    monkeypatch.setattr(plan.Benchmark, "run", stopped)
    result = run("bench", files / "train.txt", "--test", files / "train.txt", *TINY, "--json", files / "b.json")
    assert result.status == 130 and "continue with --resume" in result.err


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["--quick", "--full"], "opposite"), (["--resume"], "--json FILE"), (["--threads", "one"], "'one'"),
        (["--threads", "0"], "threads=0"), (["--algorithms", "sgd"], "'sgd'"), (["--criteria", "cl"], "'cl'"),
        (["--ways", "cll/newton"], "newton"), (["--sizes", "1e4,big"], "'big'"), (["--task", "chunks"], "'chunks'"),
        (["--test", "x"], "loglinear bench TRAIN"), (["x.txt"], "--test"), (["x.txt", "--test", "y.txt"], "x.txt"),
        (["--json", "nowhere/b.json"], "nowhere"), (["--task", "bundled", "--template", "none.txt"], "none.txt"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(options, part, run):
    result = run("bench", *options)
    assert result.status == 2 and part in result.err and len(result.err.splitlines()) == 1


def test_features_the_peer_cannot_have(files, run):
    pytest.importorskip("pycrfsuite")
    (files / "pairs.txt").write_text("U0:%x[0,0]\nB1:%x[0,0]\nB\n", encoding="utf-8")
    data = (files / "train.txt", "--test", files / "train.txt", "--template", files / "pairs.txt")
    assert "try --no-peer" in run("bench", *data, *TINY).err
    assert run("bench", *data, *TINY, "--no-peer").status == 0


def test_help_has_examples(run):
    result = run("bench", "--help")
    assert result.status == 0 and "loglinear bench train.txt --test test.txt" in result.out
