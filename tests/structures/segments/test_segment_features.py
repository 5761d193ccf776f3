"""From weights to scores of segments and back: the two are transposed, and features are what the annotation shows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.criteria.costs import make_cost
from loglinear.criteria.criterion import CRITERIA, criteria_of, make_criterion
from loglinear.data.columns.corpus import Columns
from loglinear.errors import InfeasibleError, OptionError
from loglinear.features.encoding import EncodedCorpus, Incidence
from loglinear.features.segments import EncodedSegments, SegmentEncoder
from loglinear.optimizers.objective import Objective
from loglinear.optimizers.optimizer import make_optimizer
from loglinear.structures.constraints import Constraints
from loglinear.structures.gold import Gold
from loglinear.structures.segments.features import SegmentFeatures, SegmentPenalties, observe
from loglinear.structures.segments.scheme import SegmentScheme
from loglinear.structures.segments.structure import Segments
from problems.segments import random_scores, schemes
from referees.segments import segmentations, token_labels

seeds = st.integers(0, 2**32 - 1)


def random_incidence(rng: np.random.Generator, n: int, n_attributes: int, values: bool) -> Incidence:
    pointer = np.concatenate([[0], np.cumsum(rng.integers(0, 4, n))]).astype(np.int64)
    ids = rng.integers(0, n_attributes, pointer[-1]).astype(np.int32)
    return Incidence(pointer, ids, rng.normal(size=len(ids)) if values else None)


def random_gold(rng: np.random.Generator, scheme: SegmentScheme, lengths: list[int], partial: bool) -> Gold | None:
    """A legal annotation, or what leaves one possible; None if a sequence has no segmentation."""
    every = [list(segmentations(scheme, n)) for n in lengths]
    if not all(every):
        return None
    chosen = [token_labels(scheme, one[rng.integers(len(one))]) for one in every]
    labels = np.concatenate(chosen).astype(np.int32)
    if not partial:
        return Gold(labels)
    allowed = (rng.random((len(labels), scheme.n_token_labels)) < rng.choice([0.2, 0.5, 1.0])).astype(np.uint8)
    allowed[np.arange(len(labels)), labels] = 1
    settled = np.where(allowed.sum(axis=1) == 1, labels, -1).astype(np.int32)
    return Gold(settled, allowed) if (settled < 0).any() else Gold(settled)


@st.composite
def problems(draw):
    """Features, a corpus and an annotation of it; None if there is no annotation."""
    rng, scheme = np.random.default_rng(draw(seeds)), draw(schemes(longest=3))
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    n, m, values = int(offsets[-1]), scheme.n_lengths, draw(st.booleans())
    spans = random_incidence(rng, n * m, 6, values) if draw(st.booleans()) else None
    corpus = EncodedSegments(EncodedCorpus(offsets, random_incidence(rng, n, 5, values)), spans, m)
    gold = random_gold(rng, scheme, lengths, draw(st.booleans()))
    if gold is None:
        return None
    which = [
        draw(st.sampled_from(["observed", "all"])),
        *(draw(st.sampled_from(["observed", "all", "none"])) for _ in "ab"),
    ]
    return SegmentFeatures.collect(corpus, 5, 6, gold, scheme, *which), corpus, gold, rng


def dense(features, corpus, first, end, parts):
    gradient = features.dense_gradient()
    gradient.reset()
    gradient.add(corpus, first, end, parts)
    return gradient.finish()


@settings(max_examples=60)
@given(problems())
def test_scores_and_gradient_are_transposed(problem):
    """parts . scores(w) = w . gradient(parts): the scores are linear in the weights."""
    if problem is None:
        return
    features, corpus, _, rng = problem
    weights = rng.normal(size=features.n_features)
    penalties = SegmentPenalties.none(features.scheme)
    for first, end in ((0, corpus.n_sequences), (corpus.n_sequences - 1, corpus.n_sequences)):
        scores = features.scores(features.lay_out(weights, penalties), corpus, first, end)
        assert (scores.segment is None) == (features.segment is None)
        with_segments = scores.segment is not None
        parts = random_scores(rng, len(scores.emission), features.scheme, with_segments)
        total = sum(float((part * scores.parts()[name]).sum()) for name, part in parts.parts().items())
        assert total == pytest.approx(float(weights @ dense(features, corpus, first, end, parts)), abs=1e-9)


@settings(max_examples=60)
@given(problems())
def test_scores_are_sums_of_named_weights(problem):
    """The score of a labelling is the sum of the weights of its features, found by their names."""
    if problem is None or problem[2].allowed is not None:
        return
    features, corpus, gold, rng = problem
    scheme, weights = features.scheme, rng.normal(size=features.n_features)
    names = list(features.names([f"t{a}" for a in range(5)], [f"s{a}" for a in range(6)]))
    assert len(names) == len(set(names)) == features.n_features
    weight = dict(zip(names, weights.tolist(), strict=True))
    laid_out = features.lay_out(weights, SegmentPenalties.none(scheme))
    scores = features.scores(laid_out, corpus, 0, corpus.n_sequences)
    found = features.structure(corpus, 0, corpus.n_sequences).score(scores, gold.labels)
    kind = [scheme.kind_names[k] for k in scheme.kinds]

    def attributes(incidence, place, letter):
        for j in range(incidence.pointer[place], incidence.pointer[place + 1]):
            yield f"{letter}{incidence.ids[j]}", 1.0 if incidence.values is None else incidence.values[j]

    for i, (first, end) in enumerate(pairwise(corpus.offsets.tolist())):
        total = 0.0
        for t in range(first, end):
            label = scheme.token_labels[gold.labels[t]]
            total += sum(v * weight.get(("state", a, label), 0.0) for a, v in attributes(corpus.tokens.state, t, "t"))
        segments = list(zip(*scheme.segments(np.array([0, end - first]), gold.labels[first:end]), strict=True))
        for start, stop, y in segments:
            total += weight.get(("length", str(stop - start), kind[y]), 0.0)
            place = (first + stop - 1) * scheme.n_lengths + stop - start - 1
            if corpus.spans is not None:
                total += sum(
                    v * weight.get(("segment", a, kind[y]), 0.0) for a, v in attributes(corpus.spans, place, "s")
                )
        total += sum(weight.get(("transition", kind[a[2]], kind[b[2]]), 0.0) for a, b in pairwise(segments))
        assert found[i] == pytest.approx(total, abs=1e-9)


@settings(max_examples=60)
@given(problems())
def test_counts_are_the_gradient_of_the_labelling(problem):
    if problem is None or problem[2].allowed is not None:
        return
    features, corpus, gold, _ = problem
    counts = features.counts(corpus, gold)
    assert counts.shape == (corpus.n_sequences, features.n_features)
    laid_out = features.lay_out(np.zeros(features.n_features), SegmentPenalties.none(features.scheme))
    for i in range(corpus.n_sequences):
        parts = features.scores(laid_out, corpus, i, i + 1).zeros_like()
        lo, hi = corpus.offsets[i : i + 2]
        features.structure(corpus, i, i + 1).add_labelling(parts, gold.labels[lo:hi], np.ones(1))
        np.testing.assert_allclose(counts[[i]].toarray()[0], dense(features, corpus, i, i + 1, parts), atol=1e-12)


@settings(max_examples=60)
@given(problems())
def test_the_sparse_gradient_of_a_sequence_is_the_dense_one(problem):
    if problem is None:
        return
    features, corpus, _, rng = problem
    sparse = features.as_lists().sparse_gradient()
    for i, n in enumerate(np.diff(corpus.offsets).tolist()):
        parts = random_scores(rng, n, features.scheme, features.segment is not None, gaps=0.0)
        parts.emission[rng.random(parts.emission.shape) < 0.5] = 0.0
        wanted = dense(features, corpus, i, i + 1, parts)
        sparse.add(corpus, i, parts)
        np.testing.assert_allclose(sparse.values, wanted, atol=1e-12)
        assert sparse.squared_norm() == pytest.approx(float(wanted @ wanted))
        met = set()
        for pointer, ids, first in features.active_groups(corpus, i):
            met |= {int(group) + first for group in ids[pointer[0] : pointer[-1]]}
        assert set(sparse.touched.tolist()) <= met
        where, derivatives = sparse.take()
        again = np.zeros(features.n_features)
        again[where] = derivatives
        np.testing.assert_allclose(again, wanted, atol=1e-12)
        assert not sparse.values.any()


@settings(max_examples=40)
@given(problems())
def test_lists_score_as_rows_do_and_follow_the_weights(problem):
    if problem is None:
        return
    features, corpus, _, rng = problem
    penalties, weights = SegmentPenalties.none(features.scheme), rng.normal(size=features.n_features)
    lists = features.as_lists()
    laid_out = lists.lay_out(weights, penalties)
    weights[:] = rng.normal(size=len(weights))  # lists look at the weights themselves, tables are laid out again
    laid_out = lists.refresh_layout(laid_out, weights, penalties)
    one = lists.scores(laid_out, corpus, 0, corpus.n_sequences)
    other = features.scores(features.lay_out(weights, penalties), corpus, 0, corpus.n_sequences)
    for name, part in other.parts().items():
        np.testing.assert_allclose(one.parts()[name], part, atol=1e-12)


@settings(max_examples=40)
@given(problems())
def test_fewer_features_score_the_same_where_the_rest_weighs_nothing(problem):
    if problem is None:
        return
    features, corpus, _, rng = problem
    penalties = SegmentPenalties.none(features.scheme)
    names = list(features.names(list("abcde"), list("uvwxyz")))
    kept = rng.random(features.n_features) < 0.6
    weights = np.where(kept, rng.normal(size=len(kept)), 0.0)
    fewer, used, segments_used = features.keep(kept)
    wanted = [name for name, keep in zip(names, kept, strict=True) if keep]
    short = [name for name, use in zip("abcde", used, strict=True) if use]
    if features.segment is None:
        assert not len(segments_used)
        segments_used = np.zeros(6, dtype=bool)
    short_segments = [name for name, use in zip("uvwxyz", segments_used, strict=True) if use]
    assert list(fewer.names(short, short_segments)) == wanted

    def renamed(incidence, mask):
        return None if incidence is None else incidence.rename(np.where(mask, np.cumsum(mask) - 1, -1).astype(np.int32))

    tokens = EncodedCorpus(corpus.offsets, renamed(corpus.tokens.state, used))
    small = EncodedSegments(tokens, renamed(corpus.spans, segments_used), corpus.n_lengths)
    one = features.scores(features.lay_out(weights, penalties), corpus, 0, corpus.n_sequences)
    other = fewer.scores(fewer.lay_out(weights[kept], penalties), small, 0, corpus.n_sequences)
    for name, part in one.parts().items():
        np.testing.assert_allclose(other.parts()[name], part, atol=1e-12)
    match = features.match(fewer, np.flatnonzero(used).astype(np.int32), np.flatnonzero(segments_used).astype(np.int32))
    np.testing.assert_array_equal(match, np.flatnonzero(kept))


def test_weights_are_matched_by_the_names_of_labels():
    """A model of other labels, in another order and with other limits, lends the weights that both have."""
    tokens = EncodedCorpus(np.array([0, 2]), Incidence(np.array([0, 1, 2]), np.array([0, 1], dtype=np.int32)))
    made = []
    for labels, limit in ((["O", "B-X", "I-X"], 2), (["B-Y", "I-Y", "B-X", "I-X", "O"], 3)):
        scheme = SegmentScheme.from_labels(labels, "bio", limit)
        gold = Gold(np.array([labels.index("B-X"), labels.index("O")], dtype=np.int32))
        corpus = EncodedSegments(tokens, None, limit)
        made.append(SegmentFeatures.collect(corpus, 2, 0, gold, scheme, "all", "all", "all"))
    small, large = made
    match = large.match(small, np.arange(2, dtype=np.int32), np.zeros(0, dtype=np.int32))
    names, others = list(small.names("ab", "")), list(large.names("ab", ""))
    assert [others[i] for i in match] == names
    back = small.match(large, np.arange(2, dtype=np.int32), np.zeros(0, dtype=np.int32))
    assert [None if i < 0 else names[i] for i in back] == [name if name in names else None for name in others]


@settings(max_examples=60)
@given(schemes(longest=3), st.lists(st.integers(1, 4), min_size=1, max_size=3), seeds, st.booleans())
def test_what_is_observed_is_in_some_segmentation_that_the_annotation_allows(scheme, lengths, seed, partial):
    gold = random_gold(np.random.default_rng(seed), scheme, lengths, partial)
    if gold is None:
        return
    offsets, kinds = np.cumsum([0, *lengths]), scheme.kinds
    spans, sizes, pairs = set(), set(), set()
    for first, n in zip(offsets.tolist(), lengths, strict=False):
        for one in segmentations(scheme, n):
            tokens = token_labels(scheme, one)
            places = list(enumerate(tokens, first))
            if gold.allowed is None:
                fits = all(gold.labels[t] == label for t, label in places)
            else:
                fits = all(gold.allowed[t, label] for t, label in places)
            if not fits:
                continue
            for start, end, y in one:
                sizes.add((end - start - 1) * scheme.n_kinds + kinds[y])
                rows = None if gold.allowed is None else gold.allowed[first + start : first + end]
                if rows is None or rows.shape[1] == 1 or not rows.all(axis=1).any():
                    spans.add(((first + end - 1) * scheme.n_lengths + end - start - 1, kinds[y]))
            pairs |= {kinds[a[2]] * scheme.n_kinds + kinds[b[2]] for a, b in pairwise(one)}
    found = observe(offsets, gold, scheme)
    assert list(zip(found.spans.tolist(), found.kinds.tolist(), strict=True)) == sorted(spans)
    assert found.lengths.tolist() == sorted(sizes) and found.transitions.tolist() == sorted(pairs)


# -- a small problem of real words ------------------------------------------------------------------------------------

SENTENCES = [
    ("San José is far", "B-LOC I-LOC O O"),
    ("Ana saw Costa Rica", "B-PER O B-LOC I-LOC"),
    ("Rica saw San José", "B-PER O B-LOC I-LOC"),
    ("José saw Ana Costa today", "B-PER O B-PER I-PER O"),
]


def words_problem(copies=1):
    rows = [list(zip(words.split(), labels.split(), strict=True)) for words, labels in SENTENCES] * copies
    corpus = Columns.from_rows(rows)
    labels = sorted({label for sentence in rows for _, label in sentence})
    gold = Gold(np.array([labels.index(label) for sentence in rows for _, label in sentence], dtype=np.int32))
    scheme = SegmentScheme.from_labels(labels, "bio")
    scheme = scheme.with_limits(scheme.longest(corpus.offsets, gold.labels))
    words = Columns(corpus.name, corpus.offsets, corpus.lines, corpus.columns[:1])
    encoder = SegmentEncoder("string+shape+last+prefix+length", scheme.n_lengths)
    spans = encoder.fit(words, np.unique(observe(corpus.offsets, gold, scheme).spans))
    column = words.columns[0]
    tokens = EncodedCorpus(corpus.offsets, Incidence(np.arange(corpus.n_tokens + 1), column.ids))
    encoded = EncodedSegments(tokens, spans, scheme.n_lengths)
    features = SegmentFeatures.collect(encoded, len(column.values), encoder.n_attributes, gold, scheme)
    return features, encoded, gold, labels


@pytest.mark.parametrize("name", sorted(criteria_of(Segments)))
def test_gradients_by_the_weights_equal_finite_differences(name):
    features, corpus, gold, labels = words_problem()
    criterion = CRITERIA[name]
    cost = make_cost("hamming", labels, np.ones(len(labels))) if criterion.uses_cost else None
    penalties = SegmentPenalties.none(features.scheme)
    made = make_criterion(name, cost).for_labels(labels)
    objective = Objective(features, corpus, gold, made, penalties, l2=0.1)
    rng = np.random.default_rng(2)
    weights = rng.normal(size=features.n_features) * 0.5
    gradient = objective(weights)[1].copy()
    for place in rng.choice(features.n_features, 40, replace=False):
        values = []
        for step in (1e-5, -1e-5):
            moved = weights.copy()
            moved[place] += step
            values.append(objective(moved)[0])
        assert gradient[place] == pytest.approx((values[0] - values[1]) / 2e-5, abs=1e-5, rel=1e-5)


def test_the_objective_is_the_same_for_any_number_of_threads(monkeypatch):
    from loglinear.optimizers import objective as module

    monkeypatch.setattr(module, "TOKENS_PER_SHARD", 10)
    features, corpus, gold, _ = words_problem(copies=6)
    weights = np.random.default_rng(0).normal(size=features.n_features)
    values = []
    for n_threads in (1, 2, 3):
        objective = Objective(
            features, corpus, gold, make_criterion("cll"), SegmentPenalties.none(features.scheme), n_threads=n_threads
        )
        value, gradient = objective(weights)
        values.append((value, gradient.tobytes()))
    assert values[0] == values[1] == values[2]


@pytest.mark.parametrize(
    ("criterion", "optimizer"),
    [("cll", "lbfgs"), ("cll", "sgd"), ("softmax-margin", "lbfgs"), ("cll", "adagrad"), ("perceptron", "online"),
     ("mira:k=3", "online"), ("passive-aggressive", "online"), ("max-margin", "adagrad"), ("risk", "lbfgs")],
)  # fmt: skip
def test_training_finds_the_segments(criterion, optimizer):
    """Segments that only whole strings tell apart: ``Costa`` is a person's, ``Costa Rica`` a place's."""
    features, corpus, gold, labels = words_problem()
    uses_cost = CRITERIA[criterion.partition(":")[0]].uses_cost
    cost = make_cost("hamming", labels, np.ones(len(labels))) if uses_cost else None
    penalties = SegmentPenalties.none(features.scheme)
    l2 = 0.0 if optimizer == "online" else 0.01
    objective = Objective(features, corpus, gold, make_criterion(criterion, cost), penalties, l2=l2)
    start = np.zeros(features.n_features)
    weights = make_optimizer(optimizer, max_iter=60, tolerance=0.0, seed=0).minimise(objective, start).weights
    scores = features.scores(features.lay_out(np.array(weights), penalties), corpus, 0, corpus.n_sequences)
    found = features.structure(corpus, 0, corpus.n_sequences).viterbi(scores)[0]
    np.testing.assert_array_equal(found, gold.labels)


def test_constraints_are_kept():
    features, corpus, gold, labels = words_problem()
    rules = Constraints(forbidden=[("O", "B-LOC")], starts=["O", "B-PER"])
    penalties = SegmentPenalties.from_constraints(features.scheme, rules)
    weights = np.random.default_rng(0).normal(size=features.n_features)
    scores = features.scores(features.lay_out(weights, penalties), corpus, 0, corpus.n_sequences)
    structure = features.structure(corpus, 0, corpus.n_sequences)
    for found in (structure.viterbi(scores)[0], *structure.sample(scores, 20, np.random.default_rng(1))):
        for first, end in pairwise(corpus.offsets.tolist()):
            own = [labels[label] for label in found[first:end]]
            assert own[0] in ("O", "B-PER") and ("O", "B-LOC") not in pairwise(own)
    assert (structure.score(penalties.scores(corpus.n_positions, features.scheme), gold.labels) == -np.inf).any()
    with pytest.raises(InfeasibleError):
        never = SegmentPenalties.from_constraints(features.scheme, Constraints(starts=[]))
        structure.viterbi(never.scores(corpus.n_positions, features.scheme))
    with pytest.raises(OptionError, match="not one of"):
        SegmentPenalties.from_constraints(features.scheme, Constraints(forbidden=[("B-ORG", "O")]))
    nothing = SegmentPenalties.from_constraints(features.scheme, None)
    assert not any(array.any() for array in (nothing.transition, nothing.start, nothing.stop, nothing.length))


def test_blocks_cover_all_sequences():
    features, corpus, _, _ = words_problem(copies=300)
    blocks = features.blocks(corpus.offsets, 3, corpus.n_sequences)
    assert blocks[0][0] == 3 and blocks[-1][1] == corpus.n_sequences
    assert all(end == first for (_, end), (first, _) in pairwise(blocks))
