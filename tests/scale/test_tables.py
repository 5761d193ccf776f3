"""Labels of Parquet and Arrow files are those of ``Tagger.predict``, and all else of the files is kept."""

from __future__ import annotations

import io
import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'loglinear[parquet]'")
import pyarrow.parquet as pq  # noqa: E402

from loglinear import Tagger, read_columns  # noqa: E402
from loglinear.data import read  # noqa: E402
from loglinear.data.columns import arrow_file  # noqa: E402
from loglinear.errors import DataError, LoglinearError, OptionError  # noqa: E402
from loglinear.estimators.tagger.predict import LoadedTagger  # noqa: E402
from loglinear.scale import tables  # noqa: E402
from loglinear.scale.tables import Labelling, check_alike, tag_file  # noqa: E402
from problems.corpus import TRAIN  # noqa: E402

WORDS, TAGS = ["the", "dog", "barks", "Anna", "sees", ".", "été", "a cat"], ["D", "N", "V", "P"]


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.model"
    Tagger(template="chunking", l2=0.01).fit(read_columns(io.BytesIO(TRAIN.encode()))).save(path)
    return LoadedTagger.load(path, threads=1)


tokens = st.tuples(st.sampled_from(WORDS), st.sampled_from(TAGS))
corpora = st.lists(st.lists(tokens, max_size=4), min_size=1, max_size=9)


def as_lists(sentences):
    rows = range(len(sentences))
    return pa.table(
        {
            "id": [f"ü{i}" if i % 2 else None for i in rows],
            "tokens": pa.array([[word for word, _ in sentence] for sentence in sentences], pa.list_(pa.string())),
            "vector": pa.array([[0.5 * i] for i in rows], pa.list_(pa.float64())),
            "pos": pa.array([[tag for _, tag in s] for s in sentences], pa.list_(pa.string())),
            "more": pa.array([{"x": i} for i in rows], pa.struct({"x": pa.int32()})),
        }
    )


def as_rows(sentences, first_alone=False):
    names = [
        i if t == 0 or not first_alone else None for i, sentence in enumerate(sentences) for t in range(len(sentence))
    ]
    rows = [row for sentence in sentences for row in sentence]
    return pa.table(
        {
            "word": pa.array([word for word, _ in rows], pa.string()),
            "score": np.arange(len(rows)) / 7,
            "pos": pa.array([tag for _, tag in rows], pa.string()).dictionary_encode(),
            "sent_id": pa.array(names, pa.int64()),
        }
    )


def tagged(tagger, tmp_path, table, size, kind="parquet", how=Labelling(), **naming):  # noqa: B008
    """The labelled file of a table with parts of that many rows."""
    source, target = tmp_path / f"in.{kind}", tmp_path / f"out.{kind}"
    if kind == "parquet":
        pq.write_table(table, source, row_group_size=size, compression="gzip")
    else:
        with pa.OSFile(str(source), "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
            writer.write_table(table, max_chunksize=size)
    counts = tag_file(tagger, str(source), target, kind, naming, how)
    return target, counts


def check_parts(source, target, kind):
    """Rows, names and contents of the parts are those of the source, and the new columns come last."""
    with arrow_file.ArrowFile(str(source), kind) as one, arrow_file.ArrowFile(str(target), kind) as two:
        for mine, other in zip(one.parts(), two.parts(), strict=True):
            names = mine.table.column_names
            assert other.table.column_names[: len(names)] == names
            assert other.table.select(names).replace_schema_metadata(None) == mine.table.replace_schema_metadata(None)
            yield other.table


@settings(max_examples=40)
@given(corpora, st.integers(1, 10), st.sampled_from(["parquet", "arrow"]), st.integers(1, 50))
def test_lists_get_lists_of_the_labels_that_predict_gives(tagger, tmp_path_factory, sentences, size, kind, block):
    folder, table = tmp_path_factory.mktemp("lists"), as_lists(sentences)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrow_file, "BLOCK", block)
        target, counts = tagged(tagger, folder, table, size, kind, Labelling(confidence=True))
    found = pa.concat_tables(check_parts(folder / f"in.{kind}", target, kind))
    assert found.column("predicted").to_pylist() == tagger.predict(sentences)
    marginals = tagger.predict_marginals(sentences)
    for labels, row, own in zip(
        tagger.predict(sentences), found.column("confidence").to_pylist(), marginals, strict=True
    ):
        assert row == pytest.approx([each[label] for label, each in zip(labels, own, strict=True)], abs=1e-6)
    assert counts.rows == table.num_rows and counts.tokens == sum(map(len, sentences))


