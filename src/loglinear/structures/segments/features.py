"""How the feature weights of a model of segments become part scores, and part gradients weight gradients.

The weight vector is four parts one after the other:

    state       (token attribute, token label)      -> emission [N, token labels]
    segment     (segment attribute, kind)           -> segment [N, L, Y]
    length      (length, kind)                      -> length [L, Y]
    transition  (kind before, kind)                 -> transition [Y, Y]

A kind is a segment label, but for ``iob1``, where the two labels of a type are of one kind and share their weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Bool, Float, Int32, Int64
from loglinear.features.block import FeatureBlock, find_keys
from loglinear.features.encoding import Incidence, runs
from loglinear.features.segments import EncodedSegments
from loglinear.kernels.tables import SparseGroups
from loglinear.structures.constraints import Constraints
from loglinear.structures.gold import Gold
from loglinear.structures.segments.scheme import SegmentScheme
from loglinear.structures.segments.structure import Segments, SegmentScores

MOST_NUMBERS = 1_000_000  # part scores of a block, about 8 MB


@dataclass(frozen=True, slots=True)
class SegmentPenalties:
    """Hard constraints as scores: 0 where allowed, -inf where not. Shapes as in :class:`SegmentScores`."""

    transition: Float
    start: Float
    stop: Float
    length: Float

    @classmethod
    def none(cls, scheme: SegmentScheme) -> SegmentPenalties:
        """No constraints but the scheme, which the structure keeps by itself."""
        y = scheme.n_labels
        return cls(np.zeros((y, y)), np.zeros(y), np.zeros(y), np.zeros((scheme.n_lengths, y)))

    @classmethod
    def from_constraints(cls, scheme: SegmentScheme, constraints: Constraints | None) -> SegmentPenalties:
        """Rules for token labels as rules for segments."""
        if constraints is None:
            return cls.none(scheme)
        masks = scheme.masks(constraints.masks(scheme.token_labels))
        return cls(*(np.where(mask, 0.0, -np.inf) for mask in masks))

    def scores(self, n_positions: int, scheme: SegmentScheme) -> SegmentScores:
        """Part scores of the constraints alone."""
        emission = np.zeros((n_positions, scheme.n_token_labels))
        return SegmentScores(emission, self.transition, self.start, self.stop, self.length)


class Observed(NamedTuple):
    """What an annotation shows of segments.

    spans : int64 [M]
        The numbers ``t L + m - 1`` of spans, ascending.
    kinds : int32 [M]
        The kind of each; a span that may have several stands there once for each.
    lengths, transitions : int32
        Codes ``(m - 1) kinds + kind`` and ``kind before * kinds + kind``, ascending.
    """

    spans: Int64
    kinds: Int32
    lengths: Int32
    transitions: Int32


def observe(offsets: Int64, gold: Gold, scheme: SegmentScheme) -> Observed:
    """The spans, lengths and transitions that an annotation of the sequences with these ``offsets`` [S + 1] shows.

    Where it leaves several segmentations, all count, but spans with a token that may have any label do not.
    """
    if gold.allowed is None:
        return _observe_labels(offsets, gold.labels, scheme)
    m, c = scheme.n_lengths, scheme.n_kinds
    found, lengths, transitions = [], np.zeros((m, c), dtype=bool), np.zeros((c, c), dtype=bool)
    for first, end in runs(offsets, 0, len(offsets) - 1, max(256, MOST_NUMBERS // (m * scheme.n_labels))):
        lo, hi = int(offsets[first]), int(offsets[end])
        part = gold.slice(lo, hi)
        _, parts = Segments(offsets[first : end + 1] - lo, scheme).possible(part)
        assert parts.segment is not None
        t, length, y = np.nonzero(parts.segment)
        lengths[length, scheme.kinds[y]] = True
        before, after = np.nonzero(parts.transition)
        transitions[scheme.kinds[before], scheme.kinds[after]] = True
        if part.allowed is not None and part.allowed.shape[1] > 1:
            settled = np.concatenate([[0], np.cumsum(~part.allowed.all(axis=1))])
            specific = settled[t + 1] - settled[t - length] == length + 1
            t, length, y = t[specific], length[specific], y[specific]
        found.append(((lo + t) * m + length) * c + scheme.kinds[y])
    codes = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *found]))
    return Observed(codes // c, (codes % c).astype(np.int32), _codes(lengths), _codes(transitions))


def _observe_labels(offsets: Int64, labels: Int32, scheme: SegmentScheme) -> Observed:
    """What :func:`observe` finds where each token has one label."""
    segments, c = scheme.segments(offsets, labels), scheme.n_kinds
    kinds, length = scheme.kinds[segments.labels], segments.ends - segments.starts - 1
    lengths, transitions = np.zeros((scheme.n_lengths, c), dtype=bool), np.zeros((c, c), dtype=bool)
    lengths[length, kinds] = True
    later = np.setdiff1d(np.arange(len(kinds)), np.searchsorted(segments.starts, offsets[:-1]))
    transitions[kinds[later - 1], kinds[later]] = True
    spans = (segments.ends - 1) * scheme.n_lengths + length
    return Observed(spans, kinds, _codes(lengths), _codes(transitions))


def _codes(mask: Bool) -> Int32:
    return np.flatnonzero(mask).astype(np.int32)


@dataclass(frozen=True, slots=True)
class SegmentWeights:
    """A weight vector laid out for the passes: parts, dense rows, tables with the constraints added."""

    state: Float
    state_rows: Float
    segment: Float
    segment_rows: Float
    transition: Float
    start: Float
    stop: Float
    length: Float


@dataclass(frozen=True)
class SegmentFeatures:
    """Which features a model of segments has.

    Parameters
    ----------
    scheme : SegmentScheme
    state : FeatureBlock
        Token attributes with token labels.
    segment : FeatureBlock or None
        Segment attributes with kinds.
    lengths : int32
        Codes ``(m - 1) kinds + kind`` of the lengths that have a weight, ascending.
    transitions : int32
        Codes ``kind before * kinds + kind`` of the transitions that have a weight, ascending.
    """

    scheme: SegmentScheme
    state: FeatureBlock
    segment: FeatureBlock | None
    lengths: Int32
    transitions: Int32

    @classmethod
    def collect(
        cls,
        corpus: EncodedSegments,
        n_attributes: int,
        n_segment_attributes: int,
        gold: Gold,
        scheme: SegmentScheme,
        states: str = "observed",
        transitions: str = "observed",
        lengths: str = "observed",
        shown: Observed | None = None,
    ) -> SegmentFeatures:
        """The features of a training corpus.

        ``states``, ``transitions`` and ``lengths`` say which pairs get a weight: those that the annotation shows
        (``observed``) or ``all``; the last two may be ``none``. Segment features follow ``states``. ``shown`` is the
        result of :func:`observe`, if that is known already.
        """
        shown = observe(corpus.offsets, gold, scheme) if shown is None else shown
        n_labels, c, segment = scheme.n_token_labels, scheme.n_kinds, None
        if states == "all":
            state = FeatureBlock.everything(n_attributes, n_labels)
            if corpus.spans is not None:
                segment = FeatureBlock.everything(n_segment_attributes, c)
        else:
            lists = gold.label_lists(n_labels, unlabelled_as_any=False)
            state = FeatureBlock.observed(corpus.tokens.state, n_attributes, *lists, n_labels)
            if corpus.spans is not None:
                pointer = np.searchsorted(shown.spans, np.arange(corpus.n_positions * scheme.n_lengths + 1))
                segment = FeatureBlock.observed(corpus.spans, n_segment_attributes, pointer, shown.kinds, c)
        return cls(
            scheme, state, segment,
            _chosen(lengths, shown.lengths, np.flatnonzero(scheme.cells @ np.eye(c)[scheme.kinds])),
            _chosen(transitions, shown.transitions, np.arange(c**2)),
        )  # fmt: skip

    def as_lists(self) -> SegmentFeatures:
        """The same features without dense rows: :meth:`lay_out` then looks at the weight vector itself, not a copy."""
        segment = None if self.segment is None else self.segment.as_lists()
        return replace(self, state=self.state.as_lists(), segment=segment)

    @cached_property
    def slices(self) -> tuple[slice, slice, slice, slice]:
        """Where state, segment, length and transition weights lie in the weight vector."""
        sizes = (self.state.n_features, self.segment.n_features if self.segment else 0, len(self.lengths))
        ends = np.cumsum([0, *sizes, len(self.transitions)]).tolist()
        return slice(ends[0], ends[1]), slice(ends[1], ends[2]), slice(ends[2], ends[3]), slice(ends[3], ends[4])

    @cached_property
    def groups(self) -> Int64:
        """Where each group of weights begins [G + 1]; the weights of a group are always used together.

        A group is the weights of a token attribute, those of a segment attribute, or all lengths and transitions.
        """
        pointers = [self.state.pointer]
        if self.segment is not None:
            pointers.append(self.segment.pointer[1:] + self.slices[1].start)
        return np.concatenate([*pointers, [self.n_features]]).astype(np.int64)

    @property
    def n_features(self) -> int:
        """D, the length of the weight vector."""
        return self.slices[-1].stop

    @cached_property
    def _fold(self) -> Float | None:
        """From labels to kinds [Y, kinds]; None if each label is a kind."""
        return None if self.scheme.n_kinds == self.scheme.n_labels else np.eye(self.scheme.n_kinds)[self.scheme.kinds]

    # -- weights to scores -------------------------------------------------------------------------------------------

    def lay_out(self, weights: Float, penalties: SegmentPenalties) -> SegmentWeights:
        """Prepare a weight vector [D] for :meth:`scores`."""
        state, segment, length, transition = (weights[part] for part in self.slices)
        lengths, transitions = self._tables(length, transition, penalties)
        return SegmentWeights(
            state=state,
            state_rows=self.state.rows(state),
            segment=segment,
            segment_rows=np.zeros((0, 0)) if self.segment is None else self.segment.rows(segment),
            transition=transitions,
            start=penalties.start,
            stop=penalties.stop,
            length=lengths,
        )

    def refresh_layout(self, laid_out: SegmentWeights, weights: Float, penalties: SegmentPenalties) -> SegmentWeights:
        """The layout with the weights of lengths and transitions, which it holds a copy of, taken from ``weights``."""
        _, _, length, transition = self.slices
        lengths, transitions = self._tables(weights[length], weights[transition], penalties)
        return replace(laid_out, transition=transitions, length=lengths)

    def _tables(self, length: Float, transition: Float, penalties: SegmentPenalties) -> tuple[Float, Float]:
        """Scores of lengths [L, Y] and of transitions [Y, Y], constraints included."""
        c, kinds = self.scheme.n_kinds, self.scheme.kinds
        lengths, transitions = np.zeros((self.scheme.n_lengths, c)), np.zeros((c, c))
        lengths.ravel()[self.lengths] = length
        transitions.ravel()[self.transitions] = transition
        return lengths[:, kinds] + penalties.length, transitions[np.ix_(kinds, kinds)] + penalties.transition

    def scores(self, weights: SegmentWeights, corpus: EncodedSegments, first: int, end: int) -> SegmentScores:
        """Part scores of sequences ``first`` to ``end``."""
        lo, hi, m = int(corpus.offsets[first]), int(corpus.offsets[end]), self.scheme.n_lengths
        segment = None
        if self.segment is not None and corpus.spans is not None:
            flat = self.segment.scores(corpus.spans, lo * m, hi * m, weights.segment, weights.segment_rows)
            segment = flat.reshape(hi - lo, m, -1)
            if self._fold is not None:
                segment = np.take(segment, self.scheme.kinds, axis=2)
        return SegmentScores(
            emission=self.state.scores(corpus.tokens.state, lo, hi, weights.state, weights.state_rows),
            transition=weights.transition,
            start=weights.start,
            stop=weights.stop,
            length=weights.length,
            segment=segment,
        )

    def structure(self, corpus: EncodedSegments, first: int, end: int) -> Segments:
        """The shape of sequences ``first`` to ``end``."""
        return Segments(corpus.offsets[first : end + 1] - corpus.offsets[first], self.scheme)

    def blocks(self, offsets: Int64, first: int, end: int) -> list[tuple[int, int]]:
        """Cut sequences ``first`` to ``end`` into runs whose part scores stay small."""
        width = self.scheme.n_token_labels + self.scheme.n_lengths * self.scheme.n_labels
        return runs(offsets, first, end, max(256, min(4096, MOST_NUMBERS // width)))

    # -- and back ----------------------------------------------------------------------------------------------------

    def dense_gradient(self) -> SegmentGradient:
        """A gradient of all features."""
        return SegmentGradient(self)

    def sparse_gradient(self) -> SparseSegmentGradient:
        """A gradient of the few features of one sequence."""
        return SparseSegmentGradient(self)

    def active_groups(self, corpus: EncodedSegments, sequence: int) -> Iterator[tuple[Int64, Int32, int]]:
        """The groups of features that a sequence's scores depend on, as lists with the number of the first group."""
        lo, hi, m = int(corpus.offsets[sequence]), int(corpus.offsets[sequence + 1]), self.scheme.n_lengths
        yield corpus.tokens.state.pointer[lo : hi + 1], corpus.tokens.state.ids, 0
        if self.segment is not None and corpus.spans is not None:
            yield corpus.spans.pointer[lo * m : hi * m + 1], corpus.spans.ids, len(self.state.pointer) - 1
        yield np.array([0, 1]), np.array([len(self.groups) - 2], dtype=np.int32), 0

    def folded(self, array: Float) -> Float:
        """Numbers by label [..., Y] summed to numbers by kind [..., kinds]."""
        return array if self._fold is None else array @ self._fold

    def table_gradients(self, parts: SegmentScores) -> tuple[Float, Float]:
        """Derivatives by the weights of lengths and of transitions, given those by part scores."""
        transitions = self.folded(self.folded(parts.transition).T).T
        return self.folded(parts.length).ravel()[self.lengths], transitions.ravel()[self.transitions]

    def counts(self, corpus: EncodedSegments, gold: Gold) -> Any:
        """Feature counts of each sequence's labelling, a sparse matrix [S, D]."""
        from scipy.sparse import csr_matrix  # tagging does without SciPy

        scheme, c = self.scheme, self.scheme.n_kinds
        found = scheme.segments(corpus.offsets, gold.labels)
        kinds, length = scheme.kinds[found.labels], found.ends - found.starts - 1
        of_token = np.repeat(np.arange(corpus.n_sequences), np.diff(corpus.offsets))
        of_segment = of_token[found.starts]
        pairs = np.where(np.diff(of_segment, prepend=-1) == 0, np.roll(kinds, 1) * c + kinds, -1)
        fired = [_fired(self.state, corpus.tokens.state, gold.labels, of_token)]
        if self.segment is not None and corpus.spans is not None:
            wanted = np.full(corpus.n_positions * scheme.n_lengths, -1)
            wanted[(found.ends - 1) * scheme.n_lengths + length] = kinds
            fired.append(_fired(self.segment, corpus.spans, wanted, np.repeat(of_token, scheme.n_lengths)))
        else:
            fired.append((np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0)))
        for codes, own in ((self.lengths, length * c + kinds), (self.transitions, pairs)):
            place = find_keys(codes, own)
            fires = np.flatnonzero(place >= 0)
            fired.append((of_segment[fires], place[fires], np.ones(len(fires))))
        rows, columns, values = (np.concatenate(each) for each in zip(*fired, strict=True))
        firsts = [part.start for part in self.slices]
        columns = columns + np.repeat(firsts, [len(each) for each, _, _ in fired])
        entries = (values, (rows, columns))
        matrix = csr_matrix(entries, shape=(corpus.n_sequences, self.n_features))
        matrix.sum_duplicates()
        return matrix

    # -- the features themselves -------------------------------------------------------------------------------------

    def names(self, attributes: Sequence[str], segment_attributes: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """The name of each feature, in the order of the weights: what kind of feature it is, and of what."""
        tokens, kinds, c = self.scheme.token_labels, self.scheme.kind_names, self.scheme.n_kinds
        for what, block, names, labels in (
            ("state", self.state, attributes, tokens), ("segment", self.segment, segment_attributes, kinds),
        ):  # fmt: skip
            if block is not None:
                for attribute, code in zip(
                    *(part.tolist() for part in np.divmod(block.keys, block.n_codes)), strict=True
                ):
                    yield what, names[attribute], labels[code]
        for code in self.lengths.tolist():
            yield "length", str(code // c + 1), kinds[code % c]
        for code in self.transitions.tolist():
            yield "transition", kinds[code // c], kinds[code % c]

    def keep(self, kept: Bool) -> tuple[SegmentFeatures, Bool, Bool]:
        """Only the features where ``kept`` [D]; and which token and segment attributes still have one."""
        state, segment, length, transition = (kept[part] for part in self.slices)
        states, used = _keep(self.state, state)
        segments, segments_used = None, np.zeros(0, dtype=bool)
        if self.segment is not None:
            segments, segments_used = _keep(self.segment, segment)
        features = SegmentFeatures(self.scheme, states, segments, self.lengths[length], self.transitions[transition])
        return features, used, segments_used

    def match(self, other: SegmentFeatures, attributes: Int32, segment_attributes: Int32) -> Int64:
        """For each of ``other``'s features, the number of the same feature here, or -1.

        ``attributes`` and ``segment_attributes`` are, for each of its attributes, the number here, or -1.
        """
        token_label = numbers_of(self.scheme.token_labels, other.scheme.token_labels)
        kind = numbers_of(self.scheme.kind_names, other.scheme.kind_names)
        c, theirs = self.scheme.n_kinds, other.scheme.n_kinds
        lengths, pairs = other.lengths.astype(np.int64), other.transitions.astype(np.int64)
        found = [
            match_blocks(self.state, other.state, attributes, token_label),
            match_blocks(self.segment, other.segment, segment_attributes, kind),
            find_keys(self.lengths, _code(lengths // theirs, kind[lengths % theirs], c)),
            find_keys(self.transitions, _code(kind[pairs // theirs], kind[pairs % theirs], c)),
        ]
        return np.concatenate(
            [np.where(place >= 0, part.start + place, -1) for part, place in zip(self.slices, found, strict=True)]
        )


class SegmentGradient:
    """Where one worker adds up its share of the weight gradient."""

    def __init__(self, features: SegmentFeatures) -> None:
        self._features = features
        self.vector = np.zeros(features.n_features)
        self._state_rows = np.zeros((features.state.n_rows, features.state.n_codes))
        block = features.segment
        self._segment_rows = np.zeros((0, 0) if block is None else (block.n_rows, block.n_codes))

    def reset(self) -> None:
        """Start again from zero."""
        for array in (self.vector, self._state_rows, self._segment_rows):
            array.fill(0.0)

    def add(self, corpus: EncodedSegments, first: int, end: int, parts: SegmentScores) -> None:
        """Add the gradient by the part scores of sequences ``first`` to ``end``."""
        features = self._features
        state, segment, length, transition = features.slices
        lo, hi, m = int(corpus.offsets[first]), int(corpus.offsets[end]), features.scheme.n_lengths
        features.state.add_gradient(corpus.tokens.state, lo, hi, parts.emission, self.vector[state], self._state_rows)
        if features.segment is not None and corpus.spans is not None and parts.segment is not None:
            flat = features.folded(parts.segment).reshape((hi - lo) * m, -1)
            features.segment.add_gradient(corpus.spans, lo * m, hi * m, flat, self.vector[segment], self._segment_rows)
        lengths, transitions = features.table_gradients(parts)
        self.vector[length] += lengths
        self.vector[transition] += transitions

    def finish(self) -> Float:
        """The gradient [D] of all that was added."""
        state, segment, _, _ = self._features.slices
        self._features.state.gather(self._state_rows, self.vector[state])
        if self._features.segment is not None:
            self._features.segment.gather(self._segment_rows, self.vector[segment])
        return self.vector


class SparseSegmentGradient(SparseGroups):
    """The gradient of one sequence.

    Parameters
    ----------
    features : SegmentFeatures
        Of D features.
    """

    def __init__(self, features: SegmentFeatures) -> None:
        super().__init__(features.groups)
        self._features = features

    def add(self, corpus: EncodedSegments, sequence: int, parts: SegmentScores) -> None:
        """Add the gradient by the part scores of one sequence."""
        features = self._features
        lo, hi, m = int(corpus.offsets[sequence]), int(corpus.offsets[sequence + 1]), features.scheme.n_lengths
        _, _, length, transition = features.slices
        self.add_attributes(corpus.tokens.state.lists(lo, hi), features.state.codes, 0, parts.emission)
        if features.segment is not None and corpus.spans is not None and parts.segment is not None:
            flat = features.folded(parts.segment).reshape((hi - lo) * m, -1)
            first_group = len(features.state.pointer) - 1
            self.add_attributes(corpus.spans.lists(lo * m, hi * m), features.segment.codes, first_group, flat)
        if transition.stop > length.start:
            self.touch(len(features.groups) - 2)
            lengths, transitions = features.table_gradients(parts)
            self.values[length] += lengths
            self.values[transition] += transitions


def _chosen(which: str, observed: Int32, everything: npt.NDArray[np.integer]) -> Int32:
    """Codes that get a weight: those ``observed``, ``all`` or ``none``."""
    chosen = {"observed": observed, "all": everything, "none": np.zeros(0, dtype=np.int32)}[which]
    return chosen.astype(np.int32)


def _code(high: Int64, low: Int64, width: int) -> Int64:
    """``high * width + low``, -1 where one of them is."""
    return np.where((high < 0) | (low < 0), -1, high * width + low)


def _fired(
    block: FeatureBlock, incidence: Incidence, wanted: npt.NDArray[np.integer], sequences: Int64
) -> tuple[Int64, Int64, Float]:
    """Sequence, feature and value of each feature that fires where place t has the code ``wanted[t]``; -1 is none.

    ``sequences`` are those of the places.
    """
    places = np.repeat(np.arange(incidence.n_positions), np.diff(incidence.pointer))
    keys = _code(incidence.ids.astype(np.int64), wanted[places].astype(np.int64), block.n_codes)
    features = find_keys(block.keys, keys)
    fires = np.flatnonzero(features >= 0)
    values = np.ones(len(fires)) if incidence.values is None else incidence.values[fires]
    return sequences[places[fires]], features[fires], values


def numbers_of(mine: Sequence[str], theirs: Sequence[str]) -> Int64:
    """For each of ``theirs``, its number in ``mine``, or -1."""
    index = {name: number for number, name in enumerate(mine)}
    return np.array([index.get(name, -1) for name in theirs], dtype=np.int64)


def match_blocks(mine: FeatureBlock | None, theirs: FeatureBlock | None, attributes: Int32, codes: Int64) -> Int64:
    """For each feature of ``theirs``, its number in ``mine``, or -1, given the numbers of attributes and codes here."""
    if mine is None or theirs is None:
        return np.full(0 if theirs is None else theirs.n_features, -1)
    own = np.repeat(attributes.astype(np.int64), np.diff(theirs.pointer))
    return find_keys(mine.keys, _code(own, codes[theirs.codes], mine.n_codes))


def _keep(block: FeatureBlock, kept: Bool) -> tuple[FeatureBlock, Bool]:
    """Only the features ``kept`` [F], of the attributes that still have one; and which these are."""
    before = np.concatenate([[0], np.cumsum(kept)])
    counts = np.diff(before[block.pointer])
    used = counts > 0
    pointer = np.concatenate([[0], np.cumsum(counts[used])]).astype(np.int64)
    return FeatureBlock(pointer, block.codes[kept], block.n_codes), used
