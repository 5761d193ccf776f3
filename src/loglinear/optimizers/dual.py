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

The share is 4 l2 / (1 + mean ||x||^2), at most a half, ||x||^2 being the sum of squares of a position's attribute
values. It is halved after a pass that makes things worse. Nothing can run away: as mixtures of marginals, the kept ones
stay marginals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.criteria.criterion import CostCriterion
from loglinear.errors import OptionError
from loglinear.optimizers.dual_kernels import UNDERFLOW, dual_pass
from loglinear.optimizers.objective import Objective
from loglinear.optimizers.optimizer import Arrays, Optimizer, Result, register
from loglinear.optimizers.padded_layout import PaddedLayout, PaddedWeights

Float = npt.NDArray[np.float64]
Float32 = npt.NDArray[np.float32]
SAFETY = 4.0
GREATEST_SHARE, SMALLEST_SHARE = 0.5, 1e-6
WORSE = 0.01  # a rise by this share is more than the order of the sequences makes


@dataclass
class DualState:
    """Everything needed to go on as if never stopped.

    Attributes
    ----------
    iteration, evaluations : int
        Passes so far.
    value : float
        Losses as they were met in the last pass, and the penalty at its end.
    share : float
        How far a step goes.
    laid_out : PaddedWeights
    kept : float32 [N, W]
        The marginals of each position that the weights are made of, less the gold.
    kept_transitions : float32 [S, Y, Y]
        The same of each sequence's transitions.
    values : list of float
        ``value`` after each pass.
    """

    layout: PaddedLayout | None
    iteration: int
    evaluations: int
    value: float
    share: float
    laid_out: PaddedWeights
    kept: Float32
    kept_transitions: Float32
    values: list[float]

    @property
    def weights(self) -> Float:
        """The weights [D]."""
        assert self.layout is not None
        return self.layout.vector(self.laid_out)

    def copy(self) -> DualState:
        """The same, not to be changed by what comes."""
        weights = PaddedWeights(self.laid_out.rows.copy(), self.laid_out.lists.copy(), self.laid_out.transition.copy())
        return DualState(
            self.layout, self.iteration, self.evaluations, self.value, self.share, weights, self.kept.copy(),
            self.kept_transitions.copy(), list(self.values),
        )  # fmt: skip

    def to_arrays(self) -> Arrays:
        """All of it as named arrays, for a checkpoint."""
        return {
            "counts": np.array([self.iteration, self.evaluations], dtype=np.int64),
            "values": np.array([self.value, self.share, *self.values]),
            "rows": self.laid_out.rows.copy(),
            "lists": self.laid_out.lists.copy(),
            "transition": self.laid_out.transition.copy(),
            "kept": self.kept.copy(),
            "kept_transitions": self.kept_transitions.copy(),
        }


