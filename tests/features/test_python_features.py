"""Python features follow python-crfsuite's rules; python-crfsuite itself is the referee."""

import numpy as np
import pycrfsuite
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loglinear.data.columns.corpus import Columns
from loglinear.errors import DataError
from loglinear.features.names import NameEncoder, attributes_of, token_attributes

names = st.text("abc:", min_size=1, max_size=3)
numbers = st.floats(-1e6, 1e6) | st.integers(-1000, 1000)
values = st.recursive(
    st.text("xy", max_size=3) | st.booleans() | numbers | st.lists(names, max_size=2) | st.sets(names, max_size=2),
    lambda inner: st.dictionaries(names, inner, max_size=2),
    max_leaves=5,
)
tokens = st.dictionaries(names, values, max_size=4) | st.lists(names, max_size=4)


@given(tokens)
def test_the_rules_are_those_of_python_crfsuite(features):
    ours: dict[str, float] = {}
    for name, value in token_attributes(features):
        ours[name] = value  # python-crfsuite's dict view keeps the last of equal names
    (theirs,) = pycrfsuite.ItemSequence([features]).items()
    assert ours == pytest.approx(theirs)


@given(st.lists(st.lists(tokens, min_size=1, max_size=4), min_size=1, max_size=4))
def test_encoding_keeps_every_attribute_and_value(sequences):
    corpus = attributes_of(sequences)
    encoder = NameEncoder()
    encoded = encoder.fit(corpus)
    names, state = encoder.names(), encoded.state
    position = 0
    for sequence in sequences:
        for features in sequence:
            span = slice(state.pointer[position], state.pointer[position + 1])
            weights = np.ones(span.stop - span.start) if state.values is None else state.values[span]
            found = [(names[a], v) for a, v in zip(state.ids[span], weights, strict=True)]
            assert found == token_attributes(features)
            position += 1


@pytest.mark.parametrize(
    ("features", "says"),
    [
        ("word", "a dict or a list of strings"),
        (3, "a dict or a list of strings"),
        ({"a": None}, "feature 'a' is None"),
        ({"a": [1]}, "lists hold strings"),
        ({1: "a"}, "name is a string"),
        ({"a": float("nan")}, "finite"),
        ([1], "holds strings"),
    ],
)
def test_errors_name_sequence_and_position(features, says):
    with pytest.raises(DataError, match=says) as caught:
        attributes_of([[["fine"]], [["fine"], features]])
    assert "sequence 1, position 1 (from 0)" in str(caught.value)


def test_an_empty_sequence_is_refused():
    with pytest.raises(DataError, match=r"sequence 1 .* empty"):
        attributes_of([[["a"]], []])


def test_rare_attributes_are_left_out():
    encoder = NameEncoder()
    encoder.fit(attributes_of([[["a", "b"], ["a"]]]), min_count=2)
    assert encoder.names() == ["a"]
    assert encoder.transform(attributes_of([[["b", "a", "z"]]])).state.ids.tolist() == [0]


def test_rows_are_not_features():
    assert isinstance(Columns.from_rows([["a"]]), Columns)
    with pytest.raises(DataError, match="give a template"):
        attributes_of([["a"]])
