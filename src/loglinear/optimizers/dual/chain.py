"""Stochastic dual coordinate ascent: weights as a function of per-sequence marginals, updated one sequence at a time.

At the minimum of  sum_i c_i loss_i(w) + l2 ||w||^2  the gradient is zero, so with the marginals alpha_i of sequence i

    w(alpha) = -(1 / 2 l2) sum_i c_i (E_alpha_i[f] - f(gold_i))

Any alpha gives weights in this way, those of the gold labellings give w = 0, and the minimum is where each alpha_i is
mu_i, the marginals of the sequence under w(alpha). A pass takes every sequence, in a shuffled order:

1. mu_i <- the marginals of sequence i under the current weights (one forward-backward), Delta <- mu_i - alpha_i
2. J <- sum_t,y 2 Delta^2 / (mu_i + alpha_i),  Q <- ||E_Delta[f]||^2
3. gamma <- J / (J + caution c_i Q / 2 l2)
4. alpha_i <- alpha_i + gamma Delta,  w <- w - (c_i gamma / 2 l2) E_Delta[f]

This is ascent in the dual problem (Shalev-Shwartz & Zhang 2013; Le Priol, Piche & Lacoste-Julien 2018 for CRFs), and
descent with variance reduction in the primal: the steps need not shrink, because Delta does. On CoNLL-2000 half a dozen
passes come within 0.1 % of the minimum, where L-BFGS takes about a hundred iterations.

**The step.** To second order the dual changes by  c_i (gamma J - gamma^2 (J + c_i Q / 2 l2) / 2),  where J is the
distance between mu_i and alpha_i (the sum of both Kullback-Leibler divergences); gamma maximises it. J treats positions
as independent, which overestimates it where they are not: ``caution`` starts at 1 and is doubled after a pass that
raises the objective. Nothing can diverge: alpha_i is a mixture of marginals, and so remains one. Q is computed exactly
in passes 1, 2, 5, 9, 13, ...; in between it is the same multiple of its value for positions that share no feature,
which costs next to nothing.

**The gap** between primal and dual, which says when to stop, is the sum of the divergences of alpha_i from mu_i: about
J / 2 when they are close, and at least  loss_i - (score under alpha_i - score of gold_i) - T log Y.

**Hard sequences.** Most of the gap lies in few sequences, the more so the smaller the penalty. A pass therefore ends
with up to four more steps for each of those that have 0.7 of the gap (cf. the sampling of Le Priol et al.), if they are
fewer than half of all, and if the gap fell since the pass before. The gap that decides when to stop, and the objective,
are those of the steps for all sequences, before these.

**Threads.** Two parts share a pass: in each of four rounds they go through different sequences with their own copies
of the weights, and then both changes are added. As neither sees what the other does, each takes its own changes to be
1.5 times as large as they are (CoCoA+, Ma et al. 2015; 2 would be safe for any data). This is done for any number of
threads, so that the result does not depend on it. Small corpora are one part.

**L-BFGS** takes over from the current weights, or from zero if those are worse, where the steps do not suit the data
(caution has been doubled twice: long sequences whose positions share features, and a small penalty), where scores leave
single precision, or after a hundred passes. Caution is also doubled after a cautious pass that leaves more than 0.95 of
the gap. With sums over chains L-BFGS searches among weights divided by 1 / sqrt(h), where h is the curvature along each
weight by the kept marginals: features that occur once or a hundred thousand times are then about equally stiff, so that
far fewer iterations are needed.

**L1.** With an L1 penalty, w is the sum above moved towards zero by l1 / 2 l2, at most to zero (proximal SDCA, the same
authors 2014). The state stores the sum before that.

**Other sums.** The same passes train criteria of parts of a labelling: each label given its neighbours
(:mod:`~loglinear.structures.chain.conditionals`), and pieces with free contexts
(:mod:`~loglinear.structures.chain.padded_pieces`; of order 2 or with edge features
:mod:`~loglinear.structures.chain.deep_pieces`). With many labels they go over lists of transitions
(:mod:`~loglinear.structures.chain.wide`), and for segments over spans
(:mod:`~loglinear.structures.segments.padded`, which has another J). The layout of the data says which steps are made.
Risk and its Jensen bound, which are not convex, go on from the state that conditional likelihood ends with
(:mod:`~loglinear.structures.chain.risk` has the step).

Flat labels have a file of their own, :mod:`~loglinear.optimizers.dual.flat`, and so has max-margin,
:mod:`~loglinear.optimizers.dual.margin`, whose dual is not smooth; on other structures than first-order chains it is
trained by :mod:`~loglinear.optimizers.dual.planes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from loglinear import mapped
from loglinear.arrays import Array, Float, Float32, Int64
from loglinear.criteria.criterion import CostCriterion, Criterion
from loglinear.errors import OptionError
from loglinear.features.encoding import EncodedCorpus, runs
from loglinear.optimizers.dual.flat import FlatDual, FlatDualState, flat_dual_unsupported_reason
from loglinear.optimizers.dual.general import PARTS, WORSE, DualOptions, FinishState, check_fits_data, check_supported
from loglinear.optimizers.dual.margin import MarginDual, MarginState
from loglinear.optimizers.dual.planes import PlaneDual, PlaneState
from loglinear.optimizers.objective import (
    GIVEN_AFTER,
    IN_SINGLE_PRECISION,
    PIECES,
    SUMS,
    Layout,
    Objective,
    local_unsupported_reason,
    unsupported_reason,
)
from loglinear.optimizers.optimizer import Callback, Result, State, StoredState, register
from loglinear.optimizers.passes import passes, shuffled
from loglinear.optimizers.rounds import Apart, check_starts_at_zero
from loglinear.options import option
from loglinear.structures.chain.deep_pieces import DeepPieceLayout
from loglinear.structures.chain.features import ChainFeatures, Penalties
from loglinear.structures.chain.padded import PaddedLayout
from loglinear.structures.chain.risk import RISKS, RiskLayout
from loglinear.structures.chain.steps import is_sparse, is_too_wide
from loglinear.structures.flat.features import FlatFeatures
from loglinear.structures.gold import Gold
from loglinear.structures.rows import Kept, PaddedWeights, Step, merge, sizes
from loglinear.structures.structure import PartFeatures
from loglinear.system import in_threads

GAP = 200.0  # the gap that is small enough, as a multiple of the tolerance
ROUNDS, OVERLAP = 4, 1.5  # of a pass; how much both parts move the same weights
MOST_CAUTION, MOST_PASSES = 2.0, 100  # before L-BFGS takes over
#: A cautious pass that leaves a greater share of the gap than this asks for more caution, like one that raises the
#: objective.
SLOW = 0.95
OF_WEIGHTS = 5  # numbers of eight bytes for each weight: two parts' copies among them
POSITIONS_AT_ONCE = 10_000  # whose curvature is added up
REVISITS, SHARE = 4, 0.7  # more steps in a pass for the sequences that have this share of the gap


@dataclass
class DualState(StoredState):
    """Everything needed to continue as if never stopped.

    Attributes
    ----------
    rows, lists, transition : float32
        The weights as :class:`~loglinear.structures.rows.PaddedWeights`, before the L1 penalty moves them
        towards zero.
    alpha : float32 [N, W]
        The marginals of each position that the weights are a function of.
    alpha_transitions : float32 [S, F]
        The same of each sequence's transitions that have a feature.
    overlaps : float32 [S]
        How much the positions of each sequence share features.
    iteration, evaluations : int
        Passes so far.
    underflown : int
        Sequences that were left out of the last pass because their scores leave single precision.
    value : float
        Losses accumulated during the last pass, before each sequence's first step, plus the penalty after these.
    gap : float
        Estimate of the gap between primal and dual during the last pass, from the same steps.
    caution : float
        Factor that makes steps smaller.
    shrink : float
        How far the L1 penalty moves weights towards zero.
    layout : Layout or None
        None until a stored state has been compared with the data.
    copies : list of PaddedWeights
        The same weights for each of the parts of a pass; none if there is one part.
    """

    counts = ("iteration", "evaluations", "underflown")
    numbers = ("value", "gap", "caution")
    arrays: ClassVar[tuple[str, ...]] = ("rows", "lists", "transition", "alpha", "alpha_transitions", "overlaps")
    stored_as: ClassVar = {"alpha": "kept", "alpha_transitions": "kept_transitions"}

    rows: Float32
    lists: Float32
    transition: Float32
    alpha: Float32
    alpha_transitions: Float32
    overlaps: Float32
    iteration: int = 0
    evaluations: int = 0
    underflown: int = 0
    value: float = np.inf
    gap: float = np.inf
    caution: float = 1.0
    shrink: float = 0.0
    layout: Layout | None = None
    copies: list[PaddedWeights] = field(default_factory=list)

    @property
    def laid_out(self) -> PaddedWeights:
        """The weights before the L1 penalty."""
        return PaddedWeights(self.rows, self.lists, self.transition)

    @property
    def weights(self) -> Float:
        """The weights [D]."""
        assert self.layout is not None
        weights = self.layout.vector(*self.laid_out)
        return weights if self.shrink == 0.0 else np.sign(weights) * np.maximum(np.abs(weights) - self.shrink, 0.0)

    @property
    def kept(self) -> Kept:
        """What the weights are a function of."""
        return Kept(self.alpha, self.alpha_transitions, self.overlaps, np.zeros(0, dtype=np.float32))

    def release(self) -> None:
        """Free what only further passes need."""
        self.alpha, self.alpha_transitions, self.copies = self.alpha[:0].copy(), self.alpha_transitions[:0].copy(), []

    def penalty(self, l1: float, l2: float) -> float:
        """l1 |w| + l2 ||w||^2."""
        assert self.layout is not None
        absolute, squares = sizes(self.laid_out, self.shrink, self.layout.lanes)
        return l1 * absolute + l2 * squares


@dataclass
class DeepPieceState(DualState):
    """The same for pieces of order 2 or with edge features.

    Attributes
    ----------
    pairs : float32
        The marginals of pairs of labels that positions with edge features keep, one after the other.
    """

    arrays: ClassVar[tuple[str, ...]] = (*DualState.arrays, "pairs")

    pairs: Float32 = field(default_factory=lambda: np.zeros(0, dtype=np.float32))

    @property
    def kept(self) -> Kept:
        return Kept(self.alpha, self.alpha_transitions, self.overlaps, self.pairs)


@register
@dataclass(frozen=True)
class DualAscent(DualOptions):
    """Passes of dual coordinate ascent until primal and dual are nearly the same; L-BFGS where that does not happen.

    It stops when the estimated gap is below two hundred times the tolerance. Where the gap is known, it stops when that
    is below the tolerance itself with flat labels, and below a hundred times the tolerance with max-margin.
    """

    prune: float = option(
        "leave out labels that are less probable than this by a token's features alone (try 1e-4); 0 keeps all",
        default=0.0,
        least=0,
        most=0.5,
    )

    def restore(self, arrays: Mapping[str, Array]) -> State:
        """The state of dual ascent over chains or flat labels, or of L-BFGS after it."""
        if "sent" in arrays:
            from loglinear.optimizers.dual.rounds import DualRounds

            return DualRounds.from_arrays(arrays)
        if "passes" in arrays:
            return FinishState.from_arrays(arrays)
        if "plane_masses" in arrays:
            return PlaneState.from_arrays(arrays)
        if "masses" in arrays:
            return MarginState.from_arrays(arrays)
        if "table" in arrays:
            return FlatDualState.from_arrays(arrays)
        return DeepPieceState.from_arrays(arrays) if "pairs" in arrays else DualState.from_arrays(arrays)

    def minimise(
        self, objective: Objective, weights0: Float, *, l1: float = 0.0, callback: Callback = None, state: Any = None
    ) -> Result:
        if isinstance(objective, Apart):
            return self._in_rounds(objective, weights0, l1, callback, state)
        prunable = isinstance(objective.features, ChainFeatures) and objective.criterion.name in SUMS
        if self.prune and not prunable:
            raise OptionError(f"prune={self.prune:g} is for chains by {' and '.join(SUMS)}; leave it out")
        if isinstance(objective.features, FlatFeatures):
            flat = FlatDual(self.max_iter, self.tolerance, self.seed)
            return flat.minimise(objective, weights0, l1=l1, callback=callback, state=state)
        check_supported(dual_unsupported_reason(objective.criterion, objective.features, objective.gold, objective.l2))
        has_dual = objective.criterion.name not in RISKS
        if isinstance(state, FinishState):
            return self.finish(objective, state.weights, l1, callback, state.passes, state.inner, scale=state.scale)
        by_planes = has_planes(objective.criterion, objective.features)
        if state is None and weights0.any() and not (self.from_zero or by_planes):
            check_supported("it starts from zero, not from another model" if has_dual else None)
            return self.finish(objective, weights0, l1, callback, 0, None)  # no state to go on from: not by dual ascent
        if objective.criterion.name == "max-margin":
            margin = (PlaneDual if by_planes else MarginDual)(self.max_iter, self.tolerance, self.seed)
            return margin.minimise(objective, weights0, l1=l1, callback=callback, state=state)
        layout = objective.wide_layout(self.prune) if self.prune else objective.layout
        size = objective.features.n_features
        mapped.check_room(OF_WEIGHTS * 8.0 * size, f"{size:,} weights")
        now = _start(layout)
        if state is not None:
            check_fits_data(type(state) is type(now) and _shapes(state) == _shapes(now))
            now = state
            now.rows, now.lists, now.transition = layout.copy(now.laid_out)
        now.layout, now.shrink = layout, l1 / (2.0 * objective.l2)
        small = GAP * self.tolerance
        measured = "primal and dual differ" if has_dual else "the gradients that are kept differ from those met"
        while True:
            near = now.iteration > 0 and now.gap <= small * abs(now.value)
            if near and not now.underflown:
                message = f"{measured} by less than {small:g} of the objective{layout.note}"
                return Result(now, True, f"converged after {passes(now.iteration)}: {message}")
            if now.iteration >= self.max_iter:
                apart = f", {measured} by {now.gap / abs(now.value):.2g} of the objective{layout.note}"
                return Result(now, False, f"stopped after {passes(now.iteration)}{apart if now.iteration else ''}")
            if near or now.caution > MOST_CAUTION or now.iteration >= MOST_PASSES:
                scale = _scale(objective, now)
                return self.finish(objective, now.weights, l1, callback, now.iteration, None, scale=scale)
            self._pass(objective, l1, now)
            if callback is not None and callback(now):
                return Result(now, False, f"stopped after {passes(now.iteration)} (by the callback)")

    def _in_rounds(self, objective: Any, weights0: Float, l1: float, callback: Callback, state: Any) -> Result:
        """The same where groups of sequences live apart."""
        from loglinear.optimizers.dual.rounds import minimise_in_rounds

        if isinstance(state, FinishState):
            so_far = state.passes, state.inner
            return self.finish(objective, state.weights, l1, callback, *so_far, scale=state.scale, unit="round")
        if l1:
            return self.finish(objective, weights0, l1, callback, 0, None)  # rounds know no L1 penalty: OWL-QN
        check_starts_at_zero(weights0, "dual ascent")
        if self.prune:
            raise OptionError(f"prune={self.prune:g} is for one machine; leave it out")
        apart = objective.criterion, objective.features, objective.penalties, objective.gold, objective.l2
        check_supported(rounds_unsupported_reason(*apart))
        return minimise_in_rounds(self, objective, callback=callback, state=state)

    def take_over(self, before: State, objective: Objective) -> DualState | None:
        """The state that risk or its bound goes on from after a phase of conditional likelihood with that penalty."""
        criterion, layout = objective.criterion, getattr(before, "layout", None)
        if criterion.name not in RISKS or not isinstance(before, DualState) or type(layout) is not PaddedLayout:
            return None
        assert isinstance(criterion, CostCriterion)
        objective.layout = RiskLayout.after(layout, criterion.cost.table, RISKS[criterion.name])
        return replace(before, iteration=0, evaluations=0, underflown=0, value=np.inf, gap=np.inf, caution=1.0)

    def _pass(self, objective: Objective, l1: float, now: DualState) -> None:
        """One more pass, in place: a step for each sequence, and more of them for the hardest."""
        n, value, gap = objective.corpus.n_sequences, now.value, now.gap
        losses, gaps = np.zeros(n), np.zeros(n)
        careful = now.caution > 1.0
        assert now.layout is not None
        measure = careful or now.iteration == 1 or now.iteration % now.layout.measure_every == 0
        _sweep(objective, now, self.order(objective.corpus.offsets, now.iteration), measure, now.caution, losses, gaps)
        now.value = float(np.nansum(losses)) + now.penalty(l1, objective.l2)
        now.gap = float(np.nansum(gaps))
        now.underflown = int(np.isnan(losses).sum())
        settled = now.gap >= gap or now.gap <= GAP * self.tolerance * abs(now.value)
        revisits = REVISITS if now.layout.revisits and not (careful or settled) else 0
        for visit in range(revisits):
            hardest = _hardest(gaps)
            if len(hardest) > n // 2:
                break
            order = shuffled(hardest, objective.corpus.offsets, [self.seed, now.iteration, visit])
            _sweep(objective, now, order, False, OVERLAP * now.caution, losses, gaps)
        worse = now.value > (1.0 + WORSE) * value and now.iteration >= now.layout.steady_from
        if worse or (careful and now.gap > SLOW * gap):
            now.caution *= 2.0
        now.iteration += 1
        now.evaluations += 1


def _sweep(
    objective: Objective, now: DualState, order: Int64, measure: bool, caution: float, losses: Float, gaps: Float
) -> None:
    """A step for each sequence of ``order``, in place; ``losses`` and ``gaps`` [S] are those before it."""
    layout = now.layout
    assert layout is not None

    def steps(sequences: Int64, weights: PaddedWeights, overlap: float, caution: float) -> None:
        step = Step(now.shrink, objective.l2 / overlap, caution, measure)
        layout.dual_pass(sequences, weights, step, now.kept, losses, gaps)

    if objective.corpus.n_sequences < PARTS * ROUNDS * layout.sequences_a_part:
        steps(order, now.laid_out, 1.0, caution)
        return
    if not now.copies:
        now.copies = [layout.copy(now.laid_out) for _ in range(PARTS)]
    overlap = float(PARTS) if now.caution > 1.0 else OVERLAP
    rounds = max(1, min(ROUNDS, len(order) // (PARTS * layout.sequences_a_part)))
    for chosen in np.array_split(order, rounds):
        parts = np.array_split(chosen, PARTS)
        in_threads(lambda k: steps(parts[k], now.copies[k], overlap, now.caution), range(PARTS), objective.n_threads)  # noqa: B023
        merge(layout.lanes, overlap, now.laid_out, *now.copies)


def _scale(objective: Objective, now: DualState) -> Float | None:
    """1 / sqrt of the objective's curvature along each weight [D]; None if it does not keep marginals of labels."""
    if type(now.layout) is not PaddedLayout or not isinstance(objective.corpus, EncodedCorpus):
        return None
    along = curvature(objective, now.alpha, now.alpha_transitions)
    return 1.0 / np.sqrt(2.0 * objective.l2 + np.maximum(along, 0.0))


