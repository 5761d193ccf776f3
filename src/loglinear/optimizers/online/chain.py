"""Online learning of chains, compiled: a whole pass over the sequences.

The attributes with many features have rows of weights, a copy of those in the weight vector, which are added faster
than one feature after another. One labelling of a first-order chain without pair features is found as for prediction
(:mod:`~loglinear.structures.chain.best`), all others by the general kernels.

The difference f(y) - f(y*) of two labellings is a short list of (place in the weight vector, amount), made from the
positions where they differ; the Gram matrix is made of such lists. The sum of the weights is updated when they change,
as in :mod:`~loglinear.optimizers.online.flat`: a change d at step k of N is in the weights after N - k + 1 steps,

    sum_k w_k = N w_0 + sum_k (N - k + 1) d_k

Tests hold it to the loop of :mod:`~loglinear.optimizers.online.general`, which does the same sequence by sequence in
Python.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from loglinear.arrays import Float, Int32, Int64
from loglinear.criteria.criterion import CostCriterion
from loglinear.criteria.mira import hildreth
from loglinear.errors import DataError, InfeasibleError
from loglinear.features.block import FeatureBlock
from loglinear.features.encoding import EncodedCorpus, Incidence
from loglinear.kernels import kernel
from loglinear.kernels.numbers import one_run
from loglinear.kernels.tables import Lists
from loglinear.optimizers.objective import Objective
from loglinear.optimizers.online.learner import MIRA, NO_STEP, PASSIVE_AGGRESSIVE, Learner, learner_of, single_step
from loglinear.structures.chain import best, log_sums, structure
from loglinear.structures.chain.features import ChainFeatures
from loglinear.structures.chain.steps import is_too_wide
from loglinear.structures.chain.sums import Parts

NOT_SCORES = "the scores contain NaN or +inf; only finite numbers and -inf are scores"
AT_ONCE = 4096  # sequences in a call of the kernel, between which Ctrl-C is handled
ALL_WELL, NO_SCORES = -1, -2  # statuses of the kernel; others are numbers of sequences
ONLY, FIRST, INNER, LAST = 0, 1, 2, 3  # kinds of positions in the table of costs


class Attributes(NamedTuple):
    """Attributes of all positions, and the features of each (:class:`~loglinear.features.block.FeatureBlock`).

    Parameters
    ----------
    lists : Lists
        The attributes of each position; none at all if the model has no such features.
    features : int64 [A + 1]
        Features ``features[a]`` to ``features[a + 1]`` of attribute a.
    codes : int32 [F]
        The code of each feature.
    begin : int
        The first of their weights.
    row_of : int32 [A]
        The row of an attribute's weights, -1 if it has none.
    """

    lists: Lists
    features: Int64
    codes: Int32
    begin: int
    row_of: Int32

    @classmethod
    def of(cls, incidence: Incidence | None, block: FeatureBlock | None, begin: int) -> Attributes:
        """The attributes of a corpus."""
        if incidence is None or block is None:
            none, ids = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32)
            return cls(Lists(none, ids), none, ids, begin, ids)
        return cls(incidence.lists(), block.pointer, block.codes, begin, block.features.row_of)


class Sequences(NamedTuple):
    """S annotated sequences of N positions in all.

    Parameters
    ----------
    offsets : int64 [S + 1]
    state, edge : Attributes
        Those that are joined with a label, and with a pair of labels.
    gold : int32 [N]
    weights : float64 [S]
    costs : float64 [4, Y, Y]
        Of a label (last) where another is right, by kind of position.
    """

    offsets: Int64
    state: Attributes
    edge: Attributes
    gold: Int32
    weights: Float
    costs: Float


class Tables(NamedTuple):
    """Scores of label n-grams, updated with the weights; ``bigrams`` and ``trigrams`` are their places, or -1.

    Parameters
    ----------
    transition : float64 [Y, Y]
        With the constraints.
    trigram : float64 [Y, Y, Y], or nothing at order 1
    start, stop : float64 [Y]
    bigrams : int64 [Y^2]
    trigrams : int64 [Y^3 or 0]
    codes : int32 [D - ngrams]
        Code of each weight from ``ngrams`` on: of a bigram, or Y^2 more than that of a trigram.
    ngrams : int
    paths : best.Tables
        The scores of bigrams, starts and stops in rows of W; empty where best labellings are not found from those.
    rows : float64 [R, Y or W]
        Weights of the attributes that have a row.
    places : int32 [D]
        Where in the flat rows each weight is, or -1.
    """

    transition: Float
    trigram: Float
    start: Float
    stop: Float
    bigrams: Int64
    trigrams: Int64
    codes: Int32
    ngrams: int
    paths: best.Tables
    rows: Float
    places: Int32


class Difference(NamedTuple):
    """A list of places in the weight vector and amounts [n]; ``slot`` [D] says where in it a place is, or -1."""

    places: Int64
    amounts: Float
    slot: Int32


@kernel
def _add(place: int, amount: float, difference: Difference, n: int) -> int:
    """Add ``amount`` at a place; the new length of the list."""
    i = difference.slot[place]
    if i >= 0:
        difference.amounts[i] += amount
        return n
    difference.slot[place] = n
    difference.places[n], difference.amounts[n] = place, amount
    return n + 1


@kernel
def _add_codes(t: int, attributes: Attributes, wrong: int, right: int, difference: Difference, n: int) -> int:
    """Add the features of position ``t`` with one code and subtract those with another; the new length of the list."""
    pointer, ids, values = attributes.lists
    for j in range(pointer[t], pointer[t + 1]):
        a, value = ids[j], values[j] if values.shape[0] > 0 else 1.0
        for f in range(attributes.features[a], attributes.features[a + 1]):
            if attributes.codes[f] == wrong:
                n = _add(attributes.begin + f, value, difference, n)
            elif attributes.codes[f] == right:
                n = _add(attributes.begin + f, -value, difference, n)
    return n


@kernel
def _add_ngram(places: Int64, wrong: int, right: int, difference: Difference, n: int) -> int:
    """Add one label n-gram and subtract another; the new length of the list."""
    if wrong != right:
        if places[wrong] >= 0:
            n = _add(places[wrong], 1.0, difference, n)
        if places[right] >= 0:
            n = _add(places[right], -1.0, difference, n)
    return n


@kernel
def _collect(first: int, sequences: Sequences, tables: Tables, wrong: Int32, right: Int32, found: Difference) -> int:
    """f(wrong) - f(right) of the sequence that begins at ``first`` into ``found``; the length of the list.

    Leaves ``slot`` as it was, all -1.
    """
    y, n = tables.transition.shape[0], 0
    for t in range(wrong.shape[0]):
        if wrong[t] != right[t]:
            n = _add_codes(first + t, sequences.state, wrong[t], right[t], found, n)
        if t > 0:
            new, old = wrong[t - 1] * y + wrong[t], right[t - 1] * y + right[t]
            n = _add_ngram(tables.bigrams, new, old, found, n)
            if new != old and sequences.edge.features.shape[0] > 0:
                n = _add_codes(first + t, sequences.edge, new, old, found, n)
            if t > 1 and tables.trigrams.shape[0] > 0:
                n = _add_ngram(tables.trigrams, wrong[t - 2] * y * y + new, right[t - 2] * y * y + old, found, n)
    for i in range(n):
        found.slot[found.places[i]] = -1
    return n


@kernel
def fill_scores(first: int, attributes: Attributes, weights: Float, scores: Float) -> bool:
    """Scores [T, C] of the positions from ``first`` on; whether they are numbers."""
    pointer, ids, values = attributes.lists
    for t in range(scores.shape[0]):
        row = scores[t]
        for c in range(row.shape[0]):
            row[c] = 0.0
        for j in range(pointer[first + t], pointer[first + t + 1]):
            a, value = ids[j], values[j] if values.shape[0] > 0 else 1.0
            for f in range(attributes.features[a], attributes.features[a + 1]):
                row[attributes.codes[f]] += value * weights[attributes.begin + f]
        for c in range(row.shape[0]):
            if not row[c] < np.inf:
                return False
    return True


@kernel
def _fill_row_scores(first: int, attributes: Attributes, weights: Float, rows: Float, scores: Float) -> bool:
    """:func:`fill_scores` with ``rows`` [R, C] for the attributes that have one, added in the same order."""
    pointer, ids, values = attributes.lists
    row_of, plain = attributes.row_of, values.shape[0] == 0
    for t in range(scores.shape[0]):
        out = scores[t]
        for c in range(out.shape[0]):
            out[c] = 0.0
        j, end = pointer[first + t], pointer[first + t + 1]
        while j < end:
            p0 = row_of[ids[j]]
            if plain and j + 3 < end and p0 >= 0:
                p1, p2, p3 = row_of[ids[j + 1]], row_of[ids[j + 2]], row_of[ids[j + 3]]
                if p1 >= 0 and p2 >= 0 and p3 >= 0:
                    r0, r1, r2, r3 = rows[p0], rows[p1], rows[p2], rows[p3]
                    for c in range(out.shape[0]):
                        out[c] = (((out[c] + r0[c]) + r1[c]) + r2[c]) + r3[c]
                    j += 4
                    continue
            value = 1.0 if plain else values[j]
            if p0 >= 0:
                row = rows[p0]
                for c in range(out.shape[0]):
                    out[c] += value * row[c]
            else:
                for f in range(attributes.features[ids[j]], attributes.features[ids[j] + 1]):
                    out[attributes.codes[f]] += value * weights[attributes.begin + f]
            j += 1
        for c in range(out.shape[0]):
            if not out[c] < np.inf:
                return False
    return True


@kernel
def kind_of(t: int, length: int) -> int:
    """The kind of position ``t``."""
    if length == 1:
        return ONLY
    return FIRST if t == 0 else LAST if t == length - 1 else INNER


@kernel
def add_costs(costs: Float, right: Int32, emission: Float) -> None:
    """The cost of each label, where ``right`` [T] is right, added to its score ``emission`` [T, at least Y]."""
    for t in range(right.shape[0]):
        row, cost = emission[t], costs[kind_of(t, right.shape[0]), right[t]]
        for y in range(cost.shape[0]):
            row[y] += cost[y]


@kernel
def _cost(costs: Float, right: Int32, wrong: Int32) -> float:
    """The cost of the labelling ``wrong`` [T]."""
    total = 0.0
    for t in range(right.shape[0]):
        total += costs[kind_of(t, right.shape[0]), right[t], wrong[t]]
    return total


@kernel
def _fill_gram(places: Int64, amounts: Float, lengths: Int64, slot: Int32, gram: Float) -> None:
    """Inner products [K, K] of the differences, one in each row of ``places`` and ``amounts``."""
    for i in range(lengths.shape[0]):
        for a in range(lengths[i]):
            slot[places[i, a]] = a
        for j in range(i, lengths.shape[0]):
            total = 0.0
            for b in range(lengths[j]):
                a = slot[places[j, b]]
                if a >= 0:
                    total += amounts[i, a] * amounts[j, b]
            gram[i, j] = total
            gram[j, i] = total
        for a in range(lengths[i]):
            slot[places[i, a]] = -1


@kernel
def _combine(places: Int64, amounts: Float, lengths: Int64, steps: Float, together: Difference) -> int:
    """The sum of the differences, each times its step; the length of its list. Leaves ``slot`` all -1."""
    n = 0
    for k in range(lengths.shape[0]):
        for i in range(lengths[k]):
            n = _add(places[k, i], steps[k] * amounts[k, i], together, n)
    for i in range(n):
        together.slot[together.places[i]] = -1
    return n


@kernel
def _move(found: Difference, step: float, left: float, tables: Tables, weights: Float, sums: Float) -> None:
    """``weights`` -= step times the difference; their ``sums`` by ``left`` times that."""
    y, rows, paths = tables.transition.shape[0], tables.rows.ravel(), tables.paths
    for i in range(found.places.shape[0]):
        place, change = found.places[i], step * found.amounts[i]
        weights[place] -= change
        if sums.shape[0] > 0:
            sums[place] -= left * change
        if tables.places[place] >= 0:
            rows[tables.places[place]] = weights[place]
        if place >= tables.ngrams:
            code = tables.codes[place - tables.ngrams]
            if code < y * y:
                if tables.transition[code // y, code % y] > -np.inf:
                    tables.transition[code // y, code % y] = weights[place]
                    if paths.transition.shape[0] > 0:
                        paths.transition[code // y, code % y] = weights[place]
                        paths.turned[code % y, code // y] = weights[place]
            else:
                code -= y * y
                tables.trigram[code // (y * y), code // y % y, code % y] = weights[place]


@kernel
def online_pass(
    order: Int64, n_left: int, sequences: Sequences, tables: Tables, learner: Learner, most: int, weights: Float,
    sums: Float,
) -> tuple[float, int, int]:  # fmt: skip
    """A step for each sequence in the ``order`` given; the losses before each, how many moved the weights, a status.

    ``n_left`` steps are left in the pass, including these; ``most`` is the length of the longest difference.
    """
    n_labels, longest = tables.transition.shape[0], 1
    for i in order:
        longest = max(longest, sequences.offsets[i + 1] - sequences.offsets[i])
    has_edges = sequences.edge.features.shape[0] > 0
    quick, width = tables.paths.transition.shape[0] > 0, tables.rows.shape[1]
    emission, reached, spare = np.empty((longest, width)), np.empty((longest, width)), np.empty(width)
    pairs = np.empty((longest if has_edges else 0, n_labels * n_labels))
    edge = pairs.reshape(pairs.shape[0], n_labels, n_labels)
    slot, lengths = np.full(weights.shape[0], -1, np.int32), np.zeros(learner.k, np.int64)
    places, amounts = np.empty((learner.k, most), np.int64), np.empty((learner.k, most))
    together = Difference(np.empty(learner.k * most, np.int64), np.empty(learner.k * most), slot)
    scores, steps, losses, gold_score = np.empty(learner.k), np.zeros(learner.k), np.empty(learner.k), np.empty(1)
    total, moves = 0.0, 0
    for number in range(order.shape[0]):
        i = order[number]
        first, n, weight = sequences.offsets[i], sequences.offsets[i + 1] - sequences.offsets[i], sequences.weights[i]
        right, whole = sequences.gold[first : first + n], one_run(0, n)
        well = _fill_row_scores(first, sequences.state, weights, tables.rows, emission[:n])
        if has_edges:
            well &= fill_scores(first, sequences.edge, weights, pairs[:n])
        if not well:
            return total, moves, NO_SCORES
        if learner.kind == MIRA:
            add_costs(sequences.costs, right, emission[:n])
        parts = Parts(emission[:n], tables.transition, tables.start, tables.stop, edge[:n], tables.trigram)
        labels, n_found = np.empty((learner.k, n), np.int32), 1
        if quick:
            scores[0] = best.best_path(emission[:n], tables.paths, n_labels, reached, spare, labels[0])
            if scores[0] == -np.inf:
                return total, moves, i
        elif learner.k == 1:
            if log_sums.viterbi(whole, parts, labels[0], scores) >= 0:
                return total, moves, i
        else:
            n_found = log_sums.k_best(whole[0], n - 1, parts, labels, scores)
            if n_found == 0:
                return total, moves, i
        structure.score(whole, parts, right, gold_score)
        n_wrong = 0
        for k in range(n_found):
            if np.array_equal(labels[k], right):
                continue
            losses[n_wrong] = scores[k] - gold_score[0]
            if learner.kind == PASSIVE_AGGRESSIVE:
                losses[n_wrong] += math.sqrt(_cost(sequences.costs, right, labels[k]))
            difference = Difference(places[n_wrong], amounts[n_wrong], slot)
            lengths[n_wrong] = _collect(first, sequences, tables, labels[k], right, difference)
            n_wrong += 1
        if n_wrong == 0:
            continue
        if n_wrong == 1:
            squared = 0.0
            for amount in amounts[0, : lengths[0]]:
                squared += amount * amount
            steps[0] = single_step(learner, losses[0], squared, weight)
        else:
            steps[:] = 0.0
            gram = np.zeros((n_wrong, n_wrong))
            _fill_gram(places, amounts, lengths[:n_wrong], slot, gram)
            hildreth(losses[:n_wrong], gram, learner.C * weight, steps[:n_wrong])
        total += weight * max(0.0, losses[:n_wrong].max())
        moves += 1 if steps[:n_wrong].max() > NO_STEP else 0
        if n_wrong == 1:
            found = Difference(places[0, : lengths[0]], amounts[0, : lengths[0]], slot)
            _move(found, steps[0], float(n_left - number), tables, weights, sums)
        else:
            n_moved = _combine(places, amounts, lengths[:n_wrong], steps, together)
            found = Difference(together.places[:n_moved], together.amounts[:n_moved], slot)
            _move(found, 1.0, float(n_left - number), tables, weights, sums)
    return total, moves, ALL_WELL


def _places(codes: Int32, segment: slice, n_codes: int) -> Int64:
    """Place of each code's weight [C], from the codes of a segment of the weight vector; -1 for none."""
    places = np.full(n_codes, -1, dtype=np.int64)
    places[codes] = np.arange(segment.start, segment.stop)
    return places


