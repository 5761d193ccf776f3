"""Parquet and Arrow files, and several files at once, on the command line."""

import gzip
import json
import os

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'loglinear[parquet]'")
import pyarrow.parquet as pq  # noqa: E402

from loglinear import Tagger, read_columns  # noqa: E402
from loglinear.cli import tag  # noqa: E402
from loglinear.scale import tables  # noqa: E402


@pytest.fixture
def corpus(files):
    return read_columns(files / "train.txt")


@pytest.fixture
def table(corpus):
    rows = corpus.rows()
    names = ("tokens", "pos", "chunks")
    return pa.table({name: [[row[c] for row in s] for s in rows] for c, name in enumerate(names)})


@pytest.fixture
def expected(model, corpus):
    return Tagger.load(model).predict(corpus)


def predicted(path):
    return pq.read_table(path).column("predicted").to_pylist()


def parts(folder, table, names="abc"):
    folder.mkdir()
    for name in names:
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=2)
    return folder


def test_parquet_is_read_wherever_column_files_are(run, files, model, table, corpus):
    pq.write_table(table, files / "t.parquet", row_group_size=2)
    options = ("--template", "chunking", "--l2", "0.01", "-q")
    assert run("train", files / "t.parquet", "-o", files / "p.model", *options).status == 0
    assert (files / "p.model").read_bytes() == model.read_bytes()
    by_model = run("eval", files / "t.parquet", "--model", model).out
    assert by_model == run("eval", files / "train.txt", "--model", model).out and "phrases" in by_model
    assert run("tag", model, files / "t.parquet", "-o", files / "out.parquet").status == 0
    assert run("eval", files / "out.parquet").out == by_model
    assert run("eval", files / "t.parquet", "--pred", files / "out.parquet").out == by_model
    named = run("train", files / "t.parquet", "-o", files / "pos.model", "--template", "words", "--column", "POS", "-q")
    assert named.status == 0 and Tagger.load(files / "pos.model").classes_ == ["D", "N", "P", "V"]


def test_numbers_with_names_are_labels(run, files, table):
    names = sorted({label for row in table.column("chunks").to_pylist() for label in row})
    numbers = [[names.index(label) for label in row] for row in table.column("chunks").to_pylist()]
    pq.write_table(table.set_column(2, "ner_tags", pa.array(numbers)), files / "t.parquet")
    arguments = ("train", files / "t.parquet", "-o", files / "p.model", "--template", "chunking", "-q")
    assert run(*arguments, "--label-names", ",".join(names)).status == 0
    assert Tagger.load(files / "p.model").classes_ == names
    result = run(*arguments, "--label-names", "O,X")
    assert (
        result.status == 2 and "t.parquet:1: column 'ner_tags': 2 has no name: there are 2 names, from 0" in result.err
    )


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "t.feather"])
def test_convert_goes_both_ways(run, files, name):
    assert run("data", "convert", files / "train.txt", "-o", files / name).status == 0
    assert run("data", "convert", files / name, "-o", files / "back.txt").status == 0
    assert read_columns(files / "back.txt").rows() == read_columns(files / "train.txt").rows()


def test_tagging_keeps_the_format_and_adds_columns(run, files, model, table, expected):
    pq.write_table(table, files / "t.parquet", row_group_size=2)
    assert run("tag", model, files / "t.parquet", "-o", files / "out.parquet", "--marginals").status == 0
    out = pq.ParquetFile(files / "out.parquet")
    assert out.num_row_groups == 2 and out.schema_arrow.names == [*table.column_names, "predicted", "confidence"]
    assert predicted(files / "out.parquet") == expected
    lines = run("tag", model, files / "t.parquet", "--output-format", "jsonl").out.splitlines()
    assert [json.loads(line)["predicted"] for line in lines] == expected
    assert run("tag", model, files / "train.txt", "--output-format", "parquet", "-o", files / "x.parquet").status == 0
    assert predicted(files / "x.parquet") == expected


def test_pipes_are_read_and_written(files, model, table, expected):
    import subprocess
    import sys

    pq.write_table(table, files / "t.parquet")
    with open(files / "t.parquet", "rb") as source, open(files / "out.parquet", "wb") as target:
        command = [sys.executable, "-m", "loglinear", "tag", model, "-"]
        subprocess.run(command, stdin=source, stdout=target, check=True)
    assert predicted(files / "out.parquet") == expected


