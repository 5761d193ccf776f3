"""Best trees: the best one, the k best, the best over every span, and the one with the best brackets.

The best tree of each sentence (CKY), where each span only has the symbols that are possible there:

    best0[i, j, A] = max over k and A -> B C of  score + best[i, k, B] + best[k, j, C]
    best [i, j, A] = max(best0[i, j, A], max over steps A <- B of  score + best0[i, j, B])

The *chart* is a list of *items*: a symbol at a span, with its value. Items are stored span by span, those that can be a
left child first. Spans are filled column by column (j ascending, i descending), so that the right parts (k, j) of a
span all belong to the current column: ``position`` [n, K] has a row for each span of this column and gives the item of
each symbol. For a span and a split, each rule whose left child the left part can have costs one look-up in such a row.
Sums (:mod:`~loglinear.structures.tree.sums`, :mod:`~loglinear.structures.tree.log_sums`) fill their charts in the same
way.

::

    words     the  dog  barks        span (i, j) is number j (j - 1) / 2 + i:      j = 1    2    3
    i, j     0    1    2    3                                              i = 0       0    1    3
                                                                           i = 1            2    4
                                                                           i = 2                 5

The values of a span are first computed in dense rows [K]; ``active`` lists the symbols that have one. They are then
stored in the chart as items.

Letters: n words of a sentence, N spans of all, K symbols, P preterminals, R binary rules, U steps, X rows of scores, I
items.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from loglinear.arrays import Array, Float, Int32, Int64, UInt8
from loglinear.kernels import kernel
from loglinear.kernels.numbers import longest
from loglinear.structures.tree.grammar import CFGGrammar, Rules

if TYPE_CHECKING:
    from loglinear.structures.tree.structure import CFGScores


class Parts(NamedTuple):
    """A number for each part: scores, or expected parts.

    Parameters
    ----------
    lexical : float64 [words, P]
    binary, steps : float64 [X, R], float64 [X, U]
    row_of_span : int32 [N]
        The row that a span uses.
    allowed : uint8 [N or 0, 1 or K]
        0 for spans that may not be a constituent, or for symbols that a span may not have; empty if all are allowed.
    """

    lexical: Float
    binary: Float
    steps: Float
    row_of_span: Int32
    allowed: UInt8


class Sentence(NamedTuple):
    """A sentence of n words; its first word is number ``word`` of all words, its first span number ``span`` of all."""

    n: int
    word: int
    span: int


class Chart(NamedTuple):
    """The items of a sentence: which symbols its spans have.

    Parameters
    ----------
    symbol : int32 [I]
        The symbol of each item.
    first, left_end, end : int64 [spans]
        A span has the items ``first`` to ``end``; those before ``left_end`` are some rule's left child.
    position : int32 [n, K]
        The item of each symbol at the spans (i, j) of the current column j, -1 if there is none.
    """

    symbol: Int32
    first: Int64
    left_end: Int64
    end: Int64
    position: Int32


@kernel
def new_chart(word_offsets: Int64, rules: Rules, room: int) -> Chart:
    """A chart for the longest of the sentences, with room for ``room`` items."""
    n = longest(word_offsets)
    spans = np.zeros((3, n * (n + 1) // 2), np.int64)
    position = np.full((n, rules.is_left.shape[0]), np.int32(-1))
    return Chart(np.empty(room, np.int32), spans[0], spans[1], spans[2], position)


@kernel
def grown(array: Array, filled: int, more: int) -> Array:
    """The array [I, ...], with room for ``more`` after its first ``filled`` rows."""
    if filled + more <= array.shape[0]:
        return array
    longer = np.empty((2 * array.shape[0] + more, *array.shape[1:]), array.dtype)
    longer[:filled] = array[:filled]
    return longer


@kernel
def grown_chart(chart: Chart, filled: int, more: int) -> Chart:
    """The chart with room for ``more`` items."""
    symbol, first, left_end, end, position = chart
    return Chart(grown(symbol, filled, more), first, left_end, end, position)


@kernel
def mark(j: int, chart: Chart, present: bool) -> None:
    """Fill the rows of ``position`` with the items of column ``j``, or clear them."""
    symbol, first, _, end, position = chart
    for i in range(j):
        span = j * (j - 1) // 2 + i
        for item in range(first[span], end[span]):
            position[i, symbol[item]] = item if present else -1


@kernel
def find(a: int, span: int, chart: Chart) -> int:
    """The item of a symbol at a span, -1 if there is none."""
    symbol, first, _, end, _ = chart
    for item in range(first[span], end[span]):
        if symbol[item] == a:
            return item
    return -1


@kernel
def place(i: int, j: int, active: Int32, row: Array, nothing: float, is_left: UInt8, chart: Chart, filled: int) -> int:
    """Make the symbols ``active`` whose ``row`` [K] is above ``nothing`` items of a span; the number of items."""
    symbol, first, left_end, end, position = chart
    span, here = j * (j - 1) // 2 + i, position[i]
    first[span] = filled
    for wanted in range(1, -1, -1):
        for m in range(active.shape[0]):
            a = active[m]
            if is_left[a] == wanted and row[a] > nothing:
                symbol[filled] = a
                here[a] = filled
                filled += 1
        if wanted == 1:
            left_end[span] = filled
    end[span] = filled
    return filled


@kernel
def allowed_at(span: int, allowed: UInt8) -> UInt8:
    """Whether a span may have each symbol [K], or any symbol [1]; empty if nothing is ruled out."""
    return allowed[span] if allowed.shape[0] > 0 else allowed.reshape(-1)


@kernel
def forbid(active: Int32, allowed: UInt8, nothing: float, row0: Float, row: Float) -> None:
    """Copy the symbols ``active`` from ``row0`` [K] to ``row``; those not allowed become ``nothing`` in both."""
    width = allowed.shape[0]
    for m in range(active.shape[0]):
        b = active[m]
        if width > 0 and not allowed[b if width > 1 else 0]:
            row0[b] = nothing
        row[b] = row0[b]


@kernel
def push(stack: Int32, depth: int, i: int, k: int, j: int, r: int, rules: Rules) -> int:
    """Put the parts (i, k) and (k, j) of a span with rule ``r`` on the stack, the left one on top; the depth."""
    stack[depth, 0], stack[depth, 1], stack[depth, 2] = k, j, rules.right[r]
    stack[depth + 1, 0], stack[depth + 1, 1] = i, k
    stack[depth + 1, 2] = np.searchsorted(rules.left_pointer, r, side="right") - 1
    return depth + 2


class Best(NamedTuple):
    """The chart with each item's value [I], its rule (or tag) and split below the step, and the step or -1."""

    chart: Chart
    value: Float
    rule: Int32
    split: Int32
    step: Int32


