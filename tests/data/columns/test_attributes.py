"""Laws of CRFsuite files: round trips, escapes, values, weights of sequences, errors with file and line."""

import io

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from loglinear.data import Attributes, Column, read_attributes, write_attributes
from loglinear.errors import DataError

names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\t\r\n"), min_size=1, max_size=4)
names = names | st.text("a:\\#@ ", min_size=1, max_size=4)
weights = st.one_of(st.just(1.0), st.floats(-1e15, 1e15))
Token = tuple[str, list[tuple[str, float]]]


def reading(raw: bytes, labels: bool = True) -> Attributes:
    return read_attributes(io.BytesIO(raw), labels)


def written(corpus: Attributes) -> bytes:
    out = io.BytesIO()
    write_attributes(corpus, out)
    return out.getvalue()


def tokens(corpus: Attributes) -> list[list[Token]]:
    """The corpus as Python data."""
    values = np.ones(len(corpus.ids)) if corpus.weights is None else corpus.weights
    labels = [""] * corpus.n_tokens if corpus.label is None else corpus.label.strings()
    flat = []
    for t in range(corpus.n_tokens):
        span = slice(corpus.pointer[t], corpus.pointer[t + 1])
        bag = zip(corpus.ids[span].tolist(), values[span].tolist(), strict=True)
        flat.append((labels[t], [(corpus.values[number], value) for number, value in bag]))
    return [flat[a:b] for a, b in zip(corpus.offsets, corpus.offsets[1:], strict=False)]


def corpus_of(sentences: list[list[Token]], labels: bool = True) -> Attributes:
    flat = [token for sentence in sentences for token in sentence]
    pairs = [pair for _, bag in flat for pair in bag]
    column = Column.from_strings(name for name, _ in pairs)
    return Attributes(
        name="<python>",
        offsets=np.cumsum([0] + [len(sentence) for sentence in sentences], dtype=np.int64),
        lines=np.zeros(len(flat), dtype=np.int64),
        label=Column.from_strings(label for label, _ in flat) if labels else None,
        pointer=np.cumsum([0] + [len(bag) for _, bag in flat], dtype=np.int64),
        ids=column.ids,
        weights=np.array([value for _, value in pairs], dtype=np.float64),
        values=column.values,
    )


@example([[(" ", [(" ", 1.0)])]], True)
@settings(deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(names, st.lists(st.tuples(names, weights), min_size=1, max_size=3)), min_size=1, max_size=3),
        min_size=1,
        max_size=3,
    ),
    st.booleans(),
)
def test_write_then_read_is_the_identity(sentences: list[list[Token]], labels: bool) -> None:
    corpus = corpus_of(sentences, labels)
    try:
        raw = written(corpus)
    except DataError as error:
        fields = [([label] if labels else []) + [name for name, _ in bag] for one in sentences for label, bag in one]
        assert "blank line or a comment" in str(error)
        assert any(all(f.isspace() for f in row) or (len(row) == 1 and row[0].startswith("#")) for row in fields)
        return
    if raw.startswith(b"\xef\xbb\xbf"):
        return
    again = reading(raw, labels)
    assert tokens(again) == tokens(corpus)
    assert (again.weights is None) == all(
        value == 1 for sentence in sentences for _, bag in sentence for _, value in bag
    )
    assert again.values == list(dict.fromkeys(again.values))


def test_escapes_values_and_tokens_without_attributes() -> None:
    raw = b"B-NP\tw=10\\:30\tback\\\\slash\t\\n\tlen:2.5\tneg:-1e-3\tempty:\nO\r\n\n\nI\\:X\tw=10\\:30:1\tw=10\\:30\t\n"
    assert tokens(reading(raw)) == [
        [
            (
                "B-NP",
                [("w=10:30", 1.0), ("back\\slash", 1.0), ("\\n", 1.0), ("len", 2.5), ("neg", -0.001), ("empty", 1.0)],
            ),
            ("O", []),
        ],
        [("I:X", [("w=10:30", 1.0), ("w=10:30", 1.0)])],
    ]
    assert reading(raw).lines.tolist() == [1, 2, 5]


def test_attributes_that_differ_in_value_only_are_one_attribute() -> None:
    corpus = reading(b"A\tx:2\ty\nB\tx:3\tx\n")
    assert corpus.values == ["x", "y"]
    assert corpus.ids.tolist() == [0, 1, 0, 0]
    assert corpus.weights is not None and corpus.weights.tolist() == [2, 1, 3, 1]
    assert corpus.ids.dtype == np.int32 and corpus.pointer.dtype == np.int64


def test_weights_are_none_when_all_are_one() -> None:
    assert reading(b"A\tx:1\ty:1.0\tz\n").weights is None
    assert reading(b"A\n").weights is None


