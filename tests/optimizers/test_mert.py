"""The error along a line is exact, its minimum is a minimum, and training ends with the least error of all rounds."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.optimizers.mert import MERT, Lists


def f1_error(sums):
    return 1.0 - 2.0 * sums[..., 2] / np.maximum(sums[..., 0] + sums[..., 1], 1.0)


def mean_error(sums):
    return sums[..., 0] / 10.0


@st.composite
def lists(draw, n_features=None):
    """Candidates with features among few values (so that lines coincide and meet in one point) or any."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    lengths = rng.integers(1, 8, size=draw(st.integers(1, 6)))
    n, k = int(lengths.sum()), draw(st.integers(2, 4)) if n_features is None else n_features
    few = draw(st.booleans())
    features = rng.integers(-2, 3, size=(n, k)).astype(float) if few else rng.normal(size=(n, k))
    gold = np.repeat(rng.integers(1, 5, size=len(lengths)), lengths)
    found = rng.integers(0, 5, size=n)
    right = rng.integers(0, np.minimum(gold, found) + 1)
    error = draw(st.sampled_from([f1_error, mean_error]))
    counts = np.column_stack([gold, found, right]) if error is f1_error else rng.random((n, 1))
    return Lists(np.concatenate([[0], np.cumsum(lengths)]), features, counts.astype(float), error)


def error_by_hand(own, weights):
    """The error of each example's best candidate."""
    total = np.zeros(own.counts.shape[1])
    for lo, hi in itertools.pairwise(own.offsets):
        total += own.counts[lo + np.argmax(own.features[lo:hi] @ weights)]
    return float(own.error(total))


def grid(at, n=200):
    """Points over the whole line, none of them near a jump."""
    points = np.linspace(-7.013, 7.017, n) if not len(at) else np.linspace(at[0] - 3.01, at[-1] + 3.02, n)
    return [g for g in points if not len(at) or np.abs(at - g).min() > 1e-7]


@settings(max_examples=150, deadline=None)
@given(own=lists(), seed=st.integers(0, 99))
def test_the_error_along_a_line_is_that_of_enumeration(own, seed):
    rng = np.random.default_rng(seed)
    weights, direction = rng.normal(size=(2, own.features.shape[1]))
    at, errors = own.along(weights, direction)
    assert len(errors) == len(at) + 1 and (np.diff(at) >= 0).all()
    lowest = weights + own.lowest(weights, direction) * direction
    for g in grid(at):
        here = error_by_hand(own, weights + g * direction)
        assert errors[np.searchsorted(at, g)] == pytest.approx(here)
        assert own.at(weights + g * direction) == pytest.approx(here)
        assert own.at(lowest) <= here + 1e-9


@settings(max_examples=100, deadline=None)
@given(own=lists(), seed=st.integers(0, 99))
def test_bends_are_those_of_the_upper_envelope(own, seed):
    """Of one list: between bends one line is above all others, and two are equal at a bend."""
    weights, direction = np.random.default_rng(seed).normal(size=(2, own.features.shape[1]))
    one = Lists(own.offsets[:2], own.features[: own.offsets[1]], own.counts[: own.offsets[1]], own.error)
    at, before, after, first = one._bends(weights, direction)
    height, slope = one.features @ weights, one.features @ direction
    chosen = [int(first[0]), *after.tolist()]
    assert before.tolist() == chosen[:-1] and (np.diff(slope[chosen]) > 0).all()
    for g, below, above in zip(at, before, after, strict=True):
        values = height + g * slope
        assert values[below] == pytest.approx(values.max()) and values[above] == pytest.approx(values.max())
    bounds = [at[0] - 5.0, *at, at[-1] + 5.0] if len(at) else [-5.0, 5.0]
    for (lo, hi), own_line in zip(itertools.pairwise(bounds), chosen, strict=True):
        values = height + (lo + hi) / 2 * slope
        assert values[own_line] == pytest.approx(values.max())


START = np.sqrt([2.0, 3.0, 5.0, 7.0])  # no two candidates of different features have the same score


class Pool:
    """Lists that show only the k best candidates of weights asked about, and those shown before."""

    def __init__(self, whole, k):
        self.whole, self.k, self.shown = whole, k, np.zeros(len(whole.features), dtype=bool)
        self.asked = []

    def __call__(self, weights):
        before = self.shown.copy()
        for lo, hi in itertools.pairwise(self.whole.offsets):
            best = np.argsort(-(self.whole.features[lo:hi] @ weights), kind="stable")[: self.k]
            self.shown[lo + best] = True
        ends = np.concatenate([[0], np.cumsum(self.shown)])[self.whole.offsets]
        shown = Lists(ends, self.whole.features[self.shown], self.whole.counts[self.shown], self.whole.error)
        self.asked.append((shown, weights))
        return shown, int((self.shown & ~before).sum())


def trained(pool, seed=0, max_iter=50, **options):
    seen = []
    start = START[: pool.whole.features.shape[1]]
    result = MERT(**options).minimise(
        pool, start, max_iter=max_iter, seed=seed, callback=lambda state: seen.append((state.iteration, state.value))
    )
    return result, seen


@settings(max_examples=60, deadline=None)
@given(own=lists(), k=st.integers(1, 3), restarts=st.integers(0, 4))
def test_the_error_never_rises_and_is_that_of_all_candidates(own, k, restarts):
    pool = Pool(own, k)
    result, seen = trained(pool, restarts=restarts)
    assert result.converged and result.message == "converged: the n-best lists hold nothing new"
    values = [own.at(START[: own.features.shape[1]]), *(value for _, value in seen)]
    assert all(a >= b for a, b in itertools.pairwise(values))
    assert [iteration for iteration, _ in seen] == list(range(1, len(seen) + 1))
    assert result.value == pytest.approx(error_by_hand(own, result.weights))
    assert np.linalg.norm(result.weights) == pytest.approx(1.0)
    best = pool.asked[0][1]
    for (shown, before), (_, after) in itertools.pairwise(pool.asked):
        best = min(best, before, key=own.at)
        assert shown.at(after) <= shown.at(best)  # on the same lists


@settings(max_examples=30, deadline=None)
@given(own=lists(n_features=2))
def test_of_two_weights_the_best_on_the_circle_are_found(own):
    """Restarts are not needed: the line through the coordinates crosses every direction but those opposite to it."""
    result, _ = trained(Pool(own, 10), restarts=6)
    angles = np.linspace(0.0, 2 * np.pi, 400, endpoint=False) + 0.00123
    everywhere = [error_by_hand(own, np.array([np.cos(a), np.sin(a)])) for a in angles]
    assert result.value <= min(everywhere) + 1e-9


def test_the_same_seed_gives_the_same_weights_and_rounds_are_limited():
    rng = np.random.default_rng(5)
    offsets, features = np.arange(0, 801, 20), rng.normal(size=(800, 4))
    own = Lists(offsets, features, rng.random((800, 1)), mean_error)
    one, again, other = (trained(Pool(own, 2), seed=seed)[0].weights for seed in (1, 1, 2))
    assert np.array_equal(one, again) and not np.array_equal(one, other)
    stopped, seen = trained(Pool(own, 2), max_iter=1)
    assert not stopped.converged and len(seen) == 1 and stopped.message == "stopped after 1 round (max_iter 1)"
    none, seen = trained(Pool(own, 2), max_iter=0)
    assert not seen and none.value == own.at(START)
    assert trained(Pool(own, 2), seed=1)[0].value < own.at(START)
