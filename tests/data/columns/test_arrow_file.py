"""Parquet and Arrow files: what is written is read back, however it is cut into parts; what is wrong is named."""

from __future__ import annotations

import gzip
import io
import json
import random
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'loglinear[parquet]'")
import pyarrow.feather as feather  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

from loglinear.data import Columns, read, write_arrow_columns  # noqa: E402
from loglinear.data.columns import arrow_file, sniffed_source  # noqa: E402
from loglinear.data.columns.table_file import corpus_of_table  # noqa: E402
from loglinear.data.tables import TableFile  # noqa: E402
from loglinear.errors import DataError, LoglinearError, OptionError  # noqa: E402

word = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)
KINDS = ("parquet", "file", "stream")


def written(table, kind: str, size: int = 3) -> bytes:
    """A table as the bytes of a file with parts of that many rows."""
    out = io.BytesIO()
    if kind == "parquet":
        pq.write_table(table, out, row_group_size=size)
    else:
        make = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
        with make(out, table.schema) as writer:
            writer.write_table(table, max_chunksize=size)
    return out.getvalue()


def read_back(table, kind: str = "parquet", size: int = 3, **options):
    return read(io.BytesIO(written(table, kind, size)), "parquet" if kind == "parquet" else "arrow", **options)


@given(st.lists(st.lists(st.tuples(word, word), max_size=4), max_size=8), st.sampled_from(KINDS), st.integers(1, 9))
def test_lists_are_read_back_without_empty_sentences_whatever_the_parts(sentences, kind, size):
    lists = [[[row[c] for row in sentence] for sentence in sentences] for c in range(2)]
    text = pa.list_(pa.string())
    table = pa.table(
        {"tokens": pa.array(lists[0], text), "n": [1.5] * len(sentences), "tags": pa.array(lists[1], text)}
    )
    kept = [sentence for sentence in sentences if sentence]
    if not kept:
        with pytest.raises(DataError, match="holds no sentences"):
            read_back(table, kind, size)
        return
    corpus = read_back(table, kind, size)
    assert corpus.rows() == kept and corpus.names == ["tokens", "tags"]
    numbers = [i for i, sentence in enumerate(sentences, 1) for _ in sentence]
    assert corpus.lines.tolist() == numbers


@st.composite
def long_tables(draw):
    """Rows with names of sentences as people write them: in each row, or in the first alone."""
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    everywhere, numbered = draw(st.booleans()), draw(st.booleans())
    names = [
        (i + 1 if numbered else f"s{i}") if everywhere or t == 0 else None
        for i, n in enumerate(lengths)
        for t in range(n)
    ]
    tokens = draw(st.lists(word.filter(str.strip), min_size=sum(lengths), max_size=sum(lengths)))
    return names, tokens


@given(long_tables(), st.sampled_from(KINDS), st.integers(1, 9))
def test_long_tables_have_the_sentences_that_csv_has(rows, kind, size):
    names, tokens = rows
    table = pa.table({"sentence_id": names, "word": tokens, "tag": tokens})
    corpus = read_back(table, kind, size)
    cells = ["" if name is None else str(name) for name in names]
    expected = corpus_of_table(TableFile("x", {"sentence": cells, "word": tokens, "tag": tokens}, [0] * len(tokens)))
    assert corpus.rows() == expected.rows()


@given(st.lists(st.lists(st.tuples(word, word), min_size=1, max_size=4), min_size=1, max_size=8))
def test_a_corpus_that_is_written_is_read_back(sentences):
    corpus = Columns.from_rows(sentences)
    for format in ("parquet", "arrow"):
        out = io.BytesIO()
        write_arrow_columns(corpus, out, format, {"p": np.arange(corpus.n_tokens, dtype=float)})
        assert read(io.BytesIO(out.getvalue()), format).rows() == corpus.rows()


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.large_string()),
        pa.large_list(pa.string()),
        pa.list_(pa.dictionary(pa.int8(), pa.string())),
        pa.list_(pa.string(), 2),
        pa.list_(pa.string_view()),
    ],
    ids=str,
)
def test_text_may_have_any_of_arrows_types(kind):
    plain = pa.table({"tokens": [["a", "b"], ["b", "ü"]]})
    table = plain.set_column(0, "tokens", pa.array([["a", "b"], ["b", "ü"]], kind))
    assert read_back(table, "file").rows() == read_back(plain).rows() == [[("a",), ("b",)], [("b",), ("ü",)]]


def test_slices_of_tables_are_read_as_they_are():
    table = pa.table({"tokens": [["x"], ["a", "b"], ["c"], ["y"]], "tags": [["1"], ["2", "3"], ["4"], ["5"]]})
    schema = arrow_file.TokenSchema.of(table.schema)
    assert schema.corpus(table.slice(1, 2)).rows() == [[("a", "2"), ("b", "3")], [("c", "4")]]


