r"""Sums over trees in log space, for sentences that :mod:`~loglinear.structures.tree.sums` cannot do, and draws.

    inside0[i, j, A] = log sum over k and A -> B C of  exp(score + inside[i, k, B] + inside[k, j, C])
    inside [i, j, A] = log (exp inside0[A] + sum over steps A <- B of  exp(score + inside0[B]))

From the root down, a symbol's probability is handed to its rules in the shares exp(score + inside[B] + inside[C] -
inside0[A]), each at most one; a draw chooses with the same shares. The pool of items and the order of spans are those
of :mod:`~loglinear.structures.tree.best`.
"""

from __future__ import annotations

import math

import numpy as np

from loglinear.arrays import Float, Int32, Int64, UInt8
from loglinear.kernels import kernel
from loglinear.kernels.numbers import log_add

Rules = tuple[Int64, Int32, Int32, Int64, Int32, UInt8, Int32]
Parts = tuple[Float, Float, Float, Int32, UInt8]
Pool = tuple[Int32, Float, Float]
Places = tuple[Int64, Int64, Int64]


@kernel
def _grown(pool: Pool, filled: int, more: int) -> Pool:
    """The pool, with room for ``more`` items after the first ``filled``."""
    symbol, value, value0 = pool
    if filled + more <= symbol.shape[0]:
        return pool
    size = 2 * symbol.shape[0] + more
    new_symbol, new_value, new_value0 = np.empty(size, np.int32), np.empty(size), np.empty(size)
    new_symbol[:filled], new_value[:filled], new_value0[:filled] = symbol[:filled], value[:filled], value0[:filled]
    return new_symbol, new_value, new_value0


@kernel
def _mark(j: int, pool: Pool, places: Places, position: Int32, present: bool) -> None:
    """Fill the rows of ``position`` with the items of column ``j``, or clear them."""
    symbol, first, end = pool[0], places[0], places[2]
    for i in range(j):
        span = j * (j - 1) // 2 + i
        for item in range(first[span], end[span]):
            position[i, symbol[item]] = item if present else -1


@kernel
def _combine(
    i: int, j: int, rules: Rules, scores: Float, pool: Pool, places: Places, position: Int32, row0: Float, met: Int32
) -> int:
    """Sum a span's splits into ``row0``; returns the number of symbols met."""
    left_pointer, parent, right, _, _, _, _ = rules
    symbol, value, _ = pool
    first, left_end, _ = places
    n_met = 0
    for k in range(i + 1, j):
        left_span, here = k * (k - 1) // 2 + i, position[k]
        for a in range(first[left_span], left_end[left_span]):
            left = symbol[a]
            for r in range(left_pointer[left], left_pointer[left + 1]):
                c = here[right[r]]
                if c >= 0 and scores[r] > -np.inf:
                    p = parent[r]
                    if row0[p] == -np.inf:
                        met[n_met] = p
                        n_met += 1
                    row0[p] = log_add(row0[p], value[a] + value[c] + scores[r])
    return n_met


@kernel
def _step_up(n_met: int, rules: Rules, scores: Float, allowed: UInt8, row0: Float, row: Float, met: Int32) -> int:
    """Add the steps: ``row`` from ``row0``; returns the number of symbols met now."""
    child_pointer, step_parent = rules[3], rules[4]
    width = allowed.shape[0]
    for m in range(n_met):
        b = met[m]
        if width > 0 and not allowed[b if width > 1 else 0]:
            row0[b] = -np.inf
        row[b] = row0[b]
    n_all = n_met
    for m in range(n_met):
        b = met[m]
        for u in range(child_pointer[b], child_pointer[b + 1]):
            a, score = step_parent[u], row0[b] + scores[u]
            if score > -np.inf and (width == 0 or allowed[a if width > 1 else 0]):
                if row[a] == -np.inf:
                    met[n_all] = a
                    n_all += 1
                row[a] = log_add(row[a], score)
    return n_all


