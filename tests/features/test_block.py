"""Scores and gradients of feature blocks equal the dense matrix products."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.features.block import FeatureBlock
from loglinear.features.encoding import Incidence


@st.composite
def problems(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, a, c = draw(st.integers(1, 8)), draw(st.integers(1, 6)), draw(st.integers(1, 6))
    counts = rng.integers(0, 5, n)
    pointer = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    ids = rng.integers(0, a, pointer[-1]).astype(np.int32)
    values = rng.normal(size=pointer[-1]) if draw(st.booleans()) else None
    codes = rng.integers(0, c, n).astype(np.int32)
    return rng, Incidence(pointer, ids, values), n, a, c, codes


def dense(incidence, n, a):
    matrix = np.zeros((n, a))
    values = np.ones(len(incidence.ids)) if incidence.values is None else incidence.values
    for t in range(n):
        for j in range(incidence.pointer[t], incidence.pointer[t + 1]):
            matrix[t, incidence.ids[j]] += values[j]
    return matrix


@settings(max_examples=100)
@given(problems())
def test_a_block_is_a_masked_matrix(problem):
    rng, incidence, n, a, c, codes = problem
    block = FeatureBlock.observed(incidence, a, np.arange(n + 1, dtype=np.int64), codes, c)
    mask = np.zeros((a, c), dtype=bool)
    for t in range(n):
        for j in range(incidence.pointer[t], incidence.pointer[t + 1]):
            mask[incidence.ids[j], codes[t]] = True
    assert block.n_features == mask.sum()
    assert np.array_equal(np.diff(block.pointer), mask.sum(axis=1))
    weights = rng.normal(size=block.n_features)
    full = np.zeros((a, c))
    full[mask] = weights  # both run over attributes, then ascending codes
    x = dense(incidence, n, a)
    first = int(rng.integers(0, n))
    scores = block.scores(incidence, first, n, weights, block.rows(weights))
    np.testing.assert_allclose(scores, (x @ full)[first:], atol=1e-12)
    parts = rng.normal(size=(n - first, c))
    gradient, rows = np.zeros(block.n_features), np.zeros((block.n_rows, c))
    block.add_gradient(incidence, first, n, parts, gradient, rows)
    block.gather(rows, gradient)
    np.testing.assert_allclose(gradient, (x[first:].T @ parts)[mask], atol=1e-12)


def test_everything_has_all_pairs():
    block = FeatureBlock.everything(3, 2)
    assert block.n_features == 6
    assert block.codes.tolist() == [0, 1, 0, 1, 0, 1]
