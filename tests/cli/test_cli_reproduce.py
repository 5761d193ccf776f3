"""``loglinear reproduce``: tables with the published figures, cells that are kept, and clear refusals."""

import json

import pytest

from loglinear.errors import DataError
from loglinear.experiments.reproduce import parsing
from loglinear.experiments.reproduce.cells import Cells

TREES = [
    "(ROOT (S (NP (D the) (N dog)) (VP (V saw) (NP (D a) (N cat)))))",
    "(ROOT (S (NP (N dogs)) (VP (V bark))))",
    "(ROOT (S (NP (D a) (N cat)) (VP (V saw) (NP (N dogs)))))",
]


@pytest.fixture
def corpora(tmp_path):
    folder = tmp_path / "corpora"
    (folder / "craft").mkdir(parents=True)
    for part in ("train", "dev"):
        (folder / "craft" / f"craft15.{part}.mrg").write_text("\n".join(TREES) + "\n")
    return folder


def test_a_table_is_made_kept_and_shown_again_without_training(run, corpora, tmp_path, monkeypatch):
    few = {name: parsing.SYSTEMS[name] for name in parsing.QUICK}
    monkeypatch.setattr(parsing, "SYSTEMS", few)
    kept, page = tmp_path / "cells.json", tmp_path / "page.md"
    first = run("reproduce", "piecewise", "--data", corpora, "--json", kept, "--markdown", page, "--threads", "1")
    assert first.status == 0, first.err
    cells = json.loads(kept.read_text())
    assert set(cells) == {f"piecewise craft {name}" for name in few}
    assert cells["piecewise craft generative"]["f1"] == 100.0 and "81.4, 82.7" in page.read_text()
    monkeypatch.setattr(parsing, "measure", lambda *_: pytest.fail("trained again"))
    again = run("reproduce", "piecewise", "--data", corpora, "--json", kept, "--markdown", page)
    assert again.status == 0 and "pt-cfg" in page.read_text()


def test_a_run_that_is_killed_loses_no_finished_cell(tmp_path):
    path = tmp_path / "cells.json"
    cells = Cells(path, lambda _: None)
    cells.get("one", lambda: {"f1": 1.0})
    with pytest.raises(KeyboardInterrupt):
        cells.get("two", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    again = Cells(path, lambda _: None)
    assert again.get("one", lambda: pytest.fail("made again")) == {"f1": 1.0}
    assert again.get("two", lambda: {"f1": 2.0}) == {"f1": 2.0} and set(json.loads(path.read_text())) == {"one", "two"}


@pytest.mark.parametrize("content", ["[]", "{", '{"a": 1}', "\x00"])
def test_a_file_of_something_else_is_refused(content, tmp_path):
    path = tmp_path / "cells.json"
    path.write_text(content)
    with pytest.raises(DataError, match="no results of loglinear reproduce"):
        Cells(path)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["piecewise"], "--quick"),
        (["piecewise", "--quick", "--data", "."], "not both"),
        (["softmax"], "is not one of"),
        (["piecewise", "--data", "nowhere"], "no treebank"),
        (["m-estimation", "--data", "nowhere"], "no dependencies"),
    ],
)
def test_what_makes_no_sense_is_refused(run, arguments, says):
    found = run("reproduce", *arguments)
    assert found.status != 0 and says in found.err
