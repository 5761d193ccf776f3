"""Dual ascent for max-margin on any structure that has a best labelling: a few labellings an example, and their masses.

    primal   sum_i c_i max_y (cost_i(y) + s(y) - s(gold_i)) + l1 |w| + l2 ||w||^2
    dual     sum_i c_i sum_k a_ik o_ik - l2 ||w||^2
    weights  w = -(1 / 2 l2) sum_i c_i sum_k a_ik d_ik,  moved towards zero by l1 / 2 l2

Each labelling y of example i is a plane below its loss: o + w . d, with  d = f(y) - f(gold_i)  and the offset o, its
cost and whatever scores do not depend on the weights. Example i keeps those that were found so far, the gold one first,
with masses a_ik >= 0 that sum to one. For any masses the dual is at most the least primal, so that the gap between both
bounds how far the weights are from the minimum; without an L1 penalty it is the sum of
c_i (max_y (cost_i(y) + s(y) - s(gold_i)) - sum_k a_ik (o_ik + w . d_ik)).

Block-coordinate Frank-Wolfe (Lacoste-Julien, Jaggi, Schmidt & Pletscher 2013) finds the best labelling of an example
and moves mass towards it from all others at once, once for each search. Searching is what takes time. So a labelling
found is kept (Shah, Kolmogorov & Lampert 2015), mass moves between pairs of labellings (Osokin et al. 2016), and a
visit to an example ends with the best masses of its labellings given those of the others:

1. v_k <- o_k + w . d_k for its K labellings
2. b <- argmax_k v_k, a <- argmin_{k: a_k > 0} v_k;  stop if v_b = v_a
3. move  min(a_a, 2 l2 (v_b - v_a) / (c ||d_b - d_a||^2))  from a to b, and go on with 2; inner products d . d', which
   are kept, say how the v_k change
4. w <- w - (c / 2 l2) sum_k (change of a_k) d_k

With an L1 penalty the same steps raise the dual at least as much as they would without one, as moving weights towards
zero makes no difference larger (proximal SDCA: Shalev-Shwartz & Zhang 2014). But where weights stay zero the dual is
linear, and steps that presume its greatest curvature may be a thousand times too short. So a visit goes on: it moves
the mass from a to b after which v_b = v_a at the weights that this makes, or all. The difference v_b - v_a never rises
with the mass moved; its root is bracketed by step 3 and a_a, and what is moved never exceeds it.

A pass searches in rounds of some of the examples, which it then visits, and between rounds it visits all. A labelling
without mass for some passes is forgotten. Passes end when the gap, computed in double precision from labellings and
masses by the narrow waist, is below a hundred times the tolerance.

**Another model's weights** to start from are those of the first searches; the masses start at the gold labellings.

**Threads** share the searches, which change no weights. One makes the visits, so that the result is the same for any
number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from loglinear.arrays import Array, Arrays, Bool, Float, Float32, Int32, Int64
from loglinear.criteria.criterion import CostCriterion
from loglinear.data.columns.corpus import ranges
from loglinear.errors import InfeasibleError
from loglinear.kernels import kernel, small_kernel
from loglinear.optimizers.dual.flat import Certificate
from loglinear.optimizers.dual.general import DualOptions, check_fits_data, until_certified
from loglinear.optimizers.objective import Objective, shards
from loglinear.optimizers.optimizer import Callback, Result, check_parts_fit, reading_state
from loglinear.structures.structure import PartFeatures, SparseGradient
from loglinear.system import in_threads

GAP = 100.0  # the gap that is small enough, as a multiple of the tolerance
ROUNDS, FIRST, FIRST_ROUNDS = 8, 2, 32  # of a pass; in the first passes steps change more, and more rounds are worth it
VISITS = 1  # to each example after a round
STEPS_EACH = 8  # most steps of a visit, for each of the example's labellings
ENOUGH = 1e-3  # a visit ends when this share of the difference that it began with is left
LEFT = 0.1  # with an L1 penalty steps go on while more than this share is left
MOST_ATTEMPTS = 30  # at the length of such a step
MOST_IDLE = 5  # passes after which a labelling without mass is forgotten
REFRESH_EVERY = 8  # passes after which the weights are made of the masses again, without accumulated rounding
NEGLIGIBLE = 0.02  # a plane is new if it is higher by this share of an example's part of the gap that is small enough
WORTH = 0.1  # the same of an example's part of the gap in the last pass
ROUNDING = 1e-11  # share of a loss that may be rounding
LEAST_ROOM = 4  # labellings of an example
COUNTS = ("iteration", "evaluations")
NUMBERS = ("value", "gap", "least")
STORED = ("counts", "masses", "offsets", "idle", "labels")  # what a checkpoint stores of labellings


class Table(NamedTuple):
    """The labellings of S examples, up to K of each, for kernels.

    Parameters
    ----------
    counts : int32 [S]
        How many each example has; the first is the gold one.
    masses, offsets : float64 [S, K]
    begins, ends : int64 [S, K]
        Where features lie, those of the labelling less those of the gold one.
    features, values : int32, float32
    products : float32 [S, K, K]
        d_k . d_l.
    """

    counts: Int32
    masses: Float
    offsets: Float
    begins: Int64
    ends: Int64
    features: Int32
    values: Float32
    products: Float32


@kernel
def _heights(i: int, table: Table, sums: Float, shrink: float, v: Float) -> None:
    """Write  o_k + w . d_k  of the labellings of example i to ``v`` [K]; w are the sums moved towards zero."""
    features, values = table.features, table.values
    for k in range(table.counts[i]):
        total = table.offsets[i, k]
        for j in range(table.begins[i, k], table.ends[i, k]):
            weight = sums[features[j]]
            if shrink > 0.0:
                weight = max(weight - shrink, 0.0) + min(weight + shrink, 0.0)
            total += weight * values[j]
        v[k] = total


@kernel
def look_up(first: int, end: int, table: Table, weights: Float, highest: Float, means: Float) -> None:
    """Of examples ``first`` to ``end`` the highest plane, and the mean of all by their masses, [end - first]."""
    v = np.empty(table.masses.shape[1])
    for i in range(first, end):
        _heights(i, table, weights, 0.0, v)
        best, mean = v[0], 0.0
        for k in range(table.counts[i]):
            best = max(best, v[k])
            mean += table.masses[i, k] * v[k]
        highest[i - first], means[i - first] = best, mean


@small_kernel
def _extremes(n: int, v: Float, mass: Float) -> tuple[int, int]:
    """Of n labellings with planes ``v`` the highest, and the lowest one with mass."""
    high, low = 0, -1
    for k in range(n):
        if v[k] > v[high]:
            high = k
        if mass[k] > 0.0 and (low < 0 or v[k] < v[low]):
            low = k
    return high, low


@kernel
def _rise(i: int, high: int, low: int, table: Table, sums: Float, shrink: float, step: float, towards: Float) -> float:
    """v_high - v_low of example i once the sums [D] have moved by ``-step * towards`` [D]."""
    features, values = table.features, table.values
    total = table.offsets[i, high] - table.offsets[i, low]
    for k, sign in ((high, 1.0), (low, -1.0)):
        for j in range(table.begins[i, k], table.ends[i, k]):
            weight = sums[features[j]] - step * towards[features[j]]
            total += sign * values[j] * (max(weight - shrink, 0.0) + min(weight + shrink, 0.0))
    return total


@kernel
def _move_on(
    i: int, table: Table, sums: Float, shrink: float, factor: float, stop: float, v: Float, scratch: Float
) -> None:
    """Move mass between labellings of example i as far as the dual rises, where weights may be zero.

    Ends when the highest plane is at most ``stop`` above the lowest one with mass, or after a step for each of the
    labellings. ``v`` [K] is overwritten; ``scratch`` [D] is zero before and after.
    """
    n, mass, products = table.counts[i], table.masses[i], table.products[i]
    begins, ends, features, values = table.begins, table.ends, table.features, table.values
    for _ in range(n):
        _heights(i, table, sums, shrink, v)
        high, low = _extremes(n, v, mass)
        slope = v[high] - v[low]
        if slope <= stop:
            break
        for k, sign in ((high, 1.0), (low, -1.0)):
            for j in range(begins[i, k], ends[i, k]):
                scratch[features[j]] += sign * values[j]
        square = products[high, high] + products[low, low] - 2.0 * products[high, low]
        short, at_short, long = 0.0, slope, mass[low]  # the root is between short and long
        at_long = _rise(i, high, low, table, sums, shrink, factor * long, scratch)
        if at_long >= 0.0:
            short = long
        elif factor * square * long > slope:
            short = slope / (factor * square)
            at_short = _rise(i, high, low, table, sums, shrink, factor * short, scratch)
        for attempt in range(MOST_ATTEMPTS):
            if short == long or at_short <= LEFT * slope:
                break
            middle = 0.5 * (short + long)
            if attempt % 2 == 1:
                middle = short + (long - short) * at_short / (at_short - at_long)
            at_middle = _rise(i, high, low, table, sums, shrink, factor * middle, scratch)
            if at_middle >= 0.0:
                short, at_short = middle, at_middle
            else:
                long, at_long = middle, at_middle
        mass[low] -= short
        mass[high] += short
        for k in (high, low):
            for j in range(begins[i, k], ends[i, k]):
                sums[features[j]] -= factor * short * scratch[features[j]]
                scratch[features[j]] = 0.0


@kernel
def visit(
    examples: Int64,
    table: Table,
    sums: Float,
    shrink: float,
    l2: float,
    weights: Float,
    steps_each: int,
    enough: float,
    scratch: Float,
) -> None:
    """Give the labellings of each of the ``examples`` the best masses, in place, and change the sums [D] accordingly.

    ``weights`` [S] are those of the examples. A visit ends when the highest plane is less than ``enough`` times as far
    above the lowest one with mass as it was, or after ``steps_each`` steps for each of the labellings; with an L1
    penalty (``shrink``), it goes on where these steps are too short. ``scratch`` [D] is zero before and after.
    """
    counts, masses, begins, ends = table.counts, table.masses, table.begins, table.ends
    room = masses.shape[1]
    v, before = np.empty(room), np.empty(room)
    for e in range(examples.shape[0]):
        i = examples[e]
        n, factor = counts[i], weights[i] / (2.0 * l2)
        if n < 2 or factor == 0.0:
            continue
        _heights(i, table, sums, shrink, v)
        mass, products = masses[i], table.products[i]
        for k in range(n):
            before[k] = mass[k]
        first = 0.0
        for step in range(steps_each * n):
            high, low = _extremes(n, v, mass)
            slope = v[high] - v[low]
            if slope <= enough * first:
                break
            if step == 0:
                first = slope
            square = products[high, high] + products[low, low] - 2.0 * products[high, low]
            moved = mass[low]
            if factor * square * moved > slope:
                moved = slope / (factor * square)
                mass[low] -= moved
            else:
                mass[low] = 0.0
            mass[high] += moved
            for k in range(n):
                v[k] -= factor * moved * (products[k, high] - products[k, low])
        for k in range(1, n):
            change = factor * (mass[k] - before[k])
            if change != 0.0:
                for j in range(begins[i, k], ends[i, k]):
                    sums[table.features[j]] -= change * table.values[j]
        if shrink > 0.0 and first > 0.0:
            _move_on(i, table, sums, shrink, factor, LEFT * first, v, scratch)


@kernel
def _multiply(examples: Int64, table: Table, scratch: Float) -> None:
    """Set the inner products of the last labelling of each of the ``examples`` with all of its example.

    ``scratch`` [D] is zero before and after.
    """
    features, values = table.features, table.values
    for e in range(examples.shape[0]):
        i = examples[e]
        new = table.counts[i] - 1
        begin, end, products = table.begins[i, new], table.ends[i, new], table.products[i]
        for j in range(begin, end):
            scratch[features[j]] = values[j]
        for k in range(new + 1):
            total = 0.0
            for j in range(table.begins[i, k], table.ends[i, k]):
                total += values[j] * scratch[features[j]]
            products[new, k] = total
            products[k, new] = total
        for j in range(begin, end):
            scratch[features[j]] = 0.0


class Found(NamedTuple):
    """A labelling that a search has found.

    Parameters
    ----------
    example : int
    labels : int32 [T, ...]
    features, values : int64 [n], float64 [n]
        Its features less those of the gold one.
    offset : float
    """

    example: int
    labels: Int32
    features: Int64
    values: Float
    offset: float


class Planes:
    """The labellings of S examples, with room for more.

    Parameters
    ----------
    offsets : int64 [S + 1]
        Where the examples' positions begin.
    gold_offsets : float64 [S]
        Offsets of the gold labellings.
    label_shape : tuple of int
        The shape of a position's label.
    """

    def __init__(self, offsets: Int64, gold_offsets: Float, label_shape: tuple[int, ...]) -> None:
        n = len(offsets) - 1
        self.lengths = np.diff(offsets)
        self.counts = np.ones(n, dtype=np.int32)
        self.masses, self.offsets = np.zeros((2, n, LEAST_ROOM))
        self.begins, self.ends, self.label_begins = np.zeros((3, n, LEAST_ROOM), dtype=np.int64)
        self.idle = np.zeros((n, LEAST_ROOM), dtype=np.int32)
        self.products = np.zeros((n, LEAST_ROOM, LEAST_ROOM), dtype=np.float32)
        self.masses[:, 0], self.offsets[:, 0] = 1.0, gold_offsets
        self.n_features = self.n_labels = 0
        self.features, self.values = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.float32)
        self.labels = np.empty((0, *label_shape), dtype=np.int32)

    @property
    def table(self) -> Table:
        """The labellings, for kernels."""
        return Table(
            self.counts, self.masses, self.offsets, self.begins, self.ends, self.features, self.values, self.products
        )  # fmt: skip

    @property
    def kept(self) -> Bool:
        """Which entries of the tables [S, K] are labellings."""
        return np.arange(self.masses.shape[1]) < self.counts[:, None]

    def add(self, found: list[Found], scratch: Float) -> None:
        """Add labellings, at most one of each example; ``scratch`` [D] is zero before and after."""
        if not found:
            return
        examples = np.array([each.example for each in found], dtype=np.int64)
        if int(self.counts[examples].max()) == self.masses.shape[1]:
            self._widen(2 * self.masses.shape[1])
        slots = self.counts[examples]
        sizes = np.array([len(each.features) for each in found], dtype=np.int64)
        self.features = _with_room(self.features, self.n_features, int(sizes.sum()))
        self.values = _with_room(self.values, self.n_features, int(sizes.sum()))
        self.labels = _with_room(self.labels, self.n_labels, int(self.lengths[examples].sum()))
        for each in found:
            own, end = self.n_features, self.n_features + len(each.features)
            self.features[own:end], self.values[own:end] = each.features, each.values
            self.labels[self.n_labels : self.n_labels + len(each.labels)] = each.labels
            self.n_features, self.n_labels = end, self.n_labels + len(each.labels)
        self.ends[examples, slots] = self.n_features - sizes.sum() + np.cumsum(sizes)
        self.begins[examples, slots] = self.ends[examples, slots] - sizes
        lengths = self.lengths[examples]
        self.label_begins[examples, slots] = self.n_labels - lengths.sum() + np.cumsum(lengths) - lengths
        self.offsets[examples, slots] = [each.offset for each in found]
        self.masses[examples, slots], self.idle[examples, slots] = 0.0, 0
        self.counts[examples] += 1
        _multiply(examples, self.table, scratch)

    def layer(self, first: int, end: int, k: int, gold: Int32) -> tuple[Int32, Float]:
        """The k-th labelling of examples ``first`` to ``end``, and their masses.

        Examples that have fewer have the ``gold`` labelling of that run, and no mass.
        """
        has, lengths = self.counts[first:end] > k, self.lengths[first:end]
        labels = gold.copy()
        labels[np.repeat(has, lengths)] = self.labels[ranges(self.label_begins[first:end, k][has], lengths[has])]
        return labels, np.where(has, self.masses[first:end, k], 0.0)

    def forget(self) -> None:
        """Count a pass, and forget labellings that have had no mass for too many."""
        self.idle = np.where(self.masses > 0.0, 0, self.idle + 1).astype(np.int32)
        stays = self.kept & (self.idle <= MOST_IDLE)
        stays[:, 0] = True
        if int(stays.sum()) == int(self.counts.sum()):
            return
        order = np.argsort(~stays, axis=1, kind="stable")
        for name in ("masses", "offsets", "begins", "ends", "label_begins", "idle"):
            setattr(self, name, np.take_along_axis(getattr(self, name), order, axis=1))
        rows = np.take_along_axis(self.products, order[:, :, None], axis=1)
        self.products = np.take_along_axis(rows, order[:, None, :], axis=2)
        self.counts = stays.sum(axis=1, dtype=np.int32)
        self.masses[~self.kept] = 0.0
        self._tidy()

    def _tidy(self) -> None:
        """Store what is kept without gaps."""
        kept = self.kept
        kept[:, 0] = False
        sizes, lengths = (self.ends - self.begins)[kept], np.repeat(self.lengths, kept.sum(axis=1))
        places = ranges(self.begins[kept], sizes)
        self.features, self.values = self.features[places], self.values[places]
        self.labels = self.labels[ranges(self.label_begins[kept], lengths)]
        self.begins[kept], self.ends[kept] = np.cumsum(sizes) - sizes, np.cumsum(sizes)
        self.label_begins[kept] = np.cumsum(lengths) - lengths
        self.n_features, self.n_labels = len(self.features), len(self.labels)

    def _widen(self, room: int) -> None:
        """Make room for more labellings of each example."""
        more = room - self.masses.shape[1]
        for name in ("masses", "offsets", "begins", "ends", "label_begins", "idle"):
            setattr(self, name, np.pad(getattr(self, name), ((0, 0), (0, more))))
        self.products = np.pad(self.products, ((0, 0), (0, more), (0, more)))


def _with_room(array: Array, used: int, more: int) -> Array:
    """The array with room for ``more`` entries after those in use."""
    if used + more <= len(array):
        return array
    wider = np.empty((max(used + more, 3 * used // 2), *array.shape[1:]), dtype=array.dtype)
    wider[:used] = array[:used]
    return wider


class PlaneProblem:
    """Examples, weights and penalties of an :class:`~loglinear.optimizers.objective.Objective` by max-margin."""

    def __init__(self, objective: Objective, l1: float) -> None:
        assert isinstance(objective.criterion, CostCriterion)
        self.objective, self.criterion, self.l1, self.l2 = objective, objective.criterion, l1, objective.l2
        self.corpus, self.gold, self.n_threads = objective.corpus, objective.gold, objective.n_threads
        self.weights, self.shrink = np.ascontiguousarray(objective.sequence_weights), l1 / (2.0 * objective.l2)
        self.features: PartFeatures = objective.part_features
        self.single: PartFeatures = self.features.as_lists()
        self.scratch = np.zeros(self.features.n_features)
        self.shards = shards(self.corpus.offsets)

    @cached_property
    def gradients(self) -> list[SparseGradient]:
        """A gradient for each thread."""
        return [self.single.sparse_gradient() for _ in range(self.n_threads)]

    def shrunk(self, sums: Float) -> Float:
        """The weights [D] of sums."""
        return sums if self.shrink == 0.0 else sums - np.clip(sums, -self.shrink, self.shrink)

    def penalty(self, weights: Float) -> float:
        """l1 |w| + l2 ||w||^2."""
        return self.l1 * float(np.abs(weights).sum()) + self.l2 * float(weights @ weights)

    def blocks(self, first: int, end: int) -> list[tuple[int, int]]:
        """Examples ``first`` to ``end`` in runs whose part scores stay small."""
        return self.features.blocks(self.corpus.offsets, first, end)

    def start(self) -> Planes:
        """All mass at the gold labellings."""
        laid_out = self.features.lay_out(np.zeros(self.features.n_features), self.objective.penalties)
        offsets = np.zeros(self.corpus.n_sequences)
        for first, end in self.blocks(0, self.corpus.n_sequences):
            structure, scores, gold = self._batch(self.features, laid_out, first, end)
            augmented = self.criterion.augmented(structure, scores, gold)
            own = structure.score(scores, gold.labels)
            if not np.isfinite(own).all():
                raise InfeasibleError(first + int(np.argmin(np.isfinite(own))))
            offsets[first:end] = structure.score(augmented, gold.labels) - own
        return Planes(self.corpus.offsets, offsets, self.gold.labels.shape[1:])

    def restored(self, stored: Arrays) -> Planes:
        """Labellings as a checkpoint stores them, with their features."""
        planes = self.start()
        weights = np.zeros(self.features.n_features)
        alone, counts = self.single.lay_out(weights, self.objective.penalties), stored["counts"]
        lengths = np.diff(self.corpus.offsets)
        begins = np.cumsum((counts - 1) * lengths) - (counts - 1) * lengths
        for k in range(1, int(counts.max())):
            found = []
            for i in np.flatnonzero(counts > k).tolist():
                begin = int(begins[i] + (k - 1) * lengths[i])
                labels = np.ascontiguousarray(stored["labels"][begin : begin + lengths[i]], dtype=np.int32)
                found.append(self._found(i, labels, alone, weights, 0.0, self.gradients[0]))
            planes.add(found, self.scratch)
        kept = planes.kept
        planes.masses[kept], planes.offsets[kept] = stored["masses"], stored["offsets"]
        planes.idle[kept] = stored["idle"]
        return planes

    def sums(self, planes: Planes) -> Float:
        """The weights [D] that masses make, before the L1 penalty; in double precision."""
        n_features = self.features.n_features
        laid_out = self.features.lay_out(np.zeros(n_features), self.objective.penalties)

        def add(shard: tuple[int, int]) -> Float:
            gradient = self.features.dense_gradient()
            gradient.reset()
            for first, end in self.blocks(*shard):
                structure, scores, gold = self._batch(self.features, laid_out, first, end)
                parts, moved = scores.zeros_like(), np.zeros(end - first)
                for k in range(1, int(planes.counts[first:end].max())):
                    labels, masses = planes.layer(first, end, k, gold.labels)
                    structure.add_labelling(parts, labels, masses * self.weights[first:end])
                    moved += masses
                structure.add_labelling(parts, gold.labels, -moved * self.weights[first:end])
                gradient.add(self.corpus, first, end, parts)
            return gradient.finish()

        total = np.zeros(n_features)
        for part in in_threads(add, self.shards, self.n_threads):
            total += part
        return total / (-2.0 * self.l2)

    def certificate(self, planes: Planes) -> Certificate:
        """The weights that masses make, all in double precision."""
        weights = self.shrunk(self.sums(planes))
        value = self.objective(weights)[0] + self.l1 * float(np.abs(weights).sum())
        gains = self.weights @ np.sum(planes.masses * planes.offsets, axis=1)
        return Certificate(value, value - (float(gains) - self.l2 * float(weights @ weights)), weights)

    def search(
        self, examples: tuple[int, int], planes: Planes, weights: Float, least: float
    ) -> tuple[list[Found], Float, Float]:
        """New labellings of a run of examples, the best under ``weights`` [D] and the cost.

        Returns
        -------
        found : list of Found
            Where the plane of one is more than ``least`` above those of the example so far.
        losses, gaps : float64
            Of each example in the run.
        """
        laid_out = self.features.lay_out(weights, self.objective.penalties)
        alone = self.single.lay_out(weights, self.objective.penalties)
        table, blocks = planes.table, self.blocks(*examples)

        def of_thread(k: int) -> list[tuple[list[Found], Float, Float]]:
            return [of_block(k, *block) for block in blocks[k :: self.n_threads]]

        def of_block(k: int, first: int, end: int) -> tuple[list[Found], Float, Float]:
            structure, scores, gold = self._batch(self.features, laid_out, first, end)
            try:
                labels, best = structure.viterbi(self.criterion.augmented(structure, scores, gold))
            except InfeasibleError as error:
                raise InfeasibleError(first + error.sequence) from None
            losses = best - structure.score(scores, gold.labels)
            highest, means = np.empty((2, end - first))
            look_up(first, end, table, weights, highest, means)
            new = self.weights[first:end] * (losses - highest) > least + ROUNDING * (1.0 + np.abs(losses))
            found = []
            for i in np.flatnonzero(new).tolist():
                lo, hi = structure.offsets[i : i + 2]
                found.append(self._found(first + i, labels[lo:hi], alone, weights, float(losses[i]), self.gradients[k]))
            each = self.weights[first:end]
            return found, each * losses, each * np.maximum(losses - means, 0.0)

        by_thread = in_threads(of_thread, range(self.n_threads), self.n_threads)
        in_order = [by_thread[k % self.n_threads][k // self.n_threads] for k in range(len(blocks))]
        found = [each for block in in_order for each in block[0]]
        return found, np.concatenate([block[1] for block in in_order]), np.concatenate([block[2] for block in in_order])

    def _batch(self, features: PartFeatures, laid_out: Any, first: int, end: int) -> tuple[Any, Any, Any]:
        """Structure, part scores and annotation of examples ``first`` to ``end``."""
        lo, hi = int(self.corpus.offsets[first]), int(self.corpus.offsets[end])
        structure = features.structure(self.corpus, first, end)
        return structure, features.scores(laid_out, self.corpus, first, end), self.gold.slice(lo, hi)

    def _found(
        self, example: int, labels: Int32, alone: Any, weights: Float, loss: float, gradient: SparseGradient
    ) -> Found:
        """A labelling of an example with its features."""
        structure, scores, gold = self._batch(self.single, alone, example, example + 1)
        once = np.ones(1)
        difference = scores.zeros_like()
        structure.add_labelling(difference, labels, once)
        structure.add_labelling(difference, gold.labels, -once)
        gradient.add(self.corpus, example, difference)
        features, values = gradient.take()
        return Found(example, labels, features, values, loss - float(weights[features] @ values))


@dataclass
class PlaneState:
    """Everything needed to continue as if never stopped.

    Attributes
    ----------
    sums : float64 [D]
        The weights before the L1 penalty moves them towards zero.
    stored : dict
        The labellings as they were stored, until they have been compared with the data.
    planes : Planes or None
        The labellings; None until then.
    iteration, evaluations : int
        Passes so far.
    value, gap : float
        The objective and the gap between primal and dual: accumulated during the last pass, or certified.
    least : float
        How much higher than others of its example a plane must be in the next pass to be new, times the weight.
    certified : float64 [D] or None
        The weights that the value and the gap are certified for.
    problem : PlaneProblem or None
        None until a stored state has been compared with the data.
    """

    sums: Float
    stored: Arrays
    planes: Planes | None = None
    iteration: int = 0
    evaluations: int = 0
    value: float = np.inf
    gap: float = np.inf
    least: float = 0.0
    certified: Float | None = None
    problem: PlaneProblem | None = None

    @property
    def weights(self) -> Float:
        """The weights [D]."""
        if self.certified is not None:
            return self.certified
        assert self.problem is not None
        return self.problem.shrunk(self.sums).copy()

    def to_arrays(self) -> Arrays:
        """The state as named arrays, for a checkpoint: labellings, without what follows from them."""
        planes = self.planes
        assert planes is not None
        kept = planes.kept
        wrong = kept.copy()
        wrong[:, 0] = False
        labels = ranges(planes.label_begins[wrong], np.repeat(planes.lengths, wrong.sum(axis=1)))
        return {
            "counts": np.array([getattr(self, name) for name in COUNTS], dtype=np.int64),
            "values": np.array([getattr(self, name) for name in NUMBERS], dtype=np.float64),
            "sums": self.sums.copy(),
            "plane_counts": planes.counts.copy(),
            "plane_masses": planes.masses[kept],
            "plane_offsets": planes.offsets[kept],
            "plane_idle": planes.idle[kept],
            "plane_labels": planes.labels[labels],
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> PlaneState:
        """Inverse of :meth:`to_arrays`; the features of labellings are looked up when the data is known."""
        with reading_state():
            stored = {name: np.array(arrays[f"plane_{name}"]) for name in STORED}
            names = zip((*COUNTS, *NUMBERS), [*arrays["counts"].tolist(), *arrays["values"].tolist()], strict=True)
            state = cls(np.array(arrays["sums"], dtype=np.float64), stored, **dict(names))
            n, owner = int(stored["counts"].sum()), np.repeat(np.arange(len(stored["counts"])), stored["counts"])
            fits = state.iteration >= 0 and bool((stored["counts"] >= 1).all() and (stored["masses"] >= 0.0).all())
            fits = fits and {len(stored[name]) for name in ("masses", "offsets", "idle")} == {n}
            fits = fits and np.allclose(np.bincount(owner, stored["masses"]), 1.0)
        check_parts_fit(fits)
        return state


class PlaneDual(DualOptions):
    """Passes of searches and visits until primal and dual are nearly the same."""

    def minimise(
        self, objective: Objective, weights0: Float, *, l1: float = 0.0, callback: Callback = None, state: Any = None
    ) -> Result:
        problem = PlaneProblem(objective, l1)
        if state is None:
            now = PlaneState(np.zeros(len(weights0)), {}, problem.start(), problem=problem)
        else:
            now = _fitting(state, problem)
        planes = now.planes
        assert planes is not None
        small = GAP * self.tolerance
        return until_certified(
            now, small, self.max_iter, lambda: problem.certificate(planes),
            lambda: self._pass(problem, now, planes, small, weights0), callback,
            ROUNDING * float(problem.weights.sum()),
        )  # fmt: skip

    def _pass(self, problem: PlaneProblem, now: PlaneState, planes: Planes, small: float, weights0: Float) -> None:
        """One more pass, in place."""
        n, begins_elsewhere = problem.corpus.n_sequences, now.iteration == 0 and bool(weights0.any())
        if now.iteration % REFRESH_EVERY == REFRESH_EVERY - 1:
            now.sums[:] = problem.sums(planes)
        rng = np.random.default_rng([self.seed, now.iteration])
        rounds = 1 if begins_elsewhere else FIRST_ROUNDS if now.iteration < FIRST else ROUNDS
        cuts = np.searchsorted(problem.corpus.offsets, np.linspace(0, problem.corpus.offsets[-1], rounds + 1))
        parts = list(pairwise(sorted({0, n, *cuts[1:-1].tolist()})))
        losses, gaps = np.zeros((2, n))
        for r in rng.permutation(len(parts)).tolist():
            first, end = parts[r]
            weights = weights0 if begins_elsewhere else problem.shrunk(now.sums)
            found, losses[first:end], gaps[first:end] = problem.search(parts[r], planes, weights, now.least)
            planes.add(found, problem.scratch)
            new = np.array([each.example for each in found], dtype=np.int64)
            several = np.flatnonzero(planes.counts > 1)
            for examples in (rng.permutation(new), *(rng.permutation(several) for _ in range(VISITS))):
                visit(
                    examples, planes.table, now.sums, problem.shrink, problem.l2, problem.weights, STEPS_EACH, ENOUGH,
                    problem.scratch,
                )  # fmt: skip
        planes.forget()
        now.value = float(losses.sum()) + problem.penalty(problem.shrunk(now.sums))
        now.gap = np.inf if begins_elsewhere else float(gaps.sum())
        now.least = 0.0 if begins_elsewhere else max(NEGLIGIBLE * small * abs(now.value), WORTH * now.gap) / n
        now.iteration += 1
        now.evaluations += 1


def _fitting(state: Any, problem: PlaneProblem) -> PlaneState:
    """A stored state, if it fits the problem, with what it does not store."""
    check_fits_data(isinstance(state, PlaneState) and len(state.sums) == problem.features.n_features)
    now: PlaneState = state
    stored, lengths = now.stored, np.diff(problem.corpus.offsets)
    fits = len(stored["counts"]) == len(lengths) and stored["labels"].shape[1:] == problem.gold.labels.shape[1:]
    check_fits_data(fits and len(stored["labels"]) == int(((stored["counts"] - 1) * lengths).sum()))
    now.planes, now.problem, now.certified = problem.restored(stored), problem, None
    return now
