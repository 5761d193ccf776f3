r"""Training passes over segments in single precision: a gradient for all sequences, or a dual step for each.

They do for segments what :mod:`loglinear.structures.chain.padded` does for chains, with the rows of weights of
:mod:`loglinear.structures.rows`.

**Places.** Most attributes of a span are those of its first or of its last token (``first=San``, ``suffix=ta``), and so
the same for all spans that begin, or end, with it. They are looked up once for the token, not once for each of up to L
spans. An attribute whose labels are all too short for a span is not looked up at all. What has attributes is then a
*place*; a sequence of T tokens has these, one after the other::

    T tokens           attributes of the token                              joined with token labels
    T openings         attributes that all spans beginning here share       joined with kinds
    T closings         attributes that all remaining spans ending here share
    spans              what is left of the attributes of some spans

**Cells.** Labels are sorted by their limits, the greatest first, so that the labels a span of m tokens can have are the
first of them. They lie in lanes: work on a span is work on rows of V numbers (Y rounded up to a multiple of eight), of
which only the first groups of eight are touched. What is kept of a span [K] has no padding.

**Sums** run as in :mod:`~loglinear.structures.segments.sums`, in plain numbers. ``ended_e(y)``, scaled to a sum of one
at each boundary e, is the probability of what comes before with a segment of label y ending at e, and ``begun_e(y)``,
with a greatest number of one, the same for one that begins there; the logarithms of the scales are kept in ``levels``,
in double precision. A span's factor is relative to these::

    factor(t, m, y) = exp(span(t, m, y) + level begun_{t+1-m} - level ended_{t+1})
    ended_e(y)      = sum_m begun_{e-m}(y) factor(e - 1, m, y)
    begun_e(y)      = sum_y' ended_e(y') exp(transition(y', y))
    P(t, m, y)      = begun_{t+1-m}(y) factor(t, m, y) after_{t+1}(y)

where ``after`` are the same sums from the right. O(T (V^2 + L V)).

**The step** is that of chains (:mod:`loglinear.optimizers.dual.chain`), but for J. The spans that begin at one boundary
exclude each other, so that the distance between two segmentations' distributions is, up to what the label before tells,

    J = sum_t,m,y 2 Delta^2 / (mu + alpha) - sum_e 2 Delta_e^2 / (mu_e + alpha_e)

with mu_e and alpha_e the probabilities of a boundary at e. Without the second sum, two labellings that differ in one
long segment would count once for each of its tokens; steps would be too long, and the objective would jump.
"""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from loglinear import mapped
from loglinear.arrays import Float, Float32, Int16, Int32, Int64, UInt8
from loglinear.features.block import find_keys
from loglinear.features.encoding import Incidence
from loglinear.features.segments import EncodedSegments
from loglinear.kernels import kernel, loose_kernel
from loglinear.kernels.lanes import (
    N_LANES,
    Width,
    above,
    block_length,
    exponential,
    greater,
    greatest,
    load,
    row_length,
    same,
    store,
    total,
    width_of,
)
from loglinear.kernels.tables import Lists
from loglinear.structures.rows import (
    LEAST,
    LOWEST,
    NO_COSTS,
    NOTHING,
    ONE,
    TINY,
    TWO,
    ZERO,
    Kept,
    PaddedWeights,
    Placement,
    Step,
    add_gradient,
    add_sums_to_rows,
    add_to_lists,
    add_to_rows,
    add_up,
    moves_of,
    set_scores,
)
from loglinear.structures.segments.features import SegmentFeatures, SegmentPenalties
from loglinear.structures.segments.scheme import SegmentScheme

RULED_OUT = np.float32(-1e29)  # a greatest score of less is that of nothing
NO_IDS = np.zeros(0, dtype=np.int32)

# ----------------------------------------------------------------------------------------------------------------------
# Places.

DROPPED, OPENING, CLOSING, OWN = range(4)


@kernel
def _share(offsets: Int64, spans: Lists, limits: Int64, n_lengths: int, roles: UInt8) -> None:
    """Say where each entry of ``spans`` is looked up, in ``roles``: nowhere (``DROPPED``) or at which kind of place.

    ``limits`` [A] is the length of the longest span that an attribute has a feature for.
    """
    pointer, ids, _ = spans
    for entry in range(roles.shape[0]):
        roles[entry] = OWN
    found, run = np.full(limits.shape[0], -1, np.int64), np.zeros(limits.shape[0], np.int64)
    for role in (OPENING, CLOSING):
        for i in range(offsets.shape[0] - 1):
            for t in range(offsets[i], offsets[i + 1]):
                room = offsets[i + 1] - t if role == OPENING else t + 1 - offsets[i]
                room, step = min(room, n_lengths), 1 if role == OPENING else 0
                mark = t if role == OPENING else t + offsets[-1]
                for m in range(room):
                    span = (t + step * m) * n_lengths + m
                    for j in range(pointer[span], pointer[span + 1]):
                        a = ids[j]
                        if limits[a] <= m:
                            roles[j] = DROPPED
                        elif roles[j] == OWN:
                            run[a] = (m + 1 if run[a] == m else -1) if found[a] == mark else (1 if m == 0 else -1)
                            found[a] = mark
                for m in range(room):
                    span = (t + step * m) * n_lengths + m
                    for j in range(pointer[span], pointer[span + 1]):
                        a = ids[j]
                        if roles[j] == OWN and run[a] == min(limits[a], room):
                            roles[j] = role


class Places(NamedTuple):
    """Attributes of places on the way to a layout.

    offsets : int64 [S + 1]
        The places of each sequence.
    pointer : int64 [P + 1], ids : int32, values : float64
        Their attributes, those of segments after those of tokens; no values if all are one.
    span_offsets : int64 [S + 1]
        Those of each sequence's places that are spans, among all that are.
    ends, lengths : int32
        The last token of each, counted from its sequence's first, and its number of tokens less one.
    """

    offsets: Int64
    pointer: Int64
    ids: Int32
    values: Float
    span_offsets: Int64
    ends: Int32
    lengths: Int32


