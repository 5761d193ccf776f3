"""Labels that a cluster gives: the same bytes, whoever gives them, whatever happens to the workers."""

import gzip
import os
import signal
import threading
import time
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'loglinear[parquet]'")
import pyarrow.parquet as pq  # noqa: E402

from loglinear.cli import main  # noqa: E402
from loglinear.errors import DataError  # noqa: E402
from loglinear.estimators.tagger.predict import LoadedTagger  # noqa: E402
from loglinear.scale.cluster import sent, tagging  # noqa: E402
from loglinear.scale.cluster.engine import Local  # noqa: E402
from loglinear.scale.tables import Labelling, tag_file  # noqa: E402

ROWS = [[("the", "D"), ("dog", "N"), ("barks", "V")], [("Anna", "N"), ("sleeps", "V")], [("été", "N"), (".", "P")]] * 9


@pytest.fixture
def folder(tmp_path):
    """A folder with column files, some of them compressed, and one with a Parquet file of each layout."""
    text = "\n\n".join("\n".join(f"{word} {tag}" for word, tag in rows) for rows in ROWS) + "\n"
    (tmp_path / "in").mkdir()
    for number in range(5):
        name = tmp_path / "in" / f"part{number}.txt"
        name.write_text(text * (number + 1), encoding="utf-8")
    (tmp_path / "in" / "more.txt.gz").write_bytes(gzip.compress(text.encode()))
    lists = {name: [[row[place] for row in rows] for rows in ROWS] for place, name in enumerate(("tokens", "pos"))}
    pq.write_table(pa.table(lists), tmp_path / "lists.parquet", row_group_size=4)
    flat = [(str(number), *row) for number, rows in enumerate(ROWS) for row in rows]
    columns = dict(zip(("sentence_id", "token", "pos"), map(list, zip(*flat, strict=True)), strict=True))
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet", row_group_size=5)
    return tmp_path


@pytest.fixture(params=["threads", pytest.param("dask", marks=pytest.mark.slow)])
def cluster(request):
    return Local(3) if request.param == "threads" else request.getfixturevalue("dask")


@pytest.fixture
def verb(monkeypatch, capsys):
    """The verb, with a cluster that is there already."""

    def call(cluster, *arguments):
        monkeypatch.setattr("loglinear.scale.cluster.engine.open_cluster", lambda spec, **_: cluster)
        monkeypatch.setattr(type(cluster), "close", lambda self: None)
        monkeypatch.setattr("sys.argv", ["loglinear", "tag", *map(str, arguments)])
        status = 0
        try:
            main()
        except SystemExit as ended:
            status = ended.code or 0
        return status, capsys.readouterr().err

    return call


@pytest.fixture
def tag(cluster, verb):
    return lambda *arguments: verb(cluster, *arguments)


def contents(path):
    return {each.name: each.read_bytes() for each in Path(path).iterdir()}


@pytest.mark.parametrize("layout", ["lists", "rows"])
@pytest.mark.parametrize("confidence", [False, True])
def test_one_file_in_runs_of_its_row_groups(cluster, folder, model_path, layout, confidence):
    source, how = str(folder / f"{layout}.parquet"), Labelling(confidence=confidence)
    tagger = LoadedTagger.load(model_path)
    counts = tag_file(tagger, source, folder / "here", "parquet", how=how)
    parts = tagging.parts_on(cluster, tagging.ModelFile.of(model_path))
    assert tag_file(tagger, source, folder / "there", "parquet", how=how, parts=parts) == counts
    assert (folder / "there").read_bytes() == (folder / "here").read_bytes()


@pytest.mark.parametrize("n_parts, n_runs", [(0, 4), (1, 4), (3, 4), (16, 4), (17, 4)])
def test_runs_cover_all_parts(n_parts, n_runs):
    runs = tagging.bounds(n_parts, n_runs)
    assert [part for first, end in runs for part in range(first, end)] == list(range(n_parts))
    assert len(runs) == min(n_parts, n_runs)
    assert tagging.bounds(None, n_runs) == [(0, None)]


def test_many_files_of_any_format(tag, folder, model_path):
    assert tag(model_path, folder / "in", "-o", folder / "here")[0] == 0
    assert tag(model_path, folder / "in", "-o", folder / "there", "--cluster", "local:2") == (0, "")
    assert contents(folder / "there") == contents(folder / "here")
    (folder / "there" / "part1.txt").unlink()
    status, said = tag(model_path, folder / "in", "-o", folder / "there", "--cluster", "local:2")
    assert status == 2 and "there already" in said
    assert tag(model_path, folder / "in", "-o", folder / "there", "--cluster", "x", "--existing", "keep")[0] == 0
    assert contents(folder / "there") == contents(folder / "here")


def test_what_is_wrong_with_a_file_is_said(tag, folder, model_path):
    (folder / "in" / "part3.txt").write_text("the\n", encoding="utf-8")
    status, said = tag(model_path, folder / "in", "-o", folder / "there", "--cluster", "local:2")
    assert status == 2 and "part3.txt" in said and "part3.txt" not in contents(folder / "there")
    assert not any(name.startswith(".loglinear") for name in contents(folder / "there"))


