"""The best tree of each sentence (CKY), over the symbols that each span can have and no others.

    best0[i, j, A] = max over k and A -> B C of  score + best[i, k, B] + best[k, j, C]
    best [i, j, A] = max(best0[i, j, A], max over steps A <- B of  score + best0[i, j, B])

The chart is a *pool* of items, a symbol at a span with its value and where it came from, one span after the other.
Spans are filled column by column (j ascending, i descending), so that all right parts (k, j) of a span belong to the
column at hand: their items are found through ``position`` [n, K], a row a span of this column. A span and a split cost
the number of rules whose left child the left part can have; each is one look into such a row of int32.

Letters: n words of a sentence, K symbols, P preterminals, R binary rules, U steps, X rows of scores.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from loglinear.kernels import kernel

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Rules = tuple[Longs, Ints, Ints, Longs, Ints, Bytes, Ints]
Parts = tuple[Floats, Floats, Floats, Ints, Bytes]
Pool = tuple[Ints, Floats, Ints, Ints, Ints]
Places = tuple[Longs, Longs, Longs]
Dense = tuple[Floats, Floats, Ints, Ints, Ints, Ints]


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
    i: int, j: int, rules: Rules, scores: Floats, pool: Pool, places: Places, position: Ints, dense: Dense
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
def _step_up(n_met: int, rules: Rules, scores: Floats, allowed: Bytes, dense: Dense) -> int:
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
    span: int, n_met: int, least: float, prior: Floats, rules: Rules, moves: Ints, pool: Pool, filled: int,
    places: Places, row: Ints, dense: Dense,
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
def _least(n_met: int, beam: float, prior: Floats, dense: Dense) -> float:
    """Below what a symbol's value plus prior is dropped."""
    if beam == np.inf:
        return -np.inf
    best, met, top = dense[1], dense[5], -np.inf
    for m in range(n_met):
        top = max(top, best[met[m]] + prior[met[m]])
    return top - beam


@kernel
def _forget(j: int, pool: Pool, places: Places, position: Ints) -> None:
    """Clear the rows of ``position`` that column ``j`` has filled."""
    symbol, first, end = pool[0], places[0], places[2]
    for i in range(j):
        span = j * (j - 1) // 2 + i
        for item in range(first[span], end[span]):
            position[i, symbol[item]] = -1


@kernel
def _fill(
    n: int, rules: Rules, moves: Ints, parts: Parts, words: int, spans: int, beam: float, prior: Floats, stop: Bytes,
    pool: Pool, places: Places, position: Ints, dense: Dense,
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
def _trace(n: int, root: int, rules: Rules, pool: Pool, places: Places, labels: Ints) -> float:
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
    word_offsets: Longs, span_offsets: Longs, rules: Rules, moves: Ints, root: int, parts: Parts, beam: float,
    prior: Floats, stop: Bytes, labels: Ints, best: Floats,
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
