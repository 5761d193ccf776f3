"""Laws of the corpus types: factorisation is lossless, selection is indexing, errors name the place."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loglinear.data import Attributes, Column, Columns
from loglinear.errors import DataError, OptionError

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
rows = st.integers(1, 3).flatmap(
    lambda width: st.lists(st.lists(st.tuples(*[words] * width), min_size=1, max_size=5), max_size=5)
)


@given(st.lists(words))
def test_a_column_gives_its_strings_back_and_numbers_them_by_first_occurrence(strings: list[str]) -> None:
    column = Column.from_strings(strings)
    assert column.strings() == strings
    assert column.values == list(dict.fromkeys(strings))
    assert column.ids.dtype == np.int32


@given(rows)
def test_rows_round_trip(sentences: list[list[tuple[str, ...]]]) -> None:
    corpus = Columns.from_rows(sentences)
    assert corpus.rows() == sentences
    assert len(corpus) == corpus.n_sentences == len(sentences)
    assert corpus.n_tokens == sum(map(len, sentences)) == len(corpus.lines)
    if sentences:
        assert corpus.labels() == [[row[-1] for row in sentence] for sentence in sentences]


@given(rows, st.data())
def test_select_is_indexing(sentences: list[list[tuple[str, ...]]], data: st.DataObject) -> None:
    corpus = Columns.from_rows(sentences)
    chosen = data.draw(st.lists(st.integers(0, len(sentences) - 1))) if sentences else []
    selection = corpus.select(chosen)
    assert selection.rows() == [sentences[number] for number in chosen]
    assert selection.offsets.dtype == np.int64
    assert all(part.values is whole.values for part, whole in zip(selection.columns, corpus.columns, strict=True))
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(sentences), max_size=len(sentences))), dtype=bool)
    assert corpus.select(mask).rows() == [s for s, keep in zip(sentences, mask, strict=True) if keep]


def test_a_token_string_is_a_row_of_one() -> None:
    assert Columns.from_rows([["a", "b"], ["a"]]).rows() == [[("a",), ("b",)], [("a",)]]
    assert Columns.from_rows([[["a", "x"]]]).rows() == [[("a", "x")]]
    assert Columns.from_rows([np.array(["a", "b"])]).rows() == [[("a",), ("b",)]]
    assert Columns.from_rows([np.array([["a", "b"]])]).rows() == [[("a", "b")]]
    assert type(Columns.from_rows([np.array(["a"])]).columns[0].values[0]) is str


@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        ([["a"], []], "sequence 1"),
        ([["a"], "bc"], "sequence 1"),
        ([["a"], 3], "sequence 1"),
        ([["a"], ["b", 3]], "sequence 1, position 1"),
        ([["a"], ["b", ("c",)]], "sequence 1, position 1"),
        ([[("a", "b")], [("a", "b"), ("c",)]], "sequence 1, position 1"),
        ([[("a", "b"), ("c", None)]], "sequence 0, position 1"),
        ([[()]], "sequence 0, position 0"),
        ([["a", "\ud800"]], "sequence 0, position 1"),
        ([[b"a"]], "sequence 0, position 0"),
    ],
)
def test_errors_name_sequence_and_position(wrong: list[object], place: str) -> None:
    with pytest.raises(DataError, match=place):
        Columns.from_rows(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("chosen", [[2], [-1], [0.5], [[0]], np.array([True])])
def test_select_refuses_what_is_no_sentence(chosen: object) -> None:
    with pytest.raises(OptionError):
        Columns.from_rows([["a"], ["b"]]).select(chosen)  # type: ignore[arg-type]


def test_a_column_that_is_not_there_is_an_error_with_the_count() -> None:
    corpus = Columns.from_rows([[("a", "b")]])
    assert corpus.column(-2).values == ["a"]
    for number in (2, -3):
        with pytest.raises(DataError, match="each row has 2"):
            corpus.labels(number)


def test_place_and_pickle() -> None:
    corpus = Columns.from_rows([["a", "b"], ["c"]])
    assert [corpus.place(position) for position in range(3)] == [(0, 0), (0, 1), (1, 0)]
    assert pickle.loads(pickle.dumps(corpus)).rows() == corpus.rows()


@given(st.lists(st.lists(st.lists(st.integers(0, 4), max_size=3), min_size=1, max_size=3), max_size=4), st.data())
def test_selected_attributes_are_those_of_the_sentences(sentences: list[list[list[int]]], data: st.DataObject) -> None:
    tokens = [token for sentence in sentences for token in sentence]
    ids = np.array([number for token in tokens for number in token], dtype=np.int32)
    corpus = Attributes(
        name="<python>",
        offsets=np.cumsum([0] + [len(sentence) for sentence in sentences]),
        lines=np.arange(len(tokens)),
        label=Column.from_strings(str(len(token)) for token in tokens),
        pointer=np.cumsum([0] + [len(token) for token in tokens]),
        ids=ids,
        weights=ids / 2,
        values=list("abcde"),
        sequence_weights=np.arange(len(sentences), dtype=np.float64),
    )
    chosen = data.draw(st.lists(st.integers(0, len(sentences) - 1))) if sentences else []
    part = corpus.select(chosen)
    expected = [token for number in chosen for token in sentences[number]]
    got = [part.ids[a:b].tolist() for a, b in zip(part.pointer, part.pointer[1:], strict=False)]
    assert got == expected
    assert part.labels() == [[str(len(token)) for token in sentences[number]] for number in chosen]
    assert part.weights is not None and part.weights.tolist() == (part.ids / 2).tolist()
    assert part.sequence_weights is not None and part.sequence_weights.tolist() == chosen