def test_spaces_belong_to_names_and_comments_need_a_line_without_tab() -> None:
    corpus = reading(b"# a comment\nA\tw= \t\t#x\n#\tw\n")
    assert tokens(corpus) == [[("A", [("w= ", 1.0), ("#x", 1.0)]), ("#", [("w", 1.0)])]]


def test_without_labels_every_field_is_an_attribute() -> None:
    corpus = reading(b"x\ty:2\n\nx\n", labels=False)
    assert tokens(corpus) == [[("", [("x", 1.0), ("y", 2.0)])], [("", [("x", 1.0)])]]
    with pytest.raises(DataError, match="without labels"):
        corpus.labels()


def test_sequence_weights() -> None:
    raw = b"@weight:2.5\nA\tx\n\nA\tx\n\nB\ty\n@weight:0\nA\n\n"
    corpus = reading(raw)
    assert corpus.sequence_weights is not None and corpus.sequence_weights.tolist() == [2.5, 1, 0]
    assert corpus.labels() == corpus.labels(-1) == [["A"], ["A"], ["B", "A"]]
    with pytest.raises(DataError, match="no column 1: a file of attributes has labels, and no columns"):
        corpus.labels(1)
    assert corpus.label is not None and corpus.label.values == ["A", "B"]
    again = reading(written(corpus))
    assert tokens(again) == tokens(corpus)
    assert again.sequence_weights is not None and again.sequence_weights.tolist() == [2.5, 1, 0]
    assert reading(b"@other\tx\n").labels() == [["@other"]]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "^<file>: the file holds no tokens"),
        (b"\n# x\n", "^<file>: the file holds no tokens"),
        (b"@weight:1\n", "^<file>: the file holds no tokens"),
        (b"A\tx\n\nA\tx:1\ta:xyz\n", r"^<file>:3: .*'a:xyz'.*not a finite number"),
        (b"A\tx:nan\n", "^<file>:1: .*not a finite number"),
        (b"A\tx:inf\n", "^<file>:1: .*not a finite number"),
        (b"A\tx:1e999\n", "^<file>:1: .*not a finite number"),
        (b"A\tx:1_0\n", "^<file>:1: .*not a finite number"),
        (b"A\ta:b:1\n", "^<file>:1: .*not a finite number"),
        (b"A\tx\nB\t:1\n", "^<file>:2: .*no name"),
        (b"A\tx\n\tx\n", "^<file>:2: .*a label is needed"),
        (b"A\tx\ry\n", "^<file>:1: a carriage return"),
        (b"A\tx\nA\t\xff\n", "^<file>:2: invalid UTF-8"),
        (b"A\tx\nA\t\0\n", "^<file>:2: a NUL"),
        (b"A\tx\n\n@weight:-1\nA\n", "^<file>:3: .*not negative"),
        (b"@weight:1\tA\nA\n", "^<file>:1: .*line of its own"),
        (b"A\n\n@weight:1\n\nA\n", "^<file>:3: .*no sequence"),
        (b"A\n\n@weight:1\n", "^<file>:3: .*no sequence"),
    ],
)
def test_errors_have_file_and_line(raw: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        reading(raw)


@pytest.mark.parametrize("bad", ["", "a\tb", "a\nb", "a\r"])
def test_what_the_format_cannot_hold_is_refused(bad: str) -> None:
    with pytest.raises(DataError, match="sequence 1, position 0"):
        written(corpus_of([[("A", [("x", 1.0)])], [("A", [(bad, 1.0)])]]))
    with pytest.raises(DataError, match="sequence 1, position 0"):
        written(corpus_of([[("A", [("x", 1.0)])], [(bad, [("x", 1.0)])]]))


@pytest.mark.parametrize("label", ["#", "# x", " "])
def test_a_line_that_would_vanish_is_refused(label: str) -> None:
    with pytest.raises(DataError, match="blank line or a comment"):
        written(corpus_of([[("A", []), (label, [])]]))
    assert reading(written(corpus_of([[(label, [("x", 1.0)])]]))).labels() == [[label]]


@settings(deadline=None, max_examples=300)
@given(
    st.one_of(
        st.binary(max_size=60),
        st.lists(st.sampled_from([b"a", b":", b"1", b"\\", b"\t", b"\r", b"\n", b"#", b" ", b"@weight:"])).map(
            b"".join
        ),
    ),
    st.booleans(),
)
@example(b"\x0b", True)
@example(b"\x0c\n\x0b a", False)
def test_any_bytes_give_a_corpus_or_an_error(raw: bytes, labels: bool) -> None:
    try:
        corpus = reading(raw, labels)
    except DataError as error:
        assert error.file == "<file>"
        return
    assert corpus.n_tokens > 0 and all(tokens(corpus)) and "" not in corpus.values
    if labels or not any(name.isspace() for name in corpus.values):  # a lone blank attribute is written as a blank line
        assert tokens(reading(written(corpus), labels)) == tokens(corpus)
