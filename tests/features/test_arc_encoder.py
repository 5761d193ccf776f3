"""Features of arcs against a plain-Python account of the templates."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loglinear.data import Column
from loglinear.features.arcs import (
    BETWEEN,
    LEFT_TAG,
    NONE,
    PAIR,
    SETS,
    STEM,
    TAG,
    TAG_RIGHT,
    THREE_TAGS,
    VIEW_BITS,
    WORD,
    ArcEncoder,
    TokenVocabulary,
    stem_of,
)
from loglinear.features.encoding import runs

WORDS, TAGS = ["walking", "walked", "a", "in", "1987"], ["N", "V", "D"]


def view(sentence, t, kind):
    """A view of token t (0: root) as a tuple of strings."""
    words = ["<root>", *(word for word, _ in sentence)]
    tags = ["<before>", "<root>", *(tag for _, tag in sentence), "<after>"]
    return {
        NONE: (),
        WORD: (words[t],),
        TAG: (tags[t + 1],),
        PAIR: (words[t], tags[t + 1]),
        STEM: (stem_of(words[t]) if t else "<root>",),
        LEFT_TAG: (tags[t], tags[t + 1]),
        TAG_RIGHT: (tags[t + 1], tags[t + 2]),
        THREE_TAGS: (tags[t], tags[t + 1], tags[t + 2]),
    }[kind]


def arc_features(sentence, head, child, name):
    """All features of an arc as tuples."""
    found, distance = [], abs(head - child)
    far = (head < child, distance if distance < 5 else 5 if distance < 10 else 10)
    for number, template in enumerate(SETS[name].templates):
        views = view(sentence, head, template.head), view(sentence, child, template.child)
        found += [(number, *views)] * template.plain + [(number, *views, far)] * template.far
    if SETS[name].between:
        low, high = sorted((head, child))
        tags = {view(sentence, t, TAG) for t in range(low + 1, high)}
        found += [("between", view(sentence, head, TAG), tag, view(sentence, child, TAG), far[0]) for tag in tags]
    return found


@st.composite
def corpora(draw):
    lengths = draw(st.lists(st.integers(1, 12), min_size=1, max_size=4))
    token = st.tuples(st.sampled_from(WORDS), st.sampled_from(TAGS))
    sentences = [draw(st.lists(token, min_size=n, max_size=n)) for n in lengths]
    heads = [[0, *(draw(st.integers(1, t)) for t in range(1, n))] for n in lengths]
    return sentences, heads


def columns(sentences):
    words = Column.from_strings(word for sentence in sentences for word, _ in sentence)
    tags = Column.from_strings(tag for sentence in sentences for _, tag in sentence)
    return words, tags, np.cumsum([0, *map(len, sentences)]).astype(np.int64)


def encoded(sentences, heads, name, min_count=1):
    words, tags, offsets = columns(sentences)
    vocabulary = TokenVocabulary.fit(words, tags)
    tokens = vocabulary.tokens(words, tags, offsets)
    flat = np.array([head for tree in heads for head in tree], dtype=np.int32)
    return ArcEncoder.fit(vocabulary, name, tokens, flat, min_count), tokens, flat


@given(corpora(), corpora(), st.sampled_from(["arcs", "relations"]), st.integers(1, 2))
def test_arcs_have_the_features_that_trees_of_training_have(train, test, name, min_count):
    sentences, heads = train
    encoder, tokens, flat = encoded(sentences, heads, name, min_count)
    counts: dict[tuple, int] = {}
    for sentence, tree in zip(sentences, heads, strict=True):
        for child, head in enumerate(tree, 1):
            for feature in arc_features(sentence, head, child, name):
                counts[feature] = counts.get(feature, 0) + 1
    known = {feature for feature, count in counts.items() if count >= min_count}
    assert encoder.n_features == len(known)
    pointer, ids = encoder.chosen(tokens, flat)
    lists = [
        [feature for feature in arc_features(sentence, head, child, name) if feature in known]
        for sentence, tree in zip(sentences, heads, strict=True)
        for child, head in enumerate(tree, 1)
    ]
    assert np.diff(pointer).tolist() == [len(features) for features in lists]
    of_number: dict[int, tuple] = {}
    for features, (a, b) in zip(lists, pairwise(pointer.tolist()), strict=True):
        ordered = [f for f in features if f[0] != "between"]
        for number, feature in zip(ids[a:b].tolist(), ordered, strict=False):
            assert of_number.setdefault(number, feature) == feature
    others = test[0]
    words, tags, offsets = columns(others)
    more = encoder.vocabulary.tokens(words, tags, offsets)
    corpus = encoder.arcs(more, 2)
    arc = 0
    for sentence in others:
        for child in range(1, len(sentence) + 1):
            for head in range(len(sentence) + 1):
                features = [] if head == child else [f for f in arc_features(sentence, head, child, name) if f in known]
                own = corpus.ids[corpus.pointer[arc] : corpus.pointer[arc + 1]]
                assert len(own) == len(features)
                plain = [f for f in features if f[0] != "between"]
                for number, feature in zip(own.tolist(), plain, strict=False):
                    assert of_number.get(number, feature) == feature
                arc += 1
    assert arc == corpus.arc_offsets[-1]


@given(corpora(), st.integers(1, 3))
def test_all_arcs_may_be_asked_for_features(train, min_count):
    sentences, heads = train
    observed, tokens, _ = encoded(sentences, heads, "arcs")
    counts: dict[tuple, int] = {}
    for sentence in sentences:
        for child in range(1, len(sentence) + 1):
            for head in range(len(sentence) + 1):
                for feature in arc_features(sentence, head, child, "arcs") if head != child else []:
                    counts[feature] = counts.get(feature, 0) + 1
    whole = ArcEncoder.fit(observed.vocabulary, "arcs", tokens, None, min_count)
    assert whole.n_features == sum(count >= min_count for count in counts.values())
    corpus = whole.arcs(tokens)
    assert len(corpus.ids) == sum(count for count in counts.values() if count >= min_count)


def test_keys_hold_their_fields():
    sentences = [[("a", "D"), ("walked", "V"), ("in", "N")]]
    encoder, _, _ = encoded(sentences, [[3, 3, 0]], "arcs")
    templates = encoder.features >> (2 * VIEW_BITS + 4)
    assert set(templates.tolist()) == {*range(len(SETS["arcs"].templates)), BETWEEN}
    assert (encoder.features >= 0).all()
    assert (np.diff(encoder.features) > 0).all()


@pytest.mark.parametrize(("word", "stem"), [("Walking", "walki"), ("1987", "0000"), ("a", "a")])
def test_stems(word, stem):
    assert stem_of(word) == stem


def test_runs_cover_all_sentences():
    offsets = np.array([0, 2, 8, 20, 22], dtype=np.int64)
    assert runs(offsets, 0, 4, 8) == [(0, 2), (2, 3), (3, 4)]
    assert runs(offsets, 1, 4, 100) == [(1, 4)]
