"""Laws of the operations on segments, each against the enumeration of all segmentations."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.errors import DataError, InfeasibleError, OptionError
from loglinear.structures.gold import Gold
from loglinear.structures.segments.scheme import SegmentScheme
from loglinear.structures.segments.structure import Segments, SegmentScores
from problems.segments import LABELS, batches, random_scores, schemes
from referees.segments import BruteForce, referees, score, scores_of, segmentations, token_labels

few = settings(max_examples=6 if numba.config.DISABLE_JIT else 60, deadline=None)
seeds = st.integers(0, 2**32 - 1)
compiled_only = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="too many segmentations for plain Python")


def raises_if_infeasible(brute: list[BruteForce], operation) -> bool:
    """Whether some sequence has no segmentation; the operation must then name the first such one."""
    infeasible = [i for i, one in enumerate(brute) if not one.feasible]
    if infeasible:
        with pytest.raises(InfeasibleError) as caught:
            operation()
        assert caught.value.sequence == infeasible[0]
    return bool(infeasible)


def close(actual: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-9)


def random_labels(rng: np.random.Generator, segments: Segments) -> np.ndarray | None:
    """A legal labelling of the batch, each sequence's drawn from all it has; None if one has none."""
    labels: list[int] = []
    for n in np.diff(segments.offsets).tolist():
        every = list(segmentations(segments.scheme, n))
        if not every:
            return None
        labels += token_labels(segments.scheme, every[rng.integers(len(every))])
    return np.array(labels, dtype=np.int32)


@few
@given(batches(), seeds)
def test_score_is_the_sum_of_the_parts(batch, seed):
    segments, scores = batch
    labels = random_labels(np.random.default_rng(seed), segments)
    if labels is None:
        return
    expected = []
    for s, (first, end) in enumerate(pairwise(segments.offsets.tolist())):
        own = next(
            one
            for one in segmentations(segments.scheme, end - first)
            if token_labels(segments.scheme, one) == tuple(labels[first:end])
        )
        expected.append(score(segments, scores_of(segments, scores, s), own))
    close(segments.score(scores, labels), np.array(expected))


@few
@given(batches())
def test_log_partition_sums_all_segmentations(batch):
    segments, scores = batch
    close(segments.log_partition(scores), np.array([one.log_z for one in referees(segments, scores)]))


@few
@given(batches())
def test_viterbi_finds_the_best_score_and_a_labelling_that_has_it(batch):
    segments, scores = batch
    brute = referees(segments, scores)
    if raises_if_infeasible(brute, lambda: segments.viterbi(scores)):
        return
    labels, best = segments.viterbi(scores)
    close(best, np.array([one.values.max() for one in brute]))
    close(segments.score(scores, labels), best)


@few
@given(batches(), st.booleans())
def test_expectations_are_the_weighted_expected_parts(batch, weighted):
    segments, scores = batch
    brute = referees(segments, scores)
    if raises_if_infeasible(brute, lambda: segments.expectations(scores)):
        return
    weights = np.linspace(-1.0, 2.0, segments.n_sequences) if weighted else np.ones(segments.n_sequences)
    log_z, expected = segments.expectations(scores, weights if weighted else None)
    close(log_z, np.array([one.log_z for one in brute]))
    each = [one.expectations() for one in brute]
    for name in ("transition", "start", "stop", "length"):
        total = sum(w * getattr(one, name) for w, one in zip(weights, each, strict=True))
        close(getattr(expected, name), total + np.zeros_like(getattr(scores, name)))
    assert (expected.segment is None) == (scores.segment is None)
    for i, one in enumerate(each):
        rows = slice(segments.offsets[i], segments.offsets[i + 1])
        close(expected.emission[rows], weights[i] * one.emission)
        if expected.segment is not None:
            close(expected.segment[rows], weights[i] * one.segment)


