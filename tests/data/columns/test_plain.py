"""Laws of plain text: a line is a sentence, its tokens what blanks leave."""

import io
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.data import read_text, write_columns
from loglinear.errors import DataError


@settings(deadline=None)
@given(st.lists(st.text("aé# \t", max_size=8)), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_lines_are_sentences_and_blank_lines_none(lines: list[str], end: str, last: bool) -> None:
    raw = (end.join(lines) + end * last).encode()
    expected = [line.split() for line in lines if line.split()]
    if not expected:
        with pytest.raises(DataError, match="no tokens"):
            read_text(io.BytesIO(raw))
        return
    corpus = read_text(io.BytesIO(raw))
    assert corpus.labels(0) == expected
    numbers = [number for number, line in enumerate(lines, 1) for _ in line.split()]
    assert corpus.lines.tolist() == numbers
    with pytest.raises(DataError, match=f":{numbers[0]}: .*no labels"):
        corpus.labels()


def test_text_is_written_as_columns() -> None:
    out = io.BytesIO()
    write_columns(read_text(io.BytesIO(b"the dog\n\nbarks")), out, [["X", "Y", "Z"]])
    assert out.getvalue() == b"the X\ndog Y\n\nbarks Z\n\n"


@settings(deadline=None)
@given(st.binary(max_size=60) | st.text("a\x0b\u00a0\ufeff \t\r\n").map(str.encode))
def test_any_bytes_give_a_corpus_or_an_error(raw: bytes) -> None:
    try:
        corpus = read_text(io.BytesIO(raw))
    except DataError as error:
        assert error.file == "<file>"
        return
    lines = [re.findall("[^ \t]+", line.rstrip(" \t\r")) for line in raw.decode("utf-8-sig").split("\n")]
    assert corpus.labels(0) == [tokens for tokens in lines if tokens]
