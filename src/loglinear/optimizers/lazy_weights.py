"""Weights that change a few at a time, with penalties and averages that are paid only when a weight is looked at.

Step i takes the gradient g of one sequence, then the penalties' share of that sequence (a proximal step):

    w  <-  w - eta g                   for the few weights with a derivative
    w  <-  soft(w, eta l1) / (1 + 2 eta l2)        for all of them; soft(w, a) = sign(w) max(|w| - a, 0)

A weight that no gradient touches from step j to step i has only the second line behind it. With
r_m = 1 / (1 + 2 eta_m l2) and a_m = eta_m l1 that has a closed form over prefix sums kept for the steps of a pass
(cf. Lipton & Elkan 2015):

    P_i = prod_{m<i} r_m      B_i = sum_{m<i} a_m / P_m      S_i = sum_{m<=i} P_m
    |w_i| = max(0, P_i (|w_j| / P_j - (B_i - B_j)))            sum_{j<m<=i} w_m = w_j (S_i - S_j) / P_j    (l1 = 0)

So each group of weights that are looked at together (those of an attribute) carries the step it was last settled at.
AdaGrad's step eta / sqrt(1 + sum of squared derivatives)
belongs to the weight and stays the same while it is not touched: r and a are constants, and the sums geometric.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from loglinear.kernels import kernel
from loglinear.structures.structure import EncodedExamples, PartFeatures, SparseGradient

Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

SMALLEST_PRODUCT = 1e-100  # of the shrinkings, before all weights are settled and it starts from one again
PRODUCT, THRESHOLD, SUM = 0, 1, 2  # rows of the prefix sums


@kernel
def _settle(
    group: int,
    now: int,
    groups: Int64,
    weights: Float,
    settled: Int32,
    sums: Float,
    squares: Float,
    prefix: Float,
    rates: Float,
) -> None:
    """Bring a group's weights to step ``now``; see the module for the others.

    ``rates`` = (AdaGrad's step, l1, l2, the first group that is not penalised).
    """
    then = settled[group]
    settled[group] = now
    first, end = groups[group], groups[group + 1]
    product, before = prefix[PRODUCT, now], prefix[PRODUCT, then]
    threshold, total = prefix[THRESHOLD, now] - prefix[THRESHOLD, then], prefix[SUM, now] - prefix[SUM, then]
    n, adaptive, averaged = now - then, squares.shape[0] > 0, sums.shape[0] > 0
    if group >= rates[3]:
        if averaged:
            for f in range(first, end):
                sums[f] += weights[f] * n
        return
    for f in range(first, end):
        weight = weights[f]
        if weight == 0.0:
            continue
        if adaptive:
            step = rates[0] / np.sqrt(1.0 + squares[f])
            shrink = 1.0 / (1.0 + 2.0 * step * rates[2])
            before, product, total = 1.0, shrink**n, float(n)
            if shrink < 1.0:
                total = shrink * (1.0 - product) / (1.0 - shrink)  # shrink + shrink^2 + ... + shrink^n
            size = product * abs(weight) - step * rates[1] * total
        else:
            size = product * (abs(weight) / before - threshold)
        if averaged:
            sums[f] += weight / before * total
        if size <= 0.0:
            weights[f] = 0.0
        else:
            weights[f] = size if weight > 0.0 else -size


@kernel
def _settle_groups(
    pointer: Int64,
    ids: Int32,
    first_group: int,
    now: int,
    groups: Int64,
    weights: Float,
    settled: Int32,
    sums: Float,
    squares: Float,
    prefix: Float,
    rates: Float,
) -> None:
    """The groups ``first_group + ids`` of some positions (pointer [T + 1])."""
    for j in range(pointer[0], pointer[-1]):
        if settled[first_group + ids[j]] != now:
            _settle(first_group + ids[j], now, groups, weights, settled, sums, squares, prefix, rates)


@kernel
def _settle_range(
    first: int,
    end: int,
    now: int,
    groups: Int64,
    weights: Float,
    settled: Int32,
    sums: Float,
    squares: Float,
    prefix: Float,
    rates: Float,
) -> None:
    for group in range(first, end):
        if settled[group] != now:
            _settle(group, now, groups, weights, settled, sums, squares, prefix, rates)


@kernel
def _descend(
    touched: Int64,
    gradient: Float,
    step: float,
    now: int,
    groups: Int64,
    weights: Float,
    settled: Int32,
    sums: Float,
    squares: Float,
    prefix: Float,
    rates: Float,
) -> None:
    """``weights -= step * gradient`` in the ``touched`` groups; AdaGrad's own step if there are ``squares``."""
    for i in range(touched.shape[0]):
        group = touched[i]
        if settled[group] != now:
            _settle(group, now, groups, weights, settled, sums, squares, prefix, rates)
        first, end = groups[group], groups[group + 1]
        if squares.shape[0] == 0:
            for f in range(first, end):
                weights[f] -= step * gradient[f]
        else:
            for f in range(first, end):
                squares[f] += gradient[f] * gradient[f]
                weights[f] -= rates[0] / np.sqrt(1.0 + squares[f]) * gradient[f]


class LazyWeights:
    """A weight vector under sparse steps.

    Parameters
    ----------
    features : PartFeatures
        Of D features, as lists.
    weights : float64 [D]
        Where to begin; copied.
    n_steps : int
        Steps in a pass.
    l1, l2 : float
        The penalties' share of one step.
    average : bool
        Whether to keep the sum of the weights after each step.
    adagrad : float, optional
        AdaGrad's step; None for steps that are given.
    n_penalised : int, optional
        Only the first so many weights, which are whole groups, are penalised; all if not given.
    """

    def __init__(
        self,
        features: PartFeatures,
        weights: Float,
        n_steps: int,
        l1: float = 0.0,
        l2: float = 0.0,
        average: bool = False,
        adagrad: float | None = None,
        n_penalised: int | None = None,
    ) -> None:
        self._features, self.l1, self.l2 = features, l1, l2
        self.weights = np.array(weights, dtype=np.float64)
        self.sums = np.zeros(len(weights) if average else 0)
        self.squares = np.zeros(0 if adagrad is None else len(weights))
        self._settled = np.zeros(len(features.groups) - 1, dtype=np.int32)
        first_free = np.searchsorted(features.groups, len(weights) if n_penalised is None else n_penalised)
        self._rates = np.array([0.0 if adagrad is None else adagrad, l1, l2, first_free])
        self._prefix = np.zeros((3, n_steps + 1))
        self._prefix[PRODUCT, 0] = 1.0
        self._now = 0

    @property
    def _state(self) -> tuple[int, Int64, Float, Int32, Float, Float, Float, Float]:
        groups = self._features.groups
        return self._now, groups, self.weights, self._settled, self.sums, self.squares, self._prefix, self._rates

    def look_at(self, corpus: EncodedExamples, sequence: int) -> None:
        """Settle all weights that the sequence's scores depend on."""
        if not (self.l1 or self.l2):
            return  # nothing but the averages is owed
        for pointer, ids, first_group in self._features.groups_met(corpus, sequence):
            _settle_groups(pointer, ids, first_group, *self._state)

    def descend(self, gradient: SparseGradient, step: float) -> None:
        """Take ``step`` times the gradient off the weights, and clear it."""
        _descend(gradient.touched, gradient.values, step, *self._state)
        gradient.clear()

    def end_step(self, step: float) -> None:
        """Take the penalties' share of a step of size ``step`` off all weights, when they are next looked at."""
        i, prefix = self._now, self._prefix
        product = prefix[PRODUCT, i]
        prefix[THRESHOLD, i + 1] = prefix[THRESHOLD, i] + step * self.l1 / product
        prefix[PRODUCT, i + 1] = product / (1.0 + 2.0 * step * self.l2)
        prefix[SUM, i + 1] = prefix[SUM, i] + prefix[PRODUCT, i + 1]
        self._now += 1
        if prefix[PRODUCT, i + 1] < SMALLEST_PRODUCT or self._now == prefix.shape[1] - 1:
            self.settle()

    def settle(self) -> None:
        """Settle all weights; the steps are counted from zero again."""
        _settle_range(0, len(self._settled), *self._state)
        self._settled.fill(0)
        self._now = 0
