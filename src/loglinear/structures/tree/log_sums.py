r"""Sums over trees in log space, for sentences that :mod:`~loglinear.structures.tree.sums` cannot handle, and draws.

    inside0[i, j, A] = log sum over k and A -> B C of  exp(score + inside[i, k, B] + inside[k, j, C])
    inside [i, j, A] = log (exp inside0[A] + sum over steps A <- B of  exp(score + inside0[B]))

From the root down, a symbol's probability is distributed over its rules in the shares exp(score + inside[B] +
inside[C] - inside0[A]), each at most one; a draw chooses a rule with the same probabilities. The chart and the order of
spans are those of :mod:`~loglinear.structures.tree.best`.
"""

from __future__ import annotations

import math

import numpy as np

from loglinear.arrays import Float, Int32, Int64, UInt8
from loglinear.kernels import kernel
from loglinear.kernels.numbers import log_add
from loglinear.structures.tree.best import Parts, Sentence, allowed_at, find, forbid, mark, place, push
from loglinear.structures.tree.grammar import Rules
from loglinear.structures.tree.sums import Inside, Rows, grown_inside, new_inside


@kernel
def _combine(i: int, j: int, rules: Rules, scores: Float, items: Inside, rows: Rows) -> int:
    """Sum a span's splits into ``row0``, with scores [R]; returns the number of active symbols."""
    left_pointer, parent, right = rules.left_pointer, rules.parent, rules.right
    (symbol, first, left_end, _, position), value = items.chart, items.value
    (row0, _, active), n_active = rows, 0
    for k in range(i + 1, j):
        left_span, here = k * (k - 1) // 2 + i, position[k]
        for a in range(first[left_span], left_end[left_span]):
            left = symbol[a]
            for r in range(left_pointer[left], left_pointer[left + 1]):
                c = here[right[r]]
                if c >= 0 and scores[r] > -np.inf:
                    p = parent[r]
                    if row0[p] == -np.inf:
                        active[n_active] = p
                        n_active += 1
                    row0[p] = log_add(row0[p], value[a] + value[c] + scores[r])
    return n_active


@kernel
def _step_up(n_active: int, rules: Rules, scores: Float, allowed: UInt8, rows: Rows) -> int:
    """Add the steps, with scores [U]: ``row`` from ``row0``; returns the number of active symbols."""
    child_pointer, steps = rules.child_pointer, rules.steps
    row0, row, active = rows
    width, n_all = allowed.shape[0], n_active
    forbid(active[:n_active], allowed, -np.inf, row0, row)
    for m in range(n_active):
        b = active[m]
        for u in range(child_pointer[b], child_pointer[b + 1]):
            a, score = steps[u, 0], row0[b] + scores[u]
            if score > -np.inf and (width == 0 or allowed[a if width > 1 else 0]):
                if row[a] == -np.inf:
                    active[n_all] = a
                    n_all += 1
                row[a] = log_add(row[a], score)
    return n_all


@kernel
def up(sentence: Sentence, rules: Rules, parts: Parts, items: Inside, rows: Rows) -> Inside:
    """The chart of one sentence, O(n^3) times the number of applicable rules."""
    lexical, binary, steps, row_of_span, allowed = parts
    (row0, row, active), filled = rows, 0
    for j in range(1, sentence.n + 1):
        mark(j - 1, items.chart, False)
        for i in range(j - 1, -1, -1):
            span = sentence.span + j * (j - 1) // 2 + i
            x, mask = row_of_span[span], allowed_at(span, allowed)
            n_active = 0
            if j - i == 1:
                tags = lexical[sentence.word + i]
                for p in range(tags.shape[0]):
                    if tags[p] > -np.inf:
                        active[n_active] = rules.preterminals[p]
                        row0[active[n_active]] = tags[p]
                        n_active += 1
            elif mask.shape[0] != 1 or mask[0]:
                n_active = _combine(i, j, rules, binary[x], items, rows)
            n_active = _step_up(n_active, rules, steps[x], mask, rows)
            if filled + n_active > items.value.shape[0]:
                items = grown_inside(items, filled, n_active)
            begin = filled
            filled = place(i, j, active[:n_active], row, -np.inf, rules.is_left, items.chart, filled)
            for item in range(begin, filled):
                a = items.chart.symbol[item]
                items.value[item], items.value0[item] = row[a], row0[a]
            for m in range(n_active):
                row0[active[m]], row[active[m]] = -np.inf, -np.inf
    mark(sentence.n, items.chart, False)
    return items


@kernel
def _unstep(
    span: int, rules: Rules, scores: Float, items: Inside, here: Int32, chance: Float, weight: float, chance0: Float,
    expected: Float,
) -> None:  # fmt: skip
    """The chances [I] of a span's symbols below their steps, from those above; adds the expected steps [U]."""
    child_pointer, steps = rules.child_pointer, rules.steps
    (symbol, first, _, end, _), value, value0 = items
    for item in range(first[span], end[span]):
        chance0[item] = 0.0
        if value0[item] == -np.inf:
            continue
        b = symbol[item]
        if chance[item] > 0.0:
            chance0[item] = chance[item] * math.exp(value0[item] - value[item])
        for u in range(child_pointer[b], child_pointer[b + 1]):
            above = here[steps[u, 0]]
            if above >= 0 and chance[above] > 0.0:
                share = chance[above] * math.exp(value0[item] + scores[u] - value[above])
                chance0[item] += share
                expected[u] += weight * share


