r"""Sums over dependency trees: over projective trees by dynamic programming, over all trees by determinants.

**Projective trees**: log Z and the probabilities of the arcs, in O(n^3). The six kinds of items and their equations are
Eisner's (:mod:`~loglinear.structures.arcs.best`) with sums instead of maxima. The probability of an arc is the
derivative of log Z by its score, computed by a backward pass (the outside pass; Paskin 2001).

:func:`scaled` works with exp(s(h, t) - max_h s(h, t)): each tree has one head for each t, so this only changes log Z by
a constant. A sentence whose Z leaves the range of floats, or is so small that underflow may have cost digits, is left
to :func:`in_logs`. Both run on real and on complex scores. Forward and backward pass are one function: if they are
split, LLVM rounds the complex sums differently.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from loglinear.arrays import Array, Float, Int64, UInt8
from loglinear.kernels import inlined_kernel, kernel, loose_kernel
from loglinear.kernels.numbers import DONE, INFEASIBLE, NEEDS_LOG_SPACE, log_add, log_sum
from loglinear.structures.arcs.best import Sentences, block

LEAST, MOST = 1e-100, 1e250  # bounds of Z for scaled numbers
LONGEST = 200  # tokens of a sentence done in scaled numbers: there are up to 6.75^n trees


@loose_kernel
def _scaled_sentence(
    arcs: Array, single_root: bool, factor: float, expected: Array, log_z: Array, status: UInt8
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
        status[0] = NEEDS_LOG_SPACE
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
    sentences: Sentences, arcs: Array, single_root: bool, weights: Float, log_z: Array, status: UInt8, expected: Array
) -> None:
    """Writes ``log_z`` [S], ``status`` [S] and, unless it is empty, ``expected`` [A] times the weights [S]."""
    for s in range(log_z.shape[0]):
        scores, out = block(arcs, sentences, s), block(expected, sentences, s)
        if scores.shape[0] > LONGEST:
            status[s] = NEEDS_LOG_SPACE
        else:
            _scaled_sentence(scores, single_root, weights[s], out, log_z[s : s + 1], status[s : s + 1])


@kernel
def _share(first: Array, second: Array, whole: Any, d_whole: Any, d_first: Array, d_second: Array) -> None:
    """Distribute the probability ``d_whole`` of a :func:`~loglinear.kernels.numbers.log_sum` over its terms."""
    for k in range(first.shape[0]):
        if first[k].real > -np.inf and second[k].real > -np.inf:
            part = d_whole * np.exp(first[k] + second[k] - whole)
            d_first[k] += part
            d_second[k] += part


@kernel
def _log_sentence(arcs: Array, single_root: bool, factor: float, expected: Array, log_z: Array, status: UInt8) -> None:
    """As :func:`_scaled_sentence`, with the logarithm and the probability of each half tree."""
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
            between[i, j] = log_sum(right[i, i:j], left[j, i + 1 : j + 1], nothing)
            if between[i, j].real > -np.inf:
                if arcs[i, j + 1].real > -np.inf:
                    to_left[j, i] = between[i, j] + arcs[i, j + 1]
                if arcs[j, i + 1].real > -np.inf:
                    to_right[i, j] = between[i, j] + arcs[j, i + 1]
            left[j, i] = left_end[i, j] = log_sum(left_end[i, i:j], to_left[j, i:j], nothing)
            right[i, j] = right_end[j, i] = log_sum(to_right[i, i + 1 : j + 1], right_end[j, i + 1 : j + 1], nothing)
    forest, child = np.full(n + 1, minus), np.full(n, minus)
    before = np.full(n, minus)
    ending = np.full((n + 1, n), minus)
    forest[0] = 0.0
    for j in range(1, n + 1):
        most = 1 if single_root else j
        before[j - 1] = log_sum(forest[:most], left[j - 1, :most], nothing)
        if before[j - 1].real > -np.inf and arcs[j - 1, 0].real > -np.inf:
            child[j - 1] = before[j - 1] + arcs[j - 1, 0]
        if not single_root or j == n:
            for r in range(j):
                ending[j, r] = right[r, j - 1]
            forest[j] = log_sum(child[:j], ending[j, :j], nothing)
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
    sentences: Sentences, which: Int64, arcs: Array, single_root: bool, weights: Float, log_z: Array, status: UInt8,
    expected: Array,
) -> None:  # fmt: skip
    """As :func:`scaled`, in log space, for the sentences ``which``."""
    for s in which:
        scores, out = block(arcs, sentences, s), block(expected, sentences, s)
        _log_sentence(scores, single_root, weights[s], out, log_z[s : s + 1], status[s : s + 1])


# ----------------------------------------------------------------------------------------------------------------------
# Sums over all spanning trees, in O(n^3) (matrix-tree theorem; Koo et al. 2007): Z is a determinant of the Laplacian of
# w(h, t) = exp s(h, t). It is computed by removing tokens one by one, using only sums, products and quotients of
# positive numbers, so that no digits are lost (Grassmann, Taksar & Heyman 1985). The children of the removed token k
# pass to the heads of k::
#
#     w(h, t)  <-  w(h, t) + w(h, k) w(k, t) / D_k          D_k = sum_h w(h, k) over the remaining heads
#     Z = prod_k D_k
#
# With a single root, its arcs count only to first order: they are left out of every D but the last, which consists of
# nothing else. The probability of an arc is w(h, t) times G(h, t), the derivative of log Z by w(h, t), which a backward
# pass computes. With w(h, k) and w(k, t) as they were when k was removed, and h, t among the tokens remaining then::
#
#     T_h     = sum_t G(h, t) w(k, t)                      for the root, too
#     G(k, t) = sum_h G(h, t) w(h, k) / D_k                including h = root
#     dD_k    = 1 / D_k - sum_h w(h, k) T_h / D_k^2
#     G(h, k) = T_h / D_k + dD_k                           without dD_k for a single root


class Heads(NamedTuple):
    """A number for each arc of a sentence: w, or G."""

    between: Array  # [n, n], head by child
    from_root: Array  # [n]


@inlined_kernel
def _tree_weights(arcs: Array, single_root: bool, w: Heads) -> float:
    """Fills w(h, t) = exp(s(h, t) - top_t), which must be zero before; returns the log of the factor taken out of Z.

    With a single root top_t is the maximum over the other heads, and w(root, t) is divided by its own maximum. Returns
    -inf if no token can have the root as its head.
    """
    n, constant, root_top = arcs.shape[0], 0.0, -np.inf
    tops = np.zeros(n)
    for t in range(n):
        top = -np.inf if single_root else arcs[t, 0].real
        for h in range(n):
            if h != t:
                top = max(top, arcs[t, h + 1].real)
        tops[t] = top if top > -np.inf else 0.0
        constant += tops[t]
        root_top = max(root_top, arcs[t, 0].real - tops[t])
    if root_top == -np.inf:
        return root_top
    if not single_root:
        root_top = 0.0
    for t in range(n):
        for h in range(n):
            if h != t and arcs[t, h + 1].real > -np.inf:
                w.between[h, t] = np.exp(arcs[t, h + 1] - tops[t])
        if arcs[t, 0].real > -np.inf:
            w.from_root[t] = np.exp(arcs[t, 0] - tops[t] - root_top)
    return constant + root_top


@inlined_kernel
def _eliminate(single_root: bool, w: Heads, order: Int64, pivots: Array, zero: Any) -> Any:
    """Removes the tokens, always the one with the greatest D; returns the log of the product of the ``pivots`` D [n].

    ``order`` [n] becomes the order of removal; each w stays as it was when its head or its child was removed.
    """
    n, between, from_root = order.shape[0], w.between, w.from_root
    log_z = zero
    for place in range(n):
        chosen, largest = place, -1.0
        for other in range(place, n):
            total = zero if single_root else from_root[order[other]]
            for h in range(place, n):
                total += between[order[h], order[other]]
            if total.real > largest:
                chosen, largest = other, total.real
                pivots[place] = total
        k = order[chosen]
        order[chosen], order[place] = order[place], k
        if single_root and place == n - 1:
            pivots[place] = from_root[k]
        if not pivots[place].real > 0.0:
            return zero - np.inf
        log_z += np.log(pivots[place])
        for at in range(place + 1, n):
            t = order[at]
            ratio = between[k, t] / pivots[place]
            from_root[t] += from_root[k] * ratio
            for other in range(place + 1, n):
                if other != at:
                    between[order[other], t] += between[order[other], k] * ratio
    return log_z


@inlined_kernel
def _adjoint(single_root: bool, w: Heads, order: Int64, pivots: Array, factor: float, d: Heads, zero: Any) -> None:
    """The backward pass of :func:`_eliminate`: fills ``d`` with ``factor`` times G."""
    n, between, from_root = order.shape[0], w.between, w.from_root
    for place in range(n - 1, -1, -1):
        k, pivot = order[place], pivots[place]
        if single_root and place == n - 1:
            d.from_root[k] = factor / pivot
            continue
        of_root, lost = zero, zero  # T of the root, and sum_h w(h, k) T_h
        for at in range(place + 1, n):
            of_root += d.from_root[order[at]] * between[k, order[at]]
        lost += from_root[k] * of_root
        for other in range(place + 1, n):
            h, total = order[other], zero
            for at in range(place + 1, n):
                if at != other:
                    total += d.between[h, order[at]] * between[k, order[at]]
            d.between[h, k] = total / pivot
            lost += between[h, k] * total
        d_pivot = factor / pivot - lost / (pivot * pivot)
        d.from_root[k] = of_root / pivot
        if not single_root:
            d.from_root[k] += d_pivot
        for other in range(place + 1, n):
            d.between[order[other], k] += d_pivot
        for at in range(place + 1, n):
            t = order[at]
            total = d.from_root[t] * from_root[k]
            for other in range(place + 1, n):
                if other != at:
                    total += d.between[order[other], t] * between[order[other], k]
            d.between[k, t] = total / pivot


@kernel
def spanning_sums(
    sentences: Sentences, arcs: Array, single_root: bool, weights: Float, log_z: Array, expected: Array
) -> None:
    """Writes ``log_z`` [S] and, unless it is empty, ``expected`` [A] times the weights [S]."""
    zero = np.zeros(1, arcs.dtype)[0]
    for s in range(log_z.shape[0]):
        scores = block(arcs, sentences, s)
        n = scores.shape[0]
        w, log_z[s] = Heads(np.zeros((n, n), arcs.dtype), np.zeros(n, arcs.dtype)), zero - np.inf
        constant = _tree_weights(scores, single_root, w)
        if constant == -np.inf:
            continue
        left, order, pivots = Heads(w.between.copy(), w.from_root.copy()), np.arange(n), np.zeros(n, arcs.dtype)
        log_z[s] = _eliminate(single_root, left, order, pivots, zero) + constant
        if not log_z[s].real > -np.inf or expected.shape[0] == 0:
            continue
        d = Heads(np.zeros((n, n), arcs.dtype), np.zeros(n, arcs.dtype))
        _adjoint(single_root, left, order, pivots, weights[s], d, zero)
        out = block(expected, sentences, s)
        for t in range(n):
            if scores[t, 0].real > -np.inf:
                out[t, 0] = d.from_root[t] * w.from_root[t]
            for h in range(n):
                if h != t and scores[t, h + 1].real > -np.inf:
                    out[t, h + 1] = d.between[h, t] * w.between[h, t]


# ----------------------------------------------------------------------------------------------------------------------
# Sums over all spanning trees in log space, for the sentences whose sums leave the range of floats.
#
# The equations are those of :func:`spanning_sums`, which have no differences and so work with logarithms::
#
#     l(h, t)  <-  log( e^l(h, t) + e^(l(h, k) + l(k, t) - d_k) )      d_k = log sum_h e^l(h, k)      log Z = sum_k d_k
#
# In the backward pass, with mean T = sum_h w(h, k) T_h / D_k::
#
#     G(h, k) = (1 + T_h - mean T) / D_k                     T_h / D_k for a single root
#
# all kept as logarithms, in tables [n + 1, n] whose head n is the root. Several times slower than plain numbers.


@kernel
def _eliminate_in_logs(single_root: bool, logs: Float, order: Int64, pivots: Float) -> float:
    """As :func:`_eliminate`; returns log Z."""
    n, log_z = order.shape[0], 0.0
    for place in range(n):
        chosen, largest = place, -np.inf
        for other in range(place, n):
            t = order[other]
            total = -np.inf if single_root else logs[n, t]
            for at in range(place, n):
                total = log_add(total, logs[order[at], t])
            if total > largest:
                chosen, largest = other, total
        k = order[chosen]
        order[chosen], order[place] = order[place], k
        pivots[place] = logs[n, k] if single_root and place == n - 1 else largest
        if pivots[place] == -np.inf:
            return -np.inf
        log_z += pivots[place]
        for at in range(place + 1, n):
            t = order[at]
            share = logs[k, t] - pivots[place]
            if share == -np.inf:
                continue
            logs[n, t] = log_add(logs[n, t], logs[n, k] + share)
            for other in range(place + 1, n):
                if other != at:
                    logs[order[other], t] = log_add(logs[order[other], t], logs[order[other], k] + share)
    return log_z


@kernel
def _log_excess(log_t: float, mean: float, has_pivot: bool) -> float:
    """log(1 + T - mean T), where a negative argument counts as 0; log T if the pivot does not depend on the arc."""
    if not has_pivot or log_t > 600.0:
        return log_t  # beyond 600 the other terms are negligible
    value = 1.0 + np.exp(log_t) - mean
    return np.log(value) if value > 0.0 else -np.inf


@kernel
def _adjoint_in_logs(single_root: bool, logs: Float, order: Int64, pivots: Float) -> Float:
    """As :func:`_adjoint`: log G [n + 1, n]."""
    n = order.shape[0]
    back = np.full((n + 1, n), -np.inf)
    for place in range(n - 1, -1, -1):
        k, pivot = order[place], pivots[place]
        if single_root and place == n - 1:
            back[n, k] = -pivot
            continue
        log_t, mean = np.full(n + 1, -np.inf), 0.0
        for other in range(place, n):  # the index of k itself is used for the root
            h = n if other == place else order[other]
            for at in range(place + 1, n):
                if at != other:
                    log_t[h] = log_add(float(log_t[h]), back[h, order[at]] + logs[k, order[at]])
            mean += np.exp(logs[h, k] + log_t[h] - pivot)
        for other in range(place, n):
            h = n if other == place else order[other]
            back[h, k] = _log_excess(float(log_t[h]), mean, h != n or not single_root) - pivot
        for at in range(place + 1, n):
            t = order[at]
            for other in range(place, n):
                h = n if other == place else order[other]
                if other != at:
                    back[k, t] = log_add(back[k, t], back[h, t] + logs[h, k] - pivot)
    return back


@kernel
def spanning_sums_in_logs(
    sentences: Sentences, which: Int64, arcs: Float, single_root: bool, weights: Float, log_z: Float, expected: Float
) -> None:
    """As :func:`spanning_sums`, in log space, for the sentences ``which``."""
    for s in which:
        scores = block(arcs, sentences, s)
        n = scores.shape[0]
        logs, order, pivots = np.full((n + 1, n), -np.inf), np.arange(n), np.zeros(n)
        for t in range(n):
            logs[n, t] = scores[t, 0]
            for h in range(n):
                if h != t:
                    logs[h, t] = scores[t, h + 1]
        given = logs.copy()
        log_z[s] = _eliminate_in_logs(single_root, logs, order, pivots)
        if log_z[s] == -np.inf or expected.shape[0] == 0:
            continue
        back, out = _adjoint_in_logs(single_root, logs, order, pivots), block(expected, sentences, s)
        for t in range(n):
            for h in range(n + 1):
                if given[h, t] > -np.inf:
                    out[t, 0 if h == n else h + 1] = weights[s] * np.exp(back[h, t] + given[h, t])