class Rows(NamedTuple):
    """The best values of one span by symbol [K], below and above the step, and their back pointers."""

    best0: Float
    best: Float
    rule: Int32
    split: Int32
    step: Int32
    active: Int32


class Search(NamedTuple):
    """How wide to search: drop symbols that look worse than the best of their span by more than ``beam``.

    The values at a span (i, j) are compared with ``before[i]`` and ``after[j]`` added. Of each of these a sentence has
    rows [n + 1, K], and all sentences one after the other have [words + S, K]; without a beam (inf) there need not be
    any. The search stops once ``stop`` uint8[1] is not 0.
    """

    beam: float
    before: Float
    after: Float
    stop: UInt8


@kernel
def _combine(i: int, j: int, rules: Rules, scores: Float, items: Best, rows: Rows) -> int:
    """Fill ``best0`` of a span from its splits, with scores [R]; returns the number of active symbols."""
    left_pointer, parent, right = rules.left_pointer, rules.parent, rules.right
    (symbol, first, left_end, end, position), value = items.chart, items.value
    best0, _, back_rule, back_split, _, active = rows
    n_active = 0
    for k in range(i + 1, j):
        left_span, right_span = k * (k - 1) // 2 + i, j * (j - 1) // 2 + k
        if first[right_span] == end[right_span]:
            continue
        here = position[k]
        for a in range(first[left_span], left_end[left_span]):
            left, left_value = symbol[a], value[a]
            for r in range(left_pointer[left], left_pointer[left + 1]):
                c = here[right[r]]
                if c >= 0:
                    candidate = left_value + value[c] + scores[r]
                    p = parent[r]
                    if candidate > best0[p]:
                        if best0[p] == -np.inf:
                            active[n_active] = p
                            n_active += 1
                        best0[p] = candidate
                        back_rule[p] = r
                        back_split[p] = k
    return n_active


