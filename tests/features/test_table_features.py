"""Tables and texts in numbers: each kind of column, what is new, what is empty, and the way through a model file."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.data.tables import TableFile
from loglinear.errors import DataError, OptionError
from loglinear.features.tables import BagOfWords, TableFeatures, kind_of


def table(**columns: list[str]) -> TableFile:
    n = len(next(iter(columns.values())))
    return TableFile("some.csv", columns, list(range(2, n + 2)))


def test_each_kind_of_column():
    train = table(
        age=["10", "30", ""], colour=["red", "blue", "red"], note=["a good day it is", "a bad bad day", "no day at all"]
    )
    features = TableFeatures.fit(train)
    assert features.kinds == {"age": "number", "colour": "category", "note": "text"}
    rows = dict(zip(features.names, features.matrix(train).toarray().T, strict=True))
    np.testing.assert_allclose(rows["age"], [-1, 1, 0])
    np.testing.assert_allclose(rows["age is empty"], [0, 0, 1])
    np.testing.assert_allclose(rows["colour=red"], [1, 0, 1])
    np.testing.assert_allclose(rows["note:bad"], [0, 2, 0])


def test_new_values_and_words_count_for_nothing_and_more_columns_are_passed_over():
    train = table(colour=["red", "blue"], note=["x y z w", "x x x x"])
    features = TableFeatures.fit(train)
    new = table(colour=["green", "blue"], note=["q", "x"], more=["1", "2"])
    found = features.matrix(new).toarray()
    assert found[0].sum() == 0.0 and found[1].sum() == 2.0
    with pytest.raises(DataError, match=r"some.csv: there is no column 'note'"):
        features.matrix(table(colour=["red"]))


def test_numbers_can_stay_as_they_are_and_rare_values_be_left_out():
    train = table(age=["10", "30"], colour=["red", "red"], other=["a", "b"])
    features = TableFeatures.fit(train, raw_numbers=True, min_count=2)
    assert features.names == ["age", "colour=red"]
    assert features.matrix(train).toarray().tolist() == [[10, 1], [30, 1]]


def test_kinds_can_be_said():
    train = table(code=["1", "2"])
    assert TableFeatures.fit(train, {"code": "category"}).names == ["code=1", "code=2"]
    with pytest.raises(OptionError, match="'code' cannot be a 'date'"):
        TableFeatures.fit(train, {"code": "date"})
    with pytest.raises(DataError, match="no column 'nothing'"):
        TableFeatures.fit(train, {"nothing": "text"})
    with pytest.raises(DataError, match=r"some.csv:2: column 'x' is 'a', not a number"):
        TableFeatures.fit(table(x=["a"]), {"x": "number"})
    with pytest.raises(DataError, match="no column is left"):
        TableFeatures.fit(table(x=["a", "b"]), min_count=2)
    with pytest.raises(DataError, match="holds no number at all"):
        TableFeatures.fit(table(x=[""]), {"x": "number"})


cells = st.lists(st.sampled_from(["", "1", "-2.5", "red", "a b c d e", "ü ß"]), min_size=1, max_size=8)


@settings(deadline=None)
@given(cells, cells)
def test_the_way_through_a_model_file_changes_nothing(one, other):
    n = min(len(one), len(other))
    train = table(one=one[:n], other=other[:n])
    try:
        features = TableFeatures.fit(train)
    except DataError:
        return
    again = TableFeatures.from_storage(json.loads(json.dumps(features.to_header())), features.strings)
    assert again.names == features.names
    np.testing.assert_array_equal(again.matrix(train).toarray(), features.matrix(train).toarray())


def test_a_damaged_file_is_refused():
    text = {"name": "a", "kind": "text", "text": "words", "strings": 2}
    for header, strings, message in (
        ({}, [], "cannot be read"),
        ({"columns": []}, [], "do not fit"),
        ({"columns": [{"kind": "number", "strings": 0}]}, [], "cannot be read"),
        ({"columns": [{"name": "a", "kind": "x", "strings": 0}]}, [], "cannot be read"),
        ({"columns": [text]}, ["a"], "do not fit"),
        ({"columns": [text]}, ["a", "a"], "not distinct"),
        ({"columns": [text | {"kind": "category"}]}, ["a", "a"], "a value twice"),
        (
            {"columns": [{"name": "a", "kind": "number", "mean": 0.0, "deviation": 0.0, "strings": 0}]},
            [],
            "no deviation",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            TableFeatures.from_storage(header, strings)


def test_what_a_column_is():
    assert kind_of(["1", "", "2e3"]) == "number"
    assert kind_of(["1", "nan", "-inf", "1e300"]) == "number"  # and then an error with its line, not a category
    assert kind_of(["nan", "nan"]) == kind_of(["", ""]) == "category"
    assert kind_of(["red", "dark blue"]) == "category"
    assert kind_of(["this is a long note", "and this too, of course"]) == "text"


@pytest.mark.parametrize(
    ("spec", "runs"),
    [
        ("words", ["!", "a", "good", "one"]),
        ("words:ngrams=2", ["!", "a", "a good", "good", "good one", "one", "one !"]),
        ("words:lowercase=no", ["!", "A", "Good", "one"]),
        ("characters:ngrams=2", None),
    ],
)
def test_text_is_cut_as_the_spec_says(spec, runs):
    bag = BagOfWords.fit(["A Good one!"], spec)
    if runs is not None:
        assert list(bag.vocabulary) == runs
    else:
        assert " a" in bag.vocabulary and "oo" in bag.vocabulary
    assert bag.matrix(["good good"]).sum() > 0 or spec == "words:lowercase=no"


def test_counts_or_what_occurs():
    assert BagOfWords.fit(["a a b"], "words").matrix(["a a b c"]).toarray().tolist() == [[2, 1]]
    assert BagOfWords.fit(["a a b"], "words:presence").matrix(["a a b c"]).toarray().tolist() == [[1, 1]]


def test_bad_specs_and_empty_texts_are_refused():
    for spec, message in (
        ("letters", "'letters' is not known"),
        ("words:n=2", "n"),
        ("words:shortest=2", "shortest"),
        ("words:ngrams=0", "ngrams"),
    ):
        with pytest.raises(OptionError, match=message):
            BagOfWords.fit(["a"], spec)
    with pytest.raises(DataError, match="nothing to count"):
        BagOfWords.fit(["", " "])
