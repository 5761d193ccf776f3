r"""Chains in log space: operations that work for any scores, and for all orders with the same loops.

A state is a pair ``(c, y)`` of a context and a label: a single context at order 1, the label before at order 2, the
two labels before, ``c = y'' Y + y'``, at order 3; C contexts, and state ``(c, y)`` has the number ``c Y + y``. The arc
``(b, c, y)`` leads into it from state ``b C + c``::

    order 1   arc  transition(b, y) + edge_t(b, y)                              state  s_t(y)
    order 2   arc  trigram(b, c, y) + transition(c, y)                          state  s_t(y) + edge_t(c, y)
    order 3   arc  4-gram(b, c, y) + trigram(c, y) + transition(y', y)          state  s_t(y) + edge_t(y' or c, y)

The first position of a chain of order 2 or 3 has its states in context 0; into the second the arcs are the transitions
alone, into the third of order 3 those and the trigrams, and only ``b = 0`` counts. Then (start and stop scores belong
to the first and last states)::

    forward    A_t(s) = state_t(s) + log sum_b exp(A_{t-1}(b C + c) + arc(b, c, y))      Viterbi: max for log sum exp
    backward   B_{t-1}(b C + c) = log sum_y exp(arc(b, c, y) + state_t(c, y) + B_t(c, y))

A_t and B_t are kept less their maxima, so that a large log Z costs the marginals no digits. Viterbi keeps no back
pointers: the backward walk looks for the best ``b`` again, with Y comparisons at each position. Draws go backward
through A (forward filtering, backward sampling: Scott 2002, "Bayesian methods for hidden Markov models"). The k best
labellings come from the k best of every state (Schwartz & Chow 1990, "The N-best algorithm"). Ties go to the state with
the lower number, from the last position to the first. O(T Y^2) at order 1, O(T Y^3) at order 2, O(T Y^4) at order 3, k
times that for the k best.

Arrays of length zero are absent parts, in the input and in the output.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from loglinear.arrays import Float, Int32, Int64
from loglinear.kernels import inlined_kernel, kernel
from loglinear.kernels.numbers import draw, longest, one_run
from loglinear.structures.chain.sums import Parts, add_ends


class Work(NamedTuple):
    """Scratch for one sequence of at most T positions.

    Parameters
    ----------
    alpha, states : float64 [T, C Y]
        A, and the states' scores.
    shifts : float64 [T]
        The maxima that were subtracted from A.
    arcs : float64 [Y, C, Y]
    """

    alpha: Float
    states: Float
    shifts: Float
    arcs: Float


@kernel
def _new_work(offsets: Int64, parts: Parts) -> Work:
    """Scratch for the longest of the sequences."""
    n, n_labels = longest(offsets), parts.transition.shape[0]
    n_contexts = parts.trigram.shape[1] if parts.trigram.shape[0] > 0 else 1
    rows = np.empty((2, n, n_contexts * n_labels))
    return Work(rows[0], rows[1], np.empty(n), np.empty((n_labels, n_contexts, n_labels)))


@kernel
def _fill_states(t: int, first: int, last: int, parts: Parts, states: Float) -> None:
    """Scores ``states`` [C Y] of position ``t`` of the sequence ``first..last``."""
    emission, _, start, stop, edge, trigram = parts
    n_labels = emission.shape[1]
    for c in range(states.shape[0] // n_labels):
        for y in range(n_labels):
            x = emission[t, y]
            if t == first:
                x += start[y] if c == 0 else -np.inf
            elif trigram.shape[0] > 0 and edge.shape[0] > 0:
                x += edge[t, c % edge.shape[1], y]
            if t == last:
                x += stop[y]
            states[c * n_labels + y] = x


@inlined_kernel
def fill_arcs(t: int, first: int, is_new: bool, parts: Parts, arcs: Float) -> None:
    """Fills ``arcs`` [Y, C, Y] with the scores into position ``t``; unless ``is_new`` it holds those of a neighbour."""
    transition, edge, trigram = parts.transition, parts.edge, parts.trigram
    n_labels = transition.shape[0]
    paired, deep = trigram.shape[0] > 0, trigram.shape[0] > n_labels
    if not (is_new or (paired and t <= first + 2 + deep) or (not paired and edge.shape[0] > 0)):
        return
    is_third = deep and t == first + 2
    for b in range(n_labels):
        for c in range(arcs.shape[1]):
            for y in range(n_labels):
                if not paired:
                    arcs[b, c, y] = transition[b, y] + (edge[t, b, y] if edge.shape[0] > 0 else 0.0)
                else:
                    x = trigram[n_labels if is_third else b, c, y] if t > first + 1 else 0.0
                    arcs[b, c, y] = transition[c % n_labels, y] + x


@kernel
def _forward(first: int, last: int, parts: Parts, work: Work) -> tuple[float, float]:
    """Fills ``work``; returns log Z, and log Z less the sum of the shifts."""
    alpha, states, shifts, arcs = work
    n_labels, n_contexts, _ = arcs.shape
    n_states = n_contexts * n_labels
    top, total = np.empty(n_states), np.empty(n_states)
    log_z = 0.0
    for t in range(last - first + 1):
        _fill_states(first + t, first, last, parts, states[t])
        for s in range(n_states):
            top[s], total[s] = (0.0, 1.0) if t == 0 else (-np.inf, 0.0)
        if t > 0:
            fill_arcs(first + t, first, t == 1, parts, arcs)
            for b in range(n_labels):
                for c in range(n_contexts):
                    a = alpha[t - 1, b * n_contexts + c]
                    for y in range(n_labels):
                        top[c * n_labels + y] = max(top[c * n_labels + y], a + arcs[b, c, y])
            for b in range(n_labels):
                for c in range(n_contexts):
                    a = alpha[t - 1, b * n_contexts + c]
                    for y in range(n_labels):
                        s = c * n_labels + y
                        if top[s] > -np.inf:
                            total[s] += math.exp(a + arcs[b, c, y] - top[s])
        shift = -np.inf
        for s in range(n_states):
            alpha[t, s] = top[s] + math.log(total[s]) + states[t, s] if top[s] > -np.inf else -np.inf
            shift = max(shift, alpha[t, s])
        if shift == -np.inf:
            return -np.inf, 0.0
        for s in range(n_states):
            alpha[t, s] -= shift
        shifts[t] = shift
        log_z += shift
    rest = 0.0
    for s in range(n_states):
        rest += math.exp(alpha[last - first, s])
    return log_z + math.log(rest), math.log(rest)


@kernel
def _step_back(states: Float, beta: Float, arcs: Float, shift: float, before: Float) -> None:
    """Fills ``before`` [C Y], the previous position's B, from ``beta`` [C Y]."""
    n_labels, n_contexts, _ = arcs.shape
    for b in range(n_labels):
        for c in range(n_contexts):
            top, total = -np.inf, 0.0
            for y in range(n_labels):
                s = c * n_labels + y
                top = max(top, arcs[b, c, y] + states[s] + beta[s])
            if top > -np.inf:
                for y in range(n_labels):
                    s = c * n_labels + y
                    total += math.exp(arcs[b, c, y] + states[s] + beta[s] - top)
                top += math.log(total) - shift
            before[b * n_contexts + c] = top