@settings(max_examples=40)
@given(corpora, st.integers(1, 10), st.sampled_from(["parquet", "arrow"]), st.integers(1, 50), st.booleans())
def test_rows_get_labels_though_sentences_go_on_in_the_next_part(
    tagger, tmp_path_factory, sentences, size, kind, block, first_alone
):
    sentences = [sentence for sentence in sentences if sentence]
    folder, table = tmp_path_factory.mktemp("rows"), as_rows(sentences, first_alone)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "BLOCK", block)
        target, counts = tagged(tagger, folder, table, size, kind, Labelling(confidence=True))
    parts = list(check_parts(folder / f"in.{kind}", target, kind))
    labels = [label for part in parts for label in part.column("predicted").to_pylist()]
    assert labels == [label for sentence in tagger.predict(sentences) for label in sentence]
    assert counts.rows == counts.tokens == table.num_rows


def in_runs(cuts):
    """Labels parts of a file in runs that begin at these parts, each on its own."""

    def parts(tables, file):
        bounds = sorted({0, *(cut for cut in cuts if cut < file.n_parts), file.n_parts})
        runs = []
        for first, end in itertools.pairwise(bounds):
            with arrow_file.ArrowFile(file.name, file.format) as other:
                runs.append(tables.run(other, first, end))
        yield from tables.joined(file, iter(runs))

    return parts


@settings(max_examples=60)
@given(
    corpora, st.integers(1, 6), st.sampled_from(["parquet", "arrow"]), st.sampled_from(["lists", "rows", "first"]),
    st.lists(st.integers(1, 12), max_size=4),
)  # fmt: skip
def test_a_file_labelled_in_runs_of_parts_has_the_same_bytes(
    tagger, tmp_path_factory, sentences, size, kind, how, cuts
):
    folder = tmp_path_factory.mktemp("runs")
    sentences = sentences if how == "lists" else [s for s in sentences if s]
    table = as_lists(sentences) if how == "lists" else as_rows(sentences, first_alone=how == "first")
    whole, _ = tagged(tagger, folder, table, size, kind, Labelling(confidence=True))
    source, target = str(folder / f"in.{kind}"), folder / f"runs.{kind}"
    tag_file(tagger, source, target, kind, {}, Labelling(confidence=True), parts=in_runs(cuts))
    assert target.read_bytes() == whole.read_bytes()


def test_row_groups_empty_ones_notes_and_the_compression_are_kept(tagger, tmp_path):
    table = as_lists([[("the", "D"), ("dog", "N")], []] * 4).replace_schema_metadata({"note": "ü"})
    with pq.ParquetWriter(tmp_path / "in.parquet", table.schema, compression="zstd") as writer:
        for part in (table.slice(0, 3), table.slice(0, 0), table.slice(3, 5)):
            writer.write_table(part)
    tag_file(tagger, str(tmp_path / "in.parquet"), tmp_path / "out.parquet", "parquet")
    metadata = pq.read_metadata(tmp_path / "out.parquet")
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [3, 0, 5]
    assert metadata.row_group(0).column(0).compression == "ZSTD"
    assert pq.read_schema(tmp_path / "out.parquet").metadata[b"note"] == "ü".encode()


def test_files_without_rows_or_parts_come_out_with_the_new_columns(tagger, tmp_path):
    for table in (as_lists([[]]).slice(0, 0), as_rows([[("a", "D")]]).slice(0, 0)):
        for kind in ("parquet", "arrow"):
            target, counts = tagged(tagger, tmp_path, table, 5, kind)
            with arrow_file.ArrowFile(str(target), kind) as file:
                assert file.schema.names == [*table.column_names, "predicted"] and counts[:2] == (0, 0)


def test_a_stream_of_arrow_comes_out_as_a_stream(tagger, tmp_path):
    table = as_lists([[("the", "D")], [("dog", "N")]])
    with pa.OSFile(str(tmp_path / "in.arrow"), "wb") as out, pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table, max_chunksize=1)
    tag_file(tagger, str(tmp_path / "in.arrow"), tmp_path / "out.arrow", "arrow")
    with pa.OSFile(str(tmp_path / "out.arrow")) as file:
        batches = list(pa.ipc.open_stream(file))
    assert [batch.num_rows for batch in batches] == [1, 1] and batches[0].schema.names[-1] == "predicted"


def test_a_name_that_is_taken_gets_an_underscore(tagger, tmp_path):
    table = as_lists([[("the", "D")]]).append_column("predicted", pa.array([["X"]]))
    target, _ = tagged(tagger, tmp_path, table, 1)
    assert pq.read_table(target).column_names[-2:] == ["predicted", "predicted_"]


