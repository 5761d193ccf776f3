r"""Log-partition and expected parts of trees in scaled probabilities: what training spends its time in.

With w = exp(score - the greatest of its row), the values of each span are divided by their maximum m, whose logarithm
the span's *scale* keeps:

    c_k           = exp(scale[i, k] + scale[k, j] - their maximum over k)
    inside0[A]    = sum over k and A -> B C of  w c_k inside[i, k, B] inside[k, j, C] / m
    inside [A]    = inside0[A] + sum over steps A <- B of  exp(score) inside0[B]
    log Z         = log inside[0, n, root] + scale[0, n]

The way down hands out probabilities: that of a symbol at a span goes to its steps and rules in the shares that these
had in the sums above, and from there to the children. With rho[A] = P(A) / inside[A] and rho0[B] = rho[B] + sum over
steps A <- B of exp(score) rho[A],

    E[step A <- B at (i, j)]          = rho[A] exp(score) inside0[B]
    E[A -> B C at (i, k, j)]          = rho0[A] w c inside[i, k, B] inside[k, j, C],      added to P(B), P(C)

Why the scaled numbers can be trusted. On the way up each product of non-zero factors is at least ``SMALLEST`` = 1e-290
and each value at least ``TINY`` = 1e-150, or the sentence is left to :mod:`~loglinear.structures.tree.log_sums` (status
``NEEDS_LOG_SPACE``) and adds to no sum. So a zero means that there is no derivation. On the way down what is lost by
underflow is a probability below 1e-300, and since rho <= 1 / inside <= 1e150 nothing overflows.

The pool of items and the order of spans are those of :mod:`~loglinear.structures.tree.best`.
"""

from __future__ import annotations

import math

import numpy as np

from loglinear.arrays import Float, Int32, Int64, UInt8
from loglinear.kernels import kernel
from loglinear.kernels.numbers import DONE, INFEASIBLE, NEEDS_LOG_SPACE, TINY

Rules = tuple[Int64, Int32, Int32, Int64, Int32, UInt8, Int32]
Parts = tuple[Float, Float, Float, Int32, UInt8]
Pool = tuple[Int32, Float, Float]
Places = tuple[Int64, Int64, Int64]
Held = tuple[Int64, Float, Float, Float]
Brackets = tuple[Int32, Int64, Int32, Float]

SMALLEST = 1e-290
LEAST_WEIGHT = 1e-300
MOST_STEP = 300.0


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
def _hold(x: int, binary: Float, steps: Float, held: Held) -> bool:
    """Make ``held`` about row ``x`` of the scores; says whether its steps can be trusted.

    Weights are worked out when they are first needed: -1 stands for one that has not been.
    """
    row, shift, binary_weights, step_weights = held
    if row[0] == x:
        return row[1] == 0
    row[0] = x
    peak, top = -np.inf, -np.inf
    for score in binary[x]:
        peak = max(peak, score)
    for score in steps[x]:
        top = max(top, score)
    shift[0] = peak if peak > -np.inf else 0.0
    binary_weights[:] = -1.0
    step_weights[:] = -1.0
    row[1] = top > MOST_STEP
    return row[1] == 0


@kernel
def _weight(score: float) -> float:
    """exp(score), but not zero unless the score is -inf: products with it are then too small, and noticed.

    Nor is it ever infinite: above MOST_STEP the row's steps are not trusted anyway.
    """
    return max(math.exp(min(score, MOST_STEP)), LEAST_WEIGHT) if score > -np.inf else 0.0


@kernel
def _forget(j: int, pool: Pool, places: Places, position: Int32) -> None:
    """Clear the rows of ``position`` that column ``j`` has filled."""
    symbol, first, end = pool[0], places[0], places[2]
    for i in range(j):
        span = j * (j - 1) // 2 + i
        for item in range(first[span], end[span]):
            position[i, symbol[item]] = -1