@kernel
def _add_arcs(
    t: int, first: int, weight: float, alpha: Float, arcs: Float, ahead: Float, rest: float, expected: Parts
) -> None:
    """Adds a position's expected arcs; ``alpha`` [C Y] is the previous position's, ``ahead`` = state + B - shift."""
    transition, edge, trigram = expected.transition, expected.edge, expected.trigram
    n_labels, n_contexts, _ = arcs.shape
    is_third = trigram.shape[0] > n_labels and t == first + 2
    if trigram.shape[0] > 0 and edge.shape[0] > 0:
        edge[t] = 0.0
    for b in range(n_labels):
        for c in range(n_contexts):
            a = alpha[b * n_contexts + c]
            for y in range(n_labels):
                p = 0.0
                if a > -np.inf:
                    p = weight * math.exp(a + arcs[b, c, y] + ahead[c * n_labels + y] - rest)
                if trigram.shape[0] == 0:
                    transition[b, y] += p
                    if edge.shape[0] > 0:
                        edge[t, b, y] = p
                    continue
                transition[c % n_labels, y] += p
                if t > first + 1:
                    trigram[n_labels if is_third else b, c, y] += p
                if edge.shape[0] > 0:
                    edge[t, c % edge.shape[1], y] += p


@kernel
def forward_backward(offsets: Int64, which: Int64, parts: Parts, weights: Float, log_z: Float, expected: Parts) -> None:
    """Log-partitions of the sequences ``which`` and, unless ``expected.emission`` is empty, their expected parts.

    Parameters
    ----------
    offsets : int64[S + 1]
    which : int64
        Numbers of the sequences to do.
    parts, expected : Parts
        Emissions and edges (if any) of ``expected`` are overwritten, its other parts added to; infeasible sequences
        change nothing.
    weights, log_z : float64[S]
    """
    node, edge, n_labels = expected.emission, expected.edge, parts.transition.shape[0]
    work = _new_work(offsets, parts)
    alpha, states, shifts, arcs = work
    n_states = alpha.shape[1]
    beta, before = np.empty(n_states), np.empty(n_states)
    for i in which:
        first, last = offsets[i], offsets[i + 1] - 1
        log_z[i], rest = _forward(first, last, parts, work)
        if log_z[i] == -np.inf or node.shape[0] == 0:
            continue
        beta[:] = 0.0
        for t in range(last, first - 1, -1):
            for y in range(n_labels):
                node[t, y] = 0.0
            for s in range(n_states):
                if alpha[t - first, s] > -np.inf:
                    node[t, s % n_labels] += weights[i] * math.exp(alpha[t - first, s] + beta[s] - rest)
            if t == first:
                break
            fill_arcs(t, first, t == last, parts, arcs)
            _step_back(states[t - first], beta, arcs, shifts[t - first], before)
            for s in range(n_states):
                beta[s] += states[t - first, s] - shifts[t - first]
            _add_arcs(t, first, weights[i], alpha[t - first - 1], arcs, beta, rest, expected)
            beta, before = before, beta
        add_ends(first, last, expected)
        if edge.shape[0] > 0:
            edge[first] = 0.0


