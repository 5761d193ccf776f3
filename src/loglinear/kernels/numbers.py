"""Numbers: statuses, limits of scaled sums, exponentials and logarithms of whole rows, sums in log space, draws.

All kernels here are strict: each gives the same bits whoever calls it.

Written out because a loop around the library's ``exp`` or ``log`` does not vectorise:

    exp(x) = 2^k exp(r)            x = k log 2 + r,  |r| <= log(2) / 2       a Taylor polynomial of degree 13
    log(x) = k log 2 + log(m)      x = 2^k m,  sqrt(1/2) <= m < sqrt(2)      the series of 2 artanh to degree 21

Adding ``ROUND`` to a number leaves its integer part k in the low bits of the sum.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from loglinear.arrays import Array, Float, Int64
from loglinear.kernels import kernel

# What became of a sequence or sentence.
DONE = 0
NEEDS_LOG_SPACE = 1  # sums in scaled probabilities cannot be trusted; added to nothing
INFEASIBLE = 2  # no labelling has a score above -inf

MAX_SPREAD = 300.0  # nats between the greatest and the least finite score that scaled sums are trusted with
TINY = 1e-150  # below it a scaled probability that is not zero is not trusted

ROUND = 1.5 * 2.0**52
ROUND_BITS = 0x4338000000000000  # the bits of ROUND
LOG2_HIGH = 0.6931471803691238  # the leading 32 bits of log 2, so that k * LOG2_HIGH is exact
LOG2_LOW = 1.9082149292705877e-10
INVERSE_LOG2 = 1.4426950408889634
GREATEST_EXPONENT = 700.0  # within it 2^k is a normal number
LEAST_MANTISSA = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)


@kernel
def exp_below(scores: Float, peak: float, floor: float, out: Float, powers: Float) -> int:
    """``out = exp(scores - peak)`` [n], right to one unit in the last place; none of the scores is above ``peak``.

    Returns how many finite scores come out below ``floor``. Scores more than 700 below the peak are taken to be 700
    below it. ``powers`` [n] is scratch.
    """
    n = scores.shape[0]
    for j in range(n):
        x = max(scores[j] - peak, -GREATEST_EXPONENT)
        rounded = x * INVERSE_LOG2 + ROUND
        powers[j] = rounded
        k = rounded - ROUND
        r = (x - k * LOG2_HIGH) - k * LOG2_LOW
        p = r * (1 / 6227020800.0) + 1 / 479001600.0
        p = p * r + 1 / 39916800.0
        p = p * r + 1 / 3628800.0
        p = p * r + 1 / 362880.0
        p = p * r + 1 / 40320.0
        p = p * r + 1 / 5040.0
        p = p * r + 1 / 720.0
        p = p * r + 1 / 120.0
        p = p * r + 1 / 24.0
        p = p * r + 1 / 6.0
        p = p * r + 0.5
        p = p * r + 1.0
        out[j] = p * r + 1.0
    _make_powers(powers, n)
    n_low = 0
    for j in range(n):
        finite = scores[j] > -np.inf
        value = out[j] * powers[j] if finite else 0.0
        out[j] = value
        n_low += finite & (value < floor)
    return n_low


@kernel
def exp_rows(values: Float, powers: Float) -> None:
    """``values = exp(values)`` [n], 0 for -inf, right to two units in the last place; ``powers`` [n] is scratch.

    Even and odd powers apart. Exponents beyond +-700 are taken for +-700.
    """
    n = values.shape[0]
    for j in range(n):
        x = min(max(values[j], -GREATEST_EXPONENT), GREATEST_EXPONENT)
        rounded = x * INVERSE_LOG2 + ROUND
        powers[j] = rounded if values[j] > -np.inf else ROUND - 1023.0  # then 2^k below is 0
        k = rounded - ROUND
        r = (x - k * LOG2_HIGH) - k * LOG2_LOW
        q = r * r
        even, odd = q * (1 / 479001600.0) + 1 / 3628800.0, q * (1 / 6227020800.0) + 1 / 39916800.0
        even, odd = even * q + 1 / 40320.0, odd * q + 1 / 362880.0
        even, odd = even * q + 1 / 720.0, odd * q + 1 / 5040.0
        even, odd = even * q + 1 / 24.0, odd * q + 1 / 120.0
        even, odd = even * q + 0.5, odd * q + 1 / 6.0
        even, odd = even * q + 1.0, odd * q + 1.0
        values[j] = even + r * odd
    _make_powers(powers, n)
    for j in range(n):
        values[j] *= powers[j]


@kernel
def _make_powers(powers: Float, n: int) -> None:
    """``powers = 2^k`` for the first ``n``, where each is ROUND + k."""
    bits = powers.view(np.int64)
    for j in range(n):
        bits[j] = (bits[j] << 52) + (1023 << 52)  # the bits of the float 2^k


@kernel
def log_rows(values: Float, powers: Float) -> None:
    """``values = log(values)`` [n] of normal positive numbers; ``powers`` [n] is scratch."""
    n = values.shape[0]
    bits, exponents = values.view(np.int64), powers.view(np.int64)
    for j in range(n):
        k = ((bits[j] - LEAST_MANTISSA + (1023 << 52)) >> 52) - 1023
        bits[j] -= k << 52
        exponents[j] = k + ROUND_BITS  # the float ROUND + k
    for j in range(n):
        k = powers[j] - ROUND
        r = (values[j] - 1.0) / (values[j] + 1.0)
        q = r * r
        w = q * q
        even, odd = w * (2 / 21.0) + 2 / 17.0, w * (2 / 19.0) + 2 / 15.0
        even, odd = even * w + 2 / 13.0, odd * w + 2 / 11.0
        even, odd = even * w + 2 / 9.0, odd * w + 2 / 7.0
        even, odd = even * w + 2 / 5.0, odd * w + 2 / 3.0
        values[j] = k * LOG2_HIGH + (k * LOG2_LOW + r * (2.0 + q * (odd + q * even)))


@kernel
def extent(scores: Float) -> tuple[float, float]:
    """The greatest of the scores [n] and the spread of the finite ones; (-inf, 0) if there is none."""
    peak, least = -np.inf, np.inf
    for j in range(scores.shape[0]):
        x = scores[j]
        peak = max(peak, x)
        least = min(least, x if x > -np.inf else np.inf)
    return peak, peak - least if peak > -np.inf else 0.0


@kernel
def log_add(x: float, y: float) -> float:
    """log(e^x + e^y)."""
    if x == -np.inf:
        return y
    if y == -np.inf:
        return x
    return max(x, y) + math.log1p(math.exp(-abs(x - y)))


@kernel
def log_sum(first: Array, second: Array, zero: Any) -> Any:
    """log sum_k exp(first_k + second_k) of two rows [n], real or complex; ``zero`` is a zero of their type."""
    top = -np.inf
    for k in range(first.shape[0]):
        top = max(top, first[k].real + second[k].real)
    if top == -np.inf:
        return zero - np.inf
    total = zero
    for k in range(first.shape[0]):
        if first[k].real > -np.inf and second[k].real > -np.inf:
            total += np.exp(first[k] + second[k] - top)
    return top + np.log(total)


@kernel
def draw(log_weights: Float, uniform: float) -> int:
    """A number drawn in proportion to the exponentials of ``log_weights`` [n], by ``uniform`` in [0, 1)."""
    top, total = -np.inf, 0.0
    for j in range(log_weights.shape[0]):
        top = max(top, log_weights[j])
    for j in range(log_weights.shape[0]):
        total += math.exp(log_weights[j] - top)
    reached, drawn = 0.0, 0
    for j in range(log_weights.shape[0]):
        p = math.exp(log_weights[j] - top)
        if p > 0.0:  # an impossible one is never drawn, whatever the rounding
            drawn = j
            reached += p
            if reached > uniform * total:
                break
    return drawn


@kernel
def longest(offsets: Int64) -> int:
    """The length of the longest run of ``offsets`` [S + 1]."""
    most = 0
    for i in range(offsets.shape[0] - 1):
        most = max(most, offsets[i + 1] - offsets[i])
    return most


@kernel
def one_run(first: int, end: int) -> Int64:
    """The offsets [2] of a single run; a list, as in ``np.array([first, end])``, costs a second to compile."""
    offsets = np.empty(2, np.int64)
    offsets[0], offsets[1] = first, end
    return offsets