def curvature(objective: Objective, alpha: Float32, alpha_transitions: Float32) -> Float:
    """Curvature of the losses along each weight [D], by marginals ``alpha`` [N, W] and of transitions [S, F].

    It is  sum_i c_i sum_t value^2 alpha_t (1 - alpha_t),  and for transitions as if the positions of a sequence were
    alike. Neighbours count as independent: it only has to say which weights are how stiff.
    """
    features, corpus = objective.features, objective.corpus
    assert isinstance(features, ChainFeatures) and isinstance(corpus, EncodedCorpus)
    lengths = np.diff(corpus.offsets)
    state, _, transition, *_ = features.slices
    each = np.repeat(objective.sequence_weights, lengths)
    incidence = corpus.state if corpus.state.values is None else replace(corpus.state, values=corpus.state.values**2)
    along, rows = np.zeros(features.n_features), np.zeros((features.state.n_rows, features.n_labels))
    for first, end in runs(corpus.offsets, 0, len(lengths), POSITIONS_AT_ONCE):
        lo, hi = int(corpus.offsets[first]), int(corpus.offsets[end])
        kept = alpha[lo:hi, : features.n_labels].astype(np.float64)
        spread = each[lo:hi, None] * kept * (1.0 - kept)
        features.state.add_gradient(incidence, lo, hi, spread, along[state], rows)
    features.state.gather(rows, along[state])
    counts = alpha_transitions.astype(np.float64)
    spread = objective.sequence_weights[:, None] * counts * (1.0 - counts / lengths[:, None])
    along[transition] = spread.sum(axis=0)
    return along


