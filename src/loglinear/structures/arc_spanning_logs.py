r"""Sums over all spanning trees in log space, for the sentences whose sums leave the range of floats.

The equations are those of :mod:`~loglinear.structures.arc_spanning`; as they have no differences, they hold for logs::

    l(h, t)  <-  log( e^l(h, t) + e^(l(h, k) + l(k, t) - d_k) )      d_k = log sum_h e^l(h, k)      log Z = sum_k d_k

Going back, with G(h, t) >= 0 the derivative of log Z by w(h, t) and T_h = sum_t G(h, t) w(k, t)::

    G(h, k) = (1 + T_h - mean T) / D_k,      mean T = sum_h w(h, k) T_h / D_k        (+ 0 for the root, if it is single)
    G(k, t) = sum_h G(h, t) w(h, k) / D_k

all of them kept as logs. Several times slower than plain numbers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from loglinear.kernels import kernel

Float = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]


@kernel
def _log_add(a: float, b: float) -> float:
    """log(e^a + e^b)."""
    if a < b:
        a, b = b, a
    if b == -np.inf:
        return a
    return a + np.log1p(np.exp(b - a))


@kernel
def _log_excess(log_t: float, mean: float, has_pivot: bool) -> float:
    """log(1 + T - mean T), at least 0, or log T if the pivot has no share in it."""
    if not has_pivot:
        return log_t
    if log_t > 600.0:
        return log_t  # whatever else there is, is nothing beside it
    value = 1.0 + np.exp(log_t) - mean
    return np.log(value) if value > 0.0 else -np.inf


@kernel
def _matrix_tree(arcs: Float, single_root: bool, factor: float, expected: Float, log_z: Float) -> None:
    """One sentence with arcs [n, n + 1]; head n of the tables is the root."""
    n = arcs.shape[0]
    logs = np.full((n + 1, n), -np.inf)
    for t in range(n):
        logs[n, t] = arcs[t, 0]
        for h in range(n):
            if h != t:
                logs[h, t] = arcs[t, h + 1]
    given = logs.copy()
    order, pivots = np.arange(n), np.zeros(n)
    total = 0.0
    for place in range(n):
        chosen, largest = place, -np.inf
        for other in range(place, n):
            t = order[other]
            own = -np.inf if single_root else logs[n, t]
            for at in range(place, n):
                own = _log_add(own, logs[order[at], t])
            if own > largest:
                chosen, largest = other, own
        k = order[chosen]
        order[chosen], order[place] = order[place], k
        pivots[place] = logs[n, k] if single_root and place == n - 1 else largest
        if pivots[place] == -np.inf:
            log_z[0] = -np.inf
            return
        total += pivots[place]
        for at in range(place + 1, n):
            t = order[at]
            share = logs[k, t] - pivots[place]
            if share == -np.inf:
                continue
            logs[n, t] = _log_add(logs[n, t], logs[n, k] + share)
            for other in range(place + 1, n):
                if other != at:
                    logs[order[other], t] = _log_add(logs[order[other], t], logs[order[other], k] + share)
    log_z[0] = total
    if expected.shape[0] == 0:
        return
    back = np.full((n + 1, n), -np.inf)  # log G
    for place in range(n - 1, -1, -1):
        k, pivot = order[place], pivots[place]
        if single_root and place == n - 1:
            back[n, k] = -pivot
            continue
        log_t, mean = np.full(n + 1, -np.inf), 0.0
        for other in range(place, n):  # the root stands for k itself
            h = n if other == place else order[other]
            for at in range(place + 1, n):
                if at != other:
                    log_t[h] = _log_add(float(log_t[h]), back[h, order[at]] + logs[k, order[at]])
            mean += np.exp(logs[h, k] + log_t[h] - pivot)
        for other in range(place, n):
            h = n if other == place else order[other]
            back[h, k] = _log_excess(float(log_t[h]), mean, h != n or not single_root) - pivot
        for at in range(place + 1, n):
            t = order[at]
            for other in range(place, n):
                h = n if other == place else order[other]
                if other != at:
                    back[k, t] = _log_add(back[k, t], back[h, t] + logs[h, k] - pivot)
    for t in range(n):
        for h in range(n + 1):
            if given[h, t] > -np.inf:
                expected[t, 0 if h == n else h + 1] = factor * np.exp(back[h, t] + given[h, t])


@kernel
def sums(
    offsets: Int64,
    arc_offsets: Int64,
    chosen: Int64,
    arcs: Float,
    single_root: bool,
    weights: Float,
    log_z: Float,
    expected: Float,
) -> None:
    """The ``chosen`` sentences: ``log_z`` [S]; ``expected`` [A] times each weight [S], unless empty."""
    for i in range(chosen.shape[0]):
        s = chosen[i]
        n, a, end = offsets[s + 1] - offsets[s], arc_offsets[s], arc_offsets[s + 1]
        wanted = expected[a:end] if expected.shape[0] else expected[:0]
        block = wanted.reshape(n, n + 1) if expected.shape[0] else wanted.reshape(0, 1)
        _matrix_tree(arcs[a:end].reshape(n, n + 1), single_root, weights[s], block, log_z[s : s + 1])
