"""Regular expressions in bounded time find what ``re`` finds."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.errors import DataError, TemplateError
from loglinear.features.templates.gazetteer import Gazetteer
from loglinear.features.templates.language import TemplateSet, compile_regex
from loglinear.features.templates.patterns import LENGTHS, Pattern, Simulation, _Unsupported, longest_quick
from loglinear.features.templates.sets import SETS, load_template

pieces = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", r"\w", "^", "$", r"\b", r"\B", r"\Z", "é", "(?i:A)"]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}", "{0,2}?"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
        inner.map(lambda part: f"({part})"),
    ),
    max_leaves=8,
)


@settings(deadline=None, max_examples=400)
@given(pieces, st.text("abA1é \n", max_size=9))
def test_the_simulation_finds_what_re_finds(expression: str, value: str) -> None:
    try:
        simulation = Simulation(expression)
    except _Unsupported:
        return
    match = re.search(expression, value)
    assert simulation.search(value) == (None if match is None else match.span())


@pytest.mark.parametrize(
    "expression", ["(a+)+$", "(a|a)*$", "(a|aa)+$", "([a-z]+)*\\d", "(.*)(.*)(.*)x", "a*a*a*a*a*b"]
)
def test_no_value_takes_long(expression: str) -> None:
    pattern, begin = compile_regex(expression), time.process_time()
    for n in (10, 30, 100, 3000, 20_000):
        found = pattern.find("a" * n + "!")
        assert n > 10 or found == (match.group() if (match := re.search(expression, "a" * n + "!")) else None)
    assert time.process_time() - begin < 10.0


@pytest.mark.parametrize("expression", [r"(a+)+\1$", r"(?:a+)+(?=b)$", r"(?:a*)*$"])
def test_what_only_re_can_match_is_refused_where_it_may_take_for_ever(
    expression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pattern = compile_regex(expression)
    assert pattern.find("aab") == (match.group() if (match := re.search(expression, "aab")) else None)
    with pytest.raises(TemplateError, match="may take for ever on a value of 3,001 characters"):
        pattern.find("a" * 3000 + "!")
    monkeypatch.setenv("LOGLINEAR_SLOW_PATTERNS", "1")
    quick = Pattern("(?<=x)b", "(?<=x)b")
    assert quick.find("a" * 3000 + "xb") == "b"


def test_simple_expressions_stay_with_re() -> None:
    for expression in ("^[A-Z]", "[0-9]+", "^[A-Z][a-z]*$", "-", r"^\d+$", "(?<=a)b"):
        assert longest_quick(expression) == LENGTHS[-1], expression
    assert longest_quick("(a+)+$") < 25
    assert longest_quick("abc") == LENGTHS[-1]


def test_the_shipped_templates_have_no_slow_expression() -> None:
    for name in SETS:
        for macro in (macro for line in load_template(name) for macro in line.macros if macro.function in ("m", "t")):
            assert longest_quick(compile_regex(macro.argument).translated) >= 32


def test_a_row_of_thousands_of_digits_is_a_clear_error() -> None:
    for line in (f"U:%x[{'9' * 5000},0]", f"U:%x[0,{'9' * 5000}]"):
        with pytest.raises(TemplateError, match="of more than 9 digits"):
            TemplateSet.parse(line)


def test_an_entry_of_a_gazetteer_has_a_bounded_length() -> None:
    words = " ".join("abc"[n % 3] for n in range(1000))
    assert Gazetteer("g", [words])
    with pytest.raises(DataError, match="has an entry of 1,001 words; at most 1,000"):
        Gazetteer("g", [f"{words} d"])