def _hardest(gaps: Float) -> Int64:
    """The sequences with the largest ``gaps`` [S]: as few as have ``SHARE`` of their sum."""
    known = np.nan_to_num(gaps)
    order = np.argsort(-known, kind="stable")
    sums = np.cumsum(known[order])
    return order[: int(np.searchsorted(sums, SHARE * sums[-1])) + 1]


def dual_unsupported_reason(criterion: Criterion, features: PartFeatures, gold: Gold, l2: float) -> str | None:
    """Why dual ascent cannot be used, or None if it can."""
    if isinstance(features, FlatFeatures):
        return flat_dual_unsupported_reason(criterion, features, gold, l2)
    if isinstance(features, ChainFeatures) and features.dense:
        return "it does not go over dense features"
    if l2 <= 0.0:
        return f"it needs an L2 penalty, and l2 is {l2:g}"
    if isinstance(features, ChainFeatures) and criterion.name not in (*SUMS, *GIVEN_AFTER):
        n_labels = features.n_labels
        if is_too_wide(features, Penalties.none(n_labels)):
            return f"by {criterion.name} it goes over all pairs of labels, and there are {n_labels:,} labels"
    if has_planes(criterion, features):
        hidden = "where labels are hidden or partial, max-margin is not convex and has no dual"
        return None if gold.allowed is None else hidden
    if criterion.name in (*GIVEN_AFTER, *PIECES):
        return local_unsupported_reason(criterion, features, gold)
    return unsupported_reason(criterion, features, gold, (*IN_SINGLE_PRECISION, "max-margin"))


