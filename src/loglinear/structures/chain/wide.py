"""Training passes in single precision for chains with many labels, in time and memory linear in what is observed.

They do what those of :mod:`~loglinear.structures.chain.padded` do, for label sets of which most transitions have no
weight (:mod:`~loglinear.structures.chain.steps`) and most attributes are seen with few labels. Weights are vectors in
the order of the features, and nothing is stored for what has no weight. Dense are only the scores and marginals of one
sequence [T, W], where W is Y rounded up to a multiple of eight, and the marginals that dual ascent keeps [N, W].

A position takes O(Y + listed transitions + features of its attributes) instead of O(Y^2 + attributes Y).
"""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from loglinear import mapped
from loglinear.arrays import Float, Float32, Int32, Int64, UInt16
from loglinear.features.block import find_keys
from loglinear.features.encoding import EncodedCorpus
from loglinear.kernels import loose_kernel
from loglinear.kernels.lanes import N_LANES, Width, exponential, greater, greatest, load, same, store, total, width_of
from loglinear.structures.chain.features import ChainFeatures, Penalties
from loglinear.structures.chain.steps import (
    ONE,
    ZERO,
    Factors,
    Steps,
    blank_factors,
    constant_factor,
    go_back,
    go_forth,
    make_steps,
    set_factors,
)
from loglinear.structures.rows import Kept, PaddedWeights, Step

TWO = np.float32(2.0)
LEAST = np.float32(1e-18)  # a smaller sum of scaled probabilities may lack some that were set to zero
NOTHING = np.float32(1e-24)  # a smaller probability is set to zero: near 1e-38 arithmetic is slow
TINY = np.float32(1e-9)
SMALL_PRODUCT = 1e-200
MOST_LOST = 1e-3  # of the probability of a sequence, by a bound, to labels that were left out
RULED_OUT = np.float32(-1e30)  # a score whose exponential is zero


class CostLists(NamedTuple):
    """Costs of labels: what most labels cost where another is right, and a list of those that cost something else.

    Parameters
    ----------
    usual : float64 [4, Y]
        By the kind of position (a whole sequence, first, inner, last) and the gold label.
    pointer : int64 [4 Y + 1]
        Where the list of each begins.
    labels : int32
    costs : float64
    """

    usual: Float
    pointer: Int64
    labels: Int32
    costs: Float


NO_COSTS = CostLists(np.zeros((0, 0)), np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0))


class WideCorpus(NamedTuple):
    """Sequences, and the features of their positions.

    Parameters
    ----------
    offsets : int64 [S + 1]
    pointer, ids, values
        Position t has the attributes ``ids[pointer[t]:pointer[t + 1]]``; no values if all are one.
    begins : int64 [A + 1]
        Attribute a has the features ``begins[a]`` to ``begins[a + 1]``.
    labels : uint16 [F]
        The label of each feature.
    steps : Steps
    start, stop : float32 [W]
        0 for first and last labels that constraints rule out, else 1; 0 from Y on.
    gold : int32 [N]
    gold_steps : int32 [N]
        The transition weight of the gold labels at t - 1 and t, or -1.
    costs : CostLists
    sequence_weights : float64 [S]
    """

    offsets: Int64
    pointer: Int64
    ids: Int32
    values: Float32
    begins: Int64
    labels: UInt16
    steps: Steps
    start: Float32
    stop: Float32
    gold: Int32
    gold_steps: Int32
    costs: CostLists
    sequence_weights: Float


