"""Laws of column files: what is read, what is refused and where, and that writing keeps every other byte."""

import io
import os
import re
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.data import Columns, read_columns, write_columns
from loglinear.errors import DataError, OptionError

# Fields without blanks, the NUL and surrogates; any other character is a field's own business.
fields = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0 \t\r\n"), min_size=1, max_size=5)
spaced = st.lists(fields, min_size=1, max_size=3).map(" ".join)


def tables(field: st.SearchStrategy[str]) -> st.SearchStrategy[list[list[tuple[str, ...]]]]:
    return st.integers(1, 4).flatmap(
        lambda width: st.lists(st.lists(st.tuples(*[field] * width), min_size=1, max_size=4), min_size=1, max_size=4)
    )


def reading(raw: bytes, **options: object) -> Columns:
    return read_columns(io.BytesIO(raw), **options)  # type: ignore[arg-type]


def written(corpus: Columns, *appended: object) -> bytes:
    out = io.BytesIO()
    write_columns(corpus, out, list(appended))  # type: ignore[arg-type]
    return out.getvalue()


@settings(deadline=None)
@given(tables(fields))
def test_write_then_read_is_the_identity(rows: list[list[tuple[str, ...]]]) -> None:
    raw = written(Columns.from_rows(rows))
    if not raw.startswith(b"\xef\xbb\xbf"):  # a field may begin with U+FEFF, which at the very start is no field
        assert reading(raw, comments="none", docstart=False).rows() == rows


@settings(deadline=None)
@given(tables(spaced))
def test_fields_with_spaces_live_between_tabs(rows: list[list[tuple[str, ...]]]) -> None:
    corpus = Columns.from_rows([[("x y", *row) for row in sentence] for sentence in rows])
    assert reading(written(corpus), separator="tab", comments="none", docstart=False).rows() == corpus.rows()


@settings(deadline=None)
@given(tables(fields), st.data())
def test_layout_never_changes_the_rows_and_appending_keeps_every_byte(
    rows: list[list[tuple[str, ...]]], data: st.DataObject
) -> None:
    blank = st.sampled_from([" ", "\t", "  ", " \t"])
    ends = st.sampled_from(["\n", "\r\n", " \n", "\t \r\n"])
    edge = st.sampled_from(["", " "])
    lines, expected, number = [data.draw(st.sampled_from(["", "\n", " \r\n"]))], [], 0
    for sentence in rows:
        for row in sentence:
            line = data.draw(edge) + row[0]
            for field in row[1:]:
                line += data.draw(blank) + field
            end = data.draw(ends)
            lines.append(line + end)
            expected.append(f"{line}{chr(9) if chr(9) in line else ' '}tag{number}{end}")
            number += 1
        breaks = data.draw(st.lists(ends, min_size=1, max_size=3))
        lines.extend(breaks)
        expected.extend(breaks)
    mark = "\ufeff" if data.draw(st.booleans()) else ""
    if not mark and "".join(lines).startswith("\ufeff"):
        return
    raw = (mark + "".join(lines)).encode()
    corpus = reading(raw, comments="none", docstart=False)
    assert corpus.rows() == rows
    assert written(corpus) == raw
    tags = [f"tag{token}" for token in range(number)]
    assert written(corpus, tags).decode() == mark + lines[0] + "".join(expected)


def test_appended_columns_may_be_strings_pairs_or_columns() -> None:
    corpus = reading(b"a\tb\nc\td\n\ne f\n")
    ids = np.array([1, 0, 1], dtype=np.int32)
    both = written(corpus, ["1", "2", "3"], (ids, ["O", "B"]), corpus.columns[0])
    assert both == b"a\tb\t1\tB\ta\nc\td\t2\tO\tc\n\ne f 3 B e\n"
    with pytest.raises(DataError, match="2 entries"):
        written(corpus, ["1", "2"])
    for bad in ("", "x y", "x\ny", "x\ty"):
        with pytest.raises(DataError, match=r":2: .*cannot be written"):
            written(corpus, ["1", bad, "3"])