@kernel
def _fill_places(
    tokens: Lists, spans: Lists, roles: UInt8, n_lengths: int, offsets: Int64, first_id: int, fill: bool, out: Places
) -> tuple[int, int]:
    """Write the places, or only their ``offsets``; returns the number of entries and of spans among the places."""
    n, n_entries, n_spans, has_values, has_spans = 0, 0, 0, tokens.values.shape[0] > 0, spans.pointer.shape[0] > 1
    for i in range(offsets.shape[0] - 1):
        first, end = offsets[i], offsets[i + 1]
        for t in range(first, end):
            for j in range(tokens.pointer[t], tokens.pointer[t + 1]):
                if fill:
                    out.ids[n_entries] = tokens.ids[j]
                    if has_values:
                        out.values[n_entries] = tokens.values[j]
                n_entries += 1
            n += 1
            if fill:
                out.pointer[n] = n_entries
        for role in (OPENING, CLOSING, OWN):
            for t in range(first, end):
                for m in range(min(n_lengths, t + 1 - first) if role == OWN else 1):
                    span, before = t * n_lengths + m, n_entries
                    if has_spans:
                        for j in range(spans.pointer[span], spans.pointer[span + 1]):
                            if roles[j] == role:
                                if fill:
                                    out.ids[n_entries] = first_id + spans.ids[j]
                                    if has_values:
                                        out.values[n_entries] = 1.0
                                n_entries += 1
                    if role == OWN:
                        if n_entries == before:
                            continue
                        if fill:
                            out.ends[n_spans], out.lengths[n_spans] = t - first, m
                        n_spans += 1
                    n += 1
                    if fill:
                        out.pointer[n] = n_entries
        out.offsets[i + 1], out.span_offsets[i + 1] = n, n_spans
    return n_entries, n_spans


def _places(corpus: EncodedSegments, limits: Int64, first_id: int) -> Places:
    """The places of a corpus; ``limits`` [A] are those of segment attributes, ``first_id`` the number of the first."""
    tokens, n_lengths = corpus.tokens.state.lists(), corpus.n_lengths
    spans = (Incidence(np.zeros(1, dtype=np.int64), NO_IDS) if corpus.spans is None else corpus.spans).lists()
    assert not len(spans.values), "attributes of segments have no values"
    roles = mapped.empty(len(spans.ids), np.uint8)
    if corpus.spans is not None:
        _share(corpus.offsets, spans, limits, n_lengths, roles)
    offsets, span_offsets = np.zeros((2, corpus.n_sequences + 1), dtype=np.int64)
    blank = Places(offsets, np.zeros(1, np.int64), NO_IDS, np.zeros(0), span_offsets, NO_IDS, NO_IDS)
    known = (tokens, spans, roles, n_lengths, corpus.offsets, first_id)
    n_entries, n_spans = _fill_places(*known, False, blank)
    places = blank._replace(
        pointer=mapped.zeros(int(offsets[-1]) + 1, np.int64),
        ids=mapped.empty(n_entries, np.int32),
        values=mapped.empty(n_entries if len(tokens.values) else 0, np.float64),
        ends=mapped.empty(n_spans, np.int32),
        lengths=mapped.empty(n_spans, np.int32),
    )
    _fill_places(*known, True, places)
    return places


# ----------------------------------------------------------------------------------------------------------------------
# The layout.


class PlacedCorpus(NamedTuple):
    """The places of sequences, and where their weights are stored: a :class:`~loglinear.structures.rows.Positions`."""

    offsets: Int64
    row_pointer: Int64
    row_ids: Int32
    row_values: Float32
    list_pointer: Int64
    list_ids: Int32
    list_labels: Int16
    list_values: Float32
    blank: Float32
    span_offsets: Int64
    ends: Int32
    lengths: Int32


class Cells(NamedTuple):
    """The labels that spans can have, sorted by their limits, and how they are spelt.

    kinds, single, first, inner, last : int32 [Y]
        As in :class:`~loglinear.structures.segments.scheme.SegmentScheme`.
    counts : int64 [L]
        How many of the labels a span of m tokens can have, at ``m - 1``.
    deepest : int64 [V / 8]
        The greatest limit of each group of eight labels.
    pointer : int64 [L]
        Where the cells of each length begin among all K that are kept of a token.
    lengths : float32 [L V]
        0 for lengths that a label can have, otherwise so low that the exponential is zero.
    length_features : int32 [L, Y], transition_features : int32 [Y, Y]
        The number of the weight, lengths before transitions, or -1.
    allowed : float32 [V V], start, stop : float32 [V]
        1 for transitions, first and last labels that are allowed, otherwise 0.
    """

    kinds: Int32
    single: Int32
    first: Int32
    inner: Int32
    last: Int32
    counts: Int64
    deepest: Int64
    pointer: Int64
    lengths: Float32
    length_features: Int32
    transition_features: Int32
    allowed: Float32
    start: Float32
    stop: Float32


class SegmentCorpus(NamedTuple):
    """Sequences of segments for passes.

    offsets : int64 [S + 1]
        The tokens of each sequence.
    places : PlacedCorpus
    cells : Cells
    gold : int32 [N]
        Token labels.
    gold_offsets : int64 [S + 1], gold_ends, gold_lengths, gold_labels : int32
        The right segments of each sequence: the last token, from the sequence's first, the number of tokens less one,
        and the label, as sorted.
    costs : float32 [4, token labels, W]
        Of token labels, by the kind of position and the gold label; empty if there are none.
    sequence_weights : float64 [S]
    """

    offsets: Int64
    places: PlacedCorpus
    cells: Cells
    gold: Int32
    gold_offsets: Int64
    gold_ends: Int32
    gold_lengths: Int32
    gold_labels: Int32
    costs: Float32
    sequence_weights: Float


