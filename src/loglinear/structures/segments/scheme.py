"""How segments are spelt as token labels, and token labels read as segments.

A labelling of T tokens is a segmentation: segments (i, j, y) of the tokens i to j - 1 with a segment label y, one after
the other, none longer than the limit L_y. Users annotate tokens, in one of the schemes of
:mod:`~loglinear.structures.constraints`. Each segment label then has four token labels, by the place in the segment:

    scheme          single  first  inner  last         segment label
    bio             B-X     B-X    I-X    I-X          X
    bioes           S-X     B-X    I-X    E-X          X
    bilou           U-X     B-X    I-X    L-X          X
    iob1            I-X     I-X    I-X    I-X          X      not right after another X
                    B-X     B-X    I-X    I-X          B-X    only right after X or B-X
    in all of them  O       -      -      -            O
    none            Y       -      -      -            Y      every token is a segment: a linear chain

Each segmentation has exactly one spelling, and each legal labelling of the tokens is the spelling of exactly one
segmentation. So structures, annotation and costs all speak of token labels int32 [N], and a mask of token labels
restricts segmentations. The two segment labels that ``iob1`` has for a type are of one *kind*: they share the weights
of segment features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Bool, Int32, Int64, UInt8
from loglinear.errors import DataError, OptionError
from loglinear.kernels import kernel
from loglinear.structures.constraints import Masks, constraint_masks

OUTSIDE = "O"
NAMELESS = "chunk"  # the type of labels that are a prefix alone
MOST_LENGTH = 1000
NONE = -1  # in place of a token label that the scheme or the data does not have
LEGAL, CANNOT_BEGIN, CANNOT_FOLLOW, NEVER_ENDS, TOO_LONG = range(5)

_PREFIXES = {"bio": "BBII", "bioes": "SBIE", "bilou": "UBIL"}  # single, first, inner, last


class Spelling(NamedTuple):
    """What kernels know of a scheme of Y segment labels and segments of up to L tokens.

    single, first, inner, last : int32 [Y]
        Token labels by the place in a segment, -1 where there is none.
    begins : int32 [token labels]
        The segment label that a segment beginning with this token label has, -1 if none can.
    limits : int64 [Y]
        L_y.
    follows : uint8 [Y, Y]
        1 where a segment of the column's label may come right after one of the row's.
    starts : uint8 [Y]
        1 where a segment of this label may be the first.
    pointer : int64 [L + 1], labels : int32 [K]
        The *cells*, pairs of a length and a label that a segment can have: those of length m are ``labels[c]`` for c
        from ``pointer[m - 1]`` to ``pointer[m]``.
    """

    single: Int32
    first: Int32
    inner: Int32
    last: Int32
    begins: Int32
    limits: Int64
    follows: UInt8
    starts: UInt8
    pointer: Int64
    labels: Int32


class Segmentation(NamedTuple):
    """M segments, in order: tokens ``starts[k]`` to ``ends[k] - 1`` of the batch have the segment label ``labels[k]``.

    starts, ends : int64 [M]
    labels : int32 [M]
    """

    starts: Int64
    ends: Int64
    labels: Int32


@kernel
def read_segments(
    offsets: Int64, labels: Int32, spelling: Spelling, starts: Int64, ends: Int64, found: Int32
) -> tuple[int, int, int]:
    """Read token labels [N] as segments into ``starts``, ``ends`` and ``found`` [N]; O(N).

    Returns the number of segments, the token where reading failed, and why (``LEGAL`` if it did not).
    """
    n = 0
    for i in range(offsets.shape[0] - 1):
        t, end = offsets[i], offsets[i + 1]
        while t < end:
            y = spelling.begins[labels[t]]
            if y < 0:
                return n, t, CANNOT_BEGIN
            if t == offsets[i]:
                if not spelling.starts[y]:
                    return n, t, CANNOT_FOLLOW
            elif not spelling.follows[found[n - 1], y]:
                return n, t, CANNOT_FOLLOW
            j = t + 1
            if labels[t] == spelling.first[y]:
                while j < end and labels[j] == spelling.inner[y]:
                    j += 1
                if spelling.single[y] != spelling.first[y]:  # the last token has a label of its own
                    if j == end or labels[j] != spelling.last[y]:
                        return n, t, NEVER_ENDS
                    j += 1
            if j - t > spelling.limits[y]:
                return n, t, TOO_LONG
            starts[n], ends[n], found[n] = t, j, y
            n += 1
            t = j
    return n, -1, LEGAL


@kernel
def spell(starts: Int64, ends: Int64, found: Int32, spelling: Spelling, labels: Int32) -> None:
    """Write the token labels [N] of segments."""
    for k in range(starts.shape[0]):
        y = found[k]
        if ends[k] - starts[k] == 1:
            labels[starts[k]] = spelling.single[y]
            continue
        labels[starts[k]], labels[ends[k] - 1] = spelling.first[y], spelling.last[y]
        for t in range(starts[k] + 1, ends[k] - 1):
            labels[t] = spelling.inner[y]


@dataclass(frozen=True, eq=False)
class SegmentScheme:
    """Segment labels over token labels, with a limit for the length of each.

    Parameters
    ----------
    name : str or None
        ``bio``, ``iob1``, ``bioes``, ``bilou``, or None where every token is a segment.
    token_labels : tuple of str
    segment_labels : tuple of str
        Y names.
    kinds : int32 [Y]
        Segment labels of one kind share the weights of segment features; numbered from 0.
    single, first, inner, last : int32 [Y]
        Token labels by the place in a segment, -1 where there is none.
    limits : int64 [Y]
        The greatest length L_y of each, at least 1.
    follows : uint8 [Y, Y]
        1 where the column's label may come right after the row's.
    starts : uint8 [Y]
        1 where the label may be the first of a sequence.
    """

    name: str | None
    token_labels: tuple[str, ...]
    segment_labels: tuple[str, ...]
    kinds: Int32
    single: Int32
    first: Int32
    inner: Int32
    last: Int32
    limits: Int64
    follows: UInt8
    starts: UInt8

    @classmethod
    def from_labels(
        cls, labels: Sequence[str], scheme: str | None = None, max_length: int | Mapping[str, int] = MOST_LENGTH
    ) -> SegmentScheme:
        """The segments that token labels can spell.

        Parameters
        ----------
        labels : sequence of str
            The token labels.
        scheme : str, optional
            ``bio``, ``iob1``, ``bioes`` or ``bilou``; without one every token is a segment of its own.
        max_length : int or {type: int}
            The longest segments of each type; types that a mapping leaves out have no limit but ``MOST_LENGTH``.
        """
        if scheme is not None:
            constraint_masks(scheme, labels)  # an unknown scheme or label is an error
        rows = _spelt(scheme, list(labels))
        if not rows:
            raise OptionError(f"the labels {', '.join(labels)} cannot spell a single segment of the scheme {scheme!r}")
        kinds = list(dict.fromkeys(row.kind for row in rows))
        y = len(rows)
        again = np.array([row.again for row in rows])
        follows = np.ones((y, y), dtype=np.uint8)
        if scheme == "iob1":  # of a type's two labels, the second comes after the type itself, the first after others
            alike = np.array([[one.kind == other.kind and one.kind is not None for other in rows] for one in rows])
            follows[alike != again] = 0
        single, first, inner, last = (
            np.array(place, dtype=np.int32) for place in zip(*(row.places for row in rows), strict=True)
        )
        unlimited = cls(
            name=scheme,
            token_labels=tuple(labels),
            segment_labels=tuple(row.name for row in rows),
            kinds=np.array([kinds.index(row.kind) for row in rows], dtype=np.int32),
            single=single, first=first, inner=inner, last=last,
            limits=np.ones(y, dtype=np.int64), follows=follows, starts=(~again).astype(np.uint8),
        )  # fmt: skip
        return unlimited.with_limits(MOST_LENGTH).with_limits(max_length)

    def with_limits(self, max_length: int | Mapping[str, int] | npt.ArrayLike) -> SegmentScheme:
        """The same segments with other limits: one for all, one for some types by name, or one for each label [Y].

        A limit is lowered to what the token labels can spell: a type without an inner label has 2 tokens at most.
        """
        if isinstance(max_length, Mapping):
            unknown = [kind for kind in max_length if kind not in self.segment_labels]
            if unknown:
                known = ", ".join(self.segment_labels)
                raise OptionError(f"max_length names the segment label {unknown[0]!r}, which is not one of {known}")
            names = [self.kind_names[kind] for kind in self.kinds]
            wanted = np.array([max_length.get(name, limit) for name, limit in zip(names, self.limits, strict=True)])
        else:
            wanted = np.asarray(max_length)
        if not np.issubdtype(wanted.dtype, np.integer) or wanted.shape not in ((), (len(self.limits),)):
            raise OptionError(f"max_length={max_length!r:.60} is not a whole number, or one for each segment label")
        if (wanted < 1).any() or (wanted > MOST_LENGTH).any():
            raise OptionError(f"max_length={max_length!r:.60}: lengths of segments lie between 1 and {MOST_LENGTH}")
        several = (self.first >= 0) & (self.last >= 0)
        spelt = np.where(several, np.where(self.inner >= 0, MOST_LENGTH, 2), 1)
        return replace(self, limits=np.minimum(wanted, spelt).astype(np.int64))

    def to_header(self) -> dict[str, Any]:
        """What a model file stores of the scheme beside its token labels, as JSON types."""
        return {"scheme": self.name, "limits": self.limits.tolist()}

    @classmethod
    def from_header(cls, labels: Sequence[str], header: Mapping[str, Any]) -> SegmentScheme:
        """Rebuild from the token labels and what :meth:`to_header` gave."""
        return cls.from_labels(labels, header["scheme"]).with_limits(header["limits"])

    # -- sizes and tables ----------------------------------------------------------------------------------------------

    @property
    def n_labels(self) -> int:
        """Y."""
        return len(self.segment_labels)

    @property
    def n_token_labels(self) -> int:
        """Number of token labels."""
        return len(self.token_labels)

    @property
    def n_kinds(self) -> int:
        """Number of kinds; Y but for ``iob1``."""
        return int(self.kinds.max()) + 1

    @property
    def n_lengths(self) -> int:
        """L, the greatest limit."""
        return int(self.limits.max())

    @cached_property
    def kind_names(self) -> list[str]:
        """The name of each kind: that of its first segment label."""
        return [self.segment_labels[int(np.argmax(self.kinds == kind))] for kind in range(self.n_kinds)]

    @cached_property
    def cells(self) -> Bool:
        """Which labels a segment can have at each length, [L, Y]."""
        lengths = np.arange(1, self.n_lengths + 1)[:, None]
        return np.where(lengths == 1, self.single >= 0, (self.first >= 0) & (lengths <= self.limits))

    @cached_property
    def spelling(self) -> Spelling:
        """The scheme as kernels want it."""
        begins = np.full(self.n_token_labels, NONE, dtype=np.int32)
        for places in (self.single, self.first):
            known = np.flatnonzero(places >= 0)
            begins[places[known]] = known
        lengths, labels = np.nonzero(self.cells)
        pointer = np.searchsorted(lengths, np.arange(self.n_lengths + 1))
        return Spelling(
            self.single, self.first, self.inner, self.last, begins, self.limits, self.follows, self.starts,
            pointer.astype(np.int64), labels.astype(np.int32),
        )  # fmt: skip

    # -- between tokens and segments, O(N) ---------------------------------------------------------------------------

    def segments(self, offsets: Int64, labels: Int32) -> Segmentation:
        """The segments that token labels [N] spell; an illegal labelling is a :class:`DataError` with its place."""
        found, mistake = self._read(offsets, labels)
        if mistake is not None:
            position, message = mistake
            i = int(np.searchsorted(offsets, position, side="right")) - 1
            raise DataError(f"sequence {i}, position {position - int(offsets[i])} (from 0): {message}")
        return found

    def mistake(self, offsets: Int64, labels: Int32) -> tuple[int, str] | None:
        """The token where a labelling [N] is first illegal and what is wrong there, or None."""
        return self._read(offsets, labels)[1]

    def mended(self, offsets: Int64, labels: Int32) -> Int32:
        """The labelling [N] with what is illegal read as conlleval reads it; a legal one stays as it is.

        A label that cannot stand where it does begins a segment of its type: an ``I-X`` after ``O`` is read as
        ``B-X``. What the token labels cannot spell stays, as do segments that are too long.
        """
        starts, ends, kinds = self._chunks(offsets, labels)
        again = np.append(False, kinds[1:] == kinds[:-1]) & ~np.isin(starts, offsets)
        alike = [np.flatnonzero(self.kinds == kind) for kind in range(self.n_kinds)]
        first, second = (np.array([labels_of_kind[place] for labels_of_kind in alike]) for place in (0, -1))
        found = np.where(again, second[kinds], first[kinds]).astype(np.int32)
        mended = np.empty_like(labels)
        spell(starts, ends, found, self.spelling, mended)
        return np.where((mended < 0) | (np.repeat(kinds, ends - starts) < 0), labels, mended).astype(np.int32)

    def longest(self, offsets: Int64, labels: Int32) -> Int64:
        """The length of the longest segment of each kind in a labelling [N], as limits [Y]; 1 where there is none.

        Labels may be illegal, and are read as conlleval reads them, or -1 for tokens without one.
        """
        starts, ends, kinds = self._chunks(offsets, labels)
        longest = np.ones(self.n_kinds, dtype=np.int64)
        np.maximum.at(longest, kinds[kinds >= 0], (ends - starts)[kinds >= 0])
        return longest[self.kinds]

    def _chunks(self, offsets: Int64, labels: Int32) -> tuple[Int64, Int64, Int64]:
        """Runs of tokens that a labelling [N], legal or not, makes one segment, and their kinds (-1 for none)."""
        if not len(labels):
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        kinds, opens, closes = self._roles()
        kind = np.where(labels < 0, NONE, kinds[labels])
        begins = opens[labels]
        begins[1:] |= closes[labels[:-1]] | (kind[1:] != kind[:-1])
        begins[offsets[:-1]] = True
        starts = np.flatnonzero(begins)
        return starts, np.append(starts[1:], len(labels)), kind[starts]

    def _roles(self) -> tuple[Int64, Bool, Bool]:
        """For each token label its kind or -1, whether it always begins and whether it always ends a segment."""
        n = self.n_token_labels
        kinds, roles = np.full(n, NONE), np.zeros((4, n), dtype=bool)
        for role, places in zip(roles, (self.single, self.first, self.inner, self.last), strict=True):
            known = places >= 0
            role[places[known]] = True
            kinds[places[known]] = self.kinds[known]
        single, first, inner, last = roles
        return kinds, (single | first) & ~(inner | last), (single | last) & ~(first | inner)

    def token_labels_of(self, segments: Segmentation) -> Int32:
        """The token labels int32 [N] of segments that cover N tokens."""
        labels = np.empty(int(segments.ends[-1]) if len(segments.ends) else 0, dtype=np.int32)
        spell(*segments, self.spelling, labels)
        return labels

    def _read(self, offsets: Int64, labels: Int32) -> tuple[Segmentation, tuple[int, str] | None]:
        n = len(labels)
        starts, ends, found = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int32)
        n, position, why = read_segments(offsets, labels, self.spelling, starts, ends, found)
        segments = Segmentation(starts[:n], ends[:n], found[:n])
        return segments, None if why == LEGAL else (int(position), self._explain(labels[position:], why))

    def _explain(self, labels: Int32, why: int) -> str:
        """What is wrong with the segment that the first of these token labels begins."""
        label, y = self.token_labels[labels[0]], int(self.spelling.begins[labels[0]])
        if why == CANNOT_BEGIN:
            return f"the label {label!r} cannot begin a segment in the scheme {self.name!r}; correct it"
        if why == CANNOT_FOLLOW:
            return f"the label {label!r} cannot begin a segment here; the one before must be of the same type"
        name = self.kind_names[self.kinds[y]]
        if why == NEVER_ENDS:
            end = self.token_labels[self.last[y]] if self.last[y] >= 0 else "a last token's label"
            return f"the segment of {name!r} that begins here does not end with {end!r}; correct it"
        most = self.limits[y]
        return f"the segment of {name!r} that begins here has more than {most} tokens; raise max_length or correct it"

    # -- user constraints ----------------------------------------------------------------------------------------------

    def masks(self, token_masks: Masks) -> tuple[UInt8, UInt8, UInt8, UInt8]:
        """What rules for token labels mean for segments.

        Parameters
        ----------
        token_masks : uint8 [token labels, token labels], [token labels], [token labels]
            Allowed transitions, starts and ends, as :meth:`~loglinear.structures.constraints.Constraints.masks` gives.

        Returns
        -------
        transitions, starts, ends : uint8 [Y, Y], [Y], [Y]
            Allowed neighbours, first and last segments.
        lengths : uint8 [L, Y]
            Allowed lengths.

        Raises
        ------
        OptionError
            For a rule that allows a pair of segments at some lengths only.
        """
        pairs, starts, ends = (np.asarray(mask, dtype=bool) for mask in token_masks)
        lengths = self._lengths_allowed(pairs)
        begin, end = self._outer_labels(lengths)
        transitions = np.ones((self.n_labels, self.n_labels), dtype=np.uint8)
        for before, after in np.argwhere(self.follows).tolist():
            inner = pairs[np.ix_(end[before], begin[after])]
            what = f"{self.segment_labels[after]!r} after {self.segment_labels[before]!r}"
            transitions[before, after] = _agreed(inner, what)
        first = [
            not self.starts[y] or _agreed(starts[begin[y]], f"{name!r} at the start")
            for y, name in enumerate(self.segment_labels)
        ]
        last = [_agreed(ends[end[y]], f"{name!r} at the end") for y, name in enumerate(self.segment_labels)]
        return transitions, np.array(first, np.uint8), np.array(last, np.uint8), lengths.astype(np.uint8)

    def _lengths_allowed(self, pairs: Bool) -> Bool:
        """The lengths [L, Y] at which all pairs of token labels inside a segment are allowed."""
        allowed = self.cells.copy()
        for y in range(self.n_labels):
            first, inner, last = int(self.first[y]), int(self.inner[y]), int(self.last[y])
            if first >= 0 and last >= 0:
                allowed[1:2, y] &= pairs[first, last]
            if inner >= 0:
                allowed[2:, y] &= pairs[first, inner] and pairs[inner, last]
                allowed[3:, y] &= pairs[inner, inner]
        return allowed

    def _outer_labels(self, lengths: Bool) -> tuple[list[list[int]], list[list[int]]]:
        """The token labels that can begin, and those that can end, a segment of each label."""
        begin, end = [], []
        for y in range(self.n_labels):
            alone = [int(self.single[y])] if lengths[0, y] else []
            longer = bool(lengths[1:, y].any())
            begin.append([*alone, int(self.first[y])] if longer else alone)
            end.append([*alone, int(self.last[y])] if longer else alone)
        return begin, end


class _Spelt(NamedTuple):
    """A segment label on the way to a scheme.

    Its ``kind`` is its type, None outside; ``again`` says that it only comes right after one of its kind.
    """

    name: str
    kind: str | None
    places: tuple[int, int, int, int]
    again: bool = False


def _spelt(scheme: str | None, labels: list[str]) -> list[_Spelt]:
    """The segment labels that token labels can spell, in the order of their first token label."""
    if scheme is None:
        return [_Spelt(label, label, (y, NONE, NONE, NONE)) for y, label in enumerate(labels)]
    number = {label: y for y, label in enumerate(labels)}
    rows = []
    for kind in dict.fromkeys(None if label == OUTSIDE else label.partition("-")[2] for label in labels):
        if kind is None:
            rows.append(_Spelt(OUTSIDE, None, (number[OUTSIDE], NONE, NONE, NONE)))
            continue
        name, ending = kind or NAMELESS, f"-{kind}" if kind else ""
        if scheme == "iob1":
            inside, begin = (number.get(prefix + ending, NONE) for prefix in "IB")
            rows.append(_Spelt(name, kind, (inside,) * 4))
            if inside >= 0 and begin >= 0:
                rows.append(_Spelt(f"B-{name}", kind, (begin, begin, inside, inside), again=True))
        else:
            single, first, inner, last = (number.get(prefix + ending, NONE) for prefix in _PREFIXES[scheme])
            rows.append(_Spelt(name, kind, (single, first, inner, last)))
    return [row for row in rows if row.places[0] >= 0 or min(row.places[1], row.places[3]) >= 0]


def _agreed(allowed: Bool, what: str) -> bool:
    """Whether all of ``allowed`` are; refuses a rule that holds for some lengths only."""
    if allowed.any() and not allowed.all():
        raise OptionError(
            f"the constraints allow {what} for segments of some lengths only, which a model of segments cannot tell "
            "apart; write rules that hold for all of a type's labels"
        )
    return bool(allowed.all())
