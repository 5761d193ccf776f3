"""Labels of other schemes are read as the chunks they spell."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from loglinear.evaluation import chunk_scores
from loglinear.evaluation.chunks import as_bio, chunk_spans, has_chunks


@st.composite
def spelt_three_ways(draw):
    """A sentence of chunks and gaps, in BIO, BIOES and BILOU."""
    bio, bioes, bilou = [], [], []
    for kind, length in draw(st.lists(st.tuples(st.sampled_from(["A", "B-c", ""]), st.integers(1, 3)), min_size=1)):
        for t in range(length):
            first, last = t == 0, t == length - 1
            if not kind:
                tags = "OOO"
            elif first and last:
                tags = "BSU"
            else:
                tags = "BBB" if first else "IEL" if last else "III"
            for labels, tag in zip((bio, bioes, bilou), tags, strict=True):
                labels.append(f"{tag}-{kind}" if kind else tag)
    return bio, bioes, bilou


@given(spelt_three_ways(), spelt_three_ways())
def test_scores_do_not_depend_on_the_scheme(one, two):
    n = max(len(one[0]), len(two[0]))
    pad = [[labels + ["O"] * (n - len(labels)) for labels in spelling] for spelling in (one, two)]
    reports = [chunk_scores([gold], [predicted]) for gold, predicted in zip(*pad, strict=True)]
    assert len({(report.phrases, report.found, report.correct) for report in reports}) == 1


@given(spelt_three_ways())
def test_as_bio_gives_bio(spelt):
    bio, bioes, bilou = spelt
    for labels in (bioes, bilou):
        if labels != bio:
            assert as_bio(labels) == bio
    assert as_bio(bio) == bio


def test_what_are_chunk_labels():
    assert has_chunks(["B-NP", "O"]) and has_chunks(["S-X"]) and has_chunks(["O"]) and has_chunks(["B", "I", "O"])
    assert not has_chunks(["NN", "VB"]) and not has_chunks(["B-NP", "NN"]) and not has_chunks(["S", "E", "O"])


def test_accuracy_is_that_of_the_labels_as_written():
    report = chunk_scores([["S-A", "O"]], [["B-A", "O"]])
    assert report.accuracy == 50.0 and report.f1 == 100.0


@given(
    st.lists(
        st.sampled_from(["", "X", "-", "X-x", "O-x", "B-", "B-0", "[", "B-x", "I-x", "S-x", "E-x", "O"]), min_size=1
    ),
    st.integers(0, 5),
)
def test_every_chunk_has_an_end_in_its_sequence_whatever_the_labels(labels, cut):
    values = sorted(set(labels))
    ids, offsets = (
        np.array([values.index(label) for label in labels]),
        np.array([0, min(cut, len(labels)), len(labels)]),
    )
    starts, ends, types = chunk_spans((ids, values, offsets))
    assert len(starts) == len(ends) == len(types) and (starts < ends).all()
    assert (ends[:-1] <= starts[1:]).all()
    sequence = np.searchsorted(offsets, starts, side="right")
    assert (ends <= offsets[sequence]).all()
