"""A chain's weights laid out for fast passes: rows padded to a multiple of eight labels, in single precision.

An attribute with at least three features has a row of W numbers, which are zero for missing features. The features of
other attributes are *single*. Rows are sorted by how often their attribute occurs, so that frequent ones lie together
in the cache; single features by where they first occur, so that those of a sequence lie together.
"""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Float, Float32, Int16, Int32, Int64
from loglinear.features.block import Features
from loglinear.features.encoding import EncodedCorpus
from loglinear.kernels import kernel, loose_kernel
from loglinear.kernels.lanes import (
    Width,
    above,
    added,
    block_length,
    exponential,
    greater,
    greatest,
    load,
    prefetch,
    prefetch_line,
    row_length,
    same,
    store,
    total,
    towards_zero,
    where_there,
    width_of,
)
from loglinear.kernels.tables import Lists
from loglinear.structures.chain.features import ChainFeatures, Penalties


class Entries(NamedTuple):
    """The rows and single features of each position, as in :class:`PaddedCorpus`."""

    row_pointer: Int64
    row_ids: Int32
    row_values: Float32
    list_pointer: Int64
    list_ids: Int32
    list_labels: Int16
    list_values: Float32


LOWEST = np.float32(-1e30)  # a score whose exponential is zero
NO_COSTS = np.zeros((0, 0, 0), dtype=np.float32)


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


