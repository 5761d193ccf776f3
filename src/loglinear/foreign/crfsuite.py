"""Model files of CRFsuite (``lCRF``, version 100): reading them with every bound checked, and writing them.

All integers are uint32, little-endian; places are counted from the file's start unless said otherwise::

    0     "lCRF", size of the file, "FOMC", version 100, number of features (always 0), of labels L and of attributes A,
          places of the five parts: 48 bytes
    FEAT  "FEAT", size, K, then K x (type 0 state or 1 transition, source, target, weight float64)
    CQDB  labels: strings to numbers and back (below)
    CQDB  attributes
    LFRF  "LFRF", size, L + 2, a place for each label (the last two are 0); there n and n numbers of transition features
    AFRF  "AFRF", size, A, a place for each attribute; there n and n numbers of state features

A CQDB, whose places are counted from its own start::

    0     "CQDB", size, 0, 0x62445371, number of strings n, place of the backward array
    24    256 x (place of a hash table, its number of buckets)
    2072  records: number, length with the NUL, bytes, NUL
          hash tables: buckets (hash, place of the record), twice as many as entries; empty ones have the place 0.
          A string with hash h is in table h % 256, from bucket (h >> 8) % buckets on
          the backward array: the place of each number's record

A labelling's score is the sum of ``value * weight`` of its state features and of its transitions' weights; what has no
feature counts zero, and attributes that the model does not have are passed over. Strings are bytes without NUL, in
practice UTF-8; others become lone surrogates (``surrogateescape``) and are written back as they were.

References
----------
Okazaki (2007). CRFsuite: a fast implementation of conditional random fields. http://www.chokkan.org/software/crfsuite/
Jenkins (2006). lookup3, a hash function in the public domain. http://burtleburtle.net/bob/c/lookup3.c
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Array, Float, Int64
from loglinear.errors import ModelFileError, OptionError

UInt32 = npt.NDArray[np.uint32]

MAGIC = b"lCRF"
VERSION = 100
STATE, TRANSITION = 0, 1
MOST_BYTES = 2**32 - 1  # of a file whose places are uint32
_HEADER = struct.Struct("<4sI4s9I")
_CHUNK = struct.Struct("<4sII")
_CQDB = struct.Struct("<4s5I")
_BYTE_ORDER = 0x62445371
_TABLES = 256
_RECORDS = _CQDB.size + 8 * _TABLES  # where a CQDB's records begin
_FEATURE = np.dtype([("type", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])
_BUCKET = np.dtype([("hash", "<u4"), ("place", "<u4")])
_NUMBER = np.dtype("<u4")


class CrfsuiteHeader(NamedTuple):
    """The numbers at the head of a file."""

    magic: str
    size: int
    type: str
    version: int
    num_features: int
    num_labels: int
    num_attrs: int
    off_features: int
    off_labels: int
    off_attrs: int
    off_labelrefs: int
    off_attrrefs: int


@dataclass(frozen=True)
class CrfsuiteModel:
    """A first-order chain model: Y labels, A attributes, K state and M transition features.

    Parameters
    ----------
    labels : list of str
        In the order of the file, which is that of their first occurrence in training.
    attributes : list of str
    state_attributes, state_labels : int64 [K]
        Of each state feature.
    state_weights : float64 [K]
    sources, targets : int64 [M]
        The labels of each transition feature.
    transition_weights : float64 [M]
    header : CrfsuiteHeader or None
        Of the file it was read from.
    """

    labels: list[str]
    attributes: list[str]
    state_attributes: Int64
    state_labels: Int64
    state_weights: Float
    sources: Int64
    targets: Int64
    transition_weights: Float
    header: CrfsuiteHeader | None = None


# ----------------------------------------------------------------------------------------------------------------------
# Reading.


def read_crfsuite(data: bytes | memoryview, source: str = "the model in memory") -> CrfsuiteModel:
    """The model in a file's ``data``; what does not fit together is a :class:`ModelFileError` that names ``source``.

    Time and memory are linear in the file.
    """
    return _File(memoryview(data).cast("B"), source).model()


class _File:
    """The bytes of a file; each part is checked when it is read."""

    def __init__(self, data: memoryview, source: str) -> None:
        self.data, self.source = data, source

    def fail(self, detail: str) -> NoReturn:
        raise ModelFileError(
            f"{self.source} is a damaged CRFsuite model ({detail}): copy it again from where it was made"
        )

    def array(self, place: int, count: int, dtype: np.dtype[Any], what: str, end: int | None = None) -> Array:
        """``count`` items that begin at ``place`` and do not reach beyond ``end``."""
        limit = len(self.data) if end is None else end
        if place > limit or count * dtype.itemsize > limit - place:
            self.fail(f"{what} would reach beyond the end")
        return np.frombuffer(self.data, dtype, count, place) if count else np.zeros(0, dtype)

    def chunk(self, place: int, name: bytes, what: str) -> tuple[int, int]:
        """The number that a chunk begins with, and where it ends."""
        if place > len(self.data) - _CHUNK.size:
            self.fail(f"{what} would begin beyond the end")
        found, size, number = _CHUNK.unpack_from(self.data, place)
        if found != name:
            self.fail(f"{what} do not begin with {name.decode()}")
        if not _CHUNK.size <= size <= len(self.data) - place:
            self.fail(f"{what} have the length {size:,}")
        return number, place + size

    def model(self) -> CrfsuiteModel:
        header = self.header()
        labels = self.strings(header.off_labels, header.num_labels, "labels")
        attributes = self.strings(header.off_attrs, header.num_attrs, "attributes")
        number, end = self.chunk(header.off_features, b"FEAT", "the features")
        features = self.array(header.off_features + _CHUNK.size, number, _FEATURE, "the features", end)
        is_state = features["type"] == STATE
        if not (is_state | (features["type"] == TRANSITION)).all():
            self.fail("a feature is of an unknown type")
        if (features["target"] >= len(labels)).any():
            self.fail("a feature has a label that does not exist")
        if not np.isfinite(features["weight"]).all():
            self.fail("a weight is not a finite number")
        places = {True: np.flatnonzero(is_state), False: np.flatnonzero(~is_state)}
        for of_states, sources, what, place, chunk, more in (
            (True, len(attributes), "attribute", header.off_attrrefs, b"AFRF", 0),
            (False, len(labels), "label", header.off_labelrefs, b"LFRF", 2),
        ):
            own = features["source"][places[of_states]]
            if (own >= sources).any():
                self.fail(f"a feature has {what} {int(own.max())}, which does not exist")
            pairs = own.astype(np.int64) * max(len(labels), 1) + features["target"][places[of_states]]
            pairs.sort()
            if (pairs[1:] == pairs[:-1]).any():
                self.fail("a feature is there twice")
            self.references(place, chunk, sources, more, own, places[of_states], f"the references of {what}s")
        state, transition = features[places[True]], features[places[False]]
        return CrfsuiteModel(
            labels,
            attributes,
            state_attributes=state["source"].astype(np.int64),
            state_labels=state["target"].astype(np.int64),
            state_weights=state["weight"].astype(np.float64),
            sources=transition["source"].astype(np.int64),
            targets=transition["target"].astype(np.int64),
            transition_weights=transition["weight"].astype(np.float64),
            header=header,
        )

    def header(self) -> CrfsuiteHeader:
        if len(self.data) < _HEADER.size:
            self.fail("it is cut short")
        magic, size, kind, *numbers = _HEADER.unpack_from(self.data)
        if magic != MAGIC:
            raise ModelFileError(f"{self.source} is not a CRFsuite model: it does not begin with lCRF")
        if kind != b"FOMC":
            self.fail(f"a model of the unknown type {kind!r}")
        header = CrfsuiteHeader(magic.decode(), size, kind.decode(), *numbers)
        if header.version != VERSION:
            raise ModelFileError(
                f"{self.source} is a CRFsuite model of version {header.version}; only version {VERSION} is known"
            )
        if size != len(self.data):
            self.fail(f"it should have {size:,} bytes, but has {len(self.data):,}")
        return header

    def strings(self, place: int, number: int, what: str) -> list[str]:
        """The strings of a CQDB by their numbers, its hash tables checked as well."""
        if place > len(self.data) - _RECORDS:
            self.fail(f"the {what} would begin beyond the end")
        name, size, _, order, n, backward = _CQDB.unpack_from(self.data, place)
        if name != b"CQDB" or order != _BYTE_ORDER:
            self.fail(f"the {what} do not begin with CQDB, or are of another byte order")
        if not _RECORDS <= size <= len(self.data) - place:
            self.fail(f"the {what} have the length {size:,}")
        if n != number:
            self.fail(f"there are {n:,} {what}, but {number:,} in the header")
        end = place + size
        begins = self.array(place + backward, n, _NUMBER, f"the places of the {what}", end).astype(np.int64)
        keys, strings, used = [], list[str](), 0
        for i, begin in enumerate(begins.tolist()):
            if not _RECORDS <= begin <= size - 9:
                self.fail(f"the {what} have a place beyond the end")
            own, length = struct.unpack_from("<II", self.data, place + begin)
            used += 8 + length
            if own != i or not 1 <= length <= size - begin - 8 or used > size:
                self.fail(f"the number or the length of one of the {what} is wrong")
            key = bytes(self.data[place + begin + 8 : place + begin + 8 + length])
            if key.find(b"\0") != length - 1:
                self.fail(f"one of the {what} does not end where it should")
            keys.append(key)
            strings.append(key[:-1].decode("utf-8", "surrogateescape"))
        if len(set(keys)) != len(keys):
            self.fail(f"one of the {what} is there twice")
        self.tables(place, end, begins, lookup3(keys), what)
        return strings

    def tables(self, place: int, end: int, begins: Int64, hashes: UInt32, what: str) -> None:
        """Check that the hash tables of a CQDB have each string once, under its hash."""
        starts = self.array(place + _CQDB.size, 2 * _TABLES, _NUMBER, f"the tables of the {what}", end)
        begin, buckets = starts.reshape(-1, 2).astype(np.int64)[starts[1::2] > 0].T
        if int(buckets.sum()) > (end - place) // _BUCKET.itemsize:
            self.fail(f"the tables of the {what} are longer than they could be")
        if len(begin) and np.array_equal(begin[1:], (begin + _BUCKET.itemsize * buckets)[:-1]):  # as they are written
            begin, buckets = begin[:1], buckets.sum(keepdims=True)
        tables = [
            self.array(place + first, n, _BUCKET, f"the tables of the {what}", end)
            for first, n in zip(begin.tolist(), buckets.tolist(), strict=True)
        ]
        entries = np.concatenate([np.zeros(0, dtype=_BUCKET), *tables])
        entries = entries[entries["place"] != 0]
        entries = entries[np.argsort(entries["place"], kind="stable")]
        order = np.argsort(begins, kind="stable")
        if not (np.array_equal(entries["place"], begins[order]) and np.array_equal(entries["hash"], hashes[order])):
            self.fail(f"the {what} and their hash tables do not agree")

    def references(
        self, place: int, chunk: bytes, sources: int, more: int, own: UInt32, places: Int64, what: str
    ) -> None:
        """Check that each source's list holds exactly its own features, which are at ``places`` and of ``own``."""
        number, end = self.chunk(place, chunk, what)
        if number != sources + more:
            self.fail(f"{what} are {number:,}, not {sources + more:,}")
        begins = self.array(place + _CHUNK.size, number, _NUMBER, what, end)[:sources].astype(np.int64)
        if (begins % 4).any():
            self.fail(f"{what} are not aligned")
        if len(begins) and not (begins.min() >= _HEADER.size and begins.max() <= len(self.data) - 4):
            self.fail(f"{what} would reach beyond the end")
        words = np.frombuffer(self.data, _NUMBER, len(self.data) // 4)
        lengths = words[begins // 4].astype(np.int64)
        if int(lengths.sum()) != len(own) or (begins // 4 + 1 + lengths > len(words)).any():
            self.fail(f"{what} are not as many as the features")
        firsts = np.cumsum(lengths) - lengths
        listed = words[np.repeat(begins // 4 + 1 - firsts, lengths) + np.arange(len(own))]
        wanted = places[np.argsort(own, kind="stable")]
        belongs = np.repeat(np.arange(sources), lengths)
        if not np.array_equal(listed[np.lexsort((listed, belongs))], wanted):
            self.fail(f"{what} do not agree with the features")


# ----------------------------------------------------------------------------------------------------------------------
# Writing.


def write_crfsuite(model: CrfsuiteModel) -> bytes:
    """The file of a model, as CRFsuite itself writes it.

    Like there, features of weight zero are left out, attributes without a feature go, and the others are numbered by
    their first feature. Features are in the order of attribute and label, then of the transitions' labels.
    """
    kept = np.flatnonzero(model.state_weights != 0.0)
    kept = kept[np.lexsort((model.state_labels[kept], model.state_attributes[kept]))]
    moved = np.flatnonzero(model.transition_weights != 0.0)
    moved = moved[np.lexsort((model.targets[moved], model.sources[moved]))]
    used, attributes = np.unique(model.state_attributes[kept], return_inverse=True)
    features = np.zeros(len(kept) + len(moved), dtype=_FEATURE)
    n = len(kept)
    features["type"][n:] = TRANSITION
    for field, own, others in (
        ("source", attributes, model.sources[moved]),
        ("target", model.state_labels[kept], model.targets[moved]),
        ("weight", model.state_weights[kept], model.transition_weights[moved]),
    ):
        features[field][:n], features[field][n:] = own, others
    if not np.isfinite(features["weight"]).all():
        raise OptionError("a weight is not a finite number: CRFsuite could not use such a model")
    names = [model.attributes[a] for a in used.tolist()]
    parts = [
        b"\0" * _HEADER.size,
        _CHUNK.pack(b"FEAT", _CHUNK.size + features.nbytes, len(features)),
        features.tobytes(),
    ]
    places = [_HEADER.size]
    for strings, what in ((model.labels, "label"), (names, "attribute")):
        places.append(sum(map(len, parts)))
        parts.append(_cqdb(strings, what))
    for chunk, more, sources, numbers in (
        (b"LFRF", 2, model.sources[moved], np.arange(n, len(features))),
        (b"AFRF", 0, attributes, np.arange(n)),
    ):
        parts.append(b"\0" * (-sum(map(len, parts)) % 4))
        places.append(begin := sum(map(len, parts)))
        parts.append(_references(chunk, begin, len(model.labels) if more else len(names), more, sources, numbers))
    size = sum(map(len, parts))
    if size > MOST_BYTES:
        raise OptionError(f"the model has {size:,} bytes in CRFsuite's format, which ends at {MOST_BYTES:,}")
    parts[0] = _HEADER.pack(MAGIC, size, b"FOMC", VERSION, 0, len(model.labels), len(names), *places)
    return b"".join(parts)


def _cqdb(strings: Sequence[str], what: str) -> bytes:
    """The strings, numbered in their order, as a CQDB."""
    keys = []
    for string in strings:
        try:
            keys.append(string.encode("utf-8", "surrogateescape") + b"\0")
        except UnicodeEncodeError:
            raise OptionError(f"the {what} {string!r:.60} cannot be written as UTF-8 in CRFsuite's format") from None
        if "\0" in string:
            raise OptionError(f"the {what} {string!r:.60} has a NUL, which ends strings in CRFsuite's format")
    if len(set(keys)) != len(keys):
        raise OptionError(f"two {what}s are the same in CRFsuite's format")
    records = [struct.pack("<II", i, len(key)) + key for i, key in enumerate(keys)]
    lengths = np.fromiter(map(len, records), np.int64, len(records))
    begins = _RECORDS + np.cumsum(lengths) - lengths
    end = _RECORDS + int(lengths.sum())
    hashes, tables, starts = lookup3(keys), list[bytes](), list[int]()
    if end + 20 * len(keys) > MOST_BYTES:
        raise OptionError(f"the {what}s take more than {MOST_BYTES:,} bytes, where CRFsuite's format ends")
    order = np.argsort(hashes % _TABLES, kind="stable")
    bounds = np.searchsorted((hashes % _TABLES)[order], np.arange(_TABLES + 1))
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        members, buckets = order[first:last], 2 * (last - first)
        table = np.zeros(buckets, dtype=_BUCKET)
        taken = bytearray(buckets)
        for i, bucket in zip(members.tolist(), ((hashes[members] >> 8) % max(buckets, 1)).tolist(), strict=True):
            while taken[bucket]:
                bucket = (bucket + 1) % buckets
            taken[bucket] = 1
            table[bucket] = hashes[i], begins[i]
        starts += [end if buckets else 0, buckets]
        tables.append(table.tobytes())
        end += table.nbytes
    size = end + 4 * len(keys)
    head = _CQDB.pack(b"CQDB", size, 0, _BYTE_ORDER, len(keys), end if keys else 0) + struct.pack(
        f"<{2 * _TABLES}I", *starts
    )
    return b"".join((head, *records, *tables, begins.astype(_NUMBER).tobytes()))


def _references(chunk: bytes, begin: int, sources: int, more: int, own: Int64, numbers: Int64) -> bytes:
    """The lists of features by source, in a chunk that begins at ``begin``; features come sorted by source."""
    lengths = np.bincount(own, minlength=sources).astype(np.int64)
    first = begin + _CHUNK.size + 4 * (sources + more)
    places = np.zeros(sources + more, dtype=_NUMBER)
    ends = np.cumsum(4 + 4 * lengths)
    places[:sources] = first + ends - 4 - 4 * lengths
    lists = np.insert(numbers.astype(_NUMBER), np.cumsum(lengths) - lengths, lengths)
    size = _CHUNK.size + places.nbytes + lists.nbytes
    return _CHUNK.pack(chunk, size, sources + more) + places.tobytes() + lists.astype(_NUMBER).tobytes()


# ----------------------------------------------------------------------------------------------------------------------
# The hash of CQDB, for many strings at once.


def lookup3(keys: Sequence[bytes]) -> UInt32:
    """Jenkins' ``hashlittle`` of each key [n], with the initial value 0.

    All keys go through the rounds together: round r takes bytes 12 r to 12 r + 12 of those that have more.
    """
    if not keys:
        return np.zeros(0, dtype=np.uint32)
    lengths = np.fromiter(map(len, keys), np.int64, len(keys))
    rounds = np.maximum(-(-lengths // 12), 1)
    order = np.argsort(-rounds, kind="stable")
    padded = b"".join(
        [keys[i].ljust(12 * n, b"\0") for i, n in zip(order.tolist(), rounds[order].tolist(), strict=True)]
    )
    words = np.frombuffer(padded, _NUMBER).reshape(-1, 3)
    first, rounds = np.cumsum(rounds[order]) - rounds[order], rounds[order]
    with np.errstate(over="ignore"):
        state = np.repeat((np.uint32(0xDEADBEEF) + lengths[order].astype(np.uint32))[None], 3, axis=0)
        n = len(keys)
        for r in range(int(rounds.max(initial=0))):
            n = int(np.searchsorted(-rounds[:n], -r, side="left"))  # the keys with more rounds than r
            state[:, :n] += words[first[:n] + r].T
            more = int(np.searchsorted(-rounds[:n], -(r + 1), side="left"))
            _mix(*state[:, :more])
            _end(*state[:, more:n])
    hashes = np.empty(len(keys), dtype=np.uint32)
    hashes[order] = state[2]
    hashes[lengths == 0] = 0xDEADBEEF
    return hashes


def _rotated(x: UInt32, k: int) -> UInt32:
    return (x << np.uint32(k)) | (x >> np.uint32(32 - k))


def _mix(a: UInt32, b: UInt32, c: UInt32) -> None:
    """A round between two blocks, in place."""
    for x, y, z, k in ((a, c, b, 4), (b, a, c, 6), (c, b, a, 8), (a, c, b, 16), (b, a, c, 19), (c, b, a, 4)):
        x -= y
        x ^= _rotated(y, k)
        y += z


def _end(a: UInt32, b: UInt32, c: UInt32) -> None:
    """The last round, in place."""
    for x, y, k in ((c, b, 14), (a, c, 11), (b, a, 25), (c, b, 16), (a, c, 4), (b, a, 14), (c, b, 24)):
        x ^= y
        x -= _rotated(y, k)
