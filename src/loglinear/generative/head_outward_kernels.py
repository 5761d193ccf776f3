r"""Kernels of the head-outward model: smoothed probabilities by looking up counts, and drawing trees.

Each outcome e has contexts c_1, c_2, ... from the coarsest to the finest. With n(c, e) its count in context c, n(c) the
sum and T(c) the number of distinct outcomes there (Witten & Bell 1991, with a factor; Collins 1999)::

    p_0(e) = 1 / number of outcomes            p_l(e) = (n(c_l, e) + b T(c_l) p_{l-1}(e)) / (n(c_l) + b T(c_l))

A context is a number of 63 bits::

    level | side | whether there is a child | tag of the head | word of the head + 1 | tag of the child

and an outcome in a context the context's number and the outcome's.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from loglinear.kernels import kernel

Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

TAG_BITS, WORD_BITS = 10, 20
STOP, TAG, WORD = 0, 3, 6  # first levels of the three kinds of outcomes
STOP_LEVELS, TAG_LEVELS, WORD_LEVELS = 3, 3, 3
LEFT, RIGHT = 0, 1


@kernel
def _slot(key: int, keys: Int64) -> int:
    """Where ``key`` is in the table, or the empty place where it would be."""
    mixed = (key ^ (key >> 31)) * 0x7FB5D329728EA185
    mixed ^= mixed >> 27
    mixed *= 0x81DADEF4BC2DD4D
    slot = (mixed ^ (mixed >> 33)) & (keys.shape[0] - 1)
    while keys[slot] != key and keys[slot] >= 0:
        slot = (slot + 1) & (keys.shape[0] - 1)
    return slot


@kernel
def fill(keys: Int64, table: Int64, places: Int32) -> None:
    """Put ``keys`` into a table that is -1 everywhere, and their numbers into ``places``."""
    for number in range(keys.shape[0]):
        slot = _slot(keys[number], table)
        table[slot] = keys[number]
        places[slot] = number


@kernel
def _context(level: int, side: int, valence: int, head_tag: int, head_word: int, child_tag: int) -> int:
    """The context of a level: 0 to 2 for stopping, 3 to 5 for the child's tag, 6 to 8 for its word."""
    kind, depth = level // 3, level % 3
    key = level
    if kind == 2:
        valence = 0  # a word does not depend on it
        side = side if depth > 0 else 0
        head_tag = head_tag if depth > 0 else 0
    else:
        child_tag = 0
        head_tag = head_tag if depth > 0 else 0
    word = head_word + 1 if depth == 2 else 0
    key = (key << 1) | side
    key = (key << 1) | valence
    key = (key << TAG_BITS) | head_tag
    key = (key << WORD_BITS) | word
    return (key << TAG_BITS) | child_tag


@kernel
def _probability(
    kind: int,
    n_levels: int,
    n_outcomes: int,
    outcome: int,
    side: int,
    valence: int,
    head_tag: int,
    head_word: int,
    child_tag: int,
    factor: float,
    contexts: Int64,
    numbers: Int32,
    totals: Float,
    types: Float,
    outcomes: Int64,
    counts: Float,
) -> float:
    """p(outcome) in its contexts; ``head_word`` may be -1."""
    p = 1.0 / n_outcomes
    for depth in range(n_levels):
        if depth == 2 and head_word < 0:
            break
        slot = _slot(_context(kind + depth, side, valence, head_tag, head_word, child_tag), contexts)
        if contexts[slot] < 0:
            break
        number = numbers[slot]
        n = 0.0
        if outcome >= 0:
            at = _slot((int(number) << (WORD_BITS + 1)) | outcome, outcomes)
            if outcomes[at] >= 0:
                n = counts[at]
        weight = factor * types[number]
        p = (n + weight * p) / (totals[number] + weight)
    return p