def test_document_marks_are_no_tokens_and_get_an_o_per_column() -> None:
    raw = b"-DOCSTART- -X- O\n\na DT B\nb NN I\n-DOCSTART-\nc NN B\n-DOCSTART-x NN O\n"
    corpus = reading(raw)
    assert [[row[0] for row in sentence] for sentence in corpus.rows()] == [["a", "b"], ["c", "-DOCSTART-x"]]
    assert corpus.lines.tolist() == [3, 4, 6, 7]
    assert written(corpus, list("wxyz"), list("wxyz")).startswith(b"-DOCSTART- -X- O O O\n\na DT B w w\nb NN I x x\n")
    assert b"\n-DOCSTART- O O\nc NN B y y\n" in written(corpus, list("wxyz"), list("wxyz"))
    whole = reading(written(corpus, list("wxyz")), docstart=True)
    assert whole.rows() == [
        [(*row, tag) for row, tag in zip(s, t, strict=True)] for s, t in zip(corpus.rows(), ["wx", "yz"], strict=True)
    ]
    assert reading(b"-DOCSTART- O\n\na B\n", docstart=False).n_tokens == 2


@pytest.mark.parametrize(
    ("raw", "comments", "tokens"),
    [
        (b"# # O\nx NN B\n", "auto", "#x"),  # a token of CoNLL-2000
        (b"# a comment of five words\nx NN B\n", "auto", "x"),
        (b"# id = 1\n# text = x\nx NN B I\n", "auto", "x"),
        (b"# newdoc id = 1\nx a b c d\n", "auto", "x"),
        (b"x NN B\n\n# one\n# # O\ny NN B\n", "auto", "x#y"),
        (b"#tag NN B\nx NN B\n", "auto", "#x"),
        (b"#\nx\n", "auto", "#x"),
        (b"# a\n# b\n", "auto", "##"),  # nothing but such lines: rows
        (b"x NN B\n# id = 1\n", "none", None),  # ragged
        (b"# = O\n", "none", "#"),
        (b"%% c\nx NN\n%% c d e\ny NN\n", "%%", "xy"),
        (b"# # O\nx NN B\n", "#", "x"),
        (b"#\tNN\tB\nx\tNN\tB\n", "auto", "#x"),
        (b"-DOCSTART- -X-\n# one two three\nx NN B\n", "auto", "x"),
    ],
)
def test_comments(raw: bytes, comments: str, tokens: str | None) -> None:
    if tokens is None:
        with pytest.raises(DataError):
            reading(raw, comments=comments)
    else:
        corpus = reading(raw, comments=comments)
        assert "".join(row[0][0] for sentence in corpus.rows() for row in sentence) == tokens
        assert written(corpus) == raw


def test_a_hash_inside_a_sentence_is_a_token_or_ragged_never_dropped() -> None:
    assert reading(b"x NN B\n# # O\n").n_tokens == 2
    with pytest.raises(DataError, match=r":2: this row has 4 fields, the first row .line 1. has 3"):
        reading(b"x NN B\n# not a comment\n")