class PaddedLayout:
    """Where each weight of a first-order chain without edge features is stored, and the corpus that refers to it.

    Other layouts have the same members: passes differ in what they sum over, not in how they are called.

    Parameters
    ----------
    features : ChainFeatures
    encoded : EncodedCorpus
    penalties : Penalties
        Constraints; transitions that they rule out have a factor of zero.
    gold : int32 [N]
    sequence_weights : float64 [S]
    costs : float64 [4, Y, Y], optional
        Of labels, by the kind of position (a whole sequence, first, inner, last) and the gold label.
    """

    sequences_a_part: ClassVar[int] = 250  # in a round of a pass that two parts share; smaller corpora are one part
    steady_from: int = 1  # the pass, counted from 0, from which on a rise of the objective says that steps are too long
    measure_every: int = 4  # passes, beside the first two: how much the positions of each sequence share features
    revisits: ClassVar[bool] = True  # whether a pass ends with more steps for the hardest sequences
    note: str = ""  # what the last pass left out, for the message

    def __init__(
        self,
        features: ChainFeatures,
        encoded: EncodedCorpus,
        penalties: Penalties,
        gold: Int32,
        sequence_weights: Float,
        costs: Float | None = None,
    ) -> None:
        block, y = features.state, features.n_labels
        self.features, self.n_labels, self.lanes = features, y, width_of(y)
        self.width = self.lanes.numbers
        in_row = block.features.row_of >= 0
        seen = np.bincount(encoded.state.ids, minlength=len(in_row))
        rows = np.flatnonzero(in_row)
        rows = rows[np.argsort(-seen[rows], kind="stable")]
        row_of = np.full(len(in_row), -1, dtype=np.int32)
        row_of[rows] = np.arange(len(rows))
        first = np.full(len(in_row), -1, dtype=np.int32)
        self._single_feature = np.empty(int(np.sum(np.diff(block.pointer)[~in_row])), dtype=np.int32)
        laid_out = Features(block.pointer, block.codes, row_of)
        _number_singles(encoded.state.ids, laid_out, first, self._single_feature)
        owner = np.repeat(row_of, np.diff(block.pointer))
        self._row_feature = np.flatnonzero(owner >= 0).astype(np.int32)
        self._row_place = owner[self._row_feature] * np.int64(self.width) + block.codes[self._row_feature]
        self.n_rows = len(rows)
        allowed, start, stop = self._allowed(penalties)
        self.corpus = PaddedCorpus(
            encoded.offsets,
            *_entries(encoded.state.lists(), laid_out, first),
            blank=self._blank(),
            transition_places=self._transition_places(),
            allowed=allowed,
            start=start,
            stop=stop,
            gold=gold,
            costs=NO_COSTS if costs is None else self._padded(costs),
            sequence_weights=sequence_weights,
        )

    def _blank(self) -> Float32:
        blank = np.zeros(self.width, dtype=np.float32)
        blank[self.n_labels :] = LOWEST
        return blank

    def _transition_places(self) -> Int64:
        codes = self.features.transitions.astype(np.int64)
        return codes // self.n_labels * self.width + codes % self.n_labels

    def _allowed(self, penalties: Penalties) -> tuple[Float32, Float32, Float32]:
        y, w = self.n_labels, self.width
        transition, start, stop = (np.zeros(shape, dtype=np.float32) for shape in ((w, w), w, w))
        transition[:y, :y], start[:y], stop[:y] = map(np.exp, (penalties.transition, penalties.start, penalties.stop))
        return transition, start, stop

    def _padded(self, costs: Float) -> Float32:
        padded = np.zeros((*costs.shape[:2], self.width), dtype=np.float32)
        padded[:, :, : self.n_labels] = costs
        return padded

    def at_gold(self) -> tuple[Float32, Float32]:
        """Marginals [N, W] and transitions [S, F] of the gold labellings."""
        corpus = self.corpus
        alpha = np.zeros((int(corpus.offsets[-1]), self.width), dtype=np.float32)
        transitions = np.zeros((len(corpus.offsets) - 1, len(corpus.transition_places)), dtype=np.float32)
        start_at_gold(corpus, alpha, transitions)
        return alpha, transitions

    def dual_pass(
        self, sequences: Int64, weights: PaddedWeights, step: Step, kept: Kept, losses: Float, gaps: Float
    ) -> None:
        """A step for each of the ``sequences``; ``losses`` and ``gaps`` [S] before it."""
        dual_pass(sequences, self.corpus, weights, self.n_labels, self.lanes, *step, *kept[:3], losses, gaps)

    def losses(self, sequences: Int64, weights: PaddedWeights) -> float:
        """Losses of the ``sequences``, each times its weight; nan if scores leave single precision."""
        return losses(sequences, self.corpus, weights, self.n_labels, self.lanes)

    def evaluate(self, sequences: Int64, weights: PaddedWeights, gradient: PaddedWeights) -> float:
        """The same; their gradient is added."""
        return evaluate(sequences, self.corpus, weights, self.n_labels, self.lanes, gradient)

    def zeros(self) -> PaddedWeights:
        """Weights of zero."""
        rows = aligned(self.n_rows * self.width)
        rows.fill(-0.0)
        rows[self._row_place] = 0.0
        return PaddedWeights(
            rows.reshape(self.n_rows, self.width),
            np.zeros(len(self._single_feature), dtype=np.float32),
            np.zeros((self.width, self.width), dtype=np.float32),
        )

    def copy(self, weights: PaddedWeights) -> PaddedWeights:
        """The same weights in arrays of their own, which lie as passes like them, and with missing features marked."""
        copied = self.zeros()
        copied.rows.ravel()[self._row_place] = weights.rows.ravel()[self._row_place]
        copied.lists[:], copied.transition[:] = weights.lists, weights.transition
        return copied

    def lay_out(self, weights: Float) -> PaddedWeights:
        """A weight vector [D] in this layout."""
        state, _, transition, _ = self.features.slices
        laid_out = self.zeros()
        laid_out.rows.ravel()[self._row_place] = weights[state][self._row_feature] + 0.0  # -0.0 becomes 0.0
        laid_out.lists[:] = weights[state][self._single_feature]
        laid_out.transition.ravel()[self.corpus.transition_places] = weights[transition]
        return laid_out

    def vector(
        self, rows: npt.NDArray[np.floating], lists: npt.NDArray[np.floating], transition: npt.NDArray[np.floating]
    ) -> Float:
        """The weight vector [D] of a layout."""
        weights = np.zeros(self.features.n_features)
        state, _, transitions, _ = self.features.slices
        weights[state][self._row_feature] = rows.ravel()[self._row_place]
        weights[state][self._single_feature] = lists
        weights[transitions] = transition.ravel()[self.corpus.transition_places]
        return weights