@register
@dataclass(frozen=True)
class DualAscent(Optimizer):
    """Passes of dual coordinate ascent until one of them changes little.

    Parameters
    ----------
    max_iter : int
        Most passes.
    tolerance : float
        Stop when a pass lowers the objective by less than ten times this share of it.
    seed : int
        Of the order of the sequences.
    """

    name = "dual"
    summary = "stochastic dual coordinate ascent: few passes, first-order chains with an L2 penalty"
    takes_l1 = False

    max_iter: int = 50
    tolerance: float = 1e-5
    seed: int = 0

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> DualState:
        """The state of :meth:`DualState.to_arrays`."""
        iteration, evaluations = (int(count) for count in arrays["counts"])
        value, share, *values = arrays["values"].tolist()
        weights = PaddedWeights(*(np.array(arrays[name]) for name in ("rows", "lists", "transition")))
        kept, transitions = np.array(arrays["kept"]), np.array(arrays["kept_transitions"])
        return DualState(None, iteration, evaluations, value, share, weights, kept, transitions, values)

    def minimise(
        self,
        objective: Objective,
        weights0: Float,
        *,
        l1: float = 0.0,
        callback: Callable[[DualState], bool | None] | None = None,
        state: DualState | None = None,
    ) -> Result:
        _check(objective, weights0)
        layout = PaddedLayout(objective.features, objective.corpus, objective.penalties)
        now = _start(objective, layout, weights0) if state is None else _resumed(state, layout, objective)
        message, converged = f"stopped after {self.max_iter} passes", False
        while now.iteration < self.max_iter:
            now = self._pass(objective, layout, now)
            if callback is not None and callback(now):
                message = "stopped by the caller"
                break
            change = abs(now.values[-2] - now.value) if len(now.values) > 1 else np.inf
            if change < 10.0 * self.tolerance * abs(now.value) or now.share < SMALLEST_SHARE:
                message, converged = f"a pass changed the objective by less than {10.0 * self.tolerance:g} of it", True
                break
        return Result(now, converged, message)

    def _pass(self, objective: Objective, layout: PaddedLayout, now: DualState) -> DualState:
        """The state after one more pass; if numbers run out of range it is gone again with smaller steps."""
        rng = np.random.default_rng([self.seed, now.iteration])
        order = rng.permutation(objective.corpus.n_sequences)
        criterion = objective.criterion
        costs = _padded_costs(criterion.cost.table, layout.width) if isinstance(criterion, CostCriterion) else NO_COSTS
        losses = np.zeros(objective.corpus.n_sequences)
        while True:
            after = now.copy()
            status = dual_pass(
                order, objective.corpus.offsets, layout.pointer, layout.middle, layout.ids, layout.values,
                after.laid_out.rows, layout.has_feature, layout.list_pointer, layout.list_labels, after.laid_out.lists,
                after.laid_out.transition, layout.has_transition, layout.transition_factor, layout.start, layout.stop,
                objective.gold.labels, costs, objective.sequence_weights, layout.n_labels, after.share, objective.l2,
                after.kept, after.kept_transitions, losses,
            )  # fmt: skip
            after.evaluations += 1
            after.value = float(losses.sum()) + objective.l2 * _square(after.laid_out)
            if status != UNDERFLOW:
                break
            if now.share < SMALLEST_SHARE:
                raise OptionError(
                    "optimizer='dual' works in single precision, which scores so far apart leave; use lbfgs"
                )
            now.share /= 2.0
            now.evaluations = after.evaluations
        if after.value > (1.0 + WORSE) * now.value:
            after.share /= 2.0
        after.iteration += 1
        after.values.append(after.value)
        return after


NO_COSTS = np.zeros((0, 0, 0), dtype=np.float32)


def _start(objective: Objective, layout: PaddedLayout, weights0: Float) -> DualState:
    n_positions, y = int(objective.corpus.offsets[-1]), layout.n_labels
    share = min(GREATEST_SHARE, SAFETY * objective.l2 / (1.0 + layout.mean_square))
    return DualState(
        layout, 0, 0, np.inf, share, layout.lay_out(weights0), np.zeros((n_positions, layout.width), dtype=np.float32),
        np.zeros((objective.corpus.n_sequences, y, y), dtype=np.float32), [],
    )  # fmt: skip


def _resumed(state: DualState, layout: PaddedLayout, objective: Objective) -> DualState:
    """A state that was stored, if it fits the problem."""
    n, s, y = int(objective.corpus.offsets[-1]), objective.corpus.n_sequences, layout.n_labels
    fits = state.laid_out.rows.shape == layout.has_feature.shape and state.kept.shape == (n, layout.width)
    if not fits or state.kept_transitions.shape != (s, y, y) or len(state.laid_out.lists) != len(layout.list_labels):
        raise OptionError("the checkpoint's state does not fit the data; remove it to start anew")
    state.layout = layout
    return state


def _check(objective: Objective, weights0: Float) -> None:
    """Refuse what has no such dual."""
    reason = None
    if objective.features.order != 1 or objective.features.edge is not None:
        reason = "it goes over first-order chains without pair features"
    elif objective.gold.allowed is not None:
        reason = "it needs one label for each token, and no sub-labels"
    elif objective.l2 <= 0.0:
        reason = f"it needs an L2 penalty, and l2 is {objective.l2:g}"
    elif weights0.any():
        reason = "it starts from zero, not from another model"
    if reason is not None:
        raise OptionError(f"optimizer='dual': {reason}; use lbfgs")


def _padded_costs(table: Float, width: int) -> Float32:
    """Costs [4, Y, Y] as [4, Y, W]."""
    padded = np.zeros((*table.shape[:2], width), dtype=np.float32)
    padded[:, :, : table.shape[2]] = table
    return padded


def _square(weights: PaddedWeights) -> float:
    """||w||^2."""
    return sum(
        float(np.einsum("i,i->", part.ravel(), part.ravel(), dtype=np.float64))
        for part in (weights.rows, weights.lists, weights.transition)
    )