class ChainOnline:
    """Compiled passes over the sequences of an objective with chains."""

    def __init__(self, objective: Objective, learner: Learner) -> None:
        features, corpus, criterion = objective.features, objective.corpus, objective.criterion
        assert isinstance(features, ChainFeatures) and isinstance(corpus, EncodedCorpus)
        self._objective, self._learner, self._features = objective, learner, features
        y = features.n_labels
        costs = criterion.cost.table if isinstance(criterion, CostCriterion) else np.zeros((4, y, y))
        self._sequences = Sequences(
            corpus.offsets,
            Attributes.of(corpus.state, features.state, 0),
            Attributes.of(corpus.edge, features.edge, features.slices[1].start),
            np.ascontiguousarray(objective.gold.labels),
            np.ascontiguousarray(objective.sequence_weights, dtype=np.float64),
            np.ascontiguousarray(costs),
        )
        self._most = self._longest_difference(corpus)

    @classmethod
    def of(cls, objective: Objective) -> ChainOnline | None:
        """The passes of an objective; None unless it has fully labelled chains of order 1 or 2 and a supported learner,
        and not so many labels that the general loop, which goes over lists of transitions, is quicker."""
        learner, features = learner_of(objective.criterion), objective.features
        if learner is None or not isinstance(features, ChainFeatures) or features.input_only or features.order > 2:
            return None
        if features.dense or is_too_wide(features, objective.penalties):
            return None
        return None if objective.gold.allowed is not None else cls(objective, learner)

    def _longest_difference(self, corpus: EncodedCorpus) -> int:
        """The most features in which two labellings of a sequence can differ."""
        counts = 4 * np.diff(corpus.offsets)  # label bigrams and trigrams
        for incidence in (corpus.state, corpus.edge):
            if incidence is not None:
                counts = counts + 2 * np.diff(incidence.pointer[corpus.offsets])
        return int(counts.max(initial=1))

    def _tables(self, weights: Float) -> Tables:
        features, y = self._features, self._features.n_labels
        laid_out = features.lay_out(weights, self._objective.penalties)
        _, _, bigrams, trigrams, _ = features.slices
        trigram = np.zeros((0, 0, 0)) if laid_out.trigram is None else laid_out.trigram
        if not all((table < np.inf).all() for table in (laid_out.transition, trigram, laid_out.start, laid_out.stop)):
            raise DataError(NOT_SCORES)
        return Tables(
            laid_out.transition,
            trigram,
            laid_out.start,
            laid_out.stop,
            _places(features.transitions, bigrams, y**2),
            _places(features.trigrams, trigrams, trigram.size),
            np.concatenate([features.transitions, features.trigrams + y**2]).astype(np.int32),
            bigrams.start,
            self._paths(laid_out.transition, laid_out.start, laid_out.stop),
            *self._rows(weights),
        )

    @property
    def _quick(self) -> bool:
        """Whether best labellings are found as for prediction."""
        return self._learner.k == 1 and best.ChainDecoder.suits(self._features)

    def _paths(self, transition: Float, start: Float, stop: Float) -> best.Tables:
        none = np.zeros((0, 0))
        return best.padded_tables(transition, start, stop) if self._quick else best.Tables(none, none, start, stop)

    def _rows(self, weights: Float) -> tuple[Float, Int32]:
        """The weights of attributes that have a row, and the place of each weight [D] in the flat rows, or -1."""
        block, y = self._features.state, self._features.n_labels
        row_of, width = block.features.row_of, best.padded_width(y) if self._quick else y
        row = np.repeat(row_of, np.diff(block.pointer))
        places = np.full(len(weights), -1, dtype=np.int32)
        places[: len(row)] = np.where(row >= 0, row * width + block.codes, -1)
        rows = np.zeros((int(row_of.max(initial=-1)) + 1, width))
        rows.ravel()[places[places >= 0]] = weights[places >= 0]
        return rows, places

    def __call__(self, order: Int64, weights: Float, sums: Float) -> tuple[float, int]:
        """A pass that changes ``weights`` [D] and their ``sums`` [D or 0]; the losses, and how often they moved."""
        sums += len(order) * weights[: len(sums)]
        tables, total, moves = self._tables(weights), 0.0, 0
        for first in range(0, len(order), AT_ONCE):
            now = order[first : first + AT_ONCE]
            losses, moved, status = online_pass(
                now, len(order) - first, self._sequences, tables, self._learner, self._most, weights, sums
            )
            if status == NO_SCORES:
                raise DataError(NOT_SCORES)
            if status != ALL_WELL:
                raise InfeasibleError(status)
            total, moves = total + losses, moves + moved
        return total, moves