@kernel
def _step_up(n_active: int, rules: Rules, scores: Float, allowed: UInt8, rows: Rows) -> int:
    """Take the best step to each symbol, if one helps, with scores [U]; returns the number of active symbols."""
    child_pointer, steps = rules.child_pointer, rules.steps
    best0, best, _, _, back_step, active = rows
    width, n_all = allowed.shape[0], n_active
    forbid(active[:n_active], allowed, -np.inf, best0, best)
    for m in range(n_active):
        b = active[m]
        for u in range(child_pointer[b], child_pointer[b + 1]):
            a = steps[u, 0]
            candidate = best0[b] + scores[u]
            if candidate > best[a] and (width == 0 or allowed[a if width > 1 else 0]):
                if best[a] == -np.inf:
                    active[n_all] = a
                    n_all += 1
                best[a] = candidate
                back_step[a] = u
    return n_all


@kernel
def _keep(active: Int32, beam: float, before: Float, after: Float, best: Float) -> int:
    """Move the symbols ``active`` that are within the beam to the front, in their order; returns their number."""
    top = -np.inf
    for a in active:
        top = max(top, best[a] + before[a] + after[a])
    n_kept = 0
    for m in range(active.shape[0]):
        a = active[m]
        if best[a] + before[a] + after[a] >= top - beam:
            active[m], active[n_kept] = active[n_kept], a
            n_kept += 1
    return n_kept


@kernel
def _store(i: int, j: int, n_kept: int, n_active: int, rules: Rules, items: Best, filled: int, rows: Rows) -> int:
    """Move the first ``n_kept`` symbols of the dense rows into the chart and clear all; returns the number of items."""
    chart, value, rule, split, step = items
    best0, best, back_rule, back_split, back_step, active = rows
    begin, filled = filled, place(i, j, active[:n_kept], best, -np.inf, rules.is_left, chart, filled)
    for item in range(begin, filled):
        a = chart.symbol[item]
        u = back_step[a]
        b = a if u < 0 else rules.steps[u, 1]
        value[item], step[item], rule[item], split[item] = best[a], u, back_rule[b], back_split[b]
    for m in range(n_active):
        a = active[m]
        best0[a], best[a], back_step[a] = -np.inf, -np.inf, -1
    return filled


@kernel
def _grown_best(items: Best, filled: int, more: int) -> Best:
    """The items, with room for ``more`` after the first ``filled``."""
    chart, value, rule, split, step = items
    values = grown(value, filled, more), grown(rule, filled, more), grown(split, filled, more)
    return Best(grown_chart(chart, filled, more), *values, grown(step, filled, more))


@kernel
def _fill(sentence: Sentence, rules: Rules, parts: Parts, search: Search, items: Best, rows: Rows) -> tuple[Best, bool]:
    """The chart of one sentence, and whether it was finished; O(n^3) times the number of applicable rules."""
    lexical, binary, steps, row_of_span, allowed = parts
    best0, _, back_rule, back_split, _, active = rows
    filled = 0
    for j in range(1, sentence.n + 1):
        mark(j - 1, items.chart, False)
        for i in range(j - 1, -1, -1):
            if search.stop[0]:
                return items, False
            span = sentence.span + j * (j - 1) // 2 + i
            x, mask = row_of_span[span], allowed_at(span, allowed)
            n_active = 0
            if j - i == 1:
                tags = lexical[sentence.word + i]
                for p in range(tags.shape[0]):
                    if tags[p] > -np.inf:
                        a = rules.preterminals[p]
                        best0[a], back_rule[a], back_split[a] = tags[p], p, -1
                        active[n_active] = a
                        n_active += 1
            elif mask.shape[0] != 1 or mask[0]:
                n_active = _combine(i, j, rules, binary[x], items, rows)
            n_active = _step_up(n_active, rules, steps[x], mask, rows)
            n_kept = n_active
            if search.beam < np.inf and j - i < sentence.n:  # of the whole sentence, only the root matters
                n_kept = _keep(active[:n_active], search.beam, search.before[i], search.after[j], rows.best)
            if filled + n_kept > items.value.shape[0]:
                items = _grown_best(items, filled, n_kept)
            filled = _store(i, j, n_kept, n_active, rules, items, filled, rows)
    mark(sentence.n, items.chart, False)
    return items, True


