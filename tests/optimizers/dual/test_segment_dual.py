"""Segments in single precision and by dual ascent: losses, gradients, what ties weights and spans, whole trainings.

The laws of dual ascent over any layout are in ``test_local_dual.py``.
"""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear import Tagger, read_columns
from loglinear.criteria.costs import Cost
from loglinear.criteria.criterion import make_criterion
from loglinear.data.corpora.bundled import bundled_text
from loglinear.errors import OptionError
from loglinear.optimizers.dual.chain import DualAscent, _start, dual_unsupported_reason
from loglinear.optimizers.objective import Objective
from loglinear.structures.gold import Gold
from loglinear.structures.segments.padded import SegmentLayout
from problems.segments import segment_objectives


def quick(objective):
    """The same problem in single precision."""
    return Objective(
        objective.features, objective.corpus, objective.gold, objective.criterion, objective.penalties, objective.l2,
        objective.sequence_weights, single_precision=True,
    )  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(objective=segment_objectives(), seed=st.integers(0, 1000), scale=st.sampled_from([0.1, 1.0, 5.0]))
def test_value_and_gradient_are_those_of_double_precision(objective, seed, scale):
    weights = scale * np.random.default_rng(seed).normal(size=objective.features.n_features)
    value, gradient = objective(weights)
    size = max(scale, 1.0) * objective.sequence_weights.max()
    single = quick(objective)
    assert single.value(weights) == pytest.approx(value, rel=1e-5, abs=1e-4 * size)
    found, slope = single(weights)
    assert single._quick is not None
    assert found == pytest.approx(value, rel=1e-5, abs=1e-4 * size)
    np.testing.assert_allclose(slope, gradient, rtol=1e-3, atol=2e-4 * size)


@settings(max_examples=60, deadline=None)
@given(objective=segment_objectives(), passes=st.integers(0, 4))
def test_the_weights_are_a_function_of_what_is_kept(objective, passes):
    """w = -(1 / 2 l2) sum_i c_i (E_alpha_i[f] - f(gold_i)), and what is kept are probabilities."""
    zero = np.zeros(objective.features.n_features)
    state = DualAscent(max_iter=passes, tolerance=0.0).minimise(objective, zero).state
    features, corpus = objective.features, objective.corpus
    scheme, cells = features.scheme, objective.layout.corpus.cells
    order = np.argsort(-scheme.limits, kind="stable")
    structure = features.structure(corpus, 0, corpus.n_sequences)
    expected = np.zeros(features.n_features)
    start = _start(objective.layout)
    for i in range(corpus.n_sequences):
        first, end = int(corpus.offsets[i]), int(corpus.offsets[i + 1])
        parts = structure._blank(True)
        for t in range(first, end):
            for m in range(min(t + 1 - first, scheme.n_lengths)):
                own = slice(cells.pointer[m], cells.pointer[m] + cells.counts[m])
                change = state.alpha[t, own] - start.alpha[t, own]
                assert (state.alpha[t, own] > -1e-5).all() and (state.alpha[t, own] < 1.0 + 1e-5).all()
                for y, mass in zip(order, change, strict=False):
                    parts.segment[t, m, y] += mass
                    parts.length[m, y] += mass
                    if m == 0:
                        parts.emission[t, scheme.single[y]] += mass if scheme.single[y] >= 0 else 0.0
                    else:
                        parts.emission[t, scheme.last[y]] += mass
                        parts.emission[t - m, scheme.first[y]] += mass
                        parts.emission[t - m + 1 : t, scheme.inner[y]] += mass
        gradient = features.dense_gradient()
        gradient.add(corpus, 0, corpus.n_sequences, type(objective_scores(objective))(*parts))
        vector = gradient.finish().copy()
        transitions = features.slices[3]
        vector[transitions] += state.alpha_transitions[i] - start.alpha_transitions[i]
        expected -= objective.sequence_weights[i] * vector / (2.0 * objective.l2)
    np.testing.assert_allclose(state.weights, expected, atol=2e-4 * max(1.0, np.abs(expected).max()))


