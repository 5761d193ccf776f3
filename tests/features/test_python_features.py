"""Python features follow python-crfsuite's rules; python-crfsuite itself is the referee."""

from collections import Counter, OrderedDict
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType

import numpy as np
import pycrfsuite
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.data.columns.corpus import Columns
from loglinear.errors import DataError
from loglinear.features import names as module
from loglinear.features.names import AttributeReader, NameEncoder, attributes_of, token_attributes

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
        ({"a": [1, "x"]}, "lists hold strings"),
        ({1: "a"}, "name is a string"),
        ({"a": float("nan")}, "finite"),
        ([1], "holds strings"),
    ],
)
def test_errors_name_sequence_and_position(features, says):
    with pytest.raises(DataError, match=says) as caught:
        attributes_of([[["fine"]], [["fine"], features]])
    assert "sequence 1, position 1 (from 0)" in str(caught.value)


def test_an_empty_sequence_is_refused_or_left_out():
    with pytest.raises(DataError, match=r"sequence 1 .* empty"):
        attributes_of([[["a"]], []])
    corpus = attributes_of([[], [["a"]], [], [["b"], ["c"]], []], empty=True)
    assert corpus.offsets.tolist() == [0, 1, 3]
    assert corpus.given_offsets.tolist() == [0, 0, 1, 1, 3, 3]
    assert "sequence 3, position 1" in str(corpus.error("wrong", 2))


def test_rare_attributes_are_left_out():
    encoder = NameEncoder()
    encoder.fit(attributes_of([[["a", "b"], ["a"]]]), min_count=2)
    assert encoder.names() == ["a"]
    assert encoder.transform(attributes_of([[["b", "a", "z"]]])).state.ids.tolist() == [0]


def test_rows_are_not_features():
    assert isinstance(Columns.from_rows([["a"]]), Columns)
    with pytest.raises(DataError, match="give a template"):
        attributes_of([["a"]])


# -- by C iterators and one by one -------------------------------------------------------------------------------------

odd_numbers = (
    st.floats(-1e3, 1e3)
    | st.integers(-3, 3)
    | st.booleans()
    | st.sampled_from(
        [np.float32(0.1), np.int8(3), np.bool_(True), np.uint64(7), Fraction(1, 3), Decimal("0.25"), -0.0]
    )
    | st.sampled_from([np.array(2.5), 10**14])
)
texts = st.sampled_from(["x", "y", "ä", np.str_("x"), b"x", "ä".encode(), ""])
keys = st.sampled_from(["a", "b", "a:b", "c", np.str_("a"), b"a", "ä"])
odd_values = (
    texts | odd_numbers | st.lists(texts, max_size=2) | st.tuples(texts) | st.dictionaries(keys, texts, max_size=2)
)
odd_tokens = (
    st.dictionaries(keys, odd_values, max_size=4)
    | st.dictionaries(keys, texts | odd_numbers, max_size=4)
    | st.dictionaries(keys, texts, max_size=3).map(dict.keys)
    | st.dictionaries(keys, texts, max_size=3).map(MappingProxyType)
    | st.dictionaries(keys, texts, max_size=3).map(OrderedDict)
    | st.lists(texts, max_size=3)
    | st.lists(texts, max_size=3).map(tuple)
    | st.just(Counter("aab"))
)
refused = st.sampled_from(
    [{"a": None}, {"b": float("nan")}, {"a": 1e300}, {"a": [1, "x"]}, {3: "x"}, {"a": b"\xff"}, 5, "x", [None]]
)


def one_by_one(sequences):
    """Names in order of first occurrence, counts, numbers and values of all tokens."""
    index: dict[str, int] = {}
    counts, ids, values = [], [], []
    for sequence in sequences:
        for token in sequence:
            found = token_attributes(token)
            ids += [index.setdefault(str(name), len(index)) for name, _ in found]
            values += [value for _, value in found]
            counts.append(len(found))
    return list(index), counts, ids, values


def listed(sequences):
    """The tokens of the sequences once more, views and generators among them."""
    return [iter(sequence) if i % 3 == 1 else tuple(sequence) if i % 3 == 2 else sequence
            for i, sequence in enumerate(sequences)]  # fmt: skip


