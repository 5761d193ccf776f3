"""Laws of the tokenizer, and what its page says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loglinear.data.spans.tokens import token_offsets
from problems.span_texts import texts


@given(texts() | st.text(max_size=20))
def test_tokens_ascend_and_hold_all_but_blanks(text: str) -> None:
    at = 0
    for begin, end in token_offsets(text):
        assert at <= begin < end <= len(text)
        assert all(c.isspace() or c in "\u200b\ufeff" for c in text[at:begin])
        assert not any(c.isspace() for c in text[begin:end])
        at = end
    assert all(c.isspace() or c in "\u200b\ufeff" for c in text[at:])


@pytest.mark.parametrize(
    "text, tokens",
    [
        ("Zoe\u0301 paid 1,000.50.", ["Zoe\u0301", "paid", "1,000.50", "."]),
        ("Oslo-based, Anna's", ["Oslo", "-", "based", ",", "Anna", "'", "s"]),
        ("👩\u200d🚀👍🏽🇳🇴🇳🇴", ["👩\u200d🚀", "👍🏽", "🇳🇴", "🇳🇴"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("שלום עולם!", ["שלום", "עולם", "!"]),
        ("a_b A4 3rd", ["a_b", "A4", "3rd"]),
        ("ភាសា\u200bខ្មែរ", ["ភាសា", "ខ្មែរ"]),
        ("", []),
        (" \r\n\u00a0", []),
    ],
)
def test_examples(text: str, tokens: list[str]) -> None:
    assert [text[begin:end] for begin, end in token_offsets(text)] == tokens