def objective_scores(objective):
    """Part scores of zero weights."""
    features = objective.features
    laid_out = features.lay_out(np.zeros(features.n_features), objective.penalties)
    return features.scores(laid_out, objective.corpus, 0, objective.corpus.n_sequences)


@settings(max_examples=20, deadline=None)
@given(objective=segment_objectives())
def test_what_it_does_not_support_is_left_to_others(objective):
    features, gold, criterion = objective.features, objective.gold, objective.criterion
    assert dual_unsupported_reason(criterion, features, gold, 1.0) is None
    assert "L2" in dual_unsupported_reason(criterion, features, gold, 0.0)
    allowed = np.ones((len(gold.labels), features.scheme.n_token_labels), dtype=np.uint8)
    assert "one label" in dual_unsupported_reason(criterion, features, Gold(gold.labels, allowed), 1.0)
    cost = Cost(np.zeros((4, features.scheme.n_token_labels, features.scheme.n_token_labels)))
    for name in ("risk", "jrb"):
        reason = dual_unsupported_reason(make_criterion(name, cost), features, gold, 1.0)
        assert reason == "it is for cll and softmax-margin of segments"


def bundled(labels=None):
    """The bundled corpus, labels other than these being O."""
    rows = (row.rpartition(" ") for row in bundled_text("train", "chunk").split("\n"))
    text = "\n".join(
        rest + gap + (label if not labels or label in labels else "O") if rest else "" for rest, gap, label in rows
    )
    return read_columns(io.BytesIO(text.encode()))


@pytest.fixture(scope="module")
def chunking():
    """So few labels that their rows are as wide as those of random problems, for which the kernels are compiled."""
    return bundled({"B-NP", "I-NP", "B-VP", "I-VP", "B-PP", "I-PP"})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"criterion": "softmax-margin", "cost": "recall:3"},
        {"l1": 0.1},
        {"l2": 0.1},
        {"hash_bits": 12},
        {"segment_features": "none"},
        {"constraints": "bio", "max_length": 12},
    ],
)
def test_it_is_the_default_and_finds_the_minimum(chunking, options):
    check_that_it_finds_the_minimum(chunking, options)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"criterion": "softmax-margin", "cost": "recall:3"}, {"l1": 0.1}])
def test_with_wider_rows_it_finds_the_minimum_too(options):
    check_that_it_finds_the_minimum(bundled(), options)


def check_that_it_finds_the_minimum(corpus, options):
    options = {"structure": "segments", "template": "chunking", **options}
    found = Tagger(**options).fit(corpus)
    assert "primal and dual differ" in found.message_
    exact = Tagger(optimizer="lbfgs", **options).fit(corpus)
    assert found.objective_ == pytest.approx(exact.objective_, rel=2e-3)


def test_a_training_is_the_same_for_any_number_of_threads(chunking, monkeypatch):
    monkeypatch.setattr(SegmentLayout, "sequences_a_part", 5)
    trained = [
        Tagger(structure="segments", template="chunking", max_iter=6, threads=threads).fit(chunking)
        for threads in (1, 2, 3)
    ]
    for other in trained[1:]:
        assert np.array_equal(trained[0].model_.weights, other.model_.weights)
        assert trained[0].objective_ == other.objective_


def test_a_resumed_training_is_the_same(chunking, tmp_path):
    options = {"structure": "segments", "template": "chunking"}
    whole = Tagger(max_iter=6, **options).fit(chunking)
    Tagger(max_iter=3, **options).fit(chunking, checkpoint=tmp_path / "state")
    again = Tagger(max_iter=6, **options).fit(chunking, checkpoint=tmp_path / "state", resume=True)
    assert np.array_equal(whole.model_.weights, again.model_.weights)


@pytest.mark.parametrize("criterion", ["risk", "jrb"])
def test_other_criteria_of_segments_refuse_it(chunking, criterion):
    with pytest.raises(
        OptionError, match="that does not go over segments but by cll and softmax-margin and max-margin"
    ):
        Tagger(structure="segments", template="chunking", criterion=criterion, optimizer="dual").fit(chunking)
