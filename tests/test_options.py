"""Specs: the short texts that name a criterion or an optimizer and its options."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loglinear.errors import OptionError
from loglinear.options import Option, spec_name, spec_options

DECLARED = (
    Option("k", 1, "how many", least=1, kind=int),
    Option("C", 1.0, "how far", above=0, kind=float),
    Option("average", False, "whether to average", choices=(False, True)),
    Option("decoding", "global", "how to decode", choices=("global", "local")),
    Option("threshold", None, "from where", least=0, kind=float),
)


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
