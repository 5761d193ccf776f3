"""Counts by sequence add up, and the bootstrap tells chance from difference."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loglinear.evaluation import chunk_counts, chunk_scores, paired_bootstrap
from loglinear.evaluation.significance import f1

LABELS = ("O", "B-X", "I-X", "B-Y", "I-Y")
pairs = st.lists(
    st.integers(1, 6).flatmap(
        lambda n: st.tuples(*(st.lists(st.sampled_from(LABELS), min_size=n, max_size=n) for _ in range(2)))
    ),
    min_size=1,
    max_size=6,
)


@given(pairs=pairs)
def test_counts_are_those_of_each_sequence_alone(pairs):
    gold, predicted = [g for g, _ in pairs], [p for _, p in pairs]
    counts = chunk_counts(gold, predicted)
    for row, g, p in zip(counts, gold, predicted, strict=True):
        alone = chunk_scores([g], [p])
        assert row.tolist() == [alone.phrases, alone.found, alone.correct]
    whole = chunk_scores(gold, predicted)
    assert counts.sum(axis=0).tolist() == [whole.phrases, whole.found, whole.correct]
    assert f1(counts.sum(axis=0)) == pytest.approx(whole.f1)


def random_counts(rng, n, share):
    gold = rng.integers(1, 5, n)
    correct = rng.binomial(gold, share)
    return np.stack([gold, gold, correct], axis=1)


def test_a_clear_difference_is_clear_and_none_is_none():
    rng = np.random.default_rng(0)
    good, bad = random_counts(rng, 500, 0.9), random_counts(rng, 500, 0.7)
    clear = paired_bootstrap(bad, good, draws=1000)
    assert clear.p == 0.0 and clear.low > 0 and clear.second > clear.first
    turned = paired_bootstrap(good, bad, draws=1000)
    assert turned.p == 0.0 and turned.high < 0
    same = paired_bootstrap(good, good, draws=1000)
    assert same.p == 0.5 and same.low == same.high == 0.0


def test_p_agrees_with_the_normal_approximation():
    """With as many chunks in every sequence, F1 is a mean and its difference nearly normal."""
    from scipy.stats import norm

    rng = np.random.default_rng(1)
    gold = np.full(400, 10)
    one, other = (np.stack([gold, gold, rng.binomial(10, share, 400)], axis=1) for share in (0.7, 0.715))
    difference = (other - one)[:, 2] / 10
    z = abs(difference.mean()) / (difference.std() / np.sqrt(400))
    assert paired_bootstrap(one, other).p == pytest.approx(norm.sf(z), abs=0.02)


def test_the_seed_settles_the_draws():
    rng = np.random.default_rng(2)
    one, other = random_counts(rng, 50, 0.8), random_counts(rng, 50, 0.8)
    assert paired_bootstrap(one, other, 500, seed=3) == paired_bootstrap(one, other, 500, seed=3)
    with pytest.raises(ValueError, match="same sequences"):
        paired_bootstrap(one, other[:10])
