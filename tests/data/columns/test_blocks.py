"""Laws of reading in blocks: where a text is cut changes nothing, neither what is read nor what is refused."""

import gzip
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.data import read_columns, write_columns
from loglinear.data.columns import column_file
from loglinear.data.columns.scanning import Factoriser
from loglinear.data.files import byte_blocks, read_bytes, text_blocks
from loglinear.errors import DataError

LINES = [b"", b"", b"a b", b"c d", b"# b", b"# a = b", b"#", b"# x y z", b"-DOCSTART- O", b"a\tb", "é ü".encode(), b"a"]
line_lists = st.lists(st.sampled_from(LINES), max_size=12)


class Trickle:
    """A raw stream that gives a byte or two at a time, as a pipe may."""

    def __init__(self, raw: bytes) -> None:
        self._stream = io.BytesIO(raw)

    def read(self, size: int = -1) -> bytes:
        return self._stream.read(size if size < 0 else min(size, 2))


def outcome(raw: bytes, size: int, monkeypatch: pytest.MonkeyPatch, **options: object) -> object:
    """What reading in blocks of that size gives: all of the corpus, or the message."""
    monkeypatch.setattr(column_file, "BLOCK", size)
    try:
        corpus = read_columns(io.BytesIO(raw), **options)  # type: ignore[arg-type]
    except DataError as error:
        return str(error)
    out = io.BytesIO()
    write_columns(corpus, out, [["X"] * corpus.n_tokens])
    values = [column.values for column in corpus.columns]
    return corpus.rows(), values, corpus.lines.tolist(), corpus.offsets.tolist(), out.getvalue()


@settings(deadline=None)
@given(line_lists, st.integers(1, 12), st.sampled_from(["auto", "none", "#"]), st.booleans(), st.booleans())
def test_blocks_do_not_show(lines, size, comments, docstart, ended):
    raw = b"\n".join(lines) + (b"\n" if ended else b"")
    with pytest.MonkeyPatch.context() as patch:
        options = {"comments": comments, "docstart": docstart}
        assert outcome(raw, size, patch, **options) == outcome(raw, 1 << 20, patch, **options)


@settings(deadline=None)
@given(st.binary(max_size=60), st.integers(1, 9), st.booleans())
def test_blocks_are_whole_lines_and_all_of_the_text(raw, size, packed):
    stored = gzip.compress(raw, mtime=0) if packed else raw
    if not packed and raw.startswith(b"\x1f\x8b"):
        return
    blocks = list(text_blocks(io.BytesIO(stored), size))
    assert b"".join(blocks) == raw == read_bytes(Trickle(stored))
    assert all(block.endswith(b"\n") for block in blocks[:-1])


def test_a_damaged_end_of_a_compressed_stream_is_refused_when_it_is_met():
    stored = gzip.compress(b"a b\n" * 100_000, mtime=0)[:-9]
    blocks = byte_blocks(io.BytesIO(stored), 100)
    assert next(blocks) == (b"a b\n" * 25)
    with pytest.raises(DataError, match="gzip"):
        list(blocks)


def test_a_corpus_without_its_layout_is_the_same_and_is_written_plainly():
    raw = b"# a = b\nthe D\n\n\ndog N\n"
    lean, whole = (read_columns(io.BytesIO(raw), layout=layout) for layout in (False, True))
    assert lean.layout is None and whole.layout is not None
    assert lean.rows() == whole.rows() and (lean.lines == whole.lines).all()
    out = io.BytesIO()
    write_columns(lean, out)
    assert out.getvalue() == b"the D\n\ndog N\n\n"


@settings(deadline=None)
@given(st.lists(st.lists(st.text(max_size=3), max_size=30), max_size=4))
def test_numbers_of_strings_over_several_blocks(blocks):
    factoriser, index, met = Factoriser(), {}, []
    for strings in blocks:
        packed = [string.encode() for string in strings]
        ends = np.cumsum([len(string) for string in packed], dtype=np.int64)
        begins = ends - np.array([len(string) for string in packed], dtype=np.int64)
        ids = factoriser.ids(np.frombuffer(b"".join(packed), np.uint8), begins, ends)
        assert ids.tolist() == [index.setdefault(string, len(index)) for string in strings]
        met.extend(strings)
    assert factoriser.strings() == list(dict.fromkeys(met))


def test_a_table_that_grows_keeps_its_numbers():
    strings = [f"{k * k % 3001}" for k in range(6000)] * 2
    packed = "".join(strings).encode()
    ends = np.cumsum([len(string) for string in strings], dtype=np.int64)
    begins = ends - np.array([len(string) for string in strings], dtype=np.int64)
    factoriser = Factoriser()
    ids = factoriser.ids(np.frombuffer(packed, np.uint8), begins, ends)
    assert [factoriser.strings()[number] for number in ids.tolist()] == strings