def test_values_are_in_the_order_of_their_first_occurrence_as_in_other_formats():
    tags = pa.array(["z", "a", "z"]).dictionary_encode()
    table = pa.table({"sentence": [1, 1, 1], "word": ["b", "a", "b"], "tag": tags})
    corpus = read_back(table, "file", size=1)
    assert [column.values for column in corpus.columns] == [["b", "a"], ["z", "a"]]


def test_numbers_are_digits_or_get_the_names_that_are_given_or_noted():
    table = pa.table({"tokens": [["a", "b"]], "pos": [[1, 0]], "ner_tags": [[0, 1]]})
    assert read_back(table).rows() == [[("a", "1", "0"), ("b", "0", "1")]]
    assert read_back(table, label_names=["O", "PER"]).labels() == [["O", "PER"]]
    assert read_back(table, labels="POS", label_names=["D", "N"]).rows() == [[("a", "N", "0"), ("b", "D", "1")]]
    feature = {"feature": {"names": ["O", "LOC"], "_type": "ClassLabel"}, "_type": "Sequence"}
    noted = json.dumps({"info": {"features": {"ner_tags": feature, "pos": 3}}})
    with_notes = table.replace_schema_metadata({"huggingface": noted})
    assert read_back(with_notes).labels() == [["O", "LOC"]]
    assert read_back(with_notes, label_names=["A", "B"]).labels() == [["A", "B"]]
    for damaged in ("[", "[]", '{"info": 1}', '{"info": {"features": []}}'):
        assert read_back(table.replace_schema_metadata({"huggingface": damaged})).labels() == [["0", "1"]]


def test_columns_are_found_by_name_and_type():
    lists = pa.table({"text": ["a b"], "words": [["a", "b"]], "id": [7], "vector": [[0.5, 1.5]], "tags": [["X", "Y"]]})
    assert read_back(lists).names == ["words", "tags"]
    both = pa.table({"sent": [1, 1], "token": ["a", "b"], "form": ["c", "d"], "tags": [["X"], ["Y"]], "n": [1, 2]})
    assert read_back(both).names == ["token", "form", "n"]
    assert read_back(both, tokens="form").names == ["form", "token", "n"]


def test_files_are_recognised_by_name_or_content(tmp_path):
    table = pa.table({"tokens": [["a", "b"]]})
    pq.write_table(table, tmp_path / "a.parquet")
    pq.write_table(table, tmp_path / "data")
    feather.write_feather(table, tmp_path / "a.feather")
    (tmp_path / "stream").write_bytes(written(table, "stream"))
    (tmp_path / "b.parquet.gz").write_bytes(gzip.compress((tmp_path / "a.parquet").read_bytes()))
    for path in tmp_path.iterdir():
        assert read(path).rows() == [[("a",), ("b",)]], path
        with open(path, "rb") as stream:
            assert read(stream).rows() == [[("a",), ("b",)]], path
    assert sniffed_source(tmp_path / "data")[0] == "parquet" and sniffed_source(tmp_path / "stream")[0] == "arrow"


BAD = {
    "null row": ({"tokens": [["a"], None]}, {}, ":2: column 'tokens' is null; every row needs a list of tokens"),
    "null token": ({"tokens": [["a"], ["b", None]]}, {}, ":2: entry 1 .from 0. of column 'tokens' is null"),
    "null label": ({"tokens": [["a"], ["b", "c"]], "tags": [["X"], ["X", None]]}, {}, ":2: "),
    "lengths": (
        {"tokens": [["a"], ["b", "c"]], "tags": [["X"], ["Y"]]},
        {},
        ":2: 2 entries in 'tokens', but 1 in 'tags'",
    ),
    "null in a long table": ({"sent": [1, 1], "word": ["a", None]}, {}, ":2: column 'word' is null"),
    "blank token": ({"sent": [1, 1], "word": ["a", " "]}, {}, ":2: column 'word' is empty; a row is a token"),
    "back": ({"sent": [1, 2, 1], "word": ["a", "b", "c"]}, {}, ":3: sentence '1' comes back after others"),
    "no sentences named": ({"text": ["a b"]}, {}, "holds a text a row, and no column is called as usual"),
    "no tokens named": ({"x": [["a"]]}, {}, "no column of text is called as usual for tokens .*; there are x"),
    "numbers": ({"tokens": [[1]]}, {"tokens": "tokens"}, "column 'tokens' is list<.*>, not text or lists of text"),
    "no column": ({"tokens": [["a"]]}, {"tokens": "words"}, "no column 'words' .--token-column.; there are tokens"),
    "both": ({"tokens": [["a"]], "id": [1]}, {"tokens": "tokens", "sentence": "id"}, "leave out --sentence-column"),
    "sentence type": ({"word": ["a"], "sent": [0.5]}, {}, "column 'sent' is double; a sentence is named by text or a"),
    "no name": ({"tokens": [["a"]], "t": [[2]]}, {"label_names": ["O", "I"]}, ":1: column 't': 2 has no name"),
    "nothing": ({"tokens": [[]]}, {}, "the file holds no sentences"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "options", "message"), BAD.values(), ids=list(BAD))
