"""Weights as numbers of less precision: float64, float32 or float16, and a power of two that they are multiplied by.

    w = 2^k s          s of the given precision, k = 0 unless the greatest weight is beyond what it holds

float16 has 11 bits, so that a weight is changed by at most 1 part in 2048 (a small one by at most
3e-8), and reaches to 65504.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float64]
MOST_EXPONENT = 1023


def stored(weights: Float, precision: npt.DTypeLike) -> tuple[npt.NDArray[Any], int]:
    """The numbers s and the exponent k of finite ``weights``."""
    greatest = float(np.abs(weights).max(initial=0.0))
    limit = float(np.finfo(precision).max)
    exponent = max(0, int(np.frexp(greatest)[1]) - int(np.frexp(limit)[1]) + 1) if greatest > limit / 2.0 else 0
    return np.ldexp(weights, -exponent).astype(precision), exponent


def restored(numbers: npt.NDArray[Any], exponent: int) -> Float:
    """The weights that were :func:`stored`."""
    return np.asarray(np.ldexp(numbers.astype(np.float64), exponent))