def aligned(n: int) -> Float32:
    """An array of ``n`` zeros that begins with a line of the cache, so that a row lies in as few lines as possible."""
    room = np.zeros(4 * n + ALIGNMENT, dtype=np.uint8)
    skipped = -room.ctypes.data % ALIGNMENT
    return room[skipped : skipped + 4 * n].view(np.float32)


def _entries(lists: Lists, features: Features, first: Int32) -> Entries:
    """The entries of all positions; the single features of attribute a are ``first[a]`` and those after it."""
    pointers = np.zeros((2, len(lists.pointer)), dtype=np.int64)
    _count_entries(lists, features, *pointers)
    sizes = pointers[:, -1].tolist()
    ids = [np.zeros(size + more, dtype=np.int32) for size, more in zip(sizes, (AHEAD, 0), strict=True)]
    values = [np.empty(size if len(lists.values) else 0, dtype=np.float32) for size in sizes]
    labels = np.empty(sizes[1], dtype=np.int16)
    entries = Entries(pointers[0], ids[0], values[0], pointers[1], ids[1], labels, values[1])
    _fill_entries(lists, features, first, entries)
    return entries


# ----------------------------------------------------------------------------------------------------------------------
# Passes over the sequences of a first-order chain in single precision: a gradient for all, or a dual step for each.
#
# For each sequence: scores of its positions, forward and backward over probabilities scaled to one at each position,
# expected transitions; then the gradient (:func:`evaluate`), or the step (:func:`dual_pass`). All rows have W numbers,
# a multiple of eight; those from Y on stay zero. A row of at most 64 stays in registers from one array to the next
# (:mod:`~loglinear.kernels.lanes`), a longer one is processed block by block; the kernels are compiled for each width.
# One call does a whole sequence, because a call with many arrays costs more than the work on one position.
#
# **Missing features.** A row has a number for every label, also for those that its attribute has no feature with. Steps
# must leave those numbers alone. They are -0.0, which adds nothing to a score, and `added` of the lanes leaves -0.0 as
# it is. It never makes one of another number, so that a weight that exists is not lost when it becomes zero.


ZERO, ONE, TWO = np.float32(0.0), np.float32(1.0), np.float32(2.0)
LEAST = np.float32(1e-18)  # a smaller sum of scaled probabilities may lack some that were set to zero
NOTHING = np.float32(1e-24)  # a smaller probability is set to zero: near 1e-38 arithmetic is slow
TINY = np.float32(1e-9)
SMALL_PRODUCT, LARGE_PRODUCT = 1e-200, 1e200
AHEAD = 28  # rows are fetched into the cache so many before they are needed
ALIGNMENT = 64  # bytes: a line of the cache


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


class PaddedCorpus(NamedTuple):
    """Sequences, and where the weights of their positions are stored.

    Parameters
    ----------
    offsets : int64 [S + 1]
    row_pointer, row_ids, row_values
        Position t uses the rows ``row_ids[row_pointer[t]:row_pointer[t + 1]]``; no values if all are one. After the
        last come ``AHEAD`` more ids, so that what is fetched ahead exists.
    list_pointer, list_ids, list_labels, list_values
        The same for single features, with the label of each.
    blank : float32 [W]
        Scores without any features: 0 for labels, and from Y on so low that their exponential is zero.
    transition_places : int64 [F]
        Where the transitions that have a feature lie in a flat [W, W].
    allowed : float32 [W, W]
        0 for the transitions that constraints rule out, else 1.
    start, stop : float32 [W]
        The same for first and last labels.
    gold : int32 [N]
    costs : float32 [4, Y, W]
        Of labels, by the kind of position and the gold label; empty if there are none.
    sequence_weights : float64 [S]
    """

    offsets: Int64
    row_pointer: Int64
    row_ids: Int32
    row_values: Float32
    list_pointer: Int64
    list_ids: Int32
    list_labels: Int16
    list_values: Float32
    blank: Float32
    transition_places: Int64
    allowed: Float32
    start: Float32
    stop: Float32
    gold: Int32
    costs: Float32
    sequence_weights: Float


