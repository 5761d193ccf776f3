"""The k best trees of a sentence: every symbol at every span keeps its k best derivations.

Only combinations of the x-th best left and the y-th best right part with x y <= k can be among the k best of a rule at
a split, and those of one x come in descending order, so that most are never looked at. k times the memory of
:mod:`~loglinear.structures.cfg_viterbi`, whose order of spans this has; O(k log k) times its time at worst.
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
Lists = tuple[Ints, Floats, Ints]
Places = tuple[Longs, Longs, Longs]

RULE, SPLIT, LEFT_RANK, RIGHT_RANK, STEP = 0, 1, 2, 3, 4


@kernel
def _insert(values: Floats, backs: Ints, n: int, value: float, r: int, k: int, x: int, y: int, u: int) -> int:
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
def _combine(
    i: int, j: int, rules: Rules, scores: Floats, symbol: Ints, lists: Lists, places: Places, position: Ints,
    dense: Lists, met: Ints,
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
def _step_up(n_met: int, rules: Rules, scores: Floats, allowed: Bytes, dense0: Lists, dense: Lists, met: Ints) -> int:
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
def _trace(
    n: int, root: int, rank: int, rules: Rules, symbol: Ints, lists: Lists, places: Places, labels: Ints
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
def k_best(n: int, rules: Rules, root: int, parts: Parts, words: int, spans: int, labels: Ints, best: Floats) -> int:
    """The trees of one sentence, which begins at ``words`` and ``spans``, best first; returns how many there are.

    Parameters
    ----------
    n : int
        Words.
    rules, root, parts
        As for :func:`loglinear.structures.cfg_viterbi.viterbi`.
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
                n_met = _combine(i, j, rules, binary[x], symbol, lists, places, position, dense0, met)
            n_met = _step_up(n_met, rules, steps[x], mask, dense0, dense, met)
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
                _trace(n, root, x, rules, symbol, lists, places, labels[x])
            return lists[0][item]
    return 0
