"""Passes over a corpus, one sequence at a time in shuffled order: what stochastic and online learning share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from loglinear import mapped
from loglinear.arrays import Float, Int32, Int64
from loglinear.kernels import kernel
from loglinear.optimizers.objective import Objective
from loglinear.optimizers.optimizer import Callback, Result, StoredState
from loglinear.structures.gold import Gold
from loglinear.structures.structure import EncodedExamples, PartFeatures, Scores, SparseGradient, Structure

PERIOD = 10  # passes that the stopping rule looks back


@dataclass
class PassState(StoredState):
    """Everything needed to continue after a pass as if never stopped.

    Attributes
    ----------
    iteration, evaluations : int
        Passes so far (the same number).
    value : float
        Losses accumulated during the last pass, plus the penalties.
    moves : int
        Sequences of the last pass that moved the weights.
    current : float64 [D]
        The weights after the last step.
    sums, squares : float64 [D or 0]
        Sum of the weights after each step, and of each squared derivative; empty if not needed.
    n_steps : int
        Steps so far.
    step : float
        Size of the first step.
    values : list of float
        Recent values, the newest last.
    """

    counts = ("iteration", "n_steps", "moves")
    numbers = ("value", "step")
    recent = "values"
    arrays = ("current", "sums", "squares")

    current: Float
    sums: Float
    squares: Float
    step: float
    iteration: int = 0
    value: float = np.inf
    n_steps: int = 0
    values: list[float] = field(default_factory=list)
    moves: int = 1

    @property
    def evaluations(self) -> int:
        """Passes so far."""
        return self.iteration

    @property
    def weights(self) -> Float:
        """The model's weights [D]: the mean over all steps if averaged."""
        return self.sums / self.n_steps if len(self.sums) and self.n_steps else self.current

    def fits(self) -> bool:
        return {len(self.sums), len(self.squares)} <= {0, len(self.current)}


