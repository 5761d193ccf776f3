"""Laws of hashed attributes: the same everywhere, equal attributes in equal buckets, different ones seldom."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.data import Columns
from loglinear.features import encoding
from loglinear.features.names import NameEncoder, attributes_of
from loglinear.features.templates.encoder import TemplateEncoder
from loglinear.features.templates.gazetteer import Gazetteer
from loglinear.features.templates.hashed import Buckets, HashedNameEncoder, HashedTemplateEncoder, mixed, string_hashes
from loglinear.features.templates.language import PLAIN, TemplateSet

TEMPLATES = """\
U00:%x[0,0]
U00:%x[-2,0]
U01:%x[0,0]/%x[1,0]
U02:%t[0,0,"a"]
U03:%x[@1,0]/%x[@-1,0]
U04:%gazetteer[0,0,names]
U05:
*06:%x[0,0]
B07:%x[1,0]
B
"""
TEMPLATES += "".join(f"U-{name}:%{name}[0,0]\n" for name in PLAIN)
BITS = 20
HASHES = ["0xb4b2797457a0a6e4", "0x2e3a97906cabda5e", "0x12cbe617dd43a192", "0x0"]
MIXED = "0x237662e60324de08"
words = st.sampled_from(["a", "b", "c", "aa", "dé"])
corpora = st.lists(st.lists(words, min_size=1, max_size=5), min_size=1, max_size=6).map(Columns.from_rows)


def encoders(inside=False):
    templates, names = (
        TemplateSet.parse(TEMPLATES + "%inside\n" * inside),
        {"names": Gazetteer("names", [("a", "b"), ("c",)])},
    )
    return TemplateEncoder(templates, names), HashedTemplateEncoder(templates, names, False, Buckets(BITS))


def lists(incidence):
    bounds = zip(incidence.pointer[:-1].tolist(), incidence.pointer[1:].tolist(), strict=True)
    return [incidence.ids[first:end].tolist() for first, end in bounds]


@settings(deadline=None)
@given(corpora, corpora, st.integers(1, 4), st.integers(1, 3), st.booleans())
def test_attributes_and_buckets_go_together(corpus, other, block, n_threads, inside):
    plain, hashed = encoders(inside)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoding, "BLOCK", block)
        expected, found = plain.fit(corpus), hashed.fit(corpus, 1, n_threads)
        for _ in range(2):  # the training data, then others
            bucket_of = {}
            for mine, theirs in ((found.state, expected.state), (found.edge, expected.edge)):
                for ids, attributes in zip(lists(mine), lists(theirs), strict=True):
                    assert len(ids) == len(attributes)
                    for bucket, attribute in zip(ids, attributes, strict=True):
                        assert bucket_of.setdefault(attribute, bucket) == bucket
            assert len(set(bucket_of.values())) == len(bucket_of)  # so few do not meet by accident
            assert hashed.n_attributes == plain.n_attributes
            expected, found = plain.transform(other), hashed.transform(other)


@settings(deadline=None)
@given(corpora, st.data())
def test_keeping_and_storing_keep_what_is_found(corpus, data):
    _, hashed = encoders()
    encoded = hashed.fit(corpus)
    kept = np.array(data.draw(st.lists(st.booleans(), min_size=hashed.n_attributes, max_size=hashed.n_attributes)))
    fewer = hashed.keeping(kept)
    stored = HashedTemplateEncoder.from_storage(fewer.to_header(), fewer.to_arrays(), fewer.strings)
    renumbered = np.where(kept, np.cumsum(kept) - 1, -1)
    expected = [[renumbered[a] for a in ids if kept[a]] for ids in lists(encoded.state)]
    assert lists(fewer.transform(corpus).state) == lists(stored.transform(corpus).state) == expected
    assert stored.strings == [] and stored.n_attributes == kept.sum()
    assert hashed.matching(fewer).tolist() == np.flatnonzero(kept).tolist()
    assert fewer.matching(hashed).tolist() == renumbered.tolist()
    assert [hashed.names()[a] for a in np.flatnonzero(kept)] == fewer.names()
    other_bits = HashedTemplateEncoder(hashed.templates, hashed.gazetteers, False, Buckets(BITS + 1))
    other_bits.fit(corpus)
    assert (hashed.matching(other_bits) == -1).all()


names = st.lists(st.dictionaries(st.text(max_size=3), st.floats(0.5, 2.0), max_size=4), min_size=1, max_size=4)


@settings(deadline=None)
@given(st.lists(names, min_size=1, max_size=4), st.lists(names, min_size=1, max_size=4))
def test_ready_made_features_are_hashed_by_name(given_features, others):
    corpus, other = attributes_of(given_features), attributes_of(others)
    plain, hashed = NameEncoder(), HashedNameEncoder(False, Buckets(BITS))
    pairs = [(plain.fit(corpus), hashed.fit(corpus)), (plain.transform(other), hashed.transform(other))]
    number = {}
    for expected, found in pairs:
        assert np.array_equal(expected.state.pointer, found.state.pointer)
        values = [None if each.state.values is None else each.state.values.tolist() for each in (expected, found)]
        assert values[0] == values[1]
        for attribute, bucket in zip(expected.state.ids.tolist(), found.state.ids.tolist(), strict=True):
            assert number.setdefault(attribute, bucket) == bucket
    stored = HashedNameEncoder.from_storage(hashed.to_header(), hashed.to_arrays(), [])
    assert lists(stored.transform(other).state) == lists(hashed.transform(other).state)


def test_hashes_are_those_written_down_here():
    """They stand in model files: a change of them would be a change of the format."""
    assert [hex(h) for h in string_hashes(["", "the", "Öl", None]).tolist()] == HASHES
    assert hex(int(mixed(string_hashes(["a"]), string_hashes(["b"]))[0])) == MIXED


def test_hashes_are_the_same_in_every_process():
    program = "from loglinear.features.templates.hashed import *; print(string_hashes(['the', 'Öl']).tolist())"
    found = {
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert found == {f"{string_hashes(['the', 'Öl']).tolist()}\n"}


def test_buckets_fill_evenly():
    """Of 2^14 names into as many buckets, a share of 1 - 1/e is met, give or take a few deviations."""
    buckets = Buckets(14)
    values = string_hashes(f"U{k}:w{k}" for k in range(1 << 14))
    for hashes in (values, mixed(np.zeros(1 << 14, np.uint64), values), mixed(values, np.zeros(1, np.uint64))):
        share = len(np.unique(buckets.of(hashes))) / (1 << 14)
        assert abs(share - (1.0 - np.exp(-1.0))) < 0.015


@pytest.mark.parametrize(
    ("bits", "buckets"),
    [
        (7, np.zeros(16, np.uint8)),
        (27, np.zeros(1 << 24, np.uint8)),
        (8.0, np.zeros(32, np.uint8)),
        (True, np.zeros(32, np.uint8)),
        (8, np.zeros(31, np.uint8)),
        (8, np.zeros(32, np.int32)),
        (8, np.zeros((2, 16), np.uint8)),
    ],
)
def test_stored_buckets_that_do_not_fit_are_refused(bits, buckets):
    with pytest.raises(ValueError, match="bits"):
        Buckets.from_storage({"bits": bits}, {"buckets": buckets})
