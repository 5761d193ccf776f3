"""Laws of JSON Lines: round trips, kept keys, errors with file and line."""

import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.data import Columns, read_columns, read_jsonl, write_columns, write_jsonl
from loglinear.errors import DataError

strings = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)


def reading(raw: bytes) -> Columns:
    return read_jsonl(io.BytesIO(raw))


def written(corpus: Columns, **extra: list[object]) -> bytes:
    out = io.BytesIO()
    write_jsonl(corpus, out, extra)
    return out.getvalue()


@settings(deadline=None)
@given(
    st.integers(1, 3).flatmap(
        lambda width: st.lists(st.lists(st.tuples(*[strings] * width), min_size=1, max_size=3), min_size=1, max_size=3)
    )
)
def test_write_then_read_is_the_identity(rows: list[list[tuple[str, ...]]]) -> None:
    raw = written(Columns.from_rows(rows))
    again = reading(raw)
    assert again.rows() == rows
    assert written(again) == raw
    assert again.lines.tolist() == [number for number, sentence in enumerate(rows, 1) for _ in sentence]


def test_labels_are_the_last_column_when_every_record_has_them() -> None:
    both = reading(b'{"tokens": ["a", "b"], "labels": ["X", "Y"]}\n\n{"labels": ["X"], "tokens": ["c"]}\r\n')
    assert both.rows() == [[("a", "X"), ("b", "Y")], [("c", "X")]]
    assert both.labels() == [["X", "Y"], ["X"]] and both.lines.tolist() == [1, 1, 3]
    some = reading(b'{"tokens": ["a"], "labels": ["X"]}\n{"tokens": ["b"], "labels": null}\n')
    assert some.rows() == [[("a",)], [("b",)]]
    with pytest.raises(DataError, match=r"^<file>:2: .*no labels"):
        some.labels()
    rows = reading(b'{"tokens": [["a", "DT"], ["b", "NN"]]}')
    assert rows.rows() == [[("a", "DT"), ("b", "NN")]]


def test_other_keys_are_kept_and_extra_keys_added() -> None:
    raw = '\ufeff{"id": 7, "tokens": ["é"], "note": {"x": [1.5, null, "\\ud800"]}}\n{"tokens": ["b"]}\n'.encode()
    corpus = reading(raw)
    records = [json.loads(line) for line in written(corpus, labels=[["X"], ["Y"]], p=[0.5, 1]).splitlines()]
    assert records[0] == {"id": 7, "tokens": ["é"], "note": {"x": [1.5, None, "\ud800"]}, "labels": ["X"], "p": 0.5}
    assert records[1] == {"tokens": ["b"], "labels": ["Y"], "p": 1}
    part = [json.loads(line) for line in written(corpus.select([1]), p=[3]).splitlines()]
    assert part == [{"tokens": ["b"], "p": 3}]
    with pytest.raises(DataError, match="1 entry"):
        written(corpus, p=[1])


def test_column_files_and_json_lines_say_the_same() -> None:
    corpus = read_columns(io.BytesIO(b"a DT B\nb NN I\n\nc NN B\n"))
    again = reading(written(corpus))
    assert again.rows() == corpus.rows()
    out = io.BytesIO()
    write_columns(again, out)
    assert out.getvalue() == b"a DT B\nb NN I\n\nc NN B\n\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "no valid JSON"),
        ("[" * 100_000, "no valid JSON"),
        ('{"tokens": [' + "1" * 5000 + "]}", "no valid JSON"),
        ('{"tokens": ["a"], "x": NaN}', "NaN is not JSON"),
        ("[]", "must be an object"),
        ("{}", '"tokens" is missing'),
        ('{"tokens": []}', "not empty"),
        ('{"tokens": "a b"}', "must be a list"),
        ('{"tokens": ["a", 1]}', "token 1 .*not 1"),
        ('{"tokens": ["a", ["b", 1]]}', "token 1"),
        ('{"tokens": ["a", []]}', "token 1"),
        ('{"tokens": ["a", ["b", "c"]]}', "different lengths"),
        ('{"tokens": [["b", "c"]]}', "different lengths.*line 1. has 1"),
        ('{"tokens": ["a"], "labels": ["X", "Y"]}', "1 token but 2 labels"),
        ('{"tokens": ["a"], "labels": [1]}', "list of strings"),
        ('{"tokens": ["a"], "labels": "X"}', "list of strings"),
        ('{"tokens": ["\\ud800"]}', "not valid Unicode"),
    ],
)
def test_errors_have_file_and_line(line: str, message: str) -> None:
    with pytest.raises(DataError, match=f"^<file>:3: .*{message}"):
        reading(f'{{"tokens": ["a"]}}\n\n{line}\n'.encode())


@pytest.mark.parametrize("raw", [b"", b"\n \n"])
def test_an_empty_file_is_an_error(raw: bytes) -> None:
    with pytest.raises(DataError, match=r"^<file>: the file holds no sentences"):
        reading(raw)


pieces = [
    b"{",
    b"}",
    b"[",
    b"]",
    b'"tokens"',
    b'"labels"',
    b":",
    b",",
    b'"a"',
    b"1",
    b"\n",
    b" ",
    b"null",
    b'"\\ud800"',
]


@settings(deadline=None, max_examples=300)
@given(st.one_of(st.binary(max_size=60), st.lists(st.sampled_from(pieces)).map(b"".join)))
def test_any_bytes_give_a_corpus_or_an_error(raw: bytes) -> None:
    try:
        corpus = reading(raw)
    except DataError as error:
        assert error.file == "<file>"
        return
    assert reading(written(corpus)).rows() == corpus.rows()