def test_labels_may_be_forced(run, files, model, table):
    given = pa.array([["*", "B-VP", "*"], ["*"] * 5, ["*"] * 4])
    pq.write_table(table.append_column("known", given), files / "t.parquet")
    for options in ((), ("--column", "known"), ("--label-column", "3")):
        assert run("tag", model, files / "t.parquet", "--force", *options, "-o", files / "o.parquet").status == 0
        assert predicted(files / "o.parquet")[0][1] == "B-VP"
    result = run("tag", model, files / "t.parquet", "--force", "--column", "tokens", "-o", files / "no.parquet")
    assert result.status == 2 and "which the model uses as input" in result.err and not (files / "no.parquet").exists()


def test_several_labellings_need_another_format(run, files, model, table):
    pq.write_table(table, files / "t.parquet")
    result = run("tag", model, files / "t.parquet", "--nbest", "2")
    assert result.status == 2 and "the format parquet has a place for one labelling" in result.err
    assert "rank = 2" in run("tag", model, files / "t.parquet", "--nbest", "2", "--output-format", "columns").out


# -- several files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", ["in/*.parquet", "in", "**/*.parquet"])
def test_globs_and_folders_give_a_file_for_each(run, files, model, table, expected, named, monkeypatch):
    monkeypatch.chdir(files)
    parts(files / "in", table)
    (files / "in" / "_SUCCESS").write_text("")
    result = run("tag", model, named, "-o", "out")
    assert (result.status, result.err) == (0, "")
    assert sorted(os.listdir("out")) == ["a.parquet", "b.parquet", "c.parquet"]
    assert all(predicted(f"out/{name}.parquet") == expected for name in "abc")


def test_text_files_and_compressed_ones_keep_their_formats(run, files, model):
    text = (files / "train.txt").read_bytes()
    (files / "in").mkdir()
    (files / "in" / "a.txt").write_bytes(text)
    (files / "in" / "b.txt.gz").write_bytes(gzip.compress(text))
    assert run("data", "convert", files / "train.txt", "-o", files / "in" / "c.csv").status == 0
    assert run("tag", model, files / "in", "-o", files / "out").status == 0
    assert (files / "out" / "a.txt").read_text() == run("tag", model, files / "train.txt").out
    assert gzip.decompress((files / "out" / "b.txt.gz").read_bytes()) == (files / "out" / "a.txt").read_bytes()
    assert (files / "out" / "c.csv").read_text() == run("tag", model, files / "in" / "c.csv").out


def test_files_that_are_there_are_refused_kept_or_overwritten(run, files, model, table, expected):
    source, out = parts(files / "in", table), files / "out"
    assert run("tag", model, source, "-o", out).status == 0
    (out / "b.parquet").unlink()
    (out / "c.parquet").write_text("mine")
    result = run("tag", model, source, "-o", out)
    assert result.status == 2 and "a.parquet and 1 other are there already; --existing keep" in result.err
    result = run("tag", model, source, "-o", out, "--existing", "keep")
    assert result.status == 0 and "2 files of 3 are in" in result.err and "already and are kept" in result.err
    assert predicted(out / "b.parquet") == expected and (out / "c.parquet").read_text() == "mine"
    assert run("tag", model, source, "-o", out, "--existing", "overwrite").status == 0
    assert predicted(out / "c.parquet") == expected
    result = run("tag", model, source / "a.parquet", "-o", files / "x.parquet", "--existing", "keep")
    assert result.status == 2 and "--existing keep is about the files of a folder" in result.err


def test_no_part_is_overwritten_by_whatever_name(run, files, model, table):
    source = parts(files / "in", table)
    before = {path.name: path.read_bytes() for path in source.iterdir()}
    (files / "link").symlink_to(source)
    (files / "out").mkdir()
    os.link(source / "b.parquet", files / "out" / "a.parquet")
    for target in ("in", "link", "out"):
        for named in (source, f"{source}/*.parquet"):
            result = run("tag", model, named, "-o", files / target, "--existing", "overwrite")
            assert result.status == 2 and "would overwrite the input" in result.err, target
    (files / "models").mkdir()
    os.link(model, files / "models" / "a.parquet")
    result = run("tag", model, source, "-o", files / "models", "--existing", "overwrite")
    assert result.status == 2 and "would overwrite the input" in result.err
    assert {path.name: path.read_bytes() for path in source.iterdir()} == before


