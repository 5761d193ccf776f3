"""Which features a chain has: what occurs in the annotation, nothing else."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.structures.gold import Gold, observed_ngrams, pair_codes


@st.composite
def annotations(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_labels = draw(st.integers(1, 4))
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    allowed = (rng.random((offsets[-1], n_labels)) < draw(st.sampled_from([0.0, 0.4, 0.9]))).astype(np.uint8)
    labels = rng.integers(0, n_labels, offsets[-1])
    allowed[np.arange(offsets[-1]), labels] = 1
    settled = np.where(allowed.sum(axis=1) == 1, labels, -1).astype(np.int32)
    gold = Gold(settled, allowed) if (settled < 0).any() else Gold(settled)
    return offsets, gold, allowed, n_labels


@settings(max_examples=100)
@given(annotations())
def test_ngrams_are_those_the_annotation_allows(problem):
    offsets, gold, allowed, n = problem
    bigrams, trigrams, fourgrams = observed_ngrams(offsets, gold.label_lists(n, unlabelled_as_any=True), n, 3)
    expected_bigrams, expected_trigrams, expected_fourgrams = set(), set(), set()
    for first, end in itertools.pairwise(offsets):
        for t in range(first + 1, end):
            for b in np.flatnonzero(allowed[t - 1]):
                for c in np.flatnonzero(allowed[t]):
                    expected_bigrams.add(b * n + c)
                    if t > first + 1:
                        expected_trigrams |= {(a * n + b) * n + c for a in np.flatnonzero(allowed[t - 2])}
                    if t > first + 2:
                        opening = itertools.product(np.flatnonzero(allowed[t - 3]), np.flatnonzero(allowed[t - 2]))
                        expected_fourgrams |= {((y * n + a) * n + b) * n + c for y, a in opening}
    assert bigrams.tolist() == sorted(expected_bigrams)
    assert trigrams.tolist() == sorted(expected_trigrams)
    assert fourgrams.tolist() == sorted(expected_fourgrams)


@given(annotations())
def test_pairs_of_a_position_leave_out_what_is_not_labelled_at_all(problem):
    offsets, gold, allowed, n = problem
    pointer, codes = pair_codes(offsets, gold.label_lists(n, unlabelled_as_any=False), n)
    known = [set() if n > 1 and row.all() else set(np.flatnonzero(row).tolist()) for row in allowed]
    for first, end in itertools.pairwise(offsets):
        for t in range(first, end):
            found = set(codes[pointer[t] : pointer[t + 1]].tolist())
            assert found == ({a * n + b for a in known[t - 1] for b in known[t]} if t > first else set())