@few
@given(batches())
def test_marginals_of_spans_tokens_and_edges_are_those_of_the_enumeration_and_agree(batch):
    segments, scores = batch
    brute = referees(segments, scores)
    if raises_if_infeasible(brute, lambda: segments.edge_marginals(scores)):
        return
    edge, span = segments.edge_marginals(scores), segments.segment_marginals(scores)
    if brute:
        close(edge, np.concatenate([one.edges() for one in brute]))
        close(span, np.concatenate([one.expectations().segment for one in brute]))
    node = segments.expectations(scores)[1].emission
    close(node.sum(axis=1), np.ones(segments.n_positions))
    later = np.setdiff1d(np.arange(segments.n_positions), segments.offsets[:-1])
    close(edge[later].sum(axis=2), span[later - 1].sum(axis=1))  # where one segment ends another begins
    assert not edge[segments.offsets[:-1]].any()


@few
@given(batches(), st.integers(1, 12))
def test_k_best_is_the_top_of_the_enumeration(batch, k):
    segments, scores = batch
    brute = referees(segments, scores)
    if raises_if_infeasible(brute, lambda: segments.k_best(scores, k)):
        return
    found, viterbi = segments.k_best(scores, k), segments.viterbi(scores)[0]
    assert len(found) == len(brute)
    for i, (one, (labels, values)) in enumerate(zip(brute, found, strict=True)):
        close(values, one.k_best(k))
        assert (np.diff(values) <= 0.0).all()
        assert len({tuple(row) for row in labels.tolist()}) == len(labels)
        alone = Segments([0, labels.shape[1]], segments.scheme)
        close(np.array([alone.score(one.scores, row)[0] for row in labels]), values)
        np.testing.assert_array_equal(labels[0], viterbi[segments.offsets[i] : segments.offsets[i + 1]])


@few
@given(batches())
def test_posterior_decoding_has_the_most_expected_correct_labels_of_the_possible_labellings(batch):
    segments, scores = batch
    brute = referees(segments, scores)
    if raises_if_infeasible(brute, lambda: segments.posterior_decode(scores)):
        return
    labels, correct = segments.posterior_decode(scores)
    close(correct, np.array([one.most_correct() for one in brute]))
    assert (segments.score(scores, labels) > -np.inf).all()


@few
@given(batches(), st.integers(0, 5), seeds)
def test_draws_are_possible_labellings(batch, n, seed):
    segments, scores = batch
    brute = referees(segments, scores)
    if raises_if_infeasible(brute, lambda: segments.sample(scores, n, np.random.default_rng(seed))):
        return
    draws = segments.sample(scores, n, np.random.default_rng(seed))
    assert draws.shape == (n, segments.n_positions) and draws.dtype == np.int32
    for labels in draws:
        assert (segments.score(scores, labels) > -np.inf).all()
    np.testing.assert_array_equal(draws, segments.sample(scores, n, np.random.default_rng(seed)))


@pytest.mark.parametrize("name", LABELS)
@pytest.mark.parametrize("apart", [0.0, 400.0])
def test_draws_have_the_frequencies_of_the_model(name, apart):
    """Also where labels are so far apart that sums over them are made in logarithms."""
    n = 500 if numba.config.DISABLE_JIT else 40_000
    rng, scheme = np.random.default_rng(3), SegmentScheme.from_labels(LABELS[name], name, 3)
    scores, gap = random_scores(rng, 4, scheme, scale=0.7), apart * np.arange(scheme.n_labels)
    scores = replace(  # what a segment loses by its label it gets back where it ends
        scores, length=scores.length - gap, transition=scores.transition + gap[:, None], stop=scores.stop + gap
    )
    segments = Segments([0, 4], scheme)
    brute = BruteForce(segments, scores)
    draws = segments.sample(scores, n, np.random.default_rng(4))
    number = {tuple(labels.tolist()): i for i, labels in enumerate(brute.labels)}
    counts = np.bincount([number[tuple(row)] for row in draws.tolist()], minlength=len(number))
    expected = n * brute.probabilities
    pooled = expected >= 5.0  # the rest count as one
    observed = np.append(counts[pooled], counts[~pooled].sum())
    wanted = np.append(expected[pooled], max(expected[~pooled].sum(), 1e-9))
    degrees = len(wanted) - 1
    chi_square = ((observed - wanted) ** 2 / np.maximum(wanted, 1.0)).sum()
    assert chi_square < degrees + 5 * np.sqrt(2 * degrees)


