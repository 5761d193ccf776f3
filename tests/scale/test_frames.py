"""Frames of pandas get the labels that ``predict`` gives, partition by partition."""

import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'loglinear[parquet]'")

from loglinear.errors import DataError, OptionError  # noqa: E402
from loglinear.scale import tag_frame  # noqa: E402

COLUMNS = ["tokens", "pos"]


@pytest.fixture
def frame(sentences):
    columns = {
        "tokens": [[word for word, _ in s] for s in sentences],
        "pos": [[tag for _, tag in s] for s in sentences],
    }
    return pd.DataFrame({"id": [7, 8, 9], **columns}, index=["x", "y", "z"])


def test_lists_get_lists_and_the_index_is_kept(frame, model_path, expected):
    found = tag_frame(frame, model_path, columns=COLUMNS, confidence="p")
    assert found["predicted"].tolist() == expected and list(found.index) == ["x", "y", "z"]
    assert list(found.columns) == ["id", *COLUMNS, "predicted", "p"] and "predicted" not in frame
    assert all(0 < p <= 1 for row in found["p"] for p in row)


def test_rows_get_labels(frame, model_path, expected):
    rows = frame.explode(COLUMNS)
    found = tag_frame(rows, model_path, columns=COLUMNS, sentence="id", predicted="tag", confidence="p")
    assert found["tag"].tolist() == [label for labels in expected for label in labels]
    assert found["p"].between(0, 1).all()


def test_partitions_together_are_the_whole_and_empty_ones_have_the_columns(frame, model_path, expected):
    parts = [tag_frame(part, model_path, columns=COLUMNS) for part in (frame[:1], frame[1:1], frame[1:])]
    assert [list(part.columns) for part in parts] == [["id", *COLUMNS, "predicted"]] * 3
    assert pd.concat(parts)["predicted"].tolist() == expected


def test_a_partition_of_empty_sentences_has_empty_labels(frame, model_path):
    empty = frame.assign(tokens=[[]] * 3, pos=[[]] * 3)
    assert tag_frame(empty, model_path, columns=COLUMNS, confidence="p")["predicted"].tolist() == [[]] * 3


def test_numbers_have_names(frame, model_path, expected):
    names = sorted({tag for tags in frame["pos"] for tag in tags})
    numbered = frame.assign(pos=[[names.index(tag) for tag in tags] for tags in frame["pos"]])
    assert tag_frame(numbered, model_path, columns=COLUMNS, names={"pos": names})["predicted"].tolist() == expected


def test_dask_labels_partition_by_partition(frame, model_path, expected, tmp_path):
    dataframe = pytest.importorskip("dask.dataframe", reason="dask is not installed")
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_parquet(tmp_path / "b.parquet")
    how = {"model_path": str(model_path), "columns": COLUMNS}
    whole = dataframe.read_parquet(str(tmp_path))
    found = whole.map_partitions(tag_frame, **how, meta=tag_frame(whole._meta, **how)).compute(scheduler="sync")
    assert found["predicted"].tolist() == expected * 2
    rows = dataframe.from_pandas(frame.explode(COLUMNS).reset_index(drop=True), npartitions=1)
    how |= {"sentence": "id", "confidence": "p"}
    found = rows.map_partitions(tag_frame, **how, meta=tag_frame(rows._meta, **how)).compute(scheduler="sync")
    assert found["predicted"].tolist() == [label for labels in expected for label in labels]


def test_what_is_wrong_is_named(frame, model_path):
    for options, error, message in (
        ({}, DataError, r"the model looks at column 1 \(from 0\)"),
        ({"columns": "tokens"}, OptionError, "give a list of names"),
        ({"columns": []}, OptionError, "names no column"),
        ({"columns": ["tokens", "x"]}, DataError, "there is no column 'x'; there are id, tokens, pos"),
        ({"columns": ["tokens", "id"]}, DataError, "column 'id' is int64, not lists of text or of whole numbers"),
    ):
        with pytest.raises(error, match=message):
            tag_frame(frame, model_path, **options)
    for tokens, message in (
        ([["a", "b", "c"], None, ["d", "e"]], r"row 1 \(from 0\): column 'tokens' is null"),
        ([["a", "b", "c"], ["d"], ["e", "f"]], r"row 1 \(from 0\): 1 entry in 'tokens', but 2 in 'pos'"),
        ([["a", "b", "c"], [1, "d"], ["e", "f"]], "are not text or lists of text"),
        ([None] * 3, r"row 0 \(from 0\): column 'tokens' is null"),
        ([[]] * 3, r"row 0 \(from 0\): 0 entries in 'tokens', but 3 in 'pos'"),
        (["a", "b", "c"], r"column 'tokens' is .*string, not lists of text; if a row is a token, .*sentence=..."),
    ):
        with pytest.raises(DataError, match=message):
            tag_frame(frame.assign(tokens=tokens), model_path, columns=COLUMNS)
