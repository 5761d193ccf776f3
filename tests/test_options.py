"""Options as fields, specs (the short texts that name a part and its options), and registries of parts."""

import inspect
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loglinear.errors import OptionError
from loglinear.options import (
    Option,
    Registry,
    Spec,
    check,
    declared,
    option,
    options,
    options_of,
    spec_name,
    spec_options,
)

DECLARED = (
    Option("k", 1, "how many", least=1, kind=int),
    Option("C", 1.0, "how far", above=0, kind=float),
    Option("average", False, "whether to average", choices=(False, True)),
    Option("decoding", "global", "how to decode", choices=("global", "local")),
    Option("threshold", None, "from where", least=0, kind=float),
)


def test_a_switch_may_have_words_besides_on_and_off():
    pairs = Option("pairs", False, "", choices=(False, True), words=("only",))
    assert [pairs.read(text) for text in ("only", "yes", "no")] == ["only", True, False] and pairs.is_switch
    for value in (True, False, "only"):
        pairs.check(value)
    with pytest.raises(OptionError, match="not one of False, True, only"):
        pairs.check("never")
    with pytest.raises(OptionError, match="must be yes, only or no"):
        pairs.read("never")


@given(
    k=st.integers(1, 10**6),
    c=st.floats(1e-6, 1e6),
    average=st.booleans(),
    decoding=st.sampled_from(["global", "local"]),
)
def test_what_is_written_is_read(k, c, average, decoding):
    spec = f"mira: k={k}, C={c!r},average={'yes' if average else 'no'},decoding={decoding}"
    assert spec_name(spec) == "mira"
    values = {"k": k, "C": c, "average": average, "decoding": decoding}
    assert spec_options(spec, DECLARED, "criterion") == values


def test_a_switch_needs_no_value_and_what_is_left_out_is_not_there():
    assert spec_options("sgd:average", DECLARED, "optimizer") == {"average": True}
    assert spec_options("sgd", DECLARED, "optimizer") == spec_options("sgd:", DECLARED, "optimizer") == {}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("mira:z=1", "criterion 'mira' has no option 'z'; it has k, C, average, decoding, threshold"),
        ("mira:k=1.5", "k='1.5' must be a whole number"),
        ("mira:k=0", "k=0 must be at least 1"),
        ("mira:C=0", "C=0.0 must be greater than 0"),
        ("mira:C=nan", "C=nan must be a number"),
        ("mira:C=inf", "C=inf must be finite"),
        ("mira:k", "k needs a value, as in mira:k=1"),
        ("mira:k=1,k=2", "gives 'k' twice"),
        ("mira:average=perhaps", "must be yes or no"),
        ("mira:decoding=here", "is not one of global, local"),
    ],
)
def test_what_makes_no_sense_is_refused(spec, message):
    with pytest.raises(OptionError) as caught:
        spec_options(spec, DECLARED, "criterion")
    assert message in str(caught.value)


@options
class Shared:
    threads: int | None = option("threads", default=None, least=1, varies=True)


@options
class Example(Shared):
    name = "example"
    k: int = option("how many", default=1, least=1)
    C: float = option("how far", default=1.0, above=0)
    average: bool = option("whether to average", default=False)
    decoding: str = option("how to decode", default="global", choices=("global", "local"))
    limit: float | None = option("seconds", default=60.0, above=0)


def test_fields_declare_options_and_their_annotation_says_what_they_may_be():
    known = declared(Example)
    assert list(known) == ["threads", "k", "C", "average", "decoding", "limit"]
    assert [each.kind for each in known.values()] == [int, int, float, None, None, float]
    assert known["average"].is_switch and known["threads"].varies and not known["k"].varies
    assert Example(k=3).k == 3 and Example().C == 1.0
    assert str(inspect.signature(Example)).startswith("(*, threads: int | None = None, k: int = 1, C: float = 1.0")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"k": 0}, "k=0 must be at least 1"),
        ({"k": None}, "k=None must be a whole number"),
        ({"C": "much"}, "C='much' must be a number"),
        ({"average": 2}, "average=2 is not one of False, True"),
        ({"limit": 0.0}, "limit=0.0 must be greater than 0"),
        ({"threads": 0}, "threads=0 must be at least 1"),
    ],
)
def test_values_are_checked_by_their_declaration(values, message):
    check(Example(limit=None, threads=None))
    with pytest.raises(OptionError, match=re.escape(message)):
        check(Example(**values))


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "k": st.integers(1, 10**6),
            "C": st.floats(1e-6, 1e6),
            "average": st.booleans(),
            "decoding": st.sampled_from(["global", "local"]),
        },
    )
)
def test_a_spec_is_the_text_it_was_parsed_from(values):
    registry = Registry("example", {})
    registry.register(Example)
    spec = Spec(Example, values)
    parsed = registry.spec(str(spec))
    assert parsed == spec and registry.spec(parsed) is parsed
    made = parsed.make()
    assert all(getattr(made, name) == value == spec[name] for name, value in values.items())
    assert spec["limit"] == 60.0 and spec["unheard of"] is None
    assert spec.replace(k=7)["k"] == 7


def test_a_registry_imports_a_part_when_it_is_asked_for():
    code = """
import sys
from loglinear.criteria.criterion import CRITERIA
listed = list(CRITERIA)
assert "softmax-margin" in listed and not any(m.startswith("loglinear.criteria.") and m.count(".") == 2 and
    m.rpartition(".")[2] not in ("criterion",) for m in sys.modules), sorted(m for m in sys.modules if "criteria" in m)
assert CRITERIA["cll"].name == "cll" and "loglinear.criteria.risk" not in sys.modules
for name, part in CRITERIA.all().items():
    assert part.name == name
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_part_is_refused_with_the_list_of_those_there_are():
    registry = Registry("example", {"one": "nowhere"})
    registry.register(Example)
    with pytest.raises(OptionError, match="example='two' is not known; there are: example, one"):
        registry.spec("two:k=1")


def test_a_module_whose_part_has_another_name_is_named(tmp_path, monkeypatch):
    (tmp_path / "misnamed_part.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    registry = Registry("example", {"misnamed-part": "misnamed_part"})
    with pytest.raises(ImportError, match="misnamed_part registers no example 'misnamed-part': its class needs name ="):
        registry.all()


def test_values_that_messages_suggest_are_accepted():
    from loglinear.criteria.criterion import CRITERIA
    from loglinear.estimators.parser.problem import TREE_CRITERIA
    from loglinear.optimizers.optimizer import OPTIMIZERS

    for registry in (CRITERIA, TREE_CRITERIA, OPTIMIZERS):
        for name, part in registry.all().items():
            for key, each in options_of(part).items():
                if not each.is_switch:
                    with pytest.raises(OptionError, match=f"{key} needs a value, as in {name}:{key}=") as caught:
                        registry.spec(f"{name}:{key}")
                    registry.spec(str(caught.value).rpartition(" ")[2])
