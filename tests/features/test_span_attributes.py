"""Attributes of spans: each span has what its boundary words say, and classes stand for words that were rare."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loglinear.errors import OptionError
from loglinear.features.spans import PLACES, SpanAttributes, span_offsets, word_classes

words = st.sampled_from(["the", "dog", "Dogs", "3.5", "x-rays", "ran"])
corpora = st.lists(st.lists(words, min_size=1, max_size=5), min_size=1, max_size=4)


def described(attributes, number):
    """(place, length or 0, value) of an attribute, or the name that a user's function gave it."""
    n_values = len(attributes.values)
    if number >= 3 * len(attributes.places) * n_values:
        return attributes.names[number - 3 * len(attributes.places) * n_values]
    kind, value = divmod(number, n_values)
    return attributes.places[kind // 3], kind % 3, attributes.values[value]


def expected(attributes, sentence, i, j):
    found = []
    for place in attributes.places:
        at = {"first": i, "last": j - 1, "before": i - 1, "after": j}[place]
        value = "<s>"
        if 0 <= at < len(sentence):
            value = next(v for v in (sentence[at], *word_classes(sentence[at])) if v in attributes.values)
        found.append((place, 0, value))
        if j - i < 3:
            found.append((place, j - i, value))
    return found


@given(corpora, corpora, st.lists(st.sampled_from(PLACES), unique=True, min_size=1), st.integers(1, 3), st.booleans())
def test_every_span_has_the_words_at_its_boundaries(train, test, places, min_count, with_own):
    own = (lambda sentence, i, j: [f"{len(sentence)}:{i}", f"{sentence[i]}!"]) if with_own else None
    attributes = SpanAttributes(places, min_count, own)
    attributes.fit(train)
    known = set(attributes.names.strings)
    again = SpanAttributes.from_header(attributes.to_header(), own)
    for encoder in (attributes, again):
        found, offsets = encoder.transform(test), span_offsets([len(sentence) for sentence in test])
        assert found.n_positions == offsets[-1] and found.ids.max() < encoder.n_attributes
        for s, sentence in enumerate(test):
            for j in range(1, len(sentence) + 1):
                for i in range(j):
                    span = offsets[s] + j * (j - 1) // 2 + i
                    ids = found.ids[found.pointer[span] : found.pointer[span + 1]].tolist()
                    mine = [name for name in own(sentence, i, j) if name in known] if own else []
                    assert [described(encoder, number) for number in ids] == expected(encoder, sentence, i, j) + mine


def test_rare_words_are_seen_as_their_class():
    attributes = SpanAttributes(("first",), min_count=2)
    found = attributes.fit([["dog", "dog", "barking", "running", "3"]])
    seen = {described(attributes, number)[2] for number in found.ids.tolist()}
    assert seen == {"dog", "<lower-ing>", "<word>"}


@pytest.mark.parametrize("places", [("first", "middle"), ("last", "last")])
def test_places_that_are_not_known_are_refused(places):
    with pytest.raises(OptionError, match=r"places='(first\+middle|last\+last)'"):
        SpanAttributes(places)


@pytest.mark.parametrize("given", ["name", 5, None, [5], [None]])
def test_a_function_that_gives_no_names_is_refused(given):
    with pytest.raises(OptionError, match="not a list of strings"):
        SpanAttributes(own=lambda sentence, i, j: given).fit([["a"]])


def test_a_function_may_yield_its_names():
    attributes = SpanAttributes(own=lambda sentence, i, j: (word for word in sentence[i:j]))
    attributes.fit([["a", "b"]])
    assert attributes.names.strings == ["a", "b"]


def test_offsets_count_spans():
    assert span_offsets([1, 3]).tolist() == [0, 1, 7]
    assert span_offsets(np.zeros(0)).tolist() == [0]
