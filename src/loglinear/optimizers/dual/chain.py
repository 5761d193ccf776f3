"""Stochastic dual coordinate ascent: the weights are what the sequences' marginals make of them, renewed one by one.

At the minimum of  sum_i c_i loss_i(w) + l2 ||w||^2  the gradient is zero, so

    w = -(1 / 2 l2) sum_i c_i g_i          g_i = E[f] - f(gold), expected by the marginals of sequence i

Each sequence keeps the marginals that it has a share in w by, at first those of its gold labelling, so that w is zero.
A step takes one sequence, works out its marginals under the weights of now, and moves the kept ones a part of the way:

    kept_i <- kept_i + share (now_i - kept_i),        w changes accordingly

It is ascent in the dual of the problem (Shalev-Shwartz & Zhang 2013; Le Priol, Piche & Lacoste-Julien 2018 for CRFs),
and descent with variance reduction in the primal: steps need not shrink, as what they correct does. The penalty costs
nothing, for it is what ties w to the marginals. Few passes go a long way: on CoNLL-2000 a dozen come within 0.1 % of
the minimum, where L-BFGS takes about a hundred.

With Delta = now_i - kept_i, the dual along the step is  c_i (share J - share^2 (J + c_i Q / 2 l2) / 2)  to the second
order, Q = ||sum_t f(Delta_t)||^2 being the squared norm of what it does to the features and J the distance of now_i and
kept_i (the sum of both Kullback-Leibler divergences), so the share that goes furthest is

    share = J / (J + caution c_i Q / 2 l2)          J = sum_t,y 2 Delta^2 / (now + kept)

J adds up the positions as if they were independent, which is too much where they are not: caution, at first 1, is
doubled after a pass that makes things worse. Nothing can run away: as mixtures of marginals, the kept ones stay
marginals. The gap between primal and dual, which says when to stop, is the sum of the divergences of kept_i from now_i:
about J / 2 where they are near each other, and at least  loss_i - (score by kept_i - score of gold_i) - T log Y.

Q is worked out exactly in the passes 1, 2, 5, 9, 13 and so on; in the others it is taken to be the same multiple of
what it would be if no two positions looked at the same features, which costs next to nothing.

Two threads share a pass: in each of four rounds, each goes over sequences of its own with weights of its own, and what
both changed is then added up. As neither sees what the other does, each takes its own moves for 1.5 times as large as
they are (CoCoA+, Ma et al. 2015; 2 would be safe whatever the data). It is done so for any number of threads, so that
the result does not depend on it; small corpora go in one round over one part.

Where the steps do not fit the data (caution has been doubled twice: long sequences whose positions look at the same
features, with little penalty), or scores leave single precision, or a hundred passes are not enough, L-BFGS goes on
from the weights of then, or from zero if they are worse than that.

With an L1 penalty, too, w is the above brought nearer to zero by l1 / 2 l2, or zero (proximal SDCA, the same authors
2014): what the marginals are tied to is the sum before that, which is what is stored.

Flat labels have a file of their own, :mod:`~loglinear.optimizers.dual.flat`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from loglinear.arrays import Array, Arrays, Float, Float32, Int64
from loglinear.criteria.criterion import Criterion
from loglinear.errors import OptionError
from loglinear.optimizers.dual.flat import UNFIT, FlatDual, FlatDualState, why_not_flat_dual
from loglinear.optimizers.dual.general import FinishState, finish
from loglinear.optimizers.objective import Objective, why_not
from loglinear.optimizers.optimizer import Optimizer, Result, State, register
from loglinear.structures.chain.padded import PaddedLayout, PaddedWeights, dual_pass, keep_gold
from loglinear.structures.flat.features import FlatFeatures
from loglinear.structures.gold import Gold
from loglinear.structures.structure import PartFeatures
from loglinear.system import in_threads

WORSE = 0.002  # a rise by this share is more than the order of the sequences makes
GAP = 200.0  # the gap that is small enough, as a multiple of the tolerance
PARTS, ROUNDS, OVERLAP = 2, 4, 1.5  # of a pass; how much both parts move the same weights
MOST_CAUTION, MOST_PASSES = 2.0, 100  # before L-BFGS goes on
MEASURE_EVERY = 4  # passes, beside the first two
SEQUENCES_A_PART = 250  # in a round; smaller corpora are not split


@dataclass
class DualState:
    """Everything needed to go on as if never stopped.

    Attributes
    ----------
    iteration, evaluations : int
        Passes so far.
    underflown : int
        Sequences that could not take part in the last pass, as their scores leave single precision.
    value : float
        Losses as they were met in the last pass, and the penalty at its end.
    gap : float
        Estimate of how far primal and dual were apart in the last pass.
    caution : float
        What steps are kept small by.
    laid_out : PaddedWeights
        The weights, before the L1 penalty brings them nearer to zero.
    kept : float32 [N, W]
        The marginals of each position that the weights are made of.
    kept_transitions : float32 [S, F]
        The same of each sequence's transitions that have a feature.
    overlaps : float32 [S]
        How much the positions of each sequence look at the same features.
    shrink : float
        What the L1 penalty brings weights nearer to zero by.
    layout : PaddedLayout or None
        None before it is known whether a stored state fits the problem.
    """

    iteration: int
    evaluations: int
    underflown: int
    value: float
    gap: float
    caution: float
    laid_out: PaddedWeights
    kept: Float32
    kept_transitions: Float32
    overlaps: Float32
    shrink: float = 0.0
    layout: PaddedLayout | None = None

    @property
    def weights(self) -> Float:
        """The weights [D]."""
        assert self.layout is not None
        weights = self.layout.vector(*self.laid_out)
        return weights if self.shrink == 0.0 else np.sign(weights) * np.maximum(np.abs(weights) - self.shrink, 0.0)

    def penalty(self, l1: float, l2: float) -> float:
        """l1 |w| + l2 ||w||^2."""
        total = 0.0
        for part in self.laid_out:
            sizes = np.abs(part.ravel())
            if self.shrink:
                sizes = np.maximum(sizes - np.float32(self.shrink), np.float32(0.0))
                total += l1 * float(np.sum(sizes, dtype=np.float64))
            total += l2 * float(np.einsum("i,i->", sizes, sizes, dtype=np.float64))
        return total

    def to_arrays(self) -> Arrays:
        """All of it as named arrays, for a checkpoint."""
        return {
            "counts": np.array([self.iteration, self.evaluations, self.underflown], dtype=np.int64),
            "values": np.array([self.value, self.gap, self.caution]),
            "rows": self.laid_out.rows.copy(),
            "lists": self.laid_out.lists.copy(),
            "transition": self.laid_out.transition.copy(),
            "kept": self.kept.copy(),
            "kept_transitions": self.kept_transitions.copy(),
            "overlaps": self.overlaps.copy(),
        }


@register
@dataclass(frozen=True)
class DualAscent(Optimizer):
    """Passes of dual coordinate ascent until primal and dual are nearly the same; L-BFGS where that does not happen.

    Parameters
    ----------
    max_iter : int
        Most passes, the iterations of L-BFGS included.
    tolerance : float
        Stop when the gap between primal and dual is less than two hundred times this share of the objective; with flat
        labels, where it is known and not estimated, when it is less than this share.
    seed : int
        Of the order of the sequences.
    """

    name = "dual"
    summary = "stochastic dual coordinate ascent: few passes, first-order chains and flat labels with an L2 penalty"
    default_iterations = 1000

    max_iter: int = 1000
    tolerance: float = 1e-5
    seed: int = 0

    def restore(self, arrays: Mapping[str, Array]) -> State:
        """The state of :meth:`DualState.to_arrays`, of flat labels or of L-BFGS after it."""
        if "passes" in arrays:
            return FinishState.from_arrays(arrays)
        if "table" in arrays:
            return FlatDualState.from_arrays(arrays)
        iteration, evaluations, underflown = (int(count) for count in arrays["counts"])
        value, gap, caution = arrays["values"].tolist()
        weights = PaddedWeights(*(np.array(arrays[name]) for name in ("rows", "lists", "transition")))
        kept, transitions, overlaps = (np.array(arrays[name]) for name in ("kept", "kept_transitions", "overlaps"))
        return DualState(iteration, evaluations, underflown, value, gap, caution, weights, kept, transitions, overlaps)

    def minimise(
        self,
        objective: Objective,
        weights0: Float,
        *,
        l1: float = 0.0,
        callback: Callable[[Any], bool | None] | None = None,
        state: DualState | FlatDualState | FinishState | None = None,
    ) -> Result:
        if isinstance(objective.features, FlatFeatures):
            flat = FlatDual(self.max_iter, self.tolerance, self.seed)
            return flat.minimise(objective, weights0, l1=l1, callback=callback, state=state)
        reason = why_not_dual(objective.criterion, objective.features, objective.gold, objective.l2)
        if reason is None and weights0.any():
            reason = "it starts from zero, not from another model"
        if reason is not None:
            raise OptionError(f"optimizer='dual': {reason}; use lbfgs")
        if isinstance(state, FinishState):
            return finish(self, objective, state.weights, l1, callback, state.passes, state.inner)
        layout = objective.padded_layout
        now = _start(objective, layout) if state is None else _fitting(state, layout)
        now.layout, now.shrink = layout, l1 / (2.0 * objective.l2)
        small = GAP * self.tolerance
        while True:
            near = now.iteration > 0 and now.gap <= small * abs(now.value)
            if near and not now.underflown:
                passes = f"{now.iteration} pass{'es' if now.iteration > 1 else ''}"
                message = f"converged after {passes}: primal and dual differ by less than {small:g} of the objective"
                return Result(now, True, message)
            if now.iteration >= self.max_iter:
                apart = (
                    f", primal and dual differ by {now.gap / abs(now.value):.2g} of the objective"
                    if now.iteration
                    else ""
                )
                return Result(now, False, f"stopped after {now.iteration} passes{apart}")
            if near or now.caution > MOST_CAUTION or now.iteration >= MOST_PASSES:
                return finish(self, objective, now.weights, l1, callback, now.iteration, None)
            self._pass(objective, layout, l1, now)
            if callback is not None and callback(now):
                return Result(now, False, f"stopped after {now.iteration} passes (by the callback)")

    def _pass(self, objective: Objective, layout: PaddedLayout, l1: float, now: DualState) -> None:
        """One more pass, in place."""
        n = objective.corpus.n_sequences
        order = np.random.default_rng([self.seed, now.iteration]).permutation(n)
        losses, gaps = np.zeros(n), np.zeros(n)
        careful = now.caution > 1.0
        measure = careful or now.iteration == 1 or now.iteration % MEASURE_EVERY == 0
        overlap = float(PARTS) if careful else OVERLAP

        def steps(sequences: Int64, weights: PaddedWeights, overlap: float) -> None:
            dual_pass(
                sequences, layout.corpus, weights, layout.n_labels, now.shrink, objective.l2 / overlap, now.caution,
                measure, now.kept, now.kept_transitions, now.overlaps, losses, gaps,
            )  # fmt: skip

        if n < PARTS * ROUNDS * SEQUENCES_A_PART:
            steps(order, now.laid_out, 1.0)
        else:
            for chosen in np.array_split(order, ROUNDS):
                parts = np.array_split(chosen, PARTS)
                copies = [PaddedWeights(*map(np.copy, now.laid_out)) for _ in parts]
                in_threads(lambda k: steps(parts[k], copies[k], overlap), range(PARTS), objective.n_threads)  # noqa: B023
                for weights, *moved in zip(now.laid_out, *copies, strict=True):
                    weights += sum(each - weights for each in moved) / np.float32(overlap)
        before = now.value
        now.value = float(np.nansum(losses)) + now.penalty(l1, objective.l2)
        now.gap = float(np.nansum(gaps))
        if now.value > (1.0 + WORSE) * before:
            now.caution *= 2.0
        now.iteration += 1
        now.evaluations += 1
        now.underflown = int(np.isnan(losses).sum())


def why_not_dual(criterion: Criterion, features: PartFeatures, gold: Gold, l2: float) -> str | None:
    """What speaks against dual ascent from zero, or None."""
    if isinstance(features, FlatFeatures):
        return why_not_flat_dual(criterion, features, gold, l2)
    if l2 <= 0.0:
        return f"it needs an L2 penalty, and l2 is {l2:g}"
    return why_not(criterion, features, gold)


def _start(objective: Objective, layout: PaddedLayout) -> DualState:
    corpus = layout.corpus
    kept = np.zeros((int(corpus.offsets[-1]), layout.width), dtype=np.float32)
    transitions = np.zeros((objective.corpus.n_sequences, len(corpus.transition_places)), dtype=np.float32)
    keep_gold(corpus, kept, transitions)
    overlaps = np.zeros(len(transitions), dtype=np.float32)
    return DualState(0, 0, 0, np.inf, np.inf, 1.0, layout.zeros(), kept, transitions, overlaps)


def _fitting(state: DualState | FlatDualState, layout: PaddedLayout) -> DualState:
    """A state that was stored, if it fits the problem."""
    corpus, zeros = layout.corpus, layout.zeros()
    if isinstance(state, FlatDualState):
        raise OptionError(UNFIT)
    fits = all(part.shape == zero.shape for part, zero in zip(state.laid_out, zeros, strict=True))
    fits = fits and state.kept.shape == (int(corpus.offsets[-1]), layout.width)
    fits = fits and state.overlaps.shape == (len(corpus.offsets) - 1,)
    if not fits or state.kept_transitions.shape != (len(corpus.offsets) - 1, len(corpus.transition_places)):
        raise OptionError(UNFIT)
    return state
