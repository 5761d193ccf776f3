"""Attributes hashed into 2^B buckets: no vocabulary is stored, and memory is bounded for any corpus.

    value        string -> 64 bits by BLAKE2b, the same on every machine and in every run
    attribute    (skeleton, value 1, value 2, ...) -> h_0 = hash of the skeleton,  h_j = mix(h_{j-1} + hash of value j)
    bucket       the B highest bits of h; attributes of one bucket share their weights

``mix`` is the finaliser of SplitMix64 (Steele, Lea & Flood 2014). Only buckets with an attribute of the training data
are numbered: a model stores one bit per bucket and no strings. Feature hashing is due to Ganchev & Dredze (2008) and
Weinberger et al. (2009). Signs are not hashed here: attributes in one bucket whose weights disagree are rare enough for
the other weights to make up for them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from loglinear.arrays import Array, Bool, Int32, Int64, UInt64
from loglinear.data.columns.corpus import Attributes, Columns
from loglinear.errors import OptionError, TemplateError
from loglinear.features.encoding import UNKNOWN, AttributeBlocks, EncodedCorpus, stored_pair_features
from loglinear.features.names import NameEncoder, stored_edge
from loglinear.features.templates.encoder import FoundAttributes, TemplateEncoder
from loglinear.features.templates.gazetteer import Gazetteer
from loglinear.features.templates.language import WAPITI, TemplateSet
from loglinear.system import in_threads

FEWEST_BITS, MOST_BITS = 8, 26
_STEP, _FIRST, _SECOND = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def string_hashes(strings: Iterable[str | None]) -> UInt64:
    """A hash of 64 bits for each string; that of None is 0."""
    digests = [
        bytes(8) if string is None else hashlib.blake2b(string.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        for string in strings
    ]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def mixed(hashes: UInt64, values: UInt64) -> UInt64:
    """Extend each of the hashes [N] by one more value."""
    z = hashes + values + _STEP
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


class Buckets:
    """2^bits buckets, of which some have a number.

    Parameters
    ----------
    bits : int
    used : bool [2^bits], optional
        The numbered buckets; all by default.
    """

    def __init__(self, bits: int, used: Bool | None = None) -> None:
        self.bits = bits
        self.used = np.ones(1 << bits, dtype=np.bool_) if used is None else used
        self.n = int(np.count_nonzero(self.used))
        self.numbers: Int32 = np.where(self.used, np.cumsum(self.used, dtype=np.int32) - 1, UNKNOWN).astype(np.int32)

    def of(self, hashes: UInt64) -> Int32:
        """The bucket of each hash."""
        return (hashes >> np.uint64(64 - self.bits)).astype(np.int32)

    def keeping(self, kept: Bool) -> Buckets:
        """The buckets whose number is ``kept`` [n], renumbered in the same order."""
        used = self.used.copy()
        used[used] = kept
        return Buckets(self.bits, used)

    def matching(self, other: Buckets) -> Int32:
        """For each number of ``other``, the number of the same bucket here, or -1."""
        if other.bits != self.bits:
            return np.full(other.n, UNKNOWN, dtype=np.int32)
        return self.numbers[other.used]

    def names(self) -> list[str]:
        """Numbers of the buckets, in place of names."""
        return [f"bucket {bucket}" for bucket in np.flatnonzero(self.used).tolist()]

    def to_arrays(self) -> dict[str, Array]:
        return {"buckets": np.packbits(self.used)}

    @classmethod
    def from_storage(cls, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> Buckets:
        """Rebuild; checks every bound."""
        bits, packed = header["bits"], arrays["buckets"]
        if type(bits) is not int or not FEWEST_BITS <= bits <= MOST_BITS:
            raise ValueError("the number of hash bits is out of range")
        if packed.dtype != np.uint8 or packed.shape != (1 << bits >> 3,):
            raise ValueError("the buckets do not fit the number of hash bits")
        return cls(bits, np.unpackbits(packed).astype(np.bool_))


class _InBuckets:
    """What encoders into buckets share; their next base class is the encoder without hashing."""

    buckets: Buckets

    @property
    def n_attributes(self) -> int:
        return self.buckets.n

    def names(self) -> list[str]:
        return self.buckets.names()

    def to_header(self) -> dict[str, Any]:
        header: dict[str, Any] = super().to_header()  # type: ignore[misc]  # the encoder's
        return {**header, "bits": self.buckets.bits}

    def to_arrays(self) -> dict[str, Array]:
        return self.buckets.to_arrays()

    def matching(self, other: Any) -> Int32:
        return self.buckets.matching(other.buckets)


class HashedTemplateEncoder(_InBuckets, TemplateEncoder):
    """Encodes corpora of token rows by templates, attributes hashed.

    Parameters
    ----------
    templates, gazetteers, pair_features
        As for :class:`TemplateEncoder`.
    buckets : Buckets
    """

    kind = "hashed-template"

    def __init__(
        self,
        templates: TemplateSet,
        gazetteers: Mapping[str, Gazetteer] | None,
        pair_features: bool | str,
        buckets: Buckets,
    ) -> None:
        super().__init__(templates, gazetteers, pair_features)
        if templates.wapiti:
            raise TemplateError(f"a template with a line {WAPITI} cannot be hashed (hash_bits)")
        self.buckets = buckets
        self._seeds = string_hashes("\0".join(template.skeleton) for template in self._observing)

    def fit(self, corpus: Columns, min_count: int = 1, n_threads: int = 1) -> EncodedCorpus:
        """Number the buckets that the attributes of a training corpus fall into, and return its encoding."""
        blocks = self._hashed(corpus, n_threads)
        counts = blocks.counts(self._firsts, 1 << self.buckets.bits)
        self.buckets = Buckets(self.buckets.bits, counts > 0)
        return self._numbered(blocks)

    def number_values(self, columns: Sequence[Sequence[str]]) -> None:
        """Values have no numbers here."""

    def found_in(self, corpus: Columns, walked: Sequence[tuple[int, int]]) -> FoundAttributes:
        """The bucket of each attribute of a part of a corpus; the runs make no difference."""
        return FoundAttributes(self._hashed(corpus, 1), [], [], self._firsts, 1 << self.buckets.bits)

    def transform(self, corpus: Columns, n_threads: int = 1) -> EncodedCorpus:
        """Encode a corpus with the buckets known from training; attributes in other buckets are left out."""
        return self._numbered(self._hashed(corpus, n_threads))

    @property
    def _firsts(self) -> Int64:
        return np.zeros(len(self._observing), dtype=np.int64)

    def _numbered(self, blocks: AttributeBlocks) -> EncodedCorpus:
        return self.scoped(blocks.encoded(*self.scopes(), self._firsts, self.buckets.numbers))

    def _hashed(self, corpus: Columns, n_threads: int) -> AttributeBlocks:
        """The bucket of each template's attribute at each position, -1 where a value is missing."""
        sources = [_Source(ids, observed) for ids, observed in self.observations(corpus)]
        before, after = map(string_hashes, self.boundaries)
        blocks = AttributeBlocks(len(self._observing), corpus.offsets)

        def fill(run: tuple[int, int]) -> None:
            window = _Window(sources, corpus.offsets[run[0] : run[1] + 1], before, after, not self.templates.inside)
            block = blocks.block(*run)
            for k, macros in enumerate(self._macros):
                hashes, known = window.hashes(self._seeds[k], [tuple(macro) for macro in macros.tolist()])
                block[k] = np.where(known, self.buckets.of(hashes), UNKNOWN)

        in_threads(fill, blocks.runs, n_threads)
        return blocks

    def tables(self) -> NoReturn:
        """Raise OptionError: a bucket's attributes are not known."""
        raise OptionError("hash_bits: what fell into a bucket is not known, so a base model cannot be put into weights")

    def keeping(self, kept: Bool) -> HashedTemplateEncoder:
        buckets = self.buckets.keeping(kept)
        encoder = HashedTemplateEncoder(self.templates, self.gazetteers, self.pair_features, buckets)
        encoder.star_is_bigram = self.star_is_bigram
        return encoder

    @classmethod
    def from_storage(
        cls, header: dict[str, Any], arrays: Mapping[str, Array], strings: list[str]
    ) -> HashedTemplateEncoder:
        encoder = cls(*cls._stored(header), Buckets.from_storage(header, arrays))
        encoder.star_is_bigram = encoder.stored_star(header)
        return encoder