def test_what_is_wrong_is_named_with_its_row(tmp_path, content, options, message):
    table = pa.table(content)
    if content == {"tokens": [[]]}:
        table = table.cast(pa.schema({"tokens": pa.list_(pa.string())}))
    pq.write_table(table, tmp_path / "bad.parquet", row_group_size=1)
    with pytest.raises(DataError, match=message) as caught:
        read(tmp_path / "bad.parquet", **options)
    assert str(caught.value).startswith(str(tmp_path / "bad.parquet")) and "\n" not in str(caught.value)


def test_text_that_is_not_utf8_is_named():
    buffers = [None, pa.py_buffer(np.array([0, 1, 3], np.int32)), pa.py_buffer(b"a\xff\xfe")]
    words = pa.Array.from_buffers(pa.string(), 2, buffers)
    table = pa.table({"sent": [1, 1], "word": words})
    with pytest.raises(DataError, match=r"2: column 'word': invalid UTF-8 \(byte 0xff\)"):
        read_back(table, "parquet")
    with pytest.raises(DataError, match=r"record batch 1 \(after row 0\) is damaged: .*UTF8"):
        read_back(table, "file")


def test_a_damaged_part_in_the_middle_is_named(tmp_path):
    words = [f"w{i}" for i in range(3000)]
    table = pa.table({"sent": list(range(3000)), "word": words})
    path = tmp_path / "cut.parquet"
    pq.write_table(table, path, row_group_size=1000, write_page_checksum=True, compression="none", use_dictionary=False)
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"w1500")] = ord("v")
    path.write_bytes(raw)
    with pytest.raises(DataError, match=r"cut.parquet: row group 2 \(after row 1,000\) is damaged: .*CRC"):
        read(path)


@pytest.mark.parametrize("kind", KINDS)
def test_truncated_and_changed_files_are_errors_or_right(tmp_path, kind):
    table = pa.table({"tokens": [["a", "b"], ["c"], ["d"]] * 3, "tags": [["X", "Y"], ["Z"], ["X"]] * 3})
    whole, draw = written(table, kind), random.Random(1)
    for size in {0, 1, 4, 8, 12, *range(20, len(whole), 97)}:
        for raw in (whole[:size], whole[:size] + bytes([draw.randrange(256)]) + whole[size + 1 :]):
            (tmp_path / "x").write_bytes(raw)
            try:
                read(tmp_path / "x", "parquet" if kind == "parquet" else "arrow")
            except LoglinearError as error:
                assert str(error).startswith(str(tmp_path / "x")) and "\n" not in str(error)


@pytest.mark.parametrize(("name", "content", "message"), [
    ("a.parquet", b"word tag\n", "not a Parquet file: "),
    ("a.parquet", b"", "the file is empty, not a Parquet file"),
    ("a.arrow", b"FEA1xxxxxxxx", "Feather files of version 1 are not read"),
    ("a.feather", b"hello, hello, hello", "not an Arrow file .IPC, Feather.: "),
])  # fmt: skip
def test_other_files_are_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        read(tmp_path / name)
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read(tmp_path / f"no-{name}")


def test_without_pyarrow_the_error_has_the_line_to_type(tmp_path, monkeypatch):
    pq.write_table(pa.table({"tokens": [["a"]]}), tmp_path / "a.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(OptionError, match=r"pip install 'loglinear\[parquet\]'"):
        read(tmp_path / "a.parquet")


@settings(max_examples=20)
@given(st.lists(st.lists(word, max_size=5), min_size=1, max_size=20), st.integers(1, 7))
def test_blocks_are_the_table_in_pieces_of_few_tokens(sentences, most):
    table = pa.table({"tokens": pa.array(sentences, pa.list_(pa.string()))})
    schema = arrow_file.TokenSchema.of(table.schema)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrow_file, "BLOCK", most)
        blocks = list(schema.blocks(table))
    assert pa.concat_tables(blocks).equals(table)
    assert all(block.num_rows == 1 or len(block.column(0).combine_chunks().flatten()) <= most for block in blocks)
