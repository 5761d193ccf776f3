"""The parts of given trees: their scores, and adding them up."""

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


@kernel
def score(
    word_offsets: Longs, span_offsets: Longs, rules: Rules, moves: Ints, parts: Parts, labels: Ints, result: Floats
) -> None:
    """Scores [S] of trees given as ``labels`` [N, 3]; -inf where a symbol is not allowed."""
    lexical, binary, steps, row_of_span, allowed = parts
    parent, preterminals = rules[1], rules[6]
    width = allowed.shape[1]
    for s in range(word_offsets.shape[0] - 1):
        total, span = 0.0, span_offsets[s]
        for j in range(1, word_offsets[s + 1] - word_offsets[s] + 1):
            for i in range(j):
                rule, step, x = labels[span, 0], labels[span, 2], row_of_span[span]
                if rule >= 0:
                    if j - i == 1:
                        total += lexical[word_offsets[s] + i, rule]
                        symbol = preterminals[rule]
                    else:
                        total += binary[x, rule]
                        symbol = parent[rule]
                    above = symbol
                    if step >= 0:
                        total += steps[x, step]
                        above = moves[step, 0]
                    if allowed.shape[0] > 0 and not (
                        allowed[span, symbol if width > 1 else 0] and allowed[span, above if width > 1 else 0]
                    ):
                        total = -np.inf
                span += 1
        result[s] = total


@kernel
def add_labelling(word_offsets: Longs, span_offsets: Longs, labels: Ints, weights: Floats, parts: Parts) -> None:
    """Add to ``parts`` the weight [S] of each sentence for every part of its tree."""
    lexical, binary, steps, row_of_span, _ = parts
    for s in range(word_offsets.shape[0] - 1):
        span = span_offsets[s]
        for j in range(1, word_offsets[s + 1] - word_offsets[s] + 1):
            for i in range(j):
                rule, step, x = labels[span, 0], labels[span, 2], row_of_span[span]
                if rule >= 0:
                    if j - i == 1:
                        lexical[word_offsets[s] + i, rule] += weights[s]
                    else:
                        binary[x, rule] += weights[s]
                    if step >= 0:
                        steps[x, step] += weights[s]
                span += 1


@kernel
def check(word_offsets: Longs, span_offsets: Longs, rules: Rules, moves: Ints, root: int, labels: Ints) -> int:
    """The first sentence whose labels [N, 3] are no tree of the grammar, -1 if all are.

    From the root down each span must have the symbol its parent wants, and no other span may have a label.
    """
    left_pointer, parent, right, _, _, _, preterminals = rules
    for s in range(word_offsets.shape[0] - 1):
        n, spans = word_offsets[s + 1] - word_offsets[s], span_offsets[s]
        stack = np.empty((n + 1, 3), np.int32)
        stack[0, 0], stack[0, 1], stack[0, 2] = 0, n, root
        depth, n_seen = 1, 0
        while depth > 0:
            depth -= 1
            i, j, symbol = stack[depth, 0], stack[depth, 1], stack[depth, 2]
            here = labels[spans + j * (j - 1) // 2 + i]
            rule, split, step = here[0], here[1], here[2]
            n_seen += 1
            if step >= moves.shape[0] or step < -1:
                return s
            if step >= 0:
                if moves[step, 0] != symbol:
                    return s
                symbol = moves[step, 1]
            if j - i == 1:
                if rule < 0 or rule >= preterminals.shape[0] or preterminals[rule] != symbol or split != -1:
                    return s
                continue
            if rule < 0 or rule >= parent.shape[0] or parent[rule] != symbol or split <= i or split >= j:
                return s
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = split, j, right[rule]
            stack[depth + 1, 0], stack[depth + 1, 1] = i, split
            stack[depth + 1, 2] = np.searchsorted(left_pointer, rule, side="right") - 1
            depth += 2
        for span in range(spans, span_offsets[s + 1]):
            if labels[span, 0] != -1 or labels[span, 1] != -1 or labels[span, 2] != -1:
                n_seen -= 1
        if n_seen != 0:
            return s
    return -1