class _Source:
    """The hash of a source's observation at position t: ``hashes[ids[t]]``, if ``known[ids[t]]``."""

    def __init__(self, ids: Int32, observations: Sequence[str | None]) -> None:
        self.ids, self.hashes = ids, string_hashes(observations)
        self.known = np.array([observation is not None for observation in observations], dtype=np.bool_)


class _Window:
    """The hashes of values around each position of some sequences, each computed once.

    Values outside a sequence have the hashes ``before`` and ``after``, by distance, if they are ``known_outside``.
    """

    def __init__(
        self, sources: Sequence[_Source], offsets: Int64, before: UInt64, after: UInt64, known_outside: bool
    ) -> None:
        self._lo, self._hi = int(offsets[0]), int(offsets[-1])
        lengths = np.diff(offsets)
        self._starts = np.repeat(offsets[:-1], lengths)
        self._ends = np.repeat(offsets[1:], lengths)
        self._sources, self._before, self._after = sources, before, after
        self._known_outside = known_outside
        self._seen: dict[tuple[int, ...], tuple[UInt64, Bool]] = {}

    def hashes(self, seed: np.uint64, macros: Sequence[tuple[int, ...]]) -> tuple[UInt64, Bool]:
        """The hash of a template's attribute at each position, and whether there is one."""
        n = self._hi - self._lo
        total, known = np.full(n, seed, dtype=np.uint64), np.ones(n, dtype=np.bool_)
        for macro in macros:
            if macro not in self._seen:
                self._seen[macro] = self._values(*macro)
            values, values_known = self._seen[macro]
            total = mixed(total, values)
            known = known & values_known
        return mixed(total, np.zeros(1, dtype=np.uint64)), known

    def _values(self, source: int, row: int, absolute: int) -> tuple[UInt64, Bool]:
        starts, ends = self._starts, self._ends
        place = np.arange(self._lo, self._hi, dtype=np.int64) + row
        if absolute:
            place = starts + row - 1 if row > 0 else ends + row
        left, right = np.flatnonzero(place < starts), np.flatnonzero(place >= ends)
        ids = self._sources[source].ids[np.clip(place, self._lo, self._hi - 1)]
        values, known = self._sources[source].hashes[ids], self._sources[source].known[ids]
        values[left] = self._before[starts[left] - place[left] - 1]
        values[right] = self._after[place[right] - ends[right]]
        known[left] = known[right] = self._known_outside
        return values, known


