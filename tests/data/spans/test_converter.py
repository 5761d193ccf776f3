"""From spans to labels and back: the identity where labels can say it, else an error or what the rules ask for."""

import warnings
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loglinear.data import Columns, Span, Text, TextFile, write_columns
from loglinear.data.columns.corpus import Column
from loglinear.data.spans.corpus import SPELLING, Rules, corpus_of_texts, spelt, text_tokens, token_spans
from loglinear.data.spans.spacy import words_and_spaces
from loglinear.errors import DataError, OptionError
from loglinear.evaluation.chunks import chunk_scores
from loglinear.evaluation.spans import label_spans, labels_to_spans, marked_texts, spans_to_labels
from loglinear.structures.constraints import constraint_masks
from loglinear.structures.segments import scheme as segments
from problems.span_texts import any_spans, texts, token_aligned

SCHEMES = st.sampled_from(sorted(SPELLING))


def corpus_of(file, *arguments, **rules):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return corpus_of_texts(file, Rules(**rules), *arguments)


def test_schemes_are_spelt_as_segments_are():
    assert {name: SPELLING[name] for name in segments._PREFIXES} == segments._PREFIXES


@given(st.lists(token_aligned(), min_size=1, max_size=4), SCHEMES, st.sampled_from(["texts", "lines"]))
def test_spans_to_labels_to_spans_is_the_identity(marked, scheme, sentences):
    file = TextFile("f", "doccano", marked)
    if not any(text_tokens(text) for text in marked):
        with pytest.raises(DataError, match="no tokens"):
            corpus_of(file, scheme=scheme, sentences=sentences)
        return
    corpus = corpus_of(file, scheme=scheme, sentences=sentences)
    again = marked_texts(corpus, corpus.column(-1), "doccano")
    assert [text.spans for text in again] == [text.spans for text in marked]


@given(token_aligned(), SCHEMES)
def test_functions_of_python_are_the_same_converter(text, scheme):
    spans = [(span.start, span.end, span.label) for span in text.spans]
    tokens, labels = spans_to_labels(text.text, spans, scheme=scheme)
    assert labels_to_spans(tokens, labels) == spans


@given(token_aligned(), SCHEMES)
def test_labels_are_legal_in_their_scheme(text, scheme):
    labels = spans_to_labels(text.text, [(s.start, s.end, s.label) for s in text.spans], scheme=scheme)[1]
    if labels:
        names = sorted(set(labels))
        pairs, starts, ends = constraint_masks(scheme, names)
        numbers = [names.index(label) for label in labels]
        assert starts[numbers[0]] and ends[numbers[-1]]
        assert all(pairs[a, b] for a, b in pairwise(numbers))


@given(st.lists(st.sampled_from(["O", "B-X", "I-X", "B-Y", "I-Y", "E-X", "S-Y", "L-X", "U-X"]), min_size=1))
def test_spans_of_any_labels_are_the_chunks_that_eval_counts(labels):
    column = Column.from_strings(labels)
    spans = label_spans(column, Columns.from_rows([labels]).offsets)
    assert len(spans) == chunk_scores([labels], [labels]).phrases
    assert all(begin < end for begin, end, _ in spans)


@given(texts().flatmap(lambda text: st.tuples(st.just(text), any_spans(text))))
def test_snapped_and_outermost_spans_cover_whole_tokens_and_are_apart(made):
    text = Text(*made)
    tokens = text_tokens(text)
    changes = []
    spans = token_spans(text, tokens, Rules(borders="snap", overlaps="outermost"), changes)
    at = 0
    for first, end, _ in spans:
        assert at <= first < end
        at = end
    assert len(spans) + sum("left out" in change for change in changes) == len(text.spans)
    covered = {t for first, end, _ in spans for t in range(first, end)}
    for span in text.spans:  # whatever a span touches is still in some span
        assert {t for t, (b, e) in enumerate(tokens) if b < span.end and e > span.start} <= covered or any(
            "left out" in change and str(span.start) in change for change in changes
        )
    try:
        strict = token_spans(text, tokens)
    except DataError:
        assert changes
    else:
        assert strict == spans and not changes


