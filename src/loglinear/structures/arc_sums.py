r"""Sums over all projective trees of a sentence: log Z and the probabilities of the arcs, in O(n^3).

The equations are Eisner's (:mod:`~loglinear.structures.arc_eisner`) with sums for maxima; the probability of an arc is
the derivative of log Z by its score, found by going back over them (the outside pass; Paskin 2001).

:func:`scaled` works with exp(s(h, t) - max_h s(h, t)): each tree has one head for each t, so that this only takes a
constant off log Z. A sentence whose Z leaves the range of floats, or whose Z is so small that what was lost on the way
might matter, is left to :func:`in_logs`. Both run on real and on complex scores.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.kernels import kernel, loose_kernel

Numbers = npt.NDArray[Any]
Float = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]
Uint8 = npt.NDArray[np.uint8]

DONE, INFEASIBLE, NEEDS_LOGS = 0, 1, 2
LEAST, MOST = 1e-100, 1e250  # Z of a sentence that is done in scaled numbers
LONGEST = 200  # tokens of a sentence that is: trees may be as many as 6.75^n


@loose_kernel
def _scaled_sentence(
    arcs: Numbers, single_root: bool, factor: float, expected: Numbers, log_z: Numbers, status: Uint8
) -> None:
    """One sentence with arcs [n, n + 1]: ``log_z`` [1], ``expected`` [n, n + 1] unless empty, ``status`` [1]."""
    n = arcs.shape[0]
    weights = np.zeros_like(arcs)
    constant = 0.0
    for t in range(n):
        top = -np.inf
        for h in range(n + 1):
            if h != t + 1:
                top = max(top, arcs[t, h].real)
        if top == -np.inf:
            status[0] = INFEASIBLE
            return
        constant += top
        for h in range(n + 1):
            if h != t + 1 and arcs[t, h].real > -np.inf:
                weights[t, h] = np.exp(arcs[t, h] - top)
    right, right_end = np.zeros((n, n), arcs.dtype), np.zeros((n, n), arcs.dtype)
    left, left_end = np.zeros((n, n), arcs.dtype), np.zeros((n, n), arcs.dtype)
    to_right, to_left = np.zeros((n, n), arcs.dtype), np.zeros((n, n), arcs.dtype)
    nothing = np.zeros(1, arcs.dtype)[0]
    for i in range(n):
        right[i, i] = right_end[i, i] = left[i, i] = left_end[i, i] = 1.0
    for width in range(1, n):
        for i in range(n - width):
            j = i + width
            total = nothing
            row, other = right[i, i:j], left[j, i + 1 : j + 1]
            for k in range(width):
                total += row[k] * other[k]
            to_left[j, i] = total * weights[i, j + 1]
            to_right[i, j] = total * weights[j, i + 1]
            total = nothing
            row, other = left_end[i, i:j], to_left[j, i:j]
            for k in range(width):
                total += row[k] * other[k]
            left[j, i] = left_end[i, j] = total
            total = nothing
            row, other = to_right[i, i + 1 : j + 1], right_end[j, i + 1 : j + 1]
            for k in range(width):
                total += row[k] * other[k]
            right[i, j] = right_end[j, i] = total
    forest, child = np.zeros(n + 1, arcs.dtype), np.zeros(n, arcs.dtype)
    forest[0] = 1.0
    for j in range(1, n + 1):
        total = nothing
        for k in range(1 if single_root else j):
            total += forest[k] * left[j - 1, k]
        child[j - 1] = total * weights[j - 1, 0]
        if not single_root or j == n:
            total = nothing
            for r in range(j):
                total += child[r] * right[r, j - 1]
            forest[j] = total
    z = forest[n]
    if not (LEAST < z.real < MOST):
        status[0] = NEEDS_LOGS
        return
    status[0] = DONE
    log_z[0] = np.log(z) + constant
    if expected.shape[0] == 0:
        return
    d_right, d_right_end = np.zeros((n, n), arcs.dtype), np.zeros((n, n), arcs.dtype)
    d_left, d_left_end = np.zeros((n, n), arcs.dtype), np.zeros((n, n), arcs.dtype)
    d_to_right, d_to_left = np.zeros((n, n), arcs.dtype), np.zeros((n, n), arcs.dtype)
    d_forest, d_child = np.zeros(n + 1, arcs.dtype), np.zeros(n, arcs.dtype)
    d_forest[n] = factor / z
    for j in range(n, 0, -1):
        if not single_root or j == n:
            for r in range(j):
                d_child[r] += d_forest[j] * right[r, j - 1]
                d_right[r, j - 1] += d_forest[j] * child[r]
        expected[j - 1, 0] += d_child[j - 1] * child[j - 1]
        change = d_child[j - 1] * weights[j - 1, 0]
        for k in range(1 if single_root else j):
            d_forest[k] += change * left[j - 1, k]
            d_left[j - 1, k] += change * forest[k]
    for width in range(n - 1, 0, -1):
        for i in range(n - width):
            j = i + width
            change = d_left[j, i] + d_left_end[i, j]
            row, other, d_row, d_other = left_end[i, i:j], to_left[j, i:j], d_left_end[i, i:j], d_to_left[j, i:j]
            for k in range(width):
                d_row[k] += change * other[k]
                d_other[k] += change * row[k]
            change = d_right[i, j] + d_right_end[j, i]
            row, other = to_right[i, i + 1 : j + 1], right_end[j, i + 1 : j + 1]
            d_row, d_other = d_to_right[i, i + 1 : j + 1], d_right_end[j, i + 1 : j + 1]
            for k in range(width):
                d_row[k] += change * other[k]
                d_other[k] += change * row[k]
            expected[i, j + 1] += d_to_left[j, i] * to_left[j, i]
            expected[j, i + 1] += d_to_right[i, j] * to_right[i, j]
            change = d_to_left[j, i] * weights[i, j + 1] + d_to_right[i, j] * weights[j, i + 1]
            row, other = right[i, i:j], left[j, i + 1 : j + 1]
            d_row, d_other = d_right[i, i:j], d_left[j, i + 1 : j + 1]
            for k in range(width):
                d_row[k] += change * other[k]
                d_other[k] += change * row[k]


@loose_kernel
def scaled(
    offsets: Int64,
    arcs: Numbers,
    single_root: bool,
    weights: Float,
    log_z: Numbers,
    status: Uint8,
    expected: Numbers,
) -> None:
    """All sentences: ``log_z`` [S] and ``status`` [S]; ``expected`` [A] times each weight [S], unless empty."""
    a = 0
    for s in range(offsets.shape[0] - 1):
        n = offsets[s + 1] - offsets[s]
        end = a + n * (n + 1)
        wanted = expected[a:end] if expected.shape[0] else expected[:0]
        if n > LONGEST:
            status[s] = NEEDS_LOGS
        else:
            block = wanted.reshape(n, n + 1) if expected.shape[0] else wanted.reshape(0, 1)
            _scaled_sentence(
                arcs[a:end].reshape(n, n + 1), single_root, weights[s], block, log_z[s : s + 1], status[s : s + 1]
            )
        a = end


@kernel
def _log_sum(first: Numbers, second: Numbers, nothing: Any) -> Any:
    """log sum_k exp(first_k + second_k); ``nothing`` is a zero of their type."""
    top = -np.inf
    for k in range(first.shape[0]):
        top = max(top, first[k].real + second[k].real)
    if top == -np.inf:
        return nothing - np.inf
    total = nothing
    for k in range(first.shape[0]):
        if first[k].real > -np.inf and second[k].real > -np.inf:
            total += np.exp(first[k] + second[k] - top)
    return top + np.log(total)


@kernel
def _share(first: Numbers, second: Numbers, whole: Any, d_whole: Any, d_first: Numbers, d_second: Numbers) -> None:
    """Give each term of a :func:`_log_sum` its share of the probability ``d_whole``."""
    for k in range(first.shape[0]):
        if first[k].real > -np.inf and second[k].real > -np.inf:
            part = d_whole * np.exp(first[k] + second[k] - whole)
            d_first[k] += part
            d_second[k] += part


@kernel
def _log_sentence(
    arcs: Numbers, single_root: bool, factor: float, expected: Numbers, log_z: Numbers, status: Uint8
) -> None:
    """As :func:`_scaled_sentence`; what is kept of each half tree is its log and its probability."""
    n = arcs.shape[0]
    nothing = np.zeros(1, arcs.dtype)[0]
    minus = nothing - np.inf
    right, right_end = np.full((n, n), minus), np.full((n, n), minus)
    left, left_end = np.full((n, n), minus), np.full((n, n), minus)
    to_right, to_left = np.full((n, n), minus), np.full((n, n), minus)
    between = np.full((n, n), minus)
    for i in range(n):
        right[i, i] = right_end[i, i] = left[i, i] = left_end[i, i] = 0.0
    for width in range(1, n):
        for i in range(n - width):
            j = i + width
            between[i, j] = _log_sum(right[i, i:j], left[j, i + 1 : j + 1], nothing)
            if between[i, j].real > -np.inf:
                if arcs[i, j + 1].real > -np.inf:
                    to_left[j, i] = between[i, j] + arcs[i, j + 1]
                if arcs[j, i + 1].real > -np.inf:
                    to_right[i, j] = between[i, j] + arcs[j, i + 1]
            left[j, i] = left_end[i, j] = _log_sum(left_end[i, i:j], to_left[j, i:j], nothing)
            right[i, j] = right_end[j, i] = _log_sum(to_right[i, i + 1 : j + 1], right_end[j, i + 1 : j + 1], nothing)
    forest, child = np.full(n + 1, minus), np.full(n, minus)
    before = np.full(n, minus)
    ending = np.full((n + 1, n), minus)
    forest[0] = 0.0
    for j in range(1, n + 1):
        most = 1 if single_root else j
        before[j - 1] = _log_sum(forest[:most], left[j - 1, :most], nothing)
        if before[j - 1].real > -np.inf and arcs[j - 1, 0].real > -np.inf:
            child[j - 1] = before[j - 1] + arcs[j - 1, 0]
        if not single_root or j == n:
            for r in range(j):
                ending[j, r] = right[r, j - 1]
            forest[j] = _log_sum(child[:j], ending[j, :j], nothing)
    log_z[0] = forest[n]
    status[0] = DONE if forest[n].real > -np.inf else INFEASIBLE
    if status[0] == INFEASIBLE or expected.shape[0] == 0:
        return
    d_right, d_right_end = np.zeros((n, n), arcs.dtype), np.zeros((n, n), arcs.dtype)
    d_left, d_left_end = np.zeros((n, n), arcs.dtype), np.zeros((n, n), arcs.dtype)
    d_to_right, d_to_left = np.zeros((n, n), arcs.dtype), np.zeros((n, n), arcs.dtype)
    d_forest, d_child = np.zeros(n + 1, arcs.dtype), np.zeros(n, arcs.dtype)
    d_ending = np.zeros(n, arcs.dtype)
    d_forest[n] = factor
    for j in range(n, 0, -1):
        if not single_root or j == n:
            d_ending[:] = 0.0
            _share(child[:j], ending[j, :j], forest[j], d_forest[j], d_child[:j], d_ending[:j])
            for r in range(j):
                d_right[r, j - 1] += d_ending[r]
        expected[j - 1, 0] += d_child[j - 1]
        most = 1 if single_root else j
        _share(forest[:most], left[j - 1, :most], before[j - 1], d_child[j - 1], d_forest[:most], d_left[j - 1, :most])
    for width in range(n - 1, 0, -1):
        for i in range(n - width):
            j = i + width
            change = d_left[j, i] + d_left_end[i, j]
            _share(left_end[i, i:j], to_left[j, i:j], left[j, i], change, d_left_end[i, i:j], d_to_left[j, i:j])
            change = d_right[i, j] + d_right_end[j, i]
            _share(
                to_right[i, i + 1 : j + 1], right_end[j, i + 1 : j + 1], right[i, j], change,
                d_to_right[i, i + 1 : j + 1], d_right_end[j, i + 1 : j + 1],
            )  # fmt: skip
            expected[i, j + 1] += d_to_left[j, i]
            expected[j, i + 1] += d_to_right[i, j]
            change = d_to_left[j, i] + d_to_right[i, j]
            _share(
                right[i, i:j], left[j, i + 1 : j + 1], between[i, j], change, d_right[i, i:j], d_left[j, i + 1 : j + 1]
            )


@kernel
def in_logs(
    offsets: Int64,
    chosen: Int64,
    arcs: Numbers,
    single_root: bool,
    weights: Float,
    log_z: Numbers,
    status: Uint8,
    expected: Numbers,
) -> None:
    """The ``chosen`` sentences in log space; arguments as for :func:`scaled`."""
    for i in range(chosen.shape[0]):
        s = chosen[i]
        a = 0
        for before in range(s):
            n = offsets[before + 1] - offsets[before]
            a += n * (n + 1)
        n = offsets[s + 1] - offsets[s]
        end = a + n * (n + 1)
        wanted = expected[a:end] if expected.shape[0] else expected[:0]
        block = wanted.reshape(n, n + 1) if expected.shape[0] else wanted.reshape(0, 1)
        _log_sentence(
            arcs[a:end].reshape(n, n + 1), single_root, weights[s], block, log_z[s : s + 1], status[s : s + 1]
        )