class SequencePasses(ABC):
    """Walks a corpus pass by pass; subclasses say what a visit to a sequence does.

    Parameters
    ----------
    options
        The optimizer: its ``max_iter``, ``tolerance``, ``seed`` and ``average``.
    objective : Objective
    weights0 : float64 [D]
        Where to start, unless a state says so.
    state : PassState, optional
    step : float
        Size of the first step.
    sequences : int64, optional
        The sequences to visit; all if not given.
    l1, l2 : float
        The penalties' share of one step.
    adagrad : float, optional
        AdaGrad's step, see :class:`LazyWeights`.
    """

    def __init__(
        self,
        options: Any,
        objective: Objective,
        weights0: Float,
        state: PassState | None,
        step: float = 1.0,
        sequences: Int64 | None = None,
        l1: float = 0.0,
        l2: float = 0.0,
        adagrad: float | None = None,
    ) -> None:
        self._limits, self.step = options, step
        self.objective, self.corpus = objective, objective.corpus
        self.features: PartFeatures = objective.part_features.as_lists()
        self.gradient = self.features.sparse_gradient()
        self.sequences = np.arange(self.corpus.n_sequences) if sequences is None else sequences
        start, n_steps = weights0 if state is None else state.current, len(self.sequences)
        self.lazy = lazy = LazyWeights(
            self.features, start, n_steps, l1, l2, options.average, adagrad, objective.n_penalised
        )
        self.lay_out(lazy.weights)
        self.state = PassState(lazy.weights, lazy.sums, lazy.squares, step)
        if state is not None:
            lazy.sums[...], lazy.squares[...] = state.sums, state.squares
            self.state = replace(
                state, current=lazy.weights, sums=lazy.sums, squares=lazy.squares, values=list(state.values)
            )

    @abstractmethod
    def visit(self, sequence: int, progress: float) -> tuple[float, bool]:
        """Learn from a sequence, ``progress`` passes into training; its loss before, and whether the weights moved."""

    def penalty(self, weights: Float) -> float:
        """The penalties' part of the objective."""
        return 0.0

    def lay_out(self, weights: Float) -> None:
        """Score with ``weights``, which may change, from now on."""
        self._weights = weights
        self._laid_out = self.features.lay_out(weights, self.objective.penalties)

    def prepare(self, sequence: int) -> tuple[Structure, Scores, Gold, Float]:
        """Structure, part scores, annotation and weight of a sequence."""
        lo, hi = int(self.corpus.offsets[sequence]), int(self.corpus.offsets[sequence + 1])
        structure = self.features.structure(self.corpus, sequence, sequence + 1)
        self._laid_out = self.features.refresh_layout(self._laid_out, self._weights, self.objective.penalties)
        scores = self.features.scores(self._laid_out, self.corpus, sequence, sequence + 1)
        weight = self.objective.sequence_weights[sequence : sequence + 1]
        return structure, scores, self.objective.gold.slice(lo, hi), weight

    def order(self, iteration: int) -> Int64:
        """The sequences in the order of a pass."""
        return shuffled(self.sequences, self.corpus.offsets, [self._limits.seed, iteration])

    def one_pass(self, iteration: int) -> tuple[float, int]:
        """Visit all sequences in the order of this pass; the sum of their losses, and how many moved the weights."""
        order = self.order(iteration)
        total, moves, n = 0.0, 0, len(order)
        for i, sequence in enumerate(order.tolist()):
            loss, moved = self.visit(sequence, iteration - 1 + i / n)
            total, moves = total + loss, moves + moved
        self.lazy.settle()
        return total, moves

    def until_done(self, callback: Callback) -> Result:
        """Make passes until nothing is left to learn, the objective settles, or the callback says stop."""
        state, limits = self.state, self._limits
        while True:
            if reason := self._converged(state):
                return Result(state, True, f"converged: {reason}")
            if state.iteration >= limits.max_iter:
                return Result(state, False, f"stopped after {passes(state.iteration)} (max_iter {limits.max_iter})")
            losses, state.moves = self.one_pass(state.iteration + 1)
            state.iteration += 1
            state.n_steps += len(self.sequences)
            state.value = losses + self.penalty(state.weights)
            state.values = [*state.values, state.value][-PERIOD - 1 :]
            if callback is not None and callback(state):
                return Result(state, False, f"stopped after {passes(state.iteration)} (by the callback)")

    def _converged(self, state: PassState) -> str:
        if state.iteration and not state.moves:
            return f"nothing left to learn after {passes(state.iteration)}"
        tolerance = self._limits.tolerance
        if tolerance and len(state.values) > PERIOD:
            before, now = state.values[0], state.values[-1]
            if abs(before - now) <= tolerance * abs(now):
                return f"{PERIOD} passes changed the objective by less than {tolerance:g} of itself"
        return ""


RUN = 1 << 16  # positions that are shuffled among themselves where the corpus lies in files


