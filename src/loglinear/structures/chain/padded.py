"""A chain's weights laid out for fast passes: rows padded to a multiple of eight labels, in single precision.

Where the weights of attributes lie, and how scores come from them, is in :mod:`~loglinear.structures.rows`.
"""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from loglinear import mapped
from loglinear.arrays import Float, Float32, Int16, Int32, Int64
from loglinear.features.encoding import EncodedCorpus
from loglinear.kernels import loose_kernel
from loglinear.kernels.lanes import (
    Width,
    above,
    block_length,
    exponential,
    greater,
    greatest,
    load,
    prefetch_line,
    row_length,
    same,
    store,
    total,
    towards_zero,
    width_of,
)
from loglinear.structures.chain.features import ChainFeatures, Penalties
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
    Moves,
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
        lists, in_row = encoded.state.lists(), block.features.row_of >= 0
        self.placement = Placement(block.pointer, block.codes, in_row, lists, self.width)
        self.n_rows = self.placement.n_rows
        allowed, start, stop = self._allowed(penalties)
        self.corpus = PaddedCorpus(
            encoded.offsets,
            *self.placement.entries,
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
        alpha = mapped.zeros((int(corpus.offsets[-1]), self.width), np.float32)
        transitions = mapped.zeros((len(corpus.offsets) - 1, len(corpus.transition_places)), np.float32)
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
        return PaddedWeights(*self.placement.zeros(), np.zeros((self.width, self.width), np.float32))

    def copy(self, weights: PaddedWeights) -> PaddedWeights:
        """The same weights in arrays of their own."""
        return PaddedWeights(*self.placement.copy(weights.rows, weights.lists), weights.transition.copy())

    def lay_out(self, weights: Float) -> PaddedWeights:
        """A weight vector [D] in this layout."""
        state, _, transition, *_ = self.features.slices
        laid_out = PaddedWeights(
            *self.placement.lay_out(weights[state]), np.zeros((self.width, self.width), np.float32)
        )
        laid_out.transition.ravel()[self.corpus.transition_places] = weights[transition]
        return laid_out

    def vector(
        self, rows: npt.NDArray[np.floating], lists: npt.NDArray[np.floating], transition: npt.NDArray[np.floating]
    ) -> Float:
        """The weight vector [D] of a layout."""
        weights = np.zeros(self.features.n_features)
        state, _, transitions, *_ = self.features.slices
        self.placement.gather(rows, lists, weights[state])
        weights[transitions] = transition.ravel()[self.corpus.transition_places]
        return weights


# ----------------------------------------------------------------------------------------------------------------------
# Passes over the sequences of a first-order chain in single precision: a gradient for all, or a dual step for each.
#
# For each sequence: scores of its positions, forward and backward over probabilities scaled to one at each position,
# expected transitions; then the gradient (:func:`evaluate`), or the step (:func:`dual_pass`). All rows have W numbers,
# a multiple of eight; those from Y on stay zero. A row of at most 64 stays in registers from one array to the next
# (:mod:`~loglinear.kernels.lanes`), a longer one is processed block by block; the kernels are compiled for each width.
# One call does a whole sequence, because a call with many arrays costs more than the work on one position.


SMALL_PRODUCT, LARGE_PRODUCT = 1e-200, 1e200


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


@loose_kernel
def add_to_alpha(first: int, n: int, gamma: np.float32, width: Width, work: Workspace, alpha: Float32) -> None:
    """Move the marginals ``alpha`` [N, W] by ``gamma`` times their change, ``work.marginals``."""
    kept, w = alpha.ravel(), row_length(width)
    for c in range(0, n * w, block_length(width)):
        here = load(kept, first * w + c, width) + gamma * load(work.marginals, c, width)
        store(kept, first * w + c, here)


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
def take_step(
    i: int, size: float | np.float32, square: float | np.float32, used: int, l2: float, caution: float,
    corpus: PaddedCorpus, weights: PaddedWeights, width: Width, alpha: Float32, alpha_transitions: Float32,
    work: Workspace, moves: Moves,
) -> np.float32:  # fmt: skip
    """Move what is kept of sequence ``i`` by gamma Delta, and the weights with it; returns gamma.

    Delta is in ``work.marginals`` and, at the places of transitions, in ``work.pairs``; ``size`` is J and ``square``
    Q. ``used`` is the number of rows that :func:`add_up` found, -1 if it was not called.
    """
    first, n, weight = corpus.offsets[i], corpus.offsets[i + 1] - corpus.offsets[i], corpus.sequence_weights[i]
    old, transition, places = alpha_transitions[i], weights.transition.ravel(), corpus.transition_places
    gamma = np.float32(size / (size + caution * weight / (2.0 * l2) * square + LEAST))
    factor = np.float32(-weight / (2.0 * l2)) * gamma
    for f in range(places.shape[0]):
        old[f] += gamma * work.pairs[places[f]]
        transition[places[f]] += factor * work.pairs[places[f]]
    add_to_alpha(first, n, gamma, width, work, alpha)
    if used >= 0:
        add_sums_to_rows(used, factor, width, moves, weights)
    else:
        add_to_rows(first, n, corpus, factor, width, work, weights)
    add_to_lists(first, n, corpus, factor, width, work, weights)
    return gamma


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
    pairs, factors, n_sequences = work.pairs, work.factors, sequences.shape[0]
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
        used = -1
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
        take_step(i, size, square, used, l2, caution, corpus, weights, width, alpha, alpha_transitions, work, moves)