@settings(max_examples=150)
@given(st.lists(st.lists(odd_tokens, max_size=4), max_size=5), st.sampled_from([0, 1, 2, 1000]), st.integers(1, 9))
def test_odd_features_are_read_as_one_by_one(sequences, most_numbers, chunk):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "MOST_NUMBERS", most_numbers)  # lanes from the first number on, or none
        patched.setattr(module, "CHUNK", chunk)
        corpus = attributes_of(listed(sequences), empty=True)
        index, counts, ids, values = one_by_one(sequences)
        assert corpus.given_offsets.tolist() == np.cumsum([0, *map(len, sequences)]).tolist()
        assert corpus.values == index
        assert np.diff(corpus.pointer).tolist() == counts
        assert corpus.ids.tolist() == ids
        assert (np.ones(len(ids)) if corpus.weights is None else corpus.weights).tolist() == values
        assert corpus.weights is None or (corpus.weights != 1.0).any()


@given(st.lists(st.lists(odd_tokens, max_size=3), min_size=1, max_size=4), refused, st.data())
def test_whatever_is_wrong_is_named_where_it_stands(sequences, wrong, data):
    i = data.draw(st.integers(0, len(sequences) - 1))
    t = data.draw(st.integers(0, len(sequences[i])))
    sequences[i].insert(t, wrong)
    with pytest.raises(DataError, match=rf"^sequence {i}, position {t} \(from 0\): "):
        attributes_of(sequences, empty=True)


@given(st.lists(odd_tokens, min_size=1, max_size=3), st.integers(0, 2))
def test_a_reader_forgets_and_leaves_out_what_has_no_number(tokens, most_items):
    known = {name: i for i, name in enumerate(["a:x", "b", "x", "a"])}
    reader = AttributeReader(lambda name: known.get(name, -1), most_items)
    for token in [*tokens, *tokens]:
        try:
            pointer, ids, values = reader.read([token])
        except module.UNREADABLE:
            pointer, ids, values = reader.read_slowly(token)
        expected = [(known[name], value) for name, value in token_attributes(token) if name in known]
        assert pointer.tolist() == [0, len(expected)]
        assert list(zip(ids.tolist(), np.ones(len(ids)) if values is None else values, strict=True)) == expected


def test_a_name_with_many_numbers_takes_no_table():
    reader = AttributeReader({"n": 0, "w": 1}.get)
    rows = np.random.default_rng(0).normal(size=3 * module.MOST_NUMBERS)
    tokens = [{"n": float(x)} for x in rows]
    assert reader.read(tokens[:1500])[2].tolist() == rows[:1500].tolist()  # the lane is made on the way
    assert reader.read(tokens[1500:])[2].tolist() == rows[1500:].tolist()
    assert reader._keys.n_items <= module.MOST_NUMBERS + 2
    assert reader.read(tokens)[2].tolist() == rows.tolist()


@given(st.lists(st.dictionaries(keys, texts | odd_numbers, max_size=4), max_size=12), st.integers(0, 3))
def test_tokens_of_many_shapes_are_read_as_those_of_few(tokens, most_shapes):
    known = {name: i for i, name in enumerate(["a:x", "b", "c", "a", "a:b:y"])}
    few = AttributeReader(known.get)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "MOST_SHAPES", most_shapes)
        many = AttributeReader(known.get)
        for chunk in (tokens[:6], tokens[6:], tokens):
            try:
                expected = few.read(chunk)
            except module.UNREADABLE as error:
                with pytest.raises(type(error)):
                    many.read(chunk)
                continue
            for ours, theirs in zip(many.read(chunk), expected, strict=True):
                assert np.array_equal(ours, theirs)
    assert len(many._keys.shapes) <= most_shapes


@pytest.mark.parametrize("tokens", [[{"a": "x"}], [{"a": "x", "b": 2.0}], [["b"]]])
def test_what_is_read_fits_kernels_that_were_compiled_ahead(tokens):
    """Those take arrays that can be written to; for others Numba would compile at the first sentence."""
    reader = AttributeReader({"a:x": 0, "b": 1}.get)
    assert all(array is None or array.flags.writeable for array in reader.read(tokens))
