"""Files of results with any key gone or any value another: they still serve, or are refused in a sentence."""

import copy
import json
from dataclasses import asdict
from functools import cache, partial

import pytest

from loglinear.errors import DataError
from loglinear.evaluation.significance import paired_bootstrap
from loglinear.experiments.charts import Chart
from loglinear.experiments.reproduce.papers import PAPERS
from loglinear.experiments.reproduce.report import write_report
from loglinear.experiments.reproduce.tasks import Cells, cell_shape
from loglinear.experiments.store import Store
from loglinear.experiments.tables import Row, Table
from problems.workers import Sure

pytestmark = pytest.mark.slow

OTHERS = (None, "x", -1, [], {"a": 1})
CHARTS = [
    Chart("m-1", "lines", "x", "y", [{"name": "a", "x": [1, 2], "y": [3.0, 4.0]}]),
    Chart("m-2", "bars", "x", "y", [{"name": "", "x": ["a"], "y": [1.0], "labels": ["one"]}], kind="bars"),
]


def run_of(paper, path):
    """The paper's tables and charts, of known outcomes, kept in a file or made from it again."""
    mark = {"paper": paper, "seed": 0, "quick": True}
    store = Store(path, "reproduce", mark, cell_shape, command=f"loglinear reproduce {paper}")
    tables, charts = PAPERS[paper].make({}, Cells(store, Sure(), lambda _: None), 0)
    store.finish({"tables": [*map(asdict, tables)], "charts": [*map(asdict, charts)]})
    return json.loads(path.read_text())


def places_in(value, place=()):
    """All keys, and of lists the first item, from the outside in."""
    inner = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*place, key)
        yield from places_in(each, (*place, key))


def damaged(content, place):
    """The content without what is at the place, and with other things there."""
    for number in range(len(OTHERS) + 1):
        changed = copy.deepcopy(content)
        parent = changed
        for key in place[:-1]:
            parent = parent[key]
        if number == len(OTHERS):
            del parent[place[-1]]
        else:
            parent[place[-1]] = OTHERS[number]
        yield changed


def one_line(error, path):
    return str(error).startswith(f"{path}: ") and "\n" not in str(error)


@pytest.fixture
def few_draws(monkeypatch):
    """What takes its time and has no part in this."""
    few = partial(paired_bootstrap, draws=5)
    monkeypatch.setattr("loglinear.experiments.reproduce.tasks.paired_bootstrap", few)
    monkeypatch.setattr("os.fsync", lambda _: None)


@pytest.mark.parametrize("paper", PAPERS)
def test_a_run_goes_on_from_a_damaged_file_or_refuses_it(paper, tmp_path, few_draws):
    path = tmp_path / "cells.json"
    content = run_of(paper, path)
    one_of_each = {cell["job"]["kind"]: name for name, cell in content["cells"].items()}.values()
    refused = 0
    for place in places_in(content):
        if place[0] in ("tables", "charts") or (place[0] == "cells" and not {*place[1:2]} <= {*one_of_each}):
            continue
        for changed in damaged(content, place):
            path.write_text(json.dumps(changed))
            try:
                run_of(paper, path)
            except DataError as error:
                assert one_line(error, path), (place, error)
                refused += 1
    assert refused > 50


@pytest.fixture
def drawn_once(monkeypatch):
    """The same chart is drawn once."""
    draw = Chart.svg
    kept = cache(lambda fields: draw(Chart(**json.loads(fields))))
    monkeypatch.setattr(Chart, "svg", lambda chart: kept(json.dumps(vars(chart))))


def test_a_page_is_written_from_a_damaged_file_or_it_is_refused(tmp_path, drawn_once):
    path, page = tmp_path / "cells.json", tmp_path / "page.md"
    content = run_of("piecewise", path)
    first = dict(list(content["cells"].items())[:1])
    table = Table("title", ["", "F1"], [Row("one", [1.0], ["1.00"])], ["a note"])
    content |= {"cells": first, "tables": [{**vars(table), "rows": [vars(row) for row in table.rows]}]}
    content["charts"] = [vars(chart) for chart in CHARTS]
    path.write_text(json.dumps(content))
    assert len(write_report([path], page)) == 3
    refused = 0
    for place in places_in(content):
        for changed in damaged(content, place):
            path.write_text(json.dumps(changed))
            page.unlink(missing_ok=True)
            try:
                write_report([path], page)
            except DataError as error:
                assert one_line(error, path) and not page.exists(), (place, error)
                refused += 1
            else:
                assert page.read_text().startswith("# Results")
    assert refused > 200
    assert not [file for file in tmp_path.rglob("*.svg") if file.parent != tmp_path / "figures"]


@pytest.mark.parametrize("name", ["../out", "/out", "a/b", ".hidden", ""])
def test_a_figure_stays_in_its_folder(name, tmp_path):
    path = tmp_path / "cells.json"
    content = run_of("piecewise", path)
    path.write_text(json.dumps({**content, "charts": [{**vars(CHARTS[0]), "name": name}]}))
    with pytest.raises(DataError, match="charts"):
        write_report([path], tmp_path / "docs.md")


def test_two_runs_of_a_paper_have_figures_of_their_own(tmp_path):
    paths, page = [tmp_path / "first.json", tmp_path / "second.json"], tmp_path / "page.md"
    for number, path in enumerate(paths):
        content = run_of("m-estimation", path)
        content["charts"][0]["lines"][0]["y"][0] += 10.0 * number
        path.write_text(json.dumps(content))
    written = [path.name for path in write_report(paths, page)]
    assert len(set(written)) == 7
    text = page.read_text()
    assert all(f"](figures/{name})" in text for name in written[1:])
    drawings = {(tmp_path / "figures" / name).read_text() for name in written if name.startswith("m-estimation-1")}
    assert len(drawings) == 2
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert len(set(headings)) == 2


def test_a_run_replaces_its_section_of_a_page_and_keeps_the_others(tmp_path):
    page, paths = tmp_path / "page.md", {}
    for paper in PAPERS:
        paths[paper] = tmp_path / f"{paper}.json"
        run_of(paper, paths[paper])
    write_report([*paths.values()], page)
    whole = page.read_text()
    write_report([paths["piecewise"], paths["m-estimation"]], page)
    write_report([paths["softmax-margin-recipe"], paths["softmax-margin"]], page, keep=True)
    assert page.read_text() == whole, "in the papers' order"
    content = json.loads(paths["softmax-margin"].read_text())
    content["tables"][0]["notes"].append("A note of the second run.")
    paths["softmax-margin"].write_text(json.dumps(content))
    write_report([paths["softmax-margin"]], page, keep=True)
    first, second = whole.split("\n## "), page.read_text().split("\n## ")
    assert len(first) == len(second) == len(PAPERS) + 1
    changed = [new for old, new in zip(first, second, strict=True) if old != new]
    assert len(changed) == 1 and "A note of the second run." in changed[0]
    page.write_text("# My own page\n\n## Mine\n")
    with pytest.raises(DataError, match="no page of results"):
        write_report([paths["softmax-margin"]], page, keep=True)
    assert page.read_text() == "# My own page\n\n## Mine\n"