@kernel
def sample(offsets: Int64, parts: Parts, uniforms: Float, labels: Int32) -> int:
    """Exact draws into ``labels`` [n, N], one for each row of ``uniforms`` [n, N].

    Returns the number of the first sequence that has no labelling, or -1.
    """
    work = _new_work(offsets, parts)
    alpha, arcs = work.alpha, work.arcs
    n_labels, n_contexts, _ = arcs.shape
    choice, drawn = np.empty(n_labels), np.empty(labels.shape[0], dtype=np.int64)
    for i in range(offsets.shape[0] - 1):
        first, last = offsets[i], offsets[i + 1] - 1
        if _forward(first, last, parts, work)[0] == -np.inf:
            return i
        for t in range(last, first - 1, -1):
            if t < last:
                fill_arcs(t + 1, first, t + 1 == last, parts, arcs)
            for n in range(labels.shape[0]):
                if t == last:
                    drawn[n] = draw(alpha[t - first], uniforms[n, t])
                else:
                    c, y = drawn[n] // n_labels, drawn[n] % n_labels
                    for b in range(n_labels):
                        choice[b] = alpha[t - first, b * n_contexts + c] + arcs[b, c, y]
                    drawn[n] = draw(choice, uniforms[n, t]) * n_contexts + c
                labels[n, t] = drawn[n] % n_labels
    return -1


@kernel
def _take_best(before: Float, arcs: Float, values: Float, spare: Float) -> None:
    """``values`` [C, Y] = max over b of ``before`` [C Y] + arc, from -inf; ``spare`` [Y] is scratch.

    The two rows take turns: a maximum written back to where it came from compiles to slow masked stores.
    """
    n_labels, n_contexts, _ = arcs.shape
    for c in range(n_contexts):
        row, other = values[c], spare
        for b in range(n_labels):
            v, arc = before[b * n_contexts + c], arcs[b, c]
            for y in range(n_labels):
                x, old = v + arc[y], row[y]
                other[y] = x if x > old else old
            row, other = other, row
        for y in range(n_labels):
            values[c, y] = row[y]