@kernel
def _up(
    n: int, rules: Rules, parts: Parts, words: int, spans: int, pool: Pool, places: Places, position: Int32,
    row0: Float, row: Float, met: Int32,
) -> Pool:  # fmt: skip
    """The chart of one sentence, O(n^3) times the rules met."""
    lexical, binary, steps, row_of_span, allowed = parts
    is_left, preterminals = rules[5], rules[6]
    first, left_end, end = places
    no_mask = allowed[0:0].reshape(-1) if allowed.shape[0] == 0 else allowed[0]
    filled = 0
    for j in range(1, n + 1):
        _mark(j - 1, pool, places, position, False)
        for i in range(j - 1, -1, -1):
            span = j * (j - 1) // 2 + i
            x, mask = row_of_span[spans + span], no_mask if allowed.shape[0] == 0 else allowed[spans + span]
            n_met = 0
            if j - i == 1:
                for p in range(preterminals.shape[0]):
                    if lexical[words + i, p] > -np.inf:
                        row0[preterminals[p]] = lexical[words + i, p]
                        met[n_met] = preterminals[p]
                        n_met += 1
            elif mask.shape[0] != 1 or mask[0]:
                n_met = _combine(i, j, rules, binary[x], pool, places, position, row0, met)
            n_met = _step_up(n_met, rules, steps[x], mask, row0, row, met)
            pool = _grown(pool, filled, n_met)
            symbol, value, value0 = pool
            first[span] = filled
            for wanted in range(1, -1, -1):
                for m in range(n_met):
                    a = met[m]
                    if is_left[a] == wanted and row[a] > -np.inf:
                        symbol[filled], value[filled], value0[filled] = a, row[a], row0[a]
                        position[i, a] = filled
                        filled += 1
                if wanted == 1:
                    left_end[span] = filled
            end[span] = filled
            for m in range(n_met):
                row0[met[m]], row[met[m]] = -np.inf, -np.inf
    _mark(n, pool, places, position, False)
    return pool


@kernel
def _unstep(
    x: int, span: int, rules: Rules, scores: Float, pool: Pool, places: Places, here: Int32, chance: Float,
    weight: float, chance0: Float, expected: Float,
) -> None:  # fmt: skip
    """The chances [items] of a span's symbols below their steps, from those above; adds the expected steps."""
    child_pointer, step_parent = rules[3], rules[4]
    symbol, value, value0 = pool
    first, _, end = places
    for item in range(first[span], end[span]):
        chance0[item] = 0.0
        if value0[item] == -np.inf:
            continue
        b = symbol[item]
        if chance[item] > 0.0:
            chance0[item] = chance[item] * math.exp(value0[item] - value[item])
        for u in range(child_pointer[b], child_pointer[b + 1]):
            above = here[step_parent[u]]
            if above >= 0 and chance[above] > 0.0:
                share = chance[above] * math.exp(value0[item] + scores[u] - value[above])
                chance0[item] += share
                expected[x, u] += weight * share


@kernel
def _down(
    n: int, root: int, rules: Rules, parts: Parts, words: int, spans: int, weight: float, pool: Pool, places: Places,
    position: Int32, expected: Parts,
) -> None:  # fmt: skip
    """From the root to the words: add the expected parts of one sentence, times ``weight``, to ``expected``."""
    _, binary, steps, row_of_span, _ = parts
    left_pointer, parent, right, _, _, _, preterminals = rules
    symbol, value, value0 = pool
    first, left_end, end = places
    top = n * (n - 1) // 2
    chance, chance0, above = np.zeros(end[top]), np.zeros(end[top]), np.full(rules[0].shape[0] - 1, np.int32(-1))
    for item in range(first[top], end[top]):
        chance[item] = 1.0 if symbol[item] == root else 0.0
    for j in range(n, 0, -1):
        _mark(j, pool, places, position, True)
        for i in range(j):
            span, x = j * (j - 1) // 2 + i, row_of_span[spans + j * (j - 1) // 2 + i]
            above = position[i]
            _unstep(x, span, rules, steps[x], pool, places, above, chance, weight, chance0, expected[2])
            if j - i == 1:
                for p in range(preterminals.shape[0]):
                    if above[preterminals[p]] >= 0:
                        expected[0][words + i, p] = weight * chance0[above[preterminals[p]]]
                continue
            for k in range(i + 1, j):
                left_span, here = k * (k - 1) // 2 + i, position[k]
                for a in range(first[left_span], left_end[left_span]):
                    for r in range(left_pointer[symbol[a]], left_pointer[symbol[a] + 1]):
                        c, whole = here[right[r]], above[parent[r]]
                        if c >= 0 and whole >= 0 and chance0[whole] > 0.0:
                            share = chance0[whole] * math.exp(binary[x, r] + value[a] + value[c] - value0[whole])
                            expected[1][x, r] += weight * share
                            chance[a] += share
                            chance[c] += share
        _mark(j, pool, places, position, False)


@kernel
def _find(a: int, span: int, pool: Pool, places: Places) -> int:
    """The item of a symbol at a span, -1 if there is none."""
    symbol, first, end = pool[0], places[0], places[2]
    for item in range(first[span], end[span]):
        if symbol[item] == a:
            return item
    return -1


