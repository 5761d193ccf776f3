"""Laws of the spelling of segments: token labels and segments say the same, and mistakes are named by their place."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.errors import DataError, OptionError
from loglinear.evaluation import chunk_scores
from loglinear.structures.constraints import Constraints, constraint_masks
from loglinear.structures.segments.scheme import Segmentation, SegmentScheme
from problems.segments import LABELS, schemes
from referees.segments import segmentations, token_labels


def legal_labellings(name: str, labels: list[str], n: int) -> set[tuple[int, ...]]:
    """The labellings of n tokens that the constraints of a scheme leave to a chain."""
    follow, start, end = constraint_masks(name, labels)
    return {
        one
        for one in itertools.product(range(len(labels)), repeat=n)
        if start[one[0]] and end[one[-1]] and all(follow[a, b] for a, b in itertools.pairwise(one))
    }


@pytest.mark.parametrize("name", LABELS)
@pytest.mark.parametrize("n", [1, 2, 5])
def test_every_legal_labelling_of_the_tokens_spells_one_segmentation(name, n):
    """Without limits a model of segments has the labellings of a chain with the scheme's constraints."""
    scheme = SegmentScheme.from_labels(LABELS[name], name)
    spelt = [token_labels(scheme, one) for one in segmentations(scheme, n)]
    assert len(spelt) == len(set(spelt))
    assert set(spelt) == legal_labellings(name, LABELS[name], n)


@settings(max_examples=40)
@given(schemes(), st.lists(st.integers(1, 5), min_size=1, max_size=3), st.integers(0, 2**32 - 1))
def test_segments_and_token_labels_go_back_and_forth(scheme, lengths, seed):
    rng, offsets = np.random.default_rng(seed), np.cumsum([0, *lengths])
    every = [list(segmentations(scheme, n)) for n in lengths]
    if not all(every):
        return
    chosen = [
        (start + int(first), end + int(first), y)
        for first, one in zip(offsets, every, strict=False)
        for start, end, y in one[rng.integers(len(one))]
    ]
    starts, ends, labels = (np.array(column) for column in zip(*chosen, strict=True))
    tokens = scheme.token_labels_of(Segmentation(starts, ends, labels.astype(np.int32)))
    found = scheme.segments(offsets, tokens)
    assert [tuple(map(int, one)) for one in zip(*found, strict=True)] == chosen
    np.testing.assert_array_equal(scheme.token_labels_of(found), tokens)
    assert scheme.mistake(offsets, tokens) is None
    np.testing.assert_array_equal(scheme.mended(offsets, tokens), tokens)
    longest = np.ones(scheme.n_kinds, dtype=int)
    for start, end, y in chosen:
        longest[scheme.kinds[y]] = max(longest[scheme.kinds[y]], end - start)
    np.testing.assert_array_equal(scheme.longest(offsets, tokens), longest[scheme.kinds])
    again = SegmentScheme.from_header(scheme.token_labels, scheme.to_header())
    assert again.segment_labels == scheme.segment_labels
    np.testing.assert_array_equal(again.segments(offsets, tokens).labels, found.labels)
    np.testing.assert_array_equal(again.limits, scheme.limits)


