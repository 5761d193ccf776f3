"""Attributes hashed into 2^B buckets: no vocabulary is kept, and memory is bounded whatever the corpus.

    value        string -> 64 bits by BLAKE2b, the same on every machine and in every run
    attribute    (skeleton, value 1, value 2, ...) -> h_0 = hash of the skeleton,  h_j = mix(h_{j-1} + hash of value j)
    bucket       the B highest bits of h; attributes of one bucket share their weights

``mix`` is the finaliser of SplitMix64 (Steele, Lea & Flood 2014). Buckets that no attribute of the training data fell
into are not numbered: of a model's buckets one bit each is stored, and no string. Hashing of features is due to
Ganchev & Dredze (2008) and Weinberger et al. (2009); there are no signs here, as weights of one bucket that disagree
are rare enough to be learnt around.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from loglinear.arrays import Array, Bool, Int32, Int64, UInt64
from loglinear.data.columns.corpus import Attributes, Columns
from loglinear.errors import OptionError
from loglinear.features.encoding import UNKNOWN, AttributeBlocks, EncodedCorpus, Incidence
from loglinear.features.names import NameEncoder
from loglinear.features.templates.encoder import TemplateEncoder
from loglinear.features.templates.gazetteer import MARKS, Gazetteer
from loglinear.features.templates.language import GAZETTEER, Macro, TemplateSet
from loglinear.system import in_threads

FEWEST_BITS, MOST_BITS = 8, 26
_STEP, _FIRST, _SECOND = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def string_hashes(strings: Iterable[str | None]) -> UInt64:
    """A hash of 64 bits for each string; that of None is 0."""
    nothing = bytes(8)
    digests = [
        nothing if string is None else hashlib.blake2b(string.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        for string in strings
    ]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def mixed(hashes: UInt64, values: UInt64) -> UInt64:
    """Hashes [N] of what was hashed so far and one more value each."""
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
        Those that have one; all if not given.
    """

    def __init__(self, bits: int, used: Bool | None = None) -> None:
        self.bits = bits
        self.used = np.ones(1 << bits, dtype=np.bool_) if used is None else used
        self.n = int(np.count_nonzero(self.used))
        self.numbers: Int32 = np.where(self.used, np.cumsum(self.used, dtype=np.int32) - 1, UNKNOWN).astype(np.int32)

    def of(self, hashes: UInt64) -> Int32:
        """The bucket of each hash."""
        return (hashes >> np.uint64(64 - self.bits)).astype(np.int32)

    def having(self, ids: Int32) -> Buckets:
        """Those that stand in a list of buckets alone."""
        used = np.zeros(1 << self.bits, dtype=np.bool_)
        used[ids] = True
        return Buckets(self.bits, used)

    def keeping(self, kept: Bool) -> Buckets:
        """Those whose number is ``kept`` [n], numbered anew in the same order."""
        used = self.used.copy()
        used[used] = kept
        return Buckets(self.bits, used)

    def matching(self, other: Buckets) -> Int32:
        """For each number of ``other``, that of the same bucket here, or -1."""
        if other.bits != self.bits:
            return np.full(other.n, UNKNOWN, dtype=np.int32)
        return self.numbers[other.used]

    def names(self) -> list[str]:
        """What stands for names."""
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
    """What encoders into buckets have in common; the encoder they change is the next base class."""

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


class HashedTemplateEncoder(_InBuckets, TemplateEncoder):
    """Encodes corpora of token rows by templates, attributes hashed.

    Parameters
    ----------
    templates, gazetteers, pair_features
        As of :class:`TemplateEncoder`.
    buckets : Buckets
    """

    kind = "hashed-template"

    def __init__(
        self, templates: TemplateSet, gazetteers: Mapping[str, Gazetteer] | None, pair_features: bool, buckets: Buckets
    ) -> None:
        super().__init__(templates, gazetteers, pair_features)
        self.buckets = buckets
        self._seeds = string_hashes("\0".join(template.skeleton) for template in self._observing)

    def fit(self, corpus: Columns, min_count: int = 1, n_threads: int = 1) -> EncodedCorpus:
        """Find out which buckets the attributes of a training corpus fall into, and return its encoding."""
        blocks = self._hashed(corpus, n_threads)
        counts = blocks.counts(self._firsts, 1 << self.buckets.bits)
        self.buckets = Buckets(self.buckets.bits, counts > 0)
        return self._numbered(blocks)

    def transform(self, corpus: Columns, n_threads: int = 1) -> EncodedCorpus:
        """Encode a corpus with the buckets known from training; what falls into others is left out."""
        return self._numbered(self._hashed(corpus, n_threads))

    @property
    def _firsts(self) -> Int64:
        return np.zeros(len(self._observing), dtype=np.int64)

    def _numbered(self, blocks: AttributeBlocks) -> EncodedCorpus:
        return blocks.encoded(*self.scopes(), self._firsts, self.buckets.numbers)

    def _hashed(self, corpus: Columns, n_threads: int) -> AttributeBlocks:
        """The bucket of each template's attribute at each position, -1 where a value is missing."""
        self.check_columns(corpus)
        sources = [_Source.of(macro, corpus, self.gazetteers) for macro in self.sources if corpus.n_tokens]
        before, after = (string_hashes(f"_B{sign}{k}" for k in range(1, self.reach + 1)) for sign in "-+")
        blocks = AttributeBlocks(len(self._observing), corpus.offsets)

        def fill(run: tuple[int, int]) -> None:
            window = _Window(sources, corpus.offsets[run[0] : run[1] + 1], before, after)
            block = blocks.block(*run)
            for k, macros in enumerate(self._macros):
                hashes, known = window.hashes(self._seeds[k], [tuple(macro) for macro in macros.tolist()])
                block[k] = np.where(known, self.buckets.of(hashes), UNKNOWN)

        in_threads(fill, blocks.runs, n_threads)
        return blocks

    def tables(self) -> NoReturn:
        """Refuse: what fell into a bucket is not known."""
        raise OptionError("hash_bits: what fell into a bucket is not known, so a base model cannot be put into weights")

    def matching(self, other: TemplateEncoder) -> Int32:
        assert isinstance(other, HashedTemplateEncoder)
        return self.buckets.matching(other.buckets)

    def keeping(self, kept: Bool) -> HashedTemplateEncoder:
        buckets = self.buckets.keeping(kept)
        return HashedTemplateEncoder(self.templates, self.gazetteers, self.pair_features, buckets)

    @classmethod
    def from_storage(
        cls, header: dict[str, Any], arrays: Mapping[str, Array], strings: list[str]
    ) -> HashedTemplateEncoder:
        gazetteers = [Gazetteer.from_dict(stored) for stored in header["gazetteers"]]
        templates, by_name = TemplateSet.parse(header["template"]), {g.name: g for g in gazetteers}
        return cls(templates, by_name, bool(header["pair_features"]), Buckets.from_storage(header, arrays))


