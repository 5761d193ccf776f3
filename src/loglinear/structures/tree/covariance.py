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
probabilities, and for sentences where these could underflow those of log space, whose ``scale`` is None. Kernels are
compiled for each of both.
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
    """The filled chart of one sentence, and exponentials of the scores for scaled values."""

    items: Inside
    held: Weights


class Carried(NamedTuple):
    """What each item carries [I], above and below its step; the letters are those of the equations above."""

    mean: Float
    mean0: Float
    chance: Float  # P
    chance0: Float
    rest: Float  # R
    rest0: Float


class Row(NamedTuple):
    """Numbers of the symbols [K] of one span below their steps; ``whole`` is zero, or -inf, for those it has not."""

    whole: Float  # 1 / inside0 or, in log space, inside0
    mean0: Float
    chance0: Float
    rest0: Float


@kernel
def _nothing(scale: Float | None) -> float:
    """The value of what has no derivation."""
    return -np.inf if scale is None else 0.0


@kernel
def _split_factor(i: int, k: int, j: int, held: Weights, scale: Float | None) -> float:
    """What products of scaled values at a split are multiplied by, for the scale of the whole span."""
    if scale is None:
        return 0.0
    whole = scale[j * (j - 1) // 2 + i] - held.shift[0]
    return math.exp(scale[k * (k - 1) // 2 + i] + scale[j * (j - 1) // 2 + k] - whole)


@kernel
def _rule_share(
    r: int, left: float, right: float, whole: float, scores: Float, held: Weights, scale: Float | None
) -> float:
    """The share of rule ``r`` over parts of these values in the sum of its parent; ``left`` has the split's factor."""
    if scale is None:
        return math.exp(scores[r] + left + right - whole)
    weights = held.binary
    if weights[r] < 0.0:
        weights[r] = exponential(scores[r] - held.shift[0])
    return (weights[r] * right) * left * whole


@kernel
def _step_share(u: int, above: float, below: float, scores: Float, held: Weights, scale: Float | None) -> float:
    """The share of step ``u`` from a symbol's sum ``below`` in the sum ``above``; that of no step if ``u`` is -1."""
    if scale is None:
        return math.exp((scores[u] if u >= 0 else 0.0) + below - above)
    weight, weights = 1.0, held.steps
    if u >= 0:
        if weights[u] < 0.0:
            weights[u] = exponential(scores[u])
        weight = weights[u]
    return weight * below / above


@kernel
def _open(span: int, filled: Filled, carried: Carried, scale: Float | None, row: Row) -> None:
    """Spread what a span's items have into the dense row."""
    (symbol, first, _, end, _), _, value0 = filled.items
    for item in range(first[span], end[span]):
        a = symbol[item]
        if value0[item] > _nothing(scale):
            row.whole[a] = value0[item] if scale is None else 1.0 / value0[item]
            row.chance0[a], row.rest0[a], row.mean0[a] = carried.chance0[item], carried.rest0[item], 0.0


@kernel
def _close(span: int, filled: Filled, scale: Float | None, row: Row) -> None:
    """Clear the row of a span."""
    symbol, first, _, end, _ = filled.items.chart
    for item in range(first[span], end[span]):
        row.whole[symbol[item]], row.chance0[symbol[item]] = _nothing(scale), 0.0


@kernel
def _combine_means(
    i: int, j: int, rules: Rules, scores: Float, cost: Float, filled: Filled, mean: Float, scale: Float | None, row: Row
) -> None:
    """Sum the expected costs of a span's splits into ``row.mean0``."""
    left_pointer, parent, right = rules.left_pointer, rules.parent, rules.right
    (symbol, first, left_end, _, position), value, _ = filled.items
    whole, mean0, nothing = row.whole, row.mean0, _nothing(scale)
    for k in range(i + 1, j):
        left_span, here = k * (k - 1) // 2 + i, position[k]
        factor = _split_factor(i, k, j, filled.held, scale)
        for a in range(first[left_span], left_end[left_span]):
            left_mean = mean[a]
            left_value = value[a] if scale is None else value[a] * factor
            for r in range(left_pointer[symbol[a]], left_pointer[symbol[a] + 1]):
                c = here[right[r]]
                if c >= 0:
                    p = parent[r]
                    if whole[p] > nothing:
                        share = _rule_share(r, left_value, value[c], whole[p], scores, filled.held, scale)
                        mean0[p] += share * (cost[r] + left_mean + mean[c])


@kernel
def _means(
    sentence: Sentence, rules: Rules, parts: Parts, costs: Parts, filled: Filled, scale: Float | None,
    carried: Carried, row: Row,
) -> None:  # fmt: skip
    """From the words up: ``mean0`` and ``mean`` of every item."""
    (symbol, first, _, end, position), value, value0 = filled.items
    mean, mean0, held, nothing = carried.mean, carried.mean0, filled.held, _nothing(scale)
    for j in range(1, sentence.n + 1):
        mark(j, filled.items.chart, True)
        for i in range(j - 1, -1, -1):
            span, above = j * (j - 1) // 2 + i, position[i]
            x, y = parts.row_of_span[sentence.span + span], costs.row_of_span[sentence.span + span]
            hold(x, parts.binary, parts.steps, held)
            if j - i == 1:
                for p in range(rules.preterminals.shape[0]):
                    item = above[rules.preterminals[p]]
                    if item >= 0:
                        mean0[item] = costs.lexical[sentence.word + i, p]
            else:
                _open(span, filled, carried, scale, row)
                _combine_means(i, j, rules, parts.binary[x], costs.binary[y], filled, mean, scale, row)
                for item in range(first[span], end[span]):
                    mean0[item] = row.mean0[symbol[item]]
                _close(span, filled, scale, row)
            for item in range(first[span], end[span]):
                mean[item] = 0.0
            for item in range(first[span], end[span]):
                if value0[item] > nothing:
                    scores = parts.steps[x]
                    mean[item] += _step_share(-1, value[item], value0[item], scores, held, scale) * mean0[item]
                    for u in range(rules.child_pointer[symbol[item]], rules.child_pointer[symbol[item] + 1]):
                        top = above[rules.steps[u, 0]]
                        if top >= 0 and scores[u] > -np.inf:
                            share = _step_share(u, value[top], value0[item], scores, held, scale)
                            mean[top] += share * (costs.steps[y, u] + mean0[item])
        mark(j, filled.items.chart, False)


@kernel
def _unstep(
    span: int, i: int, rules: Rules, scores: Float, costs: Float, filled: Filled, scale: Float | None, carried: Carried,
    weight: float, found: Float,
) -> None:  # fmt: skip
    """``chance0`` and ``rest0`` of a span's items from those above their steps; adds the steps' covariances [U]."""
    (symbol, first, _, end, position), value, value0 = filled.items
    _, mean0, chance, chance0, rest, rest0 = carried
    held, above = filled.held, position[i]
    for item in range(first[span], end[span]):
        chance0[item], rest0[item] = 0.0, 0.0
        if not value0[item] > _nothing(scale):
            continue
        if chance[item] > 0.0:
            share = _step_share(-1, value[item], value0[item], scores, held, scale)
            chance0[item], rest0[item] = chance[item] * share, rest[item] * share
        for u in range(rules.child_pointer[symbol[item]], rules.child_pointer[symbol[item] + 1]):
            top = above[rules.steps[u, 0]]
            if top >= 0 and chance[top] > 0.0 and scores[u] > -np.inf:
                share = _step_share(u, value[top], value0[item], scores, held, scale)
                q, left = chance[top] * share, rest[top] * share
                found[u] += weight * (q * (costs[u] + mean0[item]) + left)
                chance0[item] += q
                rest0[item] += left + q * costs[u]


@kernel
def _share_out(
    i: int, j: int, rules: Rules, scores: Float, cost: Float, filled: Filled, scale: Float | None, carried: Carried,
    weight: float, row: Row, found: Float,
) -> None:  # fmt: skip
    """Pass the chances and rests of a span's symbols to its parts, and add the rules' covariances [R]."""
    left_pointer, parent, right = rules.left_pointer, rules.parent, rules.right
    (symbol, first, left_end, _, position), value, _ = filled.items
    mean, _, chance, _, rest, _ = carried
    whole, _, chance0, rest0 = row
    for k in range(i + 1, j):
        left_span, here = k * (k - 1) // 2 + i, position[k]
        factor = _split_factor(i, k, j, filled.held, scale)
        for a in range(first[left_span], left_end[left_span]):
            left_mean, to_left, rest_of_left = mean[a], 0.0, 0.0
            left_value = value[a] if scale is None else value[a] * factor
            for r in range(left_pointer[symbol[a]], left_pointer[symbol[a] + 1]):
                p = parent[r]
                if chance0[p] > 0.0:
                    c = here[right[r]]
                    if c >= 0:
                        share = _rule_share(r, left_value, value[c], whole[p], scores, filled.held, scale)
                        q = chance0[p] * share
                        known = rest0[p] * share + q * cost[r]  # of the rule and of what is not below it
                        by_left, by_right = q * left_mean, q * mean[c]
                        found[r] += weight * (known + by_left + by_right)
                        to_left += q
                        rest_of_left += known + by_right
                        chance[c] += q
                        rest[c] += known + by_left
            chance[a] += to_left
            rest[a] += rest_of_left


@kernel
def _down(
    sentence: Sentence, top: int, rules: Rules, parts: Parts, costs: Parts, filled: Filled, scale: Float | None,
    carried: Carried, weight: float, row: Row, found: Parts,
) -> None:  # fmt: skip
    """From the root, item ``top``, to the words: add the covariances of one sentence, times ``weight``."""
    (_, _, _, end, position), _, _ = filled.items
    mean, mean0, chance, chance0, rest, rest0 = carried
    n_items = end[sentence.n * (sentence.n - 1) // 2]
    chance[:n_items], rest[:n_items] = 0.0, 0.0
    chance[top], rest[top] = 1.0, -mean[top]
    for j in range(sentence.n, 0, -1):
        mark(j, filled.items.chart, True)
        for i in range(j):
            span = j * (j - 1) // 2 + i
            x, y = parts.row_of_span[sentence.span + span], costs.row_of_span[sentence.span + span]
            hold(x, parts.binary, parts.steps, filled.held)
            _unstep(span, i, rules, parts.steps[x], costs.steps[y], filled, scale, carried, weight, found.steps[x])
            if j - i > 1:
                _open(span, filled, carried, scale, row)
                _share_out(
                    i, j, rules, parts.binary[x], costs.binary[y], filled, scale, carried, weight, row, found.binary[x]
                )
                _close(span, filled, scale, row)
                continue
            for p in range(rules.preterminals.shape[0]):
                item = position[i, rules.preterminals[p]]
                if item >= 0:
                    found.lexical[sentence.word + i, p] = weight * (chance0[item] * mean0[item] + rest0[item])
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
    row = Row(np.zeros(k), np.zeros(k), np.zeros(k), np.zeros(k))
    log_row = Row(np.full(k, -np.inf), np.zeros(k), np.zeros(k), np.zeros(k))
    room = np.empty((6, 0))
    for s in range(word_offsets.shape[0] - 1):
        sentence = Sentence(word_offsets[s + 1] - word_offsets[s], word_offsets[s], span_offsets[s])
        items, status[s] = sums.up(sentence, rules, parts, held, items, scale, rows)
        in_logs = status[s] == NEEDS_LOG_SPACE
        if in_logs:
            log_items = log_sums.up(sentence, rules, parts, log_items, log_rows)
        filled = Filled(log_items if in_logs else items, held)
        top = find(rules.root, sentence.n * (sentence.n - 1) // 2, filled.items.chart)
        expected[s], status[s] = 0.0, DONE if top >= 0 else INFEASIBLE
        if top < 0:
            continue
        if room.shape[1] < filled.items.value.shape[0]:
            room = np.zeros((6, filled.items.value.shape[0]))
        carried = Carried(room[0], room[1], room[2], room[3], room[4], room[5])
        if in_logs:
            _means(sentence, rules, parts, costs, filled, None, carried, log_row)
            _down(sentence, top, rules, parts, costs, filled, None, carried, weights[s], log_row, found)
        else:
            _means(sentence, rules, parts, costs, filled, scale, carried, row)
            _down(sentence, top, rules, parts, costs, filled, scale, carried, weights[s], row, found)
        expected[s] = carried.mean[top]