def test_columns_that_the_model_does_not_look_at_may_hold_anything(tagger, tmp_path):
    table = as_lists([[("the", "D"), ("dog", "N")]] * 2)
    table = table.append_column("ids", pa.array([[1, 2, 3], None])).append_column("tags", pa.array([["x"], [None]]))
    target, _ = tagged(tagger, tmp_path, table, 1)
    assert pq.read_table(target).column("ids").to_pylist() == [[1, 2, 3], None]
    with pytest.raises(DataError, match=r":1: 2 entries in 'tokens', but 3 in 'ids'"):
        read(tmp_path / "in.parquet")


def test_labels_that_are_given_are_kept(tagger, tmp_path):
    table = as_lists([[("the", "D"), ("dog", "N")]] * 2).append_column(
        "gold", pa.array([["*", "B-VP"], ["O|B-VP", "*"]])
    )
    for column in (-1, 2, "gold"):
        target, _ = tagged(tagger, tmp_path, table, 1, how=Labelling(label_column=column))
        found = pq.read_table(target).column("predicted").to_pylist()
        expected = tagger.predict([[("the", "D"), ("dog", "N")]] * 2, given=[[None, "B-VP"], [{"O", "B-VP"}, None]])
        assert found == expected and found[0][1] == "B-VP"
    with pytest.raises(OptionError, match=r"--force takes labels from column 1 .* which the model uses as input"):
        tagged(tagger, tmp_path, table, 1, how=Labelling(label_column="pos"))
    wrong = table.set_column(table.num_columns - 1, "gold", pa.array([["*", "*"], ["*", "B-XX"]]))
    with pytest.raises(DataError, match=r"in.parquet:2: label 'B-XX' is not one of the model's labels"):
        tagged(tagger, tmp_path, wrong, 1, how=Labelling(label_column=-1))


def test_what_is_wrong_in_a_later_part_is_named_and_nothing_is_written(tagger, tmp_path):
    table = as_lists([[("the", "D"), ("dog", "N")]] * 7)
    for column, values, message in (
        ("tokens", [["a", "b"]] * 5 + [None] + [["a", "b"]], r"in.parquet:6: column 'tokens' is null"),
        ("pos", [["D", "N"]] * 5 + [["D"]] + [["D", "N"]], r"in.parquet:6: 2 entries in 'tokens', but 1 in 'pos'"),
        ("pos", [["D", "N"]] * 5 + [["D", None]] + [["D", "N"]], r"in.parquet:6: entry 1 \(from 0\) of column 'pos'"),
    ):
        place = table.schema.get_field_index(column)
        wrong = table.set_column(place, column, pa.array(values, pa.list_(pa.string())))
        with pytest.raises(DataError, match=message):
            tagged(tagger, tmp_path, wrong, 2)
        assert [path.name for path in tmp_path.iterdir()] == ["in.parquet"]
    with pytest.raises(DataError, match=r"the model looks at column 1 \(from 0\), .* but there is only tokens"):
        tagged(tagger, tmp_path, table.select(["tokens"]), 2)


def test_damaged_files_end_in_one_sentence_and_nothing_is_written(tagger, tmp_path):
    draw = random.Random(3)
    table = as_lists([[("the", "D"), ("dog", "N")]] * 7)
    source, _ = tagged(tagger, tmp_path, table, 2)
    whole = source.read_bytes()
    source.unlink()
    for _ in range(60):
        raw, place = whole, draw.randrange(len(whole) - 9)
        if draw.random() < 0.3:
            raw = raw[:place] + raw[place + draw.randrange(1, 9) :]
        (tmp_path / "in.parquet").write_bytes(raw[:place] + bytes([draw.randrange(256)]) + raw[place + 1 :])
        try:
            tag_file(tagger, str(tmp_path / "in.parquet"), tmp_path / "out.parquet", "parquet")
            (tmp_path / "out.parquet").unlink()
        except LoglinearError as error:
            assert "\n" not in str(error)
        assert [path.name for path in tmp_path.iterdir()] == ["in.parquet"]


def test_files_of_one_run_have_the_same_columns(tagger, tmp_path):
    table = as_lists([[("the", "D"), ("dog", "N")]] * 3)
    pq.write_table(table, tmp_path / "a.parquet")
    pq.write_table(table.select(["more", "tokens", "pos"]), tmp_path / "b.parquet")
    pq.write_table(table.append_column("zz", table.column("pos")), tmp_path / "c.parquet")
    files = {str(tmp_path / f"{name}.parquet"): "parquet" for name in "abc"}
    assert check_alike(tagger, files, {}, Labelling()) == 9
    renamed = table.rename_columns(["id", "tokens", "vector", "tags", "more"])
    pq.write_table(renamed, tmp_path / "d.parquet")
    with pytest.raises(DataError, match=r"d.parquet: .* are tokens, tags here, but tokens, pos in .*a.parquet"):
        check_alike(tagger, {**files, str(tmp_path / "d.parquet"): "parquet"}, {}, Labelling())
