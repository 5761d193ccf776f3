"""Best trees: the best one, the k best, the best over every span, and the one with the best brackets.

The best tree of each sentence (CKY), over the symbols that each span can have and no others.

    best0[i, j, A] = max over k and A -> B C of  score + best[i, k, B] + best[k, j, C]
    best [i, j, A] = max(best0[i, j, A], max over steps A <- B of  score + best0[i, j, B])

The chart is a *pool* of items, a symbol at a span with its value and where it came from, one span after the other.
Spans are filled column by column (j ascending, i descending), so that all right parts (k, j) of a span belong to the
column at hand: their items are found through ``position`` [n, K], a row a span of this column. A span and a split cost
the number of rules whose left child the left part can have; each is one look into such a row of int32.

Letters: n words of a sentence, K symbols, P preterminals, R binary rules, U steps, X rows of scores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from loglinear.arrays import Float, Int32, Int64, UInt8
from loglinear.kernels import kernel
from loglinear.structures.tree.grammar import CFGGrammar, Rules

if TYPE_CHECKING:
    from loglinear.structures.tree.structure import CFGScores


Parts = tuple[Float, Float, Float, Int32, UInt8]
Pool = tuple[Int32, Float, Int32, Int32, Int32]
Places = tuple[Int64, Int64, Int64]
Dense = tuple[Float, Float, Int32, Int32, Int32, Int32]


@kernel
def _grown(pool: Pool, filled: int, more: int) -> Pool:
    """The pool, with room for ``more`` items after the first ``filled``."""
    symbol, value, rule, split, step = pool
    if filled + more <= symbol.shape[0]:
        return pool
    size = 2 * symbol.shape[0] + more
    new_symbol, new_value = np.empty(size, np.int32), np.empty(size)
    new_rule, new_split, new_step = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int32)
    new_symbol[:filled], new_value[:filled] = symbol[:filled], value[:filled]
    new_rule[:filled], new_split[:filled], new_step[:filled] = rule[:filled], split[:filled], step[:filled]
    return new_symbol, new_value, new_rule, new_split, new_step


@kernel
def _combine(
    i: int, j: int, rules: Rules, scores: Float, pool: Pool, places: Places, position: Int32, dense: Dense
) -> int:
    """Fill the dense row ``best0`` of a span from its splits; returns how many symbols were met, listed in ``met``."""
    left_pointer, parent, right, _, _, _, _ = rules
    symbol, value, _, _, _ = pool
    first, left_end, end = places
    best0, _, back_rule, back_split, _, met = dense
    n_met = 0
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
                            met[n_met] = p
                            n_met += 1
                        best0[p] = candidate
                        back_rule[p] = r
                        back_split[p] = k
    return n_met


@kernel
def _step_up(n_met: int, rules: Rules, scores: Float, allowed: UInt8, dense: Dense) -> int:
    """Make the best step, if any pays, to each symbol; returns how many symbols are met now."""
    child_pointer, step_parent = rules[3], rules[4]
    best0, best, _, _, back_step, met = dense
    width = allowed.shape[0]
    for m in range(n_met):
        b = met[m]
        if width > 0 and not allowed[b if width > 1 else 0]:
            best0[b] = -np.inf
        best[b] = best0[b]
    n_all = n_met
    for m in range(n_met):
        b = met[m]
        for u in range(child_pointer[b], child_pointer[b + 1]):
            a = step_parent[u]
            candidate = best0[b] + scores[u]
            if candidate > best[a] and (width == 0 or allowed[a if width > 1 else 0]):
                if best[a] == -np.inf:
                    met[n_all] = a
                    n_all += 1
                best[a] = candidate
                back_step[a] = u
    return n_all


@kernel
def _store(
    span: int, n_met: int, least: float, prior: Float, rules: Rules, moves: Int32, pool: Pool, filled: int,
    places: Places, row: Int32, dense: Dense,
) -> int:  # fmt: skip
    """Move the dense rows into the pool, left children first, and clear them; returns how far the pool is filled.

    Symbols whose value plus ``prior`` lies below ``least`` are dropped. An item's rule is that below its step.
    """
    is_left = rules[5]
    symbol, value, rule, split, step = pool
    first, left_end, end = places
    best0, best, back_rule, back_split, back_step, met = dense
    first[span] = filled
    for wanted in range(1, -1, -1):
        for m in range(n_met):
            a = met[m]
            if is_left[a] != wanted or best[a] == -np.inf or (least > -np.inf and best[a] + prior[a] < least):
                continue
            b = a if back_step[a] < 0 else moves[back_step[a], 1]
            symbol[filled], value[filled], step[filled] = a, best[a], back_step[a]
            rule[filled], split[filled] = back_rule[b], back_split[b]
            row[a] = filled
            filled += 1
        if wanted == 1:
            left_end[span] = filled
    end[span] = filled
    for m in range(n_met):
        a = met[m]
        best0[a], best[a], back_step[a] = -np.inf, -np.inf, -1
    return filled


@kernel
def _least(n_met: int, beam: float, prior: Float, dense: Dense) -> float:
    """Below what a symbol's value plus prior is dropped."""
    if beam == np.inf:
        return -np.inf
    best, met, top = dense[1], dense[5], -np.inf
    for m in range(n_met):
        top = max(top, best[met[m]] + prior[met[m]])
    return top - beam


