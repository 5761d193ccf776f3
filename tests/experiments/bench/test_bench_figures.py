"""The arithmetic of the benchmark's tables."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loglinear.experiments.bench.job import first_at_least, first_at_most, median, objective_bound, ratio
from loglinear.experiments.bench.tables import flatness
from loglinear.experiments.tables import Table, number, times

positive = st.floats(1e-3, 1e6)
histories = st.lists(st.tuples(positive, positive), max_size=30).map(
    lambda pairs: list(zip(sorted(s for s, _ in pairs), (v for _, v in pairs), strict=True))
)


@given(st.lists(st.one_of(st.none(), positive), max_size=9))
def test_a_median_has_as_many_figures_below_as_above(values):
    found = median(values)
    there = [value for value in values if value is not None]
    if not there:
        assert found is None
        return
    assert sum(value < found for value in there) <= len(there) / 2
    assert sum(value > found for value in there) <= len(there) / 2
    assert min(there) <= found <= max(there)


@given(positive, positive)
def test_a_ratio_says_how_many_times_less_ours_is(theirs, ours):
    assert ratio(theirs, ours) * ours == pytest.approx(theirs)
    assert ratio(None, ours) is None and ratio(theirs, None) is None and ratio(theirs, 0.0) is None


@given(histories, positive)
def test_the_time_to_a_bound_is_that_of_the_first_pass_within_it(history, bound):
    for first, reaches in (
        (first_at_most, lambda value: value <= bound),
        (first_at_least, lambda value: value >= bound),
    ):
        seconds = first(history, bound)
        if seconds is None:
            assert not any(reaches(value) for _, value in history)
        else:
            assert any(reaches(value) and s == seconds for s, value in history)
            assert not any(reaches(value) for s, value in history if s < seconds)


@given(histories, positive, positive)
def test_a_looser_bound_is_reached_no_later(history, one, other):
    loose, tight = (first_at_most(history, bound) for bound in (max(one, other), min(one, other)))
    assert tight is None or (loose is not None and loose <= tight)


@given(st.lists(positive, min_size=1, max_size=5))
def test_the_converged_objective_is_the_least_end_and_a_thousandth(ends):
    bound = objective_bound([*ends, None])
    assert math.isclose(bound, 1.001 * min(ends)) and objective_bound([None]) is None
    assert first_at_most([(1.0, min(ends))], bound) == 1.0


def test_missing_figures_are_dashes():
    assert (number(None, 2), times(None), number(1234.5, 1), times(31.26), times(2.345)) == (
        "-",
        "-",
        "1,234.5",
        "31.3",
        "2.35",
    )
    with pytest.raises(ValueError):
        Table("title", ["a", "b"]).add("row", [], [])


def test_flatness_compares_the_largest_with_the_first_from_a_hundred_thousand():
    cost = {10_000: [9.0] * 5, 100_000: [1.0, 2.0, 1.0, None, 4.0], 1_000_000: [1.5, 2.0, 1.0, 1.0, 2.0]}
    assert flatness("ours", cost) == (
        "ours: cost of a token at 1,000,000 tokens over that at 100,000: encode 1.50, evaluation 1.00, pass 1.00, "
        "tag -, memory 0.50."
    )
    del cost[1_000_000]
    assert flatness("ours", cost) == ""