@kernel
def _combine(
    i: int, j: int, rules: Rules, scores: Float, shift: float, weights: Float, pool: Pool, places: Places,
    scale: Float, position: Int32, row0: Float, met: Int32,
) -> tuple[int, float, int]:  # fmt: skip
    """Sum a span's splits into ``row0``; returns the number of symbols met, the scale, the number of small products."""
    left_pointer, parent, right, _, _, _, _ = rules
    symbol, value, _ = pool
    first, left_end, end = places
    peak = -np.inf
    for k in range(i + 1, j):
        left_span, right_span = k * (k - 1) // 2 + i, j * (j - 1) // 2 + k
        if first[left_span] < left_end[left_span] and first[right_span] < end[right_span]:
            peak = max(peak, scale[left_span] + scale[right_span])
    n_met, n_low = 0, 0
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
                        weights[r] = _weight(scores[r] - shift)
                    product = share * value[c] * weights[r]
                    if product < SMALLEST:
                        n_low += weights[r] > 0.0
                        continue
                    p = parent[r]
                    if row0[p] == 0.0:
                        met[n_met] = p
                        n_met += 1
                    row0[p] += product
    return n_met, peak, n_low


@kernel
def _step_up(
    n_met: int, rules: Rules, scores: Float, weights: Float, allowed: UInt8, row0: Float, row: Float, met: Int32
) -> tuple[int, int]:
    """Add the steps: ``row`` from ``row0``; returns the number of symbols met now, and that of small products."""
    child_pointer, step_parent = rules[3], rules[4]
    width = allowed.shape[0]
    for m in range(n_met):
        b = met[m]
        if width > 0 and not allowed[b if width > 1 else 0]:
            row0[b] = 0.0
        row[b] = row0[b]
    n_all, n_low = n_met, 0
    for m in range(n_met):
        b = met[m]
        if row0[b] == 0.0:
            continue
        for u in range(child_pointer[b], child_pointer[b + 1]):
            a = step_parent[u]
            if weights[u] < 0.0:
                weights[u] = _weight(scores[u])
            if weights[u] == 0.0 or (width > 0 and not allowed[a if width > 1 else 0]):
                continue
            product = row0[b] * weights[u]
            if product < SMALLEST:
                n_low += 1
                continue
            if row[a] == 0.0:
                met[n_all] = a
                n_all += 1
            row[a] += product
    return n_all, n_low


@kernel
def _store(
    span: int, n_met: int, rules: Rules, pool: Pool, filled: int, places: Places, here: Int32, row0: Float,
    row: Float, met: Int32,
) -> tuple[int, float, int]:  # fmt: skip
    """Move the dense rows, divided by their maximum, into the pool, left children first, and clear them."""
    is_left = rules[5]
    symbol, value, value0 = pool
    first, left_end, end = places
    peak, n_low = 0.0, 0
    for m in range(n_met):
        peak = max(peak, row[met[m]])
    first[span] = filled
    for wanted in range(1, -1, -1):
        for m in range(n_met):
            a = met[m]
            if is_left[a] == wanted and row[a] > 0.0:
                symbol[filled], value[filled], value0[filled] = a, row[a] / peak, row0[a] / peak
                n_low += value[filled] < TINY
                here[a] = filled
                filled += 1
        if wanted == 1:
            left_end[span] = filled
    end[span] = filled
    for m in range(n_met):
        row0[met[m]], row[met[m]] = 0.0, 0.0
    return filled, peak, n_low