def test_what_cannot_be_is_refused_before_anything_is_done(run, files, model, table):
    source = parts(files / "in", table)
    (files / "file").write_text("")
    (files / "empty").mkdir()
    (files / "other").mkdir()
    pq.write_table(table, files / "other" / "a.parquet")
    for arguments, message in (
        ((source,), "is 3 files: name a folder for their outputs with -o"),
        ((source, "-o", files / "file"), "is not a folder"),
        ((files / "none" / "*.parquet", "-o", files / "out"), "*.parquet: there is no such file"),
        ((files / "empty", "-o", files / "out"), "empty: there is no file in the folder"),
        ((source, "-o", files / "out", "--output-format", "jsonl"), "--output-format jsonl: of several files"),
        ((source, "-o", files / "out", "--existing", "skip"), "existing='skip' is not one of"),
        ((f"{files}/*/a.parquet", "-o", files / "out"), "have the same name"),
    ):
        result = run("tag", model, *arguments)
        assert result.status == 2 and message in result.err and result.err.count("\n") == 1, (message, result.err)
    assert not (files / "out").exists()


def test_a_glob_without_quotes_gets_a_hint(run, files, model, table):
    source = parts(files / "in", table)
    result = run("tag", model, *sorted(source.iterdir()), "-o", files / "out")
    assert result.status == 2 and "by a folder, or by a glob in quotes" in " ".join(
        result.err.replace("│", " ").split()
    )
    assert "quotes" not in run("eval", model, "a", "b").err


def test_parts_with_other_columns_or_of_another_kind_are_named_before_anything_is_done(run, files, model, table):
    source = parts(files / "in", table, "ac")
    for wrong, message in (
        (table.rename_columns(["tokens", "tag", "chunks"]), "b.parquet: the columns that the model looks at are"),
        (table.select(["tokens"]), "b.parquet: the model looks at column 1"),
        (table.select(["pos"]), "b.parquet: no column of text is called as usual for tokens"),
    ):
        pq.write_table(wrong, source / "b.parquet")
        result = run("tag", model, source, "-o", files / "out")
        assert result.status == 2 and message in result.err and not (files / "out").exists()
    (source / "b.parquet").write_bytes((source / "a.parquet").read_bytes()[:300])
    result = run("tag", model, source, "-o", files / "out")
    assert result.status == 2 and "b.parquet: not a Parquet file" in result.err and not (files / "out").exists()


def test_a_damaged_part_leaves_those_before_it_and_nothing_half_written(run, files, model, table, expected):
    source = parts(files / "in", table)
    nulls = pa.array([["a", "b", "c"], [None] * 5, ["d"] * 4], pa.list_(pa.string()))
    pq.write_table(table.set_column(0, "tokens", nulls), source / "b.parquet", row_group_size=1)
    result = run("tag", model, source, "-o", files / "out")
    assert result.status == 2 and result.err.count("\n") == 1
    assert "b.parquet:2: entry 0 (from 0) of column 'tokens' is null" in result.err
    assert "1 file of 3 had been labelled before; --existing keep goes on after them" in result.err
    assert os.listdir(files / "out") == ["a.parquet"] and predicted(files / "out" / "a.parquet") == expected
    pq.write_table(table, source / "b.parquet")
    assert run("tag", model, source, "-o", files / "out", "--existing", "keep").status == 0
    assert all(predicted(files / "out" / f"{name}.parquet") == expected for name in "abc")


def test_empty_parts_come_out_empty_and_are_named(run, files, model, table):
    source = parts(files / "in", table, "a")
    pq.write_table(table.slice(0, 0), source / "b.parquet")
    result = run("tag", model, source, "-o", files / "out")
    assert result.status == 0 and "no tokens in" in result.err and "b.parquet: what is written for them" in result.err
    assert predicted(files / "out" / "b.parquet") == []


def test_ctrl_c_says_how_to_go_on(run, files, model, table, monkeypatch):
    source, labelled = parts(files / "in", table), tables.tag_file

    def interrupted(tagger, part, *arguments):
        if part.endswith("b.parquet"):
            raise KeyboardInterrupt
        return labelled(tagger, part, *arguments)

    monkeypatch.setattr(tables, "tag_file", interrupted)
    result = run("tag", model, source, "-o", files / "out")
    assert (
        result.status == 130
        and "1 of 3 files are labelled; with --existing keep the same command goes on" in result.err
    )


def test_progress_is_shown_when_it_takes_long(run, files, model, table, monkeypatch):
    source = parts(files / "in", table)
    assert run("tag", model, source, "-o", files / "quick").err == ""
    monkeypatch.setattr(tag, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(tag, "PLAIN_SECONDS", 0.0)
    lines = run("tag", model, source, "-o", files / "out").err.splitlines()
    assert "0 of 3 files" in lines[0] and "a.parquet  0 %" in lines[0]
    assert "3 of 3 files" in lines[-1] and "100 %" in lines[-1] and "tokens/s" in lines[-1]
    single = run("tag", model, source / "a.parquet", "-o", files / "x.parquet").err.splitlines()
    assert [line.split(" %")[0].split()[-1] for line in single] == ["67", "100"]