@kernel
def _forget(j: int, pool: Pool, places: Places, position: Int32) -> None:
    """Clear the rows of ``position`` that column ``j`` has filled."""
    symbol, first, end = pool[0], places[0], places[2]
    for i in range(j):
        span = j * (j - 1) // 2 + i
        for item in range(first[span], end[span]):
            position[i, symbol[item]] = -1


@kernel
def _fill(
    n: int, rules: Rules, moves: Int32, parts: Parts, words: int, spans: int, beam: float, prior: Float, stop: UInt8,
    pool: Pool, places: Places, position: Int32, dense: Dense,
) -> tuple[Pool, int]:  # fmt: skip
    """The chart of one sentence, O(n^3) times the rules met: the pool and how far it is filled, -1 if stopped."""
    lexical, binary, steps, row_of_span, allowed = parts
    preterminals = rules[6]
    best0, _, back_rule, back_split, _, met = dense
    no_mask = allowed[0:0].reshape(-1) if allowed.shape[0] == 0 else allowed[0]
    filled = 0
    for j in range(1, n + 1):
        _forget(j - 1, pool, places, position)
        for i in range(j - 1, -1, -1):
            if stop[0]:
                return pool, -1
            span = j * (j - 1) // 2 + i
            x = row_of_span[spans + span]
            mask = no_mask if allowed.shape[0] == 0 else allowed[spans + span]
            n_met = 0
            if j - i == 1:
                for p in range(preterminals.shape[0]):
                    if lexical[words + i, p] > -np.inf:
                        a = preterminals[p]
                        best0[a], back_rule[a], back_split[a] = lexical[words + i, p], p, -1
                        met[n_met] = a
                        n_met += 1
            elif mask.shape[0] != 1 or mask[0]:
                n_met = _combine(i, j, rules, binary[x], pool, places, position, dense)
            n_met = _step_up(n_met, rules, steps[x], mask, dense)
            pool = _grown(pool, filled, n_met)
            least = _least(n_met, beam, prior, dense)
            filled = _store(span, n_met, least, prior, rules, moves, pool, filled, places, position[i], dense)
    return pool, filled


@kernel
def _find(a: int, span: int, pool: Pool, places: Places) -> int:
    """The item of a symbol at a span, -1 if there is none."""
    symbol, first, end = pool[0], places[0], places[2]
    for item in range(first[span], end[span]):
        if symbol[item] == a:
            return item
    return -1