def rounds_unsupported_reason(
    criterion: Criterion, features: PartFeatures, penalties: Any, gold: Gold, l2: float
) -> str | None:
    """Why dual ascent in rounds over groups of sequences cannot be used, or None if it can."""
    if l2 <= 0.0:
        return f"it needs an L2 penalty, and l2 is {l2:g}"
    if not isinstance(features, ChainFeatures):
        return "over groups of sequences that live apart it is for chains"
    if is_sparse(features, penalties):
        return f"over groups of sequences that live apart it is for fewer labels than {features.n_labels:,}"
    return unsupported_reason(criterion, features, gold, SUMS)


def has_planes(criterion: Criterion, features: PartFeatures) -> bool:
    """Whether the dual is that of max-margin over labellings of any structure; it may start from another model.

    First-order chains without pair features have flows instead.
    """
    if criterion.name != "max-margin" or isinstance(features, FlatFeatures):
        return False
    return not isinstance(features, ChainFeatures) or not (features.is_plain or features.dense)


def _start(layout: Layout) -> DualState:
    """The state with the gold labellings' marginals, and so with weights of zero."""
    alpha, transitions = layout.at_gold()
    n = len(transitions)
    parts = (*layout.zeros(), alpha, transitions, np.zeros(n, dtype=np.float32))
    if isinstance(layout, DeepPieceLayout):
        return DeepPieceState(*parts, pairs=layout.pairs_at_gold())
    return DualState(*parts)


def _shapes(state: DualState) -> list[tuple[int, ...]]:
    return [getattr(state, name).shape for name in state.arrays]