class Workspace(NamedTuple):
    """Scratch for one sequence of at most T positions."""

    scores: Float32  # [T W]
    emission: Float32  # [T W]
    forward: Float32  # [T W]
    marginals: Float32  # [T W]
    backward: Float32  # [W]
    transition: Float32  # [W W]
    factors: Float32  # [W W]
    turned: Float32  # [W W]
    pairs: Float32  # [W W]


@loose_kernel
def workspace(corpus: PaddedCorpus, sequences: Int64, width: Width) -> Workspace:
    """Scratch for the longest of the ``sequences``."""
    longest, w = 1, row_length(width)
    for k in range(sequences.shape[0]):
        longest = max(longest, corpus.offsets[sequences[k] + 1] - corpus.offsets[sequences[k]])
    return Workspace(
        np.empty(longest * w, np.float32), np.empty(longest * w, np.float32), np.empty(longest * w, np.float32),
        np.empty(longest * w, np.float32), np.empty(w, np.float32), np.empty(w * w, np.float32),
        np.empty(w * w, np.float32), np.empty(w * w, np.float32), np.zeros(w * w, np.float32),
    )  # fmt: skip


@loose_kernel
def fetch_pointers(i: int, corpus: PaddedCorpus) -> None:
    """Prefetch the pointers of sequence ``i``, which :func:`fetch_sequence` needs."""
    for t in range(corpus.offsets[i], corpus.offsets[i + 1] + 8, 8):
        at = min(t, corpus.offsets[i + 1])
        prefetch_line(corpus.row_pointer, at)
        prefetch_line(corpus.list_pointer, at)


@loose_kernel
def fetch_sequence(i: int, corpus: PaddedCorpus, alpha: Float32, width: Width) -> None:
    """Prefetch what a step for sequence ``i`` reads beside weights, and its marginals in ``alpha`` [N, W].

    Sequences are in random order, so that each begins with as many waits for memory as there are arrays.
    """
    first, end, w, kept = corpus.offsets[i], corpus.offsets[i + 1], row_length(width), alpha.ravel()
    for j in range(corpus.row_pointer[first], corpus.row_pointer[end], 16):
        prefetch_line(corpus.row_ids, j)
    for j in range(corpus.list_pointer[first], corpus.list_pointer[end], 16):
        prefetch_line(corpus.list_ids, j)
        prefetch_line(corpus.list_labels, j)
    for t in range(first, end, 16):
        prefetch_line(corpus.gold, t)
    for c in range(first * w, min(end * w, kept.shape[0]), 16):
        prefetch_line(kept, c)


@loose_kernel
def set_factors(
    transition: Float32, less: np.float32, allowed: Float32, n_labels: int, width: Width, work: Workspace
) -> np.float32:
    """``work.transition``, the scores [W, W] moved towards zero by ``less``, and their factors.

    ``work.factors = exp(work.transition - top) * allowed``, ``work.turned`` is its transpose; returns the top score.
    """
    scores, mask = transition.ravel(), allowed.ravel()
    w, block, most = row_length(width), block_length(width), same(LOWEST, width)
    for c in range(0, w * w, block):
        now = towards_zero(load(scores, c, width), less)
        store(work.transition, c, now)
        most = greater(most, now)
    top = greatest(most)
    for c in range(0, w * w, block):
        store(work.factors, c, exponential(load(work.transition, c, width) - top) * load(mask, c, width))
    for c in range(n_labels + n_labels % 2):
        for p in range(w):
            work.turned[c * w + p] = work.factors[p * w + c]
    return top