@kernel
def _trace(n: int, rules: Rules, items: Best, labels: Int32) -> float:
    """Write the best tree's ``labels`` [n (n + 1) / 2, 3], -1 elsewhere; returns its score, or -inf."""
    chart, value, rule, split, step = items
    labels[:] = -1
    top = find(rules.root, n * (n - 1) // 2, chart)
    if top < 0:
        return -np.inf
    stack = np.empty((n + 1, 3), np.int32)
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, n, rules.root
    depth = 1
    while depth > 0:
        depth -= 1
        i, j, a = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        span = j * (j - 1) // 2 + i
        item = find(a, span, chart)
        labels[span, 0], labels[span, 1], labels[span, 2] = rule[item], split[item], step[item]
        if j - i > 1:
            depth = push(stack, depth, i, split[item], j, rule[item], rules)
    return value[top]


@kernel
def viterbi(
    word_offsets: Int64, span_offsets: Int64, rules: Rules, parts: Parts, search: Search, labels: Int32, best: Float
) -> int:
    """The best tree of each sentence; returns the number of sentences done, fewer than S only if stopped.

    ``word_offsets`` and ``span_offsets`` int64[S + 1]; writes ``labels`` int32[N, 3] and ``best`` float64[S], -1
    and -inf where a sentence has no tree.
    """
    k, room = rules.is_left.shape[0], 1024
    items = Best(
        new_chart(word_offsets, rules, room), np.empty(room), np.empty(room, np.int32), np.empty(room, np.int32),
        np.empty(room, np.int32),
    )  # fmt: skip
    rows = Rows(
        np.full(k, -np.inf), np.full(k, -np.inf), np.zeros(k, np.int32), np.zeros(k, np.int32),
        np.full(k, np.int32(-1)), np.zeros(k, np.int32),
    )  # fmt: skip
    for s in range(word_offsets.shape[0] - 1):
        n, spans = word_offsets[s + 1] - word_offsets[s], span_offsets[s]
        row = word_offsets[s] + s
        own = Search(search.beam, search.before[row : row + n + 1], search.after[row : row + n + 1], search.stop)
        items, is_finished = _fill(Sentence(n, word_offsets[s], spans), rules, parts, own, items, rows)
        if not is_finished:
            return s
        best[s] = _trace(n, rules, items, labels[spans : span_offsets[s + 1]])
    return word_offsets.shape[0] - 1


# ----------------------------------------------------------------------------------------------------------------------
# The k best trees of a sentence: every symbol at every span keeps its k best derivations.
#
# Only combinations of the x-th best left and the y-th best right part with x y <= k can be among the k best of a rule
# at a split, and those of one x come in descending order, so most are never computed. Spans are filled in the order of
# :func:`viterbi`; it takes k times its memory and at worst O(k log k) times its time.

RULE, SPLIT, LEFT_RANK, RIGHT_RANK, STEP = 0, 1, 2, 3, 4


class KBest(NamedTuple):
    """Lists of at most k derivations of each item or symbol [I or K], in descending order.

    Parameters
    ----------
    n_found : int32 [I]
        The length of each list.
    value : float64 [I, k]
    back : int32 [I, k, 5]
        Rule (or tag), split, the ranks of both parts, and the step or -1.
    """

    n_found: Int32
    value: Float
    back: Int32


@kernel
def _new_lists(n: int, most: int) -> KBest:
    return KBest(np.zeros(n, np.int32), np.empty((n, most)), np.empty((n, most, 5), np.int32))


@kernel
def _insert(values: Float, backs: Int32, n: int, value: float, r: int, k: int, x: int, y: int, u: int) -> int:
    """Insert a derivation into a list [k] in descending order, after equal ones; returns the list's new length."""
    if n == values.shape[0]:
        if value <= values[n - 1]:
            return n
        n -= 1
    place = n
    while place > 0 and values[place - 1] < value:
        values[place] = values[place - 1]
        backs[place] = backs[place - 1]
        place -= 1
    values[place] = value
    backs[place, RULE], backs[place, SPLIT], backs[place, STEP] = r, k, u
    backs[place, LEFT_RANK], backs[place, RIGHT_RANK] = x, y
    return n + 1


@kernel
def _combine_k_best(
    i: int, j: int, rules: Rules, scores: Float, chart: Chart, lists: KBest, dense: KBest, active: Int32
) -> int:
    """Fill the ``dense`` lists of a span from its splits; returns the number of active symbols."""
    left_pointer, parent, right = rules.left_pointer, rules.parent, rules.right
    (symbol, first, left_end, _, position), (count, value, _) = chart, lists
    dense_count, dense_value, dense_back = dense
    most, n_active = value.shape[1], 0
    for k in range(i + 1, j):
        left_span, here = k * (k - 1) // 2 + i, position[k]
        for a in range(first[left_span], left_end[left_span]):
            for r in range(left_pointer[symbol[a]], left_pointer[symbol[a] + 1]):
                c = here[right[r]]
                if c < 0 or scores[r] == -np.inf:
                    continue
                p = parent[r]
                if dense_count[p] == 0:
                    active[n_active] = p
                    n_active += 1
                for x in range(count[a]):
                    for y in range(min(count[c], most // (x + 1))):
                        score = value[a, x] + value[c, y] + scores[r]
                        if dense_count[p] == most and score <= dense_value[p, most - 1]:
                            break
                        dense_count[p] = _insert(dense_value[p], dense_back[p], dense_count[p], score, r, k, x, y, -1)
    return n_active


@kernel
def _step_up_k_best(
    n_active: int, rules: Rules, scores: Float, allowed: UInt8, below: KBest, above: KBest, active: Int32
) -> int:
    """Fill the lists above the steps from those below; returns the number of active symbols."""
    (count0, value0, back0), (count, value, back) = below, above
    child_pointer, steps = rules.child_pointer, rules.steps
    width, n_all = allowed.shape[0], n_active
    for m in range(n_active):
        b = active[m]
        if width > 0 and not allowed[b if width > 1 else 0]:
            count0[b] = 0
        count[b] = count0[b]
        value[b, : count0[b]] = value0[b, : count0[b]]
        back[b, : count0[b]] = back0[b, : count0[b]]
    for m in range(n_active):
        b = active[m]
        for u in range(child_pointer[b], child_pointer[b + 1]):
            a = steps[u, 0]
            if count0[b] == 0 or scores[u] == -np.inf or (width > 0 and not allowed[a if width > 1 else 0]):
                continue
            if count[a] == 0:
                active[n_all] = a
                n_all += 1
            for x in range(count0[b]):
                r, k, left, right, _ = back0[b, x]
                count[a] = _insert(value[a], back[a], count[a], value0[b, x] + scores[u], r, k, left, right, u)
    return n_all


@kernel
def _trace_k_best(n: int, rank: int, rules: Rules, chart: Chart, lists: KBest, labels: Int32) -> None:
    """Write the labels [n (n + 1) / 2, 3] of the sentence's derivation with the given rank."""
    labels[:] = -1
    stack = np.empty((n + 1, 4), np.int32)
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = 0, n, rules.root, rank
    depth = 1
    while depth > 0:
        depth -= 1
        i, j, a, x = stack[depth]
        span = j * (j - 1) // 2 + i
        back = lists.back[find(a, span, chart), x]
        labels[span, 0], labels[span, 1], labels[span, 2] = back[RULE], back[SPLIT], back[STEP]
        if j - i > 1:
            stack[depth, 3], stack[depth + 1, 3] = back[RIGHT_RANK], back[LEFT_RANK]
            depth = push(stack, depth, i, back[SPLIT], j, back[RULE], rules)


@kernel
def k_best(sentence: Sentence, rules: Rules, parts: Parts, labels: Int32, best: Float) -> int:
    """The best trees of one sentence into ``labels`` int32[k, spans, 3], ``best`` float64[k]; returns how many."""
    lexical, binary, steps, row_of_span, allowed = parts
    n, n_symbols, most = sentence.n, rules.is_left.shape[0], best.shape[0]
    active, filled = np.zeros(n_symbols, np.int32), 0
    chart, lists = new_chart(np.array([0, n]), rules, 256), _new_lists(256, most)
    below, above = _new_lists(n_symbols, most), _new_lists(n_symbols, most)
    for j in range(1, n + 1):
        mark(j - 1, chart, False)
        for i in range(j - 1, -1, -1):
            span = sentence.span + j * (j - 1) // 2 + i
            x, mask = row_of_span[span], allowed_at(span, allowed)
            n_active = 0
            if j - i == 1:
                tags = lexical[sentence.word + i]
                for p in range(tags.shape[0]):
                    a = rules.preterminals[p]
                    if tags[p] > -np.inf:
                        below.n_found[a] = _insert(below.value[a], below.back[a], 0, tags[p], p, -1, 0, 0, -1)
                        active[n_active] = a
                        n_active += 1
            elif mask.shape[0] != 1 or mask[0]:
                n_active = _combine_k_best(i, j, rules, binary[x], chart, lists, below, active)
            n_active = _step_up_k_best(n_active, rules, steps[x], mask, below, above, active)
            chart, begin = grown_chart(chart, filled, n_active), filled
            lists = KBest(
                grown(lists.n_found, filled, n_active), grown(lists.value, filled, n_active), grown(lists.back, filled,
                n_active)
            )  # fmt: skip
            filled = place(i, j, active[:n_active], above.n_found, 0.0, rules.is_left, chart, filled)
            for item in range(begin, filled):
                a = chart.symbol[item]
                lists.n_found[item], lists.value[item], lists.back[item] = (
                    above.n_found[a],
                    above.value[a],
                    above.back[a],
                )
            for m in range(n_active):
                below.n_found[active[m]], above.n_found[active[m]] = 0, 0
    top = find(rules.root, n * (n - 1) // 2, chart)
    if top < 0:
        return 0
    for rank in range(lists.n_found[top]):
        best[rank] = lists.value[top, rank]
        _trace_k_best(n, rank, rules, chart, lists, labels[rank])
    return lists.n_found[top]


# ----------------------------------------------------------------------------------------------------------------------
# The best score of every symbol over every span, whether or not it is part of a complete tree.
#
#     chart0[i, j, A] = max over k and A -> B C of  binary(A -> B C at (i, j)) + chart[i, k, B] + chart[k, j, C]
#     chart [i, j, A] = max of chart0[i, j, A] and, over steps A <- B, step(A <- B at (i, j)) + chart0[i, j, B]
#
# It is used to learn from wrong edges; :func:`viterbi` finds best trees faster.


@kernel
def _fill_chart(n: int, rules: Rules, parts: Parts, chart: Float) -> None:
    """Fill the ``chart`` [spans, K] of one sentence of ``n`` words, which must be -inf before."""
    left_pointer, parent, right, child_pointer, moves, _, preterminals, _ = rules
    lexical, binary, steps, row_of_span, _ = parts
    n_symbols = chart.shape[1]
    active = np.empty((chart.shape[0], n_symbols), dtype=np.int32)
    n_active = np.zeros(chart.shape[0], dtype=np.int64)
    bottom = np.empty(n_symbols)
    for j in range(1, n + 1):
        for i in range(j - 1, -1, -1):
            span = j * (j - 1) // 2 + i
            here, row = chart[span], row_of_span[span]
            if j - i == 1:
                for p in range(preterminals.shape[0]):
                    here[preterminals[p]] = lexical[i, p]
            for k in range(i + 1, j):
                one, other = k * (k - 1) // 2 + i, j * (j - 1) // 2 + k
                before, after = chart[one], chart[other]
                for a in range(n_active[one]):
                    left = active[one, a]
                    for r in range(left_pointer[left], left_pointer[left + 1]):
                        value = before[left] + after[right[r]] + binary[row, r]
                        if value > here[parent[r]]:
                            here[parent[r]] = value
            for a in range(n_symbols):
                bottom[a] = here[a]
            for a in range(n_symbols):
                if bottom[a] > -np.inf:
                    for u in range(child_pointer[a], child_pointer[a + 1]):
                        value = bottom[a] + steps[row, u]
                        if value > here[moves[u, 0]]:
                            here[moves[u, 0]] = value
            for a in range(n_symbols):
                if here[a] > -np.inf:
                    active[span, n_active[span]] = a
                    n_active[span] += 1


def best_chart(grammar: CFGGrammar, length: int, scores: CFGScores) -> Float:
    """The chart [N, K] of one sentence of ``length`` words, -inf where a symbol is not possible."""
    chart = np.full((length * (length + 1) // 2, grammar.n_symbols), -np.inf)
    lexical, binary, steps = (np.ascontiguousarray(array) for array in (scores.lexical, scores.binary, scores.steps))
    parts = Parts(lexical, binary, steps, scores.row_of_span, np.empty((0, 1), np.uint8))
    _fill_chart(length, grammar.rules, parts, chart)
    return chart


# ----------------------------------------------------------------------------------------------------------------------
# The tree whose brackets are most likely to be correct, rather than the most probable tree.
#
# A grammar with annotated labels spreads the probability of a bracket over many derivations, and the best derivation
# may be a poor guide. Let q(i, j, L) be the expected number of times that the span (i, j) has the label L, without its
# annotation. Take the tree that maximises
#
#     sum over its brackets (i, j, L) of  q(i, j, L) - t
#
# (Goodman 1996, *Parsing algorithms and metrics*, with a price t for each bracket). Brackets that are less likely than
# t lower the sum, so a span gets all labels with q > t. The best set of spans is found in O(n^3):
#
#     best(i, j) = sum over L of max(0, q(i, j, L) - t)  +  max over k of  best(i, k) + best(k, j)
#
# For the greatest expected F1 the price is half that F1 (Lipton, Elkan and Narayanaswamy 2014). The grammar need
# not generate this tree.


class BracketLabels(NamedTuple):
    """The labels, L in all, of the brackets that a grammar's symbols and steps produce.

    Attributes
    ----------
    n_labels : int
        L.
    label_of : int32[K]
        The label of a symbol, -1 if it produces no bracket.
    step_pointer, step_labels : int64[U + 1], int32[...]
        The labels of a step: those of its symbols above the child.
    """

    n_labels: int
    label_of: Int32
    step_pointer: Int64
    step_labels: Int32


@kernel
def best_brackets(n: int, gain: Float, best: Float, split: Int32) -> None:
    """Fill ``best`` float64[N] and ``split`` int32[N] of the spans of n words from the ``gain`` float64[N] of each."""
    for j in range(1, n + 1):
        for i in range(j - 1, -1, -1):
            span = j * (j - 1) // 2 + i
            most, where = 0.0, -1
            for k in range(i + 1, j):
                value = best[k * (k - 1) // 2 + i] + best[j * (j - 1) // 2 + k]
                if where < 0 or value > most:
                    most, where = value, k
            best[span] = gain[span] + most
            split[span] = where


def bracketing(n: int, gain: Float) -> Int32:
    """The split points int32[N] of the binary tree over n words whose spans have the greatest sum of ``gain`` [N]."""
    best, split = np.empty(len(gain)), np.empty(len(gain), dtype=np.int32)
    best_brackets(n, np.ascontiguousarray(gain, dtype=np.float64), best, split)
    return split
