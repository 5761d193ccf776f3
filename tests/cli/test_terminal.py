"""Labels, words and paths of others in messages, tables and charts; closed streams and signals."""

import json
import os
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from loglinear.cli import common
from loglinear.experiments.charts import Line, line_chart, table_chart
from loglinear.experiments.tables import Table, markdown
from problems.corpus import TRAIN

HOSTILE = "\x1b]0;x\x07\u202e$[/b][red]:bomb:"
SHOWN = r"\u001b]0;x\u0007\u202e$[/b][red]:bomb:"


@pytest.fixture
def hostile(files, run):
    """A model one of whose labels and words is hostile, in a file with a name like markup."""
    path = files / "m[red]b[bold].model"
    rows = [["the", "D", "A"], [HOSTILE, "N", HOSTILE], ["$x$", "N", "$y_{$"]]
    records = [json.dumps({"tokens": [row[0] for row in rows], "labels": [row[2] for row in rows]})] * 3
    (files / "hostile.jsonl").write_text("\n".join(records), encoding="utf-8")
    result = run("train", files / "hostile.jsonl", "-o", path, "--template", "words", "--max-iter", "3")
    assert result.status == 0 and f"{path} (" in result.err and path.is_file()
    return path


def test_inspect_and_eval_show_what_would_steer_a_terminal(files, run, hostile, monkeypatch):
    shown = run("inspect", hostile)
    assert shown.status == 0 and SHOWN in shown.out and hostile.name in shown.out and "\x1b" not in shown.out
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    for more in ((), ("--json",)):
        scores = run("eval", files / "hostile.jsonl", "--model", hostile, "--metric", "labels", *more)
        assert scores.status == 0 and r"\u202e" in scores.out and "\x1b" not in scores.out, scores.err


def test_errors_show_what_would_steer_a_terminal(files, run):
    for arguments in (("tag", files / HOSTILE[:8]), ("tag", "m", "a", HOSTILE), (f"--{HOSTILE}",)):
        result = run(*arguments)
        assert result.status == 2 and "1b]0;x" in result.err and "\x1b" not in result.err


def test_texts_are_no_markup_anywhere_in_a_table(capsys):
    table = Table(HOSTILE, ["a", HOSTILE], notes=[HOSTILE])
    table.add(HOSTILE, [], [HOSTILE])
    common.show_table(table, common.Screen(width=200))
    assert capsys.readouterr().out.count(SHOWN) == 5


@pytest.mark.parametrize("verb", ["train", "inspect"])
def test_few_characters_are_enough_for_every_verb(files, hostile, verb):
    arguments = {
        "train": [files / "hostile.jsonl", "-o", files / "é.model", "--template", "words", "--max-iter", "1"],
        "inspect": [hostile],
    }[verb]
    env = {**os.environ, "PYTHONIOENCODING": "ascii", "LANG": "C", "LC_ALL": "C"}
    result = subprocess.run([sys.executable, "-m", "loglinear", verb, *arguments], capture_output=True, env=env)
    assert result.returncode == 0, result.stderr


def test_charts_take_any_label():
    names = ["$", "$x_{$", HOSTILE, "<b>&"]
    charts = [
        table_chart("$", names, names, np.eye(4), "$a", "b$"),
        line_chart("$t$ $", "x", "y", [Line(name, [0, 1], [1, 2]) for name in names]),
    ]
    for chart in charts:
        assert "$x_{$" in "".join(ElementTree.fromstring(chart).itertext())


def test_markdown_has_no_tags_and_no_cells_of_others():
    table = Table("<script>a", ["b", "c"], notes=["<img src=x>&lt;"])
    table.add("d|e\nf", [], ["p < 0.05"])
    page = markdown([table], {"versions": {}, "cores": 1, "processor": "p"}, "loglinear `x` <b>")
    assert "<script" not in page and "<img" not in page and "&amp;lt;" in page
    assert "| d\\|e f | p < 0.05 |" in page and page.startswith("`` loglinear `x` <b> ``, 1 cores")


@pytest.mark.skipif(os.name != "posix", reason="a POSIX shell is needed")
def test_a_model_is_trained_with_every_stream_closed(files):
    (files / "train.txt").write_text(TRAIN, encoding="utf-8")
    options = "--template words --max-iter 2"
    command = f"exec '{sys.executable}' -m loglinear train train.txt -o m.model {options} >&- 2>&- <&-"
    assert subprocess.run(["sh", "-c", command], cwd=files).returncode == 0
    assert (files / "m.model").stat().st_size > 1000
    command = f"'{sys.executable}' -m loglinear tag m.model train.txt >&-"
    result = subprocess.run(["sh", "-c", command], cwd=files, stderr=subprocess.PIPE, text=True)
    assert (result.returncode, result.stderr) == (2, "loglinear: standard output: it is closed\n")


def test_the_command_line_leaves_the_streams_as_they_were(run):
    before = sys.stdout, sys.stderr
    run("template", "words")
    assert (sys.stdout, sys.stderr) == before
