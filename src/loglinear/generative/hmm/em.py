"""Baum-Welch: hidden Markov models from unlabelled or partly labelled sequences by EM (Baum et al. 1970).

    E step   expected counts of steps and emissions, given the fields and the labels that the annotation allows
    M step   the relative frequencies of these counts, with the same smoothing as for labelled data

With smoothing the M step is that of a Dirichlet prior, so each round raises (or keeps)

    sum_i c_i log p(x_i, what is known of y_i)  +  smoothing * sum log e  +  transition_smoothing * sum log t

with weights c_i of the sequences. Steps that constraints rule out have probability zero throughout. Sequences whose
labels are all known are counted once, before the first round.

Counts below 1e-20 of a sequence are dropped. In EM, the counts of unused events shrink in every round but never vanish,
and scores that far apart would exceed the range of the chain's fast kernels; events that a sequence needs have a count
of about one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from loglinear.arrays import Bool, Float, Int32, Int64
from loglinear.data.columns.corpus import offsets_of, ranges
from loglinear.features.encoding import runs
from loglinear.generative.em import Observed
from loglinear.generative.hmm.model import Counts, Fields, HiddenMarkovModel, number_of_states
from loglinear.kernels import kernel
from loglinear.optimizers.objective import shards
from loglinear.structures.chain.structure import Chain, ChainScores
from loglinear.structures.gold import Gold
from loglinear.system import in_threads

NEGLIGIBLE = 1e-20


@kernel
def _add_rows(values: Int32, rows: Float, table: Float) -> None:
    """``table[values[t]] += rows[t]`` for each position t."""
    for t in range(values.shape[0]):
        row, more = table[values[t]], rows[t]
        for y in range(row.shape[0]):
            row[y] += more[y]


class EmissionCounts:
    """Counts of each field's values with each label [V, Y], from the labels' shares at each position."""

    def __init__(self, sizes: Sequence[int], n_labels: int) -> None:
        self._turned = [np.zeros((size, n_labels)) for size in sizes]

    def add(self, fields: Fields, shares: Float) -> None:
        """Add the shares [N, Y] of the labels to the counts of the values [N] of each field."""
        for values, table in zip(fields, self._turned, strict=True):
            _add_rows(np.ascontiguousarray(values), np.ascontiguousarray(shares), table)

    @property
    def tables(self) -> list[Float]:
        """The counts [Y, V] of each field."""
        return [np.ascontiguousarray(table.T) for table in self._turned]


def blocks(offsets: Int64, first: int, end: int, n_labels: int, order: int) -> list[tuple[int, int]]:
    """Sequences ``first`` to ``end`` in runs with a bounded number of scores."""
    width = n_labels if order == 1 else n_labels + n_labels**2
    return runs(offsets, first, end, max(256, min(4096, 1_000_000 // width)))


def expected_counts(
    model: HiddenMarkovModel,
    fields: Fields,
    offsets: Int64,
    gold: Gold | None = None,
    n_threads: int = 1,
    weights: Float | None = None,
) -> tuple[Float, Counts]:
    """log p [S] of what is observed, and the counts expected given that; labels are hidden unless ``gold`` is given.

    ``weights`` [S] are how often each sequence counts, once if not given; log p is not weighted. The counts are the
    same, to the last bit, for any number of threads.
    """
    times = np.ones(len(offsets) - 1) if weights is None else weights

    def count(shard: tuple[int, int]) -> tuple[list[Float], Counts]:
        log_p, steps = [], np.zeros((model.n_states + 1, model.n_labels + 1))
        emissions = EmissionCounts([table.shape[1] for table in model.emissions], model.n_labels)
        for first, end in blocks(offsets, *shard, model.n_labels, model.order):
            lo, hi = int(offsets[first]), int(offsets[end])
            known = None if gold is None else gold.slice(lo, hi)
            values, chain = [f[lo:hi] for f in fields], Chain(offsets[first : end + 1] - lo)
            block_log_p, block_steps, marginals = _of_block(model, values, chain, known, times[first:end])
            log_p.append(block_log_p)
            steps += block_steps
            emissions.add(values, marginals)
        return log_p, Counts(model.order, model.n_labels, steps, emissions.tables)

    parts = in_threads(count, shards(offsets), n_threads)
    total = parts[0][1]
    for _, counts in parts[1:]:
        total = total + counts
    return np.concatenate([block for log_p, _ in parts for block in log_p]), total


def _of_block(
    model: HiddenMarkovModel, fields: Fields, chain: Chain, gold: Gold | None, weights: Float
) -> tuple[Float, Float, Float]:
    """log p [S], expected steps [K + 1, Y + 1] and the share of each label at each position [N, Y]."""
    y = model.n_labels
    log_p, parts = chain.expectations(_scores(model, fields, chain, gold), weights)
    steps = np.zeros((number_of_states(y, model.order) + 1, y + 1))
    steps[-1, :-1] = parts.start
    if model.order == 1:
        steps[:-1, :-1], steps[:-1, -1] = parts.transition, parts.stop
    else:
        assert parts.edge is not None and parts.trigram is not None
        by_pair = steps[:-1].reshape(y + 1, y, y + 1)
        first, last = chain.offsets[:-1], chain.offsets[1:] - 1
        alone = first == last
        by_pair[:y, :, :y] = parts.trigram
        by_pair[y, :, :y] = parts.edge[first[~alone] + 1].sum(axis=0)
        by_pair[:y, :, y] = parts.edge[last[~alone]].sum(axis=0)
        by_pair[y, :, y] = parts.emission[first[alone]].sum(axis=0)
    return log_p, steps, parts.emission


def _scores(model: HiddenMarkovModel, fields: Fields, chain: Chain, gold: Gold | None) -> ChainScores:
    """Part scores of log p(x, y), -inf for labels that the annotation does not allow."""
    scores = model.scores(fields, chain.offsets)
    if gold is None:
        return scores
    return chain.restrict(scores, gold.mask(model.n_labels).astype(np.uint8))


def log_likelihoods(
    model: HiddenMarkovModel, fields: Fields, offsets: Int64, gold: Gold | None = None, n_threads: int = 1
) -> Float:
    """log p [S] of what is observed, as :func:`expected_counts` has it, by a forward pass alone."""

    def of_shard(shard: tuple[int, int]) -> list[Float]:
        found = []
        for first, end in blocks(offsets, *shard, model.n_labels, model.order):
            lo, hi = int(offsets[first]), int(offsets[end])
            chain = Chain(offsets[first : end + 1] - lo)
            known = None if gold is None else gold.slice(lo, hi)
            found.append(chain.log_partition(_scores(model, [f[lo:hi] for f in fields], chain, known)))
        return found

    parts = in_threads(of_shard, shards(offsets), n_threads) if len(offsets) > 1 else []
    return np.concatenate([np.zeros(0), *(block for part in parts for block in part)])


def log_prior(model: HiddenMarkovModel, smoothing: float, transition_smoothing: float) -> float:
    """smoothing * sum log e  +  transition_smoothing * sum log t, over the steps that are possible."""
    total = 0.0
    if smoothing:
        total += smoothing * sum(float(table.sum()) for table in model.log_values)
    if transition_smoothing:
        total += transition_smoothing * float(model.log_steps[model.steps > 0.0].sum())
    return total


def without_negligible(counts: Counts, least: float) -> Counts:
    """Counts with those below ``least`` set to zero."""
    steps, *emissions = (np.where(table < least, 0.0, table) for table in (counts.steps, *counts.emissions))
    return Counts(counts.order, counts.n_labels, steps, emissions)


@dataclass(frozen=True)
class Expected:
    """The result of an E step.

    Attributes
    ----------
    log_likelihood : float
        Of what is observed: fields, and labels as far as they are known.
    objective : float
        The same plus the log of the prior that corresponds to the smoothing.
    counts : Counts
    """

    log_likelihood: float
    objective: float
    counts: Counts


class Expectation(Observed[HiddenMarkovModel, Expected]):
    """The data of EM and its prior: from a model to expected counts, and from those to the next model.

    Parameters
    ----------
    fields : sequence of int32 [N]
    sizes : sequence of int
        The number of values of each field.
    offsets : int64 [S + 1]
    gold : Gold
        What is known of the labels.
    n_labels, order : int
    weights : float64 [S], optional
        How often each sequence counts, one if not given.
    smoothing, transition_smoothing : float
        Added to each count of an emission, of a step.
    possible : bool [K + 1, Y + 1], optional
        The steps that constraints allow (:func:`~loglinear.generative.hmm.model.possible_steps`); all if None.
    n_threads : int
    """

    def __init__(
        self,
        fields: Fields,
        sizes: Sequence[int],
        offsets: Int64,
        gold: Gold,
        n_labels: int,
        order: int,
        *,
        weights: Float | None = None,
        smoothing: float = 1.0,
        transition_smoothing: float = 0.0,
        possible: Bool | None = None,
        n_threads: int = 1,
    ) -> None:
        self.smoothing, self.transition_smoothing, self.possible = smoothing, transition_smoothing, possible
        self._n_threads = n_threads
        times = np.ones(len(offsets) - 1) if weights is None else weights
        self.least_weight = float(times[times > 0.0].min(initial=1.0))
        lengths = np.diff(offsets)
        hidden = np.minimum.reduceat(gold.labels, offsets[:-1]) < 0
        settled, rest = np.flatnonzero(~hidden), np.flatnonzero(hidden & (times > 0.0))
        if len(settled) == len(lengths):
            self.known = Counts.of(fields, sizes, gold.labels, offsets, n_labels, order, weights)
        else:
            positions = ranges(offsets[settled], lengths[settled])
            self.known = Counts.of(
                [f[positions] for f in fields], sizes, gold.labels[positions], offsets_of(lengths[settled]),
                n_labels, order, times[settled],
            )  # fmt: skip
        positions = ranges(offsets[rest], lengths[rest])
        self._fields = [f[positions] for f in fields]
        self._offsets, self._weights = offsets_of(lengths[rest]), times[rest]
        allowed = None if gold.allowed is None else gold.allowed[positions]
        self._gold = Gold(gold.labels[positions], allowed)

    @property
    def settled(self) -> bool:
        """Whether nothing is hidden, so that one M step is enough."""
        return not len(self._weights)

    def __call__(self, model: HiddenMarkovModel) -> Expected:
        """The E step: log-likelihood and objective of a model, and the counts it expects."""
        log_likelihood, counts = model.log_p(self.known), self.known
        if not self.settled:
            log_p, expected = expected_counts(
                model, self._fields, self._offsets, self._gold, self._n_threads, self._weights
            )
            log_likelihood, counts = log_likelihood + float(self._weights @ log_p), counts + expected
        prior = log_prior(model, self.smoothing, self.transition_smoothing)
        return Expected(log_likelihood, log_likelihood + prior, counts)

    def maximised(self, model: HiddenMarkovModel, found: Expected) -> HiddenMarkovModel:
        """The M step."""
        return self.estimated(found.counts)

    def estimated(self, counts: Counts) -> HiddenMarkovModel:
        """The most probable model, given counts."""
        counts = without_negligible(counts, NEGLIGIBLE * self.least_weight)
        return HiddenMarkovModel.estimated(counts, self.smoothing, self.transition_smoothing, self.possible)


# ----------------------------------------------------------------------------------------------------------------------
# Where EM starts: from the labels that are known, or at random if none is.
#
# A position with several possible labels counts for each of them, in equal shares; one that may have any label does not
# count. These counts are few, so each distribution is mixed with a more general one:
#
#    e_f(value given label)   (1 - m) of the label's own    m of all values, whatever their label
#    t(label given state)     (1 - m) of the state's own    m of its label's,  itself mixed with that of all labels, and
#                                                           that with an even one
#
# Nothing that constraints allow has probability zero, which EM could never change.


MIXED = 0.1  # m
EVENNESS = 5.0  # shape of the gamma distribution that random starts are drawn from
NOISE_EVENNESS = 20.0  # the same for the factors that perturb a start from known labels


def known_counts(
    fields: Fields,
    sizes: Sequence[int],
    offsets: Int64,
    gold: Gold,
    n_labels: int,
    order: int,
    weights: Float | None = None,
) -> Counts:
    """Counts of the annotation, in shares where it allows several labels."""
    times = np.repeat(np.ones(len(offsets) - 1) if weights is None else weights, np.diff(offsets))[:, None]
    steps = np.zeros((number_of_states(n_labels, order) + 1, n_labels + 1))
    emissions = EmissionCounts(sizes, n_labels)
    for first, end in blocks(offsets, 0, len(offsets) - 1, n_labels, order):
        lo, hi = int(offsets[first]), int(offsets[end])
        own, begins, last = times[lo:hi], offsets[first:end] - lo, offsets[first + 1 : end + 1] - lo - 1
        shares = _shares(gold.slice(lo, hi), n_labels)
        states = _state_shares(shares, begins, order)
        following = own * shares
        emissions.add([f[lo:hi] for f in fields], following)
        steps[-1, :-1] += following[begins].sum(axis=0)
        steps[:-1, -1] += (own * states)[last].sum(axis=0)
        following[begins] = 0.0  # nothing precedes them
        steps[:-1, :-1] += states[:-1].T @ following[1:]
    return Counts(order, n_labels, steps, emissions.tables)


def _shares(gold: Gold, n_labels: int) -> Float:
    """The share of each label at each position [N, Y]."""
    if gold.allowed is None:
        return (np.arange(n_labels) == gold.labels[:, None]).astype(np.float64)
    allowed = gold.allowed.astype(np.float64)
    n_left = allowed.sum(axis=1)
    unknown = (n_left == n_labels) & (gold.labels < 0)
    return np.where(unknown[:, None], 0.0, allowed / n_left[:, None])


def _state_shares(shares: Float, begins: Int64, order: int) -> Float:
    """The share of each state at each position [N, K]."""
    if order == 1:
        return shares
    n, y = shares.shape
    before = np.zeros((n, y + 1))
    before[1:, :y] = shares[:-1]
    before[begins] = np.arange(y + 1) == y
    return (before[:, :, None] * shares[:, None, :]).reshape(n, -1)


def start_from(counts: Counts, value_counts: Sequence[Float], possible: Bool | None = None) -> HiddenMarkovModel:
    """The start from counts of the known labels and from how often each field has each value [V] overall."""
    y = counts.n_labels
    by_label = counts.steps[:-1].reshape(-1, y, y + 1).sum(axis=0)
    even = np.full(y + 1, 1.0 / (y + 1))
    overall = _mixed(by_label.sum(axis=0, keepdims=True), even)
    after_label = _mixed(by_label, overall)
    after_state = _mixed(counts.steps[:-1], np.tile(after_label, (len(counts.steps[:-1]) // y, 1)))
    start = _mixed(counts.steps[-1:], overall)
    emissions = [_mixed(own, all_ / all_.sum()) for own, all_ in zip(counts.emissions, value_counts, strict=True)]
    mixed = replace(counts, steps=np.vstack([after_state, start]), emissions=emissions)
    return HiddenMarkovModel.estimated(mixed, smoothing=0.0, possible=possible)


def _mixed(counts: Float, general: Float) -> Float:
    """Relative frequencies of each row [n, m] mixed with ``general`` (rows, or one for all); rows of zeros get that."""
    totals = counts.sum(axis=1, keepdims=True)
    own = counts / np.where(totals > 0.0, totals, 1.0)
    return np.where(totals > 0.0, (1.0 - MIXED) * own + MIXED * general, general)


def perturbed(model: HiddenMarkovModel, rng: np.random.Generator, possible: Bool | None = None) -> HiddenMarkovModel:
    """The model with every probability multiplied by a random factor around one."""

    def noisy(table: Float) -> Float:
        return table * rng.gamma(NOISE_EVENNESS, size=table.shape)

    counts = Counts(model.order, model.n_labels, noisy(model.steps), [noisy(table) for table in model.emissions])
    return HiddenMarkovModel.estimated(counts, smoothing=0.0, possible=possible)


def random_start(
    n_labels: int,
    order: int,
    sizes: Sequence[int],
    rng: np.random.Generator,
    even: float = EVENNESS,
    possible: Bool | None = None,
) -> HiddenMarkovModel:
    """A model drawn at random; the greater ``even``, the more uniform."""
    steps = rng.gamma(even, size=(number_of_states(n_labels, order) + 1, n_labels + 1))
    counts = Counts(order, n_labels, steps, [rng.gamma(even, size=(n_labels, size)) for size in sizes])
    return HiddenMarkovModel.estimated(counts, smoothing=0.0, possible=possible)