@kernel
def _draw_rule(
    i: int, j: int, item: int, rules: Rules, scores: Float, pool: Pool, places: Places, u: float
) -> tuple[int, int]:
    """Rule and split of an item below its step, by a number ``u`` in [0, 1); the last one if rounding bites."""
    left_pointer, parent, right, _, _, _, _ = rules
    symbol, value, value0 = pool
    first, left_end, _ = places
    rule, split, left = -1, -1, u
    for k in range(i + 1, j):
        left_span, right_span = k * (k - 1) // 2 + i, j * (j - 1) // 2 + k
        for a in range(first[left_span], left_end[left_span]):
            for r in range(left_pointer[symbol[a]], left_pointer[symbol[a] + 1]):
                if parent[r] == symbol[item] and scores[r] > -np.inf:
                    c = _find(right[r], right_span, pool, places)
                    if c >= 0:
                        rule, split = r, k
                        left -= math.exp(scores[r] + value[a] + value[c] - value0[item])
                        if left < 0.0:
                            return rule, split
    return rule, split


@kernel
def _draw(
    n: int, root: int, rules: Rules, moves: Int32, parts: Parts, spans: int, pool: Pool, places: Places,
    numbers: Float, labels: Int32,
) -> None:  # fmt: skip
    """One tree; ``numbers`` [2, N] are uniform draws, two a span."""
    _, binary, steps, row_of_span, _ = parts
    _, value, value0 = pool
    left_pointer, right, preterminals = rules[0], rules[2], rules[6]
    labels[:] = -1
    stack = np.empty((n + 1, 3), np.int32)
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, n, root
    depth = 1
    while depth > 0:
        depth -= 1
        i, j, a = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        span = j * (j - 1) // 2 + i
        x, item = row_of_span[spans + span], _find(a, span, pool, places)
        left = numbers[0, span] - (math.exp(value0[item] - value[item]) if value0[item] > -np.inf else 0.0)
        below = item
        if left >= 0.0:  # a step
            for u in range(moves.shape[0]):
                if moves[u, 0] == a and steps[x, u] > -np.inf and left >= 0.0:
                    b = _find(moves[u, 1], span, pool, places)
                    if b >= 0 and value0[b] > -np.inf:
                        below = b
                        labels[span, 2] = u
                        left -= math.exp(value0[b] + steps[x, u] - value[item])
        if j - i == 1:
            for p in range(preterminals.shape[0]):
                if preterminals[p] == pool[0][below]:
                    labels[span, 0] = p
            continue
        r, k = _draw_rule(i, j, below, rules, binary[x], pool, places, numbers[1, span])
        labels[span, 0], labels[span, 1] = r, k
        stack[depth, 0], stack[depth, 1], stack[depth, 2] = k, j, right[r]
        stack[depth + 1, 0], stack[depth + 1, 1] = i, k
        stack[depth + 1, 2] = np.searchsorted(left_pointer, r, side="right") - 1
        depth += 2


@kernel
def inside_outside(
    word_offsets: Int64, span_offsets: Int64, which: Int64, rules: Rules, moves: Int32, root: int, parts: Parts,
    weights: Float, log_z: Float, expected: Parts, numbers: Float, labels: Int32,
) -> None:  # fmt: skip
    """Log-partitions of the sentences ``which``, with expected parts and draws if there is room for them.

    As :func:`loglinear.structures.tree.sums.inside_outside`; ``labels`` int32[D, N, 3] receives D draws for each of
    which ``numbers`` [D, 2, N] are uniform.
    """
    n_symbols, longest = rules[0].shape[0] - 1, 0
    for s in which:
        longest = max(longest, word_offsets[s + 1] - word_offsets[s])
    n_spans = longest * (longest + 1) // 2
    places = (np.zeros(n_spans, np.int64), np.zeros(n_spans, np.int64), np.zeros(n_spans, np.int64))
    position = np.full((longest, n_symbols), np.int32(-1))
    pool = (np.empty(1024, np.int32), np.empty(1024), np.empty(1024))
    row0, row = np.full(n_symbols, -np.inf), np.full(n_symbols, -np.inf)
    met = np.zeros(n_symbols, np.int32)
    for s in which:
        n, words, spans = word_offsets[s + 1] - word_offsets[s], word_offsets[s], span_offsets[s]
        pool = _up(n, rules, parts, words, spans, pool, places, position, row0, row, met)
        top = _find(root, n * (n - 1) // 2, pool, places)
        log_z[s] = pool[1][top] if top >= 0 else -np.inf
        if top < 0:
            continue
        if expected[0].shape[0] > 0:
            _down(n, root, rules, parts, words, spans, weights[s], pool, places, position, expected)
        end = span_offsets[s + 1]
        for d in range(labels.shape[0]):
            _draw(
                n, root, rules, moves, parts, spans, pool, places, numbers[d][:, spans:end], labels[d, spans:end]
            )  # fmt: skip
