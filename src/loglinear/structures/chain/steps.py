r"""Transitions of a chain with many labels: a factor that most of them share, and a list of the others.

With Y labels there are Y^2 transitions, but few of them have a weight: only those that were observed. All others score
0, or are ruled out. Sums over the previous label b are therefore a constant for each label, plus a correction::

    sum_b v(b) f(b, y)  =  c sum_{b usually before y} v(b)  +  sum_{b listed for y} v(b) (f(b, y) - c u(b, y))

*Usually* is said of kinds of labels (:class:`~loglinear.structures.constraints.Rules`; a single kind without
constraints): u is 1 if the kind of b may stand before that of y, else 0. Listed are the transitions that have a weight
and those that are exceptions to the kinds; f is exp(weight), 0 if ruled out, or 1; c = 1 but for scaling. This is
exact, and takes O(Y + listed) instead of O(Y^2).

The difference f - c u cancels where nearly all of v lies on labels listed for y, with small factors. It is made in
double precision, which leaves at least seven digits where the result is more than :data:`SAFE` of the constant part;
where it is less, the sum is made again term by term, O(Y).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Float, Float32, Int32, Int64, UInt8
from loglinear.kernels import kernel, loose_kernel
from loglinear.kernels.lanes import N_LANES, Width, exponential, load, store, towards_zero
from loglinear.structures.chain.features import ChainFeatures, Penalties
from loglinear.structures.constraints import Rules

FEWEST_LABELS, MOST_LISTED = 200, 0.1  # from where on sums are quicker in this form: labels, share of what is listed
MOST_DENSE = 1000  # labels up to which passes that have no such form go over all transitions
SAFE = 1e-9

Numbers = npt.NDArray[np.floating]  # float32 in training, float64 in prediction
ZERO, ONE = np.float32(0.0), np.float32(1.0)


class Side(NamedTuple):
    """The listed transitions from one side: lists of the labels at the other end.

    Parameters
    ----------
    pointer : int64 [Y + 1]
        Where the list of each label begins.
    others : int32 [M]
        The labels at the other end, ascending in each list.
    place : int32 [M]
        The number of each transition, by the previous label.
    usual : float64 [M]
        u, whether the kinds of labels allow it.
    """

    pointer: Int64
    others: Int32
    place: Int32
    usual: Float


class Steps(NamedTuple):
    """Transitions of Y labels.

    Parameters
    ----------
    after, before : Side
        The lists by the previous label and by the label itself.
    features : int32 [M]
        The transition weight of each listed transition, or -1.
    allowed : uint8 [M]
        Whether it may occur.
    kinds : uint8 [Y]
    table : float64 [K, K]
        1 where a kind (column) may follow another (row).
    """

    after: Side
    before: Side
    features: Int32
    allowed: UInt8
    kinds: UInt8
    table: Float


def listed_transitions(features: ChainFeatures, rules: Rules) -> Int64:
    """Transitions ``previous * Y + label``, ascending, that have a weight or are exceptions to the kinds of labels."""
    return np.union1d(features.transitions.astype(np.int64), rules.exceptions)


def is_sparse(features: ChainFeatures, penalties: Penalties) -> bool:
    """Whether sums over labellings of a chain are quicker in this form."""
    return is_sparser(features, penalties, FEWEST_LABELS, MOST_LISTED)


def is_sparser(features: ChainFeatures, penalties: Penalties, fewest: int, most: float) -> bool:
    """Whether a first-order chain without edge features has at least ``fewest`` labels, and lists at most the share
    ``most`` of its transitions."""
    n = features.n_labels
    if n < fewest or not features.is_plain:
        return False
    return len(listed_transitions(features, penalties.rules)) <= most * n * n


def is_too_wide(features: ChainFeatures, penalties: Penalties) -> bool:
    """Whether a chain has so many labels that passes over all its transitions are left for general ones over lists."""
    return is_sparser(features, penalties, MOST_DENSE + 1, MOST_LISTED)


def make_steps(features: ChainFeatures, penalties: Penalties) -> Steps:
    """The transitions of a chain under constraints."""
    n, rules = features.n_labels, penalties.rules
    codes = listed_transitions(features, rules)
    own = np.full(len(codes), -1, dtype=np.int32)
    own[np.searchsorted(codes, features.transitions)] = np.arange(len(features.transitions), dtype=np.int32)
    usual, allowed = rules.usual(codes).astype(np.float64), rules.allowed(codes).astype(np.uint8)
    previous, label = np.divmod(codes, n)
    order = np.argsort(label, kind="stable")

    def side(key: Int64, other: Int64, place: Int64) -> Side:
        pointer = np.searchsorted(key, np.arange(n + 1)).astype(np.int64)
        return Side(pointer, other.astype(np.int32), place.astype(np.int32), np.ascontiguousarray(usual[place]))

    after = side(previous, label, np.arange(len(codes)))
    before = side(label[order], previous[order], order)
    return Steps(after, before, own, allowed, rules.kinds.astype(np.uint8), rules.table.astype(np.float64))


class Factors(NamedTuple):
    """Factors of the transitions under some weights.

    Parameters
    ----------
    listed : float32 or float64 [M, or rounded up to a multiple of eight]
        f, by the previous label.
    after, before : float64 [M]
        f - c u of the lists of the two sides.
    """

    listed: Numbers
    after: Float
    before: Float


@loose_kernel
def blank_factors(steps: Steps) -> Factors:
    """Room for the factors of ``steps``."""
    n = steps.features.shape[0]
    return Factors(np.zeros(-(-n // N_LANES) * N_LANES, np.float32), np.empty(n), np.empty(n))


@loose_kernel
def set_factors(weights: Float32, less: np.float32, steps: Steps, width: Width, factors: Factors) -> np.float32:
    """Factors exp(w - top) of the ``weights`` [F] moved towards zero by ``less``; returns the top, at least 0.

    The constant c is exp(-top). Lanes of the ``width`` are groups of eight.
    """
    listed, top = factors.listed, ZERO
    n = steps.features.shape[0]
    for m in range(n):
        listed[m] = weights[steps.features[m]] if steps.features[m] >= 0 else ZERO
    for m in range(n, listed.shape[0]):
        listed[m] = ZERO
    for m in range(0, n, 8):
        store(listed, m, towards_zero(load(listed, m, width), less))
    for m in range(n):
        top = max(top, listed[m])
    for m in range(0, n, 8):
        store(listed, m, exponential(load(listed, m, width) - top))
    constant = constant_factor(top)
    for m in range(n):
        listed[m] = listed[m] if steps.allowed[m] else ZERO
        factors.after[m] = np.float64(listed[m]) - constant * steps.after.usual[m]
    for k in range(n):
        factors.before[k] = factors.after[steps.before.place[k]]
    return top


@loose_kernel
def constant_factor(top: np.float32) -> float:
    """c, the factor of transitions without a weight."""
    return np.exp(-np.float64(top))


@loose_kernel
def _set_constants(values: Numbers, constant: float, kinds: UInt8, table: Float, forth: bool, sums: Float) -> None:
    """c times the sum of ``values`` [W] over the kinds that usually stand before (``forth``) or after each kind [K]."""
    n_kinds, masses = table.shape[0], np.zeros(table.shape[0])
    if n_kinds == 1:
        mass = 0.0
        for y in range(kinds.shape[0]):
            mass += np.float64(values[y])
        masses[0] = mass
    else:
        for y in range(kinds.shape[0]):
            masses[kinds[y]] += np.float64(values[y])
    for k in range(n_kinds):
        total = 0.0
        for j in range(n_kinds):
            total += masses[j] * (table[j, k] if forth else table[k, j])
        sums[k] = constant * total


@loose_kernel
def _term_by_term(
    label: int, values: Numbers, listed: Numbers, constant: float, steps: Steps, side: Side, forth: bool
) -> float:
    """sum_b v(b) f(b, y), or over the labels after y, without a difference; O(Y)."""
    total, j, end = 0.0, side.pointer[label], side.pointer[label + 1]
    kind = steps.kinds[label]
    for b in range(steps.kinds.shape[0]):
        if j < end and side.others[j] == b:
            total += np.float64(values[b]) * listed[side.place[j]]
            j += 1
        else:
            usual = steps.table[steps.kinds[b], kind] if forth else steps.table[kind, steps.kinds[b]]
            total += constant * usual * values[b]
    return total


@loose_kernel
def _make_safe(
    values: Numbers, listed: Numbers, constant: float, steps: Steps, side: Side, forth: bool, sums: Float, out: Float
) -> None:
    """Make those of ``out`` [Y] again in which a difference may have left too few digits."""
    for y in range(steps.kinds.shape[0]):
        if out[y] < SAFE * sums[steps.kinds[y]]:
            out[y] = _term_by_term(y, values, listed, constant, steps, side, forth)


@loose_kernel
def go_forth(values: Numbers, constant: float, factors: Factors, steps: Steps, out: Float) -> None:
    """``out`` [Y] = sum_b ``values``(b) f(b, y)."""
    sums, (pointer, others, _, _) = np.empty(steps.table.shape[0]), steps.after
    _set_constants(values, constant, steps.kinds, steps.table, True, sums)
    for y in range(steps.kinds.shape[0]):
        out[y] = sums[steps.kinds[y]]
    for b in range(steps.kinds.shape[0]):
        value = np.float64(values[b])
        if value > 0.0:
            for j in range(pointer[b], pointer[b + 1]):
                out[others[j]] += value * factors.after[j]
    _make_safe(values, factors.listed, constant, steps, steps.before, True, sums, out)


@loose_kernel
def go_back(
    values: Numbers, constant: float, factors: Factors, steps: Steps, reached: Numbers, pairs: Numbers, out: Float
) -> None:
    """``out`` [Y] = sum_y f(b, y) ``values``(y); adds ``reached``(b) ``values``(y) to the listed ``pairs`` [M].

    The pairs are in the order of ``steps.before``; times f they are expected transitions. If empty, they are left out.
    """
    sums, (pointer, others, _, _), has_pairs = np.empty(steps.table.shape[0]), steps.before, pairs.shape[0] > 0
    _set_constants(values, constant, steps.kinds, steps.table, False, sums)
    for b in range(steps.kinds.shape[0]):
        out[b] = sums[steps.kinds[b]]
    for y in range(steps.kinds.shape[0]):
        value = values[y]
        if value > 0.0:
            for j in range(pointer[y], pointer[y + 1]):
                b = others[j]
                out[b] += np.float64(value) * factors.before[j]
                if has_pairs:
                    pairs[j] += value * reached[b]
    _make_safe(values, factors.listed, constant, steps, steps.after, False, sums, out)


@kernel
def find_step(previous: int, label: int, steps: Steps) -> int:
    """The number of a listed transition, or -1."""
    low, high, others = steps.after.pointer[previous], steps.after.pointer[previous + 1], steps.after.others
    end = high
    while low < high:
        middle = (low + high) // 2
        if others[middle] < label:
            low = middle + 1
        else:
            high = middle
    return low if low < end and others[low] == label else -1
