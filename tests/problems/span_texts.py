"""Texts with spans for property tests: emoji, joiners, right-to-left, line ends of all kinds, combining marks."""

from hypothesis import strategies as st

from loglinear.data.spans import Span, Text
from loglinear.data.spans.tokens import token_offsets

WORDS = st.sampled_from(
    ["Anna", "Zoe\u0301", "हिन्दी", "שלום", "مرحبا", "👩\u200d🚀", "👍🏽", "🇳🇴", "1,000.50", "don't", "Fed-Ex", "東京",
     "\U0001d518", "x\u200ey", "\u202eabc",
     "\u200f", "a\u00adb", "\ufeff", "\u0301", "\x07", '"', "\\", "<b>", "{", "\t,\t", "O", "_", "#"]
)  # fmt: skip
OTHERS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4)
GAPS = st.sampled_from([" ", "", "\n", "\r\n", "  ", "\t", "\u00a0", "\u200b", "\u2028", "\r"])
LABELS = st.sampled_from(["PER", "LOC", "0", "B", "work-of-art", "Ж", "👍"])


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A text of such words; it may be empty."""
    parts = draw(
        st.lists(
            st.tuples(
                WORDS | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4), GAPS
            ),
            max_size=6,
        )
    )
    return draw(GAPS) + "".join(word + gap for word, gap in parts)


@st.composite
def any_spans(draw: st.DrawFn, text: str, labels: st.SearchStrategy[str] = LABELS) -> list[Span]:
    """Spans anywhere in a text, which may overlap; in order, as annotation tools write them."""
    if not text:
        return []
    place = st.integers(0, len(text))
    pairs = draw(st.lists(st.tuples(place, place, labels), max_size=4))
    return [Span(min(a, b), max(a, b), label) for a, b, label in pairs]


@st.composite
def token_aligned(draw: st.DrawFn) -> Text:
    """A text with spans apart from each other that begin and end with tokens."""
    text = draw(texts())
    tokens = token_offsets(text)
    spans, at = [], 0
    while at < len(tokens):
        length = draw(st.integers(0, 3))
        if length:
            end = min(at + length, len(tokens))
            spans.append(Span(tokens[at][0], tokens[end - 1][1], draw(LABELS)))
            at = end
        at += draw(st.integers(0, 2)) if length else 1
    return Text(text, spans)
