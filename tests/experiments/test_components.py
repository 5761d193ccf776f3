"""How many components a mixture should have: the numbers asked for, the rows held out, and the choice."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loglinear.errors import DataError
from loglinear.experiments.components import Curve, Judged, component_numbers, held_out_rows

PAIRS = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 9)), min_size=1, max_size=4)


@given(PAIRS)
def test_numbers_and_ranges_are_united(pairs):
    text = ", ".join(str(first) if not more else f"{first}-{first + more}" for first, more in pairs)
    assert component_numbers(text) == sorted({k for first, more in pairs for k in range(first, first + more + 1)})


@given(
    st.lists(st.sampled_from([None, None, "a", "b"]), min_size=2, max_size=60), st.floats(0.01, 0.9), st.integers(0, 9)
)
def test_rows_held_out_are_a_share_of_those_that_are_not_known(known, share, seed):
    free = known.count(None)
    if free < 2:
        with pytest.raises(DataError, match="too few to hold some out"):
            held_out_rows(len(known), share, seed, known)
        return
    rows, held = held_out_rows(len(known), share, seed, known)
    assert sorted([*rows, *held]) == list(range(len(known)))
    assert all(known[i] is None for i in held) and 1 <= len(held) < free
    assert abs(len(held) - share * free) <= 1.0
    np.testing.assert_array_equal(held, held_out_rows(len(known), share, seed, known)[1])


@given(
    st.lists(st.tuples(*[st.integers(-3, 3)] * 3), min_size=1, max_size=8), st.sampled_from(["bic", "aic", "held-out"])
)
def test_the_best_is_the_first_of_the_least_costs(values, way):
    judged = [Judged(k, 0.0, 1, float(b), float(a), float(h)) for k, (b, a, h) in enumerate(values, 1)]
    curve = Curve(way, judged)
    costs = [{"bic": b, "aic": a, "held-out": -h}[way] for b, a, h in values]
    assert curve.best.components == 1 + costs.index(min(costs))
    assert sum(curve.columns()["chosen"]) == 1 and ("held_out" in curve.columns()) == (way == "held-out")
    assert [row.name.endswith(" *") for row in curve.table().rows] == [each is curve.best for each in judged]