@settings(max_examples=40)
@given(schemes(), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_a_labelling_is_a_mistake_if_and_only_if_no_segmentation_spells_it(scheme, n, seed):
    labels = np.random.default_rng(seed).integers(scheme.n_token_labels, size=n).astype(np.int32)
    spelt = {token_labels(scheme, one) for one in segmentations(scheme, n)}
    mistake = scheme.mistake(np.array([0, n]), labels)
    assert (mistake is None) == (tuple(labels.tolist()) in spelt)
    if mistake is not None:
        position, message = mistake
        assert 0 <= position < n
        with pytest.raises(DataError) as caught:
            scheme.segments(np.array([0, n]), labels)
        assert str(caught.value) == f"sequence 0, position {position} (from 0): {message}"


@settings(max_examples=60)
@given(st.sampled_from(["bio", "iob1"]), st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(0, 2**32 - 1))
def test_mending_reads_chunks_as_conlleval_does(name, lengths, seed):
    offsets, labels = np.cumsum([0, *lengths]), LABELS[name]
    scheme = SegmentScheme.from_labels(labels, name)
    given = np.random.default_rng(seed).integers(len(labels), size=int(offsets[-1])).astype(np.int32)
    mended = scheme.mended(offsets, given)
    assert scheme.mistake(offsets, mended) is None
    np.testing.assert_array_equal(scheme.mended(offsets, mended), mended)
    scores = chunk_scores((given, labels, offsets), (mended, labels, offsets))
    assert scores.phrases == scores.found == scores.correct


@pytest.mark.parametrize(
    ("name", "given", "mended"),
    [
        ("bio", "I-X I-X O I-Y", "B-X I-X O B-Y"),
        ("bio", "B-X I-Y I-X", "B-X B-Y B-X"),
        ("iob1", "B-X B-X O B-X", "I-X B-X O I-X"),
        ("bioes", "B-X O E-X I-X", "S-X O S-X S-X"),
        ("bioes", "I-X S-X B-X I-X", "S-X S-X B-X E-X"),
        ("bilou", "I-X I-X I-X", "B-X I-X L-X"),
    ],
)
def test_mending_spells_out_what_was_meant(name, given, mended):
    scheme, number = SegmentScheme.from_labels(LABELS[name], name), LABELS[name].index
    labels = np.array([number(label) for label in given.split()], dtype=np.int32)
    found = scheme.mended(np.array([0, len(labels)]), labels)
    assert " ".join(LABELS[name][label] for label in found) == mended


def test_tokens_without_a_label_end_what_is_known_of_a_segment():
    scheme = SegmentScheme.from_labels(["O", "B-X", "I-X", "B-Y", "I-Y"], "bio")
    labels = np.array([1, 2, 2, -1, 2, 2, -1, -1, 4, 0], dtype=np.int32)
    assert scheme.longest(np.array([0, 6, 10]), labels).tolist() == [1, 3, 1]
    assert scheme.longest(np.array([0, 2, 10]), labels).tolist() == [1, 2, 1]


def test_what_cannot_be_spelt_is_not_mended():
    scheme = SegmentScheme.from_labels(["O", "B-X", "I-X", "I-Y"], "bio")
    labels = np.array([2, 3, 0], dtype=np.int32)
    assert scheme.mended(np.array([0, 3]), labels).tolist() == [1, 3, 0]


@pytest.mark.parametrize(
    ("name", "labels", "limit", "message"),
    [
        ("bio", "O I-X", 9, "position 1 .*'I-X' cannot begin"),
        ("bio", "B-X I-Y", 9, "position 1 .*'I-Y' cannot begin"),
        ("bio", "O B-X I-X I-X", 2, "position 1 .*'X' that begins here has more than 2 tokens; raise max_length"),
        ("iob1", "O B-X", 9, "position 1 .*'B-X' cannot begin a segment here; .* of the same type"),
        ("iob1", "B-X", 9, "position 0 .*'B-X' cannot begin a segment here"),
        ("iob1", "I-Y B-X", 9, "position 1 .*'B-X' cannot begin a segment here"),
        ("bioes", "B-X I-X", 9, "position 0 .*'X' that begins here does not end with 'E-X'"),
        ("bioes", "O B-X S-X", 9, "position 1 .*does not end with 'E-X'"),
        ("bioes", "E-X", 9, "position 0 .*'E-X' cannot begin"),
        ("bilou", "U-X B-X O", 9, "position 1 .*does not end with 'L-X'"),
    ],
)
def test_mistakes_name_the_place_and_what_is_wrong(name, labels, limit, message):
    scheme = SegmentScheme.from_labels(LABELS[name], name, limit)
    tokens = np.array([LABELS[name].index(label) for label in labels.split()], dtype=np.int32)
    with pytest.raises(DataError, match=f"sequence 0, {message}"):
        scheme.segments(np.array([0, len(tokens)]), tokens)


def test_segment_labels_are_the_types_in_their_order():
    assert SegmentScheme.from_labels(LABELS["bio"], "bio").segment_labels == ("X", "O", "Y")
    assert SegmentScheme.from_labels(["O", "B", "I"], "bio").segment_labels == ("O", "chunk")
    assert SegmentScheme.from_labels(["DET", "NOUN"]).segment_labels == ("DET", "NOUN")
    twice = SegmentScheme.from_labels(LABELS["iob1"], "iob1")
    assert twice.segment_labels == ("O", "X", "B-X", "Y", "B-Y")
    assert twice.kinds.tolist() == [0, 1, 1, 2, 2] and twice.kind_names == ["O", "X", "Y"]


def test_a_type_may_be_called_outside():
    scheme = SegmentScheme.from_labels(["O", "B-O", "I-O"], "bio", 3)
    assert scheme.n_labels == 2 and scheme.limits.tolist() == [1, 3]


@pytest.mark.parametrize(
    ("name", "labels", "limits"),
    [
        ("bio", ["O", "B-X"], {"O": 1, "X": 1}),  # no segment can continue
        ("bio", ["O", "I-X"], {"O": 1}),  # nothing begins it
        ("bioes", ["O", "S-X", "B-X", "E-X"], {"O": 1, "X": 2}),
        ("bioes", ["O", "S-X", "B-X", "I-X"], {"O": 1, "X": 1}),
        ("bioes", ["O", "B-X", "I-X"], {"O": 1}),
        ("bilou", ["B-X", "L-X", "I-X"], {"X": 7}),
        ("iob1", ["O", "B-X"], {"O": 1}),
    ],
)
def test_limits_are_lowered_to_what_the_labels_can_spell(name, labels, limits):
    scheme = SegmentScheme.from_labels(labels, name, 7)
    assert dict(zip(scheme.segment_labels, scheme.limits.tolist(), strict=True)) == limits


def test_limits_may_be_one_for_all_one_for_each_type_or_one_for_each_label():
    scheme = SegmentScheme.from_labels(LABELS["iob1"], "iob1", {"X": 3})
    assert scheme.limits.tolist() == [1, 3, 3, 1000, 1000]
    assert scheme.with_limits([4, 5, 6, 1, 2]).limits.tolist() == [1, 5, 6, 1, 2]
    assert scheme.with_limits(2).n_lengths == 2
    for wrong, message in [
        ({"Z": 2}, "max_length names the segment label 'Z'"),
        (0, "between 1 and 1000"),
        (1001, "between 1 and 1000"),
        ([1, 2], "one for each segment label"),
        (2.5, "not a whole number"),
    ]:
        with pytest.raises(OptionError, match=message):
            scheme.with_limits(wrong)


def test_labels_that_are_not_of_the_scheme_are_refused():
    with pytest.raises(OptionError, match="no constraints named 'bix'"):
        SegmentScheme.from_labels(["O"], "bix")
    with pytest.raises(OptionError, match="'X-Y' does not belong"):
        SegmentScheme.from_labels(["O", "X-Y"], "bio")
    with pytest.raises(OptionError, match="cannot spell a single segment"):
        SegmentScheme.from_labels(["I-X"], "bio")


@settings(max_examples=60)
@given(st.sampled_from(sorted(LABELS)), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_rules_for_tokens_become_rules_for_segments(name, n, seed):
    """The segmentations that the rules leave are those whose token labels keep the rules."""
    rng, labels = np.random.default_rng(seed), LABELS[name]
    scheme = SegmentScheme.from_labels(labels, name, 3)
    masks = tuple(
        (rng.random(shape) > 0.1).astype(np.uint8) for shape in ((len(labels),) * 2, len(labels), len(labels))
    )
    try:
        follows, starts, ends, lengths = scheme.masks(masks)
    except OptionError:
        return  # a rule that holds at some lengths only
    for one in segmentations(scheme, n):
        tokens = token_labels(scheme, one)
        keeps = masks[1][tokens[0]] and masks[2][tokens[-1]]
        keeps = bool(keeps and all(masks[0][a, b] for a, b in itertools.pairwise(tokens)))
        kept = starts[one[0][2]] and ends[one[-1][2]] and all(lengths[end - start - 1, y] for start, end, y in one)
        kept = bool(kept and all(follows[a[2], b[2]] for a, b in itertools.pairwise(one)))
        assert keeps == kept


def test_the_scheme_itself_rules_nothing_out():
    for name, labels in LABELS.items():
        scheme = SegmentScheme.from_labels(labels, name, 3)
        *outer, lengths = scheme.masks(Constraints(name).masks(labels))
        assert all(mask.all() for mask in outer)
        np.testing.assert_array_equal(lengths.astype(bool), scheme.cells)


def test_a_rule_for_some_lengths_only_is_refused():
    scheme = SegmentScheme.from_labels(LABELS["bioes"], "bioes", 3)
    rules = Constraints(forbidden=[("S-X", "O")])  # but E-X may come before O
    with pytest.raises(OptionError, match="'O' after 'X' for segments of some lengths only"):
        scheme.masks(rules.masks(LABELS["bioes"]))