@kernel
def _up(
    n: int, rules: Rules, parts: Parts, words: int, spans: int, held: Held, pool: Pool, places: Places, scale: Float,
    position: Int32, row0: Float, row: Float, met: Int32,
) -> tuple[Pool, int]:  # fmt: skip
    """The scaled chart of one sentence, O(n^3) times the rules met: the pool and a status."""
    lexical, binary, steps, row_of_span, allowed = parts
    preterminals = rules[6]
    no_mask = allowed[0:0].reshape(-1) if allowed.shape[0] == 0 else allowed[0]
    filled, n_low = 0, 0
    for j in range(1, n + 1):
        _forget(j - 1, pool, places, position)
        for i in range(j):
            places[0][j * (j - 1) // 2 + i], places[2][j * (j - 1) // 2 + i] = 0, 0
        for i in range(j - 1, -1, -1):
            span = j * (j - 1) // 2 + i
            mask = no_mask if allowed.shape[0] == 0 else allowed[spans + span]
            x = row_of_span[spans + span]
            n_low += not _hold(x, binary, steps, held)
            n_met, peak, n_small = 0, 0.0, 0
            if j - i == 1:
                tags = lexical[words + i]
                peak = tags.max()
                for p in range(preterminals.shape[0]):
                    if tags[p] > -np.inf:
                        share = math.exp(tags[p] - peak)
                        if share < SMALLEST:
                            n_small += 1
                            continue
                        row0[preterminals[p]] = share
                        met[n_met] = preterminals[p]
                        n_met += 1
            elif mask.shape[0] != 1 or mask[0]:
                n_met, peak, n_small = _combine(
                    i, j, rules, binary[x], held[1][0], held[2], pool, places, scale, position, row0, met
                )
                peak += held[1][0]
            n_low += n_small
            n_met, n_small = _step_up(n_met, rules, steps[x], held[3], mask, row0, row, met)
            n_low += n_small
            pool = _grown(pool, filled, n_met)
            filled, top, n_small = _store(span, n_met, rules, pool, filled, places, position[i], row0, row, met)
            scale[span] = peak + math.log(top) if top > 0.0 else -np.inf
            n_low += n_small
            if n_low > 0:
                _forget(j, pool, places, position)
                return pool, NEEDS_LOG_SPACE
    _forget(n, pool, places, position)
    return pool, DONE


@kernel
def _unstep(
    x: int, span: int, place: int, rules: Rules, scores: Float, weights: Float, pool: Pool, places: Places,
    chance: Float, weight: float, row: Float, row0: Float, expected: Float, brackets: Brackets,
) -> bool:  # fmt: skip
    """``row0`` = rho0 of a span from the chances of its symbols; adds expected steps; whether there are any chances.

    The span is number ``span`` of its sentence and ``place`` of all, whose brackets are added up.
    """
    child_pointer, step_parent = rules[3], rules[4]
    label_of, step_pointer, step_labels, found = brackets
    wanted = found.shape[0] > 0
    symbol, value, value0 = pool
    first, _, end = places
    any_chance = False
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
            rho = row[step_parent[u]]
            if rho > 0.0:
                if weights[u] < 0.0:
                    weights[u] = _weight(scores[u])
                share = rho * weights[u]
                total += share
                expected[x, u] += weight * (share * value0[item])
                if wanted:
                    for at in range(step_pointer[u], step_pointer[u + 1]):
                        found[place, step_labels[at]] += weight * (share * value0[item])
        row0[b] = total
        if wanted and label_of[b] >= 0:
            found[place, label_of[b]] += weight * (total * value0[item])
    return True


@kernel
def _share_out(
    i: int, j: int, x: int, shift: float, rules: Rules, scores: Float, weights: Float, pool: Pool, places: Places,
    scale: Float, position: Int32, chance: Float, weight: float, row0: Float, expected: Float,
) -> None:  # fmt: skip
    """Hand a span's chances down to its parts, adding up the expected rules."""
    left_pointer, parent, right, _, _, _, _ = rules
    symbol, value, _ = pool
    first, left_end, end = places
    whole = scale[j * (j - 1) // 2 + i] - shift
    sums = expected[x]
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
                            weights[r] = _weight(scores[r] - shift)
                        share = rho * ((weights[r] * value[c]) * left_value * factor)
                        sums[r] += weight * share
                        chance[c] += share
                        handed += share
            chance[a] += handed


@kernel
def _down(
    n: int, root: int, rules: Rules, parts: Parts, words: int, spans: int, weight: float, held: Held, pool: Pool,
    places: Places, scale: Float, position: Int32, row0: Float, row: Float, chance: Float, expected: Parts,
    brackets: Brackets,
) -> None:  # fmt: skip
    """From the root to the words: add the expected parts of one sentence, times ``weight``, to ``expected``."""
    _, binary, steps, row_of_span, _ = parts
    symbol, _, value0 = pool
    first, _, end = places
    preterminals = rules[6]
    top = n * (n - 1) // 2  # the last span to be filled
    for item in range(end[top]):
        chance[item] = 0.0
    for item in range(first[top], end[top]):
        if symbol[item] == root:
            chance[item] = 1.0
    for j in range(n, 0, -1):
        for i in range(j):
            span = j * (j - 1) // 2 + i
            for item in range(first[span], end[span]):
                position[i, symbol[item]] = item
        for i in range(j):
            span, x = j * (j - 1) // 2 + i, row_of_span[spans + j * (j - 1) // 2 + i]
            _hold(x, binary, steps, held)
            if _unstep(
                x, span, spans + span, rules, steps[x], held[3], pool, places, chance, weight, row, row0, expected[2],
                brackets,
            ):  # fmt: skip
                if j - i == 1:
                    for p in range(preterminals.shape[0]):
                        item = position[i, preterminals[p]]
                        if item >= 0:
                            expected[0][words + i, p] = weight * (row0[preterminals[p]] * value0[item])
                else:
                    _share_out(
                        i, j, x, held[1][0], rules, binary[x], held[2], pool, places, scale, position, chance,
                        weight, row0, expected[1],
                    )  # fmt: skip
            for item in range(first[span], end[span]):
                row[symbol[item]], row0[symbol[item]] = 0.0, 0.0
        _forget(j, pool, places, position)


@kernel
def inside_outside(
    word_offsets: Int64, span_offsets: Int64, rules: Rules, root: int, parts: Parts, weights: Float, log_z: Float,
    status: UInt8, expected: Parts, brackets: Brackets,
) -> None:  # fmt: skip
    """Log-partitions, and unless ``expected`` has no words the expected parts times ``weights``, of S sentences.

    Parameters
    ----------
    word_offsets, span_offsets : int64[S + 1]
    rules, root : the grammar
    parts, expected : lexical [words, P], binary [X, R], steps [X, U], row_of_span int32[N], allowed uint8[N or 0, ...]
        ``expected`` is added to; its last two arrays do not count.
    weights, log_z : float64[S]
    status : uint8[S]
        Written: ``DONE``, ``NEEDS_LOG_SPACE`` or ``INFEASIBLE``.
    brackets : label_of int32[K], step_pointer int64[U + 1], step_labels int32[...], found float64[N or 0, L]
        Added to: how often a span is expected to have each of L labels, unless ``found`` has no rows. A symbol has the
        label ``label_of``, none if -1; a step adds those between its pointers, of the symbols above its child.
    """
    n_symbols, longest = rules[0].shape[0] - 1, 0
    for s in range(word_offsets.shape[0] - 1):
        longest = max(longest, word_offsets[s + 1] - word_offsets[s])
    n_spans = longest * (longest + 1) // 2
    places = (np.zeros(n_spans, np.int64), np.zeros(n_spans, np.int64), np.zeros(n_spans, np.int64))
    scale, position = np.empty(n_spans), np.full((longest, n_symbols), np.int32(-1))
    pool = (np.empty(1024, np.int32), np.empty(1024), np.empty(1024))
    chance = np.empty(0)
    row0, row, met = np.zeros(n_symbols), np.zeros(n_symbols), np.zeros(n_symbols, np.int32)
    held = (np.full(2, -1), np.zeros(1), np.zeros(parts[1].shape[1]), np.zeros(parts[2].shape[1]))
    for s in range(word_offsets.shape[0] - 1):
        n, words, spans = word_offsets[s + 1] - word_offsets[s], word_offsets[s], span_offsets[s]
        pool, status[s] = _up(n, rules, parts, words, spans, held, pool, places, scale, position, row0, row, met)
        log_z[s] = -np.inf
        if status[s] != DONE:
            continue
        top = n * (n - 1) // 2
        for item in range(places[0][top], places[2][top]):
            if pool[0][item] == root:
                log_z[s] = math.log(pool[1][item]) + scale[top]
        if log_z[s] == -np.inf:
            status[s] = INFEASIBLE
            continue
        if expected[0].shape[0] == 0:
            continue
        if chance.shape[0] < pool[0].shape[0]:
            chance = np.empty(pool[0].shape[0])
        _down(
            n, root, rules, parts, words, spans, weights[s], held, pool, places, scale, position, row0, row, chance,
            expected, brackets,
        )  # fmt: skip