def shuffled(sequences: Int64, offsets: Int64, key: Sequence[int]) -> Int64:
    """The ``sequences`` in an order drawn by a key.

    Where they lie in files, neighbours stay together: runs of about :data:`RUN` positions are shuffled, and the
    sequences within each, so that a pass reads each page once.
    """
    rng, runs = np.random.default_rng(key), [sequences]
    if mapped.is_active():
        ascending = np.sort(sequences)
        runs = np.split(ascending, np.flatnonzero(np.diff(offsets[ascending] // RUN)) + 1)
    if len(runs) == 1:
        return rng.permutation(sequences)
    return np.concatenate([rng.permutation(runs[r]) for r in rng.permutation(len(runs)).tolist()])


def passes(n: int) -> str:
    """How many passes, in words."""
    return f"{n} pass" + ("" if n == 1 else "es")


# ----------------------------------------------------------------------------------------------------------------------
# Weights that change a few at a time, with penalties and averages that are applied only when a weight is used.
#
# Step i takes the gradient g of one sequence, then the penalties' share of that sequence (a proximal step):
#
#     w  <-  w - eta g                   for the few weights with a derivative
#     w  <-  soft(w, eta l1) / (1 + 2 eta l2)        for all of them; soft(w, a) = sign(w) max(|w| - a, 0)
#
# A weight that no gradient touches from step j to step i is only changed by the second line. With
# r_m = 1 / (1 + 2 eta_m l2) and a_m = eta_m l1 that has a closed form over prefix sums kept for the steps of a pass
# (cf. Lipton & Elkan 2015):
#
#     P_i = prod_{m<i} r_m      B_i = sum_{m<i} a_m / P_m      S_i = sum_{m<=i} P_m
#     |w_i| = max(0, P_i (|w_j| / P_j - (B_i - B_j)))            sum_{j<m<=i} w_m = w_j (S_i - S_j) / P_j    (l1 = 0)
#
# So each group of weights that are used together (those of an attribute) records the step it was last settled at.
# AdaGrad's step eta / sqrt(1 + sum of squared derivatives) belongs to the weight and does not change while no gradient
# touches it: r and a are constants, and the sums geometric.


SMALLEST_PRODUCT = 1e-100  # of the shrink factors: below it all weights are settled, and it is one again
PRODUCT, THRESHOLD, SUM = 0, 1, 2  # rows of the prefix sums


class Lazy(NamedTuple):
    """Weights of D features in G groups, with everything needed to settle them.

    Parameters
    ----------
    groups : int64 [G + 1]
        First feature of each group.
    weights : float64 [D]
    settled : int32 [G]
        The step that each group was last settled at.
    sums, squares : float64 [D or 0]
        Sums of the weights after each step, and of squared derivatives; empty if not needed.
    prefix : float64 [3, steps + 1]
        P, B and S after each step of the pass.
    adagrad, l1, l2 : float
        AdaGrad's step, and the penalties' share of one step.
    first_free : int
        The first group that is not penalised.
    """

    groups: Int64
    weights: Float
    settled: Int32
    sums: Float
    squares: Float
    prefix: Float
    adagrad: float
    l1: float
    l2: float
    first_free: int


@kernel
def settle(met: Int32 | Int64, first_group: int, now: int, lazy: Lazy) -> None:
    """Bring the weights of the groups ``first_group + met`` [n] to step ``now``."""
    groups, weights, settled, sums, squares, prefix, adagrad, l1, l2, first_free = lazy
    adaptive, averaged = squares.shape[0] > 0, sums.shape[0] > 0
    for i in range(met.shape[0]):
        group = first_group + met[i]
        then = settled[group]
        if then == now:
            continue
        settled[group] = now
        first, end = groups[group], groups[group + 1]
        product, before = prefix[PRODUCT, now], prefix[PRODUCT, then]
        threshold, total = prefix[THRESHOLD, now] - prefix[THRESHOLD, then], prefix[SUM, now] - prefix[SUM, then]
        n = now - then
        if group >= first_free:
            if averaged:
                for f in range(first, end):
                    sums[f] += weights[f] * n
            continue
        for f in range(first, end):
            weight = weights[f]
            if weight == 0.0:
                continue
            if adaptive:
                step = adagrad / np.sqrt(1.0 + squares[f])
                shrink = 1.0 / (1.0 + 2.0 * step * l2)
                before, product, total = 1.0, shrink**n, float(n)
                if shrink < 1.0:
                    total = shrink * (1.0 - product) / (1.0 - shrink)  # shrink + shrink^2 + ... + shrink^n
                size = product * abs(weight) - step * l1 * total
            else:
                size = product * (abs(weight) / before - threshold)
            if averaged:
                sums[f] += weight / before * total
            if size <= 0.0:
                weights[f] = 0.0
            else:
                weights[f] = size if weight > 0.0 else -size


@kernel
def descend(touched: Int64, gradient: Float, step: float, now: int, lazy: Lazy) -> None:
    """``weights -= step * gradient`` in the ``touched`` groups [n]; AdaGrad's own step if there are ``squares``."""
    groups, weights, squares, adagrad = lazy.groups, lazy.weights, lazy.squares, lazy.adagrad
    settle(touched, 0, now, lazy)
    for i in range(touched.shape[0]):
        first, end = groups[touched[i]], groups[touched[i] + 1]
        if squares.shape[0] == 0:
            for f in range(first, end):
                weights[f] -= step * gradient[f]
        else:
            for f in range(first, end):
                squares[f] += gradient[f] * gradient[f]
                weights[f] -= adagrad / np.sqrt(1.0 + squares[f]) * gradient[f]


@kernel
def end_step(step: float, now: int, lazy: Lazy) -> bool:
    """Record the penalties of step ``now`` of the pass, of size ``step``; whether all weights must be settled next."""
    prefix, product = lazy.prefix, lazy.prefix[PRODUCT, now]
    prefix[THRESHOLD, now + 1] = prefix[THRESHOLD, now] + step * lazy.l1 / product
    prefix[PRODUCT, now + 1] = product / (1.0 + 2.0 * step * lazy.l2)
    prefix[SUM, now + 1] = prefix[SUM, now] + prefix[PRODUCT, now + 1]
    return prefix[PRODUCT, now + 1] < SMALLEST_PRODUCT or now + 2 == prefix.shape[1]


class LazyWeights:
    """A weight vector under sparse steps.

    Parameters
    ----------
    features : PartFeatures
        Of D features, as lists.
    weights : float64 [D]
        Where to start; copied.
    n_steps : int
        Steps in a pass.
    l1, l2 : float
        The penalties' share of one step.
    average : bool
        Whether to keep the sum of the weights after each step.
    adagrad : float, optional
        AdaGrad's step; None if each step is given.
    n_penalised : int, optional
        Only the first ``n_penalised`` weights, which are whole groups, are penalised; all if not given.
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
        self._features, n = features, len(weights)
        first_free = np.searchsorted(features.groups, n if n_penalised is None else n_penalised)
        self.state = Lazy(
            features.groups,
            weights=np.array(weights, dtype=np.float64),
            settled=np.zeros(len(features.groups) - 1, dtype=np.int32),
            sums=np.zeros(n if average else 0),
            squares=np.zeros(0 if adagrad is None else n),
            prefix=np.zeros((3, n_steps + 1)),
            adagrad=0.0 if adagrad is None else float(adagrad),
            l1=float(l1),
            l2=float(l2),
            first_free=int(first_free),
        )
        self.weights, self.sums, self.squares = self.state.weights, self.state.sums, self.state.squares
        self.state.prefix[PRODUCT, 0] = 1.0
        self.now = 0

    def look_at(self, corpus: EncodedExamples, sequence: int) -> None:
        """Settle all weights that the scores of a sequence depend on."""
        if not (self.state.l1 or self.state.l2):
            return  # without penalties, weights are up to date
        for pointer, ids, first_group in self._features.active_groups(corpus, sequence):
            settle(ids[pointer[0] : pointer[-1]], first_group, self.now, self.state)

    def descend(self, gradient: SparseGradient, step: float) -> None:
        """Subtract ``step`` times the gradient from the weights, and clear it."""
        descend(gradient.touched, gradient.values, step, self.now, self.state)
        gradient.clear()

    def end_step(self, step: float) -> None:
        """Record the penalties of a step of size ``step``; they are applied to weights when these are next used."""
        due = end_step(step, self.now, self.state)
        self.now += 1
        if due:
            self.settle()

    def settle(self) -> None:
        """Settle all weights and count steps from zero again."""
        settle(np.arange(len(self.state.settled)), 0, self.now, self.state)
        self.state.settled.fill(0)
        self.now = 0
