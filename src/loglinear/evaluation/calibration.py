"""Are the probabilities calibrated? Of the predictions made with probability 0.8, 80 % should be right.

N predictions with their probabilities are sorted into B bins. With n_b predictions in bin b, of which the share acc_b
is right, and conf_b the mean of their probabilities, the expected calibration error is

    ECE = sum_b (n_b / N) |acc_b - conf_b|                      (Naeini, Cooper & Hauskrecht 2015)

Bins of equal width are those of a reliability diagram; bins of equal mass hold as many predictions each, so that none
is empty where most probabilities are near 1. The error grows a little with the number of bins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Float, Int64
from loglinear.errors import OptionError

BINS = ("width", "mass")


@dataclass(frozen=True)
class Calibration:
    """Predictions in bins, empty ones left out.

    Attributes
    ----------
    count : int64 [B]
        Predictions in each bin.
    confidence : float64 [B]
        Mean of their probabilities.
    accuracy : float64 [B]
        Share of them that is right.
    """

    count: Int64
    confidence: Float
    accuracy: Float

    @property
    def expected_error(self) -> float:
        """The expected calibration error, from 0 to 1."""
        gaps = np.abs(self.accuracy - self.confidence)
        return float(np.average(gaps, weights=self.count)) if len(gaps) else 0.0

    @property
    def greatest_error(self) -> float:
        """The gap between probability and share in the worst bin."""
        return float(np.abs(self.accuracy - self.confidence).max(initial=0.0))

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "expected_error": self.expected_error,
            "greatest_error": self.greatest_error,
            "count": self.count.tolist(),
            "confidence": self.confidence.tolist(),
            "accuracy": self.accuracy.tolist(),
        }


def calibration(confidence: npt.ArrayLike, right: npt.ArrayLike, bins: int = 10, by: str = "width") -> Calibration:
    """Sort predictions into bins of equal width or of equal mass; O(N log N).

    Parameters
    ----------
    confidence : float64 [N]
        Probability of each prediction, from 0 to 1.
    right : bool [N]
        Which of them are right.
    bins : int
        How many bins.
    by : {"width", "mass"}
        Bins of equal width (a value on an edge belongs to the lower bin), or with the same number of predictions in
        each, as nearly as possible (predictions of the same probability may be separated).
    """
    p, correct = np.asarray(confidence, dtype=np.float64), np.asarray(right, dtype=np.float64)
    if p.shape != correct.shape or p.ndim != 1:
        raise OptionError(f"a probability for each prediction is needed, not {p.shape} for {correct.shape}")
    if by not in BINS or bins < 1:
        raise OptionError(f"bins={bins!r}, by={by!r}: there is at least one bin, by {' or '.join(BINS)}")
    if len(p) and not (p.min() >= 0.0 and p.max() <= 1.0 + 1e-9):
        raise OptionError("probabilities lie between 0 and 1")
    if by == "width":
        bin_of = np.clip(np.ceil(p * bins).astype(np.int64) - 1, 0, bins - 1)
    else:
        bin_of = np.empty(len(p), dtype=np.int64)
        bin_of[np.argsort(p, kind="stable")] = np.arange(len(p)) * bins // max(len(p), 1)
    count = np.bincount(bin_of, minlength=bins)
    filled = count > 0
    sums = [np.bincount(bin_of, weights=values, minlength=bins)[filled] for values in (p, correct)]
    return Calibration(count[filled].astype(np.int64), sums[0] / count[filled], sums[1] / count[filled])
