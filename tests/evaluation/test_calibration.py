"""The expected calibration error of examples worked out by hand, and laws of any."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loglinear.errors import OptionError
from loglinear.evaluation import calibration


def test_equal_widths_by_hand():
    # bins of 0.25: (0.1, 0.2), (), (0.6, 0.7, 0.75), (0.9); the edge 0.75 belongs to the bin below it
    found = calibration([0.1, 0.2, 0.6, 0.7, 0.75, 0.9], [0, 1, 1, 0, 1, 1], bins=4)
    assert found.count.tolist() == [2, 3, 1]
    assert found.confidence == pytest.approx([0.15, 2.05 / 3, 0.9])
    assert found.accuracy == pytest.approx([0.5, 2 / 3, 1.0])
    assert found.expected_error == pytest.approx((2 * 0.35 + 3 * (2.05 / 3 - 2 / 3) + 0.1) / 6)
    assert found.greatest_error == pytest.approx(0.35)


def test_equal_mass_by_hand():
    found = calibration([0.9, 0.8, 0.99, 1.0], [1, 0, 1, 1], bins=2, by="mass")
    assert found.count.tolist() == [2, 2]
    assert found.confidence == pytest.approx([0.85, 0.995]) and found.accuracy == pytest.approx([0.5, 1.0])
    assert found.expected_error == pytest.approx((0.35 + 0.005) / 2)
    assert found.to_dict()["count"] == [2, 2]


predictions = st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=50)


@given(predictions=predictions, bins=st.integers(1, 12), by=st.sampled_from(["width", "mass"]))
def test_bins_hold_every_prediction_and_the_error_lies_between_the_overall_gap_and_the_worst(predictions, bins, by):
    p, right = [p for p, _ in predictions], [r for _, r in predictions]
    found = calibration(p, right, bins, by)
    assert found.count.sum() == len(p) and (found.count > 0).all()
    if by == "mass" and len(p):
        assert found.count.max() - found.count.min() <= 1 or len(p) < bins
    overall = abs(np.mean(p) - np.mean(right)) if p else 0.0
    assert overall - 1e-9 <= found.expected_error <= found.greatest_error + 1e-9


def test_a_coin_that_says_what_it_does_is_calibrated():
    rng = np.random.default_rng(0)
    p = rng.random(200_000)
    right = rng.random(200_000) < p
    for by in ("width", "mass"):
        assert calibration(p, right, 10, by).expected_error < 0.01
        assert calibration(p, rng.random(200_000) < 0.5, 10, by).expected_error == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(([0.5], [1, 0]), "each prediction"), (([1.5], [1]), "between 0 and 1"), (([0.5], [1], 0), "at least one bin"),
     (([0.5], [1], 5, "size"), "'size'"), (([float("nan")], [1]), "between 0 and 1")],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(arguments, says):
    with pytest.raises(OptionError, match=says):
        calibration(*arguments)