@kernel
def events(offsets: Int64, words: Int32, tags: Int32, heads: Int32, root_tag: int, lexical: bool, out: Int64) -> int:
    """All outcomes of trees, each with the context of every level: rows (context, outcome) of ``out``; how many."""
    n_rows, depths = 0, 3 if lexical else 2
    for s in range(offsets.shape[0] - 1):
        low = offsets[s]
        n = offsets[s + 1] - low
        children = np.zeros((n + 1, 2), np.int64)  # the nearest on each side; 0: none
        for t in range(1, n + 1):
            h = heads[low + t - 1]
            if t < h:
                children[h, LEFT] = t
            elif children[h, RIGHT] == 0:
                children[h, RIGHT] = t
        for t in range(1, n + 1):
            tag, word = int(tags[low + t - 1]), int(words[low + t - 1])
            h = heads[low + t - 1]
            side = RIGHT if t > h else LEFT
            valence = 0 if h == 0 or children[h, side] == t else 1
            head_tag = root_tag if h == 0 else int(tags[low + h - 1])
            head_word = -1 if h == 0 else int(words[low + h - 1])
            for depth in range(depths):
                if depth < 2 or head_word >= 0:
                    if h > 0:
                        out[n_rows, 0] = _context(STOP + depth, side, valence, head_tag, head_word, 0)
                        out[n_rows, 1] = 0
                        n_rows += 1
                    out[n_rows, 0] = _context(TAG + depth, side, valence, head_tag, head_word, 0)
                    out[n_rows, 1] = tag
                    n_rows += 1
                    if lexical:
                        out[n_rows, 0] = _context(WORD + depth, side, valence, head_tag, head_word, tag)
                        out[n_rows, 1] = word
                        n_rows += 1
            for side in range(2):
                for depth in range(depths):
                    has = 1 if children[t, side] else 0
                    out[n_rows, 0] = _context(STOP + depth, side, has, tag, word, 0)
                    out[n_rows, 1] = 1
                    n_rows += 1
    return n_rows


@kernel
def arc_scores(
    offsets: Int64,
    words: Int32,
    tags: Int32,
    root_tag: int,
    lexical: bool,
    sizes: Int64,
    factors: Float,
    contexts: Int64,
    numbers: Int32,
    totals: Float,
    types: Float,
    outcomes: Int64,
    counts: Float,
    first: Float,
    later: Float,
    stops: Float,
) -> None:
    """Log probabilities: ``first`` and ``later`` [A] of taking a child, ``stops`` [N, 2, 2] of stopping.

    ``sizes`` are the numbers of tags and of words, ``factors`` those of the three kinds.
    """
    a, levels = 0, 3 if lexical else 2
    for s in range(offsets.shape[0] - 1):
        low = offsets[s]
        n = offsets[s + 1] - low
        for h in range(n + 1):
            tag = root_tag if h == 0 else int(tags[low + h - 1])
            word = -1 if h == 0 else int(words[low + h - 1])
            going = np.zeros((2, 2))
            if h > 0:
                for side in range(2):
                    for valence in range(2):
                        p = _probability(
                            STOP, levels, 2, 1, side, valence, tag, word, 0, factors[0], contexts, numbers, totals,
                            types, outcomes, counts,
                        )  # fmt: skip
                        stops[low + h - 1, side, valence] = np.log(p)
                        going[side, valence] = np.log1p(-p)
            for t in range(1, n + 1):
                place = a + (t - 1) * (n + 1) + h
                if t == h:
                    first[place] = later[place] = -np.inf
                    continue
                side, child_tag = RIGHT if t > h else LEFT, int(tags[low + t - 1])
                of_word = 0.0
                if lexical:
                    p = _probability(
                        WORD, levels, sizes[1] + 1, int(words[low + t - 1]), side, 0, tag, word, child_tag, factors[2],
                        contexts, numbers, totals, types, outcomes, counts,
                    )  # fmt: skip
                    of_word = np.log(p)
                for valence in range(2):
                    p = _probability(
                        TAG, levels, sizes[0], child_tag, side, valence, tag, word, 0, factors[1], contexts, numbers,
                        totals, types, outcomes, counts,
                    )  # fmt: skip
                    value = np.log(p) + of_word + going[side, valence]
                    if valence == 0:
                        first[place] = value
                    else:
                        later[place] = value if h > 0 else -np.inf
        a += n * (n + 1)


