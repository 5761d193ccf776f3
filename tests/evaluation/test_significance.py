"""Counts by sequence add up, and the bootstrap tells chance from difference."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loglinear.errors import OptionError
from loglinear.evaluation import (
    accuracy_report,
    chunk_counts,
    chunk_scores,
    confusions,
    holm,
    label_counts,
    mcnemar,
    paired_bootstrap,
    paired_t_test,
)
from loglinear.evaluation.significance import f1, precision, recall

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


@given(labels=pairs)
def test_counts_of_labels_add_up_to_the_accuracy(labels):
    gold, predicted = [g for g, _ in labels], [p for _, p in labels]
    counts, report = label_counts(gold, predicted), accuracy_report(gold, predicted)
    assert counts.sum(axis=0).tolist() == [report.tokens, report.tokens, report.correct]
    assert [row.tolist() for row in counts] == [
        [len(g), len(g), sum(a == b for a, b in zip(g, p, strict=True))] for g, p in labels
    ]
    assert recall(counts.sum(axis=0)) == pytest.approx(report.accuracy)
    names, table = confusions(gold, predicted)
    assert names == sorted(set().union(*gold, *predicted)) and table.sum() == report.tokens
    assert np.trace(table) == report.correct


@pytest.mark.parametrize("figure", ["f1", "precision", "recall"])
def test_the_bootstrap_of_each_figure_agrees_with_drawing_by_hand(figure):
    rng = np.random.default_rng(4)
    one, other = random_counts(rng, 30, 0.8), random_counts(rng, 30, 0.75)
    other[:, 1] += 1
    of = {"f1": f1, "precision": precision, "recall": recall}[figure]
    found = paired_bootstrap(one, other, 400, seed=5, figure=figure)
    whole = chosen = 0
    drawing = np.random.default_rng(6)
    for _ in range(4000):
        rows = drawing.integers(0, 30, 30)
        chosen += of(other[rows].sum(axis=0)) >= of(one[rows].sum(axis=0))
        whole += 1
    assert (found.first, found.second) == (of(one.sum(axis=0)), of(other.sum(axis=0)))
    assert found.p == pytest.approx(chosen / whole, abs=0.05)
    with pytest.raises(OptionError, match="'bleu'"):
        paired_bootstrap(one, other, figure="bleu")


tables = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60)


@given(right=tables)
def test_mcnemar_is_that_of_statsmodels(right):
    from statsmodels.stats.contingency_tables import mcnemar as referee

    one, other = np.array([a for a, _ in right]), np.array([b for _, b in right])
    table = [[np.sum(one & other), np.sum(one & ~other)], [np.sum(~one & other), np.sum(~one & ~other)]]
    assert mcnemar(one, other).p == pytest.approx(referee(table, exact=True).pvalue)
    assert mcnemar(one, other) == mcnemar(other, one)
    if (one != other).any():
        found, known = mcnemar(one, other, exact=False), referee(table, exact=False, correction=True)
        assert found.p == pytest.approx(known.pvalue) and found.statistic == pytest.approx(known.statistic)
    else:
        assert mcnemar(one, other, exact=False).p == 1.0


numbers = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=40)


@given(values=numbers)
def test_the_t_test_is_that_of_scipy(values):
    from scipy.stats import ttest_rel

    one, other = np.array(values).T
    found = paired_t_test(one, other)
    if np.ptp(one - other):
        known = ttest_rel(one, other)
        assert found.statistic == pytest.approx(known.statistic) and found.p == pytest.approx(known.pvalue)
    else:
        assert found.statistic is None and found.p == float((one == other).all())


@given(p=st.lists(st.floats(0, 1), min_size=1, max_size=8), level=st.floats(0.001, 0.2))
def test_the_correction_for_many_tests_rejects_what_stepping_down_does(p, level):
    """Holm's procedure as it is written: the least p first, each against a level that grows, until one fails."""
    order, rejected = sorted(range(len(p)), key=p.__getitem__), set()
    for step, number in enumerate(order):
        if p[number] * (len(p) - step) > level:
            break
        rejected.add(number)
    assert {number for number, corrected in enumerate(holm(p)) if corrected <= level} == rejected
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def test_one_sequence_says_nothing_and_different_ones_cannot_be_compared():
    assert paired_t_test([1.0], [5.0]).p == 1.0
    for test in (mcnemar, paired_t_test):
        with pytest.raises(ValueError, match="same sequences"):
            test([1, 0], [1])
