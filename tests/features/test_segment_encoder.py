"""Attributes of spans: what the definition says, span by span, in numbers that lock, survive storage and have names."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.data.columns.corpus import Columns
from loglinear.errors import DataError, OptionError
from loglinear.features import segments
from loglinear.features.segments import KINDS, Paths, SegmentEncoder, read_kinds
from loglinear.features.templates.gazetteer import Gazetteer
from loglinear.features.templates.language import brief

EVERYTHING = "+".join(KINDS)
WORDS = ["a", "A", "de", "la", "San", "José", "X1", "Ñandú", "-", "日本"]
LISTS = {
    "places": Gazetteer("places", ["San José", "la", "de la San"]),
    "more": Gazetteer("more", ["A A", "unheard of"]),
}
sentences = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6), min_size=1, max_size=4)
some_kinds = st.lists(st.sampled_from(KINDS), unique=True).map(lambda kinds: "+".join(kinds) or "none")


def span_names(words: list[str], kinds: tuple[str, ...]) -> set[str]:
    """Names of the attributes of one span, straight from the definition."""
    text = " ".join(words)
    names = {
        "string": {f"string={text}"},
        "shape": {"shape=" + " ".join(map(brief, words))},
        "first": {f"first={words[0]}"},
        "last": {f"last={words[-1]}"},
        "prefix": {f"prefix={text[:k]}" for k in range(1, 5) if k <= len(text)},
        "suffix": {f"suffix={text[-k:]}" for k in range(1, 5) if k <= len(text)},
        "gazetteer": {f"gazetteer={name}" for name, entries in LISTS.items() if tuple(words) in entries.entries},
        "length": set(),
    }
    return set().union(*(names[kind] for kind in kinds))


def spans_of(corpus: list[list[str]], n_lengths: int) -> dict[int, list[str]]:
    """The words of each span, by its number."""
    spans, before = {}, 0
    for sentence in corpus:
        for t in range(len(sentence)):
            for m in range(min(t + 1, n_lengths)):
                spans[(before + t) * n_lengths + m] = sentence[t - m : t + 1]
        before += len(sentence)
    return spans


def names_of(encoder: SegmentEncoder, incidence, n_spans: int) -> list[list[str]]:
    names = encoder.names()
    return [[names[a] for a in incidence.ids[slice(*incidence.pointer[p : p + 2])]] for p in range(n_spans)]


@settings(max_examples=80)
@given(
    sentences, sentences, some_kinds, st.integers(1, 4), st.sampled_from([1, 2, 3]), st.booleans(), st.integers(0, 99)
)
def test_each_span_has_the_attributes_that_training_knows(train, test, spec, n_lengths, min_count, some, seed):
    kinds, spans = read_kinds(spec), spans_of(train, n_lengths)
    numbers = np.array(sorted(spans), dtype=np.int64)
    chosen = numbers[np.random.default_rng(seed).random(len(numbers)) < 0.5] if some else None
    encoder = SegmentEncoder(spec, n_lengths, gazetteers=LISTS)
    fitted = encoder.fit(Columns.from_rows(train), chosen, min_count)
    if not set(kinds) - {"length"}:
        assert fitted is None and encoder.n_attributes == 0
        return
    counts: dict[str, int] = {}
    for number in numbers if chosen is None else chosen:
        for name in span_names(spans[int(number)], kinds):
            counts[name] = counts.get(name, 0) + 1
    known = {name for name, count in counts.items() if count >= min_count and not name.startswith("gazetteer")}
    known |= {f"gazetteer={name}" for name in LISTS} if "gazetteer" in kinds else set()
    assert sorted(encoder.names()) == sorted(known) and encoder.n_attributes == len(known)
    for corpus, incidence in ((train, fitted), (test, encoder.transform(Columns.from_rows(test)))):
        spans = spans_of(corpus, n_lengths)
        n = sum(map(len, corpus)) * n_lengths
        assert incidence.n_positions == n
        for number, found in enumerate(names_of(encoder, incidence, n)):
            assert len(found) == len(set(found))
            wanted = span_names(spans[number], kinds) & known if number in spans else set()
            assert set(found) == wanted


def test_blocks_and_threads_do_not_matter(monkeypatch):
    rng = np.random.default_rng(0)
    corpus = Columns.from_rows([[str(rng.choice(WORDS)) for _ in range(rng.integers(1, 9))] for _ in range(60)])
    encoder = SegmentEncoder(EVERYTHING, 3, gazetteers=LISTS)
    whole = encoder.fit(corpus)
    monkeypatch.setattr(segments, "BLOCK", 7)
    for n_threads in (1, 3):
        parts = encoder.transform(corpus, n_threads)
        np.testing.assert_array_equal(parts.pointer, whole.pointer)
        np.testing.assert_array_equal(parts.ids, whole.ids)


@settings(max_examples=40)
@given(sentences, some_kinds, st.integers(1, 3))
def test_storage_gives_the_same_encoder(train, spec, n_lengths):
    corpus = Columns.from_rows(train)
    encoder = SegmentEncoder(spec, n_lengths, gazetteers=LISTS)
    fitted = encoder.fit(corpus)
    again = SegmentEncoder.from_storage(encoder.to_header(), encoder.to_arrays(), list(encoder.strings))
    assert again.names() == encoder.names() and again.kinds == encoder.kinds
    found = again.transform(corpus)
    assert (found is None) == (fitted is None)
    if fitted is not None:
        np.testing.assert_array_equal(found.ids, fitted.ids)
    assert len(encoder.strings) == len(set(encoder.strings))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("keys", lambda a: a[:-1]),
        ("keys", lambda a: a[::-1].copy()),
        ("keys", lambda a: a + 10**6),
        ("keys", lambda a: a - 10**6),
        ("ends", lambda a: np.zeros_like(a)),
        ("ends", lambda a: a[:-1]),
        ("sizes", lambda a: a[:-1]),
        ("sizes", lambda a: -a),
        ("depths", lambda a: a[:-1]),
        ("depths", lambda a: a + 1),
    ],
)
def test_damaged_storage_is_refused(name, change):
    encoder = SegmentEncoder(EVERYTHING, 3)
    encoder.fit(Columns.from_rows([["San", "José", "de", "la"], ["a", "A"]]))
    arrays = encoder.to_arrays()
    arrays[name] = change(arrays[name])
    with pytest.raises(ValueError):
        SegmentEncoder.from_storage(encoder.to_header(), arrays, list(encoder.strings))


@settings(max_examples=40)
@given(sentences, st.integers(0, 2**32 - 1))
def test_an_encoder_of_fewer_attributes_knows_just_these(train, seed):
    corpus, n_lengths = Columns.from_rows(train), 3
    encoder = SegmentEncoder(EVERYTHING, n_lengths, gazetteers=LISTS)
    everything = encoder.fit(corpus)
    kept = np.random.default_rng(seed).random(encoder.n_attributes) < 0.5
    fewer = encoder.keeping(kept)
    names = [name for name, keep in zip(encoder.names(), kept, strict=True) if keep]
    assert fewer.names() == names
    n = sum(map(len, train)) * n_lengths
    found = names_of(fewer, fewer.transform(corpus), n)
    assert found == [[name for name in row if name in set(names)] for row in names_of(encoder, everything, n)]
    used = {symbol for paths in fewer.paths.values() for level in paths.symbols() for symbol in level.ravel().tolist()}
    assert used == set(range(len(fewer.strings)))


@settings(max_examples=40)
@given(sentences, sentences)
def test_the_same_attributes_of_two_encoders_are_found(one, other):
    mine, theirs = (SegmentEncoder(EVERYTHING, 3, gazetteers=LISTS) for _ in range(2))
    mine.fit(Columns.from_rows(one))
    theirs.fit(Columns.from_rows(other))
    my_names, their_names = mine.names(), theirs.names()
    for number, match in enumerate(mine.matching(theirs).tolist()):
        if match < 0:
            assert their_names[number] not in my_names
        else:
            assert my_names[match] == their_names[number]


def test_a_word_with_blanks_is_not_two_words():
    encoder = SegmentEncoder("string", 2)
    encoder.fit(Columns.from_rows([["New York"], ["New", "York"]]))
    assert sorted(encoder.names()) == ["string=New", "string=New York", "string=New York", "string=York"]
    found = encoder.transform(Columns.from_rows([["New York"]]))
    assert len(found.ids) == 1
    assert encoder.matching(encoder).tolist() == [0, 1, 2, 3]


def test_the_column_of_words_can_be_chosen():
    corpus = Columns.from_rows([[("x", "de"), ("y", "la")]])
    encoder = SegmentEncoder("string", 2, column=1)
    encoder.fit(corpus)
    assert sorted(encoder.names()) == ["string=de", "string=de la", "string=la"]
    with pytest.raises(DataError, match="no column 2"):
        SegmentEncoder("string", 2, column=2).fit(corpus)


def test_an_empty_corpus_has_no_spans():
    encoder = SegmentEncoder(EVERYTHING, 3, gazetteers=LISTS)
    found = encoder.fit(Columns.from_rows([]))
    assert found.n_positions == 0 and not len(found.ids)
    assert encoder.names() == ["gazetteer=places", "gazetteer=more"]
    later = encoder.transform(Columns.from_rows([["San", "José"]]))
    assert names_of(encoder, later, 6) == [[], [], [], [], ["gazetteer=places"], []]


@pytest.mark.parametrize(
    ("spec", "message"), [("strings", "no segment attributes 'strings'"), ("first+first", "name a kind twice")]
)
def test_specs_that_make_no_sense_are_refused(spec, message):
    with pytest.raises(OptionError, match=message):
        SegmentEncoder(spec)


def test_kinds_have_an_order_of_their_own():
    assert read_kinds("length+string") == ("string", "length") == read_kinds(["length", "string"])
    assert read_kinds("none") == ()


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), max_size=12), st.integers(1, 3))
def test_paths_are_those_seen_often_enough(sequences, min_count):
    symbols = np.array([s for one in sequences for s in one], dtype=np.int32)
    lengths = np.array([len(one) for one in sequences], dtype=np.int64)
    paths = Paths.collect(4, symbols, np.cumsum(lengths) - lengths, lengths, min_count=min_count)
    found = [tuple(row) for level in paths.symbols() for row in level.tolist()]
    wanted = {tuple(one) for one in sequences if sequences.count(one) >= min_count}
    assert set(found) == wanted and len(found) == len(wanted) == paths.n_paths