class SegmentLayout:
    """Where each weight of a model of segments is stored, and the corpus that refers to it.

    It has the members of :class:`~loglinear.structures.chain.padded.PaddedLayout`. The last part of its weights is a
    vector of lengths' and transitions' weights.

    Parameters
    ----------
    features : SegmentFeatures
    encoded : EncodedSegments
    penalties : SegmentPenalties
    gold : int32 [N]
        Token labels.
    sequence_weights : float64 [S]
    costs : float64 [4, token labels, token labels], optional
    """

    sequences_a_part: ClassVar[int] = 250
    steady_from: int = 1
    measure_every: int = 4
    revisits: ClassVar[bool] = True
    note: str = ""

    def __init__(
        self,
        features: SegmentFeatures,
        encoded: EncodedSegments,
        penalties: SegmentPenalties,
        gold: Int32,
        sequence_weights: Float,
        costs: Float | None = None,
    ) -> None:
        scheme, state, segment = features.scheme, features.state, features.segment
        self.features, self.lanes = features, width_of(max(scheme.n_token_labels, scheme.n_kinds))
        self.width, self.n_tables = self.lanes.numbers, len(features.lengths) + len(features.transitions)
        pointer, codes, in_row = state.pointer, state.codes, state.features.row_of >= 0
        limits = np.zeros(0, dtype=np.int64)
        if segment is not None:
            limits = _longest(segment.pointer, segment.codes, scheme)
            pointer = np.concatenate([pointer, pointer[-1] + segment.pointer[1:]])
            codes = np.concatenate([codes, segment.codes])
            in_row = np.concatenate([in_row, segment.features.row_of >= 0])
        places = _places(encoded, limits, len(state.pointer) - 1)
        attributes = Lists(places.pointer, places.ids, places.values)
        self.placement = Placement(pointer, codes, in_row, attributes, self.width)
        found = scheme.segments(encoded.offsets, gold)
        order = np.argsort(-scheme.limits, kind="stable")
        number = np.argsort(order, kind="stable").astype(np.int32)
        gold_offsets = np.searchsorted(found.starts, encoded.offsets).astype(np.int64)
        firsts = np.repeat(encoded.offsets[:-1], np.diff(gold_offsets))
        padded = NO_COSTS
        if costs is not None:
            padded = np.zeros((*costs.shape[:2], self.width), dtype=np.float32)
            padded[:, :, : costs.shape[2]] = costs
        self.corpus = SegmentCorpus(
            encoded.offsets,
            PlacedCorpus(places.offsets, *self.placement.entries, np.zeros(self.width, dtype=np.float32), *places[-3:]),
            _cells(features, penalties, order),
            gold,
            gold_offsets,
            (found.ends - 1 - firsts).astype(np.int32),
            (found.ends - found.starts - 1).astype(np.int32),
            number[found.labels],
            padded,
            sequence_weights,
        )

    def at_gold(self) -> tuple[Float32, Float32]:
        """Cells [N, K] and transitions [S, F] of the gold segmentations."""
        corpus, n = self.corpus, int(self.corpus.offsets[-1])
        kept = mapped.zeros((n, _kept_length(corpus.cells.counts)), np.float32)
        firsts = np.repeat(corpus.offsets[:-1], np.diff(corpus.gold_offsets))
        kept[firsts + corpus.gold_ends, corpus.cells.pointer[corpus.gold_lengths] + corpus.gold_labels] = 1.0
        transitions = mapped.zeros((len(corpus.offsets) - 1, len(self.features.transitions)), np.float32)
        sequence = np.repeat(np.arange(len(transitions)), np.diff(corpus.gold_offsets))
        steps = corpus.cells.transition_features[corpus.gold_labels[:-1], corpus.gold_labels[1:]]
        counted = (sequence[1:] == sequence[:-1]) & (steps >= 0)
        np.add.at(transitions, (sequence[1:][counted], steps[counted] - len(self.features.lengths)), 1.0)
        return kept, transitions

    def dual_pass(
        self, sequences: Int64, weights: PaddedWeights, step: Step, kept: Kept, losses: Float, gaps: Float
    ) -> None:
        """A step for each of the ``sequences``; ``losses`` and ``gaps`` [S] before it."""
        dual_pass(sequences, self.corpus, weights, self.lanes, LANES, *step, *kept[:3], losses, gaps)

    def losses(self, sequences: Int64, weights: PaddedWeights) -> float:
        """Losses of the ``sequences``, each times its weight; nan if scores leave single precision."""
        return losses(sequences, self.corpus, weights, self.lanes, LANES)

    def evaluate(self, sequences: Int64, weights: PaddedWeights, gradient: PaddedWeights) -> float:
        """The same; their gradient is added."""
        return evaluate(sequences, self.corpus, weights, self.lanes, LANES, gradient)

    def zeros(self) -> PaddedWeights:
        """Weights of zero."""
        return PaddedWeights(*self.placement.zeros(), np.zeros(self.n_tables, dtype=np.float32))

    def copy(self, weights: PaddedWeights) -> PaddedWeights:
        """The same weights in arrays of their own."""
        return PaddedWeights(*self.placement.copy(weights.rows, weights.lists), weights.transition.copy())

    def lay_out(self, weights: Float) -> PaddedWeights:
        """A weight vector [D] in this layout."""
        n = len(weights) - self.n_tables
        return PaddedWeights(*self.placement.lay_out(weights[:n]), weights[n:].astype(np.float32))

    def vector(
        self, rows: npt.NDArray[np.floating], lists: npt.NDArray[np.floating], transition: npt.NDArray[np.floating]
    ) -> Float:
        """The weight vector [D] of a layout."""
        weights = np.zeros(self.features.n_features)
        n = len(weights) - self.n_tables
        self.placement.gather(rows, lists, weights[:n])
        weights[n:] = transition
        return weights


LANES = width_of(N_LANES)  # of labels' rows, which are walked in groups of eight