@kernel
def _down(
    sentence: Sentence, top: int, rules: Rules, parts: Parts, weight: float, items: Inside, expected: Parts
) -> None:
    """From the root, item ``top``, to the words: add the expected parts of one sentence, times ``weight``."""
    left_pointer, parent, right, preterminals = rules.left_pointer, rules.parent, rules.right, rules.preterminals
    (symbol, first, left_end, end, position), value, value0 = items
    n_items = end[sentence.n * (sentence.n - 1) // 2]
    chance, chance0 = np.zeros(n_items), np.zeros(n_items)
    chance[top] = 1.0
    for j in range(sentence.n, 0, -1):
        mark(j, items.chart, True)
        for i in range(j):
            span, above = j * (j - 1) // 2 + i, position[i]
            x = parts.row_of_span[sentence.span + span]
            _unstep(span, rules, parts.steps[x], items, above, chance, weight, chance0, expected.steps[x])
            if j - i == 1:
                tags = expected.lexical[sentence.word + i]
                for p in range(preterminals.shape[0]):
                    if above[preterminals[p]] >= 0:
                        tags[p] = weight * chance0[above[preterminals[p]]]
                continue
            scores, sums = parts.binary[x], expected.binary[x]
            for k in range(i + 1, j):
                left_span, here = k * (k - 1) // 2 + i, position[k]
                for a in range(first[left_span], left_end[left_span]):
                    for r in range(left_pointer[symbol[a]], left_pointer[symbol[a] + 1]):
                        c, whole = here[right[r]], above[parent[r]]
                        if c >= 0 and whole >= 0 and chance0[whole] > 0.0:
                            share = chance0[whole] * math.exp(scores[r] + value[a] + value[c] - value0[whole])
                            sums[r] += weight * share
                            chance[a] += share
                            chance[c] += share
        mark(j, items.chart, False)


@kernel
def _draw_rule(i: int, j: int, item: int, rules: Rules, scores: Float, items: Inside, u: float) -> tuple[int, int]:
    """Rule and split of an item below its step, for a uniform number ``u``; the last one if rounding leaves none."""
    (symbol, first, left_end, _, _), value, value0 = items
    rule, split, left = -1, -1, u
    for k in range(i + 1, j):
        left_span, right_span = k * (k - 1) // 2 + i, j * (j - 1) // 2 + k
        for a in range(first[left_span], left_end[left_span]):
            for r in range(rules.left_pointer[symbol[a]], rules.left_pointer[symbol[a] + 1]):
                if rules.parent[r] == symbol[item] and scores[r] > -np.inf:
                    c = find(rules.right[r], right_span, items.chart)
                    if c >= 0:
                        rule, split = r, k
                        left -= math.exp(scores[r] + value[a] + value[c] - value0[item])
                        if left < 0.0:
                            return rule, split
    return rule, split


@kernel
def _draw(sentence: Sentence, rules: Rules, parts: Parts, items: Inside, numbers: Float, labels: Int32) -> None:
    """One tree into ``labels`` [spans, 3]; ``numbers`` [2, spans] are uniform draws, two for each span."""
    (chart, value, value0), steps, n = items, parts.steps, sentence.n
    labels[:] = -1
    stack = np.empty((n + 1, 3), np.int32)
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, n, rules.root
    depth = 1
    while depth > 0:
        depth -= 1
        i, j, a = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        span = j * (j - 1) // 2 + i
        x, item = parts.row_of_span[sentence.span + span], find(a, span, chart)
        left = numbers[0, span] - (math.exp(value0[item] - value[item]) if value0[item] > -np.inf else 0.0)
        below = item
        if left >= 0.0:  # a step
            for u in range(rules.steps.shape[0]):
                if rules.steps[u, 0] == a and steps[x, u] > -np.inf and left >= 0.0:
                    b = find(rules.steps[u, 1], span, chart)
                    if b >= 0 and value0[b] > -np.inf:
                        below = b
                        labels[span, 2] = u
                        left -= math.exp(value0[b] + steps[x, u] - value[item])
        if j - i == 1:
            for p in range(rules.preterminals.shape[0]):
                if rules.preterminals[p] == chart.symbol[below]:
                    labels[span, 0] = p
        else:
            r, k = _draw_rule(i, j, below, rules, parts.binary[x], items, numbers[1, span])
            labels[span, 0], labels[span, 1] = r, k
            depth = push(stack, depth, i, k, j, r, rules)


@kernel
def inside_outside(
    word_offsets: Int64, span_offsets: Int64, which: Int64, rules: Rules, parts: Parts, weights: Float, log_z: Float,
    expected: Parts, numbers: Float, labels: Int32,
) -> None:  # fmt: skip
    """Log-partitions of the sentences ``which``; expected parts and draws if their arrays are not empty.

    As :func:`loglinear.structures.tree.sums.inside_outside`; ``labels`` int32[D, N, 3] receives D draws, made from the
    uniform numbers ``numbers`` [D, 2, N].
    """
    k, items = rules.is_left.shape[0], new_inside(word_offsets, rules)
    rows = Rows(np.full(k, -np.inf), np.full(k, -np.inf), np.zeros(k, np.int32))
    for s in which:
        n, spans, end = word_offsets[s + 1] - word_offsets[s], span_offsets[s], span_offsets[s + 1]
        sentence = Sentence(n, word_offsets[s], spans)
        items = up(sentence, rules, parts, items, rows)
        top = find(rules.root, n * (n - 1) // 2, items.chart)
        log_z[s] = items.value[top] if top >= 0 else -np.inf
        if top < 0:
            continue
        if expected.lexical.shape[0] > 0:
            _down(sentence, top, rules, parts, weights[s], items, expected)
        for d in range(labels.shape[0]):
            _draw(sentence, rules, parts, items, numbers[d][:, spans:end], labels[d, spans:end])
