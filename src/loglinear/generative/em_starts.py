"""Where EM starts: from what is known of the labels, or, where nothing is, at random.

A position whose labels are narrowed down counts for each of those it may have, in equal shares; one that may have any
label does not count. These counts are few, so each distribution is mixed with one that is less particular:

    e_f(value given label)   (1 - m) of the label's own    m of all values, whatever their label
    t(label given state)     (1 - m) of the state's own    m of its label's,  itself mixed with that of all labels, and
                                                           that with an even one

Nothing that constraints leave has probability zero, which EM would never take back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from loglinear.generative.baum_welch import Bool, EmissionCounts, blocks
from loglinear.generative.hmm import Counts, Fields, Float, HiddenMarkovModel, Int64, number_of_states
from loglinear.structures.gold import Gold

MIXED = 0.1  # m
EVENNESS = 5.0  # shape of the gamma distribution that random starts are drawn from
NOISE_EVENNESS = 20.0  # the same of the factors that a start from what is known is perturbed by


def known_counts(
    fields: Fields,
    sizes: Sequence[int],
    offsets: Int64,
    gold: Gold,
    n_labels: int,
    order: int,
    weights: Float | None = None,
) -> Counts:
    """Counts of what the annotation says, in shares where it says one of several labels."""
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
        following[begins] = 0.0  # nothing stands before them
        steps[:-1, :-1] += states[:-1].T @ following[1:]
    return Counts(order, n_labels, steps, emissions.tables)


def _shares(gold: Gold, n_labels: int) -> Float:
    """What each label counts at each position [N, Y]."""
    if gold.allowed is None:
        return (np.arange(n_labels) == gold.labels[:, None]).astype(np.float64)
    allowed = gold.allowed.astype(np.float64)
    n_left = allowed.sum(axis=1)
    unknown = (n_left == n_labels) & (gold.labels < 0)
    return np.where(unknown[:, None], 0.0, allowed / n_left[:, None])


def _state_shares(shares: Float, begins: Int64, order: int) -> Float:
    """What each state counts at each position [N, K]."""
    if order == 1:
        return shares
    n, y = shares.shape
    before = np.zeros((n, y + 1))
    before[1:, :y] = shares[:-1]
    before[begins] = np.arange(y + 1) == y
    return (before[:, :, None] * shares[:, None, :]).reshape(n, -1)


def start_from(counts: Counts, value_counts: Sequence[Float], possible: Bool | None = None) -> HiddenMarkovModel:
    """The start that counts of what is known make, together with how often each field has each value [V] at all."""
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
    """Relative frequencies of each row [n, m] mixed with ``general`` (rows, or one for all); of no counts, that."""
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
    """A model drawn at random, the more even the greater ``even``."""
    counts = Counts(
        order,
        n_labels,
        rng.gamma(even, size=(number_of_states(n_labels, order) + 1, n_labels + 1)),
        [rng.gamma(even, size=(n_labels, size)) for size in sizes],
    )
    return HiddenMarkovModel.estimated(counts, smoothing=0.0, possible=possible)
