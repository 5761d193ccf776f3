"""The objective: its gradient equals finite differences, its value does not depend on threads, blocks or shards."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.criteria.criterion import make_criterion
from loglinear.data.columns.corpus import Columns
from loglinear.features.templates.encoder import TemplateEncoder
from loglinear.features.templates.language import TemplateSet
from loglinear.optimizers import objective as objectives
from loglinear.optimizers.objective import Cuts, Objective, shards
from loglinear.structures.chain.features import ChainFeatures, Penalties
from loglinear.structures.gold import Gold

TEMPLATE = "U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nB1:%x[0,0]\nB\n"


def random_problem(rng, n_sequences, order=1, partial=False, states="observed", transitions="observed", n_labels=3):
    rows = [[str(rng.integers(4)) for _ in range(rng.integers(1, 6))] for _ in range(n_sequences)]
    corpus = Columns.from_rows(rows)
    encoder = TemplateEncoder(TemplateSet.parse(TEMPLATE))
    encoded = encoder.fit(corpus)
    labels = rng.integers(0, n_labels, corpus.n_tokens).astype(np.int32)
    gold = Gold(labels)
    if partial:
        allowed = (rng.random((corpus.n_tokens, n_labels)) < 0.5).astype(np.uint8)
        allowed[np.arange(corpus.n_tokens), labels] = 1
        gold = Gold(np.where(allowed.sum(axis=1) == 1, labels, -1).astype(np.int32), allowed)
    features = ChainFeatures.collect(encoded, encoder.n_attributes, gold, n_labels, order, states, transitions)
    return features, encoded, gold


@settings(max_examples=30)
@given(
    st.integers(0, 2**32 - 1), st.sampled_from([1, 2]), st.booleans(),
    st.sampled_from(["observed", "all"]), st.sampled_from(["observed", "all", "none"]),
)  # fmt: skip
def test_the_gradient_equals_finite_differences(seed, order, partial, states, transitions):
    rng = np.random.default_rng(seed)
    features, encoded, gold = random_problem(rng, 3, order, partial, states, transitions)
    weights = rng.random(3) + 0.5
    function = Objective(features, encoded, gold, make_criterion("cll"), Penalties.none(3), 0.3, weights)
    w = rng.normal(size=features.n_features)
    _, gradient = function(w)
    gradient = gradient.copy()
    direction = rng.normal(size=len(w))
    step = 1e-5
    slope = (function(w + step * direction)[0] - function(w - step * direction)[0]) / (2 * step)
    assert gradient @ direction == pytest.approx(slope, rel=1e-5, abs=1e-5)


def test_the_value_is_the_same_for_any_number_of_threads(monkeypatch):
    monkeypatch.setattr(objectives, "TOKENS_PER_SHARD", 20)
    rng = np.random.default_rng(3)
    features, encoded, gold = random_problem(rng, 200, order=2)
    w = rng.normal(size=features.n_features)
    results = []
    for n_threads in (1, 2, 5):
        function = Objective(features, encoded, gold, make_criterion("cll"), Penalties.none(3), 1.0, None, n_threads)
        value, gradient = function(w)
        results.append((value, gradient.tobytes()))
    assert len(function.cuts.double) > 1
    assert results[0] == results[1] == results[2]


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=60))
def test_shards_cover_all_sequences_once(lengths):
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    cut = shards(offsets)
    assert [i for first, end in cut for i in range(first, end)] == list(range(len(lengths)))
    assert len(cut) <= objectives.MOST_SHARDS


def test_blocks_cover_all_sequences_once():
    rng = np.random.default_rng(0)
    features, encoded, _ = random_problem(rng, 50)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 3000, 50))]).astype(np.int64)
    blocks = features.blocks(offsets, 3, 47)
    assert [i for first, end in blocks for i in range(first, end)] == list(range(3, 47))
    assert all(offsets[end] - offsets[first] <= 4096 or end == first + 1 for first, end in blocks)
    assert encoded.n_sequences == 50


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=60), st.integers(1_000, 50_000))
def test_many_shards_are_added_up_as_few_are(lengths, size):
    """Cuts of single precision are cuts of double precision, however many there are."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    before, objectives.TOKENS_OF_LARGE = objectives.TOKENS_OF_LARGE, size
    try:
        double, single = Cuts.by_size(offsets)
    finally:
        objectives.TOKENS_OF_LARGE = before
    if offsets[-1] >= 2 * objectives.TOKENS_PER_SHARD * len(double) and len(double) == 2 * len(single):
        assert {end for _, end in single} <= {end for _, end in double}


@pytest.mark.parametrize("criterion", ["cll", "f-measure"])
def test_waves_of_gradients_give_the_sums_of_all_at_once(criterion, monkeypatch):
    monkeypatch.setattr(objectives, "TOKENS_PER_SHARD", 20)
    rng = np.random.default_rng(3)
    features, encoded, gold = random_problem(rng, 200)
    w = rng.normal(size=features.n_features)

    def found(single):
        made = (
            make_criterion(criterion) if criterion == "cll" else make_criterion(criterion).for_labels(["O", "A", "B"])
        )
        function = Objective(features, encoded, gold, made, Penalties.none(3), 1.0, single_precision=single)
        value, gradient = function(w)
        return value, gradient.tobytes()

    whole = [found(single) for single in (False, True)]
    monkeypatch.setattr(objectives, "n_alive", lambda runs, n_threads: min(len(runs), 3))
    assert [found(single) for single in (False, True)] == whole