@pytest.mark.parametrize(
    "spans, rules, message, labels",
    [
        ([Span(0, 3, "P")], {"borders": "snap"}, r"line 7: the span 'P' 0-3 \('Ann'\).*: now 0-4",
         ["B-P", "O", "O"]),
        ([Span(0, 5, "P")], {"borders": "snap"}, "does not begin and end with a token", ["B-P", "O", "O"]),
        ([Span(4, 5, "P")], {"borders": "snap"}, "covers no token", ["O", "O", "O"]),
        ([Span(0, 9, "P"), Span(5, 9, "Q")], {"overlaps": "outermost"}, "tokens with the span 'P' 0-9",
         ["B-P", "I-P", "O"]),
        ([Span(0, 9, "P"), Span(5, 14, "Q")], {"overlaps": "outermost"}, "shares tokens", ["B-P", "I-P", "O"]),
        ([Span(0, 14, "P", ((0, 4), (10, 14)))], {"gaps": "fill"}, "in several pieces", ["B-P", "I-P", "I-P"]),
        ([Span(0, 14, "P", ((0, 4), (10, 14)))], {"gaps": "split"}, "in several pieces", ["B-P", "O", "B-P"]),
    ],
)  # fmt: skip
def test_what_labels_cannot_say_is_refused_or_changed_and_said(spans, rules, message, labels):
    file = TextFile("f", "doccano", [Text("Anna Berg sang", spans, None, "f", 7)])
    with pytest.raises(DataError, match=rf"^f:7: .*--{next(iter(rules))} "):
        corpus_of_texts(file)
    with pytest.warns(UserWarning, match=message):
        corpus = corpus_of_texts(file, Rules(**rules))
    assert corpus.labels() == [labels]


def test_tokens_of_the_file_are_used_but_for_blanks():
    text = Text("New York\n!", [Span(0, 8, "L")], [(0, 8), (8, 9), (9, 10)])
    assert corpus_of_texts(TextFile("f", "prodigy", [text])).rows() == [[("New York", "B-L"), ("!", "O")]]


def test_texts_that_nobody_annotated_are_passed_over_and_said():
    texts = [Text("a"), Text("b", []), Text("c", [], passed_over=True), Text(" ", []), Text("d", [Span(0, 1, "X")])]
    file = TextFile("f", "prodigy", texts)
    with pytest.warns(UserWarning, match="passed over 1 unannotated text, 1 empty text"):
        corpus = corpus_of_texts(file)
    assert corpus.rows() == [[("b", "O")], [("d", "B-X")]]
    with pytest.warns(UserWarning):
        everything = corpus_of_texts(file, labels=False)
    assert everything.rows() == [[("a",)], [("b",)], [("c",)], [("d",)]] and everything.unlabelled is not None
    with pytest.warns(UserWarning):
        assert corpus_of_texts(file, open_label="*").labels() == [["*"], ["O"], ["*"], ["B-X"]]
    predicted = marked_texts(everything, Column.from_strings(["B-Y", "O", "B-Y", "O"]), "prodigy")
    assert [text.spans for text in predicted] == [[Span(0, 1, "Y")], [], [Span(0, 1, "Y")], [], []]


def test_lines_are_sequences_and_a_span_over_a_line_end_keeps_them_together():
    text = Text("a b\nc\r\nd e\nf", [Span(4, 8, "X")])
    corpus = corpus_of_texts(TextFile("f", "brat", [text]))
    assert corpus.labels() == [["O", "O"], ["B-X", "I-X", "O"], ["O"]]
    assert corpus_of_texts(TextFile("f", "brat", [text]), Rules(sentences="texts")).n_sentences == 1


def test_labels_of_no_scheme_make_a_span_of_each_token():
    assert labels_to_spans([(0, 1), (2, 3)], ["NN", "O"]) == [(0, 1, "NN")]
    assert labels_to_spans([(0, 1), (2, 3)], ["B", "I"]) == [(0, 3, "chunk")]


def test_a_wrong_rule_is_refused():
    with pytest.raises(OptionError, match="borders='cut' must be one of refuse, snap"):
        Rules(borders="cut")


@pytest.mark.parametrize("span", [(0, 9, "X"), (3, 2, "X"), (-1, 2, "X"), (0, 1, ""), ("0", 1, "X")])
def test_spans_that_are_none_are_refused(span):
    with pytest.raises(DataError):
        spans_to_labels("Anna", [span])


@given(token_aligned())
def test_spacy_gives_the_same_biluo_tags(text):
    spacy = pytest.importorskip("spacy")
    from spacy.training import offsets_to_biluo_tags

    tokens, labels = spans_to_labels(text.text, [(s.start, s.end, s.label) for s in text.spans], scheme="bilou")
    words, blanks = words_and_spaces(text.text, tokens)
    doc = spacy.tokens.Doc(spacy.blank("xx").vocab, words=words, spaces=blanks)
    tags = offsets_to_biluo_tags(doc, [(s.start, s.end, s.label) for s in text.spans])
    at = {token.idx: tag for token, tag in zip(doc, tags, strict=True)}
    assert [at[begin] for begin, _ in tokens] == labels


def test_spelling_a_span_again_after_its_like():
    assert spelt(4, [(0, 1, "X"), (1, 3, "X"), (3, 4, "Y")], "iob1") == ["I-X", "B-X", "I-X", "I-Y"]


def test_labels_with_blanks_go_to_columns_with_tabs(tmp_path):
    corpus = corpus_of_texts(TextFile("f", "doccano", [Text("Peer Gynt", [Span(0, 9, "Work of Art")])]))
    with (tmp_path / "a.txt").open("wb") as out:
        write_columns(corpus, out)
    assert (tmp_path / "a.txt").read_text() == "Peer\tB-Work of Art\nGynt\tI-Work of Art\n\n"