@few
@given(batches(), seeds)
def test_add_labelling_is_the_gradient_of_score(batch, seed):
    """score(y) is linear: it equals the parts of y, counted, times the scores."""
    segments, scores = batch
    scores = SegmentScores(**{name: np.nan_to_num(part, neginf=-3.0) for name, part in scores.parts().items()})
    rng = np.random.default_rng(seed)
    labels, weights = random_labels(rng, segments), rng.normal(size=segments.n_sequences)
    if labels is None:
        return
    parts = scores.zeros_like()
    segments.add_labelling(parts, labels, weights)
    total = sum(float((part * scores.parts()[name]).sum()) for name, part in parts.parts().items())
    assert total == pytest.approx(float(weights @ segments.score(scores, labels)), rel=1e-9, abs=1e-6)


@few
@given(batches(), seeds, st.sampled_from([1e-3, 1.0, 1e6]), st.booleans())
def test_covariance_is_that_of_the_enumeration(batch, seed, size, weighted):
    segments, scores = batch
    rng = np.random.default_rng(seed)
    cost = rng.normal(size=scores.emission.shape) * size
    brute = referees(segments, scores)
    if raises_if_infeasible(brute, lambda: segments.cost_covariance(scores, cost)):
        return
    weights = rng.normal(size=segments.n_sequences) if weighted else np.ones(segments.n_sequences)
    mean, found = segments.cost_covariance(scores, cost, weights if weighted else None)
    near = {"rtol": 1e-9, "atol": 1e-9 * np.abs(cost).max(initial=0.0)}
    total = scores.zeros_like()
    for i, one in enumerate(brute):
        rows = slice(segments.offsets[i], segments.offsets[i + 1])
        own_mean, covariance = one.covariance(cost[rows])
        np.testing.assert_allclose(mean[i], own_mean, **near)
        for name, part in covariance.parts().items():
            if name in ("emission", "segment"):
                if getattr(total, name) is not None:
                    getattr(total, name)[rows] += weights[i] * part
            else:
                getattr(total, name)[...] += weights[i] * part
    assert found.parts().keys() == scores.parts().keys()
    for name, part in found.parts().items():
        np.testing.assert_allclose(part, total.parts()[name], err_msg=name, **near)


@compiled_only
@pytest.mark.parametrize("name", LABELS)
@pytest.mark.parametrize("scale", [1.0, 200.0])
def test_all_segmentations_of_seven_tokens(name, scale):
    """Sums, maxima and marginals where segments of several limits can lie in many ways."""
    rng, scheme = np.random.default_rng(7), SegmentScheme.from_labels(LABELS[name], name)
    scheme = scheme.with_limits(np.array([4, 2, 3, 5, 3])[: scheme.n_labels])
    segments, scores = Segments([0, 7], scheme), random_scores(rng, 7, scheme, scale=scale)
    brute = BruteForce(segments, scores)
    assert len(brute.values) > 200
    log_z, expected = segments.expectations(scores)
    close(log_z, np.array([brute.log_z]))
    for part, array in brute.expectations().parts().items():
        close(expected.parts()[part], array)
    close(segments.edge_marginals(scores), brute.edges())
    ((labels, values),) = segments.k_best(scores, 50)
    close(values, brute.k_best(50))
    order = np.argsort(-brute.values)[:50]
    assert labels.tolist() == [brute.labels[i].tolist() for i in order]
    cost = rng.random(scores.emission.shape)
    mean, covariance = segments.cost_covariance(scores, cost)
    expected_mean, expected = brute.covariance(cost)
    close(mean, np.array([expected_mean]))
    for part, array in expected.parts().items():
        close(covariance.parts()[part], array)


@few
@given(batches(gaps=(0.0,)), seeds, st.sampled_from([1.0, 1e8]))
def test_a_cost_that_all_labels_share_changes_no_covariance(batch, seed, size):
    segments, scores = batch
    if raises_if_infeasible(referees(segments, scores), lambda: segments.viterbi(scores)):
        return
    rng = np.random.default_rng(seed)
    cost, shared = rng.random(scores.emission.shape), rng.normal(size=(segments.n_positions, 1)) * size
    mean, plain = segments.cost_covariance(scores, cost)
    shifted, same = segments.cost_covariance(scores, cost + shared)
    sums = np.add.reduceat(shared[:, 0], segments.offsets[:-1]) if segments.n_sequences else np.zeros(0)
    np.testing.assert_allclose(shifted, mean + sums, rtol=1e-9, atol=1e-9)
    for name, part in plain.parts().items():
        np.testing.assert_allclose(same.parts()[name], part, rtol=1e-6, atol=1e-7 * max(1.0, size * 1e-8))