class HashedNameEncoder(_InBuckets, NameEncoder):
    """Encodes corpora whose tokens carry named attributes, their names hashed.

    Parameters
    ----------
    pair_features, edge
        As for :class:`NameEncoder`.
    buckets : Buckets
    """

    kind = "hashed-names"

    def __init__(self, pair_features: bool | str, buckets: Buckets, edge: tuple[str, ...] = ()) -> None:
        super().__init__(pair_features, edge)
        self.buckets = buckets

    def fit(self, corpus: Attributes, min_count: int = 1, n_threads: int = 1) -> EncodedCorpus:
        """Number the buckets that the attributes of a training corpus fall into, and return its encoding."""
        used = np.zeros(1 << self.buckets.bits, dtype=np.bool_)
        used[self._bucket_of_name(corpus)[corpus.ids]] = True
        self.buckets = Buckets(self.buckets.bits, used)
        return self.transform(corpus)

    def transform(self, corpus: Attributes, n_threads: int = 1) -> EncodedCorpus:
        """Encode a corpus with the buckets known from training; attributes in other buckets are left out."""
        return self._encoded(corpus, self.buckets.numbers[self._bucket_of_name(corpus)])

    def _bucket_of_name(self, corpus: Attributes) -> Int32:
        return self.buckets.of(string_hashes(corpus.values))

    def keeping(self, kept: Bool) -> HashedNameEncoder:
        return HashedNameEncoder(self.pair_features, self.buckets.keeping(kept), self.edge)

    @classmethod
    def from_storage(cls, header: dict[str, Any], arrays: Mapping[str, Array], strings: list[str]) -> HashedNameEncoder:
        return cls(stored_pair_features(header), Buckets.from_storage(header, arrays), stored_edge(header))