@loose_kernel
def set_scores(
    first: int, n: int, corpus: PaddedCorpus, weights: PaddedWeights, less: np.float32, width: Width, work: Workspace
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
def set_emissions(
    first: int, n: int, corpus: PaddedCorpus, alpha: Float32, width: Width, work: Workspace
) -> tuple[float, float, float]:
    """Scores and costs as factors of at most one in ``work.emission``; ``work.scores`` then include the costs.

    Returns the logarithm of the number they were divided by, the score of the gold labelling, and the score and cost of
    positions expected under the marginals ``alpha`` [N, W], 0 if these are empty.
    """
    top_scores, gold_score, expected = 0.0, 0.0, 0.0
    scores, emission, costs, kept = work.scores, work.emission, corpus.costs.ravel(), alpha.ravel()
    n_labels, has_costs, has_alpha = corpus.costs.shape[1], corpus.costs.shape[0] > 0, alpha.shape[0] > 0
    w, block = row_length(width), block_length(width)
    for t in range(n):
        label, row = corpus.gold[first + t], t * w
        gold_score += scores[row + label]
        if t > 0:
            gold_score += work.transition[corpus.gold[first + t - 1] * w + label]
        kind = 2 if 0 < t < n - 1 else 1 if t < n - 1 else 3 if t > 0 else 0
        most, here = same(LOWEST, width), same(ZERO, width)
        for c in range(0, w, block):
            score = load(scores, row + c, width)
            if has_costs:
                score = score + load(costs, (kind * n_labels + label) * w + c, width)
                store(scores, row + c, score)
            if has_alpha:
                here = here + score * load(kept, (first + t) * w + c, width)
            most = greater(most, score)
        top = greatest(most)
        expected += float(total(here))
        for c in range(0, w, block):
            store(emission, row + c, exponential(load(scores, row + c, width) - top))
        top_scores += float(top)
    last = (n - 1) * w
    for c in range(0, w, block):
        store(emission, c, load(emission, c, width) * load(corpus.start, c, width))
    for c in range(0, w, block):
        store(emission, last + c, load(emission, last + c, width) * load(corpus.stop, c, width))
    return top_scores, gold_score, expected


@loose_kernel
def forward(n: int, n_labels: int, width: Width, work: Workspace) -> float:
    """Forward probabilities ``work.forward`` scaled to one at each position; the emissions are divided by the same.

    Returns the sum of the scales' logarithms, nan if one has underflown.
    """
    w, block, summed, product = row_length(width), block_length(width), 0.0, 1.0
    for t in range(n):
        row, before, mass = t * w, (t - 1) * w, same(ZERO, width)
        for c in range(0, w, block):
            now = load(work.emission, row + c, width)
            if t > 0:
                one, two = same(ZERO, width), same(ZERO, width)
                for p in range(0, n_labels, 2):  # W is even, and beyond Y there are zeros
                    one = one + work.forward[before + p] * load(work.factors, p * w + c, width)
                    two = two + work.forward[before + p + 1] * load(work.factors, (p + 1) * w + c, width)
                now = now * (one + two)
            mass = mass + now
            store(work.forward, row + c, now)
        scale = total(mass)
        if not scale > LEAST:
            return np.nan
        inverse = ONE / scale
        for c in range(0, w, block):
            store(work.forward, row + c, above(inverse * load(work.forward, row + c, width), NOTHING))
            store(work.emission, row + c, inverse * load(work.emission, row + c, width))
        product *= float(scale)
        if product < SMALL_PRODUCT or product > LARGE_PRODUCT:
            summed += math.log(product)
            product = 1.0
    return summed + math.log(product)


@loose_kernel
def backward(
    first: int, n: int, n_labels: int, corpus: PaddedCorpus, alpha: Float32, width: Width, work: Workspace
) -> tuple[np.float32, np.float32]:
    """``work.marginals``; the emissions become the flow, emission(t) backward(t), for the expected transitions.

    If there are marginals ``alpha`` [N, W], then instead of the marginals mu their change Delta = mu - alpha. Returns
    J, the size of Delta by chi-square, and what Q, the squared norm of its effect on the features, would be if no two
    positions shared a feature and every one existed.
    """
    w, block, kept, has_alpha = row_length(width), block_length(width), alpha.ravel(), alpha.shape[0] > 0
    size, apart = same(ZERO, width), same(ZERO, width)
    for c in range(0, w, block):
        store(work.backward, c, same(ONE, width))
    for t in range(n - 1, -1, -1):
        row = t * w
        n_rows = corpus.row_pointer[first + t + 1] - corpus.row_pointer[first + t]
        looked_at = np.float32(n_rows + corpus.list_pointer[first + t + 1] - corpus.list_pointer[first + t])
        for c in range(0, w, block):
            later = load(work.backward, c, width)
            store(work.emission, row + c, load(work.emission, row + c, width) * later)
            now = above(load(work.forward, row + c, width) * later, NOTHING)
            if has_alpha:
                old = load(kept, (first + t) * w + c, width)
                change = now - old
                size = size + change * change / (now + old + TINY)  # type: ignore[assignment]  # NumPy types a quotient of float32 as float64
                apart = apart + looked_at * change * change
                now = change
            store(work.marginals, row + c, now)
        if t == 0:
            break
        for c in range(0, w, block):
            one, two = same(ZERO, width), same(ZERO, width)
            for p in range(0, n_labels, 2):
                one = one + work.emission[row + p] * load(work.turned, p * w + c, width)
                two = two + work.emission[row + p + 1] * load(work.turned, (p + 1) * w + c, width)
            store(work.backward, c, above(one + two, NOTHING))
    return TWO * total(size), total(apart)


@loose_kernel
def add_pairs(n: int, n_labels: int, width: Width, work: Workspace) -> None:
    """Add sum_t forward(t - 1) flow(t)' to ``work.pairs``; times the factors they are the expected transitions."""
    w, block = row_length(width), block_length(width)
    for p in range(0, n_labels, 2):
        for c in range(0, w, block):
            one, two = load(work.pairs, p * w + c, width), load(work.pairs, (p + 1) * w + c, width)
            for t in range(1, n):
                flow = load(work.emission, t * w + c, width)
                one = one + work.forward[(t - 1) * w + p] * flow
                two = two + work.forward[(t - 1) * w + p + 1] * flow
            store(work.pairs, p * w + c, one)
            store(work.pairs, (p + 1) * w + c, two)


@loose_kernel
def add_gradient(
    first: int, n: int, corpus: PaddedCorpus, width: Width, work: Workspace, gradient: PaddedWeights
) -> None:
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


@loose_kernel
def evaluate(
    sequences: Int64, corpus: PaddedCorpus, weights: PaddedWeights, n_labels: int, width: Width, gradient: PaddedWeights
) -> float:
    """Losses of the ``sequences``, each times its weight; their gradient is added. nan if a sum has underflown.

    The gradient also has numbers for missing features of a row and for transitions without a feature; ignore them.
    """
    work, no_alpha, w = workspace(corpus, sequences, width), np.empty((0, 0), np.float32), row_length(width)
    top = set_factors(weights.transition, ZERO, corpus.allowed, n_labels, width, work)
    parts, losses, transitions = work.marginals, 0.0, gradient.transition.ravel()
    for k in range(sequences.shape[0]):
        i = sequences[k]
        first, n = corpus.offsets[i], corpus.offsets[i + 1] - corpus.offsets[i]
        set_scores(first, n, corpus, weights, ZERO, width, work)
        top_scores, gold_score, _ = set_emissions(first, n, corpus, no_alpha, width, work)
        loss = top_scores - gold_score + float(top) * (n - 1) + forward(n, n_labels, width, work)
        if not loss < np.inf:
            return np.nan
        losses += loss * corpus.sequence_weights[i]
        backward(first, n, n_labels, corpus, no_alpha, width, work)
        weight = np.float32(corpus.sequence_weights[i])
        if weight != ONE:
            for c in range(n * w):  # an array expression would have Numba compile its error texts, too
                work.emission[c] *= weight
                parts[c] *= weight
        add_pairs(n, n_labels, width, work)
        for t in range(n):
            parts[t * w + corpus.gold[first + t]] -= weight
            if t > 0:
                transitions[corpus.gold[first + t - 1] * w + corpus.gold[first + t]] -= weight
        add_gradient(first, n, corpus, width, work, gradient)
    for c in range(n_labels * w):
        transitions[c] += work.factors[c] * work.pairs[c]
    return losses


@loose_kernel
def losses(sequences: Int64, corpus: PaddedCorpus, weights: PaddedWeights, n_labels: int, width: Width) -> float:
    """Losses of the ``sequences`` alone, as :func:`evaluate` gives them."""
    work, no_alpha, total_loss = workspace(corpus, sequences, width), np.empty((0, 0), np.float32), 0.0
    top = set_factors(weights.transition, ZERO, corpus.allowed, n_labels, width, work)
    for k in range(sequences.shape[0]):
        i = sequences[k]
        first, n = corpus.offsets[i], corpus.offsets[i + 1] - corpus.offsets[i]
        set_scores(first, n, corpus, weights, ZERO, width, work)
        top_scores, gold_score, _ = set_emissions(first, n, corpus, no_alpha, width, work)
        loss = top_scores - gold_score + float(top) * (n - 1) + forward(n, n_labels, width, work)
        if not loss < np.inf:
            return np.nan
        total_loss += loss * corpus.sequence_weights[i]
    return total_loss


class Moves(NamedTuple):
    """The change that one step makes to the rows of weights that its sequence uses."""

    slot: Int32  # [R] place of each row in the list, -1 if it is not in it
    row_ids: Int32  # the rows in the list
    sums: Float32  # [. W] what is added to each


@loose_kernel
def moves_of(corpus: PaddedCorpus, sequences: Int64, n_rows: int, width: Width) -> Moves:
    """Room for the changes of any of the ``sequences``."""
    most = 1
    for k in range(sequences.shape[0]):
        i = sequences[k]
        most = max(most, corpus.row_pointer[corpus.offsets[i + 1]] - corpus.row_pointer[corpus.offsets[i]])
    sums = np.empty(most * row_length(width), np.float32)
    return Moves(np.full(n_rows, -1, np.int32), np.empty(most, np.int32), sums)


@loose_kernel
def add_up(
    first: int, n: int, corpus: PaddedCorpus, weights: PaddedWeights, width: Width, work: Workspace, moves: Moves
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
def add_to_alpha(first: int, n: int, gamma: np.float32, width: Width, work: Workspace, alpha: Float32) -> None:
    """Move the marginals ``alpha`` [N, W] by ``gamma`` times their change, ``work.marginals``."""
    kept, w = alpha.ravel(), row_length(width)
    for c in range(0, n * w, block_length(width)):
        here = load(kept, first * w + c, width) + gamma * load(work.marginals, c, width)
        store(kept, first * w + c, here)


@loose_kernel
def add_to_rows(
    first: int, n: int, corpus: PaddedCorpus, factor: np.float32, width: Width, work: Workspace, weights: PaddedWeights
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
    first: int, n: int, corpus: PaddedCorpus, factor: np.float32, width: Width, work: Workspace, weights: PaddedWeights
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


@loose_kernel
def start_at_gold(corpus: PaddedCorpus, alpha: Float32, alpha_transitions: Float32) -> None:
    """Set the marginals [N, W] and transitions [S, F], which come in as zeros, to those of the gold labelling."""
    width = alpha.shape[1]
    counts = np.zeros(width * width, np.float32)
    for i in range(corpus.offsets.shape[0] - 1):
        for t in range(corpus.offsets[i], corpus.offsets[i + 1]):
            alpha[t, corpus.gold[t]] = ONE
            if t > corpus.offsets[i]:
                counts[corpus.gold[t - 1] * width + corpus.gold[t]] += ONE
        for f in range(corpus.transition_places.shape[0]):
            alpha_transitions[i, f] = counts[corpus.transition_places[f]]
        for t in range(corpus.offsets[i] + 1, corpus.offsets[i + 1]):
            counts[corpus.gold[t - 1] * width + corpus.gold[t]] = ZERO


@loose_kernel
def dual_pass(
    sequences: Int64,
    corpus: PaddedCorpus,
    weights: PaddedWeights,
    n_labels: int,
    width: Width,
    shrink: float,
    l2: float,
    caution: float,
    measure: bool,
    alpha: Float32,
    alpha_transitions: Float32,
    overlaps: Float32,
    losses: Float,
    gaps: Float,
) -> None:
    """A step for each of the ``sequences`` in turn; losses and gaps [S] before each step, nan after an underflow.

    The weights are a function of ``alpha`` [N, W] and ``alpha_transitions`` [S, F], the sequences' kept marginals;
    scores use the weights moved towards zero by ``shrink``. ``overlaps`` [S] is how much the positions of a sequence
    share features: with ``measure`` it is computed and stored, otherwise the stored number is used.
    """
    w, block, less, places = row_length(width), block_length(width), np.float32(shrink), corpus.transition_places
    work, moves = workspace(corpus, sequences, width), moves_of(corpus, sequences, weights.rows.shape[0], width)
    transition, pairs, factors = weights.transition.ravel(), work.pairs, work.factors
    n_sequences = sequences.shape[0]
    for k in range(n_sequences):
        i = sequences[k]
        if k + 2 < n_sequences:
            fetch_pointers(sequences[k + 2], corpus)
            fetch_sequence(sequences[k + 1], corpus, alpha, width)
        first, n = corpus.offsets[i], corpus.offsets[i + 1] - corpus.offsets[i]
        weight, old = corpus.sequence_weights[i], alpha_transitions[i]
        top = set_factors(weights.transition, less, corpus.allowed, n_labels, width, work)
        set_scores(first, n, corpus, weights, less, width, work)
        top_scores, gold_score, expected = set_emissions(first, n, corpus, alpha, width, work)
        loss = top_scores - gold_score + float(top) * (n - 1) + forward(n, n_labels, width, work)
        if not loss < np.inf:
            losses[i] = gaps[i] = np.nan  # alpha_i stays as it is
            continue
        size, apart = backward(first, n, n_labels, corpus, alpha, width, work)
        for c in range(0, w * w, block):
            store(pairs, c, same(ZERO, width))
        add_pairs(n, n_labels, width, work)
        used = 0
        if measure:
            used, square = add_up(first, n, corpus, weights, width, work, moves)
            overlaps[i] = square / (apart + LEAST)
        else:
            square = overlaps[i] * apart
        for f in range(places.shape[0]):
            expected += work.transition[places[f]] * old[f]
            there = pairs[places[f]] * factors[places[f]] - old[f]
            pairs[places[f]] = there
            square += there * there
        # the divergence of the two is at least the second term, and about the first where they are close
        above_gold = expected - gold_score
        losses[i], gaps[i] = weight * loss, weight * max(0.5 * size, loss - above_gold - n * math.log(n_labels))
        gamma = np.float32(size / (size + caution * weight / (2.0 * l2) * square + LEAST))
        factor = np.float32(-weight / (2.0 * l2)) * gamma
        for f in range(places.shape[0]):
            old[f] += gamma * pairs[places[f]]
            transition[places[f]] += factor * pairs[places[f]]
        add_to_alpha(first, n, gamma, width, work, alpha)
        if measure:
            add_sums_to_rows(used, factor, width, moves, weights)
        else:
            add_to_rows(first, n, corpus, factor, width, work, weights)
        add_to_lists(first, n, corpus, factor, width, work, weights)
