"""The index for text to be labelled finds what the table made in training holds, in either kind of table."""

import pickle

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_template_encoder import rows, template_sets

from loglinear.data.columns.corpus import Columns
from loglinear.features.templates import index
from loglinear.features.templates.encoder import TemplateEncoder
from loglinear.features.templates.gazetteer import Gazetteer
from loglinear.features.templates.language import TemplateSet


def fitted(train, templates, pair_features=False, gazetteers=None, min_count=1):
    encoder = TemplateEncoder(templates, gazetteers, pair_features)
    encoder.fit(Columns.from_rows(train), min_count)
    return encoder


def by_tables(encoder, corpus):
    """What the encoder finds without the index."""
    again = TemplateEncoder.from_storage(encoder.to_header(), encoder.to_arrays(), encoder.strings)
    again._quick = (None,)
    return again.transform(corpus)


def assert_same(found, expected):
    for kind in ("state", "edge"):
        one, other = getattr(found, kind), getattr(expected, kind)
        assert (one is None) == (other is None)
        if one is not None:
            assert one.pointer.tolist() == other.pointer.tolist() and one.ids.tolist() == other.ids.tolist()
            assert (one.pointer.dtype, one.ids.dtype) == (other.pointer.dtype, other.ids.dtype)


@settings(max_examples=60)
@given(rows, rows, template_sets, st.booleans(), st.sampled_from([0, 2, 1024]), st.integers(1, 3), st.integers(1, 3))
def test_the_index_finds_what_the_tables_hold(train, test, templates, pair_features, direct, n_threads, min_count):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "DIRECT_LEAST", direct)
        patch.setattr(index, "DIRECT_SHARE", min(direct, 1))  # 0: every table is a hashed one
        patch.setattr(index, "POSITIONS_AT_ONCE", 3)
        encoder = fitted(train, templates, pair_features, min_count=min_count)
        assert encoder.quick is not None
        for corpus in map(Columns.from_rows, (train, test, test)):  # the third time from memory
            assert_same(encoder.transform(corpus, n_threads), by_tables(encoder, corpus))


@given(rows, rows, template_sets)
def test_where_codes_are_too_many_the_tables_serve(train, test, templates):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "MOST_CODES", 0)
        encoder = fitted(train, templates)
        assume(templates.observing)  # without any, there is nothing to have codes
        assert encoder.quick is None
        assert_same(encoder.transform(Columns.from_rows(test)), by_tables(encoder, Columns.from_rows(test)))


def test_a_group_left_empty_by_min_count_does_not_hide_the_next():
    encoder = fitted([["a"], ["a"], ["b"]], TemplateSet.parse("U0:%x[@1,0]\nU1:%x[1,0]"), min_count=3)
    corpus = Columns.from_rows([["a"]])
    assert [encoder.names()[a] for a in encoder.transform(corpus).state.ids] == ["U1:_B+1"]
    assert_same(encoder.transform(corpus), by_tables(encoder, corpus))


def test_gazetteers_and_values_that_occur_nowhere(monkeypatch):
    templates = TemplateSet.parse("U0:%gazetteer[0,0,g]/%x[1,0]\nU1:%gazetteer[-1,0,g]\nU2:%x[0,0]")
    sentences = [["a", "b", "c"], ["b", "a"], ["d", "c"]]
    encoder = fitted(sentences, templates, gazetteers={"g": Gazetteer("g", [("a", "b"), ("c",)])})
    corpus = Columns.from_rows([["a", "b"], ["e"], ["c", "d", "a"]])
    assert_same(encoder.transform(corpus), by_tables(encoder, corpus))
    chosen = corpus.select([2])  # shares the values of all
    assert_same(encoder.transform(chosen), by_tables(encoder, chosen))


def test_strings_are_remembered_up_to_a_number_and_not_pickled(monkeypatch):
    monkeypatch.setattr(index, "MOST_REMEMBERED", 3)
    encoder = fitted([["a", "b", "c", "d", "e", "f"]], TemplateSet.parse("U:%x[0,0]"))
    corpus = Columns.from_rows([["f", "e", "x", "d", "c", "b", "a"]])
    for _ in range(2):
        assert_same(encoder.transform(corpus), by_tables(encoder, corpus))
        assert 0 < len(encoder.quick._numbers[0]) <= 3
    again = pickle.loads(pickle.dumps(encoder))
    assert again._quick is None
    assert_same(again.transform(corpus), by_tables(encoder, corpus))


def test_a_new_training_makes_a_new_index():
    encoder = fitted([["a", "b"]], TemplateSet.parse("U:%x[0,0]"))
    assert encoder.transform(Columns.from_rows([["b"]])).state.ids.tolist() == [1]
    other = TemplateEncoder(encoder.templates)
    other.fit(Columns.from_rows([["b", "a", "c"]]))
    assert other.transform(Columns.from_rows([["b", "c"]])).state.ids.tolist() == [0, 2]


def test_no_tokens_at_all():
    encoder = fitted([["a", "b"]], TemplateSet.parse("U:%x[0,0]"))
    empty = encoder.transform(Columns.from_rows([]))
    assert empty.state.pointer.tolist() == [0] and len(empty.state.ids) == 0 and np.array_equal(empty.offsets, [0])