@kernel
def viterbi(offsets: Int64, parts: Parts, labels: Int32, best: Float) -> int:
    """Best labellings into ``labels`` [N], their scores into ``best`` [S].

    Returns the number of the first sequence that has no labelling, or -1.
    """
    work = _new_work(offsets, parts)
    arcs, n_labels = work.arcs, work.arcs.shape[0]
    n_contexts, states = arcs.shape[1], np.empty(work.states.shape[1])
    values, spare = work.alpha.reshape(-1, n_contexts, n_labels), np.empty(n_labels)
    for i in range(offsets.shape[0] - 1):
        first, last = offsets[i], offsets[i + 1] - 1
        for t in range(last - first + 1):
            _fill_states(first + t, first, last, parts, states)
            for c in range(n_contexts):
                for y in range(n_labels):
                    values[t, c, y] = 0.0 if t == 0 else -np.inf
            if t > 0:
                fill_arcs(first + t, first, t == 1, parts, arcs)
                _take_best(values[t - 1].reshape(-1), arcs, values[t], spare)
            for c in range(n_contexts):
                for y in range(n_labels):
                    values[t, c, y] += states[c * n_labels + y]
        s = np.argmax(values[last - first])
        best[i] = values[last - first].reshape(-1)[s]
        if best[i] == -np.inf:
            return i
        labels[last] = s % n_labels
        for t in range(last, first, -1):
            fill_arcs(t, first, t == last, parts, arcs)
            before = values[t - 1 - first].reshape(-1)
            c, y, chosen, top = s // n_labels, s % n_labels, 0, -np.inf
            for b in range(n_labels):
                x = before[b * n_contexts + c] + arcs[b, c, y]
                if x > top:
                    chosen, top = b, x
            s = chosen * n_contexts + c
            labels[t - 1] = s % n_labels
    return -1


@kernel
def k_best(first: int, last: int, parts: Parts, labels: Int32, scores: Float) -> int:
    """The k best labellings of the sequence ``first..last`` into ``labels`` [k, T], ``scores`` [k]; how many."""
    work, k = _new_work(one_run(first, last + 1), parts), len(scores)
    arcs, states = work.arcs, work.states[0]
    n_labels, n_contexts, _ = arcs.shape
    n_states = n_contexts * n_labels
    values, before = np.empty((n_states, k)), np.empty((n_states, k))
    counts, counts_before = np.zeros(n_states, dtype=np.int64), np.zeros(n_states, dtype=np.int64)
    heads = np.zeros(n_states, dtype=np.int64)  # the next entry to take from each list that is merged
    origin = np.empty((last - first + 1, n_states, k), dtype=np.int64)  # previous state * k + rank there
    for t in range(last - first + 1):
        _fill_states(first + t, first, last, parts, states)
        if t > 0:
            fill_arcs(first + t, first, t == 1, parts, arcs)
        values, before, counts, counts_before = before, values, counts_before, counts
        for s in range(n_states):
            counts[s] = 0
            if states[s] == -np.inf:
                continue
            if t == 0:
                values[s, 0], counts[s] = states[s], 1
                continue
            c, y = s // n_labels, s % n_labels
            for b in range(n_labels):
                heads[b] = 0
            while counts[s] < k:
                chosen, top = -1, -np.inf
                for b in range(n_labels):
                    p = b * n_contexts + c
                    if heads[b] < counts_before[p] and before[p, heads[b]] + arcs[b, c, y] > top:
                        chosen, top = b, before[p, heads[b]] + arcs[b, c, y]
                if chosen < 0:
                    break
                values[s, counts[s]] = top + states[s]
                origin[t, s, counts[s]] = (chosen * n_contexts + c) * k + heads[chosen]
                heads[chosen] += 1
                counts[s] += 1
    heads[:] = 0
    for rank in range(k):
        chosen, top = -1, -np.inf
        for s in range(n_states):
            if heads[s] < counts[s] and values[s, heads[s]] > top:
                chosen, top = s, values[s, heads[s]]
        if chosen < 0:
            return rank
        s, place = chosen, heads[chosen]
        heads[chosen] += 1
        scores[rank] = top
        for t in range(last - first, -1, -1):
            labels[rank, t] = s % n_labels
            if t > 0:
                s, place = origin[t, s, place] // k, origin[t, s, place] % k
    return k