@pytest.mark.parametrize("name", [None, *LABELS])
def test_expectations_and_covariances_are_gradients(name):
    rng = np.random.default_rng(11)
    scheme = SegmentScheme.from_labels(LABELS[name] if name else ["a", "b", "c"], name, 3)
    segments, scores = Segments([0, 1, 4, 8], scheme), random_scores(rng, 8, scheme)
    weights, cost = np.array([0.5, 1.0, -2.0]), rng.random((8, scheme.n_token_labels))
    gradient = segments.expectations(scores, weights)[1].parts()
    covariance = segments.cost_covariance(scores, cost, weights)[1].parts()
    for part, array in scores.parts().items():
        for place in list(np.ndindex(array.shape))[:: 1 if part != "segment" else 7]:
            kept, values, means = array[place], [], []
            for step in (1e-5, -1e-5):
                array[place] = kept + step
                values.append(weights @ segments.log_partition(scores))
                means.append(weights @ segments.cost_covariance(scores, cost)[0])
            array[place] = kept
            assert gradient[part][place] == pytest.approx((values[0] - values[1]) / 2e-5, abs=1e-8)
            assert covariance[part][place] == pytest.approx((means[0] - means[1]) / 2e-5, abs=1e-7)


@few
@given(schemes(), st.integers(1, 5), seeds)
def test_the_possible_parts_are_those_of_the_segmentations_that_the_annotation_allows(scheme, n, seed):
    rng = np.random.default_rng(seed)
    allowed = (rng.random((n, scheme.n_token_labels)) < 0.6).astype(np.uint8)
    settled = np.where(allowed.sum(axis=1) == 1, allowed.argmax(axis=1), -1).astype(np.int32)
    log_n, parts = Segments([0, n], scheme).possible(Gold(settled, allowed))
    fitting = [
        one
        for one in segmentations(scheme, n)
        if all(allowed[t, label] for t, label in enumerate(token_labels(scheme, one)))
    ]
    assert np.exp(log_n[0]) == pytest.approx(len(fitting))
    spans = {(end - 1, end - start - 1, y) for one in fitting for start, end, y in one}
    assert set(zip(*map(np.ndarray.tolist, np.nonzero(parts.segment)), strict=True)) == spans
    pairs = {(a[2], b[2]) for one in fitting for a, b in pairwise(one)}
    assert set(zip(*map(np.ndarray.tolist, np.nonzero(parts.transition)), strict=True)) == pairs


def test_an_empty_batch_gives_empty_answers():
    scheme = SegmentScheme.from_labels(LABELS["bio"], "bio", 3)
    segments = Segments([0], scheme)
    for with_segments in (False, True):
        scores = random_scores(np.random.default_rng(0), 0, scheme, with_segments)
        assert segments.log_partition(scores).shape == (0,)
        assert segments.viterbi(scores)[0].shape == (0,)
        assert segments.posterior_decode(scores)[1].shape == (0,)
        assert segments.k_best(scores, 2) == []
        assert segments.edge_marginals(scores).shape == (0, 3, 3)
        assert segments.segment_marginals(scores).shape == (0, 3, 3)
        expected = segments.expectations(scores)[1]
        assert not expected.transition.any() and (expected.segment is not None) == with_segments


