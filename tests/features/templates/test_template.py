"""The template language: what is read is what is written, and each macro means what it says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loglinear.errors import OptionError, TemplateError
from loglinear.features.templates.language import (
    PLAIN,
    WITH_ARGUMENT,
    Macro,
    Template,
    TemplateSet,
    brief,
    compile_regex,
    shape,
)
from loglinear.features.templates.sets import SETS, load_template, named_set, template_text

macros = st.builds(
    Macro,
    row=st.integers(-3, 3).filter(bool),
    column=st.integers(0, 4),
    function=st.sampled_from(list(PLAIN)),
    lowered=st.booleans(),
    absolute=st.booleans(),
) | st.builds(
    Macro,
    row=st.integers(-3, 3),
    column=st.integers(0, 4),
    function=st.sampled_from(["m", "t"]),
    argument=st.sampled_from([r"^\u", r"\d+$", r"a\"b", "[^x,]", r"^.?.?", r"\\"]),
)
literals = st.text(
    st.characters(codec="utf-8", exclude_characters="%\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), max_size=5
)


@st.composite
def templates(draw):
    pieces = [draw(st.sampled_from("UB*")) + draw(literals)]
    for macro in draw(st.lists(macros, max_size=3)):
        pieces += [macro, "/" + draw(literals)]
    return Template(*pieces)


@given(templates())
def test_a_template_reads_back_as_it_was_written(template):
    assert str(Template.parse(str(template))) == str(template)
    assert Template.parse(str(template)).macros == template.macros


@pytest.mark.parametrize(
    "template",
    [
        Template("U:", Macro(0, function="m", argument='a"b')),
        Template("U:", Macro(0, function="m", argument="a\nb")),
        Template("U:", Macro(0), " "),
        Template("U:a\nb"),
        Template("U:%x[0,0]"),
    ],
    ids=repr,
)
def test_templates_that_no_file_could_hold_are_refused(template):
    with pytest.raises(TemplateError, match="cannot be written"):
        TemplateSet((template,))


def test_a_set_of_templates_inside_the_sequence_reads_back_as_it_was_written():
    parsed = TemplateSet.parse("U0:%x[-1,0]\n%inside\nB\n")
    assert parsed.inside and len(parsed) == 2
    assert TemplateSet.parse(str(parsed)) == parsed


def test_an_empty_set_is_refused():
    with pytest.raises(TemplateError, match="there is no template"):
        TemplateSet(())


def test_crf_plus_plus_lines():
    parsed = TemplateSet.parse("# comment\n\nU00:%x[-2,0]\nU01:%x[-1,0]/%x[0,1]\nB\nB01:%x[0,0]\n*02:%x[ 0, 1]\n")
    assert [template.scope for template in parsed] == ["state", "state", "edge", "edge", "both"]
    assert parsed.templates[1].macros == (Macro(-1, 0), Macro(0, 1))
    assert parsed.has_label_bigram and len(parsed.observing) == 4
    assert parsed.columns == {0, 1}


def test_templates_that_differ_in_rows_only_share_their_skeleton():
    assert Template.parse("U:%x[-1,0]").skeleton == Template.parse("U:%x[1,0]").skeleton
    assert Template.parse("U1:%x[-1,0]").skeleton != Template.parse("U2:%x[-1,0]").skeleton


COMPUTED = [
    ("%x[0,0]", "McX", "McX"),
    ("%X[0,0]", "McX", "mcx"),
    ('%m[0,0,"^.?.?"]', "McX", "Mc"),
    ('%M[0,0,"^.?.?"]', "McX", "mc"),
    ('%M[0,0,"^\\u"]', "McX", "m"),
    ('%T[0,0,"^\\u"]', "McX", "true"),
    ('%m[0,0,"\\d+"]', "McX", ""),
    ('%t[0,0,"\\u$"]', "McX", "true"),
    ('%t[0,0,"^\\l"]', "McX", "false"),
    ("%lower[0,0]", "McX", "mcx"),
    ("%prefix[0,0,2]", "McX", "Mc"),
    ("%suffix[0,0,4]", "McX", None),
    ("%Suffix[0,0,2]", "McX", "cx"),
    ("%shape[0,0]", "Fed-Ex22", "Aaa-Aa00"),
    ("%brief[0,0]", "Fed-Ex22", "Aa-Aa0"),
]


@pytest.mark.parametrize(("macro", "value", "expected"), COMPUTED)
def test_macros_compute(macro, value, expected):
    (parsed,) = Template.parse(f"U:{macro}").macros
    assert parsed.compute()(value) == expected


@pytest.mark.parametrize("name", [*PLAIN, *WITH_ARGUMENT])
@given(value=st.text(max_size=12))
def test_every_macro_gives_text_or_nothing_for_any_value(name, value):
    written = [macro for macro, _, _ in COMPUTED if macro.startswith(f"%{name}[")]
    assert written, f"COMPUTED has no line for %{name}"
    for macro in written:
        (parsed,) = Template.parse(f"U:{macro}").macros
        assert isinstance(parsed.compute()(value), str | None)


@given(st.text(max_size=12))
def test_shapes_keep_length_and_brief_has_no_repeats(word):
    assert len(shape(word)) == len(word)
    assert all(a != b for a, b in zip(brief(word), brief(word)[1:], strict=False))


@pytest.mark.parametrize("letter", "alupdws")
@given(character=st.characters(min_codepoint=0x21, max_codepoint=0x2FFF))
def test_a_class_and_its_complement_part_all_characters(letter, character):
    inside = compile_regex(f"\\{letter}").find(character) is not None
    outside = compile_regex(f"\\{letter.upper()}").find(character) is not None
    assert inside != outside


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("X00:%x[0,0]", "begins with U, B or"),
        ("U00:%x[0]", "is not a macro"),
        ("U00:%y[0,0]", "there is no macro %y"),
        ("U00:%m[0,0]", "needs an argument"),
        ('U00:%m[0,0,"("]', "not valid"),
        ("U00:%prefix[0,0,0]", "from 1 to 1000"),
        ("U00:%prefix[0,0,²]", "from 1 to 1000"),
        ("U00:%x[20000000,0]", "too far away"),
        ("U00:%x[@0,0]", "count from 1"),
        ("U00:%lower[0,0,3]", "row and a column only"),
    ],
)
def test_a_bad_line_is_named(line, says):
    with pytest.raises(TemplateError, match=says) as caught:
        TemplateSet.parse(f"U:%x[0,0]\n{line}\n", "mine.txt")
    assert str(caught.value).startswith("mine.txt:2: ")


def test_an_empty_template_is_refused():
    with pytest.raises(TemplateError, match="no template"):
        TemplateSet.parse("# nothing\n", "empty.txt")


@pytest.mark.parametrize("name", SETS)
def test_named_sets_are_templates_with_label_bigrams(name):
    assert named_set(name).has_label_bigram
    assert TemplateSet.parse(template_text(name)) == named_set(name)


def test_chunking_is_the_19_predicates():
    assert len(named_set("chunking").observing) == 19


def test_ner_uses_tags_only_if_there_are_and_all_gazetteers():
    assert named_set("ner", 1).columns == {0}
    assert named_set("ner", 2).columns == {0, 1}
    assert named_set("ner", 1, ["places", "people"]).gazetteers == {"places", "people"}


def test_an_unknown_set_lists_those_there_are():
    with pytest.raises(OptionError, match="chunking, pos, ner, words"):
        named_set("chunkin")


def test_a_template_is_loaded_from_text_a_set_a_file_or_objects(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("\ufeffU0:%x[0,0]\nB\n", encoding="utf-8")
    expected = TemplateSet.parse("U0:%x[0,0]\nB\n")
    for given_as in (path, str(path), "U0:%x[0,0]\nB\n", expected):
        assert load_template(given_as) == expected
    assert load_template("words") == named_set("words")
    for wrong, says in [(tmp_path / "absent", "no such template file"), (tmp_path, "cannot be read"), (3, "is a int")]:
        with pytest.raises((TemplateError, OptionError), match=says):
            load_template(wrong)


def test_a_set_is_shown_in_a_line():
    assert repr(named_set("chunking")) == "<TemplateSet of 20: U00:%x[-2,0], U01:%x[-1,0], ...>"
    assert repr(TemplateSet.parse("U:%x[0,0]\n")) == "<TemplateSet of 1: U:%x[0,0]>"