@kernel
def _uniform(state: npt.NDArray[np.uint64]) -> float:
    """A number in [0, 1) (splitmix64; Steele, Lea & Flood 2014)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.float64((z ^ (z >> np.uint64(31))) >> np.uint64(11)) / 9007199254740992.0


@kernel
def _draw(
    kind: int,
    n_levels: int,
    n_outcomes: int,
    side: int,
    valence: int,
    head_tag: int,
    head_word: int,
    child_tag: int,
    factor: float,
    contexts: Int64,
    numbers: Int32,
    totals: Float,
    types: Float,
    begins: Int64,
    drawn: Int32,
    ends: Float,
    state: npt.NDArray[np.uint64],
) -> int:
    """An outcome drawn from :func:`_probability`: at each level, from the finest, one of those counted or go on.

    ``begins`` [contexts + 1] are lists of outcomes ``drawn`` with cumulated counts ``ends``.
    """
    for depth in range(n_levels - 1, -1, -1):
        if depth == 2 and head_word < 0:
            continue
        slot = _slot(_context(kind + depth, side, valence, head_tag, head_word, child_tag), contexts)
        if contexts[slot] < 0:
            continue
        number = numbers[slot]
        target = _uniform(state) * (totals[number] + factor * types[number])
        if target < totals[number]:
            low, high = begins[number], begins[number + 1] - 1
            while low < high:
                middle = (low + high) // 2
                if ends[middle] > target:
                    high = middle
                else:
                    low = middle + 1
            return drawn[low]
    return min(int(_uniform(state) * n_outcomes), n_outcomes - 1)


@kernel
def draw_tree(
    root_tag: int,
    lexical: bool,
    sizes: Int64,
    factors: Float,
    contexts: Int64,
    numbers: Int32,
    totals: Float,
    types: Float,
    begins: Int64,
    drawn: Int32,
    ends: Float,
    state: npt.NDArray[np.uint64],
    words: Int32,
    tags: Int32,
    heads: Int32,
) -> int:
    """Draw a tree with its sentence into ``words``, ``tags`` and ``heads``; its length, 0 if it would be longer."""
    most, levels = words.shape[0], 3 if lexical else 2
    tag_of, word_of = np.empty(most + 1, np.int64), np.empty(most + 1, np.int64)
    parent = np.zeros(most + 1, np.int64)
    outer, inner = np.full((most + 1, 2), -1, np.int64), np.full(most + 1, -1, np.int64)  # farthest child; next inward
    tag_of[0], word_of[0] = root_tag, -1
    n, waiting = 1, 0
    while waiting < n:
        h = waiting
        waiting += 1
        for side in range(2):
            if h == 0 and side == LEFT:
                continue
            valence = 0
            while True:
                if h > 0:
                    stop = _draw(
                        STOP, levels, 2, side, valence, tag_of[h], word_of[h], 0, factors[0], contexts, numbers, totals,
                        types, begins, drawn, ends, state,
                    )  # fmt: skip
                    if stop == 1:
                        break
                if n > most:
                    return 0
                tag = _draw(
                    TAG, levels, sizes[0], side, valence, tag_of[h], word_of[h], 0, factors[1], contexts, numbers,
                    totals, types, begins, drawn, ends, state,
                )  # fmt: skip
                word = -1
                if lexical:
                    word = _draw(
                        WORD, levels, sizes[1] + 1, side, 0, tag_of[h], word_of[h], tag, factors[2], contexts, numbers,
                        totals, types, begins, drawn, ends, state,
                    )  # fmt: skip
                    if word == sizes[1]:
                        word = -1
                tag_of[n], word_of[n], parent[n] = tag, word, h
                inner[n], outer[h, side] = outer[h, side], n
                n += 1
                valence = 1
                if h == 0:
                    break
    place, filled = np.zeros(n, np.int64), 0  # in the order of the sentence, from 1
    stack, size = np.empty(2 * n + 2, np.int64), 1
    farthest_first = np.empty(n, np.int64)
    stack[0] = outer[0, RIGHT]
    while size:
        size -= 1
        item = stack[size]
        if item < 0:  # a node whose left side is done
            filled += 1
            place[-item] = filled
            continue
        child = outer[item, RIGHT]
        while child >= 0:
            stack[size] = child
            size += 1
            child = inner[child]
        stack[size] = -item
        size += 1
        child, count = outer[item, LEFT], 0
        while child >= 0:
            farthest_first[count] = child
            count += 1
            child = inner[child]
        for k in range(count - 1, -1, -1):
            stack[size] = farthest_first[k]
            size += 1
    for node in range(1, n):
        t = place[node] - 1
        tags[t], words[t] = tag_of[node], word_of[node]
        heads[t] = 0 if parent[node] == 0 else place[parent[node]]
    return n - 1