class WideLayout:
    """A corpus and its features for passes over many labels; weights are float32 vectors in the features' order.

    Parameters
    ----------
    features : ChainFeatures
    encoded : EncodedCorpus
    penalties : Penalties
    gold : int32 [N]
    sequence_weights : float64 [S]
    costs : CostLists
    prune : float
        Passes leave out labels that are less probable than this by the emissions alone; 0 keeps all.
    """

    sequences_a_part: ClassVar[int] = 50  # each takes longer than with few labels
    measure_every: int = 4
    steady_from: int = 1
    revisits: ClassVar[bool] = True

    def __init__(
        self,
        features: ChainFeatures,
        encoded: EncodedCorpus,
        penalties: Penalties,
        gold: Int32,
        sequence_weights: Float,
        costs: CostLists = NO_COSTS,
        prune: float = 0.0,
    ) -> None:
        self.prune, self._kept_labels = prune, np.zeros(len(encoded.offsets) - 1, dtype=np.int64)
        n = features.n_labels
        self.features, self.n_labels, self.lanes = features, n, width_of(N_LANES)
        self.width = -(-n // N_LANES) * N_LANES
        pairs = np.concatenate([[-1], gold[:-1].astype(np.int64) * n + gold[1:]])
        pairs[encoded.offsets[:-1]] = -1
        values = encoded.state.values
        self.corpus = WideCorpus(
            encoded.offsets,
            encoded.state.pointer,
            encoded.state.ids,
            np.zeros(0, np.float32) if values is None else values.astype(np.float32),
            features.state.pointer,
            features.state.codes.astype(np.uint16),
            make_steps(features, penalties),
            start=self._padded(penalties.start),
            stop=self._padded(penalties.stop),
            gold=gold,
            gold_steps=find_keys(features.transitions, pairs).astype(np.int32),
            costs=costs,
            sequence_weights=sequence_weights,
        )

    def _padded(self, scores: Float) -> Float32:
        factors = np.zeros(self.width, dtype=np.float32)
        factors[: self.n_labels] = np.exp(scores)
        return factors

    def zeros(self) -> PaddedWeights:
        """Weights of zero."""
        state, _, transition, *_ = self.features.slices
        rows = np.zeros((0, self.width), dtype=np.float32)
        return PaddedWeights(rows, *(np.zeros(part.stop - part.start, np.float32) for part in (state, transition)))

    def copy(self, weights: PaddedWeights) -> PaddedWeights:
        """The same weights in arrays of their own."""
        return PaddedWeights(*map(np.copy, weights))

    def lay_out(self, weights: Float) -> PaddedWeights:
        """A weight vector [D] in this layout."""
        state, _, transition, *_ = self.features.slices
        rows = np.zeros((0, self.width), dtype=np.float32)
        return PaddedWeights(rows, *(weights[part].astype(np.float32) for part in (state, transition)))

    def at_gold(self) -> tuple[Float32, Float32]:
        """Marginals [N, W] and transitions [S, F] of the gold labellings."""
        corpus = self.corpus
        alpha = mapped.zeros((int(corpus.offsets[-1]), self.width), np.float32)
        transitions = mapped.zeros((len(corpus.offsets) - 1, len(self.features.transitions)), np.float32)
        start_at_gold(corpus, alpha, transitions)
        return alpha, transitions

    def dual_pass(
        self, sequences: Int64, weights: PaddedWeights, step: Step, kept: Kept, losses: Float, gaps: Float
    ) -> None:
        """A step for each of the ``sequences``; ``losses`` and ``gaps`` [S] before it."""
        passed = (self.corpus, weights, self.n_labels, self.lanes, *step, *kept[:3], losses, gaps)
        dual_pass(sequences, *passed, self.prune, self._kept_labels)

    @property
    def note(self) -> str:
        """What the last pass left out, for the message."""
        if not self.prune:
            return ""
        lengths, full = np.diff(self.corpus.offsets), self._kept_labels < 0
        kept = np.where(full, lengths * self.n_labels, self._kept_labels).sum() / (lengths.sum() * self.n_labels)
        redone = f"{int(full.sum()):,} of {len(full):,} sequences done in full"
        return f"; pruning kept {100.0 * kept:.3g} % of the labels, {redone}"

    def losses(self, sequences: Int64, weights: PaddedWeights) -> float:
        """Losses of the ``sequences``, each times its weight; nan if scores leave single precision."""
        return losses(sequences, self.corpus, weights, self.n_labels, self.lanes)

    def evaluate(self, sequences: Int64, weights: PaddedWeights, gradient: PaddedWeights) -> float:
        """The same; their gradient is added."""
        return evaluate(sequences, self.corpus, weights, self.n_labels, self.lanes, gradient)

    def vector(
        self, rows: npt.NDArray[np.floating], lists: npt.NDArray[np.floating], transition: npt.NDArray[np.floating]
    ) -> Float:
        """The weight vector [D] of a layout."""
        return np.concatenate([lists, transition]).astype(np.float64)


# ----------------------------------------------------------------------------------------------------------------------
# One sequence: scores, factors, forward, backward.


class Workspace(NamedTuple):
    """Scratch for one sequence of at most T positions."""

    emission: Float32  # [T, W]
    forward: Float32  # [T, W]
    marginals: Float32  # [T, W]
    full: Float32  # [T, W] the emissions before pruning; [0, W] if nothing is pruned
    dropped: Float  # [Y] forward sums of labels left out; [0] if nothing is pruned
    onward: Float  # [Y] the same, a step on
    reached: Float  # [W]
    pairs: Float32  # [M], in the order of ``steps.before``
    factors: Factors


@loose_kernel
def _workspace(corpus: WideCorpus, sequences: Int64, prunes: bool) -> Workspace:
    longest, width = 1, corpus.start.shape[0]
    for k in range(sequences.shape[0]):
        longest = max(longest, corpus.offsets[sequences[k] + 1] - corpus.offsets[sequences[k]])
    return Workspace(
        np.empty((longest, width), np.float32), np.empty((longest, width), np.float32),
        np.empty((longest, width), np.float32), np.empty((longest if prunes else 0, width), np.float32),
        np.zeros(corpus.steps.kinds.shape[0] if prunes else 0), np.empty(corpus.steps.kinds.shape[0] if prunes else 0),
        np.empty(width),
        np.zeros(corpus.steps.features.shape[0], np.float32), blank_factors(corpus.steps),
    )  # fmt: skip


@loose_kernel
def _set_scores(first: int, corpus: WideCorpus, lists: Float32, less: np.float32, out: Float32) -> None:
    """Scores [T, W] of the sequence that begins at ``first``, of weights moved towards zero by ``less``."""
    n_labels, has_values = corpus.steps.kinds.shape[0], corpus.values.shape[0] > 0
    for t in range(out.shape[0]):
        scores = out[t]
        for y in range(n_labels):
            scores[y] = ZERO
        for y in range(n_labels, scores.shape[0]):
            scores[y] = RULED_OUT
        for j in range(corpus.pointer[first + t], corpus.pointer[first + t + 1]):
            value = corpus.values[j] if has_values else ONE
            for f in range(corpus.begins[corpus.ids[j]], corpus.begins[corpus.ids[j] + 1]):
                weight = lists[f]
                scores[corpus.labels[f]] += value * (max(weight - less, ZERO) + min(weight + less, ZERO))


@loose_kernel
def _transition_of_gold(position: int, corpus: WideCorpus, transition: Float32, less: np.float32) -> np.float32:
    """Score of the gold transition into a position."""
    weight = transition[corpus.gold_steps[position]] if corpus.gold_steps[position] >= 0 else ZERO
    return max(weight - less, ZERO) + min(weight + less, ZERO)


@loose_kernel
def _add_costs(position: int, t: int, n: int, corpus: WideCorpus, scores: Float32) -> None:
    """Add the costs of position t of n to its scores [W]."""
    usual, pointer, labels, costs = corpus.costs
    kind, n_labels = 2 if 0 < t < n - 1 else 1 if t < n - 1 else 3 if t > 0 else 0, usual.shape[1]
    each, row = np.float32(usual[kind, corpus.gold[position]]), kind * n_labels + corpus.gold[position]
    for y in range(n_labels):
        scores[y] += each
    for j in range(pointer[row], pointer[row + 1]):
        scores[labels[j]] += np.float32(costs[j]) - each


@loose_kernel
def _set_emissions(
    first: int,
    corpus: WideCorpus,
    transition: Float32,
    less: np.float32,
    width: Width,
    scores: Float32,
    emission: Float32,
) -> float:
    """Scores [T, W], to which costs are added, as factors of at most one in ``emission``.

    Returns the logarithm of the number they were divided by, less the score of the gold labelling.
    """
    constant, n, w = 0.0, scores.shape[0], scores.shape[1]
    flat, out, has_costs = scores.ravel(), emission.ravel(), corpus.costs.usual.shape[0] > 0
    for t in range(n):
        constant -= scores[t, corpus.gold[first + t]]
        if t > 0:
            constant -= _transition_of_gold(first + t, corpus, transition, less)
        if has_costs:
            _add_costs(first + t, t, n, corpus, scores[t])
        most = load(flat, t * w, width)
        for c in range(8, w, 8):
            most = greater(most, load(flat, t * w + c, width))
        top = greatest(most)
        for c in range(0, w, 8):
            store(out, t * w + c, exponential(load(flat, t * w + c, width) - top))
        constant += top
    for c in range(0, w, 8):
        store(out, c, load(out, c, width) * load(corpus.start, c, width))
    for c in range(0, w, 8):
        store(out, (n - 1) * w + c, load(out, (n - 1) * w + c, width) * load(corpus.stop, c, width))
    return constant


@loose_kernel
def _forward(n: int, constant: float, steps: Steps, work: Workspace, full: Float32) -> tuple[float, float]:
    """Forward probabilities ``work.forward`` scaled to one at each position; the emissions are divided by the same.

    Returns the sum of the scales' logarithms, nan if one has underflown, and a bound on the share of the probability
    that labellings have with labels left out: of emissions that are zero but not so in ``full`` [T or 0, W].

    The bound. Let Z_t be the sum over the labellings that have no label left out up to t, so that all of it is Z_0 and
    Z_n is what is summed. With a the forward sums over these (f_t with the labels left out), and b the backward sums
    over everything, both kinds of label go on through the same next labels y'::

        Z_{t-1} - Z_t = sum_{y left out at t} a_t(y) b_t(y)  =  sum_y' G(y') e(y') b(y')    G = a_t of these, a step on
        Z_t           = sum_{y kept at t} a_t(y) b_t(y)      =  sum_y' F(y') e(y') b(y')    F = a_t of those, a step on

    so that Z_{t-1} / Z_t <= 1 + max_y' G(y') / F(y'), over all y' that are possible at t + 1. F is what the next step
    needs in any case, G is one more of its sums. At the last position b = 1. Then Z_n / Z_0 >= prod_t F / (F + G).
    """
    w, n_labels, summed, product, left, mass_dropped = work.forward.shape[1], steps.kinds.shape[0], 0.0, 1.0, 1.0, 0.0
    for t in range(n):
        now, emission = work.forward[t], work.emission[t]
        if t > 0:
            go_forth(work.forward[t - 1], constant, work.factors, steps, work.reached)
            for y in range(n_labels):
                now[y] = emission[y] * np.float32(work.reached[y])
            for y in range(n_labels, w):
                now[y] = ZERO
        else:
            for y in range(w):
                now[y] = emission[y]
                work.reached[y] = 1.0
        mass = 0.0
        for y in range(n_labels):
            mass += np.float64(now[y])
        if full.shape[0] > 0:
            if mass_dropped > 0.0:
                go_forth(work.dropped, constant, work.factors, steps, work.onward)
                left *= _kept_share(work.onward, work.reached, full[t])
            mass_dropped = _set_dropped(emission, full[t], work.reached, mass, work.dropped)
            if t == n - 1:
                left /= 1.0 + mass_dropped
        scale = np.float32(mass)
        if not scale > LEAST:
            return np.nan, 1.0 - left
        inverse = ONE / scale
        for y in range(w):
            value = inverse * now[y]
            now[y] = value if value > NOTHING else ZERO
        for y in range(w):
            emission[y] = inverse * emission[y]
        product *= float(scale)
        if not SMALL_PRODUCT < product < 1.0 / SMALL_PRODUCT:
            summed += math.log(product)
            product = 1.0
    return summed + math.log(product), 1.0 - left


@loose_kernel
def _set_dropped(emission: Float32, full: Float32, reached: Float, mass: float, dropped: Float) -> float:
    """Forward sums [Y] of the labels that were left out, relative to the ``mass`` of the others; their total."""
    total = 0.0
    for y in range(dropped.shape[0]):
        left_out = emission[y] == ZERO and mass > 0.0
        dropped[y] = np.float64(full[y]) * reached[y] / mass if left_out else 0.0
    for y in range(dropped.shape[0]):
        total += dropped[y]
    return total


@loose_kernel
def _kept_share(onward: Float, reached: Float, full: Float32) -> float:
    """The least F / (F + G) of the labels that are possible: ``reached`` and ``onward`` [Y]."""
    least = 1.0
    for y in range(onward.shape[0]):
        if full[y] > ZERO and onward[y] > 0.0:
            least = min(least, reached[y] / (reached[y] + onward[y]))
    return least


@loose_kernel
def _backward(n: int, constant: float, steps: Steps, work: Workspace) -> None:
    """``work.marginals``, and sum_t forward(t - 1) flow(t)' of the listed transitions added to ``work.pairs``."""
    w, n_labels = work.forward.shape[1], steps.kinds.shape[0]
    for y in range(w):
        work.reached[y] = 1.0
    for t in range(n - 1, -1, -1):
        forward, flow, marginals = work.forward[t], work.emission[t], work.marginals[t]
        for y in range(w):
            value = forward[y] * np.float32(work.reached[y])
            marginals[y] = value if value > NOTHING else ZERO
        if t == 0:
            break
        for y in range(w):
            value = flow[y] * np.float32(work.reached[y])
            flow[y] = value if value > NOTHING else ZERO
        go_back(flow, constant, work.factors, steps, work.forward[t - 1], work.pairs, work.reached[:n_labels])


@loose_kernel
def _loss(
    first: int, n: int, top: np.float32, corpus: WideCorpus, weights: PaddedWeights, width: Width, work: Workspace
) -> float:
    """The loss of a sequence; scores and forward probabilities are in ``work`` afterwards. nan if one underflows."""
    _set_scores(first, corpus, weights.lists, ZERO, work.forward[:n])
    loss = _set_emissions(first, corpus, weights.transition, ZERO, width, work.forward[:n], work.emission[:n])
    return loss + float(top) * (n - 1) + _forward(n, constant_factor(top), corpus.steps, work, work.full)[0]


@loose_kernel
def losses(sequences: Int64, corpus: WideCorpus, weights: PaddedWeights, n_labels: int, width: Width) -> float:
    """Losses of the ``sequences``, each times its weight; nan if a sum has underflown."""
    work, summed = _workspace(corpus, sequences, False), 0.0
    top = set_factors(weights.transition, ZERO, corpus.steps, width, work.factors)
    for k in range(sequences.shape[0]):
        i = sequences[k]
        loss = _loss(corpus.offsets[i], corpus.offsets[i + 1] - corpus.offsets[i], top, corpus, weights, width, work)
        if not loss < np.inf:
            return np.nan
        summed += loss * corpus.sequence_weights[i]
    return summed


@loose_kernel
def evaluate(
    sequences: Int64,
    corpus: WideCorpus,
    weights: PaddedWeights,
    n_labels: int,
    width: Width,
    gradient: PaddedWeights,
) -> float:
    """Losses of the ``sequences``, each times its weight; their gradient is added. nan if a sum has underflown."""
    work, summed, steps = _workspace(corpus, sequences, False), 0.0, corpus.steps
    top = set_factors(weights.transition, ZERO, steps, width, work.factors)
    for k in range(sequences.shape[0]):
        i = sequences[k]
        first, n = corpus.offsets[i], corpus.offsets[i + 1] - corpus.offsets[i]
        marginals, weight = work.marginals[:n], np.float32(corpus.sequence_weights[i])
        loss = _loss(first, n, top, corpus, weights, width, work)
        if not loss < np.inf:
            return np.nan
        summed += loss * corpus.sequence_weights[i]
        for m in range(work.pairs.shape[0]):
            work.pairs[m] = ZERO
        _backward(n, constant_factor(top), steps, work)
        for m in range(work.pairs.shape[0]):
            place = steps.before.place[m]
            if steps.features[place] >= 0:
                gradient.transition[steps.features[place]] += weight * work.factors.listed[place] * work.pairs[m]
        for t in range(n):
            marginals[t, corpus.gold[first + t]] -= ONE
            if corpus.gold_steps[first + t] >= 0:
                gradient.transition[corpus.gold_steps[first + t]] -= weight
        _apply(first, corpus, marginals, weight, gradient.lists)
    return summed


# ----------------------------------------------------------------------------------------------------------------------
# Dual ascent: a step for each sequence. :mod:`~loglinear.optimizers.dual.chain` has the equations.


class Moves(NamedTuple):
    """The change that one step makes to the features that its sequence uses."""

    place: Int64  # [A] where the sums of an attribute begin, -1 if it has none
    used: Int32  # the attributes that have sums
    sums: Float32


@loose_kernel
def _moves(corpus: WideCorpus, sequences: Int64) -> Moves:
    most, most_attributes = 1, 1
    for k in range(sequences.shape[0]):
        i, size = sequences[k], 0
        begin, end = corpus.pointer[corpus.offsets[i]], corpus.pointer[corpus.offsets[i + 1]]
        for j in range(begin, end):
            size += corpus.begins[corpus.ids[j] + 1] - corpus.begins[corpus.ids[j]]
        most, most_attributes = max(most, size), max(most_attributes, end - begin)
    attributes = corpus.begins.shape[0] - 1
    return Moves(np.full(attributes, -1, np.int64), np.empty(most_attributes, np.int32), np.empty(most, np.float32))


@loose_kernel
def _square(first: int, corpus: WideCorpus, change: Float32, moves: Moves) -> np.float32:
    """Q of state features: the squared norm of the effect of a change of marginals [T, W] on them."""
    n_used, filled, has_values = 0, 0, corpus.values.shape[0] > 0
    for t in range(change.shape[0]):
        parts = change[t]
        for j in range(corpus.pointer[first + t], corpus.pointer[first + t + 1]):
            a, value = corpus.ids[j], corpus.values[j] if has_values else ONE
            begin, size = corpus.begins[a], corpus.begins[a + 1] - corpus.begins[a]
            if moves.place[a] < 0:
                moves.place[a] = filled
                moves.used[n_used] = a
                n_used += 1
                for f in range(size):
                    moves.sums[filled + f] = value * parts[corpus.labels[begin + f]]
                filled += size
            else:
                place = moves.place[a]
                for f in range(size):
                    moves.sums[place + f] += value * parts[corpus.labels[begin + f]]
    for k in range(n_used):
        moves.place[moves.used[k]] = -1
    square = 0.0
    for f in range(filled):
        square += np.float64(moves.sums[f] * moves.sums[f])
    return np.float32(square)


@loose_kernel
def _apply(first: int, corpus: WideCorpus, change: Float32, factor: np.float32, lists: Float32) -> None:
    """Add ``factor`` times a change of marginals [T, W] to the features of its positions."""
    has_values = corpus.values.shape[0] > 0
    for t in range(change.shape[0]):
        parts = change[t]
        for j in range(corpus.pointer[first + t], corpus.pointer[first + t + 1]):
            by = factor * (corpus.values[j] if has_values else ONE)
            for f in range(corpus.begins[corpus.ids[j]], corpus.begins[corpus.ids[j] + 1]):
                lists[f] += by * parts[corpus.labels[f]]


@loose_kernel
def _set_change(
    first: int, n: int, corpus: WideCorpus, alpha: Float32, width: Width, work: Workspace
) -> tuple[np.float32, np.float32]:
    """Replace the marginals mu by Delta = mu - alpha; returns J, the size of Delta by chi-square, and what Q, the
    squared norm of its effect on the features, would be if no two positions shared a feature and every one existed."""
    marginals, before, w = work.marginals.ravel(), alpha.ravel(), alpha.shape[1]
    size, apart = 0.0, 0.0
    for t in range(n):
        here, squares = same(ZERO, width), same(ZERO, width)
        for c in range(0, w, 8):
            now, old = load(marginals, t * w + c, width), load(before, (first + t) * w + c, width)
            change = now - old
            here = here + change * change / (now + old + TINY)  # type: ignore[assignment]  # NumPy types a quotient of float32 as float64
            squares = squares + change * change
            store(marginals, t * w + c, change)
        size += float(total(here))
        apart += (corpus.pointer[first + t + 1] - corpus.pointer[first + t]) * float(total(squares))
    return np.float32(2.0 * size), np.float32(apart)


@loose_kernel
def _above_gold(
    first: int,
    n: int,
    corpus: WideCorpus,
    alpha: Float32,
    old: Float32,
    weights: PaddedWeights,
    less: np.float32,
    width: Width,
    scores: Float32,
) -> float:
    """Score and cost of a sequence expected under its marginals ``alpha`` [N, W] and transitions ``old`` [F], minus
    the score of its gold labelling; ``scores`` [T, W] are those of its positions, with costs."""
    flat, kept, w, above_gold = scores.ravel(), alpha.ravel(), alpha.shape[1], 0.0
    for t in range(n):
        here = same(ZERO, width)
        for c in range(0, w, 8):
            here = here + load(kept, (first + t) * w + c, width) * load(flat, t * w + c, width)
        above_gold += total(here) - scores[t, corpus.gold[first + t]]
        if t > 0:
            above_gold -= _transition_of_gold(first + t, corpus, weights.transition, less)
    expected = 0.0
    for f in range(old.shape[0]):
        weight = weights.transition[f]
        expected += np.float64((max(weight - less, ZERO) + min(weight + less, ZERO)) * old[f])
    return above_gold + expected


@loose_kernel
def _prune(first: int, gold: Int32, least: np.float32, emission: Float32, full: Float32) -> int:
    """Copy the emissions [T, W] to ``full``, and set to zero those below ``least`` of their position's sum.

    Gold labels stay. Returns how many do.
    """
    kept = 0
    for t in range(emission.shape[0]):
        now, copy, mass = emission[t], full[t], 0.0
        for y in range(now.shape[0]):
            copy[y] = now[y]
        for y in range(now.shape[0]):
            mass += np.float64(now[y])
        bound, right = least * np.float32(mass), gold[first + t]
        for y in range(now.shape[0]):
            now[y] = now[y] if now[y] >= bound or y == right else ZERO
        for y in range(now.shape[0]):
            kept += 1 if now[y] > ZERO else 0
    return kept


@loose_kernel
def start_at_gold(corpus: WideCorpus, alpha: Float32, alpha_transitions: Float32) -> None:
    """Set the marginals [N, W] and transitions [S, F], which come in as zeros, to those of the gold labelling."""
    for i in range(corpus.offsets.shape[0] - 1):
        for t in range(corpus.offsets[i], corpus.offsets[i + 1]):
            alpha[t, corpus.gold[t]] = ONE
            if corpus.gold_steps[t] >= 0:
                alpha_transitions[i, corpus.gold_steps[t]] += ONE


@loose_kernel
def dual_pass(
    sequences: Int64,
    corpus: WideCorpus,
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
    least: float,
    kept: Int64,
) -> None:
    """A step for each of the ``sequences`` in turn; losses and gaps [S] before each step, nan after an underflow.

    With ``least`` above 0, labels whose probability by the emissions alone is less are left out, except the gold ones,
    unless a sequence may have lost more than :data:`MOST_LOST` of its probability by that (:func:`_forward` has the
    bound). ``kept`` [S] is how many labels were
    kept in each sequence, -1 if it was done in full for that reason.

    The weights are a function of ``alpha`` [N, W] and ``alpha_transitions`` [S, F], the sequences' kept marginals;
    scores use the weights moved towards zero by ``shrink``. ``overlaps`` [S] is how much the positions of a sequence
    share features: with ``measure`` it is computed and stored, otherwise the stored number is used.
    """
    less, steps, w = np.float32(shrink), corpus.steps, alpha.shape[1]
    work, moves = _workspace(corpus, sequences, least > 0.0), _moves(corpus, sequences)
    transition, old, pairs = weights.transition, alpha.ravel(), work.pairs
    expected = np.zeros(transition.shape[0], np.float32)
    for k in range(sequences.shape[0]):
        i = sequences[k]
        first, n = corpus.offsets[i], corpus.offsets[i + 1] - corpus.offsets[i]
        change, weight, scores = work.marginals[:n], corpus.sequence_weights[i], work.forward[:n]
        top = set_factors(transition, less, steps, width, work.factors)
        _set_scores(first, corpus, weights.lists, less, scores)
        loss = _set_emissions(first, corpus, transition, less, width, scores, work.emission[:n])
        above_gold = _above_gold(first, n, corpus, alpha, alpha_transitions[i], weights, less, width, scores)
        if least > 0.0:
            kept[i] = _prune(first, corpus.gold, np.float32(least), work.emission[:n], work.full)
        logs, lost = _forward(n, constant_factor(top), steps, work, work.full)
        if lost > MOST_LOST:
            kept[i] = -1
            for t in range(n):
                emission, full = work.emission[t], work.full[t]
                for y in range(w):
                    emission[y] = full[y]
            logs, lost = _forward(n, constant_factor(top), steps, work, work.full)
        loss += float(top) * (n - 1) + logs
        if not loss < np.inf:
            losses[i] = gaps[i] = np.nan  # alpha_i stays as it is
            continue
        for m in range(pairs.shape[0]):
            pairs[m] = ZERO
        _backward(n, constant_factor(top), steps, work)
        size, apart = _set_change(first, n, corpus, alpha, width, work)
        if measure:
            square = _square(first, corpus, change, moves)
            overlaps[i] = square / (apart + LEAST)
        else:
            square = overlaps[i] * apart
        for m in range(pairs.shape[0]):
            place = steps.before.place[m]
            if steps.features[place] >= 0:
                expected[steps.features[place]] = pairs[m] * work.factors.listed[place]
        for f in range(expected.shape[0]):
            there = expected[f] - alpha_transitions[i, f]
            expected[f] = there
        more = 0.0
        for f in range(expected.shape[0]):
            more += np.float64(expected[f] * expected[f])
        square += np.float32(more)
        # the divergence of the two is at least the second term, and about the first where they are close
        losses[i], gaps[i] = weight * loss, weight * max(0.5 * size, loss - above_gold - n * math.log(n_labels))
        gamma = np.float32(size / (size + caution * weight / (2.0 * l2) * square + LEAST))
        factor = np.float32(-weight / (2.0 * l2)) * gamma
        for f in range(expected.shape[0]):
            alpha_transitions[i, f] += gamma * expected[f]
            transition[f] += factor * expected[f]
        parts = change.ravel()
        for c in range(0, n * w, 8):
            store(old, first * w + c, load(old, first * w + c, width) + gamma * load(parts, c, width))
        _apply(first, corpus, change, factor, weights.lists)
