"""Encoding by integers equals encoding by strings, position by position."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.data.columns.corpus import Columns
from loglinear.errors import TemplateError
from loglinear.features.templates.encoder import TemplateEncoder
from loglinear.features.templates.gazetteer import Gazetteer
from loglinear.features.templates.language import PLAIN, TemplateSet

LINES = [
    "U00:%x[0,0]",
    "U01:%x[-2,0]",
    "U02:%x[1,1]/%x[0,0]",
    "U:%x[-1,0]",
    "U:%x[1,0]",
    "U:%x[0,1]",
    "U05:%x[-1,1]/%x[0,1]/%x[2,1]/%x[0,0]",
    'U06:%m[0,0,"^.?"]/%t[1,0,"b"]',
    "U07:%suffix[0,0,2]",
    "U08:%X[@1,0]",
    "U09:%x[@-1,1]",
    "U10",
    "B",
    "B01:%x[0,1]",
    "*02:%x[-1,1]",
    *(f"U-{name}:%{name}[0,0]/%{name.capitalize()}[1,1]" for name in PLAIN),
]
words = st.sampled_from(["a", "b", "A", "ab", "B-b", "ba", "é"])
rows = st.lists(st.lists(st.tuples(words, words), min_size=1, max_size=5), min_size=1, max_size=5)
template_sets = st.builds(
    lambda lines, first: TemplateSet.parse("\n".join([*first, *lines])),
    st.lists(st.sampled_from(LINES), min_size=1, max_size=6, unique=True),
    st.sampled_from([[], ["%inside"]]),
)


def names_by_strings(templates, sentence, position, scopes):
    """Attributes of a position, spelt out: the referee."""
    found = []
    for template in templates.observing:
        if template.scope not in scopes:
            continue
        values = []
        for macro in template.macros:
            place = position + macro.row
            if macro.absolute:
                place = macro.row - 1 if macro.row > 0 else len(sentence) + macro.row
            if templates.inside and not 0 <= place < len(sentence):
                values.append(None)
            elif place < 0:
                values.append(f"_B{place}")
            elif place >= len(sentence):
                values.append(f"_B+{place - len(sentence) + 1}")
            else:
                values.append(macro.compute()(sentence[place][macro.column]))
        if None not in values:
            found.append(template.render(values))
    return found


def spelt(incidence, names, position):
    return [names[a] for a in incidence.ids[incidence.pointer[position] : incidence.pointer[position + 1]]]


@settings(max_examples=60)
@given(rows, template_sets, st.booleans())
def test_attributes_are_those_that_strings_would_give(sentences, templates, pair_features):
    encoder = TemplateEncoder(templates, pair_features=pair_features)
    encoded = encoder.fit(Columns.from_rows(sentences))
    names = encoder.names()
    assert len(set(names)) == len(names) == encoder.n_attributes
    in_edges = ("edge", "both", "state") if pair_features else ("edge", "both")
    position = 0
    for sentence in sentences:
        for t in range(len(sentence)):
            assert spelt(encoded.state, names, position) == names_by_strings(templates, sentence, t, ("state", "both"))
            if encoded.edge is not None:
                assert spelt(encoded.edge, names, position) == names_by_strings(templates, sentence, t, in_edges)
            position += 1


@settings(max_examples=40)
@given(rows, rows, template_sets, st.integers(1, 3))
def test_a_locked_encoder_knows_what_training_showed_often_enough(train, test, templates, min_count):
    encoder = TemplateEncoder(templates)
    encoded = encoder.fit(Columns.from_rows(train), min_count)
    again = encoder.transform(Columns.from_rows(train))
    assert np.array_equal(encoded.state.ids, again.state.ids)
    assert np.array_equal(encoded.state.pointer, again.state.pointer)
    everywhere = ("state", "edge", "both")
    counts: dict[str, int] = {}
    for sentence in train:
        for t in range(len(sentence)):
            for name in names_by_strings(templates, sentence, t, everywhere):
                counts[name] = counts.get(name, 0) + 1
    known = {name for name, count in counts.items() if count >= min_count}
    names = encoder.names()
    assert set(names) == known
    encoded = encoder.transform(Columns.from_rows(test))
    position = 0
    for sentence in test:
        for t in range(len(sentence)):
            expected = [n for n in names_by_strings(templates, sentence, t, ("state", "both")) if n in known]
            assert spelt(encoded.state, names, position) == expected
            position += 1


@settings(max_examples=40)
@given(rows, template_sets, st.data())
def test_storage_and_selection_keep_the_attributes(train, templates, data):
    corpus = Columns.from_rows(train)
    encoder = TemplateEncoder(templates)
    encoder.fit(corpus)
    stored = TemplateEncoder.from_storage(encoder.to_header(), encoder.to_arrays(), encoder.strings)
    assert stored.names() == encoder.names()
    kept = np.array(
        data.draw(st.lists(st.booleans(), min_size=encoder.n_attributes, max_size=encoder.n_attributes)), bool
    )
    fewer = encoder.keeping(kept)
    assert fewer.names() == [name for name, keep in zip(encoder.names(), kept, strict=True) if keep]
    numbers = fewer.matching(encoder)
    assert [fewer.names()[i] if i >= 0 else None for i in numbers] == [
        name if keep else None for name, keep in zip(encoder.names(), kept, strict=True)
    ]


def test_a_column_that_is_not_there_is_named():
    with pytest.raises(
        TemplateError, match=r"column 3 \(from 0\), so that each token needs at least 4 columns, but <python> has 1$"
    ):
        TemplateEncoder(TemplateSet.parse("U:%x[0,3]")).fit(Columns.from_rows([["a"]]))


def test_gazetteer_marks_longest_matches(tmp_path):
    path = tmp_path / "places.txt"
    path.write_text("# places\nNew York\nNew York City\nYork\nOslo\n\n", encoding="utf-8")
    places = Gazetteer.read(path)
    encoder = TemplateEncoder(TemplateSet.parse("U:%gazetteer[0,0,places]\nV"[:-2]), {"places": places})
    corpus = Columns.from_rows([["in", "New", "York", "City", "York", "New"], ["York", "oslo", "Oslo"]])
    encoded = encoder.fit(corpus)
    marks = ["".join(spelt(encoded.state, encoder.names(), t))[2:] for t in range(9)]
    assert marks == ["", "B", "I", "L", "S", "", "S", "", "S"]


entries = st.lists(st.lists(st.sampled_from("abC"), min_size=1, max_size=3).map(tuple), min_size=1, max_size=6)


@given(
    entries, st.lists(st.lists(st.sampled_from("abcC"), min_size=1, max_size=6), min_size=1, max_size=3), st.booleans()
)
def test_gazetteer_equals_a_greedy_search(names, sentences, lowered):
    corpus = Columns.from_rows(sentences)
    marks = Gazetteer("g", names).match(corpus.columns[0].ids, corpus.columns[0].values, corpus.offsets, lowered)
    same = (lambda s: s.lower()) if lowered else (lambda s: s)
    known = {tuple(same(word) for word in name) for name in names}
    expected = []
    for sentence in sentences:
        t = 0
        while t < len(sentence):
            lengths = [
                n for n in (3, 2, 1) if tuple(map(same, sentence[t : t + n])) in known and t + n <= len(sentence)
            ]
            n = lengths[0] if lengths else 0
            expected += {0: [-1], 1: [3], 2: [0, 2], 3: [0, 1, 2]}[n]
            t += max(n, 1)
    assert marks.tolist() == expected
