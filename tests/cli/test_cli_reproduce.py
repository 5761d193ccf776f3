"""``loglinear reproduce`` and ``loglinear data``: tables kept and shown again, a page written from them, refusals."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import loglinear
from loglinear.data.corpora.bundled import bundled_trees
from loglinear.experiments.pools.processes import ProcessPool
from loglinear.experiments.reproduce import m_estimation, piecewise
from loglinear.experiments.reproduce.papers import PAPERS, Paper
from loglinear.experiments.tables import Table
from loglinear.system import cache_folder

TREES = [
    "(ROOT (S (NP (D the) (N dog)) (VP (V saw) (NP (D a) (N cat)))))",
    "(ROOT (S (NP (N dogs)) (VP (V bark))))",
    "(ROOT (S (NP (D a) (N cat)) (VP (V saw) (NP (N dogs)))))",
]
FEW = """
import sys
from loglinear.experiments.pools.processes import ProcessPool
from loglinear.experiments.reproduce import softmax_margin
keep = ("perceptron", "CLL", "risk", "softmax-margin")
softmax_margin.SYSTEMS = {name: softmax_margin.SYSTEMS[name] for name in keep}
from loglinear.cli import main
sys.argv = ["loglinear", "reproduce", "softmax-margin", "--quick", "--threads", "2", "--json", sys.argv[1]]
main()
"""


@pytest.fixture(autouse=True)
def cache_of_its_own(monkeypatch, tmp_path):
    """What was fetched on this machine is not found."""
    monkeypatch.setattr("loglinear.experiments.corpora.corpora_cache", lambda: tmp_path / "cache")


@pytest.fixture
def corpora(tmp_path):
    folder = tmp_path / "corpora"
    (folder / "craft").mkdir(parents=True)
    for part in ("train", "dev"):
        (folder / "craft" / f"craft15.{part}.mrg").write_text("\n".join(TREES) + "\n")
    return folder


def test_a_table_is_made_kept_and_shown_again_without_training(run, corpora, tmp_path, monkeypatch):
    few = {name: piecewise.PARSING_SYSTEMS[name] for name in piecewise.QUICK_PARSING}
    monkeypatch.setattr(piecewise, "PARSING_SYSTEMS", few)
    kept, page = tmp_path / "cells.json", tmp_path / "page.md"
    first = run("reproduce", "piecewise", "--data", corpora, "--json", kept, "--markdown", page, "--threads", "1")
    assert first.status == 0, first.err
    cells = json.loads(kept.read_text())["cells"]
    assert set(cells) == {f"craft parsing {name}" for name in few}
    assert cells["craft parsing generative"]["test"]["f1"] == 100.0 and "81.4, 82.7" in page.read_text()
    with monkeypatch.context() as patched:
        patched.setattr(ProcessPool, "run", lambda _, jobs: pytest.fail("trained again") if jobs else ())
        shown = run("reproduce", "piecewise", "--data", corpora, "--json", kept, "--markdown", "-")
        assert shown.status == 0 and "81.4, 82.7" in shown.out, "standard output"
        again = run("reproduce", "piecewise", "--data", corpora, "--json", kept, "--markdown", page)
    assert again.status == 0 and "pt-cfg" in page.read_text()
    (corpora / "craft" / "craft15.dev.mrg").write_text(TREES[0] + "\n")
    assert run("reproduce", "piecewise", "--data", corpora, "--json", kept, "--markdown", page).status == 0
    assert "craft, 3 trees of at most 15 words, 1 to test" in page.read_text(), "other trees, the same cells"


@pytest.fixture
def small(monkeypatch):
    """The M-estimation tables with one variance and one size."""
    monkeypatch.setattr(m_estimation, "FEW_VARIANCES", (1.0,))
    monkeypatch.setattr(m_estimation, "QUICK_SIZES", (40,))
    monkeypatch.setattr(m_estimation, "ITERATIONS", 5)
    monkeypatch.setattr("loglinear.experiments.reproduce.m_estimation.QUICK_DEPENDENCIES", ("generative",))


def test_the_page_is_written_from_the_file_alone_and_is_the_same_each_time(run, tmp_path, small):
    kept, page = tmp_path / "m.json", tmp_path / "docs" / "results.md"
    made = run("reproduce", "m-estimation", "--quick", "--json", kept, "--seed", "3")
    assert made.status == 0, made.err
    page.parent.mkdir()
    written = []
    for _ in range(2):
        found = run("reproduce", "report", kept, "--output", page)
        assert found.status == 0, found.err
        written.append({path.name: path.read_bytes() for path in sorted(page.parent.rglob("*")) if path.is_file()})
    assert written[0] == written[1]
    assert set(written[0]) == {"results.md", *(f"m-estimation-{n}.svg" for n in (1, 2, 3))}
    text = written[0]["results.md"].decode()
    about = json.loads(kept.read_text())["about"]
    for part in (
        "Table 1", "Table 2", "89.64", "93.86", "loglinear reproduce m-estimation --quick --seed 3", about["date"],
        loglinear.__version__, about["machine"]["processor"], "](figures/m-estimation-3.svg)", "input-only",
    ):  # fmt: skip
        assert part in text
    for place in (str(tmp_path), str(Path.home()), os.uname().nodename):
        assert place not in text
    assert run("reproduce", "m-estimation", "--quick", "--json", kept).status == 2, "another seed"


def test_all_papers_are_kept_in_a_folder_and_written_on_a_page(run, corpora, tmp_path, monkeypatch):
    asked = []

    def make(paper, files, cells, seed, n_seeds):
        asked.append((sorted(files), seed, n_seeds))
        cells.store.put("one", {"seconds": 1.0})
        table = Table(paper.title, ["system", "F1"])
        table.add("one", [50.0], ["50.00"])
        return [table], []

    monkeypatch.setattr(Paper, "make", make)
    folder, page = tmp_path / "results", tmp_path / "results.md"
    made = run("reproduce", "all", "--quick", "--folder", folder, "--output", page, "--threads", "1")
    assert made.status == 0, made.err
    assert {path.name for path in folder.iterdir()} == {f"{name}.json" for name in PAPERS}
    assert all(paper.title in page.read_text() for paper in PAPERS.values())
    assert asked == [([], 0, 1)] * 4
    lacking = run("reproduce", "all", "--data", corpora, "--threads", "1")
    assert lacking.status == 2 and "conll2000" in lacking.err, "only trees are there"
    assert "name a file" in run("reproduce", "all", "--quick", "--output", "-").err
    (corpora / "conll2000").mkdir()
    for part in ("train", "test"):
        (corpora / "conll2000" / f"{part}.txt").write_text("a D B-NP\nb V B-VP\n\n" * 3)
    for part in ("train", "testa", "testb"):
        (corpora / f"esp.{part}").write_text("a D B-PER\n\n")
    asked.clear()
    assert run("reproduce", "all", "--data", corpora, "--seeds", "2", "--threads", "1").status == 0
    used = (["conll2000"], ["esp"], ["esp"], ["conll2000", "craft", "esp"])
    assert asked == [(corpora, 0, 2) for corpora in used]


def test_an_unfinished_run_and_other_files_make_no_page(run, tmp_path):
    path = tmp_path / "cells.json"
    path.write_text('{"kind": "loglinear reproduce", "format": 2, "about": {}, "cells": {}}')
    found = run("reproduce", "report", path, "--output", tmp_path / "page.md")
    assert found.status == 2 and "not come to its end" in found.err
    path.write_text(
        '{"kind": "loglinear reproduce", "format": 2, "about": {}, "cells": {}, "tables": [], "charts": []}'
    )
    assert "cannot be read" in run("reproduce", "report", path, "--output", tmp_path / "page.md").err
    assert run("reproduce", "report", tmp_path / "none", "--output", tmp_path / "page.md").status == 2
    assert "overwrite the input" in run("reproduce", "report", path, "--output", path).err and path.exists()
    assert "name a file" in run("reproduce", "report", path, "--output", "-").err
    assert not (tmp_path / "page.md").exists()


def start(path):
    package = str(Path(loglinear.__file__).resolve().parents[1])
    environment = {**os.environ, "PYTHONPATH": package}
    return subprocess.Popen([sys.executable, "-c", FEW, str(path)], env=environment, stderr=subprocess.DEVNULL)


def children_of(pid):
    found = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(place.parent.name))
    return found


def figures_of(path):
    """The tables without their last column, which is of seconds."""
    tables = json.loads(path.read_text())["tables"]
    return [[(row["name"], row["figures"], row["cells"][:-1]) for row in table["rows"]] for table in tables]


INTERRUPTED = """
import sys
from loglinear.experiments.pools.processes import ProcessPool
from loglinear.experiments.reproduce import piecewise
piecewise.PARSING_SYSTEMS = {name: piecewise.PARSING_SYSTEMS[name] for name in ("crf-cfg", "mecfg", "generative")}
from loglinear.cli import main
sys.argv = ["loglinear", "reproduce", "piecewise", "--threads", "1", *sys.argv[1:]]
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("keeps", [True, False])
def test_ctrl_c_in_a_parsers_training_keeps_what_is_finished_and_no_more(corpora, tmp_path, keeps):
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        pytest.skip("SIGINT is ignored here, as in a background job")
    kept, said = tmp_path / "cells.json", tmp_path / "said"
    trees = "".join(f"{tree}\n" for tree in bundled_trees("train", entities=False))
    (corpora / "craft" / "craft15.train.mrg").write_text(trees)
    more = ["--json", str(kept)] if keeps else []
    package = str(Path(loglinear.__file__).resolve().parents[1])
    with open(said, "w") as err:
        process = subprocess.Popen(
            [sys.executable, "-c", INTERRUPTED, "--data", str(corpora), *more],
            env={**os.environ, "PYTHONPATH": package}, stderr=err,
        )  # fmt: skip
    while process.poll() is None and "parsing mecfg: " not in said.read_text():
        time.sleep(0.02)
    time.sleep(0.5)  # into the training of the next one
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    last = said.read_text().splitlines()[-1]
    if keeps:
        assert last == f"loglinear: interrupted: what is finished is in {kept}; the same command continues"
        assert "craft parsing mecfg" in json.loads(kept.read_text())["cells"]
        assert "craft parsing crf-cfg" not in json.loads(kept.read_text())["cells"]
    else:
        assert last == "loglinear: interrupted: nothing was kept; with --json FILE the same command would continue"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_a_run_that_is_killed_goes_on_and_ends_with_the_same_table(tmp_path):
    killed, whole = tmp_path / "killed.json", tmp_path / "whole.json"
    process = start(killed)
    while process.poll() is None and (not killed.exists() or len(json.loads(killed.read_text())["cells"]) < 2):
        time.sleep(0.02)
    workers = children_of(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = json.loads(killed.read_text())
    assert process.returncode == -signal.SIGKILL and "tables" not in before and len(before["cells"]) >= 2
    assert workers, "it trained in processes of its own"
    while any(Path(f"/proc/{pid}").exists() for pid in workers):  # none of them goes on without it
        time.sleep(0.02)
    assert start(killed).wait() == 0 and start(whole).wait() == 0
    after = json.loads(killed.read_text())["cells"]
    assert {name: after[name] for name in before["cells"]} == before["cells"], "a finished cell was made again"
    assert len(after) > len(before["cells"]) and figures_of(killed) == figures_of(whole)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["piecewise", "--quick", "--data", "."], "leave out --data"),
        (["softmax-margin", "--quick", "--corpus", "esp"], "leave out --data"),
        (["softmax"], "softmax"),
        (["piecewise", "--data", "nowhere"], "no such folder"),
        (["m-estimation"], "data get conll2000"),
        (["m-estimation", "--data", "."], "data get conll2000"),
        (["softmax-margin", "--data", ".", "--corpus", "ned"], "ned.train"),
        (["softmax-margin", "--data", ".", "--corpus", "deu"], "'deu'"),
        (["m-estimation", "--quick", "--json", "nowhere/m.json"], "no folder"),
        (["m-estimation", "--quick", "--markdown", "nowhere/m.md"], "no folder"),
        (["m-estimation", "--quick", "--json", "-"], "in a file; name one"),
        (["m-estimation", "--quick", "--json", "same", "--markdown", "same"], "would overwrite --json"),
    ],
)
def test_what_makes_no_sense_is_refused(run, arguments, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = run("reproduce", *arguments)
    assert found.status != 0 and says in found.err


@pytest.mark.parametrize("verb", ["m-estimation", "softmax-margin", "piecewise", "report"])
def test_help_has_examples(run, verb):
    assert f"loglinear reproduce {verb}" in run("reproduce", verb, "--help").out


def test_public_corpora_are_listed_and_unknown_ones_refused(run, tmp_path, monkeypatch):
    monkeypatch.setenv("LOGLINEAR_CACHE", str(tmp_path))
    cache_folder.cache_clear()
    listed = run("data", "list")
    assert listed.status == 0 and all(part in listed.err for part in ("conll2000", "conll2002", "NLTK", str(tmp_path)))
    (tmp_path / "corpora" / "conll2000").mkdir(parents=True)
    for name in ("train.txt", "test.txt"):
        (tmp_path / "corpora" / "conll2000" / name).write_text("garbage\n")
    assert "wrong" in run("data", "list").err and "--again" in run("data", "get", "conll2000").err
    assert "there is no corpus 'wsj'" in run("data", "get", "conll2000", "wsj").err
    assert "loglinear data get" in run("data", "get", "--help").out
    cache_folder.cache_clear()
