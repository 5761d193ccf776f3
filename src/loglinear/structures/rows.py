"""Weights of attributes laid out for fast passes in single precision: rows padded to a multiple of eight labels.

An attribute with at least three features has a row of W numbers, which are zero for missing features. The features of
other attributes are *single*. Rows are sorted by how often their attribute occurs, so that frequent ones lie together
in the cache; single features by where they first occur, so that those of a sequence lie together.

This is what chains and segments share: where weights lie, and the steps from them to the scores of positions and back.
A *position* is whatever has attributes: a token of a chain, a token or a span of segments.

**Missing features.** A row has a number for every label, also for those that its attribute has no feature with. Steps
must leave those numbers alone. They are -0.0, which adds nothing to a score, and `added` of the lanes leaves -0.0 as
it is. It never makes one of another number, so that a weight that exists is not lost when it becomes zero.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from loglinear import mapped
from loglinear.arrays import Bool, Float, Float32, Int16, Int32, Int64
from loglinear.features.block import Features
from loglinear.kernels import kernel, loose_kernel
from loglinear.kernels.lanes import (
    Width,
    added,
    block_length,
    greater,
    load,
    prefetch,
    row_length,
    same,
    store,
    total,
    towards_zero,
    where_there,
)
from loglinear.kernels.tables import Lists

ZERO, ONE, TWO = np.float32(0.0), np.float32(1.0), np.float32(2.0)
LOWEST = np.float32(-1e30)  # a score whose exponential is zero
LEAST = np.float32(1e-18)  # a smaller sum of scaled probabilities may lack some that were set to zero
NOTHING = np.float32(1e-24)  # a smaller probability is set to zero: near 1e-38 arithmetic is slow
TINY = np.float32(1e-9)
AHEAD = 28  # rows are fetched into the cache so many before they are needed
ALIGNMENT = 64  # bytes: a line of the cache
NO_COSTS = np.zeros((0, 0, 0), dtype=np.float32)


class PaddedWeights(NamedTuple):
    """Weights, or a gradient by them.

    Parameters
    ----------
    rows : float32 [R, W]
        Those of missing features are -0.0 (in a gradient: anything).
    lists : float32 [F]
    transition : float32 [W, W]
    """

    rows: Float32
    lists: Float32
    transition: Float32


class Step(NamedTuple):
    """How the steps of dual ascent are made.

    Parameters
    ----------
    shrink : float
        How far the L1 penalty moves weights towards zero.
    l2 : float
        The factor of ||w||^2, smaller where others move the same weights.
    caution : float
        Makes steps smaller.
    measure : bool
        Whether to measure how much the positions of each sequence share features.
    """

    shrink: float
    l2: float
    caution: float
    measure: bool


class Kept(NamedTuple):
    """What dual ascent keeps of the sequences, which the weights are a function of.

    Parameters
    ----------
    alpha : float32 [N, W]
    transitions : float32 [S, F]
    overlaps : float32 [S]
    pairs : float32
        Of positions that have edge features, one after the other; empty where the layout keeps none.
    """

    alpha: Float32
    transitions: Float32
    overlaps: Float32
    pairs: Float32


class Positions(Protocol):
    """What passes know of a corpus's positions: where their weights are stored.

    offsets : int64 [S + 1]
        Sequence i has the positions ``offsets[i]`` to ``offsets[i + 1]``.
    row_pointer, row_ids, row_values
        Position t uses the rows ``row_ids[row_pointer[t]:row_pointer[t + 1]]``; no values if all are one. After the
        last come ``AHEAD`` more ids, so that what is fetched ahead exists.
    list_pointer, list_ids, list_labels, list_values
        The same for single features, with the label of each.
    blank : float32 [W]
        Scores without any features.
    """

    @property
    def offsets(self) -> Int64: ...
    @property
    def row_pointer(self) -> Int64: ...
    @property
    def row_ids(self) -> Int32: ...
    @property
    def row_values(self) -> Float32: ...
    @property
    def list_pointer(self) -> Int64: ...
    @property
    def list_ids(self) -> Int32: ...
    @property
    def list_labels(self) -> Int16: ...
    @property
    def list_values(self) -> Float32: ...
    @property
    def blank(self) -> Float32: ...


class Scratch(Protocol):
    """Room for the positions of a sequence: ``scores`` [T W], and ``marginals`` [T W] or their change."""

    @property
    def scores(self) -> Float32: ...
    @property
    def marginals(self) -> Float32: ...


class Entries(NamedTuple):
    """The rows and single features of each position, with the names of :class:`Positions`."""

    row_pointer: Int64
    row_ids: Int32
    row_values: Float32
    list_pointer: Int64
    list_ids: Int32
    list_labels: Int16
    list_values: Float32


@kernel
def _number_singles(ids: Int32, features: Features, first: Int32, order: Int32) -> None:
    """Number the single features by first occurrence: ``first`` [A] of each attribute (-1 before), ``order`` [F]."""
    n, n_attributes = 0, features.row_of.shape[0]
    for j in range(ids.shape[0] + n_attributes):  # finally those that never occur
        a = ids[j] if j < ids.shape[0] else j - ids.shape[0]
        if features.row_of[a] < 0 and first[a] < 0:
            first[a] = n
            for f in range(features.pointer[a], features.pointer[a + 1]):
                order[n] = f
                n += 1


@kernel
def _count_entries(lists: Lists, features: Features, rows: Int64, singles: Int64) -> None:
    """Where the rows and single features of each position begin [N + 1]."""
    pointer, ids, _ = lists
    for t in range(pointer.shape[0] - 1):
        n_rows, n_singles = 0, 0
        for j in range(pointer[t], pointer[t + 1]):
            if features.row_of[ids[j]] >= 0:
                n_rows += 1
            else:
                n_singles += features.pointer[ids[j] + 1] - features.pointer[ids[j]]
        rows[t + 1], singles[t + 1] = rows[t] + n_rows, singles[t] + n_singles


@kernel
def _fill_entries(lists: Lists, features: Features, first: Int32, entries: Entries) -> None:
    """Fill in the rows and single features of each position."""
    _, ids, values = lists
    r, s, has_values = 0, 0, values.shape[0] > 0
    for j in range(ids.shape[0]):
        a = ids[j]
        if features.row_of[a] >= 0:
            entries.row_ids[r] = features.row_of[a]
            if has_values:
                entries.row_values[r] = values[j]
            r += 1
        else:
            for f in range(features.pointer[a], features.pointer[a + 1]):
                entries.list_ids[s] = first[a] + f - features.pointer[a]
                entries.list_labels[s] = features.codes[f]
                if has_values:
                    entries.list_values[s] = values[j]
                s += 1


class Placement:
    """Where the features of attributes are stored.

    Parameters
    ----------
    pointer : int64 [A + 1]
        Attribute a has the features ``pointer[a]`` to ``pointer[a + 1]``.
    codes : int32 [F]
        The label of each.
    in_row : bool [A]
        Which attributes have a row.
    lists : Lists
        The attributes of all positions.
    width : int
        W.
    """

    def __init__(self, pointer: Int64, codes: Int32, in_row: Bool, lists: Lists, width: int) -> None:
        self.width = width
        seen = mapped.counts(lists.ids, len(in_row))
        rows = np.flatnonzero(in_row)
        rows = rows[np.argsort(-seen[rows], kind="stable")]
        row_of = np.full(len(in_row), -1, dtype=np.int32)
        row_of[rows] = np.arange(len(rows))
        first = np.full(len(in_row), -1, dtype=np.int32)
        self._single_feature = np.empty(int(np.sum(np.diff(pointer)[~in_row])), dtype=np.int32)
        laid_out = Features(pointer, codes, row_of)
        _number_singles(lists.ids, laid_out, first, self._single_feature)
        owner = np.repeat(row_of, np.diff(pointer))
        self._row_feature = np.flatnonzero(owner >= 0).astype(np.int32)
        self._row_place = owner[self._row_feature] * np.int64(width) + codes[self._row_feature]
        self.n_rows = len(rows)
        self.entries = _entries(lists, laid_out, first)

    def zeros(self) -> tuple[Float32, Float32]:
        """Rows [R, W] and single features of zero, in arrays of their own; missing features are marked."""
        rows = aligned(self.n_rows * self.width)
        rows.fill(-0.0)
        rows[self._row_place] = 0.0
        return rows.reshape(self.n_rows, self.width), np.zeros(len(self._single_feature), dtype=np.float32)

    def copy(self, rows: Float32, lists: Float32) -> tuple[Float32, Float32]:
        """The same weights in arrays of their own, which lie as passes like them, and with missing features marked."""
        copied, copied_lists = self.zeros()
        copied.ravel()[self._row_place] = rows.ravel()[self._row_place]
        copied_lists[:] = lists
        return copied, copied_lists

    def lay_out(self, weights: Float) -> tuple[Float32, Float32]:
        """The weights of features [F] as rows and single features."""
        rows, lists = self.zeros()
        rows.ravel()[self._row_place] = weights[self._row_feature] + 0.0  # -0.0 becomes 0.0
        lists[:] = weights[self._single_feature]
        return rows, lists

    def gather(self, rows: npt.NDArray[np.floating], lists: npt.NDArray[np.floating], weights: Float) -> None:
        """Write rows and single features back to ``weights`` [F]."""
        weights[self._row_feature] = rows.ravel()[self._row_place]
        weights[self._single_feature] = lists


def aligned(n: int) -> Float32:
    """An array of ``n`` zeros that begins with a line of the cache, so that a row lies in as few lines as possible."""
    room = np.zeros(4 * n + ALIGNMENT, dtype=np.uint8)
    skipped = -room.ctypes.data % ALIGNMENT
    return room[skipped : skipped + 4 * n].view(np.float32)


def _entries(lists: Lists, features: Features, first: Int32) -> Entries:
    """The entries of all positions; the single features of attribute a are ``first[a]`` and those after it."""
    pointers = mapped.zeros((2, len(lists.pointer)), np.int64)
    _count_entries(lists, features, *pointers)
    sizes = pointers[:, -1].tolist()
    ids = [mapped.zeros(size + more, np.int32) for size, more in zip(sizes, (AHEAD, 0), strict=True)]
    values = [mapped.empty(size if len(lists.values) else 0, np.float32) for size in sizes]
    labels = mapped.empty(sizes[1], np.int16)
    entries = Entries(pointers[0], ids[0], values[0], pointers[1], ids[1], labels, values[1])
    _fill_entries(lists, features, first, entries)
    return entries


# ----------------------------------------------------------------------------------------------------------------------
# From weights to the scores of a sequence's positions and back. All rows have W numbers, a multiple of eight.


@loose_kernel
def set_scores(
    first: int, n: int, corpus: Positions, weights: PaddedWeights, less: np.float32, width: Width, work: Scratch
) -> None:
    """``work.scores`` of the ``n`` positions from ``first`` on, with weights moved towards zero by ``less``."""
    scores, rows, ids, values = work.scores, weights.rows.ravel(), corpus.row_ids, corpus.row_values
    w, block = row_length(width), block_length(width)
    has_values = values.shape[0] + corpus.list_values.shape[0] > 0
    for t in range(n):
        begin, end = corpus.row_pointer[first + t], corpus.row_pointer[first + t + 1]
        for c in range(0, w, block):
            score = load(corpus.blank, c, width)
            if has_values or less > ZERO:
                for j in range(begin, end):
                    value = values[j] if has_values else ONE
                    score = score + value * towards_zero(load(rows, ids[j] * w + c, width), less)
            else:
                for j in range(begin, end):
                    prefetch(rows, ids[j + AHEAD] * w + c, width)
                    score = score + load(rows, ids[j] * w + c, width)
            store(scores, t * w + c, score)
        for j in range(corpus.list_pointer[first + t], corpus.list_pointer[first + t + 1]):
            value, weight = corpus.list_values[j] if has_values else ONE, weights.lists[corpus.list_ids[j]]
            scores[t * w + corpus.list_labels[j]] += value * (max(weight - less, ZERO) + min(weight + less, ZERO))


@loose_kernel
def add_gradient(first: int, n: int, corpus: Positions, width: Width, work: Scratch, gradient: PaddedWeights) -> None:
    """Add the gradient by the scores of a sequence, ``work.marginals``, to that by the weights."""
    parts, rows, ids, values = work.marginals, gradient.rows.ravel(), corpus.row_ids, corpus.row_values
    w, block = row_length(width), block_length(width)
    has_values = values.shape[0] + corpus.list_values.shape[0] > 0
    for t in range(n):
        for c in range(0, w, block):
            part = load(parts, t * w + c, width)
            for j in range(corpus.row_pointer[first + t], corpus.row_pointer[first + t + 1]):
                place, value = ids[j] * w + c, values[j] if has_values else ONE
                prefetch(rows, ids[j + AHEAD] * w + c, width)
                store(rows, place, load(rows, place, width) + value * part)
        for j in range(corpus.list_pointer[first + t], corpus.list_pointer[first + t + 1]):
            value = corpus.list_values[j] if has_values else ONE
            gradient.lists[corpus.list_ids[j]] += value * parts[t * w + corpus.list_labels[j]]


class Moves(NamedTuple):
    """The change that one step makes to the rows of weights that its sequence uses."""

    slot: Int32  # [R] place of each row in the list, -1 if it is not in it
    row_ids: Int32  # the rows in the list
    sums: Float32  # [. W] what is added to each


@loose_kernel
def moves_of(corpus: Positions, sequences: Int64, n_rows: int, width: Width) -> Moves:
    """Room for the changes of any of the ``sequences``."""
    most = 1
    for k in range(sequences.shape[0]):
        i = sequences[k]
        most = max(most, corpus.row_pointer[corpus.offsets[i + 1]] - corpus.row_pointer[corpus.offsets[i]])
    sums = np.empty(most * row_length(width), np.float32)
    return Moves(np.full(n_rows, -1, np.int32), np.empty(most, np.int32), sums)


@loose_kernel
def add_up(
    first: int, n: int, corpus: Positions, weights: PaddedWeights, width: Width, work: Scratch, moves: Moves
) -> tuple[int, np.float32]:
    """Add up the effect of a change of marginals, ``work.marginals``, on each row.

    Returns the number of rows and the squared norm. Assumes that the sequence uses each single feature only once.
    """
    parts, sums, rows, ids = work.marginals, moves.sums, weights.rows.ravel(), corpus.row_ids
    w, block, used = row_length(width), block_length(width), 0
    has_values = corpus.row_values.shape[0] + corpus.list_values.shape[0] > 0
    for t in range(n):
        for j in range(corpus.row_pointer[first + t], corpus.row_pointer[first + t + 1]):
            place, value = moves.slot[ids[j]], corpus.row_values[j] if has_values else ONE
            if place < 0:
                moves.slot[ids[j]] = used
                moves.row_ids[used] = ids[j]
                for c in range(0, w, block):
                    store(sums, used * w + c, value * load(parts, t * w + c, width))
                used += 1
            else:
                for c in range(0, w, block):
                    part = value * load(parts, t * w + c, width)
                    store(sums, place * w + c, load(sums, place * w + c, width) + part)
    squares = same(ZERO, width)
    for place in range(used):
        for c in range(0, w, block):
            row = load(rows, moves.row_ids[place] * w + c, width)
            there = where_there(row, load(sums, place * w + c, width))
            squares = squares + there * there
    square = total(squares)
    for t in range(n):
        for j in range(corpus.list_pointer[first + t], corpus.list_pointer[first + t + 1]):
            alone = parts[t * w + corpus.list_labels[j]] * (corpus.list_values[j] if has_values else ONE)
            square += alone * alone
    return used, square


@loose_kernel
def add_to_rows(
    first: int, n: int, corpus: Positions, factor: np.float32, width: Width, work: Scratch, weights: PaddedWeights
) -> None:
    """Add ``factor`` times a change of marginals, ``work.marginals``, to the rows of its positions."""
    rows, ids, values = weights.rows.ravel(), corpus.row_ids, corpus.row_values
    w, block, has_values = row_length(width), block_length(width), values.shape[0] > 0
    for t in range(n):
        for c in range(0, w, block):
            part = factor * load(work.marginals, t * w + c, width)
            for j in range(corpus.row_pointer[first + t], corpus.row_pointer[first + t + 1]):
                place, value = ids[j] * w + c, values[j] if has_values else ONE
                store(rows, place, added(load(rows, place, width), value * part))


@loose_kernel
def add_sums_to_rows(used: int, factor: np.float32, width: Width, moves: Moves, weights: PaddedWeights) -> None:
    """Add ``factor`` times what :func:`add_up` found to the rows; ``moves`` is empty afterwards."""
    rows, w = weights.rows.ravel(), row_length(width)
    for place in range(used):
        row = moves.row_ids[place] * w
        for c in range(0, w, block_length(width)):
            part = factor * load(moves.sums, place * w + c, width)
            store(rows, row + c, added(load(rows, row + c, width), part))
        moves.slot[moves.row_ids[place]] = -1


@loose_kernel
def add_to_lists(
    first: int, n: int, corpus: Positions, factor: np.float32, width: Width, work: Scratch, weights: PaddedWeights
) -> None:
    """Add ``factor`` times a change of marginals, ``work.marginals``, to the single features of its positions."""
    w, has_values = row_length(width), corpus.list_values.shape[0] > 0
    for t in range(n):
        for j in range(corpus.list_pointer[first + t], corpus.list_pointer[first + t + 1]):
            value = corpus.list_values[j] if has_values else ONE
            weights.lists[corpus.list_ids[j]] += factor * value * work.marginals[t * w + corpus.list_labels[j]]


@kernel
def merge(width: Width, overlap: float, weights: PaddedWeights, one: PaddedWeights, other: PaddedWeights) -> None:
    """Add the changes made to two copies, divided by ``overlap``, to ``weights``, and set the copies to the result.

    It writes to arrays and reads others, so that a loose kernel would round by where these lie.
    """
    share, rows, ones, others = np.float32(1.0 / overlap), weights.rows.ravel(), one.rows.ravel(), other.rows.ravel()
    for c in range(0, rows.shape[0], block_length(width)):
        before = load(rows, c, width)
        now = added(before, share * ((load(ones, c, width) - before) + (load(others, c, width) - before)))
        store(rows, c, now)
        store(ones, c, now)
        store(others, c, now)
    for mine, first, second in (
        (weights.lists, one.lists, other.lists),
        (weights.transition.ravel(), one.transition.ravel(), other.transition.ravel()),
    ):
        for f in range(mine.shape[0]):
            mine[f] += share * ((first[f] - mine[f]) + (second[f] - mine[f]))
            first[f] = second[f] = mine[f]


@loose_kernel
def sizes(weights: PaddedWeights, shrink: float, width: Width) -> tuple[float, float]:
    """|w| and ||w||^2 of the weights moved towards zero by ``shrink``."""
    rows, less, zero, absolute, squares = weights.rows.ravel(), np.float32(shrink), same(ZERO, width), 0.0, 0.0
    for c in range(0, rows.shape[0], block_length(width)):
        weight = towards_zero(load(rows, c, width), less)
        squares += float(total(weight * weight))
        absolute += float(total(greater(weight, zero - weight)))
    for numbers in (weights.lists, weights.transition.ravel()):
        for f in range(numbers.shape[0]):
            alone = float(max(abs(numbers[f]) - less, ZERO))
            absolute += alone
            squares += alone * alone
    return absolute, squares