@pytest.mark.parametrize(
    ("raw", "options", "message"),
    [
        (b"", {}, "^<file>: the file holds no tokens"),
        (b"\n \n\t\r\n", {}, "^<file>: the file holds no tokens"),
        (b"\xef\xbb\xbf", {}, "^<file>: the file holds no tokens"),
        (b"-DOCSTART- O\n", {}, "^<file>: the file holds no tokens"),
        (b"a b\n\nc\n", {}, "^<file>:3: this row has 1 field, the first row .line 1. has 2"),
        (b"# x y\na b\nc d e\n", {}, "^<file>:3: this row has 3 fields, the first row .line 2. has 2"),
        (b"a\tb\nNew York\tc\n", {}, "^<file>:2: .*separator tab"),
        (b"a b\nc \xff\n", {}, "^<file>:2: invalid UTF-8"),
        (b"a b\nc \xc3\n", {}, "^<file>:2: invalid UTF-8"),
        (b"a b\nc\0 d\n", {}, "^<file>:2: a NUL"),
        (b"a b\rc d\r", {}, "^<file>:1: a carriage return"),
        ("a b\n".encode("utf-16"), {}, "^<file>:1: .*UTF-16"),
        (b"a\tb\nc\t\td\n", {"separator": "tab"}, "^<file>:2: an empty field"),
        (b"a\tb\n\td\n", {"separator": "tab"}, "^<file>:2: an empty field"),
        (b"a\tb\nc\t\n", {"separator": "tab"}, "^<file>:2: this row has 1 field"),
    ],
)
def test_errors_have_file_and_line(raw: bytes, options: dict[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        reading(raw, **options)


def test_separators() -> None:
    raw = b"New York\tLOC\nin\tO \n"
    assert reading(raw, separator="tab").rows() == [[("New York", "LOC"), ("in", "O")]]
    assert reading(b"a\tb  c\n", separator="space").rows() == [[("a\tb", "c")]]
    assert written(reading(b"a\tb  c\n", separator="space"), ["X"]) == b"a\tb  c X\n"
    assert written(reading(b"a\nb", separator="tab"), ["X Y", "Z"]) == b"a\tX Y\nb\tZ"
    for options in ({"separator": "comma"}, {"comments": ""}, {"comments": " #"}, {"comments": "a\nb"}):
        with pytest.raises(OptionError):
            reading(raw, **options)


@settings(deadline=None, max_examples=300)
@given(
    st.one_of(
        st.binary(max_size=60),
        st.lists(st.sampled_from([b"a", b"#", b" ", b"\t", b"\r", b"\n", b"=", b"-DOCSTART-", "é".encode()])).map(
            b"".join
        ),
    ),
    st.sampled_from(["auto", "tab", "space"]),
    st.sampled_from(["auto", "none", "#", "a"]),
)
def test_any_bytes_give_a_corpus_or_an_error(raw: bytes, separator: str, comments: str) -> None:
    try:
        corpus = reading(raw, separator=separator, comments=comments)
    except DataError as error:
        assert error.file == "<file>"
        return
    assert written(corpus) == raw
    widths = {len(row) for sentence in corpus.rows() for row in sentence}
    assert widths == {corpus.n_columns} and all(corpus.rows()) and corpus.n_tokens > 0
    assert all(value for column in corpus.columns for value in column.values)


def test_many_distinct_values_grow_the_table() -> None:
    words = [f"w{number * 7919 % 100_003}" for number in range(20_000)] * 2
    corpus = reading("\n".join(words).encode())
    assert corpus.columns[0].strings() == words
    assert len(corpus.columns[0].values) == 20_000


def data_folder() -> Path:
    default = Path(__file__).parents[3].parent / "shared" / "data"
    return Path(os.environ.get("LOGLINEAR_DATA", default))


def test_conll2000_reads_whole_exactly_and_fast() -> None:
    path = data_folder() / "conll2000" / "train.txt"
    if not path.exists():
        pytest.skip("LOGLINEAR_DATA has no conll2000/train.txt")
    read_columns(path)
    start = time.perf_counter()
    corpus = read_columns(path)
    seconds = time.perf_counter() - start
    assert (corpus.n_tokens, corpus.n_sentences) == (211_727, 8_936)
    assert [len(column.values) for column in corpus.columns] == [19_122, 44, 22]
    blocks = re.split(r"\n\n", path.read_text().strip())
    assert corpus.rows() == [[tuple(line.split()) for line in block.split("\n")] for block in blocks]
    assert seconds < 1.0  # about 0.05 s on an idle core; the bound only catches a loop in Python
