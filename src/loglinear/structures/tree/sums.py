r"""Log-partition and expected parts of trees in scaled probabilities: the loop that training spends its time in.

With w = exp(score - the greatest score of its row), the values of each span are divided by their maximum m, whose
logarithm is part of the span's *scale*:

    c_k           = exp(scale[i, k] + scale[k, j] - their maximum over k)
    inside0[A]    = sum over k and A -> B C of  w c_k inside[i, k, B] inside[k, j, C] / m
    inside [A]    = inside0[A] + sum over steps A <- B of  exp(score) inside0[B]
    log Z         = log inside[0, n, root] + scale[0, n]

The way down distributes probabilities: that of a symbol at a span goes to its steps and rules in the shares that these
have in the sums above, and from there to the children. With rho[A] = P(A) / inside[A] and rho0[B] = rho[B] + sum over
steps A <- B of exp(score) rho[A],

    E[step A <- B at (i, j)]          = rho[A] exp(score) inside0[B]
    E[A -> B C at (i, k, j)]          = rho0[A] w c inside[i, k, B] inside[k, j, C],      added to P(B), P(C)

Why the scaled numbers can be trusted. On the way up each product of non-zero factors is at least ``SMALLEST`` = 1e-290
and each value at least ``TINY`` = 1e-150, or the sentence is left to :mod:`~loglinear.structures.tree.log_sums` (status
``NEEDS_LOG_SPACE``) and adds nothing to any sum. So a zero means that there is no derivation. On the way down only
probabilities below 1e-300 underflow, and since rho <= 1 / inside <= 1e150 nothing overflows.

The chart and the order of spans are those of :mod:`~loglinear.structures.tree.best`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from loglinear.arrays import Float, Int32, Int64, UInt8
from loglinear.kernels import kernel
from loglinear.kernels.numbers import DONE, INFEASIBLE, NEEDS_LOG_SPACE, TINY
from loglinear.structures.tree.best import (
    Chart,
    Parts,
    Sentence,
    allowed_at,
    find,
    forbid,
    grown,
    grown_chart,
    mark,
    new_chart,
    place,
)
from loglinear.structures.tree.grammar import Rules

SMALLEST = 1e-290
LEAST_WEIGHT = 1e-300
MOST_STEP = 300.0


class Inside(NamedTuple):
    """The chart with the sums over the derivations of each item, above and below its step [I] (or their logarithms)."""

    chart: Chart
    value: Float
    value0: Float


class Rows(NamedTuple):
    """Numbers of one span by symbol [K], below and above the step; ``active`` lists the symbols that have one."""

    row0: Float
    row: Float
    active: Int32


class Weights(NamedTuple):
    """Exponentials of one row of scores, each computed when it is first needed; -1 before.

    Parameters
    ----------
    row : int64 [2]
        The number of the row, and whether it has steps with scores above MOST_STEP, which cannot be trusted.
    shift : float64 [1]
        The greatest score of the rules, which was subtracted from all of them.
    binary, steps : float64 [R], float64 [U]
    """

    row: Int64
    shift: Float
    binary: Float
    steps: Float


class Brackets(NamedTuple):
    """The expected number of each of L labels at each span.

    Parameters
    ----------
    label_of : int32 [K]
        The label of a symbol, -1 if it has none.
    step_pointer, step_labels : int64 [U + 1], int32
        The labels that a step adds: those of its symbols above the child.
    found : float64 [N or 0, L]
        Added to, unless it has no rows.
    """

    label_of: Int32
    step_pointer: Int64
    step_labels: Int32
    found: Float


@kernel
def grown_inside(items: Inside, filled: int, more: int) -> Inside:
    """The items, with room for ``more`` after the first ``filled``."""
    chart, value, value0 = items
    return Inside(grown_chart(chart, filled, more), grown(value, filled, more), grown(value0, filled, more))


@kernel
def new_inside(word_offsets: Int64, rules: Rules) -> Inside:
    """An empty chart with room for the longest of the sentences."""
    return Inside(new_chart(word_offsets, rules, 1024), np.empty(1024), np.empty(1024))


@kernel
def hold(x: int, binary: Float, steps: Float, weights: Weights) -> bool:
    """Make ``weights`` those of row ``x`` of the scores; returns whether its steps can be trusted."""
    row = weights.row
    if row[0] != x:
        row[0] = x
        peak, top = -np.inf, -np.inf
        for score in binary[x]:
            peak = max(peak, score)
        for score in steps[x]:
            top = max(top, score)
        weights.shift[0] = peak if peak > -np.inf else 0.0
        weights.binary[:] = -1.0
        weights.steps[:] = -1.0
        row[1] = top > MOST_STEP
    return row[1] == 0


@kernel
def exponential(score: float) -> float:
    """exp(score), but zero only for -inf: products with a tiny weight are then noticed as too small.

    It is never infinite: rows with steps above MOST_STEP are not trusted anyway.
    """
    return max(math.exp(min(score, MOST_STEP)), LEAST_WEIGHT) if score > -np.inf else 0.0


@kernel
def _combine(
    i: int, j: int, rules: Rules, scores: Float, held: Weights, items: Inside, scale: Float, rows: Rows
) -> tuple[int, float, int]:
    """Sum a span's splits into ``row0``, with the scores [R] of its row.

    Returns the number of active symbols, the span's scale, and the number of products that are too small.
    """
    left_pointer, parent, right = rules.left_pointer, rules.parent, rules.right
    (symbol, first, left_end, end, position), value = items.chart, items.value
    row0, _, active = rows
    weights, shift, peak = held.binary, held.shift[0], -np.inf
    for k in range(i + 1, j):
        left_span, right_span = k * (k - 1) // 2 + i, j * (j - 1) // 2 + k
        if first[left_span] < left_end[left_span] and first[right_span] < end[right_span]:
            peak = max(peak, scale[left_span] + scale[right_span])
    n_active, n_low = 0, 0
    for k in range(i + 1, j):
        left_span, right_span = k * (k - 1) // 2 + i, j * (j - 1) // 2 + k
        if first[left_span] == left_end[left_span] or first[right_span] == end[right_span]:
            continue
        factor = math.exp(scale[left_span] + scale[right_span] - peak)
        here = position[k]
        for a in range(first[left_span], left_end[left_span]):
            left, share = symbol[a], value[a] * factor
            for r in range(left_pointer[left], left_pointer[left + 1]):
                c = here[right[r]]
                if c >= 0:
                    if weights[r] < 0.0:
                        weights[r] = exponential(scores[r] - shift)
                    product = share * value[c] * weights[r]
                    if product < SMALLEST:
                        n_low += weights[r] > 0.0
                        continue
                    p = parent[r]
                    if row0[p] == 0.0:
                        active[n_active] = p
                        n_active += 1
                    row0[p] += product
    return n_active, peak + shift, n_low


@kernel
def _step_up(n_active: int, rules: Rules, scores: Float, weights: Float, allowed: UInt8, rows: Rows) -> tuple[int, int]:
    """Add the steps: ``row`` from ``row0``; returns the numbers of active symbols and of small products."""
    child_pointer, steps = rules.child_pointer, rules.steps
    row0, row, active = rows
    width, n_all, n_low = allowed.shape[0], n_active, 0
    forbid(active[:n_active], allowed, 0.0, row0, row)
    for m in range(n_active):
        b = active[m]
        if row0[b] == 0.0:
            continue
        for u in range(child_pointer[b], child_pointer[b + 1]):
            a = steps[u, 0]
            if weights[u] < 0.0:
                weights[u] = exponential(scores[u])
            if weights[u] == 0.0 or (width > 0 and not allowed[a if width > 1 else 0]):
                continue
            product = row0[b] * weights[u]
            if product < SMALLEST:
                n_low += 1
                continue
            if row[a] == 0.0:
                active[n_all] = a
                n_all += 1
            row[a] += product
    return n_all, n_low


@kernel
def _store(
    i: int, j: int, n_active: int, rules: Rules, items: Inside, filled: int, rows: Rows
) -> tuple[int, float, int]:
    """Move the dense rows, divided by their maximum, into the chart and clear them.

    Returns the number of items, the maximum, and how many values are too small.
    """
    (chart, value, value0), (row0, row, active) = items, rows
    peak, n_low, begin = 0.0, 0, filled
    for m in range(n_active):
        peak = max(peak, row[active[m]])
    filled = place(i, j, active[:n_active], row, 0.0, rules.is_left, chart, filled)
    for item in range(begin, filled):
        a = chart.symbol[item]
        value[item], value0[item] = row[a] / peak, row0[a] / peak
        n_low += value[item] < TINY
    for m in range(n_active):
        row0[active[m]], row[active[m]] = 0.0, 0.0
    return filled, peak, n_low


@kernel
def up(
    sentence: Sentence, rules: Rules, parts: Parts, held: Weights, items: Inside, scale: Float, rows: Rows
) -> tuple[Inside, int]:
    """The scaled chart of one sentence and a status, O(n^3) times the number of applicable rules."""
    lexical, binary, steps, row_of_span, allowed = parts
    row0, _, active = rows
    preterminals, filled, n_low = rules.preterminals, 0, 0
    items.chart.first[: sentence.n * (sentence.n + 1) // 2] = 0
    items.chart.end[: sentence.n * (sentence.n + 1) // 2] = 0
    for j in range(1, sentence.n + 1):
        mark(j - 1, items.chart, False)
        for i in range(j - 1, -1, -1):
            span = j * (j - 1) // 2 + i
            x, mask = row_of_span[sentence.span + span], allowed_at(sentence.span + span, allowed)
            n_low += not hold(x, binary, steps, held)
            n_active, peak, n_small = 0, 0.0, 0
            if j - i == 1:
                tags = lexical[sentence.word + i]
                peak = tags.max()
                for p in range(preterminals.shape[0]):
                    if tags[p] > -np.inf:
                        share = math.exp(tags[p] - peak)
                        if share < SMALLEST:
                            n_small += 1
                            continue
                        row0[preterminals[p]] = share
                        active[n_active] = preterminals[p]
                        n_active += 1
            elif mask.shape[0] != 1 or mask[0]:
                n_active, peak, n_small = _combine(i, j, rules, binary[x], held, items, scale, rows)
            n_low += n_small
            n_active, n_small = _step_up(n_active, rules, steps[x], held.steps, mask, rows)
            n_low += n_small
            if filled + n_active > items.value.shape[0]:
                items = grown_inside(items, filled, n_active)
            filled, top, n_small = _store(i, j, n_active, rules, items, filled, rows)
            scale[span] = peak + math.log(top) if top > 0.0 else -np.inf
            n_low += n_small
            if n_low > 0:
                mark(j, items.chart, False)
                return items, NEEDS_LOG_SPACE
    mark(sentence.n, items.chart, False)
    return items, DONE


class Down(NamedTuple):
    """The results of the way down.

    Parameters
    ----------
    chance : float64 [I]
        The probability of each item.
    weight : float
        Of the sentence.
    expected : Parts
    brackets : Brackets
    """

    chance: Float
    weight: float
    expected: Parts
    brackets: Brackets


@kernel
def _unstep(
    x: int, span: int, place: int, rules: Rules, scores: Float, weights: Float, items: Inside, rows: Rows, down: Down
) -> bool:
    """``row0`` = rho0 of a span from the chances of its symbols; adds expected steps; whether there are any chances.

    The span is number ``span`` of its sentence and number ``place`` of all spans.
    """
    child_pointer, steps = rules.child_pointer, rules.steps
    label_of, step_pointer, step_labels, found = down.brackets
    (symbol, first, _, end, _), value, value0 = items
    (row0, row, _), chance, weight, expected = rows, down.chance, down.weight, down.expected.steps[x]
    wanted, any_chance = found.shape[0] > 0, False
    for item in range(first[span], end[span]):
        row[symbol[item]] = chance[item] / value[item]
        any_chance = any_chance or chance[item] > 0.0
    if not any_chance:
        return False
    for item in range(first[span], end[span]):
        b = symbol[item]
        row0[b] = 0.0
        if value0[item] == 0.0:
            continue
        total = row[b]
        for u in range(child_pointer[b], child_pointer[b + 1]):
            rho = row[steps[u, 0]]
            if rho > 0.0:
                if weights[u] < 0.0:
                    weights[u] = exponential(scores[u])
                share = rho * weights[u]
                total += share
                expected[u] += weight * (share * value0[item])
                if wanted:
                    for at in range(step_pointer[u], step_pointer[u + 1]):
                        found[place, step_labels[at]] += weight * (share * value0[item])
        row0[b] = total
        if wanted and label_of[b] >= 0:
            found[place, label_of[b]] += weight * (total * value0[item])
    return True


@kernel
def _share_out(
    i: int, j: int, x: int, rules: Rules, scores: Float, held: Weights, items: Inside, scale: Float, row0: Float,
    down: Down,
) -> None:  # fmt: skip
    """Distribute a span's chances over its parts, and add up the expected rules."""
    left_pointer, parent, right = rules.left_pointer, rules.parent, rules.right
    (symbol, first, left_end, end, position), value = items.chart, items.value
    weights, shift = held.binary, held.shift[0]
    chance, weight, sums = down.chance, down.weight, down.expected.binary[x]
    whole = scale[j * (j - 1) // 2 + i] - shift
    for k in range(i + 1, j):
        left_span, right_span = k * (k - 1) // 2 + i, j * (j - 1) // 2 + k
        if first[left_span] == left_end[left_span] or first[right_span] == end[right_span]:
            continue
        factor = math.exp(scale[left_span] + scale[right_span] - whole)
        here = position[k]
        for a in range(first[left_span], left_end[left_span]):
            left, left_value, handed = symbol[a], value[a], 0.0
            for r in range(left_pointer[left], left_pointer[left + 1]):
                rho = row0[parent[r]]
                if rho > 0.0:
                    c = here[right[r]]
                    if c >= 0:
                        if weights[r] < 0.0:
                            weights[r] = exponential(scores[r] - shift)
                        share = rho * ((weights[r] * value[c]) * left_value * factor)
                        sums[r] += weight * share
                        chance[c] += share
                        handed += share
            chance[a] += handed


@kernel
def _down(
    sentence: Sentence, top: int, rules: Rules, parts: Parts, held: Weights, items: Inside, scale: Float, rows: Rows,
    down: Down,
) -> None:  # fmt: skip
    """From the root, item ``top``, to the words: add the expected parts of one sentence, times its weight."""
    _, binary, steps, row_of_span, _ = parts
    (symbol, first, _, end, position), _, value0 = items
    (row0, row, _), preterminals, n = rows, rules.preterminals, sentence.n
    down.chance[: end[n * (n - 1) // 2]] = 0.0  # the last span to be filled
    down.chance[top] = 1.0
    for j in range(n, 0, -1):
        mark(j, items.chart, True)
        for i in range(j):
            span = j * (j - 1) // 2 + i
            at = sentence.span + span
            x = row_of_span[at]
            hold(x, binary, steps, held)
            if _unstep(x, span, at, rules, steps[x], held.steps, items, rows, down):
                if j - i == 1:
                    tags = down.expected.lexical[sentence.word + i]
                    for p in range(preterminals.shape[0]):
                        item = position[i, preterminals[p]]
                        if item >= 0:
                            tags[p] = down.weight * (row0[preterminals[p]] * value0[item])
                else:
                    _share_out(i, j, x, rules, binary[x], held, items, scale, row0, down)
            for item in range(first[span], end[span]):
                row[symbol[item]], row0[symbol[item]] = 0.0, 0.0
        mark(j, items.chart, False)


@kernel
def inside_outside(
    word_offsets: Int64, span_offsets: Int64, rules: Rules, parts: Parts, weights: Float, log_z: Float,
    status: UInt8, expected: Parts, brackets: Brackets,
) -> None:  # fmt: skip
    """Log-partitions of S sentences and, unless ``expected.lexical`` is empty, their expected parts times ``weights``.

    Parameters
    ----------
    word_offsets, span_offsets : int64[S + 1]
    rules : Rules
    parts, expected : Parts
        ``expected`` is added to; its last two arrays are ignored.
    weights, log_z : float64[S]
    status : uint8[S]
        Written: ``DONE``, ``NEEDS_LOG_SPACE`` or ``INFEASIBLE``.
    brackets : Brackets
    """
    k, items, chance = rules.is_left.shape[0], new_inside(word_offsets, rules), np.empty(0)
    scale = np.empty(items.chart.first.shape[0])
    rows = Rows(np.zeros(k), np.zeros(k), np.zeros(k, np.int32))
    held = Weights(np.full(2, -1), np.zeros(1), np.zeros(parts.binary.shape[1]), np.zeros(parts.steps.shape[1]))
    for s in range(word_offsets.shape[0] - 1):
        sentence = Sentence(word_offsets[s + 1] - word_offsets[s], word_offsets[s], span_offsets[s])
        items, status[s] = up(sentence, rules, parts, held, items, scale, rows)
        log_z[s] = -np.inf
        if status[s] != DONE:
            continue
        whole = sentence.n * (sentence.n - 1) // 2
        top = find(rules.root, whole, items.chart)
        if top < 0:
            status[s] = INFEASIBLE
            continue
        log_z[s] = math.log(items.value[top]) + scale[whole]
        if expected.lexical.shape[0] > 0:
            chance = grown(chance, 0, items.value.shape[0])
            down = Down(chance, weights[s], expected, brackets)
            _down(sentence, top, rules, parts, held, items, scale, rows, down)
