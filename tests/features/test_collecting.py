"""Laws of collecting attributes and features: the blocks, ranges and threads it is done in do not show."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.data import Columns
from loglinear.features import block, encoding
from loglinear.features.templates.encoder import TemplateEncoder
from loglinear.features.templates.language import TemplateSet

TEMPLATES = """\
U00:%x[0,0]
U00:%x[-1,0]
U01:%x[0,0]/%x[1,0]
U02:%t[0,0,"a"]
U03:%x[@1,0]
*04:%x[0,0]
B05:%x[1,0]
B
"""
words = st.sampled_from(["a", "b", "c", "aa", "d"])
corpora = st.lists(st.lists(words, min_size=1, max_size=5), min_size=1, max_size=6).map(Columns.from_rows)


def fitted(corpus, min_count=1, n_threads=1, pair_features=False):
    encoder = TemplateEncoder(TemplateSet.parse(TEMPLATES), pair_features=pair_features)
    return encoder, encoder.fit(corpus, min_count, n_threads)


def attributes(encoder, incidence):
    """Names of the attributes of each position, in order."""
    names = encoder.names()
    bounds = zip(incidence.pointer[:-1].tolist(), incidence.pointer[1:].tolist(), strict=True)
    return [[names[a] for a in incidence.ids[first:end].tolist()] for first, end in bounds]


@settings(deadline=None)
@given(corpora, st.integers(1, 3), st.integers(1, 5), st.booleans())
def test_what_is_collected_is_what_is_found_again(corpus, min_count, block, pair_features):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoding, "BLOCK", block)
        encoder, encoded = fitted(corpus, min_count, 1, pair_features)
        threaded, again = fitted(corpus, min_count, 3, pair_features)
    whole, at_once = fitted(corpus, min_count, 1, pair_features)
    assert encoder.names() == threaded.names() and set(encoder.names()) == set(whole.names())
    found = encoder.transform(corpus)
    for mine, theirs, other, one in zip(
        (encoded.state, encoded.edge), (found.state, found.edge), (again.state, again.edge),
        (at_once.state, at_once.edge), strict=True,
    ):  # fmt: skip
        assert np.array_equal(mine.ids, theirs.ids) and np.array_equal(mine.pointer, theirs.pointer)
        assert np.array_equal(mine.ids, other.ids) and np.array_equal(mine.pointer, other.pointer)
        assert attributes(encoder, mine) == attributes(whole, one)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 9))
def test_pairs_are_those_that_stand_together(seed, n_codes, at_once):
    rng = np.random.default_rng(seed)
    n, a = int(rng.integers(0, 12)), int(rng.integers(1, 9))
    counts, code_counts = rng.integers(0, 4, n), rng.integers(0, 3, n)
    ids = rng.integers(0, a, counts.sum()).astype(np.int32)
    codes = rng.integers(0, n_codes, code_counts.sum()).astype(np.int32)
    pointer, code_pointer = (np.concatenate([[0], np.cumsum(c)]).astype(np.int64) for c in (counts, code_counts))
    expected = [set() for _ in range(a)]
    for t in range(n):
        for attribute in ids[pointer[t] : pointer[t + 1]].tolist():
            expected[attribute] |= set(codes[code_pointer[t] : code_pointer[t + 1]].tolist())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block, "MOST_BYTES", at_once)
        starts, found = block.observed_pairs(pointer, ids, a, code_pointer, codes, n_codes)
    assert [found[starts[k] : starts[k + 1]].tolist() for k in range(a)] == [sorted(each) for each in expected]
