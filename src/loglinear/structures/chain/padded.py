"""A chain's weights laid out for fast passes: rows padded to a multiple of eight labels, in single precision.

An attribute with at least three features has a row of W numbers, which are zero for missing features. The features of
other attributes are *single*. Rows are sorted by how often their attribute occurs, so that frequent ones lie together
in the cache; single features by where they first occur, so that those of a sequence lie together.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Float, Float32, Int8, Int16, Int32, Int64
from loglinear.features.block import Features
from loglinear.features.encoding import EncodedCorpus
from loglinear.kernels import kernel, loose_kernel
from loglinear.kernels.lanes import (
    N_LANES,
    above,
    exponential,
    greater,
    greatest,
    lesser,
    load,
    load_flags,
    prefetch,
    same,
    store,
    total,
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


NO_COSTS = np.zeros((0, 0, 0), dtype=np.float32)


@kernel
def _number_singles(ids: Int32, features: Features, first: Int64, order: Int64) -> None:
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
def _fill_entries(lists: Lists, features: Features, first: Int64, entries: Entries) -> None:
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


class PaddedLayout:
    """Where each weight of a first-order chain without edge features is stored, and the corpus that refers to it.

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
        self.features, self.n_labels, self.width = features, y, -(-y // N_LANES) * N_LANES
        in_row = block.features.row_of >= 0
        seen = np.bincount(encoded.state.ids, minlength=len(in_row))
        rows = np.flatnonzero(in_row)
        rows = rows[np.argsort(-seen[rows], kind="stable")]
        row_of = np.full(len(in_row), -1, dtype=np.int32)
        row_of[rows] = np.arange(len(rows))
        first = np.full(len(in_row), -1, dtype=np.int64)
        self._single_feature = np.empty(int(np.sum(np.diff(block.pointer)[~in_row])), dtype=np.int64)
        laid_out = Features(block.pointer, block.codes, row_of)
        _number_singles(encoded.state.ids, laid_out, first, self._single_feature)
        owner = np.repeat(row_of, np.diff(block.pointer))
        self._row_feature = np.flatnonzero(owner >= 0)
        self._row_place = owner[self._row_feature].astype(np.int64) * self.width + block.codes[self._row_feature]
        self.n_rows = len(rows)
        allowed, start, stop = self._allowed(penalties)
        self.corpus = PaddedCorpus(
            encoded.offsets,
            *_entries(encoded.state.lists(), laid_out, first),
            blank=self._blank(),
            has_feature=self._has_feature(),
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
        blank[self.n_labels :] = -1e30
        return blank

    def _has_feature(self) -> Int8:
        has_feature = np.zeros((self.n_rows, self.width), dtype=np.int8)
        has_feature.ravel()[self._row_place] = 1
        return has_feature

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

    def zeros(self) -> PaddedWeights:
        """Weights of zero."""
        return PaddedWeights(
            np.zeros((self.n_rows, self.width), dtype=np.float32),
            np.zeros(len(self._single_feature), dtype=np.float32),
            np.zeros((self.width, self.width), dtype=np.float32),
        )

    def lay_out(self, weights: Float) -> PaddedWeights:
        """A weight vector [D] in this layout."""
        state, _, transition, _ = self.features.slices
        laid_out = self.zeros()
        laid_out.rows.ravel()[self._row_place] = weights[state][self._row_feature]
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


def _entries(lists: Lists, features: Features, first: Int64) -> Entries:
    """The entries of all positions; the single features of attribute a are ``first[a]`` and those after it."""
    pointers = np.zeros((2, len(lists.pointer)), dtype=np.int64)
    _count_entries(lists, features, *pointers)
    sizes = pointers[:, -1].tolist()
    ids = [np.empty(size, dtype=np.int32) for size in sizes]
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
# a multiple of eight, and are processed eight at a time (:mod:`~loglinear.kernels.lanes`); those from Y on stay zero.
# One call does a whole sequence, because a call with many arrays costs more than the work on one position.


ZERO, ONE, TWO = np.float32(0.0), np.float32(1.0), np.float32(2.0)
LEAST = np.float32(1e-18)  # a smaller sum of scaled probabilities may lack some that were set to zero
NOTHING = np.float32(1e-24)  # a smaller probability is set to zero: near 1e-38 arithmetic is slow
TINY = np.float32(1e-9)
SMALL_PRODUCT = 1e-200


class PaddedWeights(NamedTuple):
    """Weights, or a gradient by them.

    Parameters
    ----------
    rows : float32 [R, W]
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
        Position t uses the rows ``row_ids[row_pointer[t]:row_pointer[t + 1]]``; no values if all are one.
    list_pointer, list_ids, list_labels, list_values
        The same for single features, with the label of each.
    blank : float32 [W]
        Scores without any features: 0 for labels, and from Y on so low that their exponential is zero.
    has_feature : int8 [R, W]
        Whether the feature exists.
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
    has_feature: Int8
    transition_places: Int64
    allowed: Float32
    start: Float32
    stop: Float32
    gold: Int32
    costs: Float32
    sequence_weights: Float


class Workspace(NamedTuple):
    """Scratch for one sequence of at most T positions."""

    emission: Float32  # [T, W]
    forward: Float32  # [T, W]
    marginals: Float32  # [T, W]
    backward: Float32  # [W]
    factors: Float32  # [W, W]
    turned: Float32  # [W, W]
    pairs: Float32  # [W, W]


@loose_kernel
def _workspace(corpus: PaddedCorpus, sequences: Int64, width: int) -> Workspace:
    longest = 1
    for k in range(sequences.shape[0]):
        longest = max(longest, corpus.offsets[sequences[k] + 1] - corpus.offsets[sequences[k]])
    return Workspace(
        np.empty((longest, width), np.float32), np.empty((longest, width), np.float32),
        np.empty((longest, width), np.float32), np.empty(width, np.float32), np.empty((width, width), np.float32),
        np.empty((width, width), np.float32), np.zeros((width, width), np.float32),
    )  # fmt: skip


@loose_kernel
def _set_factors(transition: Float32, allowed: Float32, work: Workspace) -> np.float32:
    """``work.factors = exp(transition - top) * allowed`` and its transpose; returns the top score."""
    scores, factors, mask = transition.ravel(), work.factors.ravel(), allowed.ravel()
    most = load(scores, 0)
    for c in range(8, scores.shape[0], 8):
        most = greater(most, load(scores, c))
    top = greatest(most)
    for c in range(0, scores.shape[0], 8):
        store(factors, c, exponential(load(scores, c) - top) * load(mask, c))
    for c in range(work.turned.shape[0]):
        for p in range(work.turned.shape[0]):
            work.turned[c, p] = work.factors[p, c]
    return top


@loose_kernel
def _fetch_next(position: int, corpus: PaddedCorpus, rows: Float32, width: int) -> None:
    """Prefetch the rows of the next position from memory."""
    last = min(position + 2, corpus.row_pointer.shape[0] - 1)
    for j in range(corpus.row_pointer[position + 1], corpus.row_pointer[last]):
        prefetch(rows, corpus.row_ids[j] * width)
        prefetch(rows, corpus.row_ids[j] * width + width - 1)


@loose_kernel
def _set_scores(first: int, corpus: PaddedCorpus, weights: PaddedWeights, out: Float32) -> None:
    """Scores [T, W] of the positions of the sequence that begins at ``first``."""
    scores, rows, w = out.ravel(), weights.rows.ravel(), out.shape[1]
    ids, has_values = corpus.row_ids, corpus.row_values.shape[0] + corpus.list_values.shape[0] > 0
    for t in range(out.shape[0]):
        begin, end = corpus.row_pointer[first + t], corpus.row_pointer[first + t + 1]
        _fetch_next(first + t, corpus, rows, w)
        for c in range(0, w, 8):
            score = load(corpus.blank, c)
            if has_values:
                for j in range(begin, end):
                    score = score + corpus.row_values[j] * load(rows, ids[j] * w + c)
            else:
                for j in range(begin, end):
                    score = score + load(rows, ids[j] * w + c)
            store(scores, t * w + c, score)
        for j in range(corpus.list_pointer[first + t], corpus.list_pointer[first + t + 1]):
            value = corpus.list_values[j] if has_values else ONE
            scores[t * w + corpus.list_labels[j]] += value * weights.lists[corpus.list_ids[j]]


@loose_kernel
def _set_shrunk_scores(
    first: int, corpus: PaddedCorpus, weights: PaddedWeights, less: np.float32, out: Float32
) -> None:
    """:func:`_set_scores` of the weights moved towards zero by ``less``."""
    scores, rows, w = out.ravel(), weights.rows.ravel(), out.shape[1]
    has_values, zero = corpus.row_values.shape[0] + corpus.list_values.shape[0] > 0, same(ZERO)
    for t in range(out.shape[0]):
        for c in range(0, w, 8):
            score = load(corpus.blank, c)
            for j in range(corpus.row_pointer[first + t], corpus.row_pointer[first + t + 1]):
                value, row = corpus.row_values[j] if has_values else ONE, load(rows, corpus.row_ids[j] * w + c)
                score = score + value * (greater(row - less, zero) + lesser(row + less, zero))
            store(scores, t * w + c, score)
        for j in range(corpus.list_pointer[first + t], corpus.list_pointer[first + t + 1]):
            value, weight = corpus.list_values[j] if has_values else ONE, weights.lists[corpus.list_ids[j]]
            scores[t * w + corpus.list_labels[j]] += value * (max(weight - less, ZERO) + min(weight + less, ZERO))


@loose_kernel
def _set_emissions(first: int, corpus: PaddedCorpus, transition: Float32, parts: Float32, work: Workspace) -> float:
    """Scores [T, W] and costs as factors of at most one in ``work.emission``.

    Returns the logarithm of the number they were divided by, less the score of the gold labelling.
    """
    constant, n, w = 0.0, parts.shape[0], parts.shape[1]
    scores, emission, costs = parts.ravel(), work.emission.ravel(), corpus.costs.ravel()
    n_labels, has_costs = corpus.costs.shape[1], corpus.costs.shape[0] > 0
    for t in range(n):
        label, row = corpus.gold[first + t], t * w
        constant -= scores[row + label]
        if t > 0:
            constant -= transition[corpus.gold[first + t - 1], label]
        if has_costs:
            cost = ((2 if 0 < t < n - 1 else 1 if t < n - 1 else 3 if t > 0 else 0) * n_labels + label) * w
            for c in range(0, w, 8):
                store(scores, row + c, load(scores, row + c) + load(costs, cost + c))
        most = load(scores, row)
        for c in range(8, w, 8):
            most = greater(most, load(scores, row + c))
        top = greatest(most)
        for c in range(0, w, 8):
            store(emission, row + c, exponential(load(scores, row + c) - top))
        constant += top
    for c in range(0, w, 8):
        store(emission, c, load(emission, c) * load(corpus.start, c))
    for c in range(0, w, 8):
        store(emission, (n - 1) * w + c, load(emission, (n - 1) * w + c) * load(corpus.stop, c))
    return constant


@loose_kernel
def _forward(n: int, n_labels: int, work: Workspace) -> float:
    """Forward probabilities ``work.forward`` scaled to one at each position; the emissions are divided by the same.

    Returns the sum of the scales' logarithms, nan if one has underflown.
    """
    forward, emission, factors = work.forward.ravel(), work.emission.ravel(), work.factors.ravel()
    w, summed, product = work.forward.shape[1], 0.0, 1.0
    for t in range(n):
        row, before, mass = t * w, (t - 1) * w, same(ZERO)
        for c in range(0, w, 8):
            now = load(emission, row + c)
            if t > 0:
                one, two = same(ZERO), same(ZERO)
                for p in range(0, n_labels, 2):  # W is even, and beyond Y there are zeros
                    one = one + forward[before + p] * load(factors, p * w + c)
                    two = two + forward[before + p + 1] * load(factors, (p + 1) * w + c)
                now = now * (one + two)
            mass = mass + now
            store(forward, row + c, now)
        scale = total(mass)
        if not scale > LEAST:
            return np.nan
        inverse = ONE / scale
        for c in range(0, w, 8):
            store(forward, row + c, above(inverse * load(forward, row + c), NOTHING))
            store(emission, row + c, inverse * load(emission, row + c))
        product *= float(scale)
        if product < SMALL_PRODUCT:
            summed += math.log(product)
            product = 1.0
    return summed + math.log(product)


@loose_kernel
def _backward(n: int, n_labels: int, work: Workspace) -> None:
    """``work.marginals``; the emissions become the flow, emission(t) backward(t), for the expected transitions."""
    forward, emission, turned = work.forward.ravel(), work.emission.ravel(), work.turned.ravel()
    marginals, w = work.marginals.ravel(), work.forward.shape[1]
    for c in range(0, w, 8):
        store(work.backward, c, same(ONE))
    for t in range(n - 1, -1, -1):
        row = t * w
        for c in range(0, w, 8):
            backward = load(work.backward, c)
            store(marginals, row + c, above(load(forward, row + c) * backward, NOTHING))
            store(emission, row + c, load(emission, row + c) * backward)
        if t == 0:
            break
        for c in range(0, w, 8):
            one, two = same(ZERO), same(ZERO)
            for p in range(0, n_labels, 2):
                one = one + emission[row + p] * load(turned, p * w + c)
                two = two + emission[row + p + 1] * load(turned, (p + 1) * w + c)
            store(work.backward, c, above(one + two, NOTHING))


@loose_kernel
def _add_pairs(n: int, n_labels: int, work: Workspace) -> None:
    """Add sum_t forward(t - 1) flow(t)' to ``work.pairs``; times the factors they are the expected transitions."""
    forward, flow, pairs, w = work.forward.ravel(), work.emission.ravel(), work.pairs.ravel(), work.forward.shape[1]
    for p in range(n_labels):
        for c in range(0, w, 8):
            both = load(pairs, p * w + c)
            for t in range(1, n):
                both = both + forward[(t - 1) * w + p] * load(flow, t * w + c)
            store(pairs, p * w + c, both)


@loose_kernel
def _add_gradient(first: int, corpus: PaddedCorpus, parts: Float32, gradient: PaddedWeights) -> None:
    """Add the gradient by the part scores [T, W] of a sequence to that by the weights."""
    flat, rows, w = parts.ravel(), gradient.rows.ravel(), parts.shape[1]
    has_values = corpus.row_values.shape[0] + corpus.list_values.shape[0] > 0
    for t in range(parts.shape[0]):
        _fetch_next(first + t, corpus, rows, w)
        for j in range(corpus.row_pointer[first + t], corpus.row_pointer[first + t + 1]):
            value, row = corpus.row_values[j] if has_values else ONE, corpus.row_ids[j] * w
            for c in range(0, w, 8):
                store(rows, row + c, load(rows, row + c) + value * load(flat, t * w + c))
        for j in range(corpus.list_pointer[first + t], corpus.list_pointer[first + t + 1]):
            value = corpus.list_values[j] if has_values else ONE
            gradient.lists[corpus.list_ids[j]] += value * flat[t * w + corpus.list_labels[j]]


@loose_kernel
def evaluate(
    sequences: Int64, corpus: PaddedCorpus, weights: PaddedWeights, n_labels: int, gradient: PaddedWeights
) -> float:
    """Losses of the ``sequences``, each times its weight; their gradient is added. nan if a sum has underflown.

    The gradient also has numbers for missing features of a row and for transitions without a feature; ignore them.
    """
    work = _workspace(corpus, sequences, weights.rows.shape[1])
    top = _set_factors(weights.transition, corpus.allowed, work)
    losses = 0.0
    for k in range(sequences.shape[0]):
        i = sequences[k]
        first, n = corpus.offsets[i], corpus.offsets[i + 1] - corpus.offsets[i]
        marginals = work.marginals[:n]
        _set_scores(first, corpus, weights, work.forward[:n])
        loss = _set_emissions(first, corpus, weights.transition, work.forward[:n], work)
        loss += float(top) * (n - 1) + _forward(n, n_labels, work)
        if not loss < np.inf:
            return np.nan
        losses += loss * corpus.sequence_weights[i]
        _backward(n, n_labels, work)
        weight = np.float32(corpus.sequence_weights[i])
        if weight != ONE:
            for t in range(n):  # an array expression would have Numba compile its error texts, too
                for c in range(work.emission.shape[1]):
                    work.emission[t, c] *= weight
                    marginals[t, c] *= weight
        _add_pairs(n, n_labels, work)
        for t in range(n):
            marginals[t, corpus.gold[first + t]] -= weight
            if t > 0:
                gradient.transition[corpus.gold[first + t - 1], corpus.gold[first + t]] -= weight
        _add_gradient(first, corpus, marginals, gradient)
    for p in range(n_labels):
        for c in range(n_labels):
            gradient.transition[p, c] += work.factors[p, c] * work.pairs[p, c]
    return losses


@loose_kernel
def losses(sequences: Int64, corpus: PaddedCorpus, weights: PaddedWeights, n_labels: int) -> float:
    """Losses of the ``sequences`` alone, as :func:`evaluate` gives them."""
    work, total_loss = _workspace(corpus, sequences, weights.rows.shape[1]), 0.0
    top = _set_factors(weights.transition, corpus.allowed, work)
    for k in range(sequences.shape[0]):
        i = sequences[k]
        first, n = corpus.offsets[i], corpus.offsets[i + 1] - corpus.offsets[i]
        _set_scores(first, corpus, weights, work.forward[:n])
        loss = _set_emissions(first, corpus, weights.transition, work.forward[:n], work)
        loss += float(top) * (n - 1) + _forward(n, n_labels, work)
        if not loss < np.inf:
            return np.nan
        total_loss += loss * corpus.sequence_weights[i]
    return total_loss


class Moves(NamedTuple):
    """The change that one step makes to the rows of weights that its sequence uses."""

    slot: Int32  # [R] place of each row in the list, -1 if it is not in it
    row_ids: Int32  # the rows in the list
    sums: Float32  # what is added to each


@loose_kernel
def _moves(corpus: PaddedCorpus, sequences: Int64, n_rows: int, width: int) -> Moves:
    most = 1
    for k in range(sequences.shape[0]):
        i = sequences[k]
        most = max(most, corpus.row_pointer[corpus.offsets[i + 1]] - corpus.row_pointer[corpus.offsets[i]])
    return Moves(np.full(n_rows, -1, np.int32), np.empty(most, np.int32), np.empty((most, width), np.float32))


@loose_kernel
def _set_change(
    first: int, n: int, corpus: PaddedCorpus, alpha: Float32, work: Workspace
) -> tuple[np.float32, np.float32]:
    """Replace the marginals mu by Delta = mu - alpha; returns J, the size of Delta by chi-square, and what Q, the
    squared norm of its effect on the features, would be if no two positions shared a feature and every one existed."""
    marginals, before, w = work.marginals.ravel(), alpha.ravel(), alpha.shape[1]
    size, apart = same(ZERO), same(ZERO)
    for t in range(n):
        n_rows = corpus.row_pointer[first + t + 1] - corpus.row_pointer[first + t]
        looked_at = np.float32(n_rows + corpus.list_pointer[first + t + 1] - corpus.list_pointer[first + t])
        for c in range(0, w, 8):
            now, old = load(marginals, t * w + c), load(before, (first + t) * w + c)
            change = now - old
            size = size + change * change / (now + old + TINY)  # type: ignore[assignment]  # NumPy types a quotient of float32 as float64
            apart = apart + looked_at * change * change
            store(marginals, t * w + c, change)
    return TWO * total(size), total(apart)


@loose_kernel
def _above_gold(
    first: int, n: int, corpus: PaddedCorpus, alpha: Float32, old: Float32, transition: Float32, work: Workspace
) -> float:
    """Score and cost of a sequence expected under its marginals ``alpha`` [N, W] and transitions ``old`` [F], minus
    the score of its gold labelling; ``work.forward`` holds the scores of its positions."""
    scores, flat, w, above_gold = work.forward.ravel(), alpha.ravel(), alpha.shape[1], 0.0
    for t in range(n):
        here = same(ZERO)
        for c in range(0, w, 8):
            here = here + load(flat, (first + t) * w + c) * load(scores, t * w + c)
        above_gold += total(here) - scores[t * w + corpus.gold[first + t]]
        if t > 0:
            above_gold -= transition[corpus.gold[first + t - 1], corpus.gold[first + t]]
    for f in range(old.shape[0]):
        above_gold += transition.ravel()[corpus.transition_places[f]] * old[f]
    return above_gold


@loose_kernel
def _add_up(first: int, corpus: PaddedCorpus, change: Float32, moves: Moves) -> tuple[int, np.float32]:
    """Add up the effect of a change of marginals [T, W] on each row; returns the number of rows and the squared norm.

    Assumes that the sequence uses each single feature only once.
    """
    parts, sums, has_feature, w = change.ravel(), moves.sums.ravel(), corpus.has_feature.ravel(), change.shape[1]
    used, ids = 0, corpus.row_ids
    has_values = corpus.row_values.shape[0] + corpus.list_values.shape[0] > 0
    for t in range(change.shape[0]):
        for j in range(corpus.row_pointer[first + t], corpus.row_pointer[first + t + 1]):
            place, value = moves.slot[ids[j]], corpus.row_values[j] if has_values else ONE
            if place < 0:
                moves.slot[ids[j]] = used
                moves.row_ids[used] = ids[j]
                for c in range(0, w, 8):
                    store(sums, used * w + c, value * load(parts, t * w + c))
                used += 1
            else:
                for c in range(0, w, 8):
                    store(sums, place * w + c, load(sums, place * w + c) + value * load(parts, t * w + c))
    squares = same(ZERO)
    for place in range(used):
        for c in range(0, w, 8):
            there = load(sums, place * w + c) * load_flags(has_feature, moves.row_ids[place] * w + c)
            squares = squares + there * there
            store(sums, place * w + c, there)
    square = total(squares)
    for t in range(change.shape[0]):
        for j in range(corpus.list_pointer[first + t], corpus.list_pointer[first + t + 1]):
            alone = parts[t * w + corpus.list_labels[j]] * (corpus.list_values[j] if has_values else ONE)
            square += alone * alone
    return used, square


@loose_kernel
def _apply(first: int, corpus: PaddedCorpus, change: Float32, factor: np.float32, weights: PaddedWeights) -> None:
    """Add ``factor`` times a change of marginals [T, W] to the features of its positions."""
    parts, rows, has_feature, w = change.ravel(), weights.rows.ravel(), corpus.has_feature.ravel(), change.shape[1]
    ids, has_values = corpus.row_ids, corpus.row_values.shape[0] + corpus.list_values.shape[0] > 0
    for t in range(change.shape[0]):
        for c in range(0, w, 8):
            part = factor * load(parts, t * w + c)
            for j in range(corpus.row_pointer[first + t], corpus.row_pointer[first + t + 1]):
                place, value = ids[j] * w + c, corpus.row_values[j] if has_values else ONE
                store(rows, place, load(rows, place) + value * part * load_flags(has_feature, place))
        for j in range(corpus.list_pointer[first + t], corpus.list_pointer[first + t + 1]):
            value = corpus.list_values[j] if has_values else ONE
            weights.lists[corpus.list_ids[j]] += factor * value * parts[t * w + corpus.list_labels[j]]


@loose_kernel
def _apply_sums(
    first: int,
    corpus: PaddedCorpus,
    change: Float32,
    moves: Moves,
    used: int,
    factor: np.float32,
    weights: PaddedWeights,
) -> None:
    """Add ``factor`` times what :func:`_add_up` found to rows and single features; ``moves`` is empty afterwards."""
    parts, sums, rows, w = change.ravel(), moves.sums.ravel(), weights.rows.ravel(), change.shape[1]
    has_values = corpus.row_values.shape[0] + corpus.list_values.shape[0] > 0
    for place in range(used):
        row = moves.row_ids[place] * w
        for c in range(0, w, 8):
            store(rows, row + c, load(rows, row + c) + factor * load(sums, place * w + c))
        moves.slot[moves.row_ids[place]] = -1
    for t in range(change.shape[0]):
        for j in range(corpus.list_pointer[first + t], corpus.list_pointer[first + t + 1]):
            value = corpus.list_values[j] if has_values else ONE
            weights.lists[corpus.list_ids[j]] += factor * value * parts[t * w + corpus.list_labels[j]]


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
    w, less, places = weights.rows.shape[1], np.float32(shrink), corpus.transition_places
    work, moves = _workspace(corpus, sequences, w), _moves(corpus, sequences, weights.rows.shape[0], w)
    transition, flat, old = weights.transition.ravel(), np.zeros(w * w, np.float32), alpha.ravel()
    shrunk, pairs, factors, zero = flat.reshape((w, w)), work.pairs.ravel(), work.factors.ravel(), same(ZERO)
    for k in range(sequences.shape[0]):
        i = sequences[k]
        first, n = corpus.offsets[i], corpus.offsets[i + 1] - corpus.offsets[i]
        change, weight = work.marginals[:n], corpus.sequence_weights[i]
        for c in range(0, w * w, 8):
            now = load(transition, c)
            store(flat, c, greater(now - less, zero) + lesser(now + less, zero))
        top = _set_factors(shrunk, corpus.allowed, work)
        if shrink > 0.0:
            _set_shrunk_scores(first, corpus, weights, less, work.forward[:n])
        else:
            _set_scores(first, corpus, weights, work.forward[:n])
        loss = _set_emissions(first, corpus, shrunk, work.forward[:n], work)
        above_gold = _above_gold(first, n, corpus, alpha, alpha_transitions[i], shrunk, work)
        loss += float(top) * (n - 1) + _forward(n, n_labels, work)
        if not loss < np.inf:
            losses[i] = gaps[i] = np.nan  # alpha_i stays as it is
            continue
        _backward(n, n_labels, work)
        for c in range(0, w * w, 8):
            store(pairs, c, zero)
        _add_pairs(n, n_labels, work)
        size, apart = _set_change(first, n, corpus, alpha, work)
        used = 0
        if measure:
            used, square = _add_up(first, corpus, change, moves)
            overlaps[i] = square / (apart + LEAST)
        else:
            square = overlaps[i] * apart
        for f in range(places.shape[0]):
            there = pairs[places[f]] * factors[places[f]] - alpha_transitions[i, f]
            pairs[places[f]] = there
            square += there * there
        # the divergence of the two is at least the second term, and about the first where they are close
        losses[i], gaps[i] = weight * loss, weight * max(0.5 * size, loss - above_gold - n * math.log(n_labels))
        gamma = np.float32(size / (size + caution * weight / (2.0 * l2) * square + LEAST))
        factor = np.float32(-weight / (2.0 * l2)) * gamma
        for f in range(places.shape[0]):
            alpha_transitions[i, f] += gamma * pairs[places[f]]
            transition[places[f]] += factor * pairs[places[f]]
        parts = change.ravel()
        for c in range(0, n * w, 8):
            store(old, first * w + c, load(old, first * w + c) + gamma * load(parts, c))
        if measure:
            _apply_sums(first, corpus, change, moves, used, factor, weights)
        else:
            _apply(first, corpus, change, factor, weights)