def test_scores_add_and_subtract_part_by_part():
    rng, scheme = np.random.default_rng(0), SegmentScheme.from_labels(LABELS["bio"], "bio", 3)
    plain, rich = random_scores(rng, 3, scheme, segments=False), random_scores(rng, 3, scheme)
    total = plain.plus(rich)
    np.testing.assert_array_equal(total.emission, plain.emission + rich.emission)
    np.testing.assert_array_equal(total.segment, rich.segment)
    total.subtract(rich)
    close(total.transition, plain.transition)
    assert not total.segment.any()
    with pytest.raises(DataError, match="segment"):
        plain.subtract(rich)
    costs = rng.random(plain.emission.shape)
    np.testing.assert_array_equal(plain.with_costs(costs).emission, plain.emission + costs)
    assert plain.with_costs(costs).transition is plain.transition
    assert not any(part.any() for part in rich.zeros_like().parts().values())


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("emission", lambda a: a[:-1], r"emission.*\[3, 5\], not \[4, 5\]"),
        ("transition", lambda a: a[:1], "transition"),
        ("length", lambda a: a[:1], "length"),
        ("segment", lambda a: a[:, :1], "segment"),
        ("emission", lambda a: a * np.nan, "emission.*NaN"),
        ("segment", lambda a: a + np.inf, "segment.*inf"),
        ("emission", lambda a: a.astype(str), "emission must be numbers"),
    ],
)
def test_scores_that_do_not_fit_are_refused(part, change, message):
    scheme = SegmentScheme.from_labels(LABELS["bio"], "bio", 2)
    scores, segments = random_scores(np.random.default_rng(0), 4, scheme), Segments([0, 1, 4], scheme)
    scores = replace(scores, **{part: change(getattr(scores, part))})
    for operation in (segments.log_partition, segments.viterbi, segments.expectations):
        with pytest.raises(DataError, match=message):
            operation(scores)


@pytest.mark.parametrize("offsets", [[], [1, 2], [0, 2, 2], [0, 3, 1], [[0, 1]], [0.5, 1.0]])
def test_offsets_that_do_not_ascend_from_zero_are_refused(offsets):
    with pytest.raises(DataError):
        Segments(offsets, SegmentScheme.from_labels(["a", "b"]))


def test_labels_weights_and_masks_that_do_not_fit_are_refused():
    scheme = SegmentScheme.from_labels(["B", "I", "O"], "bio", 2)
    segments, scores = Segments([0, 1, 4], scheme), random_scores(np.random.default_rng(0), 4, scheme)
    for labels, message in [
        ([0, 1, 3, 0], "label 3 at position 2"),
        ([0, -1, 0, 0], "label -1"),
        ([0], "shape"),
        ([0, 1, 0, 0], r"sequence 1, position 0 \(from 0\): the label 'I' cannot begin a segment"),
        ([2, 0, 1, 1], r"sequence 1, position 0 \(from 0\): the segment of 'chunk'.*more than 2 tokens"),
    ]:
        with pytest.raises(DataError, match=message):
            segments.score(scores, labels)
        with pytest.raises(DataError, match=message):
            segments.add_labelling(scores.zeros_like(), labels, [1.0, 1.0])
    with pytest.raises(DataError, match="weights"):
        segments.expectations(scores, [1.0])
    with pytest.raises(DataError, match="finite"):
        segments.expectations(scores, [1.0, np.nan])
    with pytest.raises(DataError, match="allowed"):
        segments.restrict(scores, np.ones((4, 2)))
    with pytest.raises(DataError, match="costs"):
        segments.cost_covariance(scores, np.full((4, 3), np.inf))
    with pytest.raises(OptionError, match="k = 0"):
        segments.k_best(scores, 0)
    with pytest.raises(OptionError, match="negative"):
        segments.sample(scores, -1, np.random.default_rng(0))
    frozen = scores.zeros_like()
    frozen.emission.flags.writeable = False
    with pytest.raises(DataError, match=r"emission.*writable"):
        segments.add_labelling(frozen, [0, 0, 0, 0], [1.0, 1.0])


def test_any_kind_of_number_array_is_taken_and_none_is_changed():
    scheme = SegmentScheme.from_labels(LABELS["iob1"], "iob1", 3)
    scores = random_scores(np.random.default_rng(0), 4, scheme)
    segments, before = Segments(np.array([0, 1, 4], dtype=np.int32), scheme), scores.plus(scores.zeros_like())
    odd = replace(scores, emission=np.asfortranarray(scores.emission))
    odd.start.flags.writeable = False
    close(segments.log_partition(odd), segments.log_partition(before))
    segments.expectations(odd)
    segments.cost_covariance(odd, np.ones((4, 5), dtype=np.int32))
    segments.restrict(odd, np.zeros((4, 5)))
    for name, part in before.parts().items():
        np.testing.assert_array_equal(odd.parts()[name], part)