@pytest.mark.parametrize("arguments, reason", [
    (["in/part1.txt", "-o", "x"], "leave out --cluster"),
    (["-", "-o", "x"], "leave out --cluster"),
    (["in", "-o", "x", "--threads", "2"], "one machine"),
])  # fmt: skip
def test_what_a_cluster_does_not_do(tag, folder, model_path, monkeypatch, arguments, reason):
    monkeypatch.chdir(folder)
    status, said = tag(model_path, *arguments, "--cluster", "local:2")
    assert status == 2 and reason in said and not Path("x").exists()


def test_a_model_that_workers_do_not_see_is_sent_once(folder, model_path, monkeypatch):
    sizes, real, place = [], sent.content, sent._place
    monkeypatch.setattr(sent, "content", lambda *file: sizes.append(file) or real(*file))
    monkeypatch.setattr(sent, "_place", lambda path, *rest: place("/nowhere/m.model", *rest))
    tagger, source = LoadedTagger.load(model_path), str(folder / "lists.parquet")
    tag_file(tagger, source, folder / "here", "parquet")
    parts = tagging.parts_on(Local(2), tagging.ModelFile.of(model_path))
    tag_file(tagger, source, folder / "there", "parquet", parts=parts)
    assert (folder / "there").read_bytes() == (folder / "here").read_bytes()
    assert len(sizes) == 1, "later jobs find the copy"


def test_a_model_that_changes_meanwhile_is_refused(folder, model_path):
    model = tagging.ModelFile.of(model_path)
    other = tagging.ModelFile(model.path, "0" * 64)
    with pytest.raises(DataError, match="has changed"):
        list(tagging.tag_files(Local(1), other, len, {str(folder / "lists.parquet"): 1}, str(folder)))


def test_files_and_folders_that_a_worker_does_not_see_are_named(folder, model_path):
    model = tagging.ModelFile.of(model_path)
    with pytest.raises(DataError, match=r"nowhere.txt: this process does not see it; name a path that all workers"):
        list(tagging.tag_files(Local(1), model, len, {str(folder / "nowhere.txt"): 1}, str(folder)))
    (folder / "other").write_text("abc")
    with pytest.raises(DataError, match=r"other: this process sees another file there, of 3 bytes and not 4"):
        tagging.do_task(tagging._Task(model, len, 1, {str(folder / "other"): 4}))
    task = tagging._Task(model, len, 1, {}, str(folder / "elsewhere" / "mark"))
    with pytest.raises(DataError, match=r"elsewhere: this process does not see this folder"):
        tagging.do_task(task)


def test_few_results_wait_for_the_first(folder, model_path, monkeypatch):
    """A slow first run holds the others back: the driver keeps no more than a few."""
    begun, gate, real = [], threading.Event(), tagging.tag_run

    def slow(tagger, run):
        begun.append(run.first)
        if run.first == 0:
            time.sleep(0.5)
            assert len(begun) <= tagging.AHEAD * 2
            gate.set()
        return real(tagger, run)

    monkeypatch.setattr(tagging, "tag_run", slow)
    parts = tagging.parts_on(Local(2), tagging.ModelFile.of(model_path))
    tag_file(LoadedTagger.load(model_path), str(folder / "rows.parquet"), folder / "out", "parquet", parts=parts)
    assert gate.is_set() and len(begun) > tagging.AHEAD * 2


def kill_one(cluster, after):
    """Kill a worker in a while."""
    pids = list(cluster.client.run(os.getpid).values())

    def kill():
        time.sleep(after)
        os.kill(pids[0], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


def slowly(tagger, run):
    time.sleep(0.2)
    return tagging.tag_run(tagger, run)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["lists", "rows"])
def test_a_killed_worker_loses_nothing_of_a_file(dask, folder, model_path, monkeypatch, layout):
    source, tagger, before = str(folder / f"{layout}.parquet"), LoadedTagger.load(model_path), dask.deaths
    tag_file(tagger, source, folder / "here", "parquet")
    monkeypatch.setattr(tagging, "tag_run", slowly)
    killing = kill_one(dask, 0.3)
    parts = tagging.parts_on(dask, tagging.ModelFile.of(model_path))
    tag_file(tagger, source, folder / "there", "parquet", parts=parts)
    killing.join()
    assert dask.deaths > before and (folder / "there").read_bytes() == (folder / "here").read_bytes()


def tag_slowly(tagger, part):
    from loglinear.cli.tag import tag_part

    time.sleep(0.2)
    return tag_part(tagger, part)


@pytest.mark.slow
def test_a_killed_worker_loses_no_file(dask, folder, model_path, monkeypatch, verb):
    before = dask.deaths
    assert verb(dask, model_path, folder / "in", "-o", folder / "here")[0] == 0
    monkeypatch.setattr("loglinear.cli.tag.tag_part", tag_slowly)
    killing = kill_one(dask, 0.3)
    assert verb(dask, model_path, folder / "in", "-o", folder / "there", "--cluster", "local:2")[0] == 0
    killing.join()
    assert dask.deaths > before and contents(folder / "there") == contents(folder / "here")
