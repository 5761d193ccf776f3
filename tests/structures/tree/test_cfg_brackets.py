"""Expected brackets against expected rules, and the best bracketing against all of them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from test_cfg_tree import few

from loglinear.structures.tree.best import BracketLabels, bracketing
from loglinear.structures.tree.grammar import span_number
from loglinear.structures.tree.structure import CFGScores, CFGTree
from problems.tree import batches


def each_span_its_row(scores: CFGScores) -> CFGScores:
    rows = scores.row_of_span
    return CFGScores(
        scores.lexical, scores.binary[rows], scores.steps[rows], np.arange(len(rows), dtype=np.int32), scores.allowed
    )


@few
@given(batches(scales=(1.0, 5.0)), st.integers(0, 2**32 - 1))
def test_expected_brackets_are_those_of_the_expected_parts(batch: tuple[CFGTree, CFGScores], seed: int) -> None:
    tree, scores = batch
    grammar, rng = tree.grammar, np.random.default_rng(seed)
    n_labels = 3
    label_of = rng.integers(-1, n_labels, size=grammar.n_symbols).astype(np.int32)
    sizes = rng.integers(0, 3, size=grammar.n_steps)
    pointer = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    step_labels = rng.integers(0, n_labels, size=int(pointer[-1])).astype(np.int32)
    log_z = tree.log_partition(scores)
    found_z, tags, found = tree.expected_brackets(scores, BracketLabels(n_labels, label_of, pointer, step_labels))
    np.testing.assert_allclose(found_z, log_z, rtol=1e-9, atol=1e-9)
    if np.isneginf(log_z).any():
        return
    _, parts = tree.expectations(each_span_its_row(scores))
    np.testing.assert_allclose(tags, parts.lexical, rtol=1e-9, atol=1e-9)
    expected = np.zeros((tree.n_positions, n_labels))
    for rule, parent in enumerate(grammar.binary[:, 0]):
        if label_of[parent] >= 0:
            expected[:, label_of[parent]] += parts.binary[:, rule]
    for step in range(grammar.n_steps):
        for label in step_labels[pointer[step] : pointer[step + 1]]:
            expected[:, label] += parts.steps[:, step]
    word = 0
    for s, n in enumerate(np.diff(tree.word_offsets).tolist()):
        for i in range(n):
            for p, symbol in enumerate(grammar.preterminals):
                if label_of[symbol] >= 0:
                    place = tree.offsets[s] + span_number(i, i + 1)
                    expected[place, label_of[symbol]] += parts.lexical[word, p]
            word += 1
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def best_of_all(i: int, j: int, gain: np.ndarray) -> float:
    inner = [best_of_all(i, k, gain) + best_of_all(k, j, gain) for k in range(i + 1, j)]
    return float(gain[span_number(i, j)]) + max(inner, default=0.0)


def worth(i: int, j: int, gain: np.ndarray, split: np.ndarray) -> float:
    k = int(split[span_number(i, j)])
    parts = worth(i, k, gain, split) + worth(k, j, gain, split) if j - i > 1 else 0.0
    assert i < k < j or j - i == 1
    return float(gain[span_number(i, j)]) + parts


@given(st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_the_best_bracketing(n: int, seed: int) -> None:
    gain = np.random.default_rng(seed).random(n * (n + 1) // 2) * (np.random.default_rng(seed + 1).random() < 0.9)
    split = bracketing(n, gain)
    assert np.isclose(worth(0, n, gain, split), best_of_all(0, n, gain))