def _longest(pointer: Int64, codes: Int32, scheme: SegmentScheme) -> Int64:
    """The length of the longest span that each attribute [A] has a feature for."""
    of_kind = np.zeros(scheme.n_kinds, dtype=np.int64)
    np.maximum.at(of_kind, scheme.kinds, scheme.limits)
    longest = np.zeros(len(pointer) - 1, dtype=np.int64)
    np.maximum.at(longest, np.repeat(np.arange(len(longest)), np.diff(pointer)), of_kind[codes])
    return longest


def _kept_length(counts: Int64) -> int:
    """K: the cells of all lengths, and so many more that a group of eight that begins with one of them ends there."""
    groups = -(-counts // N_LANES) * N_LANES
    return int(np.max(np.cumsum(counts) - counts + groups))


def _cells(features: SegmentFeatures, penalties: SegmentPenalties, order: Int64) -> Cells:
    """The labels in their ``order`` [Y] and what they may be next to."""
    scheme, y, n = features.scheme, features.scheme.n_labels, features.scheme.n_lengths
    v, kinds, limits = -(-y // N_LANES) * N_LANES, scheme.kinds[order], scheme.limits[order]
    counts = np.array([int(np.sum(limits > m)) for m in range(n)], dtype=np.int64)
    lengths = np.full((n, v), LOWEST, dtype=np.float32)
    possible = scheme.cells & (penalties.length == 0.0)
    lengths[:, :y] = np.where(possible[:, order], ZERO, LOWEST)
    allowed, start, stop = (np.zeros(shape, dtype=np.float32) for shape in ((v, v), v, v))
    pairs = (scheme.follows > 0) & (penalties.transition == 0.0)
    allowed[:y, :y] = pairs[np.ix_(order, order)]
    start[:y] = ((scheme.starts > 0) & (penalties.start == 0.0))[order]
    stop[:y] = (penalties.stop == 0.0)[order]
    length_codes = np.arange(n)[:, None] * scheme.n_kinds + kinds
    steps = find_keys(features.transitions, (kinds[:, None].astype(np.int64) * scheme.n_kinds + kinds).ravel())
    return Cells(
        kinds.astype(np.int32),
        scheme.single[order],
        scheme.first[order],
        scheme.inner[order],
        scheme.last[order],
        counts,
        limits[::N_LANES].astype(np.int64),
        np.cumsum(counts) - counts,
        lengths.ravel(),
        find_keys(features.lengths, length_codes.ravel()).astype(np.int32).reshape(n, y),
        np.where(steps >= 0, steps + len(features.lengths), -1).astype(np.int32).reshape(y, y),
        allowed.ravel(),
        start,
        stop,
    )


# ----------------------------------------------------------------------------------------------------------------------
# One sequence: scores, forward, backward, and from spans back to places.


class Workspace(NamedTuple):
    """Scratch for one sequence of at most T tokens and P places."""

    scores: Float32  # [P W] of places
    marginals: Float32  # [P W] or their change
    alone: Float32  # [T V] scores of tokens that are a segment,
    opening: Float32  # [T V] begin one,
    inside: Float32  # [T V] are neither its first nor its last,
    closing: Float32  # [T V] or end it; later the changes of their probabilities
    spans: Float32  # [T L V] scores, factors, then probabilities or their change
    begun: Float32  # [(T + 1) V]
    closed: Float32  # [(T + 1) V] 0, or as low as can be where no segment can begin
    ended: Float32  # [(T + 1) V]
    after: Float32  # [(T + 1) V] sums from the right, where a segment begins
    levels: Float  # [T + 1] of those that begin
    scales: Float32  # [T + 1]
    now: Float32  # [V]
    lengths: Float32  # [L V] scores, later the changes
    transition: Float32  # [V V] scores
    factors: Float32  # [V V]
    turned: Float32  # [V V]
    pairs: Float32  # [V V]
    starts: Float32  # [T 2] of each boundary the change of its probability, and the sum of old and new
    tables: Float32  # [F] the change of expected lengths and transitions


@loose_kernel
def _workspace(corpus: SegmentCorpus, sequences: Int64, n_tables: int, width: Width) -> Workspace:
    n, p, w = 1, 1, row_length(width)
    v, depth = corpus.cells.start.shape[0], corpus.cells.counts.shape[0]
    for k in range(sequences.shape[0]):
        i = sequences[k]
        n = max(n, corpus.offsets[i + 1] - corpus.offsets[i])
        p = max(p, corpus.places.offsets[i + 1] - corpus.places.offsets[i])
    return Workspace(
        np.empty(p * w, np.float32), np.empty(p * w, np.float32), np.zeros(n * v, np.float32),
        np.zeros(n * v, np.float32), np.zeros(n * v, np.float32), np.zeros(n * v, np.float32),
        np.empty(n * depth * v, np.float32), np.empty((n + 1) * v, np.float32), np.empty((n + 1) * v, np.float32),
        np.empty((n + 1) * v, np.float32), np.empty((n + 1) * v, np.float32), np.empty(n + 1),
        np.empty(n + 1, np.float32), np.empty(v, np.float32), np.empty(depth * v, np.float32),
        np.zeros(v * v, np.float32), np.empty(v * v, np.float32), np.empty(v * v, np.float32),
        np.empty(v * v, np.float32), np.empty(2 * n, np.float32), np.zeros(n_tables, np.float32),
    )  # fmt: skip


@loose_kernel
def _shrunk(weight: np.float32, less: np.float32) -> np.float32:
    """A weight moved towards zero by ``less``."""
    return max(weight - less, ZERO) + min(weight + less, ZERO)


@loose_kernel
def _set_tables(cells: Cells, tables: Float32, less: np.float32, lanes: Width, work: Workspace) -> np.float32:
    """Scores of lengths, and transitions as factors of at most one; returns the score they were divided by."""
    n_labels, v = cells.kinds.shape[0], cells.start.shape[0]
    for c in range(0, work.lengths.shape[0], N_LANES):
        store(work.lengths, c, load(cells.lengths, c, lanes))
    for m in range(cells.counts.shape[0]):
        for y in range(cells.counts[m]):
            if cells.length_features[m, y] >= 0:
                work.lengths[m * v + y] += _shrunk(tables[cells.length_features[m, y]], less)
    top = LOWEST
    for b in range(n_labels):
        for y in range(n_labels):
            f = cells.transition_features[b, y]
            score = _shrunk(tables[f], less) if f >= 0 else ZERO
            work.transition[b * v + y] = score
            top = max(top, score)
    for c in range(0, v * v, N_LANES):
        factor = exponential(load(work.transition, c, lanes) - top) * load(cells.allowed, c, lanes)
        store(work.factors, c, factor)
    for b in range(v):
        for y in range(v):
            work.turned[y * v + b] = work.factors[b * v + y]
    return top


@loose_kernel
def _add_costs(first: int, n: int, corpus: SegmentCorpus, width: Width, work: Workspace) -> None:
    """Add the costs of token labels to the scores of the ``n`` tokens from ``first`` on."""
    costs, w, n_labels = corpus.costs.ravel(), row_length(width), corpus.costs.shape[1]
    for t in range(n):
        kind = 2 if 0 < t < n - 1 else 1 if t < n - 1 else 3 if t > 0 else 0
        row = (kind * n_labels + corpus.gold[first + t]) * w
        for c in range(0, w, block_length(width)):
            store(work.scores, t * w + c, load(work.scores, t * w + c, width) + load(costs, row + c, width))


@loose_kernel
def _set_spans(i: int, corpus: SegmentCorpus, width: Width, lanes: Width, work: Workspace) -> None:
    """Scores of the spans of sequence ``i``, given those of its places and lengths."""
    cells, places, scores, w = corpus.cells, corpus.places, work.scores, row_length(width)
    n, v, depth = corpus.offsets[i + 1] - corpus.offsets[i], cells.start.shape[0], cells.counts.shape[0]
    kinds, single, first, inner, last = cells.kinds, cells.single, cells.first, cells.inner, cells.last
    for t in range(n):
        token, opening, closing = t * w, (n + t) * w, (2 * n + t) * w
        for y in range(kinds.shape[0]):
            begins, ends = scores[opening + kinds[y]], scores[closing + kinds[y]]
            work.alone[t * v + y] = begins + ends + (scores[token + single[y]] if single[y] >= 0 else ZERO)
            work.opening[t * v + y] = begins + (scores[token + first[y]] if first[y] >= 0 else ZERO)
            work.inside[t * v + y] = scores[token + inner[y]] if inner[y] >= 0 else ZERO
            work.closing[t * v + y] = ends + (scores[token + last[y]] if last[y] >= 0 else ZERO)
    for t in range(n):
        for c in range(0, v, N_LANES):
            store(work.spans, t * depth * v + c, load(work.alone, t * v + c, lanes) + load(work.lengths, c, lanes))
            rest = load(work.closing, t * v + c, lanes)
            for m in range(1, min(t + 1, cells.deepest[c // N_LANES])):
                if m > 1:
                    rest = rest + load(work.inside, (t - m + 1) * v + c, lanes)
                here = rest + load(work.opening, (t - m) * v + c, lanes) + load(work.lengths, m * v + c, lanes)
                store(work.spans, (t * depth + m) * v + c, here)
    for q in range(places.span_offsets[i], places.span_offsets[i + 1]):
        m, own = places.lengths[q], (3 * n + q - places.span_offsets[i]) * w
        span = (places.ends[q] * depth + m) * v
        for y in range(cells.counts[m]):
            work.spans[span + y] += scores[own + kinds[y]]


@loose_kernel
def _gold_score(i: int, corpus: SegmentCorpus, work: Workspace) -> float:
    """Score of the right segmentation, given those of spans."""
    score, v, depth = 0.0, corpus.cells.start.shape[0], corpus.cells.counts.shape[0]
    for k in range(corpus.gold_offsets[i], corpus.gold_offsets[i + 1]):
        y = corpus.gold_labels[k]
        score += work.spans[(corpus.gold_ends[k] * depth + corpus.gold_lengths[k]) * v + y]
        if k > corpus.gold_offsets[i]:
            score += work.transition[corpus.gold_labels[k - 1] * v + y]
    return score


@loose_kernel
def _expected_score(first: int, n: int, cells: Cells, alpha: Float32, work: Workspace) -> float:
    """Score of spans expected under ``alpha`` [N, K]."""
    score, kept, size = 0.0, alpha.ravel(), alpha.shape[1]
    v, depth = cells.start.shape[0], cells.counts.shape[0]
    for t in range(n):
        here = ZERO
        for m in range(min(t + 1, depth)):
            span, own = (t * depth + m) * v, (first + t) * size + cells.pointer[m]
            for y in range(cells.counts[m]):
                here += kept[own + y] * work.spans[span + y]
        score += float(here)
    return score


@loose_kernel
def _forward(n: int, top: np.float32, cells: Cells, lanes: Width, work: Workspace) -> float:
    """``work.begun``, ``ended`` and ``levels``; spans become factors. Returns log Z, nan after an underflow."""
    v, depth, level = cells.start.shape[0], cells.counts.shape[0], 0.0
    for c in range(0, v, N_LANES):
        store(work.begun, c, load(cells.start, c, lanes))
    work.levels[0] = 0.0
    for t in range(n):
        here, end = t * v, (t + 1) * v
        for y in range(v):
            work.closed[here + y] = ZERO if work.begun[here + y] > ZERO else LOWEST
        most = same(LOWEST, lanes)
        for c in range(0, v, N_LANES):
            for m in range(min(t + 1, cells.deepest[c // N_LANES])):
                place, relative = (t * depth + m) * v + c, np.float32(work.levels[t - m] - work.levels[t])
                score = load(work.spans, place, lanes) + (load(work.closed, (t - m) * v + c, lanes) + relative)
                store(work.spans, place, score)
                most = greater(most, score)
        greatest_score, mass = greatest(most), same(ZERO, lanes)
        if greatest_score < RULED_OUT:  # no segment can end here
            greatest_score = ZERO
        for c in range(0, v, N_LANES):
            summed = same(ZERO, lanes)
            for m in range(min(t + 1, cells.deepest[c // N_LANES])):
                place = (t * depth + m) * v + c
                factor = exponential(load(work.spans, place, lanes) - greatest_score)
                store(work.spans, place, factor)
                summed = summed + factor * load(work.begun, (t - m) * v + c, lanes)
            store(work.ended, end + c, summed)
            mass = mass + summed
        scale = total(mass)
        inverse = ONE / scale if scale > ZERO else ZERO
        level = work.levels[t] + float(greatest_score) + (math.log(float(scale)) if scale > ZERO else 0.0)
        for c in range(0, v, N_LANES):
            store(work.ended, end + c, above(inverse * load(work.ended, end + c, lanes), NOTHING))
            for m in range(min(t + 1, cells.deepest[c // N_LANES])):
                place = (t * depth + m) * v + c
                store(work.spans, place, inverse * load(work.spans, place, lanes))
        if t + 1 == n:
            break
        most = same(ZERO, lanes)
        for c in range(0, v, N_LANES):
            summed = same(ZERO, lanes)
            for b in range(cells.kinds.shape[0]):
                summed = summed + work.ended[end + b] * load(work.factors, b * v + c, lanes)
            store(work.begun, end + c, summed)
            most = greater(most, summed)
        scale = greatest(most)
        inverse = ONE / scale if scale > ZERO else ZERO
        work.scales[t + 1] = inverse
        work.levels[t + 1] = level + float(top) + (math.log(float(scale)) if scale > ZERO else 0.0)
        for c in range(0, v, N_LANES):
            store(work.begun, end + c, above(inverse * load(work.begun, end + c, lanes), NOTHING))
    mass = same(ZERO, lanes)
    for c in range(0, v, N_LANES):
        mass = mass + load(work.ended, n * v + c, lanes) * load(cells.stop, c, lanes)
    scale = total(mass)
    if not scale > LEAST:
        return np.nan
    work.scales[n] = ONE / scale
    return level + math.log(float(scale))


@loose_kernel
def _backward(n: int, cells: Cells, lanes: Width, work: Workspace) -> None:
    """Spans become probabilities, and ``work.pairs`` the expected transitions divided by their factors."""
    v, depth, n_labels = cells.start.shape[0], cells.counts.shape[0], cells.kinds.shape[0]
    for c in range(0, (n + 1) * v, N_LANES):
        store(work.after, c, same(ZERO, lanes))
    for c in range(0, v, N_LANES):
        store(work.now, c, work.scales[n] * load(cells.stop, c, lanes))
    for t in range(n - 1, -1, -1):
        if t < n - 1:
            here = (t + 1) * v
            for c in range(0, v, N_LANES):
                store(work.after, here + c, above(work.scales[t + 1] * load(work.after, here + c, lanes), NOTHING))
            for c in range(0, v, N_LANES):
                summed = same(ZERO, lanes)
                for y in range(n_labels):
                    summed = summed + work.after[here + y] * load(work.turned, y * v + c, lanes)
                store(work.now, c, above(summed, NOTHING))
        for c in range(0, v, N_LANES):
            now = load(work.now, c, lanes)
            for m in range(min(t + 1, cells.deepest[c // N_LANES])):
                place, begin = (t * depth + m) * v + c, (t - m) * v + c
                flow = load(work.spans, place, lanes) * now
                store(work.after, begin, load(work.after, begin, lanes) + flow)
                store(work.spans, place, above(flow * load(work.begun, begin, lanes), NOTHING))
    for b in range(n_labels):
        for c in range(0, v, N_LANES):
            summed = same(ZERO, lanes)
            for e in range(1, n):
                summed = summed + work.ended[e * v + b] * load(work.after, e * v + c, lanes)
            store(work.pairs, b * v + c, summed)


@loose_kernel
def _subtract_kept(first: int, n: int, cells: Cells, alpha: Float32, work: Workspace) -> np.float32:
    """Take ``alpha`` [N, K] from the spans; returns J, the size of the change by chi-square.

    The spans that begin at one boundary exclude each other: J is the distance between their distributions given the
    boundary, which is that of the spans less that of the boundary.
    """
    kept, size, v, depth = alpha.ravel(), ZERO, cells.start.shape[0], cells.counts.shape[0]
    for t in range(n):
        work.starts[2 * t] = work.starts[2 * t + 1] = ZERO
    for t in range(n):
        for m in range(min(t + 1, depth)):
            span, own = (t * depth + m) * v, (first + t) * alpha.shape[1] + cells.pointer[m]
            changed, summed = ZERO, ZERO
            for y in range(cells.counts[m]):
                now, old = work.spans[span + y], kept[own + y]
                change = now - old
                work.spans[span + y] = change
                size += change * change / (now + old + TINY)
                changed += change
                summed += now + old
            work.starts[2 * (t - m)] += changed
            work.starts[2 * (t - m) + 1] += summed
    for t in range(n):
        size -= work.starts[2 * t] * work.starts[2 * t] / (work.starts[2 * t + 1] + TINY)
    return TWO * max(size, ZERO)


@loose_kernel
def _subtract_gold(i: int, corpus: SegmentCorpus, work: Workspace) -> None:
    """Take the right segmentation from spans, and its transitions from ``work.tables``."""
    v, depth, steps = corpus.cells.start.shape[0], corpus.cells.counts.shape[0], corpus.cells.transition_features
    for k in range(corpus.gold_offsets[i], corpus.gold_offsets[i + 1]):
        y = corpus.gold_labels[k]
        work.spans[(corpus.gold_ends[k] * depth + corpus.gold_lengths[k]) * v + y] -= ONE
        if k > corpus.gold_offsets[i] and steps[corpus.gold_labels[k - 1], y] >= 0:
            work.tables[steps[corpus.gold_labels[k - 1], y]] -= ONE


@loose_kernel
def _set_places(i: int, corpus: SegmentCorpus, width: Width, lanes: Width, work: Workspace) -> None:
    """``work.marginals`` of places and the lengths in ``work.tables``, given probabilities of spans or their change."""
    cells, places, out, w = corpus.cells, corpus.places, work.marginals, row_length(width)
    n, v, depth = corpus.offsets[i + 1] - corpus.offsets[i], cells.start.shape[0], cells.counts.shape[0]
    kinds, single, first, inner, last = cells.kinds, cells.single, cells.first, cells.inner, cells.last
    for c in range(0, n * v, N_LANES):
        store(work.opening, c, same(ZERO, lanes))
    for c in range(0, depth * v, N_LANES):
        store(work.lengths, c, same(ZERO, lanes))
    for t in range(n):
        for c in range(0, v, N_LANES):
            here = load(work.spans, t * depth * v + c, lanes)
            store(work.alone, t * v + c, here)
            store(work.lengths, c, load(work.lengths, c, lanes) + here)
            summed = same(ZERO, lanes)
            for m in range(1, min(t + 1, cells.deepest[c // N_LANES])):
                here, begin = load(work.spans, (t * depth + m) * v + c, lanes), (t - m) * v + c
                store(work.opening, begin, load(work.opening, begin, lanes) + here)
                store(work.lengths, m * v + c, load(work.lengths, m * v + c, lanes) + here)
                summed = summed + here
            store(work.closing, t * v + c, summed)
    for c in range(0, v, N_LANES):  # those inside at t: those before, and what began there, without what ends at t
        within = same(ZERO, lanes)
        for t in range(n):
            if t > 0:
                within = within + load(work.opening, (t - 1) * v + c, lanes) - load(work.closing, t * v + c, lanes)
            store(work.inside, t * v + c, within)
    n_places = places.offsets[i + 1] - places.offsets[i]
    for c in range(0, n_places * w, block_length(width)):
        store(out, c, same(ZERO, width))
    for t in range(n):
        token, opening, closing = t * w, (n + t) * w, (2 * n + t) * w
        for y in range(kinds.shape[0]):
            alone, begins, ends = work.alone[t * v + y], work.opening[t * v + y], work.closing[t * v + y]
            if single[y] >= 0:
                out[token + single[y]] += alone
            if first[y] >= 0 and last[y] >= 0:
                out[token + first[y]] += begins
                out[token + last[y]] += ends
            if inner[y] >= 0:
                out[token + inner[y]] += work.inside[t * v + y]
            out[opening + kinds[y]] += alone + begins
            out[closing + kinds[y]] += alone + ends
    for q in range(places.span_offsets[i], places.span_offsets[i + 1]):
        m, own = places.lengths[q], (3 * n + q - places.span_offsets[i]) * w
        span = (places.ends[q] * depth + m) * v
        for y in range(cells.counts[m]):
            out[own + kinds[y]] += work.spans[span + y]
    for m in range(depth):
        for y in range(cells.counts[m]):
            if cells.length_features[m, y] >= 0:
                work.tables[cells.length_features[m, y]] += work.lengths[m * v + y]


@loose_kernel
def _add_transitions(cells: Cells, work: Workspace) -> None:
    """Add the expected transitions to ``work.tables``."""
    v = cells.start.shape[0]
    for b in range(cells.kinds.shape[0]):
        for y in range(cells.kinds.shape[0]):
            f = cells.transition_features[b, y]
            if f >= 0:
                work.tables[f] += work.pairs[b * v + y] * work.factors[b * v + y]


@loose_kernel
def _score_spans(
    i: int, corpus: SegmentCorpus, weights: PaddedWeights, less: np.float32, width: Width, lanes: Width, work: Workspace
) -> tuple[np.float32, float]:
    """Scores of spans of sequence ``i``; the score that transitions were divided by, and that of the gold."""
    first, n = corpus.offsets[i], corpus.offsets[i + 1] - corpus.offsets[i]
    begin, n_places = corpus.places.offsets[i], corpus.places.offsets[i + 1] - corpus.places.offsets[i]
    top = _set_tables(corpus.cells, weights.transition, less, lanes, work)
    set_scores(begin, n_places, corpus.places, weights, less, width, work)
    if corpus.costs.shape[0] > 0:
        _add_costs(first, n, corpus, width, work)
    _set_spans(i, corpus, width, lanes, work)
    return top, _gold_score(i, corpus, work)


# ----------------------------------------------------------------------------------------------------------------------
# Passes.


@loose_kernel
def losses(sequences: Int64, corpus: SegmentCorpus, weights: PaddedWeights, width: Width, lanes: Width) -> float:
    """Losses of the ``sequences``, each times its weight. nan if a sum has underflown."""
    work, total_loss = _workspace(corpus, sequences, weights.transition.shape[0], width), 0.0
    for k in range(sequences.shape[0]):
        i = sequences[k]
        top, gold_score = _score_spans(i, corpus, weights, ZERO, width, lanes, work)
        log_z = _forward(corpus.offsets[i + 1] - corpus.offsets[i], top, corpus.cells, lanes, work)
        if not log_z < np.inf:
            return np.nan
        total_loss += (log_z - gold_score) * corpus.sequence_weights[i]
    return total_loss


@loose_kernel
def evaluate(
    sequences: Int64, corpus: SegmentCorpus, weights: PaddedWeights, width: Width, lanes: Width, gradient: PaddedWeights
) -> float:
    """Losses of the ``sequences``, each times its weight; their gradient is added. nan if a sum has underflown.

    The gradient also has numbers for missing features of a row; ignore them.
    """
    work, total_loss, w = _workspace(corpus, sequences, weights.transition.shape[0], width), 0.0, row_length(width)
    for k in range(sequences.shape[0]):
        i = sequences[k]
        n, begin = corpus.offsets[i + 1] - corpus.offsets[i], corpus.places.offsets[i]
        n_places, weight = corpus.places.offsets[i + 1] - begin, np.float32(corpus.sequence_weights[i])
        top, gold_score = _score_spans(i, corpus, weights, ZERO, width, lanes, work)
        log_z = _forward(n, top, corpus.cells, lanes, work)
        if not log_z < np.inf:
            return np.nan
        total_loss += (log_z - gold_score) * corpus.sequence_weights[i]
        _backward(n, corpus.cells, lanes, work)
        for f in range(work.tables.shape[0]):
            work.tables[f] = ZERO
        _subtract_gold(i, corpus, work)
        _set_places(i, corpus, width, lanes, work)
        _add_transitions(corpus.cells, work)
        if weight != ONE:
            for c in range(n_places * w):
                work.marginals[c] *= weight
        for f in range(work.tables.shape[0]):
            gradient.transition[f] += weight * work.tables[f]
        add_gradient(begin, n_places, corpus.places, width, work, gradient)
    return total_loss


@loose_kernel
def _apart(begin: int, n: int, places: PlacedCorpus, width: Width, work: Workspace) -> float:
    """What Q would be if no two places shared a feature and every one existed."""
    apart, w = 0.0, row_length(width)
    for t in range(n):
        looked_at = places.row_pointer[begin + t + 1] - places.row_pointer[begin + t]
        looked_at += places.list_pointer[begin + t + 1] - places.list_pointer[begin + t]
        square = same(ZERO, width)
        for c in range(0, w, block_length(width)):
            change = load(work.marginals, t * w + c, width)
            square = square + change * change
        apart += float(looked_at) * float(total(square))
    return apart


@loose_kernel
def _add_to_kept(first: int, n: int, gamma: np.float32, cells: Cells, alpha: Float32, work: Workspace) -> None:
    """Move ``alpha`` [N, K] by ``gamma`` times the change of spans."""
    kept, v, depth = alpha.ravel(), cells.start.shape[0], cells.counts.shape[0]
    for t in range(n):
        for m in range(min(t + 1, depth)):
            span, own = (t * depth + m) * v, (first + t) * alpha.shape[1] + cells.pointer[m]
            for y in range(cells.counts[m]):
                kept[own + y] += gamma * work.spans[span + y]


@loose_kernel
def dual_pass(
    sequences: Int64, corpus: SegmentCorpus, weights: PaddedWeights, width: Width, lanes: Width, shrink: float,
    l2: float, caution: float, measure: bool, alpha: Float32, alpha_transitions: Float32, overlaps: Float32,
    losses: Float, gaps: Float,
) -> None:  # fmt: skip
    """A step for each of the ``sequences`` in turn; losses and gaps [S] before each step, nan after an underflow.

    The weights are a function of ``alpha`` [N, K] and ``alpha_transitions`` [S, F], the sequences' kept spans and
    transitions; scores use the weights moved towards zero by ``shrink``. ``overlaps`` [S] is how much the places of a
    sequence share features: with ``measure`` it is computed and stored, otherwise the stored number is used.
    """
    less, cells, tables = np.float32(shrink), corpus.cells, weights.transition
    work, n_tables = _workspace(corpus, sequences, weights.transition.shape[0], width), weights.transition.shape[0]
    moves = moves_of(corpus.places, sequences, weights.rows.shape[0], width)
    n_lengths = n_tables - alpha_transitions.shape[1]
    for k in range(sequences.shape[0]):
        i = sequences[k]
        first, n, begin = corpus.offsets[i], corpus.offsets[i + 1] - corpus.offsets[i], corpus.places.offsets[i]
        n_places, weight, old = corpus.places.offsets[i + 1] - begin, corpus.sequence_weights[i], alpha_transitions[i]
        top, gold_score = _score_spans(i, corpus, weights, less, width, lanes, work)
        kept_score = _expected_score(first, n, cells, alpha, work)
        log_z = _forward(n, top, cells, lanes, work)
        if not log_z < np.inf:
            losses[i] = gaps[i] = np.nan  # alpha_i stays as it is
            continue
        _backward(n, cells, lanes, work)
        size = _subtract_kept(first, n, cells, alpha, work)
        for f in range(n_tables):
            work.tables[f] = ZERO
        _set_places(i, corpus, width, lanes, work)
        _add_transitions(cells, work)
        apart = _apart(begin, n_places, corpus.places, width, work)
        used, square = 0, 0.0
        if measure:
            used, found = add_up(begin, n_places, corpus.places, weights, width, work, moves)
            square = float(found)
            overlaps[i] = square / (apart + LEAST)
        else:
            square = overlaps[i] * apart
        for f in range(n_tables):
            if f >= n_lengths:
                kept_score += float(_shrunk(tables[f], less)) * old[f - n_lengths]
                work.tables[f] -= old[f - n_lengths]
            square += work.tables[f] * work.tables[f]
        # a token begins a segment of one of Y labels, or none: n tokens have at most (Y + 1)^n segmentations
        least = log_z - kept_score - n * math.log(cells.kinds.shape[0] + 1.0)
        losses[i], gaps[i] = weight * (log_z - gold_score), weight * max(0.5 * size, least)
        gamma = np.float32(size / (size + caution * weight / (2.0 * l2) * square + LEAST))
        factor = np.float32(-weight / (2.0 * l2)) * gamma
        for f in range(n_tables):
            tables[f] += factor * work.tables[f]
            if f >= n_lengths:
                old[f - n_lengths] += gamma * work.tables[f]
        _add_to_kept(first, n, gamma, cells, alpha, work)
        if measure:
            add_sums_to_rows(used, factor, width, moves, weights)
        else:
            add_to_rows(begin, n_places, corpus.places, factor, width, work, weights)
        add_to_lists(begin, n_places, corpus.places, factor, width, work, weights)
