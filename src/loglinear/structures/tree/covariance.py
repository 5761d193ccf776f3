r"""Covariance of a cost and the parts of trees: the gradient of an expected cost, for the risk criterion.

For a cost c(y) that is a sum over the parts of a tree, the derivative of E[c] by a part's score is E[c part] - E[c]
E[part] (Gimpel & Smith 2010, eq. 5). Inside-outside finds all of them if it carries a second number with each
probability (the expectation semiring: Li & Eisner 2009). From the words up, with the shares that rules and steps have
in the inside sums (:mod:`~loglinear.structures.tree.sums`), the expected cost of what is below an item:

    mean0[A] = sum over k and A -> B C of  share(A -> B C at k) (cost + mean[i, k, B] + mean[k, j, C])
    mean [A] = share(no step) mean0[A] + sum over steps A <- B of  share(A <- B) (cost + mean0[B])
    E[c]     = mean[0, n, root]

From the root down each item passes to its parts not only its probability P but R = P (expected cost of what is not
below it - E[c]), where P = 1 and R = -E[c] at the root. With q = P0[A] share and P0, R0 those below the step,

    cov(c, A -> B C at (i, k, j)) = q (cost + mean[B] + mean[C]) + R0[A] share
    cov(c, A <- B at (i, j))      = P[A] share (cost + mean0[B]) + R[A] share
    R[B] gets  R0[A] share + q (cost + mean[C]),      R[C] gets  R0[A] share + q (cost + mean[B])

Shares are at most one, so that the numbers can be trusted wherever the chart can: charts are those of scaled
probabilities, and for sentences where these could underflow those of log space. Time is that of three inside passes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from loglinear.arrays import Float, Int64, UInt8
from loglinear.kernels import kernel
from loglinear.kernels.numbers import DONE, INFEASIBLE, NEEDS_LOG_SPACE
from loglinear.structures.tree import log_sums, sums
from loglinear.structures.tree.best import Parts, Sentence, find, mark
from loglinear.structures.tree.grammar import Rules
from loglinear.structures.tree.sums import Inside, Rows, Weights, exponential, hold, new_inside


class Filled(NamedTuple):
    """The filled chart of one sentence; values are logarithms if ``in_logs``, else scaled by ``scale`` [spans]."""

    items: Inside
    scale: Float
    held: Weights
    in_logs: bool


class Carried(NamedTuple):
    """What each item carries [I], above and below its step; the letters are those of the equations above."""

    mean: Float
    mean0: Float
    chance: Float  # P
    chance0: Float
    rest: Float  # R
    rest0: Float


@kernel
def _split_factor(i: int, k: int, j: int, filled: Filled) -> float:
    """What products of scaled values at a split are multiplied by, for the scale of the whole span."""
    if filled.in_logs:
        return 0.0
    scale = filled.scale
    whole = scale[j * (j - 1) // 2 + i] - filled.held.shift[0]
    return math.exp(scale[k * (k - 1) // 2 + i] + scale[j * (j - 1) // 2 + k] - whole)


@kernel
def _rule_share(r: int, whole: int, a: int, c: int, scores: Float, factor: float, filled: Filled) -> float:
    """The share of rule ``r`` over the items ``a`` and ``c`` in the sum of item ``whole`` below its step."""
    value, value0 = filled.items.value, filled.items.value0
    if filled.in_logs:
        return math.exp(scores[r] + value[a] + value[c] - value0[whole])
    weights = filled.held.binary
    if weights[r] < 0.0:
        weights[r] = exponential(scores[r] - filled.held.shift[0])
    return (weights[r] * value[c]) * value[a] * factor / value0[whole]


@kernel
def _step_share(u: int, above: int, below: int, scores: Float, filled: Filled) -> float:
    """The share of step ``u`` from item ``below`` in the sum of item ``above``; that of no step if ``u`` is -1."""
    value, value0 = filled.items.value, filled.items.value0
    if filled.in_logs:
        return math.exp((scores[u] if u >= 0 else 0.0) + value0[below] - value[above])
    weight, weights = 1.0, filled.held.steps
    if u >= 0:
        if weights[u] < 0.0:
            weights[u] = exponential(scores[u])
        weight = weights[u]
    return weight * value0[below] / value[above]


@kernel
def _means(sentence: Sentence, rules: Rules, parts: Parts, costs: Parts, filled: Filled, carried: Carried) -> None:
    """From the words up: ``mean0`` and ``mean`` of every item."""
    left_pointer, parent, right = rules.left_pointer, rules.parent, rules.right
    (symbol, first, left_end, end, position), _, value0 = filled.items
    mean, mean0 = carried.mean, carried.mean0
    nothing = -np.inf if filled.in_logs else 0.0
    mean0[: end[sentence.n * (sentence.n - 1) // 2]] = 0.0
    for j in range(1, sentence.n + 1):
        mark(j, filled.items.chart, True)
        for i in range(j - 1, -1, -1):
            span, above = j * (j - 1) // 2 + i, position[i]
            x, y = parts.row_of_span[sentence.span + span], costs.row_of_span[sentence.span + span]
            scores, cost = parts.binary[x], costs.binary[y]
            hold(x, parts.binary, parts.steps, filled.held)
            if j - i == 1:
                for p in range(rules.preterminals.shape[0]):
                    item = above[rules.preterminals[p]]
                    if item >= 0:
                        mean0[item] = costs.lexical[sentence.word + i, p]
            for k in range(i + 1, j):
                left_span, here = k * (k - 1) // 2 + i, position[k]
                factor = _split_factor(i, k, j, filled)
                for a in range(first[left_span], left_end[left_span]):
                    for r in range(left_pointer[symbol[a]], left_pointer[symbol[a] + 1]):
                        c, whole = here[right[r]], above[parent[r]]
                        if c >= 0 and whole >= 0 and value0[whole] > nothing:
                            share = _rule_share(r, whole, a, c, scores, factor, filled)
                            mean0[whole] += share * (cost[r] + mean[a] + mean[c])
            for item in range(first[span], end[span]):
                mean[item] = 0.0
            for item in range(first[span], end[span]):
                if value0[item] > nothing:
                    mean[item] += _step_share(-1, item, item, parts.steps[x], filled) * mean0[item]
                    for u in range(rules.child_pointer[symbol[item]], rules.child_pointer[symbol[item] + 1]):
                        top = above[rules.steps[u, 0]]
                        if top >= 0 and parts.steps[x, u] > -np.inf:
                            share = _step_share(u, top, item, parts.steps[x], filled)
                            mean[top] += share * (costs.steps[y, u] + mean0[item])
        mark(j, filled.items.chart, False)


@kernel
def _unstep(
    span: int, x: int, y: int, i: int, rules: Rules, parts: Parts, costs: Parts, filled: Filled, carried: Carried,
    weight: float, found: Float,
) -> None:  # fmt: skip
    """``chance0`` and ``rest0`` of a span's items from those above their steps; adds the steps' covariances [U]."""
    (symbol, first, _, end, position), _, value0 = filled.items
    _, mean0, chance, chance0, rest, rest0 = carried
    nothing, above = -np.inf if filled.in_logs else 0.0, position[i]
    for item in range(first[span], end[span]):
        chance0[item], rest0[item] = 0.0, 0.0
        if not value0[item] > nothing:
            continue
        if chance[item] > 0.0:
            share = _step_share(-1, item, item, parts.steps[x], filled)
            chance0[item], rest0[item] = chance[item] * share, rest[item] * share
        for u in range(rules.child_pointer[symbol[item]], rules.child_pointer[symbol[item] + 1]):
            top = above[rules.steps[u, 0]]
            if top >= 0 and chance[top] > 0.0 and parts.steps[x, u] > -np.inf:
                share = _step_share(u, top, item, parts.steps[x], filled)
                q, left, cost = chance[top] * share, rest[top] * share, costs.steps[y, u]
                found[u] += weight * (q * (cost + mean0[item]) + left)
                chance0[item] += q
                rest0[item] += left + q * cost


@kernel
def _down(
    sentence: Sentence, top: int, rules: Rules, parts: Parts, costs: Parts, filled: Filled, carried: Carried,
    weight: float, found: Parts,
) -> None:  # fmt: skip
    """From the root, item ``top``, to the words: add the covariances of one sentence, times ``weight``."""
    left_pointer, parent, right, preterminals = rules.left_pointer, rules.parent, rules.right, rules.preterminals
    (symbol, first, left_end, end, position), _, _ = filled.items
    mean, mean0, chance, chance0, rest, rest0 = carried
    n_items = end[sentence.n * (sentence.n - 1) // 2]
    chance[:n_items], rest[:n_items] = 0.0, 0.0
    chance[top], rest[top] = 1.0, -mean[top]
    for j in range(sentence.n, 0, -1):
        mark(j, filled.items.chart, True)
        for i in range(j):
            span, above = j * (j - 1) // 2 + i, position[i]
            x, y = parts.row_of_span[sentence.span + span], costs.row_of_span[sentence.span + span]
            hold(x, parts.binary, parts.steps, filled.held)
            _unstep(span, x, y, i, rules, parts, costs, filled, carried, weight, found.steps[x])
            if j - i == 1:
                for p in range(preterminals.shape[0]):
                    item = above[preterminals[p]]
                    if item >= 0:
                        found.lexical[sentence.word + i, p] = weight * (chance0[item] * mean0[item] + rest0[item])
                continue
            scores, cost, result = parts.binary[x], costs.binary[y], found.binary[x]
            for k in range(i + 1, j):
                left_span, here = k * (k - 1) // 2 + i, position[k]
                factor = _split_factor(i, k, j, filled)
                for a in range(first[left_span], left_end[left_span]):
                    for r in range(left_pointer[symbol[a]], left_pointer[symbol[a] + 1]):
                        c, whole = here[right[r]], above[parent[r]]
                        if c >= 0 and whole >= 0 and chance0[whole] > 0.0:
                            share = _rule_share(r, whole, a, c, scores, factor, filled)
                            q, left = chance0[whole] * share, rest0[whole] * share
                            result[r] += weight * (q * (cost[r] + mean[a] + mean[c]) + left)
                            chance[a] += q
                            rest[a] += left + q * (cost[r] + mean[c])
                            chance[c] += q
                            rest[c] += left + q * (cost[r] + mean[a])
        mark(j, filled.items.chart, False)


@kernel
def covariance(
    word_offsets: Int64, span_offsets: Int64, rules: Rules, parts: Parts, costs: Parts, weights: Float,
    expected: Float, status: UInt8, found: Parts,
) -> None:  # fmt: skip
    """E[c] of S sentences, and the covariances of the cost with their parts, times ``weights``, added to ``found``.

    Parameters
    ----------
    word_offsets, span_offsets : int64[S + 1]
    rules : Rules
    parts, costs, found : Parts
        Scores, costs (in rows of their own) and covariances (in the rows of the scores).
    weights, expected : float64[S]
    status : uint8[S]
        Written: ``DONE`` or ``INFEASIBLE``.
    """
    k, items, log_items = rules.is_left.shape[0], new_inside(word_offsets, rules), new_inside(word_offsets, rules)
    scale = np.empty(items.chart.first.shape[0])
    rows = Rows(np.zeros(k), np.zeros(k), np.zeros(k, np.int32))
    log_rows = Rows(np.full(k, -np.inf), np.full(k, -np.inf), np.zeros(k, np.int32))
    held = Weights(np.full(2, -1), np.zeros(1), np.zeros(parts.binary.shape[1]), np.zeros(parts.steps.shape[1]))
    room = np.empty((6, 0))
    for s in range(word_offsets.shape[0] - 1):
        sentence = Sentence(word_offsets[s + 1] - word_offsets[s], word_offsets[s], span_offsets[s])
        items, status[s] = sums.up(sentence, rules, parts, held, items, scale, rows)
        filled = Filled(items, scale, held, False)
        if status[s] == NEEDS_LOG_SPACE:
            log_items = log_sums.up(sentence, rules, parts, log_items, log_rows)
            filled = Filled(log_items, scale, held, True)
        top = find(rules.root, sentence.n * (sentence.n - 1) // 2, filled.items.chart)
        expected[s], status[s] = 0.0, DONE if top >= 0 else INFEASIBLE
        if top < 0:
            continue
        if room.shape[1] < filled.items.value.shape[0]:
            room = np.empty((6, filled.items.value.shape[0]))
        carried = Carried(room[0], room[1], room[2], room[3], room[4], room[5])
        _means(sentence, rules, parts, costs, filled, carried)
        expected[s] = carried.mean[top]
        _down(sentence, top, rules, parts, costs, filled, carried, weights[s], found)