class _Source:
    """The hashes of what a macro's function makes of a column: ``hashes[ids[t]]``, if ``known[ids[t]]``."""

    def __init__(self, ids: Int32, observations: Sequence[str | None]) -> None:
        self.ids, self.hashes = ids, string_hashes(observations)
        self.known = np.array([observation is not None for observation in observations], dtype=np.bool_)

    @classmethod
    def of(cls, macro: Macro, corpus: Columns, gazetteers: Mapping[str, Gazetteer]) -> _Source:
        column = corpus.columns[macro.column]
        if macro.function == GAZETTEER:
            matched = gazetteers[macro.argument].match(column.ids, column.values, corpus.offsets, macro.lowered)
            return cls(matched, [*MARKS, None])  # -1, no mark, is the last
        used = np.bincount(column.ids, minlength=len(column.values)) > 0
        compute = macro.compute()
        return cls(column.ids, [compute(v) if u else None for v, u in zip(column.values, used.tolist(), strict=True)])


class _Window:
    """The hashes of values around each position of some sequences, each worked out once."""

    def __init__(self, sources: Sequence[_Source], offsets: Int64, before: UInt64, after: UInt64) -> None:
        self._lo, self._hi = int(offsets[0]), int(offsets[-1])
        lengths = np.diff(offsets)
        self._starts = np.repeat(offsets[:-1], lengths)
        self._ends = np.repeat(offsets[1:], lengths)
        self._sources, self._before, self._after = sources, before, after
        self._seen: dict[tuple[int, ...], tuple[UInt64, Bool]] = {}

    def hashes(self, seed: np.uint64, macros: Sequence[tuple[int, ...]]) -> tuple[UInt64, Bool]:
        """The hash of a template's attribute at each position, and whether it has one."""
        n = self._hi - self._lo
        total, known = np.full(n, seed, dtype=np.uint64), np.ones(n, dtype=np.bool_)
        for macro in macros:
            if macro not in self._seen:
                self._seen[macro] = self._values(*macro)
            values, there = self._seen[macro]
            total = mixed(total, values)
            known = known & there
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
        known[left], known[right] = True, True
        return values, known


class HashedNameEncoder(_InBuckets, NameEncoder):
    """Encodes corpora whose tokens carry named attributes, their names hashed.

    Parameters
    ----------
    pair_features : bool
    buckets : Buckets
    """

    kind = "hashed-names"

    def __init__(self, pair_features: bool, buckets: Buckets) -> None:
        super().__init__(pair_features)
        self.buckets = buckets

    def fit(self, corpus: Attributes, min_count: int = 1, n_threads: int = 1) -> EncodedCorpus:
        """Find out which buckets the attributes of a training corpus fall into, and return its encoding."""
        found = self._found(corpus)
        self.buckets = self.buckets.having(found[np.bincount(corpus.ids, minlength=len(found)) > 0])
        return self.transform(corpus)

    def transform(self, corpus: Attributes, n_threads: int = 1) -> EncodedCorpus:
        """Encode a corpus with the buckets known from training; what falls into others is left out."""
        state = Incidence(corpus.pointer, corpus.ids, corpus.weights).rename(self.buckets.numbers[self._found(corpus)])
        return EncodedCorpus(corpus.offsets, state, state if self.pair_features else None)

    def _found(self, corpus: Attributes) -> Int32:
        """The bucket of each of the corpus' names."""
        return self.buckets.of(string_hashes(corpus.values))

    def matching(self, other: NameEncoder) -> Int32:
        assert isinstance(other, HashedNameEncoder)
        return self.buckets.matching(other.buckets)

    def keeping(self, kept: Bool) -> HashedNameEncoder:
        return HashedNameEncoder(self.pair_features, self.buckets.keeping(kept))

    @classmethod
    def from_storage(cls, header: dict[str, Any], arrays: Mapping[str, Array], strings: list[str]) -> HashedNameEncoder:
        return cls(bool(header["pair_features"]), Buckets.from_storage(header, arrays))