@kernel
def _trace(n: int, root: int, rules: Rules, pool: Pool, places: Places, labels: Int32) -> float:
    """Write the best tree's ``labels`` [n (n + 1) / 2, 3], -1 elsewhere; returns its score, -inf if there is none."""
    value, rule, split, step = pool[1], pool[2], pool[3], pool[4]
    left_pointer, right = rules[0], rules[2]
    labels[:] = -1
    top = _find(root, n * (n - 1) // 2, pool, places)
    if top < 0:
        return -np.inf
    stack = np.empty((n + 1, 3), np.int32)
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, n, root
    depth = 1
    while depth > 0:
        depth -= 1
        i, j, a = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        span = j * (j - 1) // 2 + i
        item = _find(a, span, pool, places)
        r, k = rule[item], split[item]
        labels[span, 0], labels[span, 1], labels[span, 2] = r, k, step[item]
        if j - i > 1:
            left = np.searchsorted(left_pointer, r, side="right") - 1
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = k, j, right[r]
            stack[depth + 1, 0], stack[depth + 1, 1], stack[depth + 1, 2] = i, k, left
            depth += 2
    return value[top]


@kernel
def viterbi(
    word_offsets: Int64, span_offsets: Int64, rules: Rules, moves: Int32, root: int, parts: Parts, beam: float,
    prior: Float, stop: UInt8, labels: Int32, best: Float,
) -> int:  # fmt: skip
    """The best tree of each sentence; returns the number of sentences done, fewer than S only if stopped.

    Parameters
    ----------
    word_offsets, span_offsets : int64[S + 1]
    rules, moves : the grammar's arrays, and its steps int32[U, 2]
    root : int
    parts : lexical [words, P], binary [X, R], steps [X, U], row_of_span int32[N], allowed uint8[N or 0, 1 or K]
    beam : float
        Symbols of a span that are worse than its best by more than this are dropped; inf: none are.
    prior : float64[K]
        Added to values before they are compared with ``beam``.
    stop : uint8[1]
        Looked at before each span: the kernel gives up once it is not 0.
    labels : int32[N, 3], best : float64[S]
        Written; -1 and -inf where a sentence has no tree.
    """
    n_symbols, longest = rules[0].shape[0] - 1, 0
    for s in range(word_offsets.shape[0] - 1):
        longest = max(longest, word_offsets[s + 1] - word_offsets[s])
    n_spans = longest * (longest + 1) // 2
    places = (np.zeros(n_spans, np.int64), np.zeros(n_spans, np.int64), np.zeros(n_spans, np.int64))
    position = np.full((longest, n_symbols), np.int32(-1))
    room = 1024
    pool = (
        np.empty(room, np.int32), np.empty(room), np.empty(room, np.int32), np.empty(room, np.int32),
        np.empty(room, np.int32),
    )  # fmt: skip
    dense = (
        np.full(n_symbols, -np.inf), np.full(n_symbols, -np.inf), np.zeros(n_symbols, np.int32),
        np.zeros(n_symbols, np.int32), np.full(n_symbols, np.int32(-1)), np.zeros(n_symbols, np.int32),
    )  # fmt: skip
    for s in range(word_offsets.shape[0] - 1):
        n, words, spans = word_offsets[s + 1] - word_offsets[s], word_offsets[s], span_offsets[s]
        pool, filled = _fill(n, rules, moves, parts, words, spans, beam, prior, stop, pool, places, position, dense)
        if filled < 0:
            return s
        _forget(n, pool, places, position)
        best[s] = _trace(n, root, rules, pool, places, labels[spans : spans + n * (n + 1) // 2])
    return word_offsets.shape[0] - 1


# ----------------------------------------------------------------------------------------------------------------------
# The k best trees of a sentence: every symbol at every span keeps its k best derivations.
#
# Only combinations of the x-th best left and the y-th best right part with x y <= k can be among the k best of a rule
# at a split, and those of one x come in descending order, so that most are never looked at. k times the memory of
# :func:`viterbi`, whose order of spans this has; O(k log k) times its time at worst.

Lists = tuple[Int32, Float, Int32]

RULE, SPLIT, LEFT_RANK, RIGHT_RANK, STEP = 0, 1, 2, 3, 4


@kernel
def _insert(values: Float, backs: Int32, n: int, value: float, r: int, k: int, x: int, y: int, u: int) -> int:
    """Put a derivation into a list [k] that is in descending order, after its equals; returns the list's length."""
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
    i: int, j: int, rules: Rules, scores: Float, symbol: Int32, lists: Lists, places: Places, position: Int32,
    dense: Lists, met: Int32,
) -> int:  # fmt: skip
    """Fill the ``dense`` lists of a span from its splits; returns how many symbols were met."""
    left_pointer, parent, right, _, _, _, _ = rules
    count, value, _ = lists
    first, left_end, _ = places
    dense_count, dense_value, dense_back = dense
    most, n_met = value.shape[1], 0
    for k in range(i + 1, j):
        left_span, here = k * (k - 1) // 2 + i, position[k]
        for a in range(first[left_span], left_end[left_span]):
            for r in range(left_pointer[symbol[a]], left_pointer[symbol[a] + 1]):
                c = here[right[r]]
                if c < 0 or scores[r] == -np.inf:
                    continue
                p = parent[r]
                if dense_count[p] == 0:
                    met[n_met] = p
                    n_met += 1
                for x in range(count[a]):
                    for y in range(min(count[c], most // (x + 1))):
                        score = value[a, x] + value[c, y] + scores[r]
                        if dense_count[p] == most and score <= dense_value[p, most - 1]:
                            break
                        dense_count[p] = _insert(dense_value[p], dense_back[p], dense_count[p], score, r, k, x, y, -1)
    return n_met


@kernel
def _step_up_k_best(
    n_met: int, rules: Rules, scores: Float, allowed: UInt8, dense0: Lists, dense: Lists, met: Int32
) -> int:
    """The lists above the steps from those below; returns how many symbols are met now."""
    child_pointer, step_parent = rules[3], rules[4]
    count0, value0, back0 = dense0
    count, value, back = dense
    width, n_all = allowed.shape[0], n_met
    for m in range(n_met):
        b = met[m]
        if width > 0 and not allowed[b if width > 1 else 0]:
            count0[b] = 0
        count[b] = count0[b]
        value[b, : count0[b]] = value0[b, : count0[b]]
        back[b, : count0[b]] = back0[b, : count0[b]]
    for m in range(n_met):
        b = met[m]
        for u in range(child_pointer[b], child_pointer[b + 1]):
            a = step_parent[u]
            if count0[b] == 0 or scores[u] == -np.inf or (width > 0 and not allowed[a if width > 1 else 0]):
                continue
            if count[a] == 0:
                met[n_all] = a
                n_all += 1
            for x in range(count0[b]):
                old = back0[b, x]
                count[a] = _insert(
                    value[a], back[a], count[a], value0[b, x] + scores[u], old[RULE], old[SPLIT], old[LEFT_RANK],
                    old[RIGHT_RANK], u,
                )  # fmt: skip
    return n_all


@kernel
def _trace_k_best(
    n: int, root: int, rank: int, rules: Rules, symbol: Int32, lists: Lists, places: Places, labels: Int32
) -> None:
    """Write the labels [n (n + 1) / 2, 3] of the sentence's derivation of a rank."""
    left_pointer, right = rules[0], rules[2]
    first, _, end = places
    labels[:] = -1
    stack = np.empty((n + 1, 4), np.int32)
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = 0, n, root, rank
    depth = 1
    while depth > 0:
        depth -= 1
        i, j, a, x = stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3]
        span = j * (j - 1) // 2 + i
        item = first[span]
        while symbol[item] != a and item < end[span] - 1:
            item += 1
        back = lists[2][item, x]
        labels[span, 0], labels[span, 1], labels[span, 2] = back[RULE], back[SPLIT], back[STEP]
        if j - i > 1:
            r, k = back[RULE], back[SPLIT]
            stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = k, j, right[r], back[RIGHT_RANK]
            stack[depth + 1, 0], stack[depth + 1, 1], stack[depth + 1, 3] = i, k, back[LEFT_RANK]
            stack[depth + 1, 2] = np.searchsorted(left_pointer, r, side="right") - 1
            depth += 2


@kernel
def k_best(n: int, rules: Rules, root: int, parts: Parts, words: int, spans: int, labels: Int32, best: Float) -> int:
    """The trees of one sentence, which begins at ``words`` and ``spans``, best first; returns how many there are.

    Parameters
    ----------
    n : int
        Words.
    rules, root, parts
        As for :func:`viterbi`.
    labels : int32[k, n (n + 1) / 2, 3], best : float64[k]
        Written as far as there are trees.
    """
    lexical, binary, steps, row_of_span, allowed = parts
    is_left, preterminals = rules[5], rules[6]
    n_symbols, most = rules[0].shape[0] - 1, best.shape[0]
    n_spans = n * (n + 1) // 2
    first, left_end, end = np.zeros(n_spans, np.int64), np.zeros(n_spans, np.int64), np.zeros(n_spans, np.int64)
    places = (first, left_end, end)
    position = np.full((n, n_symbols), np.int32(-1))
    met = np.zeros(n_symbols, np.int32)
    size, filled = 256, 0
    symbol = np.empty(size, np.int32)
    lists = (np.empty(size, np.int32), np.empty((size, most)), np.empty((size, most, 5), np.int32))
    dense0 = (np.zeros(n_symbols, np.int32), np.empty((n_symbols, most)), np.empty((n_symbols, most, 5), np.int32))
    dense = (np.zeros(n_symbols, np.int32), np.empty((n_symbols, most)), np.empty((n_symbols, most, 5), np.int32))
    no_mask = allowed[0:0].reshape(-1) if allowed.shape[0] == 0 else allowed[0]
    for j in range(1, n + 1):
        position[:] = -1
        for i in range(j - 1, -1, -1):
            span = j * (j - 1) // 2 + i
            x, mask = row_of_span[spans + span], no_mask if allowed.shape[0] == 0 else allowed[spans + span]
            n_met = 0
            if j - i == 1:
                for p in range(preterminals.shape[0]):
                    a, score = preterminals[p], lexical[words + i, p]
                    if score > -np.inf:
                        dense0[0][a] = _insert(dense0[1][a], dense0[2][a], 0, score, p, -1, 0, 0, -1)
                        met[n_met] = a
                        n_met += 1
            elif mask.shape[0] != 1 or mask[0]:
                n_met = _combine_k_best(i, j, rules, binary[x], symbol, lists, places, position, dense0, met)
            n_met = _step_up_k_best(n_met, rules, steps[x], mask, dense0, dense, met)
            if filled + n_met > size:
                size = 2 * size + n_met
                symbol = np.concatenate((symbol[:filled], np.empty(size - filled, np.int32)))
                lists = (
                    np.concatenate((lists[0][:filled], np.empty(size - filled, np.int32))),
                    np.concatenate((lists[1][:filled], np.empty((size - filled, most)))),
                    np.concatenate((lists[2][:filled], np.empty((size - filled, most, 5), np.int32))),
                )
            first[span] = filled
            for wanted in range(1, -1, -1):
                for m in range(n_met):
                    a = met[m]
                    if is_left[a] == wanted and dense[0][a] > 0:
                        symbol[filled], lists[0][filled] = a, dense[0][a]
                        lists[1][filled], lists[2][filled] = dense[1][a], dense[2][a]
                        position[i, a] = filled
                        filled += 1
                if wanted == 1:
                    left_end[span] = filled
            end[span] = filled
            for m in range(n_met):
                dense0[0][met[m]], dense[0][met[m]] = 0, 0
    for item in range(first[n_spans - n], end[n_spans - n]):
        if symbol[item] == root:
            for x in range(lists[0][item]):
                best[x] = lists[1][item, x]
                _trace_k_best(n, root, x, rules, symbol, lists, places, labels[x])
            return lists[0][item]
    return 0


# ----------------------------------------------------------------------------------------------------------------------
# The best score of every symbol over every span: what a parser finds on its way, good or bad.
#
#     chart0[i, j, A] = max over k and A -> B C of  binary(A -> B C at (i, j)) + chart[i, k, B] + chart[k, j, C]
#     chart [i, j, A] = max of chart0[i, j, A] and, over steps A <- B, step(A <- B at (i, j)) + chart0[i, j, B]
#
# It is for learning from edges that should not be there; best trees are found quicker by
# :func:`viterbi`.


@kernel
def _fill_chart(
    n: int,
    rules: Rules,
    first_span: int,
    first_word: int,
    lexical: Float,
    binary: Float,
    steps: Float,
    row_of_span: Int32,
    chart: Float,
) -> None:
    """Fill ``chart`` [spans, K], -inf at first, of one sentence of ``n`` words."""
    left_pointer, parent, right, child_pointer, step_parent, _, preterminals = rules
    n_symbols = chart.shape[1]
    active = np.empty((chart.shape[0], n_symbols), dtype=np.int32)
    n_active = np.zeros(chart.shape[0], dtype=np.int64)
    bottom = np.empty(n_symbols)
    for j in range(1, n + 1):
        for i in range(j - 1, -1, -1):
            span = j * (j - 1) // 2 + i
            here, row = chart[span], row_of_span[first_span + span]
            if j - i == 1:
                for p in range(preterminals.shape[0]):
                    here[preterminals[p]] = lexical[first_word + i, p]
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
                        if value > here[step_parent[u]]:
                            here[step_parent[u]] = value
            for a in range(n_symbols):
                if here[a] > -np.inf:
                    active[span, n_active[span]] = a
                    n_active[span] += 1


def best_chart(grammar: CFGGrammar, length: int, scores: CFGScores) -> Float:
    """The chart [N, K] of one sentence of ``length`` words, -inf where a symbol is not possible."""
    chart = np.full((length * (length + 1) // 2, grammar.n_symbols), -np.inf)
    _fill_chart(
        length, grammar.rules, 0, 0, np.ascontiguousarray(scores.lexical), np.ascontiguousarray(scores.binary),
        np.ascontiguousarray(scores.steps), scores.row_of_span, chart,
    )  # fmt: skip
    return chart


# ----------------------------------------------------------------------------------------------------------------------
# The tree whose brackets are most likely to be right, rather than the most probable one.
#
# A grammar with notes in its labels spreads the probability of a bracket over many derivations, and the best derivation
# may be a poor guide. With q(i, j, L) how often the span (i, j) is expected to have the label L, notes forgotten, take
# the tree that maximises
#
#     sum over its brackets (i, j, L) of  q(i, j, L) - t
#
# (Goodman 1996, *Parsing algorithms and metrics*, with a price t for each bracket). Brackets that are less likely than
# t lower the sum, so a span has all labels with q > t, or none; which spans go together is a matter of O(n^3):
#
#     best(i, j) = sum over L of max(0, q(i, j, L) - t)  +  max over k of  best(i, k) + best(k, j)
#
# For the greatest expected F1 the price is half that F1 (Lipton, Elkan and Narayanaswamy 2014). Such a tree need not be
# one of the grammar.


class BracketLabels(NamedTuple):
    """Which of L labels the brackets have that a grammar's symbols and steps make.

    Attributes
    ----------
    n_labels : int
        L.
    label_of : int32[K]
        The label of a symbol, -1 if it makes no bracket.
    step_pointer, step_labels : int64[U + 1], int32[...]
        Those of the symbols of a step above its child.
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
